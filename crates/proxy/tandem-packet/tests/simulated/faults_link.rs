//! Packet mode and what a link may do: each packet of a handshake lost, copied, held up, damaged;
//! links too narrow for a segment.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::support::once::{Harm, Once};
use crate::support::plan::Plan;
use crate::support::tls::{self, Conversation};
use crate::support::{
    Boxed, CLIENT_SIDE, Closes, ProxyElement, SERVER_SIDE, Scenario, clean, complete, iridium,
    proxy, repeats, satellite,
};
use tandem_netsim::element::{Port, Tamper};
use tandem_netsim::host::Ending;
use tandem_netsim::link::{Outage, OutageEffect, Oversize};
use tandem_netsim::{LinkConfig, World};
use tandem_packet::WireFormat;
use tandem_store::Store as _;
use tandem_wire::{Edit, Instant, TcpPacket};

/// Where the harm is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    BeforeLink,
    ClientLan,
    ServerLan,
}

fn harmed(mut scenario: Scenario, place: Place, once: Boxed) -> Scenario {
    match place {
        Place::BeforeLink => scenario.before_link = Some(once),
        Place::ClientLan => scenario.client_lan = Some(once),
        Place::ServerLan => scenario.server_lan = Some(once),
    }
    scenario.closes = Closes::AtTheEnd;
    scenario
}

/// Runs to the end; how often something was sent again.
fn cost(scenario: Scenario) -> u64 {
    let conversation = scenario.conversation.clone();
    let mut world = scenario.world();
    complete(&mut world, &conversation).expect("it completes");
    let repeats = repeats(&world);
    world.run_for(Duration::from_secs(400)).expect("it ends");
    clean(&world);
    repeats
}

fn every_packet(harm: Harm) {
    let scenario = || Scenario::warm(WireFormat::Safe);
    let mut worst = 0;
    for place in [Place::BeforeLink, Place::ClientLan, Place::ServerLan] {
        for towards in [Port::Left, Port::Right] {
            // More than there are in one direction: the last rounds harm nothing.
            for number in 0..16 {
                let once = || Once::boxed(harm, towards, number);
                let without = cost(harmed(scenario().plain(), place, once()));
                let with = cost(harmed(scenario(), place, once()));
                let told = format!("{harm:?} of {number} towards {towards:?} at {place:?}");
                assert!(with <= without + 2, "{told}: {with}, without {without}");
                worst = worst.max(with.saturating_sub(without));
            }
        }
    }
    eprintln!("{harm:?}: at most {worst} more");
}

#[test]
fn each_packet_lost() {
    every_packet(Harm::Lost);
}

#[test]
fn each_packet_copied_at_once_and_seconds_later() {
    for after in [0, 1, 700, 5_000, 20_000] {
        every_packet(Harm::Copied(Duration::from_millis(after)));
    }
}

#[test]
fn each_packet_late() {
    for by in [1, 60, 300, 4_000] {
        every_packet(Harm::Late(Duration::from_millis(by)));
    }
}

#[test]
fn each_packet_damaged_where_its_checksum_tells() {
    every_packet(Harm::Damaged);
}

/// Flips one bit in the payload of the packet of this number, and makes its checksum good.
fn damages(towards: Port, number: usize) -> Boxed {
    let mut seen = 0;
    Boxed(Box::new(Tamper::new(move |port, packet, _| {
        let parsed = TcpPacket::parse(&packet).expect("a segment");
        if port.opposite() != towards || parsed.payload().is_empty() {
            return vec![(port.opposite(), packet)];
        }
        seen += 1;
        if seen != number + 1 {
            return vec![(port.opposite(), packet)];
        }
        let mut payload = parsed.payload().to_vec();
        let middle = payload.len() / 2;
        payload[middle] ^= 0x10;
        let edit = Edit {
            payload: Some(&payload),
            ..Edit::default()
        };
        vec![(port.opposite(), parsed.rebuilt(&edit).expect("as long"))]
    })))
}

#[test]
fn damage_that_no_checksum_tells_is_never_learned() {
    let chain = tls::chain(&[926, 900, 910]);
    let hello = tls::client_hello(Some(crate::support::NAME), 0);
    // The client notices what it was shown, as TLS does, and says so in place of its Finished.
    let conversation = Conversation::alerted(hello, &chain, tls::Layout::MessageARecord);
    for place in [Place::BeforeLink, Place::ServerLan] {
        for towards in [Port::Left, Port::Right] {
            for number in 0..4 {
                let scenario = Scenario::with(WireFormat::Safe, conversation.clone());
                let scenario = harmed(scenario, place, damages(towards, number));
                let mut world = scenario.world();
                let limit = Duration::from_secs(100);
                world
                    .run_until(limit, |world| {
                        world.client().script().is_done() && world.server().script().is_done()
                    })
                    .expect("it ends");
                for index in [CLIENT_SIDE, SERVER_SIDE] {
                    assert_eq!(proxy(&world, index).count("chains_learned"), 0);
                }
                let store = world
                    .element_mut::<ProxyElement>(SERVER_SIDE)
                    .expect("it is there")
                    .proxy
                    .store_mut();
                assert_eq!(store.health().parts, 0);
            }
        }
    }
}

