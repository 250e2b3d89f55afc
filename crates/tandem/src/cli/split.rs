//! `tandem split`: origin, volunteer, broker, demonstration, and the look at a name.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use tandem_barnraising::{Member, SiteUri};

const ORIGIN_EXAMPLE: &str = "\
Example:
  In front of a web server on port 8080, for volunteers on port 7443
    tandem split origin --listen 0.0.0.0:7443 --upstream http://127.0.0.1:8080 \\
        --cert site.pem --key site.key --admin 127.0.0.1:9471";

const VOLUNTEER_EXAMPLE: &str = "\
Examples:
  By what the site's broker hands out, for clients on port 443
    tandem split volunteer 'barnraising://broker.example/www.example.org#KEY' \\
        --listen 0.0.0.0:443 --cache /var/cache/tandem-split
  Without a broker, with the key that the origin shows at its start
    tandem split volunteer --origin origin.example:7443 --origin-key KEY \\
        --listen 0.0.0.0:443 --cache /var/cache/tandem-split";

const BROKER_EXAMPLE: &str = "\
Example:
  A file of this kind, all keys of which are explained in docs/splitting.md
    site = \"www.example.org\"
    listen = \"0.0.0.0:8470\"
    address = \"broker.example.org\"
    admin = \"127.0.0.1:9473\"
    [origin]
    address = \"origin.example.org:7443\"
    key = \"KEY\"
    own-addresses = [\"192.0.2.10\"]
  What volunteers are given
    tandem split broker --config broker.toml --uri";

const CHECK_EXAMPLE: &str = "\
Example:
  With a resolver that passes DNSSEC on, and the certificate that the origin has
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

/// See whether a site's volunteers could get a certificate for its name, and what to change
///
/// Whoever DNS sends clients to passes an authority's HTTP-01 and TLS-ALPN-01 challenges. So a
/// public name needs CAA records, signed by DNSSEC, that allow one account at one authority, DNS-01
/// alone and no wildcards. This asks a resolver for them, checks the signatures from the root's key
/// down, says what is missing, and ends with 1 if anything is. Names that no authority issues for
/// (.test, .internal, home.arpa, localhost, addresses) pass.
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
    /// Look at the site's certificate too, PEM: it should name this host alone
    #[arg(long, value_name = "FILE")]
    pub(crate) cert: Option<PathBuf>,
    /// Take this authority (as CAA records name it) for one that observes RFC 8657; Let's Encrypt
    /// is known to. May be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) observant: Vec<String>,
    /// Print JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) logging: SplitLogging,
}

/// See it work: all parts on this machine, a small site to open in a browser, and a page that shows
/// who serves what
///
/// Two volunteers that have joined at a broker, and one helper that flips a bit, serve a small
/// site, each on a port of its own on loopback. It prints where to look, how to ask with curl and
/// Chromium, and `ready`; it runs until Ctrl-C and removes what it made. It needs `openssl` and no
/// root.
#[derive(Debug, Args)]
pub(crate) struct SplitDemoArgs {
    /// The live view's port; the helpers take the four after it, and 0 takes free ones
    #[arg(long, value_name = "PORT", default_value_t = 8440, value_parser = clap::value_parser!(u16).range(0..=65_531))]
    pub(crate) port: u16,
}

