//! Real captures: figures against tshark's, which is another reading of the same bytes, and figures
//! that are known.
//!
//! The captures are not part of the project and tshark may be absent; the tests then say so and
//! pass. With them they demand minimum counts, so that a reader that finds nothing fails.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test reads files and starts tshark; the crate does neither"
)]

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tandem_estimate::{DamageClass, Options, Outcome, estimate};
use tandem_wire::tls::ProtocolVersion;

/// Captures there are at least, where there are any.
const MIN_CAPTURES: usize = 70;

/// Where the two readings differ, and why.
const DIFFERENCES: [(&str, &str); 2] = [
    (
        "dsb-tls3.cryptohack.org.pcapng",
        "brings its keys: tshark decrypts the certificates",
    ),
    (
        "tls-fragmented-handshake.pcap.gz",
        "a Certificate message of 339 kB that tshark does not put together",
    ),
];

fn data() -> Option<PathBuf> {
    tandem_testkit::data("captures")
}

fn captures(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder is readable") {
        let path = entry.expect("the entry is readable").path();
        if path.is_dir() {
            all.extend(captures(&path));
        } else if path.to_string_lossy().contains(".pcap") {
            all.push(path);
        }
    }
    all.sort();
    all
}

fn name(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .expect("a name in ASCII")
}

fn read(path: &Path) -> Outcome {
    let file = std::fs::File::open(path).expect("the capture is readable");
    let outcome = estimate(file, &Options::default(), &mut |_| {})
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    tandem_estimate::fuzzing::check(&outcome);
    outcome
}

/// What tshark finds: handshakes by version, and DER bytes in clear Certificate messages.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    versions: BTreeMap<String, u64>,
    certificate_bytes: u64,
}

fn tshark(path: &Path) -> Found {
    let fields = [
        "tcp.stream",
        "tls.handshake.type",
        "tls.handshake.version",
        "tls.handshake.extensions.supported_version",
        "tls.handshake.certificate_length",
    ];
    let mut command = Command::new("tshark");
    command.args(["-n", "-o", "tcp.reassemble_out_of_order:TRUE"]);
    // Ports that tshark does not expect TLS on.
    command.args([
        "-d",
        "tcp.port==6667,tls",
        "-d",
        "tcp.port==80,tls",
        "-Y",
        "tls.handshake && tcp",
        "-T",
        "fields",
    ]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.arg("-r").arg(path).output().expect("tshark starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );

    let mut streams: BTreeMap<u64, Option<String>> = BTreeMap::new();
    let mut certificate_bytes = 0;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let columns: Vec<Vec<&str>> = line
            .split('\t')
            .map(|column| {
                column
                    .split(',')
                    .filter(|value| !value.is_empty())
                    .collect()
            })
            .collect();
        let [stream, types, versions, supported, lengths] = &columns[..] else {
            panic!("tshark printed {line}");
        };
        let stream = stream[0].parse().expect("a stream number");
        certificate_bytes += lengths
            .iter()
            .map(|len| len.parse::<u64>().expect("a length"))
            .sum::<u64>();
        if types.contains(&"1") {
            streams.entry(stream).or_default();
        }
        if types.contains(&"2") {
            let version = supported
                .first()
                .or(versions.first())
                .map(|version| version_name(version));
            streams.insert(stream, version);
        }
    }
    let mut found = Found {
        certificate_bytes,
        ..Found::default()
    };
    for version in streams.into_values() {
        *found
            .versions
            .entry(version.unwrap_or_else(|| "unknown".to_owned()))
            .or_default() += 1;
    }
    found
}

fn version_name(hex: &str) -> String {
    let number = u16::from_str_radix(hex.trim_start_matches("0x"), 16).expect("a version in hex");
    let version = ProtocolVersion(number).to_string();
    if number >> 8 == 0x7e {
        format!("TLS 1.3 experiment {version}")
    } else {
        version
    }
}

fn ours(outcome: &Outcome) -> Found {
    let report = &outcome.report;
    Found {
        versions: report
            .by_version
            .iter()
            .map(|row| (row.version.clone(), row.share.handshakes))
            .collect(),
        certificate_bytes: report.certificate_bytes,
    }
}

#[test]
fn handshakes_versions_and_certificates_are_those_that_tshark_finds() {
    let Some(folder) = data() else { return };
    if !tandem_testkit::has(&["tshark"]) {
        return;
    }
    let captures = captures(&folder);
    assert!(captures.len() >= MIN_CAPTURES);
    let (mut handshakes, mut certificate_bytes) = (0, 0);
    for path in &captures {
        let (ours, theirs) = (ours(&read(path)), tshark(path));
        match DIFFERENCES.iter().find(|(file, _)| *file == name(path)) {
            Some((file, reason)) => assert_ne!(ours, theirs, "{file} no longer differs: {reason}"),
            None => assert_eq!(ours, theirs, "{}", path.display()),
        }
        handshakes += ours.versions.values().sum::<u64>();
        certificate_bytes += ours.certificate_bytes;
    }
    assert!(handshakes >= 80, "{handshakes} handshakes");
    assert!(
        certificate_bytes >= 200_000,
        "{certificate_bytes} certificate bytes"
    );
}

/// Frames and captured bytes, as another reader of capture files sees them.
fn frames(path: &Path) -> u64 {
    let mut bytes = std::fs::read(path).expect("the capture is readable");
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut unpacked = Vec::new();
        flate2::read::MultiGzDecoder::new(&bytes[..])
            .read_to_end(&mut unpacked)
            .expect("a gzip file");
        bytes = unpacked;
    }
    let mut reader = pcap_parser::create_reader(1 << 20, &bytes[..]).expect("a capture");
    let mut frames = 0;
    loop {
        match reader.next() {
            Ok((offset, block)) => {
                frames += u64::from(match block {
                    pcap_parser::PcapBlockOwned::Legacy(_) => true,
                    pcap_parser::PcapBlockOwned::LegacyHeader(_) => false,
                    pcap_parser::PcapBlockOwned::NG(block) => block.is_data_block(),
                });
                reader.consume(offset);
            }
            Err(pcap_parser::PcapError::Eof) => return frames,
            Err(pcap_parser::PcapError::Incomplete(_)) => {
                reader.refill().expect("memory does not fail")
            }
            Err(error) => panic!("{}: {error:?}", path.display()),
        }
    }
}

