//! The breaker: where a device between the proxies does not let rewritten flights work, nothing is
//! rewritten on that path for a while.
//!
//! Is: what became of each rewritten flight, by path, and whether another may be written. Is not:
//! the failsafe of a single flow (`writer`); that one brings the originals, and a device that has
//! taken rewritten bytes into the stream breaks the connection all the same.
//!
//! ```text
//!              acknowledged                    2 unanswered, 1 lost, or timestamps replaced
//!   Untried ----------------> Works       any ----------------------------------------> Stopped
//!                                ^                                                        |
//!                                +--- the one flow that is tried after the wait works ----+
//! ```
//!
//! Flights that were under way together and are not answered count as one: an outage, or a far side
//! that is started again, leaves all of them unanswered, and no device is to blame. So two count
//! only where the second was written after the first was given up.
//!
//! Invariants: as long as a path has not shown that it works, or has failed to answer since, at
//! most [`MAX_AT_RISK`] connections are at risk on it; the table is bounded, and forgets a path
//! that works before one that is stopped.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use tandem_wire::Instant;

use crate::config::Role;
use crate::output::{Event, GiveUp, Meddling};
use crate::table::FlowKey;

/// Connections of one path that may be lost before nothing is rewritten on it.
const MAX_AT_RISK: usize = 2;

/// How long nothing is rewritten at first. Each further try that fails doubles it.
const FIRST_WAIT: Duration = Duration::from_secs(600);

/// The longest wait: at most one connection a day is tried in vain.
const MAX_WAIT: Duration = Duration::from_secs(24 * 3_600);

/// Most paths that are kept. One takes about 100 bytes.
const MAX_PATHS: usize = 4_096;

/// The part of the network that flights go to and come from, as far as this proxy can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Path {
    /// At the clients' side: the link, whichever server lies beyond it.
    Link,
    /// At the servers' side: the clients of one /24 (IPv4).
    V4([u8; 3]),
    /// Of one /48 (IPv6): what a site has.
    V6([u8; 6]),
}

/// What is known of a path.
#[derive(Debug)]
struct State {
    health: Health,
    /// Flights whose fate is open.
    under_way: usize,
    /// Flights in a row that were neither rebuilt nor missed, those under way together as one.
    unanswered: usize,
    /// When the last of these was given up.
    last_unanswered: Option<Instant>,
    /// The next time for which nothing is rewritten.
    wait: Duration,
    changed: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Untried,
    Works,
    Stopped { until: Instant },
}

/// What became of a flow's flight so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trial {
    /// It is under way; or, on a path that is tried again, the far side was asked for one.
    UnderWay,
    /// It was sent twice.
    Repeated,
    /// Its originals were sent, for nobody answered.
    Unanswered,
}

/// What is known of all paths.
#[derive(Debug)]
pub(crate) struct Breaker {
    role: Role,
    paths: BTreeMap<Path, State>,
    trials: BTreeMap<FlowKey, Flight>,
}

/// A flow's flight.
#[derive(Debug, Clone, Copy)]
struct Flight {
    trial: Trial,
    written: Instant,
}

impl Breaker {
    pub(crate) fn new(role: Role) -> Self {
        Self {
            role,
            paths: BTreeMap::new(),
            trials: BTreeMap::new(),
        }
    }

    /// Whether a flight of this flow may be written, or asked for, at `now`.
    pub(crate) fn allows(&self, key: FlowKey, now: Instant) -> bool {
        let Some(state) = self.paths.get(&self.path(key)) else {
            return true;
        };
        match state.health {
            Health::Stopped { until } => until <= now && state.under_way == 0,
            Health::Works if state.unanswered == 0 => true,
            Health::Works | Health::Untried => state.under_way + state.unanswered < MAX_AT_RISK,
        }
    }

    /// How many paths are stopped, or were and have not worked since.
    pub(crate) fn stopped(&self) -> usize {
        let is_stopped = |state: &&State| matches!(state.health, Health::Stopped { .. });
        self.paths.values().filter(is_stopped).count()
    }

