//! What can prevent a daemon from starting, whatever the daemon does.

use std::io;
use std::net::SocketAddr;

/// Why a daemon does not start.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// An address that is in use.
    #[error("{setting}: {address} is in use")]
    Busy {
        /// The setting's name, as the user wrote it.
        setting: &'static str,
        /// The address.
        address: SocketAddr,
    },
    /// An address that cannot be listened on.
    #[error("{setting}: cannot listen on {address}: {source}")]
    Listen {
        /// The setting's name, as the user wrote it.
        setting: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The system refused something.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl DaemonError {
    /// Why `address`, which `setting` names, cannot be listened on.
    #[must_use]
    pub fn listening(setting: &'static str, address: SocketAddr, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::Busy { setting, address },
            _ => Self::Listen {
                setting,
                address,
                source,
            },
        }
    }

    pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
