//! Visits over one link: bytes, seconds and a day's money of each arm as a share of plain, with the
//! figures themselves beside the bars. A ring is the first visit, which finds the proxies' stores
//! empty.

use super::super::number;
use super::super::scale::{Scale, tick_label};
use super::super::svg::{Anchor, FAINT, GRID, INK, LABEL, SMALL, STRONG, Shape, Svg, width_of};
use super::super::visits::{VisitCell, VisitedLink, by_visit, money};
use super::FULL;
use super::legend::{self, Swatch};
use crate::arm::Arm;

/// Arms with a bar, from above, and the arm of the first visit beside it.
const BARS: [(Arm, Option<Arm>); 3] = [
    (Arm::Plain, None),
    (Arm::Packet, Some(Arm::PacketCold)),
    (Arm::Tunnel, Some(Arm::TunnelCold)),
];

/// Width of the visits' names.
const NAMES: f64 = 74.0;
const GAP: f64 = 20.0;
const BAR: f64 = 13.0;
const BETWEEN_BARS: f64 = 3.0;
const ROW: f64 = 3.0 * (BAR + BETWEEN_BARS) + 14.0;
/// Room for a figure at the end of a bar.
const FIGURE: f64 = 52.0;
/// Shares beyond this are drawn at the edge.
const MAX_SHARE: f64 = 1.5;

/// What a column shows.
struct Column {
    title: String,
    unit: String,
    of: Of,
}

/// A figure of a cell.
#[derive(Clone, Copy)]
enum Of {
    Bytes,
    Seconds,
    /// The day by the tariff with this number.
    Day(usize),
}

impl Of {
    fn figure(self, cell: &VisitCell) -> Option<f64> {
        match self {
            Self::Bytes => cell.bytes(),
            Self::Seconds => cell.seconds(),
            Self::Day(tariff) => {
                let day = cell.costs.get(tariff)?.day_micros?;
                Some(day as f64)
            }
        }
    }

    fn label(self, figure: f64) -> String {
        match self {
            Self::Bytes => number::human_bytes((figure / 100.0).round() as u64 * 100),
            Self::Seconds => format!("{} s", number::seconds(figure)),
            Self::Day(_) => money(figure as u64),
        }
    }
}

/// The drawing for a link; `None` where it was not visited.
pub fn draw_visits(cells: &[VisitCell], link: &VisitedLink) -> Option<String> {
    let groups = by_visit(cells, &link.name);
    let columns = columns(groups.first()?.first()?);
    let looks = BARS.map(|(arm, _)| arm.look());
    let mut entries: Vec<legend::Entry> = looks
        .iter()
        .map(|look| (Swatch::Filled(look.colour), look.label.to_owned()))
        .collect();
    let ring = crate::arm::Look {
        colour: INK,
        shape: Shape::Ring,
        label: "first visit (150 % and more: at the edge)",
    };
    entries.push((Swatch::Mark(ring), ring.label.to_owned()));
    entries.push((Swatch::Hatched(FAINT), "failed".to_owned()));
    let heading = format!("{}, {}", link.name, link.description);
    let top = legend::height(&entries, FULL) + 68.0;
    let bottom = top + groups.len() as f64 * ROW;
    let mut svg = Svg::new(&format!("visits-{}", link.name), FULL, bottom + 42.0);
    svg.text((0.0, 13.0), Anchor::Start, STRONG, &heading);
    legend::draw(&mut svg, &entries, (0.0, 20.0), FULL);
    for (index, group) in groups.iter().enumerate() {
        let y = top + index as f64 * ROW;
        svg.line((0.0, y), (FULL, y), GRID, 1.0);
        svg.text(
            (0.0, y + ROW / 2.0 + 4.0),
            Anchor::Start,
            LABEL,
            &group[0].visit,
        );
    }
    let width = (FULL - NAMES) / columns.len() as f64;
    for (index, column) in columns.iter().enumerate() {
        let left = NAMES + index as f64 * width;
        draw(
            &mut svg,
            column,
            &groups,
            (left, left + width - GAP),
            (top, bottom),
        );
    }
    Some(svg.finish(&format!(
        "Bytes, seconds and money of visits over {heading}, as a share of plain"
    )))
}

