//! Files: certificates, keys, authorities, and the settings of servers and middleboxes in TOML.
//!
//! Is not: arguments. Invariants: a key that is not known is an error; nothing is granted or
//! permitted by a mistake in a file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mctls::config::{Right, Terms};
use mctls_io::{Identity, MIDDLEBOX_USAGE_OID};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::Deserialize;

use crate::error::McError;
use crate::layout::{FOUR, OFFERS};

/// The settings of a middlebox.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BoxSettings {
    /// Where clients may have it connect to: `HOST:PORT`, with `*` for either. None: only to this
    /// machine, for a middlebox that listens on loopback only; others need one.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Filter: what is blocked.
    #[serde(default)]
    pub block: Vec<String>,
    /// Intrusion detection: what is looked for.
    #[serde(default)]
    pub patterns: Vec<String>,
    /// Tracker blocker: at which hosts. None: at all.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Tracker blocker: which headers. None: its own list.
    #[serde(default)]
    pub headers: Vec<String>,
    /// Cache, WAN optimiser: how much it holds, in bytes. 64 MiB by default.
    #[serde(default)]
    pub memory: Option<usize>,
    /// Cache: the longest body that it keeps, in bytes. 8 MiB by default.
    #[serde(default)]
    pub max_body: Option<usize>,
    /// Pacer: how fast, in bytes a second.
    #[serde(default)]
    pub rate: Option<u32>,
    /// Pacer: how many bytes go at once after a pause. 32 KiB by default.
    #[serde(default)]
    pub burst: Option<u32>,
    /// Pacer: which types of content, by how they begin. None: everything.
    #[serde(default)]
    pub types: Vec<String>,
    /// Balancer: the servers, `HOST:PORT` each.
    #[serde(default)]
    pub backends: Vec<String>,
    /// Balancer: by what it chooses.
    #[serde(default)]
    pub balance: By,
    /// WAN optimiser: the name in the other one's certificate.
    #[serde(default)]
    pub peer: Option<String>,
    /// WAN optimiser: the file with the key that the two have in common.
    #[serde(default)]
    pub pair_key: Option<PathBuf>,
    /// WAN optimiser: contexts in which it shortens. None: bodies of responses.
    #[serde(default)]
    pub shorten: Vec<String>,
    /// ICAP: the server for requests, `icap://HOST[:PORT]/SERVICE`.
    #[serde(default)]
    pub reqmod: Option<String>,
    /// ICAP: the server for responses.
    #[serde(default)]
    pub respmod: Option<String>,
    /// ICAP: how long the server may take for a step, in seconds. 10 by default.
    #[serde(default)]
    pub icap_timeout: Option<u64>,
    /// ICAP: what happens where the server has failed.
    #[serde(default)]
    pub when_dead: WhenDead,
}

/// What happens to a message of which an ICAP server has not said what becomes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenDead {
    /// It is blocked.
    #[default]
    FailClosed,
    /// It goes on unchecked.
    FailOpen,
}

/// By what a balancer chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// One after the other.
    #[default]
    RoundRobin,
    /// The client's address: the same client, the same server.
    Client,
}

impl BoxSettings {
    /// Those in a file; the defaults without one.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub fn read(path: Option<&Path>) -> Result<Self, McError> {
        path.map_or_else(|| Ok(Self::default()), read)
    }

    /// Whether it may listen there: without `allow`, only this machine's own programs may reach
    /// what listens on this machine, as they may without it.
    ///
    /// # Errors
    /// [`McError::Config`]: strangers could.
    pub fn check_reach(&self, listen: SocketAddr) -> Result<(), McError> {
        if listen.ip().is_loopback() || !self.allow.is_empty() {
            return Ok(());
        }
        Err(McError::config(
            "a middlebox that listens beyond loopback needs the servers that clients may reach \
             through it: allow = [\"*:443\"]",
        ))
    }

    /// Whether a client may have the middlebox connect to this `HOST:PORT`.
    #[must_use]
    pub fn permits(&self, next: &str) -> bool {
        let Some((host, port)) = next.rsplit_once(':') else {
            return false;
        };
        if self.allow.is_empty() {
            let bare = host.trim_start_matches('[').trim_end_matches(']');
            return bare == "localhost"
                || bare
                    .parse()
                    .is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
        }
        self.allow.iter().any(|entry| {
            entry.rsplit_once(':').is_some_and(|(hosts, ports)| {
                (hosts == "*" || hosts.eq_ignore_ascii_case(host))
                    && (ports == "*" || ports == port)
            })
        })
    }
}

/// The settings of a server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ServerSettings {
    /// Which middleboxes are admitted, and with which rights at most. None: any that an authority
    /// vouches for, with what the client grants.
    #[serde(default, rename = "middlebox")]
    pub middleboxes: Vec<Admitted>,
    /// Header lines for some files.
    #[serde(default, rename = "header")]
    pub headers: Vec<HeaderLine>,
    /// Gateway: more headers of requests that reach the server behind it.
    #[serde(default)]
    pub pass: Vec<String>,
}

