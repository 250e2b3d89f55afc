//! A door: places for those who have not shown yet who they are, so many at a time, and so many of
//! one network.
//!
//! ```text
//!   from an address --> who it is was shown from there before: counts with the known
//!                       otherwise:                              counts with the strangers
//!                          --> its machine, its site and its provider have room: a place
//! ```
//!
//! Is not: a bound on those who have shown it (`places.rs`).
//!
//! Invariants: whoever holds all places of a network keeps no other network out; a site may have
//! many machines' worth of addresses, and a provider many sites', so that each counts as one too.
//! Strangers do not get the places that are for the known. While over half of what a network may
//! have is taken, nobody there holds a place for long in silence, be it a known one's: somebody
//! else may have the same address. What is remembered is bounded by the keys that were admitted
//! since the start.

use std::future::Future;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tandem_wire::Network;
use tokio::time::{sleep, timeout};

/// What may be had of the places.
const SHARES: [Share; 4] = [
    // A machine.
    Share {
        ipv4: 32,
        ipv6: 64,
        part: 8,
    },
    // A site: at most a /48 is given to one (RFC 6177, section 2).
    Share {
        ipv4: 24,
        ipv6: 48,
        part: 4,
    },
    // A provider.
    Share {
        ipv4: 16,
        ipv6: 32,
        part: 2,
    },
    // Everybody.
    Share {
        ipv4: 0,
        ipv6: 0,
        part: 1,
    },
];

/// This part of the places is for the known alone.
const RESERVED: usize = 4;

/// Machines that are remembered of one key, the latest ones.
const MACHINES_EACH: usize = 8;

/// So many times as long are those waited for in a crowd who come from where somebody with a key
/// came from.
const PATIENCE_KNOWN: u32 = 2;

/// How often it is looked whether there is a crowd.
const LOOK: Duration = Duration::from_millis(500);

/// The share of each network whose prefix has this length.
#[derive(Clone, Copy, Debug)]
struct Share {
    ipv4: u32,
    ipv6: u32,
    /// One of so many parts.
    part: usize,
}

impl Share {
    fn network(self, address: IpAddr) -> Network {
        match (self.ipv4, self.ipv6) {
            (0, 0) => Network::ALL,
            (ipv4, ipv6) => Network::of(address, ipv4, ipv6),
        }
    }
}

/// Where those who have shown who they are came from. Several doors may have it in common.
#[derive(Debug, Default)]
pub struct Known(Mutex<Vec<Machines>>);

/// Those of one key.
#[derive(Debug)]
struct Machines {
    key: [u8; 32],
    /// The latest is the last.
    machines: Vec<Network>,
}

impl Known {
    fn has(&self, from: IpAddr) -> bool {
        let machine = SHARES[0].network(from);
        let known = self.lock();
        known.iter().any(|one| one.machines.contains(&machine))
    }

