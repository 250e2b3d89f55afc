//! What happened in a world, one line a packet, for the reader of a failed test.

use std::collections::VecDeque;
use std::fmt;

use tandem_wire::clock::Instant;
use tandem_wire::packet::TcpPacket;
use tandem_wire::seq::Seq;
use tandem_wire::tcp::TcpOption;

use crate::element::Port;
use crate::layout::Layout;

/// Lines kept; older ones are forgotten and counted.
const MAX_LINES: usize = 5_000;

/// Lines printed: the last ones.
const MAX_LINES_PRINTED: usize = 400;

/// A packet that passed between two neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLine {
    /// When.
    pub at: Instant,
    /// Where: hop 0 is between the client's end and the first element.
    pub hop: usize,
    /// Where to: `Right` is towards the server.
    pub towards: Port,
    /// What: addresses, flags, numbers, length.
    pub summary: String,
}

impl fmt::Display for TraceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.at.as_micros();
        let arrow = match self.towards {
            Port::Left => "<-",
            Port::Right => "->",
        };
        write!(
            f,
            "{:>6}.{:06} hop {} {arrow} {}",
            micros / 1_000_000,
            micros % 1_000_000,
            self.hop,
            self.summary
        )
    }
}

/// The last lines of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    lines: VecDeque<TraceLine>,
    forgotten: u64,
}

impl Trace {
    pub(crate) fn push(&mut self, line: TraceLine) {
        if self.lines.len() == MAX_LINES {
            self.lines.pop_front();
            self.forgotten += 1;
        }
        self.lines.push_back(line);
    }

    /// The lines that are kept, oldest first.
    pub fn lines(&self) -> impl Iterator<Item = &TraceLine> {
        self.lines.iter()
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let skipped = self.lines.len().saturating_sub(MAX_LINES_PRINTED);
        let unprinted = self.forgotten + skipped as u64;
        if unprinted > 0 {
            writeln!(f, "({unprinted} earlier lines)")?;
        }
        for line in self.lines.iter().skip(skipped) {
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

/// A packet in one line.
pub fn summarise(packet: &[u8]) -> String {
    let segment = match TcpPacket::parse(packet) {
        Ok(segment) => segment,
        Err(reason) => {
            let protocol = Layout::of(packet).map(|layout| layout.protocol);
            return format!("{} bytes, protocol {protocol:?}: {reason}", packet.len());
        }
    };
    let mut line = format!(
        "{} > {} {:?} seq {}",
        segment.source(),
        segment.destination(),
        segment.flags(),
        segment.seq().0
    );
    if segment.ack() != Seq(0) {
        line += &format!(" ack {}", segment.ack().0);
    }
    line += &format!(" win {} len {}", segment.window(), segment.payload().len());
    for option in segment.options() {
        match option {
            TcpOption::Nop | TcpOption::EndOfList => {}
            TcpOption::Timestamps(t) => line += &format!(" ts {}/{}", t.value, t.echo),
            other => line += &format!(" {other:?}"),
        }
    }
    if !segment.checksums_valid() {
        line += " BAD CHECKSUM";
    }
    line
}
