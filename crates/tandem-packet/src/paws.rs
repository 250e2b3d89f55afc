//! What makes a rewritten segment harmless: a timestamp so old that its receiver discards it (PAWS, RFC 7323, section 5).
//!
//! Is: the shift, and telling a shifted value from one that is merely late. Is not: proof that a segment is our partner's;
//! the frame's check is that.
//!
//! Invariant: shifting back what was shifted gives the server's own value.

use tandem_wire::Timestamps;

/// How far back a rewritten segment's TSval is put: a quarter of the number space.
///
/// RFC 7323 discards what is less than half of the space (2^31) older than the newest value seen. A quarter leaves as
/// much room to either side: with the fastest clock that the RFC allows, a millisecond a tick, it takes 12 days for a
/// late segment to look shifted, or for a shifted one to look new.
const SHIFT: u32 = 1 << 30;

/// How far from the newest value a restored one may be and still be taken for shifted: 2^24 ticks, 4.6 hours at a
/// millisecond a tick.
const TOLERANCE: u32 = 1 << 24;

/// The timestamps under which a rewritten segment crosses the link.
pub(crate) fn shifted(timestamps: Timestamps) -> Timestamps {
    Timestamps {
        value: timestamps.value.wrapping_sub(SHIFT),
        ..timestamps
    }
}

/// The server's own timestamps, if these are shifted ones; `newest` is the newest value that the server was seen to send.
pub(crate) fn restored(timestamps: Timestamps, newest: u32) -> Option<Timestamps> {
    let value = timestamps.value.wrapping_add(SHIFT);
    let near = value.wrapping_sub(newest).wrapping_add(TOLERANCE) <= 2 * TOLERANCE;
    near.then_some(Timestamps {
        value,
        ..timestamps
    })
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
                assert_eq!(restored(shifted(sent), newest), Some(sent));
            }
        }
    }

    #[test]
    fn a_late_or_ordinary_value_is_not_taken_for_a_shifted_one() {
        for newest in [0u32, 9, 1 << 30, u32::MAX] {
            for late in [0u32, 1, 1_000, 3_600_000] {
                assert_eq!(restored(stamps(newest.wrapping_sub(late)), newest), None);
            }
        }
    }

    #[test]
    fn an_endpoint_discards_a_shifted_value() {
        // RFC 7323, section 5.3, R1: discard where SEG.TSval < TS.Recent, compared modulo 2^32.
        for recent in [1u32, 1 << 30, 1 << 31, u32::MAX] {
            let value = shifted(stamps(recent.wrapping_add(500))).value;
            assert!((value.wrapping_sub(recent) as i32) < 0);
        }
    }
}
