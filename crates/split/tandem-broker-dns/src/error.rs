//! What can go wrong, by whose fault, with what to do.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Why DNS cannot be served, or a name not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum DnsError {
    /// A key of the configuration is wrong.
    #[error("{setting}: {reason}")]
    Setting {
        /// The key or flag, as it is written.
        setting: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A file cannot be read or made.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// What is in a file is not what it should be.
    #[error("{}: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// An address cannot be listened on.
    #[error("cannot answer DNS at {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The DNS library refuses what should be right.
    #[error("the zone cannot be made: {0}")]
    Library(String),
}

impl DnsError {
    pub(crate) fn file(path: &Path, source: std::io::Error) -> Self {
        Self::File {
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn content(path: &Path, reason: impl Into<String>) -> Self {
        Self::Content {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }

    pub(crate) fn library(error: impl std::fmt::Display) -> Self {
        Self::Library(error.to_string())
    }
}
