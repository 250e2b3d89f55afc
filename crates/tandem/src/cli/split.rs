//! `tandem split`: origin, volunteer, broker, demonstration, and the look at a name.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use tandem_barnraising::{Peer, SiteUri};

const ORIGIN_EXAMPLE: &str = "\
Example:
  In front of a web server on port 8080, for volunteers on port 7443
    tandem split origin --listen 0.0.0.0:7443 --upstream http://127.0.0.1:8080 \\
        --cert site.pem --key site.key --admin 127.0.0.1:9475";

const VOLUNTEER_EXAMPLE: &str = "\
Examples:
  With the URI of the site's broker, for clients on port 443
    tandem split volunteer 'barnraising://broker.example/www.example.org#KEY' \\
        --cache /var/cache/tandem-split
  Without a broker, with the key that the origin shows at its start
    tandem split volunteer --origin origin.example:7443 --origin-key KEY \\
        --listen '192.0.2.1:443,[2001:db8::1]:443' --cache /var/cache/tandem-split";

const BROKER_EXAMPLE: &str = "\
Example:
  A configuration file; docs/splitting.md explains all keys
    site = \"www.example.org\"
    listen = \"[::]:8470\"
    address = \"broker.example.org\"
    admin = \"127.0.0.1:9473\"
    [origin]
    address = \"origin.example.org:7443\"
    key = \"KEY\"
    own-addresses = [\"192.0.2.10\"]
  Print the URI for volunteers
    tandem split broker --config broker.toml --uri";

const CHECK_EXAMPLE: &str = "\
Example:
  With a resolver that passes DNSSEC on, and the origin's certificate
    tandem split check www.example.org --resolver 9.9.9.9:53 --cert site.pem";

/// The parts of SSL splitting.
#[derive(Debug, Subcommand)]
pub(crate) enum SplitCommand {
    Origin(Box<OriginArgs>),
    Volunteer(Box<VolunteerArgs>),
    Broker(Box<BrokerArgs>),
    Demo(SplitDemoArgs),
    Check(SplitCheckArgs),
}

/// Check whether a site's volunteers could get a certificate for its name, and what to change
///
/// DNS sends clients to volunteers, so volunteers can pass an authority's HTTP-01 and TLS-ALPN-01
/// challenges. A public name therefore needs CAA records, signed by DNSSEC, that allow only one
/// account at one authority, only DNS-01 and no wildcards. This command asks a resolver for them,
/// checks the signatures from the root's key down, and prints what is missing. Its exit code is 1
/// if anything is missing. It also compares the answers of all name servers of the zone.
/// Names that no authority issues for (.test, .internal, home.arpa, localhost, addresses) pass.
#[derive(Debug, Args)]
#[command(after_long_help = CHECK_EXAMPLE)]
pub(crate) struct SplitCheckArgs {
    /// The site's name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Ask this resolver [default: the first in /etc/resolv.conf]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) resolver: Option<SocketAddr>,
    /// Trust the keys in this file (DNSKEY records, as in a zone file) [default: the root's]
    #[arg(long, value_name = "FILE")]
    pub(crate) trust_anchor: Option<PathBuf>,
    /// Also check the site's certificate, PEM: it should name only this host
    #[arg(long, value_name = "FILE")]
    pub(crate) cert: Option<PathBuf>,
    /// Trust this authority (as CAA records name it) to observe RFC 8657; Let's Encrypt is known
    /// to. May be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) observant: Vec<String>,
    /// Print JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) logging: SplitLogging,
}

/// Run a demo: all parts on this machine, a small site to open in a browser, and a page that shows
/// who serves what
///
/// Two volunteers that have joined a broker, and one helper that flips a bit, serve a small site,
/// each on its own loopback port. It prints the addresses, commands for curl and Chromium, and
/// `ready`; it runs until Ctrl-C and removes its files. It needs `openssl` and no root.
#[derive(Debug, Args)]
pub(crate) struct SplitDemoArgs {
    /// Port of the live view; the helpers use the next four; 0: free ports
    #[arg(long, value_name = "PORT", default_value_t = 8440, value_parser = clap::value_parser!(u16).range(0..=65_531))]
    pub(crate) port: u16,
}

/// Serve a site through volunteers: each body crosses the site's line once, then only its digests
///
/// The origin runs in front of an HTTP/1.1 server and ends its clients' TLS, which volunteers
/// carry. NOT PRIVATE: a volunteer reads whatever the site answers, and learns which client fetched
/// what; it cannot change a byte. For public content only: Cookie and Authorization do not reach
/// the server, and answers with Set-Cookie, `private` or `no-store` are not passed on (403). The
/// certificate is RSA and names exactly one host.
///
/// A public name is served only if no volunteer could get a certificate for it. The start makes the
/// checks of `tandem split check`, for a minute at most. It prints `ready` when it serves.
#[derive(Debug, Args)]
#[command(after_long_help = ORIGIN_EXAMPLE)]
pub(crate) struct OriginArgs {
    /// Address to listen on for volunteers
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: SocketAddr,
    /// The server behind, `http://HOST[:PORT]`
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: String,
    /// The site's certificate and its chain, PEM; checked every 2 seconds, reread after a change
    #[arg(long, value_name = "FILE")]
    pub(crate) cert: PathBuf,
    /// The certificate's key, PEM; used for nothing else
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// The key by which volunteers recognise this origin, created if missing [default: derived from
    /// --key]
    ///
    /// With a separate file it stays the same when the site's key is replaced.
    #[arg(long, value_name = "FILE")]
    pub(crate) channel_key: Option<PathBuf>,
    /// File with the keys of the volunteers to serve, one per line [default: any volunteer]
    #[arg(long, value_name = "FILE")]
    pub(crate) volunteers: Option<PathBuf>,
    /// Limit of hashing for one volunteer, by key and by address, in MB per second
    ///
    /// It counts what a volunteer's clients ask for, and what the volunteer lacks. Bursts of 8
    /// seconds' worth are allowed; a /16 or /48 has four times as much. Excess work waits.
    #[arg(long, value_name = "MB", default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) work_limit: u64,
    /// Limit of sending to one volunteer, likewise, in kB per second [default: what the line takes]
    #[arg(long, value_name = "KB", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) send_limit: Option<u64>,
    /// MiB of bodies, at most, that are kept in memory with their names [0: none]
    ///
    /// The server is asked each time whether a kept body still holds (If-None-Match), and a body
    /// that does is neither fetched nor hashed for its names again. One takes a quarter at most.
    #[arg(long, value_name = "MIB", default_value_t = 128, value_parser = clap::value_parser!(u64).range(0..=1_048_576))]
    pub(crate) keep_bodies: u64,
    /// The site's broker, which gets reports about volunteers whose data clients reject:
    /// `barnraising://BROKER[:PORT]/SITE#KEY`
    #[arg(long, value_name = "URI")]
    pub(crate) broker: Option<SiteUri>,
    /// Let no client resume a session: each connection costs a full handshake
    ///
    /// Volunteers see the ticket with which a client resumes. Volunteers that compare notes can use
    /// it to link a client's connections, for the 12 hours that a ticket is valid.
    #[arg(long)]
    pub(crate) no_resumption: bool,
    /// Answer /metrics, /status.json and /healthz here
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) admin: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) name: NameArgs,
    #[command(flatten)]
    pub(crate) logging: SplitLogging,
}

