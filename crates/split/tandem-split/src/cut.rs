//! Where a body is cut: where the file is that it belongs to, so that what it shares with others of
//! that file has the same names.
//!
//! ```text
//!  file:   |        piece        |        piece        |  piece  |
//!          |chunk|chunk|chunk| . |chunk|chunk|chunk| . |chunk|ch.|
//!  range:         |ch.|chunk| .  |        piece        |chunk|c|
//! ```
//!
//! Is: how much of a body goes out together, and by which names. Is not: the names
//! ([`crate::object`]), nor a buffer: bytes are counted here, not held.
//!
//! Invariants: a piece that is whole in a body is one object, as in every other body of its file;
//! the rest is cut at the file's chunks, so that of a body's chunks the first and the last at most
//! are no chunks of the file, and those beside an early cut.

use crate::object::CHUNK_LEN;

/// Length of a file's piece in bytes, but for the last: 64 chunks, 1 MiB. Each is an object, and
/// takes one message of its own.
pub const PIECE_LEN: usize = 64 * CHUNK_LEN;

/// Which part of a file a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where in the file it begins, in bytes.
    pub first: u64,
    /// Where it ends.
    pub end: End,
}

impl Extent {
    /// All of it. What belongs to no file that is known is a file of its own.
    pub const WHOLE: Self = Self {
        first: 0,
        end: End::OfFile,
    };
}

/// Where a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Where its file does.
    OfFile,
    /// Before that, or it is not known where the file ends.
    Elsewhere,
}

/// Some bytes of a body that go out together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// How many: 1 to [`PIECE_LEN`].
    pub len: usize,
    /// What is named.
    pub named_by: NamedBy,
}

/// What of some bytes is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// All of them, as an object: they are a piece of the file.
    Object,
    /// Each of their chunks: they are a part of a piece. As an object they would have a list that
    /// few volunteers have, and who asks for a list asks for chunks with it, here for chunks of the
    /// file that are there already.
    Chunks,
}

/// Says where to cut a body whose bytes come little by little.
#[derive(Clone, Debug)]
pub struct Cutter {
    /// How far into a piece of the file the next byte is: less than [`PIECE_LEN`].
    within_piece: usize,
    end: End,
}

