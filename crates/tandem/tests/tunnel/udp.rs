//! UDP by SOCKS5, with both proxies as processes: a program that speaks SOCKS5 itself, and an
//! unmodified dig behind a forwarder that speaks it for dig. One test needs root, for an emulated
//! link.
//!
//! Is not: which way a payload crosses (`tandem-tunnel-io`).

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::support::{real, resolver, tunnel_net, tunnel_pair};
use nix::sys::signal::Signal;
use real::{Family, Fetch, Net, PATIENCE, Server, Site, can_run, has, link, wait_until};
use resolver::Resolver;
use tunnel_net::Place;
use tunnel_pair::{Pair, start};

/// How often whoever waits looks whether that is over.
const LOOK: Duration = Duration::from_millis(100);

/// Bytes in front of a payload to or from an IPv4 address (RFC 1928, section 7).
const HEADER: usize = 10;

/// A program with leave to send datagrams, for as long as its connection stands.
struct Program {
    control: TcpStream,
    socket: UdpSocket,
    relay: SocketAddr,
}

impl Program {
    /// Asks for it (RFC 1928, sections 3, 4 and 6).
    fn of(socks: u16) -> Self {
        let mut control = TcpStream::connect(("127.0.0.1", socks)).expect("it listens");
        control.set_read_timeout(Some(PATIENCE)).expect("a socket");
        control.write_all(&[5, 1, 0]).expect("it reads");
        let mut chosen = [0; 2];
        control.read_exact(&mut chosen).expect("it answers");
        assert_eq!(chosen, [5, 0]);
        control
            .write_all(&[5, 3, 0, 1, 0, 0, 0, 0, 0, 0])
            .expect("it reads");
        let mut reply = [0; 10];
        control.read_exact(&mut reply).expect("it answers");
        let [5, 0, 0, 1, a, b, c, d, high, low] = reply else {
            panic!("{reply:?}");
        };
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        socket.set_read_timeout(Some(LOOK)).expect("a socket");
        Self {
            control,
            socket,
            relay: (Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low])).into(),
        }
    }

    fn says(&self, to: SocketAddrV4, payload: &[u8]) {
        let mut datagram = vec![0, 0, 0, 1];
        datagram.extend_from_slice(&to.ip().octets());
        datagram.extend_from_slice(&to.port().to_be_bytes());
        datagram.extend_from_slice(payload);
        self.socket.send_to(&datagram, self.relay).expect("bound");
    }

    /// What has come from there.
    fn hears(&self, from: SocketAddrV4) -> Option<Vec<u8>> {
        let mut room = [0; 2048];
        let (len, _) = self.socket.recv_from(&mut room).ok()?;
        assert_eq!(room[..4], [0, 0, 0, 1]);
        assert_eq!(room[4..8], from.ip().octets());
        assert_eq!(room[8..HEADER], from.port().to_be_bytes());
        Some(room[HEADER..len].to_vec())
    }
}

