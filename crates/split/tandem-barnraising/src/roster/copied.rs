//! What another broker of the site needs of a roster beyond its members, and how it takes them in:
//! a second one, or this one after a restart.
//!
//! Is not: how that crosses or is kept, nor which broker has a say.
//!
//! Invariants: what is taken in was decided by another broker of the site: neither the policy nor
//! shares are asked again, only the bounds of memory hold; a version never goes back; no clock that
//! was set while a broker was off makes a term longer, nor ends it at once.

use std::net::IpAddr;

use tandem_wire::{Network, UnixTime};

use super::evidence::{MAX_TERM, Record};
use super::{Entry, Roster, Seat};
use crate::health::Health;
use crate::list::MAX_MEMBERS;
use crate::member::Member;

/// Seconds of a term that are left after a restart at least, however long the broker was off: only
/// a wall clock says that.
const HELD: u64 = 600;

/// What is held against an address because of records that were changed there. Times are those of
/// the broker whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bar {
    /// The address; any of a /64 of IPv6.
    pub address: IpAddr,
    /// Proofs since the last term.
    pub proofs: u32,
    /// When the last proof counted, or the last term ended.
    pub last: UnixTime,
    /// Terms so far.
    pub terms: u32,
    /// The end of the term that runs.
    pub until: Option<UnixTime>,
}

impl Bar {
    /// The same by a clock that shows `to` where that of its times shows `from`.
    #[must_use]
    pub fn by_clock(self, from: UnixTime, to: UnixTime) -> Self {
        let moved = |time: UnixTime| {
            let ago = from.0.cast_signed().saturating_sub(time.0.cast_signed());
            UnixTime(to.0.saturating_add_signed(ago.saturating_neg()))
        };
        Self {
            last: moved(self.last),
            until: self.until.map(moved),
            ..self
        }
    }

    /// The same after a restart: the broker's clock showed `ended`, it was off for so many seconds,
    /// and shows `now`.
    ///
    /// Of a term that ran, ten minutes are left at least, or what was left if that was less.
    #[must_use]
    pub fn resumed(self, ended: UnixTime, off: u64, now: UnixTime) -> Self {
        let left = |until: UnixTime| until.0.saturating_sub(ended.0).min(HELD);
        let least = self.until.map(left).unwrap_or_default();
        let from = UnixTime(ended.0.saturating_add(off).min(i64::MAX.cast_unsigned()));
        let bar = self.by_clock(from, now);
        let (least, most) = (now.0.saturating_add(least), now.0.saturating_add(MAX_TERM));
        Self {
            last: bar.last.min(now),
            until: bar.until.map(|until| UnixTime(until.0.clamp(least, most))),
            ..bar
        }
    }
}

impl Roster {
    /// What looks have found of each member.
    pub fn healths(&self) -> impl Iterator<Item = (&Member, Health)> {
        let entries = self.members.values();
        entries.map(|entry| (&entry.member, entry.health))
    }

    /// Takes in a member as another broker of the site knows it; whether it did. It does not where
    /// somebody else has its address, or the roster is full. One that is barred here is not well.
    pub fn put(&mut self, member: Member, mut health: Health, wall: UnixTime) -> bool {
        if self.is_barred(&member) {
            health.fail();
        }
        if let Some(entry) = self.entry(&member) {
            (entry.member, entry.health, entry.renewed) = (member, health, wall);
            return true;
        }
        let there = self.members.len();
        if self.members.contains_key(&Seat::of(&member))
            || there >= MAX_MEMBERS
            || self.has_address(member.address)
        {
            return false;
        }
        self.enter(member, health, wall);
        true
    }

    /// Forgets a member.
    pub fn remove(&mut self, member: &Member) {
        if self.entry(member).is_some() {
            self.members.remove(&Seat::of(member));
        }
    }

