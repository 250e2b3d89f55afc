//! The client's states.
//!
//! ```text
//!  Hello -> Certificate -> Key -> Done -> Change -> Finished -> Open      full
//!  Hello -> Change -> Finished -> Open                                    three-way
//! ```
//!
//! Is not: sessions, renegotiation, a fall-back to a server that does not know what was offered.
//!
//! Invariants: nothing is kept of a server before its Finished (RFC 7924, section 6); what is kept
//! is used only for a chain that still verifies; data goes out early only if the caller says so.

use std::sync::Arc;

use tandem_wire::UnixTime;
use tandem_wire::tls::record::{HEADER_LEN, MAX_PLAINTEXT_LEN};
use tandem_wire::tls::{ExtensionType, HandshakeType, ProtocolVersion, ServerHello};

use crate::auth::{Identity, Scheme, Verify};
use crate::error::{Breach, Check, Error, Misuse, Policy};
use crate::exchange::{Entropy, KeyPair};
use crate::line::Line;
use crate::message::{
    CACHED_CERT_USED, POINT_FORMATS, RENEGOTIATION_INFO, ServerKey, cached_certificate_hash,
    cached_info, certificates, chain, check_answers, client_hello, client_key_exchange,
    fingerprint, signed_params,
};
use crate::protect::{Keys, Opener, sealed_len};
use crate::record::{Input, Received, message};
use crate::schedule::{End, Master, Randoms, VERIFY_LEN};
use crate::secret::{Secret, Transcript};
use crate::server::{Kind, check_finished, raw};
use crate::three_way::{Answer, Asked, EXTENSION, KnownShare, MAX_LIFETIME};

/// What a client tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing: TLS 1.2.
    Plain,
    /// To have certificates left out that it has (RFC 7924).
    CachedInfo,
    /// To send its key exchange in the first flight.
    ThreeWay,
}

/// When a client sends data in a full handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// After the server's Finished.
    AfterFinished,
    /// After its own (RFC 7918, False Start).
    False,
}

/// When a client sends its certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateOrder {
    /// When the server asks (RFC 5246, section 7.4.6).
    WhenAsked,
    /// Behind the hello, for a proxy that holds it until the server asks ([`crate::holder`]).
    Ahead,
}

/// What a client is.
#[derive(Clone)]
pub struct ClientConfig {
    /// The server's name.
    pub name: String,
    /// Who checks the server.
    pub verify: Arc<dyn Verify>,
    /// What it tries.
    pub remedy: Remedy,
    /// When it sends data.
    pub start: Start,
    /// Its own certificates.
    pub identity: Option<Identity>,
    /// When it sends them.
    pub order: CertificateOrder,
}

impl std::fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientConfig")
            .field("remedy", &self.remedy)
            .finish_non_exhaustive()
    }
}

/// What a client keeps of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The Certificate message.
    certificate: Vec<u8>,
    share: Option<KnownShare>,
}

/// One connection at the client.
#[derive(Debug)]
pub struct Client {
    config: Arc<ClientConfig>,
    line: Line,
    state: State,
    /// Data that was sent in the first flight, until it is certain that it was taken.
    early: Vec<u8>,
    learned: Option<Known>,
}

#[derive(Debug)]
enum State {
    Hello(Box<AwaitHello>),
    Certificate(Box<Greeted>),
    Key(Box<Authenticated>),
    Done(Box<Keyed>),
    Change(Box<AwaitFinished>),
    Finished(Box<AwaitFinished>),
    Open(Kind),
    Failed,
}

#[derive(Debug)]
struct AwaitHello {
    now: UnixTime,
    random: [u8; 32],
    second: zeroize::Zeroizing<[u8; 32]>,
    messages: Messages,
    offered: Vec<ExtensionType>,
    known: Option<Known>,
    flight: Option<FirstFlight>,
}

/// All handshake messages so far: their hash, and their bytes where the client may have to sign
/// them.
#[derive(Debug)]
struct Messages {
    hash: Transcript,
    bytes: Option<Vec<u8>>,
}

impl Messages {
    fn add(&mut self, message: &[u8]) {
        self.hash.add(message);
        if let Some(bytes) = &mut self.bytes {
            bytes.extend_from_slice(message);
        }
    }
}

