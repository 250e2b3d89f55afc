//! What an operator should know about a store that goes on all the same.
//!
//! Not here: errors, which are answers to a caller who can do better. Each warning says what
//! happened, what the store does about it, and what may be done.

use std::path::PathBuf;

/// Something about the store's disk that nobody's connection depends on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// The file was damaged; it was kept under another name.
    #[error(
        "{path} was damaged ({reason}): moved to {moved_to} and begun anew; delete that when nobody needs it"
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What SQLite says of it.
        reason: String,
        /// Where it is now.
        moved_to: PathBuf,
    },
    /// Single entries were damaged, and were forgotten.
    #[error(
        "{count} certificates in {path} were not the bytes that they should be, and were forgotten; check the disk"
    )]
    CorruptEntries {
        /// The file.
        path: PathBuf,
        /// How many.
        count: usize,
    },
    /// Nothing can be written there.
    #[error(
        "cannot keep a store in {path} ({reason}): what is learned is kept in memory only; check permissions and free space"
    )]
    Unwritable {
        /// The directory or file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// Another process has the store open for writing.
    #[error(
        "the store in {path} is in use by {}: what is learned is kept in memory only; give each daemon a store of its own",
        holder(*.process)
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The other process, if it says.
        process: Option<u32>,
    },
    /// A later version of this program wrote the file.
    #[error(
        "{path} has schema {found}, and this program knows up to {known}: left alone, and what is learned is kept in memory \
         only; update this program, or give it another store"
    )]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// The file's schema.
        found: i64,
        /// The newest schema that this program knows.
        known: i64,
    },
    /// The file is some other program's.
    #[error(
        "{path} is a database of another program: left alone, and what is learned is kept in memory only; give another path"
    )]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// An earlier version of this program wrote the file, and it was brought up to date.
    #[error("{path} was brought from schema {from} to {to}")]
    Migrated {
        /// The file.
        path: PathBuf,
        /// Its schema before.
        from: i64,
        /// Its schema now.
        to: i64,
    },
    /// Others may look into the directory (the files themselves are closed to them).
    #[error(
        "others may list {path} (mode {mode:03o}): the files in it are closed to them; chmod 700 closes the directory too"
    )]
    OpenDirectory {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The disk refuses writes.
    #[error(
        "cannot write to {path} ({reason}): tried again from time to time; until then what is learned is kept in memory"
    )]
    WriteFailed {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// The disk took what it had refused.
    #[error("{path} can be written again; nothing was lost")]
    WriteRecovered {
        /// The file.
        path: PathBuf,
    },
    /// The disk is not used any more until the next start.
    #[error(
        "gave up on {path} ({reason}): what is learned is kept in memory until the next start; check the disk"
    )]
    GaveUp {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
}

/// How to name the process that has the store.
pub(crate) fn holder(process: Option<u32>) -> String {
    process.map_or_else(
        || "another process".to_owned(),
        |process| format!("process {process}"),
    )
}
