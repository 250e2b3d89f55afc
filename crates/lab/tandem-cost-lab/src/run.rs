//! One run: servers are started, arms are measured at all of them in turn, and rows are written.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tandem_measure_io::{Resumption, TlsVersion};
use tandem_report::cost_row::{self, AbsentRow, CostRow};
use tandem_report::{RunInfo, cost_markdown, now};
use tandem_testbed::console::{Console, Progress, human_duration};
use tandem_testbed::{Effort, LabError, interrupt};

use crate::arms::{self, Arm};
use crate::load::Measurement;
use crate::servers::{Keeping, ProcessModel, Program, Running, Wanted};
use crate::site::{SIZES, Site};

/// How long an arm is measured after its warm-up.
const DURATION: [Duration; 2] = [Duration::from_millis(1_000), Duration::from_millis(300)];
/// How long a virtual machine is driven before anything is measured: it compiles while it runs.
const COMPILE: Duration = Duration::from_secs(3);
/// Processes among which a session may be looked for.
const WORKERS: usize = 4;

/// What to measure.
#[derive(Debug, Clone)]
pub struct CostOptions {
    /// All arms, or a minute's worth.
    pub effort: Effort,
    /// Only these servers, by name; all if it is empty.
    pub servers: Vec<String>,
    /// Where results go; made where it is missing.
    pub out: PathBuf,
}

/// Measures, and writes `cost.jsonl`, `cost.md` and `cost.run.json`; where the page is.
///
/// # Errors
/// `Usage` for a server of no such name; `ProgramMissing`, `Command` where certificates cannot be
/// made; `Io`, `Interrupted`. A server that does not start is a row.
pub fn cost(options: &CostOptions) -> Result<PathBuf, LabError> {
    interrupt::watch()?;
    let chosen = chosen(&options.servers)?;
    let begun = Instant::now();
    let console = Console::default();
    fs::create_dir_all(&options.out)
        .map_err(LabError::io(format!("make {}", options.out.display())))?;
    let folder = tempfile::tempdir().map_err(LabError::io("make a folder"))?;
    let mut run = Run {
        site: Site::make(folder.path())?,
        effort: options.effort,
        info: RunInfo::here(),
        rows: Vec::new(),
        console,
    };
    run.sweep(&chosen)?;
    if options.effort == Effort::Full {
        run.process_models(&chosen)?;
    }
    let page = run.write(&options.out)?;
    run.console.say(&format!(
        "{} rows in {}; the page is {}",
        run.rows.len(),
        human_duration(begun.elapsed()),
        page.display()
    ));
    Ok(page)
}

fn chosen(names: &[String]) -> Result<Vec<Program>, LabError> {
    let wrong = |name: &&String| !Program::ALL.iter().any(|program| program.name() == **name);
    if let Some(name) = names.iter().find(wrong) {
        let all = Program::ALL.map(Program::name).join(", ");
        return Err(LabError::usage(
            name,
            format!("no such server; there are {all}"),
        ));
    }
    let is_chosen =
        |program: &Program| names.is_empty() || names.iter().any(|name| name == program.name());
    Ok(Program::ALL.into_iter().filter(is_chosen).collect())
}

/// What a run has so far.
pub(crate) struct Run {
    pub(crate) site: Site,
    pub(crate) effort: Effort,
    info: RunInfo,
    pub(crate) rows: Vec<CostRow>,
    pub(crate) console: Console,
}

impl Run {
    /// How long an arm is measured.
    pub(crate) fn duration(&self) -> Duration {
        match self.effort {
            Effort::Full => DURATION[0],
            Effort::Quick => DURATION[1],
        }
    }

    /// Every arm at every server, the servers in turn.
    fn sweep(&mut self, chosen: &[Program]) -> Result<(), LabError> {
        let chain = self.site.rsa.clone();
        let wanted = Wanted {
            chain: &chain,
            keeping: Keeping::All,
            workers: 1,
        };
        let mut servers = Vec::new();
        for program in chosen {
            if let Some(server) = self.start(*program, &wanted)? {
                servers.push((*program, server));
            }
        }
        let arms = arms::all(self.effort);
        let mut progress = self
            .console
            .bar("servers", (arms.len() * servers.len()) as u64);
        for (program, server) in &servers {
            if *program == Program::Java {
                let arm = Arm::secure(TlsVersion::V13, 50, SIZES[1]);
                let warm_up = self.measurement(program.name(), server, &wanted, arm);
                Measurement {
                    duration: COMPILE,
                    ..warm_up
                }
                .take()?;
            }
        }
        for arm in arms {
            for (program, server) in &servers {
                interrupt::check()?;
                let can = (arm.tls.is_some() || program.has_plain()) && program.serves(arm.bytes);
                if can {
                    let row = self
                        .measurement(program.name(), server, &wanted, arm)
                        .take()?;
                    step(
                        &mut progress,
                        program.name(),
                        &arm,
                        row.connections_per_second,
                    );
                    self.rows.push(CostRow::Load(row));
                }
            }
        }
        progress.finish();
        Ok(())
    }

