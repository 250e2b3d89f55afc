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
        };
        writeln!(text, "{} (process {}) {how}", stopped.name, stopped.pid)
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
    if text.is_empty() {
        text.push_str("no proxy runs here, and none has left rules\n");
    }
    output::print(&text)
}
