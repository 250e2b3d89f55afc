//! `tandem doctor`.

use std::net::SocketAddr;

use clap::{Args, Subcommand};

use super::{ClientSideArgs, ServerSideArgs};

/// Find out why nothing is saved here, and what to do about it
///
/// Looks at what a proxy needs on this machine and at what the running one has counted: link,
/// privileges, kernel, firewall, key, store, clock, the other proxy, the connections that pass.
/// Each line is `ok`, a `warning` or a `problem`, with what to do. It changes nothing, and sends
/// nothing over the link unless `--probe` is given.
///
/// Name the side and its settings, as the proxy itself is told them. Without a side, it asks the
/// proxies that run here and looks at what they have counted.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// One JSON object, for programs
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Try to reach the other proxy (client side of tunnel mode); at most 17 kB over the link
    ///
    /// A small packet, then one handshake of the tunnel: about 6 kB where the other proxy answers.
    /// Not done while the running proxy has a tunnel: then it is known to be reached.
    #[arg(long, global = true)]
    pub(crate) probe: bool,

    /// Admin address of the proxy that runs, where no side is named [default: 127.0.0.1:9470 and
    /// 127.0.0.1:9471]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) admin: Option<SocketAddr>,

    #[command(subcommand)]
    pub(crate) side: Option<DoctorSide>,
}

/// Whose settings are looked at.
#[derive(Debug, Subcommand)]
pub(crate) enum DoctorSide {
    /// Look at a client side with these settings
    #[command(mut_arg("dry_run", |arg| arg.hide(true)))]
    ClientSide(Box<ClientSideArgs>),
    /// Look at a server side with these settings
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