    /// Sessions by their identifiers among several processes: the surprise of 1999.
    fn process_models(&mut self, chosen: &[Program]) -> Result<(), LabError> {
        let chain = self.site.rsa.clone();
        let nginx = |keeping| (Program::Nginx, keeping);
        let apache = |model| (Program::Apache(model), Keeping::Shared);
        for (program, keeping) in [
            nginx(Keeping::Shared),
            nginx(Keeping::Own),
            apache(ProcessModel::Prefork),
            apache(ProcessModel::Worker),
            apache(ProcessModel::Event),
        ] {
            if !chosen.contains(&program) || program.missing().is_some() {
                continue;
            }
            let wanted = Wanted {
                chain: &chain,
                keeping,
                workers: WORKERS,
            };
            let Some(server) = self.start(program, &wanted)? else {
                continue;
            };
            let name = match keeping {
                Keeping::Own => format!("{}, a cache in each process", program.name()),
                Keeping::All | Keeping::Shared => format!("{}, a shared cache", program.name()),
            };
            for reuse in [50, 100] {
                interrupt::check()?;
                let arm = Arm {
                    resumption: Resumption::Id,
                    ..Arm::secure(TlsVersion::V12, reuse, SIZES[1])
                };
                let row = self.measurement(&name, &server, &wanted, arm).take()?;
                self.rows.push(CostRow::Load(row));
            }
        }
        Ok(())
    }

    /// A server; where it is missing or does not come up, a row that says so.
    pub(crate) fn start(
        &mut self,
        program: Program,
        wanted: &Wanted<'_>,
    ) -> Result<Option<Running>, LabError> {
        let why = match program.missing() {
            Some(why) => why,
            None => match program.start(&self.site, wanted) {
                Ok(server) => {
                    let known = self
                        .info
                        .programs
                        .iter()
                        .any(|one| one.name == program.name());
                    if let (Some(version), false) = (program.version(), known) {
                        self.info = self.info.clone().with_program(program.name(), version);
                    }
                    return Ok(Some(server));
                }
                Err(error @ LabError::Command { .. }) => error.to_string(),
                Err(error) => return Err(error),
            },
        };
        self.absent(program.name(), &why);
        Ok(None)
    }

    /// Notes what is not measured.
    pub(crate) fn absent(&mut self, what: &str, why: &str) {
        self.console.say(&format!("{what}: not measured, {why}"));
        self.rows.push(CostRow::Absent(AbsentRow {
            server: what.to_owned(),
            why: why.to_owned(),
        }));
    }

    pub(crate) fn measurement<'a>(
        &self,
        name: &'a str,
        server: &'a Running,
        wanted: &Wanted<'a>,
        arm: Arm,
    ) -> Measurement<'a> {
        Measurement {
            name,
            server,
            chain: wanted.chain,
            key: "RSA-2048",
            arm,
            duration: self.duration(),
        }
    }

    fn write(&self, out: &Path) -> Result<PathBuf, LabError> {
        let path = out.join(cost_row::ROWS);
        let failed = || LabError::io(format!("write {}", path.display()));
        let mut file = fs::File::create(&path).map_err(failed())?;
        for row in &self.rows {
            let text = serde_json::to_string(row).map_err(|error| failed()(error.into()))?;
            writeln!(file, "{text}").map_err(failed())?;
        }
        let begun = self.info.date.clone();
        self.info
            .clone()
            .with_times(begun, now())
            .write_beside(&path)?;
        let page = out.join("cost.md");
        fs::write(&page, cost_markdown(&self.rows))
            .map_err(LabError::io(format!("write {}", page.display())))?;
        Ok(page)
    }
}

fn step(progress: &mut Progress, server: &str, arm: &Arm, rate: f64) {
    let version = arm
        .version()
        .map_or_else(|| "HTTP".to_owned(), |tls| format!("TLS {tls}"));
    progress.step(&format!(
        "{server}: {version}, {} % reused, {} bytes: {rate:.0} connections/s",
        arm.reuse, arm.bytes
    ));
}
