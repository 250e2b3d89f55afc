//! What a client's key is asked for: bytes, or time.
//!
//! A key that the client releases costs a round trip more. That is worth it where the bytes that it
//! spares in both directions would take longer: `spared * 8 / rate`, of the server's flight and of
//! the client's answer together, `> round trip`.
//!
//! Is not: how many bytes are spared, which the engine estimates. Invariant: where nothing is known
//! of the link, and time is preferred, no key is asked for.

use std::time::Duration;

/// What counts more, where a key costs a round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Prefer {
    /// Whichever is sooner.
    #[default]
    Time,
    /// Fewer bytes, whatever it takes.
    Bytes,
}

/// Fewest bytes that must be spared for a key to be worth its round trip; 0: any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Least(pub(crate) u16);

impl Least {
    /// No flight is as long.
    pub const NEVER: Self = Self(u16::MAX);

    /// The number that the engine goes by: none is worth it at [`Self::NEVER`].
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::NEVER => usize::MAX,
            Self(bytes) => usize::from(bytes),
        }
    }

    /// By what a link carries in a round trip.
    fn of(rate: u64, round_trip: Duration) -> Self {
        let bits = u128::from(rate) * round_trip.as_micros() / 1_000_000;
        let bytes = (bits / 8).max(1);
        Self(u16::try_from(bytes).unwrap_or(u16::MAX))
    }
}

impl Prefer {
    /// What the client side offers keys at. Its rate is that of the other direction, and stands in
    /// for this one's where the server side knows none.
    pub fn offered_at(self, rate: Option<u64>, round_trip: Duration) -> Least {
        match (self, rate) {
            (Self::Bytes, _) => Least(0),
            (Self::Time, Some(rate)) => Least::of(rate, round_trip),
            (Self::Time, None) => Least::NEVER,
        }
    }

    /// What the server side asks for keys at; `None`: at what they are offered at.
    pub fn asked_at(self, rate: Option<u64>, round_trip: Option<Duration>) -> Option<Least> {
        match (self, rate, round_trip) {
            (Self::Bytes, _, _) => Some(Least(0)),
            (Self::Time, Some(rate), Some(round_trip)) => Some(Least::of(rate, round_trip)),
            (Self::Time, _, _) => None,
        }
    }
}

/// What the server side goes by, of what it knows itself and what it was told: a client side that
/// prefers bytes has its way.
pub(crate) fn agreed(own: Option<Least>, offered: Least) -> Least {
    match (own, offered) {
        (_, Least(0)) | (None, _) => offered,
        (Some(own), _) => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_key_is_worth_what_the_link_carries_in_a_round_trip() {
        let time = Prefer::Time;
        assert_eq!(time.offered_at(Some(2_400), SECOND * 3 / 2), Least(450));
        assert_eq!(time.offered_at(Some(1), Duration::ZERO), Least(1));
        assert_eq!(time.offered_at(Some(u64::MAX), SECOND), Least::NEVER);
        assert_eq!(time.offered_at(None, SECOND), Least::NEVER);
        assert_eq!(Prefer::Bytes.offered_at(Some(u64::MAX), SECOND), Least(0));
        assert_eq!(time.asked_at(Some(2_400), Some(SECOND)), Some(Least(300)));
        assert_eq!(time.asked_at(Some(2_400), None), None);
        assert_eq!(Prefer::Bytes.asked_at(None, None), Some(Least(0)));
    }

    #[test]
    fn what_is_never_worth_a_round_trip_is_more_than_any_flight() {
        assert_eq!(Least(u16::MAX - 1).bytes(), 65_534);
        assert_eq!(Least::NEVER.bytes(), usize::MAX);
    }

    #[test]
    fn the_server_side_knows_its_direction_better_and_whoever_prefers_bytes_gets_them() {
        let [any, own, offered] = [0, 300, 450].map(Least);
        assert_eq!(agreed(None, offered), offered);
        assert_eq!(agreed(Some(own), offered), own);
        assert_eq!(agreed(Some(own), any), any);
        assert_eq!(agreed(Some(any), offered), any);
    }
}
