//! The instructions of one delta: which ranges of the target come from where.
//!
//! Is: one planner for every kind of flight. It is told what the reader holds and where that lies
//! in the target, searches the rest for what is alike or compresses it, and writes the delta. Is
//! not: the knowledge of what the reader holds.
//!
//! ```text
//!   target   | rest | held | rest | held | rest |
//!   delta      Add    Copy   Add    Copy   Add       what is alike in a rest becomes a Copy, too;
//!                            Inflate                 or the rest is compressed, if that is shorter
//! ```
//!
//! Invariant: the delta rebuilds the target if each name means the bytes that the caller said.

use std::cmp::Reverse;
use std::iter::once;
use std::ops::Range;
use std::sync::Arc;

use crate::delta::{MAX_INFLATED, MAX_INFLATED_LEN, MAX_INSTRUCTIONS};
use crate::dictionary;
use crate::encoding::Encoding;
use crate::inflate::deflate;
use crate::likeness::{Likeness, MIN_NUMBERED_RUN, MIN_RUN, Run};
use crate::name::{Name, Reference};
use crate::writer::DeltaWriter;

/// What a run costs in a delta, beside a literal that goes on: head, index and offset, and the head
/// of the literal after it.
const RUN_COST: usize = 7;

/// What a compressed literal costs beside its bytes: head, length, number of dictionaries, size,
/// and the head of the literal after it.
const INFLATE_COST: usize = 1 + 2 + 1 + 2 + 2;

/// Shortest run that is copied where it goes on at the place: the copy's head, and the head of
/// the literal after it.
const MIN_CONTINUED: usize = 4;

/// What a run costs that is elsewhere, in an encoding with places, beside its name: the place's
/// head and offset, the copy's head, and the head of the literal after it.
const JUMP_COST: usize = 5;

/// Shortest run that is copied out of what is compressed otherwise.
const MIN_UNCOMPRESSED: usize = 48;

/// Shortest literal that is worth the work of compressing it.
const MIN_COMPRESSED: usize = 64;

/// The plan of a delta.
#[derive(Debug)]
pub struct Planner<'t> {
    stream: &'t [u8],
    /// Where the target begins in the stream.
    from: usize,
    copies: Copies,
    /// What the reader holds beside what is copied.
    sources: Vec<(Name, Arc<[u8]>)>,
    /// Ranges of the stream that may be compressed.
    compressible: Vec<Range<usize>>,
    /// Which of the sources has the target's shape.
    model: Option<Name>,
}

/// Ranges of a target that are copied: in the stream's order, without overlap.
#[derive(Debug, Clone, Default)]
struct Copies(Vec<Copied>);

/// A range of the stream that the reader copies from what it holds.
#[derive(Debug, Clone)]
struct Copied {
    range: Range<usize>,
    name: Name,
    offset: usize,
}

/// A range of the stream in compressed form.
#[derive(Debug)]
struct Compressed {
    range: Range<usize>,
    bytes: Vec<u8>,
}

impl<'t> Planner<'t> {
    /// A plan for all of `target`.
    pub fn new(target: &'t [u8]) -> Self {
        Self::starting_at(target, 0)
    }

    /// A plan for what `stream` holds from offset `from` on. All ranges count from the stream's
    /// start.
    pub fn starting_at(stream: &'t [u8], from: usize) -> Self {
        Self {
            stream,
            from,
            copies: Copies::default(),
            sources: Vec::new(),
            compressible: Vec::new(),
            model: None,
        }
    }

    /// The reader holds these pieces of the stream one behind the other, from `offset` of what
    /// `name` means. A piece that lies outside the target or overlaps another stays a literal.
    pub fn copy(
        &mut self,
        name: impl Into<Name>,
        mut offset: usize,
        pieces: impl IntoIterator<Item = Range<usize>>,
    ) {
        let name = name.into();
        for range in pieces {
            let length = range.len();
            if range.start >= self.from && range.end <= self.stream.len() {
                self.copies.insert(Copied {
                    range,
                    name,
                    offset,
                });
            }
            offset += length;
        }
    }

    /// The reader holds these sources, too, and the rest of the target may have something of them.
    /// A source is used where it saves more than its name costs; one with a number, only in an
    /// encoding that has numbers.
    pub fn search<N: Into<Name>>(&mut self, sources: impl IntoIterator<Item = (N, Arc<[u8]>)>) {
        let sources = sources.into_iter();
        self.sources
            .extend(sources.map(|(name, source)| (name.into(), source)));
    }

