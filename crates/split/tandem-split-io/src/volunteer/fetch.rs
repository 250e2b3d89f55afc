//! Getting what a client's records lack: from memory, disk, other volunteers, the origin, in this
//! order.
//!
//! Is not: how somebody is asked (`ask`), nor which volunteers are (`sharing`, `peers`).
//!
//! Invariants: the origin is asked in the end, whatever others do or do not say, and after a
//! bounded time; what another volunteer asks for is looked for here and at the origin and nowhere
//! else.

use std::sync::Arc;

use tandem_split::Want;
use tandem_split::message::Miss;

use super::ask::Asker;
use super::cache::{Cache, Thing, list_key, payload_key};
use super::disk::Key;
use super::patience;
use super::peers::Peers;

/// Chunks that are asked for with their list, before it is known which of them are here: what is
/// small then comes in one crossing, and a line of 1.7 Mbit/s is busy for 600 ms. At most as much
/// is fetched in vain, of each megabyte in which something has changed. Where there are other
/// volunteers, whoever has the list has these chunks, too.
const AHEAD: u32 = 8;

/// What another volunteer has missed, and how far to go for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) miss: Miss,
    pub(super) reach: Reach,
}

/// Where something is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Here, and on its way here: others have it to give.
    Here,
    /// At the origin, too.
    Origin,
}

/// See above.
#[derive(Debug)]
pub(super) struct Fetcher {
    cache: Arc<Cache>,
    peers: Peers,
    origin: Asker,
}

impl Fetcher {
    pub(super) fn new(cache: Arc<Cache>, peers: Peers, origin: Asker) -> Self {
        Self {
            cache,
            peers,
            origin,
        }
    }

    /// What is wanted for a client, if it is in memory.
    pub(super) fn at_hand(&self, want: Want) -> Option<Thing> {
        self.cache.in_memory(key_of(miss_of(want, 0))?)
    }

    /// What is wanted for a client, from wherever it is; `None` if nobody has it.
    pub(super) async fn get(&self, want: Want) -> Option<Thing> {
        let miss = miss_of(want, AHEAD);
        let key = key_of(miss)?;
        if let Some(thing) = self.cache.thing(key).await {
            // It may have been here since before the last start.
            self.peers.tell_of(key);
            return Some(thing);
        }
        // What the origin is sending already is nobody else's to give.
        let silence = patience::with_silence(self.origin.usual());
        if !self.origin.awaits(key)
            && let Some(thing) = self.peers.get(key, miss, silence).await
        {
            return Some(thing);
        }
        self.origin.get(key, miss).await.ok()
    }

    /// How much has come of what the origin was asked for.
    pub(super) fn came(&self) -> u64 {
        self.origin.came()
    }

    /// What another volunteer has missed.
    pub(super) async fn get_for_peer(&self, question: Question) -> Option<Thing> {
        let key = key_of(question.miss)?;
        if let Some(thing) = self.cache.thing(key).await {
            return Some(thing);
        }
        let miss = match question.miss {
            Miss::Payload(_) => question.miss,
            // As for a client of one's own, so that all comes in one crossing.
            Miss::Object {
                object,
                first,
                count,
            } => Miss::Object {
                object,
                first,
                count: count.min(AHEAD),
            },
        };
        let may_ask = match question.reach {
            Reach::Origin => true,
            Reach::Here => self.origin.awaits(key),
        };
        if may_ask {
            return self.origin.get(key, miss).await.ok();
        }
        // It may have come meanwhile.
        self.cache.at_hand(key)
    }
}

/// The question for what is wanted; with a list, so many chunks at most.
fn miss_of(want: Want, ahead: u32) -> Miss {
    match want {
        Want::Payload(name) => Miss::Payload(name),
        Want::List {
            object,
            first_chunk,
            chunks,
        } => Miss::Object {
            object,
            first: first_chunk,
            count: chunks.min(ahead),
        },
    }
}

fn key_of(miss: Miss) -> Option<Key> {
    match miss {
        Miss::Payload(name) => payload_key(name),
        Miss::Object { object, .. } => Some(list_key(object)),
    }
}
