//! What could not be read, and why: part of every trace, so that no figure made of it looks more
//! complete than it is.
//!
//! Not errors: an error is when there is no report at all. Invariant: the log is bounded; entries
//! beyond the bound are counted.

use std::fmt;

use serde::Serialize;

/// Damage to the file that is listed entry by entry. A file with more of it is told as "and so on".
const MAX_FILE_ENTRIES: usize = 64;

/// One thing that could not be read. Offsets are bytes from the start of the capture, decompressed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Damage {
    /// The file ends inside a header, record or block.
    Cut {
        /// Where the incomplete part starts.
        at: u64,
        /// Bytes that are missing at least.
        missing: u64,
    },
    /// The compressed file is broken or cut.
    Compression {
        /// Where the capture stops.
        at: u64,
        /// What the decompressor said.
        reason: String,
    },
    /// The environment: reading failed in the middle.
    ReadFailed {
        /// Where the capture stops.
        at: u64,
        /// What the system said.
        reason: String,
    },
    /// Bytes that are no record; reading went on at the next place that looks like one.
    Garbage {
        /// Where they start.
        at: u64,
        /// How many were passed over.
        skipped: u64,
    },
    /// A block that is framed well and makes no sense.
    BadBlock {
        /// Where it starts.
        at: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// More damage to the file than is listed.
    More {
        /// How much more.
        entries: u64,
    },
    /// Packets with a link type that is not read.
    LinkType {
        /// Its number in the registry of link types.
        number: u16,
        /// Its name there, or "unknown".
        name: &'static str,
        /// Packets passed over.
        packets: u64,
    },
    /// Packets that may hold others, inside a tunnel or a tag that is not read.
    Unread {
        /// What they are inside of, for people.
        inside: &'static str,
        /// Packets passed over.
        packets: u64,
    },
    /// Packets of which only the first bytes were captured (snap length). What is there was used.
    SnapLength {
        /// How many.
        packets: u64,
    },
    /// IP fragments, passed over.
    Fragments {
        /// How many.
        packets: u64,
    },
    /// Packets with impossible IP or TCP headers, passed over.
    Malformed {
        /// How many.
        packets: u64,
    },
    /// Handshakes with bytes missing in the middle: read as far as the gap.
    Gaps {
        /// How many connections.
        connections: u64,
    },
    /// Connections that sent the same range twice with different bytes: read as far as that.
    Conflicts {
        /// How many connections.
        connections: u64,
    },
    /// Handshakes that stop being TLS or break its syntax: read as far as that.
    NotTls {
        /// How many connections.
        connections: u64,
    },
    /// Handshakes larger than is held for one connection: read as far as that.
    TooLarge {
        /// How many connections.
        connections: u64,
    },
    /// Unfinished connections given up, oldest first, because more were open than are tracked.
    GivenUp {
        /// How many connections.
        connections: u64,
    },
    /// Sites beyond the number that is told apart; their figures are in one row.
    SitesLumped {
        /// Handshakes counted there.
        handshakes: u64,
    },
    /// More chains than are told apart: later ones count as different each time.
    StoreFull {
        /// How often one counted so.
        chains: u64,
    },
}

/// What a piece of damage touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DamageClass {
    /// The file: whatever the lost part held is not in the report.
    File,
    /// Single packets; the file itself is sound.
    Packets,
    /// Single connections; every packet was read.
    Connections,
    /// Nothing was lost, but a limit of this program made figures coarser.
    Limits,
}

