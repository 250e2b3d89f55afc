//! Many connections, much data, and connections that never get anywhere: bulk leaves the queue, a
//! burst is served, memory is bounded.
//!
//! Is not: a measurement; nothing here fails by its timing. Root only; skipped, with a message,
//! otherwise.

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::real;
use nix::sys::signal::Signal;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket,
};
use real::*;
use tandem_wire::{OptionsBuf, SegmentRepr, Seq, TcpFlags};

const FILE: &str = "file";

/// The server, as [`Net::server_address`] has it.
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 3, 2);

/// Another address of its host, where nothing answers: a flood of it is the proxies' trouble alone.
const SINK: Ipv4Addr = Ipv4Addr::new(10, 77, 3, 99);

/// Memory that may be kept for a flow in its handshake (`docs`: at most 64 KiB), and what a debug
/// build's heap may add to all of it.
const PER_FLOW: u64 = 64 << 10;
const SLACK: u64 = 16 << 20;

fn with_server(length: usize) -> (Net, Server, Vec<u8>) {
    let net = Net::new(Shape::Wire);
    let file = bytes(length);
    Server::publish(&net, FILE, &file);
    let nginx = Server::nginx(&net, &net.server, &Site::default());
    (net, nginx, file)
}

/// A pair that has learned the server's chain.
fn warm(net: &Net, spec: &PairSpec, file: &[u8]) -> Pair {
    let pair = Pair::start(net, spec);
    Fetch::new(net.server_address(Family::V4), FILE)
        .curl(&net.client)
        .is(file);
    pair.wait_learned(1);
    pair
}

#[test]
fn bulk_leaves_the_queue() {
    if !can_run() {
        return;
    }
    /// Packets of a connection that may pass the queue: its handshake's (some twenty), and the data
    /// that overtake the connection mark.
    const PACKETS: u64 = 200;
    let (net, _nginx, file) = with_server(20 << 20);
    let pair = warm(&net, &PairSpec::new(&net), &file);
    let fetch = Fetch::new(net.server_address(Family::V4), FILE);
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        let before = [&pair.a, &pair.b].map(|daemon| daemon.counter("queue_packets"));
        fetch.clone().version(version).curl(&net.client).is(&file);
        for (daemon, before) in [&pair.a, &pair.b].into_iter().zip(before) {
            let queued = daemon.counter("queue_packets") - before;
            assert!(
                queued < PACKETS,
                "{queued} packets of a bulk download were queued"
            );
            assert!(queued > 0);
        }
    }
    pair.end(&net);
}

#[test]
fn two_hundred_connections_at_once_are_all_well() {
    if !can_run() {
        return;
    }
    const CONNECTIONS: u64 = 200;
    for wire in ["safe", "mcveety"] {
        let (net, _nginx, file) = with_server(10_000);
        let pair = warm(&net, &PairSpec::new(&net).wire(wire), &file);
        // Until one rewritten flight has arrived, no more than two are at risk at a time.
        let fetch = Fetch::new(net.server_address(Family::V4), FILE);
        pair.rewrites(&file, || fetch.curl(&net.client));
        let proved = pair.rewritten().written;
        let opened = pair.a.counter("packet_flows_opened");
        let folder = net.path("got");
        fs::create_dir(&folder).expect("a writable folder");
        let mut curl = fetch.curl_command();
        curl.args(["--parallel", "--parallel-immediate", "--parallel-max"])
            .arg(CONNECTIONS.to_string())
            .arg("-o")
            .arg(folder.join("#1"))
            .arg(format!("https://{SITE}:443/{FILE}?[1-{CONNECTIONS}]"));
        let output = net.client.output(&mut curl);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        for number in 1..=CONNECTIONS {
            let got = fs::read(folder.join(number.to_string())).expect("curl made it");
            assert!(got == file, "connection {number} got other bytes");
        }
        assert_eq!(pair.a.counter("packet_flows_opened"), opened + CONNECTIONS);
        let rewritten = pair.rewritten();
        assert!(
            rewritten.written - proved > CONNECTIONS / 2,
            "{rewritten:?}"
        );
        pair.end(&net);
    }
}