/// A first flight that was sent.
#[derive(Debug)]
struct FirstFlight {
    pair: KeyPair,
    shared: Secret,
    transcript: Transcript,
}

/// The server has said hello.
#[derive(Debug)]
struct Greeted {
    second: zeroize::Zeroizing<[u8; 32]>,
    randoms: Randoms,
    messages: Messages,
    scheme: Scheme,
    /// The Certificate message that the server's stands for.
    cached: Option<Vec<u8>>,
    share: Option<KnownShare>,
}

/// The server's certificate is good.
#[derive(Debug)]
struct Authenticated {
    greeted: Greeted,
    certificate: Vec<u8>,
    kind: Kind,
}

/// The server has proved it.
#[derive(Debug)]
struct Keyed {
    authenticated: Authenticated,
    pair: KeyPair,
    shared: Secret,
    is_asked: bool,
}

#[derive(Debug)]
struct AwaitFinished {
    kind: Kind,
    master: Master,
    server: Keys,
    transcript: Transcript,
    learned: Option<Known>,
}

impl Client {
    /// Begins a connection. `early` goes into the first flight if there is one, and is sent again
    /// if the server does not take it; empty: nothing is sent before the caller says so.
    ///
    /// # Errors
    /// [`Misuse`].
    pub fn start(
        config: Arc<ClientConfig>,
        known: Option<&Known>,
        now: UnixTime,
        entropy: Entropy,
        early: &[u8],
    ) -> Result<Self, Error> {
        let mut line = Line::new();
        let is_good = |known: &&Known| is_still_good(known, &config);
        let known = known.filter(is_good);
        let usable = known.and_then(|known| known.share.as_ref());
        let usable = usable.filter(|share| now < share.expires);
        let mut more = Vec::new();
        let mut flight = None;
        match (config.remedy, known) {
            (Remedy::CachedInfo, Some(known)) => {
                let hash = fingerprint(&known.certificate);
                more.push((ExtensionType::CACHED_INFO, cached_info(&hash)?));
            }
            (Remedy::ThreeWay, _) => {
                let pair = usable.map(|share| KeyPair::new(share.group, &entropy.first));
                let pair = pair.transpose()?;
                let asked = match (usable, &pair) {
                    (Some(share), Some(pair)) => Asked::FirstFlight {
                        id: share.id,
                        following: following(pair, early)?,
                    },
                    (None, _) | (_, None) => Asked::Share,
                };
                more.push((EXTENSION, asked.write()));
                flight = usable.zip(pair);
            }
            (Remedy::Plain, _) | (Remedy::CachedInfo, None) => {}
        }
        let mut offered = vec![
            ExtensionType::SERVER_NAME,
            RENEGOTIATION_INFO,
            POINT_FORMATS,
        ];
        offered.extend(more.iter().map(|(kind, _)| *kind));
        let random = entropy.random;
        let hello = client_hello(&config.name, random, more)?;
        let mut messages = Messages {
            hash: Transcript::new(),
            bytes: config.identity.as_ref().map(|_| Vec::new()),
        };
        messages.add(&hello);
        line.send(&hello)?;
        if let (Some(identity), CertificateOrder::Ahead) = (&config.identity, config.order) {
            line.send(&certificates(&identity.chain)?)?;
        }
        let sends_early = flight.is_some();
        let flight = flight.map(|(share, pair)| {
            first_flight(
                share,
                pair,
                &random,
                messages.hash.clone(),
                early,
                &mut line,
            )
        });
        let state = State::Hello(Box::new(AwaitHello {
            now,
            random,
            second: entropy.second,
            messages,
            offered,
            known: known.cloned(),
            flight: flight.transpose()?,
        }));
        Ok(Self {
            config,
            line,
            state,
            early: if sends_early {
                early.to_vec()
            } else {
                Vec::new()
            },
            learned: None,
        })
    }

