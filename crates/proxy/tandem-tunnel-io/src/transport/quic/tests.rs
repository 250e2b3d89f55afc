//! Both ends of the transport on one machine, by quinn's driver. What depends on time and on the
//! line is tested in `simulated.rs`.

use super::*;
use crate::transport::testing::{read_all, write_all};

const KEY: [u8; 32] = [7; 32];
const OTHER_KEY: [u8; 32] = [8; 32];

fn any_port() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port")
}

/// Serves one connection after the other, and in each every stream, which gets its own bytes back.
fn echo(socket: UdpSocket) -> Arc<Server> {
    let server = Arc::new(Server::new(&KEY, socket, &Line::default()).expect("it starts"));
    let serving = Arc::clone(&server);
    tokio::spawn(async move {
        while let Some(arriving) = serving.accept().await {
            let Ok(tunnel) = arriving.complete().await else {
                continue;
            };
            tokio::spawn(async move {
                while let Ok(stream) = tunnel.accept().await {
                    tokio::spawn(echo_stream(stream));
                }
            });
        }
    });
    server
}

async fn echo_stream(mut stream: Stream<Out, In>) {
    while let Ok(Some(piece)) = stream.receiving.read().await {
        if write_all(&mut stream.sending, piece.as_ref())
            .await
            .is_err()
        {
            return;
        }
    }
    stream.sending.finish();
}

async fn echoed(tunnel: &Quic, bytes: &[u8]) -> Result<Vec<u8>, Broken> {
    let mut stream = tunnel.open().await.map_err(|_| Broken::Lost)?;
    write_all(&mut stream.sending, bytes).await?;
    stream.sending.finish();
    read_all(&mut stream.receiving).await
}

async fn connect(peer: SocketAddr, key: &[u8; 32]) -> Result<Quic, Lost> {
    Client::new(key, peer, &Line::default())
        .expect("it starts")
        .connect()
        .await
}

#[tokio::test]
async fn streams_carry_bytes_both_ways_and_the_handshake_is_two_datagrams_each_way() {
    let socket = any_port();
    let peer = socket.local_addr().expect("bound");
    let _server = echo(socket);
    let tunnel = connect(peer, &KEY).await.expect("it answers");
    let handshake = tunnel.counts();
    assert!(handshake.sent_bytes < 4_000, "{handshake:?}");
    assert!(handshake.received_bytes < 4_000, "{handshake:?}");
    let sent: Vec<u8> = (0..200_000_u32).map(|n| n.to_be_bytes()[3]).collect();
    let back = echoed(&tunnel, &sent).await.expect("it echoes");
    assert!(back == sent, "the same bytes");
}

#[tokio::test]
async fn who_has_another_key_is_refused() {
    let socket = any_port();
    let peer = socket.local_addr().expect("bound");
    let _server = echo(socket);
    let error = connect(peer, &OTHER_KEY).await.expect_err("another key");
    assert!(matches!(error, Lost::Refused(_)), "{error:?}");
}

#[tokio::test]
async fn who_knows_the_server_sides_key_and_has_none_of_the_pair_is_refused() {
    let socket = any_port();
    let peer = socket.local_addr().expect("bound");
    let server = Server::new(&KEY, socket, &Line::default()).expect("it starts");
    let known = key(&KEY, End::Server).expect("a key").name();
    let own = ChannelKey::fleeting().expect("a key");
    let tls = client_config(PROTOCOL, &own, Pin::to(known)).expect("it starts");
    let tls = QuicClientConfig::try_from(tls).expect("TLS 1.3");
    let mut stranger = Client::new(&KEY, peer, &Line::default()).expect("it starts");
    stranger.config = ClientConfig::new(Arc::new(tls));
    let coming = tokio::spawn(async move { stranger.connect().await });
    let arriving = server.accept().await.expect("somebody comes");
    let there = arriving.complete().await;
    assert!(matches!(there, Err(Lost::Refused(_))), "{there:?}");
    coming.abort();
}

#[tokio::test]
async fn who_is_asked_to_come_again_shows_its_address_by_that() {
    let socket = any_port();
    let peer = socket.local_addr().expect("bound");
    let server = Server::new(&KEY, socket, &Line::default()).expect("it starts");
    let client = tokio::spawn(async move { connect(peer, &KEY).await.expect("it answers") });
    let first = server.accept().await.expect("somebody comes");
    assert_eq!(first.shown_address(), None);
    first.ask_again();
    let second = server.accept().await.expect("it comes again");
    assert_eq!(second.shown_address(), Some(peer.ip()));
    let there = second.complete().await;
    assert!(there.is_ok(), "{there:?}");
    client.await.expect("no panic");
}

#[tokio::test]
async fn a_reset_and_a_stop_arrive_with_their_codes() {
    let socket = any_port();
    let peer = socket.local_addr().expect("bound");
    let server = Server::new(&KEY, socket, &Line::default()).expect("it starts");
    let client = tokio::spawn(async move { connect(peer, &KEY).await.expect("it answers") });
    let arriving = server.accept().await.expect("somebody comes");
    let there = arriving.complete().await.expect("the same key");
    let here = client.await.expect("no panic");
    let mut ours = here.open().await.expect("it is up");
    ours.sending.write(b"x").await.expect("there is room");
    let mut theirs = there.accept().await.expect("it is up");
    theirs.sending.reset(5);
    theirs.receiving.stop(6);
    let read = ours.receiving.read().await;
    assert!(matches!(read, Err(Broken::ByPeer(5))), "{read:?}");
    assert_eq!(ours.sending.stopped().await, Some(Broken::ByPeer(6)));
}

