//! Does the application survive? Programs with the time-outs that their libraries set fetch a page
//! over slow links: plain, in packet mode, through the tunnel, and, in TLS 1.3, through the tunnel
//! with the server's consent.
//!
//! Counts what reaches the program's user: the page, or the program's own words of failure. Is not:
//! a measurement of bytes. The proxies are warm: one handshake has gone before.
//!
//! Invariants: each link, version and arm has hosts of its own, and nothing of a connection is left
//! on the link when the next begins; no time-out but the programs' own and the server's is at work.

mod programs;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tandem_report::arm::Arm;
use tandem_testbed::LabError;
use tandem_testbed::client::{Outcome, contains};
use tandem_testbed::console::{Console, human_duration};
use tandem_testbed::endpoints::{Endpoints, Version};
use tandem_testbed::interrupt;
use tandem_testbed::lease::Lease;
use tandem_testbed::links::LinkSpec;
use tandem_testbed::matrix::{self, Installed};
use tandem_testbed::server::BODY;

use crate::interop::tools::Tools;
use crate::lane::{Lane, LaneSpec};
use programs::Program;

/// The links: two of a few kilobits, and one of some tens.
const LINKS: [&str; 3] = ["iridium", "hf-9600", "certus-100"];

const VERSIONS: [Version; 2] = [Version::Tls12, Version::Tls13];

const ARMS: [Arm; 4] = [Arm::Plain, Arm::Packet, Arm::Tunnel, Arm::TunnelConsent];

/// Whether there is such an arm in this version: only TLS 1.3 needs consent.
fn exists(arm: Arm, version: Version) -> bool {
    arm != Arm::TunnelConsent || version == Version::Tls13
}

/// Longest that a connection may take that has no time-out of its own, and its remains to leave the
/// link. Beyond any of the programs' time-outs.
const LIMIT: Duration = Duration::from_secs(400);

/// What to try.
#[derive(Debug, Clone)]
pub struct SurviveOptions {
    /// How often each program tries.
    pub tries: u32,
    /// Links to try; empty: all.
    pub links: Vec<String>,
    /// Where results go; made where it is missing.
    pub out: PathBuf,
    /// The `tandem` binary for the daemons.
    pub exe: PathBuf,
}

/// A program's tries on one link, in one version, with one arm: a line of JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Cell {
    link: String,
    version: Version,
    arm: Arm,
    program: String,
    tries: u32,
    /// Tries that brought the page.
    survived: u32,
    /// How long each took that did, seconds, from the program's start to its end.
    seconds: Vec<f64>,
    /// What the program said where it failed, the last time.
    error: Option<String>,
}

/// One link, version and arm.
struct Way {
    link: &'static str,
    version: Version,
    arm: Arm,
}

/// Tries all, and writes `survive.md`, `survive.jsonl` and `survive.run.json`; the path of the
/// first.
///
/// # Errors
/// `NotRoot`, `Kernel`, `ProgramMissing`, `Usage` where the lab cannot be built; `Command` where
/// the handshake before those that count fails; `Interrupted`, `Io`. A program that does not
/// survive is a result.
pub fn survive(options: &SurviveOptions) -> Result<PathBuf, LabError> {
    interrupt::watch()?;
    let console = Console::default();
    let begun = Instant::now();
    let lease = Lease::any()?;
    fs::create_dir_all(&options.out)
        .map_err(LabError::io(format!("make {}", options.out.display())))?;
    let ways = ways(&options.links)?;
    let tools = Tools::prepare(&lease.directory(), &options.exe)?;
    let programs: Vec<(Program, Option<String>)> = Program::ALL
        .into_iter()
        .map(|program| (program, program.version()))
        .collect();
    for (program, _) in programs.iter().filter(|(_, found)| found.is_some()) {
        program.prepare(&tools)?;
    }
    // All at a time: what they wait for is the link.
    let cells = matrix::work_off(ways.len(), &ways, |way| {
        way.cells(&programs, &tools, options, &console)
    })?;
    let installed: Vec<Installed> = programs
        .iter()
        .map(|(program, found)| (program.name(), found.clone()))
        .collect();
    let page = page(&cells, &installed);
    let written = matrix::write(&options.out, "survive", &cells, &page, &installed)?;
    console.say(&format!(
        "{} tries in {}; the table is {}",
        cells.iter().map(|cell| cell.tries).sum::<u32>(),
        human_duration(begun.elapsed()),
        written.page.display()
    ));
    Ok(written.page)
}

