//! The client's part before the configuration is final: it offers, the server answers.
//!
//! Each middlebox is told of the session at once, and given the client's shares for what is
//! offered, so that it has everything when the server's decision passes it. The client's shares
//! alone are no keys: what the server does not grant, nobody can read.

use super::{
    Agreed, Binding, Channel, Client, Ground, Handshake, Legs, Output, alert_from, check_ground,
    granted,
};
use crate::config::{Configuration, Right, Terms};
use crate::error::{Breach, Error, Misuse, Policy};
use crate::message::{Message, Offer, OwnKeys, Start};
use crate::party::Endpoint;
use crate::suite::Suite;

impl Client {
    /// Offers a session. `suites` stand in the order of the client's liking; `least` is what it
    /// makes do with ([`Terms::leave`]).
    ///
    /// # Errors
    /// [`Breach::MiddleboxCertificate`]: a leg shows another certificate than the terms say.
    /// [`Misuse::Count`]: legs, shares or suites do not fit the terms.
    pub fn offer(
        suites: Vec<Suite>,
        terms: Terms,
        least: Vec<Vec<Right>>,
        ground: Ground,
        out: &mut Vec<Output>,
    ) -> Result<Handshake, Error> {
        let favourite = suites.first().filter(|_| suites.len() <= Suite::ALL.len());
        let Some(favourite) = favourite.copied() else {
            let (expected, found) = (Suite::ALL.len(), suites.len());
            return Err(Misuse::Count { expected, found }.into());
        };
        check_ground(&terms, &ground)?;
        let offer = Offer {
            suites: suites.into_iter().map(Suite::code).collect(),
            terms,
            shares: ground.shares.clone(),
        };
        out.push(Output {
            to: Channel::EndToEnd,
            message: Message::Offer(offer.clone()),
        });
        let legs = Legs::new(Endpoint::Client, &ground);
        for position in offer.terms.positions() {
            let start = Start {
                endpoint: Endpoint::Client,
                position,
                sid: legs.sid,
                configuration: Configuration {
                    suite: favourite,
                    terms: offer.terms.clone(),
                },
            };
            let keys = OwnKeys {
                granted: granted(&offer.terms, &ground.shares, position),
            };
            for message in [Message::Start(start), Message::OwnKeys(keys)] {
                let to = Channel::Leg(position);
                out.push(Output { to, message });
            }
        }
        Ok(Handshake::Offered(Offered {
            offer,
            least,
            ground,
            legs,
        }))
    }
}

/// The client has offered and awaits the answer.
#[derive(Debug)]
pub struct Offered {
    offer: Offer,
    least: Vec<Vec<Right>>,
    ground: Ground,
    legs: Legs,
}

impl Offered {
    /// Takes the answer, or what a middlebox reports before.
    ///
    /// # Errors
    /// [`Policy::Refused`]: the server wants no such session. [`Policy::TooLittle`]: it leaves a
    /// middlebox less than this client makes do with. [`Breach::NotReduced`],
    /// [`Breach::Stripped`], [`Breach::Suite`]: the answer is none to this offer.
    pub(super) fn handle(
        mut self,
        from: Channel,
        message: Message,
        out: &mut Vec<Output>,
    ) -> Result<Handshake, Error> {
        let answer = match (from, message) {
            (Channel::EndToEnd, Message::Answer(answer)) => answer,
            (Channel::EndToEnd, Message::Refusal) => return Err(Policy::Refused.into()),
            (Channel::Leg(position), Message::Bind(digest)) => {
                self.legs.report(position, digest)?;
                return Ok(Handshake::Offered(self));
            }
            (from, Message::Alert(alert)) => return Err(alert_from(from, alert).into()),
            (_, other) => return Err(other.unexpected()),
        };
        let suite = answer.configuration.suite;
        if !self.offer.suites.contains(&suite.code()) {
            return Err(Breach::Suite(suite.code()).into());
        }
        answer.configuration.terms.reduces(&self.offer.terms)?;
        answer.configuration.terms.leave(&self.least)?;
        let agreed = Agreed {
            endpoint: Endpoint::Client,
            configuration: answer.configuration,
            ground: self.ground,
            peer_shares: answer.shares,
            offer: self.offer.digest(),
        };
        Binding::start(agreed, self.legs, out)
    }
}
