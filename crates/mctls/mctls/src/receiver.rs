//! An endpoint's check of what arrives: who made it, who has seen it, and whether anything is
//! missing.
//!
//! Is not: what an application does about a change that a middlebox was allowed to make.
//!
//! Invariants: data is given out only after every check of its group has passed; after an error
//! nothing more is; the end is believed only from the other endpoint ([`Event::Closed`]).

use std::collections::BTreeMap;

use aws_lc_rs::hmac;

use crate::config::{Context, PathMode, Right, Terms};
use crate::error::{Alert, Breach, Check, Error, Malformed, Policy};
use crate::keys::{Claim, DirectionKeys};
use crate::party::{Author, ContextId, Direction, Position};
use crate::read::Reader;
use crate::record::{Assembly, Evidence};
use crate::secret::{Digest, same};
use crate::sender::control;

/// What has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Data.
    Data(Delivery),
    /// The other endpoint has sent all that it will.
    Closed,
}

/// Data that has arrived, and what is known of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Delivery {
    /// In which context.
    pub context: ContextId,
    /// Its sequence number, over all contexts of this direction.
    pub seq: u64,
    /// The data, out of all of its records; empty where a middlebox has deleted it.
    pub payload: Vec<u8>,
    /// Who made it.
    pub provenance: Provenance,
    /// Which middleboxes have proved that they saw it, in order; none where no path is required.
    pub seen_by: Vec<Position>,
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delivery")
            .field("context", &self.context)
            .field("seq", &self.seq)
            .field("length", &self.payload.len())
            .field("provenance", &self.provenance)
            .field("seen_by", &self.seen_by)
            .finish()
    }
}

/// Who made what has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// The other endpoint: these are its very bytes.
    Original,
    /// Middleboxes with the right to write, in order. Where no path is required it is the last of
    /// them alone.
    ChangedBy(Vec<Position>),
}

impl Delivery {
    /// Whether a middlebox has deleted what the endpoint sent.
    #[must_use]
    pub fn is_deletion(&self) -> bool {
        self.payload.is_empty() && self.provenance != Provenance::Original
    }
}

/// Whether more may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Closed,
    /// An error has ended it.
    Failed(Error),
}

/// Opens one direction's records.
#[derive(Debug)]
pub struct Receiver {
    terms: Terms,
    keys: DirectionKeys,
    authors: BTreeMap<Position, hmac::Key>,
    assembly: Assembly,
    state: State,
}

impl Receiver {
    pub(crate) fn new(
        terms: Terms,
        keys: DirectionKeys,
        authors: BTreeMap<Position, hmac::Key>,
    ) -> Self {
        Self {
            terms,
            keys,
            authors,
            assembly: Assembly::default(),
            state: State::Open,
        }
    }

    /// Takes a record, as it came in its frame. `None`: its group is not whole yet.
    ///
    /// # Errors
    /// Any [`Error`]: somebody has overstepped, or ended the session; it comes again at each
    /// further call.
    pub fn open(&mut self, record: &[u8]) -> Result<Option<Event>, Error> {
        match self.state {
            State::Open => {}
            State::Closed => return Err(Breach::AfterClose.into()),
            State::Failed(error) => return Err(error),
        }
        let result = self.take(record);
        match &result {
            Ok(Some(Event::Closed)) => self.state = State::Closed,
            Ok(Some(Event::Data(_)) | None) => {}
            Err(error) => self.state = State::Failed(*error),
        }
        result
    }

    /// The connection has ended.
    ///
    /// # Errors
    /// [`Breach::Truncated`]: without the closing record, so somebody has cut it.
    pub fn finish(&self) -> Result<(), Error> {
        match self.state {
            State::Closed => Ok(()),
            State::Open => Err(Breach::Truncated.into()),
            State::Failed(error) => Err(error),
        }
    }

    fn take(&mut self, record: &[u8]) -> Result<Option<Event>, Error> {
        let terms = &self.terms;
        let Some(mut group) = self.assembly.push(record, |id| terms.context(id))? else {
            return Ok(None);
        };
        let id = group.context;
        let context = self.terms.context(id);
        if let (Author::Middlebox(author), direction) = (group.author, self.keys.direction()) {
            check_author(context, author, None, direction)?;
        }
        // What follows from the ciphertext, before that is opened where it is: a digest, if
        // anything asks for it, or else a tag, if one is due.
        let claim = context.filter(|context| context.has_digest());
        let claim = claim.map(|_| Claim::of(&group));
        let whole = match (&claim, group.evidence.writer, group.parts.as_slice()) {
            (None, Some(_), [part]) => self.keys.whole_tag(part.header, &part.sealed)?,
            _ => None,
        };
        let (seq, author) = (group.seq, group.author);
        let evidence = std::mem::take(&mut group.evidence);
        let text = self.keys.open_whole(group)?;
        let text = text.ok_or(Breach::Context(id))?;
        let Some(context) = context else {
            return control_event(&text, seq).map(Some);
        };
        let trail = match claim {
            None => {
                if let Some(found) = evidence.writer
                    && !whole.is_some_and(|due| same(&due, &found))
                {
                    return Err(Check::WriterTag(id).into());
                }
                Trail::default()
            }
            Some(claim) => {
                self.keys.check_writer(&claim, evidence.writer)?;
                if let Some(found) = evidence.endpoint
                    && let Some(due) = self.keys.endpoint_tag(&claim)?
                    && !same(&due, &found)
                {
                    return Err(Check::EndpointTag(id).into());
                }
                match context.path {
                    PathMode::Off => self.check_author_tag(&claim, author, &evidence)?,
                    PathMode::Required => self.check_path(&claim, author, &evidence, context)?,
                }
            }
        };
        Ok(Some(Event::Data(Delivery {
            context: id,
            seq,
            payload: text,
            provenance: match trail.changed_by.is_empty() {
                true => Provenance::Original,
                false => Provenance::ChangedBy(trail.changed_by),
            },
            seen_by: trail.seen_by,
        })))
    }

