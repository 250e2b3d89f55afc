//! The record layer's framing.
//!
//! ```text
//!  0              1         3        5                5 + length
//!  | content type | version | length | fragment       |
//! ```
//!
//! It is not record protection: a fragment may be ciphertext, and nothing here knows.
//!
//! Invariant: a header that parsed, written again, is the same 5 bytes.
//!
//! Specifications: RFC 5246, section 6.2; RFC 8446, section 5.1; RFC 6520 (heartbeat).

use std::ops::Range;

use super::version::ProtocolVersion;
use crate::error::TlsError;

/// Length of a record header.
pub const HEADER_LEN: usize = 5;

/// Longest fragment: 2^14 bytes of plaintext and 2,048 that compression and encryption may add (RFC
/// 5246, section 6.2.3).
pub const MAX_FRAGMENT_LEN: usize = (1 << 14) + 2048;

/// Longest fragment of a record in clear (RFC 8446, section 5.1).
pub const MAX_PLAINTEXT_LEN: usize = 1 << 14;

/// What a record holds (IANA, "TLS ContentType", as far as TLS over TCP uses it).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContentType {
    /// 20: ChangeCipherSpec.
    ChangeCipherSpec,
    /// 21: alert.
    Alert,
    /// 22: handshake.
    Handshake,
    /// 23: application data; in TLS 1.3 anything encrypted.
    ApplicationData,
    /// 24: heartbeat.
    Heartbeat,
}

impl ContentType {
    /// The type with this number.
    ///
    /// # Errors
    /// [`TlsError::BadContentType`] for all but 20 to 24.
    pub const fn from_u8(number: u8) -> Result<Self, TlsError> {
        match number {
            20 => Ok(Self::ChangeCipherSpec),
            21 => Ok(Self::Alert),
            22 => Ok(Self::Handshake),
            23 => Ok(Self::ApplicationData),
            24 => Ok(Self::Heartbeat),
            other => Err(TlsError::BadContentType(other)),
        }
    }

    /// Its number.
    #[must_use]
    pub const fn as_u8(self) -> u8 {
        match self {
            Self::ChangeCipherSpec => 20,
            Self::Alert => 21,
            Self::Handshake => 22,
            Self::ApplicationData => 23,
            Self::Heartbeat => 24,
        }
    }
}

/// A record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// What the record holds.
    pub content_type: ContentType,
    /// 3.0 to 3.4; says little about the version in use.
    pub version: ProtocolVersion,
    /// Length of the fragment: at most [`MAX_FRAGMENT_LEN`].
    pub length: u16,
}

impl RecordHeader {
    /// The 5 bytes.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; HEADER_LEN] {
        let [major, minor] = self.version.0.to_be_bytes();
        let [high, low] = self.length.to_be_bytes();
        [self.content_type.as_u8(), major, minor, high, low]
    }

    /// Header and fragment together.
    #[must_use]
    pub const fn record_len(self) -> usize {
        HEADER_LEN + self.length as usize
    }
}

/// Reads the record header at the front of `bytes`; `None` while there are fewer than 5 bytes and
/// nothing wrong with those that there are.
///
/// # Errors
/// Where this is no TLS record, as early as that is certain: [`TlsError::BadContentType`],
/// [`TlsError::BadRecordVersion`], [`TlsError::RecordTooLong`], or [`TlsError::SslV2Hello`].
#[inline]
pub fn parse_header(bytes: &[u8]) -> Result<Option<RecordHeader>, TlsError> {
    let &[content_type, ref rest @ ..] = bytes else {
        return Ok(None);
    };
    let header = bytes.first_chunk::<HEADER_LEN>();
    if content_type >= 0x80 {
        // An SSL 2.0 hello takes the whole header to tell from noise.
        return match header {
            None => Ok(None),
            Some(header) if is_ssl_v2_hello(header) => Err(TlsError::SslV2Hello),
            Some(_) => Err(TlsError::BadContentType(content_type)),
        };
    }
    let content_type = ContentType::from_u8(content_type)?;
    if let &[major, minor, ..] = rest {
        let version = ProtocolVersion(u16::from_be_bytes([major, minor]));
        if !version.is_record_version() {
            return Err(TlsError::BadRecordVersion(version.0));
        }
    }
    let Some(&[_, major, minor, high, low]) = header else {
        return Ok(None);
    };
    let version = ProtocolVersion(u16::from_be_bytes([major, minor]));
    let length = u16::from_be_bytes([high, low]);
    if usize::from(length) > MAX_FRAGMENT_LEN {
        return Err(TlsError::RecordTooLong(length));
    }
    Ok(Some(RecordHeader {
        content_type,
        version,
        length,
    }))
}

/// A two-byte length with the high bit set, CLIENT-HELLO (1), and version 0.2 or 3.x (RFC 5246,
/// appendix E.2).
fn is_ssl_v2_hello(header: &[u8; HEADER_LEN]) -> bool {
    matches!(
        header,
        [0x80..=0xff, _, 1, 0, 2] | [0x80..=0xff, _, 1, 3, _]
    )
}

/// One complete record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its header.
    pub header: RecordHeader,
    /// Where in the slice the record lies, header included.
    pub range: Range<usize>,
    /// Its content.
    pub fragment: &'a [u8],
}

impl Record<'_> {
    /// Where in the slice the fragment lies.
    #[must_use]
    pub const fn fragment_range(&self) -> Range<usize> {
        self.range.start + HEADER_LEN..self.range.end
    }
}

