//! One direction of a TCP stream: in-order bytes out of segments that may come late, twice,
//! overlapping or never.
//!
//! ```text
//!  start_seq        next_seq                 start_seq + limit
//!  |  contiguous()  |  gap  | pending | gap | pending |
//! ```
//!
//! It is not a TCP receiver: it acknowledges nothing, knows no window and no FIN.
//!
//! Invariants: no byte outside `limit` is held; a byte once held never changes (a segment that says
//! otherwise is a [`Inserted::Conflict`] and is dropped whole); pending pieces are sorted, do not
//! touch the contiguous part, do not overlap, and there are at most [`MAX_PENDING`] of them. Work
//! per segment: its length, plus a search among the pending pieces.
//!
//! Specification: RFC 9293, section 3.10.7.4 (segments are processed in sequence order).

use crate::seq::Seq;

/// Most out-of-order pieces held at once. A window of 64 kB in which every other segment of 536
/// bytes is missing has 61.
pub const MAX_PENDING: usize = 128;

/// What became of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// It held bytes that were not there yet.
    New,
    /// All its bytes were there already (or were consumed, or it had none).
    Duplicate,
    /// It overlaps held bytes and differs from them. Nothing of it was taken.
    Conflict,
    /// It reaches beyond the limit, or would be one piece too many. Nothing of it was taken.
    OutOfBounds,
}

/// Puts one direction of a stream together.
#[derive(Clone, Debug)]
pub struct Assembler {
    /// Sequence number of `buffer[head]`.
    start: Seq,
    /// Bytes consumed since the beginning: the offset of `buffer[head]`. Offsets never wrap.
    consumed: u64,
    /// `buffer[..head]` is consumed and not yet given back.
    buffer: Vec<u8>,
    head: usize,
    pending: Vec<Piece>,
    limit: usize,
}

#[derive(Clone, Debug)]
struct Piece {
    at: u64,
    bytes: Vec<u8>,
}

impl Piece {
    fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }
}

impl Assembler {
    /// An empty stream whose first byte has the sequence number `start` (one more than the SYN's),
    /// holding at most `limit` bytes that are not consumed; more than 2^31 - 1 has no meaning
    /// and counts as that.
    #[must_use]
    pub fn new(start: Seq, limit: usize) -> Self {
        let limit = limit.min(i32::MAX as usize);
        Self {
            start,
            consumed: 0,
            buffer: Vec::new(),
            head: 0,
            pending: Vec::new(),
            limit,
        }
    }

    /// Takes the payload of a segment. Bytes before what was consumed are not looked at: they
    /// cannot be compared any more.
    pub fn insert(&mut self, seq: Seq, payload: &[u8]) -> Inserted {
        let at = i64::from(seq.distance_from(self.start));
        let end = at.saturating_add_unsigned(payload.len() as u64);
        if payload.is_empty() || end <= 0 {
            return Inserted::Duplicate;
        }
        if end > self.limit as i64 {
            return Inserted::OutOfBounds;
        }
        // One of the two is negative, and counts as nothing.
        let payload = &payload[usize::try_from(-at).unwrap_or(0)..];
        let at = usize::try_from(at).unwrap_or(0);

        let held = self.contiguous();
        let (known, rest) = payload.split_at(payload.len().min(held.len().saturating_sub(at)));
        if !known.is_empty() && held[at..at + known.len()] != *known {
            return Inserted::Conflict;
        }
        if rest.is_empty() {
            return Inserted::Duplicate;
        }
        let next = self.next_offset();
        let rest_at = self.consumed + (at + known.len()) as u64;
        let overlapped = self.overlapped(rest_at, rest.len());
        if self.pending[overlapped.clone()]
            .iter()
            .any(|piece| differs(piece, rest_at, rest))
        {
            return Inserted::Conflict;
        }
        if rest_at == next {
            self.buffer.extend_from_slice(rest);
            self.absorb_pending();
            return Inserted::New;
        }
        self.insert_pending(rest_at, rest, overlapped)
    }

    /// The in-order bytes that are not consumed.
    #[must_use]
    pub fn contiguous(&self) -> &[u8] {
        &self.buffer[self.head..]
    }

