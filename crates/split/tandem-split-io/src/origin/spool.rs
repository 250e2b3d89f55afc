//! What was published lately: payloads in a file without a name, lists in memory, for volunteers
//! that lack them.
//!
//! Is not: a cache of responses. It knows no URL, and what is in it is asked for by digest.
//!
//! Invariants: of what a connection refers to, the last so many stay for as long as it is open
//! ([`Pins`]): a quarter of all at most, a sixteenth once half of all are promised to somebody, so
//! that no connection has all of it. What came before stays until its room is needed. Both kinds
//! are bounded; when nothing can go, nothing more is taken in, and the payload crosses in full
//! instead.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tandem_split::payload::MAX_PAYLOAD_LEN;
use tandem_split::{List, ObjectName, Payload, PayloadName};

/// Payloads that are kept at most: 1 GiB.
const DEFAULT_SLOTS: usize = (1 << 30) / MAX_PAYLOAD_LEN;

/// See above.
#[derive(Debug)]
pub(super) struct Spool {
    file: File,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    most: usize,
    slots: Vec<Slot>,
    by_name: HashMap<PayloadName, usize>,
    lists: HashMap<ObjectName, KeptList>,
    pinned: usize,
    hand: usize,
    /// Whether the log has it that the file cannot be written.
    is_told: bool,
}

#[derive(Debug)]
struct Slot {
    name: Option<PayloadName>,
    len: usize,
    pins: usize,
    /// Asked for or published since the hand came by.
    is_used: bool,
}

#[derive(Debug)]
struct KeptList {
    list: Arc<List>,
    pins: usize,
}

/// What one connection has referred to lately, the oldest first. Dropping it lets it go.
#[derive(Debug)]
pub(super) struct Pins {
    spool: Arc<Spool>,
    slots: VecDeque<usize>,
    lists: VecDeque<ObjectName>,
}

impl Spool {
    /// An empty one, in the folder for temporary files.
    pub(super) fn new() -> std::io::Result<Self> {
        Self::with_slots(DEFAULT_SLOTS)
    }

    fn with_slots(most: usize) -> std::io::Result<Self> {
        Ok(Self {
            file: tempfile::tempfile()?,
            kept: Mutex::new(Kept {
                most,
                ..Kept::default()
            }),
        })
    }

    /// The payload of this name, if it is still here.
    pub(super) fn payload(&self, name: PayloadName) -> Option<Payload> {
        let mut kept = self.lock();
        let number = *kept.by_name.get(&name)?;
        let slot = kept.slots.get_mut(number)?;
        slot.is_used = true;
        let mut bytes = vec![0; slot.len];
        // The lock is held: nobody writes to this slot meanwhile.
        self.file.read_exact_at(&mut bytes, offset(number)).ok()?;
        Payload::check(name, bytes).ok()
    }

