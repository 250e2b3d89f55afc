//! Counters and gauges, and their text for the admin port.
//!
//! Is not: a log. No name, address or content is in it; the only labels are keys of volunteers, of
//! which whoever counts has to bound the number.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One number that can be shown.
#[derive(Clone, Debug)]
pub struct Number {
    name: &'static str,
    help: &'static str,
    kind: Kind,
    value: Arc<AtomicU64>,
}

#[derive(Clone, Debug)]
enum Kind {
    Counter,
    Gauge,
    Labelled(Labelled),
}

/// A counter for each value of a label.
#[derive(Clone)]
struct Labelled {
    label: &'static str,
    read: Arc<dyn Fn() -> Vec<(String, u64)> + Send + Sync>,
}

impl fmt::Debug for Labelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Labelled({})", self.label)
    }
}

impl Number {
    /// A number that only grows; `_total` is part of its shown name.
    #[must_use]
    pub fn counter(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, Kind::Counter)
    }

    /// A number that goes up and down.
    #[must_use]
    pub fn gauge(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, Kind::Gauge)
    }

    /// Counters of one name, one for each value of a label, which `read` gives: few, and without
    /// quotation marks, backslashes or line ends.
    #[must_use]
    pub fn labelled(
        name: &'static str,
        help: &'static str,
        label: &'static str,
        read: impl Fn() -> Vec<(String, u64)> + Send + Sync + 'static,
    ) -> Self {
        let read = Arc::new(read);
        Self::new(name, help, Kind::Labelled(Labelled { label, read }))
    }

    fn new(name: &'static str, help: &'static str, kind: Kind) -> Self {
        Self {
            name,
            help,
            kind,
            value: Arc::default(),
        }
    }

    /// Its name, as it is shown, without the ending of a counter.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// So many more.
    pub fn add(&self, by: u64) {
        self.value.fetch_add(by, Ordering::Relaxed);
    }

    /// This many now.
    pub fn set(&self, to: u64) {
        self.value.store(to, Ordering::Relaxed);
    }

    /// How many; of a label, all together.
    #[must_use]
    pub fn value(&self) -> u64 {
        match &self.kind {
            Kind::Counter | Kind::Gauge => self.value.load(Ordering::Relaxed),
            Kind::Labelled(labelled) => (labelled.read)().iter().map(|(_, value)| value).sum(),
        }
    }

    /// One more until what is returned is dropped.
    #[must_use]
    pub fn hold(&self) -> Held {
        self.add(1);
        Held(Arc::clone(&self.value))
    }

    /// The number itself, for whoever adds to it from below.
    #[must_use]
    pub fn shared(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.value)
    }
}

/// See [`Number::hold`].
#[derive(Debug)]
pub struct Held(Arc<AtomicU64>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All of these numbers in the text format of OpenMetrics 1.0.
#[must_use]
pub fn text(numbers: &[Number]) -> String {
    let mut text = Text::default();
    for number in numbers {
        match &number.kind {
            Kind::Counter => text.counter(number.name, number.help, number.value()),
            Kind::Gauge => text.gauge(number.name, number.help, number.value()),
            Kind::Labelled(labelled) => {
                text.labelled(number.name, number.help, labelled.label, &(labelled.read)());
            }
        }
    }
    text.finish()
}

/// Metrics in the text format of OpenMetrics 1.0, one after the other.
#[derive(Debug, Default)]
pub struct Text(String);

impl Text {
    /// Adds a counter; `_total` is appended to its name.
    pub fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.metric(name, help, "counter", "_total", &value);
    }

    /// Adds a gauge.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.metric(name, help, "gauge", "", &value);
    }

    /// Adds a proxy's counters and gauges. Each name says in words what it counts, and `tandem_` is
    /// put before it.
    pub fn named(&mut self, counters: &BTreeMap<String, u64>, gauges: &BTreeMap<String, u64>) {
        let in_words = |name: &str| name.replace('_', " ");
        for (name, value) in counters {
            self.counter(&format!("tandem_{name}"), &in_words(name), value);
        }
        for (name, value) in gauges {
            self.gauge(&format!("tandem_{name}"), &in_words(name), value);
        }
    }

    /// Adds a counter for each value of a label.
    fn labelled(&mut self, name: &str, help: &str, label: &str, values: &[(String, u64)]) {
        self.0 += &format!("# HELP {name} {help}\n# TYPE {name} counter\n");
        for (at, value) in values {
            self.0 += &format!("{name}_total{{{label}=\"{at}\"}} {value}\n");
        }
    }

    fn metric(&mut self, name: &str, help: &str, kind: &str, ending: &str, value: &dyn Display) {
        self.0 += &format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{name}{ending} {value}\n");
    }

    /// The whole text.
    #[must_use]
    pub fn finish(self) -> String {
        self.0 + "# EOF\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_counted_as_long_as_it_is_held() {
        let open = Number::gauge("open", "open connections");
        let held = open.hold();
        assert_eq!(open.value(), 1);
        drop(held);
        assert_eq!(open.value(), 0);
    }

    #[test]
    fn the_text_is_that_of_openmetrics() {
        let sent = Number::counter("sent_bytes", "bytes sent");
        sent.add(7);
        assert_eq!(
            text(&[sent]),
            "# HELP sent_bytes bytes sent\n# TYPE sent_bytes counter\nsent_bytes_total 7\n# EOF\n"
        );
    }

    #[test]
    fn a_name_says_in_words_what_it_counts() {
        let mut text = Text::default();
        let counters = BTreeMap::from([("flows_opened".to_owned(), 3)]);
        let gauges = BTreeMap::from([("held_packets".to_owned(), 2)]);
        text.named(&counters, &gauges);
        assert_eq!(
            text.finish(),
            "# HELP tandem_flows_opened flows opened\n# TYPE tandem_flows_opened counter\n\
             tandem_flows_opened_total 3\n# HELP tandem_held_packets held packets\n\
             # TYPE tandem_held_packets gauge\ntandem_held_packets 2\n# EOF\n"
        );
    }

    #[test]
    fn each_value_of_a_label_has_a_line() {
        let read = || vec![("ab".to_owned(), 3), ("other".to_owned(), 4)];
        let refused = Number::labelled("refused", "refusals", "volunteer", read);
        assert_eq!(refused.value(), 7);
        assert_eq!(
            text(&[refused]),
            "# HELP refused refusals\n# TYPE refused counter\n\
             refused_total{volunteer=\"ab\"} 3\nrefused_total{volunteer=\"other\"} 4\n# EOF\n"
        );
    }
}
