//! Where nothing is gained: servers with which a client's connections leave nothing to rewrite (TLS
//! 1.3 alone, no TLS) are offered nothing for a while.
//!
//! Is: the account of each client with each server, and whether the next connection is worth an
//! offer. An offer is a TCP option on SYN, SYN/ACK and hello, 36 to 52 bytes together; a rewritten
//! flight saves some 2,000. Is not: whether rewriting works on a path (`breaker`).
//!
//! ```text
//!   credit: 3 at first; a connection without gain takes 1, one with gain adds 40, up to 80
//!   no credit: no offer for ten minutes, then for one connection; if that gains nothing, too,
//!   twice as long, up to a day
//! ```
//!
//! By client and not for all of them together: one whose programs speak TLS 1.2 keeps its savings
//! beside another whose programs do not.
//!
//! Kept in memory only. What a restart costs are three offers to each server, and a list of servers
//! that somebody has visited is nothing to put on a disk for that.
//!
//! Invariant: the table is bounded in number and age.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tandem_engine::Pass;
use tandem_wire::Instant;

use crate::output::{Event, GiveUp};
use crate::table::{FlowKey, FlowTable};

/// Connections that may gain nothing before offers end.
const FIRST_CREDIT: u8 = 3;

/// Offers that a rewritten flight pays for: 2,000 bytes by 50.
const GAIN: u8 = 40;

/// The most that is owed to a server for what was gained with it.
const MAX_CREDIT: u8 = 80;

/// How long no offer is made at first.
const FIRST_WAIT: Duration = Duration::from_secs(600);

/// The longest wait. A server that has changed is found after a day at the latest.
const MAX_WAIT: Duration = Duration::from_secs(24 * 3_600);

/// How long an account is kept that nothing happens in.
const LIFETIME: Duration = Duration::from_secs(2 * 24 * 3_600);

/// Most accounts. One takes about 250 bytes.
const MAX_ACCOUNTS: usize = 4_096;

/// What became of a connection that an offer was made in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A flight was rewritten.
    Gain,
    /// There was nothing to rewrite, and will be nothing in the next one like it.
    NoGain,
}

impl Outcome {
    /// What an event at the client-side proxy says of its connection; `None` for what says nothing
    /// of the server. A resumed session, say, may be followed by one that is not.
    pub(crate) fn of(event: Event) -> Option<Self> {
        match event {
            Event::FlightRebuilt { .. } | Event::FlightAcknowledged => Some(Self::Gain),
            Event::GivenUp(GiveUp::Handshake(why)) => match why {
                Pass::Tls13 | Pass::NotTls | Pass::NoCertificate => Some(Self::NoGain),
                Pass::Resumed | Pass::Malformed => None,
            },
            _ => None,
        }
    }
}

/// The accounts of clients with servers.
#[derive(Debug)]
pub struct Gains(FlowTable<Account>);

#[derive(Debug, Clone, Copy)]
struct Account {
    credit: u8,
    /// How long no offer is made when the credit is used up.
    wait: Duration,
    /// When one is made again; of no meaning with credit.
    again: Instant,
}

impl Default for Gains {
    fn default() -> Self {
        Self(FlowTable::new(MAX_ACCOUNTS, LIFETIME))
    }
}

impl Gains {
    /// Whether a connection that this client opens to this server is worth an offer. Where that is
    /// one after a wait, it is so once.
    pub fn is_worth_an_offer(&mut self, client: IpAddr, server: SocketAddr, now: Instant) -> bool {
        match self.0.get(&key(client, server)) {
            Some(account) if account.credit == 0 => {
                let is_due = account.again <= now;
                if is_due {
                    account.again = now + account.wait;
                }
                is_due
            }
            Some(_) | None => true,
        }
    }

    /// Takes note of what became of a connection.
    pub fn note(&mut self, client: IpAddr, server: SocketAddr, outcome: Outcome, now: Instant) {
        while self.0.remove_expired(now).is_some() {}
        let key = key(client, server);
        let mut account = self.0.remove(&key).unwrap_or(Account {
            credit: FIRST_CREDIT,
            wait: FIRST_WAIT,
            again: now,
        });
        match outcome {
            Outcome::Gain => {
                account.credit = account.credit.saturating_add(GAIN).min(MAX_CREDIT);
                account.wait = FIRST_WAIT;
            }
            Outcome::NoGain if account.credit > 1 => account.credit -= 1,
            Outcome::NoGain => {
                if account.credit == 0 {
                    account.wait = (account.wait * 2).min(MAX_WAIT);
                }
                account.credit = 0;
                account.again = now + account.wait;
            }
        }
        self.0.insert(key, account, now);
    }

    /// With how many servers, by client, no offer is made.
    pub fn without(&self) -> usize {
        self.0
            .values()
            .filter(|account| account.credit == 0)
            .count()
    }
}

