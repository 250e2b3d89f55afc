//! The `[dns]` table of a broker's configuration, and what it comes to once it has been found
//! right.
//!
//! Invariant: a [`Shape`] can be served. Every name is in its zone where it has to be, and the zone
//! has a name server.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use hickory_proto::rr::Name;
use tandem_barnraising::uri;

use crate::absolute::absolute;
use crate::check::Options;
use crate::error::DnsError;
use crate::keys::Keys;

/// How long resolvers keep addresses, in seconds, unless the configuration says. A volunteer that
/// is gone is sent browsers for so long.
pub(crate) const DEFAULT_TTL: u32 = 30;

/// The table as it is written.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// The zone that is delegated to this broker: the site's name (default), or a name above it of
    /// which nothing else is served.
    pub zone: Option<String>,
    /// Addresses and ports to answer at, over UDP and TCP. None: only a PowerDNS is answered.
    #[serde(default)]
    pub listen: Vec<SocketAddr>,
    /// The names to which the zone is delegated, each with its addresses if it is inside of the
    /// zone.
    pub nameservers: BTreeMap<String, Vec<IpAddr>>,
    /// Mail address of who is responsible. Default: `hostmaster` at the zone.
    pub contact: Option<String>,
    /// File of the key that signs the zone. It is made if it is missing. Default: `dns.key` in the
    /// broker's directory, which fills that in.
    pub key: Option<PathBuf>,
    /// After how many days the key is changed for another, 30 to 3650. None: never.
    pub key_days: Option<u32>,
    /// File with the values of the `_acme-challenge` TXT record, one a line. It is read anew once
    /// a second and may be missing.
    pub challenge: Option<PathBuf>,
    /// The one authority that may issue a certificate, as CAA records name it (`letsencrypt.org`).
    /// None: no authority may.
    pub authority: Option<String>,
    /// The one account there that may ask for it, by its URI (RFC 8657). Needed with `authority`.
    pub account: Option<String>,
    /// Seconds that resolvers may keep addresses, 1 to 3600.
    #[serde(default = "default_ttl")]
    pub ttl: u32,
    /// Unix socket on which a PowerDNS with the remote backend is answered.
    pub powerdns: Option<PathBuf>,
    /// The resolver that is asked whether the name is safe; the system's first if absent.
    pub resolver: Option<SocketAddr>,
    /// File of DNSKEY records from which trust begins there; the root's keys if absent.
    pub trust_anchor: Option<PathBuf>,
    /// Authorities, as CAA records name them, of which the operator knows that they observe
    /// accounts and methods (RFC 8657). Let's Encrypt does.
    #[serde(default)]
    pub observant: Vec<String>,
}

fn default_ttl() -> u32 {
    DEFAULT_TTL
}

/// Who may issue certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Issuance {
    /// Nobody: the safe thing to say until there is an account.
    Nobody,
    /// One account at one authority, by DNS-01.
    Account {
        /// The authority's domain name.
        authority: String,
        /// The account's URI.
        account: String,
    },
}

/// What of a zone stays the same.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// Its apex.
    pub(crate) zone: Name,
    /// The site, at or below the apex.
    pub(crate) site: Name,
    /// Its name servers with the addresses of those inside of it, at least one.
    pub(crate) nameservers: Vec<(Name, Vec<IpAddr>)>,
    /// The responsible person's mailbox, as a name (RFC 1035, section 8).
    pub(crate) contact: Name,
    /// Who may issue.
    pub(crate) issuance: Issuance,
    /// Seconds that addresses, challenges and denials are kept.
    pub(crate) ttl: u32,
}

impl Settings {
    /// How the site's name is to be looked at from outside.
    #[must_use]
    pub fn look(&self) -> Options {
        Options {
            resolver: self.resolver,
            trust_anchor: self.trust_anchor.clone(),
            certificate: None,
            observant: self.observant.clone(),
        }
    }

