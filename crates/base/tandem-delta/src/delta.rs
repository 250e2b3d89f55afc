//! A delta: instructions that rebuild bytes from what the reader holds (the vocabulary of RFC
//! 3284).
//!
//! Is: a validated view of an encoded delta, and its application. Is not: the encoding's numbers
//! ([`crate::encoding`]), the writer, or the check over the rebuilt bytes; whoever carries a delta
//! ends it in one (`tandem-link`), because the check is keyed by the pair of proxies.
//!
//! Invariants: applying a delta never yields more than the limit that the caller names; work is
//! linear in the delta and in what it names, and both are bounded; a copy copies from the store and
//! never from another delta, so nothing nests.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::dictionary;
use crate::encoding::{Encoding, Head, Written};
use crate::inflate;
use crate::name::{Name, Reference};
use crate::varint;
use crate::writer::Place;

/// Most references that one delta may name. A chain of 16 certificates with nothing else held stays
/// far below it; a peer that sends more is not one of ours.
pub const MAX_REFERENCES: usize = 64;

/// Most instructions of one delta. A flight has a few dozen; one that is cut into records of 32
/// bytes has 3,500. Each takes a reader 56 bytes and is a byte of the delta, or two.
pub(crate) const MAX_INSTRUCTIONS: usize = 4_096;

/// Most dictionaries of one compressed literal, and most compressed literals of one delta. Each
/// costs a reader a window of 32 KiB, however short it is.
pub const MAX_INFLATED: usize = 8;

/// Most bytes of one compressed literal, whatever the caller allows: the longest flight.
pub const MAX_INFLATED_LEN: usize = 1 << 16;

/// Most bytes that the objects of one delta may have together: sixteen times the longest flight.
/// Whoever forges a delta has its objects looked up before the check over the result can tell.
const MAX_RESOLVED: usize = 1 << 20;

/// Where a delta's copies and dictionaries come from.
pub trait Source {
    /// The bytes that `reference` names, if they are held.
    fn resolve(&mut self, reference: &Reference) -> Option<Arc<[u8]>>;

    /// The bytes that both sides of this session gave the number. Unless a carrier shares a
    /// session's state: none.
    fn numbered(&mut self, number: u32) -> Option<Arc<[u8]>> {
        let _ = number;
        None
    }
}

/// Why a delta could not be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DeltaError {
    /// The encoding is wrong: the peer's fault, or not a delta at all.
    #[error("the delta is malformed")]
    Malformed,
    /// The result would be longer than the reader allows.
    #[error("the delta rebuilds more than {limit} bytes")]
    TooLong {
        /// The limit, in bytes.
        limit: usize,
    },
    /// A copy reaches past the end of what it names.
    #[error("a copy reaches past the end of {0:?}")]
    OutOfRange(Name),
    /// The reader does not hold what an instruction names: a miss.
    #[error("{0:?} is not held here")]
    Miss(Name),
}

/// One instruction of a delta.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Instruction<'a> {
    /// Literal bytes.
    Add(&'a [u8]),
    /// A range of what a name means.
    Copy {
        /// What is named.
        name: Name,
        /// First byte, from the start of what is named.
        offset: usize,
        /// How many bytes.
        length: usize,
    },
    /// Compressed literal bytes (DEFLATE, RFC 1951).
    Inflate {
        /// What the window holds beforehand behind the built-in dictionary, one behind the other.
        dictionaries: Vec<Name>,
        /// How many bytes it becomes: that many, or the delta is malformed.
        length: usize,
        /// The compressed bytes.
        compressed: &'a [u8],
    },
}

/// A delta whose encoding has been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta<'a> {
    encoding: Encoding,
    instructions: Vec<Instruction<'a>>,
    length: usize,
}

