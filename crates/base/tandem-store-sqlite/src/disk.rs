//! What a store has of its disk while that is of use: the file, its reader, its writer.
//!
//! Is not: when something is written, or what is done about a fault; that is the store's.
//!
//! Invariant: the lock on the file outlives what reads and writes it.

use std::path::PathBuf;

use rusqlite::Connection;
use tandem_store::backing::Changes;

use crate::files;
use crate::writer::Writer;

/// Everything that is there only while the disk is of use. Fields are dropped in order: the lock
/// goes last.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) path: PathBuf,
    pub(crate) reader: Connection,
    pub(crate) writer: Writer,
    /// What the writer is writing.
    pub(crate) in_flight: Option<Changes>,
    pub(crate) scrub: Scrub,
    pub(crate) trouble: Option<Trouble>,
    pub(crate) _lock: files::Lock,
}

/// Whether what was deleted must leave no trace in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scrub {
    Done,
    /// When everything else is written.
    Due,
    UnderWay,
}

/// A disk that refuses writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trouble {
    /// Calls to let pass after the next refusal.
    pub(crate) pause: u32,
    /// Calls still to let pass.
    pub(crate) left: u32,
}
