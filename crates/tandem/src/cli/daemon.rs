//! `tandem client-side` and `tandem server-side`: two roles, which share the flags of packet mode
//! and have flags of their own in tunnel mode.

mod text;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use tandem_tunnel::ByteCount;

use crate::settings::LinkRate;

pub(super) use text::{
    CLIENT_SIDE, CLIENT_SIDE_EXAMPLES, CLIENT_SIDE_LONG, SERVER_SIDE, SERVER_SIDE_EXAMPLES,
    SERVER_SIDE_LONG,
};

// A group without a heading of its own would stand below the one before it: those with headings
// come last.

/// The flags of `tandem client-side`. All may come from the settings file instead.
#[derive(Debug, Args)]
pub(crate) struct ClientSideArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(flatten)]
    pub(crate) packet: PacketArgs,
    #[command(flatten)]
    pub(crate) tunnel: TunnelClientArgs,
    #[command(flatten)]
    pub(crate) tuning: TuningArgs,
}

/// The flags of `tandem server-side`. All may come from the settings file instead.
#[derive(Debug, Args)]
pub(crate) struct ServerSideArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(flatten)]
    pub(crate) packet: PacketArgs,
    #[command(flatten)]
    pub(crate) tunnel: TunnelServerArgs,
    #[command(flatten)]
    pub(crate) tuning: TuningArgs,
}

/// What both modes have.
#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    /// Settings file (TOML); its keys are the names of these flags
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// How the two proxies work: `auto`, `packet`, `tunnel` or `pass-through` [default: auto]
    ///
    /// `auto` is `tunnel` if this side is paired, by `--peer` or `--listen` (`tandem pair` sets
    /// them), and `packet` if not; the log and `tandem status` show which. `packet` rewrites
    /// handshakes inside the connections of clients and servers, in a netfilter queue. `tunnel`
    /// ends each TCP connection at the proxy and carries it to the other proxy in a connection of
    /// their own, over UDP, or TCP where UDP is blocked; this also saves round trips.
    /// `pass-through` queues packets and releases them untouched, to measure the cost of the queue
    /// alone. Both sides need the same mode.
    #[arg(long, value_name = "MODE", value_parser = PossibleValuesParser::new(["auto", "packet", "tunnel", "pass-through"]), hide_possible_values = true)]
    pub(crate) mode: Option<String>,

    /// Network interface of the link; packet mode needs it
    ///
    /// In packet mode, the proxy shortens what leaves by it and rebuilds what arrives by it. In
    /// tunnel mode, on the client side only, TCP connections to `--ports` that would leave by it
    /// are taken into the tunnel; that needs root, and without it nothing is intercepted. `ip
    /// link` lists the interfaces.
    #[arg(long, value_name = "IFACE")]
    pub(crate) link: Option<String>,

    /// File with the key that both proxies share (see `tandem keygen`)
    ///
    /// 64 hexadecimal digits, the same on both sides. The proxies recognise each other by the key:
    /// without one, packet mode rewrites nothing and tunnel mode does not start.
    #[arg(long, alias = "key-file", value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,

    /// TCP ports of the servers whose connections are handled, separated by commas [default: 443]
    #[arg(long, value_name = "PORTS", value_delimiter = ',')]
    pub(crate) ports: Option<Vec<u16>>,

    /// Directory of the store [default: /var/lib/tandem/ROLE-IFACE, in tunnel mode ROLE-tunnel]
    ///
    /// It holds the certificates seen, by server name: a browsing history, so only its owner can
    /// read it. For users other than root the default is below `~/.local/share/tandem`.
    #[arg(long, value_name = "DIR")]
    pub(crate) store: Option<PathBuf>,

    /// Clients' certificates: `persistent`, `none` or, in packet mode, `cii` or `filter` [default:
    /// persistent]
    ///
    /// `persistent` replaces a client's certificates by references once a handshake with them has
    /// finished: both proxies then remember them, in their stores. `none` never touches or
    /// remembers them. With `cii` the client names its certificates in its hello
    /// (`libtandem_keytap.so` makes programs do so), and the server-side proxy answers which of
    /// them it holds. With `filter` the server-side proxy publishes what it holds, in ten bits for
    /// each client, and the client-side proxy keeps none. Both sides need the same setting.
    #[arg(long, value_name = "HOW", value_parser = PossibleValuesParser::new(["persistent", "cii", "filter", "none"]), hide_possible_values = true)]
    pub(crate) client_certificates: Option<String>,

    /// Address of status and metrics, or `none` [default: 127.0.0.1:9470, server side 9471]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) admin: Option<String>,

    /// What to log, to standard error: a level, or levels by module [default: info]
    ///
    /// Levels are error, warn, info, debug, trace; by module for example
    /// `info,tandem_packet=debug`. Server names and addresses appear from debug on, single
    /// packets from trace on; keys and contents never.
    #[arg(long, value_name = "FILTER")]
    pub(crate) log: Option<String>,

    /// Log lines for people, `text`, or JSON objects, `json` [default: text]
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(["text", "json"]), hide_possible_values = true)]
    pub(crate) log_format: Option<String>,

    /// Print the firewall commands that would be run, and stop; nothing is touched
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// What packet mode alone has.
#[derive(Debug, Args)]
#[command(next_help_heading = "Packet mode")]
pub(crate) struct PacketArgs {
    /// Run without a key, for trials only
    ///
    /// Anybody on the path, including servers, can then impersonate the other proxy: find out what
    /// the store holds, and make handshakes fail.
    #[arg(long)]
    pub(crate) insecure_no_key: bool,

