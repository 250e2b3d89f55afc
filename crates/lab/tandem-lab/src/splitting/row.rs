//! A row of `splitting.jsonl`: some requests by one way, what they cost, and whether every byte was
//! the server's.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::LabError;

/// What a row belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Part {
    /// One file of each size: figures 5-4 and 5-5.
    Sizes,
    /// A trace replayed, some requests a row: figures 5-1 to 5-3.
    Trace,
    /// Files of a trace, none of them twice, each alone: figure 5-6.
    Latency,
    /// Many volunteers at once.
    Scaling,
    /// What the processor does at the origin's end of the link.
    Origin,
    /// What it does at the volunteer's.
    Volunteer,
}

impl Part {
    const ALL: [Part; 6] = [
        Part::Origin,
        Part::Volunteer,
        Part::Sizes,
        Part::Trace,
        Part::Latency,
        Part::Scaling,
    ];

    fn name(self) -> &'static str {
        match self {
            Part::Sizes => "sizes",
            Part::Trace => "trace",
            Part::Latency => "latency",
            Part::Scaling => "scaling",
            Part::Origin => "origin",
            Part::Volunteer => "volunteer",
        }
    }

    /// The parts of these names; all of them where there is no name.
    ///
    /// # Errors
    /// `Usage` for a name that is none.
    pub(crate) fn named(names: &[String]) -> Result<Vec<Part>, LabError> {
        if names.is_empty() {
            return Ok(Part::ALL.to_vec());
        }
        let known = || Part::ALL.map(Part::name).join(", ");
        names
            .iter()
            .map(|name| {
                Part::ALL
                    .into_iter()
                    .find(|part| part.name() == name)
                    .ok_or_else(|| {
                        LabError::usage(
                            format!("part {name}"),
                            format!("is none of the evaluation's: {}", known()),
                        )
                    })
            })
            .collect()
    }
}

/// By which way clients get their files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Way {
    /// nginx, plain HTTP.
    Http,
    /// nginx with TLS as it comes.
    Https,
    /// nginx with the suite that splitting uses.
    HttpsCbc,
    /// A volunteer that does not have it.
    Cold,
    /// A volunteer that has it.
    Warm,
}

impl Way {
    /// In the order of tables.
    pub(crate) const ALL: [Way; 5] = [Way::Http, Way::Https, Way::HttpsCbc, Way::Cold, Way::Warm];

    /// What readers call it.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Way::Http => "HTTP",
            Way::Https => "HTTPS",
            Way::HttpsCbc => "HTTPS, same suite",
            Way::Cold => "splitting, cold",
            Way::Warm => "splitting, warm",
        }
    }
}

/// What was measured over one or several requests, a connection and a full handshake each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    /// What it belongs to.
    pub(crate) part: Part,
    /// The link between the origin and all others.
    pub(crate) link: String,
    /// By which way.
    pub(crate) way: Way,
    /// Counted from 0.
    pub(crate) trial: u32,
    /// Which trace the files are from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trace: Option<String>,
    /// Volunteers that serve at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) volunteers: Option<u32>,
    /// Bytes of each body, in the order of the requests.
    pub(crate) sizes: Vec<u64>,
    /// Bytes of those bodies that nobody has asked for before in this trace.
    pub(crate) fresh_bytes: u64,
    /// IP bytes on the link from the clients' end.
    pub(crate) link_bytes_up: u64,
    /// From the origin's end: what its line has to carry.
    pub(crate) link_bytes_down: u64,
    /// Packets likewise.
    pub(crate) link_packets_up: u64,
    /// Packets likewise.
    pub(crate) link_packets_down: u64,
    /// Packets for which the link had no room.
    pub(crate) link_dropped: u64,
    /// From the start of the transfer to its last byte, the sum over the requests; where several
    /// run at once, until the last one's end.
    pub(crate) seconds: f64,
    /// Processor time of the origin, microseconds.
    pub(crate) origin_us: u64,
    /// Of nginx: that which answers, or that which is behind the origin.
    pub(crate) server_us: u64,
    /// Of all volunteers.
    pub(crate) volunteer_us: u64,
    /// Whether every request succeeded.
    pub(crate) ok: bool,
    /// Whether every body had the digest of the server's file.
    pub(crate) identical: bool,
    /// The first client's words that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

impl Row {
    /// Bytes of all bodies.
    pub(crate) fn body_bytes(&self) -> u64 {
        self.sizes.iter().sum()
    }

    /// Whether its figures count.
    pub(crate) fn is_sound(&self) -> bool {
        self.ok && self.identical
    }
}

/// Where rows go, each as soon as there is one.
pub(crate) struct Rows {
    path: PathBuf,
    file: BufWriter<File>,
    rows: Vec<Row>,
}

impl Rows {
    /// An empty file.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn create(path: &Path) -> Result<Self, LabError> {
        let file = File::create(path).map_err(LabError::io(format!("write {}", path.display())))?;
        Ok(Self {
            path: path.to_owned(),
            file: BufWriter::new(file),
            rows: Vec::new(),
        })
    }

    /// Writes one.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn push(&mut self, row: Row) -> Result<(), LabError> {
        let io = || LabError::io(format!("write {}", self.path.display()));
        let line = serde_json::to_string(&row).map_err(|error| io()(error.into()))?;
        writeln!(self.file, "{line}").map_err(io())?;
        self.file.flush().map_err(io())?;
        self.rows.push(row);
        Ok(())
    }

    /// All of them.
    pub(crate) fn all(&self) -> &[Row] {
        &self.rows
    }

    /// # Errors
    /// `BytesDiffer` or `TrialsFailed` where something of that kind is in them.
    pub(crate) fn verdict(&self) -> Result<(), LabError> {
        let trials = self.rows.len();
        let differing = self
            .rows
            .iter()
            .filter(|row| row.ok && !row.identical)
            .count();
        if differing > 0 {
            return Err(LabError::BytesDiffer {
                differing,
                trials,
                rows: self.path.clone(),
            });
        }
        let failed = self.rows.iter().filter(|row| !row.ok).count();
        match self.rows.iter().find_map(|row| row.error.clone()) {
            Some(why) => Err(LabError::TrialsFailed {
                failed,
                trials,
                why,
            }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_known_by_the_names_that_rows_have() {
        for part in Part::ALL {
            let named = Part::named(&[part.name().to_owned()]).unwrap_or_default();
            assert_eq!(named, [part]);
            let in_rows = serde_json::to_value(part).unwrap_or_default();
            assert_eq!(in_rows.as_str(), Some(part.name()));
        }
        assert_eq!(Part::named(&[]).unwrap_or_default(), Part::ALL);
        let unknown = Part::named(&["everything".to_owned()]);
        assert!(matches!(unknown, Err(LabError::Usage { .. })));
    }
}
