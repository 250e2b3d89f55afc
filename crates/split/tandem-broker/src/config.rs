//! The broker's configuration: a file of TOML, checked.
//!
//! Is not: a default where only the operator can know: the site, where the origin is, and by which
//! key.
//!
//! Invariants: a key that is not known is an error, as is a value that makes no sense; each error
//! names the key and says what would be right.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tandem_barnraising::admission::{Policy, Rate};
use tandem_barnraising::certificate_policy::{Consent, Safeguard};
use tandem_barnraising::health::Thresholds;
use tandem_barnraising::roster;
use tandem_barnraising::uri::{DEFAULT_PORT, Host, Name};
use tandem_barnraising::{PublicKey, SiteUri};

use crate::error::BrokerError;

/// Authorities that browsers trust, where Debian, and Fedora, have them.
const ROOTS: [&str; 2] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
];

/// All that a broker needs to know.
#[derive(Debug, Clone)]
pub struct Config {
    /// The site's name.
    pub site: Name,
    /// Where volunteers come.
    pub listen: SocketAddr,
    /// Under which host volunteers find the broker, with a port where it is another than that of
    /// `listen`.
    pub address: Option<(Host, Option<u16>)>,
    /// The directory of the broker's key and its database.
    pub state: PathBuf,
    /// Where the page is shown, if anywhere.
    pub admin: Option<SocketAddr>,
    /// The origin, as volunteers find it: `HOST:PORT`.
    pub origin: String,
    /// The origin's key.
    pub origin_key: PublicKey,
    /// Addresses that serve the site when no volunteer is well.
    pub own_addresses: Vec<IpAddr>,
    /// The rules of the site.
    pub roster: roster::Settings,
    /// How volunteers are looked at.
    pub look: Look,
    /// Seconds after which members should renew.
    pub renew: u32,
    /// Which of two brokers of the site it is, if there are two.
    pub pair: Option<Pair>,
    /// The site's name server, if the broker is that too.
    pub dns: Option<tandem_broker_dns::Settings>,
    /// What has to be known of the site's name before volunteers serve it. The file cannot waive
    /// it.
    pub safeguard: Safeguard,
}

/// Which of two brokers of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pair {
    /// The one that leads.
    Primary {
        /// Where its standby comes.
        listen: SocketAddr,
    },
    /// The one that takes over when that is gone.
    Standby {
        /// The primary's `HOST:PORT`.
        primary: String,
    },
}

/// How volunteers are looked at.
#[derive(Debug, Clone)]
pub struct Look {
    /// The port at which browsers come to them.
    pub port: u16,
    /// What is fetched.
    pub path: String,
    /// How often.
    pub every: Duration,
    /// How long it may take.
    pub timeout: Duration,
    /// A PEM file of authorities that vouch for the site.
    pub roots: PathBuf,
}

