//! Handshakes in which the client shows a certificate too: when its flight after the server's
//! crosses as a delta, what that saves, and what becomes of it when either proxy forgets, dies or
//! the link does harm.

use std::time::Duration;

use crate::support::bare::{Bare, has_option};
use crate::support::flight::payloads;
use crate::support::mutual::*;
use crate::support::once::{Harm, Once};
use crate::support::outcome::{BOTH, befall_at_each_step, counted, run};
use crate::support::seeds::is_thorough;
use crate::support::tls::{self, Conversation, Layout};
use crate::support::{
    Boxed, CLIENT_SIDE, Flow, Pair, ProxyElement, SERVER_SIDE, Scenario, complete, kill, repeats,
    run_to, start, store_with, teach_client, tls_bytes,
};
use tandem_engine::thesis::Codes;
use tandem_netsim::World;
use tandem_netsim::element::Port;
use tandem_netsim::firewall::{Firewall, Rule};
use tandem_netsim::host::AckPolicy;
use tandem_netsim::nat::{InvalidPolicy, Nat};
use tandem_packet::{ClientCertificates, WireFormat};
use tandem_store::MemoryStore;
use tandem_wire::Instant;

/// The same with a client that names its chain in its hello.
fn announced() -> Conversation {
    let intention = tls::intention(&client_chain());
    let hello = tls::client_hello_with(Some(crate::support::NAME), 100, &intention);
    let chain = tls::chain(&[926, 900]);
    Conversation::mutual(hello, &chain, &client_chain(), Layout::MessageARecord)
}

const CII: ClientCertificates = ClientCertificates::Cii {
    extension: tandem_engine::intention::EXTENSION,
};

const MCVEETY: WireFormat = WireFormat::Mcveety(Codes {
    possession: 0x99,
    compressed_certificate: 0x99,
});

/// Both proxies go by what the client names; the server's side alone holds it.
fn by_intention(wire: WireFormat) -> Scenario {
    told(scenario(wire, announced(), &[SERVER_SIDE]), wire, CII)
}

/// The servers' side alone holds it, and publishes that before its flight.
fn by_filter() -> Scenario {
    let scenario = scenario(WireFormat::Safe, conversation(), &[SERVER_SIDE]);
    told(scenario, WireFormat::Safe, BY_FILTER)
}

/// The worlds in which either way saves something.
fn warm_worlds() -> [(WireFormat, fn() -> Scenario); 5] {
    [
        (WireFormat::Safe, warm),
        (WireFormat::Safe, by_filter),
        (WireFormat::Safe, || by_intention(WireFormat::Safe)),
        (MCVEETY, || scenario(MCVEETY, conversation(), &BOTH)),
        (MCVEETY, || by_intention(MCVEETY)),
    ]
}

fn warm() -> Scenario {
    scenario(WireFormat::Safe, conversation(), &BOTH)
}

#[test]
fn a_chain_that_both_proxies_remember_does_not_cross_again() {
    for layout in [
        Layout::MessageARecord,
        Layout::Packed(1 << 14),
        Layout::Packed(700),
    ] {
        let (outcome, world) = run(scenario(WireFormat::Safe, conversation_in(layout), &BOTH));
        assert!(outcome.spared >= MIN_SPARED - 30, "{layout:?}: {outcome:?}");
        assert_eq!(outcome.repeats, 0);
        assert_eq!(counted(&world, "flights_written"), [1, 1]);
        assert_eq!(counted(&world, "flights_rebuilt_bytes"), [1, 1]);
        assert_eq!(counted(&world, "client_chains_learned"), [1, 1]);
        assert_eq!(world.server().counters().paws_dropped, 0);
    }
}

