//! What a search for the highest rate has found, and how: each run with its rate and its verdict.
//!
//! Is not: the search; see `search`.

use serde::Serialize;

/// What a run at one rate showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The server kept within the bound.
    Held,
    /// It did not.
    TooSlow,
    /// It did, but more than 1 % failed.
    Failing,
    /// The latency was above the bound, and the generator was the limit.
    Generator,
}

impl Verdict {
    /// For tables.
    #[must_use]
    pub fn says(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::TooSlow => "too slow",
            Self::Failing => "requests failed",
            Self::Generator => "too slow; the generator was the limit",
        }
    }
}

/// One run of a search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Trial {
    /// Connections a second that were started.
    pub rate: f64,
    /// Requests a second that were answered.
    pub requests_per_second: f64,
    /// Median latency, microseconds.
    pub p50: u64,
    /// 99 % are within.
    pub p99: u64,
    /// Requests and connections that failed.
    pub failed: u64,
    /// What it showed.
    pub verdict: Verdict,
}

/// What ended the search above.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// The server's latency.
    Latency,
    /// The server's failures.
    Failures,
    /// The generator: the server may do better.
    Generator,
    /// Nothing, up to the highest rate that is tried.
    Nothing,
}

/// How a rate was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FoundRate {
    /// The highest rate that held, connections a second; none held where it is missing.
    pub rate: Option<f64>,
    /// Requests a second at that rate.
    pub requests_per_second: Option<f64>,
    /// The bound of the 99th percentile, microseconds.
    pub p99_bound: u64,
    /// What ended it.
    pub limited_by: LimitedBy,
    /// All runs in their order.
    pub tried: Vec<Trial>,
}

impl FoundRate {
    /// A line for the result.
    #[must_use]
    pub fn says(&self) -> String {
        let bound = self.p99_bound as f64 / 1e3;
        let runs = self.tried.len();
        let first = self.tried.first().map_or(0.0, |trial| trial.rate);
        let runs = match runs {
            1 => "1 run".to_owned(),
            runs => format!("{runs} runs"),
        };
        let how = format!("{runs}, from {first:.0}/s by doubling and halving");
        let Some(rate) = self.rate else {
            return format!(
                "NO RATE HELD p99 within {bound:.0} ms, down to {:.1} connections/s ({how}).",
                self.lowest()
            );
        };
        let requests = self.requests_per_second.unwrap_or_default();
        let at = format!(
            "{rate:.0} connections/s ({requests:.0} requests/s) is the highest rate with p99 \
             within {bound:.0} ms ({how})"
        );
        match self.limited_by {
            LimitedBy::Latency => format!("{at}; above it the server was too slow."),
            LimitedBy::Failures => format!("{at}; above it more than 1 % failed."),
            LimitedBy::Generator => format!(
                "AT LEAST {at}; above it the generator was the limit. Use another machine, or \
                 more."
            ),
            LimitedBy::Nothing => format!("{at}; no higher rate is tried."),
        }
    }

    fn lowest(&self) -> f64 {
        let rates = self.tried.iter().map(|trial| trial.rate);
        rates.fold(f64::INFINITY, f64::min)
    }
}
