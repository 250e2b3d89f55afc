//! The rules as text; and against the kernel, in network namespaces that are made here.
//!
//! Everything made here is taken down when it is dropped, on a panic too.

use std::net::{IpAddr, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sched::{CloneFlags, setns};
use tandem_firewall::{FirewallError, LeftBehind};
use tandem_wire::udp::UdpPacket;

use super::*;
use crate::intake::passing_on::PassingOn;

const RULES: &str = "\
*nat
:tandem-t-lnk0 - [0:0]
-A tandem-t-lnk0 -m addrtype --dst-type LOCAL -j RETURN
-A tandem-t-lnk0 -4 -p tcp -d 192.0.2.1 --dport 443 -j RETURN
-A tandem-t-lnk0 -p tcp --syn -j REDIRECT --to-ports 4711
-A PREROUTING ! -i lnk0 -p tcp -m multiport --dports 443,8443 -j tandem-t-lnk0
-A OUTPUT -o lnk0 -p tcp -m multiport --dports 443,8443 -j tandem-t-lnk0
COMMIT
";

fn taken<'a>(from: &[&str], ports: &'a [u16]) -> Taken<'a> {
    let name = |name: &str| LinkName::new(name).expect("a good name");
    Taken {
        link: name("lnk0"),
        from: from.iter().copied().map(name).collect(),
        ports,
        peer: PEER.parse().expect("an address"),
        intercept: Intercept::Redirect,
        udp: Udp::Pass,
        when_down: WhenDown::Pass,
    }
}

/// The daemon makes no connections by the link.
const MARKS: Marks = Marks {
    own: None,
    delivered: None,
    answers: None,
};

/// The server side.
const PEER: &str = "192.0.2.1:443";

/// Takes what would leave by this interface, from any other.
fn open(link: &str, ports: &[u16]) -> Result<Redirect, TunnelError> {
    open_from(&[], link, ports)
}

fn open_from(from: &[&str], link: &str, ports: &[u16]) -> Result<Redirect, TunnelError> {
    let link = config::Link {
        from: from.iter().copied().map(str::to_owned).collect(),
        ..configured(link, ports)
    };
    Redirect::open(&link, Own::None)
}

/// The same, once the one before is gone: while another test starts a program, that holds the lock,
/// too, for a moment.
async fn reopened(from: &[&str], link: &str, ports: &[u16]) -> Redirect {
    once_free(|| open_from(from, link, ports)).await
}

async fn once_free(open: impl Fn() -> Result<Redirect, TunnelError>) -> Redirect {
    let opened = async {
        loop {
            match open() {
                Err(TunnelError::Firewall(FirewallError::AlreadyRunning { .. })) => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                opened => return opened.expect("it can be set"),
            }
        }
    };
    let opened = tokio::time::timeout(Duration::from_secs(20), opened).await;
    opened.expect("the lock is given back")
}

/// UDP to port 443 for the tunnel, likewise.
async fn udp_taken(from: &[&str], when_down: WhenDown) -> Redirect {
    let link = config::Link {
        from: from.iter().copied().map(str::to_owned).collect(),
        udp: Udp::Tunnel,
        when_down,
        ..configured("lnk0", &[443])
    };
    once_free(|| Redirect::open(&link, Own::None)).await
}

fn open_by(intercept: Intercept, ports: &[u16]) -> Redirect {
    let link = config::Link {
        intercept,
        ..configured("lnk0", ports)
    };
    Redirect::open(&link, Own::None).expect("it can be set")
}

fn configured(link: &str, ports: &[u16]) -> config::Link {
    config::Link {
        interface: link.to_owned(),
        from: Vec::new(),
        ports: ports.to_vec(),
        peer: PEER.parse().expect("an address"),
        intercept: Intercept::Redirect,
        udp: Udp::Pass,
        when_down: config::WhenDown::Fail,
    }
}

#[test]
fn the_rules_take_what_leaves_by_the_link() {
    let rules = rules(&taken(&[], &[443, 8443]), 4711, MARKS);
    assert_eq!(rules.install(&LeftBehind::default()), RULES);
}

