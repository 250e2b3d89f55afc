//! A soak: very many handshakes of mixed clients and servers through two proxies, over a link that
//! harms packets, while the proxies are killed, restarted and robbed of their stores.
//!
//! ```text
//!   first half    loss, duplication, reordering; SIGKILL and restart of either proxy, stores wiped
//!   second half   loss, duplication, reordering; the proxies run through, and are watched for growth
//! ```
//!
//! Through the tunnel, the link is cut for some seconds too, now and then in the first half.
//!
//! With consent, all is TLS 1.3 through the tunnel, and programs that use OpenSSL release their
//! handshake keys; on their way to the proxies these are harmed, too.
//!
//! Some clients return with sessions, by identifier and by ticket, and some show certificates of
//! their own.
//!
//! No connection may fail: plain TCP repeats what such a link loses, and a proxy in packet mode
//! that dies costs a retransmission. In tunnel mode TCP ends at the proxies, so that connections
//! die with the one that is killed. Those that were under way then, or begun before it was back,
//! are counted apart, and each time there may be no more of them than that explains; so are those
//! that were refused where the client side was, until its rules were gone or it was back. The seed
//! settles the faults and the link's chance; which connection they hit is up to the machine.

mod keys;
mod load;
mod pair;
mod sites;
mod tally;

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use tandem_netsim::link::{
    DirectionConfig, DirectionCounters, Duplication, LinkConfig, Loss, Reordering,
};
use tandem_netsim::{BitRate, Probability};

use crate::interop::servers::Site;
use crate::interop::tools::Tools;
use crate::interop::version::VERSIONS;
use tandem_report::RunInfo;
use tandem_testbed::LabError;
use tandem_testbed::client;
use tandem_testbed::console::{self, Console, human_duration};
use tandem_testbed::effort::Effort;
use tandem_testbed::emulator::Emulator;
use tandem_testbed::endpoints::{self, Version};
use tandem_testbed::interrupt;
use tandem_testbed::lease::Lease;
use tandem_testbed::links::LinkFigures;
use tandem_testbed::pki::{self, Chain, ChainSpec, KeyKind};
use tandem_testbed::proxies::{self, Mode, Prefer};
use tandem_testbed::server::Server as RunningServer;
use tandem_testbed::topology::{Host, Topology};

use keys::{KeyFaults, KeyPath};
use load::{Fared, Load, Report};
use pair::{Counted, Pair, Side, Size, StoreFate};
use sites::{Asked, Row, SITES};
use tally::{Faults, Harm, Summary, Tally};

/// The link: fast, so that the processor is what limits the handshakes.
const BITS_PER_SECOND: u64 = 100_000_000;
const ONE_WAY: Duration = Duration::from_millis(2);
/// Room for all connections' flights at a time: the link's chance is to lose packets, not its
/// queue.
const QUEUE_BYTES: usize = 2 << 20;

/// Of packets, each way.
const LOST: f64 = 0.01;
const DUPLICATED: f64 = 0.01;
const REORDERED: f64 = 0.02;
/// More than the delay between two packets of a flight, so that a packet that is held back is
/// overtaken.
const HELD_BACK: Duration = Duration::from_millis(3);

/// Between two kills, seconds.
const KILLS_APART: Range<f64> = 1.0..6.0;
/// How long a killed daemon stays away, seconds: often not at all.
const AWAY: Range<f64> = -1.0..2.0;
/// Of restarts, those that find their store gone.
const WIPED: f64 = 0.4;
/// Of kills, those that hit both.
const BOTH: f64 = 0.2;

/// In the half without kills: when growth begins to count, once what a start costs is over.
const SETTLED: Duration = Duration::from_secs(10);

