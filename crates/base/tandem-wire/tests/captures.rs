//! Every packet and every clear TLS handshake of real captures: parsed, and the same bytes when
//! written again.
//!
//! The captures are not part of the project; without them the tests say so and pass. With them they
//! demand minimum counts, so that a parser that refuses everything fails.

mod support;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use tandem_wire::tls::handshake;
use tandem_wire::tls::record::Records;
use tandem_wire::tls::stream::{self, HandshakeScanner, MessageSpan};
use tandem_wire::tls::{
    CertificateList, CertificateStatus, ClientHello, ClientHelloRepr, ContentType, HandshakeType,
    ProtocolVersion, ScanEnd, ServerHello, ServerHelloRepr, certificate,
};
use tandem_wire::{Assembler, Edit, Inserted, PacketError, TcpFlags, TcpPacket, TlsError};

/// Largest stream of the captures is below this.
const STREAM_LIMIT: usize = 1 << 20;

type Flow = (SocketAddr, SocketAddr);

/// The TCP payload streams of a capture, one for each direction of each connection, in order of
/// appearance.
fn streams(path: &Path) -> Vec<(Flow, Assembler)> {
    let mut current: BTreeMap<Flow, usize> = BTreeMap::new();
    let mut all: Vec<(Flow, Assembler)> = Vec::new();
    for bytes in support::ip_packets(path) {
        let Ok(packet) = TcpPacket::parse(&bytes) else {
            continue;
        };
        let flow = (packet.source(), packet.destination());
        let is_syn = packet.flags().contains(TcpFlags::SYN);
        let first = packet.seq().wrapping_add(u32::from(is_syn));
        let known = current
            .get(&flow)
            .copied()
            .filter(|index| !is_syn || all[*index].1.start_seq() == first);
        let index = known.unwrap_or_else(|| {
            all.push((flow, Assembler::new(first, STREAM_LIMIT)));
            current.insert(flow, all.len() - 1);
            all.len() - 1
        });
        let outcome = all[index].1.insert(first, packet.payload());
        assert!(
            matches!(outcome, Inserted::New | Inserted::Duplicate),
            "{}: {flow:?}: {outcome:?}",
            path.display()
        );
    }
    all
}

#[test]
fn every_packet_is_rebuilt_as_the_same_bytes() {
    let Some(folder) = support::captures_folder() else {
        return;
    };
    let mut same = 0;
    let mut repaired = 0;
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    let mut buffer = Vec::new();
    for path in support::capture_files(&folder) {
        for bytes in support::ip_packets(&path) {
            let packet = match TcpPacket::parse(&bytes) {
                Ok(packet) => packet,
                Err(error) => {
                    *refused.entry(error.to_string()).or_default() += 1;
                    assert!(
                        matches!(
                            error,
                            PacketError::NotTcp | PacketError::Truncated | PacketError::Fragment
                        ),
                        "{}: {error}",
                        path.display()
                    );
                    continue;
                }
            };
            // Each field edited to what it is already: everything is written anew.
            let edit = Edit {
                seq: Some(packet.seq()),
                ack: Some(packet.ack()),
                flags: Some(packet.flags()),
                window: Some(packet.window()),
                options: Some(packet.options_bytes()),
                payload: Some(packet.payload()),
                identification_ahead: 0,
            };
            packet
                .rebuild_into(&edit, &mut buffer)
                .expect("what was parsed fits");
            if packet.checksums_valid() {
                same += 1;
                assert_eq!(buffer, packet.bytes(), "{}", path.display());
                assert_eq!(
                    packet.rebuilt(&Edit::default()).expect("fits"),
                    packet.bytes()
                );
            } else {
                // Captured before the network card finished the checksum.
                repaired += 1;
                let again = TcpPacket::parse(&buffer).expect("what was built parses");
                assert!(again.checksums_valid());
                assert_eq!(again.payload(), packet.payload());
                assert_eq!(again.options_bytes(), packet.options_bytes());
            }
        }
    }
    eprintln!("packets: {same} the same, {repaired} with finished checksums, refused: {refused:?}");
    assert!(same >= 2204, "{same}");
}

#[derive(Debug, Default)]
struct Counts {
    streams_from_byte_0: usize,
    streams_after_starttls: usize,
    messages: BTreeMap<u8, usize>,
    in_several_records: usize,
    versions: BTreeMap<String, usize>,
    ends: BTreeMap<String, usize>,
    retries: usize,
    client_names: usize,
    refused: Vec<String>,
}

