//! An endpoint's handshake, from two finished TLS handshakes on every middlebox's part to keys.
//!
//! ```text
//!  Client::offer                            Server (awaits the offer)
//!    | --> offer; start, own keys on legs     | <-- offer
//!  Offered                                  Deciding      the caller reduces, or refuses
//!    | <-- bind on each leg                   |
//!    | <-- answer                           Binding
//!  Binding                                    | <-- bind on each leg; then -->
//!    | <-- bindings                           |     answer, bindings, ready; start, keys on legs
//!  Confirming                               Confirming
//!    | <-- ready                              |
//!    | <-- confirm on each leg; then -->      | <-- confirm on each leg
//!    |     ready on legs, ready               | <-- ready
//!  Established                              Established: a sender and a receiver of records
//! ```
//!
//! Is not: TLS, sockets, time. What TLS has established comes in as exporters and digests of
//! certificates; an adapter sends the [`Output`]s in their order and says when it has waited long
//! enough.
//!
//! Invariants: an endpoint sends no record before the other one and every middlebox have proved to
//! it the same transcript (`th`); a middlebox is granted only what the final terms say; an error
//! ends the session.

mod binding;
mod client;
mod confirming;
mod server;

pub use binding::Binding;
use binding::Legs;
pub use client::Offered;
pub use confirming::Confirming;
pub use server::{Deciding, Server};

use crate::config::{Configuration, Right, Terms};
use crate::error::{Alert, Breach, Error, Misuse, Policy};
use crate::message::{Granted, Message, Purpose, Shares};
use crate::party::{Endpoint, Position};
use crate::receiver::Receiver;
use crate::schedule::{LegSecret, SessionSecret};
use crate::secret::Digest;
use crate::sender::Sender;

/// The client's handshake, before it has begun.
#[derive(Clone, Copy, Debug)]
pub struct Client;

/// Where a message came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// The end-to-end session.
    EndToEnd,
    /// The leg of this middlebox.
    Leg(Position),
}

/// A message to send, before anything that is put out later.
#[must_use = "the other side waits for it"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Where to.
    pub to: Channel,
    /// What.
    pub message: Message,
}

/// What TLS has established on a leg, as an endpoint sees it.
#[derive(Clone, Debug)]
pub struct Leg {
    /// The leg's exporter.
    pub secret: LegSecret,
    /// SHA-256 of the middlebox's leaf certificate, whose key TLS has proved.
    pub certificate: Digest,
}

/// What an endpoint brings to a session, beside its wishes.
#[derive(Debug)]
pub struct Ground {
    /// The exporter of the end-to-end session.
    pub secret: SessionSecret,
    /// A leg for each middlebox, in order.
    pub legs: Vec<Leg>,
    /// This endpoint's shares, for each context.
    pub shares: Shares,
    /// SHA-256 of the certificate that the client showed end to end; zeros where it showed none.
    pub client_certificate: Digest,
}

/// A handshake after its configuration is final.
#[derive(Debug)]
pub enum Handshake {
    /// A client's offer is under way.
    Offered(Offered),
    /// Legs are being compared.
    Binding(Binding),
    /// Keys are being confirmed.
    Confirming(Confirming),
    /// Records may be sent.
    Established(Established),
}

impl Handshake {
    /// Takes a message.
    ///
    /// # Errors
    /// Any [`Error`]: the session is over; tell the others its alert.
    pub fn handle(
        self,
        from: Channel,
        message: Message,
        out: &mut Vec<Output>,
    ) -> Result<Self, Error> {
        if let Message::Alert(alert) = message {
            return Err(alert_from(from, alert).into());
        }
        match self {
            Self::Offered(state) => state.handle(from, message, out),
            Self::Binding(state) => state.handle(from, message, out),
            Self::Confirming(state) => state.handle(from, message, out),
            Self::Established(_) => Err(message.unexpected()),
        }
    }
}

/// A session that is ready for data.
#[derive(Debug)]
pub struct Established {
    /// What was agreed on.
    pub configuration: Configuration,
    /// For records to the other endpoint.
    pub sender: Sender,
    /// For records from it.
    pub receiver: Receiver,
}

/// What a message ends a session with that comes before it can mean anything: an offer has not been
/// made, or not been decided.
#[must_use]
pub fn too_early(from: Channel, message: &Message) -> Error {
    match message {
        Message::Alert(alert) => alert_from(from, *alert).into(),
        Message::Offer(_)
        | Message::Answer(_)
        | Message::Refusal
        | Message::Bindings(_)
        | Message::Ready(_)
        | Message::Start(_)
        | Message::Bind(_)
        | Message::Keys(_)
        | Message::OwnKeys(_)
        | Message::Confirm(_)
        | Message::LegReady(_) => message.unexpected(),
    }
}

const fn alert_from(from: Channel, alert: Alert) -> Policy {
    match from {
        Channel::EndToEnd => Policy::PeerAlert(alert),
        Channel::Leg(position) => Policy::MiddleboxAlert(position, alert),
    }
}

/// Legs and shares in the numbers that the terms ask for, and the certificates that they say.
fn check_ground(terms: &Terms, ground: &Ground) -> Result<(), Error> {
    for (expected, found) in [
        (terms.middleboxes().len(), ground.legs.len()),
        (terms.contexts().len(), ground.shares.contexts()),
    ] {
        if expected != found {
            return Err(Misuse::Count { expected, found }.into());
        }
    }
    for (position, leg) in terms.positions().zip(&ground.legs) {
        if leg.certificate != terms.middleboxes()[position.index()].certificate {
            return Err(Breach::MiddleboxCertificate(position).into());
        }
    }
    Ok(())
}

/// The shares that a middlebox's rights give it, and no others.
fn granted(terms: &Terms, shares: &Shares, position: Position) -> Vec<Granted> {
    let mut granted = Vec::new();
    for (index, context) in terms.contexts().iter().enumerate() {
        let purposes: &[Purpose] = match context.right(position) {
            Right::None => &[],
            Right::Read => &[Purpose::Read],
            Right::Write => &Purpose::BOTH,
        };
        granted.extend(purposes.iter().map(|purpose| Granted {
            context: context.id,
            purpose: *purpose,
            share: shares.share(index, *purpose).clone(),
        }));
    }
    granted
}

/// Everything that both states after the configuration need.
#[derive(Debug)]
struct Agreed {
    endpoint: Endpoint,
    configuration: Configuration,
    ground: Ground,
    peer_shares: Shares,
    offer: Digest,
}

impl Agreed {
    /// The client's shares and the server's.
    const fn both_shares(&self) -> (&Shares, &Shares) {
        match self.endpoint {
            Endpoint::Client => (&self.ground.shares, &self.peer_shares),
            Endpoint::Server => (&self.peer_shares, &self.ground.shares),
        }
    }
}
