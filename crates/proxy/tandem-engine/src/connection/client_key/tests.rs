//! A client's key from its offer on: what is opened and sealed with it, and what is left when it
//! does not come.

use std::net::{Ipv4Addr, SocketAddr};

use tandem_delta::{DeltaWriter, Encoding};
use tandem_record_key::{IV_LEN, RecordKey};
use tandem_store::MemoryStore;

use super::*;
use crate::connection::Moment;
use crate::engine::ClientCertificates;
use crate::objects::Sender;
use crate::peer::Role;
use crate::samples::{
    CLEAR, TODAY, client_hello, hello_retry_request, noise, opened_flight, sealed,
};

const OFFER: KeyOffer = KeyOffer {
    held: 4_000,
    answer: 0,
    least: 0,
    answer_least: 0,
};

fn key() -> RecordKey {
    let [client, server] = [1, 2].map(|seed| noise(32, seed).try_into().expect("32 bytes"));
    let suite = Suite::Aes128Gcm;
    RecordKey::new(Direction::FromServer, suite, client, &[2; IV_LEN], &[3; 16])
        .expect("16 bytes")
        .with_server_random(server)
}

/// The samples' flight, opened.
fn opened() -> Vec<u8> {
    opened_flight(&[300, 200], &[])
}

/// The same as the server sends it, of whose clear part so much is there.
fn sent(clear: usize) -> Vec<u8> {
    let opened = opened();
    sealed(&key(), &opened[..clear], &opened[CLEAR..])
}

fn server() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 443))
}

fn at(millis: u64) -> Instant {
    Instant::from_micros(1_000 * millis)
}

fn engine(role: Role) -> Engine<MemoryStore> {
    let how = ClientCertificates::None;
    Engine::new(role, how, None, MemoryStore::default()).with_hello_templates()
}

/// A client side that has read this hello, and has offered its key.
fn near(hello: &[u8]) -> (Connection, Engine<MemoryStore>) {
    let streams = Streams {
        client: hello,
        server: &[],
    };
    let (mut connection, mut engine) = (Connection::new(None), engine(Role::ClientSide));
    connection.read(Sender::Client, hello);
    let address = IpAddr::from(Ipv4Addr::LOCALHOST);
    let offer = |connection: &mut Connection, engine: &mut Engine<MemoryStore>| {
        connection.offer_key(streams, engine, server(), (address, 0))
    };
    assert!(offer(&mut connection, &mut engine).is_none(), "not known");
    connection.key_may_come(streams, None, &mut engine, at(0));
    engine.release_key(key(), at(0));
    engine.keys = crate::sealed::ReleasedKeys::default();
    assert!(offer(&mut connection, &mut engine).is_some());
    (connection, engine)
}

/// What a server side makes of this flight of the server's, with the key that it is given.
fn message(server: &[u8], clear: usize, given: &[u8]) -> Vec<u8> {
    let hello = client_hello(&[]);
    let streams = Streams {
        client: &hello,
        server,
    };
    let (mut far, mut engine) = (Connection::new(None), engine(Role::ServerSide));
    far.key_offered(OFFER);
    far.read(Sender::Client, &hello);
    far.read(Sender::Server, server);
    let moment = Moment {
        server: self::server(),
        now: at(0),
        wall: TODAY,
    };
    far.unseal(streams, &mut engine, moment);
    assert_eq!(far.asks_for_key(server), Some(clear));
    far.key_asked(clear, &mut engine);
    far.key_given(Some(given), server, &mut engine)
        .expect("a key");
    // The clear part is there: the message takes the place of the rest.
    assert!(far.sealed_flight(Sender::Server, server, 0).is_none());
    let flight = far.sealed_flight(Sender::Server, server, clear);
    let flight = flight.expect("it was opened");
    assert_eq!(flight.sealed(), Some(&server[clear..]));
    assert_eq!(far.outgoing(Sender::Server, server, clear).crossed, clear);
    assert!(far.footprint() >= server.len() / 2, "the opened form");
    flight
        .message(&literal(&[&server[..clear], &opened()[CLEAR..]].concat()))
        .expect("it is whole")
}

fn literal(bytes: &[u8]) -> Vec<u8> {
    let mut delta = DeltaWriter::new(Encoding::Three);
    delta.add(bytes);
    delta.finish()
}

/// A client side that has handed its key over behind this clear part, and the key.
fn handed_over() -> (Connection, Engine<MemoryStore>, Vec<u8>) {
    let hello = client_hello(&[]);
    let (mut connection, mut engine) = near(&hello);
    let server = &sent(CLEAR)[..CLEAR];
    let streams = Streams {
        client: &hello,
        server,
    };
    connection.read(Sender::Server, server);
    assert!(connection.key_wanted(streams, at(0)));
    engine.release_key(key(), at(1));
    let HandOver::Key(given) = connection.hand_key_over(&mut engine, at(1)) else {
        panic!("it was there");
    };
    (connection, engine, given)
}

