//! A rate at which bytes go on to a neighbour, and what may go right now.
//!
//! Is not: a clock; what waits, and who is kept waiting.
//!
//! Invariant: in any time t no more than `burst + t * bytes_per_second` bytes go.

use std::num::NonZeroU32;
use std::time::Duration;

use tokio::time::Instant;

/// Parts of a byte that are counted: a nanosecond at a byte a second.
const PARTS: u64 = 1_000_000_000;

/// A rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Bytes a second, over any longer time.
    pub bytes_per_second: NonZeroU32,
    /// Bytes that may go at once, after a pause.
    pub burst: NonZeroU32,
}

/// What may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allowance {
    /// So many bytes, one at least.
    Now(usize),
    /// Nothing before this.
    At(Instant),
}

/// One direction's credit.
#[derive(Debug)]
pub(super) struct Bucket {
    /// In parts of a byte. `None`: full.
    credit: Option<u64>,
    counted: Instant,
}

impl Bucket {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            credit: None,
            counted: now,
        }
    }

    /// What may go of what waits.
    pub(super) fn allowance(&mut self, pace: Option<Pace>, now: Instant) -> Allowance {
        let Some(pace) = pace else {
            // The next pace begins anew.
            self.credit = None;
            return Allowance::Now(usize::MAX);
        };
        let full = u64::from(pace.burst.get()) * PARTS;
        let rate = u64::from(pace.bytes_per_second.get());
        let since = u64::try_from((now - self.counted).as_nanos()).unwrap_or(u64::MAX);
        let gained = since.saturating_mul(rate);
        let credit = self.credit.unwrap_or(full).saturating_add(gained).min(full);
        self.credit = Some(credit);
        self.counted = now;
        match usize::try_from(credit / PARTS).unwrap_or(usize::MAX) {
            0 => Allowance::At(now + Duration::from_nanos((PARTS - credit).div_ceil(rate))),
            bytes => Allowance::Now(bytes),
        }
    }

    /// Takes what has gone.
    pub(super) fn spend(&mut self, bytes: usize) {
        let spent = u64::try_from(bytes).unwrap_or(u64::MAX);
        let spent = spent.saturating_mul(PARTS);
        self.credit = self.credit.map(|credit| credit.saturating_sub(spent));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn number(number: u32) -> NonZeroU32 {
        match NonZeroU32::new(number) {
            Some(number) => number,
            None => NonZeroU32::MIN,
        }
    }

    const PACE: Pace = Pace {
        bytes_per_second: number(1000),
        burst: number(300),
    };

    #[test]
    fn a_burst_goes_at_once_and_what_follows_by_the_rate() {
        let start = Instant::now();
        let mut bucket = Bucket::new(start);
        let mut now = start;
        let mut gone = 0;
        while gone < 10_300 {
            match bucket.allowance(Some(PACE), now) {
                Allowance::Now(bytes) => {
                    assert!(bytes <= 300);
                    bucket.spend(bytes);
                    gone += bytes;
                    let most = 300 + (now - start).as_millis();
                    assert!(gone as u128 <= most, "{gone} of {most}");
                }
                Allowance::At(next) => {
                    assert!(next > now);
                    now = next;
                }
            }
        }
        assert_eq!((now - start).as_secs(), 10);
    }

    #[test]
    fn a_pause_earns_a_burst_and_no_more_and_no_pace_is_no_limit() {
        let start = Instant::now();
        let mut bucket = Bucket::new(start);
        assert_eq!(bucket.allowance(Some(PACE), start), Allowance::Now(300));
        bucket.spend(300);
        let later = start + Duration::from_secs(3600);
        assert_eq!(bucket.allowance(Some(PACE), later), Allowance::Now(300));
        assert_eq!(bucket.allowance(None, later), Allowance::Now(usize::MAX));
    }
}
