//! Rows brought together: one case for each run, experiment, link and endpoints, and in it the
//! figures of each arm.
//!
//! Invariants: ratios are taken within a case, hence within one run; figures are of sound trials
//! only (the client got its answer, and each end the other's bytes), while trials that are not
//! sound are counted and shown.

use std::collections::BTreeMap;

use super::input::Run;
use crate::arm::Arm;
use crate::row::Row;
use crate::stats::Spread;

/// What an arm's trials are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// From SYN to the first byte of application data, seconds.
    FirstByte,
    /// From SYN to the end of the handshake, seconds.
    Handshake,
    /// TLS bytes of the handshake on the link, both ways.
    TlsBytes,
    /// IP bytes until the end of the handshake on the link, both ways.
    HandshakeBytes,
    /// IP bytes of the whole connection on the link, both ways.
    LinkBytes,
    /// IP packets of the whole connection, both ways.
    Packets,
    /// IP bytes of the handshake above its floor.
    OverFloor,
    /// IP bytes of the handshake by its floor.
    FloorRatio,
    /// Processor time of both proxies, microseconds.
    Cpu,
    /// Peak resident memory of the larger proxy, KiB.
    Memory,
}

/// All trials with the same ends over the same link in one run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Case {
    /// The file that the rows came from.
    pub(crate) run: String,
    /// The experiment.
    pub(crate) experiment: String,
    /// The link.
    pub(crate) link: String,
    /// What stands at the ends.
    pub(crate) endpoints: String,
    /// As `1.2`.
    pub(crate) version: String,
    /// The chain's keys.
    pub(crate) key: String,
    /// DER bytes of each certificate that the server sends, leaf first.
    pub(crate) certificates: Vec<usize>,
    /// Those that were run, in the order of tables.
    pub(crate) arms: Vec<ArmFigures>,
}

/// One arm of a case.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ArmFigures {
    /// Which.
    pub(crate) arm: Arm,
    /// Trials that were made.
    pub(crate) trials: usize,
    /// Of them: the client did not get its answer.
    pub(crate) failed: usize,
    /// Of them: an end received other bytes than were sent, or it could not be told.
    pub(crate) differing: usize,
    /// The first error in words, if there was one.
    pub(crate) error: Option<String>,
    sound: Vec<Row>,
}

/// Brings rows together. Cases in order of run and experiment, links from the slowest to the
/// fastest, small chains first, and as in the rows where they are equal.
pub(crate) fn cases(runs: &[Run]) -> Vec<Case> {
    let mut cases = Vec::new();
    for run in runs {
        let mut groups: Vec<Vec<&Row>> = Vec::new();
        let mut places: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
        for row in &run.rows {
            let place = *places
                .entry((&row.experiment, &row.link, &row.endpoints))
                .or_insert(groups.len());
            match groups.get_mut(place) {
                Some(group) => group.push(row),
                None => groups.push(vec![row]),
            }
        }
        cases.extend(groups.iter().filter_map(|rows| Case::of(&run.name, rows)));
    }
    let mut slowness: BTreeMap<String, f64> = BTreeMap::new();
    for case in &cases {
        let slowest = slowness.entry(case.link.clone()).or_default();
        *slowest = slowest.max(case.plain_seconds().unwrap_or(0.0));
    }
    let rank = |case: &Case| slowness.get(&case.link).copied().unwrap_or(0.0);
    cases.sort_by(|a, b| {
        (&a.run, &a.experiment)
            .cmp(&(&b.run, &b.experiment))
            .then(rank(b).total_cmp(&rank(a)))
            .then_with(|| a.link.cmp(&b.link))
            .then(a.certificate_bytes().cmp(&b.certificate_bytes()))
    });
    cases
}

