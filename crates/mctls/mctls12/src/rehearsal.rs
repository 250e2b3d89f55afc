//! A whole handshake in memory, for tests and fuzzing: client, middleboxes and server in a line,
//! and somebody on each hop who may change what passes.
//!
//! Is not: part of the public interface.

use std::collections::VecDeque;

use mctls::party::{Direction, Endpoint};

use crate::endpoint::{self, Decision, Handshake};
use crate::error::Error;
use crate::list::MiddleboxList;
use crate::middlebox::{self, Hops, Middlebox};
use crate::record::{Incoming, Input, Record, Records};

/// Who takes part, each at its beginning.
pub(crate) struct Cast {
    pub(crate) client: Handshake,
    /// What the client has sent.
    pub(crate) opening: Vec<u8>,
    pub(crate) boxes: Vec<Middlebox>,
    pub(crate) server: Handshake,
}

/// A record on its way.
#[derive(Clone, Debug)]
pub struct Crossing {
    /// Where it crosses. Hop 0 is next to the client.
    pub hop: usize,
    /// To whom it goes.
    pub direction: Direction,
    /// The record.
    pub record: Record,
}

/// Who has seen that something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which party. 0 is the client, the server stands behind the last middlebox.
    pub at: usize,
    /// What is wrong.
    pub error: Error,
}

/// How far everybody has come.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) client: Option<endpoint::Established>,
    pub(crate) boxes: Vec<Option<middlebox::Established>>,
    pub(crate) server: Option<endpoint::Established>,
}

/// One party, and what comes in from each side.
struct Node {
    state: State,
    from: [Incoming; 2],
}

#[expect(clippy::large_enum_variant, reason = "there are few of them")]
enum State {
    End(Handshake),
    Middle(Middlebox),
    Failed,
}

/// Runs a handshake until nothing moves any more. `tamper` says what becomes of a record.
pub(crate) fn run(
    cast: Cast,
    decide: impl Fn(&MiddleboxList) -> Decision,
    mut tamper: impl FnMut(Crossing) -> Vec<Crossing>,
) -> Result<Outcome, Failure> {
    let boxes = cast.boxes.len();
    let node = |state| Node {
        state,
        from: [Incoming::new(), Incoming::new()],
    };
    let mut nodes = vec![node(State::End(cast.client))];
    nodes.extend(cast.boxes.into_iter().map(State::Middle).map(node));
    nodes.push(node(State::End(cast.server)));
    let mut queue = VecDeque::new();
    let mut put = |queue: &mut VecDeque<Crossing>, hop, direction, bytes: &[u8]| {
        for record in records(bytes) {
            queue.extend(tamper(Crossing {
                hop,
                direction,
                record,
            }));
        }
    };
    put(&mut queue, 0, Direction::ToServer, &cast.opening);
    while let Some(crossing) = queue.pop_front() {
        let (at, side) = match crossing.direction {
            Direction::ToServer => (crossing.hop + 1, Endpoint::Client),
            Direction::ToClient => (crossing.hop, Endpoint::Server),
        };
        let taken = nodes[at].take(side, &crossing.record, &decide);
        let hops = taken.map_err(|error| Failure { at, error })?;
        if at <= boxes {
            put(&mut queue, at, Direction::ToServer, &hops.to_server);
        }
        if at > 0 {
            put(&mut queue, at - 1, Direction::ToClient, &hops.to_client);
        }
    }
    let end = |node: Option<Node>| match node?.state {
        State::End(Handshake::Established(established)) => Some(*established),
        State::End(_) | State::Middle(_) | State::Failed => None,
    };
    let server = end(nodes.pop());
    let middle = nodes.split_off(1).into_iter();
    let middle = middle.map(|node| match node.state {
        State::Middle(Middlebox::Established(established)) => Some(*established),
        State::End(_) | State::Middle(_) | State::Failed => None,
    });
    Ok(Outcome {
        boxes: middle.collect(),
        client: end(nodes.pop()),
        server,
    })
}

impl Node {
    fn take(
        &mut self,
        side: Endpoint,
        record: &Record,
        decide: impl Fn(&MiddleboxList) -> Decision,
    ) -> Result<Hops, Error> {
        let mut bytes = Vec::new();
        record.write(&mut bytes);
        let index = match side {
            Endpoint::Client => 0,
            Endpoint::Server => 1,
        };
        self.from[index].push(&bytes)?;
        let mut hops = Hops::default();
        while let Some(input) = self.from[index].next()? {
            let state = std::mem::replace(&mut self.state, State::Failed);
            self.state = step(state, side, input, &decide, &mut hops)?;
        }
        Ok(hops)
    }
}

fn step(
    state: State,
    side: Endpoint,
    input: Input,
    decide: impl Fn(&MiddleboxList) -> Decision,
    hops: &mut Hops,
) -> Result<State, Error> {
    match state {
        State::Middle(Middlebox::Established(mut established)) => {
            let (relay, out) = match side {
                Endpoint::Client => (&mut established.to_server, &mut hops.to_server),
                Endpoint::Server => (&mut established.to_client, &mut hops.to_client),
            };
            match input {
                Input::Protected(record) => relay.receive(record)?.forward(out),
                other => return Err(endpoint::unexpected(&other)),
            }
            Ok(State::Middle(Middlebox::Established(established)))
        }
        State::Middle(middlebox) => Ok(State::Middle(middlebox.handle(side, input, hops)?)),
        State::End(handshake) => {
            let out = match side {
                Endpoint::Client => &mut hops.to_client,
                Endpoint::Server => &mut hops.to_server,
            };
            Ok(State::End(match handshake.handle(input, out)? {
                Handshake::Deciding(deciding) => {
                    let decision = decide(deciding.list());
                    deciding.accept(decision, out)?
                }
                other => other,
            }))
        }
        State::Failed => Ok(State::Failed),
    }
}

/// The records in some bytes.
pub(crate) fn records(bytes: &[u8]) -> Vec<Record> {
    let mut all = Vec::new();
    let mut records = Records::new();
    // Our own bytes: whole records.
    if records.push(bytes).is_ok() {
        while let Ok(Some(record)) = records.next() {
            all.push(record);
        }
    }
    all
}
