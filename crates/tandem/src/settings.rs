//! What the user said, in the settings file and on the command line, before it is checked.
//!
//! Is not: a decision on any value. Each mode's adapter takes its own part and checks it
//! (`tandem_packet_io::config::Config`, `tandem_tunnel_io::config`).
//!
//! Invariants: keys of the file and names of the flags are the same, but for `[[rules]]` and
//! `[[limits]]`, which are tables; a key that is not known is an error that names the nearest one;
//! a setting of another mode or of the other side is an error that names it.

mod edit;
mod limit;
mod link_rate;
mod place;
mod rule;
pub(crate) mod tariff;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tandem_packet_io::config::Role;
use tandem_tunnel::{ByteCount, TariffError};

pub(crate) use edit::Edit;
pub(crate) use limit::LimitTable;
pub(crate) use link_rate::LinkRate;
pub(crate) use place::{Chosen, Mode};
pub(crate) use rule::RuleTable;

use place::{Choice, Key, Place, Tunnel};

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}: {source}; check --config", path.display())]
    File { path: PathBuf, source: io::Error },
    /// The file is not what it must be; lines are counted from 1.
    #[error("{}, line {line}: {problem}", path.display())]
    Syntax {
        path: PathBuf,
        line: usize,
        problem: String,
    },
    /// The file of the tariff cannot be read.
    #[error("cannot read the tariff {}: {source}; check --tariff", path.display())]
    TariffFile { path: PathBuf, source: io::Error },
    /// It is no tariff; lines and columns are counted from 1.
    #[error("{}, {error}", path.display())]
    Tariff { path: PathBuf, error: TariffError },
    /// A setting of another mode, or of the other side.
    #[error("--{name} {why}")]
    Misplaced {
        name: &'static str,
        why: &'static str,
    },
    /// A value that was given, or is missing.
    #[error("{name}: {problem}")]
    Value { name: &'static str, problem: String },
}

impl SettingsError {
    pub(crate) fn value(name: &'static str, problem: impl Into<String>) -> Self {
        Self::Value {
            name,
            problem: problem.into(),
        }
    }
}

/// Settings, read as a map: TOML's reader has three copies of the code that reads a struct, 46 kB
/// each.
struct AsMap(Settings);

impl<'de> Deserialize<'de> for AsMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Table;

        impl<'de> Visitor<'de> for Table {
            type Value = AsMap;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("settings")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<AsMap, A::Error> {
                Settings::deserialize(MapAccessDeserializer::new(map)).map(AsMap)
            }
        }

        deserializer.deserialize_map(Table)
    }
}

