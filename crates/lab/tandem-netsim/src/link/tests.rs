//! The link's arithmetic, to the microsecond, and what it counts.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use tandem_wire::clock::Instant;

use super::*;
use crate::layout::{Layout, internet_checksum, put_be16};
use crate::{BitRate, NetsimError, Probability};

const HEADERS: usize = 40;

/// An IPv4 TCP packet of `length` bytes with port 443 on one side and right
/// checksums; `mark` tells packets apart.
fn packet(length: usize, mark: u8) -> Vec<u8> {
    assert!(length >= HEADERS);
    let mut bytes = vec![mark; length];
    bytes[..HEADERS].fill(0);
    bytes[0] = 0x45;
    put_be16(&mut bytes, 2, length as u16);
    put_be16(&mut bytes, 6, 0x4000);
    bytes[8] = 64;
    bytes[9] = 6;
    bytes[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    put_be16(&mut bytes, 20, 50_000);
    put_be16(&mut bytes, 22, 443);
    bytes[32] = 0x50;
    let ip = internet_checksum(&[&bytes[..20]]);
    put_be16(&mut bytes, 10, ip);
    let tcp = tcp_checksum(&bytes);
    put_be16(&mut bytes, 36, tcp);
    bytes
}

fn tcp_checksum(bytes: &[u8]) -> u16 {
    let length = (bytes.len() - 20) as u16;
    internet_checksum(&[&bytes[12..20], &[0, 6], &length.to_be_bytes(), &bytes[20..]])
}

fn rate(bps: u64) -> Option<BitRate> {
    BitRate::from_bits_per_second(bps)
}

fn micros(at: u64) -> Instant {
    Instant::from_micros(at)
}

fn offer(link: &mut Link, direction: Direction, packet: Vec<u8>, at: u64) {
    link.handle_input(Input { direction, packet }, micros(at));
}

/// Runs the link from timeout to timeout; each output with its instant.
fn run(link: &mut Link) -> Vec<(u64, Output)> {
    let mut out = Vec::new();
    let mut now = 0;
    loop {
        while let Some(output) = link.poll_output() {
            out.push((now, output));
        }
        let Some((at, _)) = link.poll_timeout() else {
            return out;
        };
        now = at.as_micros();
        link.handle_timeout(at);
    }
}

fn arrivals(link: &mut Link) -> Vec<u64> {
    run(link).into_iter().map(|(at, _)| at).collect()
}

#[test]
fn a_packet_takes_its_serialisation_and_the_delay() {
    let config = LinkConfig::new(rate(2_400), rate(2_400), Duration::from_millis(400));
    let mut link = Link::new(config, 1, Instant::ZERO);
    offer(&mut link, Direction::Up, packet(300, 1), 7);
    assert_eq!(arrivals(&mut link), [7 + 1_000_000 + 400_000]);
}

#[test]
fn a_queue_is_sent_without_a_gap_and_in_order() {
    // 1,000 bytes at 97,877 bit/s: 81,735 + 34905/97877 us each.
    let config = LinkConfig::new(rate(97_877), None, Duration::from_millis(90));
    let mut link = Link::new(config, 1, Instant::ZERO);
    for mark in 0..50 {
        offer(&mut link, Direction::Up, packet(1_000, mark), 0);
    }
    let out = run(&mut link);
    for (n, (at, output)) in out.iter().enumerate() {
        let bits = (n as u64 + 1) * 8_000 * 1_000_000;
        assert_eq!(*at, bits.div_ceil(97_877) + 90_000, "packet {n}");
        assert_eq!(usize::from(output.packet[100]), n);
    }
    assert_eq!(out.len(), 50);
}

#[test]
fn the_directions_do_not_share_the_line() {
    let config = LinkConfig::new(rate(2_400), rate(256_000), Duration::from_millis(500));
    let mut link = Link::new(config, 1, Instant::ZERO);
    offer(&mut link, Direction::Up, packet(300, 1), 0);
    offer(&mut link, Direction::Down, packet(320, 2), 0);
    let out: Vec<_> = run(&mut link)
        .into_iter()
        .map(|(at, output)| (at, output.direction))
        .collect();
    assert_eq!(
        out,
        [(510_000, Direction::Down), (1_500_000, Direction::Up)]
    );
}

#[test]
fn a_late_caller_changes_no_arithmetic() {
    let config = LinkConfig::new(rate(2_400), None, Duration::from_millis(400));
    let mut link = Link::new(config, 1, Instant::ZERO);
    for mark in 0..3 {
        offer(&mut link, Direction::Up, packet(300, mark), 0);
    }
    // Nobody called between 0 and 2.5 s: two packets were sent, the third is half out.
    offer(&mut link, Direction::Up, packet(300, 3), 2_500_000);
    let mut out = Vec::new();
    while link.poll_output().is_some() {
        out.push(2_500_000);
    }
    out.extend(arrivals(&mut link));
    assert_eq!(out, [2_500_000, 2_500_000, 3_400_000, 4_400_000]);
}

#[test]
fn the_queue_drops_its_tail_and_counts() {
    let config = LinkConfig::new(rate(8_000), None, Duration::ZERO)
        .with_both(|direction| direction.queue_limit = 250);
    let mut link = Link::new(config, 1, Instant::ZERO);
    // The first is on the line, two wait, two do not fit; a small one still does.
    for mark in 0..5 {
        offer(&mut link, Direction::Up, packet(100, mark), 0);
    }
    offer(&mut link, Direction::Up, packet(50, 9), 0);
    assert_eq!(arrivals(&mut link), [100_000, 200_000, 300_000, 350_000]);
    let up = link.counters().up;
    assert_eq!(up.offered_packets, 6);
    assert_eq!(up.dropped_queue, 2);
    assert_eq!((up.packets, up.ip_bytes), (4, 350));
    assert_eq!(up.tls_bytes, 350 - 4 * HEADERS as u64);
    assert_eq!((up.delivered_packets, up.delivered_bytes), (4, 350));
    assert_eq!(up.queue_peak, 250);
    assert_eq!(link.counters().down, DirectionCounters::default());
}

#[test]
fn lost_packets_cost_link_time_and_are_counted_as_carried() {
    let config = LinkConfig::new(rate(8_000), None, Duration::ZERO).with_both(|direction| {
        direction.loss = Loss::Independent(Probability::percent(50));
    });
    let mut link = Link::new(config, 42, Instant::ZERO);
    for mark in 0..200 {
        offer(&mut link, Direction::Up, packet(100, mark), 0);
    }
    let at = arrivals(&mut link);
    let up = link.counters().up;
    assert_eq!(up.packets, 200);
    assert_eq!(up.ip_bytes, 20_000);
    assert_eq!(up.lost + up.delivered_packets, 200);
    assert!(up.lost > 60 && up.lost < 140, "{}", up.lost);
    // Each arrives in its own slot of 100 ms.
    assert!(at.iter().all(|at| at % 100_000 == 0));
}

#[test]
fn same_seed_same_run_and_another_seed_another() {
    let run_with = |seed| {
        let config = LinkConfig::new(rate(64_000), rate(64_000), Duration::from_millis(442))
            .with_both(|direction| {
                direction.loss = Loss::Independent(Probability::percent(20));
                direction.reordering = Reordering {
                    probability: Probability::percent(20),
                    extra_delay: Duration::from_millis(300),
                };
                direction.duplication.probability = Probability::percent(20);
                direction.corruption.probability = Probability::percent(20);
            });
        let mut link = Link::new(config, seed, Instant::ZERO);
        for mark in 0..100 {
            offer(&mut link, Direction::Up, packet(100, mark), 0);
            offer(&mut link, Direction::Down, packet(80, mark), 0);
        }
        (run(&mut link), link.counters())
    };
    assert_eq!(run_with(1), run_with(1));
    assert_ne!(run_with(1).0, run_with(2).0);
}

#[test]
fn reordering_delays_and_duplication_repeats() {
    let config = LinkConfig::default().with_both(|direction| {
        direction.reordering = Reordering {
            probability: Probability::ALWAYS,
            extra_delay: Duration::from_millis(30),
        };
        direction.duplication = Duplication {
            probability: Probability::ALWAYS,
            after: Duration::from_secs(2),
        };
    });
    let mut link = Link::new(config, 1, Instant::ZERO);
    offer(&mut link, Direction::Down, packet(100, 1), 0);
    assert_eq!(arrivals(&mut link), [30_000, 2_030_000]);
    let down = link.counters().down;
    assert_eq!((down.packets, down.delivered_packets), (1, 2));
    assert_eq!((down.duplicated, down.reordered), (1, 1));
}

#[test]
fn corruption_flips_one_bit_beyond_the_ip_header() {
    for (checksum, scope) in [
        (ChecksumAfter::LeftBad, CorruptionScope::BeyondIpHeader),
        (ChecksumAfter::MadeGood, CorruptionScope::BeyondIpHeader),
        (ChecksumAfter::LeftBad, CorruptionScope::TcpPayload),
        (ChecksumAfter::MadeGood, CorruptionScope::TcpPayload),
    ] {
        let config = LinkConfig::default().with_both(|direction| {
            direction.corruption = Corruption {
                probability: Probability::ALWAYS,
                scope,
                checksum,
            };
        });
        let mut link = Link::new(config, 3, Instant::ZERO);
        for mark in 0..200 {
            // Odd lengths, so that the last word is half a word.
            offer(&mut link, Direction::Up, packet(61, mark), 0);
        }
        let out = run(&mut link);
        assert_eq!(link.counters().up.corrupted, 200);
        for (mark, (_, output)) in out.iter().enumerate() {
            let mut expected = packet(61, mark as u8);
            let good = tcp_checksum(&output.packet) == 0;
            assert_eq!(good, checksum == ChecksumAfter::MadeGood);
            if good {
                expected[36..38].copy_from_slice(&output.packet[36..38]);
            }
            let differing: Vec<usize> = (0..61)
                .filter(|at| expected[*at] != output.packet[*at])
                .collect();
            assert_eq!(differing.len(), 1, "{scope:?} {checksum:?}");
            let at = differing[0];
            assert_eq!((expected[at] ^ output.packet[at]).count_ones(), 1);
            let first = match scope {
                CorruptionScope::BeyondIpHeader => 20,
                CorruptionScope::TcpPayload => 40,
            };
            assert!(at >= first);
        }
    }
}

#[test]
fn corruption_without_a_byte_in_scope_does_nothing() {
    let config = LinkConfig::default().with_both(|direction| {
        direction.corruption = Corruption {
            probability: Probability::ALWAYS,
            scope: CorruptionScope::TcpPayload,
            checksum: ChecksumAfter::MadeGood,
        };
    });
    let mut link = Link::new(config, 3, Instant::ZERO);
    let inputs = [packet(40, 0), vec![], vec![0x45], vec![0xff; 50]];
    for input in inputs.clone() {
        offer(&mut link, Direction::Up, input, 0);
    }
    let out: Vec<_> = run(&mut link).into_iter().map(|(_, o)| o.packet).collect();
    assert_eq!(out, inputs);
    assert_eq!(link.counters().up.corrupted, 0);
}

#[test]
fn a_packet_over_the_mtu_is_dropped_and_its_sender_told() {
    let router = Ipv4Addr::new(192, 0, 2, 1);
    let config = LinkConfig::new(rate(8_000), rate(8_000), Duration::ZERO).with_both(|direction| {
        direction.mtu = 100;
        direction.oversize = Oversize::TellSender {
            v4: router,
            v6: Ipv6Addr::LOCALHOST,
        };
    });
    let mut link = Link::new(config, 1, Instant::ZERO);
    offer(&mut link, Direction::Up, packet(101, 7), 5);
    let out = run(&mut link);
    assert_eq!(out.len(), 1);
    let (at, output) = &out[0];
    assert_eq!((*at, output.direction), (0, Direction::Down));
    let icmp = &output.packet;
    assert_eq!(icmp.len(), 20 + 8 + 101);
    assert_eq!(internet_checksum(&[&icmp[..20]]), 0);
    assert_eq!(internet_checksum(&[&icmp[20..]]), 0);
    assert_eq!(icmp[12..16], router.octets());
    assert_eq!(icmp[16..20], [10, 0, 0, 1]);
    assert_eq!(icmp[20..22], [3, 4]);
    assert_eq!(icmp[26..28], [0, 100]);
    assert_eq!(icmp[28..], packet(101, 7));
    let up = link.counters().up;
    assert_eq!((up.dropped_oversize, up.icmp_sent, up.packets), (1, 1, 0));
    assert_eq!(link.counters().down, DirectionCounters::default());
}

#[test]
fn an_ipv6_packet_over_the_mtu_gets_packet_too_big() {
    let mut packet = vec![0xaa; 2_000];
    packet[..40].fill(0);
    packet[0] = 0x60;
    put_be16(&mut packet, 4, 1_960);
    packet[6] = 6;
    packet[8] = 0xfd;
    packet[23] = 1;
    packet[24] = 0xfd;
    let router = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9);
    let config = LinkConfig::default().with_both(|direction| {
        direction.oversize = Oversize::TellSender {
            v4: Ipv4Addr::LOCALHOST,
            v6: router,
        };
    });
    let mut link = Link::new(config, 1, Instant::ZERO);
    offer(&mut link, Direction::Down, packet.clone(), 0);
    // ICMPv6 itself is never answered.
    let mut icmpv6 = packet.clone();
    icmpv6[6] = 58;
    offer(&mut link, Direction::Down, icmpv6, 0);
    let out = run(&mut link);
    assert_eq!(out.len(), 1);
    let icmp = &out[0].1.packet;
    assert_eq!(out[0].1.direction, Direction::Up);
    assert_eq!(icmp.len(), 1_280);
    let layout = Layout::of(icmp);
    assert_eq!(layout.map(|layout| layout.protocol), Some(58));
    assert_eq!(icmp[8..24], router.octets());
    assert_eq!(icmp[24..40], packet[8..24]);
    assert_eq!(icmp[40..42], [2, 0]);
    assert_eq!(icmp[44..48], [0, 0, 0x05, 0xdc]);
    let length = (icmp.len() - 40) as u16;
    let sum = internet_checksum(&[&icmp[8..40], &length.to_be_bytes(), &[0, 58], &icmp[40..]]);
    assert_eq!(sum, 0);
    assert_eq!(link.counters().down.dropped_oversize, 2);
    assert_eq!(link.counters().down.icmp_sent, 1);
}

