//! What each command does: thin calls into the crates that know how.

mod daemon;
mod estimate;
mod generate;
mod keygen;
mod lab;
mod off;
mod split;
mod status;
mod store;

use std::process::ExitCode;

use tandem_packet_io::config::Role;

use crate::cli::Command;
use crate::exit::Failure;

/// Carries out a command.
///
/// # Errors
/// Whatever kept it from being done.
pub(crate) fn run(command: Command) -> Result<ExitCode, Failure> {
    let done = |()| ExitCode::SUCCESS;
    match command {
        Command::ClientSide(arguments) => daemon::run(Role::ClientSide, *arguments).map(done),
        Command::ServerSide(arguments) => daemon::run(Role::ServerSide, *arguments).map(done),
        Command::Keygen(arguments) => keygen::run(&arguments).map(done),
        Command::Status(arguments) => status::run(&arguments).map(done),
        Command::Off(_) => off::run().map(done),
        Command::Store(command) => store::run(command).map(done),
        Command::Estimate(arguments) => estimate::run(&arguments).map(done),
        Command::Split(command) => split::run(command).map(done),
        Command::Lab(arguments) => Err(lab::run(&arguments)),
        Command::Man(arguments) => generate::man(&arguments).map(done),
        Command::Completions(arguments) => generate::completions(&arguments).map(done),
    }
}
