//! Volunteers that have served well, by where they came from.
//!
//! Why not by key: somebody who connects shows it only after a handshake, and who may have a
//! handshake is the question.
//!
//! Is not: proof of honesty. Anybody can send a client of his own through a volunteer of his own.
//! What that gains is a share of what is kept for those that are known, by network, as the port's
//! rules have it ([`super::Fair`]).
//!
//! Invariants: at most [`MAX_KNOWN`] are remembered, [`MAX_KNOWN_WIDE`] of a /16 or /48; who makes
//! room has not served for the longest time.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use tandem_wire::Instant;

use tandem_wire::Network;

/// How long a volunteer is known after it has served: it may be without clients over night.
const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);
/// Addresses of IPv4 and /64 of IPv6 that are remembered: 100 kB.
const MAX_KNOWN: usize = 1024;
/// Those of a /16 or /48: sixteen such networks have to be full before others make room.
const MAX_KNOWN_WIDE: usize = MAX_KNOWN / 16;

/// See above.
#[derive(Debug, Default)]
pub(super) struct Known {
    networks: BTreeMap<Network, Seen>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    wide: Network,
    last: Instant,
}

impl Seen {
    fn counts(&self, now: Instant) -> bool {
        now.saturating_since(self.last) < REMEMBERED
    }
}

impl Known {
    pub(super) fn has(&self, from: IpAddr, now: Instant) -> bool {
        let seen = self.networks.get(&Network::narrow(from));
        seen.is_some_and(|seen| seen.counts(now))
    }

    /// A client got what it asked for through a volunteer at this address.
    pub(super) fn note(&mut self, from: IpAddr, now: Instant) {
        let (narrow, wide) = (Network::narrow(from), Network::wide(from));
        if !self.networks.contains_key(&narrow) {
            self.make_room(wide, now);
        }
        self.networks.insert(narrow, Seen { wide, last: now });
    }

    fn make_room(&mut self, wide: Network, now: Instant) {
        self.networks.retain(|_, seen| seen.counts(now));
        let neighbours = self.networks.values().filter(|seen| seen.wide == wide);
        let is_crowded = neighbours.count() >= MAX_KNOWN_WIDE;
        if !is_crowded && self.networks.len() < MAX_KNOWN {
            return;
        }
        let goes = self
            .networks
            .iter()
            .filter(|(_, seen)| !is_crowded || seen.wide == wide)
            .min_by_key(|(_, seen)| seen.last)
            .map(|(network, _)| *network);
        if let Some(network) = goes {
            self.networks.remove(&network);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn who_has_served_is_known_for_a_day_and_so_is_its_64() {
        let mut known = Known::default();
        let day = REMEMBERED.as_secs();
        known.note(address("2001:db8::1"), at(5));
        known.note(address("192.0.2.1"), at(5));
        for (text, is_known) in [
            ("2001:db8::2", true),
            ("2001:db8:0:1::1", false),
            ("::ffff:192.0.2.1", true),
            ("192.0.2.2", false),
        ] {
            assert_eq!(
                known.has(address(text), at(5 + day - 1)),
                is_known,
                "{text}"
            );
            assert!(!known.has(address(text), at(5 + day)), "{text}");
        }
        known.note(address("192.0.2.1"), at(day));
        assert!(known.has(address("192.0.2.1"), at(5 + day)));
        known.note(address("198.51.100.1"), at(6 + day));
        assert_eq!(known.networks.len(), 2, "the /64 is forgotten");
    }

    #[test]
    fn a_crowd_in_one_network_makes_nobody_else_forgotten() {
        let mut known = Known::default();
        known.note(address("192.0.2.1"), at(0));
        for subnet in 0..2_000_u64 {
            known.note(
                address(&format!("2001:db8:0:{subnet:x}::1")),
                at(1 + subnet),
            );
        }
        assert!(known.has(address("192.0.2.1"), at(2_000)));
        assert_eq!(known.networks.len(), 1 + MAX_KNOWN_WIDE);
        assert!(
            known.has(address("2001:db8:0:7cf::1"), at(2_001)),
            "the last"
        );
        assert!(!known.has(address("2001:db8:0:0::1"), at(2_001)));
    }

    #[test]
    fn where_all_is_full_who_has_not_served_for_the_longest_time_is_forgotten() {
        let mut known = Known::default();
        let site = |number: u64| address(&format!("2001:db8:{number:x}::1"));
        let most = MAX_KNOWN as u64;
        for number in 0..most {
            known.note(site(number), at(number));
        }
        known.note(site(0), at(most));
        known.note(site(most), at(most));
        assert_eq!(known.networks.len(), MAX_KNOWN);
        assert!(known.has(site(0), at(most)) && known.has(site(most), at(most)));
        assert!(!known.has(site(1), at(most)));
    }
}
