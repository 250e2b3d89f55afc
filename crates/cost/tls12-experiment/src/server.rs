//! The server's states.
//!
//! ```text
//!  Hello -> Key -> Change -> Finished -> Open                full, with or without RFC 7924
//!  Hello -> EarlyKey -> EarlyChange -> EarlyFinished -> Open three-way
//!                                           `-> Key          a first flight that was seen before
//! ```
//!
//! Is not: a choice of certificates by name; client certificates; sessions.
//!
//! Invariants: a first flight is answered only if it proves that its sender made its key (its
//! Finished), and only then asked about; one that is not accepted leaves no trace in the handshake
//! that follows.

use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use tandem_wire::tls::HandshakeType;

use crate::auth::Identity;
use crate::error::{Breach, Check, Error, Misuse, Policy};
use crate::exchange::{Entropy, KeyPair};
use crate::line::Line;
use crate::message::{
    Offer, Selected, cached_certificate, certificates, client_key, fingerprint, key_params,
    server_hello, server_key_exchange, signed_params,
};
use crate::protect::{Keys, Opener};
use crate::record::{Input, Received, message};
use crate::schedule::{End, Master, Randoms};
use crate::secret::{Secret, Transcript};
use crate::three_way::{Answer, Asked, Secrecy, ThreeWay};

/// Whether a server leaves out certificates that the client has (RFC 7924).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachedInfo {
    /// It does where the client says so.
    Used,
    /// It does not know the extension.
    Ignored,
}

/// What a server is.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Its certificates and key.
    pub identity: Identity,
    /// Whether it leaves out certificates.
    pub cached_info: CachedInfo,
    /// Whether it takes first flights.
    pub three_way: Option<ThreeWay>,
}

/// How a handshake went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// In full.
    Full,
    /// In full, with a hash in place of the certificates.
    Cached,
    /// In one round trip.
    ThreeWay,
}

/// One connection at the server.
#[derive(Debug)]
pub struct Server {
    config: Arc<ServerConfig>,
    line: Line,
    state: State,
}

#[derive(Debug)]
enum State {
    Hello(Entropy),
    EarlyKey(Begun),
    EarlyChange(EarlyKeyed),
    EarlyFinished(EarlyKeyed),
    Key(Box<AwaitKey>),
    Change(Box<AwaitFinished>),
    Finished(Box<AwaitFinished>),
    Open(Kind),
    Failed,
}

/// The client has said hello.
#[derive(Debug)]
struct Begun {
    offer: Offer,
    entropy: Entropy,
    transcript: Transcript,
}

/// The client's first flight has a key.
#[derive(Debug)]
struct EarlyKeyed {
    begun: Begun,
    /// With the key exchange.
    transcript: Transcript,
    three_way: ThreeWay,
    key: Vec<u8>,
    shared: Secret,
    early: Master,
}

#[derive(Debug)]
struct AwaitKey {
    kind: Kind,
    pair: KeyPair,
    randoms: Randoms,
    transcript: Transcript,
}

#[derive(Debug)]
struct AwaitFinished {
    kind: Kind,
    master: Master,
    client: Keys,
    server: Keys,
    transcript: Transcript,
}

impl Server {
    /// A connection that has just come.
    #[must_use]
    pub const fn new(config: Arc<ServerConfig>, entropy: Entropy) -> Self {
        Self {
            config,
            line: Line::new(),
            state: State::Hello(entropy),
        }
    }

    /// Takes bytes of the client. Afterwards [`Self::take_output`] and [`Self::take_received`] are
    /// to be called.
    ///
    /// # Errors
    /// Any [`Error`]: the connection is over once the output is sent.
    pub fn handle_input(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.line.incoming.push(bytes);
        let handled = self.drain();
        if let Err(error) = &handled {
            self.state = State::Failed;
            self.line.fail(error);
        }
        handled
    }

    fn drain(&mut self) -> Result<(), Error> {
        while let Some(input) = self.line.incoming.next()? {
            let state = std::mem::replace(&mut self.state, State::Failed);
            self.state = state.on(input, &self.config, &mut self.line)?;
        }
        Ok(())
    }

    /// What is to be sent to the client.
    pub fn take_output(&mut self) -> Vec<u8> {
        self.line.take_output()
    }

    /// What the client has sent, piece by piece.
    pub fn take_received(&mut self) -> Option<Received> {
        self.line.take_received()
    }

    /// How the handshake went, once it is over.
    #[must_use]
    pub const fn kind(&self) -> Option<Kind> {
        match &self.state {
            State::Open(kind) => Some(*kind),
            State::Hello(_)
            | State::EarlyKey(_)
            | State::EarlyChange(_)
            | State::EarlyFinished(_)
            | State::Key(_)
            | State::Change(_)
            | State::Finished(_)
            | State::Failed => None,
        }
    }

