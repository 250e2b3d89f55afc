//! Keys that clients hand in: offered, asked for, handed over, used; or late, missing, wrong, of
//! another, and then the flight passes as it is.
//!
//! Is not: keys of servers, which come before their flights (`sealed`).

use super::*;

/// A pair whose client side takes keys, and knows that its client hands them in: a first visit's
/// has come late.
pub(super) fn consenting() -> Pair {
    let mut pair = Pair {
        offers: Some(Prefer::Bytes.offered_at(None, Duration::ZERO)),
        ..Pair::default()
    };
    let first = visit(500);
    let plain = Pair::default().run(&first.said, Plan::of(1));
    let outcome = pair.run(&first.said, Plan::of(1));
    assert_eq!(outcome.crossed, plain.crossed, "nothing is offered");
    pair.engines[0].release_key(first.key_by_client(), pair.clock.now);
    assert_eq!(near_counted(&mut pair, ["record_keys_offered"]), [0]);
    pair
}

/// What the client side's engine has counted.
pub(super) fn near_counted<const N: usize>(pair: &mut Pair, names: [&str; N]) -> [u64; N] {
    let events: Vec<_> = pair.engines[0].events().collect();
    names.map(|name| {
        let events = events.iter().filter(|event| event.name() == name);
        events.map(|it| it.amount()).sum()
    })
}

pub(super) const MILLISECOND: Duration = Duration::from_millis(1);

impl Pair {
    /// A visit whose client releases this key a millisecond after ServerHello, whether anybody
    /// waits for it or not.
    fn client_always_releases(&mut self, visit: &Visit, key: RecordKey) {
        self.client_releases(visit, MILLISECOND, key);
        if let Some((_, key)) = self.due.take() {
            self.engines[0].release_key(key, self.clock.now);
        }
    }

    /// A visit whose client releases this key so long after ServerHello.
    pub(super) fn client_releases(
        &mut self,
        visit: &Visit,
        after: Duration,
        key: RecordKey,
    ) -> Outcome {
        self.of_client = Some((after, key));
        self.run(&visit.said, Plan::of(1))
    }
}

#[test]
fn a_client_that_hands_in_its_key_has_flights_cross_opened() {
    for retry in [None, Some(0), Some(1), Some(2)] {
        let visit = |seed| match retry {
            Some(change) => visit(seed).with_retry(change),
            None => visit(seed),
        };
        let mut pair = consenting();
        let mut crossed = Vec::new();
        for seed in [1_000, 2_000] {
            let visit = visit(seed);
            // In front of a request for another hello the client has no key.
            let after = match retry {
                Some(_) => Duration::ZERO,
                None => MILLISECOND,
            };
            let outcome = pair.client_releases(&visit, after, visit.key_by_client());
            for side in 0..2 {
                let finished = outcome.count(side, Event::HandshakeFinished);
                assert_eq!(finished, 1, "{retry:?} {seed}");
            }
            assert_eq!(outcome.count(0, Event::FlightRebuilt), 1);
            assert_eq!(outcome.count(1, Event::HoldTimedOut), 0);
            // The key of such a client is not in what comes back.
            let key = visit.key();
            let has_key = |bytes: &[u8]| bytes.windows(16).any(|it| it == key.key());
            assert!(has_key(&outcome.crossed[0]) && !has_key(&outcome.crossed[1]));
            crossed.push(outcome.crossed[1].len());
        }
        let plain = Pair::default().run(&visit(2_000).said, Plan::of(1));
        assert!(crossed[0] < plain.crossed[1].len(), "{crossed:?}");
        assert!(crossed[1] + 2_000 < plain.crossed[1].len(), "{crossed:?}");
        let names = [
            "record_keys_offered",
            "record_keys_handed_over",
            "flights_sealed",
        ];
        assert_eq!(near_counted(&mut pair, names), [2, 2, 2]);
        let names = ["record_keys_asked", "record_keys_used", "flights_recalled"];
        assert_eq!(all_counted(&mut pair, names), [2, 2, 1]);
    }
}

