//! Packets written: an existing one with some fields changed, or a new one from nothing.
//!
//! It decides nothing about sequence numbers; it makes lengths and checksums agree with what it is
//! given.

use std::net::SocketAddr;

use super::{CHECKSUM_AT, TcpPacket};
use crate::checksum::PROTOCOL_TCP;
use crate::error::PacketError;
use crate::ip::{self, IPV4_HEADER_LEN, IPV6_HEADER_LEN, IpLayout, IpVersion};
use crate::seq::Seq;
use crate::tcp::{self, MAX_OPTIONS_LEN, TcpFlags};

/// What changes in a packet; the default changes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edit<'b> {
    /// New sequence number.
    pub seq: Option<Seq>,
    /// New acknowledgement number.
    pub ack: Option<Seq>,
    /// New flags; bits above the lowest 12 are dropped.
    pub flags: Option<TcpFlags>,
    /// New window field.
    pub window: Option<u16>,
    /// New options area: at most 40 bytes, a multiple of 4 (see [`crate::OptionsBuf`]).
    pub options: Option<&'b [u8]>,
    /// New payload.
    pub payload: Option<&'b [u8]>,
    /// How many packets further the identification counts, where others are made of the same one.
    /// Only IPv4 without DF has a use for it: what may be fragmented must be told apart (RFC
    /// 6864, section 4.1).
    pub identification_ahead: u16,
}

impl TcpPacket<'_> {
    /// The packet with `edit` applied: other IP and TCP header fields, IP options and extension
    /// headers stay; lengths and checksums are made right. Where nothing changes and the
    /// checksums were right, the same bytes.
    ///
    /// # Errors
    /// [`PacketError::TooLong`] where the IP length fields cannot hold the result,
    /// [`PacketError::OptionsLength`] or [`PacketError::BadOptions`] for an options area that
    /// cannot be.
    pub fn rebuilt(&self, edit: &Edit<'_>) -> Result<Vec<u8>, PacketError> {
        let mut packet = Vec::new();
        self.rebuild_into(edit, &mut packet)?;
        Ok(packet)
    }

    /// Like [`Self::rebuilt`], into a buffer that is cleared first; its content is unspecified
    /// after an error.
    ///
    /// # Errors
    /// As [`Self::rebuilt`].
    pub fn rebuild_into(&self, edit: &Edit<'_>, packet: &mut Vec<u8>) -> Result<(), PacketError> {
        packet.clear();
        let Edit {
            seq,
            ack,
            flags,
            window,
            options,
            payload,
            identification_ahead,
        } = *edit;
        if let Some(options) = options {
            check_options(options)?;
        }
        if seq.is_none()
            && ack.is_none()
            && flags.is_none()
            && window.is_none()
            && options.is_none()
            && payload.is_none()
            && identification_ahead == 0
            && self.checksums_valid()
        {
            packet.extend_from_slice(self.bytes);
            return Ok(());
        }
        let options = options.unwrap_or(self.options_bytes());
        let payload = payload.unwrap_or(self.payload());
        let tcp_at = self.ip.header_len;
        packet.reserve(tcp_at + tcp::HEADER_LEN + options.len() + payload.len());
        packet.extend_from_slice(&self.bytes[..tcp_at + tcp::HEADER_LEN]);
        ip::count_identification(self.ip.version, packet, identification_ahead);
        packet.extend_from_slice(options);
        packet.extend_from_slice(payload);
        let header = TcpHeader {
            seq: seq.unwrap_or(self.seq()),
            ack: ack.unwrap_or(self.ack()),
            flags: flags.unwrap_or(self.flags()),
            window: window.unwrap_or(self.window()),
            options_len: options.len(),
        };
        finish(self.ip, packet, header)
    }
}

/// A segment to be built from nothing: no IP options or extension headers, no urgent data, DF set
/// and identification 0 for IPv4, flow label 0 for IPv6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRepr {
    /// Sender's address and port.
    pub source: SocketAddr,
    /// Receiver's address and port, of the same family.
    pub destination: SocketAddr,
    /// Sequence number.
    pub seq: Seq,
    /// Acknowledgement number; written as it is, with or without [`TcpFlags::ACK`].
    pub ack: Seq,
    /// Flags; bits above the lowest 12 are dropped.
    pub flags: TcpFlags,
    /// The window field, unscaled.
    pub window: u16,
    /// Options area: at most 40 bytes, a multiple of 4 (see [`crate::OptionsBuf`]).
    pub options: Vec<u8>,
    /// Payload.
    pub payload: Vec<u8>,
    /// Time to live or hop limit.
    pub hop_limit: u8,
}

