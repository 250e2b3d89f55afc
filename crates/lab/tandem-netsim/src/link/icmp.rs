//! The message that a router sends when a packet does not fit the next link:
//! ICMP "fragmentation needed and DF set" with the next hop's MTU (RFC 792;
//! RFC 1191, section 4) and ICMPv6 "packet too big" (RFC 4443, section 3.2).
//!
//! Never about an ICMP error or a later fragment (RFC 1122, section 3.2.2;
//! RFC 4443, section 2.4 (e)): to keep it short, never about any ICMP packet.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::layout::{
    IPV4_HEADER, IPV6_HEADER, IpVersion, Layout, PROTOCOL_ICMP, PROTOCOL_ICMPV6, be16,
    internet_checksum, put_be16,
};

const ICMP_HEADER: usize = 8;
/// Destination Unreachable, fragmentation needed and DF set (RFC 792).
const ICMP_FRAGMENTATION_NEEDED: [u8; 2] = [3, 4];
/// Packet Too Big (RFC 4443, section 3.2).
const ICMPV6_PACKET_TOO_BIG: [u8; 2] = [2, 0];
/// "the ICMP datagram SHOULD contain as much of the original datagram as
/// possible without the length of the ICMP datagram exceeding 576 bytes"
/// (RFC 1812, section 4.3.2.3).
const ICMP_MAXIMUM: usize = 576;
/// "as much of invoking packet as possible without the ICMPv6 packet exceeding
/// the minimum IPv6 MTU" (RFC 4443, section 3.2; 1,280 in RFC 8200, section 5).
const ICMPV6_MAXIMUM: usize = 1280;
const HOP_LIMIT: u8 = 64;

/// The answer to a packet that is too big; `None` where none may be sent.
pub(super) fn too_big(
    packet: &[u8],
    mtu: usize,
    router_v4: Ipv4Addr,
    router_v6: Ipv6Addr,
) -> Option<Vec<u8>> {
    let layout = Layout::of(packet)?;
    match layout.version {
        IpVersion::V4 => {
            let first_fragment = be16(packet, 6)? & 0x1fff == 0;
            (layout.protocol != PROTOCOL_ICMP && first_fragment)
                .then(|| fragmentation_needed(packet, mtu, router_v4))
                .flatten()
        }
        IpVersion::V6 => (layout.protocol != PROTOCOL_ICMPV6)
            .then(|| packet_too_big(packet, mtu, router_v6))
            .flatten(),
    }
}

fn fragmentation_needed(packet: &[u8], mtu: usize, router: Ipv4Addr) -> Option<Vec<u8>> {
    let sender = packet.get(12..16)?;
    let quoted = &packet[..packet.len().min(ICMP_MAXIMUM - IPV4_HEADER - ICMP_HEADER)];
    let total = IPV4_HEADER + ICMP_HEADER + quoted.len();

    let mut message = vec![0u8; IPV4_HEADER + ICMP_HEADER];
    message[0] = 0x45;
    // Precedence "internetwork control" (RFC 1812, section 4.3.2.5).
    message[1] = 0xc0;
    put_be16(&mut message, 2, clamp16(total));
    message[8] = HOP_LIMIT;
    message[9] = PROTOCOL_ICMP;
    message[12..16].copy_from_slice(&router.octets());
    message[16..20].copy_from_slice(sender);
    let header_checksum = internet_checksum(&[&message[..IPV4_HEADER]]);
    put_be16(&mut message, 10, header_checksum);
    message[20..22].copy_from_slice(&ICMP_FRAGMENTATION_NEEDED);
    put_be16(&mut message, 26, clamp16(mtu));
    message.extend_from_slice(quoted);
    let checksum = internet_checksum(&[&message[IPV4_HEADER..]]);
    put_be16(&mut message, 22, checksum);
    Some(message)
}

fn packet_too_big(packet: &[u8], mtu: usize, router: Ipv6Addr) -> Option<Vec<u8>> {
    let sender = packet.get(8..24)?;
    let quoted = &packet[..packet.len().min(ICMPV6_MAXIMUM - IPV6_HEADER - ICMP_HEADER)];
    let length = clamp16(ICMP_HEADER + quoted.len());

    let mut message = vec![0u8; IPV6_HEADER + ICMP_HEADER];
    message[0] = 0x60;
    put_be16(&mut message, 4, length);
    message[6] = PROTOCOL_ICMPV6;
    message[7] = HOP_LIMIT;
    message[8..24].copy_from_slice(&router.octets());
    message[24..40].copy_from_slice(sender);
    message[40..42].copy_from_slice(&ICMPV6_PACKET_TOO_BIG);
    put_be16(&mut message, 46, clamp16(mtu));
    message.extend_from_slice(quoted);
    // The pseudo-header of RFC 8200, section 8.1: addresses, length, next header.
    let checksum = internet_checksum(&[
        &message[8..40],
        &length.to_be_bytes(),
        &[0, PROTOCOL_ICMPV6],
        &message[IPV6_HEADER..],
    ]);
    put_be16(&mut message, 42, checksum);
    Some(message)
}

fn clamp16(value: usize) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}
