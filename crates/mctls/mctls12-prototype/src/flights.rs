//! What a server or middlebox shows of itself, and how an endpoint takes it: certificate, ephemeral
//! key with a signature, and that this is all.
//!
//! Is not: what follows from it. Invariant: a key counts only once its holder has proved it.

use mctls::config::Right;
use mctls::party::Position;

use crate::auth::{Identity, Party, RsaKey, Verify, refused};
use crate::dh::{Exponent, Params};
use crate::error::{Breach, Check, Error};
use crate::list::Proposal;
use crate::message::{CERTIFICATE, KeyExchange, Message, SERVER_HELLO_DONE, SERVER_KEY_EXCHANGE};
use crate::schedule::Randoms;

/// What the hellos have agreed on.
pub(crate) struct Hellos {
    pub(crate) proposal: Proposal,
    pub(crate) rights: Vec<Vec<Right>>,
    pub(crate) randoms: Randoms,
}

/// Flights that an endpoint waits for.
pub(crate) struct Flights {
    /// Whose are still to come, the last one first.
    pub(crate) due: Vec<Option<Position>>,
    step: Step,
    keys: Vec<RsaKey>,
    /// The server's.
    pub(crate) group: Option<Params>,
}

enum Step {
    Certificate,
    KeyExchange(RsaKey),
    Done,
}

/// What a server or middlebox shows of itself: certificate, ephemeral key, and that this is all.
pub(crate) fn flight(
    identity: &Identity,
    exponent: &Exponent,
    randoms: &Randoms,
) -> Result<[Message; 3], Error> {
    let params = exponent.params();
    let signature = identity.key.sign(&signed(randoms, &params))?;
    Ok([
        Message::Certificate(identity.chain.clone()),
        Message::ServerKeyExchange(KeyExchange { params, signature }),
        Message::ServerHelloDone,
    ])
}

/// What a signature covers: both ends' random values, also a middlebox's, which has none itself.
fn signed(randoms: &Randoms, params: &Params) -> Vec<u8> {
    let mut out = [randoms.client, randoms.server].concat();
    params.write(&mut out);
    out
}

impl Flights {
    pub(crate) const fn new(due: Vec<Option<Position>>) -> Self {
        Self {
            due,
            step: Step::Certificate,
            keys: Vec::new(),
            group: None,
        }
    }

    /// The keys, those of the middleboxes in order, behind them the server's.
    pub(crate) fn in_order(self) -> Vec<RsaKey> {
        let mut keys = self.keys;
        keys.reverse();
        keys
    }

    /// Takes the next message.
    pub(crate) fn take(
        &mut self,
        message: Message,
        hellos: &Hellos,
        verify: &dyn Verify,
    ) -> Result<(), Error> {
        let code = message.code();
        let who = *self.due.last().ok_or(Breach::Message(code))?;
        let list = &hellos.proposal.list;
        let step = std::mem::replace(&mut self.step, Step::Done);
        self.step = match (step, message) {
            (Step::Certificate, Message::Certificate(chain)) => {
                let party = match who {
                    None => Party::Server(&list.server().name),
                    Some(position) => {
                        Party::Middlebox(position, &list.middleboxes()[position.index()].name)
                    }
                };
                let key = verify.verify(party, &chain);
                Step::KeyExchange(key.map_err(|_| refused(party))?)
            }
            (Step::KeyExchange(key), Message::ServerKeyExchange(exchange)) => {
                let message = signed(&hellos.randoms, &exchange.params);
                if !key.verifies(&message, &exchange.signature) {
                    return Err(match who {
                        None => Check::ServerSignature,
                        Some(position) => Check::MiddleboxSignature(position),
                    }
                    .into());
                }
                // A middlebox's ephemeral key is of no use: the prototype does nothing with it.
                if who.is_none() {
                    self.group = Some(exchange.params);
                }
                self.keys.push(key);
                Step::Done
            }
            (Step::Done, Message::ServerHelloDone) => {
                self.due.pop();
                Step::Certificate
            }
            _ => return Err(Breach::Message(code).into()),
        };
        Ok(())
    }
}

/// The types of a flight's messages.
pub(crate) const FLIGHT: [u8; 3] = [CERTIFICATE, SERVER_KEY_EXCHANGE, SERVER_HELLO_DONE];
