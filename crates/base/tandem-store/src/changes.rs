//! What differs between a catalogue and what was last written of it: names, not contents.
//!
//! Not here: the rows. Invariant: whoever writes looks each name up in the catalogue at that time
//! and writes what is there, or deletes what is not; so a change made twice is written once, and
//! writing twice does no harm.

use std::collections::BTreeSet;

use crate::digest::Digest;
use crate::key::Key;
use crate::site::Site;

/// Names of what was added, altered or removed.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Parts.
    pub parts: BTreeSet<Digest>,
    /// Objects.
    pub objects: BTreeSet<Key>,
    /// What is expected of whom.
    pub expectations: BTreeSet<(Site, Key)>,
    /// Parts that were removed, in order; they may have come back since.
    pub dropped: Vec<Digest>,
}

impl Changes {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.objects.is_empty() && self.expectations.is_empty()
    }

    /// Whether anything came or went, beside being seen again.
    pub fn has_news(&self) -> bool {
        !self.parts.is_empty() || !self.dropped.is_empty()
    }

    /// Adds changes that could not be written.
    pub fn merge(&mut self, mut other: Self) {
        self.parts.append(&mut other.parts);
        self.objects.append(&mut other.objects);
        self.expectations.append(&mut other.expectations);
        self.dropped.append(&mut other.dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::ObjectId;
    use crate::kind::Kind;

    fn each() -> [Changes; 4] {
        let digest = Digest::of(b"part");
        let id = ObjectId::from_digest(digest);
        let key = Key {
            id,
            kind: Kind::Staple,
        };
        let none = Changes::default;
        [
            Changes {
                parts: [digest].into(),
                ..none()
            },
            Changes {
                objects: [key].into(),
                ..none()
            },
            Changes {
                expectations: [(Site::Any, key)].into(),
                ..none()
            },
            Changes {
                dropped: vec![digest],
                ..none()
            },
        ]
    }

    #[test]
    fn anything_to_write_is_no_emptiness_and_parts_are_news() {
        assert!(Changes::default().is_empty() && !Changes::default().has_news());
        let each = each();
        assert_eq!(
            each.each_ref().map(Changes::is_empty),
            [false, false, false, true]
        );
        assert_eq!(
            each.each_ref().map(Changes::has_news),
            [true, false, false, true]
        );
    }

    #[test]
    fn what_could_not_be_written_is_added_to_what_came_since() {
        let mut all = Changes::default();
        each().into_iter().for_each(|changes| all.merge(changes));
        let counts = (all.parts.len(), all.objects.len(), all.expectations.len());
        assert_eq!((counts, all.dropped.len()), ((1, 1, 1), 1));
    }
}
