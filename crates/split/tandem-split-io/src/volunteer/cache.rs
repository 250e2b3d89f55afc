//! What a volunteer has: payloads and lists, in memory and on disk.
//!
//! Is not: a cache of pages. It knows no URL and no site, only digests.
//!
//! Invariants: what is handed out has its digest; memory and disk are bounded; a disk that fails
//! costs speed alone.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tandem_split::{List, ObjectName, Payload, PayloadName};
use tokio::sync::Semaphore;

use super::disk::{Disk, Key};
use tandem_daemon::metrics::Number;

/// Things that may wait to be written to disk.
const WRITES: usize = 256;
/// What is kept takes this beside its content, in bytes: measured were up to 315 for payloads and
/// 503 for lists, 230,000 of either.
const ENTRY: usize = 512;
const PAYLOAD: u8 = 1;
const LIST: u8 = 2;

/// Something that can be had.
#[derive(Clone, Debug)]
pub(super) enum Thing {
    Payload(Payload),
    List(Arc<List>),
}

impl Thing {
    pub(super) fn key(&self) -> Option<Key> {
        match self {
            Self::Payload(payload) => payload_key(payload.name()),
            Self::List(list) => Some(list_key(list.name())),
        }
    }

    /// What it takes in memory.
    fn cost(&self) -> usize {
        self.bytes().len() + ENTRY
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Payload(payload) => payload.bytes(),
            Self::List(list) => list.as_bytes(),
        }
    }

    /// What these bytes are, if they have the digest that the key says.
    fn check(key: Key, bytes: Vec<u8>) -> Option<Self> {
        if key.kind == LIST {
            let list = List::check(ObjectName(key.digest), bytes).ok()?;
            return Some(Self::List(Arc::new(list)));
        }
        let payload = Payload::check(PayloadName::Sha256(key.digest), bytes).ok()?;
        Some(Self::Payload(payload))
    }
}

/// Where a payload is kept; nothing that SHA-1 names is kept.
pub(super) fn payload_key(name: PayloadName) -> Option<Key> {
    match name {
        PayloadName::Sha256(digest) => Some(Key {
            kind: PAYLOAD,
            digest,
        }),
        PayloadName::Sha1(_) => None,
    }
}

/// Where a list is kept.
pub(super) fn list_key(object: ObjectName) -> Key {
    Key {
        kind: LIST,
        digest: object.0,
    }
}

/// What is counted.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    pub(super) from_memory: Number,
    pub(super) from_disk: Number,
    pub(super) damaged: Number,
    pub(super) not_kept: Number,
    pub(super) disk_bytes: Number,
}

/// See above.
#[derive(Debug)]
pub(super) struct Cache {
    memory: Mutex<Memory>,
    disk: Option<Arc<Disk>>,
    /// Room for what waits to be written.
    writes: Arc<Semaphore>,
    numbers: Numbers,
}

#[derive(Debug)]
struct Memory {
    limit: usize,
    bytes: usize,
    things: HashMap<Key, Held>,
    /// Oldest first; one that was used gets a second turn.
    order: VecDeque<Key>,
}

#[derive(Debug)]
struct Held {
    thing: Thing,
    is_used: bool,
}

impl Cache {
    pub(super) fn new(limit: usize, disk: Option<Disk>, numbers: Numbers) -> Self {
        if let Some(disk) = &disk {
            numbers.disk_bytes.set(disk.len());
        }
        Self {
            memory: Mutex::new(Memory {
                limit,
                bytes: 0,
                things: HashMap::new(),
                order: VecDeque::new(),
            }),
            disk: disk.map(Arc::new),
            writes: Arc::new(Semaphore::new(WRITES)),
            numbers,
        }
    }

