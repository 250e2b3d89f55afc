//! A middlebox's handshake: two legs in, keys of its rights out.
//!
//! ```text
//!  Middlebox      <-- start of the client: what it offers
//!  Bound          <-- own keys of the client; then --> bind on both legs
//!                 <-- start of the server: what it has decided; its keys; then --> confirm on both
//!  Confirmed      <-- ready of the client
//!  Joined         records pass
//! ```
//!
//! Is not: TLS, sockets, what the middlebox does with what it may read.
//!
//! Invariants: it takes part only if both endpoints name the same session, the server's
//! configuration reduces what the client offers, in which its own certificate stands at its place
//! and the server of its leg is the client's server; it is given exactly the shares for the rights
//! that each endpoint names; no record passes before the client has the server's transcript.

use crate::config::{Configuration, Right, Terms};
use crate::error::{Breach, Check, Error, Policy};
use crate::keys::{DirectionKeys, Holder};
use crate::message::{Granted, Keys, Message, OwnKeys, Purpose, Start, Transcript};
use crate::party::{ContextId, Direction, Endpoint, Position};
use crate::relay::Relay;
use crate::schedule::{ContextSecrets, LegKey, LegSecret, context_key, th};
use crate::secret::{Digest, Secret, hash, same};

/// A middlebox with two legs that awaits the client's start.
#[derive(Debug)]
pub struct Middlebox {
    /// The client's leg.
    pub client: LegSecret,
    /// The server's leg.
    pub server: LegSecret,
    /// SHA-256 of this middlebox's leaf certificate.
    pub certificate: Digest,
    /// SHA-256 of the leaf certificate that the server has proved on its leg.
    pub server_certificate: Digest,
}

/// A message to send to an endpoint on its leg.
#[must_use = "the endpoint waits for it"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Whose leg.
    pub to: Endpoint,
    /// What.
    pub message: Message,
}

/// A middlebox's state after a message.
#[derive(Debug)]
pub enum Joining {
    /// It awaits the rest of what it derives its keys from.
    Bound(Box<Bound>),
    /// It has proved its keys.
    Confirmed(Box<Confirmed>),
    /// Records may pass.
    Joined(Box<Joined>),
}

impl Joining {
    /// Takes a message of an endpoint.
    ///
    /// # Errors
    /// Any [`Error`]: the session is over; tell the endpoints its alert.
    pub fn handle(
        self,
        from: Endpoint,
        message: Message,
        out: &mut Vec<Reply>,
    ) -> Result<Self, Error> {
        if let Message::Alert(alert) = message {
            return Err(Policy::PeerAlert(alert).into());
        }
        match self {
            Self::Bound(state) => state.handle(from, message, out),
            Self::Confirmed(state) => state.handle(from, message),
            Self::Joined(_) => Err(message.unexpected()),
        }
    }
}

/// One thing for each endpoint.
#[derive(Clone, Debug)]
struct Both<T> {
    client: T,
    server: T,
}

impl<T> Both<T> {
    const fn of(&self, endpoint: Endpoint) -> &T {
        match endpoint {
            Endpoint::Client => &self.client,
            Endpoint::Server => &self.server,
        }
    }
}

impl Middlebox {
    /// Takes the client's start.
    ///
    /// # Errors
    /// [`Breach::Start`]: it is for another leg or place. [`Breach::MiddleboxCertificate`],
    /// [`Breach::ServerCertificate`]: the configuration names other parties.
    pub fn handle(self, from: Endpoint, message: Message) -> Result<Joining, Error> {
        let start = match message {
            Message::Start(start) => start,
            Message::Alert(alert) => return Err(Policy::PeerAlert(alert).into()),
            other => return Err(other.unexpected()),
        };
        let terms = &start.configuration.terms;
        let own = terms.middleboxes().get(start.position.index());
        let own = own.ok_or(Breach::Start)?;
        if (from, start.endpoint) != (Endpoint::Client, Endpoint::Client) {
            return Err(Breach::Start.into());
        }
        if own.certificate != self.certificate {
            return Err(Breach::MiddleboxCertificate(start.position).into());
        }
        if *terms.server_certificate() != self.server_certificate {
            return Err(Breach::ServerCertificate.into());
        }
        let bind = |secret: &LegSecret, endpoint| secret.bind(&start.sid, endpoint, start.position);
        let legs = Both {
            client: bind(&self.client, Endpoint::Client),
            server: bind(&self.server, Endpoint::Server),
        };
        Ok(Joining::Bound(Box::new(Bound {
            offered: start,
            legs,
            client_keys: None,
            decided: None,
        })))
    }
}

