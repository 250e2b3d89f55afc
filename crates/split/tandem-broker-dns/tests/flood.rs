//! Who sends rubbish, or asks in somebody else's name: the server stays, and says little.

mod common;

use std::time::Duration;

use common::{SITE, Server, until};
use hickory_proto::op::{Edns, Message, Query};
use hickory_proto::rr::{Name, RecordType};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tokio::time::timeout;

fn query() -> Vec<u8> {
    let mut message = Message::query();
    let name = Name::from_ascii(format!("{SITE}.")).expect("a name");
    message.add_query(Query::query(name, RecordType::AAAA));
    let mut edns = Edns::new();
    edns.set_max_payload(4096);
    edns.set_dnssec_ok(true);
    message.set_edns(edns);
    message.to_vec().expect("small")
}

async fn client(server: &Server) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("loopback");
    socket.connect(server.address).await.expect("loopback");
    socket
}

#[tokio::test(flavor = "multi_thread")]
async fn rubbish_over_udp_leaves_it_well() {
    let server = Server::start(&["192.0.2.1"]).await;
    let socket = client(&server).await;
    let good = query();
    let strategy = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..1500),
        // Almost right, which gets furthest.
        (any::<prop::sample::Index>(), any::<u8>()).prop_map(move |(at, value)| {
            let mut bytes = good.clone();
            let at = at.index(bytes.len());
            bytes[at] = value;
            bytes
        }),
    ];
    let mut runner = TestRunner::default();
    for _ in 0..500 {
        let tree = strategy.new_tree(&mut runner).expect("a value");
        socket.send(&tree.current()).await.expect("loopback");
    }
    // What is over the limit is answered over TCP; either way it is still there.
    until("it answers", async || {
        server.short(&format!("A {SITE}")).await == ["192.0.2.1"]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_gets_few_bytes_back_and_honest_clients_are_sent_to_tcp() {
    let all: Vec<String> = (1..=8).map(|last| format!("2001:db8::{last}")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let server = Server::start(&all).await;
    let socket = client(&server).await;
    let query = query();
    let (mut received, mut whole, mut cut) = (0, 0_u32, 0_u32);
    let mut answer = [0; 4096];
    let asked = 1000;
    let start = std::time::Instant::now();
    for _ in 0..asked {
        socket.send(&query).await.expect("loopback");
        // One at a time, so that none is lost on the way; a question that is dropped has no answer.
        if let Ok(length) = timeout(Duration::from_millis(5), socket.recv(&mut answer)).await {
            received += length.expect("loopback");
            if answer[2] & 0x02 == 0 {
                whole += 1;
            } else {
                cut += 1;
            }
        }
    }
    let seconds = start.elapsed().as_secs() as usize + 1;
    let budget = 16 * 1024 * (4 + seconds);
    assert!(
        received <= budget + query.len() * cut as usize,
        "{received} bytes in {seconds} s"
    );
    assert!(whole > 50 && cut > 100, "{whole} whole, {cut} cut");
    assert!(
        received < query.len() * asked * 4,
        "{received} bytes for {}",
        query.len() * asked
    );
    let text = server.dig(&format!("+dnssec AAAA {SITE}")).await;
    assert!(text.contains("ANSWER: 9"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_bounded_and_come_free_again() {
    let server = Server::start(&["192.0.2.1"]).await;
    let mut idle = Vec::new();
    for _ in 0..40 {
        idle.push(TcpStream::connect(server.address).await.expect("loopback"));
    }
    // One network may have sixteen, the newest.
    for stream in &mut idle[..24] {
        let ended = timeout(common::PATIENCE, stream.read(&mut [0])).await;
        assert!(matches!(ended, Ok(Ok(0) | Err(_))), "{ended:?}");
    }
    let query = query();
    let mut served = 0;
    for stream in &mut idle {
        let length = u16::try_from(query.len()).expect("small");
        let sent = stream
            .write_all(&[&length.to_be_bytes()[..], &query].concat())
            .await;
        let answered = timeout(common::PATIENCE, stream.read_u16())
            .await
            .expect("closed or answered");
        served += u32::from(sent.is_ok() && answered.is_ok());
    }
    assert_eq!(served, 16, "as many as one network may have");
    drop(idle);
    until("there is room again", async || {
        server.short(&format!("+tcp A {SITE}")).await == ["192.0.2.1"]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_again_and_again_from_one_network_keeps_no_other_out() {
    let server = Server::start(&["192.0.2.1"]).await;
    let query = query();
    let length = u16::try_from(query.len()).expect("small");
    let framed = [&length.to_be_bytes()[..], &query].concat();
    let mut crowd = Vec::new();
    // As many as there are connections, from a /16.
    for household in 0..16 {
        for _ in 0..16 {
            let socket = TcpSocket::new_v4().expect("a descriptor");
            let from = format!("127.1.{household}.1:0").parse();
            socket.bind(from.expect("an address")).expect("loopback");
            let mut stream = socket.connect(server.address).await.expect("loopback");
            if stream.write_all(&framed).await.is_ok() {
                crowd.push(stream);
            }
        }
    }
    assert_eq!(server.short(&format!("+tcp A {SITE}")).await, ["192.0.2.1"]);
    let looks = crowd.into_iter().map(|mut stream| {
        tokio::spawn(async move {
            let mut answer = [0; 2];
            let is_answered = timeout(common::PATIENCE, stream.read_exact(&mut answer)).await;
            assert!(is_answered.is_ok(), "closed or answered");
            // What is left is open; no more is said on it.
            let mut rest = Vec::new();
            let look = Duration::from_secs(1);
            let is_left = timeout(look, stream.read_to_end(&mut rest)).await.is_err();
            u32::from(is_left)
        })
    });
    let mut left = 0;
    for look in looks.collect::<Vec<_>>() {
        left += look.await.expect("no panic");
    }
    assert!(left <= 32, "{left}");
}
