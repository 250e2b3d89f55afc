//! Places for connections: for whom they count, and whose may be taken over.
//!
//! ```text
//!   a connection --> counts for its address, its network, everybody, and later for its key
//!                      all have room        --> a place
//!                      one is full          --> the place of the one that has been silent there the longest
//!                      and nobody is silent --> no place
//! ```
//!
//! Is: counting. Is not: how many places anybody may hold, which claims say (for a port that is
//! open to everybody: [`Fair`]); nor a connection.
//!
//! Invariants: what is taken here lets nobody hold more than the claim on him says; who has asked
//! for something keeps its place until it leaves or rests; a stranger takes over no place of one
//! that is known; memory is bounded by the places that are held.

mod fair;
mod known;

pub use fair::{Fair, Rules};

use std::collections::{BTreeMap, BTreeSet};

use crate::member::PublicKey;
use tandem_wire::Network;

/// Somebody for whom connections count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// All together.
    Everybody,
    /// The strangers in a network.
    Strangers(Network),
    /// Those in a network that are known.
    Known(Network),
    /// Whoever has this key.
    Key(PublicKey),
}

/// A place counts for this holder, who may have so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// For whom.
    pub holder: Holder,
    /// Places that the holder may have at most.
    pub most: usize,
}

/// What is known of whoever comes. The places of strangers are taken over first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Nothing.
    Stranger,
    /// A volunteer that has served well, a member, or whom else the port is there for.
    Known,
}

/// A place. None is given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id(u64);

/// A place that somebody got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Taken {
    /// Which.
    pub id: Id,
    /// The one that was given up for it: its connection has to end.
    pub displaced: Option<Id>,
}

/// There is no place for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoPlace;

/// The places that are held. All are silent at first.
#[derive(Debug, Default)]
pub struct Places {
    next: u64,
    held: BTreeMap<Id, Held>,
    counts: BTreeMap<Holder, Count>,
}

#[derive(Debug)]
struct Held {
    rank: Rank,
    phase: Phase,
    holders: Vec<Holder>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It has asked for nothing since then.
    Silent(Moment),
    Kept,
}

/// When a place fell silent, in the order in which they did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Moment(u64);

#[derive(Debug, Default)]
struct Count {
    held: usize,
    /// Of those, the silent ones: strangers first, and who fell silent first before the others.
    silent: BTreeSet<(Rank, Moment, Id)>,
}

impl Places {
    /// How many places count for this one.
    #[must_use]
    pub fn held(&self, holder: Holder) -> usize {
        self.counts.get(&holder).map_or(0, |count| count.held)
    }

    /// Whether whoever has this place came as a stranger.
    #[must_use]
    pub fn is_strangers(&self, id: Id) -> bool {
        let held = self.held.get(&id);
        held.is_some_and(|held| held.rank == Rank::Stranger)
    }

    /// A place that counts for all of these. Each is a part of the next.
    ///
    /// # Errors
    /// One is full, and nobody there may be displaced.
    pub fn take(&mut self, claims: &[Claim], rank: Rank) -> Result<Taken, NoPlace> {
        let displaced = self.make_room(claims, rank)?;
        let number = self.count();
        let id = Id(number);
        let held = Held {
            rank,
            phase: Phase::Silent(Moment(number)),
            holders: holders(claims),
        };
        self.enter(id, held);
        Ok(Taken { id, displaced })
    }

    /// Lets a place count for this one, too; what is returned was given up for it.
    ///
    /// # Errors
    /// That one is full, and none of its places may be taken over; or the place itself was.
    pub fn add(&mut self, id: Id, claim: Claim) -> Result<Option<Id>, NoPlace> {
        let rank = self.held.get(&id).ok_or(NoPlace)?.rank;
        let displaced = self.make_room(&[claim], rank)?;
        if let Some(mut held) = self.exit(id) {
            held.holders.push(claim.holder);
            self.enter(id, held);
        }
        Ok(displaced)
    }

