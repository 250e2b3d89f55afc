//! The clock, and dates for people.
//!
//! Is not: time zones; everything is UTC.

use std::time::{SystemTime, UNIX_EPOCH};

use tandem_wire::clock::UnixTime;

const SECONDS_A_DAY: i64 = 86_400;

/// Seconds since 1970 by this machine's clock; 0 if it stands before that.
pub(crate) fn now() -> UnixTime {
    UnixTime(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
    )
}

/// A Unix time as a date, `2026-11-21`.
///
/// From days to year, month and day by counting in eras of 400 years (146,097 days) that begin on 1
/// March, so that the leap day is a year's last.
pub(crate) fn date(unix: i64) -> String {
    let days = unix.div_euclid(SECONDS_A_DAY) + 719_468; // from 1 March of year 0
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // By `date -u -d @SECONDS +%F`.
        let table = [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (4_107_542_400, "2100-03-01"),
            (253_402_300_799, "9999-12-31"),
        ];
        for (unix, expected) in table {
            assert_eq!(date(unix), expected, "{unix}");
        }
    }
}
