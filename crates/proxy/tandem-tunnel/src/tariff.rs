//! What the link costs: a tariff, and bills by it.
//!
//! Is: money and prices ([`money`]), what a session and a month come to, and what has been spent
//! today, this month and since the start ([`Bill`]), and a tariff's text ([`Tariff::parse`]). Is
//! not: the counting of bytes.
//!
//! Invariants: amounts are whole millionths of the currency and whole bytes and seconds; what is
//! not whole is rounded up, once, over the month. What has been spent never becomes less while a
//! month and its tariff last, and the days add up to the month.

mod bill;
mod file;
mod money;

use std::time::Duration;

pub use bill::{Bill, Spent};
pub use file::TariffError;
pub use money::{Money, MoneyError};

/// What the operator pays for the link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tariff {
    /// Its name, as it is shown: `USD`.
    pub currency: String,
    /// For so many bytes...
    pub unit: ByteUnit,
    /// ...this.
    pub per_unit: Money,
    /// For a minute of a session; a second is a sixtieth of it.
    pub per_minute: Money,
    /// For each start of a session.
    pub per_session: Money,
    /// A session ends with its last packet before a gap of this length.
    pub idle: Duration,
    /// The bytes of a session are rounded up to a multiple of this.
    pub byte_step: u64,
    /// The seconds of a session, one at least, are rounded up to a multiple of this.
    pub second_step: u64,
    /// What a long session is billed at least, if there is such a rule.
    pub long_session: Option<LongSession>,
    /// Bytes a month that are not paid for one by one.
    pub included_bytes: u64,
    /// Day of the calendar's month on which a month of the contract begins: 1 to 28, which every
    /// month has.
    pub first_day: u8,
}

/// A number of bytes that has a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteUnit {
    /// One.
    Byte,
    /// 1,000.
    Kilobyte,
    /// 1,000,000.
    Megabyte,
}

impl ByteUnit {
    fn bytes(self) -> u128 {
        match self {
            Self::Byte => 1,
            Self::Kilobyte => 1_000,
            Self::Megabyte => 1_000_000,
        }
    }
}

/// Sessions that last longer are billed at the greater of their bytes and a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongSession {
    /// Longer than this, in seconds.
    pub after: u64,
    /// So many bytes for each second, from the first on.
    pub bytes_per_second: u64,
}

/// What is billed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Amounts {
    bytes: u64,
    seconds: u64,
    sessions: u64,
}

impl Amounts {
    fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            seconds: self.seconds.saturating_add(other.seconds),
            sessions: self.sessions.saturating_add(other.sessions),
        }
    }

    fn less(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(other.bytes),
            seconds: self.seconds.saturating_sub(other.seconds),
            sessions: self.sessions.saturating_sub(other.sessions),
        }
    }
}

impl Tariff {
    /// Reads a tariff as an operator writes it, in TOML.
    ///
    /// # Errors
    /// `TariffError` with line, column and what is expected.
    pub fn parse(text: &str) -> Result<Self, TariffError> {
        file::parse(text)
    }

    /// What is billed of a session that has lasted so long and carried so many bytes.
    fn session(&self, lasted: Duration, bytes: u64) -> Amounts {
        let seconds = lasted.as_secs() + u64::from(lasted.subsec_nanos() > 0);
        // One packet takes its time, too.
        let seconds = seconds.max(1);
        let at_least = match self.long_session {
            Some(long) if seconds > long.after => seconds.saturating_mul(long.bytes_per_second),
            Some(_) | None => 0,
        };
        Amounts {
            bytes: stepped(bytes.max(at_least), self.byte_step),
            seconds: stepped(seconds, self.second_step),
            sessions: 1,
        }
    }

    /// What the amounts of a month cost.
    fn cost(&self, month: Amounts) -> Money {
        let times = |price: Money, count: u64, unit: u128| {
            (u128::from(price.micros()) * u128::from(count)).div_ceil(unit)
        };
        let paid_bytes = month.bytes.saturating_sub(self.included_bytes);
        let micros = times(self.per_unit, paid_bytes, self.unit.bytes())
            .saturating_add(times(self.per_minute, month.seconds, 60))
            .saturating_add(times(self.per_session, month.sessions, 1));
        Money::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }
}

/// The next multiple of `step`.
fn stepped(amount: u64, step: u64) -> u64 {
    let step = step.max(1);
    amount.div_ceil(step).saturating_mul(step)
}

/// Bytes of payload in a full segment of TCP: 1,500 bytes, less headers with timestamps (RFC 9293,
/// RFC 7323).
const SEGMENT: u64 = 1_448;
/// Bytes of headers of a segment: IPv4 and TCP with timestamps.
const HEADERS: u64 = 52;
/// Bytes of a connection's SYN, SYN/ACK and ACK, and of its two ends with their acknowledgements.
const CONNECTION: u64 = 60 + 60 + 5 * HEADERS;

/// An estimate of the IP bytes that connections would have had on the link without Tandem: their
/// payload; headers for full segments, and one acknowledgement for two of these (RFC 5681, section
/// 4.2); and each connection's start and end. Left out are repeats, which depend on the link, short
/// segments, and the lookups of names: it is rather too low.
pub fn plain_bytes(payload: u64, connections: u64) -> u64 {
    let segments = payload.div_ceil(SEGMENT);
    let headers = segments
        .saturating_add(segments / 2)
        .saturating_mul(HEADERS);
    payload
        .saturating_add(headers)
        .saturating_add(connections.saturating_mul(CONNECTION))
}

#[cfg(test)]
mod tests;
