//! Handshakes of real programs, one after another through two relays: how many bytes each flight
//! takes in the tunnel, with bounds.
//!
//! `recorded/` has the bytes of OpenSSL 3.0's `s_client` and of curl 7.88 with nginx 1.22, in
//! turns: *one* an RSA certificate, *three* a chain of three, *ticket* a chain of ECDSA and a
//! session ticket. *stapled* is of `s_client` with `s_server`: a chain of two with the timestamps
//! of two logs and an OCSP staple, which is another from the third handshake on. Keys and
//! certificates were made for this, and are used nowhere else.

use crate::support::{OPENING, engine, server_address};
use tandem_engine::{Engine, Role, Sender};
use tandem_link::tunnel::{Open, Target};
use tandem_store::MemoryStore;
use tandem_tunnel::{Clock, Input, Output, Relay};
use tandem_wire::Instant;

/// A handshake: who says what, in turns.
type Turns = Vec<(Sender, Vec<u8>)>;

fn recorded(text: &str) -> Vec<Turns> {
    let handshakes = text.split("--\n").skip(1);
    let turn = |line: &str| {
        let (sender, bytes) = line.split_once(' ').expect("a turn");
        let sender = match sender {
            "c" => Sender::Client,
            _ => Sender::Server,
        };
        let bytes = data_encoding::HEXLOWER.decode(bytes.as_bytes());
        (sender, bytes.expect("hexadecimal"))
    };
    let turns = |handshake: &str| handshake.lines().map(turn).collect();
    handshakes.map(turns).collect()
}

/// The proxies, from connection to connection.
struct Proxies {
    engines: [Engine<MemoryStore>; 2],
}

impl Proxies {
    fn new() -> Self {
        let engines = [Role::ClientSide, Role::ServerSide].map(engine);
        Self { engines }
    }

    /// What crosses for each turn of this handshake, in which nothing is in another's way.
    fn crossing(&mut self, turns: &Turns) -> Vec<Vec<u8>> {
        let clock = Clock {
            now: Instant::ZERO,
            wall: crate::support::THEN,
        };
        let target = Target::Address(server_address());
        let mut relays = [
            Relay::client_side(Open::to(target), clock.now),
            Relay::server_side(clock.now + OPENING),
        ];
        let mut crossing = Vec::new();
        for (sender, bytes) in turns {
            let near = match sender {
                Sender::Client => 0,
                Sender::Server => 1,
            };
            let mut inputs = vec![(near, Piece::Endpoint(bytes.clone()))];
            let (mut crossed, mut arrived) = (Vec::new(), Vec::new());
            while let Some((side, piece)) = inputs.pop() {
                let input = match &piece {
                    Piece::Endpoint(bytes) => Input::Endpoint(bytes),
                    Piece::Tunnel(bytes) => Input::Tunnel(bytes),
                    Piece::Connected => Input::Connected(server_address()),
                };
                relays[side].handle_input(input, &mut self.engines[side], clock);
                while let Some(output) = relays[side].poll_output() {
                    match output {
                        Output::Connect(_) => inputs.insert(0, (side, Piece::Connected)),
                        Output::ToEndpoint(bytes) => arrived.extend(bytes),
                        Output::ToTunnel(bytes) => {
                            crossed.extend_from_slice(&bytes);
                            inputs.insert(0, (1 - side, Piece::Tunnel(bytes)));
                        }
                        Output::Bulk | Output::Event(_) => {}
                        other => panic!("{other:?}"),
                    }
                }
            }
            assert_eq!(&arrived, bytes);
            crossing.push(crossed);
        }
        crossing
    }
}

enum Piece {
    Endpoint(Vec<u8>),
    Tunnel(Vec<u8>),
    Connected,
}

/// What each turn of each handshake of a case takes.
fn all(name: &str, text: &str) -> Vec<Vec<usize>> {
    let mut proxies = Proxies::new();
    let handshakes = recorded(text);
    let handshakes = handshakes.iter().enumerate().map(|(number, turns)| {
        let crossing = proxies.crossing(turns);
        let crossed: Vec<usize> = crossing.iter().map(Vec::len).collect();
        let said: Vec<usize> = turns.iter().map(|(_, bytes)| bytes.len()).collect();
        eprintln!("{name}, handshake {number}: {said:?} cross as {crossed:?}");
        crossed
    });
    handshakes.collect()
}

/// What each turn of the last handshake of a case takes.
fn last(name: &str, text: &str) -> Vec<usize> {
    all(name, text).pop().expect("there is one")
}

/// Fresh are random, session id, key share, signature, ticket, and Finished with its nonce and tag.
/// What comes to that is the target (5), names, lengths and the check over each delta (4).
#[test]
fn a_handshake_that_was_seen_before_takes_little_more_than_what_is_fresh() {
    let rsa = 32 + 32 + 32 + 256;
    let cases = [
        (
            "one",
            include_str!("recorded/one.txt"),
            [(32, 20), (rsa, 18), (72, 5), (40, 2)],
        ),
        (
            "three",
            include_str!("recorded/three.txt"),
            [(32, 20), (rsa, 18), (72, 5), (40, 2)],
        ),
        (
            "curl",
            include_str!("recorded/curl.txt"),
            [(96, 26), (rsa, 18), (72, 5), (40, 2)],
        ),
        (
            "ticket",
            include_str!("recorded/ticket.txt"),
            [(32, 20), (32 + 32 + 72, 18), (72, 5), (40 + 208, 20)],
        ),
    ];
    for (name, text, turns) in cases {
        for ((fresh, more), crossed) in turns.into_iter().zip(last(name, text)) {
            assert!(crossed <= fresh + more, "{name}: {crossed}, {fresh} fresh");
        }
    }
}

#[test]
fn a_hello_of_tls_1_3_takes_little_more_than_what_is_fresh() {
    let crossed = last("tls13", include_str!("recorded/tls13.txt"));
    assert!(crossed[0] <= 96 + 25, "{}", crossed[0]);
}

/// Where in the turns of a handshake the server's flight is.
const FLIGHT: usize = 1;

#[test]
fn a_new_staple_costs_what_is_new_in_it_and_spoils_neither_chain_nor_timestamps() {
    let stapled = all("stapled", include_str!("recorded/stapled.txt"));
    let flights: Vec<usize> = stapled.iter().map(|turns| turns[FLIGHT]).collect();
    let fresh = 32 + 32 + 32 + 256;
    // The staple's times, and its signature.
    let renewed = 3 * 15 + 256;
    assert!(flights[1] <= fresh + 18, "{flights:?}");
    assert!(flights[2] <= fresh + renewed + 40, "{flights:?}");
    assert!(flights[3] <= fresh + 18, "{flights:?}");
}

#[test]
fn staple_and_timestamps_outlive_the_memory_of_hellos() {
    let handshakes = recorded(include_str!("recorded/stapled.txt"));
    let mut proxies = Proxies::new();
    proxies.crossing(&handshakes[0]);
    // Both were started anew; what is left is in their stores.
    for engine in &mut proxies.engines {
        engine.hello_missed();
        engine.server_flight_not_rebuilt();
    }
    let crossed = proxies.crossing(&handshakes[1])[FLIGHT].len();
    eprintln!("after a restart the server's flight crosses as {crossed}");
    let fresh = 32 + 32 + 32 + 256;
    assert!(crossed <= fresh + 110, "{crossed}");
}
