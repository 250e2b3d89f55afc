//! A device that holds what is out of order until what is missing has passed, so that its hosts
//! see TCP in order. Segments stay as they are.
//!
//! What the gap never closes before is dropped after a while.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tandem_wire::clock::Instant;
use tandem_wire::packet::TcpPacket;
use tandem_wire::seq::Seq;

use super::{FlowDirection, end, opened, readable};
use crate::element::{Element, Port};

/// Segments of one direction that wait at most; more are dropped.
const MAX_HELD: usize = 64;

/// A segment that waits.
#[derive(Clone, Debug)]
struct Held {
    port: Port,
    seq: Seq,
    end: Seq,
    packet: Vec<u8>,
    until: Instant,
}

/// One direction of a connection.
#[derive(Clone, Debug)]
struct Half {
    next: Seq,
    held: Vec<Held>,
}

/// The device.
#[derive(Clone, Debug)]
pub struct ReorderHolder {
    patience: Duration,
    halves: BTreeMap<FlowDirection, Half>,
    passing: VecDeque<(Port, Vec<u8>)>,
    dropped: u64,
}

impl ReorderHolder {
    /// A device that holds a segment so long.
    pub fn new(patience: Duration) -> Self {
        Self {
            patience,
            halves: BTreeMap::new(),
            passing: VecDeque::new(),
            dropped: 0,
        }
    }

    /// Segments that waited in vain, or for which there was no room.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The direction whose order the segment keeps or breaks; `None`: it passes.
    fn placed(&mut self, segment: &TcpPacket<'_>) -> Option<&mut Half> {
        let direction = FlowDirection::of(segment);
        if let Some(next) = opened(segment) {
            let held = Vec::new();
            self.halves.entry(direction).or_insert(Half { next, held });
            return None;
        }
        let half = self.halves.get_mut(&direction)?;
        (segment.sequence_len() > 0).then_some(half)
    }
}

impl Half {
    /// All that is in order now, by number.
    fn release(&mut self) -> Vec<(Port, Vec<u8>)> {
        let mut released = Vec::new();
        let next = |half: &Self| {
            let in_order = |held: &Held| !held.seq.is_after(half.next);
            half.held.iter().position(in_order)
        };
        while let Some(index) = next(self) {
            let held = self.held.remove(index);
            if held.end.is_after(self.next) {
                self.next = held.end;
            }
            released.push((held.port.opposite(), held.packet));
        }
        released
    }
}

impl Element for ReorderHolder {
    fn handle_input(&mut self, port: Port, packet: Vec<u8>, now: Instant) {
        let until = now + self.patience;
        let half = readable(&packet).and_then(|segment| {
            let (seq, end) = (segment.seq(), end(&segment));
            self.placed(&segment).map(|half| (half, seq, end))
        });
        let Some((half, seq, end)) = half else {
            return self.passing.push_back((port.opposite(), packet));
        };
        if half.held.len() >= MAX_HELD && seq.is_after(half.next) {
            self.dropped += 1;
            return;
        }
        half.held.push(Held {
            port,
            seq,
            end,
            packet,
            until,
        });
        let released = half.release();
        self.passing.extend(released);
    }

    fn handle_timeout(&mut self, now: Instant) {
        for half in self.halves.values_mut() {
            let before = half.held.len();
            half.held.retain(|held| held.until > now);
            self.dropped += (before - half.held.len()) as u64;
        }
    }

    fn poll_output(&mut self) -> Option<(Port, Vec<u8>)> {
        self.passing.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let held = self.halves.values().flat_map(|half| &half.held);
        held.map(|held| held.until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{START, feed, open, seen, server};
    use super::*;

    #[test]
    fn what_is_ahead_waits_as_it_is_for_what_is_missing() {
        let mut device = open(ReorderHolder::new(Duration::from_secs(1)));
        assert!(feed(&mut device, Port::Right, server(6, b"third")).is_empty());
        assert!(feed(&mut device, Port::Right, server(3, b"two")).is_empty());
        let released = feed(&mut device, Port::Right, server(0, b"one"));
        let offsets: Vec<i32> = seen(&released).iter().map(|(offset, ..)| *offset).collect();
        assert_eq!(offsets, [0, 3, 6]);
        let again = feed(&mut device, Port::Right, server(0, b"ONE"));
        assert_eq!(seen(&again), [(0, b"ONE".to_vec(), 70)]);
    }

    #[test]
    fn what_waits_in_vain_is_dropped() {
        let mut device = open(ReorderHolder::new(Duration::from_secs(1)));
        feed(&mut device, Port::Right, server(6, b"third"));
        device.handle_timeout(START + Duration::from_secs(1));
        assert_eq!((device.dropped(), device.poll_timeout()), (1, None));
        let first = feed(&mut device, Port::Right, server(0, b"onetwo"));
        assert_eq!(seen(&first).len(), 1);
    }
}
