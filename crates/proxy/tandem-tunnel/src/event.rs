//! What happens in tunnelled connections, declared once for logs, metrics and tests.
//!
//! Is not: what happens to objects; that is the engine's ([`tandem_engine::Event`]).

use tandem_engine::Pass;
use tandem_link::tunnel::{Ending, Miss};

/// Why a flight that a key had opened, or begun to open, crosses as it is: at the server side a
/// server's, at the client side a client's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dropped {
    /// It would not have been shorter.
    NoGain,
    /// The rest of it did not come in time.
    HeldTooLong,
    /// Its sender ended, or said that it gives up.
    ServerEnded,
    /// No delta may be written any more.
    NoDelta,
    /// It is longer than what is followed, or what was followed is over.
    Unfollowed,
    /// The connection broke off.
    ConnectionEnded,
}

/// Something that happened in a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A connection was opened: its first message was written, or read.
    RelayOpened,
    /// One ended in both directions.
    RelayClosed,
    /// One ended before its time.
    Ended(Ending),
    /// A client's hello crosses as a delta.
    HelloWritten,
    /// One that came as a delta was rebuilt.
    HelloRebuilt,
    /// A flight crosses as a delta: the server's first, or the client's after it.
    FlightWritten,
    /// One that came as a delta was rebuilt.
    FlightRebuilt,
    /// A flight that a key had opened crosses in its opened form.
    OpenedWritten,
    /// One crosses as it is.
    OpenedDropped(Dropped),
    /// A hello or a flight that came as a delta was not rebuilt.
    FlightMissed(Miss),
    /// Bytes of hellos, flights and phrases, less the bytes of their frames. What the far side
    /// misses is not taken off.
    BytesElided(u64),
    /// Bytes that crossed in frames as they were, before a direction had no frames any more.
    LiteralBytes(u64),
    /// Bytes that crossed after all, because their delta was missed.
    OriginalBytes(u64),
    /// What was held did not become whole in time.
    HoldTimedOut,
    /// Both Finished have passed.
    HandshakeFinished,
    /// There was nothing to do in the handshake.
    HandshakePassed(Pass),
    /// A direction was longer than what is followed.
    HandshakeTooLong,
}

impl Event {
    /// One of each, amounts zero.
    pub const ALL: [Self; 37] = [
        Self::RelayOpened,
        Self::RelayClosed,
        Self::Ended(Ending::Reset),
        Self::Ended(Ending::Refused),
        Self::Ended(Ending::HostUnreachable),
        Self::Ended(Ending::NetworkUnreachable),
        Self::Ended(Ending::TimedOut),
        Self::Ended(Ending::NotAllowed),
        Self::Ended(Ending::NameNotFound),
        Self::Ended(Ending::Malformed),
        Self::Ended(Ending::Overloaded),
        Self::Ended(Ending::ShuttingDown),
        Self::HelloWritten,
        Self::HelloRebuilt,
        Self::FlightWritten,
        Self::FlightRebuilt,
        Self::OpenedWritten,
        Self::OpenedDropped(Dropped::NoGain),
        Self::OpenedDropped(Dropped::HeldTooLong),
        Self::OpenedDropped(Dropped::ServerEnded),
        Self::OpenedDropped(Dropped::NoDelta),
        Self::OpenedDropped(Dropped::Unfollowed),
        Self::OpenedDropped(Dropped::ConnectionEnded),
        Self::FlightMissed(Miss::NotHeld),
        Self::FlightMissed(Miss::Malformed),
        Self::FlightMissed(Miss::Check),
        Self::BytesElided(0),
        Self::LiteralBytes(0),
        Self::OriginalBytes(0),
        Self::HoldTimedOut,
        Self::HandshakeFinished,
        Self::HandshakePassed(Pass::NotTls),
        Self::HandshakePassed(Pass::Tls13),
        Self::HandshakePassed(Pass::Resumed),
        Self::HandshakePassed(Pass::NoCertificate),
        Self::HandshakePassed(Pass::Malformed),
        Self::HandshakeTooLong,
    ];