    /// Format on the link: `safe` or `mcveety` [default: safe]
    ///
    /// `safe` is harmless if no proxy rebuilds it. `mcveety` is the format of the 2009 thesis, to
    /// repeat its measurements: it breaks connections if the other proxy is absent. Both sides
    /// need the same format.
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(["safe", "mcveety"]), hide_possible_values = true)]
    pub(crate) wire: Option<String>,
}

/// What the client side of tunnel mode alone has.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Tunnel mode (with `--link`, `--socks`, `--http-proxy`, `--dns` or several)"
)]
pub(crate) struct TunnelClientArgs {
    /// The server-side proxy's address: its `--listen`, as reachable from here
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) peer: Option<SocketAddr>,

    /// Name of the server side's key, 64 hexadecimal digits, if `--key` is this side's own
    /// [default: both sides have the same key]
    ///
    /// For one server side with many client sides, each with a key of its own: `tandem keygen
    /// --names FILE` prints the name of the server side's key there, and of this side's key here,
    /// for the server side's `--clients`.
    #[arg(long, value_name = "NAME")]
    pub(crate) server_key: Option<String>,

    /// With `--link`, serve other machines on these interfaces only, separated by commas [default:
    /// all interfaces but the link]
    ///
    /// Connections that are taken in no longer pass the FORWARD rules. So name the interfaces of
    /// the machines that may use the link. Connections of this machine itself are always taken in.
    #[arg(long, value_name = "IFACES", value_delimiter = ',')]
    pub(crate) from: Option<Vec<String>>,

    /// With `--link`, how connections of other machines are taken in: `redirect` or `tproxy`
    /// [default: redirect]
    ///
    /// `redirect`: the kernel translates their addresses, which needs connection tracking.
    /// `tproxy`: without either; for gateways whose firewall must see the addresses as they are, or
    /// that do not track connections. Connections of this machine itself are redirected in both
    /// cases.
    #[arg(long, value_name = "HOW", value_parser = PossibleValuesParser::new(["redirect", "tproxy"]), hide_possible_values = true)]
    pub(crate) intercept: Option<String>,

    /// With `--link`, what happens to UDP to `--ports`, such as HTTP/3: `pass`,
    /// `reject` or `tunnel` [default: pass]
    ///
    /// `pass`: it bypasses the tunnel. `reject`: it is refused with an ICMP error, so that browsers
    /// use TCP at once, whose handshakes become shorter. `tunnel`: it goes through the tunnel;
    /// needs `--intercept redirect`.
    #[arg(long, value_name = "HOW", value_parser = PossibleValuesParser::new(["pass", "reject", "tunnel"]), hide_possible_values = true)]
    pub(crate) udp: Option<String>,

    /// With `--link`, what happens to new connections while the tunnel is down: `pass` or `fail`
    /// [default: pass]
    ///
    /// `pass`: they go to their servers from here, as without Tandem; they use the tunnel again
    /// when it is up. `fail`: they wait for the tunnel, a minute or (on a slow link) longer, and
    /// are reset; for links that must not be used directly. That protects while the proxy runs: see
    /// the guide for firewall rules that stay. Connections by `--socks` and `--http-proxy` always
    /// wait.
    #[arg(long, value_name = "HOW", value_parser = PossibleValuesParser::new(["pass", "fail"]), hide_possible_values = true)]
    pub(crate) when_down: Option<String>,

    /// Take in connections of programs that speak SOCKS5, at this address
    ///
    /// There is no password: use an address that only authorised clients reach, such as 127.0.0.1.
    /// If a program leaves names to the proxy (`curl --socks5-hostname`, "remote DNS"), the other
    /// side resolves them, which saves a round trip. Programs may send UDP, too.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) socks: Option<SocketAddr>,

    /// Take in connections of programs that ask an HTTP proxy (CONNECT), at this address
    ///
    /// For HTTPS only, by host name or address; there is no password here either.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) http_proxy: Option<SocketAddr>,

    /// What to do with which connections: `tunnel`, `direct` or `refuse`, with conditions. May be
    /// repeated; the first match counts [default: all use the tunnel]
    ///
    /// For example `direct to=*.example.com ports=443,8000-8999 from=10.0.0.0/8`: `to` names
    /// servers or networks, `from` clients; a missing condition matches anything. `direct` connects
    /// from here, not through the tunnel. For connections by address, the name is the one in the
    /// TLS hello. The settings file may have `[[rules]]` instead.
    #[arg(long, value_name = "RULE")]
    pub(crate) rule: Option<Vec<String>>,

    /// Bytes of the link that each client may use in a day (UTC), such as 500k, 50M or 1.5G
    /// [default: no limit]
    ///
    /// Both directions together, as the bytes cross in the tunnel. A client that reaches its limit
    /// is refused, and its connections are reset, until the day is over. A client is an IPv4
    /// address or an IPv6 /64. The settings file may have `[[limits]]` for some clients.
    #[arg(long, value_name = "BYTES")]
    pub(crate) client_limit: Option<ByteCount>,

    /// File with the prices of the link (TOML); status, metrics and the log then show what was
    /// spent
    ///
    /// It has prices by byte, minute and session, how they are rounded, and what is included.
    /// Tandem also estimates the cost without Tandem. The operator's guide has an example.
    #[arg(long, value_name = "FILE")]
    pub(crate) tariff: Option<PathBuf>,

    /// Tell the server-side proxy each client's address, for its `--out client` or `--out proxy-v2`
    ///
    /// It costs 6 bytes per connection, 18 for IPv6. Without it, clients' addresses stay on this
    /// side. Loopback and link-local addresses are never told.
    #[arg(long)]
    pub(crate) tell_client_address: bool,

    /// Fetch sites' short-lived certificates ahead of the next visit, while the link is awake and
    /// idle
    ///
    /// For sites whose certificates live at most ten days: a visit then does not wait for a new
    /// certificate to cross. It costs more bytes than it saves, because some certificates are
    /// replaced before anybody sees them.
    #[arg(long)]
    pub(crate) renew_ahead: bool,

    /// Answer DNS at this address, over UDP and TCP, with the resolver on the other side
    ///
    /// Answers are cached for their TTL. While the other side does not answer, expired ones are
    /// used, up to a day. Port 53 needs root or CAP_NET_BIND_SERVICE.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) dns: Option<SocketAddr>,

    /// With `--dns`, answer clients of this network; may be repeated [default: this machine, and
    /// private and link-local addresses]
    ///
    /// For example `192.168.1.0/24` or `2001:db8::/48`. It replaces the default. Other clients get
    /// no answer.
    #[arg(long, value_name = "CIDR")]
    pub(crate) dns_from: Option<Vec<String>>,

    #[command(flatten)]
    pub(crate) line: LineArgs,
}

