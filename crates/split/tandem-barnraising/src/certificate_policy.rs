//! Whether those to whom DNS sends a site's clients could get a certificate for the site's name.
//!
//! Is: the judgement, out of what DNS says ([`Evidence`]). Is not: the asking and the validation of
//! signatures; who calls has done both.
//!
//! Why: a volunteer answers for the name on ports 80 and 443, and so passes an authority's HTTP-01
//! and TLS-ALPN-01 challenges (RFC 8555, section 8.3; RFC 8737). With a certificate of its own it
//! could serve what it likes. CAA records that allow one account only, by a record in DNS
//! only, keep it from that (RFC 8657); DNSSEC keeps it, and whoever sits between, from answering
//! other CAA records (RFC 8659, section 5.2).
//!
//! Invariant: whatever is in doubt is a refusal. A value that authorities may read in two ways
//! counts as the worse.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use crate::uri::Name;

mod safeguard;
mod value;

pub use safeguard::{Consent, Safeguard};
use value::{Issue, Reading};

/// The one way of validation that a volunteer cannot pass (RFC 8555, section 8.4).
const METHOD: &str = "dns-01";

/// Authorities that are known to observe `accounturi` and `validationmethods`.
const OBSERVANT: [&str; 1] = ["letsencrypt.org"];

/// Names that no public authority issues for, by what they end in (RFC 2606, 6761, 6762, 8375,
/// 9476; `internal` by ICANN's resolution of 2024). For `example.com` and its kind IANA alone can
/// get certificates (RFC 6761, section 6.5).
///
/// Not here: `lan`, `home`, `corp` and others that many use and no standard reserves.
const PRIVATE: [&str; 11] = [
    "test",
    "example",
    "example.com",
    "example.net",
    "example.org",
    "invalid",
    "localhost",
    "local",
    "internal",
    "alt",
    "home.arpa",
];

/// Top-level domains below which browsers go to HTTPS whatever a link says, and which are open to
/// registration: of the public suffixes in Chromium's list (hstspreload.org), which other browsers
/// have as well. Other names may be in the list, too: a hint that is not needed does no harm.
const PRELOADED: [&str; 7] = ["app", "bank", "dev", "foo", "insurance", "new", "page"];

/// What is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// An address: DNS sends nobody to volunteers by it.
    Address(IpAddr),
    /// A name that no public authority issues for.
    Private(Name),
    /// A name that public authorities issue for.
    Public(Name),
}

impl Subject {
    /// What a text is about, if it is a name or an address.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bare = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(text).parse() {
            return Some(Self::Address(address));
        }
        let name = Name::parse(text)?;
        let below = |suffix: &str| {
            let rest = name.as_str().strip_suffix(suffix);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        Some(
            if PRIVATE.iter().any(|suffix| below(suffix)) || !name.as_str().contains('.') {
                Self::Private(name)
            } else {
                Self::Public(name)
            },
        )
    }
}

/// How far an answer can be believed (RFC 4035, section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chain {
    /// Signed, from the trust anchor down.
    Secure,
    /// It is proven that there are no signatures.
    Insecure,
    /// Signatures are missing or wrong.
    Bogus,
    /// There was no answer.
    Unanswered,
}

/// Whether something is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It is.
    There,
    /// It is not.
    Missing,
}

/// The shortest name above a site, or the site itself, that somebody can register: the names below
/// it are his alone, and share cookies (RFC 6265, section 5.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registrable {
    /// No list of public suffixes knows its top-level domain.
    Unknown,
    /// The site is itself a public suffix: it shares no cookies.
    Suffix,
    /// This name.
    Domain(String),
}

/// A CAA record as it is in the answer (RFC 8659, section 4.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caa {
    /// Its flags.
    pub flags: u8,
    /// The property.
    pub tag: String,
    /// Its value.
    pub value: Vec<u8>,
}