#[test]
fn the_first_handshake_of_a_client_teaches_both_and_the_second_is_spared_the_chain() {
    let first = scenario(WireFormat::Safe, conversation(), &[]);
    let (client, server) = conversation().scripts();
    let mut second = first.client.clone();
    second.local.set_port(40_001);
    let second = tandem_netsim::Host::client(second, first.server.local).with_script(client);
    let another = tandem_netsim::Host::server(first.server.clone()).with_script(server);
    let mut world = first.world().with_server(another);
    complete(&mut world, &conversation()).expect("it completes");
    let all = conversation().from_client.len() as u64;
    assert_eq!(tls_bytes(&world).0, all, "as it is");
    assert_eq!(counted(&world, "client_chains_learned"), [1, 1]);
    // A chain that is not held here makes nobody wait.
    assert_eq!(counted(&world, "flights_written"), [0, 1]);
    let mut world = world.with_client(second);
    world.connect();
    world
        .run_until(Duration::from_secs(100), |world| {
            world.clients()[1].script().is_done() && world.servers()[1].script().is_done()
        })
        .expect("it completes");
    assert_eq!(world.servers()[1].received(), conversation().from_client);
    assert!(2 * all - tls_bytes(&world).0 >= MIN_SPARED as u64);
    assert_eq!(counted(&world, "flights_written"), [1, 2]);
}

#[test]
fn nothing_is_held_for_a_client_that_shows_no_certificate() {
    let hello = tls::client_hello(Some(crate::support::NAME), 100);
    let chain = tls::chain(&[926, 900]);
    let none = Conversation::mutual(hello, &chain, &[], Layout::MessageARecord);
    let of = |conversation: Conversation, with: ClientCertificates| {
        let scenario = told(
            scenario(WireFormat::Safe, conversation, &BOTH),
            WireFormat::Safe,
            with,
        );
        let (outcome, world) = run(scenario);
        assert_eq!(outcome.spared, 0);
        assert_eq!(counted(&world, "hold_released_bytes"), [0, 0]);
        outcome.took
    };
    let with = of(none.clone(), ClientCertificates::Persistent);
    assert_eq!(with, of(none, ClientCertificates::None));
}

#[test]
fn told_to_leave_them_alone_the_proxies_neither_touch_nor_remember_client_certificates() {
    let without = told(warm(), WireFormat::Safe, ClientCertificates::None);
    let (outcome, world) = run(without);
    assert_eq!((outcome.spared, outcome.repeats), (0, 0));
    assert_eq!(counted(&world, "client_chains_learned"), [0, 0]);
    assert_eq!(counted(&world, "flights_written"), [0, 1]);
}

#[test]
fn a_store_lost_at_the_servers_side_costs_one_round_trip_of_the_link_and_no_timer() {
    let (with, _) = run(warm());
    let (without, world) = run(scenario(WireFormat::Safe, conversation(), &[CLIENT_SIDE]));
    assert_eq!(without.repeats, 0);
    assert_eq!(counted(&world, "misses_sent"), [0, 1]);
    assert_eq!(counted(&world, "misses_received"), [1, 0]);
    assert_eq!(counted(&world, "originals_sent_bytes"), [1, 0]);
    // 500 ms, and the time that the originals take on the link.
    let originals = Duration::from_micros(2_300 * 8);
    let longest = with.took + Duration::from_millis(505) + originals;
    assert!(without.took <= longest, "{without:?} against {with:?}");
}

