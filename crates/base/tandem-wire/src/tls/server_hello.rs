//! ServerHello, HelloRetryRequest in its shape, and the shorter form of the TLS 1.3 drafts before
//! 22.
//!
//! ```text
//!  | version: 2 | random: 32 | session id: 1 + 0..32 | cipher suite: 2 | compression: 1 | extensions, or nothing |
//!  | version: 2 = 0x7f00 to 0x7f15 | random: 32 | cipher suite: 2 | extensions |            (drafts up to 21)
//! ```
//!
//! The HelloRetryRequest of those drafts is a message type of its own
//! ([`super::HandshakeType::HELLO_RETRY_REQUEST`]) and not parsed.
//!
//! Specifications: RFC 5246, section 7.4.1.3; RFC 8446, section 4.1.3; draft-ietf-tls-tls13-21,
//! section 4.1.3.

use super::client_hello::MAX_SESSION_ID_LEN;
use super::extension::{self, ExtensionType, Extensions};
use super::reader::Reader;
use super::version::ProtocolVersion;
use super::writer;
use crate::error::TlsError;

/// The random of a HelloRetryRequest: SHA-256 of that word (RFC 8446, section 4.1.3).
pub const HELLO_RETRY_REQUEST_RANDOM: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// Last draft of TLS 1.3 whose ServerHello has no session identifier and no compression method.
const LAST_SHORT_DRAFT: u8 = 21;

/// What the short form of the drafts leaves out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFields<B> {
    /// The session identifier: 0 to 32 bytes.
    pub session_id: B,
    /// The compression method.
    pub compression_method: u8,
}

/// A validated view on a ServerHello's body (the 4-byte handshake header is not part of it).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerHello<'a> {
    version: ProtocolVersion,
    random: &'a [u8; 32],
    session: Option<SessionFields<&'a [u8]>>,
    cipher_suite: u16,
    extensions: Option<Extensions<'a>>,
}

impl<'a> ServerHello<'a> {
    /// Validates a body.
    ///
    /// # Errors
    /// [`TlsError::Truncated`], [`TlsError::BadLength`] or [`TlsError::TrailingBytes`] where the
    /// fields do not add up.
    pub fn parse(body: &'a [u8]) -> Result<Self, TlsError> {
        let mut reader = Reader::new(body);
        let version = ProtocolVersion(reader.u16()?);
        let random = reader.array()?;
        let (session, cipher_suite) = if is_short_form(version) {
            (None, reader.u16()?)
        } else {
            let session_id = reader.vec8()?;
            if session_id.len() > MAX_SESSION_ID_LEN {
                return Err(TlsError::BadLength);
            }
            let cipher_suite = reader.u16()?;
            let compression_method = reader.u8()?;
            (
                Some(SessionFields {
                    session_id,
                    compression_method,
                }),
                cipher_suite,
            )
        };
        let extensions = Extensions::parse_rest(body, reader)?;
        Ok(Self {
            version,
            random,
            session,
            cipher_suite,
            extensions,
        })
    }

    /// The version field. In TLS 1.3 that of TLS 1.2; see [`Self::selected_version`].
    #[must_use]
    pub const fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// The version that the connection uses: that of the supported_versions extension, else the
    /// version field.
    #[must_use]
    pub fn selected_version(&self) -> ProtocolVersion {
        self.supported_version().unwrap_or(self.version)
    }

    /// Whether what follows is encrypted as in TLS 1.3: a server sends supported_versions, or a
    /// draft's number, for that or later only (RFC 8446, section 4.2.1).
    #[must_use]
    pub fn is_tls13_or_later(&self) -> bool {
        self.extensions
            .is_some_and(|block| block.contains(ExtensionType::SUPPORTED_VERSIONS))
            || self.version.0 > ProtocolVersion::TLS1_2.0
    }

    /// Whether this is a HelloRetryRequest (RFC 8446, section 4.1.4).
    #[must_use]
    pub fn is_hello_retry_request(&self) -> bool {
        *self.random == HELLO_RETRY_REQUEST_RANDOM
    }

