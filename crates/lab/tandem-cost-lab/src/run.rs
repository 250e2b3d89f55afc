//! One run: servers are started, arms are measured at all of them in turn, and rows are written.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tandem_measure_io::{Resumption, TlsVersion};
use tandem_report::cost_row::{self, CostRow};
use tandem_report::{RunInfo, cost_markdown, now};
use tandem_testbed::console::{Console, Progress, human_duration};
use tandem_testbed::{Effort, LabError, interrupt, programs};

use crate::arms::{self, Arm};
use crate::bars;
use crate::keys;
use crate::load::Measurement;
use crate::servers::{Keeping, ProcessModel, Program, Wanted};
use crate::site::{SIZES, Site};
use crate::stage::Stage;
use crate::timed::Board;

/// How long a virtual machine is driven before anything is measured: it compiles while it runs.
const COMPILE: Duration = Duration::from_secs(3);
/// Processes among which a session may be looked for.
const WORKERS: usize = 4;

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Each server: plain HTTP, and TLS as reuse grows.
    Servers,
    /// Session identifiers among several processes.
    Processes,
    /// Where the time goes inside servers.
    Phases,
    /// Kinds of the server's key.
    Keys,
    /// The figures that the generator has to reach.
    Bars,
}

impl Part {
    /// What is measured where nothing is chosen.
    fn usual(effort: Effort) -> Vec<Self> {
        match effort {
            Effort::Quick => vec![Self::Servers, Self::Phases],
            Effort::Full => vec![
                Self::Servers,
                Self::Processes,
                Self::Phases,
                Self::Keys,
                Self::Bars,
            ],
        }
    }
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct CostOptions {
    /// All arms, or a minute's worth.
    pub effort: Effort,
    /// Only these servers, by name; all if it is empty.
    pub servers: Vec<String>,
    /// Only these parts; the usual ones if it is empty.
    pub parts: Vec<Part>,
    /// How often each arm of the servers is measured; tables have the median.
    pub rounds: u32,
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
    let mut run = Stage {
        site: Site::make(folder.path())?,
        effort: options.effort,
        info: RunInfo::here(),
        rows: Vec::new(),
        console,
    };
    let parts = match options.parts.as_slice() {
        [] => Part::usual(options.effort),
        some => some.to_vec(),
    };
    for part in parts {
        match part {
            Part::Servers => run.sweep(&chosen, options.rounds)?,
            Part::Processes => run.process_models(&chosen)?,
            Part::Phases => run.phases(&chosen)?,
            Part::Keys => keys::measure_all(&mut run, &chosen)?,
            Part::Bars if chosen.contains(&Program::Nginx) => bars::measure_all(&mut run)?,
            Part::Bars => run.absent("the generator beside other tools", "nginx is not chosen"),
        }
    }
    let shares = bars::shares(&run.rows);
    run.rows.extend(shares.map(CostRow::Bar));
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

impl Stage {
    /// Every arm at every server, the servers in turn.
    fn sweep(&mut self, chosen: &[Program], rounds: u32) -> Result<(), LabError> {
        let chain = self.site.rsa.clone();
        let wanted = Wanted {
            chain: &chain,
            keeping: Keeping::All,
            workers: 1,
            timed: None,
        };
        let mut servers = Vec::new();
        for program in chosen {
            if let Some(server) = self.start(*program, &wanted)? {
                servers.push((*program, server));
            }
        }
        let once = arms::all(self.effort);
        // All arms once, then all again: none has the machine's better minutes to itself.
        let arms: Vec<Arm> = (0..rounds).flat_map(|_| once.iter().copied()).collect();
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
                        .take()?
                        .row;
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
                timed: None,
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
                let row = self.measurement(&name, &server, &wanted, arm).take()?.row;
                self.rows.push(CostRow::Load(row));
            }
        }
        Ok(())
    }

    /// Where the time goes inside servers that use OpenSSL. Of Apache's process models one: they
    /// share the code that does TLS.
    fn phases(&mut self, chosen: &[Program]) -> Result<(), LabError> {
        let Ok(library) = programs::cost_tap() else {
            self.absent("phases", "libtandem_cost_tap.so is not built");
            return Ok(());
        };
        let (rsa, ecdsa) = (self.site.rsa.clone(), self.site.ecdsa.clone());
        let secure = |reuse, bytes| Arm::secure(TlsVersion::V13, reuse, bytes);
        let [_, page, large] = SIZES;
        let all = [
            secure(0, page),
            secure(100, page),
            secure(0, large),
            secure(100, large),
            Arm::secure(TlsVersion::V12, 0, page),
        ];
        let (all, with_ecdsa) = match self.effort {
            Effort::Full => (&all[..], &all[..1]),
            Effort::Quick => (&all[..1], &all[..0]),
        };
        for program in chosen {
            let is_one = program.has_openssl()
                && !matches!(
                    program,
                    Program::Apache(ProcessModel::Prefork | ProcessModel::Worker)
                );
            for (chain, arms) in [(&rsa, all), (&ecdsa, with_ecdsa)] {
                if !is_one || arms.is_empty() || program.missing().is_some() {
                    continue;
                }
                let file = self.site.folder.join(format!("{}.board", program.name()));
                let wanted = Wanted {
                    chain,
                    keeping: Keeping::All,
                    workers: 1,
                    timed: Some((&library, &file)),
                };
                let Some(server) = self.start(*program, &wanted)? else {
                    continue;
                };
                for arm in arms.iter().filter(|arm| program.serves(arm.bytes)) {
                    interrupt::check()?;
                    let before = Board::read(&file)?;
                    let taken = self
                        .measurement(program.name(), &server, &wanted, *arm)
                        .take()?;
                    let row = &taken.row;
                    let after = Board::read(&file)?;
                    let row =
                        after.since(&before, row.arm.clone(), row.connections, taken.server_us);
                    self.rows.push(CostRow::Phases(row));
                }
            }
        }
        Ok(())
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
