//! Clients that come back with a session ticket (RFC 5077): when their hello crosses with a
//! reference in its place, what that saves, and what becomes of it when either proxy forgets, dies
//! or the link does harm.

use std::time::Duration;

use crate::support::once::{Harm, Once};
use crate::support::outcome::{BOTH, befall_at_each_step, counted, run};
use crate::support::tls::{self, Conversation, Layout};
use crate::support::{
    Boxed, CLIENT_SIDE, Closes, Flow, Pair, ProxyElement, SERVER_SIDE, Scenario, clean, complete,
    config, kill, proxy, repeats, run_to, site, start, teach_client, tls_bytes,
};
use tandem_engine::thesis::Codes;
use tandem_netsim::element::Port;
use tandem_netsim::firewall::{Firewall, Rule};
use tandem_netsim::nat::{InvalidPolicy, Nat};
use tandem_netsim::{Host, World};
use tandem_packet::{Role, WireFormat};
use tandem_store::MemoryStore;
use tandem_wire::{Instant, TcpPacket};

const MCVEETY: WireFormat = WireFormat::Mcveety(Codes {
    possession: 0x99,
    compressed_certificate: 0x99,
});

/// What a frame and a reference take in place of a ticket, at most.
const COST: usize = 45;

fn ticket(length: usize) -> Vec<u8> {
    tls::noise(length, 600)
}

/// A hello that shows a ticket of this length.
fn hello(length: usize) -> Vec<u8> {
    tls::client_hello_with(
        Some(crate::support::NAME),
        0,
        &tls::showing(&ticket(length)),
    )
}

fn chain() -> Vec<Vec<u8>> {
    tls::chain(&[926, 900])
}

/// A server that takes the ticket.
fn resumed(length: usize) -> Conversation {
    Conversation::resumed(hello(length), &chain())
}

fn role_of(index: usize) -> Role {
    if index == CLIENT_SIDE {
        Role::ClientSide
    } else {
        Role::ServerSide
    }
}

/// Both proxies there; those in `knowing` have seen the ticket.
fn scenario(
    wire: WireFormat,
    conversation: Conversation,
    length: usize,
    knowing: &[usize],
) -> Scenario {
    let mut scenario = Scenario::with(wire, conversation);
    scenario.closes = Closes::AtTheEnd;
    for (index, proxy) in [
        (CLIENT_SIDE, &mut scenario.client_side),
        (SERVER_SIDE, &mut scenario.server_side),
    ] {
        if let Some(proxy) = proxy.as_mut().filter(|_| knowing.contains(&index)) {
            let now = Instant::ZERO;
            proxy
                .proxy
                .engine_mut()
                .remember_ticket(&site(), &ticket(length), now);
        }
    }
    scenario
}

fn warm() -> Scenario {
    scenario(WireFormat::Safe, resumed(208), 208, &BOTH)
}

#[test]
fn a_ticket_that_both_have_seen_does_not_cross_again() {
    for length in [100, 208, 1_000] {
        let scenario = scenario(WireFormat::Safe, resumed(length), length, &BOTH);
        let plain = self::scenario(WireFormat::Safe, resumed(length), length, &[]);
        let (outcome, world) = run(scenario);
        let least = length as i64 - COST as i64;
        assert!(outcome.spared >= least, "{length}: {outcome:?}");
        assert_eq!(outcome.repeats, 0);
        assert_eq!(counted(&world, "session_tickets_referred"), [1, 0]);
        assert_eq!(counted(&world, "flights_rebuilt_bytes"), [0, 1]);
        assert_eq!(counted(&world, "flows_given_up_resumed"), [1, 1]);
        assert_eq!(counted(&world, "flows_given_up_failsafe"), [0, 0]);
        assert!(outcome.took <= run(plain.plain()).0.took);
    }
}

#[test]
fn over_2400_bit_s_the_server_s_finished_is_there_four_tenths_of_a_second_sooner() {
    let took = |mut scenario: Scenario| {
        scenario.link = crate::support::iridium();
        let finished = scenario.conversation.turns[1].1.len();
        let mut world = scenario.world();
        world
            .run_until(Duration::from_secs(60), |world| {
                world.client().received().len() >= finished
            })
            .expect("it is there");
        let took = world.now().saturating_since(Instant::ZERO);
        (took, crate::support::link(&world).counters().ip_bytes())
    };
    let plain = took(warm().plain());
    let ours = took(warm());
    eprintln!("time and IP bytes: {plain:?} plain, {ours:?} ours");
    assert!(ours.0 + Duration::from_millis(400) <= plain.0);
}

