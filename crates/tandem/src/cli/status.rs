//! `tandem status`.

use std::net::SocketAddr;

use clap::Args;

/// Show what running proxies are saving now
///
/// Asks the admin address of a proxy on this machine. Without `--admin` it asks the default
/// addresses of both roles and shows each proxy that answers.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Admin address of the proxy [default: 127.0.0.1:9470 and 127.0.0.1:9471]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) admin: Option<SocketAddr>,

    /// Print one JSON object per proxy, one per line, for programs
    #[arg(long)]
    pub(crate) json: bool,
}