    /// From memory.
    pub(super) fn at_hand(&self, key: Key) -> Option<Thing> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let held = memory.things.get_mut(&key)?;
        held.is_used = true;
        Some(held.thing.clone())
    }

    /// The same for somebody who needs it, which counts.
    pub(super) fn in_memory(&self, key: Key) -> Option<Thing> {
        let thing = self.at_hand(key)?;
        self.numbers.from_memory.add(1);
        Some(thing)
    }

    /// From memory or disk.
    pub(super) async fn thing(&self, key: Key) -> Option<Thing> {
        if let Some(thing) = self.in_memory(key) {
            return Some(thing);
        }
        let disk = Arc::clone(self.disk.as_ref()?);
        let read = tokio::task::spawn_blocking(move || {
            let bytes = disk.bytes(key)?;
            let thing = Thing::check(key, bytes);
            if thing.is_none() {
                disk.forget(key);
            }
            Some(thing)
        });
        match read.await.ok().flatten() {
            Some(Some(thing)) => {
                self.numbers.from_disk.add(1);
                self.remember(key, thing.clone());
                Some(thing)
            }
            Some(None) => {
                self.numbers.damaged.add(1);
                tracing::warn!("something on the cache's disk is damaged; it is fetched anew");
                None
            }
            None => None,
        }
    }

    /// Keeps something in memory, and on disk where there is one.
    pub(super) fn keep(&self, thing: &Thing) {
        let Some(key) = thing.key() else {
            return;
        };
        self.remember(key, thing.clone());
        if let Some(disk) = &self.disk {
            // A disk that is slower than the line must not make a heap of what waits for it.
            let Ok(room) = Arc::clone(&self.writes).try_acquire_owned() else {
                self.numbers.not_kept.add(1);
                return;
            };
            let (disk, thing, numbers) = (Arc::clone(disk), thing.clone(), self.numbers.clone());
            tokio::task::spawn_blocking(move || {
                if let Err(error) = disk.keep(key, thing.bytes()) {
                    if numbers.not_kept.value() == 0 {
                        tracing::warn!(%error, "the cache's disk takes nothing more; what comes is kept in memory alone");
                    }
                    numbers.not_kept.add(1);
                }
                numbers.disk_bytes.set(disk.len());
                drop(room);
            });
        }
    }

    fn remember(&self, key: Key, thing: Thing) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let cost = thing.cost();
        if memory.things.contains_key(&key) || cost > memory.limit {
            return;
        }
        memory.make_room(cost);
        memory.bytes += cost;
        memory.order.push_back(key);
        let is_used = false;
        memory.things.insert(key, Held { thing, is_used });
    }
}

impl Memory {
    /// What was not used since it came, or its last turn, goes until `cost` more bytes fit in.
    fn make_room(&mut self, cost: usize) {
        while self.bytes + cost > self.limit {
            let Some(key) = self.order.pop_front() else {
                return;
            };
            match self.things.get_mut(&key) {
                Some(held) if held.is_used => {
                    held.is_used = false;
                    self.order.push_back(key);
                }
                Some(held) => {
                    self.bytes -= held.thing.cost();
                    self.things.remove(&key);
                }
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers() -> Numbers {
        Numbers {
            from_memory: Number::counter("m", ""),
            from_disk: Number::counter("d", ""),
            damaged: Number::counter("x", ""),
            not_kept: Number::counter("n", ""),
            disk_bytes: Number::gauge("b", ""),
        }
    }

    fn payload(number: u8) -> (Key, Thing) {
        let payload = Payload::new(vec![number; 1000]).expect("short");
        let key = payload_key(payload.name()).expect("SHA-256");
        (key, Thing::Payload(payload))
    }

    #[tokio::test]
    async fn memory_is_bounded_and_what_is_used_stays() {
        let cache = Cache::new(3 * (1000 + ENTRY), None, numbers());
        for number in 1..=3 {
            cache.keep(&payload(number).1);
        }
        assert!(cache.thing(payload(1).0).await.is_some());
        cache.keep(&payload(4).1);
        assert!(cache.at_hand(payload(1).0).is_some());
        assert!(cache.at_hand(payload(2).0).is_none());
        assert!(cache.at_hand(payload(4).0).is_some());
    }

    #[test]
    fn many_small_things_take_no_more_than_the_limit() {
        let limit = 1 << 20;
        let cache = Cache::new(limit, None, numbers());
        for number in 0..10_000_u32 {
            let payload = Payload::new(number.to_be_bytes().to_vec()).expect("short");
            cache.keep(&Thing::Payload(payload));
        }
        let memory = cache.memory.lock().expect("nobody panics with it");
        assert_eq!(memory.things.len(), memory.order.len());
        assert_eq!(memory.things.len(), limit / (4 + ENTRY));
        assert!(memory.bytes <= limit);
    }

    #[tokio::test]
    async fn a_damaged_byte_on_disk_is_a_miss_and_not_an_answer() {
        let folder = tempfile::tempdir().expect("a directory");
        let (key, thing) = payload(7);
        let disk = Disk::open(folder.path(), 1 << 20).expect("opened");
        disk.keep(key, thing.bytes()).expect("room");
        drop(disk);
        let segment = std::fs::read_dir(folder.path())
            .expect("a directory")
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|ending| ending == "segment"))
            .expect("one segment");
        let mut bytes = std::fs::read(&segment).expect("ours");
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(&segment, bytes).expect("ours");

        let disk = Disk::open(folder.path(), 1 << 20).expect("opened");
        let numbers = numbers();
        let cache = Cache::new(1 << 20, Some(disk), numbers.clone());
        assert!(cache.thing(key).await.is_none());
        assert_eq!(numbers.damaged.value(), 1);
        assert!(cache.thing(key).await.is_none(), "and forgotten");
        assert_eq!(numbers.damaged.value(), 1);
    }
}
