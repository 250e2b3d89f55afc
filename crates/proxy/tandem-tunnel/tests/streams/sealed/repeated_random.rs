//! Clients that use a random twice, or use another client's: a key is found, handed over and used
//! for its own connection alone, and every byte passes.
//!
//! Is not: keys with a random of their own (`client_key`, `client_certificate`).

use super::client_certificate::has;
use super::client_key::{MILLISECOND, asked, consenting, near_counted};
use super::*;

/// Two connections with one client random; both their hellos offer the same.
fn twins() -> [Visit; 2] {
    let first = visit(1_000);
    let second = visit(2_000).with_client_random_of(&first);
    assert_eq!(first.key().client_random(), second.key().client_random());
    assert_ne!(first.key().key(), second.key().key());
    [first, second]
}

#[test]
fn a_key_is_not_handed_over_for_another_connection_with_its_client_s_random() {
    // That of a connection which does not come this way, and then does.
    let [elsewhere, here] = twins();
    let mut pair = consenting();
    let outcome = pair.client_releases(&here, MILLISECOND, elsewhere.key_by_client());
    let key = elsewhere.key();
    assert!(!outcome.crossed.iter().any(|bytes| has(bytes, key.key())));
    assert_eq!(outcome.count(1, Event::FlightWritten), 0, "it passes");
    let names = ["record_keys_handed_over", "record_keys_missing"];
    assert_eq!(near_counted(&mut pair, names), [0, 1]);
    // The wait was in vain; a key that comes late says that the client hands them in all the same.
    pair.engines[0].release_key(here.key_by_client(), pair.clock.now);
    let outcome = pair.run(&elsewhere.said, Plan::of(1));
    assert_eq!(outcome.count(0, Event::FlightRebuilt), 1, "it is there");
    assert!(has(&outcome.crossed[0], key.key()));
    assert!(!has(&outcome.crossed[0], here.key().key()));
}

#[test]
fn two_connections_at_a_time_with_one_client_random_each_get_their_own_key() {
    let visits = twins();
    let mut pair = consenting();
    let (engine, mut clock) = (&mut pair.engines[0], pair.clock);
    let least = Prefer::Bytes.offered_at(None, Duration::ZERO);
    // Each over a server side of its own.
    let mut near = [0, 1].map(|_| {
        let open = Open::to(Target::Address(server_address()));
        Relay::client_side(open, clock.now).offering_keys(server_address().ip(), least)
    });
    let mut far = visits.each_ref().map(asked);
    let mut reached = [Vec::new(), Vec::new()];
    for (number, visit) in visits.iter().enumerate() {
        near[number].handle_input(Input::Endpoint(&visit.said.turns[0].1), engine, clock);
        drain(&mut near[number]);
        let question = drain(&mut far[number].0).to_tunnel;
        near[number].handle_input(Input::Tunnel(&question), engine, clock);
        reached[number] = drain(&mut near[number]).to_endpoint;
    }
    // The second one's comes first.
    for visit in visits.iter().rev() {
        engine.release_key(visit.key_by_client(), clock.now);
    }
    clock.now += MILLISECOND;
    for number in [0, 1] {
        near[number].handle_timeout(engine, clock);
        let answer = drain(&mut near[number]).to_tunnel;
        let [own, other] = [number, 1 - number].map(|number| visits[number].key());
        assert!(has(&answer, own.key()) && !has(&answer, other.key()));
        let (relay, far_engine, far_clock) = &mut far[number];
        relay.handle_input(Input::Tunnel(&answer), far_engine, *far_clock);
        let message = drain(relay).to_tunnel;
        let flight = &visits[number].said.turns[1].1;
        assert!(message.len() + 500 < flight.len(), "it crosses opened");
        near[number].handle_input(Input::Tunnel(&message), engine, clock);
        reached[number].extend(drain(&mut near[number]).to_endpoint);
        assert!(reached[number] == *flight, "other bytes came");
    }
}

/// What a relay has put out.
#[derive(Default)]
struct Drained {
    to_tunnel: Vec<u8>,
    to_endpoint: Vec<u8>,
}

fn drain(relay: &mut Relay) -> Drained {
    let mut drained = Drained::default();
    while let Some(output) = relay.poll_output() {
        match output {
            Output::ToTunnel(bytes) => drained.to_tunnel.extend(bytes),
            Output::ToEndpoint(bytes) => drained.to_endpoint.extend(bytes),
            _ => {}
        }
    }
    drained
}

