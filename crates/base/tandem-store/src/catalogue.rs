//! What a store holds, without the bytes: objects, their parts, who showed them, by which names
//! they are found, and which go first when there is no more room.
//!
//! Not here: the bytes (`bodies`), any disk. Every store is this catalogue, so that no two
//! disagree.
//!
//! Invariants:
//! - every part of a held object is held, and every held part is in an object;
//! - order ("newest seen", "least recently used") comes from turns, numbers that only grow, never
//!   from the clock, so that a clock that jumps reorders nothing; a last-seen time never goes back;
//! - each list that a stranger can grow is bounded by [`Limits`].

mod disk;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use tandem_wire::clock::UnixTime;

use crate::changes::Changes;
use crate::digest::{Digest, ObjectId};
use crate::expectations::{Expectation, Expectations};
use crate::key::Key;
use crate::kind::{Kind, Layout, Unexpected};
use crate::limits::Limits;
use crate::names::NameIndex;
use crate::site::Site;
use crate::store::Latest;
use crate::x509::LeafFacts;

/// What indexing one part, object, name or site takes, roughly: its entries in the trees here and
/// its row on disk. An estimate, so that a store full of tiny things is bounded too.
const ENTRY_COST: u64 = 128;

/// What is known of one part.
#[derive(Clone, Debug)]
pub struct PartEntry {
    /// How many bytes it has.
    pub length: u64,
    /// When it was first held.
    pub added: UnixTime,
    /// How often it occurs in held objects.
    links: u32,
}

/// What is known of one object.
#[derive(Clone, Debug)]
pub struct ObjectEntry {
    /// Its parts: of a chain the certificates, leaf first.
    pub parts: Vec<Digest>,
    /// What its first part says.
    pub facts: LeafFacts,
    /// When it was first seen.
    pub first_seen: UnixTime,
    /// When it was last seen.
    pub last_seen: UnixTime,
    /// The turn when it was last seen.
    pub seen: u64,
    /// The turn when it was last seen or looked up.
    pub used: u64,
    /// How often it was seen again.
    pub hits: u64,
    sites: BTreeSet<Site>,
}

impl ObjectEntry {
    /// An object that no site is known to have shown yet.
    pub fn new(parts: Vec<Digest>, facts: LeafFacts, now: UnixTime) -> Self {
        Self {
            parts,
            facts,
            first_seen: now,
            last_seen: now,
            seen: 0,
            used: 0,
            hits: 0,
            sites: BTreeSet::new(),
        }
    }

    /// The sites that are expected to show it, in order of their names.
    pub fn sites(&self) -> impl Iterator<Item = &Site> {
        self.sites.iter()
    }

    fn is_expired(&self, now: UnixTime) -> bool {
        // RFC 5280, section 4.1.2.5: the validity includes its last second.
        self.facts.not_after.is_some_and(|end| end < now)
    }

    fn cost(&self) -> u64 {
        let names = self.facts.names.iter();
        let links = ENTRY_COST * length(self.parts.len());
        ENTRY_COST
            + links
            + names
                .map(|name| ENTRY_COST + length(name.as_str().len()))
                .sum::<u64>()
    }
}

/// What a store holds, without the bytes.
#[derive(Debug)]
pub struct Catalogue {
    limits: Limits,
    parts: BTreeMap<Digest, PartEntry>,
    objects: BTreeMap<Key, ObjectEntry>,
    names: NameIndex,
    expectations: Expectations,
    /// What can be given up for want of room, by the turn of its last use.
    recency: BTreeSet<(u64, Key)>,
    turn: u64,
    bytes: u64,
    evicted: u64,
    changes: Changes,
}

impl Catalogue {
    /// An empty catalogue.
    pub fn new(limits: Limits) -> Self {
        Self {
            names: NameIndex::new(limits.objects_per_name),
            expectations: Expectations::new(limits.objects_per_site),
            limits,
            parts: BTreeMap::new(),
            objects: BTreeMap::new(),
            recency: BTreeSet::new(),
            turn: 0,
            bytes: 0,
            evicted: 0,
            changes: Changes::default(),
        }
    }

    // ---- Questions that change nothing.

    /// Its bounds.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Bytes held, as [`Limits::bytes`] counts them.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Objects given up for want of room.
    pub const fn evicted(&self) -> u64 {
        self.evicted
    }

    /// All parts.
    pub const fn parts(&self) -> &BTreeMap<Digest, PartEntry> {
        &self.parts
    }

    /// All objects.
    pub const fn objects(&self) -> &BTreeMap<Key, ObjectEntry> {
        &self.objects
    }