/// One connection after the other through the same proxies; how many TLS bytes of the client's each
/// was spared.
fn in_turn(scenario: Scenario, conversations: &[Conversation]) -> (Vec<i64>, World) {
    let (client, server) = (scenario.client.clone(), scenario.server.clone());
    let mut world = scenario.world();
    let mut spared = Vec::new();
    let mut crossed = 0;
    for (number, conversation) in (0..).zip(conversations) {
        if number > 0 {
            let (client_script, server_script) = conversation.scripts();
            let mut client = client.clone();
            client.local.set_port(client.local.port() + number);
            world = world
                .with_client(Host::client(client, server.local).with_script(client_script))
                .with_server(Host::server(server.clone()).with_script(server_script));
            world.connect();
        }
        let index = usize::from(number);
        world
            .run_until(Duration::from_secs(100), |world| {
                world.clients()[index].script().is_done()
                    && world.servers()[index].script().is_done()
            })
            .expect("it completes");
        assert!(world.clients()[index].received() == conversation.from_server);
        assert!(world.servers()[index].received() == conversation.from_client);
        let now = tls_bytes(&world).0;
        spared.push(conversation.from_client.len() as i64 - (now - crossed) as i64);
        crossed = now;
    }
    (spared, world)
}

/// A client that comes back with this ticket, which the server takes.
fn returns(ticket: &[u8]) -> Conversation {
    let hello = tls::client_hello_with(Some(crate::support::NAME), 0, &tls::showing(ticket));
    Conversation::resumed(hello, &chain())
}

#[test]
fn what_the_server_gives_in_one_connection_is_spared_in_the_next() {
    let [given, renewed] = [ticket(192), tls::noise(192, 601)];
    // The second connection is given a new ticket, which the third shows.
    let conversations = [
        Conversation::with_chain(&chain()).giving(&given),
        returns(&given).giving(&renewed),
        returns(&renewed),
    ];
    let mut scenario = Scenario::with(WireFormat::Safe, conversations[0].clone());
    scenario.seed = 3;
    let (spared, world) = in_turn(scenario, &conversations);
    let least = 192 - COST as i64;
    assert!(
        spared[0] == 0 && spared[1..].iter().all(|spared| *spared >= least),
        "{spared:?}"
    );
    assert_eq!(counted(&world, "session_tickets_learned"), [2, 2]);
    assert_eq!(counted(&world, "session_tickets_referred"), [2, 0]);
    assert_eq!(counted(&world, "misses_sent"), [0, 0]);
    assert_eq!(
        proxy(&world, CLIENT_SIDE)
            .proxy
            .engine()
            .session_tickets()
            .0,
        2
    );
}

#[test]
fn a_ticket_that_was_given_before_the_proxies_came_is_spared_from_its_second_use_on() {
    let conversation = returns(&ticket(208));
    let scenario = Scenario::with(WireFormat::Safe, conversation.clone());
    let conversations = [conversation.clone(), conversation.clone(), conversation];
    let (spared, _) = in_turn(scenario, &conversations);
    let least = 208 - COST as i64;
    assert!(
        spared[0] == 0 && spared[1] >= least && spared[2] >= least,
        "{spared:?}"
    );
}

#[test]
fn a_ticket_that_the_servers_side_lacks_costs_one_round_trip_and_no_repeat() {
    let (with, _) = run(warm());
    let (without, world) = run(scenario(
        WireFormat::Safe,
        resumed(208),
        208,
        &[CLIENT_SIDE],
    ));
    assert_eq!((with.repeats, without.repeats), (0, 0));
    assert_eq!(counted(&world, "misses_sent"), [0, 1]);
    assert_eq!(counted(&world, "flights_missed_not_held"), [0, 1]);
    assert_eq!(counted(&world, "misses_received"), [1, 0]);
    assert_eq!(counted(&world, "session_tickets_missed"), [1, 0]);
    // 500 ms, and the time that the originals take on the link.
    let originals = Duration::from_micros(500 * 8);
    let longest = with.took + Duration::from_millis(505) + originals;
    assert!(without.took <= longest, "{without:?} against {with:?}");
}

