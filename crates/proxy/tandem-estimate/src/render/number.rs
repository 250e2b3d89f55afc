//! Numbers, times and shares in words.
//!
//! Not locales: digits in groups of three by commas, dates as ISO 8601 has them, everywhere.

/// 1234567 as "1,234,567".
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The same of a number that may be below zero.
pub(super) fn signed(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", grouped(number.unsigned_abs()))
}

/// "1 frame", "2 frames".
pub(super) fn plural(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", grouped(number))
}

/// A share in whole percent; "-" of nothing. What is less than all never reads as all, nor more
/// than nothing as nothing.
pub(super) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let rounded = (u128::from(part) * 200 + u128::from(whole)) / (u128::from(whole) * 2);
    match rounded {
        0 if part > 0 => "<1 %".to_owned(),
        100 if part < whole => ">99 %".to_owned(),
        share => format!("{share} %"),
    }
}

/// Seconds with as many digits as mean something.
pub(super) fn seconds(seconds: f64) -> String {
    if seconds < 10.0 {
        format!("{seconds:.2} s")
    } else if seconds < 1000.0 {
        format!("{seconds:.1} s")
    } else {
        duration(seconds)
    }
}

/// A span of time in its two largest units.
pub(super) fn duration(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.1} s");
    }
    // Right for spans of minutes.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it is rounded, and a span that does not fit saturates"
    )]
    let whole = seconds.round() as u64;
    let (days, hours, minutes) = (whole / 86_400, whole / 3_600 % 24, whole / 60 % 60);
    if days > 0 {
        format!("{} d {hours} h", grouped(days))
    } else if hours > 0 {
        format!("{hours} h {minutes} min")
    } else {
        format!("{minutes} min {} s", whole % 60)
    }
}

/// Microseconds since 1970 as "2024-02-29 13:05:09".
pub(super) fn date(unix_micros: u64) -> String {
    let seconds = unix_micros / 1_000_000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
        second / 3_600,
        second / 60 % 60,
        second % 60
    )
}

/// Year, month and day of the Gregorian calendar, so many days after 1970-01-01.
fn civil(days: u64) -> (u64, u64, u64) {
    /// Days in 400, 100 and 4 years that start on a first of March after a leap day.
    const CYCLES: [(u64, u64); 3] = [(146_097, 400), (36_524, 100), (1_461, 4)];
    /// Days from 0000-03-01 to 1970-01-01.
    const TO_EPOCH: u64 = 719_468;
    let mut rest = days + TO_EPOCH;
    let mut year = 0;
    for (length, years) in CYCLES {
        // The last of four centuries, and the last of four years, is one day longer than the
        // others.
        let count = if years == 100 {
            (rest / length).min(3)
        } else {
            rest / length
        };
        year += count * years;
        rest -= count * length;
    }
    let count = (rest / 365).min(3);
    year += count;
    rest -= count * 365;
    // From March on, five months are 153 days.
    let month = (rest * 5 + 2) / 153;
    let day = rest - (month * 153 + 2) / 5 + 1;
    let (year, month) = if month < 10 {
        (year, month + 3)
    } else {
        (year + 1, month - 9)
    };
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(plural(1, "frame"), "1 frame");
        assert_eq!(plural(0, "frame"), "0 frames");
    }

    #[test]
    fn shares_round_without_lying_at_the_ends() {
        let table = [
            (0, 0, "-"),
            (0, 9, "0 %"),
            (1, 1000, "<1 %"),
            (999, 1000, ">99 %"),
            (1, 3, "33 %"),
            (9, 9, "100 %"),
        ];
        for (part, whole, text) in table {
            assert_eq!(percent(part, whole), text);
        }
        assert_eq!(percent(u64::MAX, u64::MAX), "100 %");
    }

    #[test]
    fn times_are_told_in_two_units() {
        let table = [
            (0.0, "0.0 s"),
            (59.94, "59.9 s"),
            (61.2, "1 min 1 s"),
            (7_260.0, "2 h 1 min"),
            (90_000.0, "1 d 1 h"),
        ];
        for (seconds, text) in table {
            assert_eq!(duration(seconds), text);
        }
        assert_eq!(seconds(1.234), "1.23 s");
        assert_eq!(seconds(123.45), "123.5 s");
        assert_eq!(seconds(3_600.0), "1 h 0 min");
        assert!(duration(f64::MAX).ends_with(" h"));
    }

    #[test]
    fn dates_follow_the_calendar() {
        let table = [
            (0, "1970-01-01 00:00:00"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (951_868_800, "2000-03-01 00:00:00"),
            (1_078_012_800, "2004-02-29 00:00:00"),
            (1_709_211_909, "2024-02-29 13:05:09"),
            (1_735_603_200, "2024-12-31 00:00:00"),
            (4_107_542_399, "2100-02-28 23:59:59"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ];
        for (seconds, text) in table {
            assert_eq!(date(seconds * 1_000_000), text);
        }
        assert!(!date(u64::MAX).is_empty());
    }
}
