//! Handshakes taken apart: the trial that stands for an arm, the table in Markdown, and the
//! sentence about the largest one that could be avoided.
//!
//! Is not: the taking apart, which is the lab's. Invariant: figures are of one trial, since medians
//! would not add up.

use super::cases::{self, Case};
use super::input::Run;
use super::markdown::plain_text;
use super::number::{self, SPACE};
use crate::arm::Arm;
use crate::parts::Parts;
use crate::row::Row;

/// The arms that are shown.
pub(crate) const ARMS: [Arm; 2] = [Arm::Packet, Arm::Tunnel];

/// What a reader must know before the table or the bars.
pub(crate) const ABOUT: &str = "IP bytes that the link carried until the client had the server's Finished, of the trial in the middle by these \
     bytes. Fresh is what no proxy can leave out: randoms, session identifiers, key shares, signatures, Finished. In packet mode references \
     stand in segments with other bytes of the handshake, which count with them; the rest crosses as the endpoints sent it. In the tunnel \
     it cannot be told apart from references, since all is sealed: how many bytes went through its streams the client side says, and all \
     other figures are of the link. What carries no data is known by its size there.";

/// One of a handshake's parts.
pub(crate) struct Part {
    pub(crate) label: &'static str,
    /// For areas.
    pub(crate) colour: &'static str,
    pub(crate) bytes: fn(&Parts) -> u64,
    /// How much of it a handshake needs, by the floor.
    needed: fn(&Apart) -> u64,
}

/// In the order of tables and bars.
pub(crate) const PARTS: [Part; 6] = [
    Part {
        label: "fresh",
        colour: "#1B7837",
        bytes: |parts| parts.fresh,
        needed: |apart| apart.parts.fresh,
    },
    Part {
        label: "framing and references",
        colour: "#5D3A9B",
        bytes: |parts| parts.ours,
        needed: |_| 0,
    },
    Part {
        label: "headers of IP, UDP, TCP",
        colour: "#7F7F7F",
        bytes: |parts| parts.headers,
        needed: |apart| apart.floor.saturating_sub(apart.parts.fresh),
    },
    Part {
        label: "QUIC",
        colour: "#00838F",
        bytes: |parts| parts.quic,
        needed: |_| 0,
    },
    Part {
        label: "packets without data",
        colour: "#D55E00",
        bytes: |parts| parts.bare,
        needed: |_| 0,
    },
    Part {
        label: "rest",
        colour: "#C9C9C9",
        bytes: |parts| parts.rest,
        needed: |_| 0,
    },
];

/// A handshake that was taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Apart {
    pub(crate) arm: Arm,
    pub(crate) parts: Parts,
    /// Its floor: the fresh bytes and the headers that a flight needs.
    pub(crate) floor: u64,
}

impl Apart {
    /// Of each arm that is shown, the trial in the middle.
    pub(crate) fn of(case: &Case) -> Vec<Self> {
        ARMS.into_iter()
            .filter_map(|arm| {
                let mut trials: Vec<Self> = case
                    .arm(arm)?
                    .rows()
                    .iter()
                    .filter_map(|row| {
                        Some(Self {
                            arm,
                            parts: row.parts?,
                            floor: row.floor_bytes?,
                        })
                    })
                    .collect();
                trials.sort_by_key(|trial| trial.parts.total());
                trials.get(trials.len() / 2).copied()
            })
            .collect()
    }

    /// The part of which most could be avoided, and how much: all of it, but for fresh bytes and
    /// the headers that belong to the floor.
    fn avoidable(&self) -> (&'static str, u64) {
        let avoidable = |part: &Part| {
            let bytes = (part.bytes)(&self.parts);
            (part.label, bytes.saturating_sub((part.needed)(self)))
        };
        PARTS
            .iter()
            .map(avoidable)
            .max_by_key(|(_, bytes)| *bytes)
            .unwrap_or_default()
    }
}

/// Which part is the largest that could be avoided in a tunnel, in a sentence: of the case three
/// where there is one. `None` where no tunnel was taken apart.
pub(crate) fn sentence(cases: &[Case]) -> Option<String> {
    let of = |case: &Case| {
        let all = Apart::of(case);
        let tunnel = all.into_iter().find(|apart| apart.arm == Arm::Tunnel)?;
        let (label, bytes) = tunnel.avoidable();
        Some(format!(
            "Of the {} bytes of a handshake through the tunnel ({}, {}), the largest part that could be avoided is “{label}”: {} bytes.",
            number::count(tunnel.parts.total() as f64),
            case.endpoints,
            case.link,
            number::count(bytes as f64),
        ))
    };
    let three = cases.iter().filter(|case| case.endpoints == "three");
    three.chain(cases).find_map(of)
}

