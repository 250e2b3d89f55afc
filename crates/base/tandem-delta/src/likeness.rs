//! Where bytes are like others that the far side holds: a renewed certificate and the one before
//! it, a new staple and an old one.
//!
//! Is: a greedy search for runs of equal bytes. Is not: the best delta there is; nor the choice of
//! what to compare with.
//!
//! Every position of the sources is entered under the hash of the [`WINDOW`] bytes that begin
//! there, the first one with a hash alone. The target is gone through once; where it stopped being
//! like one place of a source, that place is tried first again, since most differences are a number
//! exchanged for one of the same length.
//!
//! Invariants: a run is equal in both and lies in one source; runs are in the target's order and do
//! not overlap; memory is linear in the sources, work in sources and target, whatever they hold.

/// Bytes that have to be equal before a place is looked at.
const WINDOW: usize = 8;

/// Shortest run that is worth an instruction where names are digests: a copy is about five bytes,
/// and cuts the literal around it in two.
pub(crate) const MIN_RUN: usize = 12;

/// The same where names are numbers, and no digest has to be worth its sixteen bytes: a copy is
/// about seven bytes, the literal's head after it included.
pub(crate) const MIN_NUMBERED_RUN: usize = 8;

/// Most bytes of all sources together. What is beyond is not compared with: a chain with
/// post-quantum keys has 20 kB.
const MAX_SOURCES_LEN: usize = 1 << 17;

/// A run of bytes of the target that a source has, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// Where it begins in the target.
    pub(crate) at: usize,
    /// Which source has it.
    pub(crate) source: usize,
    /// Where it begins there.
    pub(crate) offset: usize,
    /// How many bytes.
    pub(crate) length: usize,
}

/// Sources, made ready to be compared with.
#[derive(Debug)]
pub(crate) struct Likeness<'s> {
    sources: Vec<&'s [u8]>,
    /// Shortest run that is looked for, at least [`WINDOW`].
    min_run: usize,
    /// By hash: the place of a window, one more than its number in the order of all sources'
    /// positions; 0 for none.
    table: Vec<u32>,
    shift: u32,
}

/// A place in a source.
#[derive(Debug, Clone, Copy)]
struct Place {
    source: usize,
    offset: usize,
}

impl<'s> Likeness<'s> {
    /// Enters every window of the sources, for runs of `min_run` bytes and more.
    pub(crate) fn to(sources: &[&'s [u8]], min_run: usize) -> Self {
        let mut room = MAX_SOURCES_LEN;
        let sources: Vec<&[u8]> = sources
            .iter()
            .map(|source| {
                let part = &source[..source.len().min(room)];
                room -= part.len();
                part
            })
            .collect();
        let bytes: usize = sources.iter().map(|source| source.len()).sum();
        let bits = (2 * bytes).next_power_of_two().ilog2().max(1);
        let mut likeness = Self {
            table: vec![0; 1 << bits],
            shift: u64::BITS - bits,
            min_run,
            sources,
        };
        let mut number = 0u32;
        for index in 0..likeness.sources.len() {
            let source = likeness.sources[index];
            for offset in 0..source.len() {
                number += 1;
                if let Some(slot) = likeness.slot(&source[offset..])
                    && likeness.table[slot] == 0
                {
                    likeness.table[slot] = number;
                }
            }
        }
        likeness
    }

    /// The runs of the target that a source has, too.
    pub(crate) fn runs(&self, target: &[u8]) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut at = 0;
        while at + WINDOW <= target.len() {
            let done = runs.last().map_or(0, |run| run.at + run.length);
            let again = runs.last().map(|run| Place {
                source: run.source,
                offset: run.offset + (at - run.at),
            });
            let found = self.place(&target[at..]);
            let best = [again, found]
                .into_iter()
                .flatten()
                .filter_map(|place| self.run(target, at, done, place))
                .max_by_key(|run| run.length);
            match best {
                Some(run) => {
                    at = run.at + run.length;
                    runs.push(run);
                }
                None => at += 1,
            }
        }
        runs
    }

    /// The longest run through this place, back to `done` at most; `None` where it is too short.
    fn run(&self, target: &[u8], at: usize, done: usize, place: Place) -> Option<Run> {
        let source = *self.sources.get(place.source)?;
        let (before, after) = source.split_at_checked(place.offset)?;
        let same = |pairs: &mut dyn Iterator<Item = (&u8, &u8)>| {
            pairs.take_while(|(one, other)| one == other).count()
        };
        let forward = same(&mut after.iter().zip(&target[at..]));
        if forward < WINDOW {
            return None;
        }
        let back = same(&mut before.iter().rev().zip(target[done..at].iter().rev()));
        Some(Run {
            at: at - back,
            source: place.source,
            offset: place.offset - back,
            length: back + forward,
        })
        .filter(|run| run.length >= self.min_run)
    }

