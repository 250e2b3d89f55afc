//! From the IP packet on the link to the one that carries TCP: tunnels are unpacked.
//!
//! Not a tunnel's end: nothing is decrypted, put together or checked. Read are IP in IP (each
//! version in each), GRE, MPLS, GTP-U, VXLAN, Geneve, CAPWAP data and PPTP; what else may carry
//! packets is named. Invariants: at most [`MAX_TUNNELS`] layers; what is given back is the end of
//! what was given, so that link and tunnel headers are what is missing at its front.
//!
//! RFC 2003, 2473, 4213 (IP in IP); 2784, 2890 (GRE); 2637 (PPTP); 3032, 4023, 7510 (MPLS); 7348
//! (VXLAN); 8926 (Geneve); 5415, section 4.3, and 5416 (CAPWAP); 3GPP TS 29.281 (GTP-U).

use std::fmt;

use crate::link_type::{self, NoPacket, field, rest};

/// Tunnels in tunnels that are unpacked. Two are seen in practice.
const MAX_TUNNELS: usize = 8;
/// IPv6 extension headers that are passed over in one packet.
const MAX_EXTENSIONS: usize = 8;

const IPV6_HEADER_LEN: usize = 40;
const UDP_HEADER_LEN: usize = 8;

/// IP protocol numbers (IANA, "Protocol Numbers").
const HOP_BY_HOP: u8 = 0;
const IPV4: u8 = 4;
const UDP: u8 = 17;
const IPV6: u8 = 41;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const GRE: u8 = 47;
const DESTINATION_OPTIONS: u8 = 60;
const MPLS_IN_IP: u8 = 137;

/// A kind of tunnel that is unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tunnel {
    /// IP in IP: 4in4, 4in6, 6in4, 6in6.
    IpInIp,
    /// Generic Routing Encapsulation.
    Gre,
    /// MPLS in IP or in UDP. (Labels on the link itself are no tunnel.)
    Mpls,
    /// The user plane of mobile networks.
    GtpU,
    /// VXLAN.
    Vxlan,
    /// Geneve.
    Geneve,
    /// What an access point passes to its controller.
    Capwap,
    /// PPTP.
    Pptp,
}

impl Tunnel {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::IpInIp => "ip_in_ip",
            Self::Gre => "gre",
            Self::Mpls => "mpls",
            Self::GtpU => "gtp_u",
            Self::Vxlan => "vxlan",
            Self::Geneve => "geneve",
            Self::Capwap => "capwap",
            Self::Pptp => "pptp",
        }
    }
}

impl fmt::Display for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IpInIp => "IP in IP",
            Self::Gre => "GRE",
            Self::Mpls => "MPLS",
            Self::GtpU => "GTP-U",
            Self::Vxlan => "VXLAN",
            Self::Geneve => "Geneve",
            Self::Capwap => "CAPWAP",
            Self::Pptp => "PPTP",
        })
    }
}

/// The innermost packet, and the outermost tunnel that it lay in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unpacked<'a> {
    pub(crate) packet: &'a [u8],
    pub(crate) tunnel: Option<Tunnel>,
}

/// Unpacks `packet` as far as it can be unpacked.
pub(crate) fn unpack(packet: &[u8]) -> Result<Unpacked<'_>, NoPacket> {
    let mut unpacked = Unpacked {
        packet,
        tunnel: None,
    };
    for _ in 0..MAX_TUNNELS {
        match layer(unpacked.packet)? {
            None => return Ok(unpacked),
            Some((tunnel, inner)) => {
                unpacked = Unpacked {
                    packet: inner,
                    tunnel: unpacked.tunnel.or(Some(tunnel)),
                };
            }
        }
    }
    Err(NoPacket::Unread("too many tunnels in one another"))
}

/// What one IP packet carries, if that is another one.
fn layer(packet: &[u8]) -> Result<Option<(Tunnel, &[u8])>, NoPacket> {
    let Some((protocol, payload)) = payload(packet) else {
        return Ok(None);
    };
    let inner = match protocol {
        IPV4 | IPV6 => (Tunnel::IpInIp, payload),
        GRE => return gre(payload).map(Some),
        MPLS_IN_IP => (Tunnel::Mpls, link_type::mpls(payload)?),
        UDP => return datagram(payload),
        other => return protocol_name(other).map_or(Ok(None), |name| Err(NoPacket::Unread(name))),
    };
    Ok(Some(inner))
}

/// Protocols that carry packets and are not read: encrypted, most of them.
fn protocol_name(protocol: u8) -> Option<&'static str> {
    Some(match protocol {
        50 => "IPsec (ESP)",
        51 => "IPsec (AH)",
        55 => "Minimal Encapsulation",
        94 => "IPIP (protocol 94)",
        97 => "EtherIP",
        98 => "ENCAP (protocol 98)",
        115 => "L2TPv3",
        143 => "Ethernet over SRv6",
        _ => return None,
    })
}

