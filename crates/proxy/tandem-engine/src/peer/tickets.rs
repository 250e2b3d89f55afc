//! The session tickets that have passed (RFC 5077): what a client's hello may refer to, and what
//! the far side rebuilds it from.
//!
//! Is: both sides' memory of tickets, and at the client's side the trust that the far side
//! remembers them too. Is not: the reading of tickets (`objects`), nor the store: tickets
//! live for hours, a proxy sees one with each new session, and most are never shown, so that a disk
//! would be worn for nothing; and a ticket holds its session's keys, sealed by the server, which
//! nobody should find on a disk.
//!
//! Invariants: number and bytes are bounded, for each site and in all, the least recently seen
//! forgotten first; nothing is held longer than the server said it takes it; a ticket that the far
//! side lacks costs one miss, and all that were learned before it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tandem_delta::Reference;
use tandem_store::Site;
use tandem_wire::Instant;

use crate::objects::ticket;
use crate::peer::Role;
use crate::peer::trust::Trust;

/// The shortest ticket that is worth a reference: with fewer bytes the frame around it saves next
/// to nothing.
const MIN_LEN: usize = 64;

/// The longest that is held. Tickets of OpenSSL have about 200 bytes, with a client's chain inside
/// 2,000.
const MAX_LEN: usize = 16 << 10;

/// How long a ticket is held of which the server does not say for how long it takes it, and the
/// longest of all: clients forget sooner (RFC 5246, section F.1.4, suggests 24 hours).
pub(crate) const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// How much longer the server's side holds a ticket: it must not be the first to forget.
const GRACE: Duration = Duration::from_secs(60 * 60);

/// What a ticket takes beside its bytes, about.
const ENTRY_COST: usize = 256;

/// How much is held at most.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    bytes: usize,
    per_site: usize,
    grace: Duration,
}

impl Bounds {
    /// A server-side proxy remembers for many client-side ones: what it forgets first, each of them
    /// misses.
    fn of(role: Role) -> Self {
        match role {
            Role::ClientSide => Self {
                bytes: 4 << 20,
                per_site: 1_024,
                grace: Duration::ZERO,
            },
            Role::ServerSide => Self {
                bytes: 32 << 20,
                per_site: 16_384,
                grace: GRACE,
            },
        }
    }
}

/// The tickets that one proxy remembers.
#[derive(Debug)]
pub struct SessionTickets {
    bounds: Bounds,
    held: BTreeMap<Reference, Held>,
    /// By when they were last seen.
    turns: BTreeMap<u64, Reference>,
    sites: BTreeMap<Site, BTreeSet<u64>>,
    bytes: usize,
    turn: u64,
    trust: Trust,
}

#[derive(Debug)]
struct Held {
    bytes: Arc<[u8]>,
    site: Site,
    turn: u64,
    until: Instant,
}

impl SessionTickets {
    /// What a proxy at this end may remember, and nothing yet.
    pub fn new(role: Role) -> Self {
        Self {
            bounds: Bounds::of(role),
            held: BTreeMap::new(),
            turns: BTreeMap::new(),
            sites: BTreeMap::new(),
            bytes: 0,
            turn: 0,
            trust: Trust::default(),
        }
    }

    /// Both sides have seen this ticket: the server gave it, or took it. `true`: it is new here.
    pub fn learn(
        &mut self,
        site: &Site,
        bytes: &[u8],
        lifetime: Option<Duration>,
        now: Instant,
    ) -> bool {
        if !(MIN_LEN..=MAX_LEN).contains(&bytes.len()) {
            return false;
        }
        let name = ticket::name_of(bytes);
        let lifetime = lifetime.map_or(LIFETIME, |lifetime| lifetime.min(LIFETIME));
        let known = self.remove(&name);
        let until = match (&known, now + lifetime + self.bounds.grace) {
            // One that is shown lives no longer for it.
            (Some(known), until) if known.until > now => known.until.min(until),
            (Some(_) | None, until) => until,
        };
        self.turn += 1;
        let ticket = Held {
            bytes: bytes.into(),
            site: site.clone(),
            turn: self.turn,
            until,
        };
        self.insert(name, ticket);
        self.shrink(site, now);
        known.is_none()
    }

