//! Who may knock: so many connections that have not shown a key yet, in all and from one address;
//! and so many of one client.
//!
//! Is not: which keys are admitted; the channel asks the settings.
//!
//! Invariant: what is counted here is bounded, and a place is free again when what it was given for
//! is dropped.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Handshakes at a time.
const MAX_STRANGERS: usize = 256;
/// Of these, from one address: workers of a web server start at once. Those beyond try again.
const MAX_FROM_ADDRESS: usize = 64;
/// Connections of one client: some for each of its processes, which share its key.
const MAX_OF_PEER: usize = 1_024;

/// Places that are taken, by whom.
#[derive(Debug)]
pub(crate) struct Places<K: Ord> {
    taken: Arc<Mutex<BTreeMap<K, usize>>>,
    max: usize,
    max_each: usize,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place<K: Ord> {
    taken: Arc<Mutex<BTreeMap<K, usize>>>,
    by: K,
}

impl Places<IpAddr> {
    pub(crate) fn of_strangers() -> Self {
        Self::new(MAX_STRANGERS, MAX_FROM_ADDRESS)
    }
}

impl Places<[u8; 32]> {
    pub(crate) fn of_peers() -> Self {
        Self::new(usize::MAX, MAX_OF_PEER)
    }
}

impl<K: Ord + Clone> Places<K> {
    fn new(max: usize, max_each: usize) -> Self {
        Self {
            taken: Arc::default(),
            max,
            max_each,
        }
    }

    /// A place, if there is one.
    pub(crate) fn take(&self, by: &K) -> Option<Place<K>> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = taken.values().sum();
        let own = taken.get(by).copied().unwrap_or_default();
        if all >= self.max || own >= self.max_each {
            return None;
        }
        taken.insert(by.clone(), own + 1);
        Some(Place {
            taken: Arc::clone(&self.taken),
            by: by.clone(),
        })
    }
}

impl<K: Ord> Drop for Place<K> {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&self.by) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.by);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_has_more_than_its_share_and_a_place_comes_back() {
        let places = Places::new(3, 2);
        let first = places.take(&1);
        let second = places.take(&1);
        assert!(first.is_some() && second.is_some());
        assert!(places.take(&1).is_none(), "its own share");
        let third = places.take(&2);
        assert!(third.is_some());
        assert!(places.take(&3).is_none(), "all of them");
        drop(first);
        assert!(places.take(&3).is_some());
        drop((second, third));
        let left = places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(left.is_empty(), "{left:?}");
    }
}
