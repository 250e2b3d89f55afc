//! What a key server counts.
//!
//! Is not: the audit log. The only labels are names of clients, which the settings bound, and the
//! four reasons of a refusal.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tandem_daemon::metrics::Number;
use tandem_keyserver::Refusal;

type Labels = Arc<Mutex<BTreeMap<String, u64>>>;

#[derive(Debug)]
pub(crate) struct Numbers {
    pub(crate) connections: Number,
    pub(crate) refused_connections: Number,
    pub(crate) waiting: Number,
    pub(crate) signing_micros: Number,
    pub(crate) waiting_micros: Number,
    pub(crate) audit_failures: Number,
    pub(crate) reloads: Number,
    signatures: (Number, Labels),
    refusals: (Number, Labels),
}

impl Numbers {
    pub(crate) fn new() -> Self {
        Self {
            connections: Number::gauge("tandem_keyserver_connections", "connections of clients"),
            refused_connections: Number::counter(
                "tandem_keyserver_refused_connections",
                "connections that were not admitted",
            ),
            waiting: Number::gauge(
                "tandem_keyserver_waiting",
                "requests that wait for their turn",
            ),
            signing_micros: Number::counter(
                "tandem_keyserver_signing_micros",
                "time spent on signatures, in microseconds",
            ),
            waiting_micros: Number::counter(
                "tandem_keyserver_waiting_micros",
                "time that signed requests waited for their turn, in microseconds",
            ),
            audit_failures: Number::counter(
                "tandem_keyserver_audit_failures",
                "lines that could not be written to the audit log",
            ),
            reloads: Number::counter("tandem_keyserver_reloads", "settings taken anew"),
            signatures: labelled("tandem_keyserver_signatures", "signatures made", "peer"),
            refusals: labelled("tandem_keyserver_refusals", "requests refused", "reason"),
        }
    }

    pub(crate) fn signed(&self, peer: &str) {
        count(&self.signatures.1, peer);
    }

    pub(crate) fn refused(&self, refusal: Refusal) {
        count(&self.refusals.1, refusal.name());
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Number> {
        [
            &self.signatures.0,
            &self.refusals.0,
            &self.connections,
            &self.refused_connections,
            &self.waiting,
            &self.signing_micros,
            &self.waiting_micros,
            &self.audit_failures,
            &self.reloads,
        ]
        .map(Clone::clone)
        .to_vec()
    }
}

fn labelled(name: &'static str, help: &'static str, label: &'static str) -> (Number, Labels) {
    let counts = Labels::default();
    let shown = Arc::clone(&counts);
    let read = move || {
        let counts = shown.lock().unwrap_or_else(PoisonError::into_inner);
        counts
            .iter()
            .map(|(at, count)| (at.clone(), *count))
            .collect()
    };
    (Number::labelled(name, help, label, read), counts)
}

fn count(counts: &Labels, label: &str) {
    let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    match counts.get_mut(label) {
        Some(count) => *count += 1,
        None => {
            counts.insert(label.to_owned(), 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_has_a_row_for_each_number() {
        let page = include_str!("../../../../docs/keyserver.md");
        for number in Numbers::new().all() {
            let row = format!("| `{}` |", number.name());
            assert!(page.contains(&row), "{row} is not in docs/keyserver.md");
        }
    }
}
