//! What goes into and comes out of the packet engine: verdict tokens, verdicts, injected packets,
//! events.
//!
//! Is not: a decision; these are the words that the engine and its adapter share.
//!
//! Invariants: an adapter that carries out every [`Output`] in the order in which it is polled
//! needs to know nothing of TCP or TLS; a verdict token that the engine keeps is an [`Owed`], which
//! does not let itself be forgotten.

use std::collections::VecDeque;

use tandem_engine::{Miss, Pass};
use tandem_wire::PacketError;

/// The name of one queued packet. The engine owes it exactly one [`Verdict`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VerdictToken(pub u64);

/// Which way a packet crosses the proxy, told by the link interface alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The packet leaves by the link: what it carries may be written as a delta.
    ToLink,
    /// The packet arrived by the link: what it carries may have to be rebuilt.
    FromLink,
}

/// What becomes of a queued packet.
#[must_use = "a verdict token is owed its verdict"]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The packet goes on as it is.
    Accept,
    /// The packet goes on with these bytes: a whole IP packet, all checksums right.
    Replace(Vec<u8>),
    /// The packet ends here.
    Drop,
    /// The packet goes on as it is, and its connection leaves the queue for good (a connection
    /// mark).
    Leave,
}

/// One thing for the adapter to do. The order matters.
#[must_use = "outputs are carried out in order"]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// The verdict on a verdict token.
    Verdict(VerdictToken, Verdict),
    /// A whole IP packet to send, past the queue: over the link, or towards the near endpoint.
    Inject(Direction, Vec<u8>),
    /// Something happened that a log, a counter or a test may want to know.
    Event(Event),
}

/// Why the engine wants to be called at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wakeup {
    /// A held flight or ACK has waited long enough and is let go.
    HoldExpires,
    /// A flow has lived long enough to be forgotten.
    FlowExpires,
}

/// Why a flow is given up: from here on its packets go through as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GiveUp {
    /// The SYN has no timestamps, without which nothing is harmless.
    NoTimestamps,
    /// The SYN carries what packet mode leaves alone: data, MD5, AO, MPTCP, Fast Open, or no room
    /// for an option.
    ForeignSyn,
    /// No proxy answered from the far side, or something between them took the option away.
    NoAnswer,
    /// The proxies of the two sides speak no common version.
    NoCommonVersion,
    /// Nothing was gained with this server of late ([`crate::gain`]).
    NothingToGain,
    /// The handshake holds nothing for packet mode.
    Handshake(Pass),
    /// Overlapping segments with different bytes.
    Conflict,
    /// More bytes, or further apart, than are kept.
    TooLong,
    /// Urgent data.
    Urgent,
    /// The connection was closed or reset, or its ports were used again.
    Closed,
    /// Nobody rebuilt the flight, or the far side said so; the originals went out.
    Failsafe,
    /// The flow was picked up in the middle.
    NotFromStart,
    /// Bounds on flows, memory or age.
    Limits,
}

/// What a device between the proxies was seen to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Meddling {
    /// It puts other timestamps into segments, or takes them off. Rewritten flights are rebuilt,
    /// and are no longer harmless where nobody rebuilds them.
    ReplacesTimestamps,
    /// A flight was neither rebuilt nor missed, and the connection was lost: it takes rewritten
    /// bytes into the stream.
    TakesBytes,
    /// Two flights in a row were neither rebuilt nor missed: it holds or drops them.
    Withholds,
}

impl Meddling {
    /// All that is told apart.
    pub(crate) const ALL: [Meddling; 3] = [
        Meddling::ReplacesTimestamps,
        Meddling::TakesBytes,
        Meddling::Withholds,
    ];
}

