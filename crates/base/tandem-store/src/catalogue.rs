//! What a store holds, without the bytes: certificates, chains, who showed them, by which names
//! they are found, and which go first when there is no more room.
//!
//! Not here: the bytes (`bodies`), any disk. Both stores are this catalogue, so that they cannot
//! disagree.
//!
//! Invariants:
//! - every certificate of a held chain is held, and every held certificate is in a chain or held
//!   singly;
//! - order ("newest seen", "least recently used") comes from turns, numbers that only grow, never
//!   from the clock, so that a clock that jumps reorders nothing; a last-seen time never goes back;
//! - each list that a stranger can grow is bounded by [`Limits`].

mod disk;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use tandem_wire::clock::UnixTime;

use crate::changes::Changes;
use crate::digest::{ChainId, Digest};
use crate::limits::Limits;
use crate::names::NameIndex;
use crate::site::Site;
use crate::x509::LeafFacts;

/// What indexing one certificate, chain, name or site takes, roughly: its entries in the trees here
/// and its row on disk. An estimate, so that a store full of tiny things is bounded too.
const ENTRY_COST: u64 = 128;

/// What is known of one certificate.
#[derive(Clone, Debug)]
pub struct CertificateEntry {
    /// Bytes of its DER.
    pub length: u64,
    /// When it was first held.
    pub added: UnixTime,
    /// Set if it is held for itself, and not only as part of chains.
    pub single: Option<Single>,
    /// How often it occurs in held chains.
    links: u32,
}

/// A certificate that is held for itself: imported, and not seen in a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Single {
    /// The turn of its last use.
    pub used: u64,
    /// The last second of its validity, if it is X.509.
    pub not_after: Option<UnixTime>,
}

/// What is known of one chain.
#[derive(Clone, Debug)]
pub struct ChainEntry {
    /// Its certificates, leaf first.
    pub certificates: Vec<Digest>,
    /// Names and end of its leaf.
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

impl ChainEntry {
    /// A chain that no site is known to have shown yet.
    pub fn new(certificates: Vec<Digest>, facts: LeafFacts, now: UnixTime) -> Self {
        Self {
            certificates,
            facts,
            first_seen: now,
            last_seen: now,
            seen: 0,
            used: 0,
            hits: 0,
            sites: BTreeSet::new(),
        }
    }

    /// The sites that showed it, in order of their names.
    pub fn sites(&self) -> impl Iterator<Item = &Site> {
        self.sites.iter()
    }

    /// Whether it is no chain, but what sites send beside theirs.
    pub fn is_extras(&self) -> bool {
        !self.sites.is_empty() && self.sites.iter().all(Site::is_extras)
    }

    fn is_expired(&self, now: UnixTime) -> bool {
        // RFC 5280, section 4.1.2.5: the validity includes its last second.
        self.facts.not_after.is_some_and(|end| end < now)
    }

    fn cost(&self) -> u64 {
        let names = self.facts.names.iter();
        let links = ENTRY_COST * length(self.certificates.len());
        ENTRY_COST
            + links
            + names
                .map(|name| ENTRY_COST + length(name.as_str().len()))
                .sum::<u64>()
    }
}

/// When a site last showed a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The chain.
    pub chain: ChainId,
    /// The turn.
    pub seen: u64,
    /// The time.
    pub last_seen: UnixTime,
}

/// What can be given up for want of room, by the turn of its last use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Holding {
    Chain(ChainId),
    Single(Digest),
}

/// What a store holds, without the bytes.
#[derive(Debug)]
pub struct Catalogue {
    limits: Limits,
    certificates: BTreeMap<Digest, CertificateEntry>,
    chains: BTreeMap<ChainId, ChainEntry>,
    names: NameIndex,
    sites: BTreeMap<Site, Vec<Sighting>>,
    recency: BTreeSet<(u64, Holding)>,
    turn: u64,
    bytes: u64,
    evicted: u64,
    changes: Changes,
}

