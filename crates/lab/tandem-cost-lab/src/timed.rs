//! Where the time of a server goes, by what `libtandem_cost_tap.so` has timed inside it.
//!
//! A look at the clock takes a fraction of a microsecond, and there are some hundred in a
//! connection: they are taken off. One timed call has one look's time in its own figure, and two in
//! the figures of what it lies in.

use std::fs;
use std::path::Path;

use tandem_report::cost_row::{CostArm, CostPhase, PhasesRow};
use tandem_testbed::LabError;

/// Bytes in front of the records, of a record, of a record's name.
const HEAD: usize = 32;
const RECORD: usize = 64;
const NAME: usize = 32;
/// How the names of libssl's calls begin; the others are phases within them.
const LIBRARY: &str = "in ";
/// Those that shake hands.
const HANDSHAKES: &str = "in handshakes";

/// One sum.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sum {
    name: String,
    nanos: u64,
    calls: u64,
    bytes: u64,
    /// Phases that were timed within.
    within: u64,
}

/// All sums at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Board {
    clock: u64,
    sums: Vec<Sum>,
}

impl Board {
    /// Reads the file that the library keeps.
    ///
    /// # Errors
    /// `Io`, `Command` where the library has not made it.
    pub(crate) fn read(path: &Path) -> Result<Self, LabError> {
        let bytes = fs::read(path).map_err(LabError::io("read what was timed"))?;
        Self::parse(&bytes).ok_or_else(|| LabError::Command {
            command: "libtandem_cost_tap.so".to_owned(),
            why: "it has written no board".to_owned(),
        })
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let number = |bytes: &[u8], at: usize| {
            let word = bytes.get(at..at + 8)?.try_into().ok()?;
            Some(u64::from_ne_bytes(word))
        };
        let records = bytes.strip_prefix(b"TNDMCOST").and(bytes.get(HEAD..))?;
        let sums = records.chunks_exact(RECORD).map(|record| {
            let name = String::from_utf8_lossy(&record[..NAME]);
            Some(Sum {
                name: name.trim_end_matches('\0').to_owned(),
                nanos: number(record, NAME)?,
                calls: number(record, NAME + 8)?,
                bytes: number(record, NAME + 16)?,
                within: number(record, NAME + 24)?,
            })
        });
        Some(Self {
            clock: number(bytes, 8)?,
            sums: sums.collect::<Option<_>>()?,
        })
    }

    /// What came since an earlier moment, for each connection; `server_us` is all processor time of
    /// the server in between.
    pub(crate) fn since(
        &self,
        before: &Self,
        arm: CostArm,
        connections: u64,
        server_us: f64,
    ) -> PhasesRow {
        let sums: Vec<Sum> = self
            .sums
            .iter()
            .zip(&before.sums)
            .map(|(after, before)| Sum {
                name: after.name.clone(),
                nanos: after.nanos.saturating_sub(before.nanos),
                calls: after.calls.saturating_sub(before.calls),
                bytes: after.bytes.saturating_sub(before.bytes),
                within: after.within.saturating_sub(before.within),
            })
            .collect();
        let all = connections.max(1) as f64;
        let micros =
            |nanos: u64, looks: u64| nanos.saturating_sub(looks * self.clock) as f64 / 1e3 / all;
        let in_library = || sums.iter().filter(|sum| sum.name.starts_with(LIBRARY));
        let library = |sum: &Sum| micros(sum.nanos, sum.calls + 2 * sum.within);
        let looks: u64 = in_library().map(|sum| 2 * (sum.calls + sum.within)).sum();
        let clock_us = self.clock as f64 / 1e3;
        PhasesRow {
            arm,
            connections,
            server_us: (server_us - looks as f64 * clock_us).max(0.0) / all,
            handshake_us: in_library()
                .filter(|sum| sum.name == HANDSHAKES)
                .map(library)
                .sum(),
            library_us: in_library().map(library).sum(),
            clock_us,
            phases: sums
                .iter()
                .filter(|sum| !sum.name.starts_with(LIBRARY))
                .map(|sum| CostPhase {
                    name: sum.name.clone(),
                    us: micros(sum.nanos, sum.calls),
                    calls: sum.calls as f64 / all,
                    bytes: sum.bytes as f64 / all,
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(records: &[(&str, [u64; 4])]) -> Vec<u8> {
        let mut bytes = b"TNDMCOST".to_vec();
        for number in [100, records.len() as u64, 0] {
            bytes.extend(number.to_ne_bytes());
        }
        for (name, numbers) in records {
            let mut record = name.as_bytes().to_vec();
            record.resize(NAME, 0);
            bytes.extend(record);
            bytes.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
        }
        bytes
    }

    #[test]
    fn looks_at_the_clock_are_taken_off_and_the_parts_are_the_whole() {
        let zero = file(&[("in handshakes", [0; 4]), ("private key", [0; 4])]);
        // Ten connections, each a handshake of 1,000 µs with one signature of 600 µs.
        let then = file(&[
            ("in handshakes", [10_003_000, 10, 0, 10]),
            ("private key", [6_001_000, 10, 0, 0]),
        ]);
        let [before, after] = [zero, then].map(|bytes| Board::parse(&bytes).unwrap());
        let arm = CostArm {
            server: "nginx".to_owned(),
            tls: Some("1.3".to_owned()),
            resumption: "none".to_owned(),
            reuse: 0,
            key: "RSA-2048".to_owned(),
            bytes: 1,
        };
        let row = after.since(&before, arm, 10, 12_004.0);
        assert!((row.handshake_us - 1_000.0).abs() < 1e-6, "{row:?}");
        assert!((row.library_us - 1_000.0).abs() < 1e-6, "{row:?}");
        assert!((row.phases[0].us - 600.0).abs() < 1e-6, "{row:?}");
        assert!((row.server_us - 1_200.0).abs() < 1e-6, "{row:?}");
        assert_eq!(row.phases.len(), 1);
    }

    #[test]
    fn what_is_no_board_is_none() {
        assert_eq!(Board::parse(b""), None);
        assert_eq!(Board::parse(b"TNDMCOST"), None);
        assert_eq!(Board::parse(&[0; 200]), None);
    }
}