/// Something that happened, declared once for logs, metrics and tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A packet is none that packet mode reads.
    Unread(PacketError),
    /// A packet's checksum is wrong; it went through, and nothing was learned from it.
    BadChecksum,
    /// A SYN opened a flow.
    FlowOpened,
    /// The other proxy showed itself in this connection.
    PeerSeen,
    /// A flow was given up.
    GivenUp(GiveUp),
    /// A flow's handshake finished.
    HandshakeFinished,
    /// Something happened to what the proxies have stored, or know of each other.
    Engine(tandem_engine::Event),
    /// The far side was told what is stored here.
    HintSent,
    /// A flight was held, and went out unaltered; bytes.
    HoldReleased(u64),
    /// A flight crossed as a delta.
    FlightWritten {
        /// Payload bytes of the flight.
        original: u64,
        /// Payload bytes that crossed in its place.
        sent: u64,
    },
    /// A pure ACK that the next segment said again did not cross the link.
    AckAbsorbed,
    /// A rewritten flight was acknowledged: the other proxy rebuilt it.
    FlightAcknowledged,
    /// A rewritten flight was discarded by the endpoint that it was for: nobody rebuilt it.
    FlightRefused,
    /// Segments repeated too early for the far side's answer to be here were absorbed.
    RepeatAbsorbed,
    /// A rewritten flight was sent again.
    FlightRepeated,
    /// A flight's originals were sent, because it was not rebuilt; bytes.
    OriginalsSent(u64),
    /// A flight was rebuilt.
    FlightRebuilt {
        /// Payload bytes of the flight.
        bytes: u64,
        /// Payload bytes that came in its place.
        received: u64,
    },
    /// A flight, or a part of one that came again, could not be rebuilt here.
    FlightMissed(Miss),
    /// The far side was asked for the originals of such a flight.
    MissSent,
    /// The far side asked for the originals.
    MissReceived,
    /// A rewritten flight came without the timestamps that it was sent with: somebody between the
    /// proxies replaces them or takes them off. It was rebuilt.
    TimestampsReplaced,
    /// A device between the proxies was seen to do this, and nothing is rewritten on its path for a
    /// while.
    PathStopped(Meddling),
    /// On a path that was stopped a rewritten flight has worked again.
    PathResumed,
    /// A flight would have been written, or asked for, and its path is stopped or not yet trusted.
    RewriteWithheld,
    /// An option was not made with our key, or of another version than was agreed, and was left
    /// alone.
    OptionRefused,
}

impl Event {
    /// One of each that has a name of its own, amounts zero: so that counters can stand at zero
    /// before anything happens.
    pub fn all() -> Vec<Event> {
        let passes = [
            Pass::NotTls,
            Pass::Tls13,
            Pass::Resumed,
            Pass::NoCertificate,
            Pass::Malformed,
        ];
        let reasons = [
            GiveUp::NoTimestamps,
            GiveUp::ForeignSyn,
            GiveUp::NoAnswer,
            GiveUp::NoCommonVersion,
            GiveUp::NothingToGain,
            GiveUp::Conflict,
            GiveUp::TooLong,
            GiveUp::Urgent,
            GiveUp::Closed,
            GiveUp::Failsafe,
            GiveUp::NotFromStart,
            GiveUp::Limits,
        ];
        let given_up = passes.map(GiveUp::Handshake).into_iter().chain(reasons);
        let mut all = vec![
            Event::Unread(PacketError::NotTcp),
            Event::BadChecksum,
            Event::FlowOpened,
            Event::PeerSeen,
            Event::HandshakeFinished,
            Event::HintSent,
            Event::HoldReleased(0),
            Event::FlightWritten {
                original: 0,
                sent: 0,
            },
            Event::AckAbsorbed,
            Event::RepeatAbsorbed,
            Event::FlightRepeated,
            Event::OriginalsSent(0),
            Event::FlightRebuilt {
                bytes: 0,
                received: 0,
            },
            Event::MissSent,
            Event::MissReceived,
            Event::TimestampsReplaced,
            Event::PathResumed,
            Event::RewriteWithheld,
            Event::FlightAcknowledged,
            Event::FlightRefused,
            Event::OptionRefused,
        ];
        all.extend(given_up.map(Event::GivenUp));
        all.extend(Meddling::ALL.map(Event::PathStopped));
        all.extend(Miss::ALL.map(Event::FlightMissed));
        all.extend(tandem_engine::Event::ALL.map(Event::Engine));
        all
    }

