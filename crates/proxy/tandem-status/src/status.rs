//! A proxy at one moment.
//!
//! Is not: the asking.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::activity::Report;

/// The mode that has no packet queue.
const TUNNEL: &str = "tunnel";

/// A daemon at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the program.
    pub version: String,
    /// `client-side` or `server-side`.
    pub role: String,
    /// The interface of the link; in tunnel mode, where the proxies meet.
    pub link: String,
    /// `packet`, `pass-through` or `tunnel`.
    pub mode: String,
    /// Process number.
    pub pid: u32,
    /// Number of the packet queue; 0 in tunnel mode.
    pub queue: u16,
    /// Seconds since the start.
    pub uptime_seconds: f64,
    /// Processor time used, all threads, user and system.
    pub cpu_seconds: f64,
    /// Memory in use.
    pub resident_bytes: u64,
    /// The most memory that was in use at one time.
    pub peak_resident_bytes: u64,
    /// Counters: those of `/metrics` without `tandem_` and `_total`.
    pub counters: BTreeMap<String, u64>,
    /// Gauges: those of `/metrics` without `tandem_`.
    pub gauges: BTreeMap<String, u64>,
    /// What is said in words, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub notes: BTreeMap<String, String>,
    /// The connection to the other proxy; in tunnel mode only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<TunnelState>,
    /// What was saved, by site and by connection.
    #[serde(default)]
    pub activity: Report,
}

/// The connection to the other proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelState {
    /// Whether there is one now; of the server side, whether there is any.
    pub is_up: bool,
    /// Seconds for which that has been so.
    pub since_seconds: u64,
    /// The round trip; none while there is no connection.
    pub round_trip_ms: Option<u64>,
    /// Why the last connection ended, or did not come up.
    pub last_end: Option<String>,
}

impl Status {
    /// For a person: facts, then gauges, then counters other than 0.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = String::new();
        let mut facts = vec![
            (
                "daemon",
                format!("{} on {} (version {})", self.role, self.link, self.version),
            ),
            ("mode", self.mode.clone()),
            ("process", self.pid.to_string()),
            ("up", format!("{:.0} s", self.uptime_seconds)),
            ("processor", format!("{:.3} s", self.cpu_seconds)),
            (
                "memory",
                format!(
                    "{} kB, at most {} kB",
                    self.resident_bytes / 1000,
                    self.peak_resident_bytes / 1000
                ),
            ),
        ];
        if self.mode != TUNNEL {
            facts.insert(3, ("queue", self.queue.to_string()));
        }
        let notes = self.notes.iter();
        facts.extend(notes.map(|(name, text)| (name.as_str(), text.clone())));
        let numbers = self
            .gauges
            .iter()
            .chain(self.counters.iter().filter(|(_, value)| **value != 0));
        let width = facts
            .iter()
            .map(|(name, _)| name.len())
            .chain(numbers.clone().map(|(name, _)| name.len()))
            .max()
            .unwrap_or_default();
        for (name, value) in &facts {
            let _ = writeln!(out, "{name:<width$}  {value}");
        }
        for (name, value) in numbers {
            let _ = writeln!(out, "{name:<width$}  {value}");
        }
        out
    }

    /// For a program: one line of JSON with all numbers.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Status {
        Status {
            version: "0.1.0".into(),
            role: "client-side".into(),
            link: "tun0".into(),
            mode: "packet".into(),
            pid: 7,
            queue: 9,
            uptime_seconds: 12.5,
            cpu_seconds: 0.25,
            resident_bytes: 5_000_000,
            peak_resident_bytes: 6_000_000,
            counters: BTreeMap::from([("queue_packets".into(), 3), ("queue_overflows".into(), 0)]),
            gauges: BTreeMap::from([("flows".into(), 0)]),
            notes: BTreeMap::new(),
            tunnel: None,
            activity: Report::default(),
        }
    }

    #[test]
    fn the_table_leaves_out_counters_that_are_zero() {
        assert_eq!(
            sample().table(),
            "\
daemon         client-side on tun0 (version 0.1.0)
mode           packet
process        7
queue          9
up             12 s
processor      0.250 s
memory         5000 kB, at most 6000 kB
flows          0
queue_packets  3
"
        );
    }

    #[test]
    fn the_table_of_a_tunnel_has_no_queue() {
        let tunnel = Status {
            mode: "tunnel".into(),
            queue: 0,
            ..sample()
        };
        assert!(!tunnel.table().contains("\nqueue "), "{}", tunnel.table());
    }

    #[test]
    fn what_is_said_in_words_stands_among_the_facts() {
        let spent = Status {
            notes: BTreeMap::from([("spent".into(), "0.50 EUR today".into())]),
            ..sample()
        };
        let table = spent.table();
        assert!(
            table.contains("\nspent          0.50 EUR today\n"),
            "{table}"
        );
    }

    #[test]
    fn a_status_of_an_older_proxy_is_read() {
        let mut older: serde_json::Value = serde_json::from_str(&sample().json()).expect("JSON");
        let fields = older.as_object_mut().expect("an object");
        assert!(fields.remove("activity").is_some());
        let read: Status = serde_json::from_value(older).expect("it lacks nothing that is needed");
        assert_eq!(read, sample());
    }
}