/// Of faults in tunnel mode, those that cut the link.
const CUTS: f64 = 0.4;
/// How long a cut lasts, seconds: no client's patience is at an end.
const CUT: Range<f64> = 0.2..8.0;
/// How long a tunnel may take to be up again, once both its ends run: where every client waits for
/// an answer of a server side that was killed, nothing is said in the old tunnel until the first of
/// them has lost its patience (`load::LIMIT`).
const UP_AGAIN: Duration = Duration::from_secs(80);
/// Who is refused is so at once.
const AT_ONCE: Duration = Duration::from_secs(1);
/// Each time that proxies are killed, connections that may be cut off in place of each that clients
/// have at once: the one that was under way, and one that was begun before the tunnel was known to
/// be dead.
const CUT_OFF_EACH: u64 = 2;
/// What clients measure begins a little after they have begun.
const SLACK: Duration = Duration::from_secs(1);

/// Between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(10);

/// Without a report for so long, something hangs that should not.
const SILENCE: Duration = Duration::from_secs(90);

/// What to do.
#[derive(Debug, Clone)]
pub struct SoakOptions {
    /// All programs, or those that need not be compiled.
    pub effort: Effort,
    /// What the proxies do.
    pub through: Through,
    /// Handshakes in all.
    pub handshakes: u64,
    /// Of the faults and of the link's chance.
    pub seed: u64,
    /// Where results go; made where it is missing.
    pub out: PathBuf,
    /// The `tandem` binary for the daemons.
    pub exe: PathBuf,
}

/// What the proxies of a soak do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Through {
    /// Packet mode, safe format.
    #[default]
    Packet,
    /// Tunnel mode.
    Tunnel,
    /// Tunnel mode, TLS 1.3 alone, with the consent of servers and clients.
    TunnelConsent,
}

impl Through {
    /// What files with results are called.
    fn file(self) -> &'static str {
        match self {
            Through::Packet => "soak",
            Through::Tunnel => "soak-tunnel",
            Through::TunnelConsent => "soak-consent",
        }
    }

    /// Whether TCP ends at the proxies.
    fn is_tunnel(self) -> bool {
        match self {
            Through::Packet => false,
            Through::Tunnel | Through::TunnelConsent => true,
        }
    }

    /// The versions that clients speak.
    fn versions(self) -> &'static [Version] {
        match self {
            Through::Packet | Through::Tunnel => &VERSIONS,
            Through::TunnelConsent => &[Version::Tls13],
        }
    }

    fn mode(self, link: &LinkConfig) -> Mode {
        match self {
            Through::Packet => Mode::Safe,
            Through::Tunnel => Mode::Tunnel(LinkFigures::of(link)),
            Through::TunnelConsent => Mode::TunnelWithAllKeys(LinkFigures::of(link), Prefer::Bytes),
        }
    }
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoakSummary {
    /// The page, Markdown.
    pub page: PathBuf,
    /// Connections.
    pub handshakes: u64,
    /// Flights that crossed as deltas.
    pub rewritten: u64,
    /// Flights of TLS 1.3 that crossed opened, servers' and clients'.
    pub sealed: u64,
}

/// Runs it and writes `soak.md`, `soak.jsonl` (one line) and `soak.run.json`; for the tunnel,
/// `soak-tunnel.md` and so on; with consent, `soak-consent.md`.
///
/// # Errors
/// `NotRoot`, `Kernel`, `ProgramMissing`, `Usage` where the lab cannot be built; `BytesDiffer`
/// where a client got another page, `TrialsFailed` where one did not get it, `Command` where a
/// daemon died, did not end or left rules (all is written nevertheless); `Interrupted`.
pub fn soak(options: &SoakOptions) -> Result<SoakSummary, LabError> {
    interrupt::watch()?;
    let console = Console::default();
    let lease = Lease::any()?;
    fs::create_dir_all(&options.out)
        .map_err(LabError::io(format!("make {}", options.out.display())))?;
    let tools = Tools::prepare(&lease.directory(), &options.exe)?;
    let shown = pki::issue_client(
        &lease.directory(),
        "client",
        &ChainSpec {
            key: KeyKind::Rsa2048,
            length: 2,
            leaf_bytes: None,
            issuer_bytes: None,
        },
    )?;
    let summary = Run::build(options, &tools, &shown, &console)?.finish()?;
    write(&summary, options)
}

