//! Two relays joined: byte identity in any cut and order, and what crosses the second time.

use crate::support::tls::{self, noise};
use crate::support::{Conversation, Fault, Pace, Pair, Plan};
use proptest::prelude::*;
use tandem_engine::{ClientCertificates, Sender};
use tandem_link::tunnel::{Ending, Miss, Open, Target};
use tandem_tunnel::{Event, Handshakes};

fn conversations() -> Vec<Conversation> {
    let client = tls::chain(&[900, 1_000], 40);
    let ticket = noise(200, 50);
    vec![
        tls::full(&[], &[], 100),
        tls::full(&client, &[], 200),
        tls::full(&[], &ticket, 300),
        tls::resumed(&ticket, 400),
        tls::tls13(0, 500),
        tls::tls13(100_000, 600),
        tls::alert(700),
        tls::greeting(100),
        tls::greeting(200_000),
        tls::request(100_000),
        tls::flight_and_more(20_000, 800),
        tls::flight_and_more(200_000, 900),
        Conversation::default(),
    ]
}

#[test]
fn the_second_handshake_is_smaller_and_the_same() {
    let mut pair = Pair::default();
    let first = pair.run(&tls::full(&[], &[], 1), Plan::of(1));
    let said = tls::full(&[], &[], 1_000);
    let second = pair.run(&said, Plan::of(1));
    assert_eq!(
        second.count(0, Event::HelloWritten),
        second.count(1, Event::HelloRebuilt)
    );
    assert_eq!(second.count(1, Event::FlightWritten), 1);
    assert_eq!(second.count(0, Event::FlightRebuilt), 1);
    assert_eq!((second.bulk, first.bulk), ([1, 1], [1, 1]));
    let chain: usize = tls::server_chain().iter().map(Vec::len).sum();
    let whole = said.stream(Sender::Client).len() + said.stream(Sender::Server).len();
    assert!(
        second.bytes() + chain < whole + 80,
        "{} of {whole}",
        second.bytes()
    );
    assert!(second.bytes() + chain < first.bytes() + 100);
    for side in 0..2 {
        assert_eq!(second.count(side, Event::HandshakeFinished), 1);
        assert_eq!(second.count(side, Event::RelayOpened), 1);
        assert_eq!(second.count(side, Event::RelayClosed), 1);
    }
}

#[test]
fn a_clients_chain_and_its_ticket_cross_once() {
    let (client, ticket) = (tls::chain(&[900, 1_000], 40), noise(200, 50));
    let mut pair = Pair::default();
    pair.run(&tls::full(&client, &ticket, 1), Plan::of(1));
    let again = pair.run(&tls::full(&client, &ticket, 500), Plan::of(1));
    assert_eq!(again.count(0, Event::FlightWritten), 1);
    assert_eq!(again.count(1, Event::FlightRebuilt), 1);
    assert!(again.crossed[0].len() < 1_800, "{}", again.crossed[0].len());
    let said = tls::resumed(&ticket, 900);
    let resumed = pair.run(&said, Plan::of(1));
    assert_eq!(resumed.count(0, Event::HelloWritten), 1);
    assert_eq!(resumed.count(1, Event::HelloRebuilt), 1);
    assert!(resumed.crossed[0].len() + 100 < said.stream(Sender::Client).len());
}

#[test]
fn a_clients_chain_is_left_alone_where_a_side_says_so_and_no_byte_is_lost_where_they_differ() {
    let client = tls::chain(&[900, 1_000], 40);
    let (kept, none) = (ClientCertificates::Persistent, ClientCertificates::None);
    // Flights of the client's that are written and missed, and who learns the chain in a visit.
    for (near, far, written, missed, learned) in [
        (none, none, [0; 3], [0; 3], [0, 0]),
        (none, kept, [0; 3], [0; 3], [0, 1]),
        (kept, none, [0, 1, 1], [0, 1, 1], [1, 0]),
        (kept, kept, [0, 1, 1], [0; 3], [1, 1]),
    ] {
        let mut pair = Pair::with(near, far);
        let visits = [1, 500, 900].map(|seed| {
            let outcome = pair.run(&tls::full(&client, &[], seed), Plan::of(1));
            let of_chain = [0, 1].map(|side| {
                let events = pair.engines[side].events();
                events
                    .filter(|event| event.name() == "client_chains_learned")
                    .count()
            });
            assert_eq!(of_chain, learned, "{near:?} and {far:?}");
            let missed = outcome.count(1, Event::FlightMissed(Miss::NotHeld));
            (outcome.count(0, Event::FlightWritten), missed)
        });
        let found = (visits.map(|it| it.0), visits.map(|it| it.1));
        assert_eq!(found, (written, missed), "{near:?} and {far:?}");
    }
}

