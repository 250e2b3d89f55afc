//! The arguments: every command, flag and help text, as clap reads them.
//!
//! Invariant: every `--help` is pinned by a snapshot (`tests/help.rs`).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use clap::{Args, Parser, Subcommand};
use tandem_mc::McError;
use tandem_mc::discover::{Accepted, Missing, dns, domain};
use tandem_mc::get::Url;
use tandem_mc::layout::Kind;
use tandem_mc::paper::Protocol;
use tandem_mc::via::{ViaArgument, host_of};

/// The longest time that can be asked for.
const MAX_SECONDS: f64 = 3600.0;

/// Admit middleboxes to parts of a TLS session, to read or to write, with both ends' consent
///
/// Multi-context TLS (mctls13, docs/mctls.md). Client and server divide their data into contexts
/// and give each middlebox the keys that it needs. If a middlebox exceeds its rights, both ends
/// detect it. Nobody outside the project has reviewed this protocol: do not protect anything
/// important with it.
#[derive(Debug, Parser)]
#[command(
    name = "tandem-mc",
    bin_name = "tandem mc",
    version,
    max_term_width = 100,
    after_long_help = EXAMPLES,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Where to start:
  A demo: a filter, a compressor, a cache, and a middlebox that exceeds its rights
    tandem mc demo
  Who could do what, before anything is started
    tandem mc explain --via filter.example:4443=filter

Exit codes:
  0 done; for get: every byte was authenticated
  1 failed at run time: blocked, cut short, rights exceeded
  2 usage or configuration        4 in use: a port";

/// What is to be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(ServeArgs),
    Box(BoxArgs),
    Get(Box<GetArgs>),
    Explain(ExplainArgs),
    /// Run a gateway for an unmodified browser or web server
    ///
    /// `client` runs beside the browser and accepts plain HTTP on loopback; `server` runs beside
    /// the web server and forwards requests to it over plain HTTP. Neither intercepts anything: the
    /// client's gateway serves the names in its settings, and opens no TLS connection of the
    /// browser.
    #[command(subcommand)]
    Gateway(Gateway),
    /// Run a demo on this machine: a page through a filter and a compressor, a page that is
    /// blocked, one that a cache fills in, and a middlebox that exceeds its rights
    ///
    /// It makes its own certificates with `openssl`, listens on loopback only, takes a second, and
    /// leaves nothing behind. It needs no root.
    Demo,
}

/// Serve the files of a folder to clients and their middleboxes
///
/// It serves GET and HEAD over HTTP/1.1. It prints its address and `ready`; SIGTERM stops it. With
/// [[middlebox]] entries in its settings, it admits only those middleboxes, with at most these
/// rights. Without any, it admits all that an authority of --trust has certified, with the rights
/// that the client grants.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Example:
  Files of /srv/www; a filter may see which pages are requested, others nothing
    tandem mc serve --listen 0.0.0.0:8443 --cert page.pem --key page.key \\
        --root /srv/www --trust ca.pem --config serve.toml
  serve.toml:
    [[middlebox]]
    name = \"filter.example\"
    request-headers = \"read\"")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) listening: Listening,
    #[command(flatten)]
    pub(crate) spoken: Spoken,
    /// The folder; files that begin with a dot, and links to outside, are not served
    #[arg(long, value_name = "DIR")]
    pub(crate) root: PathBuf,
    /// Authorities of middleboxes, PEM; without it no middlebox is admitted
    #[arg(long, value_name = "FILE")]
    pub(crate) trust: Option<PathBuf>,
}

/// Which protocol is spoken.
#[derive(Debug, Args)]
pub(crate) struct Spoken {
    /// The protocol: mctls13, or mctls12, the paper's own, which is for research and not safe
    #[arg(long, value_name = "NAME", default_value = "mctls13", value_parser = Protocol::parse)]
    protocol: Protocol,
    /// With --protocol mctls12: speak the wire format of its authors' prototype, which is weaker
    /// still. Whoever controls the network can change the data unnoticed, and whoever gets a
    /// certificate's key later can read it. Certificates need RSA keys
    #[arg(long)]
    prototype: bool,
}

