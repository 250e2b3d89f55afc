//! What the load generator has to reach, beside other tools in the same run: handshakes for its
//! processor time, requests over kept connections, memory of a held connection, a server that
//! stands still, and the share of reused sessions by the servers' own counts.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::Signal;
use nix::sys::time::TimeValLike as _;
use tandem_measure::{Load, Percent};
use tandem_measure_io::{TlsVersion, measure};
use tandem_report::cost_row::{BarRow, CostRow};
use tandem_testbed::{LabError, command, installed, interrupt, programs};

use crate::arms::Arm;
use crate::load::failed;
use crate::servers::{Keeping, Program, Running, Wanted};
use crate::site::SIZES;
use crate::stage::Stage;

/// Seconds for each tool.
const SECONDS: u32 = 3;
/// Connections that are kept and asked again.
const KEPT: usize = 10;
/// Connections that are held at a time.
const HELD: u64 = 10_000;
/// How long a tool may take in all.
const LIMIT: Duration = Duration::from_secs(60);
/// Connections a second while the server stands still.
const RATE: f64 = 100.0;
/// How long it does.
const STOPPED: Duration = Duration::from_secs(1);

/// At least so many handshakes for those of `s_time`.
const HANDSHAKES: f64 = 0.95;
/// At least so many requests for those of the best other tool.
const REQUESTS: f64 = 0.9;
/// Kilobytes of a held connection at most.
const MEMORY: f64 = 20.0;
/// Per cent that the share of reused sessions may be off.
const SHARE: f64 = 0.5;
/// Milliseconds that p99.9 shows at least of a second that the server stood still.
const STALL: f64 = 900.0;

/// Measures all of them.
///
/// # Errors
/// `Io`, `Interrupted`; `Command` where the generator itself fails.
pub(crate) fn measure_all(run: &mut Stage) -> Result<(), LabError> {
    let (rsa, ecdsa) = (run.site.rsa.clone(), run.site.ecdsa.clone());
    let wanted = |chain| Wanted {
        chain,
        keeping: Keeping::All,
        workers: 1,
        timed: None,
    };
    run.console.say("the generator beside other tools");
    let Some(server) = run.start(Program::Nginx, &wanted(&rsa))? else {
        return Ok(());
    };
    let generator = match programs::measure() {
        Ok(generator) => generator,
        Err(error) => {
            run.absent("the generator beside other tools", &error.to_string());
            return Ok(());
        }
    };
    let bench = Bench {
        server: &server,
        root: &rsa.root,
        generator: &generator,
    };
    for (version, flag) in [("1.2", "-tls1_2"), ("1.3", "-tls1_3")] {
        note(
            run,
            "handshakes beside s_time",
            bench.handshakes(version, flag),
        )?;
    }
    if ["h2load", "wrk"]
        .iter()
        .any(|tool| installed::find(tool).is_some())
    {
        note(run, "requests beside h2load and wrk", bench.requests())?;
    } else {
        run.absent("requests beside h2load and wrk", "neither is installed");
    }
    drop(server);
    if let Some(server) = run.start(Program::Nginx, &wanted(&ecdsa))? {
        let bench = Bench {
            server: &server,
            root: &ecdsa.root,
            generator: &generator,
        };
        note(run, "memory of held connections", bench.memory())?;
        let row = stall(run, &server, &wanted(&ecdsa));
        note(run, "a server that is stopped", row)?;
    }
    Ok(())
}