impl Cutter {
    /// One for a body that is this part of its file.
    #[must_use]
    pub const fn new(extent: Extent) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "less than PIECE_LEN, which is a usize"
        )]
        let within_piece = (extent.first % PIECE_LEN as u64) as usize;
        Self {
            within_piece,
            end: extent.end,
        }
    }

    /// How many bytes the next cut wants: 1 to [`PIECE_LEN`].
    #[must_use]
    pub const fn wanted(&self) -> usize {
        match self.within_piece % CHUNK_LEN {
            0 => PIECE_LEN - self.within_piece,
            within_chunk => CHUNK_LEN - within_chunk,
        }
    }

    /// The next cut, once as many bytes wait.
    pub fn cut(&mut self, waiting: usize) -> Option<Cut> {
        let len = self.wanted();
        if waiting < len {
            return None;
        }
        let named_by = if len == PIECE_LEN {
            NamedBy::Object
        } else {
            NamedBy::Chunks
        };
        self.take(len, named_by)
    }

    /// A cut before the next one is reached, since nobody knows when more comes: whole chunks where
    /// there are any, or all that waits. `None` if nothing does.
    pub fn cut_early(&mut self, waiting: usize) -> Option<Cut> {
        // What waits of a chunk that has begun to go out is less than a chunk.
        let whole = waiting - waiting % CHUNK_LEN;
        let len = if whole > 0 { whole } else { waiting };
        self.take(len, NamedBy::Chunks)
    }

    /// The last cut, at the end of the body: all that waits. `None` if nothing does.
    pub fn cut_rest(&mut self, waiting: usize) -> Option<Cut> {
        let named_by = match self.end {
            End::OfFile if self.within_piece == 0 => NamedBy::Object,
            End::OfFile | End::Elsewhere => NamedBy::Chunks,
        };
        self.take(waiting, named_by)
    }

    fn take(&mut self, len: usize, named_by: NamedBy) -> Option<Cut> {
        self.within_piece = (self.within_piece + len) % PIECE_LEN;
        (len > 0).then_some(Cut { len, named_by })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::ops::Range;

    use proptest::prelude::*;

    use super::*;
    use crate::object::List;

    /// Three pieces, five chunks, and some bytes.
    const FILE_LEN: usize = 3 * PIECE_LEN + 5 * CHUNK_LEN + 77;

    const fn object(len: usize) -> Cut {
        Cut {
            len,
            named_by: NamedBy::Object,
        }
    }

    const fn chunks(len: usize) -> Cut {
        Cut {
            len,
            named_by: NamedBy::Chunks,
        }
    }

    /// A cut, by where in the file it is.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Placed {
        at: Range<usize>,
        named_by: NamedBy,
    }

    impl Placed {
        /// Its chunks, by where in the file they are.
        fn chunks(&self) -> impl Iterator<Item = Range<usize>> {
            let end = self.at.end;
            self.at
                .clone()
                .step_by(CHUNK_LEN)
                .map(move |start| start..end.min(start + CHUNK_LEN))
        }
    }

    /// How a range of a file is cut when it comes `arriving` bytes at a time.
    fn cut_up(range: Range<usize>, file_len: usize, arriving: usize) -> Vec<Placed> {
        let end = if range.end == file_len {
            End::OfFile
        } else {
            End::Elsewhere
        };
        let first = range.start as u64;
        let mut cutter = Cutter::new(Extent { first, end });
        let (mut come, mut gone) = (range.start, range.start);
        let mut all = Vec::new();
        let mut place = |cut: Cut, gone: &mut usize| {
            let at = *gone..*gone + cut.len;
            *gone = at.end;
            let named_by = cut.named_by;
            all.push(Placed { at, named_by });
        };
        while come < range.end {
            come = range.end.min(come + arriving);
            while let Some(cut) = cutter.cut(come - gone) {
                place(cut, &mut gone);
            }
        }
        if let Some(cut) = cutter.cut_rest(come - gone) {
            place(cut, &mut gone);
        }
        assert_eq!(gone, range.end, "all of it, and no more");
        all
    }

    /// Holds that a range of a file of [`FILE_LEN`] bytes shares with the file what it can.
    fn check(range: Range<usize>, arriving: usize) {
        let cuts = cut_up(range.clone(), FILE_LEN, arriving);
        assert_eq!(cuts, cut_up(range.clone(), FILE_LEN, FILE_LEN), "{range:?}");

        let found: Vec<Range<usize>> = cuts
            .iter()
            .filter(|cut| cut.named_by == NamedBy::Object)
            .map(|cut| cut.at.clone())
            .collect();
        let expected: Vec<Range<usize>> = (0..FILE_LEN)
            .step_by(PIECE_LEN)
            .map(|start| start..FILE_LEN.min(start + PIECE_LEN))
            .filter(|piece| range.start <= piece.start && piece.end <= range.end)
            .collect();
        assert_eq!(found, expected, "{range:?}");

        for chunk in cuts.iter().flat_map(Placed::chunks) {
            let begins = chunk.start.is_multiple_of(CHUNK_LEN) || chunk.start == range.start;
            let ends = chunk.end.is_multiple_of(CHUNK_LEN) || chunk.end == range.end;
            assert!(begins && ends, "{chunk:?} of {range:?}");
        }
    }

    #[test]
    fn a_whole_file_is_pieces_from_its_start() {
        for len in [
            0,
            1,
            CHUNK_LEN,
            PIECE_LEN - 1,
            PIECE_LEN,
            PIECE_LEN + 1,
            2 * PIECE_LEN,
            FILE_LEN,
        ] {
            let expected: Vec<Placed> = (0..len)
                .step_by(PIECE_LEN)
                .map(|start| Placed {
                    at: start..len.min(start + PIECE_LEN),
                    named_by: NamedBy::Object,
                })
                .collect();
            for arriving in [1000, CHUNK_LEN, PIECE_LEN, FILE_LEN] {
                assert_eq!(cut_up(0..len, len, arriving), expected, "{len}");
            }
        }
    }

    #[test]
    fn ranges_from_and_to_every_kind_of_offset_share_what_they_can() {
        let mut offsets = vec![FILE_LEN - 1, FILE_LEN];
        for boundary in [
            0,
            CHUNK_LEN,
            PIECE_LEN - CHUNK_LEN,
            PIECE_LEN,
            PIECE_LEN + 7 * CHUNK_LEN,
            2 * PIECE_LEN,
            3 * PIECE_LEN,
            3 * PIECE_LEN + 5 * CHUNK_LEN,
        ] {
            offsets.extend([boundary, boundary + 1, boundary + CHUNK_LEN / 2]);
            offsets.extend(boundary.checked_sub(1));
        }
        offsets.retain(|offset| *offset <= FILE_LEN);
        for start in &offsets {
            for end in offsets.iter().filter(|end| start < *end) {
                check(*start..*end, 10_000);
            }
        }
    }

    #[test]
    fn a_range_names_what_the_file_does_but_for_its_two_ends() {
        let file: Vec<u8> = (0..FILE_LEN as u32)
            .map(|number| (number.wrapping_mul(0x9e37_79b9) >> 24) as u8)
            .collect();
        let lists = |range: Range<usize>| {
            cut_up(range, FILE_LEN, FILE_LEN)
                .into_iter()
                .map(|cut| (cut.named_by, List::of(&file[cut.at]).expect("short")))
                .collect::<Vec<_>>()
        };
        let known = lists(0..FILE_LEN);
        let objects: HashSet<_> = known.iter().map(|(_, list)| list.name()).collect();
        let payloads: HashSet<_> = known.iter().flat_map(|(_, list)| list.chunks()).collect();
        for (range, expected) in [
            (1..FILE_LEN, 1),
            (1_000_000..3_000_000, 2),
            (PIECE_LEN..2 * PIECE_LEN, 0),
        ] {
            let mut new = 0;
            for (named_by, list) in lists(range.clone()) {
                if named_by == NamedBy::Object {
                    assert!(objects.contains(&list.name()), "{range:?}");
                }
                new += list
                    .chunks()
                    .filter(|name| !payloads.contains(name))
                    .count();
            }
            assert_eq!(new, expected, "{range:?}");
        }
    }

    #[test]
    fn behind_a_pause_a_body_is_cut_where_the_file_is_again() {
        let mut cutter = Cutter::new(Extent::WHOLE);
        assert_eq!(cutter.cut_early(0), None);
        assert_eq!(cutter.cut(PIECE_LEN), Some(object(PIECE_LEN)));
        let waiting = 2 * CHUNK_LEN + 100;
        assert_eq!(cutter.cut(waiting), None);
        assert_eq!(cutter.cut_early(waiting), Some(chunks(2 * CHUNK_LEN)));
        assert_eq!(cutter.cut_early(100), Some(chunks(100)));
        assert_eq!(cutter.cut_early(50), Some(chunks(50)));
        let waiting = 3 * PIECE_LEN;
        assert_eq!(cutter.cut(waiting), Some(chunks(CHUNK_LEN - 150)));
        let rest = PIECE_LEN - 3 * CHUNK_LEN;
        assert_eq!(cutter.cut(waiting), Some(chunks(rest)));
        assert_eq!(cutter.cut(waiting), Some(object(PIECE_LEN)));
        assert_eq!(cutter.cut_rest(10), Some(object(10)));
    }

    #[test]
    fn no_offset_is_too_large() {
        let mut cutter = Cutter::new(Extent {
            first: u64::MAX,
            end: End::Elsewhere,
        });
        assert_eq!(cutter.cut(0), None);
        assert_eq!(cutter.cut(PIECE_LEN + 1), Some(chunks(1)));
        assert_eq!(cutter.cut(PIECE_LEN), Some(object(PIECE_LEN)));
        assert_eq!(cutter.cut_rest(0), None);
    }

    proptest! {
        #[test]
        fn any_range_shares_what_it_can(
            start in 0..FILE_LEN,
            len in 1..=FILE_LEN,
            arriving in 1_000..2 * PIECE_LEN,
        ) {
            check(start..FILE_LEN.min(start + len), arriving);
        }
    }
}