    /// When `site` last showed the object, if it did.
    pub fn expectation(&self, site: &Site, key: &Key) -> Option<&Expectation> {
        self.expectations.find(key.kind, site, &key.id)
    }

    /// Whether this object is held.
    pub fn holds(&self, key: &Key) -> bool {
        self.objects.contains_key(key)
    }

    /// The one part whose digest starts with `prefix`.
    pub fn part_by_prefix(&self, prefix: &[u8]) -> Option<Digest> {
        let (least, greatest) = Digest::range_of(prefix);
        let mut found = self.parts.range(least..=greatest);
        let (first, _) = found.next()?;
        found.next().is_none().then_some(*first)
    }

    /// The object whose name starts with `prefix`, if there is only one such name. Of two kinds the
    /// contents are the same.
    pub fn object_by_prefix(&self, prefix: &[u8]) -> Option<Key> {
        let mut found = self.objects.range(Key::range_of(prefix));
        let (first, _) = found.next()?;
        found.all(|(key, _)| key.id == first.id).then_some(*first)
    }

    /// Which objects to expect from `site`: see [`Store::expected`](crate::Store::expected).
    pub fn expected(&self, kind: Kind, site: &Site, now: UnixTime, limit: usize) -> Vec<ObjectId> {
        let remember = self.limits.remember.as_secs();
        let is_recent = |shown: &&Expectation| now.0.saturating_sub(shown.last_seen.0) <= remember;
        let entry = |id: &ObjectId| self.objects.get(&Key { id: *id, kind });
        let is_valid = |id: &ObjectId| entry(id).is_some_and(|object| !object.is_expired(now));
        let shown = self.expectations.of(kind, site).iter();
        let mut shown: Vec<&Expectation> = shown.filter(is_recent).collect();
        // The usual case: a site that shows always the same.
        if let [only] = shown.as_slice()
            && limit == 1
            && is_valid(&only.object)
        {
            return vec![only.object];
        }
        // Whoever connects somewhere can name any site: a chain that does not answer to the name
        // comes last.
        let named: BTreeSet<ObjectId> = match site {
            Site::Address(_) | Site::Any => BTreeSet::new(),
            Site::Name(name) => {
                let named = self.names.find(name).filter(|key| key.kind == kind);
                named.map(|key| key.id).collect()
            }
        };
        shown.sort_by_key(|shown| {
            (
                !named.contains(&shown.object),
                core::cmp::Reverse(shown.seen),
            )
        });
        let mut expected: Vec<ObjectId> = shown.into_iter().map(|shown| shown.object).collect();
        expected.retain(is_valid);
        if expected.len() < limit {
            let mut named: Vec<ObjectId> = named.into_iter().collect();
            named.retain(|id| !expected.contains(id) && is_valid(id));
            named.sort_by_key(|id| core::cmp::Reverse(entry(id).map(|object| object.seen)));
            expected.append(&mut named);
        }
        expected.truncate(limit);
        expected
    }

    /// The objects that no site showed: see [`Store::unexpected`](crate::Store::unexpected).
    pub fn unexpected(&self, kind: Kind, limit: usize) -> Vec<ObjectId> {
        let of_none = self.objects.iter();
        let of_none = of_none.filter(|(key, object)| key.kind == kind && object.sites.is_empty());
        let mut of_none: Vec<(u64, ObjectId)> =
            of_none.map(|(key, object)| (object.seen, key.id)).collect();
        of_none.sort_unstable_by_key(|(seen, _)| core::cmp::Reverse(*seen));
        of_none.truncate(limit);
        of_none.into_iter().map(|(_, id)| id).collect()
    }

    /// What each site showed last: see [`Store::latest`](crate::Store::latest).
    pub fn latest(&self, kind: Kind, limit: usize) -> Vec<Latest> {
        let mut latest: Vec<(&Site, &Expectation)> = self.expectations.latest(kind).collect();
        latest.sort_unstable_by_key(|(_, shown)| core::cmp::Reverse(shown.seen));
        latest.truncate(limit);
        let latest = latest.into_iter().map(|(site, shown)| Latest {
            site: site.clone(),
            object: shown.object,
            last_seen: shown.last_seen,
        });
        latest.collect()
    }

    // ---- Taking in.

    /// Whether an object of these parts is worth keeping at all.
    pub fn accepts(&self, kind: Kind, parts: &[&[u8]]) -> bool {
        let bytes = parts
            .iter()
            .fold(0_usize, |sum, part| sum.saturating_add(part.len()));
        let has_room = bytes <= self.limits.object_bytes && length(bytes) <= self.limits.bytes;
        let most = match kind.row().layout {
            Layout::List => self.limits.parts_per_object,
            Layout::Whole => 1,
        };
        has_room && (1..=most).contains(&parts.len()) && parts.iter().all(|part| !part.is_empty())
    }