/// What the server side of tunnel mode alone has.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tunnel mode")]
pub(crate) struct TunnelServerArgs {
    /// Address to listen on for client-side proxies, UDP and TCP; 0.0.0.0 is any address of this
    /// machine
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<SocketAddr>,

    /// File with the names of client sides that have keys of their own, one a line
    ///
    /// `tandem keygen --names FILE` prints a key's name; what follows a `#` is a comment. Each such
    /// client side needs `--server-key`. Give each one a key of its own: one that is lost can then
    /// be shut out, and none uses up what is remembered for another. A change takes a restart.
    #[arg(long, value_name = "FILE")]
    pub(crate) clients: Option<PathBuf>,

    /// Share what is known of client sides with other server sides, through this Valkey or Redis
    /// server: `redis://[USER@]HOST[:PORT][/DB]`, the same with `rediss://` for TLS, or
    /// `unix:/PATH` [default: nothing is shared]
    ///
    /// For several server sides with the same `--key`. A client side that moves from one to another
    /// then does not start anew. Notes are encrypted with a key that the server does not get. If
    /// the server fails, connections go on; moves then cost bytes. Only in a program that was built
    /// with the feature shared-store.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) shared_store: Option<String>,

    /// With `--shared-store`, file with its password, one line [default: no password]
    ///
    /// Without TLS it crosses to that server as it is: use a UNIX socket, a network that is your
    /// own, or `rediss://`.
    #[arg(long, value_name = "FILE")]
    pub(crate) shared_store_password: Option<PathBuf>,

