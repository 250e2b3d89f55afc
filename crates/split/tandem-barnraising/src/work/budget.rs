//! How much work a volunteer may cause over time: bytes hashed and bytes sent, by key, by address
//! (a /64) and by network (a /16, a /48).
//!
//! Is not: whose turn it is ([`super::Queue`]). Who is over its limit waits; nothing is refused.
//!
//! Hashing is reserved for a key and its address before it is done, so that those who wait start
//! one after the other. It counts for the network when it is done: what one volunteer waits with
//! delays no neighbour.
//!
//! Invariants: over any time a holder causes no more than its rate in it, [`BURST`] seconds' worth
//! at once, and what was already under way; what was reserved and not done is given back; nobody
//! waits longer than [`MAX_DELAY`]; at most [`MAX_HOLDERS`] are remembered, and only while what
//! they caused counts. Who has reached [`MAX_DELAY`], and who finds no room, is bounded by its
//! turns alone.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::Duration;

use tandem_wire::Instant;

use super::Asker;
use crate::member::PublicKey;
use tandem_wire::Network;

/// So many seconds' worth may be caused at once.
const BURST: Duration = Duration::from_secs(8);

/// Longest wait for a limit. Only many channels at a time reach it.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// A /16 or /48 may cause as much as so many of its addresses: some volunteers there are honest and
/// busy.
const WIDE: u64 = 4;

/// Holders that are remembered: more than 4096 channels can have, a key and two networks each.
const MAX_HOLDERS: usize = 16_384;

/// Time between two searches for holders that can be forgotten.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Bytes each second for one key and for one address; no limit where nothing is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes hashed: of bodies, and of what volunteers lacked.
    pub hashed: Option<NonZeroU64>,
    /// Bytes sent on the volunteer's channels.
    pub sent: Option<NonZeroU64>,
}

impl Default for Limits {
    /// 128 MB/s hashed, which a volunteer on a line of 1 Gbit/s can use. How much may be sent
    /// depends on the line.
    fn default() -> Self {
        Self {
            hashed: NonZeroU64::new(128_000_000),
            sent: None,
        }
    }
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Hashed,
    Sent,
}

/// For whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    Key(PublicKey),
    Network(Network),
}

/// See above.
#[derive(Debug, Default)]
pub struct Budget {
    limits: Limits,
    /// Until when what a holder caused uses up its time.
    busy_until: BTreeMap<(Kind, Holder), Instant>,
    /// When there was last looked for what does not count any more.
    swept: Instant,
}

impl Limits {
    fn rate(&self, kind: Kind) -> Option<u64> {
        let rate = match kind {
            Kind::Hashed => self.hashed,
            Kind::Sent => self.sent,
        };
        rate.map(NonZeroU64::get)
    }
}

/// Bytes that are to be hashed, and count for their key and address already. It is either done or
/// given back.
#[derive(Debug)]
#[must_use]
pub struct Reservation {
    asker: Asker,
    bytes: u64,
    /// How long it waits.
    delay: Duration,
    /// What it uses of each holder's time.
    costs: [Duration; 2],
}

impl Reservation {
    /// How long it has to wait, from when it was made.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.delay
    }
}

impl Asker {
    /// The key and the address.
    fn own(&self) -> [Holder; 2] {
        let address = Network::narrow(self.from);
        [Holder::Key(self.key), Holder::Network(address)]
    }

    fn wide(&self) -> Holder {
        Holder::Network(Network::wide(self.from))
    }
}

impl Budget {
    /// Nobody has caused anything yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Sets time aside to hash so many bytes.
    pub fn reserve(&mut self, asker: Asker, bytes: u64, now: Instant) -> Reservation {
        let delay = self.delay(asker, now);
        let own = asker.own();
        Reservation {
            asker,
            bytes,
            delay,
            costs: own.map(|holder| self.charge((Kind::Hashed, holder), bytes, now)),
        }
    }

    /// What was reserved is done now.
    pub fn note_hashed(&mut self, reservation: Reservation, now: Instant) {
        let wide = reservation.asker.wide();
        self.charge((Kind::Hashed, wide), reservation.bytes / WIDE, now);
    }

