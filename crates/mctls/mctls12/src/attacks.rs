//! Where the paper's promises hold, and where they end: each attack of `docs/mctls12.md`, with the
//! check that catches it, or with the harm that arrives because nothing does.
//!
//! Is not: the stage. Here the attacks are committed in memory (`rehearsed`), and in the tests of
//! `tandem-mc` over sockets, by the same middleboxes and the same people on the hops.
//!
//! Not part of the public interface: there only for tests and with the feature `hostile`.

mod handshake;
mod records;
#[cfg(test)]
mod rehearsed;

use mctls::config::Right;
use mctls::party::ContextId;

use crate::error::{Breach, Error, Policy};
use crate::list::Context;
use crate::message::Mode;
use crate::receiver::{Delivery, Provenance};
use crate::rehearsal::{Crossing, Failure};
use crate::relay::Passing;

const ONE: ContextId = ContextId(1);
const TWO: ContextId = ContextId(2);

/// What the client sends in each session, before it closes its direction.
pub const SCRIPT: [(ContextId, &[u8]); 3] = [(ONE, b"first"), (TWO, b"second"), (ONE, b"third")];

/// The contexts of a session in which the middleboxes are to have these rights.
#[must_use]
pub fn contexts(rights: &[Vec<Right>]) -> Vec<Context> {
    let contexts = (1..=255).zip(rights).map(|(id, rights)| Context {
        id: ContextId(id),
        purpose: format!("purpose {id}"),
        rights: rights.clone(),
    });
    contexts.collect()
}

/// What somebody who is on all hops makes of a record: those that go on in its place, each on the
/// hop and in the direction that it names.
pub type Tamper = Box<dyn FnMut(Crossing) -> Vec<Crossing> + Send>;

/// What a dishonest middlebox does with a record that it may read. It gives back what it leaves
/// alone.
pub type Overstep = for<'a> fn(Passing<'a>, &mut Vec<u8>) -> Option<Passing<'a>>;

/// What a middlebox does with data towards the server.
#[derive(Clone, Copy)]
pub enum Act {
    /// It passes it on.
    Forward,
    /// It does its work: it replaces what it takes for data with this purpose.
    Replace(&'static str, &'static [u8]),
    /// It oversteps.
    Overstep(Overstep),
}

/// What a middlebox has learned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// With which server it believes that the client has a session.
    pub server: String,
    /// Data, as long as it was honest.
    pub data: Vec<(ContextId, Vec<u8>)>,
}

/// What has become of a session.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Who has found something wrong, each once.
    pub failures: Vec<Failure>,
    /// What the server was given.
    pub arrived: Vec<Delivery>,
    /// What each middlebox has learned.
    pub boxes: Vec<Seen>,
}

/// One attack.
pub struct Attack {
    /// What is done.
    pub name: String,
    /// What each middlebox may do, for each of two contexts: as the client wants it.
    pub rights: Vec<Vec<Right>>,
    /// As the server wants it.
    pub server_rights: Vec<Vec<Right>>,
    /// Who makes the keys.
    pub mode: Mode,
    /// Whether the server verifies middleboxes.
    pub server_verifies: bool,
    /// How many sessions there are, one after the other. The last is attacked.
    pub sessions: usize,
    /// Who is on the hops, through all sessions.
    pub tamper: Tamper,
    /// What each middlebox does.
    pub acts: Vec<Act>,
    caught: Option<Failure>,
    arrives: Vec<Delivery>,
    also: Box<dyn Fn(&Outcome) -> bool + Send>,
}

/// All of them.
#[must_use]
pub fn all() -> Vec<Attack> {
    let mut all = handshake::all();
    all.extend(records::all());
    all
}

impl Attack {
    /// One that nobody commits yet, and of which nothing arrives.
    fn new(name: impl Into<String>, rights: [&[Right]; 2]) -> Self {
        let rights: Vec<Vec<Right>> = rights.map(<[Right]>::to_vec).into();
        Self {
            name: name.into(),
            acts: vec![Act::Forward; rights[0].len()],
            server_rights: rights.clone(),
            rights,
            mode: Mode::Contributory,
            server_verifies: true,
            sessions: 1,
            tamper: Box::new(|crossing| vec![crossing]),
            caught: None,
            arrives: Vec::new(),
            also: Box::new(|_| true),
        }
    }

    /// Somebody on the hops commits it.
    fn on_hops(self, tamper: Tamper) -> Self {
        Self { tamper, ..self }
    }

    /// A middlebox commits it, or is deceived.
    fn by(mut self, number: usize, act: Act) -> Self {
        self.acts[number - 1] = act;
        self
    }

    fn caught_by_client(self, error: impl Into<Error>) -> Self {
        self.caught(0, error.into())
    }

    fn caught_by_box(self, number: usize, error: impl Into<Error>) -> Self {
        self.caught(number, error.into())
    }

    fn caught_by_server(self, error: impl Into<Error>) -> Self {
        let server = self.acts.len() + 1;
        self.caught(server, error.into())
    }

    fn caught(mut self, at: usize, error: Error) -> Self {
        self.caught = Some(Failure { at, error });
        self
    }

    /// What the server is given all the same.
    fn arrives(mut self, what: &[Delivery]) -> Self {
        self.arrives = what.to_vec();
        self
    }

    /// What else is so.
    fn also(mut self, holds: impl Fn(&Outcome) -> bool + Send + 'static) -> Self {
        self.also = Box::new(holds);
        self
    }

    /// Whether the session became what this attack makes of it: who caught it and how, or that
    /// nobody did; and what has arrived.
    ///
    /// # Errors
    /// Says what is different.
    pub fn judge(&self, outcome: &Outcome) -> Result<(), String> {
        // Whoever catches something cuts the session, and the others hear of that.
        let is_consequence = |failure: &Failure| match failure.error {
            Error::Peer(Breach::Truncated) | Error::Policy(Policy::Alert(_)) => {
                self.caught.is_some()
            }
            _ => false,
        };
        let mut failures = outcome.failures.iter();
        let is_caught = self
            .caught
            .is_none_or(|one| outcome.failures.contains(&one))
            && failures.all(|one| Some(*one) == self.caught || is_consequence(one));
        if is_caught && outcome.arrived == self.arrives && (self.also)(outcome) {
            return Ok(());
        }
        Err(format!(
            "{}: not caught by {:?}, or other data than {:?}: {outcome:#?}",
            self.name, self.caught, self.arrives
        ))
    }
}

fn original(context: ContextId, data: &[u8]) -> Delivery {
    delivery(context, data, Provenance::Original)
}

fn changed(context: ContextId, data: &[u8]) -> Delivery {
    delivery(context, data, Provenance::Changed)
}

fn delivery(context: ContextId, data: &[u8], provenance: Provenance) -> Delivery {
    Delivery {
        context,
        data: data.to_vec(),
        provenance,
    }
}

/// What the client sends, as it has sent it.
fn script() -> [Delivery; 3] {
    SCRIPT.map(|(context, data)| original(context, data))
}
