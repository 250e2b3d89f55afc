//! What has been spent on a link.
//!
//! Is not: the prices. Whoever counts the bytes says from time to time how many there are, so that
//! sessions are as exact as these times are close.
//!
//! Invariant: what is kept are amounts, and money only of months that are over; so the whole month
//! has the price of the tariff that is in force.

use tandem_wire::{Instant, UnixTime};

use super::{Amounts, Money, Tariff};
use crate::day::Day;

/// What has been spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// This day, of UTC.
    pub today: Money,
    /// This month of the contract, by days of UTC.
    pub month: Money,
    /// Since the bill was opened.
    pub since_start: Money,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bill {
    tariff: Tariff,
    day: Day,
    /// Bytes of which is known.
    seen: u64,
    session: Option<Session>,
    /// What all sessions that have ended come to.
    ended: Amounts,
    /// What had come together when the month began.
    before_month: Amounts,
    /// What another run has billed in this month.
    carried: Amounts,
    /// What this month had come to when the day began.
    before_today: Amounts,
    /// Spent since the bill was opened, in months that are over.
    earlier: Money,
}

/// A session that may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Session {
    first: Instant,
    last: Instant,
    bytes: u64,
}

impl Bill {
    /// An empty one.
    pub fn new(tariff: Tariff) -> Self {
        Self {
            tariff,
            day: Day::default(),
            seen: 0,
            session: None,
            ended: Amounts::default(),
            before_month: Amounts::default(),
            carried: Amounts::default(),
            before_today: Amounts::default(),
            earlier: Money::default(),
        }
    }

    /// By now so many bytes have crossed the link since the bill was opened.
    pub fn observe(&mut self, total: u64, now: Instant, wall: UnixTime) {
        if let Some(day) = self.day.turn(wall) {
            self.day_ended(day);
        }
        if let Some(session) = self.session
            && now.saturating_since(session.last) >= self.tariff.idle
        {
            self.ended = self.ended.and(self.amounts_of(session));
            self.session = None;
        }
        let new = total.saturating_sub(self.seen);
        self.seen = self.seen.max(total);
        if new > 0 {
            let session = self.session.get_or_insert(Session {
                first: now,
                last: now,
                bytes: 0,
            });
            session.last = now;
            session.bytes = session.bytes.saturating_add(new);
        }
    }

    /// What has been spent, as of the last [`Bill::observe`].
    pub fn spent(&self) -> Spent {
        let month = self.tariff.cost(self.month());
        Spent {
            today: month.less(self.tariff.cost(self.before_today)),
            month,
            since_start: self.earlier.and(self.own_of_month()),
        }
    }

    /// The tariff.
    pub fn tariff(&self) -> &Tariff {
        &self.tariff
    }

    fn amounts_of(&self, session: Session) -> Amounts {
        let lasted = session.last.saturating_since(session.first);
        self.tariff.session(lasted, session.bytes)
    }

    /// All that has come together in this run.
    fn total(&self) -> Amounts {
        let running = self.session.map(|session| self.amounts_of(session));
        self.ended.and(running.unwrap_or_default())
    }

    /// All that is billed for this month.
    fn month(&self) -> Amounts {
        self.total().less(self.before_month).and(self.carried)
    }

    /// What this run has spent of this month.
    fn own_of_month(&self) -> Money {
        let month = self.tariff.cost(self.month());
        month.less(self.tariff.cost(self.carried))
    }

    /// Another day has begun, and perhaps another month.
    fn day_ended(&mut self, ended: u64) {
        // The contract's months are the calendar's, some days later.
        let later = u64::from(self.tariff.first_day).saturating_sub(1);
        let month_of = |day: u64| month(day.saturating_sub(later));
        if month_of(self.day.current) == month_of(ended) {
            self.before_today = self.month();
            return;
        }
        self.earlier = self.earlier.and(self.own_of_month());
        self.before_month = self.total();
        self.carried = Amounts::default();
        self.before_today = Amounts::default();
    }

    /// This day and this month as one line of text, for the next run.
    pub fn write(&self) -> String {
        let Day { current, seen } = self.day;
        let (month, before_today) = (self.month().line(), self.before_today.line());
        format!("{current} {seen} {month} {before_today}")
    }

    /// Goes on from what another run has written. `None`: it is no such line.
    pub fn read(tariff: Tariff, line: &str) -> Option<Self> {
        let numbers = line.split(' ').map(|number| number.parse().ok());
        let numbers: Vec<u64> = numbers.collect::<Option<_>>()?;
        let (&[current, seen], amounts) = numbers.split_first_chunk()?;
        let (&month, before_today) = amounts.split_first_chunk()?;
        Some(Self {
            day: Day { current, seen },
            carried: Amounts::of_numbers(month),
            before_today: Amounts::of_numbers(before_today.try_into().ok()?),
            ..Self::new(tariff)
        })
    }
}

impl Amounts {
    fn line(self) -> String {
        let Self {
            bytes,
            seconds,
            sessions,
        } = self;
        format!("{bytes} {seconds} {sessions}")
    }

    fn of_numbers([bytes, seconds, sessions]: [u64; 3]) -> Self {
        Self {
            bytes,
            seconds,
            sessions,
        }
    }
}

/// Months since March of year 0, of a day since 1970 (Gregorian calendar; a cycle of 400 years has
/// 146,097 days, and a year that begins in March ends with its leap day).
fn month(day: u64) -> u64 {
    // 1970-01-01 is day 719,468 from 0000-03-01.
    let day = day.saturating_add(719_468);
    let (cycle, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    (cycle * 400 + year) * 12 + (5 * day + 2) / 153
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_begin_where_the_calendar_says() {
        // Days of the first of the month, by date(1).
        for first in [
            31,     // 1970-02-01
            59,     // 1970-03-01
            11_016, // 2000-02-29 is 11_016, which is no first
            11_017, // 2000-03-01
            19_782, // 2024-02-29, no first
            19_783, // 2024-03-01
            20_454, // 2026-01-01
            47_541, // 2100-03-01
        ] {
            let is_first = !matches!(first, 11_016 | 19_782);
            assert_eq!(month(first) != month(first - 1), is_first, "{first}");
        }
        assert_eq!(month(20_454) - month(0), 12 * 56);
    }
}