#[test]
fn a_client_s_key_that_is_late_missing_wrong_or_another_s_costs_no_byte() {
    let other_iv = |visit: &Visit| {
        let (key, random) = (visit.key(), *visit.key().client_random());
        let key = RecordKey::new(
            Direction::FromServer,
            visit.suite,
            random,
            &[9; 12],
            key.key(),
        );
        let key = key.expect("its length");
        key.with_server_random(visit.server_random())
    };
    let of = |which: &str, visit: &Visit| match which {
        "in time, of another connection" => self::visit(7_000).key_by_client(),
        "wrong" => other_iv(visit),
        _ => visit.key_by_client(),
    };
    for (which, after, unproved) in [
        ("late", Duration::from_millis(201), 0),
        ("in time, of another connection", MILLISECOND, 0),
        ("wrong", MILLISECOND, 1),
    ] {
        let mut pair = consenting();
        let visit = visit(1_000);
        let begun = pair.clock.now;
        let outcome = pair.client_releases(&visit, after, of(which, &visit));
        assert_eq!(outcome.count(1, Event::FlightWritten), 0, "{which}");
        assert!(
            pair.clock.now <= begun + Duration::from_millis(201),
            "{which}"
        );
        let names = [
            "record_keys_asked",
            "record_keys_missing",
            "flights_not_opened_unproved",
        ];
        let missing = 1 - unproved;
        assert_eq!(
            all_counted(&mut pair, names),
            [1, missing, unproved],
            "{which}"
        );
        // After a wait in vain nothing is offered, until a key has come late again.
        let next = self::visit(2_000);
        pair.run(&next.said, Plan::of(1));
        let [offered] = near_counted(&mut pair, ["record_keys_offered"]);
        assert_eq!(offered, 1, "{which}");
        pair.engines[0].release_key(next.key_by_client(), pair.clock.now);
        let third = self::visit(3_000);
        let outcome = pair.client_releases(&third, MILLISECOND, third.key_by_client());
        assert_eq!(outcome.count(1, Event::FlightWritten), 1, "{which}");
    }
}

#[test]
fn a_client_whose_keys_never_open_anything_is_waited_for_less_and_less_often() {
    let mut pair = consenting();
    let mut offered = Vec::new();
    for seed in (1..=40).map(|number| 1_000 * number) {
        let wrong = visit(seed);
        let key = wrong.key();
        let random = *key.client_random();
        let key = RecordKey::new(
            Direction::FromServer,
            wrong.suite,
            random,
            &[9; 12],
            key.key(),
        );
        let key = key.expect("its length");
        let key = key.with_server_random(wrong.server_random());
        pair.client_always_releases(&wrong, key);
        let [again] = near_counted(&mut pair, ["record_keys_offered"]);
        offered.push(again);
    }
    let waits = offered.iter().sum::<u64>();
    assert!((2..=6).contains(&waits), "{offered:?}");
    // A key that opens its flight makes up for it.
    let mut sealed = 0;
    for seed in (1..=40).map(|number| 100_000 + 1_000 * number) {
        let right = visit(seed);
        pair.client_always_releases(&right, right.key_by_client());
        let [again] = near_counted(&mut pair, ["flights_sealed"]);
        sealed += again;
    }
    assert!(sealed > 0);
    let right = visit(900_000);
    let outcome = pair.client_releases(&right, MILLISECOND, right.key_by_client());
    assert_eq!(outcome.count(0, Event::FlightRebuilt), 1);
}

#[test]
fn a_server_s_key_is_taken_before_the_client_is_asked() {
    let mut pair = consenting();
    let visit = visit(1_000);
    pair.engines[1].release_key(visit.key(), pair.clock.now);
    let outcome = pair.client_releases(&visit, MILLISECOND, visit.key_by_client());
    assert_eq!(outcome.count(1, Event::FlightWritten), 1);
    assert_eq!(outcome.count(0, Event::HandshakeFinished), 1);
    let names = ["record_keys_asked", "record_keys_used"];
    assert_eq!(all_counted(&mut pair, names), [0, 1]);
    let names = ["record_keys_offered", "record_keys_handed_over"];
    assert_eq!(near_counted(&mut pair, names), [1, 0]);
}

