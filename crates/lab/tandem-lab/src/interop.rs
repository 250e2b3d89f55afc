//! Interoperability: every client program against every server program, in every version of TLS
//! that both speak, plain and through two proxies.
//!
//! Judges by the endpoints alone: whether the client got the page, and whether each end received
//! what the other sent. Only whether a flight was rewritten is the proxies' own word.
//!
//! A program that is not installed, and two that do not come together without proxies either, are
//! results and not failures.

mod bench;
mod cell;
pub(crate) mod clients;
pub(crate) mod servers;
mod table;
pub(crate) mod tools;
pub(crate) mod version;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tandem_testbed::LabError;
use tandem_testbed::console::{Console, human_duration};
use tandem_testbed::effort::Effort;
use tandem_testbed::endpoints::Version;
use tandem_testbed::interrupt;
use tandem_testbed::lease::Lease;
use tandem_testbed::links::LinkSpec;
use tandem_testbed::matrix::{self, Installed};

use bench::{Bench, Between};
use cell::{Cell, Store, Verdict};
use clients::Client;
use servers::Server;
use tools::Tools;
use version::VERSIONS;

/// A fast link: what is asked is whether it works, not how long it takes.
const LINK: &str = "tcdl-10";

/// What --quick tries: programs that every machine with a lab has.
const QUICK_CLIENTS: [Client; 3] = [Client::Openssl, Client::Curl, Client::Gnutls];
const QUICK_SERVERS: [Server; 2] = [Server::Nginx, Server::Openssl];
const QUICK_VERSIONS: [Version; 2] = [Version::Tls12, Version::Tls13];

/// What to try.
#[derive(Debug, Clone)]
pub struct InteropOptions {
    /// All programs, or a handful.
    pub effort: Effort,
    /// Where results go; made where it is missing.
    pub out: PathBuf,
    /// The `tandem` binary for the daemons.
    pub exe: PathBuf,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InteropSummary {
    /// The page, Markdown.
    pub page: PathBuf,
    /// A line of JSON for each client, server and version.
    pub lines: PathBuf,
    /// Combinations whose flight was rewritten, every byte identical.
    pub rewritten: usize,
    /// Combinations in TLS 1.3 that passed untouched.
    pub untouched: usize,
}

/// Tries all, and writes `interop.md`, `interop.jsonl` and `interop.run.json`.
///
/// # Errors
/// `NotRoot`, `Kernel`, `ProgramMissing` where the lab cannot be built; `Command` where an
/// installed program does not come up; `BytesDiffer`, `TrialsFailed` where Tandem is at fault (all
/// is written nevertheless); `Interrupted`.
pub fn interop(options: &InteropOptions) -> Result<InteropSummary, LabError> {
    interrupt::watch()?;
    let console = Console::default();
    let begun = Instant::now();
    let lease = Lease::any()?;
    fs::create_dir_all(&options.out)
        .map_err(LabError::io(format!("make {}", options.out.display())))?;
    let tools = Tools::prepare(&lease.directory(), &options.exe)?;
    let plan = Plan::new(options.effort, &tools);
    plan.prepare(&tools)?;
    let cells = plan.work_off(&tools, &options.exe, &console)?;
    let summary = write(&cells, &plan, &options.out)?;
    console.say(&format!(
        "{} rewritten, {} untouched, of {} combinations in {}; the table is {}",
        summary.rewritten,
        summary.untouched,
        cells.len(),
        human_duration(begun.elapsed()),
        summary.page.display()
    ));
    verdict(&cells, &summary.lines)?;
    Ok(summary)
}

/// What is tried, and with what.
struct Plan {
    clients: Vec<(Client, Option<String>)>,
    servers: Vec<(Server, Option<String>)>,
    versions: Vec<Version>,
}

impl Plan {
    fn new(effort: Effort, tools: &Tools) -> Self {
        let (clients, servers, versions) = match effort {
            Effort::Full => (
                Client::ALL.to_vec(),
                Server::ALL.to_vec(),
                VERSIONS.to_vec(),
            ),
            Effort::Quick => (
                QUICK_CLIENTS.to_vec(),
                QUICK_SERVERS.to_vec(),
                QUICK_VERSIONS.to_vec(),
            ),
        };
        let unknown = || "unknown".to_owned();
        Self {
            clients: clients
                .into_iter()
                .map(|client| {
                    let found = client
                        .is_installed(tools)
                        .then(|| client.question(tools).ask().unwrap_or_else(unknown));
                    (client, found)
                })
                .collect(),
            servers: servers
                .into_iter()
                .map(|server| {
                    let found = server
                        .is_installed()
                        .then(|| server.question().ask().unwrap_or_else(unknown));
                    (server, found)
                })
                .collect(),
            versions,
        }
    }

