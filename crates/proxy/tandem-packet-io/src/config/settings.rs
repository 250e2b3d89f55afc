//! What the user said, before it is checked.
//!
//! Is not: a decision on any value ([`super::Config::resolve`]), nor the settings file, which the
//! program reads.

use std::path::PathBuf;

use serde::Deserialize;

/// Every setting of packet mode, all of them optional.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Settings {
    /// The interface of the link. No default.
    pub link: Option<String>,
    /// `packet` (default) or `pass-through`.
    pub mode: Option<String>,
    /// Why it is this mode; `None`: it was asked for.
    #[serde(skip)]
    pub mode_reason: Option<&'static str>,
    /// `safe` (default) or `mcveety`.
    pub wire: Option<String>,
    /// `persistent` (default), `cii`, `filter` or `none`.
    pub client_certificates: Option<String>,
    /// Number of the hello's extension, with `cii`. Default 0x009a.
    pub cii_extension: Option<u16>,
    /// One in so many chains passes for held though it is not, with `filter`. Default 256.
    pub filter_one_in: Option<u32>,
    /// Code point of the possession extension, with `mcveety`. Default 0x0099.
    pub mcveety_cpi: Option<u16>,
    /// Handshake type of the compressed certificate, with `mcveety`. Default 0x99.
    pub mcveety_certificate: Option<u8>,
    /// The file of the key that the pair shares: 64 hex digits.
    pub key: Option<PathBuf>,
    /// Whether to do without a key. Default false.
    pub insecure_no_key: Option<bool>,
    /// Ports of the servers. Default 443.
    pub ports: Option<Vec<u16>>,
    /// Directory of the store.
    pub store: Option<PathBuf>,
    /// `ADDRESS:PORT` of the admin port, or `none`. Port 0: any that is free.
    pub admin: Option<String>,
    /// Segments of one unfinished flight that are held.
    pub hold_packets: Option<usize>,
    /// Bytes of one unfinished flight that are held.
    pub hold_bytes: Option<usize>,
    /// Milliseconds that an unfinished flight is held.
    pub hold_ms: Option<u64>,
    /// Milliseconds that an acknowledgement waits for the next segment to say it again; 0: none
    /// waits.
    pub ack_hold_ms: Option<u64>,
    /// Flows that are known at one time.
    pub max_flows: Option<usize>,
    /// Number of the packet queue. Default: derived from role and link.
    pub queue: Option<u16>,
    /// The mark bit of connections that have left the queue. Default: the first free.
    pub leave_mark: Option<u32>,
    /// The mark bit of injected packets. Default: the first free.
    pub inject_mark: Option<u32>,
}
