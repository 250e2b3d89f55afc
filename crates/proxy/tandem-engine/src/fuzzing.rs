//! What must hold for any input of this crate: one function for each parser, called by the fuzz
//! targets in `fuzz/` and by the replay of their corpora.
//!
//! Not part of the public interface. A function returns where all is well and panics where an
//! invariant is broken.

use std::net::SocketAddr;
use std::sync::Arc;

use tandem_delta::{Delta, DeltaWriter, Encoding, Reference};
use tandem_record_key::{CLIENT_RANDOM_LEN, Direction, IV_LEN, RecordKey, Suite};
use tandem_seal::Sealer;
use tandem_store::{Digest, Kind, MemoryStore, Site, Store};
use tandem_wire::tls::ContentType;
use tandem_wire::{Instant, UnixTime};

use crate::connection::{Connection, Moment, Streams};
use crate::engine::{ClientCertificates, Engine};
use crate::objects::hello::Hello;
use crate::objects::{Flight, Sender};
use crate::peer::{HelloTemplates, Hints, Peer, PeerId, Possession, Role, expected_chains};
use crate::rewrite::thesis::{self, Codes, Expanded};
use crate::rewrite::{
    FlightSource, KnownHello, LocalSource, StoreSource, plan_after, plan_flight, plan_numbered,
};
use crate::transcript::{Handshake, Stage};

/// A function that checks the invariants of a parser on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 4] = [
    ("handshake_read_along", handshake_read_along),
    ("peer_notes", peer_notes),
    ("sealed_flight", sealed_flight),
    ("thesis_messages", thesis_messages),
];

const NOW: UnixTime = UnixTime(1_790_000_000);

/// A note out of a shared store, whoever put it there: what is made of it is bounded, and it is
/// taken once.
pub fn peer_notes(data: &[u8]) {
    let mut engine = Engine::new(
        Role::ServerSide,
        ClientCertificates::Persistent,
        None,
        MemoryStore::default(),
    )
    .with_hello_templates();
    let peer = PeerId([1; 32]);
    let mut sizes = Vec::new();
    for _ in 0..2 {
        let used = engine.recall(peer, [data], (Instant::ZERO, NOW));
        assert!(used <= 1);
        sizes.push((engine.hello_templates(), engine.session_tickets()));
    }
    assert_eq!(sizes[0], sizes[1]);
    let ((hellos, hello_bytes), (tickets, ticket_bytes)) = sizes[0];
    assert!(hellos + tickets <= 1 && hello_bytes + ticket_bytes <= data.len() + 512);
}

