//! How many bytes of the link each client may use in a day, and has used.
//!
//! Is: the counts, the limits, and a text form of the counts that outlives a restart. Is not: where
//! bytes are counted, nor what becomes of a client at its limit.
//!
//! Invariants: at most [`MAX_CLIENTS`] clients are told apart; those that come after them share one
//! account, so that nobody gains by many addresses. An IPv6 client is its /64, of which it may take
//! any address; a limit for a smaller network makes an account for that. A day is one of UTC.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv6Net};
use tandem_wire::UnixTime;

use crate::day::Day;
use crate::rules::{ClientRuleError, network};

/// Clients that are told apart in a day: some 100 bytes each.
pub const MAX_CLIENTS: usize = 10_000;

/// Bits of an IPv6 address that are the network's.
const PREFIX_BITS: u8 = 64;

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
    /// It has just used the last of its bytes. Once a day.
    Reached,
    /// It has none left today.
    AtLimit,
}

/// What a client may use, and whose account it is.
struct Terms {
    bytes: u64,
    account: IpNet,
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

    /// `None` for a client that is not limited.
    fn terms(&self, client: IpAddr) -> Option<Terms> {
        let client = client.to_canonical();
        let mut exceptions = self.exceptions.iter();
        match exceptions.find(|exception| exception.from.contains(&client)) {
            Some(Exception { from, bytes }) => Some(Terms {
                bytes: *bytes,
                account: account(client, from.prefix_len().max(PREFIX_BITS)),
            }),
            None => self.everybody.map(|bytes| Terms {
                bytes,
                account: account(client, PREFIX_BITS),
            }),
        }
    }
}

/// What clients have used of a day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    limits: Limits,
    day: Day,
    accounts: BTreeMap<IpNet, u64>,
    /// Of all clients that came when there was no account left.
    others: u64,
}

impl Usage {
    /// Nobody has used anything yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            day: Day::default(),
            accounts: BTreeMap::new(),
            others: 0,
        }
    }

    /// Where a client stands.
    pub fn standing(&mut self, client: IpAddr, now: UnixTime) -> Standing {
        self.turn(now);
        let Some(Terms { bytes, account }) = self.limits.terms(client) else {
            return Standing::Within;
        };
        // The others have used nothing while there is room for accounts.
        let used = self.accounts.get(&account).unwrap_or(&self.others);
        if *used < bytes {
            Standing::Within
        } else {
            Standing::AtLimit
        }
    }

    /// A client has used so many bytes more: where it stands now.
    pub fn charge(&mut self, client: IpAddr, more: u64, now: UnixTime) -> Standing {
        self.turn(now);
        // Who is not limited needs no account.
        let Some(Terms { bytes, account }) = self.limits.terms(client) else {
            return Standing::Within;
        };
        let is_room = self.accounts.len() < MAX_CLIENTS;
        let used = if is_room || self.accounts.contains_key(&account) {
            self.accounts.entry(account).or_default()
        } else {
            &mut self.others
        };
        let before = *used;
        *used = before.saturating_add(more);
        if *used < bytes {
            Standing::Within
        } else if before < bytes {
            Standing::Reached
        } else {
            Standing::AtLimit
        }
    }

    fn turn(&mut self, now: UnixTime) {
        if self.day.turn(now).is_some() {
            self.accounts.clear();
            self.others = 0;
        }
    }

    /// The counts as text.
    pub fn write(&self) -> String {
        let Day { current, seen } = self.day;
        let mut text = format!("day {current} {seen}\n");
        for (account, used) in &self.accounts {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{account} {used}");
        }
        let _ = writeln!(text, "others {}", self.others);
        text
    }

    /// Goes on from the counts of this text. `None`: it is no such text, or not all of it.
    pub fn read(limits: Limits, text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let (current, seen) = lines.next()?.strip_prefix("day ")?.split_once(' ')?;
        let others = lines.next_back()?.strip_prefix("others ")?;
        let account = |line: &str| {
            let (account, used) = line.split_once(' ')?;
            Some((account.parse().ok()?, used.parse().ok()?))
        };
        let accounts: BTreeMap<IpNet, u64> = lines.map(account).collect::<Option<_>>()?;
        (accounts.len() <= MAX_CLIENTS).then_some(Self {
            limits,
            day: Day {
                current: current.parse().ok()?,
                seen: seen.parse().ok()?,
            },
            accounts,
            others: others.parse().ok()?,
        })
    }
}

