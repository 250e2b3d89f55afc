//! Legs: when they are taken, which, and what their TLS sessions have to be.

use std::sync::Arc;
use std::time::Duration;

use mctls::config::{PathMode, Right};
use mctls::error::{Alert, Breach, Policy};
use mctls::frame::{Frame, Frames, LegFrame};
use mctls::message::Message;
use mctls::party::{Endpoint, Position};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc::unbounded_channel;

use super::pki::pki;
use super::{
    HEADERS, Interference, bytes, client_settings, connect_with, forwards, interferer, listen,
    middlebox, server, server_settings, server_with, session,
};
use crate::tls::{self, KeyExchange, Tls};
use crate::{Error, Part};

use Right::{None as No, Read};

fn leg(endpoint: Endpoint, distance: u8, bytes: &[u8]) -> Vec<u8> {
    super::bytes(&Frame::Leg(LegFrame {
        endpoint,
        distance: Position::new(distance).expect("a position"),
        bytes,
    }))
}

fn empty_leg(endpoint: Endpoint, distance: u8) -> Vec<u8> {
    leg(endpoint, distance, &[])
}

/// A leg frame where none is due.
fn is_unexpected(error: &Error) -> bool {
    let breach = mctls::Error::Peer(Breach::Unexpected(0xb0));
    matches!(error, Error::Session(error) if *error == breach)
}

/// An empty frame behind each of those that make up the server's leg: hello, certificate and bind,
/// which may be one, and confirm. By it nobody gets another number.
#[tokio::test]
async fn a_leg_too_many_ends_the_handshake_in_every_phase() {
    for behind in 1..=3 {
        let mut server = server().await;
        let (hop, _injector) = interferer(server.address.clone(), move || -> Interference {
            let mut legs = 0;
            Box::new(move |frame| match frame {
                Frame::Leg(_) => {
                    legs += 1;
                    let mut frames = vec![bytes(frame)];
                    if legs == behind {
                        frames.push(empty_leg(Endpoint::Server, 2));
                    }
                    frames
                }
                Frame::Tls(_)
                | Frame::Record(_)
                | Frame::Announce
                | Frame::Route(_)
                | Frame::Short(_)
                | Frame::Holds(_) => {
                    vec![bytes(frame)]
                }
            })
        })
        .await;
        let one = middlebox(1, forwards).await;
        let settings = client_settings(&[&one.address], &[[Read, No]], PathMode::Off);
        // The client may be ready before the server gives up.
        let _client = connect_with(settings, &hop.address).await;
        let error = server.next().await.expect_err("a leg too many");
        let count = mctls::Error::Peer(Breach::Count {
            expected: 1,
            found: 2,
        });
        let early = matches!(&error, Error::Session(error) if *error == count);
        assert!(early || is_unexpected(&error), "behind {behind}: {error}");
    }
}

#[tokio::test]
async fn a_server_takes_no_leg_before_it_has_chosen_the_protocol() {
    let mut server = server().await;
    let mut stream = TcpStream::connect(&server.address)
        .await
        .expect("connected");
    let early = empty_leg(Endpoint::Server, 16);
    stream.write_all(&early).await.expect("written");
    let error = server.next().await.expect_err("no leg is due");
    assert!(is_unexpected(&error), "{error}");
}

#[tokio::test]
async fn a_server_that_has_announced_nothing_is_sent_no_leg() {
    for (endpoint, distance) in [(Endpoint::Client, 2), (Endpoint::Server, 1)] {
        let mut plain = listen(|mut stream: TcpStream| async move {
            let mut all = Vec::new();
            // A connection that is reset has not said more than this.
            let _ = stream.read_to_end(&mut all).await;
            all
        })
        .await;
        let mut one = middlebox(1, forwards).await;
        let mut stream = TcpStream::connect(&one.address).await.expect("connected");
        let mut said = bytes(&Frame::Route(vec![plain.address.clone()]));
        said.extend(empty_leg(endpoint, distance));
        stream.write_all(&said).await.expect("written");
        let error = one.next().await.expect_err("no leg is due");
        assert!(is_unexpected(&error), "{error}");
        assert_eq!(plain.next().await, b"");
    }
}

#[tokio::test]
async fn a_leg_of_the_other_endpoint_ends_a_session() {
    let mut server = server().await;
    let pass = || -> Interference { Box::new(|frame| vec![bytes(frame)]) };
    let (hop, injector) = interferer(server.address.clone(), pass).await;
    let one = middlebox(1, forwards).await;
    let settings = client_settings(&[&one.address], &[[Read, No]], PathMode::Off);
    let mut client = session(connect_with(settings, &hop.address).await);
    let mut served = session(server.next().await);
    injector
        .send(empty_leg(Endpoint::Client, 1))
        .expect("the hop is there");
    let error = served.receiver.recv().await.expect_err("no leg of its own");
    assert!(is_unexpected(&error), "{error}");
    client.sender.send(HEADERS, b"data").await.expect("sent");
    let again = served.receiver.recv().await.expect_err("it stays");
    assert!(is_unexpected(&again), "{again}");
}

