//! UDP in IPv4 and IPv6: whole datagrams read, answers to them written, in pieces where they are
//! long, and the ICMP message in their place.
//!
//! It is not a general parser: what has IP options, extension headers, a wrong checksum, or bytes
//! behind the datagram (RFC 9868) is none of its datagrams, and its owner leaves it untouched.
//!
//! Specifications: RFC 768 and 8200, section 8.1 (UDP), RFC 791 and 8200 (IP), RFC 792, 1122 and
//! 4443 (ICMP).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::checksum::Sum;
use crate::ip::{IPV4_HEADER_LEN, IPV6_HEADER_LEN};

/// IP protocol numbers (IANA).
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const IPV6_FRAGMENT: u8 = 44;

/// Length of a UDP header.
const HEADER_LEN: usize = 8;

/// "More fragments" in IPv4 (RFC 791, section 3.1).
const MORE_FRAGMENTS: u16 = 0x2000;

/// Bytes in a piece: with the headers of IPv6 as many as any link takes (RFC 8200, section 5).
const PIECE: usize = 1_280 - IPV6_HEADER_LEN - 8;

/// Hops that a packet made here may take (IANA, "IP Option Numbers", default TTL).
const HOPS: u8 = 64;

/// A datagram and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpPacket<'a> {
    /// Whose it is. Its port is not 0: it can be answered.
    pub source: SocketAddr,
    /// Where it goes.
    pub destination: SocketAddr,
    /// What it says.
    pub payload: &'a [u8],
}

impl<'a> UdpPacket<'a> {
    /// The datagram in an IP packet, if it is a whole one. Bytes behind the packet's own length are
    /// padding.
    #[must_use]
    pub fn parse(packet: &'a [u8]) -> Option<Self> {
        let (ends, datagram) = match packet.first()? >> 4 {
            4 => v4(packet)?,
            6 => v6(packet)?,
            _ => return None,
        };
        let (head, payload) = datagram.split_first_chunk::<HEADER_LEN>()?;
        let [source, destination, length, checksum] = words(head);
        if usize::from(length) != datagram.len() || source == 0 {
            return None;
        }
        // Without one in IPv4 it is taken as it is (RFC 768); IPv6 has to have it (RFC 8200,
        // section 8.1).
        let is_intact = match checksum {
            0 => ends.source.is_ipv4(),
            _ => ends.pseudo(UDP, datagram.len()).add(datagram).is_valid(),
        };
        is_intact.then_some(Self {
            source: SocketAddr::new(ends.source, source),
            destination: SocketAddr::new(ends.destination, destination),
            payload,
        })
    }

    /// It as an IP packet; the kernel writes IPv4's identification and checksum. `None` where the
    /// addresses are of two versions of IP, or it is too long.
    #[must_use]
    pub fn write(&self) -> Option<Vec<u8>> {
        let ends = Ends::of(self.source.ip(), self.destination.ip());
        let mut packet = ends.header(UDP, HEADER_LEN + self.payload.len())?;
        let start = packet.len();
        let length = u16::try_from(HEADER_LEN + self.payload.len()).ok()?;
        packet.extend_from_slice(&self.source.port().to_be_bytes());
        packet.extend_from_slice(&self.destination.port().to_be_bytes());
        packet.extend_from_slice(&length.to_be_bytes());
        packet.extend_from_slice(&[0; 2]);
        packet.extend_from_slice(self.payload);
        let datagram = packet.get_mut(start..)?;
        let sum = ends.pseudo(UDP, datagram.len()).add(datagram).checksum();
        // Zero stands for "none" (RFC 768).
        let sum = if sum == 0 { 0xffff } else { sum };
        datagram.get_mut(6..8)?.copy_from_slice(&sum.to_be_bytes());
        Some(packet)
    }
}

