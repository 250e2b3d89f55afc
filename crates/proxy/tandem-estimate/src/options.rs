//! What the caller may choose: the link whose time is told, and how much memory a capture may cost.
//!
//! Defaults suit a laptop and a capture of any size; nothing here changes what a figure means.

use std::num::NonZeroU64;

/// A link's rate in bits per second. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BitRate(NonZeroU64);

impl From<NonZeroU64> for BitRate {
    /// The rate of so many bits per second.
    fn from(bits_per_second: NonZeroU64) -> Self {
        Self(bits_per_second)
    }
}

impl BitRate {
    /// Bits per second.
    #[must_use]
    pub const fn bits_per_second(self) -> u64 {
        self.0.get()
    }

    /// Seconds that `bytes` take on the link, without headers, loss and round trips.
    #[must_use]
    pub fn seconds(self, bytes: u64) -> f64 {
        bytes as f64 * 8.0 / self.0.get() as f64
    }
}

/// Bounds on memory. Each is a number that may be lowered to nearly nothing: figures then get
/// coarser, and the damage list says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For the reading of the capture.
    pub trace: tandem_trace::Limits,
    /// Sites told apart. Default 16,384; further ones share one row.
    pub sites: usize,
    /// Chains told apart. Default 262,144 (about 20 MB); further ones count as different each time.
    pub chains: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            trace: tandem_trace::Limits::default(),
            sites: 16_384,
            chains: 262_144,
        }
    }
}

/// How to read a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The link to tell seconds for. Default: none, and no seconds are told.
    pub link_rate: Option<BitRate>,
    /// Bounds on memory.
    pub limits: Limits,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_follow_from_the_rate() {
        let iridium = BitRate::from(NonZeroU64::new(2_400).expect("not 0"));
        assert!((iridium.seconds(3_000) - 10.0).abs() < 1e-9);
    }
}