/// Whether a proxy is away, or was, that had ended the TCP of connections.
#[derive(Debug, Clone, Copy)]
enum Away {
    Never,
    Now,
    Until(Instant),
}

impl Away {
    /// Whether it was so at this time or later.
    fn is_after(self, begun: Instant) -> bool {
        match self {
            Away::Never => false,
            Away::Now => true,
            Away::Until(back) => begun <= back,
        }
    }
}

/// A soak that stands. Fields are dropped in this order: the hosts go last.
struct Run<'a> {
    load: Load,
    pair: Pair,
    /// The clients' keys' way to their proxy, and the servers'.
    keys: Vec<KeyPath>,
    _servers: Vec<RunningServer>,
    sites: Vec<Row>,
    emulator: Emulator,
    reports: Receiver<Report>,
    options: &'a SoakOptions,
    console: &'a Console,
    /// When progress was last told, and the handshakes by then.
    told: (Instant, u64),
    /// When a client last said something.
    heard: Instant,
    /// When a proxy was last away whose connections died with it.
    away: Away,
    /// When the client side was, to whose port its rules lead.
    refusing: Away,
    /// When proxies were last killed.
    killed: Instant,
    /// Connections that were cut off since proxies were last killed.
    cut_off: u64,
    topology: Topology,
}

impl<'a> Run<'a> {
    fn build(
        options: &'a SoakOptions,
        tools: &Tools,
        shown: &Chain,
        console: &'a Console,
    ) -> Result<Self, LabError> {
        let config = link()?;
        let (topology, ends) = Topology::build(config.up.mtu)?;
        let mode = options.through.mode(&config);
        let emulator = Emulator::start(ends, config, options.seed, None)?;
        let (keys, [of_clients, of_servers]) = match options.through {
            Through::Packet | Through::Tunnel => Default::default(),
            Through::TunnelConsent => {
                let library = client::keytap(&options.exe)?;
                let keys = key_paths(&topology, options.seed)?;
                let releasing = keys.each_ref().map(|path| {
                    endpoints::releasing(library.clone(), path.socket().to_owned()).to_vec()
                });
                (Vec::from(keys), releasing)
            }
        };
        let (mut servers, mut sites) = (Vec::new(), Vec::new());
        let wanted = |row: &Row| match options.effort {
            Effort::Full => true,
            Effort::Quick => row.server == SITES[0].server,
        };
        for row in SITES.into_iter().filter(wanted) {
            let (server, port) = (row.server, row.port);
            if !server.is_installed() {
                console.say(&format!("without {}: it is not installed", server.name()));
                continue;
            }
            server.prepare(tools)?;
            let directory = topology.directory().join(format!("server-{port}"));
            fs::create_dir_all(&directory).map_err(LabError::io("make a directory"))?;
            let site = Site {
                port,
                low: Version::Tls10,
                high: Version::Tls13,
                sessions: row.sessions,
                clients: match row.asked {
                    Asked::Nothing => None,
                    Asked::Certificate => Some(&shown.root),
                },
                releasing: &of_servers,
            };
            let namespace = topology.host(Host::Server);
            servers.push(server.start(namespace, tools, &directory, site)?);
            sites.push(row);
        }
        let words: Vec<String> = sites.iter().map(|site| site.port.to_string()).collect();
        let pair = Pair::start(&options.exe, &topology, &words.join(","), mode)?;
        let (sender, reports) = mpsc::channel();
        let load = Load::start(
            topology.host(Host::Client),
            tools,
            shown,
            &load::Asking {
                sites: &sites,
                effort: options.effort,
                versions: options.through.versions(),
                releasing: &of_clients,
            },
            &sender,
        )?;
        let names: Vec<String> = sites
            .iter()
            .map(|site| format!("{} {}", site.server.name(), site.word()))
            .collect();
        console.say(&format!(
            "{} against {} (r: clients return with sessions; c: they show certificates)",
            load.names.join(", "),
            names.join(", ")
        ));
        Ok(Self {
            load,
            pair,
            keys,
            _servers: servers,
            sites,
            emulator,
            reports,
            options,
            console,
            told: (Instant::now(), 0),
            heard: Instant::now(),
            away: Away::Never,
            refusing: Away::Never,
            killed: Instant::now(),
            cut_off: 0,
            topology,
        })
    }

