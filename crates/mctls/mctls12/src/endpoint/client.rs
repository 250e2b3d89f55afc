//! The client's part up to its own finished message.

use std::sync::Arc;

use mctls::party::Endpoint;

use super::confirm::Materials;
use super::{Handshake, Joining, Verifier, due, message};
use crate::auth::{Party, Suite, Verify, refused};
use crate::error::{Breach, Error};
use crate::exchange::{Entropy, Ephemeral};
use crate::list::MiddleboxList;
use crate::message::{ClientHello, Message, ServerHello, Signed, kind, server_params};
use crate::record::{Input, write_message};
use crate::schedule::{Randoms, session_secret};
use crate::secret::{Secret, Transcript};

/// The client's handshake, before it has begun.
#[derive(Clone, Copy, Debug)]
pub struct Client;

/// The messages of the server's flight, in order.
const FLIGHT: [u8; 4] = [
    kind::SERVER_HELLO,
    kind::CERTIFICATE,
    kind::SERVER_KEY_EXCHANGE,
    kind::SERVER_HELLO_DONE,
];

impl Client {
    /// Proposes a session.
    ///
    /// # Errors
    /// [`crate::error::Misuse::Entropy`]: draw again.
    pub fn start(
        list: MiddleboxList,
        verify: Arc<dyn Verify>,
        entropy: Entropy,
        out: &mut Vec<u8>,
    ) -> Result<Handshake, Error> {
        let ephemeral = Ephemeral::new(&entropy.first)?;
        let hello = Message::ClientHello(ClientHello {
            random: entropy.random,
            suites: Suite::ALL.map(Suite::code).to_vec(),
            list: list.clone(),
        });
        let bytes = hello.to_bytes();
        write_message(out, &bytes);
        let mut transcript = Transcript::new();
        transcript.add(&bytes);
        Ok(Handshake::Offered(Offered {
            list,
            verify: Verifier(verify),
            entropy,
            ephemeral,
            transcript,
            flight: Vec::new(),
        }))
    }
}

/// The client awaits the server's flight.
#[derive(Debug)]
pub struct Offered {
    list: MiddleboxList,
    verify: Verifier,
    entropy: Entropy,
    ephemeral: Ephemeral,
    transcript: Transcript,
    /// What has come of [`FLIGHT`].
    flight: Vec<Message>,
}

impl Offered {
    pub(super) fn handle(mut self, input: Input, out: &mut Vec<u8>) -> Result<Handshake, Error> {
        let received = message(input)?;
        let kind = received.message.kind();
        if FLIGHT.get(self.flight.len()) != Some(&kind) {
            return Err(due(&received.message));
        }
        self.transcript.add(&received.raw);
        self.flight.push(received.message);
        let flight = std::mem::take(&mut self.flight);
        match <[Message; 4]>::try_from(flight) {
            Err(flight) => {
                self.flight = flight;
                Ok(Handshake::Offered(self))
            }
            Ok(
                [
                    Message::ServerHello(hello),
                    Message::Certificate(chain),
                    Message::ServerKeyExchange(signed),
                    Message::ServerHelloDone,
                ],
            ) => self.decided(hello, &chain, &signed, out),
            Ok(_) => Err(Breach::Message(kind).into()),
        }
    }

    fn decided(
        self,
        hello: ServerHello,
        chain: &[Vec<u8>],
        signed: &Signed<crate::exchange::Point>,
        out: &mut Vec<u8>,
    ) -> Result<Handshake, Error> {
        let suite = Suite::from_code(hello.suite);
        let suite = suite.filter(|suite| suite.scheme() == signed.scheme);
        let suite = suite.ok_or(Breach::Suite(hello.suite))?;
        let randoms = Randoms {
            client: self.entropy.random,
            server: hello.random,
        };
        let party = Party::Server(&self.list.server().name);
        let params = server_params(&randoms.client, &randoms.server, &signed.keys);
        let verify = &self.verify.0;
        let verified = verify.verify(party, chain, signed.scheme, &params, &signed.signature);
        verified.map_err(|refusal| refused(party, refusal))?;
        let shared = self.ephemeral.agree(&signed.keys)?;
        let gathering = Gathering {
            session: session_secret(&shared, &randoms),
            joining: Joining {
                endpoint: Endpoint::Client,
                rights: self.list.rights(),
                list: self.list,
                verify: self.verify,
                entropy: self.entropy,
                ephemeral: self.ephemeral,
                suite,
                mode: hello.mode,
                randoms,
                transcript: self.transcript,
                legs: Vec::new(),
            },
        };
        Ok(gathering.go_on(out))
    }
}

/// The client awaits the middleboxes' hellos.
#[derive(Debug)]
pub struct Gathering {
    joining: Joining,
    session: Secret,
}

impl Gathering {
    pub(super) fn handle(mut self, input: Input, out: &mut Vec<u8>) -> Result<Handshake, Error> {
        let received = message(input)?;
        match &received.message {
            Message::MiddleboxHello(hello) => self.joining.join(&received.raw, hello)?,
            other => return Err(due(other)),
        }
        Ok(self.go_on(out))
    }

    /// Sends the client's second flight once all are there.
    fn go_on(self, out: &mut Vec<u8>) -> Handshake {
        if !self.joining.is_whole() {
            return Handshake::Gathering(self);
        }
        let key = *self.joining.ephemeral.public();
        let mut agreed = self.joining.agreed(self.session);
        agreed.send(&Message::ClientKeyExchange(key), out);
        agreed.finish(out);
        Handshake::Materials(Materials::new(agreed))
    }
}
