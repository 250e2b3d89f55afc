//! What can go wrong with keys and their files.
//!
//! Is not: a connection that fails, which is an `io::Error`.

use std::io;
use std::path::{Path, PathBuf};

/// Why a key or a list of keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file does not contain what it should.
    #[error("{}: {reason}", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The system or the TLS library refused something.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl ChannelError {
    pub(crate) fn content(path: &Path, reason: impl Into<String>) -> Self {
        Self::Content {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }

    pub(crate) fn tls(source: rustls::Error) -> Self {
        Self::System {
            what: "TLS",
            source: io::Error::other(source),
        }
    }
}
