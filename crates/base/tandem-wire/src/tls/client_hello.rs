//! ClientHello.
//!
//! ```text
//!  | version: 2 | random: 32 | session id: 1 + 0..32 | cipher suites: 2 + 2n | compression: 1 + 1.. | extensions, or nothing |
//! ```
//!
//! "No extension block" and "an empty block" are different hellos and stay so. Bytes after the
//! block are refused.
//!
//! Specifications: RFC 5246, section 7.4.1.2; RFC 8446, section 4.1.2; RFC 6066, section 3 (server
//! name).

use super::extension::{self, ExtensionType, Extensions};
use super::reader::Reader;
use super::version::ProtocolVersion;
use super::writer;
use crate::error::TlsError;

/// Longest session identifier (RFC 5246, section 7.4.1.2).
pub const MAX_SESSION_ID_LEN: usize = 32;

/// Longest host name (RFC 1035, section 2.3.4, without the final dot).
pub const MAX_HOST_NAME_LEN: usize = 253;

/// A validated view on a ClientHello's body (the 4-byte handshake header is not part of it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientHello<'a> {
    legacy_version: ProtocolVersion,
    random: &'a [u8; 32],
    session_id: &'a [u8],
    cipher_suites: &'a [u8],
    compression_methods: &'a [u8],
    extensions: Option<Extensions<'a>>,
}

impl<'a> ClientHello<'a> {
    /// Validates a body.
    ///
    /// # Errors
    /// [`TlsError::Truncated`], [`TlsError::BadLength`] or [`TlsError::TrailingBytes`] where the
    /// fields do not add up.
    pub fn parse(body: &'a [u8]) -> Result<Self, TlsError> {
        let mut reader = Reader::new(body);
        let legacy_version = ProtocolVersion(reader.u16()?);
        let random = reader.array()?;
        let session_id = reader.vec8()?;
        let cipher_suites = reader.vec16()?;
        let compression_methods = reader.vec8()?;
        if session_id.len() > MAX_SESSION_ID_LEN
            || cipher_suites.is_empty()
            || !cipher_suites.len().is_multiple_of(2)
            || compression_methods.is_empty()
        {
            return Err(TlsError::BadLength);
        }
        let extensions = Extensions::parse_rest(body, reader)?;
        Ok(Self {
            legacy_version,
            random,
            session_id,
            cipher_suites,
            compression_methods,
            extensions,
        })
    }

    /// The version field; in TLS 1.3 always that of TLS 1.2.
    #[must_use]
    pub const fn legacy_version(&self) -> ProtocolVersion {
        self.legacy_version
    }

    /// The random bytes.
    #[must_use]
    pub const fn random(&self) -> &'a [u8; 32] {
        self.random
    }

    /// The session identifier: 0 to 32 bytes.
    #[must_use]
    pub const fn session_id(&self) -> &'a [u8] {
        self.session_id
    }

    /// The cipher suites' bytes: two for each.
    #[must_use]
    pub const fn cipher_suites_bytes(&self) -> &'a [u8] {
        self.cipher_suites
    }

    /// The cipher suites in order of preference.
    pub fn cipher_suites(&self) -> impl Iterator<Item = u16> + use<'a> {
        pairs_of(self.cipher_suites)
    }

    /// The compression methods: at least one.
    #[must_use]
    pub const fn compression_methods(&self) -> &'a [u8] {
        self.compression_methods
    }

    /// The extension block; `None` where the hello ends before one.
    #[must_use]
    pub const fn extensions(&self) -> Option<Extensions<'a>> {
        self.extensions
    }

    /// The name of the server that the client means, as it wrote it (case kept). `None` without the
    /// extension, and where it is not exactly one well-formed host name: letters, digits,
    /// hyphens, underscores, labels of 1 to 63 bytes, at most 253 in all, no final dot (RFC
    /// 6066, section 3).
    #[must_use]
    pub fn server_name(&self) -> Option<&'a str> {
        let mut reader = Reader::new(self.extensions?.find(ExtensionType::SERVER_NAME)?);
        let mut list = Reader::new(reader.vec16().ok()?);
        reader.finish().ok()?;
        // Name type 0: host_name.
        if list.u8().ok()? != 0 {
            return None;
        }
        let name = list.vec16().ok()?;
        list.finish().ok()?;
        std::str::from_utf8(name)
            .ok()
            .filter(|name| is_host_name(name))
    }

    /// The versions of the supported_versions extension in order of preference; `None` without a
    /// well-formed one.
    pub fn supported_versions(&self) -> Option<impl Iterator<Item = ProtocolVersion> + use<'a>> {
        let mut reader = Reader::new(self.extensions?.find(ExtensionType::SUPPORTED_VERSIONS)?);
        let versions = reader.vec8().ok()?;
        reader.finish().ok()?;
        if !versions.len().is_multiple_of(2) {
            return None;
        }
        Some(pairs_of(versions).map(ProtocolVersion))
    }

    /// Appends the same bytes that were parsed.
    pub fn write(&self, out: &mut Vec<u8>) {
        let extensions = self
            .extensions
            .map(|block| block.iter().map(|e| (e.extension_type, e.data)));
        let fields = Fields {
            legacy_version: self.legacy_version,
            random: self.random,
            session_id: self.session_id,
            cipher_suites: self.cipher_suites,
            compression_methods: self.compression_methods,
        };
        let written = write(out, fields, extensions);
        debug_assert!(written.is_ok(), "a view's fields fit their length prefixes");
    }
}

