//! Packet mode and segments that overlap or come again: other bytes in the same place, repeats and
//! late copies, the originals. One fault a test.

use std::time::Duration;

use crate::support::flight::{cut, finish, greeted, learned, payloads, same, speech};
use crate::support::{Flow, Pair, ProxyElement};
use tandem_wire::{SegmentRepr, TcpFlags, TcpPacket};

#[test]
fn overlapping_segments_with_different_bytes_give_the_flow_up_and_teach_nothing() {
    let (chain, hello, flight) = speech();
    let first = &flight[..1_000];
    let mut other = first.to_vec();
    other[500] ^= 1;
    // While the flight is held, while it is under way, and after it has arrived.
    for when in ["held", "sent", "arrived"] {
        let mut flow = Flow::default();
        let mut pair = greeted(&chain, &mut flow, &hello);
        let conflicting = flow.server(0, &other);
        let mut at_client = Vec::new();
        at_client.extend(pair.server(flow.server(0, first)).at_client);
        match when {
            "held" => {
                at_client.extend(pair.server(conflicting).at_client);
                let rest = flow.server(1_000, &flight[1_000..]);
                at_client.extend(pair.server(rest).at_client);
            }
            "sent" => {
                pair.server_lost(flow.server(1_000, &flight[1_000..]));
                at_client.extend(pair.server(conflicting).at_client);
            }
            _ => {
                let rest = flow.server(1_000, &flight[1_000..]);
                at_client.extend(pair.server(rest).at_client);
                at_client.extend(pair.server(conflicting).at_client);
            }
        }
        // What came first is what the client has first, each time.
        let mut view = vec![None; flight.len()];
        for packet in &at_client {
            let packet = TcpPacket::parse(packet).expect("a segment");
            let start = packet.seq().distance_from(flow.server_isn.wrapping_add(1)) as usize;
            for (place, byte) in view[start..].iter_mut().zip(packet.payload()) {
                place.get_or_insert(*byte);
            }
        }
        let view: Option<Vec<u8>> = view.into_iter().collect();
        assert!(view.as_ref() == Some(&flight), "{when}");
        finish(&mut pair, &mut flow, &hello, &flight);
        assert_eq!(pair.server_side.count("chains_learned"), 0, "{when}");
        let conflicts = |side: &ProxyElement| side.count("flows_given_up_conflict");
        assert_eq!(conflicts(&pair.server_side), 1, "{when}");
        // The other copy got no further than the server's side, unless it was held with the first.
        let seen = usize::from(when == "held");
        assert_eq!(conflicts(&pair.client_side), seen, "{when}");
        assert_eq!(pair.client_side.count("chains_learned"), 1 - seen, "{when}");
    }
}

#[test]
fn a_client_that_says_two_things_is_given_up_too() {
    let (chain, hello, flight) = speech();
    let mut flow = Flow::default();
    let mut pair = greeted(&chain, &mut flow, &hello);
    let mut other = hello.clone();
    other[20] ^= 1;
    let other = flow.client(0, &other);
    same(&pair.client(other.clone()).at_server, &[&other]);
    for packet in cut(&flow, &flight, 1_448) {
        same(&pair.server(packet.clone()).at_client, &[&packet]);
    }
    finish(&mut pair, &mut flow, &hello, &flight);
    assert_eq!(learned(&pair), 0);
}

#[test]
fn a_copy_of_a_rewritten_segment_seconds_later_is_the_right_bytes_or_stays_out() {
    let (chain, hello, flight) = speech();
    let mut flow = Flow::default();
    let mut pair = greeted(&chain, &mut flow, &hello);
    for packet in cut(&flow, &flight, 1_448) {
        pair.server(packet);
    }
    let (_, frame) = pair.crossed.last().expect("it crossed").clone();
    pair.wait(Duration::from_secs(7));
    let again = pair.arrive_at_client_side(frame.clone());
    assert_eq!(payloads(&again.at_client), flight, "rebuilt again");
    finish(&mut pair, &mut flow, &hello, &flight);
    pair.wait(Duration::from_secs(7));
    // Nobody follows the flow any more: it goes on as it is, and its timestamp is one that the
    // client discards.
    let late = pair.arrive_at_client_side(frame.clone());
    same(&late.at_client, &[&frame]);
    let stamp = TcpPacket::parse(&frame).expect("a segment").timestamps();
    let age = 900_000u32.wrapping_sub(stamp.expect("it has timestamps").value);
    assert!((1 << 29..1 << 31).contains(&age));
}

