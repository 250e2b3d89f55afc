//! The extension block of a hello: in order, duplicates and unknown types kept.
//!
//! ```text
//!  | block length: 2 | type: 2 | length: 2 | data | type: 2 | length: 2 | data | ...
//! ```
//!
//! It does not interpret extensions, except for the few questions that the hellos ask.
//!
//! Specification: RFC 8446, section 4.2; RFC 5246, section 7.4.1.4.

use std::fmt;
use std::ops::Range;

use super::reader::Reader;
use super::writer;
use crate::error::TlsError;

/// An extension's type number (IANA, "TLS ExtensionType Values").
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExtensionType(pub u16);

impl ExtensionType {
    /// RFC 6066: server name indication.
    pub const SERVER_NAME: Self = Self(0);
    /// RFC 7301: application protocols.
    pub const ALPN: Self = Self(16);
    /// RFC 6962: timestamps of certificate transparency logs.
    pub const SIGNED_CERTIFICATE_TIMESTAMP: Self = Self(18);
    /// RFC 7924: cached information.
    pub const CACHED_INFO: Self = Self(25);
    /// RFC 5077: session ticket.
    pub const SESSION_TICKET: Self = Self(35);
    /// RFC 8446: pre-shared key.
    pub const PRE_SHARED_KEY: Self = Self(41);
    /// RFC 8446: early data.
    pub const EARLY_DATA: Self = Self(42);
    /// RFC 8446: versions offered or chosen.
    pub const SUPPORTED_VERSIONS: Self = Self(43);
    /// RFC 8446: key shares.
    pub const KEY_SHARE: Self = Self(51);
}

impl fmt::Debug for ExtensionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExtensionType({:#06x})", self.0)
    }
}

/// One extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Its type.
    pub extension_type: ExtensionType,
    /// Its data, without type and length.
    pub data: &'a [u8],
    /// Where in the hello's body its type field begins.
    pub offset: usize,
}

impl Extension<'_> {
    /// Where in the hello's body the extension lies, type and length included.
    #[must_use]
    pub const fn range(&self) -> Range<usize> {
        self.offset..self.offset + 4 + self.data.len()
    }
}

/// A validated extension block, without its length field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extensions<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Extensions<'a> {
    /// Reads what follows a hello's fixed fields in `body`: `None` for nothing at all, else one
    /// block that ends with the body.
    pub(super) fn parse_rest(
        body: &'a [u8],
        mut reader: Reader<'a>,
    ) -> Result<Option<Self>, TlsError> {
        if reader.is_empty() {
            return Ok(None);
        }
        let bytes = reader.vec16()?;
        reader.finish()?;
        let mut block = Reader::new(bytes);
        while !block.is_empty() {
            block.u16()?;
            block.vec16()?;
        }
        Ok(Some(Self {
            bytes,
            offset: body.len() - bytes.len(),
        }))
    }

    /// The block's bytes, without its length field.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Where in the hello's body the block lies, without its length field.
    #[must_use]
    pub const fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.bytes.len()
    }

    /// The extensions in order.
    #[must_use]
    pub fn iter(&self) -> ExtensionsIter<'a> {
        ExtensionsIter {
            reader: Reader::new(self.bytes),
            end: self.offset + self.bytes.len(),
        }
    }

    /// Data of the only extension of this type; `None` where there is none or, against the RFC,
    /// more than one.
    #[must_use]
    pub fn find(&self, extension_type: ExtensionType) -> Option<&'a [u8]> {
        let mut found = self
            .iter()
            .filter(|extension| extension.extension_type == extension_type);
        let first = found.next()?;
        match found.next() {
            None => Some(first.data),
            Some(_) => None,
        }
    }

    /// Whether there is an extension of this type.
    #[must_use]
    pub fn contains(&self, extension_type: ExtensionType) -> bool {
        self.iter()
            .any(|extension| extension.extension_type == extension_type)
    }

    /// The extensions as owned pairs.
    #[must_use]
    pub fn to_pairs(&self) -> Vec<(ExtensionType, Vec<u8>)> {
        self.iter()
            .map(|extension| (extension.extension_type, extension.data.to_vec()))
            .collect()
    }
}

impl<'a> IntoIterator for Extensions<'a> {
    type Item = Extension<'a>;
    type IntoIter = ExtensionsIter<'a>;

    fn into_iter(self) -> ExtensionsIter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &Extensions<'a> {
    type Item = Extension<'a>;
    type IntoIter = ExtensionsIter<'a>;

    fn into_iter(self) -> ExtensionsIter<'a> {
        self.iter()
    }
}

/// Iterator over the extensions of a block.
#[derive(Clone)]
pub struct ExtensionsIter<'a> {
    reader: Reader<'a>,
    end: usize,
}

impl<'a> Iterator for ExtensionsIter<'a> {
    type Item = Extension<'a>;

    fn next(&mut self) -> Option<Extension<'a>> {
        let offset = self.end - self.reader.rest().len();
        // The block was validated, so an error is its end.
        let extension_type = ExtensionType(self.reader.u16().ok()?);
        let data = self.reader.vec16().ok()?;
        Some(Extension {
            extension_type,
            data,
            offset,
        })
    }
}

impl std::iter::FusedIterator for ExtensionsIter<'_> {}

/// Appends a block: nothing for `None`, a length and the extensions for `Some`.
pub(super) fn write_block<'e>(
    out: &mut Vec<u8>,
    extensions: Option<impl Iterator<Item = (ExtensionType, &'e [u8])>>,
) -> Result<(), TlsError> {
    let Some(extensions) = extensions else {
        return Ok(());
    };
    let at = out.len();
    out.extend_from_slice(&[0; 2]);
    for (extension_type, data) in extensions {
        out.extend_from_slice(&extension_type.0.to_be_bytes());
        writer::vec16(out, data)?;
    }
    let len = u16::try_from(out.len() - at - 2).map_err(|_| TlsError::FieldTooLong)?;
    out[at..at + 2].copy_from_slice(&len.to_be_bytes());
    Ok(())
}

/// The owned pairs as [`write_block`] takes them.
pub(super) fn pairs(
    extensions: &Option<Vec<(ExtensionType, Vec<u8>)>>,
) -> Option<impl Iterator<Item = (ExtensionType, &[u8])>> {
    extensions.as_ref().map(|pairs| {
        pairs
            .iter()
            .map(|(extension_type, data)| (*extension_type, data.as_slice()))
    })
}

#[cfg(test)]
pub(in crate::tls) mod tests;
