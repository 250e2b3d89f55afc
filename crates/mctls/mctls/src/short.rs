//! Short records: between two neighbouring middleboxes that share a key, a record crosses with
//! references in place of data that both hold, and the far one makes the very record again.
//!
//! ```text
//!  holds   AEAD(version 1 | room 4 | count 1 | volumes: id 8, chunks 2)   first, once each way
//!  short   header 11 | evidence | AEAD(tag 16 | steps)                    in place of a record
//! ```
//!
//! Is: one middlebox's end of such a hop ([`Hop`]). Is not: what both hold (`history`), where
//! data is cut (`cut`), the steps (`steps`), or sockets.
//!
//! Invariants: endpoints see the records that they would see without this; nothing is sent in this
//! form before the neighbour has proved the pair's key in this session; what is restored is given
//! out only if its AEAD tag is the one that the record had; a reference reaches what this box has
//! promised to hold and nothing else; no record becomes longer than a record can be.
//!
//! Specification: `docs/mctls13.md`, section 11.

mod cut;
mod history;
mod seal;
mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::config::{Context, Right, Terms};
use crate::error::{Breach, Check, Error, Malformed};
use crate::frame::{
    MAX_GROWTH, MAX_HOLDS_LEN, kind, write_group, write_holds, write_record, write_short,
};
use crate::middlebox::Joined;
use crate::party::{ContextId, Direction, Position};
use crate::read::Reader;
use crate::record::{Evidence, Group, Header, MAX_PAYLOAD_LEN, Place as PartPlace};
use crate::relay::{Passing, Relay};
use crate::secret::{Digest, HASH_LEN, Secret, TAG_LEN, same};
use cut::{Cutter, MIN_CHUNK};
pub use history::History;
use history::{Held, Listed, MAX_LISTED, Own, Serial, VolumeId, print_of};
use seal::{Sealing, open_holds, seal_holds, volume_id};
use steps::{Copy, Step, Steps};

/// The version of this form.
const VERSION: u8 = 1;

const _: () = assert!(
    TAG_LEN + MAX_PAYLOAD_LEN / MIN_CHUNK * steps::ADD_LEN <= MAX_GROWTH,
    "what nobody has seen before fits as well"
);

const _: () = assert!(1 + 4 + 1 + MAX_LISTED * (8 + 2) + TAG_LEN == MAX_HOLDS_LEN);

/// The number of this session's own volume of a direction, in references.
const OWN: u8 = 0;

/// The other middlebox of a pair, and when records are shortened for it.
pub struct Pair {
    name: String,
    key: Secret,
    purposes: Vec<String>,
    cutter: Cutter,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair")
            .field("name", &self.name)
            .field("purposes", &self.purposes)
            .finish_non_exhaustive()
    }
}

impl Pair {
    /// The middlebox that sessions call `name`, the key that it and this one alone have, and the
    /// purposes of the contexts in which this one shortens what it sends.
    #[must_use]
    pub fn new(name: String, key: [u8; HASH_LEN], purposes: Vec<String>) -> Self {
        let key = Secret::new(key);
        let cutter = Cutter::new(u64::from_be_bytes(*key.expand("cut", b"")));
        Self {
            name,
            key,
            purposes,
            cutter,
        }
    }

    /// Where it is from a middlebox at this place. `None`: it is no neighbour, or one of the two
    /// names is in the session twice.
    fn towards(&self, terms: &Terms, own: Position) -> Option<Direction> {
        let place_of = |name: &str| {
            let named = terms.positions().zip(terms.middleboxes());
            let mut named = named.filter(|(_, entry)| entry.name == name);
            let first = named.next();
            first.filter(|_| named.next().is_none()).map(|(at, _)| at)
        };
        let own_name = &terms.middleboxes().get(own.index())?.name;
        let own = place_of(own_name)?.number();
        let other = place_of(&self.name)?.number();
        match (own.abs_diff(other), own < other) {
            (1, true) => Some(Direction::ToServer),
            (1, false) => Some(Direction::ToClient),
            _ => None,
        }
    }
}

/// Whether this end has said what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    No,
    Yes,
}

/// What the other end has said.
#[derive(Debug)]
struct Heard {
    /// Its number for each volume that this end has, too, and how many chunks both have of it.
    usable: BTreeMap<Serial, Usable>,
    /// Most bytes of new data that both keep of each direction.
    room: usize,
}

