//! The sums, in a file that is mapped into the server's memory and read by whoever measures.
//!
//! ```text
//!   0   "TNDMCOST" | nanoseconds of a look at the clock, u64 | number of records, u64 | 0, u64
//!  32   record: name, 32 bytes, zeros behind it | nanoseconds | calls | bytes | phases within, all u64
//!  96   the next record, and so on
//! ```
//!
//! Numbers have the machine's own byte order.

use std::cell::Cell;
use std::ffi::{CStr, OsStr};
use std::fs::OpenOptions;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::clock;
use crate::entry::Entry;

/// Names the file.
const VARIABLE: &CStr = c"TANDEM_COST_TAP";

/// A record of the file.
#[repr(C)]
struct Record {
    name: [u8; 32],
    nanos: AtomicU64,
    calls: AtomicU64,
    bytes: AtomicU64,
    /// Phases that were timed within calls of libssl: their looks at the clock are in its time.
    within: AtomicU64,
}

/// The whole file.
#[repr(C)]
struct Board {
    magic: [u8; 8],
    clock: u64,
    records: u64,
    reserved: u64,
    all: [Record; Entry::ALL.len()],
}

/// Null until there is a file, and then there for as long as the process lives.
static BOARD: AtomicPtr<Board> = AtomicPtr::new(ptr::null_mut());

thread_local! {
    /// Whether this thread is in a call of libssl, and in a phase.
    static INSIDE: Cell<[bool; 2]> = const { Cell::new([false; 2]) };
    /// Phases of the call of libssl that is under way.
    static PHASES: Cell<u64> = const { Cell::new(0) };
}

/// Makes the call, and adds what it took if it is the outermost of its kind: a call of libssl, or
/// within one a phase.
pub(crate) fn timed<R>(entry: Entry, bytes: usize, call: impl FnOnce() -> R) -> R {
    let board = BOARD.load(Ordering::Acquire);
    // SAFETY: null, or the mapping, which is never taken away.
    let Some(board) = (unsafe { board.as_ref() }) else {
        return call();
    };
    let inside = INSIDE.get();
    let [in_library, in_phase] = inside;
    let counts = match entry.is_library() {
        true => !in_library,
        false => in_library && !in_phase,
    };
    if !counts {
        return call();
    }
    INSIDE.set([true, !entry.is_library()]);
    let begun = clock::nanos();
    let result = call();
    let taken = clock::nanos().saturating_sub(begun);
    INSIDE.set(inside);
    let record = &board.all[entry.index()];
    record.nanos.fetch_add(taken, Ordering::Relaxed);
    record.calls.fetch_add(1, Ordering::Relaxed);
    record.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    match entry.is_library() {
        true => drop(record.within.fetch_add(PHASES.take(), Ordering::Relaxed)),
        false => PHASES.set(PHASES.get() + 1),
    }
    result
}

/// Opens the file that the environment names. Without one nothing is timed.
pub(crate) fn start() {
    // SAFETY: reads a number that the kernel has left for the process.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return;
    }
    // SAFETY: called before the program has threads that could change the environment; the text is
    // copied at once.
    let path = unsafe {
        let value = libc::getenv(VARIABLE.as_ptr());
        match value.is_null() {
            true => return,
            false => CStr::from_ptr(value).to_owned(),
        }
    };
    // A server that cannot be timed serves all the same.
    let _ = open(OsStr::from_bytes(path.as_bytes()));
}

fn open(path: &OsStr) -> std::io::Result<()> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)?;
    let length = size_of::<Board>();
    file.set_len(length as u64)?;
    // SAFETY: a new mapping of a file that has this length; no other memory is concerned.
    let map = unsafe {
        libc::mmap(
            ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if map == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    let board: *mut Board = map.cast();
    // SAFETY: the mapping has the length and, beginning with a page, the alignment of a board; its
    // bytes are zeros, for which all fields have a value. Nobody else uses it yet.
    let new = unsafe { &mut *board };
    new.magic = *b"TNDMCOST";
    new.clock = clock::cost();
    new.records = Entry::ALL.len() as u64;
    for (record, entry) in new.all.iter_mut().zip(Entry::ALL) {
        let name = entry.name().as_bytes();
        record.name[..name.len()].copy_from_slice(name);
    }
    BOARD.store(board, Ordering::Release);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_nested_calls_the_outermost_counts_and_phases_only_within_the_library() {
        let file = tempfile::NamedTempFile::new().unwrap();
        open(file.path().as_os_str()).unwrap();
        let calls = |entry: Entry| {
            let bytes = std::fs::read(file.path()).unwrap();
            let at = 32 + entry.index() * 64 + 40;
            u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
        };
        timed(Entry::Records, 5, || ());
        assert_eq!(calls(Entry::Records), 0, "outside");
        timed(Entry::Handshake, 0, || {
            timed(Entry::Handshake, 0, || ());
            timed(Entry::PrivateKey, 0, || timed(Entry::Digests, 0, || ()));
            timed(Entry::Digests, 7, || ());
        });
        timed(Entry::Records, 5, || ());
        let counted = [
            Entry::Handshake,
            Entry::PrivateKey,
            Entry::Digests,
            Entry::Records,
        ];
        assert_eq!(counted.map(calls), [1, 1, 1, 0]);
        let bytes = std::fs::read(file.path()).unwrap();
        let within = 32 + Entry::Handshake.index() * 64 + 56;
        assert_eq!(bytes[within..within + 8], 2_u64.to_ne_bytes());
        assert_eq!(&bytes[..8], b"TNDMCOST");
        assert_eq!(&bytes[32..45], b"in handshakes");
        assert_eq!(bytes.len(), 32 + 64 * Entry::ALL.len());
    }
}
