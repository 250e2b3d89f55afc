//! Places for handshakes over TCP: so many at a time, and so many of one network.
//!
//! Is not: a bound on tunnels that are up.
//!
//! Invariant: whoever holds all places of a network keeps no other network out.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Handshakes at a time. Nobody is known before the end of one, and it may take a minute.
const MAX: usize = 32;
/// Handshakes of one IPv4 address or IPv6 network at a time. A client side has one, or two while
/// it replaces a tunnel.
const MAX_OF_ONE: usize = 4;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Places(Mutex<BTreeMap<IpAddr, usize>>);

/// A place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    network: IpAddr,
}

impl Places {
    /// A place for somebody from this address, if there is one.
    pub(super) fn take(self: &Arc<Self>, from: IpAddr) -> Option<Place> {
        let network = network(from);
        let mut taken = self.lock();
        let of_one = taken.get(&network).copied().unwrap_or(0);
        if of_one >= MAX_OF_ONE || taken.values().sum::<usize>() >= MAX {
            return None;
        }
        taken.insert(network, of_one + 1);
        Some(Place {
            places: Arc::clone(self),
            network,
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        match taken.get_mut(&self.network) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => {
                taken.remove(&self.network);
            }
        }
    }
}

/// Addresses of IPv6 come by the /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let network = address.to_bits() & (u128::MAX << 64);
            Ipv6Addr::from_bits(network).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_network_does_not_keep_another_out_and_all_have_a_bound() {
        let places = Arc::new(Places::default());
        let take = |text: &str| places.take(text.parse().expect("an address"));
        let mut held: Vec<_> = (0..MAX_OF_ONE)
            .map(|host| take(&format!("2001:db8::{host}")).expect("a place"))
            .collect();
        assert!(take("2001:db8::9").is_none());
        assert!(take("::ffff:192.0.2.1").is_some());
        held.extend((0..MAX - MAX_OF_ONE).map(|n| take(&format!("192.0.2.{n}")).expect("a place")));
        assert!(take("198.51.100.1").is_none());
        held.remove(0);
        assert!(take("2001:db8::9").is_some());
    }
}
