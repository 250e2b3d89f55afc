//! Segments that arrive at a host, in the order of RFC 9293, section 3.10.7,
//! with the checks of RFC 7323 (timestamps) and RFC 5961 (resets, SYNs).

use std::time::Duration;

use tandem_wire::clock::Instant;
use tandem_wire::packet::TcpPacket;
use tandem_wire::seq::Seq;
use tandem_wire::tcp::TcpFlags;

use super::config::AckPolicy;
use super::receiver::{HasFin, Received};
use super::sender::{AckEffect, Feedback};
use super::{Ending, Host, Phase, pmtu};

/// TS.Recent is not trusted when it is older (RFC 7323, section 5.5): 24 days.
const TS_RECENT_LIFETIME: Duration = Duration::from_secs(24 * 24 * 3_600);
/// Segments acknowledged together by [`AckPolicy::Delayed`].
const DELAYED_SEGMENTS: u32 = 2;

impl Host {
    pub(super) fn handle_segment(&mut self, segment: &TcpPacket<'_>, now: Instant) {
        if !segment.checksums_valid() {
            self.counters.bad_checksum += 1;
            return;
        }
        self.counters.received += 1;
        match self.phase {
            Phase::Idle | Phase::Broken(_) => self.refuse(segment, now),
            Phase::Listening => self.handle_in_listening(segment, now),
            Phase::SynSent => self.handle_in_syn_sent(segment, now),
            Phase::SynReceived | Phase::Open => self.handle_in_connection(segment, now),
        }
    }

    fn handle_in_listening(&mut self, segment: &TcpPacket<'_>, now: Instant) {
        let flags = segment.flags();
        if flags.contains(TcpFlags::RST) {
            return;
        }
        if flags.contains(TcpFlags::ACK) || !flags.contains(TcpFlags::SYN) {
            self.refuse(segment, now);
            return;
        }
        self.peer = Some(segment.source());
        self.phase = Phase::SynReceived;
        self.syn_sent_at = now;
        self.take_syn(segment, now);
        // A SYN's window is never scaled.
        self.tx.set_window(u32::from(segment.window()));
        self.emit_syn(now);
        self.arm(now);
    }

    fn handle_in_syn_sent(&mut self, segment: &TcpPacket<'_>, now: Instant) {
        let flags = segment.flags();
        let acknowledges_syn =
            flags.contains(TcpFlags::ACK) && segment.ack() == self.tx.unacked_seq();
        if flags.contains(TcpFlags::ACK) && !acknowledges_syn {
            self.refuse(segment, now);
            return;
        }
        if flags.contains(TcpFlags::RST) {
            if acknowledges_syn {
                self.break_off(Ending::Refused);
            }
            return;
        }
        if !(flags.contains(TcpFlags::SYN) && acknowledges_syn) {
            return;
        }
        self.take_syn(segment, now);
        self.tx.set_window(u32::from(segment.window()));
        self.open(now);
        self.emit_ack(now);
    }

    fn handle_in_connection(&mut self, segment: &TcpPacket<'_>, now: Instant) {
        let flags = segment.flags();
        let is_reset = flags.contains(TcpFlags::RST);
        if !is_reset && self.is_old(segment, now) {
            self.counters.paws_dropped += 1;
            self.answer_refused(segment, now);
            return;
        }
        let is_expected = segment.seq() == self.rx.next_seq();
        if !self.rx.is_acceptable(segment.seq(), segment.sequence_len()) {
            self.handle_unacceptable(segment, now);
            return;
        }
        if is_reset {
            // RFC 5961, section 3.2: exact or challenged.
            if is_expected {
                self.break_off(Ending::Reset);
            } else {
                self.challenge(now);
            }
            return;
        }
        if flags.contains(TcpFlags::SYN) {
            self.challenge(now);
            return;
        }
        if !flags.contains(TcpFlags::ACK) || !self.handle_ack(segment, now) {
            return;
        }
        self.note_timestamp(segment, now);
        self.handle_payload(segment, now);
    }

    fn handle_unacceptable(&mut self, segment: &TcpPacket<'_>, now: Instant) {
        let flags = segment.flags();
        if flags.contains(TcpFlags::RST) {
            self.counters.outside_window += 1;
            return;
        }
        if self.phase == Phase::SynReceived && flags.contains(TcpFlags::SYN) {
            // The peer's SYN again: the answer was lost.
            self.counters.syn_retransmitted += 1;
            self.emit_syn(now);
            return;
        }
        self.counters.outside_window += 1;
        // "special allowance should be made to accept valid ACKs" when the
        // window is closed (RFC 9293, section 3.10.7.4).
        if segment.seq() == self.rx.next_seq() && flags.contains(TcpFlags::ACK) {
            self.handle_ack(segment, now);
        }
        self.answer_refused(segment, now);
    }

    /// Tells the peer where this end is: always where the segment carried
    /// something, else not too often, since two hosts that refuse each other's
    /// ACKs would answer each other for ever.
    fn answer_refused(&mut self, segment: &TcpPacket<'_>, now: Instant) {
        if segment.sequence_len() == 0 {
            self.challenge(now);
        } else {
            self.counters.challenge_acks += 1;
            self.emit_ack(now);
        }
    }