/// A header line of the answers for some files.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeaderLine {
    /// How their paths begin.
    pub path: String,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl HeaderLine {
    fn check(&self) -> Result<(), McError> {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_name = !self.name.is_empty() && self.name.bytes().all(is_token);
        let is_shown = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
        // What the server says itself.
        let own = [
            "content-length",
            "transfer-encoding",
            "connection",
            "content-encoding",
            "repr-digest",
            "mc-request",
        ];
        let is_own = own.contains(&self.name.to_ascii_lowercase().as_str());
        match is_name && !is_own && self.value.bytes().all(is_shown) {
            true => Ok(()),
            false => Err(McError::config(&format!(
                "header: {:?} is none that can be added",
                self.name
            ))),
        }
    }
}

/// A middlebox that a server admits.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Admitted {
    /// The name in its certificate.
    pub name: String,
    /// Its right in the context of this purpose, at most.
    #[serde(default)]
    pub request_headers: Most,
    /// The same.
    #[serde(default)]
    pub request_body: Most,
    /// The same.
    #[serde(default)]
    pub response_headers: Most,
    /// The same.
    #[serde(default)]
    pub response_body: Most,
}

/// A right in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Most {
    /// None.
    #[default]
    None,
    /// Read.
    Read,
    /// Write.
    Write,
}

impl Most {
    const fn right(self) -> Right {
        match self {
            Self::None => Right::None,
            Self::Read => Right::Read,
            Self::Write => Right::Write,
        }
    }
}

impl ServerSettings {
    /// Those in a file; the defaults without one.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub fn read(path: Option<&Path>) -> Result<Self, McError> {
        let settings: Self = path.map_or_else(|| Ok(Self::default()), read)?;
        settings.headers.iter().try_for_each(HeaderLine::check)?;
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let is_bad = |one: &&String| one.is_empty() || !one.bytes().all(is_good);
        if let Some(bad) = settings.pass.iter().find(is_bad) {
            return Err(McError::config(&format!(
                "pass: {bad:?} is no name of a header in letters, digits and `-`"
            )));
        }
        Ok(settings)
    }

    /// Those of a server of files, to which headers of requests mean nothing.
    ///
    /// # Errors
    /// They are a gateway's.
    pub fn for_files(self) -> Result<Self, McError> {
        match self.pass.is_empty() {
            true => Ok(self),
            false => Err(McError::config(
                "pass: only `gateway server` has a server behind it",
            )),
        }
    }

    /// What is made of an offer: terms that grant no more than these settings; `None` refuses it.
    #[must_use]
    pub fn answer(&self, offered: &Terms) -> Option<Terms> {
        let mut terms = offered.clone();
        if self.middleboxes.is_empty() {
            return Some(terms);
        }
        for (position, entry) in offered.positions().zip(offered.middleboxes()) {
            let admitted = self.middleboxes.iter().find(|one| one.name == entry.name)?;
            let four = [
                admitted.request_headers,
                admitted.request_body,
                admitted.response_headers,
                admitted.response_body,
            ]
            .map(Most::right);
            for context in offered.contexts() {
                let index = FOUR.iter().position(|name| *name == context.purpose);
                // One context holds everything: the least of the four is what may be granted.
                let least = four.into_iter().min().unwrap_or(Right::None);
                let most = match (index, context.purpose.as_str()) {
                    (Some(index), _) => four[index],
                    // Whoever may fill bodies in may say which it holds.
                    (None, OFFERS) => four[3],
                    (None, _) => least,
                };
                terms = terms.reduced(position, context.id, most);
            }
        }
        Some(terms)
    }
}

pub(crate) fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, McError> {
    let text = std::fs::read_to_string(path).map_err(McError::file(path))?;
    toml::from_str(&text).map_err(|error| McError::content(path, error.to_string()))
}

/// A certificate chain and its key, from files of PEM.
///
/// # Errors
/// They cannot be read, or have none.
pub fn identity(cert: &Path, key: &Path) -> Result<Identity, McError> {
    let chain = certificates(cert)?;
    let pem = std::fs::read(key).map_err(McError::file(key))?;
    let key = PrivateKeyDer::from_pem_slice(&pem)
        .map_err(|error| McError::content(key, format!("no private key in PEM ({error})")))?;
    Ok(Identity { chain, key })
}

/// Authorities, from a file of PEM.
///
/// # Errors
/// It cannot be read, or has none.
pub fn authorities(path: &Path) -> Result<Arc<RootCertStore>, McError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        let added = roots.add(certificate);
        added.map_err(|error| McError::content(path, error.to_string()))?;
    }
    Ok(Arc::new(roots))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, McError> {
    let pem = std::fs::read(path).map_err(McError::file(path))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|error| McError::content(path, error.to_string()))?;
    if found.is_empty() {
        return Err(McError::content(path, "no certificates in PEM"));
    }
    Ok(found)
}

