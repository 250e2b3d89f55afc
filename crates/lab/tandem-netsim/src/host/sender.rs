//! The sending half of a simulated connection: what is in flight, what is lost,
//! how much may go out.
//!
//! Offsets count the stream's bytes from 0; the FIN takes the offset behind the
//! last byte. Congestion control is that of RFC 5681 and RFC 6582 (NewReno),
//! counted in segments as Linux counts it. No SACK.
//!
//! Not here: timers, headers. Invariants: `unacked <= next <= end of stream`;
//! the segments in `flight` lie side by side from `unacked` to `next`.

use std::collections::VecDeque;
use std::time::Duration;

use tandem_wire::clock::Instant;
use tandem_wire::seq::Seq;

use super::config::Segmenter;

/// Three duplicate ACKs (RFC 5681, section 3.2).
const DUPLICATES_BEFORE_FAST_RETRANSMIT: u32 = 3;

/// A segment that was sent and is not acknowledged.
#[derive(Clone, Debug)]
struct InFlight {
    start: u64,
    /// Behind its last byte, or its FIN.
    end: u64,
    lost: bool,
    retransmitted: bool,
    sent_at: Instant,
}

/// A segment to send now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) seq: Seq,
    pub(super) payload: Vec<u8>,
    pub(super) fin: Fin,
    /// The last byte that was written so far is in it.
    pub(super) push: Push,
    pub(super) attempt: Attempt,
}

/// Whether a segment ends the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fin {
    With,
    Without,
}

/// Whether a segment carries PSH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Push {
    With,
    Without,
}

/// Whether a segment was sent before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    First,
    Again,
}

/// What an acknowledgement did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckEffect {
    /// Of bytes that were never sent.
    OfUnsent,
    /// Behind what is acknowledged already.
    Old,
    /// Nothing new; maybe a window.
    Nothing,
    /// A duplicate in the sense of RFC 5681, section 2.
    Duplicate,
    /// The duplicate that starts fast retransmit.
    StartsFastRetransmit,
    /// Acknowledges something; with the round trip of its newest segment where
    /// none of them was retransmitted (Karn's rule).
    Advances { sample: Option<Duration> },
}

/// What of a received segment the sender looks at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Feedback {
    pub(super) ack: Seq,
    /// In bytes: already scaled.
    pub(super) window: u32,
    /// Sequence numbers that the segment itself takes.
    pub(super) sequence_len: u32,
}

/// The sending half.
#[derive(Clone, Debug)]
pub(super) struct SendHalf {
    initial_seq: Seq,
    stream: Vec<u8>,
    closed: bool,
    unacked: u64,
    next: u64,
    flight: VecDeque<InFlight>,
    peer_window: u64,
    largest_window: u64,
    mss: usize,
    congestion_window: u32,
    threshold: u32,
    /// Segments acknowledged since the window last grew in congestion avoidance.
    grown: u32,
    duplicates: u32,
    /// The end of what had been sent when the loss was noticed (RFC 6582).
    recover: Option<u64>,
    fast_recovery: bool,
}

