//! Whole sessions in memory, for this crate's tests: every party, every message, and a hand that
//! may change any of them on the way.
//!
//! Invariant: everything is fixed, so that test vectors can be taken from it.

use std::collections::VecDeque;

use crate::config::{Context, Middlebox as Entry, PathMode, Right, Terms};
use crate::endpoint::{
    Channel, Client, Deciding, Established, Ground, Handshake, Leg, Output, Server,
};
use crate::error::Error;
use crate::frame::{Frame, Frames};
use crate::message::{Message, Shares};
use crate::middlebox::{Joined, Joining, Middlebox, Reply};
use crate::party::{ContextId, Endpoint, Position};
use crate::receiver::Event;
use crate::schedule::{LegSecret, SessionSecret};
use crate::suite::Suite;

/// Who sends or receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Party {
    Client,
    Server,
    Box(Position),
}

/// A message on its way.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    pub(crate) from: Party,
    pub(crate) to: Party,
    pub(crate) message: Message,
}

/// Who gave up, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) at: Party,
    pub(crate) error: Error,
}

/// A session to be.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) terms: Terms,
    pub(crate) suites: Vec<Suite>,
    /// What the client makes do with.
    pub(crate) least: Vec<Vec<Right>>,
    /// What the server makes of the terms.
    pub(crate) reduced: Terms,
    /// The exporters, so that a test can take another session's.
    pub(crate) session: [u8; 32],
    /// The certificate that the middleboxes' legs to the server show.
    pub(crate) leg_server: [u8; 32],
}

pub(crate) fn position(number: u8) -> Position {
    Position::new(number).expect("as the test has it")
}

pub(crate) const CONTEXT: ContextId = ContextId(1);
pub(crate) const OTHER: ContextId = ContextId(2);

/// The certificate of the server, and of the middlebox at an index.
pub(crate) const SERVER_CERTIFICATE: [u8; 32] = [0x5c; 32];

pub(crate) fn certificate(index: usize) -> [u8; 32] {
    [0xc0 + u8::try_from(index).expect("as the test has it"); 32]
}

impl Setup {
    /// Contexts from 1, each with these rights.
    pub(crate) fn new(rights: &[&[Right]], path: PathMode) -> Self {
        let boxes = (0..rights[0].len()).map(|index| Entry {
            name: format!("box-{}.example", index + 1),
            certificate: certificate(index),
        });
        let contexts = (1..=255).zip(rights).map(|(id, rights)| Context {
            id: ContextId(id),
            purpose: format!("purpose {id}"),
            path,
            rights: rights.to_vec(),
        });
        let terms = Terms::new(SERVER_CERTIFICATE, boxes.collect(), contexts.collect())
            .expect("as the test has it");
        Self {
            least: Vec::new(),
            reduced: terms.clone(),
            terms,
            suites: Suite::ALL.to_vec(),
            session: [0xe2; 32],
            leg_server: SERVER_CERTIFICATE,
        }
    }

    fn ground(&self, endpoint: Endpoint) -> Ground {
        let boxes = 0..self.terms.middleboxes().len();
        Ground {
            secret: SessionSecret::new(self.session),
            legs: boxes
                .map(|index| Leg {
                    secret: leg_secret(endpoint, index),
                    certificate: certificate(index),
                })
                .collect(),
            shares: shares(endpoint, self.terms.contexts().len()),
            client_certificate: [0; 32],
        }
    }
}

pub(crate) fn shares(endpoint: Endpoint, contexts: usize) -> Shares {
    let mark = 0x40 + 0x40 * endpoint.code();
    let random: Vec<u8> = (0..Shares::random_len(contexts))
        .map(|at| mark.wrapping_add(u8::try_from(at / 32 % 256).expect("as the test has it")))
        .collect();
    Shares::new(contexts, &random).expect("as the test has it")
}

pub(crate) fn leg_secret(endpoint: Endpoint, index: usize) -> LegSecret {
    LegSecret::new(
        [0x10 + 0x10 * endpoint.code() + u8::try_from(index).expect("as the test has it"); 32],
    )
}

