//! The arguments: every command, flag and help text, as clap reads them.
//!
//! Is not: their meaning. A value is checked here only where its form alone decides (a number, a
//! choice); what needs the settings file or the machine is checked by the crate that uses it.
//!
//! Invariant: `--help` of every command is pinned by a snapshot (`tests/cli/help.rs`).

mod daemon;
mod doctor;
mod estimate;
mod generate;
mod keygen;
mod keyserver;
mod keytap;
mod lab;
mod mc;
mod measure;
mod off;
mod pair;
mod split;
mod status;
mod store;
mod top;

pub(crate) use daemon::{
    ClientSideArgs, CommonArgs, LineArgs, PacketArgs, ServerSideArgs, TuningArgs,
};
pub(crate) use doctor::{DoctorArgs, DoctorSide};
pub(crate) use estimate::EstimateArgs;
pub(crate) use generate::{CompletionsArgs, ManArgs};
pub(crate) use keygen::KeygenArgs;
pub(crate) use keyserver::KeyserverArgs;
pub(crate) use keytap::KeytapArgs;
pub(crate) use lab::LabArgs;
pub(crate) use mc::McArgs;
pub(crate) use measure::MeasureArgs;
pub(crate) use off::OffArgs;
pub(crate) use pair::{AcceptArgs, FileArgs, InviteArgs, PairCommand};
pub(crate) use split::{
    BrokerArgs, NameArgs, OriginArgs, Sharing, SplitCheckArgs, SplitCommand, SplitDemoArgs,
    SplitLogging, VolunteerArgs,
};
pub(crate) use status::StatusArgs;
pub(crate) use store::{
    ExportFormat, PurgeChoice, StoreCommand, StoreExportArgs, StoreImportArgs, StoreLsArgs,
    StorePurgeArgs, StoreShowArgs,
};
pub(crate) use top::TopArgs;

use clap::{Parser, Subcommand};

/// Makes TLS cheap on links where bytes are expensive, and never breaks its end-to-end security.
///
/// Two proxies, one on each side of a slow or paid-by-the-byte link, replace handshake bytes that
/// the far side already holds (certificates above all) by short references, and put the exact bytes
/// back. Clients and servers are not changed and cannot tell; application data is never decrypted.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, after_long_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Where to start:
  What would Tandem save on your own traffic? (no root, no set-up)
    tandem estimate capture.pcapng
  See it work, in the source tree: an emulated satellite link, real programs (root)
    make demo

To run it, one proxy on each side of the link (root):
    tandem keygen /etc/tandem/key      # then copy the file to the other side
    tandem client-side --key /etc/tandem/key --link ppp0 --dry-run
    tandem client-side --key /etc/tandem/key --link ppp0
    tandem server-side --key /etc/tandem/key --link eth1    # on the other side

Without root, for programs with a proxy setting (tunnel mode):
    tandem pair invite --address 192.0.2.1      # on the servers' side
    tandem pair accept                          # on the clients' side
  Both name the files that they wrote, and the command to start with.

Exit codes:
  0 done                          3 missing privilege or kernel feature
  1 failed at run time            4 in use: queue, port, store or lock
  2 usage or configuration        5 damaged input";

/// What is to be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(about = daemon::CLIENT_SIDE, long_about = daemon::CLIENT_SIDE_LONG, after_long_help = daemon::CLIENT_SIDE_EXAMPLES)]
    ClientSide(Box<ClientSideArgs>),
    #[command(about = daemon::SERVER_SIDE, long_about = daemon::SERVER_SIDE_LONG, after_long_help = daemon::SERVER_SIDE_EXAMPLES)]
    ServerSide(Box<ServerSideArgs>),
    /// Give both proxies the same key, and settings for tunnel mode: one command on each side
    ///
    /// First `tandem pair invite` on the server side, then `tandem pair accept` on the client side
    /// while the first one waits.
    #[command(subcommand)]
    Pair(PairCommand),
    Keygen(KeygenArgs),
    Status(StatusArgs),
    Top(TopArgs),
    Doctor(DoctorArgs),
    Off(OffArgs),
    /// Inspect, fill, copy or empty a proxy's store of certificates
    ///
    /// A store keeps the certificates that passed, by their SHA-256, and which chains to expect
    /// from which server.
    #[command(subcommand)]
    Store(StoreCommand),
    Estimate(EstimateArgs),
    /// Serve a public site through untrusted volunteers (SSL splitting; no root)
    #[command(subcommand)]
    Split(SplitCommand),
    Keytap(KeytapArgs),
    Mc(McArgs),
    Measure(MeasureArgs),
    Keyserver(KeyserverArgs),
    Lab(LabArgs),
    Man(ManArgs),
    Completions(CompletionsArgs),
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
