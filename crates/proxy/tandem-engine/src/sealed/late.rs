//! Servers whose keys come later than their flights, and how long the next flight waits for one.
//!
//! A library in the server's program hands a key in before the program writes anything with it.
//! Where another process reads a key log, or relays keys from another machine, the flight may come
//! first. So a key that comes for a flight that has passed tells that its server is such a one.
//!
//! Is not: the keys (`keys`), nor what is held meanwhile, which the data plane does. Invariants:
//! there is no wait but for such a server; a wait takes [`MAX_WAIT`] at most; after one in vain
//! there is none until another key has come late; what is remembered is bounded.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use tandem_record_key::CLIENT_RANDOM_LEN;
use tandem_wire::Instant;

use crate::event::UnusedKey;

/// How long a flight waits for its key: what a relay takes on a network of its own, and what a
/// reader on a busy machine takes to run. Less than a flight in clear may be held.
const MAX_WAIT: Duration = Duration::from_millis(100);

/// When a wait is looked after first, from its beginning on; then after as long again, each time.
const FIRST_LOOK: Duration = Duration::from_millis(1);

/// Most flights that are remembered: a busy server's handshakes of a second.
const MAX_PASSED: usize = 1024;

/// How long each is: a key that comes later is not waited for.
const LIFETIME: Duration = Duration::from_secs(10);

/// Most servers that are remembered.
const MAX_SERVERS: usize = 256;

/// A connection of which a key may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Awaited {
    pub(crate) client_random: [u8; CLIENT_RANDOM_LEN],
    pub(crate) server: SocketAddr,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LateKeys {
    /// Flights that have passed without a key, the oldest first.
    passed: VecDeque<(Awaited, Instant)>,
    /// Servers whose key came afterwards, the oldest first.
    servers: VecDeque<SocketAddr>,
}

impl LateKeys {
    /// A flight passes, for no key is there.
    pub(crate) fn flight_passes(&mut self, flight: Awaited, now: Instant) {
        if self.passed.len() == MAX_PASSED {
            self.passed.pop_front();
        }
        self.passed.push_back((flight, now));
    }

    /// A server's key has come. Says why it will have been of no use if no flight takes it.
    pub(crate) fn key_comes(
        &mut self,
        client_random: &[u8; CLIENT_RANDOM_LEN],
        now: Instant,
    ) -> UnusedKey {
        let is_over = |(_, since): &(_, Instant)| *since + LIFETIME <= now;
        while self.passed.front().is_some_and(is_over) {
            self.passed.pop_front();
        }
        let mut passed = self.passed.iter().map(|(flight, _)| flight);
        let Some(flight) = passed.find(|flight| flight.client_random == *client_random) else {
            return UnusedKey::Unknown;
        };
        if !self.servers.contains(&flight.server) {
            if self.servers.len() == MAX_SERVERS {
                self.servers.pop_front();
            }
            self.servers.push_back(flight.server);
        }
        UnusedKey::Late
    }

    /// Whether a flight of this server's waits for its key.
    pub(crate) fn are_of(&self, server: SocketAddr) -> bool {
        self.servers.contains(&server)
    }

    /// A wait was in vain: the flight passes.
    pub(crate) fn waited_in_vain(&mut self, flight: Awaited, now: Instant) {
        self.servers.retain(|server| *server != flight.server);
        self.flight_passes(flight, now);
    }
}

/// A wait for a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    since: Instant,
    next: Instant,
}

impl Wait {
    /// One that begins.
    pub(crate) fn begin(now: Instant) -> Self {
        Self {
            since: now,
            next: now + FIRST_LOOK,
        }
    }

    /// When to look for the key again.
    pub(crate) fn next(self) -> Instant {
        self.next
    }

    /// No key is there now: the rest of the wait; `None` where it is over.
    pub(crate) fn rest(self, now: Instant) -> Option<Self> {
        let end = self.since + MAX_WAIT;
        if now >= end {
            return None;
        }
        let next = match now < self.next {
            true => self.next,
            false => now + now.saturating_since(self.since).max(FIRST_LOOK),
        };
        Some(Self {
            next: next.min(end),
            ..self
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(random: u8, server: u16) -> Awaited {
        Awaited {
            client_random: [random; CLIENT_RANDOM_LEN],
            server: SocketAddr::from(([192, 0, 2, 1], server)),
        }
    }

    #[test]
    fn a_key_that_comes_late_tells_of_its_server_until_a_wait_is_in_vain() {
        let mut late = LateKeys::default();
        let (one, other) = (flight(1, 443), flight(2, 444));
        late.flight_passes(one, Instant::ZERO);
        late.flight_passes(other, Instant::ZERO);
        let unknown = late.key_comes(&[3; CLIENT_RANDOM_LEN], Instant::ZERO);
        assert_eq!(unknown, UnusedKey::Unknown);
        assert!(!late.are_of(one.server));
        for _ in 0..2 {
            let came = late.key_comes(&one.client_random, Instant::ZERO);
            assert_eq!(came, UnusedKey::Late);
            assert!(late.are_of(one.server) && !late.are_of(other.server));
        }
        let next = flight(4, 443);
        late.waited_in_vain(next, Instant::ZERO);
        assert!(!late.are_of(one.server));
        late.key_comes(&next.client_random, Instant::ZERO);
        assert!(late.are_of(one.server), "it came even later");
    }

    #[test]
    fn a_key_of_long_ago_tells_nothing() {
        let mut late = LateKeys::default();
        late.flight_passes(flight(1, 443), Instant::ZERO);
        late.key_comes(&[1; CLIENT_RANDOM_LEN], Instant::ZERO + LIFETIME);
        assert!(!late.are_of(flight(1, 443).server));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut late = LateKeys::default();
        for _ in 0..=MAX_PASSED {
            late.flight_passes(flight(1, 443), Instant::ZERO);
        }
        assert_eq!(late.passed.len(), MAX_PASSED);
        for port in 0..300 {
            late.passed.clear();
            late.flight_passes(flight(1, port), Instant::ZERO);
            late.key_comes(&[1; CLIENT_RANDOM_LEN], Instant::ZERO);
        }
        assert_eq!(late.servers.len(), MAX_SERVERS);
        assert!(late.are_of(flight(1, 299).server) && !late.are_of(flight(1, 0).server));
    }

    #[test]
    fn a_wait_is_looked_after_less_and_less_often_and_ends() {
        let mut wait = Wait::begin(Instant::ZERO);
        let mut looks = Vec::new();
        while let Some(rest) = wait.rest(wait.next()) {
            looks.push(wait.next().as_micros() / 1_000);
            wait = rest;
        }
        assert_eq!(looks, [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(wait.next(), Instant::ZERO + MAX_WAIT);
        let early = Wait::begin(Instant::ZERO).rest(Instant::ZERO);
        let early = early.map(Wait::next);
        assert_eq!(early, Some(Instant::ZERO + FIRST_LOOK), "more bytes came");
    }
}
