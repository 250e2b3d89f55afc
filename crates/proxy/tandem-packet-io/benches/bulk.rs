//! How fast bulk data is after a handshake through packet mode, against plain routing with
//! connection tracking.
//!
//! `client c0 - near0 gateway lnk0 - lnk0 gateway near0 - s0 server`, in network namespaces of the
//! bench's own; the wires keep their offloads, and both gateways track connections in both arms.
//! Arms run by turns: `routed` has no daemon, `packet` has both, fresh ones in each round, as
//! processes of their own. A transfer is one connection to port 443, or a hundred at once:
//! the turns of a TLS 1.2 handshake (`bulk/handshake.rs`) on each, then records of application data
//! from the server to the client. The client takes the time, from the first 100 MB on.
//!
//! Prints a line for people and a JSON line for scripts per figure. Wall time is reported and gates
//! nothing. What is checked, by the daemons' own counters: both followed the handshake, and the
//! bulk data stayed in the kernel.
//!
//! Needs root; says so and measures nothing without.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "a bench measures time and prints; it uses a part of what the tests share"
)]

#[path = "bulk/handshake.rs"]
mod handshake;
#[path = "../tests/support/mod.rs"]
mod support;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, OnceLock};
use std::time::{Duration, Instant};

use handshake::Speaker;
use nix::sys::signal::Signal;
use support::{Daemon, Host, can_run, connect, status, wire};
use tandem_packet_io::config::{Config, Role, Settings};
use tandem_packet_io::daemon;
use tandem_testkit::bench::{median, report};

/// Transfers of each arm.
const ROUNDS: usize = 10;
/// Connections at once, and what that is called in the names of the figures.
const LOADS: [(usize, &str); 2] = [(1, "bulk"), (100, "bulk_100_flows")];
/// How long a transfer should take, seconds.
const TRANSFER: f64 = 0.8;
/// Bytes of the first transfer, which only finds out how many the others need.
const TRIAL: u64 = 1 << 30;
/// Bytes before the time is taken: the windows have opened by then, and the flows have left the
/// queue.
const UNTIMED: u64 = 100_000_000;
/// Rest before each transfer, longer than daemons take to start. Without it only the packet arm
/// rests, and on a busy machine it comes out up to half as fast again as routed, which no daemon
/// can cause.
const REST: Duration = Duration::from_secs(1);
/// The most packets of one connection that may pass a daemon's queue. A handshake has some twenty;
/// a transfer has thousands.
const QUEUED: u64 = 100;
/// Port of both daemons' admin pages, each in a namespace of its own.
const ADMIN: u16 = 9470;
const SERVER: &str = "10.3.0.2";
const PORT: u16 = 443;

/// Who says what before the bulk data.
type Turns = [(Speaker, Vec<u8>)];

fn main() {
    if let Ok(role) = std::env::var(support::ROLE) {
        run_daemon(&role);
    }
    if !can_run() {
        return;
    }
    let hosts = Hosts::new();
    let turns = handshake::turns();
    let server = Server::start(&hosts.server, turns.clone());
    for (flows, name) in LOADS {
        compare(&hosts, &server, &turns, flows, name);
    }
}

