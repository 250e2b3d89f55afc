//! Who has changed what it served, as the broker itself has seen; and whom it looks at more often,
//! because clients say so.
//!
//! ```text
//!  report of the origin --> looks at once, LOOKS_PER_REPORT times       costs the member nothing
//!  look: record refused --> PROOFS of them in a day, a minute apart
//!                           --> its addresses are barred: an hour, then two, ... a day
//! ```
//!
//! Is not: the looks. Why reports alone cost nothing: a client can say of any record that it is
//! bad. Why a look is evidence: the broker's own TLS has refused a record in a connection whose
//! certificate was the site's, and only whoever carries the record could have changed it. Why two:
//! TCP lets one damaged segment in some 65,000 pass. Why a minute apart: a short fault of the
//! broker's own line damages several looks at once.
//!
//! Who is accused may itself have clients, and so choose the path that is reported: a few paths
//! take turns, and one look of [`LOOKS_PER_REPORT`] fetches what the broker itself chose.
//!
//! A volunteer's addresses lead to one program: what it changed through one of them counts for all,
//! or it would go on through the other.
//!
//! Invariants: nobody is barred but by the broker's own looks; a term is by address (a /64 of
//! IPv6), so that a new key does not end it, it holds for every member there, and it ends; both
//! sets are bounded.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tandem_wire::UnixTime;

use super::{Entry, Roster};
use crate::health::Outcome;
use crate::list::MAX_MEMBERS;
use crate::member::{Member, PublicKey};
use tandem_wire::Network;

/// Refused records within `REMEMBERED` that bar a member.
pub const PROOFS: u32 = 2;
/// Looks that follow a report.
pub const LOOKS_PER_REPORT: u32 = 6;
/// Looks of one turn at those that were reported: what lying clients can have made at most.
pub const LOOKS_REPORTED: usize = 16;

/// Looks that follow a refused record: some of them are more than [`PROOF_EVERY`] later.
pub(super) const LOOKS_PER_PROOF: u32 = 3 * LOOKS_PER_REPORT;
/// Members that are reported at a time. Their looks take two minutes.
const MAX_REPORTED: usize = 64;
/// Paths of one member that are remembered.
const MAX_PATHS: usize = 4;
/// Seconds within which refused records count as one.
const PROOF_EVERY: u64 = 60;
/// Seconds for which a refused record counts.
const REMEMBERED: u64 = 24 * 3600;
/// Seconds of a first term; each next one is twice as long, up to a day.
const FIRST_TERM: u64 = 3600;
pub(super) const MAX_TERM: u64 = 24 * 3600;
/// Seconds after a term for which the next one is longer.
const FORGIVEN: u64 = 7 * 24 * 3600;

/// Both of the above.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    reported: BTreeMap<PublicKey, Reported>,
    pub(super) records: BTreeMap<Network, Record>,
}

#[derive(Debug)]
struct Reported {
    /// Each once; the last one is next.
    paths: VecDeque<String>,
    /// Looks that are still to be made, and those that were made.
    looks: u32,
    made: u32,
    /// The moment from which on it waits.
    waits: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    pub(super) proofs: u32,
    /// When the last one counted, or the last term ended.
    pub(super) last: UnixTime,
    pub(super) terms: u32,
    /// The end of the term that runs.
    pub(super) until: Option<UnixTime>,
}

/// A member that is looked at because of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspect {
    /// Who.
    pub member: Member,
    /// What is fetched: a path that was reported, or what is fetched in every look.
    pub path: Option<String>,
}

/// What followed of a refused record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ruling {
    /// It counts, and more looks follow.
    Noted,
    /// All members of its addresses are out, for so many seconds.
    Barred(u64),
}

impl Reported {
    fn note_path(&mut self, path: &str) {
        self.paths.retain(|known| known != path);
        if self.paths.len() >= MAX_PATHS {
            self.paths.pop_front();
        }
        self.paths.push_back(path.to_owned());
    }

    /// What the next look fetches.
    fn next_path(&mut self) -> Option<String> {
        self.looks = self.looks.saturating_sub(1);
        self.made = self.made.wrapping_add(1);
        if self.made.is_multiple_of(LOOKS_PER_REPORT) {
            return None;
        }
        let path = self.paths.back().cloned();
        self.paths.rotate_right(1.min(self.paths.len()));
        path
    }
}

impl Evidence {
    pub(super) fn is_barred(&self, member: &Member) -> bool {
        let record = self.records.get(&Network::narrow(member.address));
        record.is_some_and(|record| record.until.is_some())
    }

    /// Ends the terms that are over, and forgets.
    pub(super) fn release(&mut self, wall: UnixTime) {
        self.records.retain(|_, record| match record.until {
            Some(until) if until <= wall => {
                (record.until, record.last) = (None, wall);
                true
            }
            Some(_) => true,
            None => wall.0.saturating_sub(record.last.0) < FORGIVEN,
        });
    }

    /// Counts a refused record for a network; how many count now.
    fn prove(&mut self, network: Network, wall: UnixTime) -> u32 {
        if !self.records.contains_key(&network) {
            self.make_room();
        }
        let record = self.records.entry(network).or_insert(Record {
            proofs: 0,
            last: wall,
            terms: 0,
            until: None,
        });
        let age = wall.0.saturating_sub(record.last.0);
        if age > REMEMBERED {
            record.proofs = 0;
        }
        if record.proofs == 0 || age >= PROOF_EVERY {
            record.proofs += 1;
            record.last = wall;
        }
        record.proofs
    }