#[tokio::test]
async fn readers_that_stop_leave_all_other_streams_free() {
    let socket = any_port();
    let peer = socket.local_addr().expect("bound");
    let server = Server::new(&KEY, socket, &Line::default()).expect("it starts");
    let client = tokio::spawn(async move { connect(peer, &KEY).await.expect("it answers") });
    let arriving = server.accept().await.expect("somebody comes");
    let there = arriving.complete().await.expect("the same key");
    let here = client.await.expect("no panic");
    // Each is as far ahead of its reader as it may be: more than 64 MB together.
    let window = Parameters::of(&Line::default()).stream_window();
    let bytes = vec![0; usize::try_from(window).expect("it fits")];
    let mut stalled = Vec::new();
    let all = async {
        for _ in 0..54 {
            let mut stream = here.open().await.expect("it is up");
            write_all(&mut stream.sending, &bytes)
                .await
                .expect("it is up");
            stalled.push((stream, there.accept().await.expect("it comes")));
        }
        let mut stream = here.open().await.expect("it is up");
        write_all(&mut stream.sending, b"free")
            .await
            .expect("it is up");
        stream.sending.finish();
        let mut last = there.accept().await.expect("it comes");
        read_all(&mut last.receiving).await
    };
    let read = timeout(Duration::from_secs(60), all).await;
    assert_eq!(
        read.expect("nothing waits for a reader"),
        Ok(b"free".to_vec())
    );
}

#[tokio::test]
async fn a_server_that_was_restarted_says_so_and_is_connected_to_again() {
    let socket = any_port();
    let peer = socket.local_addr().expect("bound");
    let again = socket.try_clone().expect("a descriptor");
    let runtime = std::thread::spawn(move || {
        // A runtime that goes takes the server with it, as the end of its process would.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("threads");
        let server = {
            let _guard = runtime.enter();
            echo(socket)
        };
        (runtime, server)
    });
    let (runtime, server) = runtime.join().expect("no panic");
    let tunnel = connect(peer, &KEY).await.expect("it answers");
    assert_eq!(echoed(&tunnel, b"first").await, Ok(b"first".to_vec()));
    runtime.shutdown_background();
    drop(server);
    let _server = echo(again);
    // Whatever was sent in between is lost; the next packet is answered by a stateless reset.
    let lost = async {
        loop {
            if let Ok(mut stream) = tunnel.open().await {
                let _ = stream
                    .sending
                    .write(b"anybody there, please answer me")
                    .await;
            }
            if let Ok(why) = timeout(Duration::from_millis(200), tunnel.closed()).await {
                return why;
            }
        }
    };
    let why = timeout(Duration::from_secs(20), lost).await.expect("soon");
    assert_eq!(why, Lost::Restarted);
    let tunnel = connect(peer, &KEY).await.expect("it answers again");
    assert_eq!(echoed(&tunnel, b"second").await, Ok(b"second".to_vec()));
}

#[tokio::test]
async fn a_server_that_closes_tells_its_clients() {
    let socket = any_port();
    let peer = socket.local_addr().expect("bound");
    let server = echo(socket);
    let tunnel = connect(peer, &KEY).await.expect("it answers");
    server.close().await;
    assert_eq!(tunnel.closed().await, Lost::ByPeer);
}

#[tokio::test]
async fn nothing_is_sent_at_rest() {
    let socket = any_port();
    let peer = socket.local_addr().expect("bound");
    let _server = echo(socket);
    let tunnel = connect(peer, &KEY).await.expect("it answers");
    assert_eq!(echoed(&tunnel, b"x").await, Ok(b"x".to_vec()));
    // What acknowledges the last packets; then there is nothing left to say.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = tunnel.counts();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(tunnel.counts(), before);
}

#[tokio::test]
async fn a_thousand_streams_at_once_all_get_through() {
    let socket = any_port();
    let peer = socket.local_addr().expect("bound");
    let server = Server::new(&KEY, socket, &Line::default()).expect("it starts");
    let client = tokio::spawn(async move { connect(peer, &KEY).await.expect("it answers") });
    let arriving = server.accept().await.expect("somebody comes");
    let there = arriving.complete().await.expect("it has the key");
    let here = client.await.expect("no panic");
    let accepting = tokio::spawn(async move {
        let mut accepted = Vec::new();
        while accepted.len() < 1_000 {
            accepted.push(there.accept().await.expect("it is up"));
        }
        there
    });
    let mut opened = Vec::new();
    for _ in 0..1_000 {
        let mut stream = here.open().await.expect("it is up");
        stream.sending.write(b"x").await.expect("it is up");
        opened.push(stream);
    }
    let there = accepting.await.expect("no panic");
    assert_eq!(opened.len(), 1_000);
    drop(there);
}
