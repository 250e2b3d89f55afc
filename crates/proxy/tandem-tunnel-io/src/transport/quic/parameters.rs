//! QUIC's parameters, chosen for lines on which a packet takes seconds.
//!
//! Is not: measured against other choices yet (docs/adr/0015-quic-transport.md).
//!
//! Invariants: nothing is sent at rest; where the rate is stated on both sides, no handshake is
//! repeated because a timer is shorter than the line. Later packets may be: quinn's probe time
//! follows the round trips that it has measured, and a full datagram after short ones takes longer
//! than these where it occupies the line for seconds.

use std::sync::Arc;
use std::time::Duration;

use quinn::congestion::CubicConfig;
use quinn::{AckFrequencyConfig, TransportConfig, VarInt};
use quinn_proto::congestion::ControllerFactory;

use crate::line::Line;
use crate::transport::fixed_rate::FixedRate;
use crate::transport::nudge;

/// Bytes of a connection id in packets to the server side. It has few connections: 4 bytes are
/// enough to find them, and more would be in each packet.
pub(super) const SERVER_ID_LEN: usize = 4;
/// None in packets to the client side: its port tells its one connection.
pub(super) const CLIENT_ID_LEN: usize = 0;

/// Bytes of a datagram: what IPv6 carries on every link (RFC 8200, section 5). Longer ones would
/// have to be probed for, which costs 1,400 bytes a probe and more at each change of the path. QUIC
/// would take 1,200; then the server's hello, with the key share of X25519MLKEM768, would take two
/// datagrams, and the client would have to pad one more of its own.
const DATAGRAM: u16 = 1_232;
/// QUIC's own (RFC 9000, section 14): to this padding goes.
const MIN_DATAGRAM: u16 = 1_200;

/// Bytes of datagrams (RFC 9221) that have come and were not yet handed out. The other side is told
/// this number, which takes two bytes; one more would take four.
const DATAGRAM_BUFFER: usize = 16_383;
/// Bytes of datagrams that have been handed to quinn. They are bounded by the window
/// (`transport/room.rs`), and this is not to be less on most lines.
const DATAGRAM_SEND_BUFFER: usize = 256 * 1024;

/// Datagrams of a handshake that cross one after the other, both ways together: X25519MLKEM768
/// makes two of the client's hello and two of the server's.
const HANDSHAKE_DATAGRAMS: u32 = 4;

/// Before anything is measured or stated (RFC 9002, section 6.2.2).
const INITIAL_ROUND_TRIP: Duration = Duration::from_millis(333);

/// How long a connection at rest lasts. It costs a few kilobytes of memory, and a new one costs the
/// line five packets.
const IDLE: Duration = Duration::from_secs(24 * 3600);

/// Packets that wait for an acknowledgement of them all. QUIC's two would make one packet upwards
/// for two downwards, on lines where each takes 100 ms and more.
const ACK_AFTER: u32 = 9;
/// How long an acknowledgement may wait for the packets, or for data to travel with, as a part of
/// the round trip. quinn permits no more than one round trip.
const ACK_DELAY_PART: u32 = 4;
/// Bounds of that: the least is QUIC's own value (RFC 9000, section 18.2).
const ACK_DELAY: (Duration, Duration) = (Duration::from_millis(25), Duration::from_secs(1));

/// TCP connections at a time in one tunnel.
pub(super) const MAX_STREAMS: u32 = 10_000;

/// Bytes that one stream may be ahead of its reader: so many times what the line holds, within the
/// bounds below. What is known is the rate from here to the other side, and the line may be eight
/// times as fast from there to here, as satellite lines are.
const STREAM_WINDOW_LINES: u128 = 8;
/// The least permits 1.7 Mbit/s at 600 ms; the most permits 28 Mbit/s at 600 ms and bounds what a
/// reader that stops costs.
const STREAM_WINDOW: (u64, u64) = (128 * 1024, 2 * 1024 * 1024);
/// The same for a line of which nothing is known: 100 Mbit/s at 100 ms.
const STREAM_WINDOW_UNKNOWN: u64 = 1_250_000;
/// Bytes for all streams together that the other side may be ahead of the readers: any number.
/// QUIC frees a window only when its bytes are read, so readers that stop would use up one that
/// all streams share, and nothing would move in the tunnel any more. Memory is bounded by
/// [`MAX_STREAMS`] times the window of a stream.
const WINDOW: VarInt = VarInt::MAX;
/// Bytes for all streams together that were sent and are not yet acknowledged. Far more than one
/// stream's: what bulk data has used up, a handshake could not use. An acknowledgement needs no
/// reader, so nobody who stops reading uses this up.
const SEND_WINDOW: u64 = 64 * 1024 * 1024;

