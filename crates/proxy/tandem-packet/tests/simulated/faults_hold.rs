//! Packet mode and the hold: the hint that starts it, the limits that end it, flights in segments
//! of odd sizes. One fault a test.

use std::time::Duration;

use crate::support::flight::{cut, greeted, payloads, same, speech};
use crate::support::tls::{self, Conversation};
use crate::support::{Flow, Pair, SERVER_SIDE, Scenario, complete, proxy, repeats, tls_bytes};
use tandem_netsim::script::Speaker;
use tandem_netsim::{Script, Step};
use tandem_packet::{Limits, WireFormat};
use tandem_wire::{SegmentRepr, TcpFlags, TcpPacket};

#[test]
fn a_flight_crosses_as_a_frame_and_arrives_as_it_was_sent() {
    let (chain, hello, flight) = speech();
    let mut flow = Flow::default();
    let mut pair = greeted(&chain, &mut flow, &hello);
    let (first, second) = flight.split_at(1_448);
    assert!(pair.server(flow.server(0, first)).at_client.is_empty());
    let before = pair.crossed.len();
    let arrived = pair.server(flow.server(1_448, second)).at_client;
    assert_eq!(payloads(&arrived), flight);
    assert_eq!(
        arrived[0],
        SegmentRepr {
            flags: TcpFlags::ACK,
            ..flow.server_repr(0, first)
        }
        .build()
    );
    assert_eq!(pair.crossed.len(), before + 1);
    let (_, frame) = &pair.crossed[before];
    let frame = TcpPacket::parse(frame).expect("a segment");
    let last = frame.end();
    assert_eq!(last, flow.server_isn.wrapping_add(1 + flight.len() as u32));
    assert!(frame.payload().len() < 500);
}

#[test]
fn a_hello_that_fills_its_segment_is_hinted_by_an_acknowledgement_before_it() {
    let (chain, _, flight) = speech();
    // Extension headers and lengths of the filler come on top; the segment is exactly full.
    let short = tls::client_hello(Some(crate::support::NAME), 1).len();
    let hello = tls::client_hello(Some(crate::support::NAME), 1 + 1_448 - short);
    assert_eq!(hello.len(), 1_448);
    let mut flow = Flow::default();
    let mut pair = Pair::knowing(&chain);
    pair.open(&flow);
    let before = pair.crossed.len();
    let arrived = pair.client(flow.client(0, &hello));
    assert_eq!(arrived.at_server, [flow.client(0, &hello)]);
    assert_eq!(pair.crossed.len(), before + 2, "a pure ACK and the hello");
    assert_eq!(
        TcpPacket::parse(&pair.crossed[before].1)
            .expect("a segment")
            .payload(),
        b""
    );
    flow.server_acked = hello.len() as u32;
    let arrived = pair.server(flow.server(0, &flight[..1_448]));
    assert!(
        arrived.at_client.is_empty(),
        "the hint has arrived: the flight is held"
    );
}

#[test]
fn a_hint_that_comes_after_the_server_has_spoken_changes_nothing() {
    let (chain, hello, flight) = speech();
    let mut flow = Flow::default();
    let mut pair = Pair::knowing(&chain);
    pair.open(&flow);
    // The hello is lost on the link; the server speaks nevertheless (a hello seen by another way).
    pair.client_side
        .handle_input_and_lose(flow.client(0, &hello), pair.now);
    flow.server_acked = hello.len() as u32;
    let first = flow.server(0, &flight[..1_448]);
    same(&pair.server(first.clone()).at_client, &[&first]);
    pair.client(flow.client(0, &hello));
    same(&pair.server(first.clone()).at_client, &[&first]);
    let rest = flow.server(1_448, &flight[1_448..]);
    same(&pair.server(rest.clone()).at_client, &[&rest]);
    assert_eq!(pair.server_side.count("flights_written"), 0);
}

#[test]
fn each_limit_of_the_hold_lets_the_flight_go() {
    let (chain, hello, flight) = speech();
    let usual = Limits::default();
    for (limits, size, segments) in [
        (
            Limits {
                hold_segments: 2,
                ..usual
            },
            500,
            3,
        ),
        (
            Limits {
                hold_segments: 0,
                ..usual
            },
            1_448,
            1,
        ),
        (
            Limits {
                hold_bytes: 1_400,
                ..usual
            },
            700,
            3,
        ),
    ] {
        let mut flow = Flow::default();
        let mut pair = Pair::with(WireFormat::Safe, &chain, limits);
        pair.open(&flow);
        pair.client(flow.client(0, &hello));
        flow.server_acked = hello.len() as u32;
        let packets = cut(&flow, &flight, size);
        let mut arrived = Vec::new();
        for (index, packet) in packets.iter().enumerate() {
            arrived.extend(pair.server(packet.clone()).at_client);
            let expected = if index + 1 < segments { 0 } else { index + 1 };
            assert_eq!(arrived.len(), expected, "{limits:?}");
        }
        same(&arrived, &packets.iter().collect::<Vec<_>>());
    }
    let mut flow = Flow::default();
    let mut pair = greeted(&chain, &mut flow, &hello);
    let packets = cut(&flow, &flight, 1_448);
    pair.server(packets[0].clone());
    assert!(
        pair.wait(usual.hold_time - Duration::from_micros(1))
            .at_client
            .is_empty()
    );
    assert_eq!(pair.server_side.gauges().held_bytes, 1_448);
    same(
        &pair.wait(Duration::from_micros(1)).at_client,
        &[&packets[0]],
    );
    assert_eq!(pair.server_side.gauges().held_bytes, 0);
    same(&pair.server(packets[1].clone()).at_client, &[&packets[1]]);
}

