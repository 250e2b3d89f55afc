//! The retransmission timeout: RFC 6298, with Linux's constants.
//!
//! Linux differs from the RFC in its floor: the variance term, not the whole
//! timeout, is at least 200 ms (`tcp_rto_min`), so the timeout is at least the
//! round trip and 200 ms.

use std::time::Duration;

/// Bounds of the timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtoBounds {
    /// Before any measurement: "RTO <- 1 second" (RFC 6298, section 2.1).
    pub initial: Duration,
    /// Least variance term. Linux: 200 ms; the RFC asks for a timeout of a
    /// second in its stead (section 2.4).
    pub minimum: Duration,
    /// Backing off goes no further: at least 60 s (RFC 6298, section 2.5);
    /// Linux: 120 s.
    pub maximum: Duration,
}

impl Default for RtoBounds {
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(1),
            minimum: Duration::from_millis(200),
            maximum: Duration::from_secs(120),
        }
    }
}

/// "If the timer expires awaiting the ACK of a SYN segment [...] the RTO MUST
/// be re-initialized to 3 seconds when data transmission begins" (RFC 6298,
/// section 5.7).
const RTO_AFTER_LOST_SYN: Duration = Duration::from_secs(3);

/// Smoothed round trip, its variance and the timeout that follows.
#[derive(Clone, Debug)]
pub(super) struct RttEstimator {
    bounds: RtoBounds,
    /// SRTT and RTTVAR, once there is a sample.
    measured: Option<(Duration, Duration)>,
    base: Duration,
    doublings: u32,
}

impl RttEstimator {
    pub(super) fn new(bounds: RtoBounds) -> Self {
        Self {
            bounds,
            measured: None,
            base: bounds.initial,
            doublings: 0,
        }
    }

    /// Takes a measured round trip (RFC 6298, sections 2.2 and 2.3); ends backing off.
    pub(super) fn sample(&mut self, rtt: Duration) {
        let (smoothed, variance) = match self.measured {
            None => (rtt, rtt / 2),
            Some((smoothed, variance)) => {
                let error = smoothed.abs_diff(rtt);
                ((smoothed * 7 + rtt) / 8, (variance * 3 + error) / 4)
            }
        };
        self.measured = Some((smoothed, variance));
        self.base = smoothed + (variance * 4).max(self.bounds.minimum);
        self.doublings = 0;
    }

    pub(super) fn timeout(&self) -> Duration {
        self.base
            .saturating_mul(1u32.checked_shl(self.doublings).unwrap_or(u32::MAX))
            .min(self.bounds.maximum)
    }

    /// "RTO <- RTO * 2" (RFC 6298, section 5.5).
    pub(super) fn back_off(&mut self) {
        self.doublings = (self.doublings + 1).min(31);
    }

    /// The connection opens after its SYN was lost and nothing was measured.
    pub(super) fn open_after_lost_syn(&mut self) {
        if self.measured.is_none() {
            self.base = self.base.max(RTO_AFTER_LOST_SYN);
            self.doublings = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    #[test]
    fn timeout_follows_rfc_6298() {
        let mut rtt = RttEstimator::new(RtoBounds::default());
        assert_eq!(rtt.timeout(), ms(1_000));
        rtt.sample(ms(100));
        // RTTVAR 50, times 4 is the floor.
        assert_eq!(rtt.timeout(), ms(300));
        rtt.sample(ms(500));
        // SRTT 150, RTTVAR (3 * 50 + 400) / 4 = 137.5.
        assert_eq!(rtt.timeout(), ms(150 + 550));
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.timeout(), ms(2_800));
        for _ in 0..40 {
            rtt.back_off();
        }
        assert_eq!(rtt.timeout(), ms(120_000));
        rtt.sample(ms(150));
        assert!(rtt.timeout() < ms(1_000));
    }

    #[test]
    fn a_steady_round_trip_keeps_the_floor() {
        let mut rtt = RttEstimator::new(RtoBounds::default());
        for _ in 0..100 {
            rtt.sample(ms(40));
        }
        assert_eq!(rtt.timeout(), ms(240));
    }
}
