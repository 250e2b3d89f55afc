//! Endpoints whose keys come later than the flights that they open, and how long the next flight
//! waits for one.
//!
//! A library in the server's program hands a key in before the program writes anything with it.
//! Where another process reads a key log, or relays keys from another machine, the flight may come
//! first. So a key that comes for a flight that has passed tells that its server is such a one. A
//! client's key always comes later than that: it tells that the client hands in keys at all.
//!
//! Is not: the keys (`keys`), nor what is held meanwhile, which the data plane does. Invariants:
//! there is no wait but for such an endpoint; a wait is bounded ([`MAX_WAIT`],
//! [`MAX_CLIENT_WAIT`]); after one in vain there is none until another key has come late, and after
//! each further one until twice as many have; what is remembered is bounded.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use tandem_record_key::{CLIENT_RANDOM_LEN, SERVER_RANDOM_LEN};
use tandem_wire::Instant;

use crate::event::UnusedKey;
use crate::objects::hello::Profile;

/// How long a flight waits for its key: what a relay takes on a network of its own, and what a
/// reader on a busy machine takes to run. Less than a flight in clear may be held.
pub(crate) const MAX_WAIT: Duration = Duration::from_millis(100);

/// How long the client side waits for a client's key, from when ServerHello went to the client: its
/// way there, a key exchange on a small device, and the key's way back.
pub(crate) const MAX_CLIENT_WAIT: Duration = Duration::from_millis(200);

/// When a wait is looked after first, from its beginning on; then after as long again, each time.
const FIRST_LOOK: Duration = Duration::from_millis(1);

/// Most flights that are remembered: a busy server's handshakes of a second.
const MAX_PASSED: usize = 1024;

/// How long each is: a key that comes later is not waited for.
const LIFETIME: Duration = Duration::from_secs(10);

/// Most endpoints that are remembered.
const MAX_ENDPOINTS: usize = 256;

/// Most late keys that are needed before an endpoint is waited for again: one wait in 65 handshakes
/// is what an endpoint costs whose keys never are of use.
const MAX_NEEDED: u32 = 64;

/// A client that may hand in keys, as the client side tells it from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyClient {
    pub(crate) address: IpAddr,
    pub(crate) profile: Profile,
}

/// A connection of which a key may come, from this endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Awaited<E> {
    pub(crate) client_random: [u8; CLIENT_RANDOM_LEN],
    /// Where ServerHello was read. A key that names another server random is not this one's.
    pub(crate) server_random: Option<[u8; SERVER_RANDOM_LEN]>,
    pub(crate) endpoint: E,
}