/// Every setting of both modes and both sides, all of them optional.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Settings {
    /// `auto` (default), `packet`, `tunnel` or `pass-through`.
    pub(crate) mode: Option<String>,
    /// The interface of the link. No default; packet mode needs it.
    pub(crate) link: Option<String>,
    /// The file of the key that the pair shares: 64 hex digits.
    #[serde(alias = "key-file")]
    pub(crate) key: Option<PathBuf>,
    /// Ports of the servers. Default 443.
    pub(crate) ports: Option<Vec<u16>>,
    /// Directory of the store.
    pub(crate) store: Option<PathBuf>,
    /// `persistent` (default), `none` or, in packet mode, `cii` or `filter`.
    pub(crate) client_certificates: Option<String>,
    /// `ADDRESS:PORT` of the admin port, or `none`. Port 0: any that is free.
    pub(crate) admin: Option<String>,
    /// Filter of the log.
    pub(crate) log: Option<String>,
    /// Format of the log.
    pub(crate) log_format: Option<String>,

    /// `safe` (default) or `mcveety`.
    pub(crate) wire: Option<String>,
    /// Whether to do without a key. Default false.
    pub(crate) insecure_no_key: Option<bool>,
    /// Segments of one unfinished flight that are held.
    pub(crate) hold_packets: Option<usize>,
    /// Bytes of one unfinished flight that are held.
    pub(crate) hold_bytes: Option<usize>,
    /// Milliseconds that an unfinished flight is held.
    pub(crate) hold_ms: Option<u64>,
    /// Milliseconds that an acknowledgement waits for the next segment to say it again; 0: none
    /// waits.
    pub(crate) ack_hold_ms: Option<u64>,
    /// Flows that are known at one time.
    pub(crate) max_flows: Option<usize>,
    /// Number of the packet queue. Default: derived from role and link.
    pub(crate) queue: Option<u16>,
    /// The mark bit of connections that have left the queue. Default: the first free.
    pub(crate) leave_mark: Option<u32>,
    /// The mark bit of injected packets. Default: the first free.
    pub(crate) inject_mark: Option<u32>,
    /// Number of the hello's extension, with `cii`. Default 0x009a.
    pub(crate) cii_extension: Option<u16>,
    /// One in so many chains passes for held though it is not, with `filter`. Default 256.
    pub(crate) filter_one_in: Option<u32>,
    /// Code point of the possession extension, with `mcveety`. Default 0x0099.
    pub(crate) mcveety_cpi: Option<u16>,
    /// Handshake type of the compressed certificate, with `mcveety`. Default 0x99.
    pub(crate) mcveety_certificate: Option<u8>,

    /// Where the server-side proxy listens. The client side of tunnel mode needs it.
    pub(crate) peer: Option<SocketAddr>,
    /// With `link`: the interfaces of other machines that are served. Default: all but the link.
    pub(crate) from: Option<Vec<String>>,
    /// With `link`: `redirect` (default) or `tproxy`.
    pub(crate) intercept: Option<String>,
    /// With `link`: `pass` (default), `reject` or `tunnel`.
    pub(crate) udp: Option<String>,
    /// With `link`: `pass` (default) or `fail`.
    pub(crate) when_down: Option<String>,
    /// Where SOCKS5 is answered. Default: nowhere.
    pub(crate) socks: Option<SocketAddr>,
    /// Where HTTP CONNECT is answered. Default: nowhere.
    pub(crate) http_proxy: Option<SocketAddr>,
    /// What becomes of connections, each rule as one line. Default: all use the tunnel.
    pub(crate) rule: Option<Vec<String>>,
    /// The same as tables, which only the file has. They come after `rule`.
    pub(crate) rules: Option<Vec<RuleTable>>,
    /// Bytes of the link that a client may use in a day. Default: no limit.
    pub(crate) client_limit: Option<ByteCount>,
    /// Other limits for some clients, as tables, which only the file has.
    pub(crate) limits: Option<Vec<LimitTable>>,
    /// The file that says what the link costs. Default: none.
    pub(crate) tariff: Option<PathBuf>,
    /// Whether the other side is told of clients' addresses. Default false.
    pub(crate) tell_client_address: Option<bool>,
    /// Whether short-lived certificates are fetched ahead of visits. Default false.
    pub(crate) renew_ahead: Option<bool>,
    /// Where DNS is answered. Default: nowhere.
    pub(crate) dns: Option<SocketAddr>,
    /// With `dns`: the networks that may ask. Default: this machine, private and link-local ones.
    pub(crate) dns_from: Option<Vec<String>>,
    /// Rate of the link, away from this side. Default: measured.
    pub(crate) link_rate: Option<LinkRate>,
    /// Round-trip time of the link in milliseconds. Default: measured.
    pub(crate) link_rtt: Option<u64>,
    /// The file of authorities' certificates that both sides have. Default: none.
    pub(crate) authorities: Option<PathBuf>,
    /// Whether handshakes cross as they are, for measurements. Default false.
    pub(crate) whole_handshakes: Option<bool>,
    /// The name of the server side's key, if it has another. Default: it has the same.
    pub(crate) server_key: Option<String>,
    /// The file with the names of client sides' own keys. Default: none.
    pub(crate) clients: Option<PathBuf>,
    /// The Valkey or Redis server through which server sides share what they know. Default: none.
    pub(crate) shared_store: Option<String>,
    /// The file with its password. Default: none is given.
    pub(crate) shared_store_password: Option<PathBuf>,
    /// The file with the authorities that vouch for it, over TLS. TLS needs it.
    pub(crate) shared_store_trust: Option<PathBuf>,
    /// Where it listens for client-side proxies. The server side of tunnel mode needs it.
    pub(crate) listen: Option<SocketAddr>,
    /// Which servers may be reached: `CIDR[:PORT,...]` each. Default: public addresses, port 443.
    pub(crate) allow: Option<Vec<String>>,
    /// `own` (default), `client` or `proxy-v2`.
    pub(crate) out: Option<String>,
    /// Networks of clients. No default; `out` other than `own` needs it.
    pub(crate) client_networks: Option<Vec<String>>,
    /// The resolver for the client side's DNS: `ADDRESS:PORT` or `none`. Default: the system's.
    pub(crate) dns_server: Option<String>,
    /// The UNIX socket for handshake keys of TLS 1.3. Default: none.
    pub(crate) handshake_keys: Option<PathBuf>,
    /// `time` (default) or `bytes`: when a client's handshake key is asked for.
    pub(crate) prefer: Option<String>,
}

