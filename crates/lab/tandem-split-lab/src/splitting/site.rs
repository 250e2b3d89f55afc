//! A site with its origin on one side of a link, and volunteers and clients on the other.
//!
//! ```text
//!   client ------- client-side ============== server-side ------- server
//!   curl           volunteers    the link                         tandem split origin, nginx
//! ```
//!
//! nginx serves the same files by HTTP, by HTTPS as it comes, by HTTPS with the suite that
//! splitting uses, and to the origin in front of it. Clients that go to nginx cross the link; those
//! that go to a volunteer do not, and the volunteer does.
//!
//! Invariants: bytes are counted by the link alone, processor time by the kernel; one connection
//! and one full handshake a request.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::unistd::Pid;
use tandem_netsim::link::{DirectionCounters, LinkConfig, LinkCounters};
use tandem_store::Digest;

use super::tree::{Object, Tree};
use tandem_report::split_row::{Delivery, Part, SplitRow};
use tandem_testbed::LabError;
use tandem_testbed::emulator::Emulator;
use tandem_testbed::endpoints::Endpoints;
use tandem_testbed::netns::Namespace;
use tandem_testbed::nginx;
use tandem_testbed::pki::{self, Chain};
use tandem_testbed::server::Server;
use tandem_testbed::topology::{Host, Topology};

/// Where nginx and the origin are.
const AT_ORIGIN: &str = "10.77.3.2";
/// Where volunteers are.
const AT_VOLUNTEER: &str = "10.77.1.1";
/// nginx, plain HTTP.
const HTTP: u16 = 80;
/// nginx, HTTPS as it comes.
const HTTPS: u16 = 443;
/// nginx, HTTPS with one suite.
const HTTPS_CBC: u16 = 444;
/// The origin.
const ORIGIN: u16 = 7443;
/// The first volunteer; each one more takes the next.
const VOLUNTEERS: u16 = 9001;

/// What volunteers' clients and the origin agree on: c013.
const CBC_SUITE: &str = "ECDHE-RSA-AES128-SHA";

/// The link is quiet when nothing has crossed it for four of its delays and this long: a delayed
/// acknowledgement takes 40 ms.
const QUIET: Duration = Duration::from_millis(80);

/// Largest packet of the link.
const MTU: usize = 1500;

/// Who answers, out of a client's view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source<'a> {
    /// nginx on the far side of the link: HTTP, HTTPS or HTTPS with the one suite.
    Nginx(Delivery),
    /// nginx in the place of a volunteer.
    Near(Delivery),
    /// A volunteer.
    Volunteer(&'a Volunteer),
}

/// A volunteer that runs, until dropped.
#[derive(Debug)]
pub(crate) struct Volunteer {
    port: u16,
    process: Server,
}

impl PartialEq for Volunteer {
    fn eq(&self, other: &Self) -> bool {
        self.port == other.port
    }
}

impl Eq for Volunteer {}

/// How a request went.
#[derive(Debug)]
pub(crate) struct Fetched {
    /// Until its last byte, by the client's clock.
    pub(crate) seconds: f64,
    /// Whether the body was the server's; `Err`: the client's words.
    pub(crate) outcome: Result<bool, String>,
}

/// See above. Whoever runs is ended before the link and the hosts are.
#[derive(Debug)]
pub(crate) struct Site {
    origin: Server,
    server: Server,
    /// nginx in the place of a volunteer, where there is one.
    near: Option<Server>,
    emulator: Emulator,
    /// The files.
    pub(crate) tree: Tree,
    chain: Chain,
    exe: PathBuf,
    next_port: u16,
    quiet: Duration,
    topology: Topology,
}

