//! The client's part before the configuration is final: it offers, the server answers.

use super::{
    Agreed, Binding, Channel, Client, Ground, Handshake, Output, alert_from, check_ground,
};
use crate::config::{Right, Terms};
use crate::error::{Breach, Error, Misuse, Policy};
use crate::message::{Message, Offer};
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
    ) -> Result<Offered, Error> {
        if suites.is_empty() || suites.len() > Suite::ALL.len() {
            let (expected, found) = (Suite::ALL.len(), suites.len());
            return Err(Misuse::Count { expected, found }.into());
        }
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
        Ok(Offered {
            offer,
            least,
            ground,
        })
    }
}

/// The client has offered and awaits the answer.
#[derive(Debug)]
pub struct Offered {
    offer: Offer,
    least: Vec<Vec<Right>>,
    ground: Ground,
}

impl Offered {
    /// Takes the answer.
    ///
    /// # Errors
    /// [`Policy::Refused`]: the server wants no such session. [`Policy::TooLittle`]: it leaves a
    /// middlebox less than this client makes do with. [`Breach::NotReduced`],
    /// [`Breach::Stripped`], [`Breach::Suite`]: the answer is none to this offer.
    pub fn handle(
        self,
        from: Channel,
        message: Message,
        out: &mut Vec<Output>,
    ) -> Result<Handshake, Error> {
        let answer = match (from, message) {
            (Channel::EndToEnd, Message::Answer(answer)) => answer,
            (Channel::EndToEnd, Message::Refusal) => return Err(Policy::Refused.into()),
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
        Binding::start(agreed, out)
    }
}
