//! Interoperability: every client program against every server program, in every version of TLS
//! that both speak, plain and through two proxies.
//!
//! TLS 1.3 also crosses a tunnel, with the consent of the server, of the client, and of both.
//!
//! Judges by the endpoints alone: whether the client got the page, and whether each end received
//! what the other sent. Only whether a flight was rewritten is the proxies' own word.
//!
//! A program that is not installed, and two that do not come together without proxies either, are
//! results and not failures.

mod bench;
mod cell;
pub(crate) mod clients;
mod consent;
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
use consent::Consent;
use servers::Server;
use tools::Tools;
use version::VERSIONS;

/// A fast link: what is asked is whether it works, not how long it takes.
const LINK: &str = "tcdl-10";

/// What --quick tries: programs that every machine with a lab has.
const QUICK_CLIENTS: [Client; 3] = [Client::Openssl, Client::Curl, Client::Gnutls];
const QUICK_SERVERS: [Server; 2] = [Server::Nginx, Server::Openssl];
const QUICK_CONSENT: [Server; 1] = [Server::Nginx];
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
    /// With consent in TLS 1.3, through the tunnel: rewritten, every byte identical.
    pub sealed: usize,
    /// The same that passed untouched, since no program releases a key.
    pub closed: usize,
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
        "{} rewritten, {} untouched; with consent {} and {}; of {} combinations in {}; the table is {}",
        summary.rewritten,
        summary.untouched,
        summary.sealed,
        summary.closed,
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
    /// Those that are tried with consent, too.
    with_consent: Vec<Server>,
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
            with_consent: match effort {
                Effort::Full => Server::ALL.to_vec(),
                Effort::Quick => QUICK_CONSENT.to_vec(),
            },
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
                    bench.serve(server, *version, tools, None)?;
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
        if benches.is_some() && self.with_consent.contains(&server) {
            drop(benches);
            let with_consent = self.consents(server, &cells, tools, exe, console)?;
            cells.extend(with_consent);
        }
        Ok(cells)
    }

    /// All clients against one server in TLS 1.3, through the tunnel, with each consent; `plain`
    /// says which of them come together without proxies.
    fn consents(
        &self,
        server: Server,
        plain: &[Cell],
        tools: &Tools,
        exe: &Path,
        console: &Console,
    ) -> Result<Vec<Cell>, LabError> {
        let mut bench = Bench::build(&LinkSpec::preset(LINK).config()?, Between::Tunnel, exe)?;
        let mut cells = Vec::new();
        let total = (Consent::ALL.len() * self.clients.len()) as u64;
        let mut progress = console.bar(&format!("{} with consent", server.name()), total);
        for consent in Consent::ALL {
            bench.serve(server, Version::Tls13, tools, Some(consent))?;
            let mut store = Store::Empty;
            for (client, _) in &self.clients {
                interrupt::check()?;
                let is_plain =
                    |cell: &&Cell| cell.version == Version::Tls13 && cell.client == client.name();
                let Some(plain) = plain.iter().find(is_plain) else {
                    continue;
                };
                let bench = (&bench, &mut store);
                let cell = Cell::with_consent((*client, server, consent), plain, bench, tools)?;
                progress.step(&in_words(&cell));
                cells.push(cell);
            }
        }
        bench.end()?;
        progress.finish();
        Ok(cells)
    }
}

/// A cell as progress shows it.
fn in_words(cell: &Cell) -> String {
    let why = match (&cell.why, &cell.warm) {
        (Some(why), _) => format!(" ({why})"),
        (None, Some(warm)) if cell.consent.is_some() => {
            format!(" ({} bytes on the link)", warm.link_bytes)
        }
        (None, Some(warm)) => format!(" ({} bytes of TLS)", warm.tls_bytes),
        (None, None) => String::new(),
    };
    let consent = cell.consent.map_or("", Consent::name);
    let with = if consent.is_empty() { "" } else { " with " };
    format!(
        "{}, TLS {}{with}{consent}: {:?}{why}",
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
    let count = |verdict, has_consent| {
        let is_one =
            |cell: &&Cell| cell.verdict == verdict && cell.consent.is_some() == has_consent;
        cells.iter().filter(is_one).count()
    };
    Ok(InteropSummary {
        page: written.page,
        lines: written.lines,
        rewritten: count(Verdict::Rewritten, false),
        untouched: count(Verdict::Untouched, false),
        sealed: count(Verdict::Rewritten, true),
        closed: count(Verdict::Untouched, true),
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
