//! Hosts in network namespaces for the tests of the adapter, and daemons that run in them.
//!
//! Is not: the lab. Everything made here is taken down when it is dropped, on a panic too; names
//! carry the process's number.

pub(crate) mod engines;

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tandem_packet_io::status::{Status, fetch};

/// The environment variables by which a daemon that runs in a process of its own is told what to
/// be.
pub(crate) const ENGINE: &str = "TANDEM_IO_TEST_ENGINE";
pub(crate) const ROLE: &str = "TANDEM_IO_TEST_ROLE";
pub(crate) const SETTINGS: &str = "TANDEM_IO_TEST_SETTINGS";

/// Longest wait for something that takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

static COUNTER: AtomicU32 = AtomicU32::new(0);

/// Whether namespaces can be made here. `false`, and a note, if not.
pub(crate) fn can_run() -> bool {
    tandem_testkit::has_root_and(&["ip", "iptables", "ip6tables"])
}

/// Runs a program and returns what it printed; panics with its errors if it fails.
pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .expect("the program is installed");
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A host.
pub(crate) struct Host {
    pub(crate) name: String,
}

impl Host {
    pub(crate) fn new(label: &str) -> Self {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tio{}-{number}-{label}", std::process::id());
        run("ip", &["netns", "add", &name]);
        let host = Self { name };
        host.run("ip link set lo up");
        for setting in [
            "net.ipv6.conf.all.accept_dad=0",
            "net.ipv6.conf.default.accept_dad=0",
            // The strict reverse path check (RFC 3704), as distributions set it.
            "net.ipv4.conf.all.rp_filter=1",
            "net.ipv4.conf.default.rp_filter=1",
        ] {
            host.run(&format!("sysctl -qw {setting}"));
        }
        host
    }

    /// Runs a line of words in this host.
    pub(crate) fn run(&self, line: &str) -> String {
        let mut arguments = vec!["netns", "exec", &self.name];
        arguments.extend(line.split_whitespace());
        run("ip", &arguments)
    }

    /// Runs `what` on a thread in this host; sockets that it opens stay this host's.
    pub(crate) fn inside<T: Send>(&self, what: impl FnOnce() -> T + Send) -> T {
        let namespace =
            std::fs::File::open(format!("/run/netns/{}", self.name)).expect("it was made");
        std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    setns(namespace, CloneFlags::CLONE_NEWNET).expect("root may");
                    what()
                })
                .join()
                .expect("it does not panic")
        })
    }

    /// The rules of both firewalls, without counters and dates.
    pub(crate) fn rules(&self) -> String {
        ["iptables-save", "ip6tables-save"]
            .map(|program| {
                self.run(program)
                    .lines()
                    .filter(|line| line.starts_with("-A") || line.starts_with(":tandem"))
                    .map(|line| format!("{line}\n"))
                    .collect::<String>()
            })
            .concat()
    }

    /// How often the rules of this host whose line holds `words` were met, IPv4.
    pub(crate) fn hits(&self, words: &str) -> u64 {
        self.run("iptables-save -c")
            .lines()
            .filter(|line| line.contains(words))
            .filter_map(|line| {
                line.strip_prefix('[')?
                    .split(':')
                    .next()?
                    .parse::<u64>()
                    .ok()
            })
            .sum()
    }

    /// Tightens the firewall as careful administrators do.
    pub(crate) fn drop_invalid(&self) {
        for program in ["iptables", "ip6tables"] {
            for chain in ["INPUT", "FORWARD", "OUTPUT"] {
                self.run(&format!(
                    "{program} -A {chain} -m conntrack --ctstate INVALID -j DROP"
                ));
            }
        }
    }

    pub(crate) fn invalid_dropped(&self) -> u64 {
        self.hits("INVALID")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = Command::new("ip")
            .args(["netns", "del", &self.name])
            .status();
    }
}

/// A host whose link `lnk0` leads nowhere.
pub(crate) fn lone_host() -> Host {
    let host = Host::new("one");
    host.run("ip link add lnk0 type veth peer name far0");
    host
}

/// Joins two hosts by an Ethernet wire, with an address of each version at both ends: `10.NET.0.1`
/// and `fd00:NET::1` at `a`, `.2` and `::2` at `b`.
pub(crate) fn wire(a: (&Host, &str), b: (&Host, &str), net: u8) {
    a.0.run(&format!(
        "ip link add {} type veth peer name {} netns {}",
        a.1, b.1, b.0.name
    ));
    for ((host, interface), end) in [(a, 1), (b, 2)] {
        host.run(&format!("ip addr add 10.{net}.0.{end}/24 dev {interface}"));
        host.run(&format!(
            "ip addr add fd00:{net}::{end}/64 dev {interface} nodad"
        ));
        host.run(&format!("ip link set {interface} up"));
    }
}

/// Addresses at the ends of the connections, by IP version.
pub(crate) const SERVER: [&str; 2] = ["10.2.0.2", "fd00:2::2"];

/// client `c0` - `near0` gateway `lnk0` - `s0` server. The link is `lnk0`.
pub(crate) struct Gateway {
    pub(crate) client: Host,
    pub(crate) gateway: Host,
    pub(crate) server: Host,
}

