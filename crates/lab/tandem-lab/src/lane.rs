//! One arm of one experiment on one link: hosts, link, server, captures and proxies that stand
//! ready, trial after trial.
//!
//! Arms have a lane each, so that they can be interleaved without taking anything down in between,
//! and none leaves traces in another's kernel state.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tandem_netsim::link::{Direction, LinkConfig};
use tandem_wire::{Seq, TcpFlags, TcpPacket};

use crate::anatomy::{self, share_of};
use crate::floor::{floor_bytes, floor_bytes_in_tls13};
use crate::phases::{FULL_FLIGHTS, Phases};
use crate::setup::Setup;
use tandem_report::Parts;
use tandem_report::arm::{Arm, StoreState};
use tandem_report::row::{Crossed, Row};
use tandem_testbed::LabError;
use tandem_testbed::accounts::Accounts;
use tandem_testbed::capture::Capture;
use tandem_testbed::client::{self, Identity, Outcome, Visit};
use tandem_testbed::emulator::{CaptureFile, Crossing, Emulator, Fate};
use tandem_testbed::endpoints::{Endpoints, KeyRelease, Releases, Sessions, Version};
use tandem_testbed::interrupt;
use tandem_testbed::pki::Chain;
use tandem_testbed::proxies::{self, Admin, Mode, Proxies, Strategy};
use tandem_testbed::server::{self, Server};
use tandem_testbed::topology::{Host, Topology};
use tandem_trace::{Exchange, Moment, Seen, StreamPair};

/// How long the link must have been idle for a connection to count as over. Longer than what an
/// endpoint waits before it answers (delayed acknowledgement: at most 40 ms on Linux), shorter than
/// a trial.
pub(crate) const QUIET: Duration = Duration::from_millis(150);

/// Round trips for which a link with a tunnel must have been idle, beside [`QUIET`]. The tunnel's
/// transport repeats what was not acknowledged after three of them at first (RFC 9002, section
/// 6.2.1), and acknowledges before; with them a trial begins when nothing of the one before is left
/// to be said.
const TUNNEL_ROUND_TRIPS: u32 = 3;

/// How long a link must have been idle with this arm for a connection to count as over.
pub(crate) fn quiet(arm: Arm, link: &LinkConfig) -> Duration {
    if arm.is_tunnel() {
        QUIET + (link.up.delay + link.down.delay) * TUNNEL_ROUND_TRIPS
    } else {
        QUIET
    }
}

/// What a lane is to be.
#[derive(Debug, Clone)]
pub struct LaneSpec<'a> {
    /// The experiment's name, for rows.
    pub experiment: &'a str,
    /// The link's name, for rows.
    pub link_name: &'a str,
    /// The link.
    pub link: LinkConfig,
    /// What stands in between.
    pub arm: Arm,
    /// What stands at the ends.
    pub endpoints: &'a Endpoints,
    /// The server's certificates.
    pub chain: &'a Chain,
    /// The client's certificates, if the server is to ask for them.
    pub client: Option<&'a Chain>,
    /// The `tandem` binary.
    pub exe: &'a Path,
    /// Of the link's chance.
    pub seed: u64,
    /// Where to write what crosses the link.
    pub capture: Option<PathBuf>,
}

/// A lane that stands. Fields are dropped in this order: the hosts go last.
#[derive(Debug)]
pub struct Lane {
    proxies: Option<Proxies>,
    _server: Server,
    at_client: Capture,
    at_server: Capture,
    emulator: Arc<Emulator>,
    arm: Arm,
    chain: Chain,
    client: Option<Chain>,
    /// The library that makes clients announce their certificates, where they do.
    keytap: Option<PathBuf>,
    endpoints: Endpoints,
    /// The link, as the daemons are told it.
    link: LinkConfig,
    exe: PathBuf,
    template: Row,
    limit: Duration,
    /// How long the link must have been idle for a connection to count as over.
    quiet: Duration,
    trials: u32,
    topology: Topology,
}