/// Sends SYNs from the client's host that nobody there will follow up, from ports and addresses of
/// their own.
fn flood(net: &Net, to: Ipv4Addr, numbers: Range<u32>) {
    // Its kernel knows nothing of these connections, and would refuse the server's answers.
    net.client.rules(
        Family::V4,
        "filter",
        &["-A OUTPUT -p tcp --tcp-flags RST RST -j DROP"],
    );
    net.client.inside(|| {
        let raw = socket(
            AddressFamily::Inet,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::Raw,
        )
        .expect("root may");
        let mut options = OptionsBuf::new();
        // MSS 1460, SACK permitted, timestamps, as Linux sends them.
        options
            .push_raw(&[2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 1, 0, 0, 0, 0, 0])
            .expect("there is room");
        for number in numbers {
            let port = 2_000 + u16::try_from(number % 60_000).expect("in range");
            let packet = SegmentRepr {
                source: SocketAddr::from((
                    Ipv4Addr::new(10, 77, 1, 100 + (number / 60_000 % 100) as u8),
                    port,
                )),
                destination: SocketAddr::from((to, 443)),
                seq: Seq(number.wrapping_mul(2_654_435_761)),
                ack: Seq(0),
                flags: TcpFlags::SYN,
                window: 64_240,
                options: options.as_slice().to_vec(),
                payload: Vec::new(),
                hop_limit: 64,
            }
            .build();
            let to = SockaddrIn::from(SocketAddrV4::new(to, 0));
            // A device's queue that is full for a moment refuses; such a packet is lost, as in any
            // flood.
            let _ = sendto(raw.as_raw_fd(), &packet, &to, MsgFlags::empty());
        }
    });
}

/// Gives the server's host an address where SYNs vanish.
fn sink(net: &Net) -> Ipv4Addr {
    net.server.run(&format!("ip address add {SINK}/32 dev lo"));
    net.server.rules(
        Family::V4,
        "filter",
        &[&format!("-A INPUT -d {SINK} -j DROP")],
    );
    SINK
}

#[test]
fn half_open_connections_are_bounded_and_harm_no_other() {
    if !can_run() {
        return;
    }
    const FLOWS: u64 = 10_000;
    let (net, _nginx, file) = with_server(10_000);
    let pair = warm(&net, &PairSpec::new(&net), &file);
    let before = [&pair.a, &pair.b].map(|daemon| daemon.status().resident_bytes);
    flood(&net, SERVER, 0..u32::try_from(FLOWS).expect("small"));
    for daemon in [&pair.a, &pair.b] {
        wait_until("the flood is followed", || {
            daemon.gauge("flows") > FLOWS / 2
        });
    }
    let fetch = Fetch::new(net.server_address(Family::V4), FILE);
    pair.rewrites(&file, || fetch.curl(&net.client));
    for (daemon, before) in [&pair.a, &pair.b].into_iter().zip(before) {
        let status = daemon.status();
        let more = status.resident_bytes.saturating_sub(before);
        assert!(more < FLOWS * PER_FLOW / 8, "{more} bytes for {FLOWS} SYNs");
        assert_eq!(status.counters["verdicts_overdue"], 0);
    }
    pair.end(&net);
}

