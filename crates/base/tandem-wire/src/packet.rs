//! One whole IP packet that carries one unfragmented TCP segment: a view, an edit, and a builder.
//!
//! ```text
//!  0            ip header      header_len            bytes().len()     input.len()
//!  | IP + options or extensions | TCP + options | payload | link-layer padding |
//! ```
//!
//! It is not a reassembler of fragments and repairs nothing: a packet with a wrong checksum parses,
//! and [`TcpPacket::checksums_valid`] says so.
//!
//! Specifications: RFC 791, RFC 8200, RFC 9293.

mod build;
mod template;

use std::net::SocketAddr;

pub use build::{Edit, SegmentRepr};
pub use template::Template;

use crate::error::PacketError;
use crate::ip::IpLayout;
use crate::seq::Seq;
use crate::tcp::{self, TcpFlags, TcpOptions, Timestamps};

/// Where in the TCP header the checksum lies (RFC 9293, section 3.1).
const CHECKSUM_AT: usize = 16;

/// A validated view on a packet.
#[derive(Clone, Copy, Debug)]
pub struct TcpPacket<'a> {
    bytes: &'a [u8],
    ip: IpLayout,
    tcp_header_len: usize,
}

impl<'a> TcpPacket<'a> {
    /// Validates `bytes`, which begin with the IP header. Bytes after the packet's own total length
    /// are ignored.
    ///
    /// # Errors
    /// A [`PacketError`] that says why the packet must be left alone.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let ip = IpLayout::parse(bytes)?;
        let bytes = &bytes[..ip.total_len];
        let tcp = &bytes[ip.header_len..];
        if tcp.len() < tcp::HEADER_LEN {
            return Err(PacketError::BadHeader);
        }
        let tcp_header_len = usize::from(tcp[12] >> 4) * 4;
        if tcp_header_len < tcp::HEADER_LEN || tcp_header_len > tcp.len() {
            return Err(PacketError::BadHeader);
        }
        TcpOptions::parse(&tcp[tcp::HEADER_LEN..tcp_header_len])?;
        Ok(Self {
            bytes,
            ip,
            tcp_header_len,
        })
    }

    /// Sender's address and port.
    #[must_use]
    #[inline]
    pub fn source(&self) -> SocketAddr {
        SocketAddr::new(self.ip.source(self.bytes), self.tcp_u16(0))
    }

    /// Receiver's address and port.
    #[must_use]
    #[inline]
    pub fn destination(&self) -> SocketAddr {
        SocketAddr::new(self.ip.destination(self.bytes), self.tcp_u16(2))
    }

    /// Sequence number of the first payload byte, or of the SYN.
    #[must_use]
    #[inline]
    pub fn seq(&self) -> Seq {
        Seq(self.tcp_u32(4))
    }

    /// Acknowledgement number; means something only with [`TcpFlags::ACK`].
    #[must_use]
    #[inline]
    pub fn ack(&self) -> Seq {
        Seq(self.tcp_u32(8))
    }

    /// Flags, reserved bits included.
    #[must_use]
    #[inline]
    pub fn flags(&self) -> TcpFlags {
        TcpFlags(self.tcp_u16(12) & TcpFlags::ALL.0)
    }

    /// The window field, unscaled.
    #[must_use]
    #[inline]
    pub fn window(&self) -> u16 {
        self.tcp_u16(14)
    }

    /// The urgent pointer; means something only with [`TcpFlags::URG`].
    #[must_use]
    pub fn urgent_pointer(&self) -> u16 {
        self.tcp_u16(18)
    }

    /// The options.
    #[must_use]
    #[inline]
    pub fn options(&self) -> TcpOptions<'a> {
        TcpOptions::validated(self.options_bytes())
    }

    /// The options area with its padding.
    #[must_use]
    #[inline]
    pub fn options_bytes(&self) -> &'a [u8] {
        &self.bytes[self.ip.header_len + tcp::HEADER_LEN..self.header_len()]
    }

    /// The timestamps option.
    #[must_use]
    #[inline]
    pub fn timestamps(&self) -> Option<Timestamps> {
        self.options().timestamps()
    }

    /// The payload.
    #[must_use]
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len()..]
    }

    /// The packet: exactly as many bytes as its IP header says.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes before the payload: IP and TCP headers with options and extension headers.
    #[must_use]
    #[inline]
    pub fn header_len(&self) -> usize {
        self.ip.header_len + self.tcp_header_len
    }

    /// Time to live (IPv4) or hop limit (IPv6).
    #[must_use]
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        self.ip.hop_limit(self.bytes)
    }

    /// The sequence number behind the payload.
    #[must_use]
    #[inline]
    pub fn end(&self) -> Seq {
        self.seq().after(self.payload().len())
    }

    /// Sequence numbers that the segment takes: payload, one for SYN, one for FIN (SEG.LEN of RFC
    /// 9293, section 3.4).
    #[must_use]
    #[inline]
    pub fn sequence_len(&self) -> u32 {
        let flags = self.flags();
        // A payload has at most 65,535 bytes.
        u32::try_from(self.payload().len()).unwrap_or(u32::MAX)
            + u32::from(flags.contains(TcpFlags::SYN))
            + u32::from(flags.contains(TcpFlags::FIN))
    }

    /// Whether the IPv4 header checksum and the TCP checksum are right. Reads the whole packet.
    ///
    /// A packet that segmentation offload has not finished yet fails this.
    #[must_use]
    pub fn checksums_valid(&self) -> bool {
        self.ip.header_checksum_valid(self.bytes) && self.tcp_checksum_valid()
    }

    fn tcp_checksum_valid(&self) -> bool {
        let segment = &self.bytes[self.ip.header_len..];
        // A segment is at most 65,535 bytes long: both IP versions count it in 16 bits.
        let length = u16::try_from(segment.len()).unwrap_or(u16::MAX);
        self.ip
            .pseudo_sum(self.bytes, length)
            .add(segment)
            .is_valid()
    }

    #[inline]
    fn tcp_u16(&self, at: usize) -> u16 {
        let at = self.ip.header_len + at;
        u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    #[inline]
    fn tcp_u32(&self, at: usize) -> u32 {
        let at = self.ip.header_len + at;
        u32::from_be_bytes([
            self.bytes[at],
            self.bytes[at + 1],
            self.bytes[at + 2],
            self.bytes[at + 3],
        ])
    }
}

#[cfg(test)]
mod tests;
