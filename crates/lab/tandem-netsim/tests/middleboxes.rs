//! NAT with connection tracking, meddling firewalls, a splitting PEP, and
//! elements that stop, die and come back.

mod support;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use support::{Conversation, HOUR, Ip, client_config, server_config};
use tandem_netsim::element::{BlackHole, Element, Port, Tamper, Wire};
use tandem_netsim::firewall::{Firewall, Reach, Rule};
use tandem_netsim::host::Ending;
use tandem_netsim::link::{Link, LinkConfig, Loss};
use tandem_netsim::middlebox::{
    ClockFirewall, EarlyAcker, Normaliser, OverlapDropper, ReorderHolder, Resegmenter,
};
use tandem_netsim::nat::{InvalidPolicy, InvalidReason, Nat};
use tandem_netsim::pep::SplittingPep;
use tandem_netsim::world::{Failure, Overflow, World};
use tandem_netsim::{BitRate, Probability};
use tandem_wire::clock::Instant;
use tandem_wire::packet::{Edit, TcpPacket};
use tandem_wire::tcp::{OptionsBuf, TcpFlags, TcpOption};

const OUTER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

fn lossy_link(percent: u8, seed: u64) -> Link {
    let rate = BitRate::from_bits_per_second(1_000_000);
    let config = LinkConfig::new(rate, rate, Duration::from_millis(50))
        .with_both(|d| d.loss = Loss::Independent(Probability::percent(percent)));
    Link::new(config, seed, Instant::ZERO)
}

fn nat(policy: InvalidPolicy) -> Nat {
    Nat::new(OUTER, 40_000, policy)
}

/// client - `left` - link - NAT - `right` - server.
fn world_through(
    conversation: &Conversation,
    ip: Ip,
    (left, middle, right): (impl Element, impl Element, impl Element),
    (loss, seed): (u8, u64),
) -> World {
    let (client, server) = conversation.hosts(client_config(ip), server_config(ip));
    World::new(seed)
        .with_client(client)
        .with_element(left)
        .with_element(lossy_link(loss, seed))
        .with_element(middle)
        .with_element(right)
        .with_server(server)
        .with_tap(0)
        .with_tap(4)
}

#[test]
fn nat_translates_and_finds_nothing_invalid_in_honest_tcp() -> Result<(), Failure> {
    for ip in [Ip::V4, Ip::V6] {
        for (loss, seed) in [(0, 0), (10, 1), (10, 2), (10, 3), (30, 4)] {
            let conversation = Conversation::bulk(40_000, 120_000);
            let elements = (Wire::default(), nat(InvalidPolicy::Drop), Wire::default());
            let mut world = world_through(&conversation, ip, elements, (loss, seed));
            conversation.run(&mut world, HOUR)?;
            let nat: &Nat = world.element(2).expect("the NAT is element 2");
            // Late copies of what is long acknowledged may be INVALID; nothing else.
            for reason in nat.counters().invalid.keys() {
                assert_eq!(*reason, InvalidReason::SeqUnderLowerBound);
            }
            let seen = world.server().peer();
            match ip {
                Ip::V4 => assert_eq!(seen, Some(SocketAddr::from((OUTER, 40_000)))),
                Ip::V6 => assert_eq!(seen, Some(support::client_address(ip))),
            }
        }
    }
    Ok(())
}

/// Shrinks each data segment of the server to a few bytes before the NAT, the
/// way a proxy would, and puts the whole back behind it.
fn shrink_and_restore(anchor: Anchor) -> (Tamper, Tamper) {
    let store = std::rc::Rc::new(std::cell::RefCell::new(std::collections::BTreeMap::new()));
    let kept = store.clone();
    let shrink = Tamper::new(move |port, packet, _| {
        let shrunk = TcpPacket::parse(&packet).ok().and_then(|segment| {
            let payload = segment.payload();
            if port == Port::Left || payload.len() <= 8 {
                return None;
            }
            let end = segment.seq().wrapping_add(payload.len() as u32);
            let (seq, part) = match anchor {
                Anchor::First => (segment.seq(), &payload[..8]),
                Anchor::Last => (end.wrapping_sub(8), &payload[payload.len() - 8..]),
            };
            store.borrow_mut().insert(seq.0, packet.clone());
            let edit = Edit {
                seq: Some(seq),
                payload: Some(part),
                ..Edit::default()
            };
            segment.rebuilt(&edit).ok()
        });
        vec![(port.opposite(), shrunk.unwrap_or(packet))]
    });
    let restore = Tamper::new(move |port, packet, _| {
        let whole = TcpPacket::parse(&packet).ok().and_then(|segment| {
            let original = kept.borrow().get(&segment.seq().0).cloned()?;
            let original = TcpPacket::parse(&original).ok()?.payload().to_vec();
            let seq = match anchor {
                Anchor::First => segment.seq(),
                Anchor::Last => segment
                    .seq()
                    .wrapping_add(8)
                    .wrapping_sub(original.len() as u32),
            };
            let edit = Edit {
                seq: Some(seq),
                payload: Some(&original),
                ..Edit::default()
            };
            (port == Port::Right && segment.payload().len() == 8)
                .then(|| segment.rebuilt(&edit).ok())
                .flatten()
        });
        vec![(port.opposite(), whole.unwrap_or(packet))]
    });
    (restore, shrink)
}

