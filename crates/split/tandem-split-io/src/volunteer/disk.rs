//! The volunteer's cache on disk: segments that are only ever appended to, and an index in memory.
//!
//! ```text
//!   segment: "TSC1" | kind 1 | length 4 | name 32 | bytes | "TSC1" | ...
//! ```
//!
//! Is not: trusted. Whoever reads checks the digest, and says [`Disk::forget`] where it is wrong.
//!
//! Invariants: what was cut off by a crash is cut off for good at the next start; the index has one
//! entry for each 8 KiB of the limit at most; the oldest segment goes first when there is too much;
//! a disk that takes nothing more costs speed alone, and so does one that can only be read; one
//! volunteer has the directory at a time.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::SplitIoError;

const MAGIC: [u8; 4] = *b"TSC1";
const HEAD: usize = 4 + 1 + 4 + 32;
/// A segment that has this many bytes gets no more: 1/64 of the default limit.
const SEGMENT: u64 = 64 << 20;
/// Nothing that is kept is longer: the list of the largest object.
const MAX_LEN: usize = 4 << 20;
/// Things have this many bytes at least on average, or there are fewer of them: the index takes up
/// to 170 bytes for each, measured with a million. A full payload is twice as long.
const MIN_AVERAGE: u64 = 8 << 10;
/// So many things are kept whatever the limit is.
const FEW: u64 = 1024;

/// What something is called: what kind of thing it is, and its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) kind: u8,
    pub(super) digest: [u8; 32],
}

/// See above.
#[derive(Debug)]
pub(super) struct Disk {
    folder: PathBuf,
    limit: u64,
    segment_len: u64,
    /// Most things in the index, and in a segment.
    most: Most,
    access: Access,
    state: Mutex<State>,
    /// Held for as long as the process lives.
    _lock: File,
}

/// What may be done with a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Whole,
    ReadOnly,
}

#[derive(Clone, Copy, Debug)]
struct Most {
    in_all: usize,
    in_segment: usize,
}

impl Most {
    fn of(limit: u64, segment_len: u64) -> Self {
        let things = |bytes: u64, least| {
            let number = (bytes / MIN_AVERAGE).max(least);
            usize::try_from(number).unwrap_or(usize::MAX)
        };
        Self {
            in_all: things(limit, FEW),
            in_segment: things(segment_len, FEW / 4),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    index: HashMap<Key, Place>,
    /// Oldest first; the last is the one that is written.
    segments: BTreeMap<u64, Segment>,
    bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    segment: u64,
    offset: u64,
    len: usize,
}

#[derive(Debug)]
struct Segment {
    file: File,
    len: u64,
    /// Things in it, also those that are forgotten.
    things: usize,
}

/// What a segment was found to have.
struct Found {
    len: u64,
    things: usize,
}

impl Disk {
    /// Opens a directory, which is made if it is missing, for at most `limit` bytes.
    ///
    /// # Errors
    /// The directory cannot be made or read, or another volunteer has it.
    pub(super) fn open(folder: &Path, limit: u64) -> Result<Self, SplitIoError> {
        Self::open_with(folder, limit, SEGMENT.min(limit / 4).max(1))
    }

    fn open_with(folder: &Path, limit: u64, segment_len: u64) -> Result<Self, SplitIoError> {
        let failed = |source| SplitIoError::File {
            path: folder.to_owned(),
            source,
        };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let lock = File::open(folder).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(SplitIoError::CacheBusy {
                    path: folder.to_owned(),
                });
            }
            Err(std::fs::TryLockError::Error(source)) => return Err(failed(source)),
        }
        let mut numbers: Vec<u64> = std::fs::read_dir(folder)
            .map_err(failed)?
            .flatten()
            .filter_map(|entry| number_of(&entry.file_name().to_string_lossy()))
            .collect();
        numbers.sort_unstable();
        let mut state = State::default();
        let mut access = access_to(folder);
        let most = Most::of(limit, segment_len);
        for number in numbers {
            let path = folder.join(name_of(number));
            let file = match writable(&path) {
                Err(error) if is_read_only(&error) => {
                    access = Access::ReadOnly;
                    File::open(&path)
                }
                opened => opened,
            };
            let file = file.map_err(failed)?;
            let Found { len, things } = state.read_segment(number, &file).map_err(failed)?;
            if access == Access::Whole {
                // What follows is half written, or damaged.
                file.set_len(len).map_err(failed)?;
            }
            state.bytes += len;
            state.segments.insert(number, Segment { file, len, things });
            // Those that are older than the bound may have more.
            while state.index.len() > most.in_all
                && let Some(oldest) = state.drop_oldest()
                && access == Access::Whole
            {
                remove(&folder.join(name_of(oldest)));
            }
        }
        if access == Access::ReadOnly {
            tracing::warn!(path = %folder.display(), "the cache's directory can only be read: what comes is kept in memory alone");
        }
        let disk = Self {
            folder: folder.to_owned(),
            limit,
            segment_len,
            most,
            access,
            state: Mutex::new(state),
            _lock: lock,
        };
        if access == Access::Whole {
            disk.make_room(&mut disk.lock(), 0, 0);
        }
        Ok(disk)
    }