impl Settings {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or as [`Self::parse`].
    pub(crate) fn load(path: &Path) -> Result<Self, SettingsError> {
        let text = std::fs::read_to_string(path).map_err(|source| SettingsError::File {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, path)
    }

    /// Reads TOML; `path` is named in errors.
    ///
    /// # Errors
    /// No TOML, an unknown key, or a value of the wrong type; with the line.
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self, SettingsError> {
        let read = toml::from_str(text).map(|AsMap(settings)| settings);
        read.map_err(|error| {
            let span = error.span().unwrap_or_default();
            let line = 1 + text
                .bytes()
                .take(span.start)
                .filter(|byte| *byte == b'\n')
                .count();
            let word = text.get(span).unwrap_or_default();
            // One of a table's own fields is answered with the others of the table.
            let is_setting = error.message().contains("`mode`");
            let problem = if is_setting && error.message().starts_with("unknown field") {
                format!(
                    "there is no setting `{word}`; the nearest is `{}`",
                    nearest(word)
                )
            } else {
                error.message().replace('\n', " ")
            };
            SettingsError::Syntax {
                path: path.to_owned(),
                line,
                problem,
            }
        })
    }

    /// What `self` says, and where it says nothing, what `below` says: `flags.over(file)`.
    #[must_use]
    pub(crate) fn over(self, below: Self) -> Self {
        Self {
            mode: self.mode.or(below.mode),
            link: self.link.or(below.link),
            key: self.key.or(below.key),
            ports: self.ports.or(below.ports),
            store: self.store.or(below.store),
            client_certificates: self.client_certificates.or(below.client_certificates),
            admin: self.admin.or(below.admin),
            log: self.log.or(below.log),
            log_format: self.log_format.or(below.log_format),
            wire: self.wire.or(below.wire),
            insecure_no_key: self.insecure_no_key.or(below.insecure_no_key),
            hold_packets: self.hold_packets.or(below.hold_packets),
            hold_bytes: self.hold_bytes.or(below.hold_bytes),
            hold_ms: self.hold_ms.or(below.hold_ms),
            ack_hold_ms: self.ack_hold_ms.or(below.ack_hold_ms),
            max_flows: self.max_flows.or(below.max_flows),
            queue: self.queue.or(below.queue),
            leave_mark: self.leave_mark.or(below.leave_mark),
            inject_mark: self.inject_mark.or(below.inject_mark),
            cii_extension: self.cii_extension.or(below.cii_extension),
            filter_one_in: self.filter_one_in.or(below.filter_one_in),
            mcveety_cpi: self.mcveety_cpi.or(below.mcveety_cpi),
            mcveety_certificate: self.mcveety_certificate.or(below.mcveety_certificate),
            peer: self.peer.or(below.peer),
            from: self.from.or(below.from),
            intercept: self.intercept.or(below.intercept),
            udp: self.udp.or(below.udp),
            when_down: self.when_down.or(below.when_down),
            socks: self.socks.or(below.socks),
            http_proxy: self.http_proxy.or(below.http_proxy),
            rule: self.rule.or(below.rule),
            rules: self.rules.or(below.rules),
            client_limit: self.client_limit.or(below.client_limit),
            limits: self.limits.or(below.limits),
            tariff: self.tariff.or(below.tariff),
            tell_client_address: self.tell_client_address.or(below.tell_client_address),
            renew_ahead: self.renew_ahead.or(below.renew_ahead),
            dns: self.dns.or(below.dns),
            dns_from: self.dns_from.or(below.dns_from),
            link_rate: self.link_rate.or(below.link_rate),
            link_rtt: self.link_rtt.or(below.link_rtt),
            authorities: self.authorities.or(below.authorities),
            whole_handshakes: self.whole_handshakes.or(below.whole_handshakes),
            server_key: self.server_key.or(below.server_key),
            clients: self.clients.or(below.clients),
            shared_store: self.shared_store.or(below.shared_store),
            shared_store_password: self.shared_store_password.or(below.shared_store_password),
            shared_store_trust: self.shared_store_trust.or(below.shared_store_trust),
            listen: self.listen.or(below.listen),
            allow: self.allow.or(below.allow),
            out: self.out.or(below.out),
            client_networks: self.client_networks.or(below.client_networks),
            dns_server: self.dns_server.or(below.dns_server),
            handshake_keys: self.handshake_keys.or(below.handshake_keys),
            prefer: self.prefer.or(below.prefer),
        }
    }

    /// Which mode it is.
    ///
    /// # Errors
    /// There is no such mode, or a setting is there that belongs to another one or to the other
    /// side.
    pub(crate) fn mode(&self, role: Role) -> Result<Chosen, SettingsError> {
        let choice = Choice::named(self.mode.as_deref())?;
        let other_side = match role {
            Role::ClientSide => self.peer,
            Role::ServerSide => self.listen,
        };
        let tunnel = match other_side {
            Some(_) => Tunnel::Possible,
            None => Tunnel::Impossible,
        };
        let chosen = choice.at(role, tunnel);
        for key in self.keys().into_iter().filter(|key| key.is_said) {
            if let Some(why) = key.place.refusal(choice, chosen.mode, role) {
                return Err(SettingsError::Misplaced {
                    name: key.name,
                    why,
                });
            }
        }
        Ok(chosen)
    }

    /// Whether connections, or DNS questions, can come into a tunnel.
    pub(crate) fn has_way_in(&self) -> bool {
        let explicit = [self.socks, self.http_proxy, self.dns];
        self.link.is_some() || explicit.iter().any(Option::is_some)
    }

    /// Packet mode's part; `reason` is why it is this mode.
    pub(crate) fn into_packet(
        self,
        reason: Option<&'static str>,
    ) -> tandem_packet_io::config::Settings {
        tandem_packet_io::config::Settings {
            link: self.link,
            mode: self.mode.filter(|mode| mode != "auto"),
            mode_reason: reason,
            wire: self.wire,
            client_certificates: self.client_certificates,
            cii_extension: self.cii_extension,
            filter_one_in: self.filter_one_in,
            mcveety_cpi: self.mcveety_cpi,
            mcveety_certificate: self.mcveety_certificate,
            key: self.key,
            insecure_no_key: self.insecure_no_key,
            ports: self.ports,
            store: self.store,
            admin: self.admin,
            hold_packets: self.hold_packets,
            hold_bytes: self.hold_bytes,
            hold_ms: self.hold_ms,
            ack_hold_ms: self.ack_hold_ms,
            max_flows: self.max_flows,
            queue: self.queue,
            leave_mark: self.leave_mark,
            inject_mark: self.inject_mark,
        }
    }

    /// The keys of the file.
    #[rustfmt::skip]
    fn keys(&self) -> [Key; 55] {
        let key = |name, place, is_said| Key { name, place, is_said };
        let tunnel_client = Place::TunnelSide(Role::ClientSide);
        let tunnel_server = Place::TunnelSide(Role::ServerSide);
        [
            key("mode", Place::Everywhere, self.mode.is_some()),
            key("link", Place::PacketOrTunnelClient, self.link.is_some()),
            key("key", Place::Everywhere, self.key.is_some()),
            key("ports", Place::PacketOrTunnelClient, self.ports.is_some()),
            key("store", Place::Everywhere, self.store.is_some()),
            key("client-certificates", Place::Everywhere, self.client_certificates.is_some()),
            key("admin", Place::Everywhere, self.admin.is_some()),
            key("log", Place::Everywhere, self.log.is_some()),
            key("log-format", Place::Everywhere, self.log_format.is_some()),
            key("wire", Place::Packet, self.wire.is_some()),
            key("insecure-no-key", Place::Packet, self.insecure_no_key.is_some()),
            key("hold-packets", Place::Packet, self.hold_packets.is_some()),
            key("hold-bytes", Place::Packet, self.hold_bytes.is_some()),
            key("hold-ms", Place::Packet, self.hold_ms.is_some()),
            key("ack-hold-ms", Place::Packet, self.ack_hold_ms.is_some()),
            key("max-flows", Place::Packet, self.max_flows.is_some()),
            key("queue", Place::Packet, self.queue.is_some()),
            key("leave-mark", Place::Packet, self.leave_mark.is_some()),
            key("inject-mark", Place::Packet, self.inject_mark.is_some()),
            key("cii-extension", Place::Packet, self.cii_extension.is_some()),
            key("filter-one-in", Place::Packet, self.filter_one_in.is_some()),
            key("mcveety-cpi", Place::Packet, self.mcveety_cpi.is_some()),
            key("mcveety-certificate", Place::Packet, self.mcveety_certificate.is_some()),
            key("peer", tunnel_client, self.peer.is_some()),
            key("from", tunnel_client, self.from.is_some()),
            key("intercept", tunnel_client, self.intercept.is_some()),
            key("udp", tunnel_client, self.udp.is_some()),
            key("when-down", tunnel_client, self.when_down.is_some()),
            key("socks", tunnel_client, self.socks.is_some()),
            key("http-proxy", tunnel_client, self.http_proxy.is_some()),
            key("rule", tunnel_client, self.rule.is_some()),
            key("rules", tunnel_client, self.rules.is_some()),
            key("client-limit", tunnel_client, self.client_limit.is_some()),
            key("limits", tunnel_client, self.limits.is_some()),
            key("tariff", tunnel_client, self.tariff.is_some()),
            key("tell-client-address", tunnel_client, self.tell_client_address.is_some()),
            key("renew-ahead", tunnel_client, self.renew_ahead.is_some()),
            key("dns", tunnel_client, self.dns.is_some()),
            key("dns-from", tunnel_client, self.dns_from.is_some()),
            key("link-rate", Place::Tunnel, self.link_rate.is_some()),
            key("link-rtt", Place::Tunnel, self.link_rtt.is_some()),
            key("authorities", Place::Tunnel, self.authorities.is_some()),
            key("whole-handshakes", Place::Tunnel, self.whole_handshakes.is_some()),
            key("server-key", tunnel_client, self.server_key.is_some()),
            key("clients", tunnel_server, self.clients.is_some()),
            key("shared-store", tunnel_server, self.shared_store.is_some()),
            key("shared-store-password", tunnel_server, self.shared_store_password.is_some()),
            key("shared-store-trust", tunnel_server, self.shared_store_trust.is_some()),
            key("listen", tunnel_server, self.listen.is_some()),
            key("allow", tunnel_server, self.allow.is_some()),
            key("out", tunnel_server, self.out.is_some()),
            key("client-networks", tunnel_server, self.client_networks.is_some()),
            key("dns-server", tunnel_server, self.dns_server.is_some()),
            key("handshake-keys", Place::Tunnel, self.handshake_keys.is_some()),
            key("prefer", Place::Tunnel, self.prefer.is_some()),
        ]
    }
}

/// The key that takes the fewest edits to get to from `word`.
fn nearest(word: &str) -> &'static str {
    // A key is short; a long word gains nothing by being compared whole.
    let word: Vec<char> = word
        .chars()
        .take(40)
        .map(|c| if c == '_' { '-' } else { c })
        .collect();
    let names = Settings::default().keys().map(|key| key.name);
    names
        .into_iter()
        .min_by_key(|name| edits(&word, name))
        .unwrap_or(names[0])
}