/// The pieces of a packet that [`UdpPacket::write`] made, for a link that does not take it whole.
/// No other packet between the same addresses may have this identification at the same time.
#[must_use]
pub fn fragments(packet: &[u8], identification: u32) -> Vec<Vec<u8>> {
    let is_v4 = packet.first().is_some_and(|first| first >> 4 == 4);
    let header_len = if is_v4 {
        IPV4_HEADER_LEN
    } else {
        IPV6_HEADER_LEN
    };
    let Some((header, content)) = packet.split_at_checked(header_len) else {
        return Vec::new();
    };
    let mut pieces = Vec::new();
    let count = content.len().div_ceil(PIECE);
    // Lengths fit 16 bits, since those of the packet do.
    let two = |number: usize| u16::try_from(number).unwrap_or(u16::MAX).to_be_bytes();
    for (number, content) in content.chunks(PIECE).enumerate() {
        let is_last = number + 1 == count;
        let mut piece = header.to_vec();
        if is_v4 {
            let offset = u16::try_from(number * PIECE / 8).unwrap_or(u16::MAX);
            let flags = if is_last { 0 } else { MORE_FRAGMENTS };
            // 0 would have the kernel choose.
            let [_, _, high, low] = (identification | 1 << 15).to_be_bytes();
            piece[2..4].copy_from_slice(&two(IPV4_HEADER_LEN + content.len()));
            piece[4..6].copy_from_slice(&[high, low]);
            piece[6..8].copy_from_slice(&(offset | flags).to_be_bytes());
        } else {
            let offset = u16::try_from(number * PIECE).unwrap_or(u16::MAX);
            let flags = u16::from(!is_last);
            piece[4..6].copy_from_slice(&two(8 + content.len()));
            let next = std::mem::replace(&mut piece[6], IPV6_FRAGMENT);
            piece.extend_from_slice(&[next, 0]);
            piece.extend_from_slice(&(offset | flags).to_be_bytes());
            piece.extend_from_slice(&identification.to_be_bytes());
        }
        piece.extend_from_slice(content);
        pieces.push(piece);
    }
    pieces
}

/// Why a datagram did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// There is no way to the network.
    Network,
    /// The host does not answer.
    Host,
    /// Nobody has the port.
    Port,
    /// A network on the way does not let it through.
    Prohibited,
}

impl Unreachable {
    /// The codes of type 3 (RFC 792; RFC 1812, section 5.2.7.1).
    fn v4(self) -> u8 {
        match self {
            Self::Network => 0,
            Self::Host => 1,
            Self::Port => 3,
            Self::Prohibited => 13,
        }
    }

    /// The codes of type 1 (RFC 4443, section 3.1).
    fn v6(self) -> u8 {
        match self {
            Self::Network => 0,
            Self::Prohibited => 1,
            Self::Host => 3,
            Self::Port => 4,
        }
    }

    /// The ICMP packet that says so to whoever sent from `source`: from `destination`, with the
    /// headers of an empty datagram, which is as much as a host looks at (RFC 1122, section
    /// 3.2.2.1). `None` where the addresses are of two versions of IP.
    #[must_use]
    pub fn write(self, source: SocketAddr, destination: SocketAddr) -> Option<Vec<u8>> {
        let quoted = UdpPacket {
            source,
            destination,
            payload: &[],
        };
        let mut quoted = quoted.write()?;
        let ends = Ends::of(destination.ip(), source.ip());
        let is_v4 = source.is_ipv4();
        let (protocol, kind, code) = if is_v4 {
            // No router forwards it any more, so that the sum of its header is its owner's.
            let sum = Sum::default()
                .add(quoted.get(..IPV4_HEADER_LEN)?)
                .checksum();
            quoted.get_mut(10..12)?.copy_from_slice(&sum.to_be_bytes());
            (ICMP, 3, self.v4())
        } else {
            (ICMPV6, 1, self.v6())
        };
        let length = 8 + quoted.len();
        let mut packet = ends.header(protocol, length)?;
        let start = packet.len();
        packet.extend_from_slice(&[kind, code, 0, 0, 0, 0, 0, 0]);
        packet.extend_from_slice(&quoted);
        let message = packet.get_mut(start..)?;
        let sum = if is_v4 {
            Sum::default()
        } else {
            ends.pseudo(ICMPV6, length)
        };
        let sum = sum.add(message).checksum();
        message.get_mut(2..4)?.copy_from_slice(&sum.to_be_bytes());
        Some(packet)
    }
}

