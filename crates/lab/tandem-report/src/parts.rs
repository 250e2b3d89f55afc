//! What the IP bytes of a handshake are, as a row says it.
//!
//! Invariant: a row's parts add up to the IP bytes that the link carried until Finished.

use serde::{Deserialize, Serialize};

/// IP bytes until Finished, by what they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Parts {
    /// Fresh bytes of the handshake.
    pub fresh: u64,
    /// The proxies' framing and references.
    pub ours: u64,
    /// Headers of IP, and of UDP or TCP, of packets with data.
    pub headers: u64,
    /// QUIC's header, frames, tag and padding in packets with data; 0 without it.
    pub quic: u64,
    /// Packets without data: acknowledgements, TCP's SYN and FIN.
    pub bare: u64,
    /// What else of the handshake crosses.
    pub rest: u64,
}

impl Parts {
    /// All of them.
    pub fn total(&self) -> u64 {
        let Self {
            fresh,
            ours,
            headers,
            quic,
            bare,
            rest,
        } = *self;
        [ours, headers, quic, bare, rest]
            .into_iter()
            .fold(fresh, u64::saturating_add)
    }
}
