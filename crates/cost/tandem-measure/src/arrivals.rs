//! When connections start in the open loop: independently of each other and of the server's
//! answers, at a mean rate (a Poisson process: exponential gaps).
//!
//! Streams of several threads add up to one of the sum of their rates.

use std::time::Duration;

use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// Start times after the beginning, endless and growing.
#[derive(Debug, Clone)]
pub struct Arrivals {
    random: Pcg64Mcg,
    mean_gap: f64,
    at: f64,
}

impl Arrivals {
    /// `rate`: a second, above 0.
    #[must_use]
    pub fn new(rate: f64, seed: u64) -> Self {
        Self {
            random: Pcg64Mcg::seed_from_u64(seed),
            mean_gap: 1.0 / rate,
            at: 0.0,
        }
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        // In (0, 1], so that the logarithm is finite.
        let uniform = 1.0 - self.random.random::<f64>();
        self.at -= uniform.ln() * self.mean_gap;
        Duration::try_from_secs_f64(self.at).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_kept_and_gaps_vary_as_they_should() {
        let starts: Vec<f64> = Arrivals::new(200.0, 7)
            .take(20_000)
            .map(|at| at.as_secs_f64())
            .collect();
        let last = starts.last().expect("20,000 starts");
        assert!((20_000.0 / last - 200.0).abs() < 5.0, "{last}");
        // Of exponential gaps exp(-1) = 36.8 % are longer than the mean.
        let long = starts
            .windows(2)
            .filter(|pair| pair[1] - pair[0] > 0.005)
            .count();
        assert!((6_900..7_800).contains(&long), "{long}");
    }

    #[test]
    fn a_seed_tells_all() {
        let of = |seed| Arrivals::new(10.0, seed).take(5).collect::<Vec<_>>();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