    fn finish(mut self) -> Result<Summary, LabError> {
        let begun = Instant::now();
        let mut tally = Tally::default();
        let wanted = self.options.handshakes;
        let faults = self.harm_daemons(&mut tally, wanted / 2)?;
        self.console
            .say("the proxies run through from here on, and are watched for growth");
        let (early, early_at) = self.settle(&mut tally, wanted)?;
        self.run_until(&mut tally, |tally| tally.handshakes() >= wanted)?;
        let late = self.pair.sizes(&self.topology)?;
        let between = tally.handshakes() - early_at;
        self.load.end();
        while let Ok(report) = self.reports.try_recv() {
            self.count(&mut tally, report);
        }
        let explained = self.load.parallel * CUT_OFF_EACH;
        let seconds = begun.elapsed().as_secs_f64();
        let counted = self.pair.counted(&self.topology);
        let harm = harm(&self.emulator);
        let keys = self.keys.iter_mut().map(KeyPath::end);
        let keys = keys.reduce(KeyFaults::plus).unwrap_or_default();
        let rules_left = self.pair.end(&self.topology)?;
        Ok(Summary {
            wanted,
            through: self.options.through,
            seed: self.options.seed,
            seconds,
            servers: self
                .sites
                .iter()
                .map(|site| (site.port, site.server.name()))
                .collect(),
            tally,
            explained,
            counted,
            faults,
            keys,
            harm,
            early,
            late,
            between,
            rules_left,
        })
    }

    /// Counts a connection; one that failed, as cut off or refused where it was under way while a
    /// proxy was away in which its TCP ended.
    fn count(&mut self, tally: &mut Tally, report: Report) {
        let taken = Duration::from_millis(report.milliseconds);
        let begun = report.at - taken;
        let was_cut = report.fared == Fared::Failed && self.away.is_after(begun - SLACK);
        let was_refused = taken < AT_ONCE && self.killed < begun;
        if was_cut && was_refused && self.refusing.is_after(begun - SLACK) {
            tally.refused += 1;
        } else if was_cut {
            tally.cut_off += 1;
            self.cut_off += 1;
            tally.most_cut_off = tally.most_cut_off.max(self.cut_off);
        } else {
            tally.add(report, &self.sites);
        }
    }

    /// Cuts the link for some seconds.
    fn cut_link(&mut self, tally: &mut Tally, seconds: f64) -> Result<(), LabError> {
        let all = Probability::new(1.0)
            .map_err(|error| LabError::usage("the soak's cut", error.to_string()))?;
        self.emulator
            .reconfigure(link()?.with_both(|direction: &mut DirectionConfig| {
                direction.loss = Loss::Independent(all);
            }));
        self.run_for(tally, seconds, u64::MAX)?;
        self.emulator.reconfigure(link()?);
        Ok(())
    }

    /// Waits until a tunnel is up again, counting reports.
    fn wait_for_tunnel(&mut self, tally: &mut Tally) -> Result<(), LabError> {
        let begun = Instant::now();
        while !self.pair.has_tunnel(&self.topology) {
            if begun.elapsed() > UP_AGAIN {
                return Err(LabError::Command {
                    command: "the tunnel between two proxies that run".to_owned(),
                    why: format!("is not up after {}", human_duration(UP_AGAIN)),
                });
            }
            self.run_for(tally, 0.1, u64::MAX)?;
        }
        Ok(())
    }