/// A finished trial with all that was seen of it.
#[derive(Debug, Clone)]
pub struct Trial {
    /// Its result.
    pub row: Row,
    /// What the link carried.
    pub crossings: Vec<Crossing>,
    /// The connection, where there was one.
    pub exchange: Option<Exchange>,
    /// Its handshake, where it came to its end.
    pub phases: Option<Phases>,
}

impl Lane {
    /// Sets it up: hosts, link, captures, server, proxies. A warm arm's proxies hold nothing yet;
    /// [`Lane::warm_up`] changes that. A cold arm's are started by [`Lane::trial`].
    ///
    /// `limit` is how long a trial may take.
    ///
    /// # Errors
    /// As its parts say.
    pub fn build(spec: &LaneSpec<'_>, limit: Duration) -> Result<Self, LabError> {
        let (topology, ends) = Topology::build(spec.link.up.mtu.min(spec.link.down.mtu))?;
        let emulator = Arc::new(Emulator::start(
            ends,
            spec.link.clone(),
            spec.seed,
            spec.capture.clone().map(|path| CaptureFile {
                path,
                about: about(spec),
            }),
        )?);
        let at_client = Capture::start(topology.host(Host::Client))?;
        let at_server = Capture::start(topology.host(Host::Server))?;
        let mut endpoints = spec.endpoints.clone();
        if let Some(by) = Setup::of(spec.arm).releases_keys() {
            endpoints.release = Some(KeyRelease {
                by,
                library: client::keytap(spec.exe)?,
                socket: proxies::key_socket(&topology),
            });
        }
        let server = Server::start(
            topology.host(Host::Server),
            &topology.directory().join("server"),
            &endpoints,
            spec.chain,
            spec.client,
        )?;
        let announced = match Setup::of(spec.arm).strategy {
            Strategy::Cii => spec.client,
            Strategy::Persistent | Strategy::Filter | Strategy::None => None,
        };
        let mut lane = Self {
            proxies: None,
            _server: server,
            at_client,
            at_server,
            emulator,
            arm: spec.arm,
            chain: spec.chain.clone(),
            client: spec.client.cloned(),
            keytap: announced.map(|_| client::keytap(spec.exe)).transpose()?,
            endpoints,
            link: spec.link.clone(),
            exe: spec.exe.to_owned(),
            template: template(spec),
            limit,
            quiet: quiet(spec.arm, &spec.link),
            trials: 0,
            topology,
        };
        match spec.arm.store() {
            StoreState::None | StoreState::Warm => lane.start_proxies()?,
            StoreState::Cold => {}
        }
        Ok(lane)
    }

    /// Which arm it is.
    pub fn arm(&self) -> Arm {
        self.arm
    }

    /// The link, for showing what crosses it while a trial runs.
    pub fn emulator(&self) -> Arc<Emulator> {
        Arc::clone(&self.emulator)
    }

    /// One handshake that is not measured, where the arm is a warm one or the client is to return.
    ///
    /// # Errors
    /// As [`Lane::trial`]; `Command` where this handshake fails.
    pub fn warm_up(&mut self) -> Result<(), LabError> {
        let (first, _) = self.visits();
        match (first, self.arm.store()) {
            (Visit::Only | Visit::Return, StoreState::None | StoreState::Cold) => Ok(()),
            (Visit::First, _) | (Visit::Only | Visit::Return, StoreState::Warm) => {
                // The first handshake of a client shows the client side that it releases keys.
                if Setup::of(self.arm).releases_keys() == Some(Releases::Client) {
                    self.go_before(first)?;
                }
                self.go_before(first)
            }
        }
    }

    fn strategy(&self) -> Strategy {
        // Of clients without certificates there is nothing to know.
        self.client
            .as_ref()
            .map_or(Strategy::Persistent, |_| Setup::of(self.arm).strategy)
    }

    /// Puts a client side that holds nothing in place of the one that runs, where one does.
    pub(crate) fn reset_client_side(&mut self) -> Result<(), LabError> {
        let (strategy, admin) = (self.strategy(), self.admin());
        match (&mut self.proxies, Setup::of(self.arm).mode(&self.link)) {
            (Some(proxies), Some(mode)) => {
                let store = self.topology.directory().join("store");
                let topology = &self.topology;
                proxies.reset_client_side(&self.exe, topology, mode, strategy, &store, admin)
            }
            (None, _) | (_, None) => Ok(()),
        }
    }

