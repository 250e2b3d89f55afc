//! Whole visits and days: real programs do their tasks over emulated links, plain, in packet mode
//! and through the tunnel; bytes, seconds and, by tariffs, money.
//!
//! ```text
//!   plan ---> grounds: certificates, what servers offer
//!              |
//!   lane: one visit, link and arm --> trials with their packets' times --> bill --> cells --> page
//!              |
//!   application: its server, its client, what must have come over
//! ```
//!
//! Is not: a measurement of handshakes. Invariants: bytes are counted by the link; a visit counts
//! only where the program succeeded and what came is what the server has; a day is computed, and
//! every table says so.

mod application;
mod apt;
mod bill;
mod git;
mod grounds;
mod kind;
mod lane;
mod mail;
mod mqtt;
mod plan;
mod web;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tandem_report::arm::Arm;
use tandem_report::draw_visits;
use tandem_report::visits::{VisitCell, VisitCost, VisitedLink, markdown};
use tandem_testbed::LabError;
use tandem_testbed::console::{Console, human_duration};
use tandem_testbed::installed;
use tandem_testbed::interrupt;
use tandem_testbed::lease::Lease;
use tandem_testbed::links::{self, is_slow};
use tandem_testbed::matrix::{self, Installed};
use tandem_tunnel::Tariff;

use grounds::Grounds;
use kind::Kind;
use lane::{LaneSpec, Measured};
use plan::{Plan, Visit, first_of};

/// Lanes that run at a time where they wait for a slow link, or a clock, nearly all the time.
const SIDE_BY_SIDE: usize = 12;

/// How to read the tables.
const HEAD: &str = "\
# Whole visits, and days of them

Real programs with their stock settings do a task from its start to its end, each with new connections. *First visit*:
the proxies have just been started and know nothing, and the tunnel's set-up counts. Other visits follow a first one,
and their figures are medians; a client keeps nothing between two visits. Names are not looked up over the link. *Good*:
the program succeeded, and what came is what the server has; where no visit was good, the figures are those of the
failed ones, which cost money, too. One that takes longer than 300 s is broken off and has failed. Bytes are IP bytes
that the link counted; seconds run from the program's start to its end.

**A day is computed**: the number of visits a day that the experiment states, at equal distances, each with the packets,
at their times, of a measured one that is not a first. What is between two visits is not in it: each table says what
that was.
";

/// How to read the money.
const MONEY: &str = "\
Money is what the tariff says of these packets; bytes that a month includes are not taken off. A dash for a day: a visit
takes longer than the time until the next one, or is a first one.
";

/// What to visit.
#[derive(Debug, Clone)]
pub struct VisitsOptions {
    /// The experiment; `None`: `experiments/visits.toml` as it was built in.
    pub file: Option<PathBuf>,
    /// Tariffs, as the daemons' `--tariff` takes them.
    pub tariffs: Vec<PathBuf>,
    /// Links to try; empty: all of the file.
    pub links: Vec<String>,
    /// Visits to try, by their names; empty: all of the file.
    pub visits: Vec<String>,
    /// Trials of each; `None`: as in the file.
    pub trials: Option<u32>,
    /// Where results go; made where it is missing.
    pub out: PathBuf,
    /// The `tandem` binary for the daemons.
    pub exe: PathBuf,
}

/// A tariff with its name.
#[derive(Debug, Clone)]
struct Priced {
    name: String,
    tariff: Tariff,
}