impl Case {
    fn of(run: &str, rows: &[&Row]) -> Option<Self> {
        let first = rows.first()?;
        Some(Self {
            run: run.to_owned(),
            experiment: first.experiment.clone(),
            link: first.link.clone(),
            endpoints: first.endpoints.clone(),
            version: first.version.clone(),
            key: first.key.clone(),
            certificates: first.certificates.clone(),
            arms: Arm::ALL
                .into_iter()
                .filter_map(|arm| ArmFigures::of(arm, rows))
                .collect(),
        })
    }

    /// An arm, where it was run.
    pub(crate) fn arm(&self, arm: Arm) -> Option<&ArmFigures> {
        self.arms.iter().find(|figures| figures.arm == arm)
    }

    /// An arm's spread, where it was measured.
    pub(crate) fn spread(&self, arm: Arm, measure: Measure) -> Option<Spread> {
        self.arm(arm)?.spread(measure)
    }

    /// The median of an arm by the median of plain, where both were measured and plain is more than
    /// zero.
    pub(crate) fn ratio(&self, arm: Arm, measure: Measure) -> Option<f64> {
        let plain = self.spread(Arm::Plain, measure)?.median;
        let other = self.spread(arm, measure)?.median;
        (plain > 0.0).then(|| other / plain)
    }

    /// Whether peers were run beside.
    pub(crate) fn has_peers(&self) -> bool {
        self.arms.iter().any(|figures| figures.arm.is_peer())
    }

    /// How long plain takes: to the first byte, or to the handshake's end where no first byte can
    /// be told.
    pub(crate) fn plain_seconds(&self) -> Option<f64> {
        self.spread(Arm::Plain, Measure::FirstByte)
            .or_else(|| self.spread(Arm::Plain, Measure::Handshake))
            .map(|spread| spread.median)
    }

    /// DER bytes of the whole chain.
    pub(crate) fn certificate_bytes(&self) -> usize {
        self.certificates
            .iter()
            .fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

impl ArmFigures {
    fn of(arm: Arm, rows: &[&Row]) -> Option<Self> {
        let rows: Vec<&Row> = rows.iter().copied().filter(|row| row.arm == arm).collect();
        if rows.is_empty() {
            return None;
        }
        let sound = |row: &&Row| row.ok && row.identical;
        Some(Self {
            arm,
            trials: rows.len(),
            failed: rows.iter().filter(|row| !row.ok).count(),
            differing: rows.iter().filter(|row| !row.identical).count(),
            error: rows.iter().find_map(|row| row.error.clone()),
            sound: rows.iter().copied().filter(sound).cloned().collect(),
        })
    }

    /// Those trials.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.sound
    }

    /// Trials that the figures are of.
    pub(crate) fn sound(&self) -> usize {
        self.sound.len()
    }

    /// Median and quartiles over the sound trials that have this figure.
    pub(crate) fn spread(&self, measure: Measure) -> Option<Spread> {
        Spread::of(self.sound.iter().filter_map(|row| value(row, measure)))
    }
}

/// A row's figure. Sums are made of floating-point numbers, which do not overflow; counts of bytes
/// are far below 2^53.
fn value(row: &Row, measure: Measure) -> Option<f64> {
    let both = |up: u64, down: u64| up as f64 + down as f64;
    let handshake = both(row.handshake_bytes_up, row.handshake_bytes_down);
    let floor = row.floor_bytes.map(|bytes| bytes as f64);
    // Without proxies there is nothing that could have used a processor.
    let of_proxies = |figure: u64| row.arm.has_proxies().then_some(figure as f64);
    match measure {
        Measure::FirstByte => row.seconds_first_byte,
        Measure::Handshake => row.seconds_handshake,
        Measure::TlsBytes => Some(both(row.tls_bytes_up?, row.tls_bytes_down?)),
        // What is the handshake's is known where its end is.
        Measure::HandshakeBytes => row.seconds_handshake.map(|_| handshake),
        Measure::LinkBytes => Some(both(row.link_bytes_up, row.link_bytes_down)),
        Measure::Packets => Some(both(row.link_packets_up, row.link_packets_down)),
        Measure::OverFloor => floor.map(|floor| handshake - floor),
        Measure::FloorRatio => floor
            .filter(|floor| *floor > 0.0)
            .map(|floor| handshake / floor),
        Measure::Cpu => of_proxies(row.proxy_cpu_us),
        Measure::Memory => of_proxies(row.proxy_memory_kib),
    }
}

#[cfg(test)]
mod tests {
    use super::super::synthetic;
    use super::*;

