//! The Certificate message of TLS 1.3, which is sent encrypted: whoever has opened it reads it
//! here.
//!
//! ```text
//!  | context: 1 + 0..255 | list length: 3 | entry | entry | ...
//!  entry = | length: 3 | DER | length: 2 | extensions |
//! ```
//!
//! A CompressedCertificate message is read as one entry, which is not looked into:
//!
//! ```text
//!  | algorithm: 2 | length when it is not compressed: 3 | length: 3 | compressed |
//! ```
//!
//! It looks neither into the DER nor into the extensions. Invariants: an entry has a certificate;
//! entries lie in the body in order, and nothing lies between or behind them.
//!
//! Specification: RFC 8446, section 4.4.2; RFC 8879, section 4.

use std::ops::Range;

use super::certificate::MAX_CERTIFICATES;
use super::reader::Reader;
use crate::error::TlsError;

/// Bytes of a certificate's length.
const DER_LENGTH: usize = 3;

/// Bytes of the length of an entry's extensions.
const EXTENSIONS_LENGTH: usize = 2;

/// Bytes of what is in front of the compressed message: the algorithm, and the length without it.
const COMPRESSED_HEAD: usize = 5;

/// Where an entry's parts lie in the message's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateEntry {
    /// The certificate, without its length.
    pub der: Range<usize>,
    /// The extensions, without the length of them all: an OCSP staple, SCTs.
    pub extensions: Range<usize>,
}

impl CertificateEntry {
    /// The certificate behind its length: what TLS 1.2 sends of it.
    #[must_use]
    pub const fn listed(&self) -> Range<usize> {
        self.der.start - DER_LENGTH..self.der.end
    }

    /// What stands in place of entries in the body of a CompressedCertificate message: something
    /// like a certificate without extensions.
    ///
    /// # Errors
    /// [`TlsError::Truncated`], [`TlsError::TrailingBytes`] or [`TlsError::BadLength`] (nothing).
    pub fn of_compressed(body: &[u8]) -> Result<Self, TlsError> {
        let mut reader = Reader::new(body);
        reader.take(COMPRESSED_HEAD)?;
        let compressed = reader.vec24()?;
        reader.finish()?;
        // RFC 8879, section 4: compressed_certificate_message<1..2^24-1>.
        if compressed.is_empty() {
            return Err(TlsError::BadLength);
        }
        let end = body.len();
        Ok(Self {
            der: end - compressed.len()..end,
            extensions: end..end,
        })
    }

    /// The entries of a body; there may be none: a client without a certificate.
    ///
    /// # Errors
    /// [`TlsError::Truncated`], [`TlsError::TrailingBytes`], [`TlsError::BadLength`] (an empty
    /// certificate) or [`TlsError::TooMany`].
    pub fn parse_all(body: &[u8]) -> Result<Vec<Self>, TlsError> {
        let mut reader = Reader::new(body);
        reader.vec8()?;
        let list = reader.vec24()?;
        reader.finish()?;
        let start = body.len() - list.len();
        let mut entries = Vec::new();
        let mut reader = Reader::new(list);
        while !reader.is_empty() {
            if entries.len() == MAX_CERTIFICATES {
                return Err(TlsError::TooMany);
            }
            let at = start + list.len() - reader.rest().len() + DER_LENGTH;
            let der = at..at + reader.vec24()?.len();
            if der.is_empty() {
                return Err(TlsError::BadLength);
            }
            let at = der.end + EXTENSIONS_LENGTH;
            let extensions = at..at + reader.vec16()?.len();
            entries.push(Self { der, extensions });
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_compressed_certificate_is_one_entry() {
        let body = [0, 2, 0, 4, 0, 0, 0, 3, 0xc1, 0xc2, 0xc3];
        let entry = CertificateEntry::of_compressed(&body).expect("an entry");
        assert_eq!((entry.listed(), entry.extensions), (5..11, 11..11));
        for end in 0..body.len() {
            let cut = CertificateEntry::of_compressed(&body[..end]);
            assert_eq!(cut, Err(TlsError::Truncated), "{end}");
        }
        let more = CertificateEntry::of_compressed(&[&body[..], &[0]].concat());
        assert_eq!(more, Err(TlsError::TrailingBytes));
        let empty = CertificateEntry::of_compressed(&[0, 2, 0, 4, 0, 0, 0, 0]);
        assert_eq!(empty, Err(TlsError::BadLength));
    }

    #[test]
    fn entries_lie_where_they_say() {
        let body = [
            0, 0, 0, 15, 0, 0, 2, 0xd1, 0xd2, 0, 3, 0xe1, 0xe2, 0xe3, 0, 0, 1, 0xd3, 0, 0, 9,
        ];
        let entries = CertificateEntry::parse_all(&body[..19]);
        assert_eq!(entries, Err(TlsError::Truncated));
        let mut body = body[..20].to_vec();
        body[3] = 16;
        let entries = CertificateEntry::parse_all(&body).expect("two entries");
        assert_eq!(
            entries,
            [
                CertificateEntry {
                    der: 7..9,
                    extensions: 11..14
                },
                CertificateEntry {
                    der: 17..18,
                    extensions: 20..20
                }
            ]
        );
        assert_eq!(entries[1].listed(), 14..18);
        body.push(0);
        let entries = CertificateEntry::parse_all(&body);
        assert_eq!(entries, Err(TlsError::TrailingBytes));
    }

    #[test]
    fn an_empty_list_is_one_and_an_empty_certificate_is_none() {
        assert_eq!(CertificateEntry::parse_all(&[0, 0, 0, 0]), Ok(vec![]));
        let entries = CertificateEntry::parse_all(&[0, 0, 0, 5, 0, 0, 0, 0, 0]);
        assert_eq!(entries, Err(TlsError::BadLength));
    }

    #[test]
    fn a_list_is_bounded() {
        for (count, is_read) in [(MAX_CERTIFICATES, true), (MAX_CERTIFICATES + 1, false)] {
            let list = [0, 0, 1, 7, 0, 0].repeat(count);
            let length = (list.len() as u32).to_be_bytes();
            let body = [&[0], &length[1..], &list].concat();
            assert_eq!(CertificateEntry::parse_all(&body).is_ok(), is_read);
        }
    }

    proptest! {
        #[test]
        fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            crate::fuzzing::certificate_entries(&bytes);
        }
    }
}
