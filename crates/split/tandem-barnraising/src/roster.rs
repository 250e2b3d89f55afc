//! The broker's record of one site's volunteers: who has joined, who is well, and so where browsers
//! are sent.
//!
//! Is not: DNS, the database that outlives a restart, or the looking itself; who calls does those,
//! and tells the outcome.
//!
//! A volunteer with an address of each family joins from both, with one key. Each of its addresses
//! is a [`Member`] by itself: it has its own place, lease, health and looks, so that one that fails
//! takes nothing from the other. They are one volunteer in the list, and for what it changed.
//!
//! Invariants: an address belongs to one volunteer at most, and a volunteer has one of each family
//! at most; a member's address is where its request came from, so that nobody sends browsers to
//! somebody else; whatever changes the list makes its version grow, and so does a change of health
//! that leaves it as it was, and nothing else; without a healthy member the answer is the origin's
//! own address; what strangers ask costs no member its renewal; no network has more of the site
//! than its share ([`crate::shares`]), each address counting for its own; no healthy member goes to
//! make room.

mod copied;
mod evidence;
mod listed;
mod looks;
mod room;

use std::collections::BTreeMap;
use std::net::IpAddr;

use tandem_wire::{Instant, UnixTime};

use crate::admission::{Limiter, Policy, Rate, Standing};
use crate::health::{Health, Outcome, Thresholds};
use crate::list::{List, MAX_MEMBERS};
use crate::member::{Family, Member, PublicKey};
use crate::turns::answers;
use crate::uri::Name;

pub use copied::Bar;
use evidence::Evidence;
pub use evidence::{LOOKS_PER_REPORT, LOOKS_REPORTED, PROOFS, Ruling, Suspect};
pub use looks::Group;
use room::Room;

/// How a site is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Whom it takes.
    pub policy: Policy,
    /// How often a network may ask to join.
    pub rate: Rate,
    /// When a volunteer counts as well.
    pub thresholds: Thresholds,
    /// Seconds after which a member that has not renewed is forgotten.
    pub lease: u64,
    /// Seconds for which a list counts.
    pub list_life: u64,
    /// Most addresses in one answer, so that it fits an unfragmented datagram with its signatures.
    pub addresses: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            rate: Rate::default(),
            thresholds: Thresholds::default(),
            lease: 180,
            list_life: 600,
            addresses: 8,
        }
    }
}

/// One site's volunteers.
#[derive(Debug)]
pub struct Roster {
    site: Name,
    /// Where browsers are sent if there is nobody else.
    origin: Vec<IpAddr>,
    settings: Settings,
    strangers: Limiter,
    /// Of members that ask from where they serve.
    known: Limiter,
    members: BTreeMap<Seat, Entry>,
    evidence: Evidence,
    version: u64,
    /// Counts what happens, so that it can be said what was before what.
    moment: u64,
    evicted: u64,
}

/// What a volunteer has one member of: its address of this family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Seat {
    key: PublicKey,
    family: Family,
}

impl Seat {
    fn of(member: &Member) -> Self {
        Self {
            key: member.key,
            family: Family::of(member.address),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    member: Member,
    health: Health,
    renewed: UnixTime,
    /// The moment at which it joined, or became healthy or ill.
    since: u64,
    /// The moment from which on it waits for a look: it joined then, or was to be looked at.
    waits: u64,
}

/// What joining did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joined {
    /// It is a member now, and will be looked at.
    New,
    /// It was one, and stays one.
    Renewed,
    /// It was one at another address of this family: it begins anew.
    Moved,
    /// It is one at an address of the other family. This one begins as a new member does.
    Further,
}

/// Why somebody may not join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The site does not take this key.
    #[error("the site takes no strangers; ask who runs it to add this volunteer's key")]
    Policy,
    /// Too many requests from there.
    #[error("too many requests from this network; try again later")]
    TooOften,
    /// It asks to be entered with an address from which it does not ask.
    #[error("a volunteer joins from the address at which it serves")]
    Address,
    /// A healthy member has that address.
    #[error("another volunteer serves at this address")]
    AddressTaken,
    /// The roster, or its network's share of it, is full.
    #[error("the site has as many volunteers, in all or of this network, as it can take")]
    Full,
}