/// What is known of a public name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// How far the answers can be believed: the worst of all that led to the CAA records.
    pub chain: Chain,
    /// Whether there is such a name.
    pub name: Presence,
    /// The relevant CAA records: the name's own, or those of the next name above it that has any
    /// (RFC 8659, section 3).
    pub caa: Vec<Caa>,
    /// Whether it has an HTTPS record (RFC 9460).
    pub https: Presence,
    /// The names in the site's certificate, where it was at hand.
    pub certificate: Option<Vec<String>>,
    /// Authorities of which the site's operator says that they observe accounts and methods (RFC
    /// 8657), besides those known to.
    pub observant: Vec<String>,
    /// What of the name somebody has registered.
    pub registrable: Registrable,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// A volunteer could get a certificate, or it cannot be ruled out.
    Refusal,
    /// Something that would be better otherwise, or that has to be seen to elsewhere.
    Hint,
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// There is no such name.
    NoSuchName,
    /// The name is not signed.
    NotSigned,
    /// Its signatures do not hold.
    Bogus,
    /// DNS did not answer.
    Unanswered,
    /// There are no CAA records.
    NoCaa,
    /// There are CAA records, but none that says who may issue.
    NobodyNamed,
    /// A value is not of the form that authorities agree on.
    Malformed {
        /// The property.
        tag: String,
        /// Its value, as far as it is text.
        value: String,
    },
    /// An authority may validate in any way.
    AnyMethod {
        /// The authority.
        authority: String,
    },
    /// An authority may validate in a way that a volunteer may pass.
    OtherMethod {
        /// The authority.
        authority: String,
        /// The way.
        method: String,
    },
    /// An authority may issue to any account.
    AnyAccount {
        /// The authority.
        authority: String,
    },
    /// Several authorities may issue.
    SeveralAuthorities {
        /// All of them.
        authorities: BTreeSet<String>,
    },
    /// Several accounts may ask.
    SeveralAccounts {
        /// All of them.
        accounts: BTreeSet<String>,
    },
    /// Certificates for all names below may be issued.
    Wildcards,
    /// No authority may issue anything.
    NobodyMayIssue,
    /// It is not known whether the authority observes accounts and methods.
    UnknownAuthority {
        /// The authority.
        authority: String,
    },
    /// The certificate vouches for other hosts too.
    MoreNames {
        /// All names in it.
        names: Vec<String>,
    },
    /// The certificate does not vouch for this name.
    OtherName {
        /// All names in it.
        names: Vec<String>,
    },
    /// There is no HTTPS record.
    NoHttpsRecord,
    /// Port 80 belongs to volunteers.
    Preload,
    /// The name shares cookies with others.
    SharedDomain {
        /// What somebody has registered, with all names below.
        parent: String,
    },
    /// The name may share cookies with others.
    PerhapsSharedDomain {
        /// The name above it.
        parent: String,
    },
    /// The zone's name servers do not say the same.
    DifferentServers {
        /// Of this kind of record.
        kind: String,
        /// All that have answered, by their addresses.
        servers: Vec<String>,
    },
    /// A name server of the zone does not answer.
    SilentServer {
        /// Its address, or its name where it has none.
        server: String,
    },
    /// A name server of the zone cannot be asked from this machine.
    UnroutedServer {
        /// Its address.
        server: String,
    },
    /// It was not found out in time which name servers the zone has, or what they say.
    UncomparedServers,
    /// Certificates that are issued all the same show in public logs.
    WatchLogs,
}

impl Finding {
    /// How much it matters.
    #[must_use]
    pub fn weight(&self) -> Weight {
        match self {
            Self::NoSuchName
            | Self::NotSigned
            | Self::Bogus
            | Self::Unanswered
            | Self::NoCaa
            | Self::NobodyNamed
            | Self::Malformed { .. }
            | Self::AnyMethod { .. }
            | Self::OtherMethod { .. }
            | Self::AnyAccount { .. }
            | Self::SeveralAuthorities { .. }
            | Self::SeveralAccounts { .. }
            | Self::Wildcards
            | Self::UnknownAuthority { .. }
            | Self::MoreNames { .. }
            | Self::OtherName { .. } => Weight::Refusal,
            Self::NobodyMayIssue
            | Self::NoHttpsRecord
            | Self::Preload
            | Self::SharedDomain { .. }
            | Self::PerhapsSharedDomain { .. }
            | Self::DifferentServers { .. }
            | Self::SilentServer { .. }
            | Self::UnroutedServer { .. }
            | Self::UncomparedServers
            | Self::WatchLogs => Weight::Hint,
        }
    }

