//! The Wireshark dissector (`extras/wireshark/mc13.lua`), run by `tshark` over what crossed the
//! hops of a real session, and over the same with bytes changed.
//!
//! The captures are written here: the hops record what they carry, and nothing has to be root.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::common::{Counting, Piece, Place, Ran};

/// Payload of a packet of the capture, in bytes. A hello with ML-KEM fits in: its extensions come
/// in a random order, and one that is cut before the name of the protocol is not recognised.
const SEGMENT: usize = 2000;

/// A capture file of these pieces (libpcap's format, raw IP), as TCP from 10.0.0.1 to 10.0.0.2.
fn write(file: &Path, pieces: &[Piece]) {
    let mut bytes = Vec::new();
    // Times in microseconds; version 2.4, of two numbers of two bytes.
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101] {
        bytes.extend(word.to_le_bytes());
    }
    let mut sequence: BTreeMap<(usize, bool), u32> = BTreeMap::new();
    let mut packets = Vec::new();
    for piece in pieces {
        let way = (piece.connection, piece.is_to_client);
        for payload in piece.bytes.chunks(SEGMENT) {
            let acknowledged = *sequence.get(&(way.0, !way.1)).unwrap_or(&1);
            let at = sequence.entry(way).or_insert(1);
            packets.push(packet(way, *at, acknowledged, payload));
            *at += u32::try_from(payload.len()).expect("short");
        }
    }
    for (number, packet) in packets.iter().enumerate() {
        let length = u32::try_from(packet.len()).expect("short");
        let time = u32::try_from(number).expect("few");
        for word in [time, 0, length, length] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(packet);
    }
    std::fs::write(file, bytes).expect("a file");
}