impl Site {
    /// Builds it, with no volunteer and no file yet.
    ///
    /// # Errors
    /// `NotRoot`, `Kernel`, `ProgramMissing`, `Command`, `Io`, `Interrupted`.
    pub(crate) fn build(exe: &Path, link: LinkConfig, seed: u64) -> Result<Self, LabError> {
        let (topology, ends) = Topology::build(MTU)?;
        let delay = link.up.delay.max(link.down.delay);
        let emulator = Emulator::start(ends, link, seed, None)?;
        let directory = topology.directory();
        // The kernel would start a connection with what it learned from another, which may have
        // gone another way.
        for host in Host::ALL {
            topology.host(host).set("ipv4/tcp_no_metrics_save", "1")?;
        }
        let chain = pki::issue(&directory, "chain", &Endpoints::one().chain_spec())?;
        let root = directory.join("www");
        let tree = Tree::create(&root, seed)?;
        let at_server = topology.host(Host::Server);
        let server = nginx(at_server, &directory.join("nginx"), &root, &chain)?;
        let mut command = Command::new(exe);
        command
            .args(["split", "origin", "--log", "warn", "--listen"])
            .arg(format!("{AT_ORIGIN}:{ORIGIN}"))
            .args(["--upstream", &format!("http://127.0.0.1:{HTTP}"), "--cert"])
            .arg(&chain.full)
            .arg("--key")
            .arg(&chain.key);
        let log = directory.join("origin.log");
        let origin = Server::launch(at_server, &mut command, ORIGIN, &log)?;
        Ok(Self {
            origin,
            server,
            near: None,
            emulator,
            tree,
            chain,
            exe: exe.to_owned(),
            next_port: VOLUNTEERS,
            quiet: QUIET + 4 * delay,
            topology,
        })
    }

    /// Starts one more volunteer, which holds nothing. `rate`: kB each second to its clients.
    ///
    /// # Errors
    /// As [`Site::build`].
    pub(crate) fn volunteer(&mut self, rate: Option<u32>) -> Result<Volunteer, LabError> {
        let port = self.next_port;
        self.next_port += 1;
        let mut command = Command::new(&self.exe);
        command
            .args(["split", "volunteer", "--log", "error", "--origin"])
            .arg(format!("{AT_ORIGIN}:{ORIGIN}"))
            .args(["--listen", &format!("{AT_VOLUNTEER}:{port}")]);
        if let Some(rate) = rate {
            command.args(["--rate", &rate.to_string()]);
        }
        let log = self
            .topology
            .directory()
            .join(format!("volunteer-{port}.log"));
        let host = self.topology.host(Host::ClientSide);
        let process = Server::launch(host, &mut command, port, &log)?;
        Ok(Volunteer { port, process })
    }

    /// Starts nginx with the same files in the place of a volunteer.
    ///
    /// # Errors
    /// As [`Site::build`].
    pub(crate) fn serve_near(&mut self) -> Result<(), LabError> {
        let directory = self.topology.directory();
        let host = self.topology.host(Host::ClientSide);
        let near = nginx(
            host,
            &directory.join("near"),
            &directory.join("www"),
            &self.chain,
        )?;
        self.near = Some(near);
        Ok(())
    }

    /// Has the link be another from now on.
    pub(crate) fn reconfigure(&mut self, link: LinkConfig) {
        self.quiet = QUIET + 4 * link.up.delay.max(link.down.delay);
        self.emulator.reconfigure(link);
    }

