//! A delta: instructions that rebuild bytes from what the reader holds (the vocabulary of RFC
//! 3284).
//!
//! Is: the encoding, a writer, a validated view and its application. Is not: the check over the
//! rebuilt bytes; whoever carries a delta ends it in one (`tandem-link`), because the check is
//! keyed by the pair of proxies.
//!
//! ```text
//! delta       = count(varint) reference{count} instruction*
//! reference   = 16 bytes: the front of SHA-256 over the bytes that are meant
//! instruction = add  : (length << 1 | 0)(varint) bytes{length}
//!             | copy : (length << 1 | 1)(varint) index(varint) offset(varint)
//! ```
//!
//! Invariants: applying a delta never yields more than the limit that the caller names; work is
//! linear in the delta and in what it copies from, and that is bounded; a copy copies from the
//! store and never from another delta, so nothing nests.

use std::fmt;
use std::sync::Arc;

use crate::varint;

/// Most bytes of one instruction: what a number of 32 bits holds beside the instruction's kind.
const MAX_LENGTH: usize = (u32::MAX >> 1) as usize;

/// Most references that one delta may name. A chain of 16 certificates with nothing else held stays
/// far below it; a peer that sends more is not one of ours.
pub const MAX_REFERENCES: usize = 64;

/// Most bytes that the objects of one delta may have together: sixteen times the longest flight.
/// Whoever forges a delta has its objects looked up before the check over the result can tell.
const MAX_RESOLVED: usize = 1 << 20;

/// The name of bytes that the reader is thought to hold: the first 16 bytes of their SHA-256.
///
/// Sixteen bytes are the thesis's size (section 2.3.3). That two objects share them by chance is
/// out of the question, and by malice is caught by the check that follows every delta.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reference(pub [u8; Reference::LEN]);

impl Reference {
    /// Size on the wire, in bytes.
    pub const LEN: usize = 16;
}

impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Where a delta's copies come from.
pub trait Source {
    /// The bytes that `reference` names, if they are held.
    fn resolve(&mut self, reference: &Reference) -> Option<Arc<[u8]>>;
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
    OutOfRange(Reference),
    /// The reader does not hold what a copy names: a miss.
    #[error("{0:?} is not held here")]
    Miss(Reference),
}

/// Writes a delta.
#[derive(Debug, Default)]
pub struct DeltaWriter {
    references: Vec<Reference>,
    instructions: Vec<u8>,
    pending: Vec<u8>,
}

impl DeltaWriter {
    /// An empty delta, which rebuilds nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes that the reader lacks. Neighbouring literals become one instruction.
    pub fn add(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// `length` bytes from `offset` of what `reference` names. Where that is longer than an
    /// instruction can say, it becomes several.
    pub fn copy(&mut self, reference: Reference, mut offset: usize, mut length: usize) {
        self.flush();
        let index = match self.references.iter().position(|known| *known == reference) {
            Some(index) => index,
            None => {
                self.references.push(reference);
                self.references.len() - 1
            }
        };
        while length > 0 {
            let part = length.min(MAX_LENGTH);
            self.head(Kind::Copy, part);
            self.number(index);
            self.number(offset);
            offset = offset.saturating_add(part);
            length -= part;
        }
    }

    /// The encoded delta.
    pub fn finish(mut self) -> Vec<u8> {
        self.flush();
        let mut out = Vec::with_capacity(
            1 + self.references.len() * Reference::LEN + self.instructions.len(),
        );
        varint::write(&mut out, saturated(self.references.len()));
        for reference in &self.references {
            out.extend_from_slice(&reference.0);
        }
        out.extend_from_slice(&self.instructions);
        out
    }

    fn flush(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        for part in pending.chunks(MAX_LENGTH) {
            self.head(Kind::Add, part.len());
            self.instructions.extend_from_slice(part);
        }
    }

    /// The head of an instruction of at most [`MAX_LENGTH`] bytes.
    fn head(&mut self, kind: Kind, length: usize) {
        self.number(length << 1 | kind as usize);
    }

    fn number(&mut self, number: usize) {
        varint::write(&mut self.instructions, saturated(number));
    }
}

/// The kind of an instruction, as its head says it.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Add = 0,
    Copy = 1,
}

