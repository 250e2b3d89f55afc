//! The bytes of parts that are in memory: some pinned, the others let go when there are too
//! many, least recently used first.
//!
//! Not here: which parts the store holds (the catalogue knows), or the disk. Invariant:
//! pinned bytes are never let go; the others together never exceed the limit.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::digest::Digest;

/// Bytes by digest.
#[derive(Debug)]
pub struct Bodies {
    limit: u64,
    held: BTreeMap<Digest, Body>,
    /// Those that may be let go, by when they were last used.
    order: BTreeMap<u64, Digest>,
    turn: u64,
    pinned_bytes: u64,
    loose_bytes: u64,
}

#[derive(Debug)]
struct Body {
    bytes: Arc<[u8]>,
    pin: Pin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pin {
    /// Held nowhere else.
    Pinned,
    /// Held on disk too; last used at this turn.
    Loose(u64),
}

impl Bodies {
    /// Bytes in memory, of which at most `limit` that are not pinned.
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            held: BTreeMap::new(),
            order: BTreeMap::new(),
            turn: 0,
            pinned_bytes: 0,
            loose_bytes: 0,
        }
    }

    /// The bytes, if they are in memory. Counts as use.
    pub fn find(&mut self, digest: &Digest) -> Option<Arc<[u8]>> {
        let body = self.held.get_mut(digest)?;
        match body.pin {
            Pin::Pinned => {}
            Pin::Loose(last) => {
                self.turn += 1;
                self.order.remove(&last);
                self.order.insert(self.turn, *digest);
                body.pin = Pin::Loose(self.turn);
            }
        }
        Some(Arc::clone(&body.bytes))
    }

    /// The bytes, if they are in memory. Does not count as use.
    pub fn peek(&self, digest: &Digest) -> Option<Arc<[u8]>> {
        self.held.get(digest).map(|body| Arc::clone(&body.bytes))
    }

    /// Takes in bytes that are held nowhere else.
    pub fn pin(&mut self, digest: Digest, bytes: Arc<[u8]>) {
        self.remove(&digest);
        self.pinned_bytes += length(&bytes);
        let pin = Pin::Pinned;
        self.held.insert(digest, Body { bytes, pin });
    }

    /// Takes in bytes that are on disk too.
    pub fn add_loose(&mut self, digest: Digest, bytes: Arc<[u8]>) {
        self.remove(&digest);
        self.turn += 1;
        self.loose_bytes += length(&bytes);
        self.order.insert(self.turn, digest);
        let pin = Pin::Loose(self.turn);
        self.held.insert(digest, Body { bytes, pin });
        self.shrink();
    }

    /// Lets pinned bytes go when there is need, for they are now on disk.
    pub fn unpin(&mut self, digest: &Digest) {
        let Some(body) = self.held.get_mut(digest) else {
            return;
        };
        match body.pin {
            Pin::Loose(_) => {}
            Pin::Pinned => {
                self.turn += 1;
                body.pin = Pin::Loose(self.turn);
                let bytes = length(&body.bytes);
                self.pinned_bytes -= bytes;
                self.loose_bytes += bytes;
                self.order.insert(self.turn, *digest);
                self.shrink();
            }
        }
    }

    /// Pins everything: from now on memory is all there is.
    pub fn pin_all(&mut self) {
        self.order.clear();
        for body in self.held.values_mut() {
            body.pin = Pin::Pinned;
        }
        self.pinned_bytes += core::mem::take(&mut self.loose_bytes);
    }

    /// Forgets the bytes.
    pub fn remove(&mut self, digest: &Digest) {
        let Some(body) = self.held.remove(digest) else {
            return;
        };
        match body.pin {
            Pin::Pinned => self.pinned_bytes -= length(&body.bytes),
            Pin::Loose(last) => {
                self.order.remove(&last);
                self.loose_bytes -= length(&body.bytes);
            }
        }
    }

    /// Bytes that are held nowhere else.
    pub const fn pinned_bytes(&self) -> u64 {
        self.pinned_bytes
    }

    /// Whether bytes of this length fit without letting others go.
    pub const fn has_room(&self, bytes: u64) -> bool {
        self.loose_bytes.saturating_add(bytes) <= self.limit
    }

    fn shrink(&mut self) {
        while self.loose_bytes > self.limit {
            let Some((_, digest)) = self.order.pop_first() else {
                return;
            };
            if let Some(body) = self.held.remove(&digest) {
                self.loose_bytes -= length(&body.bytes);
            }
        }
    }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(n: u8) -> (Digest, Arc<[u8]>) {
        let bytes = [n; 10];
        (Digest::of(&bytes), Arc::from(bytes))
    }

    #[test]
    fn the_least_recently_used_go_first() {
        let mut bodies = Bodies::new(30);
        let all = [0, 1, 2, 3].map(body);
        for (digest, bytes) in &all[..3] {
            bodies.add_loose(*digest, Arc::clone(bytes));
        }
        assert!(!bodies.has_room(1));
        assert!(
            bodies.find(&all[0].0).is_some(),
            "used: now 1 is the oldest"
        );
        bodies.add_loose(all[3].0, Arc::clone(&all[3].1));
        assert_eq!(
            all.each_ref()
                .map(|(digest, _)| bodies.peek(digest).is_some()),
            [true, false, true, true]
        );
        // From here on in the order of use: 2, then 0, which was used after it.
        let (digest, bytes) = body(4);
        bodies.add_loose(digest, bytes);
        let held = all
            .each_ref()
            .map(|(digest, _)| bodies.peek(digest).is_some());
        assert_eq!(held, [true, false, false, true]);
    }

    #[test]
    fn pinned_bytes_stay_until_they_are_unpinned() {
        let mut bodies = Bodies::new(10);
        let all = [0, 1, 2].map(body);
        for (digest, bytes) in &all {
            bodies.pin(*digest, Arc::clone(bytes));
        }
        assert_eq!(bodies.pinned_bytes(), 30);
        for ((digest, _), left) in all.iter().zip([20, 10, 0]) {
            assert!(bodies.find(digest).is_some());
            bodies.unpin(digest);
            assert_eq!(bodies.pinned_bytes(), left);
        }
        assert_eq!(
            all.each_ref()
                .map(|(digest, _)| bodies.peek(digest).is_some()),
            [false, false, true]
        );
        bodies.pin_all();
        assert_eq!(bodies.pinned_bytes(), 10);
        bodies.remove(&all[2].0);
        assert_eq!(bodies.pinned_bytes(), 0);
    }

    #[test]
    fn what_is_removed_leaves_its_room() {
        let mut bodies = Bodies::new(30);
        for (digest, bytes) in [0, 1].map(body) {
            bodies.add_loose(digest, bytes);
        }
        assert!(bodies.has_room(10) && !bodies.has_room(11));
        bodies.remove(&body(0).0);
        assert!(bodies.has_room(20) && !bodies.has_room(21));
    }

    #[test]
    fn what_is_larger_than_the_limit_is_not_kept() {
        let mut bodies = Bodies::new(9);
        let (digest, bytes) = body(0);
        bodies.add_loose(digest, bytes);
        assert!(bodies.peek(&digest).is_none());
        assert!(bodies.has_room(9));
    }
}
