//! Wall-clock time as the kernel stamps captured packets: nanoseconds since 1970. One scale for
//! captures and the emulator's log.
//!
//! Is not the proxies' `Instant`, which counts from nowhere in particular: whoever captures says
//! what time it was. Moments of one run are only compared with each other.

use std::time::Duration;

/// A point in time, nanoseconds since 1970-01-01 00:00 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(u64);

impl Moment {
    /// That long after 1970 began.
    pub fn from_duration(since: Duration) -> Self {
        Self(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Time since 1970 began.
    pub fn since_epoch(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// Seconds since an earlier moment; negative where it is later.
    pub fn seconds_since(self, earlier: Moment) -> f64 {
        if self >= earlier {
            Duration::from_nanos(self.0 - earlier.0).as_secs_f64()
        } else {
            -Duration::from_nanos(earlier.0 - self.0).as_secs_f64()
        }
    }
}

impl std::ops::Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_have_a_sign() {
        let early = Moment::from_duration(Duration::from_secs(1));
        let late = early + Duration::from_millis(250);
        assert!((late.seconds_since(early) - 0.25).abs() < 1e-9);
        assert!((early.seconds_since(late) + 0.25).abs() < 1e-9);
    }
}