    /// Has connections count as over sooner.
    pub(crate) fn shorten_quiet(&mut self, quiet: Duration) {
        self.quiet = quiet;
    }

    /// Has the client show this chain from now on, of the same authority.
    pub(crate) fn show(&mut self, client: &Chain) {
        self.template.client_certificates.clone_from(&client.sizes);
        self.client = Some(client.clone());
    }

    /// A connection of this client's that is not measured.
    pub(crate) fn unmeasured(&mut self, client: &Chain) -> Result<(), LabError> {
        self.show(client);
        self.go_before(Visit::Only)
    }

    /// A handshake that is not measured.
    fn go_before(&mut self, visit: Visit) -> Result<(), LabError> {
        let outcome = self.connect(visit)?;
        self.settle()?;
        self.forget();
        match outcome {
            Outcome::Success => Ok(()),
            Outcome::Failure(why) => Err(LabError::Command {
                command: format!("the handshake before those of {}", self.arm.name()),
                why,
            }),
        }
    }

    /// The visit that comes before, and the one that is measured.
    fn visits(&self) -> (Visit, Visit) {
        match self.endpoints.sessions {
            Sessions::None => (Visit::Only, Visit::Only),
            Sessions::Tickets | Sessions::Identifiers => (Visit::First, Visit::Return),
        }
    }

    /// How many bytes the last handshake had on the tunnel's streams, as the client side says.
    /// `None` where it has not read a handshake to its end.
    fn stream_bytes(&self, outcome: &Outcome) -> Result<Option<u64>, LabError> {
        let (Some(proxies), Outcome::Success, Admin::On) = (&self.proxies, outcome, self.admin())
        else {
            return Ok(None);
        };
        let [client_side, _] = proxies.status(&self.topology)?;
        let last = client_side.activity.flows.into_iter().next();
        let finished = last.filter(|flow| flow.outcome == "finished");
        Ok(finished.map(|flow| flow.crossed_bytes))
    }

    /// Whether the daemons answer questions: those of a tunnel do, in which nothing can be seen
    /// from outside. They are asked after a trial.
    fn admin(&self) -> Admin {
        match Setup::of(self.arm).mode(&self.link) {
            Some(
                Mode::Tunnel(_)
                | Mode::TunnelWithKeys(_)
                | Mode::TunnelWithClientKeys(..)
                | Mode::TunnelWithAllKeys(..),
            ) => Admin::On,
            None
            | Some(
                Mode::PassThrough
                | Mode::Safe
                | Mode::Mcveety
                | Mode::SafeLosing
                | Mode::McveetyLosing
                | Mode::Quic(_)
                | Mode::Other(..),
            ) => Admin::Off,
        }
    }

    /// Waits until the link has carried nothing for as long as this arm's rest takes. It may have
    /// rested already, while other arms had their trials.
    fn rest(&self) -> Result<(), LabError> {
        let rest = Setup::of(self.arm).rest;
        if rest.is_zero() {
            return Ok(());
        }
        let has_rested = || {
            let activity = self.emulator.activity();
            !activity.busy && activity.quiet_for >= rest
        };
        // Twice that: what crosses meanwhile makes the rest begin anew.
        if interrupt::wait_until(rest * 2, Duration::from_millis(50), has_rested)? {
            Ok(())
        } else {
            Err(LabError::Command {
                command: format!("the rest before a trial of {}", self.arm.name()),
                why: format!("the link was never idle for {} s", rest.as_secs()),
            })
        }
    }

