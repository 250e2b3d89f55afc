//! A flight that is opened at one side and sealed at the other, and what becomes of doubt.

use std::net::SocketAddr;

use tandem_delta::{DeltaWriter, Reference};
use tandem_record_key::{Direction, IV_LEN, RecordKey, Suite};
use tandem_store::{Kind, MemoryStore};

use super::*;
use crate::engine::ClientCertificates;
use crate::peer::Role;
use crate::samples::{CLEAR, TODAY, chain, client_hello, noise, opened_flight, record, sealed};

const LIMIT: usize = 1 << 16;

fn key() -> RecordKey {
    // The random of the samples' hello.
    let random = noise(32, 1).try_into().expect("32 bytes");
    let suite = Suite::Aes128Gcm;
    RecordKey::new(Direction::FromServer, suite, random, &[2; IV_LEN], &[3; 16]).expect("16 bytes")
}

/// The samples' flight, opened.
fn opened() -> Vec<u8> {
    opened_flight(&[300, 200], &[5, 6, 7])
}

/// The same as the server sends it, one record for all.
fn sent() -> Vec<u8> {
    let opened = opened();
    sealed(&key(), &opened[..CLEAR], &opened[CLEAR..])
}

fn side(role: Role, client: &[u8]) -> (Connection, Engine<MemoryStore>) {
    let how = ClientCertificates::None;
    let engine = Engine::new(role, how, None, MemoryStore::default()).with_hello_templates();
    let mut connection = Connection::new(None);
    connection.read(Sender::Client, client);
    (connection, engine)
}

fn server_side(client: &[u8], server: &[u8]) -> (Connection, Engine<MemoryStore>) {
    let (mut connection, mut engine) = side(Role::ServerSide, client);
    engine.release_key(key(), Instant::ZERO);
    connection.read(Sender::Server, server);
    connection.unseal(Streams { client, server }, &mut engine, at(0));
    (connection, engine)
}

fn at(millis: u64) -> Moment {
    Moment {
        server: SocketAddr::from(([192, 0, 2, 1], 443)),
        now: Instant::from_micros(1_000 * millis),
        wall: TODAY,
    }
}

/// The message of the flight, with a delta that copies nothing.
fn message(client: &[u8]) -> Vec<u8> {
    let mut delta = DeltaWriter::new(Encoding::Three);
    delta.add(&opened());
    message_with(client, delta)
}

fn message_with(client: &[u8], delta: DeltaWriter) -> Vec<u8> {
    let server = sent();
    let (connection, _) = server_side(client, &server);
    let flight = connection
        .sealed_flight(Sender::Server, &server, 0)
        .expect("it was opened");
    flight.message(&delta.finish()).expect("it is whole")
}

fn reseal(message: &[u8], client: &[u8], limit: usize) -> (Result<Vec<u8>, Miss>, Connection) {
    let (mut connection, mut engine) = side(Role::ClientSide, client);
    let streams = Streams {
        client,
        server: &[],
    };
    let resealed = connection.reseal(message, streams, &mut engine, (limit, Instant::ZERO));
    (resealed, connection)
}

#[test]
fn a_flight_is_opened_however_it_comes_and_sealed_to_what_was_sent() {
    let (client, server) = (
        client_hello(&[]),
        [&sent()[..], &record(23, &noise(90, 3))].concat(),
    );
    let (mut connection, mut engine) = side(Role::ServerSide, &client);
    engine.release_key(key(), Instant::ZERO);
    for end in 0..=server.len() {
        let streams = Streams {
            client: &client,
            server: &server[..end],
        };
        connection.read(Sender::Server, streams.server);
        connection.unseal(streams, &mut engine, at(0));
        assert_eq!(connection.stage(), Stage::Going);
        let is_whole = end >= sent().len();
        assert_eq!(
            connection
                .sealed_flight(Sender::Server, &server, 0)
                .is_some(),
            is_whole
        );
    }
    let opened_bytes = connection.outgoing(Sender::Server, &server, 0);
    assert_eq!(opened_bytes.bytes(), Some(&opened()[..]));
    let (resealed, far) = reseal(&message(&client), &client, LIMIT);
    assert_eq!(resealed, Ok(sent()));
    assert_eq!(far.stage(), Stage::Going, "the client has not answered");
}

