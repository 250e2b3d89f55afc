//! The arguments: every command, flag and help text, as clap reads them.
//!
//! Is not: their meaning, which the library knows.
//!
//! Invariant: `--help` of every command is pinned by a snapshot (`tests/help.rs`).

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Try things out on one machine: hosts in network namespaces, an emulated link, experiments
#[derive(Debug, Parser)]
#[command(
    name = "tandem-lab",
    bin_name = "tandem lab",
    version,
    max_term_width = 100,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

/// What to do in the lab.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    Demo(DemoArgs),
    Run(RunArgs),
    Report(ReportArgs),
    Interop(InteropArgs),
    SplitClients(SplitClientsArgs),
    Soak(SoakArgs),
    Profile(ProfileArgs),
    Survive(SurviveArgs),
    Visits(VisitsArgs),
    Cost(CostArgs),
    Split(SplitArgs),
    SplitSim(SplitSimArgs),
    Mctls(MctlsArgs),
    Up(UpArgs),
    Shell(ShellArgs),
    Down(DownArgs),
    Link(LinkArgs),
    #[command(hide = true)]
    LosingProxy(LosingProxyArgs),
}

/// Run a client-side proxy that has lost what it claims to hold (for the lab's own use; root)
#[derive(Debug, Args)]
pub(crate) struct LosingProxyArgs {
    /// Network interface of the link
    #[arg(long, value_name = "IFACE")]
    pub(crate) link: String,

    /// File with the key that both proxies share
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,

    /// Format on the link: `safe` or `mcveety`
    #[arg(long, value_name = "FORMAT")]
    pub(crate) wire: String,
}

/// See it work: a real client fetches from a real server over an emulated satellite link, without
/// and with Tandem
///
/// Builds four hosts in network namespaces of its own (client, two proxies, server), prints bytes
/// and seconds while it measures, and writes a page with plots. Everything is taken down again.
/// Needs root, nginx and curl.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Directory for the page and the figures
    #[arg(long, value_name = "DIR", default_value = "out/demo")]
    pub(crate) out: PathBuf,

    /// Named link to emulate, such as `iridium` or `inmarsat-64` [default: iridium]
    #[arg(long, value_name = "NAME")]
    pub(crate) link: Option<String>,

    /// One round on a faster link
    #[arg(long)]
    pub(crate) quick: bool,
}

/// Run experiments: links, endpoints, arms and trials out of a TOML file
///
/// The arms (plain, packet, tunnel, ...) run interleaved in random order; every byte is compared at
/// both ends. Results are JSON lines and a table. Needs root.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Arms, of which a file names some:
    plain                the gateways route and do nothing else
    pass-through         both daemons run and let every packet pass
    packet               packet mode; the proxies know the server's certificates
    packet-cold          packet mode at first contact
    packet-none, -cii, -filter, -mcveety
                         packet mode with other ways to treat clients' certificates, and in the
                         thesis's format
    tunnel               tunnel mode; the tunnel is up, the proxies know the certificates
    tunnel-cold          tunnel mode with daemons that have just been started: the tunnel's set-up
                         is counted
    resumption, resumption-id, packet-resumption, tls13, packet-tls13, rfc8879
                         what endpoints can do themselves, and some of it through packet mode")]
pub(crate) struct RunArgs {
    /// Experiment files, such as experiments/bars.toml
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// About a minute's worth: fewer trials, faster links
    #[arg(long)]
    pub(crate) quick: bool,

    /// Directory for the results [default: out/lab/NAME]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Only these links of the file
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) links: Vec<String>,

    /// Only these endpoints of the file
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) endpoints: Vec<String>,

    /// Only these arms of the file
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) arms: Vec<String>,

    /// Only these situations of the file, such as case-3
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) situations: Vec<String>,

    /// Trials of each case [default: as in the file]
    #[arg(long, value_name = "N")]
    pub(crate) trials: Option<u32>,

    /// Write what crosses the link as pcapng, too
    #[arg(long)]
    pub(crate) capture: bool,
}

/// Make one page with plots and tables out of results
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Directory with results of `tandem lab run`
    #[arg(value_name = "DIR", default_value = "docs/results")]
    pub(crate) dir: PathBuf,

    /// Directory for the page [default: DIR]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

