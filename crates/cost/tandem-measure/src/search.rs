//! The highest rate at which a server keeps its latency: doubled until it does not, then the
//! interval halved until its ends are a twentieth apart.
//!
//! Invariants: a rate is exceeded only by a run that says so clearly, or by two runs. The number of
//! runs is bounded. Where the generator is the limit, that is the answer, and not the server's.

use std::time::Duration;

use crate::found::{FoundRate, LimitedBy, Trial, Verdict};
use crate::limit::Limit;
use crate::outcome::Outcome;

/// The lowest rate that is tried, connections a second.
const MIN: f64 = 1.0;
/// The highest.
const MAX: f64 = 1e6;
/// The search ends when the lowest rate that was too high is no more than this above the highest
/// that held.
const PRECISION: f64 = 0.05;
/// Above so many times the bound a run is clear, and is not repeated.
const CLEAR: u64 = 3;
/// One request in so many may fail.
const FAILURES: u64 = 100;

/// A search under way: [`RateSearch::next_rate`], a run at it, [`RateSearch::tried`], and so on.
#[derive(Debug, Clone)]
pub struct RateSearch {
    bound: Duration,
    next: Option<f64>,
    held: Option<Trial>,
    exceeded: Option<Trial>,
    /// The rate of a run that was a little too slow, and is repeated.
    doubtful: Option<f64>,
    all: Vec<Trial>,
}

impl RateSearch {
    /// Before the first run, which is at `start`.
    #[must_use]
    pub fn new(start: f64, bound: Duration) -> Self {
        Self {
            bound,
            next: Some(start.clamp(MIN, MAX)),
            held: None,
            exceeded: None,
            doubtful: None,
            all: Vec::new(),
        }
    }

    /// The rate of the next run; none when the search is over.
    #[must_use]
    pub fn next_rate(&self) -> Option<f64> {
        self.next
    }

    /// Takes a run at that rate. Whether it is the best so far.
    pub fn tried(&mut self, outcome: &Outcome) -> bool {
        let Some(rate) = self.next else {
            return false;
        };
        let trial = Trial {
            rate,
            requests_per_second: outcome.request_rate(),
            p50: outcome.latency.p50,
            p99: outcome.latency.p99,
            failed: outcome.counts.failures(),
            verdict: judged(outcome, self.bound),
        };
        self.take(trial)
    }

    fn take(&mut self, trial: Trial) -> bool {
        self.all.push(trial);
        if trial.verdict == Verdict::Held {
            self.held = Some(trial);
        } else if self.is_clear(&trial) || self.doubtful == Some(trial.rate) {
            self.exceeded = Some(trial);
        } else {
            self.doubtful = Some(trial.rate);
            return false;
        }
        self.next = self.following();
        trial.verdict == Verdict::Held
    }

    fn is_clear(&self, trial: &Trial) -> bool {
        let bound = u64::try_from(self.bound.as_micros()).unwrap_or(u64::MAX);
        trial.verdict == Verdict::Failing || trial.p99 > bound.saturating_mul(CLEAR)
    }

    fn following(&self) -> Option<f64> {
        let held = self.held.map(|trial| trial.rate);
        let exceeded = self.exceeded.map(|trial| trial.rate);
        match (held, exceeded) {
            (Some(held), Some(exceeded)) if exceeded <= held * (1.0 + PRECISION) => None,
            (Some(held), Some(exceeded)) => Some(f64::midpoint(held, exceeded)),
            (Some(held), None) if held >= MAX => None,
            (Some(held), None) => Some((held * 2.0).min(MAX)),
            (None, Some(exceeded)) if exceeded <= MIN => None,
            (None, Some(exceeded)) => Some((exceeded / 2.0).max(MIN)),
            (None, None) => self.next,
        }
    }

    /// What was found so far.
    #[must_use]
    pub fn found(self) -> FoundRate {
        FoundRate {
            rate: self.held.map(|trial| trial.rate),
            requests_per_second: self.held.map(|trial| trial.requests_per_second),
            p99_bound: u64::try_from(self.bound.as_micros()).unwrap_or(u64::MAX),
            limited_by: match self.exceeded.map(|trial| trial.verdict) {
                None | Some(Verdict::Held) => LimitedBy::Nothing,
                Some(Verdict::TooSlow) => LimitedBy::Latency,
                Some(Verdict::Failing) => LimitedBy::Failures,
                Some(Verdict::Generator) => LimitedBy::Generator,
            },
            tried: self.all,
        }
    }
}