/// An established session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Established,
    pub(crate) server: Established,
    pub(crate) boxes: Vec<Joined>,
}

#[expect(clippy::large_enum_variant, reason = "there is one of it in a test")]
enum ServerState {
    Awaiting(Server),
    Running(Handshake),
}

enum BoxState {
    Waiting(Middlebox),
    Running(Joining),
}

struct World {
    setup: Setup,
    client: Option<Handshake>,
    server: Option<ServerState>,
    boxes: Vec<Option<BoxState>>,
    queue: VecDeque<Envelope>,
}

/// Runs a handshake through to data.
pub(crate) fn establish(setup: &Setup) -> Session {
    run(setup, |envelope| vec![envelope]).expect("as the test has it")
}

/// Runs a handshake in which `tamper` may drop, change and add messages.
///
/// Messages arrive in the order in which they were sent. Where nobody fails and yet not all are
/// ready, the test has dropped something.
pub(crate) fn run(
    setup: &Setup,
    mut tamper: impl FnMut(Envelope) -> Vec<Envelope>,
) -> Result<Session, Failure> {
    let mut out = Vec::new();
    let failure = |at| move |error| Failure { at, error };
    let offered = Client::offer(
        setup.suites.clone(),
        setup.terms.clone(),
        setup.least.clone(),
        setup.ground(Endpoint::Client),
        &mut out,
    );
    let boxes = (0..setup.terms.middleboxes().len()).map(|index| {
        Some(BoxState::Waiting(Middlebox {
            client: leg_secret(Endpoint::Client, index),
            server: leg_secret(Endpoint::Server, index),
            certificate: certificate(index),
            server_certificate: setup.leg_server,
        }))
    });
    let offered = offered.map_err(failure(Party::Client))?;
    let mut world = World {
        setup: setup.clone(),
        client: Some(offered),
        server: Some(ServerState::Awaiting(Server::new(SERVER_CERTIFICATE))),
        boxes: boxes.collect(),
        queue: VecDeque::new(),
    };
    world.send(Party::Client, out);
    while let Some(envelope) = world.queue.pop_front() {
        for envelope in tamper(envelope) {
            let at = envelope.to;
            world.deliver(envelope).map_err(failure(at))?;
        }
    }
    Ok(world.finish())
}

impl World {
    fn send(&mut self, from: Party, outputs: Vec<Output>) {
        for output in outputs {
            let to = match (from, output.to) {
                (_, Channel::Leg(position)) => Party::Box(position),
                (Party::Client, Channel::EndToEnd) => Party::Server,
                (Party::Server | Party::Box(_), Channel::EndToEnd) => Party::Client,
            };
            self.queue.push_back(Envelope {
                from,
                to,
                message: output.message,
            });
        }
    }

    fn deliver(&mut self, envelope: Envelope) -> Result<(), Error> {
        let Envelope { from, to, message } = envelope;
        let channel = match from {
            Party::Client | Party::Server => Channel::EndToEnd,
            Party::Box(position) => Channel::Leg(position),
        };
        let mut out = Vec::new();
        match to {
            Party::Client => {
                let state = self.client.take().expect("the client has not failed");
                self.client = Some(state.handle(channel, message, &mut out)?);
            }
            Party::Server => {
                let next = match self.server.take().expect("the server has not failed") {
                    ServerState::Awaiting(state) => {
                        self.decide(state.handle(channel, message)?, &mut out)?
                    }
                    ServerState::Running(state) => state.handle(channel, message, &mut out)?,
                };
                self.server = Some(ServerState::Running(next));
            }
            Party::Box(position) => return self.deliver_to_box(position, from, message),
        }
        self.send(to, out);
        Ok(())
    }

    fn decide(&self, state: Deciding, out: &mut Vec<Output>) -> Result<Handshake, Error> {
        let suite = *state.suites().first().expect("the server has seen to that");
        let ground = self.setup.ground(Endpoint::Server);
        state.accept(suite, self.setup.reduced.clone(), ground, out)
    }