    /// One measured connection. A cold arm's proxies start anew before it, with empty stores.
    ///
    /// # Errors
    /// What keeps a trial from being made at all; a client that fails is a row with `ok: false`.
    pub fn trial(&mut self) -> Result<Trial, LabError> {
        let is_cold = self.arm.store() == StoreState::Cold;
        if is_cold && self.trials > 0 {
            self.stop_proxies()?;
            // The ends of a tunnel tell each other.
            self.settle()?;
        }
        let (first, measured) = self.visits();
        // Proxies remember a ticket that crossed more than once: each trial is to be a second
        // visit, never a third.
        if first == Visit::First && self.arm.store() == StoreState::Warm && self.trials > 0 {
            self.go_before(first)?;
        }
        self.rest()?;
        self.topology.forget_tcp_metrics()?;
        self.forget();
        let before = self.emulator.counters();
        // The ends of a tunnel may look for each other as soon as they run: that counts.
        if is_cold {
            self.start_proxies()?;
        }
        let cpu_before = self.cpu_micros();
        let outcome = self.connect(measured)?;
        self.settle()?;
        let after = self.emulator.counters();
        let stream_bytes = self.stream_bytes(&outcome)?;
        let usage = self
            .proxies
            .as_ref()
            .map(Proxies::usage)
            .unwrap_or_default();
        self.trials += 1;

        let row = Row {
            trial: self.trials,
            link_bytes_up: after.up.ip_bytes - before.up.ip_bytes,
            link_bytes_down: after.down.ip_bytes - before.down.ip_bytes,
            link_packets_up: after.up.packets - before.up.packets,
            link_packets_down: after.down.packets - before.down.packets,
            proxy_cpu_us: usage.cpu_micros.saturating_sub(cpu_before),
            proxy_memory_kib: usage.peak_kib,
            ..self.template.clone()
        };
        let seen = (self.at_client.take(), self.at_server.take());
        let mut trial = judged(row, outcome, self.emulator.take_log(), &seen);
        trial.row.parts = parts(&trial, stream_bytes);
        if let (Some(exchange), Some(phases), None) =
            (&trial.exchange, &trial.phases, trial.row.floor_bytes)
        {
            let signers = 1 + usize::from(self.client.is_some());
            let signatures = signers * self.endpoints.key.signature_len();
            let floor = floor_bytes_in_tls13(exchange, phases, signatures);
            trial.row.floor_bytes = floor.map(|bytes| bytes as u64);
        }
        // Only where the server sent certificates, and in clear, can be told how they crossed.
        if measured == Visit::Return || self.endpoints.version == Version::Tls13 {
            trial.row.crossed = None;
        }
        let is_full = |phases: &Phases| phases.flights == FULL_FLIGHTS;
        if measured == Visit::Return && trial.phases.as_ref().is_none_or(is_full) {
            trial.row.ok = false;
            trial
                .row
                .error
                .get_or_insert_with(|| "the session was not resumed".to_owned());
        }
        Ok(trial)
    }

    /// Full handshakes one after the other for some time, by the client on rustls; how many, and
    /// each daemon's accounts before and after. Nothing is kept of them.
    pub(crate) fn load(&mut self, time: Duration) -> Result<(u64, [[Accounts; 2]; 2]), LabError> {
        let before = self.accounts();
        let handshakes = client::load(
            self.topology.host(Host::Client),
            &self.topology.directory(),
            &self.endpoints,
            &self.chain,
            time,
        )?;
        self.settle()?;
        let after = self.accounts();
        self.forget();
        let [near, far] = [0, 1].map(|side| [before[side], after[side]]);
        Ok((handshakes, [near, far]))
    }

    /// Runs a program at the client's host to its end, and says when that was. Returns when nothing
    /// of it is left on the link; nothing is kept of it.
    pub(crate) fn run(
        &mut self,
        command: &mut Command,
        is_good: impl FnOnce(&[u8], ExitStatus) -> bool,
    ) -> Result<(Outcome, Instant), LabError> {
        let outcome = client::run_program(
            self.topology.host(Host::Client),
            command,
            None,
            &self.topology.directory().join("client.log"),
            self.limit,
            is_good,
        )?;
        let ended = Instant::now();
        self.settle()?;
        self.forget();
        Ok((outcome, ended))
    }

    fn accounts(&self) -> [Accounts; 2] {
        self.proxies
            .as_ref()
            .map(Proxies::accounts)
            .unwrap_or_default()
    }

    /// Ends the proxies and says whether they ended as they should. The rest goes when it is
    /// dropped.
    ///
    /// # Errors
    /// `Command`.
    pub fn finish(mut self) -> Result<(), LabError> {
        self.stop_proxies()
    }

