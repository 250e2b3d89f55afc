//! Tickets of legs: a leg between two parties that know each other is resumed, so neither of them
//! signs nor verifies a certificate again. The keys are fresh all the same: rustls resumes with a
//! key exchange (`psk_dhe_ke`).
//!
//! Is not: end-to-end sessions, which show their certificates each time.
//!
//! Invariants (specification, section 2): a ticket is used once; no leg is resumed more than
//! [`MAX_AGE`] after its certificates were shown, over however many sessions; whoever has other
//! certificates has other tickets, so a resumed leg is the one that the configuration names; what
//! is kept is bounded, and in memory alone.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::NamedGroup;
use rustls::client::{
    ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls12Resumption,
    Tls13ClientSessionValue,
};
use rustls::pki_types::ServerName;
use rustls::server::StoresServerSessions;
use rustls::{ClientConfig, ServerConfig};
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::error::{Error, Part};
use crate::tls::Tls;

/// How long after its certificates were shown a leg may be resumed. A certificate that is revoked,
/// or expires, is believed no longer than this.
pub(crate) const MAX_AGE: Duration = Duration::from_secs(60 * 60);

/// Most tickets that a party has issued and still takes; the oldest go first. About 1 KiB each.
const MAX_ISSUED: usize = 4096;

/// Most tickets that a party keeps of others, and most of one name.
const MAX_KEPT: usize = 4096;
const MAX_OF_A_NAME: usize = 8;

/// Who takes legs, in the role of TLS's server.
#[derive(Clone)]
pub(crate) struct LegServer {
    config: Arc<ServerConfig>,
    issued: Arc<Mutex<Issued>>,
}

impl LegServer {
    pub(crate) fn new(config: ServerConfig) -> Self {
        Self {
            config: Arc::new(config),
            issued: Arc::default(),
        }
    }

    /// A leg that awaits its other end.
    pub(crate) fn accept(&self, part: Part) -> Result<Tls, Error> {
        let mut config = (*self.config).clone();
        config.session_storage = Arc::new(Issuer {
            issued: Arc::clone(&self.issued),
            shown: Mutex::new(None),
        });
        Tls::server(&Arc::new(config), part)
    }
}

/// Who begins legs, in the role of TLS's client.
#[derive(Clone)]
pub(crate) struct LegClient {
    config: Arc<ClientConfig>,
    kept: Arc<Mutex<Kept>>,
}

impl LegClient {
    pub(crate) fn new(config: ClientConfig) -> Self {
        Self {
            config: Arc::new(config),
            kept: Arc::default(),
        }
    }

    /// A leg to whom this name stands for: it is resumed if there is a ticket.
    pub(crate) fn connect(&self, name: ServerName<'static>, part: Part) -> Result<Tls, Error> {
        let mut config = (*self.config).clone();
        let keeper = Keeper {
            kept: Arc::clone(&self.kept),
            shown: Mutex::new(None),
        };
        let resumption = Resumption::store(Arc::new(keeper));
        config.resumption = resumption.tls12_resumption(Tls12Resumption::Disabled);
        Tls::client(&Arc::new(config), name, part)
    }
}

impl fmt::Debug for LegClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LegClient").finish_non_exhaustive()
    }
}

/// What TLS has to know of a session, and when its certificates were shown.
struct Ticket<T> {
    value: T,
    shown: Instant,
}

impl<T> Ticket<T> {
    fn is_fresh(&self, now: Instant) -> bool {
        now.duration_since(self.shown) < MAX_AGE
    }
}

/// The tickets that have been issued, by their numbers.
#[derive(Default)]
struct Issued {
    tickets: HashMap<Vec<u8>, Ticket<Zeroizing<Vec<u8>>>>,
    /// Their numbers, the oldest first; those that are used are skipped.
    order: VecDeque<Vec<u8>>,
}

impl Issued {
    fn put(&mut self, number: Vec<u8>, ticket: Ticket<Zeroizing<Vec<u8>>>) {
        while self.order.len() >= MAX_ISSUED {
            if let Some(oldest) = self.order.pop_front() {
                self.tickets.remove(&oldest);
            }
        }
        self.order.push_back(number.clone());
        self.tickets.insert(number, ticket);
    }

    fn take(&mut self, number: &[u8], now: Instant) -> Option<Ticket<Zeroizing<Vec<u8>>>> {
        let ticket = self.tickets.remove(number);
        ticket.filter(|ticket| ticket.is_fresh(now))
    }
}

/// The tickets of others, by their names.
#[derive(Default)]
struct Kept {
    tickets: HashMap<ServerName<'static>, VecDeque<Ticket<Tls13ClientSessionValue>>>,
    count: usize,
}

