//! The bytes of a record, and how records make a group.
//!
//! ```text
//!  0         1        2      3      11
//!  | context | author | part | seq  | evidence, in the last part only | AEAD(payload) | tag 16 |
//!
//!  part       index 0 to 7, and 0x80 on the last of a group
//!  evidence   writer's tag 16        where some middlebox may read and not write
//!             endpoint's tag 16      where some middlebox may write
//!             origin 32              where the author is a middlebox: digest of the group as the
//!                                    endpoint sent it
//!             author's tag 16        the same, unless the path is required
//!             stamps                 where the path is required: how many 1, then for each:
//!                                    position 1 | changed 1 | digest 32 if changed | tag 16
//! ```
//!
//! A *group* is all records of one sequence number: one record as an endpoint sends it, one to
//! eight where a middlebox has replaced it, all by that middlebox. An empty group by a middlebox is
//! a deletion. The digest of a group is SHA-256 over header, length (2) and ciphertext of each of
//! its records; evidence is not a part of it, and changes on the way.
//!
//! Is not: keys (`keys`), or which evidence is true ([`crate::receiver`]).
//!
//! Invariant: a record that was read, written again, is the same bytes.

use aws_lc_rs::digest::{Context as Hasher, SHA256};

use crate::config::{Context, PathMode};
use crate::error::{Breach, Error, Malformed};
use crate::party::{Author, ContextId, MAX_MIDDLEBOXES, Position};
use crate::read::Reader;
use crate::secret::{Digest, HASH_LEN, TAG_LEN, Tag, finish};

/// Most bytes of data in a record, as in TLS.
pub const MAX_PAYLOAD_LEN: usize = 1 << 14;

/// Most records of one group.
pub const MAX_PARTS: usize = 8;

/// Length of a record's header in bytes.
pub(crate) const HEADER_LEN: usize = 11;

/// Most bytes of evidence.
const MAX_EVIDENCE_LEN: usize =
    TAG_LEN + TAG_LEN + HASH_LEN + 1 + MAX_MIDDLEBOXES * (2 + HASH_LEN + TAG_LEN);

/// Longest record in bytes.
pub const MAX_RECORD_LEN: usize = HEADER_LEN + MAX_EVIDENCE_LEN + MAX_PAYLOAD_LEN + TAG_LEN;

/// On the last part of a group.
const LAST: u8 = 0x80;

/// A record's header: what its AEAD authenticates beside the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) context: ContextId,
    pub(crate) author: Author,
    pub(crate) index: u8,
    pub(crate) place: Place,
    pub(crate) seq: u64,
}

/// Whether more parts of a group come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Inner,
    Last,
}

impl Header {
    pub(crate) fn to_bytes(self) -> [u8; HEADER_LEN] {
        let last = match self.place {
            Place::Inner => 0,
            Place::Last => LAST,
        };
        let mut bytes = [0; HEADER_LEN];
        bytes[..3].copy_from_slice(&[self.context.0, self.author.code(), self.index | last]);
        bytes[3..].copy_from_slice(&self.seq.to_be_bytes());
        bytes
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let context = reader.context()?;
        let author = reader.author()?;
        let part = reader.u8()?;
        let index = part & !LAST;
        if usize::from(index) >= MAX_PARTS {
            return Err(Malformed::Part(part));
        }
        Ok(Self {
            context,
            author,
            index,
            place: if part == index {
                Place::Inner
            } else {
                Place::Last
            },
            seq: reader.u64()?,
        })
    }
}

/// What one middlebox says of a group that it has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) position: Position,
    /// The digest of what it sent on, where that is not what it received.
    pub(crate) changed: Option<Digest>,
    pub(crate) tag: Tag,
}

/// What stands beside the ciphertext, to be verified by whom it concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evidence {
    pub(crate) writer: Option<Tag>,
    pub(crate) endpoint: Option<Tag>,
    pub(crate) origin: Option<Digest>,
    pub(crate) author: Option<Tag>,
    pub(crate) stamps: Vec<Stamp>,
}

