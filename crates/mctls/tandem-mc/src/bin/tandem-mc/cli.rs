//! The arguments: every command, flag and help text, as clap reads them.
//!
//! Invariant: every `--help` is pinned by a snapshot (`tests/help.rs`).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use clap::{Args, Parser, Subcommand};
use tandem_mc::get::Url;
use tandem_mc::layout::Kind;
use tandem_mc::paper::Protocol;
use tandem_mc::via::{ViaArgument, host_of};

/// The longest time that can be asked for.
const MAX_SECONDS: f64 = 3600.0;

/// Middleboxes that both ends agree to: to parts of a session, to read or to write, and no further
///
/// Multi-context TLS (mctls13, docs/mctls.md). Client and server divide their data into contexts
/// and give each middlebox the keys that it needs. What somebody does beyond that is found, and
/// both ends are told. Nobody outside the project has reviewed it: do not protect with it what
/// matters.
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
  See it work: a filter, a compressor, a cache, and a middlebox that oversteps
    tandem mc demo
  Who could do what, before anything is started
    tandem mc explain --via filter.example:4443=filter

Exit codes:
  0 done; of get: every byte was vouched for
  1 failed at run time: blocked, cut short, somebody overstepped
  2 usage or configuration        4 in use: a port";

/// What is to be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(ServeArgs),
    Box(BoxArgs),
    Get(Box<GetArgs>),
    Explain(ExplainArgs),
    /// Let a browser and a web server that know nothing of this use it
    ///
    /// `client` runs beside the browser and takes plain HTTP on loopback; `server` runs beside the
    /// web server and asks it over plain HTTP. Neither intercepts anything: the client's serves the
    /// names in its settings, and opens no TLS connection of the browser's.
    #[command(subcommand)]
    Gateway(Gateway),
    /// See it work on this machine: a page through a filter and a compressor, a page that is
    /// blocked, one that a cache fills in, and a middlebox that oversteps
    ///
    /// It makes certificates of its own with `openssl`, listens on loopback only, takes a second,
    /// and leaves nothing behind. No root.
    Demo,
}

/// Serve the files of a folder to clients and their middleboxes
///
/// GET and HEAD over HTTP/1.1. It prints where it listens, and `ready`; SIGTERM ends it. With
/// [[middlebox]] entries in its settings only those middleboxes are admitted, with these rights at
/// most; without any, whichever an authority of --trust vouches for, as far as the client grants.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Example:
  Files of /srv/www; a filter may see which pages are asked for, others nothing
    tandem mc serve --listen 0.0.0.0:8443 --cert page.pem --key page.key \\
        --root /srv/www --trust ca.pem --config serve.toml
  serve.toml:
    [[middlebox]]
    name = \"filter.example\"
    request-headers = \"read\"")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) listening: Listening,
    /// The protocol: mctls13, or mctls12, the paper's own, which is for research and not safe
    #[arg(long, value_name = "NAME", default_value = "mctls13", value_parser = Protocol::parse)]
    pub(crate) protocol: Protocol,
    /// The folder; files that begin with a dot, and what links lead out to, are not served
    #[arg(long, value_name = "DIR")]
    pub(crate) root: PathBuf,
    /// Authorities of middleboxes, PEM; without it no middlebox is admitted
    #[arg(long, value_name = "FILE")]
    pub(crate) trust: Option<PathBuf>,
}

/// Which gateway.
#[derive(Debug, Subcommand)]
pub(crate) enum Gateway {
    Client(GatewayClientArgs),
    Server(GatewayServerArgs),
}

/// Beside a browser: take plain HTTP on this machine, and fetch from the servers in the settings
///
/// Set it as the browser's proxy for HTTP, or have the names lead to this machine. Then ask for
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
    /// Where to listen, on loopback; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: SocketAddr,
    /// Authorities of servers and of middleboxes, PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) trust: PathBuf,
    /// Settings, TOML: a [[site]] for each server, with name, connect, via and contexts
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// How long a session may take to be there; more on slow links
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) timeout: Duration,
    /// What to log: error, warn, info, debug [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log: Option<String>,
}

/// Beside a web server: take sessions of clients and middleboxes, and ask the server over HTTP/1.1
///
/// It asks on a connection for each request, takes headers such as X-Forwarded-For out, which
/// anybody can write, and adds X-Forwarded-Proto: https. [[middlebox]] entries in its settings are
/// those of `serve`.
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
    /// Where to listen; port 0 takes a free one
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
    /// How long a session may take to be there; more on slow links
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) timeout: Duration,
    /// What to log: error, warn, info, debug [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log: Option<String>,
}

