//! Who may hold a connection at the door, and how many at a time.
//!
//! Is: a limit on how often a network comes, and on how many connections it holds; members, by
//! their addresses, are counted by themselves. Is not: the number of connections in all, which the
//! listener sees to.
//!
//! Invariants: whatever strangers do, a member's connections are not counted with theirs; a place
//! is free again when its holder is dropped.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tandem_barnraising::admission::{Limiter, Rate};
use tandem_wire::Instant;
use tokio::sync::watch;

/// Connections that one network (/24 of IPv4, /56 of IPv6) may hold, or one member,
const EACH: usize = 8;
/// and a /48 of IPv6, of which one holder may have all networks.
const EACH_WIDE: usize = 32;

/// See above.
#[derive(Debug)]
pub(crate) struct Places {
    members: watch::Receiver<Arc<BTreeSet<IpAddr>>>,
    rate: Rate,
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    strangers: Limiter,
    known: Limiter,
    /// Connections held, by whom they count for.
    held: HashMap<Part, usize>,
}

/// All addresses that begin with these bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Part {
    bits: u128,
    length: u8,
}

/// The right to one connection, which ends with it.
#[derive(Debug)]
pub(crate) struct Place {
    counts: Arc<Mutex<Counts>>,
    parts: Vec<Part>,
}

impl Places {
    pub(crate) fn new(members: watch::Receiver<Arc<BTreeSet<IpAddr>>>, rate: Rate) -> Self {
        Self {
            members,
            rate,
            counts: Arc::default(),
        }
    }

    /// A place for who comes from there now, unless it comes too often or holds too many.
    pub(crate) fn take(&self, from: IpAddr, now: Instant) -> Option<Place> {
        let from = from.to_canonical();
        let is_member = self.members.borrow().contains(&from);
        let mut counts = lock(&self.counts);
        let (admitted, parts) = match is_member {
            true => (
                counts.known.admits_member(from, now, self.rate),
                vec![part(from, 128)],
            ),
            false => (
                counts.strangers.admits(from, now, self.rate),
                networks(from),
            ),
        };
        let has_room = |part: &Part| {
            let most = if part.length == 48 { EACH_WIDE } else { EACH };
            counts.held.get(part).is_none_or(|held| *held < most)
        };
        if !admitted || !parts.iter().all(has_room) {
            return None;
        }
        for part in &parts {
            *counts.held.entry(*part).or_default() += 1;
        }
        Some(Place {
            counts: Arc::clone(&self.counts),
            parts,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = lock(&self.counts);
        for part in &self.parts {
            if let Some(held) = counts.held.get_mut(part) {
                *held -= 1;
                if *held == 0 {
                    counts.held.remove(part);
                }
            }
        }
    }
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The networks that a stranger's connection counts for.
fn networks(from: IpAddr) -> Vec<Part> {
    match from {
        // As mapped into IPv6, which is no address of its own there: a /24.
        IpAddr::V4(_) => vec![part(from, 96 + 24)],
        IpAddr::V6(_) => vec![part(from, 56), part(from, 48)],
    }
}

fn part(address: IpAddr, length: u8) -> Part {
    let bits = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    };
    Part {
        bits: bits & (u128::MAX << (128 - u32::from(length))),
        length,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn places(members: &[&str], burst: u32) -> Places {
        let members = members.iter().map(|text| address(text)).collect();
        let rate = Rate {
            every: Duration::from_secs(10),
            burst,
        };
        // A receiver keeps its last value also when the sender has gone.
        let (_, receiver) = watch::channel(Arc::new(members));
        Places::new(receiver, rate)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn held(places: &Places, from: impl Iterator<Item = String>) -> Vec<Place> {
        from.filter_map(|from| places.take(address(&from), Instant::ZERO))
            .collect()
    }

    #[test]
    fn a_network_holds_a_few_places_and_has_them_again() {
        let places = places(&[], 1_000);
        let four = held(&places, (0..100).map(|last| format!("192.0.2.{last}")));
        assert_eq!(four.len(), EACH);
        let other = held(&places, (0..100).map(|last| format!("192.0.3.{last}")));
        assert_eq!(other.len(), EACH, "of another network");
        let six = held(&places, (0..100).map(|last| format!("2001:db8::{last:x}")));
        assert_eq!(six.len(), EACH);
        let wide = held(
            &places,
            (1..100).map(|net| format!("2001:db8:0:{net:x}00::1")),
        );
        assert_eq!(six.len() + wide.len(), EACH_WIDE);
        assert!(
            places
                .take(address("2001:db8:1::1"), Instant::ZERO)
                .is_some()
        );
        drop((four, other, six, wide));
        assert!(lock(&places.counts).held.is_empty());
        assert!(places.take(address("192.0.2.1"), Instant::ZERO).is_some());
    }

    #[test]
    fn strangers_next_door_keep_no_member_out() {
        let places = places(&["192.0.2.7"], 9);
        let strangers = held(&places, (100..200).map(|last| format!("192.0.2.{last}")));
        assert_eq!(strangers.len(), EACH);
        let member = held(&places, (0..100).map(|_| "::ffff:192.0.2.7".to_owned()));
        assert_eq!(member.len(), EACH, "nor does it hold more");
        drop((strangers, member));
        // Both have used up how often they may come.
        for text in ["192.0.2.100", "192.0.2.7"] {
            assert!(
                places.take(address(text), Instant::ZERO).is_none(),
                "{text}"
            );
        }
    }
}