impl Evidence {
    /// Reads what this context's records have; those of context 0 (`None`) have none.
    pub(crate) fn read(
        reader: &mut Reader<'_>,
        context: Option<&Context>,
        author: Author,
    ) -> Result<Self, Malformed> {
        let mut evidence = Self::default();
        let Some(context) = context else {
            return Ok(evidence);
        };
        if context.has_writer_tag() {
            evidence.writer = Some(reader.array()?);
        }
        if context.has_endpoint_tag() {
            evidence.endpoint = Some(reader.array()?);
        }
        if let Author::Middlebox(_) = author {
            evidence.origin = Some(reader.array()?);
            if context.path == PathMode::Off {
                evidence.author = Some(reader.array()?);
            }
        }
        if context.path == PathMode::Required {
            let count = usize::from(reader.u8()?);
            if count > MAX_MIDDLEBOXES {
                return Err(Malformed::Middleboxes(count));
            }
            for _ in 0..count {
                evidence.stamps.push(Stamp {
                    position: reader.position()?,
                    changed: match reader.flag()? {
                        true => Some(reader.array()?),
                        false => None,
                    },
                    tag: reader.array()?,
                });
            }
        }
        Ok(evidence)
    }

    pub(crate) fn write(&self, context: Option<&Context>, out: &mut Vec<u8>) {
        let writer = self.writer.iter().flatten();
        out.extend(writer.chain(self.endpoint.iter().flatten()));
        out.extend(self.origin.iter().flatten());
        out.extend(self.author.iter().flatten());
        if context.is_some_and(|context| context.path == PathMode::Required) {
            let count = u8::try_from(self.stamps.len()).expect("at most one for each middlebox");
            out.push(count);
            for stamp in &self.stamps {
                out.extend_from_slice(&[
                    stamp.position.number(),
                    u8::from(stamp.changed.is_some()),
                ]);
                out.extend(stamp.changed.iter().flatten());
                out.extend_from_slice(&stamp.tag);
            }
        }
    }
}

/// One record of a group: its header, and its ciphertext with the AEAD's tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) header: Header,
    pub(crate) sealed: Vec<u8>,
}

/// All records of one sequence number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) context: ContextId,
    pub(crate) author: Author,
    pub(crate) seq: u64,
    pub(crate) parts: Vec<Part>,
    pub(crate) evidence: Evidence,
}

impl Group {
    pub(crate) fn digest(&self) -> Digest {
        let parts = self.parts.iter();
        digest(parts.map(|part| (part.header, part.sealed.as_slice())))
    }

    /// Appends one of its records.
    pub(crate) fn write_part(&self, part: &Part, context: Option<&Context>, out: &mut Vec<u8>) {
        self.write_front(part, context, out);
        out.extend_from_slice(&part.sealed);
    }

    /// What stands before a record's ciphertext.
    pub(crate) fn front(&self, part: &Part, context: Option<&Context>) -> Vec<u8> {
        let mut front = Vec::new();
        self.write_front(part, context, &mut front);
        front
    }

    fn write_front(&self, part: &Part, context: Option<&Context>, out: &mut Vec<u8>) {
        out.extend_from_slice(&part.header.to_bytes());
        match part.header.place {
            Place::Inner => {}
            Place::Last => self.evidence.write(context, out),
        }
    }
}

/// The digest of a group: of each of its records the header and the ciphertext.
pub(crate) fn digest<'a>(parts: impl Iterator<Item = (Header, &'a [u8])>) -> Digest {
    let mut hasher = Hasher::new(&SHA256);
    for (header, sealed) in parts {
        hasher.update(&header.to_bytes());
        let length = u16::try_from(sealed.len()).expect("a record is shorter than 2^16");
        hasher.update(&length.to_be_bytes());
        hasher.update(sealed);
    }
    finish(hasher)
}

/// Records in their order, to groups.
///
/// Invariant: holds at most [`MAX_PARTS`] records; sequence numbers come each once, without gaps.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    next: u64,
    open: Option<Group>,
}

