//! Why a session could not be established, or ended.

use std::time::Duration;

/// Why a session could not be established, or ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The protocol.
    #[error(transparent)]
    Session(#[from] mctls12::Error),
    /// Key or settings that cannot be used.
    #[error("these settings cannot be used: {0}")]
    Settings(String),
    /// The connection to a neighbour.
    #[error("the connection failed: {0}")]
    Io(#[from] std::io::Error),
    /// Nothing came in time, or nothing was taken.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// A server does not want this session.
    #[error("the server refuses a session with these middleboxes and rights")]
    Refused,
    /// A middlebox does not take part in this session.
    #[error("this middlebox does not take part in a session with these rights")]
    NotJoined,
    /// A middlebox was asked to connect to an address that its policy does not permit.
    #[error("connecting to {0} is not permitted")]
    NotPermitted(String),
    /// A middlebox blocked the exchange.
    #[error("this middlebox blocked the exchange")]
    Blocked,
}

impl From<mctls12::error::Breach> for Error {
    fn from(breach: mctls12::error::Breach) -> Self {
        Self::Session(breach.into())
    }
}
