//! Rows put together by link, endpoints and arm; the ratios between arms; the table for people.
//!
//! A ratio is always between medians of the same link and the same endpoints in one run.

use std::fmt::Write as _;

use crate::arm::Arm;
use crate::number::ABSENT;
use crate::row::Row;
use crate::stats::Spread;

/// All trials of one arm on one link with one pair of endpoints.
#[derive(Debug, Clone)]
pub(crate) struct Cell<'a> {
    pub(crate) link: &'a str,
    pub(crate) endpoints: &'a str,
    pub(crate) arm: Arm,
    /// Every one, also those that failed.
    pub(crate) rows: Vec<&'a Row>,
}

impl<'a> Cell<'a> {
    /// The spread of a figure over the trials that succeeded and have it.
    pub(crate) fn spread(&self, figure: impl Fn(&Row) -> Option<f64>) -> Option<Spread> {
        Spread::of(
            self.rows
                .iter()
                .filter(|row| row.ok)
                .filter_map(|row| figure(row)),
        )
    }

    pub(crate) fn median(&self, figure: impl Fn(&Row) -> Option<f64>) -> Option<f64> {
        self.spread(figure).map(|spread| spread.median)
    }

    pub(crate) fn seconds_first_byte(&self) -> Option<f64> {
        self.median(|row| row.seconds_first_byte)
    }

    pub(crate) fn tls_bytes(&self) -> Option<f64> {
        self.median(|row| row.tls_bytes().map(|bytes| bytes as f64))
    }

    pub(crate) fn failed(&self) -> usize {
        self.rows.iter().filter(|row| !row.ok).count()
    }

    pub(crate) fn differing(&self) -> usize {
        self.rows.iter().filter(|row| !row.identical).count()
    }
}

/// Rows by link, endpoints and arm, in the order in which links and endpoints first appear, and
/// arms in the order of tables.
pub(crate) fn cells<'a>(rows: &'a [Row]) -> Vec<Cell<'a>> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for row in rows {
        let pair = (row.link.as_str(), row.endpoints.as_str());
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    let mut links: Vec<&str> = Vec::new();
    for (link, _) in &pairs {
        if !links.contains(link) {
            links.push(link);
        }
    }
    // Units finish in any order; tables keep a link's rows together.
    pairs.sort_by_key(|(link, _)| links.iter().position(|known| known == link));
    let mut cells = Vec::new();
    for (link, endpoints) in pairs {
        for arm in Arm::ALL {
            let rows: Vec<&'a Row> = rows
                .iter()
                .filter(|row| row.link == link && row.endpoints == endpoints && row.arm == arm)
                .collect();
            if !rows.is_empty() {
                cells.push(Cell {
                    link,
                    endpoints,
                    arm,
                    rows,
                });
            }
        }
    }
    cells
}

/// The cell of this link, these endpoints and this arm.
pub(crate) fn find<'c, 'a>(
    cells: &'c [Cell<'a>],
    link: &str,
    endpoints: &str,
    arm: Arm,
) -> Option<&'c Cell<'a>> {
    cells
        .iter()
        .find(|cell| cell.link == link && cell.endpoints == endpoints && cell.arm == arm)
}

/// The table's columns.
pub(crate) const COLUMNS: [&str; 11] = [
    "link",
    "endpoints",
    "arm",
    "trials",
    "SYN to first byte, s",
    "to plain",
    "handshake, s",
    "TLS bytes on the link",
    "to plain",
    "IP bytes until Finished, to floor",
    "proxies' CPU, µs",
];

