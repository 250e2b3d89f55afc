//! The table of connections: which segment belongs to which, and which is given up when there are
//! too many.
//!
//! Not the reading of a connection. Invariants: at most so many connections, and so many bytes
//! held, as the limits say; connections that are over are forgotten first, then the oldest; every
//! handshake found is entered, given up or not.
//!
//! RFC 9293, section 3.6.1: a SYN with a new sequence number is a new connection between the same
//! two.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tandem_wire::TcpFlags;

use crate::connection::{Connection, End, Step, Verdict};
use crate::limits::Limits;
use crate::rows::Books;
use crate::segment::Segment;

/// Addresses and ports of both ends, the lower one first.
type Key = (SocketAddr, SocketAddr);
/// Connections are numbered as they come, so that the lowest number is the oldest.
type Number = u64;

/// All connections.
#[derive(Debug)]
pub(crate) struct Tracker {
    limits: Limits,
    slots: BTreeMap<Key, Slot>,
    /// Connections that hold something, oldest first.
    live: BTreeMap<Number, Key>,
    /// Connections kept only so that their late segments are known for what they are.
    over: BTreeMap<Number, Key>,
    next: Number,
    held: usize,
    connections: u64,
    already_open: u64,
}

#[derive(Debug)]
struct Slot {
    number: Number,
    state: State,
}

#[derive(Debug)]
enum State {
    Live(Box<Connection>),
    Over,
}

impl Tracker {
    /// An empty table.
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            slots: BTreeMap::new(),
            live: BTreeMap::new(),
            over: BTreeMap::new(),
            next: 0,
            held: 0,
            connections: 0,
            already_open: 0,
        }
    }

    /// TCP connections seen.
    pub(crate) fn connections(&self) -> u64 {
        self.connections
    }

    /// Of them, those that were open before the capture began and show no handshake. Complete after
    /// [`Self::finish`].
    pub(crate) fn already_open(&self) -> u64 {
        self.already_open
    }

    /// Reads one segment.
    pub(crate) fn take(&mut self, segment: &Segment<'_>, books: &mut Books<'_>) {
        let (key, end) = key_of(segment);
        let is_syn = segment.flags.contains(TcpFlags::SYN);
        let known = self.slots.get(&key).map(|slot| match &slot.state {
            State::Live(connection) => is_syn && connection.is_reopened_by(end, segment),
            State::Over => is_syn && segment.ack.is_none(),
        });
        match known {
            Some(false) => {}
            Some(true) => {
                self.remove(key, books);
                self.insert(key);
            }
            None if is_syn || segment.payload_len > 0 => self.insert(key),
            // The tail of a connection, or acknowledgements of one: nothing to read.
            None => return,
        }
        self.read(key, end, segment, books);
        self.keep_limits(books);
    }

    /// The capture is over: enters every handshake that is going on.
    pub(crate) fn finish(&mut self, books: &mut Books<'_>) {
        while let Some((_, key)) = self.live.pop_first() {
            self.remove(key, books);
        }
    }

    fn read(&mut self, key: Key, end: End, segment: &Segment<'_>, books: &mut Books<'_>) {
        let Some(slot) = self.slots.get_mut(&key) else {
            return;
        };
        let State::Live(connection) = &mut slot.state else {
            return;
        };
        self.held = self.held.saturating_sub(connection.held());
        match connection.take(end, segment, self.limits.direction_bytes, books) {
            Step::GoesOn => self.held += connection.held(),
            Step::Over(verdict) => {
                self.already_open += u64::from(verdict == Verdict::AlreadyOpen);
                slot.state = State::Over;
                self.live.remove(&slot.number);
                self.over.insert(slot.number, key);
            }
        }
    }

    fn insert(&mut self, key: Key) {
        let number = self.next;
        self.next += 1;
        self.connections += 1;
        self.live.insert(number, key);
        let state = State::Live(Box::new(Connection::new(key.0, key.1)));
        self.slots.insert(key, Slot { number, state });
    }

    /// Takes a connection out, its handshake entered.
    fn remove(&mut self, key: Key, books: &mut Books<'_>) {
        let Some(slot) = self.slots.remove(&key) else {
            return;
        };
        self.live.remove(&slot.number);
        self.over.remove(&slot.number);
        match slot.state {
            State::Live(mut connection) => {
                self.held = self.held.saturating_sub(connection.held());
                let verdict = connection.finish(books);
                self.already_open += u64::from(verdict == Verdict::AlreadyOpen);
            }
            State::Over => {}
        }
    }

    fn keep_limits(&mut self, books: &mut Books<'_>) {
        while self.slots.len() > self.limits.connections {
            match self.over.first_key_value() {
                Some((_, &key)) => self.remove(key, books),
                None => self.give_up_oldest(books),
            }
        }
        while self.held > self.limits.total_bytes {
            self.give_up_oldest(books);
        }
    }

    fn give_up_oldest(&mut self, books: &mut Books<'_>) {
        let Some((_, &key)) = self.live.first_key_value() else {
            // Nothing is held where nothing is live.
            self.held = 0;
            return;
        };
        if let Some(Slot {
            state: State::Live(connection),
            ..
        }) = self.slots.get(&key)
            && connection.is_promising()
        {
            books.losses.given_up += 1;
        }
        self.remove(key, books);
    }
}

fn key_of(segment: &Segment<'_>) -> (Key, End) {
    if segment.source <= segment.destination {
        ((segment.source, segment.destination), End::Lower)
    } else {
        ((segment.destination, segment.source), End::Higher)
    }
}
