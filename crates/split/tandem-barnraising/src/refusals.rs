//! Through which volunteers clients refuse what they get: counts by key, as the origin sees them,
//! and when the broker should look.
//!
//! Is not: evidence. A client can say that it refuses what it got well, so nobody loses anything by
//! what is counted here; what follows is a look of the broker's own ([`crate::roster`]).
//!
//! Invariants: at most [`MAX_LABELS`] keys are told apart, [`MAX_LABELS_WIDE`] of a /16 or /48, and
//! only those with refusals; all others are one; no count ever falls, but that a key which is told
//! apart no more begins anew when it comes back. Reports do not depend on that: any of
//! `MAX_ACCUSED` keys is reported, no more often than [`REPORT_EVERY`].

use std::collections::BTreeMap;
use std::time::Duration;

use tandem_wire::Instant;

use crate::member::PublicKey;
use crate::work::Asker;
use tandem_wire::Network;

/// Keys that are told apart: as many as a person can look through.
pub const MAX_LABELS: usize = 32;
/// Those of a /16 or /48: eight such networks fill all.
pub const MAX_LABELS_WIDE: usize = MAX_LABELS / 8;
/// So many refusals, since the last report, make one.
pub const REPORT_AFTER: u32 = 3;
/// Time between two reports of one volunteer.
pub const REPORT_EVERY: Duration = Duration::from_secs(60);

/// Keys whose refusals are counted for reports. Where there are more, those go whose last refusal
/// is the oldest: a volunteer has to spend as many connections on its own to be forgotten.
const MAX_ACCUSED: usize = 4096;
/// Who has had no refusal for so long makes room for another.
const IDLE: Duration = Duration::from_secs(600);

/// What happens on the connection of one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It begins.
    Connection,
    /// The client says, by an alert that it has authenticated, that a record is bad.
    Refused,
    /// A record came that no client has sealed.
    Forged,
    /// The client does not trust the certificate. It says so before it has keys, so that anybody on
    /// the way can say it in its name: it makes no report.
    Distrusted,
}

/// How often each happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// See [`Event::Connection`]; from the volunteer's first refusal on.
    pub connections: u64,
    /// See [`Event::Refused`].
    pub refused: u64,
    /// See [`Event::Forged`].
    pub forged: u64,
    /// See [`Event::Distrusted`].
    pub distrusted: u64,
}

/// See above.
#[derive(Debug, Default)]
pub struct Refusals {
    volunteers: BTreeMap<PublicKey, Volunteer>,
    others: Counts,
    accused: BTreeMap<PublicKey, Accused>,
}

#[derive(Debug)]
struct Volunteer {
    wide: Network,
    counts: Counts,
    /// When something was last refused.
    last: Instant,
}

/// What there is to report of a volunteer.
#[derive(Debug)]
struct Accused {
    /// Since its first refusal.
    counts: Counts,
    last: Instant,
    /// What was refused since the last report.
    unreported: u32,
    reported: Option<Instant>,
}

impl Counts {
    fn add(&mut self, event: Event) {
        match event {
            Event::Connection => self.connections += 1,
            Event::Refused => self.refused += 1,
            Event::Forged => self.forged += 1,
            Event::Distrusted => self.distrusted += 1,
        }
    }

    fn add_all(&mut self, other: Self) {
        self.connections += other.connections;
        self.refused += other.refused;
        self.forged += other.forged;
        self.distrusted += other.distrusted;
    }
}

impl Refusals {
    /// Notes what happened through a volunteer. Its counts, if it is to be reported now.
    pub fn note(&mut self, asker: Asker, event: Event, now: Instant) -> Option<Counts> {
        let is_refusal = match event {
            Event::Connection => false,
            Event::Refused | Event::Forged | Event::Distrusted => true,
        };
        if is_refusal {
            self.enter(asker, now);
        }
        match self.volunteers.get_mut(&asker.key) {
            Some(volunteer) => {
                volunteer.counts.add(event);
                if is_refusal {
                    volunteer.last = now;
                }
            }
            None => self.others.add(event),
        }
        self.accuse(asker.key, event, now)
    }

    fn accuse(&mut self, key: PublicKey, event: Event, now: Instant) -> Option<Counts> {
        match event {
            Event::Connection | Event::Distrusted => {
                self.accused.get_mut(&key)?.counts.add(event);
                return None;
            }
            Event::Refused | Event::Forged => {}
        }
        if !self.accused.contains_key(&key) && self.accused.len() >= MAX_ACCUSED {
            let oldest = self.accused.iter().min_by_key(|(_, other)| other.last);
            let oldest = oldest.map(|(key, _)| *key);
            oldest.and_then(|key| self.accused.remove(&key));
        }
        let accused = self.accused.entry(key).or_insert(Accused {
            counts: Counts::default(),
            last: now,
            unreported: 0,
            reported: None,
        });
        accused.counts.add(event);
        accused.last = now;
        accused.unreported = accused.unreported.saturating_add(1);
        let is_early = accused
            .reported
            .is_some_and(|reported| now.saturating_since(reported) < REPORT_EVERY);
        if is_early || accused.unreported < REPORT_AFTER {
            return None;
        }
        accused.unreported = 0;
        accused.reported = Some(now);
        Some(accused.counts)
    }

    /// Those that are told apart, by key.
    pub fn volunteers(&self) -> impl Iterator<Item = (PublicKey, Counts)> {
        self.volunteers
            .iter()
            .map(|(key, volunteer)| (*key, volunteer.counts))
    }

    /// All others together.
    #[must_use]
    pub fn others(&self) -> Counts {
        self.others
    }

