//! The tables of the evaluation of multi-context TLS, for the page and for Markdown.

use super::{
    Party, Strategy, bulk, capacity, check, first_byte, handshake, median, numbers, of, overheads,
    page_loads, paper, strategies, transfer, transfers,
};
use crate::mctls_row::{McArm, McPart, McRow};
use crate::number::{self, ABSENT, SPACE, human_bytes};
use crate::stats::Spread;
use crate::table::Table;

/// All tables for which there are rows.
pub(crate) fn tables(rows: &[McRow]) -> Vec<Table> {
    [
        handshakes(rows),
        first_bytes_by_contexts(rows),
        first_bytes_by_middleboxes(rows),
        files(rows),
        pages(rows),
        records(rows),
        connections(rows),
        large(rows),
        lines(rows),
    ]
    .into_iter()
    .filter(|table| !table.lines.is_empty())
    .collect()
}

/// Bars and tables in Markdown.
pub fn markdown(rows: &[McRow]) -> String {
    let mut text = bars(rows).markdown();
    for table in tables(rows) {
        text.push_str(&table.markdown());
    }
    let unsound = rows.iter().filter(|row| !row.ok).count();
    if unsound > 0 {
        text.push_str(&format!(
            "**{unsound} of {} rows failed; they are left out of the figures.**\n",
            rows.len()
        ));
    }
    text
}

fn bars(rows: &[McRow]) -> Table {
    let lines = check(rows).into_iter().map(|bar| {
        let figure = |figure: Option<f64>| or_absent(figure, |figure| bar.in_words(figure));
        vec![
            bar.what.to_owned(),
            bar.case.to_owned(),
            bar.verdict(),
            bar.note.clone(),
            figure(bar.measured),
            bar.bar_in_words(),
            figure(bar.target),
            bar.thesis.unwrap_or(ABSENT).to_owned(),
        ]
    });
    Table {
        title: "Figures to reach",
        note: "Rates and bulk as shares of split TLS's and of end-to-end TLS's in the same run."
            .to_owned(),
        columns: words("what | case | verdict | note | measured | bar | target | paper"),
        words: 4,
        lines: lines.collect(),
    }
}

fn words(text: &str) -> Vec<String> {
    text.split('|').map(|word| word.trim().to_owned()).collect()
}

fn or_absent(figure: Option<f64>, words: impl Fn(f64) -> String) -> String {
    figure.map_or_else(|| ABSENT.to_owned(), words)
}

fn milliseconds(seconds: Option<f64>) -> String {
    or_absent(seconds, |seconds| number::count(1e3 * seconds))
}

fn percent(share: Option<f64>) -> String {
    or_absent(share, |share| format!("{:.2}{SPACE}%", 100.0 * share))
}

/// A column for each arm behind the first.
fn arms(first: &str) -> Vec<String> {
    let mut columns = vec![first.to_owned()];
    columns.extend(McArm::ALL.map(|arm| arm.label().to_owned()));
    columns
}

fn handshakes(rows: &[McRow]) -> Table {
    let mut lines = Vec::new();
    for middleboxes in numbers(rows, McPart::Handshake, |row| row.middleboxes) {
        for contexts in numbers(rows, McPart::Handshake, |row| row.contexts) {
            let bytes = |arm| or_absent(handshake(rows, arm, middleboxes, contexts), number::count);
            let prototype = usize::try_from(middleboxes).ok().and_then(|middleboxes| {
                let at = paper::CONTEXTS
                    .iter()
                    .position(|known| *known == contexts)?;
                Some(paper::HANDSHAKE.get(middleboxes)?[at])
            });
            let mut line = vec![middleboxes.to_string(), contexts.to_string()];
            line.extend(McArm::ALL[..4].iter().map(|arm| bytes(*arm)));
            line.push(or_absent(prototype, number::count));
            lines.push(line);
        }
    }
    Table {
        title: "Bytes of a handshake (figure 8)",
        note: format!(
            "TCP payload on the client's link until both ends may send data, both ways, as the link counts it; medians. Every party \
             has one certificate (ECDSA, P-256). The last column is what the paper's prototype sends, with RSA-2048; its split TLS \
             {} bytes.",
            number::count(paper::HANDSHAKE_SPLIT)
        ),
        columns: words(
            "middleboxes | contexts | mctls13 | mctls12 | split TLS | end-to-end TLS | prototype",
        ),
        words: 0,
        lines,
    }
}

