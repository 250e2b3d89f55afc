//! The transcript is final: the server has proved that it is its own, every middlebox proves its
//! keys, and the client says that it is ready.
//!
//! Invariant: an endpoint sends data only after every middlebox has proved to it the keys of its
//! rights, and the other endpoint the transcript.

use super::{Agreed, Channel, Established, Handshake, Output};
use crate::error::{Check, Error};
use crate::keys::{DirectionKeys, Holder};
use crate::message::Message;
use crate::party::{ContextId, Endpoint, Position};
use crate::receiver::Receiver;
use crate::schedule::{ContextSecrets, EndKey, LegKey, all_secrets, granted_secrets};
use crate::secret::{Digest, same};
use crate::sender::Sender;

/// Keys are being confirmed.
#[derive(Debug)]
pub struct Confirming {
    agreed: Agreed,
    legs: Vec<LegKey>,
    th: Digest,
    end: EndKey,
    secrets: Vec<(ContextId, ContextSecrets)>,
    /// Which middleboxes have proved their keys.
    confirmed: Vec<Proof>,
    /// Whether the other endpoint is ready.
    peer: Proof,
}

/// Whether a proof is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    Awaited,
    Verified,
}

impl Confirming {
    pub(super) fn start(
        agreed: Agreed,
        legs: Vec<LegKey>,
        th: Digest,
        out: &mut Vec<Output>,
    ) -> Handshake {
        let (client, server) = agreed.both_shares();
        let secrets = all_secrets(&agreed.configuration.terms, &th, client, server);
        let state = Self {
            end: agreed.ground.secret.end(&th),
            confirmed: vec![Proof::Awaited; legs.len()],
            agreed,
            legs,
            th,
            secrets,
            peer: Proof::Awaited,
        };
        match state.agreed.endpoint {
            // At once, so that the client has it with the answer.
            Endpoint::Server => state.say_ready(out),
            Endpoint::Client => {}
        }
        Handshake::Confirming(state)
    }

    pub(super) fn handle(
        mut self,
        from: Channel,
        message: Message,
        out: &mut Vec<Output>,
    ) -> Result<Handshake, Error> {
        match (from, message) {
            (Channel::Leg(position), Message::Confirm(proof)) => {
                self.confirm(position, proof)?;
            }
            (Channel::EndToEnd, Message::Ready(proof)) if self.peer == Proof::Awaited => {
                let expected = self.end.ready(self.agreed.endpoint.other());
                if !same(&expected, &proof) {
                    return Err(Check::Ready.into());
                }
                self.peer = Proof::Verified;
            }
            (_, other) => return Err(other.unexpected()),
        }
        Ok(self.advance(out))
    }

    fn confirm(&mut self, position: Position, proof: Digest) -> Result<(), Error> {
        let unexpected = Message::Confirm(proof).unexpected();
        let index = position.index();
        let (Some(leg), Some(Proof::Awaited)) = (self.legs.get(index), self.confirmed.get(index))
        else {
            return Err(unexpected);
        };
        let granted = granted_secrets(&self.agreed.configuration.terms, position, &self.secrets);
        let expected = leg.confirm(self.agreed.endpoint, position, &granted, &self.th);
        if !same(&expected, &proof) {
            return Err(Check::Confirm(position).into());
        }
        self.confirmed[index] = Proof::Verified;
        Ok(())
    }

    fn all_confirmed(&self) -> bool {
        self.confirmed.iter().all(|proof| *proof == Proof::Verified)
    }

    fn say_ready(&self, out: &mut Vec<Output>) {
        out.push(Output {
            to: Channel::EndToEnd,
            message: Message::Ready(self.end.ready(self.agreed.endpoint)),
        });
    }

    /// The last proof makes the session. Data may follow what the client says then: legs first, as
    /// a middlebox has to know before the first record passes it.
    fn advance(self, out: &mut Vec<Output>) -> Handshake {
        if !self.all_confirmed() || self.peer == Proof::Awaited {
            return Handshake::Confirming(self);
        }
        match self.agreed.endpoint {
            Endpoint::Client => {
                for position in self.agreed.configuration.terms.positions() {
                    out.push(Output {
                        to: Channel::Leg(position),
                        message: Message::LegReady(self.th),
                    });
                }
                self.say_ready(out);
            }
            Endpoint::Server => {}
        }
        let keys = |direction| {
            DirectionKeys::new(
                &self.agreed.configuration,
                direction,
                self.th,
                &self.secrets,
                Holder::Endpoint(&self.end),
            )
        };
        let sends = self.agreed.endpoint.sends();
        let receives = self.agreed.endpoint.other().sends();
        let positions = self.agreed.configuration.terms.positions();
        let authors = positions.zip(&self.legs);
        let authors = authors.map(|(position, leg)| (position, leg.author(receives, &self.th)));
        Handshake::Established(Established {
            sender: Sender::new(keys(sends)),
            receiver: Receiver::new(
                self.agreed.configuration.terms.clone(),
                keys(receives),
                authors.collect(),
            ),
            configuration: self.agreed.configuration,
        })
    }
}
