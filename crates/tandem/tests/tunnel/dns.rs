//! DNS by `--dns`, with both proxies as processes and an unmodified dig. One test needs root, for a
//! gateway in network namespaces.
//!
//! Is not: what a message says, or how long an answer is kept (`tandem-tunnel`).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;

use crate::support::{common, real, resolver, split_site, tunnel_pair};
use common::tandem;
use nix::sys::signal::Signal;
use real::{Family, Host, Net, Shape, can_run, has, wait_until};
use resolver::{Asked, Resolver};
use split_site::free_port;
use tunnel_pair::{KEYS, Pair, Proxy, counted, local, shown_in, start, write_private};

/// What dig saw.
#[derive(Debug)]
struct Dug {
    text: String,
}

impl Dug {
    /// Asks once, and waits for longer than a forwarder may take.
    fn command(server: &str, port: u16, words: &str) -> Command {
        let mut command = Command::new("dig");
        let port = port.to_string();
        // No settings of whoever runs the test.
        command.args([
            "-r",
            "+tries=1",
            "+time=20",
            "-p",
            &port,
            &format!("@{server}"),
        ]);
        command.args(words.split_whitespace());
        command
    }

    fn of(command: &mut Command) -> Self {
        let output = command.output().expect("dig runs");
        Self {
            text: String::from_utf8_lossy(&output.stdout).into_owned(),
        }
    }

    fn in_host(host: &Host, command: &mut Command) -> Self {
        let output = host.output(command);
        Self {
            text: String::from_utf8_lossy(&output.stdout).into_owned(),
        }
    }

    /// `NOERROR` and the like; nothing where there was no answer.
    fn status(&self) -> &str {
        let after = self.text.split_once("status: ");
        after.map_or("", |(_, rest)| rest.split(',').next().unwrap_or_default())
    }

    /// The time to live of the first record.
    #[track_caller]
    fn ttl(&self) -> u32 {
        let is_record = |line: &&str| !line.is_empty() && !line.starts_with(';');
        let first = self.text.lines().find(is_record);
        let ttl = first.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        ttl.unwrap_or_else(|| panic!("no record in {}", self.text))
    }

    #[track_caller]
    fn is(&self, status: &str, holds: &str) {
        assert_eq!(self.status(), status, "{}", self.text);
        assert!(self.text.contains(holds), "{holds} is not in {}", self.text);
    }
}

/// Both proxies on the loopback interface, and how to ask.
struct Here {
    pair: Pair,
    port: u16,
    resolver: Resolver,
}

impl Here {
    fn new() -> Self {
        Self {
            pair: Pair::new(),
            port: free_port(),
            resolver: Resolver::start((Ipv4Addr::LOCALHOST, 0).into(), &[]),
        }
    }

    #[track_caller]
    fn server_side(&self) -> Proxy {
        let resolver = self.resolver.address.to_string();
        start(self.pair.server_side(1).args(["--dns-server", &resolver]))
    }

    #[track_caller]
    fn client_side(&self) -> Proxy {
        start(self.pair.client_side().args(["--dns", &local(self.port)]))
    }

    /// Both, once the tunnel is up: whoever asks before waits for nine seconds at most.
    #[track_caller]
    fn both_sides(&self) -> [Proxy; 2] {
        let both = [self.server_side(), self.client_side()];
        wait_until("the tunnel is up", || {
            self.pair.client_side_shows("tunnels") > 0
        });
        both
    }

    fn dig(&self, words: &str) -> Dug {
        Dug::of(&mut Dug::command("127.0.0.1", self.port, words))
    }
}

#[test]
fn dig_gets_the_far_resolvers_answers_and_the_link_carries_each_once() {
    if !has(&["dig"]) {
        return;
    }
    let here = Here::new();
    let [server_side, client_side] = here.both_sides();
    for words in ["a.test", "A.TEST", "a.test +tcp", "a.test +noedns"] {
        here.dig(words).is("NOERROR", "192.0.2.1");
    }
    assert_eq!(here.resolver.times("a.test"), 1);
    // What says that there is nothing is kept, too, for as long as the SOA record permits.
    for _ in 0..2 {
        let gone = here.dig("gone.test");
        gone.is("NXDOMAIN", "SOA");
        assert!(gone.ttl() <= 60, "{gone:?}");
    }
    assert_eq!(here.resolver.times("gone.test"), 1);
    let huge = here.dig("huge.test");
    huge.is("NOERROR", "192.0.2.1");
    assert!(huge.ttl() <= 86_400, "{huge:?}");
    // Neither another identifier nor another question passes for the answer.
    let forged = here.dig("forged.test");
    forged.is("NOERROR", "192.0.2.1");
    assert!(!forged.text.contains("198.51.100.1"), "{forged:?}");
    // Too long for UDP, at both ends.
    let long = here.dig("long.test TXT");
    long.is("NOERROR", "ANSWER: 20,");
    let over: Vec<&str> = here
        .resolver
        .asked()
        .iter()
        .map(|asked| asked.over)
        .collect();
    assert_eq!(over.iter().filter(|over| **over == "TCP").count(), 1);
    assert_eq!(here.resolver.times("long.test"), 2);
    // What is not passed on.
    here.dig("a.test ANY +notcp").is("NOTIMP", "");
    here.dig("version.bind TXT CH").is("REFUSED", "");
    assert_eq!(here.pair.client_side_counts("dns_crossed"), 5);
    assert_eq!(here.pair.server_side_counts("dns_resolved"), 5);
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
    assert_eq!(server_side.end(Signal::SIGTERM), Some(0));
}