    /// The reader holds this source, too, and it is what the target was the last time: most fields
    /// lie where they lie in the target. Beside what [`Planner::search`] finds, short runs count
    /// that lie where the last copy would be by now; at first, at the source's start.
    pub fn follow(&mut self, name: impl Into<Name>, source: Arc<[u8]>) {
        let name = name.into();
        self.model = Some(name);
        self.search([(name, source)]);
    }

    /// What of this range the reader does not hold may be compressed, in an encoding that can:
    /// certificates, and not the noise of keys and signatures beside them.
    pub fn compress(&mut self, range: Range<usize>) {
        self.compressible.push(range);
    }

    /// The delta; `None` where the reader would use nothing of what it has.
    pub fn finish(self, encoding: Encoding) -> Option<Vec<u8>> {
        if encoding.has_places() {
            return self.placed(encoding);
        }
        let copied = self.copied(encoding);
        if !encoding.can_inflate() {
            return copied;
        }
        [copied, self.compressed(encoding, &self.copies)]
            .into_iter()
            .flatten()
            .min_by_key(Vec::len)
    }

    /// The delta in an encoding with places. Nothing is compressed where copies and what they leave
    /// cost next to nothing beside what may not be compressed.
    fn placed(&self, encoding: Encoding) -> Option<Vec<u8>> {
        let mut copies = self.copies_by_place(MIN_NUMBERED_RUN);
        self.continue_copies(&mut copies);
        let copied = self.write(encoding, &copies, &[], &[]);
        let left: usize = self.rests(&copies).map(|rest| rest.len()).sum();
        let parts = self.compressible_parts(&copies);
        let noise = left.saturating_sub(parts.map(|part| part.len()).sum());
        let is_short = |delta: &Vec<u8>| delta.len() < noise + MIN_COMPRESSED;
        if copied.as_ref().is_some_and(is_short) {
            return copied;
        }
        let long = self.copies_by_place(MIN_UNCOMPRESSED);
        let beside = match long.0.len() > self.copies.0.len() {
            true => self.compressed(encoding, &long),
            false => None,
        };
        [copied, beside, self.compressed(encoding, &self.copies)]
            .into_iter()
            .flatten()
            .min_by_key(Vec::len)
    }

    /// What is copied, with runs of this length and more that are worth a place.
    fn copies_by_place(&self, min_run: usize) -> Copies {
        let sources: Vec<&[u8]> = self.sources.iter().map(|(_, source)| &**source).collect();
        let mut copies = self.copies.clone();
        let runs = self.runs(&copies, &sources);
        for run in runs.iter().filter(|run| run.length >= min_run) {
            let (name, _) = self.sources[run.source];
            let is_worth = match name {
                // A run of [`MIN_RUN`] bytes is worth a place.
                Name::Digest(_) if self.is_copied(name) => true,
                Name::Digest(_) => {
                    let own = runs.iter().filter(|other| other.source == run.source);
                    let gain = own.map(|run| run.length.saturating_sub(JUMP_COST + 1));
                    gain.sum::<usize>() > Reference::LEN
                }
                Name::Number(number) => run.length > JUMP_COST + number_len(number),
            };
            if is_worth {
                copies.insert(Copied {
                    range: run.at..run.at + run.length,
                    name,
                    offset: run.offset,
                });
            }
        }
        copies
    }

    /// Adds the runs that lie where the copy before them would be by now.
    fn continue_copies(&self, copies: &mut Copies) {
        let source = |name| self.sources.iter().find(|(known, _)| *known == name);
        let mut found = Vec::new();
        let mut place = self.model.map(|name| (name, 0));
        let mut befores = copies.0.iter();
        for rest in self.rests(copies) {
            if let Some((name, offset)) = place
                && let Some((_, source)) = source(name)
            {
                let held = source.get(offset..).unwrap_or_default();
                let mut pairs = self.stream[rest.clone()].iter().zip(held).enumerate();
                let mut start = 0;
                let mut end = |at: usize, start: &mut usize| {
                    if at - *start >= MIN_CONTINUED {
                        found.push(Copied {
                            range: rest.start + *start..rest.start + at,
                            name,
                            offset: offset + *start,
                        });
                    }
                    *start = at + 1;
                };
                pairs
                    .by_ref()
                    .filter(|(_, (one, other))| one != other)
                    .for_each(|(at, _)| {
                        end(at, &mut start);
                    });
                end(rest.len().min(held.len()), &mut start);
            }
            place = befores
                .next()
                .map(|copied| (copied.name, copied.offset + copied.range.len()));
        }
        found.into_iter().for_each(|copied| copies.insert(copied));
    }

