//! Captures that are cut, broken, partial or too much: what can be read is, what cannot be is told,
//! nothing panics.

use std::io::Write as _;
use std::num::NonZeroU64;

use crate::support::{Full, LINK_RAW, Talk, Trace, capture_of, read, read_with, record};
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use tandem_estimate::{BitRate, Damage, DamageClass, Limits, Options, TraceError, estimate};

const SIZES: [usize; 2] = [1000, 900];

fn full() -> Full {
    Full::new(Some("www.example.com"), 1, &SIZES)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory does not fail");
    encoder.finish().expect("memory does not fail")
}

fn sample() -> Vec<u8> {
    let mut trace = Trace::new(LINK_RAW);
    trace.frames(&full().talk(Talk::open(1)).packets);
    trace.frames(&full().talk(Talk::open(2)).packets);
    trace.bytes
}

/// Ends of the records in a capture.
fn boundaries(capture: &[u8]) -> Vec<usize> {
    let mut ends = vec![24];
    let mut at = 24;
    while let Some(len) = capture.get(at + 8..at + 12) {
        at += 16 + u32::from_le_bytes(len.try_into().expect("four bytes")) as usize;
        ends.push(at);
    }
    ends
}

#[test]
fn a_capture_cut_at_every_offset_gives_what_it_holds_and_says_that_it_is_cut() {
    let mut talk = Talk::open(1);
    talk.client(&full().hello);
    talk.server(&full().server);
    talk.client(&full().client);
    talk.server(&full().finished);
    let mut trace = Trace::new(LINK_RAW);
    trace.frames(&talk.packets);
    let sample = trace.bytes;
    let boundaries = boundaries(&sample);
    let mut before = 0;
    for len in 0..sample.len() {
        if len < 4 {
            assert!(estimate(&sample[..len], &Options::default(), &mut |_| {}).is_err());
            continue;
        }
        let outcome = read(&sample[..len]);
        if boundaries.contains(&len) {
            assert_eq!(outcome.damage, [], "cut between records at {len}");
        } else {
            assert!(
                matches!(outcome.damage[..], [Damage::Cut { .. }]),
                "cut at {len}: {:?}",
                outcome.damage
            );
        }
        let figure = outcome.report.handshake_bytes;
        assert!(
            figure >= before,
            "more of the capture, less found, at {len}"
        );
        before = figure;
    }
    assert_eq!(read(&sample).report.handshake_bytes, full().bytes());
}

#[test]
fn a_compressed_capture_is_the_same_capture_and_its_end_may_be_missing() {
    let sample = sample();
    let whole = read(&sample).report;
    let packed = gzip(&sample);
    assert_eq!(read(&packed).report, whole);
    // Members may follow each other.
    let (first, second) = sample.split_at(777);
    assert_eq!(read(&[gzip(first), gzip(second)].concat()).report, whole);

    let outcome = read(&packed[..packed.len() / 2]);
    assert!(
        outcome
            .damage
            .iter()
            .any(|damage| matches!(damage, Damage::Compression { .. })),
        "{:?}",
        outcome.damage
    );
    assert!(outcome.report.capture.frames > 0);
    let mut flipped = packed;
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0xff;
    assert!(!read(&flipped).damage.is_empty());
}

#[test]
fn what_is_no_capture_is_an_error_with_a_name() {
    let error = |bytes: &[u8]| estimate(bytes, &Options::default(), &mut |_| {}).err();
    assert!(matches!(error(b""), Some(TraceError::Empty)));
    assert!(matches!(
        error(b"Hello, world"),
        Some(TraceError::NotACapture { .. })
    ));
    assert!(matches!(
        error(b"\x28\xb5\x2f\xfd...."),
        Some(TraceError::OtherFormat { .. })
    ));
    assert!(matches!(
        error(&gzip(b"no capture")),
        Some(TraceError::NotACapture { .. })
    ));
}

#[test]
fn a_garbage_record_costs_itself_only() {
    let packets = full().talk(Talk::open(1)).packets;
    let mut trace = Trace::new(LINK_RAW);
    trace.frames(&packets[..3]);
    let at = trace.bytes.len() as u64;
    trace.bytes.extend([0xff; 99]);
    trace.frames(&packets[3..]);
    let outcome = trace.outcome();
    assert_eq!(outcome.damage, [Damage::Garbage { at, skipped: 99 }]);
    assert_eq!(outcome.damage[0].class(), DamageClass::File);
    assert_eq!(outcome.report.handshake_bytes, full().bytes());
}

