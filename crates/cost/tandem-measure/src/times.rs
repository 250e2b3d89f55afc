//! A distribution of times: an HDR histogram of microseconds, three significant digits, 1 µs to an
//! hour, beside the exact sum.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// The longest time that is told from longer ones.
const MAX: Duration = Duration::from_secs(3_600);
/// Significant decimal digits.
const DIGITS: u8 = 3;

/// A distribution under way.
#[derive(Debug, Clone)]
pub struct Times {
    histogram: Histogram<u64>,
    sum: Duration,
}

/// What is told of a distribution, microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// How many.
    pub count: u64,
    /// The exact mean.
    pub mean: f64,
    /// Half are at most this.
    pub p50: u64,
    /// 90 %.
    pub p90: u64,
    /// 99 %.
    pub p99: u64,
    /// 99.9 %.
    pub p99_9: u64,
    /// The longest.
    pub max: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self::new()
    }
}

impl Times {
    /// An empty one.
    ///
    /// # Panics
    /// Never: the bounds are constants that the histogram takes.
    #[must_use]
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, micros(MAX), DIGITS)
            .expect("constant bounds in order, and three digits");
        Self {
            histogram,
            sum: Duration::ZERO,
        }
    }

    /// Adds one. Beyond an hour it counts as an hour.
    pub fn record(&mut self, time: Duration) {
        self.histogram.saturating_record(micros(time).max(1));
        self.sum = self.sum.saturating_add(time);
    }

    /// Adds all of another.
    ///
    /// # Panics
    /// Never: both have the same bounds.
    pub fn add(&mut self, other: &Self) {
        self.histogram
            .add(&other.histogram)
            .expect("equal bounds hold each other's values");
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// How many were at least this long, within the histogram's precision.
    #[must_use]
    pub fn count_from(&self, time: Duration) -> u64 {
        self.histogram.count_between(micros(time), micros(MAX))
    }

    /// The exact mean, microseconds; 0 of none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            count => self.sum.as_secs_f64() * 1e6 / count as f64,
        }
    }

    /// Its figures; all 0 of none.
    #[must_use]
    pub fn percentiles(&self) -> Percentiles {
        let at = |quantile| match self.count() {
            0 => 0,
            _ => self.histogram.value_at_quantile(quantile),
        };
        Percentiles {
            count: self.count(),
            mean: self.mean(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: at(1.0),
        }
    }

    /// Points of its cumulative curve: share of all, and the time (microseconds) that it is within.
    #[must_use]
    pub fn curve(&self) -> Vec<(f64, u64)> {
        let all = self.count() as f64;
        let mut below = 0;
        self.histogram
            .iter_recorded()
            .map(|step| {
                below += step.count_since_last_iteration();
                (below as f64 / all, step.value_iterated_to())
            })
            .collect()
    }
}

/// Whole microseconds; the largest number where there are more.
fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_those_of_the_times() {
        let mut times = Times::new();
        for milliseconds in 1..=1_000 {
            times.record(Duration::from_millis(milliseconds));
        }
        let figures = times.percentiles();
        assert_eq!(figures.count, 1_000);
        assert!((figures.mean - 500_500.0).abs() < 0.1, "{}", figures.mean);
        for (found, exact) in [
            (figures.p50, 500_000),
            (figures.p90, 900_000),
            (figures.p99, 990_000),
            (figures.p99_9, 999_000),
            (figures.max, 1_000_000),
        ] {
            assert!(found.abs_diff(exact) <= exact / 1_000, "{found}, {exact}");
        }
        assert_eq!(times.count_from(Duration::from_millis(1_000)), 1);
        let curve = times.curve();
        assert_eq!(curve.len(), 1_000);
        assert!(curve.last().expect("points").0 > 0.999);
    }

    #[test]
    fn none_is_no_time() {
        assert_eq!(Times::new().percentiles(), Percentiles::default());
    }

    #[test]
    fn too_long_and_too_short_count_at_the_ends() {
        let mut times = Times::new();
        times.record(Duration::ZERO);
        times.record(Duration::from_secs(9_999));
        let figures = times.percentiles();
        assert_eq!((figures.count, figures.p50), (2, 1));
        assert!(figures.max >= 3_600_000_000, "{}", figures.max);
    }

    #[test]
    fn two_halves_add_up_to_the_whole() {
        let (mut one, mut other, mut whole) = (Times::new(), Times::new(), Times::new());
        for time in (1..500).map(|number| Duration::from_micros(number * number)) {
            if time.as_micros() % 2 == 0 {
                one.record(time);
            } else {
                other.record(time);
            }
            whole.record(time);
        }
        one.add(&other);
        assert_eq!(one.percentiles(), whole.percentiles());
    }
}
