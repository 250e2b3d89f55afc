//! The tables of the evaluation of splitting, for the page and for Markdown.

use super::{
    Delivery, Part, Row, crews, down, latencies, latency_ratios, of, replays, scaling_links,
    single, sizes, thesis,
};
use crate::number::human_bytes;
use crate::number::{self, ABSENT};
use crate::stats::Spread;
use crate::table::Table;

/// Bounds of the classes of files in the table of times, bytes.
const CLASSES: [u64; 3] = [3_000, 30_000, u64::MAX];

/// All tables for which there are rows.
pub(crate) fn tables(rows: &[Row]) -> Vec<Table> {
    [
        bytes(rows),
        traces(rows),
        times(rows),
        scaling(rows),
        origin(rows),
        volunteer(rows),
    ]
    .into_iter()
    .filter(|table| !table.lines.is_empty())
    .collect()
}

/// The tables in Markdown.
pub fn markdown(rows: &[Row]) -> String {
    let mut text = String::new();
    for table in tables(rows) {
        text.push_str(&table.markdown());
    }
    let unsound = rows.iter().filter(|row| !row.is_sound()).count();
    if unsound > 0 {
        text.push_str(&format!(
            "**{unsound} of {} rows failed or had other bytes than the server; they are left out of the figures.**\n",
            rows.len()
        ));
    }
    text
}

fn or_absent(figure: Option<f64>, words: impl Fn(f64) -> String) -> String {
    figure.map_or_else(|| ABSENT.to_owned(), words)
}

/// A share in per cent with one decimal; two where it is below one.
fn share(ratio: f64) -> String {
    let percent = ratio * 100.0;
    let decimals = if percent < 1.0 { 2 } else { 1 };
    format!("{percent:.decimals$}{}%", number::SPACE)
}

fn trials(rows: &[Row], part: Part) -> usize {
    of(rows, part)
        .map(|row| row.trial)
        .max()
        .map_or(0, |last| usize::try_from(last).unwrap_or(usize::MAX) + 1)
}

fn columns(first: &str, others: &[&str]) -> Vec<String> {
    let words = std::iter::once(first).chain(others.iter().copied());
    words.map(str::to_owned).collect()
}

fn bytes(rows: &[Row]) -> Table {
    let labels: Vec<&str> = Delivery::ALL
        .iter()
        .map(|delivery| delivery.label())
        .collect();
    let mut columns = columns("file", &labels);
    columns.push("warm of HTTP".to_owned());
    columns.push("cold of HTTPS".to_owned());
    let lines = sizes(rows, Part::Sizes)
        .into_iter()
        .map(|size| {
            let bytes = |delivery| down(rows, delivery, size);
            let ratio = |delivery, of| Some(bytes(delivery)? / bytes(of)?);
            let mut line = vec![human_bytes(size)];
            line.extend(Delivery::ALL.map(|delivery| or_absent(bytes(delivery), number::count)));
            line.push(or_absent(ratio(Delivery::Warm, Delivery::Http), share));
            line.push(or_absent(ratio(Delivery::Cold, Delivery::Https), share));
            line
        })
        .collect();
    Table {
        title: "Bytes of one file",
        note: format!(
            "IP bytes that leave the origin for one request on a connection of its own, with a full handshake; medians of {} files each.",
            trials(rows, Part::Sizes)
        ),
        columns,
        words: 1,
        lines,
    }
}

fn traces(rows: &[Row]) -> Table {
    let replays = replays(rows);
    let of_thesis = thesis::TRACES.map(|trace| {
        vec![
            format!("{} (thesis)", trace.name),
            ABSENT.to_owned(),
            "10 MB".to_owned(),
            format!("{:.2}", trace.redundancy),
            share(thesis::HTTPS),
            ABSENT.to_owned(),
            share(trace.cold),
            share(trace.warm),
        ]
    });
    let ours = replays.iter().map(|replay| {
        let of_http = |delivery| or_absent(replay.share(delivery, Delivery::Http), share);
        vec![
            replay.name.clone(),
            number::count(replay.requests as f64),
            format!("{:.1} MB", replay.bytes as f64 / 1e6),
            format!("{:.2}", replay.redundancy()),
            of_http(Delivery::Https),
            of_http(Delivery::HttpsCbc),
            of_http(Delivery::Cold),
            of_http(Delivery::Warm),
        ]
    });
    Table {
        title: "Traces",
        note: "IP bytes that leave the origin, as shares of those of HTTP. Redundancy is all bytes by those of each object once: what a \
               cache that forgets nothing could save."
            .to_owned(),
        columns: columns(
            "trace",
            &[
                "requests",
                "bodies",
                "redundancy",
                "HTTPS",
                "HTTPS, same suite",
                "cold",
                "warm",
            ],
        ),
        words: 1,
        lines: if replays.is_empty() {
            Vec::new()
        } else {
            of_thesis.into_iter().chain(ours).collect()
        },
    }
}

