//! One arm of one situation on one link: hosts, link, server and daemons that stand ready, and are
//! brought into the same situation before every trial.
//!
//! ```text
//!   client          link           server side         server's host          server program
//!     |--- hello ----->|---- hello ----->|---- hello ------->|                   | stands still
//!     |                |                 |                   | the harm happens  |
//!     |                |                 |<----- answer -----|<------------------| goes on
//! ```
//!
//! Is not: an ordinary lane (`lane`), nor which situations there are (`situation`).
//!
//! Invariants: the harm is over before the server program sends a byte, and how long that took is
//! in the row; without proxies the same is done to ways and servers.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tandem_netsim::link::Direction;
use tandem_wire::TcpPacket;

use crate::crowd::Crowd;
use crate::lane::{self, Lane, LaneSpec, Trial};
use crate::plan::{Asked, Harm, Plan, Renewed, Shown, Stores, Visit};
use crate::setup::Setup;
use tandem_report::arm::{Arm, StoreState};
use tandem_report::row::Row;
use tandem_report::situation::Situation;
use tandem_testbed::LabError;
use tandem_testbed::capture::Capture;
use tandem_testbed::client::{self, Outcome};
use tandem_testbed::emulator::{CaptureFile, Emulator};
use tandem_testbed::endpoints::{Endpoints, ServerName};
use tandem_testbed::interrupt;
use tandem_testbed::moment;
use tandem_testbed::pki::{self, Chain, ChainSpec, KeyKind, SECOND_NAME, SERVER_NAME, Validity};
use tandem_testbed::proxies::{self, Admin, Daemon, DaemonSpec, Mode, Strategy};
use tandem_testbed::server::{self, Server};
use tandem_testbed::topology::{Gateways, Host, Place, Topology};
use tandem_trace::{Moment, Seen};

/// Between two looks whether the hello has come.
const LOOK: Duration = Duration::from_millis(1);

/// What makes trials: an ordinary lane, one for a situation, or one for many clients.
#[derive(Debug)]
pub(crate) enum Course {
    /// No situation.
    Lane(Box<Lane>),
    /// One of them.
    Stage(Box<Stage>),
    /// Many clients.
    Crowd(Box<Crowd>),
}

impl Course {
    /// Sets it up. Where there are many clients, those that come again are a sample of so many.
    pub(crate) fn build(
        spec: &LaneSpec<'_>,
        situation: Option<Situation>,
        (clients, sample): (&[Chain], usize),
        limit: Duration,
    ) -> Result<Self, LabError> {
        Ok(match (situation, clients) {
            (None, []) => Self::Lane(Box::new(Lane::build(spec, limit)?)),
            (None, clients) => Self::Crowd(Box::new(Crowd::build(spec, clients, sample, limit)?)),
            (Some(situation), _) => Self::Stage(Box::new(Stage::build(spec, situation, limit)?)),
        })
    }

    /// Which arm it is.
    pub(crate) fn arm(&self) -> Arm {
        match self {
            Self::Lane(lane) => lane.arm(),
            Self::Stage(stage) => stage.arm,
            Self::Crowd(crowd) => crowd.arm(),
        }
    }

    /// What comes before the first trial.
    pub(crate) fn warm_up(&mut self) -> Result<(), LabError> {
        match self {
            Self::Lane(lane) => lane.warm_up(),
            Self::Stage(stage) => stage.rehearse(),
            Self::Crowd(crowd) => crowd.warm_up(),
        }
    }

    /// One measured connection; `None` where no more are planned.
    pub(crate) fn trial(&mut self) -> Result<Option<Trial>, LabError> {
        match self {
            Self::Lane(lane) => lane.trial().map(Some),
            Self::Stage(stage) => stage.trial().map(Some),
            Self::Crowd(crowd) => crowd.trial(),
        }
    }

    /// Ends the daemons and says whether they ended as they should.
    pub(crate) fn finish(self) -> Result<(), LabError> {
        match self {
            Self::Lane(lane) => lane.finish(),
            Self::Stage(mut stage) => stage.end_daemons(),
            Self::Crowd(crowd) => crowd.finish(),
        }
    }
}

/// An arm that stands. Fields are dropped in this order: the hosts go last.
#[derive(Debug)]
pub(crate) struct Stage {
    daemons: Vec<(Host, Daemon)>,
    server: Option<(Shown, Server)>,
    at_client: Capture,
    at_server: Capture,
    emulator: Arc<Emulator>,
    arm: Arm,
    plan: Plan,
    chains: Chains,
    endpoints: Endpoints,
    troupe: Troupe,
    template: Row,
    limit: Duration,
    trials: u32,
    topology: Topology,
}

