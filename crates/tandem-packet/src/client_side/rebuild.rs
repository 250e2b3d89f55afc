//! What the client-side proxy does with a rebuilt flight, and with one that it cannot rebuild.
//!
//! Is not: the rebuilding (`reader`). Invariant: of what was rebuilt the client gets all that it has not acknowledged, in order.

use tandem_link::mark;
use tandem_store::Store;
use tandem_wire::TcpPacket;

use super::Agreed;
use crate::config::WireFormat;
use crate::output::{Direction, Event, Owed, Verdict};
use crate::proxy::{Context, Keep, Toward};
use crate::reader::Rebuilt;
use crate::segment::{self, Cut};

impl Agreed {
    /// Carries out what became of a rewritten segment.
    pub(super) fn rebuilt<S: Store>(
        &mut self,
        owed: Owed,
        packet: &TcpPacket<'_>,
        (rebuilt, options): (Rebuilt, &[u8]),
        cx: &mut Context<'_, S>,
    ) -> Keep {
        match rebuilt {
            Rebuilt::Flight(start, bytes) => {
                cx.out.event(Event::FlightRebuilt(bytes.len() as u64));
                self.missed = false;
                let headers = packet.header_len() - packet.options_bytes().len();
                let mss = self.mss.min(cx.config.limits.mtu.saturating_sub(headers));
                let how = Cut {
                    start,
                    options,
                    mss,
                };
                // Of a flight that comes again the client gets what it has not acknowledged: each segment that it knows would make
                // it repeat itself over the link, and three such repeats look like a loss (RFC 5681, section 3.2).
                let useless = self
                    .acknowledged
                    .map_or(0, |ack| how.useless(bytes.len(), ack));
                let mut packets = segment::cut(packet, &bytes, how).into_iter().skip(useless);
                owed.settle(
                    packets.next().map_or(Verdict::Drop, Verdict::Replace),
                    cx.out,
                );
                packets.for_each(|packet| cx.out.inject(Direction::FromLink, packet));
                // Whatever reading along says of these bytes, they were checked, and the flow's end is still to come.
                let _ = self.watch.bytes(Toward::Client, start, &bytes);
            }
            Rebuilt::Incomplete => owed.settle(Verdict::Drop, cx.out),
            Rebuilt::Miss => {
                // The segment would be discarded by the client in any case (safe), or break its handshake (the thesis's).
                owed.settle(Verdict::Drop, cx.out);
                if cx.config.wire == WireFormat::Safe {
                    self.ask_for_originals(cx);
                }
            }
        }
        Keep::Flow
    }

    fn ask_for_originals<S: Store>(&mut self, cx: &mut Context<'_, S>) {
        cx.out.event(Event::MissSent);
        self.missed = true;
        let Some(headers) = header_only(&self.template) else {
            return;
        };
        let Ok(template) = TcpPacket::parse(&headers) else {
            return;
        };
        let mark = mark::miss(cx.key, self.id, self.version);
        let seq = self.watch.client_next();
        if let Some(request) = segment::lone_mark(&template, seq, &mark) {
            cx.out.inject(Direction::ToLink, request);
        }
    }
}

/// A whole packet out of the headers of one that had a payload: its length fields still count that payload.
fn header_only(headers: &[u8]) -> Option<Vec<u8>> {
    let mut packet = headers.to_vec();
    let length = packet.len();
    match packet.first()? >> 4 {
        4 => packet
            .get_mut(2..4)?
            .copy_from_slice(&u16::try_from(length).ok()?.to_be_bytes()),
        6 => packet
            .get_mut(4..6)?
            .copy_from_slice(&u16::try_from(length.checked_sub(40)?).ok()?.to_be_bytes()),
        _ => return None,
    }
    Some(packet)
}
