//! The arguments, as clap reads them.
//!
//! Is not: their meaning. `--help` is pinned by a snapshot (`tests/help.rs`).

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgGroup, Parser};

/// Keep a web server's private keys on another machine: sign its handshakes, and nothing else
///
/// Web servers connect over TLS 1.3; both ends have pinned keys. The settings name the private
/// keys, the web servers, and which web server may use which key; everything else is refused. The
/// key server builds and signs only messages of TLS 1.2 and 1.3 handshakes. It signs no bytes that
/// a web server chooses, and decrypts nothing. It prints `ready`, its address and its channel key
/// when it serves. SIGHUP rereads the settings.
#[derive(Debug, Parser)]
#[command(
    name = "tandem-keyserver",
    bin_name = "tandem keyserver",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    after_long_help = EXAMPLES,
    group = ArgGroup::new("what").required(true).args(["listen", "check", "channel_key"])
)]
pub(crate) struct Cli {
    /// Address to listen on for web servers
    #[arg(long, value_name = "ADDR:PORT", requires = "config")]
    pub(crate) listen: Option<SocketAddr>,
    /// The settings: keys, web servers, rules (docs/keyserver.md)
    #[arg(long, value_name = "FILE", conflicts_with = "channel_key")]
    pub(crate) config: Option<PathBuf>,
    /// Address of /metrics and /healthz: keep it private [default: none]
    #[arg(long, value_name = "ADDR:PORT", requires = "listen")]
    pub(crate) admin: Option<SocketAddr>,
    /// Read the settings and the keys, print what they allow, and exit
    #[arg(long, requires = "config")]
    pub(crate) check: bool,
    /// Print the public half of this channel key and exit; the key is created if missing
    #[arg(long, value_name = "FILE")]
    pub(crate) channel_key: Option<PathBuf>,
    /// What to log: error, warn, info, debug, trace, off [default: info]
    #[arg(long, value_name = "FILTER")]
    pub(crate) log: Option<String>,
    /// text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  On the web server: make its channel key, and show what to put under [[peer]]
    tandem keyserver --channel-key /etc/tandem/web.key
  On the key server: see what the settings allow, then serve
    tandem keyserver --check --config /etc/tandem/keyserver.toml
    tandem keyserver --listen 10.0.0.5:7447 --config /etc/tandem/keyserver.toml

Settings, web servers, what a stolen web server can do: docs/keyserver.md.";
