//! Packet mode and what TCP may do: odd SYNs, overlaps, repeats, resets, closings, odd sizes. One
//! fault a test.

mod support;

use std::time::Duration;

use support::tls::{self, Conversation};
use support::{
    Boxed, CLIENT_SIDE, Closes, Flow, Pair, ProxyElement, SERVER_SIDE, Scenario, clean, complete,
    prefix, proxy, repeats, tls_bytes,
};
use tandem_netsim::element::{Port, Tamper};
use tandem_netsim::firewall::{Firewall, Reach, Rule};
use tandem_netsim::host::{Ending, Phase};
use tandem_netsim::pep::SplittingPep;
use tandem_netsim::script::Speaker;
use tandem_netsim::{Script, Step};
use tandem_packet::{Limits, WireFormat};
use tandem_wire::{Edit, SegmentRepr, TcpFlags, TcpPacket};

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
    let last = frame.end();
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

/// The flight in segments of `size` bytes.
fn cut(flow: &Flow, flight: &[u8], size: usize) -> Vec<Vec<u8>> {
    (0..)
        .zip(flight.chunks(size))
        .map(|(index, piece)| flow.server(index * size as u32, piece))
        .collect()
}

/// The rest of the handshake after the flight, and that both sides let the connection go.
fn finish(pair: &mut Pair, flow: &mut Flow, hello: &[u8], flight: &[u8]) {
    let answer = [
        tls::record(22, 0x0303, &tls::message(16, &[7; 33])),
        tls::finished(1),
    ]
    .concat();
    flow.client_acked = flight.len() as u32;
    let answer = flow.client(hello.len() as u32, &answer);
    same(&pair.client(answer.clone()).at_server, &[&answer]);
    flow.server_acked += TcpPacket::parse(&answer)
        .expect("a segment")
        .payload()
        .len() as u32;
    let last = flow.server(flight.len() as u32, &tls::finished(2));
    same(&pair.server(last.clone()).at_client, &[&last]);
}

fn learned(pair: &Pair) -> usize {
    pair.client_side.count("chains_learned") + pair.server_side.count("chains_learned")
}

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
fn syns_that_ask_for_more_than_plain_tcp_are_left_alone() {
    let (chain, hello, flight) = speech();
    for options in [
        &[
            19u8, 18, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
        ][..],
        &[29, 16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14],
        &[30, 12, 0, 0x81, 1, 2, 3, 4, 5, 6, 7, 8],
        &[34, 2],
        &[34, 10, 1, 2, 3, 4, 5, 6, 7, 8],
        &[254, 4, 0xf9, 0x89],
    ] {
        let mut flow = Flow {
            syn_options: options.to_vec(),
            ..Flow::default()
        };
        let mut pair = Pair::knowing(&chain);
        pair.open(&flow);
        // The last is Fast Open by its old, experimental number, which nothing tells from another
        // experiment.
        let alone = options[0] != 254;
        flow.server_acked = hello.len() as u32;
        let hello = flow.client(0, &hello);
        same(&pair.client(hello.clone()).at_server, &[&hello]);
        if alone {
            for packet in cut(&flow, &flight, 1_448) {
                same(&pair.server(packet.clone()).at_client, &[&packet]);
            }
            assert_eq!(pair.client_side.count("flows_given_up_foreign_syn"), 1);
            assert_eq!(pair.client_side.gauges().flows, 0);
        }
    }
}

#[test]
fn data_in_a_syn_is_left_alone() {
    let (chain, hello, _) = speech();
    let flow = Flow::default();
    let mut pair = Pair::knowing(&chain);
    let mut syn = flow.client_repr(0, &hello);
    (syn.seq, syn.ack, syn.flags) = (flow.client_isn, tandem_wire::Seq(0), TcpFlags::SYN);
    let syn = syn.build();
    same(&pair.client(syn.clone()).at_server, &[&syn]);
    assert_eq!(pair.client_side.gauges().flows, 0);
    assert_eq!(pair.server_side.gauges().flows, 0);
}

#[test]
fn without_timestamps_nothing_is_touched() {
    for who in ["client", "server"] {
        let mut scenario = Scenario::warm(WireFormat::Safe);
        match who {
            "client" => scenario.client.timestamps = None,
            _ => scenario.server.timestamps = None,
        }
        let conversation = scenario.conversation.clone();
        let mut world = scenario.world();
        complete(&mut world, &conversation).expect("it completes");
        let crossed = tls_bytes(&world);
        let said = (
            conversation.from_client.len(),
            conversation.from_server.len(),
        );
        assert_eq!(crossed, (said.0 as u64, said.1 as u64), "{who}");
        assert_eq!(repeats(&world), 0, "{who}");
        let counted = proxy(&world, CLIENT_SIDE).count("flows_given_up_no_timestamps")
            + proxy(&world, SERVER_SIDE).count("flows_given_up_no_timestamps");
        assert_eq!(counted, 1, "{who}");
        clean(&world);
    }
}