#[test]
fn a_reader_that_fails_half_way_is_damage_and_not_an_error() {
    struct Failing<'a>(&'a [u8]);
    impl std::io::Read for Failing<'_> {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            match self.0.read(buf) {
                Ok(0) => Err(std::io::Error::other("the disk is gone")),
                other => other,
            }
        }
    }
    let sample = sample();
    let outcome =
        estimate(Failing(&sample[..2000]), &Options::default(), &mut |_| {}).expect("a capture");
    assert!(
        outcome
            .damage
            .iter()
            .any(|damage| matches!(damage, Damage::ReadFailed { .. })),
        "{:?}",
        outcome.damage
    );
    assert!(outcome.report.capture.frames > 0);
    assert!(matches!(
        estimate(Failing(&[]), &Options::default(), &mut |_| {}),
        Err(TraceError::Read(_))
    ));
}

#[test]
fn packets_cut_by_the_snap_length_give_their_beginnings() {
    let packets = full().talk(Talk::open(1)).packets;
    let mut trace = Trace::new(LINK_RAW);
    for packet in &packets {
        trace.cut_frame(packet, 300);
    }
    let outcome = trace.outcome();
    assert_eq!(outcome.report.handshakes, 1);
    assert_eq!(outcome.report.sites[0].site, "www.example.com");
    assert_eq!(outcome.report.certificate_bytes, 0);
    assert!(outcome.report.handshake_bytes > 0);
    let cut = packets.iter().filter(|packet| packet.len() > 300).count() as u64;
    assert_eq!(
        outcome.damage,
        [
            Damage::SnapLength { packets: cut },
            Damage::Gaps { connections: 1 }
        ]
    );
}

#[test]
fn missing_packets_are_gaps() {
    let mut packets = full().talk(Talk::open(1)).packets;
    // The first of the server's flight.
    packets.remove(4);
    let outcome = capture_of(&packets);
    assert_eq!(outcome.damage, [Damage::Gaps { connections: 1 }]);
    assert_eq!(outcome.report.handshakes, 1);
    assert_eq!(outcome.report.completed_handshakes, 0);
}

#[test]
fn a_hole_wider_than_what_is_held_is_a_gap_too() {
    let mut talk = Talk::open(1);
    talk.client(&full().hello);
    talk.server(&full().server[..100]);
    talk.server_next = talk.server_next.wrapping_add(3_000_000);
    talk.server(&[1; 100]);
    talk.client(&full().client);
    let outcome = capture_of(&talk.packets);
    assert_eq!(outcome.damage, [Damage::Gaps { connections: 1 }]);
    assert_eq!(outcome.report.handshakes, 1);
}

#[test]
fn a_range_sent_twice_with_different_bytes_ends_the_reading() {
    let mut talk = Talk::open(1);
    talk.client(&full().hello[..20]);
    talk.client_next = talk.client_next.wrapping_sub(10);
    talk.client(&[0xee; 30]);
    let outcome = capture_of(&talk.packets);
    assert_eq!(outcome.damage, [Damage::Conflicts { connections: 1 }]);
}

#[test]
fn frames_of_every_link_are_read_or_named() {
    let packets = full().talk(Talk::open(1)).packets;
    let ethernet = |ethertype: &[u8]| [&[2; 12][..], ethertype].concat();
    let table: [(u32, Vec<u8>); 6] = [
        (1, ethernet(&[8, 0])),
        (1, ethernet(&[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8, 8, 0])),
        (0, vec![2, 0, 0, 0]),
        (113, [&[0; 14][..], &[8, 0]].concat()),
        (276, [&[8, 0][..], &[0; 18]].concat()),
        (228, Vec::new()),
    ];
    for (link_type, header) in table {
        let mut trace = Trace::new(link_type);
        for packet in &packets {
            // Short Ethernet frames are padded.
            let mut frame = [&header[..], packet].concat();
            frame.resize(frame.len().max(60), 0);
            trace.frame(&frame);
        }
        let outcome = trace.outcome();
        assert_eq!(outcome.damage, [], "{link_type}");
        assert_eq!(
            outcome.report.handshake_bytes,
            full().bytes(),
            "{link_type}"
        );
        let ip_bytes: usize = packets.iter().map(Vec::len).sum();
        assert_eq!(outcome.report.capture.ip_bytes, ip_bytes as u64);
    }
    let mut trace = Trace::new(105);
    trace.frames(&packets);
    let outcome = trace.outcome();
    let count = packets.len() as u64;
    assert_eq!(
        outcome.damage,
        [Damage::LinkType {
            number: 105,
            name: "IEEE802_11",
            packets: count
        }]
    );
    assert_eq!(outcome.damage[0].class(), DamageClass::Packets);
}

