//! The sessions that one thread's connections have been given, and may offer. Whether the next one
//! offers any is said before it is made: [`Sessions::arm`].
//!
//! Invariant: a ticket of TLS 1.3 is offered once (RFC 8446, appendix C.4), the newest first.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;
use tandem_measure::Offer;

/// Tickets that are kept; of more, the oldest go.
const MAX_TICKETS: usize = 4_096;

/// All of one server.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    next: Option<Offer>,
    offered: bool,
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    tls13: VecDeque<Tls13ClientSessionValue>,
}

impl Sessions {
    /// Says what the next connection opens with.
    pub(crate) fn arm(&self, offer: Offer) {
        let mut held = self.held();
        held.next = Some(offer);
        held.offered = false;
    }

    /// What the connection that was made since then opens with.
    pub(crate) fn opened_with(&self) -> Offer {
        match self.held().offered {
            true => Offer::Earlier,
            false => Offer::New,
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Gives a session away if one is to be offered.
    fn offer<T>(&mut self, take: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.next != Some(Offer::Earlier) {
            return None;
        }
        let taken = take(self);
        self.offered |= taken.is_some();
        taken
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.held().group = Some(group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.held().group
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.held().tls12 = Some(value);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.held().offer(|held| held.tls12.clone())
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.held().tls12 = None;
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut held = self.held();
        if held.tls13.len() == MAX_TICKETS {
            held.tls13.pop_front();
        }
        held.tls13.push_back(value);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.held().offer(|held| held.tls13.pop_back())
    }
}
