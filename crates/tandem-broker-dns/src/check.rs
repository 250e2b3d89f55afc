//! A look at a name from outside: whether the volunteers to whom DNS sends its clients could get a certificate for it.
//!
//! Is: the questions to a resolver, with DNSSEC validated here, from the root's key (or another) down. Is not: the judgement, which is
//! [`tandem_barnraising::certificate_policy`]'s. An answer is believed by its signatures alone, never because a resolver says that it checked.

mod ask;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hickory_net::dnssec::DnssecDnsHandle;
use hickory_net::xfer::{DnsHandle as _, FirstAnswer as _};
use hickory_net::{DnsError as Refusal, NetError};
use hickory_proto::dnssec::{Proof, TrustAnchors};
use hickory_proto::op::{DnsRequestOptions, Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use tandem_barnraising::certificate_policy::{
    Caa, Chain, Evidence, Finding, Presence, Subject, acceptable, judge,
};
use tandem_barnraising::uri;

use crate::error::DnsError;
use crate::settings::hickory;
use ask::Asker;

/// How to look.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The resolver to ask; none: the system's first.
    pub resolver: Option<SocketAddr>,
    /// File of DNSKEY records from which trust begins; none: the root's keys.
    pub trust_anchor: Option<PathBuf>,
    /// The names in the site's certificate, if that is at hand.
    pub certificate: Option<Vec<String>>,
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
}

/// Looks at a name. Private names and addresses are not asked about: no public authority issues for them. Needs a tokio runtime.
///
/// # Errors
/// The text is no name, or no resolver or no trust anchor can be found. What DNS says, or does not say, is no error but a finding.
pub async fn check(text: &str, options: &Options) -> Result<Report, DnsError> {
    let subject = Subject::parse(text).ok_or_else(|| DnsError::Setting {
        setting: "NAME",
        reason: format!("{text} is no host name"),
    })?;
    let findings = match &subject {
        Subject::Address(_) | Subject::Private(_) => Vec::new(),
        Subject::Public(name) => judge(name, &look(name, options).await?),
    };
    Ok(Report { subject, findings })
}

async fn look(site: &uri::Name, options: &Options) -> Result<Evidence, DnsError> {
    let resolver = match options.resolver {
        Some(resolver) => resolver,
        None => system_resolver(Path::new("/etc/resolv.conf"))?,
    };
    let anchors = match &options.trust_anchor {
        Some(path) => TrustAnchors::from_file(path).map_err(|error| {
            DnsError::content(path, format!("holds no DNSKEY records: {error}"))
        })?,
        None => TrustAnchors::default(),
    };
    let handle = DnssecDnsHandle::with_trust_anchor(Asker::new(resolver), Arc::new(anchors));
    let site = hickory(site)?;
    let mut evidence = Evidence {
        chain: Chain::Secure,
        name: Presence::There,
        caa: Vec::new(),
        https: Presence::Missing,
        certificate: options.certificate.clone(),
    };
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
    Ok(evidence)
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
    match handle.lookup(query, options).first_answer().await {
        Ok(response) => Answer {
            chain: proven(&response),
            code: Some(response.metadata.response_code),
            records: response
                .answers
                .iter()
                .map(|record| record.data.clone())
                .collect(),
        },
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
    }
}

/// How far an answer can be believed: as far as the worst of its records, of the denial where it has none.
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
    let text = std::fs::read_to_string(path).map_err(|error| DnsError::file(path, error))?;
    let mut servers = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("nameserver")).then(|| words.next()?.parse::<IpAddr>().ok())?
    });
    // Without any, the one on this machine (resolv.conf(5)).
    let server = servers.next().unwrap_or(Ipv4Addr::LOCALHOST.into());
    Ok(SocketAddr::new(server, 53))
}