#[test]
fn what_changes_options_or_numbers_on_the_way_is_found_out_and_nothing_is_rewritten() {
    let rules = [
        Rule::RemoveUnknownOptions(Reach::Syn),
        Rule::RemoveUnknownOptions(Reach::EverySegment),
        Rule::BlankUnknownOptions(Reach::Syn),
        Rule::RemoveTimestampsFromSyn,
        Rule::RewriteIsn {
            client: 0x1234_5678,
            server: 0xf000_0001,
        },
    ];
    for rule in rules {
        let mut scenario = Scenario::warm(WireFormat::Safe);
        scenario.after_link = Some(Boxed(Box::new(Firewall::new([rule]))));
        scenario.closes = Closes::AtTheEnd;
        let conversation = scenario.conversation.clone();
        let mut world = scenario.world();
        complete(&mut world, &conversation).expect("it completes");
        let crossed = tls_bytes(&world).1;
        assert_eq!(crossed, conversation.from_server.len() as u64, "{rule:?}");
        assert_eq!(repeats(&world), 0, "{rule:?}");
        assert_eq!(proxy(&world, SERVER_SIDE).count("flights_written"), 0);
        world.run_for(Duration::from_secs(10)).expect("it ends");
        clean(&world);
    }
}

#[test]
fn a_presence_that_is_stripped_on_later_segments_costs_the_hint_alone() {
    let mut scenario = Scenario::warm(WireFormat::Safe);
    // Lets the SYN's option through, not the hint's.
    let strips = Tamper::new(|port, packet, _| {
        let parsed = TcpPacket::parse(&packet).expect("a segment");
        let has_option = parsed.options_bytes().first() == Some(&253);
        if !has_option || parsed.flags().contains(TcpFlags::SYN) {
            return vec![(port.opposite(), packet)];
        }
        let length = usize::from(parsed.options_bytes()[1]);
        let edit = Edit {
            options: Some(&parsed.options_bytes()[length..]),
            ..Edit::default()
        };
        vec![(port.opposite(), parsed.rebuilt(&edit).expect("shorter"))]
    });
    scenario.after_link = Some(Boxed(Box::new(strips)));
    let conversation = scenario.conversation.clone();
    let mut world = scenario.world();
    complete(&mut world, &conversation).expect("it completes");
    assert_eq!(tls_bytes(&world).1, conversation.from_server.len() as u64);
    assert_eq!(repeats(&world), 0);
}

#[test]
fn a_syn_that_is_dropped_for_its_option_is_repeated_without_it() {
    let mut scenario = Scenario::warm(WireFormat::Safe);
    let rule = Rule::DropSynWithUnknownOption;
    scenario.after_link = Some(Boxed(Box::new(Firewall::new([rule]))));
    let conversation = scenario.conversation.clone();
    let mut world = scenario.world();
    complete(&mut world, &conversation).expect("it completes");
    assert_eq!(repeats(&world), 1);
    assert_eq!(
        proxy(&world, CLIENT_SIDE).count("flows_given_up_no_answer"),
        1
    );
    clean(&world);
}

#[test]
fn a_syn_ack_that_is_dropped_for_its_option_is_repeated_without_it() {
    let mut scenario = Scenario::warm(WireFormat::Safe);
    let drops = Tamper::dropping(|port, packet| {
        let packet = TcpPacket::parse(packet).expect("a segment");
        let has_option = packet.options_bytes().first() == Some(&253);
        port == Port::Right && has_option && packet.flags().contains(TcpFlags::SYN)
    });
    scenario.after_link = Some(Boxed(Box::new(drops)));
    let conversation = scenario.conversation.clone();
    let mut world = scenario.world();
    complete(&mut world, &conversation).expect("it completes");
    assert!(world.client().counters().syn_retransmitted <= 1);
    assert!(repeats(&world) <= 3);
    assert_eq!(
        proxy(&world, CLIENT_SIDE).count("flows_given_up_no_answer"),
        1
    );
}

#[test]
fn a_hello_that_is_dropped_for_its_option_is_repeated_without_it() {
    let mut scenario = Scenario::warm(WireFormat::Safe);
    let drops = Tamper::dropping(|_, packet| {
        let packet = TcpPacket::parse(packet).expect("a segment");
        let has_option = packet.options_bytes().first() == Some(&253);
        has_option && !packet.flags().contains(TcpFlags::SYN)
    });
    scenario.after_link = Some(Boxed(Box::new(drops)));
    let conversation = scenario.conversation.clone();
    let mut world = scenario.world();
    complete(&mut world, &conversation).expect("it completes");
    assert_eq!(repeats(&world), 2);
    assert_eq!(tls_bytes(&world).1, conversation.from_server.len() as u64);
}

