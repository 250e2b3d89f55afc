//! The numbers of a running daemon, shared between the event loop, which counts, and the admin
//! port, which reads.
//!
//! Is not: a decision, nor a copy of the packet engine's names: its events bring their own.
//!
//! Invariants: counting is one relaxed addition and never waits for a reader (the lock is taken
//! only when a name is met for the first time, and held by readers only while they copy); counters
//! only grow.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tandem_packet::{Event, Summary};
use tandem_status::{Activity, Flow, Mark, Report};
use tandem_wire::Instant;

use crate::config::{Config, Mode};

/// What the adapter itself counts. The packet engine's events come beside it, named `packet_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Tally {
    /// Packets out of the queue.
    QueuePackets,
    /// Times the netlink buffer overflowed.
    QueueOverflows,
    /// Packets that went on unseen because of that.
    QueuePassedBy,
    /// Packets that were longer than what is copied, and went on unseen.
    QueueCut,
    /// Verdicts that the kernel refused.
    QueueVerdictsRefused,
    /// Replacements that were too long for the queue; the packet went on as it was.
    QueueReplacementsTooLong,
    /// Packets let go because the engine owed their verdict for too long, or at the end.
    VerdictsOverdue,
    /// Verdicts on packets that had none to wait for.
    VerdictsUnknown,
    /// Packets injected.
    InjectedPackets,
    /// Bytes of them.
    InjectedBytes,
    /// Packets to inject that were longer than the MTU.
    InjectTooLong,
    /// Packets to inject that were refused for another reason.
    InjectRefused,
    /// Bytes that the link was spared, as the engine reckons.
    SavedBytes,
    /// Times the rules were set again after another program had taken them out of the firewall,
    /// counted for IPv4 and IPv6 each.
    RulesRestored,
}

impl Tally {
    /// All, for counters to be there from the start.
    const ALL: [Tally; 14] = [
        Tally::QueuePackets,
        Tally::QueueOverflows,
        Tally::QueuePassedBy,
        Tally::QueueCut,
        Tally::QueueVerdictsRefused,
        Tally::QueueReplacementsTooLong,
        Tally::VerdictsOverdue,
        Tally::VerdictsUnknown,
        Tally::InjectedPackets,
        Tally::InjectedBytes,
        Tally::InjectTooLong,
        Tally::InjectRefused,
        Tally::SavedBytes,
        Tally::RulesRestored,
    ];

    fn name(self) -> &'static str {
        match self {
            Tally::QueuePackets => "queue_packets",
            Tally::QueueOverflows => "queue_overflows",
            Tally::QueuePassedBy => "queue_passed_by_packets",
            Tally::QueueCut => "queue_cut_packets",
            Tally::QueueVerdictsRefused => "queue_verdicts_refused",
            Tally::QueueReplacementsTooLong => "queue_replacements_too_long",
            Tally::VerdictsOverdue => "verdicts_overdue",
            Tally::VerdictsUnknown => "verdicts_unknown",
            Tally::InjectedPackets => "injected_packets",
            Tally::InjectedBytes => "injected_bytes",
            Tally::InjectTooLong => "inject_too_long",
            Tally::InjectRefused => "inject_refused",
            Tally::SavedBytes => "packet_saved_bytes",
            Tally::RulesRestored => "rules_restored",
        }
    }
}

/// What does not change while a daemon runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) role: &'static str,
    pub(crate) link: String,
    pub(crate) mode: Mode,
    /// Why it is this mode; `None`: it was asked for.
    pub(crate) mode_reason: Option<&'static str>,
    pub(crate) queue: u16,
}

impl Facts {
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            role: crate::config::role_name(config.role),
            link: config.link.as_str().to_owned(),
            mode: config.mode,
            mode_reason: config.mode_reason,
            queue: config.queue,
        }
    }
}

/// What both sides share.
#[derive(Debug)]
pub(crate) struct Board {
    pub(crate) facts: Facts,
    pub(crate) started: std::time::Instant,
    counters: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    gauges: Mutex<BTreeMap<&'static str, Arc<AtomicU64>>>,
    activity: Mutex<Activity>,
}

/// Numbers at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) counters: BTreeMap<String, u64>,
    pub(crate) gauges: BTreeMap<String, u64>,
}

impl Board {
    pub(crate) fn new(facts: Facts) -> Arc<Self> {
        Arc::new(Self {
            facts,
            started: std::time::Instant::now(),
            counters: Mutex::default(),
            gauges: Mutex::default(),
            activity: Mutex::default(),
        })
    }

