//! `tandem-measure`: what TLS costs at a server, which `tandem measure` starts. Reads arguments,
//! calls the library, ends with one of the exit codes of `docs/exit-codes.md`.
//!
//! Invariants: standard output carries results only, progress goes to a terminal on standard error.
//! A failure is one line on standard error.
#![forbid(unsafe_code)]

mod cli;
mod exit;
mod run;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    exit::report(match cli::Cli::try_parse() {
        Ok(cli) => run::run(&cli),
        Err(error) => exit::refuse(&error),
    })
}
