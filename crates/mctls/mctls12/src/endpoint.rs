//! An endpoint's handshake (the paper, section 3.5): the two round trips of TLS 1.2.
//!
//! ```text
//!  client                       middleboxes 1 .. n                       server
//!   | client hello ------------------------------------------------------> |
//!   | <---- server hello, certificate, server key exchange, hello done --- |
//!   | <-- middlebox hello 1 .. n         middlebox hello 1 .. n -->        |
//!   | client key exchange -----------------------------------------------> |
//!   | middlebox key material 1 .. n, and for the server * ---------------> |
//!   | change cipher spec, finished --------------------------------------> |
//!   | <-------------- * middlebox key material 1 .. n, and for the client  |
//!   | <------------------------------------- change cipher spec, finished  |
//!  * where both endpoints make keys: `Mode::Contributory`
//! ```
//!
//! Both endpoints see the same messages in the same order, all of which the finished messages
//! cover; but each middlebox hello comes in from another side.
//!
//! Is not: sockets, time, X.509.
//!
//! Invariants: no data before the other side's finished message; an error ends the session.

mod client;
mod confirm;
mod server;

use std::sync::Arc;

use mctls::config::Right;
use mctls::party::{ContextId, Endpoint, Position};

pub use client::{Client, Gathering, Offered};
pub use confirm::{Confirming, Materials};
pub use server::{Collecting, Deciding, Decision, Listening, Server};

use crate::auth::{Party, Suite, Verify, refused};
use crate::error::{Breach, Error, Policy};
use crate::exchange::{Entropy, Ephemeral};
use crate::list::MiddleboxList;
use crate::material::{Entries, for_all, granted, seal};
use crate::message::{Message, MiddleboxHello, Mode, Recipient, middlebox_params};
use crate::protect::{EndpointKeys, Ivs, Place};
use crate::receiver::Receiver;
use crate::record::{ContentType, Input, write, write_change_cipher_spec, write_message};
use crate::schedule::{KeyPair, Randoms, endpoint_keys, half, leg_keys, verify_data, whole};
use crate::secret::{Secret, Transcript};
use crate::sender::Sender;

/// A handshake on its way.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a connection has one of them, for a moment"
)]
pub enum Handshake {
    /// The client awaits the server's flight.
    Offered(Offered),
    /// The client awaits the middleboxes' hellos.
    Gathering(Gathering),
    /// The server awaits the client's hello.
    Listening(Listening),
    /// The server's application decides.
    Deciding(Deciding),
    /// The server awaits the middleboxes' hellos, and the client's key.
    Collecting(Collecting),
    /// Either awaits the other's key material.
    Materials(Materials),
    /// Either awaits the other's finished message.
    Confirming(Confirming),
    /// Data may be sent.
    Established(Box<Established>),
}

impl Handshake {
    /// Takes what came in, and appends what is to be sent.
    ///
    /// # Errors
    /// Any [`Error`]: the session is over.
    pub fn handle(self, input: Input, out: &mut Vec<u8>) -> Result<Self, Error> {
        match self {
            Self::Offered(state) => state.handle(input, out),
            Self::Gathering(state) => state.handle(input, out),
            Self::Listening(state) => state.handle(input),
            Self::Collecting(state) => state.handle(input),
            Self::Materials(state) => state.handle(input),
            Self::Confirming(state) => state.handle(input, out),
            Self::Deciding(_) | Self::Established(_) => Err(unexpected(&input)),
        }
    }
}

/// A session that is ready for data.
#[derive(Debug)]
pub struct Established {
    /// What the client has proposed. What a middlebox really got, the endpoints do not tell each
    /// other.
    pub list: MiddleboxList,
    /// The cipher suite.
    pub suite: Suite,
    /// Who made the keys.
    pub mode: Mode,
    /// For records to the other endpoint.
    pub sender: Sender,
    /// For records from it.
    pub receiver: Receiver,
}

/// The error of an input where another was due.
pub(crate) fn unexpected(input: &Input) -> Error {
    match input {
        Input::Message(message) => Breach::Message(message.first().copied().unwrap_or(0)).into(),
        Input::ChangeCipherSpec => Breach::Record(ContentType::ChangeCipherSpec.code()).into(),
        Input::Protected(record) => Breach::Record(record.kind.code()).into(),
        Input::Alert([_, alert]) => Policy::Alert(*alert).into(),
    }
}

/// A message, and its bytes for the transcript.
struct Received {
    raw: Vec<u8>,
    message: Message,
}

fn message(input: Input) -> Result<Received, Error> {
    match input {
        Input::Message(raw) => {
            let message = Message::parse(&raw)?;
            Ok(Received { raw, message })
        }
        other => Err(unexpected(&other)),
    }
}

fn due(message: &Message) -> Error {
    Breach::Message(message.kind()).into()
}

/// What an endpoint knows once both have their random values and it waits for middleboxes.
#[derive(Debug)]
struct Joining {
    endpoint: Endpoint,
    list: MiddleboxList,
    rights: Vec<Vec<Right>>,
    verify: Verifier,
    entropy: Entropy,
    ephemeral: Ephemeral,
    suite: Suite,
    mode: Mode,
    randoms: Randoms,
    transcript: Transcript,
    /// Of the middleboxes whose hellos have come.
    legs: Vec<KeyPair>,
}

