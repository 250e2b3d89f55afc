//! Whether a client's key is worth what it costs: a round trip.
//!
//! What is spared of the server's flight and of the client's answer to it takes time in either
//! direction of the link, each at its own rate. The key is worth it where both together take longer
//! than a round trip.
//!
//! Is not: who offers it, or what is held meanwhile; nor how it is known what a client answers
//! (`answers`). What is known when this is decided is an estimate: what the client side holds of
//! the site, and how much of the flight has come.

/// Bytes of a flight that are new in every visit, and what is written around them: signature,
/// verify data, check, and the heads of a delta. An RSA certificate's takes 370.
pub(super) const FRESH: usize = 400;

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
    /// Bytes that the key is worth at the client's answer, where that shows a certificate.
    pub answer: usize,
    /// Bytes of a server's flight that take a round trip; 0: any is worth one, `usize::MAX`: none.
    pub least: usize,
    /// The same of a client's.
    pub answer_least: usize,
}

impl KeyOffer {
    /// Whether it can be worth asking for, before anything of the flight has come: where no side
    /// knows the rate of its line, or that is fast, no flight is long enough, and none has to wait
    /// until it is known how long it is.
    pub(crate) fn may_be_worth(self) -> bool {
        self.is_worth(FRESH + self.held.max(MAX_USUAL))
    }

    /// Whether the key is worth asking for, where so many bytes of sealed records have come: now,
    /// or from the next visit on.
    pub(crate) fn is_worth(self, sealed: usize) -> bool {
        let flight = self.flight(sealed.saturating_sub(FRESH));
        // flight / least + answer / answer_least >= 1
        let [flight, answer, least, answer_least] =
            [flight, self.answer, self.least, self.answer_least].map(|bytes| bytes as u128);
        flight + answer >= MIN_SPARED as u128
            && flight * answer_least + answer * least >= least * answer_least
    }

    /// Bytes that the key is worth at the server's flight, of those that repeat. Of a site of which
    /// nothing is held, little is spared now, and never anything if its flight is never opened; so
    /// a first visit may cost a round trip that the second one earns, by twice as much.
    fn flight(self, repeats: usize) -> usize {
        let held = repeats.min(self.held);
        match self.held {
            0 => repeats / 2,
            _ => held + (repeats - held) / COMPRESSED_AWAY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a client that shows no certificate.
    fn offer(held: usize, least: usize) -> KeyOffer {
        KeyOffer {
            held,
            answer: 0,
            least,
            answer_least: least,
        }
    }

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
            let offer = offer(held, least);
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
            let offer = offer(held, 450);
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
            let offer = offer(held, least);
            assert_eq!(offer.may_be_worth(), may_be_worth, "{offer:?}");
        }
    }

    #[test]
    fn what_both_flights_save_counts_against_one_round_trip() {
        const NEVER: usize = usize::MAX;
        // RTT 0.6 s at 88 kbit/s down and 22 kbit/s up: 6,600 and 1,650 bytes.
        let certus = (6_600, 1_650);
        for (held, sealed, answer, (least, answer_least), is_worth) in [
            // A chain of three, and the client's of three: 0.5 and 1.7 round trips.
            (3_400, 3_800, 2_900, certus, true),
            (3_400, 3_800, 0, certus, false),
            // Exactly one round trip, and a byte less on either side: a half each, a quarter and
            // three, all of it in the answer.
            (3_300, 3_700, 825, certus, true),
            (3_300, 3_700, 824, certus, false),
            (3_300, 3_699, 825, certus, false),
            (1_652, 2_052, 1_237, certus, true),
            (1_652, 2_052, 1_236, certus, false),
            (0, 400, 1_650, certus, true),
            (0, 400, 1_649, certus, false),
            // Half of a server's flight that is not held, and what A says of an answer.
            (0, 7_000, 825, certus, true),
            (0, 6_998, 825, certus, false),
            // A direction of which nothing is known, or that is fast, saves nothing.
            (3_300, 3_700, 60_000, (6_600, NEVER), false),
            (6_600, 7_000, 0, (6_600, NEVER), true),
            (60_000, 60_000, 1_649, (NEVER, 1_650), false),
            (60_000, 60_000, 1_650, (NEVER, 1_650), true),
            (60_000, 60_000, 60_000, (NEVER, NEVER), false),
            // By bytes: whatever both spare, if it is more than what the question takes.
            (50, 450, 49, (0, 1_650), false),
            (50, 450, 50, (0, 1_650), true),
            (50, 450, 50, (0, NEVER), true),
            // The same where a round trip is shorter than that.
            (50, 450, 49, (10, 10), false),
            (50, 450, 50, (10, 10), true),
        ] {
            let offer = KeyOffer {
                held,
                answer,
                least,
                answer_least,
            };
            assert_eq!(offer.is_worth(sealed), is_worth, "{offer:?} {sealed}");
        }
    }
}