impl Kept {
    fn put(&mut self, name: ServerName<'static>, ticket: Ticket<Tls13ClientSessionValue>) {
        if self.count >= MAX_KEPT {
            self.drop_stale(ticket.shown);
        }
        if self.count >= MAX_KEPT {
            // Whoever knows so many pays for a handshake now and then.
            self.tickets.clear();
            self.count = 0;
        }
        let own = self.tickets.entry(name).or_default();
        if own.len() >= MAX_OF_A_NAME {
            own.pop_front();
            self.count -= 1;
        }
        own.push_back(ticket);
        self.count += 1;
    }

    fn take(
        &mut self,
        name: &ServerName<'static>,
        now: Instant,
    ) -> Option<Ticket<Tls13ClientSessionValue>> {
        let own = self.tickets.get_mut(name)?;
        let mut found = None;
        while let (None, Some(ticket)) = (&found, own.pop_back()) {
            self.count -= 1;
            found = Some(ticket).filter(|ticket| ticket.is_fresh(now));
        }
        if own.is_empty() {
            self.tickets.remove(name);
        }
        found
    }

    fn drop_stale(&mut self, now: Instant) {
        self.tickets.retain(|_, own| {
            own.retain(|ticket| ticket.is_fresh(now));
            !own.is_empty()
        });
        self.count = self.tickets.values().map(VecDeque::len).sum();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One leg's view of what is issued.
struct Issuer {
    issued: Arc<Mutex<Issued>>,
    /// When the certificates of the leg that it resumes were shown.
    shown: Mutex<Option<Instant>>,
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer").finish_non_exhaustive()
    }
}

impl StoresServerSessions for Issuer {
    fn put(&self, number: Vec<u8>, value: Vec<u8>) -> bool {
        let ticket = Ticket {
            value: Zeroizing::new(value),
            shown: lock(&self.shown).unwrap_or_else(Instant::now),
        };
        lock(&self.issued).put(number, ticket);
        true
    }

    // For TLS 1.2 alone.
    fn get(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn take(&self, number: &[u8]) -> Option<Vec<u8>> {
        let mut ticket = lock(&self.issued).take(number, Instant::now())?;
        *lock(&self.shown) = Some(ticket.shown);
        Some(std::mem::take(&mut *ticket.value))
    }

    fn can_cache(&self) -> bool {
        true
    }
}

/// One leg's view of what is kept.
struct Keeper {
    kept: Arc<Mutex<Kept>>,
    /// When the certificates of the leg that it resumes were shown. Where the other side would
    /// rather see them again, this is too early, and its next ticket is forgotten too early.
    shown: Mutex<Option<Instant>>,
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").finish_non_exhaustive()
    }
}

impl ClientSessionStore for Keeper {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, name: ServerName<'static>, value: Tls13ClientSessionValue) {
        let shown = lock(&self.shown).unwrap_or_else(Instant::now);
        lock(&self.kept).put(name, Ticket { value, shown });
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let ticket = lock(&self.kept).take(name, Instant::now())?;
        *lock(&self.shown) = Some(ticket.shown);
        Some(ticket.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(shown: Instant) -> Ticket<Zeroizing<Vec<u8>>> {
        let value = Zeroizing::new(vec![1]);
        Ticket { value, shown }
    }

    #[test]
    fn a_ticket_is_taken_once_and_not_when_it_is_old() {
        let start = Instant::now();
        let mut issued = Issued::default();
        issued.put(vec![1], ticket(start));
        issued.put(vec![2], ticket(start));
        let late = start + MAX_AGE;
        let young = late - Duration::from_secs(1);
        assert!(issued.take(&[1], young).is_some());
        assert!(issued.take(&[1], young).is_none(), "it was used");
        assert!(issued.take(&[2], late).is_none(), "it is old");
        assert!(issued.take(&[2], young).is_none(), "it is gone");
    }

    #[test]
    fn no_more_tickets_are_taken_than_there_is_room_for() {
        let start = Instant::now();
        let mut issued = Issued::default();
        let number = |number: usize| number.to_be_bytes().to_vec();
        for next in 0..=MAX_ISSUED {
            issued.put(number(next), ticket(start));
        }
        assert_eq!(issued.tickets.len(), MAX_ISSUED);
        assert!(issued.take(&number(0), start).is_none(), "the oldest went");
        assert!(issued.take(&number(MAX_ISSUED), start).is_some());
    }

    #[test]
    fn a_ticket_of_a_leg_that_was_resumed_is_as_old_as_the_first() {
        let all: Arc<Mutex<Issued>> = Arc::default();
        let issuer = || Issuer {
            issued: Arc::clone(&all),
            shown: Mutex::new(None),
        };
        assert!(issuer().put(vec![1], vec![1]));
        let first = lock(&all).tickets[&vec![1]].shown;
        let second = issuer();
        assert!(second.take(&[1]).is_some());
        assert!(second.put(vec![2], vec![2]));
        assert_eq!(lock(&all).tickets[&vec![2]].shown, first);
    }
}
