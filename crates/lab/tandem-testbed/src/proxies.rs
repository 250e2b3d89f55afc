//! The two daemons of a lab: the `tandem` binary itself, one process in each gateway.
//!
//! What they cost is read from the kernel's accounts of the processes, never from what they say of
//! themselves.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tandem_packet_io::config::DEFAULT_ADMIN_PORT;
use tandem_packet_io::status::{self, Status};

use crate::accounts::{self, Accounts};
use crate::command;
use crate::error::LabError;
use crate::interrupt;
use crate::links::LinkFigures;
use crate::other::Other;
use crate::programs;
use crate::topology::{Host, LINK_DEVICE, SERVER_NETWORKS, SERVER_SIDE_ON_LINK, Topology};

/// A daemon sets its rules and binds its queue in some tens of milliseconds; a busy machine may
/// take longer. OpenSSH says so when its connection is up: its key exchange has 5 kB or more, which
/// take half a minute at 2,400 bit/s.
const READY_LIMIT: Duration = Duration::from_secs(120);

/// A daemon takes its rules down in some tens of milliseconds.
const END_LIMIT: Duration = Duration::from_secs(10);

/// Where the server side of a tunnel listens, UDP.
const TUNNEL_PORT: u16 = 4433;

/// Ports of the lab's servers: HTTPS, and IMAP and MQTT over TLS.
const PORTS: &str = "443,993,8883";

/// What the daemons are told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Packets go to the queue and back, untouched.
    PassThrough,
    /// Packet mode, safe format.
    Safe,
    /// Packet mode, the thesis's format.
    Mcveety,
    /// As [`Mode::Safe`], with client sides that have lost what they claim to hold.
    SafeLosing,
    /// As [`Mode::Mcveety`], likewise.
    McveetyLosing,
    /// Tunnel mode, over a link of which they are told this. What they do with clients' own chains
    /// cannot be chosen.
    Tunnel(LinkFigures),
    /// As [`Mode::Tunnel`], with a server side that takes handshake keys at [`key_socket`].
    TunnelWithKeys(LinkFigures),
    /// As [`Mode::Tunnel`], with a client side that takes them there, and both sides asking for
    /// them so.
    TunnelWithClientKeys(LinkFigures, Prefer),
    /// As [`Mode::Tunnel`], with both sides taking handshake keys, at [`key_sockets`], and asking
    /// clients for them so.
    TunnelWithAllKeys(LinkFigures, Prefer),
    /// As [`Mode::Tunnel`], without deltas: every byte crosses as it is.
    Quic(LinkFigures),
    /// Another program in the daemons' place.
    Other(Other, LinkFigures),
}

/// What a client's key is asked for, as `--prefer` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Prefer {
    /// To be faster.
    Time,
    /// To spare bytes.
    Bytes,
}

impl Prefer {
    fn name(self) -> &'static str {
        match self {
            Prefer::Time => "time",
            Prefer::Bytes => "bytes",
        }
    }
}

/// What the daemons do with clients' own chains, as `--client-certificates` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// The client side remembers what has passed. The daemons' default.
    Persistent,
    /// Clients announce their chains.
    Cii,
    /// The server side publishes what it holds.
    Filter,
    /// Nothing.
    None,
}

impl Strategy {
    fn name(self) -> &'static str {
        match self {
            Strategy::Persistent => "persistent",
            Strategy::Cii => "cii",
            Strategy::Filter => "filter",
            Strategy::None => "none",
        }
    }
}

/// Whether a daemon answers questions about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Admin {
    /// No: where what it costs is measured.
    Off,
    /// Yes, at its default address.
    On,
}

/// Both daemons, until dropped.
#[derive(Debug)]
pub struct Proxies {
    client_side: Daemon,
    server_side: Daemon,
}

/// Where a daemon takes the keys that programs release.
pub fn key_socket(topology: &Topology) -> PathBuf {
    beside(&key_file(topology))
}

/// Where the daemons take them that both do: the client side, and the server side.
pub fn key_sockets(topology: &Topology) -> [PathBuf; 2] {
    let key = key_file(topology);
    [beside_of_clients(&key), beside(&key)]
}

fn key_file(topology: &Topology) -> PathBuf {
    topology.directory().join("key")
}