    /// The name of the event's counter, without prefix: lower case, digits and underscores.
    pub fn name(self) -> &'static str {
        match self {
            Self::RelayOpened => "relays_opened",
            Self::RelayClosed => "relays_closed",
            Self::Ended(ending) => match ending {
                Ending::Reset => "relays_ended_reset",
                Ending::Refused => "relays_ended_refused",
                Ending::HostUnreachable => "relays_ended_host_unreachable",
                Ending::NetworkUnreachable => "relays_ended_network_unreachable",
                Ending::TimedOut => "relays_ended_timed_out",
                Ending::NotAllowed => "relays_ended_not_allowed",
                Ending::NameNotFound => "relays_ended_name_not_found",
                Ending::Malformed => "relays_ended_malformed",
                Ending::Overloaded => "relays_ended_overloaded",
                Ending::ShuttingDown => "relays_ended_shutting_down",
            },
            Self::HelloWritten => "hellos_written",
            Self::HelloRebuilt => "hellos_rebuilt",
            Self::FlightWritten => "flights_written",
            Self::FlightRebuilt => "flights_rebuilt",
            Self::OpenedWritten => "opened_flights_written",
            Self::OpenedDropped(why) => match why {
                Dropped::NoGain => "opened_flights_dropped_no_gain",
                Dropped::HeldTooLong => "opened_flights_dropped_held_too_long",
                Dropped::ServerEnded => "opened_flights_dropped_server_ended",
                Dropped::NoDelta => "opened_flights_dropped_no_delta",
                Dropped::Unfollowed => "opened_flights_dropped_unfollowed",
                Dropped::ConnectionEnded => "opened_flights_dropped_connection_ended",
            },
            Self::FlightMissed(miss) => match miss {
                Miss::NotHeld => "flights_missed_not_held",
                Miss::Malformed => "flights_missed_malformed",
                Miss::Check => "flights_missed_check",
            },
            Self::BytesElided(_) => "elided_bytes",
            Self::LiteralBytes(_) => "literal_bytes",
            Self::OriginalBytes(_) => "original_bytes",
            Self::HoldTimedOut => "holds_timed_out",
            Self::HandshakeFinished => "handshakes_finished",
            Self::HandshakePassed(pass) => match pass {
                Pass::NotTls => "handshakes_passed_not_tls",
                Pass::Tls13 => "handshakes_passed_tls13",
                Pass::Resumed => "handshakes_passed_resumed",
                Pass::NoCertificate => "handshakes_passed_no_certificate",
                Pass::Malformed => "handshakes_passed_malformed",
            },
            Self::HandshakeTooLong => "handshakes_too_long",
        }
    }

    /// How much the event adds to its counter.
    pub fn amount(self) -> u64 {
        match self {
            Self::BytesElided(bytes) | Self::LiteralBytes(bytes) | Self::OriginalBytes(bytes) => {
                bytes
            }
            Self::RelayOpened
            | Self::RelayClosed
            | Self::Ended(_)
            | Self::HelloWritten
            | Self::HelloRebuilt
            | Self::FlightWritten
            | Self::FlightRebuilt
            | Self::OpenedWritten
            | Self::OpenedDropped(_)
            | Self::FlightMissed(_)
            | Self::HoldTimedOut
            | Self::HandshakeFinished
            | Self::HandshakePassed(_)
            | Self::HandshakeTooLong => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_event_has_a_counter_of_its_own() {
        let names: BTreeSet<&str> = Event::ALL.iter().map(|event| event.name()).collect();
        assert_eq!(names.len(), Event::ALL.len());
        // Each arm of `name` gives one literal: as many as there are events.
        let body = include_str!("event.rs").split("pub fn name(self)").nth(1);
        let body = body.and_then(|rest| rest.split("pub fn amount").next());
        let arms = body.map(|body| body.matches("=> \"").count());
        assert_eq!(arms, Some(Event::ALL.len()));
    }

    #[test]
    fn an_amount_is_what_was_counted() {
        for event in Event::ALL {
            assert!(event.amount() <= 1);
        }
        assert_eq!(Event::BytesElided(7).amount(), 7);
        assert_eq!(Event::LiteralBytes(8).amount(), 8);
        assert_eq!(Event::OriginalBytes(9).amount(), 9);
    }
}
