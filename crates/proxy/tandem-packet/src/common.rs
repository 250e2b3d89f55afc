//! What a flow in which both proxies know of each other has at either side: the stream read along,
//! a writer for what leaves over the link, a reader for what arrives by it.
//!
//! Is not: what the proxies say to each other, and when; that is `client_side`'s and
//! `server_side`'s. Invariant: it differs between the sides only in which endpoint is the far one.

use std::time::Duration;

use tandem_delta::Reference;
use tandem_engine::{Connection, Crossed};
use tandem_link::inband::{FlowId, Version};
use tandem_store::Store;
use tandem_wire::{Instant, Seq, TcpFlags, TcpPacket};

use crate::acks::AckFilter;
use crate::config::Limits;
use crate::context::{Context, Keep, Share, Toward};
use crate::inbound::Inbound;
use crate::output::{Event, GiveUp, Outbox, Owed, Verdict};
use crate::pace::Pace;
use crate::watch::{Progress, Watch};
use crate::writer::{Terms, Writer};

/// The common part of a flow at either side.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) id: FlowId,
    /// The version of all that is said after the server-side proxy's answer.
    pub(crate) version: Version,
    pub(crate) watch: Watch,
    /// What leaves over the link.
    pub(crate) writer: Writer,
    /// What arrives by it.
    pub(crate) inbound: Inbound,
    pub(crate) acks: AckFilter,
    pub(crate) far: Far,
}

/// The endpoint beyond the link.
#[derive(Debug)]
pub(crate) struct Far {
    pub(crate) is: Toward,
    /// Its maximum segment size.
    pub(crate) mss: usize,
    /// How far it has acknowledged.
    pub(crate) acknowledged: Option<Seq>,
    /// Whether its timestamps are taken off on the way: then nothing is harmless.
    pub(crate) is_stripped: bool,
}

impl Common {
    /// For a flow of which `far` is beyond the link; `near_mss` is the maximum segment size of the
    /// near endpoint, `clock` the timestamp in the far one's SYN or SYN/ACK.
    pub(crate) fn new(
        (id, version): (FlowId, Version),
        connection: Connection,
        far: Far,
        (near_mss, clock): (usize, u32),
    ) -> Self {
        Self {
            id,
            version,
            watch: Watch::new(id, connection),
            writer: Writer::default(),
            inbound: Inbound::new((id, version), far.is.opposite(), near_mss, clock),
            acks: AckFilter::default(),
            far,
        }
    }

    /// The near endpoint sends this: an acknowledgement that waits goes before it, or is said again
    /// by it.
    pub(crate) fn settle_acks(&mut self, packet: &TcpPacket<'_>, out: &mut Outbox) {
        if self.writer.has_sent() {
            // What comes now may be absorbed, and would not say again what waits.
            self.acks.release(out);
        } else {
            self.acks.next(packet, out);
        }
    }

    /// The far endpoint has sent this; says whether it acknowledges more than before.
    pub(crate) fn far_sent(&mut self, packet: &TcpPacket<'_>, out: &mut Outbox) -> bool {
        self.far.is_stripped |= packet.timestamps().is_none();
        if !packet.flags().contains(TcpFlags::ACK) {
            return false;
        }
        let known = self.far.acknowledged;
        let is_news = known.is_none_or(|known| packet.ack().is_after(known));
        if is_news {
            self.far.acknowledged = Some(packet.ack());
        }
        self.writer.acknowledged(packet, out);
        is_news
    }

    /// What becomes of a segment that came with the far proxy's option, and is `stripped` of it. A
    /// pure acknowledgement that says nothing new was added for the option, and ends here; from
    /// anything else only the option is taken.
    pub(crate) fn without_option(
        packet: &TcpPacket<'_>,
        stripped: Option<Vec<u8>>,
        is_news: bool,
    ) -> Verdict {
        let is_added = packet.payload().is_empty() && packet.flags() == TcpFlags::ACK && !is_news;
        match stripped {
            Some(_) if is_added => Verdict::Drop,
            Some(stripped) => Verdict::Replace(stripped),
            None => Verdict::Accept,
        }
    }

