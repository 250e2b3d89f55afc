//! A look at a name from outside: whether the volunteers to whom DNS sends its clients could get a
//! certificate for it.
//!
//! Is: the questions to a resolver, with DNSSEC validated here, from the root's key (or another)
//! down. Is not: the judgement, which is [`tandem_barnraising::certificate_policy`]'s. An answer is
//! believed by its signatures alone, never because a resolver says that it checked.

mod ask;
mod servers;

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hickory_net::dnssec::DnssecDnsHandle;
use hickory_net::xfer::{DnsHandle as _, FirstAnswer as _};
use hickory_net::{DnsError as Refusal, NetError};
use hickory_proto::dnssec::rdata::DNSSECRData;
use hickory_proto::dnssec::{Proof, TrustAnchors};
use hickory_proto::op::{DnsRequestOptions, Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use tandem_barnraising::certificate_policy::{
    Caa, Chain, Evidence, Finding, Presence, Registrable, Subject, Weight, acceptable, judge,
};
use tandem_barnraising::uri;
use tokio::time::timeout;

use crate::absolute::absolute;
use crate::error::DnsError;
use crate::key::ZoneKey;
use crate::rollover::Above;
use ask::Asker;

/// How long a look may take. It asks some ten questions, each a second time after two seconds; on a
/// satellite link, by TCP, they take half as long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Where name servers answer.
const DNS_PORT: u16 = 53;

/// How to look.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The resolver to ask; none: the system's first.
    pub resolver: Option<SocketAddr>,
    /// File of DNSKEY records from which trust begins; none: the root's keys.
    pub trust_anchor: Option<PathBuf>,
    /// The names in the site's certificate, if that is at hand.
    pub certificate: Option<Vec<String>>,
    /// Authorities of which the operator says that they observe accounts and methods in CAA
    /// records (RFC 8657).
    pub observant: Vec<String>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What was asked about.
    pub subject: Subject,
    /// All that is to be said, refusals first.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether volunteers may serve the name.
    #[must_use]
    pub fn is_acceptable(&self) -> bool {
        acceptable(&self.findings)
    }

    /// What speaks against it.
    pub fn refusals(&self) -> impl Iterator<Item = &Finding> {
        let refused = |finding: &&Finding| finding.weight() == Weight::Refusal;
        self.findings.iter().filter(refused)
    }
}

/// Looks at a name, for [`PATIENCE`] at most. Private names and addresses are not asked about: no
/// public authority issues for them. Needs a tokio runtime.
///
/// # Errors
/// The text is no name, or no resolver or no trust anchor can be found. What DNS says, or does not
/// say, is no error but a finding.
pub async fn check(text: &str, options: &Options) -> Result<Report, DnsError> {
    check_within(PATIENCE, text, options).await
}

/// Asks each name server of the zone in which a name is whether it says the same as the others:
/// hints. Private names and addresses are not asked about.
///
/// # Errors
/// No resolver can be found.
pub async fn servers(text: &str, options: &Options) -> Result<Vec<Finding>, DnsError> {
    servers_within(PATIENCE, text, options).await
}

async fn servers_within(
    patience: Duration,
    text: &str,
    options: &Options,
) -> Result<Vec<Finding>, DnsError> {
    let Some(Subject::Public(name)) = Subject::parse(text) else {
        return Ok(Vec::new());
    };
    let (resolver, site) = (resolver(options)?, absolute(&name)?);
    let compared = timeout(patience, servers::compare(resolver, &site, DNS_PORT)).await;
    Ok(compared.unwrap_or_else(|_| vec![Finding::UncomparedServers]))
}