#[test]
fn the_rules_of_tproxy_take_other_machines_connections_without_translation() {
    let taken = Taken {
        intercept: Intercept::Tproxy,
        ..taken(&["lan0"], &[443])
    };
    let expected = "\
*mangle
:tandem-t-lnk0 - [0:0]
-A tandem-t-lnk0 -m addrtype --dst-type LOCAL -j RETURN
-A tandem-t-lnk0 -4 -p tcp -d 192.0.2.1 --dport 443 -j RETURN
-A tandem-t-lnk0 -p tcp -m socket --transparent -j MARK --set-xmark 0x20000000/0x20000000
-A tandem-t-lnk0 -p tcp --syn -j TPROXY --on-port 4711 --tproxy-mark 0x20000000/0x20000000
-A PREROUTING -i lan0 -p tcp -m multiport --dports 443 -j tandem-t-lnk0
COMMIT
*nat
:tandem-t-lnk0 - [0:0]
-A tandem-t-lnk0 -m addrtype --dst-type LOCAL -j RETURN
-A tandem-t-lnk0 -4 -p tcp -d 192.0.2.1 --dport 443 -j RETURN
-A tandem-t-lnk0 -p tcp --syn -j REDIRECT --to-ports 4711
-A OUTPUT -o lnk0 -p tcp -m multiport --dports 443 -j tandem-t-lnk0
COMMIT
";
    let marks = Marks {
        delivered: Some(0x2000_0000),
        ..MARKS
    };
    let rules = rules(&taken, 4711, marks);
    assert_eq!(rules.install(&LeftBehind::default()), expected);
}

#[test]
fn udp_to_the_same_ports_is_rejected_but_for_the_daemons_own_and_the_tunnel() {
    let taken = Taken {
        udp: Udp::Reject,
        ..taken(&[], &[443])
    };
    let expected = "\
*filter
:tandem-t-lnk0 - [0:0]
-A tandem-t-lnk0 -4 -p udp -d 192.0.2.1 --dport 443 -j RETURN
-A tandem-t-lnk0 -m mark --mark 0x40000000/0x40000000 -j RETURN
-A tandem-t-lnk0 -p udp -j REJECT
-I FORWARD -o lnk0 -p udp -m multiport --dports 443 -j tandem-t-lnk0
-I OUTPUT -o lnk0 -p udp -m multiport --dports 443 -j tandem-t-lnk0
COMMIT
";
    let marks = Marks {
        own: Some(0x4000_0000),
        ..MARKS
    };
    let text = rules(&taken, 4711, marks).install(&LeftBehind::default());
    assert!(text.ends_with(expected), "{text}");
}

const UDP_TO_THE_TUNNEL: &str = "\
*mangle
:tandem-t-lnk0 - [0:0]
-A tandem-t-lnk0 -i lnk0 -j RETURN
-A tandem-t-lnk0 -m addrtype ! --dst-type UNICAST -j RETURN
-A tandem-t-lnk0 -4 -p udp -d 192.0.2.1 --dport 443 -j RETURN
-A tandem-t-lnk0 -m mark --mark 0x40000000/0x40000000 -j RETURN
-A tandem-t-lnk0 -m mark --mark 0x20000000/0x20000000 -j RETURN
-A tandem-t-lnk0 -m conntrack --ctstate ESTABLISHED,RELATED,DNAT -j RETURN
-A tandem-t-lnk0 -j NFQUEUE --queue-num NUMBER --queue-bypass
-A POSTROUTING -o lnk0 -p udp -m multiport --dports 443 -j tandem-t-lnk0
COMMIT
*raw
:tandem-t-lnk0 - [0:0]
-A tandem-t-lnk0 -m mark --mark 0x20000000/0x20000000 -j CT --notrack
-A OUTPUT -j tandem-t-lnk0
COMMIT
";