/// Both arms by turns, with so many connections at once.
fn compare(hosts: &Hosts, server: &Server, turns: &Turns, flows: usize, name: &str) {
    let transfer = || hosts.transfer(server, turns, flows);
    let share = |bytes: u64| server.length.store(bytes / flows as u64, Ordering::Relaxed);
    share(TRIAL);
    let trial = transfer();
    share((trial * TRANSFER) as u64 + UNTIMED);
    let stores = [support::store(), support::store()];
    let mut routed = Vec::new();
    let mut packet = Vec::new();
    let mut queued = Vec::new();
    for round in 0..ROUNDS {
        let mut through_daemons = || {
            let daemons = Daemons::start(hosts, [&stores[0].1, &stores[1].1]);
            packet.push(transfer());
            queued.extend(daemons.end(flows));
        };
        // Neither arm is always the one that runs on a machine warmed by the other.
        if round % 2 == 0 {
            routed.push(transfer());
            through_daemons();
        } else {
            through_daemons();
            routed.push(transfer());
        }
    }
    let [routed, packet] = [("routed", routed), ("packet", packet)].map(|(arm, rates)| {
        let mut megabits: Vec<f64> = rates.iter().map(|rate| rate * 8e-6).collect();
        let median = median(&mut megabits);
        report(&format!("{name}_{arm}"), median, "Mbit/s");
        // A share means little where one arm's own transfers are further apart than the arms.
        println!(
            "  transfers from {:.0} to {:.0} Mbit/s",
            megabits[0],
            megabits[ROUNDS - 1]
        );
        median
    });
    let most = queued.iter().copied().max().unwrap_or_default();
    report(
        &format!("{name}_queued_packets"),
        most as f64,
        "packets of a connection at most",
    );
    report(
        &format!("{name}_percent_of_routed"),
        packet / routed * 100.0,
        "percent of routed",
    );
}

/// This process as one of the daemons, until a signal ends it.
fn run_daemon(role: &str) -> ! {
    let role = match role {
        "client-side" => Role::ClientSide,
        _ => Role::ServerSide,
    };
    let settings = std::env::var(support::SETTINGS).expect("set by the bench");
    let settings: Settings = toml::from_str(&settings).expect("the bench's own");
    let outcome = Config::resolve(role, settings)
        .and_then(|config| daemon::run(config, || println!("ready")));
    let code = match outcome {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    };
    std::process::exit(code);
}

/// The hosts. The link is `lnk0` of both gateways.
struct Hosts {
    client: Host,
    client_side: Host,
    server_side: Host,
    server: Host,
}

impl Hosts {
    fn new() -> Self {
        let hosts = Self {
            client: Host::new("client"),
            client_side: Host::new("client-side"),
            server_side: Host::new("server-side"),
            server: Host::new("server"),
        };
        wire((&hosts.client, "c0"), (&hosts.client_side, "near0"), 1);
        wire(
            (&hosts.client_side, "lnk0"),
            (&hosts.server_side, "lnk0"),
            2,
        );
        wire((&hosts.server_side, "near0"), (&hosts.server, "s0"), 3);
        hosts.client.run("ip route add default via 10.1.0.2");
        hosts.client_side.run("ip route add default via 10.2.0.2");
        hosts.server_side.run("ip route add default via 10.2.0.1");
        hosts.server.run("ip route add default via 10.3.0.1");
        for gateway in [&hosts.client_side, &hosts.server_side] {
            gateway.run("sysctl -qw net.ipv4.ip_forward=1");
            // A rule that asks for a connection's state turns connection tracking on, with and
            // without daemons.
            gateway.drop_invalid();
        }
        hosts
    }

    /// So many connections at once; their bulk data in bytes a second.
    fn transfer(&self, server: &Server, turns: &Turns, flows: usize) -> f64 {
        std::thread::sleep(REST);
        let arrived = Arrived::default();
        let all_greeted = Barrier::new(flows);
        let length = server.length.load(Ordering::Relaxed);
        std::thread::scope(|scope| {
            for _ in 0..flows {
                scope.spawn(|| {
                    let mut stream = connect(&self.client, server.address);
                    converse(&mut stream, Speaker::Client, turns)
                        .expect("the handshake goes through");
                    all_greeted.wait();
                    receive(&mut stream, length, &arrived);
                });
            }
        });
        let (since, before) = *arrived
            .timed
            .get()
            .expect("a transfer is longer than what is not timed");
        let bytes = arrived.bytes.load(Ordering::Relaxed) - before;
        bytes as f64 / since.elapsed().as_secs_f64()
    }
}

/// What all connections of a transfer have received.
#[derive(Default)]
struct Arrived {
    bytes: AtomicU64,
    /// Since when the time is taken, and the bytes until then.
    timed: OnceLock<(Instant, u64)>,
}

