//! The figures, as a tree of plain numbers that serializes to the JSON that scripts read.
//!
//! Nothing is computed here beyond sums; `definitions.md` says what each figure means. Invariants,
//! held by tests: rows add up to totals; `bytes_by_message_type` adds up to `handshake_bytes`;
//! `saved_cold_bytes <= saved_warm_bytes`.

use std::collections::BTreeMap;

use serde::Serialize;
use tandem_trace::{CaptureFacts, Damage};

/// What a capture gave: the figures, and what could not be read.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The figures.
    #[serde(flatten)]
    pub report: Report,
    /// What could not be read, and why. Empty: everything was.
    pub damage: Vec<Damage>,
}

impl Outcome {
    /// One JSON object: the report's fields and `damage`. Ends without a line break.
    ///
    /// # Errors
    /// Never for outcomes of this crate; an outcome made elsewhere may hold a link time that is not
    /// a number.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }
}

/// All figures of a capture. Bytes are bytes of TLS records unless a field says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// TLS handshakes found, those after STARTTLS included.
    pub handshakes: u64,
    /// Of them, both Finished seen.
    pub completed_handshakes: u64,
    /// Of them, ended by a fatal alert in clear or by an answer that is not TLS.
    pub failed_handshakes: u64,
    /// Of them, abbreviated: a session or a pre-shared key was used again, no certificate sent.
    pub resumed_handshakes: u64,
    /// Of them, TLS 1.3 and its drafts: certificates are encrypted and out of level 0's reach.
    pub opaque_handshakes: u64,
    /// Of them, with a client certificate in clear.
    pub client_certificate_handshakes: u64,
    /// Of them, found inside tunnels: proxies have to stand where these are unpacked.
    pub tunnelled_handshakes: u64,
    /// The same by the outermost tunnel.
    pub tunnelled_handshakes_by_tunnel: BTreeMap<String, u64>,
    /// Bytes of all handshakes, record headers included, both directions.
    pub handshake_bytes: u64,
    /// DER bytes in all Certificate messages in clear, servers' and clients'.
    pub certificate_bytes: u64,
    /// Of them, clients'.
    pub client_certificate_bytes: u64,
    /// What packet mode would have saved with a store that is empty at the first packet and
    /// learns.
    pub saved_cold_bytes: u64,
    /// What packet mode would have saved with a store that holds every chain from the start.
    pub saved_warm_bytes: u64,
    /// The proxies' own TCP options, to be subtracted from `saved_cold_bytes`.
    pub options_cold_bytes: u64,
    /// The same for `saved_warm_bytes`.
    pub options_warm_bytes: u64,
    /// What is left of `saved_cold_bytes`; below zero where nothing was there to be saved.
    pub net_saved_cold_bytes: i64,
    /// What is left of `saved_warm_bytes`.
    pub net_saved_warm_bytes: i64,
    /// Servers' chains seen in clear.
    pub server_chains: u64,
    /// Of them, different ones, counted once for each site.
    pub distinct_server_chains: u64,
    /// Handshakes with bytes that packet mode leaves alone today, by reason.
    pub out_of_reach: OutOfReach,
    /// What sharing handshake keys would bring for TLS 1.3. Estimated.
    pub opt_in: OptIn,
    /// The link's time, where a rate was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkTimes>,
    /// A row for each version, oldest first; "unknown" where no ServerHello was seen.
    pub by_version: Vec<VersionRow>,
    /// Bytes by handshake message type, and by what else a handshake is made of. Adds up to
    /// `handshake_bytes`.
    pub bytes_by_message_type: BTreeMap<String, u64>,
    /// How many of each.
    pub messages_by_type: BTreeMap<String, u64>,
    /// A row for each site, the one whose handshakes cost most first.
    pub sites: Vec<SiteRow>,
    /// What the capture is made of.
    pub capture: CaptureFacts,
    /// Numbers that are assumed and not measured.
    pub assumptions: Assumptions,
}

/// Handshakes that packet mode leaves alone. One handshake may have two reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OutOfReach {
    /// TLS 1.3: needs opting in.
    pub encrypted_certificates: Unreached,
    /// The handshake starts after a plain-text dialogue: STARTTLS and the like.
    pub after_plaintext: Unreached,
    /// The same, by the protocol of the dialogue.
    pub after_plaintext_by_protocol: BTreeMap<String, u64>,
    /// The client's hello has SSL 2.0's format.
    pub old_hello: Unreached,
    /// The connection has no TCP timestamps, without which nothing is harmless: clients on Windows,
    /// mostly.
    pub no_timestamps: Unreached,
    /// The chain ends beyond the server's first window, so holding it back would stall the server.
    pub large_flight: Unreached,
    /// Connections that are SSL 2.0 throughout. Not among `handshakes`.
    pub ssl2_connections: u64,
}

