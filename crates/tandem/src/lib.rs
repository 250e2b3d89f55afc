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

use clap::Parser as _;

use cli::{Cli, Command};
use exit::Failure;

/// What `tandem` does.
#[must_use]
pub fn proxies() -> ExitCode {
    exit::report(
        parse(std::env::args_os().collect()).and_then(|command| match command {
            Some(command) => command::run(command),
            None => Ok(ExitCode::SUCCESS),
        }),
    )
}

/// What `tandem-split` does: `tandem-split ARGUMENTS` is `tandem split ARGUMENTS`.
#[must_use]
pub fn splitting() -> ExitCode {
    let words = ["tandem", "split"].map(OsString::from).into_iter();
    let words = words.chain(std::env::args_os().skip(1));
    exit::report(parse(words.collect()).and_then(|command| match command {
        Some(Command::Split(command)) => command::split(command),
        Some(_) | None => Ok(ExitCode::SUCCESS),
    }))
}

/// The command that these words are; none where help or the version was asked for, and shown.
fn parse(words: Vec<OsString>) -> Result<Option<Command>, Failure> {
    match Cli::try_parse_from(&words) {
        Ok(cli) => Ok(Some(cli.command)),
        Err(error) => cli::refuse(&error, &words).map(|()| None),
    }
}
