//! `tandem lab split`: the evaluation of SSL splitting, chapter 5 of Lesniewski-Laas's thesis,
//! redone.
//!
//! ```text
//!   plan -- how much --+
//!   trace -- requests -+--> parts -- who asks what, in which order --> rows --> splitting.jsonl
//!   tree -- files -----+      |
//!                           site: hosts, link, nginx, origin, volunteers, clients
//! ```
//!
//! Is not: a proof of what splitting promises; the tests of `tandem-split-io` are.
//!
//! Invariants: every body is compared with the server's file; deliveries that are compared run
//! interleaved in one run; bytes are the link's.

mod parts;
pub(crate) mod plan;
mod row;
mod site;
mod trace;
mod tree;

use std::fs;
use std::path::PathBuf;

use rand_pcg::Pcg64Mcg;
use tandem_netsim::link::LinkConfig;

use parts::Stand;
use plan::Plan;
use site::Site;
use tandem_report as report;
use tandem_report::split_row::{Part, ROWS, SplitRow};
use tandem_testbed::LabError;
use tandem_testbed::circumstances;
use tandem_testbed::console::{self, Console, Progress};
use tandem_testbed::effort::Effort;
use tandem_testbed::interrupt;
use tandem_testbed::links::LinkSpec;
use tandem_testbed::rows::Rows;
use trace::{LOGS, Trace};

/// What to evaluate and how.
#[derive(Debug, Clone)]
pub struct SplitOptions {
    /// All of it, or some minutes' worth.
    pub effort: Effort,
    /// Where results go; made where it is missing.
    pub out: PathBuf,
    /// Only these parts (`sizes`, `trace`, `latency`, `scaling`, `origin`, `volunteer`); empty:
    /// all.
    pub parts: Vec<String>,
    /// The `tandem` binary for origin and volunteers.
    pub exe: PathBuf,
    /// Where access logs are. Default: `logs` in `$TANDEM_DATA`, or in `../shared/data`.
    pub logs: Option<PathBuf>,
    /// Of the files' content, the order of deliveries and the link.
    pub seed: u64,
}

/// Evaluates, and writes `splitting.jsonl` (rows), `splitting.md` (tables) and `splitting.run.json`
/// (circumstances).
///
/// # Errors
/// `NotRoot`, `Kernel`, `ProgramMissing`, `Command` where the lab cannot be built; `BytesDiffer`,
/// `TrialsFailed` (all is written nevertheless); `Usage` for a log that does not read or a part
/// that is none; `Interrupted`, `Io`.
pub fn split(options: &SplitOptions) -> Result<PathBuf, LabError> {
    interrupt::watch()?;
    let console = Console::default();
    let parts = row::parts(&options.parts)?;
    let plan = Plan::of(options.effort);
    let traces = traces(options, &plan, &console)?;
    fs::create_dir_all(&options.out)
        .map_err(LabError::io(format!("make {}", options.out.display())))?;
    let path = options.out.join(ROWS);
    let begun = report::now();
    let mut rows = Rows::create(&path)?;
    let mut evaluation = Evaluation {
        options,
        parts: &parts,
        plan: &plan,
        console: &console,
        rows: &mut rows,
    };
    evaluation.run(&traces)?;
    let mut links = vec![plan::fast(), plan::adsl()];
    for link in &plan.scaling_links {
        if !links.contains(link) {
            links.push(link.clone());
        }
    }
    let info = circumstances::of_links(&links)?.with_times(begun, report::now());
    info.write_beside(&path)?;
    let tables = report::splitting_markdown(rows.all());
    let page = format!("# SSL splitting\n\n{}\n\n{tables}", info.in_words());
    fs::write(path.with_extension("md"), page).map_err(LabError::io("write splitting.md"))?;
    console::result(&tables);
    row::verdict(&rows).map(|()| path)
}

/// The stretches of the logs that are there, each with its name.
fn traces(
    options: &SplitOptions,
    plan: &Plan,
    console: &Console,
) -> Result<Vec<(&'static str, Trace)>, LabError> {
    let directory = trace::directory(options.logs.as_deref());
    let mut traces = Vec::new();
    for log in LOGS {
        match log.stretch(&directory, plan.trace_bytes)? {
            Some(trace) => {
                console.say(&format!(
                    "{}: {} requests, {} objects, redundancy {:.2}",
                    log.name,
                    trace.requests.len(),
                    trace.objects.len(),
                    trace.redundancy()
                ));
                traces.push((log.name, trace));
            }
            None => console.say(&format!(
                "{}: left out, there is no such log in {} (--logs says where they are)",
                log.name,
                directory.display()
            )),
        }
    }
    Ok(traces)
}

struct Evaluation<'a> {
    options: &'a SplitOptions,
    parts: &'a [Part],
    plan: &'a Plan,
    console: &'a Console,
    rows: &'a mut Rows<SplitRow>,
}

impl Evaluation<'_> {
    fn run(&mut self, traces: &[(&'static str, Trace)]) -> Result<(), LabError> {
        let plan = self.plan;
        let fast = plan::fast();
        // No rate: what is fetched before the measurement takes no time.
        let unlimited = LinkConfig::new(None, None, std::time::Duration::ZERO);
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        for part in self.parts {
            match part {
                Part::Origin => {
                    let steps = count(plan.processor_sizes.len());
                    self.stand("processor, origin", &fast, steps, |stand| stand.origin())?;
                }
                Part::Volunteer => {
                    let steps = u64::from(plan.throughput_trials);
                    self.stand("processor, volunteer", &fast, steps, |stand| {
                        stand.volunteer(&unlimited)
                    })?;
                }
                Part::Sizes => {
                    let steps = u64::from(plan.size_trials);
                    self.stand("sizes", &fast, steps, |stand| stand.sizes())?;
                }
                Part::Trace => {
                    for (name, trace) in traces {
                        let steps = count(trace.requests.len().div_ceil(plan.block));
                        self.stand(&format!("trace {name}"), &fast, steps, |stand| {
                            stand.replay(name, trace)
                        })?;
                    }
                }
                Part::Latency => {
                    if let Some((name, trace)) = traces.first() {
                        let steps = count(plan.latency_files);
                        self.stand("latency", &plan::adsl(), steps, |stand| {
                            stand.latency(name, trace)
                        })?;
                    }
                }
                Part::Scaling => {
                    for link in &plan.scaling_links {
                        let steps = count(plan.volunteers.len()) * u64::from(plan.scaling_trials);
                        self.stand(&format!("scaling, {}", link.name), link, steps, |stand| {
                            stand.scaling(&unlimited)
                        })?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Builds a site for a part, has it measured, and takes it down.
    fn stand(
        &mut self,
        name: &str,
        link: &LinkSpec,
        steps: u64,
        part: impl FnOnce(&mut Stand<'_>) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        let mut progress: Progress = self.console.bar(name, steps);
        let measured = part(&mut Stand {
            plan: self.plan,
            link,
            site: Site::build(&self.options.exe, link.config()?, self.options.seed)?,
            rows: self.rows,
            progress: &mut progress,
            chance: Pcg64Mcg::new(u128::from(self.options.seed)),
        });
        progress.finish();
        measured
    }
}