/// Both directions of a connection, the client's first with its length in two bytes: read byte by
/// byte as at once; a flight that is found is rebuilt to the byte in both formats.
pub fn handshake_read_along(data: &[u8]) {
    let Some(&[high, low]) = data.first_chunk() else {
        return;
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    let (client, server) = data[2..].split_at(length.min(data.len() - 2));

    let mut at_once = Handshake::new();
    at_once.client_sent(client);
    at_once.server_sent(server);
    let mut in_steps = Handshake::new();
    for end in 0..=client.len() {
        in_steps.client_sent(&client[..end]);
    }
    for end in 0..=server.len() {
        in_steps.server_sent(&server[..end]);
    }
    assert_eq!(in_steps.stage(), at_once.stage());
    assert_eq!(in_steps.flight(), at_once.flight());
    assert_eq!(in_steps.server_name(), at_once.server_name());
    assert!(at_once.footprint() <= 64 * (data.len() + 64));

    against_the_last(&at_once, client);

    let site = Site::Address(SocketAddr::from(([192, 0, 2, 1], 443)));
    let mut store = MemoryStore::default();
    let learned = at_once.learn(server, &mut store, &site, NOW);
    assert_eq!(
        learned,
        at_once.stage() == Stage::Finished && at_once.flight().is_some()
    );
    let Some(flight) = at_once.flight() else {
        return;
    };
    let chain = flight.certificates(server).expect("a flight has a chain");
    let chain: Vec<&[u8]> = chain.iter().map(|der| &**der).collect();
    store.learn(Kind::Chain, Some(&site), &chain, NOW);
    let hints = Hints::to(&mut store, &site, NOW, 4);
    let hints: Vec<_> = hints.ids().iter().map(|id| id.prefix4()).collect();
    let possession = Possession::from_hints(&hints);
    for encoding in [Encoding::One, Encoding::Two, Encoding::Three] {
        let plan = plan_flight(server, flight, &possession, &mut MemoryStore::default());
        if let Some(delta) = plan.finish(encoding) {
            let rebuilt = Delta::parse(encoding, &delta, server.len())
                .and_then(|delta| delta.apply(&mut StoreSource::new(&mut store)));
            assert!(rebuilt.as_deref() == Ok(server));
        }
    }
    by_number(server, flight, &site, &mut store);
    let references: Vec<Reference> = chain
        .iter()
        .map(|der| Reference(tandem_store::Digest::of(der).prefix16()))
        .collect();
    let possession = Possession::from_references(&references);
    let codes = Codes::default();
    if let Some(shorter) = thesis::compress(server, flight, &possession, codes) {
        assert!(shorter.len() < server.len());
        let expanded = thesis::expand(&shorter, &mut store, codes);
        assert!(expanded == Expanded::Whole(server.to_vec()));
    }
}

/// The flight as a carrier with numbers has it, from hints or after an earlier one, is rebuilt.
fn by_number(server: &[u8], flight: &Flight, site: &Site, store: &mut MemoryStore) {
    let hints = Hints::to(store, site, NOW, 4);
    let prefixes: Vec<_> = hints.ids().iter().map(|id| id.prefix4()).collect();
    let possession = Possession::from_hints(&prefixes);
    let mut earlier = server.to_vec();
    earlier[server.len() / 2] ^= 1;
    let earlier = Arc::from(earlier);
    for plan in [
        plan_numbered(server, flight, &possession, &mut MemoryStore::default()),
        plan_after(server, flight, Arc::clone(&earlier)),
    ] {
        if let Some(delta) = plan.finish(Encoding::Three) {
            let mut source = FlightSource {
                store,
                earlier: Some(&earlier),
                hinted: hints.ids(),
                crossed: None,
                authorities: None,
            };
            let rebuilt = Delta::parse(Encoding::Three, &delta, server.len())
                .and_then(|delta| delta.apply(&mut source));
            assert!(rebuilt.as_deref() == Ok(server));
        }
    }
}

/// A hello, written against one that differs from it in a byte, is rebuilt.
fn against_the_last(handshake: &Handshake, client: &[u8]) {
    let Some(hello) = handshake.hello(client) else {
        return;
    };
    let mut last = hello.bytes.to_vec();
    last[hello.bytes.len() / 2] ^= 1;
    let last = Hello {
        bytes: &last,
        ..hello.clone()
    };
    let mut near = HelloTemplates::new(Role::ClientSide);
    let mut far = Peer::new(Role::ServerSide);
    near.learn(&last);
    far.hellos.learn(&last);
    let plan = KnownHello::Similar {
        templates: near.similar_to(&hello),
        steady: hello.steady,
        ticket: None,
    };
    if let Some(delta) = plan.plan(client).finish(Encoding::Three) {
        let mut store = MemoryStore::default();
        let mut source = LocalSource::new(&mut far, &mut store, Instant::ZERO);
        let delta = Delta::parse(Encoding::Three, &delta, client.len());
        assert!(delta.and_then(|delta| delta.apply(&mut source)).as_deref() == Ok(client));
    }
}

/// A payload: what is stripped or announced comes back, what is expanded is bounded.
pub fn thesis_messages(data: &[u8]) {
    let codes = Codes::default();
    let site = Site::Address(SocketAddr::from(([192, 0, 2, 1], 443)));
    let mut store = MemoryStore::default();
    let chain: [&[u8]; 2] = [b"a certificate of some length", b"another"];
    store.learn(Kind::Chain, Some(&site), &chain, NOW);
    let chains = expected_chains(&mut store, &site, NOW, 1);
    if let Some(announced) = thesis::announce(data, &chains, &mut store, codes) {
        let stripped = thesis::strip(&announced, codes).expect("our own");
        assert_eq!(stripped.hello, data);
        assert_eq!(stripped.references.len(), chain.len());
    }
    if let Some(stripped) = thesis::strip(data, codes) {
        assert!(stripped.hello.len() + 16 * stripped.references.len() < data.len());
    }
    let held = [Reference([9; 16])];
    if let Some(confirmed) = thesis::confirmation::add(data, &held, codes) {
        let taken = thesis::confirmation::take(&confirmed, codes).expect("our own");
        assert_eq!(taken, (data.to_vec(), held.to_vec()));
    }
    match thesis::expand(data, &mut store, codes) {
        Expanded::Whole(bytes) => assert!(bytes.len() <= 3 * data.len() + 64),
        Expanded::Miss(_) | Expanded::Ordinary => {}
    }
}

/// A ClientHello that offers nothing but TLS 1.3's first suite, and the ServerHello that takes it,
/// in records.
const CLIENT_HELLO: [u8; 50] = {
    let mut hello = [1; 50];
    let head = [22, 3, 3, 0, 45, 1, 0, 0, 41, 3, 3];
    let tail = [0, 0, 2, 0x13, 1, 1, 0];
    let (mut at, mut from) = (0, 0);
    while at < head.len() {
        hello[at] = head[at];
        at += 1;
    }
    while from < tail.len() {
        hello[at + CLIENT_RANDOM_LEN + from] = tail[from];
        from += 1;
    }
    hello
};
const SERVER_HELLO_TAIL: [u8; 12] = [0, 0x13, 1, 0, 0, 6, 0, 43, 0, 2, 3, 4];

/// Most that is rebuilt of a message.
const SEALED_LIMIT: usize = 1 << 15;

/// Behind a zero, a message of a sealed flight that the client side gets: nothing comes of it, or
/// bytes with the message's check. Behind 255, the same of a client's flight that the server side
/// gets. Behind 254 and a byte, the messages of a client's flight, which is sealed in records of
/// that size. Behind another byte, the messages of a server's flight, which is sealed so: it is not
/// opened, or its message rebuilds it.
pub fn sealed_flight(data: &[u8]) {
    match data.split_first() {
        None => {}
        Some((255, message)) => {
            let mut far = asking_server_side();
            if let Some(bytes) = far.reseal(message) {
                assert!(bytes.len() <= SEALED_LIMIT);
                let digest = Digest::of(&bytes).prefix16();
                assert!(message.windows(digest.len()).any(|it| it == digest));
            }
        }
        Some((254, rest)) => {
            if let Some((&size, messages)) = rest.split_first() {
                client_sealed_and_opened(usize::from(size.max(1)), messages);
            }
        }
        Some((0, message)) => {
            if let Some(bytes) = reseal(message) {
                assert!(bytes.len() <= SEALED_LIMIT);
                let check = 1 + IV_LEN + 16;
                let check = message.get(check..).and_then(|rest| rest.first_chunk());
                // The two longer keys stand in front of the check.
                let longer = message
                    .get(1 + IV_LEN + 32..)
                    .and_then(|rest| rest.first_chunk());
                let digest = Digest::of(&bytes).prefix16();
                assert!([check, longer].contains(&Some(&digest)));
            }
        }
        Some((&size, messages)) => sealed_and_opened(usize::from(size), messages),
    }
}

fn reading(role: Role) -> (Connection, Engine<MemoryStore>) {
    let store = MemoryStore::default();
    let engine = Engine::new(role, ClientCertificates::None, None, store);
    let mut connection = Connection::new(None);
    connection.read(Sender::Client, &CLIENT_HELLO);
    (connection, engine)
}

fn reseal(message: &[u8]) -> Option<Vec<u8>> {
    let (mut connection, mut engine) = reading(Role::ClientSide);
    let streams = Streams {
        client: &CLIENT_HELLO,
        server: &[],
    };
    let resealed = connection.reseal(message, streams, &mut engine, (SEALED_LIMIT, Instant::ZERO));
    resealed.ok()
}

fn record_key(direction: Direction) -> RecordKey {
    let random = [1; CLIENT_RANDOM_LEN];
    RecordKey::new(direction, Suite::Aes128Gcm, random, &[2; IV_LEN], &[3; 16])
        .expect("the suite's length")
}

/// Appends these messages in records of this size.
fn seal(direction: Direction, size: usize, messages: &[u8], stream: &mut Vec<u8>) {
    let mut sealer = Sealer::new(&record_key(direction));
    for content in messages.chunks(size) {
        let sealed = sealer.seal(ContentType::Handshake, content, size % 3, stream);
        sealed.expect("a short record");
    }
}

/// A server's flight with these messages.
fn server_flight(size: usize, messages: &[u8]) -> Vec<u8> {
    let mut stream = vec![22, 3, 3, 0, 50, 2, 0, 0, 46, 3, 3];
    stream.extend([4; 32]);
    stream.extend(SERVER_HELLO_TAIL);
    seal(Direction::FromServer, size, messages, &mut stream);
    stream
}

/// EncryptedExtensions, CertificateRequest, Certificate and Finished.
const ASKING: [u8; 39] = [
    8, 0, 0, 2, 0, 0, 13, 0, 0, 3, 0, 0, 0, 11, 0, 0, 10, 0, 0, 0, 6, 0, 0, 1, 7, 0, 0, 20, 0, 0,
    8, 1, 2, 3, 4, 5, 6, 7, 8,
];

/// A side behind a server's flight that asks for a certificate, and has crossed opened.
struct Side {
    connection: Connection,
    engine: Engine<MemoryStore>,
}

impl Side {
    fn reseal(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        let streams = Streams {
            client: &CLIENT_HELLO,
            server: &[],
        };
        let limit = (SEALED_LIMIT, Instant::ZERO);
        let (connection, engine) = (&mut self.connection, &mut self.engine);
        connection
            .reseal_client(message, streams, engine, limit)
            .ok()
    }
}

/// The server side, and what crossed.
fn asking_server_side_and_message() -> (Side, Vec<u8>) {
    let stream = server_flight(100, &ASKING);
    let (mut connection, mut engine) = reading(Role::ServerSide);
    engine.release_key(record_key(Direction::FromServer), Instant::ZERO);
    connection.read(Sender::Server, &stream);
    let streams = Streams {
        client: &CLIENT_HELLO,
        server: &stream,
    };
    let moment = Moment {
        server: SocketAddr::from(([192, 0, 2, 1], 443)),
        now: Instant::ZERO,
        wall: UnixTime(0),
    };
    connection.unseal(streams, &mut engine, moment);
    let message = opened_message(&connection, Sender::Server, &stream, 0);
    let message = message.expect("a flight that asks for a certificate");
    connection.sealed_flight_written();
    (Side { connection, engine }, message)
}

fn asking_server_side() -> Side {
    let (side, _) = asking_server_side_and_message();
    side
}

/// The message of a flight that was opened, with a delta that copies nothing.
fn opened_message(
    connection: &Connection,
    sender: Sender,
    stream: &[u8],
    before: usize,
) -> Option<Vec<u8>> {
    let flight = connection.sealed_flight(sender, stream, before)?;
    let opened = connection.outgoing(sender, stream, before);
    let mut delta = DeltaWriter::new(Encoding::Three);
    delta.add(opened.bytes().expect("all of it"));
    flight.message(&delta.finish())
}

fn client_sealed_and_opened(size: usize, messages: &[u8]) {
    let (mut far, message) = asking_server_side_and_message();
    let (mut connection, mut engine) = reading(Role::ClientSide);
    engine.client_certificates = ClientCertificates::Persistent;
    let mut client = CLIENT_HELLO.to_vec();
    seal(Direction::FromClient, size, messages, &mut client);
    let streams = |end| Streams {
        client: &client[..end],
        server: &[],
    };
    let start = CLIENT_HELLO.len();
    let limit = (SEALED_LIMIT, Instant::ZERO);
    let resealed = connection.reseal(&message, streams(start), &mut engine, limit);
    resealed.expect("our own");
    engine.release_key(record_key(Direction::FromClient), Instant::ZERO);
    let ground =
        connection.sealed_client_flight_to_come(streams(start), &mut engine, Instant::ZERO);
    assert!(ground.is_some(), "the key is there");
    for end in start..=client.len() {
        connection.read(Sender::Client, &client[..end]);
        connection.unseal_client(streams(end), &mut engine);
        assert!(connection.footprint() <= 64 * (messages.len() + 128));
    }
    let Some(message) = opened_message(&connection, Sender::Client, &client, start) else {
        return;
    };
    let flight = connection.sealed_flight(Sender::Client, &client, start);
    let end = flight.expect("it was opened").end();
    assert_eq!(far.reseal(&message).as_deref(), client.get(start..end));
}

fn sealed_and_opened(size: usize, messages: &[u8]) {
    let stream = server_flight(size, messages);
    let (mut connection, mut engine) = reading(Role::ServerSide);
    engine.release_key(record_key(Direction::FromServer), Instant::ZERO);
    for end in 0..=stream.len() {
        let server = &stream[..end];
        connection.read(Sender::Server, server);
        let client = &CLIENT_HELLO;
        let moment = Moment {
            server: SocketAddr::from(([192, 0, 2, 1], 443)),
            now: Instant::ZERO,
            wall: UnixTime(0),
        };
        connection.unseal(Streams { client, server }, &mut engine, moment);
        assert!(connection.footprint() <= 64 * (messages.len() + 128));
    }
    let Some(message) = opened_message(&connection, Sender::Server, &stream, 0) else {
        return;
    };
    let flight = connection.sealed_flight(Sender::Server, &stream, 0);
    let end = flight.expect("it was opened").end();
    assert_eq!(reseal(&message).as_deref(), stream.get(..end));
}