/// Try every client program against every server program, plain and through two proxies
///
/// OpenSSL, curl, wget, GnuTLS, NSS, Go, Java, Python, Node, rustls, Chromium and Firefox against
/// nginx, Apache, HAProxy, stunnel, OpenSSL, GnuTLS, Go and Java, in TLS 1.0 to 1.3; TLS 1.3 also
/// through the tunnel, with the server's consent, the client's, and both's. Writes a table and JSON
/// lines. A program that is not installed is left out; `make interop` installs all. Needs
/// root.
#[derive(Debug, Args)]
pub(crate) struct InteropArgs {
    /// A handful of combinations, in some seconds
    #[arg(long)]
    pub(crate) quick: bool,

    /// Directory for the results
    #[arg(long, value_name = "DIR", default_value = "out/lab/interop")]
    pub(crate) out: PathBuf,
}

/// Try every client program at a split site, through an honest volunteer and through dishonest ones
///
/// Chromium, Firefox, curl, OpenSSL, GnuTLS, Go, Java, Python and Node: pages, resumption, ranges,
/// uploads; then volunteers that flip, drop, reorder, replay, truncate, swap, stall, or answer for
/// another site. Writes a table and JSON lines. A program that is not installed is left out; `make
/// clients` installs all. Needs no root.
#[derive(Debug, Args)]
pub(crate) struct SplitClientsArgs {
    /// curl and OpenSSL alone, in about half a minute
    #[arg(long)]
    pub(crate) quick: bool,

    /// Directory for the results
    #[arg(long, value_name = "DIR", default_value = "out/lab/split-clients")]
    pub(crate) out: PathBuf,
}

/// Tell which programs survive a slow link with the time-outs that they have
///
/// Go, Node, Java, curl and Python fetch a page over iridium, hf-9600 and certus-100, in TLS 1.2
/// and 1.3: plain, in packet mode, through the tunnel. Writes a table and JSON lines. A program
/// that is not installed is left out; `make survive` installs all. Needs root.
#[derive(Debug, Args)]
pub(crate) struct SurviveArgs {
    /// How often each program tries
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) tries: u32,

    /// Only these links
    #[arg(long, value_name = "LINK", value_delimiter = ',')]
    pub(crate) links: Vec<String>,

    /// Directory for the results
    #[arg(long, value_name = "DIR", default_value = "out/lab/survive")]
    pub(crate) out: PathBuf,
}

/// A part of `tandem lab cost`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum CostPart {
    /// Each server: plain HTTP, and TLS as reuse of sessions grows
    Servers,
    /// Session identifiers among several processes
    Processes,
    /// Where the time goes inside servers
    Phases,
    /// Kinds of the server's key: RSA of 2,048 to 4,096 bits, P-256, P-384, Ed25519
    Keys,
    /// The load generator beside other tools
    Bars,
}

/// Measure what TLS costs at real servers: with and without sessions reused, beside plain HTTP
///
/// Starts the servers that are installed on the loopback interface, with equal settings and on a
/// processor of their own, drives each with the load generator of `tandem measure`, and reads from
/// the kernel what it took. Writes cost.jsonl, cost.md and cost.run.json. Servers that are missing
/// are named. The machine should do nothing else.
#[derive(Debug, Args)]
pub(crate) struct CostArgs {
    /// A minute's worth: three arms at each server
    #[arg(long)]
    pub(crate) quick: bool,

    /// Only these servers
    #[arg(long, value_name = "SERVER", value_delimiter = ',')]
    pub(crate) servers: Vec<String>,

    /// Only these parts
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    pub(crate) parts: Vec<CostPart>,

    /// Measure each arm of the servers so often, and show the median
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub(crate) rounds: u32,

    /// Directory for the results
    #[arg(long, value_name = "DIR", default_value = "out/lab/cost")]
    pub(crate) out: PathBuf,
}

/// Tell what whole visits and days of them cost: bytes, seconds and, by tariffs, money
///
/// Real programs do a task from its start to its end over iridium, certus-100 and tcdl-10, plain,
/// in packet mode and through the tunnel, where the first visit sets the tunnel up: a page of 30
/// objects from 6 hosts, a poll of an API, git fetch, apt-get update, a report by MQTT, a look into
/// a mailbox by IMAP. A day is computed from the visits that were measured and the number a day
/// that the file states. Writes a table, JSON lines and a drawing for each link. A visit whose
/// program is not installed is left out; `make visits` installs all. Needs root.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
    tandem lab visits --tariff experiments/tariffs/by-byte.toml
    tandem lab visits --links tcdl-10 --visits page,poll --trials 1")]
pub(crate) struct VisitsArgs {
    /// The experiment [default: experiments/visits.toml as it was when this was built]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// What the link costs, as `tandem client-side --tariff` takes it; several are compared
    #[arg(long = "tariff", value_name = "FILES", value_delimiter = ',')]
    pub(crate) tariffs: Vec<PathBuf>,