    /// What was reserved is not done.
    pub fn give_back(&mut self, reservation: Reservation, now: Instant) {
        let own = reservation.asker.own();
        for (holder, cost) in own.into_iter().zip(reservation.costs) {
            if let Some(until) = self.busy_until.get_mut(&(Kind::Hashed, holder)) {
                // Time that has passed comes back to nobody.
                let rest = until.saturating_since(now).saturating_sub(cost);
                *until = (*until).min(now + rest);
            }
        }
    }

    /// Notes that so many bytes are sent.
    pub fn note_sent(&mut self, asker: Asker, bytes: u64, now: Instant) {
        for holder in asker.own() {
            self.charge((Kind::Sent, holder), bytes, now);
        }
        self.charge((Kind::Sent, asker.wide()), bytes / WIDE, now);
    }

    /// How long it has to wait before it may cause more.
    #[must_use]
    pub fn delay(&self, asker: Asker, now: Instant) -> Duration {
        let [key, address] = asker.own();
        let backlog = |kind: Kind| {
            let untils = [key, address, asker.wide()].map(|holder| {
                let until = self.busy_until.get(&(kind, holder));
                until.map_or(Duration::ZERO, |until| until.saturating_since(now))
            });
            untils.into_iter().max().unwrap_or_default()
        };
        let longest = backlog(Kind::Hashed).max(backlog(Kind::Sent));
        longest.saturating_sub(BURST)
    }

    /// Uses up the time that so many bytes take; how much of it.
    fn charge(&mut self, entry: (Kind, Holder), bytes: u64, now: Instant) -> Duration {
        let Some(rate) = self.limits.rate(entry.0) else {
            return Duration::ZERO;
        };
        if !self.busy_until.contains_key(&entry) && self.is_full(now) {
            return Duration::ZERO;
        }
        let until = self.busy_until.entry(entry).or_insert(now);
        let begin = (*until).max(now);
        let cost = Duration::from_micros(bytes.saturating_mul(1_000_000) / rate);
        *until = (begin + cost).min(begin.max(now + BURST + MAX_DELAY));
        until.saturating_since(begin)
    }

