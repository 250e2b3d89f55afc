//! The arguments: every flag and its help, as clap reads them.
//!
//! Invariant: `--help` is pinned by a snapshot (`tests/help.rs`).

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use tandem_measure::Percent;

/// The highest rate and number of connections: more is a mistake.
const MAX_LOAD: usize = 1_000_000;
/// The longest time that can be asked for.
const MAX_SECONDS: f64 = 86_400.0;

/// Measure what TLS costs at a server: load, latency, where the time goes
///
/// Makes full and resumed connections to a server in the ratio that you choose, sends HTTP/1.1
/// requests, and reports rate, latency, time, bytes and round trips of each phase, and whether the
/// server or the generator was the limit. Measure only your own servers.
#[derive(Debug, Parser)]
#[command(
    name = "tandem-measure",
    bin_name = "tandem measure",
    version,
    max_term_width = 100,
    after_long_help = EXAMPLES,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    /// Target of the requests, https, or http for a comparison; mixes request files below it
    #[arg(value_name = "URL", required_unless_present = "write_files")]
    pub(crate) url: Option<String>,

    /// Share of the connections that reuse an earlier session
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = percent, conflicts_with = "reuse_sweep")]
    pub(crate) reuse: Percent,

    /// Several shares, one run after the other
    #[arg(long, value_name = "A,B,...", value_delimiter = ',', value_parser = percent)]
    pub(crate) reuse_sweep: Vec<Percent>,

    /// Open loop: start so many connections a second at random moments, whether or not those before
    /// are done
    #[arg(long, value_name = "R", value_parser = rate, conflicts_with = "connections")]
    pub(crate) rate: Option<f64>,

    /// Closed loop: so many connections at a time, the next when one is done
    #[arg(long, value_name = "N", default_value = "10", value_parser = connections)]
    pub(crate) connections: usize,

    /// How long to measure, after the warm-up
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) duration: Duration,

    /// How long a connection with its first request may take, or a later request
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) timeout: Duration,

    /// Offer this TLS version only [default: both]
    #[arg(long, value_name = "VERSION")]
    pub(crate) tls: Option<Version>,

    /// How sessions are resumed [default: any with --reuse, none without]
    #[arg(long, value_name = "MEANS")]
    pub(crate) resumption: Option<Means>,

    /// What to request: specweb96, fixed:BYTES, or a file with one path per line [default: the URL]
    #[arg(long, value_name = "MIX")]
    pub(crate) mix: Option<String>,

    /// Requests on each connection; all: as many as the server allows, in a closed loop
    #[arg(long, value_name = "N|all", default_value = "1", value_parser = keep_alive)]
    pub(crate) keep_alive: KeepAlive,

    /// Trust the issuers in this PEM file instead of the system's
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(crate) ca: Option<PathBuf>,

    /// Accept any certificate
    #[arg(long)]
    pub(crate) insecure: bool,

    /// Repeat the arrivals and requests of an earlier run [default: a random seed, which is shown]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,

    /// Print one line of JSON for each run instead of tables
    #[arg(long)]
    pub(crate) json: bool,

    /// Also write results.jsonl and report.html into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Write the files of the mix into this folder, for the server, and measure nothing
    #[arg(long, value_name = "DIR", requires = "mix", conflicts_with = "url")]
    pub(crate) write_files: Option<PathBuf>,
}

const EXAMPLES: &str = "\
What would more reuse of sessions bring?
    tandem measure https://localhost:8443/ --reuse-sweep 0,50,80,100 --out costs

How long do users wait at 200 connections a second?
    tandem measure https://localhost:8443/ --rate 200 --duration 60

What does TLS cost beside plain HTTP?
    tandem measure http://localhost:8080/ --keep-alive all
    tandem measure https://localhost:8443/ --keep-alive all

SPECweb96's files, served from /srv/files:
    tandem measure --mix specweb96 --write-files /srv/files
    tandem measure https://localhost:8443/files/ --mix specweb96

How to measure correctly: docs/measuring.md.";

/// A TLS version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Version {
    /// TLS 1.2
    #[value(name = "1.2")]
    V12,
    /// TLS 1.3
    #[value(name = "1.3")]
    V13,
}

/// A means of resumption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Means {
    /// Whichever the server gives
    Any,
    /// Session identifiers of TLS 1.2; no tickets are requested
    Id,
    /// Tickets of TLS 1.2
    Ticket,
    /// Pre-shared keys of TLS 1.3, with a new key agreement
    Psk,
    /// The same, and the first request goes with the hello
    #[value(name = "0rtt")]
    ZeroRtt,
    /// None: nothing is kept or requested
    None,
}

/// Requests on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeepAlive {
    /// So many.
    Requests(u32),
    /// As many as the server allows.
    All,
}

fn percent(text: &str) -> Result<Percent, &'static str> {
    let percent = text.parse().ok().and_then(Percent::new);
    percent.ok_or("give whole per cent, 0 to 100")
}

fn rate(text: &str) -> Result<f64, &'static str> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= MAX_LOAD as f64 => Ok(rate),
        _ => Err("give connections a second, above 0 and up to 1000000"),
    }
}

fn connections(text: &str) -> Result<usize, &'static str> {
    match text.parse() {
        Ok(number) if (1..=MAX_LOAD).contains(&number) => Ok(number),
        _ => Err("give a number from 1 to 1000000"),
    }
}

fn seconds(text: &str) -> Result<Duration, &'static str> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=MAX_SECONDS).contains(&seconds) => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err("give seconds, 0.1 to 86400"),
    }
}

fn keep_alive(text: &str) -> Result<KeepAlive, &'static str> {
    match (text, text.parse()) {
        ("all", _) => Ok(KeepAlive::All),
        (_, Ok(number)) if number > 0 => Ok(KeepAlive::Requests(number)),
        _ => Err("give a number from 1 on, or all"),
    }
}
