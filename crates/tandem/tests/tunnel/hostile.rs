//! Tunnel mode on networks that let no UDP through, or not always: connections work over TCP, and
//! over UDP again when that is possible.
//!
//! Root only; skipped, with a message, otherwise.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{common, real, split_site, tunnel_net, tunnel_pair};
use common::tandem;
use nix::sys::signal::Signal;
use real::{Family, Net, Shape, Site, TlsVersion, can_run, fast, wait_until};
use split_site::Running;
use tandem_netsim::link::Direction;
use tandem_testbed::emulator::Crossing;
use tunnel_net::Place;
use tunnel_pair::{KEYS, Proxy, write_private};

/// The server side's port, at B: one that the client side takes in, too.
const LISTEN: u16 = 443;

/// Drop the tunnel's packets over UDP, as a firewall does: without a word, in both directions.
const NO_UDP: [&str; 2] = [
    "INPUT -p udp -m udp --dport 443 -j DROP",
    "OUTPUT -p udp -m udp --sport 443 -j DROP",
];

/// UDP is tried alone for a round trip, and looked for in two, now and then: on a busy machine it
/// has time so.
const UDP_HAS_TIME: [&str; 4] = ["--link-rtt", "3000", "--when-down", "fail"];

/// With the server side at this port.
fn place() -> Place {
    of(Net::new(Shape::Wire))
}

fn of(net: Net) -> Place {
    let mut place = Place::of(net, Site::default());
    place.listen = LISTEN;
    place
}

impl Place {
    fn udp_is_blocked(&self) {
        for rule in NO_UDP {
            self.net.b.run(&format!("iptables -A {rule}"));
        }
    }

    fn udp_gets_through(&self) {
        for rule in NO_UDP {
            self.net.b.run(&format!("iptables -D {rule}"));
        }
    }

    /// A page of the server's comes through the tunnel.
    #[track_caller]
    fn works(&self) {
        self.fetch(TlsVersion::Tls13)
            .curl(&self.net.client)
            .is(&self.page);
    }

    /// How many tunnels the client side has over UDP, and over TCP.
    #[track_caller]
    fn tunnels(&self) -> [u64; 2] {
        ["tunnels_over_udp", "tunnels_over_tcp"].map(|name| self.client_side_shows(name))
    }
}

/// Protocols of IP.
const TCP: u8 = 6;
const UDP: u8 = 17;

/// What has crossed the emulated link as `protocol`.
fn crossed(net: &Net, protocol: u8) -> Vec<Crossing> {
    let log = net.emulator().log_from(0).into_iter();
    log.filter(|it| it.packet.get(9) == Some(&protocol))
        .collect()
}

fn ip_bytes(crossings: &[Crossing]) -> usize {
    crossings.iter().map(|it| it.packet.len()).sum()
}

/// Whether a packet of TCP has content.
fn has_content(it: &&Crossing) -> bool {
    it.packet.len() > 20 + usize::from(it.packet[32] >> 4) * 4
}

