//! The broker's record of one site's volunteers: who has joined, who is well, and so where browsers
//! are sent.
//!
//! Is not: DNS, the database that outlives a restart, or the looking itself; who calls does those,
//! and tells the outcome.
//!
//! Invariants: an address belongs to one member at most; a member's address is where its request
//! came from, so that nobody sends browsers to somebody else; whatever changes the list, and
//! nothing else, makes its version grow; without a healthy member the answer is the origin's own
//! address; what strangers ask costs no member its renewal.

use std::collections::BTreeMap;
use std::net::IpAddr;

use tandem_wire::{Instant, UnixTime};

use crate::admission::{Limiter, Policy, Rate, Standing};
use crate::health::{Health, Outcome, Thresholds};
use crate::list::{List, MAX_MEMBERS};
use crate::member::{Member, PublicKey};
use crate::uri::Name;

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
    members: BTreeMap<PublicKey, Entry>,
    version: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    member: Member,
    health: Health,
    renewed: UnixTime,
}

/// What joining did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joined {
    /// It is a member now, and will be looked at.
    New,
    /// It was one, and stays one.
    Renewed,
    /// It was one at another address: it begins anew.
    Moved,
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
    /// The list is full.
    #[error("the site has as many volunteers as it can take")]
    Full,
}

/// IPv4 or IPv6: what an answer is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Records of type A.
    V4,
    /// Records of type AAAA.
    V6,
}

impl Family {
    fn has(self, address: IpAddr) -> bool {
        match self {
            Self::V4 => address.is_ipv4(),
            Self::V6 => address.is_ipv6(),
        }
    }
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
            version,
        }
    }

    /// Takes back a member from the time before a restart, unless the site takes it no more:
    /// whether it did.
    ///
    /// Its time to renew begins anew: while the broker was gone it could not.
    pub fn restore(&mut self, member: Member, health: Health, wall: UnixTime) -> bool {
        let taken = self.settings.policy.takes(&member.key, Standing::Member)
            && self.members.len() < MAX_MEMBERS
            && !self.has_address(member.address);
        if taken {
            let entry = Entry {
                member,
                health,
                renewed: wall,
            };
            self.members.insert(member.key, entry);
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
        let is_known = self
            .members
            .get(&member.key)
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
        if let Some(entry) = self.members.get_mut(&member.key)
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
            .values()
            .find(|entry| entry.member.address == member.address)
            .map(|entry| (entry.member.key, entry.health));
        if there.is_some_and(|(_, health)| health.is_healthy()) {
            return Err(Refused::AddressTaken);
        }
        let before = self.members.get(&member.key).copied();
        if self.members.len() >= MAX_MEMBERS && before.is_none() && there.is_none() {
            return Err(Refused::Full);
        }
        // Whoever was there is not well: the address is more likely somebody else's now.
        if let Some((key, _)) = there {
            self.members.remove(&key);
        }
        let entry = Entry {
            member,
            health: Health::default(),
            renewed: wall,
        };
        self.members.insert(member.key, entry);
        // Whoever is new is not in the list yet; who has moved is not any more.
        self.version += u64::from(before.is_some_and(|entry| entry.health.is_healthy()));
        Ok(match before {
            Some(_) => Joined::Moved,
            None => Joined::New,
        })
    }

    /// Lets a member go; whether it was one.
    pub fn leave(&mut self, key: &PublicKey) -> bool {
        let was = self.members.remove(key);
        self.version += u64::from(was.is_some_and(|entry| entry.health.is_healthy()));
        was.is_some()
    }

    /// Takes in how one look at a member ended; whether that changed where browsers are sent.
    pub fn note(&mut self, key: &PublicKey, outcome: Outcome) -> bool {
        let thresholds = self.settings.thresholds;
        let changed = self
            .members
            .get_mut(key)
            .is_some_and(|entry| entry.health.note(outcome, thresholds));
        self.version += u64::from(changed);
        changed
    }

    /// Forgets members that have not renewed in time; how many.
    pub fn forget_silent(&mut self, wall: UnixTime) -> usize {
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

    /// All members, with whether they are healthy: those to look at.
    pub fn members(&self) -> impl ExactSizeIterator<Item = (&Member, bool)> {
        self.members
            .values()
            .map(|entry| (&entry.member, entry.health.is_healthy()))
    }

    /// The member with this key.
    #[must_use]
    pub fn member(&self, key: &PublicKey) -> Option<&Member> {
        self.members.get(key).map(|entry| &entry.member)
    }

    /// The healthy members, as a list to be signed.
    #[must_use]
    pub fn list(&self, wall: UnixTime) -> List {
        List {
            site: self.site.clone(),
            version: self.version,
            issued: wall,
            ends: UnixTime(wall.0.saturating_add(self.settings.list_life)),
            members: self.healthy().copied().collect(),
        }
    }

    /// Where a browser is sent: healthy members, other ones each turn; the origin where there is
    /// none of either family.
    ///
    /// A family that only the origin has is not answered while members serve the other: browsers
    /// would go past them.
    #[must_use]
    pub fn addresses(&self, family: Family, turn: u64) -> Vec<IpAddr> {
        if self.healthy().next().is_none() {
            let origin = self.origin.iter().copied();
            return origin.filter(|address| family.has(*address)).collect();
        }
        let of_family: Vec<IpAddr> = self
            .healthy()
            .map(|member| member.address)
            .filter(|address| family.has(*address))
            .collect();
        let count = of_family.len();
        let first = turn.checked_rem(count as u64).unwrap_or(0);
        let first = usize::try_from(first).unwrap_or(0);
        let from_there = of_family.iter().cycle().skip(first);
        let answer = count.min(self.settings.addresses.max(1));
        from_there.take(answer).copied().collect()
    }

    /// The version of the list as it stands.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    fn standing(&self, key: &PublicKey) -> Standing {
        if self.members.contains_key(key) {
            Standing::Member
        } else {
            Standing::New
        }
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
