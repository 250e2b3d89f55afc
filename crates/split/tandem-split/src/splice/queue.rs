//! What has come from the origin and waits behind the window, by message.
//!
//! Is not: payloads; nothing is asked for from here but lists.
//!
//! Invariant: what an item costs is taken from the splicer's room when it comes, and given back
//! when its last record has left.

use std::ops::Range;

use super::window::{Entry, Piece, Record};
use crate::message::{KeyExpose, Run};
use crate::name::PayloadName;
use crate::object::{CHUNK_LEN, List};
use crate::seal::Mac;
use crate::suite::RecordType;

/// What waits behind the window.
pub(super) enum Item {
    Verbatim(Vec<u8>),
    Keys(KeyExpose),
    Record {
        record_type: RecordType,
        body: Body,
        mac: Mac,
    },
    Run(RunItem),
}

pub(super) enum Body {
    Literal(Vec<u8>),
    Named(PayloadName),
}

/// A run of which `done` records have gone to the window.
pub(super) struct RunItem {
    pub(super) run: Run,
    macs: Vec<u8>,
    pub(super) done: u16,
    pub(super) listed: Listed,
}

/// Whether a run has been counted among those that need its list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Listed {
    No,
    Yes,
}

/// What a message costs beside its bytes, about: the place that it takes here.
const ITEM_COST: usize = 128;

impl Item {
    pub(super) fn cost(&self) -> usize {
        match self {
            Self::Verbatim(bytes) => ITEM_COST + bytes.len(),
            Self::Keys(_) => ITEM_COST,
            Self::Record {
                body: Body::Literal(plaintext),
                ..
            } => ITEM_COST + plaintext.len(),
            Self::Record {
                body: Body::Named(_),
                ..
            } => ITEM_COST,
            Self::Run(run) => run.cost(),
        }
    }
}

impl RunItem {
    pub(super) fn new(run: Run, macs: &[u8]) -> Self {
        Self {
            run,
            macs: macs.to_vec(),
            done: 0,
            listed: Listed::No,
        }
    }

    pub(super) fn cost(&self) -> usize {
        ITEM_COST + self.macs.len()
    }

    /// The next record, of which there is one. `None` if it has no place in the object.
    pub(super) fn next_record(&mut self, list: &List) -> Option<Record> {
        let run = &self.run;
        let number = self.done;
        let len = if number + 1 == run.count {
            run.last_len
        } else {
            run.record_len
        };
        let start = run.offset + u64::from(number) * u64::from(run.record_len);
        let end = start + u64::from(len);
        if end > list.len() {
            return None;
        }
        let range = usize::try_from(start).ok()?..usize::try_from(end).ok()?;
        let pieces = pieces(list, range)?;
        let mac_len = self.macs.len() / usize::from(run.count);
        let mac = &self.macs[usize::from(number) * mac_len..][..mac_len];
        self.done += 1;
        Some(Record {
            record_type: RecordType::ApplicationData,
            pieces,
            mac: Mac::new(mac),
        })
    }
}

/// The chunks, and what of each, that make up a stretch of an object: at most two for a record.
fn pieces(list: &List, stretch: Range<usize>) -> Option<Vec<Piece>> {
    let (first, last) = (stretch.start / CHUNK_LEN, (stretch.end - 1) / CHUNK_LEN);
    (first..=last)
        .map(|chunk| {
            let start = chunk * CHUNK_LEN;
            let within =
                stretch.start.max(start) - start..stretch.end.min(start + CHUNK_LEN) - start;
            Some(Piece::wanted(list.chunk(chunk)?, Some(within)))
        })
        .collect()
}

impl From<Item> for Option<Entry> {
    /// What an item but a run is in the window.
    fn from(item: Item) -> Self {
        match item {
            Item::Verbatim(bytes) => Some(Entry::Verbatim(bytes)),
            Item::Keys(keys) => Some(Entry::Keys(keys)),
            Item::Record {
                record_type,
                body,
                mac,
            } => Some(Entry::Record(Record {
                record_type,
                pieces: vec![match body {
                    Body::Literal(plaintext) => Piece::Literal(plaintext),
                    Body::Named(name) => Piece::wanted(name, None),
                }],
                mac,
            })),
            Item::Run(_) => None,
        }
    }
}
