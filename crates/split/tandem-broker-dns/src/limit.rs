//! How much one network is answered over UDP, so that nobody can be flooded through us in his own
//! name.
//!
//! Is: a budget of bytes for each network, /24 of IPv4 and /56 of IPv6, in a table of fixed size
//! that a network is found in by a keyed hash: who floods under very many names fills the table and
//! costs the others, at worst, an answer that sends them to TCP. Is not: a limit on TCP,
//! whose clients have shown that they are where they say.
//!
//! Why bytes: what an attacker wants of us is bytes at the victim. Resolvers keep answers, so
//! honest ones ask seldom.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

/// Bytes a second that one network is sent in the long run: some twenty signed answers.
pub(crate) const RATE: u32 = 16 * 1024;

/// Seconds of that rate that may come at once.
pub(crate) const BURST: Duration = Duration::from_secs(4);

/// Networks that are told apart, roughly.
const BUCKETS: usize = 16_384;

/// What is to be done with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Send it.
    Answer,
    /// Send word that TCP is needed: no longer than the question was, and whoever is there comes
    /// again.
    Cut,
    /// Say nothing.
    Drop,
}

/// The budgets.
#[derive(Debug)]
pub(crate) struct Limit {
    hash: RandomState,
    /// For each bucket the time up to which its budget is spent.
    spent: Vec<Duration>,
    over: u64,
}

impl Default for Limit {
    fn default() -> Self {
        Self {
            hash: RandomState::new(),
            spent: vec![Duration::ZERO; BUCKETS],
            over: 0,
        }
    }
}

impl Limit {
    /// What to do with an answer of this length; `now` is any clock that does not go back.
    pub(crate) fn verdict(&mut self, to: IpAddr, length: usize, now: Duration) -> Verdict {
        let index = self.hash.hash_one(network(to)) as usize % BUCKETS;
        let cost = Duration::from_secs(1) * u32::try_from(length).unwrap_or(u32::MAX) / RATE;
        let spent = self.spent[index].max(now) + cost;
        if spent <= now + BURST {
            self.spent[index] = spent;
            return Verdict::Answer;
        }
        self.over += 1;
        if self.over.is_multiple_of(2) {
            Verdict::Drop
        } else {
            Verdict::Cut
        }
    }
}

/// The network that an address counts to.
pub(crate) fn network(address: IpAddr) -> (u8, u128) {
    match address.to_canonical() {
        IpAddr::V4(address) => (4, u128::from(address.to_bits() >> 8)),
        IpAddr::V6(address) => (6, address.to_bits() >> 72),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_network_gets_its_burst_and_then_its_rate() {
        let mut limit = Limit::default();
        let mut sent = |second: u64| {
            let now = Duration::from_secs(100 + second);
            let verdicts = (0..2000).map(|_| limit.verdict(address("192.0.2.7"), 600, now));
            let answers = verdicts
                .filter(|verdict| *verdict == Verdict::Answer)
                .count();
            answers * 600
        };
        let rate = RATE as usize;
        let burst = rate * BURST.as_secs() as usize;
        assert!((burst - 600..=burst).contains(&sent(0)));
        for second in 1..5 {
            assert!(sent(second) <= rate + 600);
        }
        assert!(sent(60) >= burst - 600, "and has it again later");
    }

    #[test]
    fn what_is_over_is_half_dropped_and_half_sent_to_tcp() {
        let mut limit = Limit::default();
        let now = Duration::from_secs(9);
        let all: Vec<Verdict> = (0..1000)
            .map(|_| limit.verdict(address("192.0.2.7"), 1000, now))
            .collect();
        let count = |wanted| all.iter().filter(|verdict| **verdict == wanted).count();
        assert!(count(Verdict::Cut).abs_diff(count(Verdict::Drop)) <= 1);
        assert!(count(Verdict::Answer) < 100);
    }

    #[test]
    fn one_network_does_not_speak_for_its_neighbour() {
        let mut limit = Limit::default();
        let now = Duration::from_secs(9);
        for (full, same, other) in [
            ("192.0.2.7", "192.0.2.200", "198.51.100.1"),
            ("2001:db8::1", "2001:db8:0:ff::1", "2001:db8:1::1"),
        ] {
            while limit.verdict(address(full), 1000, now) == Verdict::Answer {}
            assert_ne!(limit.verdict(address(same), 1000, now), Verdict::Answer);
            let answered = limit.verdict(address(other), 1000, now) == Verdict::Answer;
            let shared = |text| limit.hash.hash_one(network(address(text))) as usize % BUCKETS;
            assert!(answered || shared(full) == shared(other));
        }
    }
}
