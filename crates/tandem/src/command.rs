//! What each command does: thin calls into the crates that know how.

mod keygen;

use std::process::ExitCode;

use crate::cli::Command;
use crate::exit::Failure;

/// Carries out a command. The exit code is the command's own where it ran another program, 0 otherwise.
///
/// # Errors
/// Whatever kept it from being done.
pub(crate) fn run(command: Command) -> Result<ExitCode, Failure> {
    let done = |()| ExitCode::SUCCESS;
    match command {
        Command::ClientSide(_) | Command::ServerSide(_) => {
            Err(Failure::Usage("not yet".to_owned()))
        }
        Command::Keygen(arguments) => keygen::run(&arguments).map(done),
        Command::Status(_) => Err(Failure::Usage("not yet".to_owned())),
        Command::Store(_) => Err(Failure::Usage("not yet".to_owned())),
        Command::Estimate(_) => Err(Failure::Usage("not yet".to_owned())),
        Command::Lab(_) => Err(Failure::Usage("not yet".to_owned())),
    }
}