#[test]
fn after_a_miss_nothing_that_was_seen_before_it_is_referred_to() {
    // The server's side starts again, and has forgotten what both had seen of three clients.
    let tickets: Vec<_> = (700..703).map(|seed| tls::noise(208, seed)).collect();
    let turns = [0, 1, 2, 0, 1, 2].map(|index: usize| returns(&tickets[index]));
    let mut scenario = Scenario::with(WireFormat::Safe, turns[0].clone());
    if let Some(proxy) = &mut scenario.client_side {
        for ticket in &tickets {
            proxy
                .proxy
                .engine_mut()
                .remember_ticket(&site(), ticket, Instant::ZERO);
        }
    }
    let (spared, world) = in_turn(scenario, &turns);
    assert_eq!(counted(&world, "session_tickets_missed"), [1, 0]);
    assert!(spared[0] < 0 && spared[1..3] == [0, 0], "{spared:?}");
    assert!(
        spared[3..]
            .iter()
            .all(|spared| *spared >= 208 - COST as i64),
        "{spared:?}"
    );
}

#[test]
fn a_ticket_that_the_server_refuses_leaves_all_else_as_it_was() {
    let client_chain = vec![tls::noise(871, 40), tls::noise(905, 41)];
    let layout = Layout::MessageARecord;
    let conversation = Conversation::mutual(hello(208), &chain(), &client_chain, layout);
    let spared = |knowing: &[usize]| {
        let mut scenario = scenario(WireFormat::Safe, conversation.clone(), 208, knowing);
        let proxies = [&mut scenario.client_side, &mut scenario.server_side];
        for proxy in proxies.into_iter().flatten() {
            teach_client(proxy.proxy.store_mut(), &client_chain);
        }
        let (outcome, world) = run(scenario);
        assert_eq!(outcome.repeats, 0);
        assert_eq!(counted(&world, "chains_learned"), [1, 1]);
        assert_eq!(counted(&world, "client_chains_learned"), [1, 1]);
        let written = counted(&world, "flights_written");
        (outcome.spared, tls_bytes(&world).1, written)
    };
    let (without, down_without, written) = spared(&[]);
    assert_eq!(written, [1, 1]);
    let (with, down, written) = spared(&BOTH);
    assert_eq!(written, [2, 1]);
    assert!(with >= without + 208 - COST as i64, "{with} {without}");
    assert_eq!(down, down_without, "the hint went with the reference");
}

#[test]
fn a_hello_in_several_segments_is_held_only_where_a_ticket_has_begun_in_the_first() {
    let (outcome, world) = run(scenario(WireFormat::Safe, resumed(1_700), 1_700, &BOTH));
    assert!(outcome.spared >= 1_700 - COST as i64, "{outcome:?}");
    assert_eq!(outcome.repeats, 0);
    assert_eq!(counted(&world, "hold_released_bytes"), [0, 0]);
    assert_eq!(counted(&world, "hints_sent"), [1, 0]);
    // One that nobody has seen goes as soon as the hello is there, with its hint.
    let (outcome, world) = run(scenario(WireFormat::Safe, resumed(1_700), 1_700, &[]));
    assert_eq!((outcome.spared, outcome.repeats), (0, 0));
    assert_eq!(counted(&world, "hold_released_bytes"), [1, 0]);
    let full = Conversation::new(hello(1_700), &chain(), Layout::MessageARecord);
    let (_, world) = run(scenario(WireFormat::Safe, full, 1_700, &[]));
    assert_eq!(counted(&world, "flights_written"), [0, 1]);
    // A long hello without one, as with a post-quantum key share, is not held.
    let long = tls::client_hello(Some(crate::support::NAME), 1_600);
    let conversation = Conversation::new(long, &chain(), Layout::MessageARecord);
    let (_, world) = run(scenario(WireFormat::Safe, conversation, 208, &BOTH));
    assert_eq!(counted(&world, "hold_released_bytes"), [0, 0]);
}

