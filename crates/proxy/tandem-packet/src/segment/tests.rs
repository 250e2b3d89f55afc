//! Unit and property tests of single segments: options, cuts, timestamps. Not here: whole
//! connections.

//! Options put on segments and taken off without a trace, timestamps found, and segments cut to the
//! link.

use super::*;
use proptest::prelude::*;
use std::net::SocketAddr;
use tandem_wire::{SegmentRepr, Timestamps};

fn packet(options: Vec<u8>, payload: &[u8]) -> Vec<u8> {
    SegmentRepr {
        source: SocketAddr::from(([10, 0, 0, 1], 1)),
        destination: SocketAddr::from(([10, 0, 0, 2], 443)),
        seq: Seq(u32::MAX - 10),
        ack: Seq(7),
        flags: TcpFlags::ACK.with(TcpFlags::PSH),
        window: 77,
        options,
        payload: payload.to_vec(),
        hop_limit: 9,
    }
    .build()
}

fn parse(bytes: &[u8]) -> TcpPacket<'_> {
    TcpPacket::parse(bytes).expect("a segment")
}

fn stamps() -> Vec<u8> {
    vec![1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 6]
}

fn hint(count: usize) -> Vec<u8> {
    use tandem_link::inband::{FlowId, Key, Version, option};
    let flow = FlowId {
        client: Seq(1),
        server: Seq(2),
    };
    option::hint(&Key::NONE, flow, Version::ONE, &vec![[3; 4]; count])
}

#[test]
fn an_option_that_was_put_on_comes_off_without_a_trace() {
    for options in [
        Vec::new(),
        stamps(),
        vec![5, 10, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0],
    ] {
        let bare = packet(options, b"hello");
        for count in [1, 2, 4] {
            let edited =
                with_proxy_option(&parse(&bare), &hint(count), 1_500).expect("there is room");
            let (_, rest) = proxy_option(&parse(&edited)).expect("it is there");
            assert_eq!(with_options(&parse(&edited), rest), Some(bare.clone()));
        }
        assert!(proxy_option(&parse(&bare)).is_none());
    }
}

#[test]
fn an_option_needs_room_in_the_header_and_on_the_link() {
    let full = packet(stamps(), &[0; 1_448]);
    assert_eq!(full.len(), 1_500);
    assert_eq!(with_proxy_option(&parse(&full), &hint(1), 1_500), None);
    assert!(with_proxy_option(&parse(&full), &hint(1), 1_520).is_some());
    let crowded = packet([stamps(), stamps()].concat(), b"x");
    assert_eq!(with_proxy_option(&parse(&crowded), &hint(2), 1_500), None);
    assert_eq!(lone_option(&parse(&crowded), Seq(0), &hint(2)), None);
    let small = packet(stamps(), b"");
    assert!(with_proxy_option(&parse(&small), &hint(2), 68).is_some());
}

#[test]
fn an_option_alone_is_a_pure_acknowledgement_whatever_it_was_made_of() {
    let full = packet(stamps(), &[0; 1_448]);
    let alone = lone_option(&parse(&full), Seq(3), &hint(2)).expect("there is room");
    let alone = parse(&alone);
    assert_eq!(
        (alone.seq(), alone.ack(), alone.window()),
        (Seq(3), Seq(7), 77)
    );
    assert_eq!((alone.flags(), alone.payload()), (TcpFlags::ACK, &b""[..]));
    assert!(proxy_option(&alone).is_some() && alone.checksums_valid());
}

#[test]
fn only_an_option_in_front_and_whole_is_one() {
    let hint = hint(1);
    for options in [
        [&[1, 1, 1, 1], &hint[..]].concat(),
        [&stamps()[..], &hint].concat(),
        [&[254], &hint[1..]].concat(),
        [&[253, 8, 0x54, 0x44, 0x13, 0, 0, 0][..]].concat(),
        vec![253, 4, 0x54, 0x44],
    ] {
        assert!(
            proxy_option(&parse(&packet(options.clone(), b""))).is_none(),
            "{options:x?}"
        );
    }
}

#[test]
fn timestamps_are_found_behind_whatever_stands_before_them() {
    let new = Timestamps {
        value: 70,
        echo: 80,
    };
    for options in [
        stamps(),
        [&[2, 4, 5, 180][..], &stamps()].concat(),
        [&[253, 12, 8, 10, 8, 10, 8, 10, 8, 10, 8, 10][..], &stamps()].concat(),
    ] {
        let bytes = packet(options.clone(), b"");
        let changed = new.within(parse(&bytes).options_bytes());
        assert_eq!(changed.len(), options.len());
        let changed = packet(changed, b"");
        assert_eq!(parse(&changed).timestamps(), Some(new));
    }
    let none = packet(vec![1, 1, 1, 0], b"");
    assert_eq!(new.within(parse(&none).options_bytes()), [1, 1, 1, 0]);
}

#[test]
fn a_packet_longer_than_the_link_allows_is_cut_and_says_the_same() {
    let payload: Vec<u8> = (0..=255u8).cycle().take(20_000).collect();
    let long = packet(stamps(), &payload);
    let pieces = within(&parse(&long), 1_500);
    assert_eq!(pieces.len(), 20_000usize.div_ceil(1_448));
    let mut seq = Seq(u32::MAX - 10);
    let mut together = Vec::new();
    for piece in &pieces {
        let piece = parse(piece);
        assert!(piece.bytes().len() <= 1_500 && piece.checksums_valid());
        assert_eq!(piece.seq(), seq);
        seq = seq.after(piece.payload().len());
        together.extend_from_slice(piece.payload());
    }
    assert_eq!(together, payload);
    assert_eq!(within(&parse(&long), long.len()), [long]);
}