#[test]
fn every_frame_is_read_that_another_reader_finds() {
    let Some(folder) = data() else { return };
    for path in captures(&folder) {
        let outcome = read(&path);
        assert_eq!(
            outcome.report.capture.frames,
            frames(&path),
            "{}",
            path.display()
        );
        let torn = outcome
            .damage
            .iter()
            .any(|damage| damage.class() == DamageClass::File);
        assert!(!torn, "{}: {:?}", path.display(), outcome.damage);
    }
}

#[test]
fn figures_that_are_known_come_out() {
    let Some(folder) = data() else { return };
    let zeek = |file: &str| read(&folder.join("zeek").join(file)).report;

    // Eight connections to one site, whose two names each send one of two chains.
    let report = zeek("google-cert-repeat.pcap");
    assert_eq!((report.handshakes, report.completed_handshakes), (8, 8));
    assert_eq!(
        (
            report.certificate_bytes,
            report.server_chains,
            report.distinct_server_chains
        ),
        (32_656, 8, 2)
    );
    assert_eq!(
        (report.saved_cold_bytes, report.saved_warm_bytes),
        // Of the first chain of the second name, the issuers and what its leaf has in common.
        (28_876, 32_424)
    );

    let report = zeek("client-certificate.pcap");
    assert_eq!(
        (
            report.client_certificate_handshakes,
            report.client_certificate_bytes
        ),
        (1, 3417)
    );

    let report = zeek("tls13_psk_succesfull.pcap");
    assert_eq!(
        (
            report.resumed_handshakes,
            report.opaque_handshakes,
            report.completed_handshakes
        ),
        (1, 1, 1)
    );

    for (file, protocol) in [
        ("smtp-starttls.pcap", "starttls"),
        ("imap-starttls.pcap", "starttls"),
        ("irc-starttls.pcap", "starttls"),
        ("pop3-starttls.pcap", "pop3"),
        ("xmpp-starttls.pcap", "xmpp"),
    ] {
        let report = zeek(file);
        assert_eq!(
            report
                .out_of_reach
                .after_plaintext_by_protocol
                .get(protocol),
            Some(&1),
            "{file}"
        );
        assert_eq!(
            (
                report.handshakes,
                report.completed_handshakes,
                report.saved_warm_bytes
            ),
            (1, 1, 0),
            "{file}"
        );
        assert!(
            report.out_of_reach.after_plaintext.certificate_bytes > 1000,
            "{file}"
        );
    }

    let report = zeek("ssl-v2.pcap");
    assert_eq!(
        (report.handshakes, report.out_of_reach.ssl2_connections),
        (0, 1)
    );

    let report = zeek("tls-fragmented-handshake.pcap.gz");
    assert_eq!(
        (report.certificate_bytes, report.saved_warm_bytes),
        (339_623, 0)
    );
    assert_eq!(report.out_of_reach.large_flight.handshakes, 1);

    let report = zeek("dtls1_2.pcap");
    assert_eq!(
        (
            report.handshakes,
            report.capture.dtls_client_hello_datagrams
        ),
        (0, 4)
    );
}

#[test]
fn the_opt_in_estimate_is_near_the_truth_where_the_truth_is_known() {
    let Some(folder) = data() else { return };
    let report = read(&folder.join("cryptohack/dsb-tls3.cryptohack.org.pcapng")).report;
    // tshark, with the keys that the capture brings, finds three certificates of 4,014 bytes; each
    // has 3 bytes of length and 2 of extensions in TLS 1.3's list (RFC 8446, section 4.4.2).
    let truth = 4014.0 + 3.0 * 5.0;
    let estimate = report.opt_in.certificate_bytes_estimated as f64;
    assert!(
        (estimate / truth - 1.0).abs() < 0.02,
        "{estimate} against {truth}"
    );
    assert_eq!(report.certificate_bytes, 0);
}

#[test]
fn a_real_capture_cut_at_every_offset_is_read_as_far_as_it_goes() {
    let Some(folder) = data() else { return };
    for file in [
        "cryptohack/dsb-tls3.cryptohack.org.pcapng",
        "zeek/ecdsa-cert.pcap",
    ] {
        let bytes = std::fs::read(folder.join(file)).expect("the capture is readable");
        let whole = estimate(&bytes[..], &Options::default(), &mut |_| {}).expect("a capture");
        assert_eq!(whole.damage, [], "{file}");
        let mut cut = 0;
        for len in 4..bytes.len() {
            let outcome = estimate(&bytes[..len], &Options::default(), &mut |_| {})
                .unwrap_or_else(|error| panic!("{file} cut at {len}: {error}"));
            cut += usize::from(!outcome.damage.is_empty());
            assert!(outcome.report.capture.frames <= whole.report.capture.frames);
        }
        let between = bytes.len() - 4 - cut;
        // One place for each frame, header or block where nothing tells that more was to come.
        assert!(
            between <= 2 * whole.report.capture.frames as usize + 8,
            "{file}: {between}"
        );
    }
}
