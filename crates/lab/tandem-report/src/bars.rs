//! The figures that packet mode and tunnel mode have to reach, and whether the rows say that they
//! do.
//!
//! The figures are those of the lab's design ("figures to reach"). A bar names its case. Where
//! several links or runs hold the case, the worst counts, so that a bar is reached everywhere or
//! not at all. What packet mode costs without a kernel comes from the benches' own lines.

mod table;

use super::cases::{Case, Measure};
use super::input::Bench;
use super::number::{self, SPACE};
use super::verdict::{BarResult, Bound, Outcome, Unit};
use crate::accounts::Accounts;
use crate::arm::Arm;
use table::{BARS, Bar, Source};

/// Trials of each arm that the bars ask for.
pub(crate) const TRIALS: usize = 20;

/// A case's figure, with what is allowed there.
struct Finding<'a> {
    case: &'a Case,
    measured: f64,
    allowed: f64,
    trials: usize,
}

/// Holds every bar against the cases, the benches and the profile.
pub(crate) fn check(cases: &[Case], benches: &[Bench], profile: &[Accounts]) -> Vec<BarResult> {
    BARS.iter()
        .map(|bar| bar.check(cases, benches, profile))
        .collect()
}

impl Bar {
    fn check(&self, cases: &[Case], benches: &[Bench], profile: &[Accounts]) -> BarResult {
        let open = BarResult {
            id: self.id,
            what: self.what,
            case: self.case,
            unit: Unit::Milliseconds,
            bound: Bound::AtMost,
            bar: 0.0,
            target: self.target,
            thesis: self.thesis,
            measured: None,
            outcome: Outcome::NotMeasured,
            missed_by: None,
            target_reached: None,
            trials: None,
            note: String::new(),
        };
        match self.source {
            Source::Share { bar, .. } => self.worst(
                BarResult {
                    unit: Unit::PercentOfPlain,
                    bar,
                    ..open
                },
                cases,
            ),
            Source::Floor { bar } => self.worst(
                BarResult {
                    unit: Unit::TimesFloor,
                    bar,
                    ..open
                },
                cases,
            ),
            Source::AddedTime {
                milliseconds: bar, ..
            }
            | Source::Processor { bar } => self.worst(BarResult { bar, ..open }, cases),
            Source::AddedBytes { bar, .. } => self.worst(
                BarResult {
                    unit: Unit::Bytes,
                    bar,
                    ..open
                },
                cases,
            ),
            Source::Profile { bar } => {
                let open = BarResult { bar, ..open };
                let lines: Vec<&Accounts> =
                    profile.iter().filter(|line| line.arm == self.arm).collect();
                let micros: f64 = lines.iter().map(|line| line.user_us + line.system_us).sum();
                let Some(handshakes) = lines.iter().map(|line| line.handshakes).max() else {
                    return BarResult {
                        note: "no line of packet mode in profile.jsonl".to_owned(),
                        ..open
                    };
                };
                BarResult {
                    note: format!(
                        "profile.jsonl, {} handshakes",
                        number::count(handshakes as f64)
                    ),
                    ..open.with(micros / 1e3)
                }
            }
            Source::Bench {
                name,
                unit,
                scale,
                bound,
                bar,
            } => {
                let open = BarResult {
                    unit,
                    bound,
                    bar,
                    note: format!("no line {name} in bench.jsonl"),
                    ..open
                };
                match benches.iter().rfind(|bench| bench.bench == name) {
                    Some(bench) => BarResult {
                        note: format!("bench {name}"),
                        ..open.with(bench.value / scale)
                    },
                    None => open,
                }
            }
        }
    }