impl<'a> Delta<'a> {
    /// Checks the encoding.
    ///
    /// # Errors
    /// [`DeltaError::Malformed`] for anything that a [`crate::DeltaWriter`] of this encoding does
    /// not write, [`DeltaError::TooLong`] where the result would exceed `limit` bytes.
    pub fn parse(encoding: Encoding, input: &'a [u8], limit: usize) -> Result<Self, DeltaError> {
        let mut parser = Parser {
            encoding,
            input: Input(input),
            references: Vec::new(),
            place: Place::FIRST,
        };
        if !encoding.has_places() {
            parser.list_references()?;
        }
        let (mut instructions, mut length, mut inflated) = (Vec::new(), 0usize, 0);
        while !parser.input.0.is_empty() {
            let head = encoding
                .parse_head(parser.input.varint()?)
                .ok_or(DeltaError::Malformed)?;
            let size = match head {
                Head::Add(size) | Head::Copy(size) => size,
                Head::Inflate => parser.input.number()?,
                Head::Place => {
                    parser.place = parser.place()?;
                    continue;
                }
            };
            length = length.saturating_add(size);
            if length > limit {
                return Err(DeltaError::TooLong { limit });
            }
            if instructions.len() == MAX_INSTRUCTIONS {
                return Err(DeltaError::Malformed);
            }
            instructions.push(match head {
                Head::Add(_) => Instruction::Add(parser.input.take(size)?),
                Head::Copy(_) | Head::Place => {
                    let place = match encoding.has_places() {
                        true => parser.place,
                        false => parser.place()?,
                    };
                    Instruction::Copy {
                        name: place.name,
                        offset: place.offset,
                        length: size,
                    }
                }
                Head::Inflate => {
                    inflated += 1;
                    parser.inflate(size, inflated)?
                }
            });
            parser.place = parser.place.after(size);
        }
        Ok(Self {
            encoding,
            instructions,
            length,
        })
    }

    /// How many bytes the delta rebuilds.
    pub fn rebuilt_len(&self) -> usize {
        self.length
    }

    /// The instructions, in order.
    pub fn instructions(&self) -> &[Instruction<'a>] {
        &self.instructions
    }

    /// The first number that an instruction names, if there is one.
    pub fn first_number(&self) -> Option<u32> {
        let is_number = |name: &Name| match name {
            Name::Number(number) => Some(*number),
            Name::Digest(_) => None,
        };
        self.instructions
            .iter()
            .find_map(|instruction| match instruction {
                Instruction::Add(_) => None,
                Instruction::Copy { name, .. } => is_number(name),
                Instruction::Inflate { dictionaries, .. } => {
                    dictionaries.iter().find_map(is_number)
                }
            })
    }

    /// Rebuilds the bytes.
    ///
    /// # Errors
    /// [`DeltaError::Miss`] for the first name that is not held, [`DeltaError::OutOfRange`] for a
    /// copy past the end, [`DeltaError::TooLong`] for objects of more than a mebibyte together,
    /// [`DeltaError::Malformed`] for compressed bytes that do not become what was declared.
    pub fn apply(&self, source: &mut impl Source) -> Result<Vec<u8>, DeltaError> {
        let mut out = Vec::with_capacity(self.length);
        let mut objects = Objects {
            source,
            resolved: BTreeMap::new(),
            room: MAX_RESOLVED,
        };
        for instruction in &self.instructions {
            match instruction {
                Instruction::Add(bytes) => out.extend_from_slice(bytes),
                Instruction::Copy {
                    name,
                    offset,
                    length,
                } => {
                    let object = objects.resolve(*name)?;
                    let range = *offset..offset.saturating_add(*length);
                    out.extend_from_slice(object.get(range).ok_or(DeltaError::OutOfRange(*name))?);
                }
                Instruction::Inflate {
                    dictionaries,
                    length,
                    compressed,
                } => {
                    let mut window = dictionary::of(self.encoding).to_vec();
                    for name in dictionaries {
                        window.extend_from_slice(inflate::tail(&objects.resolve(*name)?));
                    }
                    let bytes = inflate::inflate(&window, compressed, *length);
                    out.append(&mut bytes.ok_or(DeltaError::Malformed)?);
                }
            }
        }
        Ok(out)
    }
}

/// A delta that is being read.
struct Parser<'a> {
    encoding: Encoding,
    input: Input<'a>,
    /// Those that were named so far; all of the delta's, where they stand in front.
    references: Vec<Reference>,
    /// Where a copy is from that goes on.
    place: Place,
}

