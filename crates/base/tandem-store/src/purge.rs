//! Removing things on purpose.
//!
//! Not here: what goes for want of room or for its age, which the catalogue decides by itself.
//! Invariant: after a purge, look-ups answer as if what was removed had never been seen.

use tandem_wire::clock::UnixTime;

use crate::catalogue::Catalogue;
use crate::site::Site;

/// What to remove from a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// Everything.
    All,
    /// Chains whose leaf, and single certificates that, ended before this time.
    ExpiredBefore(UnixTime),
    /// Chains that were last seen, and single certificates that were added, before this time.
    NotSeenSince(UnixTime),
    /// Chains that tell of this site: that it showed, or whose leaf answers to its name. Other
    /// sites that show them are learned anew.
    Site(Site),
}

/// How much was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Chains.
    pub chains: usize,
    /// Certificates that were held without a chain.
    pub certificates: usize,
}

impl Purge {
    /// Removes it.
    pub fn apply(&self, catalogue: &mut Catalogue) -> Purged {
        let (chains, certificates) = match self {
            Self::All => (
                catalogue.remove_chains(|_, _| true),
                catalogue.remove_singles(|_, _| true),
            ),
            Self::ExpiredBefore(time) => (
                catalogue
                    .remove_chains(|_, chain| chain.facts.not_after.is_some_and(|end| end < *time)),
                catalogue
                    .remove_singles(|_, single| single.not_after.is_some_and(|end| end < *time)),
            ),
            Self::NotSeenSince(time) => (
                catalogue.remove_chains(|_, chain| chain.last_seen < *time),
                catalogue.remove_singles(|entry, _| entry.added < *time),
            ),
            Self::Site(site) => {
                let about = catalogue.chains_about(site);
                (catalogue.remove_chains(|id, _| about.contains(id)), 0)
            }
        };
        Purged {
            chains,
            certificates,
        }
    }
}