#[test]
fn a_resolver_without_an_answer_is_a_failure_in_bounded_time() {
    if !has(&["dig"]) {
        return;
    }
    let here = Here::new();
    let _both = here.both_sides();
    let ask = |name: &str| Dug::command("127.0.0.1", here.port, name);
    std::thread::scope(|scope| {
        // Nothing is said, and what is said has a name that never ends.
        let runs =
            ["silent.test", "loop.test"].map(|name| scope.spawn(move || Dug::of(&mut ask(name))));
        for run in runs {
            run.join().expect("dig runs").is("SERVFAIL", "");
        }
    });
    // Nobody else was held up, or is.
    here.dig("a.test").is("NOERROR", "192.0.2.1");
    wait_until("both are counted", || {
        here.pair.server_side_counts("dns_unresolved") == 2
    });
}

#[test]
fn without_the_other_side_there_is_a_failure_and_then_old_answers_serve() {
    if !has(&["dig"]) {
        return;
    }
    let here = Here::new();
    let client_side = here.client_side();
    here.dig("brief.test").is("SERVFAIL", "");
    let server_side = here.server_side();
    wait_until("the other side answers", || {
        here.dig("brief.test").status() == "NOERROR"
    });
    assert_eq!(server_side.end(Signal::SIGKILL), None);
    // Its second is over at some time; then nobody is there to ask.
    wait_until("an old answer is given", || {
        let dug = here.dig("brief.test");
        dug.is("NOERROR", "192.0.2.1");
        dug.ttl() == 30
    });
    assert!(here.pair.client_side_counts("dns_answered_stale") > 0);
    here.dig("other.test").is("SERVFAIL", "");
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
}

#[test]
fn a_gateway_answers_its_own_network_alone_and_leaves_udp_that_passes_it() {
    if !can_run() || !has(&["dig"]) {
        return;
    }
    let net = Net::new(Shape::Wire);
    write_private(&net.path("key"), KEYS[0]);
    let server = net.server_address(Family::V4);
    let resolver = net
        .server
        .inside(|| Resolver::start(SocketAddr::new(server, 53), &[443]));
    let proxy = |host: &Host, role: &str, words: &[&str]| {
        let mut command = tandem(&[role, "--mode", "tunnel", "--key"]);
        command.arg(net.path("key"));
        command.arg("--store").arg(net.path(role)).args(words);
        Proxy::start(&mut command, |command| host.spawn(command))
    };
    let peer = format!("{}:4433", net.b_address(Family::V4));
    let _server_side = proxy(
        &net.b,
        "server-side",
        &[
            "--listen",
            &peer,
            "--dns-server",
            &resolver.address.to_string(),
        ],
    );
    let flags = ["--peer", &peer, "--link", "link0", "--dns", "10.77.1.1:53"];
    // One of the client's addresses is of the public network, and there is a way back to it.
    net.client.run("ip addr add 198.51.100.7/32 dev eth0");
    net.a.run("ip route add 198.51.100.7/32 via 10.77.1.2");
    let ask = |port, server: &str, words: &str| {
        Dug::in_host(&net.client, &mut Dug::command(server, port, words))
    };
    let count = |name| counted(&net.a.run("curl -s http://127.0.0.1:9470/metrics"), name);
    let start_client_side = |flags: &[&str]| {
        let started = proxy(&net.a, "client-side", flags);
        wait_until("the tunnel is up", || {
            let metrics = net.a.run("curl -s http://127.0.0.1:9470/metrics");
            shown_in(&metrics, "tunnels") > 0
        });
        started
    };
    let client_side = start_client_side(&flags);

    ask(53, "10.77.1.1", "a.test").is("NOERROR", "192.0.2.1");
    let b: IpAddr = [10, 77, 3, 1].into();
    let by_b = |name: &str| Asked {
        name: name.to_owned(),
        from: b,
        over: "UDP",
    };
    assert_eq!(resolver.asked(), [by_b("a.test")]);
    // Whoever may not ask gets nothing, over UDP and TCP.
    for words in [
        "a.test -b 198.51.100.7 +time=2",
        "a.test -b 198.51.100.7 +tcp +time=2",
    ] {
        assert_eq!(ask(53, "10.77.1.1", words).status(), "", "{words}");
    }
    wait_until("both are counted", || count("dns_not_allowed") == 2);

    // What passes the gateway is as it was, on a port that is taken in for TCP, too.
    for port in [53, 443] {
        ask(port, &server.to_string(), "plain.test").is("NOERROR", "192.0.2.1");
        let last = resolver.asked().pop();
        assert_eq!(last.map(|asked| asked.from), Some([10, 77, 1, 2].into()));
    }
    assert_eq!(count("dns_queries"), 1);
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));

    let other = [&flags[..], &["--dns-from", "198.51.100.0/24"]].concat();
    let client_side = start_client_side(&other);
    ask(53, "10.77.1.1", "b.test -b 198.51.100.7").is("NOERROR", "192.0.2.1");
    assert_eq!(ask(53, "10.77.1.1", "b.test +time=2").status(), "");
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
}
