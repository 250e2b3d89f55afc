//! A middlebox's part in one direction of an established session: it opens what it may read, and
//! sends each group on as it is or in other words.
//!
//! Is not: what a middlebox does with what it reads.
//!
//! Invariants: a group that was received is sent on once: [`Passing`] is used up by it, so nothing
//! is sealed twice under one nonce; what this middlebox may not write, it cannot replace, for want
//! of a key; a reader passes on the very bytes.

use aws_lc_rs::hmac;

use crate::config::{PathMode, Right, Terms};
use crate::error::{Breach, Error, Misuse};
use crate::frame::write_record;
use crate::keys::{Claim, DirectionKeys};
use crate::party::{Author, ContextId, Direction, Position};
use crate::receiver::{check_author, in_order};
use crate::record::{Assembly, Evidence, Group, Header, MAX_PARTS, MAX_PAYLOAD_LEN, Place, Stamp};

/// One direction of a session at a middlebox.
#[derive(Debug)]
pub struct Relay {
    pub(crate) position: Position,
    pub(crate) terms: Terms,
    pub(crate) keys: DirectionKeys,
    /// The key of this middlebox's tags, for the endpoint that receives.
    pub(crate) author: hmac::Key,
    assembly: Assembly,
}

/// A group on its way through this middlebox: owed to [`Relay::forward`] or [`Relay::replace`].
#[must_use = "the other side waits for it"]
#[derive(Debug)]
pub struct Passing {
    pub(crate) group: Group,
    pub(crate) claim: Claim,
    text: Option<Vec<u8>>,
}

impl Passing {
    /// In which context.
    #[must_use]
    pub const fn context(&self) -> ContextId {
        self.group.context
    }

    /// The data; `None` where this middlebox may not read it.
    #[must_use]
    pub fn text(&self) -> Option<&[u8]> {
        self.text.as_deref()
    }
}

impl Relay {
    pub(crate) fn new(
        position: Position,
        terms: Terms,
        keys: DirectionKeys,
        author: hmac::Key,
    ) -> Self {
        Self {
            position,
            terms,
            keys,
            author,
            assembly: Assembly::default(),
        }
    }

    /// Where its records go.
    #[must_use]
    pub const fn direction(&self) -> Direction {
        self.keys.direction()
    }

    /// What this middlebox may do in a context.
    #[must_use]
    pub fn right(&self, id: ContextId) -> Right {
        let context = self.terms.context(id);
        context.map_or(Right::None, |context| context.right(self.position))
    }

    /// Takes a record, as it came in its frame. `None`: its group is not whole yet.
    ///
    /// # Errors
    /// What this middlebox can tell to be wrong with its keys: any record out of order; where it
    /// may read, records of outsiders; where it may write, records of readers.
    pub fn receive(&mut self, record: &[u8]) -> Result<Option<Passing>, Error> {
        let terms = &self.terms;
        let Some(group) = self.assembly.push(record, |id| terms.context(id))? else {
            return Ok(None);
        };
        let context = self.terms.context(group.context);
        let direction = self.keys.direction();
        if let Author::Middlebox(author) = group.author {
            check_author(context, author, Some(self.position), direction)?;
        }
        if let Some(context) = context {
            let before = in_order(&self.terms, direction).into_iter();
            let due = before
                .take_while(|position| *position != self.position)
                .filter(|position| context.stamps(*position));
            let found = group.evidence.stamps.iter().map(|stamp| stamp.position);
            if context.path == PathMode::Required && !due.eq(found) {
                return Err(Breach::Part.into());
            }
        }
        let text = self.keys.open(&group)?;
        let claim = Claim::of(&group);
        if text.is_some() {
            self.keys.check_writer(&claim, group.evidence.writer)?;
        }
        Ok(Some(Passing { group, claim, text }))
    }

    /// Sends a group on as it is, with this middlebox's stamp where the path is required.
    pub fn forward(&self, passing: Passing, out: &mut Vec<u8>) {
        let Passing {
            mut group, claim, ..
        } = passing;
        let context = self.terms.context(group.context);
        if context.is_some_and(|context| context.stamps(self.position)) {
            group.evidence.stamps.push(Stamp {
                position: self.position,
                changed: None,
                tag: claim.stamp(&self.author, &claim.digest, &claim.digest),
            });
        }
        group.write(context, out, write_record);
    }

    /// Sends other data on in place of a group: one part for each record. A single empty part
    /// deletes it.
    ///
    /// # Errors
    /// [`Misuse`]: this middlebox may not write here, or there are too many parts, or one is too
    /// long. Nothing is appended, and the session cannot go on.
    pub fn replace(
        &mut self,
        passing: Passing,
        parts: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let Passing {
            group: old, claim, ..
        } = passing;
        let id = old.context;
        if self.right(id) != Right::Write {
            return Err(Misuse::NotWriter(id).into());
        }
        let last = parts.len().checked_sub(1);
        let last = last.filter(|last| *last < MAX_PARTS);
        let last = last.ok_or(Misuse::Parts(parts.len()))?;
        if let Some(long) = parts.iter().find(|part| part.len() > MAX_PAYLOAD_LEN) {
            return Err(Misuse::PayloadLength(long.len()).into());
        }
        let author = Author::Middlebox(self.position);
        let mut sealed = Vec::new();
        for (index, part) in (0u8..).zip(parts) {
            let header = Header {
                context: id,
                author,
                index,
                place: match usize::from(index) == last {
                    true => Place::Last,
                    false => Place::Inner,
                },
                seq: old.seq,
            };
            sealed.push(self.keys.seal(header, part)?.ok_or(Misuse::NotWriter(id))?);
        }
        let mut group = Group {
            context: id,
            author,
            seq: old.seq,
            parts: sealed,
            evidence: Evidence::default(),
        };
        let now = Claim::new(id, old.seq, claim.origin, group.digest());
        let context = self.terms.context(id);
        group.evidence = Evidence {
            writer: match old.evidence.writer {
                Some(_) => self.keys.writer_tag(&now)?,
                None => None,
            },
            endpoint: old.evidence.endpoint,
            origin: Some(claim.origin),
            author: None,
            stamps: old.evidence.stamps,
        };
        if context.is_some_and(|context| context.stamps(self.position)) {
            group.evidence.stamps.push(Stamp {
                position: self.position,
                changed: Some(now.digest),
                tag: now.stamp(&self.author, &claim.digest, &now.digest),
            });
        } else {
            group.evidence.author = Some(now.author_tag(&self.author));
        }
        group.write(context, out, write_record);
        Ok(())
    }
}
