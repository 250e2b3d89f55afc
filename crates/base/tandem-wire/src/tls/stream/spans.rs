//! Where a message lies in a stream that its reader keeps: ranges, not borrows.
//!
//! Invariants: pieces are in order, never empty, never touching, and add up to the message.

use std::borrow::Cow;
use std::ops::Range;

use crate::tls::handshake::{HEADER_LEN, HandshakeType};

/// Where a complete message lies in the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageSpan {
    /// Its type.
    pub msg_type: HandshakeType,
    /// Ranges of the stream that hold the message, its 4-byte header included, in order.
    pub pieces: Vec<Range<usize>>,
    pub(super) body_len: usize,
}

impl MessageSpan {
    /// Length with the header: at least 4.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a message has a header")]
    pub const fn len(&self) -> usize {
        HEADER_LEN + self.body_len
    }

    /// Length of the body.
    #[must_use]
    pub const fn body_len(&self) -> usize {
        self.body_len
    }

    /// From the first byte of the header to the end of the body; record headers may lie between.
    #[must_use]
    pub fn extent(&self) -> Range<usize> {
        let start = self.pieces.first().map_or(0, |piece| piece.start);
        let end = self.pieces.last().map_or(0, |piece| piece.end);
        start..end
    }

    /// Ranges of the stream that hold the body; none for an empty body.
    pub fn body_pieces(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut skip = HEADER_LEN;
        self.pieces.iter().filter_map(move |piece| {
            let cut = skip.min(piece.len());
            skip -= cut;
            Some(piece.start + cut..piece.end).filter(|rest| !rest.is_empty())
        })
    }

    /// The message with its header.
    ///
    /// # Panics
    /// Where `stream` is shorter than the stream that was scanned.
    #[must_use]
    pub fn gather<'s>(&self, stream: &'s [u8]) -> Cow<'s, [u8]> {
        gather(&self.pieces, stream)
    }

    /// The message without its header.
    ///
    /// # Panics
    /// Where `stream` is shorter than the stream that was scanned.
    #[must_use]
    pub fn body<'s>(&self, stream: &'s [u8]) -> Cow<'s, [u8]> {
        match self.pieces.as_slice() {
            // Nearly every message lies in one record.
            [whole] => Cow::Borrowed(&stream[whole.start + HEADER_LEN..whole.end]),
            _ => gather(&self.body_pieces().collect::<Vec<_>>(), stream),
        }
    }
}

fn gather<'s>(pieces: &[Range<usize>], stream: &'s [u8]) -> Cow<'s, [u8]> {
    match pieces {
        [] => Cow::Borrowed(&[]),
        [whole] => Cow::Borrowed(&stream[whole.clone()]),
        pieces => {
            let mut bytes = Vec::with_capacity(pieces.iter().map(ExactSizeIterator::len).sum());
            for piece in pieces {
                bytes.extend_from_slice(&stream[piece.clone()]);
            }
            Cow::Owned(bytes)
        }
    }
}
