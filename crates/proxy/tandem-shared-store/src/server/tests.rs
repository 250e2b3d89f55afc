//! How long a connection lasts and a server may take. Not here: what it is asked
//! (`tests/servers.rs`).

use std::net::TcpListener;
use std::sync::mpsc::channel;

use super::*;
use crate::address::Address;
use crate::support::{self, RealServer};

#[test]
fn the_time_for_replies_begins_with_each_question() {
    let Some(real) = RealServer::start(&[]) else {
        return;
    };
    let address: Address = real.address().parse().expect("an address");
    let mut server = Server::connect(&address.into()).expect("it answers");
    for _ in 0..2 {
        server.ping().expect("it still answers");
        // It has been idle for as long as replies may take.
        server.reader.get_mut().bounded().until = Instant::now() - PATIENCE;
    }
}

#[test]
fn when_the_time_for_replies_is_over_nothing_is_read_or_written() {
    let Some(real) = RealServer::start(&[]) else {
        return;
    };
    let address: Address = real.address().parse().expect("an address");
    let mut server = Server::connect(&address.into()).expect("it answers");
    let bounded = server.reader.get_mut().bounded();
    let ping = b"PING\r\n";
    bounded.write_all(ping).expect("there is time");
    assert_eq!(bounded.read(&mut [0]).expect("it answers"), 1);
    // However little was missing.
    bounded.until = Instant::now() - PATIENCE;
    let late = bounded.write_all(ping).expect_err("too late");
    assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    let late = bounded.read(&mut [0]).expect_err("too late");
    assert_eq!(late.kind(), io::ErrorKind::TimedOut);
}

#[test]
fn notes_are_in_the_database_that_is_named_and_a_server_that_is_gone_is_noticed() {
    let Some(mut real) = RealServer::start(&[]) else {
        return;
    };
    let mut address: Address = real.address().parse().expect("an address");
    address.database = 3;
    let mut server = Server::connect(&address.into()).expect("it answers");
    let note = (PeerId([1; 32]), b"note".to_vec());
    let written = server.write(&Secret::new(&[7; 32]), &[note]);
    assert!(matches!(written, Ok((1, None))), "{written:?}");
    assert_eq!(real.ask(&["-n", "3", "DBSIZE"]), "1");
    assert_eq!(real.ask(&["DBSIZE"]), "0");
    real.kill();
    assert!(server.ping().is_err());
}

#[test]
fn a_server_by_tcp_that_never_answers_is_left() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let there = listener.local_addr().expect("bound");
    let (said, heard) = channel();
    std::thread::spawn(move || {
        let address: Address = format!("redis://{there}").parse().expect("an address");
        // It fails only where the test has given up.
        let _ = said.send(Server::connect(&address.into()).map(drop));
    });
    let (_silent, _) = listener.accept().expect("it comes");
    let outcome = heard.recv_timeout(support::PATIENCE);
    let trouble = outcome.expect("it waits no longer");
    assert!(matches!(trouble, Err(Trouble::Broken(_))), "{trouble:?}");
}

#[test]
fn a_connection_that_the_other_end_has_closed_is_dead_and_no_other() {
    let of = |kind: io::ErrorKind| Trouble::Broken(kind.into()).is_dead();
    for kind in [
        io::ErrorKind::BrokenPipe,
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::UnexpectedEof,
    ] {
        assert!(of(kind), "{kind}");
    }
    for kind in [io::ErrorKind::TimedOut, io::ErrorKind::InvalidData] {
        assert!(!of(kind), "{kind}");
    }
    assert!(!Trouble::Unfit("READONLY".to_owned()).is_dead());
}