impl<E> Awaited<E> {
    fn may_be(&self, client: &[u8], named: Option<&[u8; SERVER_RANDOM_LEN]>) -> bool {
        let server = self.server_random.as_ref();
        let is_other = server.zip(named).is_some_and(|(own, named)| own != named);
        self.client_random[..] == *client && !is_other
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct LateKeys<E> {
    /// Flights that have passed without a key, the oldest first.
    passed: VecDeque<Passed<E>>,
    /// Endpoints whose key came afterwards, the oldest first.
    endpoints: VecDeque<Endpoint<E>>,
}

/// A flight that has passed.
#[derive(Debug)]
struct Passed<E> {
    flight: Awaited<E>,
    since: Instant,
    /// Whether a key has come for it.
    has_key: bool,
}

/// What is known of an endpoint.
#[derive(Debug)]
struct Endpoint<E> {
    endpoint: E,
    /// Late keys until it is waited for: none where it is.
    needed: u32,
    /// The same after the next wait in vain.
    needed_next: u32,
}

impl<E> Default for LateKeys<E> {
    fn default() -> Self {
        Self {
            passed: VecDeque::new(),
            endpoints: VecDeque::new(),
        }
    }
}

impl<E: Copy + PartialEq> LateKeys<E> {
    /// A flight passes, for no key is there.
    pub(crate) fn flight_passes(&mut self, flight: Awaited<E>, now: Instant) {
        if self.passed.len() == MAX_PASSED {
            self.passed.pop_front();
        }
        self.passed.push_back(Passed {
            flight,
            since: now,
            has_key: false,
        });
    }

    /// A key has come, which may name its server's random. Says why it will have been of no use if
    /// no flight takes it.
    pub(crate) fn key_comes(
        &mut self,
        client_random: &[u8; CLIENT_RANDOM_LEN],
        named: Option<&[u8; SERVER_RANDOM_LEN]>,
        now: Instant,
    ) -> UnusedKey {
        let is_over = |passed: &Passed<E>| passed.since + LIFETIME <= now;
        while self.passed.front().is_some_and(is_over) {
            self.passed.pop_front();
        }
        let mut passed = self.passed.iter_mut();
        let Some(passed) = passed.find(|it| it.flight.may_be(client_random, named)) else {
            return UnusedKey::Unknown;
        };
        // Who does not know the suite hands in several.
        if !std::mem::replace(&mut passed.has_key, true) {
            let endpoint = passed.flight.endpoint;
            let known = self.known(endpoint);
            known.needed = known.needed.saturating_sub(1);
        }
        UnusedKey::Late
    }

    /// What is known of this endpoint; one that was not known is as one late key short of a wait.
    fn known(&mut self, endpoint: E) -> &mut Endpoint<E> {
        let at = self.endpoints.iter().position(|it| it.endpoint == endpoint);
        let at = at.unwrap_or_else(|| {
            if self.endpoints.len() == MAX_ENDPOINTS {
                self.endpoints.pop_front();
            }
            self.endpoints.push_back(Endpoint {
                endpoint,
                needed: 1,
                needed_next: 1,
            });
            self.endpoints.len() - 1
        });
        &mut self.endpoints[at]
    }

    /// Whether a flight waits for this endpoint's key.
    pub(crate) fn are_of(&self, endpoint: E) -> bool {
        let mut endpoints = self.endpoints.iter();
        endpoints.any(|it| it.endpoint == endpoint && it.needed == 0)
    }

    /// A wait was in vain, since no key came or the one that came was of no use: the flight passes.
    pub(crate) fn waited_in_vain(&mut self, flight: Awaited<E>, now: Instant) {
        let known = self.known(flight.endpoint);
        known.needed = known.needed_next;
        known.needed_next = (2 * known.needed_next).min(MAX_NEEDED);
        self.flight_passes(flight, now);
    }

    /// A wait was not in vain.
    pub(crate) fn was_of_use(&mut self, endpoint: E) {
        let mut endpoints = self.endpoints.iter_mut();
        if let Some(known) = endpoints.find(|it| it.endpoint == endpoint) {
            known.needed_next = 1;
        }
    }
}

/// A wait for a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    since: Instant,
    next: Instant,
    end: Instant,
}

impl Wait {
    /// One that begins, and takes so long at most.
    pub(crate) fn begin(now: Instant, longest: Duration) -> Self {
        Self {
            since: now,
            next: now + FIRST_LOOK,
            end: now + longest,
        }
    }

    /// When to look for the key again.
    pub(crate) fn next(self) -> Instant {
        self.next
    }