/// All of them, of the links that are wanted.
fn ways(links: &[String]) -> Result<Vec<Way>, LabError> {
    if let Some(unknown) = links.iter().find(|link| !LINKS.contains(&link.as_str())) {
        return Err(LabError::usage(
            format!("the link {unknown}"),
            format!("is none of these: {}", LINKS.join(", ")),
        ));
    }
    let is_wanted = |link: &&str| links.is_empty() || links.iter().any(|wanted| wanted == link);
    let mut ways = Vec::new();
    for link in LINKS.into_iter().filter(is_wanted) {
        for version in VERSIONS {
            let arms = ARMS.into_iter().filter(|arm| exists(*arm, version));
            ways.extend(arms.map(|arm| Way { link, version, arm }));
        }
    }
    Ok(ways)
}

impl Way {
    fn cells(
        &self,
        programs: &[(Program, Option<String>)],
        tools: &Tools,
        options: &SurviveOptions,
        console: &Console,
    ) -> Result<Vec<Cell>, LabError> {
        let endpoints = Endpoints {
            version: self.version,
            ..Endpoints::three()
        };
        let mut lane = Lane::build(
            &LaneSpec {
                experiment: "survive",
                link_name: self.link,
                link: LinkSpec::preset(self.link).config()?,
                arm: self.arm,
                endpoints: &endpoints,
                chain: &tools.chain,
                client: None,
                exe: &options.exe,
                seed: 1,
                capture: None,
            },
            LIMIT,
        )?;
        lane.warm_up()?;
        let mut cells = Vec::new();
        for (program, _) in programs.iter().filter(|(_, found)| found.is_some()) {
            let cell = self.cell(*program, &mut lane, tools, options.tries)?;
            console.say(&format!(
                "{}, TLS {}, {}: {}: {}",
                self.link,
                self.version.name(),
                self.arm.name(),
                cell.program,
                in_words(&cell)
            ));
            cells.push(cell);
        }
        lane.finish()?;
        Ok(cells)
    }

    fn cell(
        &self,
        program: Program,
        lane: &mut Lane,
        tools: &Tools,
        tries: u32,
    ) -> Result<Cell, LabError> {
        let mut cell = Cell {
            link: self.link.to_owned(),
            version: self.version,
            arm: self.arm,
            program: program.name().to_owned(),
            tries,
            survived: 0,
            seconds: Vec::new(),
            error: None,
        };
        for _ in 0..tries {
            let mut command = program.command(tools, &tools.chain.root);
            let begun = Instant::now();
            let (outcome, ended) = lane.run(&mut command, |output, status| {
                status.success() && contains(output, BODY)
            })?;
            match outcome {
                Outcome::Success => {
                    cell.survived += 1;
                    cell.seconds.push(ended.duration_since(begun).as_secs_f64());
                }
                Outcome::Failure(why) => cell.error = Some(why),
            }
        }
        Ok(cell)
    }
}

/// How a program fared: how many of its tries brought the page, and how long the median of these
/// took.
fn in_words(cell: &Cell) -> String {
    let mut seconds = cell.seconds.clone();
    seconds.sort_by(f64::total_cmp);
    match seconds.get(seconds.len() / 2) {
        None => format!("**0 of {}**", cell.tries),
        Some(median) => format!("{} of {}, {median:.1} s", cell.survived, cell.tries),
    }
}

