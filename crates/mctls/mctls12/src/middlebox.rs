//! A middlebox's handshake: it forwards every message, adds its own hello in both directions, and
//! takes the keys that are meant for it (the paper, section 3.5).
//!
//! ```text
//!  Listening   client hello ->                    it finds itself in the list
//!  Joined      <- server's flight, and its own hello behind it
//!  Introduced  <- hellos of those farther away    hellos of those nearer ->
//!              its own hello, client key exchange ->
//!  Keyed       the client's key material, change cipher spec ->
//!  Confirming  client's finished ->               <- the server's key material, change cipher spec
//!  Established records both ways
//! ```
//!
//! It sees nothing proved: no certificate, no signature, no finished message. What it believes of
//! the session (the server, the contexts' purposes, the other middleboxes) is what its neighbours
//! on the path have told it. What it can do is what both endpoints have sent it keys for.
//!
//! Is not: sockets; what a service does with data.
//!
//! Invariant: what goes on are the very bytes of messages that came in; it has a key only where
//! both endpoints, or where the client distributes keys the client, have sent it one.

use std::sync::Arc;

use mctls::party::{Direction, Endpoint, Position};

use crate::auth::Identity;
use crate::endpoint::unexpected;
use crate::error::{Breach, Error};
use crate::exchange::{Entropy, Ephemeral, Point};
use crate::list::{MiddleboxList, Place};
use crate::material::{Entries, joined, open};
use crate::message::{
    KeyMaterial, Message, MiddleboxHello, MiddleboxKeys, Mode, Recipient, Signed, kind,
    middlebox_params,
};
use crate::protect::{Wholes, context_keys};
use crate::record::{ContentType, Input, write, write_change_cipher_spec, write_message};
use crate::relay::Relay;
use crate::schedule::{HALF_LEN, KeyPair, Randoms, WHOLE_LEN, leg_keys};

/// What goes on, by hop.
#[derive(Debug, Default)]
pub struct Hops {
    /// To whoever is on the client's side.
    pub to_client: Vec<u8>,
    /// To whoever is on the server's side.
    pub to_server: Vec<u8>,
}

impl Hops {
    /// Away from this endpoint.
    fn beyond(&mut self, from: Endpoint) -> &mut Vec<u8> {
        match from {
            Endpoint::Client => &mut self.to_server,
            Endpoint::Server => &mut self.to_client,
        }
    }
}

/// Whether a name in a list is a middlebox's own.
pub type IsNamed = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// What a middlebox brings along.
#[derive(Clone)]
pub struct Own {
    /// How it finds itself in a list: the first entry with such a name.
    pub is_named: IsNamed,
    /// Its certificates and key.
    pub identity: Identity,
    /// For one session.
    pub entropy: Entropy,
}

impl std::fmt::Debug for Own {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Own")
    }
}

/// A handshake on its way.
#[derive(Debug)]
pub enum Middlebox {
    /// It awaits the client's hello.
    Listening(Listening),
    /// It awaits the server's flight.
    Joined(Joined),
    /// It awaits the client's key.
    Introduced(Introduced),
    /// It awaits the client's key material.
    Keyed(Keyed),
    /// It awaits the server's.
    Confirming(Confirming),
    /// Records pass.
    Established(Box<Established>),
}

/// A session that is ready for data.
#[derive(Debug)]
pub struct Established {
    /// What its neighbours say that the client has proposed.
    pub list: MiddleboxList,
    /// Its place.
    pub position: Position,
    /// For records to the server.
    pub to_server: Relay,
    /// For records to the client.
    pub to_client: Relay,
}

impl Middlebox {
    /// Awaits a client.
    ///
    /// # Errors
    /// [`crate::error::Misuse::Entropy`]: draw again.
    pub fn start(own: Own) -> Result<Self, Error> {
        Ok(Self::Listening(Listening {
            client: Ephemeral::new(&own.entropy.first)?,
            server: Ephemeral::new(&own.entropy.second)?,
            own,
        }))
    }

    /// Takes what came in from the side of an endpoint, and appends what goes on.
    ///
    /// # Errors
    /// Any [`Error`]: the session is over. An alert has been appended, to be sent on.
    pub fn handle(self, from: Endpoint, input: Input, hops: &mut Hops) -> Result<Self, Error> {
        if let Input::Alert(alert) = &input {
            let (kind, context) = (ContentType::Alert, mctls::party::ContextId::END_TO_END);
            write(hops.beyond(from), kind, context, alert);
            return Err(unexpected(&input));
        }
        match self {
            Self::Listening(state) => state.handle(from, input, hops),
            Self::Joined(state) => state.handle(from, input, hops),
            Self::Introduced(state) => state.handle(from, input, hops),
            Self::Keyed(state) => state.handle(from, input, hops),
            Self::Confirming(state) => state.handle(from, input, hops),
            Self::Established(_) => Err(unexpected(&input)),
        }
    }
}

