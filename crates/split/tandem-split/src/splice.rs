//! The volunteer's splicer: stubs and payloads in, the client's records out.
//!
//! ```text
//!  origin --> push --> | queue: run, record, run ... | --> | window: record, record, ... | --> write_records --> client
//!                            |                                |                        ^
//!                            `---- lists ------ poll_want ----'                        |
//!                                                   `--> cache, peers, origin --> give, give_list, missing
//! ```
//!
//! Is: order, the check that what comes may come, what to ask for and when, and the exact records.
//! Is not: a cache, a decision whom to ask, time: a caller that waits too long for a payload says
//! [`Splicer::missing`].
//!
//! Invariants:
//! - records leave in the order of their stubs, each whole, and nothing leaves behind one that
//!   cannot be made;
//! - no plaintext leaves but a literal or one whose digest was checked, and after the key-expose
//!   message none leaves in clear;
//! - memory is bounded by [`Limits`], whatever the origin sends: [`Splicer::push`] takes no more
//!   bytes than there is room for;
//! - a spurious call is harmless; after an error every call says the same error, and what was
//!   written is a correct prefix.
//!
//! Specification: the thesis, sections 2.3 to 2.6 and 3.2.

mod gate;
mod lists;
mod queue;
mod window;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crate::cut::PIECE_LEN;
use crate::error::{Breach, Error};
use crate::message::{Channel, Decoder, Encodings, Greeting, Run, Side};
use crate::object::{CHUNK_LEN, List};
use crate::payload::Payload;
use crate::protect::Protection;
use crate::suite::RecordType;
use crate::want::Want;
use gate::Gate;
use lists::{ListState, Lists};
use queue::{Item, Listed};
use window::{Entry, Front, Piece, Window};

/// How much a splicer may hold for one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of messages that wait, 1 kB to some MB; two messages more may be held, 37 kB. Default
    /// 256 KiB.
    pub queue_bytes: usize,
    /// Payloads that are asked for ahead, each up to 16 KiB: 1 waits for each payload by itself;
    /// twice the bandwidth-delay product to where payloads come from never waits. Default 32,
    /// half a megabyte.
    pub payloads_ahead: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue_bytes: 256 << 10,
            payloads_ahead: 32,
        }
    }
}

/// Makes one client's records.
pub struct Splicer {
    decoder: Decoder,
    gate: Gate,
    /// What has come and is not in the window.
    queue: VecDeque<Item>,
    /// Bytes of messages that wait, in queue and window.
    waiting: usize,
    lists: Lists,
    window: Window,
    wants: VecDeque<Want>,
    /// Of what leaves.
    protection: Protection,
    limits: Limits,
    /// Bytes of application data in what was written.
    content: u64,
    /// Whether the last content that came is a run shorter than a piece.
    ends_short: bool,
    failed: Option<Error>,
}

impl Splicer {
    /// One for a connection that was opened with a greeting for these encodings.
    #[must_use]
    pub fn new(encodings: Encodings, limits: Limits) -> Self {
        Self {
            decoder: Decoder::new(Side::Origin),
            gate: Gate::new(Greeting::new(Channel::Connection, encodings)),
            queue: VecDeque::new(),
            waiting: 0,
            lists: Lists::default(),
            window: Window::default(),
            wants: VecDeque::new(),
            protection: Protection::Clear,
            limits,
            content: 0,
            ends_short: false,
            failed: None,
        }
    }

    /// What the volunteer says first on this channel.
    #[must_use]
    pub const fn greeting(&self) -> Greeting {
        self.gate.asked()
    }

    /// What the origin has answered, once it has.
    #[must_use]
    pub const fn answer(&self) -> Option<Greeting> {
        self.gate.answer()
    }

    /// Bytes of the client's records that the origin says it has taken.
    #[must_use]
    pub const fn heard(&self) -> u64 {
        self.gate.heard()
    }

