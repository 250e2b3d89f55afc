//! A client: connects, by its middleboxes, to a server.
//!
//! Is not: the protocol's decisions ([`mctls::endpoint`]).

use std::sync::Arc;

use mctls::config::{Context, Middlebox, Right, Terms};
use mctls::endpoint::{Channel, Client as Core, Ground, Handshake, Leg, too_early};
use mctls::frame::{Frame, is_address};
use mctls::message::{Message, Shares};
use mctls::party::{Endpoint, Position};
use mctls::suite::Suite;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::error::{Error, Part};
use crate::hop::{Hop, Outcome, Talk, Timeouts};
use crate::plain::Plain;
use crate::session::{Connected, Session};
use crate::tickets::LegClient;
use crate::tls::{self, KeyExchange, Tls};

/// What to do where the other side speaks plain TLS alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// Give up.
    Refuse,
    /// Go on with plain TLS end to end: middleboxes see nothing.
    PlainTls,
}

/// A middlebox on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Via {
    /// Where it listens, as host and port.
    pub address: String,
    /// The name that its certificate has to have.
    pub name: String,
}

/// What a client needs.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Authorities of servers.
    pub roots: Arc<RootCertStore>,
    /// Authorities of middleboxes.
    pub middlebox_roots: Arc<RootCertStore>,
    /// Middleboxes, the nearest first.
    pub via: Vec<Via>,
    /// Contexts, with a right for each middlebox.
    pub contexts: Vec<Context>,
    /// What it makes do with where the server lowers those rights: for each context, in order, a
    /// right for each middlebox. Empty: with whatever the server leaves. Where a path is required,
    /// a middlebox with a right keeps one in any case.
    pub least: Vec<Vec<Right>>,
    /// Suites for records, the best first.
    pub suites: Vec<Suite>,
    /// How keys of the TLS sessions are agreed on.
    pub key_exchange: KeyExchange,
    /// What to do where the server speaks plain TLS alone.
    pub fallback: Fallback,
    /// What is spoken over plain TLS, for ALPN.
    pub plain_protocols: Vec<Vec<u8>>,
    /// How long to wait.
    pub timeouts: Timeouts,
}

/// A client.
#[derive(Clone, Debug)]
pub struct Client {
    settings: ClientSettings,
    session: Arc<ClientConfig>,
    leg: LegClient,
}

/// How far a handshake is.
#[expect(clippy::large_enum_variant, reason = "there is one of it, on its way")]
enum State {
    Connecting,
    Running(Handshake),
}

impl Client {
    /// A client with these settings.
    ///
    /// # Errors
    /// [`Error::Settings`], [`Error::Address`]: no session could have them.
    /// [`Error::Configuration`]: TLS cannot be set up with them.
    pub fn new(settings: ClientSettings) -> Result<Self, Error> {
        check(&settings)?;
        Ok(Self {
            session: Arc::new(tls::client(
                Arc::clone(&settings.roots),
                &settings.plain_protocols,
                settings.key_exchange,
            )?),
            leg: LegClient::new(tls::client_leg(
                Arc::clone(&settings.middlebox_roots),
                settings.key_exchange,
            )?),
            settings,
        })
    }

    /// Connects to the server with this name at this address (host and port), by the middleboxes.
    ///
    /// # Errors
    /// Any [`Error`]; [`Error::TimedOut`] names who has not answered.
    pub async fn connect(&self, address: &str, name: &str) -> Result<Connected, Error> {
        let deadline = Instant::now() + self.settings.timeouts.handshake;
        // Before anything is connected, as what cannot be is refused at once.
        self.check_route(address)?;
        let stream = timeout_at(deadline, TcpStream::connect(self.first_hop(address))).await;
        let late = Error::TimedOut(Part::NextHop, self.settings.timeouts.handshake);
        self.run(stream.map_err(|_| late)??, address, name, deadline)
            .await
    }

