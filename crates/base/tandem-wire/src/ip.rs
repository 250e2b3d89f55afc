//! Where the TCP segment lies inside an IPv4 or IPv6 packet, and the IP fields that a rewrite must
//! adjust.
//!
//! It is not a general IP parser: it answers one question, "is this one whole TCP segment, and
//! where", and refuses everything else with a reason.
//!
//! Invariant of a [`IpLayout`]: `header_len <= total_len <= bytes.len()`, and `total_len <= 65,575`
//! (IPv6: 40 + 65,535).
//!
//! Specifications: RFC 791 (IPv4), RFC 8200 (IPv6), RFC 6275 (home address option).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::checksum::{PROTOCOL_TCP, Sum};
use crate::error::PacketError;

/// Length of an IPv4 header without options (RFC 791, section 3.1).
pub(crate) const IPV4_HEADER_LEN: usize = 20;
/// Length of the fixed IPv6 header (RFC 8200, section 3).
pub(crate) const IPV6_HEADER_LEN: usize = 40;

/// The flag in the seventh byte of an IPv4 header (RFC 791, section 3.1).
pub(crate) const DONT_FRAGMENT: u8 = 0x40;

/// Destination option that puts another source address into the checksum (RFC 6275, section 6.3).
const OPTION_HOME_ADDRESS: u8 = 201;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IpVersion {
    V4,
    V6,
}

/// Shape of a validated packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IpLayout {
    pub(crate) version: IpVersion,
    /// IP header with options or extension headers: where TCP begins.
    pub(crate) header_len: usize,
    /// The packet's length by its own header; bytes after it are link-layer padding.
    pub(crate) total_len: usize,
}

impl IpLayout {
    #[inline]
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, PacketError> {
        let first = bytes.first().ok_or(PacketError::Truncated)?;
        match first >> 4 {
            4 => parse_v4(bytes),
            6 => parse_v6(bytes),
            _ => Err(PacketError::NotIp),
        }
    }

    #[inline]
    pub(crate) fn source(&self, bytes: &[u8]) -> IpAddr {
        match self.version {
            IpVersion::V4 => v4_at(bytes, 12).into(),
            IpVersion::V6 => v6_at(bytes, 8).into(),
        }
    }

    #[inline]
    pub(crate) fn destination(&self, bytes: &[u8]) -> IpAddr {
        match self.version {
            IpVersion::V4 => v4_at(bytes, 16).into(),
            IpVersion::V6 => v6_at(bytes, 24).into(),
        }
    }

    /// Sum of the pseudo-header for a TCP segment of `tcp_len` bytes.
    pub(crate) fn pseudo_sum(&self, bytes: &[u8], tcp_len: u16) -> Sum {
        match self.version {
            IpVersion::V4 => Sum::pseudo_v4(v4_at(bytes, 12), v4_at(bytes, 16), tcp_len),
            IpVersion::V6 => Sum::pseudo_v6(v6_at(bytes, 8), v6_at(bytes, 24), tcp_len),
        }
    }

    /// Whether the IP header's own checksum is right (always so for IPv6, which has none).
    pub(crate) fn header_checksum_valid(&self, bytes: &[u8]) -> bool {
        match self.version {
            IpVersion::V4 => Sum::default().add(&bytes[..self.header_len]).is_valid(),
            IpVersion::V6 => true,
        }
    }

    pub(crate) fn hop_limit(&self, bytes: &[u8]) -> u8 {
        match self.version {
            IpVersion::V4 => bytes[8],
            IpVersion::V6 => bytes[7],
        }
    }
}

/// Adds to the identification of a packet that may be fragmented: IPv4 without DF.
pub(crate) fn count_identification(version: IpVersion, packet: &mut [u8], ahead: u16) {
    match version {
        IpVersion::V4 if packet[6] & DONT_FRAGMENT == 0 => {
            let next = u16_at(packet, 4).wrapping_add(ahead);
            packet[4..6].copy_from_slice(&next.to_be_bytes());
        }
        IpVersion::V4 | IpVersion::V6 => {}
    }
}

/// Writes lengths and the IPv4 header checksum for a packet whose IP header (`header_len` bytes) is
/// in place.
pub(crate) fn finish_header(
    version: IpVersion,
    packet: &mut [u8],
    header_len: usize,
) -> Result<(), PacketError> {
    match version {
        IpVersion::V4 => {
            let total = u16::try_from(packet.len()).map_err(|_| PacketError::TooLong)?;
            packet[2..4].copy_from_slice(&total.to_be_bytes());
            packet[10..12].fill(0);
            let checksum = Sum::default().add(&packet[..header_len]).checksum();
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        IpVersion::V6 => {
            let payload =
                u16::try_from(packet.len() - IPV6_HEADER_LEN).map_err(|_| PacketError::TooLong)?;
            packet[4..6].copy_from_slice(&payload.to_be_bytes());
        }
    }
    Ok(())
}

fn v4_at(bytes: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3])
}

