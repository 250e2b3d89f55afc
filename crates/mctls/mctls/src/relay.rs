//! A middlebox's part in one direction of an established session: it opens what it may read, and
//! sends each group on as it is or in other words.
//!
//! Is not: what a middlebox does with what it reads.
//!
//! Invariants: a group that was received is sent on once, by the relay that received it: a
//! [`Passing`] holds that relay and is used up, so nothing is sealed twice under one nonce, or for
//! the other direction; what this middlebox may not write, it cannot replace, for want of a key; a
//! reader passes on the very bytes; groups that wait stay in their relay, in their order; after an
//! error nothing more is taken.

use std::collections::VecDeque;

use aws_lc_rs::hmac;

use crate::config::{Context, Right, Terms};
use crate::error::{Check, Error, Misuse};
use crate::frame::write_group;
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
    /// Groups that wait, the oldest first.
    held: VecDeque<Checked>,
    /// What has ended it.
    failed: Option<Error>,
}

/// A group on its way through this middlebox: owed to [`Passing::forward`], [`Passing::replace`] or
/// [`Passing::hold`].
#[must_use = "the other side waits for it"]
#[derive(Debug)]
pub struct Passing<'a> {
    pub(crate) relay: &'a mut Relay,
    pub(crate) group: Group,
    pub(crate) text: Option<Vec<u8>>,
}

/// A group that has passed this middlebox's checks.
#[derive(Debug)]
struct Checked {
    group: Group,
    text: Option<Vec<u8>>,
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
            held: VecDeque::new(),
            failed: None,
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
    /// What this middlebox can tell to be wrong with its keys: any record out of order; a missing
    /// stamp; where it may read, records of outsiders; where it may write, records of readers. It
    /// comes again at each further call.
    pub fn receive(&mut self, record: &[u8]) -> Result<Option<Passing<'_>>, Error> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        match self.check(record) {
            Ok(None) => Ok(None),
            Ok(Some(Checked { group, text })) => Ok(Some(Passing {
                relay: self,
                group,
                text,
            })),
            Err(error) => Err(self.fail(error)),
        }
    }

    /// The oldest group that waits. Until there is none, what comes has to wait behind it: a group
    /// that overtakes another is refused at its end.
    pub fn release(&mut self) -> Option<Passing<'_>> {
        let Checked { group, text } = self.held.pop_front()?;
        Some(Passing {
            relay: self,
            group,
            text,
        })
    }

    const fn fail(&mut self, error: Error) -> Error {
        self.failed = Some(error);
        error
    }

    fn check(&mut self, record: &[u8]) -> Result<Option<Checked>, Error> {
        let terms = &self.terms;
        let Some(group) = self.assembly.push(record, |id| terms.context(id))? else {
            return Ok(None);
        };
        let context = self.terms.context(group.context);
        if let Author::Middlebox(author) = group.author {
            check_author(context, author, Some(self.position), self.direction())?;
        }
        if let Some(context) = context {
            self.check_stamps(context, &group)?;
        }
        let text = self.keys.open(&group)?;
        // Who may only read has no use for the digest, which takes as long as all the rest.
        if group.evidence.writer.is_some() && self.keys.may_write(group.context) {
            let claim = Claim::of(&group);
            self.keys.check_writer(&claim, group.evidence.writer)?;
        }
        Ok(Some(Checked { group, text }))
    }

    /// Whether each middlebox that has to have stamped by now has; what its stamp says is for the
    /// endpoint to verify.
    fn check_stamps(&self, context: &Context, group: &Group) -> Result<(), Error> {
        let mut stamps = group.evidence.stamps.iter();
        for position in in_order(&self.terms, self.direction()) {
            if position == self.position {
                break;
            }
            if context.stamps(position) {
                let stamp = stamps.next().filter(|stamp| stamp.position == position);
                stamp.ok_or(Check::PathSkipped(position))?;
            }
        }
        match stamps.next() {
            None => Ok(()),
            Some(stamp) => Err(Check::PathStamp(stamp.position).into()),
        }
    }
}

