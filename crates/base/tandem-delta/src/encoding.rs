//! The forms that a delta is written in.
//!
//! Is: the numbers in an instruction's head, and what each form has. Is not: the choice of one;
//! two proxies use what both know, and a reader is never sent another.
//!
//! ```text
//! delta       = count(varint) reference{count} instruction*
//! reference   = 16 bytes: the front of SHA-256 over the bytes that are meant
//!
//! One:
//! instruction = add     : (length << 1 | 0)(varint) bytes{length}
//!             | copy    : (length << 1 | 1)(varint) index(varint) offset(varint)
//!
//! Two:
//! instruction = add     : (length << 2 | 0)(varint) bytes{length}
//!             | copy    : (length << 2 | 1)(varint) name(varint) offset(varint)
//!             | inflate : (length << 2 | 2)(varint) count(varint) name(varint){count}
//!                         size(varint) bytes{size}
//! name        = index << 1 | 0 : a reference of this delta
//!             | number << 1 | 1 : a number that both sides know; 0 is the built-in dictionary
//! ```
//!
//! Invariant: the bytes of a form do not change; whatever is new is a new form.

use crate::name::{Name, Reference};

/// A form of the encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Literals, and copies of what digests name.
    One,
    /// The same, compressed literals, and numbers for names.
    Two,
}

/// The kind of an instruction, as its head says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Add = 0,
    Copy = 1,
    Inflate = 2,
}

impl Encoding {
    /// Whether literals may be compressed, and names be numbers.
    pub fn can_inflate(self) -> bool {
        match self {
            Self::One => false,
            Self::Two => true,
        }
    }

    /// Bits of a head that say the kind.
    fn kind_bits(self) -> u32 {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }

    /// Most bytes of one instruction: what a number of 32 bits holds beside the kind.
    pub(crate) fn max_length(self) -> usize {
        (u32::MAX >> self.kind_bits()) as usize
    }

    /// The head of an instruction of at most [`Self::max_length`] bytes.
    pub(crate) fn head(self, kind: Kind, length: usize) -> usize {
        debug_assert!(length <= self.max_length());
        length << self.kind_bits() | kind as usize
    }

    /// Kind and length out of a head; `None` for a kind that this form does not have.
    pub(crate) fn parse_head(self, head: u32) -> Option<(Kind, usize)> {
        let kind = match head & ((1 << self.kind_bits()) - 1) {
            0 => Kind::Add,
            1 => Kind::Copy,
            2 => Kind::Inflate,
            _ => return None,
        };
        Some((kind, (head >> self.kind_bits()) as usize))
    }

    /// How a name is written: a digest by its index among the delta's references. `None` for a
    /// number in a form that has none.
    pub(crate) fn name(self, name: Name, index: impl FnOnce(Reference) -> usize) -> Option<usize> {
        match (self, name) {
            (Self::One, Name::Digest(reference)) => Some(index(reference)),
            (Self::One, Name::Number(_)) => None,
            (Self::Two, Name::Digest(reference)) => Some(index(reference) << 1),
            (Self::Two, Name::Number(number)) => Some((number as usize) << 1 | 1),
        }
    }

    /// The same, read.
    pub(crate) fn parse_name(self, written: u32) -> Written {
        match self {
            Self::One => Written::Index(written as usize),
            Self::Two if written & 1 == 0 => Written::Index((written >> 1) as usize),
            Self::Two => Written::Number(written >> 1),
        }
    }
}

/// A name as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// The reference at this place of the delta's.
    Index(usize),
    /// A number that both sides know.
    Number(u32),
}
