//! Every way in which a TCP connection can end, through the tunnel: what the network says at B
//! reaches the client by its reason, as a counter, and as a reset; what endpoints say, as they said
//! it.
//!
//! Root only; skipped, with a message, otherwise.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};

use crate::support::{real, tunnel_net, tunnel_pair};
use nix::sys::socket::{setsockopt, sockopt};
use real::{Family, Host, PATIENCE, bytes, can_run, wait_until};
use tunnel_net::Place;
use tunnel_pair::Proxy;

/// A port beside nginx's, for servers of the test's own.
const PORT: u16 = 8443;

/// Both proxies. Dropped before the place.
struct Pair<'a> {
    place: &'a Place,
    _server_side: Proxy,
    _client_side: Proxy,
}

impl<'a> Pair<'a> {
    fn start(place: &'a Place) -> Self {
        let ways = [
            "--socks",
            "127.0.0.1:1080",
            "--http-proxy",
            "127.0.0.1:3128",
        ];
        let more = [&["--ports", "443,8443", "--when-down", "fail"][..], &ways].concat();
        Self {
            place,
            _server_side: place.server_side_with(&["--allow", "10.88.0.0/16"]),
            _client_side: place.client_side_with(&more),
        }
    }

    /// How many connections have ended for this reason, at A and at B.
    #[track_caller]
    fn ended(&self, reason: &str) -> [u64; 2] {
        let name = format!("tunnel_relays_ended_{reason}");
        [
            self.place.client_side_counts(&name),
            self.place.server_side_counts(&name),
        ]
    }

    /// Waits until one more has ended for this reason, at both sides.
    #[track_caller]
    fn ends_one_more(&self, reason: &str, before: [u64; 2], what: &str) {
        let expected = before.map(|count| count + 1);
        let is_there = |(now, then): (u64, u64)| now >= then;
        wait_until(what, || {
            self.ended(reason).into_iter().zip(expected).all(is_there)
        });
        assert_eq!(self.ended(reason), expected, "{what}");
    }
}

/// How a client asks for a server.
#[derive(Debug, Clone, Copy)]
enum By {
    Link,
    Socks,
    Connect,
}

/// A connection from the client, or from A where it asks a proxy there; by a proxy, once that has
/// answered success.
#[track_caller]
fn connected(place: &Place, by: By, host: &str, port: u16) -> TcpStream {
    let connect = |from: &Host, to: SocketAddr| {
        let stream = from.inside(|| TcpStream::connect_timeout(&to, PATIENCE));
        let stream = stream.expect("it is taken in");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream
    };
    match by {
        By::Link => {
            let ip: IpAddr = host.parse().expect("an address");
            connect(&place.net.client, SocketAddr::new(ip, port))
        }
        By::Socks => {
            let mut stream = connect(&place.net.a, ([127, 0, 0, 1], 1080).into());
            let len = u8::try_from(host.len()).expect("short");
            let asked = [&[5, 1, 0, 5, 1, 0, 3, len][..], host.as_bytes()].concat();
            stream.write_all(&asked).expect("it reads");
            stream.write_all(&port.to_be_bytes()).expect("it reads");
            let mut reply = [0; 12];
            stream.read_exact(&mut reply).expect("it answers");
            assert_eq!(reply[..4], [5, 0, 5, 0]);
            stream
        }
        By::Connect => {
            let mut stream = connect(&place.net.a, ([127, 0, 0, 1], 3128).into());
            let host = match host.parse() {
                Ok(IpAddr::V6(_)) => format!("[{host}]"),
                Ok(IpAddr::V4(_)) | Err(_) => host.to_owned(),
            };
            write!(stream, "CONNECT {host}:{port} HTTP/1.1\r\n\r\n").expect("it reads");
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("it answers");
                head.extend(byte);
            }
            assert!(head.starts_with(b"HTTP/1.1 200 "), "{head:?}");
            stream
        }
    }
}

/// The client sees a reset, before any byte.
#[track_caller]
fn is_reset(mut stream: TcpStream) {
    let error = stream.read(&mut [0]).expect_err("a reset, and no byte");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
}

/// The connection breaks with its end, in place of ending in order.
fn abort(stream: TcpStream) {
    let linger = nix::libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    setsockopt(&stream, sockopt::Linger, &linger).expect("a socket");
    drop(stream);
}