/// A number as the encoding has room for. Nothing that is longer than 4 GiB is ever resolved, so a
/// delta that means one is refused by its reader.
fn saturated(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// One instruction of a delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instruction<'a> {
    /// Literal bytes.
    Add(&'a [u8]),
    /// A range of what a reference names.
    Copy {
        /// What is named.
        reference: Reference,
        /// First byte, from the start of what is named.
        offset: usize,
        /// How many bytes.
        length: usize,
    },
}

/// A delta whose encoding has been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta<'a> {
    instructions: Vec<Instruction<'a>>,
    length: usize,
}

impl<'a> Delta<'a> {
    /// Checks the encoding.
    ///
    /// # Errors
    /// [`DeltaError::Malformed`] for anything that a [`DeltaWriter`] does not write,
    /// [`DeltaError::TooLong`] where the result would exceed `limit` bytes.
    pub fn parse(mut input: &'a [u8], limit: usize) -> Result<Self, DeltaError> {
        let count = varint::read(&mut input).ok_or(DeltaError::Malformed)? as usize;
        if count > MAX_REFERENCES || input.len() < count * Reference::LEN {
            return Err(DeltaError::Malformed);
        }
        let (table, mut input) = input.split_at(count * Reference::LEN);
        let (table, _) = table.as_chunks::<{ Reference::LEN }>();
        let mut instructions = Vec::new();
        let mut length = 0usize;
        while !input.is_empty() {
            let head = varint::read(&mut input).ok_or(DeltaError::Malformed)?;
            let size = (head >> 1) as usize;
            if size == 0 {
                return Err(DeltaError::Malformed);
            }
            length = length.saturating_add(size);
            if length > limit {
                return Err(DeltaError::TooLong { limit });
            }
            if head & 1 == 0 {
                if input.len() < size {
                    return Err(DeltaError::Malformed);
                }
                let (bytes, rest) = input.split_at(size);
                instructions.push(Instruction::Add(bytes));
                input = rest;
            } else {
                let index = varint::read(&mut input).ok_or(DeltaError::Malformed)? as usize;
                let offset = varint::read(&mut input).ok_or(DeltaError::Malformed)? as usize;
                let reference = Reference(*table.get(index).ok_or(DeltaError::Malformed)?);
                instructions.push(Instruction::Copy {
                    reference,
                    offset,
                    length: size,
                });
            }
        }
        Ok(Self {
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

    /// Rebuilds the bytes.
    ///
    /// # Errors
    /// [`DeltaError::Miss`] for the first reference that is not held, [`DeltaError::OutOfRange`]
    /// for a copy past the end, [`DeltaError::TooLong`] for objects of more than a mebibyte
    /// together.
    pub fn apply(&self, source: &mut impl Source) -> Result<Vec<u8>, DeltaError> {
        let mut out = Vec::with_capacity(self.length);
        // Resolved once each: what a reference names may be much longer than what is copied out of
        // it.
        let mut resolved: Vec<(Reference, Arc<[u8]>)> = Vec::new();
        let mut room = MAX_RESOLVED;
        for instruction in &self.instructions {
            match *instruction {
                Instruction::Add(bytes) => out.extend_from_slice(bytes),
                Instruction::Copy {
                    reference,
                    offset,
                    length,
                } => {
                    let known = resolved.iter().find(|(known, _)| *known == reference);
                    let object = match known {
                        Some((_, object)) => Arc::clone(object),
                        None => {
                            let object = source
                                .resolve(&reference)
                                .ok_or(DeltaError::Miss(reference))?;
                            room = room.checked_sub(object.len()).ok_or(DeltaError::TooLong {
                                limit: MAX_RESOLVED,
                            })?;
                            resolved.push((reference, Arc::clone(&object)));
                            object
                        }
                    };
                    let range = offset..offset.saturating_add(length);
                    out.extend_from_slice(
                        object.get(range).ok_or(DeltaError::OutOfRange(reference))?,
                    );
                }
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let mut writer = DeltaWriter::new();
        writer.add(b"front ");
        writer.add(b"and ");
        writer.copy(Reference([2; 16]), 0, 4);
        writer.copy(Reference([1; 16]), 65, 3);
        writer.add(b"!");
        let encoded = writer.finish();
        let delta = Delta::parse(&encoded, 100).expect("our own encoding");
        assert_eq!(delta.rebuilt_len(), 18);
        assert_eq!(
            delta.apply(&mut table()).expect("held"),
            b"front and certABC!"
        );
    }

    #[test]
    fn a_reference_is_named_once_however_often_it_is_used() {
        let mut writer = DeltaWriter::new();
        for offset in 0..10 {
            writer.copy(Reference([1; 16]), offset, 1);
        }
        assert_eq!(writer.finish().len(), 1 + Reference::LEN + 10 * 3);
    }

    #[test]
    fn a_miss_names_what_is_missing_and_a_copy_stays_inside_its_object() {
        let mut writer = DeltaWriter::new();
        writer.copy(Reference([9; 16]), 0, 4);
        let encoded = writer.finish();
        let delta = Delta::parse(&encoded, 100).expect("our own encoding");
        assert_eq!(
            delta.apply(&mut table()),
            Err(DeltaError::Miss(Reference([9; 16])))
        );

        let mut writer = DeltaWriter::new();
        writer.copy(Reference([2; 16]), 8, 4);
        let encoded = writer.finish();
        let delta = Delta::parse(&encoded, 100).expect("our own encoding");
        assert_eq!(
            delta.apply(&mut table()),
            Err(DeltaError::OutOfRange(Reference([2; 16])))
        );
    }

    #[test]
    fn a_copy_longer_than_an_instruction_can_say_becomes_several() {
        let mut writer = DeltaWriter::new();
        writer.copy(Reference([1; 16]), 3, MAX_LENGTH + 2);
        let encoded = writer.finish();
        let delta = Delta::parse(&encoded, usize::MAX).expect("our own encoding");
        let copies: Vec<_> = delta
            .instructions()
            .iter()
            .map(|instruction| match instruction {
                Instruction::Copy { offset, length, .. } => (*offset, *length),
                Instruction::Add(_) => panic!("nothing is literal"),
            })
            .collect();
        assert_eq!(copies, [(3, MAX_LENGTH), (3 + MAX_LENGTH, 2)]);
    }

    #[test]
    fn a_bomb_is_refused_before_anything_is_built() {
        let mut writer = DeltaWriter::new();
        for _ in 0..1000 {
            writer.copy(Reference([1; 16]), 0, 256);
        }
        assert_eq!(
            Delta::parse(&writer.finish(), 65_536),
            Err(DeltaError::TooLong { limit: 65_536 })
        );
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
        let mut writer = DeltaWriter::new();
        for _ in 0..100 {
            writer.copy(Reference([1; 16]), 0, 1);
            writer.copy(Reference([2; 16]), 0, 1);
        }
        let encoded = writer.finish();
        let delta = Delta::parse(&encoded, 1_000).expect("our own encoding");
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
        let mut writer = DeltaWriter::new();
        for number in 0..20 {
            writer.copy(Reference([number; 16]), 0, 1);
        }
        let bytes = writer.finish();
        let delta = Delta::parse(&bytes, 100).expect("well formed");
        let mut source = Large(0);
        assert!(matches!(
            delta.apply(&mut source),
            Err(DeltaError::TooLong { .. })
        ));
        assert_eq!(source.0, 5);
    }

    #[test]
    fn a_delta_of_each_instruction_has_these_bytes() {
        let mut writer = DeltaWriter::new();
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
        assert_eq!(DeltaWriter::new().finish(), [0]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_bounded(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(delta) = Delta::parse(&bytes, 4096)
                && let Ok(built) = delta.apply(&mut table())
            {
                prop_assert_eq!(built.len(), delta.rebuilt_len());
                prop_assert!(built.len() <= 4096);
            }
        }

        #[test]
        fn any_pieces_survive(pieces in proptest::collection::vec((any::<bool>(), 1usize..11), 0..20)) {
            let mut writer = DeltaWriter::new();
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
            let delta = Delta::parse(&encoded, 1 << 16).expect("our own encoding");
            prop_assert_eq!(delta.apply(&mut table()).expect("held"), expected);
        }
    }
}
