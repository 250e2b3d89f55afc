//! Sessions, months and what they cost.

use proptest::prelude::*;
use tandem_wire::{Instant, UnixTime};

use super::*;

const DAY: u64 = 24 * 3600;
/// 2026-03-10, noon.
const NOON: u64 = 20_522 * DAY + DAY / 2;
/// 2026-03-31, 23:59:50.
const LAST: u64 = 20_544 * DAY - 10;

fn money(text: &str) -> Money {
    text.parse().expect(text)
}

/// Nothing costs anything.
fn free() -> Tariff {
    Tariff {
        currency: "USD".to_owned(),
        unit: ByteUnit::Megabyte,
        per_unit: Money::default(),
        per_minute: Money::default(),
        per_session: Money::default(),
        idle: Duration::from_secs(60),
        byte_step: 1,
        second_step: 1,
        long_session: None,
        included_bytes: 0,
        first_day: 1,
    }
}

/// A bill with the clock that its times are of.
struct Run {
    bill: Bill,
    bytes: u64,
}

impl Run {
    fn new(tariff: Tariff) -> Self {
        Self {
            bill: Bill::new(tariff),
            bytes: 0,
        }
    }

    /// So many bytes more, so many seconds after `start`.
    fn at(&mut self, start: u64, seconds: u64, bytes: u64) -> Spent {
        self.bytes += bytes;
        let now = Instant::from_micros((start + seconds) * 1_000_000);
        self.bill
            .observe(self.bytes, now, UnixTime(start + seconds));
        self.bill.spent()
    }
}

fn all(text: &str) -> Spent {
    Spent {
        today: money(text),
        month: money(text),
        since_start: money(text),
    }
}

#[test]
fn bytes_cost_their_part_of_a_megabyte_rounded_up_over_all_of_them() {
    let mut run = Run::new(Tariff {
        per_unit: money("6.50"),
        ..free()
    });
    assert_eq!(run.at(NOON, 0, 0), Spent::default());
    // 6.5 micros a byte.
    assert_eq!(run.at(NOON, 1, 1), all("0.000007"));
    assert_eq!(run.at(NOON, 2, 1), all("0.000013"));
    assert_eq!(run.at(NOON, 3, 999_998), all("6.50"));
    let by_byte = Tariff {
        per_unit: money("0.000002"),
        unit: ByteUnit::Byte,
        ..free()
    };
    assert_eq!(Run::new(by_byte).at(NOON, 0, 700), all("0.0014"));
    let by_kilobyte = Tariff {
        per_unit: money("0.01"),
        unit: ByteUnit::Kilobyte,
        ..free()
    };
    assert_eq!(Run::new(by_kilobyte).at(NOON, 0, 1_500), all("0.015"));
}

#[test]
fn a_session_lasts_from_its_first_packet_to_its_last() {
    let mut run = Run::new(Tariff {
        per_session: money("0.10"),
        per_minute: money("0.60"),
        ..free()
    });
    assert_eq!(run.at(NOON, 0, 10), all("0.11"));
    // A minute, in gaps that are shorter than the idle time.
    assert_eq!(run.at(NOON, 30, 0), all("0.11"));
    assert_eq!(run.at(NOON, 59, 10), all("0.69"));
    // The idle time itself is not part of it, and the next packet opens a new one.
    assert_eq!(run.at(NOON, 118, 0), all("0.69"));
    assert_eq!(run.at(NOON, 119, 10), all("0.80"));
    assert_eq!(run.at(NOON, 129, 10), all("0.89"));
}

#[test]
fn sessions_are_rounded_up_each_for_itself() {
    let mut run = Run::new(Tariff {
        per_unit: money("1"),
        per_minute: money("0.60"),
        byte_step: 1_000,
        second_step: 30,
        unit: ByteUnit::Kilobyte,
        ..free()
    });
    assert_eq!(run.at(NOON, 0, 1), all("1.30"));
    assert_eq!(run.at(NOON, 1, 999), all("1.30"));
    assert_eq!(run.at(NOON, 31, 1), all("2.60"));
    // Another session.
    assert_eq!(run.at(NOON, 131, 1), all("3.90"));
}

