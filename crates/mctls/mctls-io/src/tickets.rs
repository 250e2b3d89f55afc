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
use std::hash::Hash;
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

/// Most tickets that a party has issued and still takes; the oldest go first.
const MAX_ISSUED: usize = 4096;

/// Longest of them, in bytes: with the certificates of the other side, some 1 KiB as a rule. Whose
/// are longer is given none.
const MAX_ISSUED_LEN: usize = 8 << 10;

/// Most bytes of them all.
const MAX_ISSUED_BYTES: usize = 8 << 20;

/// Most tickets that a party keeps of others, and most of one name; the oldest go first. Each has
/// the other side's certificates ([`crate::verify::MAX_CHAIN_LEN`]) and up to 64 KiB of its own.
const MAX_KEPT: usize = 512;
const MAX_OF_A_NAME: usize = 2;

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
            shown: Mutex::new(Instant::now()),
        });
        Tls::server(&Arc::new(config), part)
    }
}

/// Who begins legs, in the role of TLS's client.
#[derive(Clone)]
pub(crate) struct LegClient {
    config: Arc<ClientConfig>,
    kept: Arc<Mutex<Kept<ServerName<'static>, Tls13ClientSessionValue>>>,
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
            shown: Mutex::new(Instant::now()),
        };
        let resumption = Resumption::store(Arc::new(keeper));
        config.resumption = resumption.tls12_resumption(Tls12Resumption::Disabled);
        Tls::client(&Arc::new(config), name, part)
    }
}

#[cfg(test)]
impl LegClient {
    /// Another one with the same tickets.
    pub(crate) fn sharing(&self, config: ClientConfig) -> Self {
        Self {
            config: Arc::new(config),
            kept: Arc::clone(&self.kept),
        }
    }

    /// Makes all tickets that it keeps older.
    pub(crate) fn age(&self, by: Duration) {
        let mut kept = lock(&self.kept);
        let tickets = kept.tickets.values_mut().flatten();
        tickets.for_each(|ticket| ticket.shown -= by);
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
    /// The lengths of all of them.
    bytes: usize,
}

impl Issued {
    fn put(&mut self, number: Vec<u8>, ticket: Ticket<Zeroizing<Vec<u8>>>) {
        let bytes = ticket.value.len();
        while self.order.len() >= MAX_ISSUED || self.bytes + bytes > MAX_ISSUED_BYTES {
            let Some(oldest) = self.order.pop_front() else {
                return;
            };
            self.remove(&oldest);
        }
        self.bytes += bytes;
        self.order.push_back(number.clone());
        self.tickets.insert(number, ticket);
    }

    fn take(&mut self, number: &[u8], now: Instant) -> Option<Ticket<Zeroizing<Vec<u8>>>> {
        let ticket = self.remove(number);
        ticket.filter(|ticket| ticket.is_fresh(now))
    }

    fn remove(&mut self, number: &[u8]) -> Option<Ticket<Zeroizing<Vec<u8>>>> {
        let ticket = self.tickets.remove(number)?;
        self.bytes -= ticket.value.len();
        Some(ticket)
    }
}

/// The tickets of others, by their names, the oldest first.
struct Kept<N, T> {
    tickets: HashMap<N, VecDeque<Ticket<T>>>,
    count: usize,
}

impl<N, T> Default for Kept<N, T> {
    fn default() -> Self {
        Self {
            tickets: HashMap::new(),
            count: 0,
        }
    }
}

impl<N: Clone + Eq + Hash, T> Kept<N, T> {
    fn put(&mut self, name: N, ticket: Ticket<T>) {
        let of_name = self.tickets.get(&name).map_or(0, VecDeque::len);
        if of_name >= MAX_OF_A_NAME {
            self.drop_oldest(&name);
        } else if self.count >= MAX_KEPT {
            let oldest = self.tickets.iter();
            let oldest = oldest.min_by_key(|(_, own)| own.front().map(|ticket| ticket.shown));
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                self.drop_oldest(&oldest);
            }
        }
        self.tickets.entry(name).or_default().push_back(ticket);
        self.count += 1;
    }

    fn drop_oldest(&mut self, name: &N) {
        if let Some(own) = self.tickets.get_mut(name) {
            self.count -= usize::from(own.pop_front().is_some());
            if own.is_empty() {
                self.tickets.remove(name);
            }
        }
    }

