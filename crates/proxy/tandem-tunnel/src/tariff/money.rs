//! An amount of money, or a price.
//!
//! Is not: a currency, nor a number with a fraction: 0.1 has no exact one in binary.

use std::fmt;
use std::str::FromStr;

const MICROS: u64 = 1_000_000;
/// Decimals of a millionth.
const DECIMALS: usize = 6;

/// Whole millionths of some currency, none of them owed by the other side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(u64);

/// Not an amount: the operator's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an amount: write it as \"12\" or \"0.05\", with six decimals at most")]
pub struct MoneyError;

impl Money {
    /// So many millionths.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Millionths.
    pub const fn micros(self) -> u64 {
        self.0
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    pub(super) fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Money {
    /// With two decimals, and more where there are more.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = format!("{:06}", self.0 % MICROS);
        let (two, rest) = decimals.split_at(2);
        let rest = rest.trim_end_matches('0');
        write!(f, "{}.{two}{rest}", self.0 / MICROS)
    }
}

impl FromStr for Money {
    type Err = MoneyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        // `parse` would take a sign, too.
        let is_number =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(decimals) || decimals.len() > DECIMALS {
            return Err(MoneyError);
        }
        let whole: u64 = whole.parse().map_err(|_| MoneyError)?;
        let millionths: u64 = format!("{decimals:0<DECIMALS$}")
            .parse()
            .map_err(|_| MoneyError)?;
        let micros = whole.checked_mul(MICROS).ok_or(MoneyError)?;
        micros.checked_add(millionths).map(Self).ok_or(MoneyError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_and_shown_exactly() {
        for (text, micros, shown) in [
            ("0", 0, "0.00"),
            ("12", 12_000_000, "12.00"),
            ("0.05", 50_000, "0.05"),
            ("6.5", 6_500_000, "6.50"),
            ("0.000001", 1, "0.000001"),
            ("1.234560", 1_234_560, "1.23456"),
            ("18446744073709.551615", u64::MAX, "18446744073709.551615"),
        ] {
            let money: Money = text.parse().expect(text);
            assert_eq!(money.micros(), micros);
            assert_eq!(money.to_string(), shown);
        }
        for text in [
            "",
            ".",
            "1.",
            ".5",
            "-1",
            "+1",
            "1,5",
            "1e3",
            "0.0000001",
            "$5",
            "1 ",
            "NaN",
            "é",
            "18446744073709.551616",
        ] {
            assert_eq!(text.parse::<Money>(), Err(MoneyError), "{text}");
        }
    }
}