#[test]
fn after_a_miss_the_chain_goes_as_it_is_until_both_have_learned_it_again() {
    let scenario = scenario(WireFormat::Safe, conversation(), &[CLIENT_SIDE]);
    let hosts: Vec<_> = (1..3)
        .map(|number| {
            let (client, server) = conversation().scripts();
            let mut config = scenario.client.clone();
            config.local.set_port(40_000 + number);
            (
                tandem_netsim::Host::client(config, scenario.server.local).with_script(client),
                tandem_netsim::Host::server(scenario.server.clone()).with_script(server),
            )
        })
        .collect();
    let mut world = scenario.world();
    run_to(&mut world, SERVER_SIDE, "misses_sent").expect("it misses");
    run_to(&mut world, CLIENT_SIDE, "misses_received").expect("it is told");
    // The next one comes before the first is through.
    for (done, (client, server)) in (2..).zip(hosts) {
        world = world.with_client(client).with_server(server);
        world.connect();
        world
            .run_until(Duration::from_secs(100), |world| {
                let ends = world.clients().iter().zip(world.servers());
                ends.clone().count() == done
                    && ends.clone().all(|(client, server)| {
                        client.script().is_done() && server.script().is_done()
                    })
            })
            .expect("it completes");
    }
    assert_eq!(counted(&world, "misses_sent"), [0, 1], "one miss, no more");
    assert!(counted(&world, "flights_written")[0] >= 2);
}

#[test]
fn an_answer_that_comes_again_after_the_servers_finished_is_rebuilt_again() {
    let conversation = conversation();
    let [hello, answer] = [0, 2].map(|turn| conversation.turns[turn].1.clone());
    let [flight, finished] = [1, 3].map(|turn| conversation.turns[turn].1.clone());
    let mut flow = Flow::default();
    let mut pair = Pair::knowing(&conversation.chain);
    for side in [&mut pair.client_side, &mut pair.server_side] {
        teach_client(side.proxy.store_mut(), &client_chain());
    }
    pair.open(&flow);
    pair.client(flow.client(0, &hello));
    flow.server_acked = hello.len() as u32;
    let at = hello.len() as u32;
    for (offset, piece) in (0..).step_by(1_448).zip(flight.chunks(1_448)) {
        pair.server(flow.server(offset, piece));
    }
    flow.client_acked = flight.len() as u32;
    let send = |pair: &mut Pair, flow: &Flow, pieces: usize| {
        (at..)
            .step_by(1_448)
            .zip(answer.chunks(1_448).take(pieces))
            .flat_map(|(offset, piece)| {
                payloads(&pair.client(flow.client(offset, piece)).at_server)
            })
            .collect::<Vec<u8>>()
    };
    assert!(send(&mut pair, &flow, 2) == answer);
    assert_eq!(pair.client_side.count("flights_written"), 1);
    // The client's timer is faster than the server's Finished, and both meet on the link.
    flow.server_acked += answer.len() as u32;
    pair.server_to_link(flow.server(flow.client_acked, &finished));
    flow.client_acked = flight.len() as u32;
    pair.now += Duration::from_secs(2);
    let again = send(&mut pair, &flow, 1);
    assert_eq!(pair.client_side.count("flights_repeated"), 1);
    assert!(!again.is_empty() && answer.ends_with(&again));
    assert_eq!(pair.server_side.count("handshakes_finished"), 0);
    // Once the client has it, the server's side takes its leave.
    flow.client_acked += finished.len() as u32;
    pair.arrive_at_server_side(flow.client(at + answer.len() as u32, b"more"));
    assert_eq!(pair.server_side.count("handshakes_finished"), 1);
}

#[test]
fn a_chain_that_is_known_only_as_a_servers_is_referred_to_and_costs_a_miss_at_most() {
    let mut scenario = scenario(WireFormat::Safe, conversation(), &[]);
    if let Some(proxy) = &mut scenario.client_side {
        let mut store = store_with(&scenario.conversation.chain);
        crate::support::teach(&mut store, &crate::support::site(), &client_chain());
        *proxy.proxy.store_mut() = store;
    }
    let (outcome, world) = run(scenario);
    assert_eq!(outcome.repeats, 0);
    assert_eq!(counted(&world, "misses_sent"), [0, 1]);
}

