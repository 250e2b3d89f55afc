//! The transmitter's clock: when a packet that starts now has left the modem.
//!
//! n bytes at r bit/s take n * 8 / r seconds, which is rarely a whole number
//! of microseconds. The fraction is carried from packet to packet while the
//! transmitter stays busy, so a queue of a million packets ends on the very
//! microsecond that their sum of bits gives. A packet has left at the first
//! whole microsecond that is not before its exact end.

use std::time::Duration;

use tandem_wire::clock::Instant;

use crate::units::BitRate;

const MICROS_PER_SECOND: u64 = 1_000_000;
const BITS_PER_BYTE: u64 = 8;

/// When the transmitter is free, exactly: `at - carry / rate` microseconds,
/// where `at` is the first whole microsecond not before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SerialClock {
    free_at: Instant,
    /// How much earlier than `free_at` it is in truth free, in units of
    /// 1/rate microseconds; less than the rate it was made with.
    carry: u64,
    carry_rate: Option<BitRate>,
}

impl SerialClock {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            free_at: now,
            carry: 0,
            carry_rate: None,
        }
    }

    /// When the transmitter is free, rounded up to a microsecond.
    pub(super) fn free_at(&self) -> Instant {
        self.free_at
    }

    /// Serialises `bytes` from `ready` or from when the transmitter is free,
    /// whichever is later; returns when the last bit has left.
    ///
    /// `ready` equal to `free_at` means "queued behind", which keeps the carry.
    pub(super) fn serialise(
        &mut self,
        bytes: usize,
        rate: Option<BitRate>,
        ready: Instant,
    ) -> Instant {
        if ready > self.free_at {
            self.free_at = ready;
            self.carry = 0;
        }
        let Some(rate) = rate else {
            self.carry = 0;
            return self.free_at;
        };
        if self.carry_rate != Some(rate) {
            // A change of rate forgets less than a microsecond.
            self.carry = 0;
            self.carry_rate = Some(rate);
        }
        // In u128: a jumbo packet at a fast rate stays exact.
        let work = bytes as u128 * u128::from(BITS_PER_BYTE) * u128::from(MICROS_PER_SECOND);
        let divisor = u128::from(rate.bits_per_second());
        let owed = work.saturating_sub(u128::from(self.carry));
        let unused = u128::from(self.carry).saturating_sub(work);
        let micros = owed.div_ceil(divisor);
        self.carry = saturate(micros * divisor - owed + unused);
        self.free_at += Duration::from_micros(saturate(micros));
        self.free_at
    }
}

fn saturate(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(bps: u64) -> Option<BitRate> {
        BitRate::from_bits_per_second(bps)
    }

    #[test]
    fn one_packet_takes_its_bits_over_the_rate() {
        let mut clock = SerialClock::new(Instant::ZERO);
        // 300 bytes at 2400 bit/s: one second.
        let done = clock.serialise(300, rate(2400), Instant::from_micros(5));
        assert_eq!(done, Instant::from_micros(1_000_005));
    }

    #[test]
    fn fractions_of_a_microsecond_add_up_exactly() {
        // One byte at 3 Mbit/s: 2 2/3 us. Three of them: 8 us, not 9.
        let mut clock = SerialClock::new(Instant::ZERO);
        let ends: Vec<u64> = (0..6)
            .map(|_| {
                clock
                    .serialise(1, rate(3_000_000), Instant::ZERO)
                    .as_micros()
            })
            .collect();
        assert_eq!(ends, [3, 6, 8, 11, 14, 16]);
    }

    #[test]
    fn packets_shorter_than_a_microsecond_add_up_too() {
        // 10 bytes at 1 Gbit/s: 0.08 us each.
        let mut clock = SerialClock::new(Instant::ZERO);
        for _ in 0..1_000 {
            clock.serialise(10, rate(1_000_000_000), Instant::ZERO);
        }
        assert_eq!(clock.free_at(), Instant::from_micros(80));
    }

    #[test]
    fn idle_time_is_not_saved_up() {
        let mut clock = SerialClock::new(Instant::ZERO);
        clock.serialise(1, rate(3_000_000), Instant::ZERO);
        let done = clock.serialise(1, rate(3_000_000), Instant::from_micros(100));
        assert_eq!(done, Instant::from_micros(103));
    }

    #[test]
    fn infinite_rate_takes_no_time() {
        let mut clock = SerialClock::new(Instant::ZERO);
        assert_eq!(
            clock.serialise(65_535, None, Instant::from_micros(7)),
            Instant::from_micros(7)
        );
    }
}