#[test]
fn a_hello_whose_second_segment_does_not_come_goes_on_after_the_longest_hold() {
    let hello = hello(1_700);
    let (first, second) = hello.split_at(1_448);
    let mut pair = Pair::knowing(&chain());
    for side in [&mut pair.client_side, &mut pair.server_side] {
        side.proxy
            .engine_mut()
            .remember_ticket(&site(), &ticket(1_700), Instant::ZERO);
    }
    let flow = Flow::default();
    pair.open(&flow);
    assert_eq!(
        pair.client(flow.client(0, first)).at_server,
        [] as [Vec<u8>; 0]
    );
    let arrived = pair.wait(Duration::from_millis(200)).at_server;
    assert_eq!(arrived, [flow.client(0, first)]);
    let arrived = pair.client(flow.client(1_448, second)).at_server;
    assert_eq!(arrived, [flow.client(1_448, second)]);
    assert_eq!(pair.client_side.count("session_tickets_referred"), 0);
    assert_eq!(pair.client_side.count("hints_sent"), 1);
    // That nothing was referred to is no miss.
    let mut answered = flow.clone();
    answered.server_acked = hello.len() as u32;
    pair.server(answered.server(0, &[]));
    assert_eq!(pair.client_side.count("session_tickets_missed"), 0);
}

#[test]
fn a_hello_without_a_ticket_that_both_have_seen_crosses_byte_for_byte() {
    // Extension 41 (RFC 8446, section 4.2.11) stands last; what it holds is sealed anew for each
    // connection.
    let mut shared_key = vec![0, 35, 0, 0, 0, 41, 0, 208];
    shared_key.extend(ticket(208));
    let tls13 = tls::client_hello_with(Some(crate::support::NAME), 0, &shared_key);
    let unknown = tls::client_hello_with(Some(crate::support::NAME), 0, &tls::showing(&[9; 208]));
    let short = tls::client_hello_with(Some(crate::support::NAME), 0, &tls::showing(&[9; 48]));
    for conversation in [
        Conversation::tls13(tls13, &chain()),
        Conversation::resumed(unknown, &chain()),
        Conversation::resumed(short, &chain()),
    ] {
        let (outcome, world) = run(scenario(WireFormat::Safe, conversation, 208, &BOTH));
        assert_eq!((outcome.spared, outcome.repeats), (0, 0));
        assert_eq!(counted(&world, "flights_written"), [0, 0]);
    }
}

#[test]
fn the_thesis_s_format_knows_no_tickets() {
    let spared = |knowing: &[usize]| {
        let (outcome, world) = run(scenario(MCVEETY, resumed(208), 208, knowing));
        assert_eq!(counted(&world, "session_tickets_referred"), [0, 0]);
        assert_eq!(counted(&world, "session_tickets_learned"), [0, 0]);
        outcome.spared
    };
    assert_eq!(spared(&BOTH), spared(&[]));
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
        assert!(outcome.spared >= 208 - COST as i64, "{outcome:?}");
        assert_eq!(outcome.repeats, 0);
        assert_eq!(counted(&world, "flights_rebuilt_bytes"), [0, 1]);
    }
}

#[test]
fn without_timestamps_no_hello_is_rewritten() {
    for rule in [false, true] {
        let mut scenario = warm();
        if rule {
            let firewall = Firewall::new([Rule::RemoveTimestampsFromSyn]);
            scenario.after_link = Some(Boxed(Box::new(firewall)));
        } else {
            scenario.client.timestamps = None;
        }
        let (outcome, world) = run(scenario);
        assert_eq!((outcome.spared, outcome.repeats), (0, 0));
        assert_eq!(counted(&world, "flights_written"), [0, 0]);
    }
}