#[test]
fn what_is_not_worth_a_round_trip_or_cannot_be_opened_is_not_asked_for() {
    let resumed = |seed| {
        Visit::new(Suite::Aes128Gcm, &messages(seed), &[], seed).with_flight(|flight| {
            // The hello's list of extensions becomes one of pre_shared_key, too.
            let (length, list) = (5 + 4 + 2 + 32 + 1 + 2 + 1, [0, 41, 0, 2, 0, 0]);
            flight.splice(length + 8..length + 8, list);
            for (at, more) in [(length + 1, 6), (5 + 3, 6), (4, 6)] {
                flight[at] += more;
            }
        })
    };
    let slow = Prefer::Time.offered_at(Some(2_400), Duration::from_millis(1_500));
    let fast = Prefer::Time.offered_at(Some(2_000_000), Duration::from_millis(600));
    for (visit, least, asked) in [
        (visit(1_000), slow, 1),
        (visit(1_000), fast, 0),
        (
            visit(1_000),
            Prefer::Time.offered_at(None, Duration::ZERO),
            0,
        ),
        (resumed(1_000), slow, 0),
    ] {
        let mut pair = consenting();
        pair.offers = Some(least);
        let outcome = pair.client_releases(&visit, MILLISECOND, visit.key_by_client());
        assert_eq!(outcome.count(1, Event::HoldTimedOut), 0);
        assert_eq!(counted(&mut pair, "record_keys_asked"), asked, "{least:?}");
    }
}

#[test]
fn where_no_flight_can_be_worth_a_round_trip_none_is_held_for_a_moment() {
    let apart = [(12, 0), (2_788, 0), (264, 0)];
    // 1 Mbit/s and 60 ms; 2.4 kbit/s and 1.5 s, and a flight that is too short; the same in a
    // record for each message, of which the last is Finished.
    let short = messages_with(&[noise(40, 1), noise(40, 2)], 1_000);
    let rates = [(1_000_000, 60), (2_400, 1_500), (2_400, 1_500)];
    let visits = [
        visit(1_000),
        Visit::new(Suite::Aes128Gcm, &short, &[], 1_000),
        Visit::new(
            Suite::Aes256Gcm,
            &short,
            &[(12, 0), (568, 0), (264, 0)],
            1_000,
        ),
    ];
    for ((rate, millis), visit) in rates.into_iter().zip(visits) {
        let mut pair = consenting();
        let round_trip = Duration::from_millis(millis);
        pair.offers = Some(Prefer::Time.offered_at(Some(rate), round_trip));
        let begun = pair.clock.now;
        let outcome = pair.client_releases(&visit, Duration::ZERO, visit.key_by_client());
        assert_eq!(pair.clock.now, begun, "{rate} bit/s: nothing is held");
        assert_eq!(outcome.count(1, Event::FlightWritten), 0, "{rate}");
        let names = ["record_keys_asked", "record_keys_not_worth"];
        assert_eq!(all_counted(&mut pair, names), [0, 1], "{rate}");
    }
    // Where one can be, and this one seems to be whole, nothing is held either; where it does not,
    // for 20 ms.
    for (cuts, cut, held) in [(&apart[..], None, 0), (&apart, Some(300), 20)] {
        let mut pair = consenting();
        pair.offers = Some(Prefer::Time.offered_at(Some(1_000_000), MILLISECOND * 30));
        let mut visit = Visit::new(Suite::Aes128Gcm, &messages(1_000), cuts, 1_000);
        if let Some(at) = cut {
            // The rest comes once the client has said something.
            let rest = visit.said.turns[1].1.split_off(at);
            let turns = [(Sender::Client, record(20, &[1])), (Sender::Server, rest)];
            visit.said.turns.splice(2..2, turns);
        }
        let begun = pair.clock.now;
        pair.client_releases(&visit, Duration::ZERO, visit.key_by_client());
        assert_eq!(pair.clock.now, begun + held * MILLISECOND, "{cut:?}");
        assert_eq!(counted(&mut pair, "record_keys_not_worth"), 1, "{cut:?}");
    }
}

