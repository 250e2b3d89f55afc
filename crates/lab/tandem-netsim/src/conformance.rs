//! The rules of the one shape, run over anything that has it.
//!
//! For tests of every element, here and in the crates whose engines are plugged
//! in as elements. The element is made several times and fed the same packets:
//! - **same calls, same outputs**: a second one gives the same;
//! - **a spurious timeout is harmless**: one that is called far more often than it asks gives the
//!   same packets at the same times;
//! - **a timeout is spent**: after `handle_timeout(t)` the next is later than `t`;
//! - **bounded work**: no call leaves more outputs than a bound, and, once the packets end,
//!   timeouts end within a bound.

use tandem_wire::clock::Instant;
use thiserror::Error;

use crate::element::{Element, Port};

/// A packet to feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When; in ascending order.
    pub at: Instant,
    /// Where it comes in.
    pub port: Port,
    /// A packet, or bytes that only look like one.
    pub packet: Vec<u8>,
}

/// Bounds of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Outputs that one call may leave. Default: 1,000.
    pub outputs_per_call: usize,
    /// Timeouts after the last packet until the element waits for nothing.
    /// Default: 10,000.
    pub timeouts_until_quiet: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            outputs_per_call: 1_000,
            timeouts_until_quiet: 10_000,
        }
    }
}

/// A packet that came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// When.
    pub at: Instant,
    /// Where.
    pub port: Port,
    /// The packet.
    pub packet: Vec<u8>,
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    /// Two runs differ at this output (counted from 0).
    #[error("two runs of the same calls differ at output {0}")]
    NotDeterministic(usize),
    /// A run with more timeouts than asked for differs at this output.
    #[error("calling handle_timeout when nothing is due changes output {0}")]
    SpuriousTimeoutMatters(usize),
    /// After `handle_timeout` at this instant the next one is not later.
    #[error("after handle_timeout({0}) the next timeout is not later")]
    TimeoutNotSpent(Instant),
    /// One call left more outputs than the bound.
    #[error("a call at {0} left more outputs than the bound")]
    TooManyOutputs(Instant),
    /// Timeouts go on beyond the bound.
    #[error("timeouts do not end after the last packet")]
    NeverQuiet,
}

/// Runs the rules; returns what came out.
///
/// # Errors
/// The first [`Violation`].
pub fn check<E: Element>(
    make: impl Fn() -> E,
    arrivals: &[Arrival],
    bounds: Bounds,
) -> Result<Vec<Departure>, Violation> {
    let first = run(&mut make(), arrivals, bounds, Timeouts::AsAsked)?;
    let second = run(&mut make(), arrivals, bounds, Timeouts::AsAsked)?;
    if let Some(at) = difference(&first, &second) {
        return Err(Violation::NotDeterministic(at));
    }
    let eager = run(&mut make(), arrivals, bounds, Timeouts::AndSpuriousOnes)?;
    if let Some(at) = difference(&first, &eager) {
        return Err(Violation::SpuriousTimeoutMatters(at));
    }
    Ok(first)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Timeouts {
    AsAsked,
    AndSpuriousOnes,
}

/// An element under test and what it sent.
struct Runner<'a, E> {
    element: &'a mut E,
    bounds: Bounds,
    timeouts: Timeouts,
    sent: Vec<Departure>,
    now: Instant,
}

fn run<E: Element>(
    element: &mut E,
    arrivals: &[Arrival],
    bounds: Bounds,
    timeouts: Timeouts,
) -> Result<Vec<Departure>, Violation> {
    let mut runner = Runner {
        element,
        bounds,
        timeouts,
        sent: Vec::new(),
        now: Instant::ZERO,
    };
    for arrival in arrivals {
        while let Some(due) = runner.element.poll_timeout() {
            if due > arrival.at {
                break;
            }
            runner.fire(due)?;
        }
        runner.pass_time(arrival.at)?;
        runner
            .element
            .handle_input(arrival.port, arrival.packet.clone(), arrival.at);
        runner.drain()?;
        runner.pass_time(arrival.at)?;
    }
    for _ in 0..bounds.timeouts_until_quiet {
        match runner.element.poll_timeout() {
            None => return Ok(runner.sent),
            Some(due) => runner.fire(due)?,
        }
    }
    Err(Violation::NeverQuiet)
}

