//! Places for handshakes: so many at a time, and so many of one network.
//!
//! Is not: a bound on tunnels that are up.
//!
//! Invariant: whoever holds all places of a network keeps no other network out. A site may have
//! many machines' worth of addresses, and a provider many sites', so that each counts as one too.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;

/// Handshakes at a time. Nobody is known before the end of one, and it may take a minute.
const MAX: usize = 32;

/// What may be had of the places.
const SHARES: [Share; 3] = [
    // A machine. A client side has one handshake, or two while it replaces a tunnel.
    Share {
        ipv4: 32,
        ipv6: 64,
        max: MAX / 8,
    },
    // A site (RFC 6177, section 2).
    Share {
        ipv4: 24,
        ipv6: 48,
        max: MAX / 4,
    },
    // A provider.
    Share {
        ipv4: 16,
        ipv6: 32,
        max: MAX / 2,
    },
];

/// The share of each network whose prefix has this length.
#[derive(Clone, Copy, Debug)]
struct Share {
    ipv4: u8,
    ipv6: u8,
    max: usize,
}

impl Share {
    /// The network that this address is in.
    fn network(self, address: IpAddr) -> Option<IpNet> {
        let len = match address {
            IpAddr::V4(_) => self.ipv4,
            IpAddr::V6(_) => self.ipv6,
        };
        // No prefix is longer than the address.
        Some(IpNet::new(address, len).ok()?.trunc())
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Places(Mutex<Vec<IpAddr>>);

/// A place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    from: IpAddr,
}

impl Places {
    /// A place for somebody from this address, if there is one.
    pub(super) fn take(self: &Arc<Self>, from: IpAddr) -> Option<Place> {
        let from = from.to_canonical();
        let mut taken = self.lock();
        let has_share = SHARES.iter().all(|share| {
            let network = share.network(from);
            let of_it = taken.iter().filter(|one| share.network(**one) == network);
            of_it.count() < share.max
        });
        if taken.len() >= MAX || !has_share {
            return None;
        }
        taken.push(from);
        Some(Place {
            places: Arc::clone(self),
            from,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<IpAddr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        if let Some(index) = taken.iter().position(|one| *one == self.from) {
            taken.swap_remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(places: &Arc<Places>, from: &str) -> Option<Place> {
        places.take(from.parse().expect("an address"))
    }

    /// The places that come of it when all of these ask for one.
    fn taken(places: &Arc<Places>, from: impl Iterator<Item = String>) -> Vec<Place> {
        from.filter_map(|from| take(places, &from)).collect()
    }

    #[test]
    fn a_machine_a_site_and_a_provider_leave_places_to_others() {
        for (crowd, len, neighbour) in [
            // From one address or /64, one /24 or /48, one /16 or /32.
            (|_| "192.0.2.1".to_owned(), 4, "192.0.2.2"),
            (|n| format!("2001:db8::{n:x}"), 4, "2001:db8:0:1::1"),
            (|n| format!("192.0.2.{n}"), 8, "192.0.3.1"),
            (|n| format!("2001:db8:0:{n:x}::1"), 8, "2001:db8:1::1"),
            (|n| format!("192.0.{n}.1"), 16, "192.1.2.1"),
            (|n| format!("2001:db8:{n:x}::1"), 16, "2001:db9::1"),
        ] as [(fn(u32) -> String, usize, &str); 6]
        {
            let places = Arc::default();
            let held = taken(&places, (0..100).map(crowd));
            assert_eq!(held.len(), len, "{}", crowd(0));
            assert!(take(&places, &crowd(100)).is_none(), "{}", crowd(100));
            assert!(take(&places, neighbour).is_some(), "{neighbour}");
        }
    }

    #[test]
    fn all_have_a_bound_and_what_is_given_back_is_free() {
        let places = Arc::default();
        let mut held = taken(&places, (0..100).map(|n| format!("10.{n}.0.1")));
        assert_eq!(held.len(), MAX);
        assert!(take(&places, "2001:db8::1").is_none());
        held.pop();
        assert!(take(&places, "2001:db8::1").is_some());
        held.clear();
        assert_eq!(
            taken(&places, vec!["::ffff:192.0.2.1".to_owned(); 9].into_iter()).len(),
            4
        );
        assert!(places.lock().is_empty());
    }

    #[test]
    fn an_address_of_ipv4_is_the_same_one_mapped_into_ipv6() {
        let places = Arc::default();
        let _held = taken(&places, vec!["::ffff:192.0.2.1".to_owned(); 4].into_iter());
        assert!(take(&places, "192.0.2.1").is_none());
    }
}
