//! What the volunteer lacks, and the origin's answers.
//!
//! ```text
//!  miss, absent:  | 1 | SHA-1 (20) |    | 2 | SHA-256 (32) |    | 3 | object (32) | first chunk (4) | number of chunks (4) |
//!  payload:       | 1 | SHA-1 (20) | bytes |                     | 2 | SHA-256 (32) | bytes |
//!  list part:     | object (32) | offset (4) | length of the list (4) | bytes |
//! ```
//!
//! A miss of an object is answered by its list, in parts and in order, and then by the chunks that
//! were asked for: one crossing for what a first run needs. It may ask for no chunks. Is not: the
//! decision whom to ask, nor what the origin keeps.
//!
//! Invariants: a part lies inside its list, which is no longer than [`MAX_LIST_LEN`]; every
//! answer's bytes are still to be checked ([`Payload::check`], [`List::check`]).

use super::{frame, kind};
#[cfg(doc)]
use crate::error::Breach;
use crate::error::{Error, Malformed};
use crate::name::{ObjectName, PayloadName};
use crate::object::{List, MAX_CHUNKS, MAX_LIST_LEN};
use crate::payload::{MAX_PAYLOAD_LEN, Payload};
use crate::read::Reader;

/// Most bytes of a list in one message.
pub const MAX_PART_LEN: usize = 1 << 14;

pub(super) const MAX_MISS_LEN: usize = 1 + 32 + 4 + 4;
pub(super) const MAX_FOUND_LEN: usize = 1 + 32 + MAX_PAYLOAD_LEN;
pub(super) const MAX_LIST_PART_LEN: usize = 32 + 4 + 4 + MAX_PART_LEN;

const SHA1: u8 = 1;
const SHA256: u8 = 2;
const OBJECT: u8 = 3;

/// What is missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// One payload.
    Payload(PayloadName),
    /// An object's list, and some of its chunks.
    Object {
        /// The object.
        object: ObjectName,
        /// The first chunk that is missed with it, from 0.
        first: u32,
        /// How many chunks, at most [`MAX_CHUNKS`]; 0: the list alone.
        count: u32,
    },
}

impl Miss {
    pub(super) fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let miss = match reader.u8()? {
            SHA1 => Self::Payload(PayloadName::Sha1(reader.array()?)),
            SHA256 => Self::Payload(PayloadName::Sha256(reader.array()?)),
            OBJECT => Self::Object {
                object: ObjectName(reader.array()?),
                first: reader.u32()?,
                count: reader.u32()?,
            },
            other => return Err(Malformed::Miss(other)),
        };
        reader.finish()?;
        if let Self::Object { first, count, .. } = miss
            && (first as usize > MAX_CHUNKS || count as usize > MAX_CHUNKS)
        {
            return Err(Malformed::ListPart);
        }
        Ok(miss)
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Payload(name) => put_name(out, *name),
            Self::Object {
                object,
                first,
                count,
            } => {
                out.push(OBJECT);
                out.extend_from_slice(&object.0);
                out.extend_from_slice(&first.to_be_bytes());
                out.extend_from_slice(&count.to_be_bytes());
            }
        }
    }

    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) {
        frame(out, kind::MISS, |out| self.put(out));
    }
}

/// The answer to a miss of what the origin has not got either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absent(pub Miss);

impl Absent {
    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) {
        frame(out, kind::ABSENT, |out| self.0.put(out));
    }
}

/// A payload that was missed, unchecked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    name: PayloadName,
    bytes: &'a [u8],
}

impl<'a> Found<'a> {
    /// The answer with this payload.
    #[must_use]
    pub fn new(payload: &'a Payload) -> Self {
        Self {
            name: payload.name(),
            bytes: payload.bytes(),
        }
    }

    /// What it is said to be.
    #[must_use]
    pub const fn name(&self) -> PayloadName {
        self.name
    }

    /// The payload, if its digest is right.
    ///
    /// # Errors
    /// [`Breach::Digest`] if it is not.
    pub fn check(&self) -> Result<Payload, Error> {
        Payload::check(self.name, self.bytes)
    }

    pub(super) fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let name = match reader.u8()? {
            SHA1 => PayloadName::Sha1(reader.array()?),
            SHA256 => PayloadName::Sha256(reader.array()?),
            other => return Err(Malformed::Miss(other)),
        };
        let bytes = reader.rest();
        if bytes.len() > MAX_PAYLOAD_LEN {
            return Err(Malformed::PlaintextLength(bytes.len()));
        }
        Ok(Self { name, bytes })
    }

    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) {
        frame(out, kind::FOUND, |out| {
            put_name(out, self.name);
            out.extend_from_slice(self.bytes);
        });
    }
}

/// A part of a list that was missed, unchecked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListPart<'a> {
    object: ObjectName,
    offset: u32,
    total: u32,
    bytes: &'a [u8],
}

impl<'a> ListPart<'a> {
    /// The object whose list it is a part of.
    #[must_use]
    pub const fn object(&self) -> ObjectName {
        self.object
    }

    /// Appends the part to what came before it, and gives the list when it is complete.
    ///
    /// # Errors
    /// [`Malformed::ListPart`] for a part that does not follow on `so_far`; [`Breach::Digest`] and
    /// [`Malformed::List`] where the whole is not the list that it should be.
    pub fn join(&self, so_far: &mut Vec<u8>) -> Result<Option<List>, Error> {
        if so_far.len() != self.offset as usize {
            return Err(Malformed::ListPart.into());
        }
        so_far.extend_from_slice(self.bytes);
        if so_far.len() < self.total as usize {
            return Ok(None);
        }
        List::check(self.object, std::mem::take(so_far)).map(Some)
    }

    pub(super) fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let part = Self {
            object: ObjectName(reader.array()?),
            offset: reader.u32()?,
            total: reader.u32()?,
            bytes: reader.rest(),
        };
        let end = part.offset as usize + part.bytes.len();
        let possible = part.total as usize <= MAX_LIST_LEN
            && end <= part.total as usize
            && part.bytes.len() <= MAX_PART_LEN
            && !part.bytes.is_empty();
        possible.then_some(part).ok_or(Malformed::ListPart)
    }

    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) {
        frame(out, kind::LIST_PART, |out| {
            out.extend_from_slice(&self.object.0);
            out.extend_from_slice(&self.offset.to_be_bytes());
            out.extend_from_slice(&self.total.to_be_bytes());
            out.extend_from_slice(self.bytes);
        });
    }
}

/// The answer with this list: its parts, in order.
pub fn list_parts(list: &List) -> impl Iterator<Item = ListPart<'_>> {
    let bytes = list.as_bytes();
    // A list has at most MAX_LIST_LEN bytes: nothing is cut short.
    let number_of = |len| u32::try_from(len).unwrap_or(u32::MAX);
    bytes
        .chunks(MAX_PART_LEN)
        .enumerate()
        .map(move |(number, part)| ListPart {
            object: list.name(),
            offset: number_of(number * MAX_PART_LEN),
            total: number_of(bytes.len()),
            bytes: part,
        })
}

fn put_name(out: &mut Vec<u8>, name: PayloadName) {
    out.push(match name {
        PayloadName::Sha1(_) => SHA1,
        PayloadName::Sha256(_) => SHA256,
    });
    out.extend_from_slice(name.as_bytes());
}
