//! From single handshakes to totals: what each would have saved, and the rows it belongs to.
//!
//! Not the reading of handshakes, and not the writing: what a handshake saves is what the engine
//! says (`packet_mode`), except for what is encrypted ([`opt_in`]). `definitions.md` has the rules.
//! Invariants: memory is bounded by the limits; every handshake is in the totals, in one version
//! row and in one site row.

use std::collections::{BTreeMap, BTreeSet};

use tandem_store::{Digest, HostName, ObjectId, Site};
use tandem_trace::{CaptureFacts, Damage, Ending, Handshake, Rows, Stop, Tally};
use tandem_wire::tls::ProtocolVersion;

use crate::options::{Limits, Options};
use crate::packet_mode::{FIRST_WINDOW_BYTES, Pair};
use crate::report::{Assumptions, LinkTimes, Report, Share, SiteRow, Unreached, VersionRow, net};

/// What a rewritten chain is taken to cost where it cannot be written, being encrypted: 24 bytes of
/// frame and heads, 16 of reference. In clear the engine writes it.
pub const REWRITTEN_CHAIN_BYTES: u64 = 40;

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

/// Which chains, and which sites, were seen before: for what counts as different.
#[derive(Debug)]
struct ChainMemory {
    seen: BTreeSet<Digest>,
    limit: usize,
    beyond: u64,
}

impl ChainMemory {
    fn new(limit: usize) -> Self {
        Self {
            seen: BTreeSet::new(),
            limit,
            beyond: 0,
        }
    }

    /// Learns this chain of this site; true if it was known.
    fn learn(&mut self, site: &Site, chain: ObjectId) -> bool {
        self.learn_named(site, chain.as_bytes())
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
            self.beyond += 1;
        }
        false
    }
}

fn key(site: &Site, name: &[u8]) -> Digest {
    // A site's text has no zero byte, so no two pairs run together.
    Digest::of(&[site.to_string().as_bytes(), &[0], name].concat())
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
    memory: ChainMemory,
    /// The simulated proxies.
    pair: Pair,
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
            pair: Pair::new(),
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
        let is_known = handshake.chain.as_ref().is_some_and(|chain| {
            self.memory
                .learn(&site, ObjectId::of_list_contents(&chain.list))
        });
        let (cold, warm) = self.pair.carry(handshake, &site);
        let chain_der_bytes = handshake.chain.as_ref().map_or(0, |chain| chain.der_bytes);
        let share = Share {
            handshakes: 1,
            resumed_handshakes: u64::from(handshake.is_resumed),
            opaque_handshakes: u64::from(handshake.is_opaque),
            handshake_bytes: handshake.tally.bytes(),
            certificate_bytes: chain_der_bytes
                + handshake.other_der_bytes
                + handshake.client_der_bytes,
            saved_cold_bytes: cold.saved,
            saved_warm_bytes: warm.saved,
            options_cold_bytes: cold.options,
            options_warm_bytes: warm.options,
        };
        self.tally.add(&handshake.tally);
        self.enter_totals(handshake, &share, is_known);
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

    fn enter_totals(&mut self, handshake: &Handshake, share: &Share, is_known: bool) {
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
        report.options_cold_bytes += share.options_cold_bytes;
        report.options_warm_bytes += share.options_warm_bytes;
        if handshake.chain.is_some() {
            report.server_chains += 1;
            report.distinct_server_chains += u64::from(!is_known);
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
        if handshake.lacks_timestamps {
            reasons.push(&mut out.no_timestamps);
        }
        if handshake
            .chain
            .as_ref()
            .is_some_and(|chain| chain.ends_at > FIRST_WINDOW_BYTES)
            || handshake.clear_flight.len() as u64 > FIRST_WINDOW_BYTES
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
        let chains = self.memory.beyond;
        if chains > 0 {
            damage.push(Damage::StoreFull { chains });
        }

        let mut report = self.report;
        report.capture = capture;
        report.net_saved_cold_bytes = net(report.saved_cold_bytes, report.options_cold_bytes);
        report.net_saved_warm_bytes = net(report.saved_warm_bytes, report.options_warm_bytes);
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
            saved_cold_seconds: rate.seconds(report.saved_cold_bytes)
                - rate.seconds(report.options_cold_bytes),
            saved_warm_seconds: rate.seconds(report.saved_warm_bytes)
                - rate.seconds(report.options_warm_bytes),
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
