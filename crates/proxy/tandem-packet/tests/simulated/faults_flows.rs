//! Packet mode and what is no ordinary connection: odd SYNs, a flow seen in part, other ports,
//! fragments, bad checksums. One fault a test.

use crate::support::flight::{cut, finish, greeted, payloads, same, speech};
use crate::support::tls;
use crate::support::{Flow, Pair};
use tandem_netsim::element::Port;
use tandem_wire::{SegmentRepr, TcpFlags};

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
fn a_flow_that_makes_way_for_another_puts_nothing_at_risk_any_more() {
    let (chain, hello, flight) = speech();
    for are_replaced in [false, true] {
        let mut pair = Pair::knowing(&chain);
        let flow_from = |port| {
            let mut flow = Flow::default();
            flow.client.set_port(port);
            flow
        };
        // Written, and not acknowledged: as many as may be at risk on a path.
        for port in [1, 2, 3] {
            let mut flow = flow_from(port);
            if port == 3 && are_replaced {
                for port in [1, 2] {
                    let again = Flow {
                        client_isn: flow.client_isn.wrapping_add(1_000_000),
                        ..flow_from(port)
                    };
                    pair.client(again.syn());
                }
            }
            pair.open(&flow);
            pair.client(flow.client(0, &hello));
            flow.server_acked = hello.len() as u32;
            for packet in cut(&flow, &flight, 1_448) {
                pair.server(packet);
            }
        }
        let written = 2 + usize::from(are_replaced);
        assert_eq!(pair.server_side.count("flights_written"), written);
    }
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
