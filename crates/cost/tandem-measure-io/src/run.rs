//! One run: threads are started, the state becomes steady, it is measured, and what the threads
//! have brought is put together.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use tandem_daemon::process;
use tandem_measure::{
    Counts, Effort, GeneratorCost, Load, Outcome, Percent, Percentiles, Tally, WarmUp,
};

use crate::board::{Board, Progress};
use crate::error::MeasureError;
use crate::plan::Plan;
use crate::processor;
use crate::tls;
use crate::worker::{self, Brought, Gear, Work};

/// The longest warm-up is as long as the measurement, but within these bounds.
const WARM_UP: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(10));
/// A server that has only failed for so long is not measured.
const PATIENCE: Duration = Duration::from_secs(1);

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// Whether the warm-up is over.
    pub is_measured: bool,
    /// Since the warm-up began, or since it was over.
    pub elapsed: Duration,
    /// Requests answered a second, of late.
    pub rate: f64,
    /// Failures so far.
    pub failed: u64,
}

/// Measures with this share of reused sessions; says how it goes four times a second.
///
/// # Errors
/// Nothing could be begun.
pub fn measure(
    plan: &Plan,
    reuse: Percent,
    mut progress: impl FnMut(Moment),
) -> Result<Outcome, MeasureError> {
    if plan.target.name.is_none() && reuse > Percent::ZERO {
        return Err(MeasureError::Options(
            "without TLS there are no sessions to reuse; leave out --reuse",
        ));
    }
    process::raise_descriptor_limit();
    let (config, witness) = tls::config(plan)?;
    let loads = shares(plan.load);
    let gear: Vec<Gear> = loads
        .iter()
        .map(|_| Gear::new())
        .collect::<Result<_, _>>()
        .map_err(MeasureError::system("a timer"))?;
    let board = Arc::new(Board::new());
    let (tell, told) = mpsc::channel();
    let mut threads = Vec::new();
    for ((number, load), gear) in (0..).zip(&loads).zip(gear) {
        let work = Work {
            plan: plan.clone(),
            config: config.clone(),
            reuse,
            load: *load,
            // Far apart, so that runs with neighbouring seeds share no thread's numbers.
            seed: plan.seed.wrapping_add(0x9e37_79b9_7f4a_7c15 * number),
            board: Arc::clone(&board),
            gear,
        };
        let tell = tell.clone();
        let body = move || {
            // Nobody listens any more only where another thread could not be started.
            let _ = tell.send(nix::unistd::gettid());
            worker::work(work)
        };
        let thread = thread::Builder::new().name(format!("load {number}"));
        threads.push(
            thread
                .spawn(body)
                .map_err(MeasureError::system("a thread"))?,
        );
    }
    let ids: Vec<Pid> = told.iter().take(loads.len()).collect();
    let ran = Watch {
        plan,
        board: &board,
        ids: &ids,
    }
    .to_the_end(&mut progress);
    let mut tally = Tally::default();
    let mut whole = Counts::default();
    for thread in threads {
        let Brought {
            tally: of_thread,
            whole: whole_of_thread,
        } = thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            .map_err(MeasureError::system("a timer"))?;
        tally.add(&of_thread);
        whole.add(&whole_of_thread);
    }
    let mut outcome = outcome(plan, reuse, &board, &ran, &tally, whole);
    outcome.server.staple_bytes = witness.staple_bytes();
    outcome.server.asked_for_certificate = witness.was_asked();
    Ok(outcome)
}

/// How a run went.
struct Ran {
    warm_up: Duration,
    steady: bool,
    measured: Duration,
    efforts: Vec<Effort>,
}

/// Who looks on while threads work.
struct Watch<'a> {
    plan: &'a Plan,
    board: &'a Board,
    ids: &'a [Pid],
}

