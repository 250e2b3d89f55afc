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

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};

use crate::exit::Failure;
use crate::output;

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
  Both say what they have written, and how to start.

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

/// What to do about arguments that clap does not take: help and version are printed, anything else
/// is one line.
pub(crate) fn refuse(error: &clap::Error, words: &[OsString]) -> Result<(), Failure> {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => output::print(&error.to_string()),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            eprint!("{error}");
            Err(Failure::Shown)
        }
        _ => {
            let words = words.iter().skip(1);
            let command = command_of(words.map(|word| word.to_string_lossy().into_owned()));
            Err(Failure::Usage(one_line(&error.to_string(), &command)))
        }
    }
}

/// Clap's paragraphs as one line that ends with the help to read: that of `command`.
fn one_line(rendered: &str, command: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    for paragraph in rendered.split("\n\n") {
        let text = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_hint = text.starts_with("Usage: ") || text.starts_with("For more information");
        if !text.is_empty() && !is_hint {
            let text = text
                .strip_prefix("error: ")
                .or(text.strip_prefix("tip: "))
                .unwrap_or(&text);
            parts.push(text.to_owned());
        }
    }
    format!("{} (see `{command} --help`)", parts.join("; "))
}

/// The command that these arguments use, `tandem store ls` for instance: not every error of clap's
/// names it.
fn command_of(arguments: impl Iterator<Item = String>) -> String {
    let mut name = "tandem".to_owned();
    let mut command = Cli::command();
    for word in arguments {
        if let Some(below) = command.find_subcommand(&word) {
            name = format!("{name} {word}");
            command = below.clone();
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(arguments: &[&str]) -> String {
        let error = Cli::try_parse_from(arguments).unwrap_err();
        let words = arguments.iter().skip(1).map(|&word| word.to_owned());
        one_line(&error.to_string(), &command_of(words))
    }

    #[test]
    fn the_arguments_hang_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_refusal_is_one_line_that_names_what_was_meant_and_where_help_is() {
        assert_eq!(
            refused(&["tandem", "client-side", "--lnk", "ppp0"]),
            "unexpected argument '--lnk' found; a similar argument exists: '--link' (see `tandem client-side --help`)"
        );
        assert_eq!(
            refused(&["tandem", "store", "lss"]),
            "unrecognized subcommand 'lss'; a similar subcommand exists: 'ls' (see `tandem store --help`)"
        );
        assert_eq!(
            refused(&["tandem", "estimate"]),
            "the following required arguments were not provided: <FILE> (see `tandem estimate --help`)"
        );
        let line = refused(&["tandem", "split", "volunteer", "--sharing", "nobody"]);
        assert!(line.starts_with("invalid value 'nobody'"), "{line}");
        assert!(
            line.ends_with("(see `tandem split volunteer --help`)"),
            "{line}"
        );
        let line = refused(&["tandem", "store", "export", "--format", "x"]);
        assert!(
            line.ends_with("(see `tandem store export --help`)"),
            "{line}"
        );
    }
}
