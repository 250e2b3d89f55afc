//! What keeps a key server from starting, by who can mend it.
//!
//! Is not: what goes wrong later. A connection that fails ends that connection; a request that
//! cannot be answered is refused, counted and logged.

use std::io;
use std::path::{Path, PathBuf};

use tandem_channel::ChannelError;
use tandem_daemon::DaemonError;

/// Why a key server does not start, or does not take new settings.
#[derive(Debug, thiserror::Error)]
pub enum KeyServerError {
    /// A file that was named could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that was named holds something else than it must.
    #[error("{}: {reason}", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What is wrong with it, and what would be right.
        reason: String,
    },
    /// An address cannot be listened on, or the machine refuses what every daemon needs.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// The machine refuses what is needed.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl KeyServerError {
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }

    pub(crate) fn content(path: &Path, reason: impl Into<String>) -> Self {
        Self::Content {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }
}

impl From<ChannelError> for KeyServerError {
    fn from(error: ChannelError) -> Self {
        match error {
            ChannelError::File { path, source } => Self::File { path, source },
            ChannelError::Content { path, reason } => Self::Content { path, reason },
            ChannelError::System { what, source } => Self::System { what, source },
        }
    }
}