    fn check_author_tag(
        &self,
        claim: &Claim,
        author: Author,
        evidence: &Evidence,
    ) -> Result<Trail, Error> {
        let mut trail = Trail::default();
        if let Author::Middlebox(author) = author {
            let key = self.authors.get(&author).ok_or(Breach::Author(author))?;
            let found = evidence.author.unwrap_or_default();
            if !same(&claim.author_tag(key), &found) {
                return Err(Check::AuthorTag(author).into());
            }
            trail.changed_by.push(author);
        }
        Ok(trail)
    }

    /// Each middlebox with a right has stamped, in order, and the digests lead from what the
    /// endpoint sent to what is here.
    fn check_path(
        &self,
        claim: &Claim,
        found: Author,
        evidence: &Evidence,
        context: &Context,
    ) -> Result<Trail, Error> {
        let mut trail = Trail::default();
        let mut now: Digest = claim.origin;
        let mut stamps = evidence.stamps.iter();
        for position in in_order(&self.terms, self.keys.direction()) {
            if !context.stamps(position) {
                continue;
            }
            let stamp = stamps.next().filter(|stamp| stamp.position == position);
            let stamp = stamp.ok_or(Check::PathSkipped(position))?;
            let key = self
                .authors
                .get(&position)
                .ok_or(Breach::Author(position))?;
            // What it names as changed has to be another group than the one that it received.
            let is_change = stamp.changed != Some(now);
            let due = claim.stamp(key, &now, stamp.changed.as_ref());
            if !is_change || !same(&due, &stamp.tag) {
                return Err(Check::PathStamp(position).into());
            }
            if stamp.changed.is_some() {
                if context.right(position) != Right::Write {
                    return Err(Breach::Author(position).into());
                }
                trail.changed_by.push(position);
            }
            now = stamp.changed.unwrap_or(now);
            trail.seen_by.push(position);
        }
        let last = trail.changed_by.last().copied();
        let author = last.map_or(Author::Endpoint, Author::Middlebox);
        if stamps.next().is_some() || now != claim.digest || author != found {
            return Err(Check::EndpointTag(context.id).into());
        }
        Ok(trail)
    }
}

/// What evidence tells of a group.
#[derive(Default)]
struct Trail {
    changed_by: Vec<Position>,
    seen_by: Vec<Position>,
}

/// The middleboxes in the order in which records of this direction pass them.
pub(crate) fn in_order(terms: &Terms, direction: Direction) -> Vec<Position> {
    match direction {
        Direction::ToServer => terms.positions().collect(),
        Direction::ToClient => terms.positions().rev().collect(),
    }
}

/// An author that may write here, and that stands before this party on the record's path.
pub(crate) fn check_author(
    context: Option<&Context>,
    author: Position,
    here: Option<Position>,
    direction: Direction,
) -> Result<(), Breach> {
    let may = context.is_some_and(|context| context.right(author) == Right::Write);
    let passed = here.is_none_or(|here| author.is_before(here, direction));
    if may && passed {
        Ok(())
    } else {
        Err(Breach::Author(author))
    }
}

/// What the other endpoint says in context 0.
fn control_event(text: &[u8], seq: u64) -> Result<Event, Error> {
    let mut reader = Reader::new(text);
    match reader.u8()? {
        control::CLOSE => {
            let last = reader.u64()?;
            reader.finish()?;
            if last != seq {
                return Err(Breach::Final.into());
            }
            Ok(Event::Closed)
        }
        control::ALERT => {
            let code = reader.u8()?;
            reader.finish()?;
            Err(Policy::PeerAlert(Alert::from_code(code)).into())
        }
        other => Err(Malformed::Type(other).into()),
    }
}

#[cfg(test)]
impl Receiver {
    pub(crate) fn skip_to(&mut self, seq: u64) {
        self.assembly.skip_to(seq);
    }
}