impl Counts {
    fn parsed<T>(
        &mut self,
        name: &str,
        message: &MessageSpan,
        result: Result<T, TlsError>,
    ) -> Option<T> {
        if let Err(error) = &result {
            self.refused
                .push(format!("{name}, type {}: {error}", message.msg_type.0));
        }
        result.ok()
    }

    fn message(&self, msg_type: HandshakeType) -> usize {
        self.messages.get(&msg_type.0).copied().unwrap_or_default()
    }
}

/// The first offset where TLS begins: a record with a hello, maybe after alerts. 0 for TLS from the
/// first byte on.
fn find_hello(stream: &[u8]) -> Option<usize> {
    let is_hello = |at: usize| {
        let rest = &stream[at..];
        let hello = Records::new(rest)
            .map_while(Result::ok)
            .find(|record| record.header.content_type != ContentType::Alert);
        hello.is_some_and(|record| {
            record.header.content_type == ContentType::Handshake
                && matches!(record.fragment, [1 | 2, ..])
        })
    };
    // TLS after STARTTLS follows on the end of a line or, in XMPP, of a tag.
    (0..stream.len())
        .find(|at| (*at == 0 || matches!(stream[at - 1], b'\n' | b'>')) && is_hello(*at))
}

fn check_stream(name: &str, stream: &[u8], counts: &mut Counts) {
    let scan = stream::scan::messages(stream);
    let mut growing = HandshakeScanner::new();
    for len in 0..=stream.len() {
        growing.advance(&stream[..len]);
    }
    assert_eq!(*growing.scan(), scan, "{name}");
    check_records(name, stream);
    for message in &scan.messages {
        check_message(name, stream, message, counts);
    }
    let end = match scan.end {
        ScanEnd::NotTls(error) => format!("NotTls({error})"),
        end => format!("{end:?}"),
    };
    *counts.ends.entry(end).or_default() += 1;
}

fn check_records(name: &str, stream: &[u8]) {
    let mut records = Records::new(stream);
    let mut written = Vec::new();
    for record in records.by_ref() {
        let Ok(record) = record else { break };
        written.extend(record.header.to_bytes());
        written.extend(record.fragment);
    }
    assert_eq!(written, stream[..records.offset()], "{name}");
}

/// A tag of SEQUENCE and a length, in two or three bytes, that covers the rest (X.690, section
/// 8.1.3).
fn is_whole_der_sequence(der: &[u8]) -> bool {
    match *der {
        [0x30, 0x82, a, b, ref rest @ ..] => rest.len() == usize::from(a) << 8 | usize::from(b),
        [0x30, 0x83, a, b, c, ref rest @ ..] => {
            rest.len() == usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c)
        }
        _ => false,
    }
}

fn check_message(name: &str, stream: &[u8], message: &MessageSpan, counts: &mut Counts) {
    *counts.messages.entry(message.msg_type.0).or_default() += 1;
    counts.in_several_records += usize::from(message.pieces.len() > 1);
    let body = message.body(stream);
    let mut written = Vec::new();
    handshake::write_message(&mut written, message.msg_type, &body).expect("it fits");
    assert_eq!(written, *message.gather(stream), "{name}");
    written.clear();
    match message.msg_type {
        HandshakeType::CLIENT_HELLO => {
            let Some(hello) = counts.parsed(name, message, ClientHello::parse(&body)) else {
                return;
            };
            hello.write(&mut written);
            assert_eq!(written, *body, "{name}");
            written.clear();
            ClientHelloRepr::from(&hello)
                .write(&mut written)
                .expect("it fits");
            assert_eq!(written, *body, "{name}");
            counts.client_names += usize::from(hello.server_name().is_some());
        }
        HandshakeType::SERVER_HELLO => {
            let Some(hello) = counts.parsed(name, message, ServerHello::parse(&body)) else {
                return;
            };
            hello.write(&mut written);
            assert_eq!(written, *body, "{name}");
            written.clear();
            ServerHelloRepr::from(&hello)
                .write(&mut written)
                .expect("it fits");
            assert_eq!(written, *body, "{name}");
            counts.retries += usize::from(hello.is_hello_retry_request());
            *counts
                .versions
                .entry(hello.selected_version().to_string())
                .or_default() += 1;
        }
        HandshakeType::CERTIFICATE => {
            let Some(list) = counts.parsed(name, message, CertificateList::parse(&body)) else {
                return;
            };
            list.write(&mut written);
            assert_eq!(written, *body, "{name}");
            written.clear();
            certificate::write_certificates(&mut written, list.iter().map(|item| item.der))
                .expect("it fits");
            assert_eq!(written, *body, "{name}");
            for item in list {
                assert!(is_whole_der_sequence(item.der), "{name}");
            }
        }
        HandshakeType::CERTIFICATE_STATUS => {
            let Some(status) = counts.parsed(name, message, CertificateStatus::parse(&body)) else {
                return;
            };
            status.write(&mut written);
            assert_eq!(written, *body, "{name}");
        }
        _ => {}
    }
}