    /// Kills and restarts daemons, and cuts the link between those of a tunnel, until there have
    /// been so many handshakes.
    fn harm_daemons(&mut self, tally: &mut Tally, until: u64) -> Result<Faults, LabError> {
        let mut chance = Pcg64Mcg::seed_from_u64(self.options.seed);
        let mut faults = Faults::default();
        while tally.handshakes() < until {
            self.run_for(tally, chance.random_range(KILLS_APART), until)?;
            if self.options.through.is_tunnel() && chance.random_bool(CUTS) {
                self.cut_link(tally, chance.random_range(CUT))?;
                faults.link_cut += 1;
                continue;
            }
            if self.options.through.is_tunnel() {
                (self.away, self.cut_off) = (Away::Now, 0);
            }
            let sides: &[Side] = if chance.random_bool(BOTH) {
                &[Side::Client, Side::Server]
            } else if chance.random_bool(0.5) {
                &[Side::Client]
            } else {
                &[Side::Server]
            };
            self.killed = Instant::now();
            for side in sides {
                self.pair.kill(&self.topology, *side);
                match side {
                    Side::Client => {
                        self.refusing = Away::Now;
                        faults.client_side_killed += 1;
                    }
                    Side::Server => faults.server_side_killed += 1,
                }
            }
            self.run_for(tally, chance.random_range(AWAY).max(0.0), u64::MAX)?;
            for side in sides {
                let fate = if chance.random_bool(WIPED) {
                    StoreFate::Wiped
                } else {
                    StoreFate::Kept
                };
                match fate {
                    StoreFate::Wiped => {
                        self.pair.wipe(*side)?;
                        faults.stores_wiped += 1;
                    }
                    StoreFate::Kept => {}
                }
                self.pair.restart(&self.topology, *side)?;
                match side {
                    Side::Client => self.refusing = Away::Until(Instant::now()),
                    Side::Server => {}
                }
            }
            if self.options.through.is_tunnel() {
                self.wait_for_tunnel(tally)?;
                self.away = Away::Until(Instant::now());
            }
        }
        Ok(faults)
    }

    /// Lets what starts cost pass, and takes the daemons' measure: with the handshakes made by
    /// then.
    fn settle(&mut self, tally: &mut Tally, until: u64) -> Result<([Size; 2], u64), LabError> {
        self.run_for(tally, SETTLED.as_secs_f64(), until)?;
        Ok((self.pair.sizes(&self.topology)?, tally.handshakes()))
    }

    /// Counts reports for some seconds, or until there have been so many handshakes.
    fn run_for(&mut self, tally: &mut Tally, seconds: f64, until: u64) -> Result<(), LabError> {
        let end = Instant::now() + Duration::from_secs_f64(seconds);
        self.run_until(tally, |tally| {
            Instant::now() >= end || tally.handshakes() >= until
        })
    }