    /// Whether a hello may refer to this ticket: it is held here, and the far side may be trusted
    /// to hold it too. To be asked once for each hello.
    pub fn may_refer_to(&mut self, name: &Reference, now: Instant) -> bool {
        self.find(name, now).is_some() && self.trust.may_refer()
    }

    /// A hello that referred to a ticket has arrived.
    pub fn rebuilt(&mut self) {
        self.trust.rebuilt();
    }

    /// One was not rebuilt: the far side has lost what it held, or is another.
    pub fn missed(&mut self) {
        self.trust.missed();
        self.held.clear();
        self.turns.clear();
        self.sites.clear();
        self.bytes = 0;
    }

    /// The ticket of this name.
    pub(crate) fn find(&self, name: &Reference, now: Instant) -> Option<&Arc<[u8]>> {
        let held = self.held.get(name)?;
        (held.until > now).then_some(&held.bytes)
    }

    /// How many are held, and about how many bytes they take.
    pub fn size(&self) -> (usize, usize) {
        (self.held.len(), self.bytes)
    }

    /// Forgets what is too much, and what is past its time among the longest unseen.
    fn shrink(&mut self, site: &Site, now: Instant) {
        let at_site = |this: &Self| this.sites.get(site).map_or(0, BTreeSet::len);
        while at_site(self) > self.bounds.per_site {
            let oldest = self.sites.get(site).and_then(|turns| turns.first());
            if let Some(name) = oldest.and_then(|turn| self.turns.get(turn)).copied() {
                self.remove(&name);
            }
        }
        while let Some(name) = self.turns.first_key_value().map(|(_, name)| *name) {
            let is_past = self.held.get(&name).is_none_or(|held| held.until <= now);
            if !is_past && self.bytes <= self.bounds.bytes {
                return;
            }
            self.remove(&name);
        }
    }

    fn insert(&mut self, name: Reference, ticket: Held) {
        self.bytes += ENTRY_COST + ticket.bytes.len();
        self.turns.insert(ticket.turn, name);
        let site = ticket.site.clone();
        self.sites.entry(site).or_default().insert(ticket.turn);
        self.held.insert(name, ticket);
    }