    fn worst(&self, open: BarResult, cases: &[Case]) -> BarResult {
        let findings: Vec<Finding<'_>> = cases
            .iter()
            .filter(|case| {
                self.endpoints.contains(&case.endpoints.as_str())
                    && self.link.is_none_or(|link| link == case.link)
            })
            .filter_map(|case| self.finding(case))
            .collect();
        let worst = findings
            .iter()
            .max_by(|a, b| (a.measured - a.allowed).total_cmp(&(b.measured - b.allowed)));
        let elsewhere = self.elsewhere(cases);
        let Some(worst) = worst else {
            return BarResult {
                note: format!("no sound trials{elsewhere}"),
                ..open
            };
        };
        let open = BarResult {
            bar: worst.allowed,
            trials: Some(worst.trials),
            note: note(worst, &findings) + &elsewhere,
            ..open
        };
        open.with(worst.measured)
    }

    fn finding<'a>(&self, case: &'a Case) -> Option<Finding<'a>> {
        let median = |arm, measure| case.spread(arm, measure).map(|spread| spread.median);
        let (measured, allowed) = match self.source {
            Source::Share { measure, bar } => (case.ratio(self.arm, measure)? * 100.0, bar),
            Source::Floor { bar } => (median(self.arm, Measure::FloorRatio)?, bar),
            Source::AddedTime {
                milliseconds,
                share,
            } => {
                let plain = median(Arm::Plain, Measure::FirstByte)? * 1e3;
                let own = median(self.arm, Measure::FirstByte)? * 1e3;
                (own - plain, milliseconds.max(share * plain))
            }
            Source::AddedBytes { to, bar } => {
                let own = median(self.arm, Measure::LinkBytes)?;
                (own - median(to, Measure::LinkBytes)?, bar)
            }
            Source::Processor { bar } => (median(self.arm, Measure::Cpu)? / 1e3, bar),
            Source::Profile { .. } | Source::Bench { .. } => return None,
        };
        let beside = match self.source {
            Source::Share { .. } | Source::AddedTime { .. } => Some(Arm::Plain),
            Source::AddedBytes { to, .. } => Some(to),
            Source::Floor { .. }
            | Source::Processor { .. }
            | Source::Profile { .. }
            | Source::Bench { .. } => None,
        };
        let trials = beside
            .into_iter()
            .chain([self.arm])
            .filter_map(|arm| case.arm(arm))
            .map(|figures| figures.sound())
            .min()?;
        Some(Finding {
            case,
            measured,
            allowed,
            trials,
        })
    }

    /// What other links show that the bar leaves out.
    fn elsewhere(&self, cases: &[Case]) -> String {
        match self.source {
            // A trial on a slow link is long, and the daemons' idle wake-ups in it are no
            // handshake's.
            Source::Processor { .. } => cases
                .iter()
                .filter(|case| self.link.is_some_and(|link| link != case.link))
                .filter_map(|case| {
                    let median = case.spread(self.arm, Measure::Cpu)?.median / 1e3;
                    Some((case, median))
                })
                .max_by(|(_, a), (_, b)| a.total_cmp(b))
                .map_or_else(String::new, |(case, median)| {
                    format!(
                        "; up to {median:.2}{SPACE}ms elsewhere ({}), idle wake-ups of a longer trial included",
                        case.link
                    )
                }),
            Source::Share { .. }
            | Source::Floor { .. }
            | Source::AddedTime { .. }
            | Source::AddedBytes { .. }
            | Source::Profile { .. }
            | Source::Bench { .. } => String::new(),
        }
    }
}