/// All ports of a client are one.
fn key(client: IpAddr, server: SocketAddr) -> FlowKey {
    FlowKey {
        client: SocketAddr::new(client, 0),
        server,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    fn server(number: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 9, 1], number))
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_micros(seconds * 1_000_000)
    }

    /// So many connections one after the other that gain nothing if there is an offer; how many of
    /// them had one.
    fn offered(gains: &mut Gains, connections: usize, now: Instant) -> usize {
        (0..connections)
            .filter(|_| {
                let is_offered = gains.is_worth_an_offer(CLIENT, server(443), now);
                if is_offered {
                    gains.note(CLIENT, server(443), Outcome::NoGain, now);
                }
                is_offered
            })
            .count()
    }

    #[test]
    fn offers_end_after_three_connections_without_gain_for_this_client_and_server_alone() {
        let mut gains = Gains::default();
        assert_eq!(offered(&mut gains, 100, at(0)), 3);
        assert_eq!(gains.without(), 1);
        let other = IpAddr::from([10, 0, 0, 2]);
        assert!(gains.is_worth_an_offer(other, server(443), at(0)));
        assert!(gains.is_worth_an_offer(CLIENT, server(444), at(0)));
    }

    #[test]
    fn each_wait_ends_with_one_offer_and_is_twice_as_long_as_the_one_before_up_to_a_day() {
        let mut gains = Gains::default();
        offered(&mut gains, 3, at(0));
        let (mut now, mut waits) = (0, Vec::new());
        for _ in 0..10 {
            let wait = (1..).find(|minutes| {
                let then = at(now + minutes * 60);
                gains.is_worth_an_offer(CLIENT, server(443), then)
            });
            let wait = wait.expect("it ends");
            now += wait * 60;
            // The one that is tried is the only one until it is over.
            assert!(!gains.is_worth_an_offer(CLIENT, server(443), at(now)));
            gains.note(CLIENT, server(443), Outcome::NoGain, at(now));
            waits.push(wait);
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1_280, 1_440, 1_440]);
    }

    #[test]
    fn a_try_of_which_nothing_is_heard_is_followed_by_another() {
        let mut gains = Gains::default();
        offered(&mut gains, 3, at(0));
        assert!(gains.is_worth_an_offer(CLIENT, server(443), at(600)));
        assert!(!gains.is_worth_an_offer(CLIENT, server(443), at(1_199)));
        assert!(gains.is_worth_an_offer(CLIENT, server(443), at(1_200)));
    }

    #[test]
    fn what_was_gained_pays_for_offers() {
        let mut gains = Gains::default();
        offered(&mut gains, 3, at(0));
        // What is tried after the first wait gains nothing, and the next wait is twice as long.
        assert_eq!(offered(&mut gains, 1, at(600)), 1);
        gains.note(CLIENT, server(443), Outcome::Gain, at(600));
        assert_eq!(gains.without(), 0);
        assert_eq!(offered(&mut gains, 100, at(601)), 40);
        // And the wait is the first one again.
        assert!(!gains.is_worth_an_offer(CLIENT, server(443), at(1_200)));
        assert!(gains.is_worth_an_offer(CLIENT, server(443), at(1_201)));
        for _ in 0..10 {
            gains.note(CLIENT, server(443), Outcome::Gain, at(1_201));
        }
        assert_eq!(offered(&mut gains, 100, at(1_202)), 80);
    }

    #[test]
    fn accounts_are_bounded_and_forgotten_when_nothing_happens_in_them() {
        let mut gains = Gains::default();
        for port in 0..4_105 {
            gains.note(CLIENT, server(port), Outcome::NoGain, at(0));
        }
        assert_eq!(gains.0.len(), 4_096);
        let two_days = 2 * 86_400;
        gains.note(CLIENT, server(4_104), Outcome::NoGain, at(two_days - 1));
        assert_eq!(gains.0.len(), 4_096);
        gains.note(CLIENT, server(4_103), Outcome::NoGain, at(two_days));
        assert_eq!(gains.0.len(), 2);
    }

    #[test]
    fn only_what_says_something_of_the_server_counts() {
        for (event, outcome) in [
            (
                Event::FlightRebuilt {
                    bytes: 1,
                    received: 1,
                },
                Some(Outcome::Gain),
            ),
            (Event::FlightAcknowledged, Some(Outcome::Gain)),
            (
                Event::GivenUp(GiveUp::Handshake(Pass::Tls13)),
                Some(Outcome::NoGain),
            ),
            (
                Event::GivenUp(GiveUp::Handshake(Pass::NotTls)),
                Some(Outcome::NoGain),
            ),
            (
                Event::GivenUp(GiveUp::Handshake(Pass::NoCertificate)),
                Some(Outcome::NoGain),
            ),
            (Event::GivenUp(GiveUp::Handshake(Pass::Resumed)), None),
            (Event::GivenUp(GiveUp::Handshake(Pass::Malformed)), None),
            (Event::GivenUp(GiveUp::NoAnswer), None),
            (Event::GivenUp(GiveUp::Closed), None),
            (Event::HandshakeFinished, None),
        ] {
            assert_eq!(Outcome::of(event), outcome, "{event:?}");
        }
    }
}