/// Makes all visits and writes `visits.md`, `visits.jsonl`, `visits.run.json` and a drawing for
/// each link; the path of the first.
///
/// # Errors
/// `NotRoot`, `Kernel`, `ProgramMissing`, `Usage` where the lab cannot be built or the experiment
/// or a tariff is none; `Interrupted`, `Io`. A program that fails is a result.
pub fn visits(options: &VisitsOptions) -> Result<PathBuf, LabError> {
    interrupt::watch()?;
    let console = Console::default();
    let begun = Instant::now();
    let plan = Plan::load(options)?;
    let tariffs = tariffs(&options.tariffs)?;
    let lease = Lease::any()?;
    fs::create_dir_all(&options.out)
        .map_err(LabError::io(format!("make {}", options.out.display())))?;
    let (visits, left_out) = installed_of(&plan.visits);
    for (visit, program) in &left_out {
        console.say(&format!("{visit} is left out: {program} is not installed"));
    }
    let grounds = grounds(&lease.directory(), &visits)?;
    let mut lanes = Vec::new();
    for link in &plan.links {
        for visit in &visits {
            lanes.extend(plan.arms.iter().map(|arm| LaneSpec {
                visit,
                link: &link.spec.name,
                config: &link.config,
                arm: *arm,
                trials: plan.trials(visit),
                seed: plan.seed,
                grounds: &grounds,
                exe: &options.exe,
            }));
        }
    }
    let run = |lanes: &[LaneSpec<'_>], side_by_side| {
        matrix::work_off(side_by_side, lanes, |lane| {
            let measured = lane.run(&console)?;
            Ok(cells(lane, &measured, &tariffs))
        })
    };
    // Those that wait for a clock leave the processors to others, too.
    let waits = |lane: &LaneSpec<'_>| is_slow(lane.config) || lane.visit.apart_seconds > 0;
    let (waiting, busy): (Vec<_>, Vec<_>) = lanes.into_iter().partition(waits);
    let mut cells = run(&waiting, SIDE_BY_SIDE)?;
    cells.extend(run(&busy, 1)?);
    sort(&mut cells, &plan);
    let written = write(options, &plan, &cells, &visits, &left_out)?;
    console.say(&format!(
        "{} visits in {}; the table is {}",
        cells.iter().map(|cell| cell.trials.len()).sum::<usize>(),
        human_duration(begun.elapsed()),
        written.display()
    ));
    Ok(written)
}

/// In the order of the links and visits of the plan; arms stay in theirs.
fn sort(cells: &mut [VisitCell], plan: &Plan) {
    cells.sort_by_key(|cell| {
        let links = || plan.links.iter().map(|link| &link.spec.name);
        let visits = || plan.visits.iter().map(|visit| &visit.name);
        (
            links().position(|name| *name == cell.link),
            visits().position(|name| *name == cell.visit),
        )
    });
}

fn tariffs(files: &[PathBuf]) -> Result<Vec<Priced>, LabError> {
    files
        .iter()
        .map(|file| {
            let read = LabError::io(format!("read the tariff {}", file.display()));
            let text = fs::read_to_string(file).map_err(read)?;
            let tariff = Tariff::parse(&text)
                .map_err(|error| LabError::usage(file.display().to_string(), error.to_string()))?;
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            Ok(Priced {
                name: name.into_owned(),
                tariff,
            })
        })
        .collect()
}