impl Roster {
    /// A site without volunteers yet. `version` is the last that was given out, from the time
    /// before a restart.
    #[must_use]
    pub fn new(site: Name, origin: Vec<IpAddr>, settings: Settings, version: u64) -> Self {
        Self {
            site,
            origin,
            settings,
            strangers: Limiter::default(),
            known: Limiter::default(),
            members: BTreeMap::new(),
            evidence: Evidence::default(),
            version,
            moment: 0,
            evicted: 0,
        }
    }

    /// Takes back a member from the time before a restart, unless the site takes it no more, or has
    /// no room for it: whether it did. It has its place, whatever its network's share: shares are
    /// for those who come. The first that is taken back counts as a member for the longest time.
    ///
    /// Its time to renew begins anew: while the broker was gone it could not.
    pub fn restore(&mut self, member: Member, health: Health, wall: UnixTime) -> bool {
        let taken = self.settings.policy.takes(&member.key, Standing::Member)
            && self.members.len() < MAX_MEMBERS
            && !self.members.contains_key(&Seat::of(&member))
            && !self.has_address(member.address);
        if taken {
            self.enter(member, health, wall);
        }
        taken
    }

    /// Takes a volunteer in, or notes that it is still there. `from` is where the request came
    /// from.
    ///
    /// # Errors
    /// [`Refused`] says why not; nothing has changed then.
    pub fn join(
        &mut self,
        member: Member,
        from: IpAddr,
        now: Instant,
        wall: UnixTime,
    ) -> Result<Joined, Refused> {
        let from = from.to_canonical();
        let seat = Seat {
            key: member.key,
            family: Family::of(from),
        };
        let is_known = self
            .members
            .get(&seat)
            .is_some_and(|entry| entry.member.address == from);
        let rate = self.settings.rate;
        let admitted = match is_known {
            true => self.known.admits_member(from, now, rate),
            false => self.strangers.admits(from, now, rate),
        };
        if !admitted {
            return Err(Refused::TooOften);
        }
        let standing = self.standing(&member.key);
        if !self.settings.policy.takes(&member.key, standing) {
            return Err(Refused::Policy);
        }
        if member.address.to_canonical() != from {
            return Err(Refused::Address);
        }
        let member = Member {
            address: from,
            ..member
        };
        if let Some(entry) = self.members.get_mut(&seat)
            && entry.member.address == member.address
        {
            entry.renewed = wall;
            if entry.member != member {
                entry.member = member;
                self.version += u64::from(entry.health.is_healthy());
            }
            return Ok(Joined::Renewed);
        }
        let there = self
            .members
            .iter()
            .find(|(_, entry)| entry.member.address == member.address)
            .map(|(seat, entry)| (*seat, entry.health));
        if there.is_some_and(|(_, health)| health.is_healthy()) {
            return Err(Refused::AddressTaken);
        }
        match self.room_for(&member)? {
            Room::Free => {}
            Room::Of(seat) => {
                self.members.remove(&seat);
                self.evicted += 1;
            }
        }
        let before = self.members.get(&seat).copied();
        // Whoever was there is not well: the address is more likely somebody else's now.
        if let Some((seat, _)) = there {
            self.members.remove(&seat);
        }
        let is_further = self.of(&member.key).next().is_some();
        self.enter(member, Health::default(), wall);
        // Whoever is new is not in the list yet; who has moved is not any more.
        self.version += u64::from(before.is_some_and(|entry| entry.health.is_healthy()));
        Ok(match (before, is_further) {
            (Some(_), _) => Joined::Moved,
            (None, true) => Joined::Further,
            (None, false) => Joined::New,
        })
    }

    /// Lets a volunteer go, with all its addresses; whether it was a member.
    pub fn leave(&mut self, key: &PublicKey) -> bool {
        let before = self.members.len();
        let mut listed = 0;
        self.members.retain(|seat, entry| {
            let stays = seat.key != *key;
            listed += u64::from(!stays && entry.health.is_healthy());
            stays
        });
        self.version += u64::from(listed > 0);
        before != self.members.len()
    }

    /// Takes in how one look at a member ended; whether that changed where browsers are sent. Looks
    /// at one that is out, or at an address that it has left, count for nothing.
    pub fn note(&mut self, member: &Member, outcome: Outcome) -> bool {
        if self.is_barred(member) {
            return false;
        }
        let thresholds = self.settings.thresholds;
        let moment = self.next_moment();
        let entry = self.members.get_mut(&Seat::of(member));
        let entry = entry.filter(|entry| entry.member.address == member.address);
        let changed = entry.is_some_and(|entry| {
            let changed = entry.health.note(outcome, thresholds);
            if changed {
                entry.since = moment;
            }
            changed
        });
        self.version += u64::from(changed);
        changed
    }

