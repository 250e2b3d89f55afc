//! A row of `cost.jsonl`: one measurement of what TLS costs at a server, as `tandem lab cost`
//! writes it.
//!
//! Is not: what follows from rows; see `cost`.

use serde::{Deserialize, Serialize};

/// The file's name.
pub const ROWS: &str = "cost.jsonl";

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub enum CostRow {
    /// A server under load.
    Load(LoadRow),
    /// A server with another kind of key under load.
    Key(KeyRow),
    /// The same, with each phase of its TLS timed.
    Phases(PhasesRow),
    /// A figure to reach.
    Bar(BarRow),
    /// A server that was not measured.
    Absent(AbsentRow),
}

/// What one arm asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostArm {
    /// As tables call the server.
    pub server: String,
    /// `1.2` or `1.3`; none is plain HTTP.
    pub tls: Option<String>,
    /// By which means sessions were to be resumed: `any`, `id`, `none`.
    pub resumption: String,
    /// Share of connections that were to reuse a session, per cent.
    pub reuse: u8,
    /// The kind of the server's key.
    pub key: String,
    /// Size of the file that each connection asked for.
    pub bytes: u64,
}

/// What a server gave and took. Times and bytes of the server are those of its processes together,
/// for each connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadRow {
    /// What was asked for.
    #[serde(flatten)]
    pub arm: CostArm,
    /// In the time that was measured.
    pub connections_per_second: f64,
    /// Likewise.
    pub requests_per_second: f64,
    /// Connections from the first to the last, warm-up too.
    pub connections: u64,
    /// Of these, those that resumed a session, by what the client saw.
    pub resumed: u64,
    /// The same by the server's own count, and the connections that it counted.
    pub server_resumed: Option<[u64; 2]>,
    /// Sessions that were offered and refused.
    pub refused: u64,
    /// Connections that were to offer a session when the server had given none.
    pub nothing_to_offer: u64,
    /// Failures of any kind.
    pub failures: u64,
    /// Median latency, microseconds.
    pub p50_us: u64,
    /// 99 % are within.
    pub p99_us: u64,
    /// The server's processor time in user mode, microseconds.
    pub user_us: f64,
    /// The same in the kernel.
    pub kernel_us: f64,
    /// The server's context switches.
    pub switches: f64,
    /// The largest resident memory of each of its processes, added up, KiB.
    pub peak_kib: u64,
    /// Memory of all of them, shared pages counted once (PSS), KiB.
    pub memory_kib: u64,
    /// Its processes.
    pub processes: usize,
    /// The generator's processor time, microseconds.
    pub generator_us: f64,
    /// Whether the rate is the generator's limit.
    pub generator_limited: bool,
    /// Whether rate and latency were steady.
    pub steady: bool,
}

impl LoadRow {
    /// The server's processor time for a connection, microseconds.
    #[must_use]
    pub fn server_us(&self) -> f64 {
        self.user_us + self.kernel_us
    }
}

/// What a kind of the server's key costs, in full handshakes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyRow {
    /// What the server gave and took.
    #[serde(flatten)]
    pub load: LoadRow,
    /// Certificates that the server sends, bytes of DER.
    pub chain_bytes: usize,
    /// Bytes that the server sends in a full handshake.
    pub handshake_bytes: f64,
}

/// One phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CostPhase {
    /// What tables call it.
    pub name: String,
    /// Processor time for each connection, microseconds.
    pub us: f64,
    /// Calls for each connection.
    pub calls: f64,
    /// Bytes for each connection, where they are counted.
    pub bytes: f64,
}

/// Where the time of a server goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhasesRow {
    /// What was asked for.
    #[serde(flatten)]
    pub arm: CostArm,
    /// How many connections.
    pub connections: u64,
    /// All processor time of the server for a connection, microseconds.
    pub server_us: f64,
    /// Of that within calls of the TLS library, while it shakes hands.
    pub handshake_us: f64,
    /// Within all calls of the TLS library.
    pub library_us: f64,
    /// What a look at the clock takes, microseconds; it is taken off each phase.
    pub clock_us: f64,
    /// In the order in which they are shown.
    pub phases: Vec<CostPhase>,
}

/// A figure to reach.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BarRow {
    /// What was measured.
    pub what: String,
    /// Ours.
    pub measured: f64,
    /// What it is held against, where it is a ratio of two figures.
    pub beside: Option<f64>,
    /// What it has to reach.
    pub bar: f64,
    /// Whether it does.
    pub reached: bool,
    /// How it came about.
    pub note: String,
}

/// A server that was not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbsentRow {
    /// As tables call it.
    pub server: String,
    /// Why.
    pub why: String,
}