/// An IPv4 client's account is its address, an IPv6 client's the network of so many bits.
fn account(client: IpAddr, bits: u8) -> IpNet {
    match client {
        IpAddr::V4(_) => IpNet::from(client),
        IpAddr::V6(address) => Ipv6Net::new(address, bits)
            .map_or(IpNet::from(client), |network| IpNet::V6(network.trunc())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 3600;
    const NOON: UnixTime = UnixTime(20_000 * DAY + DAY / 2);

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
        assert_eq!(usage.charge(client, 1, NOON), Standing::Reached);
        assert_eq!(usage.standing(client, NOON), Standing::AtLimit);
        assert_eq!(usage.charge(client, u64::MAX, NOON), Standing::AtLimit);
        // Others are not concerned; the same in IPv6 form is.
        assert_eq!(usage.charge(ip("10.0.0.2"), 99, NOON), Standing::Within);
        let mapped = ip("::ffff:10.0.0.1");
        assert_eq!(usage.standing(mapped, NOON), Standing::AtLimit);
    }

    #[test]
    fn each_day_begins_with_nothing_used() {
        let mut usage = usage(Some(100), &[]);
        let client = ip("10.0.0.1");
        let last = UnixTime(NOON.0 / DAY * DAY + DAY - 1);
        assert_eq!(usage.charge(client, 100, last), Standing::Reached);
        let midnight = UnixTime(last.0 + 1);
        assert_eq!(usage.standing(client, midnight), Standing::Within);
        assert_eq!(usage.charge(client, 100, midnight), Standing::Reached);
        // A clock that is put right around midnight.
        assert_eq!(usage.standing(client, last), Standing::AtLimit);
        assert_eq!(usage.standing(client, midnight), Standing::AtLimit);
    }

    #[test]
    fn the_first_exception_that_matches_counts() {
        let exceptions = [("10.1.0.0/16", 500), ("10.0.0.0/8", 0), ("2001:db8::1", 7)];
        let mut usage = usage(Some(100), &exceptions);
        for (client, bytes, standing) in [
            ("10.1.2.3", 499, Standing::Within),
            ("10.1.2.3", 1, Standing::Reached),
            ("10.2.0.1", 0, Standing::AtLimit),
            ("192.0.2.1", 99, Standing::Within),
            ("192.0.2.1", 1, Standing::Reached),
            ("2001:db8::1", 7, Standing::Reached),
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
        assert!(usage.accounts.is_empty());
        assert_eq!(usage.charge(ip("10.0.0.1"), 9, NOON), Standing::Reached);
        assert_eq!(usage.accounts.len(), 1);
    }

    #[test]
    fn addresses_of_one_network_of_ipv6_are_one_client() {
        let mut usage = usage(Some(100), &[]);
        assert_eq!(usage.charge(ip("2001:db8::1"), 60, NOON), Standing::Within);
        assert_eq!(usage.charge(ip("2001:db8::2"), 60, NOON), Standing::Reached);
        let other = ip("2001:db8:0:1::1");
        assert_eq!(usage.standing(other, NOON), Standing::Within);
    }

    #[test]
    fn a_limit_for_some_addresses_of_a_network_of_ipv6_makes_an_account_for_them() {
        let exceptions = [("2001:db8::/128", 50), ("2001:db8::/126", 900)];
        let mut usage = usage(Some(100), &exceptions);
        for (client, bytes, standing) in [
            ("2001:db8::2", 800, Standing::Within),
            ("2001:db8::3", 100, Standing::Reached),
            ("2001:db8::", 49, Standing::Within),
            ("2001:db8::4", 99, Standing::Within),
            ("2001:db8::5", 1, Standing::Reached),
            ("2001:db8::", 1, Standing::Reached),
        ] {
            assert_eq!(usage.charge(ip(client), bytes, NOON), standing, "{client}");
        }
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
        let [first, second, third] = [0, 1, 2].map(|number| client(MAX_CLIENTS + number));
        assert_eq!(usage.charge(first, 60, NOON), Standing::Within);
        assert_eq!(usage.charge(second, 60, NOON), Standing::Reached);
        assert_eq!(usage.standing(third, NOON), Standing::AtLimit);
        assert_eq!(usage.charge(client(0), 1, NOON), Standing::Within);
        assert_eq!(usage.accounts.len(), MAX_CLIENTS);
        let text = usage.write();
        assert_eq!(
            Usage::read(usage.limits.clone(), &text),
            Some(usage.clone())
        );
        let tomorrow = UnixTime(NOON.0 + DAY);
        assert_eq!(usage.standing(third, tomorrow), Standing::Within);
    }

    #[test]
    fn counts_outlive_a_restart_and_limits_are_the_new_ones() {
        let mut before = usage(Some(100), &[]);
        before.charge(ip("10.0.0.1"), 50, NOON);
        before.charge(ip("2001:db8::1"), 70, NOON);
        let text = before.write();
        let resumed = || Usage::read(Limits::new(Some(60), Vec::new()), &text).expect("its text");
        let mut after = resumed();
        assert_eq!(after.write(), text);
        // A machine that does not know the time yet.
        let unset = UnixTime(7);
        let client = ip("2001:db8::9");
        assert_eq!(after.standing(client, unset), Standing::AtLimit);
        assert_eq!(after.standing(client, NOON), Standing::AtLimit);
        assert_eq!(after.charge(ip("10.0.0.1"), 9, NOON), Standing::Within);
        // Counts of another day do not count.
        let tomorrow = UnixTime(NOON.0 + DAY);
        assert_eq!(resumed().standing(client, tomorrow), Standing::Within);
    }

    #[test]
    fn what_are_no_counts_or_not_all_of_them_is_not_taken() {
        let read = |text: &str| Usage::read(Limits::default(), text);
        assert!(read("day 1 2\n10.0.0.1/32 7\nothers 3\n").is_some());
        for text in [
            "",
            "\u{0}",
            "day 1 2",
            "day 1\nothers 3",
            "day x 2\nothers 3",
            "day 1 2\n10.0.0.1/32 7\n",
            "day 1 2\n10.0.0.1/32\nothers 3",
            "day 1 2\nhere 7\nothers 3",
            "day 1 2\nothers -3",
            "others 3\nday 1 2",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
