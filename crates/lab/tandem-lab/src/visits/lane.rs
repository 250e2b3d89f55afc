//! One kind of visit over one link with one arm: hosts, link, server and proxies, visit after
//! visit.
//!
//! Is not: what a visit does (`application`), nor what it costs (`bill`). Invariant: nothing of a
//! visit is left on the link when the next begins; a first visit finds proxies that have just been
//! started, with empty stores.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use tandem_netsim::link::{Direction, LinkConfig};
use tandem_report::arm::Arm;
use tandem_report::visits::{VisitTrial, is_first};
use tandem_testbed::LabError;
use tandem_testbed::client::{self, Outcome};
use tandem_testbed::console::Console;
use tandem_testbed::emulator::{Crossing, Emulator, Fate};
use tandem_testbed::interrupt;
use tandem_testbed::moment;
use tandem_testbed::proxies::{Admin, Proxies, Strategy};
use tandem_testbed::server::Server;
use tandem_testbed::topology::{Host, Topology};
use tandem_trace::Moment;

use super::application::Scene;
use super::bill::Passage;
use super::grounds::Grounds;
use super::plan::{Visit, first_of};
use crate::lane::quiet;
use crate::setup::Setup;

/// Longest that a visit may take, and its remains to leave the link: nobody waits longer for a
/// page. Some programs have time-outs of their own, and servers have, too.
const LIMIT: Duration = Duration::from_secs(300);

/// What a lane is to be.
pub(super) struct LaneSpec<'a> {
    pub(super) visit: &'a Visit,
    /// The link's name.
    pub(super) link: &'a str,
    pub(super) config: &'a LinkConfig,
    /// Plain, packet or tunnel.
    pub(super) arm: Arm,
    pub(super) trials: u32,
    pub(super) seed: u64,
    pub(super) grounds: &'a Grounds,
    /// The `tandem` binary.
    pub(super) exe: &'a Path,
}

/// A visit that was made.
pub(super) struct Measured {
    /// The lane's arm, or that of its first visits.
    pub(super) arm: Arm,
    pub(super) trial: VisitTrial,
    pub(super) passages: Vec<Passage>,
}

impl Measured {
    /// Whether it counts.
    pub(super) fn is_good(&self) -> bool {
        self.trial.ok && self.trial.identical
    }
}

impl LaneSpec<'_> {
    /// Builds it, makes all visits and takes it down.
    ///
    /// # Errors
    /// What keeps a visit from being made at all; a program that fails is a result.
    pub(super) fn run(&self, console: &Console) -> Result<Vec<Measured>, LabError> {
        let mut lane = Lane::build(self)?;
        let first = first_of(self.arm);
        let again = (0..self.trials).map(|_| self.arm);
        let mut all = Vec::new();
        for arm in first.into_iter().chain(again) {
            if Some(arm) == first {
                lane.forget_all()?;
            }
            lane.wait()?;
            let measured = lane.visit(arm)?;
            console.say(&self.in_words(&measured));
            all.push(measured);
        }
        lane.proxies.take().map_or(Ok(()), Proxies::stop)?;
        Ok(all)
    }

    fn in_words(&self, measured: &Measured) -> String {
        let trial = &measured.trial;
        let head = format!(
            "{}, {}, {}",
            self.link,
            self.visit.name,
            measured.arm.name()
        );
        match &trial.error {
            Some(error) => format!("{head}: FAILED: {error}"),
            None => {
                let bytes = trial.link_bytes_up + trial.link_bytes_down;
                format!("{head}: {:.2} s, {bytes} IP bytes", trial.seconds)
            }
        }
    }
}

/// A lane that stands. Fields are dropped in this order: the hosts go last.
struct Lane<'a> {
    proxies: Option<Proxies>,
    _servers: Vec<Server>,
    emulator: Emulator,
    spec: &'a LaneSpec<'a>,
    /// When the visit before began, and what the link had carried when it was over.
    before: Option<(Instant, u64)>,
    topology: Topology,
}

impl<'a> Lane<'a> {
    fn build(spec: &'a LaneSpec<'a>) -> Result<Self, LabError> {
        let mtu = spec.config.up.mtu.min(spec.config.down.mtu);
        let (topology, ends) = Topology::build(mtu)?;
        let emulator = Emulator::start(ends, spec.config.clone(), spec.seed, None)?;
        let scene = scene(spec, &topology);
        fs::create_dir_all(&scene.folder).map_err(LabError::io("make a folder"))?;
        let servers = spec.visit.kind.application().serve(&scene)?;
        Ok(Self {
            proxies: None,
            _servers: servers,
            emulator,
            spec,
            before: None,
            topology,
        })
    }

    /// Ends the proxies, so that the next visit starts them with empty stores.
    fn forget_all(&mut self) -> Result<(), LabError> {
        self.proxies.take().map_or(Ok(()), Proxies::stop)?;
        // The ends of a tunnel tell each other.
        self.settle()
    }

    fn start_proxies(&mut self) -> Result<(), LabError> {
        let Some(mode) = Setup::of(self.spec.arm).mode(self.spec.config) else {
            return Ok(());
        };
        self.proxies = Some(Proxies::start(
            self.spec.exe,
            &self.topology,
            mode,
            Strategy::Persistent,
            &self.topology.directory().join("store"),
            Admin::Off,
        )?);
        Ok(())
    }

