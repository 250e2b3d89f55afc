//! Runs an experiment: builds its lanes, interleaves its arms, writes its rows.
//!
//! Units (one link with one pair of endpoints) on slow links run side by side, of all experiments
//! of a run, since they leave the processor idle; those on fast links run alone and last
//! (`schedule`). Within a unit nothing runs at the same time: a round has one trial of each arm, in
//! random order.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::exhibits::Exhibits;
use crate::experiment::{Experiment, Unit, trial_seconds};
use crate::lane::{LaneSpec, Trial};
use crate::schedule::{self, Schedule, Turn};
use crate::setup::Setup;
use crate::stage::Course;
use crate::waterfalls::Gallery;
use tandem_report::arm::Arm;
use tandem_report::row::Row;
use tandem_report::situation::Situation;
use tandem_report::summary;
use tandem_report::{self as report, RunInfo};
use tandem_testbed::LabError;
use tandem_testbed::circumstances;
use tandem_testbed::console::{self, Console, human_duration};
use tandem_testbed::effort::Effort;
use tandem_testbed::endpoints::Endpoints;
use tandem_testbed::installed;
use tandem_testbed::interrupt;
use tandem_testbed::lease::Lease;
use tandem_testbed::openssl::Openssl;
use tandem_testbed::pki::{self, Chain, ChainSpec};

/// A trial is given up when it takes this many times what arithmetic says, and [`TRIAL_MARGIN`]
/// more: room for a connection that loses everything several times.
const TRIAL_FACTOR: f64 = 4.0;

/// See [`TRIAL_FACTOR`]; longer than the five retransmissions that Linux makes of a SYN in half a
/// minute.
const TRIAL_MARGIN: f64 = 40.0;

/// Whether to write what crosses the links to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Captures {
    /// No.
    #[default]
    Off,
    /// A pcapng file for each lane.
    On,
}

/// What to run and how.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The experiment's file.
    pub file: PathBuf,
    /// All of it, or a minute's worth.
    pub effort: Effort,
    /// Where results go; made where it is missing. Default: `out/lab/NAME`.
    pub out: Option<PathBuf>,
    /// The `tandem` binary for the daemons.
    pub exe: PathBuf,
    /// Only these links; empty: all.
    pub links: Vec<String>,
    /// Only these endpoints; empty: all.
    pub endpoints: Vec<String>,
    /// Only these arms; empty: all.
    pub arms: Vec<String>,
    /// Only these situations; empty: all.
    pub situations: Vec<String>,
    /// Trials instead of the file's.
    pub trials: Option<u32>,
    /// Whether to keep captures.
    pub captures: Captures,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSummary {
    /// The rows, JSON lines.
    pub rows: PathBuf,
    /// The table, Markdown.
    pub table: PathBuf,
    /// Trials that were made.
    pub trials: usize,
}

/// Runs an experiment and writes NAME.jsonl (rows), NAME.md (table), NAME.run.json (circumstances),
/// `waterfall-*.json` (a trial of each arm on the first link, packet by packet) and
/// `certificates-*.json` (the server's message in two forms).
///
/// # Errors
/// `Usage` for a file or a name that does not fit; `NotRoot`, `Kernel`, `ProgramMissing` where the
/// lab cannot be built; `BytesDiffer` where an endpoint received other bytes than were sent,
/// `TrialsFailed` where a client failed (all is written nevertheless); `Interrupted`.
pub fn run_experiment(options: &RunOptions) -> Result<RunSummary, LabError> {
    let mut summaries = run_experiments(std::slice::from_ref(options))?;
    summaries
        .pop()
        .ok_or_else(|| LabError::usage("experiments", "there is none to run"))
}