impl Damage {
    /// What it touches.
    #[must_use]
    pub fn class(&self) -> DamageClass {
        match self {
            Self::Cut { .. }
            | Self::Compression { .. }
            | Self::ReadFailed { .. }
            | Self::Garbage { .. }
            | Self::BadBlock { .. }
            | Self::More { .. } => DamageClass::File,
            Self::LinkType { .. }
            | Self::Unread { .. }
            | Self::SnapLength { .. }
            | Self::Fragments { .. }
            | Self::Malformed { .. } => DamageClass::Packets,
            Self::Gaps { .. } | Self::Conflicts { .. } | Self::NotTls { .. } => {
                DamageClass::Connections
            }
            Self::TooLarge { .. }
            | Self::GivenUp { .. }
            | Self::SitesLumped { .. }
            | Self::StoreFull { .. } => DamageClass::Limits,
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { at, missing } => write!(
                f,
                "the file ends inside a record that starts at byte {at} ({} missing)",
                counted(*missing, "byte")
            ),
            Self::Compression { at, reason } => {
                write!(
                    f,
                    "the compressed file breaks off after {at} bytes of capture: {reason}"
                )
            }
            Self::ReadFailed { at, reason } => {
                write!(f, "reading failed after {at} bytes of capture: {reason}")
            }
            Self::Garbage { at, skipped } => {
                write!(
                    f,
                    "{} at byte {at} are no record: passed over",
                    counted(*skipped, "byte")
                )
            }
            Self::BadBlock { at, reason } => {
                write!(f, "the block at byte {at} was passed over: {reason}")
            }
            Self::More { entries } => write!(f, "and {entries} more places in the file"),
            Self::LinkType {
                number,
                name,
                packets,
            } => write!(
                f,
                "{} of link type {number} ({name}), which is not read",
                counted(*packets, "packet")
            ),
            Self::Unread { inside, packets } => write!(
                f,
                "{} of {inside}: TLS inside is neither read nor counted",
                counted(*packets, "packet")
            ),
            Self::SnapLength { packets } => write!(
                f,
                "{} captured only in part (snap length): bytes after the cut are unknown",
                counted(*packets, "packet")
            ),
            Self::Fragments { packets } => {
                write!(f, "{} passed over", counted(*packets, "IP fragment"))
            }
            Self::Malformed { packets } => {
                write!(
                    f,
                    "{} with impossible headers passed over",
                    counted(*packets, "packet")
                )
            }
            Self::Gaps { connections } => write!(
                f,
                "{} with bytes missing in the middle: read as far as the gap",
                counted(*connections, "handshake")
            ),
            Self::Conflicts { connections } => write!(
                f,
                "{} repeated a range with different bytes: read as far as that",
                counted(*connections, "connection")
            ),
            Self::NotTls { connections } => write!(
                f,
                "{} broke TLS's syntax half-way: read as far as that",
                counted(*connections, "handshake")
            ),
            Self::TooLarge { connections } => write!(
                f,
                "{} larger than is held for one connection: read as far as that",
                counted(*connections, "handshake")
            ),
            Self::GivenUp { connections } => write!(
                f,
                "{} given up: more were open at once than are tracked",
                counted(*connections, "unfinished connection")
            ),
            Self::SitesLumped { handshakes } => write!(
                f,
                "{} with further sites, which share one row",
                counted(*handshakes, "handshake")
            ),
            Self::StoreFull { chains } => write!(
                f,
                "{} beyond those that are told apart: counted as different each time",
                counted(*chains, "chain")
            ),
        }
    }
}

fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Collects damage while a capture is read.
#[derive(Debug, Default)]
pub(crate) struct DamageLog {
    file: Vec<Damage>,
    beyond: u64,
    counted: Vec<Damage>,
}

impl DamageLog {
    /// Notes damage to the file, in the order met.
    pub(crate) fn file(&mut self, damage: Damage) {
        if self.file.len() < MAX_FILE_ENTRIES {
            self.file.push(damage);
        } else {
            self.beyond += 1;
        }
    }

    /// Notes damage that was counted elsewhere; `count` zero means there was none.
    pub(crate) fn counted(&mut self, count: u64, damage: impl FnOnce(u64) -> Damage) {
        if count > 0 {
            self.counted.push(damage(count));
        }
    }

    /// All of it: the file's first, then what was counted.
    pub(crate) fn into_list(self) -> Vec<Damage> {
        let mut list = self.file;
        if self.beyond > 0 {
            list.push(Damage::More {
                entries: self.beyond,
            });
        }
        list.extend(self.counted);
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_bounded() {
        let mut log = DamageLog::default();
        for at in 0..100 {
            log.file(Damage::Garbage { at, skipped: 1 });
        }
        log.counted(0, |packets| Damage::Fragments { packets });
        log.counted(3, |packets| Damage::Fragments { packets });
        let list = log.into_list();
        assert_eq!(list.len(), MAX_FILE_ENTRIES + 2);
        assert_eq!(list[MAX_FILE_ENTRIES], Damage::More { entries: 36 });
        assert_eq!(
            list[MAX_FILE_ENTRIES + 1].to_string(),
            "3 IP fragments passed over"
        );
    }

    #[test]
    fn damage_is_told_in_words_and_classes() {
        let table = [
            (
                Damage::Cut { at: 40, missing: 1 },
                DamageClass::File,
                "the file ends inside a record that starts at byte 40 (1 byte missing)",
            ),
            (
                Damage::LinkType {
                    number: 105,
                    name: "IEEE802_11",
                    packets: 2,
                },
                DamageClass::Packets,
                "2 packets of link type 105 (IEEE802_11), which is not read",
            ),
            (
                Damage::Gaps { connections: 1 },
                DamageClass::Connections,
                "1 handshake with bytes missing in the middle: read as far as the gap",
            ),
            (
                Damage::GivenUp { connections: 2 },
                DamageClass::Limits,
                "2 unfinished connections given up: more were open at once than are tracked",
            ),
        ];
        for (damage, class, text) in table {
            assert_eq!(damage.class(), class);
            assert_eq!(damage.to_string(), text);
        }
        let json = serde_json::to_string(&Damage::Cut { at: 1, missing: 2 })
            .expect("the test's own input");
        assert_eq!(json, r#"{"kind":"cut","at":1,"missing":2}"#);
    }
}