impl<'a> Parser<'a> {
    /// The references that stand in front.
    fn list_references(&mut self) -> Result<(), DeltaError> {
        let count = self.input.number()?;
        if count > MAX_REFERENCES {
            return Err(DeltaError::Malformed);
        }
        let (references, _) = self.input.take(count * Reference::LEN)?.as_chunks();
        self.references
            .extend(references.iter().copied().map(Reference));
        Ok(())
    }

    fn name(&mut self) -> Result<Name, DeltaError> {
        let written = self.input.varint()?;
        Ok(match self.encoding.parse_name(written) {
            Written::Number(number) => Name::Number(number),
            Written::Index(index) => {
                let reference = self.references.get(index).ok_or(DeltaError::Malformed)?;
                Name::Digest(*reference)
            }
            Written::Reference => {
                let bytes = self.input.take(Reference::LEN)?;
                let reference = Reference(*bytes.first_chunk().ok_or(DeltaError::Malformed)?);
                if self.references.len() == MAX_REFERENCES {
                    return Err(DeltaError::Malformed);
                }
                self.references.push(reference);
                Name::Digest(reference)
            }
        })
    }

    fn place(&mut self) -> Result<Place, DeltaError> {
        Ok(Place {
            name: self.name()?,
            offset: self.input.number()?,
        })
    }

    /// What follows the length of a compressed literal, the delta's so many-th.
    fn inflate(&mut self, length: usize, number: usize) -> Result<Instruction<'a>, DeltaError> {
        let count = self.input.number()?;
        let is_bounded = (1..=MAX_INFLATED_LEN).contains(&length);
        if number.max(count) > MAX_INFLATED || !is_bounded {
            return Err(DeltaError::Malformed);
        }
        let dictionaries = (0..count).map(|_| self.name());
        let dictionaries = dictionaries.collect::<Result<_, _>>()?;
        let size = self.input.number()?;
        Ok(Instruction::Inflate {
            dictionaries,
            length,
            compressed: self.input.take(size)?,
        })
    }
}

/// What is left of an encoded delta.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn varint(&mut self) -> Result<u32, DeltaError> {
        varint::read(&mut self.0).ok_or(DeltaError::Malformed)
    }

    fn number(&mut self) -> Result<usize, DeltaError> {
        self.varint().map(|number| number as usize)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], DeltaError> {
        let (taken, rest) = self
            .0
            .split_at_checked(length)
            .ok_or(DeltaError::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }
}

/// What a delta names, resolved once each: an object may be much longer than what is copied out of
/// it.
struct Objects<'s, S> {
    source: &'s mut S,
    resolved: BTreeMap<Name, Arc<[u8]>>,
    /// Bytes that may still be resolved.
    room: usize,
}