    fn settle(&self) -> Result<(), LabError> {
        self.emulator
            .settle(quiet(self.spec.arm, self.spec.config), LIMIT)
    }

    /// Waits until a visit may begin.
    fn wait(&self) -> Result<(), LabError> {
        let apart = Duration::from_secs(self.spec.visit.apart_seconds);
        let since = self.before.map_or(apart, |(begun, _)| begun.elapsed());
        let rest = apart.saturating_sub(since);
        interrupt::wait_until(rest, Duration::from_millis(50), || false).map(|_| ())
    }

    /// What the link has carried, both directions.
    fn carried(&self) -> u64 {
        let counters = self.emulator.counters();
        counters.up.ip_bytes + counters.down.ip_bytes
    }

    /// One visit. Proxies that do not run are started within it.
    fn visit(&mut self, arm: Arm) -> Result<Measured, LabError> {
        self.topology.forget_tcp_metrics()?;
        self.emulator.take_log();
        let carried = self.carried();
        let left = self.before.map_or(carried, |(_, left)| left);
        let before = self.emulator.counters();
        let begun = Instant::now();
        if self.proxies.is_none() {
            self.start_proxies()?;
        }
        let application = self.spec.visit.kind.application();
        let scene = scene(self.spec, &self.topology);
        let mut command = application.client(&scene)?;
        command.current_dir(&scene.folder);
        let mut words = Vec::new();
        let started = moment::now();
        let outcome = client::run_program(
            self.topology.host(Host::Client),
            &mut command,
            None,
            &scene.folder.join("client.log"),
            LIMIT,
            |output, status| {
                words.extend_from_slice(output);
                status.success()
            },
        )?;
        let ended = moment::now();
        self.settle()?;
        let after = self.emulator.counters();
        let log = self.emulator.take_log();
        let first = log
            .first()
            .map_or(started, |first| first.offered.min(started));
        let verified = application.verify(&scene, &words);
        let trial = VisitTrial {
            ok: outcome == Outcome::Success,
            identical: verified.is_ok(),
            error: match outcome {
                Outcome::Failure(why) => Some(why),
                Outcome::Success => verified.err(),
            },
            seconds: ended.seconds_since(first),
            link_bytes_up: after.up.ip_bytes - before.up.ip_bytes,
            link_bytes_down: after.down.ip_bytes - before.down.ip_bytes,
            // What ends a tunnel before a first visit is not of a day.
            bytes_before: if is_first(arm) { 0 } else { carried - left },
        };
        self.before = Some((begun, self.carried()));
        let bytes = trial.link_bytes_up + trial.link_bytes_down;
        Ok(Measured {
            arm,
            trial,
            passages: passages(&log, bytes),
        })
    }
}

fn scene<'a>(spec: &LaneSpec<'a>, topology: &'a Topology) -> Scene<'a> {
    Scene {
        grounds: spec.grounds,
        version: spec.visit.version,
        server: topology.host(Host::Server),
        folder: topology.directory().join("visit"),
    }
}

/// When the client side sent and received how much. What the log had no room for counts with the
/// last packet, so that the sum is what the link counted.
fn passages(log: &[Crossing], counted: u64) -> Vec<Passage> {
    let taken = log.iter().filter(|crossing| crossing.fate == Fate::Taken);
    let mut moments: Vec<(Moment, u64)> = taken
        .map(|crossing| {
            let at = match crossing.direction {
                Direction::Up => crossing.offered,
                Direction::Down => crossing.delivered.unwrap_or(crossing.offered),
            };
            (at, crossing.packet.len() as u64)
        })
        .collect();
    moments.sort_unstable();
    let first = moments
        .first()
        .map_or(Duration::ZERO, |(at, _)| at.since_epoch());
    let mut passages: Vec<Passage> = moments
        .into_iter()
        .map(|(at, bytes)| Passage {
            at: at.since_epoch() - first,
            bytes,
        })
        .collect();
    let logged: u64 = passages.iter().map(|passage| passage.bytes).sum();
    if let Some(last) = passages.last_mut() {
        last.bytes += counted.saturating_sub(logged);
    }
    passages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_count_when_the_client_side_has_them() {
        let at = |seconds| Moment::from_duration(Duration::from_secs(seconds));
        let crossing = |direction, offered, delivered, fate| Crossing {
            direction,
            offered: at(offered),
            delivered: Some(at(delivered)),
            fate,
            words: String::new(),
            packet: vec![0; 100],
        };
        let log = [
            crossing(Direction::Up, 10, 11, Fate::Taken),
            crossing(Direction::Up, 12, 13, Fate::Refused),
            crossing(Direction::Down, 12, 19, Fate::Taken),
            crossing(Direction::Up, 15, 16, Fate::Taken),
        ];
        let of = |seconds, bytes| Passage {
            at: Duration::from_secs(seconds),
            bytes,
        };
        assert_eq!(passages(&log, 300), [of(0, 100), of(5, 100), of(9, 100)]);
        // What the log has no room for is not lost.
        assert_eq!(passages(&log, 350)[2], of(9, 150));
    }
}