    /// Takes bytes of the server. Afterwards [`Self::take_output`] and [`Self::take_received`] are
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
            self.state = match state {
                State::Finished(state) => {
                    let AwaitFinished {
                        kind,
                        master,
                        learned,
                        transcript,
                        ..
                    } = *state;
                    check_finished(&input, &master, End::Server, &transcript)?;
                    self.learned = learned;
                    let early = std::mem::take(&mut self.early);
                    if kind != Kind::ThreeWay && !early.is_empty() {
                        self.line.data(&early)?;
                    }
                    State::Open(kind)
                }
                other => other.on(input, &self.config, &mut self.line)?,
            };
        }
        Ok(())
    }

    /// What is to be sent to the server.
    pub fn take_output(&mut self) -> Vec<u8> {
        self.line.take_output()
    }

    /// What the server has sent, piece by piece.
    pub fn take_received(&mut self) -> Option<Received> {
        self.line.take_received()
    }

    /// How the handshake went, once it is over.
    #[must_use]
    pub const fn kind(&self) -> Option<Kind> {
        match &self.state {
            State::Open(kind) => Some(*kind),
            State::Hello(_)
            | State::Certificate(_)
            | State::Key(_)
            | State::Done(_)
            | State::Change(_)
            | State::Finished(_)
            | State::Failed => None,
        }
    }

    /// Whether data can be sent.
    #[must_use]
    pub fn may_send(&self) -> bool {
        match &self.state {
            State::Open(_) => true,
            // RFC 7918, section 3: the suites are strong, and the server's key is signed.
            State::Change(state) | State::Finished(state) => {
                self.config.start == Start::False && state.kind != Kind::ThreeWay
            }
            State::Hello(_)
            | State::Certificate(_)
            | State::Key(_)
            | State::Done(_)
            | State::Failed => false,
        }
    }

    /// Whether the data given to [`Self::start`] still has to be sent by [`Self::send`].
    #[must_use]
    pub const fn has_sent_early(&self) -> bool {
        !self.early.is_empty()
    }

    /// Sends data.
    ///
    /// # Errors
    /// [`Misuse::NotOpen`] where [`Self::may_send`] says so.
    pub fn send(&mut self, data: &[u8]) -> Result<(), Error> {
        if !self.may_send() {
            return Err(Misuse::NotOpen.into());
        }
        Ok(self.line.data(data)?)
    }

    /// Says that nothing more follows.
    pub fn close(&mut self) {
        self.line.close();
    }

    /// What there is to keep of the server, once the handshake is over.
    #[must_use]
    pub const fn learned(&self) -> Option<&Known> {
        self.learned.as_ref()
    }
}

/// Whether what is kept would still be accepted.
fn is_still_good(known: &Known, config: &ClientConfig) -> bool {
    let body = known.certificate.get(4..).unwrap_or_default();
    chain(body).is_ok_and(|chain| config.verify.certificate(&config.name, &chain).is_ok())
}

/// Length of a first flight behind its hello.
fn following(pair: &KeyPair, early: &[u8]) -> Result<u16, Misuse> {
    let key = HEADER_LEN + client_key_exchange(pair.public())?.len();
    let change = HEADER_LEN + 1;
    let finished = sealed_len(4 + VERIFY_LEN);
    let chunks = early.chunks(MAX_PLAINTEXT_LEN);
    let data: usize = chunks.map(|chunk| sealed_len(chunk.len())).sum();
    u16::try_from(key + change + finished + data).map_err(|_| Misuse::TooLong)
}

fn first_flight(
    share: &KnownShare,
    pair: KeyPair,
    random: &[u8; 32],
    mut transcript: Transcript,
    early: &[u8],
    line: &mut Line,
) -> Result<FirstFlight, Error> {
    let shared = pair.agree(&share.public)?;
    let master = Master::early(&shared, random, &share.id);
    let exchange = client_key_exchange(pair.public())?;
    transcript.add(&exchange);
    line.send(&exchange)?;
    line.change(&master.early_keys());
    let own = master.verify_data(End::Client, &transcript.digest());
    let finished = message(HandshakeType::FINISHED, &own)?;
    transcript.add(&finished);
    line.send(&finished)?;
    line.data(early)?;
    Ok(FirstFlight {
        pair,
        shared,
        transcript,
    })
}

