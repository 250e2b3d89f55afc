//! The store on disk: the store in memory, and SQLite behind it for what is to outlive the process.
//!
//! Not here: what is kept, what is expected of whom, what goes first; the catalogue decides that
//! for both stores.
//!
//! Invariants:
//! - no look-up waits for a write: [`SqliteStore::maintain`] hands what changed to a thread, and
//!   nothing else does;
//! - objects are found without the disk; parts are read from it only if they were not used for
//!   long;
//! - bytes that are not yet on disk stay in memory;
//! - whatever the disk does, the store answers from memory, and says so by a [`Warning`].

#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use tandem_store::backing::{Catalogue, Contents, Key};
use tandem_store::{
    Digest, Health, Keeping, Kind, Latest, Limits, Object, ObjectId, Purge, Purged, Site, Store,
};
use tandem_wire::clock::UnixTime;

use crate::database::Fault;
use crate::disk::{Disk, Scrub, Trouble};
use crate::error::StoreError;
use crate::warning::Warning;
use crate::writer::Job;
use crate::{files, open, rows};

/// Seconds that what only says "seen again" may wait to be written: a handshake with a known site
/// then costs the disk nothing, and a crash forgets at most so long who was seen.
const REFRESH_INTERVAL: u64 = 60;

/// How long to wait, when the store is dropped, for what is not yet on disk.
const FAREWELL: Duration = Duration::from_secs(3);
/// Seconds between looks for what has expired. It is measured in days.
const EXPIRY_INTERVAL: u64 = 60 * 60;
/// Most objects that are handed over at once, so that handing over takes a millisecond or two.
const BATCH: usize = 500;
/// Most calls of [`SqliteStore::maintain`] between two tries to write to a disk that refuses. At
/// one a second: about a minute.
const MAX_PAUSE: u32 = 64;

/// A store that outlives the process, as far as its disk does.
///
/// Call [`maintain`](Self::maintain) about once a second. A crash loses what was learned since the
/// call before the last (of more than 500 objects a second, some more); the file survives it.
#[derive(Debug)]
pub struct SqliteStore {
    memory: Contents,
    /// `None`: in memory only.
    disk: Option<Disk>,
    warnings: Vec<Warning>,
    expired_at: Option<UnixTime>,
    refreshed_at: Option<UnixTime>,
    disk_reads: u64,
    disk_errors: u64,
}

impl SqliteStore {
    /// Opens the store in `directory`, and makes it if there is none.
    ///
    /// A disk that is of no use is no error: the store is then kept in memory, and a warning says
    /// why. A damaged file is kept under another name, and begun anew. One process at a time
    /// may have a store open; a second one gets a store in memory.
    ///
    /// # Errors
    /// [`StoreError::NotADirectory`] if there is something else than a directory under that path.
    pub fn open(directory: &Path, limits: Limits) -> Result<(Self, Vec<Warning>), StoreError> {
        let mut warnings = Vec::new();
        let opened = match files::prepare_directory(directory)? {
            Ok(warning) => {
                warnings.extend(warning);
                open::open_disk(directory, &limits, &mut warnings)
            }
            Err(warning) => Err(warning),
        };
        let mut store = match opened {
            Ok((disk, catalogue)) => {
                let mut memory = Contents::new(limits);
                memory.catalogue = catalogue;
                Self::new(memory, Some(disk))
            }
            Err(warning) => {
                warnings.push(warning);
                Self::new(Contents::in_memory_only(limits), None)
            }
        };
        store.preload();
        warnings.append(&mut store.warnings);
        Ok((store, warnings))
    }

    const fn new(memory: Contents, disk: Option<Disk>) -> Self {
        Self {
            memory,
            disk,
            warnings: Vec::new(),
            expired_at: None,
            refreshed_at: None,
            disk_reads: 0,
            disk_errors: 0,
        }
    }

    /// What went wrong since this was last asked.
    pub fn take_warnings(&mut self) -> Vec<Warning> {
        core::mem::take(&mut self.warnings)
    }