#[test]
fn a_chain_of_one_on_a_slow_line_is_asked_for_from_the_first_visit_on() {
    let chain = || certificate(&[(certificate_like(1_250, 10), Vec::new())]);
    let visit = |seed| {
        let encrypted = message(8, &[0, 6, 0, 16, 0, 2, 0, 0]);
        let verify = message(15, &noise(260, seed + 30));
        let messages = [encrypted, chain(), verify].concat();
        Visit::new(Suite::Aes128Gcm, &messages, &[], seed)
    };
    let mut pair = consenting();
    let round_trip = Duration::from_millis(1_500);
    pair.offers = Some(Prefer::Time.offered_at(Some(2_400), round_trip));
    for seed in [1_000, 2_000, 3_000] {
        let visit = visit(seed);
        let outcome = pair.client_releases(&visit, MILLISECOND, visit.key_by_client());
        assert_eq!(outcome.count(1, Event::OpenedWritten), 1, "{seed}");
    }
}

/// A server side to which a peer offers a key, and what it says to a flight.
pub(super) fn asked(visit: &Visit) -> (Relay, Engine<MemoryStore>, Clock) {
    let offer = Offer {
        held: 3_000,
        answer: 0,
        least: 0,
    };
    let (mut relay, mut engine, clock) = told(&[
        Frame::Offer(offer),
        Frame::Bytes(Piece::new(visit.said.turns[0].1.clone()).expect("a hello")),
    ]);
    relay.handle_input(Input::Endpoint(&visit.said.turns[1].1), &mut engine, clock);
    (relay, engine, clock)
}

/// What it has sent on the stream since, and whether it has broken it off.
fn sent(relay: &mut Relay) -> (Vec<u8>, bool) {
    let (mut sent, mut is_reset) = (Vec::new(), false);
    while let Some(output) = relay.poll_output() {
        match output {
            Output::ToTunnel(bytes) => sent.extend(bytes),
            Output::ResetTunnel(_) => is_reset = true,
            _ => {}
        }
    }
    (sent, is_reset)
}

#[test]
fn a_client_side_that_says_nothing_holds_up_its_own_connection_for_so_long_and_no_longer() {
    let visit = visit(1_000);
    let (mut relay, mut engine, mut clock) = asked(&visit);
    let flight = &visit.said.turns[1].1;
    let (held, _) = sent(&mut relay);
    assert!(
        held.len() < 200 && held.last() == Some(&22),
        "ServerHello, and the question"
    );
    assert_eq!(
        relay.poll_timeout().map(|(at, _)| at),
        Some(Instant::ZERO + KEY_HOLD)
    );
    // More than is held passes at once.
    let (mut flooded, mut other, now) = asked(&visit);
    let more = noise(1 << 16, 3);
    flooded.handle_input(Input::Endpoint(&more), &mut other, now);
    assert!(sent(&mut flooded).0.len() > more.len() + flight.len());
    clock.now += KEY_HOLD;
    relay.handle_timeout(&mut engine, clock);
    let (passed, _) = sent(&mut relay);
    assert!(passed.len() > flight.len() - 100);
    // What comes now is an answer that was under way, and nothing else is.
    let mut key = Vec::new();
    Frame::NoKey.write(&mut key);
    relay.handle_input(Input::Tunnel(&key), &mut engine, clock);
    assert_eq!(sent(&mut relay), (Vec::new(), false));
    relay.handle_input(Input::Tunnel(&key), &mut engine, clock);
    assert!(sent(&mut relay).1, "twice");
}

#[test]
fn a_client_that_ends_while_its_key_is_waited_for_leaves_no_time_that_is_due_for_ever() {
    let visit = visit(1_000);
    let mut pair = consenting();
    let least = Prefer::Bytes.offered_at(None, Duration::ZERO);
    let open = Open::to(Target::Address(server_address()));
    let near = Relay::client_side(open, pair.clock.now);
    let mut near = near.offering_keys(server_address().ip(), least);
    let (engine, mut clock) = (&mut pair.engines[0], pair.clock);
    near.handle_input(Input::Endpoint(&visit.said.turns[0].1), engine, clock);
    sent(&mut near);
    let (mut far, ..) = asked(&visit);
    near.handle_input(Input::Tunnel(&sent(&mut far).0), engine, clock);
    let due = near.poll_timeout().expect("it looks for the key");
    assert!(due.0 > clock.now && due.0 <= clock.now + Duration::from_millis(200));
    near.handle_input(Input::EndpointEnd, engine, clock);
    let (said, _) = sent(&mut near);
    let mut no_key = Vec::new();
    Frame::NoKey.write(&mut no_key);
    assert_eq!(said.windows(1).filter(|it| *it == no_key).count(), 1);
    for _ in 0..3 {
        clock.now += Duration::from_secs(1);
        near.handle_timeout(engine, clock);
        let due = near.poll_timeout();
        assert!(due.is_none_or(|(at, _)| at > clock.now), "{due:?}");
    }
}