/// What an IP packet carries: protocol and bytes. None for a fragment but a first one of TCP or for
/// what is no sound packet: the reader of segments says what is wrong with those.
fn payload(packet: &[u8]) -> Option<(u8, &[u8])> {
    match packet.first()? >> 4 {
        4 => {
            let header_len = usize::from(packet.first()? & 0x0f) * 4;
            let fragment = u16::from_be_bytes(*packet.get(6..)?.first_chunk::<2>()?);
            // More fragments, or not the first.
            if fragment & 0x3fff != 0 || header_len < 20 {
                return None;
            }
            Some((*packet.get(9)?, packet.get(header_len..)?))
        }
        6 => {
            let mut next = *packet.get(6)?;
            let mut at = IPV6_HEADER_LEN;
            for _ in 0..MAX_EXTENSIONS {
                match next {
                    HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => {
                        let len = 8 + usize::from(*packet.get(at + 1)?) * 8;
                        next = *packet.get(at)?;
                        at += len;
                    }
                    FRAGMENT => return None,
                    protocol => return Some((protocol, packet.get(at..)?)),
                }
            }
            None
        }
        _ => None,
    }
}

/// | C R K S s, recursion 3, flags 5, version 3 | protocol 2 | checksum, offset 4 | key 4 | sequence
/// 4 | routing |; the last four where a bit says so.
fn gre(bytes: &[u8]) -> Result<(Tunnel, &[u8]), NoPacket> {
    let (flags, protocol) = (field(bytes, 0)?, field(bytes, 2)?);
    let optional = |bit: u16| if flags & bit == 0 { 0 } else { 4 };
    match flags & 0x0007 {
        0 if flags & 0x4000 != 0 => Err(NoPacket::Unread("GRE with source routes")),
        0 => {
            let len = 4 + optional(0x8000) + optional(0x2000) + optional(0x1000);
            let payload = rest(bytes, len)?;
            match protocol {
                // Type II and III have headers of their own, and a mirrored frame is no tunnel.
                0x88be | 0x22eb => Err(NoPacket::Unread("mirrored frames (ERSPAN)")),
                // Transparent Ethernet bridging.
                0x6558 => Ok((Tunnel::Gre, link_type::ethernet(payload)?)),
                ethertype => Ok((Tunnel::Gre, link_type::by_ethertype(ethertype, payload)?)),
            }
        }
        // PPTP: the key is always there, the acknowledgement where bit 8 says so.
        1 if protocol == 0x880b => {
            let len = 8 + optional(0x1000) + optional(0x0080);
            Ok((Tunnel::Pptp, link_type::ppp(rest(bytes, len)?)?))
        }
        _ => Err(NoPacket::Unread("GRE of another version")),
    }
}

/// Tunnels over UDP are told by their ports, and by what every packet of theirs begins with.
fn datagram(bytes: &[u8]) -> Result<Option<(Tunnel, &[u8])>, NoPacket> {
    let (Ok(source), Ok(destination)) = (field(bytes, 0), field(bytes, 2)) else {
        return Ok(None);
    };
    let Some(payload) = bytes
        .get(UDP_HEADER_LEN..)
        .filter(|payload| !payload.is_empty())
    else {
        return Ok(None);
    };
    // An answer of DNS or QUIC to a port that happens to be a tunnel's is none.
    let is_other = [source, destination]
        .iter()
        .any(|port| matches!(port, 53 | 443));
    let is = |port: u16| !is_other && (source == port || destination == port);
    let found = match payload {
        // Version 1, protocol type GTP, and a T-PDU.
        [first, 255, ..] if is(2152) && first & 0xf0 == 0x30 => {
            (Tunnel::GtpU, gtp(payload, first & 0x07 != 0)?)
        }
        // The flag that a network's number is there.
        [8, ..] if destination == 4789 || destination == 8472 => {
            (Tunnel::Vxlan, link_type::ethernet(rest(payload, 8)?)?)
        }
        [first, ..] if destination == 6081 && first & 0xc0 == 0 => {
            let inner = rest(payload, 8 + usize::from(first & 0x3f) * 4)?;
            let found = match field(payload, 2)? {
                0x6558 => link_type::ethernet(inner)?,
                ethertype => link_type::by_ethertype(ethertype, inner)?,
            };
            (Tunnel::Geneve, found)
        }
        [first, ..] if is(5247) => return capwap(*first, payload),
        _ if destination == 6635 => (Tunnel::Mpls, link_type::mpls(payload)?),
        // Message types 1 to 4, and three zero bytes.
        [1..=4, 0, 0, 0, ..] if is(51820) => Err(NoPacket::Unread("WireGuard (UDP port 51820)"))?,
        _ => {
            let name = UNREAD_PORTS.iter().find(|(port, _)| is(*port));
            return name.map_or(Ok(None), |(_, name)| Err(NoPacket::Unread(name)));
        }
    };
    Ok(Some(found))
}