    /// The bytes under a key, unchecked.
    pub(super) fn bytes(&self, key: Key) -> Option<Vec<u8>> {
        let state = self.lock();
        let place = *state.index.get(&key)?;
        let segment = state.segments.get(&place.segment)?;
        let mut bytes = vec![0; place.len];
        segment.file.read_exact_at(&mut bytes, place.offset).ok()?;
        Some(bytes)
    }

    /// Keeps bytes.
    ///
    /// # Errors
    /// The disk takes nothing more. What was there is still there.
    pub(super) fn keep(&self, key: Key, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.lock();
        if bytes.len() > MAX_LEN || state.index.contains_key(&key) {
            return Ok(());
        }
        if self.access == Access::ReadOnly {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        let len = (HEAD + bytes.len()) as u64;
        if len > self.segment_len {
            return Ok(());
        }
        self.make_room(&mut state, len, 1);
        let number = self.writable_segment(&mut state, len)?;
        let State {
            index,
            segments,
            bytes: total,
        } = &mut *state;
        let Some(segment) = segments.get_mut(&number) else {
            return Ok(());
        };
        let mut entry = Vec::with_capacity(HEAD + bytes.len());
        entry.extend_from_slice(&MAGIC);
        entry.push(key.kind);
        entry.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        entry.extend_from_slice(&key.digest);
        entry.extend_from_slice(bytes);
        if let Err(error) = segment.file.write_all_at(&entry, segment.len) {
            // Half an entry would end the segment for the next start.
            let _ = segment.file.set_len(segment.len);
            return Err(error);
        }
        index.insert(
            key,
            Place {
                segment: number,
                offset: segment.len + HEAD as u64,
                len: bytes.len(),
            },
        );
        segment.len += len;
        segment.things += 1;
        *total += len;
        Ok(())
    }

    /// What is under this key is not what it should be.
    pub(super) fn forget(&self, key: Key) {
        self.lock().index.remove(&key);
    }

    /// Bytes in all segments.
    pub(super) fn len(&self) -> u64 {
        self.lock().bytes
    }

    /// The newest segment if `len` more bytes fit in, or else a new one.
    fn writable_segment(&self, state: &mut State, len: u64) -> io::Result<u64> {
        let newest = state.segments.last_key_value();
        if let Some((number, segment)) = newest
            && segment.len + len <= self.segment_len
            && segment.things < self.most.in_segment
        {
            return Ok(*number);
        }
        let number = newest.map_or(0, |(number, _)| number + 1);
        let file = writable(&self.folder.join(name_of(number)))?;
        let (len, things) = (0, 0);
        state.segments.insert(number, Segment { file, len, things });
        Ok(number)
    }

    /// Removes the oldest segments until so much more, and so many things, are within the bounds.
    fn make_room(&self, state: &mut State, len: u64, things: usize) {
        while (state.bytes + len > self.limit || state.index.len() + things > self.most.in_all)
            && let Some(oldest) = state.drop_oldest()
        {
            remove(&self.folder.join(name_of(oldest)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Forgets the oldest segment; its number.
    fn drop_oldest(&mut self) -> Option<u64> {
        let (number, segment) = self.segments.pop_first()?;
        self.index.retain(|_, place| place.segment != number);
        self.bytes -= segment.len;
        Some(number)
    }

    /// Takes a segment's entries into the index: up to where it is whole.
    fn read_segment(&mut self, number: u64, file: &File) -> io::Result<Found> {
        let total = file.metadata()?.len();
        let mut reader = BufReader::new(file);
        reader.seek(SeekFrom::Start(0))?;
        let (mut at, mut things) = (0, 0);
        loop {
            let mut head = [0; HEAD];
            match reader.read_exact(&mut head) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Ok(Found { len: at, things });
                }
                Err(error) => return Err(error),
            }
            let len = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) as usize;
            let end = at + (HEAD + len) as u64;
            if head[..4] != MAGIC || len > MAX_LEN || end > total {
                return Ok(Found { len: at, things });
            }
            let mut digest = [0; 32];
            digest.copy_from_slice(&head[9..]);
            let key = Key {
                kind: head[4],
                digest,
            };
            let place = Place {
                segment: number,
                offset: at + HEAD as u64,
                len,
            };
            self.index.insert(key, place);
            reader.seek_relative(len as i64)?;
            at = end;
            things += 1;
        }
    }
}

fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::warn!(path = %path.display(), %error, "an old segment of the cache could not be removed");
    }
}

