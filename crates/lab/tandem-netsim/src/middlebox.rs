//! Middleboxes that look into TCP's stream: they let SYNs and options through, so two proxies on
//! either side find each other, and then meet what the proxies send with rules of their own.
//!
//! Here: [`ClockFirewall`] (own timestamps), [`Normaliser`] (bytes in order, first copy wins),
//! [`Resegmenter`], [`ReorderHolder`], [`OverlapDropper`], [`EarlyAcker`]. Not here: what changes
//! or drops headers alone ([`crate::firewall`]), translates addresses ([`crate::nat`]) or splits
//! TCP ([`crate::pep`]).
//!
//! All of them follow a connection from its SYN; what belongs to none, is no whole TCP segment or
//! has a bad checksum passes as it is. Simplified: a connection is never forgotten, and of its
//! stream the first [`MAX_STREAM`] bytes each way are looked at.

mod clock_firewall;
mod early_acker;
mod normaliser;
mod overlap_dropper;
mod reorder_holder;
mod resegmenter;
mod stream;

use std::net::SocketAddr;

use tandem_wire::packet::{Edit, TcpPacket};
use tandem_wire::seq::Seq;
use tandem_wire::tcp::TcpFlags;

pub use clock_firewall::ClockFirewall;
pub use early_acker::EarlyAcker;
pub use normaliser::Normaliser;
pub use overlap_dropper::OverlapDropper;
pub use reorder_holder::ReorderHolder;
pub use resegmenter::Resegmenter;
pub use stream::MAX_STREAM;

/// One direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FlowDirection {
    from: SocketAddr,
    to: SocketAddr,
}

impl FlowDirection {
    fn of(segment: &TcpPacket<'_>) -> Self {
        Self {
            from: segment.source(),
            to: segment.destination(),
        }
    }

    fn back(self) -> Self {
        Self {
            from: self.to,
            to: self.from,
        }
    }
}

/// The segment, where there is one that a middlebox would look into.
fn readable(packet: &[u8]) -> Option<TcpPacket<'_>> {
    TcpPacket::parse(packet)
        .ok()
        .filter(TcpPacket::checksums_valid)
}

/// The sequence number of the first byte of data, if the segment is a SYN.
fn opened(segment: &TcpPacket<'_>) -> Option<Seq> {
    segment
        .flags()
        .contains(TcpFlags::SYN)
        .then(|| segment.seq().wrapping_add(1))
}

/// The sequence number behind the segment's payload.
fn end(segment: &TcpPacket<'_>) -> Seq {
    segment.seq().after(segment.payload().len())
}

/// `bytes` from `start` on, under the headers of `template`, in segments of at most `size` bytes;
/// FIN and PSH on the last alone.
fn cut(template: &TcpPacket<'_>, start: Seq, bytes: &[u8], size: usize) -> Vec<Vec<u8>> {
    let size = size.max(1);
    let last = bytes.len().saturating_sub(1) / size;
    let inner = template
        .flags()
        .without(TcpFlags::FIN)
        .without(TcpFlags::PSH);
    let segment = |(index, piece): (usize, &[u8])| {
        let edit = Edit {
            seq: Some(start.after(index * size)),
            flags: (index < last).then_some(inner),
            payload: Some(piece),
            ..Edit::default()
        };
        template.rebuilt(&edit).ok()
    };
    bytes.chunks(size).enumerate().filter_map(segment).collect()
}

#[cfg(test)]
mod testing {
    //! Segments for the tests of the middleboxes.

    use std::net::SocketAddr;

    use tandem_wire::clock::Instant;
    use tandem_wire::packet::{SegmentRepr, TcpPacket};
    use tandem_wire::seq::Seq;
    use tandem_wire::tcp::TcpFlags;

    use crate::element::{Element, Port};

    pub(super) const START: Instant = Instant::ZERO;

    /// The server's sequence number before its first byte.
    pub(super) const ISN: Seq = Seq(u32::MAX - 3);

    /// TSval and TSecr as an option.
    pub(super) fn stamps(value: u32, echo: u32) -> Vec<u8> {
        let mut options = vec![1, 1, 8, 10];
        options.extend(value.to_be_bytes());
        options.extend(echo.to_be_bytes());
        options
    }

    /// A segment of the server's at this offset of its stream.
    pub(super) fn server(offset: i32, payload: &[u8]) -> SegmentRepr {
        SegmentRepr {
            source: SocketAddr::from(([10, 0, 1, 1], 443)),
            destination: SocketAddr::from(([10, 0, 0, 1], 50_000)),
            seq: Seq(ISN.0.wrapping_add(1).wrapping_add_signed(offset)),
            ack: Seq(1),
            flags: TcpFlags::ACK,
            window: 9_000,
            options: stamps(70, 7),
            payload: payload.to_vec(),
            hop_limit: 64,
        }
    }

    pub(super) fn server_syn() -> SegmentRepr {
        SegmentRepr {
            flags: TcpFlags::SYN.with(TcpFlags::ACK),
            ..server(-1, b"")
        }
    }

    /// An acknowledgement of the client's, of so many bytes.
    pub(super) fn client(acknowledged: u32) -> SegmentRepr {
        let of_server = server(0, b"");
        SegmentRepr {
            source: of_server.destination,
            destination: of_server.source,
            seq: Seq(1),
            ack: ISN.wrapping_add(1 + acknowledged),
            options: stamps(7, 70),
            ..of_server
        }
    }

    /// An element that has seen the server's SYN.
    pub(super) fn open<E: Element>(mut element: E) -> E {
        feed(&mut element, Port::Right, server_syn());
        element
    }

    /// Feeds a segment; hands back what comes out.
    pub(super) fn feed(
        element: &mut impl Element,
        port: Port,
        segment: SegmentRepr,
    ) -> Vec<(Port, Vec<u8>)> {
        element.handle_input(port, segment.build(), START);
        drain(element)
    }

    pub(super) fn drain(element: &mut impl Element) -> Vec<(Port, Vec<u8>)> {
        std::iter::from_fn(|| element.poll_output()).collect()
    }

    /// Offset in the server's stream, payload and TSval of each.
    pub(super) fn seen(packets: &[(Port, Vec<u8>)]) -> Vec<(i32, Vec<u8>, u32)> {
        let one = |(_, packet): &(Port, Vec<u8>)| {
            let segment = TcpPacket::parse(packet).expect("a segment");
            assert!(segment.checksums_valid());
            (
                segment.seq().distance_from(ISN) - 1,
                segment.payload().to_vec(),
                segment.timestamps().map_or(0, |stamps| stamps.value),
            )
        };
        packets.iter().map(one).collect()
    }
}
