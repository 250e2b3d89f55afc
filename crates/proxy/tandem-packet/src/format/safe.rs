//! The safe format: deltas in frames, under timestamps so old that an endpoint discards them;
//! options beside what the endpoints send.
//!
//! Invariant: what nobody rebuilds reaches no application.

use tandem_engine::thesis::{Announcement, Codes};
use tandem_link::inband::frame;
use tandem_store::Store;
use tandem_wire::TcpPacket;

use super::{Format, Outgoing};
use crate::paws;
use crate::reader::MAX_PIECES;

pub(super) struct Safe;

impl Format for Safe {
    fn shows_itself(&self) -> bool {
        true
    }

    fn is_harmless(&self) -> bool {
        true
    }

    fn tries(&self) -> u8 {
        1
    }

    /// More would be refused by the reader.
    fn max_segments(&self) -> usize {
        MAX_PIECES
    }

    fn options(&self, template: &TcpPacket<'_>) -> Option<Vec<u8>> {
        let shifted = paws::shifted(template.timestamps()?);
        Some(shifted.within(template.options_bytes()))
    }

    fn write(&self, outgoing: Outgoing<'_>, store: &mut impl Store) -> Option<Vec<u8>> {
        let plan = outgoing.ground.plan(outgoing.flight, store)?;
        let bytes = outgoing.flight.bytes()?;
        let Outgoing {
            key, whose, from, ..
        } = outgoing;
        let delta = plan.finish(whose.1.encoding())?;
        frame::write(key, whose, from, &delta, bytes)
    }

    /// Hints are options.
    fn announced(&self, _hello: &[u8]) -> Option<Announcement> {
        None
    }

    fn codes(&self) -> Option<Codes> {
        None
    }
}
