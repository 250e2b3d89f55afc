//! A tariff as an operator writes it, in TOML.
//!
//! Is not: the arithmetic with it, nor the reading of the file.
//!
//! Invariant: an error is one line that names line and column and says what is expected.

use std::num::NonZeroU64;
use std::ops::Range;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::{ByteUnit, LongSession, Money, MoneyError, Tariff};
use crate::byte_count::ByteCount;

/// Seconds without a packet after which a session has ended, where the file does not say.
const IDLE: u64 = 60;

/// Most characters of a currency's name.
const MAX_CURRENCY: usize = 8;

/// The file, as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Written {
    currency: Currency,
    price_per_byte: Option<Spanned<Amount>>,
    price_per_kilobyte: Option<Spanned<Amount>>,
    price_per_megabyte: Option<Spanned<Amount>>,
    price_per_minute: Option<Amount>,
    price_per_session: Option<Amount>,
    session_idle_seconds: Option<NonZeroU64>,
    round_bytes_to: Option<NonZeroU64>,
    round_seconds_to: Option<NonZeroU64>,
    included_bytes_a_month: Option<ByteCount>,
    month_begins_on_day: Option<FirstDay>,
    long_session: Option<WrittenLongSession>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct WrittenLongSession {
    after_seconds: u64,
    bytes_a_second: u64,
}

#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Currency(String);

impl TryFrom<String> for Currency {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_name = text.chars().all(char::is_alphabetic);
        if text.is_empty() || text.chars().count() > MAX_CURRENCY || !is_name {
            return Err(format!(
                "not a currency: write up to {MAX_CURRENCY} letters, such as \"USD\""
            ));
        }
        Ok(Self(text))
    }
}

/// A day that every month has.
#[derive(Deserialize)]
#[serde(try_from = "i64")]
struct FirstDay(u8);

impl TryFrom<i64> for FirstDay {
    type Error = String;

    fn try_from(day: i64) -> Result<Self, String> {
        let day = u8::try_from(day).ok().filter(|day| (1..=28).contains(day));
        day.map(Self)
            .ok_or_else(|| "not a day that every month has: write 1 to 28".to_owned())
    }
}

/// A number with decimals stands in quotes: without them it would not be exact.
#[derive(Deserialize)]
#[serde(try_from = "WrittenAmount")]
struct Amount(Money);

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "not an amount: write it in quotes, as \"12\" or \"0.05\", with six decimals at most"
)]
enum WrittenAmount {
    Text(String),
}

impl TryFrom<WrittenAmount> for Amount {
    type Error = String;

    fn try_from(written: WrittenAmount) -> Result<Self, String> {
        let WrittenAmount::Text(text) = written;
        text.parse()
            .map(Self)
            .map_err(|error: MoneyError| error.to_string())
    }
}

/// Not a tariff: the operator's fault. Lines and columns are counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct TariffError {
    line: usize,
    column: usize,
    problem: String,
}

