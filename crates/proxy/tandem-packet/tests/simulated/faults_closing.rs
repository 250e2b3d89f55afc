//! Packet mode and the ends of a connection: FIN, reset and urgent data at every step. One fault a
//! test.

use std::time::Duration;

use crate::support::flight::{cut, greeted, payloads, same, speech};
use crate::support::{Flow, Scenario, clean, prefix};
use tandem_netsim::host::{Ending, Phase};
use tandem_netsim::script::Speaker;
use tandem_packet::WireFormat;
use tandem_wire::{SegmentRepr, TcpFlags};

#[test]
fn a_fin_does_not_overtake_what_is_held_and_ends_no_flight_twice() {
    let (chain, hello, flight) = speech();
    let fin = |flow: &Flow, offset: usize, payload: &[u8]| {
        let repr = flow.server_repr(offset as u32, payload);
        let flags = repr.flags.with(TcpFlags::FIN);
        SegmentRepr { flags, ..repr }.build()
    };
    // Behind a part of the flight.
    let mut flow = Flow::default();
    let mut pair = greeted(&chain, &mut flow, &hello);
    let first = flow.server(0, &flight[..1_448]);
    assert!(pair.server(first.clone()).at_client.is_empty());
    let end = fin(&flow, 1_448, &[]);
    same(&pair.server(end.clone()).at_client, &[&first, &end]);
    // On the last segment of the flight.
    let mut flow = Flow::default();
    let mut pair = greeted(&chain, &mut flow, &hello);
    pair.server(first.clone());
    let end = fin(&flow, 1_448, &flight[1_448..]);
    same(&pair.server(end.clone()).at_client, &[&first, &end]);
    // On a repeat of the last segment, after the frame was lost: the FIN is not lost with it.
    let mut flow = Flow::default();
    let mut pair = greeted(&chain, &mut flow, &hello);
    pair.server_lost(first.clone());
    pair.server_lost(flow.server(1_448, &flight[1_448..]));
    let arrived = pair.server(end.clone()).at_client;
    assert_eq!(arrived.last(), Some(&end));
    assert_eq!(payloads(&arrived[..arrived.len() - 1]), flight);
}

#[test]
fn a_connection_that_is_closed_early_is_forgotten() {
    let (chain, hello, _) = speech();
    for first in ["client", "server"] {
        let mut flow = Flow::default();
        let mut pair = greeted(&chain, &mut flow, &hello);
        let end = |repr: SegmentRepr| {
            let flags = repr.flags.with(TcpFlags::FIN);
            SegmentRepr { flags, ..repr }.build()
        };
        let from_client = end(flow.client_repr(hello.len() as u32, &[]));
        let from_server = end(flow.server_repr(0, &[]));
        if first == "client" {
            pair.client(from_client);
            pair.server(from_server);
        } else {
            pair.server(from_server);
            pair.client(from_client);
        }
        flow.client_acked = 1;
        flow.server_acked = hello.len() as u32 + 1;
        pair.client(flow.client(hello.len() as u32 + 1, &[]));
        pair.server(flow.server(1, &[]));
        for side in [&pair.client_side, &pair.server_side] {
            assert_eq!(side.gauges().flows, 0, "{first}");
            assert_eq!(side.count("flows_closed_early"), 1, "{first}");
        }
    }
}

#[test]
fn a_reset_at_any_step_reaches_the_other_end_and_leaves_nothing_behind() {
    for who in [Speaker::Client, Speaker::Server] {
        for step in 0..200 {
            let scenario = Scenario::warm(WireFormat::Safe);
            let conversation = scenario.conversation.clone();
            let mut world = scenario.world();
            for _ in 0..step {
                world.step().expect("a step");
            }
            if world.client().script().is_done() && world.server().script().is_done() {
                assert!(step > 25, "each step was tried");
                break;
            }
            match who {
                Speaker::Client => world.with_client_mut(0, |host, now| host.abort(now)),
                Speaker::Server => world.with_server_mut(0, |host, now| host.abort(now)),
            }
            let own = match who {
                Speaker::Client => world.client(),
                Speaker::Server => world.server(),
            };
            if own.ending() != Some(Ending::Aborted) {
                continue;
            }
            for _ in 0..300 {
                if world.next_event().is_none() {
                    break;
                }
                world.step().expect("a step");
                prefix(&world, &conversation);
            }
            world.run_for(Duration::from_secs(310)).expect("it ends");
            clean(&world);
            let other = match who {
                Speaker::Client => world.server(),
                Speaker::Server => world.client(),
            };
            assert!(
                matches!(other.phase(), Phase::Broken(_) | Phase::Listening),
                "{who:?} at step {step}: {:?}",
                other.phase()
            );
        }
    }
}

#[test]
fn urgent_data_ends_it_at_every_point() {
    let (chain, hello, flight) = speech();
    for at in 0..4 {
        let mut flow = Flow::default();
        let mut pair = greeted(&chain, &mut flow, &hello);
        let segments = cut(&flow, &flight, 1_448);
        let mut at_client = Vec::new();
        for (index, packet) in segments.iter().enumerate() {
            if at == index {
                let urgent = SegmentRepr {
                    flags: TcpFlags::ACK.with(TcpFlags::URG),
                    ..flow.client_repr(hello.len() as u32, b"!")
                };
                let urgent = urgent.build();
                let arrived = pair.client(urgent.clone());
                same(&arrived.at_server, &[&urgent]);
                at_client.extend(arrived.at_client);
            }
            at_client.extend(pair.server(packet.clone()).at_client);
        }
        if at == 3 {
            // The frame is lost, and then the server is in a hurry: what it had sent goes as it
            // was.
            at_client.clear();
            let mut flow = Flow::default();
            let mut pair = greeted(&chain, &mut flow, &hello);
            for packet in &segments {
                pair.server_lost(packet.clone());
            }
            let urgent = SegmentRepr {
                flags: TcpFlags::ACK.with(TcpFlags::URG),
                ..flow.server_repr(flight.len() as u32, b"!")
            };
            at_client.extend(pair.server(urgent.build()).at_client);
            assert_eq!(at_client.pop(), Some(urgent.build()));
        }
        assert_eq!(
            payloads(&at_client),
            flight,
            "urgent data before segment {at}"
        );
    }
}
