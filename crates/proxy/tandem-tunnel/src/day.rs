//! Days of UTC, counted by a clock that may be wrong.
//!
//! Is not: a clock, nor what is counted by day.
//!
//! Invariants: a clock that goes back begins no new day, so that a machine that starts without the
//! time keeps its counts until the time is set. A day that was dated too late, by a clock that was
//! ahead, ends when the clock next comes to another day.

use tandem_wire::UnixTime;

const SECONDS_A_DAY: u64 = 24 * 3600;

/// The day that is counted. Days have numbers, since 1970.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Day {
    /// Its number.
    pub(crate) current: u64,
    /// Where the clock was last seen.
    pub(crate) seen: u64,
}

impl Day {
    /// Looks at the clock: the number of the day that has ended, if another begins.
    pub(crate) fn turn(&mut self, now: UnixTime) -> Option<u64> {
        let today = now.0 / SECONDS_A_DAY;
        let before = std::mem::replace(&mut self.seen, today);
        let is_ahead = today > self.current;
        // The clock goes on from day to day, and is behind all the same.
        let was_wrong = today < self.current && today > before;
        (is_ahead || was_wrong).then(|| std::mem::replace(&mut self.current, today))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At which of these days, one after the other, a new one begins.
    fn turns(days: &[u64]) -> Vec<bool> {
        let mut day = Day::default();
        let turn = |today: &u64| day.turn(UnixTime(today * SECONDS_A_DAY + 7)).is_some();
        days.iter().map(turn).collect()
    }

    #[test]
    fn each_day_begins_once() {
        assert_eq!(turns(&[9, 9, 10, 12]), [true, false, true, true]);
        let mut day = Day::default();
        let last = UnixTime(10 * SECONDS_A_DAY - 1);
        assert_eq!(day.turn(last), Some(0));
        assert_eq!(day.turn(UnixTime(last.0 + 1)), Some(9));
        assert_eq!(day.turn(UnixTime(u64::MAX)), Some(10));
    }

    #[test]
    fn a_clock_that_goes_back_begins_no_day() {
        // Put right around midnight.
        assert_eq!(turns(&[9, 10, 9, 10]), [true, true, false, false]);
        // Started at 1970, and set later.
        assert_eq!(turns(&[9, 0, 9, 10]), [true, false, false, true]);
    }

    #[test]
    fn a_day_that_was_dated_too_late_ends_with_the_next() {
        assert_eq!(turns(&[50_000, 9, 9, 10]), [true, false, false, true]);
    }
}
