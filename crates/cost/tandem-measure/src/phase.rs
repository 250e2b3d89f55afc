//! The parts of a connection as its client sees them, in the order in which they come. They follow
//! each other without a gap, so that they add up to the whole.
//!
//! ```text
//!   connect   hello            last byte of the         handshake done,   first byte   last byte
//!     |         |              server's first flight    request leaves    of answer    of answer
//!     +-- tcp --+-- server_flight --+-- key_exchange --------+-- first_byte --+-- transfer --+
//! ```
//!
//! `key_exchange` has the client's own work (certificates checked, keys agreed), and in a full
//! handshake of TLS 1.2 the round trip of the client's flight and the server's Finished.

use std::time::Duration;

use serde::Serialize;

/// A part of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// From connect to the connection.
    Tcp,
    /// From the ClientHello to the last byte of the server's first flight.
    ServerFlight,
    /// From there to the end of the handshake.
    KeyExchange,
    /// From there, or from the end of the answer before, to the first byte of the answer.
    FirstByte,
    /// From there to the last byte of the answer.
    Transfer,
}

impl Phase {
    /// In order.
    pub const ALL: [Self; 5] = [
        Self::Tcp,
        Self::ServerFlight,
        Self::KeyExchange,
        Self::FirstByte,
        Self::Transfer,
    ];

    /// Its place in [`Self::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Tcp => 0,
            Self::ServerFlight => 1,
            Self::KeyExchange => 2,
            Self::FirstByte => 3,
            Self::Transfer => 4,
        }
    }

    /// For tables.
    #[must_use]
    pub fn says(self) -> &'static str {
        match self {
            Self::Tcp => "TCP connection",
            Self::ServerFlight => "hello to server flight",
            Self::KeyExchange => "key exchange, Finished",
            Self::FirstByte => "request to first byte",
            Self::Transfer => "transfer",
        }
    }
}

/// What one phase of one connection took, in three currencies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Step {
    /// Time.
    pub time: Duration,
    /// Bytes that were handed to TCP.
    pub sent: u64,
    /// Bytes that came from TCP.
    pub received: u64,
    /// Times that the client had to wait for an answer before it could go on.
    pub round_trips: u32,
}

/// With what an answer was got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A connection with a full handshake.
    Full,
    /// A connection that resumed a session.
    Resumed,
    /// A connection that was open already.
    Kept,
    /// A connection without TLS.
    Clear,
}

impl Kind {
    /// In order.
    pub const ALL: [Self; 4] = [Self::Full, Self::Resumed, Self::Kept, Self::Clear];

    /// Its place in [`Self::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Full => 0,
            Self::Resumed => 1,
            Self::Kept => 2,
            Self::Clear => 3,
        }
    }

    /// For tables.
    #[must_use]
    pub fn says(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Resumed => "resumed",
            Self::Kept => "kept open",
            Self::Clear => "no TLS",
        }
    }
}

/// Round trips of a handshake's two phases, server flight and key exchange. `flights`: how often
/// the client wrote a flight after its first and then had to read on.
///
/// In TLS 1.3 such a flight before the end can only be the second hello that a HelloRetryRequest
/// asks for (RFC 8446, section 4.1.4), or the change_cipher_spec for middleboxes (appendix D.4),
/// which waits for nothing; in TLS 1.2 it is the one with the key exchange (RFC 5246, section 7.3).
#[must_use]
pub fn handshake_round_trips(version: HandshakeForm, flights: u32) -> [u32; 2] {
    match version {
        HandshakeForm::Tls12 => [1, flights],
        HandshakeForm::Tls13 => [1, 0],
        HandshakeForm::Tls13Retried => [2, 0],
    }
}

/// How a handshake ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandshakeForm {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
    /// TLS 1.3 with a HelloRetryRequest.
    Tls13Retried,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_has_the_round_trips_of_its_version() {
        assert_eq!(handshake_round_trips(HandshakeForm::Tls12, 1), [1, 1]);
        assert_eq!(handshake_round_trips(HandshakeForm::Tls12, 0), [1, 0]);
        assert_eq!(handshake_round_trips(HandshakeForm::Tls13, 1), [1, 0]);
        assert_eq!(
            handshake_round_trips(HandshakeForm::Tls13Retried, 1),
            [2, 0]
        );
    }

    #[test]
    fn everything_has_its_own_place() {
        for (place, phase) in Phase::ALL.into_iter().enumerate() {
            assert_eq!(phase.index(), place);
        }
        for (place, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind.index(), place);
        }
    }
}