    /// Takes note of what happened in a flow. Hands back what that means for its path, if it is
    /// news.
    pub(crate) fn note(&mut self, key: FlowKey, event: Event, now: Instant) -> Option<Event> {
        match event {
            Event::FlightWritten { .. } => self.begin(key, now),
            Event::HintSent if self.is_stopped(key) => self.begin(key, now),
            Event::FlightRepeated => {
                self.trials.get_mut(&key)?.trial = Trial::Repeated;
            }
            Event::FlightAcknowledged | Event::MissReceived | Event::FlightRebuilt { .. } => {
                return self.works(key, now);
            }
            // The endpoint itself discards it: nothing is in the way, and nobody rebuilds.
            Event::FlightRefused => {
                self.settle(key);
            }
            Event::OriginalsSent(_) => return self.unanswered(key, now),
            Event::TimestampsReplaced => {
                self.settle(key);
                return self.stop(key, Meddling::ReplacesTimestamps, now);
            }
            Event::HandshakeFinished => {
                self.settle(key);
            }
            Event::GivenUp(why) => return self.ended(key, why, now),
            _ => {}
        }
        None
    }

    fn path(&self, key: FlowKey) -> Path {
        match (self.role, key.client.ip().to_canonical()) {
            (Role::ClientSide, _) => Path::Link,
            (Role::ServerSide, IpAddr::V4(address)) => {
                let [a, b, c, _] = address.octets();
                Path::V4([a, b, c])
            }
            (Role::ServerSide, IpAddr::V6(address)) => {
                let [a, b, c, d, e, f, ..] = address.octets();
                Path::V6([a, b, c, d, e, f])
            }
        }
    }

    fn is_stopped(&self, key: FlowKey) -> bool {
        let state = self.paths.get(&self.path(key));
        state.is_some_and(|state| matches!(state.health, Health::Stopped { .. }))
    }

    fn state(&mut self, key: FlowKey, now: Instant) -> &mut State {
        let path = self.path(key);
        if self.paths.len() >= MAX_PATHS && !self.paths.contains_key(&path) {
            let oldest = |(_, state): &(&Path, &State)| {
                let is_stopped = matches!(state.health, Health::Stopped { .. });
                (is_stopped, state.changed)
            };
            if let Some((path, _)) = self.paths.iter().min_by_key(oldest) {
                let path = *path;
                self.paths.remove(&path);
            }
        }
        let state = self.paths.entry(path).or_insert(State {
            health: Health::Untried,
            under_way: 0,
            unanswered: 0,
            last_unanswered: None,
            wait: FIRST_WAIT,
            changed: now,
        });
        state.changed = now;
        state
    }

    fn begin(&mut self, key: FlowKey, now: Instant) {
        let flight = Flight {
            trial: Trial::UnderWay,
            written: now,
        };
        if self
            .trials
            .insert(key, flight)
            .is_none_or(|old| old.trial == Trial::Unanswered)
        {
            self.state(key, now).under_way += 1;
        }
    }

    /// The fate of the flow's flight is known, or no longer of interest; hands back what was last
    /// known of it.
    fn settle(&mut self, key: FlowKey) -> Option<Trial> {
        let trial = self.trials.remove(&key)?.trial;
        self.release(key, trial);
        Some(trial)
    }

    fn release(&mut self, key: FlowKey, trial: Trial) {
        let path = self.path(key);
        if let Some(state) = self.paths.get_mut(&path) {
            match trial {
                Trial::UnderWay | Trial::Repeated => {
                    state.under_way = state.under_way.saturating_sub(1);
                }
                Trial::Unanswered => {}
            }
        }
    }

    fn works(&mut self, key: FlowKey, now: Instant) -> Option<Event> {
        match self.settle(key)? {
            Trial::UnderWay | Trial::Repeated => {}
            Trial::Unanswered => return None,
        }
        let state = self.state(key, now);
        match state.health {
            // A late answer to what went out before.
            Health::Stopped { until } if until > now => return None,
            Health::Stopped { .. } | Health::Untried | Health::Works => {}
        }
        state.unanswered = 0;
        state.last_unanswered = None;
        state.wait = FIRST_WAIT;
        match std::mem::replace(&mut state.health, Health::Works) {
            Health::Stopped { .. } => Some(Event::PathResumed),
            Health::Untried | Health::Works => None,
        }
    }