/// Runs several at a time: the slow links of all side by side, then the fast ones one by one. Each
/// is written when all are done.
///
/// # Errors
/// As [`run_experiment`], the first of any.
pub fn run_experiments(all: &[RunOptions]) -> Result<Vec<RunSummary>, LabError> {
    interrupt::watch()?;
    let console = Console::default();
    let prepared = all
        .iter()
        .map(|options| Prepared::of(options, &console))
        .collect::<Result<Vec<_>, _>>()?;
    let halt = Halt::default();
    let runs = prepared
        .iter()
        .map(|prepared| Run::begin(prepared, &console, &halt))
        .collect::<Result<Vec<_>, _>>()?;
    let begun = Instant::now();
    let worked = work_off(&runs);
    let took = human_duration(begun.elapsed());
    let finished: Vec<_> = runs.iter().map(Run::finish).collect();
    worked?;
    let mut summaries = Vec::new();
    let mut verdicts = Ok(());
    for finished in finished {
        let (summary, rows) = finished?;
        console.say(&format!(
            "{} trials in {took}; rows in {}",
            summary.trials,
            summary.rows.display()
        ));
        verdicts = verdicts.and(verdict(&rows, &summary.rows));
        summaries.push(summary);
    }
    verdicts.map(|()| summaries)
}

/// An experiment that is read and cut to what is wanted.
struct Prepared<'a> {
    experiment: Experiment,
    options: &'a RunOptions,
    out: PathBuf,
    info: RunInfo,
}

impl<'a> Prepared<'a> {
    fn of(options: &'a RunOptions, console: &Console) -> Result<Self, LabError> {
        let mut experiment = Experiment::load(&options.file)?;
        experiment.restrict(
            &options.links,
            &options.endpoints,
            &options.arms,
            &options.situations,
        )?;
        for (arm, program) in
            experiment.leave_out_missing(|program| installed::find(program).is_some())
        {
            console.say(&format!(
                "without {}: there is no {program}; scripts/ensure-tools.sh lab brings it",
                arm.name()
            ));
        }
        for endpoints in experiment.leave_out_without_openssl(Openssl::is_installed) {
            console.say(&format!(
                "without {endpoints}: there is no OpenSSL 3.5; scripts/ensure-tools.sh openssl builds it"
            ));
        }
        if experiment.endpoints.is_empty() {
            return Err(LabError::usage(
                options.file.display().to_string(),
                "has no endpoints whose programs are here",
            ));
        }
        experiment.trials = options.trials.unwrap_or(experiment.trials);
        match options.effort {
            Effort::Full => {}
            Effort::Quick => {
                let left_out = experiment.make_quick();
                if !left_out.is_empty() {
                    console.say(&format!("quick: without {}", left_out.join(", ")));
                }
            }
        }
        console.say(&format!(
            "{}: {} links x {} endpoints{} x {} arms x {} trials, about {}",
            experiment.name,
            experiment.links.len(),
            experiment.endpoints.len(),
            match experiment.situations.len() {
                0 => String::new(),
                count => format!(" x {count} situations"),
            },
            experiment.arms.len(),
            experiment.trials,
            human_duration(experiment.estimate()),
        ));
        Ok(Self {
            out: options
                .out
                .clone()
                .unwrap_or_else(|| Path::new("out/lab").join(&experiment.name)),
            info: circumstances::of_links(&experiment.links)?,
            experiment,
            options,
        })
    }
}

/// What ended all runs early.
#[derive(Debug, Default)]
struct Halt(Mutex<Option<LabError>>);

impl Halt {
    fn is_called(&self) -> bool {
        self.lock().is_some()
    }

    /// The first error is the reason, those of the others are its consequences.
    fn call(&self, error: LabError) {
        self.lock().get_or_insert(error);
    }

