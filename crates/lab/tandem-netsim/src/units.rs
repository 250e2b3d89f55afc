//! Quantities that configure a simulated link: a bit rate and a probability.
//!
//! Not here: time (`tandem_wire::clock::Instant` and `std::time::Duration`).
//! Both types are integers inside, so that equal configurations compare equal
//! and a run gives the same numbers on every machine.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use rand::RngCore;

use crate::error::NetsimError;

/// How fast a link serialises, in bits per second; never zero.
///
/// A link of infinite rate has no `BitRate` at all (`Option::None`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitRate(NonZeroU64);

impl BitRate {
    /// A rate in bits per second.
    pub const fn new(bits_per_second: NonZeroU64) -> Self {
        Self(bits_per_second)
    }

    /// A rate in bits per second, `None` for zero.
    pub const fn from_bits_per_second(bits_per_second: u64) -> Option<Self> {
        match NonZeroU64::new(bits_per_second) {
            Some(rate) => Some(Self(rate)),
            None => None,
        }
    }

    /// The rate in bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bit/s", self.0)
    }
}

/// A probability in parts per billion, from 0 to 1 inclusive; the default is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Probability(u32);

impl Probability {
    /// Never.
    pub const NEVER: Self = Self(0);
    /// Always.
    pub const ALWAYS: Self = Self(Self::PARTS);

    const PARTS: u32 = 1_000_000_000;

    /// From a share between 0.0 and 1.0, rounded to parts per billion.
    ///
    /// # Errors
    /// `ProbabilityOutOfRange` outside of that, or for a value that is not a number.
    pub fn new(share: f64) -> Result<Self, NetsimError> {
        if !(0.0..=1.0).contains(&share) {
            return Err(NetsimError::ProbabilityOutOfRange);
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "it is rounded, and within 0..=1e9"
        )]
        let parts = (share * f64::from(Self::PARTS)).round() as u32;
        Ok(Self(parts))
    }

    /// From whole percents; more than 100 counts as 100.
    pub const fn percent(percent: u8) -> Self {
        let percent = if percent > 100 { 100 } else { percent };
        Self(percent as u32 * (Self::PARTS / 100))
    }

    /// The share, between 0.0 and 1.0.
    pub fn share(self) -> f64 {
        f64::from(self.0) / f64::from(Self::PARTS)
    }

    /// Draws once. Takes one `u32` from the generator whatever the probability,
    /// so that two configurations with one seed stay comparable draw for draw.
    pub(crate) fn hits(self, rng: &mut impl RngCore) -> bool {
        let parts = (u64::from(rng.next_u32()) * u64::from(Self::PARTS)) >> 32;
        parts < u64::from(self.0)
    }
}

impl FromStr for Probability {
    type Err = NetsimError;

    /// Reads `0.03` or `3%`.
    fn from_str(text: &str) -> Result<Self, NetsimError> {
        let (number, scale) = match text.trim().strip_suffix('%') {
            Some(number) => (number.trim(), 100.0),
            None => (text.trim(), 1.0),
        };
        let value: f64 = number
            .parse()
            .map_err(|_| NetsimError::ProbabilityOutOfRange)?;
        Self::new(value / scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64;

    #[test]
    fn probability_is_bounded_and_readable() {
        assert_eq!(Probability::new(0.03), Ok(Probability::percent(3)));
        assert_eq!("3%".parse(), Ok(Probability::percent(3)));
        assert_eq!("0.5".parse(), Ok(Probability::percent(50)));
        assert_eq!(Probability::percent(200), Probability::ALWAYS);
        for bad in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert_eq!(
                Probability::new(bad),
                Err(NetsimError::ProbabilityOutOfRange)
            );
        }
        assert!("x".parse::<Probability>().is_err());
    }

    #[test]
    fn never_and_always_are_exact() {
        let mut rng = Pcg64::seed_from_u64(1);
        for _ in 0..10_000 {
            assert!(!Probability::NEVER.hits(&mut rng));
            assert!(Probability::ALWAYS.hits(&mut rng));
        }
    }
}