/// Adds a figure; one that could not be had is named, and the others go on.
fn note(run: &mut Stage, what: &str, row: Result<BarRow, LabError>) -> Result<(), LabError> {
    interrupt::check()?;
    match row {
        Ok(row) => run.rows.push(CostRow::Bar(row)),
        Err(error @ LabError::Command { .. }) => run.absent(what, &error.to_string()),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// The share of reused sessions by the servers' own counts: that which is farthest off.
pub(crate) fn shares(rows: &[CostRow]) -> Option<BarRow> {
    let off = |[resumed, all]: [u64; 2]| (resumed as f64 * 100.0 / all.max(1) as f64 - 50.0).abs();
    let counted = rows.iter().filter_map(|row| match row {
        CostRow::Load(row) if row.arm.reuse == 50 && row.refused == 0 => {
            Some((off(row.server_resumed?), row))
        }
        CostRow::Load(_)
        | CostRow::Key(_)
        | CostRow::Phases(_)
        | CostRow::Bar(_)
        | CostRow::Absent(_) => None,
    });
    let counted: Vec<_> = counted.collect();
    let (worst, row) = counted.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(BarRow {
        what: "Difference from 50 % reuse, by the server's own count, percentage points".to_owned(),
        measured: *worst,
        beside: None,
        bar: SHARE,
        reached: *worst <= SHARE,
        note: format!("the worst of {} counts: {}", counted.len(), row.arm.server),
    })
}

/// A server, and what is run against it.
struct Bench<'a> {
    server: &'a Running,
    root: &'a Path,
    generator: &'a Path,
}

/// What a program wrote, and the processor time that it took.
struct Ran {
    text: String,
    cpu_seconds: f64,
    /// The largest resident memory that was seen, KiB.
    peak_kib: u64,
}

impl Bench<'_> {
    fn url(&self, size: u64) -> String {
        format!("{}fixed_{size}", self.server.url(true))
    }

    fn generator(&self, words: &str) -> Command {
        let mut command = Command::new(self.generator);
        command
            .arg(self.server.url(true))
            .arg("--ca")
            .arg(self.root);
        command.args(format!("--mix fixed:{} --json {words}", SIZES[0]).split(' '));
        command
    }

    /// Full handshakes with a small file for each second of a tool's own processor time.
    fn handshakes(&self, version: &str, flag: &str) -> Result<BarRow, LabError> {
        let words = format!("--tls {version} --connections 8 --duration {SECONDS}");
        let own = ran(&mut self.generator(&words))?;
        let connections = json(&own.text, "/whole_run/connections")?;
        let ours = connections / own.cpu_seconds.max(1e-9);
        let mut other = Command::new("openssl");
        other.args([
            "s_time",
            "-new",
            flag,
            "-time",
            &SECONDS.to_string(),
            "-connect",
        ]);
        other.arg(format!("localhost:{}", self.server.port()));
        other
            .args(["-www", &format!("/fixed_{}", SIZES[0]), "-CAfile"])
            .arg(self.root);
        let other = ran(&mut other)?;
        let theirs = number_before(&other.text, "connections in")? / other.cpu_seconds.max(1e-9);
        Ok(BarRow {
            what: format!(
                "Full handshakes for a second of processor time, TLS {version}, against s_time"
            ),
            measured: ours / theirs.max(1e-9),
            beside: None,
            bar: HANDSHAKES,
            reached: ours >= HANDSHAKES * theirs,
            note: format!("{ours:.0} and {theirs:.0} handshakes, RSA-2048"),
        })
    }

    /// Requests a second over connections that are kept.
    fn requests(&self) -> Result<BarRow, LabError> {
        let size = SIZES[0];
        let (mut ours, mut theirs) = (0.0_f64, Vec::new());
        // Twice in turn, the better of each: none has the machine's better moment to itself.
        for _ in 0..2 {
            let words = format!("--connections {KEPT} --keep-alive all --duration {SECONDS}");
            let own = ran(&mut self.generator(&words))?;
            let rate = json(&own.text, "/requests")? / json(&own.text, "/seconds")?.max(1e-9);
            ours = ours.max(rate);
            if installed::find("h2load").is_some() {
                let mut h2load = Command::new("h2load");
                h2load.args([
                    "--h1",
                    "-t1",
                    "-c",
                    &KEPT.to_string(),
                    "-D",
                    &SECONDS.to_string(),
                ]);
                let text = ran(h2load.arg(self.url(size)))?.text;
                theirs.push((number_before(&text, "req/s")?, "h2load"));
            }
            if installed::find("wrk").is_some() {
                let mut wrk = Command::new("wrk");
                wrk.args(["-t1", "-c", &KEPT.to_string(), "-d", &format!("{SECONDS}s")]);
                let text = ran(wrk.arg(self.url(size)))?.text;
                theirs.push((number_behind(&text, "Requests/sec:")?, "wrk"));
            }
        }
        let best = theirs.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        let (best, tool) = best.unwrap_or_default();
        Ok(BarRow {
            what: "Requests a second over kept connections, against the best other tool".to_owned(),
            measured: ours / best.max(1e-9),
            beside: None,
            bar: REQUESTS,
            reached: ours >= REQUESTS * best,
            note: format!(
                "{ours:.0} and {best:.0} ({tool}), {KEPT} connections, 1 kB, one thread each"
            ),
        })
    }

    /// What each of very many held connections takes.
    fn memory(&self) -> Result<BarRow, LabError> {
        let of = |connections: u64| {
            let words =
                format!("--connections {connections} --keep-alive all --duration 2 --timeout 60");
            ran(&mut self.generator(&words))
        };
        let (few, many) = (of(1)?, of(HELD)?);
        let held = json(&many.text, "/whole_run/connections")?;
        let refused = serde_json::from_str::<serde_json::Value>(&many.text)
            .ok()
            .and_then(|result| Some(result.pointer("/whole_run/errors")?.to_string()))
            .unwrap_or_default();
        if held < HELD as f64 || refused != "{}" {
            return Err(LabError::Command {
                command: format!("{HELD} connections"),
                why: format!("{held} were opened, errors {refused}"),
            });
        }
        let bytes = many.peak_kib.saturating_sub(few.peak_kib) as f64 * 1024.0;
        let each = bytes / 1e3 / (HELD - 1) as f64;
        Ok(BarRow {
            what: "Memory of a held connection, kB".to_owned(),
            measured: each,
            beside: None,
            bar: MEMORY,
            reached: each <= MEMORY,
            note: format!(
                "{HELD} at a time; {} and {} KiB in all with these and with one",
                many.peak_kib, few.peak_kib
            ),
        })
    }
}

