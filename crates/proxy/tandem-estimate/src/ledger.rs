//! From single handshakes to totals: what each would have saved, and the rows it belongs to.
//!
//! Not the reading of handshakes. What is saved, and when, is decided in [`savings`] and [`opt_in`]
//! alone, by the rules of `definitions.md`. Invariants: memory is bounded by the limits; every
//! handshake is in the totals, in one version row and in one site row.

use std::collections::{BTreeMap, BTreeSet};

use tandem_store::{ChainId, Digest, Site};
use tandem_wire::tls::ProtocolVersion;

use crate::damage::{Damage, DamageLog};
use crate::options::{Limits, Options};
use crate::report::{
    Assumptions, CaptureFacts, LinkTimes, Report, Share, SiteRow, Unreached, VersionRow,
};
use crate::session::{Ending, Stop, Summary};
use crate::tally::Tally;

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

/// What one handshake would have saved in packet mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Savings {
    cold: u64,
    warm: u64,
}

/// Packet mode's savings, where nothing stands in the way: the certificate list less its reference,
/// or of a list that is not known the issuers; and what comes beside it, less another reference.
fn savings(summary: &Summary) -> Savings {
    let in_reach = summary.dialogue.is_none() && !summary.old_hello && !summary.is_opaque;
    let Some(chain) = summary
        .chain
        .filter(|chain| in_reach && chain.ends_at <= FIRST_WINDOW_BYTES)
    else {
        return Savings::default();
    };
    let beside = summary
        .extras
        .filter(|extras| extras.ends_at <= FIRST_WINDOW_BYTES)
        .map_or((0, false), |extras| {
            let saved = extras.bytes.saturating_sub(FURTHER_REFERENCE_BYTES);
            (saved, extras.known)
        });
    let chain_saved = |bytes: u64| bytes.saturating_sub(REWRITTEN_CHAIN_BYTES);
    let cold = if chain.known {
        chain_saved(chain.list_bytes)
    } else {
        chain_saved(chain.known_issuers_bytes)
    };
    Savings {
        cold: cold + if beside.1 { beside.0 } else { 0 },
        warm: chain_saved(chain.list_bytes) + beside.0,
    }
}

/// What opting in would bring for one TLS 1.3 handshake: bytes of the certificate list, and of them
/// saved. Estimated.
fn opt_in(summary: &Summary) -> (u64, u64) {
    let flight = summary.server_flight;
    if summary.is_resumed || summary.dialogue.is_some() || flight.records == 0 {
        return (0, 0);
    }
    let besides = ENCRYPTED_BESIDES_CERTIFICATES + flight.records * ENCRYPTED_RECORD_EXTRA;
    let certificates = flight.fragment_bytes.saturating_sub(besides);
    (
        certificates,
        certificates.saturating_sub(REWRITTEN_CHAIN_BYTES),
    )
}

/// Connections whose handshake could not be read to its end, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    pub(crate) gaps: u64,
    pub(crate) conflicts: u64,
    pub(crate) given_up: u64,
}