    /// Tells this one apart from now on, if there is room.
    fn enter(&mut self, asker: Asker, now: Instant) {
        if self.volunteers.contains_key(&asker.key) {
            return;
        }
        let wide = Network::wide(asker.from);
        let neighbours = self.volunteers.values().filter(|other| other.wide == wide);
        let is_crowded = neighbours.count() >= MAX_LABELS_WIDE;
        if is_crowded || self.volunteers.len() >= MAX_LABELS {
            let goes = self
                .volunteers
                .iter()
                .filter(|(_, other)| !is_crowded || other.wide == wide)
                .filter(|(_, other)| now.saturating_since(other.last) >= IDLE)
                .min_by_key(|(_, other)| other.last)
                .map(|(key, _)| *key);
            let Some(gone) = goes.and_then(|key| self.volunteers.remove(&key)) else {
                return;
            };
            self.others.add_all(gone.counts);
        }
        let volunteer = Volunteer {
            wide,
            counts: Counts::default(),
            last: now,
        };
        self.volunteers.insert(asker.key, volunteer);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn asker(wide: u8, number: u8) -> Asker {
        Asker {
            key: PublicKey([number; 32]),
            from: IpAddr::from([10, wide, 0, number]),
        }
    }

    #[test]
    fn three_refusals_make_a_report_and_no_more_than_one_a_minute() {
        let mut refusals = Refusals::default();
        let mut reports = Vec::new();
        for second in 0..130 {
            refusals.note(asker(1, 1), Event::Connection, at(second));
            if let Some(counts) = refusals.note(asker(1, 1), Event::Refused, at(second)) {
                reports.push((second, counts.refused));
            }
        }
        assert_eq!(reports, [(2, 3), (62, 63), (122, 123)]);
    }

    #[test]
    fn the_set_of_keys_is_bounded_by_network_too_and_no_count_is_lost() {
        let mut refusals = Refusals::default();
        for wide in 0..20 {
            for number in 0..10 {
                let asker = asker(wide, 10 * wide + number);
                refusals.note(asker, Event::Connection, at(1));
                refusals.note(asker, Event::Refused, at(1));
                refusals.note(asker, Event::Connection, at(1));
            }
        }
        assert_eq!(refusals.volunteers().count(), MAX_LABELS);
        let sum = |count: fn(Counts) -> u64| -> u64 {
            let apart = refusals.volunteers().map(|(_, counts)| count(counts));
            apart.sum::<u64>() + count(refusals.others())
        };
        assert_eq!(sum(|counts| counts.refused), 200);
        assert_eq!(sum(|counts| counts.connections), 400);
        let of_first = |(key, _): &(PublicKey, Counts)| key.0[0] < 10;
        assert_eq!(
            refusals.volunteers().filter(of_first).count(),
            MAX_LABELS_WIDE
        );
    }

    #[test]
    fn who_has_had_no_refusal_for_long_makes_room_and_its_counts_stay_among_the_others() {
        let mut refusals = Refusals::default();
        for number in 1..=4 {
            refusals.note(asker(1, number), Event::Refused, at(number.into()));
        }
        refusals.note(asker(1, 5), Event::Refused, at(600));
        assert_eq!(refusals.volunteers().count(), 4);
        assert_eq!(refusals.others().refused, 1, "nobody is idle yet");
        refusals.note(asker(1, 5), Event::Refused, at(601));
        let keys: Vec<u8> = refusals.volunteers().map(|(key, _)| key.0[0]).collect();
        assert_eq!(keys, [2, 3, 4, 5]);
        assert_eq!(refusals.others().refused, 2);
    }

    #[test]
    fn a_volunteer_is_reported_whoever_holds_the_labels() {
        let mut refusals = Refusals::default();
        for number in 1..=4 {
            refusals.note(asker(1, number), Event::Refused, at(1));
        }
        let bad = asker(1, 9);
        let reports: Vec<Counts> = (2..5)
            .filter_map(|second| refusals.note(bad, Event::Refused, at(second)))
            .collect();
        assert_eq!(reports.len(), 1);
        assert_eq!(reports[0].refused, 3);
        assert!(refusals.volunteers().all(|(key, _)| key != bad.key));
    }

    #[test]
    fn of_many_that_are_accused_those_are_forgotten_that_were_not_lately() {
        let mut refusals = Refusals::default();
        let steady = asker(1, 1);
        let mut reports = 0;
        for number in 0..8_000_u32 {
            let mut key = [7; 32];
            key[..4].copy_from_slice(&number.to_be_bytes());
            let key = PublicKey(key);
            let now = at((number / 40).into());
            refusals.note(Asker { key, ..steady }, Event::Refused, now);
            if number % 1000 == 0 {
                let report = refusals.note(steady, Event::Refused, now);
                reports += usize::from(report.is_some());
            }
        }
        assert!(refusals.accused.len() <= MAX_ACCUSED);
        assert!(reports >= 2, "{reports}");
    }

    #[test]
    fn what_nobody_has_authenticated_makes_no_report() {
        let mut refusals = Refusals::default();
        for second in 0..100 {
            let report = refusals.note(asker(1, 1), Event::Distrusted, at(second));
            assert_eq!(report, None);
        }
        let counts: Vec<u64> = refusals
            .volunteers()
            .map(|(_, counts)| counts.distrusted)
            .collect();
        assert_eq!(counts, [100], "it is counted");
    }

    #[test]
    fn a_volunteer_without_refusals_is_not_told_apart() {
        let mut refusals = Refusals::default();
        assert_eq!(refusals.note(asker(1, 1), Event::Connection, at(1)), None);
        assert_eq!(refusals.volunteers().count(), 0);
        assert_eq!(refusals.others().connections, 1);
    }
}
