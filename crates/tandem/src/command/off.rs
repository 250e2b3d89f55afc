//! `tandem off`: stops the proxies and removes what they left.

use std::fmt::Write as _;

use tandem_packet_io::off::{self, Ending};

use crate::exit::Failure;
use crate::output;

pub(crate) fn run() -> Result<(), Failure> {
    let done = off::off()?;
    let mut text = String::new();
    for stopped in &done.stopped {
        let how = match stopped.ending {
            Ending::Asked => "stopped",
            Ending::Killed => "did not stop and was killed",
            Ending::Runs => "could not be stopped",
        };
        let process = match stopped.pid {
            Some(pid) => format!("process {pid}"),
            None => "of an unknown process".to_owned(),
        };
        writeln!(text, "{} ({process}) {how}", stopped.name)
            .expect("a String takes whatever is written to it");
    }
    for (program, chain) in &done.removed {
        writeln!(text, "{program}: took the rules of {chain} away")
            .expect("a String takes whatever is written to it");
    }
    for (family, table) in &done.unlisted {
        let (program, table) = (family.program(), table.name());
        writeln!(
            text,
            "{program} does not show the table {table}, which has rules that were made with nft: \
             look there for chains of tandem- (`nft list ruleset`)"
        )
        .expect("a String takes whatever is written to it");
    }
    if text.is_empty() && done.failures.is_empty() {
        text.push_str("no proxy runs here, and none has left rules\n");
    }
    let mut failures = done.failures.into_iter();
    let failure = failures.next();
    for another in failures {
        writeln!(text, "{another}").expect("a String takes whatever is written to it");
    }
    // Any program may take a lock, by a name of its own.
    output::print(&output::harmless(&text))?;
    match failure {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}