    /// Sends data.
    ///
    /// # Errors
    /// [`Misuse::NotOpen`] before the handshake is over.
    pub fn send(&mut self, data: &[u8]) -> Result<(), Error> {
        self.kind().ok_or(Misuse::NotOpen)?;
        Ok(self.line.data(data)?)
    }

    /// Says that nothing more follows.
    pub fn close(&mut self) {
        self.line.close();
    }
}

impl State {
    fn on(self, input: Input, config: &ServerConfig, line: &mut Line) -> Result<Self, Error> {
        match self {
            Self::Hello(entropy) => hello(&input, entropy, config, line),
            Self::EarlyKey(begun) => early_key(&input, begun, config),
            Self::EarlyChange(keyed) => match input {
                Input::ChangeCipherSpec => {
                    line.incoming
                        .protect(Opener::new(&keyed.early.early_keys()));
                    Ok(Self::EarlyFinished(keyed))
                }
                other => Err(other.unexpected().into()),
            },
            Self::EarlyFinished(keyed) => early_finished(&input, keyed, config, line),
            Self::Key(state) => key(&input, *state),
            Self::Change(state) => match input {
                Input::ChangeCipherSpec => {
                    line.incoming.protect(Opener::new(&state.client));
                    Ok(Self::Finished(state))
                }
                other => Err(other.unexpected().into()),
            },
            Self::Finished(state) => finished(&input, *state, line),
            Self::Open(kind) => {
                let is_early = line.incoming.is_in_first_flight();
                line.hand_out(match input {
                    Input::Data(data) if is_early => Received::Early(data),
                    Input::Data(data) => Received::Data(data),
                    Input::Closed => Received::Closed,
                    Input::Message(_) | Input::ChangeCipherSpec => {
                        return Err(input.unexpected().into());
                    }
                });
                Ok(Self::Open(kind))
            }
            Self::Failed => Err(Misuse::Failed.into()),
        }
    }
}

fn hello(
    input: &Input,
    entropy: Entropy,
    config: &ServerConfig,
    line: &mut Line,
) -> Result<State, Error> {
    let offer = Offer::parse(input.body(HandshakeType::CLIENT_HELLO)?)?;
    let mut transcript = Transcript::new();
    transcript.add(raw(input));
    let asked = offer.three_way.as_deref().map(Asked::parse).transpose()?;
    let begun = Begun {
        offer,
        entropy,
        transcript,
    };
    let Some(Asked::FirstFlight { id, following }) = asked else {
        return full(begun, config, line);
    };
    if !line.incoming.is_at_a_record_s_end() {
        return Err(Breach::FirstFlight.into());
    }
    let shared = config
        .three_way
        .as_ref()
        .map(|three_way| three_way.share.id);
    if shared == Some(id) && begun.offer.takes(config.identity.key.scheme()) {
        line.incoming.begin_first_flight(following.into());
        Ok(State::EarlyKey(begun))
    } else {
        line.incoming.pass_over(following.into());
        full(begun, config, line)
    }
}

/// The server's flight of a full handshake.
fn full(begun: Begun, config: &ServerConfig, line: &mut Line) -> Result<State, Error> {
    let Begun {
        offer,
        entropy,
        mut transcript,
    } = begun;
    let key = &config.identity.key;
    let scheme = key.scheme();
    let group = offer.group().filter(|_| offer.takes(scheme));
    let group = group.ok_or(Policy::NothingInCommon)?;
    let pair = KeyPair::new(group, &entropy.first)?;
    let randoms = Randoms {
        client: offer.random,
        server: entropy.random,
    };
    let certificate = certificates(&config.identity.chain)?;
    let hash = fingerprint(&certificate);
    let uses_cached = match config.cached_info {
        CachedInfo::Used => offer.cached.iter().any(|cached| *cached == hash),
        CachedInfo::Ignored => false,
    };
    let published = match (&config.three_way, &offer.three_way) {
        (Some(three_way), Some(_)) => Some(Answer::publish(&three_way.share).write()?),
        (None, _) | (_, None) => None,
    };
    let params = key_params(group, pair.public())?;
    let signature = key.sign(&signed_params(&randoms, &params))?;
    let selected = Selected {
        uses_cached,
        three_way: published,
    };
    let (certificate, kind) = if uses_cached {
        (cached_certificate(&hash)?, Kind::Cached)
    } else {
        (certificate, Kind::Full)
    };
    let flight = [
        server_hello(&offer, randoms.server, scheme, selected)?,
        certificate,
        server_key_exchange(&params, scheme, &signature)?,
        message(HandshakeType::SERVER_HELLO_DONE, &[])?,
    ]
    .concat();
    // All of it in one go: the hash is over the bytes of all messages.
    transcript.add(&flight);
    line.send(&flight)?;
    Ok(State::Key(Box::new(AwaitKey {
        kind,
        pair,
        randoms,
        transcript,
    })))
}

