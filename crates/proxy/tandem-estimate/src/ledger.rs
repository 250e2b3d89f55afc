//! From single handshakes to totals: what each would have saved, and the rows it belongs to.
//!
//! Not the reading of handshakes. What is saved, and when, is decided in [`savings`] and [`opt_in`]
//! alone, by the rules of `definitions.md`. Invariants: memory is bounded by the limits; every
//! handshake is in the totals, in one version row and in one site row.

use std::collections::{BTreeMap, BTreeSet};

use tandem_store::{ChainId, Digest, HostName, Site};
use tandem_trace::{CaptureFacts, Damage, Ending, Handshake, Rows, ServerChain, Stop, Tally};
use tandem_wire::tls::ProtocolVersion;

use crate::options::{Limits, Options};
use crate::report::{Assumptions, LinkTimes, Report, Share, SiteRow, Unreached, VersionRow};

/// What a rewritten flight carries besides references and what is not saved: envelope, mark and
/// check. An assumption, until packet mode's format says it itself.
pub const DELTA_FRAME_BYTES: u64 = 24;
/// Bytes that name one chain in a rewritten flight: the prefix of its SHA-256 (packet mode's
/// reference).
pub const CHAIN_REFERENCE_BYTES: u64 = 16;
/// What a rewritten chain costs.
pub const REWRITTEN_CHAIN_BYTES: u64 = DELTA_FRAME_BYTES + CHAIN_REFERENCE_BYTES;
/// What a further reference in a rewritten flight costs: its name, a copy of two-byte lengths, and
/// the literal that it cuts in two.
pub(crate) const FURTHER_REFERENCE_BYTES: u64 = CHAIN_REFERENCE_BYTES + 7;
/// Lists of issuers that a hint names to a site that was not seen before: what packet mode has room
/// for.
const HINTED_ISSUERS: usize = 4;

/// A server's first window: ten segments of 1,460 bytes (RFC 6928, section 2). A chain that ends
/// beyond it cannot be held back until it is whole, since the server waits for acknowledgements
/// that a proxy never makes up.
pub const FIRST_WINDOW_BYTES: u64 = 14_600;

/// What is in a server's encrypted flight besides the certificate list, where the list is there:
/// EncryptedExtensions 32 (typical), framing of Certificate 12, CertificateVerify with RSA-2048 264
/// (an ECDSA one is shorter: the estimate is then too low), Finished with SHA-384 52. RFC 8446,
/// sections 4.3.1, 4.4.2 to 4.4.4.
const ENCRYPTED_BESIDES_CERTIFICATES: u64 = 32 + 12 + 264 + 52;
/// What each encrypted record has besides content: content type and AEAD tag (RFC 8446, section
/// 5.2).
const ENCRYPTED_RECORD_EXTRA: u64 = 1 + 16;
/// How the estimate is made, for readers of the report.
const OPT_IN_METHOD: &str = "estimated from the size of each server's encrypted flight, up to the record that the client's first \
    handshake record acknowledges: less 360 bytes for the other messages and 17 for each record, the rest is taken to be the \
    certificate list; resumed handshakes count as without one; a site's chain counts as known to a cold store once the site was seen";
/// The row of sites beyond the limit.
const OTHER_SITES: &str = "(all other sites)";

/// The simulated store: which chains were seen from which site.
#[derive(Debug)]
pub(crate) struct ChainMemory {
    seen: BTreeSet<Digest>,
    /// What else was seen: issuers of a site, and what it sent beside its chain.
    parts: BTreeSet<Digest>,
    /// Issuers seen last at any site, the newest first.
    issuers: Vec<ChainId>,
    limit: usize,
    not_learned: u64,
}

impl ChainMemory {
    fn new(limit: usize) -> Self {
        Self {
            seen: BTreeSet::new(),
            parts: BTreeSet::new(),
            issuers: Vec::new(),
            limit,
            not_learned: 0,
        }
    }

    /// Learns this chain of this site; true if it was known.
    pub(crate) fn learn(&mut self, site: &Site, chain: ChainId) -> bool {
        self.learn_named(site, chain.as_bytes())
    }

    /// Learns the issuers in a chain of this site; true if it had shown them before, or they are
    /// among those that a hint names to a site that was not seen before.
    pub(crate) fn learn_issuers(&mut self, site: &Site, issuers: ChainId) -> bool {
        let newest = self.issuers.iter().position(|known| *known == issuers);
        if let Some(index) = newest {
            self.issuers.remove(index);
        }
        self.issuers.insert(0, issuers);
        self.issuers.truncate(HINTED_ISSUERS);
        self.learn_part(site, issuers.as_bytes()) || newest.is_some()
    }