    fn start_proxies(&mut self) -> Result<(), LabError> {
        if let Some(mode) = Setup::of(self.arm).mode(&self.link) {
            self.proxies = Some(Proxies::start(
                &self.exe,
                &self.topology,
                mode,
                self.strategy(),
                &self.topology.directory().join("store"),
                self.admin(),
            )?);
        }
        Ok(())
    }

    fn stop_proxies(&mut self) -> Result<(), LabError> {
        self.proxies.take().map_or(Ok(()), Proxies::stop)
    }

    fn cpu_micros(&self) -> u64 {
        self.proxies
            .as_ref()
            .map_or(0, |proxies| proxies.usage().cpu_micros)
    }

    fn connect(&self, visit: Visit) -> Result<Outcome, LabError> {
        client::visit(
            self.topology.host(Host::Client),
            &self.topology.directory(),
            &self.endpoints,
            &self.chain,
            self.client.as_ref().map(|chain| Identity {
                chain,
                keytap: self.keytap.as_deref(),
            }),
            self.limit,
            visit,
        )
    }

    /// Waits until the connection's last packets have crossed.
    fn settle(&self) -> Result<(), LabError> {
        self.emulator.settle(self.quiet, self.limit)
    }

    fn forget(&self) {
        self.emulator.take_log();
        self.at_client.take();
        self.at_server.take();
    }
}

/// What a capture says of itself.
pub(crate) fn about(spec: &LaneSpec<'_>) -> String {
    format!(
        "experiment {}, link {}, arm {}; endpoints {}, TLS {}, certificates of {:?} bytes; seed {}",
        spec.experiment,
        spec.link_name,
        spec.arm.name(),
        spec.endpoints.name,
        spec.endpoints.version.name(),
        spec.chain.sizes,
        spec.seed
    )
}

/// A trial out of its row with the link's counts, how the client fared, what crossed, and what the
/// client's and the server's host saw.
pub(crate) fn judged(
    mut row: Row,
    outcome: Outcome,
    crossings: Vec<Crossing>,
    seen: &(Vec<Seen>, Vec<Seen>),
) -> Trial {
    let exchange = Exchange::find(&seen.0, &seen.1, server::PORT);
    let phases = exchange.as_ref().and_then(Phases::of);
    match outcome {
        Outcome::Success => row.ok = true,
        Outcome::Failure(why) => row.error = Some(why),
    }
    match &exchange {
        Some(exchange) => {
            row.endpoint_repeats =
                Some(repeats(&seen.0, exchange.client) + repeats(&seen.1, exchange.server));
            row.identical = if row.ok {
                exchange.is_identical()
            } else {
                exchange.is_undamaged()
            };
            if !row.identical {
                row.error.get_or_insert_with(|| difference(exchange));
            }
        }
        None => {
            row.error
                .get_or_insert_with(|| "no connection was seen".to_owned());
        }
    }
    if let Some(exchange) = &exchange
        && !row.arm.is_tunnel()
    {
        row.crossed = Some(crossed(
            &row.certificates,
            (exchange.server, &exchange.down, exchange.down_start),
            phases.as_ref().map(|phases| phases.down_end),
            &crossings,
        ));
        row.client_crossed = (!row.client_certificates.is_empty()).then(|| {
            crossed(
                &row.client_certificates,
                (exchange.client, &exchange.up, exchange.up_start),
                phases.as_ref().map(|phases| phases.up_end),
                &crossings,
            )
        });
    }
    if let (Some(exchange), Some(phases)) = (&exchange, &phases) {
        measure(&mut row, exchange, phases, &crossings);
    }
    Trial {
        row,
        crossings,
        exchange,
        phases,
    }
}

/// What the packets of a trial's handshake are made of, where they add up to what was counted.
fn parts(trial: &Trial, stream_bytes: Option<u64>) -> Option<Parts> {
    let (exchange, phases) = (trial.exchange.as_ref()?, trial.phases.as_ref()?);
    let parts = if trial.row.arm.is_tunnel() {
        anatomy::of_tunnel(exchange, phases, &trial.crossings, stream_bytes?)
    } else {
        anatomy::of_connection(exchange, phases, &trial.crossings)
    };
    parts.filter(|parts| parts.total() == trial.row.handshake_bytes())
}