/// A message from the side where one is due.
fn message(from: Endpoint, due: Endpoint, input: Input) -> Result<(Vec<u8>, Message), Error> {
    match input {
        Input::Message(raw) if from == due => {
            let message = Message::parse(&raw)?;
            Ok((raw, message))
        }
        other => Err(unexpected(&other)),
    }
}

fn due(message: &Message) -> Error {
    Breach::Message(message.kind()).into()
}

/// It awaits the client's hello.
#[derive(Debug)]
pub struct Listening {
    own: Own,
    client: Ephemeral,
    server: Ephemeral,
}

impl Listening {
    fn handle(self, from: Endpoint, input: Input, hops: &mut Hops) -> Result<Middlebox, Error> {
        let (raw, message) = message(from, Endpoint::Client, input)?;
        let Message::ClientHello(hello) = message else {
            return Err(due(&message));
        };
        let position = hello.list.position(|name| (self.own.is_named)(name));
        let position = position.ok_or(Breach::NotListed)?;
        write_message(&mut hops.to_server, &raw);
        Ok(Middlebox::Joined(Joined {
            start: self,
            list: hello.list,
            position,
            client_random: hello.random,
            flight: Flight::default(),
        }))
    }
}

/// What it takes from the server's flight.
#[derive(Debug, Default)]
struct Flight {
    /// How many messages of it have come.
    count: usize,
    hello: Option<([u8; 32], Mode)>,
    key: Option<Point>,
}

const FLIGHT: [u8; 4] = [
    kind::SERVER_HELLO,
    kind::CERTIFICATE,
    kind::SERVER_KEY_EXCHANGE,
    kind::SERVER_HELLO_DONE,
];

/// It awaits the server's flight.
#[derive(Debug)]
pub struct Joined {
    start: Listening,
    list: MiddleboxList,
    position: Position,
    client_random: [u8; 32],
    flight: Flight,
}

impl Joined {
    /// What the client is said to propose: who does not want to take part drops the handshake.
    #[must_use]
    pub const fn list(&self) -> &MiddleboxList {
        &self.list
    }

    /// Whom to connect to.
    #[must_use]
    pub fn next_hop(&self) -> &Place {
        self.list.next_hop(self.position)
    }

    fn handle(mut self, from: Endpoint, input: Input, hops: &mut Hops) -> Result<Middlebox, Error> {
        let (raw, message) = message(from, Endpoint::Server, input)?;
        if FLIGHT.get(self.flight.count) != Some(&message.kind()) {
            return Err(due(&message));
        }
        self.flight.count += 1;
        write_message(&mut hops.to_client, &raw);
        match message {
            Message::ServerHello(hello) => self.flight.hello = Some((hello.random, hello.mode)),
            Message::ServerKeyExchange(signed) => self.flight.key = Some(signed.keys),
            _ => {}
        }
        if self.flight.count < FLIGHT.len() {
            return Ok(Middlebox::Joined(self));
        }
        let missing = Breach::Message(kind::SERVER_HELLO_DONE);
        let (server_random, mode) = self.flight.hello.ok_or(missing)?;
        let server_key = self.flight.key.ok_or(missing)?;
        let start = &self.start;
        let keys = MiddleboxKeys {
            client: *start.client.public(),
            server: *start.server.public(),
        };
        let random = start.own.entropy.random;
        let params = middlebox_params(&self.client_random, &random, self.position, &keys);
        let identity = &start.own.identity;
        let hello = Message::MiddleboxHello(MiddleboxHello {
            position: self.position,
            random,
            chain: identity.chain.clone(),
            signed: Signed {
                keys,
                scheme: identity.key.scheme(),
                signature: identity.key.sign(&params)?,
            },
        });
        let hello = hello.to_bytes();
        write_message(&mut hops.to_client, &hello);
        Ok(Middlebox::Introduced(Introduced {
            start: self.start,
            list: self.list,
            position: self.position,
            randoms: Randoms {
                client: self.client_random,
                server: server_random,
            },
            mode,
            server_key,
            hello,
        }))
    }
}

/// It awaits the client's key.
#[derive(Debug)]
pub struct Introduced {
    start: Listening,
    list: MiddleboxList,
    position: Position,
    randoms: Randoms,
    mode: Mode,
    server_key: Point,
    hello: Vec<u8>,
}

impl Introduced {
    fn handle(self, from: Endpoint, input: Input, hops: &mut Hops) -> Result<Middlebox, Error> {
        let (raw, message) = message(from, from, input)?;
        match (from, &message) {
            (_, Message::MiddleboxHello(_)) => {
                write_message(hops.beyond(from), &raw);
                Ok(Middlebox::Introduced(self))
            }
            (Endpoint::Client, Message::ClientKeyExchange(client_key)) => {
                write_message(&mut hops.to_server, &self.hello);
                write_message(&mut hops.to_server, &raw);
                let start = &self.start;
                let random = &start.own.entropy.random;
                let client = start.client.agree(client_key)?;
                let server = start.server.agree(&self.server_key)?;
                Ok(Middlebox::Keyed(Keyed(Session {
                    client: leg_keys(&client, &self.randoms.client, random),
                    server: leg_keys(&server, &self.randoms.server, random),
                    own: self.start.own,
                    list: self.list,
                    position: self.position,
                    randoms: self.randoms,
                    mode: self.mode,
                    client_entries: None,
                    server_entries: None,
                    passed: 0,
                })))
            }
            _ => Err(due(&message)),
        }
    }
}

