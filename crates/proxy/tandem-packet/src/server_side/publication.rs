//! The publication of what is stored at the server-side proxy: which segment carries it and where
//! it goes.
//!
//! Is not: the decision (`tandem-engine`), nor the frame (`tandem-link`). Invariants: nothing is
//! published but where the engine says so, once; the segment is one that an endpoint discards, with
//! sequence numbers of what the server has sent.

use tandem_link::inband::publication::{self, Publication};
use tandem_store::Store;
use tandem_wire::TcpPacket;

use super::Agreed;
use crate::context::{Context, Toward};
use crate::output::Direction;
use crate::paws;
use crate::segment::{self, Cut};

/// The longest publication that goes before the flight, in bytes of its frame: a seventh of a
/// client's chain, which it may spare in this very connection. A longer one would hold the flight
/// up for seconds on a slow link, past the server's timer; it goes behind, while the client
/// computes and its answer crosses the other way.
const BEFORE: usize = 256;

impl Agreed {
    /// Publishes what is stored, where that is due, or hands back what is to go behind the segment.
    pub(super) fn publish<S: Store>(
        &mut self,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) -> Option<Vec<u8>> {
        if self.common.far.is_stripped || self.is_unheard {
            return None;
        }
        let (connection, _) = self.common.watch.parts();
        if !connection.is_to_publish(cx.engine) {
            return None;
        }
        let options = paws::shifted(packet.timestamps()?).within(packet.options_bytes());
        let headers = packet.header_len() - packet.options_bytes().len();
        let mss = self
            .common
            .far
            .mss
            .min(cx.config.limits.mtu.saturating_sub(headers));
        // Anchored at its end, and within what the server has sent.
        let end = self.common.watch.next(Toward::Client);
        let sent =
            usize::try_from(end.distance_from(self.common.watch.start(Toward::Client))).ok()?;
        let room = mss.saturating_sub(options.len()).min(sent);
        let room = room.checked_sub(publication::MAX_OVERHEAD)?;
        let around = headers + options.len() + publication::MAX_OVERHEAD;
        let round_trip = self.pace.answer_to(around + room);
        let (connection, _) = self.common.watch.parts();
        let filter = connection.publication(cx.engine, (room, around), (cx.now, round_trip))?;
        let said = Publication {
            fingerprint: filter.salt(),
            rate: filter.rate().number(),
            count: filter.count(),
            bits: &filter.to_bytes(),
        };
        let payload = publication::write(cx.key, self.common.id, self.common.version, &said);
        let start = end.before(payload.len());
        let how = Cut {
            start,
            options: &options,
            mss,
        };
        let segment = segment::cut(packet, &payload, how).pop()?;
        cx.engine.published(segment.len());
        if payload.len() > BEFORE {
            return Some(segment);
        }
        cx.out.inject(Direction::ToLink, segment);
        None
    }
}
