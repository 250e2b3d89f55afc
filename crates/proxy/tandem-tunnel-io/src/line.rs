//! What the operator knows of the line between the proxies.
//!
//! Is not: a measurement. What is not stated here is measured while the tunnel is in use.

use std::time::Duration;

/// Bytes of an IPv6 and a UDP header (RFC 8200, RFC 768): what a datagram costs beside its content.
const HEADERS: u64 = 48;

/// The line, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// What it carries from this side to the other, in bits per second, at least 1. The tunnel then
    /// sends at this rate whatever is lost. `None`: the tunnel finds out, and slows down when
    /// something is lost.
    pub rate: Option<u64>,
    /// How long a short packet takes to the other side and back. `None`: 333 ms until it is
    /// measured (RFC 9002, section 6.2.2).
    pub round_trip: Option<Duration>,
}

impl Line {
    /// How long a datagram with so many bytes occupies the line; zero where the rate is not known.
    pub(crate) fn time_of(&self, bytes: u64) -> Duration {
        match self.rate {
            Some(rate) => {
                let bits = (bytes + HEADERS) * 8;
                Duration::from_micros(bits.saturating_mul(1_000_000) / rate.max(1))
            }
            None => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_takes_its_bits_at_the_rate() {
        let iridium = Line {
            rate: Some(2_400),
            round_trip: None,
        };
        assert_eq!(iridium.time_of(1_200), Duration::from_millis(4_160));
        assert_eq!(Line::default().time_of(1_200), Duration::ZERO);
    }
}