    fn count(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// Lets a place count for these instead, as one of this rank, if all of them have room. The key
    /// for which it counts stays.
    pub fn recount(&mut self, id: Id, claims: &[Claim], rank: Rank) {
        let Some(before) = self.exit(id) else {
            return;
        };
        let held = match claims.iter().any(|claim| self.is_full(claim)) {
            true => before,
            false => {
                let is_key = |holder: &&Holder| matches!(holder, Holder::Key(_));
                let keys = before.holders.iter().filter(is_key).copied();
                let holders = holders(claims).into_iter().chain(keys).collect();
                Held {
                    rank,
                    holders,
                    ..before
                }
            }
        };
        self.enter(id, held);
    }

    /// It has asked for something: nobody takes its place over any more.
    pub fn keep(&mut self, id: Id) {
        self.turn(id, Phase::Kept);
    }

    /// Nothing is asked for on it any more: it may be taken over again, after those that have been
    /// silent for longer. Nothing changes where it was silent already.
    pub fn rest(&mut self, id: Id) {
        let is_kept = |held: &Held| held.phase == Phase::Kept;
        if self.held.get(&id).is_some_and(is_kept) {
            let moment = Moment(self.count());
            self.turn(id, Phase::Silent(moment));
        }
    }

    fn turn(&mut self, id: Id, phase: Phase) {
        if let Some(held) = self.exit(id) {
            self.enter(id, Held { phase, ..held });
        }
    }

    /// The place is free. Nothing happens if it was taken over.
    pub fn leave(&mut self, id: Id) {
        self.exit(id);
    }

    /// Gives up the place of this holder's that has been silent for the longest time, for somebody
    /// of this rank, and says which.
    pub fn displace(&mut self, holder: Holder, rank: Rank) -> Option<Id> {
        let displaced = self.silent(holder, rank)?;
        self.leave(displaced);
        Some(displaced)
    }

    /// Takes a place from the first of these that is full, and says which.
    fn make_room(&mut self, claims: &[Claim], rank: Rank) -> Result<Option<Id>, NoPlace> {
        let Some(full) = claims.iter().find(|claim| self.is_full(claim)) else {
            return Ok(None);
        };
        self.displace(full.holder, rank).ok_or(NoPlace).map(Some)
    }

    fn is_full(&self, claim: &Claim) -> bool {
        self.held(claim.holder) >= claim.most
    }

    /// The one of this holder's that has to go for somebody of this rank.
    fn silent(&self, holder: Holder, rank: Rank) -> Option<Id> {
        let silent = &self.counts.get(&holder)?.silent;
        let (lowest, _, id) = silent.first()?;
        (*lowest <= rank).then_some(*id)
    }

    fn enter(&mut self, id: Id, held: Held) {
        for holder in &held.holders {
            let count = self.counts.entry(*holder).or_default();
            count.held += 1;
            if let Phase::Silent(since) = held.phase {
                count.silent.insert((held.rank, since, id));
            }
        }
        self.held.insert(id, held);
    }

    fn exit(&mut self, id: Id) -> Option<Held> {
        let held = self.held.remove(&id)?;
        for holder in &held.holders {
            if let Some(count) = self.counts.get_mut(holder) {
                count.held -= 1;
                if let Phase::Silent(since) = held.phase {
                    count.silent.remove(&(held.rank, since, id));
                }
                if count.held == 0 {
                    self.counts.remove(holder);
                }
            }
        }
        Some(held)
    }
}

fn holders(claims: &[Claim]) -> Vec<Holder> {
    claims.iter().map(|claim| claim.holder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Holder = Holder::Key(PublicKey([7; 32]));

    fn network(number: u8) -> Network {
        Network::wide([192, number, 0, 1].into())
    }

    /// Two for a network, five in all.
    fn claims(rank: Rank, number: u8) -> [Claim; 2] {
        let holder = match rank {
            Rank::Stranger => Holder::Strangers(network(number)),
            Rank::Known => Holder::Known(network(number)),
        };
        let everybody = Claim {
            holder: Holder::Everybody,
            most: 5,
        };
        [Claim { holder, most: 2 }, everybody]
    }

    fn take(places: &mut Places, rank: Rank, number: u8) -> Result<Taken, NoPlace> {
        places.take(&claims(rank, number), rank)
    }

    fn taken(places: &mut Places, rank: Rank, number: u8) -> Id {
        let taken = take(places, rank, number).expect("there is room");
        assert_eq!(taken.displaced, None);
        taken.id
    }

    #[test]
    fn who_came_first_and_is_silent_goes_for_the_next_of_its_network() {
        let mut places = Places::default();
        let first = taken(&mut places, Rank::Stranger, 1);
        let second = taken(&mut places, Rank::Stranger, 1);
        let other = taken(&mut places, Rank::Stranger, 2);
        let third = take(&mut places, Rank::Stranger, 1).expect("there is room");
        assert_eq!(third.displaced, Some(first));
        // It asks, and so the next to go is not the one that has waited the longest.
        places.keep(second);
        let fourth = take(&mut places, Rank::Stranger, 1).expect("there is room");
        assert_eq!(fourth.displaced, Some(third.id));
        places.keep(fourth.id);
        assert_eq!(take(&mut places, Rank::Stranger, 1), Err(NoPlace));
        places.rest(second);
        places.keep(second);
        assert_eq!(take(&mut places, Rank::Stranger, 1), Err(NoPlace));
        places.rest(fourth.id);
        let fifth = take(&mut places, Rank::Stranger, 1).expect("there is room");
        assert_eq!(fifth.displaced, Some(fourth.id));
        places.keep(fifth.id);
        assert_eq!(places.held(Holder::Strangers(network(1))), 2);
        // Who lost its place leaves late, and takes nothing along.
        places.leave(first);
        places.leave(third.id);
        assert_eq!(places.held(Holder::Everybody), 3);
        places.leave(second);
        taken(&mut places, Rank::Stranger, 1);
        places.leave(other);
        assert_eq!(places.held(Holder::Strangers(network(2))), 0);
    }

    #[test]
    fn who_has_just_done_something_goes_after_those_that_were_silent_meanwhile() {
        let mut places = Places::default();
        let [first, second] = [1, 1].map(|number| taken(&mut places, Rank::Known, number));
        places.keep(first);
        places.rest(first);
        // Who rests already does not become younger.
        places.rest(second);
        let third = take(&mut places, Rank::Known, 1).expect("there is room");
        assert_eq!(third.displaced, Some(second));
        let fourth = take(&mut places, Rank::Known, 1).expect("there is room");
        assert_eq!(fourth.displaced, Some(first));
    }

    #[test]
    fn who_becomes_known_still_counts_for_its_key() {
        let mut places = Places::default();
        let one = taken(&mut places, Rank::Stranger, 1);
        let claim = Claim {
            holder: KEY,
            most: 2,
        };
        assert_eq!(places.add(one, claim), Ok(None));
        places.recount(one, &claims(Rank::Known, 1), Rank::Known);
        assert_eq!(places.held(KEY), 1);
        assert_eq!(places.held(Holder::Known(network(1))), 1);
        places.leave(one);
        assert!(places.counts.is_empty());
    }

    #[test]
    fn where_all_is_full_strangers_go_for_the_known_and_never_the_other_way_round() {
        let mut places = Places::default();
        let known = taken(&mut places, Rank::Known, 1);
        let strangers = [2, 2, 3, 3].map(|number| taken(&mut places, Rank::Stranger, number));
        let second = take(&mut places, Rank::Known, 2).expect("there is room");
        assert_eq!(second.displaced, Some(strangers[0]));
        for stranger in &strangers[1..] {
            places.keep(*stranger);
        }
        assert_eq!(
            take(&mut places, Rank::Stranger, 4),
            Err(NoPlace),
            "those who are left and silent are known"
        );
        let third = take(&mut places, Rank::Known, 2).expect("there is room");
        assert_eq!(third.displaced, Some(known));
    }

    #[test]
    fn a_key_is_counted_over_all_networks() {
        let mut places = Places::default();
        let claim = Claim {
            holder: KEY,
            most: 2,
        };
        let [one, two, three] = [1, 2, 3].map(|number| taken(&mut places, Rank::Known, number));
        assert_eq!(places.add(one, claim), Ok(None));
        assert_eq!(places.add(two, claim), Ok(None));
        assert_eq!(places.add(three, claim), Ok(Some(one)));
        assert_eq!(places.add(one, claim), Err(NoPlace), "it has no place");
        assert_eq!((places.held(KEY), places.held(Holder::Everybody)), (2, 2));
        places.keep(two);
        places.keep(three);
        let four = taken(&mut places, Rank::Known, 4);
        assert_eq!(places.add(four, claim), Err(NoPlace));
        for id in [two, three, four] {
            places.leave(id);
        }
        assert!(places.counts.is_empty() && places.held.is_empty());
    }

    #[test]
    fn a_stranger_becomes_known_where_the_known_have_room() {
        let mut places = Places::default();
        let [one, two, three] = [1, 1, 2].map(|number| taken(&mut places, Rank::Stranger, number));
        for id in [one, two, three] {
            places.recount(id, &claims(Rank::Known, 1), Rank::Known);
        }
        assert_eq!(places.held(Holder::Known(network(1))), 2);
        assert_eq!(places.held(Holder::Strangers(network(1))), 0);
        assert_eq!(places.held(Holder::Strangers(network(2))), 1);
        assert_eq!(places.held(Holder::Everybody), 3);
        let next = take(&mut places, Rank::Known, 1).expect("there is room");
        assert_eq!(next.displaced, Some(one));
    }
}