/// One packet; checksums are left at zero, which `tshark` does not check by default.
fn packet(
    (connection, is_to_client): (usize, bool),
    at: u32,
    acknowledged: u32,
    payload: &[u8],
) -> Vec<u8> {
    let (client, server) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let client = (client, 40_000 + u16::try_from(connection).expect("few"));
    let (from, to) = if is_to_client {
        ((server, 4_000), client)
    } else {
        (client, (server, 4_000))
    };
    let length = u16::try_from(40 + payload.len()).expect("a segment");
    let mut bytes = vec![0x45, 0];
    bytes.extend(length.to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    bytes.extend(from.0.octets());
    bytes.extend(to.0.octets());
    bytes.extend(from.1.to_be_bytes());
    bytes.extend(to.1.to_be_bytes());
    bytes.extend(at.to_be_bytes());
    bytes.extend(acknowledged.to_be_bytes());
    bytes.extend([0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
    bytes.extend(payload);
    bytes
}

/// What `tshark` prints for these columns, a line each.
fn shown(file: &Path, filter: &str, columns: &[&str]) -> Vec<Vec<String>> {
    let mut arguments = vec!["-Y", filter, "-T", "fields"];
    columns
        .iter()
        .for_each(|column| arguments.extend(["-e", column]));
    run(file, &arguments)
        .lines()
        .map(|line| line.split('\t').map(str::to_owned).collect())
        .collect()
}

/// What it prints with these arguments. The dissector must not have failed.
fn run(file: &Path, arguments: &[&str]) -> String {
    let script: PathBuf =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../extras/wireshark/mc13.lua");
    let mut command = Command::new("tshark");
    command
        .args(["-n", "-X", &format!("lua_script:{}", script.display())])
        .arg("-r")
        .arg(file)
        .args(arguments)
        // No settings of whoever runs the test.
        .env("HOME", file.parent().expect("a file lies in a folder"))
        .env_remove("XDG_CONFIG_HOME");
    let ran = Ran::of(&mut command);
    let text = String::from_utf8(ran.stdout).expect("UTF-8");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(!ran.stderr.contains("Lua"), "{}", ran.stderr);
    assert!(!text.contains("Lua Error"), "{text}");
    text
}

/// All values of one field, in order.
fn values(file: &Path, filter: &str, field: &str) -> Vec<String> {
    shown(file, filter, &[field])
        .iter()
        .flat_map(|row| row[0].split(','))
        .filter(|value| !value.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The types of the frames that one side sent, read by their headers alone.
fn types(pieces: &[Piece], is_to_client: bool) -> Vec<u8> {
    let bytes: Vec<u8> = pieces
        .iter()
        .filter(|piece| piece.is_to_client == is_to_client)
        .flat_map(|piece| piece.bytes.clone())
        .collect();
    let (mut types, mut rest) = (Vec::new(), bytes.as_slice());
    while let [kind, _, _, high, low, ..] = *rest {
        types.push(kind);
        rest = &rest[5 + usize::from(u16::from_be_bytes([high, low]))..];
    }
    types
}

/// The two hops of a session with one middlebox, which may read the bodies of responses.
fn session(place: &Place) -> (String, [Vec<Piece>; 2]) {
    let server = place.server(&[]);
    let last = Counting::before(&server.address);
    let null = place.middlebox("null.example", "null", "");
    let first = Counting::before(&null.address);
    let via = format!("null.example@{}=response-body:read", first.address);
    let ran = Ran::of(&mut place.get("/", &last.address, &[&via], &["--json"]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    (last.address.clone(), [first.pieces(), last.pieces()])
}

#[test]
fn wireshark_shows_every_frame_of_a_session() {
    if !tandem_testkit::has(&["tshark"]) {
        return;
    }
    let place = Place::new();
    let (server, hops) = session(&place);
    let file = place.path("hop.pcap");
    for (hop, pieces) in hops.iter().enumerate() {
        write(&file, pieces);
        assert_eq!(shown(&file, "mc13.malformed", &["frame.number"]).len(), 0);
        for (is_to_client, side) in [(false, "dstport"), (true, "srcport")] {
            let sent = types(pieces, is_to_client);
            let seen = values(&file, &format!("tcp.{side} == 4000"), "mc13.type");
            let sent: Vec<String> = sent.iter().map(|kind| format!("{kind:#04x}")).collect();
            assert_eq!(seen, sent, "hop {hop}, to the client: {is_to_client}");
            assert!(seen.contains(&"0xb1".to_owned()), "{seen:?}");
        }
        let routes = values(&file, "mc13", "mc13.route.address");
        assert_eq!(routes, [server.clone()][..1 - hop]);
        // The server speaks of itself once, and each endpoint has one leg.
        let kinds = values(&file, "mc13", "mc13.type");
        assert_eq!(kinds.iter().filter(|kind| *kind == "0xb2").count(), 1);
        let filter = "mc13.leg.endpoint == 0 || mc13.leg.endpoint == 1";
        let legs = values(&file, filter, "mc13.leg.endpoint");
        let other = if hop == 0 { "0" } else { "1" };
        assert!(legs.iter().all(|leg| leg == other), "{legs:?}");
        // The contexts of a response: heads, bodies, and what ends a direction.
        let contexts = values(&file, "tcp.srcport == 4000", "mc13.record.context");
        assert_eq!(contexts.first().map(String::as_str), Some("3"));
        assert!(contexts.contains(&"4".to_owned()), "{contexts:?}");
        assert_eq!(contexts.last().map(String::as_str), Some("0"));
        let numbers = values(&file, "tcp.srcport == 4000", "mc13.record.seq");
        let wanted: Vec<String> = (0..numbers.len()).map(|seq| seq.to_string()).collect();
        assert_eq!(numbers, wanted);
        // The end-to-end session is shown by Wireshark's own dissector.
        let hellos = values(&file, "mc13", "tls.handshake.type");
        assert_eq!(hellos, ["1", "2"]);
        let names = values(&file, "mc13", "tls.handshake.extensions_alpn_str");
        assert_eq!(names.first().map(String::as_str), Some("mc13"));
        let words = shown(&file, "mc13.record.context == 4", &["_ws.col.Info"]);
        assert!(words[0][0].contains("in context 4"), "{words:?}");
    }
}

#[test]
fn changed_bytes_raise_no_error_in_the_dissector() {
    if !tandem_testkit::has(&["tshark"]) {
        return;
    }
    let place = Place::new();
    let (_, hops) = session(&place);
    let mut state = 1_u64;
    let mut next = |below: usize| {
        // Knuth's generator: the same bytes in each run.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).expect("31 bits") % below
    };
    let mut all = Vec::new();
    for (number, hop) in (0..40).flat_map(|round| hops.iter().map(move |hop| (round, hop))) {
        let mut pieces = hop.clone();
        for piece in &mut pieces {
            piece.connection = 2 * number + usize::from(std::ptr::eq(hop, &raw const hops[1]));
            for _ in 0..=next(3) {
                let at = next(piece.bytes.len());
                piece.bytes[at] = u8::try_from(next(256)).expect("a byte");
            }
            if next(4) == 0 {
                piece.bytes.truncate(1 + next(piece.bytes.len()));
            }
        }
        all.extend(pieces);
    }
    let file = place.path("changed.pcap");
    write(&file, &all);
    // Without Wireshark's own dissector of TLS, which such records have made fail.
    let said = run(&file, &["--disable-protocol", "tls", "-O", "mc13"]);
    assert!(said.contains("Malformed"), "what is wrong is said");
}
