//! Rows of many clients behind one client-side proxy: what each way of handling their certificates
//! costs, for populations of different sizes.
//!
//! Bytes are means over the visits, not medians: what is sent once for all, such as a filter of
//! what is held, counts with those who have caused it.

use std::fmt::Write as _;

use super::number::{self, ABSENT};
use crate::arm::Arm;
use crate::coming::Coming;
use crate::row::{Crossed, Row};
use crate::stats::Spread;

/// The visits of one kind in one arm.
#[derive(Debug, Clone)]
pub(crate) struct Crowd<'a> {
    pub(crate) link: &'a str,
    pub(crate) clients: u64,
    pub(crate) coming: Coming,
    pub(crate) arm: Arm,
    rows: Vec<&'a Row>,
}

/// Columns of the table.
pub(crate) const COLUMNS: [&str; 10] = [
    "link",
    "clients",
    "visit",
    "arm",
    "visits",
    "IP bytes on the link a visit, mean",
    "of plain",
    "TLS bytes, median",
    "handshake, s",
    "misses",
];

/// Brings rows together: links in the rows' order, then growing populations, first visits before
/// others, arms in the order of tables.
pub(crate) fn crowds<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<Crowd<'a>> {
    let mut crowds: Vec<Crowd<'a>> = Vec::new();
    for row in rows {
        let (Some(coming), Some(clients)) = (row.coming, row.clients) else {
            continue;
        };
        let same = |crowd: &&mut Crowd<'a>| {
            crowd.link == row.link
                && crowd.clients == clients
                && crowd.coming == coming
                && crowd.arm == row.arm
        };
        match crowds.iter_mut().find(same) {
            Some(crowd) => crowd.rows.push(row),
            None => crowds.push(Crowd {
                link: &row.link,
                clients,
                coming,
                arm: row.arm,
                rows: vec![row],
            }),
        }
    }
    let mut links: Vec<&str> = Vec::new();
    for crowd in &crowds {
        if !links.contains(&crowd.link) {
            links.push(crowd.link);
        }
    }
    let place = |arm| Arm::ALL.iter().position(|known| *known == arm);
    crowds.sort_by_key(|crowd| {
        (
            links.iter().position(|link| *link == crowd.link),
            crowd.clients,
            crowd.coming,
            place(crowd.arm),
        )
    });
    crowds
}

impl Crowd<'_> {
    fn sound(&self) -> impl Iterator<Item = &&Row> {
        self.rows.iter().filter(|row| row.ok && row.identical)
    }

    /// IP bytes a visit, both ways.
    pub(crate) fn bytes(&self) -> Option<f64> {
        let count = self.sound().count();
        let sum: u64 = self.sound().map(|row| row.link_bytes()).sum();
        (count > 0).then(|| sum as f64 / count as f64)
    }

    fn median(&self, figure: impl Fn(&Row) -> Option<f64>) -> Option<f64> {
        Spread::of(self.sound().filter_map(|row| figure(row))).map(|spread| spread.median)
    }

    /// Visits in which a reference to the client's certificate crossed that could not be followed.
    fn misses(&self) -> usize {
        self.rows
            .iter()
            .filter(|row| row.client_crossed == Some(Crossed::ReferenceThenChain))
            .count()
    }

    /// Its line in the table.
    pub(crate) fn line(&self, all: &[Crowd<'_>]) -> [String; 10] {
        let plain = all.iter().find(|other| {
            other.arm == Arm::Plain
                && (other.link, other.clients, other.coming)
                    == (self.link, self.clients, self.coming)
        });
        let share = match (self.bytes(), plain.and_then(Crowd::bytes)) {
            (Some(own), Some(plain)) if self.arm != Arm::Plain && plain > 0.0 => {
                number::percent(own / plain)
            }
            _ => String::new(),
        };
        let unsound = self.rows.len() - self.sound().count();
        let mut visits = number::count(self.rows.len() as f64);
        if unsound > 0 {
            let _ = write!(visits, ", {unsound} FAILED");
        }
        let or_absent = |figure: Option<f64>, write: fn(f64) -> String| {
            figure.map_or_else(|| ABSENT.to_owned(), write)
        };
        [
            self.link.to_owned(),
            number::count(self.clients as f64),
            self.coming.name().to_owned(),
            self.arm.look().label.to_owned(),
            visits,
            or_absent(self.bytes(), number::count),
            share,
            or_absent(
                self.median(|row| row.tls_bytes().map(|bytes| bytes as f64)),
                number::count,
            ),
            or_absent(self.median(|row| row.seconds_handshake), number::seconds),
            self.misses().to_string(),
        ]
    }
}

/// The table in Markdown.
pub fn markdown(rows: &[Row]) -> String {
    let all = crowds(rows);
    let mut text = format!("| {} |\n", COLUMNS.join(" | "));
    let rule = COLUMNS.map(|column| match column {
        "link" | "visit" | "arm" => "---",
        _ => "--:",
    });
    let _ = writeln!(text, "| {} |", rule.join(" | "));
    for crowd in &all {
        let _ = writeln!(text, "| {} |", crowd.line(&all).join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::synthetic;
    use super::*;

    fn rows(arm: Arm, clients: u64, coming: Coming, bytes: &[u64]) -> Vec<Row> {
        let seconds = vec![1.0; bytes.len()];
        let mut rows = synthetic::arm_rows("tcdl-10", "one", arm, &seconds);
        for (row, bytes) in rows.iter_mut().zip(bytes) {
            row.clients = Some(clients);
            row.coming = Some(coming);
            row.link_bytes_up = 0;
            row.link_bytes_down = *bytes;
        }
        rows
    }

    #[test]
    fn what_is_sent_once_for_all_is_in_the_mean() {
        let mut all = rows(Arm::Packet, 10, Coming::First, &[1000, 1000, 4000]);
        all.extend(rows(Arm::Packet, 10, Coming::Again, &[500]));
        all.extend(rows(Arm::Plain, 10, Coming::First, &[4000]));
        all[1].client_crossed = Some(Crossed::ReferenceThenChain);
        let all = crowds(&all);
        let lines: Vec<[String; 10]> = all.iter().map(|crowd| crowd.line(&all)).collect();
        let figures = |line: &[String; 10]| [5, 6, 9].map(|column| line[column].clone());
        assert_eq!(figures(&lines[0]), ["4,000", "", "0"]);
        assert_eq!(figures(&lines[1]), ["2,000", "50\u{a0}%", "1"]);
        assert_eq!(lines[2][2], "again");
    }
}