/// A middlebox that knows what the client offers, and awaits what the server has decided.
#[derive(Debug)]
pub struct Bound {
    /// The client's start.
    offered: Start,
    legs: Both<LegKey>,
    client_keys: Option<OwnKeys>,
    /// The server's start.
    decided: Option<Configuration>,
}

impl Bound {
    fn handle(
        mut self: Box<Self>,
        from: Endpoint,
        message: Message,
        out: &mut Vec<Reply>,
    ) -> Result<Joining, Error> {
        match (from, message, self.client_keys.take(), self.decided.take()) {
            (Endpoint::Client, Message::OwnKeys(keys), None, decided) => {
                let terms = &self.offered.configuration.terms;
                check_grants(terms, self.offered.position, &keys.granted)?;
                // Not before: the server's keys come upon this, and need the client's.
                for to in [Endpoint::Client, Endpoint::Server] {
                    out.push(Reply {
                        to,
                        message: Message::Bind(self.legs.of(to.other()).digest()),
                    });
                }
                self.client_keys = Some(keys);
                self.decided = decided;
                Ok(Joining::Bound(self))
            }
            (Endpoint::Server, Message::Start(start), client_keys, None) => {
                self.client_keys = client_keys;
                self.decided = Some(self.decide(start)?);
                Ok(Joining::Bound(self))
            }
            (Endpoint::Server, Message::Keys(keys), Some(client), Some(decided)) => {
                self.confirm(decided, &client, &keys, out)
            }
            (_, other, _, _) => Err(other.unexpected()),
        }
    }

    /// What the server has decided: for the same session and place, and no more than is offered.
    fn decide(&self, start: Start) -> Result<Configuration, Error> {
        if start.endpoint != Endpoint::Server {
            return Err(Breach::Start.into());
        }
        if (start.sid, start.position) != (self.offered.sid, self.offered.position) {
            return Err(Breach::StartsDiffer.into());
        }
        let decided = start.configuration;
        decided.terms.reduces(&self.offered.configuration.terms)?;
        Ok(decided)
    }

    fn confirm(
        self,
        configuration: Configuration,
        client: &OwnKeys,
        server: &Keys,
        out: &mut Vec<Reply>,
    ) -> Result<Joining, Error> {
        let Start { position, sid, .. } = self.offered;
        let transcript = &server.transcript;
        check_legs(transcript, position, &self.legs)?;
        check_grants(&configuration.terms, position, &server.granted)?;
        let th = th(&configuration, &sid, transcript);
        let sides = Both {
            client: &client.granted[..],
            server: &server.granted[..],
        };
        let secrets = secrets(&configuration, position, &th, transcript, &sides)?;
        for to in [Endpoint::Client, Endpoint::Server] {
            let proof = self.legs.of(to).confirm(to, position, &secrets, &th);
            out.push(Reply {
                to,
                message: Message::Confirm(proof),
            });
        }
        Ok(Joining::Confirmed(Box::new(Confirmed {
            configuration,
            position,
            th,
            legs: self.legs,
            secrets,
        })))
    }
}

/// Exactly the shares for a middlebox's rights, in their order.
fn check_grants(terms: &Terms, position: Position, granted: &[Granted]) -> Result<(), Error> {
    let due = terms.contexts().iter().flat_map(|context| {
        let purposes: &[Purpose] = match context.right(position) {
            Right::None => &[],
            Right::Read => &[Purpose::Read],
            Right::Write => &Purpose::BOTH,
        };
        purposes.iter().map(|purpose| (context.id, *purpose))
    });
    let found = granted.iter();
    match due.eq(found.map(|granted| (granted.context, granted.purpose))) {
        true => Ok(()),
        false => Err(Breach::Grant.into()),
    }
}

