//! UDP through the tunnel with `--link` and `--udp tunnel`: programs that know nothing of a proxy,
//! on a gateway's network and on the gateway itself. HTTP/3 by ngtcp2's client and server, DNS by
//! dig and dnsmasq.
//!
//! Is not: which way a payload crosses (`tandem-tunnel-io`). Root only; skipped, with a message,
//! otherwise.

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{real, split_site, tunnel_net};
use nix::sys::signal::Signal;
use real::{
    Family, Host, KeyType, Net, PATIENCE, Pki, SITE, Site, bytes, can_run, has, link, wait_until,
};
use split_site::Running;
use tunnel_net::{Place, rules};

const TUNNEL: [&str; 4] = ["--udp", "tunnel", "--when-down", "fail"];
const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// A program on this host, until it is dropped.
fn start(host: &Host, command: &mut Command) -> Running {
    let command = command.stdin(Stdio::null());
    Running(host.spawn(command.stdout(Stdio::null()).stderr(Stdio::null())))
}

/// Nothing of UDP to the servers crosses B but out of the tunnel.
fn only_the_tunnel(place: &Place) {
    for family in FAMILIES {
        let rule = "-A FORWARD -i link0 -p udp -j DROP";
        place.net.b.rules(family, "filter", &[rule]);
    }
}

/// A server that sends back what it gets, for as long as the test takes.
fn mirror(place: &Place, family: Family, port: u16) -> SocketAddr {
    let address = SocketAddr::new(place.net.server_address(family), port);
    let socket = place.net.server.inside(|| UdpSocket::bind(address));
    let socket = socket.expect("it is free");
    std::thread::spawn(move || {
        let mut room = vec![0; 65_536];
        while let Ok((len, from)) = socket.recv_from(&mut room) {
            if &room[..len] == b"end" {
                return;
            }
            let _ = socket.send_to(&room[..len], from);
        }
    });
    address
}

/// A socket of `host` that is connected to a server.
fn client(host: &Host, server: SocketAddr) -> UdpSocket {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    host.inside(|| {
        let socket = UdpSocket::bind((any, 0)).expect("a free port");
        socket.connect(server).expect("there is a route");
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
        socket
    })
}

#[track_caller]
fn asks(client: &UdpSocket, payload: &[u8]) {
    client.send(payload).expect("it can be sent");
    let mut room = vec![0; 65_536];
    let len = client.recv(&mut room).expect("it comes back");
    assert!(&room[..len] == payload, "{len} bytes");
}

/// ngtcp2's server with this page, on the server.
fn http3_server(place: &Place, page: &[u8]) -> Running {
    let served = place.net.path("served");
    fs::create_dir(&served).expect("ours");
    fs::write(served.join("page"), page).expect("ours");
    let pki = Pki::shared();
    let mut command = Command::new("gtlsserver");
    command.args(["-q", "-d"]).arg(&served).args(["*", "443"]);
    command.arg(pki.key(KeyType::Ecdsa));
    command.arg(pki.chain(KeyType::Ecdsa));
    start(&place.net.server, &mut command)
}

/// What ngtcp2's client gets of it, if anything.
fn http3(place: &Place, host: &Host, family: Family) -> Vec<u8> {
    let fetched = place.net.path("fetched");
    let _ = fs::remove_dir_all(&fetched);
    fs::create_dir(&fetched).expect("ours");
    let address = place.net.server_address(family).to_string();
    let mut command = Command::new("gtlsclient");
    command.args(["-q", "--exit-on-all-streams-close", "--timeout=20s"]);
    command.arg(format!("--download={}", fetched.display()));
    command.args([&address, "443", &format!("https://{SITE}/page")]);
    host.output(&mut command);
    fs::read(fetched.join("page")).unwrap_or_default()
}