/// Ports of tunnels that are not read.
const UNREAD_PORTS: [(u16, &str); 6] = [
    (1194, "OpenVPN (UDP port 1194)"),
    (1701, "L2TP (UDP port 1701)"),
    (3544, "Teredo (UDP port 3544)"),
    (4341, "LISP (UDP port 4341)"),
    (4500, "IPsec in UDP (port 4500)"),
    (4754, "GRE in UDP (port 4754)"),
];

/// | flags 1 | type 1 | length 2 | tunnel 4 | sequence 2, N-PDU 1, next extension 1 |; the last
/// three where any flag is set. Extensions: | length in 4 bytes 1 | ... | next 1 |.
fn gtp(payload: &[u8], has_more: bool) -> Result<&[u8], NoPacket> {
    let mut at = 8;
    if has_more {
        let has_extensions = payload.first().is_some_and(|flags| flags & 0x04 != 0);
        at = 12;
        let mut next = if has_extensions {
            *payload.get(11).ok_or(NoPacket::Cut)?
        } else {
            0
        };
        for _ in 0..MAX_EXTENSIONS {
            if next == 0 {
                break;
            }
            let len = usize::from(*payload.get(at).ok_or(NoPacket::Cut)?) * 4;
            if len == 0 {
                return Err(NoPacket::NotIp);
            }
            at += len;
            next = *payload.get(at - 1).ok_or(NoPacket::Cut)?;
        }
    }
    ip(rest(payload, at)?)
}

/// An IP packet, or something else that a mobile network carries.
fn ip(bytes: &[u8]) -> Result<&[u8], NoPacket> {
    match bytes.first().map(|first| first >> 4) {
        Some(4 | 6) => Ok(bytes),
        Some(_) => Err(NoPacket::NotIp),
        None => Err(NoPacket::Cut),
    }
}

/// | version 4, type 4 | HLEN 5, RID 5, WBID 5, T 1 | F L W M K, flags 3 | ... | frame |, HLEN in
/// units of four bytes.
fn capwap(first: u8, payload: &[u8]) -> Result<Option<(Tunnel, &[u8])>, NoPacket> {
    if first == 1 {
        return Err(NoPacket::Unread("CAPWAP data in DTLS"));
    }
    let (Some(&len), Some(&kind), Some(&flags)) = (payload.get(1), payload.get(2), payload.get(3))
    else {
        return Ok(None);
    };
    // A keep-alive carries nothing.
    if first != 0 || flags & 0x08 != 0 {
        return Ok(None);
    }
    if flags & 0x80 != 0 {
        return Err(NoPacket::Unread("CAPWAP data in fragments"));
    }
    let frame = rest(payload, usize::from(len >> 3) * 4)?;
    let packet = if kind & 1 == 0 {
        link_type::ethernet(frame)?
    } else {
        wireless(frame)?
    };
    Ok(Some((Tunnel::Capwap, packet)))
}

/// A frame of 802.11 with LLC and SNAP in it (IEEE 802.11, section 9.3.2; RFC 1042).
///
/// ```text
/// | control 2 | duration 2 | addresses 18 | sequence 2 | address 6? | QoS 2? | AA AA 03 0 0 0 | type 2
/// ```
fn wireless(frame: &[u8]) -> Result<&[u8], NoPacket> {
    let control = frame.first_chunk::<2>().ok_or(NoPacket::Cut)?;
    // Some equipment swaps the two bytes; data frames have type 2, and no version is not 0.
    let [kind, flags] = if control[0] & 0x0f == 0x08 {
        *control
    } else {
        [control[1], control[0]]
    };
    if kind & 0x0f != 0x08 {
        // Management and control frames carry no packets.
        return Err(NoPacket::NotIp);
    }
    if flags & 0x40 != 0 {
        return Err(NoPacket::Unread("encrypted Wi-Fi frames in CAPWAP"));
    }
    let four_addresses = if flags & 0x03 == 0x03 { 6 } else { 0 };
    let quality = if kind & 0x80 != 0 { 2 } else { 0 };
    let llc = rest(frame, 24 + four_addresses + quality)?;
    match llc.strip_prefix(&[0xaa, 0xaa, 0x03, 0, 0, 0]) {
        Some(snap) => link_type::by_ethertype(field(snap, 0)?, rest(snap, 2)?),
        None => Err(NoPacket::NotIp),
    }
}