async fn check_within(
    patience: Duration,
    text: &str,
    options: &Options,
) -> Result<Report, DnsError> {
    let subject = Subject::parse(text).ok_or_else(|| DnsError::Setting {
        setting: "NAME",
        reason: format!("{text} is no host name"),
    })?;
    let findings = match &subject {
        Subject::Address(_) | Subject::Private(_) => Vec::new(),
        Subject::Public(name) => {
            let mut evidence = Evidence {
                chain: Chain::Secure,
                name: Presence::There,
                caa: Vec::new(),
                https: Presence::Missing,
                certificate: options.certificate.clone(),
                observant: options.observant.clone(),
                registrable: registrable(name),
            };
            match timeout(patience, look(name, options, &mut evidence)).await {
                Ok(looked) => looked?,
                // What was not asked in time has not answered.
                Err(_) => evidence.chain = Chain::Unanswered,
            }
            judge(name, &evidence)
        }
    };
    Ok(Report { subject, findings })
}

/// What of a name somebody has registered, by the list of public suffixes in its edition of when
/// this was built. Both of its parts count, as for browsers' cookies.
fn registrable(name: &uri::Name) -> Registrable {
    let name = name.as_str();
    match psl::suffix(name.as_bytes()) {
        Some(suffix) if !suffix.is_known() => Registrable::Unknown,
        Some(suffix) if suffix.as_bytes() == name.as_bytes() => Registrable::Suffix,
        Some(_) => match psl::domain_str(name) {
            Some(domain) => Registrable::Domain(domain.to_owned()),
            None => Registrable::Unknown,
        },
        None => Registrable::Unknown,
    }
}

/// Whether the zone above shows the DS record of this key. What is not signed, or in any doubt, is
/// not known.
pub(crate) async fn above(zone: Name, key: Arc<ZoneKey>, options: Options) -> Above {
    let handle = match handle(&options) {
        Ok(handle) => handle,
        Err(error) => {
            tracing::warn!(%error, "the zone above cannot be asked for its DS record");
            return Above::Unknown;
        }
    };
    let is_named = |data: &RData| matches!(data, RData::DNSSEC(DNSSECRData::DS(ds)) if key.is_named_by(ds, &zone));
    match timeout(PATIENCE, ask(&handle, &zone, RecordType::DS)).await {
        Ok(answer) if answer.chain == Chain::Secure && answer.records.iter().any(is_named) => {
            Above::HasNext
        }
        Ok(_) | Err(_) => Above::Unknown,
    }
}

fn handle(options: &Options) -> Result<DnssecDnsHandle<Asker>, DnsError> {
    let resolver = resolver(options)?;
    let anchors = match &options.trust_anchor {
        Some(path) => TrustAnchors::from_file(path).map_err(|error| {
            DnsError::content(path, format!("holds no DNSKEY records: {error}"))
        })?,
        None => TrustAnchors::default(),
    };
    let asker = Asker::new(resolver);
    Ok(DnssecDnsHandle::with_trust_anchor(asker, Arc::new(anchors)))
}

fn resolver(options: &Options) -> Result<SocketAddr, DnsError> {
    match options.resolver {
        Some(resolver) => Ok(resolver),
        None => system_resolver(Path::new("/etc/resolv.conf")),
    }
}

async fn look(
    site: &uri::Name,
    options: &Options,
    evidence: &mut Evidence,
) -> Result<(), DnsError> {
    let handle = handle(options)?;
    let site = absolute(site)?;
    // From the name up to the first that has any, without the root (RFC 8659, section 3).
    let mut name = site.clone();
    while evidence.chain == Chain::Secure && evidence.caa.is_empty() && !name.is_root() {
        let answer = ask(&handle, &name, RecordType::CAA).await;
        evidence.chain = answer.chain;
        if name == site && answer.code == Some(ResponseCode::NXDomain) {
            evidence.name = Presence::Missing;
            break;
        }
        evidence.caa = answer.records.iter().filter_map(caa).collect();
        name = name.base_name();
    }
    if evidence.chain == Chain::Secure {
        let https = ask(&handle, &site, RecordType::HTTPS).await;
        if https
            .records
            .iter()
            .any(|data| matches!(data, RData::HTTPS(_)))
        {
            evidence.https = Presence::There;
        }
    }
    tracing::debug!(?evidence, "what DNS says");
    Ok(())
}

struct Answer {
    chain: Chain,
    code: Option<ResponseCode>,
    records: Vec<RData>,
}