#[test]
fn udp_for_the_tunnel_is_queued_behind_the_firewalls_own_rules_and_answers_are_not_tracked() {
    let taken = Taken {
        udp: Udp::Tunnel,
        ..taken(&[], &[443])
    };
    let marks = Marks {
        own: Some(0x4000_0000),
        answers: Some(0x2000_0000),
        ..MARKS
    };
    let text = rules(&taken, 4711, marks).install(&LeftBehind::default());
    let queue = rules::queue_number(&taken.link).to_string();
    let expected = UDP_TO_THE_TUNNEL.replace("NUMBER", &queue);
    assert!(text.ends_with(&expected), "{text}");
    let named = Taken {
        from: vec![LinkName::new("lan0").expect("a good name")],
        ..taken
    };
    let text = rules(&named, 4711, marks).install(&LeftBehind::default());
    let of_udp = text.lines().filter(|it| it.contains("-p udp -m multiport"));
    let by = |hook: &str| format!("-A {hook} -p udp -m multiport --dports 443 -j tandem-t-lnk0");
    let expected = [
        by("FORWARD -i lan0 -o lnk0"),
        by("POSTROUTING -o lnk0 -m addrtype --src-type LOCAL"),
    ];
    assert_eq!(of_udp.collect::<Vec<_>>(), expected);
}

#[test]
fn where_interfaces_are_named_only_udp_from_these_and_of_this_machine_is_rejected() {
    let taken = Taken {
        udp: Udp::Reject,
        ..taken(&["lan0", "wg0"], &[443])
    };
    let text = rules(&taken, 4711, MARKS).install(&LeftBehind::default());
    let jumps: Vec<&str> = text.lines().filter(|it| it.starts_with("-I ")).collect();
    let by =
        |hook: &str| format!("-I {hook} -o lnk0 -p udp -m multiport --dports 443 -j tandem-t-lnk0");
    let expected = ["FORWARD -i lan0", "FORWARD -i wg0", "OUTPUT"].map(by);
    assert_eq!(jumps, expected);
}

#[test]
fn the_daemons_own_connections_to_servers_are_spared_by_their_mark() {
    let marks = Marks {
        own: Some(0x4000_0000),
        ..MARKS
    };
    let rules = rules(&taken(&[], &[443, 8443]), 4711, marks);
    let spared = "-A tandem-t-lnk0 -m mark --mark 0x40000000/0x40000000 -j RETURN\n";
    let redirect = "-A tandem-t-lnk0 -p tcp --syn -j";
    let expected = RULES.replace(redirect, &format!("{spared}{redirect}"));
    assert_eq!(rules.install(&LeftBehind::default()), expected);
}

#[test]
fn the_mark_of_the_daemons_own_connections_is_not_that_of_what_is_delivered() {
    let taken = Taken {
        intercept: Intercept::Tproxy,
        ..taken(&[], &[443])
    };
    let marks = Marks::choose(Own::Spared, &Firewall::here(), &taken, Sight::None);
    let Marks { own, delivered, .. } = marks.expect("two of them are free");
    assert!(own.is_some() && delivered.is_some());
    assert_ne!(own, delivered);
}

#[test]
fn the_server_side_is_spared_in_its_version_of_ip() {
    for (peer, rule) in [
        ("192.0.2.1:443", "-4 -p tcp -d 192.0.2.1 --dport 443"),
        (
            "[::ffff:192.0.2.1]:443",
            "-4 -p tcp -d 192.0.2.1 --dport 443",
        ),
        ("[2001:db8::1]:44", "-6 -p tcp -d 2001:db8::1 --dport 44"),
    ] {
        let taken = Taken {
            peer: peer.parse().expect("an address"),
            ..taken(&[], &[443])
        };
        let text = rules(&taken, 4711, MARKS).install(&LeftBehind::default());
        let rule = format!("-A tandem-t-lnk0 {rule} -j RETURN\n");
        assert!(text.contains(&rule), "{peer}: {text}");
    }
}

#[test]
fn of_other_machines_only_those_on_named_interfaces_are_taken() {
    let rules = rules(&taken(&["lan0", "wg0"], &[443]), 4711, MARKS);
    let text = rules.install(&LeftBehind::default());
    let jumps: Vec<&str> = text
        .lines()
        .filter(|line| line.ends_with("-j tandem-t-lnk0"))
        .collect();
    assert_eq!(
        jumps,
        [
            "-A PREROUTING -i lan0 -p tcp -m multiport --dports 443 -j tandem-t-lnk0",
            "-A PREROUTING -i wg0 -p tcp -m multiport --dports 443 -j tandem-t-lnk0",
            "-A OUTPUT -o lnk0 -p tcp -m multiport --dports 443 -j tandem-t-lnk0",
        ]
    );
}

