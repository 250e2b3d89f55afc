//! What the packets of a handshake are made of, as stacked bars: one an arm, with its floor.

use super::super::apart::{ABOUT, Apart, PARTS, sentence};
use super::super::cases::Case;
use super::super::number::{self, SPACE};
use super::super::scale::{Scale, tick_label};
use super::super::svg::{Anchor, GRID, INK, LABEL, SMALL, STRONG, Svg, clipped, width_of};
use super::legend::{self, Entry, Swatch};
use super::{FULL, Figure};

/// Cases that are drawn; the table has all of them.
const MAX_CASES: usize = 16;

/// Width of the labels on the left, and of the sums on the right.
const LABELS: f64 = 190.0;
const SUMS: f64 = 90.0;
const HEADING: f64 = 24.0;
const BAR: f64 = 18.0;
const LANE: f64 = 24.0;
const TICKS: usize = 6;

/// The figure; `None` where no handshake was taken apart.
pub(crate) fn parts(cases: &[Case]) -> Option<Figure> {
    let shown: Vec<(&Case, Vec<Apart>)> = cases
        .iter()
        .map(|case| (case, Apart::of(case)))
        .filter(|(_, all)| !all.is_empty())
        .take(MAX_CASES)
        .collect();
    let all = || shown.iter().flat_map(|(_, all)| all);
    let largest = all().map(|apart| apart.parts.total()).max()?;
    let entries: Vec<Entry> = PARTS
        .iter()
        .map(|part| (Swatch::Filled(part.colour), part.label.to_owned()))
        .collect();
    let top = legend::height(&entries, FULL) + 12.0;
    let bottom = top + shown.len() as f64 * HEADING + all().count() as f64 * LANE;
    let mut svg = Svg::new("parts", FULL, bottom + 40.0);
    legend::draw(&mut svg, &entries, (0.0, 0.0), FULL);
    let scale = Scale::linear(largest as f64, TICKS, (LABELS, FULL - SUMS));
    for tick in scale.ticks(TICKS) {
        let x = scale.at(tick);
        svg.line((x, top), (x, bottom), GRID, 1.0);
        let label = tick_label(tick);
        svg.text((x, bottom + 16.0), Anchor::Middle, SMALL, &label);
    }
    let middle = (LABELS + FULL - SUMS) / 2.0;
    let axis = "IP bytes until Finished; the black line is the floor";
    svg.text((middle, bottom + 34.0), Anchor::Middle, SMALL, axis);
    let mut y = top;
    for (case, all) in &shown {
        let words = format!("{}, {}", case.link, case.endpoints);
        svg.text(
            (0.0, y + HEADING - 6.0),
            Anchor::Start,
            STRONG,
            &clipped(&words, STRONG, FULL),
        );
        y += HEADING;
        for apart in all {
            bar(&mut svg, apart, &scale, y);
            y += LANE;
        }
    }
    let sentence = sentence(cases).map_or_else(String::new, |words| format!("{words} "));
    Some(Figure {
        name: "parts".to_owned(),
        title: "What the bytes of a handshake are".to_owned(),
        caption: format!("{sentence}{ABOUT}"),
        svg: svg.finish("The IP bytes of a handshake through packet mode and through the tunnel, by what they are"),
    })
}

fn bar(svg: &mut Svg, apart: &Apart, scale: &Scale, y: f64) {
    let label = apart.arm.look().label;
    svg.text(
        (12.0, y + BAR - 4.0),
        Anchor::Start,
        LABEL,
        &clipped(label, LABEL, LABELS - 20.0),
    );
    let mut before = 0;
    for part in &PARTS {
        let bytes = (part.bytes)(&apart.parts);
        let (from, to) = (scale.at(before as f64), scale.at((before + bytes) as f64));
        svg.rectangle((from, y), (to - from, BAR), part.colour);
        before += bytes;
    }
    let floor = scale.at(apart.floor as f64);
    svg.line((floor, y - 2.0), (floor, y + BAR + 2.0), INK, 2.0);
    let end = scale.at(before as f64);
    let sum = format!("{}{SPACE}bytes", number::count(before as f64));
    let left = (end + 6.0).min(FULL - width_of(&sum, LABEL));
    svg.text((left, y + BAR - 4.0), Anchor::Start, LABEL, &sum);
}

#[cfg(test)]
mod tests {
    use super::super::super::apart::tests::cases;
    use super::*;

    #[test]
    fn each_part_has_a_stretch_and_each_bar_its_sum() {
        let figure = parts(&cases()).expect("there is something to draw");
        assert!(
            figure.caption.contains("could be avoided"),
            "{}",
            figure.caption
        );
        for part in &PARTS {
            // In the legend, and in both bars.
            let stretches = figure.svg.matches(part.colour).count();
            assert_eq!(stretches, 3, "{}", part.label);
        }
        assert!(figure.svg.contains(">790\u{a0}bytes<"), "{}", figure.svg);
    }

    #[test]
    fn without_parts_there_is_no_figure() {
        assert!(parts(&[]).is_none());
    }
}
