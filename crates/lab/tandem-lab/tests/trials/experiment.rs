//! A whole experiment with the daemons, from its file to its rows; and what is left when it is
//! interrupted.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{self, io};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tandem_lab::{Captures, RunOptions, run_experiment};
use tandem_report::arm::Arm;
use tandem_report::row::{Crossed, Row};
use tandem_testbed::openssl::Openssl;
use tandem_testbed::{Effort, LabError};
use tempfile::TempDir;

/// The lab's own program.
const LAB: &str = env!("CARGO_BIN_EXE_tandem-lab");

/// An experiment of this project's.
fn experiment(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../experiments")
        .join(name)
}

/// All of an experiment, into a folder.
fn whole(file: PathBuf, out: &TempDir, exe: PathBuf) -> RunOptions {
    RunOptions {
        file,
        effort: Effort::Full,
        out: Some(out.path().to_owned()),
        exe,
        links: Vec::new(),
        endpoints: Vec::new(),
        arms: Vec::new(),
        situations: Vec::new(),
        trials: None,
        captures: Captures::Off,
    }
}

/// Runs an experiment; its rows, each with every byte delivered.
fn rows_of(options: &RunOptions) -> Result<Vec<Row>, LabError> {
    let summary = run_experiment(options)?;
    let text = fs::read_to_string(&summary.rows).map_err(io)?;
    let rows = text.lines().map(serde_json::from_str::<Row>);
    let rows: Vec<Row> = rows.map(|row| row.expect("a row")).collect();
    assert!(rows.iter().all(|row| row.ok && row.identical), "{rows:?}");
    Ok(rows)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn every_arm_delivers_every_byte_and_warm_proxies_carry_less() -> Result<(), LabError> {
    const NAME: &str = "every_arm_delivers_every_byte_and_warm_proxies_carry_less";
    let Some(exe) = common::tandem(NAME) else {
        return Ok(());
    };
    let out = tempfile::tempdir().map_err(io)?;
    let rows = rows_of(&RunOptions {
        captures: Captures::On,
        ..whole(experiment("smoke.toml"), &out, exe)
    })?;
    assert_eq!(rows.len(), 16, "eight arms, two trials each");
    let bytes = |arm: Arm| {
        rows.iter()
            .filter(|row| row.arm == arm)
            .filter_map(Row::tls_bytes)
            .min()
            .unwrap_or(0)
    };
    let certificates: u64 = rows[0].certificates.iter().map(|size| *size as u64).sum();
    assert!(bytes(Arm::Plain) > certificates);
    // Equal but for what TCP repeats on a busy machine.
    assert!(bytes(Arm::PassThrough) > certificates);
    for warm in [Arm::Packet, Arm::PacketMcveety] {
        assert!(bytes(warm) < certificates / 2, "{warm:?}: {}", bytes(warm));
    }
    let link_bytes = |arm: Arm| {
        let of_arm = rows.iter().filter(|row| row.arm == arm);
        of_arm.map(Row::link_bytes).min().unwrap_or(0)
    };
    assert!(link_bytes(Arm::Tunnel) < link_bytes(Arm::Plain) / 2);
    // The padded Initials of both ends, at the least.
    assert!(link_bytes(Arm::TunnelCold) > link_bytes(Arm::Tunnel) + 2 * 1_200);
    // Without deltas the chain crosses each time.
    assert!(link_bytes(Arm::Quic) > link_bytes(Arm::Tunnel) + certificates / 2);
    for row in &rows {
        // A tunnel that reads no handshakes cannot say what its streams carried, and on a busy
        // machine one may have come up over TCP, whose segments are not taken apart.
        let apart = row.parts.map(|parts| parts.total());
        let known = apart.is_none_or(|bytes| bytes == row.handshake_bytes());
        let is_known = apart.is_some() || row.arm.is_tunnel();
        assert!(known && is_known, "{row:?}");
        assert_eq!(row.tls_bytes().is_none(), row.arm.is_tunnel(), "{row:?}");
        assert_eq!(row.crossed.is_none(), row.arm.is_tunnel(), "{row:?}");
        assert!(row.seconds_first_byte > row.seconds_handshake, "{row:?}");
        assert!(
            row.handshake_bytes() > row.floor_bytes.unwrap_or(0),
            "{row:?}"
        );
        let proxied = row.arm != Arm::Plain;
        assert_eq!(row.proxy_cpu_us > 0, proxied, "{row:?}");
        assert_eq!(row.proxy_memory_kib > 0, proxied, "{row:?}");
    }
    for file in [
        "smoke.md",
        "smoke.run.json",
        "smoke-fast-three-packet.pcapng",
    ] {
        assert!(out.path().join(file).exists(), "{file}");
    }
    let info = fs::read_to_string(out.path().join("smoke.run.json")).map_err(io)?;
    assert!(
        info.contains("\"until\""),
        "when the last trial was over: {info}"
    );
    Ok(())
}

/// Chains of three both ways on a fast link.
const MUTUAL: &str = r#"
name = "mutual"
about = "clients with certificates"
seed = 1
trials = 1
links = ["fast"]
endpoints = ["mutual"]
arms = ["plain", "packet-none", "packet", "packet-cii", "packet-mcveety"]
[[link]]
name = "fast"
up = 4000000
down = 4000000
delay-ms = 5.0
[[endpoint]]
name = "mutual"
client = "s_client"
version = "1.2"
key = "ecdsa-p256"
chain = 3
client-chain = 3
"#;

#[test]
fn clients_certificates_cross_in_the_form_that_the_arm_says() -> Result<(), LabError> {
    const NAME: &str = "clients_certificates_cross_in_the_form_that_the_arm_says";
    let Some(exe) = common::tandem(NAME) else {
        return Ok(());
    };
    let out = tempfile::tempdir().map_err(io)?;
    let file = out.path().join("mutual.toml");
    fs::write(&file, MUTUAL).map_err(io)?;
    let mut expected = vec![
        (Arm::Plain, Crossed::Chain),
        (Arm::PacketNone, Crossed::Chain),
        (Arm::Packet, Crossed::Reference),
    ];
    if common::has_keytap(NAME, &exe) {
        expected.extend([
            (Arm::PacketCii, Crossed::Reference),
            (Arm::PacketMcveety, Crossed::Reference),
        ]);
    }
    let rows = rows_of(&RunOptions {
        arms: expected
            .iter()
            .map(|(arm, _)| arm.name().to_owned())
            .collect(),
        ..whole(file, &out, exe)
    })?;
    assert_eq!(rows.len(), expected.len(), "{rows:?}");
    for row in &rows {
        assert_eq!(row.client_certificates.len(), 3, "{row:?}");
        let crossed = (row.arm, row.client_crossed.unwrap_or(Crossed::Part));
        assert!(expected.contains(&crossed), "{row:?}");
    }
    Ok(())
}

#[test]
fn peers_resume_and_compress() -> Result<(), LabError> {
    const NAME: &str = "peers_resume_and_compress";
    let Some(exe) = common::tandem(NAME) else {
        return Ok(());
    };
    let out = tempfile::tempdir().map_err(io)?;
    let rows = rows_of(&RunOptions {
        links: words(&["tcdl-10"]),
        endpoints: words(&["openssl-three", "rustls-three"]),
        trials: Some(2),
        ..whole(experiment("peers.toml"), &out, exe)
    })?;
    // The least of the trials: what TCP repeats on a busy machine is not what is compared.
    let bytes = |endpoints: &str, arm: Arm| {
        rows.iter()
            .filter(|row| row.endpoints == endpoints && row.arm == arm)
            .filter_map(Row::tls_bytes)
            .min()
            .unwrap_or(0)
    };
    let certificates: u64 = rows[0].certificates.iter().map(|size| *size as u64).sum();
    let openssl = |arm| bytes("openssl-three", arm);
    assert!(openssl(Arm::Plain) > certificates);
    for resumed in [Arm::Resumption, Arm::ResumptionId, Arm::PacketResumption] {
        let bytes = openssl(resumed);
        assert!(
            bytes > 0 && bytes < openssl(Arm::Packet),
            "{resumed:?}: {bytes}"
        );
    }
    let rustls = |arm| bytes("rustls-three", arm);
    assert!(rustls(Arm::Packet) > 0 && rustls(Arm::Packet) < rustls(Arm::Rfc8879));
    assert!(rustls(Arm::Rfc8879) + 200 < rustls(Arm::Tls13), "{rows:?}");
    // Certificates of TLS 1.3 are encrypted: the proxies add their options to SYN, SYN/ACK and
    // hello, and change nothing else.
    let added = rustls(Arm::PacketTls13).checked_sub(rustls(Arm::Tls13));
    assert!(added.is_some_and(|added| added <= 3 * 12), "{added:?}");
    Ok(())
}

#[test]
fn openssh_delivers_every_byte_and_carries_a_chain_that_went_before_shortly() -> Result<(), LabError>
{
    const NAME: &str = "openssh_delivers_every_byte_and_carries_a_chain_that_went_before_shortly";
    let has_ssh = || tandem_testkit::has(&["ssh", "sshd", "ssh-keygen", "unshare"]);
    let Some(exe) = common::tandem(NAME).filter(|_| has_ssh()) else {
        return Ok(());
    };
    let out = tempfile::tempdir().map_err(io)?;
    let rows = rows_of(&RunOptions {
        links: words(&["tcdl-10"]),
        endpoints: words(&["natural-three"]),
        arms: words(&["plain", "ssh"]),
        trials: Some(2),
        ..whole(experiment("tunnels.toml"), &out, exe)
    })?;
    assert_eq!(rows.len(), 4, "{rows:?}");
    let certificates: u64 = rows[0].certificates.iter().map(|size| *size as u64).sum();
    let through = rows.iter().filter(|row| row.arm == Arm::Ssh);
    for row in through {
        assert!(row.handshake_bytes() < certificates, "{row:?}");
        assert!(row.proxy_cpu_us > 0 && row.tls_bytes().is_none(), "{row:?}");
    }
    Ok(())
}

#[test]
fn other_tunnels_deliver_every_byte_and_their_own_are_counted() -> Result<(), LabError> {
    const NAME: &str = "other_tunnels_deliver_every_byte_and_their_own_are_counted";
    let Some(exe) = common::tandem(NAME) else {
        return Ok(());
    };
    let mut arms = words(&["plain"]);
    for arm in ["wireguard", "hysteria", "quic-zstd"] {
        let program = match arm {
            "wireguard" => "wireguard-go",
            _ => "tandem-other-tunnels",
        };
        if tandem_testkit::is_installed(program) {
            arms.push(arm.to_owned());
        } else {
            tandem_testkit::not_tried(format_args!("{arm}: needs {program}"));
        }
    }
    let count = arms.len();
    let out = tempfile::tempdir().map_err(io)?;
    let rows = rows_of(&RunOptions {
        links: words(&["tcdl-10"]),
        endpoints: words(&["natural-three"]),
        arms,
        trials: Some(2),
        ..whole(experiment("tunnels.toml"), &out, exe)
    })?;
    assert_eq!(rows.len(), 2 * count, "{rows:?}");
    let certificates: u64 = rows[0].certificates.iter().map(|size| *size as u64).sum();
    for row in &rows {
        let is_whole = row.handshake_bytes() > certificates;
        assert_eq!(is_whole, row.arm != Arm::QuicZstd, "{row:?}");
        assert_eq!(row.proxy_cpu_us > 0, row.arm != Arm::Plain, "{row:?}");
    }
    Ok(())
}

#[test]
fn in_tls_1_3_a_chain_crosses_shortly_where_server_or_client_agrees() -> Result<(), LabError> {
    const NAME: &str = "in_tls_1_3_a_chain_crosses_shortly_where_server_or_client_agrees";
    let Some(exe) = common::tandem(NAME) else {
        return Ok(());
    };
    if !common::has_keytap(NAME, &exe) {
        return Ok(());
    }
    let out = tempfile::tempdir().map_err(io)?;
    let rows = rows_of(&RunOptions {
        links: words(&["tcdl-10"]),
        endpoints: words(&["natural-three"]),
        trials: Some(2),
        ..whole(experiment("tls13.toml"), &out, exe)
    })?;
    assert_eq!(rows.len(), 14, "{rows:?}");
    for row in &rows {
        assert!(row.ok && row.identical, "{row:?}");
    }
    let bytes = |arm: Arm| {
        let of_arm = rows.iter().filter(|row| row.arm == arm);
        of_arm.map(Row::link_bytes).min().unwrap_or(0)
    };
    let certificates: u64 = rows[0].certificates.iter().map(|size| *size as u64).sum();
    assert!(bytes(Arm::TunnelTls13) > certificates);
    assert!(bytes(Arm::TunnelConsent) + certificates / 2 < bytes(Arm::TunnelTls13));
    assert!(bytes(Arm::TunnelConsent) < bytes(Arm::Tls13) / 2);
    // A client's key costs the question and the answer.
    assert!(bytes(Arm::TunnelClientBytes) + certificates / 2 < bytes(Arm::TunnelTls13));
    assert!(bytes(Arm::TunnelClientBytes) < bytes(Arm::TunnelConsent) + 300);
    // On a line without delay a round trip costs no time, so a key is worth it.
    assert!(bytes(Arm::TunnelClientConsent) + certificates / 2 < bytes(Arm::TunnelTls13));
    Ok(())
}

#[test]
fn post_quantum_handshakes_cross_whole_and_shortly_where_the_server_agrees() -> Result<(), LabError>
{
    const NAME: &str = "post_quantum_handshakes_cross_whole_and_shortly_where_the_server_agrees";
    let Some(exe) = common::tandem(NAME) else {
        return Ok(());
    };
    if !common::has_keytap(NAME, &exe) {
        return Ok(());
    }
    if !Openssl::Current.is_installed() {
        tandem_testkit::skipped("needs OpenSSL 3.5: scripts/ensure-tools.sh openssl");
        return Ok(());
    }
    let out = tempfile::tempdir().map_err(io)?;
    let rows = rows_of(&RunOptions {
        links: words(&["certus-100"]),
        endpoints: words(&["ml-dsa-44", "ml-dsa-65"]),
        arms: words(&["tunnel", "tunnel-consent"]),
        trials: Some(1),
        ..whole(experiment("post-quantum.toml"), &out, exe)
    })?;
    assert_eq!(rows.len(), 4, "{rows:?}");
    for row in &rows {
        // Two hellos with their shares, a signature, two Finished.
        assert!(row.floor_bytes > Some(5_000), "{row:?}");
        let all = row.link_bytes();
        let certificates: u64 = row.certificates.iter().map(|size| *size as u64).sum();
        match row.arm {
            // A chain, and what is new in each handshake.
            Arm::TunnelConsent => assert!(all < 8_000 && all < certificates, "{row:?}"),
            _ => assert!(all > certificates + 5_000, "{row:?}"),
        }
    }
    Ok(())
}

/// Namespaces of labs that nobody holds.
fn leftovers() -> BTreeSet<String> {
    let entries = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| {
            let lab = name
                .strip_prefix("tandem-")
                .and_then(|rest| rest.split_once('-'));
            lab.is_some_and(|(lab, _)| {
                let lock = format!("/run/tandem-lab/{lab}.lock");
                let file = OpenOptions::new().write(true).open(lock);
                file.is_ok_and(|file| Flock::lock(file, FlockArg::LockExclusiveNonblock).is_ok())
            })
        })
        .collect()
}

