//! The segments that a host sends: headers, options, counters.

use tandem_wire::clock::Instant;
use tandem_wire::packet::{SegmentRepr, TcpPacket};
use tandem_wire::seq::Seq;
use tandem_wire::tcp::TcpFlags;

use super::{Host, INVALID_ACK_INTERVAL, Phase, TIMESTAMPS_LEN};

impl Host {
    /// A SYN, or a SYN/ACK where the peer's SYN has been seen.
    pub(super) fn emit_syn(&mut self, now: Instant) {
        let [high, low] = self.config.mss.to_be_bytes();
        let mut options = vec![2, 4, high, low];
        let answers = self.phase == Phase::SynReceived;
        let (offer_timestamps, offer_scale) = if answers {
            (
                self.timestamps.is_some(),
                self.config.window_scale.filter(|_| self.scale_agreed),
            )
        } else {
            (self.config.timestamps.is_some(), self.config.window_scale)
        };
        if offer_timestamps {
            options.extend(self.timestamps_option(now));
        }
        if let Some(shift) = offer_scale {
            options.extend([1, 3, 3, shift]);
        }
        let flags = if answers {
            TcpFlags::SYN.with(TcpFlags::ACK)
        } else {
            TcpFlags::SYN
        };
        let segment = SegmentRepr {
            seq: self.config.initial_seq,
            ack: if answers { self.rx.next_seq() } else { Seq(0) },
            flags,
            window: self.rx.window_field_of_syn(),
            options,
            ..self.blank()
        };
        self.push_out(segment);
        self.last_ack_sent = self.rx.next_seq();
    }

    /// A pure ACK; whatever ACK was delayed is in it.
    pub(super) fn emit_ack(&mut self, now: Instant) {
        let seq = self.tx.next_seq();
        self.emit(seq, TcpFlags::ACK, Vec::new(), now);
    }

    /// An ACK that answers what is not acceptable, but not too often.
    pub(super) fn challenge(&mut self, now: Instant) {
        let too_soon = self
            .challenged_at
            .is_some_and(|at| now.saturating_since(at) < INVALID_ACK_INTERVAL);
        if !too_soon {
            self.challenged_at = Some(now);
            self.counters.challenge_acks += 1;
            self.emit_ack(now);
        }
    }

    /// A probe of a closed window: an ACK from before the window, which the peer
    /// must answer (as Linux does; RFC 9293, section 3.8.6.1, would send a byte).
    pub(super) fn emit_probe(&mut self, now: Instant) {
        let seq = self.tx.unacked_seq().wrapping_sub(1);
        self.emit(seq, TcpFlags::ACK, Vec::new(), now);
    }

    /// A segment of the open connection.
    pub(super) fn emit(&mut self, seq: Seq, flags: TcpFlags, payload: Vec<u8>, now: Instant) {
        let ack = self.rx.next_seq();
        let options = if self.timestamps.is_some() {
            self.timestamps_option(now)
        } else {
            Vec::new()
        };
        let segment = SegmentRepr {
            seq,
            ack,
            flags,
            window: self.rx.window_field(),
            options,
            payload,
            ..self.blank()
        };
        self.push_out(segment);
        self.last_ack_sent = ack;
        self.ack_at = None;
        self.unacknowledged_segments = 0;
    }

    /// A reset of the open connection.
    pub(super) fn emit_reset(&mut self, seq: Seq, now: Instant) {
        self.counters.resets_sent += 1;
        self.emit(seq, TcpFlags::RST.with(TcpFlags::ACK), Vec::new(), now);
    }

    /// The reset that a closed port answers with (RFC 9293, section 3.10.7.1).
    pub(super) fn refuse(&mut self, segment: &TcpPacket<'_>, _now: Instant) {
        let flags = segment.flags();
        if flags.contains(TcpFlags::RST) {
            return;
        }
        self.counters.resets_sent += 1;
        let (seq, ack, flags) = if flags.contains(TcpFlags::ACK) {
            (segment.ack(), Seq(0), TcpFlags::RST)
        } else {
            let ack = segment.seq().wrapping_add(segment.sequence_len());
            (Seq(0), ack, TcpFlags::RST.with(TcpFlags::ACK))
        };
        let reset = SegmentRepr {
            destination: segment.source(),
            seq,
            ack,
            flags,
            ..self.blank()
        };
        self.push_out(reset);
    }

    /// Bytes of options in each segment of the open connection.
    pub(super) fn option_len(&self) -> usize {
        if self.timestamps.is_some() {
            TIMESTAMPS_LEN
        } else {
            0
        }
    }

    fn timestamps_option(&self, now: Instant) -> Vec<u8> {
        let mut option = vec![1, 1, 8, 10];
        option.extend(self.timestamp_value(now).to_be_bytes());
        let echo = self.timestamps.map_or(0, |state| state.recent);
        option.extend(echo.to_be_bytes());
        option
    }

    fn blank(&self) -> SegmentRepr {
        SegmentRepr {
            source: self.config.local,
            destination: self.peer.unwrap_or(self.config.local),
            seq: Seq(0),
            ack: Seq(0),
            flags: TcpFlags::EMPTY,
            window: 0,
            options: Vec::new(),
            payload: Vec::new(),
            hop_limit: self.config.hop_limit,
        }
    }

    fn push_out(&mut self, segment: SegmentRepr) {
        self.counters.sent += 1;
        self.out.push_back(segment.build());
    }
}