#[test]
fn a_long_session_is_billed_at_the_greater_of_its_bytes_and_the_rate() {
    let tariff = Tariff {
        per_unit: money("0.000001"),
        unit: ByteUnit::Byte,
        idle: Duration::from_secs(3_600),
        long_session: Some(LongSession {
            after: 300,
            bytes_per_second: 300,
        }),
        ..free()
    };
    let mut run = Run::new(tariff.clone());
    assert_eq!(run.at(NOON, 0, 1_000), all("0.001"));
    assert_eq!(run.at(NOON, 300, 1_000), all("0.002"));
    assert_eq!(run.at(NOON, 301, 1), all("0.0903"));
    let mut heavy = Run::new(tariff);
    assert_eq!(heavy.at(NOON, 0, 1_000_000), all("1"));
    assert_eq!(heavy.at(NOON, 400, 5), all("1.000005"));
}

#[test]
fn bytes_that_are_included_cost_nothing_until_they_are_used_up_in_each_month() {
    let mut run = Run::new(Tariff {
        per_unit: money("0.000001"),
        unit: ByteUnit::Byte,
        included_bytes: 100,
        ..free()
    });
    assert_eq!(run.at(LAST, 0, 100), Spent::default());
    assert_eq!(run.at(LAST, 1, 50), all("0.00005"));
    // April.
    let spent = run.at(LAST, 10, 100);
    assert_eq!(spent.month, Money::default());
    assert_eq!(spent.today, Money::default());
    assert_eq!(spent.since_start, money("0.00005"));
    assert_eq!(run.at(LAST, 11, 1).month, money("0.000001"));
}

#[test]
fn days_and_months_begin_anew_and_the_start_does_not() {
    let mut run = Run::new(Tariff {
        per_unit: money("0.000001"),
        unit: ByteUnit::Byte,
        ..free()
    });
    run.at(LAST - DAY, 0, 5);
    let spent = run.at(LAST, 0, 7);
    assert_eq!(spent.today, money("0.000007"));
    assert_eq!(spent.month, money("0.000012"));
    // The session goes on over the end of the month.
    let spent = run.at(LAST, 10, 1);
    assert_eq!(spent.today, money("0.000001"));
    assert_eq!(spent.month, money("0.000001"));
    assert_eq!(spent.since_start, money("0.000013"));
    // A clock that is put right by seconds.
    let spent = run.at(LAST, 9, 1);
    assert_eq!(spent.month, money("0.000002"));
}

/// A byte costs a millionth.
fn by_byte() -> Tariff {
    Tariff {
        per_unit: money("0.000001"),
        unit: ByteUnit::Byte,
        ..free()
    }
}

/// A bill that goes on from what this one has written.
fn restarted(run: &Run, tariff: Tariff) -> Run {
    let bill = Bill::read(tariff, &run.bill.write()).expect("its own line");
    Run { bill, bytes: 0 }
}

#[test]
fn day_and_month_outlive_a_restart() {
    let tariff = Tariff {
        per_session: money("1"),
        included_bytes: 10,
        ..by_byte()
    };
    let mut before = Run::new(tariff.clone());
    before.at(NOON - DAY, 0, 11);
    before.at(NOON, 0, 19);
    let mut after = restarted(&before, tariff.clone());
    let spent = after.at(NOON, 100, 1);
    assert_eq!(spent.month, money("3.000021"));
    assert_eq!(spent.today, money("2.00002"));
    assert_eq!(spent.since_start, money("1.000001"));
    // The next month.
    let mut later = restarted(&after, tariff.clone());
    assert_eq!(later.at(LAST + 10, 0, 11), all("1.000001"));
    for line in [
        "",
        "1 2 3 4 5 6 7",
        "1 2 3 4 5 6 7 8 9",
        "1 2 3 4 5 6 7 x",
        "-1 2 3 4 5 6 7 8",
    ] {
        assert_eq!(Bill::read(tariff.clone(), line), None, "{line}");
    }
}