    /// Whether the origin has said its last word about this client: on the channel nothing comes
    /// until the volunteer greets for the next one.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.gate.is_over()
    }

    /// Bytes of application data, without what protects it, in all records that were written.
    #[must_use]
    pub const fn content_written(&self) -> u64 {
        self.content
    }

    /// Whether the last content that came is the end of something, or a piece that the origin did
    /// not wait for: it hardly waits for its client to take that before it sends more.
    #[must_use]
    pub const fn ends_short(&self) -> bool {
        self.ends_short
    }

    /// Takes bytes from the origin, and says how many: fewer than all while enough waits to be
    /// written.
    ///
    /// # Errors
    /// [`Error::Malformed`] and [`Error::Peer`] where the origin breaks the protocol. What came
    /// before is still to be written.
    pub fn push(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let mut taken = 0;
        loop {
            self.accept()?;
            if taken == bytes.len() || !self.has_room() {
                self.fill_window();
                return Ok(taken);
            }
            taken += self.decoder.push(&bytes[taken..]);
        }
    }

    /// Hears that the origin has closed the channel.
    ///
    /// # Errors
    /// [`Breach::CutMessage`] in the middle of a message; what made an earlier call fail.
    pub fn end(&mut self) -> Result<(), Error> {
        self.accept()?;
        if self.decoder.is_between_messages() || !self.has_room() {
            return Ok(());
        }
        let error = Breach::CutMessage.into();
        self.failed = Some(error);
        Err(error)
    }

    /// Whether [`Self::push`] takes anything.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.failed.is_none() && self.waiting < self.limits.queue_bytes.max(1)
    }

    /// Whether nothing waits: all that came has been written.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.window.is_empty() && self.queue.is_empty() && self.decoder.is_between_messages()
    }

    /// The next thing to ask for, in the order in which records need them. What is asked for is not
    /// said again while it is waited for.
    pub fn poll_want(&mut self) -> Option<Want> {
        self.wants.pop_front()
    }

    /// Takes a payload that was wanted. Says whether it was waited for.
    pub fn give(&mut self, payload: &Payload) -> bool {
        self.window.give(payload)
    }

    /// Takes a list that was wanted. Says whether it was waited for.
    pub fn give_list(&mut self, list: &Arc<List>) -> bool {
        let was_wanted = self.lists.give(list);
        self.fill_window();
        was_wanted
    }

    /// Hears that nobody has what was wanted: what comes before it is still written, then the
    /// connection fails.
    pub fn missing(&mut self, want: Want) {
        match want {
            Want::Payload(name) => self.window.lose(name),
            Want::List { object, .. } => {
                self.lists.lose(object);
                self.fill_window();
            }
        }
    }

    /// Appends records until `out` has `until` bytes or more, or the next one lacks something. `iv`
    /// gives 16 fresh random bytes each time.
    ///
    /// # Errors
    /// [`Error::Missing`] when the next record lacks what nobody has; what made [`Self::push`]
    /// fail, once everything before it has been written. `out` may have grown all the same.
    pub fn write_records(
        &mut self,
        out: &mut Vec<u8>,
        until: usize,
        iv: impl FnMut() -> [u8; 16],
    ) -> Result<(), Error> {
        let written = self.write_plain(out, until, iv);
        // All together, which is faster than each by itself; and whatever has come of it.
        self.protection.finish(out);
        written
    }

    /// The same, with the last records not encrypted yet.
    fn write_plain(
        &mut self,
        out: &mut Vec<u8>,
        until: usize,
        mut iv: impl FnMut() -> [u8; 16],
    ) -> Result<(), Error> {
        while out.len() < until {
            // Before an error, too, there may be some that nobody has put there yet.
            self.fill_window();
            match self.window.front() {
                None if self.queue.is_empty() => return self.failed.map_or(Ok(()), Err),
                None | Some(Front::Waits) => return Ok(()),
                Some(Front::Failed(error)) => {
                    self.give_up(error);
                    self.window.clear();
                    continue;
                }
                Some(Front::Ready(Entry::Verbatim(bytes))) => out.extend_from_slice(bytes),
                Some(Front::Ready(Entry::Keys(keys))) => {
                    let protection = Protection::new(keys)?;
                    self.protection.finish(out);
                    self.protection = protection;
                }
                Some(Front::Ready(Entry::Record(record))) => {
                    let parts = record.pieces.iter().filter_map(Piece::bytes);
                    let (record_type, mac) = (record.record_type, record.mac.as_ref());
                    if record_type == RecordType::ApplicationData {
                        let len: usize = parts.clone().map(<[u8]>::len).sum();
                        self.content += len as u64;
                    }
                    self.protection.write(out, record_type, parts, mac, &mut iv);
                }
            }
            self.waiting -= self.window.pop();
            self.accept().ok();
        }
        Ok(())
    }

    /// Queues the messages that are whole, while there is room.
    fn accept(&mut self) -> Result<(), Error> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        while self.has_room() {
            let item = match self.decoder.next_message() {
                Ok(Some(message)) => self.gate.admit(&message),
                Ok(None) => return Ok(()),
                Err(error) => Err(error),
            };
            match item {
                Ok(None) => {}
                Ok(Some(item)) => self.enqueue(item),
                Err(error) => {
                    self.failed = Some(error);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn enqueue(&mut self, mut item: Item) {
        self.waiting += item.cost();
        match &item {
            Item::Run(run) => self.ends_short = run.run.total_len() < PIECE_LEN as u64,
            Item::Record { record_type, .. } if *record_type == RecordType::ApplicationData => {
                self.ends_short = false;
            }
            Item::Record { .. } | Item::Verbatim(_) | Item::Keys(_) => {}
        }
        if let Item::Run(run) = &mut item
            && self.lists.has_room()
        {
            run.listed = Listed::Yes;
            self.wants.extend(self.lists.add(&run.run));
        }
        self.queue.push_back(item);
    }

    /// Moves records into the window while there is room in it.
    fn fill_window(&mut self) {
        while self.window.has_room(self.limits.payloads_ahead) {
            let Some(item) = self.queue.front_mut() else {
                return;
            };
            if let Item::Run(run) = item {
                if run.listed == Listed::No {
                    run.listed = Listed::Yes;
                    self.wants.extend(self.lists.add(&run.run));
                }
                let list = match self.lists.state(run.run.object) {
                    ListState::Waiting => return,
                    ListState::Lost => {
                        let want = list_for(&run.run);
                        return self.give_up(Error::Missing(want));
                    }
                    ListState::Here(list) => list,
                };
                let Some(record) = run.next_record(&list) else {
                    return self.give_up(Breach::RunBeyondObject.into());
                };
                // The run's cost goes with its last record.
                let is_last = run.done == run.run.count;
                let cost = if is_last { run.cost() } else { 0 };
                let object = run.run.object;
                self.wants
                    .extend(self.window.push(Entry::Record(record), cost));
                if is_last {
                    self.lists.remove(object);
                    self.queue.pop_front();
                }
                continue;
            }
            let Some(item) = self.queue.pop_front() else {
                return;
            };
            let cost = item.cost();
            if let Some(entry) = Option::<Entry>::from(item) {
                self.wants.extend(self.window.push(entry, cost));
            }
        }
    }

    /// Nothing behind the window will ever be written.
    fn give_up(&mut self, error: Error) {
        self.failed = Some(error);
        self.queue.clear();
        self.lists.clear();
    }
}

/// The list that a run needs.
fn list_for(run: &Run) -> Want {
    let first = run.offset / CHUNK_LEN as u64;
    let behind = (run.offset + run.total_len()).div_ceil(CHUNK_LEN as u64);
    let chunks = |number| u32::try_from(number).expect("a run ends within the longest object");
    Want::List {
        object: run.object,
        first_chunk: chunks(first),
        chunks: chunks(behind - first),
    }
}

impl fmt::Debug for Splicer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Splicer")
            .field("waiting", &self.waiting)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