async fn ask(handle: &DnssecDnsHandle<Asker>, name: &Name, kind: RecordType) -> Answer {
    let mut options = DnsRequestOptions::default();
    options.edns_set_dnssec_ok = true;
    let query = Query::query(name.clone(), kind);
    let failures = handle.inner().failures();
    let mut answer = match handle.lookup(query, options).first_answer().await {
        Ok(response) => {
            let records = belonging(&response.answers, name, kind);
            let only_aliases = records.is_empty() && !response.answers.is_empty();
            Answer {
                // That the alias's target has none is not proven by the alias.
                chain: match proven(&response) {
                    Chain::Secure if only_aliases => Chain::Bogus,
                    chain => chain,
                },
                code: Some(response.metadata.response_code),
                records,
            }
        }
        Err(NetError::Dns(Refusal::Nsec {
            proof, response, ..
        })) => Answer {
            chain: chain(proof),
            code: Some(response.metadata.response_code),
            records: Vec::new(),
        },
        Err(error) => {
            tracing::debug!(%name, %kind, %error, "no answer");
            Answer {
                chain: Chain::Unanswered,
                code: None,
                records: Vec::new(),
            }
        }
    };
    // A key that could not be asked for looks to the library like one that is wrong.
    if answer.chain == Chain::Bogus && handle.inner().failures() != failures {
        answer.chain = Chain::Unanswered;
    }
    answer
}

/// Of an answer what is the name's, by way of its aliases (RFC 1034, section 3.6.2): signed records
/// of another name say nothing of it.
fn belonging(answers: &[Record], name: &Name, kind: RecordType) -> Vec<RData> {
    let mut owner = name;
    // Aliases may go round.
    for _ in answers {
        let alias = answers
            .iter()
            .find_map(|record| match (&record.data, record.name == *owner) {
                (RData::CNAME(alias), true) => Some(&alias.0),
                _ => None,
            });
        match alias {
            Some(target) => owner = target,
            None => break,
        }
    }
    answers
        .iter()
        .filter(|record| record.name == *owner && record.record_type() == kind)
        .map(|record| record.data.clone())
        .collect()
}

/// How far an answer can be believed: as far as the worst of its records, of the denial where it
/// has none.
fn proven(response: &Message) -> Chain {
    let section = if response.answers.is_empty() {
        &response.authorities
    } else {
        &response.answers
    };
    let counted = section
        .iter()
        .filter(|record| record.record_type() != RecordType::RRSIG);
    let mut worst = None;
    for record in counted {
        let this = chain(record.proof);
        let worse = match (this, worst) {
            (_, None) | (Chain::Bogus, _) => true,
            (Chain::Insecure, Some(other)) => other == Chain::Secure,
            (Chain::Secure | Chain::Unanswered, Some(_)) => false,
        };
        if worse {
            worst = Some(this);
        }
    }
    // Nothing at all proves nothing.
    worst.unwrap_or(Chain::Bogus)
}

fn chain(proof: Proof) -> Chain {
    match proof {
        Proof::Secure => Chain::Secure,
        Proof::Insecure => Chain::Insecure,
        Proof::Bogus | Proof::Indeterminate => Chain::Bogus,
    }
}

fn caa(data: &RData) -> Option<Caa> {
    match data {
        RData::CAA(caa) => Some(Caa {
            flags: caa.flags(),
            tag: caa.tag.clone(),
            value: caa.value.clone(),
        }),
        _ => None,
    }
}

/// The first name server of the system's resolver (resolv.conf(5)).
fn system_resolver(path: &Path) -> Result<SocketAddr, DnsError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        // As one without any name server (resolv.conf(5)): before there is a network, it may be a
        // link to what is still to come.
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(DnsError::file(path, error)),
    };
    let mut servers = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("nameserver")).then(|| words.next()?.parse::<IpAddr>().ok())?
    });
    // Without any, the one on this machine (resolv.conf(5)).
    let server = servers.next().unwrap_or(Ipv4Addr::LOCALHOST.into());
    Ok(SocketAddr::new(server, 53))
}