    /// The delta that copies what is alike.
    fn copied(&self, encoding: Encoding) -> Option<Vec<u8>> {
        let sources: Vec<&[u8]> = self.sources.iter().map(|(_, source)| &**source).collect();
        let runs = self.runs(&self.copies, &sources);
        let mut copies = self.copies.clone();
        for run in &runs {
            let (name, _) = self.sources[run.source];
            if self.is_worth(encoding, name, run.source, &runs) {
                copies.insert(Copied {
                    range: run.at..run.at + run.length,
                    name,
                    offset: run.offset,
                });
            }
        }
        self.write(encoding, &copies, &[], &[])
    }

    /// The delta that has these copies, compresses what else is not held, and has what is alike for
    /// a dictionary.
    fn compressed(&self, encoding: Encoding, copies: &Copies) -> Option<Vec<u8>> {
        // No more than may be there are tried: each try reads the whole window again, and what a
        // server sends may be made to shrink nowhere.
        let mut rests = self.compressible_rests(copies);
        rests.sort_by_key(|range| Reverse(range.len()));
        rests.truncate(MAX_INFLATED);
        rests.sort_by_key(|range| range.start);
        if rests.is_empty() {
            return None;
        }
        let built_in = dictionary::of(encoding);
        let sources: Vec<&[u8]> = once(built_in)
            .chain(self.sources.iter().map(|(_, source)| &**source))
            .collect();
        let runs = self.runs(copies, &sources);
        let (mut names, mut window) = (Vec::new(), built_in.to_vec());
        for (index, (name, source)) in (1..).zip(&self.sources) {
            if names.len() < MAX_INFLATED && self.is_worth(encoding, *name, index, &runs) {
                names.push(*name);
                window.extend_from_slice(source);
            }
        }
        let compressed: Vec<Compressed> = rests
            .into_iter()
            .filter_map(|range| {
                let bytes = deflate(&window, &self.stream[range.clone()])?;
                let is_shorter = bytes.len() + INFLATE_COST + names.len() < range.len();
                is_shorter.then_some(Compressed { range, bytes })
            })
            .collect();
        if compressed.is_empty() {
            return None;
        }
        self.write(encoding, copies, &names, &compressed)
    }

    /// The delta; `None` where it would use nothing of what the reader has, or have more
    /// instructions than a reader takes.
    fn write(
        &self,
        encoding: Encoding,
        copies: &Copies,
        dictionaries: &[Name],
        compressed: &[Compressed],
    ) -> Option<Vec<u8>> {
        // Each may have a literal behind it, and the first one in front.
        let used = copies.0.len() + compressed.len();
        if used == 0 || 2 * used >= MAX_INSTRUCTIONS {
            return None;
        }
        let mut delta = DeltaWriter::new(encoding);
        let mut at = self.from;
        let mut compressed = compressed.iter().peekable();
        let mut rest = |delta: &mut DeltaWriter, at: usize, end: usize| {
            let mut at = at;
            while let Some(next) = compressed.next_if(|next| next.range.end <= end) {
                delta.add(&self.stream[at..next.range.start]);
                delta.inflate(dictionaries, next.range.len(), &next.bytes);
                at = next.range.end;
            }
            delta.add(&self.stream[at..end]);
        };
        for copied in &copies.0 {
            rest(&mut delta, at, copied.range.start);
            delta.copy(copied.name, copied.offset, copied.range.len());
            at = copied.range.end;
        }
        rest(&mut delta, at, self.stream.len());
        Some(delta.finish())
    }

    /// What is alike in the rests beside these copies and in these sources.
    fn runs(&self, copies: &Copies, sources: &[&[u8]]) -> Vec<Run> {
        if sources.is_empty() {
            return Vec::new();
        }
        let is_digest = |name: &Name| matches!(name, Name::Digest(_));
        let min_run = match self.sources.iter().any(|(name, _)| is_digest(name)) {
            true => MIN_RUN,
            false => MIN_NUMBERED_RUN,
        };
        let likeness = Likeness::to(sources, min_run);
        let found = |rest: Range<usize>| {
            let start = rest.start;
            let runs = likeness.runs(&self.stream[rest]);
            runs.into_iter().map(move |run| Run {
                at: run.at + start,
                ..run
            })
        };
        self.rests(copies).flat_map(found).collect()
    }

