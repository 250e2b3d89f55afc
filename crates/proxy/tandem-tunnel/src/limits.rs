//! How many bytes of the link each client may use in a day, and has used.
//!
//! Is: the counts, the limits, and a text form of the counts that outlives a restart. Is not: where
//! bytes are counted, nor what becomes of a client that has used up its day.
//!
//! Invariants: at most [`MAX_CLIENTS`] clients are told apart; those that come after them share one
//! account, so that nobody gains by many addresses. An IPv6 client is its /64, of which it may take
//! any address. A day is one of UTC.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use tandem_wire::UnixTime;

use crate::rules::{ClientRuleError, network};

/// Clients that are told apart in a day: some 100 bytes each.
pub const MAX_CLIENTS: usize = 10_000;

const SECONDS_A_DAY: u64 = 24 * 3600;

/// Bits of an IPv6 address that are the network's.
const PREFIX_BITS: u32 = 64;

/// What each client may use, in bytes a day. By default, as much as it likes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    everybody: Option<u64>,
    exceptions: Vec<Exception>,
}

/// Another limit for the clients of one network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exception {
    from: IpNet,
    bytes: u64,
}

/// Whether a client may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It has bytes left.
    Within,
    /// It has none left today.
    Spent,
}

impl Exception {
    /// For a network, or one address.
    ///
    /// # Errors
    /// It is none.
    pub fn new(from: &str, bytes: u64) -> Result<Self, ClientRuleError> {
        let from = network(from)?;
        Ok(Self { from, bytes })
    }
}

impl Limits {
    /// One for everybody, and others for some: the first that matches counts.
    pub fn new(everybody: Option<u64>, exceptions: Vec<Exception>) -> Self {
        Self {
            everybody,
            exceptions,
        }
    }

    /// Whether nobody is limited.
    pub fn is_empty(&self) -> bool {
        self.everybody.is_none() && self.exceptions.is_empty()
    }

    fn of(&self, client: IpAddr) -> Option<u64> {
        let mut exceptions = self.exceptions.iter();
        let exception = exceptions.find(|exception| exception.from.contains(&client));
        exception.map_or(self.everybody, |exception| Some(exception.bytes))
    }
}

/// What clients have used of a day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    limits: Limits,
    /// Days since 1970.
    day: u64,
    clients: BTreeMap<IpAddr, u64>,
    /// Of all clients that came when there was no account left.
    others: u64,
}

impl Usage {
    /// Nobody has used anything yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            day: 0,
            clients: BTreeMap::new(),
            others: 0,
        }
    }

    /// Where a client stands.
    pub fn standing(&mut self, client: IpAddr, now: UnixTime) -> Standing {
        self.turn(now);
        let client = client.to_canonical();
        let Some(limit) = self.limits.of(client) else {
            return Standing::Within;
        };
        let account = account(client);
        let used = match self.clients.get(&account) {
            Some(used) => *used,
            None if self.clients.len() < MAX_CLIENTS => 0,
            None => self.others,
        };
        if used < limit {
            Standing::Within
        } else {
            Standing::Spent
        }
    }

    /// A client has used so many bytes more: where it stands now.
    pub fn charge(&mut self, client: IpAddr, bytes: u64, now: UnixTime) -> Standing {
        self.turn(now);
        let canonical = client.to_canonical();
        // Who is not limited needs no account.
        if self.limits.of(canonical).is_none() {
            return Standing::Within;
        }
        let account = account(canonical);
        let is_room = self.clients.len() < MAX_CLIENTS;
        let used = if is_room || self.clients.contains_key(&account) {
            self.clients.entry(account).or_default()
        } else {
            &mut self.others
        };
        *used = used.saturating_add(bytes);
        self.standing(client, now)
    }

    /// Clients with an account.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Begins a new day. A clock that is put back by less than a day begins none, so that midnight
    /// does not come twice.
    fn turn(&mut self, now: UnixTime) {
        let day = now.0 / SECONDS_A_DAY;
        if day == self.day || day + 1 == self.day {
            return;
        }
        self.day = day;
        self.clients.clear();
        self.others = 0;
    }

    /// The counts as text.
    pub fn write(&self) -> String {
        let mut text = format!("day {}\n", self.day);
        for (client, used) in &self.clients {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{client} {used}");
        }
        let _ = writeln!(text, "others {}", self.others);
        text
    }

    /// The counts of this text in place of these. `false`: it is no such text, and nothing is
    /// changed.
    #[must_use]
    pub fn read(&mut self, text: &str) -> bool {
        let mut read = Self::new(Limits::default());
        for line in text.lines() {
            let Some((name, number)) = line.split_once(' ') else {
                return false;
            };
            let Ok(number) = number.parse() else {
                return false;
            };
            match (name, name.parse()) {
                ("day", _) => read.day = number,
                ("others", _) => read.others = number,
                (_, Ok(client)) if read.clients.len() < MAX_CLIENTS => {
                    read.clients.insert(account(client), number);
                }
                (_, Ok(_) | Err(_)) => return false,
            }
        }
        read.limits = std::mem::take(&mut self.limits);
        *self = read;
        true
    }
}