#[test]
fn a_held_outage_delays_and_a_losing_one_loses() -> Result<(), NetsimError> {
    let second = Duration::from_secs(1);
    for effect in [OutageEffect::Hold, OutageEffect::Lose] {
        let config = LinkConfig::new(rate(8_000), None, Duration::ZERO).with_both(|direction| {
            direction.outages = vec![Outage::once(2 * second, 3 * second, effect)];
        });
        let mut link = Link::new(config, 1, micros(1_000_000));
        // The link starts at 1 s, so it is down from 3 s to 6 s. Each takes a second.
        for mark in 0..4 {
            offer(&mut link, Direction::Up, packet(1_000, mark), 1_500_000);
        }
        let at = arrivals(&mut link);
        let up = link.counters().up;
        match effect {
            // The second has started when the outage does, and is finished.
            OutageEffect::Hold => {
                assert_eq!(at, [2_500_000, 3_500_000, 7_000_000, 8_000_000]);
                assert_eq!(up.lost_in_outage, 0);
            }
            OutageEffect::Lose => {
                assert_eq!(at, [2_500_000]);
                assert_eq!(up.lost_in_outage, 3);
                assert_eq!(up.packets, 4);
            }
        }
    }
    Ok(())
}

#[test]
fn a_new_rate_holds_from_the_next_packet_on() {
    let config = LinkConfig::new(rate(8_000), None, Duration::ZERO);
    let mut link = Link::new(config.clone(), 1, Instant::ZERO);
    for mark in 0..3 {
        offer(&mut link, Direction::Up, packet(1_000, mark), 0);
    }
    let mut faster = config.up;
    faster.rate = rate(80_000);
    link.reconfigure(Direction::Up, faster, micros(500_000));
    assert_eq!(arrivals(&mut link), [1_000_000, 1_100_000, 1_200_000]);
}

