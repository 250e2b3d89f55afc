//! Why a session could not be had, or ended.

use std::time::Duration;

use mctls::party::Position;

/// Why a session could not be had, or ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The protocol, or somebody's decision within it.
    #[error(transparent)]
    Session(#[from] mctls::Error),
    /// A TLS session below.
    #[error("{part}: {source}")]
    Tls {
        /// Which.
        part: Part,
        /// What rustls says.
        source: rustls::Error,
    },
    /// Settings that no session can have.
    #[error("these settings cannot be used: {0}")]
    Settings(String),
    /// An address that cannot be told to a middlebox.
    #[error("{0:?} is no address: host and port, 1 to 255 bytes of printable ASCII")]
    Address(String),
    /// A TLS configuration that cannot be.
    #[error("the TLS configuration cannot be used: {0}")]
    Configuration(rustls::Error),
    /// The connection to the next hop.
    #[error("the connection failed: {0}")]
    Io(#[from] std::io::Error),
    /// Nothing came in time.
    #[error("{0} did not answer within {1:?}")]
    TimedOut(Part, Duration),
    /// The other endpoint speaks plain TLS alone, and the policy asks for more.
    #[error("the other side does not speak mc13; permit plain TLS, or connect without middleboxes")]
    PlainTls,
    /// A middlebox's certificate is not for its name.
    #[error("{0} has no certificate for the name {1}")]
    Name(Position, String),
    /// A middlebox was asked to connect to what its policy does not permit.
    #[error("connecting to {0} is not permitted")]
    NotPermitted(String),
    /// A middlebox blocked the exchange.
    #[error("this middlebox blocked the exchange")]
    Blocked,
    /// A middlebox does not take part in a session with these rights.
    #[error("this middlebox does not take part in a session with these rights")]
    Refused,
    /// An earlier call to send was dropped before its end, or has failed.
    #[error(
        "an earlier send was dropped or has failed: what follows has no place; end the session"
    )]
    Interrupted,
}

impl Clone for Error {
    fn clone(&self) -> Self {
        match self {
            Self::Session(error) => Self::Session(*error),
            Self::Tls { part, source } => Self::Tls {
                part: *part,
                source: source.clone(),
            },
            Self::Settings(why) => Self::Settings(why.clone()),
            Self::Address(address) => Self::Address(address.clone()),
            Self::Configuration(error) => Self::Configuration(error.clone()),
            Self::Io(error) => Self::Io(std::io::Error::new(error.kind(), error.to_string())),
            Self::TimedOut(part, within) => Self::TimedOut(*part, *within),
            Self::PlainTls => Self::PlainTls,
            Self::Name(position, name) => Self::Name(*position, name.clone()),
            Self::NotPermitted(address) => Self::NotPermitted(address.clone()),
            Self::Blocked => Self::Blocked,
            Self::Refused => Self::Refused,
            Self::Interrupted => Self::Interrupted,
        }
    }
}

/// A part of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The end-to-end session.
    EndToEnd,
    /// The leg of a middlebox.
    Leg(Position),
    /// The next hop, before its place is known.
    NextHop,
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::EndToEnd => f.write_str("the other endpoint"),
            Self::Leg(position) => position.fmt(f),
            Self::NextHop => f.write_str("the next hop"),
        }
    }
}

impl Error {
    /// What the other endpoint is to be told.
    #[must_use]
    pub fn alert(&self) -> Option<mctls::error::Alert> {
        use mctls::error::Alert;
        match self {
            Self::Session(error) => error.alert(),
            Self::Tls { .. } | Self::PlainTls | Self::Name(..) => Some(Alert::HandshakeFailure),
            Self::Settings(_) | Self::Address(_) | Self::Configuration(_) | Self::Interrupted => {
                Some(Alert::Internal)
            }
            Self::Io(_) | Self::TimedOut(..) => Some(Alert::PathLost),
            Self::NotPermitted(_) | Self::Refused => Some(Alert::AccessDenied),
            Self::Blocked => Some(Alert::Blocked),
        }
    }
}