/// Whether files may be made in this directory: found out by making one, since neither its mode nor
/// who asks tells of a disk that is mounted to be read.
fn access_to(folder: &Path) -> Access {
    match tempfile::tempfile_in(folder) {
        Err(error) if is_read_only(&error) => Access::ReadOnly,
        // What else is wrong shows when something is kept.
        Ok(_) | Err(_) => Access::Whole,
    }
}

/// Whether this says that something may be read and not written.
pub(super) fn is_read_only(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
    )
}

fn writable(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

fn name_of(number: u64) -> String {
    format!("{number:016x}.segment")
}

fn number_of(name: &str) -> Option<u64> {
    u64::from_str_radix(name.strip_suffix(".segment")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> Key {
        Key {
            kind: 1,
            digest: [number; 32],
        }
    }

    fn segments(folder: &Path) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
            .expect("a directory")
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "segment"))
            .collect();
        found.sort();
        found
    }

    #[test]
    fn what_was_kept_is_there_after_a_restart() {
        let folder = tempfile::tempdir().expect("a directory");
        let disk = Disk::open(folder.path(), 1 << 20).expect("opened");
        disk.keep(key(1), b"one").expect("room");
        disk.keep(key(2), b"").expect("room");
        assert!(
            matches!(
                Disk::open(folder.path(), 1 << 20),
                Err(SplitIoError::CacheBusy { .. })
            ),
            "one volunteer at a time"
        );
        drop(disk);
        let disk = Disk::open(folder.path(), 1 << 20).expect("opened");
        assert_eq!(disk.bytes(key(1)), Some(b"one".to_vec()));
        assert_eq!(disk.bytes(key(2)), Some(Vec::new()));
        assert_eq!(disk.bytes(key(3)), None);
        disk.forget(key(1));
        assert_eq!(disk.bytes(key(1)), None);
    }

    #[test]
    fn a_segment_that_was_cut_or_damaged_keeps_what_is_before() {
        let folder = tempfile::tempdir().expect("a directory");
        let disk = Disk::open(folder.path(), 1 << 20).expect("opened");
        for number in 1..=3 {
            disk.keep(key(number), &[number; 50]).expect("room");
        }
        drop(disk);
        let segment = segments(folder.path()).remove(0);
        let whole = std::fs::read(&segment).expect("ours");
        let entry = HEAD + 50;
        std::fs::write(&segment, &whole[..2 * entry + 60]).expect("ours");
        let disk = Disk::open(folder.path(), 1 << 20).expect("opened");
        assert_eq!(disk.bytes(key(2)), Some(vec![2; 50]));
        assert_eq!(disk.bytes(key(3)), None);
        disk.keep(key(3), &[3; 50]).expect("room");
        drop(disk);

        let mut damaged = whole;
        damaged[entry] ^= 1;
        std::fs::write(&segment, &damaged).expect("ours");
        let disk = Disk::open(folder.path(), 1 << 20).expect("opened");
        assert_eq!(disk.bytes(key(1)), Some(vec![1; 50]));
        assert_eq!(disk.bytes(key(2)), None);
        disk.keep(key(4), b"four").expect("room");
        assert_eq!(disk.bytes(key(4)), Some(b"four".to_vec()));
    }

    #[test]
    fn the_oldest_goes_when_there_is_too_much() {
        let folder = tempfile::tempdir().expect("a directory");
        let entry = (HEAD + 100) as u64;
        let disk = Disk::open_with(folder.path(), 6 * entry, 2 * entry).expect("opened");
        for number in 1..=9 {
            disk.keep(key(number), &[number; 100]).expect("room");
            assert!(disk.len() <= 6 * entry);
        }
        assert_eq!(disk.bytes(key(1)), None);
        assert_eq!(disk.bytes(key(9)), Some(vec![9; 100]));
        assert!(segments(folder.path()).len() <= 3);
        drop(disk);
        let disk = Disk::open_with(folder.path(), 2 * entry, 2 * entry).expect("a smaller limit");
        assert!(disk.len() <= 2 * entry);
        assert_eq!(disk.bytes(key(9)), Some(vec![9; 100]));
    }

    fn numbered(number: u32) -> Key {
        let mut digest = [0; 32];
        digest[..4].copy_from_slice(&number.to_be_bytes());
        Key { kind: 1, digest }
    }

    #[test]
    fn the_index_is_bounded_however_small_things_are() {
        let folder = tempfile::tempdir().expect("a directory");
        let limit = 1 << 20;
        let disk = Disk::open(folder.path(), limit).expect("opened");
        let most = FEW as usize;
        for number in 0..3000 {
            disk.keep(numbered(number), &[1]).expect("room");
            assert!(disk.lock().index.len() <= most, "{number}");
        }
        // The newest stay: three segments of four at least.
        let newest = 3000 - 3 * FEW as u32 / 4;
        assert!((newest..3000).all(|number| disk.bytes(numbered(number)).is_some()));
        assert_eq!(disk.bytes(numbered(0)), None);
        drop(disk);
        let disk = Disk::open(folder.path(), limit).expect("opened");
        assert_eq!(disk.bytes(numbered(2999)), Some(vec![1]));
        drop(disk);
        // As it was written before there was a bound: all in a segment.
        let unbounded = u64::MAX;
        let old = tempfile::tempdir().expect("a directory");
        let disk = Disk::open_with(old.path(), unbounded, unbounded).expect("opened");
        for number in 0..3000 {
            disk.keep(numbered(number), &[1]).expect("room");
        }
        drop(disk);
        let disk = Disk::open(old.path(), limit).expect("opened");
        assert!(disk.lock().index.len() <= most);
        disk.keep(numbered(1), &[1]).expect("room");
        assert_eq!(disk.bytes(numbered(1)), Some(vec![1]));
    }
}