/// The addresses of a packet, of one version of IP.
struct Ends {
    source: IpAddr,
    destination: IpAddr,
}

impl Ends {
    fn of(source: IpAddr, destination: IpAddr) -> Self {
        Self {
            source,
            destination,
        }
    }

    /// The sum over the pseudo-header (RFC 768; RFC 8200, section 8.1).
    fn pseudo(&self, protocol: u8, length: usize) -> Sum {
        let sum = Sum::default();
        let sum = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                sum.add(&source.octets()).add(&destination.octets())
            }
            (source, destination) => sum.add(&v6_of(source)).add(&v6_of(destination)),
        };
        let length = u16::try_from(length).unwrap_or(u16::MAX);
        sum.add_u16(protocol.into()).add_u16(length)
    }

    /// An IP header for so many bytes; IPv4's checksum is the kernel's to write.
    fn header(&self, protocol: u8, length: usize) -> Option<Vec<u8>> {
        let mut header = Vec::with_capacity(IPV6_HEADER_LEN + length);
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let length = u16::try_from(IPV4_HEADER_LEN + length).ok()?;
                header.extend_from_slice(&[0x45, 0]);
                header.extend_from_slice(&length.to_be_bytes());
                header.extend_from_slice(&[0, 0, 0, 0, HOPS, protocol, 0, 0]);
                header.extend_from_slice(&source.octets());
                header.extend_from_slice(&destination.octets());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let length = u16::try_from(length).ok()?;
                header.extend_from_slice(&[0x60, 0, 0, 0]);
                header.extend_from_slice(&length.to_be_bytes());
                header.extend_from_slice(&[protocol, HOPS]);
                header.extend_from_slice(&source.octets());
                header.extend_from_slice(&destination.octets());
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return None,
        }
        Some(header)
    }
}

