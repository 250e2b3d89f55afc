//! The command line, of two programs: `tandem`, and `tandem-split`, which `tandem split` starts.
//! Reads arguments, calls the crates that do the work, ends with a documented exit code.
//!
//! Is not: logic. What a flag means is decided where it is used (`tandem-packet-io`,
//! `tandem-tunnel-io`, `tandem-estimate`, `tandem-store`); here it gets its name, its help and its
//! place.
//!
//! Invariants: standard output carries results only, so that it can be piped; everything else goes
//! to standard error. A failure is one line that says what to do, and one of the exit codes of
//! `exit`.
#![forbid(unsafe_code)]

mod cli;
mod command;
mod exit;
mod moment;
mod output;
mod settings;

use std::ffi::OsString;
use std::process::ExitCode;

use cli::{Cli, Command};

/// What `tandem` does.
#[must_use]
pub fn proxies() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    match tandem_cli::parse_from::<Cli>(&words) {
        Ok(cli) => exit::report(command::run(cli.command)),
        Err(code) => code,
    }
}

/// What `tandem-split` does: `tandem-split ARGUMENTS` is `tandem split ARGUMENTS`.
#[must_use]
pub fn splitting() -> ExitCode {
    let words = ["tandem", "split"].map(OsString::from).into_iter();
    let words: Vec<_> = words.chain(std::env::args_os().skip(1)).collect();
    match tandem_cli::parse_from::<Cli>(&words) {
        Ok(Cli {
            command: Command::Split(command),
        }) => exit::report(command::split(command)),
        Ok(_) => ExitCode::SUCCESS,
        Err(code) => code,
    }
}