/// Takes the timestamps off everything but SYNs that goes this way.
fn strips_timestamps(towards: Port) -> Boxed {
    Boxed(Box::new(Tamper::new(move |port, packet, _| {
        let parsed = TcpPacket::parse(&packet).expect("a segment");
        if port.opposite() != towards || parsed.flags().contains(TcpFlags::SYN) {
            return vec![(port.opposite(), packet)];
        }
        let mut options = parsed.options_bytes().to_vec();
        // NOP, NOP, timestamps: at the end of what these hosts and proxies send.
        let at = options.len() - 12;
        assert_eq!(options[at..at + 4], [1, 1, 8, 10]);
        options.truncate(at);
        let edit = Edit {
            options: Some(&options),
            ..Edit::default()
        };
        vec![(port.opposite(), parsed.rebuilt(&edit).expect("shorter"))]
    })))
}

#[test]
fn timestamps_that_are_agreed_and_then_taken_off_break_nothing() {
    for towards in [Port::Right, Port::Left] {
        let mut scenario = Scenario::warm(WireFormat::Safe);
        scenario.after_link = Some(strips_timestamps(towards));
        let conversation = scenario.conversation.clone();
        let mut world = scenario.world();
        complete(&mut world, &conversation).expect("it completes");
        assert_eq!(repeats(&world), 0);
        // Without them on the hint nothing is rewritten; without them on the frame it is known by
        // what it is.
        let written = usize::from(towards == Port::Left);
        assert_eq!(proxy(&world, SERVER_SIDE).count("flights_written"), written);
    }
}

#[test]
fn a_carriers_own_proxy_between_the_two_is_found_out() {
    let mut scenario = Scenario::warm(WireFormat::Safe);
    scenario.after_link = Some(Boxed(Box::new(SplittingPep::new())));
    let conversation = scenario.conversation.clone();
    let mut world = scenario.world();
    complete(&mut world, &conversation).expect("it completes");
    assert_eq!(proxy(&world, SERVER_SIDE).count("flights_written"), 0);
    assert_eq!(
        proxy(&world, CLIENT_SIDE).count("flows_given_up_no_answer"),
        1
    );
    clean(&world);
}

#[test]
fn a_four_tuple_that_is_used_again_is_a_new_flow() {
    let (chain, hello, flight) = speech();
    let mut pair = Pair::knowing(&chain);
    // The first is left at its Finished, the second is cut off in the middle of its flight, the
    // third never gets an answer.
    for (round, end) in [
        (0u32, "finished"),
        (1, "held"),
        (2, "asked"),
        (3, "finished"),
    ] {
        let mut flow = Flow {
            client_isn: tandem_wire::Seq(1_000_000 * round),
            server_isn: tandem_wire::Seq(7_000_000 * round),
            ..Flow::default()
        };
        if end == "asked" {
            pair.client(flow.syn());
            continue;
        }
        pair.open(&flow);
        let greeting = flow.client(0, &hello);
        same(&pair.client(greeting.clone()).at_server, &[&greeting]);
        flow.server_acked = hello.len() as u32;
        let segments = cut(&flow, &flight, 1_448);
        if end == "held" {
            assert!(pair.server(segments[0].clone()).at_client.is_empty());
            assert_eq!(pair.server_side.gauges().held_packets, 1);
            continue;
        }
        let arrived: Vec<_> = segments
            .into_iter()
            .flat_map(|packet| pair.server(packet).at_client)
            .collect();
        assert_eq!(payloads(&arrived), flight);
        finish(&mut pair, &mut flow, &hello, &flight);
    }
    assert_eq!(pair.server_side.count("flights_written"), 2);
    assert_eq!(pair.server_side.gauges().flows, 0);
    assert_eq!(pair.client_side.gauges().flows, 0);
}

#[test]
fn a_flow_picked_up_in_the_middle_or_seen_one_way_only_is_untouched() {
    let (chain, hello, flight) = speech();
    for missing in ["syn", "syn/ack", "client", "server"] {
        let mut flow = Flow::default();
        let mut pair = Pair::knowing(&chain);
        let greeting = flow.client(0, &hello);
        if missing != "syn" {
            let syn = flow.syn();
            same(&pair.client(syn.clone()).at_server, &[&syn]);
        }
        if missing == "syn" {
            let syn_ack = flow.syn_ack();
            same(&pair.server(syn_ack.clone()).at_client, &[&syn_ack]);
        }
        flow.server_acked = hello.len() as u32;
        if missing != "client" {
            for packet in [flow.client(0, &[]), greeting] {
                same(&pair.client(packet.clone()).at_server, &[&packet]);
            }
        }
        if missing != "server" {
            for packet in cut(&flow, &flight, 1_448) {
                same(&pair.server(packet.clone()).at_client, &[&packet]);
            }
        }
        assert_eq!(pair.server_side.count("flights_written"), 0, "{missing}");
        let left = usize::from(missing == "server");
        assert!(pair.client_side.gauges().flows <= left, "{missing}");
    }
}