#[test]
fn a_changed_message_gives_the_same_bytes_or_none() {
    let client = client_hello(&[]);
    let whole = message(&client);
    for at in 0..whole.len() {
        for bit in [1, 0x80] {
            let mut changed = whole.clone();
            changed[at] ^= bit;
            let (resealed, connection) = reseal(&changed, &client, LIMIT);
            assert!(resealed.is_err() || resealed == Ok(sent()), "byte {at}");
            assert!(resealed.is_ok() || connection.sealed.opened().is_none());
        }
        assert!(
            reseal(&whole[..at], &client, LIMIT).0.is_err(),
            "{at} bytes"
        );
    }
}

#[test]
fn a_layout_with_more_behind_it_is_none() {
    let client = client_hello(&[]);
    let mut longer = message(&client);
    // Behind suite, IV, key and check: the layout's length, and the layout.
    let at = 1 + IV_LEN + 16 + 16;
    assert_eq!(longer[at..at + 2], [1, 1], "one record for all");
    longer[at] = 2;
    longer.insert(at + 2, 0);
    assert_eq!(reseal(&longer, &client, LIMIT).0, Err(Miss::Malformed));
}

#[test]
fn no_more_is_rebuilt_than_is_allowed() {
    let client = client_hello(&[]);
    let (whole, length) = (message(&client), sent().len());
    assert!(reseal(&whole, &client, length).0.is_ok());
    assert_eq!(reseal(&whole, &client, length - 1).0, Err(Miss::Malformed));
    // Nor is what a delta names looked for, where that would be too much.
    for (copied, miss) in [(LIMIT, Miss::NotHeld), (LIMIT + 1, Miss::Malformed)] {
        let mut delta = DeltaWriter::new(Encoding::Three);
        delta.copy(Reference([7; Reference::LEN]), 0, copied);
        let message = message_with(&client, delta);
        assert_eq!(reseal(&message, &client, LIMIT).0, Err(miss), "{copied}");
    }
}

#[test]
fn what_was_opened_is_remembered_once_the_client_has_finished() {
    let hello = client_hello(&[]);
    let answer = [record(20, &[1]), record(23, &noise(53, 4))].concat();
    let client = [hello.clone(), answer].concat();
    let server = sent();
    let (mut connection, mut engine) = server_side(&hello, &server);
    connection.sealed_flight_written();
    connection.read(Sender::Client, &client[..client.len() - 1]);
    assert_eq!(connection.stage(), Stage::Going);
    connection.read(Sender::Client, &client);
    assert_eq!(connection.stage(), Stage::Finished);
    let learned = learn(
        connection.sealed.opened().expect("it has crossed"),
        engine.store(),
        &Site::Any,
        TODAY,
    );
    assert!(learned);
    let der = chain(&[300, 200]);
    let der: Vec<&[u8]> = der.iter().map(Vec::as_slice).collect();
    // Under the name that it has in clear.
    let id = Kind::Chain.id_of(&der);
    assert!(engine.store().holds(Kind::Chain, &id));
}

#[test]
fn with_early_data_a_flight_passes_as_it_is() {
    // An extension block with early_data alone.
    let hello = client_hello(&[0, 4, 0, 42, 0, 0]);
    let server = sent();
    let (connection, _) = server_side(&hello, &server);
    assert_eq!(connection.stage(), Stage::Pass(Pass::Tls13));
    assert!(
        connection
            .sealed_flight(Sender::Server, &server, 0)
            .is_none()
    );
}

#[test]
fn a_far_side_that_opens_a_flight_behind_early_data_all_the_same_teaches_nothing() {
    let hello = client_hello(&[0, 4, 0, 42, 0, 0]);
    let (resealed, far) = reseal(&message(&client_hello(&[])), &hello, LIMIT);
    assert_eq!(resealed, Ok(sent()));
    assert!(far.sealed.opened().is_none());
}