    fn lock(&self) -> MutexGuard<'_, Option<LabError>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All units of all runs, as many at a time as the schedule says.
fn work_off(runs: &[Run<'_>]) -> Result<(), LabError> {
    let [first, ..] = runs else {
        return Ok(());
    };
    let experiments = || runs.iter().map(|run| run.experiment);
    let most = experiments().map(|experiment| experiment.side_by_side);
    let most = most.min().unwrap_or(1);
    let mut units = Vec::new();
    for run in runs {
        for unit in run.experiment.units()? {
            let need = run.experiment.need(&unit);
            units.push(((run, unit), need));
        }
    }
    let processors = schedule::processors();
    let needs = units.iter().map(|(_, need)| *need).collect();
    let seconds = schedule::seconds(needs, most, processors);
    let about = human_duration(Duration::from_secs_f64(seconds));
    let total = units.len();
    let progress = Mutex::new(first.console.bar("all", total as u64));
    if runs.len() > 1 {
        first.console.say(&format!(
            "all: {total} units, about {about}; the longest begin, those on fast links end, one by one"
        ));
    }
    let schedule = Mutex::new(Schedule::new(units, most, processors));
    let changed = Condvar::new();
    let work = || {
        let mut state = lock_of(&schedule);
        loop {
            match state.next() {
                Turn::Over => return,
                Turn::Wait => {
                    state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                Turn::Run((run, unit), need) => {
                    drop(state);
                    let outcome = run.unit(&unit);
                    state = lock_of(&schedule);
                    state.done(need);
                    match outcome {
                        Ok(()) => lock_of(&progress).step(&format!("{} done", run.title(&unit))),
                        Err(error) => {
                            run.halt.call(error);
                            state.stop();
                        }
                    }
                    changed.notify_all();
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..most.min(total) {
            scope.spawn(work);
        }
    });
    lock_of(&progress).clear();
    first.halt.lock().take().map_or(Ok(()), Err)
}

fn lock_of<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An error where a byte differed or a trial failed.
pub(crate) fn verdict(rows: &[Row], file: &Path) -> Result<(), LabError> {
    // A connection that never was has nothing to compare; it counts as failed.
    let is_known = |row: &Row| {
        row.situation
            .is_some_and(|situation| situation.may_fail(row.arm))
    };
    let differing = rows
        .iter()
        .filter(|row| !is_known(row))
        .filter(|row| !row.identical && row.link_packets_down > 0)
        .count();
    if differing > 0 {
        return Err(LabError::BytesDiffer {
            differing,
            trials: rows.len(),
            rows: file.to_owned(),
        });
    }
    let mut failed = rows.iter().filter(|row| !row.ok && !is_known(row));
    if let Some(first) = failed.next() {
        let what = format!("{} {} {}", first.link, first.endpoints, first.arm.name());
        return Err(LabError::TrialsFailed {
            failed: failed.count() + 1,
            trials: rows.len(),
            why: format!("{what}: {}", first.error.as_deref().unwrap_or("unknown")),
        });
    }
    Ok(())
}

/// How long a trial may take.
pub(crate) fn trial_limit(unit: &Unit) -> Duration {
    let expected = trial_seconds(&unit.config, &unit.endpoints, Arm::Plain);
    Duration::from_secs_f64(expected * TRIAL_FACTOR + TRIAL_MARGIN)
}

/// A run under way.
struct Run<'a> {
    experiment: &'a Experiment,
    options: &'a RunOptions,
    console: &'a Console,
    halt: &'a Halt,
    out: &'a Path,
    info: &'a RunInfo,
    chains: Vec<(ChainSpec, Chain)>,
    clients: Vec<(ChainSpec, Chain)>,
    /// As many as any endpoints have, each a client's own.
    crowd: Vec<Chain>,
    results: Mutex<Results>,
    /// Holds the certificates' directory.
    _lease: Lease,
}

struct Results {
    file: BufWriter<File>,
    /// When the first trial began, and when the last one was over.
    times: Option<[String; 2]>,
    rows: Vec<Row>,
    /// Arms of other programs that did not work, and why.
    left_out: Vec<String>,
}

impl<'a> Run<'a> {
    fn begin(
        prepared: &'a Prepared<'_>,
        console: &'a Console,
        halt: &'a Halt,
    ) -> Result<Self, LabError> {
        let Prepared {
            experiment,
            options,
            out,
            info,
        } = prepared;
        let lease = Lease::any()?;
        fs::create_dir_all(out).map_err(LabError::io(format!("make {}", out.display())))?;
        let rows = file(out, &experiment.name, "jsonl");
        let file =
            File::create(&rows).map_err(LabError::io(format!("write {}", rows.display())))?;
        let mut chains: Vec<(ChainSpec, Chain)> = Vec::new();
        let mut clients: Vec<(ChainSpec, Chain)> = Vec::new();
        for endpoints in &experiment.endpoints {
            let spec = endpoints.chain_spec();
            if !chains.iter().any(|(known, _)| *known == spec) {
                let name = format!("chain{}", chains.len());
                chains.push((spec, pki::issue(&lease.directory(), &name, &spec)?));
            }
            if let Some(spec) = endpoints.client_chain_spec()
                && !clients.iter().any(|(known, _)| *known == spec)
            {
                let name = format!("client{}", clients.len());
                clients.push((spec, pki::issue_client(&lease.directory(), &name, &spec)?));
            }
        }
        let endpoints = &experiment.endpoints;
        let many = endpoints.iter().max_by_key(|endpoints| endpoints.clients);
        let crowd = match many.and_then(|many| Some((many.clients, many.client_chain_spec()?))) {
            Some((count, spec)) => pki::issue_crowd(issued(&clients, &spec)?, count)?,
            None => Vec::new(),
        };
        Ok(Self {
            experiment,
            options,
            console,
            halt,
            out,
            info,
            chains,
            clients,
            crowd,
            results: Mutex::new(Results {
                file: BufWriter::new(file),
                times: None,
                rows: Vec::new(),
                left_out: Vec::new(),
            }),
            _lease: lease,
        })
    }

    /// What progress calls a unit.
    fn title(&self, unit: &Unit) -> String {
        let Experiment { name, .. } = self.experiment;
        format!("{name} {} {}", unit.link.name, scene(unit, " "))
    }

    fn unit(&self, unit: &Unit) -> Result<(), LabError> {
        let name = self.title(unit);
        let arms = self.experiment.arms_of(&unit.endpoints);
        let rounds = self.experiment.rounds(unit);
        let total = arms
            .iter()
            .map(|arm| self.experiment.trials_of(unit, *arm))
            .sum();
        let mut progress = self.console.bar(&name, total);
        progress.doing("setting up");
        let mut lanes = Vec::new();
        for arm in &arms {
            match self.lane(unit, *arm) {
                Ok(lane) => lanes.push(lane),
                Err(error) => self.leave_out(unit, *arm, error)?,
            }
        }
        progress.doing("warming up");
        let warmed = std::thread::scope(|scope| {
            let warming: Vec<_> = lanes
                .into_iter()
                .map(|mut lane| scope.spawn(|| (lane.warm_up(), lane)))
                .collect();
            warming
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
                .collect::<Vec<_>>()
        });
        let mut lanes: Vec<Course> = Vec::new();
        for (result, lane) in warmed {
            match result {
                Ok(()) => lanes.push(lane),
                Err(error) => self.leave_out(unit, lane.arm(), error)?,
            }
        }
        let mut gallery = Gallery::new(&unit.config);
        let mut exhibits = Exhibits::default();
        for round in 1..=rounds {
            for arm in self.experiment.order(unit, round) {
                interrupt::check()?;
                if self.halt.is_called() {
                    return Ok(());
                }
                let Some(lane) = lanes.iter_mut().find(|lane| lane.arm() == arm) else {
                    continue;
                };
                progress.doing(&format!("{} ...", arm.name()));
                let begun = tandem_report::now();
                let Some(trial) = lane.trial()? else {
                    continue;
                };
                progress.step(&in_words(&trial.row));
                gallery.add(&trial);
                exhibits.add(&trial);
                self.keep(trial, begun)?;
            }
        }
        progress.finish();
        if self.is_drawn(unit) {
            gallery
                .waterfall(
                    &self.experiment.name,
                    &unit.link.name,
                    &scene(unit, ", "),
                    &arms,
                )
                .write(self.out)?;
            let (experiment, link) = (&self.experiment.name, &unit.link.name);
            if let Some(exhibit) = exhibits.exhibit(experiment, link, &unit.endpoints.name) {
                exhibit.write(self.out)?;
            }
        }
        lanes.into_iter().try_for_each(Course::finish)
    }

    /// Goes on without an arm of another program that does not work over this link, and says so;
    /// where it is one of ours, its error is the run's.
    fn leave_out(&self, unit: &Unit, arm: Arm, error: LabError) -> Result<(), LabError> {
        if !Setup::of(arm).is_of_others() {
            return Err(error);
        }
        let why = match error {
            LabError::Command { why, .. } => why,
            other => return Err(other),
        };
        let (link, scene) = (&unit.link.name, scene(unit, ", "));
        let left_out = format!("{link}, {scene}, {}: {why}", arm.name());
        self.console.say(&format!("left out: {left_out}"));
        self.lock().left_out.push(left_out);
        Ok(())
    }

    fn lane(&self, unit: &Unit, arm: Arm) -> Result<Course, LabError> {
        let capture = match self.options.captures {
            Captures::Off => None,
            Captures::On => Some(self.out.join(format!(
                "{}-{}-{}-{}.pcapng",
                self.experiment.name,
                unit.link.name,
                scene(unit, "-"),
                arm.name()
            ))),
        };
        let endpoints = Setup::of(arm).endpoints(&unit.endpoints);
        let spec = LaneSpec {
            experiment: &self.experiment.name,
            link_name: &unit.link.name,
            link: unit.config.clone(),
            arm,
            endpoints: &endpoints,
            chain: issued(&self.chains, &unit.endpoints.chain_spec())?,
            client: unit
                .endpoints
                .client_chain_spec()
                .map(|spec| issued(&self.clients, &spec))
                .transpose()?,
            exe: &self.options.exe,
            seed: unit.seed,
            capture,
        };
        let crowd = self.crowd.get(..unit.endpoints.clients).unwrap_or_default();
        let sample = usize::try_from(self.experiment.trials).unwrap_or(usize::MAX);
        Course::build(&spec, unit.situation, (crowd, sample), trial_limit(unit))
    }

    /// Whether a waterfall is made of this unit: of the named cases on the first link, where there
    /// are any. Of situations, of the one that the thesis shows packet by packet (figure 4-9).
    fn is_drawn(&self, unit: &Unit) -> bool {
        if !matches!(unit.situation, None | Some(Situation::Case3)) || unit.endpoints.clients > 0 {
            return false;
        }
        let is_case = |endpoints: &Endpoints| Endpoints::case(&endpoints.name).is_ok();
        let any_case = self.experiment.endpoints.iter().any(is_case);
        let chosen = if any_case {
            is_case(&unit.endpoints)
        } else {
            self.experiment.endpoints.first() == Some(&unit.endpoints)
        };
        chosen && self.experiment.links.first() == Some(&unit.link)
    }

    /// Writes a row.
    fn keep(&self, trial: Trial, begun: String) -> Result<(), LabError> {
        let line = json_line(&trial.row)?;
        let mut results = self.lock();
        let [_, last] = results.times.get_or_insert([begun, String::new()]);
        *last = tandem_report::now();
        results.rows.push(trial.row);
        writeln!(results.file, "{line}")
            .and_then(|()| results.file.flush())
            .map_err(LabError::io("write a row"))
    }

    /// Writes the table and what stands beside it. Also after an error: what was measured is worth
    /// having.
    fn finish(&self) -> Result<(RunSummary, Vec<Row>), LabError> {
        let mut results = self.lock();
        let rows = std::mem::take(&mut results.rows);
        let mut info = match results.times.take() {
            Some([first, last]) => self.info.clone().with_times(first, last),
            None => self.info.clone(),
        };
        info.left_out.append(&mut results.left_out);
        info.left_out.sort();
        let rows = write_results(self.out, self.experiment, &info, rows)?;
        if !rows.is_empty() {
            console::result(&table(&rows));
        }
        let name = &self.experiment.name;
        let summary = RunSummary {
            rows: file(self.out, name, "jsonl"),
            table: file(self.out, name, "md"),
            trials: rows.len(),
        };
        Ok((summary, rows))
    }

    fn lock(&self) -> MutexGuard<'_, Results> {
        lock_of(&self.results)
    }
}

/// The chain that was made to a specification.
fn issued<'a>(chains: &'a [(ChainSpec, Chain)], wanted: &ChainSpec) -> Result<&'a Chain, LabError> {
    chains
        .iter()
        .find(|(known, _)| known == wanted)
        .map(|(_, chain)| chain)
        .ok_or_else(|| LabError::usage(format!("{wanted:?}"), "was not issued"))
}

/// What a unit is about: its endpoints, and its situation where it has one.
fn scene(unit: &Unit, between: &str) -> String {
    match unit.situation {
        None => unit.endpoints.name.clone(),
        Some(situation) => format!("{}{between}{}", unit.endpoints.name, situation.name()),
    }
}

/// Writes an experiment's rows, in the order of its links and endpoints, its circumstances and its
/// table. The rows come back.
pub(crate) fn write_results(
    out: &Path,
    experiment: &Experiment,
    info: &RunInfo,
    mut rows: Vec<Row>,
) -> Result<Vec<Row>, LabError> {
    rows.sort_by_key(|row| {
        (
            experiment
                .links
                .iter()
                .position(|link| link.name == row.link),
            experiment
                .endpoints
                .iter()
                .position(|pair| pair.name == row.endpoints),
            row.situation,
            row.coming,
            row.arm,
            row.trial,
        )
    });
    let mut lines = String::new();
    for row in &rows {
        lines.push_str(&json_line(row)?);
        lines.push('\n');
    }
    let path = file(out, &experiment.name, "jsonl");
    write(&path, &lines)?;
    info.write_beside(&path)?;
    write(
        &file(out, &experiment.name, "md"),
        &page(experiment, info, &rows),
    )?;
    Ok(rows)
}

fn json_line(row: &Row) -> Result<String, LabError> {
    serde_json::to_string(row).map_err(|error| LabError::Io {
        what: "write a row".to_owned(),
        source: error.into(),
    })
}

/// The experiment's page in Markdown.
fn page(experiment: &Experiment, info: &RunInfo, rows: &[Row]) -> String {
    let mut text = format!(
        "# {}\n\n{}\n\n{}\n\nSeed {}, {} trials of each arm, interleaved in random order. Times are medians ± half the distance between the quartiles; \
         bytes are the link's own count, medians; ratios are to `plain` of the same link and endpoints.\n\n",
        experiment.name,
        experiment.about,
        info.in_words(),
        experiment.seed,
        experiment.trials
    );
    for link in &info.links {
        text += &format!("- {}: {} ({})\n", link.name, link.description, link.source);
    }
    for left_out in &info.left_out {
        text += &format!("- Left out: {left_out}\n");
    }
    text += "\n";
    text += &table(rows);
    let parts = report::parts_markdown(rows);
    if !parts.is_empty() {
        text += &format!("\n## What the bytes of a handshake are\n\n{parts}");
    }
    text
}

/// The rows' table in Markdown.
fn table(rows: &[Row]) -> String {
    if rows.iter().any(|row| row.situation.is_some()) {
        report::situations_markdown(rows)
    } else if rows.iter().any(|row| row.clients.is_some()) {
        report::crowds_markdown(rows)
    } else {
        summary::markdown(rows)
    }
}

/// One trial in a few words.
fn in_words(row: &Row) -> String {
    match (&row.error, row.seconds_first_byte.or(row.seconds_handshake)) {
        (Some(error), _) => format!("{}: FAILED: {error}", row.arm.name()),
        (None, seconds) => format!(
            "{}: {:.3} s, {}",
            row.arm.name(),
            seconds.unwrap_or_default(),
            match row.tls_bytes() {
                Some(bytes) => format!("{bytes} TLS bytes"),
                None => format!("{} IP bytes", row.link_bytes()),
            }
        ),
    }
}

fn file(directory: &Path, name: &str, ending: &str) -> PathBuf {
    directory.join(format!("{name}.{ending}"))
}

fn write(path: &Path, text: &str) -> Result<(), LabError> {
    fs::write(path, text).map_err(LabError::io(format!("write {}", path.display())))
}
