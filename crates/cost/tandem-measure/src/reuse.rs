//! Which connection offers an earlier session: a running counter of those that did, held against
//! the share that was asked for (Vijayabharathi 2012, after Apostolopoulos, Peris and Saha 1999).
//!
//! 50 % gives new, reused, new, reused. Where there is nothing to offer yet, the connection is new,
//! and the counter makes up for it later.

use serde::Serialize;

/// A share, 0 to 100 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Percent(u8);

impl Percent {
    /// None.
    pub const ZERO: Self = Self(0);
    /// All.
    pub const ALL: Self = Self(100);

    /// `None` above 100.
    #[must_use]
    pub fn new(percent: u8) -> Option<Self> {
        (percent <= 100).then_some(Self(percent))
    }

    /// 0 to 100.
    #[must_use]
    pub fn value(self) -> u8 {
        self.0
    }
}

/// What a connection opens with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// A new session.
    New,
    /// An earlier session.
    Earlier,
}

/// The running counter of one client.
#[derive(Debug, Clone)]
pub struct ReuseCounter {
    share: Percent,
    connections: u64,
    offers: u64,
}

impl ReuseCounter {
    /// Before the first connection.
    #[must_use]
    pub fn new(share: Percent) -> Self {
        Self {
            share,
            connections: 0,
            offers: 0,
        }
    }

    /// What the next connection opens with, if it can.
    #[must_use]
    pub fn next(&self) -> Offer {
        if self.offers * 100 < self.connections * u64::from(self.share.0) {
            Offer::Earlier
        } else {
            Offer::New
        }
    }

    /// Counts a connection by what it did open with.
    pub fn opened(&mut self, with: Offer) {
        self.connections += 1;
        match with {
            Offer::New => {}
            Offer::Earlier => self.offers += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(percent: u8, connections: usize) -> String {
        let mut counter = ReuseCounter::new(Percent::new(percent).expect("a share"));
        (0..connections)
            .map(|_| {
                let next = counter.next();
                counter.opened(next);
                match next {
                    Offer::New => 'N',
                    Offer::Earlier => 'R',
                }
            })
            .collect()
    }

    #[test]
    fn half_gives_new_reused_in_turns() {
        assert_eq!(pattern(50, 8), "NRNRNRNR");
        assert_eq!(pattern(0, 4), "NNNN");
        // The paper (docs/measuring.md): "only the first TLS session setup involves a full
        // handshake".
        assert_eq!(pattern(100, 6), "NRRRRR");
        assert_eq!(pattern(80, 10), "NRRRRNRRRR");
    }

    #[test]
    fn any_share_is_kept_within_one_connection() {
        for percent in 0..=100 {
            let pattern = pattern(percent, 1_000);
            let reused = pattern.matches('R').count();
            let wanted = usize::from(percent) * 10;
            assert!(reused.abs_diff(wanted) <= 1, "{percent}: {reused}");
        }
    }

    #[test]
    fn what_could_not_be_offered_is_made_up_for() {
        let mut counter = ReuseCounter::new(Percent::new(50).expect("a share"));
        for _ in 0..5 {
            counter.opened(Offer::New);
        }
        for _ in 0..5 {
            assert_eq!(counter.next(), Offer::Earlier);
            counter.opened(Offer::Earlier);
        }
        assert_eq!(counter.next(), Offer::New);
    }

    #[test]
    fn no_share_is_above_the_whole() {
        assert_eq!(Percent::new(101), None);
    }
}
