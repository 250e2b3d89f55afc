//! What can go wrong at the start of an origin or a volunteer, by who can mend it.
//!
//! Is not: what goes wrong later. A connection that fails ends that connection, is counted, and
//! ends nothing else.

use std::io;
use std::path::PathBuf;

use tandem_channel::ChannelError;
use tandem_daemon::DaemonError;

/// Why an origin or a volunteer does not start.
#[derive(Debug, thiserror::Error)]
pub enum SplitIoError {
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
    /// A setting makes no sense.
    #[error("{setting}: {reason}")]
    Setting {
        /// Its name on the command line.
        setting: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// An address cannot be listened on, or the machine refuses what every daemon needs.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// The cache's directory belongs to another volunteer that runs.
    #[error("{}: another volunteer uses this cache", path.display())]
    CacheBusy {
        /// The directory.
        path: PathBuf,
    },
    /// The machine refuses what is needed.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl From<ChannelError> for SplitIoError {
    fn from(error: ChannelError) -> Self {
        match error {
            ChannelError::File { path, source } => Self::File { path, source },
            ChannelError::Content { path, reason } => Self::Content { path, reason },
            ChannelError::System { what, source } => Self::System { what, source },
        }
    }
}

impl SplitIoError {
    pub(crate) fn content(path: &std::path::Path, reason: impl Into<String>) -> Self {
        Self::Content {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }
}
