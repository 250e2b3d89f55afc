//! The half of the catalogue that only a disk needs: putting back what was written earlier, and
//! taking out what is to be written, a bounded piece at a time.
//!
//! Not here: rows. Invariants: putting back counts as no change; each piece can be written by
//! itself, after those before it: no chain comes before its certificates, no sighting before its
//! chain, and no certificate goes before its chains.

use tandem_wire::clock::UnixTime;

use super::{Catalogue, CertificateEntry, ChainEntry, Sighting, Single};
use crate::changes::Changes;
use crate::digest::{ChainId, Digest};
use crate::site::Site;

impl Catalogue {
    /// Puts back a certificate.
    pub fn restore_certificate(
        &mut self,
        digest: Digest,
        length: u64,
        added: UnixTime,
        single: Option<Single>,
    ) {
        self.turn = self
            .turn
            .max(single.as_ref().map_or(0, |single| single.used));
        self.insert_certificate(digest, length, added, single);
    }

    /// Puts back a chain; to be called in the order in which chains were seen. `false` if
    /// certificates of it are not there.
    pub fn restore_chain(&mut self, id: ChainId, chain: ChainEntry) -> bool {
        let is_whole = chain
            .certificates
            .iter()
            .all(|digest| self.certificates.contains_key(digest));
        if !is_whole || chain.certificates.is_empty() {
            return false;
        }
        self.turn = self.turn.max(chain.seen).max(chain.used);
        self.insert_chain(id, chain);
        true
    }

    /// Puts back a sighting; to be called in the order of turns. `false` if its chain is not there.
    pub fn restore_sighting(&mut self, site: &Site, sighting: Sighting) -> bool {
        self.turn = self.turn.max(sighting.seen);
        self.place_sighting(site, sighting)
    }

    /// Drops certificates that turned out to be in no chain and not held for themselves, and what
    /// is beyond the limits.
    pub fn finish_restoring(&mut self) {
        let is_orphan = |entry: &CertificateEntry| entry.links == 0 && entry.single.is_none();
        let orphans = self
            .certificates
            .iter()
            .filter(|(_, entry)| is_orphan(entry));
        let orphans: Vec<Digest> = orphans.map(|(digest, _)| *digest).collect();
        orphans
            .iter()
            .for_each(|digest| self.drop_if_unused(digest));
        self.shrink();
    }

    /// What changed and was not taken yet: at most `limit` chains with what belongs to them, or,
    /// where no chain is left, at most `limit` others.
    pub fn take_changes(&mut self, limit: usize) -> Changes {
        let mut taken = Changes::default();
        while taken.chains.len() < limit
            && let Some(id) = self.changes.chains.pop_first()
        {
            taken.chains.insert(id);
            let Some(chain) = self.chains.get(&id) else {
                continue;
            };
            for digest in &chain.certificates {
                taken
                    .certificates
                    .extend(self.changes.certificates.take(digest));
            }
            for site in &chain.sites {
                taken
                    .sightings
                    .extend(self.changes.sightings.take(&(site.clone(), id)));
            }
        }
        if !self.changes.chains.is_empty() {
            return taken;
        }
        // Sightings that are gone; those that are there belong to chains and came with them.
        let room = limit.saturating_sub(taken.chains.len());
        taken
            .sightings
            .extend((0..room).map_while(|_| self.changes.sightings.pop_first()));
        if self.changes.sightings.is_empty() {
            taken
                .certificates
                .extend((0..room).map_while(|_| self.changes.certificates.pop_first()));
        }
        taken
    }
}
