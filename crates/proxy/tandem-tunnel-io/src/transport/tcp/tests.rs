//! Both ends of the transport on one machine.

use super::*;
use crate::transport::quic;
use crate::transport::testing::{read_all, write_all};
use tandem_daemon::door::Door;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::time::sleep;

const KEY: [u8; 32] = [7; 32];
const OTHER_KEY: [u8; 32] = [8; 32];

/// Nothing here takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("in time")
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    (listener, address)
}

fn server(line: &Line) -> Server {
    Server::new(&KEY, HashSet::new(), line, &quic::expected(line)).expect("it starts")
}

impl Server {
    /// At a door where there is room.
    async fn complete(&self, stream: TcpStream) -> Result<Tcp, Lost> {
        let from = stream.peer_addr().expect("it came").ip();
        let door = Door::new(64, PATIENCE, Arc::default());
        let place = door.enter(from).expect("room");
        self.complete_in(stream, &place).await
    }
}

fn client(key: &[u8; 32], peer: SocketAddr, line: &Line) -> Client {
    Client::new(key, peer, line, &quic::expected(line)).expect("it starts")
}

/// Both ends of a tunnel.
async fn pair_over(line: Line) -> [Tcp; 2] {
    let (listener, address) = listener().await;
    let (client, server) = (client(&KEY, address, &line), server(&line));
    let accepting = async {
        let (stream, _) = listener.accept().await.expect("it comes");
        server.complete(stream).await.expect("a handshake")
    };
    let (near, far) = soon(async { tokio::join!(client.connect(), accepting) }).await;
    [near.expect("a handshake"), far]
}

async fn pair() -> [Tcp; 2] {
    pair_over(Line::default()).await
}

async fn read_exactly(receiving: &mut In, len: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < len {
        all.extend(receiving.read().await.expect("it goes on").expect("more"));
    }
    all
}

/// A stream that both ends have.
async fn stream(near: &Tcp, far: &Tcp) -> [Stream<Out, In>; 2] {
    let mut opened = near.open().await.expect("open");
    write_all(&mut opened.sending, b"x").await.expect("open");
    let mut accepted = soon(far.accept()).await.expect("it comes");
    assert_eq!(read_exactly(&mut accepted.receiving, 1).await, b"x");
    [opened, accepted]
}

#[tokio::test]
async fn a_handshake_and_a_short_exchange_take_few_bytes() {
    let [near, far] = pair().await;
    let [mut opened, mut accepted] = stream(&near, &far).await;
    let before = [near.counts(), far.counts()];
    write_all(&mut accepted.sending, b"y").await.expect("open");
    assert_eq!(read_exactly(&mut opened.receiving, 1).await, b"y");
    println!("handshake and one byte: {before:?}");
    assert!(before[0].sent_bytes < 1_900, "{before:?}");
    assert!(before[1].sent_bytes < 1_600, "{before:?}");
    // A TLS record and the frame's head.
    let sent = far.counts().sent_bytes - before[1].sent_bytes;
    assert_eq!(sent, 22 + 2 + 1);
    opened.sending.finish();
    accepted.sending.finish();
    assert_eq!(soon(accepted.receiving.read()).await, Ok(None));
    assert_eq!(soon(opened.receiving.read()).await, Ok(None));
}

#[tokio::test]
async fn at_rest_nothing_is_sent() {
    let [near, far] = pair().await;
    let _stream = stream(&near, &far).await;
    // The kernel's last acknowledgement may be 40 ms late.
    sleep(Duration::from_millis(300)).await;
    let before = (near.counts(), far.counts());
    sleep(Duration::from_secs(2)).await;
    assert_eq!((near.counts(), far.counts()), before);
}

