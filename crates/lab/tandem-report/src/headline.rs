//! What stands on top: what packet mode does on the slowest link, and the tunnel where it was run.

use std::cmp::Reverse;

use super::cases::{ArmFigures, Case, Measure};
use super::number::{self, SPACE};
use crate::arm::Arm;
use crate::stats::Spread;

/// Which endpoints to speak of, where the slowest link has several.
const PREFERRED: [&str; 3] = ["three", "one", "curl"];

/// A sentence with figures, and one that says what they are of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Headline {
    /// The sentence.
    pub(crate) sentence: String,
    /// Endpoints, trials, spread.
    pub(crate) details: String,
}

impl Headline {
    /// Of the case with the slowest plain arm; says so where there is nothing to compare.
    pub(crate) fn of(cases: &[Case]) -> Self {
        let compared = || {
            cases
                .iter()
                .filter(|case| case.ratio(Arm::Packet, Measure::FirstByte).is_some())
        };
        let slowest = compared().max_by(|a, b| {
            let seconds = |case: &Case| case.plain_seconds().unwrap_or_default();
            seconds(a).total_cmp(&seconds(b))
        });
        let Some(slowest) = slowest else {
            return Self {
                sentence: "These results do not compare packet mode with plain.".to_owned(),
                details: "A comparison needs sound trials of both arms in one run.".to_owned(),
            };
        };
        let chosen = compared()
            .filter(|case| case.link == slowest.link)
            .min_by_key(|case| {
                let preference = PREFERRED
                    .iter()
                    .position(|name| *name == case.endpoints)
                    .unwrap_or(PREFERRED.len());
                let trials = case.arm(Arm::Packet).map_or(0, ArmFigures::sound);
                (preference, Reverse((trials, case.certificate_bytes())))
            })
            .unwrap_or(slowest);
        Self::about(chosen).unwrap_or_else(|| Self {
            sentence: format!("On {} nothing was measured.", chosen.link),
            details: String::new(),
        })
    }

    fn about(case: &Case) -> Option<Self> {
        let plain = case.spread(Arm::Plain, Measure::FirstByte)?;
        let packet = case.spread(Arm::Packet, Measure::FirstByte)?;
        let time = case.ratio(Arm::Packet, Measure::FirstByte)?;
        let bytes = case.ratio(Arm::Packet, Measure::TlsBytes)?;
        let chain = match case.certificates.len() {
            1 => "one certificate".to_owned(),
            count => format!("a chain of {count} certificates"),
        };
        Some(Self {
            sentence: format!(
                "On {}, a warm pair of proxies brings the first byte after {}{SPACE}s instead of {}{SPACE}s ({}), with {} of the TLS \
                 bytes on the link.{}",
                case.link,
                number::seconds(packet.median),
                number::seconds(plain.median),
                number::percent(time),
                number::percent(bytes),
                tunnel(case).unwrap_or_default(),
            ),
            details: format!(
                "Endpoints {}: {chain} of {}{SPACE}bytes, {}, TLS {}. {}",
                case.endpoints,
                number::count(case.certificate_bytes() as f64),
                case.key,
                case.version,
                trials(&packet, &plain),
            ),
        })
    }
}

/// The same of the tunnel, by IP bytes, since it shows no TLS.
fn tunnel(case: &Case) -> Option<String> {
    Some(format!(
        " Through a tunnel that is up: {}{SPACE}s ({}), with {} of the IP bytes until Finished.",
        number::seconds(case.spread(Arm::Tunnel, Measure::FirstByte)?.median),
        number::percent(case.ratio(Arm::Tunnel, Measure::FirstByte)?),
        number::percent(case.ratio(Arm::Tunnel, Measure::HandshakeBytes)?),
    ))
}

/// Of how many trials, and how far these spread.
fn trials(packet: &Spread, plain: &Spread) -> String {
    let medians = match (packet.count, plain.count) {
        (1, 1) => return "One trial each.".to_owned(),
        (packet, plain) if packet == plain => {
            format!("Medians of {} each", number::plural(packet, "trial"))
        }
        (packet, plain) => format!(
            "Medians of {} with and {} without",
            number::plural(packet, "trial"),
            number::plural(plain, "trial")
        ),
    };
    let range = |spread: &Spread| {
        format!(
            "{} to {}{SPACE}s",
            number::seconds(spread.low),
            number::seconds(spread.high)
        )
    };
    format!(
        "{medians}; quartiles {} against {}.",
        range(packet),
        range(plain)
    )
}

#[cfg(test)]
mod tests {
    use super::super::cases::cases;
    use super::super::input::Run;
    use super::super::synthetic;
    use super::*;
    use crate::row::Row;

    fn headline(rows: Vec<Row>) -> Headline {
        Headline::of(&cases(&[Run {
            name: "rows.jsonl".to_owned(),
            rows,
            info: None,
        }]))
    }

    #[test]
    fn it_speaks_of_three_on_the_slowest_link() {
        let headline = headline(synthetic::rows());
        assert!(
            headline.sentence.starts_with("On iridium, a warm pair"),
            "{}",
            headline.sentence
        );
        // 860 and 700 bytes of 3,760 and 700.
        let tunnel = "with 35\u{a0}% of the IP bytes until Finished.";
        assert!(headline.sentence.ends_with(tunnel), "{}", headline.sentence);
        assert!(
            headline
                .details
                .starts_with("Endpoints three: a chain of 3 certificates of 2,726"),
            "{}",
            headline.details
        );
    }

    #[test]
    fn of_a_tunnel_that_was_not_run_nothing_is_said() {
        let mut rows = synthetic::rows();
        rows.retain(|row| !row.arm.is_tunnel());
        let sentence = headline(rows).sentence;
        assert!(
            sentence.ends_with("of the TLS bytes on the link."),
            "{sentence}"
        );
    }

    #[test]
    fn without_anything_to_compare_it_says_so() {
        let alone = synthetic::arm_rows("iridium", "one", Arm::Plain, &[1.0]);
        assert!(headline(alone).sentence.contains("do not compare"));
    }
}