/// Handshakes may take so many round trips, as [`Parameters::initial_round_trip`] has them, within
/// the bounds below: quinn repeats the first packets after three. The least lets a handshake
/// through at 2,400 bit/s where nobody has stated the rate: it takes 18 s, and what quinn repeats
/// meanwhile lies in the line before the answers.
const PATIENCE_ROUND_TRIPS: u32 = 6;
const PATIENCE: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(180));

/// A hello may take so many round trips, of the same kind: what was lost of it is sent again after
/// three. The least is for TCP, where that is after one second and after three (RFC 6298,
/// section 2).
const SILENCE_ROUND_TRIPS: u32 = 4;
const SILENCE: Duration = Duration::from_secs(5);
/// Where nobody has stated the rate, this part of what the handshake may take: at 2,400 bit/s a
/// hello is on its way for 9 s.
const SILENCE_PART: u32 = 3;

/// The same for one try alone: 18 s, as above, and round trips in which pauses of 3, 6, 12 and 24
/// have room, and no longer one.
const PROBE_PATIENCE: Duration = Duration::from_secs(20);
const PROBE_ROUND_TRIPS: u32 = 60;

/// What follows from the line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    line: Line,
}

impl Parameters {
    pub(super) fn of(line: &Line) -> Self {
        Self { line: *line }
    }

    /// How long a handshake may take.
    pub(super) fn patience(&self) -> Duration {
        (self.initial_round_trip() * PATIENCE_ROUND_TRIPS).clamp(PATIENCE.0, PATIENCE.1)
    }

    /// How long a hello may take.
    pub(super) fn silence(&self) -> Duration {
        let enough = match self.line.rate {
            Some(_) => (self.initial_round_trip() * SILENCE_ROUND_TRIPS).max(SILENCE),
            None => self.patience() / SILENCE_PART,
        };
        enough.min(self.patience())
    }

    /// How long a handshake may take that is tried once, by a person who waits. In this time the
    /// first packets are sent five times at most: quinn doubles its pauses.
    pub(super) fn probe_patience(&self) -> Duration {
        let round_trip = self.initial_round_trip();
        let enough = (round_trip * PATIENCE_ROUND_TRIPS).max(PROBE_PATIENCE);
        enough.min(round_trip * PROBE_ROUND_TRIPS)
    }

    /// The round trip of the first packets: that of the line, and the time that they need to cross
    /// it. The first retransmission comes after three times this (RFC 9002, section 6.2.1).
    pub(super) fn initial_round_trip(&self) -> Duration {
        let datagrams = self.line.time_of(DATAGRAM.into()) * HANDSHAKE_DATAGRAMS;
        self.line.round_trip.unwrap_or(INITIAL_ROUND_TRIP) + datagrams
    }

    /// How long the other side may withhold an acknowledgement.
    pub(super) fn ack_delay(&self) -> Duration {
        let round_trip = self.line.round_trip.unwrap_or_default();
        (round_trip / ACK_DELAY_PART).clamp(ACK_DELAY.0, ACK_DELAY.1)
    }

    pub(super) fn stream_window(&self) -> u64 {
        let (Some(rate), Some(round_trip)) = (self.line.rate, self.line.round_trip) else {
            return STREAM_WINDOW_UNKNOWN;
        };
        let micros = u64::try_from(round_trip.as_micros()).unwrap_or(u64::MAX);
        let held = u128::from(rate) * u128::from(micros) / 8_000_000;
        u64::try_from(held * STREAM_WINDOW_LINES)
            .unwrap_or(u64::MAX)
            .clamp(STREAM_WINDOW.0, STREAM_WINDOW.1)
    }

