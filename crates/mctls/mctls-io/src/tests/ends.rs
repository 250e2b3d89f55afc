//! How sessions end: closed, closed one way, cut, given up on; and who is told what.

use std::sync::Arc;
use std::time::Duration;

use mctls::config::{PathMode, Right};
use mctls::error::{Alert, Breach, Misuse, Policy};
use mctls::frame::Frame;
use mctls::party::Position;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::pki::pki;
use super::{
    BODY, HEADERS, PATIENCE, Pair, bytes, client_settings, connect_with, forwards, listen,
    middlebox, pair, received, server, server_settings, server_with, session,
};
use crate::tls::{self, KeyExchange, Tls};
use crate::{Error, Part, Timeouts};

use Right::{None as No, Read};

/// For tests in which nobody answers, so that their length is known.
const SHORT: Timeouts = Timeouts {
    handshake: Duration::from_millis(700),
    idle: Duration::from_millis(300),
};

fn position(number: u8) -> Position {
    Position::new(number).expect("a position")
}

fn is_cut(error: &Error) -> bool {
    let truncated = mctls::Error::Peer(Breach::Truncated);
    matches!(error, Error::Session(error) if *error == truncated) || matches!(error, Error::Io(_))
}

#[tokio::test]
async fn one_direction_closes_while_the_other_goes_on() {
    let mut one = middlebox(1, forwards).await;
    let mut server = server().await;
    let via = [one.address.as_str()];
    let mut pair = pair(&mut server, &via, &[[Read, No]], PathMode::Off).await;
    pair.client
        .sender
        .send(HEADERS, b"all I have")
        .await
        .expect("sent");
    pair.client.sender.close().await.expect("closed");
    assert_eq!(received(&mut pair.server).await.payload, b"all I have");
    for _ in 0..2 {
        assert!(pair.server.receiver.recv().await.expect("an end").is_none());
    }
    let refused = pair.client.sender.send(HEADERS, b"more").await;
    let closed = mctls::Error::Caller(Misuse::Closed);
    assert!(matches!(refused, Err(Error::Session(error)) if error == closed));
    pair.server
        .sender
        .send(BODY, b"a late answer")
        .await
        .expect("sent");
    pair.server.sender.close().await.expect("closed");
    assert_eq!(received(&mut pair.client).await.payload, b"a late answer");
    assert!(pair.client.receiver.recv().await.expect("an end").is_none());
    one.next().await.expect("the middlebox has seen both ends");
}

#[tokio::test]
async fn an_end_without_a_word_is_a_cut() {
    let one = middlebox(1, forwards).await;
    let mut server = server().await;
    let via = [one.address.as_str()];
    let mut pair = pair(&mut server, &via, &[[Read, No]], PathMode::Off).await;
    pair.client
        .sender
        .send(HEADERS, b"the first half")
        .await
        .expect("sent");
    drop(pair.client);
    assert_eq!(received(&mut pair.server).await.payload, b"the first half");
    let error = pair.server.receiver.recv().await.expect_err("it was cut");
    assert!(is_cut(&error), "{error}");
}

#[tokio::test]
async fn an_endpoint_that_aborts_says_why() {
    let one = middlebox(1, forwards).await;
    let mut server = server().await;
    let via = [one.address.as_str()];
    let mut pair = pair(&mut server, &via, &[[Read, No]], PathMode::Off).await;
    pair.client.sender.abort(Alert::AccessDenied).await;
    let told = pair.server.receiver.recv().await;
    let ended = mctls::Error::Policy(Policy::PeerAlert(Alert::AccessDenied));
    assert!(matches!(told, Err(Error::Session(error)) if error == ended));
}