/// The socket beside the pair's key.
fn beside(key: &Path) -> PathBuf {
    key.with_file_name("released-keys")
}

/// The client side's, where both sides have one.
fn beside_of_clients(key: &Path) -> PathBuf {
    key.with_file_name("released-keys-of-clients")
}

/// What the daemons have used so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Processor time of all threads of both, microseconds.
    pub cpu_micros: u64,
    /// The most memory that either had resident at a time, KiB.
    pub peak_kib: u64,
}

impl Proxies {
    /// Starts both and waits until both are ready. Their stores are in `store`, which is emptied
    /// before; their logs are in the topology's directory.
    ///
    /// # Errors
    /// `Command` with a daemon's own last words where it does not become ready; `Io`,
    /// `Interrupted`.
    pub fn start(
        exe: &Path,
        topology: &Topology,
        mode: Mode,
        strategy: Strategy,
        store: &Path,
        admin: Admin,
    ) -> Result<Self, LabError> {
        if store.exists() {
            fs::remove_dir_all(store).map_err(LabError::io("empty the stores"))?;
        }
        let key = key_file(topology);
        match mode {
            _ if key.exists() => {}
            Mode::Other(other, _) => other.write_keys(&key)?,
            Mode::PassThrough
            | Mode::Safe
            | Mode::Mcveety
            | Mode::SafeLosing
            | Mode::McveetyLosing
            | Mode::Tunnel(_)
            | Mode::TunnelWithKeys(_)
            | Mode::TunnelWithClientKeys(..)
            | Mode::TunnelWithAllKeys(..)
            | Mode::Quic(_) => write_key(&key)?,
        }
        let start = |host: Host| {
            let spec = DaemonSpec {
                exe,
                host,
                mode,
                strategy,
                key: &key,
                store: &store.join(host.name()),
                ports: PORTS,
                admin,
            };
            Daemon::start(topology, &spec)
        };
        // The server side of a tunnel must listen before the client side looks for it.
        let server_side = start(Host::ServerSide)?;
        server_side.wait_until_ready()?;
        let client_side = start(Host::ClientSide)?;
        client_side.wait_until_ready()?;
        Ok(Self {
            client_side,
            server_side,
        })
    }

    /// Puts a client side that holds nothing in place of the one that runs.
    ///
    /// # Errors
    /// As [`Proxies::start`] and [`Proxies::stop`].
    pub fn reset_client_side(
        &mut self,
        exe: &Path,
        topology: &Topology,
        mode: Mode,
        strategy: Strategy,
        store: &Path,
        admin: Admin,
    ) -> Result<(), LabError> {
        self.client_side.end()?;
        let store = store.join(Host::ClientSide.name());
        fs::remove_dir_all(&store).map_err(LabError::io("empty a store"))?;
        self.client_side = Daemon::start(
            topology,
            &DaemonSpec {
                exe,
                host: Host::ClientSide,
                mode,
                strategy,
                key: &topology.directory().join("key"),
                store: &store,
                ports: PORTS,
                admin,
            },
        )?;
        self.client_side.wait_until_ready()
    }

    /// What both say of themselves, the client side first.
    ///
    /// # Errors
    /// `Command` where one does not answer.
    pub fn status(&self, topology: &Topology) -> Result<[Status; 2], LabError> {
        Ok([
            self.client_side.status(topology)?,
            self.server_side.status(topology)?,
        ])
    }

    /// The accounts of both since their start, the client side's first.
    pub fn accounts(&self) -> [Accounts; 2] {
        [&self.client_side, &self.server_side]
            .map(|daemon| accounts::of(&PathBuf::from(format!("/proc/{}", daemon.id()))))
    }

    /// What they have used since their start.
    pub fn usage(&self) -> Usage {
        let (near, far) = (self.client_side.usage(), self.server_side.usage());
        Usage {
            cpu_micros: near.cpu_micros + far.cpu_micros,
            peak_kib: near.peak_kib.max(far.peak_kib),
        }
    }

    /// Ends both by SIGTERM and waits.
    ///
    /// # Errors
    /// `Command` where one has died before, does not end or reports a failure.
    pub fn stop(mut self) -> Result<(), LabError> {
        let near = self.client_side.end();
        let far = self.server_side.end();
        near.and(far)
    }
}