/// A leg frame whose last TLS record has the length of a digest in a message: bind, or confirm.
fn says_a_digest(bytes: &[u8]) -> bool {
    let last = bytes.len().checked_sub(5 + 3 + 32 + 1 + 16);
    last.is_some_and(|last| bytes[last..].starts_with(&[0x17, 3, 3, 0, 52]))
}

#[tokio::test]
async fn a_middlebox_keeps_its_proof_for_the_server_until_the_client_is_ready() {
    for is_ready in [false, true] {
        let mut settings = server_settings();
        settings.timeouts.handshake = Duration::from_secs(2);
        let mut server = server_with(settings).await;
        let (said, mut digests) = unbounded_channel();
        let (behind, _injector) = interferer(server.address.clone(), move || -> Interference {
            let said = said.clone();
            Box::new(move |frame| {
                if let Frame::Leg(leg) = frame
                    && says_a_digest(leg.bytes)
                {
                    // The test has seen enough where nobody listens.
                    let _ = said.send(());
                }
                vec![bytes(frame)]
            })
        })
        .await;
        let one = middlebox(1, forwards).await;
        // The client's leg: hello, what it says with its offer, and that it is ready.
        let (before, _injector) = interferer(one.address.clone(), move || -> Interference {
            Box::new(move |frame| {
                let is_last = matches!(frame, Frame::Leg(LegFrame { bytes, .. })
                    if says_a_digest(bytes));
                match is_last && !is_ready {
                    true => Vec::new(),
                    false => vec![bytes(frame)],
                }
            })
        })
        .await;
        let settings = client_settings(&[&before.address], &[[Read, No]], PathMode::Off);
        let _client = session(connect_with(settings, &behind.address).await);
        assert_eq!(server.next().await.is_ok(), is_ready);
        let found = std::iter::from_fn(|| digests.try_recv().ok()).count();
        assert_eq!(found, 1 + usize::from(is_ready), "bind, and confirm");
    }
}

/// Finishes a client's handshake over a hop whose frames `wrap` makes, and leaves nothing unsent.
async fn shake_over(stream: &mut TcpStream, tls: &mut Tls, wrap: impl Fn(&[u8]) -> Vec<u8>) {
    let (mut frames, mut buffer) = (Frames::new(), vec![0; 1 << 14]);
    loop {
        let mut out = Vec::new();
        tls.take(&mut out).expect("bytes");
        stream.write_all(&wrap(&out)).await.expect("written");
        if tls.is_ready() {
            return;
        }
        let length = stream.read(&mut buffer).await.expect("bytes");
        assert_ne!(length, 0, "a handshake");
        frames.push(&buffer[..length]).expect("frames");
        while let Some(frame) = frames.next().expect("frames") {
            let mut data = Vec::new();
            match frame {
                Frame::Tls(bytes) | Frame::Leg(LegFrame { bytes, .. }) => {
                    tls.feed(bytes, &mut data).expect("a handshake");
                }
                Frame::Record(_)
                | Frame::Announce
                | Frame::Route(_)
                | Frame::Short(_)
                | Frame::Holds(_) => {}
            }
        }
    }
}

#[tokio::test]
async fn an_end_to_end_session_that_is_closed_in_the_handshake_ends_it() {
    let mut server = server().await;
    let config = tls::client(pki().roots(), &[], KeyExchange::Classical);
    let mut tls = tls_client(config.expect("a configuration"), "server.test");
    let mut stream = TcpStream::connect(&server.address)
        .await
        .expect("connected");
    shake_over(&mut stream, &mut tls, <[u8]>::to_vec).await;
    tls.close();
    let mut out = Vec::new();
    tls.take(&mut out).expect("bytes");
    stream.write_all(&out).await.expect("written");
    let error = server.next().await.expect_err("nothing was offered");
    let closed = mctls::Error::Peer(Breach::Truncated);
    assert!(
        matches!(&error, Error::Session(error) if *error == closed),
        "{error}"
    );
}

