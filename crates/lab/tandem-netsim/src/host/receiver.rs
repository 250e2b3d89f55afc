//! The receiving half of a simulated connection: what arrived, in what order,
//! and the window that is offered.
//!
//! Overlaps: the byte that arrived first counts, whatever a later copy says.

use std::collections::BTreeMap;

use tandem_wire::seq::Seq;

/// What a segment's payload did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// The stream grew, or ended.
    InOrder,
    /// Kept for later.
    OutOfOrder,
    /// Nothing in it was new.
    Duplicate,
}

/// The receiving half.
#[derive(Clone, Debug)]
pub(super) struct ReceiveHalf {
    initial_seq: Seq,
    data: Vec<u8>,
    /// Pieces beyond the contiguous data, by offset; disjoint.
    held: BTreeMap<u64, Vec<u8>>,
    fin_at: Option<u64>,
    limit: u32,
    scale: u8,
    /// How much the application has taken, where it does not take all at once.
    taken: Option<u64>,
}

impl ReceiveHalf {
    pub(super) fn new(limit: u32) -> Self {
        Self {
            initial_seq: Seq(0),
            data: Vec::new(),
            held: BTreeMap::new(),
            fin_at: None,
            limit,
            scale: 0,
            taken: None,
        }
    }

    pub(super) fn open(&mut self, initial_seq: Seq) {
        self.initial_seq = initial_seq;
    }

    pub(super) fn set_scale(&mut self, scale: u8) {
        self.scale = scale;
    }

    pub(super) fn data(&self) -> &[u8] {
        &self.data
    }

    /// The peer's FIN and all before it have arrived.
    pub(super) fn is_finished(&self) -> bool {
        self.fin_at == Some(self.data.len() as u64)
    }

    /// The application stops taking data: what arrives from now on fills the window.
    pub(super) fn pause(&mut self) {
        self.taken.get_or_insert(self.data.len() as u64);
    }

    /// The application takes all there is and all that comes.
    pub(super) fn resume(&mut self) {
        self.taken = None;
    }

    /// RCV.NXT.
    pub(super) fn next_seq(&self) -> Seq {
        self.initial_seq
            .wrapping_add(1)
            .after(self.data.len())
            .wrapping_add(u32::from(self.is_finished()))
    }

    /// RCV.WND in bytes, as the peer will understand it.
    pub(super) fn window(&self) -> u32 {
        let waiting = self.taken.map_or(0, |taken| self.data.len() as u64 - taken);
        let free = u64::from(self.limit).saturating_sub(waiting);
        let field = (free >> self.scale).min(u64::from(u16::MAX));
        // At most 65,535 << 14.
        u32::try_from(field << self.scale).unwrap_or(u32::MAX)
    }

    /// The window field of a segment other than a SYN.
    pub(super) fn window_field(&self) -> u16 {
        u16::try_from(self.window() >> self.scale).unwrap_or(u16::MAX)
    }

    /// The window field of a SYN, which is never scaled (RFC 7323, section 2.2).
    pub(super) fn window_field_of_syn(&self) -> u16 {
        u16::try_from(self.limit).unwrap_or(u16::MAX)
    }

    /// The test of RFC 9293, section 3.10.7.4: does any of it lie in the window?
    pub(super) fn is_acceptable(&self, seq: Seq, sequence_len: u32) -> bool {
        let window = i64::from(self.window());
        let first = i64::from(seq.distance_from(self.next_seq()));
        let last = first + i64::from(sequence_len) - 1;
        match (sequence_len, window) {
            (0, 0) => first == 0,
            (0, _) => (0..window).contains(&first),
            (_, 0) => false,
            _ => (0..window).contains(&first) || (0..window).contains(&last),
        }
    }

    /// Takes an acceptable segment's payload and FIN.
    pub(super) fn accept(&mut self, seq: Seq, payload: &[u8], has_fin: HasFin) -> Received {
        let before = self.data.len() as u64;
        let finished_before = self.is_finished();
        let distance = i64::from(seq.distance_from(self.next_seq_of_data()));
        // A segment from before the start of the stream cannot be acceptable.
        let Some(start) = before.checked_add_signed(distance) else {
            return Received::Duplicate;
        };
        let window_end = before + u64::from(self.window());
        let new_bytes = self.insert(start, payload, window_end);
        let end = start + payload.len() as u64;
        match has_fin {
            HasFin::Yes if end <= window_end => self.fin_at = self.fin_at.or(Some(end)),
            HasFin::Yes | HasFin::No => {}
        }
        self.drain_held();
        if self.data.len() as u64 > before || self.is_finished() != finished_before {
            Received::InOrder
        } else if new_bytes {
            Received::OutOfOrder
        } else {
            Received::Duplicate
        }
    }

    fn next_seq_of_data(&self) -> Seq {
        self.initial_seq.wrapping_add(1).after(self.data.len())
    }