    /// Does what is due: hands what changed to the thread that writes, hears from it how the last
    /// went, and once an hour removes what expired long ago. Never waits for the disk. To be
    /// called about once a second; less often means that a crash loses more.
    pub fn maintain(&mut self, now: UnixTime) {
        // Either way: a clock that was set back must not stop this.
        if self
            .expired_at
            .is_none_or(|then| then.0.abs_diff(now.0) >= EXPIRY_INTERVAL)
        {
            self.expired_at = Some(now);
            self.memory.catalogue.expire(now);
            self.settle();
        }
        self.hear(Duration::ZERO);
        let is_due = |then: UnixTime| then.0.abs_diff(now.0) >= REFRESH_INTERVAL;
        let changes = self.memory.catalogue.changes_mut();
        let scrub = self
            .disk
            .as_ref()
            .is_some_and(|disk| disk.scrub == Scrub::Due);
        if changes.has_news() || scrub || self.refreshed_at.is_none_or(is_due) {
            self.refreshed_at = Some(now);
            self.write();
        }
    }

    /// Writes everything, and waits at most `wait` for each of the few steps. `true` if all is on
    /// disk.
    ///
    /// Not for an event loop: for the end of a program, and for commands.
    pub fn sync(&mut self, wait: Duration) -> bool {
        // What is under way was begun earlier; only what fails from here on counts.
        self.hear(wait);
        let errors = self.disk_errors;
        if let Some(trouble) = self.disk.as_mut().and_then(|disk| disk.trouble.as_mut()) {
            trouble.left = 0;
        }
        loop {
            self.hear(wait);
            let is_stuck = self.disk.as_ref().is_none_or(|disk| disk.writer.is_busy());
            if is_stuck || self.disk_errors > errors {
                return false;
            }
            self.write();
            if self
                .disk
                .as_ref()
                .is_some_and(|disk| !disk.writer.is_busy())
            {
                return true;
            }
        }
    }

    /// Removes what `what` says, and overwrites it on disk at the next calls of
    /// [`maintain`](Self::maintain), or at a [`sync`](Self::sync). With everything, the damaged
    /// files that were put aside go too; they are past picking single entries out.
    pub fn purge(&mut self, what: &Purge) -> Purged {
        let purged = what.apply(&mut self.memory.catalogue);
        if let Some(disk) = &mut self.disk {
            disk.scrub = Scrub::Due;
            let removed = match what {
                Purge::All => files::remove_put_aside(&disk.path),
                Purge::ExpiredBefore(_) | Purge::NotSeenSince(_) | Purge::Site(_) => Ok(()),
            };
            if let Err(error) = removed {
                self.warnings.push(Warning::WriteFailed {
                    path: disk.path.clone(),
                    reason: error.to_string(),
                });
            }
        }
        self.settle();
        purged
    }

    /// What is held.
    pub(crate) const fn catalogue(&self) -> &Catalogue {
        &self.memory.catalogue
    }

    /// Reads parts until the front is full, those that were used last first, so that
    /// handshakes find them in memory.
    fn preload(&mut self) {
        let Some(disk) = &self.disk else {
            return;
        };
        let Contents { catalogue, bodies } = &mut self.memory;
        let mut objects: Vec<_> = catalogue.objects().values().collect();
        objects.sort_by_key(|object| core::cmp::Reverse(object.used));
        let mut wanted = Vec::new();
        let mut known = BTreeSet::new();
        let mut bytes = 0;
        for digest in objects.iter().flat_map(|object| &object.parts) {
            bytes += catalogue
                .parts()
                .get(digest)
                .map_or(0, |entry| entry.length);
            if !bodies.has_room(bytes) {
                break;
            }
            if known.insert(*digest) {
                wanted.push(*digest);
            }
        }
        let mut corrupt = Vec::new();
        let mut fault = None;
        // What was used last is read last, so that it also goes last.
        for digest in wanted.iter().rev() {
            match rows::read_part(&disk.reader, digest) {
                Ok(Some(der)) => bodies.add_loose(*digest, der),
                Ok(None) => corrupt.push(*digest),
                Err(error) => {
                    fault = Some(Fault::from(error));
                    break;
                }
            }
        }
        self.forget_corrupt(&corrupt);
        if let Some(fault) = fault {
            self.disk_errors += 1;
            self.give_up(fault);
        }
    }

