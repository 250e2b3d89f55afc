//! The catalogue and the bytes together: what a store has in memory.
//!
//! Not here: a disk, or who asks. Invariant: every certificate in the catalogue has its bytes here,
//! unless a disk behind has them.

use std::sync::Arc;

use tandem_wire::clock::UnixTime;

use crate::bodies::Bodies;
use crate::catalogue::{Catalogue, ChainEntry};
use crate::digest::{ChainId, Digest};
use crate::limits::Limits;
use crate::site::Site;
use crate::store::{Health, Keeping};
use crate::x509::LeafFacts;

/// What a store has in memory.
#[derive(Debug)]
pub struct Contents {
    /// What is held, and of whom it is expected.
    pub catalogue: Catalogue,
    /// The bytes.
    pub bodies: Bodies,
}

impl Contents {
    /// Nothing. The catalogue may be larger than memory.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let bodies = Bodies::new(limits.front_bytes);
        Self {
            catalogue: Catalogue::new(limits),
            bodies,
        }
    }

    /// Nothing, and no disk behind: of the two limits on bytes the lower counts.
    #[must_use]
    pub fn in_memory_only(limits: Limits) -> Self {
        let bytes = limits.bytes.min(limits.front_bytes);
        Self::new(Limits { bytes, ..limits })
    }

    /// The bytes of a certificate, if they are in memory.
    pub fn body(&mut self, digest: &Digest) -> Option<Arc<[u8]>> {
        let body = self.bodies.find(digest)?;
        self.catalogue.touch_certificate(digest);
        Some(body)
    }

    /// See [`Store::learn`](crate::Store::learn); what changed remains to be asked of the
    /// catalogue.
    pub fn take_in(&mut self, site: Option<&Site>, chain: &[&[u8]], now: UnixTime) -> ChainId {
        let id = ChainId::of(chain);
        if !self.catalogue.refresh(&id, now) {
            if !self.catalogue.accepts(chain) {
                return id;
            }
            self.add_chain(id, chain, now);
        }
        if let Some(site) = site {
            self.catalogue.observe(site, &id, now);
        }
        self.settle();
        id
    }

    fn add_chain(&mut self, id: ChainId, chain: &[&[u8]], now: UnixTime) {
        let digests: Vec<Digest> = chain.iter().map(|der| Digest::of(der)).collect();
        let lengths: Vec<u64> = chain.iter().map(|der| length(der)).collect();
        let names = self.catalogue.limits().names_per_leaf;
        let facts = chain
            .first()
            .map_or_else(LeafFacts::default, |leaf| LeafFacts::of(leaf, names));
        let entry = ChainEntry::new(digests.clone(), facts, now);
        let fresh = self.catalogue.add_chain(id, &lengths, entry);
        for (digest, der) in digests.iter().zip(chain) {
            if fresh.contains(digest) {
                self.bodies.pin(*digest, Arc::from(*der));
            }
        }
    }

    /// Holds one certificate for itself. `None` if it is empty or beyond the limits.
    pub fn hold(&mut self, der: &[u8], now: UnixTime) -> Option<Digest> {
        if !self.catalogue.accepts(&[der]) {
            return None;
        }
        let digest = Digest::of(der);
        let not_after = LeafFacts::of(der, 0).not_after;
        if self
            .catalogue
            .add_single(digest, length(der), not_after, now)
        {
            self.bodies.pin(digest, Arc::from(der));
        }
        self.settle();
        Some(digest)
    }

    /// Gives up what there is no room for, and the bytes of what was given up.
    pub fn settle(&mut self) {
        self.catalogue.shrink();
        for digest in core::mem::take(&mut self.catalogue.changes_mut().dropped) {
            if !self.catalogue.certificates().contains_key(&digest) {
                self.bodies.remove(&digest);
            }
        }
    }

    /// How a store without a disk is doing.
    #[must_use]
    pub fn health(&self) -> Health {
        Health {
            keeping: Keeping::Memory,
            certificates: count(self.catalogue.certificates().len()),
            chains: count(self.catalogue.chains().len()),
            bytes: self.catalogue.bytes(),
            evicted: self.catalogue.evicted(),
            unwritten_bytes: 0,
            disk_reads: 0,
            disk_errors: 0,
        }
    }
}

fn length(bytes: &[u8]) -> u64 {
    count(bytes.len())
}

fn count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