    /// As quinn wants it.
    pub(super) fn transport(&self) -> TransportConfig {
        let mut acks = AckFrequencyConfig::default();
        acks.ack_eliciting_threshold(VarInt::from_u32(ACK_AFTER))
            .max_ack_delay(Some(self.ack_delay()));
        let idle = VarInt::try_from(IDLE.as_millis()).unwrap_or(VarInt::MAX);
        let mut config = TransportConfig::default();
        config
            .initial_mtu(DATAGRAM)
            .min_mtu(MIN_DATAGRAM)
            .mtu_discovery_config(None)
            .keep_alive_interval(None)
            .max_idle_timeout(Some(idle.into()))
            .initial_rtt(self.initial_round_trip())
            .ack_frequency_config(Some(acks))
            .max_concurrent_uni_streams(VarInt::from_u32(0))
            .stream_receive_window(VarInt::from_u64(self.stream_window()).unwrap_or(VarInt::MAX))
            .receive_window(WINDOW)
            .send_window(SEND_WINDOW)
            .send_fairness(true)
            .datagram_receive_buffer_size(Some(DATAGRAM_BUFFER))
            .datagram_send_buffer_size(DATAGRAM_SEND_BUFFER)
            .congestion_controller_factory(Arc::new(nudge::Factory(self.congestion())))
            // Many packets in one system call would leave as one burst.
            .enable_segmentation_offload(self.line.rate.is_none());
        config
    }

    /// Without a rate it is Cubic, quinn's default: its BBR is marked as experimental. It takes a
    /// loss for congestion; where that is wrong, the rate is to be stated.
    fn congestion(&self) -> Arc<dyn ControllerFactory + Send + Sync> {
        match self.line.rate {
            Some(rate) => Arc::new(FixedRate {
                rate,
                round_trip: self.line.round_trip.unwrap_or(INITIAL_ROUND_TRIP),
                ack_delay: self.ack_delay(),
            }),
            None => Arc::new(CubicConfig::default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(rate: u64, round_trip: u64) -> Parameters {
        Parameters::of(&Line {
            rate: Some(rate),
            round_trip: Some(Duration::from_millis(round_trip)),
        })
    }

    #[test]
    fn the_first_retransmission_at_2400_bit_a_second_comes_after_the_answer_can_be_there() {
        let parameters = line(2_400, 1_500);
        // Two datagrams of 1,232 bytes each way, headers with them.
        let answer = Duration::from_millis(1_500) + Duration::from_micros(4_266_666) * 4;
        assert_eq!(parameters.initial_round_trip(), answer);
        assert!(parameters.patience() > 3 * answer);
    }

    #[test]
    fn nothing_known_of_the_line_means_the_values_of_the_standard() {
        let parameters = Parameters::of(&Line::default());
        assert_eq!(parameters.initial_round_trip(), INITIAL_ROUND_TRIP);
        assert_eq!(parameters.ack_delay(), ACK_DELAY.0);
        assert_eq!(parameters.stream_window(), STREAM_WINDOW_UNKNOWN);
        assert_eq!(parameters.patience(), PATIENCE.0);
    }

    #[test]
    fn a_thin_line_that_is_not_stated_has_time_for_three_handshakes() {
        let handshake = line(2_400, 1_500).initial_round_trip();
        assert!(Parameters::of(&Line::default()).patience() > 3 * handshake);
    }

    #[test]
    fn a_hello_has_time_to_cross_a_thin_line_and_to_be_sent_again_where_it_is_stated() {
        let thin = line(2_400, 1_500);
        assert!(thin.silence() > 3 * thin.initial_round_trip());
        assert!(thin.silence() < thin.patience());
        // Two datagrams, and what is answered to the first.
        let hello = thin.initial_round_trip() * 3 / 4;
        assert!(Parameters::of(&Line::default()).silence() > hello);
        assert_eq!(line(10_000_000, 100).silence(), SILENCE);
        assert_eq!(line(1, 1_000).silence(), PATIENCE.1);
    }

    #[test]
    fn windows_and_delays_grow_with_the_line_within_their_bounds() {
        assert_eq!(line(2_400, 1_500).stream_window(), STREAM_WINDOW.0);
        assert_eq!(line(1_000_000, 600).stream_window(), 600_000);
        assert_eq!(line(1 << 40, 600).stream_window(), STREAM_WINDOW.1);
        assert_eq!(line(2_400, 1_600).ack_delay(), Duration::from_millis(400));
        assert_eq!(line(2_400, 10_000).ack_delay(), ACK_DELAY.1);
        assert_eq!(line(1, 1_000).patience(), PATIENCE.1);
    }
}
