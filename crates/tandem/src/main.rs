//! `tandem`: the command line. Reads arguments, calls the crates that do the work, ends with a
//! documented exit code.
//!
//! Is not: logic. What a flag means is decided where it is used (`tandem-packet-io`,
//! `tandem-estimate`, `tandem-store`); here it gets its name, its help and its place.
//!
//! Invariants: standard output carries results only, so that it can be piped; everything else goes
//! to standard error. A failure is one line that says what to do, and one of the exit codes of
//! [`exit`].
#![forbid(unsafe_code)]

mod cli;
mod command;
mod exit;
mod moment;
mod output;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let outcome = match cli::Cli::try_parse() {
        Ok(cli) => command::run(cli.command),
        Err(error) => cli::refuse(&error).map(|()| ExitCode::SUCCESS),
    };
    exit::report(outcome)
}