fn receive(stream: &mut TcpStream, length: u64, arrived: &Arrived) {
    let mut bytes = vec![0; 1 << 18];
    let mut received = 0;
    while received < length {
        let count = stream.read(&mut bytes).expect("the connection stands");
        assert!(count > 0, "the server closed after {received} bytes");
        received += count as u64;
        let all = arrived.bytes.fetch_add(count as u64, Ordering::Relaxed) + count as u64;
        if all >= UNTIMED {
            arrived.timed.get_or_init(|| (Instant::now(), all));
        }
    }
}

/// One side's part of the handshake; the other side's bytes must arrive unaltered.
fn converse(stream: &mut TcpStream, me: Speaker, turns: &Turns) -> std::io::Result<()> {
    for (speaker, said) in turns {
        if *speaker == me {
            stream.write_all(said)?;
        } else {
            let mut heard = vec![0; said.len()];
            stream.read_exact(&mut heard)?;
            assert!(heard == *said, "other bytes arrived");
        }
    }
    Ok(())
}

/// Shakes hands and sends `length` bytes, for as many connections as come.
struct Server {
    address: SocketAddr,
    length: Arc<AtomicU64>,
}

impl Server {
    fn start(host: &Host, turns: Vec<(Speaker, Vec<u8>)>) -> Self {
        let address = SocketAddr::new(SERVER.parse().expect("an address"), PORT);
        let listener = host
            .inside(|| TcpListener::bind(address))
            .expect("the namespace is new");
        let length = Arc::new(AtomicU64::new(0));
        let wanted = Arc::clone(&length);
        std::thread::spawn(move || {
            // RFC 5246, section 6.2: a record of application data carries at most 2^14 bytes.
            let records =
                handshake::record(handshake::APPLICATION_DATA, &handshake::noise(1 << 14, 400))
                    .repeat(16);
            let said = Arc::new((turns, records));
            for mut stream in listener.incoming().map_while(Result::ok) {
                let length = wanted.load(Ordering::Relaxed);
                let said = Arc::clone(&said);
                // The client says what is wrong with a connection that ends early.
                std::thread::spawn(move || serve(&mut stream, &said.0, &said.1, length));
            }
        });
        Self { address, length }
    }
}

fn serve(
    stream: &mut TcpStream,
    turns: &Turns,
    records: &[u8],
    length: u64,
) -> std::io::Result<()> {
    converse(stream, Speaker::Server, turns)?;
    let mut left = length;
    while left > 0 {
        let part = left.min(records.len() as u64);
        stream.write_all(&records[..part as usize])?;
        left -= part;
    }
    Ok(())
}

/// Both daemons, killed when they are dropped.
struct Daemons<'a> {
    hosts: &'a Hosts,
    client_side: Daemon,
    server_side: Daemon,
}

impl<'a> Daemons<'a> {
    fn start(hosts: &'a Hosts, stores: [&Path; 2]) -> Self {
        let start = |host, role, store: &Path| {
            let settings = format!(
                "link = 'lnk0'\nadmin = '127.0.0.1:{ADMIN}'\nstore = '{}'\ninsecure-no-key = true\n",
                store.display()
            );
            Daemon::start(host, role, "packet", &settings)
        };
        Self {
            hosts,
            client_side: start(&hosts.client_side, "client-side", stores[0]),
            server_side: start(&hosts.server_side, "server-side", stores[1]),
        }
    }

    /// Checks what the daemons did with the connections that they saw, and ends them; packets of a
    /// connection that passed each one's queue.
    fn end(self, flows: usize) -> [u64; 2] {
        let queued = [&self.hosts.client_side, &self.hosts.server_side].map(|host| {
            let status = status(host, ADMIN);
            let count = |name| status.counters.get(name).copied().unwrap_or_default();
            let table = status.table();
            let flows = flows as u64;
            assert_eq!(count("packet_handshakes_finished"), flows, "{table}");
            let queued = count("queue_packets") / flows;
            assert!((1..=QUEUED).contains(&queued), "{table}");
            queued
        });
        for daemon in [self.client_side, self.server_side] {
            let ended = daemon.end(Signal::SIGTERM);
            assert_eq!(ended.code, Some(0), "{ended:?}");
        }
        queued
    }
}
