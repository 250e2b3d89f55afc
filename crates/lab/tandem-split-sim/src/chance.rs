//! Random spans of time, out of a seeded generator.

use rand::Rng as _;
use rand_pcg::Pcg64Mcg;

use crate::time::Time;

/// How lengths are spread around their mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Without memory.
    Exponential,
    /// Weibull with shape 1/2: many short ones, a few very long ones. Stutzbach and Rejaie
    /// ("Understanding Churn in Peer-to-Peer Networks", IMC 2006) fit the sessions of three
    /// BitTorrent swarms with shapes of 0.34, 0.38 and 0.59.
    Weibull,
}

/// One of the simulation's sources of chance. Each has a stream of its own, so that scenarios with
/// one seed have the same crowd, whatever else happens in them.
#[derive(Debug)]
pub(crate) struct Chance(Pcg64Mcg);

impl Chance {
    /// Stream `stream` of a seed.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self(Pcg64Mcg::new(u128::from(mixed(seed, stream)) << 64 | 1))
    }

    /// At least 0, below 1.
    pub(crate) fn share(&mut self) -> f64 {
        self.0.random()
    }

    /// One of so many, at least one.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.0.random_range(0..len)
    }

    /// A span with this mean, seconds.
    pub(crate) fn span(&mut self, mean: f64, shape: Shape) -> Time {
        // Above 0, at most 1.
        let exponential = -(1.0 - self.share()).ln();
        Time::from_seconds(match shape {
            Shape::Exponential => mean * exponential,
            // Scale s and shape 1/2: s (-ln u)^2, with the mean 2 s.
            Shape::Weibull => mean / 2.0 * exponential * exponential,
        })
    }
}

/// A number that says nothing of the two that it is made of (the finaliser of SplitMix64).
pub(crate) fn mixed(first: u64, second: u64) -> u64 {
    let step = |mut z: u64| {
        z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    step(step(first) ^ second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_the_mean_that_is_asked_for() {
        for shape in [Shape::Exponential, Shape::Weibull] {
            let mut chance = Chance::new(1, 0);
            let count = 200_000;
            let sum: f64 = (0..count).map(|_| chance.span(60.0, shape).seconds()).sum();
            let mean = sum / f64::from(count);
            assert!((mean - 60.0).abs() < 1.5, "{shape:?}: {mean}");
        }
    }

    #[test]
    fn half_of_all_spans_end_before_the_median_of_their_shape() {
        let ln2 = std::f64::consts::LN_2;
        for (shape, median) in [
            (Shape::Exponential, 60.0 * ln2),
            (Shape::Weibull, 30.0 * ln2 * ln2),
        ] {
            let mut chance = Chance::new(2, 0);
            let below = (0..100_000).filter(|_| chance.span(60.0, shape).seconds() < median);
            let share = below.count() as f64 / 1e5;
            assert!((share - 0.5).abs() < 0.01, "{shape:?}: {share}");
        }
    }
}