impl<S: Source> Objects<'_, S> {
    fn resolve(&mut self, name: Name) -> Result<Arc<[u8]>, DeltaError> {
        if let Some(object) = self.resolved.get(&name) {
            return Ok(Arc::clone(object));
        }
        let object = match name {
            Name::Digest(reference) => self.source.resolve(&reference),
            Name::Number(number) => self.source.numbered(number),
        };
        let object = object.ok_or(DeltaError::Miss(name))?;
        self.room = self
            .room
            .checked_sub(object.len())
            .ok_or(DeltaError::TooLong {
                limit: MAX_RESOLVED,
            })?;
        self.resolved.insert(name, Arc::clone(&object));
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::noise;
    use crate::writer::DeltaWriter;
    use proptest::prelude::*;
    use std::collections::HashMap;

    struct Table(HashMap<Reference, Arc<[u8]>>);

    impl Source for Table {
        fn resolve(&mut self, reference: &Reference) -> Option<Arc<[u8]>> {
            self.0.get(reference).cloned()
        }
    }

    fn table() -> Table {
        let one: Arc<[u8]> = (0..=255u8).collect();
        let two: Arc<[u8]> = Arc::from(&b"certificate"[..]);
        Table(HashMap::from([
            (Reference([1; 16]), one),
            (Reference([2; 16]), two),
        ]))
    }

    #[test]
    fn what_is_written_is_rebuilt() {
        let mut writer = DeltaWriter::new(Encoding::One);
        writer.add(b"front ");
        writer.add(b"and ");
        writer.copy(Reference([2; 16]), 0, 4);
        writer.copy(Reference([1; 16]), 65, 3);
        writer.add(b"!");
        let encoded = writer.finish();
        let delta = Delta::parse(Encoding::One, &encoded, 100).expect("our own encoding");
        assert_eq!(delta.rebuilt_len(), 18);
        assert_eq!(
            delta.apply(&mut table()).expect("held"),
            b"front and certABC!"
        );
    }

    #[test]
    fn a_reference_is_named_once_however_often_it_is_used() {
        let mut writer = DeltaWriter::new(Encoding::One);
        for offset in 0..10 {
            writer.copy(Reference([1; 16]), offset, 1);
        }
        assert_eq!(writer.finish().len(), 1 + Reference::LEN + 10 * 3);
    }

    #[test]
    fn a_miss_names_what_is_missing_and_a_copy_stays_inside_its_object() {
        let mut writer = DeltaWriter::new(Encoding::One);
        writer.copy(Reference([9; 16]), 0, 4);
        let encoded = writer.finish();
        let delta = Delta::parse(Encoding::One, &encoded, 100).expect("our own encoding");
        assert_eq!(
            delta.apply(&mut table()),
            Err(DeltaError::Miss(Reference([9; 16]).into()))
        );

        let mut writer = DeltaWriter::new(Encoding::One);
        writer.copy(Reference([2; 16]), 8, 4);
        let encoded = writer.finish();
        let delta = Delta::parse(Encoding::One, &encoded, 100).expect("our own encoding");
        assert_eq!(
            delta.apply(&mut table()),
            Err(DeltaError::OutOfRange(Reference([2; 16]).into()))
        );
    }

    #[test]
    fn a_copy_longer_than_an_instruction_can_say_becomes_several() {
        let mut writer = DeltaWriter::new(Encoding::One);
        const MAX: usize = (u32::MAX >> 1) as usize;
        writer.copy(Reference([1; 16]), 3, MAX + 2);
        let encoded = writer.finish();
        let delta = Delta::parse(Encoding::One, &encoded, usize::MAX).expect("our own encoding");
        let copies: Vec<_> = delta
            .instructions()
            .iter()
            .map(|instruction| match instruction {
                Instruction::Copy { offset, length, .. } => (*offset, *length),
                Instruction::Add(_) | Instruction::Inflate { .. } => panic!("nothing is literal"),
            })
            .collect();
        assert_eq!(copies, [(3, MAX), (3 + MAX, 2)]);
    }

    #[test]
    fn a_bomb_is_refused_before_anything_is_built() {
        let mut writer = DeltaWriter::new(Encoding::One);
        for _ in 0..1000 {
            writer.copy(Reference([1; 16]), 0, 256);
        }
        assert_eq!(
            Delta::parse(Encoding::One, &writer.finish(), 65_536),
            Err(DeltaError::TooLong { limit: 65_536 })
        );
    }

    #[test]
    fn the_bounds_themselves_are_allowed() {
        let cases = [(MAX_REFERENCES, true), (MAX_REFERENCES + 1, false)];
        for ((references, is_good), encoding) in cases
            .into_iter()
            .flat_map(|case| [Encoding::One, Encoding::Three].map(|encoding| (case, encoding)))
        {
            let mut writer = DeltaWriter::new(encoding);
            for number in 0..references {
                let mut name = Reference([0; 16]);
                name.0[0] = u8::try_from(number).expect("few");
                writer.copy(name, 0, 1);
            }
            let delta = writer.finish();
            let parsed = Delta::parse(encoding, &delta, references);
            assert_eq!(parsed.is_ok(), is_good, "{encoding:?} {references}");
            assert!(Delta::parse(encoding, &delta, references - 1).is_err());
        }
    }

    #[test]
    fn instructions_are_counted_before_they_are_kept() {
        for (instructions, is_good) in [(MAX_INSTRUCTIONS, true), (MAX_INSTRUCTIONS + 1, false)] {
            let mut writer = DeltaWriter::new(Encoding::Three);
            for _ in 0..instructions {
                writer.copy(Reference([1; 16]), 0, 1);
            }
            let delta = writer.finish();
            let parsed = Delta::parse(Encoding::Three, &delta, 1 << 16);
            assert_eq!(parsed.is_ok(), is_good, "{instructions}");
        }
        // What the documentation says of them.
        assert!(size_of::<Instruction<'_>>() <= 56);
    }

    #[test]
    fn an_instruction_for_no_bytes_is_refused() {
        for encoding in [Encoding::One, Encoding::Two] {
            let refused = Delta::parse(encoding, &[0, 0], 100);
            assert_eq!(refused, Err(DeltaError::Malformed));
            // A copy of nothing, of a reference that is there.
            let copy = [&[1][..], &[7; Reference::LEN], &[1, 0, 0]].concat();
            let refused = Delta::parse(encoding, &copy, 100);
            assert_eq!(refused, Err(DeltaError::Malformed));
        }
    }

    #[test]
    fn in_both_encodings_a_copy_is_of_the_reference_it_names() {
        for encoding in [Encoding::One, Encoding::Two] {
            let mut writer = DeltaWriter::new(encoding);
            writer.copy(Reference([2; 16]), 0, 4);
            writer.copy(Reference([1; 16]), 65, 3);
            let encoded = writer.finish();
            let delta = Delta::parse(encoding, &encoded, 100).expect("our own encoding");
            assert_eq!(delta.apply(&mut table()).expect("held"), b"certABC");
        }
    }

    #[test]
    fn a_source_without_a_session_has_no_numbers() {
        let delta = compressed(&[Name::Number(1)], 50, &[1, 2]);
        let delta = Delta::parse(Encoding::Two, &delta, 100).expect("well formed");
        let missed = delta.apply(&mut table());
        assert_eq!(missed, Err(DeltaError::Miss(Name::Number(1))));
    }

    #[test]
    fn what_a_reference_names_is_fetched_once_however_copies_alternate() {
        struct Counting(usize);
        impl Source for Counting {
            fn resolve(&mut self, _: &Reference) -> Option<Arc<[u8]>> {
                self.0 += 1;
                Some(Arc::from([0; 8]))
            }
        }
        let mut writer = DeltaWriter::new(Encoding::One);
        for _ in 0..100 {
            writer.copy(Reference([1; 16]), 0, 1);
            writer.copy(Reference([2; 16]), 0, 1);
        }
        let encoded = writer.finish();
        let delta = Delta::parse(Encoding::One, &encoded, 1_000).expect("our own encoding");
        let mut source = Counting(0);
        assert_eq!(delta.apply(&mut source), Ok(vec![0; 200]));
        assert_eq!(source.0, 2);
    }

    #[test]
    fn what_is_looked_up_for_one_delta_is_bounded() {
        struct Large(usize);
        impl Source for Large {
            fn resolve(&mut self, _: &Reference) -> Option<Arc<[u8]>> {
                self.0 += 1;
                Some(vec![7; MAX_RESOLVED / 4].into())
            }
        }
        let mut writer = DeltaWriter::new(Encoding::One);
        for number in 0..20 {
            writer.copy(Reference([number; 16]), 0, 1);
        }
        let bytes = writer.finish();
        let delta = Delta::parse(Encoding::One, &bytes, 100).expect("well formed");
        let mut source = Large(0);
        assert!(matches!(
            delta.apply(&mut source),
            Err(DeltaError::TooLong { .. })
        ));
        assert_eq!(source.0, 5);
    }

    #[test]
    fn a_delta_of_each_instruction_has_these_bytes() {
        let mut writer = DeltaWriter::new(Encoding::One);
        writer.add(b"front ");
        writer.add(b"and ");
        writer.copy(Reference([2; 16]), 0, 4);
        writer.copy(Reference([1; 16]), 300, 20_000);
        writer.copy(Reference([2; 16]), 127, 64);
        writer.add(&[0x2a; 70]);
        assert_eq!(
            data_encoding::HEXLOWER.encode(&writer.finish()),
            concat!(
                "02",
                "02020202020202020202020202020202",
                "01010101010101010101010101010101",
                "14",
                "66726f6e7420616e6420",
                "09",
                "00",
                "00",
                "c1b802",
                "01",
                "ac02",
                "8101",
                "00",
                "7f",
                "8c01",
                "2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a",
                "2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a",
            )
        );
        assert_eq!(DeltaWriter::new(Encoding::One).finish(), [0]);
    }

    #[test]
    fn the_second_encoding_has_these_bytes() {
        let mut writer = DeltaWriter::new(Encoding::Two);
        writer.add(b"front");
        writer.copy(Reference([2; 16]), 300, 20_000);
        writer.copy(Name::Number(5), 127, 64);
        writer.inflate(&[Reference([3; 16]).into()], 70, b"short");
        writer.add(b"end");
        assert_eq!(
            data_encoding::HEXLOWER.encode(&writer.finish()),
            concat!(
                "02",
                "02020202020202020202020202020202",
                "03030303030303030303030303030303",
                "0a",
                "66726f6e74",
                "c1b802",
                "00",
                "ac02",
                "8101",
                "0b",
                "7f",
                "00",
                "46",
                "01",
                "02",
                "05",
                "73686f7274",
                "06",
                "656e64",
            )
        );
    }

    #[test]
    fn the_third_encoding_has_these_bytes() {
        let mut writer = DeltaWriter::new(Encoding::Three);
        writer.copy(Name::Number(0), 0, 11);
        writer.add(b"fresh");
        writer.copy(Name::Number(0), 16, 300);
        writer.copy(Reference([2; 16]), 5, 64);
        writer.copy(Name::Number(9), 127, 20);
        writer.inflate(&[Reference([2; 16]).into()], 70, b"short");
        writer.copy(Name::Number(9), 217, 2);
        assert_eq!(
            data_encoding::HEXLOWER.encode(&writer.finish()),
            concat!(
                "17",
                "0a",
                "6672657368",
                "d904",
                "01",
                "00",
                "02020202020202020202020202020202",
                "05",
                "8101",
                "01",
                "13",
                "7f",
                "29",
                "00",
                "46",
                "01",
                "02",
                "05",
                "73686f7274",
                "05",
            )
        );
    }

    #[test]
    fn in_the_third_encoding_what_was_written_is_read_at_its_places() {
        let mut writer = DeltaWriter::new(Encoding::Three);
        writer.copy(Reference([1; 16]), 65, 3);
        writer.add(b"--");
        writer.copy(Reference([1; 16]), 70, 3);
        writer.copy(Reference([2; 16]), 0, 4);
        writer.copy(Reference([1; 16]), 65, 1);
        let encoded = writer.finish();
        // The reference of 16 bytes twice, four places, five copies, one literal.
        assert_eq!(encoded.len(), 2 * 17 + 1 + 3 * (1 + 1) + 4 + 3);
        let delta = Delta::parse(Encoding::Three, &encoded, 100).expect("our own encoding");
        assert_eq!(delta.first_number(), None);
        assert_eq!(delta.apply(&mut table()).expect("held"), b"ABC--FGHcertA");
    }

    #[test]
    fn in_the_third_encoding_references_have_to_be_named_first() {
        for bad in [&[1, 2, 0, 3][..], &[1, 0, 7], &[1, 1], &[1]] {
            let refused = Delta::parse(Encoding::Three, bad, 100);
            assert_eq!(refused, Err(DeltaError::Malformed), "{bad:?}");
        }
    }

    /// What a session has under the number 1.
    struct Session;

    impl Source for Session {
        fn resolve(&mut self, _: &Reference) -> Option<Arc<[u8]>> {
            None
        }

        fn numbered(&mut self, number: u32) -> Option<Arc<[u8]>> {
            (number == 1).then(|| noise(500, 1).into())
        }
    }

    /// A delta in the second encoding of one compressed literal.
    fn compressed(dictionaries: &[Name], length: usize, compressed: &[u8]) -> Vec<u8> {
        let mut writer = DeltaWriter::new(Encoding::Two);
        writer.inflate(dictionaries, length, compressed);
        writer.finish()
    }

    fn followed(delta: &[u8]) -> Result<Vec<u8>, DeltaError> {
        Delta::parse(Encoding::Two, delta, 1 << 16)?.apply(&mut Session)
    }

    #[test]
    fn dictionaries_may_be_numbers_and_are_put_one_behind_the_other() {
        let bytes = [&noise(500, 1)[400..], &dictionary::of(Encoding::Two)[..100]].concat();
        let window = [
            dictionary::of(Encoding::Two),
            &noise(500, 1),
            &noise(500, 1),
        ]
        .concat();
        let short = inflate::deflate(&window, &bytes).expect("shorter");
        let names = [Name::Number(1), Name::Number(1)];
        assert_eq!(followed(&compressed(&names, 200, &short)), Ok(bytes));
        let other = [Name::Number(1), Name::Number(2)];
        let missed = followed(&compressed(&other, 200, &short));
        assert_eq!(missed, Err(DeltaError::Miss(other[1])));
        let lacking = [Name::Number(1), Name::Digest(Reference([1; 16]))];
        let missed = followed(&compressed(&lacking, 200, &short));
        assert_eq!(missed, Err(DeltaError::Miss(lacking[1])));
    }

    #[test]
    fn compressed_bytes_become_what_was_declared_or_nothing() {
        let bomb = inflate::deflate(&[], &vec![0; MAX_INFLATED_LEN]).expect("shorter");
        assert!(followed(&compressed(&[], MAX_INFLATED_LEN, &bomb)).is_ok());
        for length in [1, MAX_INFLATED_LEN - 1] {
            let refused = followed(&compressed(&[], length, &bomb));
            assert_eq!(refused, Err(DeltaError::Malformed), "{length}");
        }
        // Beyond the constant, even if the caller has room.
        let long = compressed(&[], MAX_INFLATED_LEN + 1, &bomb);
        let refused = Delta::parse(Encoding::Two, &long, usize::MAX);
        assert_eq!(refused, Err(DeltaError::Malformed));
        let long = compressed(&[], 101, &bomb);
        let refused = Delta::parse(Encoding::Two, &long, 100);
        assert_eq!(refused, Err(DeltaError::TooLong { limit: 100 }));
    }

    #[test]
    fn dictionaries_and_compressed_literals_are_counted() {
        let short = inflate::deflate(&[], &[0; 50]).expect("shorter");
        for (dictionaries, literals, is_good) in [
            (MAX_INFLATED, 1, true),
            (MAX_INFLATED + 1, 1, false),
            (0, MAX_INFLATED, true),
            (0, MAX_INFLATED + 1, false),
        ] {
            let mut writer = DeltaWriter::new(Encoding::Two);
            for _ in 0..literals {
                writer.inflate(&vec![Name::Number(1); dictionaries], 50, &short);
            }
            let delta = writer.finish();
            let parsed = Delta::parse(Encoding::Two, &delta, 1 << 16);
            assert_eq!(parsed.is_ok(), is_good, "{dictionaries} {literals}");
        }
    }

    #[test]
    fn neither_encoding_reads_what_it_does_not_have() {
        // A copy of nothing, a compressed literal of nothing or where there are none.
        assert_eq!(followed(&[0, 1, 0, 0]), Err(DeltaError::Malformed));
        assert_eq!(
            followed(&compressed(&[], 0, &[3, 0])),
            Err(DeltaError::Malformed)
        );
        let of_two = compressed(&[], 50, &[1, 2]);
        let refused = Delta::parse(Encoding::One, &of_two, 1 << 16);
        assert_eq!(refused, Err(DeltaError::Malformed));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_bounded(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            two in any::<bool>(),
        ) {
            let encoding = if two { Encoding::Two } else { Encoding::One };
            if let Ok(delta) = Delta::parse(encoding, &bytes, 4096)
                && let Ok(built) = delta.apply(&mut table())
            {
                prop_assert_eq!(built.len(), delta.rebuilt_len());
                prop_assert!(built.len() <= 4096);
            }
        }

        #[test]
        fn any_pieces_survive(pieces in proptest::collection::vec((any::<bool>(), 1usize..11), 0..20)) {
            let mut writer = DeltaWriter::new(Encoding::One);
            let mut expected = Vec::new();
            for (literal, length) in pieces {
                if literal {
                    writer.add(&vec![7; length]);
                    expected.extend(vec![7; length]);
                } else {
                    writer.copy(Reference([2; 16]), 0, length);
                    expected.extend_from_slice(&b"certificate"[..length]);
                }
            }
            let encoded = writer.finish();
            let delta = Delta::parse(Encoding::One, &encoded, 1 << 16).expect("our own encoding");
            prop_assert_eq!(delta.apply(&mut table()).expect("held"), expected);
        }
    }
}