#[derive(Clone, Copy, Debug)]
struct Usable {
    number: u8,
    chunks: usize,
}

/// One middlebox's end of a hop to its pair, in one session.
pub struct Hop {
    pair: Arc<Pair>,
    towards: Direction,
    place: u8,
    th: Digest,
    scope: Digest,
    contexts: BTreeSet<ContextId>,
    sealing: Sealing,
    opening: Sealing,
    held: Held,
    said: Said,
    heard: Option<Heard>,
}

impl std::fmt::Debug for Hop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hop")
            .field("towards", &self.towards)
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}

impl Hop {
    /// The hop to the pair in this session; `None` where it is no neighbour. What is held for it
    /// stays held until [`Self::close`].
    #[must_use]
    pub fn new(joined: &Joined, pair: &Arc<Pair>, history: &mut History) -> Option<Self> {
        let terms = &joined.configuration.terms;
        let towards = pair.towards(terms, joined.position)?;
        let own = joined.position.number();
        let (place, other) = match towards {
            Direction::ToServer => (own, own + 1),
            Direction::ToClient => (own - 1, own - 1),
        };
        let other = Position::new(other)?;
        let reads = |context: &Context, at| context.right(at) != Right::None;
        let both = terms.contexts().iter().filter(|context| {
            reads(context, joined.position)
                && reads(context, other)
                && pair.purposes.contains(&context.purpose)
        });
        let th = *joined.to_server.keys.th();
        let suite = joined.configuration.suite;
        let sealing = |direction| Sealing::new(suite, direction, place, th, pair.key.clone());
        let back = towards.opposite();
        let id = |direction| volume_id(&pair.key, direction, place, &th);
        let scope = *terms.server_certificate();
        Some(Self {
            contexts: both.map(|context| context.id).collect(),
            sealing: sealing(towards),
            opening: sealing(back),
            held: history.open(scope, [id(towards), id(back)]),
            pair: Arc::clone(pair),
            towards,
            place,
            th,
            scope,
            said: Said::No,
            heard: None,
        })
    }

    /// In which direction the pair is.
    #[must_use]
    pub const fn towards(&self) -> Direction {
        self.towards
    }

    /// Says what this end holds, if it has not yet. It has to come before the first record towards
    /// the pair, and upon what the pair says: then the pair has joined the session, too.
    pub fn greet(&mut self, out: &mut Vec<u8>) {
        if self.said == Said::Yes {
            return;
        }
        self.said = Said::Yes;
        let mut text = vec![VERSION];
        let room = u32::try_from(self.held.room()).unwrap_or(u32::MAX);
        text.extend_from_slice(&room.to_be_bytes());
        let listed = self.held.listed();
        text.push(u8::try_from(listed.len()).unwrap_or(u8::MAX));
        for volume in listed {
            text.extend_from_slice(&volume.id);
            text.extend_from_slice(&volume.chunks.to_be_bytes());
        }
        let suite = self.sealing.suite();
        let sealed = seal_holds(
            suite,
            &self.pair.key,
            self.towards,
            self.place,
            &self.th,
            text,
        );
        write_holds(out, &sealed);
    }

    /// Takes what the pair says that it holds.
    ///
    /// # Errors
    /// [`Check::Pair`]: it comes from somebody else; any other [`Error`]: it cannot be, or comes
    /// twice.
    pub fn hear(&mut self, body: &[u8], history: &mut History) -> Result<(), Error> {
        if self.heard.is_some() {
            return Err(Breach::Unexpected(kind::HOLDS).into());
        }
        let (suite, from) = (self.sealing.suite(), self.towards.opposite());
        let text = open_holds(suite, &self.pair.key, from, self.place, &self.th, body)?;
        let mut reader = Reader::new(&text);
        match reader.u8()? {
            VERSION => {}
            // Of a later version: nothing is shortened in either direction.
            _ => return Ok(()),
        }
        let room = usize::try_from(u32::from_be_bytes(reader.array()?)).unwrap_or(usize::MAX);
        let count = reader.u8()?;
        if usize::from(count) > MAX_LISTED {
            return Err(Malformed::Volumes(count).into());
        }
        let mut usable = BTreeMap::new();
        for number in 1..=count {
            let id: VolumeId = reader.array()?;
            let theirs = usize::from(reader.u16()?);
            if let Some(own) = history.named(&id, &self.scope) {
                let chunks = theirs.min(own.chunks);
                usable.insert(own.serial, Usable { number, chunks });
            }
        }
        reader.finish()?;
        let room = history.settle(&mut self.held, room);
        self.heard = Some(Heard { usable, room });
        Ok(())
    }