impl State {
    fn on(self, input: Input, config: &ClientConfig, line: &mut Line) -> Result<Self, Error> {
        match self {
            Self::Hello(state) => state.on(&input, line),
            Self::Certificate(state) => state.on(&input, config),
            Self::Key(state) => state.on(&input, config),
            Self::Done(state) => state.on(&input, config, line),
            Self::Change(state) => match input {
                Input::ChangeCipherSpec => {
                    line.incoming.protect(Opener::new(&state.server));
                    Ok(Self::Finished(state))
                }
                other => Err(other.unexpected().into()),
            },
            Self::Open(kind) => {
                line.hand_out(match input {
                    Input::Data(data) => Received::Data(data),
                    Input::Closed => Received::Closed,
                    Input::Message(_) | Input::ChangeCipherSpec => {
                        return Err(input.unexpected().into());
                    }
                });
                Ok(Self::Open(kind))
            }
            Self::Finished(_) | Self::Failed => Err(Misuse::Failed.into()),
        }
    }
}

impl AwaitHello {
    fn on(self: Box<Self>, input: &Input, line: &mut Line) -> Result<State, Error> {
        let Self {
            now,
            random,
            second,
            mut messages,
            offered,
            known,
            flight,
        } = *self;
        let hello = ServerHello::parse(input.body(HandshakeType::SERVER_HELLO)?)?;
        if hello.selected_version() != ProtocolVersion::TLS1_2 {
            return Err(Breach::Version(hello.selected_version().0).into());
        }
        check_answers(hello.extensions(), &offered)?;
        let find = |kind| hello.extensions().and_then(|all| all.find(kind));
        // RFC 5746, section 3.4: in a first handshake the extension has to be empty.
        if find(RENEGOTIATION_INFO).is_some_and(|data| data != [0]) {
            return Err(Breach::Extension(RENEGOTIATION_INFO.0).into());
        }
        let suite = hello.cipher_suite();
        let scheme = Scheme::of_suite(suite).ok_or(Breach::Suite(suite))?;
        let randoms = Randoms {
            client: random,
            server: *hello.random(),
        };
        let answer = find(EXTENSION).map(Answer::parse).transpose()?;
        let share = match (answer, flight) {
            (Some(Answer::Accepted { ephemeral }), Some(flight)) => {
                return flight.accepted(input, &randoms, &ephemeral, known, line);
            }
            (Some(Answer::Accepted { .. }), None) => {
                return Err(Breach::Extension(EXTENSION.0).into());
            }
            (
                Some(Answer::Published {
                    id,
                    group,
                    public,
                    lifetime,
                }),
                _,
            ) => Some(KnownShare {
                id,
                group,
                public,
                expires: UnixTime(now.0.saturating_add(lifetime.min(MAX_LIFETIME).into())),
            }),
            (None, _) => None,
        };
        line.unprotect();
        let cached = match find(ExtensionType::CACHED_INFO) {
            None => None,
            Some(data) if data == CACHED_CERT_USED => known.map(|known| known.certificate),
            Some(_) => return Err(Breach::Extension(ExtensionType::CACHED_INFO.0).into()),
        };
        messages.add(raw(input));
        Ok(State::Certificate(Box::new(Greeted {
            second,
            randoms,
            messages,
            scheme,
            cached,
            share,
        })))
    }
}

impl FirstFlight {
    fn accepted(
        self,
        input: &Input,
        randoms: &Randoms,
        ephemeral: &[u8],
        known: Option<Known>,
        line: &mut Line,
    ) -> Result<State, Error> {
        let Self {
            pair,
            shared,
            mut transcript,
        } = self;
        let shared = if ephemeral.is_empty() {
            shared
        } else {
            Secret::join(&shared, &pair.agree(ephemeral)?)
        };
        transcript.add(raw(input));
        let master = Master::new(&shared, randoms);
        let [client, server] = master.keys(randoms);
        line.protect(&client);
        Ok(State::Change(Box::new(AwaitFinished {
            kind: Kind::ThreeWay,
            master,
            server,
            transcript,
            learned: known,
        })))
    }
}

impl Greeted {
    fn on(self: Box<Self>, input: &Input, config: &ClientConfig) -> Result<State, Error> {
        let mut greeted = *self;
        let body = input.body(HandshakeType::CERTIFICATE)?;
        let (certificate, kind) = match greeted.cached.take() {
            None => (raw(input).to_vec(), Kind::Full),
            Some(cached) => {
                if cached_certificate_hash(body)? != fingerprint(&cached) {
                    return Err(Check::Fingerprint.into());
                }
                (cached, Kind::Cached)
            }
        };
        let chain = chain(certificate.get(4..).unwrap_or_default())?;
        let verified = config.verify.certificate(&config.name, &chain);
        verified.map_err(|_| Policy::Certificate)?;
        // RFC 7924: the hash stands in the handshake as it was sent.
        greeted.messages.add(raw(input));
        Ok(State::Key(Box::new(Authenticated {
            greeted,
            certificate,
            kind,
        })))
    }
}

