//! Everything that can be wrong with what is asked of a store on disk, by who is at fault.
//!
//! Not here: a bad disk under a running daemon. That is no error but a warning, since the daemon
//! goes on without it.

use std::path::PathBuf;

use crate::warning::{Warning, holder};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    // ---- The caller is at fault.
    /// The path of a store is something else than a directory.
    #[error(
        "{path:?} is no directory: a store is a directory of its own; give the path of one, or of one to be made"
    )]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// There is no store.
    #[error(
        "there is no store in {path:?}: check the path; the daemon makes the store when it first starts"
    )]
    NoStore {
        /// The directory.
        path: PathBuf,
    },
    /// Whether there is a store cannot be told, or what is in it: this user may not look.
    #[error(
        "may not look into the store in {path:?} ({reason}): ask as root, or as the user whose store it is"
    )]
    Forbidden {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// No chain and no certificate has a name that begins so.
    #[error(
        "nothing in the store begins with {prefix:?}: names are in hexadecimal digits, as listed"
    )]
    NotFound {
        /// What was looked for.
        prefix: String,
    },
    /// More than one chain or certificate has a name that begins so.
    #[error("{count} names begin with {prefix:?}: give more digits")]
    Ambiguous {
        /// What was looked for.
        prefix: String,
        /// How many were found.
        count: usize,
    },

    // ---- A file that is to be taken in is at fault.
    /// It does not hold what it should.
    #[error("{path:?}, {place}: {reason}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where in it.
        place: Place,
        /// What is wrong there.
        reason: String,
    },

    /// The store itself is damaged.
    #[error(
        "{path:?} is damaged ({reason}): the daemon puts it aside and begins anew when it next starts; check the disk"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite says of it.
        reason: String,
    },

    // ---- The machine is at fault, or another program.
    /// A file cannot be read.
    #[error("cannot read {path:?}: {reason}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// Somebody else has the store open for writing.
    #[error("the store in {path:?} is in use by {}: stop the daemon first; looking does not need that, changing does", holder(*.process))]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process that has it, if it says.
        process: Option<u32>,
    },
    /// The store cannot be changed.
    #[error("{0}")]
    Unusable(Warning),
    /// Not all that was to be written is on disk.
    #[error("could not write to the store in {path:?}: {reason}")]
    NotWritten {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// What was to be read out cannot be handed on.
    #[error("cannot write what was exported: {0}")]
    Output(#[from] std::io::Error),
}

/// Where in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line, counted from one.
    Line(usize),
    /// A certificate, counted from one.
    Certificate(usize),
}

impl core::fmt::Display for Place {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Certificate(number) => write!(f, "certificate {number}"),
        }
    }
}
