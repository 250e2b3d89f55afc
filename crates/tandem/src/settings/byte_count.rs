//! Numbers of bytes as people write them: `1500`, `500k`, `50M`, `1.5G`; and limits by network in
//! the settings file: `[[limits]]`.
//!
//! Is not: what is done with them.

use std::str::FromStr;

use serde::Deserialize;
use tandem_tunnel::Exception;

use super::link_rate::scaled;

/// Bytes, of which `k` is 1,000, `M` 1,000,000 and `G` 1,000,000,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub(crate) struct ByteCount(pub(crate) u64);

/// In the file: a number, or a text with a suffix.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "not a number of bytes, such as 500000 or \"50M\""
)]
enum Written {
    Number(u64),
    Text(String),
}

impl TryFrom<Written> for ByteCount {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Number(number) => Ok(Self(number)),
            Written::Text(text) => text.parse(),
        }
    }
}

impl FromStr for ByteCount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        scaled(text, "kMG")
            .map(Self)
            .ok_or_else(|| "not a number of bytes, such as 500000, 50M or 1.5G".to_owned())
    }
}

/// The limit of a network's clients.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "WrittenLimit")]
pub(crate) struct LimitTable(pub(crate) Exception);

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct WrittenLimit {
    from: String,
    bytes: ByteCount,
}

impl TryFrom<WrittenLimit> for LimitTable {
    type Error = String;

    fn try_from(written: WrittenLimit) -> Result<Self, String> {
        let exception = Exception::new(&written.from, written.bytes.0);
        exception.map(Self).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_as_people_write_them() {
        for (text, expected) in [
            ("0", 0),
            ("1500", 1_500),
            ("500k", 500_000),
            ("50M", 50_000_000),
            ("1.5G", 1_500_000_000),
        ] {
            assert_eq!(text.parse(), Ok(ByteCount(expected)), "{text}");
        }
        for text in [
            "",
            "M",
            "-1",
            "1.5",
            "50MB",
            "50 M",
            "50m",
            "20000000000G",
            "é",
        ] {
            assert!(text.parse::<ByteCount>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_limit_has_a_network_and_bytes() {
        let read = |text: &str| {
            let read = toml::from_str::<LimitTable>(text);
            read.map(|table| table.0)
                .map_err(|error| error.message().to_owned())
        };
        let expected = Exception::new("10.0.0.0/8", 50_000_000).expect("a network");
        assert_eq!(read("from = \"10.0.0.0/8\"\nbytes = \"50M\""), Ok(expected));
        for (text, part) in [
            ("from = \"10.0.0.0/8\"", "`bytes`"),
            ("bytes = 5", "`from`"),
            ("from = \"10.0.0.1/8\"\nbytes = 5", "`10.0.0.1/8`"),
            ("from = \"10.0.0.1\"\nbytes = \"much\"", "a number of bytes"),
            ("from = \"10.0.0.1\"\nbytes = 5\nper = \"day\"", "`per`"),
        ] {
            let problem = read(text).expect_err(text);
            assert!(problem.contains(part), "{text}: {problem}");
        }
    }
}