/// Be a middlebox of a kind, for clients that name it and servers that agree
///
/// null passes on unread. filter blocks pages (`block`). ids blocks what has a pattern of an attack
/// in it (`patterns`). tracker takes cookies and the like out of headers (`hosts`, `headers`).
/// compress makes text in responses shorter. cache fills in bodies that it holds where the server
/// refers to them (`memory`, `max-body`). pacer spreads bursts over time (`rate`, `burst`,
/// `types`). balance chooses among servers (`backends`, `balance`) and reads nothing. It prints
/// where it listens, and `ready`; SIGTERM ends it. It connects to this machine only, unless `allow`
/// in its settings permits more; balance connects to its backends alone.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Example:
  A filter in front of servers on port 443
    tandem mc box --listen 0.0.0.0:4443 --cert filter.pem --key filter.key \\
        --kind filter --config filter.toml
  filter.toml:
    allow = [\"*:443\"]
    block = [\"ads.example\", \"/games/\", \"www.example.org/chat\"]

  A balancer: the same client, the same server, while that is up
    tandem mc box --listen 0.0.0.0:4443 --cert all.pem --key all.key \\
        --kind balance --config balance.toml
  balance.toml:
    backends = [\"192.0.2.1:443\", \"192.0.2.2:443\"]
    balance = \"client\"")]
pub(crate) struct BoxArgs {
    #[command(flatten)]
    pub(crate) listening: Listening,
    /// The protocol: mctls13, or mctls12, the paper's own, which is for research and not safe
    #[arg(long, value_name = "NAME", default_value = "mctls13", value_parser = Protocol::parse)]
    pub(crate) protocol: Protocol,
    /// What it does
    #[arg(long, value_name = "KIND", value_parser = kinds())]
    pub(crate) kind: Kind,
}

/// Fetch a page through middleboxes, and say who saw and who changed what
///
/// A middlebox is [NAME@]HOST:PORT, where NAME is the one in its certificate, and behind = what it
/// may do: a kind's rights (filter), or contexts (request-headers:read,response-body:write).
/// Nothing is granted that is not written. The page goes to standard output or to -o, the table to
/// standard error. It ends with 0 only if every byte was vouched for.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Example:
  A page through a filter and a compressor
    tandem mc get https://page.example/ --trust ca.pem -o page.html \\
        --via filter.example:4443=filter --via zip.example:4443=compress")]
pub(crate) struct GetArgs {
    /// The page, https only
    #[arg(value_name = "URL", value_parser = Url::parse)]
    pub(crate) url: Url,
    /// Where its server is, if not where the URL says
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    pub(crate) connect: Option<String>,
    #[command(flatten)]
    pub(crate) path: PathArgs,
    /// Authorities of the server and of middleboxes, PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) trust: PathBuf,
    /// The protocol: mctls13, or mctls12, the paper's own, which is for research and not safe. Over
    /// mctls12 nobody says who saw what, or what the server has withheld
    #[arg(long, value_name = "NAME", default_value = "mctls13", value_parser = Protocol::parse)]
    pub(crate) protocol: Protocol,
    /// Send this header line too; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    pub(crate) headers: Vec<(String, String)>,
    /// How long to wait for the session, and for anything at all in it
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) timeout: Duration,
    /// Go on where the server grants less than was asked for; else nothing is sent
    #[arg(long)]
    pub(crate) accept_less: bool,
    /// Write the page here, once it is whole
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write the report here too, for `tandem mc explain`
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Print the report as JSON, and the page only to -o
    #[arg(long)]
    pub(crate) json: bool,
}

/// The middleboxes on the way.
#[derive(Debug, Args)]
pub(crate) struct PathArgs {
    /// A middlebox on the way, the nearest first, and what it may do; may be repeated
    #[arg(long, value_name = "ADDR:PORT[=GRANTS]", value_parser = ViaArgument::parse)]
    pub(crate) via: Vec<ViaArgument>,
    /// Into how many contexts to divide: 1, or 4 (headers and bodies, each way) and more
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) contexts: u8,
}

/// Say who may do what in a session and why; or, of a session that is over, who did what
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_long_help = "\
Examples:
  Before: what these middleboxes could do
    tandem mc explain --via filter.example:4443=filter
  After: what they did
    tandem mc get https://page.example/ --trust ca.pem --report page.json
    tandem mc explain page.json"
)]
pub(crate) struct ExplainArgs {
    /// A report that `tandem mc get --report` or `--json` has written
    #[arg(value_name = "REPORT", conflicts_with_all = ["via", "contexts"])]
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
