//! The one shape: a proxy at either side, fed what crosses it in real handshakes, the same with
//! bits flipped, and noise.

use std::time::Duration;

use crate::support::plan::Plan;
use crate::support::{
    CLIENT_SIDE, ProxyElement, SERVER_SIDE, Scenario, complete, config, store_with,
};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use tandem_engine::thesis::Codes;
use tandem_netsim::conformance::{Arrival, Bounds, check};
use tandem_netsim::element::Port;
use tandem_netsim::{Failure, World};
use tandem_packet::{Role, WireFormat};
use tandem_wire::Instant;

/// What went into the proxy at `index` of a world that has run.
fn arrivals(world: &World, index: usize) -> Vec<Arrival> {
    // What passed the hop on its left to the right came in on its left.
    let left = world
        .tapped(index)
        .iter()
        .filter(|tapped| tapped.towards == Port::Right);
    let right = world
        .tapped(index + 1)
        .iter()
        .filter(|tapped| tapped.towards == Port::Left);
    let mut arrivals: Vec<Arrival> = left
        .chain(right)
        .map(|tapped| Arrival {
            at: tapped.at,
            port: tapped.towards.opposite(),
            packet: tapped.packet.clone(),
        })
        .collect();
    arrivals.sort_by_key(|arrival| arrival.at);
    arrivals
}

/// What went into both proxies in this scenario.
fn traffic(scenario: Scenario) -> Result<[Vec<Arrival>; 2], Failure> {
    let conversation = scenario.conversation.clone();
    let mut world = [CLIENT_SIDE, CLIENT_SIDE + 1, SERVER_SIDE, SERVER_SIDE + 1]
        .into_iter()
        .fold(scenario.world_not_connected(), World::with_tap);
    world.connect();
    complete(&mut world, &conversation)?;
    Ok([CLIENT_SIDE, SERVER_SIDE].map(|index| arrivals(&world, index)))
}

/// A second later: the same, with a bit flipped in some packets, half of them under a good
/// checksum, and noise between.
fn damaged(arrivals: &[Arrival], rng: &mut Pcg64) -> Vec<Arrival> {
    let end = arrivals.last().map_or(Instant::ZERO, |last| last.at) + Duration::from_secs(1);
    let mut out = arrivals.to_vec();
    for arrival in arrivals {
        let mut arrival = arrival.clone();
        arrival.at = end + arrival.at.saturating_since(Instant::ZERO);
        if rng.random_bool(0.2) {
            let bit = rng.random_range(0..arrival.packet.len() * 8);
            arrival.packet[bit / 8] ^= 1 << (bit % 8);
            if rng.random_bool(0.5) {
                arrival.packet = repaired(&arrival.packet);
            }
        }
        out.push(arrival.clone());
        if rng.random_bool(0.1) {
            let length = rng.random_range(0..200);
            arrival.packet = (0..length).map(|_| rng.random()).collect();
            out.push(arrival);
        }
    }
    out
}

/// The packet with right checksums, where it is one.
fn repaired(bytes: &[u8]) -> Vec<u8> {
    let Ok(packet) = tandem_wire::TcpPacket::parse(bytes) else {
        return bytes.to_vec();
    };
    let edit = tandem_wire::Edit {
        seq: Some(packet.seq()),
        ..tandem_wire::Edit::default()
    };
    packet.rebuilt(&edit).unwrap_or_else(|_| bytes.to_vec())
}

fn checked(role: Role, wire: WireFormat, chain: &[Vec<u8>], arrivals: &[Arrival]) {
    let make = || ProxyElement::new(config(role, wire), store_with(chain));
    let bounds = Bounds {
        // A frame stands for 64 KiB at most, which a client's smallest segments of 76 bytes make so
        // many of.
        outputs_per_call: 900,
        ..Bounds::default()
    };
    check(make, arrivals, bounds)
        .unwrap_or_else(|violation| panic!("{role:?} {wire:?}: {violation}"));
}

#[test]
fn the_rules_hold_over_honest_damaged_and_senseless_traffic() {
    for wire in [WireFormat::Safe, WireFormat::Mcveety(Codes::default())] {
        let scenario = Scenario::warm(wire);
        let chain = scenario.conversation.chain.clone();
        let traffic = traffic(scenario).expect("it completes");
        for (role, arrivals) in [Role::ClientSide, Role::ServerSide]
            .into_iter()
            .zip(&traffic)
        {
            assert!(arrivals.len() > 15, "the taps are where the proxy is");
            checked(role, wire, &chain, arrivals);
            for seed in 0..30 {
                let mut rng = Pcg64::seed_from_u64(seed);
                checked(role, wire, &chain, &damaged(arrivals, &mut rng));
            }
        }
    }
}

#[test]
fn the_rules_hold_over_random_schedules() {
    for seed in 0..60 {
        let mut plan = Plan::of(seed);
        plan.faults.clear();
        let chain = plan.conversation().chain;
        let Ok(traffic) = traffic(plan.scenario()) else {
            continue;
        };
        for (role, arrivals) in [Role::ClientSide, Role::ServerSide]
            .into_iter()
            .zip(&traffic)
        {
            checked(role, WireFormat::Safe, &chain, arrivals);
        }
    }
}