impl SendHalf {
    pub(super) fn new(initial_seq: Seq, initial_window: u32, mss: usize) -> Self {
        Self {
            initial_seq,
            stream: Vec::new(),
            closed: false,
            unacked: 0,
            next: 0,
            flight: VecDeque::new(),
            peer_window: 0,
            largest_window: 0,
            mss: mss.max(1),
            congestion_window: initial_window.max(1),
            threshold: u32::MAX,
            grown: 0,
            duplicates: 0,
            recover: None,
            fast_recovery: false,
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        if !self.closed {
            self.stream.extend_from_slice(bytes);
        }
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// The most payload in a segment. What is in flight and larger is cut again
    /// and sent again: a path-MTU message said that it did not arrive.
    pub(super) fn limit_segments(&mut self, mss: usize) {
        let mss = mss.max(1);
        if mss >= self.mss {
            return;
        }
        self.mss = mss;
        let mut flight = VecDeque::with_capacity(self.flight.len());
        for segment in self.flight.drain(..) {
            if segment.end - segment.start <= mss as u64 {
                flight.push_back(segment);
                continue;
            }
            let mut start = segment.start;
            while start < segment.end {
                let end = (start + mss as u64).min(segment.end);
                flight.push_back(InFlight {
                    start,
                    end,
                    lost: true,
                    ..segment.clone()
                });
                start = end;
            }
        }
        self.flight = flight;
    }

    pub(super) fn mss(&self) -> usize {
        self.mss
    }

    pub(super) fn set_mss(&mut self, mss: usize) {
        self.mss = mss.max(1);
    }

    /// The congestion window that a lost SYN leaves (RFC 5681, section 3.1).
    pub(super) fn open_after_lost_syn(&mut self) {
        self.congestion_window = 1;
    }

    pub(super) fn next_seq(&self) -> Seq {
        self.seq_of(self.next)
    }

    pub(super) fn unacked_seq(&self) -> Seq {
        self.seq_of(self.unacked)
    }

    /// Bytes acknowledged.
    pub(super) fn acknowledged(&self) -> u64 {
        self.unacked.min(self.stream.len() as u64)
    }

    pub(super) fn has_flight(&self) -> bool {
        !self.flight.is_empty()
    }

    /// Everything written, and the FIN where there is one, is acknowledged.
    pub(super) fn is_drained(&self) -> bool {
        self.unacked == self.end()
    }

    pub(super) fn fin_acknowledged(&self) -> bool {
        self.closed && self.is_drained()
    }

    /// Something is left to send, nothing is in flight and the peer takes nothing.
    pub(super) fn is_stalled(&self) -> bool {
        self.flight.is_empty() && self.next < self.end() && self.usable_window() == 0
    }

    pub(super) fn set_window(&mut self, window: u32) {
        self.peer_window = u64::from(window);
        self.largest_window = self.largest_window.max(self.peer_window);
    }

    pub(super) fn handle_ack(&mut self, feedback: Feedback, now: Instant) -> AckEffect {
        let distance = i64::from(feedback.ack.distance_from(self.unacked_seq()));
        let Some(acknowledged) = self.unacked.checked_add_signed(distance) else {
            return AckEffect::Old;
        };
        if acknowledged > self.next {
            return AckEffect::OfUnsent;
        }
        if acknowledged < self.unacked {
            return AckEffect::Old;
        }
        let window_moved = u64::from(feedback.window) != self.peer_window;
        self.set_window(feedback.window);
        if acknowledged > self.unacked {
            return self.advance(acknowledged, now);
        }
        if window_moved || feedback.sequence_len > 0 || self.flight.is_empty() {
            return AckEffect::Nothing;
        }
        self.duplicate()
    }

    fn advance(&mut self, acknowledged: u64, now: Instant) -> AckEffect {
        self.unacked = acknowledged;
        self.duplicates = 0;
        let mut popped = 0;
        let mut any_retransmitted = false;
        let mut newest = None;
        while let Some(front) = self.flight.front_mut() {
            if front.end > acknowledged {
                if front.start < acknowledged {
                    front.start = acknowledged;
                }
                break;
            }
            any_retransmitted |= front.retransmitted;
            newest = Some(front.sent_at);
            popped += 1;
            self.flight.pop_front();
        }
        self.react_to_advance(acknowledged, popped);
        let sample = newest
            .filter(|_| !any_retransmitted)
            .map(|sent_at| now.saturating_since(sent_at));
        AckEffect::Advances { sample }
    }

    fn react_to_advance(&mut self, acknowledged: u64, popped: u32) {
        match self.recover {
            Some(recover) if acknowledged < recover && self.fast_recovery => {
                // A partial acknowledgement (RFC 6582, section 3.2, step 5): the
                // next segment is lost too; deflate by what left.
                self.congestion_window = self
                    .congestion_window
                    .saturating_sub(popped)
                    .saturating_add(1)
                    .max(1);
                if let Some(front) = self.flight.front_mut() {
                    front.lost = true;
                }
                return;
            }
            Some(recover) if acknowledged >= recover => {
                if self.fast_recovery {
                    self.congestion_window = self.threshold;
                }
                self.fast_recovery = false;
                self.recover = None;
            }
            Some(_) | None => {}
        }
        if self.congestion_window < self.threshold {
            self.congestion_window = self.congestion_window.saturating_add(popped);
        } else {
            self.grown += popped;
            if self.grown >= self.congestion_window {
                self.grown -= self.congestion_window;
                self.congestion_window = self.congestion_window.saturating_add(1);
            }
        }
    }

    fn duplicate(&mut self) -> AckEffect {
        self.duplicates += 1;
        if self.fast_recovery {
            self.congestion_window = self.congestion_window.saturating_add(1);
            return AckEffect::Duplicate;
        }
        // Not again for losses that a timeout or a recovery already answers (RFC 6582, section 4).
        if self.duplicates != DUPLICATES_BEFORE_FAST_RETRANSMIT || self.recover.is_some() {
            return AckEffect::Duplicate;
        }
        self.halve_threshold();
        self.congestion_window = self.threshold + DUPLICATES_BEFORE_FAST_RETRANSMIT;
        self.fast_recovery = true;
        self.recover = Some(self.next);
        if let Some(front) = self.flight.front_mut() {
            front.lost = true;
        }
        AckEffect::StartsFastRetransmit
    }

    /// The retransmission timer ran out: all that is in flight counts as lost,
    /// and the first segment, alone, goes again (RFC 5681, section 3.1).
    pub(super) fn handle_timeout(&mut self) {
        self.halve_threshold();
        self.congestion_window = 1;
        self.duplicates = 0;
        self.grown = 0;
        self.fast_recovery = false;
        self.recover = Some(self.next);
        for segment in &mut self.flight {
            segment.lost = true;
        }
    }

    fn halve_threshold(&mut self) {
        let flight = u32::try_from(self.flight.len()).unwrap_or(u32::MAX);
        self.threshold = (flight / 2).max(2);
    }

    /// The next segment that may be sent now, as if it were sent.
    pub(super) fn take_segment(&mut self, segmenter: &Segmenter, now: Instant) -> Option<Segment> {
        let on_the_way = self.flight.iter().filter(|segment| !segment.lost).count();
        let first_lost = self.flight.iter().position(|segment| segment.lost);
        let room = on_the_way < self.congestion_window as usize;
        if let Some(index) = first_lost {
            // The head of the queue goes in any case: it is what the peer waits for.
            if !room && index > 0 {
                return None;
            }
            let segment = self.flight.get_mut(index)?;
            segment.lost = false;
            segment.retransmitted = true;
            segment.sent_at = now;
            let (start, end) = (segment.start, segment.end);
            return Some(self.segment(start, end, Attempt::Again));
        }
        if !room {
            return None;
        }
        let end = self.next_end(segmenter)?;
        let start = self.next;
        self.next = end;
        self.flight.push_back(InFlight {
            start,
            end,
            lost: false,
            retransmitted: false,
            sent_at: now,
        });
        Some(self.segment(start, end, Attempt::First))
    }

    /// Where a new segment would end; `None` where none may be sent.
    fn next_end(&self, segmenter: &Segmenter) -> Option<u64> {
        let data_end = self.stream.len() as u64;
        let window = self.usable_window();
        if self.next >= self.end() || window == 0 {
            return None;
        }
        if self.next == data_end {
            // The FIN alone.
            return Some(self.end());
        }
        let available = usize::try_from(data_end - self.next).unwrap_or(usize::MAX);
        let wanted = segmenter.length(self.next, available, self.mss);
        let allowed = wanted.min(usize::try_from(window).unwrap_or(usize::MAX));
        // Sender's silly window avoidance (RFC 9293, section 3.8.6.2.1).
        let small = allowed < wanted && (allowed as u64) < self.largest_window / 2;
        if small && !self.flight.is_empty() {
            return None;
        }
        let end = self.next + allowed as u64;
        let with_fin = self.closed && end == data_end && window > allowed as u64;
        Some(if with_fin { end + 1 } else { end })
    }

    fn segment(&self, start: u64, end: u64, attempt: Attempt) -> Segment {
        let data_end = self.stream.len() as u64;
        let from = usize::try_from(start.min(data_end)).unwrap_or(usize::MAX);
        let to = usize::try_from(end.min(data_end)).unwrap_or(usize::MAX);
        let payload = self.stream.get(from..to).unwrap_or_default().to_vec();
        Segment {
            seq: self.seq_of(start),
            push: if end >= data_end && !payload.is_empty() {
                Push::With
            } else {
                Push::Without
            },
            fin: if end > data_end {
                Fin::With
            } else {
                Fin::Without
            },
            payload,
            attempt,
        }
    }

    fn usable_window(&self) -> u64 {
        (self.unacked + self.peer_window).saturating_sub(self.next)
    }

    fn end(&self) -> u64 {
        self.stream.len() as u64 + u64::from(self.closed)
    }

    fn seq_of(&self, offset: u64) -> Seq {
        // The first byte follows the SYN. Sequence numbers wrap by design.
        let offset = (offset & 0xffff_ffff) as u32;
        self.initial_seq.wrapping_add(1).wrapping_add(offset)
    }
}
