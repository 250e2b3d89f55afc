//! The page's drawings: where the time of a connection goes, how latencies are spread, and what
//! more reuse of sessions brings.

use tandem_measure::{Outcome, Phase, Trial};
use tandem_report::draw::{
    Anchor, Axis, Chart, Drawn, Entry, FULL, Kind as AxisKind, LABEL, Look, SMALL, Series, Shape,
    Svg, Swatch, draw_legend, legend_height,
};

use crate::table::milliseconds;

/// Colours that can be told apart without seeing red or green (Okabe and Ito 2008).
const COLOURS: [&str; 6] = [
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9",
];
/// Marks, for those who see no colours.
const SHAPES: [Shape; 6] = [
    Shape::Disc,
    Shape::Square,
    Shape::Diamond,
    Shape::Triangle,
    Shape::Ring,
    Shape::Cross,
];
/// How much rarer the next point of a latency curve is.
const STEP: f64 = 1.12;

/// A drawing with its words.
pub(crate) struct Figure {
    pub(crate) title: &'static str,
    pub(crate) caption: &'static str,
    pub(crate) svg: String,
}

/// All that can be drawn of these.
pub(crate) fn figures(outcomes: &[Outcome]) -> Vec<Figure> {
    let measured: Vec<&Outcome> = outcomes.iter().filter(|one| one.seconds > 0.0).collect();
    [
        search(&measured),
        phases(&measured),
        sweep(&measured),
        latencies(&measured),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Bars of mean times, phase by phase.
fn phases(outcomes: &[&Outcome]) -> Option<Figure> {
    const LEFT: f64 = 250.0;
    const ROW: f64 = 30.0;
    const BAR: f64 = 20.0;
    let rows: Vec<_> = outcomes
        .iter()
        .flat_map(|outcome| outcome.kinds.iter().map(move |kind| (outcome, kind)))
        .filter(|(_, kind)| kind.whole.count > 0)
        .collect();
    let longest = rows
        .iter()
        .map(|(_, kind)| kind.phases.iter().map(|phase| phase.time.mean).sum::<f64>())
        .fold(0.0, f64::max);
    if longest <= 0.0 {
        return None;
    }
    let entries: Vec<_> = Phase::ALL
        .iter()
        .zip(COLOURS)
        .map(|(phase, colour)| (Swatch::Filled(colour), phase.says().to_owned()))
        .collect();
    let top = legend_height(&entries, FULL) + 12.0;
    let width = FULL - LEFT - 80.0;
    let mut svg = Svg::new("phases", FULL, top + ROW * rows.len() as f64 + 4.0);
    draw_legend(&mut svg, &entries, (0.0, 0.0), FULL);
    for ((outcome, kind), row) in rows.iter().zip(0_u32..) {
        let y = top + ROW * f64::from(row);
        let label = format!("{}: {}", outcome.label(), kind.kind.says());
        svg.text((LEFT - 8.0, y + 15.0), Anchor::End, LABEL, &label);
        let mut x = LEFT;
        for phase in &kind.phases {
            let length = phase.time.mean / longest * width;
            svg.rectangle((x, y), (length, BAR), COLOURS[phase.phase.index()]);
            x += length;
        }
        let sum: f64 = kind.phases.iter().map(|phase| phase.time.mean).sum();
        let figure = milliseconds(sum);
        svg.text((x + 6.0, y + 14.0), Anchor::Start, SMALL, &figure);
    }
    Some(Figure {
        title: "Where the time of a connection goes",
        caption: "Mean times at the client. The phases follow each other without a gap and add up to the whole.",
        svg: svg.finish("Mean time of each phase, for full and resumed connections"),
    })
}

/// Rates and latencies over the share of reuse.
fn sweep(outcomes: &[&Outcome]) -> Option<Figure> {
    // Runs of one series: those that differ in something else have no place on its axis.
    let first = outcomes.first()?;
    let mut sorted = outcomes.to_vec();
    sorted.retain(|outcome| {
        let is_alike = outcome.asked == first.asked && outcome.keep_alive == first.keep_alive;
        is_alike && (outcome.resumption == first.resumption || outcome.resumption == "any")
    });
    if sorted.len() < 2 {
        return None;
    }
    sorted.sort_by_key(|outcome| outcome.reuse);
    let share = |outcome: &Outcome| f64::from(outcome.reuse.value());
    let of = |figure: fn(&Outcome) -> f64, place: usize| Series {
        points: sorted
            .iter()
            .map(|outcome| (share(outcome), figure(outcome)))
            .collect(),
        colour: COLOURS[place],
        drawn: Drawn::LineWithMarks(SHAPES[place]),
    };
    let x = Axis {
        kind: AxisKind::Linear,
        title: "connections that reuse a session, %",
    };
    let rate = Chart {
        name: "sweep-rate",
        description: "Connections a second by the share of reused sessions".to_owned(),
        x,
        y: Axis {
            kind: AxisKind::Linear,
            title: "connections/s",
        },
        legend: vec![entry(0, "connections/s")],
        series: vec![of(Outcome::connection_rate, 0)],
        reference: None,
    };
    let latency = Chart {
        name: "sweep-latency",
        description: "Latency by the share of reused sessions".to_owned(),
        x,
        y: Axis {
            kind: AxisKind::Linear,
            title: "latency, ms",
        },
        legend: vec![entry(0, "p50"), entry(1, "p99")],
        series: vec![
            of(|outcome| outcome.latency.p50 as f64 / 1e3, 0),
            of(|outcome| outcome.latency.p99 as f64 / 1e3, 1),
        ],
        reference: None,
    };
    Some(Figure {
        title: "What more reuse of sessions brings",
        caption: "In a closed loop the rate is the result and latency follows from it; in an open loop the rate is given, and latency is the result.",
        svg: format!(
            "<div class=\"pair\">{}{}</div>",
            rate.draw(),
            latency.draw()
        ),
    })
}

/// Latencies over the rates of a search.
fn search(outcomes: &[&Outcome]) -> Option<Figure> {
    let searches: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| Some((outcome, outcome.find_rate.as_ref()?)))
        .take(COLOURS.len())
        .collect();
    let (_, first) = searches.first()?;
    let points = |tried: &[Trial]| {
        let mut points: Vec<(f64, f64)> = tried
            .iter()
            .filter(|trial| trial.p99 > 0)
            .map(|trial| (trial.rate, trial.p99 as f64 / 1e3))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    };
    let chart = Chart {
        name: "search",
        description: "99th percentile of the latency by the rate".to_owned(),
        x: Axis {
            kind: AxisKind::Linear,
            title: "connections/s",
        },
        y: Axis {
            kind: AxisKind::Logarithmic,
            title: "p99, ms",
        },
        legend: searches
            .iter()
            .enumerate()
            .map(|(place, (outcome, _))| entry(place, &outcome.label()))
            .collect(),
        series: searches
            .iter()
            .zip(COLOURS.iter().zip(SHAPES))
            .map(|((_, found), (colour, shape))| Series {
                points: points(&found.tried),
                colour,
                drawn: Drawn::LineWithMarks(shape),
            })
            .collect(),
        reference: Some((first.p99_bound as f64 / 1e3, "bound", Anchor::Start)),
    };
    Some(Figure {
        title: "The highest rate within the bound",
        caption: "Each mark is a run in an open loop. A connection that takes ten times the bound is given up, and counts with that time.",
        svg: chart.draw(),
    })
}

/// How rare which latency is.
fn latencies(outcomes: &[&Outcome]) -> Option<Figure> {
    let shown: Vec<&&Outcome> = outcomes
        .iter()
        .filter(|outcome| outcome.latency.count > 0)
        .take(COLOURS.len())
        .collect();
    if shown.is_empty() {
        return None;
    }
    let chart = Chart {
        name: "latency",
        description: "Latency by how rare it is".to_owned(),
        x: Axis {
            kind: AxisKind::Logarithmic,
            title: "one request in so many takes longer",
        },
        y: Axis {
            kind: AxisKind::Logarithmic,
            title: "latency, ms",
        },
        legend: shown
            .iter()
            .enumerate()
            .map(|(place, outcome)| entry(place, &outcome.label()))
            .collect(),
        series: shown
            .iter()
            .zip(COLOURS)
            .map(|(outcome, colour)| Series {
                points: rarity(&outcome.curve),
                colour,
                drawn: Drawn::Line,
            })
            .collect(),
        reference: None,
    };
    Some(Figure {
        title: "How latencies are spread",
        caption: "From the intended start of a request to the last byte of its answer. At 100: the 99th percentile; at 1,000: the 99.9th.",
        svg: chart.draw(),
    })
}

/// The curve by one request in so many, thinned out.
fn rarity(curve: &[(f64, u64)]) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (share, micros) in curve.iter().filter(|(share, _)| *share < 1.0) {
        let one_in = 1.0 / (1.0 - share);
        if points.last().is_none_or(|last| one_in >= last.0 * STEP) {
            points.push((one_in, *micros as f64 / 1e3));
        }
    }
    if let (true, Some((_, micros))) = (points.is_empty(), curve.last()) {
        points.push((1.0, *micros as f64 / 1e3));
    }
    points
}

fn entry(place: usize, label: &str) -> Entry {
    let look = Look {
        colour: COLOURS[place],
        shape: SHAPES[place],
        label: "",
    };
    (Swatch::Mark(look), label.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_thinned_out_and_keeps_its_order() {
        let curve: Vec<(f64, u64)> = (1..=1_000_u32)
            .map(|number| (f64::from(number) / 1e3, u64::from(number)))
            .collect();
        let points = rarity(&curve);
        assert!((20..100).contains(&points.len()), "{}", points.len());
        assert!(points.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(rarity(&[(1.0, 5_000)]), [(1.0, 5.0)]);
    }
}