fn times(rows: &[Row]) -> Table {
    let mut lines = Vec::new();
    let mut from = 0;
    for to in CLASSES {
        let in_class = |size: u64| size > from && size <= to;
        let median = |of: Vec<(u64, f64)>| {
            let figures = of.into_iter().filter(|(size, _)| in_class(*size));
            Spread::of(figures.map(|(_, figure)| figure))
        };
        let count = median(latencies(rows, Delivery::Https)).map(|spread| spread.count);
        if let Some(count) = count {
            let name = if to == u64::MAX {
                format!("above {}", human_bytes(from))
            } else {
                format!("up to {}", human_bytes(to))
            };
            let mut line = vec![name, count.to_string()];
            line.extend(Delivery::ALL.map(|delivery| {
                let spread = median(latencies(rows, delivery));
                or_absent(spread.map(|spread| spread.median), number::seconds)
            }));
            line.extend([Delivery::Https, Delivery::HttpsCbc].map(|other| {
                let spread = median(latency_ratios(rows, Delivery::Cold, other));
                or_absent(spread.map(|spread| spread.median), share)
            }));
            lines.push(line);
        }
        from = to;
    }
    let labels: Vec<&str> = Delivery::ALL
        .iter()
        .map(|delivery| delivery.label())
        .collect();
    let mut columns = columns("files", &["count"]);
    columns.extend(labels.into_iter().map(str::to_owned));
    columns.push("cold of HTTPS".to_owned());
    columns.push("cold of same suite".to_owned());
    Table {
        title: "Seconds for a file when nothing repeats",
        note: format!(
            "Medians, over {}; the last two are medians of each file's own ratio.",
            of(rows, Part::Latency)
                .next()
                .map_or("", |row| row.link.as_str())
        ),
        columns,
        words: 1,
        lines,
    }
}

fn scaling(rows: &[Row]) -> Table {
    let mut lines = Vec::new();
    for link in scaling_links(rows) {
        let crews = crews(rows, link);
        let direct = crews.iter().find(|crew| crew.volunteers == 0).copied();
        for crew in &crews {
            let who = match crew.volunteers {
                0 => "0 (HTTPS)".to_owned(),
                count => count.to_string(),
            };
            lines.push(vec![
                link.to_owned(),
                who,
                number::count(crew.goodput / 1e3),
                or_absent(
                    direct.map(|direct| crew.goodput / direct.goodput),
                    |factor| format!("{factor:.1}"),
                ),
                share(crew.line),
            ]);
        }
    }
    Table {
        title: "Many volunteers",
        note: format!(
            "A popular file of 1 MB, wanted by one client of each volunteer at a time; each volunteer gives its clients 250 kB/s. Medians of {} \
             trials.",
            trials(rows, Part::Scaling)
        ),
        columns: columns(
            "link",
            &[
                "volunteers",
                "kB/s to all clients",
                "of HTTPS without",
                "origin's bytes of the bodies'",
            ],
        ),
        words: 1,
        lines,
    }
}

fn origin(rows: &[Row]) -> Table {
    let part = Part::Origin;
    let mut lines = Vec::new();
    for size in sizes(rows, part) {
        for delivery in Delivery::ALL {
            let figure = |figure: fn(&Row) -> f64| single(rows, part, delivery, size, figure);
            let (Some(origin), Some(server)) = (
                figure(|row| row.origin_us as f64),
                figure(|row| row.server_us as f64),
            ) else {
                continue;
            };
            let sum = figure(|row| (row.origin_us + row.server_us) as f64);
            let millis = |micros: f64| format!("{:.2}", micros / 1e3);
            lines.push(vec![
                human_bytes(size),
                delivery.label().to_owned(),
                millis(origin),
                millis(server),
                or_absent(sum, millis),
            ]);
        }
    }
    Table {
        title: "Processor time at the origin",
        note: format!(
            "Milliseconds for one file, a full handshake included; medians of {} requests each. nginx answers alone, or is behind the origin.",
            trials(rows, part)
        ),
        columns: columns("file", &["by", "origin", "nginx", "both"]),
        words: 2,
        lines,
    }
}

fn volunteer(rows: &[Row]) -> Table {
    let part = Part::Volunteer;
    let mut lines = Vec::new();
    for size in sizes(rows, part) {
        for delivery in Delivery::ALL {
            let rate = |micros: fn(&Row) -> f64| {
                single(rows, part, delivery, size, |row| {
                    row.body_bytes() as f64 / micros(row)
                })
            };
            let Some(wall) = rate(|row| row.seconds * 1e6) else {
                continue;
            };
            lines.push(vec![
                human_bytes(size),
                delivery.label().to_owned(),
                number::count(wall),
                or_absent(rate(micros_near), number::count),
            ]);
        }
    }
    Table {
        title: "A volunteer beside nginx in its place",
        note: format!(
            "MB of bodies that a client gets each second, and MB for each second of the server's processor time; medians of {} requests.",
            trials(rows, part)
        ),
        columns: columns("file", &["by", "MB/s", "MB/s of processor time"]),
        words: 2,
        lines,
    }
}

/// Processor time in the volunteer's place.
pub(super) fn micros_near(row: &Row) -> f64 {
    let micros = match row.delivery {
        Delivery::Http | Delivery::Https | Delivery::HttpsCbc => row.server_us,
        Delivery::Cold | Delivery::Warm => row.volunteer_us,
    };
    micros.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;

    #[test]
    fn a_table_without_rows_is_left_out() {
        assert_eq!(markdown(&[]), "");
        let rows = [
            row(Part::Sizes, Delivery::Http, 1_000_000, 1_040_000),
            row(Part::Sizes, Delivery::Warm, 1_000_000, 5_200),
        ];
        let text = markdown(&rows);
        assert!(
            text.contains("| 1 MB | 1,040,000 | – | – | – | 5,200 | 0.50\u{a0}% | – |"),
            "{text}"
        );
        assert_eq!(text.matches("## ").count(), 1);
    }

    #[test]
    fn rows_that_failed_are_told() {
        let mut failed = row(Part::Sizes, Delivery::Http, 100, 700);
        failed.identical = false;
        assert!(markdown(&[failed]).contains("1 of 1 rows failed"));
    }
}
