//! Why bytes are refused. A refusal is never a fault of the program: the bytes' owner leaves them
//! untouched.
//!
//! [`PacketError`] and [`TlsError`] say which; in each, the last variants are faults of the caller
//! (values that do not fit the format), all others are properties of the input.

use thiserror::Error;

/// Why a packet is left alone, or could not be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum PacketError {
    /// The first nibble is neither 4 nor 6.
    #[error("neither IPv4 nor IPv6")]
    NotIp,
    /// Fewer bytes than the headers say.
    #[error("shorter than its headers say")]
    Truncated,
    /// The IP payload is something else than TCP.
    #[error("not TCP")]
    NotTcp,
    /// An IP fragment, also one with a fragment header that covers the whole packet (RFC 6946).
    #[error("an IP fragment")]
    Fragment,
    /// An IPv6 extension header other than hop-by-hop options, destination options and routing, or
    /// one in a place where it must not be.
    #[error("an IPv6 extension header that is not handled")]
    UnknownExtensionHeader,
    /// A source route or a home address: the checksum covers other addresses than the header's.
    #[error("the TCP checksum covers other addresses than the IP header's")]
    SourceRouted,
    /// A header length or total length that cannot be (also IPv6 jumbograms and IPv4 packets of
    /// length 0).
    #[error("an impossible length in an IP or TCP header")]
    BadHeader,
    /// TCP options that do not add up.
    #[error("malformed TCP options")]
    BadOptions,
    /// Caller: the packet would be longer than 65,535 bytes.
    #[error("more than an IP packet holds")]
    TooLong,
    /// Caller: TCP options of more than 40 bytes or not a multiple of 4.
    #[error("TCP options of a length that the header cannot express")]
    OptionsLength,
    /// Caller: one address is IPv4, the other IPv6.
    #[error("addresses of two families")]
    MixedFamilies,
}

/// Why bytes are not TLS in clear, or could not be written as TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum TlsError {
    /// The first byte of a record is no content type of TLS.
    #[error("no TLS content type: {0}")]
    BadContentType(u8),
    /// The record's version is not 3.0 to 3.4.
    #[error("no TLS record version: {0:#06x}")]
    BadRecordVersion(u16),
    /// A record longer than [`crate::tls::record::MAX_FRAGMENT_LEN`].
    #[error("a record of {0} bytes")]
    RecordTooLong(u16),
    /// A ClientHello in the record format of SSL 2.0 (RFC 5246, appendix E.2).
    #[error("an SSL 2.0 hello")]
    SslV2Hello,
    /// A handshake, alert or ChangeCipherSpec record without content (RFC 5246, section 6.2.1).
    #[error("an empty record of a type that must have content")]
    EmptyFragment,
    /// A record of another type in the middle of a handshake message (RFC 8446, section 5.1), or a
    /// type that has no place in a clear handshake.
    #[error("a record that has no place here")]
    UnexpectedRecord,
    /// A length field reaches past the end of its message.
    #[error("a field reaches past the end of its message")]
    Truncated,
    /// Bytes follow the last field.
    #[error("bytes follow the last field")]
    TrailingBytes,
    /// A length that the field's definition forbids (odd, zero, too large).
    #[error("a length that its field forbids")]
    BadLength,
    /// More list entries than this crate handles.
    #[error("more entries than are handled")]
    TooMany,
    /// A CertificateStatus of a type that is neither ocsp nor ocsp_multi.
    #[error("certificate status type {0}")]
    UnknownStatusType(u8),
    /// Caller: a field is longer than its length prefix can say.
    #[error("a field is longer than its length prefix can say")]
    FieldTooLong,
}

/// Caller: the TCP options area (40 bytes) has no room for that option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[error("the TCP options area has no room for that")]
pub struct NoRoom;
