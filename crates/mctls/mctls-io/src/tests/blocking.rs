//! Threads that block: both ways at once, a reader that does not read, time-outs, ends.

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use mctls::config::{PathMode, Right};
use mctls::error::Breach;

use super::pki::pki;
use super::{BODY, HEADERS, client_settings, forwards, middlebox_settings, server_settings};
use crate::blocking::{
    Client, Connected, Interrupt, Middlebox, Plain, Server, Session, SessionReceiver, SessionSender,
};
use crate::{ClientSettings, Error, Fallback, Part, Timeouts};

use Right::{None as No, Read};

/// Too short for a session, and long enough for a call that is to run out of time.
const SHORT: Duration = Duration::from_millis(200);

fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    (listener, address)
}

fn session(connected: Result<Connected, Error>) -> Session {
    match connected {
        Ok(Connected::Session(session)) => *session,
        Ok(Connected::Plain(_)) => panic!("plain TLS"),
        Err(error) => panic!("{error}"),
    }
}

fn plain(connected: Result<Connected, Error>) -> Plain {
    match connected {
        Ok(Connected::Plain(plain)) => *plain,
        Ok(Connected::Session(_)) => panic!("a session"),
        Err(error) => panic!("{error}"),
    }
}

/// Both ends as `connect` and the server make them.
fn ends(
    server: Server,
    connect: impl FnOnce(&str) -> Result<Connected, Error>,
) -> [Result<Connected, Error>; 2] {
    let (listener, address) = listener();
    thread::scope(|scope| {
        let accepted = scope.spawn(|| server.accept(listener.accept().expect("a client").0));
        let connected = connect(&address);
        [connected, accepted.join().expect("no panic")]
    })
}

fn client(settings: ClientSettings) -> Client {
    Client::new(settings).expect("settings that can be used")
}

fn server() -> Server {
    Server::new(&server_settings()).expect("settings that can be used")
}

fn pair() -> [Session; 2] {
    let client = client(client_settings(&[], &[], PathMode::Off));
    ends(server(), |address| client.connect(address, "server.test")).map(session)
}

fn is_cut(error: &Error) -> bool {
    let truncated = mctls::Error::Peer(Breach::Truncated);
    matches!(error, Error::Session(error) if *error == truncated) || matches!(error, Error::Io(_))
}

#[test]
fn a_session_by_a_middlebox_needs_no_async_code() {
    let (listener, nearest) = listener();
    let middlebox = Middlebox::new(&middlebox_settings(1, forwards)).expect("good settings");
    let passed = thread::spawn(move || middlebox.serve(listener.accept().expect("a client").0));
    let settings = client_settings(&[&nearest], &[[Read, No]], PathMode::Required);
    let client = client(settings);
    let [mut near, mut far] =
        ends(server(), |address| client.connect(address, "server.test")).map(session);
    let identity = pki().server();
    assert_eq!(near.certificate.as_ref(), identity.chain.first());
    assert!(far.certificate.is_none());
    near.sender.send(HEADERS, b"question").expect("sent");
    near.sender.close().expect("closed");
    let delivery = far.receiver.recv().expect("good").expect("more");
    assert_eq!(delivery.payload, b"question");
    assert_eq!(delivery.seen_by.len(), 1);
    assert!(far.receiver.recv().expect("an end").is_none());
    far.sender.send(BODY, b"answer").expect("sent");
    far.sender.close().expect("closed");
    let delivery = near.receiver.recv().expect("good").expect("more");
    assert_eq!(delivery.payload, b"answer");
    assert!(near.receiver.recv().expect("an end").is_none());
    passed
        .join()
        .expect("no panic")
        .expect("both ends have ended");
}

#[test]
fn a_connection_that_is_there_is_taken() {
    let client = client(client_settings(&[], &[], PathMode::Off));
    let [mut near, mut far] = ends(server(), |address| {
        let stream = TcpStream::connect(address).expect("it listens");
        client.connect_over(stream, "elsewhere:1", "server.test")
    })
    .map(session);
    near.sender.send(BODY, b"x").expect("sent");
    let delivery = far.receiver.recv().expect("good").expect("more");
    assert_eq!(delivery.payload, b"x");
}

/// More than all buffers between two ends hold.
const MUCH: usize = 16 << 20;

fn pours(mut sender: SessionSender) {
    sender.send(BODY, &vec![7; MUCH]).expect("sent");
    sender.close().expect("closed");
}

fn drains(receiver: &mut SessionReceiver) -> usize {
    let mut length = 0;
    while let Some(delivery) = receiver.recv().expect("good") {
        length += delivery.payload.len();
    }
    length
}