#[test]
fn a_repeat_of_what_is_held_is_absorbed_unless_it_ends_the_stream() {
    let (chain, hello, flight) = speech();
    let mut flow = Flow::default();
    let mut pair = greeted(&chain, &mut flow, &hello);
    let first = flow.server(0, &flight[..1_448]);
    for _ in 0..3 {
        assert!(pair.server(first.clone()).at_client.is_empty());
    }
    assert_eq!(pair.server_side.gauges().held_packets, 1);
    let repr = flow.server_repr(0, &flight[..1_448]);
    let flags = repr.flags.with(TcpFlags::FIN);
    let last = SegmentRepr { flags, ..repr }.build();
    same(&pair.server(last.clone()).at_client, &[&first, &last]);
}

#[test]
fn a_repeat_before_the_link_can_have_answered_is_absorbed_and_counts_later() {
    let (chain, hello, flight) = speech();
    let mut flow = Flow::default();
    let mut pair = Pair::knowing(&chain);
    // A round trip of two seconds, by the answer to the SYN/ACK.
    pair.client(flow.syn());
    pair.server(flow.syn_ack());
    pair.wait(Duration::from_secs(2));
    pair.client(flow.client(0, &[]));
    pair.client(flow.client(0, &hello));
    flow.server_acked = hello.len() as u32;
    let segments = cut(&flow, &flight, 1_448);
    for packet in &segments {
        pair.server_lost(packet.clone());
    }
    pair.wait(Duration::from_millis(1_900));
    assert!(pair.server(segments[0].clone()).at_client.is_empty());
    assert_eq!(pair.server_side.count("repeats_absorbed"), 1);
    pair.wait(Duration::from_millis(700));
    let arrived = pair.server(segments[0].clone()).at_client;
    assert_eq!(payloads(&arrived), flight);
    assert_eq!(pair.server_side.count("flights_repeated"), 1);
}

#[test]
fn an_acknowledgement_that_waits_is_not_lost_with_a_repeat_that_is_absorbed() {
    let (chain, hello, flight) = speech();
    let mut flow = Flow::default();
    let mut pair = Pair::knowing(&chain);
    pair.client(flow.syn());
    pair.server(flow.syn_ack());
    pair.wait(Duration::from_secs(2));
    pair.client(flow.client(0, &[]));
    pair.client(flow.client(0, &hello));
    flow.server_acked = hello.len() as u32;
    let segments = cut(&flow, &flight, 1_448);
    for packet in &segments {
        pair.server(packet.clone());
    }
    // The client says more; the server acknowledges that and then, its timer being short, repeats
    // itself.
    pair.client(flow.client(hello.len() as u32, &[22, 3, 3]));
    flow.server_acked += 3;
    let news = flow.server(flight.len() as u32, &[]);
    let mut arrived = pair.server(news.clone()).at_client;
    arrived.extend(pair.server(flow.server(0, &flight[..1_448])).at_client);
    same(&arrived, &[&news]);
    assert_eq!(pair.server_side.count("repeats_absorbed"), 1);
}

#[test]
fn a_keep_alive_of_the_byte_before_the_flight_is_no_repeat_of_it() {
    let (chain, hello, flight) = speech();
    let mut flow = Flow::default();
    let mut pair = greeted(&chain, &mut flow, &hello);
    for packet in cut(&flow, &flight, 1_448) {
        pair.server_lost(packet);
    }
    let probe = flow.server(u32::MAX, b"x");
    same(&pair.server(probe.clone()).at_client, &[&probe]);
    assert_eq!(pair.server_side.count("flights_repeated"), 0);
}