/// The file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct File {
    site: String,
    listen: SocketAddr,
    address: Option<String>,
    #[serde(default = "default_state")]
    state: PathBuf,
    admin: Option<SocketAddr>,
    origin: OriginSection,
    #[serde(default)]
    admission: AdmissionSection,
    #[serde(default)]
    health: HealthSection,
    #[serde(default)]
    members: MembersSection,
    pair: Option<PairSection>,
    dns: Option<tandem_broker_dns::Settings>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct OriginSection {
    address: String,
    key: String,
    #[serde(default)]
    own_addresses: Vec<IpAddr>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct AdmissionSection {
    policy: Option<String>,
    volunteers: Option<PathBuf>,
    every_seconds: Option<f64>,
    burst: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct HealthSection {
    port: Option<u16>,
    path: Option<String>,
    every_seconds: Option<u64>,
    timeout_seconds: Option<u64>,
    up: Option<u32>,
    down: Option<u32>,
    roots: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct MembersSection {
    renew_seconds: Option<u32>,
    lease_seconds: Option<u64>,
    list_seconds: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct PairSection {
    listen: Option<SocketAddr>,
    primary: Option<String>,
}

fn default_state() -> PathBuf {
    PathBuf::from("/var/lib/tandem-broker")
}

impl Config {
    /// Reads a file, and the files that it names.
    ///
    /// # Errors
    /// It cannot be read, is no TOML, has an unknown key, or a value that makes no sense.
    pub fn load(path: &Path) -> Result<Self, BrokerError> {
        let text = std::fs::read_to_string(path).map_err(|source| BrokerError::ConfigFile {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, path)
    }

    /// Reads TOML; `path` is named in errors.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, BrokerError> {
        let file: File = toml::from_str(text).map_err(|error| {
            let start = error.span().unwrap_or_default().start;
            let before = text.bytes().take(start);
            let number = before.filter(|byte| *byte == b'\n').count();
            // What is wrong with a value does not name its key; its line does.
            let line = text.lines().nth(number).unwrap_or_default().trim();
            let message = error.message().trim();
            let hint = match message {
                "invalid socket address syntax" => {
                    "; ADDR:PORT is expected, such as \"127.0.0.1:8470\""
                }
                "invalid IP address syntax" => "; an address is expected, such as \"192.0.2.1\"",
                _ => "",
            };
            BrokerError::ConfigSyntax {
                path: path.to_owned(),
                line: 1 + number,
                problem: format!("`{line}`: {message}{hint}"),
            }
        })?;
        Self::check(file)
    }

    fn check(file: File) -> Result<Self, BrokerError> {
        let site = Name::parse(&file.site).ok_or_else(|| {
            let problem = format!(
                "{:?} is no name of a host; it is the name by which browsers know the site, without https:// and port",
                file.site
            );
            BrokerError::setting("site", problem)
        })?;
        let address = file.address.as_deref().map(host_and_port).transpose()?;
        let origin_key = PublicKey::from_hex(&file.origin.key).ok_or_else(|| {
            BrokerError::setting(
                "origin.key",
                "should have 64 hexadecimal digits; the origin logs its key when it starts",
            )
        })?;
        check_origin(&file.origin.address)?;
        if file.origin.own_addresses.len() > 16 {
            let problem = "more than 16 addresses, which no answer of DNS should hold";
            return Err(BrokerError::setting("origin.own-addresses", problem));
        }
        let members = file.members;
        let renew = at_least(1, "members.renew-seconds", members.renew_seconds, 60)?;
        let lease = members.lease_seconds.unwrap_or(3 * u64::from(renew));
        if lease <= u64::from(renew) {
            let problem = format!(
                "{lease} is no longer than members.renew-seconds ({renew}): members would be forgotten before they renew"
            );
            return Err(BrokerError::setting("members.lease-seconds", problem));
        }
        let list_life = members.list_seconds.unwrap_or(3600);
        if list_life <= 4 * u64::from(renew) {
            let problem = format!(
                "{list_life} is no longer than four times members.renew-seconds ({renew}): lists would end before they are renewed"
            );
            return Err(BrokerError::setting("members.list-seconds", problem));
        }
        let key = file.state.join("dns.key");
        Ok(Self {
            safeguard: Safeguard::of(site.as_str(), Consent::Withheld),
            site,
            listen: file.listen,
            address,
            state: file.state,
            admin: file.admin,
            origin: file.origin.address,
            origin_key,
            own_addresses: file.origin.own_addresses,
            roster: roster::Settings {
                policy: policy(&file.admission)?,
                rate: rate(&file.admission)?,
                thresholds: thresholds(&file.health)?,
                lease,
                list_life,
                ..roster::Settings::default()
            },
            look: look(file.health)?,
            renew,
            pair: file.pair.map(pair).transpose()?,
            dns: file.dns.map(|mut dns| {
                dns.key.get_or_insert(key);
                dns
            }),
        })
    }

    /// The same with what the operator says to volunteers that may obtain certificates.
    #[must_use]
    pub fn with_consent(self, consent: Consent) -> Self {
        Self {
            safeguard: Safeguard::of(self.site.as_str(), consent),
            ..self
        }
    }

    /// What volunteers are given, for the broker with this key that listens on this port.
    ///
    /// # Errors
    /// The file does not say under which address the broker is found.
    pub fn uri(&self, port: u16, key: PublicKey) -> Result<SiteUri, BrokerError> {
        let (host, port) = match &self.address {
            Some((host, other)) => (host.clone(), other.unwrap_or(port)),
            None if self.listen.ip().is_unspecified() => {
                return Err(BrokerError::setting(
                    "address",
                    "volunteers must be told where the broker is: the host by which they find it, or HOST:PORT",
                ));
            }
            None => (Host::Address(self.listen.ip()), port),
        };
        if port == 0 {
            let problem = "the port must be known before it can be told: not 0";
            return Err(BrokerError::setting("listen", problem));
        }
        Ok(SiteUri {
            host,
            port,
            site: self.site.clone(),
            key,
        })
    }
}

/// `HOST` or `HOST:PORT`, as in the URI.
fn host_and_port(text: &str) -> Result<(Host, Option<u16>), BrokerError> {
    let zeros = "0".repeat(2 * PublicKey::LEN);
    let uri = format!("barnraising://{text}/site#{zeros}");
    let uri: SiteUri = uri.parse().map_err(|_| {
        let problem = format!("{text:?} is no HOST or HOST:PORT");
        BrokerError::setting("address", problem)
    })?;
    let is_default = uri.port == DEFAULT_PORT && !text.ends_with(&format!(":{DEFAULT_PORT}"));
    let port = (!is_default).then_some(uri.port);
    Ok((uri.host, port))
}

fn check_origin(address: &str) -> Result<(), BrokerError> {
    if is_host_and_port(address) {
        return Ok(());
    }
    Err(BrokerError::setting(
        "origin.address",
        format!("{address:?} should be HOST:PORT, where volunteers find the origin"),
    ))
}

fn is_host_and_port(address: &str) -> bool {
    let port = address
        .rsplit_once(':')
        .filter(|(host, _)| !host.is_empty())
        .map(|(_, port)| port.parse::<u16>());
    let visible = address.len() <= 255 && address.bytes().all(|byte| byte.is_ascii_graphic());
    visible && matches!(port, Some(Ok(1..)))
}

fn pair(section: PairSection) -> Result<Pair, BrokerError> {
    match (section.listen, section.primary) {
        (Some(listen), None) => Ok(Pair::Primary { listen }),
        (None, Some(primary)) if is_host_and_port(&primary) => Ok(Pair::Standby { primary }),
        (None, Some(primary)) => Err(BrokerError::setting(
            "pair.primary",
            format!("{primary:?} should be HOST:PORT, what the primary has as pair.listen"),
        )),
        (Some(_), Some(_)) | (None, None) => Err(BrokerError::setting(
            "pair",
            "give `listen` to the primary, where its standby comes, or `primary` to the standby, whom it follows",
        )),
    }
}

fn policy(section: &AdmissionSection) -> Result<Policy, BrokerError> {
    let file = section.volunteers.as_deref();
    match (section.policy.as_deref(), file) {
        (None | Some("open"), None) => Ok(Policy::Anybody),
        (Some("closed"), None) => Ok(Policy::Closed),
        (None | Some("listed"), Some(path)) => listed_in(path).map(Policy::Listed),
        (Some("listed"), None) => Err(BrokerError::setting(
            "admission.volunteers",
            "with the policy `listed`, name the file of the volunteers' keys",
        )),
        (Some("open" | "closed"), Some(_)) => Err(BrokerError::setting(
            "admission.volunteers",
            "a file of keys goes with the policy `listed` only",
        )),
        (Some(other), _) => Err(BrokerError::setting(
            "admission.policy",
            format!("{other:?} is none of `open`, `listed` and `closed`"),
        )),
    }
}

/// One key on each line; `#` begins a comment.
fn listed_in(path: &Path) -> Result<BTreeSet<PublicKey>, BrokerError> {
    let key = "admission.volunteers";
    let text = std::fs::read_to_string(path)
        .map_err(|error| BrokerError::setting(key, format!("{}: {error}", path.display())))?;
    let mut keys = BTreeSet::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        keys.insert(PublicKey::from_hex(line).ok_or_else(|| {
            let problem = format!(
                "{}, line {}: a key has 64 hexadecimal digits; a volunteer logs its key when it starts",
                path.display(),
                number + 1
            );
            BrokerError::setting(key, problem)
        })?);
    }
    Ok(keys)
}

fn rate(section: &AdmissionSection) -> Result<Rate, BrokerError> {
    let default = Rate::default();
    let every = match section.every_seconds {
        None => default.every,
        Some(seconds) if (0.001..=3600.0).contains(&seconds) => Duration::from_secs_f64(seconds),
        Some(seconds) => {
            let problem = format!("{seconds} is not between 0.001 and 3600");
            return Err(BrokerError::setting("admission.every-seconds", problem));
        }
    };
    let burst = at_least(1, "admission.burst", section.burst, default.burst)?;
    Ok(Rate { every, burst })
}

fn thresholds(section: &HealthSection) -> Result<Thresholds, BrokerError> {
    let default = Thresholds::default();
    Ok(Thresholds {
        up: at_least(1, "health.up", section.up, default.up)?,
        down: at_least(1, "health.down", section.down, default.down)?,
    })
}

fn look(section: HealthSection) -> Result<Look, BrokerError> {
    let path = section.path.unwrap_or_else(|| "/".to_owned());
    if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        let problem = format!("{path:?} should be a path of the site, such as \"/\"");
        return Err(BrokerError::setting("health.path", problem));
    }
    let roots = match section.roots {
        Some(file) => file,
        None => ROOTS
            .iter()
            .map(PathBuf::from)
            .find(|file| file.exists())
            .ok_or_else(|| {
                let problem = format!(
                    "there is no {}; name a PEM file of the authorities that browsers trust",
                    ROOTS[0]
                );
                BrokerError::setting("health.roots", problem)
            })?,
    };
    let seconds = |key, said, default| at_least(1, key, said, default).map(Duration::from_secs);
    Ok(Look {
        port: at_least(1, "health.port", section.port, 443)?,
        path,
        every: seconds("health.every-seconds", section.every_seconds, 20)?,
        timeout: seconds("health.timeout-seconds", section.timeout_seconds, 10)?,
        roots,
    })
}

fn at_least<N: PartialOrd + std::fmt::Display>(
    least: N,
    key: &'static str,
    said: Option<N>,
    default: N,
) -> Result<N, BrokerError> {
    match said {
        None => Ok(default),
        Some(number) if number >= least => Ok(number),
        Some(number) => Err(BrokerError::setting(
            key,
            format!("{number} is less than {least}"),
        )),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const SMALL: &str = r#"
        site = "www.example.org"
        listen = "127.0.0.1:8470"
        [origin]
        address = "origin.example.org:7443"
        key = "0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"
        [health]
        roots = "/dev/null"
    "#;

    fn read(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("broker.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn the_least_that_must_be_said_is_enough() {
        let config = read(SMALL).expect("all that is needed");
        assert_eq!(config.state, Path::new("/var/lib/tandem-broker"));
        assert_eq!(config.roster.policy, Policy::Anybody);
        assert_eq!((config.renew, config.roster.lease), (60, 180));
        assert_eq!((config.look.port, config.look.path.as_str()), (443, "/"));
        let uri = config.uri(8470, config.origin_key).expect("an address");
        let shown = uri.to_string();
        assert!(
            shown.starts_with("barnraising://127.0.0.1/www.example.org#0f0f"),
            "{shown}"
        );
    }

    #[test]
    fn a_public_name_needs_a_safeguard_unless_the_operator_consents() {
        let of = |site: &str, consent| {
            let config = read(&SMALL.replace("www.example.org", site)).expect("well-formed");
            (config.safeguard, config.with_consent(consent).safeguard)
        };
        let required = Safeguard::Required;
        let waived = Safeguard::Waived;
        assert_eq!(of("www.site.org", Consent::Withheld), (required, required));
        assert_eq!(of("www.site.org", Consent::Given), (required, waived));
        let needless = Safeguard::Needless;
        assert_eq!(of("site.test", Consent::Given), (needless, needless));
    }

    #[test]
    fn the_uri_names_what_volunteers_find() {
        for (address, listen, host) in [
            ("broker.example", "0.0.0.0:8470", "broker.example"),
            ("broker.example", "0.0.0.0:99", "broker.example:99"),
            ("broker.example:7", "0.0.0.0:99", "broker.example:7"),
            ("broker.example:8470", "0.0.0.0:99", "broker.example"),
            ("[2001:db8::1]", "[::]:99", "[2001:db8::1]:99"),
        ] {
            let text = SMALL.replace("127.0.0.1:8470", listen);
            let config = read(&format!("address = \"{address}\"\n{text}")).expect("well-formed");
            let uri = config.uri(config.listen.port(), config.origin_key);
            let shown = uri.expect("an address").to_string();
            assert!(
                shown.starts_with(&format!("barnraising://{host}/www")),
                "{shown}"
            );
        }
        let config = read(&SMALL.replace("127.0.0.1", "0.0.0.0")).expect("well-formed");
        let said = config
            .uri(8470, config.origin_key)
            .map_err(|e| e.to_string());
        assert!(
            said.expect_err("nobody is at 0.0.0.0")
                .starts_with("address: ")
        );
    }

    #[test]
    fn what_is_wrong_is_named_by_its_key() {
        let with = |line: &str| format!("{line}\n{SMALL}");
        let within = |section: &str, line: &str| match section {
            "origin" | "health" => {
                SMALL.replace(&format!("[{section}]"), &format!("[{section}]\n{line}"))
            }
            _ => format!("{SMALL}\n[{section}]\n{line}"),
        };
        for (text, key) in [
            (with("sight = 1"), "unknown field `sight`"),
            (within("origin", "where = 1"), "unknown field `where`"),
            (within("dns", "liste = 1"), "unknown field `liste`"),
            (within("nonsense", "a = 1"), "unknown field `nonsense`"),
            (
                with("admin = \"9473\""),
                "`admin = \"9473\"`: invalid socket address syntax; ADDR",
            ),
            (SMALL.replace("site = ", "#"), "missing field `site`"),
            (SMALL.replace("www.example.org", "10.0.0.1"), "site: "),
            (SMALL.replace("0f0f0f", "0f0f"), "origin.key: "),
            (SMALL.replace(".org:7443", ".org"), "origin.address: "),
            (with("address = \"a b\""), "address: "),
            (
                within("admission", "policy = \"shut\""),
                "admission.policy: ",
            ),
            (
                within("admission", "policy = \"listed\""),
                "admission.volunteers: ",
            ),
            (
                within("admission", "volunteers = \"/none\""),
                "admission.volunteers: /none",
            ),
            (
                within("admission", "every-seconds = 0"),
                "admission.every-seconds: ",
            ),
            (within("admission", "burst = 0"), "admission.burst: "),
            (within("health", "up = 0"), "health.up: "),
            (within("health", "port = 0"), "health.port: "),
            (within("health", "path = \"x\""), "health.path: "),
            (within("pair", ""), "pair: "),
            (
                within("pair", "listen = \"127.0.0.1:1\"\nprimary = \"a:1\""),
                "pair: ",
            ),
            (within("pair", "primary = \"a\""), "pair.primary: "),
            (
                within("members", "lease-seconds = 60"),
                "members.lease-seconds: ",
            ),
            (
                within("members", "list-seconds = 60"),
                "members.list-seconds: ",
            ),
            (
                within("members", "renew-seconds = 0"),
                "members.renew-seconds: ",
            ),
        ] {
            let said = read(&text).expect_err(key);
            assert!(said.contains(key), "{key}: {said}");
        }
        let said = read(&with("sight = 1")).expect_err("unknown");
        assert!(said.starts_with("broker.toml, line 1: "), "{said}");
    }
}