    /// Takes the answer of the thread that writes, if it comes within `wait`.
    fn hear(&mut self, wait: Duration) {
        let Some(disk) = &mut self.disk else {
            return;
        };
        let Some(answer) = disk.writer.answer(wait) else {
            return;
        };
        let written = disk.in_flight.take();
        match answer {
            Ok(()) => {
                disk.scrub = match disk.scrub {
                    Scrub::UnderWay => Scrub::Done,
                    Scrub::Done | Scrub::Due => disk.scrub,
                };
                if disk.trouble.take().is_some() {
                    self.warnings.push(Warning::WriteRecovered {
                        path: disk.path.clone(),
                    });
                }
                let changed = &self.memory.catalogue.changes_mut().parts;
                for digest in written.iter().flat_map(|changes| &changes.parts) {
                    if !changed.contains(digest) {
                        self.memory.bodies.unpin(digest);
                    }
                }
            }
            Err(fault) => {
                self.disk_errors += 1;
                if let Some(written) = written {
                    self.memory.catalogue.changes_mut().merge(written);
                }
                self.suffer(fault);
            }
        }
    }

    /// Bears with a disk that refused a write, or gives up on it.
    fn suffer(&mut self, fault: Fault) {
        let Some(disk) = &mut self.disk else {
            return;
        };
        disk.scrub = match disk.scrub {
            Scrub::Done => Scrub::Done,
            Scrub::Due | Scrub::UnderWay => Scrub::Due,
        };
        let is_first = disk.trouble.is_none();
        let pause = disk
            .trouble
            .map_or(1, |trouble| (2 * trouble.pause).min(MAX_PAUSE));
        disk.trouble = Some(Trouble { pause, left: pause });
        match fault {
            Fault::Disk(reason) => {
                if is_first {
                    self.warnings.push(Warning::WriteFailed {
                        path: disk.path.clone(),
                        reason: reason.clone(),
                    });
                }
                if self.memory.bodies.pinned_bytes() > self.memory.catalogue.limits().front_bytes {
                    self.give_up(Fault::Disk(reason));
                }
            }
            Fault::Corrupt(_) | Fault::Newer(_) | Fault::NotOurs | Fault::Removed => {
                self.give_up(fault);
            }
        }
    }

    /// Hands what changed to the thread that writes, unless it is busy.
    fn write(&mut self) {
        let Some(disk) = &mut self.disk else {
            return;
        };
        if disk.writer.is_busy() {
            return;
        }
        if let Some(trouble) = &mut disk.trouble
            && trouble.left > 0
        {
            trouble.left -= 1;
            return;
        }
        let changes = self.memory.catalogue.take_changes(BATCH);
        if !changes.is_empty() {
            disk.writer
                .give(Job::Write(rows::Batch::of(&changes, &self.memory)));
            disk.in_flight = Some(changes);
        } else if disk.scrub == Scrub::Due {
            disk.scrub = Scrub::UnderWay;
            disk.writer.give(Job::Scrub);
        }
    }

    /// From now on memory is all there is.
    fn give_up(&mut self, fault: Fault) {
        let Some(disk) = self.disk.take() else {
            return;
        };
        let reason = match fault {
            Fault::Corrupt(reason) | Fault::Disk(reason) => reason,
            Fault::Newer(version) => format!("it now has schema {version}"),
            Fault::NotOurs => "it is now another program's".to_owned(),
            Fault::Removed => "it was removed, or replaced by another file".to_owned(),
        };
        self.warnings.push(Warning::GaveUp {
            path: disk.path.clone(),
            reason,
        });
        self.memory.bodies.pin_all();
        let Contents { catalogue, bodies } = &mut self.memory;
        let lost = |digest: &Digest| bodies.peek(digest).is_none();
        let lost: BTreeSet<Digest> = catalogue
            .parts()
            .keys()
            .filter(|digest| lost(digest))
            .copied()
            .collect();
        catalogue.remove_parts(&lost);
        let front = catalogue.limits().front_bytes;
        catalogue.limit_bytes(front);
        self.settle();
    }

