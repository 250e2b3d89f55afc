//! The Certificate message of SSL 3.0 to TLS 1.2, and CertificateStatus (the OCSP staple).
//!
//! ```text
//!  Certificate        | list length: 3 | length: 3 | DER | length: 3 | DER | ...
//!  CertificateStatus  | type: 1 = ocsp       | length: 3 | response |
//!                     | type: 1 = ocsp_multi | list length: 3 | length: 3 | response | ...
//! ```
//!
//! It does not look into the DER. TLS 1.3 sends both encrypted and in another form
//! ([`super::CertificateEntry`]).
//!
//! Specifications: RFC 5246, section 7.4.2; RFC 6066, section 8; RFC 6961, section 2.2.

use std::ops::Range;

use super::reader::Reader;
use super::writer;
use crate::error::TlsError;

/// Most certificates in a list. OpenSSL verifies chains of at most 100; chains seen on the web have
/// 1 to 5.
pub const MAX_CERTIFICATES: usize = 256;

/// status_type ocsp (RFC 6066, section 8).
const STATUS_OCSP: u8 = 1;
/// status_type ocsp_multi (RFC 6961, section 2.2).
const STATUS_OCSP_MULTI: u8 = 2;

/// A validated list of items that each have a 3-byte length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct List<'a> {
    items: &'a [u8],
    offset: usize,
}

impl<'a> List<'a> {
    fn parse(items: &'a [u8], offset: usize, may_be_empty: EmptyItems) -> Result<Self, TlsError> {
        let mut reader = Reader::new(items);
        let mut count = 0;
        while !reader.is_empty() {
            let item = reader.vec24()?;
            match may_be_empty {
                EmptyItems::Refused if item.is_empty() => return Err(TlsError::BadLength),
                EmptyItems::Refused | EmptyItems::Allowed => {}
            }
            count += 1;
            if count > MAX_CERTIFICATES {
                return Err(TlsError::TooMany);
            }
        }
        Ok(Self { items, offset })
    }

    fn iter(self) -> Items<'a> {
        Items {
            reader: Reader::new(self.items),
            end: self.offset + self.items.len(),
        }
    }
}

#[derive(Clone, Copy)]
enum EmptyItems {
    Allowed,
    Refused,
}

/// A certificate or response and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// The DER bytes, without the 3-byte length.
    pub der: &'a [u8],
    /// Where in the message body the DER bytes begin; the length field is the 3 bytes before.
    pub offset: usize,
}

impl Item<'_> {
    /// Where in the message body the DER bytes lie.
    #[must_use]
    pub const fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.der.len()
    }
}

/// Iterator over the items of a list.
#[derive(Clone)]
pub struct Items<'a> {
    reader: Reader<'a>,
    end: usize,
}

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        let offset = self.end - self.reader.rest().len() + 3;
        // The list was validated, so an error is its end.
        let der = self.reader.vec24().ok()?;
        Some(Item { der, offset })
    }
}

impl std::iter::FusedIterator for Items<'_> {}

/// A validated view on the body of a Certificate message of SSL 3.0 to TLS 1.2. The list may be
/// empty: a client without a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateList<'a> {
    list: List<'a>,
}

impl<'a> CertificateList<'a> {
    /// Validates a body.
    ///
    /// # Errors
    /// [`TlsError::Truncated`], [`TlsError::TrailingBytes`], [`TlsError::BadLength`] (an empty
    /// certificate) or [`TlsError::TooMany`].
    pub fn parse(body: &'a [u8]) -> Result<Self, TlsError> {
        let mut reader = Reader::new(body);
        let items = reader.vec24()?;
        reader.finish()?;
        Ok(Self {
            list: List::parse(items, 3, EmptyItems::Refused)?,
        })
    }

    /// Where in the body the list lies, without its length field: always to the end.
    #[must_use]
    pub const fn range(&self) -> Range<usize> {
        self.list.offset..self.list.offset + self.list.items.len()
    }