/// Both endpoints know this middlebox's legs as it does.
fn check_legs(
    transcript: &Transcript,
    position: Position,
    legs: &Both<LegKey>,
) -> Result<(), Error> {
    let digests = transcript.legs.get(position.index());
    let digests = digests.ok_or(Breach::Start)?;
    let right = same(&digests.client, &legs.client.digest())
        && same(&digests.server, &legs.server.digest());
    if right {
        Ok(())
    } else {
        Err(Check::LegBinding(position).into())
    }
}

/// An endpoint's share for this context and purpose, which has to have the digest that the
/// transcript says.
fn share<'a>(
    granted: &'a [Granted],
    context: ContextId,
    purpose: Purpose,
    digests: &[Digest; 2],
) -> Result<&'a Secret, Error> {
    let mut granted = granted.iter();
    let found = granted.find(|one| one.context == context && one.purpose == purpose);
    let share = &found.ok_or(Breach::Grant)?.share;
    match same(&digests[purpose.index()], &hash(&[share.bytes()])) {
        true => Ok(share),
        false => Err(Check::ShareDigest.into()),
    }
}

/// The keys of this middlebox's rights, out of the shares for them. Where the server grants less
/// than the client offers, the client's other shares are of no use.
fn secrets(
    configuration: &Configuration,
    position: Position,
    th: &Digest,
    transcript: &Transcript,
    sides: &Both<&[Granted]>,
) -> Result<Vec<(ContextId, ContextSecrets)>, Error> {
    let mut secrets = Vec::new();
    let contexts = configuration.terms.contexts().iter();
    for (context, digests) in contexts.zip(&transcript.shares) {
        let key = |purpose| -> Result<Secret, Error> {
            let client = share(sides.client, context.id, purpose, &digests.client)?;
            let server = share(sides.server, context.id, purpose, &digests.server)?;
            Ok(context_key(th, client, server))
        };
        let granted = match context.right(position) {
            Right::None => continue,
            Right::Read => ContextSecrets {
                read: key(Purpose::Read)?,
                write: None,
            },
            Right::Write => ContextSecrets {
                read: key(Purpose::Read)?,
                write: Some(key(Purpose::Write)?),
            },
        };
        secrets.push((context.id, granted));
    }
    Ok(secrets)
}

/// A middlebox that has proved its keys and awaits the client, who has heard the server.
#[derive(Debug)]
pub struct Confirmed {
    configuration: Configuration,
    position: Position,
    th: Digest,
    legs: Both<LegKey>,
    secrets: Vec<(ContextId, ContextSecrets)>,
}

impl Confirmed {
    /// What both endpoints have agreed on.
    #[must_use]
    pub const fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// This middlebox's place.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.position
    }

    fn handle(self: Box<Self>, from: Endpoint, message: Message) -> Result<Joining, Error> {
        match (from, message) {
            (Endpoint::Client, Message::LegReady(th)) if same(&th, &self.th) => {}
            (Endpoint::Client, Message::LegReady(_)) => return Err(Check::Transcript.into()),
            (_, other) => return Err(other.unexpected()),
        }
        let relay = |direction: Direction| {
            let keys = DirectionKeys::new(
                &self.configuration,
                direction,
                self.th,
                &self.secrets,
                Holder::Middlebox,
            );
            let author = self
                .legs
                .of(direction.receiver())
                .author(direction, &self.th);
            Relay::new(
                self.position,
                self.configuration.terms.clone(),
                keys,
                author,
            )
        };
        Ok(Joining::Joined(Box::new(Joined {
            to_server: relay(Direction::ToServer),
            to_client: relay(Direction::ToClient),
            position: self.position,
            configuration: self.configuration,
        })))
    }
}

/// A middlebox in an established session.
#[derive(Debug)]
pub struct Joined {
    /// What was agreed on.
    pub configuration: Configuration,
    /// This middlebox's place.
    pub position: Position,
    /// Records from the client.
    pub to_server: Relay,
    /// Records from the server.
    pub to_client: Relay,
}
