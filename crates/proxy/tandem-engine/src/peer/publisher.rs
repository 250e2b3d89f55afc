//! When the server-side proxy publishes what clients' chains it holds, and over which of them.
//!
//! Is: the fingerprint of all that is held, kept up to date; who needs to be told; what telling may
//! cost. Is not: the filter (`filter`), its frame (`tandem-link`) or the segment (`server_side`).
//!
//! A publication pays where it lets a client's chain be spared that would cross otherwise, and
//! nobody knows beforehand who will come. So it is paid out of a credit: a chain that crossed
//! although it was held, by way of a proxy that had not heard of it, adds its own length, and each
//! chain that was spared adds a sixteenth. All publications together cost no more than what their
//! lack has cost already, and a sixteenth of what they have brought; but for what a proxy begins
//! with.
//!
//! Invariants: memory is bounded; the store is listed for what is published, for what was too dear
//! and may not be any more, and once in ten seconds beside that; what is published is what was held
//! a moment ago, the newest first.

use std::collections::VecDeque;
use std::time::Duration;

use tandem_delta::Reference;
use tandem_store::{Kind, ObjectId, Store};
use tandem_wire::Instant;

use super::filter::{Filter, Fingerprint, MAX_REFERENCES, Rate};

/// What may be spent before anything came in, in bytes: three filters over a thousand chains. The
/// first to ask is told at once.
const FIRST_CREDIT: u64 = 4_096;

/// The most that is saved up: a burst of chains that crossed in vain is no reason to publish for
/// ever after.
const MAX_CREDIT: u64 = 16_384;

/// Which part of what was spared may be spent on publications.
const SHARE: u64 = 16;

/// How many chains the fingerprint is over. Beyond it the oldest are left out, and come in again
/// whenever they are seen.
const MAX_CHAINS: usize = 16_384;

/// How long what was read out of the store is believed after a miss: a listing takes about a
/// millisecond for ten thousand chains, and anybody who can put segments on the link can make
/// flights miss.
const MIN_BETWEEN: Duration = Duration::from_secs(10);

/// How many fingerprints are remembered that others may still go by.
const MAX_EXCUSED: usize = 256;

/// What the server-side proxy keeps for its publications.
#[derive(Debug)]
pub struct Publisher {
    /// Of all that is held. `None`: to be read out of the store.
    fingerprint: Option<Fingerprint>,
    read_at: Option<Instant>,
    credit: u64,
    /// What was too expensive, in bytes: nothing is put together again before there is that much.
    out_of_reach: u64,
    /// What was published last.
    last: Option<Filter>,
    /// Whoever asked by then and goes by these is being told, or has yet to see what both have
    /// just learned.
    excused: VecDeque<(Fingerprint, Instant)>,
}

/// What a client-side proxy said of itself, and when.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// The fingerprint of the holdings that it goes by.
    pub known: Fingerprint,
    /// When its SYN was here.
    pub at: Instant,
}

/// How a client's chain came over the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crossed {
    /// As a reference.
    Spared,
    /// As it is.
    Whole,
}

/// Whether a filter is to be published.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision {
    /// There is nothing to say.
    Nothing,
    /// There is, and it would cost more than it may.
    TooExpensive,
    /// This one.
    Publish(Filter),
}

impl Default for Publisher {
    fn default() -> Self {
        Self {
            fingerprint: None,
            read_at: None,
            credit: FIRST_CREDIT,
            out_of_reach: 0,
            last: None,
            excused: VecDeque::new(),
        }
    }
}

impl Publisher {
    /// Of all that is held.
    fn fingerprint(&mut self, store: &impl Store, now: Instant) -> Fingerprint {
        if let Some(known) = self.fingerprint {
            return known;
        }
        self.read_at = Some(now);
        self.out_of_reach = 0;
        let all = Fingerprint::of(&store.unexpected(Kind::Chain, MAX_CHAINS));
        self.fingerprint = Some(all);
        all
    }