    /// Whether the runs of this source save more than its name costs.
    fn is_worth(&self, encoding: Encoding, name: Name, source: usize, runs: &[Run]) -> bool {
        let mut own = runs.iter().filter(|run| run.source == source);
        match name {
            Name::Digest(_) => {
                let cost = if self.is_copied(name) {
                    0
                } else {
                    Reference::LEN
                };
                own.map(|run| run.length - RUN_COST).sum::<usize>() > cost
            }
            // Written with each run, and each run is worth that.
            Name::Number(_) => encoding.can_inflate() && own.next().is_some(),
        }
    }

    /// Whether the reader is to copy from this anyway.
    fn is_copied(&self, name: Name) -> bool {
        self.copies.0.iter().any(|copied| copied.name == name)
    }

    /// What lies before, between and behind the copies.
    fn rests(&self, copies: &Copies) -> impl Iterator<Item = Range<usize>> {
        let copies = &copies.0;
        let starts = once(self.from).chain(copies.iter().map(|copied| copied.range.end));
        let ends = copies.iter().map(|copied| copied.range.start);
        starts
            .zip(ends.chain(once(self.stream.len())))
            .map(|(start, end)| start..end)
    }

    /// What of the rests beside these copies may be compressed.
    fn compressible_parts(&self, copies: &Copies) -> impl Iterator<Item = Range<usize>> {
        let within = move |rest: Range<usize>| {
            self.compressible.iter().map(move |range| {
                let end = rest.end.min(range.end);
                let start = rest.start.max(range.start);
                start..end.min(start.saturating_add(MAX_INFLATED_LEN))
            })
        };
        self.rests(copies).flat_map(within)
    }

    /// What of that is worth trying.
    fn compressible_rests(&self, copies: &Copies) -> Vec<Range<usize>> {
        self.compressible_parts(copies)
            .filter(|range| range.len() >= MIN_COMPRESSED)
            .collect()
    }
}

impl Copies {
    /// Adds a copy, unless it overlaps another.
    fn insert(&mut self, copied: Copied) {
        let Range { start, end } = copied.range;
        let at = self.0.partition_point(|other| other.range.start < start);
        let before = at.checked_sub(1).and_then(|before| self.0.get(before));
        let is_free = before.is_none_or(|before| before.range.end <= start)
            && self.0.get(at).is_none_or(|after| end <= after.range.start);
        if is_free && start < end {
            self.0.insert(at, copied);
        }
    }
}

