//! What a reader takes a delta's copies from.
//!
//! Invariant: what is not held any more is a miss.

use std::sync::Arc;

use tandem_delta::{Reference, Source};
use tandem_store::{ObjectId, Store};
use tandem_wire::Instant;

use super::server_flight::{CROSSED_CLEAR, EARLIER_FLIGHT, FIRST_AUTHORITY};
use crate::peer::{Authorities, HelloTemplates, Peer, SessionTickets};

/// A store as the source of a delta's copies: a reference names an object (of a chain, the list of
/// its certificates), or a certificate.
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
        match self.0.object_by_prefix(&reference.0) {
            Some(object) => self.0.contents(&object),
            None => self.0.part_by_prefix(&reference.0).map(|(_, part)| part),
        }
    }
}

/// All that may be named here: by a reference a ticket, or what the store holds; by a number a
/// hello.
#[derive(Debug)]
pub(crate) struct LocalSource<'a, S> {
    tickets: &'a SessionTickets,
    hellos: &'a mut HelloTemplates,
    store: StoreSource<'a, S>,
    now: Instant,
}

impl<'a, S: Store> LocalSource<'a, S> {
    /// What is held at `now` in memory, as seen by this peer too, and in `store`.
    pub(crate) fn new(peer: &'a mut Peer, store: &'a mut S, now: Instant) -> Self {
        Self {
            tickets: &peer.tickets,
            hellos: &mut peer.hellos,
            store: StoreSource::new(store),
            now,
        }
    }
}

impl<S: Store> Source for LocalSource<'_, S> {
    fn resolve(&mut self, reference: &Reference) -> Option<Arc<[u8]>> {
        match self.tickets.find(reference, self.now) {
            Some(ticket) => Some(Arc::clone(ticket)),
            None => self.store.resolve(reference),
        }
    }

    fn numbered(&mut self, number: u32) -> Option<Arc<[u8]>> {
        self.hellos.find(number)
    }
}

/// All that a server's flight may name on a carrier with numbers: the flight before it, what this
/// side has hinted at, certificates of authorities that it has been given, and the store.
#[derive(Debug)]
pub(crate) struct FlightSource<'a, S> {
    pub(crate) store: &'a mut S,
    pub(crate) earlier: Option<&'a Arc<[u8]>>,
    pub(crate) hinted: &'a [ObjectId],
    /// The flight's clear part, where that has crossed before.
    pub(crate) crossed: Option<&'a Arc<[u8]>>,
    pub(crate) authorities: Option<&'a Authorities>,
}

impl<S: Store> Source for FlightSource<'_, S> {
    fn resolve(&mut self, reference: &Reference) -> Option<Arc<[u8]>> {
        StoreSource::new(self.store).resolve(reference)
    }

    fn numbered(&mut self, number: u32) -> Option<Arc<[u8]>> {
        match number {
            EARLIER_FLIGHT => return self.earlier.cloned(),
            CROSSED_CLEAR => return self.crossed.cloned(),
            _ => {}
        }
        if let Some(number) = number.checked_sub(FIRST_AUTHORITY) {
            return self.authorities?.numbered(number).cloned();
        }
        let mut hinted = (EARLIER_FLIGHT + 1..).zip(self.hinted);
        let (_, id) = hinted.find(|(it, _)| *it == number)?;
        let object = self.store.object_by_prefix(&id.prefix16())?;
        self.store.contents(&object)
    }
}
