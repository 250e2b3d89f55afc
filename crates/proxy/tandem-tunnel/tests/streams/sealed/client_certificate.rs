//! Clients' certificates in TLS 1.3: with the key of the client's direction the client's flight
//! crosses opened, behind a server's that did and asks for a certificate; in any doubt it passes as
//! it is, at once.
//!
//! Is not: the server's flight, which `sealed` and `client_key` are about; nor post-handshake
//! authentication (RFC 8446, section 4.6.2), which is under application keys.

use tandem_engine::ClientCertificates;

use super::client_key::consenting;
use super::*;

mod worth;

/// A ChangeCipherSpec.
fn change() -> Vec<u8> {
    record(20, &[1])
}

/// A server's messages that ask for a certificate.
fn asking(seed: u64) -> Vec<u8> {
    let request = message(13, &[&[0][..], &noise(150, 9)].concat());
    let mut messages = messages(seed);
    // Behind EncryptedExtensions.
    messages.splice(12..12, request);
    messages
}

/// Of these sizes, with a signature that is new each time.
fn client_messages(sizes: &[usize], seed: u64) -> Vec<u8> {
    let entries: Vec<(Vec<u8>, Vec<u8>)> = (40..)
        .zip(sizes)
        .map(|(seed, size)| (certificate_like(*size, seed), Vec::new()))
        .collect();
    let verify = message(15, &noise(260, seed + 60));
    [certificate(&entries), verify].concat()
}

/// A record for each message: Certificate, CertificateVerify, Finished.
const APART: &Cuts = &[(1_000 + 900 + 18, 0), (264, 0)];

pub(super) fn visit(seed: u64) -> Visit {
    Visit::new(Suite::Aes128Gcm, &asking(seed), &[], seed).with_client_flight(
        &change(),
        &client_messages(&[1_000, 900], seed),
        APART,
    )
}

impl Pair {
    /// A visit whose server releases its key in time, and whose client its own.
    pub(super) fn both_released(&mut self, visit: &Visit) -> Outcome {
        self.engines[0].release_key(visit.client_key(), self.clock.now);
        self.released(visit, Plan::of(1))
    }

    /// A visit whose client releases both keys, once ServerHello has come to it.
    fn both_of_client(&mut self, visit: &Visit) -> Outcome {
        self.engines[0].release_key(visit.client_key(), self.clock.now);
        self.of_client = Some((Duration::from_millis(1), visit.key_by_client()));
        self.run(&visit.said, Plan::of(1))
    }
}

/// What either side's engine has counted.
fn both_counted<const N: usize>(pair: &mut Pair, names: [&str; N]) -> [[u64; N]; 2] {
    [0, 1].map(|side| {
        let events: Vec<_> = pair.engines[side].events().collect();
        names.map(|name| {
            let events = events.iter().filter(|event| event.name() == name);
            events.map(|it| it.amount()).sum()
        })
    })
}

pub(super) fn has(bytes: &[u8], secret: &[u8]) -> bool {
    bytes.windows(secret.len()).any(|it| it == secret)
}

/// Why clients' flights that a key had opened crossed as they are.
fn client_dropped(outcome: &Outcome) -> Vec<Dropped> {
    let reasons = outcome.events[0].iter().filter_map(|event| match event {
        Event::OpenedDropped(why) => Some(*why),
        _ => None,
    });
    reasons.collect()
}

#[test]
fn with_both_consents_a_client_s_chain_crosses_once_without_a_round_trip() {
    let mut pair = Pair::default();
    let mut crossed = Vec::new();
    for seed in [1_000, 2_000, 3_000] {
        let (visit, begun) = (visit(seed), pair.clock.now);
        let outcome = pair.both_released(&visit);
        assert_eq!(pair.clock.now, begun, "nobody waits");
        for side in 0..2 {
            assert_eq!(outcome.count(side, Event::OpenedWritten), 1, "{seed}");
            assert_eq!(outcome.count(side, Event::FlightRebuilt), 1, "{seed}");
            assert_eq!(outcome.count(side, Event::HandshakeFinished), 1, "{seed}");
            assert_eq!(outcome.count(side, Event::HoldTimedOut), 0, "{seed}");
        }
        // Each key crosses once, from its own side.
        let [client, server] = [visit.client_key(), visit.key()];
        assert!(has(&outcome.crossed[0], client.key()) && !has(&outcome.crossed[1], client.key()));
        assert!(has(&outcome.crossed[1], server.key()) && !has(&outcome.crossed[0], server.key()));
        crossed.push(outcome.crossed[0].len());
    }
    let plain = Pair::default().run(&visit(3_000).said, Plan::of(1));
    let plain = plain.crossed[0].len();
    assert!(crossed[0] < plain, "{crossed:?} {plain}");
    for later in &crossed[1..] {
        assert!(later + 1_700 < plain, "{crossed:?} {plain}");
    }
    let names = [
        "flights_opened",
        "flights_sealed",
        "record_keys_used",
        "record_keys_handed_over",
        "client_chains_learned",
    ];
    let [near, far] = both_counted(&mut pair, names);
    assert_eq!((near, far), ([3, 3, 3, 3, 3], [3, 3, 3, 0, 3]));
}

