//! UDP from a program that speaks SOCKS5 through both sides to a server, over UDP and over TCP. The
//! bytes of SOCKS are written here; that a client side grants what is asked for is tried with the
//! programs (`tandem/tests/tunnel/udp.rs`).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tandem_link::tunnel::{Ending, FlowOpen, Target};
use tandem_tunnel::Limits;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{KEY, Pair, bytes, counter, echo, exchanged, soon};
use crate::board::Board;
use crate::datagrams::{Association, Associations, NearFlows};
use crate::intake::{datagram, datagram_header};
use crate::keeper::Leased;
use crate::line::Line;
use crate::transport::{
    Broken, Connect as _, Over, Receiving as _, Sending, Stream, Tunnel as _, quic,
};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Of UDP and IPv4.
const HEADERS: usize = 28;

/// Who gets no answer sends again after this long.
const AGAIN: Duration = Duration::from_secs(1);

async fn bound() -> UdpSocket {
    UdpSocket::bind((HERE, 0)).await.expect("a free port")
}

fn address_of(socket: &UdpSocket) -> SocketAddr {
    socket.local_addr().expect("bound")
}

/// A program that may send datagrams.
pub(super) struct Program {
    socket: UdpSocket,
    relay: SocketAddr,
    control: TcpStream,
}

impl Program {
    async fn of(pair: &Pair) -> Self {
        Self::among(&associations(pair)).await
    }

