//! What is the same at both ends: the other's key material, its finished message, and the keys.

use mctls::party::{Endpoint, Position};

use super::{Agreed, Established, Handshake, due, message, unexpected};
use crate::error::{Breach, Check, Error};
use crate::material::{Entries, joined, open};
use crate::message::{Message, Mode, Recipient};
use crate::protect::{FullKeys, Wholes};
use crate::receiver::Receiver;
use crate::record::{ContentType, Input};
use crate::schedule::{HALF_LEN, endpoint_keys, verify_data};
use crate::secret::same;
use crate::sender::Sender;

/// Either awaits the other's key material, and behind it the change of the cipher.
#[derive(Debug)]
pub struct Materials {
    agreed: Agreed,
    /// For how many middleboxes it has come.
    boxes: usize,
    /// The other endpoint's halves.
    halves: Option<Entries>,
}

impl Materials {
    pub(super) const fn new(agreed: Agreed) -> Self {
        Self {
            agreed,
            boxes: 0,
            halves: None,
        }
    }

    /// Whom the next key material is for; `None` where no more is due.
    fn due(&self) -> Option<Recipient> {
        let boxes = self.agreed.list.middleboxes().len();
        let next = u8::try_from(self.boxes + 1).ok().and_then(Position::new);
        let next = next
            .filter(|_| self.boxes < boxes)
            .map(Recipient::Middlebox);
        match (self.agreed.mode, self.agreed.endpoint, &self.halves) {
            (Mode::ClientDistributes, Endpoint::Client, _) | (_, _, Some(_)) => None,
            (Mode::ClientDistributes, Endpoint::Server, None) => next,
            (Mode::Contributory, _, None) => Some(next.unwrap_or(Recipient::OtherEndpoint)),
        }
    }

    pub(super) fn handle(mut self, input: Input) -> Result<Handshake, Error> {
        if input == Input::ChangeCipherSpec && self.due().is_none() {
            return Ok(Handshake::Confirming(self.confirming()));
        }
        let received = message(input)?;
        let Message::KeyMaterial(material) = received.message else {
            return Err(due(&received.message));
        };
        let other = self.agreed.endpoint.other();
        if self.due() != Some(material.recipient) || material.sender != other {
            return Err(Breach::KeyMaterial.into());
        }
        match material.recipient {
            // It cannot be opened here: the hash over all messages vouches for it.
            Recipient::Middlebox(_) => self.boxes += 1,
            Recipient::OtherEndpoint => {
                let (session, randoms) = (&self.agreed.session, &self.agreed.randoms);
                let keys = endpoint_keys(session, randoms, other.sends());
                let halves = open(&keys, &material, HALF_LEN)?;
                if !halves.keys().eq(self.agreed.halves().keys()) {
                    return Err(Breach::KeyMaterial.into());
                }
                self.halves = Some(halves);
            }
        }
        self.agreed.transcript.add(&received.raw);
        Ok(Handshake::Materials(self))
    }

    fn confirming(self) -> Confirming {
        let agreed = self.agreed;
        let wholes = match (&self.halves, agreed.endpoint) {
            (None, _) => agreed.wholes(),
            (Some(theirs), Endpoint::Client) => joined(&agreed.halves(), theirs),
            (Some(theirs), Endpoint::Server) => joined(theirs, &agreed.halves()),
        };
        let from = agreed.endpoint.other().sends();
        let keys = FullKeys::new(&agreed.session, &wholes, &agreed.randoms, from);
        Confirming {
            agreed,
            wholes,
            receiver: Receiver::new(keys),
        }
    }
}

/// Either awaits the other's finished message.
#[derive(Debug)]
pub struct Confirming {
    agreed: Agreed,
    wholes: Wholes,
    receiver: Receiver,
}

impl Confirming {
    pub(super) fn handle(mut self, input: Input, out: &mut Vec<u8>) -> Result<Handshake, Error> {
        let record = match input {
            Input::Protected(record) if record.kind == ContentType::Handshake => record,
            // The other side ends the session in place of its finished message.
            Input::Protected(record) if record.kind == ContentType::Alert => {
                self.receiver.open(&record)?;
                return Err(Breach::Truncated.into());
            }
            other => return Err(unexpected(&other)),
        };
        let raw = self.receiver.control(&record)?;
        let Message::Finished(found) = Message::parse(&raw)? else {
            return Err(Breach::Message(raw.first().copied().unwrap_or(0)).into());
        };
        let agreed = &mut self.agreed;
        let other = agreed.endpoint.other();
        let expected = verify_data(&agreed.session, other, &agreed.transcript.digest());
        if !same(&expected, &found) {
            return Err(Check::Finished.into());
        }
        agreed.transcript.add(&raw);
        match agreed.endpoint {
            // It has sent its own before.
            Endpoint::Client => {}
            Endpoint::Server => agreed.finish(out),
        }
        Ok(self.established())
    }

    fn established(self) -> Handshake {
        let agreed = self.agreed;
        let to = agreed.endpoint.sends();
        let keys = FullKeys::new(&agreed.session, &self.wholes, &agreed.randoms, to);
        Handshake::Established(Box::new(Established {
            list: agreed.list,
            suite: agreed.suite,
            mode: agreed.mode,
            sender: Sender::new(keys, &agreed.entropy.iv, to),
            receiver: self.receiver,
        }))
    }
}
