//! Which of the origin's messages may come when, on one connection.
//!
//! Is not: what a single message looks like ([`crate::message`]).
//!
//! Invariants: the greeting first, and nothing behind an over; one key; before the key only records
//! in clear, behind it only stubs with a MAC of the suite's length; no encoding that was not agreed
//! on.

use super::queue::{Body, Item, RunItem};
use crate::error::{Breach, Error};
use crate::message::{Encodings, Greeting, Id, Message, Progress, Stub};
use crate::name::PayloadName;
use crate::object::MAX_OBJECT_LEN;
use crate::seal::Mac;
use crate::suite::Suite;

/// Lets messages in.
pub(super) struct Gate {
    asked: Greeting,
    /// The origin's answer.
    agreed: Encodings,
    answer: Option<Greeting>,
    /// Bytes of the client's records that the origin has taken, as it says.
    heard: u64,
    /// Whose keys have come, if they have.
    suite: Option<Suite>,
    /// Whether the origin has said its last word about this client.
    is_over: bool,
}

impl Gate {
    pub(super) const fn new(asked: Greeting) -> Self {
        Self {
            agreed: asked.encodings,
            answer: None,
            heard: 0,
            asked,
            suite: None,
            is_over: false,
        }
    }

    pub(super) const fn asked(&self) -> Greeting {
        self.asked
    }

    pub(super) const fn answer(&self) -> Option<Greeting> {
        self.answer
    }

    pub(super) const fn heard(&self) -> u64 {
        self.heard
    }

    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// What this message adds to the queue.
    pub(super) fn admit(&mut self, message: &Message<'_>) -> Result<Option<Item>, Error> {
        Ok(match message {
            // Of the next client, before the volunteer has greeted for one.
            Message::Greeting(_) if self.is_over => return Err(Breach::Greeting.into()),
            Message::Greeting(answer) => {
                self.asked.accept(answer)?;
                self.agreed = answer.encodings;
                self.answer = Some(*answer);
                None
            }
            Message::Verbatim(_) if self.suite.is_some() => {
                return Err(Breach::VerbatimAfterKey.into());
            }
            Message::Verbatim(record) => Some(Item::Verbatim(record.bytes().to_vec())),
            Message::KeyExpose(_) if self.suite.is_some() => return Err(Breach::SecondKey.into()),
            Message::KeyExpose(keys) => {
                self.suite = Some(keys.suite());
                Some(Item::Keys(*keys))
            }
            Message::Stub(stub) => Some(self.stub(stub)?),
            Message::Progress(Progress::Taken(bytes)) => {
                self.heard = self.heard.max(*bytes);
                None
            }
            Message::Progress(Progress::Over) => {
                self.is_over = true;
                None
            }
            // The decoder lets none of these through on this channel.
            Message::Miss(_)
            | Message::Found(_)
            | Message::ListPart(_)
            | Message::Absent(_)
            | Message::Progress(Progress::End | Progress::Coming) => {
                return Err(Breach::Greeting.into());
            }
        })
    }

    fn stub(&self, stub: &Stub<'_>) -> Result<Item, Error> {
        let (expected, found) = (self.suite.map_or(0, Suite::mac_len), stub.mac_len());
        if expected != found {
            return Err(Breach::Mac { expected, found }.into());
        }
        let agreed = |needed, number| {
            if self.agreed.contains(needed) {
                Ok(())
            } else {
                Err(Breach::Encoding(number))
            }
        };
        let body = match stub.id() {
            Id::Literal(plaintext) => Body::Literal(plaintext.to_vec()),
            Id::Named(name) => {
                match name {
                    PayloadName::Sha1(_) => agreed(Encodings::SHA1, 2)?,
                    PayloadName::Sha256(_) => agreed(Encodings::SHA256, 3)?,
                }
                Body::Named(name)
            }
            Id::Run(run) => {
                agreed(Encodings::RUN, 4)?;
                if run.end().is_none_or(|end| end > MAX_OBJECT_LEN) {
                    return Err(Breach::RunBeyondObject.into());
                }
                return Ok(Item::Run(RunItem::new(run, stub.macs_bytes())));
            }
        };
        Ok(Item::Record {
            record_type: stub.record_type(),
            body,
            mac: Mac::new(stub.macs_bytes()),
        })
    }
}
