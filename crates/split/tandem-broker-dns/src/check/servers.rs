//! Whether all name servers of a zone answer alike: one that was left behind sends clients, and
//! authorities, by old records.
//!
//! Is not: whether the answers are signed ([`super`]), nor a comparison of addresses: of those each
//! answer shows others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use hickory_net::xfer::{DnsHandle as _, FirstAnswer as _};
use hickory_proto::op::{DnsRequestOptions, Query};
use hickory_proto::rr::{Name, RData, RecordType};
use tandem_barnraising::certificate_policy::Finding;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::ask::Asker;

/// How long each of them may take for all its answers.
const PATIENCE: Duration = Duration::from_secs(8);
/// Addresses that are asked, of all servers together.
const MAX_ADDRESSES: usize = 16;

/// What is to be the same everywhere: who may issue, and which keys sign.
const KINDS: [RecordType; 3] = [RecordType::NS, RecordType::DNSKEY, RecordType::CAA];

/// What one server says, by kind of record.
type Said = BTreeMap<RecordType, BTreeSet<String>>;

/// Finds the servers of the zone in which this name is, and compares what they say at this port.
pub(super) async fn compare(resolver: SocketAddr, site: &Name, port: u16) -> Vec<Finding> {
    let resolver = Asker::new(resolver);
    let mut zone = site.clone();
    let mut servers = Vec::new();
    while servers.is_empty() && !zone.is_root() {
        // What has no answer may have servers.
        servers = match names(&resolver, &zone).await {
            Some(servers) => servers,
            None => return vec![Finding::UncomparedServers],
        };
        if servers.is_empty() {
            zone = zone.base_name();
        }
    }
    let mut findings = Vec::new();
    let mut asked = JoinSet::new();
    for server in servers {
        let addresses = addresses(&resolver, &server).await;
        if addresses.is_empty() {
            let server = server.to_string();
            findings.push(Finding::SilentServer { server });
        }
        for address in addresses {
            if !has_route(SocketAddr::new(address, port)).await {
                let server = address.to_string();
                findings.push(Finding::UnroutedServer { server });
            } else if asked.len() < MAX_ADDRESSES {
                let (zone, site) = (zone.clone(), site.clone());
                asked.spawn(async move {
                    let at = SocketAddr::new(address, port);
                    (address, timeout(PATIENCE, said(at, &zone, &site)).await)
                });
            }
        }
    }
    let mut answers: BTreeMap<IpAddr, Said> = BTreeMap::new();
    while let Some(asked) = asked.join_next().await {
        match asked {
            Ok((address, Ok(Some(said)))) => {
                answers.insert(address, said);
            }
            Ok((address, Ok(None) | Err(_))) => {
                let server = address.to_string();
                findings.push(Finding::SilentServer { server });
            }
            Err(_) => {}
        }
    }
    for kind in KINDS {
        let different: BTreeSet<_> = answers.values().map(|said| said.get(&kind)).collect();
        if different.len() > 1 {
            findings.push(Finding::DifferentServers {
                kind: kind.to_string(),
                servers: answers.keys().map(IpAddr::to_string).collect(),
            });
        }
    }
    findings
}

/// What a server says of the zone, and of the site in it; none where it does not answer.
async fn said(server: SocketAddr, zone: &Name, site: &Name) -> Option<Said> {
    let asker = Asker::new(server);
    let mut said = Said::new();
    for kind in KINDS {
        let name = if kind == RecordType::CAA { site } else { zone };
        let records = records(&asker, name, kind).await?;
        said.insert(kind, records.iter().map(RData::to_string).collect());
    }
    Some(said)
}

/// Whether this machine can send anything there: many have no IPv6. Nothing is sent.
async fn has_route(to: SocketAddr) -> bool {
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    match UdpSocket::bind(any).await {
        Ok(socket) => socket.connect(to).await.is_ok(),
        Err(_) => false,
    }
}