/// The complete records of a slice. Ends at an incomplete one; [`Self::rest`] is what is left then.
/// After an error it yields nothing more.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
    failed: Option<TlsError>,
}

impl<'a> Records<'a> {
    /// The records of `bytes`, which begin with a record header.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            failed: None,
        }
    }

    /// Bytes that no yielded record covers.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Bytes that the yielded records cover.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, TlsError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed.is_some() {
            return None;
        }
        match parse_header(self.rest()) {
            Err(error) => {
                self.failed = Some(error);
                Some(Err(error))
            }
            Ok(None) => None,
            Ok(Some(header)) => {
                let fragment = self.rest().get(HEADER_LEN..header.record_len())?;
                let range = self.at..self.at + header.record_len();
                self.at = range.end;
                Some(Ok(Record {
                    header,
                    range,
                    fragment,
                }))
            }
        }
    }
}

impl std::iter::FusedIterator for Records<'_> {}

/// Appends `payload` as records of at most [`MAX_PLAINTEXT_LEN`] bytes each; no record for an empty
/// payload.
pub fn write_records(
    out: &mut Vec<u8>,
    content_type: ContentType,
    version: ProtocolVersion,
    payload: &[u8],
) {
    for fragment in payload.chunks(MAX_PLAINTEXT_LEN) {
        // A chunk has at most 2^14 bytes.
        let header = RecordHeader {
            content_type,
            version,
            length: u16::try_from(fragment.len()).unwrap_or(u16::MAX),
        };
        out.extend_from_slice(&header.to_bytes());
        out.extend_from_slice(fragment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_header_is_refused_as_early_as_possible() {
        assert_eq!(parse_header(&[]), Ok(None));
        assert_eq!(parse_header(&[22]), Ok(None));
        assert_eq!(parse_header(&[22, 3]), Ok(None));
        assert_eq!(parse_header(&[22, 3, 1, 0]), Ok(None));
        assert_eq!(parse_header(b"G"), Err(TlsError::BadContentType(b'G')));
        assert_eq!(parse_header(&[25]), Err(TlsError::BadContentType(25)));
        assert_eq!(
            parse_header(&[22, 2, 0]),
            Err(TlsError::BadRecordVersion(0x0200))
        );
        // DTLS 1.2.
        assert_eq!(
            parse_header(&[22, 0xfe, 0xfd]),
            Err(TlsError::BadRecordVersion(0xfefd))
        );
        assert_eq!(
            parse_header(&[22, 3, 1, 0, 7]),
            Ok(Some(RecordHeader {
                content_type: ContentType::Handshake,
                version: ProtocolVersion::TLS1_0,
                length: 7
            }))
        );
    }

    #[test]
    fn records_over_the_limit_are_refused() {
        let [high, low] = 18_432_u16.to_be_bytes();
        assert!(matches!(parse_header(&[23, 3, 3, high, low]), Ok(Some(_))));
        let [high, low] = 18_433_u16.to_be_bytes();
        assert_eq!(
            parse_header(&[23, 3, 3, high, low]),
            Err(TlsError::RecordTooLong(18_433))
        );
    }

    #[test]
    fn an_ssl_v2_hello_is_recognised() {
        assert_eq!(parse_header(&[0x80, 0x2e, 1, 0]), Ok(None));
        assert_eq!(
            parse_header(&[0x80, 0x2e, 1, 0, 2]),
            Err(TlsError::SslV2Hello)
        );
        assert_eq!(
            parse_header(&[0x80, 0x7c, 1, 3, 1, 0, 0x63]),
            Err(TlsError::SslV2Hello)
        );
        assert_eq!(
            parse_header(&[0x80, 0x2e, 4, 0, 2]),
            Err(TlsError::BadContentType(0x80))
        );
    }

    #[test]
    fn records_of_a_slice_and_what_is_left() {
        let mut bytes = Vec::new();
        write_records(
            &mut bytes,
            ContentType::Handshake,
            ProtocolVersion::TLS1_0,
            b"one",
        );
        write_records(
            &mut bytes,
            ContentType::Alert,
            ProtocolVersion::TLS1_2,
            &[2, 40],
        );
        bytes.extend([23, 3, 3, 0, 9, 1]);
        let mut records = Records::new(&bytes);
        let first = records.next().expect("complete").expect("a record");
        assert_eq!(
            (first.fragment, first.range.clone(), first.fragment_range()),
            (&b"one"[..], 0..8, 5..8)
        );
        let second = records.next().expect("complete").expect("a record");
        assert_eq!(
            (second.header.content_type, second.range),
            (ContentType::Alert, 8..15)
        );
        assert_eq!(records.next(), None);
        assert_eq!(
            (records.rest(), records.offset()),
            (&[23, 3, 3, 0, 9, 1][..], 15)
        );

        let mut records = Records::new(b"GET / HTTP/1.0");
        assert_eq!(records.next(), Some(Err(TlsError::BadContentType(b'G'))));
        assert_eq!(records.next(), None);
    }

    #[test]
    fn a_long_payload_becomes_several_records() {
        let mut bytes = Vec::new();
        write_records(
            &mut bytes,
            ContentType::Handshake,
            ProtocolVersion::TLS1_2,
            &vec![1; MAX_PLAINTEXT_LEN + 1],
        );
        let lengths: Vec<_> = Records::new(&bytes)
            .map(|record| record.expect("a record").fragment.len())
            .collect();
        assert_eq!(lengths, [MAX_PLAINTEXT_LEN, 1]);
    }

    proptest! {
        #[test]
        fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            crate::fuzzing::tls_records(&bytes);
        }
    }
}
