//! Rows of experiments with situations: brought together, and as tables of their own. Table 2.2 and
//! figure 4-9 are drawn from them.
//!
//! Is not: part of the comparison of arms in `cases`; what is measured there has nothing the
//! matter.

use std::fmt::Write as _;

use super::number::{self, ABSENT};
use crate::arm::Arm;
use crate::row::{Crossed, Row};
use crate::situation::Situation;
use crate::stats::Spread;

/// All trials of one arm in one situation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Staged {
    pub(crate) link: String,
    pub(crate) endpoints: String,
    pub(crate) situation: Situation,
    pub(crate) arm: Arm,
    rows: Vec<Row>,
}

impl Staged {
    /// Median over the trials that succeeded.
    pub(crate) fn median(&self, figure: impl Fn(&Row) -> Option<f64>) -> Option<f64> {
        let sound = self.rows.iter().filter(|row| row.ok);
        Spread::of(sound.filter_map(figure)).map(|spread| spread.median)
    }

    /// Until the end of the handshake, without the time that the situation took to come about.
    pub(crate) fn seconds(&self) -> Option<f64> {
        self.median(Row::seconds_unstaged)
    }

    /// Packets of the whole connection, both ways.
    pub(crate) fn packets(&self) -> Option<f64> {
        self.median(|row| Some((row.link_packets_up + row.link_packets_down) as f64))
    }

    /// What an endpoint had to send again.
    pub(crate) fn repeats(&self) -> Option<f64> {
        self.median(|row| row.endpoint_repeats.map(|count| count as f64))
    }

    /// TLS bytes of the handshake on the link, both ways.
    pub(crate) fn tls_bytes(&self) -> Option<f64> {
        // Which bytes are the handshake's is known where its end is.
        self.median(|row| {
            row.seconds_handshake
                .and(row.tls_bytes())
                .map(|bytes| bytes as f64)
        })
    }

    pub(crate) fn trials(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn failed(&self) -> usize {
        self.rows.iter().filter(|row| !row.ok).count()
    }

    /// In which form the certificates crossed, in words; every form that there was.
    pub(crate) fn crossed(&self) -> String {
        let mut forms: Vec<Crossed> = self.rows.iter().filter_map(|row| row.crossed).collect();
        forms.sort_unstable();
        forms.dedup();
        let names: Vec<&str> = forms.into_iter().map(Crossed::name).collect();
        if names.is_empty() {
            ABSENT.to_owned()
        } else {
            names.join(" / ")
        }
    }

    /// Trials in which the client got its answer, and its TCP bytes that the server did not send.
    fn differing(&self) -> usize {
        let differs = |row: &&Row| row.ok && !row.identical;
        self.rows.iter().filter(differs).count()
    }

    /// What came of it, in words.
    pub(crate) fn outcome(&self) -> String {
        match self.failed() {
            0 if self.differing() > 0 => {
                format!("{}; the client's TCP gets the reference", self.crossed())
            }
            0 => self.crossed(),
            failed if failed == self.trials() => "breaks the handshake".to_owned(),
            failed => format!("{}; {failed} of {} break", self.crossed(), self.trials()),
        }
    }
}

/// Rows with situations by link, endpoints, situation and arm, links and endpoints in their order
/// in the rows.
pub(crate) fn staged<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<Staged> {
    let mut all: Vec<Staged> = Vec::new();
    for row in rows {
        let Some(situation) = row.situation else {
            continue;
        };
        let known = all.iter_mut().find(|staged| {
            staged.link == row.link
                && staged.endpoints == row.endpoints
                && staged.situation == situation
                && staged.arm == row.arm
        });
        match known {
            Some(staged) => staged.rows.push(row.clone()),
            None => all.push(Staged {
                link: row.link.clone(),
                endpoints: row.endpoints.clone(),
                situation,
                arm: row.arm,
                rows: vec![row.clone()],
            }),
        }
    }
    all
}

/// The one of this link, these endpoints, this situation and this arm.
pub(crate) fn find<'a>(
    all: &'a [Staged],
    like: &Staged,
    situation: Situation,
    arm: Arm,
) -> Option<&'a Staged> {
    all.iter().find(|staged| {
        staged.link == like.link
            && staged.endpoints == like.endpoints
            && staged.situation == situation
            && staged.arm == arm
    })
}

/// Columns of the table.
pub(crate) const COLUMNS: [&str; 11] = [
    "link",
    "endpoints",
    "situation",
    "arm",
    "trials",
    "certificates crossed as",
    "packets",
    "TLS bytes",
    "handshake, s",
    "to plain, s",
    "sent again",
];

