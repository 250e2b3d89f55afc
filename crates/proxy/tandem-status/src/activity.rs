//! What was saved, by site and by connection: the sites of which most was saved, and the
//! connections of late.
//!
//! Is not: complete. Where more sites come than are kept, the one that came longest ago is
//! forgotten. Nothing of it is written to disk: it is a browsing history.
//!
//! Invariant: [`MAX_SITES`] sites and [`MAX_FLOWS`] connections at most, each in bounded memory.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

/// Sites that are kept: 400 kB at most, where all names are as long as can be.
const MAX_SITES: usize = 1_000;
/// Sites that are reported.
const SHOWN_SITES: usize = 20;
/// Connections that are kept and reported.
const MAX_FLOWS: usize = 50;
/// Bytes of a name that are kept. A host name has 253 at most (RFC 1035, section 2.3.4).
const MAX_NAME: usize = 261;
/// Moments of a connection that are kept.
const MAX_MARKS: usize = 8;

/// One connection, once its handshake is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// When it began: milliseconds since 1970.
    pub began_unix_ms: u64,
    /// The name that the client asked for, or the server's address.
    pub site: String,
    /// Bytes of its handshake, both ways, as the endpoints sent them.
    pub original_bytes: u64,
    /// Bytes that crossed the link in their place.
    pub crossed_bytes: u64,
    /// What became of the handshake: `finished`, or why there was nothing to do.
    pub outcome: Cow<'static, str>,
    /// What happened when, in order.
    pub marks: Vec<Mark>,
}

/// A moment of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// What happened.
    pub name: Cow<'static, str>,
    /// Milliseconds after the connection began.
    pub at_ms: u64,
}

/// What was saved with one site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteRow {
    /// The site.
    pub name: String,
    /// Connections to it.
    pub connections: u64,
    /// As in [`Flow`].
    pub original_bytes: u64,
    /// As in [`Flow`].
    pub crossed_bytes: u64,
}

impl SiteRow {
    /// Bytes that did not have to cross.
    #[must_use]
    pub fn saved(&self) -> u64 {
        self.original_bytes.saturating_sub(self.crossed_bytes)
    }
}

/// What is reported.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Connections since the start.
    pub connections: u64,
    /// As in [`Flow`], of all connections since the start.
    pub original_bytes: u64,
    /// As in [`Flow`], of all connections since the start.
    pub crossed_bytes: u64,
    /// The sites of which most was saved, 20 at most.
    pub sites: Vec<SiteRow>,
    /// The last connections, 50 at most, newest first.
    pub flows: Vec<Flow>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Activity {
    connections: u64,
    original_bytes: u64,
    crossed_bytes: u64,
    sites: BTreeMap<String, Kept>,
    flows: VecDeque<Flow>,
}

#[derive(Debug, Default)]
struct Kept {
    connections: u64,
    original_bytes: u64,
    crossed_bytes: u64,
    /// The number of its last connection.
    last: u64,
}

impl Activity {
    /// A handshake is over.
    pub fn add(&mut self, mut flow: Flow) {
        if flow.site.len() > MAX_NAME {
            let end = flow.site.floor_char_boundary(MAX_NAME);
            flow.site.truncate(end);
        }
        flow.marks.truncate(MAX_MARKS);
        self.connections += 1;
        self.original_bytes += flow.original_bytes;
        self.crossed_bytes += flow.crossed_bytes;
        if !self.sites.contains_key(&flow.site) && self.sites.len() >= MAX_SITES {
            self.forget_one();
        }
        let kept = self.sites.entry(flow.site.clone()).or_default();
        kept.connections += 1;
        kept.original_bytes += flow.original_bytes;
        kept.crossed_bytes += flow.crossed_bytes;
        kept.last = self.connections;
        self.flows.truncate(MAX_FLOWS - 1);
        self.flows.push_front(flow);
    }

    fn forget_one(&mut self) {
        let oldest = self.sites.iter().min_by_key(|(_, kept)| kept.last);
        if let Some(name) = oldest.map(|(name, _)| name.clone()) {
            self.sites.remove(&name);
        }
    }

    /// What is reported now.
    #[must_use]
    pub fn report(&self) -> Report {
        let rows = self.sites.iter().map(|(name, kept)| SiteRow {
            name: name.clone(),
            connections: kept.connections,
            original_bytes: kept.original_bytes,
            crossed_bytes: kept.crossed_bytes,
        });
        let mut sites: Vec<SiteRow> = rows.collect();
        sites.sort_by_key(|row| std::cmp::Reverse(row.saved()));
        sites.truncate(SHOWN_SITES);
        Report {
            connections: self.connections,
            original_bytes: self.original_bytes,
            crossed_bytes: self.crossed_bytes,
            sites,
            flows: self.flows.iter().cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(site: &str, original_bytes: u64, crossed_bytes: u64) -> Flow {
        Flow {
            began_unix_ms: 0,
            site: site.to_owned(),
            original_bytes,
            crossed_bytes,
            outcome: Cow::Borrowed("finished"),
            marks: Vec::new(),
        }
    }

    #[test]
    fn sites_are_reported_by_what_was_saved_and_connections_newest_first() {
        let mut activity = Activity::default();
        activity.add(flow("a", 100, 90));
        activity.add(flow("b", 5_000, 500));
        activity.add(flow("a", 100, 90));
        let report = activity.report();
        let names: Vec<&str> = report.sites.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["b", "a"]);
        assert_eq!(
            (report.sites[1].connections, report.sites[1].saved()),
            (2, 20)
        );
        let sites: Vec<&str> = report.flows.iter().map(|flow| flow.site.as_str()).collect();
        assert_eq!(sites, ["a", "b", "a"]);
        assert_eq!((report.connections, report.original_bytes), (3, 5_200));
    }

    #[test]
    fn whatever_comes_the_number_of_sites_and_connections_and_their_names_are_bounded() {
        let mut activity = Activity::default();
        activity.add(flow("first", 10_000, 0));
        for number in 0..MAX_SITES {
            // Asked for again and again, the first is kept.
            activity.add(flow("first", 0, 0));
            activity.add(flow(&format!("site-{number}"), 1, 2));
        }
        assert_eq!(activity.sites.len(), MAX_SITES);
        let mark = Mark {
            name: Cow::Borrowed("open"),
            at_ms: 0,
        };
        activity.add(Flow {
            marks: vec![mark; 1_000],
            ..flow(&"é".repeat(1_000), 0, 0)
        });
        let report = activity.report();
        assert_eq!(activity.sites.len(), MAX_SITES);
        assert_eq!(report.sites.len(), SHOWN_SITES);
        assert_eq!(report.flows.len(), MAX_FLOWS);
        assert_eq!(report.sites[0].name, "first");
        assert!(!activity.sites.contains_key("site-0"));
        assert!(report.flows[0].site.len() <= MAX_NAME);
        assert_eq!(report.flows[0].marks.len(), MAX_MARKS);
    }
}
