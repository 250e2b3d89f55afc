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
//! instruction = add     : (length << 1 | 0)(varint) bytes{length}
//!             | copy    : (length << 1 | 1)(varint) name(varint) offset(varint)
//!             | inflate : 0 length(varint) count(varint) name(varint){count}
//!                         size(varint) bytes{size}
//! name        = index << 1 | 0 : a reference of this delta
//!             | number << 1 | 1 : a number that both sides know
//! ```
//!
//! A compressed literal has the built-in dictionary first, and then what its names mean. Its head
//! is that of a literal without bytes, which nobody writes, so that what is held costs the same in
//! both forms.
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

/// What an instruction begins with: its kind and, but for a compressed literal, its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    Add(usize),
    Copy(usize),
    Inflate,
}

/// Most bytes of a literal or a copy: what a number of 32 bits holds beside the kind.
pub(crate) const MAX_LENGTH: usize = (u32::MAX >> 1) as usize;

impl Head {
    /// The head as a number.
    pub(crate) fn number(self) -> usize {
        match self {
            Self::Add(length) => length << 1,
            Self::Copy(length) => length << 1 | 1,
            Self::Inflate => 0,
        }
    }
}

impl Encoding {
    /// Whether literals may be compressed, and names be numbers.
    pub fn can_inflate(self) -> bool {
        match self {
            Self::One => false,
            Self::Two => true,
        }
    }

    /// The head in a number; `None` for one that this form does not have.
    pub(crate) fn parse_head(self, number: u32) -> Option<Head> {
        let length = (number >> 1) as usize;
        match (number & 1, length) {
            (0, 0) => self.can_inflate().then_some(Head::Inflate),
            (_, 0) => None,
            (0, _) => Some(Head::Add(length)),
            (_, _) => Some(Head::Copy(length)),
        }
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
