//! How long an answer over the link takes, measured in this very connection.
//!
//! Is: the round trip from SYN/ACK to ACK (at the client side: from SYN to SYN/ACK), and the time a
//! byte takes, from the gap that a slow link puts between the client's ACK and its hello; what the
//! client itself let pass between the two, by its own clock, is not the link's. Is not: a
//! congestion controller's estimate; it only tells a repeat that knows something from one whose
//! timer was shorter than the link (section 3.7 of RFC 6298 knows the case).
//!
//! Invariant: without a measurement nothing is waited for.

use std::time::Duration;

use tandem_wire::{Instant, TcpPacket};

/// Longest time that is waited for an answer, whatever was measured: a retransmission after it
/// always counts. On 2,400 bit/s a frame of 2,500 bytes has its answer by then; another
/// connection's traffic can make a gap look like a slower link still.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(10);

/// What a tick of the client's timestamp clock is taken for: the shortest that RFC 7323 (section
/// 5.4) allows, and Linux's.
const TICK: Duration = Duration::from_millis(1);

/// What has been measured of one connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pace {
    openings: [Option<(Instant, u32)>; 2],
    gap: Gap,
    round_trip: Option<Duration>,
    nanos_per_byte: u64,
}

/// What is learned from the gap between the client's ACK and its hello.
#[derive(Debug, Clone, Copy, Default)]
enum Gap {
    /// Neither has arrived.
    #[default]
    Unopened,
    /// The ACK has: when, and what the client's clock said in it.
    Open(Instant, Option<u32>),
    /// Nothing more is to be learned from this connection.
    Settled,
}

impl Pace {
    /// A SYN/ACK (or, at the other side, a SYN) goes out over the link. The first and the latest
    /// are kept; the echo tells which one was answered.
    pub(crate) fn opening_sent(&mut self, packet: &TcpPacket<'_>, now: Instant) {
        let sent = Some((
            now,
            packet.timestamps().map_or(0, |timestamps| timestamps.value),
        ));
        if self.openings[0].is_none() {
            self.openings[0] = sent;
        } else {
            self.openings[1] = sent;
        }
    }

    /// A segment of the client's has arrived over the link.
    pub(crate) fn arrived(&mut self, packet: &TcpPacket<'_>, now: Instant) {
        let stamps = packet.timestamps();
        let value = stamps.map(|timestamps| timestamps.value);
        let speaks = !packet.payload().is_empty();
        match self.gap {
            Gap::Unopened => {
                // A hello that is itself the first acknowledgement has nothing before it to measure
                // a gap from.
                self.gap = match speaks {
                    true => Gap::Settled,
                    false => Gap::Open(now, value),
                };
                let echo = stamps.map_or(0, |timestamps| timestamps.echo);
                self.round_trip = self
                    .openings
                    .into_iter()
                    .flatten()
                    .find(|(_, value)| *value == echo)
                    .map(|(sent, _)| now.saturating_since(sent));
            }
            Gap::Open(acknowledged, then) if speaks => {
                self.gap = Gap::Settled;
                if let (Some(then), Some(value)) = (then, value) {
                    let own = TICK.saturating_mul(value.wrapping_sub(then));
                    let gap = now.saturating_since(acknowledged).saturating_sub(own);
                    self.nanos_per_byte = nanos_per_byte(gap, packet.bytes().len());
                }
            }
            Gap::Open(..) | Gap::Settled => {}
        }
    }

    /// The same on a link whose bytes take so long.
    pub(crate) fn at_rate(self, nanos_per_byte: u64) -> Self {
        Self {
            nanos_per_byte,
            ..self
        }
    }

