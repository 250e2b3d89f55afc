//! Where the transport header of an IP packet is: all that a link needs to
//! corrupt a packet, count TLS bytes and answer with ICMP.
//!
//! Not a validating parser: `tandem_wire::packet` is. This one reads packets
//! that have been damaged on purpose, tells what it can and says `None` where
//! it cannot; it never panics.

use std::ops::Range;

/// IP protocol numbers (IANA "Assigned Internet Protocol Numbers").
pub(crate) const PROTOCOL_ICMP: u8 = 1;
/// See [`PROTOCOL_ICMP`].
pub(crate) const PROTOCOL_TCP: u8 = 6;
/// See [`PROTOCOL_ICMP`].
pub(crate) const PROTOCOL_UDP: u8 = 17;
/// See [`PROTOCOL_ICMP`].
pub(crate) const PROTOCOL_ICMPV6: u8 = 58;

/// Length of an IPv4 header without options (RFC 791, section 3.1).
pub(crate) const IPV4_HEADER: usize = 20;
/// Length of the fixed IPv6 header (RFC 8200, section 3).
pub(crate) const IPV6_HEADER: usize = 40;

const UDP_CHECKSUM_AT: usize = 6;
const TCP_CHECKSUM_AT: usize = 16;

/// The version of an IP packet and where its parts are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) version: IpVersion,
    /// What follows the IP header: the protocol, or IPv6's next header, which
    /// may be an extension header.
    pub(crate) protocol: u8,
    /// From the end of the IP header to the end of the packet.
    pub(crate) transport: Range<usize>,
    /// A fragment other than a whole packet: its transport header may be
    /// elsewhere.
    pub(crate) fragment: bool,
}

/// Which IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IpVersion {
    /// RFC 791.
    V4,
    /// RFC 8200.
    V6,
}

impl Layout {
    pub(crate) fn of(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::of_v4(packet),
            6 => Self::of_v6(packet),
            _ => None,
        }
    }

    fn of_v4(packet: &[u8]) -> Option<Self> {
        let header = usize::from(packet.first()? & 0x0f) * 4;
        let total = usize::from(be16(packet, 2)?);
        if header < IPV4_HEADER || total < header || total > packet.len() {
            return None;
        }
        // More Fragments, or an offset (RFC 791, section 3.1).
        let fragment = be16(packet, 6)? & 0x3fff != 0;
        Some(Self {
            version: IpVersion::V4,
            protocol: *packet.get(9)?,
            transport: header..total,
            fragment,
        })
    }

    fn of_v6(packet: &[u8]) -> Option<Self> {
        let total = IPV6_HEADER + usize::from(be16(packet, 4)?);
        if total > packet.len() {
            return None;
        }
        Some(Self {
            version: IpVersion::V6,
            protocol: *packet.get(6)?,
            transport: IPV6_HEADER..total,
            fragment: false,
        })
    }

    /// Where the transport's checksum is, for whole TCP and UDP packets.
    pub(crate) fn checksum_at(&self) -> Option<usize> {
        let offset = match self.protocol {
            PROTOCOL_TCP => TCP_CHECKSUM_AT,
            PROTOCOL_UDP => UDP_CHECKSUM_AT,
            _ => return None,
        };
        let at = self.transport.start + offset;
        (!self.fragment && at + 2 <= self.transport.end).then_some(at)
    }

    /// Source port, destination port and payload of a whole TCP segment.
    pub(crate) fn tcp(&self, packet: &[u8]) -> Option<TcpParts> {
        if self.protocol != PROTOCOL_TCP || self.fragment {
            return None;
        }
        let start = self.transport.start;
        let header = usize::from(packet.get(start + 12)? >> 4) * 4;
        let payload = start + header..self.transport.end;
        (payload.start <= payload.end).then_some(TcpParts {
            source_port: be16(packet, start)?,
            destination_port: be16(packet, start + 2)?,
            payload,
        })
    }
}

/// What a link counts by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TcpParts {
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) payload: Range<usize>,
}

/// Two bytes in network order.
pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    let pair = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([*pair.first()?, *pair.get(1)?]))
}

/// Writes two bytes in network order; nothing where there is no room.
pub(crate) fn put_be16(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(pair) = bytes.get_mut(at..at + 2) {
        pair.copy_from_slice(&value.to_be_bytes());
    }
}

/// The Internet checksum over some pieces, each but the last of even length
/// (RFC 1071).
pub(crate) fn internet_checksum(pieces: &[&[u8]]) -> u16 {
    let mut sum = 0u64;
    for piece in pieces {
        for pair in piece.chunks(2) {
            let high = pair.first().copied().unwrap_or(0);
            let low = pair.get(1).copied().unwrap_or(0);
            sum += u64::from(u16::from_be_bytes([high, low]));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // Folded to 16 bits above.
    !((sum & 0xffff) as u16)
}

/// The checksum after one 16-bit word under it changed (RFC 1624, equation 3).
pub(crate) fn checksum_after(checksum: u16, old_word: u16, new_word: u16) -> u16 {
    let mut sum = u32::from(!checksum) + u32::from(!old_word) + u32::from(new_word);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // Folded to 16 bits above.
    !((sum & 0xffff) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_1624_example() {
        // RFC 1624, section 4: HC 0xDD2F, m 0x5555, m' 0x3285 gives 0x0000.
        assert_eq!(checksum_after(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn garbage_has_no_layout() {
        for bytes in [
            &[][..],
            &[0x45],
            &[0x60; 10],
            &[0x00; 40],
            &[0x41; 40],
            &[0x4f; 30],
        ] {
            assert_eq!(Layout::of(bytes), None);
        }
    }
}
