//! Both sides in one process: the client side and the server side over the loopback interface, over
//! UDP and over TCP; endpoints over TCP.

mod datagrams;
mod dns;
mod fleet;
mod rules;
mod tls;

use std::collections::HashSet;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use tandem_daemon::places::Share;
use tandem_engine::Role;
use tandem_link::tunnel::Target;
use tandem_tunnel::{Allowed, Handshakes, Limits, Rules, WayOut};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::board::{Board, Facts};
use crate::client_side::admit;
use crate::config::{ClientAddresses, ClientCertificates, DnsServer, Renewals};
use crate::dial::Dialer;
use crate::intake::{Accepted, Came, Gate};
use crate::keeper::Keeper;
use crate::limits::ClientLimits;
use crate::line::Line;
use crate::link_state::link_state;
use crate::server_side::{Doors, Host};
use crate::shared::{Held, Keys, Shared};
use crate::transport::any::Any;
use crate::transport::{Connect, Lost, Over, quic, tcp};

const KEY: [u8; 32] = [7; 32];

/// Nothing here takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Both sides. The server side may connect to this machine.
pub(crate) struct Pair {
    pub(crate) client_side: Arc<Shared>,
    server_side: Arc<Shared>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) keeper: Arc<Keeper<Any>>,
    doors: Arc<Doors>,
    /// The server side's sockets, for one that comes after it.
    sockets: Sockets,
    _stores: [TempDir; 2],
}

/// Where a server side listens: on the same port of both.
struct Sockets {
    udp: UdpSocket,
    tcp: std::net::TcpListener,
}

impl Sockets {
    fn bind() -> Self {
        for _ in 0..100 {
            let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
            let address = udp.local_addr().expect("bound");
            if let Ok(tcp) = std::net::TcpListener::bind(address) {
                return Self { udp, tcp };
            }
        }
        panic!("no port is free for both");
    }
}

/// A network that lets nothing through.
struct Blocked;

impl Connect for Blocked {
    type Tunnel = quic::Quic;

    async fn connect(&self) -> Result<quic::Quic, Lost> {
        std::future::pending().await
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }

    fn round_trip(&self) -> Duration {
        Duration::from_millis(10)
    }
}

impl Pair {
    /// Over UDP or TCP alone: the other is blocked.
    pub(crate) async fn start(over: Over) -> Self {
        Self::with(over, &[], Limits::default()).await
    }

    async fn with_rules(over: Over, rules: &[&str]) -> Self {
        Self::with(over, rules, Limits::default()).await
    }

    async fn with(over: Over, rules: &[&str], limits: Limits) -> Self {
        Self::of(over, rules, limits, DnsServer::Nobody).await
    }

    async fn with_resolver(over: Over, resolver: DnsServer) -> Self {
        Self::of(over, &[], Limits::default(), resolver).await
    }

    async fn of(over: Over, rules: &[&str], limits: Limits, resolver: DnsServer) -> Self {
        let sockets = Sockets::bind();
        let peer = sockets.udp.local_addr().expect("bound");
        let stores = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
        let open = |role, name, store: &TempDir| {
            let facts = Facts {
                role: name,
                link: peer.to_string(),
            };
            let held = Held {
                store: store.path(),
                authorities: None,
                renewals: Renewals::AtVisits,
                client_certificates: ClientCertificates::default(),
                shared: None,
            };
            Shared::open(role, held, Handshakes::Shortened, Keys::default(), facts)
                .expect("a store")
        };
        let client_side = open(Role::ClientSide, "client-side", &stores[0]);
        let server_side = open(Role::ServerSide, "server-side", &stores[1]);
        let doors = serve(&sockets, &server_side, resolver);
        let (line, board) = (Line::default(), Arc::clone(&client_side.board));
        let (_, link) = link_state(Arc::clone(&board));
        let keeper = match over {
            Over::Udp => {
                let by_udp = quic::Client::new(&KEY, peer, &line).expect("it starts");
                let (keeper, keep) = Keeper::new(by_udp, Blocked, link, board);
                tokio::spawn(keep);
                keeper
            }
            Over::Tcp => {
                let by_tcp = tcp::Client::new(&KEY, peer, &line, &quic::expected(&line));
                let by_tcp = by_tcp.expect("it starts");
                let (keeper, keep) = Keeper::new(Blocked, by_tcp, link, board);
                tokio::spawn(keep);
                keeper
            }
        };
        let rules = rules.iter().map(|rule| rule.parse().expect(rule));
        let rules = Rules::new(rules.collect());
        let limits = ClientLimits::open(limits, stores[0].path());
        let board = Arc::clone(&client_side.board);
        let gate = Gate::new(rules, limits, board, None);
        Self {
            client_side,
            gate: Arc::new(gate),
            server_side,
            keeper: Arc::new(keeper),
            doors,
            sockets,
            _stores: stores,
        }
    }

