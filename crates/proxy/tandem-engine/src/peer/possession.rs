//! What the far side is known to hold, and what it is told: hints and references.
//!
//! Is not: the store. Invariant: possession is what this very connection showed; a wrong one costs
//! a miss, never a byte.

use std::collections::BTreeSet;
use std::sync::Arc;

use tandem_delta::Reference;
use tandem_store::{Digest, Kind, ObjectId, Site, Store};
use tandem_wire::UnixTime;

use super::Authorities;

/// What the far side holds, as it said itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Possession {
    hints: Vec<[u8; 4]>,
    certificates: BTreeSet<Reference>,
    authorities: Option<Arc<Authorities>>,
}

impl Possession {
    /// Out of the hints of the safe format: the fronts of the names of [`Hints`].
    pub fn from_hints(hints: &[[u8; 4]]) -> Self {
        Self {
            hints: hints.to_vec(),
            ..Self::default()
        }
    }

    /// Out of the thesis's CPI: one reference for each certificate.
    pub fn from_references(references: &[Reference]) -> Self {
        Self {
            certificates: references.iter().copied().collect(),
            ..Self::default()
        }
    }

    /// The same, where these authorities' certificates are held here: if it hinted at them, it
    /// holds the same.
    pub(crate) fn with_authorities(self, held: Option<&Arc<Authorities>>) -> Self {
        let hinted = held.filter(|held| self.hints.contains(&held.id().prefix4()));
        Self {
            authorities: hinted.cloned(),
            ..self
        }
    }

    /// The authorities' certificates that both sides hold.
    pub(crate) fn authorities(&self) -> Option<&Authorities> {
        self.authorities.as_deref()
    }

    /// The fronts of the names of lists that it hinted at.
    pub(crate) fn hints(&self) -> &[[u8; 4]] {
        &self.hints
    }

    /// The reference to this certificate, if it is held.
    pub(crate) fn certificate(&self, der: &[u8]) -> Option<Reference> {
        let reference = Reference(Digest::of(der).prefix16());
        self.certificates.contains(&reference).then_some(reference)
    }
}

/// The chains to expect from `site`: what the thesis's CPI names.
pub fn expected_chains(
    store: &mut impl Store,
    site: &Site,
    now: UnixTime,
    limit: usize,
) -> Vec<ObjectId> {
    store.expected(Kind::Chain, site, now, limit)
}

/// What a client-side proxy has to say of itself to a hello: the names of lists that it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hints {
    /// What the site has shown before: the chain seen last, what came beside it, and so on.
    OfSite(Vec<ObjectId>),
    /// Nothing of this site is held. Issuers are the same for many: those seen last.
    Issuers(Vec<ObjectId>),
}

impl Hints {
    /// The hints for `site`, at most `limit`, the likeliest first.
    pub fn to(store: &mut impl Store, site: &Site, now: UnixTime, limit: usize) -> Self {
        let chains = store.expected(Kind::Chain, site, now, limit);
        if chains.is_empty() {
            return Self::Issuers(store.expected(Kind::Issuers, &Site::Any, now, limit));
        }
        // Farms show several chains, each with a staple of its own: no more of these than of those.
        let mut extras = store
            .expected(Kind::Messages, site, now, chains.len())
            .into_iter();
        let mut ids: Vec<ObjectId> = chains
            .into_iter()
            .flat_map(|chain| [Some(chain), extras.next()])
            .flatten()
            .collect();
        ids.truncate(limit);
        Self::OfSite(ids)
    }

    /// The names themselves.
    pub fn ids(&self) -> &[ObjectId] {
        match self {
            Self::OfSite(ids) | Self::Issuers(ids) => ids,
        }
    }
}