/// In which form an endpoint's certificates crossed: what of its payload on the link is what it
/// sent there, and what stands for it. `end` is where its handshake ends.
fn crossed(
    certificates: &[usize],
    (owner, streams, start): (SocketAddr, &StreamPair, Seq),
    end: Option<usize>,
    crossings: &[Crossing],
) -> Crossed {
    let sent = streams.sent.bytes();
    let (mut as_sent, mut rewritten) = (vec![false; sent.len()], 0);
    for crossing in crossings {
        let Ok(packet) = TcpPacket::parse(&crossing.packet) else {
            continue;
        };
        if packet.source() != owner || packet.payload().is_empty() {
            continue;
        }
        let offset = usize::try_from(packet.seq().distance_from(start)).ok();
        let range = offset.map(|offset| offset..offset + packet.payload().len());
        match range.and_then(|range| Some((sent.get(range.clone())?, range))) {
            Some((bytes, range)) if bytes == packet.payload() => as_sent[range].fill(true),
            Some(_) | None => rewritten += packet.payload().len(),
        }
    }
    let smallest = certificates.iter().min().copied().unwrap_or(0);
    let certificates: usize = certificates.iter().sum();
    let beside = end.map_or(usize::MAX / 2, |end| end.saturating_sub(certificates));
    let has_chain = as_sent.iter().filter(|is_there| **is_there).count() >= certificates;
    match (rewritten, has_chain) {
        (0, _) => Crossed::Chain,
        (_, true) => Crossed::ReferenceThenChain,
        // What is not a certificate crosses in any case, and counts as rewritten with the rest of
        // its flight.
        (rewritten, false) if rewritten > beside + smallest / 2 => Crossed::Part,
        (_, false) => Crossed::Reference,
    }
}

/// Segments with payload, SYN or FIN that an endpoint sent although it had sent all of them before.
fn repeats(seen: &[Seen], from: SocketAddr) -> u64 {
    let mut sent: Option<Seq> = None;
    let mut count = 0;
    for packet in seen
        .iter()
        .filter_map(|seen| TcpPacket::parse(&seen.packet).ok())
        .filter(|packet| packet.source() == from)
    {
        let counted = |flag| u32::from(packet.flags().contains(flag));
        let length =
            packet.payload().len() as u32 + counted(TcpFlags::SYN) + counted(TcpFlags::FIN);
        if length == 0 {
            continue;
        }
        let end = packet.seq().wrapping_add(length);
        match sent {
            Some(known) if !end.is_after(known) => count += 1,
            Some(_) | None => sent = Some(end),
        }
    }
    count
}

/// A row with all that does not change from trial to trial.
pub(crate) fn template(spec: &LaneSpec<'_>) -> Row {
    Row {
        experiment: spec.experiment.to_owned(),
        link: spec.link_name.to_owned(),
        endpoints: spec.endpoints.name.clone(),
        version: spec.endpoints.version.name().to_owned(),
        key: spec.endpoints.key.name().to_owned(),
        certificates: spec.chain.sizes.clone(),
        client_certificates: spec
            .client
            .map_or_else(Vec::new, |chain| chain.sizes.clone()),
        arm: spec.arm,
        store: spec.arm.store(),
        trial: 0,
        ok: false,
        identical: false,
        error: None,
        seconds_handshake: None,
        seconds_first_byte: None,
        link_bytes_up: 0,
        link_bytes_down: 0,
        link_packets_up: 0,
        link_packets_down: 0,
        handshake_bytes_up: 0,
        handshake_bytes_down: 0,
        tls_bytes_up: None,
        tls_bytes_down: None,
        option_bytes: None,
        floor_bytes: None,
        parts: None,
        proxy_cpu_us: 0,
        proxy_memory_kib: 0,
        situation: None,
        coming: None,
        clients: None,
        endpoint_repeats: None,
        crossed: None,
        client_crossed: None,
        staging_seconds: None,
    }
}

