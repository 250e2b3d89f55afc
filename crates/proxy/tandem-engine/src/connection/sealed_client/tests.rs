//! A client's flight that is opened at one side and sealed at the other, and what becomes of doubt.

use std::net::SocketAddr;

use tandem_delta::DeltaWriter;
use tandem_record_key::{Direction, IV_LEN, RecordKey, Suite};
use tandem_store::MemoryStore;

use super::*;
use crate::connection::Moment;
use crate::peer::Role;
use crate::samples::{CLEAR, TODAY, client_hello, noise, opened_with_request, record, sealed};
use crate::transcript::Stage;

const LIMIT: usize = 1 << 16;

fn key(direction: Direction) -> RecordKey {
    // The random of the samples' hello.
    let random = noise(32, 1).try_into().expect("32 bytes");
    let iv = match direction {
        Direction::FromClient => [4; IV_LEN],
        Direction::FromServer => [2; IV_LEN],
    };
    RecordKey::new(direction, Suite::Aes128Gcm, random, &iv, &[3; 16]).expect("16 bytes")
}

/// What the server sends.
fn server() -> Vec<u8> {
    let [opened, _] = opened_with_request();
    let key = key(Direction::FromServer);
    sealed(&key, &opened[..CLEAR], &opened[CLEAR..])
}

/// What the client answers.
fn answer() -> Vec<u8> {
    let [_, messages] = opened_with_request();
    sealed(&key(Direction::FromClient), &record(20, &[1]), &messages)
}

fn literal(bytes: &[u8]) -> Vec<u8> {
    let mut delta = DeltaWriter::new(Encoding::Three);
    delta.add(bytes);
    delta.finish()
}

fn engine(role: Role) -> Engine<MemoryStore> {
    let how = ClientCertificates::Persistent;
    Engine::new(role, how, None, MemoryStore::default()).with_hello_templates()
}

/// Both sides behind the server's flight; server and client have released a key each.
struct Sides {
    near: Connection,
    near_engine: Engine<MemoryStore>,
    far: Connection,
    far_engine: Engine<MemoryStore>,
}

fn sides() -> Sides {
    let (hello, server) = (client_hello(&[]), server());
    let streams = Streams {
        client: &hello,
        server: &server,
    };
    let (mut far, mut far_engine) = (Connection::new(None), engine(Role::ServerSide));
    far_engine.release_key(key(Direction::FromServer), Instant::ZERO);
    far.read(Sender::Client, &hello);
    far.read(Sender::Server, &server);
    let moment = Moment {
        server: SocketAddr::from(([192, 0, 2, 1], 443)),
        now: Instant::ZERO,
        wall: TODAY,
    };
    far.unseal(streams, &mut far_engine, moment);
    let opened = far.outgoing(Sender::Server, &server, 0);
    let delta = literal(opened.bytes().expect("all of it"));
    let flight = far.sealed_flight(Sender::Server, &server, 0);
    let message = flight.and_then(|flight| flight.message(&delta));
    let message = message.expect("it was opened");
    far.sealed_flight_written();
    let (mut near, mut near_engine) = (Connection::new(None), engine(Role::ClientSide));
    near.read(Sender::Client, &hello);
    near_engine.release_key(key(Direction::FromClient), Instant::ZERO);
    let unread = Streams {
        server: &[],
        ..streams
    };
    let limit = (LIMIT, Instant::ZERO);
    let resealed = near.reseal(&message, unread, &mut near_engine, limit);
    assert_eq!(resealed, Ok(server));
    Sides {
        near,
        near_engine,
        far,
        far_engine,
    }
}

/// The message of the client's flight, with a delta that copies nothing.
fn message() -> Vec<u8> {
    let mut sides = sides();
    let hello = client_hello(&[]);
    let client = [&hello[..], &answer()].concat();
    let streams = |end| Streams {
        client: &client[..end],
        server: &[],
    };
    let engine = &mut sides.near_engine;
    let begun =
        sides
            .near
            .sealed_client_flight_to_come(streams(hello.len()), engine, Instant::ZERO);
    assert!(begun.is_some());
    for end in hello.len()..=client.len() {
        sides.near.read(Sender::Client, &client[..end]);
        sides.near.unseal_client(streams(end), engine);
        assert_eq!(sides.near.stage(), Stage::Going);
    }
    let flight = sides
        .near
        .sealed_flight(Sender::Client, &client, hello.len())
        .expect("it is whole");
    assert_eq!(flight.end(), client.len());
    let opened = sides.near.outgoing(Sender::Client, &client, hello.len());
    let delta = literal(opened.bytes().expect("all of it"));
    let message = flight.message(&delta).expect("it is whole");
    sides.near.client_flight_written(engine);
    assert_eq!(sides.near.stage(), Stage::Finished);
    message
}

fn reseal(message: &[u8], limit: usize) -> (Result<Vec<u8>, Miss>, Connection) {
    let mut sides = sides();
    let hello = client_hello(&[]);
    let streams = Streams {
        client: &hello,
        server: &[],
    };
    let limit = (limit, Instant::ZERO);
    let resealed = sides
        .far
        .reseal_client(message, streams, &mut sides.far_engine, limit);
    (resealed, sides.far)
}