#[derive(Clone, Copy)]
enum Anchor {
    First,
    Last,
}

#[test]
fn acknowledging_bytes_that_nat_never_saw_is_invalid_and_dropped() -> Result<(), Failure> {
    let conversation = Conversation::handshake();
    let (restore, shrink) = shrink_and_restore(Anchor::First);
    let elements = (restore, nat(InvalidPolicy::Drop), shrink);
    let mut world = world_through(&conversation, Ip::V4, elements, (0, 0));
    world.connect();
    world.run_for(Duration::from_secs(60))?;
    let nat: &Nat = world.element(2).expect("the NAT is element 2");
    assert!(nat.counters().invalid[&InvalidReason::AckOverUpperBound] > 0);
    // The client has its flight, but its answer never arrives.
    assert_eq!(world.server().received().len(), 223);
    assert_eq!(world.server().ending(), None);
    Ok(())
}

#[test]
fn the_same_anchored_at_the_end_passes() -> Result<(), Failure> {
    let conversation = Conversation::handshake();
    let (restore, shrink) = shrink_and_restore(Anchor::Last);
    let elements = (restore, nat(InvalidPolicy::Drop), shrink);
    let mut world = world_through(&conversation, Ip::V4, elements, (0, 0));
    conversation.run(&mut world, HOUR)?;
    let nat: &Nat = world.element(2).expect("the NAT is element 2");
    assert_eq!(nat.counters().invalid_total(), 0);
    Ok(())
}

#[test]
fn a_liberal_nat_passes_what_a_strict_one_drops() -> Result<(), Failure> {
    let conversation = Conversation::handshake();
    let (restore, shrink) = shrink_and_restore(Anchor::First);
    let elements = (restore, nat(InvalidPolicy::Liberal), shrink);
    let mut world = world_through(&conversation, Ip::V4, elements, (0, 0));
    conversation.run(&mut world, HOUR)?;
    let nat: &Nat = world.element(2).expect("the NAT is element 2");
    assert!(nat.counters().invalid_total() > 0);
    Ok(())
}

#[test]
fn without_a_rule_invalid_segments_leave_untranslated_and_help_nobody() -> Result<(), Failure> {
    let conversation = Conversation::handshake();
    let (restore, shrink) = shrink_and_restore(Anchor::First);
    let elements = (restore, nat(InvalidPolicy::LeaveUntranslated), shrink);
    let mut world = world_through(&conversation, Ip::V4, elements, (0, 0));
    world.connect();
    world.run_for(Duration::from_secs(60))?;
    assert_ne!(world.server().ending(), Some(Ending::Finished));
    let inner = support::client_address(Ip::V4);
    let leaked = world.tapped(4).iter().any(|tapped| {
        TcpPacket::parse(&tapped.packet).is_ok_and(|segment| segment.source() == inner)
    });
    assert!(leaked);
    Ok(())
}

