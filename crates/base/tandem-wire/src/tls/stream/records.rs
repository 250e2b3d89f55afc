//! The lowest layer: a stream of bytes to records.
//!
//! Is not: a judgement of what a record holds ([`super::plaintext`]). Invariants: nothing is kept
//! but a number; a record is refused as soon as its header is wrong, and never waited for longer
//! than [`MAX_FRAGMENT_LEN`](crate::tls::record::MAX_FRAGMENT_LEN) bytes.
//!
//! Specifications: RFC 5246, section 6.2.1; RFC 8446, section 5.1.

use crate::error::TlsError;
use crate::tls::record::{HEADER_LEN, Record, RecordHeader, parse_header};

/// What stands at the front of the unread part of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Framed<'a> {
    /// Not even a whole header.
    Cut,
    /// A header, of whose record the end is missing.
    Begun(RecordHeader),
    /// A whole record.
    Whole(Record<'a>),
}

/// Cuts a stream into records, one at a time, however it arrives.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordReader {
    offset: usize,
}

impl RecordReader {
    /// A reader at the first byte of a stream.
    #[must_use]
    pub const fn new() -> Self {
        Self { offset: 0 }
    }

    /// Where in the stream the next record begins.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// The next record of `stream`, which is the whole stream from its first byte, as far as it has
    /// come. The same until [`Self::pass`].
    ///
    /// # Errors
    /// Those of [`parse_header`]: what stands there is no record.
    #[inline]
    pub fn peek<'a>(&self, stream: &'a [u8]) -> Result<Framed<'a>, TlsError> {
        let rest = stream.get(self.offset..).unwrap_or_default();
        let Some(header) = parse_header(rest)? else {
            return Ok(Framed::Cut);
        };
        Ok(match rest.get(HEADER_LEN..header.record_len()) {
            None => Framed::Begun(header),
            Some(fragment) => Framed::Whole(Record {
                header,
                range: self.offset..self.offset + header.record_len(),
                fragment,
            }),
        })
    }

    /// Goes on behind this record.
    pub fn pass(&mut self, record: &Record<'_>) {
        self.offset = record.range.end;
    }
}
