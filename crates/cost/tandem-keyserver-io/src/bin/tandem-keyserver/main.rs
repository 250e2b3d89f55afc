//! `tandem-keyserver`: signs handshakes for web servers that hold no private key, which `tandem
//! keyserver` starts. Reads arguments, calls the library, ends with one of the exit codes of
//! `docs/exit-codes.md`.
//!
//! Invariants: standard output carries results only. A failure is one line on standard error.
#![forbid(unsafe_code)]

mod cli;
mod exit;

use std::io::Write as _;
use std::process::ExitCode;

use tandem_channel::ChannelKey;
use tandem_daemon::{logging, runtime};
use tandem_keyserver_io::{KeyServerError, Loaded, Options};

use cli::Cli;
use exit::Failure;

fn main() -> ExitCode {
    match tandem_cli::parse::<Cli>() {
        Ok(cli) => exit::report(run(cli)),
        Err(code) => code,
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    logging::start(cli.log.as_deref(), cli.log_format.as_deref())?;
    if let Some(path) = &cli.channel_key {
        let key = ChannelKey::kept_in(path).map_err(KeyServerError::from)?;
        return print(&format!("{}\n", key.name()));
    }
    // Clap has seen to it that there is one.
    let config = cli.config.unwrap_or_default();
    let Some(listen) = cli.listen else {
        return print(&Loaded::of_file(&config)?.summary());
    };
    let options = Options {
        listen,
        config,
        admin: cli.admin,
    };
    runtime::run(async {
        tandem_keyserver_io::run(options, |address, key| {
            // Whoever does not read it knows the address already.
            let _ = print(&format!("ready {address} {key}\n"));
        })
        .await
        .map_err(Failure::from)
    })
}

fn print(text: &str) -> Result<(), Failure> {
    let mut output = std::io::stdout().lock();
    output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
        .map_err(Failure::Output)
}
