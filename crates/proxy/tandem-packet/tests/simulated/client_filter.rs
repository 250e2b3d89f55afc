//! Clients' chains by what the server-side proxy publishes: who is told and when, what it costs,
//! and what becomes of a filter that is wrong, old or lost.
//!
//! Harm to each packet, and proxies that die at each step, are tried beside the other ways in
//! `client_certificates.rs`.

use std::time::Duration;

use crate::support::mutual::*;
use crate::support::once::{Harm, Once};
use crate::support::outcome::{counted, run};
use crate::support::{
    CLIENT_SIDE, ProxyElement, SERVER_SIDE, Scenario, TODAY, kill, proxy, repeats, start,
    teach_client, tls_bytes,
};
use tandem_delta::Reference;
use tandem_engine::filter::{Filter, Fingerprint, Rate};
use tandem_link::inband::Version;
use tandem_link::inband::publication::{self, Publication};
use tandem_netsim::World;
use tandem_netsim::element::Port;
use tandem_packet::{ClientCertificates, Event, WireFormat};
use tandem_store::{Kind, MemoryStore, ObjectId, Store};

/// Both sides go by the filter; the servers' side knows the chains of these clients, the last of
/// them seen last.
fn knowing(clients: std::ops::Range<u64>, said_by: u64) -> Scenario {
    knowing_with(clients, said_by, BY_FILTER)
}

fn knowing_with(clients: std::ops::Range<u64>, said_by: u64, how: ClientCertificates) -> Scenario {
    let scenario = scenario(WireFormat::Safe, conversation_of(said_by), &[]);
    let mut scenario = told(scenario, WireFormat::Safe, how);
    if let Some(side) = &mut scenario.server_side {
        clients.for_each(|client| teach_client(side.proxy.store_mut(), &client_chain_of(client)));
    }
    scenario
}

/// Bytes of packets that a side has published.
fn published(world: &World) -> u64 {
    let events = &proxy(world, SERVER_SIDE).events;
    let of = |event: &Event| match event {
        Event::Engine(tandem_engine::Event::FilterPublished(bytes)) => *bytes,
        _ => 0,
    };
    events.iter().map(of).sum()
}

fn client_bytes(clients: impl IntoIterator<Item = u64>) -> u64 {
    let all = clients.into_iter().map(conversation_of);
    all.map(|said| said.from_client.len() as u64).sum()
}

#[test]
fn a_client_that_the_clients_side_never_saw_is_spared_its_chain_in_its_first_handshake() {
    let (outcome, world) = run(knowing(0..1, 0));
    assert!(outcome.spared >= MIN_SPARED, "{outcome:?}");
    assert_eq!(outcome.repeats, 0);
    assert_eq!(counted(&world, "filters_published_bytes"), [0, 1]);
    assert_eq!(counted(&world, "filters_received"), [1, 0]);
    assert_eq!(counted(&world, "flights_written"), [1, 1]);
    assert_eq!(counted(&world, "flights_rebuilt_bytes"), [1, 1]);
    assert_eq!(world.client().counters().paws_dropped, 0);
    // Headers and 19 bytes.
    assert!((52..100).contains(&published(&world)));
    // What is counted is what crosses.
    let (_, without) = run(told(
        knowing(0..1, 0),
        WireFormat::Safe,
        ClientCertificates::None,
    ));
    let more = tls_bytes(&world).1 - tls_bytes(&without).1;
    assert_eq!(published(&world), 52 + more);
}

#[test]
fn a_link_slower_than_the_clients_timer_keeps_nobody_from_being_told() {
    let mut scenario = knowing(0..3, 0);
    scenario.link = crate::support::iridium();
    let (outcome, world) = run(scenario);
    // Less than elsewhere by what the endpoints repeat.
    assert!(outcome.spared > 871, "{outcome:?}");
    assert_eq!(counted(&world, "filters_received"), [1, 0]);
}

