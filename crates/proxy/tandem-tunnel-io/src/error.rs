//! What can go wrong for a daemon as a whole, by who is at fault.
//!
//! Is not: what goes wrong with one connection; that is a counter, and ends this connection.
//!
//! Invariant: each message is one line and says what to do.

use std::io;

use tandem_channel::ChannelError;
use tandem_daemon::DaemonError;
use tandem_firewall::FirewallError;
use tandem_queue::QueueError;

/// Why a daemon of tunnel mode did not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum TunnelError {
    /// A setting makes no sense. Fault: the user.
    #[error("{name}: {problem}")]
    Setting {
        /// Its name, as on the command line without `--`.
        name: &'static str,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// An address cannot be listened on, or the machine refuses what every daemon needs.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// The firewall's rules, a privilege or the link.
    #[error(transparent)]
    Firewall(#[from] FirewallError),
    /// The packet queue, or a raw socket.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The machine or a library refuses what is needed.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl TunnelError {
    pub(crate) fn setting(name: &'static str, problem: impl Into<String>) -> Self {
        Self::Setting {
            name,
            problem: problem.into(),
        }
    }

    pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

impl From<ChannelError> for TunnelError {
    fn from(error: ChannelError) -> Self {
        match error {
            ChannelError::System { what, source } => Self::System { what, source },
            // The tunnel's keys are in no file of their own.
            ChannelError::File { source, .. } => Self::System {
                what: "a key",
                source,
            },
            ChannelError::Content { reason, .. } => Self::System {
                what: "a key",
                source: io::Error::other(reason),
            },
        }
    }
}