#[test]
fn making_a_tunnel_over_tcp_takes_three_round_trips_and_few_bytes() {
    if !can_run() {
        return;
    }
    let up = |is_blocked: bool| {
        let place = of(Net::emulated(fast(300), 1));
        if is_blocked {
            place.udp_is_blocked();
        } else {
            // On a busy machine it may be first, and stays in use then.
            place
                .net
                .b
                .run("iptables -A INPUT -p tcp --dport 443 -j DROP");
        }
        let _server_side = place.server_side();
        let flags = ["--link-rtt", "600", "--when-down", "fail"];
        let client_side = place.client_side_with(&flags);
        let expected = if is_blocked { [0, 1] } else { [1, 0] };
        wait_until("the tunnel is up", || place.tunnels() == expected);
        let quiet = (Duration::from_secs(1), Duration::from_secs(10));
        let settled = place.net.emulator().settle(quiet.0, quiet.1);
        settled.expect("nobody interrupts it");
        let crossings = [TCP, UDP].map(|protocol| crossed(&place.net, protocol));
        if is_blocked {
            let tried = crossings[1].len();
            wait_until("UDP is tried again", || {
                crossed(&place.net, UDP).len() > tried
            });
            let settled = place.net.emulator().settle(quiet.0 * 3, quiet.1);
            settled.expect("nobody interrupts it");
            let again = ip_bytes(&crossed(&place.net, UDP)[tried..]);
            println!("{again} bytes of IP to see whether UDP gets through again");
            assert!(again < 7_500, "{again}");
        }
        place.works();
        assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
        crossings
    };
    let [over_tcp, udp_tried] = up(true);
    let [_, over_udp] = up(false);
    // The last word of the client side's handshake leaves once the server side has been heard.
    let start = udp_tried.first().expect("it is tried").offered;
    let mut said = over_tcp.iter().filter(has_content);
    let last = said.rfind(|it| it.direction == Direction::Up);
    let took = last.expect("a handshake").offered.seconds_since(start);
    println!(
        "up over TCP {:.2} round trips after the first word; {} bytes of IP, beside {} over UDP",
        took / 0.6,
        ip_bytes(&over_tcp),
        ip_bytes(&udp_tried),
    );
    println!("over UDP it is {} bytes", ip_bytes(&over_udp));
    assert!(ip_bytes(&over_tcp) < ip_bytes(&over_udp));
}

#[test]
fn udp_is_used_by_itself_once_it_gets_through() {
    if !can_run() {
        return;
    }
    let place = place();
    place.udp_is_blocked();
    let _server_side = place.server_side();
    let client_side = place.client_side_with(&UDP_HAS_TIME);
    place.works();
    assert_eq!(place.tunnels(), [0, 1]);
    place.udp_gets_through();
    wait_until("UDP is used, and TCP is not", || place.tunnels() == [1, 0]);
    place.works();
    assert_eq!(place.client_side_counts("tunnels_up"), 2);
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
}

#[test]
fn where_udp_is_blocked_connections_work_over_tcp() {
    if !can_run() {
        return;
    }
    let place = place();
    place.udp_is_blocked();
    let server_side = place.server_side();
    let client_side = place.client_side();
    place.works();
    assert_eq!(place.tunnels(), [0, 1]);
    place.works();
    assert_eq!(place.client_side_counts("tunnels_up"), 1);
    assert!(place.client_side_counts("tcp_received_bytes") > 400_000);
    // At rest nothing is sent.
    wait_until("the last acknowledgement has gone", || {
        let before = place.client_side_counts("tcp_sent_segments");
        std::thread::sleep(Duration::from_secs(3));
        place.client_side_counts("tcp_sent_segments") == before
    });
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
    assert_eq!(server_side.end(Signal::SIGTERM), Some(0));
}

#[test]
fn udp_that_is_blocked_later_is_replaced_and_used_again_once_it_is_heard() {
    if !can_run() {
        return;
    }
    let place = place();
    let _server_side = place.server_side();
    let client_side = place.client_side_with(&UDP_HAS_TIME);
    place.works();
    wait_until("UDP is used", || place.tunnels() == [1, 0]);
    place.udp_is_blocked();
    // The first connection finds out; it hangs in the old tunnel. The next ones work.
    let mut first = Command::new("curl");
    first
        .args([
            "-sko",
            "/dev/null",
            "--max-time",
            "20",
            "https://10.77.3.2/page",
        ])
        .env("OPENSSL_CONF", "/dev/null")
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let _first = Running(place.net.client.spawn(&mut first));
    wait_until("there is a tunnel over TCP", || place.tunnels()[1] == 1);
    place.works();
    // Heard again in time, the old one is used again.
    place.udp_gets_through();
    wait_until("UDP is used again", || {
        place.tunnels()[1] == 0 || client_side.log().contains("over UDP is down")
    });
    place.works();
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
}

#[test]
fn a_server_side_that_is_restarted_while_tcp_is_used_is_found_again() {
    if !can_run() {
        return;
    }
    let place = place();
    place.udp_is_blocked();
    let server_side = place.server_side();
    let client_side = place.client_side();
    place.works();
    assert_eq!(server_side.end(Signal::SIGKILL), None);
    wait_until("the tunnel is down", || place.tunnels()[1] == 0);
    let server_side = place.server_side();
    place.works();
    assert_eq!(place.client_side_counts("tunnels_up_over_tcp"), 2);
    assert_eq!(server_side.end(Signal::SIGTERM), Some(0));
    wait_until("the tunnel is down", || place.tunnels()[1] == 0);
    client_side.wait_for_log("the other side closed it");
}