fn first_bytes_by_contexts(rows: &[McRow]) -> Table {
    let here = |row: &McRow| {
        if row.middleboxes == 1 {
            row.contexts
        } else {
            1
        }
    };
    let lines = numbers(rows, McPart::FirstByte, here)
        .into_iter()
        .map(|contexts| {
            let mut line = vec![contexts.to_string()];
            line.extend(McArm::ALL.map(|arm| milliseconds(first_byte(rows, arm, 1, contexts))));
            line
        });
    Table {
        title: "Time to the first byte by contexts (figure 3, left)",
        note: "Milliseconds from the client's connect, one middlebox, 10 Mbit/s and 20 ms for each of two links; medians. In the paper: \
               160 ms without encryption, 320 ms for all others up to nine contexts; beyond, its prototype waits for the Nagle algorithm \
               unless that is off, as it is here."
            .to_owned(),
        columns: arms("contexts"),
        words: 0,
        lines: lines.collect(),
    }
}

fn first_bytes_by_middleboxes(rows: &[McRow]) -> Table {
    let lines = numbers(rows, McPart::FirstByte, |row| row.middleboxes)
        .into_iter()
        .map(|middleboxes| {
            let mut line = vec![middleboxes.to_string()];
            line.extend(McArm::ALL.map(|arm| milliseconds(first_byte(rows, arm, middleboxes, 1))));
            line
        });
    Table {
        title: "Time to the first byte by middleboxes (figure 3, right)",
        note: "Milliseconds, one context; each middlebox adds a link of 20 ms. In the paper the time grows in proportion, and that of \
               mcTLS is in line with that of the others."
            .to_owned(),
        columns: arms("middleboxes"),
        words: 0,
        lines: lines.collect(),
    }
}

fn files(rows: &[McRow]) -> Table {
    let lines = transfers(rows).into_iter().map(|(link, bytes)| {
        let mut line = vec![link.to_owned(), human_bytes(bytes)];
        line.extend(McArm::ALL.map(|arm| milliseconds(transfer(rows, arm, link, bytes))));
        line
    });
    let mut columns = arms("link");
    columns.insert(1, "file".to_owned());
    Table {
        title: "Time for a file by link and size (figure 7)",
        note: "Milliseconds from the client's connect to the last byte, one middlebox between two such links; medians. In the paper: at \
               1 Mbit/s encryption adds some 17 ms for files up to 5 kB, and the protocol makes little difference."
            .to_owned(),
        columns,
        words: 2,
        lines: lines.collect(),
    }
}

/// Every arm with each of its strategies, and its name.
fn variants() -> Vec<(McArm, Option<Strategy>, String)> {
    let mut variants = Vec::new();
    for arm in McArm::ALL {
        for strategy in strategies(arm) {
            let name = match strategy {
                Some(strategy) => format!("{}, {}", arm.label(), strategy.label()),
                None => arm.label().to_owned(),
            };
            variants.push((arm, strategy, name));
        }
    }
    variants
}

fn pages(rows: &[McRow]) -> Table {
    let lines = variants().into_iter().filter_map(|(arm, strategy, name)| {
        let loads = page_loads(rows, arm, strategy);
        let spread = Spread::of(loads.iter().copied())?;
        let split = page_loads(rows, McArm::SplitTls, None);
        let split = Spread::of(split).map(|split| spread.median / split.median);
        Some(vec![
            name,
            number::seconds(spread.median),
            number::seconds(spread.low),
            number::seconds(spread.high),
            number::seconds(loads.last().copied()?),
            or_absent(split, number::percent),
        ])
    });
    Table {
        title: "Time to load a page (figures 4 and 6)",
        note: "Seconds, one middlebox, 10 Mbit/s and 20 ms for each link, six connections. Sizes of objects are drawn from the \
               percentiles that the paper gives for those of the 500 most visited sites of 2015 (0.5, 4.9 and 185 kB at 10, 50 and 99 %); \
               10 to 100 objects a page. In the paper the strategies differ little, and without the Nagle algorithm mcTLS is as fast as \
               the others."
            .to_owned(),
        columns: words("protocol | median | lower quartile | upper quartile | slowest | of split TLS"),
        words: 1,
        lines: lines.collect(),
    }
}