    fn of(rows: Vec<Row>) -> Vec<Case> {
        cases(&[Run {
            name: "rows.jsonl".to_owned(),
            rows,
            info: None,
        }])
    }

    #[test]
    fn links_come_slowest_first_and_small_chains_before_large_ones() {
        let cases = of(synthetic::rows());
        let order: Vec<(&str, &str)> = cases
            .iter()
            .map(|case| (case.link.as_str(), case.endpoints.as_str()))
            .collect();
        assert_eq!(order[0], ("iridium", "one"));
        assert_eq!(order[1], ("iridium", "three"));
        assert_eq!(order[2], ("iridium", "curl"));
        assert_eq!(order.last(), Some(&("tcdl-10", "curl")));
    }

    #[test]
    fn medians_and_ratios_are_of_sound_trials() {
        let mut rows = synthetic::arm_rows("iridium", "one", Arm::Plain, &[10.0, 12.0, 11.0]);
        rows.extend(synthetic::arm_rows(
            "iridium",
            "one",
            Arm::Packet,
            &[5.5, 5.5, 99.0, 1.0],
        ));
        rows[5].ok = false;
        rows[5].error = Some("no end".to_owned());
        rows[6].identical = false;
        let cases = of(rows);
        let case = &cases[0];
        assert_eq!(case.ratio(Arm::Packet, Measure::FirstByte), Some(0.5));
        let packet = case.arm(Arm::Packet).expect("it was run");
        assert_eq!(
            (
                packet.trials,
                packet.sound(),
                packet.failed,
                packet.differing
            ),
            (4, 2, 1, 1)
        );
        assert_eq!(packet.error.as_deref(), Some("no end"));
    }

    #[test]
    fn what_was_not_run_or_not_measured_is_absent() {
        let mut rows = synthetic::arm_rows("iridium", "one", Arm::Plain, &[10.0]);
        rows[0].seconds_first_byte = None;
        rows[0].floor_bytes = None;
        let cases = of(rows);
        let case = &cases[0];
        assert!(case.arm(Arm::Packet).is_none());
        assert_eq!(case.ratio(Arm::Packet, Measure::TlsBytes), None);
        for measure in [Measure::FirstByte, Measure::FloorRatio, Measure::Cpu] {
            assert_eq!(case.spread(Arm::Plain, measure), None, "{measure:?}");
        }
        assert_eq!(case.plain_seconds(), Some(9.5));
    }

    #[test]
    fn runs_are_not_mixed() {
        let run = |name: &str, seconds| Run {
            name: name.to_owned(),
            rows: synthetic::arm_rows("iridium", "one", Arm::Plain, &[seconds]),
            info: None,
        };
        let cases = cases(&[run("a.jsonl", 1.0), run("b.jsonl", 3.0)]);
        assert_eq!(cases.len(), 2);
        assert_eq!(cases[1].plain_seconds(), Some(3.0));
    }

    #[test]
    fn counts_that_overflow_an_integer_do_not_panic() {
        let mut rows = synthetic::arm_rows("iridium", "one", Arm::Plain, &[1.0]);
        rows[0].link_bytes_up = u64::MAX;
        rows[0].link_bytes_down = u64::MAX;
        rows[0].certificates = vec![usize::MAX, 2];
        assert!(of(rows)[0].spread(Arm::Plain, Measure::LinkBytes).is_some());
    }
}