    /// With `--shared-store rediss://...`, file with the certificates, in PEM, of the authorities
    /// that may vouch for that server
    ///
    /// Debian has the public ones in `/etc/ssl/certs/ca-certificates.crt`.
    #[arg(long, value_name = "FILE")]
    pub(crate) shared_store_trust: Option<PathBuf>,

    /// Servers that clients may reach through this side, by address; may be repeated [default:
    /// public addresses, port 443]
    ///
    /// A network and its ports, or all ports if none is given: `10.1.0.0/16:443`,
    /// `10.1.2.3/32:443,8443`, `2001:db8::/32`. It replaces the default. Names are resolved here,
    /// and each address is checked against this list. It applies to TCP and UDP.
    #[arg(long, value_name = "CIDR[:PORT,...]")]
    pub(crate) allow: Option<Vec<String>>,

    /// Source address towards servers: `own`, `client` or `proxy-v2` [default: own]
    ///
    /// `own`: an address of this machine. `client`: the client's address; that needs root, and the
    /// servers' answers to clients have to pass this machine. `proxy-v2`: an address of this
    /// machine, with a header of the PROXY protocol, version 2, that names the client; only for
    /// servers that expect one, since any other takes it for data of the client. Both need
    /// `--client-networks` here and `--tell-client-address` on the other side. If the client is not
    /// known, the connection uses `own`, or a header that names nobody.
    #[arg(long, value_name = "HOW", value_parser = PossibleValuesParser::new(["own", "client", "proxy-v2"]), hide_possible_values = true)]
    pub(crate) out: Option<String>,