impl Watch<'_> {
    fn to_the_end(&self, progress: &mut impl FnMut(Moment)) -> Ran {
        let begun = self.board.base;
        let longest = self.plan.duration.clamp(WARM_UP.0, WARM_UP.1);
        let mut warm_up = WarmUp::default();
        let mut last = Progress::default();
        let steady = loop {
            thread::sleep(WarmUp::SLOT);
            let now = self.board.progress();
            let slot = now.since(&last);
            last = now;
            let elapsed = begun.elapsed();
            progress(Moment {
                is_measured: false,
                elapsed,
                rate: slot.done as f64 / WarmUp::SLOT.as_secs_f64(),
                failed: now.failed,
            });
            if now.done == 0 && now.failed > 0 && elapsed >= PATIENCE {
                self.board.stop();
                return Ran {
                    warm_up: elapsed,
                    steady: false,
                    measured: Duration::ZERO,
                    efforts: vec![Effort::default(); self.ids.len()],
                };
            }
            if warm_up.is_steady_after(slot) {
                break true;
            }
            if elapsed >= longest {
                break false;
            }
        };
        let warm_up = begun.elapsed();
        let before = processor::efforts(self.ids);
        let started = Instant::now();
        self.board.measure(self.plan.duration);
        while let Some(left) = self.plan.duration.checked_sub(started.elapsed()) {
            thread::sleep(left.min(WarmUp::SLOT));
            let now = self.board.progress();
            progress(Moment {
                is_measured: true,
                elapsed: started.elapsed(),
                rate: now.since(&last).done as f64 / WarmUp::SLOT.as_secs_f64(),
                failed: now.failed,
            });
            last = now;
        }
        Ran {
            warm_up,
            steady,
            measured: self.plan.duration,
            efforts: processor::between(&before, &processor::efforts(self.ids)),
        }
    }
}

fn outcome(
    plan: &Plan,
    reuse: Percent,
    board: &Board,
    ran: &Ran,
    tally: &Tally,
    whole: Counts,
) -> Outcome {
    let mut server = board.facts.get().cloned().unwrap_or_default();
    server.address = plan.target.address.to_string();
    Outcome {
        url: plan.target.url.clone(),
        load: plan.load,
        reuse,
        resumption: plan.resumption.name().to_owned(),
        asked: plan.asked(),
        keep_alive: plan.keep_alive,
        mix: plan.mix_name.clone(),
        seed: plan.seed,
        server,
        warm_up_seconds: ran.warm_up.as_secs_f64(),
        steady: ran.steady,
        seconds: ran.measured.as_secs_f64(),
        counts: Counts::default(),
        latency: Percentiles::default(),
        kinds: Vec::new(),
        generator: GeneratorCost::of(&ran.efforts, ran.measured.max(WarmUp::SLOT), tally),
        find_rate: None,
        whole_run: whole,
        curve: Vec::new(),
    }
    .with(tally)
}

/// Each thread's part: a thread for each processor, but none without a connection.
fn shares(load: Load) -> Vec<Load> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    match load {
        Load::Rate(rate) => vec![Load::Rate(rate / processors as f64); processors],
        Load::Connections(number) => {
            let threads = processors.min(number).max(1);
            (0..threads)
                .map(|thread| {
                    Load::Connections(number / threads + usize::from(thread < number % threads))
                })
                .collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_load_are_the_whole() {
        for number in [1, 2, 3, 10_000] {
            let parts = shares(Load::Connections(number));
            let sum: usize = parts
                .iter()
                .map(|part| match part {
                    Load::Connections(number) => *number,
                    Load::Rate(_) => 0,
                })
                .sum();
            assert_eq!(sum, number);
            assert!(!parts.contains(&Load::Connections(0)), "{parts:?}");
        }
        let rates: f64 = shares(Load::Rate(100.0))
            .iter()
            .map(|part| match part {
                Load::Rate(rate) => *rate,
                Load::Connections(_) => 0.0,
            })
            .sum();
        assert!((rates - 100.0).abs() < 1e-9);
    }
}
