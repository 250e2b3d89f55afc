//! `tandem top`.

use std::net::SocketAddr;

use clap::Args;

/// Watch what a running proxy saves, by site and by connection
///
/// Asks the admin address of a proxy on this machine each second; without `--admin` it takes the
/// first that answers at the default addresses of both roles. Keys: `s` changes the order,
/// `q` quits.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Admin address of the proxy [default: 127.0.0.1:9470, then 127.0.0.1:9471]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) admin: Option<SocketAddr>,

    /// Print it once, for scripts and logs
    #[arg(long)]
    pub(crate) once: bool,

    /// Print it once, as the JSON object that the admin port gives
    #[arg(long)]
    pub(crate) json: bool,
}
