//! A device that takes overlapping segments for an attack (evasion by inconsistent
//! retransmission): what covers bytes that have passed passes only as an exact repeat of them.
//!
//! A host that repeats with other boundaries is cut off by such a device too, as soon as the bytes
//! differ or new ones are among them.

use std::collections::{BTreeMap, VecDeque};

use tandem_wire::clock::Instant;
use tandem_wire::packet::TcpPacket;

use super::stream::FirstCopies;
use super::{FlowDirection, opened, readable};
use crate::element::{Element, Port};

/// The device.
#[derive(Clone, Debug, Default)]
pub struct OverlapDropper {
    halves: BTreeMap<FlowDirection, FirstCopies>,
    passing: VecDeque<(Port, Vec<u8>)>,
    dropped: u64,
}

impl OverlapDropper {
    /// A device that has seen nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Segments that it dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn passes(&mut self, segment: &TcpPacket<'_>) -> bool {
        let direction = FlowDirection::of(segment);
        if let Some(start) = opened(segment) {
            let copies = FirstCopies::new(start);
            self.halves.entry(direction).or_insert(copies);
        }
        let (seq, payload) = (segment.seq(), segment.payload());
        let Some(copies) = self.halves.get_mut(&direction) else {
            return true;
        };
        if payload.is_empty() || !copies.covers(seq, payload.len()) {
            return true;
        }
        let (some, all) = copies.overlap(seq, payload.len());
        let repeats = all && !copies.contradicts(seq, payload);
        if !some {
            copies.add(seq, payload);
        }
        !some || repeats
    }
}

impl Element for OverlapDropper {
    fn handle_input(&mut self, port: Port, packet: Vec<u8>, _now: Instant) {
        if readable(&packet).is_none_or(|segment| self.passes(&segment)) {
            self.passing.push_back((port.opposite(), packet));
        } else {
            self.dropped += 1;
        }
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
    use super::super::testing::{feed, open, server};
    use super::*;

    #[test]
    fn an_overlap_is_dropped_and_an_exact_repeat_passes() {
        let mut device = open(OverlapDropper::new());
        let mut passes =
            |offset, bytes: &[u8]| feed(&mut device, Port::Right, server(offset, bytes)).len() == 1;
        assert!(passes(3, b"def"));
        assert!(passes(3, b"def") && passes(4, b"e"), "repeats");
        assert!(!passes(3, b"xyz"), "other bytes");
        assert!(!passes(0, b"abcdef"), "new bytes and old");
        assert!(passes(6, b"ghi") && passes(0, b""));
        assert_eq!(device.dropped(), 2);
    }
}
