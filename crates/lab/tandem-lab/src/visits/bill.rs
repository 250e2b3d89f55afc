//! What a tariff makes of measured visits: one alone, and a day of them.
//!
//! Is not: the tariff's arithmetic (`tandem_tunnel::Bill`). Invariants: nothing is added to what
//! was measured but the times at which visits begin; bytes that a month includes are not taken off,
//! since they are used up some day.

use std::num::NonZeroU32;
use std::time::Duration;

use tandem_tunnel::{Bill, Money, Tariff};
use tandem_wire::{Instant, UnixTime};

/// A day.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A packet at the client side's end of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Passage {
    /// After the visit's begin.
    pub(super) at: Duration,
    /// IP bytes.
    pub(super) bytes: u64,
}

/// What a visit costs that comes alone.
pub(super) fn visit(tariff: &Tariff, passages: &[Passage]) -> Money {
    let mut account = Account::new(tariff);
    account.add(Duration::ZERO, passages);
    account.spent()
}

/// What so many visits cost that begin at equal distances over a day, one measured visit after the
/// other. `None` where there is none, or one takes longer than the time until the next.
pub(super) fn day(tariff: &Tariff, visits: &[&[Passage]], a_day: NonZeroU32) -> Option<Money> {
    let every = DAY / a_day.get();
    let last = visits.iter().flat_map(|passages| passages.last());
    if last.map(|passage| passage.at).max()? > every {
        return None;
    }
    let mut account = Account::new(tariff);
    for (number, passages) in (0..a_day.get()).zip(visits.iter().cycle()) {
        account.add(every * number, passages);
    }
    Some(account.spent())
}

/// A bill with a total.
struct Account {
    bill: Bill,
    total: u64,
}

impl Account {
    fn new(tariff: &Tariff) -> Self {
        Self {
            bill: Bill::new(Tariff {
                included_bytes: 0,
                ..tariff.clone()
            }),
            total: 0,
        }
    }

    fn add(&mut self, begin: Duration, passages: &[Passage]) {
        for passage in passages {
            let at = begin + passage.at;
            self.total += passage.bytes;
            let (now, wall) = (Instant::ZERO + at, UnixTime(at.as_secs()));
            self.bill.observe(self.total, now, wall);
        }
    }

    fn spent(&self) -> Money {
        self.bill.spent().since_start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A visit of so many seconds, with 500 bytes at each end.
    fn lasting(seconds: u64) -> [Passage; 2] {
        [0, seconds].map(|at| Passage {
            at: Duration::from_secs(at),
            bytes: 500,
        })
    }

    fn tariff(text: &str) -> Tariff {
        Tariff::parse(&format!("currency = \"USD\"\n{text}")).expect("a tariff")
    }

    fn cost(tariff: &Tariff, seconds: u64, a_day: u32) -> (u64, Option<u64>) {
        let passages = lasting(seconds);
        let a_day = NonZeroU32::new(a_day).expect("not 0");
        let day = day(tariff, &[&passages], a_day).map(Money::micros);
        (visit(tariff, &passages).micros(), day)
    }

    #[test]
    fn by_the_byte_a_day_is_as_many_times_a_visit() {
        let by_byte = tariff("price-per-kilobyte = \"0.01\"\nincluded-bytes-a-month = \"5M\"");
        assert_eq!(cost(&by_byte, 10, 20), (10_000, Some(200_000)));
    }

    #[test]
    fn polls_that_come_before_the_call_is_hung_up_make_one_call_of_a_day() {
        let by_minute = "price-per-minute = \"0.60\"\nsession-idle-seconds = ";
        let patient = tariff(&format!("{by_minute}60"));
        // From the first poll's begin to the last one's end: 1,439 minutes and 10 s.
        let all_day = (1_439 * 60 + 10) * 10_000;
        assert_eq!(cost(&patient, 10, 1_440), (100_000, Some(all_day)));
        let hasty = tariff(&format!("{by_minute}20"));
        assert_eq!(cost(&hasty, 10, 1_440), (100_000, Some(1_440 * 100_000)));
    }

    #[test]
    fn a_long_session_is_billed_by_its_seconds() {
        let long = tariff(
            "price-per-byte = \"0.000001\"\nsession-idle-seconds = 400\n\
             [long-session]\nafter-seconds = 300\nbytes-a-second = 300",
        );
        assert_eq!(cost(&long, 200, 24), (1_000, Some(24_000)));
        assert_eq!(cost(&long, 301, 24), (301 * 300, Some(24 * 301 * 300)));
    }

    #[test]
    fn visits_that_overlap_make_no_day() {
        let by_byte = tariff("price-per-byte = \"1\"");
        assert_eq!(cost(&by_byte, 60, 1_440).1, Some(1_440 * 1_000 * 1_000_000));
        assert_eq!(cost(&by_byte, 61, 1_440).1, None);
        let once = NonZeroU32::MIN;
        assert_eq!(day(&by_byte, &[], once), None);
    }
}
