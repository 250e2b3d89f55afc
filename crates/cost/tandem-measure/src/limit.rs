//! Whether the figures are the server's, or the generator's own: its threads were busy, or waited
//! for a processor, nearly all the time; or connections started later than they were to.

use std::time::Duration;

use serde::Serialize;

/// The share of its time from which a thread is at its limit: queueing in front of it then
/// lengthens every time that it takes.
const BUSY: f64 = 0.9;
/// Starts that are later than this make a difference, if they are also a tenth of the latency.
const LATE: Duration = Duration::from_millis(1);
/// The part of the latency that late starts may be.
const LATE_PART: f64 = 0.1;

/// What one thread of the generator had of the processors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effort {
    /// It ran.
    pub busy: Duration,
    /// It could have run, and had no processor.
    pub waited: Duration,
}

/// How much of the generator's time was left, 0 to 1, at its busiest thread.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Spare(pub f64);

/// Whose limit the figures show.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is", content = "figure")]
pub enum Limit {
    /// Not the generator's.
    NotTheGenerator(Spare),
    /// The generator's: this share of its time was left.
    GeneratorBusy(Spare),
    /// The generator's: 1 % of the starts were later than this, microseconds.
    GeneratorLate(u64),
}

impl Limit {
    /// From what each thread had in a time of this length, and the 99th percentiles of how late
    /// connections started and how long requests took, microseconds.
    #[must_use]
    pub fn judge(efforts: &[Effort], window: Duration, late: u64, latency: u64) -> Self {
        let window = window.as_secs_f64();
        let used = |effort: &Effort| (effort.busy + effort.waited).as_secs_f64() / window;
        let busiest = efforts.iter().map(used).fold(0.0, f64::max);
        let spare = Spare((1.0 - busiest).max(0.0));
        if busiest >= BUSY {
            return Self::GeneratorBusy(spare);
        }
        let is_late = u128::from(late) > LATE.as_micros();
        if is_late && late as f64 > LATE_PART * latency as f64 {
            return Self::GeneratorLate(late);
        }
        Self::NotTheGenerator(spare)
    }

    /// A line for the result.
    #[must_use]
    pub fn says(self) -> String {
        match self {
            Self::NotTheGenerator(Spare(spare)) => format!(
                "The generator was not the limit: {:.0} % of its busiest thread's time was left.",
                spare * 100.0
            ),
            Self::GeneratorBusy(Spare(spare)) => format!(
                "THE GENERATOR WAS THE LIMIT, not the server: only {:.0} % of its busiest \
                 thread's time was left. Use a lower rate or fewer connections, or run it on \
                 another machine, or on more.",
                spare * 100.0
            ),
            Self::GeneratorLate(late) => format!(
                "THE GENERATOR WAS TOO SLOW: 1 % of the connections started {:.1} ms late or \
                 more, which is in their latency. Use a lower rate, or a machine with less \
                 other work.",
                late as f64 / 1e3
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(10);

    fn effort(busy: u64, waited: u64) -> Effort {
        Effort {
            busy: Duration::from_secs(busy),
            waited: Duration::from_secs(waited),
        }
    }

    #[test]
    fn one_busy_thread_is_the_limit() {
        let limit = Limit::judge(&[effort(1, 0), effort(9, 0)], WINDOW, 10, 1_000);
        assert!(matches!(limit, Limit::GeneratorBusy(_)), "{limit:?}");
        assert!(limit.says().contains("THE GENERATOR WAS THE LIMIT"));
    }

    #[test]
    fn to_wait_for_a_processor_counts_as_busy() {
        let limit = Limit::judge(&[effort(5, 4)], WINDOW, 10, 1_000);
        assert!(matches!(limit, Limit::GeneratorBusy(_)), "{limit:?}");
    }

    #[test]
    fn late_starts_count_where_they_matter() {
        let limit = |late, latency| Limit::judge(&[effort(1, 0)], WINDOW, late, latency);
        assert_eq!(limit(2_000, 3_000), Limit::GeneratorLate(2_000));
        assert!(matches!(limit(900, 950), Limit::NotTheGenerator(_)));
        assert!(matches!(limit(2_000, 900_000), Limit::NotTheGenerator(_)));
    }

    #[test]
    fn what_was_left_is_told() {
        let limit = Limit::judge(&[effort(2, 1), effort(1, 0)], WINDOW, 10, 1_000);
        assert!(limit.says().contains("70 %"), "{}", limit.says());
    }
}