    /// Networks of clients whose addresses the other side may tell, separated by commas
    ///
    /// For example `10.1.0.0/16,fd00:1::/32`. Otherwise whoever holds the key could use any
    /// address.
    #[arg(long, value_name = "CIDRS", value_delimiter = ',')]
    pub(crate) client_networks: Option<Vec<String>>,

    /// Resolver for the client side's DNS queries, or `none` [default: the first of
    /// /etc/resolv.conf]
    ///
    /// It gets all queries of the client side's `--dns`, regardless of `--allow`: also for names of
    /// your own network, if it knows them.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) dns_server: Option<String>,

    #[command(flatten)]
    pub(crate) line: LineArgs,
}

/// What both sides of tunnel mode have.
#[derive(Debug, Args)]
pub(crate) struct LineArgs {
    /// Rate of the link from this side to the other in bit/s, such as 2400, 64k or 1.5M [default:
    /// measured]
    ///
    /// The tunnel then sends at this rate, whatever is lost. Set it on both sides of slow and of
    /// lossy links; on a shared link, state your share.
    #[arg(long, value_name = "BPS")]
    pub(crate) link_rate: Option<LinkRate>,

    /// Round-trip time of the link in milliseconds [default: measured, from 333 on]
    ///
    /// Set it, on both sides, if the round trip is longer: a tunnel that expects an answer too soon
    /// sends twice.
    #[arg(long, value_name = "MS")]
    pub(crate) link_rtt: Option<u64>,

    /// Certificates of authorities, PEM; the same file on both sides [default: none]
    ///
    /// If a server sends one of these, it crosses as a reference from the first handshake on. Give
    /// both sides the intermediate certificates of the public web, as CCADB lists them. If the
    /// files differ, the certificates cross in full.
    #[arg(long, value_name = "FILE")]
    pub(crate) authorities: Option<PathBuf>,

    /// Accept TLS 1.3 handshake keys of this side's programs at this UNIX socket
    ///
    /// With such a key, which `libtandem_keytap.so` sends, a server's TLS 1.3 certificates cross as
    /// references, too. On the server side, servers hand in keys; on the client side, clients do,
    /// for servers that do not, which costs a round trip (see `--prefer`). This daemon's user and
    /// group may write to the socket. See docs/tls13.md.
    #[arg(long, value_name = "SOCKET")]
    pub(crate) handshake_keys: Option<PathBuf>,

    /// When to ask for a client's handshake key: `time`, if that is faster, or `bytes`, if it saves
    /// any [default: time]
    ///
    /// `time` needs the link's rate: `--link-rate` and `--link-rtt` on the server side, or else
    /// `--link-rate` on the client side. A certificate that the client shows counts, too, at the
    /// client side's `--link-rate`. If one side says `bytes`, that counts.
    #[arg(long, value_name = "WHAT", value_parser = PossibleValuesParser::new(["bytes", "time"]), hide_possible_values = true)]
    pub(crate) prefer: Option<String>,

    /// Let handshakes cross as they are, to measure what the tunnel brings without deltas; for both
    /// sides
    #[arg(long, hide = true)]
    pub(crate) whole_handshakes: bool,
}

/// Limits and numbers that rarely need a change.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tuning of packet mode (defaults rarely need a change)")]
pub(crate) struct TuningArgs {
    /// Hold at most N segments of an incomplete flight, then release all unaltered [default: 64]
    #[arg(long, hide_short_help = true, value_name = "N")]
    pub(crate) hold_packets: Option<usize>,

    /// Hold at most so many bytes of an incomplete flight, then release all unaltered [default:
    /// 32768]
    #[arg(long, hide_short_help = true, value_name = "BYTES")]
    pub(crate) hold_bytes: Option<usize>,

    /// Hold an incomplete flight for at most so many milliseconds, then release it unaltered
    /// [default: 200]
    #[arg(long, hide_short_help = true, value_name = "MS")]
    pub(crate) hold_ms: Option<u64>,

