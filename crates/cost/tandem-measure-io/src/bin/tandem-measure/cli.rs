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

    /// Search for the highest rate at which 99 % of the requests take no longer than --p99; starts
    /// at --rate, or 50, and measures each rate for --duration, a low one until 10 connections are
    /// due
    #[arg(long, conflicts_with = "connections")]
    pub(crate) find_rate: bool,

    /// Bound of the 99th percentile for --find-rate: 100ms, 0.5s
    #[arg(
        long,
        value_name = "TIME",
        default_value = "100ms",
        value_parser = time,
        requires = "find_rate"
    )]
    pub(crate) p99: Duration,

    /// Also measure each TLS version, group and cipher alone, each means of resumption, and kept
    /// connections; the advice at the end names each gain
    #[arg(long, conflicts_with_all = ["find_rate", "reuse_sweep", "reuse", "resumption", "tls", "group", "cipher", "keep_alive"])]
    pub(crate) advise: bool,

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

    /// Offer this group of the key agreement only [default: all]
    #[arg(long, value_name = "GROUP", ignore_case = true)]
    pub(crate) group: Option<GroupName>,

    /// Offer this cipher only [default: all]
    #[arg(long, value_name = "CIPHER", ignore_case = true)]
    pub(crate) cipher: Option<CipherName>,

    /// Certificate chain (PEM) for servers that ask for a client certificate
    #[arg(long, value_name = "FILE", requires = "client_key")]
    pub(crate) client_cert: Option<PathBuf>,

    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    pub(crate) client_key: Option<PathBuf>,

    /// How sessions are resumed [default: any with --reuse, none without]
    #[arg(long, value_name = "MEANS")]
    pub(crate) resumption: Option<Means>,

    /// What to request: specweb96, modern, fixed:BYTES, or a file with one URL or path per line
    /// [default: the URL]
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

How many connections a second can it take, if 99 % of the requests are to take 100 ms at most?
    tandem measure https://localhost:8443/ --find-rate --duration 5

Which setting of the server would help?
    tandem measure https://localhost:8443/ --advise --duration 5 --out costs

What does TLS cost beside plain HTTP?
    tandem measure http://localhost:8080/ --keep-alive all
    tandem measure https://localhost:8443/ --keep-alive all

Files as web pages have them today, served from /srv/files:
    tandem measure --mix modern --write-files /srv/files
    tandem measure https://localhost:8443/files/ --mix modern

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

/// A group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroupName {
    /// Curve25519
    #[value(name = "X25519")]
    X25519,
    /// NIST's curve of 256 bits (secp256r1)
    #[value(name = "P-256")]
    P256,
    /// NIST's curve of 384 bits (secp384r1)
    #[value(name = "P-384")]
    P384,
    /// X25519 and ML-KEM-768, post-quantum (TLS 1.3)
    #[value(name = "X25519MLKEM768")]
    X25519MlKem768,
}

/// A cipher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CipherName {
    /// AES with 128 bits
    #[value(name = "AES-128-GCM")]
    Aes128,
    /// AES with 256 bits
    #[value(name = "AES-256-GCM")]
    Aes256,
    /// ChaCha20
    #[value(name = "ChaCha20-Poly1305")]
    ChaCha20,
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

fn time(text: &str) -> Result<Duration, &'static str> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0),
    };
    match number.parse::<f64>().map(|number| number * unit) {
        Ok(seconds) if (1e-3..=60.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("give a time from 1ms to 60s, as in 100ms"),
    }
}

fn keep_alive(text: &str) -> Result<KeepAlive, &'static str> {
    match (text, text.parse()) {
        ("all", _) => Ok(KeepAlive::All),
        (_, Ok(number)) if number > 0 => Ok(KeepAlive::Requests(number)),
        _ => Err("give a number from 1 on, or all"),
    }
}
