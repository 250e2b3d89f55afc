//! The figures that multi-context TLS has to reach, and whether the rows say that it does.

use super::{
    Party, Strategy, bulk, capacity, case, first_byte, handshake, median, of, overheads, strategies,
};
use crate::mctls_row::{McArm, McPart, McRow};
use crate::number::{self, SPACE};
use crate::stats::Spread;
use crate::verdict::{BarResult, Bound, Finding, Unit};

/// Holds every bar against the rows.
pub(crate) fn check(rows: &[McRow]) -> Vec<BarResult> {
    let open = |id, what, case, unit, bound, bar, target, thesis| BarResult {
        target: Some(target),
        thesis,
        ..BarResult::open(id, what, case, unit, bound, bar)
    };
    let (most, least) = (Bound::AtMost, Bound::AtLeast);
    let split = Unit::PercentOfSplitTls;
    vec![
        open(
            "mctls-handshake",
            "Bytes of a handshake",
            "mctls13, 1 context, 1 middlebox, no ML-KEM",
            Unit::Bytes,
            most,
            3_898.0,
            2_999.0,
            Some("3,899 bytes"),
        )
        .held(handshake_bytes(rows)),
        open(
            "mctls-further",
            "Bytes of each further middlebox",
            "mctls13, 1 context",
            Unit::Bytes,
            most,
            1_999.0,
            1_199.0,
            Some("1,739 bytes"),
        )
        .held(further(rows)),
        open(
            "mctls-overhead",
            "Bytes that records add",
            "mctls13, four contexts, median page",
            Unit::PercentAdded,
            most,
            2.4,
            1.0,
            Some("2.4 %"),
        )
        .held(overhead(rows)),
        open(
            "mctls-server",
            "Server's connections a second",
            "mctls13, 1 context",
            split,
            least,
            90.0,
            100.0,
            Some("65 to 77 %"),
        )
        .held(rate(rows, McArm::Mctls13, Party::Server)),
        open(
            "mctls12-server",
            "Server's connections a second",
            "mctls12, 1 context",
            split,
            least,
            90.0,
            100.0,
            Some("65 to 77 %"),
        )
        .held(rate(rows, McArm::Mctls12, Party::Server)),
        open(
            "mctls-middlebox",
            "Middlebox's connections a second",
            "mctls13, 1 context",
            split,
            least,
            175.0,
            250.0,
            Some("145 to 175 %"),
        )
        .held(rate(rows, McArm::Mctls13, Party::Middlebox)),
        open(
            "mctls12-middlebox",
            "Middlebox's connections a second",
            "mctls12, 1 context",
            split,
            least,
            175.0,
            250.0,
            Some("145 to 175 %"),
        )
        .held(rate(rows, McArm::Mctls12, Party::Middlebox)),
        open(
            "mctls-bulk",
            "Bulk through a reader that forwards",
            "mctls13, of end-to-end TLS",
            Unit::PercentOfEndToEndTls,
            least,
            90.0,
            100.0,
            None,
        )
        .held(bulk_of_tls(rows)),
        open(
            "mctls-first-byte",
            "Time to the first byte",
            "mctls13, 1 context, 1 middlebox",
            split,
            most,
            105.0,
            100.0,
            Some("about 100 %"),
        )
        .held(first_byte_of_split(rows)),
    ]
}

fn handshake_bytes(rows: &[McRow]) -> Option<Finding> {
    let bytes = |arm| handshake(rows, arm, 1, 1);
    Some(Finding {
        figure: bytes(McArm::Mctls13)?,
        trials: case(rows, McPart::Handshake, McArm::Mctls13, 1, 1).count(),
        note: format!(
            "on the client's link; mctls12 {}, split TLS {}, end-to-end TLS {}",
            words(bytes(McArm::Mctls12)),
            words(bytes(McArm::SplitTls)),
            words(bytes(McArm::EndToEndTls))
        ),
    })
}

fn words(figure: Option<f64>) -> String {
    figure.map_or_else(|| number::ABSENT.to_owned(), number::count)
}

fn further(rows: &[McRow]) -> Option<Finding> {
    let more = |arm| Some(handshake(rows, arm, 2, 1)? - handshake(rows, arm, 1, 1)?);
    Some(Finding {
        figure: more(McArm::Mctls13)?,
        trials: case(rows, McPart::Handshake, McArm::Mctls13, 2, 1).count(),
        note: format!(
            "from one to two, parties that meet for the first time; mctls12 {}",
            words(more(McArm::Mctls12))
        ),
    })
}

fn overhead(rows: &[McRow]) -> Option<Finding> {
    let spread = |arm, strategy| {
        Spread::of(
            overheads(rows, arm, strategy)
                .into_iter()
                .map(|share| 100.0 * share),
        )
    };
    let ours = spread(McArm::Mctls13, Some(Strategy::Four))?;
    let others = McArm::ALL.into_iter().filter(|arm| *arm != McArm::None);
    let mut notes = Vec::new();
    for arm in others {
        for strategy in strategies(arm) {
            let is_ours = (arm, strategy) == (McArm::Mctls13, Some(Strategy::Four));
            if let (false, Some(spread)) = (is_ours, spread(arm, strategy)) {
                let strategy = strategy.map_or("", Strategy::label);
                let name = format!("{} {strategy}", arm.label());
                notes.push(format!("{} {:.2}{SPACE}%", name.trim(), spread.median));
            }
        }
    }
    Some(Finding {
        figure: ours.median,
        trials: ours.count,
        note: notes.join(", "),
    })
}

