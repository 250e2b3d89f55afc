//! Packet mode and what TCP may do: odd SYNs, overlaps, repeats, resets, closings, odd sizes. One fault a test.

mod support;

use support::tls;
use support::{Flow, Pair};
use tandem_wire::{SegmentRepr, TcpFlags, TcpPacket};

/// A hello and a flight for segments made by hand, and the chain in it.
fn speech() -> (Vec<Vec<u8>>, Vec<u8>, Vec<u8>) {
    let chain = tls::chain(&[926, 900]);
    let flight = tls::records(&tls::server_flight(&chain), tls::Layout::MessageARecord);
    (chain, tls::client_hello(Some(support::NAME), 0), flight)
}

/// A pair that has agreed on this flow and heard the hello.
fn greeted(chain: &[Vec<u8>], flow: &mut Flow, hello: &[u8]) -> Pair {
    let mut pair = Pair::knowing(chain);
    pair.open(flow);
    let arrived = pair.client(flow.client(0, hello));
    assert_eq!(arrived.at_server, [flow.client(0, hello)]);
    flow.server_acked = hello.len() as u32;
    pair
}

/// Whether these packets are those, to the byte; said briefly where they are not.
#[track_caller]
fn same(packets: &[Vec<u8>], expected: &[&Vec<u8>]) {
    let brief = |packet: &Vec<u8>| {
        let packet = TcpPacket::parse(packet).expect("a segment");
        let stamps = packet.timestamps().map(|timestamps| timestamps.value);
        let length = packet.payload().len();
        format!(
            "{:?} {} +{length} {stamps:?}",
            packet.flags(),
            packet.seq().0
        )
    };
    let equal = packets.iter().collect::<Vec<_>>() == expected;
    let expected: Vec<_> = expected.iter().map(|packet| brief(packet)).collect();
    let packets: Vec<_> = packets.iter().map(brief).collect();
    assert!(equal, "{packets:#?}\nare not\n{expected:#?}");
}

fn payloads(packets: &[Vec<u8>]) -> Vec<u8> {
    packets
        .iter()
        .flat_map(|packet| {
            TcpPacket::parse(packet)
                .expect("a segment")
                .payload()
                .to_vec()
        })
        .collect()
}

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
    let last = frame.seq().wrapping_add(frame.payload().len() as u32);
    assert_eq!(last, flow.server_isn.wrapping_add(1 + flight.len() as u32));
    assert!(frame.payload().len() < 500);
}

#[test]
fn a_hello_that_fills_its_segment_is_hinted_by_an_acknowledgement_before_it() {
    let (chain, _, flight) = speech();
    // Extension headers and lengths of the filler come on top; the segment is exactly full.
    let short = tls::client_hello(Some(support::NAME), 1).len();
    let hello = tls::client_hello(Some(support::NAME), 1 + 1_448 - short);
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