    /// The zone's keys.
    pub(crate) fn zone_keys(&self, now: u64) -> Result<Keys, DnsError> {
        let path = self.key.as_ref();
        let path = path.ok_or_else(|| wrong("dns.key", "give a file".to_owned()))?;
        Keys::kept_in(path, now)
    }

    /// After how many seconds a key is changed, if ever.
    pub(crate) fn key_lifetime(&self) -> Option<u64> {
        self.key_days.map(|days| u64::from(days) * 24 * 3600)
    }

    /// What the table comes to for a site.
    pub(crate) fn shape(&self, site: &uri::Name) -> Result<Shape, DnsError> {
        let zone = match &self.zone {
            Some(text) => name("dns.zone", text)?,
            None => absolute(site)?,
        };
        let site = absolute(site)?;
        if !zone.zone_of(&site) {
            return Err(wrong(
                "dns.zone",
                format!("the site {site} is not in {zone}"),
            ));
        }
        let mut nameservers = Vec::new();
        for (text, addresses) in &self.nameservers {
            let server = name("dns.nameservers", text)?;
            let inside = zone.zone_of(&server);
            let reason = if server == site {
                "is the site itself, whose addresses change; give the name server a name of its own"
            } else if inside && addresses.is_empty() {
                "is inside of the zone: give its addresses"
            } else if !inside && !addresses.is_empty() {
                "is outside of the zone, which cannot say its addresses: leave them away"
            } else {
                nameservers.push((server, addresses.clone()));
                continue;
            };
            return Err(wrong("dns.nameservers", format!("{text} {reason}")));
        }
        if nameservers.is_empty() {
            return Err(wrong("dns.nameservers", "name at least one".to_owned()));
        }
        if self.listen.is_empty() && self.powerdns.is_none() {
            return Err(wrong(
                "dns.listen",
                "give an address to answer at, or dns.powerdns".to_owned(),
            ));
        }
        if !(1..=3600).contains(&self.ttl) {
            return Err(wrong("dns.ttl", "is 1 to 3600 seconds".to_owned()));
        }
        if self
            .key_days
            .is_some_and(|days| !(30..=3650).contains(&days))
        {
            return Err(wrong("dns.key-days", "is 30 to 3650 days".to_owned()));
        }
        if let Some(text) = self
            .observant
            .iter()
            .find(|text| uri::Name::parse(text).is_none())
        {
            let reason =
                format!("{text} is no domain name; give what CAA records name the authority by");
            return Err(wrong("dns.observant", reason));
        }
        Ok(Shape {
            contact: match &self.contact {
                Some(address) => mailbox(address)?,
                None => zone
                    .prepend_label("hostmaster")
                    .map_err(DnsError::library)?,
            },
            issuance: self.issuance()?,
            ttl: self.ttl,
            zone,
            site,
            nameservers,
        })
    }

    fn issuance(&self) -> Result<Issuance, DnsError> {
        match (&self.authority, &self.account) {
            (None, None) => Ok(Issuance::Nobody),
            (Some(authority), Some(account)) => {
                let authority = uri::Name::parse(authority).ok_or_else(|| {
                    wrong(
                        "dns.authority",
                        "is a domain name, as the authority's own documentation gives it"
                            .to_owned(),
                    )
                })?;
                // What a parameter of a CAA value may hold (RFC 8659, section 4.2), and one string
                // of it.
                let fits = |byte: u8| matches!(byte, 0x21..=0x7e) && byte != b';' && byte != b'"';
                if !account.contains("://") || account.len() > 512 || !account.bytes().all(fits) {
                    return Err(wrong(
                        "dns.account",
                        "is the account's URI, such as https://acme.example/acct/1; ACME clients show it".to_owned(),
                    ));
                }
                Ok(Issuance::Account {
                    authority: authority.as_str().to_owned(),
                    account: account.clone(),
                })
            }
            (Some(_), None) => Err(wrong(
                "dns.account",
                "is missing: without it any account at the authority could get a certificate"
                    .to_owned(),
            )),
            (None, Some(_)) => Err(wrong(
                "dns.authority",
                "is missing: say at which authority the account is".to_owned(),
            )),
        }
    }
}

