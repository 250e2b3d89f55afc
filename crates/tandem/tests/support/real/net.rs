//! Hosts in network namespaces and what joins them: the four of the lab, on veth pairs or with an
//! emulated link, with or without a router in the middle.
//!
//! ```text
//!   client ----------- A ============= (middle) ============= B ----------- server
//!   eth0         lan0    link0     west       east      link0   lan0          eth0
//!   10.77.1.2    .1.1    10.77.2.1 .2.254   .4.254  10.77.4.2   .3.1     10.77.3.2
//!   fd77:1::2    1::1    fd77:2::1 2::254   4::254  fd77:4::2   3::1     fd77:3::2
//! ```
//!
//! Without the middle, B's end of the link is `10.77.2.2` and `fd77:2::2`. Where the link is
//! emulated, both ends are TUN devices.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sched::{CloneFlags, setns};
use tandem_netsim::BitRate;
use tandem_netsim::link::LinkConfig;
use tandem_testbed::emulator::Emulator;
use tandem_testbed::topology::{self, Topology};

use super::run;

/// How the names of namespaces begin; the process's number follows.
const PREFIX: &str = "tdr";

static COUNTER: AtomicU32 = AtomicU32::new(0);
static SWEPT: Once = Once::new();

/// A version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// A host.
#[derive(Debug)]
pub(crate) struct Host {
    name: String,
    file: File,
    /// Whether the namespace goes with this value.
    owned: bool,
}