    /// The same over a connection that is there: to [`Self::first_hop`], or to a way to it.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn connect_over(
        &self,
        stream: TcpStream,
        address: &str,
        name: &str,
    ) -> Result<Connected, Error> {
        let deadline = Instant::now() + self.settings.timeouts.handshake;
        self.check_route(address)?;
        self.run(stream, address, name, deadline).await
    }

    /// Where the connection to the server at this address starts: the nearest middlebox, or the
    /// server.
    #[must_use]
    pub fn first_hop<'a>(&'a self, address: &'a str) -> &'a str {
        let first = self.settings.via.first();
        first.map_or(address, |via| via.address.as_str())
    }

    fn check_route(&self, address: &str) -> Result<(), Error> {
        match self.settings.via.is_empty() {
            true => Ok(()),
            false => check_address(address),
        }
    }

    async fn run(
        &self,
        stream: TcpStream,
        address: &str,
        name: &str,
        deadline: Instant,
    ) -> Result<Connected, Error> {
        let patience = self.settings.timeouts.handshake;
        let name = server_name(name)?;
        let tls = Tls::client(&self.session, name, Part::EndToEnd)?;
        let mut hop = Hop::new(Endpoint::Client, stream, tls)?;
        let boxes = self.settings.via.len();
        for (position, via) in Position::all(boxes).zip(&self.settings.via) {
            let name = server_name(&via.name)?;
            let tls = self.leg.connect(name, Part::Leg(position))?;
            hop.legs.push(Talk::new(tls));
        }
        if boxes > 0 {
            let later = self.settings.via.iter().skip(1);
            let later = later.map(|via| via.address.clone());
            Frame::Route(later.chain([address.to_owned()]).collect()).write(&mut hop.out.waiting);
        }
        let result = timeout_at(deadline, self.handshake(&mut hop)).await;
        let result =
            result.unwrap_or_else(|_| Err(Error::TimedOut(hop.waits_for(boxes), patience)));
        match result {
            Ok(Outcome::Session(established)) => {
                let session = Session::new(hop, *established, self.settings.timeouts);
                Ok(Connected::Session(Box::new(session)))
            }
            Ok(Outcome::Plain) => Ok(Connected::Plain(Box::new(Plain::new(
                hop,
                self.settings.timeouts,
            )))),
            Err(error) => {
                hop.give_up(error.alert()).await;
                Err(error)
            }
        }
    }

    async fn handshake(&self, hop: &mut Hop) -> Result<Outcome, Error> {
        let mut state = State::Connecting;
        loop {
            let none = hop.take_frame()?.is_none();
            if hop.session.tls.is_ready() && hop.session.tls.is_mc13() == Some(false) {
                hop.flush().await?;
                return match self.settings.fallback {
                    Fallback::Refuse => Err(Error::PlainTls),
                    Fallback::PlainTls => Ok(Outcome::Plain),
                };
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

    fn advance(&self, hop: &mut Hop, state: State) -> Result<State, Error> {
        let mut out = Vec::new();
        let mut state = match state {
            State::Connecting => {
                let legs = hop.legs.iter().all(|leg| leg.tls.is_ready());
                if !hop.session.tls.is_ready() || !legs {
                    return Ok(State::Connecting);
                }
                let terms = self.terms(hop)?;
                let ground = ground(hop, self.settings.contexts.len(), [0; 32])?;
                let suites = self.settings.suites.clone();
                let least = self.settings.least.clone();
                State::Running(Core::offer(suites, terms, least, ground, &mut out)?)
            }
            State::Running(_) => state,
        };
        while let Some((from, message)) = next_message(hop)? {
            state = State::Running(match state {
                State::Connecting => return Err(too_early(from, &message).into()),
                State::Running(handshake) => handshake.handle(from, message, &mut out)?,
            });
        }
        hop.send(out)?;
        Ok(state)
    }

    fn terms(&self, hop: &Hop) -> Result<Terms, Error> {
        let boxes = self.settings.via.iter().zip(&hop.legs);
        let boxes = boxes.map(|(via, leg)| Middlebox {
            name: via.name.clone(),
            certificate: leg.tls.peer_digest(),
        });
        let contexts = self.settings.contexts.clone();
        let server = hop.session.tls.peer_digest();
        Ok(Terms::new(server, boxes.collect(), contexts).map_err(mctls::Error::from)?)
    }
}

/// Finds what would fail in every session.
fn check(settings: &ClientSettings) -> Result<(), Error> {
    let refused = |why: String| Err(Error::Settings(why));
    let boxes = settings.via.len();
    if settings
        .contexts
        .iter()
        .any(|context| context.rights.len() != boxes)
    {
        return refused("each context needs a right for each middlebox".into());
    }
    let middleboxes = settings.via.iter().map(|via| Middlebox {
        name: via.name.clone(),
        certificate: [0; 32],
    });
    let terms = Terms::new([0; 32], middleboxes.collect(), settings.contexts.clone());
    let terms = match terms {
        Ok(terms) => terms,
        Err(error) => return refused(error.to_string()),
    };
    for via in &settings.via {
        check_address(&via.address)?;
        server_name(&via.name)?;
    }
    let least = &settings.least;
    let shaped =
        least.len() == settings.contexts.len() && least.iter().all(|all| all.len() == boxes);
    if !least.is_empty() && !shaped {
        return refused("`least` needs, for each context, a right for each middlebox".into());
    }
    match terms.leave(least) {
        Ok(()) => Ok(()),
        Err(_) => refused("`least` asks for more than `contexts` offers".into()),
    }
}

fn check_address(address: &str) -> Result<(), Error> {
    match is_address(address) {
        true => Ok(()),
        false => Err(Error::Address(address.to_owned())),
    }
}

fn server_name(name: &str) -> Result<ServerName<'static>, Error> {
    let parsed = ServerName::try_from(name.to_owned());
    parsed.map_err(|_| Error::Settings(format!("{name:?} is no name of a host")))
}

/// What an endpoint brings, legs in the order of the middleboxes.
pub(crate) fn ground(
    hop: &Hop,
    contexts: usize,
    client_certificate: [u8; 32],
) -> Result<Ground, Error> {
    let mut legs = Vec::new();
    for position in Position::all(hop.legs.len()) {
        let leg = hop.index(position).and_then(|index| hop.legs.get(index));
        if let Some(leg) = leg {
            legs.push(Leg {
                secret: leg.tls.leg_secret()?,
                certificate: leg.tls.peer_digest(),
            });
        }
    }
    let mut random = zeroize::Zeroizing::new(vec![0; Shares::random_len(contexts)]);
    aws_lc_rs::rand::fill(&mut random)
        .map_err(|_| Error::Configuration(rustls::Error::FailedToGetRandomBytes))?;
    Ok(Ground {
        secret: hop.session.tls.session_secret()?,
        legs,
        shares: Shares::new(contexts, &random).map_err(mctls::Error::from)?,
        client_certificate,
    })
}

/// The next message of any session on a hop.
pub(crate) fn next_message(hop: &mut Hop) -> Result<Option<(Channel, Message)>, Error> {
    if let Some(message) = hop.session.next()? {
        return Ok(Some((Channel::EndToEnd, message)));
    }
    let count = hop.legs.len();
    for index in 0..count {
        let Some(position) = hop.position(index, count) else {
            continue;
        };
        if let Some(message) = hop.legs[index].next()? {
            return Ok(Some((Channel::Leg(position), message)));
        }
    }
    Ok(None)
}
