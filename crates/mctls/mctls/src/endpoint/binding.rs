//! The configuration is final; each middlebox reports the other endpoint's leg, and the endpoints
//! compare.
//!
//! Invariant: the next state is reached only if, for each middlebox, both endpoints know both legs
//! by the same digests, so it is the same middlebox, in the same place of the same session.

use super::{Agreed, Channel, Confirming, Handshake, Output};
use crate::config::Right;
use crate::error::{Breach, Check, Error};
use crate::message::{
    Binding as Pair, Granted, Keys, LegDigests, Message, OwnKeys, Purpose, ShareDigests, Start,
    Transcript,
};
use crate::party::{Endpoint, Position};
use crate::schedule::{LegKey, th};
use crate::secret::{Digest, same};

/// Legs are being compared.
#[derive(Debug)]
pub struct Binding {
    agreed: Agreed,
    sid: Digest,
    legs: Vec<LegKey>,
    /// Digests of the other endpoint's legs, as the middleboxes report them.
    reported: Vec<Option<Digest>>,
    /// What the other endpoint says, where it was faster than a middlebox.
    peer: Option<Vec<Pair>>,
    /// What the keys say, once every middlebox has reported.
    transcript: Option<Transcript>,
}

impl Binding {
    pub(super) fn start(agreed: Agreed, out: &mut Vec<Output>) -> Result<Handshake, Error> {
        let (endpoint, configuration) = (agreed.endpoint, &agreed.configuration);
        let sid = agreed.ground.secret.sid();
        let mut legs = Vec::new();
        for (position, leg) in configuration.terms.positions().zip(&agreed.ground.legs) {
            legs.push(leg.secret.bind(&sid, configuration, endpoint, position));
            out.push(Output {
                to: Channel::Leg(position),
                message: Message::Start(Start {
                    endpoint,
                    position,
                    sid,
                    configuration: configuration.clone(),
                }),
            });
        }
        let state = Self {
            reported: vec![None; legs.len()],
            agreed,
            sid,
            legs,
            peer: None,
            transcript: None,
        };
        state.advance(out)
    }

    pub(super) fn handle(
        mut self,
        from: Channel,
        message: Message,
        out: &mut Vec<Output>,
    ) -> Result<Handshake, Error> {
        match (from, message) {
            (Channel::Leg(position), Message::Bind(digest)) => {
                let slot = self.reported.get_mut(position.index());
                match slot {
                    Some(slot @ None) => *slot = Some(digest),
                    Some(Some(_)) | None => return Err(Message::Bind(digest).unexpected()),
                }
            }
            (Channel::EndToEnd, Message::Bindings(pairs)) if self.peer.is_none() => {
                let (expected, found) = (self.legs.len(), pairs.len());
                if expected != found {
                    return Err(Breach::Count { expected, found }.into());
                }
                self.peer = Some(pairs);
            }
            (_, other) => return Err(other.unexpected()),
        }
        self.advance(out)
    }

    /// Sends what is due once every middlebox has reported; goes on once the other endpoint has,
    /// too.
    fn advance(mut self, out: &mut Vec<Output>) -> Result<Handshake, Error> {
        if self.transcript.is_none() {
            let reported: Option<Vec<Digest>> = self.reported.iter().copied().collect();
            let Some(reported) = reported else {
                return Ok(Handshake::Binding(self));
            };
            self.transcript = Some(self.announce(&reported, out));
        }
        match (self.peer.take(), self.transcript.take()) {
            (Some(pairs), Some(transcript)) => self.compare(&pairs, transcript, out),
            (peer, transcript) => {
                self.peer = peer;
                self.transcript = transcript;
                Ok(Handshake::Binding(self))
            }
        }
    }

    /// Tells the other endpoint what is known of the legs, and the middleboxes what their keys
    /// follow from.
    fn announce(&self, reported: &[Digest], out: &mut Vec<Output>) -> Transcript {
        let own = self.legs.iter().map(LegKey::digest);
        let pairs: Vec<Pair> = own
            .zip(reported)
            .map(|(own, reported)| Pair {
                own,
                reported: *reported,
            })
            .collect();
        let transcript = self.transcript(&pairs);
        out.push(Output {
            to: Channel::EndToEnd,
            message: Message::Bindings(pairs),
        });
        for position in self.agreed.configuration.terms.positions() {
            let granted = self.granted(position);
            out.push(Output {
                to: Channel::Leg(position),
                message: match self.agreed.endpoint {
                    Endpoint::Client => Message::OwnKeys(OwnKeys {
                        th: th(&self.agreed.configuration, &self.sid, &transcript),
                        granted,
                    }),
                    Endpoint::Server => Message::Keys(Keys {
                        transcript: transcript.clone(),
                        granted,
                    }),
                },
            });
        }
        transcript
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

    /// The shares that this middlebox's rights give it, and no others.
    fn granted(&self, position: Position) -> Vec<Granted> {
        let mut granted = Vec::new();
        let contexts = self.agreed.configuration.terms.contexts().iter();
        for (index, context) in contexts.enumerate() {
            let purposes: &[Purpose] = match context.right(position) {
                Right::None => &[],
                Right::Read => &[Purpose::Read],
                Right::Write => &Purpose::BOTH,
            };
            granted.extend(purposes.iter().map(|purpose| Granted {
                context: context.id,
                purpose: *purpose,
                share: self.agreed.ground.shares.share(index, *purpose).clone(),
            }));
        }
        granted
    }

    fn compare(
        self,
        pairs: &[Pair],
        transcript: Transcript,
        out: &mut Vec<Output>,
    ) -> Result<Handshake, Error> {
        let positions = self.agreed.configuration.terms.positions();
        for ((position, pair), digests) in positions.zip(pairs).zip(&transcript.legs) {
            let (own, reported) = match self.agreed.endpoint {
                Endpoint::Client => (digests.client, digests.server),
                Endpoint::Server => (digests.server, digests.client),
            };
            if !same(&pair.reported, &own) || !same(&pair.own, &reported) {
                return Err(Check::LegBinding(position).into());
            }
        }
        let th = th(&self.agreed.configuration, &self.sid, &transcript);
        Confirming::start(self.agreed, self.legs, th, out)
    }
}
