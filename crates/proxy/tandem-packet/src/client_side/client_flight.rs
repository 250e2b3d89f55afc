//! The client's flight after the server's, at the client-side proxy: when it is held, and when
//! it is let go.
//!
//! Is not: the writing (`writer`), nor what there is to write (`tandem-engine`). Invariants:
//! nothing is held longer than until it is known that nothing is made of it; a flow in which either
//! direction was not rebuilt is not altered any more.

use tandem_engine::Outlook;
use tandem_engine::filter::{Filter, Rate};
use tandem_link::inband::publication::{self, Publication};
use tandem_store::Store;
use tandem_wire::TcpPacket;

use super::Agreed;
use crate::context::{Context, Toward};
use crate::format::Format;
use crate::output::Owed;
use crate::watch::Progress;
use crate::writer::Aim;

impl Agreed {
    /// The client sends something: where that may be a flight of which something can be made, the
    /// writer is to have it.
    pub(super) fn expect_flight<S: Store>(
        &mut self,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) {
        // What was never harmless is no worse for it.
        let may_write =
            !cx.config.wire.is_harmless() || !self.common.far.is_stripped && cx.may_rewrite;
        let from = self.common.watch.next(Toward::Server);
        if may_write
            && !self.common.inbound.has_missed()
            && !packet.payload().is_empty()
            && !packet.seq().is_before(from)
            && let Some(ground) = self
                .common
                .watch
                .connection()
                .client_flight_to_come(cx.engine)
        {
            self.common.writer.arm(Aim { from, ground });
        }
    }

    /// What was read along may say what is to be made of the flight.
    pub(super) fn consider_client_flight<S: Store>(&mut self, cx: &mut Context<'_, S>) {
        if !self.common.writer.awaits_client_flight() {
            return;
        }
        let (connection, streams) = self.common.watch.parts();
        match connection.client_flight(streams, cx.engine) {
            Outlook::Open => {}
            Outlook::Nothing => self.common.writer.release(cx.out),
            Outlook::Ground(ground) => self.common.writer.stands_on(ground),
        }
    }

    /// The far side may say what it has stored: whether this is that.
    pub(super) fn takes_publication<S: Store>(
        &mut self,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) -> bool {
        if cx.engine.goes_by().is_none() {
            return false;
        }
        let (id, version) = (self.common.id, self.common.version);
        let said = publication::read(cx.key, id, version, packet.payload());
        let Some(filter) = said.and_then(|said| filter_of(&said)) else {
            return false;
        };
        let (connection, _) = self.common.watch.parts();
        connection.published(filter, cx.engine);
        true
    }

    /// What the client sent was not rebuilt.
    pub(super) fn was_missed<S: Store>(&mut self, cx: &mut Context<'_, S>) {
        let mtu = cx.config.limits.mtu;
        self.common.writer.send_originals(mtu, cx.out);
        self.judge_hello(cx);
        let (connection, streams) = self.common.watch.parts();
        connection.client_was_missed(streams, cx.engine);
    }

    /// Hands the segment to the writer.
    pub(super) fn write<S: Store>(
        &mut self,
        owed: Owed,
        packet: &TcpPacket<'_>,
        seen: Progress,
        cx: &mut Context<'_, S>,
    ) {
        let pace = self.timer.pace(cx.link);
        self.common.write(owed, packet, seen, (pace, &[]), cx);
    }
}

/// The filter in a publication; `None` where its bits are none.
fn filter_of(said: &Publication<'_>) -> Option<Filter> {
    let rate = Rate::one_in(said.rate)?;
    Filter::parse(said.bits, said.count, said.fingerprint, rate)
}