/// One reason's share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Unreached {
    /// Handshakes.
    pub handshakes: u64,
    /// Their bytes.
    pub handshake_bytes: u64,
    /// DER bytes of the servers' certificates in them that are in clear.
    pub certificate_bytes: u64,
}

/// What level 1 would bring for TLS 1.3, estimated from the sizes of the servers' encrypted
/// flights.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OptIn {
    /// How it is estimated, for people.
    pub method: &'static str,
    /// TLS 1.3 handshakes with a server's encrypted flight in the capture.
    pub handshakes: u64,
    /// Of them, those that are not resumed, so that a certificate must be in the flight.
    pub full_handshakes: u64,
    /// Bytes of the encrypted flights, record headers included.
    pub encrypted_flight_bytes: u64,
    /// Of them, certificate lists. Estimated.
    pub certificate_bytes_estimated: u64,
    /// Saved with a store that learns; a site's chain counts as known once the site was seen.
    /// Estimated.
    pub saved_cold_bytes_estimated: u64,
    /// Saved with a store that holds every chain. Estimated.
    pub saved_warm_bytes_estimated: u64,
}

/// Seconds on a link, for the bytes alone: no headers, losses or round trips.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LinkTimes {
    /// The rate given, bits per second.
    pub bits_per_second: u64,
    /// Seconds that all handshakes take.
    pub handshake_seconds: f64,
    /// Seconds that the cold store saves, less what the options take.
    pub saved_cold_seconds: f64,
    /// Seconds that the warm store saves, less what the options take.
    pub saved_warm_seconds: f64,
    /// Seconds that opting in saves besides, store warm. Estimated.
    pub opt_in_saved_warm_seconds_estimated: f64,
}

/// One version's share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VersionRow {
    /// Its name.
    pub version: String,
    /// The shares.
    #[serde(flatten)]
    pub share: Share,
}

/// One site's share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SiteRow {
    /// The server name of the hello, else the server's address and port.
    pub site: String,
    /// The shares.
    #[serde(flatten)]
    pub share: Share,
    /// What opting in would save, store warm. Estimated.
    pub opt_in_saved_warm_bytes_estimated: u64,
}

/// What handshakes of one kind cost and would have saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Handshakes.
    pub handshakes: u64,
    /// Of them, resumed.
    pub resumed_handshakes: u64,
    /// Of them, TLS 1.3.
    pub opaque_handshakes: u64,
    /// Bytes.
    pub handshake_bytes: u64,
    /// DER bytes in Certificate messages in clear, both directions.
    pub certificate_bytes: u64,
    /// Saved with a store that learns.
    pub saved_cold_bytes: u64,
    /// Saved with a store that holds every chain.
    pub saved_warm_bytes: u64,
    /// The proxies' own TCP options with a store that learns: to be subtracted.
    pub options_cold_bytes: u64,
    /// The same with a store that holds every chain.
    pub options_warm_bytes: u64,
}

impl Share {
    /// Saved with a store that learns, less the proxies' own options.
    #[must_use]
    pub fn net_saved_cold(&self) -> i64 {
        net(self.saved_cold_bytes, self.options_cold_bytes)
    }

    /// Saved with a store that holds every chain, less the proxies' own options.
    #[must_use]
    pub fn net_saved_warm(&self) -> i64 {
        net(self.saved_warm_bytes, self.options_warm_bytes)
    }

    /// Adds another share.
    pub(crate) fn add(&mut self, other: &Self) {
        self.handshakes += other.handshakes;
        self.resumed_handshakes += other.resumed_handshakes;
        self.opaque_handshakes += other.opaque_handshakes;
        self.handshake_bytes += other.handshake_bytes;
        self.certificate_bytes += other.certificate_bytes;
        self.saved_cold_bytes += other.saved_cold_bytes;
        self.saved_warm_bytes += other.saved_warm_bytes;
        self.options_cold_bytes += other.options_cold_bytes;
        self.options_warm_bytes += other.options_warm_bytes;
    }
}

/// What is left of savings after the proxies' own options.
pub(crate) fn net(saved: u64, options: u64) -> i64 {
    i64::try_from(saved).unwrap_or(i64::MAX) - i64::try_from(options).unwrap_or(i64::MAX)
}

/// Numbers that are assumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Assumptions {
    /// Bytes that a rewritten chain costs on the link, for what opting in would bring.
    pub rewritten_chain_bytes: u64,
    /// Bytes of the first window that a chain must end in.
    pub first_window_bytes: u64,
}
