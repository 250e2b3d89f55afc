//! How long an answer over the link takes, measured in this very connection by the server-side proxy.
//!
//! Is: the round trip from SYN/ACK to ACK, and the time a byte takes, from the gap that a slow link puts between the
//! client's ACK and the hello that it sends right behind. Is not: a congestion controller's estimate; it only tells a
//! repeat that knows something from one whose timer was shorter than the link (section 3.7 of RFC 6298 knows the case).
//!
//! Invariant: without a measurement nothing is waited for.

use std::time::Duration;

use tandem_wire::{Instant, TcpPacket};

/// Longest time that is waited for an answer, whatever was measured: a retransmission after it always counts.
const MOST: Duration = Duration::from_secs(20);

/// What has been measured of one connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pace {
    syn_acks: [Option<(Instant, u32)>; 2],
    acknowledged: Option<Instant>,
    /// Nothing more is to be learned from this connection.
    settled: bool,
    round_trip: Option<Duration>,
    nanos_per_byte: u64,
}

impl Pace {
    /// A SYN/ACK goes out over the link. The first and the latest are kept; the echo tells which one was answered.
    pub(crate) fn syn_ack_sent(&mut self, packet: &TcpPacket<'_>, now: Instant) {
        let sent = Some((
            now,
            packet.timestamps().map_or(0, |timestamps| timestamps.value),
        ));
        if self.syn_acks[0].is_none() {
            self.syn_acks[0] = sent;
        } else {
            self.syn_acks[1] = sent;
        }
    }

    /// A segment of the client's has arrived over the link.
    pub(crate) fn arrived(&mut self, packet: &TcpPacket<'_>, now: Instant) {
        let Some(acknowledged) = self.acknowledged else {
            self.acknowledged = Some(now);
            // A hello that is itself the first acknowledgement has nothing before it to measure a gap from.
            self.settled = !packet.payload().is_empty();
            let echo = packet.timestamps().map_or(0, |timestamps| timestamps.echo);
            self.round_trip = self
                .syn_acks
                .into_iter()
                .flatten()
                .find(|(_, value)| *value == echo)
                .map(|(sent, _)| now.saturating_since(sent));
            return;
        };
        if !self.settled && !packet.payload().is_empty() {
            self.settled = true;
            let gap = now.saturating_since(acknowledged);
            self.nanos_per_byte = gap.as_nanos() as u64 / packet.bytes().len() as u64;
        }
    }

    /// The round trip of small segments.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.round_trip.map(|round_trip| round_trip.min(MOST))
    }

    /// The earliest that an answer to `bytes` sent over the link can be back.
    pub(crate) fn answer_to(&self, bytes: usize) -> Duration {
        let crossing = Duration::from_nanos(self.nanos_per_byte.saturating_mul(bytes as u64));
        self.round_trip.map_or(Duration::ZERO, |round_trip| {
            round_trip.saturating_add(crossing).min(MOST)
        })
    }
}