/// Visits whose programs are all there; and the others, each with a program that is missing.
fn installed_of(visits: &[Visit]) -> (Vec<Visit>, Vec<(String, &'static str)>) {
    let (mut there, mut left_out) = (Vec::new(), Vec::new());
    for visit in visits {
        let needs = visit.kind.application().needs();
        match needs.iter().find(|need| installed::find(need).is_none()) {
            None => there.push(visit.clone()),
            Some(missing) => left_out.push((visit.name.clone(), *missing)),
        }
    }
    (there, left_out)
}

/// What the servers of these visits offer, and their certificates.
fn grounds(folder: &Path, visits: &[Visit]) -> Result<Grounds, LabError> {
    let mut kinds: Vec<Kind> = Vec::new();
    for visit in visits {
        if !kinds.contains(&visit.kind) {
            kinds.push(visit.kind);
        }
    }
    let applications = || kinds.iter().map(|kind| kind.application());
    let names: Vec<&'static str> = applications()
        .flat_map(|own| own.names())
        .copied()
        .collect();
    let grounds = Grounds::prepare(folder, &names)?;
    for application in applications() {
        application.make(&grounds)?;
    }
    Ok(grounds)
}

/// A lane's cells: first visits, where there are some, and those that follow.
fn cells(lane: &LaneSpec<'_>, measured: &[Measured], tariffs: &[Priced]) -> Vec<VisitCell> {
    let arms = [first_of(lane.arm), Some(lane.arm)];
    let cell = |arm: Arm| {
        let own: Vec<&Measured> = measured.iter().filter(|visit| visit.arm == arm).collect();
        let costs = tariffs.iter().map(|priced| cost(priced, &own, lane.visit));
        VisitCell {
            link: lane.link.to_owned(),
            visit: lane.visit.name.clone(),
            version: lane.visit.version.name().to_owned(),
            arm,
            a_day: lane.visit.a_day.get(),
            costs: costs.collect(),
            trials: own.iter().map(|visit| visit.trial.clone()).collect(),
        }
    };
    arms.into_iter().flatten().map(cell).collect()
}

fn cost(priced: &Priced, visits: &[&Measured], visit: &Visit) -> VisitCost {
    let mut counted: Vec<&Measured> = visits
        .iter()
        .copied()
        .filter(|visit| visit.is_good())
        .collect();
    if counted.is_empty() {
        counted.extend(visits);
    }
    let mut alone: Vec<u64> = counted
        .iter()
        .map(|visit| bill::visit(&priced.tariff, &visit.passages).micros())
        .collect();
    alone.sort_unstable();
    let of_a_day: Vec<&[bill::Passage]> = counted
        .iter()
        .filter(|visit| first_of(visit.arm).is_some() || visit.arm == Arm::Plain)
        .map(|visit| visit.passages.as_slice())
        .collect();
    VisitCost {
        tariff: priced.name.clone(),
        currency: priced.tariff.currency.clone(),
        visit_micros: alone.get(alone.len() / 2).copied().unwrap_or(0),
        day_micros: bill::day(&priced.tariff, &of_a_day, visit.a_day).map(|money| money.micros()),
    }
}

fn write(
    options: &VisitsOptions,
    plan: &Plan,
    cells: &[VisitCell],
    visits: &[Visit],
    left_out: &[(String, &'static str)],
) -> Result<PathBuf, LabError> {
    let links: Vec<VisitedLink> = plan
        .links
        .iter()
        .map(|link| VisitedLink {
            name: link.spec.name.clone(),
            description: links::describe(&link.config),
        })
        .collect();
    let mut text = head(visits, plan, &options.tariffs);
    for (visit, program) in left_out {
        text.push_str(&format!(
            "\n{visit} is left out: {program} was not installed.\n"
        ));
    }
    let plots = options.out.join("plots");
    fs::create_dir_all(&plots).map_err(LabError::io(format!("make {}", plots.display())))?;
    for link in &links {
        text.push_str(&markdown(cells, link));
        if let Some(svg) = draw_visits(cells, link) {
            let name = format!("visits-{}.svg", link.name);
            text.push_str(&format!("\n![visits over {}](plots/{name})\n", link.name));
            fs::write(plots.join(&name), svg).map_err(LabError::io(format!("write {name}")))?;
        }
    }
    let mut programs: Vec<Installed> = Vec::new();
    for (program, question) in visits
        .iter()
        .flat_map(|visit| visit.kind.application().programs())
    {
        if programs.iter().all(|(known, _)| *known != program) {
            programs.push((program, question.ask()));
        }
    }
    Ok(matrix::write(&options.out, "visits", cells, &text, &programs)?.page)
}

/// What stands above the tables.
fn head(visits: &[Visit], plan: &Plan, tariffs: &[PathBuf]) -> String {
    let mut text = HEAD.to_owned();
    if !tariffs.is_empty() {
        text.push_str(MONEY);
    }
    text.push('\n');
    for visit in visits {
        text.push_str(&format!(
            "- *{}*, TLS {}, {} a day, measured: {}{}:\n  {}\n",
            visit.name,
            visit.version.name(),
            visit.a_day,
            plan.trials(visit),
            apart(visit),
            visit.kind.application().about()
        ));
    }
    text
}

/// How far apart visits were measured, in words.
fn apart(visit: &Visit) -> String {
    match visit.apart_seconds {
        0 => String::new(),
        seconds => format!(", {seconds} s apart"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_tariffs_are_tariffs() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../experiments/tariffs");
        let files = ["by-byte", "by-minute", "long-sessions"];
        let files = files.map(|name| folder.join(format!("{name}.toml")));
        let names = tariffs(&files).map(|tariffs| tariffs.len());
        assert_eq!(names.map_err(|error| error.to_string()), Ok(3));
    }
}