/// Whose account it is.
fn account(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V4(_) => client,
        IpAddr::V6(address) => {
            let mask = u128::MAX << PREFIX_BITS;
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: UnixTime = UnixTime(20_000 * SECONDS_A_DAY + SECONDS_A_DAY / 2);
    const DAY: u64 = SECONDS_A_DAY;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect(text)
    }

    fn usage(everybody: Option<u64>, exceptions: &[(&str, u64)]) -> Usage {
        let exceptions = exceptions
            .iter()
            .map(|(from, bytes)| Exception::new(from, *bytes).expect(from));
        Usage::new(Limits::new(everybody, exceptions.collect()))
    }

    #[test]
    fn a_client_is_within_its_limit_until_it_has_used_all_of_it() {
        let mut usage = usage(Some(100), &[]);
        let client = ip("10.0.0.1");
        assert_eq!(usage.standing(client, NOON), Standing::Within);
        assert_eq!(usage.charge(client, 99, NOON), Standing::Within);
        assert_eq!(usage.charge(client, 1, NOON), Standing::Spent);
        assert_eq!(usage.standing(client, NOON), Standing::Spent);
        assert_eq!(usage.charge(client, u64::MAX, NOON), Standing::Spent);
        // Others are not concerned; the same in other clothes is.
        assert_eq!(usage.charge(ip("10.0.0.2"), 99, NOON), Standing::Within);
        assert_eq!(usage.standing(ip("::ffff:10.0.0.1"), NOON), Standing::Spent);
    }

    #[test]
    fn each_day_begins_with_nothing_used() {
        let mut usage = usage(Some(100), &[]);
        let client = ip("10.0.0.1");
        let last = UnixTime(NOON.0 / DAY * DAY + DAY - 1);
        assert_eq!(usage.charge(client, 100, last), Standing::Spent);
        let midnight = UnixTime(last.0 + 1);
        assert_eq!(usage.standing(client, midnight), Standing::Within);
        assert_eq!(usage.charge(client, 100, midnight), Standing::Spent);
        // A clock that is put right around midnight.
        assert_eq!(usage.standing(client, last), Standing::Spent);
        assert_eq!(usage.standing(client, midnight), Standing::Spent);
        // One that was wrong by years.
        assert_eq!(usage.standing(client, UnixTime(0)), Standing::Within);
    }

    #[test]
    fn the_first_exception_that_matches_counts() {
        let exceptions = [("10.1.0.0/16", 500), ("10.0.0.0/8", 0), ("2001:db8::1", 7)];
        let mut usage = usage(Some(100), &exceptions);
        for (client, bytes, standing) in [
            ("10.1.2.3", 499, Standing::Within),
            ("10.1.2.3", 1, Standing::Spent),
            ("10.2.0.1", 0, Standing::Spent),
            ("192.0.2.1", 99, Standing::Within),
            ("192.0.2.1", 1, Standing::Spent),
            ("2001:db8::1", 7, Standing::Spent),
        ] {
            assert_eq!(usage.charge(ip(client), bytes, NOON), standing, "{client}");
        }
        assert!(!Limits::new(Some(1), Vec::new()).is_empty());
        assert!(Limits::default().is_empty());
        assert!(Exception::new("10.0.0.1/8", 1).is_err());
    }

    #[test]
    fn who_is_not_limited_has_no_account() {
        let mut usage = usage(None, &[("10.0.0.0/8", 1)]);
        assert_eq!(usage.charge(ip("192.0.2.1"), 9, NOON), Standing::Within);
        assert_eq!(usage.clients(), 0);
        assert_eq!(usage.charge(ip("10.0.0.1"), 9, NOON), Standing::Spent);
        assert_eq!(usage.clients(), 1);
    }

    #[test]
    fn addresses_of_one_network_of_ipv6_are_one_client() {
        let mut usage = usage(Some(100), &[]);
        assert_eq!(usage.charge(ip("2001:db8::1"), 60, NOON), Standing::Within);
        assert_eq!(usage.charge(ip("2001:db8::2"), 60, NOON), Standing::Spent);
        let other = ip("2001:db8:0:1::1");
        assert_eq!(usage.standing(other, NOON), Standing::Within);
    }

    #[test]
    fn clients_beyond_the_bound_share_an_account() {
        let mut usage = usage(Some(100), &[]);
        let client = |number: usize| {
            let number = u32::try_from(number).expect("few");
            IpAddr::V4(std::net::Ipv4Addr::from_bits(0x0a00_0000 + number))
        };
        for number in 0..MAX_CLIENTS {
            usage.charge(client(number), 1, NOON);
        }
        assert_eq!(
            usage.charge(client(MAX_CLIENTS), 60, NOON),
            Standing::Within
        );
        assert_eq!(
            usage.charge(client(MAX_CLIENTS + 1), 60, NOON),
            Standing::Spent
        );
        assert_eq!(
            usage.standing(client(MAX_CLIENTS + 2), NOON),
            Standing::Spent
        );
        assert_eq!(usage.charge(client(0), 1, NOON), Standing::Within);
        assert_eq!(usage.clients(), MAX_CLIENTS);
        let tomorrow = UnixTime(NOON.0 + DAY);
        assert_eq!(
            usage.standing(client(MAX_CLIENTS + 2), tomorrow),
            Standing::Within
        );
    }

    #[test]
    fn counts_outlive_a_restart_and_limits_are_the_new_ones() {
        let mut before = usage(Some(100), &[]);
        before.charge(ip("10.0.0.1"), 50, NOON);
        before.charge(ip("2001:db8::1"), 70, NOON);
        let text = before.write();
        let mut after = usage(Some(60), &[]);
        assert!(after.read(&text), "{text}");
        assert_eq!(after.write(), text);
        assert_eq!(after.charge(ip("10.0.0.1"), 9, NOON), Standing::Within);
        assert_eq!(after.standing(ip("2001:db8::9"), NOON), Standing::Spent);
        // Counts of another day do not count.
        let mut later = usage(Some(60), &[]);
        assert!(later.read(&text));
        let standing = later.standing(ip("2001:db8::9"), UnixTime(NOON.0 + DAY));
        assert_eq!(standing, Standing::Within);
    }

    #[test]
    fn what_are_no_counts_changes_nothing() {
        let mut usage = usage(Some(100), &[]);
        usage.charge(ip("10.0.0.1"), 50, NOON);
        let before = usage.clone();
        for text in ["day", "day x", "day 1\n10.0.0.1", "day 1\nhere 7", "\u{0}"] {
            assert!(!usage.read(text), "{text}");
            assert_eq!(usage, before);
        }
    }
}