#[test]
fn only_a_syn_ack_that_answers_the_clients_syn_starts_an_agreement() {
    let flow = Flow::default();
    let own = SegmentRepr {
        flags: TcpFlags::SYN.with(TcpFlags::ACK),
        seq: flow.server_isn,
        ..flow.server_repr(0, &[])
    };
    let cases = [
        ("an acknowledgement", TcpFlags::ACK, own.ack),
        ("a SYN", TcpFlags::SYN, own.ack),
        ("of the byte before", own.flags, own.ack.wrapping_sub(1)),
        ("of a byte after", own.flags, own.ack.wrapping_add(1)),
    ];
    for (case, flags, ack) in cases {
        let mut pair = Pair::knowing(&tls::chain(&[926, 900]));
        pair.client(flow.syn());
        let other = SegmentRepr {
            flags,
            ack,
            ..own.clone()
        };
        pair.server_to_link(other.build());
        let crossed: Vec<_> = pair.crossed.split_off(1);
        assert_eq!(crossed, [(Port::Left, other.build())], "{case}");
        assert_eq!(pair.server_side.count("flows_closed_early"), 1, "{case}");
        assert_eq!(pair.server_side.count("flows_with_peer"), 0, "{case}");
        assert_eq!(pair.server_side.gauges().flows, 0, "{case}");
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

#[test]
fn a_bad_checksum_is_passed_on_as_bad_and_nothing_is_learned_from_it() {
    let (chain, hello, flight) = speech();
    let mut flow = Flow::default();
    let mut pair = greeted(&chain, &mut flow, &hello);
    let mut bad = flow.server(0, &flight[..1_448]);
    let last = bad.len() - 1;
    bad[last] ^= 0x40;
    same(&pair.server(bad.clone()).at_client, &[&bad]);
    let mut bad_syn = Flow {
        client: std::net::SocketAddr::from(([10, 0, 0, 1], 41_000)),
        ..Flow::default()
    }
    .syn();
    bad_syn[30] ^= 1;
    same(&pair.client(bad_syn.clone()).at_server, &[&bad_syn]);
    let arrived: Vec<_> = cut(&flow, &flight, 1_448)
        .into_iter()
        .flat_map(|packet| pair.server(packet).at_client)
        .collect();
    assert_eq!(payloads(&arrived), flight);
    assert_eq!(pair.server_side.count("flights_written"), 1);
    assert_eq!(pair.server_side.gauges().flows, 1);
}

#[test]
fn fragments_and_what_is_not_tcp_pass() {
    let (chain, hello, _) = speech();
    let flow = Flow::default();
    let mut pair = Pair::knowing(&chain);
    let mut first = flow.client(0, &hello);
    first[6] = 0x20;
    let mut later = flow.client(0, &hello);
    (later[6], later[7]) = (0, 9);
    let mut udp = flow.client(0, &hello);
    udp[9] = 17;
    let six = Flow {
        client: "[2001:db8::1]:40000".parse().expect("an address"),
        server: "[2001:db8::2]:443".parse().expect("an address"),
        ..Flow::default()
    };
    let mut destination_options = six.client(0, &hello);
    destination_options[6] = 60;
    let mut fragment = six.client(0, &hello);
    fragment[6] = 44;
    for packet in [
        first,
        later,
        udp,
        destination_options,
        fragment,
        vec![0x45],
        Vec::new(),
    ] {
        let unchanged = std::slice::from_ref(&packet);
        assert_eq!(pair.client(packet.clone()).at_server, unchanged);
        assert_eq!(pair.server(packet.clone()).at_client, unchanged);
    }
    assert_eq!(pair.client_side.gauges().flows, 0);
}

#[test]
fn other_ports_are_not_looked_at() {
    let (chain, hello, _) = speech();
    let flow = Flow {
        server: std::net::SocketAddr::from(([10, 0, 9, 1], 8_443)),
        ..Flow::default()
    };
    let mut pair = Pair::knowing(&chain);
    pair.open(&flow);
    pair.client(flow.client(0, &hello));
    assert_eq!(pair.client_side.events, []);
    assert_eq!(pair.server_side.events, []);
}

#[test]
fn a_flight_larger_than_the_first_window_goes_as_it_is_with_no_repeat() {
    let chain = tls::chain(&[9_000, 9_000]);
    let hello = tls::client_hello(Some(support::NAME), 0);
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