#[test]
fn a_flight_larger_than_the_first_window_goes_as_it_is_with_no_repeat() {
    let chain = tls::chain(&[9_000, 9_000]);
    let hello = tls::client_hello(Some(crate::support::NAME), 0);
    let conversation = Conversation::new(hello, &chain, tls::Layout::Packed(1 << 14));
    let scenario = || Scenario::with(WireFormat::Safe, conversation.clone());
    let mut plain = scenario().plain().world();
    complete(&mut plain, &conversation).expect("it completes");
    let mut world = scenario().world();
    complete(&mut world, &conversation).expect("it completes");
    assert_eq!(proxy(&world, SERVER_SIDE).count("hold_released_bytes"), 1);
    assert_eq!(tls_bytes(&world).1, conversation.from_server.len() as u64);
    assert_eq!(repeats(&world), 0);
    // The hold, and what the ACK filter adds to each of the two round trips that the flight takes.
    let limits = Limits::default();
    let longest = plain.now() + limits.hold_time + limits.ack_time * 2;
    assert!(
        world.now() <= longest + Duration::from_millis(5),
        "{} against {}",
        world.now(),
        plain.now()
    );
}

#[test]
fn a_server_that_stalls_in_the_middle_of_its_flight_is_not_waited_for() {
    let scenario = Scenario::warm(WireFormat::Safe);
    let conversation = scenario.conversation.clone();
    let (client, _) = conversation.scripts();
    let flight = &conversation.turns[1].1;
    let mut steps = vec![Step::Receive(conversation.turns[0].1.len() as u64)];
    for piece in flight.chunks(1_000) {
        steps.extend([
            Step::Send(piece.to_vec()),
            Step::Wait(Duration::from_secs(3)),
        ]);
    }
    for (speaker, bytes) in &conversation.turns[2..] {
        steps.push(match speaker {
            Speaker::Client => Step::Receive(bytes.len() as u64),
            Speaker::Server => Step::Send(bytes.clone()),
        });
    }
    let mut world = scenario.world_of(client, Script::new(steps));
    world
        .run_until(Duration::from_secs(2), |world| {
            !world.client().received().is_empty()
        })
        .expect("the first part is not held for long");
    complete(&mut world, &conversation).expect("it completes");
    assert_eq!(repeats(&world), 0);
    assert_eq!(proxy(&world, SERVER_SIDE).count("flights_written"), 0);
}

#[test]
fn a_client_that_reads_slowly_gets_all_of_it() {
    let mut scenario = Scenario::warm(WireFormat::Safe);
    scenario.client.receive_window = 2_000;
    scenario.client.window_scale = None;
    let conversation = scenario.conversation.clone();
    let mut world = scenario.world();
    complete(&mut world, &conversation).expect("it completes");
    assert_eq!(repeats(&world), 0);
}

#[test]
fn a_flight_with_something_after_a_gap_behind_it_waits_for_the_gap_or_goes_as_it_is() {
    let (chain, hello, flight) = speech();
    let mut flow = Flow::default();
    let mut pair = greeted(&chain, &mut flow, &hello);
    let more = tls::record(21, 0x0303, &[1, 90]);
    let after = flow.server(flight.len() as u32 + 7, &more);
    let segments = cut(&flow, &flight, 1_448);
    let sent = [&segments[0], &after, &segments[1]];
    for packet in sent {
        assert!(pair.server(packet.clone()).at_client.is_empty());
    }
    let arrived = pair.wait(Limits::default().hold_time).at_client;
    same(&arrived, &sent);
}

#[test]
fn super_packets_cross_and_come_back_in_sizes_that_the_link_takes() {
    let (chain, hello, flight) = speech();
    // All of the flight in one packet, as offload puts it together; rebuilt it is cut to the
    // client's size.
    let mut flow = Flow::default();
    let mut pair = greeted(&chain, &mut flow, &hello);
    let arrived = pair.server(flow.server(0, &flight)).at_client;
    assert_eq!(payloads(&arrived), flight);
    assert!(arrived.len() > 1);
    // The frame is lost, and the client says so: the original is cut too.
    let mut flow = Flow::default();
    let mut pair = greeted(&chain, &mut flow, &hello);
    pair.server_lost(flow.server(0, &flight));
    pair.wait(Duration::from_secs(3));
    flow.server_acked = hello.len() as u32;
    let arrived = pair.client(flow.client(hello.len() as u32, &[])).at_client;
    assert_eq!(payloads(&arrived), flight);
    // Sixty thousand bytes at once are more than is held.
    let mut flow = Flow::default();
    let mut pair = greeted(&chain, &mut flow, &hello);
    let long = flow.server(0, &tls::record(22, 0x0303, &[2; 16_000]).repeat(3));
    same(&pair.server(long.clone()).at_client, &[&long]);
}

#[test]
fn segments_below_any_reasonable_size_are_not_what_a_flight_is_cut_to() {
    let (chain, hello, flight) = speech();
    let mut flow = Flow {
        mss: 40,
        ..Flow::default()
    };
    let mut pair = Pair::knowing(&chain);
    pair.open(&flow);
    pair.client(flow.client(0, &hello));
    flow.server_acked = hello.len() as u32;
    for packet in cut(&flow, &flight, 28) {
        same(&pair.server(packet.clone()).at_client, &[&packet]);
    }
    for mss in [88, 536, 1_220] {
        let mut flow = Flow {
            mss,
            client_isn: tandem_wire::Seq(u32::from(mss)),
            ..Flow::default()
        };
        let mut pair = greeted(&chain, &mut flow, &hello);
        let arrived = pair.server(flow.server(0, &flight)).at_client;
        assert_eq!(payloads(&arrived), flight);
        for packet in &arrived {
            let packet = TcpPacket::parse(packet).expect("a segment");
            assert!(packet.payload().len() <= usize::from(mss) - 12);
        }
    }
}