    /// The name of the event's counter, without prefix: lower case, digits and underscores.
    pub fn name(self) -> &'static str {
        match self {
            Event::Unread(_) => "packets_unread",
            Event::BadChecksum => "packets_bad_checksum",
            Event::FlowOpened => "flows_opened",
            Event::PeerSeen => "flows_with_peer",
            Event::GivenUp(why) => match why {
                GiveUp::NoTimestamps => "flows_given_up_no_timestamps",
                GiveUp::ForeignSyn => "flows_given_up_foreign_syn",
                GiveUp::NoAnswer => "flows_given_up_no_answer",
                GiveUp::NoCommonVersion => "flows_given_up_no_common_version",
                GiveUp::NothingToGain => "flows_given_up_nothing_to_gain",
                GiveUp::Handshake(pass) => match pass {
                    Pass::NotTls => "flows_given_up_not_tls",
                    Pass::Tls13 => "flows_given_up_tls13",
                    Pass::Resumed => "flows_given_up_resumed",
                    Pass::NoCertificate => "flows_given_up_no_certificate",
                    Pass::Malformed => "flows_given_up_malformed",
                },
                GiveUp::Conflict => "flows_given_up_conflict",
                GiveUp::TooLong => "flows_given_up_too_long",
                GiveUp::Urgent => "flows_given_up_urgent",
                GiveUp::Closed => "flows_closed_early",
                GiveUp::Failsafe => "flows_given_up_failsafe",
                GiveUp::NotFromStart => "flows_given_up_not_from_start",
                GiveUp::Limits => "flows_given_up_limits",
            },
            Event::HandshakeFinished => "handshakes_finished",
            Event::Engine(event) => event.name(),
            Event::HintSent => "hints_sent",
            Event::HoldReleased(_) => "hold_released_bytes",
            Event::FlightWritten { .. } => "flights_written",
            Event::AckAbsorbed => "acks_absorbed",
            Event::RepeatAbsorbed => "repeats_absorbed",
            Event::FlightRepeated => "flights_repeated",
            Event::OriginalsSent(_) => "originals_sent_bytes",
            Event::FlightRebuilt { .. } => "flights_rebuilt_bytes",
            Event::FlightMissed(why) => match why {
                Miss::NotHeld => "flights_missed_not_held",
                Miss::WrongKey => "flights_missed_wrong_key",
                Miss::Malformed => "flights_missed_malformed",
            },
            Event::MissSent => "misses_sent",
            Event::MissReceived => "misses_received",
            Event::TimestampsReplaced => "timestamps_replaced",
            Event::PathStopped(why) => match why {
                Meddling::ReplacesTimestamps => "paths_stopped_timestamps_replaced",
                Meddling::TakesBytes => "paths_stopped_bytes_taken",
                Meddling::Withholds => "paths_stopped_flights_withheld",
            },
            Event::PathResumed => "paths_resumed",
            Event::RewriteWithheld => "rewrites_withheld",
            Event::FlightAcknowledged => "flights_acknowledged",
            Event::FlightRefused => "flights_refused",
            Event::OptionRefused => "options_refused",
        }
    }

    /// How much the event adds to its counter: 1, or a number of bytes.
    pub fn amount(self) -> u64 {
        match self {
            Event::HoldReleased(bytes)
            | Event::OriginalsSent(bytes)
            | Event::FlightRebuilt { bytes, .. } => bytes,
            Event::Engine(event) => event.amount(),
            Event::Unread(_)
            | Event::BadChecksum
            | Event::FlowOpened
            | Event::PeerSeen
            | Event::GivenUp(_)
            | Event::HandshakeFinished
            | Event::HintSent
            | Event::FlightWritten { .. }
            | Event::AckAbsorbed
            | Event::RepeatAbsorbed
            | Event::FlightRepeated
            | Event::FlightMissed(_)
            | Event::MissSent
            | Event::MissReceived
            | Event::TimestampsReplaced
            | Event::PathStopped(_)
            | Event::PathResumed
            | Event::RewriteWithheld
            | Event::FlightAcknowledged
            | Event::FlightRefused
            | Event::OptionRefused => 1,
        }
    }

    /// Bytes that the link was spared by this event.
    pub fn saved_bytes(self) -> u64 {
        if let Event::FlightWritten { original, sent } = self {
            original.saturating_sub(sent)
        } else {
            0
        }
    }
}

/// A verdict token that the engine holds on to. It ends in [`Owed::settle`]; one that is dropped is
/// a bug, and says so.
#[derive(Debug)]
pub(crate) struct Owed(VerdictToken);

impl Owed {
    pub(crate) fn new(token: VerdictToken) -> Self {
        Self(token)
    }

    pub(crate) fn settle(self, verdict: Verdict, out: &mut Outbox) {
        out.0.push_back(Output::Verdict(self.0, verdict));
        std::mem::forget(self);
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        // In a release the adapter lets a packet go that got no verdict in time, and counts it.
        debug_assert!(
            std::thread::panicking(),
            "{:?} was dropped without a verdict",
            self.0
        );
    }
}

/// The outputs that wait to be polled, in order.
#[derive(Debug, Default)]
pub(crate) struct Outbox(VecDeque<Output>);

impl Outbox {
    pub(crate) fn inject(&mut self, direction: Direction, packet: Vec<u8>) {
        self.0.push_back(Output::Inject(direction, packet));
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.0.push_back(Output::Event(event));
    }

    /// How many outputs wait.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The events among the outputs from this place on.
    pub(crate) fn events_from(&self, place: usize) -> impl Iterator<Item = Event> {
        self.0.range(place..).filter_map(|output| match output {
            Output::Event(event) => Some(*event),
            Output::Verdict(..) | Output::Inject(..) => None,
        })
    }

    pub(crate) fn poll(&mut self) -> Option<Output> {
        self.0.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_event_has_a_counter_of_its_own() {
        let all = Event::all();
        let names: BTreeSet<&str> = all.iter().map(|event| event.name()).collect();
        assert_eq!(names.len(), all.len());
        let plain = |name: &str| {
            name.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        };
        assert!(names.iter().all(|name| plain(name)));
        // Each arm of `name` gives one literal: as many as there are events of our own.
        let source = include_str!("output.rs");
        let body = source
            .split("pub fn name(self)")
            .nth(1)
            .and_then(|rest| rest.split("pub fn amount").next());
        assert_eq!(
            body.map(|body| body.matches("=> \"").count()),
            Some(all.len() - tandem_engine::Event::ALL.len())
        );
    }
}
