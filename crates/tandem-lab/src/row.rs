//! One line of a result: what one trial cost. The schema that scripts and the report read.
//!
//! Is not: how it was measured. Invariants: bytes and packets are the emulator's counters, never a proxy's; a field that could
//! not be measured is absent, not zero.

use serde::{Deserialize, Serialize};

/// A trial. Written as one JSON object a line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The experiment's name.
    pub experiment: String,
    /// The link's name, of the presets or of the experiment file.
    pub link: String,
    /// `plain`, `pass-through`, `packet`, `packet-cold`, `packet-mcveety`, …
    pub arm: String,
    /// The endpoints' name: `one`, `three`, `curl`, or the experiment file's.
    pub endpoints: String,
    /// The protocol version that was negotiated, as `TLS 1.2`.
    pub version: Option<String>,
    /// The leaf's key, as `rsa-2048`.
    pub key: String,
    /// Certificates in the chain that the server sends.
    pub chain: u8,
    /// DER bytes of that chain.
    pub certificate_bytes: u64,
    /// Trial, counted from 0 in each combination of link, endpoints and arm.
    pub trial: u32,
    /// From the client's SYN to the end of the handshake at the client, seconds.
    pub seconds_handshake: Option<f64>,
    /// From the client's SYN to the first byte of application data at the client, seconds.
    pub seconds_first_byte: Option<f64>,
    /// IP bytes that crossed from the client's side, lost ones included.
    pub link_bytes_up: u64,
    /// IP bytes that crossed from the server's side.
    pub link_bytes_down: u64,
    /// IP packets that crossed from the client's side.
    pub link_packets_up: u64,
    /// IP packets that crossed from the server's side.
    pub link_packets_down: u64,
    /// TCP payload bytes of the TLS port that crossed from the client's side, up to the end of the handshake.
    pub tls_bytes_up: u64,
    /// TCP payload bytes of the TLS port that crossed from the server's side, up to the end of the handshake.
    pub tls_bytes_down: u64,
    /// Bytes that are fresh by design, and 28 for each one-way flight.
    pub floor_bytes: Option<u64>,
    /// CPU time of both proxies together, microseconds; absent where there are none.
    pub proxy_cpu_us: Option<f64>,
    /// Peak resident memory of the larger proxy, KiB.
    pub proxy_memory_kib: Option<u64>,
    /// Whether each end received the TCP payload that the other sent, byte for byte.
    pub identical: bool,
    /// Whether the client got its answer.
    pub ok: bool,
    /// What went wrong, in a line.
    pub error: Option<String>,
}
