//! A device that acknowledges by itself, to hide a slow link from the sender: what passes in order
//! is kept, acknowledged at once in the receiver's name, and sent again from here until the
//! receiver acknowledges it.
//!
//! Sequence numbers and options stay as they are; a segment that the receiver discards is sent
//! again in vain.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tandem_wire::clock::Instant;
use tandem_wire::packet::{Edit, TcpPacket};
use tandem_wire::seq::Seq;
use tandem_wire::tcp::TcpFlags;

use super::{FlowDirection, end, opened, readable};
use crate::element::{Element, Port};

/// Segments of one direction that are kept at most.
const MAX_KEPT: usize = 256;

/// How often a segment is sent again before the connection is left alone.
const MAX_REPEATS: u32 = 15;

/// A segment that the receiver has not acknowledged.
#[derive(Clone, Debug)]
struct Kept {
    port: Port,
    end: Seq,
    packet: Vec<u8>,
    repeats: u32,
    due: Instant,
}

/// One direction of a connection.
#[derive(Clone, Debug)]
struct Half {
    next: Seq,
    /// How far the receiver has acknowledged.
    acknowledged: Seq,
    /// The receiver's last segment without data.
    answer: Option<Vec<u8>>,
    kept: Vec<Kept>,
}

/// The device.
#[derive(Clone, Debug)]
pub struct EarlyAcker {
    patience: Duration,
    halves: BTreeMap<FlowDirection, Half>,
    passing: VecDeque<(Port, Vec<u8>)>,
    acknowledged: u64,
}

impl EarlyAcker {
    /// A device that waits so long for an acknowledgement before it sends a segment again.
    pub fn new(patience: Duration) -> Self {
        Self {
            patience,
            halves: BTreeMap::new(),
            passing: VecDeque::new(),
            acknowledged: 0,
        }
    }

    /// Acknowledgements of its own making.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// The receiver says how far it is.
    fn note_answer(&mut self, segment: &TcpPacket<'_>, now: Instant) {
        let Some(half) = self.halves.get_mut(&FlowDirection::of(segment).back()) else {
            return;
        };
        if !segment.flags().contains(TcpFlags::ACK) {
            return;
        }
        let ack = segment.ack();
        if ack.is_after(half.acknowledged) {
            half.acknowledged = ack;
        }
        if half
            .kept
            .first()
            .is_some_and(|kept| !kept.end.is_after(ack))
        {
            half.kept.retain(|kept| kept.end.is_after(ack));
            half.kept
                .iter_mut()
                .take(1)
                .for_each(|first| first.due = now + self.patience);
        }
        if segment.flags() == TcpFlags::ACK {
            half.answer = Some(segment.bytes().to_vec());
        }
    }

    /// The acknowledgement of this segment, in the receiver's name.
    fn acknowledge(
        &mut self,
        port: Port,
        segment: &TcpPacket<'_>,
        now: Instant,
    ) -> Option<Vec<u8>> {
        let direction = FlowDirection::of(segment);
        if let Some(next) = opened(segment) {
            let half = Half {
                next,
                acknowledged: next,
                answer: None,
                kept: Vec::new(),
            };
            self.halves.entry(direction).or_insert(half);
            return None;
        }
        let half = self.halves.get_mut(&direction)?;
        let end = end(segment);
        if segment.payload().is_empty()
            || segment.seq().is_after(half.next)
            || !end.is_after(half.acknowledged)
            || half.kept.len() >= MAX_KEPT
        {
            return None;
        }
        let known = half.kept.iter().any(|kept| kept.end == end);
        if !known {
            let at = half.kept.partition_point(|kept| kept.end.is_before(end));
            half.kept.insert(
                at,
                Kept {
                    port,
                    end,
                    packet: segment.bytes().to_vec(),
                    repeats: 0,
                    due: now + self.patience,
                },
            );
        }
        if end.is_after(half.next) {
            half.next = end;
        }
        let answer = TcpPacket::parse(half.answer.as_deref()?).ok()?;
        let edit = Edit {
            ack: Some(half.next),
            payload: Some(&[]),
            ..Edit::default()
        };
        answer.rebuilt(&edit).ok()
    }
}

impl Element for EarlyAcker {
    fn handle_input(&mut self, port: Port, packet: Vec<u8>, now: Instant) {
        let own = readable(&packet).and_then(|segment| {
            self.note_answer(&segment, now);
            self.acknowledge(port, &segment, now)
        });
        self.passing.push_back((port.opposite(), packet));
        self.acknowledged += u64::from(own.is_some());
        self.passing.extend(own.map(|own| (port, own)));
    }

    fn handle_timeout(&mut self, now: Instant) {
        for half in self.halves.values_mut() {
            // The receiver lacks the first for certain, and the link has little room.
            let Some(first) = half.kept.iter_mut().next().filter(|kept| kept.due <= now) else {
                continue;
            };
            first.repeats += 1;
            first.due = now + self.patience;
            let packet = first.packet.clone();
            self.passing.push_back((first.port.opposite(), packet));
            if first.repeats == MAX_REPEATS {
                half.kept.clear();
            }
        }
    }

    fn poll_output(&mut self) -> Option<(Port, Vec<u8>)> {
        self.passing.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let first = |half: &Half| half.kept.first().map(|kept| kept.due);
        self.halves.values().filter_map(first).min()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ISN, START, client, drain, feed, open, server};
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(1);

    /// What goes back to the sender: how far it says that the receiver is.
    fn answered(device: &mut EarlyAcker, offset: i32, bytes: &[u8]) -> Option<i32> {
        let out = feed(device, Port::Right, server(offset, bytes));
        assert_eq!(out.first().map(|(port, _)| *port), Some(Port::Left));
        out.get(1).map(|(port, packet)| {
            assert_eq!(*port, Port::Right);
            let own = TcpPacket::parse(packet).expect("a segment");
            assert!(own.payload().is_empty() && own.checksums_valid());
            own.ack().distance_from(ISN) - 1
        })
    }

    #[test]
    fn what_is_in_order_is_acknowledged_here_and_sent_again_until_it_arrives() {
        let mut device = open(EarlyAcker::new(PATIENCE));
        feed(&mut device, Port::Left, client(0));
        assert_eq!(answered(&mut device, 9, b"ahead"), None);
        assert_eq!(answered(&mut device, 0, b"abc"), Some(3));
        device.handle_timeout(START + PATIENCE);
        assert_eq!(
            drain(&mut device),
            [(Port::Left, server(0, b"abc").build())]
        );
        feed(&mut device, Port::Left, client(3));
        assert_eq!(device.poll_timeout(), None);
        assert_eq!(answered(&mut device, 0, b"abc"), None, "it has arrived");
    }

    #[test]
    fn it_gives_up_after_some_repeats() {
        let mut device = open(EarlyAcker::new(PATIENCE));
        feed(&mut device, Port::Right, server(0, b"abc"));
        let mut repeats = 0;
        while let Some(due) = device.poll_timeout() {
            device.handle_timeout(due);
            repeats += drain(&mut device).len();
        }
        assert_eq!(repeats, MAX_REPEATS as usize);
    }
}