fn columns(cell: &VisitCell) -> Vec<Column> {
    let column = |title: &str, unit: &str, of| Column {
        title: title.to_owned(),
        unit: unit.to_owned(),
        of,
    };
    let mut columns = vec![
        column("a visit: bytes", "", Of::Bytes),
        column("a visit: seconds", "", Of::Seconds),
    ];
    for (number, cost) in cell.costs.iter().enumerate() {
        let title = format!("a day: {}", cost.currency);
        columns.push(column(&title, &cost.tariff, Of::Day(number)));
    }
    columns
}

fn draw(
    svg: &mut Svg,
    column: &Column,
    groups: &[Vec<&VisitCell>],
    (left, right): (f64, f64),
    (top, bottom): (f64, f64),
) {
    svg.text((left, top - 30.0), Anchor::Start, STRONG, &column.title);
    svg.text((left, top - 15.0), Anchor::Start, SMALL, &column.unit);
    let share = |group: &[&VisitCell], arm: Arm| {
        let of = |arm| group.iter().find(|cell| cell.arm == arm);
        let figure = column.of.figure(of(arm)?)?;
        let plain = column.of.figure(of(Arm::Plain)?)?;
        (plain > 0.0).then_some((figure, (figure / plain).min(MAX_SHARE)))
    };
    let shares = groups.iter().flat_map(|group| {
        let arms = BARS.into_iter().flat_map(|(arm, first)| [Some(arm), first]);
        arms.flatten().filter_map(|arm| share(group, arm))
    });
    let largest = shares.map(|(_, share)| share).fold(1.0, f64::max);
    let scale = Scale::exact(largest * 100.0, (left, right - FIGURE));
    for tick in [0.0, 50.0, 100.0] {
        let x = scale.at(tick);
        let colour = if tick > 99.0 { FAINT } else { GRID };
        svg.line((x, top), (x, bottom), colour, 1.0);
        svg.text((x, bottom + 15.0), Anchor::Middle, SMALL, &tick_label(tick));
    }
    let middle = (left + right - FIGURE) / 2.0;
    svg.text((middle, bottom + 32.0), Anchor::Middle, SMALL, "% of plain");
    for (index, group) in groups.iter().enumerate() {
        let mut y = top + index as f64 * ROW + 8.0;
        for (arm, first) in BARS {
            let again = share(group, arm);
            let mut end = scale.at(0.0);
            if let Some((_, share)) = again {
                end = scale.at(share * 100.0);
                let (corner, size) = ((left, y), (end - left, BAR));
                if group.iter().any(|cell| cell.arm == arm && cell.is_failed()) {
                    svg.hatched(corner, size, arm.look().colour);
                } else {
                    svg.rectangle(corner, size, arm.look().colour);
                }
            }
            if let Some((_, share)) = first.and_then(|first| share(group, first)) {
                let x = scale.at(share * 100.0);
                svg.line(
                    (end, y + BAR / 2.0),
                    (x, y + BAR / 2.0),
                    arm.look().colour,
                    1.0,
                );
                svg.mark((x, y + BAR / 2.0), Shape::Ring, arm.look().colour);
                end = end.max(x + 5.0);
            }
            let label = again.map_or_else(
                || number::ABSENT.to_owned(),
                |(figure, _)| column.of.label(figure),
            );
            // Beside the bar, or at the edge where that has no room.
            let x = (end + 4.0).min(right + GAP - width_of(&label, SMALL));
            let paper = (width_of(&label, SMALL) + 4.0, BAR);
            svg.rectangle((x - 2.0, y), paper, "white");
            svg.text((x, y + BAR - 2.5), Anchor::Start, SMALL, &label);
            y += BAR + BETWEEN_BARS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::visits::tests::cell;
    use super::*;

    #[test]
    fn a_drawing_has_every_visit_and_the_figures_of_each_arm() {
        let cells = [
            cell("page", Arm::Plain, 60_000),
            cell("page", Arm::TunnelCold, 48_000),
            cell("page", Arm::Tunnel, 30_000),
            cell("poll", Arm::Plain, 6_000),
        ];
        let link = VisitedLink {
            name: "iridium".to_owned(),
            description: "2.4 kbit/s".to_owned(),
        };
        let svg = draw_visits(&cells, &link).expect("it was visited");
        for text in [
            ">page<",
            ">poll<",
            ">60 kB<",
            ">30 kB<",
            ">200.00 s<",
            ">12.00<",
            ">by-byte<",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }
}