    /// Gets a file, for at most `limit`, and compares it with the server's.
    ///
    /// # Errors
    /// `ProgramMissing`, `Io`. A request that fails is an outcome.
    pub(crate) fn fetch(
        &self,
        from: Source<'_>,
        object: &Object,
        limit: Duration,
    ) -> Result<Fetched, LabError> {
        let (scheme, address, port) = match from {
            Source::Nginx(delivery) => (scheme(delivery), AT_ORIGIN, port(delivery)),
            Source::Near(delivery) => (scheme(delivery), AT_VOLUNTEER, port(delivery)),
            Source::Volunteer(volunteer) => ("https", AT_VOLUNTEER, volunteer.port),
        };
        let name = self.chain.name;
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail", "--http1.1"])
            .args(["--noproxy", "*", "--max-time"])
            .arg(limit.as_secs().max(1).to_string())
            .arg("--cacert")
            .arg(&self.chain.root)
            .args(["--resolve", &format!("{name}:{port}:{address}")])
            .args(["--write-out", "%{stderr}\n%{time_total}"])
            .arg(format!("{scheme}://{name}:{port}{}", object.path))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = self.topology.host(Host::Client).spawn(&mut curl)?;
        let output = child
            .wait_with_output()
            .map_err(LabError::io("wait for curl"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let (words, seconds) = said.rsplit_once('\n').unwrap_or_default();
        let seconds = seconds.trim().parse().unwrap_or(0.0);
        let outcome = if output.status.success() {
            Ok(Digest::of(&output.stdout) == object.digest)
        } else {
            Err(format!("{}, {}: {}", object.path, port, words.trim()))
        };
        Ok(Fetched { seconds, outcome })
    }

    /// Waits until nothing crosses the link any more.
    ///
    /// # Errors
    /// `Interrupted`.
    pub(crate) fn settle(&self) -> Result<(), LabError> {
        self.emulator.settle(self.quiet, Duration::from_secs(60))?;
        // Nobody asks for packets one by one here.
        drop(self.emulator.take_log());
        Ok(())
    }

    /// Does some work and makes a row of what it returns, with what it has cost. `serving` are the
    /// volunteers whose time counts.
    ///
    /// # Errors
    /// What `work` says; `Interrupted`.
    pub(crate) fn measured(
        &self,
        about: About<'_>,
        serving: &[&Volunteer],
        work: impl FnOnce(&Self) -> Result<Vec<Fetched>, LabError>,
    ) -> Result<SplitRow, LabError> {
        self.settle()?;
        let before = self.emulator.counters();
        let clocks = self.clocks(serving);
        let fetched = work(self)?;
        self.settle()?;
        let [origin_us, server_us, volunteer_us] = self.clocks(serving).since(&clocks);
        let counted = since(before, self.emulator.counters());
        let error = fetched.iter().find_map(|one| one.outcome.clone().err());
        Ok(SplitRow {
            part: about.part,
            link: about.link.to_owned(),
            delivery: about.delivery,
            trial: about.trial,
            trace: about.trace.map(str::to_owned),
            volunteers: about.volunteers,
            sizes: about.sizes,
            fresh_bytes: about.fresh_bytes,
            link_bytes_up: counted.up.ip_bytes,
            link_bytes_down: counted.down.ip_bytes,
            link_packets_up: counted.up.packets,
            link_packets_down: counted.down.packets,
            link_dropped: counted.up.dropped_queue + counted.down.dropped_queue,
            seconds: fetched.iter().map(|one| one.seconds).sum(),
            origin_us,
            server_us,
            volunteer_us,
            ok: error.is_none(),
            identical: fetched.iter().all(|one| one.outcome == Ok(true)),
            error,
        })
    }

    fn clocks(&self, serving: &[&Volunteer]) -> Clocks {
        let nginx = [Some(&self.server), self.near.as_ref()];
        let volunteers = serving.iter().map(|volunteer| &volunteer.process);
        Clocks([
            clock([&self.origin]),
            clock(nginx.into_iter().flatten()),
            clock(volunteers),
        ])
    }
}

/// What a row is about.
#[derive(Debug, Clone)]
pub(crate) struct About<'a> {
    pub(crate) part: Part,
    pub(crate) link: &'a str,
    pub(crate) delivery: Delivery,
    pub(crate) trial: u32,
    pub(crate) trace: Option<&'a str>,
    pub(crate) volunteers: Option<u32>,
    pub(crate) sizes: Vec<u64>,
    pub(crate) fresh_bytes: u64,
}

impl<'a> About<'a> {
    /// One request for one file.
    pub(crate) fn one(
        part: Part,
        link: &'a str,
        delivery: Delivery,
        trial: u32,
        object: &Object,
    ) -> Self {
        Self {
            part,
            link,
            delivery,
            trial,
            trace: None,
            volunteers: None,
            sizes: vec![object.size],
            fresh_bytes: object.size,
        }
    }
}

/// Time on a processor of each process of origin, nginx and volunteers, microseconds.
#[derive(Debug)]
struct Clocks([HashMap<Pid, u64>; 3]);

impl Clocks {
    fn since(&self, before: &Self) -> [u64; 3] {
        let mut grown = [0; 3];
        for (grown, (now, then)) in grown.iter_mut().zip(self.0.iter().zip(&before.0)) {
            *grown = now
                .iter()
                .map(|(pid, now)| now.saturating_sub(then.get(pid).copied().unwrap_or(0)))
                .sum();
        }
        grown
    }
}

/// The kernel's clock of each process: all its threads, also those that have ended
/// (clock_getcpuclockid(3)).
fn clock<'a>(servers: impl IntoIterator<Item = &'a Server>) -> HashMap<Pid, u64> {
    let time = |pid: Pid| {
        let time = nix::time::clock_getcpuclockid(pid).and_then(nix::time::ClockId::now);
        // One that has ended fails its client, which is in the row.
        let micros = time.map_or(0, |time| Duration::from(time).as_micros());
        u64::try_from(micros).unwrap_or(u64::MAX)
    };
    servers
        .into_iter()
        .flat_map(Server::processes)
        .map(|pid| (pid, time(pid)))
        .collect()
}

