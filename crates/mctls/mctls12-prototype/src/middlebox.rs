//! The handshake of a middlebox: it passes everything on, shows its own certificate to both sides,
//! and takes its key material from both.
//!
//! Is not: sockets. It cannot check what the endpoints tell each other, and does not check who they
//! are: the prototype's does neither.
//!
//! Invariants: each side's messages come in their order or not at all; each passes on as it came.

use std::collections::VecDeque;
use std::sync::Arc;

use mctls::party::{Direction, Endpoint, Position};
use mctls12::list::{MiddleboxList, Place};

use crate::auth::Identity;
use crate::dh::Exponent;
use crate::entropy::{Entropy, Ivs};
use crate::error::{Breach, Error, Policy};
use crate::flights::{FLIGHT, flight};
use crate::list::Proposal;
use crate::material;
use crate::message::{CLIENT_KEY_EXCHANGE, KEY_MATERIAL, Message, SERVER_HELLO};
use crate::record::{ContentType, Input, alert, write_change_cipher_spec, write_message};
use crate::relay::Relay;
use crate::schedule::{Parts, Randoms, context_keys, wholes};

/// What a middlebox has.
pub struct Own {
    /// Whether an address of the list is its own.
    pub is_mine: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    /// Its certificates and key.
    pub identity: Identity,
    /// Random bytes of its own for this session.
    pub entropy: Entropy,
}

/// What is to be sent.
#[derive(Debug, Default)]
pub struct Hops {
    /// To the client's side.
    pub to_client: Vec<u8>,
    /// To the server's side.
    pub to_server: Vec<u8>,
}

impl Hops {
    const fn towards(&mut self, side: Endpoint) -> &mut Vec<u8> {
        match side {
            Endpoint::Client => &mut self.to_client,
            Endpoint::Server => &mut self.to_server,
        }
    }
}

/// A middlebox in the handshake.
pub struct Middlebox {
    own: Own,
    exponent: Exponent,
    joined: Option<Joined>,
}

impl std::fmt::Debug for Middlebox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Middlebox")
    }
}

struct Joined {
    proposal: Proposal,
    position: Position,
    client_random: [u8; 32],
    server_random: Option<[u8; 32]>,
    client: Side,
    server: Side,
}

/// What is still to come from a side, and the half of the keys that has come.
struct Side {
    script: VecDeque<Due>,
    material: Option<Parts>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    Message(u8),
    ChangeCipherSpec,
    Finished,
    /// This middlebox's own flight.
    Own,
}

/// What comes of an input.
#[derive(Debug)]
pub enum Progress {
    /// More has to come.
    Handshake(Box<Middlebox>),
    /// Both ends have finished.
    Established(Box<Established>),
}

/// A session that passes.
#[derive(Debug)]
pub struct Established {
    /// What the client has proposed.
    pub list: MiddleboxList,
    /// Where this middlebox stands.
    pub position: Position,
    /// From the client to the server.
    pub to_server: Relay,
    /// From the server to the client.
    pub to_client: Relay,
}

impl Middlebox {
    /// One that has heard nobody.
    #[must_use]
    pub fn start(own: Own) -> Self {
        Self {
            exponent: Exponent::new(&own.entropy),
            own,
            joined: None,
        }
    }

    /// Whom it has to connect to, once a client has proposed a session.
    #[must_use]
    pub fn next_hop(&self) -> Option<&Place> {
        let joined = self.joined.as_ref()?;
        Some(joined.proposal.list.next_hop(joined.position))
    }

    /// Takes the next input of a side.
    ///
    /// # Errors
    /// The handshake is over. What is in `hops` has to be sent all the same.
    pub fn handle(
        mut self,
        from: Endpoint,
        input: Input,
        hops: &mut Hops,
    ) -> Result<Progress, Error> {
        let to = hops.towards(from.other());
        let due = match &input {
            Input::Alert([_, code]) => {
                to.extend(alert(*code));
                return Err(Policy::Alert(*code).into());
            }
            Input::Message(bytes) => {
                write_message(to, bytes);
                Due::Message(bytes.first().copied().unwrap_or_default())
            }
            Input::ChangeCipherSpec => {
                write_change_cipher_spec(to);
                Due::ChangeCipherSpec
            }
            Input::Protected(record) => {
                record.write(to);
                match (record.kind, record.slice) {
                    (ContentType::Handshake, 0) => Due::Finished,
                    (kind, _) => return Err(Breach::Record(kind.code()).into()),
                }
            }
        };
        let Some(joined) = &mut self.joined else {
            *hops = Hops::default();
            self.join(from, input, hops)?;
            return Ok(Progress::Handshake(Box::new(self)));
        };
        if let Err(error) = joined.take(from, due, &input, &self.own, &self.exponent, hops) {
            *hops = Hops::default();
            return Err(error);
        }
        match self.joined.take_if(|joined| joined.is_over()) {
            Some(joined) => Ok(Progress::Established(Box::new(
                joined.established(&self.own)?,
            ))),
            None => Ok(Progress::Handshake(Box::new(self))),
        }
    }

