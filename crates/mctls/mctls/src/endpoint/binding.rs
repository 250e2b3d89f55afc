//! The terms are decided; each middlebox reports the other endpoint's leg, the server says what it
//! knows of both, and the client compares.
//!
//! Invariant: the next state is reached only if, for each middlebox, both endpoints know both legs
//! by the same digests, so it is the same middlebox, in the same place of the same session: the
//! client compares them, and the server by the client's proof of the transcript.

use super::{Agreed, Channel, Confirming, Ground, Handshake, Output, granted};
use crate::error::{Breach, Check, Error};
use crate::message::{
    Answer, Binding as Pair, Keys, LegDigests, Message, ShareDigests, Start, Transcript,
};
use crate::party::{Endpoint, Position};
use crate::schedule::{LegKey, th};
use crate::secret::{Digest, same};

/// An endpoint's legs in this session, and what middleboxes report of the other's.
#[derive(Debug)]
pub(super) struct Legs {
    pub(super) sid: Digest,
    pub(super) keys: Vec<LegKey>,
    /// Digests of the other endpoint's legs.
    pub(super) reported: Vec<Option<Digest>>,
}

impl Legs {
    pub(super) fn new(endpoint: Endpoint, ground: &Ground) -> Self {
        let sid = ground.secret.sid();
        let legs = Position::all(ground.legs.len()).zip(&ground.legs);
        let keys = legs.map(|(position, leg)| leg.secret.bind(&sid, endpoint, position));
        Self {
            keys: keys.collect(),
            reported: vec![None; ground.legs.len()],
            sid,
        }
    }

    /// Takes what a middlebox reports.
    pub(super) fn report(&mut self, position: Position, digest: Digest) -> Result<(), Error> {
        report(&mut self.reported, position, digest)
    }

    /// Both digests for each middlebox, once all have reported.
    fn pairs(&self) -> Option<Vec<Pair>> {
        let legs = self.keys.iter().zip(&self.reported);
        legs.map(|(own, reported)| {
            Some(Pair {
                own: own.digest(),
                reported: (*reported)?,
            })
        })
        .collect()
    }
}

/// Legs are being compared.
#[derive(Debug)]
pub struct Binding {
    agreed: Agreed,
    legs: Legs,
    /// What the server says, where it was faster than a middlebox.
    peer: Option<Vec<Pair>>,
}

impl Binding {
    pub(super) fn start(
        agreed: Agreed,
        legs: Legs,
        out: &mut Vec<Output>,
    ) -> Result<Handshake, Error> {
        let state = Self {
            agreed,
            legs,
            peer: None,
        };
        state.advance(out)
    }

    pub(super) fn handle(
        mut self,
        from: Channel,
        message: Message,
        out: &mut Vec<Output>,
    ) -> Result<Handshake, Error> {
        match (from, self.agreed.endpoint, message) {
            (Channel::Leg(position), _, Message::Bind(digest)) => {
                self.legs.report(position, digest)?;
            }
            (Channel::EndToEnd, Endpoint::Client, Message::Bindings(pairs))
                if self.peer.is_none() =>
            {
                let (expected, found) = (self.legs.keys.len(), pairs.len());
                if expected != found {
                    return Err(Breach::Count { expected, found }.into());
                }
                self.peer = Some(pairs);
            }
            (_, _, other) => return Err(other.unexpected()),
        }
        self.advance(out)
    }

    /// Goes on once every middlebox has reported and, at the client, the server has spoken.
    fn advance(mut self, out: &mut Vec<Output>) -> Result<Handshake, Error> {
        let Some(own) = self.legs.pairs() else {
            return Ok(Handshake::Binding(self));
        };
        match (self.agreed.endpoint, self.peer.take()) {
            (Endpoint::Server, _) => Ok(self.announce(own, out)),
            (Endpoint::Client, None) => Ok(Handshake::Binding(self)),
            (Endpoint::Client, Some(peer)) => self.compare(&own, &peer),
        }
    }

    /// Answers the client, proves the transcript, and tells the middleboxes what their keys follow
    /// from.
    fn announce(self, own: Vec<Pair>, out: &mut Vec<Output>) -> Handshake {
        let transcript = self.transcript(&own);
        let answer = Answer {
            configuration: self.agreed.configuration.clone(),
            shares: self.agreed.ground.shares.clone(),
        };
        for message in [Message::Answer(answer), Message::Bindings(own)] {
            let to = Channel::EndToEnd;
            out.push(Output { to, message });
        }
        let mut keys = Vec::new();
        for position in self.agreed.configuration.terms.positions() {
            let start = Start {
                endpoint: Endpoint::Server,
                position,
                sid: self.legs.sid,
                configuration: self.agreed.configuration.clone(),
            };
            let shares = &self.agreed.ground.shares;
            let granted = granted(&self.agreed.configuration.terms, shares, position);
            let own = Keys {
                transcript: transcript.clone(),
                granted,
            };
            for message in [Message::Start(start), Message::Keys(own)] {
                let to = Channel::Leg(position);
                keys.push(Output { to, message });
            }
        }
        let next = self.confirm(&transcript, out);
        out.append(&mut keys);
        next
    }

    fn compare(self, own: &[Pair], peer: &[Pair]) -> Result<Handshake, Error> {
        let positions = self.agreed.configuration.terms.positions();
        for ((position, own), peer) in positions.zip(own).zip(peer) {
            if !same(&peer.reported, &own.own) || !same(&peer.own, &own.reported) {
                return Err(Check::LegBinding(position).into());
            }
        }
        let transcript = self.transcript(own);
        Ok(self.confirm(&transcript, &mut Vec::new()))
    }

    fn confirm(self, transcript: &Transcript, out: &mut Vec<Output>) -> Handshake {
        let th = th(&self.agreed.configuration, &self.legs.sid, transcript);
        Confirming::start(self.agreed, self.legs.keys, th, out)
    }

    fn transcript(&self, pairs: &[Pair]) -> Transcript {
        let legs = pairs.iter().map(|pair| match self.agreed.endpoint {
            Endpoint::Client => LegDigests {
                client: pair.own,
                server: pair.reported,
            },
            Endpoint::Server => LegDigests {
                client: pair.reported,
                server: pair.own,
            },
        });
        let (client, server) = self.agreed.both_shares();
        let contexts = 0..self.agreed.configuration.terms.contexts().len();
        Transcript {
            offer: self.agreed.offer,
            legs: legs.collect(),
            shares: contexts
                .map(|index| ShareDigests {
                    client: client.digests(index),
                    server: server.digests(index),
                })
                .collect(),
            client_certificate: self.agreed.ground.client_certificate,
        }
    }
}

/// Notes what a middlebox has reported, once.
pub(super) fn report(
    reported: &mut [Option<Digest>],
    position: Position,
    digest: Digest,
) -> Result<(), Error> {
    match reported.get_mut(position.index()) {
        Some(slot @ None) => *slot = Some(digest),
        Some(Some(_)) | None => return Err(Message::Bind(digest).unexpected()),
    }
    Ok(())
}
