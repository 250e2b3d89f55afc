//! Rows of `tandem lab split` put together: what each figure of the thesis's chapter 5 shows, for
//! drawings, tables and bars.
//!
//! Bytes are those that the origin's line carries away from it, since the thesis measures "the
//! total number of bytes sent on the server's network interface". Only rows count in which every
//! request succeeded and every byte was the server's.

mod bars;
mod tables;

pub(crate) use bars::check;
pub use tables::markdown;
pub(crate) use tables::tables;

use crate::split_row::{Delivery, Part, SplitRow as Row};
use crate::stats::Spread;

/// What the thesis says in words of its own figures.
pub(crate) mod thesis {
    /// A trace of the thesis: its name, its redundancy, and bytes cold and warm as shares of those
    /// of HTTP.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Trace {
        pub(crate) name: &'static str,
        pub(crate) redundancy: f64,
        pub(crate) cold: f64,
        pub(crate) warm: f64,
    }

    /// Sections 5.1.1 and 5.2: redundancy 2.17 and 1.35, compression 2.04 and 1.25 cold, about 11
    /// and 10 warm.
    pub(crate) const TRACES: [Trace; 2] = [
        Trace {
            name: "www.lcs",
            redundancy: 2.17,
            cold: 1.0 / 2.04,
            warm: 1.0 / 11.0,
        },
        Trace {
            name: "amsterdam",
            redundancy: 1.35,
            cold: 1.0 / 1.25,
            warm: 1.0 / 10.0,
        },
    ];

    /// Section 5.2: "the compression is about 5% more with respect to HTTPS".
    pub(crate) const HTTPS: f64 = 1.05;

    /// Section 5.2, bytes of a file and the savings factor over HTTP: "about one-third the cost",
    /// "savings of 99.5%".
    pub(crate) const FACTORS: [(f64, f64); 2] = [(100.0, 1.0 / 3.0), (1_000_000.0, 200.0)];
}

/// A trace as it was replayed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Replay {
    pub(crate) name: String,
    pub(crate) requests: usize,
    /// Bytes of all bodies.
    pub(crate) bytes: u64,
    /// Bytes of each object once.
    pub(crate) distinct: u64,
    /// Sizes of all requests, growing.
    pub(crate) sizes: Vec<u64>,
    /// Bytes that the origin's line carried away, in the order of [`Delivery::ALL`].
    pub(crate) down: [Option<u64>; 5],
}

impl Replay {
    /// What a cache that forgets nothing could save.
    pub(crate) fn redundancy(&self) -> f64 {
        self.bytes as f64 / self.distinct.max(1) as f64
    }

    /// Bytes of a delivery as a share of those of another.
    pub(crate) fn share(&self, delivery: Delivery, of: Delivery) -> Option<f64> {
        let down = |wanted| {
            let place = Delivery::ALL
                .iter()
                .position(|delivery| *delivery == wanted)?;
            self.down[place]
        };
        Some(down(delivery)? as f64 / down(of)? as f64)
    }
}

/// Sound rows of a part.
pub(crate) fn of(rows: &[Row], part: Part) -> impl Iterator<Item = &Row> {
    rows.iter()
        .filter(move |row| row.part == part && row.is_sound())
}

/// The median over some rows.
pub(crate) fn median<'a>(
    rows: impl IntoIterator<Item = &'a Row>,
    figure: impl Fn(&Row) -> f64,
) -> Option<f64> {
    Spread::of(rows.into_iter().map(figure)).map(|spread| spread.median)
}