    /// Notes that a held object was seen again. `false` if it is not held.
    pub fn refresh(&mut self, key: &Key, now: UnixTime) -> bool {
        let turn = self.next_turn();
        let Some(object) = self.objects.get_mut(key) else {
            return false;
        };
        object.hits = object.hits.saturating_add(1);
        object.last_seen = object.last_seen.max(now);
        object.seen = turn;
        self.use_object(key, turn);
        true
    }

    /// Takes in an object that is not held, with the length of each part, and says which parts are
    /// new.
    pub fn add(&mut self, key: Key, lengths: &[u64], object: ObjectEntry) -> Vec<Digest> {
        let mut fresh = Vec::new();
        for (digest, length) in object.parts.iter().zip(lengths) {
            if !self.parts.contains_key(digest) {
                self.insert_part(*digest, *length, object.first_seen);
                self.changes.parts.insert(*digest);
                fresh.push(*digest);
            }
        }
        let turn = self.next_turn();
        self.insert_object(
            key,
            ObjectEntry {
                seen: turn,
                used: turn,
                ..object
            },
        );
        self.changes.objects.insert(key);
        fresh
    }

    /// Notes that `site` just showed a held object.
    pub fn observe(&mut self, site: &Site, key: &Key, now: UnixTime) {
        let Some(seen) = self.objects.get(key).map(|object| object.seen) else {
            return;
        };
        let last_seen = self
            .expectation(site, key)
            .map_or(now, |shown| shown.last_seen.max(now));
        let expectation = Expectation {
            object: key.id,
            seen,
            last_seen,
        };
        self.place_expectation(site, key.kind, expectation);
        self.changes.expectations.insert((site.clone(), *key));
    }

    /// Notes that an object was looked up.
    pub fn touch(&mut self, key: &Key) {
        let turn = self.next_turn();
        self.use_object(key, turn);
    }

    /// Notes that a part was looked up. Parts of lists are kept by their lists; one that is an
    /// object by itself is used.
    pub fn touch_part(&mut self, digest: &Digest) {
        let turn = self.next_turn();
        let found = self.objects.range(Key::range_of(digest.as_bytes()));
        let found: Option<Key> = found.map(|(key, _)| *key).next();
        if let Some(key) = found {
            self.use_object(&key, turn);
        }
    }

    // ---- Letting go.

    /// Gives up the least recently used until the rest fits.
    pub fn shrink(&mut self) {
        while self.bytes > self.limits.bytes {
            let Some((_, key)) = self.recency.first().copied() else {
                return;
            };
            self.evicted += 1;
            self.remove(&key);
        }
    }

    /// Lowers the limit on bytes.
    pub fn limit_bytes(&mut self, bytes: u64) {
        self.limits.bytes = self.limits.bytes.min(bytes);
        self.shrink();
    }

    /// Removes every object for which `goes` holds, and says which.
    pub fn remove_where(&mut self, goes: impl Fn(&Key, &ObjectEntry) -> bool) -> Vec<Key> {
        let going = self
            .objects
            .iter()
            .filter(|(key, object)| goes(key, object));
        let going: Vec<Key> = going.map(|(key, _)| *key).collect();
        going.iter().for_each(|key| self.remove(key));
        going
    }

    /// Removes every object that has one of these parts, whose bytes are lost.
    pub fn remove_parts(&mut self, lost: &BTreeSet<Digest>) {
        self.remove_where(|_, object| object.parts.iter().any(|digest| lost.contains(digest)));
    }

    /// Removes what expired long ago and was not seen for as long, by [`Limits::keep_expired`].
    pub fn expire(&mut self, now: UnixTime) -> usize {
        let keep = self.limits.keep_expired.as_secs();
        let is_past = |then: UnixTime| then.0.saturating_add(keep) < now.0;
        // What is no certificate has no end, and is as good as ended where it was not seen for as
        // long.
        let is_over = |object: &ObjectEntry| object.facts.not_after.is_none_or(is_past);
        self.remove_where(|_, object| is_over(object) && is_past(object.last_seen))
            .len()
    }

    /// The objects that a name leads to, or that were seen at a site: all that would tell of the
    /// site.
    pub fn about(&self, site: &Site) -> BTreeSet<Key> {
        let shown = self.objects.iter();
        let shown = shown.filter(|(_, object)| object.sites.contains(site));
        let mut about: BTreeSet<Key> = shown.map(|(key, _)| *key).collect();
        match site {
            Site::Address(_) | Site::Any => {}
            Site::Name(name) => about.extend(self.names.find(name)),
        }
        about
    }

