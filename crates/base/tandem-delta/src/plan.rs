//! The copies of one delta: which ranges of the target come from where.
//!
//! Is: one planner for every kind of flight. It is told what the reader holds and where that lies
//! in the target, searches the rest for what is alike, and writes the delta. Is not: the knowledge
//! of what the reader holds.
//!
//! ```text
//!   target   | rest | held | rest | held | rest |
//!   delta      Add    Copy   Add    Copy   Add       what is alike in a rest becomes a Copy, too
//! ```
//!
//! Invariant: the delta rebuilds the target if each name means the bytes that the caller said.

use std::iter::once;
use std::ops::Range;
use std::sync::Arc;

use crate::delta::{DeltaWriter, Reference};
use crate::likeness::{Likeness, Run};

/// What a run costs in a delta, beside a literal that goes on: head, index and offset, and the head
/// of the literal after it.
const RUN_COST: usize = 7;

/// The plan of a delta.
#[derive(Debug)]
pub struct Planner<'t> {
    stream: &'t [u8],
    /// Where the target begins in the stream.
    from: usize,
    /// In the stream's order, without overlap.
    copies: Vec<Copied>,
}

/// A range of the stream that the reader copies from what it holds.
#[derive(Debug)]
struct Copied {
    range: Range<usize>,
    name: Reference,
    offset: usize,
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
            copies: Vec::new(),
        }
    }

    /// The reader holds these pieces of the stream one behind the other, from `offset` of what
    /// `name` means. A piece that lies outside the target or overlaps another stays a literal.
    pub fn copy(
        &mut self,
        name: Reference,
        mut offset: usize,
        pieces: impl IntoIterator<Item = Range<usize>>,
    ) {
        for range in pieces {
            let copied = Copied {
                range: range.clone(),
                name,
                offset,
            };
            offset += range.len();
            let at = self
                .copies
                .partition_point(|other| other.range.start < range.start);
            let before = at.checked_sub(1).and_then(|before| self.copies.get(before));
            let is_free = range.start >= before.map_or(self.from, |before| before.range.end)
                && range.end <= self.copies.get(at).map_or(self.stream.len(), start_of)
                && !range.is_empty();
            if is_free {
                self.copies.insert(at, copied);
            }
        }
    }

    /// Copies what is alike in the rest of the target: the reader holds these sources, too. A
    /// source is used where it saves more than its name costs.
    pub fn copy_alike(&mut self, sources: &[(Reference, Arc<[u8]>)]) {
        let bytes: Vec<&[u8]> = sources.iter().map(|(_, source)| &**source).collect();
        let likeness = Likeness::to(&bytes);
        let runs: Vec<Run> = self
            .rests()
            .flat_map(|rest| {
                let start = rest.start;
                let runs = likeness.runs(&self.stream[rest]);
                runs.into_iter().map(move |run| Run {
                    at: run.at + start,
                    ..run
                })
            })
            .collect();
        let is_worth = |index: usize, name: Reference| {
            let is_named = self.copies.iter().any(|copied| copied.name == name);
            let cost = if is_named { 0 } else { Reference::LEN };
            let own = runs.iter().filter(|run| run.source == index);
            own.map(|run| run.length - RUN_COST).sum::<usize>() > cost
        };
        let worth: Vec<Option<Reference>> = sources
            .iter()
            .enumerate()
            .map(|(index, (name, _))| is_worth(index, *name).then_some(*name))
            .collect();
        for run in runs {
            if let Some(name) = worth[run.source] {
                self.copy(name, run.offset, once(run.at..run.at + run.length));
            }
        }
    }

    /// The delta; `None` where it would copy nothing.
    pub fn finish(self) -> Option<Vec<u8>> {
        if self.copies.is_empty() {
            return None;
        }
        let mut delta = DeltaWriter::new();
        let mut at = self.from;
        for copied in &self.copies {
            delta.add(&self.stream[at..copied.range.start]);
            delta.copy(copied.name, copied.offset, copied.range.len());
            at = copied.range.end;
        }
        delta.add(&self.stream[at..]);
        Some(delta.finish())
    }

    /// What lies before, between and behind the copies.
    fn rests(&self) -> impl Iterator<Item = Range<usize>> {
        let starts = once(self.from).chain(self.copies.iter().map(|copied| copied.range.end));
        let ends = self.copies.iter().map(start_of);
        starts
            .zip(ends.chain(once(self.stream.len())))
            .map(|(start, end)| start..end)
    }
}

fn start_of(copied: &Copied) -> usize {
    copied.range.start
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delta::{Delta, Source};
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

    fn rebuilt(delta: &[u8], held: &[&[u8]]) -> Vec<u8> {
        let mut held = Held(held.iter().map(|object| Arc::from(*object)).collect());
        let delta = Delta::parse(delta, 1 << 16).expect("our own encoding");
        delta.apply(&mut held).expect("held")
    }

    #[test]
    fn pieces_come_in_any_order_and_the_rest_is_literal() {
        let held = noise(100, 1);
        let target = [&b"front"[..], &held[50..], b"middle", &held[..50], b"end"].concat();
        let mut plan = Planner::new(&target);
        plan.copy(NAMES[0], 0, once(61..111));
        plan.copy(NAMES[0], 50, [5..25, 25..55]);
        let delta = plan.finish().expect("something is held");
        assert!(delta.len() < 60);
        assert_eq!(rebuilt(&delta, &[&held]), target);
    }

    #[test]
    fn what_overlaps_or_lies_outside_the_target_stays_literal() {
        let target = noise(100, 1);
        let mut plan = Planner::starting_at(&target, 10);
        plan.copy(NAMES[0], 20, once(20..40));
        for outside in [0..5, 5..15, 15..25, 30..50, 20..40, 90..101, 50..50] {
            plan.copy(NAMES[1], 0, once(outside));
        }
        let delta = plan.finish().expect("something is held");
        assert_eq!(rebuilt(&delta, &[&target]), target[10..]);
    }

    #[test]
    fn a_source_is_named_only_where_it_is_worth_its_name() {
        let source: Arc<[u8]> = noise(200, 1).into();
        for (alike, is_worth) in [(23, false), (24, true)] {
            let target = [&noise(50, 2)[..], &source[100..100 + alike], &noise(50, 3)].concat();
            let mut plan = Planner::new(&target);
            plan.copy_alike(&[(NAMES[0], source.clone())]);
            let delta = plan.finish();
            assert_eq!(delta.is_some(), is_worth, "{alike}");
            if let Some(delta) = delta {
                assert_eq!(rebuilt(&delta, &[&source]), target);
            }
        }
    }

    proptest! {
        #[test]
        fn any_plan_rebuilds_its_target(
            from in 0usize..20,
            cuts in proptest::collection::vec(0usize..20, 1..20),
            held in proptest::collection::vec(any::<bool>(), 20),
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
            planner.copy_alike(&[(NAMES[1], object.clone().into())]);
            if let Some(delta) = planner.finish() {
                prop_assert_eq!(rebuilt(&delta, &[&object, &object]), &target[from..]);
            }
        }
    }
}