impl Spoken {
    /// The protocol, in its format.
    pub(crate) fn protocol(&self) -> Result<Protocol, McError> {
        match self.prototype {
            true => self.protocol.of_prototype(),
            false => Ok(self.protocol),
        }
    }
}

/// Which gateway.
#[derive(Debug, Subcommand)]
pub(crate) enum Gateway {
    Client(GatewayClientArgs),
    Server(GatewayServerArgs),
}

/// Beside a browser: accept plain HTTP on this machine, and fetch from the servers in the settings
///
/// Set it as the browser's proxy for HTTP, or let the names point to this machine. Then open
/// http://NAME/: the gateway fetches from https://NAME/ through the middleboxes of that site.
/// https:// addresses do not pass it: it answers CONNECT with 501.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Example:
  A site through a filter, for curl
    tandem mc gateway client --listen 127.0.0.1:8080 --trust ca.pem \\
        --config client.toml
    curl --proxy http://127.0.0.1:8080 http://page.example/
  client.toml:
    [[site]]
    name = \"page.example\"
    connect = \"192.0.2.1:8443\"
    via = [\"filter.example@192.0.2.7:4443=filter\"]")]
pub(crate) struct GatewayClientArgs {
    /// Loopback address to listen on; port 0: a free one
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: SocketAddr,
    /// Authorities of servers and of middleboxes, PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) trust: PathBuf,
    /// Settings, TOML: a [[site]] for each server, with name, connect, via and contexts
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Time limit for setting up a session; slow links need more
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) timeout: Duration,
    /// What to log: error, warn, info, debug [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log: Option<String>,
}

/// Beside a web server: accept sessions of clients and middleboxes, and ask the server by HTTP/1.1
///
/// It uses one connection per request, passes only headers that are known to be harmless, not such
/// as X-Forwarded-For, which anybody can write, and adds X-Forwarded-Proto: https. Its settings may
/// name more headers, such as pass = ["X-Api-Key"]; [[middlebox]] entries are those of `serve`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Example:
  In front of a web server on port 80 of this machine
    tandem mc gateway server --listen 0.0.0.0:8443 --cert page.pem \\
        --key page.key --trust ca.pem --to 127.0.0.1:80")]
pub(crate) struct GatewayServerArgs {
    #[command(flatten)]
    pub(crate) listening: Listening,
    /// The web server
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    pub(crate) to: String,
    /// Authorities of middleboxes, PEM; without it no middlebox is admitted
    #[arg(long, value_name = "FILE")]
    pub(crate) trust: Option<PathBuf>,
}

/// Where a daemon listens, and as whom.
#[derive(Debug, Args)]
pub(crate) struct Listening {
    /// Address to listen on; port 0: a free one
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: SocketAddr,
    /// Its certificate and chain, PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) cert: PathBuf,
    /// The certificate's key, PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// Settings, TOML
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Time limit for setting up a session; slow links need more
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) timeout: Duration,
    /// What to log: error, warn, info, debug [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log: Option<String>,
}

