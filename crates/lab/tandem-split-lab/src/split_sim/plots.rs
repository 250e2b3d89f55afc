//! What was simulated, drawn.

use tandem_report::draw::{Anchor, Axis, Chart, Drawn, Kind, Look, Series, Shape, Swatch};

use super::plan::{Group, Planned};
use super::{IN_TIME, Run};

/// Colours and marks of the report, by the names of runs.
const LOOKS: [Look; 4] = [
    Look {
        colour: "#E69F00",
        shape: Shape::Triangle,
        label: "HTTPS, no volunteers",
    },
    Look {
        colour: "#D55E00",
        shape: Shape::Wedge,
        label: "cold, each alone",
    },
    Look {
        colour: "#56B4E9",
        shape: Shape::Ring,
        label: "cold, with peers",
    },
    Look {
        colour: "#0072B2",
        shape: Shape::Disc,
        label: "warm",
    },
];

/// Share of clients that are served in time, against the rate of the origin's line.
pub(super) fn line(runs: &[Run]) -> String {
    chart(
        Chart {
            name: "split-simulation-line",
            description: "Simulated: clients of a flash crowd, served within 30 s".to_owned(),
            x: Axis {
                kind: Kind::Logarithmic,
                title: "kbit/s of the origin's line (log scale)",
            },
            y: Axis {
                kind: Kind::Linear,
                title: "% of all clients",
            },
            legend: Vec::new(),
            series: Vec::new(),
            reference: Some((100.0, "all", Anchor::Start)),
        },
        Drawn::LineWithMarks,
        |label| {
            let like = of(runs, Group::Line, label);
            let points = like.map(|run| {
                let kilobits = run.planned.scenario.line_bits as f64 / 1e3;
                (kilobits, run.outcome.served_within[IN_TIME] * 100.0)
            });
            points.collect()
        },
    )
}

/// What the origin's line has carried, as time goes by.
pub(super) fn time(runs: &[Run]) -> String {
    chart(
        Chart {
            name: "split-simulation-time",
            description: "Simulated: what the origin's line carries for a crowd".to_owned(),
            x: Axis {
                kind: Kind::Linear,
                title: "hours",
            },
            y: Axis {
                kind: Kind::Linear,
                title: "MB",
            },
            legend: Vec::new(),
            series: Vec::new(),
            reference: None,
        },
        |_| Drawn::Line,
        |label| {
            let like = of(runs, Group::Spread, label);
            let samples = like.flat_map(|run| &run.outcome.series);
            let points = samples.map(|sample| (sample.at / 3600.0, sample.sent as f64 / 1e6));
            points.collect()
        },
    )
}

fn of<'a>(runs: &'a [Run], group: Group, name: &'a str) -> impl Iterator<Item = &'a Run> {
    let is_meant = move |planned: &Planned| planned.group == group && planned.name == name;
    runs.iter().filter(move |run| is_meant(&run.planned))
}

/// An empty chart with the points of each look.
fn chart(
    mut chart: Chart,
    drawn: impl Fn(Shape) -> Drawn,
    points: impl Fn(&'static str) -> Vec<(f64, f64)>,
) -> String {
    for look in LOOKS {
        let points = points(look.label);
        if points.is_empty() {
            continue;
        }
        chart.series.push(Series {
            points,
            colour: look.colour,
            drawn: drawn(look.shape),
        });
        let entry = (Swatch::Mark(look), look.label.to_owned());
        chart.legend.push(entry);
    }
    chart.draw()
}