impl Host {
    fn new(label: &str) -> Self {
        SWEPT.call_once(sweep);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}-{label}", std::process::id());
        run(Command::new("ip").args(["netns", "add", &name]));
        let mut host = Self::open(&name);
        host.owned = true;
        // Addresses are usable at once, link-local ones too.
        for scope in ["all", "default"] {
            host.set(&format!("ipv6/conf/{scope}/accept_dad"), "0");
        }
        host
    }

    fn open(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            file: File::open(format!("/run/netns/{name}")).expect("the namespace was made"),
            owned: false,
        }
    }

    /// The namespace's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Another handle on the same host, which does not take it down.
    pub(crate) fn handle(&self) -> Self {
        Self::open(&self.name)
    }

    /// Runs `what` on a thread in this host; sockets and children that it makes stay this host's.
    pub(crate) fn inside<T: Send>(&self, what: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                setns(&self.file, CloneFlags::CLONE_NEWNET).expect("root may enter a namespace");
                what()
            });
            match inside.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Starts a program in this host.
    pub(crate) fn spawn(&self, command: &mut Command) -> Child {
        self.inside(|| {
            command
                .spawn()
                .unwrap_or_else(|error| panic!("{command:?}: {error}"))
        })
    }

    /// Runs a program in this host to its end.
    pub(crate) fn output(&self, command: &mut Command) -> Output {
        self.inside(|| {
            command
                .output()
                .unwrap_or_else(|error| panic!("{command:?}: {error}"))
        })
    }

    /// Runs a line of words in this host; its standard output.
    #[track_caller]
    pub(crate) fn run(&self, line: &str) -> String {
        let mut words = line.split_whitespace();
        let program = words.next().expect("a line has a program");
        self.inside(|| run(Command::new(program).args(words)))
    }

    /// Gives `ip` commands, one a line.
    fn ip(&self, lines: &str) {
        let mut child = Command::new("ip")
            .args(["-n", &self.name, "-batch", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("ip is installed");
        let mut input = child.stdin.take().expect("it is piped");
        input.write_all(lines.as_bytes()).expect("ip reads");
        drop(input);
        let status = child.wait().expect("it is ours");
        assert!(status.success(), "in {}: {lines}", self.name);
    }

    /// Sets a kernel setting below `/proc/sys/net`.
    #[track_caller]
    pub(crate) fn set(&self, key: &str, value: &str) {
        self.inside(|| fs::write(format!("/proc/sys/net/{key}"), value))
            .unwrap_or_else(|error| panic!("{key}: {error}"));
    }

    /// Gives rules to the firewall, as lines of `iptables-restore` in one table.
    #[track_caller]
    pub(crate) fn rules(&self, family: Family, table: &str, lines: &[&str]) {
        if let Err(why) = self.try_rules(family, table, lines) {
            panic!("{lines:?}: {why}");
        }
    }

    /// The same; what the program says where it refuses.
    pub(crate) fn try_rules(
        &self,
        family: Family,
        table: &str,
        lines: &[&str],
    ) -> Result<(), String> {
        let program = match family {
            Family::V4 => "iptables-restore",
            Family::V6 => "ip6tables-restore",
        };
        // The name of a chain with a policy is set as its declaration.
        let lines = lines.iter().map(|line| match line.strip_prefix("-P ") {
            Some(policy) => format!(":{policy} [0:0]\n"),
            None => format!("{line}\n"),
        });
        let text = format!("*{table}\n{}COMMIT\n", lines.collect::<String>());
        self.inside(|| {
            let mut child = Command::new(program)
                .args(["--noflush", "--wait=5"])
                .stdin(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("iptables is installed");
            let mut input = child.stdin.take().expect("it is piped");
            input.write_all(text.as_bytes()).expect("it reads");
            drop(input);
            let output = child.wait_with_output().expect("it is ours");
            match output.status.success() {
                true => Ok(()),
                false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            }
        })
    }

    /// What stands in both firewalls that a daemon of ours set.
    pub(crate) fn rules_of_tandem(&self) -> Vec<String> {
        ["iptables-save", "ip6tables-save"]
            .into_iter()
            .flat_map(|program| {
                self.run(program)
                    .lines()
                    .filter(|line| line.contains("tandem"))
                    .map(|line| format!("{program}: {line}"))
                    .collect::<Vec<_>>()
            })
            .collect()
    }

    /// How many packets the IPv4 rules of this host with `words` have met.
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

    /// A counter of the kernel's TCP (`TcpExt` of `/proc/net/netstat`).
    pub(crate) fn tcp_counter(&self, name: &str) -> u64 {
        self.kernel_counter("netstat", "TcpExt: ", name)
    }

    /// A counter of the kernel's IPv4 (`Ip` of `/proc/net/snmp`).
    pub(crate) fn ip_counter(&self, name: &str) -> u64 {
        self.kernel_counter("snmp", "Ip: ", name)
    }

    fn kernel_counter(&self, table: &str, start: &str, name: &str) -> u64 {
        let text = self
            .inside(|| fs::read_to_string(format!("/proc/thread-self/net/{table}")))
            .expect("readable");
        let mut rows = text.lines().filter_map(|row| row.strip_prefix(start));
        let (names, values) = (rows.next().unwrap_or(""), rows.next().unwrap_or(""));
        names
            .split(' ')
            .zip(values.split(' '))
            .find(|(found, _)| *found == name)
            .and_then(|(_, value)| value.parse().ok())
            .unwrap_or_else(|| panic!("the kernel has no counter {name}"))
    }

    /// The packet queue of the daemon in this host: packets that wait in it, and packets that were
    /// ever offered to it.
    pub(crate) fn queue(&self) -> (u64, u64) {
        let text = self
            .inside(|| fs::read_to_string("/proc/thread-self/net/netfilter/nfnetlink_queue"))
            .expect("the kernel has the queue");
        // Number, owner, waiting, copy mode, copy range, dropped twice, sequence number.
        let columns: Vec<u64> = text
            .split_ascii_whitespace()
            .map_while(|word| word.parse().ok())
            .collect();
        match columns[..] {
            [_, _, waiting, _, _, _, _, offered, ..] => (waiting, offered),
            _ => panic!("no queue: {text}"),
        }
    }

    /// Whether something listens on this TCP port.
    pub(crate) fn listens_on(&self, port: u16) -> bool {
        let tables = self.inside(|| {
            ["tcp", "tcp6"].map(|name| {
                fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default()
            })
        });
        let suffix = format!(":{port:04X}");
        tables.iter().flat_map(|table| table.lines()).any(|row| {
            let columns: Vec<&str> = row.split_ascii_whitespace().collect();
            matches!(columns[..], [_, local, _, "0A", ..] if local.ends_with(&suffix))
        })
    }

    /// Drops what connection tracking calls invalid, as careful administrators do.
    pub(crate) fn drop_invalid(&self) {
        for family in [Family::V4, Family::V6] {
            self.rules(
                family,
                "filter",
                &["INPUT", "FORWARD", "OUTPUT"]
                    .map(|chain| format!("-A {chain} -m conntrack --ctstate INVALID -j DROP"))
                    .each_ref()
                    .map(String::as_str),
            );
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if self.owned {
            let _ = Command::new("ip")
                .args(["netns", "del", &self.name])
                .status();
        }
    }
}

/// Removes the namespaces of runs that were killed, and what runs in them.
fn sweep() {
    let names = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    for name in names.filter_map(|entry| entry.file_name().into_string().ok()) {
        let process = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next())
            .and_then(|number| number.parse::<u32>().ok());
        if process.is_some_and(|number| !fs::exists(format!("/proc/{number}")).unwrap_or(true)) {
            if let Ok(output) = Command::new("ip").args(["netns", "pids", &name]).output() {
                for pid in String::from_utf8_lossy(&output.stdout).split_whitespace() {
                    let _ = Command::new("kill").args(["-KILL", pid]).status();
                }
            }
            let _ = Command::new("ip").args(["netns", "del", &name]).status();
        }
    }
}

/// What lies between the two gateways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// An Ethernet wire.
    Wire,
    /// A router.
    Router,
}

/// The four hosts, and the router if there is one.
#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) client: Host,
    pub(crate) a: Host,
    pub(crate) b: Host,
    pub(crate) server: Host,
    middle: Option<Host>,
    // The link ends before its devices' namespaces do.
    emulator: Option<Emulator>,
    _topology: Option<Topology>,
    pub(crate) directory: tempfile::TempDir,
}