    /// Only these links of the file
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) links: Vec<String>,

    /// Only these visits of the file
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) visits: Vec<String>,

    /// Visits of each kind beside the first [default: as in the file]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) trials: Option<u32>,

    /// Directory for the results
    #[arg(long, value_name = "DIR", default_value = "out/lab/visits")]
    pub(crate) out: PathBuf,
}

/// Tell where the proxies' processor time goes, kernel and user apart
///
/// Handshakes one after the other over a fast link, through a queue that does nothing, through
/// packet mode and through the tunnel. Writes profile.jsonl, which `tandem lab report` sets beside
/// what the stages of a handshake take in benches. Takes the lab's client on rustls (`cargo build
/// --release --package tandem-lab --examples`). Needs root.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// How long with each
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) seconds: u32,

    /// Directory for the result
    #[arg(long, value_name = "DIR", default_value = "out/lab/profile")]
    pub(crate) out: PathBuf,
}

/// Tell what SSL splitting saves, and what it costs: the thesis's evaluation, redone
///
/// An origin and nginx at one end of a link, volunteers and curl at the other: files of many sizes,
/// traces out of access logs, files of which none repeats, one to twenty volunteers; by HTTP,
/// HTTPS, and splitting cold and warm. Writes splitting.jsonl and tables. Traces are left out where
/// there are no logs. Needs root, nginx and curl.
#[derive(Debug, Args)]
pub(crate) struct SplitArgs {
    /// Some minutes' worth: fewer sizes, requests and volunteers
    #[arg(long)]
    pub(crate) quick: bool,

    /// Only these of sizes, trace, latency, scaling, origin, volunteer
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) parts: Vec<String>,

    /// Directory with access logs [default: $TANDEM_DATA/logs, or ../shared/data/logs]
    #[arg(long, value_name = "DIR")]
    pub(crate) logs: Option<PathBuf>,

    /// Seed of the files' content, of the order and of the link's chance
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Directory for the results
    #[arg(long, value_name = "DIR", default_value = "out/lab/splitting")]
    pub(crate) out: PathBuf,
}

/// Simulate a split site with very many clients and volunteers: what the origin's line carries
///
/// A simulation, not a measurement. 100,000 clients want one page of a site whose origin has a line
/// of 160 kbit/s: by HTTPS, and through 1,000 volunteers with cold and with warm caches, with and
/// without sharing among them, also while volunteers come and go; then over longer times, on faster
/// lines, with fewer volunteers and with other assumptions. Bytes and round trips of a request come
/// from the rows that `tandem lab split` measured; if a row is missing, nothing is simulated.
/// Writes split-simulation.json, split-simulation.md and plots. The same seed always gives the same
/// figures. Needs no root, and no idle machine.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
    tandem lab split-sim
    tandem lab split-sim --clients 10000 --volunteers 50 --out out/lab/small")]
pub(crate) struct SplitSimArgs {
    /// Clients that want the page
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) clients: u32,

    /// Volunteers of the site
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) volunteers: u32,

    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Rows by which the simulation is calibrated
    #[arg(
        long,
        value_name = "FILE",
        default_value = "docs/results/splitting.jsonl"
    )]
    pub(crate) rows: PathBuf,

    /// Directory for the results
    #[arg(long, value_name = "DIR", default_value = "out/lab/split-simulation")]
    pub(crate) out: PathBuf,
}

/// Measure multi-context TLS: the evaluation of the paper of 2015, redone
///
/// A client, up to four middleboxes and a server in a row, with an emulated link between each two:
/// mctls13, mctls12, split TLS, end-to-end TLS and no encryption, interleaved in one run. Time to
/// the first byte, bytes of handshakes and records, files by link and size, pages, connections by
/// processor time, bulk, and the lines that a program must change. Writes mctls.jsonl, mctls.md and
/// mctls.run.json. The machine should do nothing else. Needs root and openssl.
#[derive(Debug, Args)]
pub(crate) struct MctlsArgs {
    /// A minute's worth: fewer middleboxes, contexts, files and pages
    #[arg(long)]
    pub(crate) quick: bool,

    /// Only these of handshake, first-byte, transfer, page, overhead, connections, bulk, lines
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) parts: Vec<String>,

    /// Seed of the order of trials and of the pages
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Directory for the results
    #[arg(long, value_name = "DIR", default_value = "out/lab/mctls")]
    pub(crate) out: PathBuf,
}

