//! A middlebox's handshake: two legs in, keys of its rights out.
//!
//! ```text
//!  Middlebox      <-- start, from either endpoint; then --> bind on both legs
//!  Bound          <-- start of the other; keys of both;  then --> confirm on both legs
//!  Confirmed      <-- ready of both
//!  Joined         records pass
//! ```
//!
//! Is not: TLS, sockets, what the middlebox does with what it may read.
//!
//! Invariants: it takes part only if both endpoints name the same session, configuration and
//! transcript, in which its own certificate stands at its place and the server of its leg is the
//! client's server; it takes exactly the shares of its rights.

use crate::config::{Configuration, Right};
use crate::error::{Breach, Check, Error, Policy};
use crate::keys::{DirectionKeys, Holder};
use crate::message::{Granted, Keys, Message, OwnKeys, Purpose, ShareDigests, Start, Transcript};
use crate::party::{ContextId, Direction, Endpoint, Position};
use crate::relay::Relay;
use crate::schedule::{ContextSecrets, LegKey, LegSecret, context_key, th};
use crate::secret::{Digest, Secret, hash, same};

/// A middlebox with two legs that awaits its first start.
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
#[derive(Clone, Debug, Default)]
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

    const fn of_mut(&mut self, endpoint: Endpoint) -> &mut T {
        match endpoint {
            Endpoint::Client => &mut self.client,
            Endpoint::Server => &mut self.server,
        }
    }
}

impl Middlebox {
    /// Takes the first start.
    ///
    /// # Errors
    /// [`Breach::Start`]: it is for another leg or place. [`Breach::MiddleboxCertificate`],
    /// [`Breach::ServerCertificate`]: the configuration names other parties.
    pub fn handle(
        self,
        from: Endpoint,
        message: Message,
        out: &mut Vec<Reply>,
    ) -> Result<Joining, Error> {
        let start = match message {
            Message::Start(start) => start,
            Message::Alert(alert) => return Err(Policy::PeerAlert(alert).into()),
            other => return Err(other.unexpected()),
        };
        let terms = &start.configuration.terms;
        let own = terms.middleboxes().get(start.position.index());
        let own = own.ok_or(Breach::Start)?;
        if start.endpoint != from {
            return Err(Breach::Start.into());
        }
        if own.certificate != self.certificate {
            return Err(Breach::MiddleboxCertificate(start.position).into());
        }
        if *terms.server_certificate() != self.server_certificate {
            return Err(Breach::ServerCertificate.into());
        }
        let bind = |secret: &LegSecret, endpoint| {
            secret.bind(&start.sid, &start.configuration, endpoint, start.position)
        };
        let legs = Both {
            client: bind(&self.client, Endpoint::Client),
            server: bind(&self.server, Endpoint::Server),
        };
        for to in [Endpoint::Client, Endpoint::Server] {
            out.push(Reply {
                to,
                message: Message::Bind(legs.of(to.other()).digest()),
            });
        }
        let mut bound = Bound {
            start,
            legs,
            started: Both::default(),
            client_keys: None,
            server_keys: None,
        };
        *bound.started.of_mut(from) = Seen::Yes;
        Ok(Joining::Bound(Box::new(bound)))
    }
}

/// Whether something has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Seen {
    #[default]
    No,
    Yes,
}

/// A middlebox that has one start at least and awaits the keys.
#[derive(Debug)]
pub struct Bound {
    start: Start,
    legs: Both<LegKey>,
    started: Both<Seen>,
    client_keys: Option<OwnKeys>,
    server_keys: Option<Keys>,
}

