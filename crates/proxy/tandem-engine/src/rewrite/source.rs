//! What a reader takes a delta's copies from.
//!
//! Invariant: what is not held any more is a miss.

use std::sync::Arc;

use tandem_delta::{Reference, Source};
use tandem_store::{Chain, Store};
use tandem_wire::Instant;

use crate::peer::SessionTickets;

/// The contents of a chain's certificate list; `None` where a certificate of it is not held any
/// more.
pub(super) fn list_of(store: &mut impl Store, chain: &Chain) -> Option<Arc<[u8]>> {
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

/// All that a reference may name here: a ticket, or what the store holds.
#[derive(Debug)]
pub struct Held<'a, S> {
    tickets: &'a SessionTickets,
    store: StoreSource<'a, S>,
    now: Instant,
}

impl<'a, S: Store> Held<'a, S> {
    /// What `tickets` and `store` hold at `now`.
    pub fn new(tickets: &'a SessionTickets, store: &'a mut S, now: Instant) -> Self {
        Self {
            tickets,
            store: StoreSource::new(store),
            now,
        }
    }
}

impl<S: Store> Source for Held<'_, S> {
    fn resolve(&mut self, reference: &Reference) -> Option<Arc<[u8]>> {
        match self.tickets.find(reference, self.now) {
            Some(ticket) => Some(Arc::clone(ticket)),
            None => self.store.resolve(reference),
        }
    }
}
