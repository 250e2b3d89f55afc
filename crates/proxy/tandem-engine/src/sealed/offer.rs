//! Whether a client's key is worth what it costs: a round trip.
//!
//! Is not: who offers it, or what is held meanwhile. What is known when this is decided is an
//! estimate: what the client side holds of the site, and how much of the flight has come.

/// Bytes of a flight that are new in every visit, and what is written around them: signature,
/// verify data, check, and the heads of a delta. An RSA certificate's takes 370.
const FRESH: usize = 400;

/// Of what is not held, certificates for the most part, about a fifth can be compressed away.
const COMPRESSED_AWAY: usize = 5;

/// Fewest bytes that are worth it whatever the link: offer, question and key take about 60.
const MIN_SPARED: usize = 100;

/// What the client side says of a client that may hand in the key of the server's flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyOffer {
    /// Bytes that the client side holds of what the site showed before.
    pub held: usize,
    /// Fewest bytes that must be spared for the key to be worth its round trip.
    pub least: usize,
}

impl KeyOffer {
    /// Whether it can be worth asking for: where no side knows the rate of its line, or that is
    /// fast, no flight is long enough, and none has to wait until it is known how long it is.
    pub(crate) fn may_be_worth(self) -> bool {
        self.least < usize::from(u16::MAX)
    }

    /// Whether the key is worth asking for, where so many bytes of sealed records have come.
    pub(crate) fn is_worth(self, sealed: usize) -> bool {
        self.spared(sealed) >= self.least.max(MIN_SPARED)
    }

    /// Bytes that would be spared, about.
    fn spared(self, sealed: usize) -> usize {
        let repeats = sealed.saturating_sub(FRESH);
        let held = repeats.min(self.held);
        held + (repeats - held) / COMPRESSED_AWAY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_worth_asking_for_where_enough_is_held_or_can_be_compressed() {
        // RTT 1.5 s at 2,400 bit/s: 450 bytes; 0.6 s at 128 kbit/s: 9,600.
        for (held, least, sealed, is_worth) in [
            (4_000, 450, 4_500, true),
            (4_000, 450, 800, false),
            (0, 450, 4_500, true),
            (0, 450, 2_000, false),
            (4_000, 9_600, 4_500, false),
            (40_000, 9_600, 12_000, true),
            // Whatever the link: a resumption, or less than what the question takes.
            (4_000, 0, 300, false),
            (4_000, 0, 520, true),
            (0, 0, 850, false),
        ] {
            let offer = KeyOffer { held, least };
            assert_eq!(offer.is_worth(sealed), is_worth, "{offer:?} {sealed}");
            assert!(offer.may_be_worth());
        }
        let never = KeyOffer {
            held: 60_000,
            least: usize::from(u16::MAX),
        };
        assert!(!never.may_be_worth() && !never.is_worth(1 << 16));
    }
}
