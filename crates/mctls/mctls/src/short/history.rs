//! What has crossed a hop between two paired middleboxes, and is held at both of its ends.
//!
//! ```text
//!  session A, to the client   volume a: | chunk 0 | chunk 1 | chunk 2 |
//!  session A, to the server   volume b: | chunk 0 |
//!  session B, to the client   volume c: | chunk 0 | chunk 1 | ...
//! ```
//!
//! A *volume* is what was new in one direction of one session, in the order in which it crossed.
//! One connection carries it, so the two ends' volumes of one name differ by their lengths alone:
//! the shorter is how the longer begins. Each session begins with both ends naming what they hold
//! and will go on holding until it ends; so a reference never misses, whatever else either end
//! lets go of, and nothing has to be agreed on among sessions.
//!
//! Is not: which reference is sent ([`super::Hop`]); a clock: what was used last is counted.
//!
//! Invariant: volumes and promises take no more than the capacity, everything included.

use std::collections::BTreeMap;

use super::cut::MIN_CHUNK;
use crate::secret::{Digest, hash};

/// Most volumes that one end names in a session.
pub(super) const MAX_LISTED: usize = 64;

/// Most new bytes that one session keeps in each direction.
const MAX_ROOM: usize = 4 << 20;

/// A session is promised at most this part of what is free, in each direction.
const ROOM_PART: usize = 32;

/// Most volumes, so that finding the oldest takes a bounded time.
const MAX_VOLUMES: usize = 4096;

/// What a chunk takes beside its bytes, and a volume beside its chunks: estimates on the high side.
const CHUNK_COST: usize = 256;
const VOLUME_COST: usize = 512;

/// Most places that are known for the same chunk.
const MAX_PLACES: usize = 4;

/// A volume's name on the wire.
pub(super) type VolumeId = [u8; 8];

/// A volume's number here: no two have the same, ever.
pub(super) type Serial = u64;

/// By what a chunk is found.
pub(super) type Print = [u8; 16];

/// The print of a chunk of a server's data.
pub(super) fn print_of(scope: &Digest, chunk: &[u8]) -> Print {
    let digest = hash(&[scope, chunk]);
    let mut print = [0; 16];
    print.copy_from_slice(&digest[..16]);
    print
}

/// Where a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) volume: Serial,
    pub(super) chunk: u16,
}

struct Chunk {
    print: Print,
    bytes: Box<[u8]>,
}

struct Volume {
    id: VolumeId,
    /// Whose data: another server's session is never told of it.
    scope: Digest,
    chunks: Vec<Chunk>,
    cost: usize,
    pins: usize,
    used: u64,
}

/// A volume that an end has named in a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listed {
    pub(super) serial: Serial,
    pub(super) id: VolumeId,
    pub(super) chunks: u16,
}

/// A volume that this end has as well.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) serial: Serial,
    pub(super) chunks: usize,
}

/// Which of a session's own volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Own {
    /// What this end has sent.
    Sent,
    /// What has come to it.
    Came,
}

impl Own {
    const fn index(self) -> usize {
        match self {
            Self::Sent => 0,
            Self::Came => 1,
        }
    }
}

/// What one session has of the history until it closes.
#[derive(Debug)]
pub(super) struct Held {
    listed: Vec<Listed>,
    own: [Option<Serial>; 2],
    /// Bytes kept so far.
    kept: [usize; 2],
    room: usize,
    /// What of the capacity is still reserved for it.
    promised: usize,
}

impl Held {
    pub(super) fn listed(&self) -> &[Listed] {
        &self.listed
    }

    pub(super) const fn room(&self) -> usize {
        self.room
    }

    pub(super) const fn own(&self, own: Own) -> Option<Serial> {
        self.own[own.index()]
    }
}

/// Data that has crossed, of all sessions of a pair.
pub struct History {
    capacity: usize,
    volumes: BTreeMap<Serial, Volume>,
    serials: BTreeMap<VolumeId, Serial>,
    places: BTreeMap<Print, Vec<Place>>,
    next: Serial,
    clock: u64,
    /// What all volumes take, what of it is pinned, and what is promised beyond.
    held: usize,
    pinned: usize,
    promised: usize,
}

impl std::fmt::Debug for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("History")
            .field("capacity", &self.capacity)
            .field("volumes", &self.volumes.len())
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}

