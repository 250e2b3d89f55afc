//! Sealed handshakes through two relays: with the server's key the flight crosses in its opened
//! form and arrives to the byte; in any doubt it passes as it is.

mod client_certificate;
mod client_key;
mod other_forms;
mod post_quantum;
mod repeated_random;

use std::time::Duration;

use crate::support::sealed::{Cuts, Visit, certificate, message, server_hello};
use crate::support::tls::{noise, record};
use crate::support::{Fault, OPENING, Outcome, Pair, Plan, THEN, engine, server_address};
use proptest::prelude::*;
use tandem_engine::{Engine, Pass, Role, Sender};
use tandem_link::tunnel::{Ending, Frame, Miss, Offer, Open, Piece, Target};
use tandem_record_key::{Direction, RecordKey, Suite};
use tandem_store::MemoryStore;
use tandem_tunnel::{Clock, Dropped, Event, Input, KEY_HOLD, Output, Prefer, Relay};
use tandem_wire::Instant;

/// A certificate of which, as in real ones, a part can be compressed.
fn certificate_like(length: usize, seed: u64) -> Vec<u8> {
    let text = b"http://crl.example/authority.crl ".iter().cycle();
    let noise = noise(length.div_ceil(2), seed);
    noise.iter().chain(text).take(length).copied().collect()
}

/// EncryptedExtensions, a chain of two with a staple, CertificateVerify.
fn messages(seed: u64) -> Vec<u8> {
    messages_with(
        &[certificate_like(1_200, 10), certificate_like(1_100, 11)],
        seed,
    )
}

fn messages_with(chain: &[Vec<u8>], seed: u64) -> Vec<u8> {
    let entries = [
        (chain[0].clone(), noise(470, 77)),
        (chain[1].clone(), Vec::new()),
    ];
    [
        message(8, &[0, 6, 0, 16, 0, 2, 0, 0]),
        certificate(&entries),
        message(15, &noise(260, seed + 30)),
    ]
    .concat()
}

fn visit(seed: u64) -> Visit {
    Visit::new(Suite::Aes128Gcm, &messages(seed), &[], seed)
}

/// A server side whose peer has opened a stream, and has said this on it.
fn told(behind: &[Frame]) -> (Relay, Engine<MemoryStore>, Clock) {
    let mut engine = engine(Role::ServerSide);
    let clock = Clock {
        now: Instant::ZERO,
        wall: THEN,
    };
    let mut relay = Relay::server_side(clock.now + OPENING);
    let mut opening = Vec::new();
    let open = Open::to(Target::Address(server_address()));
    open.write(&mut opening).expect("it may cross");
    for frame in behind {
        frame.write(&mut opening);
    }
    relay.handle_input(Input::Tunnel(&opening), &mut engine, clock);
    relay.handle_input(Input::Connected(server_address()), &mut engine, clock);
    (relay, engine, clock)
}

impl Pair {
    /// A visit whose server releases its key in time.
    fn released(&mut self, visit: &Visit, plan: Plan) -> Outcome {
        self.engines[1].release_key(visit.key(), self.clock.now);
        self.run(&visit.said, plan)
    }
}

/// What the server side's engine has counted under this name.
fn counted(pair: &mut Pair, name: &str) -> u64 {
    let [count] = all_counted(pair, [name]);
    count
}

/// The same for several names at once: what is asked for is taken.
fn all_counted<const N: usize>(pair: &mut Pair, names: [&str; N]) -> [u64; N] {
    let events: Vec<_> = pair.engines[1].events().collect();
    names.map(|name| {
        let events = events.iter().filter(|event| event.name() == name);
        events.map(|it| it.amount()).sum()
    })
}

/// Why flights that a key had opened crossed as they are, and how often.
fn dropped(outcome: &Outcome) -> Vec<(Dropped, usize)> {
    let reasons = Event::ALL.into_iter().filter_map(|event| match event {
        Event::OpenedDropped(why) => Some((why, outcome.count(1, event))),
        _ => None,
    });
    reasons.filter(|(_, count)| *count > 0).collect()
}