    fn run_until(
        &mut self,
        tally: &mut Tally,
        is_over: impl Fn(&Tally) -> bool,
    ) -> Result<(), LabError> {
        while !is_over(tally) {
            interrupt::check()?;
            match self.reports.recv_timeout(Duration::from_millis(50)) {
                Ok(report) => {
                    self.heard = Instant::now();
                    self.count(tally, report);
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            if self.heard.elapsed() > SILENCE || !self.load.is_running() {
                return Err(LabError::Command {
                    command: "a client of the soak".to_owned(),
                    why: "it has ended, or all are silent".to_owned(),
                });
            }
            let (at, by_then) = self.told;
            if at.elapsed() >= PROGRESS {
                let rate = (tally.handshakes() - by_then) as f64 / at.elapsed().as_secs_f64();
                let counted = self.pair.counted(&self.topology);
                self.console
                    .say(&in_words(tally, self.options.handshakes, rate, counted));
                self.told = (Instant::now(), tally.handshakes());
            }
        }
        Ok(())
    }
}

/// The ways of keys to the client side, and to the server side.
fn key_paths(topology: &Topology, seed: u64) -> Result<[KeyPath; 2], LabError> {
    let path = |side: u64, daemon: &Path| {
        let from = topology.directory().join(format!("harmed-keys-{side}"));
        KeyPath::start(&from, daemon, seed + side)
    };
    let [of_clients, of_servers] = proxies::key_sockets(topology);
    Ok([path(0, &of_clients)?, path(1, &of_servers)?])
}

/// The link with its harm.
fn link() -> Result<LinkConfig, LabError> {
    let chance = |share: f64| {
        Probability::new(share)
            .map_err(|error| LabError::usage("the soak's link", error.to_string()))
    };
    let (lost, duplicated, reordered) = (chance(LOST)?, chance(DUPLICATED)?, chance(REORDERED)?);
    let rate = BitRate::from_bits_per_second(BITS_PER_SECOND);
    Ok(
        LinkConfig::new(rate, rate, ONE_WAY).with_both(|direction: &mut DirectionConfig| {
            direction.queue_limit = QUEUE_BYTES;
            direction.loss = Loss::Independent(lost);
            direction.duplication = Duplication {
                probability: duplicated,
                after: Duration::ZERO,
            };
            direction.reordering = Reordering {
                probability: reordered,
                extra_delay: HELD_BACK,
            };
        }),
    )
}

fn harm(emulator: &Emulator) -> Harm {
    let counters = emulator.counters();
    let sum = |of: fn(&DirectionCounters) -> u64| of(&counters.up) + of(&counters.down);
    Harm {
        packets: sum(|way| way.offered_packets),
        lost: sum(|way| way.lost),
        duplicated: sum(|way| way.duplicated),
        reordered: sum(|way| way.reordered),
    }
}

fn in_words(tally: &Tally, wanted: u64, rate: f64, counted: Counted) -> String {
    let left = wanted.saturating_sub(tally.handshakes()) as f64 / rate.max(0.1);
    format!(
        "{} of {wanted} handshakes, {rate:.0}/s, {} resumed, {} mutual, {} failed, {} cut off, {} differ, {} flights rewritten, {} misses; about {} to go",
        tally.handshakes(),
        tally.resumed(),
        tally.mutual(),
        tally.failed,
        tally.cut_off,
        tally.differing,
        counted.flights_written,
        counted.misses,
        human_duration(Duration::from_secs_f64(left.min(1e6)))
    )
}

fn write(summary: &Summary, options: &SoakOptions) -> Result<SoakSummary, LabError> {
    let file = |kind: &str| {
        options
            .out
            .join(format!("{}.{kind}", options.through.file()))
    };
    let (page, line) = (file("md"), file("jsonl"));
    let text = summary.page();
    fs::write(&page, &text).map_err(LabError::io(format!("write {}", page.display())))?;
    let failed = || LabError::io(format!("write {}", line.display()));
    let mut json = serde_json::to_string(summary).map_err(|error| failed()(error.into()))?;
    json.push('\n');
    fs::write(&line, json).map_err(failed())?;
    RunInfo::here().write_beside(&line)?;
    console::result(&text);
    let tally = &summary.tally;
    // A usize counts what fits the memory.
    let in_words = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    if tally.differing > 0 {
        return Err(LabError::BytesDiffer {
            differing: in_words(tally.differing),
            trials: in_words(tally.handshakes()),
            rows: page,
        });
    }
    if tally.failed > 0 {
        return Err(LabError::TrialsFailed {
            failed: in_words(tally.failed),
            trials: in_words(tally.handshakes()),
            why: tally.failures.first().cloned().unwrap_or_default(),
        });
    }
    if tally.most_cut_off > summary.explained {
        return Err(LabError::Command {
            command: "connections while a proxy was killed and started anew".to_owned(),
            why: format!(
                "{} failed, and no more than {} are explained by that",
                tally.most_cut_off, summary.explained
            ),
        });
    }
    if summary.rules_left > 0 {
        return Err(LabError::Command {
            command: "taking down the daemons' rules".to_owned(),
            why: format!("{} lines are left", summary.rules_left),
        });
    }
    Ok(SoakSummary {
        page,
        handshakes: tally.handshakes(),
        rewritten: summary.counted.flights_written,
        sealed: summary.counted.flights_sealed,
    })
}
