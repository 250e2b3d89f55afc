//! Many client sides at one server side, each with a key and a tunnel of its own: that all are
//! served, and what one costs the server side, which is a process by itself for that. docs/scale.md
//! has what this prints for a thousand.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

use super::*;

/// How many there are, if not [`FEW`].
const PEERS: &str = "TANDEM_FLEET_PEERS";
/// In every test run.
const FEW: usize = 48;
/// How long processor time at rest is measured.
const REST: Duration = Duration::from_secs(20);
/// What makes the test the server side's process: how many client sides it admits.
const SERVES: &str = "TANDEM_FLEET_SERVES";
const THIS: &str = "tests::fleet::scale::each_of_many_client_sides_has_its_tunnel";

fn key_of(number: usize) -> [u8; 32] {
    let mut key = [0x55; 32];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

/// The server side, in a process by itself.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    fn start(peers: usize) -> (Self, SocketAddr) {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", THIS, "--nocapture"])
            .env(SERVES, peers.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let said = BufReader::new(child.stdout.take().expect("piped"));
        let address = said.lines().find_map(|line| {
            let line = line.expect("text");
            Some(
                line.split_once("listens at ")?
                    .1
                    .parse()
                    .expect("an address"),
            )
        });
        (Self(child), address.expect("it says where"))
    }

    /// Bytes of memory, and seconds of processor time so far.
    fn usage(&self) -> (u64, f64) {
        let read = |name: &str| {
            let path = format!("/proc/{}/{name}", self.0.id());
            std::fs::read_to_string(path).expect("it runs")
        };
        let status = read("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let memory = line.and_then(|line| line.split_whitespace().next());
        let memory: u64 = memory.expect("proc(5)").parse().expect("a number");
        let stat = read("stat");
        let behind = stat.rsplit_once(')').expect("proc(5)").1;
        let ticks = behind.split_whitespace().skip(11).take(2);
        let ticks: f64 = ticks.map(|it| it.parse::<f64>().expect("a number")).sum();
        // In hundredths of a second, on all of Linux's architectures.
        (memory * 1024, ticks / 100.0)
    }
}

/// What the process does, until its standard input ends.
async fn serve_many(peers: usize) {
    let sockets = Sockets::bind();
    let address = sockets.udp.local_addr().expect("bound");
    let store = tempfile::tempdir().expect("a directory");
    let shared = open_shared((Role::ServerSide, "server-side"), &store, None);
    let clients = (0..peers).map(|number| name(&key_of(number), End::Client));
    let Sockets { udp, tcp } = sockets;
    let doors = Doors::open(&KEY, &clients.collect(), (udp, Some(tcp)), &Line::default());
    let doors = Arc::new(doors.expect("it starts"));
    serve_doors(&doors, &shared, DnsServer::Nobody);
    println!("listens at {address}");
    let input = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    let _ = input.await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_many_client_sides_has_its_tunnel() {
    if let Ok(peers) = std::env::var(SERVES) {
        return serve_many(peers.parse().expect("a number")).await;
    }
    let peers = std::env::var(PEERS).map_or(FEW, |peers| peers.parse().expect("a number"));
    let (process, address) = Process::start(peers);
    let line = Line::default();
    let connect = async |number: usize| {
        let client = quic::Client::to(&key_of(number), name(&KEY, End::Server), address, &line);
        let tunnel = soon(client.expect("it starts").connect()).await;
        tunnel.unwrap_or_else(|why| panic!("client side {number}: {why}"))
    };
    // What is needed once is not counted.
    let mut tunnels = vec![connect(0).await];
    let before = process.usage();
    let since = Instant::now();
    for number in 1..peers {
        tunnels.push(connect(number).await);
    }
    let took = since.elapsed();
    let up = process.usage();
    if peers > FEW {
        // For the figures alone.
        tokio::time::sleep(REST).await;
    }
    let rested = process.usage();
    for (number, tunnel) in tunnels.iter().enumerate() {
        let closed = timeout(Duration::ZERO, tunnel.closed()).await;
        assert!(closed.is_err(), "the tunnel of {number}: {closed:?}");
    }
    let each = |bytes: u64| bytes / (peers as u64 - 1);
    let count = peers as f64 - 1.0;
    eprintln!(
        "{peers} client sides: {} bytes of memory and {:.2} ms of processor time for each handshake \
         ({:.1} handshakes a second, both sides on this machine), {:.3} ms a second at rest for each",
        each(rested.0.saturating_sub(before.0)),
        (up.1 - before.1) * 1_000.0 / count,
        count / took.as_secs_f64(),
        (rested.1 - up.1) * 1_000.0 / count / REST.as_secs_f64(),
    );
    let (memory, _) = rested;
    assert!(each(memory.saturating_sub(before.0)) < 150_000, "{memory}");
    held(&process, address, peers).await;
}

/// Connections of one client side that are held while nothing is said in them.
async fn held(process: &Process, address: SocketAddr, count: usize) {
    let server = echo().await;
    let mover = Mover::new(key_of(0));
    let stay = mover.stay_at(address, Over::Udp);
    let mut clients = vec![held_connection(&mover, &stay, server).await];
    let before = process.usage();
    for _ in 0..count {
        clients.push(held_connection(&mover, &stay, server).await);
    }
    let (after, _) = process.usage();
    eprintln!(
        "{count} held connections: {} bytes of memory for each",
        after.saturating_sub(before.0) / count as u64
    );
    for client in &mut clients {
        client.write_all(b"y").await.expect("it is up");
        let mut back = [0];
        soon(client.read_exact(&mut back)).await.expect("it is up");
        assert_eq!(&back, b"y");
    }
}

/// One through which something has gone each way, and whose handshake, as it has none, is over.
async fn held_connection(mover: &Mover, stay: &Stay, server: SocketAddr) -> TcpStream {
    let mut client = mover.client(stay, server).await;
    client.write_all(b"x").await.expect("it is up");
    let mut back = [0];
    soon(client.read_exact(&mut back)).await.expect("it is up");
    client
}
