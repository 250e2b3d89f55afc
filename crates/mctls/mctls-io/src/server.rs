//! A server: takes a connection, decides about its middleboxes, and answers.
//!
//! Is not: the protocol's decisions ([`mctls::endpoint`]); what may be granted is the caller's.

use std::sync::Arc;

use mctls::config::Terms;
use mctls::endpoint::{Deciding, Handshake, Server as Core};
use mctls::frame::Frame;
use mctls::party::{Endpoint, Position};
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::client::{Fallback, ground, next_message};
use crate::error::Error;
use crate::hop::{Hop, Outcome, Timeouts};
use crate::plain::Plain;
use crate::session::{Connected, Session};
use crate::tickets::LegServer;
use crate::tls::{self, Identity, Tls};
use crate::verify::is_for;

/// What a server makes of an offer: terms that reduce it, or `None` to refuse it.
pub type Policy = Arc<dyn Fn(&Terms) -> Option<Terms> + Send + Sync>;

/// What a server needs.
pub struct ServerSettings {
    /// Its certificate and key.
    pub identity: Identity,
    /// Authorities of middleboxes.
    pub middlebox_roots: Arc<RootCertStore>,
    /// Which rights it grants.
    pub policy: Policy,
    /// What to do where the client speaks plain TLS alone.
    pub fallback: Fallback,
    /// What is spoken over plain TLS, for ALPN.
    pub plain_protocols: Vec<Vec<u8>>,
    /// How long to wait.
    pub timeouts: Timeouts,
}

/// A server.
#[derive(Clone)]
pub struct Server {
    session: Arc<ServerConfig>,
    leg: LegServer,
    certificate: [u8; 32],
    policy: Policy,
    fallback: Fallback,
    timeouts: Timeouts,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("fallback", &self.fallback)
            .field("timeouts", &self.timeouts)
            .finish_non_exhaustive()
    }
}

/// How far a handshake is.
#[expect(clippy::large_enum_variant, reason = "there is one of it, on its way")]
enum State {
    Connecting(Core),
    Deciding(Deciding),
    Running(Handshake),
}

impl Server {
    /// A server with these settings.
    ///
    /// # Errors
    /// [`Error::Configuration`]: TLS cannot be set up with them.
    pub fn new(settings: &ServerSettings) -> Result<Self, Error> {
        let roots = Arc::clone(&settings.middlebox_roots);
        Ok(Self {
            session: Arc::new(tls::server(&settings.identity, &settings.plain_protocols)?),
            leg: LegServer::new(tls::server_leg(&settings.identity, roots)?),
            certificate: settings.identity.digest(),
            policy: Arc::clone(&settings.policy),
            fallback: settings.fallback,
            timeouts: settings.timeouts,
        })
    }

    /// Makes a session out of a connection that was accepted.
    ///
    /// # Errors
    /// Any [`Error`]; [`Error::TimedOut`] names who has not answered.
    pub async fn accept(&self, stream: TcpStream) -> Result<Connected, Error> {
        let tls = Tls::server(&self.session, crate::Part::EndToEnd)?;
        let mut hop = Hop::new(Endpoint::Server, stream, tls)?;
        let patience = self.timeouts.handshake;
        let result = timeout(patience, self.handshake(&mut hop)).await;
        let boxes = hop.legs.len();
        let result =
            result.unwrap_or_else(|_| Err(Error::TimedOut(hop.waits_for(boxes), patience)));
        match result {
            Ok(Outcome::Session(established)) => {
                let session = Session::new(hop, *established, self.timeouts);
                Ok(Connected::Session(Box::new(session)))
            }
            Ok(Outcome::Plain) => Ok(Connected::Plain(Box::new(Plain::new(hop, self.timeouts)))),
            Err(error) => {
                hop.give_up(error.alert()).await;
                Err(error)
            }
        }
    }

    async fn handshake(&self, hop: &mut Hop) -> Result<Outcome, Error> {
        let mut state = State::Connecting(Core::new(self.certificate));
        let mut announce = Some(Frame::Announce);
        loop {
            let none = hop.take_frame()?.is_none();
            match hop.session.tls.is_mc13() {
                // Behind the first flight, so that a middlebox knows before the client does.
                Some(true) if announce.is_some() => {
                    let out = &mut hop.out.waiting;
                    hop.session.tls.take(out)?;
                    announce.take().iter().for_each(|frame| frame.write(out));
                    hop.open_legs(self.leg.clone());
                }
                Some(false) if hop.session.tls.is_ready() => {
                    hop.flush().await?;
                    return match self.fallback {
                        Fallback::Refuse => Err(Error::PlainTls),
                        Fallback::PlainTls => Ok(Outcome::Plain),
                    };
                }
                Some(true | false) | None => {}
            }
            state = match self.advance(hop, state)? {
                State::Running(Handshake::Established(established)) => {
                    hop.flush().await?;
                    return Ok(Outcome::Session(Box::new(established)));
                }
                other => other,
            };
            if none {
                hop.flush().await?;
                hop.read().await?;
            }
        }
    }

    fn advance(&self, hop: &mut Hop, mut state: State) -> Result<State, Error> {
        let mut out = Vec::new();
        loop {
            state = match state {
                State::Deciding(deciding) if hop.legs.iter().all(|leg| leg.tls.is_ready()) => {
                    let decided = self.decide(hop, deciding, &mut out);
                    hop.send(std::mem::take(&mut out))?;
                    State::Running(decided?)
                }
                other => other,
            };
            let Some((from, message)) = next_message(hop)? else {
                break;
            };
            state = match state {
                State::Connecting(core) => {
                    let deciding = core.handle(from, message)?;
                    hop.fix_legs(deciding.terms().middleboxes().len())?;
                    State::Deciding(deciding)
                }
                State::Deciding(mut deciding) => {
                    deciding.handle(from, message)?;
                    State::Deciding(deciding)
                }
                State::Running(handshake) => {
                    State::Running(handshake.handle(from, message, &mut out)?)
                }
            };
        }
        hop.send(out)?;
        Ok(state)
    }

    fn decide(
        &self,
        hop: &Hop,
        deciding: Deciding,
        out: &mut Vec<mctls::endpoint::Output>,
    ) -> Result<Handshake, Error> {
        for (position, entry) in Position::all(hop.legs.len()).zip(deciding.terms().middleboxes()) {
            let leg = hop.index(position).and_then(|index| hop.legs.get(index));
            let leaf = leg.and_then(|leg| leg.tls.leaf());
            if !leaf.is_some_and(|leaf| is_for(leaf, &entry.name)) {
                return Err(Error::Name(position, entry.name.clone()));
            }
        }
        let Some(terms) = (self.policy)(deciding.terms()) else {
            return Err(deciding.refuse(out).into());
        };
        let ground = ground(hop, terms.contexts().len(), [0; 32])?;
        let suite = deciding.suites().first().copied();
        let suite = suite.unwrap_or(mctls::suite::Suite::Aes128Gcm);
        Ok(deciding.accept(suite, terms, ground, out)?)
    }
}

#[cfg(test)]
impl Server {
    /// The same, for clients of plain TLS alone.
    pub(crate) fn without_mc13(mut self) -> Self {
        let mut session = (*self.session).clone();
        session.alpn_protocols.remove(0);
        self.session = Arc::new(session);
        self
    }
}