/// One line of the table for a cell.
pub(crate) fn line(cell: &Cell<'_>, cells: &[Cell<'_>]) -> Vec<String> {
    let plain = find(cells, cell.link, cell.endpoints, Arm::Plain);
    let ratio = |figure: fn(&Cell<'_>) -> Option<f64>| match (figure(cell), plain.and_then(figure))
    {
        (Some(own), Some(plain)) if plain > 0.0 && cell.arm != Arm::Plain => {
            format!("{:.1} %", own / plain * 100.0)
        }
        _ => String::new(),
    };
    let mut trials = cell.rows.len().to_string();
    if cell.failed() > 0 {
        let _ = write!(trials, ", {} FAILED", cell.failed());
    }
    if cell.differing() > 0 {
        let _ = write!(trials, ", {} DIFFER", cell.differing());
    }
    let handshake = cell.median(|row| Some(row.handshake_bytes() as f64));
    let floor = cell.median(|row| row.floor_bytes.map(|bytes| bytes as f64));
    vec![
        cell.link.to_owned(),
        cell.endpoints.to_owned(),
        cell.arm.name().to_owned(),
        trials,
        spread_in_words(cell.spread(|row| row.seconds_first_byte)),
        ratio(|cell| cell.seconds_first_byte()),
        spread_in_words(cell.spread(|row| row.seconds_handshake)),
        cell.tls_bytes()
            .map_or_else(|| ABSENT.to_owned(), |bytes| grouped(bytes as u64)),
        ratio(|cell| cell.tls_bytes()),
        match (handshake, floor) {
            (Some(bytes), Some(floor)) if floor > 0.0 => {
                format!("{} = {:.2} x", grouped(bytes as u64), bytes / floor)
            }
            (Some(bytes), _) => grouped(bytes as u64),
            (None, _) => String::new(),
        },
        cell.median(|row| Some(row.proxy_cpu_us as f64))
            .filter(|_| cell.arm.has_proxies())
            .map_or_else(String::new, |micros| grouped(micros as u64)),
    ]
}

/// Median, and half of what lies between the quartiles where there is more than one trial.
pub(crate) fn spread_in_words(spread: Option<Spread>) -> String {
    let Some(spread) = spread else {
        return String::new();
    };
    let half = (spread.high - spread.low) / 2.0;
    let digits = if spread.median >= 10.0 {
        2
    } else if spread.median >= 0.1 {
        3
    } else {
        5
    };
    match spread.count {
        1 => format!("{:.digits$}", spread.median),
        _ => format!("{:.digits$} ± {half:.digits$}", spread.median),
    }
}

/// A number with a thin space between groups of three digits, from five digits on.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    if digits.len() < 5 {
        return digits;
    }
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// The table in Markdown.
pub fn markdown(rows: &[Row]) -> String {
    let cells = cells(rows);
    let mut text = format!("| {} |\n", COLUMNS.join(" | "));
    let rule: Vec<&str> = COLUMNS
        .iter()
        .enumerate()
        .map(|(column, _)| if column < 3 { "---" } else { "--:" })
        .collect();
    let _ = writeln!(text, "| {} |", rule.join(" | "));
    for cell in &cells {
        let _ = writeln!(text, "| {} |", line(cell, &cells).join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::StoreState;

    /// A row as a trial of this arm would give it.
    fn row(link: &str, endpoints: &str, arm: Arm, seconds: f64, tls: u64) -> Row {
        Row {
            experiment: "test".to_owned(),
            link: link.to_owned(),
            endpoints: endpoints.to_owned(),
            version: "1.2".to_owned(),
            key: "rsa-2048".to_owned(),
            certificates: vec![926],
            client_certificates: Vec::new(),
            arm,
            store: StoreState::None,
            trial: 1,
            ok: true,
            identical: true,
            error: None,
            seconds_handshake: Some(seconds * 0.75),
            seconds_first_byte: Some(seconds),
            link_bytes_up: 1000,
            link_bytes_down: 1000 + tls,
            link_packets_up: 9,
            link_packets_down: 9,
            handshake_bytes_up: 600,
            handshake_bytes_down: 200 + tls,
            tls_bytes_up: Some(300),
            tls_bytes_down: Some(tls - 300),
            option_bytes: Some(0),
            floor_bytes: Some(600),
            parts: None,
            proxy_cpu_us: 500,
            proxy_memory_kib: 9000,
            situation: None,
            coming: None,
            clients: None,
            endpoint_repeats: None,
            crossed: None,
            client_crossed: None,
            staging_seconds: None,
        }
    }

    #[test]
    fn cells_keep_links_together_and_ratios_are_to_plain() {
        let rows = [
            row("iridium", "one", Arm::Plain, 10.0, 2000),
            row("tcdl-10", "one", Arm::Plain, 0.01, 2000),
            row("iridium", "three", Arm::Plain, 20.0, 4000),
            row("iridium", "one", Arm::Packet, 7.0, 900),
        ];
        let cells = cells(&rows);
        let names: Vec<(&str, &str, Arm)> = cells
            .iter()
            .map(|cell| (cell.link, cell.endpoints, cell.arm))
            .collect();
        assert_eq!(
            names,
            [
                ("iridium", "one", Arm::Plain),
                ("iridium", "one", Arm::Packet),
                ("iridium", "three", Arm::Plain),
                ("tcdl-10", "one", Arm::Plain),
            ]
        );
        let packet = line(&cells[1], &cells);
        assert_eq!(
            (packet[5].as_str(), packet[8].as_str()),
            ("70.0 %", "45.0 %")
        );
        assert_eq!(packet[9], "1700 = 2.83 x");
        assert_eq!(markdown(&rows).lines().count(), 6);
    }

    #[test]
    fn what_the_link_does_not_show_is_a_dash() {
        let mut rows = [
            row("iridium", "one", Arm::Plain, 10.0, 2000),
            row("iridium", "one", Arm::Tunnel, 4.0, 2000),
        ];
        (rows[1].tls_bytes_up, rows[1].tls_bytes_down) = (None, None);
        let cells = cells(&rows);
        let tunnel = line(&cells[1], &cells);
        assert_eq!((tunnel[7].as_str(), tunnel[8].as_str()), (ABSENT, ""));
        assert_eq!(tunnel[9], "2800 = 4.67 x");
    }

    #[test]
    fn failures_show_and_do_not_count() {
        let mut rows = vec![
            row("iridium", "one", Arm::Plain, 10.0, 2000),
            row("iridium", "one", Arm::Plain, 99.0, 2000),
        ];
        rows[1].ok = false;
        rows[1].identical = false;
        let cells = cells(&rows);
        assert_eq!(cells[0].seconds_first_byte(), Some(10.0));
        assert_eq!(line(&cells[0], &cells)[3], "2, 1 FAILED, 1 DIFFER");
    }

    #[test]
    fn long_numbers_are_grouped() {
        assert_eq!(grouped(9999), "9999");
        assert_eq!(grouped(1_234_567), "1\u{202f}234\u{202f}567");
    }
}