#[test]
fn of_a_flight_that_comes_again_the_client_gets_what_it_has_not_acknowledged() {
    let (chain, hello, flight) = speech();
    let mut flow = Flow::default();
    let mut pair = greeted(&chain, &mut flow, &hello);
    let segments = cut(&flow, &flight, 1_000);
    let mut whole = Vec::new();
    for packet in &segments {
        whole.extend(pair.server(packet.clone()).at_client);
    }
    assert_eq!(whole.len(), 2, "1,448 bytes and the rest");
    let (_, frame) = pair.crossed.last().expect("it crossed").clone();
    for (acked, arrive) in [(0, &whole[..]), (1_447, &whole), (1_448, &whole[1..])] {
        flow.client_acked = acked;
        pair.client(flow.client(hello.len() as u32, &[]));
        let again = pair.arrive_at_client_side(frame.clone()).at_client;
        same(&again, &arrive.iter().collect::<Vec<_>>());
    }
    flow.client_acked = flight.len() as u32;
    pair.client(flow.client(hello.len() as u32, &[]));
    let again = pair.arrive_at_client_side(frame).at_client;
    same(&again, &[&whole[1]]);
}

#[test]
fn originals_are_deliverable_after_the_client_has_taken_a_part_of_a_later_copy() {
    let (chain, hello, flight) = speech();
    let mut flow = Flow::default();
    let mut pair = greeted(&chain, &mut flow, &hello);
    let segments = cut(&flow, &flight, 1_448);
    pair.server_lost(segments[0].clone());
    pair.server_lost(segments[1].clone());
    // The server repeats its first segment, later by its clock: the frame goes again and is rebuilt
    // under the newer timestamp.
    pair.wait(Duration::from_secs(3));
    flow.clocks = Some((1_000, 903_000));
    let arrived = pair.server(flow.server(0, &flight[..1_448])).at_client;
    assert_eq!(payloads(&arrived), flight);
    // The client got the first piece and lost the rest; so the server repeats again.
    pair.wait(Duration::from_secs(6));
    flow.clocks = Some((1_000, 909_000));
    let arrived = pair.server(flow.server(0, &flight[..1_448])).at_client;
    assert_eq!(payloads(&arrived), flight, "the originals");
    assert_eq!(pair.server_side.count("originals_sent_bytes"), 1);
    for packet in &arrived {
        let packet = TcpPacket::parse(packet).expect("a segment");
        let stamp = packet.timestamps().expect("it has timestamps").value;
        assert!(stamp >= 903_000, "older than what the client has seen");
    }
}

#[test]
fn a_request_for_the_originals_ends_at_the_far_side_unless_it_says_something_new() {
    let (chain, hello, flight) = speech();
    let mut flow = Flow::default();
    let mut pair = greeted(&chain, &mut flow, &hello);
    *pair.client_side.proxy.store_mut() = tandem_store::MemoryStore::default();
    // The first frame cannot be rebuilt: a request goes, and the originals come.
    pair.server(flow.server(0, &flight[..1_448]));
    let arrived = pair.server(flow.server(1_448, &flight[1_448..]));
    assert_eq!(payloads(&arrived.at_client), flight);
    assert!(arrived.at_server.is_empty(), "the request is ours");
    assert_eq!(pair.client_side.count("misses_sent"), 1);

    // The originals are lost. What the client acknowledges meanwhile carries the request, and
    // arrives all the same.
    let mut flow = Flow::default();
    let mut pair = greeted(&chain, &mut flow, &hello);
    *pair.client_side.proxy.store_mut() = tandem_store::MemoryStore::default();
    pair.server(flow.server(0, &flight[..1_448]));
    pair.server_to_link(flow.server(1_448, &flight[1_448..]));
    let (_, frame) = pair.crossed.last().expect("it crossed").clone();
    pair.arrive_at_client_side_and_lose_the_answer(frame);
    flow.client_acked = 100;
    let news = flow.client(hello.len() as u32, &[]);
    same(&pair.client(news.clone()).at_server, &[&news]);
}
