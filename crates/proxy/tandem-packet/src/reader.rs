//! The reading half of packet mode: collects a frame's segments, rebuilds the flight, cuts it to
//! the client's size.
//!
//! Is: the recognition of a rewritten segment whose timestamp was replaced on the way, too. Is not:
//! the usual recognition (its timestamp, `paws`), nor the request for originals (`client_side`).
//!
//! Invariants: nothing leaves here before the frame's check over the rebuilt bytes holds; memory is
//! bounded by the largest frame; a frame that comes again is rebuilt again, to the same bytes.

use std::collections::BTreeMap;

use tandem_delta::{Delta, Source};
use tandem_engine::Miss;
use tandem_link::inband::frame::{self, Frame, Parsed, Sender};
use tandem_link::inband::{FlowId, Key, Version};
use tandem_wire::{Seq, TcpPacket};

/// Most segments of frames that are kept, and of one frame that is written: one of
/// [`frame::MAX_SPAN`] in segments of 1,024 bytes.
pub(crate) const MAX_PIECES: usize = 64;

/// The segments of frames that are not whole yet, by sequence number from the sender's first byte.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    pieces: BTreeMap<u32, Vec<u8>>,
    bytes: usize,
    begun: Option<Begun>,
}

/// A frame in several segments of which the first came without the timestamp of a rewritten one.
#[derive(Debug)]
struct Begun {
    /// The first byte that the endpoint lacked then.
    next: Seq,
    /// The frame's own first byte, and the one behind its last.
    at: Seq,
    end: Seq,
}

/// What became of a rewritten segment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rebuilt {
    /// The flight, and the sequence number of its first byte.
    Flight(Seq, Vec<u8>),
    /// More segments are needed.
    Incomplete,
    /// It cannot be rebuilt here.
    Miss(Miss),
}

/// Whose frames these are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) key: &'a Key,
    pub(crate) flow: FlowId,
    pub(crate) version: Version,
    /// Whose flights they stand for.
    pub(crate) sender: Sender,
}

impl Origin<'_> {
    /// The sequence number of the sender's first byte.
    fn start(&self) -> Seq {
        match self.sender {
            Sender::Server => self.flow.server.wrapping_add(1),
            Sender::Client => self.flow.client.wrapping_add(1),
        }
    }
}

impl Reader {
    /// Takes a rewritten segment in.
    pub(crate) fn segment(
        &mut self,
        packet: &TcpPacket<'_>,
        origin: Origin<'_>,
        source: &mut impl Source,
    ) -> Rebuilt {
        let start = origin.start();
        let Ok(offset) = u32::try_from(packet.seq().distance_from(start)) else {
            return Rebuilt::Miss(Miss::Malformed);
        };
        if offset as usize + packet.payload().len() > frame::MAX_SPAN {
            return Rebuilt::Miss(Miss::Malformed);
        }
        // The common case, a frame in one segment, is read where it lies. While a longer one is
        // coming in, a piece of it may look like a frame of its own.
        if let Parsed::Whole(frame) = Frame::parse(packet.payload(), origin.version, origin.sender)
        {
            match rebuild(&frame, packet.seq(), origin, source) {
                Rebuilt::Miss(_) if !self.pieces.is_empty() => {}
                rebuilt @ (Rebuilt::Flight(..) | Rebuilt::Miss(_) | Rebuilt::Incomplete) => {
                    return rebuilt;
                }
            }
        }
        self.bytes += packet.payload().len();
        if let Some(old) = self.pieces.insert(offset, packet.payload().to_vec()) {
            self.bytes -= old.len();
        }
        if self.bytes > frame::MAX_SPAN || self.pieces.len() > MAX_PIECES {
            *self = Self::default();
            return Rebuilt::Miss(Miss::Malformed);
        }
        let first = self.pieces.iter().find(|(_, piece)| {
            match Frame::parse(piece, origin.version, origin.sender) {
                Parsed::Whole(_) | Parsed::Cut { .. } => true,
                Parsed::No => false,
            }
        });
        let Some(first) = first.map(|(first, _)| *first) else {
            return Rebuilt::Incomplete;
        };
        let bytes = self.contiguous(first);
        match Frame::parse(&bytes, origin.version, origin.sender) {
            Parsed::Whole(frame) => {
                // A repeated frame comes whole again.
                *self = Self::default();
                rebuild(&frame, start.wrapping_add(first), origin, source)
            }
            Parsed::Cut { .. } | Parsed::No => Rebuilt::Incomplete,
        }
    }

    /// The same for a segment whose timestamp does not tell that it is rewritten: somebody on the
    /// way puts others in. `None`: it is an ordinary one.
    ///
    /// A frame is recognised by its check or, where it cannot be followed or comes in pieces, by
    /// its place: it stands for bytes from `next` on, the first that the endpoint lacks, and so
    /// begins behind a gap of exactly the length that it saves. Ordinary bytes that look like that
    /// by chance are lost once; when the gap is filled they are ordinary again.
    pub(crate) fn of_any_age(
        &mut self,
        packet: &TcpPacket<'_>,
        next: Seq,
        origin: Origin<'_>,
        source: &mut impl Source,
    ) -> Option<Rebuilt> {
        let (at, payload) = (packet.seq(), packet.payload());
        if let Parsed::Whole(frame) = Frame::parse(payload, origin.version, origin.sender)
            && let flight @ Rebuilt::Flight(..) = rebuild(&frame, at, origin, source)
        {
            return Some(flight);
        }
        if self.begun.as_ref().is_some_and(|begun| begun.next != next) {
            *self = Self::default();
        }
        let continues = |begun: &Begun| !at.is_before(begun.at) && at.is_before(begun.end);
        if !self.begun.as_ref().is_some_and(continues) {
            let extent = Frame::extent(payload, origin.version, origin.sender)?;
            let end = at.after(extent.length);
            if end.before(extent.span) != next {
                return None;
            }
            self.begun = Some(Begun { next, at, end });
        }
        Some(self.segment(packet, origin, source))
    }

    /// Bytes of memory in use, about.
    pub(crate) fn footprint(&self) -> usize {
        self.bytes
    }

    fn contiguous(&self, first: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (offset, piece) in self.pieces.range(first..) {
            if *offset as usize != first as usize + bytes.len() {
                break;
            }
            bytes.extend_from_slice(piece);
        }
        bytes
    }
}

fn rebuild(frame: &Frame<'_>, at: Seq, origin: Origin<'_>, source: &mut impl Source) -> Rebuilt {
    // Anchored at the end: the frame's last byte has the sequence number of the flight's last.
    let start = at.after(frame.length).before(frame.span);
    let bytes = Delta::parse(origin.version.encoding(), frame.delta, frame.span)
        .and_then(|delta| delta.apply(source));
    match bytes {
        Ok(bytes) if bytes.len() != frame.span => Rebuilt::Miss(Miss::Malformed),
        Ok(bytes) if frame.verify(origin.key, origin.flow, start, &bytes) => {
            Rebuilt::Flight(start, bytes)
        }
        Ok(_) => Rebuilt::Miss(Miss::WrongKey),
        Err(error) => Rebuilt::Miss(error.into()),
    }
}

#[cfg(test)]
mod tests;
