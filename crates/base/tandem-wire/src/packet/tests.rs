//! Packets by hand and at random: parsed, refused, rebuilt.

use super::*;
use proptest::prelude::*;

fn segment(source: &str, destination: &str, payload: &[u8]) -> SegmentRepr {
    SegmentRepr {
        source: source.parse().expect("an address"),
        destination: destination.parse().expect("an address"),
        seq: Seq(0xffff_fffe),
        ack: Seq(77),
        flags: TcpFlags::ACK.with(TcpFlags::PSH),
        window: 4321,
        options: vec![1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 6],
        payload: payload.to_vec(),
        hop_limit: 61,
    }
}

fn v4(payload: &[u8]) -> Vec<u8> {
    segment("192.0.2.1:1234", "198.51.100.2:443", payload).build()
}

fn v6(payload: &[u8]) -> Vec<u8> {
    segment("[2001:db8::1]:1234", "[2001:db8::2]:443", payload).build()
}

/// `packet` (IPv6) with extension headers before its segment.
fn with_extensions(packet: &[u8], first: u8, extensions: &[u8]) -> Vec<u8> {
    let mut out = packet[..40].to_vec();
    out[6] = first;
    out.extend(extensions);
    out.extend(&packet[40..]);
    let len = u16::try_from(out.len() - 40).expect("short");
    out[4..6].copy_from_slice(&len.to_be_bytes());
    out
}

/// `packet` (IPv4) with these IP options, a multiple of 4 bytes.
fn with_v4_options(packet: &[u8], options: &[u8]) -> Vec<u8> {
    let mut out = packet[..20].to_vec();
    out.extend(options);
    out.extend(&packet[20..]);
    out[0] = 0x45 + u8::try_from(options.len() / 4).expect("short");
    let header_len = 20 + options.len();
    ip_finish(&mut out, header_len);
    out
}

fn ip_finish(packet: &mut [u8], header_len: usize) {
    crate::ip::finish_header(crate::ip::IpVersion::V4, packet, header_len).expect("short");
}

#[test]
fn fields_of_both_versions() {
    for (bytes, header_len) in [(v4(b"hello"), 52), (v6(b"hello"), 72)] {
        let packet = TcpPacket::parse(&bytes).expect("a segment");
        assert_eq!(packet.source().port(), 1234);
        assert_eq!(packet.destination().port(), 443);
        assert_eq!(packet.seq(), Seq(0xffff_fffe));
        assert_eq!(packet.ack(), Seq(77));
        assert_eq!(packet.flags(), TcpFlags::ACK.with(TcpFlags::PSH));
        assert_eq!(packet.window(), 4321);
        assert_eq!(packet.urgent_pointer(), 0);
        assert_eq!(packet.timestamps(), Some(Timestamps { value: 5, echo: 6 }));
        assert_eq!(packet.payload(), b"hello");
        assert_eq!(packet.header_len(), header_len);
        assert_eq!(packet.hop_limit(), 61);
        assert_eq!(packet.sequence_len(), 5);
        assert_eq!(packet.end(), Seq(3));
        assert!(packet.checksums_valid());
        let mut urgent = bytes.clone();
        let at = header_len - packet.options_bytes().len() - 2;
        urgent[at..at + 2].copy_from_slice(&[0x12, 0x34]);
        let packet = TcpPacket::parse(&urgent).expect("a segment");
        assert_eq!(packet.urgent_pointer(), 0x1234);
    }
    let bytes = v4(b"");
    assert_eq!(
        TcpPacket::parse(&bytes).expect("a segment").source(),
        "192.0.2.1:1234".parse().expect("an address")
    );
    let bytes = v6(b"");
    assert_eq!(
        TcpPacket::parse(&bytes).expect("a segment").destination(),
        "[2001:db8::2]:443".parse().expect("an address")
    );
}

