//! Real handshakes out of captures, through two relays, twice: identical bytes, fewer of them.
//!
//! The captures are not part of the project; without them the test says so and passes. With them it
//! demands minimum counts.

#![expect(
    clippy::disallowed_methods,
    reason = "a test reads files; the crate does not"
)]

#[path = "../../../../base/tandem-wire/tests/support/mod.rs"]
mod captured;

use data_encoding::HEXLOWER;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::support::sealed::server_key;
use crate::support::{Conversation, Pair, Plan};
use tandem_engine::Sender;
use tandem_record_key::Suite;
use tandem_tunnel::Event;
use tandem_wire::{Assembler, TcpFlags, TcpPacket};

/// Longer streams tell nothing more.
const MAX_STREAM: usize = 1 << 17;

/// One connection, as it is put together.
struct Found {
    streams: [Assembler; 2],
    said: Conversation,
}

impl Found {
    /// A segment of this end: what it adds without a gap is said now.
    fn segment(&mut self, side: usize, packet: &TcpPacket<'_>) {
        let stream = &mut self.streams[side];
        let before = stream.contiguous().len();
        stream.insert(packet.seq(), packet.payload());
        let new = stream.contiguous()[before..].to_vec();
        if !new.is_empty() {
            let sender = [Sender::Client, Sender::Server][side];
            self.said.turns.push((sender, new));
        }
    }
}

/// The connections of a capture whose SYN and SYN/ACK are in it.
fn conversations(packets: &[Vec<u8>]) -> Vec<Conversation> {
    let mut opened: BTreeMap<(SocketAddr, SocketAddr), Assembler> = BTreeMap::new();
    let mut found: BTreeMap<(SocketAddr, SocketAddr), Found> = BTreeMap::new();
    for bytes in packets {
        let Ok(packet) = TcpPacket::parse(bytes) else {
            continue;
        };
        let (from, to) = (packet.source(), packet.destination());
        let first = packet.seq().wrapping_add(1);
        let flags = packet.flags();
        match (flags.contains(TcpFlags::SYN), flags.contains(TcpFlags::ACK)) {
            (true, false) => {
                opened.insert((from, to), Assembler::new(first, MAX_STREAM));
            }
            (true, true) => {
                if let Some(client) = opened.remove(&(to, from)) {
                    let streams = [client, Assembler::new(first, MAX_STREAM)];
                    let said = Conversation::default();
                    found.insert((to, from), Found { streams, said });
                }
            }
            (false, _) => {
                if let Some(connection) = found.get_mut(&(from, to)) {
                    connection.segment(0, &packet);
                } else if let Some(connection) = found.get_mut(&(to, from)) {
                    connection.segment(1, &packet);
                }
            }
        }
    }
    found.into_values().map(|found| found.said).collect()
}

#[test]
fn real_connections_cross_to_the_byte_and_their_second_handshake_is_smaller() {
    let Some(folder) = captured::captures_folder() else {
        return;
    };
    let (mut all, mut finished, mut rebuilt) = (0, 0, 0);
    let (mut first_bytes, mut second_bytes) = (0, 0);
    for path in captured::capture_files(&folder) {
        for said in conversations(&captured::ip_packets(&path)) {
            let mut pair = Pair::default();
            let first = pair.run(&said, Plan::of(1));
            let second = pair.run(&said, Plan::of(1));
            let cut = Plan {
                cut: 500,
                ..Plan::of(2)
            };
            pair.run(&said, cut);
            all += 1;
            // Until a delta is answered there are frames: a few bytes where nothing else is gained.
            assert!(
                second.bytes() <= first.bytes() + 32,
                "{}: {} bytes, then {}",
                path.display(),
                first.bytes(),
                second.bytes()
            );
            if first.count(0, Event::HandshakeFinished) == 1 {
                finished += 1;
                rebuilt += second.count(0, Event::FlightRebuilt);
                first_bytes += first.bytes();
                second_bytes += second.bytes();
            }
        }
    }
    eprintln!(
        "{all} connections, {finished} full handshakes, {rebuilt} rebuilt: {first_bytes} bytes, \
         then {second_bytes}"
    );
    assert!(all >= 50 && finished >= 15 && rebuilt >= 15);
    assert!(second_bytes < first_bytes);
}

#[test]
fn a_real_sealed_flight_crosses_opened_on_the_first_visit() {
    let Some(folder) = captured::captures_folder() else {
        return;
    };
    let log = std::fs::read_to_string(folder.join("cryptohack/keylogfile.txt"));
    let log = log.expect("the key log is readable");
    let mut lines = log.lines();
    let fields = lines.find_map(|line| line.strip_prefix("SERVER_HANDSHAKE_TRAFFIC_SECRET "));
    let decoded = |hex: &str| {
        HEXLOWER
            .decode(hex.trim().as_bytes())
            .expect("hexadecimal digits")
    };
    let (random, secret) = fields.and_then(|it| it.split_once(' ')).expect("a secret");
    let key = server_key(Suite::Aes256Gcm, &decoded(random), &decoded(secret));
    let capture = folder.join("cryptohack/dsb-tls3.cryptohack.org.pcapng");
    let said = conversations(&captured::ip_packets(&capture)).remove(0);
    let plain = Pair::default().run(&said, Plan::of(1));
    let mut pair = Pair::default();
    pair.engines[1].release_key(key, pair.clock.now);
    let outcome = pair.run(&said, Plan::of(1));
    assert_eq!(outcome.count(0, Event::FlightRebuilt), 1);
    assert_eq!(outcome.count(1, Event::HandshakeFinished), 1);
    let (opened, plain) = (outcome.crossed[1].len(), plain.crossed[1].len());
    eprintln!("the server's bytes crossed in {opened}, without its key in {plain}");
    assert!(opened + 1_000 < plain, "the chain is compressed");
}