impl Passing<'_> {
    /// In which context.
    #[must_use]
    pub const fn context(&self) -> ContextId {
        self.group.context
    }

    /// What was agreed on for it; `None` for context 0.
    #[must_use]
    pub fn terms(&self) -> Option<&Context> {
        self.relay.terms.context(self.group.context)
    }

    /// The data; `None` where this middlebox may not read it.
    #[must_use]
    pub fn text(&self) -> Option<&[u8]> {
        self.text.as_deref()
    }

    /// How many bytes of it are held: all of its records as they were sealed, and the data.
    #[must_use]
    pub fn size(&self) -> usize {
        let sealed = self.group.parts.iter().map(|part| part.sealed.len());
        sealed.sum::<usize>() + self.text.as_ref().map_or(0, Vec::len)
    }

    /// Lets it wait, behind those that wait, for [`Relay::release`]. How many may wait is the
    /// caller's to limit.
    pub fn hold(self) {
        let Self { relay, group, text } = self;
        relay.held.push_back(Checked { group, text });
    }

    /// Sends it on as it is, with this middlebox's stamp where the path is required.
    pub fn forward(mut self, out: &mut Vec<u8>) {
        self.stamp();
        let context = self.relay.terms.context(self.group.context);
        write_group(out, &self.group, context);
    }

    /// Says that this middlebox has seen it, where that is asked for.
    pub(crate) fn stamp(&mut self) {
        let relay = &*self.relay;
        let context = relay.terms.context(self.group.context);
        if context.is_some_and(|context| context.stamps(relay.position)) {
            let claim = Claim::of(&self.group);
            self.group.evidence.stamps.push(Stamp {
                position: relay.position,
                changed: None,
                tag: claim.stamp(&relay.author, &claim.digest, None),
            });
        }
    }

    /// Sends other data on in its place: one part for each record. Where all parts are empty, that
    /// deletes it.
    ///
    /// # Errors
    /// [`Misuse`]: this middlebox may not write here, or there are too many parts, or one is too
    /// long. Nothing is appended, and the session cannot go on.
    pub fn replace(self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<(), Error> {
        let Self {
            relay, group: old, ..
        } = self;
        match replacement(relay, old, parts) {
            Ok(group) => {
                write_group(out, &group, relay.terms.context(group.context));
                Ok(())
            }
            Err(error) => Err(relay.fail(error)),
        }
    }
}

/// A group with other data and this middlebox's evidence.
fn replacement(relay: &mut Relay, old: Group, parts: &[&[u8]]) -> Result<Group, Error> {
    let id = old.context;
    let claim = Claim::of(&old);
    if relay.right(id) != Right::Write {
        return Err(Misuse::NotWriter(id).into());
    }
    let last = parts.len().checked_sub(1);
    let last = last.filter(|last| *last < MAX_PARTS);
    let last = last.ok_or(Misuse::Parts(parts.len()))?;
    if let Some(long) = parts.iter().find(|part| part.len() > MAX_PAYLOAD_LEN) {
        return Err(Misuse::PayloadLength(long.len()).into());
    }
    let author = Author::Middlebox(relay.position);
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
        let part = relay.keys.seal(header, part)?;
        sealed.push(part.ok_or(Misuse::NotWriter(id))?);
    }
    let mut group = Group {
        context: id,
        author,
        seq: old.seq,
        parts: sealed,
        evidence: Evidence::default(),
    };
    let now = Claim::new(id, old.seq, claim.origin, group.digest());
    group.evidence = Evidence {
        writer: match old.evidence.writer {
            Some(_) => relay.keys.writer_tag(&now)?,
            None => None,
        },
        endpoint: old.evidence.endpoint,
        origin: Some(claim.origin),
        author: None,
        stamps: old.evidence.stamps,
    };
    let context = relay.terms.context(id);
    if context.is_some_and(|context| context.stamps(relay.position)) {
        group.evidence.stamps.push(Stamp {
            position: relay.position,
            changed: Some(now.digest),
            tag: now.stamp(&relay.author, &claim.digest, Some(&now.digest)),
        });
    } else {
        group.evidence.author = Some(now.author_tag(&relay.author));
    }
    Ok(group)
}
