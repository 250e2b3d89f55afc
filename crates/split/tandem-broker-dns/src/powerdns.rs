//! The same zone for a PowerDNS that a site already runs, by its remote backend over a unix socket.
//!
//! ```text
//!   pdns_server -- {"method":"lookup","parameters":{"qname":...,"qtype":...}} \n --> here
//!               <-- {"result":[{"qname":...,"qtype":...,"content":...,"ttl":...}]} \n --
//! ```
//!
//! Is: what PowerDNS 4.7 asks of a zone that it signs itself: it is given our key, so the DS record
//! is the same whoever answers, and what it keeps in its caches always fits its signatures. Is not:
//! its HTTP, pipe and ZeroMQ connectors, transfers to us, or changes by it.
//!
//! The key goes over the socket: it is for its owner and group only.

use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hickory_proto::rr::{Name, RData, Record, RecordType};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::error::DnsError;
use crate::key::FLAGS;
use crate::zone::{Found, Signed, Zone};

/// Longest question in bytes, far above what PowerDNS sends.
const QUESTION_MOST: u64 = 64 * 1024;

/// PowerDNS opens one connection for each of its threads.
const CONNECTIONS: usize = 128;

/// Our only zone's number.
const ZONE_ID: u32 = 1;

/// The endpoint, listening.
pub(crate) struct PowerDns {
    listener: UnixListener,
    path: PathBuf,
    backend: Arc<Backend>,
}

impl PowerDns {
    pub(crate) fn bind(path: &Path, zone: watch::Receiver<Arc<Zone>>) -> Result<Self, DnsError> {
        let file = |error| DnsError::file(path, error);
        remove_stale(path).map_err(file)?;
        let listener = UnixListener::bind(path).map_err(file)?;
        let permissions = std::fs::Permissions::from_mode(0o660);
        std::fs::set_permissions(path, permissions).map_err(file)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            backend: Arc::new(Backend { zone }),
        })
    }

    /// Answers for ever.
    pub(crate) async fn serve(self) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) if connections.len() < CONNECTIONS => {
                        connections.spawn(serve(stream, Arc::clone(&self.backend)));
                    }
                    Ok(_) => tracing::warn!("PowerDNS has opened too many connections"),
                    Err(error) => {
                        tracing::warn!(%error, "PowerDNS cannot connect for a moment");
                        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }
}

impl Drop for PowerDns {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.path));
    }
}

