//! McVeety's figures 4-4 and 4-5, handshakes in which the client is authenticated, too: ours, and
//! in words what the thesis's text gives.
//!
//! The text has no data of these figures but one sentence, so none of their bars is drawn.

use super::super::cases::{Case, Measure};
use super::super::number;
use super::super::thesis::{
    HIGH_LATENCY, LOW_LATENCY, MUTUAL, MUTUAL_PROCESSING, MUTUAL_SAVED, ThesisLink,
};
use super::groups::{Bar, Base, Group, Groups};
use super::legend::Swatch;
use super::{Figure, HALF};
use crate::arm::Arm;

/// From left to right.
const OURS: [Arm; 3] = [Arm::Plain, Arm::PacketMcveety, Arm::Packet];

/// The link that the text speaks of.
const HIS_LINK: &str = "iridium";

/// The link on which processing shows.
const FAST_LINK: &str = "tcdl-10";

/// Both figures, as far as their links were measured.
pub(crate) fn mutual(cases: &[Case]) -> Vec<Figure> {
    let both = [
        (
            "figure-4-4",
            "Figure 4-4: both ends authenticated, high latency",
            &HIGH_LATENCY[..],
            high(cases),
        ),
        (
            "figure-4-5",
            "Figure 4-5: both ends authenticated, low latency",
            &LOW_LATENCY[..],
            low(cases),
        ),
    ];
    both.into_iter()
        .filter_map(|(name, title, links, beside)| figure(cases, name, title, links, &beside))
        .collect()
}

fn figure(
    cases: &[Case],
    name: &'static str,
    title: &'static str,
    links: &[ThesisLink],
    beside: &str,
) -> Option<Figure> {
    let groups: Vec<Group> = links
        .iter()
        .filter_map(|thesis| {
            let case = find(cases, thesis.link)?;
            let bars = OURS.map(|arm| {
                let median = seconds(case, arm);
                Bar {
                    figure: median,
                    label: median.map_or_else(|| number::ABSENT.to_owned(), number::seconds),
                    swatch: Swatch::Filled(arm.look().colour),
                }
            });
            Some(Group {
                label: thesis.link.to_owned(),
                bars: bars.into(),
            })
        })
        .collect();
    let version = &links
        .iter()
        .find_map(|link| find(cases, link.link))?
        .version;
    Some(Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        caption: format!(
            "From SYN to the end of the handshake, medians. Ours alone: endpoints {MUTUAL} (TLS {version}, one certificate each way); of the \
             thesis\u{2019}s bars its text has no data. {beside}"
        ),
        svg: Groups {
            name,
            description: title.to_owned(),
            axis: "seconds",
            width: HALF,
            legend: OURS
                .map(|arm| {
                    (
                        Swatch::Filled(arm.look().colour),
                        arm.look().label.to_owned(),
                    )
                })
                .into(),
            groups,
            reference: None,
            base: Base::Fitting,
        }
        .draw(),
    })
}

/// What the text says of iridium, and ours.
fn high(cases: &[Case]) -> String {
    let saved = |arm| {
        let case = find(cases, HIS_LINK)?;
        let (plain, with) = (seconds(case, Arm::Plain)?, seconds(case, arm)?);
        Some(format!(
            "{}, {}{}s",
            number::percent((plain - with) / plain),
            number::seconds(plain - with),
            number::SPACE
        ))
    };
    let mut words = format!("It says what proxies save on {HIS_LINK}: {MUTUAL_SAVED}.");
    if let (Some(his), Some(safe)) = (saved(Arm::PacketMcveety), saved(Arm::Packet)) {
        words.push_str(&format!(
            " Ours save {his} in its format, {safe} in the safe one."
        ));
    }
    words
}

/// What the text says of processing, and ours.
fn low(cases: &[Case]) -> String {
    let cpu = |arm| {
        find(cases, FAST_LINK)?
            .spread(arm, Measure::Cpu)
            .map(|spread| format!("{:.1}{}ms", spread.median / 1e3, number::SPACE))
    };
    let mut words = format!(
        "It says that processing in both proxies adds up to {:.0}{}ms.",
        MUTUAL_PROCESSING * 1e3,
        number::SPACE
    );
    if let (Some(his), Some(safe)) = (cpu(Arm::PacketMcveety), cpu(Arm::Packet)) {
        words.push_str(&format!(
            " Ours use {his} of processor time in its format, {safe} in the safe one ({FAST_LINK})."
        ));
    }
    words
}

/// The last run's, where several have it: runs are in the order of their names.
fn find<'a>(cases: &'a [Case], link: &str) -> Option<&'a Case> {
    cases
        .iter()
        .rfind(|case| case.link == link && case.endpoints == MUTUAL)
}

fn seconds(case: &Case, arm: Arm) -> Option<f64> {
    case.spread(arm, Measure::Handshake)
        .map(|spread| spread.median)
}

#[cfg(test)]
mod tests {
    use super::super::super::cases::cases;
    use super::super::super::input::Run;
    use super::super::super::synthetic;
    use super::*;

    fn figures(link: &str, arms: &[(Arm, f64)]) -> Vec<Figure> {
        let rows = arms
            .iter()
            .flat_map(|(arm, seconds)| synthetic::arm_rows(link, MUTUAL, *arm, &[*seconds]))
            .collect();
        mutual(&cases(&[Run {
            name: "rows.jsonl".to_owned(),
            rows,
            info: None,
        }]))
    }

    #[test]
    fn what_is_saved_on_iridium_stands_beside_the_thesis() {
        let arms = [
            (Arm::Plain, 20.0),
            (Arm::PacketMcveety, 10.0),
            (Arm::Packet, 8.0),
        ];
        let figures = figures("iridium", &arms);
        let [figure] = figures.as_slice() else {
            unreachable!("{figures:?}");
        };
        assert_eq!(figure.name, "figure-4-4");
        // 0.95 of the times, as the rows have the handshake's.
        for part in [
            "almost 50 %, more than 6 s",
            "50\u{a0}%",
            "9.50",
            "60\u{a0}%",
            "11.40",
        ] {
            assert!(figure.caption.contains(part), "{part}: {}", figure.caption);
        }
    }

    #[test]
    fn without_client_certificates_there_is_no_such_figure() {
        let rows = synthetic::rows();
        assert!(
            mutual(&cases(&[Run {
                name: "rows.jsonl".to_owned(),
                rows,
                info: None,
            }]))
            .is_empty()
        );
    }
}