    /// Keeps the bytes that are new; says whether there were any.
    fn insert(&mut self, start: u64, payload: &[u8], window_end: u64) -> bool {
        let mut any_new = false;
        let mut at = start.max(self.data.len() as u64);
        let end = (start + payload.len() as u64).min(window_end);
        while at < end {
            // The piece at or before `at`, if it covers `at`, is skipped.
            let covering = self
                .held
                .range(..=at)
                .next_back()
                .map(|(from, piece)| from + piece.len() as u64)
                .filter(|piece_end| *piece_end > at);
            if let Some(piece_end) = covering {
                at = piece_end;
                continue;
            }
            let gap_end = self
                .held
                .range(at..)
                .next()
                .map_or(end, |(from, _)| end.min(*from));
            let range = index(at - start)..index(gap_end - start);
            let Some(piece) = payload.get(range) else {
                break;
            };
            self.held.insert(at, piece.to_vec());
            any_new = true;
            at = gap_end;
        }
        any_new
    }

    fn drain_held(&mut self) {
        while let Some(entry) = self.held.first_entry() {
            if *entry.key() > self.data.len() as u64 {
                break;
            }
            // Disjoint pieces at or beyond the data: this one starts right behind it.
            self.data.extend_from_slice(&entry.remove());
        }
    }
}

/// Whether a segment carries a FIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HasFin {
    Yes,
    No,
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half() -> ReceiveHalf {
        let mut half = ReceiveHalf::new(100);
        half.open(Seq(u32::MAX - 3));
        half
    }

    fn seq(offset: i32) -> Seq {
        Seq((u32::MAX - 2).wrapping_add_signed(offset))
    }

    /// RFC 9293, section 3.10.7.4: the four cases of its table.
    #[test]
    fn a_segment_is_acceptable_where_any_of_it_lies_in_the_window() {
        let mut half = half();
        assert_eq!(half.window(), 100);
        for (offset, length, expected) in [
            (-1, 0, false),
            (0, 0, true),
            (99, 0, true),
            (100, 0, false),
            (-1, 1, false),
            (-1, 2, true),
            (99, 5, true),
            (100, 1, false),
            (-5, 5, false),
        ] {
            let acceptable = half.is_acceptable(seq(offset), length);
            assert_eq!(acceptable, expected, "{offset} {length}");
        }
        // Nothing is taken out, so this closes the window.
        half.taken = Some(0);
        half.accept(seq(0), &[7; 100], HasFin::No);
        assert_eq!(half.window(), 0);
        for (offset, length, expected) in [(100, 0, true), (101, 0, false), (100, 1, false)] {
            let acceptable = half.is_acceptable(seq(offset), length);
            assert_eq!(acceptable, expected, "{offset} {length}");
        }
    }

    #[test]
    fn what_is_taken_out_opens_the_window_again() {
        let mut half = half();
        half.taken = Some(0);
        half.accept(seq(0), &[7; 60], HasFin::No);
        assert_eq!(half.window(), 40);
        half.taken = Some(50);
        assert_eq!(half.window(), 90);
    }

    #[test]
    fn a_fin_beyond_the_window_does_not_count() {
        let mut half = ReceiveHalf::new(10);
        half.open(Seq(u32::MAX - 3));
        half.taken = Some(0);
        half.accept(seq(0), &[7; 11], HasFin::Yes);
        assert!(!half.is_finished());
        half.accept(seq(0), &[7; 10], HasFin::Yes);
        assert!(half.is_finished());
    }

    #[test]
    fn pieces_are_put_in_order_and_the_first_copy_counts() {
        let mut half = half();
        assert_eq!(half.accept(seq(4), b"ef", HasFin::No), Received::OutOfOrder);
        assert_eq!(half.accept(seq(8), b"i", HasFin::Yes), Received::OutOfOrder);
        assert_eq!(half.accept(seq(4), b"EF", HasFin::No), Received::Duplicate);
        assert_eq!(
            half.accept(seq(3), b"dEFGH", HasFin::No),
            Received::OutOfOrder
        );
        assert_eq!(half.next_seq(), seq(0));
        assert_eq!(half.accept(seq(0), b"abcD", HasFin::No), Received::InOrder);
        assert_eq!(half.data(), b"abcdefGHi");
        assert!(half.is_finished());
        assert_eq!(half.next_seq(), seq(10));
        assert_eq!(half.accept(seq(2), b"XX", HasFin::No), Received::Duplicate);
    }

    #[test]
    fn a_paused_reader_closes_the_window_without_moving_its_right_edge() {
        let mut half = half();
        half.pause();
        assert_eq!(half.accept(seq(0), &[1; 60], HasFin::No), Received::InOrder);
        assert_eq!(half.window(), 40);
        assert_eq!(
            half.accept(seq(60), &[1; 60], HasFin::No),
            Received::InOrder
        );
        assert_eq!((half.data().len(), half.window()), (100, 0));
        assert!(half.is_acceptable(seq(100), 0));
        assert!(!half.is_acceptable(seq(100), 1));
        assert!(!half.is_acceptable(seq(99), 0));
        half.resume();
        assert_eq!(half.window(), 100);
    }
}
