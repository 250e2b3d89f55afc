//! From the names in leaves to objects (RFC 6125, section 6.4): which chains answer to a host name.
//!
//! Not here: reading names out of certificates, or what sites showed. Invariant: at most so many
//! objects under one name; past that the one that was seen longest ago is no longer found by it, so
//! that certificates that all claim the same name cost bounded work at each look-up.

use std::collections::BTreeMap;

use crate::key::Key;
use crate::site::{HostName, Pattern};

/// Objects by the names that their leaves answer to.
#[derive(Debug)]
pub(crate) struct NameIndex {
    objects_per_name: usize,
    objects: BTreeMap<Pattern, Vec<Key>>,
}

impl NameIndex {
    /// An empty index with at most this many objects under one name.
    pub(crate) const fn new(objects_per_name: usize) -> Self {
        Self {
            objects_per_name,
            objects: BTreeMap::new(),
        }
    }

    /// The objects that answer to `name`, in no order; one that does so twice comes twice.
    pub(crate) fn find(&self, name: &HostName) -> impl Iterator<Item = Key> {
        let (exact, wildcard) = Pattern::matching(name);
        let wildcard = wildcard.and_then(|wildcard| self.objects.get(&wildcard));
        self.objects
            .get(&exact)
            .into_iter()
            .chain(wildcard)
            .flatten()
            .copied()
    }

    /// Files an object, the newest seen so far, under its names. `seen` tells when another one was
    /// seen.
    pub(crate) fn insert(&mut self, names: &[Pattern], key: Key, seen: impl Fn(&Key) -> u64) {
        for name in names {
            let objects = self.objects.entry(name.clone()).or_default();
            if objects.len() >= self.objects_per_name {
                let oldest = (0..objects.len()).min_by_key(|&at| seen(&objects[at]));
                oldest.map(|at| objects.swap_remove(at));
            }
            if objects.len() < self.objects_per_name {
                objects.push(key);
            }
        }
    }

    /// Takes an object out from under its names.
    pub(crate) fn remove(&mut self, names: &[Pattern], key: &Key) {
        for name in names {
            if let Some(objects) = self.objects.get_mut(name) {
                objects.retain(|other| other != key);
                if objects.is_empty() {
                    self.objects.remove(name);
                }
            }
        }
    }
}
