//! Tunnel mode: its settings, checked, become the configuration of `tandem-tunnel-io`.
//!
//! Is not: packet mode, whose crate checks its settings itself.

mod fleet;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tandem_packet_io::config::{self, Key, Role};
use tandem_tunnel::dns::Clients;
use tandem_tunnel::{
    Allowed, ClientNetworks, ClientRule, Handshakes, Limits, Prefer, Rule, Rules, Tariff, WayOut,
};
use tandem_tunnel_io::config::{
    ClientAddresses, ClientCertificates, ClientSide, Dns, DnsServer, Intercept, Line, Link,
    Renewals, ServerSide, Udp, WhenDown,
};
use tandem_tunnel_io::{
    dry_run_client_side, dry_run_server_side, run_client_side, run_server_side,
};

pub(in crate::command) use fleet::server;
#[cfg(feature = "shared-store")]
pub(in crate::command) use fleet::shared_store_server;

use super::say_ready;
use crate::exit::Failure;
use crate::settings::{Settings, SettingsError, tariff};

/// What stands in the default store's name in place of a link.
const STORE: &str = "tunnel";

/// `reason`: why it is tunnel mode.
pub(super) fn run(role: Role, said: Settings, reason: Option<&'static str>) -> Result<(), Failure> {
    match role {
        Role::ClientSide => {
            let config = ClientSide {
                mode_reason: reason,
                ..resolve_client_side(said)?
            };
            run_client_side(config, say_ready)?;
        }
        Role::ServerSide => {
            let config = ServerSide {
                mode_reason: reason,
                ..resolve_server_side(said)?
            };
            run_server_side(config, say_ready)?;
        }
    }
    Ok(())
}

/// What would be done to the firewall. The settings are held to the same as by the start.
pub(super) fn dry_run(role: Role, said: Settings) -> Result<String, Failure> {
    match role {
        Role::ClientSide => Ok(dry_run_client_side(&resolve_client_side(said)?)?),
        Role::ServerSide => Ok(dry_run_server_side(&resolve_server_side(said)?)?),
    }
}

fn resolve_client_side(said: Settings) -> Result<ClientSide, Failure> {
    let peer = peer(&said)?;
    let link = link(&said)?;
    way_in(&said)?;
    let rules = rules(&said)?;
    let client_addresses = match said.tell_client_address {
        Some(true) => ClientAddresses::Told,
        Some(false) | None => ClientAddresses::Kept,
    };
    let dns = dns(&said)?;
    let server = fleet::server(&said)?;
    let common = Common::of(Role::ClientSide, &said)?;
    Ok(ClientSide {
        key: common.key,
        server,
        peer,
        link,
        socks: said.socks,
        http_proxy: said.http_proxy,
        rules,
        limits: limits(&said),
        tariff: tariff(&said)?,
        client_addresses,
        renewals: match said.renew_ahead {
            Some(true) => Renewals::Ahead,
            Some(false) | None => Renewals::AtVisits,
        },
        client_certificates: common.client_certificates,
        dns,
        handshake_keys: said.handshake_keys.clone(),
        prefer: common.prefer,
        authorities: common.authorities,
        line: common.line,
        handshakes: common.handshakes,
        store: common.store,
        admin: common.admin,
        mode_reason: None,
    })
}

fn resolve_server_side(said: Settings) -> Result<ServerSide, Failure> {
    let listen = listen(&said)?;
    let allowed = allowed(said.allow.as_deref())?;
    let way_out = way_out(&said)?;
    let dns_server = dns_server(said.dns_server.as_deref())?;
    let handshake_keys = said.handshake_keys.clone();
    let clients = fleet::clients(&said)?;
    let common = Common::of(Role::ServerSide, &said)?;
    let shared_store = fleet::shared_store(&said, &common.key)?;
    Ok(ServerSide {
        key: common.key,
        clients,
        shared_store,
        listen,
        allowed,
        way_out,
        dns_server,
        client_certificates: common.client_certificates,
        handshake_keys,
        prefer: common.prefer,
        authorities: common.authorities,
        line: common.line,
        handshakes: common.handshakes,
        store: common.store,
        admin: common.admin,
        mode_reason: None,
    })
}

/// Whatever the start would refuse of these settings, but for the key and the store.
pub(in crate::command) fn check(role: Role, said: &Settings) -> Result<(), Failure> {
    client_certificates(said.client_certificates.as_deref())?;
    line(said)?;
    prefer(said.prefer.as_deref())?;
    match role {
        Role::ClientSide => {
            peer(said)?;
            link(said)?;
            way_in(said)?;
            rules(said)?;
            tariff(said)?;
            dns(said)?;
            fleet::server(said)?;
        }
        Role::ServerSide => {
            listen(said)?;
            allowed(said.allow.as_deref())?;
            way_out(said)?;
            dns_server(said.dns_server.as_deref())?;
            fleet::clients(said)?;
            fleet::check_shared_store(said)?;
        }
    }
    Ok(())
}

