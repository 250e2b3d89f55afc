//! A row of `mctls.jsonl`: one trial of one protocol, or one batch of connections, and what it
//! took.
//!
//! Is not: what follows from rows; see `mctls`.

use serde::{Deserialize, Serialize};

/// The file of such rows.
pub const ROWS: &str = "mctls.jsonl";

/// What a row belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum McPart {
    /// Bytes until data may be sent: figure 8.
    Handshake,
    /// Seconds until the first byte of the answer: figure 3.
    FirstByte,
    /// Files by link and size: figure 7.
    Transfer,
    /// Whole pages: figures 4 and 6.
    Page,
    /// Bytes that records add to a page: section 5.2.
    Overhead,
    /// Processor time for a connection that carries nothing: figure 5.
    Connections,
    /// A large transfer through a middlebox that reads.
    Bulk,
    /// Lines by which two programs differ: section 5.4.
    Lines,
}

impl McPart {
    /// In the order in which they are measured.
    pub const ALL: [McPart; 8] = [
        McPart::Handshake,
        McPart::FirstByte,
        McPart::Transfer,
        McPart::Page,
        McPart::Overhead,
        McPart::Connections,
        McPart::Bulk,
        McPart::Lines,
    ];

    /// As files and the command line say it.
    pub fn name(self) -> &'static str {
        match self {
            McPart::Handshake => "handshake",
            McPart::FirstByte => "first-byte",
            McPart::Transfer => "transfer",
            McPart::Page => "page",
            McPart::Overhead => "overhead",
            McPart::Connections => "connections",
            McPart::Bulk => "bulk",
            McPart::Lines => "lines",
        }
    }
}

/// The protocols that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum McArm {
    /// Multi-context TLS on TLS 1.3.
    Mctls13,
    /// The paper's own protocol.
    Mctls12,
    /// Middleboxes that end TLS on both sides.
    SplitTls,
    /// TLS 1.3 from end to end; middleboxes pass it on blindly.
    EndToEndTls,
    /// TCP alone.
    None,
}

impl McArm {
    /// In the order of tables.
    pub const ALL: [McArm; 5] = [
        McArm::Mctls13,
        McArm::Mctls12,
        McArm::SplitTls,
        McArm::EndToEndTls,
        McArm::None,
    ];

    /// What readers call it.
    pub fn label(self) -> &'static str {
        match self {
            McArm::Mctls13 => "mctls13",
            McArm::Mctls12 => "mctls12",
            McArm::SplitTls => "split TLS",
            McArm::EndToEndTls => "end-to-end TLS",
            McArm::None => "no encryption",
        }
    }

    /// Whether it divides its data into contexts.
    pub fn has_contexts(self) -> bool {
        match self {
            McArm::Mctls13 | McArm::Mctls12 => true,
            McArm::SplitTls | McArm::EndToEndTls | McArm::None => false,
        }
    }
}

/// How HTTP is divided among contexts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// All in one.
    One,
    /// Headers and bodies of requests and responses.
    Four,
    /// One for each header, one for each body.
    EachHeader,
}

impl Strategy {
    /// In the order of tables.
    pub const ALL: [Strategy; 3] = [Strategy::One, Strategy::Four, Strategy::EachHeader];

    /// What readers call it.
    pub fn label(self) -> &'static str {
        match self {
            Strategy::One => "one context",
            Strategy::Four => "four contexts",
            Strategy::EachHeader => "a context per header",
        }
    }
}

/// One trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McRow {
    /// What it belongs to.
    pub part: McPart,
    /// The protocol.
    pub arm: McArm,
    /// Each of the links between client, middleboxes and server.
    pub link: String,
    /// Middleboxes on the path.
    pub middleboxes: u32,
    /// Contexts; 1 where the protocol has none.
    pub contexts: u32,
    /// How a page is divided among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// Counted from 0; of pages, which page.
    pub trial: u32,
    /// Connections in this row.
    pub connections: u32,
    /// Bytes that the application was to get from the other side, and did; of pages, both ways.
    pub bytes: u64,
    /// From the client's connect to the end of what is measured; of batches, all connections
    /// together.
    pub seconds: f64,
    /// Bytes of TCP payload on the client's link from the client, as the link saw them.
    pub stream_up: u64,
    /// Likewise, to the client.
    pub stream_down: u64,
    /// IP bytes on the client's link, both ways.
    pub link_bytes: u64,
    /// Processor time of the client, microseconds.
    pub client_us: u64,
    /// Of the first middlebox.
    pub middlebox_us: u64,
    /// Of the server.
    pub server_us: u64,
    /// Lines that have to be added to and taken out of a program that speaks plain TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<Lines>,
    /// Whether it succeeded, with every byte as it was sent.
    pub ok: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// By which lines two programs differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lines {
    /// What the programs do.
    pub program: String,
    /// Lines of the one that speaks plain TLS, without comments and empty ones.
    pub of: u32,
    /// Lines that only the other has.
    pub added: u32,
    /// Lines that only the first has.
    pub removed: u32,
}

impl McRow {
    /// Bytes of TCP payload on the client's link, both ways.
    pub fn stream(&self) -> u64 {
        self.stream_up + self.stream_down
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_the_names_that_rows_have() {
        for part in McPart::ALL {
            let in_rows = serde_json::to_value(part).unwrap_or_default();
            assert_eq!(in_rows.as_str(), Some(part.name()));
        }
    }
}