    /// Where a source may have the bytes that `target` begins with.
    fn place(&self, target: &[u8]) -> Option<Place> {
        let number = self.table[self.slot(target)?].checked_sub(1)?;
        let mut offset = number as usize;
        for (index, source) in self.sources.iter().enumerate() {
            if offset < source.len() {
                return Some(Place {
                    source: index,
                    offset,
                });
            }
            offset -= source.len();
        }
        None
    }

    fn slot(&self, bytes: &[u8]) -> Option<usize> {
        let window = u64::from_le_bytes(*bytes.first_chunk::<WINDOW>()?);
        // Multiplicative hashing by 2^64 over the golden ratio. That somebody makes windows collide
        // costs likeness, not time.
        usize::try_from(window.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::noise;
    use proptest::prelude::*;

    fn check(runs: &[Run], target: &[u8], sources: &[&[u8]]) {
        let mut done = 0;
        for run in runs {
            assert!(run.at >= done && run.length >= MIN_RUN);
            done = run.at + run.length;
            assert_eq!(
                target[run.at..done],
                sources[run.source][run.offset..run.offset + run.length]
            );
        }
    }

    #[test]
    fn what_was_exchanged_in_the_middle_is_left_out() {
        let old = noise(900, 1);
        let mut new = old.clone();
        new[200..220].copy_from_slice(&noise(20, 2));
        new.splice(500..500, noise(7, 3));
        let runs = Likeness::to(&[&old], MIN_RUN).runs(&new);
        check(&runs, &new, &[&old]);
        let spans: Vec<_> = runs.iter().map(|run| (run.at, run.length)).collect();
        assert_eq!(spans, [(0, 200), (220, 280), (507, 400)]);
    }

    #[test]
    fn the_end_of_one_source_does_not_run_into_the_next() {
        let (one, other) = (noise(100, 1), noise(100, 2));
        let both = [&one[..], &other].concat();
        let runs = Likeness::to(&[&one, &other], MIN_RUN).runs(&both);
        check(&runs, &both, &[&one, &other]);
        assert_eq!(runs.len(), 2);
    }

    #[test]
    fn after_a_difference_the_same_source_goes_on() {
        let (start, middle, end) = (noise(60, 1), noise(40, 2), noise(50, 3));
        let old = [&noise(30, 4)[..], &start, &noise(5, 5), &middle, &end].concat();
        let new = [&noise(10, 6)[..], &start, &noise(5, 7), &middle, &end].concat();
        // The first source has the middle alone: shorter than what goes on in the second.
        let runs = Likeness::to(&[&middle, &old], MIN_RUN).runs(&new);
        let [.., last] = runs.as_slice() else {
            panic!("nothing alike")
        };
        check(&runs, &new, &[&middle, &old]);
        assert_eq!((last.source, last.at, last.length), (1, 75, 90));
        assert_eq!(runs.len(), 2);
    }

    #[test]
    fn a_shorter_run_elsewhere_hides_no_longer_one() {
        let target = noise(MIN_RUN, 1);
        let cut = [&target[..MIN_RUN - 1], &[!target[MIN_RUN - 1]]].concat();
        let runs = Likeness::to(&[&cut, &target], MIN_RUN).runs(&target);
        check(&runs, &target, &[&cut, &target]);
        assert_eq!(runs.len(), 1);
    }

    #[test]
    fn the_first_byte_of_a_later_source_is_found() {
        let target = noise(50, 1);
        let runs = Likeness::to(&[&target[1..], &target], MIN_RUN).runs(&target);
        let [run] = runs.as_slice() else {
            panic!("{runs:?}")
        };
        assert_eq!((run.source, run.at, run.length), (1, 0, 50));
    }

    #[test]
    fn nothing_is_like_nothing() {
        assert_eq!(Likeness::to(&[], MIN_RUN).runs(&noise(100, 1)), []);
        assert_eq!(Likeness::to(&[b""], MIN_RUN).runs(&noise(100, 1)), []);
        assert_eq!(Likeness::to(&[&noise(100, 1)], MIN_RUN).runs(b"short"), []);
        assert_eq!(
            Likeness::to(&[&noise(100, 1)], MIN_RUN).runs(&noise(100, 2)),
            []
        );
    }

    #[test]
    fn endless_repetition_and_sources_beyond_the_bound_stay_cheap() {
        let zeros = vec![0; 1 << 16];
        let runs = Likeness::to(&[&zeros], MIN_RUN).runs(&zeros);
        assert_eq!(runs.len(), 1);
        let long = vec![0; MAX_SOURCES_LEN + 1];
        let likeness = Likeness::to(&[&long, &long], MIN_RUN);
        let kept: Vec<_> = likeness.sources.iter().map(|part| part.len()).collect();
        assert_eq!(kept, [MAX_SOURCES_LEN, 0]);
    }

    proptest! {
        #[test]
        fn runs_are_equal_and_in_order(
            sources in proptest::collection::vec(proptest::collection::vec(0u8..3, 0..300), 0..4),
            target in proptest::collection::vec(0u8..3, 0..300),
        ) {
            let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
            check(&Likeness::to(&sources, MIN_RUN).runs(&target), &target, &sources);
        }
    }
}