/// What keeping so many bytes takes at most.
const fn cost_of(room: usize) -> usize {
    VOLUME_COST + room + room / MIN_CHUNK * CHUNK_COST
}

impl History {
    /// One that takes so many bytes of memory at most.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        Self {
            capacity,
            volumes: BTreeMap::new(),
            serials: BTreeMap::new(),
            places: BTreeMap::new(),
            next: 0,
            clock: 0,
            held: 0,
            pinned: 0,
            promised: 0,
        }
    }

    /// How much memory is taken, or cannot be refused any more, in bytes.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.held.max(self.pinned + self.promised)
    }

    /// A session begins: pins what it names of this server's data, and two volumes of its own.
    pub(super) fn open(&mut self, scope: Digest, ids: [VolumeId; 2]) -> Held {
        let mut recent: Vec<_> = self.volumes.iter().collect();
        recent.retain(|(_, volume)| volume.scope == scope && !volume.chunks.is_empty());
        recent.sort_by_key(|(_, volume)| std::cmp::Reverse(volume.used));
        let mut listed = Vec::new();
        let mut pinned = self.pinned;
        for (serial, volume) in recent {
            let more = if volume.pins == 0 { volume.cost } else { 0 };
            if listed.len() == MAX_LISTED {
                break;
            }
            // What is promised to other sessions stays theirs.
            let is_room = pinned + more + self.promised <= self.capacity;
            if more > 0 && !(is_room && pinned + more <= self.capacity / 2) {
                continue;
            }
            pinned += more;
            listed.push(Listed {
                serial: *serial,
                id: volume.id,
                chunks: u16::try_from(volume.chunks.len()).unwrap_or(u16::MAX),
            });
        }
        listed.iter().for_each(|one| self.pin(one.serial));
        // A part of what is left, so that there is something for sessions to come.
        let free = self.capacity.saturating_sub(self.pinned + self.promised);
        let room = (free / ROOM_PART).min(MAX_ROOM);
        let (promised, room) = match cost_of(room) * 2 {
            promised if promised <= free && room >= MIN_CHUNK => (promised, room),
            _ => (0, 0),
        };
        let mut held = Held {
            listed,
            own: [None; 2],
            kept: [0; 2],
            room,
            promised,
        };
        self.promised += promised;
        if room > 0 {
            held.own = ids.map(|id| self.begin(id, scope, &mut held.promised));
            // Both or none: the room is one number.
            if held.own.contains(&None) {
                held.room = 0;
            }
        }
        held
    }

    /// An empty volume, pinned. `None`: the name is taken.
    fn begin(&mut self, id: VolumeId, scope: Digest, promised: &mut usize) -> Option<Serial> {
        if self.serials.contains_key(&id) {
            return None;
        }
        self.make_room(VOLUME_COST);
        while self.volumes.len() >= MAX_VOLUMES && self.forget_oldest() {}
        let serial = self.next;
        self.next += 1;
        self.clock += 1;
        let volume = Volume {
            id,
            scope,
            chunks: Vec::new(),
            cost: VOLUME_COST,
            pins: 1,
            used: self.clock,
        };
        self.serials.insert(id, serial);
        self.volumes.insert(serial, volume);
        self.spend(VOLUME_COST, promised);
        Some(serial)
    }

    /// What was promised is there now, in a pinned volume.
    const fn spend(&mut self, cost: usize, promised: &mut usize) {
        self.held += cost;
        self.pinned += cost;
        self.promised -= cost;
        *promised -= cost;
    }

    /// Both ends' rooms are known: the smaller one counts.
    pub(super) fn settle(&mut self, held: &mut Held, theirs: usize) -> usize {
        let room = held.room.min(theirs);
        let too_much = (cost_of(held.room) - cost_of(room)) * 2;
        let too_much = too_much.min(held.promised);
        held.promised -= too_much;
        self.promised -= too_much;
        held.room = room;
        room
    }

    /// Keeps a chunk of [`MIN_CHUNK`] bytes at least, while there is room for it.
    pub(super) fn keep(
        &mut self,
        held: &mut Held,
        own: Own,
        room: usize,
        scope: &Digest,
        bytes: &[u8],
    ) {
        let kept = held.kept[own.index()] + bytes.len();
        let cost = bytes.len() + CHUNK_COST;
        let Some(serial) = held
            .own(own)
            .filter(|_| kept <= room && cost <= held.promised)
        else {
            return;
        };
        self.make_room(cost);
        let print = print_of(scope, bytes);
        let Some(volume) = self.volumes.get_mut(&serial) else {
            return;
        };
        let Ok(chunk) = u16::try_from(volume.chunks.len()) else {
            return;
        };
        // Only what was sent is referred to by what is sent: a client that could refer to what
        // others were sent could learn of it by the time that its own data takes.
        if own == Own::Sent {
            let places = self.places.entry(print).or_default();
            // The oldest may be in a volume that the other end has let go of.
            if places.len() == MAX_PLACES {
                places.remove(0);
            }
            places.push(Place {
                volume: serial,
                chunk,
            });
        }
        let bytes = bytes.into();
        volume.chunks.push(Chunk { print, bytes });
        volume.cost += cost;
        held.kept[own.index()] = kept;
        self.spend(cost, &mut held.promised);
    }

    /// Lets go of what nobody has used for longest, until there is room.
    fn make_room(&mut self, cost: usize) {
        while self.held + cost > self.capacity && self.forget_oldest() {}
    }

    /// Whether there was something to let go of.
    fn forget_oldest(&mut self) -> bool {
        let idle = self.volumes.iter().filter(|(_, volume)| volume.pins == 0);
        let oldest = idle.min_by_key(|(_, volume)| volume.used);
        let Some(serial) = oldest.map(|(serial, _)| *serial) else {
            return false;
        };
        self.forget(serial);
        true
    }

    fn forget(&mut self, serial: Serial) {
        let Some(volume) = self.volumes.remove(&serial) else {
            return;
        };
        self.serials.remove(&volume.id);
        self.held -= volume.cost;
        for chunk in &volume.chunks {
            if let Some(places) = self.places.get_mut(&chunk.print) {
                places.retain(|place| place.volume != serial);
                if places.is_empty() {
                    self.places.remove(&chunk.print);
                }
            }
        }
    }

    fn pin(&mut self, serial: Serial) {
        if let Some(volume) = self.volumes.get_mut(&serial) {
            if volume.pins == 0 {
                self.pinned += volume.cost;
            }
            volume.pins += 1;
        }
    }

    fn unpin(&mut self, serial: Serial) {
        let Some(volume) = self.volumes.get_mut(&serial) else {
            return;
        };
        volume.pins -= 1;
        if volume.pins == 0 {
            self.pinned -= volume.cost;
            if volume.chunks.is_empty() {
                self.forget(serial);
            }
        }
    }

    /// Something has referred to it.
    pub(super) fn touch(&mut self, serial: Serial) {
        self.clock += 1;
        if let Some(volume) = self.volumes.get_mut(&serial) {
            volume.used = self.clock;
        }
    }

    /// The volume of this name, if this end has it and it is of this server's data.
    pub(super) fn named(&self, id: &VolumeId, scope: &Digest) -> Option<Named> {
        let serial = *self.serials.get(id)?;
        let volume = self.volumes.get(&serial)?;
        let chunks = volume.chunks.len();
        (volume.scope == *scope).then_some(Named { serial, chunks })
    }

    /// Where chunks with this print that this end has sent are, the latest last.
    pub(super) fn places(&self, print: &Print) -> Vec<Place> {
        self.places.get(print).cloned().unwrap_or_default()
    }

    pub(super) fn chunk(&self, serial: Serial, chunk: u16) -> Option<&[u8]> {
        let volume = self.volumes.get(&serial)?;
        let chunk = volume.chunks.get(usize::from(chunk))?;
        Some(&chunk.bytes)
    }

    pub(super) fn chunks(&self, serial: Serial) -> usize {
        self.volumes.get(&serial).map_or(0, |one| one.chunks.len())
    }

    /// A session is over.
    pub(super) fn close(&mut self, held: Held) {
        self.promised -= held.promised;
        let own = held.own.into_iter().flatten();
        own.for_each(|serial| self.touch(serial));
        let listed = held.listed.iter().map(|one| one.serial);
        listed
            .chain(held.own.into_iter().flatten())
            .for_each(|serial| self.unpin(serial));
    }
}