    /// The list of this object, if it is still here.
    pub(super) fn list(&self, object: ObjectName) -> Option<Arc<List>> {
        Some(Arc::clone(&self.lock().lists.get(&object)?.list))
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pins {
    /// Of a connection that has referred to nothing yet.
    pub(super) fn new(spool: &Arc<Spool>) -> Self {
        Self {
            spool: Arc::clone(spool),
            slots: VecDeque::new(),
            lists: VecDeque::new(),
        }
    }

    /// Publishes a payload until this connection has referred to many others, or is closed. Says
    /// whether there was room.
    pub(super) fn payload(&mut self, name: PayloadName, bytes: &[u8]) -> bool {
        let mut kept = self.spool.lock();
        while self.slots.len() >= kept.share()
            && let Some(oldest) = self.slots.pop_front()
        {
            kept.unpin_slot(oldest);
        }
        let (number, is_new) = match kept.by_name.get(&name) {
            Some(number) => (*number, false),
            None => match kept.free_slot() {
                Some(number) => (number, true),
                None => return false,
            },
        };
        if is_new {
            if bytes.len() > MAX_PAYLOAD_LEN {
                return false;
            }
            if let Err(error) = self.spool.file.write_all_at(bytes, offset(number)) {
                // A full disk: the slot stays free.
                kept.tell(&error);
                return false;
            }
            kept.by_name.insert(name, number);
            kept.slots[number].name = Some(name);
            kept.slots[number].len = bytes.len();
        }
        kept.slots[number].is_used = true;
        kept.slots[number].pins += 1;
        if kept.slots[number].pins == 1 {
            kept.pinned += 1;
        }
        self.slots.push_back(number);
        true
    }

    /// Publishes a list in the same way.
    pub(super) fn list(&mut self, list: &Arc<List>) -> bool {
        let mut kept = self.spool.lock();
        while self.lists.len() >= kept.share()
            && let Some(oldest) = self.lists.pop_front()
        {
            kept.unpin_list(oldest);
        }
        // As many as there could be if every object had one chunk: those that nobody is sent at
        // present go first.
        if kept.lists.len() >= kept.most && !kept.lists.contains_key(&list.name()) {
            kept.lists.retain(|_, kept| kept.pins > 0);
            if kept.lists.len() >= kept.most {
                return false;
            }
        }
        kept.lists
            .entry(list.name())
            .or_insert_with(|| KeptList {
                list: Arc::clone(list),
                pins: 0,
            })
            .pins += 1;
        self.lists.push_back(list.name());
        true
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        let mut kept = self.spool.lock();
        for number in &self.slots {
            kept.unpin_slot(*number);
        }
        for object in &self.lists {
            kept.unpin_list(*object);
        }
    }
}

impl Kept {
    /// How many of each kind one connection may have pinned.
    fn share(&self) -> usize {
        let parts = if self.pinned > self.most / 2 { 16 } else { 4 };
        self.most.div_ceil(parts)
    }

    /// Says that the file cannot be written: once, since a disk that is almost full takes one
    /// payload and not the next.
    fn tell(&mut self, error: &std::io::Error) {
        if !std::mem::replace(&mut self.is_told, true) {
            tracing::warn!(
                folder = %std::env::temp_dir().display(),
                %error,
                "the folder for temporary files is full: what does not fit crosses the line in full each time; make room for 1 GiB there, or name another folder in TMPDIR and start the origin again"
            );
        }
    }

    fn unpin_slot(&mut self, number: usize) {
        let slot = &mut self.slots[number];
        slot.pins -= 1;
        if slot.pins == 0 {
            self.pinned -= 1;
        }
    }

    fn unpin_list(&mut self, object: ObjectName) {
        if let Some(list) = self.lists.get_mut(&object) {
            list.pins -= 1;
        }
    }

    /// A slot for something new: a fresh one, or that of something that nobody needs and nobody has
    /// asked for lately.
    fn free_slot(&mut self) -> Option<usize> {
        if self.slots.len() < self.most {
            self.slots.push(Slot {
                name: None,
                len: 0,
                pins: 0,
                is_used: false,
            });
            return Some(self.slots.len() - 1);
        }
        if self.pinned == self.slots.len() {
            return None;
        }
        // Once round clears the marks, so that within two rounds there is one.
        for _ in 0..2 * self.slots.len() {
            let number = self.hand;
            self.hand = (self.hand + 1) % self.slots.len();
            let slot = &mut self.slots[number];
            if slot.pins > 0 || std::mem::take(&mut slot.is_used) {
                continue;
            }
            if let Some(name) = slot.name.take() {
                self.by_name.remove(&name);
            }
            return Some(number);
        }
        None
    }
}

fn offset(slot: usize) -> u64 {
    (slot * MAX_PAYLOAD_LEN) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(number: u8) -> Payload {
        Payload::new(vec![number; 100]).expect("short")
    }

    fn publish(pins: &mut Pins, number: u8) -> bool {
        let payload = payload(number);
        pins.payload(payload.name(), payload.bytes())
    }

    #[test]
    fn what_is_pinned_stays_and_the_rest_makes_room() {
        let spool = Arc::new(Spool::with_slots(2).expect("a file"));
        let (mut first, mut second) = (Pins::new(&spool), Pins::new(&spool));
        assert!(publish(&mut first, 1) && publish(&mut second, 2));
        let mut third = Pins::new(&spool);
        assert!(!publish(&mut third, 3), "both slots are pinned");
        assert!(publish(&mut third, 2), "it is here already");
        drop(first);
        assert_eq!(
            spool.payload(payload(1).name()),
            Some(payload(1)),
            "kept until room is needed"
        );
        assert!(publish(&mut third, 3));
        assert_eq!(spool.payload(payload(1).name()), None);
        assert_eq!(spool.payload(payload(2).name()), Some(payload(2)));
        assert_eq!(spool.payload(payload(3).name()), Some(payload(3)));
    }

    #[test]
    fn no_connection_has_all_of_it_however_much_it_refers_to() {
        let spool = Arc::new(Spool::with_slots(16).expect("a file"));
        let mut greedy = Pins::new(&spool);
        assert!((0..200).all(|number| publish(&mut greedy, number)));
        assert_eq!(spool.lock().pinned, 4);
        let mut others: Vec<Pins> = (0..12).map(|_| Pins::new(&spool)).collect();
        for (other, number) in others.iter_mut().zip(200..) {
            assert!(publish(other, number));
        }
        assert_eq!(spool.lock().pinned, 16);
        for number in 196..212 {
            assert_eq!(spool.payload(payload(number).name()), Some(payload(number)));
        }
        assert!(!publish(&mut Pins::new(&spool), 212));
        assert!(publish(&mut greedy, 212), "its oldest make room");
        assert_eq!(spool.lock().pinned, 13);
        drop(others);
        assert!((0..100).all(|_| publish(&mut greedy, 212)));
        assert_eq!(greedy.slots.len(), 4, "the same again is bounded, too");
    }

    #[test]
    fn lists_that_nobody_is_sent_make_room() {
        let spool = Arc::new(Spool::with_slots(1).expect("a file"));
        let lists: Vec<Arc<List>> = [b"a", b"b"]
            .map(|object| Arc::new(List::of(object).expect("short")))
            .to_vec();
        let mut first = Pins::new(&spool);
        assert!(first.list(&lists[0]));
        assert!(!Pins::new(&spool).list(&lists[1]), "the other is pinned");
        assert!(Pins::new(&spool).list(&lists[0]), "it is here already");
        drop(first);
        assert!(spool.list(lists[0].name()).is_some());
        let mut second = Pins::new(&spool);
        assert!(second.list(&lists[1]));
        assert!(spool.list(lists[0].name()).is_none());
        assert!(spool.list(lists[1].name()).is_some());
    }
}
