//! DNS from a client's socket through both sides to a resolver, all in this process. The resolver
//! does what each test wants of it.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{Name, RData, Record, RecordType};
use tandem_tunnel::dns::Clients;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use super::{Pair, counter, soon};
use crate::config::{Dns, DnsServer};
use crate::dns::{Forwarder, Ports};
use crate::transport::Over;

const ID: u16 = 0x7a01;

/// A resolver, and how often it was asked over UDP and TCP.
struct Asked {
    address: SocketAddr,
    udp: Arc<AtomicUsize>,
    tcp: Arc<AtomicUsize>,
}

/// A port that is free for TCP and UDP: what is free for one may be another test's for the other.
async fn one_port_of_both() -> (TcpListener, UdpSocket) {
    loop {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let tcp = tcp.expect("a free port");
        let address = tcp.local_addr().expect("bound");
        if let Ok(udp) = UdpSocket::bind(address).await {
            return (tcp, udp);
        }
    }
}

/// One that gives each name so many addresses; over UDP none but `TC` where they are many. Without
/// a number it says nothing.
async fn resolver(records: Option<u8>) -> Asked {
    let (tcp, udp) = one_port_of_both().await;
    let asked = Asked {
        address: tcp.local_addr().expect("bound"),
        udp: Arc::default(),
        tcp: Arc::default(),
    };
    let (by_udp, by_tcp) = (Arc::clone(&asked.udp), Arc::clone(&asked.tcp));
    tokio::spawn(async move {
        let mut message = [0; 2048];
        while let Ok((length, from)) = udp.recv_from(&mut message).await {
            by_udp.fetch_add(1, Ordering::Relaxed);
            if let Some(records) = records {
                // Late enough for others to ask the same meanwhile.
                tokio::time::sleep(Duration::from_millis(20)).await;
                let reply = answer(&message[..length], records, 20);
                udp.send_to(&reply, from).await.expect("it is there");
            }
        }
    });
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = tcp.accept().await {
            by_tcp.fetch_add(1, Ordering::Relaxed);
            let length = stream.read_u16().await.expect("a question");
            let mut message = vec![0; usize::from(length)];
            stream.read_exact(&mut message).await.expect("a question");
            let reply = answer(&message, records.unwrap_or(0), u8::MAX);
            let length = u16::try_from(reply.len()).expect("short");
            stream.write_u16(length).await.expect("it reads");
            stream.write_all(&reply).await.expect("it reads");
        }
    });
    asked
}

