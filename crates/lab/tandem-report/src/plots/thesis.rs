//! McVeety's figures 4-2, 4-3 and 4-6 with the thesis's own figures beside ours.

use super::super::cases::{Case, Measure};
use super::super::number;
use super::super::thesis::{BEST_BYTES, ENDPOINTS, HIGH_LATENCY, LOW_LATENCY, ThesisLink};
use super::groups::{Bar, Base, Group, Groups};
use super::legend::{Entry, Swatch};
use super::{Figure, HALF};
use crate::arm::Arm;

/// What is compared with the thesis's proxies.
const OURS: [Arm; 3] = [Arm::Plain, Arm::PacketMcveety, Arm::Packet];

/// Figure 4-2.
pub(crate) fn high_latency(cases: &[Case]) -> Figure {
    seconds(
        cases,
        &HIGH_LATENCY,
        "figure-4-2",
        "Figure 4-2: handshake over links of high latency",
    )
}

/// Figure 4-3.
pub(crate) fn low_latency(cases: &[Case]) -> Figure {
    seconds(
        cases,
        &LOW_LATENCY,
        "figure-4-3",
        "Figure 4-3: handshake over links of low latency",
    )
}

fn seconds(
    cases: &[Case],
    links: &[ThesisLink],
    name: &'static str,
    title: &'static str,
) -> Figure {
    let endpoints = nearest(cases);
    let ours = ours_in(cases, endpoints);
    let bar = |figure: Option<f64>, swatch| Bar {
        figure,
        label: figure.map_or_else(|| number::ABSENT.to_owned(), number::seconds),
        swatch,
    };
    let groups = links
        .iter()
        .map(|thesis| {
            // The last run's, where several have it: runs are in the order of their names.
            let case = cases
                .iter()
                .rfind(|case| case.link == thesis.link && case.endpoints == endpoints);
            let mut bars = vec![
                bar(Some(thesis.without_proxies), without()),
                bar(Some(thesis.with_proxies), with()),
            ];
            bars.extend(ours.iter().map(|arm| {
                let median = case
                    .and_then(|case| case.spread(*arm, Measure::Handshake))
                    .map(|spread| spread.median);
                bar(median, filled(*arm))
            }));
            Group {
                label: thesis.link.to_owned(),
                bars,
            }
        })
        .collect();
    Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        caption: format!(
            "From SYN to the end of the handshake. Ours: endpoints {endpoints}{}, medians. A dash: not run.",
            version_of(cases, endpoints)
        ),
        svg: Groups {
            name,
            description: title.to_owned(),
            axis: "seconds",
            width: HALF,
            legend: legend(&ours),
            groups,
            reference: None,
            base: Base::Fitting,
        }
        .draw(),
    }
}

/// Figure 4-6, as far as the thesis gives figures: bytes as a share of those without proxies.
pub(crate) fn bandwidth(cases: &[Case]) -> Figure {
    let nearest = nearest(cases);
    let ours: Vec<Arm> = ours_in(cases, nearest)
        .into_iter()
        .filter(|arm| *arm != Arm::Plain)
        .collect();
    let bar = |share: Option<f64>, swatch| Bar {
        figure: share.map(|share| share * 100.0),
        label: share.map_or_else(|| number::ABSENT.to_owned(), number::percent),
        swatch,
    };
    let groups = ["thesis", "one", "three", "curl"]
        .into_iter()
        .filter(|endpoints| {
            *endpoints == nearest || cases.iter().any(|case| case.endpoints == *endpoints)
        })
        .map(|endpoints| {
            let mut bars: Vec<Bar> = ours
                .iter()
                .map(|arm| bar(worst_share(cases, endpoints, *arm), filled(*arm)))
                .collect();
            if endpoints == nearest {
                bars.insert(0, bar(Some(BEST_BYTES), with()));
            }
            Group {
                label: endpoints.to_owned(),
                bars,
            }
        })
        .collect();
    let title = "Figure 4-6: bytes of a handshake on the link";
    let legend = legend(&ours).into_iter().skip(1).collect();
    Figure {
        name: "figure-4-6".to_owned(),
        title: title.to_owned(),
        caption: format!(
            "TLS bytes with proxies as a share of those without; ours on the link where that is most. Of this figure the thesis's text \
             has no data but “by up to 50%”, for one certificate as in endpoints {nearest}."
        ),
        svg: Groups {
            name: "figure-4-6",
            description: title.to_owned(),
            axis: "TLS bytes, % of plain",
            width: HALF,
            legend,
            groups,
            reference: Some((100.0, "plain")),
            base: Base::Fitting,
        }
        .draw(),
    }
}

/// Endpoints that do as the thesis did, the nearest that were run.
fn nearest(cases: &[Case]) -> &'static str {
    ENDPOINTS
        .into_iter()
        .find(|endpoints| cases.iter().any(|case| case.endpoints == *endpoints))
        .unwrap_or(ENDPOINTS[0])
}

fn version_of(cases: &[Case], endpoints: &str) -> String {
    cases
        .iter()
        .find(|case| case.endpoints == endpoints)
        .map_or_else(String::new, |case| format!(" (TLS {})", case.version))
}

/// The largest share over all links and runs.
fn worst_share(cases: &[Case], endpoints: &str, arm: Arm) -> Option<f64> {
    cases
        .iter()
        .filter(|case| case.endpoints == endpoints)
        .filter_map(|case| case.ratio(arm, Measure::TlsBytes))
        .max_by(f64::total_cmp)
}

/// Of the arms to compare, those that some case has.
fn ours_in(cases: &[Case], endpoints: &str) -> Vec<Arm> {
    OURS.into_iter()
        .filter(|arm| {
            // These two are what is compared, run or not.
            matches!(arm, Arm::Plain | Arm::Packet)
                || cases
                    .iter()
                    .any(|case| case.endpoints == endpoints && case.arm(*arm).is_some())
        })
        .collect()
}

fn legend(ours: &[Arm]) -> Vec<Entry> {
    let mut entries = vec![
        (without(), "thesis, without proxies".to_owned()),
        (with(), "thesis, with proxies".to_owned()),
    ];
    entries.extend(
        ours.iter()
            .map(|arm| (filled(*arm), arm.look().label.to_owned())),
    );
    entries
}

/// The thesis's bars are hatched, in the colour of the arm of ours that does the same.
fn without() -> Swatch {
    Swatch::Hatched(Arm::Plain.look().colour)
}

fn with() -> Swatch {
    Swatch::Hatched(Arm::PacketMcveety.look().colour)
}

fn filled(arm: Arm) -> Swatch {
    Swatch::Filled(arm.look().colour)
}
