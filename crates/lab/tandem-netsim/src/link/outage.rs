//! Scheduled outages: when a direction is down, and what that does to packets.
//!
//! Times count from the link's start. All functions here are of time alone;
//! no state.

use std::time::Duration;

use crate::error::NetsimError;

/// One outage, or one that comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    from: Duration,
    length: Duration,
    period: Option<Duration>,
    effect: OutageEffect,
}

/// What a link that is down does with packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutageEffect {
    /// The modem knows: nothing is sent, packets queue (up to the queue's
    /// limit) and go out when the link is back. A packet already on its way
    /// out is finished.
    Hold,
    /// The modem does not know: it goes on sending, and every packet of which
    /// any bit is sent during the outage is lost.
    Lose,
}

impl Outage {
    /// Down once, for `length`, from `from` after the link's start.
    pub const fn once(from: Duration, length: Duration, effect: OutageEffect) -> Self {
        Self {
            from,
            length,
            period: None,
            effect,
        }
    }

    /// Down for `length` at `from` and again every `period` after it.
    ///
    /// # Errors
    /// `OutageNeverEnds` unless `period` is longer than `length`.
    pub fn every(
        period: Duration,
        from: Duration,
        length: Duration,
        effect: OutageEffect,
    ) -> Result<Self, NetsimError> {
        if period <= length {
            return Err(NetsimError::OutageNeverEnds);
        }
        Ok(Self {
            from,
            length,
            period: Some(period),
            effect,
        })
    }

    /// When the outage that `at` falls into ends, where it falls into one.
    /// The start is part of an outage, its end is not.
    fn ends(&self, at: Duration) -> Option<Duration> {
        let since_first = at.checked_sub(self.from)?;
        let into = match self.period {
            None => since_first,
            Some(period) => Duration::from_micros(micros(since_first) % micros(period).max(1)),
        };
        (into < self.length).then(|| at + (self.length - into))
    }

    /// Whether any of `start..=end` falls into an outage.
    fn touches(&self, start: Duration, end: Duration) -> bool {
        if self.length.is_zero() {
            return false;
        }
        if self.ends(start).is_some() || self.ends(end).is_some() {
            return true;
        }
        // Neither end is inside: an outage is touched if one begins between them.
        let next_start = match self.period {
            _ if start <= self.from => self.from,
            None => return false,
            Some(period) => {
                let period = micros(period).max(1);
                let since = micros(start - self.from);
                self.from + Duration::from_micros(since.div_ceil(period) * period)
            }
        };
        next_start <= end
    }
}

/// When a transmitter may start that wants to at `at`: after every `Hold`
/// outage that it falls into, also where one follows on another.
pub(super) fn hold_until(outages: &[Outage], at: Duration) -> Duration {
    let mut start = at;
    // Each round leaves at least one outage behind; overlapping repeating ones
    // could go on for ever, so the rounds are bounded by their number.
    for _ in 0..=outages.len() {
        let later = outages
            .iter()
            .filter(|outage| match outage.effect {
                OutageEffect::Hold => true,
                OutageEffect::Lose => false,
            })
            .filter_map(|outage| outage.ends(start))
            .max();
        match later {
            Some(end) => start = end,
            None => break,
        }
    }
    start
}

/// Whether a packet sent from `start` to `end` is lost to a `Lose` outage.
pub(super) fn loses(outages: &[Outage], start: Duration, end: Duration) -> bool {
    outages
        .iter()
        .filter(|outage| match outage.effect {
            OutageEffect::Hold => false,
            OutageEffect::Lose => true,
        })
        .any(|outage| outage.touches(start, end))
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn one_outage_holds_until_its_end() {
        let outages = [Outage::once(s(10), s(5), OutageEffect::Hold)];
        assert_eq!(hold_until(&outages, s(9)), s(9));
        assert_eq!(hold_until(&outages, s(10)), s(15));
        assert_eq!(hold_until(&outages, s(14)), s(15));
        assert_eq!(hold_until(&outages, s(15)), s(15));
        assert!(!loses(&outages, s(9), s(16)));
    }

    #[test]
    fn adjoining_outages_are_one() {
        let outages = [
            Outage::once(s(15), s(5), OutageEffect::Hold),
            Outage::once(s(10), s(5), OutageEffect::Hold),
        ];
        assert_eq!(hold_until(&outages, s(11)), s(20));
    }

    #[test]
    fn a_repeating_outage_comes_back() -> Result<(), NetsimError> {
        let hold = [Outage::every(s(60), s(10), s(5), OutageEffect::Hold)?];
        assert_eq!(hold_until(&hold, s(72)), s(75));
        assert_eq!(hold_until(&hold, s(76)), s(76));
        let lose = [Outage::every(s(60), s(10), s(5), OutageEffect::Lose)?];
        assert!(!loses(&lose, s(0), s(9)));
        assert!(loses(&lose, s(0), s(10)));
        assert!(!loses(&lose, s(15), s(69)));
        assert!(loses(&lose, s(15), s(70)));
        assert!(loses(&lose, s(16), s(100)));
        assert_eq!(
            Outage::every(s(5), s(0), s(5), OutageEffect::Hold),
            Err(NetsimError::OutageNeverEnds)
        );
        Ok(())
    }
}