    /// Begins a term; its seconds.
    fn bar(&mut self, network: Network, wall: UnixTime) -> u64 {
        let Some(record) = self.records.get_mut(&network) else {
            return 0;
        };
        let term = FIRST_TERM
            .saturating_mul(1 << record.terms.min(16))
            .min(MAX_TERM);
        record.proofs = 0;
        record.terms += 1;
        record.until = Some(UnixTime(wall.0.saturating_add(term)));
        term
    }

    pub(super) fn make_room(&mut self) {
        if self.records.len() < MAX_MEMBERS {
            return;
        }
        let mildest = self
            .records
            .iter()
            .min_by_key(|(_, record)| (record.until, record.last))
            .map(|(network, _)| *network);
        if let Some(network) = mildest {
            self.records.remove(&network);
        }
    }
}

impl Roster {
    /// Looks at a member soon, and some times: clients refuse what they got through it. Whether it
    /// will. Of those that browsers are not sent to, nothing is to be found out.
    pub fn report(&mut self, key: &PublicKey, path: &str) -> bool {
        if !self.of(key).any(|entry| entry.health.is_healthy()) {
            return false;
        }
        let is_known = self.evidence.reported.contains_key(key);
        if !is_known && self.evidence.reported.len() >= MAX_REPORTED {
            return false;
        }
        let waits = self.next_moment();
        let reported = self.evidence.reported.entry(*key).or_insert(Reported {
            paths: VecDeque::new(),
            looks: 0,
            made: 0,
            waits,
        });
        reported.note_path(path);
        reported.looks = reported.looks.max(LOOKS_PER_REPORT);
        true
    }

    /// Those to look at in this turn because they were reported: who has waited the longest first.
    /// Nobody knows through which of its addresses the clients came, so all that are healthy are
    /// looked at.
    pub fn suspects(&mut self) -> Vec<Suspect> {
        let reported = &self.evidence.reported;
        let mut queue: Vec<(u64, PublicKey, Vec<Member>)> = reported
            .iter()
            .filter(|(_, reported)| reported.looks > 0)
            .map(|(key, reported)| {
                let entries = self.of(key).filter(|entry| entry.health.is_healthy());
                let members = entries.map(|entry| entry.member).collect();
                (reported.waits, *key, members)
            })
            .filter(|(_, _, members): &(_, _, Vec<Member>)| !members.is_empty())
            .collect();
        queue.sort_unstable_by_key(|(waits, key, _)| (*waits, *key));
        let stays: BTreeSet<PublicKey> = queue.iter().map(|(_, key, _)| *key).collect();
        let reported = &mut self.evidence.reported;
        reported.retain(|key, _| stays.contains(key));
        let mut suspects = Vec::new();
        for (_, key, members) in queue {
            if suspects.len() + members.len() > LOOKS_REPORTED {
                break;
            }
            let waits = self.next_moment();
            if let Some(reported) = self.evidence.reported.get_mut(&key) {
                reported.waits = waits;
                let path = reported.next_path();
                suspects.extend(members.into_iter().map(|member| Suspect {
                    member,
                    path: path.clone(),
                }));
            }
        }
        suspects
    }

    /// Takes in that a look's own TLS has refused a record that came through a member, for which it
    /// had fetched this path. Nothing if there is no such member, or it is out already.
    ///
    /// It counts for all addresses of the volunteer.
    pub fn note_altered(&mut self, member: &Member, path: &str, wall: UnixTime) -> Option<Ruling> {
        let key = member.key;
        let addresses: Vec<Member> = self
            .of(&key)
            .map(|entry| entry.member)
            .filter(|member| !self.evidence.is_barred(member))
            .collect();
        if !addresses.iter().any(|own| own.address == member.address) {
            return None;
        }
        let networks: BTreeSet<Network> = addresses
            .iter()
            .map(|member| Network::narrow(member.address))
            .collect();
        let proofs = networks
            .iter()
            .map(|network| self.evidence.prove(*network, wall));
        if proofs.fold(0, u32::max) < PROOFS {
            // What it changed before, it may change again.
            if self.report(&key, path)
                && let Some(reported) = self.evidence.reported.get_mut(&key)
            {
                reported.paths = VecDeque::from([path.to_owned()]);
                reported.looks = LOOKS_PER_PROOF;
            }
            self.note(member, Outcome::Bad);
            return Some(Ruling::Noted);
        }
        let terms = networks
            .iter()
            .map(|network| self.evidence.bar(*network, wall));
        let term = terms.fold(0, u64::max);
        let moment = self.next_moment();
        let is_there =
            |entry: &&mut Entry| networks.contains(&Network::narrow(entry.member.address));
        let mut was_listed = false;
        for entry in self.members.values_mut().filter(is_there) {
            self.evidence.reported.remove(&entry.member.key);
            if entry.health.fail() {
                entry.since = moment;
                was_listed = true;
            }
        }
        self.version += u64::from(was_listed);
        Some(Ruling::Barred(term))
    }

    /// Whether a member is out because of what it changed.
    #[must_use]
    pub fn is_barred(&self, member: &Member) -> bool {
        self.evidence.is_barred(member)
    }
}
