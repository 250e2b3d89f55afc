//! What clients refuse, by volunteer: numbers with the volunteer's key as their label, a line in
//! the log, and reports for whoever tells the broker.
//!
//! Is not: a judgement (`tandem_barnraising::refusals`, and the broker's own looks).
//!
//! Invariant: a report names the volunteer on whose channel it happened, and nobody else.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant as SystemInstant;

use tandem_barnraising::refusals::{Counts, Event, Refusals};
use tandem_barnraising::talk::{MAX_PATH, Report};
use tandem_barnraising::work::Asker;
use tandem_daemon::metrics::Number;
use tandem_wire::Instant;
use tokio::sync::broadcast;

/// Reports that one who listens may be behind by, before he misses some.
const BEHIND: usize = 64;
/// What labels a count.
const LABEL: &str = "volunteer";

/// All volunteers.
#[derive(Clone, Debug)]
pub(super) struct Witnesses(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    start: SystemInstant,
    refusals: Mutex<Refusals>,
    reports: broadcast::Sender<Report>,
}

/// What happens on one client's channel.
#[derive(Debug)]
pub(super) struct Witness {
    all: Witnesses,
    asker: Asker,
    /// The path of what the client asked for last, by GET; empty if that cannot be said.
    path: String,
}

impl Witnesses {
    pub(super) fn new() -> Self {
        Self(Arc::new(Shared {
            start: SystemInstant::now(),
            refusals: Mutex::default(),
            reports: broadcast::Sender::new(BEHIND),
        }))
    }

    /// A client has come through this volunteer.
    pub(super) fn of(&self, asker: Asker) -> Witness {
        let witness = Witness {
            all: self.clone(),
            asker,
            path: String::new(),
        };
        witness.note(Event::Connection);
        witness
    }

    /// Volunteers that the broker should look at, from now on.
    pub(super) fn reports(&self) -> broadcast::Receiver<Report> {
        self.0.reports.subscribe()
    }

    /// The counts, by volunteer.
    pub(super) fn numbers(&self) -> Vec<Number> {
        let number = |name, help, count: fn(Counts) -> u64| {
            let all = self.clone();
            Number::labelled(name, help, LABEL, move || all.read(count))
        };
        vec![
            number(
                "tandem_split_origin_volunteer_connections",
                "Connections of clients, by volunteer, since the volunteer's first refusal",
                |counts| counts.connections,
            ),
            number(
                "tandem_split_origin_volunteer_refused",
                "Connections that a client has ended because of a bad record, by volunteer",
                |counts| counts.refused,
            ),
            number(
                "tandem_split_origin_volunteer_forged",
                "Records that no client has sealed, by volunteer",
                |counts| counts.forged,
            ),
            number(
                "tandem_split_origin_volunteer_distrusted",
                "Handshakes that a client has ended because of the certificate, by volunteer",
                |counts| counts.distrusted,
            ),
        ]
    }

    fn read(&self, count: fn(Counts) -> u64) -> Vec<(String, u64)> {
        let refusals = self.lock();
        let apart = refusals.volunteers();
        let mut values: Vec<(String, u64)> = apart
            .map(|(key, counts)| (key.to_string(), count(counts)))
            .collect();
        values.push(("other".to_owned(), count(refusals.others())));
        values
    }

    fn lock(&self) -> MutexGuard<'_, Refusals> {
        self.0
            .refusals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Witness {
    /// The client asks for this now. Its query may be its own, and the broker can repeat no other
    /// method.
    pub(super) fn asked(&mut self, method: &str, target: &str) {
        let path = target.split('?').next().unwrap_or_default();
        self.path.clear();
        if method == "GET" && path.len() <= MAX_PATH {
            self.path.push_str(path);
        }
    }

    /// Counts, and reports when it is time.
    pub(super) fn note(&self, event: Event) {
        let now = Instant::ZERO + self.all.0.start.elapsed();
        let Some(counts) = self.all.lock().note(self.asker, event, now) else {
            return;
        };
        tracing::warn!(
            volunteer = %self.asker.key,
            connections = counts.connections,
            refused = counts.refused,
            forged = counts.forged,
            distrusted = counts.distrusted,
            "clients refuse what comes through this volunteer"
        );
        // Nobody may be listening.
        let _ = self
            .all
            .0
            .reports
            .send(Report::new(self.asker.key, &self.path));
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use tandem_barnraising::PublicKey;

    use super::*;

    #[test]
    fn a_report_names_the_path_of_a_get_and_neither_queries_nor_what_is_long() {
        let all = Witnesses::new();
        let mut reports = all.reports();
        let long = format!("/{}", "p".repeat(MAX_PATH));
        for (number, (method, target, path)) in [
            ("GET", "/a/b", "/a/b"),
            ("GET", "/a?secret=1", "/a"),
            ("POST", "/order", "/"),
            ("GET", &*long, "/"),
        ]
        .into_iter()
        .enumerate()
        {
            let mut witness = all.of(Asker {
                key: PublicKey([number as u8; 32]),
                from: IpAddr::from([192, 0, 2, 1]),
            });
            witness.asked("GET", "/before");
            witness.asked(method, target);
            assert!(witness.path.len() <= MAX_PATH);
            for _ in 0..3 {
                witness.note(Event::Refused);
            }
            let report = reports.try_recv().expect("three refusals make a report");
            assert_eq!(report.path(), path, "{method} {target}");
        }
    }
}