/// Sums worked out by hand from RFC 1071, section 1, and the header layouts of RFC 791 and RFC
/// 9293.
#[test]
fn checksums_of_a_packet_worked_out_by_hand() {
    let mut repr = segment("10.0.0.1:1", "10.0.0.2:2", b"");
    repr.options.clear();
    repr.seq = Seq(0);
    repr.ack = Seq(0);
    repr.flags = TcpFlags::SYN;
    repr.window = 0;
    repr.hop_limit = 64;
    let bytes = repr.build();
    // IP: 4500 + 0028 + 4000 + 4006 + 0a00 + 0001 + 0a00 + 0002 = d931, of which the complement is
    // 26ce.
    assert_eq!(bytes[10..12], [0x26, 0xce]);
    // TCP: 0a00 + 0001 + 0a00 + 0002 + 0006 + 0014 + 0001 + 0002 + 5002 = 6422, complement 9bdd.
    assert_eq!(bytes[36..38], [0x9b, 0xdd]);
}

#[test]
fn syn_and_fin_take_sequence_numbers() {
    let mut repr = segment("192.0.2.1:1", "192.0.2.2:2", b"abc");
    repr.flags = TcpFlags::SYN.with(TcpFlags::FIN);
    let bytes = repr.build();
    assert_eq!(
        TcpPacket::parse(&bytes).expect("a segment").sequence_len(),
        5
    );
}

#[test]
fn link_layer_padding_is_not_part_of_the_packet() {
    for bytes in [v4(b"x"), v6(b"x")] {
        let mut padded = bytes.clone();
        padded.extend([0xee; 9]);
        let packet = TcpPacket::parse(&padded).expect("a segment");
        assert_eq!(packet.bytes(), bytes);
        assert_eq!(packet.rebuilt(&Edit::default()).expect("fits"), bytes);
    }
}

#[test]
fn every_truncation_is_refused() {
    for bytes in [v4(b"xyz"), v6(b"xyz")] {
        for len in 0..bytes.len() {
            assert_eq!(
                TcpPacket::parse(&bytes[..len]).err(),
                Some(PacketError::Truncated),
                "{len}"
            );
        }
    }
}

#[test]
fn reasons_of_refusal_v4() {
    let good = v4(b"xyz");
    let broken = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        TcpPacket::parse(&bytes).err()
    };
    assert_eq!(broken(&|p| p[0] = 0x55), Some(PacketError::NotIp));
    assert_eq!(broken(&|p| p[0] = 0x44), Some(PacketError::BadHeader));
    assert_eq!(broken(&|p| p[2..4].fill(0)), Some(PacketError::BadHeader));
    assert_eq!(broken(&|p| p[3] = 39), Some(PacketError::BadHeader));
    assert_eq!(broken(&|p| p[6] = 0x20), Some(PacketError::Fragment));
    assert_eq!(broken(&|p| p[7] = 1), Some(PacketError::Fragment));
    assert_eq!(broken(&|p| p[6] = 0x80), None);
    assert_eq!(broken(&|p| p[9] = 17), Some(PacketError::NotTcp));
    assert_eq!(broken(&|p| p[32] = 0x40), Some(PacketError::BadHeader));
    assert_eq!(broken(&|p| p[32] = 0xf0), Some(PacketError::BadHeader));
    assert_eq!(broken(&|p| p[43] = 30), Some(PacketError::BadOptions));
}

#[test]
fn ipv4_options_are_kept_and_source_routes_refused() {
    let bytes = with_v4_options(&v4(b"xyz"), &[148, 4, 0, 0, 1, 1, 1, 0]);
    let packet = TcpPacket::parse(&bytes).expect("a segment");
    assert!(packet.checksums_valid());
    assert_eq!(packet.payload(), b"xyz");
    let edit = Edit {
        payload: Some(b"much longer"),
        ..Edit::default()
    };
    let out = packet.rebuilt(&edit).expect("fits");
    let packet = TcpPacket::parse(&out).expect("a segment");
    assert!(packet.checksums_valid());
    assert_eq!(packet.payload(), b"much longer");
    assert_eq!(out[20..28], bytes[20..28]);

    for options in [[131, 7, 4, 10, 0, 0, 1, 0], [137, 7, 8, 10, 0, 0, 1, 0]] {
        let bytes = with_v4_options(&v4(b"xyz"), &options);
        assert_eq!(
            TcpPacket::parse(&bytes).err(),
            Some(PacketError::SourceRouted)
        );
    }
    for options in [
        [148, 9, 0, 0, 0, 0, 0, 0],
        [148, 1, 0, 0, 0, 0, 0, 0],
        [1, 1, 1, 1, 1, 1, 1, 148],
    ] {
        let bytes = with_v4_options(&v4(b"xyz"), &options);
        assert_eq!(TcpPacket::parse(&bytes).err(), Some(PacketError::BadHeader));
    }
}