#[test]
fn a_flight_crosses_opened_and_the_next_one_is_written_against_it() {
    let mut pair = Pair::default();
    let first = pair.released(&visit(1_000), Plan::of(1));
    let second = pair.released(&visit(2_000), Plan::of(1));
    let plain = Pair::default().run(&visit(2_000).said, Plan::of(1));
    for outcome in [&first, &second] {
        assert_eq!(outcome.count(0, Event::FlightRebuilt), 1);
        assert_eq!(outcome.count(0, Event::HandshakeFinished), 1);
        assert_eq!(outcome.count(1, Event::HandshakeFinished), 1);
    }
    let server = |outcome: &Outcome| outcome.crossed[1].len();
    assert!(server(&first) < server(&plain));
    // Random, signature, verify data; key, IV, check: 32 + 260 + 32 + 16 + 12 + 16.
    let fresh = 368;
    let spared = server(&plain) - server(&second);
    let flight = visit(2_000).said.turns[1].1.len() - 185;
    assert!(
        flight - spared < fresh + 60,
        "{} for {fresh}",
        flight - spared
    );
    assert_eq!(counted(&mut pair, "flights_recalled"), 1);
}

#[test]
fn a_chain_that_is_known_from_elsewhere_is_referred_to() {
    let mut pair = Pair::default();
    // In clear the site shows the same chain.
    let taught = crate::support::tls::full(&[], &[], 5);
    for engine in &mut pair.engines {
        crate::support::teach(engine, &taught);
    }
    let messages = messages_with(&crate::support::tls::server_chain(), 1_000);
    let visit = Visit::new(Suite::Aes128Gcm, &messages, &[], 1_000);
    let outcome = pair.released(&visit, Plan::of(1));
    assert_eq!(outcome.count(0, Event::FlightRebuilt), 1);
    let plain = Pair::default().run(&visit.said, Plan::of(1));
    assert!(outcome.crossed[1].len() + 2_200 < plain.crossed[1].len());
}

#[test]
fn without_a_key_or_with_a_wrong_one_the_flight_passes_at_once() {
    let visit = visit(1_000);
    let plain = Pair::default().run(&visit.said, Plan::of(1));
    let other_random = self::visit(2_000).key();
    let other_suite = Visit::new(Suite::Aes256Gcm, &[], &[], 1_000).key();
    let mut wrong = visit.key().to_datagram();
    let last = wrong.len() - 1;
    wrong[last] ^= 1;
    let wrong = tandem_record_key::RecordKey::from_datagram(&wrong).expect("a datagram");
    let mut of_client = visit.key().to_datagram();
    of_client[1] = 0;
    let of_client = tandem_record_key::RecordKey::from_datagram(&of_client).expect("a datagram");
    for key in [other_random, other_suite, wrong, of_client] {
        let mut pair = Pair::default();
        pair.engines[1].release_key(key, pair.clock.now);
        let outcome = pair.run(&visit.said, Plan::of(1));
        assert_eq!(outcome.crossed, plain.crossed);
        assert_eq!(outcome.count(1, Event::HoldTimedOut), 0);
        assert_eq!(counted(&mut pair, "flights_opened"), 0);
    }
}

#[test]
fn a_key_counts_as_used_late_or_unknown() {
    let names = [
        "record_keys_released",
        "record_keys_used",
        "record_keys_unused_late",
        "record_keys_unused_unknown",
    ];
    let mut pair = Pair::default();
    let visits = [visit(1_000), visit(2_000), visit(3_000)];
    pair.released(&visits[0], Plan::of(1));
    pair.run(&visits[1].said, Plan::of(1));
    for visit in &visits[1..] {
        pair.engines[1].release_key(visit.key(), pair.clock.now);
    }
    let later = pair.clock.now + std::time::Duration::from_secs(10);
    pair.engines[1].expire_keys(later);
    assert_eq!(all_counted(&mut pair, names), [3, 1, 1, 1]);
}

#[test]
fn an_opened_flight_that_is_not_written_says_why() {
    // Record by record, so that the key opens something.
    let cuts = [(40, 0), (900, 0)];
    let whole = || Visit::new(Suite::Aes128Gcm, &messages(1), &cuts, 1);
    let cut = whole().with_flight(|flight| flight.truncate(1_200));
    let outcome = Pair::default().released(&cut, Plan::of(1));
    assert_eq!(dropped(&outcome), [(Dropped::HeldTooLong, 1)]);
    // Nothing in it can be compressed, and key, IV and check come on top.
    let chain = [noise(40, 1), noise(40, 2)];
    let visit = Visit::new(Suite::Aes128Gcm, &messages_with(&chain, 1), &[], 1);
    let outcome = Pair::default().released(&visit, Plan::of(1));
    assert_eq!(dropped(&outcome), [(Dropped::NoGain, 1)]);
    let mut broken_off = 0;
    for step in 0..20 {
        let broken = Some((step, Fault::ServerFails(Ending::Reset)));
        let (mut pair, fault) = (
            Pair::default(),
            Plan {
                fault: broken,
                ..Plan::of(1)
            },
        );
        let outcome = pair.released(&cut, fault);
        let used = counted(&mut pair, "record_keys_used") as usize;
        let dropped: usize = dropped(&outcome).iter().map(|(_, count)| count).sum();
        assert_eq!(dropped, used, "{step}");
        let ended = Event::OpenedDropped(Dropped::ConnectionEnded);
        broken_off += outcome.events[1].iter().filter(|it| **it == ended).count();
    }
    assert!(broken_off > 0, "the flight was never held");
    let outcome = Pair::default().released(&whole(), Plan::of(1));
    assert_eq!(dropped(&outcome), []);
    assert_eq!(outcome.count(1, Event::OpenedWritten), 1);
}