    /// The round trip of small segments.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.round_trip.map(|round_trip| round_trip.min(MAX_WAIT))
    }

    /// The time by which an answer to `bytes` sent over the link should be back.
    ///
    /// A quarter more than was measured, for what is not in the measurement: headers, an
    /// acknowledgement that goes before, an answer that carries data.
    pub(crate) fn answer_to(&self, bytes: usize) -> Duration {
        let crossing = Duration::from_nanos(self.nanos_per_byte.saturating_mul(bytes as u64));
        self.round_trip.map_or(Duration::ZERO, |round_trip| {
            (round_trip.saturating_add(crossing).min(MAX_WAIT) * 5 / 4).min(MAX_WAIT)
        })
    }
}

/// What each of so many bytes took.
pub(crate) fn nanos_per_byte(time: Duration, bytes: usize) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX) / bytes.max(1) as u64
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::net::SocketAddr;
    use tandem_wire::{SegmentRepr, Seq, TcpFlags};

    /// A segment with this timestamp, this echo, and so many bytes of payload.
    pub(crate) fn segment(clock: u32, echo: u32, payload: usize) -> Vec<u8> {
        let mut options = vec![1, 1, 8, 10];
        options.extend(clock.to_be_bytes());
        options.extend(echo.to_be_bytes());
        SegmentRepr {
            source: SocketAddr::from(([10, 0, 0, 1], 1)),
            destination: SocketAddr::from(([10, 0, 0, 2], 443)),
            seq: Seq(1),
            ack: Seq(1),
            flags: TcpFlags::ACK,
            window: 1,
            options,
            payload: vec![0; payload],
            hop_limit: 1,
        }
        .build()
    }

    pub(crate) fn at(millis: u64) -> Instant {
        Instant::from_micros(millis * 1_000)
    }

    fn read(pace: &mut Pace, bytes: &[u8], now: u64) {
        pace.arrived(&TcpPacket::parse(bytes).expect("a segment"), at(now));
    }

    /// A client whose ACK arrives 1.2 s after the SYN/ACK left, and whose hello of 300 bytes (352
    /// with headers) arrives then.
    fn pace(hello_arrives: u64, hello_sent: u32) -> Pace {
        let mut pace = Pace::default();
        let syn_ack = segment(70, 0, 0);
        pace.opening_sent(&TcpPacket::parse(&syn_ack).expect("a segment"), at(1_000));
        read(&mut pace, &segment(5, 70, 0), 2_200);
        read(&mut pace, &segment(5 + hello_sent, 70, 300), hello_arrives);
        pace
    }

    #[test]
    fn the_gap_between_acknowledgement_and_hello_is_the_links_rate() {
        let pace = pace(2_200 + 1_056, 0);
        assert_eq!(pace.round_trip(), Some(Duration::from_millis(1_200)));
        // 352 bytes took 1,056 ms.
        assert_eq!(pace.answer_to(100), Duration::from_millis(1_500) * 5 / 4);
    }

    #[test]
    fn a_client_that_thinks_before_its_hello_or_repeats_it_does_not_make_the_link_slow() {
        for thinks in [1u32, 500, 9_000] {
            let pace = pace(2_200 + u64::from(thinks) + 2, thinks);
            assert!(pace.answer_to(1_000) < Duration::from_millis(1_210) * 5 / 4);
        }
    }

    #[test]
    fn a_repeated_syn_ack_is_told_apart_by_its_echo() {
        let mut pace = Pace::default();
        for (clock, sent) in [(70, 1_000), (1_070, 2_000)] {
            let syn_ack = segment(clock, 0, 0);
            pace.opening_sent(&TcpPacket::parse(&syn_ack).expect("a segment"), at(sent));
        }
        read(&mut pace, &segment(5, 1_070, 0), 2_500);
        assert_eq!(pace.round_trip(), Some(Duration::from_millis(500)));
    }

    #[test]
    fn without_a_measurement_nothing_is_waited_for_and_never_long() {
        assert_eq!(Pace::default().answer_to(10_000), Duration::ZERO);
        assert_eq!(pace(200_000, 0).answer_to(60_000), MAX_WAIT);
    }
}
