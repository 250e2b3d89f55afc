//! What the live view shows: the parts' own counters, and the answers served last.
//!
//! Is not: a second account. Each figure is read where it is counted, at the moment when the page
//! asks.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tandem_channel::KeyName;
use tandem_daemon::metrics::Number;
use tandem_split_io::origin::Served;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

/// Answers that are shown.
const SHOWN: usize = 40;

/// What a helper is, for the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Honest,
    Harmful,
}

/// One helper.
#[derive(Debug)]
pub(crate) struct Helper {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) url: String,
    pub(crate) key: Option<KeyName>,
    pub(crate) numbers: Vec<Number>,
}

/// See above.
#[derive(Clone, Debug)]
pub(crate) struct State(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    origin: Vec<Number>,
    helpers: Vec<Helper>,
    /// The latest first, and how many there were.
    served: Mutex<(u64, VecDeque<ServedShown>)>,
}

/// One answer, as it is shown.
#[derive(Clone, Debug, Serialize)]
struct ServedShown {
    number: u64,
    helper: &'static str,
    target: String,
    body_bytes: u64,
    sent_bytes: u64,
}

#[derive(Serialize)]
struct HelperShown {
    name: &'static str,
    kind: Kind,
    url: String,
    clients: u64,
    sent_bytes: u64,
    stub_bytes: u64,
    fetched: u64,
}

#[derive(Serialize)]
struct Shown {
    body_bytes: u64,
    line_bytes: u64,
    requests: u64,
    refused_by_clients: u64,
    helpers: Vec<HelperShown>,
    served: Vec<ServedShown>,
}

impl State {
    pub(crate) fn new(origin: Vec<Number>, helpers: Vec<Helper>) -> Self {
        Self(Arc::new(Inner {
            origin,
            helpers,
            served: Mutex::default(),
        }))
    }

    /// Notes what is served, for ever.
    pub(crate) async fn follow(self, mut served: Receiver<Served>) {
        loop {
            match served.recv().await {
                Ok(answer) => self.note(answer),
                // Some were missed; the counters have them all the same.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn note(&self, answer: Served) {
        let by = |helper: &&Helper| helper.key.is_some() && helper.key == answer.volunteer;
        let helper = self.0.helpers.iter().find(by);
        let mut served = self.0.served.lock().unwrap_or_else(PoisonError::into_inner);
        served.0 += 1;
        let shown = ServedShown {
            number: served.0,
            helper: helper.map_or("unknown", |helper| helper.name),
            target: answer.target,
            body_bytes: answer.body_bytes,
            sent_bytes: answer.sent_bytes,
        };
        served.1.push_front(shown);
        served.1.truncate(SHOWN);
    }

    /// All of it, as JSON.
    pub(crate) fn json(&self) -> String {
        let origin = |name| value(&self.0.origin, name);
        let helpers = self.0.helpers.iter().map(|helper| HelperShown {
            name: helper.name,
            kind: helper.kind,
            url: helper.url.clone(),
            clients: value(&helper.numbers, "tandem_split_volunteer_clients"),
            sent_bytes: value(&helper.numbers, "tandem_split_volunteer_sent_bytes"),
            stub_bytes: value(&helper.numbers, "tandem_split_volunteer_stub_bytes"),
            fetched: value(&helper.numbers, "tandem_split_volunteer_misses"),
        });
        let served = self.0.served.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = Shown {
            body_bytes: origin("tandem_split_origin_body_bytes"),
            line_bytes: origin("tandem_split_origin_sent_bytes"),
            requests: origin("tandem_split_origin_requests"),
            refused_by_clients: origin("tandem_split_origin_refused_by_clients"),
            helpers: helpers.collect(),
            served: served.1.iter().cloned().collect(),
        };
        // Plain structures have nothing that JSON does not.
        serde_json::to_string(&shown).unwrap_or_default()
    }
}

fn value(numbers: &[Number], name: &str) -> u64 {
    let found = numbers.iter().find(|number| number.name() == name);
    found.map_or(0, Number::value)
}
