//! Where data is cut into chunks: at places that its own bytes choose, so that the same content is
//! cut in the same way wherever it begins.
//!
//! Is not: a part of the protocol; a sender cuts as it likes. The places depend on the pair's key,
//! so that nobody can tell from lengths on the hop which known file crosses.
//!
//! Invariants: chunks are [`MIN_CHUNK`] bytes long at least and less than [`MAX_CHUNK`] more; work
//! is linear.

/// Shortest data that is held and referred to, in bytes. Who wants to learn from lengths whether
/// such data has crossed before has to guess all of it.
pub(super) const MIN_CHUNK: usize = 512;

/// Where a chunk is cut at the latest, unless what is left is less than a chunk.
const MAX_CHUNK: usize = 8192;

/// Bytes that decide about a place: older ones are shifted out of the sum.
const WINDOW: usize = 64;

/// How many bits of the sum have to be zero: a cut every 2 KiB behind the shortest chunk.
const BITS: u32 = 11;

/// Cuts data.
pub(super) struct Cutter {
    gears: Box<[u64; 256]>,
}

impl Cutter {
    /// One whose places depend on this seed.
    pub(super) fn new(seed: u64) -> Self {
        let mut state = seed;
        let mut gears = Box::new([0; 256]);
        // SplitMix64 (Steele, Lea and Flood 2014).
        gears.fill_with(|| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        });
        Self { gears }
    }

    /// Where each chunk ends. Text shorter than a chunk is one.
    pub(super) fn ends(&self, text: &[u8]) -> Vec<usize> {
        let mut ends = Vec::new();
        let mut start = 0;
        while start < text.len() {
            start += self.first(&text[start..]);
            ends.push(start);
        }
        ends
    }

    /// How long the first chunk is.
    fn first(&self, text: &[u8]) -> usize {
        if text.len() < 2 * MIN_CHUNK {
            return text.len();
        }
        // What is left behind it is a chunk, too.
        let last = (text.len() - MIN_CHUNK).min(MAX_CHUNK);
        let mut sum = 0_u64;
        for (at, byte) in text[..last].iter().enumerate().skip(MIN_CHUNK - WINDOW) {
            if at >= MIN_CHUNK && sum >> (u64::BITS - BITS) == 0 {
                return at;
            }
            sum = (sum << 1).wrapping_add(self.gears[usize::from(*byte)]);
        }
        match last {
            MAX_CHUNK => MAX_CHUNK,
            _ => text.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::noise;

    #[test]
    fn chunks_are_neither_short_nor_long_and_leave_nothing_out() {
        let cutter = Cutter::new(7);
        for text in [
            noise(100_000, 1),
            vec![0; 100_000],
            noise(513, 2),
            Vec::new(),
        ] {
            let ends = cutter.ends(&text);
            assert_eq!(ends.last().copied().unwrap_or(0), text.len());
            let mut start = 0;
            for end in ends {
                let length = end - start;
                assert!(
                    (MIN_CHUNK..MAX_CHUNK + MIN_CHUNK).contains(&length),
                    "{length}"
                );
                start = end;
            }
        }
        assert_eq!(cutter.ends(&[1; 9]), [9]);
    }

    #[test]
    fn what_stands_in_front_moves_few_cuts_and_the_seed_moves_them_all() {
        let text = noise(200_000, 3);
        let cutter = Cutter::new(7);
        let tails = |cutter: &Cutter, text: &[u8]| -> Vec<usize> {
            let ends = cutter.ends(text);
            ends.into_iter().map(|end| text.len() - end).collect()
        };
        let plain = tails(&cutter, &text);
        let moved = tails(&cutter, &[&noise(777, 4)[..], &text].concat());
        let common = plain.iter().filter(|tail| moved.contains(tail)).count();
        assert!(common * 10 > plain.len() * 9, "{common} of {}", plain.len());
        let other = tails(&Cutter::new(8), &text);
        let common = plain.iter().filter(|tail| other.contains(tail)).count();
        assert!(common * 10 < plain.len(), "{common} of {}", plain.len());
    }
}
