//! Who has a TCP connection, and whose goes for another.
//!
//! Is not: the counting (`tandem_barnraising::places`).
//!
//! Invariants: whoever comes to a full network, or to a full server, gets the place of the
//! connection that is the oldest there, or in the network that has most; so that asking again and
//! again holds none. A place is free again when its holder is dropped.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tandem_barnraising::places::{self, Claim, Holder, Id, Rank};
use tandem_wire::Network;
use tokio::sync::Notify;

/// Connections at a time,
const ALL: usize = 256;
/// of a household (/24 of IPv4, /56 of IPv6),
const EACH: usize = 16;
/// and of a /16 or /48.
const WIDE: usize = 32;

/// How long a client may take to ask, or to take an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same while over half of all connections are taken.
const PATIENCE_CROWDED: Duration = Duration::from_secs(1);

/// See above.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// All are silent, so that any may go for another.
    held: places::Places,
    open: BTreeMap<Id, Open>,
}

#[derive(Debug)]
struct Open {
    wide: Holder,
    lost: Arc<Notify>,
}

/// The right to one connection, which ends with it.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    id: Id,
    lost: Arc<Notify>,
}

impl Places {
    /// A place for somebody from there, which may be another's.
    pub(crate) fn take(self: &Arc<Self>, from: IpAddr) -> Option<Place> {
        let mut state = self.lock();
        let wide = Holder::Strangers(Network::wide(from));
        let claims = [
            (Holder::Strangers(Network::household(from)), EACH),
            (wide, WIDE),
            (Holder::Everybody, ALL),
        ];
        let claims = claims.map(|(holder, most)| Claim { holder, most });
        let has_room = |claim: &Claim| state.held.held(claim.holder) < claim.most;
        if claims[..2].iter().all(has_room) && !has_room(&claims[2]) {
            state.make_room();
        }
        let taken = state.held.take(&claims, Rank::Stranger).ok()?;
        state.end(taken.displaced);
        let lost = Arc::new(Notify::new());
        let open = Open {
            wide,
            lost: Arc::clone(&lost),
        };
        state.open.insert(taken.id, open);
        Some(Place {
            places: Arc::clone(self),
            id: taken.id,
            lost,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Ends the oldest connection of the network that has most. Of several that have as much it is
    /// the one whose connection is the oldest.
    fn make_room(&mut self) {
        // The last of several is found.
        let wide = self.open.values().rev().map(|open| open.wide);
        let crowd = wide.max_by_key(|wide| self.held.held(*wide));
        let displaced = crowd.and_then(|crowd| self.held.displace(crowd, Rank::Stranger));
        self.end(displaced);
    }

    fn end(&mut self, displaced: Option<Id>) {
        if let Some(open) = displaced.and_then(|id| self.open.remove(&id)) {
            // Also if nobody waits for it yet.
            open.lost.notify_one();
        }
    }
}

impl Place {
    /// How long its client may take now.
    pub(crate) fn patience(&self) -> Duration {
        match self.places.lock().held.held(Holder::Everybody) > ALL / 2 {
            true => PATIENCE_CROWDED,
            false => PATIENCE,
        }
    }

    /// Until another has the place.
    pub(crate) async fn lost(&self) {
        self.lost.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.places.lock();
        state.held.leave(self.id);
        state.open.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(places: &Arc<Places>, from: &str) -> Place {
        let place = places.take(from.parse().expect("an address"));
        place.expect("there is always one")
    }

    fn has(places: &Places, place: &Place) -> bool {
        places.lock().open.contains_key(&place.id)
    }

    #[test]
    fn a_household_and_a_wide_network_go_round_among_themselves() {
        for (household, wide, other) in [
            (
                (|n| format!("192.0.2.{n}")) as fn(u32) -> String,
                (|n| format!("192.0.{n}.1")) as fn(u32) -> String,
                "198.51.100.1",
            ),
            (
                |n| format!("2001:db8::{n:x}"),
                |n| format!("2001:db8:0:{n:x}00::1"),
                "2001:db8:1::1",
            ),
        ] {
            let places = Arc::<Places>::default();
            let other = take(&places, other);
            for (crowd, most) in [(household, EACH), (wide, WIDE)] {
                let held: Vec<Place> = (3..200).map(|n| take(&places, &crowd(n))).collect();
                let left = held.iter().map(|place| has(&places, place));
                let expected = (3..200).map(|n| n >= 200 - most);
                assert!(left.eq(expected), "the last {most} of {}", crowd(3));
            }
            assert!(has(&places, &other));
        }
    }

    #[test]
    fn where_all_are_taken_the_oldest_of_the_network_that_has_most_goes() {
        let places = Arc::<Places>::default();
        let oldest = take(&places, "192.0.2.1");
        let of = |net: usize| (0..WIDE).map(move |n| format!("10.{net}.{n}.1"));
        let crowds: Vec<Place> = (0..ALL / WIDE)
            .flat_map(of)
            .map(|from| take(&places, &from))
            .collect();
        let held = || places.lock().held.held(Holder::Everybody);
        assert_eq!(held(), ALL);
        let _newest = take(&places, "198.51.100.1");
        assert_eq!(held(), ALL);
        assert!(has(&places, &oldest));
        let gone = crowds.iter().filter(|place| !has(&places, place)).count();
        assert_eq!(gone, 2);
        drop((oldest, crowds));
        assert_eq!(held(), 1);
    }

    #[test]
    fn of_networks_that_have_as_much_the_one_that_came_first_loses_a_place() {
        let places = Arc::<Places>::default();
        let each: Vec<Place> = (0..ALL)
            .map(|n| take(&places, &format!("10.{n}.0.1")))
            .collect();
        let newest = take(&places, "192.0.2.1");
        let left: Vec<bool> = each.iter().map(|place| has(&places, place)).collect();
        assert_eq!(left.iter().position(|is_left| !is_left), Some(0));
        assert!(left[1..].iter().all(|is_left| *is_left));
        assert!(has(&places, &newest));
    }

    #[test]
    fn a_crowd_is_waited_for_less() {
        let places = Arc::<Places>::default();
        let from = |n: usize| format!("10.{n}.0.1");
        let mut held: Vec<Place> = (0..ALL / 2).map(|n| take(&places, &from(n))).collect();
        assert_eq!(held[0].patience(), PATIENCE);
        held.push(take(&places, &from(ALL / 2)));
        assert_eq!(held[0].patience(), PATIENCE_CROWDED);
    }
}
