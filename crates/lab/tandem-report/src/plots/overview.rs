//! All cases at a glance: time to the first byte, and time and bytes as a share of plain. One row a
//! case, one mark an arm.

use super::super::cases::{Case, Measure};
use super::super::number;
use super::super::scale::{Scale, tick_label};
use super::super::svg::{Anchor, FAINT, GRID, INK, LABEL, SMALL, STRONG, Svg, clipped};
use super::{FULL, Figure, legend};
use crate::arm::Arm;

/// Cases that are drawn; the table has all of them.
const MAX_CASES: usize = 96;

/// Width of the labels on the left.
const LABELS: f64 = 190.0;
const GAP: f64 = 34.0;
/// Between an arm's mark and the next one's below it.
const LANE: f64 = 9.0;
const HEADING: f64 = 24.0;

/// Ratios beyond this are drawn at the edge, with their figure.
const MAX_RATIO: f64 = 2.0;

/// One of the three columns.
struct Panel {
    title: &'static str,
    left: f64,
    right: f64,
    scale: Scale,
    kind: Content,
}

#[derive(Clone, Copy)]
enum Content {
    /// Median with quartiles.
    Spread(Measure),
    /// Median by the median of plain.
    Ratio(Measure),
}

/// The figure; `None` where no case has a time.
pub(crate) fn overview(cases: &[Case]) -> Option<Figure> {
    let shown: Vec<&Case> = cases
        .iter()
        // Peers have a table of their own: what they compare needs words.
        .filter(|case| !case.has_peers())
        .take(MAX_CASES)
        .collect();
    let arms: Vec<Arm> = Arm::ALL
        .into_iter()
        .filter(|arm| shown.iter().any(|case| case.arm(*arm).is_some()))
        .collect();
    if shown.is_empty() {
        return None;
    }
    let entries = legend::marks(&arms);
    let top = legend::height(&entries, FULL) + 52.0;
    let panels = panels(&shown, &arms);
    let headings = headings(&shown);
    let bottom = top
        + shown.iter().map(|case| row_height(case)).sum::<f64>()
        + headings.iter().filter(|show| **show).count() as f64 * HEADING;
    let mut svg = Svg::new("overview", FULL, bottom + 46.0);
    legend::draw(&mut svg, &entries, (0.0, 0.0), FULL);
    for panel in &panels {
        frame(&mut svg, panel, top, bottom);
    }
    let mut y = top;
    let several = shown
        .iter()
        .any(|case| case.experiment != shown[0].experiment || case.run != shown[0].run);
    for (case, heading) in shown.iter().zip(&headings) {
        if *heading {
            svg.line((0.0, y + 4.0), (FULL, y + 4.0), GRID, 1.0);
            let mut words = case.link.clone();
            if several {
                words = format!("{words}, {}", case.experiment);
            }
            svg.text(
                (0.0, y + HEADING - 4.0),
                Anchor::Start,
                STRONG,
                &clipped(&words, STRONG, LABELS - 8.0),
            );
            y += HEADING;
        }
        let row = row_height(case);
        svg.text(
            (12.0, y + row / 2.0 + 4.0),
            Anchor::Start,
            LABEL,
            &clipped(&case.endpoints, LABEL, LABELS - 20.0),
        );
        let first = y + (row - (case.arms.len() as f64 - 1.0) * LANE) / 2.0;
        for panel in &panels {
            for (index, arm) in case.arms.iter().enumerate() {
                point(&mut svg, panel, case, arm.arm, first + index as f64 * LANE);
            }
        }
        y += row;
    }
    Some(Figure {
        name: "overview".to_owned(),
        title: "Every link and every pair of endpoints".to_owned(),
        caption: caption(cases, shown.len()),
        svg: svg.finish("Seconds to the first byte, and time and bytes as a share of plain, of every case and arm"),
    })
}

fn row_height(case: &Case) -> f64 {
    case.arms.len() as f64 * LANE + 10.0
}

/// Before which cases the link is named.
fn headings(shown: &[&Case]) -> Vec<bool> {
    (0..shown.len())
        .map(|index| {
            index.checked_sub(1).is_none_or(|before| {
                let (a, b) = (shown[before], shown[index]);
                (&a.link, &a.run, &a.experiment) != (&b.link, &b.run, &b.experiment)
            })
        })
        .collect()
}

