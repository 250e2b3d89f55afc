//! TCP connection tracking: which segments are INVALID, as Linux's
//! `nf_conntrack_proto_tcp` sees it from the middle (after Guido van Rooij,
//! "Real Stateful TCP Packet Filtering in IP Filter", 2001).
//!
//! The tracker keeps, for each side, how far it has sent (`end`), how far it may
//! send (`limit`) and the largest window it offered (`window`). A segment from S
//! to R is within bounds if
//!
//! ```text
//!  I    seq <= S.limit                           not beyond R's window
//!  II   end >= S.end - R.window                  not long acknowledged
//!  III  ack <= R.end                             acknowledges only what passed here
//!  IV   ack >= R.end - max(S.window, 66000)      not long ago
//! ```
//!
//! III is what catches a proxy that lets its far end acknowledge bytes that the
//! tracker between never saw.
//!
//! Simplified, against Linux: no state table of flags (a SYN opens, anything
//! else of an unknown connection is picked up in the middle, as Linux does by
//! default), no timeouts, SACK blocks are not looked at (Linux raises the
//! acknowledged end by them), an overshoot of the window is not tolerated
//! (newer kernels tolerate some), resets are judged like any segment.

use tandem_wire::packet::TcpPacket;
use tandem_wire::seq::Seq;
use tandem_wire::tcp::{TcpFlags, TcpOption};

use crate::element::Port;

/// `MAXACKWINCONST`: how far behind an acknowledgement may be at least.
const ACK_MAY_LAG: u32 = 66_000;

/// RFC 7323, section 2.3.
const MAXIMUM_SHIFT: u8 = 14;

/// Why a segment is INVALID. The first bound that it breaks, in Linux's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InvalidReason {
    /// Wrong IPv4 or TCP checksum (`nf_conntrack_checksum`).
    BadChecksum,
    /// Bound I: beyond the receiver's window.
    SeqOverUpperBound,
    /// Bound II: retransmits what was acknowledged long ago.
    SeqUnderLowerBound,
    /// Bound III: acknowledges data not seen yet.
    AckOverUpperBound,
    /// Bound IV: an overly delayed acknowledgement.
    AckUnderLowerBound,
}

/// What one side has sent and may send.
#[derive(Clone, Copy, Debug)]
struct Side {
    end: Seq,
    limit: Seq,
    window: u32,
    /// The shift of its window field; counts once both have offered one.
    scale: Option<u8>,
    fin: bool,
}

/// The tracked state of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct TcpTracking {
    left: Option<Side>,
    right: Option<Side>,
    reset: bool,
}

impl TcpTracking {
    /// Judges a segment that came in by `from` and, where it is valid, learns from it.
    pub(super) fn judge(
        &mut self,
        from: Port,
        segment: &TcpPacket<'_>,
    ) -> Result<(), InvalidReason> {
        let flags = segment.flags();
        let opens = flags.contains(TcpFlags::SYN) && !flags.contains(TcpFlags::ACK);
        if opens && self.is_over() {
            // The four-tuple is used again.
            *self = Self::default();
        }
        let (sender, receiver) = match from {
            Port::Left => (self.left, self.right),
            Port::Right => (self.right, self.left),
        };
        let receiver = receiver.unwrap_or(Side::unseen(segment.ack()));
        let reopens = opens && !receiver.is_seen();
        let known = sender.filter(|side| side.is_seen() && !reopens);
        let (sender, receiver) = match known {
            None if opens => (Side::first(segment), receiver),
            None => within_bounds(Side::first(segment), receiver, segment)?,
            Some(sender) => within_bounds(sender, receiver, segment)?,
        };
        self.reset |= flags.contains(TcpFlags::RST);
        match from {
            Port::Left => (self.left, self.right) = (Some(sender), Some(receiver)),
            Port::Right => (self.left, self.right) = (Some(receiver), Some(sender)),
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        let closed = |side: Option<Side>| side.is_some_and(|side| side.fin);
        self.reset || (closed(self.left) && closed(self.right))
    }
}

impl Side {
    /// A side of which only an acknowledgement by the other is known.
    fn unseen(acknowledged: Seq) -> Self {
        Self {
            end: acknowledged,
            limit: acknowledged,
            window: 0,
            scale: None,
            fin: false,
        }
    }

    fn is_seen(&self) -> bool {
        self.window != 0
    }

    /// A side by its first segment: its SYN, or whatever is first seen of it.
    fn first(segment: &TcpPacket<'_>) -> Self {
        let flags = segment.flags();
        let is_syn = flags.contains(TcpFlags::SYN);
        let end = end_of(segment);
        let window = u32::from(segment.window()).max(1);
        Self {
            end,
            limit: if is_syn {
                end
            } else {
                end.wrapping_add(window)
            },
            window,
            scale: if is_syn { scale_of(segment) } else { None },
            fin: flags.contains(TcpFlags::FIN),
        }
    }
}

/// Judges a segment and returns both sides as they are after it.
fn within_bounds(
    mut sender: Side,
    mut receiver: Side,
    segment: &TcpPacket<'_>,
) -> Result<(Side, Side), InvalidReason> {
    let flags = segment.flags();
    let (seq, end) = (segment.seq(), end_of(segment));
    let has_ack = flags.contains(TcpFlags::ACK)
        && !(flags.contains(TcpFlags::RST) && segment.ack() == Seq(0));
    let ack = if has_ack { segment.ack() } else { receiver.end };

    if seq.is_after(sender.limit) {
        return Err(InvalidReason::SeqOverUpperBound);
    }
    let lower = sender.end.wrapping_sub(receiver.window);
    if receiver.is_seen() && end.is_before(lower) {
        return Err(InvalidReason::SeqUnderLowerBound);
    }
    if ack.is_after(receiver.end) {
        return Err(InvalidReason::AckOverUpperBound);
    }
    let may_lag = sender.window.max(ACK_MAY_LAG);
    if ack.is_before(receiver.end.wrapping_sub(may_lag)) {
        return Err(InvalidReason::AckUnderLowerBound);
    }

    let shift = match (sender.scale, receiver.scale) {
        (Some(shift), Some(_)) if !flags.contains(TcpFlags::SYN) => shift,
        _ => 0,
    };
    let window = u32::from(segment.window()) << shift;
    sender.window = sender.window.max(window);
    raise(&mut sender.end, end);
    sender.fin |= flags.contains(TcpFlags::FIN);
    if receiver.is_seen() && end.is_after(sender.limit) {
        // It sent a little more than it might: the window was larger than known.
        let beyond = end.distance_from(sender.limit);
        receiver.window = receiver.window.saturating_add(beyond.unsigned_abs());
    }
    // A closed window still lets a probe of one byte through.
    raise(&mut receiver.limit, ack.wrapping_add(window.max(1)));
    Ok((sender, receiver))
}

fn raise(number: &mut Seq, to: Seq) {
    if to.is_after(*number) {
        *number = to;
    }
}

fn end_of(segment: &TcpPacket<'_>) -> Seq {
    segment.seq().wrapping_add(segment.sequence_len())
}

fn scale_of(segment: &TcpPacket<'_>) -> Option<u8> {
    segment.options().find_map(|option| match option {
        TcpOption::WindowScale(shift) => Some(shift.min(MAXIMUM_SHIFT)),
        _ => None,
    })
}
