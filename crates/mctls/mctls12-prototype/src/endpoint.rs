//! The handshake of client and server.
//!
//! ```text
//! C -> S   ClientHello
//! S -> C   ServerHello  Certificate  ServerKeyExchange  ServerHelloDone
//! M        Certificate  ServerKeyExchange  ServerHelloDone     to both, the nearest to S first
//! C -> S   ClientKeyExchange  KeyMaterial[M1..Mn]  KeyMaterial[S]  ChangeCipherSpec  Finished
//! S -> C   KeyMaterial[M1..Mn]  KeyMaterial[C]  ChangeCipherSpec  Finished
//! ```
//!
//! Is not: sockets. Invariants: each message is taken when it is due and at no other time; both
//! hash all messages, in this order.

use std::sync::Arc;

use mctls::config::Right;
use mctls::party::Direction;
use mctls12::list::MiddleboxList;
use zeroize::Zeroizing;

use crate::auth::{Identity, RsaKey, Verify};
use crate::dh::Exponent;
use crate::entropy::{Entropy, Ivs, Use};
use crate::error::{Breach, Check, Error, Misuse, Policy};
use crate::flights::{Flights, Hellos, flight};
use crate::list::{CLIENT, Proposal, SERVER};
use crate::material::{self, EnvelopeKey};
use crate::message::{ClientHello, Material, Message};
use crate::prf::Transcript;
use crate::record::{
    ContentType, HANDSHAKE_SLICE, Input, Record, write, write_change_cipher_spec, write_message,
};
use crate::schedule::{Master, Parts, Randoms, context_keys, halves, wholes};
use crate::session::{Receiver, Sender};

/// How a server decides: the rights of all middleboxes in all contexts, or that it refuses.
pub type Decide = Arc<dyn Fn(&MiddleboxList) -> Option<Vec<Vec<Right>>> + Send + Sync>;

/// An endpoint in the handshake.
pub struct Handshake {
    own: Own,
    heard: Transcript,
    stage: Stage,
}

impl std::fmt::Debug for Handshake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handshake")
    }
}

/// What comes of an input.
#[derive(Debug)]
pub enum Progress {
    /// More has to come.
    Handshake(Box<Handshake>),
    /// Both ends have finished.
    Established(Box<Established>),
}

/// A session of an endpoint.
#[derive(Debug)]
pub struct Established {
    /// What the client has proposed.
    pub list: MiddleboxList,
    /// For data to the other endpoint.
    pub sender: Sender,
    /// For data from it.
    pub receiver: Receiver,
}

struct Own {
    verify: Arc<dyn Verify>,
    entropy: Entropy,
    exponent: Exponent,
    random: [u8; 32],
    role: Role,
}

enum Role {
    Client,
    Server(Identity, Decide),
}

enum Stage {
    /// The other side's hello; the client has its proposal.
    Hello(Option<Proposal>),
    /// Certificates and keys of the server and the middleboxes, the nearest to the server first.
    Flights(Hellos, Flights),
    /// The client's public value.
    ClientKeyExchange(Hellos, Vec<RsaKey>),
    Materials(Keys, Materials),
    ChangeCipherSpec(Keys, Parts),
    Finished(Keys, Parts),
}

struct Keys {
    hellos: Hellos,
    /// The middleboxes'.
    boxes: Vec<RsaKey>,
    master: Master,
    halves: Parts,
    /// Under which the server answers; it has it with the client's material.
    shared: Option<EnvelopeKey>,
}

struct Materials {
    /// For whom it is still to come, this endpoint itself not counted.
    due: Vec<u8>,
}

impl Handshake {
    /// A client's: its first message goes to `out`.
    ///
    /// # Errors
    /// More contexts than the prototype's messages have room for.
    pub fn client(
        list: MiddleboxList,
        verify: Arc<dyn Verify>,
        entropy: Entropy,
        out: &mut Vec<u8>,
    ) -> Result<Self, Error> {
        let proposal = Proposal::new(list)?;
        let mut client = Self::new(verify, entropy, Role::Client, Some(proposal.clone()));
        let hello = Message::ClientHello(ClientHello {
            random: client.own.random,
            is_suitable: true,
            proposal: Some(proposal),
        });
        client.send(&hello, out);
        Ok(client)
    }

    /// A server's, before any message.
    #[must_use]
    pub fn server(
        identity: Identity,
        verify: Arc<dyn Verify>,
        entropy: Entropy,
        decide: Decide,
    ) -> Self {
        Self::new(verify, entropy, Role::Server(identity, decide), None)
    }

    fn new(
        verify: Arc<dyn Verify>,
        entropy: Entropy,
        role: Role,
        proposal: Option<Proposal>,
    ) -> Self {
        let exponent = Exponent::new(&entropy);
        Self {
            own: Own {
                random: entropy.array(Use::Random),
                verify,
                exponent,
                entropy,
                role,
            },
            heard: Transcript::default(),
            stage: Stage::Hello(proposal),
        }
    }