    /// Counts from now on how long a member has been silent.
    pub fn renew(&mut self, member: &Member, wall: UnixTime) {
        if let Some(entry) = self.entry(member) {
            entry.renewed = wall;
        }
    }

    /// The same for all.
    pub fn renew_all(&mut self, wall: UnixTime) {
        let entries = self.members.values_mut();
        entries.for_each(|entry| entry.renewed = wall);
    }

    /// That of a member at this address.
    fn entry(&mut self, member: &Member) -> Option<&mut Entry> {
        let entry = self.members.get_mut(&Seat::of(member));
        entry.filter(|entry| entry.member.address == member.address)
    }

    fn put_out(&mut self, network: Network) {
        let moment = self.next_moment();
        for entry in self.members.values_mut() {
            if Network::narrow(entry.member.address) == network && entry.health.fail() {
                entry.since = moment;
            }
        }
    }

    /// The list has this version at least.
    pub fn raise_version(&mut self, version: u64) {
        self.version = self.version.max(version);
    }

    /// What is held against whom.
    pub fn bars(&self) -> impl Iterator<Item = Bar> {
        self.evidence.records.iter().map(|(network, record)| Bar {
            address: network.first(),
            proofs: record.proofs,
            last: record.last,
            terms: record.terms,
            until: record.until,
        })
    }

    /// Takes in what another broker of the site holds against an address, where that is more than
    /// is held against it here.
    pub fn put_bar(&mut self, bar: Bar) {
        let weight = |until: Option<UnixTime>, terms: u32, proofs: u32| (until, terms, proofs);
        let network = Network::narrow(bar.address);
        let theirs = weight(bar.until, bar.terms, bar.proofs);
        match self.evidence.records.get(&network) {
            Some(mine) if theirs <= weight(mine.until, mine.terms, mine.proofs) => return,
            Some(_) => {}
            None => self.evidence.make_room(),
        }
        let record = Record {
            proofs: bar.proofs,
            last: bar.last,
            terms: bar.terms,
            until: bar.until,
        };
        self.evidence.records.insert(network, record);
        if bar.until.is_some() {
            self.put_out(network);
        }
    }

