//! What a proxy is told at its start: its role, the format of its messages, its key and its limits.
//!
//! Is not: a file format; the configuration file and the flags are the adapter's.

use std::time::Duration;

use tandem_engine::thesis::Codes;
pub use tandem_engine::{ClientCertificates, Role};
use tandem_link::inband::Key;

/// The format of what the proxies say to each other in packet mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireFormat {
    /// Harmless unless rebuilt: presence in a TCP option, hints in another, flights in segments
    /// that an endpoint discards.
    Safe,
    /// The thesis's: a ClientHello extension and a handshake message. It assumes that the other
    /// proxy is there.
    Mcveety(Codes),
}

/// How a proxy works. Everything is fixed at the start.
#[derive(Debug, Clone)]
pub struct Config {
    /// On which side of the link.
    pub role: Role,
    /// In which format.
    pub wire: WireFormat,
    /// What is done with clients' certificates. Default [`ClientCertificates::Persistent`].
    pub client_certificates: ClientCertificates,
    /// The key that the pair shares. `None` only where the operator insisted; options then prove
    /// nothing.
    pub key: Option<Key>,
    /// The servers' TCP ports. Everything else passes.
    pub ports: Vec<u16>,
    /// Bounds on time and memory.
    pub limits: Limits,
}

/// Bounds. Past any of them the endpoints' own packets go through unaltered; no connection is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most segments of one flight that are held. Default 64: a server's first flight is at most
    /// ten full segments (RFC 6928), more only where it sends small ones. 0: nothing is ever
    /// rewritten.
    pub hold_segments: usize,
    /// Most payload bytes of one flight that are held. Default 32,768: twice the first flight's
    /// ten segments, and what a frame may stand for is twice that.
    pub hold_bytes: usize,
    /// Longest that a flight is held, from its first segment. Default 200 ms, the least
    /// retransmission time-out of the usual stacks: a held flight is never the reason of a
    /// retransmission. More helps servers that compute for long between two messages; less
    /// costs savings where they do.
    pub hold_time: Duration,
    /// Longest that a pure ACK is held, for the next segment to say it again. Default 40 ms, what
    /// Linux's own delayed acknowledgements wait at least; RFC 9293 (section 3.8.6.3) allows
    /// 500. 0: none is held.
    pub ack_time: Duration,
    /// Most flows that are followed. Default 16,384. Past it the oldest is given up.
    pub flows: usize,
    /// Most bytes that all flows together may buffer. Default 64 MiB. Past it the oldest flow is
    /// given up.
    pub memory: usize,
    /// How long a handshake may take before its flow is given up. Default 300 s: five minutes of
    /// outage. Less than the two minutes for which a client repeats its SYN makes each late
    /// repeat look like a first one.
    pub flow_lifetime: Duration,
    /// Largest IP packet that may be sent to either side, in bytes. Default 1,500 (Ethernet); the
    /// adapter sets the link's.
    pub mtu: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            hold_segments: 64,
            hold_bytes: 32_768,
            hold_time: Duration::from_millis(200),
            ack_time: Duration::from_millis(40),
            flows: 16_384,
            memory: 64 << 20,
            flow_lifetime: Duration::from_secs(300),
            mtu: 1_500,
        }
    }
}