/// The device of the link in both gateways.
pub(crate) const LINK: &str = topology::LINK_DEVICE;

impl Net {
    /// Four hosts joined by Ethernet.
    pub(crate) fn new(shape: Shape) -> Self {
        let (client, a) = (Host::new("client"), Host::new("a"));
        let (b, server) = (Host::new("b"), Host::new("server"));
        let middle = match shape {
            Shape::Wire => None,
            Shape::Router => Some(Host::new("middle")),
        };
        wire((&client, "eth0"), (&a, "lan0"), 1, ["2", "1"]);
        wire((&server, "eth0"), (&b, "lan0"), 3, ["2", "1"]);
        let far = match &middle {
            None => {
                wire((&a, LINK), (&b, LINK), 2, ["1", "2"]);
                [2, 2]
            }
            Some(middle) => {
                wire((&a, LINK), (middle, "west"), 2, ["1", "254"]);
                wire((middle, "east"), (&b, LINK), 4, ["254", "2"]);
                [4, 254]
            }
        };
        let route = |host: &Host, network: u8, via: String, via6: String| {
            host.ip(&format!(
                "route add 10.77.{network}.0/24 via {via}\nroute add fd77:{network}::/64 via {via6}\n"
            ));
        };
        client.ip("route add default via 10.77.1.1\nroute add default via fd77:1::1\n");
        server.ip("route add default via 10.77.3.1\nroute add default via fd77:3::1\n");
        let [network, router] = far;
        for to in [3, 4] {
            if middle.is_some() || to == 3 {
                route(
                    &a,
                    to,
                    format!("10.77.2.{router}"),
                    format!("fd77:2::{router}"),
                );
            }
        }
        let back = if middle.is_some() { 254 } else { 1 };
        route(
            &b,
            1,
            format!("10.77.{network}.{back}"),
            format!("fd77:{network}::{back}"),
        );
        if let Some(middle) = &middle {
            route(&b, 2, "10.77.4.254".to_owned(), "fd77:4::254".to_owned());
            route(middle, 1, "10.77.2.1".to_owned(), "fd77:2::1".to_owned());
            route(middle, 3, "10.77.4.2".to_owned(), "fd77:4::2".to_owned());
            forward(middle);
        }
        forward(&a);
        forward(&b);
        let net = Self {
            client,
            a,
            b,
            server,
            middle,
            emulator: None,
            _topology: None,
            directory: directory(),
        };
        net.settle();
        net
    }

    /// Four hosts, the gateways joined by an emulated link.
    pub(crate) fn emulated(config: LinkConfig, seed: u64) -> Self {
        SWEPT.call_once(sweep);
        let (topology, ends) = Topology::build(1500).expect("root can build it");
        let emulator = Emulator::start(ends, config, seed, None).expect("the link starts");
        let open = |host| Host::open(topology.host(host).name());
        let net = Self {
            client: open(topology::Host::Client),
            a: open(topology::Host::ClientSide),
            b: open(topology::Host::ServerSide),
            server: open(topology::Host::Server),
            middle: None,
            emulator: Some(emulator),
            _topology: Some(topology),
            directory: directory(),
        };
        net.settle();
        net
    }