fn rate(rows: &[McRow], arm: McArm, party: Party) -> Option<Finding> {
    let capacity = |arm, contexts| capacity(rows, arm, contexts, party);
    let split = capacity(McArm::SplitTls, 1)?;
    let ours = capacity(arm, 1)?;
    let contexts = super::numbers(rows, McPart::Connections, |row| row.contexts);
    let most = contexts.last().copied().unwrap_or(1);
    let more = match most {
        1 => String::new(),
        most => format!(
            "; with {most} contexts {}{SPACE}%",
            words(capacity(arm, most).map(|rate| 100.0 * rate / split))
        ),
    };
    Some(Finding {
        figure: 100.0 * ours / split,
        trials: case(rows, McPart::Connections, arm, 1, 1).count(),
        note: format!(
            "worked out from processor time: {} against {}{more}; {}",
            number::count(ours),
            number::count(split),
            match arm {
                McArm::Mctls13 => "legs are resumed, but for a batch's first",
                _ => "no resumption",
            }
        ),
    })
}

fn bulk_of_tls(rows: &[McRow]) -> Option<Finding> {
    let ours = bulk(rows, McArm::Mctls13)?;
    let plain = bulk(rows, McArm::EndToEndTls)?;
    let like = |arm| of(rows, McPart::Bulk).filter(move |row| row.arm == arm);
    let busiest = |arm| {
        let most = |row: &McRow| row.client_us.max(row.middlebox_us).max(row.server_us) as f64;
        median(like(arm), most)
    };
    let of_tls = |figure: Option<f64>, other: Option<f64>| {
        words(figure.zip(other).map(|(ours, other)| 100.0 * ours / other))
    };
    Some(Finding {
        figure: 100.0 * ours / plain,
        trials: like(McArm::Mctls13).count(),
        note: format!(
            "{:.0} against {:.0}{SPACE}MB/s by the clock; by the processor time of the busiest party {}{SPACE}%; \
             mctls12 {}{SPACE}%, split TLS {}{SPACE}%",
            ours / 1e6,
            plain / 1e6,
            of_tls(busiest(McArm::EndToEndTls), busiest(McArm::Mctls13)),
            of_tls(bulk(rows, McArm::Mctls12), Some(plain)),
            of_tls(bulk(rows, McArm::SplitTls), Some(plain))
        ),
    })
}

fn first_byte_of_split(rows: &[McRow]) -> Option<Finding> {
    let seconds = |arm| first_byte(rows, arm, 1, 1);
    let ours = seconds(McArm::Mctls13)?;
    let split = seconds(McArm::SplitTls)?;
    let milliseconds = |arm| words(seconds(arm).map(|seconds| 1e3 * seconds));
    Some(Finding {
        figure: 100.0 * ours / split,
        trials: case(rows, McPart::FirstByte, McArm::Mctls13, 1, 1).count(),
        note: format!(
            "{:.0} against {:.0}{SPACE}ms; mctls12 {}, end-to-end TLS {}, no encryption {}",
            1e3 * ours,
            1e3 * split,
            milliseconds(McArm::Mctls12),
            milliseconds(McArm::EndToEndTls),
            milliseconds(McArm::None)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;
    use crate::verdict::Outcome;

    fn verdict(rows: &[McRow], id: &str) -> (Option<f64>, String) {
        let bars = check(rows);
        let bar = bars.iter().find(|bar| bar.id == id);
        let bar = bar.expect("there is such a bar");
        (bar.measured, bar.verdict())
    }

    #[test]
    fn bytes_are_held_against_the_prototype() {
        let sent = |middleboxes, stream_up| McRow {
            middleboxes,
            stream_up,
            stream_down: 0,
            ..row(McPart::Handshake, McArm::Mctls13)
        };
        let rows = [sent(1, 3_899), sent(2, 5_000)];
        assert_eq!(
            verdict(&rows, "mctls-handshake"),
            (Some(3_899.0), "missed by 1\u{a0}bytes".to_owned())
        );
        assert_eq!(
            verdict(&rows, "mctls-further"),
            (Some(1_101.0), "reached, target too".to_owned())
        );
    }

    #[test]
    fn rates_are_shares_of_those_of_split_tls() {
        let took = |arm, server_us, middlebox_us| McRow {
            connections: 10,
            server_us,
            middlebox_us,
            ..row(McPart::Connections, arm)
        };
        let rows = [
            took(McArm::SplitTls, 1_000, 2_000),
            took(McArm::Mctls13, 2_000, 1_000),
            took(McArm::Mctls12, 1_000, 800),
        ];
        assert_eq!(
            verdict(&rows, "mctls-server"),
            (Some(50.0), "missed by 40.0\u{a0}points".to_owned())
        );
        assert_eq!(verdict(&rows, "mctls-middlebox").1, "reached");
        assert_eq!(verdict(&rows, "mctls12-server").1, "reached, target too");
        assert_eq!(verdict(&rows, "mctls12-middlebox").0, Some(250.0));
    }

    #[test]
    fn without_rows_nothing_is_measured() {
        for bar in check(&[]) {
            assert_eq!(bar.outcome, Outcome::NotMeasured, "{}", bar.id);
        }
    }
}