fn measure(row: &mut Row, exchange: &Exchange, phases: &Phases, crossings: &[Crossing]) {
    let set_up = if row.arm.is_tunnel() {
        set_up_before(crossings, exchange.syn)
    } else {
        0.0
    };
    let after_syn = |moment: Moment| set_up + moment.seconds_since(exchange.syn);
    row.seconds_handshake = Some(after_syn(phases.finished));
    row.seconds_first_byte = phases.first_byte.map(after_syn);
    row.floor_bytes = floor_bytes(exchange, phases).map(|bytes| bytes as u64);
    if row.arm.is_tunnel() {
        // Whatever crosses is the tunnel's, and sealed.
        for crossing in crossings {
            match crossing.fate {
                Fate::Taken => add_to_handshake(row, crossing, phases),
                Fate::Refused => {}
            }
        }
        return;
    }
    let (mut up, mut down, mut options) = (0, 0, 0);
    for crossing in crossings {
        let Some(share) = share_of(crossing, exchange, phases) else {
            continue;
        };
        let tls = match crossing.direction {
            Direction::Up => &mut up,
            Direction::Down => &mut down,
        };
        *tls += share.payload + share.options;
        options += share.options;
        add_to_handshake(row, crossing, phases);
    }
    (row.tls_bytes_up, row.tls_bytes_down) = (Some(up), Some(down));
    row.option_bytes = Some(options);
}

/// How long the link carried a tunnel's set-up before the client's SYN, seconds. A client side
/// connects as soon as it runs; where the link is fast, that is over before a client has started.
fn set_up_before(crossings: &[Crossing], syn: Moment) -> f64 {
    let before = || {
        let is_before = move |crossing: &&Crossing| crossing.offered < syn;
        crossings.iter().filter(is_before)
    };
    let ends = before().map(|crossing| crossing.delivered.map_or(syn, |at| at.min(syn)));
    match (before().next(), ends.max()) {
        (Some(first), Some(end)) => end.seconds_since(first.offered),
        (None, _) | (_, None) => 0.0,
    }
}

/// Counts a packet that came to the link before the handshake's end.
fn add_to_handshake(row: &mut Row, crossing: &Crossing, phases: &Phases) {
    if crossing.offered <= phases.finished {
        let bytes = match crossing.direction {
            Direction::Up => &mut row.handshake_bytes_up,
            Direction::Down => &mut row.handshake_bytes_down,
        };
        *bytes += crossing.packet.len() as u64;
    }
}