fn key(input: &Input, state: AwaitKey) -> Result<State, Error> {
    let AwaitKey {
        kind,
        pair,
        randoms,
        mut transcript,
    } = state;
    let shared = pair.agree(client_key(input.body(HandshakeType::CLIENT_KEY_EXCHANGE)?)?)?;
    transcript.add(raw(input));
    let master = Master::new(&shared, &randoms);
    let [client, server] = master.keys(&randoms);
    Ok(State::Change(Box::new(AwaitFinished {
        kind,
        master,
        client,
        server,
        transcript,
    })))
}

fn finished(input: &Input, state: AwaitFinished, line: &mut Line) -> Result<State, Error> {
    let AwaitFinished {
        kind,
        master,
        client: _,
        server,
        mut transcript,
    } = state;
    check_finished(input, &master, End::Client, &transcript)?;
    transcript.add(raw(input));
    line.change(&server);
    let own = master.verify_data(End::Server, &transcript.digest());
    line.send(&message(HandshakeType::FINISHED, &own)?)?;
    Ok(State::Open(kind))
}

fn early_key(input: &Input, begun: Begun, config: &ServerConfig) -> Result<State, Error> {
    let three_way = config.three_way.clone().ok_or(Misuse::Failed)?;
    let key = client_key(input.body(HandshakeType::CLIENT_KEY_EXCHANGE)?)?.to_vec();
    let shared = three_way.share.pair.agree(&key)?;
    let early = Master::early(&shared, &begun.offer.random, &three_way.share.id);
    let mut transcript = begun.transcript.clone();
    transcript.add(raw(input));
    Ok(State::EarlyChange(EarlyKeyed {
        begun,
        transcript,
        three_way,
        key,
        shared,
        early,
    }))
}

fn early_finished(
    input: &Input,
    keyed: EarlyKeyed,
    config: &ServerConfig,
    line: &mut Line,
) -> Result<State, Error> {
    let EarlyKeyed {
        begun,
        mut transcript,
        three_way,
        key,
        shared,
        early,
    } = keyed;
    check_finished(input, &early, End::Client, &transcript)?;
    if !three_way.freshness.is_new(&begun.offer.random) {
        line.incoming.pass_over_the_rest();
        return full(begun, config, line);
    }
    transcript.add(raw(input));
    let (ephemeral, shared) = match three_way.secrecy {
        Secrecy::Static => (Vec::new(), shared),
        Secrecy::Ephemeral => {
            let group = three_way.share.pair.group();
            let pair = KeyPair::new(group, &begun.entropy.first)?;
            let more = pair.agree(&key)?;
            (pair.public().to_vec(), Secret::join(&shared, &more))
        }
    };
    let randoms = Randoms {
        client: begun.offer.random,
        server: begun.entropy.random,
    };
    let selected = Selected {
        uses_cached: false,
        three_way: Some(Answer::Accepted { ephemeral }.write()?),
    };
    let scheme = config.identity.key.scheme();
    let hello = server_hello(&begun.offer, randoms.server, scheme, selected)?;
    transcript.add(&hello);
    line.send(&hello)?;
    let master = Master::new(&shared, &randoms);
    let [client, server] = master.keys(&randoms);
    line.change(&server);
    let own = master.verify_data(End::Server, &transcript.digest());
    line.send(&message(HandshakeType::FINISHED, &own)?)?;
    line.incoming.end_first_flight_with(Opener::new(&client));
    Ok(State::Open(Kind::ThreeWay))
}

/// A message with its header.
pub(crate) fn raw(input: &Input) -> &[u8] {
    match input {
        Input::Message(message) => message,
        Input::ChangeCipherSpec | Input::Data(_) | Input::Closed => &[],
    }
}

/// Whether a Finished message is that of the other end after these messages.
pub(crate) fn check_finished(
    input: &Input,
    master: &Master,
    end: End,
    transcript: &Transcript,
) -> Result<(), Error> {
    let found = input.body(HandshakeType::FINISHED)?;
    let due = master.verify_data(end, &transcript.digest());
    verify_slices_are_equal(found, &due).map_err(|_| Check::Finished.into())
}