    /// Milliseconds that an acknowledgement waits for the next segment, which may repeat it; 0: no
    /// wait [default: 40]
    #[arg(long, hide_short_help = true, value_name = "MS")]
    pub(crate) ack_hold_ms: Option<u64>,

    /// Connections followed at a time; beyond it, the oldest are released untouched [default:
    /// 16384]
    #[arg(long, hide_short_help = true, value_name = "N")]
    pub(crate) max_flows: Option<usize>,

    /// Number of the netfilter queue [default: derived from the role and the interface]
    #[arg(long, hide_short_help = true, value_name = "N")]
    pub(crate) queue: Option<u16>,

    /// Packet mark, one bit, of connections that have left the queue [default: one that no rule
    /// uses]
    #[arg(long, hide_short_help = true, value_name = "MARK", value_parser = number::<u32>)]
    pub(crate) leave_mark: Option<u32>,

    /// Packet mark, one bit, of packets that the proxy sends itself [default: one that no rule
    /// uses]
    #[arg(long, hide_short_help = true, value_name = "MARK", value_parser = number::<u32>)]
    pub(crate) inject_mark: Option<u32>,

    /// Number of the hello extension in which clients name their certificates, with `cii`
    /// [default: 0x009a]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = number::<u16>)]
    pub(crate) cii_extension: Option<u16>,

    /// With `filter`, one in N chains that are not held matches by mistake and costs a round trip
    /// [default: 256]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = number::<u32>)]
    pub(crate) filter_one_in: Option<u32>,

    /// Number of the hello extension of `--wire mcveety` that lists what is held [default: 0x0099]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = number::<u16>)]
    pub(crate) mcveety_cpi: Option<u16>,

    /// Number of the handshake message of `--wire mcveety` that replaces a certificate list
    /// [default: 0x99]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = number::<u8>)]
    pub(crate) mcveety_certificate: Option<u8>,
}

/// A number in decimal, or in hexadecimal behind `0x`, as both TOML and `iptables` write marks.
fn number<N: TryFrom<u64>>(text: &str) -> Result<N, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed
        .ok()
        .and_then(|number| N::try_from(number).ok())
        .ok_or_else(|| {
            format!(
                "not a number from 0 to {:#x}",
                !0_u64 >> (64 - 8 * size_of::<N>())
            )
        })
}

#[cfg(test)]
mod tests {
    use tandem_packet_io::config::{Config, Role, Settings};

    use super::*;

    #[test]
    fn the_help_names_the_bounds_that_hold_where_none_is_set() {
        let settings = Settings {
            link: Some("ppp0".into()),
            store: Some("/s".into()),
            insecure_no_key: Some(true),
            ..Settings::default()
        };
        let resolved = Config::resolve(Role::ClientSide, settings).expect("they are enough");
        let bounds = resolved.limits;
        let command = TuningArgs::augment_args(clap::Command::new("tandem"));
        for (name, bound) in [
            ("hold-packets", bounds.hold_segments.to_string()),
            ("hold-bytes", bounds.hold_bytes.to_string()),
            ("hold-ms", bounds.hold_time.as_millis().to_string()),
            ("ack-hold-ms", bounds.ack_time.as_millis().to_string()),
            ("max-flows", bounds.flows.to_string()),
        ] {
            let mut flags = command.get_arguments();
            let flag = flags.find(|flag| flag.get_long() == Some(name));
            let help = flag.and_then(clap::Arg::get_help).expect(name).to_string();
            assert!(help.ends_with(&format!("[default: {bound}]")), "{help}");
        }
    }

    #[test]
    fn numbers_are_decimal_or_hexadecimal_and_bounded() {
        assert_eq!(number::<u16>("153"), Ok(0x99));
        assert_eq!(number::<u16>("0x0099"), Ok(0x99));
        assert_eq!(
            number::<u8>("0x100"),
            Err("not a number from 0 to 0xff".to_owned())
        );
        assert!(number::<u32>("0x").is_err());
        assert!(number::<u32>("-1").is_err());
    }
}