impl SegmentRepr {
    /// The packet's bytes.
    ///
    /// # Errors
    /// [`PacketError::MixedFamilies`], [`PacketError::OptionsLength`], [`PacketError::BadOptions`]
    /// or [`PacketError::TooLong`] where the values do not make a packet.
    pub fn try_build(&self) -> Result<Vec<u8>, PacketError> {
        check_options(&self.options)?;
        let (version, mut packet) = match (self.source, self.destination) {
            (SocketAddr::V4(source), SocketAddr::V4(destination)) => {
                let mut header = vec![0; IPV4_HEADER_LEN];
                header[0] = 0x45;
                header[6] = ip::DONT_FRAGMENT;
                header[8] = self.hop_limit;
                header[9] = PROTOCOL_TCP;
                header[12..16].copy_from_slice(&source.ip().octets());
                header[16..20].copy_from_slice(&destination.ip().octets());
                (IpVersion::V4, header)
            }
            (SocketAddr::V6(source), SocketAddr::V6(destination)) => {
                let mut header = vec![0; IPV6_HEADER_LEN];
                header[0] = 0x60;
                header[6] = PROTOCOL_TCP;
                header[7] = self.hop_limit;
                header[8..24].copy_from_slice(&source.ip().octets());
                header[24..40].copy_from_slice(&destination.ip().octets());
                (IpVersion::V6, header)
            }
            (SocketAddr::V4(_), SocketAddr::V6(_)) | (SocketAddr::V6(_), SocketAddr::V4(_)) => {
                return Err(PacketError::MixedFamilies);
            }
        };
        let header_len = packet.len();
        packet.reserve(tcp::HEADER_LEN + self.options.len() + self.payload.len());
        packet.extend_from_slice(&self.source.port().to_be_bytes());
        packet.extend_from_slice(&self.destination.port().to_be_bytes());
        packet.extend_from_slice(&[0; tcp::HEADER_LEN - 4]);
        packet.extend_from_slice(&self.options);
        packet.extend_from_slice(&self.payload);
        let ip = IpLayout {
            version,
            header_len,
            total_len: packet.len(),
        };
        let Self {
            seq,
            ack,
            flags,
            window,
            ..
        } = *self;
        let header = TcpHeader {
            seq,
            ack,
            flags,
            window,
            options_len: self.options.len(),
        };
        finish(ip, &mut packet, header)?;
        Ok(packet)
    }

    /// The packet's bytes, for values that are known to make a packet.
    ///
    /// # Panics
    /// Where [`Self::try_build`] fails: the caller's fault.
    #[must_use]
    pub fn build(&self) -> Vec<u8> {
        self.try_build().expect("the caller vouches for the values")
    }
}

struct TcpHeader {
    seq: Seq,
    ack: Seq,
    flags: TcpFlags,
    window: u16,
    options_len: usize,
}

fn check_options(options: &[u8]) -> Result<(), PacketError> {
    if options.len() > MAX_OPTIONS_LEN || !options.len().is_multiple_of(4) {
        return Err(PacketError::OptionsLength);
    }
    tcp::TcpOptions::parse(options).map(|_| ())
}

/// Fills in the variable TCP fields, all lengths and all checksums of a packet whose bytes are
/// otherwise in place.
fn finish(ip: IpLayout, packet: &mut [u8], header: TcpHeader) -> Result<(), PacketError> {
    ip::finish_header(ip.version, packet, ip.header_len)?;
    let (ip_header, segment) = packet.split_at_mut(ip.header_len);
    // At most 60: `check_options` or the parser bounds the options.
    let words = (tcp::HEADER_LEN + header.options_len) / 4;
    let words = u16::try_from(words).map_err(|_| PacketError::OptionsLength)?;
    segment[4..8].copy_from_slice(&header.seq.0.to_be_bytes());
    segment[8..12].copy_from_slice(&header.ack.0.to_be_bytes());
    segment[12..14]
        .copy_from_slice(&(words << 12 | (header.flags.0 & TcpFlags::ALL.0)).to_be_bytes());
    segment[14..16].copy_from_slice(&header.window.to_be_bytes());
    segment[CHECKSUM_AT..CHECKSUM_AT + 2].fill(0);
    let segment_len = u16::try_from(segment.len()).map_err(|_| PacketError::TooLong)?;
    let checksum = ip
        .pseudo_sum(ip_header, segment_len)
        .add(segment)
        .checksum();
    segment[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&checksum.to_be_bytes());
    Ok(())
}