#[test]
fn a_server_s_consent_alone_leaves_the_client_s_chain_closed() {
    let mut pair = Pair::default();
    for seed in [1_000, 2_000] {
        let (visit, begun) = (visit(seed), pair.clock.now);
        // Even if it releases the client's key: that is not its own.
        pair.engines[1].release_key(visit.client_key(), begun);
        let outcome = pair.released(&visit, Plan::of(1));
        assert_eq!(pair.clock.now, begun, "nobody waits");
        assert_eq!(outcome.count(0, Event::OpenedWritten), 0, "{seed}");
        assert_eq!(outcome.count(0, Event::FlightRebuilt), 1, "{seed}");
        let key = visit.client_key();
        assert!(outcome.crossed.iter().all(|bytes| !has(bytes, key.key())));
        let names = ["record_keys_unused_direction", "client_chains_learned"];
        let [near, far] = both_counted(&mut pair, names);
        assert_eq!((near, far), ([0, 0], [1, 0]), "{seed}");
    }
}

#[test]
fn a_chain_stays_closed_where_its_side_leaves_it_alone_and_costs_misses_where_the_far_one_does() {
    let (kept, none) = (ClientCertificates::Persistent, ClientCertificates::None);
    for (near, far, opened, missed, learned) in [
        (none, none, 0, [0; 4], [0, 0]),
        (none, kept, 0, [0; 4], [0, 0]),
        (kept, none, 1, [0, 1, 0, 1], [1, 0]),
        (kept, kept, 1, [0; 4], [1, 1]),
    ] {
        let mut pair = Pair::with(near, far);
        let misses = [1_000, 2_000, 3_000, 4_000].map(|seed| {
            let visit = visit(seed);
            let outcome = pair.both_released(&visit);
            assert_eq!(outcome.count(0, Event::OpenedWritten), opened);
            let key = visit.client_key();
            assert_eq!(has(&outcome.crossed[0], key.key()), opened > 0);
            let counted = both_counted(&mut pair, ["client_chains_learned"]);
            assert_eq!(
                counted.map(|[count]| count),
                learned,
                "{near:?} and {far:?}"
            );
            outcome.count(1, Event::FlightMissed(Miss::NotHeld))
        });
        assert_eq!(misses, missed, "{near:?} and {far:?}");
    }
}

#[test]
fn with_the_client_s_consent_its_own_chain_crosses_once_too() {
    let mut pair = consenting();
    let mut crossed = Vec::new();
    for seed in [1_000, 2_000, 3_000] {
        let visit = visit(seed);
        let outcome = pair.both_of_client(&visit);
        for side in 0..2 {
            assert_eq!(outcome.count(side, Event::OpenedWritten), 1, "{seed}");
            assert_eq!(outcome.count(side, Event::HandshakeFinished), 1, "{seed}");
        }
        let key = visit.client_key();
        assert!(has(&outcome.crossed[0], key.key()) && !has(&outcome.crossed[1], key.key()));
        crossed.push(outcome.crossed[0].len());
    }
    let plain = Pair::default().run(&visit(3_000).said, Plan::of(1));
    for later in &crossed[1..] {
        assert!(later + 1_700 < plain.crossed[0].len(), "{crossed:?}");
    }
    let names = [
        "flights_opened",
        "flights_sealed",
        "record_keys_used",
        "record_keys_handed_over",
    ];
    let [near, far] = both_counted(&mut pair, names);
    assert_eq!((near, far), ([3, 3, 6, 6], [3, 3, 3, 0]));
}