    /// No key is there now: the rest of the wait; `None` where it is over.
    pub(crate) fn rest(self, now: Instant) -> Option<Self> {
        if now >= self.end {
            return None;
        }
        let next = match now < self.next {
            true => self.next,
            false => now + now.saturating_since(self.since).max(FIRST_LOOK),
        };
        Some(Self {
            next: next.min(self.end),
            ..self
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn flight(random: u8, server: u16) -> Awaited<SocketAddr> {
        Awaited {
            client_random: [random; CLIENT_RANDOM_LEN],
            server_random: Some([random; SERVER_RANDOM_LEN]),
            endpoint: SocketAddr::from(([192, 0, 2, 1], server)),
        }
    }

    #[test]
    fn a_key_that_comes_late_tells_of_its_server_until_a_wait_is_in_vain() {
        let mut late = LateKeys::default();
        let (one, other) = (flight(1, 443), flight(2, 444));
        late.flight_passes(one, Instant::ZERO);
        late.flight_passes(other, Instant::ZERO);
        let unknown = late.key_comes(&[3; CLIENT_RANDOM_LEN], None, Instant::ZERO);
        assert_eq!(unknown, UnusedKey::Unknown);
        assert!(!late.are_of(one.endpoint));
        for _ in 0..2 {
            let came = late.key_comes(&one.client_random, None, Instant::ZERO);
            assert_eq!(came, UnusedKey::Late);
            assert!(late.are_of(one.endpoint) && !late.are_of(other.endpoint));
        }
        let next = flight(4, 443);
        late.waited_in_vain(next, Instant::ZERO);
        assert!(!late.are_of(one.endpoint));
        late.key_comes(&next.client_random, None, Instant::ZERO);
        assert!(late.are_of(one.endpoint), "it came even later");
    }

    #[test]
    fn an_endpoint_whose_waits_are_in_vain_needs_more_late_keys_each_time() {
        let mut late = LateKeys::default();
        let (mut waits, mut random) = (Vec::new(), 0);
        let mut pass = |late: &mut LateKeys<SocketAddr>, waits: &mut Vec<u32>| {
            random += 1;
            let flight = flight(random, 443);
            let waited = late.are_of(flight.endpoint);
            match waited {
                true => waits.push(u32::from(random)),
                false => late.flight_passes(flight, Instant::ZERO),
            }
            if waited {
                late.waited_in_vain(flight, Instant::ZERO);
            }
            // Two keys for one flight, as from a key log.
            for _ in 0..2 {
                late.key_comes(&flight.client_random, None, Instant::ZERO);
            }
        };
        for _ in 0..40 {
            pass(&mut late, &mut waits);
        }
        // The key of a flight that was waited for came even later.
        assert_eq!(waits, [2, 3, 5, 9, 17, 33]);
        let endpoint = flight(1, 443).endpoint;
        while !late.are_of(endpoint) {
            pass(&mut late, &mut Vec::new());
        }
        late.was_of_use(endpoint);
        late.waited_in_vain(flight(200, 443), Instant::ZERO);
        assert!(!late.are_of(endpoint));
        late.key_comes(&[200; CLIENT_RANDOM_LEN], None, Instant::ZERO);
        assert!(late.are_of(endpoint), "one is enough again");
    }

    #[test]
    fn a_key_that_names_another_server_s_random_is_another_connection_s() {
        let mut late = LateKeys::default();
        let flight = flight(1, 443);
        late.flight_passes(flight, Instant::ZERO);
        for (named, came) in [
            (Some([9; SERVER_RANDOM_LEN]), UnusedKey::Unknown),
            (flight.server_random, UnusedKey::Late),
        ] {
            let why = late.key_comes(&flight.client_random, named.as_ref(), Instant::ZERO);
            assert_eq!(why, came);
            assert_eq!(late.are_of(flight.endpoint), came == UnusedKey::Late);
        }
    }

    #[test]
    fn a_key_of_long_ago_tells_nothing() {
        let mut late = LateKeys::default();
        late.flight_passes(flight(1, 443), Instant::ZERO);
        late.key_comes(&[1; CLIENT_RANDOM_LEN], None, Instant::ZERO + LIFETIME);
        assert!(!late.are_of(flight(1, 443).endpoint));
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
            late.key_comes(&[1; CLIENT_RANDOM_LEN], None, Instant::ZERO);
        }
        assert_eq!(late.endpoints.len(), MAX_ENDPOINTS);
        assert!(late.are_of(flight(1, 299).endpoint) && !late.are_of(flight(1, 0).endpoint));
    }

    #[test]
    fn a_wait_is_looked_after_less_and_less_often_and_ends() {
        let mut wait = Wait::begin(Instant::ZERO, MAX_WAIT);
        let mut looks = Vec::new();
        while let Some(rest) = wait.rest(wait.next()) {
            looks.push(wait.next().as_micros() / 1_000);
            wait = rest;
        }
        assert_eq!(looks, [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(wait.next(), Instant::ZERO + MAX_WAIT);
        let early = Wait::begin(Instant::ZERO, MAX_WAIT).rest(Instant::ZERO);
        let early = early.map(Wait::next);
        assert_eq!(early, Some(Instant::ZERO + FIRST_LOOK), "more bytes came");
    }
}