    /// A client whose connection the client side has taken in.
    async fn client(&self, target: Target) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let client = TcpStream::connect(address).await.expect("it listens");
        let (stream, client_address) = listener.accept().await.expect("it came");
        let accepted = Accepted {
            stream,
            target,
            client: client_address,
            first: Vec::new(),
            came: Came::Asking,
        };
        self.admit(accepted);
        client
    }

    fn admit(&self, accepted: Accepted) {
        admit(
            accepted,
            ClientAddresses::Kept,
            &self.gate,
            &self.keeper,
            None,
            &self.client_side,
        );
    }

    async fn client_of(&self, server: SocketAddr) -> TcpStream {
        self.client(Target::Address(server)).await
    }
}

fn serve(sockets: &Sockets, shared: &Arc<Shared>, resolver: DnsServer) -> Arc<Doors> {
    let udp = sockets.udp.try_clone().expect("a descriptor");
    let tcp = sockets.tcp.try_clone().expect("a descriptor");
    let doors =
        Doors::open(&KEY, &HashSet::new(), (udp, Some(tcp)), &Line::default()).expect("it starts");
    let doors = Arc::new(doors);
    serve_doors(&doors, shared, resolver);
    doors
}

fn serve_doors(doors: &Arc<Doors>, shared: &Arc<Shared>, resolver: DnsServer) {
    let here = "127.0.0.0/8".parse().expect("a rule");
    let dialer = Dialer::new(
        Allowed::new(vec![here]),
        WayOut::Own,
        Arc::clone(&shared.board),
    );
    let host = Host::new(dialer, resolver, Arc::clone(shared), Share::AsManyAsFree);
    let serving = Arc::clone(doors);
    tokio::spawn(async move { serving.accept(&host).await });
}

/// A server that sends back what it gets, while it gets it, and ends when the client does.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reader, mut writer) = stream.split();
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
                let _ = writer.shutdown().await;
            });
        }
    });
    address
}

/// The one connection to a server, once it has come.
async fn one_connection() -> (SocketAddr, impl Future<Output = TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let accepted = async move { listener.accept().await.expect("it comes").0 };
    (address, accepted)
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("in time")
}

pub(crate) fn counter(board: &Board, name: &str) -> u64 {
    board.snapshot().counters[name]
}

/// What a client sees of a connection that failed.
async fn is_reset(mut client: TcpStream) {
    let error = soon(client.read(&mut [0; 16]))
        .await
        .expect_err("a reset, and no byte");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

fn bytes(len: usize, seed: u8) -> Vec<u8> {
    let mut state = u32::from(seed) + 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..len).map(|_| next()).collect()
}

/// Sends all of it, ends, and reads to the end, at once.
async fn exchanged(client: TcpStream, sent: &[u8]) -> Vec<u8> {
    let (mut reader, mut writer) = client.into_split();
    let mut back = Vec::new();
    let send = async {
        writer.write_all(sent).await.expect("it takes all");
        writer.shutdown().await.expect("it is up");
    };
    let (read, ()) = tokio::join!(reader.read_to_end(&mut back), send);
    read.expect("an end in order");
    back
}

/// Each of these tests over UDP and over TCP.
macro_rules! over_both {
    ($($name:ident),* $(,)?) => {
        mod over_udp {
            use super::Over;
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $name() {
                    super::$name(Over::Udp).await;
                }
            )*
        }
        mod over_tcp {
            use super::Over;
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $name() {
                    super::$name(Over::Tcp).await;
                }
            )*
        }
    };
}

over_both!(
    each_direction_ends_by_itself,
    a_server_that_speaks_first_is_heard,
    what_cannot_be_reached_is_reset_and_counted_by_its_reason,
    a_reset_of_either_endpoint_reaches_the_other,
    an_endpoint_that_goes_while_its_answer_comes_leaves_nothing_behind,
    the_end_of_a_daemon_resets_its_connections,
    much_in_both_directions_at_once_does_not_lock_up,
    a_client_that_does_not_read_slows_its_server_and_no_other,
    a_hundred_connections_at_once_get_their_own_bytes_over_one_tunnel,
);

async fn each_direction_ends_by_itself(over: Over) {
    ends_by_itself(&Pair::start(over).await).await;
}