    /// Learns what this site sent beside its chain; true if it had sent just this before.
    pub(crate) fn learn_extras(&mut self, site: &Site, digests: &[u8]) -> bool {
        self.learn_part(site, digests)
    }

    fn learn_part(&mut self, site: &Site, name: &[u8]) -> bool {
        let key = key(site, name);
        let known = self.parts.contains(&key);
        if !known && self.parts.len() < self.limit {
            self.parts.insert(key);
        }
        known
    }

    /// Learns that this site was seen; true if it was known.
    fn learn_site(&mut self, site: &Site) -> bool {
        self.learn_named(site, b"any chain")
    }

    fn learn_named(&mut self, site: &Site, name: &[u8]) -> bool {
        let key = key(site, name);
        if self.seen.contains(&key) {
            return true;
        }
        if self.seen.len() < self.limit {
            self.seen.insert(key);
        } else {
            self.not_learned += 1;
        }
        false
    }
}

fn key(site: &Site, name: &[u8]) -> Digest {
    // A site's text has no zero byte, so no two pairs run together.
    Digest::of(&[site.to_string().as_bytes(), &[0], name].concat())
}

/// What a store that learned from this capture held of a handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Known {
    chain: bool,
    /// Of the list, bytes of what is behind the leaf, where that is held.
    issuers_bytes: u64,
    extras: bool,
}

impl Known {
    /// What is held of this handshake; all of it is held from here on.
    fn learn(memory: &mut ChainMemory, site: &Site, handshake: &Handshake) -> Self {
        let mut known = Self::default();
        if let Some(ServerChain { list, leaf_len, .. }) = &handshake.chain {
            let issuers = list.get(*leaf_len..).unwrap_or_default();
            if !issuers.is_empty() && memory.learn_issuers(site, ChainId::of_list_contents(issuers))
            {
                known.issuers_bytes = issuers.len() as u64;
            }
            known.chain = memory.learn(site, ChainId::of_list_contents(list));
        }
        if let Some(extras) = &handshake.extras {
            known.extras = memory.learn_extras(site, &extras.messages);
        }
        known
    }
}

/// What one handshake would have saved in packet mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Savings {
    cold: u64,
    warm: u64,
}

/// Packet mode's savings, where nothing stands in the way: the certificate list less its reference,
/// or of a list that is not known the issuers; and what comes beside it, less another reference.
fn savings(handshake: &Handshake, known: Known) -> Savings {
    let in_reach = handshake.dialogue.is_none() && !handshake.old_hello && !handshake.is_opaque;
    let Some(chain) = handshake
        .chain
        .as_ref()
        .filter(|chain| in_reach && chain.ends_at <= FIRST_WINDOW_BYTES)
    else {
        return Savings::default();
    };
    let beside = handshake
        .extras
        .as_ref()
        .filter(|extras| extras.ends_at <= FIRST_WINDOW_BYTES)
        .map_or(0, |extras| {
            (extras.messages.len() as u64).saturating_sub(FURTHER_REFERENCE_BYTES)
        });
    let chain_saved = |bytes: u64| bytes.saturating_sub(REWRITTEN_CHAIN_BYTES);
    let list_bytes = chain.list.len() as u64;
    let cold = if known.chain {
        chain_saved(list_bytes)
    } else {
        chain_saved(known.issuers_bytes)
    };
    Savings {
        cold: cold + if known.extras { beside } else { 0 },
        warm: chain_saved(list_bytes) + beside,
    }
}

/// What opting in would bring for one TLS 1.3 handshake: bytes of the certificate list, and of them
/// saved. Estimated.
fn opt_in(handshake: &Handshake) -> (u64, u64) {
    let flight = handshake.server_flight;
    if handshake.is_resumed || handshake.dialogue.is_some() || flight.records == 0 {
        return (0, 0);
    }
    let besides = ENCRYPTED_BESIDES_CERTIFICATES + flight.records * ENCRYPTED_RECORD_EXTRA;
    let certificates = flight.fragment_bytes.saturating_sub(besides);
    (
        certificates,
        certificates.saturating_sub(REWRITTEN_CHAIN_BYTES),
    )
}

