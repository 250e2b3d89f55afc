//! The server's part before the configuration is final: it takes the offer, and its caller decides.

use super::binding::report;
use super::{Agreed, Binding, Channel, Ground, Handshake, Legs, Output, alert_from, check_ground};
use crate::config::{Configuration, Terms};
use crate::error::{Breach, Error, Policy};
use crate::message::{Message, Offer};
use crate::party::Endpoint;
use crate::secret::Digest;
use crate::suite::Suite;

/// The server awaits the offer.
#[derive(Debug)]
pub struct Server {
    /// SHA-256 of the leaf certificate that it has shown.
    certificate: Digest,
}

impl Server {
    /// A server that has shown the certificate with this digest.
    #[must_use]
    pub const fn new(certificate: Digest) -> Self {
        Self { certificate }
    }

    /// Takes the offer.
    ///
    /// # Errors
    /// [`Breach::ServerCertificate`]: the client means another server. [`Breach::Suite`]: no suite
    /// is known.
    pub fn handle(self, from: Channel, message: Message) -> Result<Deciding, Error> {
        let offer = match (from, message) {
            (Channel::EndToEnd, Message::Offer(offer)) => offer,
            (from, Message::Alert(alert)) => return Err(alert_from(from, alert).into()),
            (_, other) => return Err(other.unexpected()),
        };
        if *offer.terms.server_certificate() != self.certificate {
            return Err(Breach::ServerCertificate.into());
        }
        let suites = offer.suites.iter().copied();
        let suites: Vec<Suite> = suites.filter_map(Suite::from_code).collect();
        match (suites.is_empty(), offer.suites.first()) {
            (true, first) => Err(Breach::Suite(first.copied().unwrap_or(0)).into()),
            (false, _) => {
                let reported = vec![None; offer.terms.middleboxes().len()];
                Ok(Deciding {
                    offer,
                    suites,
                    reported,
                })
            }
        }
    }
}

/// The server has an offer and has not answered.
#[derive(Debug)]
pub struct Deciding {
    offer: Offer,
    /// Those of its suites that are known.
    suites: Vec<Suite>,
    /// Digests of the client's legs, as far as the middleboxes have reported them.
    reported: Vec<Option<Digest>>,
}

impl Deciding {
    /// What is offered. As many legs as it has middleboxes have to be ready for the answer.
    #[must_use]
    pub const fn terms(&self) -> &Terms {
        &self.offer.terms
    }

    /// The suites that are offered and known, the client's favourite first.
    #[must_use]
    pub fn suites(&self) -> &[Suite] {
        &self.suites
    }

    /// Takes what a middlebox says before the decision.
    ///
    /// # Errors
    /// An alert, or a message that is not due.
    pub fn handle(&mut self, from: Channel, message: Message) -> Result<(), Error> {
        match (from, message) {
            (Channel::Leg(position), Message::Bind(digest)) => {
                report(&mut self.reported, position, digest)
            }
            (from, Message::Alert(alert)) => Err(alert_from(from, alert).into()),
            (_, other) => Err(other.unexpected()),
        }
    }

    /// Agrees to these terms, which only reduce what was offered. The answer goes once every
    /// middlebox has reported.
    ///
    /// # Errors
    /// [`Breach::MiddleboxCertificate`]: a leg shows another certificate than the client says.
    /// [`Breach::NotReduced`], [`Breach::Stripped`], [`Breach::Suite`]: these are no answer to the
    /// offer.
    pub fn accept(
        self,
        suite: Suite,
        terms: Terms,
        ground: Ground,
        out: &mut Vec<Output>,
    ) -> Result<Handshake, Error> {
        if !self.suites.contains(&suite) {
            return Err(Breach::Suite(suite.code()).into());
        }
        terms.reduces(&self.offer.terms)?;
        check_ground(&terms, &ground)?;
        let mut legs = Legs::new(Endpoint::Server, &ground);
        legs.reported = self.reported;
        let agreed = Agreed {
            endpoint: Endpoint::Server,
            configuration: Configuration { suite, terms },
            ground,
            offer: self.offer.digest(),
            peer_shares: self.offer.shares,
        };
        Binding::start(agreed, legs, out)
    }

    /// Wants no such session. The error is what the session ends with.
    pub fn refuse(self, out: &mut Vec<Output>) -> Error {
        out.push(Output {
            to: Channel::EndToEnd,
            message: Message::Refusal,
        });
        Policy::Refused.into()
    }
}