    /// Gives up the first `count` in-order bytes, or all where there are fewer. They make room
    /// under the limit.
    pub fn consume(&mut self, count: usize) {
        let count = count.min(self.contiguous().len());
        self.start = self.start.after(count);
        self.consumed += count as u64;
        self.head += count;
        // Moving the rest costs no more than what was consumed since the last time.
        if self.head * 2 >= self.buffer.len() {
            self.buffer.drain(..self.head);
            self.head = 0;
        }
    }

    /// Sequence number of the first byte of [`Self::contiguous`], or of the one that would be.
    #[must_use]
    pub fn start_seq(&self) -> Seq {
        self.start
    }

    /// Sequence number of the first byte that is missing.
    #[must_use]
    pub fn next_seq(&self) -> Seq {
        self.start.after(self.contiguous().len())
    }

    /// Whether bytes are held that do not follow on the contiguous ones.
    #[must_use]
    pub fn has_gap(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Bytes held, in order or not; at most the limit.
    #[must_use]
    pub fn held(&self) -> usize {
        self.contiguous().len()
            + self
                .pending
                .iter()
                .map(|piece| piece.bytes.len())
                .sum::<usize>()
    }

    fn next_offset(&self) -> u64 {
        self.consumed + self.contiguous().len() as u64
    }

    /// Indices of the pending pieces that share bytes with the `len` bytes at `at`.
    fn overlapped(&self, at: u64, len: usize) -> std::ops::Range<usize> {
        let first = self.pending.partition_point(|piece| piece.end() <= at);
        let end = at + len as u64;
        let count = self.pending[first..].partition_point(|piece| piece.at < end);
        first..first + count
    }

    /// Moves pending pieces that now follow on the contiguous bytes.
    fn absorb_pending(&mut self) {
        let mut next = self.next_offset();
        let mut absorbed = 0;
        for piece in &self.pending {
            if piece.at > next {
                break;
            }
            absorbed += 1;
            if let Some(new) = piece.bytes.get(between(piece.at, next)..) {
                self.buffer.extend_from_slice(new);
                next += new.len() as u64;
            }
        }
        self.pending.drain(..absorbed);
    }

    /// Takes the parts of `bytes` that no piece covers; `overlapped` are the pieces that cover some
    /// of it. Every part but the first follows on a piece, so at most one piece is new.
    fn insert_pending(
        &mut self,
        at: u64,
        bytes: &[u8],
        overlapped: std::ops::Range<usize>,
    ) -> Inserted {
        let end = at + bytes.len() as u64;
        let touches = overlapped
            .start
            .checked_sub(1)
            .filter(|index| self.pending[*index].end() == at);
        let first_is_covered = self
            .pending
            .get(overlapped.start)
            .is_some_and(|piece| piece.at <= at);
        let mut index = match touches {
            Some(index) => index,
            None if first_is_covered => overlapped.start,
            None => {
                if self.pending.len() >= MAX_PENDING {
                    return Inserted::OutOfBounds;
                }
                self.pending.insert(
                    overlapped.start,
                    Piece {
                        at,
                        bytes: Vec::new(),
                    },
                );
                overlapped.start
            }
        };
        let mut outcome = Inserted::Duplicate;
        // Each turn fills what lies between one piece and the next, or the end.
        while let Some(piece) = self.pending.get(index).filter(|piece| piece.end() < end) {
            let from = piece.end();
            let to = self
                .pending
                .get(index + 1)
                .map_or(end, |after| after.at.min(end));
            if from < to {
                let part = &bytes[between(at, from)..between(at, to)];
                self.pending[index].bytes.extend_from_slice(part);
                outcome = Inserted::New;
            }
            index += 1;
            if to == end {
                break;
            }
        }
        outcome
    }
}

/// Whether `piece` holds other bytes than `bytes` at `at` says, where both have some.
fn differs(piece: &Piece, at: u64, bytes: &[u8]) -> bool {
    let from = piece.at.max(at);
    let to = piece.end().min(at + bytes.len() as u64);
    if from >= to {
        return false;
    }
    piece.bytes[between(piece.at, from)..between(piece.at, to)]
        != bytes[between(at, from)..between(at, to)]
}

/// Bytes between two offsets that are held together: fewer than the limit.
fn between(from: u64, to: u64) -> usize {
    usize::try_from(to - from).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
