//! The settings file: keys, clients, and which client may have what signed by which key.
//!
//! Is not: read more than at the start and when SIGHUP asks for it.
//!
//! Invariants: a name that is not in the file, one that is there twice, and an unknown setting are
//! errors: a policy is never other than it looks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tandem_channel::KeyName;
use tandem_keyserver::{KeyId, Policy, Rule, Scheme, TlsVersion};

use crate::error::KeyServerError;
use crate::keys::Key;

/// Letters of a name, at most; names are shown in metrics and the audit log.
const MAX_NAME_LEN: usize = 64;
/// No machine signs as often.
const MAX_RATE: u32 = 1_000_000;

/// What a client is known by within the program: its channel key.
pub(crate) type PeerId = [u8; 32];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    channel_key: PathBuf,
    audit: Option<PathBuf>,
    #[serde(default)]
    key: Vec<KeyTable>,
    #[serde(default)]
    peer: Vec<PeerTable>,
    #[serde(default)]
    allow: Vec<AllowTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct KeyTable {
    name: String,
    file: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PeerTable {
    name: String,
    key: String,
    rate: u32,
    burst: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct AllowTable {
    peer: String,
    key: String,
    tls: Vec<String>,
    schemes: Option<Vec<String>>,
}

/// A client.
#[derive(Debug)]
pub(crate) struct Peer {
    /// As the settings call it.
    pub(crate) name: String,
    /// Signatures a second.
    pub(crate) rate: u32,
    /// Signatures at once.
    pub(crate) burst: u32,
}

/// What a settings file says, with the keys that it names.
#[derive(Debug)]
pub struct Loaded {
    pub(crate) channel_key: PathBuf,
    pub(crate) audit: Option<PathBuf>,
    pub(crate) keys: BTreeMap<KeyId, Key>,
    pub(crate) peers: BTreeMap<PeerId, Peer>,
    pub(crate) policy: Policy<PeerId>,
    /// A line for each rule, for people.
    pub(crate) rules: Vec<String>,
}

impl Loaded {
    /// Reads a settings file, and all key files that it names.
    ///
    /// # Errors
    /// A file cannot be read, or does not hold what it must.
    pub fn of_file(path: &Path) -> Result<Self, KeyServerError> {
        let text = fs::read_to_string(path).map_err(KeyServerError::file(path))?;
        let wrong = |reason: String| KeyServerError::content(path, reason);
        let file: File = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;

        let mut keys = BTreeMap::new();
        for table in &file.key {
            let name = checked(&table.name).map_err(wrong)?;
            let key = Key::read(name, &table.file)?;
            let is_new = keys.values().all(|other: &Key| other.name != key.name);
            if !is_new || keys.contains_key(&key.id) {
                return Err(wrong(format!("[[key]] {name}: is there twice")));
            }
            keys.insert(key.id, key);
        }

        let mut peers = BTreeMap::new();
        for table in &file.peer {
            let name = checked(&table.name).map_err(wrong)?;
            let of_peer = |reason: &str| wrong(format!("[[peer]] {name}: {reason}"));
            let id: KeyName = table
                .key
                .parse()
                .map_err(|reason: String| of_peer(&reason))?;
            if !(1..=MAX_RATE).contains(&table.rate) {
                return Err(of_peer("rate: give signatures a second, 1 to 1000000"));
            }
            let burst = table.burst.unwrap_or(table.rate.saturating_mul(2));
            if burst == 0 {
                return Err(of_peer("burst: give signatures at once, 1 at least"));
            }
            let peer = Peer {
                name: name.to_owned(),
                rate: table.rate,
                burst,
            };
            let is_new = peers.values().all(|other: &Peer| other.name != peer.name);
            if !is_new || peers.insert(id.bytes(), peer).is_some() {
                return Err(of_peer("is there twice"));
            }
        }

        let mut policy = Policy::default();
        let mut rules = Vec::new();
        for table in &file.allow {
            let of_rule = |reason: &str| {
                let (peer, key) = (&table.peer, &table.key);
                wrong(format!("[[allow]] of {peer} and {key}: {reason}"))
            };
            let peer = peers.iter().find(|(_, peer)| peer.name == table.peer);
            let (peer, _) = peer.ok_or_else(|| of_rule("there is no [[peer]] of that name"))?;
            let key = keys.values().find(|key| key.name == table.key);
            let key = key.ok_or_else(|| of_rule("there is no [[key]] of that name"))?;
            let rule = rule(table, key).map_err(|reason| of_rule(&reason))?;
            rules.push(told(table, &rule));
            if !policy.add(*peer, key.id, rule) {
                return Err(of_rule("is there twice; make one of them"));
            }
        }
        Ok(Self {
            channel_key: file.channel_key,
            audit: file.audit,
            keys,
            peers,
            policy,
            rules,
        })
    }

    /// What is allowed, a line for each key and each rule.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = String::new();
        for key in self.keys.values() {
            text += &format!("key {} {} {:?}\n", key.name, key.id, key.kind);
        }
        for (id, peer) in &self.peers {
            let key = KeyName::from_bytes(*id);
            let (name, rate, burst) = (&peer.name, peer.rate, peer.burst);
            text += &format!("peer {name} {key} rate {rate} burst {burst}\n");
        }
        for rule in &self.rules {
            text += &format!("allow {rule}\n");
        }
        text
    }
}

fn checked(name: &str) -> Result<&str, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.len() > MAX_NAME_LEN || !name.chars().all(is_plain) {
        return Err(format!(
            "name {name:?}: use 1 to {MAX_NAME_LEN} letters, digits, dots, hyphens and underscores"
        ));
    }
    Ok(name)
}

fn rule(table: &AllowTable, key: &Key) -> Result<Rule, String> {
    let mut versions = BTreeSet::new();
    for name in &table.tls {
        let version = TlsVersion::of_name(name);
        versions.insert(version.ok_or_else(|| format!("tls: {name:?} is neither 1.2 nor 1.3"))?);
    }
    if versions.is_empty() {
        return Err("tls: name 1.2, 1.3 or both".to_owned());
    }
    let possible = Rule::all_schemes(key.kind, versions.clone());
    let Some(names) = &table.schemes else {
        return Ok(possible);
    };
    let mut schemes = BTreeSet::new();
    for name in names {
        let scheme = Scheme::of_name(name).filter(|scheme| possible.schemes.contains(scheme));
        schemes.insert(scheme.ok_or_else(|| {
            let possible: Vec<&str> = possible.schemes.iter().map(|each| each.name()).collect();
            format!("schemes: {name:?} is none of {}", possible.join(", "))
        })?);
    }
    if schemes.is_empty() {
        return Err("schemes: name one, or leave the line out to allow all of the key".to_owned());
    }
    Ok(Rule { versions, schemes })
}

fn told(table: &AllowTable, rule: &Rule) -> String {
    let versions: Vec<&str> = rule.versions.iter().map(|version| version.name()).collect();
    let schemes: Vec<&str> = rule.schemes.iter().map(|scheme| scheme.name()).collect();
    let (peer, key) = (&table.peer, &table.key);
    format!(
        "{peer} {key} tls {} {}",
        versions.join(","),
        schemes.join(",")
    )
}
