//! Points in time as plain numbers, so that cores take the time as an argument and simulations
//! choose it.
//!
//! It is not a clock: nothing here reads one. [`Instant`] orders events of one run; [`UnixTime`] is
//! compared with dates in certificates. The two never mix.

use std::fmt;
use std::ops::{Add, AddAssign};
use std::time::Duration;

/// A point in time: microseconds since an arbitrary start that all instants of one run share.
///
/// 64 bits last for 584,000 years; additions saturate at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The arbitrary start.
    pub const ZERO: Self = Self(0);

    /// The instant `micros` microseconds after the start.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the start.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Time passed since `earlier`; zero where `earlier` is in fact later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Rounds the duration down to whole microseconds; saturates.
    fn add(self, duration: Duration) -> Self {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(micros))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06} s", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// Wall-clock time in whole seconds since 1970-01-01 00:00 UTC, leap seconds not counted (POSIX).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixTime(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_saturates_and_addition_saturates() {
        let a = Instant::from_micros(5);
        let b = a + Duration::from_millis(1);
        assert_eq!(b.as_micros(), 1_005);
        assert_eq!(b.saturating_since(a), Duration::from_millis(1));
        assert_eq!(a.saturating_since(b), Duration::ZERO);
        assert_eq!((b + Duration::MAX).as_micros(), u64::MAX);
        let mut c = Instant::ZERO;
        c += Duration::from_nanos(1_999);
        assert_eq!(c, Instant::from_micros(1));
        assert_eq!(Instant::from_micros(2_000_003).to_string(), "2.000003 s");
    }
}
