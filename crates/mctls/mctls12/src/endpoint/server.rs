//! The server's part up to the secret that it shares with the client.

use std::sync::Arc;

use mctls::config::Right;
use mctls::party::Endpoint;

use super::confirm::Materials;
use super::{Handshake, Joining, Verifier, due, message};
use crate::auth::{Identity, Suite, Verify};
use crate::error::{Breach, Error, Misuse};
use crate::exchange::{Entropy, Ephemeral};
use crate::list::MiddleboxList;
use crate::message::{ClientHello, Message, Mode, ServerHello, Signed, server_params};
use crate::record::{Input, write_message};
use crate::schedule::{Randoms, session_secret};
use crate::secret::Transcript;

/// The server's handshake, before it has begun.
#[derive(Clone, Copy, Debug)]
pub struct Server;

impl Server {
    /// Awaits a client.
    ///
    /// # Errors
    /// [`Misuse::Entropy`]: draw again.
    pub fn start(
        identity: Identity,
        verify: Arc<dyn Verify>,
        entropy: Entropy,
    ) -> Result<Handshake, Error> {
        let ephemeral = Ephemeral::new(&entropy.first)?;
        Ok(Handshake::Listening(Listening(Own {
            identity,
            verify: Verifier(verify),
            entropy,
            ephemeral,
        })))
    }
}

/// What a server brings along.
#[derive(Debug)]
struct Own {
    identity: Identity,
    verify: Verifier,
    entropy: Entropy,
    ephemeral: Ephemeral,
}

/// The server awaits the client's hello.
#[derive(Debug)]
pub struct Listening(Own);

impl Listening {
    pub(super) fn handle(self, input: Input) -> Result<Handshake, Error> {
        let received = message(input)?;
        let Message::ClientHello(hello) = received.message else {
            return Err(due(&received.message));
        };
        let suite = Suite::of(self.0.identity.key.scheme());
        if !hello.suites.contains(&suite.code()) {
            return Err(Breach::Suite(suite.code()).into());
        }
        let mut transcript = Transcript::new();
        transcript.add(&received.raw);
        Ok(Handshake::Deciding(Deciding {
            own: self.0,
            hello,
            suite,
            transcript,
        }))
    }
}

/// What the server's application decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Who makes the keys.
    pub mode: Mode,
    /// What each middlebox may do, for each context: for more than the client grants as well, it
    /// gets half a key, which is none. Of no effect where the client distributes keys.
    pub rights: Vec<Vec<Right>>,
}

/// The server's application decides: it accepts, or drops this and the connection with it.
#[derive(Debug)]
pub struct Deciding {
    own: Own,
    hello: ClientHello,
    suite: Suite,
    transcript: Transcript,
}

impl Deciding {
    /// What the client proposes.
    #[must_use]
    pub const fn list(&self) -> &MiddleboxList {
        &self.hello.list
    }

    /// Accepts, and appends the server's flight.
    ///
    /// # Errors
    /// [`Misuse`]: rights in other numbers than the list has, or a key that does not sign.
    pub fn accept(self, decision: Decision, out: &mut Vec<u8>) -> Result<Handshake, Error> {
        let list = self.hello.list;
        let boxes = list.middleboxes().len();
        let expected = list.contexts().len();
        let found = decision.rights.len();
        if expected != found || decision.rights.iter().any(|rights| rights.len() != boxes) {
            return Err(Misuse::Count { expected, found }.into());
        }
        let own = self.own;
        let randoms = Randoms {
            client: self.hello.random,
            server: own.entropy.random,
        };
        let keys = *own.ephemeral.public();
        let key = &own.identity.key;
        let params = server_params(&randoms.client, &randoms.server, &keys);
        let flight = [
            Message::ServerHello(ServerHello {
                random: randoms.server,
                suite: self.suite.code(),
                mode: decision.mode,
            }),
            Message::Certificate(own.identity.chain.clone()),
            Message::ServerKeyExchange(Signed {
                keys,
                scheme: key.scheme(),
                signature: key.sign(&params)?,
            }),
            Message::ServerHelloDone,
        ];
        let mut transcript = self.transcript;
        for message in &flight {
            let bytes = message.to_bytes();
            transcript.add(&bytes);
            write_message(out, &bytes);
        }
        Ok(Handshake::Collecting(Collecting(Joining {
            endpoint: Endpoint::Server,
            list,
            rights: decision.rights,
            verify: own.verify,
            entropy: own.entropy,
            ephemeral: own.ephemeral,
            suite: self.suite,
            mode: decision.mode,
            randoms,
            transcript,
            legs: Vec::new(),
        })))
    }
}

/// The server awaits the middleboxes' hellos, and behind them the client's key.
#[derive(Debug)]
pub struct Collecting(Joining);

impl Collecting {
    pub(super) fn handle(mut self, input: Input) -> Result<Handshake, Error> {
        let received = message(input)?;
        match &received.message {
            Message::MiddleboxHello(hello) => {
                self.0.join(&received.raw, hello)?;
                Ok(Handshake::Collecting(self))
            }
            Message::ClientKeyExchange(point) if self.0.is_whole() => {
                self.0.transcript.add(&received.raw);
                let shared = self.0.ephemeral.agree(point)?;
                let session = session_secret(&shared, &self.0.randoms);
                Ok(Handshake::Materials(Materials::new(self.0.agreed(session))))
            }
            other => Err(due(other)),
        }
    }
}
