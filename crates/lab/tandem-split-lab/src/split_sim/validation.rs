//! The lab's own set-ups, simulated: what the simulation says of them beside what was measured.
//!
//! Part `latency` is where the calibration's seconds come from, but not its bytes; nothing comes
//! from the times of part `scaling`.

use serde::Serialize;
use tandem_report::split_row::{Delivery as Way, Part, SplitRow};
use tandem_split_sim::{
    Caches, Choice, Delivery, Outcome, Rules, Scenario, Sharing, Unfit, simulate,
};

use super::calibration::{Calibrated, median};

/// Longer than any of them.
const FOREVER: f64 = 1e9;
/// A volunteer's rate where the lab sets none: its line is a bridge on the same machine.
const UNLIMITED: u64 = 10_000_000_000;

/// A figure twice.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Pair {
    pub(crate) measured: f64,
    pub(crate) simulated: f64,
}

impl Pair {
    /// Simulated by measured.
    pub(crate) fn ratio(self) -> f64 {
        self.simulated / self.measured
    }
}

/// One body for one client over an idle line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Single {
    pub(crate) delivery: Way,
    pub(crate) body: u64,
    pub(crate) seconds: Pair,
    pub(crate) bytes: Pair,
}

/// So many volunteers, each with a client that asks for the same file some times; medians of what
/// was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Crew {
    pub(crate) volunteers: u32,
    pub(crate) seconds: Pair,
    pub(crate) bytes: Pair,
}

/// All that can be compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Validation {
    pub(crate) singles: Vec<Single>,
    pub(crate) crews: Vec<Crew>,
}

impl Validation {
    /// # Errors
    /// [`Unfit`], where the rows are for something that cannot be simulated.
    pub(crate) fn of(
        rows: &[SplitRow],
        calibrated: &Calibrated,
        volunteer_bits: u64,
    ) -> Result<Self, Unfit> {
        let link = calibrated.link.as_str();
        let here = move |part: Part| {
            rows.iter()
                .filter(move |row| row.part == part && row.is_sound() && row.link == link)
        };
        let mut singles = Vec::new();
        for row in here(Part::Latency) {
            let delivery = match row.delivery {
                Way::Https => Delivery::Https,
                Way::Cold => split(Caches::Cold),
                Way::Warm => split(Caches::Warm),
                Way::Http | Way::HttpsCbc => continue,
            };
            let came = outcome(calibrated, delivery, 1, row.sizes.clone(), UNLIMITED)?;
            singles.push(Single {
                delivery: row.delivery,
                body: row.body_bytes(),
                seconds: Pair {
                    measured: row.seconds,
                    simulated: came.ended_seconds,
                },
                bytes: Pair {
                    measured: row.link_bytes_down as f64,
                    simulated: came.line.total() as f64,
                },
            });
        }
        let warm = || here(Part::Scaling).filter(|row| row.delivery == Way::Warm);
        let mut counts: Vec<u32> = warm().filter_map(|row| row.volunteers).collect();
        counts.sort_unstable();
        counts.dedup();
        let mut crews = Vec::new();
        for volunteers in counts {
            let like = || warm().filter(move |row| row.volunteers == Some(volunteers));
            let measured = |figure: fn(&SplitRow) -> f64| median(like().map(figure).collect());
            let (Some(row), Some(seconds), Some(bytes)) = (
                like().next(),
                measured(|row| row.seconds),
                measured(|row| row.link_bytes_down as f64),
            ) else {
                continue;
            };
            let each = row.sizes.len() / volunteers.max(1) as usize;
            let bodies = row.sizes[..each].to_vec();
            let delivery = split(Caches::Warm);
            let came = outcome(calibrated, delivery, volunteers, bodies, volunteer_bits)?;
            crews.push(Crew {
                volunteers,
                seconds: Pair {
                    measured: seconds,
                    simulated: came.ended_seconds,
                },
                bytes: Pair {
                    measured: bytes,
                    simulated: came.line.total() as f64,
                },
            });
        }
        Ok(Self { singles, crews })
    }

    /// Median ratios of single bodies in a delivery: of seconds, of bytes.
    pub(crate) fn median_ratios(&self, delivery: Way) -> Option<(f64, f64)> {
        let like = || {
            self.singles
                .iter()
                .filter(move |one| one.delivery == delivery)
        };
        let seconds = median(like().map(|one| one.seconds.ratio()).collect())?;
        let bytes = median(like().map(|one| one.bytes.ratio()).collect())?;
        Some((seconds, bytes))
    }
}

fn split(caches: Caches) -> Delivery {
    Delivery::Split {
        caches,
        sharing: Sharing::OriginOnly,
    }
}

/// So many clients at the same moment, each at a volunteer of its own.
fn outcome(
    calibrated: &Calibrated,
    delivery: Delivery,
    clients: u32,
    page: Vec<u64>,
    volunteer_bits: u64,
) -> Result<Outcome, Unfit> {
    let scenario = Scenario {
        delivery,
        clients,
        crowd_seconds: 0.0,
        page,
        patience_seconds: FOREVER,
        line_bits: calibrated.link_bits,
        volunteers: clients,
        volunteer_bits,
        choice: Choice::InTurn,
        churn: None,
        rules: Rules::default(),
        seed: 1,
    };
    simulate(&calibrated.figures, &scenario)
}
