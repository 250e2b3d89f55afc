//! What has been spent on a link.
//!
//! Is not: the prices. Whoever counts the bytes says from time to time how many there are, so that
//! sessions are as exact as these times are close.

use tandem_wire::{Instant, UnixTime};

use super::{Amounts, Money, Tariff};

const SECONDS_A_DAY: u64 = 24 * 3600;

/// What has been spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// This day, of UTC.
    pub today: Money,
    /// This month, of UTC.
    pub month: Money,
    /// Since the bill was opened.
    pub since_start: Money,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bill {
    tariff: Tariff,
    /// Bytes of which is known.
    seen: u64,
    session: Option<Session>,
    /// What all sessions that have ended come to.
    ended: Amounts,
    /// What had come together when the month began.
    before_month: Amounts,
    /// What another run has billed in this month.
    carried: Amounts,
    /// Days since 1970.
    day: u64,
    spent: Spent,
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
            seen: 0,
            session: None,
            ended: Amounts::default(),
            before_month: Amounts::default(),
            carried: Amounts::default(),
            day: 0,
            spent: Spent::default(),
        }
    }

    /// By now so many bytes have crossed the link since the bill was opened.
    pub fn observe(&mut self, total: u64, now: Instant, wall: UnixTime) {
        self.turn(wall);
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
            session.bytes += new;
        }
        let cost = self.tariff.cost(self.month());
        let more = cost.less(self.spent.month);
        self.spent.month = self.spent.month.and(more);
        self.spent.today = self.spent.today.and(more);
        self.spent.since_start = self.spent.since_start.and(more);
    }

    /// What has been spent, as of the last [`Bill::observe`].
    pub fn spent(&self) -> Spent {
        self.spent
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

    /// Begins a new day, and a new month. A clock that is put back by less than a day begins none,
    /// so that midnight does not come twice.
    fn turn(&mut self, wall: UnixTime) {
        let day = wall.0 / SECONDS_A_DAY;
        if day == self.day || day + 1 == self.day {
            return;
        }
        self.spent.today = Money::default();
        if month(day) != month(self.day) {
            self.before_month = self.total();
            self.carried = Amounts::default();
            self.spent.month = Money::default();
        }
        self.day = day;
    }

    /// This day and this month as one line of text, for the next run.
    pub fn write(&self) -> String {
        let Amounts {
            bytes,
            seconds,
            sessions,
        } = self.month();
        let (today, month) = (self.spent.today.micros(), self.spent.month.micros());
        format!("{} {today} {month} {bytes} {seconds} {sessions}", self.day)
    }

    /// Goes on from what another run has written. `false`: it is no such line, and nothing is
    /// changed. For a bill that has observed nothing yet.
    #[must_use]
    pub fn read(&mut self, line: &str) -> bool {
        let numbers: Result<Vec<u64>, _> = line.split(' ').map(str::parse).collect();
        let Ok(&[day, today, month, bytes, seconds, sessions]) = numbers.as_deref() else {
            return false;
        };
        self.day = day;
        self.carried = Amounts {
            bytes,
            seconds,
            sessions,
        };
        // With another tariff the month may have cost more than this one says.
        self.spent.month = Money::from_micros(month);
        self.spent.today = Money::from_micros(today);
        true
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