#[test]
fn a_key_is_of_use_once_and_for_a_while() {
    let mut pair = Pair::default();
    let (first, second) = (visit(1_000), visit(1_000));
    let outcome = pair.released(&first, Plan::of(1));
    assert_eq!(outcome.count(0, Event::FlightRebuilt), 1);
    let outcome = pair.run(&second.said, Plan::of(1));
    assert_eq!(outcome.count(1, Event::FlightWritten), 0, "it was used");
    pair.engines[1].release_key(second.key(), pair.clock.now);
    pair.clock.now += Duration::from_secs(10);
    let outcome = pair.run(&second.said, Plan::of(1));
    assert_eq!(outcome.count(1, Event::FlightWritten), 0, "it is too old");
    assert_eq!(counted(&mut pair, "record_keys_unused_late"), 1);
}

#[test]
fn a_server_whose_key_came_late_is_waited_for_until_that_is_in_vain() {
    // With and without another hello in front of the flight.
    let retried = |seed| visit(seed).with_retry(0);
    for visit in [visit, retried as fn(u64) -> Visit] {
        let mut pair = Pair::default();
        let first = visit(1_000);
        let outcome = pair.run(&first.said, Plan::of(1));
        assert_eq!(outcome.count(1, Event::FlightWritten), 0);
        pair.engines[1].release_key(first.key(), pair.clock.now);

        let next = visit(2_000);
        let due = pair.clock.now + Duration::from_millis(60);
        pair.late = Some((due, next.key()));
        let outcome = pair.run(&next.said, Plan::of(1));
        assert_eq!(outcome.count(0, Event::FlightRebuilt), 1);
        assert_eq!(outcome.count(0, Event::HandshakeFinished), 1);
        assert!(pair.late.is_none());

        let begun = pair.clock.now;
        let vain = pair.run(&visit(3_000).said, Plan::of(1));
        assert_eq!(pair.clock.now, begun + Duration::from_millis(100));
        let begun = pair.clock.now;
        let after = pair.run(&visit(4_000).said, Plan::of(1));
        assert_eq!(pair.clock.now, begun, "nobody waited");
        for outcome in [vain, after] {
            assert_eq!(outcome.count(1, Event::FlightWritten), 0);
            assert_eq!(outcome.count(1, Event::HoldTimedOut), 0);
            let passed = Event::HandshakePassed(Pass::Tls13);
            assert_eq!(outcome.count(1, passed), 1);
        }
    }
}

#[test]
fn whatever_is_no_plain_flight_passes_as_it_is() {
    let sealed_at = 5 + 4 + 2 + 32 + 1 + 2 + 1 + 8 + 6;
    let changed: [(&str, Visit); 9] = [
        (
            "the only record is changed",
            visit(1).with_flight(|flight| flight[sealed_at + 900] ^= 1),
        ),
        (
            "a later record is changed",
            Visit::new(Suite::Aes128Gcm, &messages(1), &[(40, 0)], 1)
                .with_flight(|flight| flight[sealed_at + 900] ^= 1),
        ),
        (
            "an alert in clear comes instead",
            visit(2).with_flight(|flight| {
                flight.truncate(sealed_at);
                flight.extend(record(21, &[2, 80]));
            }),
        ),
        (
            "ChangeCipherSpec comes twice",
            visit(3).with_flight(|flight| {
                let again = record(20, &[1]);
                flight.splice(sealed_at..sealed_at, again);
            }),
        ),
        (
            "a second HelloRetryRequest",
            visit(4).with_retry(0).with_turn(3, |flight| {
                let random = tandem_wire::tls::server_hello::HELLO_RETRY_REQUEST_RANDOM;
                *flight = server_hello(Suite::Aes128Gcm, &random);
            }),
        ),
        (
            "a HelloRetryRequest that is answered by an alert",
            visit(4).with_retry(0).with_turn(2, |again| {
                *again = record(21, &[2, 40]);
            }),
        ),
        (
            "ChangeCipherSpec comes twice behind a HelloRetryRequest",
            visit(4).with_retry(0).with_turn(1, |request| {
                request.extend(record(20, &[1]));
            }),
        ),
        (
            "no chain: a resumption",
            Visit::new(Suite::Aes128Gcm, &message(8, &[0, 0]), &[], 5),
        ),
        (
            "no EncryptedExtensions",
            Visit::new(Suite::Aes128Gcm, &messages(6)[12..], &[], 6),
        ),
    ];
    let names = [
        "record_keys_used",
        "flights_not_opened_unproved",
        "flights_not_opened_record",
        "flights_not_opened_form",
    ];
    // As `changed`.
    let counts = [
        [0, 1, 0, 0],
        [1, 0, 1, 0],
        [0, 1, 0, 0],
        [0, 1, 0, 0],
        [0, 0, 0, 0],
        [0, 0, 0, 0],
        [0, 0, 0, 0],
        [1, 0, 0, 1],
        [1, 0, 0, 1],
    ];
    for ((what, visit), counts) in changed.into_iter().zip(counts) {
        let plain = Pair::default().run(&visit.said, Plan::of(1));
        let mut pair = Pair::default();
        let outcome = pair.released(&visit, Plan::of(1));
        assert_eq!(outcome.crossed, plain.crossed, "{what}");
        assert_eq!(outcome.count(1, Event::HoldTimedOut), 0, "{what}");
        assert_eq!(all_counted(&mut pair, names), counts, "{what}");
        assert_eq!(dropped(&outcome), [], "{what}");
    }
}