    /// A word for scripts; it stays.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoSuchName => "no-such-name",
            Self::NotSigned => "not-signed",
            Self::Bogus => "bogus",
            Self::Unanswered => "unanswered",
            Self::NoCaa => "no-caa",
            Self::NobodyNamed => "nobody-named",
            Self::Malformed { .. } => "malformed",
            Self::AnyMethod { .. } => "any-method",
            Self::OtherMethod { .. } => "other-method",
            Self::AnyAccount { .. } => "any-account",
            Self::SeveralAuthorities { .. } => "several-authorities",
            Self::SeveralAccounts { .. } => "several-accounts",
            Self::Wildcards => "wildcards",
            Self::NobodyMayIssue => "nobody-may-issue",
            Self::UnknownAuthority { .. } => "unknown-authority",
            Self::MoreNames { .. } => "more-names",
            Self::OtherName { .. } => "other-name",
            Self::NoHttpsRecord => "no-https-record",
            Self::Preload => "preload",
            Self::SharedDomain { .. } | Self::PerhapsSharedDomain { .. } => "shared-domain",
            Self::DifferentServers { .. } => "different-servers",
            Self::SilentServer { .. } => "silent-server",
            Self::UnroutedServer { .. } => "unrouted-server",
            Self::UncomparedServers => "uncompared-servers",
            Self::WatchLogs => "watch-logs",
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::NoSuchName => "delegate the name to the broker's name servers, or correct it".to_owned(),
            Self::NotSigned => {
                "hand the DS record that the broker shows to the registrar of the domain; each zone above must be signed too".to_owned()
            }
            Self::Bogus => {
                "compare the DS record at the parent with the one that the broker shows; if they agree, ask a resolver that passes \
                 DNSSEC on (--resolver 9.9.9.9:53)"
                    .to_owned()
            }
            Self::Unanswered => {
                "see that the name servers can be reached over UDP and TCP; a validating resolver also says nothing where signatures \
                 are wrong; try another one (--resolver)"
                    .to_owned()
            }
            Self::NoCaa | Self::NobodyNamed | Self::AnyMethod { .. } | Self::OtherMethod { .. } => {
                "set 0 issue \"AUTHORITY; accounturi=ACCOUNT; validationmethods=dns-01\"".to_owned()
            }
            Self::Malformed { .. } => {
                "write it as RFC 8659, section 4.2 has it: AUTHORITY; name=value; name=value, each name once".to_owned()
            }
            Self::AnyAccount { authority } => {
                format!("add accounturi= with the URI of your account at {authority}; your ACME client shows it")
            }
            Self::SeveralAuthorities { .. } => "leave the one that you use".to_owned(),
            Self::SeveralAccounts { .. } => "leave the one that you use".to_owned(),
            Self::Wildcards => "set 0 issuewild \";\" and no other issuewild".to_owned(),
            Self::NobodyMayIssue => {
                "this is safe; before the certificate has to be renewed, name your authority and account".to_owned()
            }
            Self::UnknownAuthority { authority } => {
                format!(
                    "ask {authority} whether it observes RFC 8657; if so, say it: --observant {authority}, or observant in a broker's [dns]; \
                     one that does not makes these records worth nothing"
                )
            }
            Self::MoreNames { .. } => "get a certificate for this name alone".to_owned(),
            Self::OtherName { .. } => "get a certificate for this name".to_owned(),
            Self::NoHttpsRecord => {
                "set one: 1 . alpn=http/1.1; browsers that see it do not go to port 80".to_owned()
            }
            Self::Preload => {
                "send Strict-Transport-Security with preload and includeSubDomains, and have the domain preloaded (hstspreload.org)"
                    .to_owned()
            }
            Self::SharedDomain { parent } => {
                format!("give the site a registrable domain of its own, unless nothing else under {parent} uses cookies")
            }
            Self::PerhapsSharedDomain { parent } => {
                format!("unless anybody may register names under {parent}, give the site a registrable domain of its own")
            }
            Self::DifferentServers { .. } => {
                "give all of them the same configuration and keys; of two brokers, see that the standby follows the primary".to_owned()
            }
            Self::SilentServer { .. } => {
                "start it, and see that it can be reached over UDP and TCP at port 53; or take it out of the zone's NS records".to_owned()
            }
            Self::UnroutedServer { .. } => {
                "look again from a machine that has a route to it, as clients of that family have".to_owned()
            }
            Self::UncomparedServers => {
                "look again, or with another --resolver".to_owned()
            }
            Self::WatchLogs => {
                "watch the certificate transparency logs for this name, and act on any certificate that you did not ask for".to_owned()
            }
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
        match self {
            Self::NoSuchName => write!(f, "there is no such name in DNS"),
            Self::NotSigned => write!(f, "the name is not signed by DNSSEC"),
            Self::Bogus => write!(f, "the name's DNSSEC signatures do not hold"),
            Self::Unanswered => write!(f, "DNS does not answer for the name"),
            Self::NoCaa => write!(f, "there are no CAA records: every authority may issue"),
            Self::NobodyNamed => write!(f, "no CAA record says who may issue: every authority may"),
            Self::Malformed { tag, value } => write!(f, "CAA {tag} {value:?} is malformed"),
            Self::AnyMethod { authority } => {
                write!(
                    f,
                    "{authority} may validate by HTTP-01 and TLS-ALPN-01, which volunteers pass"
                )
            }
            Self::OtherMethod { authority, method } => {
                write!(
                    f,
                    "{authority} may validate by {method}, not only by {METHOD}"
                )
            }
            Self::AnyAccount { authority } => write!(f, "{authority} may issue to any account"),
            Self::SeveralAuthorities { authorities } => {
                write!(f, "several authorities may issue: {}", all(authorities))
            }
            Self::SeveralAccounts { accounts } => {
                write!(f, "several accounts may ask: {}", all(accounts))
            }
            Self::Wildcards => write!(f, "wildcard certificates may be issued"),
            Self::NobodyMayIssue => write!(f, "no authority may issue, not even for you"),
            Self::UnknownAuthority { authority } => {
                write!(
                    f,
                    "it is not known here whether {authority} observes accounts and methods in CAA records"
                )
            }
            Self::MoreNames { names } => {
                write!(
                    f,
                    "the certificate also vouches for other hosts: {}",
                    names.join(", ")
                )
            }
            Self::OtherName { names } => {
                write!(
                    f,
                    "the certificate does not vouch for this name, but for: {}",
                    names.join(", ")
                )
            }
            Self::NoHttpsRecord => write!(f, "there is no HTTPS record"),
            Self::Preload => write!(
                f,
                "port 80 belongs to the volunteers; whether the name is preloaded cannot be seen from here"
            ),
            Self::SharedDomain { parent } => {
                write!(
                    f,
                    "cookies of {parent} are shared by all names under it, so that a volunteer can set them for all"
                )
            }
            Self::PerhapsSharedDomain { parent } => {
                write!(
                    f,
                    "names under {parent} share cookies, unless it is a public suffix; that cannot be seen from here"
                )
            }
            Self::DifferentServers { kind, servers } => {
                write!(
                    f,
                    "the zone's name servers have different {kind} records: {}",
                    servers.join(", ")
                )
            }
            Self::SilentServer { server } => {
                write!(f, "the name server {server} does not answer")
            }
            Self::UnroutedServer { server } => {
                write!(
                    f,
                    "the name server {server} was not asked: this machine has no route to it"
                )
            }
            Self::UncomparedServers => {
                write!(f, "the zone's name servers were not all asked in time")
            }
            Self::WatchLogs => write!(f, "authorities err; what they issued shows in public logs"),
        }
    }
}