/// How one daemon is started.
#[derive(Debug, Clone, Copy)]
pub struct DaemonSpec<'a> {
    /// The `tandem` binary.
    pub exe: &'a Path,
    /// One of the gateways.
    pub host: Host,
    /// What it does.
    pub mode: Mode,
    /// What it does with clients' own chains. A client side that loses what it holds has its
    /// default.
    pub strategy: Strategy,
    /// The file with the key.
    pub key: &'a Path,
    /// The directory of its store; made where it is missing.
    pub store: &'a Path,
    /// The servers' ports, comma between.
    pub ports: &'a str,
    /// Whether it answers.
    pub admin: Admin,
}

impl DaemonSpec<'_> {
    fn command(&self) -> Result<Command, LabError> {
        match self.mode {
            Mode::PassThrough => Ok(self.queue("pass-through")),
            Mode::Safe => Ok(self.packet("safe")),
            Mode::Mcveety => Ok(self.packet("mcveety")),
            Mode::SafeLosing => self.losing("safe"),
            Mode::McveetyLosing => self.losing("mcveety"),
            Mode::Tunnel(figures) => Ok(self.tunnel(figures)),
            Mode::TunnelWithKeys(figures) => {
                let mut command = self.tunnel(figures);
                if self.host.role() == Some("server-side") {
                    command.arg("--handshake-keys").arg(beside(self.key));
                }
                Ok(command)
            }
            Mode::TunnelWithClientKeys(figures, prefer) => {
                let mut command = self.tunnel(figures);
                command.args(["--prefer", prefer.name()]);
                if self.host.role() == Some("client-side") {
                    command.arg("--handshake-keys").arg(beside(self.key));
                }
                Ok(command)
            }
            Mode::TunnelWithAllKeys(figures, prefer) => {
                let mut command = self.tunnel(figures);
                command.args(["--prefer", prefer.name(), "--handshake-keys"]);
                command.arg(match self.host.role() {
                    Some("client-side") => beside_of_clients(self.key),
                    _ => beside(self.key),
                });
                Ok(command)
            }
            Mode::Quic(figures) => {
                let mut command = self.tunnel(figures);
                command.arg("--whole-handshakes");
                Ok(command)
            }
            Mode::Other(other, link) => Ok(other.command(self.host, self.key, link)),
        }
    }

    /// What all daemons are told.
    fn any(&self, mode: &str) -> Command {
        let mut command = Command::new(self.exe);
        command
            .args([self.host.role().unwrap_or_default(), "--mode", mode])
            .arg("--store")
            .arg(self.store)
            .arg("--key")
            .arg(self.key);
        match self.admin {
            Admin::Off => drop(command.args(["--admin", "none"])),
            Admin::On => {}
        }
        command
    }

    fn queue(&self, mode: &str) -> Command {
        let mut command = self.any(mode);
        command.args(["--link", LINK_DEVICE, "--ports", self.ports]);
        command
    }

    fn packet(&self, wire: &str) -> Command {
        let mut command = self.queue("packet");
        command.args(["--client-certificates", self.strategy.name()]);
        command.args(["--wire", wire]);
        command
    }

    /// The client side loses what it claims to hold; the server side is a usual one.
    fn losing(&self, wire: &str) -> Result<Command, LabError> {
        if self.host.role() != Some("client-side") {
            return Ok(self.packet(wire));
        }
        let mut command = Command::new(programs::lab()?);
        command.args(["losing-proxy", "--link", LINK_DEVICE, "--key"]);
        command.arg(self.key).args(["--wire", wire]);
        Ok(command)
    }

    /// Each side is told the rate at which it can send. The server's networks have private
    /// addresses, which a server side does not allow by itself.
    fn tunnel(&self, figures: LinkFigures) -> Command {
        let mut command = self.any("tunnel");
        let meeting = format!("{SERVER_SIDE_ON_LINK}:{TUNNEL_PORT}");
        let rate = if self.host.role() == Some("client-side") {
            command.args(["--peer", &meeting, "--link", LINK_DEVICE]);
            command.args(["--ports", self.ports]);
            figures.up
        } else {
            command.args(["--listen", &meeting]);
            for network in SERVER_NETWORKS {
                command.arg("--allow");
                command.arg(format!("{network}:{}", self.ports));
            }
            figures.down
        };
        if let Some(rate) = rate {
            command.arg("--link-rate").arg(rate.to_string());
        }
        command
            .arg("--link-rtt")
            .arg(figures.round_trip_ms.to_string());
        command
    }
}