#[test]
fn two_threads_send_and_receive_at_once_and_neither_waits_for_the_other() {
    thread::scope(|scope| {
        for mut session in pair() {
            scope.spawn(|| pours(session.sender));
            scope.spawn(move || assert_eq!(drains(&mut session.receiver), MUCH));
        }
    });
}

#[test]
fn a_reader_that_does_not_read_stops_the_writer() {
    let [mut near, far] = pair();
    near.sender.set_timeout(Some(SHORT));
    let error = near.sender.send(BODY, &vec![7; MUCH]);
    assert!(
        matches!(error, Err(Error::TimedOut(Part::NextHop, SHORT))),
        "{error:?}"
    );
    let error = near.sender.send(BODY, b"more");
    assert!(matches!(error, Err(Error::Interrupted)), "{error:?}");
    drop(far);
}

#[test]
fn a_receiver_that_runs_out_of_time_goes_on() {
    let [mut near, mut far] = pair();
    near.receiver.set_timeout(Some(SHORT));
    for _ in 0..2 {
        let error = near.receiver.recv();
        assert!(
            matches!(error, Err(Error::TimedOut(Part::EndToEnd, SHORT))),
            "{error:?}"
        );
    }
    near.receiver.set_timeout(None);
    far.sender.send(BODY, b"late").expect("sent");
    let delivery = near.receiver.recv().expect("good").expect("more");
    assert_eq!(delivery.payload, b"late");
}

#[test]
fn whoever_waits_gives_up_when_told_so() {
    let over = Arc::new(AtomicBool::new(false));
    let interrupt: Interrupt = {
        let over = Arc::clone(&over);
        Arc::new(move || over.load(Ordering::SeqCst))
    };
    let client =
        client(client_settings(&[], &[], PathMode::Off)).interrupted_by(Arc::clone(&interrupt));
    let server = server().interrupted_by(interrupt);
    let [mut near, mut far] =
        ends(server, |address| client.connect(address, "server.test")).map(session);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| near.receiver.recv());
        // The other half is not kept by it.
        near.sender.send(BODY, b"x").expect("sent");
        far.receiver.recv().expect("good").expect("more");
        over.store(true, Ordering::SeqCst);
        let ended = waiting.join().expect("no panic");
        let interrupted =
            matches!(&ended, Err(Error::Io(error)) if error.kind() == ErrorKind::Interrupted);
        assert!(interrupted, "{ended:?}");
    });
}

#[test]
fn an_end_that_is_dropped_is_a_cut() {
    let [near, mut far] = pair();
    drop(near);
    let error = far.receiver.recv().expect_err("it was cut");
    assert!(is_cut(&error), "{error}");
}

#[test]
fn a_limit_that_no_clock_holds_is_none() {
    let [mut near, mut far] = pair();
    near.sender.set_timeout(Some(Duration::MAX));
    far.receiver.set_timeout(Some(Duration::MAX));
    near.sender.send(BODY, b"x").expect("sent");
    let delivery = far.receiver.recv().expect("good").expect("more");
    assert_eq!(delivery.payload, b"x");
}

#[test]
fn a_server_that_says_nothing_is_an_error_in_time() {
    let (_silent, address) = listener();
    let settings = ClientSettings {
        timeouts: Timeouts {
            handshake: SHORT,
            idle: SHORT,
        },
        ..client_settings(&[], &[], PathMode::Off)
    };
    let error = client(settings).connect(&address, "server.test");
    assert!(
        matches!(error, Err(Error::TimedOut(Part::EndToEnd, SHORT))),
        "{error:?}"
    );
}

#[test]
fn plain_tls_is_there_where_the_policy_permits_it() {
    let settings = ClientSettings {
        fallback: Fallback::PlainTls,
        ..client_settings(&[], &[], PathMode::Off)
    };
    let client = client(settings);
    let mut settings = server_settings();
    settings.fallback = Fallback::PlainTls;
    let mut server = Server::new(&settings).expect("good settings");
    server.server = server.server.without_mc13();
    let [mut near, mut far] =
        ends(server, |address| client.connect(address, "server.test")).map(plain);
    near.send(b"question").expect("sent");
    near.close().expect("closed");
    assert_eq!(far.recv().expect("good").expect("more"), b"question");
    assert!(far.recv().expect("an end").is_none());
    far.set_timeout(Some(SHORT));
    far.send(b"answer").expect("sent");
    assert_eq!(near.recv().expect("good").expect("more"), b"answer");
}