#[test]
fn what_both_learn_from_the_same_handshake_is_not_published() {
    let (outcome, mut world) = run(knowing(0..0, 0));
    assert_eq!((outcome.spared, outcome.repeats), (0, 0));
    for number in 1..4 {
        let before = tls_bytes(&world).0;
        world = another(world, number, &conversation_of(0));
        assert!(client_bytes([0]) - (tls_bytes(&world).0 - before) >= MIN_SPARED as u64);
    }
    world = another(world, 4, &conversation_of(1));
    let before = tls_bytes(&world).0;
    world = another(world, 5, &conversation_of(1));
    assert!(client_bytes([1]) - (tls_bytes(&world).0 - before) >= MIN_SPARED as u64);
    assert_eq!(counted(&world, "client_chains_learned"), [6, 6]);
    assert_eq!(counted(&world, "filters_published_bytes"), [0, 0]);
    assert_eq!(counted(&world, "misses_sent"), [0, 0]);
    assert_eq!(repeats(&world), 0);
}

#[test]
fn the_clients_side_puts_no_clients_chain_into_its_store() {
    let (_, mut world) = run(knowing(0..2, 1));
    world = another(world, 1, &conversation_of(5));
    let side = world
        .element::<ProxyElement>(CLIENT_SIDE)
        .expect("it is there");
    assert_eq!(side.count("client_chains_learned"), 2);
    let mut store = kill(&mut world, CLIENT_SIDE);
    assert_eq!(store.unexpected(Kind::Chain, 9), []);
    assert_eq!(
        store
            .expected(Kind::Chain, &crate::support::site(), TODAY, 9)
            .len(),
        1
    );
}

#[test]
fn a_thousand_chains_are_published_behind_the_flight_in_one_segment() {
    let (first, mut world) = run(knowing(0..1_000, 7));
    assert_eq!(first.repeats, 0);
    assert_eq!(counted(&world, "filters_received"), [1, 0]);
    assert!((1_000..1_400).contains(&published(&world)));
    for (number, client) in (1..).zip([0, 1, 500, 999]) {
        let before = tls_bytes(&world).0;
        world = another(world, number, &conversation_of(client));
        let crossed = tls_bytes(&world).0 - before;
        assert!(
            client_bytes([client]) - crossed >= MIN_SPARED as u64,
            "{client}"
        );
    }
    assert_eq!(counted(&world, "filters_published_bytes"), [0, 1]);
    assert_eq!(counted(&world, "misses_sent"), [0, 0]);
    assert_eq!(repeats(&world), 0);
}

/// Where one in two passes for held: a client that does not belong to the first fifty, and passes,
/// or not.
fn stranger(passes: bool) -> (ClientCertificates, u64) {
    let rate = Rate::one_in(2).expect("within the bounds");
    let id = |client| {
        let chain = client_chain_of(client);
        ObjectId::of(&chain.iter().map(Vec::as_slice).collect::<Vec<_>>())
    };
    let held: Vec<ObjectId> = (0..50).map(id).collect();
    let references = held.iter().map(|chain| Reference(chain.prefix16()));
    let filter = Filter::of(references, Fingerprint::of(&held).0, rate);
    let found = (50..).find(|client| filter.contains(&Reference(id(*client).prefix16())) == passes);
    (
        ClientCertificates::Filter { rate },
        found.expect("one in two passes"),
    )
}

#[test]
fn one_that_passes_for_held_costs_a_round_trip_and_no_timer_and_is_held_from_then_on() {
    let took = |passes: bool| {
        let (how, client) = stranger(passes);
        let (outcome, mut world) = run(knowing_with(0..50, client, how));
        assert_eq!(outcome.repeats, 0);
        let missed = usize::from(passes);
        assert_eq!(counted(&world, "misses_sent"), [0, missed]);
        assert_eq!(counted(&world, "originals_sent_bytes"), [missed, 0]);
        let before = tls_bytes(&world).0;
        world = another(world, 1, &conversation_of(client));
        assert!(client_bytes([client]) - (tls_bytes(&world).0 - before) >= MIN_SPARED as u64);
        assert_eq!(counted(&world, "misses_sent"), [0, missed], "once, no more");
        assert_eq!(counted(&world, "filters_published_bytes"), [0, 1]);
        outcome.took
    };
    let (with, without) = (took(true), took(false));
    // 500 ms, and the time that the frame and the option take on the link.
    let most = Duration::from_millis(510);
    assert!(
        with > without && with <= without + most,
        "{with:?} {without:?}"
    );
}