/// Run a middlebox, for clients that name it and servers that agree
///
/// null passes everything on unread. filter blocks pages (`block`). ids blocks data that contains
/// an attack pattern (`patterns`). tracker removes cookies and similar headers (`hosts`,
/// `headers`). compress compresses text in responses. cache fills in bodies that it holds where the
/// server refers to them (`memory`, `max-body`). pacer spreads bursts over time (`rate`, `burst`,
/// `types`). balance chooses among servers (`backends`, `balance`) and reads nothing. wan is one of
/// two at the ends of a slow link, between which repeated data crosses as references (`peer`,
/// `pair-key`, `memory`, `shorten`). icap asks an ICAP server about what it may read, and blocks
/// messages if that server fails (`reqmod`, `respmod`, `icap-timeout`, `when-dead`). It prints its
/// address and `ready`; SIGTERM stops it. It connects to what `allow` in its settings permits; on
/// loopback, without `allow`, to this machine only. balance connects only to its backends.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Example:
  A filter in front of servers on port 443
    tandem mc box --listen 0.0.0.0:4443 --cert filter.pem --key filter.key \\
        --kind filter --config filter.toml
  filter.toml:
    allow = [\"*:443\"]
    block = [\"ads.example\", \"/games/\", \"www.example.org/chat\"]

  A balancer: each client keeps its server while that is up
    tandem mc box --listen 0.0.0.0:4443 --cert all.pem --key all.key \\
        --kind balance --config balance.toml
  balance.toml:
    backends = [\"192.0.2.1:443\", \"192.0.2.2:443\"]
    balance = \"client\"

  A filter that speaks ICAP, on this machine
    tandem mc box --listen 0.0.0.0:4443 --cert icap.pem --key icap.key \\
        --kind icap --config icap.toml
  icap.toml:
    allow = [\"*:443\"]
    respmod = \"icap://127.0.0.1/srv_content_filtering\"

  One of two WAN optimisers; the other one has the same key and names this one
    openssl rand -hex 32 > wan.key
    tandem mc box --listen 0.0.0.0:4443 --cert near.pem --key near.key \\
        --kind wan --config wan.toml
  wan.toml:
    allow = [\"far.example:4443\"]
    peer = \"far.example\"
    pair-key = \"wan.key\"")]
pub(crate) struct BoxArgs {
    #[command(flatten)]
    pub(crate) listening: Listening,
    #[command(flatten)]
    pub(crate) spoken: Spoken,
    /// What the middlebox does
    #[arg(long, value_name = "KIND", value_parser = kinds())]
    pub(crate) kind: Kind,
}

/// Fetch a page through middleboxes, and report who saw and who changed what
///
/// A middlebox is [NAME@]HOST:PORT, where NAME is the name in its certificate. After = come its
/// rights: those of a kind (filter), or by context (request-headers:read,response-body:write). It
/// gets no other rights. The page goes to standard output or to -o, the table to standard error.
/// The exit code is 0 only if every byte was authenticated. Over --protocol mctls12 nobody says who
/// saw what, or what the server has withheld.
///
/// With --discover, DNS may propose more middleboxes, behind those of --via. A proposal is shown
/// and gets nothing, unless --accept names it: then it gets the rights written there, if its
/// certificate is that of a middlebox of this name and the server agrees.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Example:
  A page through a filter and a compressor
    tandem mc get https://page.example/ --trust ca.pem -o page.html \\
        --via filter.example:4443=filter --via zip.example:4443=compress

  What middleboxes does the site propose? Then: accept one of them
    tandem mc explain --discover=page.example
    tandem mc get https://page.example/ --trust ca.pem -o page.html \\
        --discover --accept zip.example=compress")]
pub(crate) struct GetArgs {
    /// The page, https only
    #[arg(value_name = "URL", value_parser = Url::parse)]
    pub(crate) url: Url,
    /// Address of the server, if it differs from the URL
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    pub(crate) connect: Option<String>,
    #[command(flatten)]
    pub(crate) path: PathArgs,
    /// Authorities of the server and of middleboxes, PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) trust: PathBuf,
    #[command(flatten)]
    pub(crate) spoken: Spoken,
    /// Send this header line too; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    pub(crate) headers: Vec<(String, String)>,
    /// Time limit for the session's set-up, and for each wait in it
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) timeout: Duration,
    /// Continue if the server grants less than requested; otherwise nothing is sent
    #[arg(long)]
    pub(crate) accept_less: bool,
    /// Write the page here, once it is complete
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Also write the report here, for `tandem mc explain`
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Print the report as JSON, and the page only to -o
    #[arg(long)]
    pub(crate) json: bool,
}

/// The middleboxes on the way.
#[derive(Debug, Args)]
pub(crate) struct PathArgs {
    /// A middlebox on the path, the nearest first, and its rights; may be repeated
    #[arg(long, value_name = "ADDR:PORT[=GRANTS]", value_parser = ViaArgument::parse)]
    pub(crate) via: Vec<ViaArgument>,
    /// Number of contexts: 1, or 4 (headers and bodies, each way) and more
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) contexts: u8,
    #[command(flatten)]
    pub(crate) discovery: DiscoveryArgs,
}

/// Which middleboxes DNS may propose, and what becomes of them.
#[derive(Debug, Args)]
pub(crate) struct DiscoveryArgs {
    /// Ask DNS which middleboxes DOMAIN proposes; for get without =DOMAIN: the URL's host. May be
    /// repeated. What nobody accepts with --accept is shown, and gets nothing
    #[arg(
        long,
        value_name = "DOMAIN",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = Domain::parse
    )]
    pub(crate) discover: Vec<Domain>,
    /// Accept the middlebox with this name in its certificate if DNS proposes it, with these rights
    /// (as for --via) and no others; may be repeated
    #[arg(long, value_name = "NAME[=GRANTS]", requires = "discover", value_parser = Accepted::parse)]
    pub(crate) accept: Vec<Accepted>,
    /// The DNS server to ask, instead of the system's
    #[arg(long, value_name = "ADDR[:PORT]", requires = "discover", value_parser = dns::server)]
    pub(crate) resolver: Option<SocketAddr>,
    /// If an accepted middlebox is not proposed, or no session comes about with it: go on without
    /// it, or fail before anything is sent. Whoever controls DNS or the network can cause that; use
    /// fail, or --via, for a middlebox that must not be left out
    #[arg(
        long,
        value_name = "POLICY",
        requires = "accept",
        default_value = "continue",
        value_parser = missing()
    )]
    pub(crate) when_missing: Missing,
}