/// All that is to be said of a public name, refusals first.
#[must_use]
pub fn judge(name: &Name, evidence: &Evidence) -> Vec<Finding> {
    let mut findings = Vec::new();
    match evidence.chain {
        Chain::Secure => {}
        Chain::Insecure => findings.push(Finding::NotSigned),
        Chain::Bogus => findings.push(Finding::Bogus),
        Chain::Unanswered => findings.push(Finding::Unanswered),
    }
    match (evidence.chain, evidence.name) {
        (Chain::Unanswered | Chain::Bogus, _) => {}
        (Chain::Secure | Chain::Insecure, Presence::Missing) => findings.push(Finding::NoSuchName),
        (Chain::Secure | Chain::Insecure, Presence::There) => {
            judge_caa(&evidence.caa, &evidence.observant, &mut findings)
        }
    }
    if let Some(names) = &evidence.certificate {
        let own = |other: &String| other.eq_ignore_ascii_case(name.as_str());
        if !names.iter().any(own) {
            findings.push(Finding::OtherName {
                names: names.clone(),
            });
        } else if !names.iter().all(own) {
            findings.push(Finding::MoreNames {
                names: names.clone(),
            });
        }
    }
    if evidence.https == Presence::Missing {
        findings.push(Finding::NoHttpsRecord);
    }
    let (_, top) = name.as_str().rsplit_once('.').unwrap_or_default();
    if !PRELOADED.contains(&top) {
        findings.push(Finding::Preload);
    }
    findings.extend(shared(name, &evidence.registrable));
    findings.push(Finding::WatchLogs);
    findings.sort_by_key(Finding::weight);
    findings
}