/// Serve a site through volunteers: its bodies cross the own line once, and then by name
///
/// It stands in front of a server of HTTP/1.1 and is the end of its clients' TLS, which volunteers
/// carry. NOT PRIVATE: a volunteer reads whatever the site answers, and learns which client fetched
/// what; it cannot change a byte. For public content alone: Cookie and Authorization do not reach
/// the server, and answers with Set-Cookie, `private` or `no-store` are not passed on (403). The
/// certificate is RSA and names exactly one host.
///
/// A public name is served only if no volunteer could get a certificate for it, as `tandem split
/// check` finds out; the start waits for that, for a minute at most. It prints `ready` when it
/// serves.
#[derive(Debug, Args)]
#[command(after_long_help = ORIGIN_EXAMPLE)]
pub(crate) struct OriginArgs {
    /// Where volunteers come
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: SocketAddr,
    /// The server behind, `http://HOST[:PORT]`
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: String,
    /// The site's certificate and its chain, PEM; looked at every 2 seconds, read anew when it has
    /// changed
    #[arg(long, value_name = "FILE")]
    pub(crate) cert: PathBuf,
    /// Its key, PEM; it serves nothing else
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// The key by which volunteers know this origin, made if it is missing [default: one derived
    /// from --key]
    ///
    /// With a file of its own it stays the same when the site's key is replaced.
    #[arg(long, value_name = "FILE")]
    pub(crate) channel_key: Option<PathBuf>,
    /// Volunteers that are served, a key on each line [default: any]
    #[arg(long, value_name = "FILE")]
    pub(crate) volunteers: Option<PathBuf>,
    /// MB each second, at most, that are hashed for one volunteer, by key and by address
    ///
    /// What a volunteer's clients ask for, and what it lacks. 8 seconds' worth may come at once; a
    /// /16 or /48 has four times as much. Whoever has reached it waits.
    #[arg(long, value_name = "MB", default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) work_limit: u64,
    /// kB each second, at most, that are sent to one volunteer, likewise [default: what the line
    /// takes]
    #[arg(long, value_name = "KB", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) send_limit: Option<u64>,
    /// MiB of bodies, at most, that are kept in memory with their names [0: none]
    ///
    /// The server is asked each time whether a kept body still holds (If-None-Match), and a body
    /// that does is neither fetched nor hashed for its names again. One takes a quarter at most.
    #[arg(long, value_name = "MIB", default_value_t = 128, value_parser = clap::value_parser!(u64).range(0..=1_048_576))]
    pub(crate) keep_bodies: u64,
    /// The site's broker, which is told through which volunteers clients refuse what they get:
    /// `barnraising://BROKER[:PORT]/SITE#KEY`
    #[arg(long, value_name = "URI")]
    pub(crate) broker: Option<SiteUri>,
    /// Let no client resume a session: each connection costs a full handshake
    ///
    /// Volunteers see the ticket by which a client resumes. Those that compare what they see can
    /// tell by it that connections are one client's, for the 12 hours that a ticket counts.
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

/// Help a site: serve its clients out of a cache that they need not trust
///
/// It carries clients' TLS to one origin, which says of each record what is in it by name; the
/// content comes out of the cache, or is fetched once. The clients' own TLS refuses what is not the
/// origin's. It prints `ready` when it listens.
#[derive(Debug, Args)]
#[command(after_long_help = VOLUNTEER_EXAMPLE, group = ArgGroup::new("way").required(true).args(["uri", "origin"]))]
pub(crate) struct VolunteerArgs {
    /// The site and its broker: `barnraising://BROKER[:PORT]/SITE#KEY`, as who runs the site hands
    /// it out
    ///
    /// The broker tells where the origin is and by which key it is known, and which other
    /// volunteers there are. When it is gone, what it said last is enough to serve; with
    /// --cache also after a restart.
    #[arg(value_name = "URI", conflicts_with_all = ["origin_key", "peers"])]
    pub(crate) uri: Option<SiteUri>,
    /// The origin, where there is no broker
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) origin: Option<String>,
    /// The origin's key, as it shows it at its start [default: the first that is met, kept in the
    /// cache]
    #[arg(long, value_name = "KEY")]
    pub(crate) origin_key: Option<String>,
    /// Where clients come
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: SocketAddr,
    /// Keep payloads in this directory, which is made if it is missing [default: in memory alone]
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// MiB in the cache's directory at most
    #[arg(long, value_name = "MIB", default_value_t = 10_240, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    pub(crate) cache_limit: u64,
    /// kB each second to all clients together [default: as many as there are]
    #[arg(long, value_name = "KB", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rate: Option<u64>,
    /// Other volunteers of the site, to ask before the origin; repeated, or separated by commas
    #[arg(long, value_name = "KEY@ADDR:PORT", value_delimiter = ',')]
    pub(crate) peers: Vec<Member>,
    /// Answer other volunteers here [default: nowhere]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) peer_listen: Option<SocketAddr>,
    /// How volunteers know whom of them to ask; the same for all of a site
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Sharing::Placement)]
    pub(crate) sharing: Sharing,
    /// Answer /metrics and /healthz here
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) admin: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) logging: SplitLogging,
}

/// Say who a site's volunteers are: they join here, are looked at, and browsers are sent to those
/// that are well
///
/// Volunteers come with the URI that --uri prints, are known by their keys, and renew about once a
/// minute. Each is looked at as a browser would do it: a GET of the site through it, with the
/// certificate checked. What is known survives a restart; volunteers serve on without a broker.
///
/// A public name leads to volunteers only if none of them could get a certificate for it, as
/// `tandem split check` finds out. A broker with `[dns]` sends browsers to the origin alone
/// until then; one without waits for that at its start, for a minute at most, and ends if it is not
/// so. It prints `ready` when it serves.
#[derive(Debug, Args)]
#[command(after_long_help = BROKER_EXAMPLE)]
pub(crate) struct BrokerArgs {
    /// The site, the origin and the rules, TOML
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Print the URI that volunteers are given, and end; the broker's key is made if there is none
    /// yet
    #[arg(long)]
    pub(crate) uri: bool,
    /// Print the DS record that the zone above has to show, and end; the zone's key is made if
    /// there is none yet
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
    /// By a rule: each thing belongs to two members, and nobody tells anybody what he has
    Placement,
    /// By a distributed hash table, which listens one port above --peer-listen; only if the program
    /// was built with the feature kademlia
    Kademlia,
    /// Not at all: what others ask for is answered, and they are asked nothing
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
    /// Take this authority (as CAA records name it) for one that observes RFC 8657; Let's Encrypt
    /// is known to. May be repeated
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