/// Bytes of a number as a name.
fn number_len(number: u32) -> usize {
    match number {
        ..0x40 => 1,
        0x40..0x2000 => 2,
        0x2000..0x10_0000 => 3,
        0x10_0000.. => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delta::{Delta, Instruction, Source};
    use crate::samples::noise;
    use proptest::prelude::*;

    const NAMES: [Reference; 2] = [Reference([1; 16]), Reference([2; 16])];

    /// What the far side holds, by the number in its name.
    struct Held(Vec<Arc<[u8]>>);

    impl Source for Held {
        fn resolve(&mut self, reference: &Reference) -> Option<Arc<[u8]>> {
            let index = NAMES.iter().position(|name| name == reference)?;
            self.0.get(index).cloned()
        }
    }

    fn rebuilt(encoding: Encoding, delta: &[u8], held: &[&[u8]]) -> Vec<u8> {
        let mut held = Held(held.iter().map(|object| Arc::from(*object)).collect());
        let delta = Delta::parse(encoding, delta, 1 << 16).expect("our own encoding");
        delta.apply(&mut held).expect("held")
    }

    #[test]
    fn pieces_come_in_any_order_and_the_rest_is_literal() {
        let held = noise(100, 1);
        let target = [&b"front"[..], &held[50..], b"middle", &held[..50], b"end"].concat();
        let mut plan = Planner::new(&target);
        plan.copy(NAMES[0], 0, once(61..111));
        plan.copy(NAMES[0], 50, [5..25, 25..55]);
        let delta = plan.finish(Encoding::One).expect("something is held");
        assert!(delta.len() < 60);
        assert_eq!(rebuilt(Encoding::One, &delta, &[&held]), target);
    }

    #[test]
    fn what_is_held_costs_the_same_in_both_encodings() {
        // Lengths at which a head that had a bit more for the kind would be a byte longer.
        let held = noise(5_000, 1);
        let target = [&noise(40, 2)[..], &held, &noise(40, 3)].concat();
        let deltas = [Encoding::One, Encoding::Two].map(|encoding| {
            let mut plan = Planner::new(&target);
            plan.copy(NAMES[0], 0, once(40..5_040));
            plan.finish(encoding).expect("something is held")
        });
        assert_eq!(deltas[0].len(), 1 + 16 + (1 + 40) + (2 + 1 + 1) + (1 + 40));
        assert_eq!(deltas[0], deltas[1]);
    }

    #[test]
    fn what_overlaps_or_lies_outside_the_target_stays_literal() {
        let target = noise(100, 1);
        let mut plan = Planner::starting_at(&target, 10);
        plan.copy(NAMES[0], 20, once(20..40));
        for outside in [0..5, 5..15, 15..25, 30..50, 20..40, 90..101, 50..50] {
            plan.copy(NAMES[1], 0, once(outside));
        }
        let delta = plan.finish(Encoding::One).expect("something is held");
        assert_eq!(rebuilt(Encoding::One, &delta, &[&target]), target[10..]);
    }

    #[test]
    fn pieces_that_touch_come_in_any_order_too() {
        let target = noise(100, 1);
        for encoding in [Encoding::One, Encoding::Three] {
            let mut plan = Planner::new(&target);
            plan.copy(NAMES[0], 50, once(50..100));
            plan.copy(NAMES[0], 0, once(0..50));
            let delta = plan.finish(encoding).expect("all is held");
            assert!(delta.len() < 30, "{}", delta.len());
            assert_eq!(rebuilt(encoding, &delta, &[&target]), target);
        }
    }

    #[test]
    fn a_source_is_named_only_where_it_is_worth_its_name() {
        let source: Arc<[u8]> = noise(200, 1).into();
        for (encoding, alike, is_worth) in [
            (Encoding::One, 23, false),
            (Encoding::One, 24, true),
            (Encoding::Three, 22, false),
            (Encoding::Three, 23, true),
        ] {
            let target = [&noise(50, 2)[..], &source[100..100 + alike], &noise(50, 3)].concat();
            let mut plan = Planner::new(&target);
            plan.search([(NAMES[0], source.clone())]);
            let delta = plan.finish(encoding);
            assert_eq!(delta.is_some(), is_worth, "{alike}");
            if let Some(delta) = delta {
                assert_eq!(rebuilt(encoding, &delta, &[&source]), target);
            }
        }
    }

    /// What both sides gave this number.
    struct Numbered(u32, Arc<[u8]>);

    impl Source for Numbered {
        fn resolve(&mut self, _: &Reference) -> Option<Arc<[u8]>> {
            None
        }

        fn numbered(&mut self, number: u32) -> Option<Arc<[u8]>> {
            (number == self.0).then(|| Arc::clone(&self.1))
        }
    }

    #[test]
    fn a_source_with_a_number_is_worth_shorter_runs_and_only_where_there_are_numbers() {
        let source: Arc<[u8]> = noise(200, 1).into();
        for (alike, is_worth) in [(7, false), (8, true)] {
            let target = [&noise(50, 2)[..], &source[20..20 + alike], &noise(50, 3)].concat();
            let deltas = [Encoding::One, Encoding::Two].map(|encoding| {
                let mut plan = Planner::new(&target);
                plan.search([(Name::Number(700_000), source.clone())]);
                plan.finish(encoding)
            });
            assert_eq!(deltas[0], None);
            assert_eq!(deltas[1].is_some(), is_worth, "{alike}");
            if let Some(delta) = &deltas[1] {
                assert!(delta.len() <= target.len());
                let delta = Delta::parse(Encoding::Two, delta, 1 << 16).expect("our own");
                assert_eq!(
                    delta.apply(&mut Numbered(700_000, source.clone())),
                    Ok(target)
                );
            }
        }
    }

    #[test]
    fn a_run_is_worth_a_place_where_it_is_longer_than_place_and_name() {
        let source: Arc<[u8]> = noise(200, 1).into();
        // Numbers whose names take one, two, three and four bytes; runs shorter than 8 bytes are
        // not looked for.
        for (number, shortest) in [
            (0x3f, 8),
            (0x40, 8),
            (0x1fff, 8),
            (0x2000, 9),
            (0xf_ffff, 9),
            (0x10_0000, 10),
        ] {
            for (alike, is_worth) in [(shortest - 1, false), (shortest, true)] {
                let target = [&noise(50, 2)[..], &source[20..20 + alike], &noise(50, 3)].concat();
                let mut plan = Planner::new(&target);
                plan.search([(Name::Number(number), source.clone())]);
                let delta = plan.finish(Encoding::Three);
                assert_eq!(delta.is_some(), is_worth, "{number:x} {alike}");
                if let Some(delta) = &delta {
                    let delta = Delta::parse(Encoding::Three, delta, 1 << 16).expect("our own");
                    let mut source = Numbered(number, source.clone());
                    assert_eq!(delta.apply(&mut source), Ok(target));
                }
            }
        }
    }

    /// What something of the same shape costs, in which these ranges are new.
    fn cost_with_new(earlier: &[u8], new: impl IntoIterator<Item = Range<usize>>) -> usize {
        let mut target = earlier.to_vec();
        for range in new {
            target[range].iter_mut().for_each(|byte| *byte ^= 0x55);
        }
        let mut plan = Planner::new(&target);
        plan.follow(Name::Number(0), earlier.into());
        let delta = plan.finish(Encoding::Three).expect("it is alike");
        let parsed = Delta::parse(Encoding::Three, &delta, 1 << 16).expect("our own");
        let mut source = Numbered(0, earlier.into());
        assert_eq!(parsed.apply(&mut source), Ok(target));
        delta.len()
    }

    #[test]
    fn what_lies_at_its_place_is_copied_from_four_bytes_on() {
        // Too short for a run that is looked for elsewhere: at the start, at the end, in between.
        let earlier = noise(55, 1);
        assert_eq!(cost_with_new(&earlier, once(5..50)), 1 + (1 + 45) + 1);
        assert_eq!(cost_with_new(&earlier, once(5..52)), 1 + (1 + 50));
        let between = [5..20, 24..50];
        assert_eq!(
            cost_with_new(&earlier, between),
            1 + (1 + 15) + 1 + (1 + 26) + 1
        );
        let too_short = [5..20, 23..50];
        assert_eq!(cost_with_new(&earlier, too_short), 1 + (1 + 45) + 1);
    }

    #[test]
    fn what_has_the_shape_of_the_last_costs_little_more_than_its_fields() {
        // A header, a field, a short field between two that differ, a long tail.
        let earlier: Arc<[u8]> = noise(500, 1).into();
        let mut target = earlier.to_vec();
        target[11..43].copy_from_slice(&noise(32, 2));
        target[47..79].copy_from_slice(&noise(32, 3));
        let mut plan = Planner::new(&target);
        plan.follow(Name::Number(0), earlier.clone());
        let delta = plan.finish(Encoding::Three).expect("it is alike");
        // Three copies, two literals.
        assert_eq!(delta.len(), 1 + (1 + 32) + 1 + (1 + 32) + 2);
        let delta = Delta::parse(Encoding::Three, &delta, 1 << 16).expect("our own");
        assert_eq!(delta.first_number(), Some(0));
        let mut source = Numbered(0, earlier);
        assert_eq!(delta.apply(&mut source), Ok(target));
    }

    #[test]
    fn what_is_new_in_something_of_the_same_shape_is_compressed_beside_copies() {
        let words =
            b"0@0>0<http://crl3.digicert.com/DigiCertGlobalRootG2.crl0http://r1.c.lencr.org/";
        let earlier = noise(900, 1);
        // What may not be compressed does not keep the rest from it.
        let key = noise(10, 2);
        let target = [&key, &earlier[..400], &words.repeat(3), &earlier[400..]].concat();
        let mut plan = Planner::new(&target);
        plan.follow(Name::Number(0), earlier.clone().into());
        plan.compress(300..target.len() - 100);
        let delta = plan.finish(Encoding::Three).expect("most is alike");
        assert!(delta.len() < 125, "{}", delta.len());
        let delta = Delta::parse(Encoding::Three, &delta, 1 << 16).expect("our own");
        assert_eq!(delta.apply(&mut Numbered(0, earlier.into())), Ok(target));
    }

    #[test]
    fn an_empty_piece_is_nothing_that_the_reader_has() {
        let target = noise(100, 1);
        let mut plan = Planner::new(&target);
        plan.copy(NAMES[0], 0, once(50..50));
        assert_eq!(plan.finish(Encoding::One), None);
    }

    #[test]
    fn what_is_alike_behind_a_copy_is_found_there() {
        let (held, source) = (noise(40, 1), noise(200, 2));
        let target = [&held[..], &noise(10, 3), &source[50..150], b"end"].concat();
        let mut plan = Planner::new(&target);
        plan.copy(NAMES[0], 0, once(0..40));
        plan.search([(NAMES[1], source.clone().into())]);
        let delta = plan.finish(Encoding::One).expect("something is held");
        assert!(delta.len() < 70, "{}", delta.len());
        assert_eq!(rebuilt(Encoding::One, &delta, &[&held, &source]), target);
    }

    #[test]
    fn a_source_that_is_named_anyway_costs_no_second_name() {
        let source = noise(200, 1);
        let target = [&source[..40], &noise(30, 2), &source[100..120], b"end"].concat();
        for (encoding, name, copies) in [
            (Encoding::One, NAMES[0], 2),
            (Encoding::One, NAMES[1], 1),
            (Encoding::Three, NAMES[0], 2),
            (Encoding::Three, NAMES[1], 1),
        ] {
            let mut plan = Planner::new(&target);
            plan.copy(NAMES[0], 0, once(0..40));
            plan.search([(name, source.clone().into())]);
            let delta = plan.finish(encoding).expect("something is held");
            let delta = Delta::parse(encoding, &delta, 1 << 16).expect("our own encoding");
            let is_copy =
                |instruction: &&Instruction| matches!(instruction, Instruction::Copy { .. });
            assert_eq!(delta.instructions().iter().filter(is_copy).count(), copies);
        }
    }

    #[test]
    fn only_what_is_alike_becomes_a_dictionary_and_not_too_many() {
        let names: Vec<Reference> = (0..10).map(|number| Reference([number; 16])).collect();
        let sources: Vec<Vec<u8>> = (0..10).map(|number| noise(200, 10 * number + 7)).collect();
        // Like the sources from the second on, but for a byte here and there.
        let mut target = sources[1..].concat();
        for at in (0..target.len()).step_by(13) {
            target[at] ^= 1;
        }
        let mut plan = Planner::new(&target);
        plan.search(
            names
                .iter()
                .zip(&sources)
                .map(|(name, source)| (*name, source.clone().into())),
        );
        plan.compress(0..target.len());
        let delta = plan.finish(Encoding::Two).expect("something is alike");
        let delta = Delta::parse(Encoding::Two, &delta, 1 << 16).expect("our own encoding");
        let [Instruction::Inflate { dictionaries, .. }] = delta.instructions() else {
            panic!("{:?}", delta.instructions())
        };
        assert_eq!(dictionaries.len(), MAX_INFLATED);
        assert!(!dictionaries.contains(&names[0].into()));
    }

    #[test]
    fn the_longest_literals_are_compressed_and_no_more_than_a_reader_takes() {
        let held = noise(11, 1);
        let words =
            b"0@0>0<http://crl3.digicert.com/DigiCertGlobalRootG2.crl0http://r1.c.lencr.org/ DigiCert Inc1";
        // Ten literals with a byte of what is held before each; the third and the sixth are short.
        let shorts = [2, 5];
        let mut target = Vec::new();
        let mut plan = Vec::new();
        for (index, byte) in held.iter().enumerate() {
            plan.push((index, target.len()..target.len() + 1));
            target.push(*byte);
            let length = if shorts.contains(&index) {
                64
            } else {
                70 + index
            };
            target.extend(words.iter().take(if index < 10 { length } else { 0 }));
        }
        for encoding in [Encoding::Two, Encoding::Three] {
            let mut planner = Planner::new(&target);
            for (offset, range) in &plan {
                planner.copy(NAMES[0], *offset, once(range.clone()));
            }
            planner.compress(0..target.len());
            let delta = planner.finish(encoding).expect("the words are known");
            assert_eq!(rebuilt(encoding, &delta, &[&held]), target);
            let delta = Delta::parse(encoding, &delta, 1 << 16).expect("our own encoding");
            let lengths: Vec<usize> = delta
                .instructions()
                .iter()
                .filter_map(|instruction| match instruction {
                    Instruction::Inflate { length, .. } => Some(*length),
                    Instruction::Add(_) | Instruction::Copy { .. } => None,
                })
                .collect();
            let longest = (0..10).filter(|index| !shorts.contains(index));
            assert!(lengths.into_iter().eq(longest.map(|index| 70 + index)));
        }
    }

    #[test]
    fn a_delta_of_more_instructions_than_a_reader_takes_is_not_written() {
        let most = MAX_INSTRUCTIONS / 2 - 1;
        for (copies, is_written) in [(most, true), (most + 1, false)] {
            let held = noise(copies, 1);
            // Each byte that is held has one beside it that is not.
            let target: Vec<u8> = [0]
                .into_iter()
                .chain(held.iter().flat_map(|it| [*it, !it]))
                .collect();
            for encoding in [Encoding::One, Encoding::Three] {
                let mut plan = Planner::new(&target);
                plan.copy(NAMES[0], 0, (0..copies).map(|at| 2 * at + 1..2 * at + 2));
                let delta = plan.finish(encoding);
                assert_eq!(delta.is_some(), is_written, "{copies}");
                if let Some(delta) = delta {
                    assert_eq!(rebuilt(encoding, &delta, &[&held]), target);
                }
            }
        }
    }

    #[test]
    fn compression_that_saves_less_than_it_costs_is_not_used() {
        let mut used = 0;
        for zeros in 0..60 {
            let target = [noise(100, 1), vec![0; zeros]].concat();
            let mut plan = Planner::new(&target);
            plan.compress(0..target.len());
            if let Some(delta) = plan.finish(Encoding::Two) {
                assert!(delta.len() < target.len(), "{zeros}");
                used += 1;
            }
        }
        assert!((1..60).contains(&used), "{used}");
    }

    #[test]
    fn what_is_not_held_is_compressed_against_what_is_alike() {
        let source: Arc<[u8]> = noise(3_000, 1).into();
        // Many short differences: cheap to compress, expensive to copy around.
        let mut target = source[..2_000].to_vec();
        for at in (0..2_000).step_by(20) {
            target[at] ^= 1;
        }
        let sizes = [Encoding::One, Encoding::Two].map(|encoding| {
            let mut plan = Planner::new(&target);
            plan.search([(NAMES[0], source.clone())]);
            plan.compress(0..1_900);
            let delta = plan.finish(encoding).expect("something is alike");
            assert_eq!(rebuilt(encoding, &delta, &[&source]), target);
            delta.len()
        });
        assert!(sizes[1] * 4 < sizes[0] * 3, "{sizes:?}");
    }

    #[test]
    fn a_literal_before_what_is_compressed_stays_before_it() {
        let words =
            b"0@0>0<http://crl3.digicert.com/DigiCertGlobalRootG2.crl0http://r1.c.lencr.org/";
        for length in [MIN_COMPRESSED - 1, MIN_COMPRESSED] {
            let target = [&noise(20, 1), &words[..length]].concat();
            for encoding in [Encoding::Two, Encoding::Three] {
                let mut plan = Planner::new(&target);
                plan.compress(20..target.len());
                let delta = plan.finish(encoding);
                assert_eq!(delta.is_some(), length == MIN_COMPRESSED, "{length}");
                if let Some(delta) = delta {
                    assert_eq!(rebuilt(encoding, &delta, &[]), target);
                }
            }
        }
    }

    #[test]
    fn a_copy_of_nothing_is_not_written() {
        for encoding in [Encoding::One, Encoding::Two, Encoding::Three] {
            let mut with = DeltaWriter::new(encoding);
            with.copy(Name::Digest(NAMES[0]), 5, 0);
            assert_eq!(with.finish(), DeltaWriter::new(encoding).finish());
        }
    }

    #[test]
    fn words_of_the_web_need_no_source() {
        let target = b"0@0>0<http://crl3.digicert.com/DigiCertGlobalRootG2.crl0http://r1.c.lencr.org/ DigiCert Inc1".repeat(2);
        let mut plan = Planner::new(&target);
        plan.compress(0..target.len());
        assert_eq!(plan.finish(Encoding::One), None);
        let mut plan = Planner::new(&target);
        plan.compress(0..target.len());
        let delta = plan
            .finish(Encoding::Two)
            .expect("the encoding has such words");
        assert!(delta.len() < 80, "{}", delta.len());
        assert_eq!(rebuilt(Encoding::Two, &delta, &[]), target);
    }

    proptest! {
        #[test]
        fn any_plan_rebuilds_its_target(
            from in 0usize..20,
            cuts in proptest::collection::vec(0usize..20, 1..20),
            held in proptest::collection::vec(any::<bool>(), 20),
            encoding in proptest::sample::select(vec![
                Encoding::One,
                Encoding::Two,
                Encoding::Three,
            ]),
            is_followed in any::<bool>(),
        ) {
            let object = noise(cuts.iter().sum(), 1);
            let mut target = noise(from, 2);
            let mut plan: Vec<(usize, Range<usize>)> = Vec::new();
            let mut offset = 0;
            for (length, held) in cuts.iter().zip(held) {
                let start = target.len();
                if held {
                    target.extend_from_slice(&object[offset..offset + length]);
                    plan.push((offset, start..start + length));
                } else {
                    target.extend(noise(*length, 3));
                }
                offset += length;
            }
            let mut planner = Planner::starting_at(&target, from);
            for (offset, range) in plan {
                planner.copy(NAMES[0], offset, once(range));
            }
            match is_followed {
                true => planner.follow(NAMES[1], object.clone().into()),
                false => planner.search([(NAMES[1], object.clone().into())]),
            }
            planner.compress(from..target.len());
            if let Some(delta) = planner.finish(encoding) {
                let held: [&[u8]; 2] = [&object, &object];
                prop_assert_eq!(rebuilt(encoding, &delta, &held), &target[from..]);
            }
        }
    }
}