    /// The certificates in order, the sender's own first.
    #[must_use]
    pub fn iter(&self) -> Items<'a> {
        self.list.iter()
    }

    /// Whether there is no certificate.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.list.items.is_empty()
    }

    /// Appends the same bytes that were parsed.
    pub fn write(&self, out: &mut Vec<u8>) {
        let written = write_certificates(out, self.iter().map(|item| item.der));
        debug_assert!(
            written.is_ok(),
            "a view's certificates fit their length prefixes"
        );
    }
}

impl<'a> IntoIterator for CertificateList<'a> {
    type Item = Item<'a>;
    type IntoIter = Items<'a>;

    fn into_iter(self) -> Items<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &CertificateList<'a> {
    type Item = Item<'a>;
    type IntoIter = Items<'a>;

    fn into_iter(self) -> Items<'a> {
        self.iter()
    }
}

/// Appends the body of a Certificate message with these certificates.
///
/// # Errors
/// [`TlsError::FieldTooLong`] where the list exceeds 2^24 - 1 bytes; `out` is as before then.
pub fn write_certificates<'c>(
    out: &mut Vec<u8>,
    ders: impl IntoIterator<Item = &'c [u8]>,
) -> Result<(), TlsError> {
    let before = out.len();
    out.extend_from_slice(&[0; 3]);
    let written = ders
        .into_iter()
        .try_for_each(|der| writer::vec24(out, der))
        .and_then(|()| {
            let mut length = Vec::with_capacity(3);
            writer::u24(&mut length, out.len() - before - 3)?;
            out[before..before + 3].copy_from_slice(&length);
            Ok(())
        });
    written.inspect_err(|_| out.truncate(before))
}

/// A validated view on the body of a CertificateStatus message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateStatus<'a> {
    /// One OCSP response, for the sender's own certificate.
    Ocsp(&'a [u8]),
    /// A response, or nothing, for each certificate.
    OcspMulti(OcspResponses<'a>),
}

/// The list of an ocsp_multi status; an empty item stands for "no response for that certificate".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OcspResponses<'a> {
    list: List<'a>,
}

impl<'a> OcspResponses<'a> {
    /// The responses in the order of the certificates.
    #[must_use]
    pub fn iter(&self) -> Items<'a> {
        self.list.iter()
    }
}

impl<'a> CertificateStatus<'a> {
    /// Validates a body.
    ///
    /// # Errors
    /// [`TlsError::Truncated`], [`TlsError::TrailingBytes`], [`TlsError::TooMany`],
    /// [`TlsError::UnknownStatusType`], or [`TlsError::BadLength`] for an empty response.
    pub fn parse(body: &'a [u8]) -> Result<Self, TlsError> {
        let mut reader = Reader::new(body);
        let status_type = reader.u8()?;
        let content = reader.vec24()?;
        reader.finish()?;
        match status_type {
            STATUS_OCSP if content.is_empty() => Err(TlsError::BadLength),
            STATUS_OCSP => Ok(Self::Ocsp(content)),
            STATUS_OCSP_MULTI => Ok(Self::OcspMulti(OcspResponses {
                list: List::parse(content, 4, EmptyItems::Allowed)?,
            })),
            _ => Err(TlsError::UnknownStatusType(status_type)),
        }
    }

    /// Appends the same bytes that were parsed.
    pub fn write(&self, out: &mut Vec<u8>) {
        let written = match self {
            Self::Ocsp(response) => {
                out.push(STATUS_OCSP);
                writer::vec24(out, response)
            }
            Self::OcspMulti(responses) => {
                out.push(STATUS_OCSP_MULTI);
                write_certificates(out, responses.iter().map(|item| item.der))
            }
        };
        debug_assert!(
            written.is_ok(),
            "a view's responses fit their length prefixes"
        );
    }
}

#[cfg(test)]
mod tests;