/// None where there is no answer.
async fn names(resolver: &Asker, zone: &Name) -> Option<Vec<Name>> {
    let records = records(resolver, zone, RecordType::NS).await?;
    let name = |data: RData| match data {
        RData::NS(server) => Some(server.0),
        _ => None,
    };
    Some(records.into_iter().filter_map(name).collect())
}

async fn addresses(resolver: &Asker, server: &Name) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    for kind in [RecordType::A, RecordType::AAAA] {
        let records = records(resolver, server, kind).await;
        addresses.extend(
            records
                .into_iter()
                .flatten()
                .filter_map(|data| data.ip_addr()),
        );
    }
    addresses
}

/// The records of this name; none where there is no answer.
async fn records(asker: &Asker, name: &Name, kind: RecordType) -> Option<Vec<RData>> {
    let query = Query::query(name.clone(), kind);
    let answer = asker.lookup(query, DnsRequestOptions::default());
    let answer = answer.first_answer().await.ok()?;
    let own = answer
        .answers
        .iter()
        .filter(|record| record.name == *name && record.record_type() == kind);
    Some(own.map(|record| record.data.clone()).collect())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use tokio::sync::watch;

    use super::*;
    use crate::{Dns, Settings};

    const SITE: &str = "www.tandem-site.org";

    /// A name server at this address; the zone's servers are at 127.0.0.2, .3 and .4, and where no
    /// machine has a route without the name of an interface.
    async fn serve(key: &Path, at: SocketAddr, account: &str) -> SocketAddr {
        let settings: Settings = serde_json::from_value(serde_json::json!({
            "key": key, "listen": [at], "authority": "letsencrypt.org",
            "account": format!("https://letsencrypt.org/acct/{account}"),
            "nameservers": {format!("ns.{SITE}"): ["127.0.0.2", "127.0.0.3", "127.0.0.4", "fe80::1"]},
        }))
        .expect("settings");
        let site = tandem_barnraising::uri::Name::parse(SITE).expect("a name");
        let (_, answers) = watch::channel(Arc::default());
        let dns = Dns::bind(&site, &settings, answers)
            .await
            .expect("loopback");
        let address = dns.addresses()[0];
        tokio::spawn(dns.serve());
        address
    }

    #[tokio::test]
    async fn servers_that_differ_or_are_silent_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = |name: &str| folder.path().join(name);
        let first = serve(&key("a"), ([127, 0, 0, 2], 0).into(), "1").await;
        let port = first.port();
        let site = Name::from_ascii(format!("{SITE}.")).expect("a name");
        serve(&key("a"), ([127, 0, 0, 3], port).into(), "1").await;
        let silent = Finding::SilentServer {
            server: "127.0.0.4".to_owned(),
        };
        let unrouted = Finding::UnroutedServer {
            server: "fe80::1".to_owned(),
        };
        let found = compare(first, &site, port).await;
        assert_eq!(found, [unrouted.clone(), silent]);
        // One with another account, and another key.
        serve(&key("b"), ([127, 0, 0, 4], port).into(), "2").await;
        let servers: Vec<String> = (2..=4).map(|host| format!("127.0.0.{host}")).collect();
        let different = ["DNSKEY", "CAA"].map(|kind| Finding::DifferentServers {
            kind: kind.to_owned(),
            servers: servers.clone(),
        });
        let found = compare(first, &site, port).await;
        assert_eq!((&found[0], &found[1..]), (&unrouted, &different[..]));
    }

    #[tokio::test]
    async fn without_an_answer_nothing_is_said_of_the_zone_above() {
        // Nobody is there any more, and the system says so at once.
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("loopback");
        let nobody = socket.local_addr().expect("bound");
        drop(socket);
        let site = Name::from_ascii(format!("{SITE}.")).expect("a name");
        let found = compare(nobody, &site, nobody.port()).await;
        assert_eq!(found, [Finding::UncomparedServers]);
    }
}