#[test]
fn a_servers_side_that_has_lost_its_store_says_so_before_anything_is_referred_to() {
    let (_, mut world) = run(knowing(0..3, 0));
    kill(&mut world, SERVER_SIDE);
    start(
        &mut world,
        SERVER_SIDE,
        told_of(SERVER_SIDE, BY_FILTER),
        MemoryStore::default(),
    );
    let before = tls_bytes(&world).0;
    world = another(world, 1, &conversation_of(2));
    assert_eq!(tls_bytes(&world).0 - before, client_bytes([2]), "as it is");
    assert_eq!(counted(&world, "misses_sent"), [0, 0]);
    assert_eq!(counted(&world, "filters_received"), [2, 0]);
    // And is learned again.
    let before = tls_bytes(&world).0;
    world = another(world, 2, &conversation_of(2));
    assert!(client_bytes([2]) - (tls_bytes(&world).0 - before) >= MIN_SPARED as u64);
    assert_eq!(
        counted(&world, "filters_published_bytes"),
        [0, 1],
        "since it began"
    );
}

#[test]
fn a_servers_side_that_forgets_while_it_runs_costs_a_miss_and_then_says_so() {
    let (_, mut world) = run(knowing(0..3, 0));
    if let Some(side) = world.element_mut::<ProxyElement>(SERVER_SIDE) {
        *side.proxy.store_mut() = MemoryStore::default();
    }
    world = another(world, 1, &conversation_of(1));
    assert_eq!(counted(&world, "misses_sent"), [0, 1]);
    // What was read at the start is believed for a while after a miss, and then not.
    world.run_for(Duration::from_secs(20)).expect("it waits");
    world = another(world, 2, &conversation_of(2));
    world = another(world, 3, &conversation_of(0));
    let misses = counted(&world, "misses_sent")[1];
    assert!(misses <= 2, "{misses}");
    assert_eq!(repeats(&world), 0);
}

#[test]
fn a_servers_side_that_starts_again_with_its_store_has_nothing_to_say() {
    let (_, mut world) = run(knowing(0..3, 0));
    world = another(world, 1, &conversation_of(9));
    let store = kill(&mut world, SERVER_SIDE);
    start(
        &mut world,
        SERVER_SIDE,
        told_of(SERVER_SIDE, BY_FILTER),
        store,
    );
    for (number, client) in [(2, 1), (3, 9)] {
        let before = tls_bytes(&world).0;
        world = another(world, number, &conversation_of(client));
        assert!(client_bytes([client]) - (tls_bytes(&world).0 - before) >= MIN_SPARED as u64);
    }
    assert_eq!(counted(&world, "filters_published_bytes"), [0, 0]);
}

#[test]
fn a_clients_side_that_starts_again_is_told_again() {
    let (_, mut world) = run(knowing(0..3, 0));
    let store = kill(&mut world, CLIENT_SIDE);
    start(
        &mut world,
        CLIENT_SIDE,
        told_of(CLIENT_SIDE, BY_FILTER),
        store,
    );
    let before = tls_bytes(&world).0;
    world = another(world, 1, &conversation_of(2));
    assert!(client_bytes([2]) - (tls_bytes(&world).0 - before) >= MIN_SPARED as u64);
    assert_eq!(counted(&world, "filters_published_bytes"), [0, 2]);
}

#[test]
fn a_publication_that_is_lost_is_made_again_for_the_next_connection() {
    // SYN/ACK, which is left alone, and the ACK of the hello come before it.
    let lost = (1..6).find_map(|number| {
        let mut scenario = knowing(0..3, 0);
        scenario.before_link = Some(Once::boxed(Harm::Lost, Port::Left, number));
        let (outcome, world) = run(scenario);
        let is_lost = counted(&world, "filters_published_bytes") == [0, 1]
            && counted(&world, "filters_received") == [0, 0];
        is_lost.then_some((outcome, world))
    });
    let (outcome, mut world) = lost.expect("it is one of these");
    assert_eq!((outcome.spared, outcome.repeats), (0, 0));
    let before = tls_bytes(&world).0;
    world = another(world, 1, &conversation_of(2));
    assert!(client_bytes([2]) - (tls_bytes(&world).0 - before) >= MIN_SPARED as u64);
    assert_eq!(counted(&world, "filters_received"), [1, 0]);
}