#[test]
fn every_clear_handshake_is_written_as_the_same_bytes() {
    let Some(folder) = support::captures_folder() else {
        return;
    };
    let mut counts = Counts::default();
    let mut with_tls = Vec::new();
    let mut without_tls = Vec::new();
    for path in support::capture_files(&folder) {
        let name = path
            .file_name()
            .expect("a file has a name")
            .to_string_lossy()
            .into_owned();
        let mut from_byte_0 = 0;
        for (flow, assembler) in streams(&path) {
            let stream = assembler.contiguous();
            let name = format!("{name} {} > {}", flow.0, flow.1);
            match find_hello(stream) {
                Some(0) => {
                    from_byte_0 += 1;
                    check_stream(&name, stream, &mut counts);
                }
                Some(at) => {
                    counts.streams_after_starttls += 1;
                    check_stream(&name, &stream[at..], &mut counts);
                }
                None => {}
            }
        }
        counts.streams_from_byte_0 += from_byte_0;
        if from_byte_0 > 0 {
            with_tls.push(name)
        } else {
            without_tls.push(name)
        }
    }
    eprintln!(
        "{} captures with TLS from byte 0; {} without: {without_tls:?}",
        with_tls.len(),
        without_tls.len()
    );
    eprintln!("{counts:#?}");
    assert!(with_tls.len() >= 55, "{}", with_tls.len());
    // DTLS, STUN, OCSP over HTTP, and the SSL 2.0 handshake are none of ours.
    for other in [
        "dtls1_0.pcap",
        "dtls1_2.pcap",
        "dtls13-cid.pcap",
        "webrtc-stun.pcap",
        "ssl-v2.pcap",
    ] {
        assert!(without_tls.iter().any(|name| name == other), "{other}");
    }
    assert!(counts.streams_from_byte_0 >= 139, "{counts:?}");
    assert!(counts.streams_after_starttls >= 12, "{counts:?}");
    for (msg_type, at_least) in [
        (HandshakeType::CLIENT_HELLO, 79),
        (HandshakeType::SERVER_HELLO, 73),
        (HandshakeType::NEW_SESSION_TICKET, 34),
        (HandshakeType::CERTIFICATE, 61),
        (HandshakeType::SERVER_KEY_EXCHANGE, 45),
        (HandshakeType::CERTIFICATE_REQUEST, 5),
        (HandshakeType::SERVER_HELLO_DONE, 54),
        (HandshakeType::CERTIFICATE_VERIFY, 2),
        (HandshakeType::CLIENT_KEY_EXCHANGE, 51),
        (HandshakeType::CERTIFICATE_STATUS, 5),
    ] {
        assert!(
            counts.message(msg_type) >= at_least,
            "{msg_type:?}: {counts:?}"
        );
    }
    assert!(counts.in_several_records >= 1, "{counts:?}");
    assert!(counts.retries >= 1, "{counts:?}");
    assert!(counts.client_names >= 27, "{counts:?}");
    for version in [
        ProtocolVersion::TLS1_0,
        ProtocolVersion::TLS1_1,
        ProtocolVersion::TLS1_2,
        ProtocolVersion::TLS1_3,
        ProtocolVersion(0x7f0e),
        ProtocolVersion(0x7f10),
        ProtocolVersion(0x7f13),
        ProtocolVersion(0x7f17),
        // An experiment of Chrome 63.
        ProtocolVersion(0x7e01),
    ] {
        assert!(
            counts.versions.contains_key(&version.to_string()),
            "{version}: {counts:?}"
        );
    }
    // That capture was damaged on purpose.
    assert_eq!(counts.refused.len(), 1, "{:?}", counts.refused);
    assert!(
        counts.refused[0].starts_with("tls1.2-protocol-violation.pcap "),
        "{:?}",
        counts.refused
    );
}
