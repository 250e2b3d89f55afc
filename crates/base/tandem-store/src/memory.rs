//! The store in memory: the catalogue and the bytes.
//!
//! Not here: a disk. The SQLite store is this with a disk behind it, and becomes exactly this when
//! the disk fails. Invariant: every certificate in the catalogue has its bytes here, unless a disk
//! behind has them.

use std::sync::Arc;

use tandem_wire::clock::UnixTime;

use crate::bodies::Bodies;
use crate::catalogue::{Catalogue, ChainEntry};
use crate::digest::{ChainId, Digest};
use crate::limits::Limits;
use crate::purge::{Purge, Purged};
use crate::site::Site;
use crate::store::{Chain, Health, Keeping, Store};
use crate::x509::LeafFacts;

/// A store that is gone when the process ends.
#[derive(Debug)]
pub struct MemoryStore {
    pub(crate) catalogue: Catalogue,
    pub(crate) bodies: Bodies,
}

impl MemoryStore {
    /// An empty store. Of the two limits on bytes the lower counts, since all is in memory.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let bytes = limits.bytes.min(limits.front_bytes);
        Self::in_front_of_disk(Limits { bytes, ..limits })
    }

    /// An empty store whose catalogue may be larger than memory.
    pub(crate) fn in_front_of_disk(limits: Limits) -> Self {
        let bodies = Bodies::new(limits.front_bytes);
        Self {
            catalogue: Catalogue::new(limits),
            bodies,
        }
    }

    /// Removes what expired long ago (see [`Limits::keep_expired`]), and says how much. Not needed
    /// for right answers: what has expired is not expected of anyone.
    pub fn expire(&mut self, now: UnixTime) -> usize {
        let removed = self.catalogue.expire(now);
        self.settle();
        self.forget_changes();
        removed
    }

    /// Removes what `what` says.
    pub fn purge(&mut self, what: &Purge) -> Purged {
        let purged = what.apply(&mut self.catalogue);
        self.settle();
        self.forget_changes();
        purged
    }

    /// The bytes of a certificate, if they are in memory.
    pub(crate) fn body(&mut self, digest: &Digest) -> Option<Arc<[u8]>> {
        let body = self.bodies.find(digest)?;
        self.catalogue.touch_certificate(digest);
        Some(body)
    }

    /// See [`Store::learn`]; what changed remains to be asked of the catalogue.
    pub(crate) fn take_in(
        &mut self,
        site: Option<&Site>,
        chain: &[&[u8]],
        now: UnixTime,
    ) -> ChainId {
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
    pub(crate) fn hold(&mut self, der: &[u8], now: UnixTime) -> Option<Digest> {
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
    pub(crate) fn settle(&mut self) {
        self.catalogue.shrink();
        for digest in core::mem::take(&mut self.catalogue.changes_mut().dropped) {
            if !self.catalogue.certificates().contains_key(&digest) {
                self.bodies.remove(&digest);
            }
        }
    }

    fn forget_changes(&mut self) {
        self.catalogue.forget_changes();
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Store for MemoryStore {
    fn certificate(&mut self, digest: &Digest) -> Option<Arc<[u8]>> {
        let body = self.body(digest);
        self.forget_changes();
        body
    }

    fn certificate_by_prefix(&mut self, prefix: &[u8; 16]) -> Option<(Digest, Arc<[u8]>)> {
        let digest = self.catalogue.certificate_by_prefix(prefix)?;
        Some((digest, self.certificate(&digest)?))
    }

    fn chain(&mut self, id: &ChainId) -> Option<Chain> {
        let certificates = self.catalogue.chains().get(id)?.certificates.clone();
        self.catalogue.touch_chain(id);
        self.forget_changes();
        Some(Chain {
            id: *id,
            certificates,
        })
    }

    fn chain_by_prefix(&mut self, prefix: &[u8]) -> Option<Chain> {
        let id = self.catalogue.chain_by_prefix(prefix)?;
        self.chain(&id)
    }

    fn chains_for(&mut self, site: &Site, now: UnixTime, limit: usize) -> Vec<ChainId> {
        self.catalogue.expected(site, now, limit)
    }

    fn learn(&mut self, site: Option<&Site>, chain: &[&[u8]], now: UnixTime) -> ChainId {
        let id = self.take_in(site, chain, now);
        self.forget_changes();
        id
    }

    fn client_chains(&self, limit: usize) -> Vec<ChainId> {
        self.catalogue.without_site(limit)
    }

    fn health(&self) -> Health {
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