fn wrong(setting: &'static str, reason: String) -> DnsError {
    DnsError::Setting { setting, reason }
}

fn name(setting: &'static str, text: &str) -> Result<Name, DnsError> {
    let name =
        uri::Name::parse(text).ok_or_else(|| wrong(setting, format!("{text} is no host name")))?;
    absolute(&name)
}

/// A mail address as a name: what is before the `@` is one label.
fn mailbox(address: &str) -> Result<Name, DnsError> {
    let wrong = || {
        wrong(
            "dns.contact",
            "is a mail address, somebody@example.org".to_owned(),
        )
    };
    let (user, host) = address.split_once('@').ok_or_else(wrong)?;
    let host = uri::Name::parse(host).ok_or_else(wrong)?;
    if user.is_empty() || !user.bytes().all(|byte| matches!(byte, 0x21..=0x7e)) {
        return Err(wrong());
    }
    absolute(&host)?
        .prepend_label(user.as_bytes())
        .map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Settings {
        let value = serde_json::from_str(text).expect("valid JSON");
        serde_json::from_value(value).expect("valid settings")
    }

    fn site() -> uri::Name {
        uri::Name::parse("www.example.org").expect("a name")
    }

    const BASE: &str = r#""key": "/k", "listen": ["127.0.0.1:53"]"#;

    #[test]
    fn a_small_table_is_enough_and_lets_nobody_issue() {
        let shape = settings(&format!(
            r#"{{{BASE}, "nameservers": {{"ns.example.net": []}}}}"#
        ))
        .shape(&site())
        .expect("right");
        assert_eq!(shape.zone, shape.site);
        assert_eq!(shape.contact.to_ascii(), "hostmaster.www.example.org.");
        assert_eq!(shape.issuance, Issuance::Nobody);
        assert_eq!(shape.ttl, DEFAULT_TTL);
    }

    #[test]
    fn what_is_wrong_is_said_by_its_key() {
        let servers = r#""nameservers": {"ns.example.net": []}"#;
        for (rest, key) in [
            (format!(r#"{servers}, "zone": "example.com""#), "dns.zone"),
            (format!(r#"{servers}, "zone": "-""#), "dns.zone"),
            (r#""nameservers": {}"#.to_owned(), "dns.nameservers"),
            (
                r#""nameservers": {"www.example.org": ["192.0.2.1"]}"#.to_owned(),
                "dns.nameservers",
            ),
            (
                r#""nameservers": {"ns.www.example.org": []}"#.to_owned(),
                "dns.nameservers",
            ),
            (
                r#""nameservers": {"ns.example.net": ["192.0.2.1"]}"#.to_owned(),
                "dns.nameservers",
            ),
            (format!(r#"{servers}, "ttl": 0"#), "dns.ttl"),
            (format!(r#"{servers}, "key-days": 29"#), "dns.key-days"),
            (format!(r#"{servers}, "contact": "nobody""#), "dns.contact"),
            (
                format!(r#"{servers}, "observant": ["a b"]"#),
                "dns.observant",
            ),
            (
                format!(r#"{servers}, "authority": "ca.example""#),
                "dns.account",
            ),
            (
                format!(r#"{servers}, "account": "https://ca.example/1""#),
                "dns.authority",
            ),
            (
                format!(
                    r#"{servers}, "authority": "ca.example", "account": "https://ca.example/1; x=y""#
                ),
                "dns.account",
            ),
        ] {
            let error = settings(&format!("{{{BASE}, {rest}}}"))
                .shape(&site())
                .expect_err(&rest);
            assert!(
                matches!(error, DnsError::Setting { setting, .. } if setting == key),
                "{rest}: {error}"
            );
        }
        let nowhere = settings(&format!(r#"{{"key": "/k", {servers}}}"#));
        assert!(nowhere.shape(&site()).is_err());
    }
}