    /// The random bytes.
    #[must_use]
    pub const fn random(&self) -> &'a [u8; 32] {
        self.random
    }

    /// The session identifier: 0 to 32 bytes; empty also in the short form.
    #[must_use]
    pub fn session_id(&self) -> &'a [u8] {
        self.session
            .as_ref()
            .map_or(&[], |session| session.session_id)
    }

    /// The cipher suite chosen.
    #[must_use]
    pub const fn cipher_suite(&self) -> u16 {
        self.cipher_suite
    }

    /// The compression method chosen: 0 for none, also in the short form.
    #[must_use]
    pub fn compression_method(&self) -> u8 {
        self.session
            .as_ref()
            .map_or(0, |session| session.compression_method)
    }

    /// The extension block; `None` where the hello ends before one.
    #[must_use]
    pub const fn extensions(&self) -> Option<Extensions<'a>> {
        self.extensions
    }

    /// Appends the same bytes that were parsed.
    pub fn write(&self, out: &mut Vec<u8>) {
        let extensions = self
            .extensions
            .map(|block| block.iter().map(|e| (e.extension_type, e.data)));
        let written = write(
            out,
            self.version,
            self.random,
            self.session.clone(),
            self.cipher_suite,
            extensions,
        );
        debug_assert!(written.is_ok(), "a view's fields fit their length prefixes");
    }

    fn supported_version(&self) -> Option<ProtocolVersion> {
        let data = self.extensions?.find(ExtensionType::SUPPORTED_VERSIONS)?;
        <[u8; 2]>::try_from(data)
            .ok()
            .map(|bytes| ProtocolVersion(u16::from_be_bytes(bytes)))
    }
}

fn is_short_form(version: ProtocolVersion) -> bool {
    version
        .tls13_draft()
        .is_some_and(|draft| draft <= LAST_SHORT_DRAFT)
}

/// An owned ServerHello for editing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerHelloRepr {
    /// The version field.
    pub version: ProtocolVersion,
    /// The random bytes.
    pub random: [u8; 32],
    /// Session identifier and compression method; `None` exactly for versions of the short form.
    pub session: Option<SessionFields<Vec<u8>>>,
    /// The cipher suite chosen.
    pub cipher_suite: u16,
    /// The extensions in order; `None` for no block at all.
    pub extensions: Option<Vec<(ExtensionType, Vec<u8>)>>,
}

impl From<&ServerHello<'_>> for ServerHelloRepr {
    fn from(hello: &ServerHello<'_>) -> Self {
        Self {
            version: hello.version,
            random: *hello.random,
            session: hello.session.as_ref().map(|session| SessionFields {
                session_id: session.session_id.to_vec(),
                compression_method: session.compression_method,
            }),
            cipher_suite: hello.cipher_suite,
            extensions: hello.extensions.map(|block| block.to_pairs()),
        }
    }
}

impl ServerHelloRepr {
    /// Appends the hello's body.
    ///
    /// # Errors
    /// [`TlsError::FieldTooLong`] where a field exceeds its length prefix, [`TlsError::BadLength`]
    /// where it would not parse; `out` is as before then.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), TlsError> {
        let session = self.session.as_ref().map(|session| SessionFields {
            session_id: session.session_id.as_slice(),
            compression_method: session.compression_method,
        });
        if session
            .as_ref()
            .is_some_and(|session| session.session_id.len() > MAX_SESSION_ID_LEN)
            || session.is_none() != is_short_form(self.version)
        {
            return Err(TlsError::BadLength);
        }
        let before = out.len();
        write(
            out,
            self.version,
            &self.random,
            session,
            self.cipher_suite,
            extension::pairs(&self.extensions),
        )
        .inspect_err(|_| out.truncate(before))
    }
}

fn write<'e>(
    out: &mut Vec<u8>,
    version: ProtocolVersion,
    random: &[u8; 32],
    session: Option<SessionFields<&[u8]>>,
    cipher_suite: u16,
    extensions: Option<impl Iterator<Item = (ExtensionType, &'e [u8])>>,
) -> Result<(), TlsError> {
    out.extend_from_slice(&version.0.to_be_bytes());
    out.extend_from_slice(random);
    if let Some(session) = &session {
        writer::vec8(out, session.session_id)?;
    }
    out.extend_from_slice(&cipher_suite.to_be_bytes());
    if let Some(session) = &session {
        out.push(session.compression_method);
    }
    extension::write_block(out, extensions)
}

#[cfg(test)]
mod tests;
