//! Everything that can be wrong with what is asked of a store, by who is at fault.
//!
//! Not here: a bad disk under a running daemon. That is no error but a warning, since the daemon
//! goes on without it.

#[cfg(feature = "sqlite")]
use std::path::PathBuf;

#[cfg(feature = "sqlite")]
use crate::sqlite::{Warning, holder};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    // ---- The caller is at fault.
    /// The text is no digest.
    #[error("not a SHA-256 digest (64 hexadecimal digits): {text:?}")]
    NotADigest {
        /// The beginning of the text.
        text: String,
    },
    /// The text is no host name.
    #[error("not a host name: {text:?}")]
    NotAHostName {
        /// The beginning of the text.
        text: String,
    },
    /// The path of a store is something else than a directory.
    #[cfg(feature = "sqlite")]
    #[error(
        "{path:?} is no directory: a store is a directory of its own; give the path of one, or of one to be made"
    )]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// There is no store.
    #[cfg(feature = "sqlite")]
    #[error(
        "there is no store in {path:?}: check the path; the daemon makes the store when it first starts"
    )]
    NoStore {
        /// The directory.
        path: PathBuf,
    },
    /// No chain and no certificate has a name that begins so.
    #[cfg(feature = "sqlite")]
    #[error(
        "nothing in the store begins with {prefix:?}: names are in hexadecimal digits, as listed"
    )]
    NotFound {
        /// What was looked for.
        prefix: String,
    },
    /// More than one chain or certificate has a name that begins so.
    #[cfg(feature = "sqlite")]
    #[error("{count} names begin with {prefix:?}: give more digits")]
    Ambiguous {
        /// What was looked for.
        prefix: String,
        /// How many were found.
        count: usize,
    },

    // ---- A file that is to be taken in is at fault.
    /// It does not hold what it should.
    #[cfg(feature = "sqlite")]
    #[error("{path:?}, {place}: {reason}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where in it.
        place: Place,
        /// What is wrong there.
        reason: String,
    },

    // ---- The machine is at fault, or another program.
    /// A file cannot be read.
    #[cfg(feature = "sqlite")]
    #[error("cannot read {path:?}: {reason}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// Somebody else has the store open for writing.
    #[cfg(feature = "sqlite")]
    #[error("the store in {path:?} is in use by {}: stop the daemon first; looking does not need that, changing does", holder(*.process))]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process that has it, if it says.
        process: Option<u32>,
    },
    /// The store cannot be changed.
    #[cfg(feature = "sqlite")]
    #[error("{0}")]
    Unusable(Warning),
    /// Not all that was to be written is on disk.
    #[cfg(feature = "sqlite")]
    #[error("could not write to the store in {path:?}: {reason}")]
    NotWritten {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// What was to be read out cannot be handed on.
    #[cfg(feature = "sqlite")]
    #[error("cannot write what was exported: {0}")]
    Output(#[from] std::io::Error),
}

/// Where in a file.
#[cfg(feature = "sqlite")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line, counted from one.
    Line(usize),
    /// A certificate, counted from one.
    Certificate(usize),
}

#[cfg(feature = "sqlite")]
impl core::fmt::Display for Place {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Certificate(number) => write!(f, "certificate {number}"),
        }
    }
}