    /// Whether the other side can still be told in clear that something is wrong.
    #[must_use]
    pub const fn is_clear(&self) -> bool {
        match &self.stage {
            Stage::Hello(_) | Stage::Flights(..) | Stage::ClientKeyExchange(..) => true,
            Stage::Materials(..) | Stage::ChangeCipherSpec(..) | Stage::Finished(..) => false,
        }
    }

    fn send(&mut self, message: &Message, out: &mut Vec<u8>) {
        let bytes = message.to_bytes();
        self.heard.add(&bytes);
        write_message(out, &bytes);
    }

    /// Takes the next input; answers go to `out`.
    ///
    /// # Errors
    /// The handshake is over: somebody has broken the protocol, is not who it should be, or does
    /// not want it.
    pub fn handle(mut self, input: Input, out: &mut Vec<u8>) -> Result<Progress, Error> {
        let stage = std::mem::replace(&mut self.stage, Stage::Hello(None));
        self.stage = match (input, stage) {
            (Input::Alert([_, code]), _) => return Err(Policy::Alert(code).into()),
            (Input::ChangeCipherSpec, Stage::ChangeCipherSpec(keys, theirs)) => {
                Stage::Finished(keys, theirs)
            }
            (Input::Protected(record), Stage::Finished(keys, theirs)) => {
                return self.finished(&record, keys, &theirs, out);
            }
            (Input::Message(bytes), stage) => {
                let message = Message::parse(&bytes)?;
                // A client's own messages are the first; a server's hello comes after it is heard.
                self.heard.add(&bytes);
                self.message(message, stage, out)?
            }
            (Input::ChangeCipherSpec, _) => return Err(Breach::Record(20).into()),
            (Input::Protected(record), _) => return Err(Breach::Record(record.kind.code()).into()),
        };
        Ok(Progress::Handshake(Box::new(self)))
    }

    fn message(
        &mut self,
        message: Message,
        stage: Stage,
        out: &mut Vec<u8>,
    ) -> Result<Stage, Error> {
        let code = message.code();
        match (stage, message) {
            (Stage::Hello(Some(proposal)), Message::ServerHello(server)) => {
                let randoms = Randoms {
                    client: self.own.random,
                    server,
                };
                let mut due: Vec<_> = proposal.list.positions().map(Some).collect();
                due.push(None);
                let rights = proposal.list.rights();
                let hellos = Hellos {
                    proposal,
                    rights,
                    randoms,
                };
                Ok(Stage::Flights(hellos, Flights::new(due)))
            }
            (Stage::Hello(None), Message::ClientHello(hello)) => self.welcome(hello, out),
            (Stage::Flights(hellos, mut flights), message) => {
                flights.take(message, &hellos, self.own.verify.as_ref())?;
                match (flights.due.is_empty(), &self.own.role) {
                    (false, _) => Ok(Stage::Flights(hellos, flights)),
                    (true, Role::Server(..)) => {
                        Ok(Stage::ClientKeyExchange(hellos, flights.in_order()))
                    }
                    (true, Role::Client) => self.answer(hellos, flights, out),
                }
            }
            (Stage::ClientKeyExchange(hellos, boxes), Message::ClientKeyExchange(value)) => {
                let group = self.own.exponent.params();
                let premaster = self.own.exponent.premaster(&group, &value)?;
                Ok(self.materials(hellos, boxes, &premaster, None))
            }
            (Stage::Materials(keys, due), Message::KeyMaterial(material)) => {
                self.material(&material, keys, due)
            }
            _ => Err(Breach::Message(code).into()),
        }
    }

    /// A server takes a client's hello.
    fn welcome(&mut self, hello: ClientHello, out: &mut Vec<u8>) -> Result<Stage, Error> {
        let Role::Server(identity, decide) = &self.own.role else {
            return Err(Breach::Message(1).into());
        };
        if !hello.is_suitable {
            return Err(Breach::Suite.into());
        }
        let proposal = hello.proposal.ok_or(Breach::NoList)?;
        let rights = decide(&proposal.list).ok_or(Policy::Refused)?;
        let randoms = Randoms {
            client: hello.random,
            server: self.own.random,
        };
        let flight = flight(identity, &self.own.exponent, &randoms)?;
        self.send(&Message::ServerHello(randoms.server), out);
        flight.iter().for_each(|message| self.send(message, out));
        let due: Vec<_> = proposal.list.positions().map(Some).collect();
        let hellos = Hellos {
            proposal,
            rights,
            randoms,
        };
        Ok(match due.is_empty() {
            true => Stage::ClientKeyExchange(hellos, Vec::new()),
            false => Stage::Flights(hellos, Flights::new(due)),
        })
    }

    /// A client has heard everybody.
    fn answer(
        &mut self,
        hellos: Hellos,
        flights: Flights,
        out: &mut Vec<u8>,
    ) -> Result<Stage, Error> {
        let group = flights.group.clone().ok_or(Breach::KeyMaterial)?;
        let exponent = &self.own.exponent;
        let value = exponent.value(&group)?;
        let premaster = exponent.premaster(&group, &group.value)?;
        let mut boxes = flights.in_order();
        // The server's was the first, so it is the last in order.
        let server = boxes.pop().ok_or(Breach::KeyMaterial)?;
        let shared = material::shared_key(&self.own.entropy);
        self.send(&Message::ClientKeyExchange(value), out);
        let stage = self.materials(hellos, boxes, &premaster, Some(shared));
        let Stage::Materials(keys, due) = stage else {
            return Err(Misuse::Sealing.into());
        };
        self.grant(&keys, out);
        let to_server = material::to_server(&keys.halves, &server, &self.own.entropy);
        self.send(&to_server, out);
        self.finish(&keys, Direction::ToServer, out);
        Ok(Stage::Materials(keys, due))
    }

