//! The figures that splitting has to reach, and whether the rows say that it does.

use super::{Delivery, Part, Row, down, latency_ratios, of, single, tables};
use crate::number::SPACE;
use crate::stats::Spread;
use crate::verdict::{BarResult, Bound, Finding, Unit};

/// The size that the bars name.
const MEGABYTE: u64 = 1_000_000;

/// Holds every bar against the rows.
pub(crate) fn check(rows: &[Row]) -> Vec<BarResult> {
    let open = BarResult::open;
    let (most, least) = (Bound::AtMost, Bound::AtLeast);
    let warm = BarResult {
        target: Some(99.7),
        thesis: Some("99.5 %"),
        ..open(
            "split-warm",
            "Origin's bytes saved, warm",
            "1 MB, of HTTP's",
            Unit::PercentSaved,
            least,
            99.5,
        )
    };
    let cold = open(
        "split-cold",
        "Origin's bytes, cold",
        "1 MB, of HTTPS's",
        Unit::PercentOfHttps,
        most,
        101.5,
    );
    let latency = BarResult {
        thesis: Some("mostly ≤ 105 %"),
        ..open(
            "split-latency",
            "Time when nothing repeats",
            "cold, median file",
            Unit::PercentOfHttps,
            most,
            105.0,
        )
    };
    let origin = BarResult {
        target: Some(60.0),
        ..open(
            "split-origin-cpu",
            "Processor time at the origin",
            "1 MB, warm, with the server behind",
            Unit::PercentOfHttps,
            most,
            80.0,
        )
    };
    let volunteer = open(
        "split-volunteer-throughput",
        "Throughput of a volunteer",
        "each second of processor time",
        Unit::PercentOfHttps,
        least,
        50.0,
    );
    vec![
        warm.held(saved(rows)),
        cold.held(cold_bytes(rows)),
        latency.held(latency_of(rows)),
        origin.held(origin_time(rows)),
        volunteer.held(throughput(rows)),
    ]
}

fn trials(rows: &[Row], part: Part, delivery: Delivery, size: u64) -> usize {
    of(rows, part)
        .filter(|row| row.delivery == delivery && row.body_bytes() == size)
        .count()
}

fn saved(rows: &[Row]) -> Option<Finding> {
    let bytes = |delivery| down(rows, delivery, MEGABYTE);
    let warm = bytes(Delivery::Warm)?;
    let of_https = 100.0 * (1.0 - warm / bytes(Delivery::Https)?);
    Some(Finding {
        figure: 100.0 * (1.0 - warm / bytes(Delivery::Http)?),
        trials: trials(rows, Part::Sizes, Delivery::Warm, MEGABYTE),
        note: format!("{warm:.0} IP bytes; {of_https:.2}{SPACE}% of HTTPS's saved"),
    })
}

fn cold_bytes(rows: &[Row]) -> Option<Finding> {
    let bytes = |delivery| down(rows, delivery, MEGABYTE);
    let cold = bytes(Delivery::Cold)?;
    let of_same = 100.0 * cold / bytes(Delivery::HttpsCbc)?;
    Some(Finding {
        figure: 100.0 * cold / bytes(Delivery::Https)?,
        trials: trials(rows, Part::Sizes, Delivery::Cold, MEGABYTE),
        note: format!("{of_same:.1}{SPACE}% of HTTPS with the same suite"),
    })
}

fn latency_of(rows: &[Row]) -> Option<Finding> {
    let spread = |other| {
        let ratios = latency_ratios(rows, Delivery::Cold, other);
        Spread::of(ratios.into_iter().map(|(_, ratio)| 100.0 * ratio))
    };
    let (usual, same) = (spread(Delivery::Https)?, spread(Delivery::HttpsCbc)?);
    let link = &of(rows, Part::Latency).next()?.link;
    Some(Finding {
        figure: usual.median,
        trials: usual.count,
        note: format!(
            "{link}; half of the files within {:.0} and {:.0}{SPACE}%; {:.1}{SPACE}% of HTTPS with the same suite",
            usual.low, usual.high, same.median
        ),
    })
}