/// The figures of docs/adr/0047-udp-of-the-link.md; `--nocapture` shows them.
#[test]
fn http3_costs_little_more_through_the_tunnel_than_beside_it() {
    if !can_run() || !has(&["gtlsclient", "gtlsserver"]) {
        return;
    }
    let place = Place::of(Net::emulated(link(350_000, 350), 1), Site::default());
    let page = bytes(20_000);
    let _server = http3_server(&place, &page);
    let _server_side = place.server_side();
    let measured = |how: &str| {
        let flags = ["--udp", how, "--when-down", "fail", "--link-rtt", "700"];
        let client_side = place.client_side_with(&flags);
        let fetched = || {
            let emulator = place.net.emulator();
            let before = emulator.log_from(0).len();
            let since = Instant::now();
            let is_there = http3(&place, &place.net.client, Family::V4) == page;
            let took = since.elapsed();
            let quiet = (Duration::from_secs(1), Duration::from_secs(10));
            emulator
                .settle(quiet.0, quiet.1)
                .expect("nobody interrupts it");
            let crossed = &emulator.log_from(0)[before..];
            let bytes: usize = crossed.iter().map(|it| it.packet.len()).sum();
            (is_there, took, bytes, crossed.len())
        };
        // The first makes the tunnel.
        wait_until("the page is there", || fetched().0);
        let runs: Vec<_> = (0..3).map(|_| fetched()).collect();
        println!("{how}: {runs:.2?}");
        assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
        assert!(runs.iter().all(|run| run.0));
        let bytes = runs.iter().map(|run| run.2).min();
        bytes.expect("three")
    };
    let (beside, through) = (measured("pass"), measured("tunnel"));
    assert!(through < beside + beside / 4, "{through}, {beside}");
}

#[test]
fn http3_of_another_machine_and_of_the_gateway_crosses_the_tunnel() {
    if !can_run() || !has(&["gtlsclient", "gtlsserver"]) {
        return;
    }
    let place = Place::new();
    let before = rules(&place.net.a);
    let page = bytes(300_000);
    let _server = http3_server(&place, &page);
    only_the_tunnel(&place);
    let server_side = place.server_side();
    let client_side = place.client_side_with(&TUNNEL);
    for family in FAMILIES {
        for host in [&place.net.client, &place.net.a] {
            // The first may come before the server listens.
            wait_until("the page is there", || http3(&place, host, family) == page);
        }
    }
    assert!(place.client_side_counts("datagram_flows_opened") >= 4);
    assert!(place.server_side_counts("datagrams_from_endpoints") >= 400);
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
    assert_eq!(server_side.end(Signal::SIGTERM), Some(0));
    assert_eq!(rules(&place.net.a), before);
}

#[test]
fn dig_asks_a_name_server_through_the_tunnel() {
    if !can_run() || !has(&["dig", "dnsmasq"]) {
        return;
    }
    let place = Place::new();
    let mut command = Command::new("dnsmasq");
    command.args(["--no-daemon", "--conf-file=/dev/null", "--no-resolv"]);
    command.args(["--no-hosts", "--user=root", "--pid-file="]);
    command.arg("--address=/www.example/192.0.2.1");
    let _server = start(&place.net.server, &mut command);
    only_the_tunnel(&place);
    let _server_side = place.server_side();
    let _client_side = place.client_side_with(&[&TUNNEL[..], &["--ports", "443,53"]].concat());
    for family in FAMILIES {
        for host in [&place.net.client, &place.net.a] {
            let mut command = Command::new("dig");
            let server = place.net.server_address(family);
            command.args(["-r", "+notcp", "+tries=10", "+time=5", "+short"]);
            command.args([&format!("@{server}"), "www.example", "A"]);
            let output = host.output(&mut command);
            assert_eq!(String::from_utf8_lossy(&output.stdout), "192.0.2.1\n");
        }
    }
}

#[test]
fn datagrams_that_no_link_takes_whole_arrive_whole() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    only_the_tunnel(&place);
    let _server_side = place.server_side();
    let _client_side = place.client_side_with(&TUNNEL);
    for family in FAMILIES {
        let server = mirror(&place, family, 443);
        for host in [&place.net.client, &place.net.a] {
            let client = client(host, server);
            for len in [0, 1, 1_400, 1_473, 9_000, 60_000] {
                asks(&client, &bytes(len));
            }
        }
        client(&place.net.server, server)
            .send(b"end")
            .expect("ours");
    }
    assert_eq!(place.client_side_counts("datagrams_dropped"), 0);
}

