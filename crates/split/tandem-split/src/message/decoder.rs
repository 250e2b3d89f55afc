//! Messages out of a stream that comes in pieces.
//!
//! Is: one direction of one channel: who writes, and hence which messages may come. Is not: what
//! they mean.
//!
//! Invariants: the first message of a volunteer or an origin is its greeting, and no later one is
//! but behind an over, which is the last about a client; at most [`MAX_MESSAGE_LEN`] bytes are
//! kept, and work is linear in what comes; after an error nothing more comes.

use super::{Channel, Greeting, MAX_MESSAGE_LEN, Message, Progress, Read};
use crate::error::{Breach, Error};

/// Who writes the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A TLS client towards the volunteer: records, and nothing else. A plain request, an SSL 2.0
    /// hello or noise is refused.
    Client,
    /// The volunteer.
    Volunteer,
    /// The origin.
    Origin,
}

/// Cuts a stream into messages.
#[derive(Debug)]
pub struct Decoder {
    side: Side,
    greeting: Option<Greeting>,
    buffer: Vec<u8>,
    /// Where in the buffer the next message begins: what lies before it was given out already.
    at: usize,
    failed: Option<Error>,
}

impl Decoder {
    /// A stream written by `side`, from its beginning.
    #[must_use]
    pub const fn new(side: Side) -> Self {
        Self {
            side,
            greeting: None,
            buffer: Vec::new(),
            at: 0,
            failed: None,
        }
    }

    /// Takes bytes, and says how many: all, unless a whole message waits to be taken with
    /// [`Self::next_message`].
    #[must_use = "what was not taken is to be pushed again"]
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        self.buffer.drain(..std::mem::take(&mut self.at));
        let taken = bytes.len().min(MAX_MESSAGE_LEN - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        taken
    }

    /// The next message, if it is all there.
    ///
    /// # Errors
    /// [`Error::Malformed`] for what is none, [`Error::Peer`] for one that this side does not send;
    /// the same again ever after.
    pub fn next_message(&mut self) -> Result<Option<Message<'_>>, Error> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        match look(self.side, self.greeting, &self.buffer[self.at..]) {
            Ok(Some((message, length))) => {
                match message {
                    Message::Greeting(greeting) => self.greeting = Some(greeting),
                    Message::Progress(Progress::Over) => self.greeting = None,
                    Message::Verbatim(_)
                    | Message::Stub(_)
                    | Message::KeyExpose(_)
                    | Message::Miss(_)
                    | Message::Found(_)
                    | Message::ListPart(_)
                    | Message::Absent(_)
                    | Message::Progress(Progress::Taken(_) | Progress::End | Progress::Coming) => {}
                }
                self.at += length;
                Ok(Some(message))
            }
            Ok(None) => Ok(None),
            Err(error) => {
                self.failed = Some(error);
                Err(error)
            }
        }
    }

    /// What this side said of itself, once it has, and until what it said is over.
    #[must_use]
    pub const fn greeting(&self) -> Option<Greeting> {
        self.greeting
    }

    /// Whether the stream may end here.
    #[must_use]
    pub fn is_between_messages(&self) -> bool {
        self.buffer.len() == self.at
    }
}

/// The message at the front, if it is whole and may come from `side`.
fn look(
    side: Side,
    greeting: Option<Greeting>,
    bytes: &[u8],
) -> Result<Option<(Message<'_>, usize)>, Error> {
    match Message::read(bytes)? {
        Read::Whole(message, length) => {
            judge(side, greeting, &message, bytes[0])?;
            Ok(Some((message, length)))
        }
        Read::Cut { .. } => Ok(None),
    }
}

/// Whether `side` may send this message here.
fn judge(
    side: Side,
    greeting: Option<Greeting>,
    message: &Message<'_>,
    kind: u8,
) -> Result<(), Breach> {
    let channel = match (side, greeting) {
        (Side::Client, _) => Channel::Connection,
        (Side::Volunteer | Side::Origin, Some(greeting)) => greeting.channel,
        (Side::Volunteer | Side::Origin, None) => {
            return match message {
                Message::Greeting(_) => Ok(()),
                Message::Verbatim(_)
                | Message::Stub(_)
                | Message::KeyExpose(_)
                | Message::Miss(_)
                | Message::Found(_)
                | Message::ListPart(_)
                | Message::Absent(_)
                | Message::Progress(_) => Err(Breach::Greeting),
            };
        }
    };
    let (from, on) = match message {
        Message::Greeting(_) => return Err(Breach::Greeting),
        Message::Verbatim(_) => (None, Channel::Connection),
        Message::Stub(_) | Message::KeyExpose(_) => (Some(Side::Origin), Channel::Connection),
        Message::Miss(_) => (Some(Side::Volunteer), Channel::Misses),
        Message::Found(_) | Message::ListPart(_) | Message::Absent(_) => {
            (Some(Side::Origin), Channel::Misses)
        }
        Message::Progress(Progress::Coming) => {
            if !greeting.is_some_and(|greeting| greeting.tells_coming()) {
                return Err(Breach::Direction(kind));
            }
            (Some(Side::Origin), Channel::Misses)
        }
        Message::Progress(_) if !greeting.is_some_and(|greeting| greeting.tells_progress()) => {
            return Err(Breach::Direction(kind));
        }
        Message::Progress(Progress::Over)
            if !greeting.is_some_and(|greeting| greeting.goes_on()) =>
        {
            return Err(Breach::Direction(kind));
        }
        Message::Progress(Progress::Taken(_) | Progress::Over) => (None, Channel::Connection),
        Message::Progress(Progress::End) => (Some(Side::Volunteer), Channel::Connection),
    };
    if on == channel && from.is_none_or(|from| from == side) {
        Ok(())
    } else {
        Err(Breach::Direction(kind))
    }
}
