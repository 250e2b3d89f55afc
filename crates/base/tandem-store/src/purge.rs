//! Removing things on purpose.
//!
//! Not here: what goes for want of room or for its age, which the catalogue decides by itself.
//! Invariant: after a purge, look-ups answer as if what was removed had never been seen.

use std::collections::BTreeMap;

use tandem_wire::clock::UnixTime;

use crate::catalogue::Catalogue;
use crate::kind::Kind;
use crate::site::Site;

/// What to remove from a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// Everything.
    All,
    /// Objects that ended before this time: chains by their leaf.
    ExpiredBefore(UnixTime),
    /// Objects that were last seen before this time.
    NotSeenSince(UnixTime),
    /// Objects that tell of this site: that it showed, or that answer to its name. Other sites that
    /// show them are learned anew.
    Site(Site),
}

/// How many objects were removed, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purged(BTreeMap<Kind, usize>);

impl Purged {
    /// How many of a kind.
    #[must_use]
    pub fn of(&self, kind: Kind) -> usize {
        self.0.get(&kind).copied().unwrap_or(0)
    }

    /// How many in all.
    #[must_use]
    pub fn total(&self) -> usize {
        self.0.values().sum()
    }
}

impl Purge {
    /// Removes it.
    pub fn apply(&self, catalogue: &mut Catalogue) -> Purged {
        let removed = match self {
            Self::All => catalogue.remove_where(|_, _| true),
            Self::ExpiredBefore(time) => catalogue
                .remove_where(|_, object| object.facts.not_after.is_some_and(|end| end < *time)),
            Self::NotSeenSince(time) => {
                catalogue.remove_where(|_, object| object.last_seen < *time)
            }
            Self::Site(site) => {
                let about = catalogue.about(site);
                catalogue.remove_where(|key, _| about.contains(key))
            }
        };
        let mut purged = Purged::default();
        for key in removed {
            *purged.0.entry(key.kind).or_default() += 1;
        }
        purged
    }
}
