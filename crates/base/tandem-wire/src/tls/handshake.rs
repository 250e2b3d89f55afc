//! Handshake messages: their types, the limit on their length, and how one is written.
//!
//! ```text
//!  | type: 1 | length: 3 | body |
//! ```
//!
//! Is not: where messages lie in a stream ([`super::stream`]), nor their bodies.
//!
//! Specifications: RFC 5246, section 7.4; RFC 8446, section 4.

use super::writer;
use crate::error::TlsError;

/// Length of a handshake message's header: type and length.
pub const HEADER_LEN: usize = 4;

/// Longest message body that is handled, in bytes. OpenSSL takes certificate messages of at most
/// 102,400 bytes by default, but a capture of a real one has 339,629, and hash-based signatures
/// (SLH-DSA-256f: 49,856 bytes each, FIPS 205) add up.
pub const MAX_BODY_LEN: usize = 1 << 19;

/// A handshake message's type number (IANA, "TLS HandshakeType").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandshakeType(pub u8);

impl HandshakeType {
    /// RFC 5246: asks the client for a new handshake.
    pub const HELLO_REQUEST: Self = Self(0);
    /// ClientHello.
    pub const CLIENT_HELLO: Self = Self(1);
    /// ServerHello, and in TLS 1.3 HelloRetryRequest.
    pub const SERVER_HELLO: Self = Self(2);
    /// NewSessionTicket (RFC 5077, RFC 8446).
    pub const NEW_SESSION_TICKET: Self = Self(4);
    /// HelloRetryRequest of TLS 1.3 drafts before 22.
    pub const HELLO_RETRY_REQUEST: Self = Self(6);
    /// EncryptedExtensions (RFC 8446).
    pub const ENCRYPTED_EXTENSIONS: Self = Self(8);
    /// Certificate.
    pub const CERTIFICATE: Self = Self(11);
    /// ServerKeyExchange.
    pub const SERVER_KEY_EXCHANGE: Self = Self(12);
    /// CertificateRequest.
    pub const CERTIFICATE_REQUEST: Self = Self(13);
    /// ServerHelloDone.
    pub const SERVER_HELLO_DONE: Self = Self(14);
    /// CertificateVerify.
    pub const CERTIFICATE_VERIFY: Self = Self(15);
    /// ClientKeyExchange.
    pub const CLIENT_KEY_EXCHANGE: Self = Self(16);
    /// Finished.
    pub const FINISHED: Self = Self(20);
    /// CertificateStatus (RFC 6066).
    pub const CERTIFICATE_STATUS: Self = Self(22);
    /// CompressedCertificate (RFC 8879).
    pub const COMPRESSED_CERTIFICATE: Self = Self(25);
}

/// Appends a message: header and body.
///
/// # Errors
/// [`TlsError::FieldTooLong`] for a body of more than 2^24 - 1 bytes; `out` is as before then.
pub fn write_message(
    out: &mut Vec<u8>,
    msg_type: HandshakeType,
    body: &[u8],
) -> Result<(), TlsError> {
    let before = out.len();
    out.push(msg_type.0);
    writer::vec24(out, body).inspect_err(|_| out.truncate(before))
}