#[test]
fn an_interface_that_cannot_be_is_named_with_its_setting() {
    let error = open_from(&["a b"], "lo", &[443]).expect_err("no such name");
    assert!(error.to_string().starts_with("from: `a b`"), "{error}");
}

/// client `c0` - `near0` gateway `lnk0`, `other0` - `s0`, `o0` server. The link is `lnk0`.
struct Net {
    prefix: String,
}

const CLIENT: &str = "client";
const GATEWAY: &str = "gateway";
const SERVER: &str = "server";

/// The server's addresses by the link, and by the other interface.
const BY_LINK: [&str; 2] = ["10.2.0.2", "fd00:2::2"];
const BY_OTHER: [&str; 2] = ["10.3.0.2", "fd00:3::2"];

/// Longest wait for something that takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

static COUNTER: AtomicU32 = AtomicU32::new(0);

impl Net {
    /// `None`, and a note, where namespaces cannot be made.
    fn new() -> Option<Self> {
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

    fn run(&self, host: &str, line: &str) -> String {
        run(&format!("ip netns exec {} {line}", self.name(host)))
    }

    fn wire(&self, a: (&str, &str), b: (&str, &str), number: u8) {
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
    fn inside<T: Send>(&self, host: &str, what: impl AsyncFnOnce() -> T + Send) -> T {
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
    fn connect(&self, host: &str, to: SocketAddr) -> io::Result<std::net::TcpStream> {
        self.inside(host, async || {
            std::net::TcpStream::connect_timeout(&to, PATIENCE)
        })
    }

    /// The gateway's rules without counters and dates, and those for its routes.
    fn rules(&self) -> String {
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

fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), port)
}

/// Which way the next connection to either listener is.
async fn next_way(listeners: &[TcpListener], to: &LedTo) -> Way {
    way(&next(listeners).await, to)
}

/// The next connection to either listener.
async fn next(listeners: &[TcpListener]) -> TcpStream {
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

#[test]
fn connections_are_redirected_with_their_destination_until_the_rules_are_removed() {
    are_taken_with_their_destination(Intercept::Redirect);
}

#[test]
fn connections_are_taken_by_tproxy_with_their_destination_until_the_rules_are_removed() {
    are_taken_with_their_destination(Intercept::Tproxy);
}

fn are_taken_with_their_destination(intercept: Intercept) {
    let Some(net) = Net::new() else { return };
    let before = net.rules();
    net.inside(GATEWAY, async || {
        let mut redirect = open_by(intercept, &[443]);
        let listeners = redirect.take_listeners();
        let link = redirect.led_to().clone();
        let own = listeners[0].local_addr().expect("bound").port();
        let mut cases = Vec::new();
        for version in [0, 1] {
            let [by_link, by_other] = [BY_LINK, BY_OTHER].map(|of| at(of[version], 443));
            let itself = at(["10.1.0.2", "fd00:1::2"][version], own);
            cases.push((CLIENT, by_link, Way::Tunnel(by_link)));
            cases.push((GATEWAY, by_link, Way::Tunnel(by_link)));
            cases.push((CLIENT, by_other, Way::PassOn(by_other)));
            cases.push((CLIENT, itself, Way::Nowhere));
        }
        for (host, to, expected) in cases {
            let stream = net.connect(host, to).expect("it is taken in");
            let found = next_way(&listeners, &link).await;
            assert_eq!(found, expected, "from {host} to {to}");
            drop(stream);
        }
        // Other ports, this machine itself, and other interfaces of local programs are left alone.
        for (host, to) in [
            (CLIENT, at(BY_LINK[0], 444)),
            (CLIENT, at("10.2.0.1", 443)),
            (GATEWAY, at(BY_OTHER[0], 443)),
        ] {
            let error = net.connect(host, to).expect_err("nobody listens there");
            assert_eq!(
                error.kind(),
                io::ErrorKind::ConnectionRefused,
                "{host} {to}"
            );
        }
        redirect.remove().await.expect("they can be removed");
    });
    assert_eq!(net.rules(), before);
}

#[test]
fn connections_that_are_older_than_the_rules_go_on_without_having_been_tracked() {
    use std::io::{Read as _, Write as _};

    for intercept in [Intercept::Tproxy, Intercept::Redirect] {
        // A new one: from the first rule of `nat` on, the kernel tracks connections.
        let Some(net) = Net::new() else { return };
        let server = at(BY_LINK[0], 443);
        let listening = net
            .inside(SERVER, async || std::net::TcpListener::bind(server))
            .expect("a free port");
        let mut client = net.connect(CLIENT, server).expect("it listens");
        let (mut end, _) = listening.accept().expect("it came");
        end.set_read_timeout(Some(PATIENCE)).expect("a socket");
        net.inside(GATEWAY, async || {
            let redirect = open_by(intercept, &[443]);
            client.write_all(b"still").expect("it stands");
            let mut read = [0; 5];
            let came = end.read_exact(&mut read);
            came.unwrap_or_else(|error| panic!("{intercept:?}: {error}"));
            assert_eq!(&read, b"still");
            redirect.remove().await.expect("they can be removed");
        });
    }
}

#[test]
fn tproxy_takes_connections_that_the_kernel_does_not_track() {
    use std::io::{Read as _, Write as _};

    let Some(net) = Net::new() else { return };
    for program in ["iptables", "ip6tables"] {
        for chain in ["PREROUTING", "OUTPUT"] {
            let rule = format!("{program} -t raw -A {chain} -p tcp -j CT --notrack");
            net.run(GATEWAY, &rule);
        }
    }
    net.inside(GATEWAY, async || {
        let mut redirect = open_by(Intercept::Tproxy, &[443]);
        let listeners = redirect.take_listeners();
        for address in BY_LINK {
            let server = at(address, 443);
            let mut client = net.connect(CLIENT, server).expect("it is taken in");
            let taken = next(&listeners).await;
            assert_eq!(way(&taken, redirect.led_to()), Way::Tunnel(server));
            assert_eq!(
                taken.peer_addr().expect("it stands"),
                client.local_addr().expect("it stands")
            );
            // Both ways, and further packets than the first.
            let mut taken = taken.into_std().expect("a socket");
            taken.set_nonblocking(false).expect("ours");
            taken.set_read_timeout(Some(PATIENCE)).expect("a socket");
            client.set_read_timeout(Some(PATIENCE)).expect("a socket");
            let mut read = [0; 5];
            client.write_all(b"there").expect("it stands");
            taken.read_exact(&mut read).expect("it comes");
            taken.write_all(&read).expect("it stands");
            client.read_exact(&mut read).expect("it comes");
            assert_eq!(&read, b"there");
        }
    });
}

/// A socket of `host` that has said something to a server.
fn asking(net: &Net, host: &str, server: SocketAddr) -> io::Result<UdpSocket> {
    net.inside(host, async || {
        let any: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.connect(server)?;
        socket.send(b"anybody?")?;
        Ok(socket)
    })
}

#[test]
fn udp_that_would_leave_by_the_link_is_rejected_at_once() {
    let Some(net) = Net::new() else { return };
    // A firewall that lets everything pass, and has been there before.
    for program in ["iptables", "ip6tables"] {
        net.run(GATEWAY, &format!("{program} -A FORWARD -j ACCEPT"));
    }
    let before = net.rules();
    let link = config::Link {
        udp: Udp::Reject,
        ..configured("lnk0", &[443])
    };
    for address in BY_LINK {
        let server = at(address, 443);
        let listening = net.inside(SERVER, async || UdpSocket::bind(server));
        let listening = listening.expect("a free port");
        listening.set_nonblocking(true).expect("ours");
        net.inside(GATEWAY, async || {
            let redirect = once_free(|| Redirect::open(&link, Own::None)).await;
            let client = asking(&net, CLIENT, server).expect("it can be sent");
            let refused = loop {
                let refused = client.recv(&mut [0; 16]).expect_err("nobody answers");
                // A signal, such as that of another test's child.
                if refused.kind() != io::ErrorKind::Interrupted {
                    break refused;
                }
            };
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused, "{server}");
            // What the kernel says of a rule in OUTPUT.
            let refused = asking(&net, GATEWAY, server).expect_err("it cannot be sent");
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{server}");
            redirect.remove().await.expect("they can be removed");
        });
        let error = listening.recv(&mut [0; 16]).expect_err("nothing came");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
    assert_eq!(net.rules(), before);
}

/// What waits at this socket, or comes in time.
fn came(socket: &UdpSocket) -> io::Result<usize> {
    loop {
        match socket.recv(&mut [0; 16]) {
            // A signal, such as that of another test's child.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// A child that another test starts has the queue, too, for a moment.
fn wait_for_no_queue() {
    let end = std::time::Instant::now() + PATIENCE;
    let bound = || std::fs::read_to_string("/proc/thread-self/net/netfilter/nfnetlink_queue");
    while !bound().expect("it is there").is_empty() {
        assert!(std::time::Instant::now() < end, "somebody has it");
    }
}

#[test]
fn udp_that_nobody_reads_passes_or_is_dropped_as_while_the_tunnel_is_down() {
    let Some(net) = Net::new() else { return };
    for (when_down, passes) in [(WhenDown::Pass, true), (WhenDown::Fail, false)] {
        for address in BY_LINK {
            let [taken, other] = [443, 444].map(|port| {
                let socket = net.inside(SERVER, async || UdpSocket::bind(at(address, port)));
                let socket = socket.expect("a free port");
                socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
                socket
            });
            net.inside(GATEWAY, async || {
                let mut redirect = udp_taken(&[], when_down).await;
                // What a daemon does that stops, or is killed.
                drop(redirect.take_datagrams());
                wait_for_no_queue();
                for host in [CLIENT, GATEWAY] {
                    // They go one after the other.
                    for port in [443, 444] {
                        asking(&net, host, at(address, port)).expect("it can be sent");
                    }
                    came(&other).expect("nobody takes it");
                    taken.set_nonblocking(!passes).expect("a socket");
                    assert_eq!(came(&taken).is_ok(), passes, "{host} {address}");
                }
                redirect.remove().await.expect("they can be removed");
            });
        }
    }
}

/// Who has sent the next datagram that is taken.
fn next_client(queued: &mut Queued) -> SocketAddr {
    let end = std::time::Instant::now() + PATIENCE;
    let mut client = None;
    while client.is_none() {
        assert!(std::time::Instant::now() < end, "none comes");
        let received = queued.queue.receive(|packet, _| {
            let datagram = UdpPacket::parse(packet.bytes).expect("it is UDP");
            client = client.or(Some(datagram.source));
        });
        received.expect("it can be read");
    }
    client.expect("it came")
}

#[test]
fn udp_of_machines_on_the_links_own_network_is_left_alone() {
    let Some(net) = Net::new() else { return };
    // The server has the gateway forward to a network that is behind the server itself.
    net.run(GATEWAY, "ip route add 10.9.0.0/24 via 10.2.0.2");
    net.run(GATEWAY, "ip -6 route add fd00:9::/64 via fd00:2::2");
    net.run(SERVER, "ip -6 route add fd00:9::/64 via fd00:2::1");
    net.inside(GATEWAY, async || {
        let mut redirect = udp_taken(&[], WhenDown::Fail).await;
        let mut queued = redirect.take_datagrams().expect("it is wanted");
        for (beyond, by_link) in [("10.9.0.1", BY_LINK[0]), ("fd00:9::1", BY_LINK[1])] {
            asking(&net, SERVER, at(beyond, 443)).expect("it can be sent");
            let client = asking(&net, CLIENT, at(by_link, 443)).expect("it can be sent");
            let client = client.local_addr().expect("it is connected");
            assert_eq!(next_client(&mut queued), client);
        }
        redirect.remove().await.expect("they can be removed");
    });
}

#[test]
fn where_interfaces_are_named_udp_of_this_machine_is_taken_unless_it_is_translated() {
    let Some(net) = Net::new() else { return };
    let translation = "-d 10.2.0.9 -p udp -j DNAT --to-destination 10.2.0.2";
    net.run(GATEWAY, &format!("iptables -t nat -A OUTPUT {translation}"));
    let before = net.rules();
    let server = at(BY_LINK[0], 443);
    let listening = net.inside(SERVER, async || UdpSocket::bind(server));
    let listening = listening.expect("a free port");
    let set = listening.set_read_timeout(Some(PATIENCE));
    set.expect("a socket");
    net.inside(GATEWAY, async || {
        let mut redirect = udp_taken(&["other0"], WhenDown::Fail).await;
        let mut queued = redirect.take_datagrams().expect("it is wanted");
        for (host, to) in [(GATEWAY, at("10.2.0.9", 443)), (CLIENT, server)] {
            asking(&net, host, to).expect("it can be sent");
            came(&listening).expect("it is left alone");
        }
        let own = asking(&net, GATEWAY, server).expect("it can be sent");
        let own = own.local_addr().expect("it is connected");
        assert_eq!(next_client(&mut queued), own);
        redirect.remove().await.expect("they can be removed");
    });
    assert_eq!(net.rules(), before);
}

#[test]
fn what_a_killed_daemon_with_other_settings_left_goes_whole() {
    let Some(net) = Net::new() else { return };
    let before = net.rules();
    net.inside(GATEWAY, async || {
        let other = Taken {
            intercept: Intercept::Tproxy,
            udp: Udp::Reject,
            ..taken(&[], &[443])
        };
        let marks = Marks {
            delivered: Some(0x2000_0000),
            ..MARKS
        };
        let left = Firewall::here().install(rules(&other, 9, marks));
        std::mem::forget(left.expect("they can be set"));
        for of_it in ["TPROXY", "REJECT", "fwmark"] {
            assert!(net.rules().contains(of_it), "{of_it}");
        }
        let redirect = open("lnk0", &[443]).expect("it can be set");
        for of_it in ["TPROXY", "REJECT", "fwmark"] {
            assert!(!net.rules().contains(of_it), "{of_it}: {}", net.rules());
        }
        redirect.remove().await.expect("they can be removed");
    });
    assert_eq!(net.rules(), before);
}

#[test]
fn other_machines_elsewhere_than_on_named_interfaces_are_left_alone() {
    let Some(net) = Net::new() else { return };
    net.inside(GATEWAY, async || {
        let by_link = at(BY_LINK[0], 443);
        let redirect = open_from(&["other0"], "lnk0", &[443]).expect("it can be set");
        // It is forwarded, and the server refuses it.
        let error = net.connect(CLIENT, by_link).expect_err("nobody listens");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        net.connect(GATEWAY, by_link).expect("it is taken in");
        redirect.remove().await.expect("they can be removed");
        let _redirect = reopened(&["near0"], "lnk0", &[443]).await;
        net.connect(CLIENT, by_link).expect("it is taken in");
    });
}

#[test]
fn a_route_by_port_and_source_is_followed() {
    let Some(net) = Net::new() else { return };
    for line in [
        "ip rule add from 10.1.0.0/24 ipproto tcp dport 443 table 100",
        "ip route add default via 10.3.0.2 table 100",
    ] {
        net.run(GATEWAY, line);
    }
    net.inside(GATEWAY, async || {
        let mut redirect = open("lnk0", &[443, 444]).expect("it can be set");
        let listeners = redirect.take_listeners();
        let link = redirect.led_to().clone();
        for (to, expected) in [
            (at(BY_LINK[0], 443), Way::PassOn(at(BY_LINK[0], 443))),
            (at(BY_LINK[0], 444), Way::Tunnel(at(BY_LINK[0], 444))),
        ] {
            let stream = net.connect(CLIENT, to).expect("it is taken in");
            assert_eq!(next_way(&listeners, &link).await, expected);
            drop(stream);
        }
    });
}

#[test]
fn what_another_interface_leads_to_is_passed_on_and_watched() {
    use std::io::{Read as _, Write as _};

    let Some(net) = Net::new() else { return };
    let server = at(BY_OTHER[0], 443);
    let listening = net
        .inside(SERVER, async || std::net::TcpListener::bind(server))
        .expect("a free port");
    net.inside(GATEWAY, async || {
        let mut redirect = open("lnk0", &[443]).expect("it can be set");
        let listeners = redirect.take_listeners();
        let mut client = net.connect(CLIENT, server).expect("it is taken in");
        let (stream, _) = listeners[0].accept().await.expect("it comes");
        assert_eq!(way(&stream, redirect.led_to()), Way::PassOn(server));
        PassingOn::new().start(stream, Vec::new(), TcpStream::connect(server));
        let echoed = tokio::task::spawn_blocking(move || {
            let (mut end, _) = listening.accept()?;
            client.write_all(b"there")?;
            let mut read = [0; 5];
            end.read_exact(&mut read)?;
            end.write_all(&read)?;
            client.read_exact(&mut read)?;
            assert_eq!(&read, b"there");
            io::Result::Ok((client, end))
        });
        let _ends = echoed.await.expect("no panic").expect("it stands");
        // An endpoint that is gone without a word is found out. Until all is acknowledged, the
        // timers are others.
        let asked = || net.run(GATEWAY, "ss -Htno").matches("(keepalive,").count();
        let end = std::time::Instant::now() + PATIENCE;
        while asked() != 2 {
            assert!(std::time::Instant::now() < end, "{} of 2", asked());
        }
    });
}

#[test]
fn what_a_killed_daemon_left_is_replaced_by_the_next_and_found_by_off() {
    let Some(net) = Net::new() else { return };
    let before = net.rules();
    net.inside(GATEWAY, async || {
        // Rules without a daemon.
        let leave = || {
            let installed = Firewall::here().install(rules(&taken(&[], &[443]), 9, MARKS));
            std::mem::forget(installed.expect("they can be set"));
        };
        leave();
        let redirect = open("lnk0", &[443]).expect("it can be set");
        assert!(!net.rules().contains("--to-ports 9\n"), "{}", net.rules());
        assert_eq!(net.rules().matches("REDIRECT").count(), 2);
        drop(redirect);
        assert_eq!(net.rules(), before, "dropping it removes them");
        leave();
        let removed = Firewall::here().clear().removed;
        assert!(removed.iter().all(|(_, chain)| chain == "tandem-t-lnk0"));
        assert_eq!(removed.len(), 2);
    });
    assert_eq!(net.rules(), before);
}

#[test]
fn an_interface_that_comes_after_the_start_is_the_link_all_the_same() {
    for intercept in [Intercept::Redirect, Intercept::Tproxy] {
        // A new one: another test's program may hold the lock for a moment longer.
        let Some(net) = Net::new() else { return };
        net.inside(GATEWAY, async || {
            let link = config::Link {
                intercept,
                ..configured("late0", &[443])
            };
            let mut redirect = Redirect::open(&link, Own::None).expect("it can be set");
            let listeners = redirect.take_listeners();
            net.wire((GATEWAY, "late0"), (SERVER, "l0"), 4);
            for server in ["10.4.0.2", "fd00:4::2"].map(|address| at(address, 443)) {
                for host in [CLIENT, GATEWAY] {
                    let _client = net.connect(host, server).expect("it is taken in");
                    let found = next_way(&listeners, redirect.led_to()).await;
                    assert_eq!(found, Way::Tunnel(server), "from {host}");
                }
            }
            redirect.remove().await.expect("they can be removed");
        });
    }
}

#[test]
fn one_daemon_takes_a_link() {
    let Some(net) = Net::new() else { return };
    net.inside(GATEWAY, async || {
        let _first = open("lnk0", &[443]).expect("it can be set");
        let error = open("lnk0", &[443]).expect_err("taken");
        assert!(error.to_string().contains("another tandem client-side"));
    });
}

#[test]
fn what_goes_to_the_server_side_is_left_alone() {
    let Some(net) = Net::new() else { return };
    // Over IPv6 the server has no way back to the client.
    for (version, hosts) in [(0, &[CLIENT, GATEWAY][..]), (1, &[GATEWAY])] {
        let peer = at(BY_LINK[version], 443);
        let other = at(BY_LINK[1 - version], 443);
        net.inside(GATEWAY, async || {
            let link = config::Link {
                peer,
                ..configured("lnk0", &[443])
            };
            let mut redirect = once_free(|| Redirect::open(&link, Own::None)).await;
            let listeners = redirect.take_listeners();
            for host in hosts {
                // Nobody listens there.
                let error = net.connect(host, peer).expect_err("not taken in");
                assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{host}");
            }
            let _client = net.connect(GATEWAY, other).expect("taken in");
            let link = redirect.led_to().clone();
            assert_eq!(next_way(&listeners, &link).await, Way::Tunnel(other));
            redirect.remove().await.expect("it can be removed");
        });
    }
}