#[test]
fn connections_that_stop_after_the_first_byte_of_the_hello_are_bounded_and_harm_no_other() {
    if !can_run() {
        return;
    }
    const FLOWS: u64 = 400;
    let (net, _nginx, file) = with_server(10_000);
    let pair = warm(&net, &PairSpec::new(&net), &file);
    let before = [&pair.a, &pair.b].map(|daemon| daemon.status().resident_bytes);
    let address = SocketAddr::new(net.server_address(Family::V4), 443);
    let stalled: Vec<TcpStream> = net.client.inside(|| {
        (0..FLOWS)
            .map(|_| {
                let mut stream =
                    TcpStream::connect_timeout(&address, PATIENCE).expect("the server is there");
                stream.write_all(&[22]).expect("it is open");
                stream
            })
            .collect()
    });
    for (daemon, before) in [&pair.a, &pair.b].into_iter().zip(before) {
        wait_until("the flows are followed", || daemon.gauge("flows") >= FLOWS);
        let more = daemon.status().resident_bytes.saturating_sub(before);
        assert!(
            more < FLOWS * PER_FLOW.min(16 << 10) + SLACK / 4,
            "{more} bytes for {FLOWS} flows"
        );
    }
    let fetch = Fetch::new(net.server_address(Family::V4), FILE);
    pair.rewrites(&file, || fetch.curl(&net.client));
    drop(stalled);
    for daemon in [&pair.a, &pair.b] {
        wait_until("closed flows are forgotten", || daemon.gauge("flows") == 0);
    }
    pair.end(&net);
}

#[test]
fn a_full_table_lets_the_oldest_go_and_harms_no_other() {
    if !can_run() {
        return;
    }
    const FLOWS: u64 = 100;
    let (net, _nginx, file) = with_server(10_000);
    let spec = PairSpec::new(&net).more(&["--max-flows", "100"]);
    let pair = warm(&net, &spec, &file);
    let sink = sink(&net);
    let given_up = || pair.a.counter("packet_flows_given_up_limits");
    let fetch = Fetch::new(net.server_address(Family::V4), FILE);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let flooding = scope.spawn(|| {
            // A few at a time: of more than the queue holds, a busy machine lets most pass by. New
            // ones each time: a SYN of a connection that was let go is a repeated one.
            let mut batches = (0..).map(|batch| batch * 200..(batch + 1) * 200);
            while !is_over.load(Ordering::Relaxed) {
                flood(&net, sink, batches.next().expect("no end"));
            }
        });
        wait_until("many were let go", || given_up() >= 1_000);
        // In the midst of it connections are well, though there is no room for them.
        for _ in 0..5 {
            let before = given_up();
            fetch.curl(&net.client).is(&file);
            wait_until("the flood goes on", || given_up() > before);
            for daemon in [&pair.a, &pair.b] {
                assert!(daemon.gauge("flows") <= FLOWS);
            }
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(flooding.join().is_ok());
    });
    wait_until("both have caught up", || {
        [&net.a, &net.b].iter().all(|host| host.queue().0 == 0)
    });
    pair.rewrites(&file, || fetch.curl(&net.client));
    pair.end(&net);
}

#[test]
fn a_queue_that_overflows_fails_open() {
    if !can_run() {
        return;
    }
    let (net, _nginx, file) = with_server(10_000);
    let pair = warm(&net, &PairSpec::new(&net), &file);
    let sink = sink(&net);
    let fetch = Fetch::new(net.server_address(Family::V4), FILE);
    // The daemon does not read, and more packets come than its buffer holds: what comes then
    // passes, with no need of it.
    pair.a.signal(Signal::SIGSTOP);
    let (_, before) = net.a.queue();
    // The same connections each time, so that the table has room for them and for more.
    wait_until("A's queue overflows", || {
        flood(&net, sink, 0..5_000);
        let (waiting, offered) = net.a.queue();
        offered - before > waiting
    });
    wait_until("B has caught up", || net.b.queue().0 == 0);
    for _ in 0..3 {
        fetch.curl(&net.client).is(&file);
    }
    pair.a.signal(Signal::SIGCONT);
    pair.a.wait_for("queue_overflows", 1);
    wait_until("A has caught up", || net.a.queue().0 == 0);
    pair.rewrites(&file, || fetch.curl(&net.client));
    // The next packet's number tells how many passed by.
    pair.a.wait_for("queue_passed_by_packets", 1);
    assert_eq!(pair.a.counter("verdicts_overdue"), 0);
    pair.end(&net);
}
