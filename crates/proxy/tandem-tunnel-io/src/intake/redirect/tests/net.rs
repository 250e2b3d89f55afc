//! A gateway between a client and a server, as network namespaces, taken down when it is dropped.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sched::{CloneFlags, setns};

use super::*;

/// client `c0` - `near0` gateway `lnk0`, `other0` - `s0`, `o0` server. The link is `lnk0`.
pub(super) struct Net {
    prefix: String,
}

pub(super) const CLIENT: &str = "client";
pub(super) const GATEWAY: &str = "gateway";
pub(super) const SERVER: &str = "server";

/// The server's addresses by the link, and by the other interface.
pub(super) const BY_LINK: [&str; 2] = ["10.2.0.2", "fd00:2::2"];
pub(super) const BY_OTHER: [&str; 2] = ["10.3.0.2", "fd00:3::2"];

/// Longest wait for something that takes milliseconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

static COUNTER: AtomicU32 = AtomicU32::new(0);

impl Net {
    /// `None`, and a note, where namespaces cannot be made.
    pub(super) fn new() -> Option<Self> {
        if !tandem_testkit::has_root_and(&["ip", "iptables", "ip6tables"]) {
            return None;
        }
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let net = Self {
            prefix: format!("tti{}-{number}-", std::process::id()),
        };
        for host in [CLIENT, GATEWAY, SERVER] {
            run(&format!("ip netns add {}", net.name(host)));
            net.run(host, "ip link set lo up");
            // Strict, as distributions set it.
            net.run(host, "sysctl -qw net.ipv4.conf.all.rp_filter=1");
        }
        net.wire((CLIENT, "c0"), (GATEWAY, "near0"), 1);
        net.wire((GATEWAY, "lnk0"), (SERVER, "s0"), 2);
        net.wire((GATEWAY, "other0"), (SERVER, "o0"), 3);
        for line in [
            "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1",
            // Rules of somebody else, which stay.
            "iptables -t nat -A OUTPUT -p tcp --dport 9 -j ACCEPT",
        ] {
            net.run(GATEWAY, line);
        }
        net.run(CLIENT, "ip route add default via 10.1.0.2");
        net.run(CLIENT, "ip -6 route add default via fd00:1::2");
        net.run(SERVER, "ip route add default via 10.2.0.1");
        Some(net)
    }

    fn name(&self, host: &str) -> String {
        format!("{}{host}", self.prefix)
    }

    pub(super) fn run(&self, host: &str, line: &str) -> String {
        run(&format!("ip netns exec {} {line}", self.name(host)))
    }

    pub(super) fn wire(&self, a: (&str, &str), b: (&str, &str), number: u8) {
        let peer = self.name(b.0);
        self.run(
            a.0,
            &format!(
                "ip link add {} type veth peer name {} netns {peer}",
                a.1, b.1
            ),
        );
        for ((host, interface), end) in [(a, 1), (b, 2)] {
            for line in [
                format!("ip addr add 10.{number}.0.{end}/24 dev {interface}"),
                format!("ip addr add fd00:{number}::{end}/64 dev {interface} nodad"),
                format!("ip link set {interface} up"),
            ] {
                self.run(host, &line);
            }
        }
    }

    /// Runs `what` on a thread in `host`, in a runtime of its own.
    pub(super) fn inside<T: Send>(&self, host: &str, what: impl AsyncFnOnce() -> T + Send) -> T {
        let path = format!("/run/netns/{}", self.name(host));
        let namespace = std::fs::File::open(path).expect("it was made");
        std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    setns(namespace, CloneFlags::CLONE_NEWNET).expect("root may");
                    let runtime = tokio::runtime::Builder::new_current_thread()
                        .enable_all()
                        .build()
                        .expect("a runtime");
                    runtime.block_on(what())
                })
                .join()
                .expect("it does not panic")
        })
    }

    /// Connects from `host`; the connection stays this host's.
    pub(super) fn connect(&self, host: &str, to: SocketAddr) -> io::Result<std::net::TcpStream> {
        self.inside(host, async || {
            std::net::TcpStream::connect_timeout(&to, PATIENCE)
        })
    }

    /// The gateway's rules without counters and dates, and those for its routes.
    pub(super) fn rules(&self) -> String {
        ["iptables-save", "ip6tables-save"]
            .map(|program| {
                // Tables that are looked at stay, empty.
                ["mangle", "nat", "filter"]
                    .map(|table| self.run(GATEWAY, &format!("{program} -t {table}")))
                    .concat()
            })
            .concat()
            .lines()
            .filter(|line| line.starts_with("-A") || line.starts_with(":tandem"))
            .map(|line| format!("{line}\n"))
            .chain(["-4", "-6"].map(|version| self.run(GATEWAY, &format!("ip {version} rule"))))
            .collect()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for host in [CLIENT, GATEWAY, SERVER] {
            let _ = Command::new("ip")
                .args(["netns", "del", &self.name(host)])
                .status();
        }
    }
}

fn run(line: &str) -> String {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().expect("a program"))
        .args(words)
        .output()
        .expect("it is installed");
    assert!(
        output.status.success(),
        "{line}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(super) fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), port)
}

/// Which way the next connection to either listener is.
pub(super) async fn next_way(listeners: &[TcpListener], to: &LedTo) -> Way {
    way(&next(listeners).await, to)
}

/// The next connection to either listener.
pub(super) async fn next(listeners: &[TcpListener]) -> TcpStream {
    let (stream, _) = tokio::time::timeout(PATIENCE, async {
        match listeners {
            [v4, v6] => tokio::select! {
                accepted = v4.accept() => accepted,
                accepted = v6.accept() => accepted,
            },
            _ => panic!("there is one for each version of IP"),
        }
    })
    .await
    .expect("a connection comes")
    .expect("it is accepted");
    stream
}