/// Reads a tariff's text.
///
/// # Errors
/// It is no tariff.
pub(super) fn parse(text: &str) -> Result<Tariff, TariffError> {
    let at = |span: Range<usize>, problem: String| {
        let before = text.get(..span.start).unwrap_or(text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        TariffError {
            line: 1 + before.matches('\n').count(),
            column: 1 + line.chars().count(),
            problem: problem.replace('\n', " "),
        }
    };
    let written: Written = toml::from_str(text)
        .map_err(|error| at(error.span().unwrap_or_default(), error.message().to_owned()))?;
    let mut price = None;
    for (unit, amount) in [
        (ByteUnit::Byte, written.price_per_byte),
        (ByteUnit::Kilobyte, written.price_per_kilobyte),
        (ByteUnit::Megabyte, written.price_per_megabyte),
    ] {
        let Some(amount) = amount else { continue };
        let span = amount.span();
        if price.replace((unit, amount.into_inner().0)).is_some() {
            let problem = "bytes have two prices: expected one of price-per-byte, \
                           price-per-kilobyte and price-per-megabyte";
            return Err(at(span, problem.to_owned()));
        }
    }
    let others = [written.price_per_minute, written.price_per_session];
    if price.is_none() && others.iter().all(Option::is_none) {
        let problem = "nothing has a price: expected price-per-megabyte, price-per-minute or \
                       price-per-session";
        return Err(at(0..0, problem.to_owned()));
    }
    let [per_minute, per_session] =
        others.map(|amount| amount.map_or(Money::default(), |amount| amount.0));
    let (unit, per_unit) = price.unwrap_or((ByteUnit::Byte, Money::default()));
    Ok(Tariff {
        currency: written.currency.0,
        unit,
        per_unit,
        per_minute,
        per_session,
        idle: Duration::from_secs(written.session_idle_seconds.map_or(IDLE, NonZeroU64::get)),
        byte_step: written.round_bytes_to.map_or(1, NonZeroU64::get),
        second_step: written.round_seconds_to.map_or(1, NonZeroU64::get),
        long_session: written.long_session.map(|long| LongSession {
            after: long.after_seconds,
            bytes_per_second: long.bytes_a_second,
        }),
        included_bytes: written.included_bytes_a_month.map_or(0, |bytes| bytes.0),
        first_day: written.month_begins_on_day.map_or(1, |day| day.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Tariff, String> {
        parse(text).map_err(|error| error.to_string())
    }

    #[test]
    fn every_price_and_rule_is_read() {
        let text = "\
currency = \"USD\"\nprice-per-megabyte = \"6.50\"\nprice-per-minute = \"0.8\"\nprice-per-session = \"0\"
session-idle-seconds = 20\nround-bytes-to = 1000\nround-seconds-to = 6\nincluded-bytes-a-month = \"5M\"
month-begins-on-day = 15
[long-session]\nafter-seconds = 300\nbytes-a-second = 300\n";
        let expected = Tariff {
            currency: "USD".to_owned(),
            unit: ByteUnit::Megabyte,
            per_unit: Money::from_micros(6_500_000),
            per_minute: Money::from_micros(800_000),
            per_session: Money::default(),
            idle: Duration::from_secs(20),
            byte_step: 1_000,
            second_step: 6,
            long_session: Some(LongSession {
                after: 300,
                bytes_per_second: 300,
            }),
            included_bytes: 5_000_000,
            first_day: 15,
        };
        assert_eq!(read(text), Ok(expected));
    }

    #[test]
    fn the_example_of_the_package_is_a_tariff() {
        let text = include_str!("../../../../../packaging/examples/tariff.toml");
        read(text).expect("a tariff");
    }

    #[test]
    fn what_is_no_tariff_is_one_line_with_line_and_column() {
        let usd = "currency = \"USD\"\n";
        for (text, place, part) in [
            (String::new(), "line 1, column 1", "`currency`"),
            (usd.to_owned(), "line 1, column 1", "price-per-megabyte"),
            (
                "currency = \"$\"\n".to_owned(),
                "line 1, column 12",
                "letters",
            ),
            (
                "currency = \"Doubloons\"\n".to_owned(),
                "line 1, column 12",
                "up to 8 letters",
            ),
            (
                format!("{usd}price-per-megabyte = 6.50\n"),
                "line 2, column 22",
                "in quotes",
            ),
            (
                format!("{usd}price-per-megabyte = \"6,50\"\n"),
                "line 2, column 22",
                "\"0.05\"",
            ),
            (
                format!("{usd}price-per-mb = \"6.50\"\n"),
                "line 2, column 1",
                "`price-per-megabyte`",
            ),
            (
                format!("{usd}price-per-byte = \"1\"\nprice-per-megabyte = \"6.50\"\n"),
                "line 3, column 22",
                "two prices",
            ),
            (
                format!("{usd}price-per-minute = \"1\"\nround-seconds-to = 0\n"),
                "line 3, column 20",
                "nonzero",
            ),
            (
                format!("{usd}[long-session]\nafter-seconds = 300\n"),
                "line 2, column 1",
                "`bytes-a-second`",
            ),
            (
                format!("{usd}price-per-minute = \"1\"\nmonth-begins-on-day = 29\n"),
                "line 3, column 23",
                "1 to 28",
            ),
            (format!("{usd}price"), "line 2, column 6", ""),
        ] {
            let problem = read(&text).expect_err(&text);
            let start = format!("{place}: ");
            assert!(problem.starts_with(&start), "{text}: {problem}");
            assert!(problem.contains(part), "{text}: {problem}");
            assert!(!problem.contains('\n'), "{problem}");
        }
    }
}