/// The table in Markdown; nothing where no handshake was taken apart.
pub(crate) fn markdown(cases: &[Case]) -> String {
    let mut lines = String::new();
    for case in cases {
        for apart in Apart::of(case) {
            let total = apart.parts.total();
            let cells = PARTS.iter().map(|part| {
                let bytes = (part.bytes)(&apart.parts);
                let share = 100.0 * bytes as f64 / total.max(1) as f64;
                format!("{} ({share:.0}{SPACE}%)", number::count(bytes as f64))
            });
            let cells: Vec<String> = cells.collect();
            lines.push_str(&format!(
                "| {} | {} | {} | {} | {} | {} |\n",
                plain_text(&case.link),
                plain_text(&case.endpoints),
                apart.arm.look().label,
                cells.join(" | "),
                number::count(total as f64),
                number::count(apart.floor as f64),
            ));
        }
    }
    if lines.is_empty() {
        return lines;
    }
    let heads: Vec<&str> = PARTS.iter().map(|part| part.label).collect();
    let sentence = sentence(cases).map_or_else(String::new, |words| format!("{words}\n\n"));
    format!(
        "{ABOUT}\n\n{sentence}| link | endpoints | arm | {} | IP bytes | floor |\n|---|---|---|{}\n{lines}",
        heads.join(" | "),
        "--:|".repeat(PARTS.len() + 2)
    )
}

/// The same out of rows alone.
pub fn of_rows(rows: &[Row]) -> String {
    markdown(&cases::cases(&[Run {
        name: String::new(),
        rows: rows.to_vec(),
        info: None,
    }]))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::synthetic;
    use super::*;

    const TUNNEL: Parts = Parts {
        fresh: 496,
        ours: 40,
        headers: 112,
        quic: 90,
        bare: 50,
        rest: 0,
    };

    /// Rows of both arms, taken apart.
    pub(crate) fn rows() -> Vec<Row> {
        let mut rows = synthetic::arm_rows("iridium", "three", Arm::Tunnel, &[5.0; 3]);
        rows.extend(synthetic::arm_rows(
            "iridium",
            "three",
            Arm::Packet,
            &[9.0; 3],
        ));
        for row in &mut rows {
            let more = u64::from(row.trial);
            row.floor_bytes = Some(608);
            row.parts = Some(match row.arm {
                Arm::Tunnel => Parts {
                    bare: TUNNEL.bare + more,
                    ..TUNNEL
                },
                _ => Parts {
                    headers: 300,
                    quic: 0,
                    rest: 111,
                    ..TUNNEL
                },
            });
        }
        rows
    }

    pub(crate) fn cases() -> Vec<Case> {
        cases::cases(&[Run {
            name: "rows.jsonl".to_owned(),
            rows: rows(),
            info: None,
        }])
    }

    #[test]
    fn the_trial_in_the_middle_stands_for_its_arm_and_its_parts_add_up() {
        let all = Apart::of(&cases()[0]);
        assert_eq!(all.iter().map(|apart| apart.arm).collect::<Vec<_>>(), ARMS);
        assert_eq!(all[1].parts.bare, TUNNEL.bare + 2);
        assert_eq!(all[1].parts.total(), 790);
    }

    #[test]
    fn headers_that_the_floor_has_are_not_avoidable() {
        let words = sentence(&cases()).expect("a tunnel");
        assert_eq!(
            words,
            "Of the 790 bytes of a handshake through the tunnel (three, iridium), the largest part that could be avoided is “QUIC”: 90 bytes."
        );
        let apart = Apart {
            arm: Arm::Tunnel,
            parts: Parts {
                headers: 300,
                ..TUNNEL
            },
            floor: 608,
        };
        assert_eq!(apart.avoidable(), ("headers of IP, UDP, TCP", 188));
    }

    #[test]
    fn the_table_has_all_parts_and_their_sum() {
        let text = of_rows(&rows());
        let line = text
            .lines()
            .find(|line| line.contains("tunnel, awake"))
            .expect("its line");
        let figures = [
            "496 (63\u{a0}%)",
            "40 (5\u{a0}%)",
            "112 (14\u{a0}%)",
            "90 (11\u{a0}%)",
            "52 (7\u{a0}%)",
            "0 (0\u{a0}%)",
            "790",
            "608",
        ];
        assert!(line.contains(&figures.join(" | ")), "{line}");
        let columns: Vec<usize> = text
            .lines()
            .filter(|line| line.starts_with('|'))
            .map(|line| line.matches('|').count())
            .collect();
        assert_eq!(columns, [12; 4]);
        assert_eq!(of_rows(&[]), "");
    }
}
