//! Packet mode and what happens to TCP's options: timestamps that an end leaves off, middleboxes
//! that strip, blank or drop. One fault a test.

use std::time::Duration;

use crate::support::bare::{Bare, has_option};
use crate::support::{
    Boxed, CLIENT_SIDE, Closes, SERVER_SIDE, Scenario, clean, complete, proxy, repeats, tls_bytes,
};
use tandem_netsim::element::{Port, Tamper};
use tandem_netsim::firewall::{Firewall, Reach, Rule};
use tandem_netsim::pep::SplittingPep;
use tandem_packet::WireFormat;
use tandem_wire::{Edit, TcpFlags, TcpPacket};

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
        // Whose side leaves them off says so at once, before an option of its own has crossed.
        let (near, far) = match who {
            "client" => (CLIENT_SIDE, SERVER_SIDE),
            _ => (SERVER_SIDE, CLIENT_SIDE),
        };
        let count = |side| proxy(&world, side).count("flows_given_up_no_timestamps");
        assert_eq!((count(near), count(far)), (1, 0), "{who}");
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

/// What the link makes of each SYN that comes in at this port, and of the next segment after it: a
/// copy of the SYN more.
fn copies_syns(of: Port) -> Boxed {
    let mut syn = None;
    Boxed(Box::new(Tamper::new(move |port, packet, _| {
        let flags = TcpPacket::parse(&packet).expect("a segment").flags();
        let copy = match (port == of, flags.contains(TcpFlags::SYN)) {
            (true, true) => {
                syn = Some(packet.clone());
                Some(packet.clone())
            }
            (true, false) => syn.take(),
            (false, _) => None,
        };
        let copies = copy.into_iter().chain([packet]);
        copies.map(|packet| (port.opposite(), packet)).collect()
    })))
}

#[test]
fn a_syn_that_comes_again_with_its_option_loses_it_before_the_server() {
    let mut scenario = Scenario::warm(WireFormat::Safe);
    // A copy at once, and one when the proxies have agreed.
    scenario.after_link = Some(copies_syns(Port::Left));
    scenario.server_lan = Some(Bare::boxed());
    let conversation = scenario.conversation.clone();
    let mut world = scenario.world();
    complete(&mut world, &conversation).expect("it completes");
    assert_eq!(proxy(&world, SERVER_SIDE).count("flights_written"), 1);
    clean(&world);
}

#[test]
fn a_syn_ack_that_comes_again_with_its_option_loses_it_before_the_client() {
    let mut scenario = Scenario::warm(WireFormat::Safe);
    // The first copy comes before the two have agreed for the client, the other after it.
    scenario.after_link = Some(copies_syns(Port::Right));
    scenario.client_lan = Some(Bare::boxed());
    let conversation = scenario.conversation.clone();
    let mut world = scenario.world();
    complete(&mut world, &conversation).expect("it completes");
    assert_eq!(proxy(&world, CLIENT_SIDE).count("flights_rebuilt_bytes"), 1);
    clean(&world);
}

#[test]
fn a_syn_that_asks_for_what_packet_mode_leaves_alone_is_left_alone_whatever_its_option_says() {
    let mut scenario = Scenario::warm(WireFormat::Safe);
    let smaller = Tamper::new(|port, packet, _| {
        let parsed = TcpPacket::parse(&packet).expect("a segment");
        let mut options = parsed.options_bytes().to_vec();
        let mss = options.windows(2).position(|kind| kind == [2, 4]);
        let packet = match mss {
            Some(at) if port == Port::Left && has_option(&packet) => {
                // Below what any TCP sends.
                options[at + 2..at + 4].copy_from_slice(&80_u16.to_be_bytes());
                let edit = Edit {
                    options: Some(&options),
                    ..Edit::default()
                };
                parsed.rebuilt(&edit).expect("as long")
            }
            _ => packet,
        };
        vec![(port.opposite(), packet)]
    });
    scenario.after_link = Some(Boxed(Box::new(smaller)));
    let conversation = scenario.conversation.clone();
    let mut world = scenario.world();
    complete(&mut world, &conversation).expect("it completes");
    let server_side = proxy(&world, SERVER_SIDE);
    assert_eq!(server_side.count("flows_given_up_foreign_syn"), 1);
    assert_eq!(server_side.count("flows_with_peer"), 0);
    assert_eq!(server_side.count("flights_written"), 0);
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
