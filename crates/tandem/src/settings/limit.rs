//! Limits by network in the settings file: `[[limits]]`.
//!
//! Is not: what is done with them.

use serde::Deserialize;
use tandem_tunnel::{ByteCount, Exception};

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