fn since(before: LinkCounters, after: LinkCounters) -> LinkCounters {
    let direction = |before: DirectionCounters, after: DirectionCounters| DirectionCounters {
        ip_bytes: after.ip_bytes - before.ip_bytes,
        packets: after.packets - before.packets,
        dropped_queue: after.dropped_queue - before.dropped_queue,
        ..after
    };
    LinkCounters {
        up: direction(before.up, after.up),
        down: direction(before.down, after.down),
    }
}

fn scheme(delivery: Delivery) -> &'static str {
    match delivery {
        Delivery::Http => "http",
        Delivery::Https | Delivery::HttpsCbc | Delivery::Cold | Delivery::Warm => "https",
    }
}

fn port(delivery: Delivery) -> u16 {
    match delivery {
        Delivery::Http => HTTP,
        Delivery::Https => HTTPS,
        Delivery::HttpsCbc => HTTPS_CBC,
        // A volunteer has one of its own; nginx does not split.
        Delivery::Cold | Delivery::Warm => ORIGIN,
    }
}

/// nginx with one worker and what its own defaults are but for `sendfile` and `tcp_nopush`, which
/// distributions turn on.
fn nginx(
    host: &Namespace,
    directory: &Path,
    root: &Path,
    chain: &Chain,
) -> Result<Server, LabError> {
    fs::create_dir_all(directory).map_err(LabError::io("make the server's directory"))?;
    let site = |listen: &str, tls: &str| {
        format!(
            "server {{ listen {listen}; server_name {name}; root {root}; {tls} }}\n",
            name = chain.name,
            root = root.display(),
        )
    };
    let certificate = format!(
        "ssl_certificate {}; ssl_certificate_key {};",
        chain.full.display(),
        chain.key.display()
    );
    let sites = format!(
        "server_tokens off; sendfile on; tcp_nopush on; default_type application/octet-stream;\n{}{}{}",
        site(&HTTP.to_string(), ""),
        site(
            &format!("{HTTPS} ssl"),
            &format!("ssl_protocols TLSv1.2 TLSv1.3; {certificate}")
        ),
        site(
            &format!("{HTTPS_CBC} ssl"),
            &format!("ssl_protocols TLSv1.2; ssl_ciphers {CBC_SUITE}; {certificate}")
        ),
    );
    let mut command = nginx::command(directory, &sites)?;
    Server::launch(host, &mut command, HTTPS_CBC, &directory.join("nginx.log"))
}
