//! Why nothing of a capture could be read. What could be read in part is a [`Trace`](crate::Trace)
//! with its damage, not an error.

use std::io;

use thiserror::Error;

/// Nothing of the input could be read as a capture. All variants but [`Read`](Self::Read) are
/// faults of the input.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The input holds no byte, or is a compressed file of nothing.
    #[error("the file is empty")]
    Empty,
    /// The first bytes are neither pcap, pcapng nor gzip. Up to the first four are given.
    #[error("not a capture: it starts with {}, pcap and pcapng files do not", hex(.found))]
    NotACapture {
        /// The input's first bytes, four at most.
        found: Vec<u8>,
    },
    /// The first bytes are those of a format that is known and not read.
    #[error("this is {name}, which is not read here; {remedy}")]
    OtherFormat {
        /// The format, for people.
        name: &'static str,
        /// What to do about it.
        remedy: &'static str,
    },
    /// The environment: reading failed before the first packet.
    #[error("reading failed at the start of the file: {0}")]
    Read(#[source] io::Error),
}

fn hex(bytes: &[u8]) -> String {
    let pairs: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_says_what_was_found_and_what_helps() {
        let table = [
            (TraceError::Empty, "the file is empty"),
            (
                TraceError::NotACapture {
                    found: vec![0x50, 0x4b, 3, 4],
                },
                "not a capture: it starts with 50 4b 03 04, pcap and pcapng files do not",
            ),
            (
                TraceError::OtherFormat {
                    name: "a Zstandard file",
                    remedy: "decompress it first",
                },
                "this is a Zstandard file, which is not read here; decompress it first",
            ),
            (
                TraceError::Read(io::Error::other("disk on fire")),
                "reading failed at the start of the file: disk on fire",
            ),
        ];
        for (error, text) in table {
            assert_eq!(error.to_string(), text);
        }
    }
}