    fn deliver_to_box(
        &mut self,
        position: Position,
        from: Party,
        message: Message,
    ) -> Result<(), Error> {
        let endpoint = match from {
            Party::Client => Endpoint::Client,
            Party::Server => Endpoint::Server,
            Party::Box(_) => panic!("middleboxes have no legs between them"),
        };
        let mut out: Vec<Reply> = Vec::new();
        let slot = &mut self.boxes[position.index()];
        let next = match slot.take().expect("the middlebox has not failed") {
            BoxState::Waiting(state) => state.handle(endpoint, message)?,
            BoxState::Running(state) => state.handle(endpoint, message, &mut out)?,
        };
        *slot = Some(BoxState::Running(next));
        for reply in out {
            let to = match reply.to {
                Endpoint::Client => Party::Client,
                Endpoint::Server => Party::Server,
            };
            self.queue.push_back(Envelope {
                from: Party::Box(position),
                to,
                message: reply.message,
            });
        }
        Ok(())
    }

    fn finish(self) -> Session {
        let established = |handshake| match handshake {
            Handshake::Established(established) => established,
            Handshake::Offered(_) | Handshake::Binding(_) | Handshake::Confirming(_) => {
                panic!("not established")
            }
        };
        let client = established(self.client.expect("the client has not failed"));
        let server = match self.server {
            Some(ServerState::Running(handshake)) => established(handshake),
            Some(ServerState::Awaiting(_)) | None => panic!("no offer"),
        };
        let joined = |state| match state {
            Some(BoxState::Running(Joining::Joined(joined))) => *joined,
            Some(BoxState::Running(Joining::Bound(_) | Joining::Confirmed(_))) => {
                panic!("a middlebox waits")
            }
            Some(BoxState::Waiting(_)) | None => panic!("a middlebox has not begun"),
        };
        Session {
            client,
            server,
            boxes: self.boxes.into_iter().map(joined).collect(),
        }
    }
}

/// The records in a stream of frames.
pub(crate) fn records(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Frames::new();
    frames.push(bytes).expect("as the test has it");
    let mut records = Vec::new();
    while let Some(frame) = frames.next().expect("as the test has it") {
        match frame {
            Frame::Record(record) => records.push(record.to_vec()),
            other => panic!("{other:?}"),
        }
    }
    records
}

impl Session {
    /// The client's record with this data.
    pub(crate) fn sealed(&mut self, context: ContextId, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.client
            .sender
            .seal(context, payload, &mut out)
            .expect("as the test has it");
        records(&out).remove(0)
    }

    /// Takes records to the server; what it makes of the last.
    pub(crate) fn arrive(&mut self, records: &[Vec<u8>]) -> Result<Option<Event>, Error> {
        let mut last = Ok(None);
        for record in records {
            last = self.server.receiver.open(record);
        }
        last
    }

    /// A record from the client through a middlebox that forwards it.
    pub(crate) fn forwarded(&mut self, index: usize, record: &[u8]) -> Vec<u8> {
        let relay = &mut self.boxes[index].to_server;
        let passing = relay
            .receive(record)
            .expect("as the test has it")
            .expect("as the test has it");
        let mut out = Vec::new();
        passing.forward(&mut out);
        records(&out).remove(0)
    }

    /// A record from the client through a middlebox that replaces it.
    pub(crate) fn replaced(&mut self, index: usize, record: &[u8], by: &[&[u8]]) -> Vec<Vec<u8>> {
        let relay = &mut self.boxes[index].to_server;
        let passing = relay
            .receive(record)
            .expect("as the test has it")
            .expect("as the test has it");
        let mut out = Vec::new();
        passing.replace(by, &mut out).expect("as the test has it");
        records(&out)
    }
}

/// Data that no two places have in common, of so many bytes.
pub(crate) fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let bytes = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    });
    bytes.take(length).collect()
}