/// What it knows once it has keys with both endpoints.
#[derive(Debug)]
struct Session {
    own: Own,
    list: MiddleboxList,
    position: Position,
    randoms: Randoms,
    mode: Mode,
    client: KeyPair,
    server: KeyPair,
    client_entries: Option<Entries>,
    server_entries: Option<Entries>,
    /// Protected records of the client before the server's change of the cipher.
    passed: u64,
}

impl Session {
    /// Takes key material that is its own; forwards all.
    fn material(
        &mut self,
        from: Endpoint,
        raw: &[u8],
        material: &KeyMaterial,
        hops: &mut Hops,
    ) -> Result<(), Error> {
        if material.sender != from {
            return Err(Breach::KeyMaterial.into());
        }
        write_message(hops.beyond(from), raw);
        if material.recipient != Recipient::Middlebox(self.position) {
            return Ok(());
        }
        let length = match self.mode {
            Mode::Contributory => HALF_LEN,
            Mode::ClientDistributes => WHOLE_LEN,
        };
        let (keys, entries) = match from {
            Endpoint::Client => (&self.client, &mut self.client_entries),
            Endpoint::Server => (&self.server, &mut self.server_entries),
        };
        match entries.replace(open(keys, material, length)?) {
            None => Ok(()),
            Some(_) => Err(Breach::KeyMaterial.into()),
        }
    }

    fn wholes(&mut self) -> Result<Wholes, Error> {
        let client = self.client_entries.take().ok_or(Breach::KeyMaterial)?;
        match (self.mode, self.server_entries.take()) {
            (Mode::Contributory, Some(server)) => Ok(joined(&client, &server)),
            (Mode::ClientDistributes, None) => Ok(client),
            (Mode::Contributory, None) | (Mode::ClientDistributes, Some(_)) => {
                Err(Breach::KeyMaterial.into())
            }
        }
    }
}

/// It awaits the client's key material.
#[derive(Debug)]
pub struct Keyed(Session);

impl Keyed {
    fn handle(mut self, from: Endpoint, input: Input, hops: &mut Hops) -> Result<Middlebox, Error> {
        let session = &mut self.0;
        if (from, &input) == (Endpoint::Client, &Input::ChangeCipherSpec) {
            if session.client_entries.is_none() {
                return Err(Breach::KeyMaterial.into());
            }
            write_change_cipher_spec(&mut hops.to_server);
            return Ok(Middlebox::Confirming(Confirming(self.0)));
        }
        let (raw, message) = message(from, Endpoint::Client, input)?;
        let Message::KeyMaterial(material) = &message else {
            return Err(due(&message));
        };
        session.material(from, &raw, material, hops)?;
        Ok(Middlebox::Keyed(self))
    }
}

/// It awaits the server's key material.
#[derive(Debug)]
pub struct Confirming(Session);

impl Confirming {
    fn handle(mut self, from: Endpoint, input: Input, hops: &mut Hops) -> Result<Middlebox, Error> {
        let session = &mut self.0;
        match (from, input) {
            // Its finished message, or an alert behind it: nothing else before the server's.
            (Endpoint::Client, Input::Protected(record)) if session.passed < 2 => {
                session.passed += 1;
                record.write(&mut hops.to_server);
                Ok(Middlebox::Confirming(self))
            }
            (Endpoint::Server, Input::ChangeCipherSpec) => {
                write_change_cipher_spec(&mut hops.to_client);
                self.established()
            }
            (Endpoint::Server, input) => {
                let (raw, message) = message(from, Endpoint::Server, input)?;
                let Message::KeyMaterial(material) = &message else {
                    return Err(due(&message));
                };
                session.material(from, &raw, material, hops)?;
                Ok(Middlebox::Confirming(self))
            }
            (Endpoint::Client, input) => Err(unexpected(&input)),
        }
    }

    fn established(mut self) -> Result<Middlebox, Error> {
        let wholes = self.0.wholes()?;
        let session = self.0;
        let relay = |direction, passed| {
            let keys = context_keys(&wholes, &session.randoms, direction);
            Relay::new(keys, &session.own.entropy.iv, direction, passed)
        };
        Ok(Middlebox::Established(Box::new(Established {
            to_server: relay(Direction::ToServer, session.passed),
            to_client: relay(Direction::ToClient, 0),
            list: session.list,
            position: session.position,
        })))
    }
}
