//! The rate of a link as people write it: `2400`, `64k`, `1.5M`.
//!
//! Is not: a measured rate, nor what is done with it.
//!
//! Invariant: a [`LinkRate`] is at least one bit a second.

use std::num::NonZeroU64;
use std::str::FromStr;

use serde::Deserialize;

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

/// A decimal number, with or without a fraction, and perhaps one of `suffixes` behind it: the first
/// stands for a thousand, each other for a thousand of the one before. `None` where that is no
/// whole number.
pub(super) fn scaled(text: &str, suffixes: &str) -> Option<u64> {
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
