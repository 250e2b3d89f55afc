//! Whole visits: what a link carries for a program's task from its start to its end, how long that
//! takes, and what it costs; a day of such visits; and the tables of them.
//!
//! Is not: the measuring, nor a tariff's arithmetic. Invariant: a day is computed from measured
//! visits, and every heading says so.

use serde::{Deserialize, Serialize};

use crate::arm::Arm;
use crate::number::{self, ABSENT};
use crate::stats::Spread;

/// The visits of one kind over one link with one arm: a line of JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VisitCell {
    /// The link's name.
    pub link: String,
    /// What the experiment calls the visit.
    pub visit: String,
    /// The version of TLS.
    pub version: String,
    /// What stands in between. A cold arm is a first visit.
    pub arm: Arm,
    /// Visits a day, as the experiment says.
    pub a_day: u32,
    /// What was measured.
    pub trials: Vec<VisitTrial>,
    /// By each tariff.
    pub costs: Vec<VisitCost>,
}

/// One measured visit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VisitTrial {
    /// The program says that it has done what it was asked to.
    pub ok: bool,
    /// What came is what the server has, byte for byte.
    pub identical: bool,
    /// What went wrong.
    pub error: Option<String>,
    /// From the program's start, or the tunnel's first packet before it, to the program's end.
    pub seconds: f64,
    /// IP bytes that the link carried.
    pub link_bytes_up: u64,
    /// Likewise.
    pub link_bytes_down: u64,
    /// IP bytes that crossed after the visit before was over, and before this one.
    pub bytes_before: u64,
}

/// What a tariff makes of it, in millionths of its currency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VisitCost {
    /// The tariff's name.
    pub tariff: String,
    /// Its currency.
    pub currency: String,
    /// A visit that comes alone: the median of the good ones, or of all where none is good.
    pub visit_micros: u64,
    /// Computed: a day of visits like these, at equal distances. `None` where a visit takes longer
    /// than the time until the next, and for first visits.
    pub day_micros: Option<u64>,
}

/// A link, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisitedLink {
    /// Its name.
    pub name: String,
    /// Its rates and its delay.
    pub description: String,
}

impl VisitCell {
    /// Whether no visit brought what it should.
    pub(crate) fn is_failed(&self) -> bool {
        self.good().next().is_none()
    }

    /// The trials that brought what they should.
    fn good(&self) -> impl Iterator<Item = &VisitTrial> {
        let is_good = |trial: &&VisitTrial| trial.ok && trial.identical;
        self.trials.iter().filter(is_good)
    }

    /// The median of a figure of the good trials, or of the failed ones where none is good.
    fn median(&self, figure: impl Fn(&VisitTrial) -> f64) -> Option<f64> {
        let of_good = Spread::of(self.good().map(&figure));
        let spread = of_good.or_else(|| Spread::of(self.trials.iter().map(figure)));
        spread.map(|spread| spread.median)
    }

    /// IP bytes of a visit, both directions.
    pub(crate) fn bytes(&self) -> Option<f64> {
        self.median(|trial| (trial.link_bytes_up + trial.link_bytes_down) as f64)
    }

    pub(crate) fn seconds(&self) -> Option<f64> {
        self.median(|trial| trial.seconds)
    }
}

/// Each visit's cells on one link, in the order in which visits first come.
pub(crate) fn by_visit<'a>(cells: &'a [VisitCell], link: &str) -> Vec<Vec<&'a VisitCell>> {
    let mut groups: Vec<Vec<&VisitCell>> = Vec::new();
    for cell in cells.iter().filter(|cell| cell.link == link) {
        match groups.iter_mut().find(|group| group[0].visit == cell.visit) {
            Some(group) => group.push(cell),
            None => groups.push(vec![cell]),
        }
    }
    groups
}

/// The table of a link, under its name; empty where it was not visited.
pub fn markdown(cells: &[VisitCell], link: &VisitedLink) -> String {
    let groups = by_visit(cells, &link.name);
    if groups.is_empty() {
        return String::new();
    }
    let mut text = format!("\n## {}: {}\n\n", link.name, link.description);
    text.push_str(&table(&groups));
    let trials = groups.iter().flatten().flat_map(|cell| &cell.trials);
    let between: u64 = trials.map(|trial| trial.bytes_before).sum();
    let between = number::count(between as f64);
    text.push_str(&format!(
        "\nBetween visits the link carried {between} bytes in all.\n"
    ));
    let failures: String = groups
        .iter()
        .flatten()
        .filter_map(|cell| failure(cell))
        .collect();
    if !failures.is_empty() {
        text.push_str("\nWhat went wrong:\n\n");
        text.push_str(&failures);
    }
    text
}

fn table(groups: &[Vec<&VisitCell>]) -> String {
    let costs = &groups[0][0].costs;
    let mut heads = vec![
        "visit".to_owned(),
        "TLS".to_owned(),
        "arm".to_owned(),
        "good".to_owned(),
        "bytes up".to_owned(),
        "bytes down".to_owned(),
        "of plain".to_owned(),
        "seconds".to_owned(),
        "visits a day".to_owned(),
        "kB a day".to_owned(),
    ];
    for VisitCost {
        tariff, currency, ..
    } in costs
    {
        heads.push(format!("{tariff}: {currency} a visit"));
        heads.push(format!("{currency} a day"));
    }
    let mut text = format!("| {} |\n", heads.join(" | "));
    text.push_str(&format!(
        "|---|---|---|{}\n",
        "--:|".repeat(heads.len() - 3)
    ));
    for group in groups {
        let plain = group.iter().find(|cell| cell.arm == Arm::Plain);
        let plain = plain.and_then(|cell| cell.bytes());
        for cell in group {
            text.push_str(&format!("| {} |\n", row(cell, plain).join(" | ")));
        }
    }
    text
}