#[test]
fn a_client_hears_that_nobody_has_the_port_or_that_it_may_not_get_there() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    only_the_tunnel(&place);
    let _server_side = place.server_side_with(&["--allow", "10.77.3.2/32:443"]);
    let ports = [&TUNNEL[..], &["--ports", "443,444"]].concat();
    let _client_side = place.client_side_with(&ports);
    for family in FAMILIES {
        let address = place.net.server_address(family);
        for host in [&place.net.client, &place.net.a] {
            let client = client(host, SocketAddr::new(address, 443));
            client.send(b"anybody?").expect("it can be sent");
            let error = client.recv(&mut [0; 16]).expect_err("nobody answers");
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{family:?}");
        }
    }
    // Not of the list: an address of B's own.
    let other = SocketAddr::new(place.net.b_address(Family::V4), 444);
    let stranger = client(&place.net.client, other);
    stranger.send(b"anybody?").expect("it can be sent");
    let error = stranger.recv(&mut [0; 16]).expect_err("nobody answers");
    assert_eq!(error.kind(), ErrorKind::HostUnreachable);
    assert!(place.server_side_counts("servers_not_allowed") > 0);
}

/// The ICMP messages of this kind that a host has got (`Icmp` in /proc/net/snmp).
fn unreachables(host: &Host) -> u64 {
    let text = host.inside(|| fs::read_to_string("/proc/thread-self/net/snmp"));
    let text = text.expect("it is there");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Icmp: "));
    let (names, numbers) = (lines.next(), lines.next());
    let mut columns = names.unwrap_or_default().split(' ');
    let mut numbers = numbers.unwrap_or_default().split(' ');
    let index = columns.position(|name| name == "InDestUnreachs");
    let number = numbers.nth(index.expect("it is counted"));
    number.expect("it is there").parse().expect("a number")
}

#[test]
fn who_sends_many_datagrams_in_vain_hears_of_few() {
    const SENT: u64 = 100;
    if !can_run() {
        return;
    }
    let place = Place::new();
    let refusing = [&TUNNEL[..], &["--rule", "refuse ports=443"]].concat();
    let _client_side = place.client_side_with(&refusing);
    let host = &place.net.client;
    let client = host.inside(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)));
    let client = client.expect("a free port");
    let since = Instant::now();
    for _ in 0..SENT {
        let server = (place.net.server_address(Family::V4), 443);
        client.send_to(b"hello", server).expect("it can be sent");
    }
    wait_until("all have an answer, or none", || {
        unreachables(host) + place.client_side_counts("icmp_errors_limited") >= SENT
    });
    // Six at once, and one a second.
    let most = 7 + since.elapsed().as_secs();
    let heard = unreachables(host);
    assert!((6..=most).contains(&heard), "{heard} of {most}");
}

#[test]
fn while_the_tunnel_is_down_udp_passes_and_what_passed_goes_on_so() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let client_side = place.client_side_with(&["--udp", "tunnel"]);
    let server = mirror(&place, Family::V4, 443);
    let (older, newer) = (
        client(&place.net.client, server),
        client(&place.net.client, server),
    );
    older
        .set_read_timeout(Some(Duration::from_millis(200)))
        .expect("a socket");
    // The first are lost while it is not known that nobody answers.
    wait_until("it passes", || {
        older.send(b"hello").expect("it can be sent");
        older.recv(&mut [0; 16]).is_ok()
    });
    assert!(place.client_side_counts("datagrams_passed") > 0);
    let server_side = place.server_side();
    let opened = || place.client_side_counts("datagram_flows_opened");
    wait_until("the tunnel is used", || {
        // The kernel forgets after half a minute what has had no second answer.
        older.send(b"hello").expect("it can be sent");
        let _ = older.recv(&mut [0; 16]);
        let again = client(&place.net.client, server);
        asks(&again, b"hello");
        place.server_side_counts("datagram_flows_opened") > 0
    });
    asks(&newer, b"hello");
    // Its way is the one that it had: no other one is seen of it.
    let before = opened();
    older.set_read_timeout(Some(PATIENCE)).expect("a socket");
    asks(&older, b"hello");
    assert_eq!(opened(), before);
    // The other side is lost, and found out.
    assert_eq!(server_side.end(Signal::SIGKILL), None);
    wait_until("it passes again", || {
        let again = client(&place.net.client, server);
        let soon = Duration::from_millis(500);
        again.set_read_timeout(Some(soon)).expect("a socket");
        again.send(b"hello").expect("it can be sent");
        again.recv(&mut [0; 16]).is_ok()
    });
    // A daemon that is killed leaves nothing that stops UDP.
    assert_eq!(client_side.end(Signal::SIGKILL), None);
    asks(&client(&place.net.client, server), b"hello");
}