#[test]
fn a_server_that_asks_for_another_hello_has_its_flight_cross_opened() {
    // ChangeCipherSpec behind the request, in front of ServerHello, nowhere.
    for change in 0..3 {
        let mut pair = Pair::default();
        let mut crossed = Vec::new();
        for seed in [1_000, 2_000] {
            let outcome = pair.released(&visit(seed).with_retry(change), Plan::of(1));
            assert_eq!(outcome.count(0, Event::FlightRebuilt), 1, "{change}");
            assert_eq!(outcome.count(1, Event::HoldTimedOut), 0, "{change}");
            for side in 0..2 {
                let finished = outcome.count(side, Event::HandshakeFinished);
                assert_eq!(finished, 1, "{change}");
            }
            crossed.push(outcome.crossed[1].len());
        }
        let plain = Pair::default().run(&visit(2_000).with_retry(change).said, Plan::of(1));
        assert!(crossed[1] + 2_000 < plain.crossed[1].len(), "{crossed:?}");
        assert_eq!(counted(&mut pair, "flights_recalled"), 1);
    }
}

#[test]
fn behind_a_retry_without_a_key_nothing_is_held() {
    let visit = visit(1_000).with_retry(0);
    let outcome = Pair::default().run(&visit.said, Plan::of(1));
    for side in 0..2 {
        assert_eq!(outcome.count(side, Event::HoldTimedOut), 0);
        let passed = Event::HandshakePassed(Pass::Tls13);
        assert_eq!(outcome.count(side, passed), 1);
    }
}

#[test]
fn a_flight_that_does_not_come_to_its_end_is_held_no_longer_than_one_in_clear() {
    let cut = visit(1).with_flight(|flight| flight.truncate(1_000));
    let outcome = Pair::default().released(&cut, Plan::of(1));
    assert_eq!(outcome.count(1, Event::HoldTimedOut), 1);
    assert_eq!(outcome.count(1, Event::FlightWritten), 0);
}

#[test]
fn a_flight_that_began_to_pass_is_not_opened_when_the_rest_of_it_comes() {
    // Nothing follows that would end the reading along in another way.
    let mut visit = visit(1);
    visit.said.turns.truncate(3);
    let whole = visit.said.turns.remove(1).1;
    // ServerHello is cut, and the rest comes after the hold: the client speaks in between.
    let (begun, rest) = whole.split_at(40);
    visit.said.turns.splice(
        1..1,
        [
            (Sender::Server, begun.to_vec()),
            (Sender::Client, record(20, &[1])),
            (Sender::Server, rest.to_vec()),
        ],
    );
    let mut pair = Pair::default();
    let outcome = pair.released(&visit, Plan::of(1));
    assert_eq!(outcome.count(1, Event::HoldTimedOut), 1);
    assert_eq!(counted(&mut pair, "flights_opened"), 0);
    let passed = Event::HandshakePassed(Pass::Tls13);
    assert_eq!(outcome.count(1, passed), 1);
}