impl Bound {
    fn handle(
        mut self: Box<Self>,
        from: Endpoint,
        message: Message,
        out: &mut Vec<Reply>,
    ) -> Result<Joining, Error> {
        match message {
            Message::Start(start) if *self.started.of(from) == Seen::No => {
                if start.endpoint != from {
                    return Err(Breach::Start.into());
                }
                let endpoint = self.start.endpoint;
                if (Start { endpoint, ..start }) != self.start {
                    return Err(Breach::StartsDiffer.into());
                }
                *self.started.of_mut(from) = Seen::Yes;
            }
            Message::OwnKeys(keys)
                if from == Endpoint::Client
                    && self.started.client == Seen::Yes
                    && self.client_keys.is_none() =>
            {
                self.client_keys = Some(keys);
            }
            Message::Keys(keys)
                if from == Endpoint::Server
                    && self.started.server == Seen::Yes
                    && self.server_keys.is_none() =>
            {
                self.server_keys = Some(keys);
            }
            other => return Err(other.unexpected()),
        }
        match (self.client_keys.take(), self.server_keys.take()) {
            (Some(client), Some(server)) => self.confirm(&client, &server, out),
            (client_keys, server_keys) => {
                self.client_keys = client_keys;
                self.server_keys = server_keys;
                Ok(Joining::Bound(self))
            }
        }
    }

    fn confirm(
        self,
        client: &OwnKeys,
        server: &Keys,
        out: &mut Vec<Reply>,
    ) -> Result<Joining, Error> {
        let Start {
            position,
            sid,
            configuration,
            ..
        } = self.start;
        let transcript = &server.transcript;
        check_legs(transcript, position, &self.legs)?;
        let th = th(&configuration, &sid, transcript);
        if !same(&client.th, &th) {
            return Err(Check::Transcript.into());
        }
        let side = |granted, endpoint| Side { granted, endpoint };
        let sides = Both {
            client: side(&client.granted[..], Endpoint::Client),
            server: side(&server.granted[..], Endpoint::Server),
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
            ready: Both::default(),
        })))
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

/// One endpoint's shares, in the order in which they are read.
#[derive(Clone, Copy)]
struct Side<'a> {
    granted: &'a [Granted],
    endpoint: Endpoint,
}

impl<'a> Side<'a> {
    /// The next share, which has to be the one for this context and purpose, and the one whose
    /// digest the transcript has.
    fn share(
        self,
        at: usize,
        context: ContextId,
        purpose: Purpose,
        digests: &ShareDigests,
    ) -> Result<&'a Secret, Error> {
        let granted = self.granted.get(at).ok_or(Breach::Grant)?;
        if granted.context != context || granted.purpose != purpose {
            return Err(Breach::Grant.into());
        }
        let of_endpoint = match self.endpoint {
            Endpoint::Client => &digests.client,
            Endpoint::Server => &digests.server,
        };
        if !same(
            &of_endpoint[purpose.index()],
            &hash(&[granted.share.bytes()]),
        ) {
            return Err(Check::ShareDigest.into());
        }
        Ok(&granted.share)
    }
}

/// The keys of this middlebox's rights, out of exactly the shares for them.
fn secrets(
    configuration: &Configuration,
    position: Position,
    th: &Digest,
    transcript: &Transcript,
    sides: &Both<Side<'_>>,
) -> Result<Vec<(ContextId, ContextSecrets)>, Error> {
    let mut secrets = Vec::new();
    let mut at = 0;
    for (context, digests) in configuration
        .terms
        .contexts()
        .iter()
        .zip(&transcript.shares)
    {
        let mut key = |purpose| -> Result<Secret, Error> {
            let client = sides.client.share(at, context.id, purpose, digests)?;
            let server = sides.server.share(at, context.id, purpose, digests)?;
            at += 1;
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
    if sides.client.granted.len() != at || sides.server.granted.len() != at {
        return Err(Breach::Grant.into());
    }
    Ok(secrets)
}

/// A middlebox that has proved its keys and awaits both endpoints.
#[derive(Debug)]
pub struct Confirmed {
    configuration: Configuration,
    position: Position,
    th: Digest,
    legs: Both<LegKey>,
    secrets: Vec<(ContextId, ContextSecrets)>,
    ready: Both<Seen>,
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

    fn handle(mut self: Box<Self>, from: Endpoint, message: Message) -> Result<Joining, Error> {
        match message {
            Message::LegReady(th) if *self.ready.of(from) == Seen::No => {
                if !same(&th, &self.th) {
                    return Err(Check::Ready.into());
                }
                *self.ready.of_mut(from) = Seen::Yes;
            }
            other => return Err(other.unexpected()),
        }
        if self.ready.client == Seen::No || self.ready.server == Seen::No {
            return Ok(Joining::Confirmed(self));
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
