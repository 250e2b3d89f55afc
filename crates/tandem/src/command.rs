//! What each command does: thin calls into the crates that know how.

mod daemon;
mod doctor;
mod estimate;
mod generate;
mod keygen;
mod off;
mod pair;
mod program;
mod split;
mod status;
mod store;
mod top;

use std::process::ExitCode;

use crate::cli::{Command, SplitCommand};
use crate::exit::Failure;

/// Carries out a command.
///
/// # Errors
/// Whatever kept it from being done.
pub(crate) fn run(command: Command) -> Result<ExitCode, Failure> {
    let done = |()| ExitCode::SUCCESS;
    match command {
        Command::ClientSide(arguments) => daemon::client_side(*arguments).map(done),
        Command::ServerSide(arguments) => daemon::server_side(*arguments).map(done),
        Command::Pair(command) => pair::run(command).map(done),
        Command::Keygen(arguments) => keygen::run(&arguments).map(done),
        Command::Status(arguments) => status::run(&arguments).map(done),
        Command::Top(arguments) => top::run(&arguments).map(done),
        Command::Doctor(arguments) => doctor::run(arguments).map(done),
        Command::Off(_) => off::run().map(done),
        Command::Store(command) => store::run(command).map(done),
        Command::Estimate(arguments) => estimate::run(&arguments).map(done),
        // It has been read to the end here already: a mistake is told without the other program.
        Command::Split(_) => Err(program::run(
            "tandem-split",
            "tandem",
            std::env::args_os().skip(2),
        )),
        Command::Mc(arguments) => Err(program::run("tandem-mc", "tandem-mc", arguments.arguments)),
        Command::Measure(arguments) => Err(program::run(
            "tandem-measure",
            "tandem-measure-io",
            arguments.arguments,
        )),
        Command::Keyserver(arguments) => Err(program::run(
            "tandem-keyserver",
            "tandem-keyserver-io",
            arguments.arguments,
        )),
        Command::Keytap(arguments) => Err(program::run(
            "tandem-keytap",
            "tandem-key-relay",
            arguments.arguments,
        )),
        Command::Lab(arguments) => Err(program::run(
            "tandem-lab",
            "tandem-lab",
            arguments.arguments,
        )),
        Command::Man(arguments) => generate::man(&arguments).map(done),
        Command::Completions(arguments) => generate::completions(&arguments).map(done),
    }
}

/// Carries out a command of `tandem-split`.
///
/// # Errors
/// Whatever kept it from being done.
pub(crate) fn split(command: SplitCommand) -> Result<ExitCode, Failure> {
    split::run(command).map(|()| ExitCode::SUCCESS)
}