impl<E: Element> Runner<'_, E> {
    /// A timeout that is due.
    fn fire(&mut self, due: Instant) -> Result<(), Violation> {
        let due = due.max(self.now);
        // Half way there, and at the very last microsecond before.
        let half = due.saturating_since(self.now) / 2;
        self.pass_time(self.now + half)?;
        let micros = due.as_micros();
        if micros > self.now.as_micros() {
            self.pass_time(Instant::from_micros(micros - 1))?;
        }
        self.now = due;
        self.element.handle_timeout(due);
        self.drain()?;
        match self.element.poll_timeout() {
            Some(next) if next <= due => Err(Violation::TimeoutNotSpent(due)),
            Some(_) | None => Ok(()),
        }
    }

    /// Time passes with nothing due; the eager run says so.
    fn pass_time(&mut self, to: Instant) -> Result<(), Violation> {
        self.now = self.now.max(to);
        match self.timeouts {
            Timeouts::AsAsked => Ok(()),
            Timeouts::AndSpuriousOnes => {
                self.element.handle_timeout(self.now);
                self.drain()
            }
        }
    }

    fn drain(&mut self) -> Result<(), Violation> {
        for _ in 0..self.bounds.outputs_per_call {
            match self.element.poll_output() {
                None => return Ok(()),
                Some((port, packet)) => self.sent.push(Departure {
                    at: self.now,
                    port,
                    packet,
                }),
            }
        }
        Err(Violation::TooManyOutputs(self.now))
    }
}

fn difference(a: &[Departure], b: &[Departure]) -> Option<usize> {
    if a.len() != b.len() {
        return Some(a.len().min(b.len()));
    }
    a.iter().zip(b).position(|(a, b)| a != b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Sends each packet a second after it came, and breaks the rules on demand.
    struct Delay {
        flaw: Flaw,
        held: Vec<(Instant, Vec<u8>)>,
        out: Vec<Vec<u8>>,
        calls: u8,
    }

    #[derive(Clone, Copy)]
    enum Flaw {
        None,
        ForgetsToSpend,
        CountsTimeouts,
        Floods,
        NeverRests,
    }

    impl Element for Delay {
        fn handle_input(&mut self, _port: Port, packet: Vec<u8>, now: Instant) {
            self.held.push((now + Duration::from_secs(1), packet));
        }

        fn handle_timeout(&mut self, now: Instant) {
            self.calls = self.calls.wrapping_add(1);
            if matches!(self.flaw, Flaw::ForgetsToSpend) {
                return;
            }
            let due = |held: &(Instant, Vec<u8>)| held.0 <= now;
            for (_, mut packet) in self.held.extract_if(.., |held| due(held)) {
                match self.flaw {
                    Flaw::CountsTimeouts => packet.push(self.calls),
                    Flaw::Floods => self.out.extend(vec![packet.clone(); 2_000]),
                    Flaw::None | Flaw::ForgetsToSpend | Flaw::NeverRests => {}
                }
                self.out.push(packet);
            }
            if matches!(self.flaw, Flaw::NeverRests) && self.held.is_empty() {
                self.held.push((now + Duration::from_secs(1), Vec::new()));
            }
        }

        fn poll_output(&mut self) -> Option<(Port, Vec<u8>)> {
            self.out.pop().map(|packet| (Port::Right, packet))
        }

        fn poll_timeout(&self) -> Option<Instant> {
            self.held.first().map(|(at, _)| *at)
        }
    }

    fn checked(flaw: Flaw) -> Result<Vec<Departure>, Violation> {
        let arrivals = [0u64, 300_000, 2_000_000].map(|micros| Arrival {
            at: Instant::from_micros(micros),
            port: Port::Left,
            packet: vec![micros as u8],
        });
        let make = || Delay {
            flaw,
            held: Vec::new(),
            out: Vec::new(),
            calls: 0,
        };
        check(make, &arrivals, Bounds::default())
    }

    #[test]
    fn each_rule_is_found_broken_and_a_sound_element_passes() {
        let at = Instant::from_micros;
        let sound = checked(Flaw::None).map(|sent| sent.iter().map(|d| d.at).collect::<Vec<_>>());
        assert_eq!(sound, Ok(vec![at(1_000_000), at(1_300_000), at(3_000_000)]));
        assert_eq!(
            checked(Flaw::ForgetsToSpend),
            Err(Violation::TimeoutNotSpent(at(1_000_000)))
        );
        assert_eq!(
            checked(Flaw::CountsTimeouts),
            Err(Violation::SpuriousTimeoutMatters(0))
        );
        assert_eq!(
            checked(Flaw::Floods),
            Err(Violation::TooManyOutputs(at(1_000_000)))
        );
        assert_eq!(checked(Flaw::NeverRests), Err(Violation::NeverQuiet));
    }
}