/// Where two streams first differ, in words.
pub(crate) fn difference(exchange: &Exchange) -> String {
    let of = |name: &str, streams: &StreamPair| {
        let (sent, received) = (streams.sent.bytes(), streams.received.bytes());
        let first = sent.iter().zip(received).position(|(a, b)| a != b);
        match first {
            Some(at) => Some(format!("{name}: byte {at} differs")),
            None if sent.len() != received.len() => Some(format!(
                "{name}: {} bytes sent, {} received",
                sent.len(),
                received.len()
            )),
            None if !streams.is_identical() => {
                Some(format!("{name}: a segment contradicts another"))
            }
            None => None,
        }
    };
    of("client to server", &exchange.up)
        .or_else(|| of("server to client", &exchange.down))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use tandem_trace::samples::conversation;
    use tandem_wire::tls::ProtocolVersion;

    use super::*;
    use crate::synthetic::row;

    #[test]
    fn of_a_tunnel_all_packets_until_finished_count_and_no_tls_is_seen() -> Result<(), String> {
        let seen = conversation(&[(true, b"hello"), (false, b"answer")]);
        let exchange = Exchange::find(&seen, &seen, 443).ok_or("no connection found")?;
        let after = |seconds| exchange.syn + Duration::from_secs(seconds);
        let phases = Phases {
            version: ProtocolVersion::TLS1_2,
            up_end: 5,
            down_end: 6,
            finished: after(3),
            first_byte: None,
            flights: FULL_FLIGHTS,
        };
        let crossing = |direction, seconds, fate| Crossing {
            direction,
            offered: after(seconds),
            delivered: None,
            fate,
            words: String::new(),
            packet: vec![0; 100],
        };
        let crossings = [
            crossing(Direction::Up, 1, Fate::Taken),
            crossing(Direction::Up, 2, Fate::Refused),
            crossing(Direction::Down, 2, Fate::Taken),
            crossing(Direction::Down, 3, Fate::Taken),
            crossing(Direction::Up, 4, Fate::Taken),
        ];
        let measured = |arm| {
            let mut row = Row {
                tls_bytes_up: None,
                tls_bytes_down: None,
                option_bytes: None,
                handshake_bytes_up: 0,
                handshake_bytes_down: 0,
                ..row("iridium", "one", arm, 1.0, 2000)
            };
            measure(&mut row, &exchange, &phases, &crossings);
            row
        };
        let tunnel = measured(Arm::Tunnel);
        assert_eq!(
            (tunnel.handshake_bytes_up, tunnel.handshake_bytes_down),
            (100, 200)
        );
        assert_eq!((tunnel.tls_bytes(), tunnel.option_bytes), (None, None));
        assert_eq!(tunnel.seconds_handshake, Some(3.0));
        // What is not the connection's own is not a routed handshake's.
        let plain = measured(Arm::Plain);
        assert_eq!((plain.handshake_bytes(), plain.tls_bytes()), (0, Some(0)));
        Ok(())
    }

    #[test]
    fn a_set_up_before_the_syn_counts_for_as_long_as_it_took() {
        let at = |seconds| Moment::from_duration(Duration::from_secs(seconds));
        let crossing = |offered, delivered| Crossing {
            direction: Direction::Up,
            offered: at(offered),
            delivered: Some(at(delivered)),
            fate: Fate::Taken,
            words: String::new(),
            packet: Vec::new(),
        };
        let crossings = [crossing(10, 11), crossing(12, 14), crossing(20, 21)];
        assert_eq!(set_up_before(&crossings, at(18)), 4.0, "it was over");
        assert_eq!(set_up_before(&crossings, at(13)), 3.0, "it was under way");
        assert_eq!(set_up_before(&crossings, at(9)), 0.0, "it was up before");
        assert_eq!(set_up_before(&[], at(9)), 0.0);
    }

    #[test]
    fn nothing_is_told_of_how_certificates_cross_a_tunnel() {
        let seen = conversation(&[(true, b"hello"), (false, b"answer")]);
        let of = |arm| {
            let row = row("iridium", "one", arm, 1.0, 2000);
            let seen = (seen.clone(), seen.clone());
            judged(row, Outcome::Success, Vec::new(), &seen).row
        };
        assert_eq!(of(Arm::Tunnel).crossed, None);
        assert!(of(Arm::Tunnel).identical);
        assert!(of(Arm::Plain).crossed.is_some());
    }

    #[test]
    fn a_tunnel_s_link_must_be_idle_for_longer_than_its_timers() -> Result<(), LabError> {
        let of = |arm, link| {
            let link = tandem_testbed::LinkSpec::preset(link).config()?;
            Ok::<_, LabError>(quiet(arm, &link))
        };
        assert_eq!(of(Arm::Packet, "iridium")?, QUIET);
        assert_eq!(
            of(Arm::Tunnel, "iridium")?,
            QUIET + Duration::from_millis(2_400)
        );
        assert_eq!(of(Arm::TunnelCold, "tcdl-10")?, QUIET);
        Ok(())
    }

    #[test]
    fn what_an_endpoint_sends_again_is_counted() -> Result<(), String> {
        let mut seen = conversation(&[(true, b"hello"), (false, b"answer")]);
        let exchange = Exchange::find(&seen, &seen, 443).ok_or("no connection found")?;
        let count =
            |seen: &[Seen]| [exchange.client, exchange.server].map(|end| repeats(seen, end));
        assert_eq!(count(&seen), [0, 0]);
        seen.push(seen[3].clone());
        seen.push(seen[1].clone());
        seen.push(seen[3].clone());
        assert_eq!(count(&seen), [0, 3]);
        Ok(())
    }
}