/// A server that stands still for a second, in the open loop.
fn stall(run: &Stage, server: &Running, wanted: &Wanted<'_>) -> Result<BarRow, LabError> {
    let arm = Arm::secure(TlsVersion::V13, 0, SIZES[0]);
    let mut measurement = run.measurement("nginx", server, wanted, arm);
    measurement.duration = 3 * STOPPED;
    let plan = measurement.plan(Load::Rate(RATE))?;
    let outcome = std::thread::scope(|scope| {
        let mut stopped = false;
        measure(&plan, Percent::ZERO, |moment| {
            if moment.is_measured && !stopped {
                stopped = true;
                server.signal(Signal::SIGSTOP);
                scope.spawn(|| {
                    std::thread::sleep(STOPPED);
                    server.signal(Signal::SIGCONT);
                });
            }
        })
    })
    .map_err(failed)?;
    let shown = outcome.latency.p99_9 as f64 / 1e3;
    Ok(BarRow {
        what: "A server stopped for a second, p99.9 in ms".to_owned(),
        measured: shown,
        beside: None,
        bar: STALL,
        reached: shown >= STALL,
        note: format!(
            "open loop, {RATE} connections/s; p50 {:.1} ms",
            outcome.latency.p50 as f64 / 1e3
        ),
    })
}

