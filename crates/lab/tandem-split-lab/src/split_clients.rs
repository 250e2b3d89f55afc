//! Every client program at a split site: what it does there through an honest volunteer, and what
//! it does about one that is not.
//!
//! Judges by the client's own word and by what the origin counts. Needs no root and no namespace:
//! all is on the loopback interface, on free ports.
//!
//! A program that is not installed is a result and not a failure; so is what a program cannot do
//! whoever serves.

mod cell;
mod clients;
mod files;
mod harm;
mod job;
mod process;
mod raw;
mod site;
mod swap;
mod table;
mod task;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tandem_testbed::LabError;
use tandem_testbed::console::{Console, human_duration};
use tandem_testbed::effort::Effort;
use tandem_testbed::interrupt;
use tandem_testbed::matrix::{self, Installed};

use cell::{Cell, Trick, Verdict};
use clients::Client;
use job::Job;
use site::{HOST, OTHER_HOST, Pki, Site};
use task::Tools;

/// What to try.
#[derive(Debug, Clone)]
pub struct SplitClientsOptions {
    /// All programs, or those that every machine with a lab has.
    pub effort: Effort,
    /// Where results go; made where it is missing.
    pub out: PathBuf,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitClientsSummary {
    /// The page, Markdown.
    pub page: PathBuf,
    /// A line of JSON for each combination.
    pub lines: PathBuf,
    /// Jobs that clients have done through an honest volunteer, every byte right.
    pub work: usize,
    /// Tricks that clients have refused.
    pub refused: usize,
    /// Combinations with a client that is not installed.
    pub not_installed: usize,
}

/// Tries all, and writes `split-clients.md`, `split-clients.jsonl` and `split-clients.run.json`.
///
/// # Errors
/// `ProgramMissing`, `Command`, `Io` where nothing can be tried; `TrialsFailed` where a client was
/// not served, was deceived, or the origin has not counted what it can count (all is written
/// nevertheless); `Interrupted`.
pub fn split_clients(options: &SplitClientsOptions) -> Result<SplitClientsSummary, LabError> {
    interrupt::watch()?;
    let console = Console::default();
    let begun = Instant::now();
    fs::create_dir_all(&options.out)
        .map_err(LabError::io(format!("make {}", options.out.display())))?;
    let folder = tempfile::tempdir().map_err(LabError::io("make a folder"))?;
    let pki = Pki::issue(folder.path())?;
    let hosts = format!("127.0.0.1 localhost {HOST} {OTHER_HOST}\n");
    let tools = Tools::prepare(folder.path(), &pki.authority, &hosts)?;
    let clients: Vec<(Client, Option<String>)> = match options.effort {
        Effort::Full => Client::ALL.to_vec(),
        Effort::Quick => Client::QUICK.to_vec(),
    }
    .into_iter()
    .map(|client| (client, client.installed()))
    .collect();
    for (client, found) in &clients {
        match found {
            Some(_) => client.prepare(&tools)?,
            None => console.say(&format!(
                "{} is left out: it needs {}",
                client.name(),
                client.needs().join(", ")
            )),
        }
    }
    let cells = work_off(&clients, &pki, &tools, &console)?;
    let summary = write(&cells, &clients, &options.out)?;
    console.say(&format!(
        "{} work, {} tricks refused, of {} combinations in {}; the table is {}",
        summary.work,
        summary.refused,
        cells.len(),
        human_duration(begun.elapsed()),
        summary.page.display()
    ));
    verdict(&cells)?;
    Ok(summary)
}

/// All cells, in the order of clients, each of which has a site of its own.
fn work_off(
    clients: &[(Client, Option<String>)],
    pki: &Pki,
    tools: &Tools,
    console: &Console,
) -> Result<Vec<Cell>, LabError> {
    matrix::work_off(matrix::TWO_PROCESSORS, clients, |(client, found)| {
        row(*client, found.as_deref(), pki, tools, console)
    })
}

/// All that one client does.
fn row(
    client: Client,
    found: Option<&str>,
    pki: &Pki,
    tools: &Tools,
    console: &Console,
) -> Result<Vec<Cell>, LabError> {
    let mut cells = Vec::new();
    let mut progress = console.bar(client.name(), (Job::ALL.len() + Trick::ALL.len()) as u64);
    let site = match found {
        Some(_) => Some(Site::start(pki)?),
        None => None,
    };
    let mut add = |cell: Cell| {
        progress.step(&format!("{}: {:?} {}", cell.job, cell.verdict, cell.why));
        cells.push(Cell {
            version: found.map(str::to_owned),
            ..cell
        });
    };
    for job in Job::ALL {
        interrupt::check()?;
        let untried = |verdict, why| Cell::untried(client, "honest", job.name(), verdict, why);
        add(match (&site, client.cannot(job)) {
            (None, _) => untried(Verdict::NotInstalled, "the client is not installed"),
            (Some(_), Some(why)) => untried(Verdict::Cannot, why),
            (Some(site), None) => Cell::job(client, job, site, tools)?,
        });
    }
    for trick in Trick::ALL {
        interrupt::check()?;
        add(match &site {
            None => Cell::untried(
                client,
                trick.name(),
                "2 MB",
                Verdict::NotInstalled,
                "the client is not installed",
            ),
            Some(site) => Cell::trick(client, trick, site, tools)?,
        });
    }
    progress.finish();
    Ok(cells)
}

fn write(
    cells: &[Cell],
    clients: &[(Client, Option<String>)],
    out: &Path,
) -> Result<SplitClientsSummary, LabError> {
    let names: Vec<Installed> = clients
        .iter()
        .map(|(client, found)| (client.name(), found.clone()))
        .collect();
    let page = table::page(cells, &names);
    let written = matrix::write(out, "split-clients", cells, &page, &names)?;
    let count = |verdict| cells.iter().filter(|cell| cell.verdict == verdict).count();
    Ok(SplitClientsSummary {
        page: written.page,
        lines: written.lines,
        work: count(Verdict::Works),
        refused: count(Verdict::Refused),
        not_installed: count(Verdict::NotInstalled),
    })
}

/// An error where splitting is at fault.
fn verdict(cells: &[Cell]) -> Result<(), LabError> {
    let mut faults = cells.iter().filter(|cell| cell.verdict.is_fault());
    match faults.next() {
        None => Ok(()),
        Some(first) => Err(LabError::TrialsFailed {
            failed: faults.count() + 1,
            trials: cells.len(),
            why: format!(
                "{}, {} volunteer, {}: {:?} {}",
                first.client, first.volunteer, first.job, first.verdict, first.why
            ),
        }),
    }
}
