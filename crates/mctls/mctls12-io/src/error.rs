//! Why a session could not be established, or ended.

use std::time::Duration;

use mctls::party::ContextId;

/// Why a session could not be established, or ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The protocol.
    #[error(transparent)]
    Session(#[from] mctls12::Error),
    /// The protocol, in the prototype's format.
    #[error(transparent)]
    Prototype(#[from] mctls12_prototype::Error),
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

impl Error {
    /// Whether a check of authenticity has failed: somebody has overstepped.
    #[must_use]
    pub const fn is_forgery(&self) -> bool {
        matches!(
            self,
            Self::Session(mctls12::Error::Forged(_))
                | Self::Prototype(mctls12_prototype::Error::Forged(_))
        )
    }

    /// The context in which a party has written that may only read it.
    #[must_use]
    pub const fn overwritten(&self) -> Option<ContextId> {
        use mctls12::error::Check as Own;
        use mctls12_prototype::error::Check as Prototypes;
        match self {
            Self::Session(mctls12::Error::Forged(Own::WriterMac(id)))
            | Self::Prototype(mctls12_prototype::Error::Forged(Prototypes::WriterMac(id))) => {
                Some(*id)
            }
            _ => None,
        }
    }

    /// Whether the connection was cut before its end.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        use mctls12::error::Breach as Own;
        use mctls12_prototype::error::Breach as Prototypes;
        matches!(
            self,
            Self::Session(mctls12::Error::Peer(Own::Truncated))
                | Self::Prototype(mctls12_prototype::Error::Peer(Prototypes::Truncated))
        )
    }
}

impl From<mctls12::error::Breach> for Error {
    fn from(breach: mctls12::error::Breach) -> Self {
        Self::Session(breach.into())
    }
}

impl From<mctls12_prototype::error::Breach> for Error {
    fn from(breach: mctls12_prototype::error::Breach) -> Self {
        Self::Prototype(breach.into())
    }
}