#[test]
fn nat_judges_segments_by_its_four_bounds() -> Result<(), Failure> {
    type Change = fn(&TcpPacket<'_>) -> Option<Vec<u8>>;
    let cases: [(InvalidReason, Change); 5] = [
        (InvalidReason::SeqOverUpperBound, |segment| {
            let seq = Some(segment.seq().wrapping_add(200_000));
            segment
                .rebuilt(&Edit {
                    seq,
                    ..Edit::default()
                })
                .ok()
        }),
        (InvalidReason::SeqUnderLowerBound, |segment| {
            let seq = Some(segment.seq().wrapping_sub(200_000));
            segment
                .rebuilt(&Edit {
                    seq,
                    ..Edit::default()
                })
                .ok()
        }),
        (InvalidReason::AckOverUpperBound, |segment| {
            let ack = Some(segment.ack().wrapping_add(20_000));
            segment
                .rebuilt(&Edit {
                    ack,
                    ..Edit::default()
                })
                .ok()
        }),
        (InvalidReason::AckUnderLowerBound, |segment| {
            let ack = Some(segment.ack().wrapping_sub(70_000));
            segment
                .rebuilt(&Edit {
                    ack,
                    ..Edit::default()
                })
                .ok()
        }),
        (InvalidReason::BadChecksum, |segment| {
            let mut packet = segment.bytes().to_vec();
            *packet.last_mut()? ^= 0x40;
            Some(packet)
        }),
    ];
    for (reason, change) in cases {
        // Each of the client's data segments is followed by a changed copy.
        let conversation = Conversation::handshake();
        let copies = Tamper::new(move |port, packet, _| {
            let copy = TcpPacket::parse(&packet)
                .ok()
                .filter(|segment| port == Port::Left && !segment.payload().is_empty())
                .and_then(|segment| change(&segment));
            let mut out = vec![(port.opposite(), packet)];
            out.extend(copy.map(|copy| (port.opposite(), copy)));
            out
        });
        let elements = (copies, nat(InvalidPolicy::Drop), Wire::default());
        let mut world = world_through(&conversation, Ip::V4, elements, (0, 0));
        conversation.run(&mut world, HOUR)?;
        let nat: &Nat = world.element(2).expect("the NAT is element 2");
        let found: Vec<_> = nat.counters().invalid.iter().collect();
        assert_eq!(found, [(&reason, &3)], "{:?}", nat.counters());
    }
    Ok(())
}

#[test]
fn a_four_tuple_is_used_again_after_both_fins() -> Result<(), Failure> {
    let conversation = Conversation::handshake();
    let (client, server) = conversation.hosts(client_config(Ip::V4), server_config(Ip::V4));
    let mut second_client = client_config(Ip::V4);
    second_client.initial_seq = tandem_wire::Seq(1);
    let (second_client, second_server) = conversation.hosts(second_client, server_config(Ip::V4));
    let mut world = World::new(0)
        .with_client(client)
        .with_element(nat(InvalidPolicy::Drop))
        .with_element(lossy_link(0, 0))
        .with_server(server);
    conversation.run(&mut world, HOUR)?;
    world.run_until_quiet(HOUR)?;
    world.with_client_mut(0, |host, _| *host = second_client);
    world.with_server_mut(0, |host, _| *host = second_server);
    conversation.run(&mut world, HOUR)
}

/// Adds an experimental option (RFC 6994) to each segment from the client.
fn experimenter() -> Tamper {
    Tamper::new(|port, packet, _| {
        let marked = TcpPacket::parse(&packet).ok().and_then(|segment| {
            let mut options = OptionsBuf::from_bytes(segment.options_bytes()).ok()?;
            options.push_experiment(0x7464, &[1, 2, 3, 4]).ok()?;
            let edit = Edit {
                options: Some(options.as_slice()),
                ..Edit::default()
            };
            (port == Port::Left)
                .then(|| segment.rebuilt(&edit).ok())
                .flatten()
        });
        vec![(port.opposite(), marked.unwrap_or(packet))]
    })
}

/// Segments with the experiment that reached the server: SYNs and others.
fn experiments(world: &World) -> (usize, usize) {
    let marked: Vec<bool> = world
        .tapped(4)
        .iter()
        .filter_map(|tapped| {
            let segment = TcpPacket::parse(&tapped.packet).ok()?;
            segment
                .options()
                .any(|option| matches!(option, TcpOption::Experiment { .. }))
                .then(|| segment.flags().contains(TcpFlags::SYN))
        })
        .collect();
    let syns = marked.iter().filter(|syn| **syn).count();
    (syns, marked.len() - syns)
}

#[test]
fn endpoints_ignore_an_unknown_option_and_firewalls_do_not() -> Result<(), Failure> {
    let cases = [
        (vec![], true, true),
        (vec![Rule::RemoveUnknownOptions(Reach::Syn)], false, true),
        (vec![Rule::BlankUnknownOptions(Reach::Syn)], false, true),
        (
            vec![Rule::RemoveUnknownOptions(Reach::EverySegment)],
            false,
            false,
        ),
        (
            vec![Rule::BlankUnknownOptions(Reach::EverySegment)],
            false,
            false,
        ),
    ];
    for (rules, syns, others) in cases {
        let conversation = Conversation::handshake();
        let elements = (
            experimenter(),
            Firewall::new(rules.clone()),
            Wire::default(),
        );
        let mut world = world_through(&conversation, Ip::V4, elements, (5, 3));
        conversation.run(&mut world, HOUR)?;
        let (syns_seen, others_seen) = experiments(&world);
        assert_eq!(
            (syns_seen > 0, others_seen > 0),
            (syns, others),
            "{rules:?}"
        );
        let firewall: &Firewall = world.element(2).expect("the firewall is element 2");
        assert_eq!(firewall.counters().changed > 0, !rules.is_empty());
    }
    Ok(())
}

#[test]
fn a_syn_with_an_unknown_option_is_dropped_until_it_comes_without() -> Result<(), Failure> {
    let conversation = Conversation::handshake();
    let rule = Firewall::new([Rule::DropSynWithUnknownOption]);
    let elements = (experimenter(), rule, Wire::default());
    let mut world = world_through(&conversation, Ip::V4, elements, (0, 0));
    world.connect();
    world.run_for(Duration::from_secs(10))?;
    assert_eq!(world.server().counters().received, 0);
    let _ = world.replace(0, Wire::default());
    world.run_until(HOUR, |world| {
        world.client().ending().is_some() && world.server().ending().is_some()
    })?;
    conversation.check(&world)
}

#[test]
fn timestamps_taken_from_the_syn_are_not_used() -> Result<(), Failure> {
    let conversation = Conversation::handshake();
    let rule = Firewall::new([Rule::RemoveTimestampsFromSyn]);
    let elements = (Wire::default(), rule, Wire::default());
    let mut world = world_through(&conversation, Ip::V4, elements, (10, 1));
    conversation.run(&mut world, HOUR)?;
    let used = world.tapped(4).iter().any(|tapped| {
        TcpPacket::parse(&tapped.packet).is_ok_and(|segment| segment.timestamps().is_some())
    });
    assert!(!used);
    Ok(())
}

#[test]
fn reserved_bits_are_cleared_or_cost_the_segment() -> Result<(), Failure> {
    let mark = || {
        Tamper::new(|port, packet, _| {
            let marked = TcpPacket::parse(&packet).ok().and_then(|segment| {
                let edit = Edit {
                    flags: Some(segment.flags().with(TcpFlags(0x400))),
                    ..Edit::default()
                };
                (!segment.payload().is_empty())
                    .then(|| segment.rebuilt(&edit).ok())
                    .flatten()
            });
            vec![(port.opposite(), marked.unwrap_or(packet))]
        })
    };
    let conversation = Conversation::handshake();
    let clear = Firewall::new([Rule::ClearReservedBits]);
    let mut world = world_through(
        &conversation,
        Ip::V4,
        (mark(), clear, Wire::default()),
        (0, 0),
    );
    conversation.run(&mut world, HOUR)?;
    let any = world.tapped(4).iter().any(|tapped| {
        TcpPacket::parse(&tapped.packet)
            .is_ok_and(|segment| segment.flags().intersects(TcpFlags::RESERVED))
    });
    assert!(!any);

    let drop = Firewall::new([Rule::DropReservedBits]);
    let mut world = world_through(
        &conversation,
        Ip::V4,
        (mark(), drop, Wire::default()),
        (0, 0),
    );
    world.connect();
    world.run_for(Duration::from_secs(30))?;
    assert_eq!(world.server().received().len(), 0);
    Ok(())
}

#[test]
fn rewritten_isns_are_consistent() -> Result<(), Failure> {
    let conversation = Conversation::bulk(30_000, 30_000);
    let rule = Firewall::new([Rule::RewriteIsn {
        client: 0x8000_1234,
        server: 99,
    }]);
    let elements = (Wire::default(), rule, nat(InvalidPolicy::Drop));
    let mut world = world_through(&conversation, Ip::V4, elements, (10, 1));
    conversation.run(&mut world, HOUR)?;
    let first_seq = |hop: usize| {
        let syn = world
            .tapped(hop)
            .first()
            .map(|tapped| tapped.packet.clone());
        syn.and_then(|packet| TcpPacket::parse(&packet).ok().map(|segment| segment.seq()))
    };
    let (before, after) = (first_seq(0), first_seq(4));
    assert_eq!(before.map(|seq| seq.wrapping_add(0x8000_1234)), after);
    Ok(())
}

#[test]
fn a_splitting_pep_carries_bytes_and_nothing_else() -> Result<(), Failure> {
    for (loss, seed) in [(0, 0), (10, 1), (20, 2)] {
        let conversation = Conversation::bulk(1_000, 60_000);
        let elements = (experimenter(), SplittingPep::new(), Wire::default());
        let mut world = world_through(&conversation, Ip::V4, elements, (loss, seed));
        conversation.run(&mut world, HOUR)?;
        assert_eq!(experiments(&world), (0, 0));
        let pep: &SplittingPep = world.element(2).expect("the PEP is element 2");
        assert_eq!((pep.connections(), pep.passed_by()), (1, 0));
    }
    Ok(())
}

#[test]
fn an_element_that_is_stopped_goes_on_where_it_was() -> Result<(), Failure> {
    let conversation = Conversation::handshake();
    for overflow in [Overflow::Drop, Overflow::Bypass] {
        let elements = (Wire::default(), nat(InvalidPolicy::Drop), Wire::default());
        let mut world = world_through(&conversation, Ip::V6, elements, (0, 0));
        world.connect();
        world.run_for(Duration::from_millis(120))?;
        world.stop(2, 1, overflow);
        world.run_for(Duration::from_secs(5))?;
        let gone_on = !world.server().received().is_empty();
        assert_eq!(gone_on, overflow == Overflow::Bypass);
        world.resume(2);
        world.run_until(HOUR, |world| {
            world.client().ending().is_some() && world.server().ending().is_some()
        })?;
        conversation.check(&world)?;
    }
    Ok(())
}

#[test]
fn an_element_that_dies_leaves_a_hole_or_a_wire() -> Result<(), Failure> {
    let conversation = Conversation::handshake();
    let elements = (Wire::default(), Firewall::new([]), Wire::default());
    let mut world = world_through(&conversation, Ip::V4, elements, (0, 0));
    world.connect();
    world.run_for(Duration::from_millis(150))?;
    let dead = world.replace(2, BlackHole::default());
    drop(dead);
    world.run_for(Duration::from_secs(3))?;
    let hole: &BlackHole = world.element(2).expect("the hole is element 2");
    assert!(hole.swallowed() > 0);
    let _ = world.remove(2);
    world.run_until(HOUR, |world| {
        world.client().ending().is_some() && world.server().ending().is_some()
    })?;
    conversation.check(&world)
}

/// An honest conversation through a middlebox, with and without loss on both sides of it.
fn honest_through<E: Element>(make: impl Fn() -> E) -> Result<(), Failure> {
    let conversations = [
        Conversation::handshake(),
        Conversation::bulk(40_000, 120_000),
    ];
    for (ip, (loss, seed)) in [(Ip::V4, (0, 0)), (Ip::V6, (5, 1)), (Ip::V4, (10, 2))] {
        for conversation in &conversations {
            let elements = (Wire::default(), make(), lossy_link(loss, seed + 9));
            let mut world = world_through(conversation, ip, elements, (loss, seed));
            conversation.run(&mut world, HOUR)?;
        }
    }
    Ok(())
}

#[test]
fn honest_tcp_passes_all_that_look_into_the_stream() -> Result<(), Failure> {
    let second = Duration::from_secs(1);
    honest_through(|| ClockFirewall::new(u32::MAX - 500))?;
    honest_through(Normaliser::new)?;
    honest_through(|| Resegmenter::new(500, Duration::from_millis(5)))?;
    honest_through(|| ReorderHolder::new(second))
}

#[test]
fn a_handshake_passes_a_device_that_acknowledges_by_itself() -> Result<(), Failure> {
    let conversation = Conversation::handshake();
    for (loss, seed) in [(0, 0), (5, 1), (10, 2)] {
        let device = EarlyAcker::new(Duration::from_secs(1));
        let elements = (Wire::default(), device, lossy_link(loss, seed + 9));
        let mut world = world_through(&conversation, Ip::V4, elements, (loss, seed));
        conversation.run(&mut world, HOUR)?;
        let device: &EarlyAcker = world.element(2).expect("the device is element 2");
        assert!(device.acknowledged() > 0);
    }
    Ok(())
}

#[test]
fn a_host_that_repeats_nothing_passes_an_overlap_dropper() -> Result<(), Failure> {
    let conversation = Conversation::handshake();
    let elements = (Wire::default(), OverlapDropper::new(), Wire::default());
    let mut world = world_through(&conversation, Ip::V4, elements, (0, 0));
    conversation.run(&mut world, HOUR)?;
    let device: &OverlapDropper = world.element(2).expect("the device is element 2");
    assert_eq!(device.dropped(), 0, "nothing overlaps without loss");
    Ok(())
}