    /// Forgets what is held against whom, to take in what another broker does.
    pub fn clear_bars(&mut self) {
        self.evidence.records.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::health::{Outcome, Thresholds};
    use crate::member::{Family, PublicKey};
    use crate::roster::Settings;
    use crate::uri::Name;

    fn roster() -> Roster {
        let site = Name::parse("www.example.org").expect("a name");
        Roster::new(site, Vec::new(), Settings::default(), 5)
    }

    fn member(key: u8, host: u8) -> Member {
        let address = IpAddr::from([192, 0, 2, host]);
        Member {
            key: PublicKey([key; 32]),
            address,
            peers: SocketAddr::new(address, 7444),
        }
    }

    #[test]
    fn a_streak_of_looks_goes_on_where_the_other_broker_was() {
        let mut health = Health::default();
        let thresholds = Thresholds { up: 3, down: 2 };
        assert!(!health.note(Outcome::Good, thresholds) && !health.note(Outcome::Good, thresholds));
        let copied = Health::from_parts(health.parts()).expect("its own");
        assert_eq!(copied, health);
        let mut roster = roster();
        assert!(roster.put(member(1, 1), copied, UnixTime(0)));
        assert!(roster.note(&member(1, 1), Outcome::Good));
        assert_eq!(Health::from_parts([3, 0, 0]), None);
        assert_eq!(Health::from_parts([0, 0, 3]), None);
    }

    #[test]
    fn a_bar_holds_at_the_other_broker_too_and_the_heavier_one_stays() {
        let mut roster = roster();
        assert!(roster.put(member(1, 1), Health::known_as_well(), UnixTime(0)));
        let bar = Bar {
            address: member(1, 1).address,
            proofs: 0,
            last: UnixTime(5),
            terms: 2,
            until: Some(UnixTime(90)),
        };
        roster.put_bar(bar);
        assert!(roster.is_barred(&member(1, 1)));
        assert!(roster.healths().all(|(_, health)| !health.is_healthy()));
        let until = Some(UnixTime(60));
        roster.put_bar(Bar { until, ..bar });
        assert_eq!(roster.bars().collect::<Vec<_>>(), [bar]);
        roster.forget_silent(UnixTime(91));
        assert!(!roster.is_barred(&member(1, 1)));
    }

    #[test]
    fn a_term_goes_on_after_a_restart_and_no_clock_makes_it_longer_or_ends_it_at_once() {
        const YEAR: u64 = 365 * 24 * 3600;
        let bar = |left: u64| Bar {
            address: member(1, 1).address,
            proofs: 1,
            last: UnixTime(400),
            terms: 2,
            until: Some(UnixTime(1_000 + left)),
        };
        // What was left, how long it was off as the clock says, and what is left.
        for (left, off, wanted) in [
            (5_000, 10, 4_990),
            (5_000, 0, 5_000),
            (5_000, 4_900, HELD),
            (5_000, YEAR, HELD),
            (5_000, u64::MAX, HELD),
            (60, YEAR, 60),
            (0, YEAR, 0),
            // What no term has.
            (YEAR, 0, MAX_TERM),
            (i64::MAX.cast_unsigned() - 1_000, 0, MAX_TERM),
        ] {
            let (ended, now) = (UnixTime(1_000), UnixTime(70_000));
            let resumed = bar(left).resumed(ended, off, now);
            let until = resumed.until.map(|until| until.0 - now.0);
            assert_eq!(until, Some(wanted), "{left} {off}");
            assert!(resumed.last <= UnixTime(now.0 - 600));
            assert_eq!((resumed.proofs, resumed.terms), (1, 2));
        }
        let none = Bar {
            until: None,
            last: UnixTime(i64::MAX.cast_unsigned()),
            ..bar(0)
        };
        let resumed = none.resumed(UnixTime(1_000), 5, UnixTime(70_000));
        assert_eq!((resumed.until, resumed.last), (None, UnixTime(70_000)));
    }

    #[test]
    fn who_is_barred_here_is_not_well_whatever_another_broker_says() {
        let mut roster = roster();
        roster.put_bar(Bar {
            address: member(1, 1).address,
            proofs: 0,
            last: UnixTime(5),
            terms: 1,
            until: Some(UnixTime(90)),
        });
        // It has left here, and the other broker has seen neither.
        assert!(roster.put(member(1, 1), Health::known_as_well(), UnixTime(6)));
        assert!(roster.healths().all(|(_, health)| !health.is_healthy()));
    }

    #[test]
    fn a_heavier_bar_of_the_same_address_takes_nobody_elses_room() {
        let mut roster = roster();
        let bar = |number: u32, terms: u32| Bar {
            address: IpAddr::from(number.to_be_bytes()),
            proofs: 0,
            last: UnixTime(5),
            terms,
            until: Some(UnixTime(90)),
        };
        let all = 0..u32::try_from(MAX_MEMBERS).expect("few");
        for number in all.clone() {
            roster.put_bar(bar(number, 1));
        }
        for number in all {
            roster.put_bar(bar(number, 2));
        }
        assert_eq!(roster.bars().count(), MAX_MEMBERS);
    }

    #[test]
    fn an_address_has_one_member_whatever_another_broker_says() {
        let mut roster = roster();
        assert!(roster.put(member(1, 1), Health::default(), UnixTime(0)));
        assert!(roster.put(member(2, 2), Health::default(), UnixTime(0)));
        assert!(!roster.put(member(3, 1), Health::default(), UnixTime(0)));
        assert!(!roster.put(member(2, 1), Health::default(), UnixTime(0)));
        let there = |key: u8| roster.member(&PublicKey([key; 32]), Family::V4).copied();
        assert_eq!((there(2), there(3)), (Some(member(2, 2)), None));
    }
}