/// How this arm's daemons are started.
#[derive(Debug)]
struct Troupe {
    exe: PathBuf,
    key: PathBuf,
    stores: PathBuf,
    /// `None`: there are none.
    mode: Option<Mode>,
}

/// The chains that servers show in a situation.
#[derive(Debug)]
struct Chains {
    usual: Chain,
    /// What is shown beside or instead; the usual one again where nothing is.
    other: Chain,
}

impl Stage {
    fn build(spec: &LaneSpec<'_>, situation: Situation, limit: Duration) -> Result<Self, LabError> {
        let plan = Plan::of(situation);
        let mtu = spec.link.up.mtu.min(spec.link.down.mtu);
        let (topology, ends) = Topology::build_with(mtu, plan.gateways)?;
        let emulator = Arc::new(Emulator::start(
            ends,
            spec.link.clone(),
            spec.seed,
            spec.capture.clone().map(|path| CaptureFile {
                path,
                about: format!("{}; {}", lane::about(spec), situation.about()),
            }),
        )?);
        if let Some(wait) = spec.endpoints.repeat_after_ms {
            topology.repeat_after(Duration::from_millis(wait.into()))?;
        }
        let directory = topology.directory();
        let key = directory.join("key");
        proxies::write_key(&key)?;
        let template = Row {
            situation: Some(situation),
            store: match Setup::of(spec.arm).mode(&spec.link) {
                None | Some(Mode::PassThrough) => StoreState::None,
                Some(_) if plan.before.is_empty() => StoreState::Cold,
                Some(_) => StoreState::Warm,
            },
            ..lane::template(spec)
        };
        Ok(Self {
            daemons: Vec::new(),
            server: None,
            at_client: Capture::start(topology.host(Host::Client))?,
            at_server: Capture::start(topology.host(Host::Server))?,
            emulator,
            arm: spec.arm,
            chains: Chains::issue(&directory, &plan, spec.endpoints, spec.chain)?,
            plan,
            endpoints: spec.endpoints.clone(),
            troupe: Troupe {
                exe: spec.exe.to_owned(),
                key,
                stores: directory.join("stores"),
                mode: Setup::of(spec.arm)
                    .mode(&spec.link)
                    .map(|mode| match (plan.stores, mode) {
                        (Stores::NamesOnly, Mode::Safe) => Mode::SafeLosing,
                        (Stores::NamesOnly, Mode::Mcveety) => Mode::McveetyLosing,
                        (Stores::NamesOnly | Stores::Whole, mode) => mode,
                    }),
            },
            template,
            limit,
            trials: 0,
            topology,
        })
    }

    /// Empty stores, and then what they are to have learned.
    fn rehearse(&mut self) -> Result<(), LabError> {
        if self.troupe.mode.is_none() {
            return Ok(());
        }
        self.end_daemons()?;
        if self.troupe.stores.exists() {
            fs::remove_dir_all(&self.troupe.stores).map_err(LabError::io("empty the stores"))?;
        }
        for host in self.gateways() {
            let daemon = self.troupe.start(&self.topology, host)?;
            self.daemons.push((host, daemon));
        }
        for visit in self.plan.before {
            self.go(*visit)?;
            let (outcome, _) = self.connect(*visit, Harm::None)?;
            self.settle()?;
            match outcome {
                Outcome::Success => {}
                Outcome::Failure(why) => {
                    return Err(LabError::Command {
                        command: format!("a connection before {}", self.arm.name()),
                        why,
                    });
                }
            }
        }
        Ok(())
    }

    fn trial(&mut self) -> Result<Trial, LabError> {
        let visit = self.plan.visit;
        match self.plan.renewed {
            Renewed::Always if self.trials > 0 => self.rehearse()?,
            Renewed::Always | Renewed::Once => {}
        }
        self.go(visit)?;
        self.topology.forget_tcp_metrics()?;
        self.emulator.take_log();
        self.at_client.take();
        self.at_server.take();
        let before = self.emulator.counters();
        let cpu_before = self.cpu_micros();
        let (outcome, staging) = self.connect(visit, self.plan.harm)?;
        self.settle()?;
        let after = self.emulator.counters();
        self.trials += 1;
        let row = Row {
            trial: self.trials,
            link_bytes_up: after.up.ip_bytes - before.up.ip_bytes,
            link_bytes_down: after.down.ip_bytes - before.down.ip_bytes,
            link_packets_up: after.up.packets - before.up.packets,
            link_packets_down: after.down.packets - before.down.packets,
            proxy_cpu_us: self.cpu_micros().saturating_sub(cpu_before),
            staging_seconds: staging,
            ..self.template.clone()
        };
        let seen = (self.at_client.take(), self.at_server.take());
        Ok(lane::judged(row, outcome, self.emulator.take_log(), &seen))
    }

