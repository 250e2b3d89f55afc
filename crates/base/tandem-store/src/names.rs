//! From the names in leaves to chains (RFC 6125, section 6.4): which chains answer to a host name.
//!
//! Not here: reading names out of certificates, or what sites showed. Invariant: at most so many
//! chains under one name; past that the one that was seen longest ago is no longer found by it, so
//! that certificates that all claim the same name cost bounded work at each look-up.

use std::collections::BTreeMap;

use crate::digest::ChainId;
use crate::site::{HostName, Pattern};

/// Chains by the names that their leaves answer to.
#[derive(Debug)]
pub(crate) struct NameIndex {
    chains_per_name: usize,
    chains: BTreeMap<Pattern, Vec<ChainId>>,
}

impl NameIndex {
    /// An empty index with at most this many chains under one name.
    pub(crate) const fn new(chains_per_name: usize) -> Self {
        Self {
            chains_per_name,
            chains: BTreeMap::new(),
        }
    }

    /// The chains that answer to `name`, in no order; one that does so twice comes twice.
    pub(crate) fn find(&self, name: &HostName) -> impl Iterator<Item = ChainId> {
        let (exact, wildcard) = Pattern::matching(name);
        let wildcard = wildcard.and_then(|wildcard| self.chains.get(&wildcard));
        self.chains
            .get(&exact)
            .into_iter()
            .chain(wildcard)
            .flatten()
            .copied()
    }

    /// Files a chain, the newest seen so far, under its names. `seen` tells when another chain was
    /// seen.
    pub(crate) fn insert(
        &mut self,
        names: &[Pattern],
        id: ChainId,
        seen: impl Fn(&ChainId) -> u64,
    ) {
        for name in names {
            let chains = self.chains.entry(name.clone()).or_default();
            if chains.len() >= self.chains_per_name {
                let oldest = (0..chains.len()).min_by_key(|&at| seen(&chains[at]));
                oldest.map(|at| chains.swap_remove(at));
            }
            if chains.len() < self.chains_per_name {
                chains.push(id);
            }
        }
    }

    /// Takes a chain out from under its names.
    pub(crate) fn remove(&mut self, names: &[Pattern], id: &ChainId) {
        for name in names {
            if let Some(chains) = self.chains.get_mut(name) {
                chains.retain(|other| other != id);
                if chains.is_empty() {
                    self.chains.remove(name);
                }
            }
        }
    }
}
