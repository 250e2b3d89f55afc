//! The catalogue and the bytes together: what a store has in memory.
//!
//! Not here: a disk, or who asks. Invariant: every part in the catalogue has its bytes here,
//! unless a disk behind has them.

use std::sync::Arc;

use tandem_wire::clock::UnixTime;

use crate::bodies::Bodies;
use crate::catalogue::{Catalogue, ObjectEntry};
use crate::digest::{Digest, ObjectId};
use crate::key::Key;
use crate::kind::Kind;
use crate::limits::Limits;
use crate::site::Site;
use crate::store::{Health, Keeping, Object};
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

    /// The bytes of a part, if they are in memory.
    pub fn body(&mut self, digest: &Digest) -> Option<Arc<[u8]>> {
        let body = self.bodies.find(digest)?;
        self.catalogue.touch_part(digest);
        Some(body)
    }

    /// See [`Store::object`](crate::Store::object).
    pub fn object(&mut self, key: Key) -> Option<Object> {
        let parts = self.catalogue.objects().get(&key)?.parts.clone();
        self.catalogue.touch(&key);
        let Key { id, kind } = key;
        Some(Object { kind, id, parts })
    }

    /// See [`Store::learn`](crate::Store::learn); what changed remains to be asked of the
    /// catalogue.
    pub fn take_in(
        &mut self,
        kind: Kind,
        site: Option<&Site>,
        parts: &[&[u8]],
        now: UnixTime,
    ) -> ObjectId {
        let id = kind.id_of(parts);
        let key = Key { id, kind };
        if !self.catalogue.refresh(&key, now) {
            if !self.catalogue.accepts(kind, parts) {
                return id;
            }
            self.add(key, parts, now);
        }
        if let Some(site) = site {
            self.catalogue.observe(site, &key, now);
        }
        self.settle();
        id
    }

    fn add(&mut self, key: Key, parts: &[&[u8]], now: UnixTime) {
        let digests: Vec<Digest> = parts.iter().map(|part| Digest::of(part)).collect();
        let lengths: Vec<u64> = parts.iter().map(|part| count(part.len())).collect();
        let names = self.catalogue.limits().names_per_leaf;
        let first = parts.first().copied().unwrap_or_default();
        let facts = LeafFacts::read(key.kind.row().reading, first, names);
        let entry = ObjectEntry::new(digests.clone(), facts, now);
        let fresh = self.catalogue.add(key, &lengths, entry);
        for (digest, part) in digests.iter().zip(parts) {
            if fresh.contains(digest) {
                self.bodies.pin(*digest, Arc::from(*part));
            }
        }
    }

    /// Gives up what there is no room for, and the bytes of what was given up.
    pub fn settle(&mut self) {
        self.catalogue.shrink();
        for digest in core::mem::take(&mut self.catalogue.changes_mut().dropped) {
            if !self.catalogue.parts().contains_key(&digest) {
                self.bodies.remove(&digest);
            }
        }
    }

    /// How a store without a disk is doing.
    #[must_use]
    pub fn health(&self) -> Health {
        Health {
            keeping: Keeping::Memory,
            parts: count(self.catalogue.parts().len()),
            objects: count(self.catalogue.objects().len()),
            bytes: self.catalogue.bytes(),
            evicted: self.catalogue.evicted(),
            unwritten_bytes: 0,
            disk_reads: 0,
            disk_errors: 0,
        }
    }
}

fn count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
