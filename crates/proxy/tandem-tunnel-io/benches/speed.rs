//! What the tunnel costs where the link is fast: bulk data, added latency, and the memory of
//! connections that are held, beside a bare QUIC tunnel and TCP without any.
//!
//! All on the loopback interface. The arms run by turns: `direct` is one TCP connection; `bare` are
//! two processes that carry each TCP connection on a stream of one QUIC connection
//! (`speed/bare.rs`); `tunnel` are the two daemons, entered by SOCKS5. Each arm has processes of
//! its own, all have one server, and this process is the client.
//!
//! Prints a line for people and a JSON line for scripts per figure. Wall time is reported and gates
//! nothing. What is checked: each byte count, and that all held connections still answer.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    unreachable_pub,
    reason = "a bench measures time and prints"
)]

#[path = "speed/bare.rs"]
mod bare;
#[path = "speed/process.rs"]
mod process;
#[path = "speed/server.rs"]
mod server;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Barrier;
use std::time::Instant;

use process::{Process, free_port};
use server::ECHO;
use tandem_testkit::bench::{median, report};

/// Transfers of each arm.
const ROUNDS: usize = 10;
/// Connections at once, and what that is called in the names of the figures.
const LOADS: [(usize, &str); 2] = [(1, "tunnel_bulk"), (100, "tunnel_bulk_100_streams")];
/// Bytes of a transfer, all connections together.
const TRANSFER: u64 = 128 << 20;
/// Exchanges of one byte.
const EXCHANGES: usize = 2_000;
/// Connections that are held.
const HELD: usize = 10_000;
/// Of these, before memory is looked at.
const FIRST: usize = 100;

fn main() {
    if let Ok(role) = std::env::var(process::ROLE) {
        process::run(&role);
    }
    tandem_daemon::process::raise_descriptor_limit();
    let address = local(free_port());
    let server = Server {
        address,
        _process: Process::start("server", address, address),
    };
    for (streams, name) in LOADS {
        bulk(&server, streams, name);
    }
    latency(&server);
    held(&server);
}

/// Answers whoever connects to it.
struct Server {
    address: SocketAddr,
    _process: Process,
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// How a connection to the server is made.
enum Arm {
    Direct(SocketAddr),
    Bare(Pair),
    Tunnel(Pair, SocketAddr),
}

/// Both processes of an arm.
struct Pair {
    /// Where clients connect.
    entry: SocketAddr,
    near: Process,
    far: Process,
}

impl Arm {
    /// All three, each new.
    fn all(server: &Server) -> [(&'static str, Self); 3] {
        let any = || local(free_port());
        let pair = |near: &str, far: &str| {
            let (entry, between) = (any(), any());
            Pair {
                far: Process::start(far, between, server.address),
                near: Process::start(near, entry, between),
                entry,
            }
        };
        [
            ("direct", Self::Direct(server.address)),
            ("bare", Self::Bare(pair("bare-near", "bare-far"))),
            (
                "tunnel",
                Self::Tunnel(pair("client-side", "server-side"), server.address),
            ),
        ]
    }

    fn connect(&self) -> TcpStream {
        let (entry, through) = match self {
            Self::Direct(server) => (*server, None),
            Self::Bare(pair) => (pair.entry, None),
            Self::Tunnel(pair, server) => (pair.entry, Some(*server)),
        };
        let mut stream = TcpStream::connect(entry).expect("it listens");
        stream.set_nodelay(true).expect("a socket");
        if let Some(SocketAddr::V4(server)) = through {
            // RFC 1928: no authentication, then CONNECT to an IPv4 address.
            let mut request = vec![5, 1, 0, 5, 1, 0, 1];
            request.extend(server.ip().octets());
            request.extend(server.port().to_be_bytes());
            stream.write_all(&request).expect("it listens");
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).expect("an answer");
            assert_eq!(answer[..4], [5, 0, 5, 0], "SOCKS5 connects");
        }
        stream
    }