#[test]
fn a_client_that_refuses_the_flight_leaves_nothing_to_remember() {
    let mut pair = Pair::default();
    let alert = visit(1_000).with_answer(record(23, &noise(19, 1)));
    let outcome = pair.released(&alert, Plan::of(1));
    assert_eq!(outcome.count(0, Event::FlightRebuilt), 1);
    assert_eq!(counted(&mut pair, "flights_learned"), 0);
    let second = pair.released(&visit(2_000), Plan::of(1));
    assert_eq!(second.count(0, Event::FlightRebuilt), 1);
    assert_eq!(counted(&mut pair, "flights_recalled"), 0);
}

#[test]
fn a_side_that_was_started_anew_gets_the_flight_all_the_same() {
    for side in 0..2 {
        let mut pair = Pair::default();
        pair.released(&visit(1_000), Plan::of(1));
        let role = [Role::ClientSide, Role::ServerSide][side];
        pair.engines[side] = engine(role);
        for seed in 2..5 {
            pair.released(&visit(1_000 * seed), Plan::of(seed));
        }
        let last = pair.released(&visit(9_000), Plan::of(1));
        assert_eq!(last.count(0, Event::FlightRebuilt), 1, "side {side}");
        assert!(last.crossed[1].len() < 5_000, "side {side}");
    }
}

#[test]
fn sides_that_remember_differently_agree_again_after_one_miss() {
    let [mut opened, mut passed] = [Pair::default(), Pair::default()];
    opened.released(&visit(1_000), Plan::of(1));
    passed.run(&visit(1_000).said, Plan::of(1));
    // Nothing says that the client side holds another answer to the hello that both refer to.
    std::mem::swap(&mut opened.engines[0], &mut passed.engines[0]);
    let missed = Event::FlightMissed(Miss::NotHeld);
    for (seed, misses) in [(2_000, 1), (3_000, 0), (4_000, 0)] {
        let outcome = opened.released(&visit(seed), Plan::of(1));
        assert_eq!(outcome.count(0, missed), misses, "{seed}");
        assert_eq!(outcome.count(0, Event::FlightRebuilt), 1 - misses, "{seed}");
    }
    assert_eq!(counted(&mut opened, "flights_recalled"), 2);
}

#[test]
fn every_suite_is_opened() {
    for suite in Suite::ALL {
        let visit = Visit::new(suite, &messages(7), &[(40, 3), (900, 0)], 1_000);
        let outcome = Pair::default().released(&visit, Plan::of(1));
        assert_eq!(outcome.count(0, Event::FlightRebuilt), 1, "{suite:?}");
        assert_eq!(outcome.count(0, Event::HandshakeFinished), 1, "{suite:?}");
    }
}

proptest! {
    /// `Pair::run` demands the endpoints' bytes at each step.
    #[test]
    fn any_flight_in_any_layout_arrives_to_the_byte(
        seed in 1_u64..1_000_000,
        suite in 0..Suite::ALL.len(),
        sizes in proptest::collection::vec((1_usize..1_500, 0_usize..300), 0..5),
        request in 0_usize..200,
        cuts in proptest::collection::vec((1_usize..2_000, 0_usize..60), 0..8),
        cut in 0_usize..3,
        retry in 0_usize..6,
    ) {
        let entries: Vec<(Vec<u8>, Vec<u8>)> = (11..)
            .zip(&sizes)
            .map(|(seed, &(der, extensions))| (certificate_like(der, seed), noise(extensions, seed + 50)))
            .collect();
        let mut pair = Pair::default();
        for visit in 0..3 {
            let seed = seed + 100 * visit;
            let mut messages = message(8, &[0, 0]);
            if request > 0 {
                messages.extend(message(13, &noise(request, 9)));
            }
            if !entries.is_empty() {
                messages.extend(certificate(&entries));
            }
            messages.extend(message(15, &noise(72, seed + 30)));
            let mut visit = Visit::new(Suite::ALL[suite], &messages, &cuts, seed);
            if retry < 3 {
                visit = visit.with_retry(retry);
            }
            let plan = Plan { cut: [usize::MAX, 1_400, 60][cut], ..Plan::of(seed) };
            let outcome = pair.released(&visit, plan);
            let [used, opened, no_form] = all_counted(
                &mut pair,
                ["record_keys_used", "flights_opened", "flights_not_opened_form"],
            );
            prop_assert_eq!(opened, u64::from(!entries.is_empty()));
            // Whatever a key opens crosses in that form, or is counted with a reason.
            let written = outcome.count(1, Event::OpenedWritten) as u64;
            let dropped: usize = dropped(&outcome).iter().map(|(_, count)| count).sum();
            prop_assert_eq!(used, written + dropped as u64 + no_form);
            prop_assert_eq!(outcome.count(0, Event::FlightMissed(Miss::Check)), 0);
        }
    }
}