    fn unanswered(&mut self, key: FlowKey, now: Instant) -> Option<Event> {
        let flight = self.trials.get_mut(&key)?;
        let written = flight.written;
        let old = std::mem::replace(&mut flight.trial, Trial::Unanswered);
        match old {
            Trial::UnderWay | Trial::Repeated => self.release(key, old),
            Trial::Unanswered => return None,
        }
        let state = self.state(key, now);
        if state.last_unanswered.is_some_and(|last| written < last) {
            return None;
        }
        state.last_unanswered = Some(now);
        state.unanswered += 1;
        let is_tried_again = matches!(state.health, Health::Stopped { .. });
        if is_tried_again || state.unanswered >= MAX_AT_RISK {
            return self.stop(key, Meddling::Withholds, now);
        }
        None
    }

    /// The flow is given up. Where its flight was not answered, that is how a connection ends whose
    /// endpoints had to refuse what they got.
    fn ended(&mut self, key: FlowKey, why: GiveUp, now: Instant) -> Option<Event> {
        // The failsafe's own: the flow goes on.
        if why == GiveUp::Failsafe {
            return None;
        }
        match self.settle(key)? {
            Trial::UnderWay => None,
            Trial::Repeated | Trial::Unanswered => match why {
                GiveUp::Closed | GiveUp::Limits | GiveUp::Conflict | GiveUp::Handshake(_) => {
                    self.stop(key, Meddling::TakesBytes, now)
                }
                GiveUp::NoTimestamps
                | GiveUp::ForeignSyn
                | GiveUp::NoAnswer
                | GiveUp::NoCommonVersion
                | GiveUp::NothingToGain
                | GiveUp::TooLong
                | GiveUp::Urgent
                | GiveUp::Failsafe
                | GiveUp::NotFromStart => None,
            },
        }
    }