/// Help a site: serve its clients from a cache that they do not have to trust
///
/// It carries clients' TLS to one origin, which names the content of each record by its digest. The
/// content comes from the cache, or is fetched once. The clients' own TLS rejects everything that
/// is not the origin's. It prints `ready` when it listens.
#[derive(Debug, Args)]
#[command(after_long_help = VOLUNTEER_EXAMPLE, group = ArgGroup::new("way").required(true).args(["uri", "origin"]))]
pub(crate) struct VolunteerArgs {
    /// The site and its broker, as the site's operator publishes it:
    /// `barnraising://BROKER[:PORT]/SITE#KEY`
    ///
    /// The broker tells the origin's address and key, and the other volunteers. While the broker is
    /// down, its last answer is enough to serve; with --cache also after a restart.
    #[arg(value_name = "URI", conflicts_with_all = ["origin_key", "peers"])]
    pub(crate) uri: Option<SiteUri>,
    /// The origin, if there is no broker
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) origin: Option<String>,
    /// The origin's key, as it logs it at its start [default: the first one seen, kept in the
    /// cache]
    #[arg(long, value_name = "KEY")]
    pub(crate) origin_key: Option<String>,
    /// Addresses to listen on for clients; repeated, or separated by commas. `[::]` is every
    /// address of this machine, of IPv4 and IPv6
    ///
    /// With a broker, one address of each family is published: the first one that is given here, or
    /// for `[::]` and `0.0.0.0` the one that the system chooses.
    #[arg(
        long,
        value_name = "ADDR:PORT",
        value_delimiter = ',',
        default_value = "[::]:443"
    )]
    pub(crate) listen: Vec<SocketAddr>,
    /// Keep payloads in this directory, created if missing [default: in memory only]
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// Maximum size of the cache's directory in MiB
    #[arg(long, value_name = "MIB", default_value_t = 10_240, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    pub(crate) cache_limit: u64,
    /// Limit for all clients together in kB per second [default: no limit]
    #[arg(long, value_name = "KB", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rate: Option<u64>,
    /// Other volunteers of the site, to ask before the origin; repeated, or separated by commas
    #[arg(long, value_name = "KEY@ADDR:PORT", value_delimiter = ',')]
    pub(crate) peers: Vec<Peer>,
    /// Answer other volunteers here; repeated, or separated by commas [default: nowhere]
    #[arg(long, value_name = "ADDR:PORT", value_delimiter = ',')]
    pub(crate) peer_listen: Vec<SocketAddr>,
    /// How volunteers choose which other volunteer to ask; the same for all of a site
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Sharing::Placement)]
    pub(crate) sharing: Sharing,
    /// Answer /metrics and /healthz here
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) admin: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) logging: SplitLogging,
}

