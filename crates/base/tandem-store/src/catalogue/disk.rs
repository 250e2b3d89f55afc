//! The half of the catalogue that only a disk needs: putting back what was written earlier, and
//! taking out what is to be written, a bounded piece at a time.
//!
//! Not here: rows. Invariants: putting back counts as no change; each piece can be written by
//! itself, after those before it: no object comes before its parts, no expectation before its
//! object, and no part goes before its objects.

use tandem_wire::clock::UnixTime;

use super::{Catalogue, ObjectEntry};
use crate::changes::Changes;
use crate::digest::Digest;
use crate::expectations::Expectation;
use crate::key::Key;
use crate::kind::{Kind, Reading};
use crate::site::Site;

impl Catalogue {
    /// Puts back a part.
    pub fn restore_part(&mut self, digest: Digest, length: u64, added: UnixTime) {
        self.insert_part(digest, length, added);
    }

    /// Puts back an object; to be called in the order in which objects were seen. `false` if parts
    /// of it are not there.
    pub fn restore_object(&mut self, key: Key, mut object: ObjectEntry) -> bool {
        let is_whole = object
            .parts
            .iter()
            .all(|digest| self.parts.contains_key(digest));
        if !is_whole || object.parts.is_empty() {
            return false;
        }
        match key.kind.row().reading {
            Reading::NamesAndEnd => {}
            Reading::End | Reading::Nothing => object.facts.names.clear(),
        }
        self.turn = self.turn.max(object.seen).max(object.used);
        self.insert_object(key, object);
        true
    }

    /// Puts back an expectation; to be called in the order of turns. `false` if its object is not
    /// there.
    pub fn restore_expectation(
        &mut self,
        site: &Site,
        kind: Kind,
        expectation: Expectation,
    ) -> bool {
        self.turn = self.turn.max(expectation.seen);
        self.place_expectation(site, kind, expectation)
    }

    /// Drops parts that turned out to be in no object, and what is beyond the limits.
    pub fn finish_restoring(&mut self) {
        let orphans = self.parts.iter().filter(|(_, part)| part.links == 0);
        let orphans: Vec<Digest> = orphans.map(|(digest, _)| *digest).collect();
        orphans
            .iter()
            .for_each(|digest| self.drop_if_unused(digest));
        self.shrink();
    }

    /// What changed and was not taken yet: at most `limit` objects with what belongs to them, or,
    /// where no object is left, at most `limit` others.
    pub fn take_changes(&mut self, limit: usize) -> Changes {
        let mut taken = Changes::default();
        while taken.objects.len() < limit
            && let Some(key) = self.changes.objects.pop_first()
        {
            taken.objects.insert(key);
            let Some(object) = self.objects.get(&key) else {
                continue;
            };
            for digest in &object.parts {
                taken.parts.extend(self.changes.parts.take(digest));
            }
            for site in &object.sites {
                taken
                    .expectations
                    .extend(self.changes.expectations.take(&(site.clone(), key)));
            }
        }
        if !self.changes.objects.is_empty() {
            return taken;
        }
        // Expectations that are gone; those that are there belong to objects and came with them.
        let room = limit.saturating_sub(taken.objects.len());
        taken
            .expectations
            .extend((0..room).map_while(|_| self.changes.expectations.pop_first()));
        if self.changes.expectations.is_empty() {
            taken
                .parts
                .extend((0..room).map_while(|_| self.changes.parts.pop_first()));
        }
        taken
    }
}
