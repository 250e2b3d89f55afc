//! What differs between a catalogue and what was last written of it: names, not contents.
//!
//! Not here: the rows. Invariant: whoever writes looks each name up in the catalogue at that time
//! and writes what is there, or deletes what is not; so a change made twice is written once, and
//! writing twice does no harm.

use std::collections::BTreeSet;

use crate::digest::{ChainId, Digest};
use crate::site::Site;

/// Names of what was added, altered or removed.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Certificates.
    pub certificates: BTreeSet<Digest>,
    /// Chains.
    pub chains: BTreeSet<ChainId>,
    /// Who showed what.
    pub sightings: BTreeSet<(Site, ChainId)>,
    /// Certificates that were removed, in order; they may have come back since.
    pub dropped: Vec<Digest>,
}

impl Changes {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.certificates.is_empty() && self.chains.is_empty() && self.sightings.is_empty()
    }

    /// Whether anything came or went, beside being seen again.
    pub fn has_news(&self) -> bool {
        !self.certificates.is_empty() || !self.dropped.is_empty()
    }

    /// Adds changes that could not be written.
    pub fn merge(&mut self, mut other: Self) {
        self.certificates.append(&mut other.certificates);
        self.chains.append(&mut other.chains);
        self.sightings.append(&mut other.sightings);
        self.dropped.append(&mut other.dropped);
    }
}
