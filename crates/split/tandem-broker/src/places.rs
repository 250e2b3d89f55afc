//! Who may hold a connection at the door, and how many at a time.
//!
//! Is: a limit on how often a network comes, and on how many connections it holds; members that are
//! well, or were, or are listed, are counted by themselves, by their addresses. Is not: the
//! counting (`tandem_barnraising::places`), nor the number of connections in all, which the
//! listener sees to.
//!
//! Invariants: whatever strangers do, a member's connections are not counted with theirs, and there
//! are places that they do not get; joining alone makes nobody a member here, so that a flood of
//! joins gets no more places than strangers have; a place is free again when its holder is dropped.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tandem_barnraising::admission::{Limiter, Rate};
use tandem_barnraising::places::{self, Claim, Holder, Id, Rank};
use tandem_wire::Instant;
use tandem_wire::Network;
use tokio::sync::watch;

/// Places in all. One takes some 50 kB.
pub(crate) const ALL: usize = 512;
/// Those of strangers together: a quarter is left to members.
const STRANGERS: usize = ALL - ALL / 4;
/// Connections that one household (/24 of IPv4, /56 of IPv6) may hold, or one member,
const EACH: usize = 8;
/// and strangers in a /16 or /48, of which one holder may have all households,
const STRANGERS_WIDE: usize = 32;
/// and members there: eight such networks take all places only if each is full of members.
const MEMBERS_WIDE: usize = 64;

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
    /// Connections held. Members are the known ones.
    held: places::Places,
}

/// The right to one connection, which ends with it.
#[derive(Debug)]
pub(crate) struct Place {
    counts: Arc<Mutex<Counts>>,
    id: Id,
}

impl Places {
    /// `members` are addresses of those that are well, or were, or are listed.
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
        let rank = match is_member {
            true => Rank::Known,
            false => Rank::Stranger,
        };
        let mut counts = lock(&self.counts);
        let admitted = match rank {
            Rank::Known => counts.known.admits_member(from, now, self.rate),
            Rank::Stranger => counts.strangers.admits(from, now, self.rate),
        };
        if !admitted {
            return None;
        }
        let taken = counts.held.take(&claims(from, rank), rank).ok()?;
        // Connections here last for seconds: none has to go for another.
        counts.held.keep(taken.id);
        Some(Place {
            counts: Arc::clone(&self.counts),
            id: taken.id,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.counts).held.leave(self.id);
    }
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For whom a connection counts, and how many each may hold.
fn claims(from: IpAddr, rank: Rank) -> Vec<Claim> {
    let claim = |holder, most| Claim { holder, most };
    match rank {
        Rank::Stranger => vec![
            claim(Holder::Strangers(Network::household(from)), EACH),
            claim(Holder::Strangers(Network::wide(from)), STRANGERS_WIDE),
            claim(Holder::Strangers(Network::ALL), STRANGERS),
        ],
        Rank::Known => vec![
            claim(Holder::Known(Network::host(from)), EACH),
            claim(Holder::Known(Network::wide(from)), MEMBERS_WIDE),
        ],
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
        assert_eq!(six.len() + wide.len(), STRANGERS_WIDE);
        assert!(
            places
                .take(address("2001:db8:1::1"), Instant::ZERO)
                .is_some()
        );
        drop((four, other, six, wide));
        let strangers = Holder::Strangers(Network::ALL);
        assert_eq!(lock(&places.counts).held.held(strangers), 0);
        assert!(places.take(address("192.0.2.1"), Instant::ZERO).is_some());
    }

    #[test]
    fn a_16_of_ipv4_holds_few_places_and_strangers_leave_some_to_members() {
        let places = places(&["192.0.2.7"], 1_000_000);
        let of = |site: u32| (0..100).map(move |household: u32| format!("10.{site}.{household}.1"));
        let one = held(&places, of(1));
        assert_eq!(one.len(), STRANGERS_WIDE);
        let all = held(&places, (2..100).flat_map(of));
        assert_eq!(one.len() + all.len(), STRANGERS);
        assert!(places.take(address("2001:db8::1"), Instant::ZERO).is_none());
        assert!(places.take(address("192.0.2.7"), Instant::ZERO).is_some());
    }

    #[test]
    fn members_of_one_network_hold_no_more_than_its_places() {
        let texts: Vec<String> = (0..200).map(|host| format!("2001:db8::{host:x}")).collect();
        let mut texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        texts.push("2001:db8:1::1");
        let places = places(&texts, 1_000);
        let crowd = held(&places, (0..200).map(|host| format!("2001:db8::{host:x}")));
        assert_eq!(crowd.len(), MEMBERS_WIDE);
        let other = address("2001:db8:1::1");
        assert!(places.take(other, Instant::ZERO).is_some());
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