impl Gateway {
    pub(crate) fn new() -> Self {
        let client = Host::new("client");
        let gateway = Host::new("gateway");
        let server = Host::new("server");
        wire((&client, "c0"), (&gateway, "near0"), 1);
        wire((&gateway, "lnk0"), (&server, "s0"), 2);
        gateway.run("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
        client.run("ip route add default via 10.1.0.2");
        client.run("ip -6 route add default via fd00:1::2");
        server.run("ip route add default via 10.2.0.1");
        server.run("ip -6 route add default via fd00:2::1");
        for host in [&client, &gateway, &server] {
            host.drop_invalid();
        }
        Self {
            client,
            gateway,
            server,
        }
    }
}

/// client `lnk0` - `s0` server. The link is `lnk0`, and the daemon runs on the client's host.
pub(crate) struct Local {
    pub(crate) client: Host,
    pub(crate) server: Host,
}

impl Local {
    pub(crate) fn new() -> Self {
        let client = Host::new("client");
        let server = Host::new("server");
        wire((&client, "lnk0"), (&server, "s0"), 2);
        for host in [&client, &server] {
            host.drop_invalid();
        }
        Self { client, server }
    }
}

/// A daemon in a process of its own. Killed when it is dropped.
pub(crate) struct Daemon {
    child: Child,
    pid: Pid,
}

/// How a daemon ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) errors: String,
}

impl Daemon {
    /// Starts a daemon in `host` and waits until it is ready.
    pub(crate) fn start(host: &Host, role: &str, engine: &str, settings: &str) -> Self {
        match Self::try_start(host, &[], role, engine, settings) {
            Ok(daemon) => daemon,
            Err(ended) => panic!("the daemon did not start: {ended:?}"),
        }
    }

    /// The same, under the program `under`; the way it ended if it did.
    pub(crate) fn try_start(
        host: &Host,
        under: &[&str],
        role: &str,
        engine: &str,
        settings: &str,
    ) -> Result<Self, Ended> {
        let exe = std::env::current_exe().expect("this test runs");
        let mut child = Command::new("ip")
            .args(["netns", "exec", &host.name])
            .args(under)
            .arg(exe)
            .args([
                "daemon_process",
                "--exact",
                "--ignored",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(ENGINE, engine)
            .env(ROLE, role)
            .env(SETTINGS, settings)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("ip is installed");
        // `ip netns exec` becomes the program, and so does setpriv: the process keeps its number.
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("process numbers are small"));
        let output = child.stdout.take().expect("it is piped");
        let ready = BufReader::new(output)
            .lines()
            .map_while(Result::ok)
            .any(|line| line == "ready");
        if ready {
            return Ok(Self { child, pid });
        }
        let mut errors = String::new();
        let _ = child
            .stderr
            .take()
            .expect("it is piped")
            .read_to_string(&mut errors);
        let code = child.wait().expect("it is ours").code();
        Err(Ended { code, errors })
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// Sends a signal and waits for the end.
    pub(crate) fn end(mut self, signal: Signal) -> Ended {
        kill(self.pid, signal).expect("it runs");
        let mut errors = String::new();
        let _ = self
            .child
            .stderr
            .take()
            .expect("it is piped")
            .read_to_string(&mut errors);
        let code = self.child.wait().expect("it is ours").code();
        Ended { code, errors }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks the daemon in `host`.
pub(crate) fn status(host: &Host, port: u16) -> Status {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    host.inside(|| fetch(address, PATIENCE))
        .expect("the daemon answers")
}

/// Waits until `condition` holds.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A server that sends back what it reads, for as many connections as come.
pub(crate) struct Echo {
    pub(crate) address: SocketAddr,
}

impl Echo {
    pub(crate) fn start(host: &Host, address: &str, port: u16) -> Self {
        let address = SocketAddr::new(address.parse::<IpAddr>().expect("an address"), port);
        let listener = match host.inside(|| TcpListener::bind(address)) {
            Ok(listener) => listener,
            // An earlier one of this test serves on.
            Err(error) if error.kind() == ErrorKind::AddrInUse => return Self { address },
            Err(error) => panic!("{address}: {error}"),
        };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || echo(stream));
            }
        });
        Self { address }
    }
}

fn echo(mut stream: TcpStream) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        if stream.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}

pub(crate) fn connect(host: &Host, address: SocketAddr) -> TcpStream {
    let stream = host
        .inside(|| TcpStream::connect_timeout(&address, PATIENCE))
        .expect("the server answers");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a time-out can be set");
    stream
        .set_write_timeout(Some(PATIENCE))
        .expect("a time-out can be set");
    stream
        .set_nodelay(true)
        .expect("small segments can be asked for");
    stream
}

/// Sends `length` bytes and checks that they come back.
pub(crate) fn exchange(stream: &mut TcpStream, length: usize) {
    let sent: Vec<u8> = (0..length)
        .map(|index| (index * 7 + index / 251) as u8)
        .collect();
    let mut writer = stream.try_clone().expect("it can be shared");
    let received = std::thread::scope(|scope| {
        scope.spawn(|| writer.write_all(&sent).expect("the connection stands"));
        let mut received = vec![0; length];
        stream
            .read_exact(&mut received)
            .expect("the connection stands");
        received
    });
    assert!(received == sent, "other bytes came back");
}

/// A directory for stores that no test shares.
pub(crate) fn store() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("store");
    (directory, path)
}
