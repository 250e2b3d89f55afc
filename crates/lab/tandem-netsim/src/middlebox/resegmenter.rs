//! A device that puts segments together and cuts them anew (large receive offload in a box that
//! forwards, or a carrier's optimiser): what is contiguous within a short time becomes one run,
//! under the headers of its last segment, in segments of the device's own size.
//!
//! It forwards out of order what comes out of order, and looks at no byte.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tandem_wire::clock::Instant;
use tandem_wire::packet::TcpPacket;
use tandem_wire::seq::Seq;
use tandem_wire::tcp::TcpFlags;

use super::{FlowDirection, cut, readable};
use crate::element::{Element, Port};

/// Longest run.
const MAX_RUN: usize = 65_000;

/// Contiguous bytes that wait for more.
#[derive(Clone, Debug)]
struct Run {
    port: Port,
    start: Seq,
    bytes: Vec<u8>,
    /// The segment that came last.
    newest: Vec<u8>,
    until: Instant,
}

/// The device.
#[derive(Clone, Debug)]
pub struct Resegmenter {
    size: usize,
    patience: Duration,
    runs: BTreeMap<FlowDirection, Run>,
    passing: VecDeque<(Port, Vec<u8>)>,
}

impl Resegmenter {
    /// A device that waits so long for more and makes segments of at most `size` bytes.
    pub fn new(size: usize, patience: Duration) -> Self {
        Self {
            size,
            patience,
            runs: BTreeMap::new(),
            passing: VecDeque::new(),
        }
    }

    fn flush(&mut self, direction: FlowDirection) {
        let Some(run) = self.runs.remove(&direction) else {
            return;
        };
        if let Ok(template) = TcpPacket::parse(&run.newest) {
            let pieces = cut(&template, run.start, &run.bytes, self.size);
            let port = run.port.opposite();
            self.passing
                .extend(pieces.into_iter().map(|piece| (port, piece)));
        }
    }

    /// Adds the segment to a run, if it has anything to add.
    fn collect(&mut self, port: Port, segment: &TcpPacket<'_>, now: Instant) {
        let direction = FlowDirection::of(segment);
        let fits = self.runs.get(&direction).is_some_and(|run| {
            run.start.after(run.bytes.len()) == segment.seq()
                && run.bytes.len() + segment.payload().len() <= MAX_RUN
        });
        if !fits {
            self.flush(direction);
        }
        let until = now + self.patience;
        let run = self.runs.entry(direction).or_insert_with(|| Run {
            port,
            start: segment.seq(),
            bytes: Vec::new(),
            newest: Vec::new(),
            until,
        });
        run.bytes.extend_from_slice(segment.payload());
        run.newest = segment.bytes().to_vec();
    }
}

impl Element for Resegmenter {
    fn handle_input(&mut self, port: Port, packet: Vec<u8>, now: Instant) {
        let Some(segment) = readable(&packet) else {
            return self.passing.push_back((port.opposite(), packet));
        };
        let special = TcpFlags::SYN
            .with(TcpFlags::FIN)
            .with(TcpFlags::RST)
            .with(TcpFlags::URG);
        if segment.payload().is_empty() || segment.flags().intersects(special) {
            self.flush(FlowDirection::of(&segment));
            return self.passing.push_back((port.opposite(), packet));
        }
        self.collect(port, &segment, now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        let due = |run: &Run| run.until <= now;
        let directions: Vec<FlowDirection> = self
            .runs
            .iter()
            .filter(|(_, run)| due(run))
            .map(|(direction, _)| *direction)
            .collect();
        directions
            .into_iter()
            .for_each(|direction| self.flush(direction));
    }

    fn poll_output(&mut self) -> Option<(Port, Vec<u8>)> {
        self.passing.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.runs.values().map(|run| run.until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{START, drain, feed, open, seen, server, stamps};
    use super::*;
    use tandem_wire::packet::SegmentRepr;

    const PATIENCE: Duration = Duration::from_millis(5);

    #[test]
    fn contiguous_segments_are_cut_anew_under_the_last_ones_headers() {
        let mut device = open(Resegmenter::new(4, PATIENCE));
        assert!(feed(&mut device, Port::Right, server(0, b"abc")).is_empty());
        let newer = SegmentRepr {
            options: stamps(80, 7),
            ..server(3, b"defgh")
        };
        assert!(feed(&mut device, Port::Right, newer).is_empty());
        device.handle_timeout(START + PATIENCE);
        assert_eq!(
            seen(&drain(&mut device)),
            [(0, b"abcd".to_vec(), 80), (4, b"efgh".to_vec(), 80)]
        );
        assert_eq!(device.poll_timeout(), None);
    }

    #[test]
    fn what_is_not_contiguous_or_carries_no_data_ends_a_run() {
        let mut device = open(Resegmenter::new(9, PATIENCE));
        assert!(feed(&mut device, Port::Right, server(5, b"later")).is_empty());
        let flushed = feed(&mut device, Port::Right, server(0, b"first"));
        assert_eq!(seen(&flushed), [(5, b"later".to_vec(), 70)]);
        let flushed = feed(&mut device, Port::Right, server(5, b""));
        assert_eq!(
            seen(&flushed),
            [(0, b"first".to_vec(), 70), (5, b"".to_vec(), 70)]
        );
    }
}
