//! One trial's result: a line of JSON.
//!
//! Bytes and packets are the emulated link's own counts. Times come from the kernel's timestamps in
//! the endpoints' namespaces. New fields may be added; what a field means does not change.

use serde::{Deserialize, Serialize};

use crate::arm::{Arm, StoreState};
use crate::coming::Coming;
use crate::parts::Parts;
use crate::situation::Situation;

/// A result row. Fields that a failed trial cannot have are null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The experiment's name.
    pub experiment: String,
    /// The link's name.
    pub link: String,
    /// The endpoints' name.
    pub endpoints: String,
    /// TLS version, as `1.2`.
    pub version: String,
    /// The chain's keys.
    pub key: String,
    /// DER bytes of each certificate that the server sends, leaf first.
    pub certificates: Vec<usize>,
    /// DER bytes of each certificate that the client sends, leaf first. Empty where it is not
    /// asked for any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_certificates: Vec<usize>,
    /// What stood in between.
    pub arm: Arm,
    /// What the proxies held.
    pub store: StoreState,
    /// Counts from 1 within link, endpoints and arm.
    pub trial: u32,
    /// Whether the client verified the server and got the whole response.
    pub ok: bool,
    /// Whether both endpoints received exactly the payload bytes that the other sent; of a trial
    /// that is not ok, whether they received nothing but their beginning. False where there
    /// was no connection.
    pub identical: bool,
    /// Why not ok, or not identical.
    pub error: Option<String>,
    /// From the client's SYN to the server's Finished at the client, seconds. With a tunnel that is
    /// set up within the trial, the time that its set-up took before the SYN is added.
    pub seconds_handshake: Option<f64>,
    /// From the client's SYN to the first byte of application data at the client, seconds. Of a
    /// tunnel's set-up the same holds.
    pub seconds_first_byte: Option<f64>,
    /// IP bytes that the link carried from client to server, the whole connection.
    pub link_bytes_up: u64,
    /// From server to client.
    pub link_bytes_down: u64,
    /// IP packets that the link carried from client to server, the whole connection.
    pub link_packets_up: u64,
    /// From server to client.
    pub link_packets_down: u64,
    /// Of the bytes that the link carried up: IP bytes of packets that came to it before the
    /// client had the server's Finished. With a tunnel all packets count, those of its set-up too
    /// where it is set up within the trial.
    pub handshake_bytes_up: u64,
    /// From server to client.
    pub handshake_bytes_down: u64,
    /// Of the bytes that the link carried up: TCP payload that belongs to the handshake, and the
    /// proxies' own options. Retransmissions count again, since the link carries them again. Null
    /// with a tunnel, where the link shows no TLS, and where the handshake did not come to its end.
    pub tls_bytes_up: Option<u64>,
    /// From server to client.
    pub tls_bytes_down: Option<u64>,
    /// Of both `tls_bytes`: the proxies' own TCP options. Null where these are.
    pub option_bytes: Option<u64>,
    /// The handshake's floor: fresh bytes, and 28 for each one-way flight. Null in TLS 1.3 where
    /// the server asked for another hello.
    pub floor_bytes: Option<u64>,
    /// What the IP bytes until the handshake's end are, which add up to both `handshake_bytes`.
    /// Null where that cannot be told: in TLS 1.3, and of tunnels that are not Tandem's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Parts>,
    /// Processor time of both proxies during the trial, microseconds; 0 where there are none.
    pub proxy_cpu_us: u64,
    /// The most memory that either proxy ever had resident, KiB; 0 where there are none.
    pub proxy_memory_kib: u64,
    /// What was the matter, in an experiment with situations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub situation: Option<Situation>,
    /// Of one of many clients that come one after the other: which visit of its it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coming: Option<Coming>,
    /// How many clients those are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<u64>,
    /// Segments that either endpoint sent although it had sent all of their bytes before. Null in
    /// rows of before it was counted, and where there was no connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint_repeats: Option<u64>,
    /// In which form the server's certificates crossed the link. Null where that was not looked
    /// at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crossed: Option<Crossed>,
    /// In which form the client's certificates crossed the link. Null where it shows none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_crossed: Option<Crossed>,
    /// How long the server program stood still with the hello at its host, for the situation to
    /// come about, seconds. It is part of both other times. Null where it did not stand still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staging_seconds: Option<f64>,
}

/// In which form certificates crossed the link, told from the bytes on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Crossed {
    /// As their owner sent them.
    Chain,
    /// By reference.
    Reference,
    /// Some by reference, some as they are.
    Part,
    /// By reference, and then as their owner sent them.
    ReferenceThenChain,
}

impl Crossed {
    /// As tables say it.
    pub fn name(self) -> &'static str {
        match self {
            Crossed::Chain => "chain",
            Crossed::Reference => "reference",
            Crossed::Part => "reference in part",
            Crossed::ReferenceThenChain => "reference, then chain",
        }
    }
}

impl Row {
    /// Until the handshake's end, without the time for which the server program stood still.
    pub fn seconds_unstaged(&self) -> Option<f64> {
        Some(self.seconds_handshake? - self.staging_seconds.unwrap_or(0.0))
    }

    /// TLS bytes both ways, where the link shows them.
    pub fn tls_bytes(&self) -> Option<u64> {
        Some(self.tls_bytes_up?.saturating_add(self.tls_bytes_down?))
    }

    /// IP bytes both ways, the whole connection.
    pub fn link_bytes(&self) -> u64 {
        self.link_bytes_up + self.link_bytes_down
    }

    /// IP bytes both ways until the handshake's end.
    pub fn handshake_bytes(&self) -> u64 {
        self.handshake_bytes_up + self.handshake_bytes_down
    }
}