/// Of a run in an open loop.
fn judged(outcome: &Outcome, bound: Duration) -> Verdict {
    let counts = &outcome.counts;
    let failures = counts.failures();
    let bound = u64::try_from(bound.as_micros()).unwrap_or(u64::MAX);
    if counts.requests > 0 && outcome.latency.p99 > bound {
        return match outcome.generator.limit {
            Limit::NotTheGenerator(_) => Verdict::TooSlow,
            Limit::GeneratorBusy(_) | Limit::GeneratorLate(_) => Verdict::Generator,
        };
    }
    if counts.requests == 0 || failures * FAILURES > counts.requests + failures {
        return Verdict::Failing;
    }
    Verdict::Held
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;
    use crate::limit::Spare;
    use crate::outcome::tests::outcome;

    const BOUND: Duration = Duration::from_millis(100);

    /// A server that is fast up to `capacity` and far too slow above it.
    fn found(capacity: f64, start: f64) -> FoundRate {
        let mut search = RateSearch::new(start, BOUND);
        for _ in 0..100 {
            let Some(rate) = search.next_rate() else {
                return search.found();
            };
            let (p99, verdict) = match rate <= capacity {
                true => (20_000, Verdict::Held),
                false => (900_000, Verdict::TooSlow),
            };
            search.take(trial(rate, p99, verdict));
        }
        panic!("the search has no end: {search:?}");
    }

    fn trial(rate: f64, p99: u64, verdict: Verdict) -> Trial {
        Trial {
            rate,
            requests_per_second: rate,
            p50: 1_000,
            p99,
            failed: 0,
            verdict,
        }
    }

    #[test]
    fn the_capacity_is_found_from_below_and_from_above() {
        for (capacity, start) in [(700.0, 50.0), (700.0, 20_000.0), (3.0, 50.0), (50.0, 50.0)] {
            let found = found(capacity, start);
            let rate = found.rate.expect("a rate that held");
            assert!(rate <= capacity && rate >= capacity / 1.06, "{found:?}");
            assert_eq!(found.limited_by, LimitedBy::Latency);
            assert!(found.tried.len() <= 20, "{}", found.tried.len());
        }
    }

    #[test]
    fn the_ends_of_what_is_tried_end_the_search() {
        let none = found(0.1, 50.0);
        assert_eq!(none.rate, None);
        assert!(none.says().contains("NO RATE HELD"), "{}", none.says());
        let all = found(1e9, 50.0);
        assert_eq!(all.rate, Some(1e6));
        assert_eq!(all.limited_by, LimitedBy::Nothing);
    }

    #[test]
    fn a_run_that_may_be_chance_is_repeated() {
        let mut search = RateSearch::new(100.0, BOUND);
        search.take(trial(100.0, 150_000, Verdict::TooSlow));
        assert_eq!(search.next_rate(), Some(100.0));
        assert!(search.take(trial(100.0, 50_000, Verdict::Held)));
        assert_eq!(search.next_rate(), Some(200.0));
        search.take(trial(200.0, 150_000, Verdict::TooSlow));
        search.take(trial(200.0, 150_000, Verdict::TooSlow));
        assert_eq!(search.next_rate(), Some(150.0));
    }

    #[test]
    fn the_generator_s_limit_is_not_the_server_s() {
        let mut search = RateSearch::new(100.0, BOUND);
        search.take(trial(100.0, 1_000, Verdict::Held));
        search.take(trial(200.0, 900_000, Verdict::Generator));
        while let Some(rate) = search.next_rate() {
            search.take(trial(rate, 1_000, Verdict::Held));
        }
        let found = search.found();
        assert_eq!(found.limited_by, LimitedBy::Generator);
        assert!(found.says().starts_with("AT LEAST"), "{}", found.says());
    }

    #[test]
    fn a_verdict_is_of_latency_and_failures() {
        let mut run = outcome();
        assert_eq!(judged(&run, BOUND), Verdict::Failing, "no answer");
        run.counts.requests = 1_000;
        run.latency.p99 = 100_000;
        assert_eq!(judged(&run, BOUND), Verdict::Held);
        run.counts.errors.insert(Fault::Status5xx, 11);
        assert_eq!(judged(&run, BOUND), Verdict::Failing);
        run.latency.p99 = 100_001;
        assert_eq!(judged(&run, BOUND), Verdict::TooSlow);
        run.generator.limit = Limit::GeneratorBusy(Spare(0.0));
        assert_eq!(judged(&run, BOUND), Verdict::Generator);
    }
}