    /// Whoever has this key, which is admitted, has shown it from there.
    pub fn note(&self, key: [u8; 32], from: IpAddr) {
        let machine = SHARES[0].network(from.to_canonical());
        let mut known = self.lock();
        let Some(own) = known.iter_mut().find(|one| one.key == key) else {
            known.push(Machines {
                key,
                machines: vec![machine],
            });
            return;
        };
        own.machines.retain(|one| *one != machine);
        if own.machines.len() >= MACHINES_EACH {
            own.machines.remove(0);
        }
        own.machines.push(machine);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Machines>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the module.
#[derive(Debug)]
pub struct Door {
    max: usize,
    patience: Duration,
    known: Arc<Known>,
    inside: Mutex<Vec<Inside>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Inside {
    from: IpAddr,
    rank: Rank,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rank {
    Stranger,
    Known,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub struct Entry {
    door: Arc<Door>,
    inside: Inside,
}

impl Door {
    /// With so many places, and so much patience with strangers in a crowd; twice as much with the
    /// known in one of their own machine or site.
    #[must_use]
    pub fn new(max: usize, patience: Duration, known: Arc<Known>) -> Arc<Self> {
        Arc::new(Self {
            max,
            patience,
            known,
            inside: Mutex::default(),
        })
    }

    /// A place for somebody from this address, if there is one.
    pub fn enter(self: &Arc<Self>, from: IpAddr) -> Option<Entry> {
        let from = from.to_canonical();
        let rank = match self.known.has(from) {
            true => Rank::Known,
            false => Rank::Stranger,
        };
        let (new, mut inside) = (Inside { from, rank }, self.lock());
        let has_share = SHARES
            .iter()
            .all(|share| self.held(&inside, new, *share) < self.most(rank, *share));
        if inside.len() >= self.max || !has_share {
            return None;
        }
        inside.push(new);
        Some(Entry {
            door: Arc::clone(self),
            inside: new,
        })
    }

    /// Places that those of its rank and network have.
    fn held(&self, inside: &[Inside], of: Inside, share: Share) -> usize {
        let network = share.network(of.from);
        let same = |one: &&Inside| one.rank == of.rank && share.network(one.from) == network;
        inside.iter().filter(same).count()
    }

    /// Places that they may have.
    fn most(&self, rank: Rank, share: Share) -> usize {
        let all = match rank {
            Rank::Stranger => self.max - self.max / RESERVED,
            Rank::Known => self.max,
        };
        all.min(self.max / share.part)
    }

    fn is_crowded(&self, around: Inside) -> bool {
        let inside = self.lock();
        let is_full =
            |share: &Share| self.held(&inside, around, *share) > self.most(around.rank, *share) / 2;
        let shares = match around.rank {
            Rank::Stranger => &SHARES[..],
            Rank::Known => &SHARES[..2],
        };
        shares.iter().any(is_full)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Inside>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// What comes of it. `None`: it was given up, since it took longer than there is patience in a
    /// crowd, and there is one.
    pub async fn patiently<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        let patience = match self.inside.rank {
            Rank::Stranger => self.door.patience,
            Rank::Known => self.door.patience * PATIENCE_KNOWN,
        };
        tokio::select! {
            // What has come of it counts, however late this task has its turn.
            biased;
            done = &mut future => return Some(done),
            () = sleep(patience) => {}
        }
        while !self.door.is_crowded(self.inside) {
            if let Ok(done) = timeout(LOOK, &mut future).await {
                return Some(done);
            }
        }
        None
    }

    /// It has shown that it has this key, which is admitted, and needs the place no more.
    pub fn shown(self, key: [u8; 32]) {
        self.door.known.note(key, self.inside.from);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut inside = self.door.lock();
        if let Some(index) = inside.iter().position(|one| *one == self.inside) {
            inside.swap_remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    const MAX: usize = 32;
    const PATIENCE: Duration = Duration::from_secs(5);
    const KEY: [u8; 32] = [1; 32];

    fn door() -> Arc<Door> {
        Door::new(MAX, PATIENCE, Arc::default())
    }

    fn enter(door: &Arc<Door>, from: &str) -> Option<Entry> {
        door.enter(from.parse().expect("an address"))
    }

    /// The places that come of it when all of these ask for one.
    fn entered(door: &Arc<Door>, from: impl Iterator<Item = String>) -> Vec<Entry> {
        from.filter_map(|from| enter(door, &from)).collect()
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
            let door = door();
            let held = entered(&door, (0..100).map(crowd));
            assert_eq!(held.len(), len, "{}", crowd(0));
            assert!(enter(&door, &crowd(100)).is_none(), "{}", crowd(100));
            assert!(enter(&door, neighbour).is_some(), "{neighbour}");
        }
    }

    #[test]
    fn strangers_leave_a_quarter_to_the_known_and_what_is_given_back_is_free() {
        let door = door();
        enter(&door, "192.0.2.1").expect("room").shown(KEY);
        let mut strangers = entered(&door, (0..100).map(|n| format!("10.{n}.0.1")));
        assert_eq!(strangers.len(), MAX - MAX / 4);
        assert!(enter(&door, "2001:db8::1").is_none());
        let known = entered(&door, vec!["::ffff:192.0.2.1".to_owned(); 9].into_iter());
        assert_eq!(known.len(), 4);
        strangers.pop();
        assert!(enter(&door, "2001:db8::1").is_some());
        drop((strangers, known));
        assert!(door.lock().is_empty());
    }

    #[test]
    fn who_is_known_is_not_counted_with_the_strangers_next_door() {
        let door = door();
        enter(&door, "192.0.2.1").expect("room").shown(KEY);
        let crowd = entered(&door, (0..100).map(|n| format!("192.0.2.{n}")));
        assert_eq!(crowd.len(), 8 + 1, "with the known one");
        assert!(enter(&door, "192.0.2.200").is_none());
        assert!(enter(&door, "192.0.2.1").is_some());
    }

    #[test]
    fn a_key_makes_a_few_machines_known_and_no_other_keys_forgotten() {
        let (door, from) = (door(), |n: usize| format!("10.0.{n}.1"));
        enter(&door, "192.0.2.1").expect("room").shown([2; 32]);
        for n in 0..100 {
            enter(&door, &from(n)).expect("room").shown(KEY);
        }
        let is_known = |text: &str| door.known.has(text.parse().expect("an address"));
        assert!(is_known("192.0.2.1"));
        let known: Vec<usize> = (0..100).filter(|n| is_known(&from(*n))).collect();
        assert_eq!(known, (100 - MACHINES_EACH..100).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stranger_is_given_up_in_a_crowd_alone_and_a_known_one_later() {
        let door = door();
        enter(&door, "192.0.2.1").expect("room").shown(KEY);
        let first = enter(&door, "10.0.0.1").expect("room");
        let waits = timeout(PATIENCE * 100, first.patiently(pending::<()>()));
        assert!(waits.await.is_err(), "nobody else is there");
        // Two of the four of its machine, and three.
        let _second = enter(&door, "10.0.0.1").expect("room");
        let waits = timeout(PATIENCE * 100, first.patiently(pending::<()>()));
        assert!(waits.await.is_err(), "half is no crowd");
        let _third = enter(&door, "10.0.0.1").expect("room");
        let since = tokio::time::Instant::now();
        let waits = timeout(PATIENCE * 100, first.patiently(pending::<()>()));
        assert_eq!(waits.await, Ok(None));
        assert_eq!(since.elapsed(), PATIENCE);
        assert_eq!(first.patiently(ready(1)).await, Some(1));
        let other = enter(&door, "10.1.0.1").expect("room");
        let waits = timeout(PATIENCE * 100, other.patiently(pending::<()>()));
        assert!(waits.await.is_err(), "no crowd around this one");
        let known = entered(&door, vec!["192.0.2.1".to_owned(); 3].into_iter());
        let since = tokio::time::Instant::now();
        let waits = timeout(PATIENCE * 100, known[0].patiently(pending::<()>()));
        assert_eq!(
            waits.await,
            Ok(None),
            "somebody else may be at the same address"
        );
        assert_eq!(since.elapsed(), PATIENCE * PATIENCE_KNOWN);
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowd_of_strangers_makes_nobody_impatient_with_the_known() {
        let door = door();
        enter(&door, "192.0.2.1").expect("room").shown(KEY);
        let known = enter(&door, "192.0.2.1").expect("room");
        let _strangers = entered(&door, (0..100).map(|n| format!("192.0.{n}.1")));
        let waits = timeout(PATIENCE * 100, known.patiently(pending::<()>()));
        assert!(waits.await.is_err(), "they are strangers");
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_come_counts_even_when_the_time_is_over() {
        let door = door();
        let entries = entered(&door, vec!["10.0.0.1".to_owned(); 4].into_iter());
        for _ in 0..64 {
            let comes = tokio::time::sleep(PATIENCE);
            assert_eq!(entries[0].patiently(comes).await, Some(()));
        }
    }
}