#[test]
fn what_the_network_says_at_the_far_side_is_counted_by_its_reason_and_the_client_is_reset() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let net = &place.net;
    // Addresses of the server whose packets it answers otherwise.
    for number in 10..15 {
        net.server
            .run(&format!("ip addr add 10.77.3.{number}/24 dev eth0"));
        net.server
            .run(&format!("ip addr add fd77:3::{number}/64 dev eth0 nodad"));
    }
    let reject = |family, network: &str, number: u8, with: &str| {
        let rule = format!("-A INPUT -p tcp -d {network}{number} -j {with}");
        net.server.rules(family, "filter", &[&rule]);
    };
    for (number, v4, v6) in [
        (
            10,
            "REJECT --reject-with tcp-reset",
            "REJECT --reject-with tcp-reset",
        ),
        (
            11,
            "REJECT --reject-with icmp-host-unreachable",
            "REJECT --reject-with icmp6-addr-unreachable",
        ),
        (
            12,
            "REJECT --reject-with icmp-net-unreachable",
            "REJECT --reject-with icmp6-no-route",
        ),
        (13, "DROP", "DROP"),
    ] {
        reject(Family::V4, "10.77.3.", number, v4);
        reject(Family::V6, "fd77:3::", number, v6);
    }
    // Networks behind B: one that is not on its list, one that it has no route to.
    for network in ["10.66.0.0/16", "10.88.0.0/16"] {
        net.a.run(&format!("ip route add {network} via 10.77.2.2"));
    }
    // What is silent is given up after two SYN, 3 s (RFC 6298, section 2).
    net.b.set("ipv4/tcp_syn_retries", "1");
    let pair = Pair::start(&place);
    for (host, reason) in [
        ("10.77.3.10", "refused"),
        ("fd77:3::10", "refused"),
        ("10.77.3.11", "host_unreachable"),
        ("fd77:3::11", "host_unreachable"),
        ("10.77.3.12", "network_unreachable"),
        ("fd77:3::12", "network_unreachable"),
        ("10.88.0.1", "network_unreachable"),
        ("10.77.3.13", "timed_out"),
        ("fd77:3::13", "timed_out"),
        ("10.66.0.1", "not_allowed"),
        ("no-such-name.invalid", "name_not_found"),
    ] {
        for by in [By::Link, By::Socks, By::Connect] {
            if matches!(by, By::Link) && host.parse::<IpAddr>().is_err() {
                continue;
            }
            let before = pair.ended(reason);
            is_reset(connected(&place, by, host, 443));
            pair.ends_one_more(reason, before, &format!("{host} by {by:?}"));
        }
    }
}

/// A connection through the tunnel, and the server's end of it.
#[track_caller]
fn joined(place: &Place) -> (TcpStream, TcpStream) {
    let server = place.net.server_address(Family::V4);
    let listener = place
        .net
        .server
        .inside(|| TcpListener::bind((server, PORT)))
        .expect("a free port");
    let mut client = connected(place, By::Link, &server.to_string(), PORT);
    client.write_all(b"x").expect("it is up");
    listener.set_nonblocking(true).expect("it is ours");
    let mut accepted = None;
    wait_until("the server is called", || {
        accepted = listener.accept().ok();
        accepted.is_some()
    });
    let (mut accepted, _) = accepted.expect("waited for");
    accepted.set_nonblocking(false).expect("a socket");
    accepted.set_read_timeout(Some(PATIENCE)).expect("a socket");
    accepted.read_exact(&mut [0]).expect("it came");
    (client, accepted)
}

#[test]
fn a_reset_in_the_middle_of_a_stream_reaches_the_other_end_from_either() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let pair = Pair::start(&place);
    for is_server_first in [true, false] {
        let (client, server) = joined(&place);
        let (mut from, mut to) = match is_server_first {
            true => (server, client),
            false => (client, server),
        };
        let before = pair.ended("reset");
        let said = bytes(100_000);
        from.write_all(&said).expect("it is up");
        let mut heard = [0; 1_000];
        to.read_exact(&mut heard).expect("a part of it");
        assert!(heard == said[..1_000]);
        abort(from);
        let mut rest = Vec::new();
        let error = to.read_to_end(&mut rest).expect_err("no end in order");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
        assert!(said[1_000..].starts_with(&rest));
        pair.ends_one_more("reset", before, "from an endpoint");
    }
}

#[test]
fn an_end_comes_after_all_that_was_said_before_it_and_leaves_the_other_direction_open() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let _pair = Pair::start(&place);
    let said = bytes(3_000_000);
    for is_server_first in [true, false] {
        let (client, server) = joined(&place);
        let (mut first, mut second) = match is_server_first {
            true => (server, client),
            false => (client, server),
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                first.write_all(&said).expect("it is up");
                first.shutdown(Shutdown::Write).expect("it is up");
            });
            // Nobody reads before the first of it is there.
            second.peek(&mut [0]).expect("it comes");
            let mut heard = Vec::new();
            second.read_to_end(&mut heard).expect("an end in order");
            assert!(heard == said, "{} bytes", heard.len());
        });
        second.write_all(&said[..1_000]).expect("it is up");
        drop(second);
        let mut heard = Vec::new();
        first.read_to_end(&mut heard).expect("an end in order");
        assert!(heard == said[..1_000], "{} bytes", heard.len());
    }
}
