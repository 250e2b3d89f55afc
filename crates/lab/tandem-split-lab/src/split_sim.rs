//! `tandem lab split-sim`: very many clients and volunteers at once, simulated. Calibrated by what
//! `tandem lab split` measured.
//!
//! ```text
//!   splitting.jsonl --> calibration --+
//!                       plan ---------+--> tandem-split-sim --> split-simulation.json, .md
//! ```
//!
//! Is not: a measurement, and every table that it writes says so.

mod calibration;
mod plan;
mod plots;
#[cfg(test)]
mod tests;
mod text;
mod validation;

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tandem_report::split_row::SplitRow;
use tandem_split_sim::{Outcome, Unfit, simulate};
use tandem_testbed::LabError;
use tandem_testbed::console::{self, Console};
use tandem_testbed::effort::Effort;
use tandem_testbed::interrupt;

use crate::splitting;
use calibration::Calibrated;
use plan::{Group, Planned};
use validation::Validation;

/// Of the times within which clients are counted as served, the one in sweeps and plots.
const IN_TIME: usize = 2;

/// What to simulate.
#[derive(Debug, Clone)]
pub struct SplitSimOptions {
    /// Rows of `tandem lab split`, `splitting.jsonl`.
    pub rows: PathBuf,
    /// Clients that want the page.
    pub clients: u32,
    /// Volunteers of the site, at most.
    pub volunteers: u32,
    /// Of everything random.
    pub seed: u64,
    /// Where results go; made where it is missing.
    pub out: PathBuf,
}

/// A run and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Run {
    #[serde(flatten)]
    planned: Planned,
    outcome: Outcome,
}

/// A file that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Document {
    name: &'static str,
    text: String,
}

/// The page with tables.
const PAGE: &str = "split-simulation.md";

/// Simulates, and writes `split-simulation.json` (all figures), `split-simulation.md` (tables) and
/// two plots.
///
/// # Errors
/// `Usage` where rows are missing or do not read, or nothing is to be simulated; `Interrupted`,
/// `Io`.
pub fn split_sim(options: &SplitSimOptions) -> Result<PathBuf, LabError> {
    interrupt::watch()?;
    let console = Console::default();
    let rows = read(&options.rows)?;
    let calibrated = Calibrated::of(&rows, &options.rows)?;
    console.say(&text::source(&calibrated));
    let planned = plan::plan(options, calibrated.link_bits, volunteer_bits());
    let mut progress = console.bar("simulation", planned.len() as u64);
    let runs = simulated(&calibrated, planned, |name| progress.step(name))?;
    progress.finish();
    let drawings = options.out.join("plots");
    fs::create_dir_all(&drawings).map_err(LabError::io(format!("make {}", drawings.display())))?;
    for document in documents(options, &rows, &calibrated, &runs)? {
        let path = options.out.join(document.name);
        fs::write(&path, &document.text)
            .map_err(LabError::io(format!("write {}", path.display())))?;
        if document.name == PAGE {
            console::result(&document.text);
        }
    }
    Ok(options.out.join(PAGE))
}

/// Each run with what came of it. `step` gets the name of one that is done.
fn simulated(
    calibrated: &Calibrated,
    planned: Vec<Planned>,
    mut step: impl FnMut(&str),
) -> Result<Vec<Run>, LabError> {
    let mut runs = Vec::new();
    for planned in planned {
        interrupt::check()?;
        let figures = calibrated.for_costs(planned.costs);
        let mut outcome = simulate(&figures, &planned.scenario).map_err(unfit)?;
        match planned.group {
            Group::Flash | Group::Spread => {}
            // Nobody draws them.
            Group::Crowd | Group::Line | Group::Volunteers | Group::Assumptions => {
                outcome.series.clear();
            }
        }
        step(&format!("{}, {}", planned.name, planned.variant));
        runs.push(Run { planned, outcome });
    }
    Ok(runs)
}

/// What is written of it.
fn documents(
    options: &SplitSimOptions,
    rows: &[SplitRow],
    calibrated: &Calibrated,
    runs: &[Run],
) -> Result<[Document; 4], LabError> {
    let validation = Validation::of(rows, calibrated, volunteer_bits()).map_err(unfit)?;
    let document = |name, text| Document { name, text };
    let json = text::json(options, calibrated, &validation, runs)?;
    let page = text::markdown(options, calibrated, &validation, runs).map_err(unfit)?;
    Ok([
        document("split-simulation.json", json),
        document(PAGE, page),
        document("plots/split-simulation-line.svg", plots::line(runs)),
        document("plots/split-simulation-time.svg", plots::time(runs)),
    ])
}

/// What the lab's volunteers send, bits per second.
fn volunteer_bits() -> u64 {
    u64::from(splitting::plan::Plan::of(Effort::Full).volunteer_rate) * 8000
}

fn unfit(error: Unfit) -> LabError {
    LabError::usage("the simulation", error.to_string())
}

fn read(path: &Path) -> Result<Vec<SplitRow>, LabError> {
    let text = fs::read_to_string(path).map_err(LabError::io(format!(
        "read measured rows from {}",
        path.display()
    )))?;
    let rows = text.lines().enumerate();
    rows.filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, line)| {
            serde_json::from_str(line).map_err(|error| {
                let place = format!("{}, line {}", path.display(), number + 1);
                LabError::usage(place, error.to_string())
            })
        })
        .collect()
}