/// With whom the name shares cookies, or may.
fn shared(name: &Name, registrable: &Registrable) -> Option<Finding> {
    match registrable {
        Registrable::Suffix => None,
        Registrable::Domain(domain) => (domain != name.as_str()).then(|| Finding::SharedDomain {
            parent: domain.clone(),
        }),
        Registrable::Unknown => {
            let (_, parent) = name.as_str().split_once('.')?;
            let parent = parent.to_owned();
            parent
                .contains('.')
                .then_some(Finding::PerhapsSharedDomain { parent })
        }
    }
}

/// Whether nothing speaks against volunteers at the name.
#[must_use]
pub fn acceptable(findings: &[Finding]) -> bool {
    findings
        .iter()
        .all(|finding| finding.weight() != Weight::Refusal)
}

fn judge_caa(records: &[Caa], observant: &[String], findings: &mut Vec<Finding>) {
    if records.is_empty() {
        findings.push(Finding::NoCaa);
        return;
    }
    let mut read = |property: &str| -> Vec<Reading> {
        let of = |record: &&Caa| record.tag.eq_ignore_ascii_case(property);
        let readings = records.iter().filter(of).map(|record| {
            let reading = Reading::of(&record.value);
            if reading == Reading::Malformed {
                findings.push(Finding::Malformed {
                    tag: property.to_owned(),
                    value: String::from_utf8_lossy(&record.value).into_owned(),
                });
            }
            reading
        });
        readings.collect()
    };
    let (issue, wild) = (read("issue"), read("issuewild"));
    let issuers = |readings: &[Reading]| -> Vec<Issue> {
        let issues = readings.iter().filter_map(|reading| match reading {
            Reading::Issuer(issue) => Some(issue.clone()),
            Reading::Nobody | Reading::Malformed => None,
        });
        issues.collect()
    };
    if issue.is_empty() {
        findings.push(Finding::NobodyNamed);
    }
    // Without an issuewild property the issue properties speak for wildcards too (RFC 8659, section
    // 4.3).
    let for_wild = if wild.is_empty() { &issue } else { &wild };
    if !issuers(for_wild).is_empty() || for_wild.is_empty() {
        findings.push(Finding::Wildcards);
    }
    let allowed = issuers(&issue);
    if allowed.is_empty() && !issue.is_empty() {
        findings.push(Finding::NobodyMayIssue);
    }
    let mut authorities = BTreeSet::new();
    let mut accounts = BTreeSet::new();
    for issue in allowed {
        judge_issue(&issue, findings);
        accounts.extend(issue.account);
        authorities.insert(issue.authority);
    }
    for authority in &authorities {
        let is_vouched_for = || {
            observant
                .iter()
                .any(|own| own.eq_ignore_ascii_case(authority))
        };
        if !OBSERVANT.contains(&authority.as_str()) && !is_vouched_for() {
            let authority = authority.clone();
            findings.push(Finding::UnknownAuthority { authority });
        }
    }
    if authorities.len() > 1 {
        findings.push(Finding::SeveralAuthorities { authorities });
    } else if accounts.len() > 1 {
        findings.push(Finding::SeveralAccounts { accounts });
    }
}

fn judge_issue(issue: &Issue, findings: &mut Vec<Finding>) {
    let authority = || issue.authority.clone();
    match &issue.methods {
        None => findings.push(Finding::AnyMethod {
            authority: authority(),
        }),
        Some(methods) => {
            for method in methods.iter().filter(|method| *method != METHOD) {
                findings.push(Finding::OtherMethod {
                    authority: authority(),
                    method: method.clone(),
                });
            }
        }
    }
    if issue.account.is_none() {
        findings.push(Finding::AnyAccount {
            authority: authority(),
        });
    }
}

#[cfg(test)]
mod tests;