/// Which case is the worst, of how many, and how many trials it has where they are too few.
fn note(worst: &Finding<'_>, findings: &[Finding<'_>]) -> String {
    let mut notes = vec![format!("{} on {}", worst.case.endpoints, worst.case.link)];
    if findings
        .iter()
        .any(|finding| finding.case.run != worst.case.run)
    {
        notes.push(worst.case.run.clone());
    }
    if findings.len() > 1 {
        notes.push(format!("the worst of {}", findings.len()));
    }
    if worst.trials < TRIALS {
        notes.push(format!(
            "{} of {TRIALS} asked for",
            number::plural(worst.trials, "trial")
        ));
    }
    notes.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::cases::cases;
    use super::super::input::Run;
    use super::super::synthetic;
    use super::*;
    use crate::row::Row;

    fn results(rows: Vec<Row>) -> Vec<BarResult> {
        check(
            &cases(&[Run {
                name: "rows.jsonl".to_owned(),
                rows,
                info: None,
            }]),
            &[],
            &[],
        )
    }

    fn result(rows: Vec<Row>, id: &str) -> BarResult {
        results(rows)
            .into_iter()
            .find(|result| result.id == id)
            .expect("a bar")
    }

    fn pair(link: &str, endpoints: &str, plain: f64, packet: f64) -> Vec<Row> {
        pair_with(Arm::Packet, (link, endpoints), plain, packet)
    }

    /// Twenty trials of plain and of an arm with these times.
    fn pair_with(arm: Arm, (link, endpoints): (&str, &str), plain: f64, own: f64) -> Vec<Row> {
        let mut rows = synthetic::arm_rows(link, endpoints, Arm::Plain, &[plain; 20]);
        rows.extend(synthetic::arm_rows(link, endpoints, arm, &[own; 20]));
        rows
    }

    #[test]
    fn a_share_is_reached_up_to_the_bar_and_missed_beyond() {
        let at = result(pair("iridium", "one", 100.0, 72.0), "time-iridium-one");
        assert_eq!(
            (at.outcome, at.measured, at.missed_by),
            (Outcome::Reached, Some(72.0), None)
        );
        assert_eq!(
            (at.target_reached, at.verdict().as_str()),
            (Some(false), "reached")
        );
        let target = result(pair("iridium", "one", 100.0, 65.0), "time-iridium-one");
        assert_eq!(target.verdict(), "reached, target too");
        let beyond = result(pair("iridium", "three", 100.0, 53.5), "time-iridium-three");
        assert_eq!(
            (beyond.outcome, beyond.missed_by),
            (Outcome::Missed, Some(3.5))
        );
        assert_eq!(beyond.verdict(), "missed by 3.5\u{a0}points");
        let just = result(pair("iridium", "three", 100.0, 50.01), "time-iridium-three");
        assert_eq!(just.verdict(), "missed by less than 0.1\u{a0}points");
    }

    #[test]
    fn bytes_count_on_the_worst_link() {
        let mut rows = pair("iridium", "three", 10.0, 5.0);
        rows.extend(pair("tcdl-10", "three", 0.01, 0.01));
        for row in &mut rows {
            let (up, down) = match (row.arm, row.link.as_str()) {
                (Arm::Plain, "iridium") => (1000, 4000),
                (Arm::Plain, _) => (500, 2500),
                (_, _) => (400, 600),
            };
            (row.tls_bytes_up, row.tls_bytes_down) = (Some(up), Some(down));
        }
        let result = result(rows, "tls-bytes-three");
        assert_eq!(result.outcome, Outcome::Missed);
        assert_eq!(
            result.in_words(result.measured.expect("a figure")),
            "33.3\u{a0}%"
        );
        assert_eq!(result.note, "three on tcdl-10, the worst of 2");
    }

    #[test]
    fn bytes_of_a_tunnel_are_those_of_ip_until_finished() {
        let mut rows = pair_with(Arm::Tunnel, ("iridium", "three"), 20.0, 5.0);
        for row in &mut rows {
            (row.handshake_bytes_up, row.handshake_bytes_down) = if row.arm == Arm::Plain {
                (1_000, 3_000)
            } else {
                (400, 620)
            };
            row.floor_bytes = Some(600);
        }
        let share = result(rows.clone(), "tunnel-bytes-three");
        assert_eq!(share.measured, Some(25.5));
        assert_eq!(share.verdict(), "missed by 0.5\u{a0}points");
        let floor = result(rows.clone(), "tunnel-floor-three");
        assert_eq!(floor.verdict(), "missed by 0.10\u{a0}times the floor");
        assert_eq!(floor.trials, Some(20));
        for row in &mut rows {
            row.handshake_bytes_down = row.handshake_bytes_down.saturating_sub(60);
        }
        let floor = result(rows.clone(), "tunnel-floor-three");
        assert_eq!(floor.measured, Some(1.6));
        assert_eq!(
            (floor.outcome, floor.target_reached),
            (Outcome::Reached, Some(false))
        );
        assert_eq!(
            floor.bar_in_words(),
            "\u{2264}\u{a0}1.60\u{a0}times the floor"
        );
        // There are no TLS bytes to be seen, so no bar speaks of them.
        let tls = result(rows, "tls-bytes-three");
        assert_eq!(tls.outcome, Outcome::NotMeasured);
    }

    #[test]
    fn a_tunnel_has_bars_of_its_own_beside_those_of_packet_mode() {
        let mut rows = pair("iridium", "one", 100.0, 72.0);
        rows.extend(synthetic::arm_rows(
            "iridium",
            "one",
            Arm::Tunnel,
            &[46.0; 20],
        ));
        assert_eq!(
            result(rows.clone(), "time-iridium-one").measured,
            Some(72.0)
        );
        let tunnel = result(rows, "tunnel-time-iridium-one");
        assert_eq!(tunnel.measured, Some(46.0));
        assert_eq!(tunnel.outcome, Outcome::Missed);
        let mutual = pair_with(Arm::Tunnel, ("iridium", "mutual"), 10.0, 2.5);
        let mutual = result(mutual, "tunnel-time-iridium-mutual");
        assert_eq!(mutual.outcome, Outcome::Reached);
        let fast = pair_with(Arm::Tunnel, ("tcdl-10", "curl"), 0.010, 0.0121);
        let fast = result(fast, "tunnel-added-time-tcdl-10");
        assert_eq!(fast.outcome, Outcome::Missed);
    }

    #[test]
    fn a_tunnel_asleep_is_held_against_plain_for_its_time_and_against_awake_for_its_bytes() {
        let place = ("iridium", "three");
        let mut rows = pair_with(Arm::TunnelAsleep, place, 10.0, 3.3);
        rows.extend(synthetic::arm_rows(
            place.0,
            place.1,
            Arm::Tunnel,
            &[3.0; 20],
        ));
        let time = result(rows.clone(), "tunnel-asleep-time-iridium-three");
        assert_eq!(time.outcome, Outcome::Missed);
        assert_eq!(time.verdict(), "missed by 1.0\u{a0}points");
        let mut added = |bytes: u64| {
            for row in &mut rows {
                (row.link_bytes_up, row.link_bytes_down) = match row.arm {
                    Arm::TunnelAsleep => (400, 500 + bytes),
                    _ => (400, 500),
                };
            }
            result(rows.clone(), "tunnel-wake-bytes")
        };
        assert_eq!(added(60).verdict(), "reached, target too");
        assert_eq!(added(100).verdict(), "reached");
        let beyond = added(104);
        assert_eq!(beyond.verdict(), "missed by 4\u{a0}bytes");
        assert_eq!(
            beyond.in_words(beyond.measured.expect("a figure")),
            "104\u{a0}bytes"
        );
        rows.retain(|row| row.arm != Arm::Tunnel);
        let alone = result(rows, "tunnel-wake-bytes");
        assert_eq!(alone.outcome, Outcome::NotMeasured);
    }

    #[test]
    fn added_time_may_be_two_milliseconds_or_five_per_cent() {
        let added = |plain, packet| {
            let result = result(pair("tcdl-10", "curl", plain, packet), "added-time-tcdl-10");
            (result.outcome, result.bar.round())
        };
        assert_eq!(added(0.010, 0.0119), (Outcome::Reached, 2.0));
        assert_eq!(added(0.010, 0.0121), (Outcome::Missed, 2.0));
        assert_eq!(added(0.100, 0.1049), (Outcome::Reached, 5.0));
        assert_eq!(added(0.100, 0.1051), (Outcome::Missed, 5.0));
        assert_eq!(added(0.010, 0.009), (Outcome::Reached, 2.0));
    }

    #[test]
    fn processor_time_is_both_proxies_median_in_milliseconds() {
        let mut rows = pair("tcdl-10", "one", 10.0, 5.0);
        for (index, row) in rows.iter_mut().enumerate() {
            row.proxy_cpu_us = 900 + 20 * (index as u64 % 20);
        }
        let result = result(rows, "cpu-both-proxies");
        assert_eq!(result.measured, Some(1.09));
        assert_eq!(result.verdict(), "missed by 0.09\u{a0}ms");
    }

    #[test]
    fn processor_time_under_load_is_both_daemons_in_packet_mode() {
        let all = check(&[], &[], &crate::profile::tests::lines());
        let result = all.into_iter().find(|result| result.id == "cpu-under-load");
        let result = result.expect("a bar");
        // 100 + 300 + 150 + 450 microseconds; the lines of the other arm do not count.
        assert_eq!(result.measured, Some(1.0));
        assert_eq!(result.outcome, Outcome::Reached);
        assert_eq!(result.target_reached, Some(false));
        assert_eq!(result.note, "profile.jsonl, 2,000 handshakes");
    }

    #[test]
    fn processor_time_of_slow_links_is_told_but_does_not_count() {
        let mut rows = pair("tcdl-10", "one", 10.0, 5.0);
        rows.extend(pair("iridium", "one", 10.0, 5.0));
        for row in rows.iter_mut().skip(40) {
            row.proxy_cpu_us = 3_280;
        }
        let result = result(rows, "cpu-both-proxies");
        assert_eq!(result.outcome, Outcome::Reached);
        assert!(
            result
                .note
                .contains("up to 3.28\u{a0}ms elsewhere (iridium)"),
            "{}",
            result.note
        );
    }

    #[test]
    fn missing_arms_and_other_links_are_not_measured() {
        let rows = synthetic::arm_rows("iridium", "one", Arm::Plain, &[10.0; 20]);
        for result in results(rows) {
            assert_eq!(result.outcome, Outcome::NotMeasured, "{}", result.id);
            assert_eq!((result.measured, result.trials), (None, None));
        }
        let elsewhere = result(pair("milstar", "one", 10.0, 5.0), "time-iridium-one");
        assert_eq!(elsewhere.outcome, Outcome::NotMeasured);
        assert_eq!(elsewhere.note, "no sound trials");
    }

    #[test]
    fn benches_may_have_to_be_at_least_something() {
        let bench = |bench: &str, value| Bench {
            bench: bench.to_owned(),
            value,
        };
        let benches = [
            bench("engine", 9_000.0),
            bench("memory_finished_flow", 1_024.0),
            bench("something_else", 1.0),
        ];
        let results = check(&[], &benches, &[]);
        let verdict = |id| {
            results
                .iter()
                .find(|result| result.id == id)
                .map(|result| (result.measured, result.verdict()))
        };
        assert_eq!(
            verdict("engine-alone"),
            Some((Some(9_000.0), "missed by 1,000/s".to_owned()))
        );
        assert_eq!(
            verdict("memory-finished"),
            Some((Some(1.0), "reached".to_owned()))
        );
        assert_eq!(
            verdict("memory-handshaking"),
            Some((None, "not measured".to_owned()))
        );
        let results = check(&[], &[bench("engine", 50_000.0)], &[]);
        assert!(
            results
                .iter()
                .any(|result| result.target_reached == Some(true))
        );
    }

    #[test]
    fn too_few_trials_are_said() {
        let mut rows = pair("iridium", "one", 10.0, 5.0);
        rows.truncate(23);
        let result = result(rows, "time-iridium-one");
        assert_eq!(result.trials, Some(3));
        assert_eq!(result.note, "one on iridium, 3\u{a0}trials of 20 asked for");
    }
}
