//! What the client-side proxy keeps of the server-side one from connection to connection.
//!
//! Is: chains that turned out not to be held over there, and, where it goes by what is published,
//! the newest publication and what was learned since. Is not: what is held here; that is the
//! store's. Invariants: bounded, the oldest forgotten first, which costs a miss or a chain that
//! goes as it is; a publication is in place of all that was known before, so that nothing outlives
//! the loss of a store.

use std::collections::VecDeque;

use tandem_delta::Reference;
use tandem_store::ObjectId;

use super::filter::{Filter, Fingerprint};

/// How many chains are remembered as not held: one for each client of a site whose far side has
/// lost its store.
const MAX_LACKING: usize = 4_096;

/// How many chains are remembered as learned by both since the publication.
const MAX_LEARNED: usize = 4_096;

/// The other proxy, as this one knows it.
#[derive(Debug, Default)]
pub struct FarSide {
    lacking: Chains<MAX_LACKING>,
    learned: Chains<MAX_LEARNED>,
    published: Option<Filter>,
    /// Of all that is known to be held: what was published, and each chain that was learned since.
    /// The far side counts alike.
    fingerprint: Fingerprint,
}

/// Some chains, the oldest first.
#[derive(Debug, Default)]
struct Chains<const MAX: usize>(VecDeque<ObjectId>);

impl<const MAX: usize> Chains<MAX> {
    fn add(&mut self, chain: ObjectId) {
        if self.has(&chain) {
            return;
        }
        if self.0.len() >= MAX {
            self.0.pop_front();
        }
        self.0.push_back(chain);
    }

    fn remove(&mut self, chain: &ObjectId) {
        self.0.retain(|other| other != chain);
    }

    fn has(&self, chain: &ObjectId) -> bool {
        self.0.contains(chain)
    }
}

impl FarSide {
    /// A flight with this chain was not rebuilt.
    pub fn lacks(&mut self, chain: ObjectId) {
        self.lacking.add(chain);
    }

    /// A handshake with this chain has finished: both have learned it.
    pub fn learned(&mut self, chain: &ObjectId) {
        self.lacking.remove(chain);
    }

    /// Whether references to this chain would miss.
    pub fn is_lacking(&self, chain: &ObjectId) -> bool {
        self.lacking.has(chain)
    }

    /// The far side says what it holds.
    pub fn publishes(&mut self, fingerprint: Fingerprint, filter: Filter) {
        *self = Self {
            published: Some(filter),
            fingerprint,
            ..Self::default()
        };
    }

    /// The same as [`Self::learned`], where it is noted here and not in the store.
    pub fn notes(&mut self, chain: ObjectId) {
        // What was known to be held has changed nothing over there.
        if !self.holds(&chain) {
            self.fingerprint.toggle(&chain);
            self.learned.add(chain);
        }
        self.learned(&chain);
    }

    /// Whether this chain is held over there, as far as was published or noted.
    pub fn holds(&self, chain: &ObjectId) -> bool {
        let reference = Reference(chain.prefix16());
        let is_published = self.published.as_ref();
        let is_known = is_published.is_some_and(|filter| filter.contains(&reference))
            || self.learned.has(chain);
        is_known && !self.is_lacking(chain)
    }

    /// Whether anything is known to be held.
    pub fn holds_any(&self) -> bool {
        let is_published = self.published.as_ref();
        is_published.is_some_and(|filter| filter.count() > 0) || !self.learned.0.is_empty()
    }

    /// Bytes of memory in use, about.
    pub(super) fn footprint(&self) -> usize {
        let chains = self.lacking.0.capacity() + self.learned.0.capacity();
        chains * size_of::<ObjectId>() + self.published.as_ref().map_or(0, Filter::footprint)
    }

    /// Of all that is known to be held.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::filter::Rate;

    fn chain(number: u32) -> ObjectId {
        ObjectId::of(&[&number.to_be_bytes()])
    }

    fn filter(numbers: std::ops::Range<u32>) -> (Fingerprint, Filter) {
        let chains: Vec<_> = numbers.map(chain).collect();
        let fingerprint = Fingerprint::of(&chains);
        let references = chains.iter().map(|chain| Reference(chain.prefix16()));
        (
            fingerprint,
            Filter::of(references, fingerprint.0, Rate::DEFAULT),
        )
    }

    #[test]
    fn what_missed_is_lacking_until_both_have_learned_it() {
        let mut far = FarSide::default();
        far.lacks(chain(1));
        far.lacks(chain(1));
        assert!(far.is_lacking(&chain(1)) && !far.is_lacking(&chain(2)));
        far.learned(&chain(1));
        assert!(!far.is_lacking(&chain(1)));
    }

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut far = FarSide::default();
        (0..=MAX_LACKING as u32).for_each(|number| far.lacks(chain(number)));
        assert!(!far.is_lacking(&chain(0)) && far.is_lacking(&chain(1)));
    }

    #[test]
    fn what_passes_is_put_into_what_was_published_and_a_new_publication_takes_its_place() {
        let mut far = FarSide::default();
        assert!(!far.holds_any() && far.fingerprint() == Fingerprint(0));
        let (fingerprint, published) = filter(0..3);
        far.publishes(fingerprint, published);
        assert!((0..3).all(|number| far.holds(&chain(number))));
        far.notes(chain(1));
        assert_eq!(far.fingerprint(), fingerprint, "it was held");
        far.notes(chain(7));
        far.notes(chain(7));
        assert!(far.holds(&chain(7)));
        let both = (0..3).chain([7]).map(chain).collect::<Vec<_>>();
        assert_eq!(far.fingerprint(), Fingerprint::of(&both));
        let (nothing, published) = filter(0..0);
        far.publishes(nothing, published);
        assert!(!far.holds(&chain(1)) && !far.holds(&chain(7)) && !far.holds_any());
        assert_eq!(far.fingerprint(), Fingerprint(0));
    }

    #[test]
    fn one_that_passed_for_held_and_missed_counts_as_new_when_it_was_learned() {
        let mut far = FarSide::default();
        let (fingerprint, published) = filter(0..1_000);
        far.publishes(fingerprint, published);
        let wrong = (1_000..).map(chain).find(|chain| far.holds(chain));
        let wrong = wrong.expect("one in 256 passes for held");
        far.lacks(wrong);
        assert!(!far.holds(&wrong));
        far.notes(wrong);
        assert!(far.holds(&wrong));
        let mut both = fingerprint;
        both.toggle(&wrong);
        assert_eq!(far.fingerprint(), both);
    }
}