    pub(super) async fn among(all: &Arc<Associations<crate::transport::any::Any>>) -> Self {
        let listener = TcpListener::bind((HERE, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let control = TcpStream::connect(address).await.expect("it listens");
        let (accepted, client) = listener.accept().await.expect("it came");
        let relay = bound().await;
        let program = Self {
            socket: bound().await,
            relay: address_of(&relay),
            control,
        };
        all.admit(Association {
            control: accepted,
            relay,
            client: client.ip(),
            port: None,
        });
        program
    }

    async fn says(&self, target: &Target, payload: &[u8]) {
        let datagram = [&datagram_header(target), payload].concat();
        let sent = self.socket.send_to(&datagram, self.relay).await;
        sent.expect("it is bound");
    }

    /// The next that comes.
    async fn hears(&self) -> (Target, Vec<u8>) {
        let mut room = vec![0; 65_536];
        let (len, from) = self.socket.recv_from(&mut room).await.expect("bound");
        assert_eq!(from, self.relay);
        let (target, payload) = datagram(&room[..len]).expect("with a header");
        (target, payload.to_vec())
    }

    /// What comes back, which may take more than one try.
    pub(super) async fn asks(&self, target: &Target, payload: &[u8]) -> Vec<u8> {
        soon(async {
            loop {
                self.says(target, payload).await;
                if let Ok((from, heard)) = timeout(AGAIN, self.hears()).await {
                    assert_eq!(&from, target);
                    return heard;
                }
            }
        })
        .await
    }

    /// Nothing comes while this one says that so often.
    async fn hears_nothing(&self, target: &Target) {
        self.says(target, b"anybody?").await;
        let heard = timeout(AGAIN, self.hears()).await;
        assert!(heard.is_err(), "{heard:?}");
    }
}

fn associations(pair: &Pair) -> Arc<Associations<crate::transport::any::Any>> {
    Associations::new(NearFlows::new(
        Arc::clone(&pair.keeper),
        Arc::clone(&pair.gate),
        Arc::clone(&pair.client_side),
    ))
}

/// A server that sends back what it gets.
pub(super) async fn mirror() -> SocketAddr {
    let socket = bound().await;
    let address = address_of(&socket);
    tokio::spawn(async move {
        let mut room = vec![0; 65_536];
        while let Ok((len, from)) = socket.recv_from(&mut room).await {
            let _ = socket.send_to(&room[..len], from).await;
        }
    });
    address
}

pub(super) fn gauge(board: &Board, name: &str) -> u64 {
    board.snapshot().gauges[name]
}

/// What another task does, a moment later.
pub(super) async fn comes_true(what: &str, mut is_true: impl FnMut() -> bool) {
    let wait = async {
        while !is_true() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let came = timeout(super::PATIENCE, wait).await;
    assert!(came.is_ok(), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn payloads_of_every_length_cross_whole_in_both_directions() {
    for over in [Over::Udp, Over::Tcp] {
        let pair = Pair::start(over).await;
        let program = Program::of(&pair).await;
        let target = Target::Address(mirror().await);
        for (seed, len) in [1, 0, 512, 1_190, 1_200, 1_201, 1_452, 9_000, 60_000]
            .into_iter()
            .enumerate()
        {
            let payload = bytes(len, u8::try_from(seed).expect("few"));
            let heard = program.asks(&target, &payload).await;
            assert!(heard == payload, "{len} bytes over {over}");
        }
        let port = target.port();
        let name = Target::new("localhost", port).expect("a name");
        assert_eq!(program.asks(&name, b"by name").await, b"by name");
        let (near, far) = (&pair.client_side.board, &pair.server_side.board);
        assert_eq!(gauge(near, "datagram_flows"), 2);
        assert_eq!(gauge(far, "datagram_flows"), 2);
        for name in ["datagrams_from_endpoints", "datagrams_to_endpoints"] {
            assert!(
                counter(near, name) >= 10 && counter(far, name) >= 10,
                "{name}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn targets_that_are_not_allowed_get_nothing() {
    let pair = Pair::start(Over::Udp).await;
    let program = Program::of(&pair).await;
    let server = UdpSocket::bind("[::1]:0").await.expect("a free port");
    let target = Target::Address(address_of(&server));
    program.hears_nothing(&target).await;
    // It came to the far side, which refused it.
    assert_eq!(counter(&pair.server_side.board, "servers_not_allowed"), 1);
    let ended = || counter(&pair.client_side.board, "datagram_flows_ended_by_peer");
    comes_true("it is known here", || ended() == 1).await;
    // A refused flow is not asked for with each payload anew.
    program.hears_nothing(&target).await;
    assert_eq!(counter(&pair.server_side.board, "servers_not_allowed"), 1);
    assert!(server.try_recv(&mut [0; 16]).is_err());
}

/// A refused flow is asked for again before long: the server may be there by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_nobody_has_the_port_of_ends_its_flow_and_may_come_later() {
    for over in [Over::Udp, Over::Tcp] {
        let pair = Pair::start(over).await;
        let program = Program::of(&pair).await;
        let port = bound().await;
        let (address, target) = (address_of(&port), Target::Address(address_of(&port)));
        drop(port);
        program.says(&target, b"anybody?").await;
        let ended = || counter(&pair.client_side.board, "datagram_flows_ended_by_peer");
        comes_true("it is known here", || ended() == 1).await;
        comes_true("its socket is gone", || {
            gauge(&pair.server_side.board, "datagram_flows") == 0
        })
        .await;
        let server = UdpSocket::bind(address).await.expect("it is free again");
        let mut room = [0; 16];
        let heard = async {
            loop {
                program.says(&target, b"anybody?").await;
                let heard = timeout(AGAIN, server.recv_from(&mut room)).await;
                if let Ok(heard) = heard {
                    return heard.expect("it comes");
                }
            }
        };
        let (_, flow) = soon(heard).await;
        server.send_to(b"me", flow).await.expect("bound");
        assert_eq!(soon(program.hears()).await, (target, b"me".to_vec()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_was_sent_to_may_answer() {
    let pair = Pair::start(Over::Udp).await;
    let program = Program::of(&pair).await;
    let (server, other) = (bound().await, bound().await);
    let target = Target::Address(address_of(&server));
    program.says(&target, b"question").await;
    let mut room = [0; 16];
    let (_, flow) = soon(server.recv_from(&mut room)).await.expect("it comes");
    other.send_to(b"forged", flow).await.expect("bound");
    server.send_to(b"answer", flow).await.expect("bound");
    assert_eq!(soon(program.hears()).await, (target, b"answer".to_vec()));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_program_cannot_use_the_association() {
    let pair = Pair::start(Over::Udp).await;
    let program = Program::of(&pair).await;
    let target = Target::Address(mirror().await);
    assert_eq!(program.asks(&target, b"mine").await, b"mine");
    let stranger = bound().await;
    let datagram = [&datagram_header(&target)[..], b"strange"].concat();
    stranger
        .send_to(&datagram, program.relay)
        .await
        .expect("bound");
    assert_eq!(program.asks(&target, b"again").await, b"again");
    assert!(stranger.try_recv(&mut [0; 16]).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_refuse_flows_and_send_them_to_their_servers_from_here() {
    let (refused, direct) = (mirror().await, mirror().await);
    let rules = [
        format!("refuse ports={}", refused.port()),
        format!("direct ports={}", direct.port()),
    ];
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let pair = Pair::with_rules(Over::Udp, &rules).await;
    let program = Program::of(&pair).await;
    program.hears_nothing(&Target::Address(refused)).await;
    let board = &pair.client_side.board;
    assert_eq!(counter(board, "relays_refused_by_rule"), 1);
    let heard = program.asks(&Target::Address(direct), b"directly").await;
    assert_eq!(heard, b"directly");
    assert_eq!(counter(board, "datagram_flows_opened"), 0);
    assert_eq!(counter(&pair.server_side.board, "datagram_flows_opened"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_at_its_limit_sends_nothing_more() {
    for over in [Over::Udp, Over::Tcp] {
        let limits = Limits::new(Some(3_000), Vec::new());
        let pair = Pair::with(over, &[], limits).await;
        let program = Program::of(&pair).await;
        let target = Target::Address(mirror().await);
        let payload = bytes(1_000, 1);
        assert_eq!(program.asks(&target, &payload).await, payload);
        program.says(&target, &payload).await;
        let ended = || counter(&pair.client_side.board, "relays_ended_by_limit");
        comes_true("the flow ends", || ended() == 1).await;
        program.hears_nothing(&target).await;
        let refused = counter(&pair.client_side.board, "relays_refused_by_limit");
        assert!(refused >= 1, "over {over}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flows_end_with_the_connection_that_asked_and_their_end_costs_no_packet() {
    for over in [Over::Udp, Over::Tcp] {
        let pair = Pair::start(over).await;
        let all = associations(&pair);
        let (near, far) = (&pair.client_side.board, &pair.server_side.board);
        let target = Target::Address(mirror().await);
        let first = Program::among(&all).await;
        assert_eq!(first.asks(&target, b"a").await, b"a");
        drop(first.control);
        comes_true("the flow ends here", || gauge(near, "datagram_flows") == 0).await;
        // What comes later on the link has come, and the end of the flow has not.
        let server = echo().await;
        assert_eq!(exchanged(pair.client_of(server).await, b"x").await, b"x");
        assert_eq!(gauge(far, "datagram_flows"), 1, "over {over}");
        // It comes with the next opening.
        let second = Program::among(&all).await;
        assert_eq!(second.asks(&target, b"b").await, b"b");
        comes_true("the first flow ends there", || {
            gauge(far, "datagram_flows") == 1
        })
        .await;
        assert_eq!(counter(far, "datagram_flows_opened"), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flows_of_a_client_are_bounded_and_connections_still_work() {
    let pair = Pair::start(Over::Udp).await;
    let program = Program::of(&pair).await;
    let board = &pair.client_side.board;
    let refused = || counter(board, "datagram_flows_refused");
    soon(async {
        // More than one round: sockets' buffers are not without end.
        while refused() == 0 {
            for port in 1..400 {
                let target = Target::Address((Ipv4Addr::new(127, 0, 0, 2), port).into());
                program.says(&target, b"x").await;
                tokio::task::yield_now().await;
            }
        }
    })
    .await;
    assert!(gauge(board, "datagram_flows") <= 256);
    let server = echo().await;
    assert_eq!(exchanged(pair.client_of(server).await, b"x").await, b"x");
}

/// A stream as somebody with the key may write it.
async fn begun(pair: &Pair, bytes: &[u8]) -> Leased<crate::transport::any::Any> {
    let mut leased = pair.keeper.stream().await.expect("a tunnel");
    write_all(&mut leased.stream.sending, bytes).await;
    leased
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_breaks_the_rules_loses_its_flow_and_nothing_else() {
    for over in [Over::Udp, Over::Tcp] {
        let pair = Pair::start(over).await;
        let server = mirror().await;
        let mut open = Vec::new();
        let target = Target::Address(server);
        FlowOpen { target }.write(&mut open).expect("it may cross");
        for bad in [&[0x43][..], &[&open[..], &[0xff, 0xff, 0xff]].concat()] {
            let Leased { mut stream, lease } = begun(&pair, bad).await;
            let read = soon(stream.receiving.read()).await;
            let malformed = Ending::Malformed.code().into();
            assert_eq!(read, Err(Broken::ByPeer(malformed)), "{bad:?} over {over}");
            drop(lease);
        }
        let program = Program::of(&pair).await;
        let target = Target::Address(server);
        assert_eq!(program.asks(&target, b"still").await, b"still");
        let far = &pair.server_side.board;
        comes_true("the others have gone", || gauge(far, "datagram_flows") == 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_daemon_ends_its_associations() {
    let pair = Pair::start(Over::Udp).await;
    let mut program = Program::of(&pair).await;
    let target = Target::Address(mirror().await);
    assert_eq!(program.asks(&target, b"a").await, b"a");
    pair.client_side.end();
    // The end, or a reset.
    assert!(!matches!(
        soon(program.control.read(&mut [0])).await,
        Ok(1..)
    ));
    comes_true("its flows end", || {
        gauge(&pair.client_side.board, "datagram_flows") == 0
    })
    .await;
}

/// Stands between a program that knows nothing of SOCKS and the client side.
struct Forwarder {
    address: SocketAddr,
    /// Bytes that passed it in both directions, with the headers of UDP and IPv4: what the link
    /// would have carried without the tunnel.
    passed: Arc<AtomicUsize>,
}

async fn forwarder(program: Program, target: Target) -> Forwarder {
    let outside = bound().await;
    let address = address_of(&outside);
    let passed = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&passed);
    tokio::spawn(async move {
        let mut room = vec![0; 65_536];
        let mut back = None;
        loop {
            tokio::select! {
                received = outside.recv_from(&mut room) => {
                    let Ok((len, from)) = received else { continue };
                    count.fetch_add(len + HEADERS, Ordering::Relaxed);
                    back = Some(from);
                    program.says(&target, &room[..len]).await;
                }
                (_, payload) = program.hears() => {
                    count.fetch_add(payload.len() + HEADERS, Ordering::Relaxed);
                    if let Some(back) = back {
                        let _ = outside.send_to(&payload, back).await;
                    }
                }
            }
        }
    });
    Forwarder { address, passed }
}

/// A server of one QUIC connection, which sends back what it gets on a stream.
fn quic_mirror() -> (Target, JoinHandle<()>) {
    let socket = std::net::UdpSocket::bind((HERE, 0)).expect("a free port");
    let target = Target::Address(socket.local_addr().expect("bound"));
    let server = quic::Server::new(&KEY, socket, &Line::default()).expect("it starts");
    let serving = tokio::spawn(async move {
        let arriving = server.accept().await.expect("it comes");
        let tunnel = arriving.complete().await.expect("the same key");
        let Stream {
            mut sending,
            mut receiving,
        } = tunnel.accept().await.expect("it is up");
        while let Some(piece) = receiving.read().await.expect("it is up") {
            write_all(&mut sending, &piece).await;
        }
        sending.finish();
        // Until all is there.
        let _ = sending.stopped().await;
        server.close().await;
    });
    (target, serving)
}

pub(super) async fn write_all(sending: &mut impl Sending, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let written = sending.write(bytes).await.expect("it is up");
        bytes = &bytes[written..];
    }
}

/// quinn at both ends, whose first packets are padded to 1,232 bytes, as those of HTTP/3 are to
/// 1,200 and more.
#[tokio::test(flavor = "multi_thread")]
async fn a_quic_connection_of_a_client_works_through_the_tunnel() {
    for over in [Over::Udp, Over::Tcp] {
        let pair = Pair::start(over).await;
        let line = Line::default();
        let (target, serving) = quic_mirror();
        let at = forwarder(Program::of(&pair).await, target).await.address;
        let client = quic::Client::new(&KEY, at, &line).expect("it starts");
        let tunnel = soon(client.connect()).await.expect("it gets through");
        let Stream {
            mut sending,
            mut receiving,
        } = soon(tunnel.open()).await.expect("it is up");
        let sent = bytes(500_000, 3);
        let mut back = Vec::new();
        let both = async {
            let send = async {
                write_all(&mut sending, &sent).await;
                sending.finish();
            };
            let receive = async {
                while let Some(piece) = receiving.read().await.expect("it is up") {
                    back.extend(piece);
                }
            };
            tokio::join!(send, receive);
        };
        soon(both).await;
        assert!(back == sent, "over {over}");
        soon(serving).await.expect("no panic");
    }
}

/// Bytes that the tunnel over UDP has taken on the link, with headers, once nothing more crosses.
async fn link_bytes(pair: &Pair) -> usize {
    let count = || {
        let of = |name| counter(&pair.client_side.board, name);
        let datagrams = of("udp_sent_datagrams") + of("udp_received_datagrams");
        let bytes = of("udp_sent_bytes") + of("udp_received_bytes");
        usize::try_from(bytes).expect("few") + usize::try_from(datagrams).expect("few") * HEADERS
    };
    let mut before = count();
    loop {
        // An acknowledgement waits for a tenth of this.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = count();
        if now == before {
            return now;
        }
        before = now;
    }
}

/// The figures of docs/adr/0025-udp.md; `--nocapture` shows them.
#[tokio::test(flavor = "multi_thread")]
async fn what_exchanges_cost_on_the_link() {
    let pair = Pair::start(Over::Udp).await;
    let program = Program::of(&pair).await;
    let target = Target::Address(mirror().await);
    // The tunnel is up, and the question after its handshake has been asked.
    program.asks(&target, b"x").await;
    let mut at = link_bytes(&pair).await;
    let (question, plain) = (vec![1; 57], 2 * (57 + HEADERS));
    let again = program.asks(&target, &question).await.len();
    let now = link_bytes(&pair).await;
    let in_flow = now - at;
    at = now;
    let other = Target::Address(mirror().await);
    program.asks(&other, &question).await;
    let now = link_bytes(&pair).await;
    let new_flow = now - at;
    at = now;
    println!("{again} bytes there and back: {plain} plain, {new_flow} new, {in_flow} again");
    // With room for acknowledgements in packets of their own.
    assert!(in_flow < plain + 300 && new_flow < plain + 300);

    let (target, serving) = quic_mirror();
    let forwarder = forwarder(Program::of(&pair).await, target).await;
    let client = quic::Client::new(&KEY, forwarder.address, &Line::default()).expect("it starts");
    let tunnel = soon(client.connect()).await.expect("it gets through");
    let Stream {
        mut sending,
        mut receiving,
    } = soon(tunnel.open()).await.expect("it is up");
    write_all(&mut sending, &bytes(4_000, 1)).await;
    sending.finish();
    while soon(receiving.read()).await.expect("it is up").is_some() {}
    soon(serving).await.expect("no panic");
    let crossed = link_bytes(&pair).await - at;
    let plain = forwarder.passed.load(Ordering::Relaxed);
    println!(
        "QUIC, its handshake and 4,000 bytes there and back: {plain} plain, {crossed} crossed"
    );
    assert!(crossed < plain + plain / 4);
}