/// One line of the table.
pub(crate) fn line(staged: &Staged, all: &[Staged]) -> [String; 11] {
    let plain = find(all, staged, staged.situation, Arm::Plain);
    let count = |figure: Option<f64>| figure.map_or_else(|| ABSENT.to_owned(), number::count);
    let to_plain = match (staged.seconds(), plain.and_then(Staged::seconds)) {
        (Some(own), Some(plain)) if staged.arm != Arm::Plain => signed(own - plain),
        _ => String::new(),
    };
    [
        staged.link.clone(),
        staged.endpoints.clone(),
        staged.situation.name().to_owned(),
        staged.arm.look().label.to_owned(),
        staged.trials().to_string(),
        staged.outcome(),
        count(staged.packets()),
        count(staged.tls_bytes()),
        staged
            .seconds()
            .map_or_else(|| ABSENT.to_owned(), number::seconds),
        to_plain,
        count(staged.repeats()),
    ]
}

/// A difference of seconds with its sign.
pub(crate) fn signed(seconds: f64) -> String {
    let sign = if seconds < 0.0 { "−" } else { "+" };
    format!("{sign}{:.3}", seconds.abs())
}

/// The table in Markdown, with what each situation is below it.
pub fn markdown(rows: &[Row]) -> String {
    let all = staged(rows);
    let mut text = format!("| {} |\n|", COLUMNS.join(" | "));
    for column in 0..COLUMNS.len() {
        text.push_str(if column < 4 || column == 5 {
            " --- |"
        } else {
            " --: |"
        });
    }
    text.push('\n');
    for staged in &all {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {} |", line(staged, &all).join(" | "));
    }
    text.push_str(
        "\nMedians of the trials that succeeded; no time where what the client's host saw is not one stream. A and A' are client sides, B and B' server sides, Z the server's chain. Handshake: from \
         SYN to its end, without the time for which the server program stood still for the situation to come about. Sent again: segments \
         that an endpoint repeated.\n\n",
    );
    for situation in Situation::ALL {
        if all.iter().any(|staged| staged.situation == situation) {
            let _ = writeln!(text, "- {}: {}", situation.name(), situation.about());
        }
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::synthetic;
    use super::*;

    /// Trials of an arm in a situation, one for each of these times.
    pub(crate) fn rows(situation: Situation, arm: Arm, seconds: &[f64]) -> Vec<Row> {
        let mut rows = synthetic::arm_rows("inmarsat-64", "one", arm, seconds);
        for row in &mut rows {
            row.situation = Some(situation);
            row.crossed = Some(Crossed::Reference);
            row.endpoint_repeats = Some(0);
        }
        rows
    }

    #[test]
    fn what_stood_still_for_the_situation_is_taken_off() {
        let mut rows = rows(Situation::Case5, Arm::Packet, &[2.0]);
        rows[0].staging_seconds = Some(0.4);
        let seconds = staged(&rows)[0].seconds();
        assert!(seconds.is_some_and(|seconds| (seconds - 1.5).abs() < 1e-9));
    }

    #[test]
    fn a_format_that_breaks_is_said_to_break() {
        let mut all = rows(Situation::Case4, Arm::PacketMcveety, &[1.0, 1.0]);
        for row in &mut all {
            row.ok = false;
        }
        all.extend(rows(Situation::Case4, Arm::Plain, &[1.0]));
        let text = markdown(&all);
        assert!(text.contains("| breaks the handshake |"), "{text}");
        assert!(text.contains("- case-4: "), "{text}");
        all[1].ok = true;
        let text = markdown(&all);
        assert!(text.contains("reference; 1 of 2 break"), "{text}");
        all[0].ok = true;
        all[0].identical = false;
        let text = markdown(&all);
        assert!(
            text.contains("the client's TCP gets the reference"),
            "{text}"
        );
    }

    #[test]
    fn delay_is_told_against_plain_of_the_same_situation() {
        let mut all = rows(Situation::Case3, Arm::Plain, &[2.0]);
        all.extend(rows(Situation::Case3, Arm::Packet, &[3.0]));
        all.extend(rows(Situation::Case0, Arm::Plain, &[9.0]));
        let all = staged(&all);
        assert_eq!(line(&all[1], &all)[9], "+0.950");
        assert_eq!(line(&all[0], &all)[9], "");
    }
}
