//! Places at a port that is open to everybody: however many come from one network, others find one
//! free.
//!
//! An address (a /64 of IPv6) may hold as many as are free, and a /16 (a /48) twice as many: the
//! more is free, the more anybody may have, and one that takes what it can leaves a third. Some
//! places are for those that are known alone, who are counted apart from the strangers around them,
//! and an address that is known may always have half as many, whatever strangers do.
//! Who has asked for nothing yet holds no place against somebody who comes later to the same full
//! network, so that silence, which costs nothing, takes nothing.
//!
//! Is not: a limit on work that is asked for.
//!
//! Invariants: those of [`Places`]; while one network alone takes what it can, there is a place for
//! everybody else who holds fewer than are left.

use std::net::IpAddr;

use tandem_wire::Instant;

use super::known::Known;
use super::{Claim, Holder, Id, NoPlace, Places, Rank, Taken};
use crate::admission::{Limiter, Rate};
use crate::member::PublicKey;
use tandem_wire::Network;

/// Times as many places as are free may be one address's, or one /64's, or one key's,
const NARROW: usize = 1;
/// and one /16's or /48's, which has room for some that are honest and busy.
const WIDE: usize = 2;
/// This part of what is reserved may always be held by an address, a key or a network that is
/// known: it may have been busy before others came.
const FLOOR: usize = 2;

/// What is shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Places in all.
    pub total: usize,
    /// Of these, those that strangers do not get.
    pub reserved: usize,
    /// How often the strangers of a network may take one; at any time if nothing is said.
    pub strangers: Option<Rate>,
}

/// See above.
#[derive(Debug)]
pub struct Fair {
    rules: Rules,
    places: Places,
    strangers: Limiter,
    known: Known,
}