    /// One connection, and what happens while the server stands still; how long that was.
    fn connect(&mut self, visit: Visit, harm: Harm) -> Result<(Outcome, Option<f64>), LabError> {
        let (chain, endpoints) = self.asked(visit);
        let Self {
            daemons,
            server,
            at_server,
            emulator,
            troupe,
            topology,
            limit,
            ..
        } = self;
        let directory = topology.directory();
        let run = || {
            let client = topology.host(Host::Client);
            client::run(client, &directory, &endpoints, &chain, None, *limit)
        };
        let Some((_, server)) = server.as_ref().filter(|_| harm != Harm::None) else {
            return Ok((run()?, None));
        };
        let over = AtomicBool::new(false);
        server.pause();
        std::thread::scope(|scope| {
            let harming = scope.spawn(|| {
                let came = wait_for_hello(at_server, &over, *limit);
                let done = came.and_then(|came| match came {
                    None => Ok(None),
                    Some(since) => {
                        happen(harm, daemons, troupe, topology, emulator)?;
                        Ok(Some(moment::now().seconds_since(since)))
                    }
                });
                server.resume();
                done
            });
            let outcome = run();
            over.store(true, Ordering::Relaxed);
            let staging = match harming.join() {
                Ok(staging) => staging?,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            Ok((outcome?, staging))
        })
    }

    /// Makes ready for a visit: the way, and what the server shows.
    fn go(&mut self, visit: Visit) -> Result<(), LabError> {
        match self.plan.gateways {
            Gateways::One => {}
            Gateways::Two => {
                self.topology.client_sends_by(visit.client_side)?;
                self.topology.server_sends_by(visit.server_side)?;
                self.emulator.lead(Direction::Up, visit.server_side);
                self.emulator.lead(Direction::Down, visit.client_side);
            }
        }
        if self
            .server
            .as_ref()
            .is_some_and(|(shown, _)| *shown == visit.shown)
        {
            return Ok(());
        }
        self.server = None;
        let Chains { usual, other } = &self.chains;
        let chains: &[&Chain] = match visit.shown {
            Shown::Usual => &[usual],
            Shown::Renewed | Shown::OtherKey | Shown::Expired => &[other],
            Shown::TwoNames => &[usual, other],
        };
        let server = Server::start_with(
            self.topology.host(Host::Server),
            &self.topology.directory().join("server"),
            &self.endpoints,
            chains,
            None,
        )?;
        self.server = Some((visit.shown, server));
        Ok(())
    }

    /// What the client is told of the server.
    fn asked(&self, visit: Visit) -> (Chain, Endpoints) {
        let Chains { usual, other } = &self.chains;
        let chain = match (visit.shown, visit.asked) {
            (Shown::Usual, _) | (Shown::TwoNames, Asked::Usual | Asked::Nobody) => usual,
            (Shown::Renewed | Shown::OtherKey | Shown::Expired, _)
            | (Shown::TwoNames, Asked::Second) => other,
        };
        let endpoints = Endpoints {
            server_name: match visit.asked {
                Asked::Usual | Asked::Second => self.endpoints.server_name,
                Asked::Nobody => ServerName::Withheld,
            },
            ..self.endpoints.clone()
        };
        (chain.clone(), endpoints)
    }

    fn gateways(&self) -> Vec<Host> {
        let places: &[Place] = match self.plan.gateways {
            Gateways::One => &[Place::First],
            Gateways::Two => &[Place::First, Place::Other],
        };
        places
            .iter()
            .flat_map(|place| [place.client_side(), place.server_side()])
            .collect()
    }

    fn cpu_micros(&self) -> u64 {
        self.daemons
            .iter()
            .map(|(_, daemon)| daemon.usage().cpu_micros)
            .sum()
    }

    fn settle(&self) -> Result<(), LabError> {
        self.emulator.settle(lane::QUIET, self.limit)
    }

    fn end_daemons(&mut self) -> Result<(), LabError> {
        self.daemons
            .drain(..)
            .map(|(_, mut daemon)| daemon.end())
            .fold(Ok(()), Result::and)
    }
}

impl Troupe {
    /// Starts the daemon of a gateway and waits until it is ready.
    fn start(&self, topology: &Topology, host: Host) -> Result<Daemon, LabError> {
        let spec = DaemonSpec {
            exe: &self.exe,
            host,
            mode: self.mode.unwrap_or(Mode::PassThrough),
            strategy: Strategy::Persistent,
            key: &self.key,
            store: &self.store(host),
            ports: "443",
            admin: Admin::Off,
        };
        let daemon = Daemon::start(topology, &spec)?;
        daemon.wait_until_ready()?;
        Ok(daemon)
    }

