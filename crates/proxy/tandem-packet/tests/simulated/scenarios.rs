//! Packet mode over the simulated link, one scenario a test: what must happen, and what it may
//! cost.

use std::time::Duration;

use crate::support::{CLIENT_SIDE, SERVER_SIDE, Scenario, complete, proxy, tls_bytes};
use tandem_netsim::element::Wire;
use tandem_packet::WireFormat;
use tandem_store::MemoryStore;

#[test]
fn a_warm_handshake_crosses_without_its_chain() {
    let scenario = Scenario::warm(WireFormat::Safe);
    let conversation = scenario.conversation.clone();
    let mut world = scenario.world();
    complete(&mut world, &conversation).expect("it completes");
    assert_eq!(proxy(&world, SERVER_SIDE).count("flights_written"), 1);
    assert_eq!(proxy(&world, CLIENT_SIDE).count("flights_rebuilt_bytes"), 1);
    let (_, down) = tls_bytes(&world);
    let chain: usize = conversation.chain.iter().map(|der| der.len() + 3).sum();
    let saved = conversation.from_server.len() as u64 - down;
    assert!(saved as usize + 48 >= chain, "saved {saved} of {chain}");
    assert_eq!(world.client().counters().retransmitted, 0);
    assert_eq!(world.server().counters().retransmitted, 0);
    assert_eq!(world.client().counters().paws_dropped, 0);
}

#[test]
fn a_cold_handshake_is_untouched_and_teaches_both_proxies() {
    let mut scenario = Scenario::warm(WireFormat::Safe);
    let conversation = scenario.conversation.clone();
    scenario.client_side = Some(crate::support::ProxyElement::new(
        crate::support::config(tandem_packet::Role::ClientSide, WireFormat::Safe),
        MemoryStore::default(),
    ));
    let mut world = scenario.world();
    complete(&mut world, &conversation).expect("it completes");
    assert_eq!(tls_bytes(&world).1, conversation.from_server.len() as u64);
    for index in [CLIENT_SIDE, SERVER_SIDE] {
        assert_eq!(proxy(&world, index).count("chains_learned"), 1);
        assert_eq!(proxy(&world, index).proxy.gauges().flows, 0);
    }
}

#[test]
fn a_client_side_proxy_that_dies_after_its_hint_costs_a_round_trip() {
    let scenario = Scenario::warm(WireFormat::Safe);
    let conversation = scenario.conversation.clone();
    let mut world = scenario.world();
    world
        .run_until(Duration::from_secs(10), |world| {
            proxy(world, CLIENT_SIDE).count("hints_sent") == 1
        })
        .expect("the hint goes out");
    world.replace(CLIENT_SIDE, Wire::default());
    complete(&mut world, &conversation).expect("it completes");
    assert_eq!(proxy(&world, SERVER_SIDE).count("originals_sent_bytes"), 1);
    assert!(world.client().counters().paws_dropped > 0);
}

/// Packets that crossed the link in a warm handshake on it, up and down, and when the answer had
/// arrived.
fn crossings(ack_time: Duration) -> (u64, u64, Duration) {
    let mut scenario = Scenario::warm(WireFormat::Safe);
    scenario.link = crate::support::iridium();
    scenario.conversation =
        crate::support::tls::Conversation::with_chain(&crate::support::tls::chain(&[926]));
    let conversation = scenario.conversation.clone();
    for proxy in [&mut scenario.client_side, &mut scenario.server_side] {
        let role = proxy.as_ref().map(|proxy| proxy.role());
        let mut config = crate::support::config(role.expect("both are there"), WireFormat::Safe);
        config.limits.ack_time = ack_time;
        *proxy = Some(crate::support::ProxyElement::new(
            config,
            crate::support::store_with(&conversation.chain),
        ));
    }
    let mut world = scenario.world();
    complete(&mut world, &conversation).expect("it completes");
    let link: &tandem_netsim::Link = world
        .element(crate::support::LINK)
        .expect("the link stands there");
    let counters = link.counters();
    let took = world.now().saturating_since(tandem_wire::Instant::ZERO);
    (counters.up.packets, counters.down.packets, took)
}

#[test]
fn an_acknowledgement_that_the_next_segment_says_again_does_not_cross() {
    let (up, down, took) = crossings(Duration::from_millis(40));
    let (all_up, all_down, without) = crossings(Duration::ZERO);
    assert!(up < all_up, "{up} of {all_up} packets up");
    assert!(down < all_down, "{down} of {all_down} packets down");
    assert!(took < without, "{took:?} against {without:?}");
}