fn records(rows: &[McRow]) -> Table {
    let lines = variants().into_iter().filter_map(|(arm, strategy, name)| {
        let shares = overheads(rows, arm, strategy);
        let spread = Spread::of(shares.iter().copied())?;
        let most = shares.into_iter().fold(0.0, f64::max);
        Some(vec![
            name,
            percent(Some(spread.median)),
            percent(Some(spread.low)),
            percent(Some(spread.high)),
            percent(Some(most)),
        ])
    });
    Table {
        title: "What records add to a page (section 5.2)",
        note: "Bytes on an established connection beyond those of requests and responses, as a share of them, over the same pages. In the \
               paper, MACs alone: 0.6 % for split TLS, 2.4 % for mcTLS."
            .to_owned(),
        columns: words("protocol | median page | lower quartile | upper quartile | most"),
        words: 1,
        lines: lines.collect(),
    }
}

fn connections(rows: &[McRow]) -> Table {
    let contexts = numbers(rows, McPart::Connections, |row| row.contexts);
    let mut lines = Vec::new();
    for arm in McArm::ALL {
        for contexts in &contexts {
            let rate = |arm, contexts, party| capacity(rows, arm, contexts, party);
            let Some(server) = rate(arm, *contexts, Party::Server) else {
                continue;
            };
            let middlebox = rate(arm, *contexts, Party::Middlebox);
            let share = |ours: Option<f64>, party| {
                let split = rate(McArm::SplitTls, 1, party);
                or_absent(
                    ours.zip(split).map(|(ours, split)| ours / split),
                    number::percent,
                )
            };
            lines.push(vec![
                arm.label().to_owned(),
                contexts.to_string(),
                number::count(server),
                share(Some(server), Party::Server),
                or_absent(middlebox, number::count),
                share(middlebox, Party::Middlebox),
            ]);
        }
    }
    Table {
        title: "Connections a second and processor (figure 5)",
        note: "Handshake and close alone, one middlebox, all on one machine; worked out from the processor time of server and middlebox, \
               medians of batches. In the paper the server has 23 to 35 % fewer connections than with split TLS, the middlebox 45 to 75 % \
               more."
            .to_owned(),
        columns: words("protocol | contexts | server | of split TLS | middlebox | of split TLS"),
        words: 1,
        lines,
    }
}

fn large(rows: &[McRow]) -> Table {
    let lines = McArm::ALL.into_iter().filter_map(|arm| {
        let goodput = bulk(rows, arm)?;
        let nanos = |micros: fn(&McRow) -> u64| {
            let like = of(rows, McPart::Bulk).filter(|row| row.arm == arm);
            let each = median(like, |row| {
                1e3 * micros(row) as f64 / row.bytes.max(1) as f64
            });
            or_absent(each, |nanos| format!("{nanos:.2}"))
        };
        let plain = bulk(rows, McArm::EndToEndTls).map(|plain| goodput / plain);
        Some(vec![
            arm.label().to_owned(),
            format!("{:.0}", goodput / 1e6),
            or_absent(plain, number::percent),
            nanos(|row| row.server_us),
            nanos(|row| row.middlebox_us),
            nanos(|row| row.client_us),
        ])
    });
    Table {
        title: "A large transfer through a middlebox that may read",
        note: "One connection on the loopback interface; the middlebox passes everything on. Goodput by the clock; processor time of each \
               party in nanoseconds for a byte."
            .to_owned(),
        columns: words("protocol | MB/s | of end-to-end TLS | server | middlebox | client"),
        words: 1,
        lines: lines.collect(),
    }
}

fn lines(rows: &[McRow]) -> Table {
    let lines = of(rows, McPart::Lines).filter_map(|row| {
        let lines = row.lines.as_ref()?;
        Some(vec![
            lines.program.clone(),
            lines.of.to_string(),
            lines.added.to_string(),
            lines.removed.to_string(),
        ])
    });
    Table {
        title: "Lines that a program must change (section 5.4)",
        note: "Two examples each, one over plain TLS (rustls and tokio), one over mctls13; lines that only one of them has, without \
               comments and empty lines. The paper: a client in 17 lines of Ruby; OpenSSL's s_time with less than 30 lines more and about \
               10 changed."
            .to_owned(),
        columns: words("program | lines over TLS | added | removed"),
        words: 1,
        lines: lines.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;

    #[test]
    fn there_is_a_table_for_what_there_are_rows_for() {
        assert!(tables(&[]).is_empty());
        let rows = [row(McPart::Handshake, McArm::Mctls13)];
        let text = markdown(&rows);
        assert!(
            text.contains("| 1 | 1 | 1,000 | – | – | – | 3,899 |"),
            "{text}"
        );
        assert!(text.contains("## Figures to reach") && !text.contains("figure 7"));
    }
}