impl Assembly {
    /// Takes a record; gives the group that it completes. `context` is the terms' for its number.
    pub(crate) fn push<'a>(
        &mut self,
        record: &[u8],
        context: impl FnOnce(ContextId) -> Option<&'a Context>,
    ) -> Result<Option<Group>, Error> {
        let mut reader = Reader::new(record);
        let header = Header::read(&mut reader)?;
        if header.seq != self.next {
            let (expected, found) = (self.next, header.seq);
            return Err(Breach::Sequence { expected, found }.into());
        }
        let terms = context(header.context);
        if terms.is_none() && header.context != ContextId::END_TO_END {
            return Err(Breach::Context(header.context).into());
        }
        let mut group = match self.open.take() {
            None => Group {
                context: header.context,
                author: header.author,
                seq: header.seq,
                parts: Vec::new(),
                evidence: Evidence::default(),
            },
            Some(open) => open,
        };
        let alone = header.author == Author::Endpoint || header.context == ContextId::END_TO_END;
        let right = group.context == header.context
            && group.author == header.author
            && group.parts.len() == usize::from(header.index)
            && !(alone && header.place == Place::Inner);
        if !right {
            return Err(Breach::Part.into());
        }
        if header.place == Place::Last {
            group.evidence = Evidence::read(&mut reader, terms, header.author)?;
        }
        let sealed = reader.rest();
        if sealed.len() < TAG_LEN {
            return Err(Malformed::Truncated.into());
        }
        if sealed.len() > MAX_PAYLOAD_LEN + TAG_LEN {
            let length = u16::try_from(sealed.len()).unwrap_or(u16::MAX);
            let kind = header.context.0;
            return Err(Malformed::TooLong { kind, length }.into());
        }
        let sealed = sealed.to_vec();
        group.parts.push(Part { header, sealed });
        match header.place {
            Place::Inner => {
                self.open = Some(group);
                Ok(None)
            }
            Place::Last => {
                self.next = self.next.checked_add(1).ok_or(Breach::Part)?;
                Ok(Some(group))
            }
        }
    }
}

#[cfg(test)]
impl Assembly {
    pub(crate) fn skip_to(&mut self, seq: u64) {
        self.next = seq;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Right;

    fn context(path: PathMode) -> Context {
        Context {
            id: ContextId(1),
            purpose: String::new(),
            path,
            rights: vec![Right::Read, Right::Write],
        }
    }

    fn group(path: PathMode) -> Group {
        let author = Author::Middlebox(Position::new(2).expect("as the test has it"));
        let part = |index, place| Part {
            header: Header {
                context: ContextId(1),
                author,
                index,
                place,
                seq: 0,
            },
            sealed: vec![index; 20],
        };
        let stamp = Stamp {
            position: Position::new(2).expect("as the test has it"),
            changed: Some([7; HASH_LEN]),
            tag: [8; TAG_LEN],
        };
        Group {
            context: ContextId(1),
            author,
            seq: 0,
            parts: vec![part(0, Place::Inner), part(1, Place::Last)],
            evidence: Evidence {
                writer: Some([1; TAG_LEN]),
                endpoint: Some([2; TAG_LEN]),
                origin: Some([3; HASH_LEN]),
                author: (path == PathMode::Off).then_some([4; TAG_LEN]),
                stamps: match path {
                    PathMode::Off => Vec::new(),
                    PathMode::Required => vec![stamp],
                },
            },
        }
    }

    fn records(group: &Group, context: &Context) -> Vec<Vec<u8>> {
        let parts = group.parts.iter();
        let written = parts.map(|part| {
            let mut record = Vec::new();
            group.write_part(part, Some(context), &mut record);
            record
        });
        written.collect()
    }

    #[test]
    fn a_group_is_read_as_it_was_written() {
        for path in [PathMode::Off, PathMode::Required] {
            let (group, context) = (group(path), context(path));
            let records = records(&group, &context);
            let mut assembly = Assembly::default();
            assert_eq!(assembly.push(&records[0], |_| Some(&context)), Ok(None));
            let read = assembly.push(&records[1], |_| Some(&context));
            assert_eq!(read, Ok(Some(group)));
        }
    }

    #[test]
    fn a_record_out_of_order_is_refused() {
        let (group, context) = (group(PathMode::Off), context(PathMode::Off));
        let records = records(&group, &context);
        let refused = |order: &[usize]| {
            let mut assembly = Assembly::default();
            let mut results = order
                .iter()
                .map(|&at| assembly.push(&records[at], |_| Some(&context)));
            results.find_map(Result::err)
        };
        assert_eq!(refused(&[1]), Some(Breach::Part.into()));
        assert_eq!(refused(&[0, 0]), Some(Breach::Part.into()));
        let again = Breach::Sequence {
            expected: 1,
            found: 0,
        };
        assert_eq!(refused(&[0, 1, 1]), Some(again.into()));
    }

    #[test]
    fn an_endpoint_sends_groups_of_one() {
        let context = context(PathMode::Off);
        let header = Header {
            context: ContextId(1),
            author: Author::Endpoint,
            index: 0,
            place: Place::Inner,
            seq: 0,
        };
        let record = [&header.to_bytes()[..], &[0; 40]].concat();
        let refused = Assembly::default().push(&record, |_| Some(&context));
        assert_eq!(refused, Err(Breach::Part.into()));
    }
}