fn v6_at(bytes: &[u8], at: usize) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&bytes[at..at + 16]);
    octets.into()
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn parse_v4(bytes: &[u8]) -> Result<IpLayout, PacketError> {
    if bytes.len() < IPV4_HEADER_LEN {
        return Err(PacketError::Truncated);
    }
    let header_len = usize::from(bytes[0] & 0x0f) * 4;
    let total_len = usize::from(u16_at(bytes, 2));
    if header_len < IPV4_HEADER_LEN || total_len < header_len {
        return Err(PacketError::BadHeader);
    }
    if total_len > bytes.len() {
        return Err(PacketError::Truncated);
    }
    // More fragments, or an offset: 0x2000 and 0x1fff (RFC 791, section 3.1).
    if u16_at(bytes, 6) & 0x3fff != 0 {
        return Err(PacketError::Fragment);
    }
    if bytes[9] != PROTOCOL_TCP {
        return Err(PacketError::NotTcp);
    }
    check_v4_options(&bytes[IPV4_HEADER_LEN..header_len])?;
    Ok(IpLayout {
        version: IpVersion::V4,
        header_len,
        total_len,
    })
}

/// Refuses source routes (131 loose, 137 strict) and options that do not add up.
fn check_v4_options(mut options: &[u8]) -> Result<(), PacketError> {
    while let [kind, rest @ ..] = options {
        match kind {
            0 => return Ok(()),
            1 => options = rest,
            131 | 137 => return Err(PacketError::SourceRouted),
            _ => {
                let len = usize::from(*rest.first().ok_or(PacketError::BadHeader)?);
                if len < 2 {
                    return Err(PacketError::BadHeader);
                }
                options = options.get(len..).ok_or(PacketError::BadHeader)?;
            }
        }
    }
    Ok(())
}

fn parse_v6(bytes: &[u8]) -> Result<IpLayout, PacketError> {
    if bytes.len() < IPV6_HEADER_LEN {
        return Err(PacketError::Truncated);
    }
    let total_len = IPV6_HEADER_LEN + usize::from(u16_at(bytes, 4));
    let packet = bytes.get(..total_len).ok_or(PacketError::Truncated)?;
    let mut next = packet[6];
    let mut at = IPV6_HEADER_LEN;
    loop {
        // IANA, "IPv6 Extension Header Types".
        match next {
            PROTOCOL_TCP => {
                return Ok(IpLayout {
                    version: IpVersion::V6,
                    header_len: at,
                    total_len,
                });
            }
            // Hop-by-hop options come first or not at all (RFC 8200, section 4.1).
            0 if at != IPV6_HEADER_LEN => return Err(PacketError::UnknownExtensionHeader),
            0 | 43 | 60 => {
                let header = extension_header(packet, at)?;
                match next {
                    43 if header[3] != 0 => return Err(PacketError::SourceRouted),
                    60 if has_home_address(&header[2..]) => return Err(PacketError::SourceRouted),
                    _ => {}
                }
                next = header[0];
                at += header.len();
            }
            44 => return Err(PacketError::Fragment),
            50 | 51 | 135 | 139 | 140 | 253 | 254 => {
                return Err(PacketError::UnknownExtensionHeader);
            }
            _ => return Err(PacketError::NotTcp),
        }
    }
}

/// The extension header at `at`: at least 8 bytes.
fn extension_header(packet: &[u8], at: usize) -> Result<&[u8], PacketError> {
    let units = *packet.get(at + 1).ok_or(PacketError::BadHeader)?;
    let len = (usize::from(units) + 1) * 8;
    packet.get(at..at + len).ok_or(PacketError::BadHeader)
}

/// Whether a destination options header carries a home address. Options that do not add up count as
/// "yes": in doubt the packet is left alone.
fn has_home_address(mut options: &[u8]) -> bool {
    while let [kind, rest @ ..] = options {
        match (kind, rest) {
            (0, _) => options = rest,
            (&OPTION_HOME_ADDRESS, _) | (_, []) => return true,
            (_, [len, data @ ..]) => match data.get(usize::from(*len)..) {
                Some(after) => options = after,
                None => return true,
            },
        }
    }
    false
}
