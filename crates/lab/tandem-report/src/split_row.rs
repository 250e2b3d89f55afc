//! A row of `splitting.jsonl`: some requests delivered alike, what they cost, and whether every
//! byte was the server's.

use serde::{Deserialize, Serialize};

/// The file of such rows.
pub const ROWS: &str = "splitting.jsonl";

/// What a row belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
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
    /// In the order in which they are measured.
    pub const ALL: [Part; 6] = [
        Part::Origin,
        Part::Volunteer,
        Part::Sizes,
        Part::Trace,
        Part::Latency,
        Part::Scaling,
    ];

    /// As files and the command line say it.
    pub fn name(self) -> &'static str {
        match self {
            Part::Sizes => "sizes",
            Part::Trace => "trace",
            Part::Latency => "latency",
            Part::Scaling => "scaling",
            Part::Origin => "origin",
            Part::Volunteer => "volunteer",
        }
    }
}

/// How clients get their files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
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

impl Delivery {
    /// In the order of tables.
    pub const ALL: [Delivery; 5] = [
        Delivery::Http,
        Delivery::Https,
        Delivery::HttpsCbc,
        Delivery::Cold,
        Delivery::Warm,
    ];

    /// What readers call it.
    pub fn label(self) -> &'static str {
        match self {
            Delivery::Http => "HTTP",
            Delivery::Https => "HTTPS",
            Delivery::HttpsCbc => "HTTPS, same suite",
            Delivery::Cold => "splitting, cold",
            Delivery::Warm => "splitting, warm",
        }
    }
}

/// What was measured over one or several requests, a connection and a full handshake each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitRow {
    /// What it belongs to.
    pub part: Part,
    /// The link between the origin and all others.
    pub link: String,
    /// How they were delivered.
    #[serde(rename = "way")]
    pub delivery: Delivery,
    /// Counted from 0.
    pub trial: u32,
    /// Which trace the files are from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Volunteers that serve at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volunteers: Option<u32>,
    /// Bytes of each body, in the order of the requests.
    pub sizes: Vec<u64>,
    /// Bytes of those bodies that nobody has asked for before in this trace.
    pub fresh_bytes: u64,
    /// IP bytes on the link from the clients' end.
    pub link_bytes_up: u64,
    /// From the origin's end: what its line has to carry.
    pub link_bytes_down: u64,
    /// Packets likewise.
    pub link_packets_up: u64,
    /// Packets likewise.
    pub link_packets_down: u64,
    /// Packets for which the link had no room.
    pub link_dropped: u64,
    /// From the start of the transfer to its last byte, the sum over the requests; where several
    /// run at once, until the last one's end.
    pub seconds: f64,
    /// Processor time of the origin, microseconds.
    pub origin_us: u64,
    /// Of nginx: that which answers, or that which is behind the origin.
    pub server_us: u64,
    /// Of all volunteers.
    pub volunteer_us: u64,
    /// Whether every request succeeded.
    pub ok: bool,
    /// Whether every body had the digest of the server's file.
    pub identical: bool,
    /// The first client's words that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl SplitRow {
    /// Bytes of all bodies.
    pub fn body_bytes(&self) -> u64 {
        self.sizes.iter().sum()
    }

    /// Whether its figures count.
    pub fn is_sound(&self) -> bool {
        self.ok && self.identical
    }
}
