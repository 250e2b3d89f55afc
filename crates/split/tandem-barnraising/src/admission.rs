//! Who may join: the site's policy, and how often somebody may ask.
//!
//! Is: a limit on requests from one network, since joining is cheap for who asks and makes work for
//! the broker (thesis, section 4.1). Is not: whether the volunteer is any good; that is seen when
//! it serves ([`crate::health`]).
//!
//! Invariant: at most [`MAX_NETWORKS`] networks are remembered, and only while their requests
//! count.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use tandem_wire::Instant;

use crate::member::PublicKey;
use tandem_wire::Network;

/// Most networks with requests that still count. Who asks from one more is refused, and may come
/// again.
pub const MAX_NETWORKS: usize = 16_384;

/// A /16 or /48 may ask as often as so many of its households: it has 256 of them, and one holder
/// may have all. At the default rate that is two strangers a second, after 80 at once.
const HOUSEHOLDS: u32 = 4;

/// Whom a site takes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Policy {
    /// Anybody: content is vouched for by the client's own TLS.
    #[default]
    Anybody,
    /// Only these keys.
    Listed(BTreeSet<PublicKey>),
    /// Nobody new: who is a member stays one.
    Closed,
}

/// What somebody is who asks to join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// A stranger.
    New,
    /// A member, who renews or has moved.
    Member,
}

impl Policy {
    /// Whether it takes this one.
    #[must_use]
    pub fn takes(&self, key: &PublicKey, standing: Standing) -> bool {
        match (self, standing) {
            (Self::Anybody, Standing::New | Standing::Member) => true,
            (Self::Listed(keys), Standing::New | Standing::Member) => keys.contains(key),
            (Self::Closed, Standing::Member) => true,
            (Self::Closed, Standing::New) => false,
        }
    }

    /// Whether who runs the site knows its members, so that none has to be kept from taking more
    /// than a share ([`crate::shares`]).
    #[must_use]
    pub fn vouches(&self) -> bool {
        match self {
            Self::Listed(_) => true,
            // Members of a closed site joined when it was open.
            Self::Anybody | Self::Closed => false,
        }
    }
}

/// How often a network may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Time that one request uses up.
    pub every: Duration,
    /// Requests that may come at once.
    pub burst: u32,
}

impl Default for Rate {
    /// A volunteer renews about once a minute: so many in one network are welcome, after a start of
    /// twenty at once.
    fn default() -> Self {
        Self {
            every: Duration::from_secs(2),
            burst: 20,
        }
    }
}

/// Counts requests by network: of strangers by household and by /16 or /48, of members by address.
#[derive(Debug, Default)]
pub struct Limiter {
    /// Until when the requests of a network use up its time, as if each took [`Rate::every`].
    busy_until: BTreeMap<Network, Instant>,
}

impl Limiter {
    /// Whether a request from this address may be taken now; it counts for its networks if so.
    pub fn admits(&mut self, from: IpAddr, now: Instant, rate: Rate) -> bool {
        let wide = Rate {
            every: rate.every / HOUSEHOLDS,
            burst: rate.burst.saturating_mul(HOUSEHOLDS),
        };
        let counted = [
            (Network::household(from), rate),
            (Network::wide(from), wide),
        ];
        self.admits_as(&counted, now)
    }

    /// The same for an address that nobody else's requests count for: a member's. Not to be mixed
    /// with [`Self::admits`] in one limiter.
    pub fn admits_member(&mut self, from: IpAddr, now: Instant, rate: Rate) -> bool {
        self.admits_as(&[(Network::host(from), rate)], now)
    }

    fn admits_as(&mut self, counted: &[(Network, Rate)], now: Instant) -> bool {
        if !self.has_room(counted) {
            self.busy_until.retain(|_, until| *until > now);
            if !self.has_room(counted) {
                return false;
            }
        }
        let allowed = counted.iter().all(|(network, rate)| {
            let waits = self.start(network, now).saturating_since(now);
            waits + rate.every <= rate.every * rate.burst.max(1)
        });
        if allowed {
            for (network, rate) in counted {
                let until = self.start(network, now) + rate.every;
                self.busy_until.insert(*network, until);
            }
        }
        allowed
    }

