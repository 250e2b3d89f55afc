//! Section 5 of the paper on multi-context TLS, figures 3 to 8.

use super::super::arm::Look;
use super::super::mctls::{
    Party, capacity, first_byte, handshake, numbers, page_loads, paper, transfer, transfers,
};
use super::super::number::{self, human_bytes};
use super::super::svg::Shape;
use super::chart::{Axis, Chart, Drawn, Kind, Series};
use super::groups::{Bar, Base, Group, Groups};
use super::legend::{Entry, Swatch};
use super::{FULL, Figure};
use crate::mctls_row::{McArm, McPart, McRow, Strategy};

/// Colours of the numbers of middleboxes, and of strategies.
const COLOURS: [&str; 4] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7"];

/// All that there are rows for, in the paper's order.
pub(crate) fn mctls(rows: &[McRow]) -> Vec<Figure> {
    [
        by_contexts(rows),
        by_middleboxes(rows),
        by_strategy(rows),
        page(rows),
        rate(rows, Party::Server),
        rate(rows, Party::Middlebox),
        bytes(rows),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn look(arm: McArm) -> Look {
    let (colour, shape) = match arm {
        McArm::Mctls13 => ("#0072B2", Shape::Disc),
        McArm::Mctls12 => ("#56B4E9", Shape::Ring),
        McArm::SplitTls => ("#D55E00", Shape::Wedge),
        McArm::EndToEndTls => ("#E69F00", Shape::Triangle),
        McArm::None => ("#7F7F7F", Shape::Square),
    };
    Look {
        colour,
        shape,
        label: arm.label(),
    }
}

fn legend(arms: &[McArm]) -> Vec<Entry> {
    let arms = arms.iter().map(|arm| look(*arm));
    arms.map(|look| (Swatch::Mark(look), look.label.to_owned()))
        .collect()
}

fn axis(kind: Kind, title: &'static str) -> Axis {
    Axis { kind, title }
}

fn figure(chart: &Chart, caption: &str) -> Figure {
    Figure {
        name: chart.name.to_owned(),
        title: chart.description.clone(),
        caption: caption.to_owned(),
        svg: chart.draw(),
    }
}

/// A line for each arm of which there are points.
fn curves(points: impl Fn(McArm) -> Vec<(f64, f64)>) -> Option<Vec<Series>> {
    let series: Vec<Series> = McArm::ALL
        .into_iter()
        .map(|arm| (look(arm), points(arm)))
        .filter(|(_, points)| !points.is_empty())
        .map(|(look, points)| Series {
            points,
            colour: look.colour,
            drawn: Drawn::LineWithMarks(look.shape),
        })
        .collect();
    (!series.is_empty()).then_some(series)
}

/// Figure 3, left.
fn by_contexts(rows: &[McRow]) -> Option<Figure> {
    let here = |row: &McRow| {
        if row.middleboxes == 1 {
            row.contexts
        } else {
            1
        }
    };
    let all = numbers(rows, McPart::FirstByte, here);
    let last = all.last().copied()?;
    let chart = Chart {
        name: "mctls-figure-3-contexts",
        description: "Figure 3, left: time to the first byte by contexts".to_owned(),
        x: axis(Kind::Linear, "contexts"),
        y: axis(Kind::Linear, "ms"),
        legend: legend(&McArm::ALL),
        series: curves(|arm| {
            let of = |contexts| Some(1e3 * first_byte(rows, arm, 1, contexts)?);
            let known = |contexts: &u32| Some((f64::from(*contexts), of(*contexts)?));
            match arm.has_contexts() {
                true => all.iter().filter_map(known).collect(),
                // It has none, so its time is the same for any number of them.
                false => of(1)
                    .map(|ms| vec![(1.0, ms), (f64::from(last), ms)])
                    .unwrap_or_default(),
            }
        })?,
        reference: None,
    };
    let caption = "One middlebox, 10 Mbit/s and 20 ms for each of two links. In the paper: 160 ms without encryption, 320 ms for all \
                   others up to nine contexts.";
    Some(figure(&chart, caption))
}

/// Figure 3, right.
fn by_middleboxes(rows: &[McRow]) -> Option<Figure> {
    let all = numbers(rows, McPart::FirstByte, |row| row.middleboxes);
    let chart = Chart {
        name: "mctls-figure-3-middleboxes",
        description: "Figure 3, right: time to the first byte by middleboxes".to_owned(),
        x: axis(Kind::Linear, "middleboxes"),
        y: axis(Kind::Linear, "ms"),
        legend: legend(&McArm::ALL),
        series: curves(|arm| {
            let points = all.iter();
            points
                .filter_map(|boxes| {
                    Some((f64::from(*boxes), 1e3 * first_byte(rows, arm, *boxes, 1)?))
                })
                .collect()
        })?,
        reference: None,
    };
    let caption = "One context; each middlebox adds a link of 20 ms.";
    Some(figure(&chart, caption))
}

/// Points of a distribution: which share of pages is loaded in a time.
fn shares(seconds: &[f64]) -> Vec<(f64, f64)> {
    let all = seconds.len() as f64;
    let shares = (1_u32..).zip(seconds);
    shares
        .map(|(count, seconds)| (*seconds, f64::from(count) / all))
        .collect()
}

/// Figure 4.
fn by_strategy(rows: &[McRow]) -> Option<Figure> {
    let mut series = Vec::new();
    let mut legend = Vec::new();
    for (strategy, colour) in Strategy::ALL.into_iter().zip(COLOURS) {
        let points = shares(&page_loads(rows, McArm::Mctls13, Some(strategy)));
        if points.is_empty() {
            continue;
        }
        legend.push((Swatch::Filled(colour), strategy.label().to_owned()));
        series.push(Series {
            points,
            colour,
            drawn: Drawn::LineWithMarks(Shape::Disc),
        });
    }
    if series.is_empty() {
        return None;
    }
    let chart = Chart {
        name: "mctls-figure-4",
        description: "Figure 4: time to load a page by strategy, mctls13".to_owned(),
        x: axis(Kind::Linear, "seconds"),
        y: axis(Kind::Linear, "share of pages loaded"),
        legend,
        series,
        reference: None,
    };
    let caption =
        "The same pages in each strategy. In the paper, too, the strategies differ little.";
    Some(figure(&chart, caption))
}

/// Figure 6.
fn page(rows: &[McRow]) -> Option<Figure> {
    let chart = Chart {
        name: "mctls-figure-6",
        description: "Figure 6: time to load a page".to_owned(),
        x: axis(Kind::Linear, "seconds"),
        y: axis(Kind::Linear, "share of pages loaded"),
        legend: legend(&McArm::ALL),
        series: curves(|arm| {
            let strategy = arm.has_contexts().then_some(Strategy::Four);
            shares(&page_loads(rows, arm, strategy))
        })?,
        reference: None,
    };
    let caption = "Four contexts where the protocol has some. In the paper mcTLS is as fast as the others once the Nagle algorithm is off.";
    Some(figure(&chart, caption))
}

/// Figure 5.
fn rate(rows: &[McRow], party: Party) -> Option<Figure> {
    let all = numbers(rows, McPart::Connections, |row| row.contexts);
    let last = all.last().copied()?;
    let (name, title, kind, caption) = match party {
        Party::Server => (
            "mctls-figure-5-server",
            "Figure 5, left: connections a second at the server",
            Kind::Linear,
            "In the paper 23 to 35 % fewer than with split TLS.",
        ),
        Party::Middlebox => (
            "mctls-figure-5-middlebox",
            "Figure 5, right: connections a second at the middlebox",
            Kind::Logarithmic,
            "In the paper 45 to 75 % more than with split TLS.",
        ),
    };
    let chart = Chart {
        name,
        description: title.to_owned(),
        x: axis(Kind::Linear, "contexts"),
        y: axis(kind, "connections a second"),
        legend: legend(&McArm::ALL[..4]),
        series: curves(|arm| {
            let of = |contexts| capacity(rows, arm, contexts, party);
            let known = |contexts: &u32| Some((f64::from(*contexts), of(*contexts)?));
            match arm {
                McArm::Mctls13 | McArm::Mctls12 => all.iter().filter_map(known).collect(),
                McArm::SplitTls | McArm::EndToEndTls => of(1)
                    .map(|rate| vec![(1.0, rate), (f64::from(last), rate)])
                    .unwrap_or_default(),
                McArm::None => Vec::new(),
            }
        })?,
        reference: None,
    };
    Some(figure(
        &chart,
        &format!("Worked out from processor time, one middlebox. {caption}"),
    ))
}

/// Figure 7, across the page.
pub(crate) fn mctls_transfers(rows: &[McRow]) -> Option<Figure> {
    let all = transfers(rows);
    if all.is_empty() {
        return None;
    }
    let groups = all.into_iter().map(|(link, bytes)| Group {
        label: format!("{}, {}", human_bytes(bytes), link.replace(", 20 ms", "")),
        bars: McArm::ALL
            .map(|arm| {
                let seconds = transfer(rows, arm, link, bytes);
                Bar {
                    figure: seconds,
                    label: seconds.map_or_else(String::new, number::seconds),
                    swatch: Swatch::Filled(look(arm).colour),
                }
            })
            .into(),
    });
    let title = "Figure 7: time for a file by link and size";
    let swatch = |arm: McArm| (Swatch::Filled(look(arm).colour), arm.label().to_owned());
    Some(Figure {
        name: "mctls-figure-7".to_owned(),
        title: title.to_owned(),
        caption: "From the client's connect to the last byte, one middlebox between two links; links by rate have a delay of 20 ms each. In \
                  the paper the protocol makes little difference."
            .to_owned(),
        svg: Groups {
            name: "mctls-figure-7",
            description: title.to_owned(),
            axis: "seconds",
            width: FULL,
            legend: McArm::ALL.map(swatch).into(),
            groups: groups.collect(),
            reference: None,
            base: Base::Fitting,
        }
        .draw(),
    })
}

/// Figure 8.
fn bytes(rows: &[McRow]) -> Option<Figure> {
    let contexts = numbers(rows, McPart::Handshake, |row| row.contexts);
    let middleboxes = numbers(rows, McPart::Handshake, |row| row.middleboxes);
    let mut series = Vec::new();
    let mut legend = Vec::new();
    for (boxes, colour) in middleboxes.into_iter().zip(COLOURS) {
        let points = |arm| {
            let points = contexts.iter();
            points
                .filter_map(|contexts| {
                    let bytes = handshake(rows, arm, boxes, *contexts)?;
                    Some((f64::from(*contexts), bytes))
                })
                .collect::<Vec<_>>()
        };
        for (arm, shape) in [(McArm::Mctls13, Shape::Disc), (McArm::Mctls12, Shape::Ring)] {
            series.push(Series {
                points: points(arm),
                colour,
                drawn: Drawn::LineWithMarks(shape),
            });
        }
        let prototype = usize::try_from(boxes).ok();
        if let Some(prototype) = prototype.and_then(|boxes| paper::HANDSHAKE.get(boxes)) {
            let known = paper::CONTEXTS.iter().zip(prototype);
            series.push(Series {
                points: known
                    .map(|(contexts, bytes)| (f64::from(*contexts), *bytes))
                    .collect(),
                colour,
                drawn: Drawn::Marks(Shape::Cross),
            });
        }
        legend.push((
            Swatch::Filled(colour),
            number::plural(usize::try_from(boxes).unwrap_or(usize::MAX), "middlebox")
                .replace("middleboxs", "middleboxes"),
        ));
    }
    series.retain(|series| !series.points.is_empty());
    if legend.is_empty() {
        return None;
    }
    let chart = Chart {
        name: "mctls-figure-8",
        description: "Figure 8: bytes of a handshake".to_owned(),
        x: axis(Kind::Linear, "contexts"),
        y: axis(Kind::Linear, "bytes on the client's link"),
        legend,
        series,
        reference: None,
    };
    let caption = "Discs: mctls13; rings: mctls12; crosses: the paper's prototype, whose certificates are larger (RSA-2048 against ECDSA).";
    Some(figure(&chart, caption))
}

#[cfg(test)]
mod tests {
    use super::super::super::mctls::tests::row;
    use super::*;

    #[test]
    fn what_there_are_no_rows_for_is_not_drawn() {
        assert!(mctls(&[]).is_empty());
        assert!(mctls_transfers(&[]).is_none());
        let rows = [
            row(McPart::Handshake, McArm::Mctls13),
            row(McPart::FirstByte, McArm::SplitTls),
        ];
        let figures = mctls(&rows);
        let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
        let expected = [
            "mctls-figure-3-contexts",
            "mctls-figure-3-middleboxes",
            "mctls-figure-8",
        ];
        assert_eq!(names, expected);
        let files = [row(McPart::Transfer, McArm::None)];
        let drawn = mctls_transfers(&files).map(|figure| figure.svg);
        assert!(drawn.is_some_and(|svg| svg.contains("10 Mbit/s")));
    }
}