#[test]
fn fragments_and_malformed_packets_are_counted() {
    let packet = full().talk(Talk::open(1)).packets.remove(3);
    let mut fragment = packet.clone();
    fragment[6] = 0x20;
    let mut malformed = packet.clone();
    malformed[32] = 0x10;
    let mut udp = packet;
    udp[9] = 17;
    let outcome = capture_of(&[fragment, malformed, udp]);
    assert_eq!(
        outcome.damage,
        [
            Damage::Fragments { packets: 1 },
            Damage::Malformed { packets: 1 }
        ]
    );
    assert_eq!(outcome.report.capture.frames, 3);
    assert_eq!(outcome.report.capture.tcp_packets, 0);
}

#[test]
fn ten_thousand_connections_that_stop_after_their_first_byte_leave_the_others_unharmed() {
    let trace_limits = tandem_trace::Limits {
        connections: 100,
        ..tandem_trace::Limits::default()
    };
    let limits = Limits {
        trace: trace_limits,
        ..Limits::default()
    };
    let mut trace = Trace::new(LINK_RAW);
    let victim = full().talk(Talk::open(60_000));
    trace.frames(&victim.packets[..4]);
    for port in 1..=10_000 {
        let mut talk = Talk::open(port);
        talk.client(&[22]);
        trace.frames(&talk.packets);
        if port == 50 {
            trace.frames(&victim.packets[4..]);
        }
    }
    let outcome = read_with(
        &trace.bytes,
        &Options {
            link_rate: None,
            limits,
        },
    );
    assert_eq!(outcome.report.capture.connections, 10_001);
    assert_eq!(
        (
            outcome.report.handshakes,
            outcome.report.completed_handshakes
        ),
        (1, 1)
    );
    assert_eq!(
        outcome.damage,
        [Damage::GivenUp {
            connections: 10_000 - 100
        }]
    );
    assert_eq!(outcome.damage[0].class(), DamageClass::Limits);
}

#[test]
fn finished_connections_make_room_first() {
    let trace_limits = tandem_trace::Limits {
        connections: 3,
        ..tandem_trace::Limits::default()
    };
    let limits = Limits {
        trace: trace_limits,
        ..Limits::default()
    };
    let mut trace = Trace::new(LINK_RAW);
    let slow = full().talk(Talk::open(60_000));
    trace.frames(&slow.packets[..4]);
    for port in 1..=100 {
        trace.frames(&full().talk(Talk::open(port)).packets);
    }
    trace.frames(&slow.packets[4..]);
    let outcome = read_with(
        &trace.bytes,
        &Options {
            link_rate: None,
            limits,
        },
    );
    assert_eq!(outcome.damage, []);
    assert_eq!(outcome.report.completed_handshakes, 101);
}

#[test]
fn bytes_held_are_bounded_for_one_and_for_all() {
    // A message that never ends, in many connections.
    let endless = [&[22, 3, 3, 0x40, 0][..], &[1, 0, 0xff, 0xff], &[0; 16_380]].concat();
    let trace_limits = tandem_trace::Limits {
        direction_bytes: 32_768,
        total_bytes: 100_000,
        ..tandem_trace::Limits::default()
    };
    let limits = Limits {
        trace: trace_limits,
        ..Limits::default()
    };
    let mut trace = Trace::new(LINK_RAW);
    for port in 1..=50 {
        let mut talk = Talk::open(port);
        talk.client(&endless);
        trace.frames(&talk.packets);
    }
    let outcome = read_with(
        &trace.bytes,
        &Options {
            link_rate: None,
            limits,
        },
    );
    assert_eq!(outcome.report.handshakes, 50);
    let too_large = outcome.damage.iter().find_map(|damage| match damage {
        Damage::TooLarge { connections } => Some(*connections),
        _ => None,
    });
    assert_eq!(too_large, Some(50), "{:?}", outcome.damage);

    // A hole at the start of each of many streams: what follows it is held, up to the limit.
    let mut trace = Trace::new(LINK_RAW);
    for port in 1..=50 {
        let mut talk = Talk::open(port);
        talk.client_next = talk.client_next.wrapping_add(1);
        talk.client(&[7; 20_000]);
        trace.frames(&talk.packets);
    }
    let outcome = read_with(
        &trace.bytes,
        &Options {
            link_rate: None,
            limits,
        },
    );
    assert!(
        matches!(outcome.damage[..], [Damage::GivenUp { connections: 45.. }]),
        "{:?}",
        outcome.damage
    );
}

