//! Bodies that a cache holds, for all of its sessions.
//!
//! Is not: what may be held ([`super::cache`]). In memory only: it is gone with the process.
//!
//! Invariants: all bodies, complete or arriving, and what describes them cost no more than the
//! limit; what a session has offered stays until the session is done with it; each call's work is
//! bounded by what is pinned and what has to go.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::offers::{Digest, MAX_OFFERS};

/// What an entry costs beside its bytes: the maps' own nodes, rounded up.
const OVERHEAD: usize = 512;

/// Which page, of which server: a server speaks for its own pages alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Page {
    /// The digest of the server's certificate.
    pub(crate) server: [u8; 32],
    pub(crate) host: String,
    pub(crate) target: String,
}

/// The request's headers that a response depends on (`Vary`), with all of their values.
pub(crate) type Vary = Vec<(String, Vec<Vec<u8>>)>;

/// A body.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) digest: Digest,
    pub(crate) vary: Vary,
    pub(crate) bytes: Vec<u8>,
    cost: usize,
}

/// All that is held.
#[derive(Debug)]
pub(crate) struct Held {
    max: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    used: usize,
    turn: u64,
    pages: HashMap<Page, Vec<(u64, Arc<Body>)>>,
    /// By when each was last of use.
    order: BTreeMap<u64, Page>,
}

/// Room for a body that is coming; given back where it is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    held: Arc<Held>,
    bytes: usize,
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut inner = self.held.lock();
        inner.used = inner.used.saturating_sub(self.bytes);
    }
}

impl Room {
    /// Makes it larger; `None` where there is no more.
    pub(crate) fn grow(&mut self, bytes: usize) -> Option<()> {
        let mut inner = self.held.lock();
        inner.make_room(self.held.max, bytes)?;
        self.bytes += bytes;
        Some(())
    }
}

impl Held {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
            inner: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for a body that has not come yet.
    pub(crate) fn room(self: &Arc<Self>) -> Room {
        Room {
            held: Arc::clone(self),
            bytes: 0,
        }
    }

    /// The bodies of a page that `fits` takes, the latest first.
    pub(crate) fn find(&self, page: &Page, fits: impl Fn(&Vary) -> bool) -> Vec<Arc<Body>> {
        let inner = self.lock();
        let bodies = inner.pages.get(page).map(Vec::as_slice).unwrap_or_default();
        let bodies = bodies.iter().rev().map(|(_, body)| body);
        let found = bodies.filter(|body| fits(&body.vary)).cloned();
        found.take(MAX_OFFERS).collect()
    }

    /// Says that a body was of use.
    pub(crate) fn touch(&self, page: &Page, digest: Digest) {
        let mut inner = self.lock();
        if let Some(body) = inner.take(page, |body| body.digest == digest) {
            inner.put(page.clone(), body);
        }
    }

    /// Keeps a body, for which there is room.
    pub(crate) fn keep(&self, page: Page, vary: Vary, mut bytes: Vec<u8>, room: Room) {
        let digest = Digest::of(&bytes);
        bytes.shrink_to_fit();
        let names = vary.iter().map(|(name, values)| {
            name.len() + values.iter().map(|value| value.len() + 64).sum::<usize>()
        });
        // The page is in both maps.
        let words = 2 * (page.host.len() + page.target.len()) + names.sum::<usize>();
        let cost = bytes.capacity() + words + OVERHEAD;
        drop(room);
        let mut inner = self.lock();
        // One of each kind: the later one replaces what is the same, or stands for the same.
        drop(inner.remove(&page, |body| body.digest == digest && body.vary == vary));
        if inner
            .pages
            .get(&page)
            .is_some_and(|all| all.len() >= MAX_OFFERS)
        {
            drop(inner.remove(&page, |_| true));
        }
        if inner.make_room(self.max, cost).is_some() {
            let body = Body {
                digest,
                vary,
                bytes,
                cost,
            };
            inner.put(page, Arc::new(body));
        }
    }

    /// How much is used.
    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.lock().used
    }
}