#[test]
fn it_passes_a_nat_and_a_firewall_that_drops_what_connection_tracking_calls_invalid() {
    let outer = std::net::Ipv4Addr::new(192, 0, 2, 7);
    for before in [true, false] {
        let nat = Boxed(Box::new(Nat::new(outer, 50_000, InvalidPolicy::Drop)));
        let mut scenario = warm();
        if before {
            scenario.before_link = Some(nat);
        } else {
            scenario.after_link = Some(nat);
        }
        let (outcome, world) = run(scenario);
        assert!(outcome.spared >= MIN_SPARED, "{outcome:?}");
        assert_eq!(outcome.repeats, 0);
        assert_eq!(counted(&world, "flights_rebuilt_bytes"), [1, 1]);
    }
}

#[test]
fn without_timestamps_nothing_is_rewritten() {
    for rule in [false, true] {
        let mut scenario = warm();
        if rule {
            scenario.after_link = Some(Boxed(Box::new(Firewall::new([
                Rule::RemoveTimestampsFromSyn,
            ]))));
        } else {
            scenario.client.timestamps = None;
        }
        let (outcome, world) = run(scenario);
        assert_eq!((outcome.spared, outcome.repeats), (0, 0));
        assert_eq!(counted(&world, "flights_written"), [0, 0]);
    }
}

#[test]
fn the_proxies_die_start_again_or_forget_at_each_step_and_two_repeats_more_are_the_most_it_costs() {
    type Fate = fn(&mut World, usize, ClientCertificates);
    let fates: [(&str, Fate); 4] = [
        ("dies", |world, index, _| drop(kill(world, index))),
        ("starts again", |world, index, how| {
            let store = kill(world, index);
            start(world, index, told_of(index, how), store);
        }),
        ("loses all", |world, index, how| {
            kill(world, index);
            start(world, index, told_of(index, how), MemoryStore::default());
        }),
        ("forgets", |world, index, _| {
            if let Some(proxy) = world.element_mut::<ProxyElement>(index) {
                *proxy.proxy.store_mut() = MemoryStore::default();
            }
        }),
    ];
    let worlds: [(fn() -> Scenario, ClientCertificates); 3] = [
        (warm, ClientCertificates::Persistent),
        (by_filter, BY_FILTER),
        (|| by_intention(WireFormat::Safe), CII),
    ];
    for (begin, how) in worlds {
        for (name, fate) in fates {
            let what = format!("{how:?} {name}");
            let steps = befall_at_each_step(&what, begin, |world, index| fate(world, index, how));
            assert!(steps > 20, "{steps} steps were tried");
        }
    }
}