async fn ends_by_itself(pair: &Pair) {
    let (address, accepted) = one_connection().await;
    let mut client = pair.client_of(address).await;
    client.write_all(b"question").await.expect("it is up");
    client.shutdown().await.expect("it is up");
    let mut server = soon(accepted).await;
    let mut question = String::new();
    soon(server.read_to_string(&mut question))
        .await
        .expect("the end of the question");
    assert_eq!(question, "question");
    // The other direction is open still.
    server.write_all(b"answer").await.expect("it is up");
    drop(server);
    let mut answer = String::new();
    soon(client.read_to_string(&mut answer))
        .await
        .expect("the end of the answer");
    assert_eq!(answer, "answer");
}

async fn a_server_that_speaks_first_is_heard(over: Over) {
    let pair = Pair::start(over).await;
    let (address, accepted) = one_connection().await;
    let mut client = pair.client_of(address).await;
    let mut server = soon(accepted).await;
    server.write_all(b"220 ready\r\n").await.expect("it is up");
    let mut greeting = [0; 11];
    soon(client.read_exact(&mut greeting)).await.expect("heard");
    assert_eq!(&greeting, b"220 ready\r\n");
}

async fn what_cannot_be_reached_is_reset_and_counted_by_its_reason(over: Over) {
    let pair = Pair::start(over).await;
    let (address, accepted) = one_connection().await;
    drop(accepted);
    let name = |name: &str| Target::Name {
        name: name.to_owned(),
        port: 443,
    };
    let cases = [
        (Target::Address(address), "refused"),
        (name("nobody.invalid"), "name_not_found"),
        // RFC 5737: documentation only. It is not on the allow list.
        (
            Target::Address("192.0.2.1:443".parse().expect("an address")),
            "not_allowed",
        ),
    ];
    for (target, reason) in cases {
        let mut client = pair.client(target).await;
        client.write_all(b"anybody there").await.expect("it is up");
        is_reset(client).await;
        let counted = format!("tunnel_relays_ended_{reason}");
        for side in [&pair.client_side, &pair.server_side] {
            assert_eq!(counter(&side.board, &counted), 1, "{reason}");
        }
    }
}

async fn a_reset_of_either_endpoint_reaches_the_other(over: Over) {
    let pair = Pair::start(over).await;
    let reset = |stream: TcpStream| {
        let linger = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
        linger.expect("a socket");
    };
    let (address, accepted) = one_connection().await;
    let mut client = pair.client_of(address).await;
    client.write_all(b"x").await.expect("it is up");
    let mut server = soon(accepted).await;
    soon(server.read_exact(&mut [0])).await.expect("it came");
    reset(server);
    is_reset(client).await;

    let (address, accepted) = one_connection().await;
    let mut client = pair.client_of(address).await;
    client.write_all(b"x").await.expect("it is up");
    let mut server = soon(accepted).await;
    soon(server.read_exact(&mut [0])).await.expect("it came");
    reset(client);
    is_reset(server).await;

    // And of a client that has sent its end already, while nobody says anything.
    let (address, accepted) = one_connection().await;
    let mut client = pair.client_of(address).await;
    client.shutdown().await.expect("it is up");
    let mut server = soon(accepted).await;
    assert_eq!(soon(server.read(&mut [0])).await.expect("the end"), 0);
    reset(client);
    let failed = soon(server.ready(Interest::ERROR)).await;
    assert!(failed.expect("a socket").is_error());
}

async fn an_endpoint_that_goes_while_its_answer_comes_leaves_nothing_behind(over: Over) {
    let pair = Pair::start(over).await;
    for round in 0..200 {
        let (address, accepted) = one_connection().await;
        let mut client = pair.client_of(address).await;
        client.shutdown().await.expect("it is up");
        let mut server = soon(accepted).await;
        assert_eq!(soon(server.read(&mut [0])).await.expect("the end"), 0);
        server.write_all(b"answer").await.expect("it is up");
        drop(server);
        // Sooner or later, so that the answer finds it in each state.
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        let linger = socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO));
        linger.expect("a socket");
    }
    for shared in [&pair.client_side, &pair.server_side] {
        let left = async {
            while shared.board.snapshot().gauges["relays"] > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        soon(left).await;
    }
}