    /// Something was referred to that is not held: the store may have let go of more.
    pub fn doubt(&mut self, now: Instant) {
        let is_recent = |read: Instant| now.saturating_since(read) < MIN_BETWEEN;
        if !self.read_at.is_some_and(is_recent) {
            self.fingerprint = None;
        }
    }

    /// What to tell a proxy that has asked, in at most `room` bytes of filter, where each
    /// publication costs `around` more. It takes `round_trip` until whoever is told says so.
    pub fn consider(
        &mut self,
        asked: Asked,
        (room, around, rate): (usize, usize, Rate),
        store: &impl Store,
        (now, round_trip): (Instant, Duration),
    ) -> Decision {
        let fingerprint = self.fingerprint(store, now);
        let is_excused =
            |(known, until): &(Fingerprint, Instant)| *known == asked.known && asked.at <= *until;
        if fingerprint == asked.known || self.excused.iter().any(is_excused) {
            return Decision::Nothing;
        }
        if self.credit < self.out_of_reach {
            return Decision::TooExpensive;
        }
        let chains = store.unexpected(Kind::Chain, MAX_CHAINS);
        let fingerprint = Fingerprint::of(&chains);
        self.fingerprint = Some(fingerprint);
        self.read_at = Some(now);
        let newest = chains.iter().take(MAX_REFERENCES);
        let newest: Vec<_> = newest.map(|chain| Reference(chain.prefix16())).collect();
        let filter = Filter::within(room, &newest, fingerprint.0, rate);
        let cost = (around + filter.to_bytes().len()) as u64;
        if fingerprint == asked.known {
            return Decision::Nothing;
        }
        if cost > self.credit {
            self.out_of_reach = cost;
            return Decision::TooExpensive;
        }
        self.credit -= cost;
        self.out_of_reach = 0;
        self.excuse(asked.known, now + round_trip);
        self.last = Some(filter.clone());
        Decision::Publish(filter)
    }

    /// Before a chain is learned: whether it is held already.
    pub fn is_held(&mut self, chain: &ObjectId, store: &mut impl Store, now: Instant) -> bool {
        self.fingerprint(store, now);
        store.holds(Kind::Chain, chain)
    }

    /// A chain of `length` bytes that was held was shown again, by way of a proxy that went by
    /// `asked`.
    pub fn seen_again(
        &mut self,
        (chain, length): (&ObjectId, usize),
        crossed: Crossed,
        asked: Asked,
    ) {
        let reference = Reference(chain.prefix16());
        let length = length as u64;
        let earned = match crossed {
            Crossed::Spared => length / SHARE,
            // A publication would have spared it: one was needed, and this chain is among the
            // newest.
            Crossed::Whole if Some(asked.known) != self.fingerprint => {
                let is_shown = |filter: &Filter| filter.contains(&reference);
                let was_shown = self.last.as_ref().is_none_or(is_shown);
                if was_shown { length } else { 0 }
            }
            Crossed::Whole => 0,
        };
        self.credit = (self.credit + earned).min(MAX_CREDIT);
    }

    /// A chain was learned that was not held. It takes `round_trip` until whoever has learned it
    /// too says so.
    pub fn learned(&mut self, chain: &ObjectId, (now, round_trip): (Instant, Duration)) {
        if let Some(mut fingerprint) = self.fingerprint {
            self.excuse(fingerprint, now + round_trip);
            fingerprint.toggle(chain);
            self.fingerprint = Some(fingerprint);
        }
    }

    /// Bytes of memory in use, about.
    pub(super) fn footprint(&self) -> usize {
        let excused = self.excused.capacity() * size_of::<(Fingerprint, Instant)>();
        excused + self.last.as_ref().map_or(0, Filter::footprint)
    }

    fn excuse(&mut self, known: Fingerprint, until: Instant) {
        if self.excused.len() >= MAX_EXCUSED {
            self.excused.pop_front();
        }
        self.excused.push_back((known, until));
    }
}

#[cfg(test)]
mod tests;