/// A name, and how its world begins.
type Begins = (&'static str, fn() -> Scenario);

/// The worlds in which a hello is written: in one segment, in two, and refused.
fn worlds() -> [Begins; 3] {
    [
        ("in one segment", warm),
        ("in two", || {
            scenario(WireFormat::Safe, resumed(1_700), 1_700, &BOTH)
        }),
        ("refused", || {
            let full = Conversation::new(hello(208), &chain(), Layout::MessageARecord);
            scenario(WireFormat::Safe, full, 208, &BOTH)
        }),
    ]
}

#[test]
fn the_proxies_die_start_again_or_forget_at_each_step_and_two_repeats_more_are_the_most_it_costs() {
    type Fate = fn(&mut World, usize);
    let fates: [(&str, Fate); 3] = [
        ("dies", |world, index| drop(kill(world, index))),
        ("starts again", |world, index| {
            let store = kill(world, index);
            start(
                world,
                index,
                config(role_of(index), WireFormat::Safe),
                store,
            );
        }),
        ("forgets", |world, index| {
            if let Some(proxy) = world.element_mut::<ProxyElement>(index) {
                *proxy.proxy.store_mut() = MemoryStore::default();
                proxy.proxy.engine_mut().forget_tickets();
            }
        }),
    ];
    for (what, begin) in worlds() {
        for (name, fate) in fates {
            let steps = befall_at_each_step(&format!("{what}, {name}"), begin, fate);
            assert!(steps > 15, "{steps} steps were tried");
        }
    }
}

#[test]
fn each_packet_of_a_connection_may_be_lost_copied_late_or_damaged() {
    let harms = [
        Harm::Lost,
        Harm::Copied(Duration::from_millis(1)),
        Harm::Copied(Duration::from_secs(3)),
        Harm::Late(Duration::from_millis(40)),
        Harm::Late(Duration::from_secs(2)),
        Harm::Damaged,
    ];
    for (what, begin) in worlds() {
        for harm in harms {
            for towards in [Port::Left, Port::Right] {
                for (before, number) in [true, false]
                    .into_iter()
                    .flat_map(|b| (0..6).map(move |n| (b, n)))
                {
                    let mut scenario = begin();
                    let once = Some(Once::boxed(harm, towards, number));
                    if before {
                        scenario.before_link = once;
                    } else {
                        scenario.client_lan = once;
                    }
                    let conversation = scenario.conversation.clone();
                    let mut world = scenario.world();
                    if let Err(failure) = complete(&mut world, &conversation) {
                        panic!("{what}: {harm:?} {towards:?} {before} {number}: {failure}");
                    }
                    world.run_for(Duration::from_secs(400)).expect("it ends");
                    clean(&world);
                    // A packet that is harmed on the way says nothing against the far side's
                    // memory.
                    if matches!(harm, Harm::Copied(_)) {
                        assert_eq!(counted(&world, "session_tickets_missed"), [0, 0]);
                    }
                }
            }
        }
    }
}

#[test]
fn a_hello_that_is_lost_crosses_again_with_its_reference_and_then_as_it_is() {
    let mut scenario = warm();
    let conversation = scenario.conversation.clone();
    // After SYN and ACK; a lone hello has no other packet behind it.
    scenario.before_link = Some(Once::boxed(Harm::Lost, Port::Right, 2));
    let mut world = scenario.world();
    complete(&mut world, &conversation).expect("it completes");
    assert_eq!(counted(&world, "flights_repeated"), [1, 0]);
    assert_eq!(counted(&world, "originals_sent_bytes"), [0, 0]);
    assert_eq!(counted(&world, "session_tickets_missed"), [0, 0]);
    assert_eq!(counted(&world, "flights_rebuilt_bytes"), [0, 1]);

    let hello = hello(208);
    let mut pair = Pair::knowing(&chain());
    for side in [&mut pair.client_side, &mut pair.server_side] {
        side.proxy
            .engine_mut()
            .remember_ticket(&site(), &ticket(208), Instant::ZERO);
    }
    let flow = Flow::default();
    pair.open(&flow);
    let mut crossed = Vec::new();
    for _ in 0..4 {
        pair.crossed.clear();
        pair.client_side
            .handle_input_and_collect(flow.client(0, &hello), pair.now, &mut crossed);
        pair.now += Duration::from_secs(3);
    }
    let length = |packet: &Vec<u8>| TcpPacket::parse(packet).expect("a packet").payload().len();
    let lengths: Vec<usize> = crossed.iter().map(length).collect();
    assert!(
        lengths[0] < hello.len() && lengths[1] == lengths[0],
        "{lengths:?}"
    );
    assert_eq!(lengths[2..], [hello.len(), hello.len()]);
    assert_eq!(pair.client_side.count("session_tickets_missed"), 1);
}

#[test]
fn a_far_side_that_is_gone_is_found_out_within_a_round_trip() {
    let scenario = warm();
    let conversation = scenario.conversation.clone();
    let (with, _) = run(warm());
    let mut world = scenario.world();
    run_to(&mut world, CLIENT_SIDE, "session_tickets_referred").expect("it is referred to");
    drop(kill(&mut world, SERVER_SIDE));
    complete(&mut world, &conversation).expect("it completes");
    assert_eq!(
        repeats(&world),
        0,
        "what the server refuses tells the client's side"
    );
    let took = world.now().saturating_since(Instant::ZERO);
    assert!(took <= with.took + Duration::from_millis(510));
    assert_eq!(
        proxy(&world, CLIENT_SIDE).count("session_tickets_missed"),
        1
    );
}