#[test]
fn a_month_may_begin_on_another_day() {
    let mut run = Run::new(Tariff {
        first_day: 15,
        ..by_byte()
    });
    // 2026-03-14 and the day after.
    run.at(NOON + 4 * DAY, 0, 5);
    let spent = run.at(NOON + 5 * DAY, 0, 1);
    assert_eq!(spent.month, money("0.000001"));
    assert_eq!(spent.since_start, money("0.000006"));
    // To the last day before the next.
    run.at(LAST + 10, 0, 1);
    assert_eq!(run.at(NOON + 35 * DAY, 0, 1).month, money("0.000003"));
    assert_eq!(run.at(NOON + 36 * DAY, 0, 1).month, money("0.000001"));
}

#[test]
fn a_restart_without_the_time_forgets_no_month() {
    let mut before = Run::new(by_byte());
    before.at(NOON, 0, 30);
    let mut after = restarted(&before, by_byte());
    assert_eq!(after.at(0, 100, 1).month, money("0.000031"));
    assert_eq!(after.at(NOON, 200, 1).month, money("0.000032"));
}

#[test]
fn another_tariff_counts_for_all_of_the_month() {
    let mut before = Run::new(by_byte());
    before.at(NOON - DAY, 0, 30);
    before.at(NOON, 0, 12);
    let dearer = Tariff {
        per_unit: money("0.00001"),
        ..by_byte()
    };
    let mut after = restarted(&before, dearer);
    let spent = after.at(NOON, 100, 1);
    assert_eq!(spent.month, money("0.00043"));
    assert_eq!(spent.today, money("0.00013"));
    assert_eq!(spent.since_start, money("0.00001"));
    // And back.
    let spent = restarted(&after, by_byte()).at(NOON, 200, 1);
    assert_eq!(spent.month, money("0.000044"));
    assert_eq!(spent.since_start, money("0.000001"));
}

#[test]
fn amounts_without_end_do_not_overflow() {
    let mut run = Run::new(Tariff {
        per_unit: Money::from_micros(u64::MAX),
        unit: ByteUnit::Byte,
        per_minute: Money::from_micros(u64::MAX),
        byte_step: u64::MAX,
        second_step: u64::MAX,
        long_session: Some(LongSession {
            after: 0,
            bytes_per_second: u64::MAX,
        }),
        ..free()
    });
    run.at(NOON, 0, 1);
    let spent = run.at(NOON, 30, 1);
    assert_eq!(spent.month, Money::from_micros(u64::MAX));
    assert_eq!(plain_bytes(u64::MAX, u64::MAX), u64::MAX);
}

#[test]
fn without_tandem_there_are_headers_acknowledgements_and_handshakes() {
    assert_eq!(plain_bytes(0, 0), 0);
    assert_eq!(plain_bytes(0, 1), 380);
    // Ten full segments, five acknowledgements.
    assert_eq!(plain_bytes(14_480, 1), 14_480 + 15 * 52 + 380);
}

proptest! {
    /// Whatever happens when, nothing that was spent is taken back, and the days of a month add up
    /// to it.
    #[test]
    fn spending_only_grows_and_adds_up(
        steps in proptest::collection::vec((0_u64..400, 0_u64..5_000), 1..60),
        byte_step in 1_u64..2_000,
        second_step in 1_u64..90,
        included in 0_u64..20_000,
        long in proptest::option::of((1_u64..400, 1_u64..50)),
    ) {
        let mut run = Run::new(Tariff {
            per_unit: money("6.50"),
            per_minute: money("0.07"),
            per_session: money("0.03"),
            byte_step,
            second_step,
            included_bytes: included,
            long_session: long.map(|(after, bytes_per_second)| LongSession {
                after,
                bytes_per_second,
            }),
            ..free()
        });
        let (mut seconds, mut before) = (0, Spent::default());
        for (pause, bytes) in steps {
            seconds += pause;
            let spent = run.at(NOON, seconds, bytes);
            prop_assert!(spent.since_start >= before.since_start);
            prop_assert_eq!(spent.since_start, spent.month);
            before = spent;
        }
    }
}