/// Datagrams for which the kernel's packet queues had no room, and that it dropped (`nfqnl_show` in
/// net/netfilter/nfnetlink_queue.c).
fn dropped_by_the_queue(host: &Host) -> u64 {
    let path = "/proc/thread-self/net/netfilter/nfnetlink_queue";
    let text = host
        .inside(|| fs::read_to_string(path))
        .expect("it is there");
    let dropped = |line: &str| -> u64 {
        let numbers = line.split_whitespace().skip(5).take(2);
        numbers.map(|it| it.parse::<u64>().expect("a number")).sum()
    };
    text.lines().map(dropped).sum()
}

#[test]
fn what_a_full_queue_does_not_take_stays_off_the_link_with_when_down_fail() {
    /// More than wait in the queue.
    const DROPPED: u64 = 20_000;
    if !can_run() {
        return;
    }
    let place = Place::new();
    let client_side = place.client_side_with(&TUNNEL);
    let server = SocketAddr::new(place.net.server_address(Family::V4), 443);
    let passed = place.net.server.inside(|| UdpSocket::bind(server));
    let passed = passed.expect("it is free");
    passed.set_nonblocking(true).expect("ours");
    let has_passed = || passed.peek(&mut [0; 16]).is_ok();
    // It has no time to read, as on a machine that is busy.
    client_side.signal(Signal::SIGSTOP);
    let client = client(&place.net.client, server);
    let payload = bytes(1_000);
    wait_until("the queue is full", || {
        for _ in 0..1_000 {
            client.send(&payload).expect("it can be sent");
        }
        dropped_by_the_queue(&place.net.a) >= DROPPED || has_passed()
    });
    assert!(!has_passed());
    client_side.signal(Signal::SIGCONT);
    wait_until("it is seen by what comes next", || {
        // The client may have heard of those before.
        let _ = client.send(&payload);
        place.client_side_counts("datagrams_dropped") >= DROPPED
    });
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
    assert!(!has_passed());
}

#[test]
fn what_the_firewall_forbids_and_what_is_translated_is_left_to_it() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let server = mirror(&place, Family::V4, 443);
    let a = &place.net.a;
    a.rules(
        Family::V4,
        "filter",
        &["-A FORWARD -s 10.77.1.2 -p udp --dport 443 -j REJECT"],
    );
    a.rules(
        Family::V4,
        "nat",
        &["-A OUTPUT -d 10.77.3.9 -p udp --dport 443 -j DNAT --to-destination 10.77.3.2"],
    );
    let _server_side = place.server_side();
    let _client_side = place.client_side_with(&TUNNEL);
    let forbidden = client(&place.net.client, server);
    forbidden.send(b"hello").expect("it can be sent");
    let error = forbidden.recv(&mut [0; 16]).expect_err("it is rejected");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    let translated = client(a, "10.77.3.9:443".parse().expect("an address"));
    asks(&translated, b"hello");
    assert_eq!(place.client_side_counts("datagram_flows_opened"), 0);
    asks(&client(a, server), b"hello");
    assert_eq!(place.client_side_counts("datagram_flows_opened"), 1);
}

#[test]
fn one_client_has_so_many_flows_and_another_has_its_own() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let server = mirror(&place, Family::V4, 443);
    let _server_side = place.server_side();
    let _client_side = place.client_side_with(&TUNNEL);
    let many: Vec<UdpSocket> = (0..300)
        .map(|_| client(&place.net.client, server))
        .collect();
    for socket in &many {
        socket.send(b"hello").expect("it can be sent");
    }
    wait_until("there are too many", || {
        place.client_side_counts("datagram_flows_refused") >= 44
    });
    wait_until("the others have their flows", || {
        place.client_side_shows("datagram_flows") == 256
    });
    asks(&client(&place.net.a, server), b"hello");
}