    /// Nobody writes down what changed.
    pub fn forget_changes(&mut self) {
        self.changes = Changes::default();
    }

    /// What changed and was not asked for yet.
    pub const fn changes_mut(&mut self) -> &mut Changes {
        &mut self.changes
    }

    // ---- The steps that both taking in and restoring are made of.

    const fn next_turn(&mut self) -> u64 {
        self.turn = self.turn.saturating_add(1);
        self.turn
    }

    fn insert_part(&mut self, digest: Digest, length: u64, added: UnixTime) {
        self.bytes += ENTRY_COST + length;
        let links = 0;
        self.parts.insert(
            digest,
            PartEntry {
                length,
                added,
                links,
            },
        );
    }

    fn insert_object(&mut self, key: Key, object: ObjectEntry) {
        for digest in &object.parts {
            if let Some(part) = self.parts.get_mut(digest) {
                part.links += 1;
            }
        }
        self.bytes += object.cost();
        self.recency.insert((object.used, key));
        self.names.insert(&object.facts.names, key, |other| {
            self.objects.get(other).map_or(0, |object| object.seen)
        });
        self.objects.insert(key, object);
    }

    fn use_object(&mut self, key: &Key, turn: u64) {
        if let Some(object) = self.objects.get_mut(key) {
            self.recency.remove(&(object.used, *key));
            object.used = turn;
            self.recency.insert((turn, *key));
            self.changes.objects.insert(*key);
        }
    }

    fn place_expectation(&mut self, site: &Site, kind: Kind, expectation: Expectation) -> bool {
        let id = expectation.object;
        let Some(object) = self.objects.get_mut(&Key { id, kind }) else {
            return false;
        };
        if !self.expectations.place(kind, site, expectation) {
            return true;
        }
        object.sites.insert(site.clone());
        self.bytes += site_cost(site);
        if let Some(oldest) = self.expectations.surplus(kind, site) {
            let oldest = Key { id: oldest, kind };
            self.remove_expectation(site, &oldest);
            let is_lost = |object: &ObjectEntry| object.sites.is_empty();
            match kind.row().unexpected {
                Unexpected::Goes if self.objects.get(&oldest).is_some_and(is_lost) => {
                    self.remove(&oldest);
                }
                Unexpected::Goes | Unexpected::Stays => {}
            }
        }
        let key = Key { id, kind };
        let sites = self.objects.get(&key).map(|object| &object.sites);
        if let Some(sites) = sites.filter(|sites| sites.len() > self.limits.sites_per_object) {
            let seen = |site: &&Site| self.expectation(site, &key).map(|shown| shown.seen);
            if let Some(oldest) = sites.iter().min_by_key(seen).cloned() {
                self.remove_expectation(&oldest, &key);
            }
        }
        true
    }

    fn remove_expectation(&mut self, site: &Site, key: &Key) {
        self.expectations.remove(key.kind, site, &key.id);
        if let Some(object) = self.objects.get_mut(key)
            && object.sites.remove(site)
        {
            self.bytes -= site_cost(site);
            self.changes.expectations.insert((site.clone(), *key));
        }
    }

    fn remove(&mut self, key: &Key) {
        let Some(sites) = self.objects.get(key).map(|object| object.sites.clone()) else {
            return;
        };
        sites
            .iter()
            .for_each(|site| self.remove_expectation(site, key));
        let Some(object) = self.objects.remove(key) else {
            return;
        };
        self.names.remove(&object.facts.names, key);
        self.recency.remove(&(object.used, *key));
        self.bytes -= object.cost();
        self.changes.objects.insert(*key);
        for digest in &object.parts {
            if let Some(part) = self.parts.get_mut(digest) {
                part.links -= 1;
            }
            self.drop_if_unused(digest);
        }
    }

    fn drop_if_unused(&mut self, digest: &Digest) {
        if let Some(part) = self.parts.get(digest).filter(|part| part.links == 0) {
            self.bytes -= ENTRY_COST + part.length;
            self.parts.remove(digest);
            self.changes.parts.insert(*digest);
            self.changes.dropped.push(*digest);
        }
    }
}

fn site_cost(site: &Site) -> u64 {
    match site {
        Site::Name(name) => ENTRY_COST + length(name.as_str().len()),
        Site::Address(_) | Site::Any => ENTRY_COST,
    }
}

fn length(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
