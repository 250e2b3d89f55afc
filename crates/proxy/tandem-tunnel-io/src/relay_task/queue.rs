//! What waits to be written in one direction, and whether more follows.
//!
//! Is not: a bound on a single piece; whoever pushes asks first whether there is room.
//!
//! Invariant: an empty queue holds no memory to speak of.

use std::collections::VecDeque;

/// While so many bytes wait, nothing more is read for this direction.
const ROOM: usize = 32 * 1024;

/// Bytes on their way out.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pieces: VecDeque<Vec<u8>>,
    /// Bytes of the first piece that are gone.
    gone: usize,
    /// Bytes that wait.
    len: usize,
    /// So many of these are in front of the mark, if there is one.
    marked: Option<usize>,
    flow: Flow,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Flow {
    /// More may follow.
    #[default]
    Open,
    /// What waits is the last.
    Ending,
    /// The end has been said, or broken off.
    Ended,
}

impl Queue {
    pub(super) fn push(&mut self, piece: Vec<u8>) {
        if self.flow == Flow::Open && !piece.is_empty() {
            self.len += piece.len();
            self.pieces.push_back(piece);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn has_room(&self) -> bool {
        self.len < ROOM
    }

    /// The next bytes; none if the queue is empty.
    pub(super) fn front(&self) -> &[u8] {
        self.pieces
            .front()
            .and_then(|piece| piece.get(self.gone..))
            .unwrap_or_default()
    }

    /// So many of [`Queue::front`] are gone.
    pub(super) fn written(&mut self, len: usize) {
        let len = len.min(self.front().len());
        self.len -= len;
        self.marked = self.marked.map(|before| before.saturating_sub(len));
        self.gone += len;
        if self.front().is_empty() {
            self.pieces.pop_front();
            self.gone = 0;
        }
        if self.pieces.is_empty() {
            self.pieces = VecDeque::new();
        }
    }

    /// Puts a mark behind what waits.
    pub(super) fn mark(&mut self) {
        self.marked = Some(self.len);
    }

    /// True once: all in front of the mark is written.
    pub(super) fn is_past_mark(&mut self) -> bool {
        self.marked.take_if(|before| *before == 0).is_some()
    }

    /// Nothing more follows.
    pub(super) fn end(&mut self) {
        if self.flow == Flow::Open {
            self.flow = Flow::Ending;
        }
    }

    /// True once: all is written and nothing more follows.
    pub(super) fn ends_now(&mut self) -> bool {
        let ends = self.flow == Flow::Ending && self.is_empty();
        if ends {
            self.flow = Flow::Ended;
        }
        ends
    }

    /// What waits is dropped, and nothing more follows.
    pub(super) fn discard(&mut self) {
        *self = Self {
            flow: Flow::Ended,
            ..Self::default()
        };
    }

    /// Whether the end has been said, or broken off.
    pub(super) fn has_ended(&self) -> bool {
        self.flow == Flow::Ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_in_order_whatever_is_taken_at_a_time() {
        for step in 1..5 {
            let mut queue = Queue::default();
            for piece in ["ab", "", "cde", "f"] {
                queue.push(piece.as_bytes().to_vec());
            }
            let mut out = Vec::new();
            while !queue.is_empty() {
                let front = queue.front();
                let len = step.min(front.len());
                out.extend_from_slice(&front[..len]);
                queue.written(len);
            }
            assert_eq!(out, b"abcdef");
            assert!(queue.front().is_empty());
        }
    }

    #[test]
    fn the_end_comes_once_and_after_the_last_byte() {
        let mut queue = Queue::default();
        queue.push(vec![1]);
        queue.end();
        queue.push(vec![2]);
        assert!(!queue.ends_now());
        queue.written(1);
        assert!(queue.ends_now());
        assert!(!queue.ends_now());
        assert!(queue.has_ended());
    }

    #[test]
    fn the_mark_is_passed_once_and_by_the_last_byte_in_front_of_it() {
        let mut queue = Queue::default();
        assert!(!queue.is_past_mark());
        queue.push(vec![1, 2]);
        queue.mark();
        queue.push(vec![3]);
        queue.written(1);
        assert!(!queue.is_past_mark());
        queue.written(1);
        assert!(queue.is_past_mark());
        queue.written(1);
        assert!(!queue.is_past_mark());
    }

    #[test]
    fn a_full_queue_has_no_room_and_a_discarded_one_nothing() {
        let mut queue = Queue::default();
        assert!(queue.has_room());
        queue.push(vec![0; ROOM]);
        assert!(!queue.has_room());
        queue.discard();
        assert!(queue.is_empty() && queue.has_ended() && !queue.ends_now());
    }
}