#[tokio::test]
async fn much_crosses_both_ways_as_it_is() {
    let [near, far] = pair().await;
    let sent: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let mut opened = near.open().await.expect("open");
    let echo = async {
        let mut stream = far.accept().await.expect("it comes");
        while let Some(piece) = stream.receiving.read().await.expect("it goes on") {
            write_all(&mut stream.sending, &piece).await.expect("open");
        }
        stream.sending.finish();
    };
    let send = async {
        write_all(&mut opened.sending, &sent).await.expect("open");
        opened.sending.finish();
    };
    let back = read_all(&mut opened.receiving);
    let (back, (), ()) = soon(async { tokio::join!(back, send, echo) }).await;
    assert!(back.expect("all of it") == sent);
}

#[tokio::test]
async fn codes_reach_the_other_side_both_ways() {
    let [near, far] = pair().await;
    let [mut opened, mut accepted] = stream(&near, &far).await;
    opened.sending.reset(11);
    assert_eq!(
        soon(accepted.receiving.read()).await,
        Err(Broken::ByPeer(11))
    );
    let stopped = accepted.sending.stopped();
    opened.receiving.stop(12);
    assert_eq!(soon(stopped).await, Some(Broken::ByPeer(12)));
    assert_eq!(accepted.sending.write(b"x").await, Err(Broken::ByPeer(12)));
    let [mut opened, mut accepted] = stream(&near, &far).await;
    accepted.sending.reset(13);
    accepted.receiving.stop(14);
    assert_eq!(soon(opened.receiving.read()).await, Err(Broken::ByPeer(13)));
    assert_eq!(
        soon(opened.sending.stopped()).await,
        Some(Broken::ByPeer(14))
    );
}

#[tokio::test]
async fn the_end_of_a_tunnel_is_told_to_whoever_waits() {
    let [near, far] = pair().await;
    let [mut opened, _accepted] = stream(&near, &far).await;
    let waiting = tokio::spawn(async move { opened.receiving.read().await });
    far.close();
    assert_eq!(soon(near.closed()).await, Lost::ByPeer);
    assert_eq!(soon(far.closed()).await, Lost::Here);
    assert_eq!(soon(waiting).await.expect("no panic"), Err(Broken::Lost));
    assert!(near.open().await.is_err());
}

#[tokio::test]
async fn a_tunnel_without_users_is_closed() {
    let [near, far] = pair().await;
    drop(near);
    assert_eq!(soon(far.closed()).await, Lost::ByPeer);
}

#[tokio::test]
async fn a_connection_that_is_cut_counts_as_a_restart() {
    let (listener, address) = listener().await;
    let line = Line::default();
    let (client, server) = (client(&KEY, address, &line), server(&line));
    let accepting = async {
        let (stream, _) = listener.accept().await.expect("it comes");
        // As the kernel ends it for a process that is killed.
        let cut = socket2::SockRef::from(&stream)
            .try_clone()
            .expect("one more");
        let tunnel = server.complete(stream).await.expect("a handshake");
        cut.shutdown(std::net::Shutdown::Both).expect("it is up");
        tunnel
    };
    let (near, _far) = soon(async { tokio::join!(client.connect(), accepting) }).await;
    let near = near.expect("a handshake");
    assert_eq!(soon(near.closed()).await, Lost::Restarted);
}

#[tokio::test]
async fn another_key_is_refused_by_both_ends() {
    let (listener, address) = listener().await;
    let line = Line::default();
    let (client, server) = (client(&OTHER_KEY, address, &line), server(&line));
    let accepting = async {
        let (stream, _) = listener.accept().await.expect("it comes");
        server.complete(stream).await.map(|_| ())
    };
    let (near, far) = soon(async { tokio::join!(client.connect(), accepting) }).await;
    let refused = |why| matches!(why, Some(Lost::Foreign(_)));
    assert!(refused(near.err()) && refused(far.err()));
}

