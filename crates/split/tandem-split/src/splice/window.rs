//! The next records to be written, with what each still lacks.
//!
//! Is not: their order against what is queued behind, nor the writing.
//!
//! Invariants: a piece is filled only by a payload of its name; what is wanted is asked for once
//! while any record of the window lacks it; at most [`MAX_ENTRIES`] entries, whose named pieces the
//! caller bounds by [`Window::has_room`].

use std::collections::VecDeque;
use std::ops::Range;

use crate::error::{Breach, Error};
use crate::message::KeyExpose;
use crate::name::PayloadName;
use crate::payload::Payload;
use crate::seal::Mac;
use crate::suite::RecordType;
use crate::want::Want;

/// Most entries, of whatever kind: bounds the work for each payload that is given.
const MAX_ENTRIES: usize = 128;

pub(super) enum Entry {
    Verbatim(Vec<u8>),
    Keys(KeyExpose),
    Record(Record),
}

/// One record to be made.
pub(super) struct Record {
    pub(super) record_type: RecordType,
    pub(super) pieces: Vec<Piece>,
    pub(super) mac: Mac,
}

/// Some of a record's plaintext.
pub(super) enum Piece {
    Literal(Vec<u8>),
    Wanted {
        name: PayloadName,
        /// What of the payload belongs here; `None`: all.
        within: Option<Range<usize>>,
        state: State,
    },
}

#[derive(Clone)]
pub(super) enum State {
    Waiting,
    Here(Payload),
    Lost,
}

impl Piece {
    pub(super) const fn wanted(name: PayloadName, within: Option<Range<usize>>) -> Self {
        Self::Wanted {
            name,
            within,
            state: State::Waiting,
        }
    }

    /// The bytes, if they are here.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Literal(bytes) => Some(bytes),
            Self::Wanted {
                within,
                state: State::Here(payload),
                ..
            } => match within {
                Some(range) => payload.bytes().get(range.clone()),
                None => Some(payload.bytes()),
            },
            Self::Wanted {
                state: State::Waiting | State::Lost,
                ..
            } => None,
        }
    }

    /// Why there are no bytes, and never will be.
    fn failure(&self) -> Option<Error> {
        match self {
            Self::Literal(_) => None,
            Self::Wanted { name, state, .. } => match state {
                State::Waiting => None,
                State::Lost => Some(Error::Missing(Want::Payload(*name))),
                // The list says that the object is longer than its chunks are.
                State::Here(_) if self.bytes().is_none() => Some(Breach::RunBeyondObject.into()),
                State::Here(_) => None,
            },
        }
    }

    /// Its name and state, unless it is a literal.
    fn named(&self) -> Option<(PayloadName, &State)> {
        match self {
            Self::Literal(_) => None,
            Self::Wanted { name, state, .. } => Some((*name, state)),
        }
    }

    fn named_mut(&mut self) -> Option<(PayloadName, &mut State)> {
        match self {
            Self::Literal(_) => None,
            Self::Wanted { name, state, .. } => Some((*name, state)),
        }
    }
}

/// How it stands with the first entry.
pub(super) enum Front<'a> {
    Ready(&'a Entry),
    Waits,
    Failed(Error),
}

#[derive(Default)]
pub(super) struct Window {
    entries: VecDeque<(Entry, usize)>,
    /// Pieces of them that are not literal.
    named: usize,
}

impl Window {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn has_room(&self, payloads_ahead: usize) -> bool {
        self.named < payloads_ahead.max(1) && self.entries.len() < MAX_ENTRIES
    }

    /// Appends an entry, with what it cost, and says what to ask for.
    pub(super) fn push(&mut self, mut entry: Entry, cost: usize) -> Vec<Want> {
        let mut wants = Vec::new();
        if let Entry::Record(record) = &mut entry {
            for (name, state) in record.pieces.iter_mut().filter_map(Piece::named_mut) {
                self.named += 1;
                match self.state_of(name) {
                    Some(known) => *state = known,
                    None => wants.push(Want::Payload(name)),
                }
            }
        }
        self.entries.push_back((entry, cost));
        wants
    }

    fn state_of(&self, name: PayloadName) -> Option<State> {
        self.entries
            .iter()
            .flat_map(|(entry, _)| entry.pieces())
            .filter_map(Piece::named)
            .find(|(other, _)| *other == name)
            .map(|(_, state)| state.clone())
    }

    pub(super) fn give(&mut self, payload: &Payload) -> bool {
        self.set(payload.name(), &State::Here(payload.clone()))
    }

    pub(super) fn lose(&mut self, name: PayloadName) {
        self.set(name, &State::Lost);
    }

    fn set(&mut self, name: PayloadName, new: &State) -> bool {
        let mut was_waiting = false;
        for (entry, _) in &mut self.entries {
            for (other, state) in entry.pieces_mut().iter_mut().filter_map(Piece::named_mut) {
                if other == name && matches!(state, State::Waiting) {
                    *state = new.clone();
                    was_waiting = true;
                }
            }
        }
        was_waiting
    }

    pub(super) fn front(&self) -> Option<Front<'_>> {
        let (entry, _) = self.entries.front()?;
        if let Some(error) = entry.pieces().iter().find_map(Piece::failure) {
            return Some(Front::Failed(error));
        }
        let is_whole = entry.pieces().iter().all(|piece| piece.bytes().is_some());
        Some(if is_whole {
            Front::Ready(entry)
        } else {
            Front::Waits
        })
    }

    /// Takes the first entry away, and gives back what it cost.
    pub(super) fn pop(&mut self) -> usize {
        let Some((entry, cost)) = self.entries.pop_front() else {
            return 0;
        };
        self.named -= entry.pieces().iter().filter_map(Piece::named).count();
        cost
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.named = 0;
    }
}

impl Entry {
    fn pieces(&self) -> &[Piece] {
        match self {
            Self::Verbatim(_) | Self::Keys(_) => &[],
            Self::Record(record) => &record.pieces,
        }
    }

    fn pieces_mut(&mut self) -> &mut [Piece] {
        match self {
            Self::Verbatim(_) | Self::Keys(_) => &mut [],
            Self::Record(record) => &mut record.pieces,
        }
    }
}