    /// Takes the acknowledgement; `false` where the segment is to be dropped for it.
    fn handle_ack(&mut self, segment: &TcpPacket<'_>, now: Instant) -> bool {
        let feedback = Feedback {
            ack: segment.ack(),
            window: u32::from(segment.window()) << self.peer_scale,
            sequence_len: segment.sequence_len(),
        };
        if self.phase == Phase::SynReceived {
            if segment.ack() != self.tx.unacked_seq() {
                self.refuse(segment, now);
                return false;
            }
            self.open(now);
            self.measure_by_timestamps(segment, now);
        }
        match self.tx.handle_ack(feedback, now) {
            AckEffect::OfUnsent => {
                // RFC 9293, section 3.10.7.4: "send an ACK, drop the segment".
                self.counters.ack_of_unsent += 1;
                self.challenge(now);
                return false;
            }
            AckEffect::Old => {}
            AckEffect::Nothing => {
                if !self.tx.has_flight() {
                    self.attempts = 0;
                }
            }
            AckEffect::Duplicate => {}
            AckEffect::StartsFastRetransmit => self.counters.fast_retransmits += 1,
            AckEffect::Advances { sample } => {
                self.attempts = 0;
                if !self.measure_by_timestamps(segment, now)
                    && let Some(sample) = sample
                {
                    self.rtt.sample(sample);
                }
                // RFC 6298, section 5.2 and 5.3.
                self.retransmit_at = None;
                if self.tx.has_flight() {
                    self.arm(now);
                }
            }
        }
        true
    }

    fn handle_payload(&mut self, segment: &TcpPacket<'_>, now: Instant) {
        let has_fin = if segment.flags().contains(TcpFlags::FIN) {
            HasFin::Yes
        } else {
            HasFin::No
        };
        if segment.payload().is_empty() && has_fin == HasFin::No {
            return;
        }
        match self.rx.accept(segment.seq(), segment.payload(), has_fin) {
            Received::InOrder => self.acknowledge_in_order(now),
            Received::OutOfOrder => {
                self.counters.out_of_order += 1;
                self.emit_ack(now);
            }
            Received::Duplicate => {
                self.counters.duplicates += 1;
                self.emit_ack(now);
            }
        }
    }

    fn acknowledge_in_order(&mut self, now: Instant) {
        match self.config.acknowledgements {
            AckPolicy::Immediate => self.emit_ack(now),
            AckPolicy::Delayed(delay) => {
                self.unacknowledged_segments += 1;
                if self.unacknowledged_segments >= DELAYED_SEGMENTS || self.rx.is_finished() {
                    self.emit_ack(now);
                } else {
                    self.ack_at.get_or_insert(now + delay);
                }
            }
        }
    }

    pub(super) fn handle_too_big(&mut self, packet: &[u8]) {
        let Some(message) = pmtu::read(packet) else {
            return;
        };
        let headers = pmtu::headers(self.config.local) + self.option_len();
        let payload = message.mtu.saturating_sub(headers).max(1);
        if payload < self.tx.mss() {
            self.counters.pmtu_lowered += 1;
            self.tx.limit_segments(payload);
        }
    }

    /// PAWS (RFC 7323, section 5.3, R1): a timestamp before the last valid one.
    fn is_old(&self, segment: &TcpPacket<'_>, now: Instant) -> bool {
        let (Some(state), Some(timestamps)) = (self.timestamps, segment.timestamps()) else {
            // A segment without timestamps passes, as on Linux; the RFC would
            // drop it (section 3.2).
            return false;
        };
        Seq(timestamps.value).is_before(Seq(state.recent))
            && now.saturating_since(state.noted) < TS_RECENT_LIFETIME
    }

    /// RFC 7323, section 4.3: only what lies at or before the last ACK sent.
    fn note_timestamp(&mut self, segment: &TcpPacket<'_>, now: Instant) {
        if let (Some(state), Some(timestamps)) = (&mut self.timestamps, segment.timestamps())
            && !Seq(timestamps.value).is_before(Seq(state.recent))
            && !segment.seq().is_after(self.last_ack_sent)
        {
            state.recent = timestamps.value;
            state.noted = now;
        }
    }

    /// The round trip that an echoed timestamp tells; `false` where it tells none.
    pub(super) fn measure_by_timestamps(&mut self, segment: &TcpPacket<'_>, now: Instant) -> bool {
        let (Some(_), Some(timestamps)) = (self.timestamps, segment.timestamps()) else {
            return false;
        };
        let elapsed = self.timestamp_value(now).wrapping_sub(timestamps.echo);
        // An echo from the future is the peer's mistake, or somebody's in between.
        if timestamps.echo == 0 || elapsed > u32::MAX / 2 {
            return false;
        }
        self.rtt.sample(Duration::from_millis(u64::from(elapsed)));
        true
    }

    pub(super) fn timestamp_value(&self, now: Instant) -> u32 {
        // Wraps by design, after 49 days.
        let ticks = ((now.as_micros() / 1_000) & 0xffff_ffff) as u32;
        self.config.timestamps.unwrap_or(0).wrapping_add(ticks)
    }
}
