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
/// other side, over an encrypted and authenticated TCP connection. Then both sides have the same
/// key, and settings for tunnel mode. The invitation works once, and only while this command waits;
/// afterwards it is worthless. Until then it is a secret: send it over a channel that you trust. If
/// there is a key file already, its key is used.
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
  For packet mode, which needs only the key
    tandem pair invite --address 192.0.2.1 --key-only

Then start both:
    tandem server-side --config /etc/tandem/tunnel-server-side.toml
    tandem client-side --config /etc/tandem/tunnel-client-side.toml

Open the port towards the other side, UDP and TCP: this command uses TCP, the
tunnel UDP, or TCP where UDP is blocked.")]
pub(crate) struct InviteArgs {
    /// How the other side reaches this machine: a name or an address, and the port if it differs
    /// from that of --listen
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) address: String,

    /// Address of the tunnel; this command waits on the same port, by TCP [default: from the
    /// settings file, or 0.0.0.0:4433]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<SocketAddr>,

    /// Wait on this TCP port instead, if that of --listen is in use, for instance by the server
    /// side
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) tcp_port: Option<u16>,

    /// How long the invitation is valid
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..=1440))]
    pub(crate) minutes: u16,

    #[command(flatten)]
    pub(crate) files: FileArgs,
}

/// Use an invitation (on the client side)
///
/// Fetches the key from the server side, where `tandem pair invite` waits, and writes the key and
/// the settings for tunnel mode. It asks for the invitation, or reads it from standard input, so
/// that it appears neither in the shell's history nor in the list of processes.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  As root; writes /etc/tandem/key and /etc/tandem/tunnel-client-side.toml
    tandem pair accept
  From a file
    tandem pair accept <invitation.txt
  For packet mode, which needs only the key
    tandem pair accept --key-only

An existing settings file keeps all its other lines. The settings get the
address that answered: if the other side's address changes, change `peer` there.")]
pub(crate) struct AcceptArgs {
    /// The invitation, a secret until it is used; other users of this machine can see arguments
    #[arg(value_name = "INVITATION")]
    pub(crate) invitation: Option<String>,

    /// Replace the key and the peer of a side that is already paired
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) files: FileArgs,
}

/// What is written, on either side.
#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// Key file [default: from the settings file, or /etc/tandem/key]
    ///
    /// For users other than root, the default is in ~/.config/tandem.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,

    /// Settings file [default: /etc/tandem/tunnel-ROLE.toml]
    ///
    /// For users other than root, the default is in ~/.config/tandem.
    #[arg(long, value_name = "FILE", conflicts_with = "key_only")]
    pub(crate) config: Option<PathBuf>,

    /// Transfer only the key, without settings, for packet mode
    #[arg(long)]
    pub(crate) key_only: bool,

    /// Print results as JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}
