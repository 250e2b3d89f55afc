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

/// About the longest flight that a site sends whose flights are not held: post-quantum
/// certificates have 20,000 bytes.
const MAX_USUAL: usize = 20_000;

/// What the client side says of a client that may hand in the key of the server's flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyOffer {
    /// Bytes that the client side holds of what the site showed before.
    pub held: usize,
    /// Fewest bytes that must be spared for the key to be worth its round trip.
    pub least: usize,
}

impl KeyOffer {
    /// Whether it can be worth asking for, before anything of the flight has come: where no side
    /// knows the rate of its line, or that is fast, no flight is long enough, and none has to wait
    /// until it is known how long it is.
    pub(crate) fn may_be_worth(self) -> bool {
        self.is_worth(FRESH + self.held.max(MAX_USUAL))
    }

    /// Whether the key is worth asking for, where so many bytes of sealed records have come: now,
    /// or from the next visit on. Of a site of which nothing is held, little is spared now, and
    /// never anything if its flight is never opened; so a first visit may cost a round trip that
    /// the second one earns.
    pub(crate) fn is_worth(self, sealed: usize) -> bool {
        let least = self.least.max(MIN_SPARED);
        let repeats = sealed.saturating_sub(FRESH);
        let is_first = self.held == 0;
        self.spared(repeats) >= least || (is_first && repeats >= least.saturating_mul(2))
    }

    /// Bytes that would be spared of those that repeat, about.
    fn spared(self, repeats: usize) -> usize {
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
            (0, 9_600, 12_000, false),
            (4_000, 9_600, 4_500, false),
            (40_000, 9_600, 12_000, true),
            // Whatever the link: a resumption, or less than what the question takes.
            (4_000, 0, 300, false),
            (4_000, 0, 520, true),
            (0, 0, 550, false),
        ] {
            let offer = KeyOffer { held, least };
            assert_eq!(offer.is_worth(sealed), is_worth, "{offer:?} {sealed}");
        }
    }

    #[test]
    fn a_short_chain_is_asked_for_once_where_the_next_visit_earns_it() {
        // A chain of one at 2,400 bit/s and 1.5 s: RSA, and ECDSA with a small certificate.
        for (held, sealed, is_worth) in [
            (0, 1_700, true),
            (1_300, 1_700, true),
            (0, 1_000, false),
            // Something is held, and it is another flight: nothing says that it comes again.
            (100, 1_700, false),
        ] {
            let offer = KeyOffer { held, least: 450 };
            assert_eq!(offer.is_worth(sealed), is_worth, "{held} {sealed}");
        }
    }

    #[test]
    fn no_flight_is_worth_it_where_the_line_carries_more_in_a_round_trip() {
        // What 2.4 and 128 kbit/s and 2 Mbit/s carry in 1.5 and 0.6 s and in 30 and 60 ms.
        for (held, least, may_be_worth) in [
            (0, 0, true),
            (0, 450, true),
            (3_000, 450, true),
            (3_000, 7_500, false),
            (3_000, 15_000, false),
            (0, 9_600, true),
            (3_000, 9_600, false),
            (19_000, 9_600, true),
            (60_000, usize::from(u16::MAX), false),
        ] {
            let offer = KeyOffer { held, least };
            assert_eq!(offer.may_be_worth(), may_be_worth, "{offer:?}");
        }
    }
}