    fn take(&mut self, name: &N, now: Instant) -> Option<Ticket<T>> {
        let own = self.tickets.get_mut(name)?;
        let mut found = None;
        while found.is_none()
            && let Some(ticket) = own.pop_back()
        {
            self.count -= 1;
            found = Some(ticket).filter(|ticket| ticket.is_fresh(now));
        }
        if own.is_empty() {
            self.tickets.remove(name);
        }
        found
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One leg's view of what is issued.
struct Issuer {
    issued: Arc<Mutex<Issued>>,
    /// When its certificates were shown, or those of the leg that it resumes: when it began, as
    /// tickets may come at any time behind.
    shown: Mutex<Instant>,
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer").finish_non_exhaustive()
    }
}

impl StoresServerSessions for Issuer {
    fn put(&self, number: Vec<u8>, value: Vec<u8>) -> bool {
        let value = Zeroizing::new(value);
        if value.len() > MAX_ISSUED_LEN {
            return false;
        }
        let shown = *lock(&self.shown);
        lock(&self.issued).put(number, Ticket { value, shown });
        true
    }

    // For TLS 1.2 alone.
    fn get(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn take(&self, number: &[u8]) -> Option<Vec<u8>> {
        let mut ticket = lock(&self.issued).take(number, Instant::now())?;
        *lock(&self.shown) = ticket.shown;
        Some(std::mem::take(&mut *ticket.value))
    }

    fn can_cache(&self) -> bool {
        true
    }
}

/// One leg's view of what is kept.
struct Keeper {
    kept: Arc<Mutex<Kept<ServerName<'static>, Tls13ClientSessionValue>>>,
    /// The same. Where the other side would rather show certificates again than resume, this is too
    /// early, and its next ticket is forgotten too early.
    shown: Mutex<Instant>,
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
        let shown = *lock(&self.shown);
        lock(&self.kept).put(name, Ticket { value, shown });
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let ticket = lock(&self.kept).take(name, Instant::now())?;
        *lock(&self.shown) = ticket.shown;
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

    fn issuer(all: &Arc<Mutex<Issued>>, begun: Instant) -> Issuer {
        Issuer {
            issued: Arc::clone(all),
            shown: Mutex::new(begun),
        }
    }

    #[test]
    fn a_ticket_of_a_leg_that_was_resumed_is_as_old_as_the_first() {
        let all: Arc<Mutex<Issued>> = Arc::default();
        let now = Instant::now();
        let first = now - MAX_AGE / 2;
        assert!(issuer(&all, first).put(vec![1], vec![1]));
        let second = issuer(&all, now);
        assert!(second.take(&[1]).is_some());
        assert!(second.put(vec![2], vec![2]));
        assert_eq!(lock(&all).tickets[&vec![2]].shown, first);
    }

    #[test]
    fn a_ticket_that_comes_late_on_a_leg_is_as_old_as_the_leg() {
        let all: Arc<Mutex<Issued>> = Arc::default();
        let now = Instant::now();
        assert!(issuer(&all, now - MAX_AGE).put(vec![1], vec![1]));
        assert!(issuer(&all, now).take(&[1]).is_none());
    }

    #[test]
    fn long_tickets_are_not_issued_and_all_together_have_a_bound() {
        let all: Arc<Mutex<Issued>> = Arc::default();
        let one = issuer(&all, Instant::now());
        assert!(!one.put(vec![0], vec![0; MAX_ISSUED_LEN + 1]));
        for number in 0..2 * MAX_ISSUED_BYTES / MAX_ISSUED_LEN {
            assert!(one.put(number.to_be_bytes().to_vec(), vec![0; MAX_ISSUED_LEN]));
        }
        let all = lock(&all);
        assert_eq!(all.bytes, MAX_ISSUED_BYTES);
        assert_eq!(all.tickets.len(), MAX_ISSUED_BYTES / MAX_ISSUED_LEN);
    }

    #[test]
    fn a_few_tickets_of_each_name_are_kept_and_the_oldest_go_first() {
        let start = Instant::now();
        let at = |seconds: usize| {
            let seconds = u64::try_from(seconds).expect("few");
            start + Duration::from_millis(seconds)
        };
        let mut kept: Kept<usize, usize> = Kept::default();
        for name in 0..=MAX_KEPT {
            let (value, shown) = (name, at(name));
            kept.put(name, Ticket { value, shown });
        }
        assert_eq!(kept.count, MAX_KEPT);
        assert!(kept.take(&0, start).is_none(), "the oldest went");
        assert!(kept.take(&1, start).is_some(), "no other did");
        for value in 0..=MAX_OF_A_NAME {
            let shown = start;
            kept.put(2, Ticket { value, shown });
        }
        let values = std::iter::from_fn(|| kept.take(&2, start));
        let values: Vec<usize> = values.map(|ticket| ticket.value).collect();
        assert_eq!(values, [2, 1], "the newest first");
        assert_eq!(kept.count, MAX_KEPT - 2);
    }
}