#[test]
fn another_key_and_other_services_on_the_port_are_refused_and_the_log_says_so() {
    if !can_run() {
        return;
    }
    let place = place();
    place.udp_is_blocked();
    let server_side = place.server_side();
    write_private(&place.net.path("other-key"), KEYS[1]);
    let mut command = tandem(&["client-side", "--mode", "tunnel", "--link", "link0"]);
    command.args(["--when-down", "fail", "--peer", &place.address(), "--key"]);
    command.arg(place.net.path("other-key"));
    command.arg("--store").arg(place.net.path("other-store"));
    let client_side = Proxy::start(&mut command, |command| place.net.a.spawn(command));
    let fetch = place.fetch(TlsVersion::Tls13).limit(5);
    assert_ne!(fetch.curl(&place.net.client).code, Some(0));
    assert_eq!(place.client_side_counts("tunnels_up"), 0);
    assert_eq!(server_side.end(Signal::SIGTERM), Some(0));
    drop(client_side);

    // A web server in the place of the server side.
    let web = place.net.path("web.py");
    let text = "import http.server as h\nh.HTTPServer(('0.0.0.0', 443), h.BaseHTTPRequestHandler).serve_forever()\n";
    write_private(&web, text);
    let mut python = Command::new("python3");
    let _web = Running(place.net.b.spawn(python.arg(&web).stderr(Stdio::null())));
    wait_until("it listens", || place.net.b.listens_on(LISTEN));
    let client_side = place.client_side();
    assert_ne!(fetch.curl(&place.net.client).code, Some(0));
    assert_eq!(place.client_side_counts("tunnels_up"), 0);
    drop(client_side);
}

#[test]
fn whoever_holds_the_port_with_garbage_keeps_no_other_network_out() {
    if !can_run() {
        return;
    }
    let place = place();
    place.udp_is_blocked();
    let server_side = place.server_side();
    // From the server's host: silent ones, plain HTTP, and TLS for somebody else.
    let script = place.net.path("garbage.py");
    let peer = place.net.b_address(Family::V4);
    let text = format!(
        "import socket, ssl, time\n\
         held = [socket.create_connection(('{peer}', {LISTEN})) for _ in range(40)]\n\
         for s in held[::2]:\n    \
             try: s.sendall(b'GET / HTTP/1.1\\r\\nhost: a\\r\\n\\r\\n')\n    \
             except OSError: pass\n\
         c = ssl._create_unverified_context(); c.set_alpn_protocols(['h2'])\n\
         try: c.wrap_socket(socket.create_connection(('{peer}', {LISTEN})))\n\
         except OSError: pass\n\
         print('held', flush=True)\n\
         time.sleep(600)\n"
    );
    write_private(&script, &text);
    let mut python = Command::new("python3");
    let python = python.arg(&script).stdout(Stdio::piped());
    let mut holder = Running(place.net.server.spawn(python.stderr(Stdio::null())));
    let mut said = [0; 5];
    let mut output = holder.0.stdout.take().expect("it is piped");
    std::io::Read::read_exact(&mut output, &mut said).expect("it says so");
    let client_side = place.client_side();
    place.works();
    assert_eq!(place.tunnels(), [0, 1]);
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
    assert_eq!(server_side.end(Signal::SIGTERM), Some(0));
}

#[test]
fn a_port_that_another_service_has_leaves_udp() {
    if !can_run() {
        return;
    }
    let place = place();
    let held = place
        .net
        .b
        .inside(|| std::net::TcpListener::bind(("0.0.0.0", LISTEN)));
    let held = held.expect("it is free");
    let server_side = place.server_side();
    server_side.wait_for_log("the TCP port cannot be used");
    let client_side = place.client_side();
    place.works();
    assert_eq!(place.tunnels(), [1, 0]);
    drop(held);
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
}
