//! `tandem top`: a running proxy's figures in the terminal, new each second.
//!
//! Is not: a part of a proxy; it reads what the admin port shows.
//!
//! Invariant: the terminal is as before when it ends, also by a signal or a panic.

mod screen;
mod terminal;

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tandem_daemon::signals::Signals;
use tandem_packet_io::IoError;
use tandem_packet_io::status::{self, Status};

use super::status::default_addresses;
use crate::cli::TopArgs;
use crate::exit::Failure;
use crate::output;
use screen::{Size, Sorting};
use terminal::{Happened, Terminal};

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long a proxy may take to answer; keys wait meanwhile.
const PATIENCE: Duration = Duration::from_millis(800);

/// Of output that is no terminal.
const PLAIN: Size = Size {
    columns: 80,
    rows: usize::MAX,
};

pub(crate) fn run(arguments: &TopArgs) -> Result<(), Failure> {
    let addresses = match arguments.admin {
        Some(address) => vec![address],
        None => default_addresses().to_vec(),
    };
    let (address, first) = find(&addresses)?;
    if arguments.json {
        return output::print(&first.json());
    }
    if arguments.once {
        let mut lines = screen::lines(&first, PLAIN, Sorting::Saved);
        // There are no keys.
        lines.truncate(lines.len().saturating_sub(2));
        return output::print(&lines.join("\n"));
    }
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        let problem = "this is no terminal; --once or --json print the figures once";
        return Err(Failure::Usage(problem.to_owned()));
    }
    watch(address, first)
}

/// The first proxy that answers.
fn find(addresses: &[SocketAddr]) -> Result<(SocketAddr, Status), IoError> {
    let mut refused = None;
    for address in addresses {
        match status::fetch(*address, PATIENCE) {
            Ok(status) => return Ok((*address, status)),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or(IoError::Status {
        address: default_addresses()[0],
        reason: "nobody was asked".to_owned(),
    }))
}

fn watch(address: SocketAddr, first: Status) -> Result<(), Failure> {
    let signals = Signals::catch()?;
    let mut terminal = Terminal::take().map_err(Failure::Output)?;
    let (mut status, mut sorting) = (first, Sorting::Saved);
    let mut is_gone = false;
    let mut next = Instant::now() + INTERVAL;
    loop {
        let size = terminal.size();
        let mut lines = screen::lines(&status, size, sorting);
        if is_gone && let Some(last) = lines.last_mut() {
            let said = format!("No answer from {address}; these are the last figures. q: end");
            *last = screen::fitted(&said, size.columns);
        }
        terminal.show(&lines).map_err(Failure::Output)?;
        let left = next.saturating_duration_since(Instant::now());
        match terminal.wait(&signals, left).map_err(Failure::Output)? {
            Happened::Key(b'q') | Happened::AskedToEnd => return Ok(()),
            Happened::Key(b's') => sorting = sorting.next(),
            Happened::Key(_) | Happened::Nothing => {}
            Happened::TimeIsOver => {
                next = Instant::now() + INTERVAL;
                match status::fetch(address, PATIENCE) {
                    Ok(now) => (status, is_gone) = (now, false),
                    Err(_) => is_gone = true,
                }
            }
        }
    }
}