/// A verifier that shows nothing.
struct Verifier(Arc<dyn Verify>);

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verifier")
    }
}

impl Joining {
    /// Whether all middleboxes have said hello.
    fn is_whole(&self) -> bool {
        self.legs.len() == self.list.middleboxes().len()
    }

    /// Takes the hello of the next middlebox.
    fn join(&mut self, raw: &[u8], hello: &MiddleboxHello) -> Result<(), Error> {
        let mut rest = self.list.positions().skip(self.legs.len());
        let expected: Position = rest.next().ok_or(Breach::Message(raw[0]))?;
        if hello.position != expected {
            let found = hello.position;
            return Err(Breach::Order { expected, found }.into());
        }
        let name = &self.list.middleboxes()[expected.index()].name;
        let party = Party::Middlebox(expected, name);
        let signed = &hello.signed;
        let params = middlebox_params(
            &self.randoms.client,
            &hello.random,
            hello.position,
            &signed.keys,
        );
        let verified = self.verify.0.verify(
            party,
            &hello.chain,
            signed.scheme,
            &params,
            &signed.signature,
        );
        verified.map_err(|refusal| refused(party, refusal))?;
        let shared = self.ephemeral.agree(signed.keys.towards(self.endpoint))?;
        let own = self.randoms.of(self.endpoint);
        self.legs.push(leg_keys(&shared, own, &hello.random));
        self.transcript.add(raw);
        Ok(())
    }

    /// All are there, and so is the secret between the endpoints.
    fn agreed(self, session: Secret) -> Agreed {
        Agreed {
            endpoint: self.endpoint,
            list: self.list,
            rights: self.rights,
            entropy: self.entropy,
            suite: self.suite,
            mode: self.mode,
            randoms: self.randoms,
            transcript: self.transcript,
            legs: self.legs,
            session,
        }
    }
}

/// What an endpoint knows once the secret between the endpoints is there.
#[derive(Debug)]
struct Agreed {
    endpoint: Endpoint,
    list: MiddleboxList,
    rights: Vec<Vec<Right>>,
    entropy: Entropy,
    suite: Suite,
    mode: Mode,
    randoms: Randoms,
    transcript: Transcript,
    legs: Vec<KeyPair>,
    session: Secret,
}

impl Agreed {
    /// This endpoint's halves, for each context.
    fn halves(&self) -> Entries {
        let own = &self.entropy.secret;
        for_all(&self.list, |id, purpose| {
            half(own, purpose, id, &self.randoms)
        })
    }

    /// Whole keys, where the client distributes them.
    fn wholes(&self) -> Entries {
        let session = &self.session;
        for_all(&self.list, |id, purpose| {
            whole(session, purpose, id, &self.randoms)
        })
    }

    /// Appends a message.
    fn send(&mut self, message: &Message, out: &mut Vec<u8>) {
        let bytes = message.to_bytes();
        self.transcript.add(&bytes);
        write_message(out, &bytes);
    }

    /// Appends key material, the change of the cipher, and the finished message.
    fn finish(&mut self, out: &mut Vec<u8>) {
        let entries = match (self.mode, self.endpoint) {
            (Mode::Contributory, _) => Some(self.halves()),
            (Mode::ClientDistributes, Endpoint::Client) => Some(self.wholes()),
            (Mode::ClientDistributes, Endpoint::Server) => None,
        };
        let direction = self.endpoint.sends();
        if let Some(entries) = entries {
            let legs = std::mem::take(&mut self.legs);
            for (position, keys) in self.list.positions().zip(&legs) {
                let own = granted(&entries, &self.list, &self.rights, position);
                self.send_material(keys, Recipient::Middlebox(position), &own, out);
            }
            if self.mode == Mode::Contributory {
                let keys = endpoint_keys(&self.session, &self.randoms, direction);
                self.send_material(&keys, Recipient::OtherEndpoint, &entries, out);
            }
        }
        write_change_cipher_spec(out);
        let verify = verify_data(&self.session, self.endpoint, &self.transcript.digest());
        let finished = Message::Finished(verify).to_bytes();
        self.transcript.add(&finished);
        let place = Place {
            seq: 0,
            kind: ContentType::Handshake,
            context: ContextId::END_TO_END,
        };
        let keys = endpoint_keys(&self.session, &self.randoms, direction);
        let iv = Ivs::new(&self.entropy.iv, direction).at(place.seq);
        let fragment = EndpointKeys::new(&keys).seal(iv, place, &finished);
        write(out, place.kind, place.context, &fragment);
    }

    fn send_material(
        &mut self,
        keys: &KeyPair,
        to: Recipient,
        entries: &Entries,
        out: &mut Vec<u8>,
    ) {
        let iv = Ivs::for_material(&self.entropy.iv, to);
        let material = seal(keys, iv, self.endpoint, to, entries);
        self.send(&Message::KeyMaterial(material), out);
    }
}