    fn stop(&mut self, key: FlowKey, why: Meddling, now: Instant) -> Option<Event> {
        let state = self.state(key, now);
        state.unanswered = 0;
        match state.health {
            // What went out before says nothing new.
            Health::Stopped { until } if until > now => return None,
            Health::Stopped { .. } | Health::Untried | Health::Works => {}
        }
        state.health = Health::Stopped {
            until: now + state.wait,
        };
        state.wait = (state.wait * 2).min(MAX_WAIT);
        Some(Event::PathStopped(why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use tandem_engine::Pass;

    const WRITTEN: Event = Event::FlightWritten {
        original: 9,
        sent: 1,
    };
    const CLOSED: Event = Event::GivenUp(GiveUp::Closed);

    fn flow(client: [u8; 4], port: u16) -> FlowKey {
        FlowKey {
            client: SocketAddr::from((client, port)),
            server: SocketAddr::from(([10, 0, 0, 2], 443)),
        }
    }

    fn one(port: u16) -> FlowKey {
        flow([192, 0, 2, 7], port)
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_micros(seconds * 1_000_000)
    }

    fn servers() -> Breaker {
        Breaker::new(Role::ServerSide)
    }

    /// A flight that is not answered, in a connection that is lost.
    fn lose(breaker: &mut Breaker, port: u16, now: Instant) -> Vec<Event> {
        lose_flow(breaker, one(port), now)
    }

    fn lose_flow(breaker: &mut Breaker, key: FlowKey, now: Instant) -> Vec<Event> {
        let events = [
            WRITTEN,
            Event::FlightRepeated,
            Event::OriginalsSent(9),
            Event::GivenUp(GiveUp::Failsafe),
            CLOSED,
        ];
        let noted = events.map(|event| breaker.note(key, event, now));
        noted.into_iter().flatten().collect()
    }

    #[test]
    fn at_most_two_are_at_risk_until_one_was_answered() {
        let mut breaker = servers();
        for port in [1, 2] {
            assert!(breaker.allows(one(port), at(0)));
            breaker.note(one(port), WRITTEN, at(0));
        }
        assert!(!breaker.allows(one(3), at(0)));
        assert!(
            breaker.allows(flow([192, 0, 3, 7], 3), at(0)),
            "another path"
        );
        assert_eq!(breaker.note(one(1), Event::FlightAcknowledged, at(1)), None);
        for port in 4..100 {
            assert!(breaker.allows(one(port), at(1)));
            breaker.note(one(port), WRITTEN, at(1));
        }
        // One that is not answered makes it careful again, with what is under way at risk already.
        breaker.note(one(4), Event::OriginalsSent(9), at(2));
        assert!(!breaker.allows(one(100), at(2)));
    }

    #[test]
    fn a_lost_connection_stops_the_path_for_ten_minutes() {
        let mut breaker = servers();
        let stopped = Event::PathStopped(Meddling::TakesBytes);
        assert_eq!(lose(&mut breaker, 1, at(0)), [stopped]);
        assert_eq!(breaker.stopped(), 1);
        assert!(!breaker.allows(one(2), at(599)));
        assert!(breaker.allows(one(2), at(600)));
    }

    #[test]
    fn two_unanswered_in_a_row_stop_it_and_one_answered_between_them_does_not() {
        let unanswered = |breaker: &mut Breaker, port| {
            breaker.note(one(port), WRITTEN, at(0));
            let event = breaker.note(one(port), Event::OriginalsSent(9), at(0));
            assert_eq!(
                breaker.note(one(port), Event::HandshakeFinished, at(0)),
                None
            );
            event
        };
        let mut breaker = servers();
        assert_eq!(unanswered(&mut breaker, 1), None);
        breaker.note(one(2), WRITTEN, at(0));
        breaker.note(one(2), Event::FlightAcknowledged, at(0));
        assert_eq!(unanswered(&mut breaker, 3), None);
        let stopped = Event::PathStopped(Meddling::Withholds);
        assert_eq!(unanswered(&mut breaker, 4), Some(stopped));
        assert!(!breaker.allows(one(5), at(0)));
    }

    #[test]
    fn flights_that_an_outage_leaves_unanswered_together_count_as_one() {
        let mut breaker = servers();
        breaker.note(one(0), WRITTEN, at(0));
        breaker.note(one(0), Event::FlightAcknowledged, at(1));
        for port in 1..10 {
            breaker.note(one(port), WRITTEN, at(2));
        }
        for port in 1..10 {
            let given_up = at(10 + u64::from(port));
            assert_eq!(
                breaker.note(one(port), Event::OriginalsSent(9), given_up),
                None
            );
        }
        assert!(breaker.allows(one(10), at(20)), "one is tried");
        breaker.note(one(10), WRITTEN, at(20));
        assert!(!breaker.allows(one(11), at(20)), "and no other beside it");
        let stopped = Event::PathStopped(Meddling::Withholds);
        let event = breaker.note(one(10), Event::OriginalsSent(9), at(21));
        assert_eq!(event, Some(stopped));
    }

    #[test]
    fn the_clients_of_a_24_or_a_48_have_one_path() {
        let client = |address: &str| FlowKey {
            client: SocketAddr::new(address.parse().expect("an address"), 1),
            ..one(1)
        };
        for (lost, same, other) in [
            ("192.0.2.7", "192.0.2.99", "192.0.3.7"),
            ("192.0.2.7", "::ffff:192.0.2.8", "::ffff:192.0.3.7"),
            ("2001:db8:1:2::3", "2001:db8:1:9::4", "2001:db8:2:2::3"),
        ] {
            let mut breaker = servers();
            assert_eq!(lose_flow(&mut breaker, client(lost), at(0)).len(), 1);
            assert!(!breaker.allows(client(same), at(1)), "{same}");
            assert!(breaker.allows(client(other), at(1)), "{other}");
        }
    }

    #[test]
    fn what_ends_well_or_is_written_twice_is_at_risk_no_more_than_once() {
        let mut breaker = servers();
        for port in 0..9 {
            breaker.note(one(port), WRITTEN, at(0));
            breaker.note(one(port), WRITTEN, at(0));
            assert!(breaker.allows(one(10), at(0)), "one is under way");
            breaker.note(one(port), Event::HandshakeFinished, at(1));
        }
        assert!(breaker.trials.is_empty());
        breaker.note(one(1), WRITTEN, at(1));
        breaker.note(one(1), Event::OriginalsSent(9), at(2));
        breaker.note(one(2), WRITTEN, at(3));
        breaker.note(one(1), Event::HandshakeFinished, at(4));
        assert!(!breaker.allows(one(3), at(4)), "that one was lost before");
    }

    #[test]
    fn an_answer_after_the_originals_is_not_one_to_what_was_written() {
        let mut breaker = servers();
        breaker.note(one(1), WRITTEN, at(0));
        breaker.note(one(1), Event::OriginalsSent(9), at(1));
        let late = breaker.note(one(1), Event::FlightAcknowledged, at(2));
        assert_eq!(late, None);
        breaker.note(one(2), WRITTEN, at(3));
        let second = breaker.note(one(2), Event::OriginalsSent(9), at(4));
        assert_eq!(second, Some(Event::PathStopped(Meddling::Withholds)));
    }

    #[test]
    fn an_answer_to_what_went_out_before_the_stop_does_not_end_it() {
        let mut breaker = servers();
        breaker.note(one(2), WRITTEN, at(0));
        assert_eq!(lose(&mut breaker, 1, at(1)).len(), 1);
        let answered = breaker.note(one(2), Event::FlightAcknowledged, at(2));
        assert_eq!((answered, breaker.stopped()), (None, 1));
        // The one that is tried after the wait stops it again by itself.
        breaker.note(one(3), WRITTEN, at(601));
        let again = breaker.note(one(3), Event::OriginalsSent(9), at(602));
        assert_eq!(again, Some(Event::PathStopped(Meddling::Withholds)));
    }

    #[test]
    fn one_answered_parts_those_that_were_under_way_together() {
        let mut breaker = servers();
        for port in [1, 2, 3] {
            breaker.note(one(port), WRITTEN, at(0));
        }
        breaker.note(one(1), Event::OriginalsSent(9), at(1));
        breaker.note(one(2), Event::FlightAcknowledged, at(2));
        breaker.note(one(3), Event::OriginalsSent(9), at(3));
        breaker.note(one(4), WRITTEN, at(4));
        assert!(!breaker.allows(one(5), at(4)), "the third counts again");
    }

    #[test]
    fn how_a_flow_with_an_unanswered_flight_ends_says_whether_it_was_lost() {
        let malformed = GiveUp::Handshake(Pass::Malformed);
        for (why, is_lost) in [
            (GiveUp::Closed, true),
            (GiveUp::Limits, true),
            (GiveUp::Conflict, true),
            (malformed, true),
            (GiveUp::TooLong, false),
            (GiveUp::Urgent, false),
        ] {
            let mut breaker = servers();
            breaker.note(one(1), WRITTEN, at(0));
            breaker.note(one(1), Event::FlightRepeated, at(1));
            let ended = breaker.note(one(1), Event::GivenUp(why), at(2));
            let lost = Event::PathStopped(Meddling::TakesBytes);
            assert_eq!(ended, is_lost.then_some(lost), "{why:?}");
        }
    }

    #[test]
    fn a_flight_that_was_missed_or_refused_is_no_sign_of_a_device() {
        let mut breaker = servers();
        for (port, event) in (0..10).zip([Event::MissReceived, Event::FlightRefused].iter().cycle())
        {
            breaker.note(one(port), WRITTEN, at(0));
            breaker.note(one(port), *event, at(0));
            assert_eq!(
                breaker.note(one(port), Event::OriginalsSent(9), at(0)),
                None
            );
            assert_eq!(breaker.note(one(port), CLOSED, at(0)), None);
        }
        assert!(breaker.allows(one(11), at(0)));
        assert!(breaker.trials.is_empty());
    }

    #[test]
    fn after_the_wait_one_is_tried_and_each_failure_doubles_the_wait_to_a_day() {
        let mut breaker = servers();
        let (mut now, mut wait) = (0, 600);
        let mut waits = Vec::new();
        for port in (0..40).step_by(2) {
            assert_eq!(lose(&mut breaker, port, at(now)).len(), 1);
            assert!(!breaker.allows(one(99), at(now + wait - 1)));
            now += wait;
            assert!(breaker.allows(one(99), at(now)));
            breaker.note(one(port + 1), WRITTEN, at(now));
            assert!(!breaker.allows(one(99), at(now)), "one at a time");
            // Closed before anything is known: it says nothing, and another is tried.
            breaker.note(one(port + 1), CLOSED, at(now));
            waits.push(wait);
            wait = (wait * 2).min(86_400);
        }
        assert_eq!(waits[..4], [600, 1_200, 2_400, 4_800]);
        breaker.note(one(98), WRITTEN, at(now));
        let resumed = breaker.note(one(98), Event::FlightAcknowledged, at(now));
        assert_eq!((resumed, breaker.stopped()), (Some(Event::PathResumed), 0));
        assert_eq!(lose(&mut breaker, 97, at(now)).len(), 1);
        assert!(breaker.allows(one(96), at(now + 600)), "as at first");
    }

    #[test]
    fn what_went_out_before_the_stop_changes_nothing_after_it() {
        let mut breaker = servers();
        for port in [1, 2] {
            breaker.note(one(port), WRITTEN, at(0));
            breaker.note(one(port), Event::FlightRepeated, at(1));
        }
        let first = breaker.note(one(1), CLOSED, at(2));
        assert_eq!(first, Some(Event::PathStopped(Meddling::TakesBytes)));
        assert_eq!(breaker.note(one(2), CLOSED, at(3)), None);
        assert!(breaker.allows(one(3), at(602)) && breaker.trials.is_empty());
    }

    #[test]
    fn at_the_clients_side_replaced_timestamps_stop_the_link_until_a_flight_comes_as_it_was_sent() {
        let mut breaker = Breaker::new(Role::ClientSide);
        let stopped = Some(Event::PathStopped(Meddling::ReplacesTimestamps));
        let seen = |breaker: &mut Breaker, port, now| {
            breaker.note(one(port), Event::HintSent, at(now));
            let seen = breaker.note(one(port), Event::TimestampsReplaced, at(now));
            assert_eq!(
                breaker.note(
                    one(port),
                    Event::FlightRebuilt {
                        bytes: 9,
                        received: 1
                    },
                    at(now)
                ),
                None
            );
            seen
        };
        assert_eq!(seen(&mut breaker, 1, 0), stopped);
        assert!(!breaker.allows(flow([10, 9, 9, 9], 1), at(599)));
        assert_eq!(seen(&mut breaker, 2, 600), stopped);
        assert!(!breaker.allows(one(3), at(1_799)) && breaker.allows(one(3), at(1_800)));
        breaker.note(one(3), Event::HintSent, at(1_800));
        assert!(!breaker.allows(one(4), at(1_800)));
        let resumed = breaker.note(
            one(3),
            Event::FlightRebuilt {
                bytes: 9,
                received: 1,
            },
            at(1_800),
        );
        assert_eq!(resumed, Some(Event::PathResumed));
        assert!(breaker.allows(one(4), at(1_800)));
    }

    #[test]
    fn replaced_timestamps_end_the_trial_that_they_were_seen_in() {
        let mut breaker = Breaker::new(Role::ClientSide);
        for (port, now) in [(1, 0), (2, 600)] {
            breaker.note(one(port), Event::HintSent, at(now));
            breaker.note(one(port), Event::TimestampsReplaced, at(now));
        }
        assert!(breaker.trials.is_empty() && breaker.allows(one(3), at(1_800)));
    }

    #[test]
    fn a_hint_on_a_path_that_is_not_stopped_puts_nothing_at_risk() {
        let mut breaker = Breaker::new(Role::ClientSide);
        for port in 0..10 {
            breaker.note(one(port), Event::HintSent, at(0));
            assert!(breaker.allows(one(port + 1), at(0)));
        }
        assert!(breaker.paths.is_empty() && breaker.trials.is_empty());
    }

    #[test]
    fn the_table_is_bounded_and_what_is_stopped_is_forgotten_last() {
        let mut breaker = servers();
        lose(&mut breaker, 1, at(0));
        for number in 0..2 * MAX_PATHS as u32 {
            let [_, a, b, c] = number.to_be_bytes();
            let key = flow([11 + a, b, c, 1], 9);
            breaker.note(key, WRITTEN, at(1));
            breaker.note(key, Event::GivenUp(GiveUp::Handshake(Pass::Resumed)), at(1));
        }
        assert_eq!((breaker.paths.len(), breaker.stopped()), (4_096, 1));
        assert!(breaker.trials.is_empty() && !breaker.allows(one(2), at(2)));
        // Of those that work, the one whose last use is the longest ago.
        let client = |number| flow([10, 1, number, 1], 9);
        for (number, now) in [(1, 3), (2, 4), (1, 5)] {
            breaker.note(client(number), WRITTEN, at(now));
            breaker.note(client(number), Event::FlightAcknowledged, at(now));
        }
        for number in 0..MAX_PATHS as u32 - 2 {
            let [_, a, b, c] = number.to_be_bytes();
            let key = flow([11 + a, b, c, 2], 9);
            breaker.note(key, WRITTEN, at(6));
            breaker.note(key, Event::FlightAcknowledged, at(6));
        }
        let knows = |breaker: &Breaker, key| breaker.paths.contains_key(&breaker.path(key));
        assert!(knows(&breaker, client(1)) && !knows(&breaker, client(2)));
    }
}