/// Whose handshake it is: the server name of the hello, else the server's address and port.
fn site(handshake: &Handshake) -> Site {
    handshake
        .server_name
        .as_deref()
        .and_then(|name| HostName::new(name).ok())
        .map_or(Site::Address(handshake.server), Site::Name)
}

/// The totals so far.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// The simulated store.
    memory: ChainMemory,
    report: Report,
    tally: Tally,
    versions: BTreeMap<u32, (String, Share)>,
    sites: BTreeMap<Site, SiteShare>,
    other_sites: SiteShare,
    sites_limit: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct SiteShare {
    share: Share,
    opt_in: u64,
}

impl Ledger {
    /// An empty ledger.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            memory: ChainMemory::new(limits.chains),
            report: Report::default(),
            tally: Tally::default(),
            versions: BTreeMap::new(),
            sites: BTreeMap::new(),
            other_sites: SiteShare::default(),
            sites_limit: limits.sites,
        }
    }

    fn enter(&mut self, handshake: &Handshake) {
        let site = site(handshake);
        let known = Known::learn(&mut self.memory, &site, handshake);
        let saved = savings(handshake, known);
        let chain_der_bytes = handshake.chain.as_ref().map_or(0, |chain| chain.der_bytes);
        let share = Share {
            handshakes: 1,
            resumed_handshakes: u64::from(handshake.is_resumed),
            opaque_handshakes: u64::from(handshake.is_opaque),
            handshake_bytes: handshake.tally.bytes(),
            certificate_bytes: chain_der_bytes
                + handshake.other_der_bytes
                + handshake.client_der_bytes,
            saved_cold_bytes: saved.cold,
            saved_warm_bytes: saved.warm,
        };
        self.tally.add(&handshake.tally);
        self.enter_totals(handshake, &share, known);
        self.enter_out_of_reach(handshake, &share, chain_der_bytes);
        let opt_in_saved = self.enter_opt_in(handshake, &site);

        let (number, name) = (
            version_number(handshake.version),
            version_name(handshake.version, handshake.is_opaque),
        );
        self.versions
            .entry(number)
            .or_insert_with(|| (name, Share::default()))
            .1
            .add(&share);
        let row = if self.sites.len() < self.sites_limit || self.sites.contains_key(&site) {
            self.sites.entry(site).or_default()
        } else {
            &mut self.other_sites
        };
        row.share.add(&share);
        row.opt_in += opt_in_saved;
    }

    fn enter_totals(&mut self, handshake: &Handshake, share: &Share, known: Known) {
        let report = &mut self.report;
        report.handshakes += 1;
        report.resumed_handshakes += share.resumed_handshakes;
        report.opaque_handshakes += share.opaque_handshakes;
        report.handshake_bytes += share.handshake_bytes;
        report.certificate_bytes += share.certificate_bytes;
        if let Some(tunnel) = handshake.tunnel {
            report.tunnelled_handshakes += 1;
            let by_tunnel = &mut report.tunnelled_handshakes_by_tunnel;
            *by_tunnel.entry(tunnel.name().to_owned()).or_default() += 1;
        }
        report.client_certificate_bytes += handshake.client_der_bytes;
        report.client_certificate_handshakes += u64::from(handshake.client_certificate);
        report.saved_cold_bytes += share.saved_cold_bytes;
        report.saved_warm_bytes += share.saved_warm_bytes;
        if handshake.chain.is_some() {
            report.server_chains += 1;
            report.distinct_server_chains += u64::from(!known.chain);
        }
        match handshake.ending {
            Ending::Completed => report.completed_handshakes += 1,
            Ending::Stopped(Stop::Alert | Stop::NoTls) => report.failed_handshakes += 1,
            Ending::Stopped(Stop::BrokenTls | Stop::TooLarge) | Ending::Unfinished => {}
        }
    }

    fn enter_out_of_reach(&mut self, handshake: &Handshake, share: &Share, chain_der_bytes: u64) {
        let out = &mut self.report.out_of_reach;
        let mut reasons: Vec<&mut Unreached> = Vec::new();
        if handshake.is_opaque {
            reasons.push(&mut out.encrypted_certificates);
        }
        if let Some(dialogue) = handshake.dialogue {
            *out.after_plaintext_by_protocol
                .entry(dialogue.name().to_owned())
                .or_default() += 1;
            reasons.push(&mut out.after_plaintext);
        }
        if handshake.old_hello {
            reasons.push(&mut out.old_hello);
        }
        if handshake
            .chain
            .as_ref()
            .is_some_and(|chain| chain.ends_at > FIRST_WINDOW_BYTES)
        {
            reasons.push(&mut out.large_flight);
        }
        for reason in reasons {
            reason.handshakes += 1;
            reason.handshake_bytes += share.handshake_bytes;
            reason.certificate_bytes += chain_der_bytes;
        }
    }

    fn enter_opt_in(&mut self, handshake: &Handshake, site: &Site) -> u64 {
        if !handshake.is_opaque || handshake.server_flight.records == 0 {
            return 0;
        }
        let (certificates, saved) = opt_in(handshake);
        let known = !handshake.is_resumed && self.memory.learn_site(site);
        let totals = &mut self.report.opt_in;
        totals.handshakes += 1;
        totals.full_handshakes += u64::from(!handshake.is_resumed);
        totals.encrypted_flight_bytes += handshake.server_flight.record_bytes();
        totals.certificate_bytes_estimated += certificates;
        totals.saved_warm_bytes_estimated += saved;
        totals.saved_cold_bytes_estimated += if known { saved } else { 0 };
        saved
    }

    /// The report, and what of the damage the ledger knows.
    pub(crate) fn into_report(
        self,
        capture: CaptureFacts,
        options: &Options,
        damage: &mut Vec<Damage>,
    ) -> Report {
        let lumped = self.other_sites.share.handshakes;
        if lumped > 0 {
            damage.push(Damage::SitesLumped { handshakes: lumped });
        }
        let chains = self.memory.not_learned;
        if chains > 0 {
            damage.push(Damage::StoreFull { chains });
        }

        let mut report = self.report;
        report.capture = capture;
        report.opt_in.method = OPT_IN_METHOD;
        report.assumptions = Assumptions {
            rewritten_chain_bytes: REWRITTEN_CHAIN_BYTES,
            first_window_bytes: FIRST_WINDOW_BYTES,
        };
        report.by_version = self
            .versions
            .into_values()
            .map(|(version, share)| VersionRow { version, share })
            .collect();
        for (part, tally) in self.tally.parts() {
            let name = part.name().into_owned();
            *report
                .bytes_by_message_type
                .entry(name.clone())
                .or_default() += tally.bytes;
            *report.messages_by_type.entry(name).or_default() += tally.count;
        }
        report.sites = site_rows(self.sites, self.other_sites);
        report.link = options.link_rate.map(|rate| LinkTimes {
            bits_per_second: rate.bits_per_second(),
            handshake_seconds: rate.seconds(report.handshake_bytes),
            saved_cold_seconds: rate.seconds(report.saved_cold_bytes),
            saved_warm_seconds: rate.seconds(report.saved_warm_bytes),
            opt_in_saved_warm_seconds_estimated: rate
                .seconds(report.opt_in.saved_warm_bytes_estimated),
        });
        report
    }
}

