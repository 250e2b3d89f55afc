//! What can go wrong for a daemon as a whole, by who is at fault.
//!
//! Is not: what goes wrong with one packet; that is a counter and the packet goes on, see
//! `metrics.rs`.
//!
//! Invariant: each message is one line and says what to do.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use tandem_daemon::DaemonError;
use tandem_firewall::FirewallError;
use tandem_queue::QueueError;

/// Why a daemon did not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum IoError {
    /// A value that was given, or is missing. Fault: the user.
    #[error("{name}: {problem}")]
    Setting {
        /// The setting's name, as in the file; with `--` before it on the command line.
        name: &'static str,
        /// What is wrong with it and what would be right.
        problem: String,
    },
    /// The key file cannot be read.
    #[error("cannot read the key file {}: {source}; write 64 hex digits into it, the same on both sides", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The packet queue, or a raw socket.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The admin address is taken.
    #[error("the admin address {address} is in use; choose another with --admin, or --admin none")]
    AdminBusy {
        /// The address.
        address: SocketAddr,
    },
    /// No pair of mark bits is left.
    #[error(
        "all mark bits that Tandem chooses from are taken by other daemons here; set leave-mark and inject-mark"
    )]
    NoMarkLeft,
    /// The firewall, the link, a privilege, or another daemon on it.
    #[error(transparent)]
    Firewall(#[from] FirewallError),
    /// The admin address cannot be listened on, for another reason than that it is taken.
    #[error(
        "cannot listen on the admin address {address}: {source}; is the interface that holds it up?"
    )]
    Admin {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// A call of the operating system failed.
    #[error("{doing} failed: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A running daemon could not be asked.
    #[error("no answer from a daemon at {address}: {reason}; does it run, and with this --admin?")]
    Status {
        /// The address that was asked.
        address: SocketAddr,
        /// What went wrong.
        reason: String,
    },
}

impl From<DaemonError> for IoError {
    fn from(error: DaemonError) -> Self {
        match error {
            DaemonError::Busy { address, .. } => Self::AdminBusy { address },
            DaemonError::Listen {
                address, source, ..
            } => Self::Admin { address, source },
            DaemonError::System { what, source } => Self::system(what, source),
        }
    }
}

impl IoError {
    pub(crate) fn setting(name: &'static str, problem: impl Into<String>) -> Self {
        IoError::Setting {
            name,
            problem: problem.into(),
        }
    }

    pub(crate) fn system(doing: &'static str, source: impl Into<io::Error>) -> Self {
        IoError::System {
            doing,
            source: source.into(),
        }
    }
}
