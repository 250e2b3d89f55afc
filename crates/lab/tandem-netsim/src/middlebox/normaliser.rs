//! An in-line normaliser, as intrusion prevention has it: bytes go on in order, of each byte the
//! copy that came first, under the headers of what came last. Timestamps tell it nothing.
//!
//! A segment that its receiver would discard (PAWS) becomes a part of the stream here.

use std::collections::{BTreeMap, VecDeque};

use tandem_wire::clock::Instant;
use tandem_wire::packet::TcpPacket;
use tandem_wire::tcp::TcpFlags;

use super::stream::FirstCopies;
use super::{FlowDirection, cut, end, opened, readable};
use crate::element::{Element, Port};

/// One direction of a connection.
#[derive(Clone, Debug)]
struct Half {
    copies: FirstCopies,
    /// The largest payload that came: none is made that is larger.
    largest: usize,
}

/// The normaliser.
#[derive(Clone, Debug, Default)]
pub struct Normaliser {
    halves: BTreeMap<FlowDirection, Half>,
    passing: VecDeque<(Port, Vec<u8>)>,
    overruled: u64,
}

impl Normaliser {
    /// A normaliser that has seen nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Segments that said other bytes than the first copy did.
    pub fn overruled(&self) -> u64 {
        self.overruled
    }

    /// What goes on for this segment; `None`: the segment as it is.
    fn normalised(&mut self, segment: &TcpPacket<'_>) -> Option<Vec<Vec<u8>>> {
        let direction = FlowDirection::of(segment);
        if let Some(start) = opened(segment) {
            let half = Half {
                copies: FirstCopies::new(start),
                largest: 0,
            };
            self.halves.entry(direction).or_insert(half);
            return None;
        }
        let half = self.halves.get_mut(&direction)?;
        let (seq, payload) = (segment.seq(), segment.payload());
        if payload.is_empty() {
            // A FIN waits for what is before it; its sender will repeat it.
            let early = segment.flags().contains(TcpFlags::FIN) && seq.is_after(half.copies.next());
            return early.then(Vec::new);
        }
        if !half.copies.covers(seq, payload.len()) {
            return Some(Vec::new());
        }
        self.overruled += u64::from(half.copies.contradicts(seq, payload));
        half.copies.add(seq, payload);
        half.largest = half.largest.max(payload.len());
        let next = half.copies.next();
        if seq.is_after(next) {
            return Some(Vec::new());
        }
        half.copies.ready();
        let to = if half.copies.next().is_after(end(segment)) {
            half.copies.next()
        } else {
            end(segment)
        };
        let bytes = half.copies.between(seq, to);
        Some(cut(segment, seq, &bytes, half.largest))
    }
}

impl Element for Normaliser {
    fn handle_input(&mut self, port: Port, packet: Vec<u8>, _now: Instant) {
        let normalised = readable(&packet).and_then(|segment| self.normalised(&segment));
        let out = normalised.unwrap_or_else(|| vec![packet]);
        let out = out.into_iter().map(|packet| (port.opposite(), packet));
        self.passing.extend(out);
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_output(&mut self) -> Option<(Port, Vec<u8>)> {
        self.passing.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{feed, open, seen, server, stamps};
    use super::*;
    use tandem_wire::packet::SegmentRepr;

    fn outcome(normaliser: &mut Normaliser, segment: SegmentRepr) -> Vec<(i32, Vec<u8>, u32)> {
        seen(&feed(normaliser, Port::Right, segment))
    }

    #[test]
    fn the_first_copy_wins_even_if_its_timestamp_is_old() {
        let mut normaliser = open(Normaliser::new());
        let old = SegmentRepr {
            options: stamps(70u32.wrapping_sub(1 << 30), 7),
            ..server(3, b"OLD")
        };
        assert_eq!(outcome(&mut normaliser, old), []);
        let whole = outcome(&mut normaliser, server(0, b"abcdef"));
        assert_eq!(whole, [(0, b"abcOLD".to_vec(), 70)]);
        let again = outcome(&mut normaliser, server(3, b"def"));
        assert_eq!(again, [(3, b"OLD".to_vec(), 70)]);
        assert_eq!(normaliser.overruled(), 2);
    }

    #[test]
    fn what_waited_goes_on_behind_what_was_missing() {
        let mut normaliser = open(Normaliser::new());
        assert_eq!(outcome(&mut normaliser, server(4, b"efgh")), []);
        assert_eq!(
            outcome(&mut normaliser, server(0, b"abcd")),
            [(0, b"abcd".to_vec(), 70), (4, b"efgh".to_vec(), 70)]
        );
    }

    #[test]
    fn what_is_before_the_stream_does_not_pass() {
        let mut normaliser = open(Normaliser::new());
        assert_eq!(outcome(&mut normaliser, server(-2, b"xy")), []);
        assert_eq!(
            outcome(&mut normaliser, server(0, b"ab")),
            [(0, b"ab".to_vec(), 70)]
        );
        assert_eq!(normaliser.overruled(), 0);
    }
}
