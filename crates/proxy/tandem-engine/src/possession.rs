//! What the far side is known to hold, and what it is told: hints, references, and the flight
//! written with them.
//!
//! Is not: the store. Invariant: possession is what this very connection showed; a wrong one costs
//! a miss, never a byte.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use tandem_store::{Chain, ChainId, Digest, Site, Store};
use tandem_wire::UnixTime;

use crate::handshake::Flight;
use tandem_delta::{Planner, Reference, Source};

/// What the far side holds, as it said itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Possession {
    hints: Vec<[u8; 4]>,
    certificates: BTreeSet<Reference>,
}

impl Possession {
    /// Out of the hints of the safe format: the fronts of the names of [`Hints`].
    pub fn from_hints(hints: &[[u8; 4]]) -> Self {
        Self {
            hints: hints.to_vec(),
            certificates: BTreeSet::new(),
        }
    }

    /// Out of the thesis's CPI: one reference for each certificate.
    pub fn from_references(references: &[Reference]) -> Self {
        Self {
            hints: Vec::new(),
            certificates: references.iter().copied().collect(),
        }
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
) -> Vec<ChainId> {
    store.chains_for(site, now, limit)
}

/// What a client-side proxy has to say of itself to a hello: the names of lists that it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hints {
    /// What the site has shown before: the chain seen last, what came beside it, and so on.
    OfSite(Vec<ChainId>),
    /// Nothing of this site is held. Issuers are the same for many: those seen last.
    Issuers(Vec<ChainId>),
}

impl Hints {
    /// The hints for `site`, at most `limit`, the likeliest first.
    pub fn to(store: &mut impl Store, site: &Site, now: UnixTime, limit: usize) -> Self {
        let chains = store.chains_for(site, now, limit);
        if chains.is_empty() {
            return Self::Issuers(store.chains_for(&Site::Issuers, now, limit));
        }
        // Farms show several chains, each with a staple of its own: no more of these than of those.
        let mut extras = store
            .chains_for(&site.extras(), now, chains.len())
            .into_iter();
        let mut ids: Vec<ChainId> = chains
            .into_iter()
            .flat_map(|chain| [Some(chain), extras.next()])
            .flatten()
            .collect();
        ids.truncate(limit);
        Self::OfSite(ids)
    }

    /// The names themselves.
    pub fn ids(&self) -> &[ChainId] {
        match self {
            Self::OfSite(ids) | Self::Issuers(ids) => ids,
        }
    }
}

/// Something of a flight that repeats from handshake to handshake, and may be held as a whole.
struct Part {
    /// Its name in a store.
    id: ChainId,
    /// Where it lies in the stream, record headers left out.
    pieces: Vec<Range<usize>>,
    /// Where its first byte stands in the list that its name resolves to.
    offset: usize,
}

/// The delta for a server's first flight; `None` where nothing of it is held over there, nor
/// anything like it.
///
/// What was hinted and is in the flight as a whole (the chain, or its issuers alone; what came
/// beside it) is copied, whether it is held here or not. For the rest, whatever was hinted and is
/// held here, too, is searched for likeness: a renewed leaf has most of its bytes from the one
/// before. `bytes` is the stream up to the end of the flight, or past it; all of it goes into the
/// delta.
pub fn write_flight(
    bytes: &[u8],
    flight: &Flight,
    possession: &Possession,
    store: &mut impl Store,
) -> Option<Vec<u8>> {
    let mut plan = Planner::new(bytes);
    let is_whole = copy_held_parts(&mut plan, bytes, flight, possession);
    if !is_whole {
        let sources: Vec<(Reference, Arc<[u8]>)> = possession
            .hints
            .iter()
            .filter_map(|hint| {
                let chain = store.chain_by_prefix(hint)?;
                Some((Reference(chain.id.prefix16()), list_of(store, &chain)?))
            })
            .collect();
        plan.copy_alike(&sources);
    }
    plan.finish()
}

/// Copies what was hinted and is in the flight; says whether that is all that repeats in it.
fn copy_held_parts(
    plan: &mut Planner<'_>,
    bytes: &[u8],
    flight: &Flight,
    possession: &Possession,
) -> bool {
    let is_hinted = |part: &Part| possession.hints.contains(&part.id.prefix4());
    let list = flight.list(bytes);
    let from = |start: usize| Part {
        id: ChainId::of_list_contents(&list[start..]),
        pieces: flight.within_list(start..list.len()),
        offset: 0,
    };
    let leaf = list.first_chunk().map_or(0, |&[high, middle, low]| {
        3 + u32::from_be_bytes([0, high, middle, low]) as usize
    });
    let chain = Some(from(0)).filter(is_hinted);
    let extras = flight.extras(bytes).map(|extras| Part {
        id: ChainId::of(&[&extras]),
        pieces: flight.extras_pieces().to_vec(),
        // In its list its length stands before it.
        offset: 3,
    });
    let extras_repeat = extras.as_ref().is_none_or(is_hinted);
    let is_whole = chain.is_some() && extras_repeat;
    let issuers = || (leaf < list.len()).then(|| from(leaf)).filter(is_hinted);
    let parts = [chain.or_else(issuers), extras.filter(is_hinted)];
    for part in parts.into_iter().flatten() {
        plan.copy(Reference(part.id.prefix16()), part.offset, part.pieces);
    }
    is_whole
}

/// The contents of a chain's certificate list; `None` where a certificate of it is not held any
/// more.
fn list_of(store: &mut impl Store, chain: &Chain) -> Option<Arc<[u8]>> {
    let mut list = Vec::new();
    for digest in &chain.certificates {
        let der = store.certificate(digest)?;
        list.extend_from_slice(&(der.len() as u32).to_be_bytes()[1..]);
        list.extend_from_slice(&der);
    }
    Some(list.into())
}

/// A store as the source of a delta's copies: a reference names the list of a chain, of issuers or
/// of what came beside a chain; or a certificate.
#[derive(Debug)]
pub struct StoreSource<'a, S>(&'a mut S);

impl<'a, S: Store> StoreSource<'a, S> {
    /// What `store` holds.
    pub fn new(store: &'a mut S) -> Self {
        Self(store)
    }
}

impl<S: Store> Source for StoreSource<'_, S> {
    fn resolve(&mut self, reference: &Reference) -> Option<Arc<[u8]>> {
        match self.0.chain_by_prefix(&reference.0) {
            Some(chain) => list_of(self.0, &chain),
            None => self
                .0
                .certificate_by_prefix(&reference.0)
                .map(|(_, der)| der),
        }
    }
}

#[cfg(test)]
mod tests;