#[test]
fn each_packet_lost_copied_or_late_costs_two_repeats_at_most_and_no_byte() {
    let harms = [
        Harm::Lost,
        Harm::Copied(Duration::from_secs(3)),
        Harm::Late(Duration::from_secs(4)),
        Harm::Damaged,
        Harm::Copied(Duration::from_millis(1)),
        Harm::Late(Duration::from_millis(400)),
    ];
    // The usual way meets all of them, the others the worst, unless more is asked for than CI has
    // time for.
    let worst = if is_thorough() { harms.len() } else { 3 };
    let mut most = harms.len();
    for (wire, begin) in warm_worlds() {
        for harm in harms.into_iter().take(std::mem::replace(&mut most, worst)) {
            for place in ["link", "client", "server"] {
                for towards in [Port::Left, Port::Right] {
                    for number in 0..14 {
                        let harmed = |mut scenario: Scenario| {
                            let once = Some(Once::boxed(harm, towards, number));
                            match place {
                                "link" => scenario.before_link = once,
                                "client" => scenario.client_lan = once,
                                _ => scenario.server_lan = once,
                            }
                            scenario
                        };
                        let (without, _) = run(harmed(begin().plain()));
                        let (with, _) = run(harmed(begin()));
                        assert!(
                            with.repeats <= without.repeats + 2,
                            "{wire:?} {harm:?} {place} {towards:?} {number}: {with:?} {without:?}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn the_thesis_s_message_carries_a_clients_certificate_too() {
    let wire = WireFormat::Mcveety(Codes::default());
    for layout in [Layout::MessageARecord, Layout::Packed(1 << 14)] {
        let (outcome, world) = run(scenario(wire, conversation_in(layout), &BOTH));
        // Two references in place of two certificates, their lengths and the list's; and what the
        // hello says of the server's two.
        assert_eq!(outcome.spared, 871 + 905 + 6 + 3 - 32 - 36);
        assert_eq!(outcome.repeats, 0);
        assert_eq!(counted(&world, "flights_rebuilt_bytes"), [1, 1]);
    }
    let (outcome, _) = run(scenario(wire, conversation(), &[CLIENT_SIDE]));
    assert_eq!(outcome.repeats, 1, "the thesis waits for TCP");
}

#[test]
fn what_the_proxies_say_to_each_other_reaches_neither_end() {
    let mut worlds = vec![
        // The server's side says that it holds the chain on an answer by itself, and that it was
        // not held.
        by_intention(WireFormat::Safe),
        by_intention(WireFormat::Safe).holding(MemoryStore::default()),
        scenario(WireFormat::Safe, conversation(), &[CLIENT_SIDE]),
    ];
    worlds[1].server.acknowledgements = AckPolicy::Delayed(Duration::from_millis(200));
    for mut scenario in worlds
        .into_iter()
        .chain(warm_worlds().map(|(_, begin)| begin()))
    {
        scenario.client_lan = Some(Bare::boxed());
        scenario.server_lan = Some(Bare::boxed());
        run(scenario);
    }
}

#[test]
fn what_is_held_of_a_clients_chain_is_said_twice() {
    for (holds, said) in [(&[][..], 0), (&[SERVER_SIDE], 2)] {
        let wire = WireFormat::Safe;
        let scenario = told(scenario(wire, announced(), holds), wire, CII);
        let conversation = scenario.conversation.clone();
        let mut world = scenario.world_not_connected().with_tap(SERVER_SIDE);
        world.connect();
        complete(&mut world, &conversation).expect("it completes");
        let options = world
            .tapped(SERVER_SIDE)
            .iter()
            .filter(|tapped| tapped.towards == Port::Left && has_option(&tapped.packet));
        // The proxy's presence is on the SYN/ACK.
        assert_eq!(options.count(), 1 + said, "{holds:?}");
    }
}

#[test]
fn a_client_that_names_its_chain_is_spared_it_where_the_servers_side_holds_it() {
    // One reference for each certificate: what is held of a chain need not be held as a chain.
    let least = MIN_SPARED - 17 - 10;
    let (outcome, world) = run(by_intention(WireFormat::Safe));
    assert!(outcome.spared >= least, "{outcome:?}");
    assert_eq!(outcome.repeats, 0);
    assert_eq!(counted(&world, "intentions_held"), [0, 1]);
    assert_eq!(counted(&world, "intentions_confirmed"), [1, 0]);
    assert_eq!(counted(&world, "flights_written"), [1, 1]);
    assert_eq!(counted(&world, "flights_rebuilt_bytes"), [1, 1]);
    assert_eq!(counted(&world, "client_chains_learned"), [1, 1]);
    // A server that acknowledges the hello with its flight alone: the answer goes by itself, before
    // the flight that is held.
    let mut scenario = by_intention(WireFormat::Safe);
    scenario.server.acknowledgements = AckPolicy::Delayed(Duration::from_millis(200));
    let (outcome, world) = run(scenario);
    assert!(outcome.spared >= least, "{outcome:?}");
    assert_eq!(counted(&world, "intentions_confirmed"), [1, 0]);
    // A server's flight that nobody rewrites carries it too.
    let mut scenario = by_intention(WireFormat::Safe).holding(MemoryStore::default());
    scenario.server.acknowledgements = AckPolicy::Delayed(Duration::from_millis(200));
    let (outcome, world) = run(scenario);
    assert!(outcome.spared >= least, "{outcome:?}");
    assert_eq!(counted(&world, "flights_written"), [1, 0]);
}

#[test]
fn a_chain_that_is_named_and_not_held_goes_as_it_is_and_is_held_the_next_time() {
    for wire in [WireFormat::Safe, MCVEETY] {
        let first = told(scenario(wire, announced(), &[]), wire, CII);
        let held = if wire == MCVEETY { -36 } else { 0 };
        let (outcome, mut world) = run(first);
        assert_eq!((outcome.spared, outcome.repeats), (held, 0));
        assert_eq!(counted(&world, "intentions_not_held"), [0, 1]);
        assert_eq!(counted(&world, "client_chains_learned"), [1, 1]);
        let store = kill(&mut world, SERVER_SIDE);
        let mut second = told(scenario(wire, announced(), &[]), wire, CII);
        if let Some(proxy) = &mut second.server_side {
            *proxy.proxy.store_mut() = store;
        }
        let (outcome, _) = run(second);
        assert!(outcome.spared >= MIN_SPARED - 17 - 10 - 36, "{outcome:?}");
    }
}

#[test]
fn a_client_that_names_nothing_is_left_alone() {
    for wire in [WireFormat::Safe, MCVEETY] {
        let scenario = told(scenario(wire, conversation(), &BOTH), wire, CII);
        let (outcome, world) = run(scenario);
        assert!(outcome.spared <= 0, "{outcome:?}");
        assert_eq!(counted(&world, "flights_written"), [0, 1]);
    }
}

#[test]
fn what_the_servers_side_forgets_after_its_answer_costs_one_round_trip() {
    let took = |forgets: bool| {
        let scenario = by_intention(WireFormat::Safe);
        let conversation = scenario.conversation.clone();
        let mut world = scenario.world();
        run_to(&mut world, CLIENT_SIDE, "intentions_confirmed").expect("it is confirmed");
        if forgets {
            let side = world.element_mut::<ProxyElement>(SERVER_SIDE);
            *side.expect("it is there").proxy.store_mut() = MemoryStore::default();
        }
        complete(&mut world, &conversation).expect("it completes");
        assert_eq!(repeats(&world), 0);
        let missed = usize::from(forgets);
        assert_eq!(counted(&world, "misses_sent"), [0, missed]);
        world.now().saturating_since(Instant::ZERO)
    };
    let (with, without) = (took(true), took(false));
    let originals = Duration::from_micros(2_300 * 8);
    assert!(with <= without + Duration::from_millis(505) + originals);
}

#[test]
fn the_thirteen_steps_of_the_thesis() {
    let scenario = by_intention(MCVEETY);
    let conversation = scenario.conversation.clone();
    let mut world = scenario.world();
    // 1 to 5: the server's side reads the hello, and answers in the ServerHello.
    run_to(&mut world, SERVER_SIDE, "intentions_held").expect("it holds them");
    // 6 to 8: the client's side takes the answer off; that the client gets the server's bytes is
    // checked throughout.
    run_to(&mut world, CLIENT_SIDE, "intentions_confirmed").expect("it is told");
    // 9 to 11: references in place of certificates, and back.
    run_to(&mut world, SERVER_SIDE, "flights_rebuilt_bytes").expect("it is rebuilt");
    complete(&mut world, &conversation).expect("it completes");
    // 13.
    world.run_for(Duration::from_secs(10)).expect("it ends");
    assert_eq!(counted(&world, "client_chains_learned"), [1, 1]);
    // The hello's own CPI, and two references for two certificates, their lengths and the list's.
    let spared = conversation.from_client.len() as i64 - tls_bytes(&world).0 as i64;
    assert_eq!(spared, 871 + 905 + 6 + 3 - 32 - 36);
    // Two references in place of the server's two; and the answer: four bytes and two references.
    let spared = conversation.from_server.len() as i64 - tls_bytes(&world).1 as i64;
    assert_eq!(spared, 926 + 900 + 6 + 3 - 32 - 36);
    assert_eq!(repeats(&world), 0);
}