#[test]
fn a_proxy_that_does_not_go_by_filters_gets_none_and_the_others_way_works_as_far_as_it_can() {
    let with = |client_side: ClientCertificates, server_side: ClientCertificates| {
        let mut scenario = knowing(0..3, 0);
        for (index, side, how) in [
            (CLIENT_SIDE, &mut scenario.client_side, client_side),
            (SERVER_SIDE, &mut scenario.server_side, server_side),
        ] {
            if let Some(side) = side {
                let store = std::mem::take(side.proxy.store_mut());
                *side = ProxyElement::new(told_of(index, how), store);
            }
        }
        let (outcome, mut world) = run(scenario);
        assert_eq!((outcome.spared, outcome.repeats), (0, 0));
        world = another(world, 1, &conversation_of(0));
        assert!(2 * client_bytes([0]) - tls_bytes(&world).0 >= MIN_SPARED as u64);
        assert_eq!(counted(&world, "filters_published_bytes"), [0, 0]);
        assert_eq!(counted(&world, "filters_held_back"), [0, 0]);
        assert_eq!(counted(&world, "options_refused"), [0, 0]);
    };
    with(ClientCertificates::Persistent, BY_FILTER);
    with(BY_FILTER, ClientCertificates::Persistent);
}

#[test]
fn a_publication_for_somebody_else_reaches_no_client() {
    for how in [BY_FILTER, ClientCertificates::Persistent] {
        let conversation = conversation_of(0);
        let mut pair = crate::support::Pair::knowing(&conversation.chain);
        pair.client_side = ProxyElement::new(told_of(CLIENT_SIDE, how), MemoryStore::default());
        let mut flow = crate::support::Flow::default();
        pair.open(&flow);
        pair.client(flow.client(0, &conversation.turns[0].1));
        flow.server_acked = conversation.turns[0].1.len() as u32;
        pair.server(flow.server(0, &conversation.turns[1].1[..1_000]));
        let id = tandem_link::inband::FlowId {
            client: flow.client_isn,
            server: flow.server_isn,
        };
        let filter = Filter::of([Reference([1; 16])], 7, Rate::DEFAULT);
        for key in [
            crate::support::key(),
            tandem_link::inband::Key::from_bytes([9; 32]),
        ] {
            let said = Publication {
                fingerprint: filter.salt(),
                rate: filter.rate().number(),
                count: filter.count(),
                bits: &filter.to_bytes(),
            };
            let written = publication::write(&key, id, Version::TWO, &said);
            let mut segment = flow.server_repr(1_000 - written.len() as u32, &written);
            // An old timestamp.
            let clock = flow.clocks.expect("it has one").1.wrapping_sub(1 << 30);
            segment.options[4..8].copy_from_slice(&clock.to_be_bytes());
            let arrived = pair.arrive_at_client_side(segment.build());
            assert_eq!(arrived.at_client, Vec::<Vec<u8>>::new());
        }
    }
}

#[test]
fn many_clients_at_once_do_not_have_it_published_for_each_of_them() {
    let scenario = knowing(0..1_000, 0);
    let mut world = scenario.world_not_connected();
    for client in 1..40 {
        let (said, server) = conversation_of(client).scripts();
        let template = Scenario::with(WireFormat::Safe, conversation_of(client));
        let (mut from, to) = (template.client, template.server);
        from.local.set_port(40_000 + client as u16);
        world = world
            .with_client(tandem_netsim::Host::client(from, to.local).with_script(said))
            .with_server(tandem_netsim::Host::server(to).with_script(server));
    }
    world.connect();
    world
        .run_until(Duration::from_secs(1_000), |world| {
            let mut clients = world.clients().iter();
            clients.all(|client| client.script().is_done())
        })
        .expect("they complete");
    assert_eq!(counted(&world, "filters_published_bytes"), [0, 1]);
}