impl Rows for Ledger {
    fn handshake(&mut self, handshake: &Handshake) {
        self.enter(handshake);
    }

    fn ssl2_connection(&mut self) {
        self.report.out_of_reach.ssl2_connections += 1;
    }
}

fn site_rows(sites: BTreeMap<Site, SiteShare>, others: SiteShare) -> Vec<SiteRow> {
    let row = |site: String, share: SiteShare| SiteRow {
        site,
        share: share.share,
        opt_in_saved_warm_bytes_estimated: share.opt_in,
    };
    let mut rows: Vec<SiteRow> = sites
        .into_iter()
        .map(|(site, share)| row(site.to_string(), share))
        .collect();
    // The sort is stable, so that equal costs stay in the order of names.
    rows.sort_by_key(|row| std::cmp::Reverse(row.share.handshake_bytes));
    if others.share.handshakes > 0 {
        rows.push(row(OTHER_SITES.to_owned(), others));
    }
    rows
}

/// Rows of versions stand in this order: by number, drafts and experiments behind, "unknown" last.
fn version_number(version: Option<ProtocolVersion>) -> u32 {
    version.map_or(u32::MAX, |version| u32::from(version.0))
}

fn version_name(version: Option<ProtocolVersion>, is_opaque: bool) -> String {
    match version {
        None => "unknown".to_owned(),
        Some(version)
            if is_opaque
                && version.0 > ProtocolVersion::TLS1_3.0
                && version.tls13_draft().is_none() =>
        {
            format!("TLS 1.3 experiment {version}")
        }
        Some(version) => version.to_string(),
    }
}