#[test]
fn a_damaged_frame_costs_the_originals_and_no_byte() {
    // The first packet with a payload that comes down is the frame.
    let scenario = Scenario::warm(WireFormat::Safe);
    let scenario = harmed(scenario, Place::BeforeLink, damages(Port::Left, 0));
    let conversation = scenario.conversation.clone();
    let mut world = scenario.world();
    complete(&mut world, &conversation).expect("it completes");
    assert_eq!(proxy(&world, CLIENT_SIDE).count("misses_sent"), 1);
    assert_eq!(proxy(&world, SERVER_SIDE).count("originals_sent_bytes"), 1);
    assert_eq!(repeats(&world), 0);
}

fn narrow(mtu: usize, oversize: Oversize) -> LinkConfig {
    satellite(move |direction| {
        direction.mtu = mtu;
        direction.oversize = oversize;
    })
}

#[test]
fn a_link_that_is_too_narrow_and_says_so_is_as_without_proxies() {
    let oversize = Oversize::TellSender {
        v4: Ipv4Addr::new(10, 9, 9, 9),
        v6: "fe80::9".parse().expect("an address"),
    };
    for mtu in [1_400, 1_000, 576] {
        let mut costs = [0, 0];
        for (cost_of, proxies) in costs.iter_mut().zip(["without", "with"]) {
            let mut scenario = Scenario::warm(WireFormat::Safe);
            scenario.link = narrow(mtu, oversize);
            if proxies == "without" {
                scenario = scenario.plain();
            }
            *cost_of = cost(scenario);
        }
        let [without, with] = costs;
        assert!(with <= without + 2, "{mtu}: {with}, without {without}");
    }
}

#[test]
fn a_link_that_swallows_what_is_too_long_carries_a_frame_and_fails_as_without_proxies() {
    let run = |scenario: Scenario| {
        let conversation = scenario.conversation.clone();
        let mut world = scenario.world();
        let limit = Duration::from_secs(2_000);
        let _ = world.run_until(limit, |world| {
            crate::support::prefix(world, &conversation);
            world.client().ending().is_some() || world.server().ending().is_some()
        });
        (world.client().received().len(), world.server().ending())
    };
    let mut scenario = Scenario::warm(WireFormat::Safe);
    scenario.link = narrow(1_000, Oversize::DropSilently);
    let flight = scenario.conversation.turns[1].1.len();
    let (received, ending) = run(scenario);
    assert!(received >= flight, "the frame is small enough");
    assert_eq!(ending, Some(Ending::TimedOut), "the answer is not");
    let mut scenario = Scenario::warm(WireFormat::Safe).plain();
    scenario.link = narrow(1_000, Oversize::DropSilently);
    assert_eq!(run(scenario), (0, Some(Ending::TimedOut)));
}

#[test]
fn a_client_behind_a_narrow_hop_gets_the_flight_after_the_fallback() {
    // What is rebuilt is too long for a hop that only the client's side knows: the server is told,
    // and repeats itself in smaller segments.
    let narrow = || {
        let mut config = LinkConfig::default();
        config.down.mtu = 1_000;
        config.down.oversize = Oversize::TellSender {
            v4: Ipv4Addr::new(10, 0, 0, 254),
            v6: "fe80::9".parse().expect("an address"),
        };
        let link = tandem_netsim::Link::new(config, 1, Instant::ZERO);
        Some(Boxed(Box::new(link)))
    };
    let mut scenario = Scenario::warm(WireFormat::Safe).plain();
    scenario.client_lan = narrow();
    let without = cost(scenario);
    let mut scenario = Scenario::warm(WireFormat::Safe);
    scenario.client_lan = narrow();
    let with = cost(scenario);
    assert!(with <= without + 2, "{with}, without {without}");
}

#[test]
fn an_outage_in_the_middle_is_waited_out() {
    for (effect, lasts) in [
        (OutageEffect::Hold, 40),
        (OutageEffect::Lose, 40),
        (OutageEffect::Lose, 90),
    ] {
        for start in [300, 600, 900, 1_200] {
            let outage = Outage::once(
                Duration::from_millis(start),
                Duration::from_secs(lasts),
                effect,
            );
            let link = satellite(|direction| direction.outages = vec![outage]);
            let mut scenario = Scenario::warm(WireFormat::Safe).plain();
            scenario.link = link.clone();
            let without = cost(scenario);
            let mut scenario = Scenario::warm(WireFormat::Safe);
            scenario.link = link;
            let with = cost(scenario);
            assert!(
                with <= without + 2,
                "{effect:?} at {start}: {with}, without {without}"
            );
        }
    }
}

#[test]
fn a_slow_link_is_not_mistaken_for_a_lossy_one() {
    let mut scenario = Scenario::warm(WireFormat::Safe);
    scenario.link = iridium();
    let conversation = scenario.conversation.clone();
    let mut world: World = scenario.world();
    complete(&mut world, &conversation).expect("it completes");
    assert_eq!(proxy(&world, SERVER_SIDE).count("originals_sent_bytes"), 0);
    assert_eq!(proxy(&world, SERVER_SIDE).count("flights_repeated"), 0);
}

#[test]
fn a_run_of_a_plan_is_the_same_each_time() {
    let trace = |seed| {
        let mut world = Plan::of(seed).scenario().world();
        let _ = world.run_for(Duration::from_secs(30));
        format!("{world:?}")
    };
    for seed in 0..20 {
        assert!(trace(seed) == trace(seed), "seed {seed} is not replayable");
    }
}