/// Takes away a socket that somebody who was killed has left; one that is answered stays.
fn remove_stale(path: &Path) -> std::io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => {
            match std::os::unix::net::UnixStream::connect(path) {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    std::fs::remove_file(path)
                }
                Ok(_) | Err(_) => Err(ErrorKind::AddrInUse.into()),
            }
        }
        Ok(_) => Err(ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

async fn serve(stream: UnixStream, backend: Arc<Backend>) {
    let (reading, mut writing) = stream.into_split();
    let mut reading = BufReader::new(reading);
    loop {
        let mut line = Vec::new();
        let read = (&mut reading)
            .take(QUESTION_MOST)
            .read_until(b'\n', &mut line)
            .await;
        if !matches!(read, Ok(length) if length > 0) || !line.ends_with(b"\n") {
            return;
        }
        let mut answer = backend.answer(&line).to_string();
        answer.push('\n');
        if writing.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Answers questions out of the zone of the moment.
struct Backend {
    zone: watch::Receiver<Arc<Zone>>,
}

impl Backend {
    /// The result of one question; `false` is how a backend says that it has none, or cannot do
    /// this.
    fn answer(&self, question: &[u8]) -> Value {
        let Ok(question) = serde_json::from_slice::<Value>(question) else {
            return json!({"result": false});
        };
        let zone = Arc::clone(&self.zone.borrow());
        let parameters = &question["parameters"];
        let name = |key: &str| parameters[key].as_str().and_then(parse);
        let ours = || name("name").is_some_and(|name| name == zone.apex);
        let result = match question["method"].as_str().unwrap_or_default() {
            "initialize" => json!(true),
            "lookup" => match name("qname") {
                Some(name) => lookup(&zone, &name, parameters["qtype"].as_str()),
                None => json!([]),
            },
            "list" => match name("zonename") {
                Some(name) if name == zone.apex => list(&zone),
                Some(_) | None => json!(false),
            },
            "getAllDomains" => json!([information(&zone)]),
            "getDomainInfo" if ours() => information(&zone),
            "getDomainMetadata" => json!([]),
            "getAllDomainMetadata" => json!({}),
            "getDomainKeys" if ours() => keys(&zone),
            "getBeforeAndAfterNamesAbsolute" => {
                neighbours(&zone, parameters["qname"].as_str().unwrap_or_default())
            }
            _ => json!(false),
        };
        json!({"result": result})
    }
}

/// All keys, of which each signs everything: PowerDNS itself changes no keys, and with two keys of
/// one algorithm a signature of either is enough (RFC 6840, section 5.11).
fn keys(zone: &Zone) -> Value {
    let keys = zone.keys.published().enumerate().map(|(index, key)| {
        json!({
            "id": index + 1, "flags": FLAGS, "active": true, "published": true, "content": key.private_text(),
        })
    });
    Value::Array(keys.collect())
}

fn lookup(zone: &Zone, name: &Name, kind: Option<&str>) -> Value {
    let Found::Node(node) = zone.find(name) else {
        return json!([]);
    };
    let any = matches!(kind, Some("ANY") | None);
    let wanted = node
        .sets(|of| any || kind.is_some_and(|kind| of.to_string() == kind))
        .map(|shown| shown.set);
    Value::Array(wanted.flat_map(records).collect())
}

/// A name as PowerDNS writes it, with or without the dot at its end; nothing where it is none.
fn parse(text: &str) -> Option<Name> {
    let mut name = Name::from_ascii(text).ok()?.to_lowercase();
    name.set_fqdn(true);
    Some(name)
}

/// The records of a set, in the form of a zone file. Keys, signatures and denials PowerDNS makes
/// itself.
fn records(set: &Signed) -> impl Iterator<Item = Value> {
    set.records
        .iter()
        .filter(|record| !matches!(record.record_type(), RecordType::NSEC | RecordType::DNSKEY))
        .map(|record| {
            json!({
                "qname": record.name.to_ascii(), "qtype": record.record_type().to_string(),
                "content": content(record), "ttl": record.ttl, "auth": true, "domain_id": ZONE_ID,
            })
        })
}

fn content(record: &Record) -> String {
    match &record.data {
        RData::TXT(text) => {
            let strings = text.txt_data.iter().map(|string| {
                let string = String::from_utf8_lossy(string);
                format!("\"{}\"", string.replace('\\', "\\\\").replace('"', "\\\""))
            });
            strings.collect::<Vec<_>>().join(" ")
        }
        // The library writes a comma after each protocol, and so after the last.
        RData::HTTPS(_) => record.data.to_string().replace(",", ""),
        data => data.to_string(),
    }
}

fn list(zone: &Zone) -> Value {
    let sets = zone
        .nodes()
        .flat_map(|(_, node)| node.sets(|_| true))
        .map(|shown| shown.set);
    Value::Array(sets.flat_map(records).collect())
}

fn information(zone: &Zone) -> Value {
    json!({
        "id": ZONE_ID, "zone": zone.apex.to_ascii(), "kind": "native", "serial": zone.serial,
        "notified_serial": zone.serial, "masters": [], "last_check": 0,
    })
}

/// The names around one in canonical order, relative to the zone: out of them PowerDNS makes NSEC
/// records.
fn neighbours(zone: &Zone, relative: &str) -> Value {
    let relative = relative.trim_end_matches('.');
    let mut labels = relative.split('.').filter(|label| !label.is_empty()).rev();
    let absolute = labels.try_fold(zone.apex.clone(), |name, label| {
        name.prepend_label(label.as_bytes()).ok()
    });
    let Some(name) = absolute else {
        return json!(false);
    };
    let relative = |name: &Name| {
        let own = usize::from(name.num_labels() - zone.apex.num_labels());
        let labels = name.iter().take(own).map(String::from_utf8_lossy);
        labels.collect::<Vec<_>>().join(".")
    };
    let before = zone
        .nodes()
        .map(|(name, _)| name)
        .rfind(|other| **other <= name);
    let after = zone
        .nodes()
        .map(|(name, _)| name)
        .find(|other| **other > name);
    let before = before.or_else(|| zone.nodes().map(|(name, _)| name).next_back());
    // After the last comes the apex.
    json!({
        "before": before.map(&relative).unwrap_or_default(), "after": after.map(&relative).unwrap_or_default(),
        "unhashed": before.map(&relative).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests;