fn row(cell: &VisitCell, plain: Option<f64>) -> Vec<String> {
    let or_absent = |figure: Option<String>| figure.unwrap_or_else(|| ABSENT.to_owned());
    let count = |figure: Option<f64>| or_absent(figure.map(number::count));
    let is_first = is_first(cell.arm);
    let share = cell.bytes().zip(plain).map(|(own, plain)| own / plain);
    let a_day = (!is_first).then_some(f64::from(cell.a_day));
    let day = cell
        .bytes()
        .zip(a_day)
        .map(|(bytes, visits)| bytes * visits);
    let good = format!("{} of {}", cell.good().count(), cell.trials.len());
    let mut row = vec![
        cell.visit.clone(),
        cell.version.clone(),
        in_words(cell.arm).to_owned(),
        good,
        count(cell.median(|trial| trial.link_bytes_up as f64)),
        count(cell.median(|trial| trial.link_bytes_down as f64)),
        or_absent(share.map(number::percent)),
        or_absent(cell.seconds().map(number::seconds)),
        count(a_day),
        count(day.map(|bytes| bytes / 1e3)),
    ];
    for cost in &cell.costs {
        row.push(money(cost.visit_micros));
        row.push(or_absent(cost.day_micros.map(money)));
    }
    row
}

fn failure(cell: &VisitCell) -> Option<String> {
    let of = |trial: &VisitTrial| trial.error.clone();
    let error = cell.trials.iter().find_map(of)?;
    let (visit, arm) = (&cell.visit, in_words(cell.arm));
    Some(format!("- {visit}, {arm}: {error}\n"))
}

/// Whether the proxies start anew for such a visit.
pub fn is_first(arm: Arm) -> bool {
    matches!(arm, Arm::PacketCold | Arm::TunnelCold)
}

fn in_words(arm: Arm) -> &'static str {
    match arm {
        Arm::PacketCold => "packet, first visit",
        Arm::TunnelCold => "tunnel, first visit",
        other => other.name(),
    }
}

/// An amount with as many decimals as mean something: two from 1 on, four below.
pub(crate) fn money(micros: u64) -> String {
    let amount = micros as f64 / 1e6;
    let decimals = if micros >= 1_000_000 { 2 } else { 4 };
    format!("{amount:.decimals$}")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn cell(visit: &str, arm: Arm, bytes: u64) -> VisitCell {
        let trial = VisitTrial {
            ok: true,
            identical: true,
            error: None,
            seconds: bytes as f64 / 300.0,
            link_bytes_up: bytes / 4,
            link_bytes_down: bytes - bytes / 4,
            bytes_before: 0,
        };
        VisitCell {
            link: "iridium".to_owned(),
            visit: visit.to_owned(),
            version: "1.2".to_owned(),
            arm,
            a_day: 20,
            trials: vec![trial; 2],
            costs: vec![VisitCost {
                tariff: "by-byte".to_owned(),
                currency: "USD".to_owned(),
                visit_micros: bytes * 10,
                day_micros: (!is_first(arm)).then_some(bytes * 200),
            }],
        }
    }

    fn link() -> VisitedLink {
        VisitedLink {
            name: "iridium".to_owned(),
            description: "2.4 kbit/s".to_owned(),
        }
    }

    #[test]
    fn a_table_has_bytes_seconds_and_money_of_a_visit_and_of_a_day() {
        let cells = [
            cell("page", Arm::Plain, 60_000),
            cell("page", Arm::TunnelCold, 48_000),
            cell("page", Arm::Tunnel, 30_000),
        ];
        let text = markdown(&cells, &link());
        for row in [
            "| page | 1.2 | plain | 2 of 2 | 15,000 | 45,000 | 100\u{a0}% | 200.00 | 20 | 1,200 | 0.6000 | 12.00 |",
            "| page | 1.2 | tunnel, first visit | 2 of 2 | 12,000 | 36,000 | 80\u{a0}% | 160.00 | – | – | 0.4800 | – |",
            "| page | 1.2 | tunnel | 2 of 2 | 7,500 | 22,500 | 50\u{a0}% | 100.00 | 20 | 600 | 0.3000 | 6.00 |",
        ] {
            assert!(text.contains(row), "{text}");
        }
        assert!(text.contains("Between visits the link carried 0 bytes in all."));
        assert!(!text.contains("went wrong"), "{text}");
    }

    #[test]
    fn a_visit_that_brought_something_else_is_told_and_counts_only_where_none_is_good() {
        let mut other = cell("poll", Arm::Tunnel, 5_000);
        let mut last = other.trials[1].clone();
        for trial in &mut other.trials {
            trial.identical = false;
            trial.error = Some("the answer is not the server's".to_owned());
        }
        let text = markdown(std::slice::from_ref(&other), &link());
        let row = "| poll | 1.2 | tunnel | 0 of 2 | 1,250 | 3,750 | – | 16.67 |";
        assert!(text.contains(row), "{text}");
        last.link_bytes_up = 1_000;
        other.trials.push(last);
        let text = markdown(&[other], &link());
        let row = "| poll | 1.2 | tunnel | 1 of 3 | 1,000 | 3,750 | – | 16.67 |";
        assert!(text.contains(row), "{text}");
        let told = "- poll, tunnel: the answer is not the server's\n";
        assert!(text.contains(told), "{text}");
    }
}
