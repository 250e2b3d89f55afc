//! What makes a rewritten segment harmless: a timestamp so old that its receiver discards it (PAWS,
//! RFC 7323, section 5).
//!
//! Is: the shift, and telling a shifted value from one that is merely late. Is not: proof that a
//! segment is our partner's; the frame's check is that.
//!
//! Invariant: shifting back what was shifted gives the endpoint's own value.

use tandem_wire::Timestamps;

/// How far back a rewritten segment's TSval is put: a quarter of the number space.
///
/// RFC 7323 discards what is less than half of the space (2^31) older than the newest value seen. A
/// quarter leaves as much room to either side: with the fastest clock that the RFC allows, a
/// millisecond a tick, it takes 12 days for a late segment to look shifted, or for a shifted one to
/// look new.
const SHIFT: u32 = 1 << 30;

/// How far from the newest value a restored one may be and still be taken for shifted: 2^24 ticks,
/// 4.6 hours at a millisecond a tick.
const TOLERANCE: u32 = 1 << 24;

/// The timestamps under which a rewritten segment crosses the link.
pub(crate) fn shifted(timestamps: Timestamps) -> Timestamps {
    Timestamps {
        value: timestamps.value.wrapping_sub(SHIFT),
        ..timestamps
    }
}

/// How far an endpoint's clock may get while its handshake is followed: five minutes at a
/// microsecond a tick, and as much again.
///
/// A value further ahead is damage or malice. Believed, it would make ordinary segments look
/// shifted.
const MAX_AHEAD: u32 = 1 << 29;

/// The timestamp clock of an endpoint beyond the link, as its segments show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Clock {
    first: u32,
    newest: u32,
}

impl Clock {
    /// A clock that stood at `first` in the SYN or SYN/ACK.
    pub(crate) fn new(first: u32) -> Self {
        Self {
            first,
            newest: first,
        }
    }

    /// An ordinary segment has shown this value.
    pub(crate) fn saw(&mut self, value: u32) {
        let plausible = value.wrapping_sub(self.first) < MAX_AHEAD;
        if plausible && value.wrapping_sub(self.first) > self.newest.wrapping_sub(self.first) {
            self.newest = value;
        }
    }

    /// The endpoint's own timestamps, if these are shifted ones.
    pub(crate) fn restored(&self, timestamps: Timestamps) -> Option<Timestamps> {
        let value = timestamps.value.wrapping_add(SHIFT);
        let near = value.wrapping_sub(self.newest).wrapping_add(TOLERANCE) <= 2 * TOLERANCE;
        near.then_some(Timestamps {
            value,
            ..timestamps
        })
    }
}

/// Whether a segment with timestamp `value` is discarded by a receiver that has seen `newest` (RFC
/// 7323, section 5.3, R1).
pub(crate) fn is_older(value: u32, newest: u32) -> bool {
    value.wrapping_sub(newest).cast_signed() < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps(value: u32) -> Timestamps {
        Timestamps { value, echo: 77 }
    }

    #[test]
    fn a_shifted_value_comes_back_anywhere_in_the_number_space() {
        for newest in [0, 5, SHIFT, u32::MAX - 3, 1 << 31] {
            for later in [0u32, 1, 60_000] {
                let sent = stamps(newest.wrapping_add(later));
                assert_eq!(Clock::new(newest).restored(shifted(sent)), Some(sent));
            }
        }
    }

    #[test]
    fn a_late_or_ordinary_value_is_not_taken_for_a_shifted_one() {
        for newest in [0u32, 9, 1 << 30, u32::MAX] {
            for late in [0u32, 1, 1_000, 3_600_000] {
                let late = stamps(newest.wrapping_sub(late));
                assert_eq!(Clock::new(newest).restored(late), None);
            }
        }
    }

    #[test]
    fn a_value_far_from_the_newest_is_not_taken_for_a_shifted_one() {
        for newest in [7, 1 << 30, u32::MAX] {
            let clock = Clock::new(newest);
            for (distance, is_near) in [(1 << 24, true), ((1 << 24) + 1, false)] {
                for value in [newest.wrapping_add(distance), newest.wrapping_sub(distance)] {
                    let restored = clock.restored(shifted(stamps(value)));
                    assert_eq!(restored, is_near.then_some(stamps(value)));
                }
            }
        }
    }

    #[test]
    fn an_endpoint_discards_a_shifted_value() {
        for recent in [1u32, 1 << 30, 1 << 31, u32::MAX] {
            let value = shifted(stamps(recent.wrapping_add(500))).value;
            assert!(is_older(value, recent));
            assert!(!is_older(recent, recent) && !is_older(recent.wrapping_add(1), recent));
        }
    }

    #[test]
    fn one_value_from_the_far_future_does_not_make_ordinary_ones_look_shifted() {
        for bit in 0..32 {
            // A clock of its own for each: the furthest value would hide all others.
            let mut clock = Clock::new(7);
            clock.saw(9);
            clock.saw(7 ^ 1u32 << bit);
            for ordinary in [8u32, 9, 10, 300_000] {
                assert_eq!(clock.restored(stamps(ordinary)), None, "after bit {bit}");
            }
            // Beyond the bound it is not believed at all: what is shifted is still known.
            if 1 << bit >= MAX_AHEAD {
                let later = stamps(300_000);
                assert_eq!(
                    clock.restored(shifted(later)),
                    Some(later),
                    "after bit {bit}"
                );
            }
        }
    }

    #[test]
    fn a_clock_is_followed_as_far_as_a_handshake_can_take() {
        let mut clock = Clock::new(7);
        let furthest = 7 + MAX_AHEAD - 1;
        clock.saw(furthest);
        let later = stamps(furthest + TOLERANCE);
        assert_eq!(clock.restored(shifted(later)), Some(later));
        clock.saw(furthest - 1);
        assert_eq!(
            clock.restored(shifted(later)),
            Some(later),
            "it does not go back"
        );
    }
}