fn origin_time(rows: &[Row]) -> Option<Finding> {
    let micros =
        |delivery, figure: fn(&Row) -> f64| single(rows, Part::Origin, delivery, MEGABYTE, figure);
    let both = |row: &Row| (row.origin_us + row.server_us) as f64;
    let warm = micros(Delivery::Warm, both)?;
    let usual = micros(Delivery::Https, both)?;
    let alone = micros(Delivery::Warm, |row| row.origin_us as f64)?;
    let same = micros(Delivery::HttpsCbc, both)?;
    Some(Finding {
        figure: 100.0 * warm / usual,
        trials: trials(rows, Part::Origin, Delivery::Warm, MEGABYTE),
        note: format!(
            "{:.0}{SPACE}% the origin alone; both {:.0}{SPACE}% of HTTPS with the same suite",
            100.0 * alone / usual,
            100.0 * warm / same
        ),
    })
}

fn throughput(rows: &[Row]) -> Option<Finding> {
    let size = of(rows, Part::Volunteer).map(Row::body_bytes).max()?;
    let rate = |delivery, micros: fn(&Row) -> f64| {
        single(rows, Part::Volunteer, delivery, size, |row| {
            row.body_bytes() as f64 / micros(row)
        })
    };
    let processor = |delivery| rate(delivery, tables::micros_near);
    let wall = |delivery| rate(delivery, |row| row.seconds * 1e6);
    let warm = processor(Delivery::Warm)?;
    Some(Finding {
        figure: 100.0 * warm / processor(Delivery::Https)?,
        trials: trials(rows, Part::Volunteer, Delivery::Warm, size),
        note: format!(
            "{:.0}{SPACE}% of HTTPS with the same suite; by the clock of one client {:.0}{SPACE}% of HTTPS",
            100.0 * warm / processor(Delivery::HttpsCbc)?,
            100.0 * wall(Delivery::Warm)? / wall(Delivery::Https)?
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;
    use crate::verdict::Outcome;

    fn verdict(rows: &[Row], id: &str) -> (Option<f64>, String) {
        let bars = check(rows);
        let bar = bars.iter().find(|bar| bar.id == id).expect("a bar");
        (bar.measured, bar.verdict())
    }

    #[test]
    fn what_is_saved_is_held_against_the_bar_and_the_aim() {
        let rows = |warm| {
            vec![
                row(Part::Sizes, Delivery::Http, MEGABYTE, 1_000_000),
                row(Part::Sizes, Delivery::Https, MEGABYTE, 1_050_000),
                row(Part::Sizes, Delivery::Warm, MEGABYTE, warm),
            ]
        };
        let (saved, words) = verdict(&rows(5_000), "split-warm");
        assert!((saved.expect("measured") - 99.5).abs() < 1e-9);
        assert_eq!(words, "reached");
        assert_eq!(verdict(&rows(2_900), "split-warm").1, "reached, target too");
        assert_eq!(
            verdict(&rows(7_000), "split-warm").1,
            "missed by 0.20\u{a0}points"
        );
    }

    #[test]
    fn the_server_behind_counts_with_the_origin() {
        let took = |delivery, origin_us, server_us| Row {
            origin_us,
            server_us,
            ..row(Part::Origin, delivery, MEGABYTE, 1)
        };
        let rows = [
            took(Delivery::Https, 0, 4_000),
            took(Delivery::HttpsCbc, 0, 8_000),
            took(Delivery::Warm, 3_000, 2_000),
        ];
        assert_eq!(
            verdict(&rows, "split-origin-cpu"),
            (Some(125.0), "missed by 45.0\u{a0}points".to_owned())
        );
    }

    #[test]
    fn without_rows_nothing_is_measured() {
        for bar in check(&[]) {
            assert_eq!(bar.outcome, Outcome::NotMeasured, "{}", bar.id);
        }
    }
}
