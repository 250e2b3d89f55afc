//! What a middlebox keeps of one direction of a connection: the first copy of each byte, and how
//! far it has sent them on.
//!
//! Not here: any decision. Invariant: a byte that is kept never changes.

use tandem_wire::seq::Seq;

/// Bytes of a stream that are kept; what lies beyond is not looked at.
pub const MAX_STREAM: usize = 1 << 20;

/// The first copies of a stream's bytes.
#[derive(Clone, Debug)]
pub(super) struct FirstCopies {
    start: Seq,
    bytes: Vec<Option<u8>>,
    /// Bytes from the start that went on.
    sent: usize,
}

impl FirstCopies {
    /// A stream whose first byte has this number.
    pub(super) fn new(start: Seq) -> Self {
        Self {
            start,
            bytes: Vec::new(),
            sent: 0,
        }
    }

    /// Whether all of this is within what is looked at.
    pub(super) fn covers(&self, seq: Seq, length: usize) -> bool {
        let from = seq.distance_from(self.start);
        usize::try_from(from).is_ok_and(|from| from + length <= MAX_STREAM)
    }

    /// Whether bytes were kept here that are others than these.
    pub(super) fn contradicts(&self, seq: Seq, bytes: &[u8]) -> bool {
        self.kept(seq, bytes.len())
            .zip(bytes)
            .any(|(kept, byte)| kept.is_some_and(|kept| kept != *byte))
    }

    /// Whether some of these bytes were kept, and whether all.
    pub(super) fn overlap(&self, seq: Seq, length: usize) -> (bool, bool) {
        let known = self.kept(seq, length).filter(Option::is_some).count();
        (known > 0, known == length)
    }

    /// Keeps what was not there; the caller has asked whether it [`covers`](Self::covers) that.
    pub(super) fn add(&mut self, seq: Seq, bytes: &[u8]) {
        let Ok(from) = usize::try_from(seq.distance_from(self.start)) else {
            return;
        };
        if self.bytes.len() < from + bytes.len() {
            self.bytes.resize(from + bytes.len(), None);
        }
        for (place, byte) in self.bytes.iter_mut().skip(from).zip(bytes) {
            place.get_or_insert(*byte);
        }
    }

    /// The number of the first byte that has not gone on.
    pub(super) fn next(&self) -> Seq {
        self.start.after(self.sent)
    }

    /// What can go on now in order.
    pub(super) fn ready(&mut self) -> Vec<u8> {
        let rest = self.bytes.iter().skip(self.sent);
        let ready: Vec<u8> = rest.map_while(|byte| *byte).collect();
        self.sent += ready.len();
        ready
    }

    /// The kept bytes between two numbers, as far as they are there.
    pub(super) fn between(&self, from: Seq, to: Seq) -> Vec<u8> {
        let length = usize::try_from(to.distance_from(from)).unwrap_or(0);
        self.kept(from, length).map_while(|byte| byte).collect()
    }

    fn kept(&self, seq: Seq, length: usize) -> impl Iterator<Item = Option<u8>> {
        let from = seq.distance_from(self.start);
        (0..length).map(move |index| {
            let at = usize::try_from(i64::from(from) + index as i64).ok()?;
            self.bytes.get(at).copied().flatten()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_copy_of_a_byte_stays_and_bytes_go_on_in_order() {
        let mut stream = FirstCopies::new(Seq(u32::MAX));
        stream.add(Seq(1), b"xyz");
        assert_eq!(stream.ready(), b"");
        assert!(stream.contradicts(Seq(0), b"abc") && !stream.contradicts(Seq(0), b"axy"));
        assert_eq!(stream.overlap(Seq(0), 2), (true, false));
        assert_eq!(stream.overlap(Seq(1), 3), (true, true));
        stream.add(Seq(u32::MAX), b"12345");
        assert_eq!(stream.ready(), b"12xyz");
        assert_eq!(stream.next(), Seq(4));
        assert_eq!(stream.between(Seq(0), Seq(3)), b"2xy");
        assert_eq!(stream.between(Seq(3), Seq(0)), b"");
        assert!(!stream.covers(Seq(u32::MAX - 1), 1));
        assert!(!stream.covers(Seq(MAX_STREAM as u32 - 1), 1));
    }
}