#[tokio::test]
async fn an_alert_on_a_leg_is_heard_before_there_is_a_session() {
    // It says nothing, so that there is no leg to it.
    let silent = listen(|mut stream: TcpStream| async move {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all).await;
    })
    .await;
    let mut one = middlebox(1, forwards).await;
    let config = tls::client_leg(pki().roots(), KeyExchange::Classical);
    let mut tls = tls_client(config.expect("a configuration"), "box-1.test");
    let mut stream = TcpStream::connect(&one.address).await.expect("connected");
    let route = bytes(&Frame::Route(vec![silent.address.clone()]));
    stream.write_all(&route).await.expect("written");
    let wrap = |bytes: &[u8]| leg(Endpoint::Client, 1, bytes);
    shake_over(&mut stream, &mut tls, wrap).await;
    tls.send(&Message::Alert(Alert::AccessDenied).to_bytes())
        .expect("room");
    let mut out = Vec::new();
    tls.take(&mut out).expect("bytes");
    stream.write_all(&wrap(&out)).await.expect("written");
    let error = one.next().await.expect_err("an alert");
    let told = mctls::Error::Policy(Policy::PeerAlert(Alert::AccessDenied));
    assert!(
        matches!(&error, Error::Session(error) if *error == told),
        "{error}"
    );
}

pub(super) fn shake(client: &mut Tls, server: &mut Tls) {
    let mut data = Vec::new();
    for _ in 0..3 {
        let (mut there, mut back) = (Vec::new(), Vec::new());
        client.take(&mut there).expect("bytes");
        server.feed(&there, &mut data).expect("a handshake");
        server.take(&mut back).expect("bytes");
        client.feed(&back, &mut data).expect("a handshake");
    }
    assert!(client.is_ready() && server.is_ready());
}

fn tls_client(config: rustls::ClientConfig, name: &'static str) -> Tls {
    let name = ServerName::try_from(name).expect("a name");
    Tls::client(&Arc::new(config), name, Part::EndToEnd).expect("a session")
}

#[test]
fn sessions_have_the_suite_of_records_where_both_sides_are_ours() {
    let (one, server) = (pki().middlebox(1), pki().server());
    let classical = KeyExchange::Classical;
    let pairs = [
        (
            tls::client(pki().roots(), &[], classical),
            tls::server(&server, &[]),
        ),
        (
            tls::client_leg(pki().roots(), classical),
            tls::middlebox_server(&one),
        ),
        (
            tls::middlebox_leg(&one, classical),
            tls::server_leg(&server, pki().roots()),
        ),
    ];
    for ((client, server), name) in pairs
        .into_iter()
        .zip(["server.test", "box-1.test", "any.test"])
    {
        let mut client = tls_client(client.expect("a configuration"), name);
        let server = Arc::new(server.expect("a configuration"));
        let mut server = Tls::server(&server, Part::EndToEnd).expect("a session");
        shake(&mut client, &mut server);
        let suite = rustls::CipherSuite::TLS13_AES_128_GCM_SHA256;
        assert_eq!([client.suite(), server.suite()], [Some(suite); 2], "{name}");
    }
}

#[test]
fn a_session_that_has_not_chosen_the_protocol_of_legs_is_no_leg() {
    for spoken in [&[][..], &[b"mc13-leg".to_vec()]] {
        let config = tls::client_leg(pki().roots(), KeyExchange::Classical);
        let mut config = config.expect("a configuration");
        config.alpn_protocols = spoken.to_vec();
        let mut client = tls_client(config, "box-1.test");
        let config = tls::middlebox_server(&pki().middlebox(1)).expect("a configuration");
        let mut server = Tls::server(&Arc::new(config), Part::EndToEnd).expect("a session");
        shake(&mut client, &mut server);
        for leg in [&client, &server] {
            let source = rustls::Error::NoApplicationProtocol;
            match leg.leg_secret() {
                Ok(_) => assert!(!spoken.is_empty()),
                Err(Error::Tls { source: found, .. }) => {
                    assert!(spoken.is_empty() && found == source);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn a_server_gives_no_ticket_to_resume_a_session() {
    let config = tls::client(pki().roots(), &[], KeyExchange::Classical);
    let mut client = tls_client(config.expect("a configuration"), "server.test");
    let config = tls::server(&pki().server(), &[]).expect("a configuration");
    let mut server = Tls::server(&Arc::new(config), Part::EndToEnd).expect("a session");
    let (mut data, mut last) = (Vec::new(), Vec::new());
    let (mut hello, mut flight, mut finished) = (Vec::new(), Vec::new(), Vec::new());
    client.take(&mut hello).expect("bytes");
    server.feed(&hello, &mut data).expect("a handshake");
    server.take(&mut flight).expect("bytes");
    client.feed(&flight, &mut data).expect("a handshake");
    client.take(&mut finished).expect("bytes");
    server.feed(&finished, &mut data).expect("a handshake");
    assert!(server.is_ready());
    server.take(&mut last).expect("bytes");
    assert_eq!(last, b"");
}