#[test]
fn a_key_that_does_not_name_the_server_s_random_is_not_handed_over_nor_waited_for() {
    let mut pair = consenting();
    let first = visit(1_000);
    let outcome = pair.client_releases(&first, MILLISECOND, first.key());
    let key = first.key();
    assert!(!outcome.crossed.iter().any(|bytes| has(bytes, key.key())));
    assert_eq!(outcome.count(1, Event::FlightWritten), 0);
    let names = [
        "record_keys_offered",
        "record_keys_handed_over",
        "record_keys_unused_unbound",
    ];
    assert_eq!(near_counted(&mut pair, names), [1, 0, 1]);
    // Late, it does not say that its client hands in keys that are of use.
    pair.engines[0].release_key(first.key(), pair.clock.now);
    pair.run(&visit(2_000).said, Plan::of(1));
    assert_eq!(near_counted(&mut pair, names), [0, 0, 1]);
}

#[test]
fn a_program_that_repeats_a_client_s_random_is_not_taken_for_one_that_hands_in_keys() {
    let [elsewhere, here] = twins();
    let mut pair = Pair {
        offers: Some(Prefer::Bytes.offered_at(None, Duration::ZERO)),
        ..Pair::default()
    };
    let offered = |pair: &mut Pair, seed| {
        pair.run(&visit(seed).said, Plan::of(1));
        near_counted(pair, ["record_keys_offered"])
    };
    pair.run(&here.said, Plan::of(1));
    pair.engines[0].release_key(elsewhere.key_by_client(), pair.clock.now);
    assert_eq!(offered(&mut pair, 3_000), [0], "of another connection");
    pair.engines[0].release_key(here.key_by_client(), pair.clock.now);
    assert_eq!(offered(&mut pair, 4_000), [1], "its own");
}

#[test]
fn servers_keys_with_one_client_random_each_open_their_own_flight() {
    // Of a library that names no server random: record 0 tells.
    let [first, second] = twins();
    let mut pair = Pair::default();
    for visit in [&first, &second] {
        pair.engines[1].release_key(visit.key(), pair.clock.now);
    }
    for visit in [&second, &first] {
        let outcome = pair.run(&visit.said, Plan::of(1));
        assert_eq!(outcome.count(0, Event::FlightRebuilt), 1);
        let [own, other] = match std::ptr::eq(visit, &first) {
            true => [&first, &second],
            false => [&second, &first],
        };
        assert!(has(&outcome.crossed[1], own.key().key()));
        assert!(!has(&outcome.crossed[1], other.key().key()));
    }
}

#[test]
fn a_server_s_key_stays_for_its_own_connection_when_another_one_has_its_client_s_random() {
    let [elsewhere, here] = twins();
    let mut pair = Pair::default();
    pair.engines[1].release_key(elsewhere.key(), pair.clock.now);
    let outcome = pair.run(&here.said, Plan::of(1));
    assert_eq!(
        outcome.count(1, Event::FlightWritten),
        0,
        "it opens nothing"
    );
    let key = elsewhere.key();
    assert!(!outcome.crossed.iter().any(|bytes| has(bytes, key.key())));
    let outcome = pair.run(&elsewhere.said, Plan::of(1));
    assert_eq!(outcome.count(0, Event::FlightRebuilt), 1);
}

#[test]
fn keys_of_the_client_s_direction_with_one_random_each_open_their_own_flight() {
    let first = client_certificate::visit(1_000);
    let second = client_certificate::visit(2_000).with_client_random_of(&first);
    let mut pair = Pair::default();
    pair.engines[0].release_key(first.client_key(), pair.clock.now);
    for (visit, own, other) in [(&second, &second, &first), (&first, &first, &second)] {
        if std::ptr::eq(visit, &second) {
            pair.engines[0].release_key(second.client_key(), pair.clock.now);
        }
        let outcome = pair.released(visit, Plan::of(1));
        assert_eq!(outcome.count(0, Event::OpenedWritten), 1);
        assert_eq!(outcome.count(1, Event::HandshakeFinished), 1);
        let [own, other] = [own, other].map(Visit::client_key);
        assert!(has(&outcome.crossed[0], own.key()));
        assert!(!has(&outcome.crossed[0], other.key()));
    }
    // Where no certificate is asked for, only that connection's goes.
    let third = visit(3_000).with_client_random_of(&first);
    for visit in [&first, &third] {
        pair.engines[0].release_key(visit.client_key(), pair.clock.now);
    }
    pair.released(&third, Plan::of(1));
    assert_eq!(
        near_counted(&mut pair, ["record_keys_unused_direction"]),
        [1]
    );
    let outcome = pair.released(&first, Plan::of(1));
    assert_eq!(outcome.count(0, Event::OpenedWritten), 1);
}