    /// Appends a group towards the pair: what saves anything in the short form.
    pub(crate) fn write(
        &mut self,
        relay: &Relay,
        group: &Group,
        text: Option<&[u8]>,
        history: &mut History,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let context = relay.terms.context(group.context);
        let is_ready = self.said == Said::Yes && self.heard.is_some();
        let text = text.filter(|_| is_ready && self.contexts.contains(&group.context));
        let Some(mut text) = text else {
            write_group(out, group, context);
            return Ok(());
        };
        for part in &group.parts {
            let length = part.sealed.len().saturating_sub(TAG_LEN);
            let (own, rest) = text.split_at(length.min(text.len()));
            text = rest;
            let front = group.front(part, context);
            if own.len() < MIN_CHUNK {
                write_record(out, &[&front[..], &part.sealed].concat());
                continue;
            }
            let mut body = part.sealed[own.len()..].to_vec();
            self.describe(own, history, &mut body);
            let sealed = self.sealing.seal(&relay.keys, part.header, &front, body)?;
            write_short(out, &[&front[..], &sealed].concat());
        }
        Ok(())
    }

    /// Appends the steps that make this text.
    fn describe(&mut self, text: &[u8], history: &mut History, out: &mut Vec<u8>) {
        let mut run: Option<Copy> = None;
        let mut start = 0;
        for end in self.pair.cutter.ends(text) {
            let chunk = &text[start..end];
            start = end;
            let print = print_of(&self.scope, chunk);
            let after = run.map(Copy::next);
            let found = self.find(history, &print, chunk, after);
            match (found, &mut run) {
                (Some((volume, first)), Some(run)) if run.next() == (volume, first) => {
                    run.count += 1;
                }
                (found, _) => {
                    run.take()
                        .iter()
                        .for_each(|copy| Step::Copy(*copy).write(out));
                    match found {
                        Some((volume, first)) => {
                            let count = 1;
                            run = Some(Copy {
                                volume,
                                first,
                                count,
                            });
                        }
                        None => {
                            Step::Add(chunk).write(out);
                            self.keep(Own::Sent, chunk, history);
                        }
                    }
                }
            }
        }
        run.iter().for_each(|copy| Step::Copy(*copy).write(out));
    }

    /// The volume's number and the chunk's, where both ends hold this chunk; the one that goes on
    /// with a run, if there is one.
    fn find(
        &self,
        history: &mut History,
        print: &history::Print,
        chunk: &[u8],
        after: Option<(u8, u16)>,
    ) -> Option<(u8, u16)> {
        let heard = self.heard.as_ref()?;
        let own = self.held.own(Own::Sent);
        let mut best = None;
        for place in history.places(print) {
            let number = match heard.usable.get(&place.volume) {
                _ if Some(place.volume) == own => OWN,
                Some(usable) if usize::from(place.chunk) < usable.chunks => usable.number,
                Some(_) | None => continue,
            };
            if history.chunk(place.volume, place.chunk) != Some(chunk) {
                continue;
            }
            let found = (number, place.chunk);
            if best.is_none() || Some(found) == after {
                best = Some((found, place.volume));
            }
        }
        let (found, volume) = best?;
        history.touch(volume);
        Some(found)
    }

    /// Keeps a chunk that has crossed, as the other end does: while there is room for it.
    fn keep(&mut self, own: Own, chunk: &[u8], history: &mut History) {
        let room = self.heard.as_ref().map_or(0, |heard| heard.room);
        if chunk.len() >= MIN_CHUNK {
            history.keep(&mut self.held, own, room, &self.scope, chunk);
        }
    }