/// Levenshtein's distance, row by row.
fn edits(word: &[char], key: &str) -> usize {
    let mut row: Vec<usize> = (0..=word.len()).collect();
    for (i, wanted) in key.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, found) in word.iter().enumerate() {
            let replaced = diagonal + usize::from(*found != wanted);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Settings, String> {
        Settings::parse(text, Path::new("t.toml")).map_err(|error| {
            assert!(matches!(error, SettingsError::Syntax { .. }), "{error:?}");
            error.to_string()
        })
    }

    /// Every key, with a value.
    const ALL: &str = "\
mode = \"packet\"\nlink = \"tun0\"\nkey = \"/k\"\nports = [443, 8443]\nstore = \"/s\"\nadmin = \"none\"\nlog = \"info\"\nlog-format = \"json\"
wire = \"mcveety\"\nclient-certificates = \"cii\"\ninsecure-no-key = false\nhold-packets = 1\nhold-bytes = 2\nhold-ms = 3\nack-hold-ms = 9
max-flows = 4\nqueue = 5\nleave-mark = 0x10\ninject-mark = 0x20\ncii-extension = 0x009b\nfilter-one-in = 16\nmcveety-cpi = 0x0098\nmcveety-certificate = 0x98
peer = \"192.0.2.1:4433\"\nfrom = [\"lan0\"]\nintercept = \"tproxy\"\nudp = \"reject\"\nwhen-down = \"fail\"\nsocks = \"127.0.0.1:1080\"\nhttp-proxy = \"[::1]:3128\"\nlink-rate = \"64k\"\nlink-rtt = 600
whole-handshakes = true
rule = [\"refuse\"]\nrules = [{ do = \"direct\" }]
client-limit = \"50M\"\ntariff = \"/t\"\nlimits = [{ from = \"10.0.0.0/8\", bytes = 1 }]
dns = \"127.0.0.1:53\"\ndns-from = [\"10.0.0.0/8\"]\ndns-server = \"none\"
handshake-keys = \"/run/keys\"\nprefer = \"bytes\"\nauthorities = \"/a.pem\"\nrenew-ahead = true
listen = \"0.0.0.0:4433\"\nallow = [\"10.0.0.0/8:443\"]\nout = \"client\"\nclient-networks = [\"10.1.0.0/16\"]\ntell-client-address = true
server-key = \"00\"\nclients = \"/c\"\nshared-store = \"unix:/v\"\nshared-store-password = \"/p\"
shared-store-trust = \"/t\"\n";

    #[test]
    fn every_key_is_read() {
        let all = parse(ALL).expect("all keys are good");
        for key in all.keys() {
            assert!(ALL.contains(&format!("{} = ", key.name)), "{}", key.name);
            assert!(key.is_said, "{}", key.name);
        }
        assert!(Settings::default().keys().iter().all(|key| !key.is_said));
        assert_eq!(all.mcveety_cpi, Some(0x98));
        assert_eq!(all.ports, Some(vec![443, 8443]));
        assert_eq!(all.clone().over(Settings::default()), all);
        assert_eq!(Settings::default().over(all.clone()), all);
    }

    #[test]
    fn flags_win_over_the_file() {
        let flags = Settings {
            link: Some("a".into()),
            ..Settings::default()
        };
        let file = parse("link = \"b\"\nqueue = 7").expect("good");
        let both = flags.over(file);
        assert_eq!((both.link.as_deref(), both.queue), (Some("a"), Some(7)));
    }

    #[test]
    fn an_unknown_key_is_answered_with_the_nearest_and_its_line() {
        let text = parse("link = \"a\"\nport = [1]").expect_err("no such key");
        assert_eq!(
            text,
            "t.toml, line 2: there is no setting `port`; the nearest is `ports`"
        );
        let text = parse("hold_ms = 3").expect_err("no such key");
        assert!(text.ends_with("`hold-ms`"), "{text}");
    }

    #[test]
    fn wrong_values_are_one_line_with_its_number() {
        for (text, line) in [
            ("link = 3", 1),
            ("\nqueue = 65536", 2),
            ("\n\nports = 443", 3),
            ("link = ", 1),
            ("=", 1),
            ("\npeer = \"here\"", 2),
            ("link-rate = \"fast\"", 1),
            ("\n[[rules]]\ndo = \"direct\"\nto = \"a.example\"", 4),
            ("\n[[rules]]\ndo = \"direct\"\nto-ports = 0", 2),
            ("client-limit = \"much\"", 1),
            ("[[limits]]\nfrom = \"10.0.0.0/8\"\nbyte = 7", 3),
        ] {
            let problem = parse(text).expect_err(text);
            assert!(
                problem.starts_with(&format!("t.toml, line {line}: ")),
                "{problem}"
            );
            assert!(!problem.contains('\n'), "{problem}");
        }
    }

    #[test]
    fn a_setting_of_another_mode_or_side_is_refused_by_name() {
        let problem = |text: &str, role| {
            let error = parse(text)
                .expect("good")
                .mode(role)
                .expect_err("out of place");
            error.to_string()
        };
        let tunnel = |line: &str| format!("mode = \"tunnel\"\n{line}");
        for (text, role, expected) in [
            (
                tunnel("wire = \"safe\""),
                Role::ClientSide,
                "--wire needs --mode packet",
            ),
            (
                tunnel("link = \"eth1\""),
                Role::ServerSide,
                "--link needs --mode packet",
            ),
            (
                "mode = \"packet\"\nsocks = \"127.0.0.1:1080\"".to_owned(),
                Role::ClientSide,
                "--socks needs --mode tunnel",
            ),
            (
                "socks = \"127.0.0.1:1080\"".to_owned(),
                Role::ClientSide,
                "--socks needs --peer",
            ),
            (
                "mode = \"auto\"\nlink-rtt = 600".to_owned(),
                Role::ServerSide,
                "--link-rtt needs --listen",
            ),
            (
                "listen = \"0.0.0.0:4433\"\nlink = \"eth1\"".to_owned(),
                Role::ServerSide,
                "--link needs --mode packet",
            ),
            (
                "peer = \"192.0.2.1:4433\"\nqueue = 7".to_owned(),
                Role::ClientSide,
                "--queue needs --mode packet",
            ),
            (
                tunnel("socks = \"127.0.0.1:1080\""),
                Role::ServerSide,
                "--socks is for `tandem client-side`",
            ),
            (
                tunnel("allow = []"),
                Role::ClientSide,
                "--allow is for `tandem server-side`",
            ),
            (
                "mode = \"tunel\"".to_owned(),
                Role::ClientSide,
                "mode: `tunel` is neither `auto`, `packet`, `tunnel` nor `pass-through`",
            ),
        ] {
            assert_eq!(problem(&text, role), expected);
        }
        for (text, role, mode) in [
            (
                tunnel("link = \"eth1\"\nports = [443]"),
                Role::ClientSide,
                Mode::Tunnel,
            ),
            (
                tunnel("listen = \"0.0.0.0:4433\"\nlink-rate = 2400"),
                Role::ServerSide,
                Mode::Tunnel,
            ),
            (
                "mode = \"pass-through\"\nqueue = 7".to_owned(),
                Role::ServerSide,
                Mode::Packet,
            ),
            // By themselves: tunnel where the other side is known, packet otherwise.
            (
                "link = \"ppp0\"\nwire = \"safe\"".to_owned(),
                Role::ClientSide,
                Mode::Packet,
            ),
            (
                "peer = \"192.0.2.1:4433\"\nlink = \"ppp0\"".to_owned(),
                Role::ClientSide,
                Mode::Tunnel,
            ),
            (
                "mode = \"auto\"\nlisten = \"0.0.0.0:4433\"".to_owned(),
                Role::ServerSide,
                Mode::Tunnel,
            ),
            (
                "mode = \"auto\"\nlink = \"eth1\"".to_owned(),
                Role::ServerSide,
                Mode::Packet,
            ),
        ] {
            let found = parse(&text).expect("good").mode(role);
            let found = found.expect("in place");
            assert_eq!(found.mode, mode);
            let is_said = text.contains("mode = ") && !text.contains("auto");
            assert_eq!(found.reason.is_none(), is_said, "{found:?}");
        }
    }
}