/// Runs a tool to its end; no other child ends meanwhile.
fn ran(tool: &mut Command) -> Result<Ran, LabError> {
    let output = tempfile::NamedTempFile::new().map_err(LabError::io("make a file"))?;
    let file = output.reopen().map_err(LabError::io("open a file"))?;
    let words = tempfile::NamedTempFile::new().map_err(LabError::io("make a file"))?;
    let error = words.reopen().map_err(LabError::io("open a file"))?;
    tool.stdin(Stdio::null()).stdout(file).stderr(error);
    let before = children_seconds()?;
    let mut child = tool
        .spawn()
        .map_err(|source| command::start_error(tool, source))?;
    let status = format!("/proc/{}/status", child.id());
    let mut peak_kib = 0;
    let ended = interrupt::wait_until(LIMIT, Duration::from_millis(20), || {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        peak_kib = peak_kib.max(peak.unwrap_or(0));
        matches!(child.try_wait(), Ok(Some(_)) | Err(_))
    });
    if !matches!(ended, Ok(true)) {
        // What hangs, or what the user wants to end.
        let _ = child.kill();
        let _ = child.wait();
    }
    ended?;
    let read = |path| fs::read_to_string(path).map_err(LabError::io("read a tool's words"));
    let (text, words) = (read(output.path())?, read(words.path())?);
    if text.is_empty() {
        return Err(LabError::Command {
            command: command::line(tool),
            why: words
                .lines()
                .next_back()
                .unwrap_or("it said nothing")
                .to_owned(),
        });
    }
    Ok(Ran {
        text,
        cpu_seconds: children_seconds()? - before,
        peak_kib,
    })
}

/// Processor time of all children that have ended and were waited for.
fn children_seconds() -> Result<f64, LabError> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|errno| LabError::Io {
        what: "read what children took".to_owned(),
        source: errno.into(),
    })?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(micros as f64 / 1e6)
}

fn json(text: &str, pointer: &str) -> Result<f64, LabError> {
    let result: Option<serde_json::Value> = serde_json::from_str(text).ok();
    let number = result.and_then(|result| result.pointer(pointer)?.as_f64());
    number.ok_or_else(|| unread("tandem-measure", text))
}

/// The word in front of some words, as a number.
fn number_before(text: &str, words: &str) -> Result<f64, LabError> {
    let (front, _) = text.split_once(words).ok_or_else(|| unread(words, text))?;
    let word = front.split_whitespace().next_back();
    word.and_then(|word| word.parse().ok())
        .ok_or_else(|| unread(words, text))
}

fn number_behind(text: &str, words: &str) -> Result<f64, LabError> {
    let (_, rest) = text.split_once(words).ok_or_else(|| unread(words, text))?;
    let word = rest.split_whitespace().next();
    word.and_then(|word| word.parse().ok())
        .ok_or_else(|| unread(words, text))
}

/// A tool that has not said what it says otherwise.
fn unread(wanted: &str, text: &str) -> LabError {
    LabError::Command {
        command: format!("a tool that should say {wanted}"),
        why: text
            .lines()
            .next_back()
            .unwrap_or("it said nothing")
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_tools_say_is_understood() {
        let s_time = "Collecting\n\n2216 connections in 2.53s; 875.89 connections/user sec, bytes read 2718\n";
        assert!((number_before(s_time, "connections in").unwrap() - 2_216.0).abs() < 1e-9);
        let h2load = "finished in 3.00s, 24817.33 req/s, 30.91MB/s\n";
        assert!((number_before(h2load, "req/s").unwrap() - 24_817.33).abs() < 1e-9);
        let wrk = "Requests/sec:  31022.91\nTransfer/sec: 38.61MB\n";
        assert!((number_behind(wrk, "Requests/sec:").unwrap() - 31_022.91).abs() < 1e-9);
        assert!(number_before("no route", "req/s").is_err());
    }

    #[test]
    fn a_tool_is_run_and_its_time_is_seen() {
        let mut command = Command::new("sh");
        let ran = ran(command.args([
            "-c",
            "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; echo done",
        ]))
        .unwrap();
        assert_eq!(ran.text, "done\n");
        assert!(ran.cpu_seconds > 0.0);
    }
}