#[test]
fn whatever_way_a_client_writes_its_flight_it_arrives_to_the_byte() {
    let long = noise(300, 3);
    let compressed = {
        let chain = noise(1_500, 4);
        let length = (chain.len() as u32).to_be_bytes();
        let body = [&[0, 2, 0, 16, 0], &length[1..], &chain].concat();
        [message(25, &body), message(15, &noise(260, 5))].concat()
    };
    let plain = client_messages(&[1_000, 900], 1);
    let forms: [(&str, Vec<u8>, &[u8], &Cuts); 7] = [
        ("a record for each message", change(), &plain, APART),
        ("one record for all", change(), &plain, &[]),
        ("no ChangeCipherSpec", Vec::new(), &plain, APART),
        ("padded", change(), &plain, &[(1_918, 106), (264, 248)]),
        (
            "cut over records",
            change(),
            &plain,
            &[(3, 0), (700, 0), (700, 9)],
        ),
        ("compressed", change(), &compressed, &[(1_512, 0)]),
        (
            "one small certificate",
            change(),
            &client_messages(&[60], 1),
            &[],
        ),
    ];
    for (what, clear, messages, cuts) in forms {
        for suite in Suite::ALL {
            let mut pair = Pair::default();
            let mut last = 0;
            for seed in [1_000, 2_000] {
                let visit = Visit::new(suite, &asking(seed), &[], seed);
                let visit = visit.with_client_flight(&clear, messages, cuts);
                // A request follows in the same segment.
                let visit = visit.with_turn(2, |answer| answer.extend(record(23, &long)));
                let outcome = pair.both_released(&visit);
                assert_eq!(
                    outcome.count(0, Event::OpenedWritten),
                    1,
                    "{what} {suite:?}"
                );
                assert_eq!(
                    outcome.count(1, Event::FlightRebuilt),
                    1,
                    "{what} {suite:?}"
                );
                assert_eq!(outcome.count(1, Event::HandshakeFinished), 1, "{what}");
                last = outcome.crossed[0].len();
            }
            let said = Visit::new(suite, &asking(2_000), &[], 2_000);
            let said = said.with_client_flight(&clear, messages, cuts);
            let plain = Pair::default().run(&said.said, Plan::of(1));
            let small = messages.len() < 400;
            assert!(
                small || last + 1_000 < plain.crossed[0].len(),
                "{what} {last}"
            );
        }
    }
}

#[test]
fn behind_a_request_for_another_hello_a_client_s_flight_crosses_opened() {
    for change_in in 0..3 {
        // Its ChangeCipherSpec is in front of the second hello.
        let visit = |seed| {
            Visit::new(Suite::Aes128Gcm, &asking(seed), &[], seed)
                .with_client_flight(&[], &client_messages(&[1_000, 900], seed), APART)
                .with_retry(change_in)
        };
        let mut pair = Pair::default();
        let mut crossed = Vec::new();
        for seed in [1_000, 2_000] {
            let outcome = pair.both_released(&visit(seed));
            for side in 0..2 {
                assert_eq!(outcome.count(side, Event::OpenedWritten), 1, "{change_in}");
                assert_eq!(outcome.count(side, Event::HandshakeFinished), 1);
            }
            crossed.push(outcome.crossed[0].len());
        }
        let plain = Pair::default().run(&visit(2_000).said, Plan::of(1));
        assert!(crossed[1] + 1_800 < plain.crossed[0].len(), "{crossed:?}");
    }
}

#[test]
fn without_the_client_s_key_or_with_a_wrong_one_its_flight_passes_at_once() {
    type Released = fn(&Visit) -> Option<RecordKey>;
    let wrong = |visit: &Visit| {
        let (key, random) = (visit.client_key(), *visit.client_key().client_random());
        RecordKey::new(
            Direction::FromClient,
            visit.suite,
            random,
            &[9; 12],
            key.key(),
        )
        .ok()
    };
    let keys: [(&str, Released, [u64; 2]); 4] = [
        ("none", |_| None, [1, 0]),
        (
            "another connection's",
            |_| Some(self::visit(7_000).client_key()),
            [1, 0],
        ),
        ("wrong", wrong, [0, 1]),
        (
            "another suite's",
            |_| Some(Visit::new(Suite::Aes256Gcm, &[], &[], 1_000).client_key()),
            [1, 0],
        ),
    ];
    for (what, key, counts) in keys {
        let mut pair = Pair::default();
        let visit = visit(1_000);
        let begun = pair.clock.now;
        if let Some(key) = key(&visit) {
            pair.engines[0].release_key(key, begun);
        }
        let outcome = pair.released(&visit, Plan::of(1));
        assert_eq!(pair.clock.now, begun, "{what}: nobody waits");
        assert_eq!(outcome.count(0, Event::OpenedWritten), 0, "{what}");
        assert_eq!(outcome.count(1, Event::HandshakeFinished), 1, "{what}");
        assert_eq!(client_dropped(&outcome), [], "{what}");
        let names = ["record_keys_missing", "flights_not_opened_unproved"];
        let [near, _] = both_counted(&mut pair, names);
        assert_eq!(near, counts, "{what}");
    }
}

