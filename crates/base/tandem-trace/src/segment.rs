//! From an IP packet, possibly captured in part, to the TCP segment in it.
//!
//! Parsing is `tandem-wire`'s. This file adds what captures have and links do not: packets cut by
//! the snap length, and the zero length of IPv4 packets that segmentation offload had not finished
//! when they were captured. Checksums are not looked at: offload leaves them unfinished in captures
//! too. Invariant: `payload` holds captured bytes only, never padding.

use std::net::SocketAddr;

use tandem_wire::{PacketError, Seq, TcpFlags, TcpPacket};

use crate::tunnel::Tunnel;

const TCP_HEADER_LEN: usize = 20;
const IPV6_HEADER_LEN: usize = 40;

/// One TCP segment as far as it was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment<'a> {
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    /// Of the first byte of `payload`, a SYN's own number passed over.
    pub(crate) seq: Seq,
    /// None without the ACK flag.
    pub(crate) ack: Option<Seq>,
    pub(crate) flags: TcpFlags,
    pub(crate) payload: &'a [u8],
    /// Payload bytes on the link, captured or not.
    pub(crate) payload_len: usize,
    /// Bytes of the IP packet on the link.
    pub(crate) packet_len: usize,
    /// The tunnel that it came out of.
    pub(crate) tunnel: Option<Tunnel>,
    /// It has TCP timestamps (RFC 7323), or its options were not all captured.
    pub(crate) may_have_timestamps: bool,
    /// When it was captured, microseconds since 1970.
    pub(crate) unix_micros: Option<u64>,
}

impl Segment<'_> {
    /// Whether the capture holds less than the link carried.
    pub(crate) fn is_cut(&self) -> bool {
        self.payload.len() < self.payload_len
    }
}

/// The segment in `packet`. `scratch` is used where the packet has to be mended before it parses.
///
/// # Errors
/// `Truncated` where even the TCP header is not there; everything else as `TcpPacket::parse` says.
pub(crate) fn parse<'a>(
    packet: &'a [u8],
    scratch: &'a mut Vec<u8>,
) -> Result<Segment<'a>, PacketError> {
    match TcpPacket::parse(packet) {
        Ok(parsed) => segment(&parsed, packet.len()),
        Err(error @ PacketError::Truncated) => {
            let declared = declared_len(packet)
                .filter(|&len| len > packet.len())
                .ok_or(error)?;
            scratch.clear();
            scratch.extend_from_slice(packet);
            scratch.resize(declared, 0);
            segment(&TcpPacket::parse(scratch)?, packet.len())
        }
        Err(error @ PacketError::BadHeader) => {
            let len = u16::try_from(packet.len()).map_err(|_| error)?;
            if !is_ipv4(packet) || declared_len(packet) != Some(0) {
                return Err(error);
            }
            scratch.clear();
            scratch.extend_from_slice(packet);
            if let Some(field) = scratch.get_mut(2..4) {
                field.copy_from_slice(&len.to_be_bytes());
            }
            segment(&TcpPacket::parse(scratch)?, packet.len())
        }
        Err(
            error @ (PacketError::NotIp
            | PacketError::NotTcp
            | PacketError::Fragment
            | PacketError::UnknownExtensionHeader
            | PacketError::SourceRouted
            | PacketError::BadOptions
            | PacketError::TooLong
            | PacketError::OptionsLength
            | PacketError::MixedFamilies),
        ) => Err(error),
    }
}

/// Takes the fields out; of the packet's bytes only the first `captured` are real.
fn segment<'a>(packet: &TcpPacket<'a>, captured: usize) -> Result<Segment<'a>, PacketError> {
    let fixed_header_end = packet.header_len() - packet.options_bytes().len();
    if captured < fixed_header_end || fixed_header_end < TCP_HEADER_LEN {
        return Err(PacketError::Truncated);
    }
    let payload = packet.payload();
    let real = captured
        .saturating_sub(packet.header_len())
        .min(payload.len());
    let flags = packet.flags();
    let syn = u32::from(flags.contains(TcpFlags::SYN));
    Ok(Segment {
        source: packet.source(),
        destination: packet.destination(),
        seq: packet.seq().wrapping_add(syn),
        ack: flags.contains(TcpFlags::ACK).then(|| packet.ack()),
        flags,
        payload: payload.get(..real).unwrap_or_default(),
        payload_len: payload.len(),
        packet_len: packet.bytes().len(),
        tunnel: None,
        may_have_timestamps: captured < packet.header_len() || packet.timestamps().is_some(),
        unix_micros: None,
    })
}

fn is_ipv4(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first >> 4 == 4)
}

/// What the IP header says the packet's length is.
pub(crate) fn declared_len(packet: &[u8]) -> Option<usize> {
    let field = |at: usize| {
        let bytes = packet.get(at..)?.first_chunk::<2>()?;
        Some(usize::from(u16::from_be_bytes(*bytes)))
    };
    if is_ipv4(packet) {
        field(2)
    } else {
        field(4).map(|len| len + IPV6_HEADER_LEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_wire::SegmentRepr;

    fn packet(source: &str, destination: &str) -> Vec<u8> {
        SegmentRepr {
            source: source.parse().expect("the test's own input"),
            destination: destination.parse().expect("the test's own input"),
            seq: Seq(1000),
            ack: Seq(7),
            flags: TcpFlags::ACK,
            window: 1,
            options: vec![1, 1, 1, 1],
            payload: b"abcdefgh".to_vec(),
            hop_limit: 64,
        }
        .build()
    }

    #[test]
    fn a_packet_cut_anywhere_gives_the_captured_payload_only() {
        for (whole, header_len) in [
            (packet("192.0.2.1:1", "192.0.2.2:2"), 44),
            (packet("[2001:db8::1]:1", "[2001:db8::2]:2"), 64),
        ] {
            for len in 0..=whole.len() {
                let mut scratch = Vec::new();
                let parsed = parse(&whole[..len], &mut scratch);
                if len < header_len - 4 {
                    assert!(parsed.is_err(), "{len}");
                } else {
                    let segment = parsed.expect("the test's own input");
                    assert_eq!(
                        segment.payload,
                        &b"abcdefgh"[..len.saturating_sub(header_len)]
                    );
                    assert_eq!(segment.payload_len, 8);
                    assert_eq!(segment.packet_len, whole.len());
                    assert_eq!(segment.is_cut(), len < whole.len());
                    assert_eq!((segment.seq, segment.ack), (Seq(1000), Some(Seq(7))));
                }
            }
        }
    }

    #[test]
    fn the_zero_length_of_unfinished_offload_is_the_frame_length() {
        let mut unfinished = packet("192.0.2.1:1", "192.0.2.2:2");
        unfinished[2..4].fill(0);
        let mut scratch = Vec::new();
        assert_eq!(
            parse(&unfinished, &mut scratch)
                .expect("the test's own input")
                .payload,
            b"abcdefgh"
        );
    }

    #[test]
    fn a_syn_counts_before_its_payload() {
        let syn = SegmentRepr {
            source: "192.0.2.1:1".parse().expect("the test's own input"),
            destination: "192.0.2.2:2".parse().expect("the test's own input"),
            seq: Seq(u32::MAX),
            ack: Seq(0),
            flags: TcpFlags::SYN,
            window: 1,
            options: Vec::new(),
            payload: Vec::new(),
            hop_limit: 64,
        }
        .build();
        let mut scratch = Vec::new();
        let segment = parse(&syn, &mut scratch).expect("the test's own input");
        assert_eq!((segment.seq, segment.ack), (Seq(0), None));
    }
}