impl Catalogue {
    /// An empty catalogue.
    pub fn new(limits: Limits) -> Self {
        Self {
            names: NameIndex::new(limits.chains_per_name),
            limits,
            certificates: BTreeMap::new(),
            chains: BTreeMap::new(),
            sites: BTreeMap::new(),
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

    /// Chains and single certificates given up for want of room.
    pub const fn evicted(&self) -> u64 {
        self.evicted
    }

    /// All certificates.
    pub const fn certificates(&self) -> &BTreeMap<Digest, CertificateEntry> {
        &self.certificates
    }

    /// All chains.
    pub const fn chains(&self) -> &BTreeMap<ChainId, ChainEntry> {
        &self.chains
    }

    /// When `site` last showed the chain, if it did.
    pub fn sighting(&self, site: &Site, chain: &ChainId) -> Option<&Sighting> {
        self.sites
            .get(site)?
            .iter()
            .find(|sighting| sighting.chain == *chain)
    }

    /// The one certificate whose digest starts with `prefix`.
    pub fn certificate_by_prefix(&self, prefix: &[u8]) -> Option<Digest> {
        let (least, greatest) = Digest::range_of(prefix);
        only(self.certificates.range(least..=greatest)).map(|(digest, _)| *digest)
    }

    /// The one chain whose name starts with `prefix`.
    pub fn chain_by_prefix(&self, prefix: &[u8]) -> Option<ChainId> {
        let (least, greatest) = Digest::range_of(prefix);
        let range = ChainId::from_digest(least)..=ChainId::from_digest(greatest);
        only(self.chains.range(range)).map(|(id, _)| *id)
    }

    /// Which chains to expect from `site`: see [`Store::chains_for`](crate::Store::chains_for).
    pub fn expected(&self, site: &Site, now: UnixTime, limit: usize) -> Vec<ChainId> {
        let remember = self.limits.remember.as_secs();
        let is_recent =
            |sighting: &&Sighting| now.0.saturating_sub(sighting.last_seen.0) <= remember;
        let is_valid = |id: &ChainId| {
            self.chains
                .get(id)
                .is_some_and(|chain| !chain.is_expired(now))
        };
        let shown = self.sites.get(site).map_or(&[][..], Vec::as_slice);
        let mut shown: Vec<&Sighting> = shown.iter().filter(is_recent).collect();
        // Whoever connects somewhere can name any site: a chain that does not answer to the name
        // comes last.
        let named: BTreeSet<ChainId> = match site {
            Site::Address(_) | Site::NameExtras(_) | Site::AddressExtras(_) | Site::Issuers => {
                BTreeSet::new()
            }
            Site::Name(name) => self.names.find(name).collect(),
        };
        shown.sort_by_key(|sighting| {
            (
                !named.contains(&sighting.chain),
                core::cmp::Reverse(sighting.seen),
            )
        });
        let mut expected: Vec<ChainId> = shown.into_iter().map(|sighting| sighting.chain).collect();
        expected.retain(is_valid);
        if expected.len() < limit {
            let mut named: Vec<ChainId> = named.into_iter().collect();
            named.retain(|id| !expected.contains(id) && is_valid(id));
            named.sort_by_key(|id| core::cmp::Reverse(self.chains.get(id).map(|chain| chain.seen)));
            expected.append(&mut named);
        }
        expected.truncate(limit);
        expected
    }

    /// The chains that no site showed: see [`Store::client_chains`](crate::Store::client_chains).
    pub fn without_site(&self, limit: usize) -> Vec<ChainId> {
        let unsited = self
            .chains
            .iter()
            .filter(|(_, chain)| chain.sites.is_empty());
        let mut unsited: Vec<(u64, ChainId)> =
            unsited.map(|(id, chain)| (chain.seen, *id)).collect();
        unsited.sort_unstable_by_key(|(seen, _)| core::cmp::Reverse(*seen));
        unsited.truncate(limit);
        unsited.into_iter().map(|(_, id)| id).collect()
    }

    // ---- Taking in.

    /// Whether a chain of these lengths is worth keeping at all.
    pub fn accepts(&self, chain: &[&[u8]]) -> bool {
        let bytes = chain
            .iter()
            .fold(0_usize, |sum, der| sum.saturating_add(der.len()));
        let has_room = bytes <= self.limits.chain_bytes && length(bytes) <= self.limits.bytes;
        let count_fits = (1..=self.limits.certificates_per_chain).contains(&chain.len());
        has_room && count_fits && chain.iter().all(|der| !der.is_empty())
    }

    /// Notes that a held chain was seen again. `false` if it is not held.
    pub fn refresh(&mut self, id: &ChainId, now: UnixTime) -> bool {
        let turn = self.next_turn();
        let Some(chain) = self.chains.get_mut(id) else {
            return false;
        };
        chain.hits = chain.hits.saturating_add(1);
        chain.last_seen = chain.last_seen.max(now);
        chain.seen = turn;
        self.use_chain(id, turn);
        true
    }

    /// Takes in a chain that is not held, with the length of each certificate, and says which
    /// certificates are new.
    pub fn add_chain(&mut self, id: ChainId, lengths: &[u64], chain: ChainEntry) -> Vec<Digest> {
        let mut fresh = Vec::new();
        for (digest, length) in chain.certificates.iter().zip(lengths) {
            if !self.certificates.contains_key(digest) {
                self.insert_certificate(*digest, *length, chain.first_seen, None);
                self.changes.certificates.insert(*digest);
                fresh.push(*digest);
            }
        }
        let turn = self.next_turn();
        self.insert_chain(
            id,
            ChainEntry {
                seen: turn,
                used: turn,
                ..chain
            },
        );
        self.changes.chains.insert(id);
        fresh
    }

    /// Holds one certificate for itself. `true` if it is new.
    pub fn add_single(
        &mut self,
        digest: Digest,
        length: u64,
        not_after: Option<UnixTime>,
        now: UnixTime,
    ) -> bool {
        let single = Single {
            used: self.next_turn(),
            not_after,
        };
        let is_new = !self.certificates.contains_key(&digest);
        if is_new {
            self.insert_certificate(digest, length, now, Some(single));
        } else {
            self.release_single(&digest);
            self.recency.insert((single.used, Holding::Single(digest)));
            if let Some(entry) = self.certificates.get_mut(&digest) {
                entry.single = Some(single);
            }
        }
        self.changes.certificates.insert(digest);
        is_new
    }

    /// Notes that `site` just showed a held chain.
    pub fn observe(&mut self, site: &Site, id: &ChainId, now: UnixTime) {
        let Some(seen) = self.chains.get(id).map(|chain| chain.seen) else {
            return;
        };
        let last_seen = self
            .sighting(site, id)
            .map_or(now, |sighting| sighting.last_seen.max(now));
        self.place_sighting(
            site,
            Sighting {
                chain: *id,
                seen,
                last_seen,
            },
        );
        self.changes.sightings.insert((site.clone(), *id));
    }

    /// Notes that a chain was looked up.
    pub fn touch_chain(&mut self, id: &ChainId) {
        let turn = self.next_turn();
        self.use_chain(id, turn);
    }

    /// Notes that a certificate was looked up. Those in chains are kept by their chains.
    pub fn touch_certificate(&mut self, digest: &Digest) {
        let turn = self.next_turn();
        let Some(single) = self
            .certificates
            .get_mut(digest)
            .and_then(|entry| entry.single.as_mut())
        else {
            return;
        };
        self.recency
            .remove(&(single.used, Holding::Single(*digest)));
        single.used = turn;
        self.recency.insert((turn, Holding::Single(*digest)));
        self.changes.certificates.insert(*digest);
    }

    // ---- Letting go.

    /// Gives up the least recently used until the rest fits.
    pub fn shrink(&mut self) {
        while self.bytes > self.limits.bytes {
            let Some((_, holding)) = self.recency.first().copied() else {
                return;
            };
            self.evicted += 1;
            match holding {
                Holding::Chain(id) => self.remove_chain(&id),
                Holding::Single(digest) => self.remove_single(&digest),
            }
        }
    }

    /// Lowers the limit on bytes.
    pub fn limit_bytes(&mut self, bytes: u64) {
        self.limits.bytes = self.limits.bytes.min(bytes);
        self.shrink();
    }

    /// Removes every chain for which `goes` holds, and says how many went.
    pub fn remove_chains(&mut self, goes: impl Fn(&ChainId, &ChainEntry) -> bool) -> usize {
        let going = self.chains.iter().filter(|(id, chain)| goes(id, chain));
        let going: Vec<ChainId> = going.map(|(id, _)| *id).collect();
        going.iter().for_each(|id| self.remove_chain(id));
        going.len()
    }

    /// Stops holding every single certificate for which `goes` holds, and says how many.
    pub fn remove_singles(&mut self, goes: impl Fn(&CertificateEntry, &Single) -> bool) -> usize {
        let going = self.certificates.iter().filter(|(_, entry)| {
            let single = entry.single.as_ref();
            single.is_some_and(|single| goes(entry, single))
        });
        let going: Vec<Digest> = going.map(|(digest, _)| *digest).collect();
        going.iter().for_each(|digest| self.remove_single(digest));
        going.len()
    }

    /// Removes certificates whose bytes are lost, and every chain that has one of them.
    pub fn remove_certificates(&mut self, lost: &BTreeSet<Digest>) {
        self.remove_chains(|_, chain| {
            let mut certificates = chain.certificates.iter();
            certificates.any(|digest| lost.contains(digest))
        });
        lost.iter().for_each(|digest| self.remove_single(digest));
    }

    /// Removes what expired long ago and was not seen for as long, by [`Limits::keep_expired`].
    pub fn expire(&mut self, now: UnixTime) -> usize {
        let keep = self.limits.keep_expired.as_secs();
        let is_past = |then: UnixTime| then.0.saturating_add(keep) < now.0;
        self.remove_chains(|_, chain| {
            // What is no certificate has no end, and is as good as ended where it was not seen for
            // as long.
            chain.facts.not_after.is_none_or(is_past) && is_past(chain.last_seen)
        }) + self.remove_singles(|entry, single| {
            single.not_after.is_some_and(is_past) && is_past(entry.added)
        })
    }

    /// The chains that a name leads to, or that were seen at a site, and what came beside them: all
    /// that would tell of the site.
    pub fn chains_about(&self, site: &Site) -> BTreeSet<ChainId> {
        let extras = site.extras();
        let shown = [site, &extras]
            .into_iter()
            .filter_map(|site| self.sites.get(site))
            .flatten()
            .map(|sighting| sighting.chain);
        let mut about: BTreeSet<ChainId> = shown.collect();
        match site {
            Site::Address(_) | Site::NameExtras(_) | Site::AddressExtras(_) | Site::Issuers => {}
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

    // ---- The parts that both taking in and restoring are made of.

    const fn next_turn(&mut self) -> u64 {
        self.turn = self.turn.saturating_add(1);
        self.turn
    }

    fn insert_certificate(
        &mut self,
        digest: Digest,
        length: u64,
        added: UnixTime,
        single: Option<Single>,
    ) {
        if let Some(single) = &single {
            self.recency.insert((single.used, Holding::Single(digest)));
        }
        self.bytes += ENTRY_COST + length;
        self.certificates.insert(
            digest,
            CertificateEntry {
                length,
                added,
                single,
                links: 0,
            },
        );
    }

    fn insert_chain(&mut self, id: ChainId, chain: ChainEntry) {
        for digest in &chain.certificates {
            if let Some(entry) = self.certificates.get_mut(digest) {
                entry.links += 1;
            }
        }
        self.bytes += chain.cost();
        self.recency.insert((chain.used, Holding::Chain(id)));
        self.names.insert(&chain.facts.names, id, |other| {
            self.chains.get(other).map_or(0, |chain| chain.seen)
        });
        self.chains.insert(id, chain);
    }

    fn use_chain(&mut self, id: &ChainId, turn: u64) {
        if let Some(chain) = self.chains.get_mut(id) {
            self.recency.remove(&(chain.used, Holding::Chain(*id)));
            chain.used = turn;
            self.recency.insert((turn, Holding::Chain(*id)));
            self.changes.chains.insert(*id);
        }
    }

    fn place_sighting(&mut self, site: &Site, sighting: Sighting) -> bool {
        let Some(chain) = self.chains.get_mut(&sighting.chain) else {
            return false;
        };
        let shown = self.sites.entry(site.clone()).or_default();
        if let Some(known) = shown.iter_mut().find(|known| known.chain == sighting.chain) {
            *known = sighting;
            return true;
        }
        shown.push(sighting);
        chain.sites.insert(site.clone());
        self.bytes += site_cost(site);
        if shown.len() > self.limits.chains_per_site {
            let oldest = shown
                .iter()
                .min_by_key(|known| known.seen)
                .map(|known| known.chain);
            if let Some(oldest) = oldest {
                self.remove_sighting(site, &oldest);
                // Nobody finds a staple but by the site that sent it.
                let is_lost = |chain: &ChainEntry| chain.sites.is_empty();
                if site.is_extras() && self.chains.get(&oldest).is_some_and(is_lost) {
                    self.remove_chain(&oldest);
                }
            }
        }
        let sites = self.chains.get(&sighting.chain).map(|chain| &chain.sites);
        if let Some(sites) = sites.filter(|sites| sites.len() > self.limits.sites_per_chain) {
            let seen = |site: &&Site| self.sighting(site, &sighting.chain).map(|known| known.seen);
            if let Some(oldest) = sites.iter().min_by_key(seen).cloned() {
                self.remove_sighting(&oldest, &sighting.chain);
            }
        }
        true
    }

    fn remove_sighting(&mut self, site: &Site, id: &ChainId) {
        if let Some(shown) = self.sites.get_mut(site) {
            shown.retain(|sighting| sighting.chain != *id);
            if shown.is_empty() {
                self.sites.remove(site);
            }
        }
        if let Some(chain) = self.chains.get_mut(id)
            && chain.sites.remove(site)
        {
            self.bytes -= site_cost(site);
            self.changes.sightings.insert((site.clone(), *id));
        }
    }

    fn remove_chain(&mut self, id: &ChainId) {
        let Some(sites) = self.chains.get(id).map(|chain| chain.sites.clone()) else {
            return;
        };
        sites.iter().for_each(|site| self.remove_sighting(site, id));
        let Some(chain) = self.chains.remove(id) else {
            return;
        };
        self.names.remove(&chain.facts.names, id);
        self.recency.remove(&(chain.used, Holding::Chain(*id)));
        self.bytes -= chain.cost();
        self.changes.chains.insert(*id);
        for digest in &chain.certificates {
            if let Some(entry) = self.certificates.get_mut(digest) {
                entry.links -= 1;
            }
            self.drop_if_unused(digest);
        }
    }

    fn remove_single(&mut self, digest: &Digest) {
        self.release_single(digest);
        self.drop_if_unused(digest);
    }

    fn release_single(&mut self, digest: &Digest) {
        if let Some(single) = self
            .certificates
            .get_mut(digest)
            .and_then(|entry| entry.single.take())
        {
            self.recency
                .remove(&(single.used, Holding::Single(*digest)));
            self.changes.certificates.insert(*digest);
        }
    }

    fn drop_if_unused(&mut self, digest: &Digest) {
        let entry = self.certificates.get(digest);
        if let Some(entry) = entry.filter(|entry| entry.links == 0 && entry.single.is_none()) {
            self.bytes -= ENTRY_COST + entry.length;
            self.certificates.remove(digest);
            self.changes.certificates.insert(*digest);
            self.changes.dropped.push(*digest);
        }
    }
}

/// The only item of an iterator.
fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let first = items.next();
    if items.next().is_some() { None } else { first }
}

fn site_cost(site: &Site) -> u64 {
    match site {
        Site::Name(name) | Site::NameExtras(name) => ENTRY_COST + length(name.as_str().len()),
        Site::Address(_) | Site::AddressExtras(_) | Site::Issuers => ENTRY_COST,
    }
}

fn length(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