    fn prepare(&self, tools: &Tools) -> Result<(), LabError> {
        for (client, found) in &self.clients {
            if found.is_some() {
                client.prepare(tools)?;
            }
        }
        for (server, found) in &self.servers {
            if found.is_some() {
                server.prepare(tools)?;
            }
        }
        Ok(())
    }

    /// All cells, in the order of servers, versions and clients.
    fn work_off(
        &self,
        tools: &Tools,
        exe: &Path,
        console: &Console,
    ) -> Result<Vec<Cell>, LabError> {
        matrix::work_off(matrix::TWO_PROCESSORS, &self.servers, |(server, found)| {
            self.server(*server, found.as_deref(), tools, exe, console)
        })
    }

    /// All clients against one server, version by version.
    fn server(
        &self,
        server: Server,
        found: Option<&str>,
        tools: &Tools,
        exe: &Path,
        console: &Console,
    ) -> Result<Vec<Cell>, LabError> {
        let mut cells = Vec::new();
        let mut benches = None;
        let total = (self.versions.len() * self.clients.len()) as u64;
        let mut progress = console.bar(server.name(), total);
        for version in &self.versions {
            if found.is_some() {
                let benches = match &mut benches {
                    Some(benches) => benches,
                    None => {
                        let link = LinkSpec::preset(LINK).config()?;
                        benches.insert([
                            Bench::build(&link, Between::Link, exe)?,
                            Bench::build(&link, Between::Proxies, exe)?,
                        ])
                    }
                };
                for bench in benches {
                    bench.serve(server, *version, tools)?;
                }
            }
            let mut store = Store::Empty;
            for (client, installed) in &self.clients {
                interrupt::check()?;
                let untried =
                    |verdict, why: &str| Ok(Cell::untried(*client, server, *version, verdict, why));
                let cell = match (&benches, installed, client.cannot(server, *version)) {
                    (None, _, _) => untried(Verdict::NotInstalled, "the server is not installed"),
                    (_, None, _) => untried(Verdict::NotInstalled, "the client is not installed"),
                    (_, _, Some(why)) => untried(Verdict::Cannot, why),
                    (Some(benches), Some(_), None) => {
                        Cell::measure((*client, server, *version), benches, &mut store, tools)
                    }
                }?;
                progress.step(&in_words(&cell));
                cells.push(cell);
            }
        }
        if let Some(benches) = &mut benches {
            benches.iter_mut().try_for_each(Bench::end)?;
        }
        progress.finish();
        Ok(cells)
    }
}

/// A cell as progress shows it.
fn in_words(cell: &Cell) -> String {
    let why = match (&cell.why, &cell.warm) {
        (Some(why), _) => format!(" ({why})"),
        (None, Some(warm)) => format!(" ({} bytes of TLS)", warm.tls_bytes),
        (None, None) => String::new(),
    };
    format!(
        "{}, TLS {}: {:?}{why}",
        cell.client,
        cell.version.name(),
        cell.verdict
    )
}

fn write(cells: &[Cell], plan: &Plan, out: &Path) -> Result<InteropSummary, LabError> {
    let clients: Vec<Installed> = plan
        .clients
        .iter()
        .map(|(client, found)| (client.name(), found.clone()))
        .collect();
    let servers: Vec<Installed> = plan
        .servers
        .iter()
        .map(|(server, found)| (server.name(), found.clone()))
        .collect();
    let page = table::page(cells, &clients, &servers);
    let programs = clients.iter().chain(&servers);
    let written = matrix::write(out, "interop", cells, &page, programs)?;
    let count = |verdict| cells.iter().filter(|cell| cell.verdict == verdict).count();
    Ok(InteropSummary {
        page: written.page,
        lines: written.lines,
        rewritten: count(Verdict::Rewritten),
        untouched: count(Verdict::Untouched),
    })
}

/// An error where Tandem is at fault.
fn verdict(cells: &[Cell], lines: &Path) -> Result<(), LabError> {
    let differing = cells
        .iter()
        .filter(|cell| cell.verdict == Verdict::Differs)
        .count();
    if differing > 0 {
        return Err(LabError::BytesDiffer {
            differing,
            trials: cells.len(),
            rows: lines.to_owned(),
        });
    }
    let mut faults = cells.iter().filter(|cell| cell.verdict.is_fault());
    match faults.next() {
        None => Ok(()),
        Some(first) => Err(LabError::TrialsFailed {
            failed: faults.count() + 1,
            trials: cells.len(),
            why: format!("{} with {}", in_words(first), first.server),
        }),
    }
}
