//! The writing of a delta, instruction by instruction.
//!
//! Is not: the choice of instructions; that is [`crate::Planner`]'s. Invariant: what is written is
//! read back as it was meant, by a reader of the same [`Encoding`].

use crate::encoding::{Encoding, Head, MAX_LENGTH};
use crate::name::{Name, Reference};
use crate::varint;

/// Writes a delta.
#[derive(Debug)]
pub struct DeltaWriter {
    encoding: Encoding,
    references: Vec<Reference>,
    instructions: Vec<u8>,
    pending: Vec<u8>,
    /// Where a copy is from that goes on, in an encoding that has places.
    place: Place,
}

/// A place in what a name means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) name: Name,
    pub(crate) offset: usize,
}

impl Place {
    /// Where a delta begins.
    pub(crate) const FIRST: Self = Self {
        name: Name::Number(0),
        offset: 0,
    };

    /// The place after so many bytes that were rebuilt.
    pub(crate) fn after(self, length: usize) -> Self {
        Self {
            offset: self.offset.saturating_add(length),
            ..self
        }
    }
}

impl DeltaWriter {
    /// An empty delta, which rebuilds nothing.
    pub fn new(encoding: Encoding) -> Self {
        Self {
            encoding,
            references: Vec::new(),
            instructions: Vec::new(),
            pending: Vec::new(),
            place: Place::FIRST,
        }
    }

    /// Bytes that the reader lacks. Neighbouring literals become one instruction.
    pub fn add(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// `length` bytes from `offset` of what `name` means. Where that is longer than an instruction
    /// can say, it becomes several.
    ///
    /// # Panics
    /// Where `name` is a number and the encoding has none.
    pub fn copy(&mut self, name: impl Into<Name>, mut offset: usize, mut length: usize) {
        self.flush();
        let name = name.into();
        let has_places = self.encoding.has_places();
        if has_places && length > 0 {
            let place = Place { name, offset };
            if self.place != place {
                self.number(Head::Place.number());
                self.name(name);
                self.number(offset);
            }
            self.place = place.after(length);
        }
        while length > 0 {
            let part = length.min(MAX_LENGTH);
            self.number(Head::Copy(part).number());
            if !has_places {
                self.name(name);
                self.number(offset);
                offset = offset.saturating_add(part);
            }
            length -= part;
        }
    }

    /// `length` bytes, compressed against the built-in dictionary and these, one behind the other.
    ///
    /// # Panics
    /// Where the encoding has no such instruction.
    pub fn inflate(&mut self, dictionaries: &[Name], length: usize, compressed: &[u8]) {
        assert!(
            self.encoding.can_inflate(),
            "{:?} has no compressed literals",
            self.encoding
        );
        self.flush();
        self.number(Head::Inflate.number());
        self.number(length);
        self.number(dictionaries.len());
        for name in dictionaries {
            self.name(*name);
        }
        self.number(compressed.len());
        self.instructions.extend_from_slice(compressed);
        self.place = self.place.after(length);
    }

    /// The encoded delta.
    pub fn finish(mut self) -> Vec<u8> {
        self.flush();
        if self.encoding.has_places() {
            return self.instructions;
        }
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
        self.place = self.place.after(pending.len());
        for part in pending.chunks(MAX_LENGTH) {
            self.number(Head::Add(part.len()).number());
            self.instructions.extend_from_slice(part);
        }
    }

    /// Writes a name; a reference is listed, or written in full, the first time.
    fn name(&mut self, name: Name) {
        let written = match name {
            Name::Number(number) => self.encoding.numbered(number),
            Name::Digest(reference) => {
                let known = self.references.iter().position(|it| *it == reference);
                if known.is_none() {
                    self.references.push(reference);
                    if self.encoding.has_places() {
                        self.number(0);
                        return self.instructions.extend_from_slice(&reference.0);
                    }
                }
                let last = self.references.len() - 1;
                Some(self.encoding.index(known.unwrap_or(last)))
            }
        };
        self.number(written.expect("a writer of this encoding uses no numbers"));
    }

    fn number(&mut self, number: usize) {
        varint::write(&mut self.instructions, saturated(number));
    }
}

/// A number as the encoding has room for. Nothing that is longer than 4 GiB is ever resolved, so a
/// delta that means one is refused by its reader.
fn saturated(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
