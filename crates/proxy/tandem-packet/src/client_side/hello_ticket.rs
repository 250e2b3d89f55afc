//! A hello that shows a session ticket, at the client-side proxy: when it is held, and whether it
//! crosses with a reference.
//!
//! Is not: the memory of tickets (`tandem-engine`), nor the writing (`writer`). The presence of
//! the far side was shown on the SYN/ACK, so that a hello may be written as anything else is:
//! refused by the server where nobody rebuilds it.
//!
//! Invariants: a hello in one segment is never held; of one in several the first is held only where
//! a ticket has begun in it; a hello whose ticket is not referred to goes, with its hint, as if
//! there were no tickets.

use tandem_store::Store;
use tandem_wire::TcpPacket;

use super::{Agreed, Hint};
use crate::context::{Context, Toward};
use crate::format::Format;
use crate::output::Event;

/// What became of a hello's ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Referral {
    /// It was not referred to, or what came of it is known.
    #[default]
    None,
    /// It was, and the server has not acknowledged the hello.
    Open,
}

impl Agreed {
    /// The client's segment, which was read along, may be of its hello: where that shows a ticket
    /// which the far side is believed to hold, the writer is to have it.
    pub(super) fn consider_ticket<S: Store>(
        &mut self,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) {
        let harmless = cx.config.wire.is_harmless() && !self.is_stripped && cx.may_rewrite;
        if !harmless || !matches!(self.hint, Hint::Pending) || packet.payload().is_empty() {
            return;
        }
        let from = self.watch.start(Toward::Server);
        if !self.watch.hello_is_complete() {
            if packet.seq() == from && self.watch.begins_ticket() {
                self.writer.await_hello(from);
            }
            return;
        }
        let limits = &cx.config.limits;
        let length = self.watch.stream(Toward::Server).len();
        let fits = limits.hold_segments > 0 && length <= limits.hold_bytes;
        match self.watch.shown_ticket().filter(|_| fits) {
            Some((ticket, name)) if cx.tickets.may_refer_to(&name, cx.now) => {
                self.writer.refer(from, ticket.clone(), name);
                if self.writer.is_engaged() {
                    self.referral = Referral::Open;
                }
            }
            Some(_) | None => self.writer.stand_down(cx.out),
        }
    }

    /// The writer has had the segment that completes the hello.
    pub(super) fn note_referral<S>(&mut self, packet: &TcpPacket<'_>, cx: &mut Context<'_, S>) {
        match (self.referral, self.writer.sent_bytes()) {
            (Referral::Open, Some(sent)) => {
                self.timer.shortened(packet.payload().len(), sent);
                cx.out.event(Event::TicketReferred);
            }
            (Referral::Open, None) => self.referral = Referral::None,
            (Referral::None, _) => {}
        }
    }

    /// Says what came of a reference, once that is known: whether the far side is to be trusted
    /// with the next.
    pub(super) fn judge_referral<S>(&mut self, cx: &mut Context<'_, S>) {
        if self.referral == Referral::None || self.writer.has_sent() {
            return;
        }
        self.referral = Referral::None;
        if self.writer.is_over() {
            self.timer.forget();
            cx.tickets.missed();
            cx.out.event(Event::TicketMissed);
        } else {
            cx.tickets.rebuilt();
        }
    }
}
