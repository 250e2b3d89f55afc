//! ACK filtering towards the link (RFC 3449, section 5.2.1): an acknowledgement that the next segment says again is not sent.
//!
//! Is: holding one pure ACK per flow until the flow's next segment or a short time. Is not: an acknowledgement of our own;
//! what reaches the far side was said by the endpoint. In a handshake nearly every pure ACK is followed within milliseconds by
//! data that carry the same number: ACK and flight, ACK and key exchange. On 2,400 bit/s each costs 173 ms of the link.
//!
//! Invariants: the first pure ACK of either direction, the one that completes TCP's handshake or acknowledges the hello, is never held, for
//! the other end's timer waits for it; a duplicate ACK,
//! one with SACK blocks or any flag beside ACK is never held, for those say something by their very being; no data wait for an
//! ACK that is held.

use std::time::Duration;

use tandem_wire::{Instant, Seq, TcpFlags, TcpOption, TcpPacket};

use crate::output::{Event, Outbox, Owed, Verdict};

/// The pure ACK of one flow that waits, if there is one.
#[derive(Debug, Default)]
pub(crate) struct AckFilter {
    held: Option<Held>,
    newest: Option<Seq>,
}

#[derive(Debug)]
struct Held {
    owed: Owed,
    ack: Seq,
    until: Instant,
}

impl AckFilter {
    /// The flow's next segment towards the link: what waits is said again by it, or goes first.
    pub(crate) fn next(&mut self, packet: &TcpPacket<'_>, out: &mut Outbox) {
        if !packet.flags().contains(TcpFlags::ACK) {
            return self.release(out);
        }
        if let Some(held) = self.held.take() {
            let again = packet.ack().is_after(held.ack)
                || packet.ack() == held.ack && !packet.payload().is_empty();
            if again && !packet.flags().contains(TcpFlags::RST) {
                out.event(Event::AckAbsorbed);
                held.owed.settle(Verdict::Drop, out);
            } else {
                held.owed.settle(Verdict::Accept, out);
            }
        }
    }

    /// Lets a segment pass unaltered, now or, if it is an ACK that may wait, by `now + patience`.
    pub(crate) fn pass(
        &mut self,
        owed: Owed,
        packet: &TcpPacket<'_>,
        (now, patience): (Instant, Duration),
        out: &mut Outbox,
    ) {
        let advances = self
            .newest
            .is_some_and(|newest| packet.ack().is_after(newest));
        if self.newest.is_none() || advances {
            self.newest = Some(packet.ack());
        }
        if advances && is_pure(packet) && !patience.is_zero() {
            self.held = Some(Held {
                owed,
                ack: packet.ack(),
                until: now + patience,
            });
        } else {
            owed.settle(Verdict::Accept, out);
        }
    }

    /// How many packets wait.
    pub(crate) fn held(&self) -> usize {
        usize::from(self.held.is_some())
    }

    /// When what waits has to go.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.held.as_ref().map(|held| held.until)
    }

    /// Lets go what has waited long enough.
    pub(crate) fn expire(&mut self, now: Instant, out: &mut Outbox) {
        if self.deadline().is_some_and(|until| until <= now) {
            self.release(out);
        }
    }

    /// Lets go what waits.
    pub(crate) fn release(&mut self, out: &mut Outbox) {
        if let Some(held) = self.held.take() {
            held.owed.settle(Verdict::Accept, out);
        }
    }
}

/// Whether the segment says nothing but its acknowledgement number and an open window.
fn is_pure(packet: &TcpPacket<'_>) -> bool {
    packet.payload().is_empty()
        && packet.flags() == TcpFlags::ACK
        && packet.window() > 0
        && packet.options().all(|option| match option {
            TcpOption::Nop | TcpOption::EndOfList | TcpOption::Timestamps(_) => true,
            TcpOption::MaximumSegmentSize(_)
            | TcpOption::WindowScale(_)
            | TcpOption::SackPermitted
            | TcpOption::Sack(_)
            | TcpOption::Md5(_)
            | TcpOption::Authentication(_)
            | TcpOption::Multipath(_)
            | TcpOption::FastOpen(_)
            | TcpOption::Experiment { .. }
            | TcpOption::Other { .. } => false,
        })
}