    fn store(&self, host: Host) -> PathBuf {
        self.stores.join(host.name())
    }

    /// Kills the daemon of a gateway and starts it again.
    fn reset(
        &self,
        daemons: &mut [(Host, Daemon)],
        topology: &Topology,
        host: Host,
    ) -> Result<(), LabError> {
        for (at, daemon) in daemons {
            if *at == host {
                daemon.kill();
                *daemon = self.start(topology, host)?;
            }
        }
        Ok(())
    }
}

impl Chains {
    fn issue(
        directory: &Path,
        plan: &Plan,
        endpoints: &Endpoints,
        usual: &Chain,
    ) -> Result<Self, LabError> {
        let spec = endpoints.chain_spec();
        let shown = |wanted: Shown| {
            plan.before
                .iter()
                .chain([&plan.visit])
                .any(|visit| visit.shown == wanted)
        };
        let with = |other: Chain| Self {
            usual: usual.clone(),
            other,
        };
        if shown(Shown::Renewed) {
            // Issuers that sign again are its own: those of `usual` lie where other lanes read.
            Ok(Self {
                usual: pki::issue(directory, "chain", &spec)?,
                other: pki::renew(directory, "chain", &spec)?,
            })
        } else if shown(Shown::OtherKey) {
            let other = ChainSpec {
                key: match spec.key {
                    KeyKind::Rsa2048 => KeyKind::EcdsaP256,
                    KeyKind::Rsa3072
                    | KeyKind::Rsa4096
                    | KeyKind::EcdsaP256
                    | KeyKind::EcdsaP384
                    | KeyKind::Ed25519
                    | KeyKind::MlDsa44
                    | KeyKind::MlDsa65 => KeyKind::Rsa2048,
                },
                leaf_bytes: None,
                issuer_bytes: None,
                ..spec
            };
            pki::issue(directory, "other", &other).map(with)
        } else if shown(Shown::TwoNames) {
            pki::issue_for(directory, "second", &spec, SECOND_NAME, Validity::Current).map(with)
        } else if shown(Shown::Expired) {
            pki::issue_for(directory, "expired", &spec, SERVER_NAME, Validity::Expired).map(with)
        } else {
            Ok(with(usual.clone()))
        }
    }
}

/// Waits until the server's host has a client's first bytes; when that was. `None` if the client
/// ended before.
fn wait_for_hello(
    at_server: &Capture,
    over: &AtomicBool,
    limit: Duration,
) -> Result<Option<Moment>, LabError> {
    let mut found = None;
    interrupt::wait_until(limit, LOOK, || {
        found = at_server.first(is_hello).map(|seen| seen.at);
        found.is_some() || over.load(Ordering::Relaxed)
    })?;
    Ok(found)
}

fn is_hello(seen: &Seen) -> bool {
    TcpPacket::parse(&seen.packet).is_ok_and(|packet| {
        packet.destination().port() == server::PORT && !packet.payload().is_empty()
    })
}

fn happen(
    harm: Harm,
    daemons: &mut [(Host, Daemon)],
    troupe: &Troupe,
    topology: &Topology,
    emulator: &Emulator,
) -> Result<(), LabError> {
    match harm {
        Harm::None => {}
        Harm::ReplyThroughOtherClientSide => emulator.lead(Direction::Down, Place::Other),
        Harm::ReplyByOtherServerSide => topology.server_sends_by(Place::Other)?,
        Harm::ClientSideResets => troupe.reset(daemons, topology, Host::ClientSide)?,
        Harm::ServerSideResets => {
            for (_, daemon) in daemons
                .iter_mut()
                .filter(|(host, _)| *host == Host::ServerSide)
            {
                daemon.kill();
            }
            let store = troupe.store(Host::ServerSide);
            if store.exists() {
                fs::remove_dir_all(&store).map_err(LabError::io("empty a store"))?;
            }
            troupe.reset(daemons, topology, Host::ServerSide)?;
        }
    }
    Ok(())
}
