//! So many places, and so many for each client.
//!
//! Is not: what a place is for.
//!
//! Invariant: a place that is dropped is free again.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the module.
pub(crate) struct Places {
    max: usize,
    max_each: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    of: HashMap<IpAddr, usize>,
}

/// A place, until it is dropped.
pub(crate) struct Place {
    places: Arc<Places>,
    client: IpAddr,
}

impl Places {
    pub(crate) fn new(max: usize, max_each: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            max_each,
            taken: Mutex::default(),
        })
    }

    /// A place for this client; `None` where it has too many, or all have.
    pub(crate) fn take(self: &Arc<Self>, client: IpAddr) -> Option<Place> {
        let mut taken = self.taken();
        let its = taken.of.get(&client).copied().unwrap_or(0);
        if taken.all >= self.max || its >= self.max_each {
            return None;
        }
        taken.all += 1;
        taken.of.insert(client, its + 1);
        Some(Place {
            places: Arc::clone(self),
            client,
        })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.all -= 1;
        if let Some(its) = taken.of.get_mut(&self.client) {
            *its -= 1;
            if *its == 0 {
                taken.of.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn places_are_bounded_for_each_and_for_all_and_come_back() {
        let places = Places::new(3, 2);
        let client = |last| IpAddr::from(Ipv4Addr::new(192, 0, 2, last));
        let mut held: Vec<Place> = (0..2).map_while(|_| places.take(client(1))).collect();
        assert_eq!(held.len(), 2);
        assert!(places.take(client(1)).is_none());
        held.extend(places.take(client(2)));
        assert_eq!(held.len(), 3);
        assert!(places.take(client(3)).is_none());
        held.remove(0);
        assert!(places.take(client(1)).is_some());
        held.clear();
        let taken = places.taken();
        assert_eq!((taken.all, taken.of.len()), (0, 0));
    }
}