async fn the_end_of_a_daemon_resets_its_connections(over: Over) {
    let pair = Pair::start(over).await;
    let (address, accepted) = one_connection().await;
    let mut client = pair.client_of(address).await;
    client.write_all(b"x").await.expect("it is up");
    let mut server = soon(accepted).await;
    soon(server.read_exact(&mut [0])).await.expect("it came");
    pair.client_side.end();
    is_reset(client).await;
    is_reset(server).await;
    soon(pair.client_side.relays_ended()).await;
    assert_eq!(pair.client_side.board.snapshot().gauges["relays"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_of_the_server_side_new_connections_work() {
    let mut pair = Pair::start(Over::Udp).await;
    let address = echo().await;
    let client = pair.client_of(address).await;
    assert_eq!(soon(exchanged(client, b"first")).await, b"first");
    pair.doors.close().await;
    pair.doors = serve(&pair.sockets, &pair.server_side, DnsServer::Nobody);
    // The old tunnel may be known to be gone only after this: then the connection is reset, and the
    // next one works.
    let echoed = async {
        loop {
            let mut client = pair.client_of(address).await;
            let mut back = Vec::new();
            if client.write_all(b"second").await.is_ok()
                && client.shutdown().await.is_ok()
                && client.read_to_end(&mut back).await.is_ok()
            {
                return back;
            }
        }
    };
    assert_eq!(soon(echoed).await, b"second");
    let up = counter(&pair.client_side.board, "tunnels_up");
    assert_eq!(up, 2, "one tunnel before, one after");
}

/// The first packet of a client that wants a tunnel to there. It names no address of its own, so
/// anybody can send it from any.
async fn hello() -> Vec<u8> {
    let there = tokio::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
    let there = there.await.expect("a free port");
    let address = there.local_addr().expect("bound");
    let client = quic::Client::new(&KEY, address, &Line::default()).expect("it starts");
    let client = tokio::spawn(async move { client.connect().await.map(|_| ()) });
    let mut datagram = vec![0; 2_000];
    let len = soon(there.recv(&mut datagram)).await.expect("it comes");
    client.abort();
    datagram.truncate(len);
    datagram
}

#[tokio::test(flavor = "multi_thread")]
async fn hellos_from_forged_addresses_do_not_keep_a_client_out() {
    let pair = Pair::start(Over::Udp).await;
    let forger = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let peer = pair.sockets.udp.local_addr().expect("bound");
    // More than there are places for handshakes. None goes on.
    for _ in 0..40 {
        let sent = forger.send_to(&hello().await, peer);
        sent.expect("an address");
    }
    let client = quic::Client::new(&KEY, peer, &Line::default()).expect("it starts");
    let connected = timeout(Duration::from_secs(30), client.connect()).await;
    connected.expect("a place").expect("it answers");
}

async fn a_hundred_connections_at_once_get_their_own_bytes_over_one_tunnel(over: Over) {
    let pair = Arc::new(Pair::start(over).await);
    let address = echo().await;
    let clients: Vec<_> = (0..100)
        .map(|seed| {
            let pair = Arc::clone(&pair);
            tokio::spawn(async move {
                let client = pair.client_of(address).await;
                let sent = bytes(20_000, seed);
                assert!(exchanged(client, &sent).await == sent, "{seed}");
            })
        })
        .collect();
    for client in clients {
        soon(client).await.expect("no panic");
    }
    assert_eq!(counter(&pair.client_side.board, "tunnels_up"), 1);
    let snapshot = pair.client_side.board.snapshot();
    assert_eq!(snapshot.gauges["tunnels"], 1);
    let sent = match over {
        Over::Udp => "udp_sent_bytes",
        Over::Tcp => "tcp_sent_bytes",
    };
    assert!(snapshot.counters[sent] > 2_000_000);
}

async fn much_in_both_directions_at_once_does_not_lock_up(over: Over) {
    let pair = Pair::start(over).await;
    let address = echo().await;
    let client = pair.client_of(address).await;
    let sent = bytes(8_000_000, 3);
    let back = soon(exchanged(client, &sent)).await;
    assert!(back == sent, "the same bytes");
    for side in [&pair.client_side, &pair.server_side] {
        assert!(counter(&side.board, "from_endpoints_bytes") >= 8_000_000);
        assert!(counter(&side.board, "to_endpoints_bytes") >= 8_000_000);
    }
}

async fn a_client_that_does_not_read_slows_its_server_and_no_other(over: Over) {
    let pair = Pair::start(over).await;
    let (address, accepted) = one_connection().await;
    let mut stalled = pair.client_of(address).await;
    stalled.write_all(b"x").await.expect("it is up");
    let mut server = soon(accepted).await;
    // Until nothing more is taken: what the kernel and the proxies hold is bounded.
    let piece = bytes(64 * 1024, 1);
    let mut taken = 0;
    while let Ok(written) = timeout(Duration::from_secs(2), server.write(&piece)).await {
        taken += written.expect("it is up");
        assert!(taken < 64_000_000, "no bound");
    }
    let client = pair.client_of(echo().await).await;
    assert_eq!(soon(exchanged(client, b"free")).await, b"free");
    drop(stalled);
}