#[test]
fn a_client_s_flight_is_opened_however_it_comes_and_sealed_to_what_was_sent() {
    let (resealed, far) = reseal(&message(), LIMIT);
    assert_eq!(resealed, Ok(answer()));
    assert_eq!(far.stage(), Stage::Finished);
}

#[test]
fn a_changed_message_gives_the_client_s_bytes_or_none() {
    let whole = message();
    for at in 0..whole.len() {
        for bit in [1, 0x80] {
            let mut changed = whole.clone();
            changed[at] ^= bit;
            let (resealed, far) = reseal(&changed, LIMIT);
            assert!(resealed.is_err() || resealed == Ok(answer()), "byte {at}");
            assert!(resealed.is_ok() || far.crossed_client_flight().is_none());
        }
        assert!(reseal(&whole[..at], LIMIT).0.is_err(), "{at} bytes");
    }
}

#[test]
fn a_message_of_a_client_s_counts_once_and_in_its_place_alone() {
    let (message, hello) = (message(), client_hello(&[]));
    let streams = Streams {
        client: &hello,
        server: &[],
    };
    let limit = (LIMIT, Instant::ZERO);
    let mut sides = sides();
    for expected in [Ok(answer()), Err(Miss::NotHeld)] {
        let engine = &mut sides.far_engine;
        let resealed = sides.far.reseal_client(&message, streams, engine, limit);
        assert_eq!(resealed, expected);
    }
    // Behind the client's answer as it is.
    let mut sides = self::sides();
    let client = [&hello[..], &answer()].concat();
    sides.far.read(Sender::Client, &client);
    let engine = &mut sides.far_engine;
    let resealed = sides.far.reseal_client(&message, streams, engine, limit);
    assert_eq!(resealed, Err(Miss::NotHeld));
    // In front of the server's flight.
    let (mut far, mut engine) = (Connection::new(None), self::engine(Role::ServerSide));
    far.read(Sender::Client, &hello);
    let resealed = far.reseal_client(&message, streams, &mut engine, limit);
    assert_eq!(resealed, Err(Miss::NotHeld));
}

#[test]
fn no_more_of_a_client_s_is_rebuilt_than_is_allowed() {
    let (whole, length) = (message(), answer().len());
    assert!(reseal(&whole, length).0.is_ok());
    assert_eq!(reseal(&whole, length - 1).0, Err(Miss::Malformed));
}

/// What is to become of the client's flight behind these bytes, at the client side.
fn to_come(sides: &mut Sides, client: &[u8]) -> Option<Ground> {
    let streams = Streams {
        client,
        server: &[],
    };
    let engine = &mut sides.near_engine;
    sides
        .near
        .sealed_client_flight_to_come(streams, engine, Instant::ZERO)
}

#[test]
fn a_flight_of_which_a_byte_has_passed_is_not_opened() {
    let mut sides = sides();
    let client = [&client_hello(&[])[..], &answer()].concat();
    let begun = &client[..client_hello(&[]).len() + 1];
    sides.near.read(Sender::Client, begun);
    assert!(to_come(&mut sides, begun).is_none());
}

/// The client side, and the client's stream, behind this answer, whose opening has begun.
fn answered(answer: &[u8]) -> (Sides, Vec<u8>) {
    let mut sides = sides();
    let client = [&client_hello(&[])[..], answer].concat();
    assert!(to_come(&mut sides, &client_hello(&[])).is_some());
    sides.near.read(Sender::Client, &client);
    let streams = Streams {
        client: &client,
        server: &[],
    };
    sides.near.unseal_client(streams, &mut sides.near_engine);
    (sides, client)
}

#[test]
fn an_answer_that_passes_after_all_ends_the_handshake_at_once() {
    // A record that no key opens.
    let mut changed = answer();
    *changed.last_mut().expect("some") ^= 1;
    let (sides, _) = answered(&changed);
    assert_eq!(sides.near.stage(), Stage::Finished);
    // One that was opened, and does not set out in its message.
    let (mut sides, client) = answered(&answer());
    assert_eq!(sides.near.stage(), Stage::Going);
    let streams = Streams {
        client: &client,
        server: &[],
    };
    sides.near.client_flight_passes(streams);
    assert_eq!(sides.near.stage(), Stage::Finished);
}

#[test]
fn a_client_s_flight_has_its_message_where_it_begins_alone() {
    let (sides, client) = answered(&answer());
    let begins = client_hello(&[]).len();
    for before in 0..client.len() {
        let flight = sides.near.sealed_flight(Sender::Client, &client, before);
        assert_eq!(flight.is_some(), before == begins, "{before}");
    }
}

#[test]
fn a_key_of_the_client_s_direction_that_is_too_old_is_of_no_use() {
    for (seconds, is_used) in [(9, true), (10, false)] {
        let mut sides = sides();
        let streams = Streams {
            client: &client_hello(&[]),
            server: &[],
        };
        let now = Instant::ZERO + std::time::Duration::from_secs(seconds);
        let engine = &mut sides.near_engine;
        let begun = sides
            .near
            .sealed_client_flight_to_come(streams, engine, now);
        assert_eq!(begun.is_some(), is_used, "{seconds}");
    }
}

#[test]
fn without_client_certificates_nothing_is_opened() {
    let mut sides = sides();
    sides.near_engine.client_certificates = ClientCertificates::None;
    assert!(to_come(&mut sides, &client_hello(&[])).is_none());
}
