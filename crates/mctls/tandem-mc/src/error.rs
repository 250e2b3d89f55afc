//! What can go wrong, by what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use tandem_daemon::DaemonError;

/// Why something did not happen.
#[derive(Debug, thiserror::Error)]
pub enum McError {
    /// An argument that cannot be.
    #[error("{0}")]
    Argument(String),
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file has not what it should.
    #[error("{}: {problem}", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A setting that cannot be.
    #[error("settings: {0}")]
    Config(String),
    /// A port, or what else a daemon needs.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// A middlebox that has to be discovered was not.
    #[error("{0}")]
    Discovery(String),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] mctls_io::Error),
    /// `openssl`, which makes the demonstration's certificates.
    #[error("openssl makes the demonstration's certificates: {0}; install it (Debian: openssl)")]
    Openssl(String),
    /// Part of the demonstration did not show what it should.
    #[error("the demonstration: {0}")]
    Demo(String),
    /// Standard output takes no more.
    #[error("standard output: {0}")]
    Output(io::Error),
}

impl McError {
    pub(crate) fn config(problem: &str) -> Self {
        Self::Config(problem.to_owned())
    }

    pub(crate) fn file(path: &Path) -> impl Fn(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File {
            path: path.clone(),
            source,
        }
    }

    pub(crate) fn content(path: &Path, problem: impl Into<String>) -> Self {
        Self::Content {
            path: path.to_owned(),
            problem: problem.into(),
        }
    }
}