    /// Takes a client's hello, which goes on as it came.
    fn join(&mut self, from: Endpoint, input: Input, hops: &mut Hops) -> Result<(), Error> {
        let Input::Message(bytes) = input else {
            return Err(Breach::Record(20).into());
        };
        let code = bytes.first().copied().unwrap_or_default();
        let hello = match (from, Message::parse(&bytes)?) {
            (Endpoint::Client, Message::ClientHello(hello)) => hello,
            _ => return Err(Breach::Message(code).into()),
        };
        let proposal = hello.proposal.ok_or(Breach::NoList)?;
        let mut all = proposal.list.positions().zip(proposal.list.middleboxes());
        let mine = all.find(|(_, place)| (self.own.is_mine)(&place.address));
        let (position, _) = mine.ok_or(Breach::NotListed)?;
        write_message(&mut hops.to_server, &bytes);
        self.joined = Some(Joined::new(proposal, position, hello.random));
        Ok(())
    }
}

impl Joined {
    fn new(proposal: Proposal, position: Position, client_random: [u8; 32]) -> Self {
        let count = proposal.list.middleboxes().len();
        let flights = |count: usize| FLIGHT.repeat(count).into_iter().map(Due::Message);
        let materials = std::iter::repeat_n(Due::Message(KEY_MATERIAL), count + 1);
        let end = materials.chain([Due::ChangeCipherSpec, Due::Finished]);
        let behind = count - position.index() - 1;
        let server = std::iter::once(Due::Message(SERVER_HELLO))
            .chain(flights(1 + behind))
            .chain([Due::Own])
            .chain(end.clone());
        let client = flights(position.index())
            .chain([Due::Message(CLIENT_KEY_EXCHANGE)])
            .chain(end);
        let side = |script| Side {
            script,
            material: None,
        };
        Self {
            client: side(client.collect()),
            server: side(server.collect()),
            proposal,
            position,
            client_random,
            server_random: None,
        }
    }

    /// One step of a side's script, and what this middlebox itself has to say then.
    fn take(
        &mut self,
        from: Endpoint,
        due: Due,
        input: &Input,
        own: &Own,
        exponent: &Exponent,
        hops: &mut Hops,
    ) -> Result<(), Error> {
        // The client's side waits for this middlebox, and the server's side for the client.
        let is_early = match from {
            Endpoint::Client => self.server.script.contains(&Due::Own),
            Endpoint::Server => due == Due::Message(KEY_MATERIAL) && !self.client.script.is_empty(),
        };
        let side = match from {
            Endpoint::Client => &mut self.client,
            Endpoint::Server => &mut self.server,
        };
        if is_early || side.script.pop_front() != Some(due) {
            return Err(match due {
                Due::Message(code) => Breach::Message(code),
                Due::ChangeCipherSpec => Breach::Record(ContentType::ChangeCipherSpec.code()),
                Due::Finished | Due::Own => Breach::Record(ContentType::Handshake.code()),
            }
            .into());
        }
        if let (Due::Message(SERVER_HELLO | KEY_MATERIAL), Input::Message(bytes)) = (due, input) {
            self.learn(from, Message::parse(bytes)?, own)?;
        }
        if self.server.script.front() == Some(&Due::Own) {
            self.server.script.pop_front();
            let randoms = Randoms {
                client: self.client_random,
                server: self.server_random.ok_or(Breach::Message(SERVER_HELLO))?,
            };
            for message in flight(&own.identity, exponent, &randoms)? {
                write_message(&mut hops.to_client, &message.to_bytes());
                write_message(&mut hops.to_server, &message.to_bytes());
            }
        }
        Ok(())
    }

    fn learn(&mut self, from: Endpoint, message: Message, own: &Own) -> Result<(), Error> {
        let material = match message {
            Message::ServerHello(random) => {
                self.server_random = Some(random);
                return Ok(());
            }
            Message::KeyMaterial(material) => material,
            other => return Err(Breach::Message(other.code()).into()),
        };
        if material.recipient != self.proposal.id(self.position) {
            return Ok(());
        }
        let (parts, _) = material::open(&material, own.identity.key.as_ref())?;
        let side = match from {
            Endpoint::Client => &mut self.client,
            Endpoint::Server => &mut self.server,
        };
        match side.material.replace(parts) {
            None => Ok(()),
            Some(_) => Err(Breach::KeyMaterial.into()),
        }
    }

    fn is_over(&self) -> bool {
        self.client.script.is_empty() && self.server.script.is_empty()
    }

    fn established(self, own: &Own) -> Result<Established, Error> {
        let halves = self.client.material.zip(self.server.material);
        let (ours, theirs) = halves.ok_or(Breach::KeyMaterial)?;
        let wholes = wholes(&ours, &theirs);
        let slices: Vec<u8> = self.proposal.slices().collect();
        if let Some(slice) = wholes.keys().find(|slice| !slices.contains(slice)) {
            return Err(Breach::Slice(*slice).into());
        }
        let relay = |direction| {
            let ivs = Ivs::new(&own.entropy, direction);
            Relay::new(context_keys(&wholes), slices.clone(), ivs)
        };
        Ok(Established {
            to_server: relay(Direction::ToServer),
            to_client: relay(Direction::ToClient),
            list: self.proposal.list,
            position: self.position,
        })
    }
}
