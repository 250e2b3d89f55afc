//! The store in memory: contents that nobody writes down.
//!
//! Not here: a disk. A store on disk has the same contents, and becomes exactly this when the disk
//! fails. Invariant: every part in the catalogue has its bytes here.

use std::sync::Arc;

use tandem_wire::clock::UnixTime;

use crate::contents::Contents;
use crate::digest::{Digest, ObjectId};
use crate::key::Key;
use crate::kind::Kind;
use crate::limits::Limits;
use crate::purge::{Purge, Purged};
use crate::site::Site;
use crate::store::{Health, Latest, Object, Store};

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
    fn part(&mut self, digest: &Digest) -> Option<Arc<[u8]>> {
        let body = self.contents.body(digest);
        self.forget_changes();
        body
    }

    fn part_by_prefix(&mut self, prefix: &[u8; 16]) -> Option<(Digest, Arc<[u8]>)> {
        let digest = self.contents.catalogue.part_by_prefix(prefix)?;
        Some((digest, self.part(&digest)?))
    }

    fn holds(&self, kind: Kind, id: &ObjectId) -> bool {
        self.contents.catalogue.holds(&Key { id: *id, kind })
    }

    fn object(&mut self, kind: Kind, id: &ObjectId) -> Option<Object> {
        let object = self.contents.object(Key { id: *id, kind });
        self.forget_changes();
        object
    }

    fn object_by_prefix(&mut self, prefix: &[u8]) -> Option<Object> {
        let key = self.contents.catalogue.object_by_prefix(prefix)?;
        self.object(key.kind, &key.id)
    }

    fn expected(&mut self, kind: Kind, site: &Site, now: UnixTime, limit: usize) -> Vec<ObjectId> {
        self.contents.catalogue.expected(kind, site, now, limit)
    }

    fn learn(
        &mut self,
        kind: Kind,
        site: Option<&Site>,
        parts: &[&[u8]],
        now: UnixTime,
    ) -> ObjectId {
        let id = self.contents.take_in(kind, site, parts, now);
        self.forget_changes();
        id
    }

    fn unexpected(&self, kind: Kind, limit: usize) -> Vec<ObjectId> {
        self.contents.catalogue.unexpected(kind, limit)
    }

    fn latest(&self, kind: Kind, limit: usize) -> Vec<Latest> {
        self.contents.catalogue.latest(kind, limit)
    }

    fn health(&self) -> Health {
        self.contents.health()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody writes changes down here, and bytes of what is gone are of no use.
    #[test]
    fn neither_changes_nor_bytes_of_what_is_gone_pile_up() {
        let mut store = MemoryStore::default();
        let now = UnixTime(1_749_988_800);
        let kept = store.learn(Kind::Staple, Some(&Site::Any), &[b"kept"], now);
        store.learn(Kind::Staple, None, &[b"gone"], UnixTime(0));
        assert!(store.contents.catalogue.changes_mut().is_empty());
        assert_eq!(store.contents.bodies.pinned_bytes(), 8);
        store.purge(&Purge::NotSeenSince(now));
        assert_eq!(store.contents.bodies.pinned_bytes(), 4);
        assert!(store.contents.bodies.peek(kept.digest()).is_some());
        let changes = store.contents.catalogue.changes_mut();
        assert!(changes.is_empty() && changes.dropped.is_empty());
    }
}
