//! Places: so many in all, and of these a share for each of those who take them.
//!
//! Is not: what a place is for; nor who comes, where that is not known yet (`door.rs`).
//!
//! Invariants: nobody holds more than the share; a place that is dropped is free again; memory is
//! bounded by the places that are held.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// This part of the places nobody has alone.
const RESERVED: usize = 8;

/// What one may have of the places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// All of them: nobody else comes.
    All,
    /// So many.
    AtMost(usize),
    /// While nobody else has any, all but an eighth; then as many as are free. So whoever is alone
    /// loses little, and whoever comes finds some.
    AsManyAsFree,
}

/// See the module.
#[derive(Debug)]
pub struct Places<K: Eq> {
    max: usize,
    share: Share,
    taken: Mutex<Vec<Taken<K>>>,
}

/// What one has taken.
#[derive(Debug)]
struct Taken<K> {
    by: K,
    count: usize,
}

/// A place, or several, until it is dropped.
#[derive(Debug)]
pub struct Place<K: Eq> {
    places: Arc<Places<K>>,
    by: K,
    count: usize,
}

impl<K: Eq + Clone> Places<K> {
    /// So many places, and this share of them for each.
    #[must_use]
    pub fn new(max: usize, share: Share) -> Arc<Self> {
        Arc::new(Self {
            max,
            share,
            taken: Mutex::default(),
        })
    }

    /// A place for this one; `None` where he has his share, or all are taken.
    pub fn take(self: &Arc<Self>, by: K) -> Option<Place<K>> {
        self.take_many(by, 1)
    }

    /// So many places for this one; `None` where that is more than is left of his share, or of all.
    pub fn take_many(self: &Arc<Self>, by: K, count: usize) -> Option<Place<K>> {
        let mut taken = self.taken();
        let all: usize = taken.iter().map(|one| one.count).sum();
        let free = self.max.saturating_sub(all);
        let is_alone = taken.iter().all(|one| one.by == by);
        let own = taken.iter_mut().find(|one| one.by == by);
        let may_have = match self.share {
            Share::All => self.max,
            Share::AtMost(most) => most,
            Share::AsManyAsFree if is_alone => self.max - self.max / RESERVED,
            Share::AsManyAsFree => free,
        };
        let has = own.as_ref().map_or(0, |own| own.count);
        if count > free || count > may_have.saturating_sub(has) {
            return None;
        }
        match own {
            Some(own) => own.count += count,
            None => taken.push(Taken {
                by: by.clone(),
                count,
            }),
        }
        drop(taken);
        Some(Place {
            places: Arc::clone(self),
            by,
            count,
        })
    }
}

impl<K: Eq> Places<K> {
    /// Whether nobody has any, and nobody is remembered.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.taken().is_empty()
    }

    fn taken(&self) -> MutexGuard<'_, Vec<Taken<K>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq> Drop for Place<K> {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        if let Some(index) = taken.iter().position(|one| one.by == self.by)
            && let Some(own) = taken.get_mut(index)
        {
            own.count -= self.count;
            if own.count == 0 {
                taken.swap_remove(index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many this one gets who asks for a hundred.
    fn got(places: &Arc<Places<u8>>, by: u8) -> Vec<Place<u8>> {
        (0..100).filter_map(|_| places.take(by)).collect()
    }

    #[test]
    fn places_are_bounded_for_each_and_for_all_and_come_back() {
        let places = Places::new(3, Share::AtMost(2));
        let mut held = got(&places, 1);
        assert_eq!(held.len(), 2);
        held.extend(places.take(2));
        assert_eq!(held.len(), 3);
        assert!(places.take(3).is_none(), "all of them");
        held.remove(0);
        assert!(places.take(1).is_some());
        held.clear();
        assert!(places.is_empty());
    }

    #[test]
    fn many_places_at_once_are_those_of_one_after_the_other() {
        let places = Places::new(10, Share::AtMost(6));
        let first = places.take_many(1, 5).expect("within the share");
        assert!(places.take_many(1, 2).is_none(), "beyond the share");
        let second = places.take_many(1, 1).expect("the rest of it");
        assert!(places.take_many(2, 5).is_none(), "beyond what is free");
        let other = places.take_many(2, 4).expect("all that is free");
        drop(first);
        assert!(places.take_many(1, 6).is_none());
        assert!(places.take_many(1, 5).is_some());
        drop((second, other));
        assert!(places.is_empty());
    }

    #[test]
    fn who_is_alone_leaves_an_eighth_and_others_half_of_what_is_free() {
        let places = Places::new(64, Share::AsManyAsFree);
        let mut held = Vec::new();
        for (by, expected) in [(1, 56), (2, 4), (3, 2), (4, 1), (5, 1)] {
            let got = got(&places, by);
            assert_eq!(got.len(), expected, "{by}");
            held.extend(got);
        }
        assert!(places.take(6).is_none());
        // What one gives back is there for whoever has less, and not for who has more.
        held.drain(..24);
        assert!(places.take(1).is_none());
        assert_eq!(got(&places, 6).len(), 12);
        // The first is alone again.
        held.truncate(32);
        held.extend(got(&places, 1));
        assert_eq!(held.len(), 56);
    }

    #[test]
    fn who_is_alone_has_all() {
        assert_eq!(got(&Places::new(64, Share::All), 1).len(), 64);
    }
}