#[test]
fn keys_and_questions_that_nobody_asked_for_end_their_stream_alone() {
    let visit = visit(1_000);
    let frame = |frame: Frame| {
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        bytes
    };
    let piece = |bytes: &[u8]| Piece::new(bytes.to_vec()).expect("a body");
    for bad in [
        frame(Frame::Key(piece(b"no key"))),
        frame(Frame::Key(piece(&[1; 46]))),
        frame(Frame::Offer(Offer {
            held: 0,
            answer: 0,
            least: 0,
        })),
        frame(Frame::Waits),
        [frame(Frame::NoKey), frame(Frame::Key(piece(&[1; 29])))].concat(),
    ] {
        let (mut relay, mut engine, clock) = asked(&visit);
        sent(&mut relay);
        relay.handle_input(Input::Tunnel(&bad), &mut engine, clock);
        assert!(sent(&mut relay).1, "{bad:?}");
    }
    // At the client side: nothing was offered, so that nothing can be waited for.
    for bad in [frame(Frame::Waits), frame(Frame::NoKey)] {
        let mut engine = engine(Role::ClientSide);
        let clock = Clock {
            now: Instant::ZERO,
            wall: THEN,
        };
        let open = Open::to(Target::Address(server_address()));
        let mut relay = Relay::client_side(open, Instant::ZERO);
        relay.handle_input(Input::Endpoint(&visit.said.turns[0].1), &mut engine, clock);
        sent(&mut relay);
        relay.handle_input(Input::Tunnel(&bad), &mut engine, clock);
        assert!(sent(&mut relay).1, "{bad:?}");
    }
}

#[test]
fn a_key_of_another_suite_passes_the_flight_as_it_is() {
    let visit = visit(1_000);
    let (mut relay, mut engine, clock) = asked(&visit);
    sent(&mut relay);
    let mut key = Vec::new();
    let body = [&[2][..], &[7; 44]].concat();
    Frame::Key(Piece::new(body).expect("a body")).write(&mut key);
    relay.handle_input(Input::Tunnel(&key), &mut engine, clock);
    let (passed, is_reset) = sent(&mut relay);
    assert!(!is_reset && passed.len() > 2_000);
}

proptest! {
    /// `Pair::run` demands the endpoints' bytes at each step: with a key at any time, in any order
    /// of events, with whatever goes wrong.
    #[test]
    fn with_a_client_s_key_whenever_it_comes_every_byte_arrives(
        seed in 1_u64..1_000_000,
        after in 0_u64..260,
        cut in 0_usize..3,
        retry in 0_usize..6,
        wrong in 0_u8..4,
        fault in 0_usize..60,
        server_too in any::<bool>(),
    ) {
        let mut pair = consenting();
        for number in 0..3 {
            let seed = seed + 100 * number;
            let visit = match retry {
                0..3 => visit(seed).with_retry(retry),
                _ => visit(seed),
            };
            let key = match wrong {
                0 => self::visit(seed + 1).key_by_client(),
                // As of an older release, or out of a key log.
                1 => visit.key(),
                _ => visit.key_by_client(),
            };
            if server_too && number == 1 {
                pair.engines[1].release_key(visit.key(), pair.clock.now);
            }
            let faults = [
                Fault::ClientFails(Ending::Reset),
                Fault::ServerFails(Ending::Reset),
                Fault::TunnelLost(Ending::Reset),
            ];
            let fault = (number == 2).then(|| (fault, faults[fault % 3]));
            let plan = Plan { cut: [usize::MAX, 1_400, 60][cut], fault, ..Plan::of(seed) };
            pair.of_client = Some((Duration::from_millis(after), key));
            let outcome = pair.run(&visit.said, plan);
            prop_assert_eq!(outcome.count(0, Event::FlightMissed(Miss::Check)), 0);
            pair.of_client = None;
        }
    }
}