#[test]
fn an_offer_says_what_packet_mode_leaves_alone() {
    let offer = |options: &[u8], payload: &[u8]| {
        let mut options = options.to_vec();
        options.resize(options.len().next_multiple_of(4), 1);
        Offer::of(&parse(&packet(options, payload)))
    };
    let plain = offer(&[&[2, 4, 5, 180][..], &stamps()].concat(), b"");
    assert_eq!(
        (plain.mss, plain.timestamps, plain.foreign),
        (1_460, true, false)
    );
    assert_eq!(offer(&[], b"").mss, 536);
    assert!(!offer(&[], b"").timestamps);
    for foreign in [
        &[19, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..],
        &[29, 4, 1, 1],
        &[30, 4, 0, 0],
        &[34, 2],
        &[34, 10, 1, 2, 3, 4, 5, 6, 7, 8],
        &[2, 4, 0, 87],
    ] {
        assert!(offer(foreign, b"").foreign, "{foreign:x?}");
    }
    assert!(offer(&[], b"early").foreign);
}

proptest! {
    #[test]
    fn pieces_of_a_payload_are_the_payload(
        length in 1usize..9_000, mss in MIN_MSS..3_000, start in any::<u32>(), stamped in any::<bool>(),
    ) {
        let payload: Vec<u8> = (0..length).map(|at| (at * 7) as u8).collect();
        let options = if stamped { stamps() } else { Vec::new() };
        let template = packet(options.clone(), b"x");
        let how = Cut { start: Seq(start), options: &options, mss };
        let pieces = cut(&parse(&template), &payload, how);
        let mut together = Vec::new();
        for (index, piece) in pieces.iter().enumerate() {
            let piece = parse(piece);
            prop_assert!(piece.payload().len() <= mss.saturating_sub(options.len()).max(1));
            prop_assert_eq!(piece.seq(), Seq(start).after(together.len()));
            prop_assert_eq!(piece.flags().contains(TcpFlags::PSH), index + 1 == pieces.len());
            together.extend_from_slice(piece.payload());
        }
        prop_assert_eq!(together, payload);
    }
}

/// The IPv6 packet with a destination options header of this length, which is a multiple of eight.
fn with_destination_options(packet: &[u8], length: usize) -> Vec<u8> {
    let mut header = vec![6, (length / 8 - 1) as u8];
    // PadN (RFC 8200, section 4.2), as many as it takes.
    while header.len() < length {
        let rest = (length - header.len() - 2).min(200);
        header.extend([1, rest as u8]);
        header.resize(header.len() + rest, 0);
    }
    let mut out = packet[..40].to_vec();
    out[6] = 60;
    let payload = (packet.len() - 40 + length) as u16;
    out[4..6].copy_from_slice(&payload.to_be_bytes());
    out.extend(header);
    out.extend(&packet[40..]);
    out
}

#[test]
fn headers_that_leave_no_room_make_no_dust() {
    let plain = SegmentRepr {
        source: "[fd00::1]:1".parse().expect("an address"),
        destination: "[fd00::2]:443".parse().expect("an address"),
        seq: Seq(1),
        ack: Seq(7),
        flags: TcpFlags::ACK,
        window: 77,
        options: stamps(),
        payload: vec![1; 10],
        hop_limit: 9,
    }
    .build();
    for (length, segments) in [(8, 1), (1_304, 9), (1_376, 20), (1_384, 0), (1_424, 0)] {
        let bytes = with_destination_options(&plain, length);
        let template = parse(&bytes);
        let headers = template.header_len() - template.options_bytes().len();
        let how = Cut {
            start: Seq(1),
            options: template.options_bytes(),
            mss: 1_500 - headers,
        };
        let packets = cut(&template, &[9; 1_000], how);
        assert_eq!(packets.len(), segments, "with {length} bytes of options");
        assert!(packets.iter().all(|packet| packet.len() <= 1_500));
    }
}

#[test]
fn timestamps_are_found_where_the_parser_finds_them() {
    // An option of kind 8 and another length comes first.
    let options = vec![8, 4, 1, 2, 8, 10, 0, 0, 0, 5, 0, 0, 0, 6, 1, 1];
    let bytes = packet(options, b"hello");
    let newer = Timestamps { value: 7, echo: 8 };
    let other = newer.within(parse(&bytes).options_bytes());
    assert_eq!(other, [8, 4, 1, 2, 8, 10, 0, 0, 0, 7, 0, 0, 0, 8, 1, 1]);
}

#[test]
fn segments_that_may_be_fragmented_can_be_told_apart() {
    for (dont_fragment, last) in [(false, 0x0001), (true, 0xffff)] {
        let mut template = packet(Vec::new(), b"template");
        template[4..6].copy_from_slice(&[0xff, 0xff]);
        template[6] = if dont_fragment { 0x40 } else { 0 };
        let how = Cut {
            start: Seq(0),
            options: &[],
            mss: 1_000,
        };
        let pieces = cut(&parse(&template), &[9; 2_500], how);
        assert!(pieces.iter().all(|piece| parse(piece).checksums_valid()));
        let identification = pieces
            .last()
            .map(|piece| u16::from_be_bytes([piece[4], piece[5]]));
        assert_eq!(identification, Some(last), "DF {dont_fragment}");
    }
}