    fn is_full(&mut self, now: Instant) -> bool {
        let is_due = now.saturating_since(self.swept) >= SWEEP_EVERY;
        if self.busy_until.len() >= MAX_HOLDERS && is_due {
            self.busy_until.retain(|_, until| *until > now);
            self.swept = now;
        }
        self.busy_until.len() >= MAX_HOLDERS
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    const MB: u64 = 1_000_000;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn asker(from: &str, key: u8) -> Asker {
        Asker {
            key: PublicKey([key; 32]),
            from: from.parse().expect("an address"),
        }
    }

    /// One that allows 10 MB each second of either kind.
    fn budget() -> Budget {
        let rate = NonZeroU64::new(10 * MB);
        Budget::new(Limits {
            hashed: rate,
            sent: rate,
        })
    }

    /// Causes so many bytes at once.
    fn caused(budget: &mut Budget, asker: Asker, kind: Kind, bytes: u64) {
        match kind {
            Kind::Hashed => {
                let reservation = budget.reserve(asker, bytes, at(0));
                budget.note_hashed(reservation, at(0));
            }
            Kind::Sent => budget.note_sent(asker, bytes, at(0)),
        }
    }

    #[test]
    fn a_burst_passes_and_then_the_rate_counts_for_key_and_address() {
        for kind in [Kind::Hashed, Kind::Sent] {
            let mut budget = budget();
            let one = asker("192.0.2.1", 1);
            caused(&mut budget, one, kind, 80 * MB);
            assert_eq!(budget.delay(one, at(0)), Duration::ZERO);
            caused(&mut budget, one, kind, 30 * MB);
            for held in [one, asker("192.0.2.1", 2), asker("198.51.100.1", 1)] {
                assert_eq!(budget.delay(held, at(0)), Duration::from_secs(3));
                assert_eq!(budget.delay(held, at(3)), Duration::ZERO);
            }
            let other = asker("192.0.2.2", 2);
            assert_eq!(budget.delay(other, at(0)), Duration::ZERO);
        }
    }

    #[test]
    fn a_network_has_the_time_of_four_of_its_addresses() {
        for wide in ["192.0", "2001:db8:0"] {
            let host = |number: u8| match wide.contains(':') {
                true => format!("{wide}:{number:x}::1"),
                false => format!("{wide}.{number}.1"),
            };
            let mut budget = budget();
            for number in 1..=8 {
                let one = asker(&host(number), number);
                caused(&mut budget, one, Kind::Hashed, 80 * MB);
            }
            let next = asker(&host(9), 9);
            assert_eq!(budget.delay(next, at(0)), Duration::from_secs(8), "{wide}");
            let elsewhere = asker("203.0.113.1", 9);
            assert_eq!(budget.delay(elsewhere, at(0)), Duration::ZERO);
        }
    }

    #[test]
    fn without_a_limit_nothing_is_counted() {
        let mut budget = Budget::new(Limits {
            hashed: None,
            sent: None,
        });
        let one = asker("192.0.2.1", 1);
        caused(&mut budget, one, Kind::Hashed, u64::MAX);
        caused(&mut budget, one, Kind::Sent, u64::MAX);
        assert_eq!(budget.delay(one, at(0)), Duration::ZERO);
        assert!(budget.busy_until.is_empty());
    }

    #[test]
    fn what_is_reserved_and_not_done_delays_nobody() {
        let mut budget = budget();
        let one = asker("192.0.2.1", 1);
        let mut all: Vec<Reservation> = (0..300).map(|_| budget.reserve(one, MB, at(0))).collect();
        assert_eq!(budget.delay(one, at(0)), Duration::from_secs(22));
        for reservation in all.split_off(100) {
            budget.give_back(reservation, at(0));
        }
        assert_eq!(budget.delay(one, at(0)), Duration::from_secs(2));
        for reservation in all {
            budget.give_back(reservation, at(5));
        }
        let again = budget.reserve(one, 80 * MB, at(5));
        assert_eq!(again.delay(), Duration::ZERO);
        let next = budget.reserve(one, 10 * MB, at(5));
        assert_eq!(next.delay(), Duration::ZERO, "nothing was saved up");
        assert_eq!(budget.delay(one, at(5)), Duration::from_secs(1));
    }

    #[test]
    fn what_a_volunteer_waits_with_delays_no_neighbour() {
        let mut budget = budget();
        for _ in 0..1000 {
            let _waits = budget.reserve(asker("192.0.2.1", 1), 10 * MB, at(0));
        }
        let neighbour = asker("192.0.3.1", 2);
        assert_eq!(budget.delay(neighbour, at(0)), Duration::ZERO);
    }

    #[test]
    fn nobody_waits_longer_than_half_a_minute_and_no_charge_of_nothing_is_given_back() {
        for kind in [Kind::Hashed, Kind::Sent] {
            let mut budget = budget();
            let one = asker("192.0.2.1", 1);
            for _ in 0..10 {
                caused(&mut budget, one, kind, 1000 * MB);
            }
            assert_eq!(budget.delay(one, at(0)), MAX_DELAY);
            let more = budget.reserve(one, 1000 * MB, at(0));
            budget.give_back(more, at(0));
            assert_eq!(budget.delay(one, at(0)), MAX_DELAY);
        }
    }

    #[test]
    fn a_flood_from_everywhere_is_remembered_only_while_it_counts() {
        let mut budget = budget();
        for number in 0..20_000_u32 {
            let mut key = [0; 32];
            key[..4].copy_from_slice(&number.to_be_bytes());
            let asker = Asker {
                key: PublicKey(key),
                // Each in a /16 of its own.
                from: IpAddr::from((number << 16).to_be_bytes()),
            };
            caused(&mut budget, asker, Kind::Hashed, 10 * MB);
        }
        assert_eq!(budget.busy_until.len(), MAX_HOLDERS);
        budget.note_sent(asker("203.0.113.1", 1), 10 * MB, at(2));
        assert_eq!(budget.busy_until.len(), 3);
    }
}