/// Make very many handshakes through two proxies while everything is harmed
///
/// Mixed clients and servers, many connections at once, TLS 1.0 to 1.3, some of them resumed, some
/// with client certificates; the link loses, duplicates and reorders packets; in the first half the
/// proxies are killed and restarted at random moments, some with their stores wiped; the link of a
/// tunnel is cut for some seconds, too. Counts what fails and what differs, and how the proxies
/// grow. Takes the programs of `make interop` that are installed. Needs root.
#[derive(Debug, Args)]
pub(crate) struct SoakArgs {
    /// Handshakes in all [default: 100000, with --quick 300]
    #[arg(long, value_name = "N")]
    pub(crate) handshakes: Option<u64>,

    /// Through the tunnel instead of packet mode
    #[arg(long)]
    pub(crate) tunnel: bool,

    /// Through the tunnel, TLS 1.3 alone, with servers and clients that release handshake keys, of
    /// which some come late, never, twice or wrong
    #[arg(long, conflicts_with = "tunnel")]
    pub(crate) consent: bool,

    /// Some programs, few handshakes
    #[arg(long)]
    pub(crate) quick: bool,

    /// Seed of the faults and of the link's chance
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Directory for the results
    #[arg(long, value_name = "DIR", default_value = "out/lab/soak")]
    pub(crate) out: PathBuf,
}

/// Leave the four hosts and the link standing, for use by hand
///
/// Enter a host with `tandem lab shell HOST`; take everything down with `tandem lab down`. Needs
/// root.
#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) link: LinkSpecArgs,
}

/// Open a shell in a host of the standing lab, or run a command there
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
    tandem lab shell client
    tandem lab shell client -- ip -brief address
    tandem lab shell client-side -- tcpdump -ni link0")]
pub(crate) struct ShellArgs {
    /// client, client-side, server-side or server
    #[arg(value_name = "HOST")]
    pub(crate) host: String,

    /// Command and its arguments [default: $SHELL]
    #[arg(value_name = "COMMAND", last = true)]
    pub(crate) command: Vec<OsString>,
}

/// Take the standing lab down, and what a lab that was killed left behind
#[derive(Debug, Args)]
pub(crate) struct DownArgs {
    /// Labs that are running now, too
    #[arg(long)]
    pub(crate) all: bool,
}

/// Run the link emulator alone, between two network namespaces that exist
///
/// Prints `ready` when packets pass, runs until SIGINT or SIGTERM, then prints what it carried as a
/// JSON line. Needs root.
#[derive(Debug, Args)]
pub(crate) struct LinkArgs {
    /// Namespace of the client side, and the name of the device to make there (link0 if left out)
    #[arg(long, value_name = "NETNS[:DEV]")]
    pub(crate) client_side: String,

    /// Namespace of the server side, and the name of the device to make there (link0 if left out)
    #[arg(long, value_name = "NETNS[:DEV]")]
    pub(crate) server_side: String,

    /// Seed of everything random; the same seed does the same to the same packets
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Write what crosses the link to this pcapng file
    #[arg(long, value_name = "FILE")]
    pub(crate) capture: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) link: LinkSpecArgs,
}

/// A link: a named one, or figures; figures win over those of the named one.
#[derive(Debug, Args)]
#[command(next_help_heading = "The link")]
pub(crate) struct LinkSpecArgs {
    /// Named link, such as iridium, inmarsat-64, milstar, tcdl-10, cell-modem [default: iridium]
    ///
    /// Any figure below replaces the named link's.
    #[arg(long, value_name = "NAME")]
    pub(crate) link: Option<String>,

    /// Bits per second from the client side to the server side
    #[arg(long, value_name = "BPS")]
    pub(crate) up: Option<u64>,

    /// Bits per second from the server side to the client side
    #[arg(long, value_name = "BPS")]
    pub(crate) down: Option<u64>,

    /// Milliseconds one way
    #[arg(long, value_name = "MS")]
    pub(crate) delay: Option<f64>,

    /// Packets lost, in percent, each way [default: 0]
    #[arg(long, value_name = "PERCENT")]
    pub(crate) loss: Option<f64>,

    /// Largest IP packet, bytes [default: 1500]
    #[arg(long, value_name = "BYTES")]
    pub(crate) mtu: Option<usize>,

    /// Bytes that may wait in front of the link, each way
    #[arg(long, value_name = "BYTES")]
    pub(crate) queue: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_arguments_hang_together() {
        Cli::command().debug_assert();
    }
}
