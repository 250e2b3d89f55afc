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
}

impl DeltaWriter {
    /// An empty delta, which rebuilds nothing.
    pub fn new(encoding: Encoding) -> Self {
        Self {
            encoding,
            references: Vec::new(),
            instructions: Vec::new(),
            pending: Vec::new(),
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
        let name = self.name(name.into());
        while length > 0 {
            let part = length.min(MAX_LENGTH);
            self.number(Head::Copy(part).number());
            self.number(name);
            self.number(offset);
            offset = offset.saturating_add(part);
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
        let names: Vec<usize> = dictionaries.iter().map(|name| self.name(*name)).collect();
        self.number(Head::Inflate.number());
        self.number(length);
        self.number(names.len());
        for name in names {
            self.number(name);
        }
        self.number(compressed.len());
        self.instructions.extend_from_slice(compressed);
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
            self.number(Head::Add(part.len()).number());
            self.instructions.extend_from_slice(part);
        }
    }

    /// A name as it is written; a reference is listed the first time.
    fn name(&mut self, name: Name) -> usize {
        let references = &mut self.references;
        let index = |reference| {
            let known = references.iter().position(|known| *known == reference);
            known.unwrap_or_else(|| {
                references.push(reference);
                references.len() - 1
            })
        };
        self.encoding
            .name(name, index)
            .expect("a writer of this encoding uses no numbers")
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
