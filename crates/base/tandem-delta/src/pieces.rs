//! Bytes that lie in pieces of a longer stream: a message that record headers interrupt.
//!
//! Is not: where the pieces come from. Invariant: pieces are in the stream's order.

use std::borrow::Cow;
use std::ops::Range;

/// What these pieces are together.
pub fn gather<'s>(pieces: &[Range<usize>], stream: &'s [u8]) -> Cow<'s, [u8]> {
    match pieces {
        [whole] => Cow::Borrowed(&stream[whole.clone()]),
        pieces => pieces
            .iter()
            .flat_map(|piece| &stream[piece.clone()])
            .copied()
            .collect::<Vec<u8>>()
            .into(),
    }
}

/// The part of these pieces that holds bytes `range` of what they are together.
pub fn cut(
    pieces: impl IntoIterator<Item = Range<usize>>,
    range: Range<usize>,
) -> Vec<Range<usize>> {
    let mut before = 0;
    let mut out = Vec::new();
    for piece in pieces {
        let start = range.start.max(before) - before;
        let end = range.end.min(before + piece.len()).saturating_sub(before);
        if start < end {
            out.push(piece.start + start..piece.start + end);
        }
        before += piece.len();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice;

    #[test]
    fn pieces_are_put_together_in_order() {
        let stream = b"0123456789";
        assert_eq!(*gather(&[], stream), *b"");
        assert_eq!(*gather(slice::from_ref(&(2..5)), stream), *b"234");
        assert_eq!(*gather(&[0..2, 4..4, 7..9], stream), *b"0178");
    }

    #[test]
    fn pieces_of_a_list_are_cut_where_they_are_asked_for() {
        let pieces = [5..10, 20..25, 30..31];
        assert_eq!(cut(pieces.clone(), 0..11), pieces);
        assert_eq!(cut(pieces.clone(), 3..7), [8..10, 20..22]);
        assert_eq!(cut(pieces.clone(), 5..5), []);
        assert_eq!(cut(pieces.clone(), 9..99), [24..25, 30..31]);
    }
}
