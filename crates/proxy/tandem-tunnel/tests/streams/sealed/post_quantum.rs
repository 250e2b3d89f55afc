//! Sealed handshakes with the sizes of post-quantum algorithms: hellos over several segments, and
//! chains of some 10 to 25 kB.
//!
//! Is not: the algorithms; filler of their lengths stands for keys and signatures.

use super::*;
use crate::support::tls::client_hello;

/// Lengths of an algorithm for signatures.
#[derive(Debug, Clone, Copy)]
struct Algorithm {
    key: usize,
    signature: usize,
}

/// ML-DSA-44, -65 and -87 (FIPS 204, table 2).
const ML_DSA: [Algorithm; 3] = [
    Algorithm {
        key: 1_312,
        signature: 2_420,
    },
    Algorithm {
        key: 1_952,
        signature: 3_309,
    },
    Algorithm {
        key: 2_592,
        signature: 4_627,
    },
];

/// A share of X25519MLKEM768 from a client and one from a server (FIPS 203, table 3, and 32 bytes
/// of X25519), and one of X25519, which clients send beside it.
const CLIENT_SHARE: usize = 1_216;
const SERVER_SHARE: usize = 1_120;
const CLASSIC_SHARE: usize = 32;
const X25519MLKEM768: u16 = 0x11ec;
const X25519: u16 = 0x001d;

/// What a message has beside its delta, and a delta beside what is fresh: suite, IV, key, check,
/// layout, instructions.
const AROUND: usize = 1 + 12 + 32 + 16 + 2 + 60;

/// Where the length of the block of extensions stands in the records of `client_hello` and
/// `server_hello`: behind both headers, the version, the random, and what is between.
const IN_CLIENT_HELLO: usize = 5 + 4 + 2 + 32 + 1 + 6 + 2;
const IN_SERVER_HELLO: usize = 5 + 4 + 2 + 32 + 1 + 2 + 1;

fn share(group: u16, length: usize, seed: u64) -> Vec<u8> {
    let head = [group.to_be_bytes(), (length as u16).to_be_bytes()].concat();
    [head, noise(length, seed)].concat()
}

/// A hello in its record with an extension key_share more.
fn with_key_share(hello: &[u8], block: usize, shares: &[u8]) -> Vec<u8> {
    let mut longer = hello.to_vec();
    longer.extend([0, 51]);
    longer.extend((shares.len() as u16).to_be_bytes());
    longer.extend(shares);
    // The record's length, the message's, the block's.
    for at in [3, 7, block] {
        let length = (longer.len() - at - 2) as u16;
        longer[at..at + 2].copy_from_slice(&length.to_be_bytes());
    }
    longer
}

/// A certificate: names and the like, some 260 bytes of them, a key and a signature.
fn certificate_of(algorithm: Algorithm, number: u64) -> Vec<u8> {
    let Algorithm { key, signature } = algorithm;
    let name = format!("www{number}.post-quantum.example");
    let text = certificate_like(200, number)
        .into_iter()
        .chain(name.bytes());
    let text = text.chain(noise(20, number));
    text.chain(noise(key + signature, number)).collect()
}

/// One visit; the chain's leaf is this one.
fn visit(algorithm: Algorithm, leaf: u64, seed: u64) -> Visit {
    let entries: Vec<_> = [leaf, 11, 12]
        .map(|number| (certificate_of(algorithm, number), Vec::new()))
        .into();
    let messages = [
        message(8, &[0, 0]),
        certificate(&entries),
        message(15, &noise(4 + algorithm.signature, seed + 30)),
    ]
    .concat();
    let suite = Suite::Aes256Gcm;
    let visit = Visit::new(suite, &messages, &[], seed);
    let shares = [
        share(X25519MLKEM768, CLIENT_SHARE, seed + 40),
        share(X25519, CLASSIC_SHARE, seed + 41),
    ]
    .concat();
    let shares = [&(shares.len() as u16).to_be_bytes()[..], &shares].concat();
    let hello = client_hello("www.example", &[], seed);
    let old = server_hello(suite, &noise(32, seed + 4));
    let answer = share(X25519MLKEM768, SERVER_SHARE, seed + 42);
    let visit = visit.with_turn(0, |turn| {
        *turn = with_key_share(&hello, IN_CLIENT_HELLO, &shares);
    });
    visit.with_flight(|flight| {
        let longer = with_key_share(&old, IN_SERVER_HELLO, &answer);
        drop(flight.splice(..old.len(), longer));
    })
}

/// In pieces of a segment, as they come.
fn in_segments(seed: u64) -> Plan {
    Plan {
        cut: 1_400,
        ..Plan::of(seed)
    }
}

/// What crosses of the hello, and of the server's flight, where without proxies' help all does.
fn of_hello_and_flight(visit: &Visit, outcome: &Outcome) -> [usize; 2] {
    let plain = Pair::default().run(&visit.said, in_segments(1));
    // A session ticket stands behind the flight.
    let sizes = [
        visit.said.turns[0].1.len(),
        visit.said.turns[1].1.len() - 185,
    ];
    [0, 1].map(|side| {
        let spared = plain.crossed[side].len() - outcome.crossed[side].len();
        sizes[side] - spared
    })
}

#[test]
fn chains_cross_once_and_then_only_what_is_fresh() {
    for algorithm in ML_DSA {
        let mut pair = Pair::default();
        for seed in 1..=3 {
            let visit = visit(algorithm, 10, 1_000 * seed);
            let outcome = pair.released(&visit, in_segments(seed));
            assert_eq!(outcome.count(0, Event::FlightRebuilt), 1, "visit {seed}");
            for side in 0..2 {
                assert_eq!(outcome.count(side, Event::HandshakeFinished), 1);
            }
            if seed > 1 {
                let [hello, flight] = of_hello_and_flight(&visit, &outcome);
                // Random and shares.
                let fresh = 32 + CLIENT_SHARE + CLASSIC_SHARE;
                assert!(hello < fresh + 40, "{hello} for {fresh}");
                // Random, share, signature, Finished.
                let fresh = 32 + SERVER_SHARE + algorithm.signature + 48;
                assert!(flight < fresh + AROUND, "{flight} for {fresh}");
            }
        }
    }
}

#[test]
fn a_new_leaf_crosses_alone() {
    for algorithm in ML_DSA {
        let mut pair = Pair::default();
        pair.released(&visit(algorithm, 10, 1_000), in_segments(1));
        let visit = visit(algorithm, 20, 2_000);
        let outcome = pair.released(&visit, in_segments(2));
        assert_eq!(outcome.count(0, Event::FlightRebuilt), 1);
        let [_, flight] = of_hello_and_flight(&visit, &outcome);
        let Algorithm { key, signature } = algorithm;
        let fresh = 32 + SERVER_SHARE + signature + 48;
        let leaf = key + signature + 260;
        assert!(
            flight < fresh + leaf + AROUND,
            "{flight} for {fresh} and {leaf}"
        );
    }
}

#[test]
fn a_flight_without_a_key_arrives_to_the_byte() {
    for (seed, algorithm) in (1..).zip(ML_DSA) {
        let visit = visit(algorithm, 10, 1_000);
        // The run itself compares what arrives.
        let outcome = Pair::default().run(&visit.said, in_segments(seed));
        assert_eq!(outcome.count(0, Event::FlightRebuilt), 0);
    }
}