/// A domain to ask about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Domain {
    /// The one in the URL.
    OfUrl,
    /// This one.
    Named(String),
}

impl Domain {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "" => Ok(Self::OfUrl),
            text => domain(text).map(Self::Named),
        }
    }
}

/// Show who may do what in a session and why; or who did what in a finished session
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_long_help = "\
Examples:
  Before: what these middleboxes could do
    tandem mc explain --via filter.example:4443=filter
  Before: what DNS proposes, and what would become of it
    tandem mc explain --discover=page.example --accept zip.example=compress
  After: what they did
    tandem mc get https://page.example/ --trust ca.pem --report page.json
    tandem mc explain page.json"
)]
pub(crate) struct ExplainArgs {
    /// A report from `tandem mc get --report` or `--json`
    #[arg(value_name = "REPORT", conflicts_with_all = ["via", "contexts", "discover"])]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) path: PathArgs,
    /// Print JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,
}

fn kinds() -> impl clap::builder::TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(Kind::ALL.map(Kind::name))
        .try_map(|name| Kind::named(&name).ok_or("no kind of that name"))
}

fn missing() -> impl clap::builder::TypedValueParser<Value = Missing> {
    PossibleValuesParser::new(["continue", "fail"]).map(|name| match name.as_str() {
        "fail" => Missing::Fail,
        _ => Missing::Continue,
    })
}

fn address(text: &str) -> Result<String, String> {
    match host_of(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err("write HOST:PORT, such as 127.0.0.1:8443".into()),
    }
}

fn header(text: &str) -> Result<(String, String), &'static str> {
    let wrong = "write NAME: VALUE, in visible characters";
    let (name, value) = text.split_once(':').ok_or(wrong)?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_good = !name.is_empty() && name.bytes().all(is_name);
    let value = value.trim();
    let is_shown = value
        .bytes()
        .all(|byte| byte.is_ascii_graphic() || byte == b' ');
    match is_good && is_shown {
        true => Ok((name.to_owned(), value.to_owned())),
        false => Err(wrong),
    }
}

fn seconds(text: &str) -> Result<Duration, &'static str> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=MAX_SECONDS).contains(&seconds) => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err("give seconds, 0.1 to 3600"),
    }
}