    /// Forgets parts of which the disk has other bytes, or none.
    fn forget_corrupt(&mut self, corrupt: &[Digest]) {
        if let Some(disk) = self.disk.as_ref().filter(|_| !corrupt.is_empty()) {
            self.disk_errors += 1;
            self.warnings.push(Warning::CorruptEntries {
                path: disk.path.clone(),
                count: corrupt.len(),
            });
            let corrupt = corrupt.iter().copied().collect();
            self.memory.catalogue.remove_parts(&corrupt);
            self.settle();
        }
    }

    /// Brings memory in order after a change.
    fn settle(&mut self) {
        self.memory.settle();
        if self.disk.is_none() {
            self.memory.catalogue.forget_changes();
        }
    }

    fn read(&mut self, digest: &Digest) -> Option<Arc<[u8]>> {
        let disk = self.disk.as_ref()?;
        self.disk_reads += 1;
        match rows::read_part(&disk.reader, digest) {
            Ok(Some(der)) => {
                self.memory.bodies.add_loose(*digest, Arc::clone(&der));
                self.memory.catalogue.touch_part(digest);
                Some(der)
            }
            Ok(None) => {
                self.forget_corrupt(&[*digest]);
                None
            }
            Err(error) => {
                self.disk_errors += 1;
                match Fault::from(error) {
                    Fault::Disk(_) => {}
                    fault @ (Fault::Corrupt(_)
                    | Fault::Newer(_)
                    | Fault::NotOurs
                    | Fault::Removed) => self.give_up(fault),
                }
                None
            }
        }
    }
}

impl Store for SqliteStore {
    fn part(&mut self, digest: &Digest) -> Option<Arc<[u8]>> {
        let body = self.memory.body(digest);
        let is_held = || self.memory.catalogue.parts().contains_key(digest);
        if body.is_none() && is_held() {
            return self.read(digest);
        }
        self.settle();
        body
    }

    fn part_by_prefix(&mut self, prefix: &[u8; 16]) -> Option<(Digest, Arc<[u8]>)> {
        let digest = self.memory.catalogue.part_by_prefix(prefix)?;
        Some((digest, self.part(&digest)?))
    }

    fn holds(&self, kind: Kind, id: &ObjectId) -> bool {
        self.memory.catalogue.holds(&Key { id: *id, kind })
    }

    fn object(&mut self, kind: Kind, id: &ObjectId) -> Option<Object> {
        let object = self.memory.object(Key { id: *id, kind });
        self.settle();
        object
    }

    fn object_by_prefix(&mut self, prefix: &[u8]) -> Option<Object> {
        let key = self.memory.catalogue.object_by_prefix(prefix)?;
        self.object(key.kind, &key.id)
    }

    fn expected(&mut self, kind: Kind, site: &Site, now: UnixTime, limit: usize) -> Vec<ObjectId> {
        self.memory.catalogue.expected(kind, site, now, limit)
    }

    fn learn(
        &mut self,
        kind: Kind,
        site: Option<&Site>,
        parts: &[&[u8]],
        now: UnixTime,
    ) -> ObjectId {
        let id = self.memory.take_in(kind, site, parts, now);
        self.settle();
        id
    }

    fn unexpected(&self, kind: Kind, limit: usize) -> Vec<ObjectId> {
        self.memory.catalogue.unexpected(kind, limit)
    }

    fn latest(&self, kind: Kind, limit: usize) -> Vec<Latest> {
        self.memory.catalogue.latest(kind, limit)
    }

    fn health(&self) -> Health {
        let keeping = match &self.disk {
            None => Keeping::Memory,
            Some(Disk { trouble: None, .. }) => Keeping::Disk,
            Some(Disk {
                trouble: Some(_), ..
            }) => Keeping::DiskFailing,
        };
        let unwritten_bytes = match keeping {
            Keeping::Memory => 0,
            Keeping::Disk | Keeping::DiskFailing => self.memory.bodies.pinned_bytes(),
        };
        Health {
            keeping,
            unwritten_bytes,
            disk_reads: self.disk_reads,
            disk_errors: self.disk_errors,
            ..self.memory.health()
        }
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.sync(FAREWELL);
    }
}