/// Sizes of single files in a part, growing.
pub(crate) fn sizes(rows: &[Row], part: Part) -> Vec<u64> {
    let mut sizes: Vec<u64> = of(rows, part).map(Row::body_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Median of a figure over requests for single files of a size, delivered so.
pub(crate) fn single(
    rows: &[Row],
    part: Part,
    delivery: Delivery,
    size: u64,
    figure: impl Fn(&Row) -> f64,
) -> Option<f64> {
    let like = of(rows, part).filter(|row| row.delivery == delivery && row.body_bytes() == size);
    median(like, figure)
}

/// Median bytes that the origin's line carries away for one file of a size.
pub(crate) fn down(rows: &[Row], delivery: Delivery, size: u64) -> Option<f64> {
    single(rows, Part::Sizes, delivery, size, |row| {
        row.link_bytes_down as f64
    })
}

/// The traces, in the order of the rows.
pub(crate) fn replays(rows: &[Row]) -> Vec<Replay> {
    let mut names: Vec<&str> = Vec::new();
    for name in of(rows, Part::Trace).filter_map(|row| row.trace.as_deref()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
        .into_iter()
        .map(|name| {
            let by = |delivery| {
                of(rows, Part::Trace).filter(move |row| {
                    row.delivery == delivery && row.trace.as_deref() == Some(name)
                })
            };
            // A part of a trace that failed in one delivery would flatter it: then no figure.
            let blocks = Delivery::ALL.map(|delivery| by(delivery).count());
            let most = blocks.iter().copied().max().unwrap_or(0);
            let whole = Delivery::ALL
                .into_iter()
                .find(|delivery| by(*delivery).count() == most)
                .unwrap_or(Delivery::Http);
            let mut sizes: Vec<u64> = by(whole).flat_map(|row| row.sizes.clone()).collect();
            sizes.sort_unstable();
            Replay {
                name: name.to_owned(),
                requests: sizes.len(),
                bytes: sizes.iter().sum(),
                distinct: by(whole).map(|row| row.fresh_bytes).sum(),
                sizes,
                down: Delivery::ALL.map(|delivery| {
                    (by(delivery).count() == most)
                        .then(|| by(delivery).map(|row| row.link_bytes_down).sum())
                }),
            }
        })
        .collect()
}

/// Bytes and seconds of each file of figure 5-6 in a delivery.
pub(crate) fn latencies(rows: &[Row], delivery: Delivery) -> Vec<(u64, f64)> {
    of(rows, Part::Latency)
        .filter(|row| row.delivery == delivery)
        .map(|row| (row.body_bytes(), row.seconds))
        .collect()
}

/// How long each file takes in a delivery, as a share of another's time for the same file.
pub(crate) fn latency_ratios(
    rows: &[Row],
    delivery: Delivery,
    of_delivery: Delivery,
) -> Vec<(u64, f64)> {
    let other = |trial| {
        of(rows, Part::Latency)
            .find(|row| row.delivery == of_delivery && row.trial == trial)
            .map(|row| row.seconds)
    };
    of(rows, Part::Latency)
        .filter(|row| row.delivery == delivery)
        .filter_map(|row| Some((row.body_bytes(), row.seconds / other(row.trial)?)))
        .collect()
}

/// What so many volunteers give all clients together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Crew {
    pub(crate) volunteers: u32,
    /// Median, bytes each second.
    pub(crate) goodput: f64,
    /// Median bytes that the origin's line carries away for each byte of a body.
    pub(crate) line: f64,
}

/// Volunteers over a link; none of them is nginx by HTTPS, first.
pub(crate) fn crews(rows: &[Row], link: &str) -> Vec<Crew> {
    let here = || of(rows, Part::Scaling).filter(move |row| row.link == link);
    let mut counts: Vec<u32> = here().filter_map(|row| row.volunteers).collect();
    counts.sort_unstable();
    counts.dedup();
    counts
        .into_iter()
        .filter_map(|volunteers| {
            let like = || here().filter(move |row| row.volunteers == Some(volunteers));
            Some(Crew {
                volunteers,
                goodput: median(like(), |row| row.body_bytes() as f64 / row.seconds)?,
                line: median(like(), |row| {
                    row.link_bytes_down as f64 / row.body_bytes() as f64
                })?,
            })
        })
        .collect()
}

/// Links over which volunteers were added, in the order of the rows.
pub(crate) fn scaling_links(rows: &[Row]) -> Vec<&str> {
    let mut links: Vec<&str> = Vec::new();
    for row in of(rows, Part::Scaling) {
        if !links.contains(&row.link.as_str()) {
            links.push(&row.link);
        }
    }
    links
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A row in which all went well.
    pub(crate) fn row(part: Part, delivery: Delivery, size: u64, down: u64) -> Row {
        Row {
            part,
            link: "tcdl-10".to_owned(),
            delivery,
            trial: 0,
            trace: None,
            volunteers: None,
            sizes: vec![size],
            fresh_bytes: size,
            link_bytes_up: 1_000,
            link_bytes_down: down,
            link_packets_up: 10,
            link_packets_down: 10,
            link_dropped: 0,
            seconds: 1.0,
            origin_us: 0,
            server_us: 0,
            volunteer_us: 0,
            ok: true,
            identical: true,
            error: None,
        }
    }

    fn block(delivery: Delivery, trial: u32, size: u64, fresh: u64, down: u64) -> Row {
        Row {
            trace: Some("t".to_owned()),
            trial,
            fresh_bytes: fresh,
            ..row(Part::Trace, delivery, size, down)
        }
    }

    #[test]
    fn a_trace_is_the_sum_of_its_blocks() {
        let mut rows = Vec::new();
        for (delivery, down) in [(Delivery::Http, 110), (Delivery::Warm, 11)] {
            rows.push(block(delivery, 0, 60, 60, down));
            rows.push(block(delivery, 1, 40, 0, down));
        }
        let replays = replays(&rows);
        let replay = &replays[0];
        assert_eq!(
            (replay.requests, replay.bytes, replay.distinct),
            (2, 100, 60)
        );
        assert_eq!(replay.share(Delivery::Warm, Delivery::Http), Some(0.1));
        assert_eq!(replay.share(Delivery::Cold, Delivery::Http), None);
    }

    #[test]
    fn a_trace_of_which_a_part_failed_has_no_figure() {
        let mut failed = block(Delivery::Warm, 1, 40, 0, 1);
        failed.ok = false;
        let rows = [
            block(Delivery::Http, 0, 60, 60, 110),
            block(Delivery::Http, 1, 40, 0, 110),
            block(Delivery::Warm, 0, 60, 60, 11),
            failed,
        ];
        assert_eq!(
            replays(&rows)[0].share(Delivery::Warm, Delivery::Http),
            None
        );
    }

    #[test]
    fn files_are_compared_with_themselves() {
        let timed = |delivery, trial, seconds| Row {
            trial,
            seconds,
            ..row(Part::Latency, delivery, 100 + u64::from(trial), 1)
        };
        let rows = [
            timed(Delivery::Https, 0, 2.0),
            timed(Delivery::Https, 1, 4.0),
            timed(Delivery::Cold, 1, 2.0),
            timed(Delivery::Cold, 0, 3.0),
        ];
        let mut ratios = latency_ratios(&rows, Delivery::Cold, Delivery::Https);
        ratios.sort_by_key(|(size, _)| *size);
        assert_eq!(ratios, [(100, 1.5), (101, 0.5)]);
    }
}
