//! The rate of a link as people write it: `2400`, `64k`, `1.5M`.
//!
//! Is not: a measured rate, nor what is done with it.
//!
//! Invariant: a [`LinkRate`] is at least one bit a second.

use std::num::NonZeroU64;
use std::str::FromStr;

use serde::Deserialize;
use tandem_tunnel::scaled;

/// Bits a second, of which `k` is 1,000 and `M` 1,000,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub(crate) struct LinkRate(NonZeroU64);

impl LinkRate {
    /// Bits a second.
    pub(crate) fn bits_per_second(self) -> NonZeroU64 {
        self.0
    }
}

/// In the file: a number, or a text with a suffix.
#[derive(Deserialize)]
#[serde(untagged, expecting = "not a rate in bit/s, such as 2400 or \"64k\"")]
enum Written {
    Number(u64),
    Text(String),
}

impl TryFrom<Written> for LinkRate {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Number(number) => number.to_string().parse(),
            Written::Text(text) => text.parse(),
        }
    }
}

impl FromStr for LinkRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        scaled(text, "kM")
            .and_then(NonZeroU64::new)
            .map(Self)
            .ok_or_else(|| "not a rate in bit/s, such as 2400, 64k or 1.5M".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_people_write_them() {
        for (text, expected) in [
            ("1", 1),
            ("2400", 2_400),
            ("64k", 64_000),
            ("1.5M", 1_500_000),
            ("0.5k", 500),
        ] {
            let rate: LinkRate = text.parse().expect(text);
            assert_eq!(rate.bits_per_second().get(), expected, "{text}");
        }
        for text in [
            "",
            "0",
            "k",
            "-1",
            "+1",
            "1.5",
            "1,5M",
            "64K",
            "1..5k",
            ".5k",
            "1e3",
            "18446744073709551616",
            "99999999999999999M",
            "0.00001k",
            "é",
        ] {
            assert!(text.parse::<LinkRate>().is_err(), "{text}");
        }
    }
}