    /// The record that the pair has shortened, as it was: for [`Relay::receive`].
    ///
    /// # Errors
    /// [`Check::Pair`]: it comes from somebody else, or was changed; [`Breach::NotHeld`],
    /// [`Breach::Expansion`]: it refers to what this end has not promised, or is too long;
    /// [`Check::Restored`]: what comes out is not what was shortened. The session cannot go on.
    pub fn restore(
        &mut self,
        relay: &mut Relay,
        body: &[u8],
        history: &mut History,
    ) -> Result<Vec<u8>, Error> {
        let is_due = self.said == Said::Yes && self.heard.is_some();
        if !is_due || relay.direction() != self.towards.opposite() {
            return Err(Breach::Unexpected(kind::SHORT).into());
        }
        let mut reader = Reader::new(body);
        let header = Header::read(&mut reader)?;
        let context = relay.terms.context(header.context);
        let context = context.ok_or(Breach::Context(header.context))?;
        if header.place == PartPlace::Last {
            Evidence::read(&mut reader, Some(context), header.author)?;
        }
        let sealed = reader.rest();
        let front = &body[..body.len() - sealed.len()];
        let text = self.opening.open(&relay.keys, header, front, sealed)?;
        let mut reader = Reader::new(&text);
        let tag: [u8; TAG_LEN] = reader.array()?;
        let payload = self.rebuild(reader.rest(), history)?;
        let part = relay.keys.seal(header, &payload)?;
        let part = part.ok_or(Breach::Context(header.context))?;
        match same(&part.sealed[payload.len()..], &tag) {
            true => Ok([front, &part.sealed].concat()),
            false => Err(Check::Restored(header.context).into()),
        }
    }

    /// Follows steps.
    fn rebuild(&mut self, steps: &[u8], history: &mut History) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        for step in Steps::new(steps) {
            match step? {
                Step::Add(bytes) => {
                    extend(&mut out, bytes)?;
                    self.keep(Own::Came, bytes, history);
                }
                Step::Copy(copy) => self.copy(copy, history, &mut out)?,
            }
        }
        Ok(out)
    }

    fn copy(&self, copy: Copy, history: &mut History, out: &mut Vec<u8>) -> Result<(), Error> {
        let (volume, chunks) = self.volume(copy.volume, history).ok_or(Breach::NotHeld)?;
        let (first, count) = (usize::from(copy.first), usize::from(copy.count));
        if first + count > chunks {
            return Err(Breach::NotHeld.into());
        }
        history.touch(volume);
        for at in (copy.first..).take(count) {
            let chunk = history.chunk(volume, at).ok_or(Breach::NotHeld)?;
            extend(out, chunk)?;
        }
        Ok(())
    }

    /// What a volume's number stands for in what comes, and how many chunks of it may be meant.
    fn volume(&self, number: u8, history: &History) -> Option<(Serial, usize)> {
        match number.checked_sub(1) {
            None => {
                let own = self.held.own(Own::Came)?;
                Some((own, history.chunks(own)))
            }
            Some(index) => {
                let listed: &Listed = self.held.listed().get(usize::from(index))?;
                Some((listed.serial, listed.chunks.into()))
            }
        }
    }

    /// What somebody with the session's keys and another key than the pair's could seal with.
    #[cfg(test)]
    fn sealing_of(&self, key: [u8; HASH_LEN]) -> Sealing {
        let suite = self.sealing.suite();
        Sealing::new(suite, self.towards, self.place, self.th, Secret::new(key))
    }

    /// What a pair that lies could have it do with these steps: for the fuzz target.
    ///
    /// # Panics
    /// More comes out than a record holds.
    #[doc(hidden)]
    pub fn follow(&mut self, steps: &[u8], history: &mut History) {
        if let Ok(text) = self.rebuild(steps, history) {
            assert!(text.len() <= MAX_PAYLOAD_LEN, "a record has a bound");
        }
    }

    /// The session is over: what it held may go.
    pub fn close(self, history: &mut History) {
        history.close(self.held);
    }
}

impl Passing<'_> {
    /// Sends it on towards the middlebox's pair, which makes the very records out of what it is
    /// sent. In the other direction it is forwarded.
    ///
    /// # Errors
    /// The last sequence number is spent.
    pub fn shorten(
        mut self,
        hop: &mut Hop,
        history: &mut History,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        if hop.towards() != self.relay.direction() {
            self.forward(out);
            return Ok(());
        }
        self.stamp();
        hop.write(self.relay, &self.group, self.text.as_deref(), history, out)
    }
}

/// Appends to what becomes a record's data.
fn extend(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Error> {
    if out.len() + bytes.len() > MAX_PAYLOAD_LEN {
        return Err(Breach::Expansion.into());
    }
    out.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests;