/// One daemon, until dropped.
#[derive(Debug)]
pub struct Daemon {
    host: Host,
    child: Child,
    line: String,
    log: PathBuf,
    ready: mpsc::Receiver<()>,
}

impl Daemon {
    /// Starts it; [`Daemon::wait_until_ready`] is to follow.
    ///
    /// # Errors
    /// `Io`.
    pub fn start(topology: &Topology, spec: &DaemonSpec<'_>) -> Result<Self, LabError> {
        let host = spec.host;
        fs::create_dir_all(spec.store).map_err(LabError::io("make a store's directory"))?;
        let log = topology.directory().join(format!("{}.log", host.name()));
        let mut command = spec.command()?;
        let errors = File::create(&log).map_err(LabError::io("write a daemon's log"))?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors);
        // So that Ctrl-C at the terminal reaches the lab alone, which ends them in order.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = topology.host(host).spawn(&mut command)?;
        let (sender, ready) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || {
                // Reads to the end, so that the daemon never blocks on its output.
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if line.trim() == "ready" {
                        // Nobody waits any more where the start was given up.
                        let _ = sender.send(());
                    }
                }
            });
        }
        Ok(Self {
            host,
            child,
            line: command::line(&command),
            log,
            ready,
        })
    }

    /// # Errors
    /// `Command` with its last words; `Interrupted`.
    pub fn wait_until_ready(&self) -> Result<(), LabError> {
        let mut gone = false;
        let came = interrupt::wait_until(READY_LIMIT, Duration::from_millis(2), || {
            match self.ready.try_recv() {
                Ok(()) => true,
                Err(mpsc::TryRecvError::Empty) => false,
                Err(mpsc::TryRecvError::Disconnected) => {
                    gone = true;
                    true
                }
            }
        })?;
        if came && !gone {
            Ok(())
        } else {
            Err(self.failure("it did not become ready"))
        }
    }

    fn failure(&self, what: &str) -> LabError {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let last = text.lines().last().unwrap_or("it said nothing");
        LabError::Command {
            command: self.line.clone(),
            why: format!("{what}: {last}"),
        }
    }

    /// What it and the processes that it has started have used since their start.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for id in family(self.child.id()) {
            let process = PathBuf::from(format!("/proc/{id}"));
            usage.cpu_micros += cpu_micros(&process.join("task"));
            usage.peak_kib += peak_kib(&process.join("status"));
        }
        usage
    }

    /// What it says of itself. Only of one that was started with [`Admin::On`].
    ///
    /// # Errors
    /// `Command` where it does not answer.
    pub fn status(&self, topology: &Topology) -> Result<Status, LabError> {
        let port = match self.host {
            Host::Client | Host::ClientSide | Host::OtherClientSide => DEFAULT_ADMIN_PORT,
            Host::Server | Host::ServerSide | Host::OtherServerSide => DEFAULT_ADMIN_PORT + 1,
        };
        let address = (Ipv4Addr::LOCALHOST, port).into();
        let answer = topology
            .host(self.host)
            .run(|| Ok(status::fetch(address, END_LIMIT)))?;
        answer.map_err(|error| self.failure(&error.to_string()))
    }

    /// Its process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it at once, by SIGKILL: it takes nothing down.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Ends it by SIGTERM and waits.
    ///
    /// # Errors
    /// `Command` where it has died before, does not end or reports a failure.
    pub fn end(&mut self) -> Result<(), LabError> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Err(self.failure(&format!("it ended by itself ({status})")));
        }
        if let Ok(pid) = i32::try_from(self.child.id()) {
            // It may end by itself in between.
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        match command::wait_for(&mut self.child, END_LIMIT) {
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(status)) => Err(self.failure(&format!("it ended with {status}"))),
            Ok(None) => {
                let _ = self.child.kill();
                let _ = self.child.wait();
                Err(self.failure("it did not end on SIGTERM"))
            }
            Err(source) => Err(LabError::io("wait for a daemon")(source)),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None))
            && let Err(error) = self.end()
        {
            tracing::warn!(%error, "a daemon did not end as it should");
        }
    }
}

