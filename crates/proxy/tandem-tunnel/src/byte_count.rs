//! Numbers of bytes as people write them: `1500`, `500k`, `50M`, `1.5G`.
//!
//! Is not: what is done with them.

use std::str::FromStr;

use serde::Deserialize;

/// Bytes, of which `k` is 1,000, `M` 1,000,000 and `G` 1,000,000,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub struct ByteCount(pub u64);

/// In a file: a number, or a text with a suffix.
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

/// A decimal number, with or without a fraction, and perhaps one of `suffixes` behind it: the first
/// stands for a thousand, each other for a thousand of the one before. `None` where that is no
/// whole number.
pub fn scaled(text: &str, suffixes: &str) -> Option<u64> {
    let units = suffixes.chars().zip(1..);
    let found = units.filter_map(|(suffix, power)| Some((text.strip_suffix(suffix)?, power)));
    let (digits, power) = found.last().unwrap_or((text, 0));
    let unit = 1_000_u64.checked_pow(power)?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    // `parse` would take a sign, too.
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let scale = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let parts = fraction.parse::<u64>().ok()?.checked_mul(unit)?;
    if !parts.is_multiple_of(scale) {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    whole.checked_add(parts / scale)
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
}
