//! How often something may happen: a bucket of tokens.
//!
//! Is not: a queue. What comes too early is told so and waits nowhere.

use std::time::Duration;

/// Parts of a token, so that slow rates lose nothing between two looks.
const PARTS: u64 = 1_000_000_000;

/// So many a second on the average, and so many at once.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    rate: u64,
    burst: u64,
    /// In parts of a token.
    held: u64,
    /// Since the start of the program.
    filled_at: Duration,
}

impl Bucket {
    /// A full one: `rate` a second, `burst` at once, of which one at least.
    #[must_use]
    pub fn new(rate: u32, burst: u32, now: Duration) -> Self {
        let burst = u64::from(burst.max(1));
        Self {
            rate: u64::from(rate),
            burst,
            held: burst * PARTS,
            filled_at: now,
        }
    }

    /// Takes one, if there is one. `now` counts from the start of the program.
    pub fn take(&mut self, now: Duration) -> bool {
        let elapsed = now.saturating_sub(self.filled_at);
        self.filled_at = self.filled_at.max(now);
        // A part is a nanosecond's worth at one a second.
        let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let gained = nanos.saturating_mul(self.rate);
        self.held = self.held.saturating_add(gained).min(self.burst * PARTS);
        let is_there = self.held >= PARTS;
        if is_there {
            self.held -= PARTS;
        }
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_and_then_the_rate_holds() {
        let mut bucket = Bucket::new(10, 3, Duration::ZERO);
        let taken = |bucket: &mut Bucket, at| (0..100).filter(|_| bucket.take(at)).count();
        assert_eq!(taken(&mut bucket, Duration::ZERO), 3);
        assert_eq!(taken(&mut bucket, Duration::from_millis(99)), 0);
        assert_eq!(taken(&mut bucket, Duration::from_millis(100)), 1);
        // A rest of an hour gives no more than the burst.
        assert_eq!(taken(&mut bucket, Duration::from_secs(3_600)), 3);
        // A clock that stands still, or goes back, gives nothing.
        assert_eq!(taken(&mut bucket, Duration::from_secs(1)), 0);
    }
}
