//! Many streams over one ordered connection, for networks on which the tunnel cannot run over QUIC:
//! bytes in, bytes out (sans-IO).
//!
//! Each stream has two halves that end on their own, in order or with a code, and a window of its
//! own. Streams that are marked as bulk are served after the others. There is no window for all of
//! them together, since readers that stop would use it up; nor is there anything that is sent at
//! rest.
//!
//! Is not: the connection, nor its encryption; nor what a stream says ([`crate::Relay`]).
//!
//! Invariants: bytes arrive in order, each once; what waits here is bounded by the number of
//! streams times their windows, whatever the other side sends; a stream is forgotten once both
//! halves are over and nobody has them in hand. The side that accepts may have streams in hand of
//! which the other side knows nothing any more; where these are too many, it refuses new ones.

mod frame;
mod stream;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use frame::{Decoder, Frame, Item, MAX_HEAD, MAX_ID, Says};
use stream::{Class, Receiving, Sending};

pub use frame::Malformed;

/// Most that a stream says at a time beside content: three frames' heads.
const HEADS: usize = 3 * MAX_HEAD;

/// What a refused stream is reset and stopped with, as one that nobody takes in hand.
const REFUSED: u32 = 0;

/// Which end of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// It opens the streams.
    Opens,
    /// It accepts them.
    Accepts,
}

/// How much is carried at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Streams at a time. This side has twice as many in hand at most, as the other side may know
    /// sooner that one is over; more are refused.
    pub streams: usize,
    /// Bytes that the other side may send on a stream and that are not yet read. The first 64 KiB
    /// are permitted in any case.
    pub window: u32,
}

/// A stream, at this end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u64);

/// What [`Mux::read`] finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// The next bytes, at least one.
    Piece(Vec<u8>),
    /// The other side has sent all.
    End,
    /// None have come yet.
    Nothing,
}

/// Why a half goes no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The other side gave it up, with this code.
    ByPeer(u32),
    /// It is over at this end.
    Here,
}

/// What somebody may wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The other side has opened this stream, which is to be let go of as one's own is.
    Opened(Key),
    /// There is something to read.
    Readable(Key),
    /// There is room for more, or the half is broken.
    Writable(Key),
    /// The other side wants no more of what is sent.
    Stopped(Key),
    /// One more may be opened.
    Room,
}

/// See the module.
#[derive(Debug)]
pub struct Mux {
    side: Side,
    limits: Limits,
    decoder: Decoder,
    streams: BTreeMap<Key, Stream>,
    /// By the number on the wire.
    keys: BTreeMap<u32, Key>,
    next_key: u64,
    next_id: u32,
    /// Streams that may have something to say, in the order of their turns.
    urgent: VecDeque<Key>,
    bulk: VecDeque<Key>,
    /// Numbers of refused streams of which the other side has not yet said the last.
    refused: BTreeSet<u32>,
    /// Numbers of streams whose refusal is to be said.
    to_refuse: VecDeque<u32>,
    is_room_wanted: bool,
    events: VecDeque<Event>,
}

#[derive(Debug)]
struct Stream {
    /// Its number on the wire; a stream has none until it is first spoken of, so that numbers come
    /// in order.
    id: Option<u32>,
    sending: Sending,
    receiving: Receiving,
    /// Whether it stands in this queue.
    in_urgent: bool,
    in_bulk: bool,
}

impl Mux {
    /// One end of a connection on which nothing has been said.
    #[must_use]
    pub fn new(side: Side, limits: Limits) -> Self {
        Self {
            side,
            limits,
            decoder: Decoder::default(),
            streams: BTreeMap::new(),
            keys: BTreeMap::new(),
            next_key: 0,
            next_id: 0,
            urgent: VecDeque::new(),
            bulk: VecDeque::new(),
            refused: BTreeSet::new(),
            to_refuse: VecDeque::new(),
            is_room_wanted: false,
            events: VecDeque::new(),
        }
    }

    /// Opens a stream. `None`: there are as many as may be; [`Event::Room`] says when that changes.
    /// The other side learns of it with its first bytes.
    pub fn open(&mut self) -> Option<Key> {
        if self.side == Side::Accepts || self.streams.len() >= self.limits.streams {
            self.is_room_wanted = true;
            return None;
        }
        Some(self.add(None))
    }