fn answer(question: &[u8], records: u8, max: u8) -> Vec<u8> {
    let question = Message::from_vec(question).expect("a question");
    let name = question.queries[0].name().clone();
    let mut message = Message::response(question.id, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.metadata.recursion_available = true;
    message.add_queries(question.queries);
    if let Some(edns) = question.edns {
        message.set_edns(edns);
    }
    if records > max {
        message.metadata.truncation = true;
    } else {
        message.add_answers(
            (0..records).map(|last| {
                Record::from_rdata(name.clone(), 300, RData::A(A::new(192, 0, 2, last)))
            }),
        );
    }
    message.to_vec().expect("it is short")
}

fn question(name: &str) -> Vec<u8> {
    let mut message = Message::new(ID, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    let name = Name::from_str(name).expect("a name");
    message.add_query(Query::query(name, RecordType::A));
    message.to_vec().expect("it is short")
}

/// Both sides, with a forwarder at this address.
struct Served {
    pair: Pair,
    address: SocketAddr,
}

async fn serve(server: DnsServer) -> Served {
    serve_for(Clients::default(), server).await
}

async fn serve_for(clients: Clients, server: DnsServer) -> Served {
    let pair = Pair::with_resolver(Over::Udp, server).await;
    let address = (Ipv4Addr::LOCALHOST, 0).into();
    let ports = Ports::bind(Dns { address, clients }).expect("a free port");
    let address = ports.address();
    let forwarder = Forwarder::new(Arc::clone(&pair.keeper), Arc::clone(&pair.client_side));
    tokio::spawn(ports.serve(forwarder));
    Served { pair, address }
}

impl Served {
    async fn client(&self) -> UdpSocket {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let socket = socket.expect("a free port");
        socket.connect(self.address).await.expect("loopback");
        socket
    }

    async fn ask(&self, name: &str) -> Message {
        let client = self.client().await;
        client.send(&question(name)).await.expect("it is there");
        reply(&client).await
    }

    fn counts(&self, name: &str) -> u64 {
        counter(&self.pair.client_side.board, name)
    }
}

async fn reply(client: &UdpSocket) -> Message {
    let mut reply = [0; 2048];
    let length = soon(client.recv(&mut reply)).await.expect("a reply");
    let reply = Message::from_vec(&reply[..length]).expect("whole");
    assert_eq!(reply.id, ID);
    reply
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_asked_for_once_by_many_and_then_no_more() {
    let asked = resolver(Some(2)).await;
    let served = serve(DnsServer::At(asked.address)).await;
    let client = served.client().await;
    for name in ["a.test.", "A.TEST.", "a.tesT."] {
        client.send(&question(name)).await.expect("it is there");
    }
    for _ in 0..3 {
        assert_eq!(reply(&client).await.answers.len(), 2);
    }
    assert_eq!(served.ask("a.test.").await.answers.len(), 2);
    assert_eq!(asked.udp.load(Ordering::Relaxed), 1);
    assert_eq!(served.counts("dns_queries"), 4);
    assert_eq!(served.counts("dns_crossed"), 1);
    assert_eq!(served.counts("dns_answered_from_cache"), 1);
    let gauges = served.pair.client_side.board.snapshot().gauges;
    assert_eq!(gauges["dns_cache_answers"], 1);
    let other = &served.pair.server_side.board;
    assert_eq!(counter(other, "dns_resolved"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_answers_come_over_tcp_at_both_ends_and_questions_are_pipelined() {
    let asked = resolver(Some(200)).await;
    let served = serve(DnsServer::At(asked.address)).await;
    let short = served.ask("a.test.").await;
    assert!(short.truncation && short.answers.is_empty());
    let mut stream = TcpStream::connect(served.address).await.expect("it is up");
    for name in ["a.test.", "b.test.", "c.test."] {
        let question = question(name);
        let length = u16::try_from(question.len()).expect("short");
        stream.write_u16(length).await.expect("it reads");
        stream.write_all(&question).await.expect("it reads");
    }
    stream.shutdown().await.expect("it is up");
    let mut names = Vec::new();
    for _ in 0..3 {
        let length = soon(stream.read_u16()).await.expect("a reply");
        let mut reply = vec![0; usize::from(length)];
        soon(stream.read_exact(&mut reply)).await.expect("a reply");
        let reply = Message::from_vec(&reply).expect("whole");
        assert_eq!(reply.answers.len(), 200);
        names.push(reply.queries[0].name().to_string());
    }
    names.sort_unstable();
    assert_eq!(names, ["a.test.", "b.test.", "c.test."]);
    let end = soon(stream.read(&mut [0])).await.expect("the end");
    assert_eq!(end, 0);
    assert_eq!(asked.tcp.load(Ordering::Relaxed), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_answers_the_client_is_told_so() {
    let nobody = Asked {
        address: UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .and_then(|socket| socket.local_addr())
            .expect("a free port"),
        udp: Arc::default(),
        tcp: Arc::default(),
    };
    let silent = resolver(None).await;
    for (server, code) in [
        (DnsServer::At(nobody.address), ResponseCode::ServFail),
        (DnsServer::At(silent.address), ResponseCode::ServFail),
        (DnsServer::Nobody, ResponseCode::Refused),
    ] {
        let served = serve(server).await;
        let reply = served.ask("a.test.").await;
        assert_eq!(reply.response_code, code, "{server:?}");
        assert_eq!(reply.queries.len(), 1);
    }
    assert!(silent.udp.load(Ordering::Relaxed) > 1, "it is asked again");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_client_cannot_take_all_places() {
    let silent = resolver(None).await;
    let served = serve(DnsServer::At(silent.address)).await;
    let greedy = served.client().await;
    // No more at a time than the socket's buffer takes.
    for number in 1..=300 {
        let question = question(&format!("{number}.test."));
        greedy.send(&question).await.expect("it is there");
        let taken = async {
            while served.counts("dns_queries") < number {
                tokio::task::yield_now().await;
            }
        };
        if number % 50 == 0 {
            soon(taken).await;
        }
    }
    for _ in 0..300 - 256 {
        assert_eq!(reply(&greedy).await.response_code, ResponseCode::ServFail);
    }
    assert_eq!(served.counts("dns_overloaded"), 300 - 256);
    // What needs no place is answered as ever.
    let mut refused = question("a.test.");
    let kind = refused.len() - 3;
    refused[kind] = 255;
    greedy.send(&refused).await.expect("it is there");
    assert_eq!(reply(&greedy).await.response_code, ResponseCode::NotImp);
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_gets_no_answer_or_an_error_and_harms_nobody() {
    let asked = resolver(Some(1)).await;
    let served = serve(DnsServer::At(asked.address)).await;
    let client = served.client().await;
    let mut answer = question("a.test.");
    answer[2] |= 0x80;
    for garbage in [&b""[..], b"x", &[0xff; 600], &answer] {
        client.send(garbage).await.expect("it is there");
    }
    let cut = question("a.test.");
    client.send(&cut[..cut.len() - 1]).await.expect("it is up");
    assert_eq!(reply(&client).await.response_code, ResponseCode::FormErr);
    let mut stream = TcpStream::connect(served.address).await.expect("it is up");
    stream.write_all(&[0xff; 9]).await.expect("it reads");
    // The end, or a reset, as something was left unread.
    let _ = soon(stream.read(&mut [0])).await;
    assert_eq!(served.ask("a.test.").await.answers.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_crosses_is_shorter_than_the_messages() {
    let asked = resolver(Some(1)).await;
    let served = serve(DnsServer::At(asked.address)).await;
    let name = "www.a-name-of-some-length.example.";
    let reply = served.ask(name).await.to_vec().expect("short");
    let question = question(name);
    // Header, class, the name's end and one byte of the type; header and question.
    let saved = 12 + 2 + 1 + 1 + question.len();
    // Wishes; state and count.
    let written = 1 + 2;
    let plain = question.len() + reply.len();
    let crossed = usize::try_from(served.counts("dns_link_bytes")).expect("few");
    assert_eq!(crossed, plain - saved + written);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_may_not_ask_gets_no_byte() {
    let asked = resolver(Some(1)).await;
    let others = Clients::of(&["192.0.2.0/24".to_owned()]).expect("a network");
    let served = serve_for(others, DnsServer::At(asked.address)).await;
    let client = served.client().await;
    client.send(&question("a.test.")).await.expect("it is up");
    let mut stream = TcpStream::connect(served.address).await.expect("it is up");
    // The end, or a reset.
    let said = soon(stream.read(&mut [0])).await;
    assert!(matches!(said, Ok(0) | Err(_)), "{said:?}");
    let counted = async {
        while served.counts("dns_not_allowed") < 2 {
            tokio::task::yield_now().await;
        }
    };
    soon(counted).await;
    let silence = client.try_recv(&mut [0; 512]);
    assert_eq!(
        silence.map_err(|error| error.kind()),
        Err(ErrorKind::WouldBlock)
    );
    assert_eq!(served.counts("dns_queries"), 0);
    assert_eq!(asked.udp.load(Ordering::Relaxed), 0);
}
