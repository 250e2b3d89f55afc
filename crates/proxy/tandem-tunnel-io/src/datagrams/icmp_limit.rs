//! How often clients hear that their datagrams do not arrive: as often as Linux says it by default
//! (`icmp_ratelimit`, `icmp_msgs_per_sec`, `icmp_msgs_burst`; `networking/ip-sysctl.rst`).
//!
//! Is not: a clock, nor the messages (`answers.rs`).
//!
//! Invariants: neither one client nor all of them together hear more than their rate says; of a
//! client that may hear everything again nothing is remembered for long, so that the rate of all
//! bounds the memory.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use tandem_wire::Instant;

/// So many at once, and then one after each time of this length.
#[derive(Debug, Clone, Copy)]
struct Rate {
    burst: u32,
    every: Duration,
}

/// For one client (`XRLIM_BURST_FACTOR` in net/ipv4/inetpeer.c).
const EACH: Rate = Rate {
    burst: 6,
    every: Duration::from_secs(1),
};

/// For all of them.
const ALL: Rate = Rate {
    burst: 50,
    every: Duration::from_millis(1),
};

/// Clients that are looked through for those to be forgotten when there are so many more.
const SWEEP: usize = 1024;

impl Rate {
    /// When the whole burst is there again, if it was or will be at `full_at` and one message goes
    /// now. `None`: it may not go.
    fn spent(self, full_at: Instant, now: Instant) -> Option<Instant> {
        let full_at = full_at.max(now) + self.every;
        (full_at <= now + self.every * self.burst).then_some(full_at)
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct IcmpLimit {
    /// When the burst of all is there again.
    all: Instant,
    /// When that of a client is.
    each: HashMap<IpAddr, Instant>,
    /// When there are so many, those go whose burst is there.
    sweep_at: usize,
}

impl IcmpLimit {
    pub(super) fn new() -> Self {
        Self {
            all: Instant::ZERO,
            each: HashMap::new(),
            sweep_at: SWEEP,
        }
    }

    /// Whether this client may hear something now; then it does.
    pub(super) fn take(&mut self, client: IpAddr, now: Instant) -> bool {
        let full_at = self.each.get(&client).copied().unwrap_or_default();
        let (Some(all), Some(each)) = (ALL.spent(self.all, now), EACH.spent(full_at, now)) else {
            return false;
        };
        if self.each.len() >= self.sweep_at {
            self.each.retain(|_, full_at| *full_at > now);
            self.sweep_at = self.each.len() + SWEEP;
        }
        self.all = all;
        self.each.insert(client, each);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn client(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// How many of a hundred this client hears.
    fn heard(limit: &mut IcmpLimit, number: u32, now: Instant) -> usize {
        (0..100).filter(|_| limit.take(client(number), now)).count()
    }

    #[test]
    fn a_client_hears_six_and_then_one_a_second_and_others_are_not_affected() {
        let mut limit = IcmpLimit::new();
        assert_eq!(heard(&mut limit, 1, at(0)), 6);
        assert_eq!(heard(&mut limit, 2, at(0)), 6);
        assert_eq!(heard(&mut limit, 1, at(999)), 0);
        assert_eq!(heard(&mut limit, 1, at(1_000)), 1);
        assert_eq!(heard(&mut limit, 1, at(3_000)), 2);
        // A rest gives no more than the burst.
        assert_eq!(heard(&mut limit, 1, at(3_600_000)), 6);
    }

    #[test]
    fn all_clients_together_hear_fifty_and_then_a_thousand_a_second() {
        let mut limit = IcmpLimit::new();
        let mut many = |clients: std::ops::Range<u32>, now| {
            clients
                .filter(|number| limit.take(client(*number), now))
                .count()
        };
        assert_eq!(many(0..100, at(0)), 50);
        assert_eq!(many(100..200, at(10)), 10);
        // Who was refused has lost nothing of its own.
        assert_eq!(many(90..100, at(1_000)), 10);
    }

    #[test]
    fn clients_that_may_hear_everything_again_are_forgotten() {
        let mut limit = IcmpLimit::new();
        for number in 0..100_000 {
            limit.take(client(number), at(number.into()));
        }
        assert!(limit.each.len() <= 2 * SWEEP + 1, "{}", limit.each.len());
    }
}
