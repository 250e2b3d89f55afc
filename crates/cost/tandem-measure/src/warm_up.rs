//! When a server has reached its steady state: the figures of two halves of the last second agree,
//! as far as their number lets them; of a longer time, where a second brings too few.
//!
//! Cold caches, processes that are yet to be started and the first full handshakes, which no
//! earlier session could spare, belong to no result.

use std::time::Duration;

/// Slots that are compared at least: the first half with the second.
const MIN_SLOTS: usize = 4;
/// What each half needs so that its figures say something.
const MIN_DONE: u64 = 5;
/// How far two halves may differ whatever their number.
const TOLERANCE: f64 = 0.1;
/// How many standard errors they may differ.
const ERRORS: f64 = 3.0;

/// What a slot of time brought.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Slot {
    /// Connections or requests that were done.
    pub done: u64,
    /// Their times, seconds, added up.
    pub sum: f64,
    /// The squares of their times, added up.
    pub squares: f64,
}

impl Slot {
    fn and(self, other: Self) -> Self {
        Self {
            done: self.done + other.done,
            sum: self.sum + other.sum,
            squares: self.squares + other.squares,
        }
    }

    fn mean(self) -> f64 {
        self.sum / self.done as f64
    }

    /// The mean's variance.
    fn variance(self) -> f64 {
        let mean = self.mean();
        (self.squares / self.done as f64 - mean * mean).max(0.0) / self.done as f64
    }
}

/// The slots so far.
#[derive(Debug, Clone, Default)]
pub struct WarmUp {
    slots: Vec<Slot>,
}

impl WarmUp {
    /// How long a slot is.
    pub const SLOT: Duration = Duration::from_millis(250);

    /// Whether the state is steady after this slot, too.
    pub fn is_steady_after(&mut self, slot: Slot) -> bool {
        self.slots.push(slot);
        let mut compared = MIN_SLOTS;
        while let Some(start) = self.slots.len().checked_sub(compared) {
            let (before, after) = self.slots[start..].split_at(compared / 2);
            let (before, after) = (whole(before), whole(after));
            if before.done.min(after.done) >= MIN_DONE {
                return agree(before, after);
            }
            compared *= 2;
        }
        false
    }
}

fn whole(slots: &[Slot]) -> Slot {
    slots.iter().copied().fold(Slot::default(), Slot::and)
}

fn agree(before: Slot, after: Slot) -> bool {
    let (a, b) = (before.done as f64, after.done as f64);
    // Counts of independent events vary as their root.
    let rate_agrees = (a - b).abs() <= (TOLERANCE * a).max(ERRORS * (a + b).sqrt());
    let apart = (before.mean() - after.mean()).abs();
    let error = (before.variance() + after.variance()).sqrt();
    let time_agrees = apart <= (TOLERANCE * before.mean()).max(ERRORS * error);
    rate_agrees && time_agrees
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `done` connections of this many milliseconds, give or take a tenth.
    fn slot(done: u64, milliseconds: f64) -> Slot {
        let time = milliseconds / 1e3;
        Slot {
            done,
            sum: time * done as f64,
            squares: time * time * done as f64 * 1.01,
        }
    }

    fn slots_until_steady(slots: impl IntoIterator<Item = Slot>) -> Option<usize> {
        let mut warm_up = WarmUp::default();
        let mut slots = slots.into_iter().enumerate();
        slots.find_map(|(at, slot)| warm_up.is_steady_after(slot).then_some(at + 1))
    }

    #[test]
    fn what_does_not_change_is_steady_after_a_second() {
        assert_eq!(slots_until_steady([slot(500, 2.0); 10]), Some(4));
    }

    #[test]
    fn a_rate_that_grows_is_not_steady() {
        let growing = (0..8).map(|step| slot(100 << step, 2.0));
        assert_eq!(slots_until_steady(growing), None);
        let then_still = (0..12).map(|step| slot(100 << step.min(6), 2.0));
        assert_eq!(slots_until_steady(then_still), Some(10));
    }

    #[test]
    fn times_that_shrink_are_not_steady() {
        let shrinking = (0..8).map(|step| slot(500, f64::from(100 - 12 * step)));
        assert_eq!(slots_until_steady(shrinking), None);
    }

    #[test]
    fn few_may_vary_and_take_longer() {
        let few = [3, 1, 0, 4, 2, 2, 3, 1].map(|done| slot(done, 30.0));
        assert_eq!(slots_until_steady(few), Some(7));
    }

    #[test]
    fn nothing_is_never_steady() {
        assert_eq!(slots_until_steady([Slot::default(); 50]), None);
    }
}