    /// Whether numbers for streams are left. After 500 million there are none.
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        let unnamed = self.streams.len();
        let next = usize::try_from(self.next_id).unwrap_or(usize::MAX);
        next.saturating_add(unnamed) >= usize::try_from(MAX_ID).unwrap_or(usize::MAX)
    }

    /// How many streams there are.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Takes as many of these bytes as there is room for; where there is none, [`Event::Writable`]
    /// says when that changes.
    ///
    /// # Errors
    /// The half is over.
    pub fn write(&mut self, key: Key, bytes: &[u8]) -> Result<usize, Broken> {
        let len = self.sending(key)?.write(bytes)?;
        self.line_up(key);
        Ok(len)
    }

    /// No more bytes follow. What was written still arrives.
    pub fn finish(&mut self, key: Key) {
        self.change(key, |stream| stream.sending.finish());
    }

    /// Gives up what is sent, and what waits to be.
    pub fn reset(&mut self, key: Key, code: u32) {
        self.change(key, |stream| stream.sending.reset(code));
    }

    /// From now on other streams go first.
    pub fn lower_priority(&mut self, key: Key) {
        self.change(key, |stream| stream.sending.class = Class::Bulk);
    }

    /// Whether all that was written has left. Where it has not, [`Event::Writable`] says when more
    /// has.
    pub fn is_drained(&mut self, key: Key) -> bool {
        let stream = self.streams.get_mut(&key);
        stream.is_none_or(|stream| stream.sending.is_drained())
    }

    /// With which code the other side has said that it wants no more of what is sent.
    #[must_use]
    pub fn stopped(&self, key: Key) -> Option<u32> {
        self.streams.get(&key)?.sending.stopped()
    }

    /// The next bytes.
    ///
    /// # Errors
    /// The half is over, other than by its end.
    pub fn read(&mut self, key: Key) -> Result<Read, Broken> {
        let stream = self.streams.get_mut(&key).ok_or(Broken::Here)?;
        let read = stream.receiving.read()?;
        self.line_up(key);
        Ok(read)
    }

    /// Nothing more is to come.
    pub fn stop(&mut self, key: Key, code: u32) {
        self.change(key, |stream| stream.receiving.stop(code));
    }

    /// Nobody has the half in hand any more that sends. Where it has not ended it is reset.
    pub fn let_go_of_sending(&mut self, key: Key) {
        self.change(key, |stream| stream.sending.let_go());
    }

    /// The same for the half that receives.
    pub fn let_go_of_receiving(&mut self, key: Key) {
        self.change(key, |stream| stream.receiving.let_go());
    }

    /// Bytes from the other side.
    ///
    /// # Errors
    /// They are not what the other side may send. The connection is of no more use.
    pub fn handle_input(&mut self, mut bytes: &[u8]) -> Result<(), Malformed> {
        while let Some(item) = self.decoder.next(&mut bytes)? {
            match item {
                Item::Frame(frame) => self.frame(frame)?,
                Item::Bytes { id, bytes } => self.bytes(id, bytes),
            }
        }
        Ok(())
    }

    /// What is to be sent to the other side now, `max` bytes at most and more than 30. Empty where
    /// there is nothing.
    #[must_use]
    pub fn poll_output(&mut self, max: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while out.len() + HEADS < max {
            if let Some(id) = self.to_refuse.pop_front() {
                for says in [Says::Reset(REFUSED), Says::Stop(REFUSED)] {
                    Frame { id, says }.write(&mut out);
                }
            } else if let Some(key) = self.urgent.pop_front() {
                self.say(key, Class::Urgent, &mut out, max);
            } else if let Some(key) = self.bulk.pop_front() {
                self.say(key, Class::Bulk, &mut out, max);
            } else {
                break;
            }
        }
        out
    }

    /// What has happened that somebody may wait for.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn sending(&mut self, key: Key) -> Result<&mut Sending, Broken> {
        let stream = self.streams.get_mut(&key).ok_or(Broken::Here)?;
        Ok(&mut stream.sending)
    }

    fn add(&mut self, id: Option<u32>) -> Key {
        let key = Key(self.next_key);
        self.next_key += 1;
        let stream = Stream {
            id,
            sending: Sending::new(),
            receiving: Receiving::new(),
            in_urgent: false,
            in_bulk: false,
        };
        self.streams.insert(key, stream);
        if let Some(id) = id {
            self.keys.insert(id, key);
        }
        key
    }

    fn change(&mut self, key: Key, change: impl FnOnce(&mut Stream)) {
        if let Some(stream) = self.streams.get_mut(&key) {
            change(stream);
            self.line_up(key);
            self.forget_if_over(key);
        }
    }

    fn frame(&mut self, frame: Frame) -> Result<(), Malformed> {
        let Some(key) = self.key_of(frame)? else {
            return Ok(());
        };
        let Some(stream) = self.streams.get_mut(&key) else {
            return Ok(());
        };
        match frame.says {
            Says::Data(len) => stream.receiving.expect(len)?,
            Says::End => {
                stream.receiving.end()?;
                self.events.push_back(Event::Readable(key));
            }
            Says::Reset(code) => {
                stream.receiving.reset(code)?;
                self.events.push_back(Event::Readable(key));
            }
            Says::Stop(code) => {
                if stream.sending.stop(code) {
                    self.events.push_back(Event::Stopped(key));
                    self.events.push_back(Event::Writable(key));
                }
            }
            Says::Credit(bytes) => stream.sending.credit(bytes)?,
        }
        self.line_up(key);
        self.forget_if_over(key);
        Ok(())
    }

    /// The stream of a frame. `None`: one that is over or refused, of which the other side need not
    /// know that.
    fn key_of(&mut self, frame: Frame) -> Result<Option<Key>, Malformed> {
        if let Some(key) = self.keys.get(&frame.id) {
            return Ok(Some(*key));
        }
        let is_next = self.side == Side::Accepts && frame.id == self.next_id;
        let was = frame.id < self.next_id;
        match frame.says {
            Says::Data(_) | Says::End if is_next => {
                self.next_id += 1;
                if self.streams.len() >= self.max_in_hand() {
                    return self.refuse(frame).map(|()| None);
                }
                let key = self.add(Some(frame.id));
                self.events.push_back(Event::Opened(key));
                Ok(Some(key))
            }
            Says::Data(_) if self.refused.contains(&frame.id) => Ok(None),
            Says::End | Says::Reset(_) if self.refused.remove(&frame.id) => Ok(None),
            Says::Stop(_) | Says::Credit(_) if was => Ok(None),
            Says::Data(_) | Says::End | Says::Reset(_) | Says::Stop(_) | Says::Credit(_) => {
                Err(Malformed)
            }
        }
    }

    fn max_in_hand(&self) -> usize {
        self.limits.streams.saturating_mul(2)
    }

    /// Refuses the stream that a frame opens. A side like ours waits for the answer, so it never
    /// has more refused streams than it may have streams.
    fn refuse(&mut self, frame: Frame) -> Result<(), Malformed> {
        if self.refused.len().max(self.to_refuse.len()) >= self.max_in_hand() {
            return Err(Malformed);
        }
        self.to_refuse.push_back(frame.id);
        if let Says::Data(_) = frame.says {
            self.refused.insert(frame.id);
        }
        Ok(())
    }

    fn bytes(&mut self, id: u32, bytes: &[u8]) {
        let Some(key) = self.keys.get(&id) else {
            return;
        };
        if let Some(stream) = self.streams.get_mut(key) {
            stream.receiving.bytes(bytes);
            self.events.push_back(Event::Readable(*key));
        }
    }

    /// Puts a stream in line if it has something to say.
    fn line_up(&mut self, key: Key) {
        let Some(stream) = self.streams.get_mut(&key) else {
            return;
        };
        // The other side has to know the stream first.
        let speaks = stream.id.is_some() && stream.receiving.is_ready(self.limits.window);
        let sends = stream.sending.is_ready();
        let is_bulk = stream.sending.class == Class::Bulk && !stream.sending.is_resetting();
        if (speaks || sends && !is_bulk) && !stream.in_urgent {
            stream.in_urgent = true;
            self.urgent.push_back(key);
        }
        if sends && is_bulk && !stream.in_bulk {
            stream.in_bulk = true;
            self.bulk.push_back(key);
        }
    }

    /// Writes what a stream has to say whose turn it is.
    fn say(&mut self, key: Key, class: Class, out: &mut Vec<u8>, max: usize) {
        let Some(stream) = self.streams.get_mut(&key) else {
            return;
        };
        match class {
            Class::Urgent => stream.in_urgent = false,
            Class::Bulk => stream.in_bulk = false,
        }
        let is_for_later = class == Class::Urgent && stream.sending.class == Class::Bulk;
        if stream.id.is_none() && stream.sending.is_resetting() {
            stream.sending.drop_unsaid();
            stream.receiving.drop_unsaid();
            self.events.push_back(Event::Readable(key));
        } else if stream.id.is_some() || stream.sending.is_ready() && !is_for_later {
            let id = *stream.id.get_or_insert_with(|| {
                let id = self.next_id;
                self.next_id += 1;
                self.keys.insert(id, key);
                id
            });
            if !is_for_later || stream.sending.is_resetting() {
                // The first frame of a stream is content or the end: these open it.
                let room = max.saturating_sub(out.len() + HEADS);
                let len = stream.sending.content(room);
                if len > 0 {
                    let says = Says::Data(u32::try_from(len).unwrap_or(u32::MAX));
                    Frame { id, says }.write(out);
                    if stream.sending.take(len, out) {
                        self.events.push_back(Event::Writable(key));
                    }
                }
                if let Some(says) = stream.sending.take_last() {
                    Frame { id, says }.write(out);
                }
            }
            if let Some(says) = stream.receiving.take_says(self.limits.window) {
                Frame { id, says }.write(out);
            }
        }
        self.line_up(key);
        self.forget_if_over(key);
    }

    fn forget_if_over(&mut self, key: Key) {
        let Some(stream) = self.streams.get(&key) else {
            return;
        };
        if stream.sending.is_over() && stream.receiving.is_over() {
            if let Some(id) = stream.id {
                self.keys.remove(&id);
            }
            self.streams.remove(&key);
            if std::mem::take(&mut self.is_room_wanted) {
                self.events.push_back(Event::Room);
            }
        }
    }
}

#[cfg(test)]
mod tests;