fn panels(shown: &[&Case], arms: &[Arm]) -> [Panel; 3] {
    let width = (FULL - LABELS - 2.0 * GAP - 16.0) / 3.0;
    let left = |index: f64| LABELS + index * (width + GAP);
    let all = |figure: &dyn Fn(&Case, Arm) -> Option<f64>| -> Vec<f64> {
        shown
            .iter()
            .flat_map(|case| arms.iter().filter_map(|arm| figure(case, *arm)))
            .collect()
    };
    let seconds = all(&|case, arm| {
        case.spread(arm, Measure::FirstByte)
            .map(|spread| spread.high)
    });
    let ratio = |measure: Measure, pixels: (f64, f64)| {
        let largest = all(&|case, arm| case.ratio(arm, measure))
            .into_iter()
            .fold(1.0, f64::max);
        Scale::linear(largest.min(MAX_RATIO) * 100.0, 5, pixels)
    };
    let pixels = |index: f64| (left(index), left(index) + width);
    let panel = |index: f64, title, scale, kind| Panel {
        title,
        left: left(index),
        right: left(index) + width,
        scale,
        kind,
    };
    [
        panel(
            0.0,
            "time to the first byte, s",
            Scale::fitting_points(&seconds, 4, pixels(0.0)),
            Content::Spread(Measure::FirstByte),
        ),
        panel(
            1.0,
            "time, % of plain",
            ratio(Measure::FirstByte, pixels(1.0)),
            Content::Ratio(Measure::FirstByte),
        ),
        panel(
            2.0,
            "TLS bytes on the link, % of plain",
            ratio(Measure::TlsBytes, pixels(2.0)),
            Content::Ratio(Measure::TlsBytes),
        ),
    ]
}

fn frame(svg: &mut Svg, panel: &Panel, top: f64, bottom: f64) {
    let title = if panel.scale.is_logarithmic() {
        format!("{} (log scale)", panel.title)
    } else {
        panel.title.to_owned()
    };
    svg.text((panel.left, top - 28.0), Anchor::Start, STRONG, &title);
    for tick in panel.scale.ticks(5) {
        let x = panel.scale.at(tick);
        svg.line((x, top), (x, bottom), GRID, 1.0);
        // Above too: with many cases the lower ones are screens away.
        for y in [top - 8.0, bottom + 16.0] {
            svg.text((x, y), Anchor::Middle, SMALL, &tick_label(tick));
        }
    }
    match panel.kind {
        Content::Spread(_) => {}
        Content::Ratio(_) => {
            let x = panel.scale.at(100.0);
            svg.line((x, top), (x, bottom), FAINT, 1.0);
        }
    }
    svg.line((panel.left, bottom), (panel.right, bottom), INK, 1.0);
    let axis = match panel.kind {
        Content::Spread(_) => "seconds",
        Content::Ratio(_) => "% of plain",
    };
    svg.text(
        ((panel.left + panel.right) / 2.0, bottom + 34.0),
        Anchor::Middle,
        SMALL,
        axis,
    );
}

fn point(svg: &mut Svg, panel: &Panel, case: &Case, arm: Arm, y: f64) {
    let look = arm.look();
    match panel.kind {
        Content::Spread(measure) => {
            if let Some(spread) = case.spread(arm, measure) {
                let (from, to) = (panel.scale.at(spread.low), panel.scale.at(spread.high));
                if to - from > 1.0 {
                    svg.line((from, y), (to, y), look.colour, 2.0);
                }
                svg.mark((panel.scale.at(spread.median), y), look.shape, look.colour);
            }
        }
        // Plain is the line at 100 %.
        Content::Ratio(_) if arm == Arm::Plain => {}
        Content::Ratio(measure) => {
            if let Some(ratio) = case.ratio(arm, measure) {
                let x = panel.scale.at(ratio * 100.0);
                svg.mark((x, y), look.shape, look.colour);
                if ratio > MAX_RATIO {
                    svg.text(
                        (x - 8.0, y + 4.0),
                        Anchor::End,
                        SMALL,
                        &format!("{} →", number::percent(ratio)),
                    );
                }
            }
        }
    }
}

fn caption(cases: &[Case], shown: usize) -> String {
    let mut caption = "Marks are medians, lines go from quartile to quartile where they are wider than the mark. TLS 1.3 hides the first byte: no \
                       time there."
        .to_owned();
    let has_tunnel = |case: &Case| case.arms.iter().any(|figures| figures.arm.is_tunnel());
    if cases.iter().any(has_tunnel) {
        caption.push_str(" What crosses a tunnel is sealed: no TLS bytes there.");
    }
    let peers = cases.iter().filter(|case| case.has_peers()).count();
    let all = cases.len() - peers;
    if peers > 0 {
        caption.push_str(" What Tandem is compared with has tables of its own.");
    }
    if shown < all {
        caption.push_str(&format!(
            " The first {shown} of {all} cases; the table has all."
        ));
    }
    caption
}
