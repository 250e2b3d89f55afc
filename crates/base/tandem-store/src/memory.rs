//! The store in memory: contents that nobody writes down.
//!
//! Not here: a disk. A store on disk has the same contents, and becomes exactly this when the disk
//! fails. Invariant: every certificate in the catalogue has its bytes here.

use std::sync::Arc;

use tandem_wire::clock::UnixTime;

use crate::contents::Contents;
use crate::digest::{ChainId, Digest};
use crate::limits::Limits;
use crate::purge::{Purge, Purged};
use crate::site::Site;
use crate::store::{Chain, Health, Store};

/// A store that is gone when the process ends.
#[derive(Debug)]
pub struct MemoryStore {
    contents: Contents,
}

impl MemoryStore {
    /// An empty store. Of the two limits on bytes the lower counts, since all is in memory.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            contents: Contents::in_memory_only(limits),
        }
    }

    /// Removes what expired long ago (see [`Limits::keep_expired`]), and says how much. Not needed
    /// for right answers: what has expired is not expected of anyone.
    pub fn expire(&mut self, now: UnixTime) -> usize {
        let removed = self.contents.catalogue.expire(now);
        self.contents.settle();
        self.forget_changes();
        removed
    }

    /// Removes what `what` says.
    pub fn purge(&mut self, what: &Purge) -> Purged {
        let purged = what.apply(&mut self.contents.catalogue);
        self.contents.settle();
        self.forget_changes();
        purged
    }

    fn forget_changes(&mut self) {
        self.contents.catalogue.forget_changes();
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Store for MemoryStore {
    fn certificate(&mut self, digest: &Digest) -> Option<Arc<[u8]>> {
        let body = self.contents.body(digest);
        self.forget_changes();
        body
    }

    fn certificate_by_prefix(&mut self, prefix: &[u8; 16]) -> Option<(Digest, Arc<[u8]>)> {
        let digest = self.contents.catalogue.certificate_by_prefix(prefix)?;
        Some((digest, self.certificate(&digest)?))
    }

    fn chain(&mut self, id: &ChainId) -> Option<Chain> {
        let certificates = self
            .contents
            .catalogue
            .chains()
            .get(id)?
            .certificates
            .clone();
        self.contents.catalogue.touch_chain(id);
        self.forget_changes();
        Some(Chain {
            id: *id,
            certificates,
        })
    }

    fn chain_by_prefix(&mut self, prefix: &[u8]) -> Option<Chain> {
        let id = self.contents.catalogue.chain_by_prefix(prefix)?;
        self.chain(&id)
    }

    fn chains_for(&mut self, site: &Site, now: UnixTime, limit: usize) -> Vec<ChainId> {
        self.contents.catalogue.expected(site, now, limit)
    }

    fn learn(&mut self, site: Option<&Site>, chain: &[&[u8]], now: UnixTime) -> ChainId {
        let id = self.contents.take_in(site, chain, now);
        self.forget_changes();
        id
    }

    fn client_chains(&self, limit: usize) -> Vec<ChainId> {
        self.contents.catalogue.without_site(limit)
    }

    fn health(&self) -> Health {
        self.contents.health()
    }
}
