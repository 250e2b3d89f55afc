//! Wall-clock time as the kernel stamps captured packets: nanoseconds since 1970. One scale for
//! captures and the emulator's log.
//!
//! Is not a core's `Instant`: it is for adapters that read clocks, and two moments of one run are
//! only compared with each other.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A point in time, nanoseconds since 1970-01-01 00:00 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(u64);

impl Moment {
    /// Now.
    pub fn now() -> Self {
        Self::from_duration(
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
        )
    }

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

/// A moment as people write it, in UTC: `2026-03-01 14:05`.
pub(crate) fn date(moment: Moment) -> String {
    let seconds = moment.since_epoch().as_secs();
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    format!(
        "{year}-{month:02}-{day:02} {:02}:{:02}",
        rest / 3600,
        rest % 3600 / 60
    )
}

/// Year, month and day of the Gregorian calendar, `days` after 1970-01-01.
fn civil(days: u64) -> (u64, u64, u64) {
    let mut year = 1970;
    let mut left = days;
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if left < length {
            break;
        }
        left -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    (year, month, left + 1)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds| date(Moment::from_duration(Duration::from_secs(seconds)));
        assert_eq!(at(0), "1970-01-01 00:00");
        assert_eq!(at(951_782_400), "2000-02-29 00:00");
        assert_eq!(at(1_767_225_599), "2025-12-31 23:59");
        assert_eq!(at(1_772_376_300), "2026-03-01 14:45");
    }

    #[test]
    fn differences_have_a_sign() {
        let early = Moment::from_duration(Duration::from_secs(1));
        let late = early + Duration::from_millis(250);
        assert!((late.seconds_since(early) - 0.25).abs() < 1e-9);
        assert!((early.seconds_since(late) + 0.25).abs() < 1e-9);
    }
}