/// What both sides have.
struct Common {
    key: Key,
    client_certificates: ClientCertificates,
    authorities: Option<PathBuf>,
    line: Line,
    prefer: Prefer,
    handshakes: Handshakes,
    store: PathBuf,
    admin: Option<SocketAddr>,
}

impl Common {
    fn of(role: Role, said: &Settings) -> Result<Self, Failure> {
        let client_certificates = client_certificates(said.client_certificates.as_deref())?;
        let line = line(said)?;
        let prefer = prefer(said.prefer.as_deref())?;
        let handshakes = match said.whole_handshakes {
            Some(true) => Handshakes::Whole,
            Some(false) | None => Handshakes::Shortened,
        };
        let store = match &said.store {
            Some(directory) => directory.clone(),
            None => default_store(role)?,
        };
        let admin = config::admin(role, said.admin.as_deref())?;
        let key = said.key.as_deref().ok_or_else(|| {
            let problem =
                "name the file of the key that both sides share (`tandem pair` makes one on each)";
            SettingsError::value("key", problem)
        })?;
        Ok(Self {
            key: config::read_key(key)?,
            client_certificates,
            authorities: said.authorities.clone(),
            line,
            prefer,
            handshakes,
            store,
            admin,
        })
    }
}

/// Where the store is unless it is set.
pub(in crate::command) fn default_store(role: Role) -> Result<PathBuf, Failure> {
    Ok(config::default_store(role, STORE)?)
}

/// What is said of the line.
pub(in crate::command) fn line(said: &Settings) -> Result<Line, SettingsError> {
    Ok(Line {
        rate: said.link_rate.map(|rate| rate.bits_per_second().get()),
        round_trip: round_trip(said.link_rtt)?,
    })
}

/// Which connections are taken in by the firewall.
pub(in crate::command) fn link(said: &Settings) -> Result<Option<Link>, Failure> {
    let Some(interface) = &said.link else {
        let only_with_it = [
            ("ports", said.ports.is_some()),
            ("from", said.from.is_some()),
            ("intercept", said.intercept.is_some()),
            ("udp", said.udp.is_some()),
            ("when-down", said.when_down.is_some()),
        ];
        return match only_with_it.into_iter().find(|(_, is_said)| *is_said) {
            Some((name, _)) => Err(SettingsError::Misplaced {
                name,
                why: "needs --link",
            }
            .into()),
            None => Ok(None),
        };
    };
    if said.from.as_ref().is_some_and(Vec::is_empty) {
        let problem = "the list is empty; name an interface, or leave it out for all";
        return Err(SettingsError::value("from", problem).into());
    }
    Ok(Some(Link {
        interface: interface.clone(),
        ports: config::ports(said.ports.clone())?,
        peer: peer(said)?,
        from: said.from.clone().unwrap_or_default(),
        intercept: intercept(said.intercept.as_deref())?,
        udp: udp(said.udp.as_deref())?,
        when_down: when_down(said.when_down.as_deref())?,
    }))
}

pub(in crate::command) fn listen(said: &Settings) -> Result<SocketAddr, SettingsError> {
    said.listen.ok_or_else(|| {
        let problem = "name the address to listen on for client-side proxies, such as 0.0.0.0:4433";
        SettingsError::value("listen", problem)
    })
}

pub(in crate::command) fn peer(said: &Settings) -> Result<SocketAddr, SettingsError> {
    said.peer
        .ok_or_else(|| SettingsError::value("peer", "name the server-side proxy, ADDRESS:PORT"))
}

fn way_in(said: &Settings) -> Result<(), SettingsError> {
    match said.has_way_in() {
        true => Ok(()),
        false => {
            let problem = "nothing can come in; set --link, --socks, --http-proxy or --dns";
            Err(SettingsError::value("link", problem))
        }
    }
}

fn tariff(said: &Settings) -> Result<Option<Tariff>, SettingsError> {
    said.tariff.as_deref().map(tariff::load).transpose()
}

/// As whom the server side comes to servers.
pub(in crate::command) fn way_out(said: &Settings) -> Result<WayOut, SettingsError> {
    let named: fn(ClientNetworks) -> WayOut = match said.out.as_deref() {
        None | Some("own") => {
            return match said.client_networks {
                Some(_) => Err(SettingsError::Misplaced {
                    name: "client-networks",
                    why: "needs --out client or --out proxy-v2",
                }),
                None => Ok(WayOut::Own),
            };
        }
        Some("client") => WayOut::Client,
        Some("proxy-v2") => WayOut::ProxyV2,
        Some(other) => {
            let problem = format!("`{other}` is neither `own`, `client` nor `proxy-v2`");
            return Err(SettingsError::value("out", problem));
        }
    };
    let networks = said.client_networks.as_deref().unwrap_or_default();
    if networks.is_empty() {
        let problem = "name the networks of the clients, such as 10.1.0.0/16; --out needs them";
        return Err(SettingsError::value("client-networks", problem));
    }
    let networks = ClientNetworks::parse(networks.iter().map(String::as_str))
        .map_err(|error| SettingsError::value("client-networks", error.to_string()))?;
    Ok(named(networks))
}

