//! What the rules of the client side make of connections.

use tandem_tunnel::Exception;
use tandem_wire::tls::record::write_records;
use tandem_wire::tls::{
    ClientHelloRepr, ContentType, ExtensionType, HandshakeType, ProtocolVersion, handshake,
};

use tokio::net::TcpSocket;

use super::*;

/// A hello for this name.
fn hello_for(name: &str) -> Vec<u8> {
    let len = u16::try_from(name.len()).expect("short");
    let mut list = (len + 3).to_be_bytes().to_vec();
    list.push(0);
    list.extend(len.to_be_bytes());
    list.extend(name.as_bytes());
    let hello = ClientHelloRepr {
        legacy_version: ProtocolVersion::TLS1_2,
        random: [7; 32],
        session_id: Vec::new(),
        cipher_suites: vec![0xc02f],
        compression_methods: vec![0],
        extensions: Some(vec![(ExtensionType::SERVER_NAME, list)]),
    };
    let (mut body, mut message, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    hello.write(&mut body).expect("it fits");
    handshake::write_message(&mut message, HandshakeType::CLIENT_HELLO, &body).expect("it fits");
    let version = ProtocolVersion::TLS1_0;
    write_records(&mut bytes, ContentType::Handshake, version, &message);
    bytes
}

fn counts(pair: &Pair, names: [&str; 3]) -> [u64; 3] {
    names.map(|name| counter(&pair.client_side.board, name))
}

const COUNTERS: [&str; 3] = [
    "tunnel_relays_closed",
    "relays_direct",
    "relays_refused_by_rule",
];

#[tokio::test(flavor = "multi_thread")]
async fn direct_connections_have_the_same_bytes_and_do_not_use_the_tunnel() {
    let pair = Pair::with_rules(Over::Udp, &["direct to=127.0.0.0/8"]).await;
    let address = echo().await;
    let sent = bytes(1_000_000, 5);
    let client = pair.client_of(address).await;
    assert!(soon(exchanged(client, &sent)).await == sent);
    assert_eq!(counts(&pair, COUNTERS), [0, 1, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_end_of_a_direct_connection_sees_what_the_other_did() {
    let pair = Pair::with_rules(Over::Udp, &["direct"]).await;
    ends_by_itself(&pair).await;
    // A reset.
    let (address, accepted) = one_connection().await;
    let client = pair.client_of(address).await;
    let server = soon(accepted).await;
    server.set_zero_linger().expect("a socket");
    drop(server);
    is_reset(client).await;
    // Nobody there.
    let (address, accepted) = one_connection().await;
    drop(accepted);
    is_reset(pair.client_of(address).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_in_the_hello_decides_and_no_byte_of_it_is_lost() {
    let rules = ["refuse to=*.bad.example", "direct to=near.example"];
    let pair = Pair::with_rules(Over::Udp, &rules).await;
    let address = echo().await;
    for name in ["far.example", "near.example"] {
        let client = pair.client_of(address).await;
        let sent = [hello_for(name), bytes(1_000, 9)].concat();
        assert!(soon(exchanged(client, &sent)).await == sent, "{name}");
    }
    assert_eq!(counts(&pair, COUNTERS), [1, 1, 0]);

    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = server.local_addr().expect("bound");
    let mut client = pair.client_of(address).await;
    // In two pieces: the name is in the second.
    let hello = hello_for("a.bad.example");
    let (front, rest) = hello.split_at(20);
    client.write_all(front).await.expect("it is up");
    tokio::task::yield_now().await;
    client.write_all(rest).await.expect("it is up");
    is_reset(client).await;
    assert_eq!(counts(&pair, COUNTERS), [1, 1, 1]);
    server.set_nonblocking(true).expect("a socket");
    server.accept().expect_err("it heard nothing of that");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_speaks_first_has_no_name_and_is_heard_soon() {
    let pair = Pair::with_rules(Over::Udp, &["refuse to=bad.example"]).await;
    let (address, accepted) = one_connection().await;
    let mut client = pair.client_of(address).await;
    let mut server = soon(accepted).await;
    server.write_all(b"220 ready\r\n").await.expect("it is up");
    let mut greeting = [0; 11];
    soon(client.read_exact(&mut greeting)).await.expect("heard");
    assert_eq!(&greeting, b"220 ready\r\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_ends_while_its_hello_is_awaited_ends_in_order() {
    let pair = Pair::with_rules(Over::Udp, &["refuse to=bad.example"]).await;
    let address = echo().await;
    let client = pair.client_of(address).await;
    assert_eq!(soon(exchanged(client, &[22, 3])).await, [22, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_machines_do_not_reach_this_one_by_a_direct_connection() {
    let pair = Pair::with_rules(Over::Udp, &["direct"]).await;
    let address = echo().await;
    for (from, is_served) in [([127, 0, 0, 1], true), ([192, 0, 2, 1], false)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let near = listener.local_addr().expect("bound");
        let client = TcpStream::connect(near).await.expect("it listens");
        let (stream, _) = listener.accept().await.expect("it came");
        let accepted = Accepted {
            stream,
            target: Target::Address(address),
            client: SocketAddr::from((from, 7)),
            first: b"read before".to_vec(),
            came: Came::Redirected,
        };
        pair.admit(accepted);
        if is_served {
            let sent = b", and after";
            assert_eq!(
                soon(exchanged(client, sent)).await,
                b"read before, and after"
            );
        } else {
            is_reset(client).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_does_not_take_counts_for_its_limit_all_the_same() {
    for over in [Over::Udp, Over::Tcp] {
        counts_untaken(over).await;
    }
}

async fn counts_untaken(over: Over) {
    // Less than a stream's window, and much more than the buffers of the client side.
    let limits = Limits::new(Some(300_000), Vec::new());
    let pair = Pair::with(over, &[], limits).await;
    let (address, accepted) = one_connection().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let near = listener.local_addr().expect("bound");
    let client = TcpSocket::new_v4().expect("a socket");
    client.set_recv_buffer_size(4_096).expect("a socket");
    let client = client.connect(near).await.expect("it listens");
    let (stream, from) = listener.accept().await.expect("it came");
    socket2::SockRef::from(&stream)
        .set_send_buffer_size(4_096)
        .expect("a socket");
    pair.admit(Accepted {
        stream,
        target: Target::Address(address),
        client: from,
        first: Vec::new(),
        came: Came::Asking,
    });
    let mut server = soon(accepted).await;
    let serving = tokio::spawn(async move {
        let piece = [1; 64 * 1024];
        while server.write_all(&piece).await.is_ok() {}
    });
    let board = &pair.client_side.board;
    let has_crossed = async {
        while counter(board, "udp_received_bytes") + counter(board, "tcp_received_bytes")
            < 1_000_000
        {
            tokio::task::yield_now().await;
        }
    };
    soon(has_crossed).await;
    assert_eq!(counter(board, "relays_ended_by_limit"), 0);
    client.set_zero_linger().expect("a socket");
    drop(client);
    soon(serving).await.expect("a reset");
    let other = pair.client_of(echo().await).await;
    is_reset(other).await;
    assert_eq!(counter(board, "relays_refused_by_limit"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reaches_its_limit_is_broken_off_and_refused() {
    let exception = Exception::new("192.0.2.0/24", 1_000_000_000).expect("a network");
    let pair = Pair::with(Over::Udp, &[], Limits::new(Some(500_000), vec![exception])).await;
    let address = echo().await;
    // Both directions count.
    let client = pair.client_of(address).await;
    let sent = bytes(200_000, 3);
    assert!(soon(exchanged(client, &sent)).await == sent);
    let mut client = pair.client_of(address).await;
    let mut buffer = vec![0; 10_000];
    let broken_off = async {
        loop {
            let echoed = async {
                client.write_all(&sent[..10_000]).await?;
                client.read_exact(&mut buffer).await
            };
            if echoed.await.is_err() {
                return;
            }
        }
    };
    soon(broken_off).await;
    let names = [
        "relays_ended_by_limit",
        "relays_refused_by_limit",
        "relays_direct",
    ];
    assert_eq!(counts(&pair, names), [1, 0, 0]);
    is_reset(pair.client_of(address).await).await;
    assert_eq!(counts(&pair, names), [1, 1, 0]);
}