fn v6_of(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

fn words(bytes: &[u8; HEADER_LEN]) -> [u16; HEADER_LEN / 2] {
    let (pairs, _) = bytes.as_chunks::<2>();
    let mut words = [0; HEADER_LEN / 2];
    for (word, pair) in words.iter_mut().zip(pairs) {
        *word = u16::from_be_bytes(*pair);
    }
    words
}

fn v4(packet: &[u8]) -> Option<(Ends, &[u8])> {
    let [
        version,
        _,
        l0,
        l1,
        _,
        _,
        f0,
        f1,
        _,
        protocol,
        _,
        _,
        ends @ ..,
    ] = packet.first_chunk::<IPV4_HEADER_LEN>()?;
    let is_fragment = u16::from_be_bytes([*f0, *f1]) & 0x3fff != 0;
    // 0x45: without options.
    if *version != 0x45 || is_fragment || *protocol != UDP {
        return None;
    }
    let length = u16::from_be_bytes([*l0, *l1]);
    let [a, b, c, d, e, f, g, h] = *ends;
    let ends = Ends::of(
        Ipv4Addr::new(a, b, c, d).into(),
        Ipv4Addr::new(e, f, g, h).into(),
    );
    Some((ends, packet.get(IPV4_HEADER_LEN..usize::from(length))?))
}

fn v6(packet: &[u8]) -> Option<(Ends, &[u8])> {
    let [_, _, _, _, l0, l1, next, _, ends @ ..] = packet.first_chunk::<IPV6_HEADER_LEN>()?;
    if *next != UDP {
        return None;
    }
    let length = usize::from(u16::from_be_bytes([*l0, *l1]));
    let (source, destination) = ends.split_first_chunk::<16>()?;
    let destination = destination.first_chunk::<16>()?;
    let ends = Ends::of(
        Ipv6Addr::from(*source).into(),
        Ipv6Addr::from(*destination).into(),
    );
    let end = IPV6_HEADER_LEN + length;
    Some((ends, packet.get(IPV6_HEADER_LEN..end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    fn packet<'a>(source: &str, destination: &str, payload: &'a [u8]) -> UdpPacket<'a> {
        UdpPacket {
            source: address(source),
            destination: address(destination),
            payload,
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for payload in [&b""[..], b"x", b"hello", &[7; 65_507 - 20]] {
            for sent in [
                packet("192.0.2.1:443", "198.51.100.7:50000", payload),
                packet("[2001:db8::1]:443", "[2001:db8::2]:50000", payload),
            ] {
                let bytes = sent.write().expect("it fits");
                assert_eq!(UdpPacket::parse(&bytes), Some(sent));
                // Padding of the link's.
                let padded = [&bytes[..], &[0; 9]].concat();
                assert_eq!(UdpPacket::parse(&padded), Some(sent));
                for cut in [0, 1, 19, 27, bytes.len() - 1] {
                    assert_eq!(UdpPacket::parse(&bytes[..cut]), None, "cut at {cut}");
                }
            }
        }
        let mixed = packet("192.0.2.1:443", "[2001:db8::2]:50000", b"");
        assert_eq!(mixed.write(), None);
        let long = [0; 65_508];
        assert_eq!(packet("192.0.2.1:1", "192.0.2.2:2", &long).write(), None);
    }

    /// Its checksums were computed by a program of a few lines of Python.
    #[test]
    fn a_packet_that_another_program_made_is_read() {
        let text = "450000220000400040113cc97f0000017f000001d4310035000e033c616263646566";
        let bytes = hex(text);
        let read = UdpPacket::parse(&bytes);
        assert_eq!(
            read,
            Some(packet("127.0.0.1:54321", "127.0.0.1:53", b"abcdef"))
        );
    }

    fn hex(text: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
        (0..text.len()).step_by(2).map(digit).collect()
    }

    #[test]
    fn what_is_no_whole_datagram_by_itself_is_none() {
        let v4 = packet("192.0.2.1:443", "198.51.100.7:50000", b"hello")
            .write()
            .expect("it fits");
        let v6 = packet("[2001:db8::1]:443", "[2001:db8::2]:50000", b"hello")
            .write()
            .expect("it fits");
        for (bytes, at, value) in [
            // IP options, more fragments, an offset, TCP.
            (&v4, 0, 0x46),
            (&v4, 6, 0x20),
            (&v4, 7, 1),
            (&v4, 9, 6),
            // A length that leaves bytes over, or is too long; a wrong byte.
            (&v4, 25, 12),
            (&v4, 25, 14),
            (&v4, 28, b'j'),
            // A hop-by-hop header, a wrong byte, no IP at all.
            (&v6, 6, 0),
            (&v6, 48, b'j'),
            (&v6, 0, 0x50),
        ] {
            let mut changed = bytes.clone();
            changed[at] = value;
            assert_eq!(UdpPacket::parse(&changed), None, "{value:#x} at {at}");
        }
        // No checksum: in IPv4 only.
        let mut without = v4.clone();
        without[26..28].fill(0);
        assert!(UdpPacket::parse(&without).is_some());
        let mut without = v6.clone();
        without[46..48].fill(0);
        assert_eq!(UdpPacket::parse(&without), None);
        // Nobody can answer port 0.
        let from_0 = packet("192.0.2.1:0", "198.51.100.7:50000", b"").write();
        assert_eq!(UdpPacket::parse(&from_0.expect("it fits")), None);
    }

    #[test]
    fn pieces_fit_any_link_and_together_are_the_packet() {
        let payload: Vec<u8> = (0..5_000_u16).map(|it| it as u8).collect();
        for (from, to, header_len) in [
            ("192.0.2.1:443", "198.51.100.7:50000", 20),
            ("[2001:db8::1]:443", "[2001:db8::2]:50000", 48),
        ] {
            let whole = packet(from, to, &payload).write().expect("it fits");
            let pieces = fragments(&whole, 0x1234_5678);
            assert_eq!(pieces.len(), 5);
            let content: Vec<u8> = pieces
                .iter()
                .flat_map(|it| it[header_len..].to_vec())
                .collect();
            assert!(whole.ends_with(&content));
            assert_eq!(content.len(), 8 + payload.len());
            for (number, piece) in pieces.iter().enumerate() {
                assert!(piece.len() <= 1_280);
                assert_eq!(UdpPacket::parse(piece), None);
                let more = number < 4;
                match header_len {
                    20 => {
                        let flags = u16::from_be_bytes([piece[6], piece[7]]);
                        assert_eq!(usize::from(flags & 0x1fff) * 8, number * PIECE);
                        assert_eq!(flags & MORE_FRAGMENTS != 0, more);
                        assert_eq!(piece[4..6], [0xd6, 0x78]);
                        let length = u16::from_be_bytes([piece[2], piece[3]]);
                        assert_eq!(usize::from(length), piece.len());
                    }
                    _ => {
                        assert_eq!((piece[6], piece[40]), (44, 17));
                        let flags = u16::from_be_bytes([piece[42], piece[43]]);
                        assert_eq!(usize::from(flags & !7), number * PIECE);
                        assert_eq!(flags & 1 == 1, more);
                        assert_eq!(piece[44..48], [0x12, 0x34, 0x56, 0x78]);
                        let length = u16::from_be_bytes([piece[4], piece[5]]);
                        assert_eq!(usize::from(length), piece.len() - 40);
                    }
                }
            }
        }
        assert!(fragments(&[], 1).is_empty());
        assert!(fragments(&[0x45], 1).is_empty());
    }

    #[test]
    fn an_icmp_message_names_the_datagram_and_is_intact() {
        let (client, server) = (address("192.0.2.1:50000"), address("198.51.100.7:443"));
        let message = Unreachable::Port
            .write(client, server)
            .expect("one version");
        assert_eq!(message.len(), 56);
        assert_eq!(message[9], ICMP);
        assert_eq!(message[12..20], [198, 51, 100, 7, 192, 0, 2, 1]);
        assert_eq!(message[20..22], [3, 3]);
        assert!(Sum::default().add(&message[20..]).is_valid());
        // The header that it names is whole, too.
        assert!(Sum::default().add(&message[28..48]).is_valid());
        let quoted = UdpPacket::parse(&message[28..]).expect("a datagram");
        assert_eq!((quoted.source, quoted.destination), (client, server));

        let (client, server) = (address("[2001:db8::1]:50000"), address("[2001:db8::2]:443"));
        let message = Unreachable::Prohibited.write(client, server);
        let message = message.expect("one version");
        assert_eq!(message.len(), 96);
        assert_eq!((message[6], message[40], message[41]), (ICMPV6, 1, 1));
        let ends = Ends::of(server.ip(), client.ip());
        assert!(ends.pseudo(ICMPV6, 56).add(&message[40..]).is_valid());
        let quoted = UdpPacket::parse(&message[48..]).expect("a datagram");
        assert_eq!((quoted.source, quoted.destination), (client, server));

        let mixed = Unreachable::Host.write(client, address("198.51.100.7:443"));
        assert_eq!(mixed, None);
        for (why, v4, v6) in [
            (Unreachable::Network, 0, 0),
            (Unreachable::Host, 1, 3),
            (Unreachable::Port, 3, 4),
            (Unreachable::Prohibited, 13, 1),
        ] {
            assert_eq!((why.v4(), why.v6()), (v4, v6), "{why:?}");
        }
    }
}