impl Fair {
    /// None is taken yet, and nobody is known.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            places: Places::default(),
            strangers: Limiter::default(),
            known: Known::default(),
        }
    }

    /// A place for who comes from this address, as one of this rank, or as one that is known if it
    /// has served well before.
    ///
    /// # Errors
    /// Its network has all that it may have, or comes too often.
    pub fn take(&mut self, from: IpAddr, rank: Rank, now: Instant) -> Result<Taken, NoPlace> {
        let rank = match self.is_known(from, now) {
            true => Rank::Known,
            false => rank,
        };
        if rank == Rank::Stranger
            && let Some(rate) = self.rules.strangers
            && !self.strangers.admits(from, now, rate)
        {
            return Err(NoPlace);
        }
        let claims = self.claims(from, rank);
        self.places.take(&claims, rank)
    }

    /// Lets a place count for the key that was shown on it; what is returned was given up for it.
    ///
    /// # Errors
    /// The key has all that it may have.
    pub fn show(&mut self, id: Id, key: PublicKey) -> Result<Option<Id>, NoPlace> {
        let claim = Claim {
            holder: Holder::Key(key),
            most: self.share(Rank::Known, NARROW),
        };
        self.places.add(id, claim)
    }

    /// A stranger from this address has shown that it is known.
    pub fn raise(&mut self, id: Id, from: IpAddr) {
        let claims = self.claims(from, Rank::Known);
        self.places.recount(id, &claims, Rank::Known);
    }

    /// It has asked for something: nobody takes its place over any more.
    pub fn keep(&mut self, id: Id) {
        self.places.keep(id);
    }

    /// Nothing is asked for on it any more: it is as one that has just come, and counts with the
    /// known if those from this address are known by now.
    pub fn rest(&mut self, id: Id, from: IpAddr, now: Instant) {
        self.places.rest(id);
        if self.is_known(from, now) && self.places.is_strangers(id) {
            self.raise(id, from);
        }
    }

    /// The place is free.
    pub fn leave(&mut self, id: Id) {
        self.places.leave(id);
    }

    /// Somebody was served well from this address.
    pub fn note(&mut self, from: IpAddr, now: Instant) {
        self.known.note(from, now);
    }

    /// Whether somebody was, not long ago.
    #[must_use]
    pub fn is_known(&self, from: IpAddr, now: Instant) -> bool {
        self.known.has(from, now)
    }

    /// Places that those of this rank may have.
    fn most(&self, rank: Rank) -> usize {
        match rank {
            Rank::Stranger => self.rules.total.saturating_sub(self.rules.reserved),
            Rank::Known => self.rules.total,
        }
    }

    /// Those of them that nobody has.
    fn free(&self, rank: Rank) -> usize {
        let held = self.places.held(Holder::Everybody);
        let free = self.rules.total.saturating_sub(held);
        match rank {
            Rank::Stranger => {
                let strangers = self.places.held(Holder::Strangers(Network::ALL));
                free.min(self.most(rank).saturating_sub(strangers))
            }
            Rank::Known => free,
        }
    }

    fn claims(&self, from: IpAddr, rank: Rank) -> [Claim; 4] {
        let claim = |network: Network, most: usize| Claim {
            holder: match rank {
                Rank::Stranger => Holder::Strangers(network),
                Rank::Known => Holder::Known(network),
            },
            most,
        };
        [
            claim(Network::narrow(from), self.share(rank, NARROW)),
            claim(Network::wide(from), self.share(rank, WIDE)),
            claim(Network::ALL, self.most(rank)),
            Claim {
                holder: Holder::Everybody,
                most: self.rules.total,
            },
        ]
    }

    /// One at least: whoever holds none gets the last, or takes over a silent one's.
    fn share(&self, rank: Rank, times: usize) -> usize {
        let floor = match rank {
            Rank::Stranger => 0,
            Rank::Known => self.rules.reserved / FLOOR,
        };
        self.free(rank).saturating_mul(times).max(floor).max(1)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const RULES: Rules = Rules {
        total: 400,
        reserved: 100,
        strangers: None,
    };

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// Comes from there, and asks for something if it gets a place.
    fn asks(fair: &mut Fair, from: &str, rank: Rank) -> Result<Taken, NoPlace> {
        let taken = fair.take(address(from), rank, at(0))?;
        fair.keep(taken.id);
        Ok(taken)
    }

    /// How many places somebody gets who comes from all of these.
    fn got(fair: &mut Fair, from: impl Iterator<Item = String>, rank: Rank) -> usize {
        from.filter(|from| asks(fair, from, rank).is_ok()).count()
    }

    fn of_16(number: u32) -> impl Iterator<Item = String> {
        (0..1_000).map(move |host| format!("10.{number}.{}.{}", host / 250, host % 250))
    }

    fn of_48(number: u32) -> impl Iterator<Item = String> {
        (0..1_000).map(move |subnet| format!("2001:db8:{number:x}:{subnet:x}::1"))
    }

    #[test]
    fn a_network_that_takes_all_it_can_leaves_a_third_to_others() {
        for flood in [of_16(1).collect::<Vec<_>>(), of_48(1).collect()] {
            let mut fair = Fair::new(RULES);
            assert_eq!(got(&mut fair, flood.into_iter(), Rank::Stranger), 200);
            for other in ["10.2.0.1", "2001:db8:2::1"] {
                assert!(asks(&mut fair, other, Rank::Stranger).is_ok(), "{other}");
            }
            assert_eq!(got(&mut fair, of_16(2), Rank::Stranger), 65);
            assert!(asks(&mut fair, "10.3.0.1", Rank::Stranger).is_ok());
        }
    }

    #[test]
    fn an_address_and_a_64_leave_half_to_their_network() {
        for (crowd, neighbour) in [
            ("192.0.2.1", "192.0.2.2"),
            ("2001:db8::1", "2001:db8:0:1::1"),
        ] {
            let mut fair = Fair::new(RULES);
            let crowd = (0..1_000).map(|_| crowd.to_owned());
            assert_eq!(got(&mut fair, crowd, Rank::Stranger), 150);
            assert!(asks(&mut fair, neighbour, Rank::Stranger).is_ok());
        }
        let mut fair = Fair::new(RULES);
        let hosts = (0..1_000).map(|host| format!("2001:db8::{host:x}"));
        assert_eq!(got(&mut fair, hosts, Rank::Stranger), 150);
    }

    #[test]
    fn strangers_leave_to_the_known_what_is_theirs_and_next_door_too() {
        let mut fair = Fair::new(RULES);
        let everywhere = (1..20).flat_map(of_16);
        assert_eq!(got(&mut fair, everywhere, Rank::Stranger), 300);
        assert_eq!(asks(&mut fair, "172.16.0.1", Rank::Stranger), Err(NoPlace));
        fair.note(address("10.1.0.1"), at(0));
        assert!(asks(&mut fair, "10.1.0.1", Rank::Stranger).is_ok());
        assert_eq!(got(&mut fair, of_16(1), Rank::Known), 66);
        assert!(asks(&mut fair, "10.2.0.1", Rank::Known).is_ok());
    }

    #[test]
    fn who_is_known_and_was_busy_before_a_flood_goes_on() {
        let mut fair = Fair::new(RULES);
        let busy = |fair: &mut Fair, times: usize| {
            let comes = |_: &usize| asks(fair, "172.16.0.1", Rank::Known).is_ok();
            (0..times).filter(comes).count()
        };
        assert_eq!(busy(&mut fair, 40), 40);
        let everywhere = (1..20).flat_map(of_16);
        assert_eq!(got(&mut fair, everywhere, Rank::Stranger), 300);
        let others = (1..=15).map(|host| format!("172.17.0.{host}"));
        assert_eq!(got(&mut fair, others, Rank::Known), 15);
        assert_eq!(busy(&mut fair, 40), 10, "half of what is reserved in all");
    }

    #[test]
    fn who_is_silent_holds_no_place_against_its_network_and_costs_others_none() {
        let mut fair = Fair::new(RULES);
        let mut take = |from: &str| {
            let taken = fair.take(address(from), Rank::Stranger, at(0));
            taken.map(|taken| (taken.id, taken.displaced))
        };
        let other = take("10.2.0.1").expect("there is room").0;
        let flood: Vec<_> = of_16(1).map(|from| take(&from)).collect();
        let flood: Vec<_> = flood.into_iter().flatten().collect();
        assert_eq!(flood.len(), 1_000, "each took over the place of another");
        let displaced: Vec<Id> = flood
            .iter()
            .filter_map(|(_, displaced)| *displaced)
            .collect();
        let first: Vec<Id> = flood.iter().map(|(id, _)| *id).take(800).collect();
        assert_eq!(displaced, first, "who came first went first");
        assert!(!displaced.contains(&other));
        let last = take("10.2.0.2").expect("there is room");
        assert_eq!(last.1, None);
    }

    #[test]
    fn a_key_of_many_networks_has_what_is_free() {
        let mut fair = Fair::new(RULES);
        let key = PublicKey([7; 32]);
        let mut shown = |number: u32| {
            let from = format!("10.{number}.0.1");
            let taken = asks(&mut fair, &from, Rank::Known).expect("there is room");
            let shown = fair.show(taken.id, key);
            if shown.is_err() {
                fair.leave(taken.id);
            }
            shown.is_ok()
        };
        let places = (0..250).filter(|number| shown(*number)).count();
        assert_eq!(places, 200);
    }

    #[test]
    fn strangers_that_come_too_often_are_sent_away_and_the_known_are_not() {
        let strangers = Rate {
            every: Duration::from_secs(10),
            burst: 3,
        };
        let mut fair = Fair::new(Rules {
            strangers: Some(strangers),
            ..RULES
        });
        let mut come = |from: &str, seconds: u64| {
            let taken = fair.take(address(from), Rank::Stranger, at(seconds));
            if let Ok(taken) = taken {
                fair.leave(taken.id);
                if seconds == 20 {
                    fair.note(address(from), at(20));
                }
            }
            taken.is_ok()
        };
        let all = [0, 0, 0, 0, 10, 10, 20, 20, 20].map(|seconds| come("192.0.2.1", seconds));
        let expected = [true, true, true, false, true, false, true, true, true];
        assert_eq!(all, expected);
        assert!(!come("192.0.2.2", 20), "a stranger in the same network");
    }

    #[test]
    fn a_channel_that_has_served_rests_among_the_known_and_goes_for_no_stranger() {
        let mut fair = Fair::new(RULES);
        let from = address("192.0.2.1");
        let used = fair.take(from, Rank::Stranger, at(0)).expect("room");
        fair.keep(used.id);
        fair.rest(used.id, from, at(0));
        assert_eq!(
            fair.places.held(Holder::Known(Network::ALL)),
            0,
            "a stranger"
        );
        fair.keep(used.id);
        fair.note(from, at(0));
        fair.rest(used.id, from, at(1));
        assert_eq!(fair.places.held(Holder::Known(Network::narrow(from))), 1);
        let mut displaced = Vec::new();
        for from in (1..20).flat_map(of_16) {
            if let Ok(taken) = fair.take(address(&from), Rank::Stranger, at(1)) {
                displaced.extend(taken.displaced);
            }
        }
        assert!(displaced.len() > 1_000);
        assert!(!displaced.contains(&used.id));
    }

    #[test]
    fn who_turns_out_to_be_known_counts_with_the_known() {
        let mut fair = Fair::new(RULES);
        let from = address("192.0.2.1");
        for _ in 0..100 {
            let taken = fair
                .take(from, Rank::Stranger, at(0))
                .expect("there is room");
            fair.raise(taken.id, from);
        }
        assert_eq!(fair.places.held(Holder::Strangers(Network::ALL)), 0);
        assert_eq!(fair.places.held(Holder::Known(Network::narrow(from))), 100);
    }
}
