//! A middlebox's two legs, and its part in the handshake that runs over them.

use std::collections::VecDeque;

use mctls::error::{Alert, Policy};
use mctls::frame::{Frame, LegFrame};
use mctls::message::Message;
use mctls::middlebox::{Joined, Joining, Middlebox as Core};
use mctls::party::{Endpoint, Position};
use rustls::pki_types::ServerName;

use crate::error::{Error, Part};
use crate::hop::{LEG, Talk, take_leg, unexpected};
use crate::middlebox::{Consent, Service};
use crate::tickets::{LegClient, LegServer};
use crate::tls::{self, Identity, KeyExchange, sha256};

/// Most messages of the client that wait for the server's leg: its start and its keys.
const MAX_EARLY: usize = 2;

/// How far the handshake is.
enum State {
    /// The server has not announced the protocol: it may be a plain one.
    Forwarding,
    /// Legs are being set up.
    Announced,
    /// The core is at work.
    Running(Joining),
}

/// Who is behind this middlebox, as seen from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A further middlebox.
    Middlebox,
    /// The server, which may be a plain one.
    Server,
}

/// How a middlebox begins its leg to a server. The client chooses how keys are agreed on: that is
/// what a record of the session is worth to a quantum computer, which has to open the end-to-end
/// session, or both legs of one middlebox.
#[derive(Clone)]
pub(super) struct ServerLeg {
    hybrid: LegClient,
    classical: LegClient,
}

impl ServerLeg {
    pub(super) fn new(identity: &Identity) -> Result<Self, Error> {
        let leg = |key_exchange| tls::middlebox_leg(identity, key_exchange).map(LegClient::new);
        Ok(Self {
            hybrid: leg(KeyExchange::Hybrid)?,
            classical: leg(KeyExchange::Classical)?,
        })
    }
}

/// What stands for a server at this address in what is kept of it. It is never sent, and proves
/// nothing: who the server is, its certificate and the configuration say.
pub(super) fn name_of(address: &str) -> Result<ServerName<'static>, Error> {
    let digest = sha256(address.as_bytes());
    let half = digest.iter().take(16);
    let label: String = half.map(|byte| format!("{byte:02x}")).collect();
    let name = ServerName::try_from(format!("{label}.invalid"));
    name.map_err(|_| Error::Address(address.to_owned()))
}

/// Both legs of one session.
pub(super) struct Legs {
    client: Talk,
    server: Option<Talk>,
    server_leg: ServerLeg,
    server_name: ServerName<'static>,
    certificate: [u8; 32],
    next: Next,
    state: Option<State>,
    /// What the client has said before the server's leg was there.
    early: VecDeque<(Endpoint, Message)>,
}

impl Legs {
    pub(super) fn new(
        client: &LegServer,
        server_leg: ServerLeg,
        certificate: [u8; 32],
        next: Next,
        server_name: ServerName<'static>,
    ) -> Result<Self, Error> {
        Ok(Self {
            client: Talk::new(client.accept(Part::EndToEnd)?),
            server: None,
            server_leg,
            server_name,
            certificate,
            next,
            state: Some(State::Forwarding),
            early: VecDeque::new(),
        })
    }

    /// The server speaks the protocol: its leg begins.
    pub(super) fn announced(&mut self, to_server: &mut Vec<u8>) -> Result<(), Error> {
        let Some(State::Forwarding) = self.state else {
            return Err(unexpected(crate::hop::ANNOUNCE));
        };
        self.state = Some(State::Announced);
        let leg = match self.client.tls.key_exchange() {
            Some(KeyExchange::Classical) => &self.server_leg.classical,
            Some(KeyExchange::Hybrid) | None => &self.server_leg.hybrid,
        };
        let tls = leg.connect(self.server_name.clone(), Part::NextHop)?;
        self.server = Some(Talk::new(tls));
        self.take(Endpoint::Server, to_server)
    }

    /// A leg frame from the client's side. A server that has announced nothing is sent none
    /// (specification, section 3).
    pub(super) fn hear_client_side(
        &mut self,
        leg: LegFrame<'_>,
        service: &mut dyn Service,
        to_client: &mut Vec<u8>,
        to_server: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let on = match leg.endpoint {
            Endpoint::Client => leg.passed_on(),
            Endpoint::Server => Some(leg.brought_back().ok_or_else(|| unexpected(LEG))?),
        };
        let welcome = match leg.endpoint {
            Endpoint::Client => self.next == Next::Middlebox,
            Endpoint::Server => !matches!(self.state, Some(State::Forwarding)),
        };
        match on {
            Some(_) if !welcome => Err(unexpected(LEG)),
            Some(leg) => {
                Frame::Leg(leg).write(to_server);
                Ok(())
            }
            None => self.hear(leg, service, to_client, to_server),
        }
    }

    /// A leg frame from the server's side.
    pub(super) fn hear_server_side(
        &mut self,
        leg: LegFrame<'_>,
        service: &mut dyn Service,
        to_client: &mut Vec<u8>,
        to_server: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let on = match leg.endpoint {
            Endpoint::Server => leg.passed_on(),
            Endpoint::Client => Some(leg.brought_back().ok_or_else(|| unexpected(LEG))?),
        };
        match on {
            Some(leg) => {
                Frame::Leg(leg).write(to_client);
                Ok(())
            }
            None => self.hear(leg, service, to_client, to_server),
        }
    }

