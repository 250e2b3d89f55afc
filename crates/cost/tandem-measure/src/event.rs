//! What a connection and a request tell the tally when they are done.

use std::time::Duration;

use serde::Serialize;

use crate::phase::{Kind, Step};

/// By what means a session was resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Means {
    /// A session identifier of TLS 1.2.
    Id,
    /// A ticket of TLS 1.2.
    Ticket,
    /// A pre-shared key of TLS 1.3.
    Psk,
}

/// What became of the wish to reuse a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferOutcome {
    /// There was none.
    NotWanted,
    /// The server had given nothing that could be offered.
    NothingThere,
    /// It was offered, and the server made a full handshake.
    Refused,
    /// The session was resumed.
    Taken(Means),
    /// There is no TLS.
    WithoutTls,
}

impl OfferOutcome {
    /// The connection's kind. What was refused is full.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::NotWanted | Self::NothingThere | Self::Refused => Kind::Full,
            Self::Taken(_) => Kind::Resumed,
            Self::WithoutTls => Kind::Clear,
        }
    }
}

/// What became of a request that was sent with the hello (0-RTT).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlyData {
    /// There was none.
    NotSent,
    /// The server took it.
    Taken,
    /// It had to be sent again.
    Refused,
}

/// A handshake that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handshake {
    /// Whether a session was resumed.
    pub offer: OfferOutcome,
    /// Whether a request went with it.
    pub early_data: EarlyData,
    /// TCP, server flight, key exchange.
    pub steps: [Step; 3],
}

/// A request that was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// With what.
    pub kind: Kind,
    /// From the intended start.
    pub latency: Duration,
    /// From the real start: of the connection, or on one kept open of the request.
    pub whole: Duration,
    /// First byte, transfer.
    pub steps: [Step; 2],
    /// Bytes of the answer's body.
    pub body: u64,
    /// Bytes of the answer before encryption, its head too.
    pub plain: u64,
}