    fn pair(&self) -> Option<&Pair> {
        match self {
            Self::Direct(_) => None,
            Self::Bare(pair) | Self::Tunnel(pair, _) => Some(pair),
        }
    }
}

/// Data from the server, over so many connections at once.
fn bulk(server: &Server, streams: usize, name: &str) {
    let arms = Arm::all(server);
    let mut rates = arms.each_ref().map(|_| Vec::new());
    for round in 0..=ROUNDS {
        for turn in 0..arms.len() {
            // No arm always runs on a machine warmed by the same other.
            let at = (turn + round) % arms.len();
            let rate = transfer(&arms[at].1, streams);
            // The first round opens the windows.
            if round > 0 {
                rates[at].push(rate * 8e-6);
            }
        }
    }
    let [_, bare, tunnel] = std::array::from_fn(|at| {
        let rates = &mut rates[at];
        let median = median(rates);
        report(&format!("{name}_{}", arms[at].0), median, "Mbit/s");
        println!(
            "  transfers from {:.0} to {:.0} Mbit/s",
            rates[0],
            rates[ROUNDS - 1]
        );
        median
    });
    report(
        &format!("{name}_percent_of_bare"),
        tunnel / bare * 100.0,
        "percent of the bare QUIC tunnel",
    );
}

/// Bytes a second.
fn transfer(arm: &Arm, streams: usize) -> f64 {
    let each = TRANSFER / streams as u64;
    let all_ready = Barrier::new(streams + 1);
    let mut since = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..streams {
            scope.spawn(|| {
                let mut stream = arm.connect();
                exchange(&mut stream);
                all_ready.wait();
                stream.write_all(&each.to_be_bytes()).expect("it stands");
                let mut bytes = vec![0; 1 << 18];
                let mut received = 0;
                while received < each {
                    let count = stream.read(&mut bytes).expect("it stands");
                    assert!(count > 0, "the end came after {received} bytes");
                    received += count as u64;
                }
            });
        }
        all_ready.wait();
        since = Instant::now();
    });
    (each * streams as u64) as f64 / since.elapsed().as_secs_f64()
}

/// How long one byte takes there and back on a connection that stands.
fn latency(server: &Server) {
    let arms = Arm::all(server);
    let mut streams = arms.each_ref().map(|(_, arm)| arm.connect());
    let mut micros = arms.each_ref().map(|_| Vec::new());
    for _ in 0..EXCHANGES {
        for (stream, micros) in streams.iter_mut().zip(&mut micros) {
            let since = Instant::now();
            exchange(stream);
            micros.push(since.elapsed().as_secs_f64() * 1e6);
        }
    }
    let [direct, bare, tunnel] = micros.map(|mut micros| median(&mut micros));
    report("tunnel_exchange_direct", direct, "microseconds");
    report("tunnel_exchange_bare", bare, "microseconds");
    report("tunnel_exchange", tunnel, "microseconds");
    report(
        "tunnel_added_latency",
        tunnel - direct,
        "microseconds over TCP without a tunnel, both proxies",
    );
}

/// What a connection costs that says nothing, in each process.
fn held(server: &Server) {
    for (name, arm) in Arm::all(server) {
        let Some(pair) = arm.pair() else { continue };
        // What the first connections make a process set aside is not theirs.
        let mut streams: Vec<_> = (0..FIRST).map(|_| exchanged(&arm)).collect();
        let before = [pair.near.resident(), pair.far.resident()];
        streams.extend((FIRST..HELD).map(|_| exchanged(&arm)));
        let after = [pair.near.resident(), pair.far.resident()];
        for stream in &mut streams {
            exchange(stream);
        }
        for (side, (before, after)) in ["near", "far"].iter().zip(before.iter().zip(after)) {
            report(
                &format!("tunnel_held_{name}_{side}"),
                after.saturating_sub(*before) as f64 / (HELD - FIRST) as f64,
                "bytes of memory for each of 10,000 connections",
            );
        }
    }
}

fn exchanged(arm: &Arm) -> TcpStream {
    let mut stream = arm.connect();
    exchange(&mut stream);
    stream
}

/// One byte there and back.
fn exchange(stream: &mut TcpStream) {
    let mut byte = [0];
    stream.write_all(&ECHO.to_be_bytes()).expect("it stands");
    stream.read_exact(&mut byte).expect("it stands");
}
