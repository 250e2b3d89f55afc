//! Bytes on the link against the size of the server's chain: what grows with it, and what does not.

use super::super::cases::{Case, Measure};
use super::super::scale::{Scale, tick_label};
use super::super::svg::{Anchor, FAINT, GRID, INK, SMALL, Svg};
use super::{Figure, HALF, legend};
use crate::arm::Arm;

const LEFT: f64 = 58.0;
const RIGHT: f64 = 24.0;
const HEIGHT: f64 = 230.0;

/// What is drawn; the queue alone and a first contact are as plain.
const ARMS: [Arm; 3] = [Arm::Plain, Arm::Packet, Arm::PacketMcveety];

/// The figure; `None` where no run has chains of two sizes.
pub(crate) fn sizes(cases: &[Case]) -> Option<Figure> {
    let series = widest(cases)?;
    let arms: Vec<Arm> = ARMS
        .into_iter()
        .filter(|arm| {
            series
                .iter()
                .any(|case| case.spread(*arm, Measure::TlsBytes).is_some())
        })
        .collect();
    let entries = legend::marks(&arms);
    let top = legend::height(&entries, HALF) + 26.0;
    let bottom = top + HEIGHT;
    let largest_bytes = series
        .iter()
        .flat_map(|case| arms.iter().filter_map(|arm| bytes(case, *arm)))
        .fold(0.0, f64::max);
    let largest_chain = series.last()?.certificate_bytes() as f64;
    let y = Scale::linear(largest_bytes, 5, (bottom, top));
    let x = Scale::linear(largest_chain, 5, (LEFT, HALF - RIGHT));
    let mut svg = Svg::new("certificate-size", HALF, bottom + 52.0);
    legend::draw(&mut svg, &entries, (0.0, 0.0), HALF);
    for tick in y.ticks(5) {
        svg.line((LEFT, y.at(tick)), (HALF - RIGHT, y.at(tick)), GRID, 1.0);
        svg.text(
            (LEFT - 6.0, y.at(tick) + 4.0),
            Anchor::End,
            SMALL,
            &tick_label(tick),
        );
    }
    for tick in x.ticks(5) {
        svg.line((x.at(tick), bottom), (x.at(tick), bottom + 4.0), INK, 1.0);
        svg.text(
            (x.at(tick), bottom + 17.0),
            Anchor::Middle,
            SMALL,
            &tick_label(tick),
        );
    }
    svg.line((LEFT, bottom), (HALF - RIGHT, bottom), INK, 1.0);
    svg.upright_text((11.0, (top + bottom) / 2.0), SMALL, "TLS bytes on the link");
    svg.text(
        ((LEFT + HALF - RIGHT) / 2.0, bottom + 36.0),
        Anchor::Middle,
        SMALL,
        "DER bytes of the server's chain",
    );
    let distinct = distinct_sizes(&series) == series.len();
    for arm in arms {
        let points: Vec<(f64, f64)> = series
            .iter()
            .filter_map(|case| {
                bytes(case, arm).map(|bytes| (x.at(case.certificate_bytes() as f64), y.at(bytes)))
            })
            .collect();
        // Of two endpoints with the same chain a line would only show that their hellos differ.
        if distinct {
            svg.path(&points, arm.look().colour, 1.5);
        }
        for point in points {
            svg.mark(point, arm.look().shape, arm.look().colour);
        }
    }
    for case in label_once(&series) {
        let at = x.at(case.certificate_bytes() as f64);
        svg.line((at, bottom), (at, bottom - 4.0), FAINT, 1.0);
    }
    let first = series.first()?;
    let what = if distinct {
        format!("chains of {} sizes", series.len())
    } else {
        let names: Vec<&str> = series.iter().map(|case| case.endpoints.as_str()).collect();
        format!("endpoints {}", names.join(", "))
    };
    Some(Figure {
        name: "certificate-size".to_owned(),
        title: "Bytes against certificate size".to_owned(),
        caption: format!(
            "Medians of {what}, {}, TLS {}, on {}, experiment {}.",
            first.key, first.version, first.link, first.experiment
        ),
        svg: svg.finish("TLS bytes on the link against the size of the server's certificates"),
    })
}

fn bytes(case: &Case, arm: Arm) -> Option<f64> {
    case.spread(arm, Measure::TlsBytes)
        .map(|spread| spread.median)
}

/// The cases of the run and link with the most different chains, growing; the fastest such link,
/// since there nothing is sent twice.
fn widest(cases: &[Case]) -> Option<Vec<&Case>> {
    let mut best: Option<Vec<&Case>> = None;
    for case in cases {
        let mut series: Vec<&Case> = cases
            .iter()
            .filter(|other| {
                (&other.run, &other.experiment, &other.link)
                    == (&case.run, &case.experiment, &case.link)
            })
            .collect();
        series.sort_by_key(|case| case.certificate_bytes());
        let count = distinct_sizes(&series);
        // Links come slowest first, so that the last of equals is the fastest.
        if count >= 2
            && best
                .as_ref()
                .is_none_or(|best| count >= distinct_sizes(best))
        {
            best = Some(series);
        }
    }
    best
}

fn distinct_sizes(series: &[&Case]) -> usize {
    label_once(series).count()
}

/// One case of each size.
fn label_once<'a>(series: &'a [&'a Case]) -> impl Iterator<Item = &'a Case> {
    series
        .iter()
        .enumerate()
        .filter(|(index, case)| {
            index
                .checked_sub(1)
                .is_none_or(|before| series[before].certificate_bytes() != case.certificate_bytes())
        })
        .map(|(_, case)| *case)
}