/// The totals so far.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// The simulated store.
    pub(crate) memory: ChainMemory,
    /// What the tracker could not read.
    pub(crate) losses: Losses,
    report: Report,
    tally: Tally,
    versions: BTreeMap<u32, (String, Share)>,
    sites: BTreeMap<Site, SiteShare>,
    other_sites: SiteShare,
    sites_limit: usize,
    broken: u64,
    too_large: u64,
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
            losses: Losses::default(),
            report: Report::default(),
            tally: Tally::default(),
            versions: BTreeMap::new(),
            sites: BTreeMap::new(),
            other_sites: SiteShare::default(),
            sites_limit: limits.sites,
            broken: 0,
            too_large: 0,
        }
    }

    /// A connection turned out to be SSL 2.0 throughout.
    pub(crate) fn ssl2_connection(&mut self) {
        self.report.out_of_reach.ssl2_connections += 1;
    }

    /// Enters one handshake.
    pub(crate) fn enter(&mut self, summary: &Summary) {
        let saved = savings(summary);
        let chain_der_bytes = summary.chain.map_or(0, |chain| chain.der_bytes);
        let share = Share {
            handshakes: 1,
            resumed_handshakes: u64::from(summary.is_resumed),
            opaque_handshakes: u64::from(summary.is_opaque),
            handshake_bytes: summary.tally.bytes(),
            certificate_bytes: chain_der_bytes + summary.other_der_bytes + summary.client_der_bytes,
            saved_cold_bytes: saved.cold,
            saved_warm_bytes: saved.warm,
        };
        self.tally.add(&summary.tally);
        self.enter_totals(summary, &share);
        self.enter_out_of_reach(summary, &share, chain_der_bytes);
        let opt_in_saved = self.enter_opt_in(summary);

        let (number, name) = (
            version_number(summary.version),
            version_name(summary.version, summary.is_opaque),
        );
        self.versions
            .entry(number)
            .or_insert_with(|| (name, Share::default()))
            .1
            .add(&share);
        let row = if self.sites.len() < self.sites_limit || self.sites.contains_key(&summary.site) {
            self.sites.entry(summary.site.clone()).or_default()
        } else {
            &mut self.other_sites
        };
        row.share.add(&share);
        row.opt_in += opt_in_saved;
    }

    fn enter_totals(&mut self, summary: &Summary, share: &Share) {
        let report = &mut self.report;
        report.handshakes += 1;
        report.resumed_handshakes += share.resumed_handshakes;
        report.opaque_handshakes += share.opaque_handshakes;
        report.handshake_bytes += share.handshake_bytes;
        report.certificate_bytes += share.certificate_bytes;
        report.client_certificate_bytes += summary.client_der_bytes;
        report.client_certificate_handshakes += u64::from(summary.client_certificate);
        report.saved_cold_bytes += share.saved_cold_bytes;
        report.saved_warm_bytes += share.saved_warm_bytes;
        report.capture.one_sided_handshakes += u64::from(summary.is_one_sided);
        if let Some(chain) = summary.chain {
            report.server_chains += 1;
            report.distinct_server_chains += u64::from(!chain.known);
        }
        match summary.ending {
            Ending::Completed => report.completed_handshakes += 1,
            Ending::Stopped(Stop::Alert | Stop::NoTls) => report.failed_handshakes += 1,
            Ending::Stopped(Stop::BrokenTls) => self.broken += 1,
            Ending::Stopped(Stop::TooLarge) => self.too_large += 1,
            Ending::Unfinished => {}
        }
    }

    fn enter_out_of_reach(&mut self, summary: &Summary, share: &Share, chain_der_bytes: u64) {
        let out = &mut self.report.out_of_reach;
        let mut reasons: Vec<&mut Unreached> = Vec::new();
        if summary.is_opaque {
            reasons.push(&mut out.encrypted_certificates);
        }
        if let Some(dialogue) = summary.dialogue {
            *out.after_plaintext_by_protocol
                .entry(dialogue.name().to_owned())
                .or_default() += 1;
            reasons.push(&mut out.after_plaintext);
        }
        if summary.old_hello {
            reasons.push(&mut out.old_hello);
        }
        if summary
            .chain
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

    fn enter_opt_in(&mut self, summary: &Summary) -> u64 {
        if !summary.is_opaque || summary.server_flight.records == 0 {
            return 0;
        }
        let (certificates, saved) = opt_in(summary);
        let known = !summary.is_resumed && self.memory.learn_site(&summary.site);
        let totals = &mut self.report.opt_in;
        totals.handshakes += 1;
        totals.full_handshakes += u64::from(!summary.is_resumed);
        totals.encrypted_flight_bytes += summary.server_flight.record_bytes();
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
        damage: &mut DamageLog,
    ) -> Report {
        damage.counted(self.losses.gaps, |connections| Damage::Gaps { connections });
        damage.counted(self.losses.conflicts, |connections| Damage::Conflicts {
            connections,
        });
        damage.counted(self.broken, |connections| Damage::NotTls { connections });
        damage.counted(self.too_large, |connections| Damage::TooLarge {
            connections,
        });
        damage.counted(self.losses.given_up, |connections| Damage::GivenUp {
            connections,
        });
        damage.counted(self.other_sites.share.handshakes, |handshakes| {
            Damage::SitesLumped { handshakes }
        });
        damage.counted(self.memory.not_learned, |chains| Damage::StoreFull {
            chains,
        });

        let mut report = self.report;
        report.capture = CaptureFacts {
            one_sided_handshakes: report.capture.one_sided_handshakes,
            ..capture
        };
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