    /// Forgets members that have not renewed in time, and ends the terms of those that are out; how
    /// many are forgotten.
    pub fn forget_silent(&mut self, wall: UnixTime) -> usize {
        self.evidence.release(wall);
        let before = self.members.len();
        let lease = self.settings.lease;
        let mut listed = 0;
        self.members.retain(|_, entry| {
            let stays = wall.0.saturating_sub(entry.renewed.0) <= lease;
            listed += u64::from(!stays && entry.health.is_healthy());
            stays
        });
        self.version += u64::from(listed > 0);
        before - self.members.len()
    }

    /// All members, each address of a volunteer by itself, in the order of the keys; with whether
    /// they are healthy.
    pub fn members(&self) -> impl ExactSizeIterator<Item = (&Member, bool)> {
        self.members
            .values()
            .map(|entry| (&entry.member, entry.health.is_healthy()))
    }

    /// The member with this key and an address of this family.
    #[must_use]
    pub fn member(&self, key: &PublicKey, family: Family) -> Option<&Member> {
        let seat = Seat { key: *key, family };
        self.members.get(&seat).map(|entry| &entry.member)
    }

    /// Where those members are that are healthy, or were, or that who runs the site has listed.
    pub fn proven(&self) -> impl Iterator<Item = IpAddr> {
        let listed = self.settings.policy.vouches();
        self.members
            .values()
            .filter(move |entry| listed || entry.health.has_been_healthy())
            .map(|entry| entry.member.address)
    }

    /// How many members have gone to make room for others.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// The healthy members, each network's share of them, as a list to be signed.
    #[must_use]
    pub fn list(&self, wall: UnixTime) -> List {
        List {
            site: self.site.clone(),
            version: self.version,
            issued: wall,
            ends: UnixTime(wall.0.saturating_add(self.settings.list_life)),
            members: self.listed(),
        }
    }

    /// Where a browser is sent: healthy members, whose networks take turns ([`crate::turns`]); the
    /// origin where there is none of either family.
    ///
    /// A family that only the origin has is not answered while members serve the other: browsers
    /// would go past them.
    #[must_use]
    pub fn addresses(&self, family: Family, turn: u64) -> Vec<IpAddr> {
        if self.healthy().next().is_none() {
            let origin = self.origin.iter().copied();
            return origin
                .filter(|address| Family::of(*address) == family)
                .collect();
        }
        let of_family: Vec<IpAddr> = self
            .healthy()
            .map(|member| member.address)
            .filter(|address| Family::of(*address) == family)
            .collect();
        let mut answers = answers(&of_family, self.settings.addresses.max(1), 0);
        let count = answers.len() as u64;
        let index = turn.checked_rem(count).map(usize::try_from);
        let Some(Ok(index)) = index else {
            return Vec::new();
        };
        let mut answer = answers.swap_remove(index);
        // Another one first, each time that all have been given.
        let first = (turn / count).checked_rem(answer.len() as u64).unwrap_or(0);
        answer.rotate_left(usize::try_from(first).unwrap_or(0));
        answer
    }

    /// The version of the list as it stands.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    fn standing(&self, key: &PublicKey) -> Standing {
        if self.of(key).next().is_some() {
            Standing::Member
        } else {
            Standing::New
        }
    }

    fn enter(&mut self, member: Member, health: Health, renewed: UnixTime) {
        let moment = self.next_moment();
        let entry = Entry {
            member,
            health,
            renewed,
            since: moment,
            waits: moment,
        };
        self.members.insert(Seat::of(&member), entry);
    }

    /// A volunteer at all its addresses.
    fn of(&self, key: &PublicKey) -> impl Iterator<Item = &Entry> + use<'_> {
        let [first, last] = [Family::V4, Family::V6].map(|family| Seat { key: *key, family });
        self.members.range(first..=last).map(|(_, entry)| entry)
    }

    fn next_moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    fn has_address(&self, address: IpAddr) -> bool {
        self.members
            .values()
            .any(|entry| entry.member.address == address)
    }

    fn healthy(&self) -> impl Iterator<Item = &Member> {
        self.members
            .values()
            .filter(|entry| entry.health.is_healthy())
            .map(|entry| &entry.member)
    }
}

#[cfg(test)]
mod tests;