#[test]
fn an_interrupted_run_takes_everything_down() -> Result<(), LabError> {
    const NAME: &str = "an_interrupted_run_takes_everything_down";
    if common::tandem(NAME).is_none() {
        return Ok(());
    }
    let out = tempfile::tempdir().map_err(io)?;
    let before = leftovers();
    let mut run = Command::new(LAB)
        .arg("run")
        .arg(experiment("smoke.toml"))
        .args(["--trials", "1000", "--out"])
        .arg(out.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(io)?;
    let mut words = BufReader::new(
        run.stderr
            .take()
            .ok_or_else(|| io(std::io::ErrorKind::BrokenPipe.into()))?,
    )
    .lines();
    let under_way = words
        .by_ref()
        .map_while(Result::ok)
        .any(|line| line.contains("3/8000"));
    assert!(under_way, "the run got to its third trial");
    let pid = i32::try_from(run.id()).unwrap_or_default();
    kill(Pid::from_raw(pid), Signal::SIGINT).map_err(|errno| io(errno.into()))?;
    let last = words.map_while(Result::ok).last().unwrap_or_default();
    let status = run.wait().map_err(io)?;
    assert_eq!(status.code(), Some(1), "{last}");
    assert!(last.contains("interrupted"), "{last}");
    assert!(leftovers().is_subset(&before), "something is left");
    let rows = fs::read_to_string(out.path().join("smoke.jsonl")).map_err(io)?;
    assert!(rows.lines().count() >= 3, "what was measured is kept");
    Ok(())
}