impl Inner {
    /// Lets go of what was of no use for longest until there is room.
    fn make_room(&mut self, max: usize, bytes: usize) -> Option<()> {
        while self.used.saturating_add(bytes) > max {
            let oldest = self.order.iter().find_map(|(turn, page)| {
                let body = self.pages.get(page)?.iter().find(|(at, _)| at == turn)?;
                // A session that has offered it may still need it.
                (Arc::strong_count(&body.1) == 1).then(|| (*turn, page.clone()))
            });
            let (turn, page) = oldest?;
            self.forget(turn, &page);
        }
        self.used += bytes;
        Some(())
    }

    fn forget(&mut self, turn: u64, page: &Page) {
        self.order.remove(&turn);
        let Some(bodies) = self.pages.get_mut(page) else {
            return;
        };
        if let Some(at) = bodies.iter().position(|(of, _)| *of == turn) {
            let (_, body) = bodies.remove(at);
            self.used = self.used.saturating_sub(body.cost);
        }
        if bodies.is_empty() {
            self.pages.remove(page);
        }
    }

    /// Takes out the oldest that `is` takes; its room stays taken.
    fn take(&mut self, page: &Page, is: impl Fn(&Body) -> bool) -> Option<Arc<Body>> {
        let bodies = self.pages.get(page)?;
        let (turn, body) = bodies.iter().find(|(_, body)| is(body))?;
        let (turn, body) = (*turn, Arc::clone(body));
        self.forget(turn, page);
        self.used += body.cost;
        Some(body)
    }

    fn remove(&mut self, page: &Page, is: impl Fn(&Body) -> bool) -> Option<Arc<Body>> {
        let body = self.take(page, is)?;
        self.used = self.used.saturating_sub(body.cost);
        Some(body)
    }

    fn put(&mut self, page: Page, body: Arc<Body>) {
        self.turn += 1;
        self.order.insert(self.turn, page.clone());
        self.pages.entry(page).or_default().push((self.turn, body));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(target: &str) -> Page {
        Page {
            server: [0; 32],
            host: "a.example".into(),
            target: target.into(),
        }
    }

    fn keep(held: &Arc<Held>, target: &str, bytes: &[u8]) {
        let mut room = held.room();
        if room.grow(bytes.len()).is_some() {
            held.keep(page(target), Vary::new(), bytes.to_vec(), room);
        }
    }

    fn count(held: &Held, target: &str) -> usize {
        held.find(&page(target), |_| true).len()
    }

    #[test]
    fn what_was_of_no_use_for_longest_goes_and_the_limit_holds() {
        let held = Arc::new(Held::new(4000));
        for target in ["/1", "/2", "/3"] {
            keep(&held, target, target.repeat(250).as_bytes());
        }
        held.touch(&page("/1"), Digest::of("/1".repeat(250).as_bytes()));
        keep(&held, "/4", &[4; 500]);
        assert!(held.used() <= 4000, "{}", held.used());
        let left = ["/1", "/2", "/3", "/4"].map(|target| count(&held, target));
        assert_eq!(left, [1, 0, 1, 1]);
        keep(&held, "/5", &[5; 4000]);
        assert_eq!(count(&held, "/5"), 0, "more than there is room for");
    }

    #[test]
    fn what_was_offered_stays_and_its_room_is_not_given_twice() {
        let held = Arc::new(Held::new(1200));
        keep(&held, "/1", &[1; 500]);
        let offered = held.find(&page("/1"), |_| true);
        keep(&held, "/2", &[2; 500]);
        assert_eq!((count(&held, "/1"), count(&held, "/2")), (1, 0));
        drop(offered);
        keep(&held, "/2", &[2; 500]);
        assert_eq!((count(&held, "/1"), count(&held, "/2")), (0, 1));
    }

    #[test]
    fn a_body_that_does_not_come_to_its_end_gives_its_room_back() {
        let held = Arc::new(Held::new(1000));
        let mut room = held.room();
        assert!(room.grow(900).is_some());
        assert!(room.grow(200).is_none());
        assert_eq!(held.used(), 900);
        drop(room);
        assert_eq!(held.used(), 0);
    }

    #[test]
    fn a_page_has_so_many_bodies_and_each_once() {
        let held = Arc::new(Held::new(1 << 20));
        for number in 0..20 {
            keep(&held, "/", &[number / 2; 10]);
        }
        assert_eq!(count(&held, "/"), MAX_OFFERS);
        let latest = held.find(&page("/"), |_| true);
        assert_eq!(latest[0].bytes, [9; 10]);
    }
}
