//! What the far side is known to hold, and what it is told: hints, references, and the flight written with them.
//!
//! Is not: the store. Invariant: possession is what this very connection showed; a wrong one costs a miss, never a byte.

use std::collections::BTreeSet;
use std::sync::Arc;

use tandem_store::{ChainId, Digest, Site, Store};
use tandem_wire::UnixTime;

use crate::delta::{DeltaWriter, Reference, Source};
use crate::handshake::Flight;

/// What the far side holds, as it said itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Possession {
    chains: Vec<[u8; 8]>,
    certificates: BTreeSet<Reference>,
}

impl Possession {
    /// Out of the hints of the safe format: the front of each chain's name.
    pub fn from_hints(chains: &[[u8; 8]]) -> Self {
        Self {
            chains: chains.to_vec(),
            certificates: BTreeSet::new(),
        }
    }

    /// Out of the thesis's CPI: one reference for each certificate.
    pub fn from_references(references: &[Reference]) -> Self {
        Self {
            chains: Vec::new(),
            certificates: references.iter().copied().collect(),
        }
    }

    /// The reference to this certificate, if it is held.
    pub(crate) fn certificate(&self, der: &[u8]) -> Option<Reference> {
        let reference = Reference(Digest::of(der).prefix16());
        self.certificates.contains(&reference).then_some(reference)
    }
}

/// The chains to expect from `site`: the client-side proxy's side of a hint.
pub fn expected_chains(
    store: &mut impl Store,
    site: &Site,
    now: UnixTime,
    limit: usize,
) -> Vec<ChainId> {
    store.chains_for(site, now, limit)
}

/// The delta for a server's first flight; `None` where nothing of its chain is held over there.
///
/// `bytes` is the stream up to the end of the flight, or past it; all of it goes into the delta.
pub fn write_flight(
    bytes: &[u8],
    flight: &Flight,
    possession: &Possession,
    store: &mut impl Store,
) -> Option<Vec<u8>> {
    let list = flight.list(bytes);
    let id = ChainId::of_list_contents(&list);
    let mut delta = DeltaWriter::new();
    let mut at = 0;
    if possession.chains.contains(&id.prefix8()) {
        // One reference for the whole chain, in as many pieces as record headers cut it into.
        let reference = Reference(id.prefix16());
        let mut offset = 0;
        for piece in flight.list_pieces() {
            delta.add(&bytes[at..piece.start]);
            delta.copy(reference, offset, piece.len() as u32);
            offset += piece.len() as u32;
            at = piece.end;
        }
    } else {
        // Another chain than the hinted ones: a renewed leaf, mostly, under issuers that are held.
        let mut held = possession.certificates.clone();
        for prefix in &possession.chains {
            let chain = store.chain_by_prefix(prefix);
            held.extend(
                chain
                    .iter()
                    .flat_map(|chain| &chain.certificates)
                    .map(|digest| Reference(digest.prefix16())),
            );
        }
        let certificates = flight.certificates(bytes)?;
        let mut start = 0;
        let mut any = false;
        for der in certificates {
            let reference = Reference(Digest::of(&der).prefix16());
            let range = start + 3..start + 3 + der.len();
            start = range.end;
            if !held.contains(&reference) {
                continue;
            }
            any = true;
            let mut offset = 0;
            for piece in flight.within_list(range) {
                delta.add(&bytes[at..piece.start]);
                delta.copy(reference, offset, piece.len() as u32);
                offset += piece.len() as u32;
                at = piece.end;
            }
        }
        if !any {
            return None;
        }
    }
    delta.add(&bytes[at..]);
    Some(delta.finish())
}

/// A store as the source of a delta's copies: a reference names a chain's certificate list, or a certificate.
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
        let prefix = reference.0.first_chunk::<8>()?;
        let chain = self
            .0
            .chain_by_prefix(prefix)
            .filter(|chain| chain.id.prefix16() == reference.0);
        let Some(chain) = chain else {
            return self
                .0
                .certificate_by_prefix(&reference.0)
                .map(|(_, der)| der);
        };
        let mut list = Vec::new();
        for digest in &chain.certificates {
            let der = self.0.certificate(digest)?;
            list.extend_from_slice(&(der.len() as u32).to_be_bytes()[1..]);
            list.extend_from_slice(&der);
        }
        Some(list.into())
    }
}

#[cfg(test)]
mod tests;