/// A process, and those that it has started and that run, with theirs.
fn family(ancestor: u32) -> Vec<u32> {
    // proc(5): the number, the name in brackets, the state, the parent.
    let parent = |stat: &str| {
        let (_, rest) = stat.rsplit_once(')')?;
        rest.split_ascii_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let processes: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let id = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            Some((id, parent(&stat)?))
        })
        .collect();
    let mut family = vec![ancestor];
    let mut next = 0;
    while let Some(of) = family.get(next).copied() {
        let children = processes.iter().filter(|(_, parent)| *parent == of);
        family.extend(children.map(|(id, _)| *id));
        next += 1;
    }
    family
}

/// The sum over a process's threads of the time on a processor (Linux,
/// Documentation/scheduler/sched-stats.rst: first field, nanoseconds).
fn cpu_micros(tasks: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(tasks) else {
        return 0;
    };
    let nanos: u64 = entries
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path().join("schedstat")).ok())
        .filter_map(|text| text.split_ascii_whitespace().next()?.parse::<u64>().ok())
        .sum();
    nanos / 1000
}

/// The peak of the resident set (proc(5), VmHWM).
fn peak_kib(status: &Path) -> u64 {
    fs::read_to_string(status)
        .unwrap_or_default()
        .lines()
        .find_map(|line| {
            line.strip_prefix("VmHWM:")?
                .trim()
                .strip_suffix("kB")?
                .trim()
                .parse()
                .ok()
        })
        .unwrap_or(0)
}

/// A fresh key, 64 hexadecimal digits, readable by its owner only.
///
/// # Errors
/// `Io`.
pub fn write_key(path: &Path) -> Result<(), LabError> {
    use std::io::{Read, Write};
    let mut bytes = [0; 32];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(LabError::io("draw a key"))?;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| writeln!(file, "{digits}"))
        .map_err(LabError::io("write the key"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(host: Host, mode: Mode) -> Result<String, LabError> {
        let spec = DaemonSpec {
            exe: Path::new("tandem"),
            host,
            mode,
            strategy: Strategy::Filter,
            key: Path::new("k"),
            store: Path::new("s"),
            ports: "443",
            admin: Admin::Off,
        };
        Ok(command::line(&spec.command()?))
    }

    #[test]
    fn both_ends_of_a_tunnel_are_told_where_to_meet_and_what_the_link_is() -> Result<(), LabError> {
        let mode = Mode::Tunnel(LinkFigures {
            up: Some(2_400),
            down: Some(256_000),
            round_trip_ms: 1_000,
        });
        assert_eq!(
            told(Host::ClientSide, mode)?,
            "tandem client-side --mode tunnel --store s --key k --admin none --peer 10.77.2.2:4433 \
             --link link0 --ports 443 --link-rate 2400 --link-rtt 1000"
        );
        assert_eq!(
            told(Host::ServerSide, mode)?,
            "tandem server-side --mode tunnel --store s --key k --admin none --listen \
             10.77.2.2:4433 --allow 10.77.3.0/24:443 --allow fd77:3::/64:443 --link-rate 256000 \
             --link-rtt 1000"
        );
        Ok(())
    }

    #[test]
    fn without_deltas_both_ends_are_told_the_same_and_to_leave_handshakes() -> Result<(), LabError>
    {
        let figures = LinkFigures {
            up: None,
            down: None,
            round_trip_ms: 1_000,
        };
        for host in [Host::ClientSide, Host::ServerSide] {
            let tunnel = told(host, Mode::Tunnel(figures))?;
            let expected = format!("{tunnel} --whole-handshakes");
            assert_eq!(told(host, Mode::Quic(figures))?, expected);
        }
        Ok(())
    }

    #[test]
    fn only_packet_mode_is_told_its_format() -> Result<(), LabError> {
        let line = told(Host::ServerSide, Mode::SafeLosing)?;
        assert!(
            line.ends_with("--client-certificates filter --wire safe"),
            "{line}"
        );
        let line = told(Host::ClientSide, Mode::PassThrough)?;
        assert!(line.ends_with("--link link0 --ports 443"), "{line}");
        Ok(())
    }
}