    /// Takes a piece of one of this middlebox's own legs.
    fn hear(
        &mut self,
        leg: LegFrame<'_>,
        service: &mut dyn Service,
        to_client: &mut Vec<u8>,
        to_server: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let from = leg.endpoint;
        self.talk(from)?.feed(leg.bytes)?;
        let mut replies = Vec::new();
        while let Some((from, message)) = self.next(from)? {
            if let Message::Alert(alert) = message {
                // In any state, also before there is a core to take it.
                return Err(mctls::Error::from(Policy::PeerAlert(alert)).into());
            }
            let begun = !matches!(self.state, Some(State::Running(_)));
            if from == Endpoint::Client && begun && !self.is_server_ready() {
                // The client may be faster than this middlebox with the server.
                self.early.push_back((from, message));
                continue;
            }
            let before = self.is_confirmed();
            let joining = match self.state.take() {
                Some(State::Announced) => self.core()?.handle(from, message)?,
                Some(State::Running(state)) => state.handle(from, message, &mut replies)?,
                Some(State::Forwarding) | None => return Err(unexpected(message.kind())),
            };
            // Asked before the proofs go out, so that there is no session without its consent.
            if let (Joining::Confirmed(agreed), false) = (&joining, before)
                && service.joined(agreed.position(), agreed.configuration()) == Consent::Refused
            {
                return Err(Error::Refused);
            }
            self.state = Some(State::Running(joining));
        }
        for reply in replies {
            self.talk(reply.to)?.send(&reply.message)?;
        }
        self.take(Endpoint::Client, to_client)?;
        // The server can do nothing with the proof before the client is ready. It waits for that,
        // and the server is woken up once for both (specification, section 5, *Order*).
        match self.is_confirmed() {
            true => Ok(()),
            false => self.take(Endpoint::Server, to_server),
        }
    }

    /// The next message that is to be taken, of this endpoint or one that had to wait.
    fn next(&mut self, from: Endpoint) -> Result<Option<(Endpoint, Message)>, Error> {
        if self.is_server_ready()
            && let Some(early) = self.early.pop_front()
        {
            return Ok(Some(early));
        }
        if self.early.len() > MAX_EARLY {
            return Err(unexpected(LEG));
        }
        let message = self.talk(from)?.next()?;
        Ok(message.map(|message| (from, message)))
    }

    fn is_server_ready(&self) -> bool {
        self.server.as_ref().is_some_and(|leg| leg.tls.is_ready())
    }

    /// The core, once both legs are there.
    fn core(&mut self) -> Result<Core, Error> {
        let server = self.server.as_ref().filter(|leg| leg.tls.is_ready());
        let server = server.ok_or_else(|| unexpected(LEG))?;
        Ok(Core {
            client: self.client.tls.leg_secret()?,
            server: server.tls.leg_secret()?,
            certificate: self.certificate,
            server_certificate: server.tls.peer_digest(),
        })
    }

    fn talk(&mut self, endpoint: Endpoint) -> Result<&mut Talk, Error> {
        match endpoint {
            Endpoint::Client => Ok(&mut self.client),
            Endpoint::Server => self.server.as_mut().ok_or_else(|| unexpected(LEG)),
        }
    }

    fn take(&mut self, endpoint: Endpoint, out: &mut Vec<u8>) -> Result<(), Error> {
        const NEAREST: Position = match Position::new(1) {
            Some(position) => position,
            None => unreachable!(),
        };
        match endpoint {
            Endpoint::Client => take_leg(&mut self.client.tls, endpoint, NEAREST, out),
            Endpoint::Server => match &mut self.server {
                Some(talk) => take_leg(&mut talk.tls, endpoint, NEAREST, out),
                None => Ok(()),
            },
        }
    }

    /// Whether the handshake has begun and is not over.
    pub(super) const fn is_joining(&self) -> bool {
        match &self.state {
            Some(State::Announced) => true,
            Some(State::Running(joining)) => !matches!(joining, Joining::Joined(_)),
            Some(State::Forwarding) | None => false,
        }
    }

    /// Whether the server has not announced the protocol.
    pub(super) const fn is_plain(&self) -> bool {
        matches!(&self.state, Some(State::Forwarding))
    }

    const fn is_confirmed(&self) -> bool {
        matches!(&self.state, Some(State::Running(Joining::Confirmed(_))))
    }

    /// Who keeps the handshake waiting.
    pub(super) fn waits_for(&self) -> Part {
        if self.is_server_ready() {
            Part::EndToEnd
        } else {
            Part::NextHop
        }
    }

    /// The session, once records may pass; a frame of `kind` has come.
    pub(super) fn joined(&mut self, kind: u8) -> Result<&mut Joined, Error> {
        match &mut self.state {
            Some(State::Running(Joining::Joined(joined))) => Ok(joined),
            Some(_) | None => Err(unexpected(kind)),
        }
    }

    /// Tells both endpoints, as far as their legs are up.
    pub(super) fn alert(&mut self, alert: Alert, to_client: &mut Vec<u8>, to_server: &mut Vec<u8>) {
        let message = Message::Alert(alert);
        for endpoint in [Endpoint::Client, Endpoint::Server] {
            let out = match endpoint {
                Endpoint::Client => &mut *to_client,
                Endpoint::Server => &mut *to_server,
            };
            let ready = self
                .talk(endpoint)
                .is_ok_and(|talk| talk.tls.is_ready() && talk.send(&message).is_ok());
            if ready {
                // A leg that fails cannot be told anything.
                let _ = self.take(endpoint, out);
            }
        }
    }
}