#[tokio::test]
async fn who_knows_the_server_sides_key_and_has_none_of_the_pair_is_refused() {
    let (listener, address) = listener().await;
    let line = Line::default();
    let known = key(&KEY, End::Server).expect("a key").name();
    let own = ChannelKey::fleeting().expect("a key");
    let stranger = Client {
        connector: Connector::new(PROTOCOL, &own, Pin::to(known)).expect("it starts"),
        ..client(&KEY, address, &line)
    };
    let server = server(&line);
    let accepting = async {
        let (stream, _) = listener.accept().await.expect("it comes");
        server.complete(stream).await.map(|_| ())
    };
    let (_, far) = soon(async { tokio::join!(stranger.connect(), accepting) }).await;
    assert!(matches!(far, Err(Lost::Foreign(_))), "{far:?}");
}

#[tokio::test]
async fn somebody_else_behind_the_port_is_refused_in_words() {
    let (listener, address) = listener().await;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 302 Found\r\n\r\n").await;
        }
    });
    let why = soon(client(&KEY, address, &Line::default()).connect()).await;
    let why = why.expect_err("no proxy").to_string();
    assert!(why.contains("is not the other side"), "{why}");
    assert!(why.contains("captive portal"), "{why}");
}

#[tokio::test]
async fn a_request_in_clear_is_refused() {
    let (listener, address) = listener().await;
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let sent = stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    sent.await.expect("it is up");
    let (accepted, _) = listener.accept().await.expect("it came");
    let why = soon(server(&Line::default()).complete(accepted)).await;
    assert!(matches!(why, Err(Lost::Foreign(_))));
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_is_given_up() {
    let (listener, address) = listener().await;
    let _stream = TcpStream::connect(address).await.expect("it listens");
    let (accepted, _) = listener.accept().await.expect("it came");
    let why = server(&Line::default()).complete(accepted).await;
    assert!(matches!(why, Err(Lost::Silent)));
}

#[tokio::test]
async fn a_reader_that_stops_holds_up_no_other_stream() {
    let [near, far] = pair().await;
    let mut stalled = Vec::new();
    for _ in 0..3 {
        let [opened, mut accepted] = stream(&near, &far).await;
        let mut taken = 0;
        let piece = [0; 64 * 1024];
        while let Ok(len) = timeout(Duration::from_secs(1), accepted.sending.write(&piece)).await {
            taken += len.expect("open");
            assert!(taken < 16_000_000, "no bound");
        }
        stalled.push([opened, accepted]);
    }
    let [mut opened, mut accepted] = stream(&near, &far).await;
    let sent = vec![1; 500_000];
    let send = async {
        write_all(&mut accepted.sending, &sent).await.expect("open");
        accepted.sending.finish();
    };
    let (all, ()) = soon(async { tokio::join!(read_all(&mut opened.receiving), send) }).await;
    assert!(all.expect("all of it") == sent);
}

#[tokio::test]
async fn a_short_answer_passes_a_download() {
    let line = Line {
        rate: Some(64_000),
        round_trip: None,
    };
    let [near, far] = pair_over(line).await;
    let [mut bulk_near, mut bulk_far] = stream(&near, &far).await;
    bulk_far.sending.lower_priority();
    let download = tokio::spawn(async move {
        let _ = write_all(&mut bulk_far.sending, &vec![0; 4_000_000]).await;
        bulk_far.sending.finish();
    });
    let [mut opened, mut accepted] = stream(&near, &far).await;
    write_all(&mut accepted.sending, &[1; 2_000])
        .await
        .expect("open");
    assert_eq!(
        soon(read_exactly(&mut opened.receiving, 2_000)).await,
        [1; 2_000]
    );
    // The download has not ended before it.
    assert!(!download.is_finished());
    let all = soon(read_exactly(&mut bulk_near.receiving, 4_000_000)).await;
    assert_eq!(all.len(), 4_000_000);
}

#[tokio::test]
async fn records_follow_the_rate_within_bounds() {
    let record = |rate| {
        let line = Line {
            rate,
            round_trip: None,
        };
        Settings::of(&line, &quic::expected(&line)).record
    };
    assert_eq!(record(None), 4_096);
    assert_eq!(record(Some(2_400)), 1_200);
    assert_eq!(record(Some(400_000)), 5_000);
    assert_eq!(record(Some(1_000_000_000)), 16_000);
}