/// Manage a site's volunteers: they join here, are checked, and browsers are sent to the healthy
/// ones
///
/// Volunteers join with the URI that --uri prints, are recognised by their keys, and renew about
/// once a minute. The broker checks each as a browser would: a GET of the site through it, with a
/// check of the certificate. Its data survives a restart; volunteers continue without a broker.
/// With `[pair]`, a second broker takes over when the first one is lost (docs/splitting.md).
///
/// A public name points to volunteers only if none of them could get a certificate for it, as
/// `tandem split check` finds out. Until then, a broker with `[dns]` sends browsers to the origin
/// only. A broker without `[dns]` makes this check at its start, for a minute at most, and exits if
/// it fails. It prints `ready` when it serves.
#[derive(Debug, Args)]
#[command(after_long_help = BROKER_EXAMPLE)]
pub(crate) struct BrokerArgs {
    /// Configuration: the site, the origin and the rules, TOML
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Print the URI for volunteers and exit; the broker's key is created if missing
    #[arg(long)]
    pub(crate) uri: bool,
    /// Print the DS record for the parent zone and exit; the zone's key is created if missing
    #[arg(long, conflicts_with = "uri")]
    pub(crate) ds: bool,
    #[command(flatten)]
    pub(crate) name: NameArgs,
    #[command(flatten)]
    pub(crate) logging: SplitLogging,
}

/// How volunteers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sharing {
    /// By a fixed rule: each piece belongs to two members, and nobody announces what they have
    Placement,
    /// By a distributed hash table, which listens one port above --peer-listen; only if the program
    /// was built with the feature kademlia
    Kademlia,
    /// Not at all: answer the others, but ask them nothing
    None,
}

/// How a public name is looked at before it is served.
#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// Ask this resolver about the site's name, if it is public [default: the first in
    /// /etc/resolv.conf]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) resolver: Option<SocketAddr>,
    /// Trust the keys in this file (DNSKEY records, as in a zone file) [default: the root's]
    #[arg(long, value_name = "FILE")]
    pub(crate) trust_anchor: Option<PathBuf>,
    /// Trust this authority (as CAA records name it) to observe RFC 8657; Let's Encrypt is known
    /// to. May be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) observant: Vec<String>,
    /// Serve a public name although ANY VOLUNTEER MAY OBTAIN A CERTIFICATE for it, and then serve
    /// what it likes under it; DNS is not asked. A warning stays in status and metrics
    #[arg(long = "i-accept-that-volunteers-may-obtain-certificates")]
    pub(crate) accept: bool,
}

/// What is logged.
#[derive(Debug, Args)]
pub(crate) struct SplitLogging {
    /// What to log: error, warn, info, debug, trace or off [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log: Option<String>,
    /// text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_says_how_often_the_certificate_is_looked_at() {
        let command = OriginArgs::augment_args(clap::Command::new("origin"));
        let mut arguments = command.get_arguments();
        let certificate = arguments.find(|argument| argument.get_id() == "cert");
        let help = certificate.and_then(|argument| argument.get_help());
        let said = help.expect("it has help").to_string();
        let seconds = tandem_split_io::origin::RELOAD.as_secs();
        assert!(said.contains(&format!("every {seconds} seconds")), "{said}");
    }
}