    /// Whether all of these can be remembered.
    fn has_room(&self, counted: &[(Network, Rate)]) -> bool {
        let is_new = |(network, _): &&(Network, Rate)| !self.busy_until.contains_key(network);
        self.busy_until.len() + counted.iter().filter(is_new).count() <= MAX_NETWORKS
    }

    /// When the time that one more request takes begins.
    fn start(&self, network: &Network, now: Instant) -> Instant {
        self.busy_until
            .get(network)
            .copied()
            .map_or(now, |until| until.max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate {
        every: Duration::from_secs(10),
        burst: 3,
    };

    fn at(seconds: u64) -> Instant {
        Instant::from_micros(seconds * 1_000_000)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_network_has_its_burst_and_then_one_at_a_time() {
        let mut limiter = Limiter::default();
        let from = address("192.0.2.1");
        let taken = |limiter: &mut Limiter, seconds| limiter.admits(from, at(seconds), RATE);
        assert_eq!(
            [0, 0, 0, 0, 9].map(|now| taken(&mut limiter, now)),
            [true, true, true, false, false]
        );
        // What is refused uses nothing up.
        assert_eq!(
            [10, 10, 20].map(|now| taken(&mut limiter, now)),
            [true, false, true]
        );
        assert_eq!(
            [500; 4].map(|now| taken(&mut limiter, now)),
            [true, true, true, false]
        );
    }

    #[test]
    fn networks_are_told_apart_and_the_addresses_in_one_are_not() {
        let mut limiter = Limiter::default();
        let once = Rate { burst: 1, ..RATE };
        for (first, same, other) in [
            ("192.0.2.1", "192.0.2.200", "192.0.3.1"),
            ("2001:db8::1", "2001:db8:0:ff::1", "2001:db8:0:100::1"),
            ("::ffff:198.51.100.1", "198.51.100.2", "::ffff:198.51.101.1"),
        ] {
            assert!(limiter.admits(address(first), at(0), once), "{first}");
            assert!(!limiter.admits(address(same), at(0), once), "{same}");
            assert!(limiter.admits(address(other), at(0), once), "{other}");
        }
    }

    #[test]
    fn a_wide_network_has_the_time_of_a_few_of_its_households() {
        for (first, other) in [("2001:db8", "2001:db9"), ("192.0", "192.1")] {
            let household = |wide: &str, number: u32| match wide.contains(':') {
                true => address(&format!("{wide}:0:{number:x}00::1")),
                false => address(&format!("{wide}.{number}.1")),
            };
            let mut limiter = Limiter::default();
            let mut taken = |wide, seconds| {
                (0..250)
                    .filter(|number| limiter.admits(household(wide, *number), at(seconds), RATE))
                    .count()
            };
            assert_eq!(taken(first, 0), 12, "{first}");
            assert_eq!(taken(first, 5), 2, "{first}");
            assert_eq!(taken(other, 5), 12, "{other}");
        }
    }

    #[test]
    fn a_member_has_a_budget_of_its_own() {
        let mut limiter = Limiter::default();
        let once = Rate { burst: 1, ..RATE };
        for text in ["192.0.2.1", "192.0.2.200", "2001:db8::1", "2001:db8::2"] {
            assert!(limiter.admits_member(address(text), at(0), once), "{text}");
            assert!(!limiter.admits_member(address(text), at(0), once), "{text}");
        }
        let mapped = address("::ffff:192.0.2.1");
        assert!(!limiter.admits_member(mapped, at(0), once));
    }

    #[test]
    fn a_flood_from_everywhere_is_remembered_only_while_it_counts() {
        let mut limiter = Limiter::default();
        // Each in a /16 of its own, so that it is remembered twice.
        let from = |number: u32| IpAddr::from(std::net::Ipv4Addr::from_bits(number << 16));
        let most = MAX_NETWORKS as u32 / 2;
        for number in 0..most {
            assert!(limiter.admits(from(number), at(0), RATE));
        }
        let one_more = from(most);
        assert!(!limiter.admits(one_more, at(1), RATE));
        assert!(
            limiter.admits(from(3), at(1), RATE),
            "who is known is judged as before"
        );
        // The others' time is over just now; that of the known one's second request is not.
        assert!(limiter.admits(one_more, at(10), RATE));
        assert_eq!(limiter.busy_until.len(), 3);
        assert!(limiter.admits(from(4), at(60), RATE));
    }
}