/// The length of an extension in a hello of whose body only the front is here; `None` where its
/// header is not in that front, or something before it is malformed. What follows is not looked at.
#[must_use]
pub fn extension_len_in_front(front: &[u8], extension_type: ExtensionType) -> Option<usize> {
    let mut reader = Reader::new(front);
    reader.u16().ok()?;
    reader.array::<32>().ok()?;
    reader.vec8().ok()?;
    reader.vec16().ok()?;
    reader.vec8().ok()?;
    // The block's length.
    reader.u16().ok()?;
    loop {
        let found = ExtensionType(reader.u16().ok()?);
        let length = usize::from(reader.u16().ok()?);
        if found == extension_type {
            return Some(length);
        }
        reader.take(length).ok()?;
    }
}

fn pairs_of(bytes: &[u8]) -> impl Iterator<Item = u16> + use<'_> {
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|pair| u16::from_be_bytes(*pair))
}

fn is_host_name(name: &str) -> bool {
    name.len() <= MAX_HOST_NAME_LEN
        && name.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && label
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        })
}

/// An owned ClientHello for editing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientHelloRepr {
    /// The version field.
    pub legacy_version: ProtocolVersion,
    /// The random bytes.
    pub random: [u8; 32],
    /// The session identifier: at most 32 bytes.
    pub session_id: Vec<u8>,
    /// The cipher suites in order: at least one.
    pub cipher_suites: Vec<u16>,
    /// The compression methods: at least one.
    pub compression_methods: Vec<u8>,
    /// The extensions in order; `None` for no block at all.
    pub extensions: Option<Vec<(ExtensionType, Vec<u8>)>>,
}

impl From<&ClientHello<'_>> for ClientHelloRepr {
    fn from(hello: &ClientHello<'_>) -> Self {
        Self {
            legacy_version: hello.legacy_version,
            random: *hello.random,
            session_id: hello.session_id.to_vec(),
            cipher_suites: hello.cipher_suites().collect(),
            compression_methods: hello.compression_methods.to_vec(),
            extensions: hello.extensions.map(|block| block.to_pairs()),
        }
    }
}

impl ClientHelloRepr {
    /// Appends the hello's body.
    ///
    /// # Errors
    /// [`TlsError::FieldTooLong`] where a field exceeds its length prefix, [`TlsError::BadLength`]
    /// where it would not parse; `out` is as before then.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), TlsError> {
        if self.session_id.len() > MAX_SESSION_ID_LEN
            || self.cipher_suites.is_empty()
            || self.compression_methods.is_empty()
        {
            return Err(TlsError::BadLength);
        }
        let before = out.len();
        let cipher_suites: Vec<u8> = self
            .cipher_suites
            .iter()
            .flat_map(|suite| suite.to_be_bytes())
            .collect();
        let fields = Fields {
            legacy_version: self.legacy_version,
            random: &self.random,
            session_id: &self.session_id,
            cipher_suites: &cipher_suites,
            compression_methods: &self.compression_methods,
        };
        write(out, fields, extension::pairs(&self.extensions)).inspect_err(|_| out.truncate(before))
    }
}

struct Fields<'f> {
    legacy_version: ProtocolVersion,
    random: &'f [u8; 32],
    session_id: &'f [u8],
    cipher_suites: &'f [u8],
    compression_methods: &'f [u8],
}

fn write<'e>(
    out: &mut Vec<u8>,
    fields: Fields<'_>,
    extensions: Option<impl Iterator<Item = (ExtensionType, &'e [u8])>>,
) -> Result<(), TlsError> {
    out.extend_from_slice(&fields.legacy_version.0.to_be_bytes());
    out.extend_from_slice(fields.random);
    writer::vec8(out, fields.session_id)?;
    writer::vec16(out, fields.cipher_suites)?;
    writer::vec8(out, fields.compression_methods)?;
    extension::write_block(out, extensions)
}

#[cfg(test)]
mod tests;
