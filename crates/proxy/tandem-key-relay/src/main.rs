//! `tandem-keytap`: what `tandem keytap` starts. Handshake keys of programs that cannot hand them
//! to their proxy themselves: because it is on another machine (`relay` and `receive`), or because
//! all that they have is a key log (`keylog`).
//!
//! Is not: the library that is loaded into programs (`tandem-keytap`, the crate), nor a proxy.
//!
//! Invariants:
//! - What leaves is key and IV of servers' handshake records: no secret, nothing of an application.
//! - Nobody waits: a key that cannot be passed on at once is dropped, and its handshake crosses as
//!   it is.
//! - Buffers that had keys or secrets in them are overwritten; the process leaves no core dump.
#![forbid(unsafe_code)]

mod cli;
mod counts;
mod failure;
mod frame;
mod key_log;
mod pair;
mod receive;
mod relay;

use std::process::ExitCode;

use tandem_daemon::{logging, runtime};

use cli::Command;
use failure::Failure;

fn main() -> ExitCode {
    match tandem_cli::parse::<cli::Cli>() {
        Ok(cli) => failure::report(run(&cli.command)),
        Err(code) => code,
    }
}

fn run(command: &Command) -> Result<(), Failure> {
    logging::start(None, None)?;
    // Nobody else of this user's looks into its memory, and a crash leaves none of it behind.
    nix::sys::prctl::set_dumpable(false).map_err(Failure::system("leaving no core dump"))?;
    match command {
        Command::Keylog(arguments) => runtime::run(key_log::run(arguments)),
        Command::Relay(arguments) => runtime::run(relay::run(arguments)),
        Command::Receive(arguments) => runtime::run(receive::run(arguments)),
    }
}