    /// The segment came with an option that the far proxy did not put on.
    pub(crate) fn refuse_option<S>(&mut self, owed: Owed, cx: &mut Context<'_, S>) -> Keep {
        cx.out.event(Event::OptionRefused);
        self.give_up(owed, GiveUp::NoAnswer, cx)
    }

    /// Hands a segment of the near endpoint's to the writer.
    pub(crate) fn write<S: Store>(
        &mut self,
        owed: Owed,
        packet: &TcpPacket<'_>,
        seen: Progress,
        (pace, confirmation): (Pace, &[Reference]),
        cx: &mut Context<'_, S>,
    ) {
        let terms = Terms {
            key: cx.key,
            wire: cx.config.wire,
            limits: &cx.config.limits,
            flow: self.id,
            version: self.version,
            toward: self.far.is,
            mss: self.far.mss,
            pace,
            confirmation,
        };
        self.writer.segment(
            owed,
            packet,
            (&self.watch, seen),
            terms,
            (cx.engine.store(), cx.now, cx.out),
        );
    }

    /// Settles a segment that was read along, and ends the flow where that is over and nothing is
    /// left to do: `may_end` says whether the side has nothing either, `round_trip` how long one of
    /// the far side's takes.
    pub(crate) fn settle<S: Store>(
        &mut self,
        owed: Owed,
        (verdict, seen): (Verdict, Progress),
        may_end: bool,
        round_trip: Duration,
        cx: &mut Context<'_, S>,
    ) -> Keep {
        match seen {
            Progress::Finished
                if verdict == Verdict::Accept && self.writer.is_at_rest() && may_end =>
            {
                let crossed = if self.inbound.has_rebuilt() {
                    Crossed::Spared
                } else {
                    Crossed::Whole
                };
                self.watch.finished((crossed, round_trip), cx);
                cx.out.event(Event::HandshakeFinished);
                owed.settle(Verdict::Leave, cx.out);
                Keep::Forget
            }
            Progress::GiveUp(why) if verdict == Verdict::Accept => {
                self.watch.gave_up(cx);
                self.give_up(owed, why, cx)
            }
            // The handshake goes on; or this packet has an option to lose or is held, a flight is
            // not acknowledged, something may come again that has to be rebuilt: a later one of the
            // flow takes its leave.
            Progress::Going | Progress::Finished | Progress::GiveUp(_) => {
                owed.settle(verdict, cx.out);
                Keep::Flow
            }
        }
    }

    fn give_up<S>(&mut self, owed: Owed, why: GiveUp, cx: &mut Context<'_, S>) -> Keep {
        let mtu = cx.config.limits.mtu;
        cx.give_up_with(owed, why, |out| self.writer.send_originals(mtu, out))
    }

    /// When a held flight or ACK has to be let go.
    pub(crate) fn deadline(&self, limits: &Limits) -> Option<Instant> {
        let waiting = [self.writer.deadline(limits), self.acks.deadline()];
        waiting.into_iter().flatten().min()
    }

    /// Lets go what has waited long enough.
    pub(crate) fn expire(&mut self, now: Instant, limits: &Limits, out: &mut Outbox) {
        self.acks.expire(now, out);
        self.writer.expire(now, limits, out);
    }

    /// Lets go what waits.
    pub(crate) fn release(&mut self, out: &mut Outbox) {
        self.acks.release(out);
        self.writer.release(out);
    }

    /// Lets go what waits, and sends the originals of what went out rewritten and may not be
    /// rebuilt any more.
    pub(crate) fn fall_back(&mut self, mtu: usize, out: &mut Outbox) {
        self.acks.release(out);
        self.writer.send_originals(mtu, out);
    }

    /// What is kept for this flow, beside its own size.
    pub(crate) fn share(&self) -> Share {
        let (packets, bytes) = self.writer.held();
        Share {
            memory: self.watch.footprint() + self.inbound.footprint() + self.writer.footprint(),
            held_packets: packets + self.acks.held(),
            held_bytes: bytes,
        }
    }
}

#[cfg(test)]
mod tests;