#[test]
fn ipv6_extension_headers() {
    let plain = v6(b"xyz");
    // Hop-by-hop (padding), routing with no segments left, destination options (padding), TCP.
    let known = [
        43, 0, 1, 4, 0, 0, 0, 0, 60, 0, 0, 0, 0, 0, 0, 0, 6, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0,
    ];
    let bytes = with_extensions(&plain, 0, &known);
    let packet = TcpPacket::parse(&bytes).expect("a segment");
    assert_eq!(packet.payload(), b"xyz");
    assert!(packet.checksums_valid());
    let out = packet
        .rebuilt(&Edit {
            payload: Some(b""),
            ..Edit::default()
        })
        .expect("fits");
    assert_eq!(out[40..72], known);
    assert!(TcpPacket::parse(&out).expect("a segment").checksums_valid());

    let refusal = |first: u8, extensions: &[u8]| {
        TcpPacket::parse(&with_extensions(&plain, first, extensions)).err()
    };
    assert_eq!(
        refusal(44, &[6, 0, 0, 0, 0, 0, 0, 0]),
        Some(PacketError::Fragment)
    );
    assert_eq!(
        refusal(43, &[6, 0, 0, 1, 0, 0, 0, 0]),
        Some(PacketError::SourceRouted)
    );
    assert_eq!(
        refusal(
            60,
            &[
                6, 2, 1, 0, 201, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
            ]
        ),
        Some(PacketError::SourceRouted)
    );
    assert_eq!(
        refusal(60, &[6, 0, 1, 9, 0, 0, 0, 0]),
        Some(PacketError::SourceRouted)
    );
    assert_eq!(
        refusal(60, &[0, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4, 0, 0, 0, 0]),
        Some(PacketError::UnknownExtensionHeader)
    );
    for unknown in [50, 51, 135, 139, 140, 253, 254] {
        assert_eq!(
            refusal(unknown, &[6, 0, 0, 0, 0, 0, 0, 0]),
            Some(PacketError::UnknownExtensionHeader)
        );
    }
    for other in [1, 17, 58, 59, 132] {
        assert_eq!(refusal(other, &[]), Some(PacketError::NotTcp));
    }
    assert_eq!(
        refusal(60, &[6, 255, 1, 4, 0, 0, 0, 0]),
        Some(PacketError::BadHeader)
    );
    // A jumbogram says payload length 0 (RFC 2675).
    let mut jumbo = with_extensions(&plain, 0, &[6, 0, 194, 4, 0, 1, 0, 0]);
    jumbo[4..6].fill(0);
    assert_eq!(TcpPacket::parse(&jumbo).err(), Some(PacketError::BadHeader));
}

#[test]
fn damage_shows_in_the_checksums_and_rebuilding_repairs_only_on_request() {
    for good in [v4(b"xyz"), v6(b"xyz")] {
        let last = good.len() - 1;
        let mut bad = good.clone();
        bad[last] ^= 4;
        let packet = TcpPacket::parse(&bad).expect("a segment");
        assert!(!packet.checksums_valid());
        let edit = Edit {
            payload: Some(b"xyz"),
            ..Edit::default()
        };
        assert_eq!(packet.rebuilt(&edit).expect("fits"), good);
    }
    let mut bad = v4(b"xyz");
    bad[8] ^= 1;
    assert!(!TcpPacket::parse(&bad).expect("a segment").checksums_valid());
}

