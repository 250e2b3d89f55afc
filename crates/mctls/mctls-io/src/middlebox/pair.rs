//! A middlebox and its pair at the other end of a slow hop: what both hold, and one session's part
//! of it.
//!
//! Is not: the short form of records, nor when it is permitted ([`mctls::short`]).
//!
//! Invariant: what a session holds is let go of when it ends, however it ends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mctls::middlebox::Joined;
use mctls::party::Direction;
use mctls::relay::{Passing, Relay};
use mctls::short::{History, Hop, Pair as Core};

use crate::error::Error;
use crate::hop::{HOLDS, SHORT, unexpected};

/// The other middlebox of a pair. It needs the same key, and to be told of this one.
pub struct PairSettings {
    /// The name in its certificate.
    pub name: String,
    /// 32 random bytes that the two of them alone have.
    pub key: [u8; 32],
    /// The purposes of the contexts in which this one shortens what it sends.
    pub purposes: Vec<String>,
    /// Most memory for what has crossed, in bytes.
    pub memory: usize,
}

/// A pair, shared by all sessions of a middlebox.
#[derive(Clone)]
pub(super) struct Pair {
    core: Arc<Core>,
    history: Arc<Mutex<History>>,
}

impl Pair {
    pub(super) fn new(settings: PairSettings) -> Self {
        let core = Core::new(settings.name, settings.key, settings.purposes);
        Self {
            core: Arc::new(core),
            history: Arc::new(Mutex::new(History::new(settings.memory))),
        }
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One session's hop to the pair.
pub(super) enum PairedHop {
    /// There is no pair, or it is no neighbour in this session.
    None,
    /// What the session is, is not known yet.
    Waiting(Pair),
    /// Records may pass in the short form.
    Open(OpenHop),
}

/// A hop to the pair, until it is dropped.
pub(super) struct OpenHop {
    pair: Pair,
    /// Taken when it is dropped.
    hop: Option<Box<Hop>>,
}

impl Drop for OpenHop {
    fn drop(&mut self) {
        if let Some(hop) = self.hop.take() {
            hop.close(&mut self.pair.history());
        }
    }
}

impl PairedHop {
    pub(super) fn new(pair: Option<&Pair>) -> Self {
        pair.map_or(Self::None, |pair| Self::Waiting(pair.clone()))
    }

    /// The hop, if the pair is a neighbour in this session.
    fn open(&mut self, joined: &Joined) -> Option<(&mut Hop, &Pair)> {
        if let Self::Waiting(pair) = self {
            let hop = Hop::new(joined, &pair.core, &mut pair.history());
            *self = match hop {
                None => Self::None,
                Some(hop) => Self::Open(OpenHop {
                    pair: pair.clone(),
                    hop: Some(Box::new(hop)),
                }),
            };
        }
        match self {
            Self::Open(open) => Some((open.hop.as_mut()?, &open.pair)),
            Self::None | Self::Waiting(_) => None,
        }
    }

    /// A record is about to go in this direction.
    pub(super) fn before(&mut self, joined: &Joined, direction: Direction, out: &mut Vec<u8>) {
        if let Some((hop, _)) = self.open(joined)
            && hop.towards() == direction
        {
            hop.greet(out);
        }
    }

    /// Takes what the pair holds, which came in this direction, and answers.
    pub(super) fn hear(
        &mut self,
        joined: &Joined,
        direction: Direction,
        body: &[u8],
        back: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let hop = self.open(joined);
        let from_pair = hop.filter(|(hop, _)| hop.towards() != direction);
        let (hop, pair) = from_pair.ok_or_else(|| unexpected(HOLDS))?;
        hop.hear(body, &mut pair.history())?;
        hop.greet(back);
        Ok(())
    }

    /// The record that the pair has shortened.
    pub(super) fn restore(&mut self, relay: &mut Relay, body: &[u8]) -> Result<Vec<u8>, Error> {
        match self {
            Self::Open(OpenHop {
                pair,
                hop: Some(hop),
            }) => Ok(hop.restore(relay, body, &mut pair.history())?),
            Self::Open(_) | Self::None | Self::Waiting(_) => Err(unexpected(SHORT)),
        }
    }

    /// Sends a group on, in the short form towards the pair.
    pub(super) fn forward(&mut self, passing: Passing<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::Open(OpenHop {
                pair,
                hop: Some(hop),
            }) => Ok(passing.shorten(hop, &mut pair.history(), out)?),
            Self::Open(_) | Self::None | Self::Waiting(_) => {
                passing.forward(out);
                Ok(())
            }
        }
    }
}
