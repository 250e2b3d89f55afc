//! Simulated time: whole microseconds since a simulation began.

use std::ops::Add;
use std::time::Duration;

/// A moment, or how long something lasts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(u64);

impl Time {
    /// The beginning.
    pub const ZERO: Self = Self(0);

    /// So many microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// So many seconds; none where they are negative, no number, or more than half a million years.
    pub fn from_seconds(seconds: f64) -> Self {
        let span = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        Self(u64::try_from(span.as_micros()).unwrap_or_default())
    }

    /// In microseconds.
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// In seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// How long ago `earlier` is; nothing if it is yet to come.
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Time {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_microseconds_as_far_as_they_are_any() {
        assert_eq!(Time::from_seconds(0.13 - 0.1), Time::from_micros(30_000));
        assert_eq!(Time::from_seconds(1e9).seconds(), 1e9);
        for none in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(Time::from_seconds(none), Time::ZERO);
        }
    }
}