fn reseal(message: &[u8]) -> (Result<Vec<u8>, Miss>, Connection) {
    let hello = client_hello(&[]);
    let (mut connection, mut engine, _) = handed_over();
    let streams = Streams {
        client: &hello,
        server: &[],
    };
    let resealed = connection.reseal(message, streams, &mut engine, (1 << 16, at(2)));
    (resealed, connection)
}

#[test]
fn what_has_crossed_in_clear_does_not_come_again() {
    let (_, _, given) = handed_over();
    let server = sent(CLEAR);
    let (resealed, connection) = reseal(&message(&server, CLEAR, &given));
    assert_eq!(resealed.as_deref(), Ok(&server[CLEAR..]));
    assert!(matches!(connection.consent, Consent::None), "it was used");
}

#[test]
fn a_far_side_that_says_that_something_else_has_crossed_is_not_believed() {
    let (_, _, given) = handed_over();
    // Without ChangeCipherSpec, as another flight of the same key.
    let shorter = CLEAR - 6;
    let of_another = message(&sent(shorter), shorter, &given);
    // With another ServerHello.
    let mut server = sent(CLEAR);
    server[20] ^= 1;
    let of_another_hello = message(&server, CLEAR, &given);
    // Or all of it, with the key, as if nothing had crossed.
    let with_key = [&given[..], &message(&sent(CLEAR), CLEAR, &given)[1..]].concat();
    for message in [of_another, of_another_hello, with_key] {
        let (resealed, connection) = reseal(&message);
        assert_eq!(resealed, Err(Miss::Malformed));
        assert!(connection.sealed.opened().is_none());
    }
}

#[test]
fn a_key_is_wanted_for_the_clear_part_alone() {
    let hello = client_hello(&[]);
    let (whole, again) = (sent(CLEAR), hello_retry_request());
    for server in [&whole[..CLEAR + 40], &whole[..CLEAR - 3], &again, &[]] {
        let (mut connection, mut engine) = near(&hello);
        let streams = Streams {
            client: &hello,
            server,
        };
        assert!(connection.key_wanted(streams, at(0)), "it was offered");
        engine.release_key(key(), at(0));
        let told = connection.hand_key_over(&mut engine, at(0));
        assert_eq!(told, HandOver::Missing);
    }
}

#[test]
fn a_key_that_is_too_old_is_not_handed_over() {
    let hello = client_hello(&[]);
    for (age, is_there) in [(9_999, true), (10_000, false)] {
        let (mut connection, mut engine) = near(&hello);
        let server = &sent(CLEAR)[..CLEAR];
        let streams = Streams {
            client: &hello,
            server,
        };
        engine.release_key(key(), at(0));
        assert!(connection.key_wanted(streams, at(9_900)));
        let told = connection.hand_key_over(&mut engine, at(age));
        assert_eq!(matches!(told, HandOver::Key(_)), is_there, "{age} ms");
    }
}

/// Behind a request for another hello, ServerHello itself says no more that the handshake passes.
#[test]
fn behind_another_hello_a_handshake_is_over_once_no_key_comes() {
    let hello = client_hello(&[]);
    let client = [&hello[..], &hello].concat();
    let request = hello_retry_request();
    let server = [&request[..], &sent(CLEAR)[..CLEAR]].concat();
    let is_over = |end: &dyn Fn(&mut Connection, &mut Engine<MemoryStore>)| {
        let (mut connection, mut engine) = near(&hello);
        for (client, server) in [
            (&hello[..], &request[..]),
            (&client[..], &request[..]),
            (&client[..], &server[..]),
        ] {
            connection.read(Sender::Client, client);
            connection.read(Sender::Server, server);
            connection.follow_retry(Streams { client, server });
            assert_eq!(connection.stage(), Stage::Going);
        }
        end(&mut connection, &mut engine);
        assert_eq!(connection.stage(), Stage::Pass(Pass::Tls13));
        assert!(!connection.is_asked_again());
    };
    let streams = Streams {
        client: &client,
        server: &server,
    };
    is_over(&|connection, engine| {
        assert!(connection.key_wanted(streams, at(0)));
        let told = connection.hand_key_over(engine, at(199));
        assert_eq!(told, HandOver::Later);
        let told = connection.hand_key_over(engine, at(200));
        assert_eq!(told, HandOver::Missing);
    });
    is_over(&|connection, engine| connection.offer_lapses(engine, at(0)));
    is_over(&|connection, engine| {
        assert!(connection.key_wanted(streams, at(0)));
        engine.release_key(key(), at(1));
        let told = connection.hand_key_over(engine, at(1));
        assert!(matches!(told, HandOver::Key(_)));
        connection.offer_lapses(engine, at(2));
    });
}