#[test]
fn an_edit_changes_what_it_names_and_nothing_else() {
    for bytes in [v4(b"hello"), v6(b"hello")] {
        let packet = TcpPacket::parse(&bytes).expect("a segment");
        let edit = Edit {
            seq: Some(Seq(9)),
            ack: Some(Seq(10)),
            flags: Some(TcpFlags(0xf000 | 0x811)),
            window: Some(11),
            options: Some(&[2, 4, 5, 0xb4]),
            payload: Some(&[7; 1000]),
            identification_ahead: 1,
        };
        let out = packet.rebuilt(&edit).expect("fits");
        let after = TcpPacket::parse(&out).expect("a segment");
        assert!(after.checksums_valid());
        assert_eq!(
            (after.seq(), after.ack(), after.window()),
            (Seq(9), Seq(10), 11)
        );
        assert_eq!(after.flags(), TcpFlags(0x811));
        assert_eq!(after.options_bytes(), [2, 4, 5, 0xb4]);
        assert_eq!(after.payload(), [7; 1000]);
        assert_eq!(
            (after.source(), after.destination()),
            (packet.source(), packet.destination())
        );
        assert_eq!(after.hop_limit(), packet.hop_limit());
        let back = Edit {
            seq: Some(packet.seq()),
            ack: Some(packet.ack()),
            flags: Some(packet.flags()),
            window: Some(packet.window()),
            options: Some(packet.options_bytes()),
            payload: Some(packet.payload()),
            identification_ahead: u16::MAX,
        };
        assert_eq!(after.rebuilt(&back).expect("fits"), bytes);
    }
}

#[test]
fn each_field_can_be_edited_alone() {
    let bytes = v4(b"hello");
    let packet = TcpPacket::parse(&bytes).expect("a segment");
    let none = Edit::default();
    let edits = [
        Edit {
            seq: Some(Seq(9)),
            ..none
        },
        Edit {
            ack: Some(Seq(9)),
            ..none
        },
        Edit {
            flags: Some(TcpFlags::RST),
            ..none
        },
        Edit {
            window: Some(9),
            ..none
        },
        Edit {
            options: Some(&[1; 40]),
            ..none
        },
        Edit {
            payload: Some(b"other"),
            ..none
        },
    ];
    assert_eq!(packet.rebuilt(&none).expect("fits"), bytes);
    for edit in &edits {
        let out = packet.rebuilt(edit).expect("fits");
        let after = TcpPacket::parse(&out).expect("a segment");
        assert!(after.checksums_valid());
        assert_eq!(after.seq(), edit.seq.unwrap_or(packet.seq()));
        assert_eq!(after.ack(), edit.ack.unwrap_or(packet.ack()));
        assert_eq!(after.flags(), edit.flags.unwrap_or(packet.flags()));
        assert_eq!(after.window(), edit.window.unwrap_or(packet.window()));
        assert_eq!(
            after.options_bytes(),
            edit.options.unwrap_or(packet.options_bytes())
        );
        assert_eq!(after.payload(), edit.payload.unwrap_or(packet.payload()));
    }
}

/// RFC 6864, section 4.1: only what may be fragmented needs an identification of its own.
#[test]
fn identifications_count_where_a_packet_may_be_fragmented() {
    let whole = v4(b"hello");
    let mut loose = whole.clone();
    // No DF, and the reserved bit beside it; identification 0xffff.
    loose[4..7].copy_from_slice(&[0xff, 0xff, 0x80]);
    ip_finish(&mut loose, 20);
    for (bytes, expected) in [(whole, [0, 0]), (loose, [0, 1])] {
        let packet = TcpPacket::parse(&bytes).expect("a segment");
        let edit = Edit {
            identification_ahead: 2,
            ..Edit::default()
        };
        let out = packet.rebuilt(&edit).expect("fits");
        assert_eq!(out[4..6], expected);
        let after = TcpPacket::parse(&out).expect("a segment");
        assert!(after.checksums_valid());
    }
    let bytes = v6(b"hello");
    let packet = TcpPacket::parse(&bytes).expect("a segment");
    let edit = Edit {
        identification_ahead: 2,
        ..Edit::default()
    };
    assert_eq!(packet.rebuilt(&edit).expect("fits"), bytes);
}

