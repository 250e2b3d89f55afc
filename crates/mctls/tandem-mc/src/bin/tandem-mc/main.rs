//! `tandem-mc`: multi-context TLS for people, which `tandem mc` starts. Reads arguments, calls the
//! library, ends with one of the exit codes of `docs/exit-codes.md`.
//!
//! Invariants: standard output carries results only; a failure is one line on standard error,
//! behind the table of the session if there was one.
#![forbid(unsafe_code)]

mod cli;
mod exit;
mod run;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    exit::report(match cli::Cli::try_parse() {
        Ok(cli) => run::run(cli.command),
        Err(error) => exit::refuse(&error),
    })
}