/// Speaks SOCKS5 for a program that knows nothing of it, until it is dropped.
struct Forwarder {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Forwarder {
    /// To this port of the loopback network.
    fn start(pair: &Pair, port: u16) -> Self {
        let program = Program::of(pair.socks);
        let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let outside = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        outside.set_read_timeout(Some(LOOK)).expect("a socket");
        let address = outside.local_addr().expect("bound");
        let is_over = Arc::<AtomicBool>::default();
        let thread = std::thread::spawn({
            let is_over = Arc::clone(&is_over);
            move || {
                let mut room = [0; 2048];
                let mut back = None;
                while !is_over.load(Ordering::Relaxed) {
                    if let Ok((len, from)) = outside.recv_from(&mut room) {
                        back = Some(from);
                        program.says(to, &room[..len]);
                    }
                    if let (Some(back), Some(payload)) = (back, program.hears(to)) {
                        outside.send_to(&payload, back).expect("bound");
                    }
                }
            }
        });
        Self {
            address,
            is_over,
            thread: Some(thread),
        }
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn dig_gets_its_answer_over_udp_from_a_resolver_on_the_other_side() {
    if !has(&["dig"]) {
        return;
    }
    let resolver = Resolver::start((Ipv4Addr::LOCALHOST, 0).into(), &[]);
    let pair = Pair::new();
    let server_side = start(&mut pair.server_side(resolver.address.port()));
    let client_side = start(&mut pair.client_side());
    let forwarder = Forwarder::start(&pair, resolver.address.port());
    let output = Command::new("dig")
        .args(["-r", "+notcp", "+tries=10", "+time=5"])
        .args(["-p", &forwarder.address.port().to_string(), "@127.0.0.1"])
        .args(["www.example", "A"])
        .output()
        .expect("dig runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("NOERROR") && text.contains("192.0.2.1"),
        "{text}"
    );
    let asked = &resolver.asked()[0];
    assert!(asked.over == "UDP" && asked.from.is_loopback(), "{asked:?}");
    assert!(resolver.times("www.example") >= 1);
    assert!(pair.client_side_counts("datagram_flows_opened") >= 1);
    assert!(pair.server_side_counts("datagrams_from_endpoints") >= 1);
    drop(forwarder);
    // The program's connection has ended, and its flow with it.
    wait_until("the flow ends", || {
        pair.client_side_shows("datagram_flows") == 0
    });
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
    assert_eq!(server_side.end(Signal::SIGTERM), Some(0));
}

#[test]
fn a_port_that_is_not_allowed_gets_no_datagram() {
    let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    server.set_nonblocking(true).expect("ours");
    let port = server.local_addr().expect("bound").port();
    let pair = Pair::new();
    let _server_side = start(&mut pair.server_side(1));
    let _client_side = start(&mut pair.client_side());
    let program = Program::of(pair.socks);
    program.says(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port), b"anybody?");
    wait_until("it is refused", || {
        pair.client_side_counts("datagram_flows_ended_by_peer") == 1
    });
    assert_eq!(pair.server_side_counts("servers_not_allowed"), 1);
    assert!(server.recv_from(&mut [0; 16]).is_err());
    // The connection that asked stands all the same.
    program.control.set_nonblocking(true).expect("ours");
    let mut control = &program.control;
    let error = control.read(&mut [0]).expect_err("nothing is said");
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
}

/// The port of a server that says nothing.
const SINK: u16 = 5_000;

#[test]
fn connections_work_beside_more_datagrams_than_the_link_carries() {
    if !can_run() {
        return;
    }
    for udp in [Link::Open, Link::BlocksUdp] {
        let place = Place::of(Net::emulated(link(64_000, 300), 1), Site::default());
        Server::publish(&place.net, "little", b"little");
        match udp {
            Link::Open => {}
            Link::BlocksUdp => {
                let rule = "iptables -A INPUT -p udp --dport 4433 -j DROP";
                place.net.b.run(rule);
            }
        }
        let stated = ["--link-rate", "64000", "--link-rtt", "600"];
        let server_side = place.server_side_with(&stated);
        let socks = ["--socks", "127.0.0.1:1080", "--when-down", "fail"];
        let client_side = place.client_side_with(&[&stated[..], &socks].concat());
        let fetch = Fetch::new(place.net.server_address(Family::V4), "little");
        let fetched = || {
            let since = Instant::now();
            fetch.curl(&place.net.client).is(b"little");
            since.elapsed()
        };
        let alone = [fetched(), fetched()];
        let sink = place
            .net
            .server
            .inside(|| UdpSocket::bind((Ipv4Addr::new(10, 77, 3, 2), SINK)).expect("it is free"));
        sink.set_nonblocking(true).expect("ours");
        let (is_over, a) = (AtomicBool::new(false), place.net.a.handle());
        let beside = std::thread::scope(|scope| {
            scope.spawn(|| {
                a.inside(|| {
                    let program = Program::of(1080);
                    while !is_over.load(Ordering::Relaxed) {
                        let to = SocketAddrV4::new(Ipv4Addr::new(10, 77, 3, 2), SINK);
                        program.says(to, &[7; 1_000]);
                        // Four times what the link carries.
                        std::thread::sleep(Duration::from_millis(30));
                    }
                });
            });
            let _over = Over(&is_over);
            wait_until("more comes than fits", || {
                place.client_side_counts("datagrams_dropped") > 0
            });
            [fetched(), fetched()]
        });
        let arrived = std::iter::from_fn(|| sink.recv(&mut [0; 2_048]).ok()).count();
        println!("{udp:?}: alone {alone:?}, beside datagrams {beside:?}; {arrived} of these came");
        assert!(arrived > 0);
        assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
        assert_eq!(server_side.end(Signal::SIGTERM), Some(0));
    }
}

/// What the link lets through.
#[derive(Debug, Clone, Copy)]
enum Link {
    Open,
    BlocksUdp,
}

/// Says so when it is dropped, on a panic too.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