    fn materials(
        &self,
        hellos: Hellos,
        boxes: Vec<RsaKey>,
        premaster: &[u8],
        shared: Option<EnvelopeKey>,
    ) -> Stage {
        let due = hellos.proposal.middleboxes().map(|(_, id)| id).collect();
        let keys = Keys {
            master: Master::new(premaster, &hellos.randoms),
            halves: halves(&self.own.entropy, hellos.proposal.slices()),
            hellos,
            boxes,
            shared,
        };
        Stage::Materials(keys, Materials { due })
    }

    /// Sends the middleboxes what they get.
    fn grant(&mut self, keys: &Keys, out: &mut Vec<u8>) {
        let (proposal, rights) = (&keys.hellos.proposal, &keys.hellos.rights);
        let entropy = &self.own.entropy;
        let all = material::to_middleboxes(proposal, rights, &keys.halves, &keys.boxes, entropy);
        all.iter().for_each(|message| self.send(message, out));
    }

    /// Sends that everything is protected from here on, and the finished message.
    fn finish(&mut self, keys: &Keys, direction: Direction, out: &mut Vec<u8>) {
        write_change_cipher_spec(out);
        let verify = keys.master.finished(direction, &self.heard);
        let message = Message::Finished(verify.to_vec()).to_bytes();
        self.heard.add(&message);
        let end = keys.master.keys(&keys.hellos.randoms, direction);
        // The sender of data begins with other numbers.
        let iv = self.own.entropy.array(Use::EnvelopeIv(0));
        let fragment = end.seal_finished(iv, &message);
        write(out, ContentType::Handshake, HANDSHAKE_SLICE, &fragment);
    }

    /// Takes the other side's key material, of which only what is for this endpoint says anything.
    fn material(
        &self,
        material: &Material,
        mut keys: Keys,
        mut due: Materials,
    ) -> Result<Stage, Error> {
        let theirs = match (&self.own.role, material.recipient) {
            (Role::Client, CLIENT) => {
                let shared = keys.shared.as_ref().ok_or(Breach::KeyMaterial)?;
                material::parts(material, shared)?
            }
            (Role::Server(identity, _), SERVER) => {
                let (parts, shared) = material::open(material, identity.key.as_ref())?;
                keys.shared = Some(shared);
                parts
            }
            (_, other) => {
                let count = due.due.len();
                due.due.retain(|id| *id != other);
                return match due.due.len() < count {
                    true => Ok(Stage::Materials(keys, due)),
                    false => Err(Breach::KeyMaterial.into()),
                };
            }
        };
        if !due.due.is_empty() || !material::is_complete(&theirs, &keys.hellos.proposal) {
            return Err(Breach::KeyMaterial.into());
        }
        Ok(Stage::ChangeCipherSpec(keys, theirs))
    }

    /// Takes the other side's finished message; a server answers with its own.
    fn finished(
        mut self,
        record: &Record,
        keys: Keys,
        theirs: &Parts,
        out: &mut Vec<u8>,
    ) -> Result<Progress, Error> {
        let (receives, sends) = match &self.own.role {
            Role::Client => (Direction::ToClient, Direction::ToServer),
            Role::Server(..) => (Direction::ToServer, Direction::ToClient),
        };
        if (record.kind, record.slice) != (ContentType::Handshake, HANDSHAKE_SLICE) {
            return Err(Breach::Record(record.kind.code()).into());
        }
        let randoms = keys.hellos.randoms;
        let incoming = keys.master.keys(&randoms, receives);
        let message = incoming.open_finished(&record.fragment);
        let message = Zeroizing::new(message.ok_or(Check::EndpointMac)?);
        let due = keys.master.finished(receives, &self.heard);
        if *message != Message::Finished(due.to_vec()).to_bytes() {
            return Err(Check::Finished.into());
        }
        self.heard.add(&message);
        if let (Role::Server(..), Some(shared)) = (&self.own.role, &keys.shared) {
            let to_client = material::to_client(&keys.halves, shared, &self.own.entropy);
            self.grant(&keys, out);
            self.send(&to_client, out);
            self.finish(&keys, sends, out);
        }
        let wholes = wholes(&keys.halves, theirs);
        let outgoing = keys.master.keys(&randoms, sends);
        let ivs = Ivs::new(&self.own.entropy, sends);
        Ok(Progress::Established(Box::new(Established {
            list: keys.hellos.proposal.list,
            sender: Sender::new(context_keys(&wholes), outgoing, ivs),
            receiver: Receiver::new(context_keys(&wholes), incoming),
        })))
    }
}
