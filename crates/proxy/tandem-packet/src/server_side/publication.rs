//! The publication of what is held at the server-side proxy: which segment carries it and where it
//! goes; and what is learned of a client's chain, by which the publisher knows whether it was of
//! use.
//!
//! Is not: the decision (`tandem-engine`), nor the frame (`tandem-link`). Invariants: nothing is
//! published but in a connection whose server asks for a certificate, to a proxy that said which
//! holdings it goes by, once; the segment is one that an endpoint discards, with sequence numbers
//! of what the server has sent.

use tandem_engine::{Crossed, Decision};
use tandem_link::inband::publication::{self, Publication};
use tandem_store::Store;
use tandem_wire::TcpPacket;

use super::Agreed;
use crate::config::ClientCertificates;
use crate::context::{Context, Toward};
use crate::format::Format;
use crate::output::{Direction, Event};
use crate::paws;
use crate::segment::{self, Cut};
use crate::watch::Shown;

/// The longest publication that goes before the flight, in bytes of its frame: a seventh of a
/// client's chain, which it may spare in this very connection. A longer one would hold the flight
/// up for seconds on a slow link, past the server's timer; it goes behind, while the client
/// computes and its answer crosses the other way.
const BEFORE: usize = 256;

impl Agreed {
    /// Publishes what is held, where that is due, or hands back what is to go behind the segment.
    pub(super) fn publish<S: Store>(
        &mut self,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) -> Option<Vec<u8>> {
        let rate = match cx.config.client_certificates {
            ClientCertificates::Filter { rate } if cx.config.wire.is_harmless() => rate,
            ClientCertificates::Filter { .. }
            | ClientCertificates::None
            | ClientCertificates::Persistent
            | ClientCertificates::Cii { .. } => return None,
        };
        let asked = self.asked.filter(|_| !self.was_considered)?;
        if self.is_stripped || self.unheard || !self.watch.asks_for_certificate() {
            return None;
        }
        self.was_considered = true;
        let options = paws::shifted(packet.timestamps()?).within(packet.options_bytes());
        let headers = packet.header_len() - packet.options_bytes().len();
        let mss = self.mss.min(cx.config.limits.mtu.saturating_sub(headers));
        // Anchored at its end, and within what the server has sent.
        let end = self.watch.next(Toward::Client);
        let sent = usize::try_from(end.distance_from(self.watch.start(Toward::Client))).ok()?;
        let room = mss.saturating_sub(options.len()).min(sent);
        let room = room.checked_sub(publication::MAX_OVERHEAD)?;
        let around = headers + options.len() + publication::MAX_OVERHEAD;
        let answer = self.pace.answer_to(around + room);
        let terms = (room, around, rate);
        let decision = cx
            .publisher
            .consider(asked, terms, cx.store, (cx.now, answer));
        let filter = match decision {
            Decision::Nothing => return None,
            Decision::TooDear => {
                cx.out.event(Event::FilterHeldBack);
                return None;
            }
            Decision::Publish(filter) => filter,
        };
        let said = Publication {
            holdings: filter.salt(),
            rate: filter.rate().number(),
            count: filter.count(),
            bits: &filter.to_bytes(),
        };
        let payload = publication::write(cx.key, self.id, self.version, &said);
        let start = end.before(payload.len());
        let how = Cut {
            start,
            options: &options,
            mss,
        };
        let segment = segment::cut(packet, &payload, how).pop()?;
        cx.out.event(Event::FilterPublished(segment.len() as u64));
        if payload.len() > BEFORE {
            return Some(segment);
        }
        cx.out.inject(Direction::ToLink, segment);
        None
    }

    /// Both Finished have passed: the client's chain is remembered.
    pub(super) fn learn_client<S: Store>(&mut self, cx: &mut Context<'_, S>) {
        let chain = match self.watch.shown() {
            Shown::Chain(chain) => chain,
            Shown::Nothing | Shown::NotYet => return,
        };
        let goes_by_filter = match cx.config.client_certificates {
            ClientCertificates::None => return,
            ClientCertificates::Persistent | ClientCertificates::Cii { .. } => false,
            ClientCertificates::Filter { .. } => true,
        };
        let was_held = goes_by_filter && cx.publisher.is_held(&chain.id(), cx.store, cx.now);
        if self.watch.learn_client(cx.store, cx.wall).is_none() {
            return;
        }
        cx.out.event(Event::ClientChainLearned);
        if !goes_by_filter {
            return;
        }
        let crossed = if self.inbound.has_rebuilt() {
            Crossed::Spared
        } else {
            Crossed::Whole
        };
        match self.asked {
            Some(asked) if was_held => {
                let seen = (&chain.id(), chain.length());
                cx.publisher.seen_again(seen, crossed, asked);
            }
            Some(_) | None if was_held => {}
            Some(_) | None => {
                let answer = self.pace.answer_to(0);
                cx.publisher.learned(&chain.id(), (cx.now, answer));
            }
        }
    }
}