#[test]
fn lifting_an_outage_lets_what_it_held_go() {
    let mut config = LinkConfig::new(rate(8_000), None, Duration::ZERO);
    config.up.outages = vec![Outage::once(
        Duration::ZERO,
        Duration::from_secs(3_600),
        OutageEffect::Hold,
    )];
    let mut link = Link::new(config.clone(), 1, Instant::ZERO);
    offer(&mut link, Direction::Up, packet(1_000, 0), 0);
    offer(&mut link, Direction::Up, packet(1_000, 1), 0);
    let mut lifted = config.up;
    lifted.outages.clear();
    link.reconfigure(Direction::Up, lifted, micros(10_000_000));
    assert_eq!(arrivals(&mut link), [11_000_000, 12_000_000]);
}

#[test]
fn a_spurious_timeout_is_harmless() {
    let config = LinkConfig::new(rate(2_400), None, Duration::from_millis(400));
    let mut link = Link::new(config, 1, Instant::ZERO);
    link.handle_timeout(micros(3));
    offer(&mut link, Direction::Up, packet(300, 1), 10);
    for at in [0, 10, 11, 500_000, 1_000_009] {
        link.handle_timeout(micros(at));
        assert_eq!(link.poll_output(), None);
        assert_eq!(
            link.poll_timeout(),
            Some((micros(1_000_010), Wakeup::TransmissionEnds))
        );
    }
    assert_eq!(arrivals(&mut link), [1_400_010]);
    assert_eq!(link.poll_timeout(), None);
}

#[test]
fn default_queue_holds_four_initial_windows_or_a_round_trip() {
    assert_eq!(
        default_queue(rate(2_400), Duration::from_millis(400)),
        64 * 1024
    );
    assert_eq!(default_queue(None, Duration::from_secs(9)), 64 * 1024);
    // 18.13 Mbit/s over 630 ms.
    assert_eq!(
        default_queue(rate(18_130_000), Duration::from_millis(315)),
        1_427_737
    );
}