#[tokio::test]
async fn a_middlebox_that_vanishes_ends_the_session_at_both_ends() {
    let one = middlebox(1, forwards).await;
    let mut server = server().await;
    let via = [one.address.as_str()];
    let mut pair = pair(&mut server, &via, &[[Read, No]], PathMode::Off).await;
    drop(one);
    for session in [&mut pair.client, &mut pair.server] {
        let error = session.receiver.recv().await.expect_err("it was cut");
        assert!(is_cut(&error), "{error}");
    }
}

/// A hop that lets so many bytes through from the server's side, and then is gone.
async fn dying(to: String, bytes: u64) -> super::Task<()> {
    listen(move |stream: TcpStream| {
        let to = to.clone();
        async move {
            let server = TcpStream::connect(to).await.expect("the next hop");
            let (mut from_client, mut to_client) = stream.into_split();
            let (from_server, mut to_server) = server.into_split();
            let mut limited = from_server.take(bytes);
            tokio::select! {
                _ = tokio::io::copy(&mut limited, &mut to_client) => {}
                _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_path_that_dies_in_any_phase_of_the_handshake_is_an_error_at_once() {
    let one = middlebox(1, forwards).await;
    let mut failed = 0;
    for bytes in (0..).step_by(300) {
        let mut server = server().await;
        let (near, far) = (
            dying(one.address.clone(), bytes).await,
            dying(server.address.clone(), bytes).await,
        );
        let ways = [
            (&near.address, &server.address),
            (&one.address, &far.address),
        ];
        for (via, to) in ways {
            let settings = client_settings(&[via], &[[Read, No]], PathMode::Off);
            match connect_with(settings, to).await {
                Ok(_) => {
                    // Every byte of a whole handshake was let through.
                    assert!(failed > 10, "{bytes} bytes were enough");
                    return;
                }
                Err(error) => assert!(!matches!(error, Error::TimedOut(..)), "{error}"),
            }
            failed += 1;
        }
        while let Ok(told) = server.results.try_recv() {
            // Its last flight may be what was lost: then its session has begun, and is cut.
            if told.is_ok() {
                let error = session(told).receiver.recv().await;
                let error = error.expect_err("the client has given up");
                assert!(!matches!(error, Error::TimedOut(..)), "{error}");
            }
        }
    }
}

/// Accepts connections and says nothing.
async fn silent() -> super::Task<()> {
    listen(|mut stream: TcpStream| async move {
        let mut sink = vec![0; 1 << 14];
        while stream.read(&mut sink).await.is_ok_and(|length| length > 0) {}
    })
    .await
}

#[tokio::test]
async fn a_middlebox_that_says_nothing_is_named_in_time() {
    let one = middlebox(1, forwards).await;
    let two = silent().await;
    let server = server().await;
    let via = [one.address.as_str(), two.address.as_str()];
    let mut settings = client_settings(&via, &[[Read, No], [Read, No]], PathMode::Off);
    settings.timeouts = SHORT;
    let error = connect_with(settings, &server.address).await;
    let error = error.expect_err("nobody answers");
    let Error::TimedOut(part, within) = error else {
        panic!("{error}");
    };
    assert_eq!((part, within), (Part::Leg(position(2)), SHORT.handshake));
}

#[tokio::test]
async fn a_server_that_says_nothing_is_named_in_time() {
    let one = middlebox(1, forwards).await;
    let server = silent().await;
    let mut settings = client_settings(&[&one.address], &[[Read, No]], PathMode::Off);
    settings.timeouts = SHORT;
    let error = connect_with(settings, &server.address).await;
    let error = error.expect_err("nobody answers");
    assert!(
        matches!(error, Error::TimedOut(Part::EndToEnd, _)),
        "{error}"
    );
}

#[tokio::test]
async fn a_client_that_says_nothing_does_not_keep_a_server() {
    let mut settings = server_settings();
    settings.timeouts = SHORT;
    let mut server = server_with(settings).await;
    let _idle = TcpStream::connect(&server.address)
        .await
        .expect("connected");
    let error = server.next().await.expect_err("nobody asks");
    assert!(
        matches!(error, Error::TimedOut(Part::EndToEnd, _)),
        "{error}"
    );
}

#[tokio::test]
async fn a_pause_longer_than_permitted_ends_a_session() {
    let mut settings = server_settings();
    settings.timeouts.idle = SHORT.idle;
    let mut server = server_with(settings).await;
    let mut pair = pair(&mut server, &[], &[], PathMode::Off).await;
    let error = pair.server.receiver.recv().await.expect_err("a pause");
    assert!(
        matches!(error, Error::TimedOut(Part::EndToEnd, _)),
        "{error}"
    );
}

#[tokio::test]
async fn a_plain_passage_is_not_kept_for_ever_by_a_byte_now_and_then() {
    let mut one = middlebox(1, forwards).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let server = listener.local_addr().expect("an address").to_string();
    let mut stream = TcpStream::connect(&one.address).await.expect("connected");
    // A handshake record of a byte.
    let record = [22, 3, 1, 0, 1, 0];
    let route = bytes(&Frame::Route(vec![server]));
    let opening = [&route[..], &record].concat();
    stream.write_all(&opening).await.expect("sent");
    let (mut server, _) = listener.accept().await.expect("the middlebox");
    server.read_exact(&mut [0; 6]).await.expect("passed on");
    // From here on waiting takes no time, and what waits for a byte sees it first.
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    let trickle = async {
        while stream.write_all(&record).await.is_ok() {
            let _ = server.read_exact(&mut [0; 6]).await;
            tokio::time::sleep(PATIENCE.idle / 4).await;
        }
    };
    tokio::select! {
        () = trickle => {}
        () = tokio::time::sleep(200 * PATIENCE.idle) => panic!("it is still kept"),
    }
    let error = one.next().await.expect_err("it is given up");
    let most = 60 * PATIENCE.idle;
    assert!(
        matches!(error, Error::TimedOut(_, within) if within == most),
        "{error}"
    );
    assert!(start.elapsed() < most + PATIENCE.idle);
}

#[tokio::test]
async fn nobody_at_the_next_hop_is_an_error_at_once() {
    let mut one = middlebox(1, forwards).await;
    let gone = silent().await.address.clone();
    let settings = client_settings(&[&one.address], &[[Read, No]], PathMode::Off);
    let error = connect_with(settings, &gone)
        .await
        .expect_err("nobody is there");
    assert!(is_cut(&error), "{error}");
    assert!(matches!(one.next().await, Err(Error::Io(_))));
}

#[tokio::test]
async fn a_reader_that_does_not_read_holds_the_sender_up() {
    let one = middlebox(1, forwards).await;
    let mut server = server().await;
    let via = [one.address.as_str()];
    let pair = pair(&mut server, &via, &[[Read, Read]], PathMode::Off).await;
    let (mut sender, mut receiver) = (pair.client.sender, pair.server.receiver);
    // More than the buffers of four sockets and a middlebox hold.
    let data = vec![7; 64 << 20];
    let length = data.len();
    let mut sending = tokio::spawn(async move {
        sender.send(BODY, &data).await.expect("sent");
        sender.close().await.expect("closed");
    });
    let early = tokio::time::timeout(Duration::from_secs(1), &mut sending).await;
    assert!(
        early.is_err(),
        "64 MiB were taken in though nobody read them"
    );
    let mut arrived = 0;
    while let Some(delivery) = receiver.recv().await.expect("nothing is wrong") {
        arrived += delivery.payload.len();
    }
    assert_eq!(arrived, length);
    sending.await.expect("the sender is well");
}

/// A session whose client waits for its hop as long as it says, and whose server reads nothing yet;
/// and more data than the buffers between them hold.
async fn clogged(idle: Duration) -> (Pair, Vec<u8>) {
    let mut server = server().await;
    let mut settings = client_settings(&[], &[], PathMode::Off);
    settings.timeouts.idle = idle;
    let client = connect_with(settings, &server.address.clone()).await;
    let pair = Pair {
        client: session(client),
        server: session(server.next().await),
    };
    (pair, vec![7; 64 << 20])
}

/// What arrives until something is wrong.
async fn until_error(receiver: &mut crate::SessionReceiver) -> (usize, Error) {
    let mut arrived = 0;
    loop {
        match receiver.recv().await {
            Ok(Some(delivery)) => {
                assert!(delivery.payload.iter().all(|byte| *byte == 7));
                arrived += delivery.payload.len();
            }
            Ok(None) => panic!("nobody has closed"),
            Err(error) => return (arrived, error),
        }
    }
}

#[tokio::test]
async fn a_send_that_is_dropped_half_way_tears_no_record() {
    let (pair, data) = clogged(Duration::from_secs(20)).await;
    let (mut sender, mut receiver) = (pair.client.sender, pair.server.receiver);
    let dropped = tokio::time::timeout(Duration::from_millis(500), sender.send(BODY, &data)).await;
    assert!(dropped.is_err(), "64 MiB were taken in though nobody read");
    for _ in 0..2 {
        let refused = sender.send(BODY, b"more").await;
        assert!(matches!(refused, Err(Error::Interrupted)));
    }
    assert!(matches!(sender.close().await, Err(Error::Interrupted)));
    let aborting = tokio::spawn(async move { sender.abort(Alert::AccessDenied).await });
    let (arrived, error) = until_error(&mut receiver).await;
    let ended = mctls::Error::Policy(Policy::PeerAlert(Alert::AccessDenied));
    assert!(
        matches!(&error, Error::Session(error) if *error == ended),
        "{error}"
    );
    assert!(arrived < data.len());
    aborting.await.expect("the sender is well");
}

#[tokio::test]
async fn a_send_that_timed_out_is_followed_by_nothing() {
    let (mut pair, data) = clogged(SHORT.idle).await;
    let late = pair.client.sender.send(BODY, &data).await;
    assert!(matches!(late, Err(Error::TimedOut(Part::NextHop, _))));
    let refused = pair.client.sender.send(BODY, b"more").await;
    assert!(matches!(refused, Err(Error::Interrupted)));
    // Not even where the hop takes something again.
    let (arrived, error) = tokio::join!(
        pair.client.sender.abort(Alert::AccessDenied),
        until_error(&mut pair.server.receiver)
    )
    .1;
    assert!(is_cut(&error), "{error}");
    assert!(arrived < data.len());
}

#[test]
fn what_comes_behind_a_close_is_let_be() {
    let pki = pki();
    let client = tls::client(pki.roots(), &[], KeyExchange::Classical).expect("a configuration");
    let server = tls::server(&pki.server(), &[]).expect("a configuration");
    let name = ServerName::try_from("server.test").expect("a name");
    let mut client = Tls::client(&Arc::new(client), name, Part::EndToEnd).expect("a session");
    let mut server = Tls::server(&Arc::new(server), Part::EndToEnd).expect("a session");
    let mut data = Vec::new();
    for _ in 0..3 {
        let (mut there, mut back) = (Vec::new(), Vec::new());
        client.take(&mut there).expect("bytes");
        server.feed(&there, &mut data).expect("a handshake");
        server.take(&mut back).expect("bytes");
        client.feed(&back, &mut data).expect("a handshake");
    }
    assert!(client.is_ready() && server.is_ready());
    client.send(b"last").expect("room");
    client.close();
    let mut bytes = Vec::new();
    client.take(&mut bytes).expect("bytes");
    bytes.extend_from_slice(&[23, 3, 3, 0, 1, 0]);
    // In one piece, and the rest in another.
    server.feed(&bytes, &mut data).expect("an end");
    server.feed(&[0; 100], &mut data).expect("an end");
    assert!(server.is_closed());
    assert_eq!(data, b"last");
}