#[test]
fn an_ip_option_of_two_bytes_is_whole_and_one_of_one_is_not() {
    let short = with_v4_options(&v4(b"x"), &[7, 2, 1, 0]);
    assert!(TcpPacket::parse(&short).is_ok());
    let shorter = with_v4_options(&v4(b"x"), &[7, 1, 1, 0]);
    assert_eq!(
        TcpPacket::parse(&shorter).err(),
        Some(PacketError::BadHeader)
    );
}

#[test]
fn headers_that_were_kept_are_a_packet_without_payload() {
    let mut template = Template::default();
    assert_eq!(template.packet(), Err(PacketError::Truncated));
    let extended = with_extensions(&v6(b"hello"), 0, &[6, 0, 1, 4, 0, 0, 0, 0]);
    let optioned = with_v4_options(&v4(b"hello"), &[1, 1, 1, 0]);
    for bytes in [v4(b"hello"), v6(b""), extended, optioned] {
        let packet = TcpPacket::parse(&bytes).expect("a segment");
        template.keep(&packet);
        let alone = template.packet().expect("it was kept");
        assert_eq!(template.footprint(), packet.header_len());
        let edit = Edit {
            payload: Some(&[]),
            ..Edit::default()
        };
        let kept = TcpPacket::parse(&alone).expect("a segment");
        assert_eq!(kept.rebuilt(&edit), packet.rebuilt(&edit));
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let v4 = v4(b"");
    let v6 = v6(b"");
    let largest_v4 = 65_535 - 20 - 32;
    let largest_v6 = 65_535 - 32;
    for (bytes, largest) in [(&v4, largest_v4), (&v6, largest_v6)] {
        let packet = TcpPacket::parse(bytes).expect("a segment");
        let payload = vec![3; largest + 1];
        let fits = packet
            .rebuilt(&Edit {
                payload: Some(&payload[1..]),
                ..Edit::default()
            })
            .expect("fits");
        assert!(
            TcpPacket::parse(&fits)
                .expect("a segment")
                .checksums_valid()
        );
        assert_eq!(
            packet.rebuilt(&Edit {
                payload: Some(&payload),
                ..Edit::default()
            }),
            Err(PacketError::TooLong)
        );
        for options in [&[1; 44][..], &[1; 3]] {
            let edit = Edit {
                options: Some(options),
                ..Edit::default()
            };
            assert_eq!(packet.rebuilt(&edit), Err(PacketError::OptionsLength));
        }
        let edit = Edit {
            options: Some(&[2, 5, 0, 0]),
            ..Edit::default()
        };
        assert_eq!(packet.rebuilt(&edit), Err(PacketError::BadOptions));
    }
    let mixed = segment("192.0.2.1:1", "[2001:db8::2]:443", b"");
    assert_eq!(mixed.try_build(), Err(PacketError::MixedFamilies));
}

proptest! {
    #[test]
    fn no_input_panics(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), first in 0..4_u8) {
        // Most random first bytes are no IP at all; steer towards the parsers.
        if let Some(byte) = bytes.first_mut() {
            *byte = [0x45, 0x46, 0x60, *byte][usize::from(first)];
        }
        crate::fuzzing::tcp_packet(&bytes);
    }

    #[test]
    fn a_changed_byte_of_a_good_packet_never_panics(at in 0..90_usize, value: u8, version: bool) {
        let mut bytes = if version { v4(&[5; 30]) } else { v6(&[5; 30]) };
        let at = at % bytes.len();
        bytes[at] = value;
        crate::fuzzing::tcp_packet(&bytes);
    }
}