    /// What all tests want of the kernel: timers that keep a run short whatever is lost. What is
    /// retransmitted is the same.
    fn settle(&self) {
        for host in [&self.client, &self.server, &self.a, &self.b] {
            host.ip("link set lo up\n");
            // Linux 6.15 and later; an older kernel backs off for longer.
            host.inside(|| drop(fs::write("/proc/sys/net/ipv4/tcp_rto_max_ms", "1000")));
            // The kernel counts retransmissions where time is meant: as many as before, and more,
            // for the shorter timers.
            for setting in ["tcp_syn_retries", "tcp_synack_retries", "tcp_retries2"] {
                host.set(&format!("ipv4/{setting}"), "60");
            }
            // By default a closed socket whose timer is at its maximum is given up at once.
            host.set("ipv4/tcp_orphan_retries", "20");
        }
    }

    /// The router.
    pub(crate) fn middle(&self) -> &Host {
        self.middle.as_ref().expect("this net has a router")
    }

    /// Changes the emulated link.
    pub(crate) fn change_link(&self, config: LinkConfig) {
        self.emulator().reconfigure(config);
    }

    /// The emulated link.
    pub(crate) fn emulator(&self) -> &Emulator {
        self.emulator.as_ref().expect("this net's link is emulated")
    }

    /// The address of the server's host.
    pub(crate) fn server_address(&self, family: Family) -> IpAddr {
        match family {
            Family::V4 => Ipv4Addr::new(10, 77, 3, 2).into(),
            Family::V6 => Ipv6Addr::new(0xfd77, 3, 0, 0, 0, 0, 0, 2).into(),
        }
    }

    /// The address of B's end of the link.
    pub(crate) fn b_address(&self, family: Family) -> IpAddr {
        let network = if self.middle.is_some() { 4 } else { 2 };
        match family {
            Family::V4 => Ipv4Addr::new(10, 77, network, 2).into(),
            Family::V6 => Ipv6Addr::new(0xfd77, u16::from(network), 0, 0, 0, 0, 0, 2).into(),
        }
    }

    /// Sends what goes to `address` from the client over the link, and back.
    pub(crate) fn route_over_the_link(&self, address: IpAddr) {
        let by = |host: &Host, v4: &str, v6: &str| match address {
            IpAddr::V4(_) => host.ip(&format!("route add {address}/32 via {v4}\n")),
            IpAddr::V6(_) => host.ip(&format!("route add {address}/128 via {v6}\n")),
        };
        match &self.middle {
            Some(middle) => {
                by(&self.a, "10.77.2.254", "fd77:2::254");
                by(middle, "10.77.4.2", "fd77:4::2");
            }
            None => by(&self.a, "10.77.2.2", "fd77:2::2"),
        }
    }

    /// Joins the gateways by a second wire that is not the link: `10.77.9.1` at A, `10.77.9.2` at
    /// B.
    pub(crate) fn second_way(&self) {
        wire((&self.a, "side0"), (&self.b, "side0"), 9, ["1", "2"]);
    }

    /// A path for a file of this net's own.
    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a place for temporary files")
}

fn forward(host: &Host) {
    host.set("ipv4/ip_forward", "1");
    host.set("ipv6/conf/all/forwarding", "1");
}

/// Joins two hosts by an Ethernet wire.
fn wire(a: (&Host, &str), b: (&Host, &str), network: u8, ends: [&str; 2]) {
    a.0.ip(&format!(
        "link add {} type veth peer name {} netns {}\n",
        a.1, b.1, b.0.name
    ));
    // Both ends are up before they get addresses: an IPv6 address of a device without carrier takes
    // a second to be usable.
    for (host, device) in [a, b] {
        host.ip(&format!("link set {device} up\n"));
    }
    for ((host, device), end) in [a, b].into_iter().zip(ends) {
        host.ip(&format!(
            "addr add 10.77.{network}.{end}/24 dev {device}\n\
             addr add fd77:{network}::{end}/64 dev {device} nodad\n"
        ));
    }
}

/// An emulated link with these rates in both directions, bits a second, and this one-way delay in
/// milliseconds.
pub(crate) fn link(rate: u64, one_way_ms: u64) -> LinkConfig {
    let rate = BitRate::from_bits_per_second(rate);
    assert!(rate.is_some(), "a rate of zero carries nothing");
    LinkConfig::new(rate, rate, Duration::from_millis(one_way_ms))
}

/// An emulated link without a rate, and this one-way delay in milliseconds.
pub(crate) fn fast(one_way_ms: u64) -> LinkConfig {
    LinkConfig::new(None, None, Duration::from_millis(one_way_ms))
}
