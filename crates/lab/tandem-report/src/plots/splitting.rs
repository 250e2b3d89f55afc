//! Chapter 5 of the thesis on splitting, figures 5-1 to 5-6, and how volunteers add up.

use super::super::arm::Look;
use super::super::splitting::{
    crews, down, latencies, latency_ratios, replays, scaling_links, sizes, thesis,
};
use super::super::svg::{Anchor, Shape};
use super::chart::{Axis, Chart, Drawn, Kind, Series};
use super::groups::{Bar, Base, Group, Groups};
use super::legend::{Entry, Swatch};
use super::{Figure, HALF};
use crate::split_row::{Delivery, Part, SplitRow as Row};
use crate::stats::Spread;

/// What the thesis has in words.
const THESIS: Look = Look {
    colour: "#1c1c1c",
    shape: Shape::Cross,
    label: "thesis",
};

/// For traces and links, which are told apart by their marks, too.
const OTHERS: [(&str, Shape); 4] = [
    ("#0072B2", Shape::Disc),
    ("#D55E00", Shape::Triangle),
    ("#009E73", Shape::Square),
    ("#CC79A7", Shape::Diamond),
];

/// All that there are rows for, in the thesis's order.
pub(crate) fn splitting(rows: &[Row]) -> Vec<Figure> {
    [
        requests(rows),
        bandwidth(rows),
        efficiency(rows),
        savings(rows),
        latency(rows),
        scaling(rows),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn look(delivery: Delivery) -> Look {
    let (colour, shape) = match delivery {
        Delivery::Http => ("#7F7F7F", Shape::Square),
        Delivery::Https => ("#E69F00", Shape::Triangle),
        Delivery::HttpsCbc => ("#D55E00", Shape::Wedge),
        Delivery::Cold => ("#56B4E9", Shape::Ring),
        Delivery::Warm => ("#0072B2", Shape::Disc),
    };
    Look {
        colour,
        shape,
        label: delivery.label(),
    }
}

fn entry(look: Look) -> Entry {
    (Swatch::Mark(look), look.label.to_owned())
}

fn axis(kind: Kind, title: &'static str) -> Axis {
    Axis { kind, title }
}

/// The points of a delivery, in its look; none where there are no points.
fn series_of(
    delivery: Delivery,
    points: Vec<(f64, f64)>,
    drawn: fn(Shape) -> Drawn,
) -> Option<Series> {
    let Look { colour, shape, .. } = look(delivery);
    (!points.is_empty()).then_some(Series {
        points,
        colour,
        drawn: drawn(shape),
    })
}

fn figure(chart: &Chart, caption: String) -> Figure {
    Figure {
        name: chart.name.to_owned(),
        title: chart.description.clone(),
        caption,
        svg: chart.draw(),
    }
}

/// Figure 5-1: which share of requests is for files up to a size.
fn requests(rows: &[Row]) -> Option<Figure> {
    let replays = replays(rows);
    if replays.is_empty() {
        return None;
    }
    let mut legend = Vec::new();
    let mut series = Vec::new();
    for (replay, (colour, shape)) in replays.iter().zip(OTHERS) {
        let all = replay.sizes.len() as f64;
        let points = replay
            .sizes
            .iter()
            .enumerate()
            .map(|(below, size)| (*size as f64, (below + 1) as f64 / all))
            .collect();
        series.push(Series {
            points,
            colour,
            drawn: Drawn::Line,
        });
        let look = Look {
            colour,
            shape,
            label: "",
        };
        legend.push((Swatch::Mark(look), replay.name.clone()));
    }
    let redundancy: Vec<String> = replays
        .iter()
        .map(|replay| {
            format!(
                "{} {:.2} ({} requests, {:.1} MB)",
                replay.name,
                replay.redundancy(),
                replay.requests,
                replay.bytes as f64 / 1e6
            )
        })
        .collect();
    let chart = Chart {
        name: "figure-5-1",
        description: "Figure 5-1: sizes of requests in the traces".to_owned(),
        x: axis(Kind::Logarithmic, "bytes of the body (log scale)"),
        y: axis(Kind::Linear, "share of requests up to that size"),
        legend,
        series,
        reference: None,
    };
    let caption = format!(
        "Redundancy, all bytes by those of each object once: {}. The thesis's traces of 10 MB have 2.17 (www.lcs) and 1.35 (amsterdam).",
        redundancy.join(", ")
    );
    Some(figure(&chart, caption))
}

/// Figures 5-2 and 5-3: bytes of each delivery as a share of those of HTTP.
fn bandwidth(rows: &[Row]) -> Option<Figure> {
    let replays = replays(rows);
    if replays.is_empty() {
        return None;
    }
    let bar = |share: Option<f64>, swatch| Bar {
        figure: share.map(|share| share * 100.0),
        label: share.map_or_else(String::new, |share| format!("{:.0}", share * 100.0)),
        swatch,
    };
    let hatched = |delivery| Swatch::Hatched(look(delivery).colour);
    let filled = |delivery| Swatch::Filled(look(delivery).colour);
    let mut groups = Vec::new();
    let mut ideals = Vec::new();
    let mut ideal = |name: &str, redundancy: f64| {
        ideals.push(format!("{:.0} % ({name})", 100.0 / redundancy));
    };
    for (index, trace) in thesis::TRACES.iter().enumerate() {
        let known = |delivery| match delivery {
            Delivery::Http => Some(1.0),
            Delivery::Https => Some(thesis::HTTPS),
            Delivery::HttpsCbc => None,
            Delivery::Cold => Some(trace.cold),
            Delivery::Warm => Some(trace.warm),
        };
        ideal(trace.name, trace.redundancy);
        groups.push(Group {
            label: trace.name.to_owned(),
            bars: Delivery::ALL
                .map(|delivery| bar(known(delivery), hatched(delivery)))
                .into(),
        });
        if let Some(replay) = replays.get(index) {
            let share = |delivery| replay.share(delivery, Delivery::Http);
            ideal(&replay.name, replay.redundancy());
            groups.push(Group {
                label: replay.name.clone(),
                bars: Delivery::ALL
                    .map(|delivery| bar(share(delivery), filled(delivery)))
                    .into(),
            });
        }
    }
    let title = "Figures 5-2 and 5-3: bytes that leave the server for a trace";
    Some(Figure {
        name: "figure-5-2".to_owned(),
        title: title.to_owned(),
        caption: format!(
            "As a share of plain HTTP's; hatched: the thesis's. A cache that forgets nothing would leave of the bodies {}. Cold: a volunteer \
             that has seen nothing; warm: one that has been asked for each object before.",
            ideals.join(", ")
        ),
        svg: Groups {
            name: "figure-5-2",
            description: title.to_owned(),
            axis: "% of HTTP",
            width: HALF,
            legend: Delivery::ALL
                .map(|delivery| (filled(delivery), delivery.label().to_owned()))
                .into(),
            groups,
            reference: None,
            base: Base::Zero,
        }
        .draw(),
    })
}

/// Figure 5-4: bytes of a body for each byte that leaves the server.
fn efficiency(rows: &[Row]) -> Option<Figure> {
    let series: Vec<Series> = Delivery::ALL
        .into_iter()
        .filter_map(|delivery| {
            let points = sizes(rows, Part::Sizes)
                .into_iter()
                .filter_map(|size| Some((size as f64, size as f64 / down(rows, delivery, size)?)))
                .collect();
            series_of(delivery, points, Drawn::LineWithMarks)
        })
        .collect();
    if series.is_empty() {
        return None;
    }
    let chart = Chart {
        name: "figure-5-4",
        description: "Figure 5-4: throughput by bandwidth used, one file".to_owned(),
        x: axis(Kind::Logarithmic, "bytes of the file (log scale)"),
        y: axis(
            Kind::Logarithmic,
            "bytes of the file by bytes sent (log scale)",
        ),
        legend: Delivery::ALL.map(|delivery| entry(look(delivery))).into(),
        series,
        reference: Some((1.0, "no overhead, no cache", Anchor::End)),
    };
    let caption = "Bytes sent are IP bytes that leave the server, the connection and its handshake included. The thesis's own drops \
                   at 3 kB and 4 MB come from Apache, which changes the size of its records there.";
    Some(figure(&chart, caption.to_owned()))
}

/// Figure 5-5: how many times more HTTP and HTTPS send than splitting with a warm cache.
fn savings(rows: &[Row]) -> Option<Figure> {
    let mut series: Vec<Series> = [Delivery::Http, Delivery::Https]
        .into_iter()
        .filter_map(|delivery| {
            let factor =
                |size| Some(down(rows, delivery, size)? / down(rows, Delivery::Warm, size)?);
            let points = sizes(rows, Part::Sizes)
                .into_iter()
                .filter_map(|size| Some((size as f64, factor(size)?)))
                .collect();
            series_of(delivery, points, Drawn::LineWithMarks)
        })
        .collect();
    if series.is_empty() {
        return None;
    }
    series.push(Series {
        points: thesis::FACTORS.to_vec(),
        colour: THESIS.colour,
        drawn: Drawn::Marks(THESIS.shape),
    });
    let over = |delivery: Delivery| {
        (
            Swatch::Mark(look(delivery)),
            format!("over {}", delivery.label()),
        )
    };
    let chart = Chart {
        name: "figure-5-5",
        description: "Figure 5-5: savings of warm splitting over HTTP and HTTPS".to_owned(),
        x: axis(Kind::Logarithmic, "bytes of the file (log scale)"),
        y: axis(Kind::Logarithmic, "factor (log scale)"),
        legend: vec![
            over(Delivery::Http),
            over(Delivery::Https),
            (Swatch::Mark(THESIS), "thesis, over HTTP".to_owned()),
        ],
        series,
        reference: Some((1.0, "no savings", Anchor::End)),
    };
    let caption = "Bytes that HTTP or HTTPS sends by those of splitting with a warm cache. The thesis's text: at 100 bytes HTTP has \
                   about a third of the cost, at 1 MB 99.5 % is saved.";
    Some(figure(&chart, caption.to_owned()))
}

/// Figure 5-6: time against size when nothing repeats.
fn latency(rows: &[Row]) -> Option<Figure> {
    let deliveries = [
        Delivery::Http,
        Delivery::Https,
        Delivery::HttpsCbc,
        Delivery::Cold,
    ];
    let series: Vec<Series> = deliveries
        .into_iter()
        .filter_map(|delivery| {
            let points = latencies(rows, delivery)
                .into_iter()
                .map(|(size, seconds)| (size as f64, seconds))
                .collect();
            series_of(delivery, points, Drawn::Marks)
        })
        .collect();
    let ratios = latency_ratios(rows, Delivery::Cold, Delivery::Https);
    let near = ratios
        .iter()
        .filter(|(_, ratio)| (ratio - 1.0).abs() <= 0.05)
        .count();
    let spread = Spread::of(ratios.iter().map(|(_, ratio)| ratio * 100.0))?;
    let link = rows.iter().find(|row| row.part == Part::Latency)?;
    let chart = Chart {
        name: "figure-5-6",
        description: "Figure 5-6: time for a file when nothing repeats".to_owned(),
        x: axis(Kind::Logarithmic, "bytes of the file (log scale)"),
        y: axis(Kind::Logarithmic, "seconds (log scale)"),
        legend: deliveries.map(|delivery| entry(look(delivery))).into(),
        series,
        reference: None,
    };
    let caption = format!(
        "Objects of the trace {}, one at a time, over {}, until the last byte. Splitting, cold, by HTTPS: median {:.0} %, {near} of {} files \
         within 5 %. The thesis: about 10 % faster for small files, about 10 % slower for large ones, within 5 % for most.",
        link.trace.as_deref().unwrap_or_default(),
        link.link,
        spread.median,
        ratios.len()
    );
    Some(figure(&chart, caption))
}

/// What volunteers give together, over each link.
fn scaling(rows: &[Row]) -> Option<Figure> {
    let mut legend = Vec::new();
    let mut series = Vec::new();
    let mut words = Vec::new();
    for (link, (colour, shape)) in scaling_links(rows).into_iter().zip(OTHERS) {
        let crews = crews(rows, link);
        if let Some(direct) = crews.iter().find(|crew| crew.volunteers == 0) {
            words.push(format!("{link} {:.1} kB/s", direct.goodput / 1e3));
        }
        let points: Vec<(f64, f64)> = crews
            .iter()
            .filter(|crew| crew.volunteers > 0)
            .map(|crew| (f64::from(crew.volunteers), crew.goodput / 1e3))
            .collect();
        if points.is_empty() {
            continue;
        }
        series.push(Series {
            points,
            colour,
            drawn: Drawn::LineWithMarks(shape),
        });
        let look = Look {
            colour,
            shape,
            label: "",
        };
        legend.push((Swatch::Mark(look), link.to_owned()));
    }
    if series.is_empty() {
        return None;
    }
    let chart = Chart {
        name: "splitting-volunteers",
        description: "One to twenty volunteers".to_owned(),
        x: axis(Kind::Linear, "volunteers"),
        y: axis(Kind::Linear, "kB/s to all clients together"),
        legend,
        series,
        reference: None,
    };
    let caption = format!(
        "A popular file of 1 MB, one client at each volunteer at a time, 250 kB/s from each volunteer; medians. HTTPS without volunteers gives \
         all clients together {}. The origin's line bounds what volunteers can vouch for.",
        words.join(", ")
    );
    Some(figure(&chart, caption))
}

#[cfg(test)]
mod tests {
    use super::super::super::splitting::tests::row;
    use super::*;

    #[test]
    fn what_there_are_no_rows_for_is_not_drawn() {
        assert!(splitting(&[]).is_empty());
        let rows = [
            row(Part::Sizes, Delivery::Http, 1_000, 2_000),
            row(Part::Sizes, Delivery::Warm, 1_000, 4_000),
        ];
        let names: Vec<String> = splitting(&rows)
            .into_iter()
            .map(|figure| figure.name)
            .collect();
        assert_eq!(names, ["figure-5-4", "figure-5-5"]);
    }

    #[test]
    fn a_trace_stands_beside_the_thesis_s() {
        let block = |delivery, down| Row {
            trace: Some("nasa".to_owned()),
            ..row(Part::Trace, delivery, 100, down)
        };
        let rows = Delivery::ALL.map(|delivery| block(delivery, 110));
        let figures = splitting(&rows);
        let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(names, ["figure-5-1", "figure-5-2"]);
        assert!(figures[1].svg.contains(">www.lcs<"));
        assert!(figures[1].caption.contains("100 % (nasa)"));
    }
}
