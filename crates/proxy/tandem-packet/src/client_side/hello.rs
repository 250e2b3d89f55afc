//! A hello that crosses in another form, at the client-side proxy: when it is held, and what comes
//! of it.
//!
//! Is not: what there is to write of it (`tandem-engine`), nor the writing (`writer`). The presence
//! of the far side was shown on the SYN/ACK, so that a hello may be written as anything else is:
//! refused by the server where nobody rebuilds it.
//!
//! Invariants: a hello in one segment is never held; of one in several the first is held only where
//! it shows that something may be made of it; else a hello goes as it is, with its hint.

use tandem_engine::{Ground, Outlook};
use tandem_store::Store;
use tandem_wire::TcpPacket;

use super::{Agreed, Hint};
use crate::context::{Context, Toward};
use crate::format::Format;
use crate::writer::Aim;

/// Whether a hello crosses in another form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shortened {
    /// It does not, or what came of it is known.
    No,
    /// It does, and the server has not acknowledged it.
    Open,
}

impl Agreed {
    /// The client's segment, which was read along, may be of its hello: where something is to be
    /// made of that, the writer is to have it.
    pub(super) fn consider_hello<S: Store>(
        &mut self,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) {
        let is_harmless = cx.config.wire.is_harmless() && !self.common.far.is_stripped;
        let is_pending = matches!(self.hint, Hint::Pending) && !packet.payload().is_empty();
        if !is_harmless || !cx.may_rewrite || !is_pending {
            return;
        }
        let limits = &cx.config.limits;
        let limit = if limits.hold_segments > 0 {
            limits.hold_bytes
        } else {
            0
        };
        let from = self.common.watch.start(Toward::Server);
        let (connection, streams) = self.common.watch.parts();
        let writer = &mut self.common.writer;
        let mut await_hello = || {
            writer.arm(Aim {
                from,
                ground: Ground::hello_to_come(),
            });
        };
        match connection.hello(streams, cx.engine, (limit, cx.now)) {
            Outlook::Open if packet.seq() == from => await_hello(),
            Outlook::Open => {}
            Outlook::Nothing => writer.stand_down(cx.out),
            Outlook::Ground(ground) => {
                await_hello();
                writer.stands_on(ground);
                if writer.is_engaged() {
                    self.shortened = Shortened::Open;
                }
            }
        }
    }

    /// The writer has had the segment that completes the hello.
    pub(super) fn note_hello<S: Store>(&mut self, packet: &TcpPacket<'_>, cx: &mut Context<'_, S>) {
        match (self.shortened, self.common.writer.sent_bytes()) {
            (Shortened::Open, Some(sent)) => {
                self.timer.shortened(packet.payload().len(), sent);
                cx.engine.hello_written();
            }
            (Shortened::Open, None) => self.shortened = Shortened::No,
            (Shortened::No, _) => {}
        }
    }

    /// Says what came of such a hello, once that is known: whether the far side is to be trusted
    /// with the next.
    pub(super) fn judge_hello<S: Store>(&mut self, cx: &mut Context<'_, S>) {
        if self.shortened == Shortened::No || self.common.writer.has_sent() {
            return;
        }
        self.shortened = Shortened::No;
        if self.common.writer.is_over() {
            self.timer.forget();
            cx.engine.hello_missed();
        } else {
            cx.engine.hello_rebuilt();
        }
    }
}