fn page(cells: &[Cell], programs: &[Installed]) -> String {
    let mut text = "# Does the application survive?\n\n\
        Programs with the time-outs that their libraries set fetch a small page behind a chain of \
        three certificates,\nfull handshakes each time: how many tries brought the page, and how \
        long these took (median, from the program's\nstart to its end). The proxies know the \
        server's certificates.\n"
        .to_owned();
    for link in LINKS {
        for version in VERSIONS {
            let arms = ARMS.into_iter().filter(|arm| exists(*arm, version));
            let columns: Vec<&str> = arms.map(Arm::name).collect();
            let here: Vec<&Cell> = cells
                .iter()
                .filter(|cell| cell.link == link && cell.version == version)
                .collect();
            if here.is_empty() {
                continue;
            }
            text.push_str(&format!("\n## {link}, TLS {}\n\n", version.name()));
            text.push_str(&matrix::table(
                "program",
                programs,
                &columns,
                |row, column| {
                    here.iter()
                        .find(|cell| cell.program == row && cell.arm.name() == column)
                        .map(|cell| in_words(cell))
                },
            ));
            let mut errors: Vec<String> = here
                .iter()
                .filter_map(|cell| {
                    let error = cell.error.as_ref()?;
                    Some(format!("- {}, {}: {error}", cell.program, cell.arm.name()))
                })
                .collect();
            if !errors.is_empty() {
                errors.insert(0, "\nWhat the programs said:\n".to_owned());
                text.push_str(&errors.join("\n"));
                text.push('\n');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(seconds: &[f64]) -> Cell {
        Cell {
            link: "iridium".to_owned(),
            version: Version::Tls12,
            arm: Arm::Plain,
            program: Program::Go.name().to_owned(),
            tries: 3,
            survived: seconds.len() as u32,
            seconds: seconds.to_vec(),
            error: seconds
                .is_empty()
                .then(|| "TLS handshake timeout".to_owned()),
        }
    }

    #[test]
    fn a_table_says_who_survived_and_what_the_others_said() {
        let all = Cell {
            arm: Arm::Tunnel,
            ..cell(&[7.2, 6.9, 7.1])
        };
        let programs = [(Program::Go.name(), Some("go1".to_owned()))];
        let page = page(&[cell(&[]), all], &programs);
        let row = "| Go net/http (10 s for TLS) | **0 of 3** |  | 3 of 3, 7.1 s |";
        assert!(page.contains(row), "{page}");
        assert!(page.contains("plain: TLS handshake timeout"), "{page}");
        assert!(!page.contains("TLS 1.3"), "nothing was tried in it: {page}");
    }

    #[test]
    fn the_servers_consent_is_tried_in_tls_13_alone() {
        let ways = ways(&["iridium".to_owned()]).expect("a link of the list");
        let versions: Vec<Version> = ways
            .iter()
            .filter(|way| way.arm == Arm::TunnelConsent)
            .map(|way| way.version)
            .collect();
        assert_eq!(versions, [Version::Tls13]);
        let consenting = Cell {
            version: Version::Tls13,
            arm: Arm::TunnelConsent,
            ..cell(&[6.0, 6.0, 6.0])
        };
        let programs = [(Program::Go.name(), Some("go1".to_owned()))];
        let page = page(&[cell(&[]), consenting], &programs);
        assert_eq!(page.matches("| tunnel-consent |").count(), 1, "{page}");
        assert!(page.contains("| 3 of 3, 6.0 s |"), "{page}");
    }

    #[test]
    fn a_link_that_is_not_among_those_tried_is_refused_by_name() {
        let ways = ways(&["iridum".to_owned()]).map(|ways| ways.len());
        let said = ways.map_err(|error| error.to_string());
        assert!(said.is_err_and(|said| said.contains("iridum") && said.contains("hf-9600")));
    }
}