impl Authenticated {
    fn on(mut self: Box<Self>, input: &Input, config: &ClientConfig) -> Result<State, Error> {
        let body = input.body(HandshakeType::SERVER_KEY_EXCHANGE)?;
        let greeted = &mut self.greeted;
        let key = ServerKey::parse(body, greeted.scheme)?;
        let signed = signed_params(&greeted.randoms, key.params);
        let chain = chain(self.certificate.get(4..).unwrap_or_default())?;
        let leaf = chain.first().copied().unwrap_or_default();
        let verified = config
            .verify
            .signature(leaf, greeted.scheme, &signed, key.signature);
        verified.map_err(|_| Check::Signature)?;
        let pair = KeyPair::new(key.group, &greeted.second)?;
        let shared = pair.agree(key.public)?;
        greeted.messages.add(raw(input));
        Ok(State::Done(Box::new(Keyed {
            authenticated: *self,
            pair,
            shared,
            is_asked: false,
        })))
    }
}

impl Keyed {
    fn on(
        mut self: Box<Self>,
        input: &Input,
        config: &ClientConfig,
        line: &mut Line,
    ) -> Result<State, Error> {
        if !self.is_asked && input.body(HandshakeType::CERTIFICATE_REQUEST).is_ok() {
            self.authenticated.greeted.messages.add(raw(input));
            self.is_asked = true;
            return Ok(State::Done(self));
        }
        let Self {
            authenticated,
            pair,
            shared,
            is_asked,
        } = *self;
        let Authenticated {
            greeted,
            certificate,
            kind,
        } = authenticated;
        if !input.body(HandshakeType::SERVER_HELLO_DONE)?.is_empty() {
            return Err(Breach::Message(HandshakeType::SERVER_HELLO_DONE.0).into());
        }
        let mut messages = greeted.messages;
        messages.add(raw(input));
        let flight = client_flight(&pair, config, is_asked, &mut messages)?;
        line.send(&flight)?;
        let master = Master::new(&shared, &greeted.randoms);
        let [client, server] = master.keys(&greeted.randoms);
        line.change(&client);
        let own = master.verify_data(End::Client, &messages.hash.digest());
        let finished = message(HandshakeType::FINISHED, &own)?;
        line.send(&finished)?;
        messages.add(&finished);
        Ok(State::Change(Box::new(AwaitFinished {
            kind,
            master,
            server,
            transcript: messages.hash,
            learned: Some(Known {
                certificate,
                share: greeted.share,
            }),
        })))
    }
}

/// What the client sends in clear after the server's flight, which it adds to the messages; a
/// certificate that went ahead is added in its place and not sent.
fn client_flight(
    pair: &KeyPair,
    config: &ClientConfig,
    is_asked: bool,
    messages: &mut Messages,
) -> Result<Vec<u8>, Error> {
    let mut flight = Vec::new();
    if is_asked {
        let own = config.identity.as_ref();
        // RFC 5246, section 7.4.6: a client without a certificate sends an empty list.
        let certificate = certificates(own.map_or(&[], |own| own.chain.as_slice()))?;
        messages.add(&certificate);
        match (own, config.order) {
            (Some(_), CertificateOrder::Ahead) => {}
            (Some(_), CertificateOrder::WhenAsked) | (None, _) => flight.extend(certificate),
        }
    }
    let exchange = client_key_exchange(pair.public())?;
    messages.add(&exchange);
    flight.extend(exchange);
    if let (true, Some(own), Some(bytes)) = (is_asked, &config.identity, &messages.bytes) {
        let signature = own.key.sign(bytes)?;
        let length = u16::try_from(signature.len()).map_err(|_| Misuse::TooLong)?;
        let scheme = own.key.scheme().code().to_be_bytes();
        let body = [&scheme[..], &length.to_be_bytes(), &signature].concat();
        let verify = message(HandshakeType::CERTIFICATE_VERIFY, &body)?;
        messages.add(&verify);
        flight.extend(verify);
    }
    Ok(flight)
}
