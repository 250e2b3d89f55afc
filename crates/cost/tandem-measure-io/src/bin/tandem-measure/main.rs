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

fn main() -> ExitCode {
    match tandem_cli::parse::<cli::Cli>() {
        Ok(cli) => exit::report(run::run(&cli)),
        Err(code) => code,
    }
}
