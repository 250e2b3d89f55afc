//! What can go wrong at the start of the demonstration, by what to do about it.

use std::io;
use std::net::SocketAddr;

use tandem_broker::BrokerError;
use tandem_split_io::SplitIoError;

/// Why the demonstration does not start.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The program that makes certificates.
    #[error(
        "cannot run openssl, which makes the demonstration's certificates: {0}; install it (Debian's package openssl)"
    )]
    Openssl(io::Error),
    /// It did not do it.
    #[error("openssl made no certificate: {0}")]
    Certificate(String),
    /// An address that is taken.
    #[error("{address}: {source}; choose other ports with --port")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The temporary folder, or what is in it.
    #[error("the demonstration's temporary files: {0}")]
    Folder(io::Error),
    /// The small site's own address.
    #[error("the demonstration's server: {0}")]
    Upstream(String),
    /// The broker.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// The broker does not know where it is.
    #[error("the demonstration's broker has no address")]
    NoUri,
    /// Origin or volunteer.
    #[error(transparent)]
    Part(#[from] SplitIoError),
}