    /// Counts what is rare, from any thread.
    pub(crate) fn count(&self, tally: Tally, amount: u64) {
        lock(&self.counters)
            .entry(tally.name().to_owned())
            .or_default()
            .fetch_add(amount, Ordering::Relaxed);
    }

    /// What was saved, by site and by connection.
    pub(crate) fn activity(&self) -> Report {
        lock(&self.activity).report()
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            counters: lock(&self.counters)
                .iter()
                .map(|(name, value)| (name.clone(), value.load(Ordering::Relaxed)))
                .collect(),
            gauges: lock(&self.gauges)
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.load(Ordering::Relaxed)))
                .collect(),
        }
    }
}

/// The event loop's side.
#[derive(Debug)]
pub(crate) struct Counting {
    board: Arc<Board>,
    tallies: [Arc<AtomicU64>; Tally::ALL.len()],
    events: HashMap<&'static str, Arc<AtomicU64>>,
    gauges: HashMap<&'static str, Arc<AtomicU64>>,
}

impl Counting {
    pub(crate) fn on(board: &Arc<Board>) -> Self {
        let mut counters = lock(&board.counters);
        let tallies = Tally::ALL
            .map(|tally| Arc::clone(counters.entry(tally.name().to_owned()).or_default()));
        drop(counters);
        let mut counting = Self {
            board: Arc::clone(board),
            tallies,
            events: HashMap::new(),
            gauges: HashMap::new(),
        };
        // A counter that is not there cannot be told from one that has not counted yet.
        match board.facts.mode {
            Mode::Packet => Event::all()
                .iter()
                .for_each(|event| counting.event(event.name(), 0)),
            Mode::PassThrough => {}
        }
        counting
    }

    pub(crate) fn tally(&self, tally: Tally, amount: u64) {
        self.tallies[tally as usize].fetch_add(amount, Ordering::Relaxed);
    }

    /// Counts an event of the packet engine, whose name has no prefix.
    pub(crate) fn event(&mut self, name: &'static str, amount: u64) {
        let Self { board, events, .. } = self;
        events
            .entry(name)
            .or_insert_with(|| {
                let mut counters = lock(&board.counters);
                Arc::clone(counters.entry(format!("packet_{name}")).or_default())
            })
            .fetch_add(amount, Ordering::Relaxed);
    }

    /// A handshake was over at some time before `now`.
    pub(crate) fn flow(&self, summary: &Summary, now: Instant) {
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let wall = SystemTime::now() - now.saturating_since(summary.began);
        let marks = summary.marks.iter().map(|(name, at)| Mark {
            name: Cow::Borrowed(name),
            at_ms: millis(at.saturating_since(summary.began)),
        });
        lock(&self.board.activity).add(Flow {
            began_unix_ms: millis(wall.duration_since(UNIX_EPOCH).unwrap_or_default()),
            site: summary.site.to_string(),
            original_bytes: summary.original_bytes,
            crossed_bytes: summary.crossed_bytes,
            outcome: Cow::Borrowed(summary.outcome),
            marks: marks.collect(),
        });
    }

    pub(crate) fn gauge(&mut self, name: &'static str, value: u64) {
        let Self { board, gauges, .. } = self;
        gauges
            .entry(name)
            .or_insert_with(|| Arc::clone(lock(&board.gauges).entry(name).or_default()))
            .store(value, Ordering::Relaxed);
    }
}

/// A reader that panicked while it copied has changed nothing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_read_and_tallies_are_there_from_the_start() {
        let board = Board::new(Facts {
            role: "client-side",
            link: "tun0".into(),
            mode: Mode::Packet,
            mode_reason: None,
            queue: 1,
        });
        let mut counting = Counting::on(&board);
        for (index, tally) in Tally::ALL.into_iter().enumerate() {
            assert_eq!(tally as usize, index, "the order of ALL is the enum's");
        }
        assert_eq!(
            board.snapshot().counters.len(),
            Tally::ALL.len() + Event::all().len()
        );
        counting.tally(Tally::InjectedBytes, 3);
        counting.tally(Tally::InjectedBytes, 4);
        counting.event("flows_opened", 1);
        counting.event("flows_opened", 2);
        counting.gauge("flows", 9);
        counting.gauge("flows", 5);
        let snapshot = board.snapshot();
        assert_eq!(snapshot.counters["injected_bytes"], 7);
        assert_eq!(snapshot.counters["packet_flows_opened"], 3);
        assert_eq!(snapshot.gauges["flows"], 5);
    }
}