fn client_certificates(said: Option<&str>) -> Result<ClientCertificates, SettingsError> {
    match said {
        None | Some("persistent") => Ok(ClientCertificates::Persistent),
        Some("none") => Ok(ClientCertificates::None),
        Some(other) => {
            let problem = match other {
                "cii" | "filter" => "needs --mode packet; tunnel mode has `persistent` and `none`",
                _ => "is neither `persistent` nor `none`",
            };
            let problem = format!("`{other}` {problem}");
            Err(SettingsError::value("client-certificates", problem))
        }
    }
}

fn prefer(said: Option<&str>) -> Result<Prefer, SettingsError> {
    match said {
        None | Some("time") => Ok(Prefer::Time),
        Some("bytes") => Ok(Prefer::Bytes),
        Some(other) => Err(SettingsError::value(
            "prefer",
            format!("`{other}` is neither `time` nor `bytes`"),
        )),
    }
}

fn intercept(said: Option<&str>) -> Result<Intercept, SettingsError> {
    match said {
        None | Some("redirect") => Ok(Intercept::Redirect),
        Some("tproxy") => Ok(Intercept::Tproxy),
        Some(other) => Err(SettingsError::value(
            "intercept",
            format!("`{other}` is neither `redirect` nor `tproxy`"),
        )),
    }
}

fn udp(said: Option<&str>) -> Result<Udp, SettingsError> {
    match said {
        None | Some("pass") => Ok(Udp::Pass),
        Some("reject") => Ok(Udp::Reject),
        Some("tunnel") => Ok(Udp::Tunnel),
        Some(other) => Err(SettingsError::value(
            "udp",
            format!("`{other}` is neither `pass`, `reject` nor `tunnel`"),
        )),
    }
}

fn when_down(said: Option<&str>) -> Result<WhenDown, SettingsError> {
    match said {
        None | Some("pass") => Ok(WhenDown::Pass),
        Some("fail") => Ok(WhenDown::Fail),
        Some(other) => Err(SettingsError::value(
            "when-down",
            format!("`{other}` is neither `pass` nor `fail`"),
        )),
    }
}

fn round_trip(said: Option<u64>) -> Result<Option<Duration>, SettingsError> {
    match said {
        Some(0) => Err(SettingsError::value("link-rtt", "must be at least 1")),
        said => Ok(said.map(Duration::from_millis)),
    }
}

fn limits(said: &Settings) -> Limits {
    let tables = said.limits.iter().flatten();
    let exceptions = tables.map(|table| table.0.clone());
    Limits::new(said.client_limit.map(|bytes| bytes.0), exceptions.collect())
}

/// Those of the command line first.
fn rules(said: &Settings) -> Result<Rules, SettingsError> {
    let line = |text: &String| {
        text.parse::<ClientRule>()
            .map_err(|error| SettingsError::value("rule", format!("in `{text}`: {error}")))
    };
    let lines = said.rule.iter().flatten().map(line);
    let tables = said.rules.iter().flatten();
    let rules = lines.chain(tables.map(|table| Ok(table.0.clone())));
    Ok(Rules::new(rules.collect::<Result<_, _>>()?))
}

/// Where DNS is answered, and for whom.
fn dns(said: &Settings) -> Result<Option<Dns>, SettingsError> {
    let clients = match (said.dns, said.dns_from.as_deref()) {
        (None, Some(_)) => {
            return Err(SettingsError::Misplaced {
                name: "dns-from",
                why: "needs --dns",
            });
        }
        (Some(_), Some([])) => {
            let problem = "the list is empty; name a network, or leave it out for private ones";
            return Err(SettingsError::value("dns-from", problem));
        }
        (_, None) => Clients::default(),
        (Some(_), Some(networks)) => Clients::of(networks)
            .map_err(|error| SettingsError::value("dns-from", error.to_string()))?,
    };
    if said
        .dns
        .is_some_and(|address| address.ip().is_unspecified())
    {
        let problem = "name one address of this machine, such as 127.0.0.1:53: a reply has to come \
                       from where the question went";
        return Err(SettingsError::value("dns", problem));
    }
    Ok(said.dns.map(|address| Dns { address, clients }))
}

fn dns_server(said: Option<&str>) -> Result<DnsServer, SettingsError> {
    match said {
        None => Ok(DnsServer::System),
        Some("none") => Ok(DnsServer::Nobody),
        Some(text) => text.parse().map(DnsServer::At).map_err(|_| {
            let problem = format!("`{text}` is neither ADDRESS:PORT nor `none`");
            SettingsError::value("dns-server", problem)
        }),
    }
}

fn allowed(said: Option<&[String]>) -> Result<Allowed, SettingsError> {
    let Some(said) = said else {
        return Ok(Allowed::default());
    };
    if said.is_empty() {
        let problem = "the list is empty; name a network, or leave it out for public addresses";
        return Err(SettingsError::value("allow", problem));
    }
    let rule = |text: &String| {
        text.parse::<Rule>()
            .map_err(|error| SettingsError::value("allow", format!("`{text}`: {error}")))
    };
    let rules = said.iter().map(rule).collect::<Result<Vec<_>, _>>()?;
    Ok(Allowed::new(rules))
}