#[test]
fn a_key_of_the_client_s_direction_is_of_use_once() {
    let mut pair = Pair::default();
    for (number, opened) in [(0, 1), (1, 0)] {
        let visit = visit(1_000);
        if number == 0 {
            pair.engines[0].release_key(visit.client_key(), pair.clock.now);
        }
        let outcome = pair.released(&visit, Plan::of(1));
        assert_eq!(outcome.count(0, Event::OpenedWritten), opened, "{number}");
        // This one comes late.
        pair.engines[0].release_key(visit.client_key(), pair.clock.now);
        pair.clock.now += Duration::from_secs(10);
        pair.engines[0].expire_keys(pair.clock.now);
        let [near, _] = both_counted(&mut pair, ["record_keys_unused_direction"]);
        assert_eq!(near, [1], "{number}");
    }
}

#[test]
fn what_a_client_sends_in_place_of_a_chain_passes_as_it_is() {
    let asked = || Visit::new(Suite::Aes128Gcm, &asking(1), &[], 1_000);
    let empty = asked().with_client_flight(&change(), &certificate(&[]), &[(8, 0)]);
    let alert = {
        let visit = asked();
        let mut alert = change();
        tandem_seal::Sealer::new(&visit.client_key())
            .seal(
                tandem_wire::tls::ContentType::Alert,
                &[2, 116],
                0,
                &mut alert,
            )
            .expect("short");
        visit.with_answer(alert)
    };
    let changed = self::visit(1_000).with_turn(2, |answer| answer[6 + 700] ^= 1);
    let later = self::visit(1_000).with_turn(2, |answer| *answer.last_mut().expect("some") ^= 1);
    for (what, visit, reason) in [
        ("no certificate", empty, "flights_not_opened_form"),
        ("an alert", alert, "flights_not_opened_form"),
        (
            "a first record that is changed",
            changed,
            "flights_not_opened_unproved",
        ),
        (
            "a last record that is changed",
            later,
            "flights_not_opened_record",
        ),
    ] {
        let mut pair = Pair::default();
        let begun = pair.clock.now;
        let outcome = pair.both_released(&visit);
        assert_eq!(pair.clock.now, begun, "{what}: nobody waits");
        assert_eq!(outcome.count(0, Event::OpenedWritten), 0, "{what}");
        let [near, far] = both_counted(&mut pair, [reason, "client_chains_learned"]);
        assert_eq!((near, far), ([1, 0], [0, 0]), "{what}");
    }
}

#[test]
fn where_no_certificate_is_asked_for_nothing_of_the_client_s_is_opened() {
    let visit = |seed| {
        Visit::new(Suite::Aes128Gcm, &messages(seed), &[], seed).with_client_flight(
            &change(),
            &client_messages(&[1_000], seed),
            &[],
        )
    };
    let mut pair = consenting();
    let outcome = pair.both_of_client(&visit(1_000));
    assert_eq!(outcome.count(0, Event::FlightRebuilt), 1);
    assert_eq!(outcome.count(0, Event::OpenedWritten), 0);
    let names = [
        "flights_opened",
        "record_keys_unused_direction",
        "record_keys_missing",
    ];
    let [near, _] = both_counted(&mut pair, names);
    assert_eq!(near, [0, 1, 0], "the key goes as soon as that is known");
}

#[test]
fn a_flight_that_does_not_become_whole_is_held_as_long_as_one_in_clear() {
    let mut pair = Pair::default();
    let mut visit = visit(1_000);
    // The rest comes once the server has got the beginning.
    visit.said.turns.truncate(3);
    let rest = visit.said.turns[2].1.split_off(1_960);
    let turns = [
        (Sender::Server, record(23, &noise(90, 3))),
        (Sender::Client, rest),
    ];
    visit.said.turns.extend(turns);
    let begun = pair.clock.now;
    let outcome = pair.both_released(&visit);
    assert_eq!(pair.clock.now, begun + tandem_tunnel::CLIENT_HOLD);
    assert_eq!(outcome.count(0, Event::HoldTimedOut), 1);
    assert_eq!(client_dropped(&outcome), [Dropped::HeldTooLong]);
}

