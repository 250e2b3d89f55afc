//! `tandem pair`: one command on each side.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What is to be done on this side.
#[derive(Debug, Subcommand)]
pub(crate) enum PairCommand {
    Invite(InviteArgs),
    Accept(AcceptArgs),
}

/// Invite the client side, and wait for it (on the server side)
///
/// Prints an invitation, one line of text, and waits until `tandem pair accept` has used it on the
/// other side: over TCP, encrypted, each side sure of the other. Then both sides have the same key,
/// and settings for tunnel mode. The invitation works once and only as long as this command waits:
/// whoever reads it later can do nothing with it. Until then it is a secret: carry it by a way that
/// you trust. Where there is a key file already, its key is carried.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  On the server side, as root; writes /etc/tandem/key and
  /etc/tandem/tunnel-server-side.toml
    tandem pair invite --address gw.example.net
  On the client side: it asks for the invitation
    tandem pair accept
  Without root, and with a port of your own
    tandem pair invite --address 192.0.2.1 --listen 0.0.0.0:5000
  For packet mode, which needs the key alone
    tandem pair invite --address 192.0.2.1 --key-only

Then start both:
    tandem server-side --config /etc/tandem/tunnel-server-side.toml
    tandem client-side --config /etc/tandem/tunnel-client-side.toml

Open, towards the other side: the port by TCP, for this command, and by UDP, for
the tunnel.")]
pub(crate) struct InviteArgs {
    /// How the other side reaches this machine: a name or an address, and the port where it is
    /// another than that of --listen
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) address: String,

    /// Where the tunnel will come; the same port is waited at by TCP now [default: what the
    /// settings file says, or 0.0.0.0:4433]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<SocketAddr>,

    /// Wait at this TCP port instead, where that of --listen is taken, as by a running server side
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) tcp_port: Option<u16>,

    /// How long the invitation works
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..=1440))]
    pub(crate) minutes: u16,

    #[command(flatten)]
    pub(crate) files: FileArgs,
}

/// Use an invitation (on the client side)
///
/// Fetches the key from the server side, where `tandem pair invite` waits for it, and writes it and
/// the settings for tunnel mode. It asks for the invitation, or reads it from standard input; so
/// it stands neither in the shell's history nor in the list of processes.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  As root; writes /etc/tandem/key and /etc/tandem/tunnel-client-side.toml
    tandem pair accept
  From a file
    tandem pair accept <invitation.txt
  For packet mode, which needs the key alone
    tandem pair accept --key-only

A settings file that is there keeps all its other lines. The settings get the
address that has answered: where the other side's changes, change `peer` there.")]
pub(crate) struct AcceptArgs {
    /// The invitation; until it is used, other users of this machine can see it here
    #[arg(value_name = "INVITATION")]
    pub(crate) invitation: Option<String>,

    /// Replace the key and the peer of a side that is paired already
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) files: FileArgs,
}

/// What is written, on either side.
#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// File of the key [default: what the settings file says, or /etc/tandem/key]
    ///
    /// Of other users than root, the default is in ~/.config/tandem.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,

    /// Settings file [default: /etc/tandem/tunnel-ROLE.toml]
    ///
    /// Of other users than root, the default is in ~/.config/tandem.
    #[arg(long, value_name = "FILE", conflicts_with = "key_only")]
    pub(crate) config: Option<PathBuf>,

    /// Carry the key and write no settings, for packet mode
    #[arg(long)]
    pub(crate) key_only: bool,

    /// Results as JSON, one object a line
    #[arg(long)]
    pub(crate) json: bool,
}
