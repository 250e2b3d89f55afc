//! `tandem lab`: arguments become options, and `tandem-lab` does the work and prints.

use std::path::PathBuf;
use std::process::ExitCode;

use tandem_lab::{Captures, Effort, RunOptions};

use crate::cli::{LabCommand, RunArgs};
use crate::exit::Failure;
use crate::logging;

pub(crate) fn run(command: LabCommand) -> Result<ExitCode, Failure> {
    logging::start(Some("warn"), None)?;
    let done = |()| ExitCode::SUCCESS;
    match command {
        LabCommand::Run(arguments) => run_experiments(arguments).map(done),
        LabCommand::Demo(_)
        | LabCommand::Report(_)
        | LabCommand::Up(_)
        | LabCommand::Shell(_)
        | LabCommand::Down(_)
        | LabCommand::Link(_) => Err(Failure::Usage("not part of this build".to_owned())),
    }
}

fn run_experiments(arguments: RunArgs) -> Result<(), Failure> {
    let RunArgs {
        files,
        quick,
        out,
        links,
        endpoints,
        arms,
        trials,
        capture,
    } = arguments;
    for file in files {
        tandem_lab::run_experiment(&RunOptions {
            file,
            effort: if quick { Effort::Quick } else { Effort::Full },
            out: out.clone(),
            exe: this_program()?,
            links: links.clone(),
            endpoints: endpoints.clone(),
            arms: arms.clone(),
            trials,
            captures: if capture { Captures::On } else { Captures::Off },
        })?;
    }
    Ok(())
}

/// This very program: the lab starts it again as the daemons and as the link.
fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|source| Failure::file("the running program".as_ref(), source))
}