#[test]
fn sites_and_chains_beyond_the_limits_are_lumped_and_told() {
    let limits = Limits {
        sites: 2,
        chains: 2,
        ..Limits::default()
    };
    let mut trace = Trace::new(LINK_RAW);
    for round in 0..2u16 {
        for site in 0..5u8 {
            // No issuers: these are known by whoever showed them.
            let full = Full::new(Some(&format!("s{site}.example")), 1, &SIZES[..1]);
            trace.frames(
                &full
                    .talk(Talk::open(u16::from(site) + 10 * round + 1))
                    .packets,
            );
        }
    }
    let outcome = read_with(
        &trace.bytes,
        &Options {
            link_rate: None,
            limits,
        },
    );
    assert_eq!(
        outcome.damage,
        [
            Damage::SitesLumped { handshakes: 6 },
            Damage::StoreFull { chains: 6 }
        ]
    );
    let rows: Vec<_> = outcome
        .report
        .sites
        .iter()
        .map(|row| (row.site.as_str(), row.share.handshakes))
        .collect();
    assert_eq!(
        rows,
        [
            ("s0.example", 2),
            ("s1.example", 2),
            ("(all other sites)", 6)
        ]
    );
    // The store is the proxies' own, whose limits are others.
    assert!(outcome.report.saved_cold_bytes * 2 == outcome.report.saved_warm_bytes);
}

#[test]
fn progress_rises_to_the_files_size() {
    let mut trace = Trace::new(LINK_RAW);
    let mut talk = Talk::open(1);
    talk.server(&vec![b'x'; 5_000_000]);
    trace.frames(&talk.packets);
    for bytes in [trace.bytes.clone(), gzip(&trace.bytes)] {
        let mut told = Vec::new();
        estimate(&bytes[..], &Options::default(), &mut |bytes| {
            told.push(bytes)
        })
        .expect("a capture");
        assert!(told.is_sorted());
        assert_eq!(told.last(), Some(&(bytes.len() as u64)));
        assert!(
            told.len() as u64 >= bytes.len() as u64 / (1 << 20),
            "{told:?}"
        );
    }
}

#[test]
fn seconds_are_told_for_a_link() {
    let options = Options {
        link_rate: NonZeroU64::new(8).map(BitRate::from),
        ..Options::default()
    };
    let outcome = read_with(&sample(), &options);
    let link = outcome.report.link.expect("a rate was given");
    assert!((link.handshake_seconds - outcome.report.handshake_bytes as f64).abs() < 1e-6);
    assert!((link.saved_warm_seconds - outcome.report.net_saved_warm_bytes as f64).abs() < 1e-6);
}

#[test]
fn a_flood_of_empty_records_and_tiny_messages_is_bounded_work() {
    let mut talk = Talk::open(1);
    talk.client(&full().hello);
    talk.server(&record(22, &[0; 16_384]).repeat(8));
    talk.server(&record(22, &[]).repeat(20_000));
    let outcome = capture_of(&talk.packets);
    assert_eq!(outcome.report.handshakes, 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn random_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        tandem_estimate::fuzzing::estimate_capture(&bytes);
    }

    #[test]
    fn random_bytes_behind_a_good_header_do_no_harm(
        link_type in prop_oneof![Just(1u32), Just(101), Just(0), Just(113), Just(276), Just(9)],
        frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..20),
    ) {
        let mut trace = Trace::new(link_type);
        trace.frames(&frames);
        tandem_estimate::fuzzing::estimate_capture(&trace.bytes);
    }

    #[test]
    fn a_good_capture_with_bytes_changed_does_no_harm(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = sample();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        tandem_estimate::fuzzing::estimate_capture(&bytes);
        let at = cut.index(bytes.len());
        bytes.remove(at);
        tandem_estimate::fuzzing::estimate_capture(&bytes);
    }

    #[test]
    fn random_streams_do_no_harm(
        turns in proptest::collection::vec((any::<bool>(), proptest::collection::vec(any::<u8>(), 1..80)), 1..20),
        real in any::<bool>(),
    ) {
        let mut talk = Talk::open(1);
        if real {
            talk.client(&full().hello);
        }
        for (from_client, bytes) in turns {
            let framed = if real { record(20 + bytes[0] % 5, &bytes) } else { bytes };
            if from_client {
                talk.client(&framed);
            } else {
                talk.server(&framed);
            }
        }
        let mut trace = Trace::new(LINK_RAW);
        trace.frames(&talk.packets);
        tandem_estimate::fuzzing::estimate_capture(&trace.bytes);
    }
}