/// What certificates of middleboxes are made with.
pub const USAGE: &str = MIDDLEBOX_USAGE_OID;

#[cfg(test)]
mod tests {
    use mctls::config::Middlebox;
    use mctls::party::Position;

    use super::*;
    use crate::layout::contexts;

    #[test]
    fn a_middlebox_connects_to_this_machine_unless_more_is_permitted() {
        let none = BoxSettings::default();
        for near in ["127.0.0.1:1", "127.9.9.9:443", "[::1]:443", "localhost:80"] {
            assert!(none.permits(near), "{near}");
        }
        for far in [
            "192.0.2.1:443",
            "example.org:443",
            "localhost.example:1",
            "x",
            "",
        ] {
            assert!(!none.permits(far), "{far}");
        }
        let some = BoxSettings {
            allow: vec!["*:443".into(), "a.example:*".into()],
            ..BoxSettings::default()
        };
        for (next, permitted) in [
            ("x.example:443", true),
            ("A.example:9", true),
            ("x.example:444", false),
            ("127.0.0.1:1", false),
        ] {
            assert_eq!(some.permits(next), permitted, "{next}");
        }
    }

    #[test]
    fn a_middlebox_that_strangers_reach_says_where_they_may_go() {
        let none = BoxSettings::default();
        let some = BoxSettings {
            allow: vec!["*:443".into()],
            ..BoxSettings::default()
        };
        for (listen, is_near) in [
            ("127.0.0.1:1", true),
            ("127.9.9.9:1", true),
            ("[::1]:1", true),
            ("0.0.0.0:1", false),
            ("[::]:1", false),
            ("192.168.0.1:1", false),
        ] {
            let listen = listen.parse().expect("an address");
            assert_eq!(none.check_reach(listen).is_ok(), is_near, "{listen}");
            assert!(some.check_reach(listen).is_ok(), "{listen}");
        }
    }

    fn offered(count: u8, right: Right) -> Terms {
        let mut contexts = contexts(count, 1).expect("a number that can be");
        for context in &mut contexts {
            context.rights = vec![right];
        }
        let filter = Middlebox {
            name: "filter.example".into(),
            certificate: [1; 32],
        };
        Terms::new([0; 32], vec![filter], contexts).expect("good terms")
    }

    #[test]
    fn a_server_grants_no_more_than_its_settings_say() {
        let text = "[[middlebox]]\nname = \"filter.example\"\nrequest-headers = \"read\"\n";
        let settings: ServerSettings = toml::from_str(text).expect("good settings");
        let one = Position::new(1).expect("a position");
        let rights = |terms: Terms| {
            let contexts = terms.contexts().iter();
            contexts
                .map(|context| context.right(one))
                .collect::<Vec<_>>()
        };
        use Right::{None as No, Read, Write};
        let answer = settings.answer(&offered(4, Write)).expect("admitted");
        assert_eq!(rights(answer), [Read, No, No, No]);
        let answer = settings.answer(&offered(1, Write)).expect("admitted");
        assert_eq!(rights(answer), [No]);
        let strict: ServerSettings =
            toml::from_str("[[middlebox]]\nname = \"other.example\"\n").expect("good settings");
        assert_eq!(strict.answer(&offered(4, Read)), None);
        let open = ServerSettings::default();
        assert_eq!(open.answer(&offered(4, Read)), Some(offered(4, Read)));
    }

    #[test]
    fn header_lines_are_none_that_the_server_says_itself() {
        let line = |name: &str| HeaderLine {
            path: "/".into(),
            name: name.into(),
            value: "private".into(),
        };
        assert!(line("Cache-Control").check().is_ok());
        for name in ["", "a b", "Content-Length", "mc-request"] {
            assert!(line(name).check().is_err(), "{name:?}");
        }
    }

    #[test]
    fn headers_that_pass_are_names_and_only_a_gateways() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("server.toml");
        for (text, is_read) in [
            ("pass = [\"X-Api-Key\"]", true),
            ("pass = [\"X_Api_Key\"]", false),
            ("pass = [\"\"]", false),
            ("pass = [\"X: y\"]", false),
        ] {
            std::fs::write(&path, text).expect("own folder");
            let read = ServerSettings::read(Some(&path));
            assert_eq!(read.is_ok(), is_read, "{text}");
            assert!(read.is_err() || read.and_then(ServerSettings::for_files).is_err());
        }
        assert!(ServerSettings::default().for_files().is_ok());
    }

    #[test]
    fn a_key_that_is_not_known_is_an_error() {
        assert!(toml::from_str::<BoxSettings>("blocks = []").is_err());
        assert!(toml::from_str::<ServerSettings>("middleboxes = []").is_err());
    }
}
