//! Reads path-MTU messages: ICMP "fragmentation needed" (RFC 1191) and ICMPv6
//! "packet too big" (RFC 8201).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::layout::{
    IPV4_HEADER, IPV6_HEADER, IpVersion, Layout, PROTOCOL_ICMP, PROTOCOL_ICMPV6, PROTOCOL_TCP, be16,
};

const ICMP_HEADER: usize = 8;
const TCP_HEADER: usize = 20;

/// A path-MTU message about a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooBig {
    /// Of the segment that was too big.
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    /// In bytes of IP packet.
    pub(super) mtu: usize,
}

/// The message in a packet, where there is one.
pub(super) fn read(packet: &[u8]) -> Option<TooBig> {
    let layout = Layout::of(packet)?;
    let message = packet.get(layout.transport.clone())?;
    let quoted = message.get(ICMP_HEADER..)?;
    let kind = be16(message, 0)?;
    match (layout.version, layout.protocol, kind) {
        (IpVersion::V4, PROTOCOL_ICMP, 0x0304) => {
            let tcp = usize::from(quoted.first()? & 0x0f) * 4;
            if *quoted.get(9)? != PROTOCOL_TCP {
                return None;
            }
            Some(TooBig {
                source: endpoint_v4(quoted, 12, tcp)?,
                destination: endpoint_v4(quoted, 16, tcp + 2)?,
                mtu: usize::from(be16(message, 6)?),
            })
        }
        (IpVersion::V6, PROTOCOL_ICMPV6, 0x0200) => {
            if *quoted.get(6)? != PROTOCOL_TCP {
                return None;
            }
            Some(TooBig {
                source: endpoint_v6(quoted, 8, IPV6_HEADER)?,
                destination: endpoint_v6(quoted, 24, IPV6_HEADER + 2)?,
                mtu: usize::from(be16(message, 6)?),
            })
        }
        _ => None,
    }
}

/// Bytes of IP and TCP headers without options.
pub(super) fn headers(local: SocketAddr) -> usize {
    TCP_HEADER
        + match local {
            SocketAddr::V4(_) => IPV4_HEADER,
            SocketAddr::V6(_) => IPV6_HEADER,
        }
}

fn endpoint_v4(quoted: &[u8], address_at: usize, port_at: usize) -> Option<SocketAddr> {
    let octets: [u8; 4] = quoted.get(address_at..address_at + 4)?.try_into().ok()?;
    Some(SocketAddr::new(
        IpAddr::V4(Ipv4Addr::from(octets)),
        be16(quoted, port_at)?,
    ))
}

fn endpoint_v6(quoted: &[u8], address_at: usize, port_at: usize) -> Option<SocketAddr> {
    let octets: [u8; 16] = quoted.get(address_at..address_at + 16)?.try_into().ok()?;
    Some(SocketAddr::new(
        IpAddr::V6(Ipv6Addr::from(octets)),
        be16(quoted, port_at)?,
    ))
}
