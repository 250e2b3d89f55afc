//! What can go wrong.

use std::io;

/// Why a connection or the program ends.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The experimental protocol.
    #[error(transparent)]
    Tls(#[from] tls12_experiment::Error),
    /// rustls.
    #[error("rustls: {0}")]
    Stock(#[from] rustls::Error),
    /// The network.
    #[error("cannot {doing}: {error}")]
    Socket {
        /// What was tried.
        doing: &'static str,
        /// What the system says.
        error: io::Error,
    },
    /// Settings or files that cannot be used.
    #[error("{0}")]
    Settings(String),
    /// An end of the connection before its time.
    #[error("the other end closed the connection before it was done")]
    Cut,
    /// More than is taken.
    #[error("the other end sends more than is taken")]
    TooMuch,
}

impl Failure {
    pub(crate) fn socket(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Socket { doing, error }
    }
}
