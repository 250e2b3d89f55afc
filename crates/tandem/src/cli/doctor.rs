//! `tandem doctor`.

use std::net::SocketAddr;

use clap::{Args, Subcommand};

use super::{ClientSideArgs, ServerSideArgs};

/// Find out why nothing is saved here, and what to do about it
///
/// Checks what a proxy needs on this machine and the counters of the running proxy: link,
/// privileges, kernel, firewall, key, store, clock, the other proxy, the connections that pass.
/// Each line is `ok`, a `warning` or a `problem`, with advice. It changes nothing, and sends
/// nothing over the link unless you pass `--probe`.
///
/// Name the side and its settings, as for the proxy itself. Without a side, it asks the proxies
/// that run here and checks their counters.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Print one JSON object, for programs
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Try to reach the other proxy (client side of tunnel mode); at most 17 kB over the link
    ///
    /// It sends a small packet, then one handshake of the tunnel: about 6 kB if the other proxy
    /// answers. It is skipped while the running proxy has a tunnel, which shows that it is reached.
    #[arg(long, global = true)]
    pub(crate) probe: bool,

    /// Admin address of the running proxy, if no side is named [default: 127.0.0.1:9470 and
    /// 127.0.0.1:9471]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) admin: Option<SocketAddr>,

    #[command(subcommand)]
    pub(crate) side: Option<DoctorSide>,
}

/// Whose settings are looked at.
#[derive(Debug, Subcommand)]
pub(crate) enum DoctorSide {
    /// Check a client side with these settings
    #[command(mut_arg("dry_run", |arg| arg.hide(true)))]
    ClientSide(Box<ClientSideArgs>),
    /// Check a server side with these settings
    #[command(mut_arg("dry_run", |arg| arg.hide(true)))]
    ServerSide(Box<ServerSideArgs>),
}

const EXAMPLES: &str = "\
Examples:
    tandem doctor
    tandem doctor client-side --config /etc/tandem/client-side.toml --link ppp0
    tandem doctor --probe client-side \\
        --config /etc/tandem/tunnel-client-side.toml

Exit codes:
  0 no problem was found (there may be warnings)
  1 there is a problem; others as for every command";
