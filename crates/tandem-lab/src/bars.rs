//! The figures that must be reached to call the work done, as the lab's own page has them, held against results.
//!
//! Only those that packet mode's experiments can show: tunnel mode, sealed handshakes and the engine alone have their own
//! measurements. Medians of one run; a bar without rows is said to be open.

use crate::arm::Arm;
use crate::endpoints::Endpoints;
use crate::summary::{Cell, find};

/// What a result must stay below.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bar {
    /// What is measured, with its case and link.
    pub(crate) what: String,
    /// What must hold.
    pub(crate) bar: f64,
    /// Where it should end.
    pub(crate) aim: f64,
    /// What the thesis had, in words; empty where it has nothing to compare.
    pub(crate) thesis: &'static str,
    /// What was measured; `None` without rows.
    pub(crate) measured: Option<f64>,
    /// How to write these numbers.
    pub(crate) unit: Unit,
}

/// The unit of a bar's three numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A share of plain's figure.
    ShareOfPlain,
    /// Milliseconds.
    Milliseconds,
}

/// Where a measurement stands to its bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// At the aim or below.
    Aim,
    /// At the bar or below.
    Reached,
    /// Above the bar.
    Missed,
    /// Nothing was measured.
    Open,
}

impl Bar {
    /// Where the measurement stands.
    pub(crate) fn standing(&self) -> Standing {
        match self.measured {
            None => Standing::Open,
            Some(measured) if measured <= self.aim => Standing::Aim,
            Some(measured) if measured <= self.bar => Standing::Reached,
            Some(_) => Standing::Missed,
        }
    }

    /// In words, with the distance.
    pub(crate) fn verdict(&self) -> String {
        let Some(measured) = self.measured else {
            return "not measured".to_owned();
        };
        match self.standing() {
            Standing::Aim => "aim reached".to_owned(),
            Standing::Reached => format!(
                "bar reached, {} above the aim",
                self.distance(measured - self.aim)
            ),
            Standing::Missed => format!("missed by {}", self.distance(measured - self.bar)),
            Standing::Open => String::new(),
        }
    }

    /// A number of this bar with its unit.
    pub(crate) fn number(&self, number: f64) -> String {
        match self.unit {
            Unit::ShareOfPlain => format!("{:.1} %", number * 100.0),
            Unit::Milliseconds => format!("{number:.2} ms"),
        }
    }

    fn distance(&self, number: f64) -> String {
        match self.unit {
            Unit::ShareOfPlain => format!("{:.1} points", number * 100.0),
            Unit::Milliseconds => format!("{number:.2} ms"),
        }
    }
}

/// The fast link of the bars.
const FAST: &str = "tcdl-10";

/// The slow one.
const SLOW: &str = "iridium";

/// All of them, with what `cells` measured.
pub(crate) fn bars(cells: &[Cell<'_>]) -> Vec<Bar> {
    let mut bars = Vec::new();
    for (case, bar, aim, thesis) in [
        ("one", 0.52, 0.45, "50 %"),
        ("three", 0.33, 0.25, ""),
        ("curl", 0.36, 0.28, ""),
    ] {
        for link in [FAST, SLOW] {
            bars.push(Bar {
                what: format!("TLS bytes on the link, warm, case {case}, {link}"),
                bar,
                aim,
                thesis,
                measured: ratio(cells, link, case, |cell| cell.tls_bytes()),
                unit: Unit::ShareOfPlain,
            });
        }
    }
    for (case, bar, aim, thesis) in [
        ("one", 0.72, 0.65, "70 % (9.5 s to 6.7 s)"),
        ("three", 0.50, 0.45, ""),
    ] {
        bars.push(Bar {
            what: format!("time to the first byte, warm, case {case}, {SLOW}"),
            bar,
            aim,
            thesis,
            measured: ratio(cells, SLOW, case, |cell| cell.seconds_first_byte()),
            unit: Unit::ShareOfPlain,
        });
    }
    for endpoints in [Endpoints::one(), Endpoints::three(), Endpoints::curl()] {
        let case = endpoints.name.as_str();
        let millis = |arm| {
            find(cells, FAST, case, arm)
                .and_then(|cell| cell.seconds_first_byte())
                .map(|seconds| seconds * 1e3)
        };
        let plain = millis(Arm::Plain);
        bars.push(Bar {
            what: format!("time added to the first byte, warm, case {case}, {FAST}"),
            // The larger of 5 % and 2 ms.
            bar: plain.map_or(2.0, |plain| (plain * 0.05).max(2.0)),
            aim: 1.0,
            thesis: "440 ms",
            measured: millis(Arm::Packet)
                .zip(plain)
                .map(|(own, plain)| own - plain),
            unit: Unit::Milliseconds,
        });
        bars.push(Bar {
            what: format!("processor time of both proxies for a handshake, case {case}, {FAST}"),
            bar: 1.0,
            aim: 0.2,
            thesis: "200 ms",
            measured: find(cells, FAST, case, Arm::Packet)
                .and_then(|cell| cell.median(|row| Some(row.proxy_cpu_us as f64 / 1e3))),
            unit: Unit::Milliseconds,
        });
    }
    bars
}

/// Warm packet mode's figure as a share of plain's.
fn ratio(
    cells: &[Cell<'_>],
    link: &str,
    case: &str,
    figure: fn(&Cell<'_>) -> Option<f64>,
) -> Option<f64> {
    let of = |arm| find(cells, link, case, arm).and_then(figure);
    let plain = of(Arm::Plain).filter(|plain| *plain > 0.0)?;
    Some(of(Arm::Packet)? / plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{cells, tests::row};

    #[test]
    fn bars_are_reached_missed_or_open() {
        let rows = [
            row("iridium", "one", Arm::Plain, 10.0, 2000),
            row("iridium", "one", Arm::Packet, 7.0, 1100),
            row("tcdl-10", "one", Arm::Plain, 0.010, 2000),
            row("tcdl-10", "one", Arm::Packet, 0.0105, 900),
        ];
        let cells = cells(&rows);
        let bars = bars(&cells);
        let standing = |what: &str| {
            bars.iter()
                .find(|bar| bar.what.contains(what))
                .map(Bar::standing)
        };
        assert_eq!(standing("case one, iridium"), Some(Standing::Missed));
        assert_eq!(
            standing("TLS bytes on the link, warm, case one, tcdl-10"),
            Some(Standing::Aim)
        );
        assert_eq!(
            standing("first byte, warm, case one, iridium"),
            Some(Standing::Reached)
        );
        assert_eq!(
            standing("added to the first byte, warm, case one"),
            Some(Standing::Aim)
        );
        assert_eq!(standing("processor time"), Some(Standing::Reached));
        assert_eq!(standing("case three, iridium"), Some(Standing::Open));
    }

    #[test]
    fn the_distance_is_told() {
        let bar = Bar {
            what: String::new(),
            bar: 0.52,
            aim: 0.45,
            thesis: "",
            measured: Some(0.55),
            unit: Unit::ShareOfPlain,
        };
        assert_eq!(bar.verdict(), "missed by 3.0 points");
        assert_eq!(bar.number(0.52), "52.0 %");
    }
}