#[test]
fn what_the_far_side_lost_is_missed_and_sent_again_in_both_directions() {
    for seed in 0..40 {
        let plan = Plan {
            cut: if seed < 20 { usize::MAX } else { 700 },
            ..Plan::of(seed)
        };
        let (client, ticket) = (tls::chain(&[900, 1_000], 40), noise(200, 50));
        let said = tls::full(&client, &ticket, 1);
        let mut pair = Pair::default();
        pair.run(&said, plan);
        // The client side hints at what it has, and has lost it when the flight comes.
        let lost = crate::support::engine(tandem_engine::Role::ServerSide);
        pair.engines[1] = lost;
        let outcome = pair.run(&tls::full(&client, &ticket, 600), plan);
        assert_eq!(
            outcome.count(1, Event::FlightMissed(Miss::NotHeld)),
            2,
            "the hello, and the client's flight"
        );
        assert_eq!(outcome.count(0, Event::OriginalBytes(0)), 2);
        let after = pair.run(&tls::full(&client, &ticket, 700), plan);
        assert_eq!(
            after.count(1, Event::FlightRebuilt),
            1,
            "both have learned it again"
        );
        pair.engines[1] = crate::support::engine(tandem_engine::Role::ServerSide);
        let outcome = pair.run(&tls::resumed(&ticket, 800), plan);
        assert_eq!(
            outcome.count(1, Event::FlightMissed(Miss::NotHeld)),
            1,
            "the hello"
        );
    }
}

#[test]
fn every_conversation_arrives_whole_in_any_order_of_events() {
    for (index, said) in conversations().iter().enumerate() {
        for seed in 0..24 {
            let plan = Plan {
                pace: if seed % 3 == 0 {
                    Pace::Slow
                } else {
                    Pace::Prompt
                },
                cut: [usize::MAX, 40_000, 900, 200][seed as usize % 4],
                ..Plan::of(seed)
            };
            let mut pair = Pair::default();
            for _ in 0..2 {
                let outcome = pair.run(said, plan);
                for footprint in outcome.footprint {
                    assert!(footprint < 600_000, "{index}: {footprint}");
                }
            }
        }
    }
}

#[test]
fn whole_handshakes_cross_as_they_are_however_often_they_come() {
    /// The first message, with its target, and what says that frames end.
    const FRAMING: usize = 24;
    for (index, said) in conversations().iter().enumerate() {
        let whole = said.stream(Sender::Client).len() + said.stream(Sender::Server).len();
        let mut pair = Pair::default();
        for seed in 0..8 {
            let plan = Plan {
                handshakes: Handshakes::Whole,
                cut: [usize::MAX, 900][seed as usize % 2],
                ..Plan::of(seed)
            };
            let outcome = pair.run(said, plan);
            let crossed = outcome.bytes();
            assert!(crossed >= whole, "{index}: {crossed} of {whole}");
            // Each piece that comes while there are frames has a head of its own.
            if plan.cut == usize::MAX {
                let most = whole + whole.div_ceil(1 << 14) * 8 + FRAMING;
                assert!(crossed <= most, "{index}: {crossed} of {whole}");
            }
            for side in 0..2 {
                for event in [Event::HelloWritten, Event::FlightWritten] {
                    assert_eq!(outcome.count(side, event), 0, "{index}");
                }
                assert_eq!(outcome.count(side, Event::RelayClosed), 1, "{index}");
            }
        }
    }
}

#[test]
fn a_reset_at_any_moment_leaves_a_prefix_and_reaches_the_other_end() {
    for (index, said) in conversations().iter().enumerate() {
        for seed in 0..48u64 {
            let ending = Ending::ALL[seed as usize % Ending::ALL.len()];
            let fault = match seed % 3 {
                0 => Fault::ClientFails(ending),
                1 => Fault::ServerFails(ending),
                _ => Fault::TunnelLost(ending),
            };
            let plan = Plan {
                pace: if seed % 2 == 0 {
                    Pace::Slow
                } else {
                    Pace::Prompt
                },
                fault: Some((seed as usize / 3, fault)),
                cut: [usize::MAX, 900][seed as usize % 2],
                ..Plan::of(seed)
            };
            let mut pair = Pair::default();
            pair.run(said, Plan::of(seed));
            let outcome = pair.run(said, plan);
            for aborted in outcome.aborted.into_iter().flatten() {
                assert_eq!(aborted, ending, "{index} {seed}");
            }
        }
    }
}

#[test]
fn a_target_by_name_reaches_the_server_side_as_it_is() {
    let target = Target::new("www.example", 8_443).expect("a name");
    let outcome = Pair::default().run_to(target.clone(), &tls::full(&[], &[], 1), Plan::of(1));
    assert_eq!(outcome.connects, [target]);
    let target = Target::Name {
        name: "not a name".to_owned(),
        port: 443,
    };
    let now = tandem_wire::Instant::ZERO;
    let mut relay = tandem_tunnel::Relay::client_side(Open::to(target), now);
    let outputs: Vec<_> = std::iter::from_fn(|| relay.poll_output()).collect();
    let abort = tandem_tunnel::Output::AbortEndpoint(Ending::Malformed);
    assert!(relay.is_over() && outputs.contains(&abort));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_arrive_whole(
        turns in proptest::collection::vec(
            (any::<bool>(), proptest::collection::vec(any::<u8>(), 1..300), 1usize..400),
            0..6,
        ),
        is_tls in any::<bool>(),
        seed in any::<u64>(),
        cut in 1usize..5_000,
    ) {
        let mut said = if is_tls { tls::full(&[], &[], 5) } else { Conversation::default() };
        for (is_client, bytes, times) in turns {
            let sender = if is_client { Sender::Client } else { Sender::Server };
            // So that as many steps as there may be suffice for small cuts, too.
            said.turns.push((sender, bytes.repeat(times.min(cut))));
        }
        let mut pair = Pair::default();
        let plan = Plan { cut, pace: Pace::Slow, ..Plan::of(seed) };
        pair.run(&said, plan);
        pair.run(&said, plan);
    }
}
