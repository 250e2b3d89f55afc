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
//!
//! Three, without count and references in front:
//! instruction = add     : (length << 1 | 0)(varint) bytes{length}
//!             | copy    : (length << 1 | 1)(varint)
//!             | inflate : 0 length(varint) count(varint) name(varint){count}
//!                         size(varint) bytes{size}
//!             | place   : 1 name offset(varint)
//! name        = 0(varint) reference : the delta's next reference
//!             | (index << 1) + 2 : a reference that was named before
//!             | number << 1 | 1 : a number that both sides know
//! ```
//!
//! In the third form a copy is from a place, which moves on with every byte that is rebuilt; at
//! first it is the start of what the number 0 means. So where a field of something earlier was
//! exchanged for one of the same length, what follows it costs a byte or two.
//!
//! A compressed literal has the built-in dictionary first, and then what its names mean. Its head
//! is that of a literal without bytes, which nobody writes, so that what is held costs the same in
//! both forms.
//!
//! Invariant: the bytes of a form do not change; whatever is new is a new form.

/// A form of the encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Literals, and copies of what digests name.
    One,
    /// The same, compressed literals, and numbers for names.
    Two,
    /// The same, and copies that go on where the last one would be by now. For carriers whose
    /// deltas are against something of the same shape: the tunnel.
    Three,
}

/// What an instruction begins with: its kind and, but for a compressed literal, its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    Add(usize),
    Copy(usize),
    Inflate,
    Place,
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
            Self::Place => 1,
        }
    }
}

impl Encoding {
    /// Whether literals may be compressed, and names be numbers.
    pub fn can_inflate(self) -> bool {
        match self {
            Self::One => false,
            Self::Two | Self::Three => true,
        }
    }

    /// Whether a copy is from a place that moves on, and references stand where they are used
    /// first.
    pub(crate) fn has_places(self) -> bool {
        match self {
            Self::One | Self::Two => false,
            Self::Three => true,
        }
    }

    /// The head in a number; `None` for one that this form does not have.
    pub(crate) fn parse_head(self, number: u32) -> Option<Head> {
        let length = (number >> 1) as usize;
        match (number & 1, length) {
            (0, 0) => self.can_inflate().then_some(Head::Inflate),
            (_, 0) => self.has_places().then_some(Head::Place),
            (0, _) => Some(Head::Add(length)),
            (_, _) => Some(Head::Copy(length)),
        }
    }

    /// How the reference at this place of the delta's is written.
    pub(crate) fn index(self, index: usize) -> usize {
        match self {
            Self::One => index,
            Self::Two => index << 1,
            Self::Three => (index + 1) << 1,
        }
    }

    /// How a number is written; `None` in a form that has none.
    pub(crate) fn numbered(self, number: u32) -> Option<usize> {
        self.can_inflate().then_some((number as usize) << 1 | 1)
    }

    /// A name as it was written.
    pub(crate) fn parse_name(self, written: u32) -> Written {
        match self {
            Self::One => Written::Index(written as usize),
            Self::Two | Self::Three if written & 1 == 1 => Written::Number(written >> 1),
            Self::Two => Written::Index((written >> 1) as usize),
            Self::Three => match (written >> 1).checked_sub(1) {
                Some(index) => Written::Index(index as usize),
                None => Written::Reference,
            },
        }
    }
}

/// A name as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// The reference at this place of the delta's.
    Index(usize),
    /// A reference that follows.
    Reference,
    /// A number that both sides know.
    Number(u32),
}
