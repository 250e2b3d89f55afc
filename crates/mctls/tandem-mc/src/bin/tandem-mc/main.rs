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

fn main() -> ExitCode {
    match tandem_cli::parse::<cli::Cli>() {
        Ok(cli) => exit::report(run::run(cli.command)),
        Err(code) => code,
    }
}