#[test]
fn a_server_side_that_has_lost_its_store_gets_the_bytes_and_holds_the_chain_again() {
    let mut pair = Pair::default();
    for seed in [1_000, 2_000] {
        pair.both_released(&visit(seed));
    }
    *pair.engines[1].store() = tandem_store::MemoryStore::default();
    let missed = Event::FlightMissed(Miss::NotHeld);
    let mut crossed = Vec::new();
    for (seed, misses) in [(3_000, 1), (4_000, 0), (5_000, 0)] {
        let outcome = pair.both_released(&visit(seed));
        assert_eq!(outcome.count(1, missed), misses, "{seed}");
        assert_eq!(outcome.count(1, Event::HandshakeFinished), 1, "{seed}");
        crossed.push(outcome.crossed[0].len());
    }
    assert!(crossed[2] + 1_000 < crossed[1], "{crossed:?}");
}

#[test]
fn a_message_of_a_client_s_flight_that_nobody_asked_for_is_missed_or_ends_its_stream() {
    let sealed = |body: &[u8]| {
        let mut bytes = Vec::new();
        Frame::Sealed(Piece::new(body.to_vec()).expect("a body")).write(&mut bytes);
        bytes
    };
    // In front of the hello it ends the stream; behind it, the original is asked for.
    for (has_hello, is_refused) in [(false, true), (true, false)] {
        let hello = Piece::new(visit(1_000).said.turns[0].1.clone()).expect("a hello");
        let hello = has_hello.then_some(Frame::Bytes(hello));
        let (mut relay, mut engine, clock) = told(hello.as_slice());
        relay.handle_input(Input::Tunnel(&sealed(&[0; 60])), &mut engine, clock);
        let outputs: Vec<_> = std::iter::from_fn(|| relay.poll_output()).collect();
        let refused = outputs.contains(&Output::ResetTunnel(Ending::Malformed));
        assert_eq!(refused, is_refused);
        let missed = outputs
            .iter()
            .any(|output| matches!(output, Output::Event(Event::FlightMissed(_))));
        assert_eq!(missed, !is_refused);
    }
}

proptest! {
    /// `Pair::run` demands the endpoints' bytes at each step.
    #[test]
    fn any_client_s_flight_in_any_layout_arrives_to_the_byte(
        seed in 1_u64..1_000_000,
        suite in 0..Suite::ALL.len(),
        sizes in proptest::collection::vec(1_usize..1_500, 0..4),
        cuts in proptest::collection::vec((1_usize..2_000, 0_usize..60), 0..6),
        cut in 0_usize..3,
        retry in 0_usize..6,
        releases in 0_u8..4,
        fault in 0_usize..90,
    ) {
        let mut pair = match releases {
            0 => consenting(),
            _ => Pair::default(),
        };
        for number in 0..3 {
            let seed = seed + 100 * number;
            let visit = Visit::new(Suite::ALL[suite], &asking(seed), &cuts, seed);
            let messages = client_messages(&sizes, seed);
            let clear = match retry {
                0..3 => Vec::new(),
                _ => change(),
            };
            let visit = visit.with_client_flight(&clear, &messages, &cuts);
            let visit = match retry {
                0..3 => visit.with_retry(retry),
                _ => visit,
            };
            let now = pair.clock.now;
            match releases {
                0 => {
                    pair.engines[0].release_key(visit.client_key(), now);
                    pair.of_client = Some((Duration::from_millis(1), visit.key_by_client()));
                }
                1 => pair.engines[1].release_key(visit.key(), now),
                _ => {
                    pair.engines[0].release_key(visit.client_key(), now);
                    pair.engines[1].release_key(visit.key(), now);
                }
            }
            let faults = [
                Fault::ClientFails(Ending::Reset),
                Fault::ServerFails(Ending::Reset),
                Fault::TunnelLost(Ending::Reset),
            ];
            let fault = (number == 2).then(|| (fault, faults[fault % 3]));
            let plan = Plan { cut: [usize::MAX, 1_400, 60][cut], fault, ..Plan::of(seed) };
            let outcome = pair.run(&visit.said, plan);
            for side in 0..2 {
                prop_assert_eq!(outcome.count(side, Event::FlightMissed(Miss::Check)), 0);
                prop_assert_eq!(outcome.count(side, Event::FlightMissed(Miss::Malformed)), 0);
            }
            pair.of_client = None;
        }
    }
}