    fn remove(&mut self, name: &Reference) -> Option<Held> {
        let ticket = self.held.remove(name)?;
        self.bytes -= ENTRY_COST + ticket.bytes.len();
        self.turns.remove(&ticket.turn);
        if let Some(turns) = self.sites.get_mut(&ticket.site) {
            turns.remove(&ticket.turn);
            if turns.is_empty() {
                self.sites.remove(&ticket.site);
            }
        }
        Some(ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_store::HostName;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn site(name: &str) -> Site {
        Site::Name(HostName::new(name).expect("a name"))
    }

    fn ticket(number: u32) -> Vec<u8> {
        number.to_be_bytes().repeat(50)
    }

    fn at(time: Duration) -> Instant {
        Instant::ZERO + time
    }

    fn holds(tickets: &mut SessionTickets, number: u32, now: Duration) -> bool {
        tickets.may_refer_to(&ticket::name_of(&ticket(number)), at(now))
    }

    #[test]
    fn a_ticket_is_referred_to_until_its_lifetime_is_over_and_the_servers_side_holds_it_longer() {
        let life = Some(HOUR);
        for (role, end) in [(Role::ClientSide, HOUR), (Role::ServerSide, HOUR * 2)] {
            let mut tickets = SessionTickets::new(role);
            assert!(tickets.learn(&site("a.example"), &ticket(1), life, at(Duration::ZERO)));
            assert!(holds(&mut tickets, 1, end - Duration::from_secs(1)));
            assert!(!holds(&mut tickets, 1, end) && !holds(&mut tickets, 2, HOUR / 2));
            // Shown again, it lives no longer; taken after its end, it lives anew.
            assert!(!tickets.learn(&site("a.example"), &ticket(1), None, at(HOUR / 2)));
            assert!(!holds(&mut tickets, 1, end));
            assert!(!tickets.learn(&site("a.example"), &ticket(1), life, at(end)));
            assert!(holds(&mut tickets, 1, end + HOUR / 2));
        }
    }

    #[test]
    fn what_says_no_lifetime_or_a_long_one_goes_after_a_day() {
        let mut tickets = SessionTickets::new(Role::ClientSide);
        tickets.learn(&site("a.example"), &ticket(1), None, at(Duration::ZERO));
        tickets.learn(&site("a.example"), &ticket(2), Some(HOUR * 900), at(HOUR));
        assert!(holds(&mut tickets, 1, HOUR * 23) && !holds(&mut tickets, 1, HOUR * 24));
        assert!(holds(&mut tickets, 2, HOUR * 24) && !holds(&mut tickets, 2, HOUR * 25));
        tickets.learn(&site("b.example"), &ticket(3), None, at(HOUR * 30));
        assert_eq!(
            tickets.size(),
            (1, ENTRY_COST + 200),
            "what is past its time is gone"
        );
    }

    #[test]
    fn neither_one_site_nor_all_of_them_fill_the_memory() {
        let mut tickets = SessionTickets::new(Role::ClientSide);
        let now = Duration::ZERO;
        tickets.learn(&site("quiet.example"), &ticket(0), None, at(now));
        for number in 1..=2_000 {
            tickets.learn(&site("busy.example"), &ticket(number), None, at(now));
        }
        assert_eq!(tickets.size().0, 1 + tickets.bounds.per_site);
        assert!(holds(&mut tickets, 0, now) && holds(&mut tickets, 2_000, now));
        assert!(!holds(&mut tickets, 1, now), "the oldest goes first");
        for number in 0..20_000 {
            let site = site(&format!("s{number}.example"));
            tickets.learn(&site, &ticket(10_000 + number), None, at(now));
            assert!(tickets.size().1 <= tickets.bounds.bytes);
        }
        assert!(!holds(&mut tickets, 0, now) && holds(&mut tickets, 29_999, now));
        assert_eq!(tickets.turns.len(), tickets.held.len());
        let at_sites: usize = tickets.sites.values().map(BTreeSet::len).sum();
        assert_eq!(at_sites, tickets.held.len());
    }

    #[test]
    fn what_is_too_short_to_gain_by_or_too_long_to_hold_is_not_learned() {
        let mut tickets = SessionTickets::new(Role::ServerSide);
        for length in [0, MIN_LEN - 1, MAX_LEN + 1] {
            let ticket = vec![7; length];
            assert!(!tickets.learn(&site("a.example"), &ticket, None, at(HOUR)));
        }
        assert_eq!(tickets.size(), (0, 0));
    }

    #[test]
    fn a_miss_ends_all_that_was_learned_before_it_and_misses_in_a_row_ask_less_and_less() {
        let mut tickets = SessionTickets::new(Role::ClientSide);
        let again = |tickets: &mut SessionTickets, number: u32| {
            tickets.learn(&site("a.example"), &ticket(number), None, at(HOUR));
            holds(tickets, number, HOUR)
        };
        assert!(again(&mut tickets, 1) && again(&mut tickets, 2));
        tickets.missed();
        assert!(!holds(&mut tickets, 1, HOUR) && !holds(&mut tickets, 2, HOUR));
        assert!(
            again(&mut tickets, 1),
            "the first miss says nothing of what comes after"
        );
        let mut asked = vec![];
        for _ in 0..9 {
            tickets.missed();
            let left = (0..).take_while(|_| !again(&mut tickets, 1)).count();
            asked.push(left);
        }
        assert_eq!(asked, [2, 6, 14, 30, 62, 63, 63, 63, 63]);
        tickets.rebuilt();
        assert!(again(&mut tickets, 3) && again(&mut tickets, 4));
    }
}
