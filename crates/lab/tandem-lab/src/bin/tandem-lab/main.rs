//! `tandem-lab`: the lab's own program, which `tandem lab` starts. Reads arguments, calls the
//! library, ends with one of the exit codes of `docs/exit-codes.md`.
//!
//! Is not: part of an operator's installation. `tandem` stands beside it, or on the PATH, and is
//! what it starts as proxies.
//!
//! Invariants: standard output carries results only. A failure is one line on standard error.
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
