//! Puts another address and port into an IPv4 TCP packet, with both checksums
//! adjusted, not computed anew: what was wrong stays wrong (RFC 3022, section 4.2).

use std::net::SocketAddrV4;

use crate::layout::{IpVersion, Layout, be16, checksum_after, put_be16};

/// Which end of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Source,
    Destination,
}

const IP_CHECKSUM_AT: usize = 10;

/// Rewrites one end; `None` where the packet is not a whole IPv4 TCP segment.
pub(super) fn with_end(mut packet: Vec<u8>, end: End, to: SocketAddrV4) -> Option<Vec<u8>> {
    let layout = Layout::of(&packet)?;
    layout.tcp(&packet)?;
    match layout.version {
        IpVersion::V4 => {}
        IpVersion::V6 => return None,
    }
    let tcp_checksum_at = layout.checksum_at()?;
    let (address_at, port_at) = match end {
        End::Source => (12, layout.transport.start),
        End::Destination => (16, layout.transport.start + 2),
    };
    let [a, b, c, d] = to.ip().octets();
    let words = [
        (address_at, u16::from_be_bytes([a, b])),
        (address_at + 2, u16::from_be_bytes([c, d])),
        (port_at, to.port()),
    ];
    let mut ip_checksum = be16(&packet, IP_CHECKSUM_AT)?;
    let mut tcp_checksum = be16(&packet, tcp_checksum_at)?;
    for (at, new) in words {
        let old = be16(&packet, at)?;
        if at != port_at {
            ip_checksum = checksum_after(ip_checksum, old, new);
        }
        // The addresses are in TCP's pseudo-header too.
        tcp_checksum = checksum_after(tcp_checksum, old, new);
        put_be16(&mut packet, at, new);
    }
    put_be16(&mut packet, IP_CHECKSUM_AT, ip_checksum);
    put_be16(&mut packet, tcp_checksum_at, tcp_checksum);
    Some(packet)
}