#[cfg(test)]
mod tests {
    use hickory_proto::rr::rdata::{A, CNAME};

    use super::*;

    fn name(text: &str) -> Name {
        Name::from_ascii(text).expect("a name")
    }

    fn alias(from: &str, to: &str) -> Record {
        Record::from_rdata(name(from), 60, RData::CNAME(CNAME(name(to))))
    }

    #[tokio::test]
    async fn a_look_ends_in_time_as_one_without_an_answer() {
        // It takes what is asked and says nothing; one question alone would wait for ten seconds.
        let silent = tokio::net::UdpSocket::bind("127.0.0.1:0").await;
        let silent = silent.expect("loopback");
        let options = Options {
            resolver: Some(silent.local_addr().expect("bound")),
            ..Options::default()
        };
        let patience = Duration::from_millis(50);
        let start = tokio::time::Instant::now();
        let report = check_within(patience, "www.tandem-site.org", &options).await;
        let report = report.expect("a finding, and no error");
        assert!(start.elapsed() >= patience);
        let alone = Duration::from_secs(10);
        assert!(start.elapsed() < alone, "{:?}", start.elapsed());
        let refusals: Vec<&Finding> = report.refusals().collect();
        assert_eq!(refusals, [&Finding::Unanswered]);
        assert!(!report.is_acceptable());
        let servers = servers_within(patience, "www.tandem-site.org", &options).await;
        let servers = servers.expect("a finding, and no error");
        assert_eq!(servers, [Finding::UncomparedServers]);
    }

    #[test]
    fn what_somebody_has_registered_is_known_by_the_list_of_public_suffixes() {
        let of = |text: &str| registrable(&uri::Name::parse(text).expect("a name"));
        let domain = |text: &str| Registrable::Domain(text.to_owned());
        assert_eq!(of("www.tandem-site.org"), domain("tandem-site.org"));
        assert_eq!(of("tandem-site.org"), domain("tandem-site.org"));
        assert_eq!(of("a.b.tandem-site.co.uk"), domain("tandem-site.co.uk"));
        assert_eq!(of("site.github.io"), domain("site.github.io"));
        assert_eq!(of("github.io"), Registrable::Suffix);
        assert_eq!(of("tandem.ck"), Registrable::Suffix, "by a wildcard");
        assert_eq!(of("www.ck"), domain("www.ck"), "by an exception");
        assert_eq!(of("www.tandem-site.lan"), Registrable::Unknown);
    }

    #[test]
    fn the_systems_resolver_is_the_first_that_is_named_or_the_one_on_this_machine() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("resolv.conf");
        let found = || system_resolver(&path).expect("readable").to_string();
        assert_eq!(found(), "127.0.0.1:53", "there is no file");
        std::fs::write(&path, "search site.test\n").expect("own folder");
        assert_eq!(found(), "127.0.0.1:53");
        let text = "nameserver\nnameserver 192.0.2.53\nnameserver 192.0.2.54\n";
        std::fs::write(&path, text).expect("own folder");
        assert_eq!(found(), "192.0.2.53:53");
        assert!(system_resolver(folder.path()).is_err(), "a folder");
    }

    #[test]
    fn only_records_of_the_name_or_what_it_is_an_alias_of_count() {
        let address = |owner: &str, last| {
            Record::from_rdata(name(owner), 60, RData::A(A::new(192, 0, 2, last)))
        };
        let of = |answers: &[Record]| belonging(answers, &name("a.example."), RecordType::A).len();
        assert_eq!(of(&[address("a.example.", 1), address("A.example.", 2)]), 2);
        assert_eq!(of(&[address("b.example.", 1)]), 0);
        let by_two = [
            alias("b.example.", "c.example."),
            alias("a.example.", "b.example."),
        ];
        assert_eq!(of(&by_two), 0, "aliases alone");
        let [second, first] = by_two;
        assert_eq!(of(&[second, first, address("c.example.", 1)]), 1);
        let round = [
            alias("a.example.", "b.example."),
            alias("b.example.", "a.example."),
        ];
        assert_eq!(of(&round), 0);
    }
}
