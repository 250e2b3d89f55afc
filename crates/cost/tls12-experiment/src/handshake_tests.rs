//! Handshakes of both ends: what each kind costs, what it proves, and what it does not.

use std::sync::{Arc, Mutex};

use tandem_wire::UnixTime;
use tandem_wire::tls::{ContentType, HandshakeType, Records};

use crate::auth::Identity;
use crate::client::{CertificateOrder, Client, ClientConfig, Known, Remedy, Start};
use crate::error::{Breach, Check, Error, Misuse, Policy};
use crate::exchange::{Group, KeyPair};
use crate::protect::Opener;
use crate::record::Received;
use crate::rehearsal::{
    Hashes, LIFETIME, NOW, Pair, SHARE_KEY, client_config, entropy, leaf, received, server_config,
};
use crate::schedule::{Master, Randoms};
use crate::server::{CachedInfo, Kind, Server, ServerConfig};
use crate::three_way::{Answered, Freshness, Secrecy, ShareId, Unprotected};

/// A memory that a server's connections share.
struct Remembered(Mutex<Answered>);

impl Freshness for Remembered {
    fn is_new(&self, client_random: &[u8; 32]) -> bool {
        let memory = self.0.lock();
        memory
            .expect("no test panics with it")
            .is_new(client_random)
    }
}

fn remembering() -> Arc<Remembered> {
    Arc::new(Remembered(Mutex::new(Answered::new(100))))
}

fn plain_server() -> ServerConfig {
    server_config(remembering(), Secrecy::Static)
}

/// A connection that comes to its end.
fn connected(
    client: ClientConfig,
    server: ServerConfig,
    known: Option<&Known>,
    early: &[u8],
    seed: u8,
) -> Pair {
    let mut pair = Pair::new(client, server, known, early, seed).expect("it starts");
    pair.run(|_, _| {}).expect("nobody disturbs it");
    assert_eq!(pair.client.kind(), pair.server.kind());
    assert!(pair.client.kind().is_some());
    pair
}

/// What a client knows after a first visit.
fn first_visit(remedy: Remedy) -> Known {
    let pair = connected(client_config(remedy), plain_server(), None, b"", 1);
    assert_eq!(pair.server.kind(), Some(Kind::Full));
    pair.client.learned().expect("it is over").clone()
}

fn flight_sizes(pair: &Pair) -> Vec<usize> {
    pair.flights.iter().map(Vec::len).collect()
}

#[test]
fn data_crosses_both_ways_after_a_plain_handshake() {
    let mut pair = connected(client_config(Remedy::Plain), plain_server(), None, b"", 1);
    let request = vec![5; 40_000];
    pair.client.send(&request).expect("it is open");
    pair.server.send(b"answer").expect("it is open");
    pair.client.close();
    pair.run(|_, _| {}).expect("nobody disturbs it");
    let at_server = received(|| pair.server.take_received());
    let (end, pieces) = at_server.split_last().expect("there is something");
    assert_eq!(end, &Received::Closed);
    let bytes: Vec<u8> = pieces
        .iter()
        .flat_map(|piece| match piece {
            Received::Data(data) => data.clone(),
            Received::Early(_) | Received::Closed => Vec::new(),
        })
        .collect();
    assert_eq!(bytes, request);
    let at_client = received(|| pair.client.take_received());
    assert_eq!(at_client, [Received::Data(b"answer".to_vec())]);
}

#[test]
fn no_data_before_the_handshake_permits_it() {
    let pair = Pair::new(client_config(Remedy::Plain), plain_server(), None, b"", 1);
    let mut pair = pair.expect("it starts");
    assert_eq!(pair.client.send(b"x"), Err(Misuse::NotOpen.into()));
    assert_eq!(pair.server.send(b"x"), Err(Misuse::NotOpen.into()));
}

/// RFC 7918: the request goes with the client's Finished, a round trip earlier.
#[test]
fn a_false_start_sends_data_before_the_server_s_finished() {
    let config = ClientConfig {
        start: Start::False,
        ..client_config(Remedy::Plain)
    };
    let mut pair = Pair::new(config, plain_server(), None, b"", 1).expect("it starts");
    let hello = pair.client.take_output();
    pair.server.handle_input(&hello).expect("a hello");
    let flight = pair.server.take_output();
    pair.client.handle_input(&flight).expect("a flight");
    assert_eq!(pair.client.kind(), None, "the server's Finished is to come");
    pair.client.send(b"request").expect("a false start");
    let both = pair.client.take_output();
    pair.server.handle_input(&both).expect("a flight and data");
    let at_server = received(|| pair.server.take_received());
    assert_eq!(at_server, [Received::Data(b"request".to_vec())]);
}

/// RFC 7924, section 4.1: a hash of 32 bytes stands for the certificates.
#[test]
fn cached_certificates_are_left_out() {
    let known = first_visit(Remedy::CachedInfo);
    let config = client_config(Remedy::CachedInfo);
    let full = connected(config.clone(), plain_server(), None, b"", 2);
    let cached = connected(config, plain_server(), Some(&known), b"", 3);
    assert_eq!(cached.server.kind(), Some(Kind::Cached));
    assert_eq!(cached.client.learned(), Some(&known));
    // Hash for list and leaf in the server's flight, and an extension of 7 bytes in its hello; the
    // client says its hash.
    let spared = flight_sizes(&full)[1] - flight_sizes(&cached)[1];
    assert_eq!(spared, 3 + 3 + leaf().len() - (1 + 32) - 7);
    let added = flight_sizes(&cached)[0] - flight_sizes(&full)[0];
    assert_eq!(added, 4 + 2 + 1 + 1 + 32);
}

/// RFC 7924, section 4: a server that has other certificates now sends them, as does one that does
/// not know the extension.
#[test]
fn certificates_that_are_not_the_cached_ones_are_sent() {
    let known = first_visit(Remedy::CachedInfo);
    let ignoring = ServerConfig {
        cached_info: CachedInfo::Ignored,
        ..plain_server()
    };
    let pair = connected(
        client_config(Remedy::CachedInfo),
        ignoring,
        Some(&known),
        b"",
        2,
    );
    assert_eq!(pair.server.kind(), Some(Kind::Full));

    let renewed = vec![0x31; 800];
    let mut server = plain_server();
    server.identity.chain = vec![renewed.clone()];
    let client = ClientConfig {
        verify: Arc::new(Hashes(renewed)),
        ..client_config(Remedy::CachedInfo)
    };
    let pair = connected(client, server, Some(&known), b"", 3);
    assert_eq!(pair.server.kind(), Some(Kind::Full));
    assert_ne!(pair.client.learned(), Some(&known));
}

/// What is kept is checked again: it may have expired, or lost its authority.
#[test]
fn cached_certificates_that_no_longer_verify_are_not_offered() {
    for remedy in [Remedy::CachedInfo, Remedy::ThreeWay] {
        let known = first_visit(remedy);
        let config = ClientConfig {
            verify: Arc::new(Hashes(b"another authority".to_vec())),
            ..client_config(remedy)
        };
        let fresh = Client::start(Arc::new(config.clone()), None, NOW, entropy(2), b"");
        let known = Client::start(Arc::new(config), Some(&known), NOW, entropy(2), b"");
        let sent = [fresh, known].map(|client| client.expect("it starts").take_output());
        assert_eq!(sent[0], sent[1]);
    }
}

#[test]
fn a_server_that_refers_to_other_certificates_is_refused() {
    let known = first_visit(Remedy::CachedInfo);
    let config = client_config(Remedy::CachedInfo);
    let mut pair = Pair::new(config, plain_server(), Some(&known), b"", 2).expect("it starts");
    let hash = crate::message::fingerprint(&crate::message::certificates(&[leaf()]).expect("fits"));
    let result = pair.run(|number, flight| {
        if number == 1 {
            let at = flight.windows(32).position(|window| window == hash);
            flight[at.expect("the hash is there")] ^= 1;
        }
    });
    assert_eq!(result, Err(Check::Fingerprint.into()));
}

/// Without the extension there is no place for a hash.
#[test]
fn answers_to_what_was_not_asked_are_refused() {
    let known = first_visit(Remedy::CachedInfo);
    let asking = client_config(Remedy::CachedInfo);
    let mut pair = Pair::new(asking, plain_server(), Some(&known), b"", 2).expect("it starts");
    let hello = pair.client.take_output();
    pair.server.handle_input(&hello).expect("a hello");
    let flight = pair.server.take_output();
    let plain = Arc::new(client_config(Remedy::Plain));
    let mut client = Client::start(plain, None, NOW, entropy(2), b"").expect("it starts");
    let refused = client.handle_input(&flight);
    assert_eq!(refused, Err(Breach::Extension(25).into()));
    assert_eq!(client.kind(), None);
}

fn three_way(server: ServerConfig, known: &Known, early: &[u8], seed: u8) -> Pair {
    let client = client_config(Remedy::ThreeWay);
    connected(client, server, Some(known), early, seed)
}

#[test]
fn a_three_way_handshake_is_over_after_one_round_trip() {
    let known = first_visit(Remedy::ThreeWay);
    for secrecy in [Secrecy::Static, Secrecy::Ephemeral] {
        let server = server_config(remembering(), secrecy);
        let mut pair = three_way(server, &known, b"", 2);
        assert_eq!(pair.server.kind(), Some(Kind::ThreeWay));
        // The client's flight, the server's, and then nothing.
        assert_eq!(pair.flights.len(), 3);
        assert!(pair.flights[2].is_empty());
        pair.client.send(b"request").expect("it is open");
        pair.server.send(b"answer").expect("it is open");
        pair.run(|_, _| {}).expect("nobody disturbs it");
        let at_server = received(|| pair.server.take_received());
        assert_eq!(at_server, [Received::Data(b"request".to_vec())]);
        let at_client = received(|| pair.client.take_received());
        assert_eq!(at_client, [Received::Data(b"answer".to_vec())]);
        assert_eq!(pair.client.learned(), Some(&known));
    }
}

#[test]
fn data_of_a_first_flight_is_marked_as_such() {
    let known = first_visit(Remedy::ThreeWay);
    let early = vec![8; 20_000];
    let mut pair = three_way(plain_server(), &known, &early, 2);
    pair.client.send(b"late").expect("it is open");
    pair.run(|_, _| {}).expect("nobody disturbs it");
    let at_server = received(|| pair.server.take_received());
    let expected = [
        Received::Early(early[..1 << 14].to_vec()),
        Received::Early(early[1 << 14..].to_vec()),
        Received::Data(b"late".to_vec()),
    ];
    assert_eq!(at_server, expected);
}

/// A server without the share, or that never had one, passes over the first flight.
#[test]
fn a_first_flight_that_is_not_taken_falls_back_to_a_full_handshake() {
    let known = first_visit(Remedy::ThreeWay);
    let none = ServerConfig {
        three_way: None,
        ..plain_server()
    };
    let mut rotated = plain_server();
    if let Some(three_way) = &mut rotated.three_way {
        let share = crate::three_way::Share::new(ShareId([2; 8]), &[9; 32], LIFETIME);
        three_way.share = Arc::new(share.expect("a key"));
    }
    for server in [none, rotated] {
        let mut pair = three_way(server, &known, b"request", 2);
        assert_eq!(pair.server.kind(), Some(Kind::Full));
        // The data comes once, and not as early data.
        let at_server = received(|| pair.server.take_received());
        assert_eq!(at_server, [Received::Data(b"request".to_vec())]);
    }
}

#[test]
fn a_share_is_not_used_after_its_lifetime() {
    let known = first_visit(Remedy::ThreeWay);
    let config = Arc::new(client_config(Remedy::ThreeWay));
    let size = |now: u64| {
        let now = UnixTime(now);
        let client = Client::start(Arc::clone(&config), Some(&known), now, entropy(2), b"");
        client.expect("it starts").take_output().len()
    };
    let last = NOW.0 + u64::from(LIFETIME) - 1;
    let flight = 10 + 42 + 6 + 45;
    assert_eq!(size(last), size(last + 1) + flight);
}

/// What anybody can record: the first flight of a connection with a request.
fn recorded_flight(known: &Known) -> Vec<u8> {
    let pair = three_way(plain_server(), known, b"pay 100", 2);
    pair.flights[0].clone()
}

fn replay(flight: &[u8], server: &ServerConfig, seed: u8) -> Server {
    let mut server = Server::new(Arc::new(server.clone()), entropy(seed));
    server.handle_input(flight).expect("it is well formed");
    server
}

/// **Consequence 1.** Without a memory a server answers a recorded first flight as often as it
/// comes, and takes the request in it each time.
#[test]
fn a_recorded_first_flight_is_accepted_again_without_protection() {
    let flight = recorded_flight(&first_visit(Remedy::ThreeWay));
    for secrecy in [Secrecy::Static, Secrecy::Ephemeral] {
        let server = server_config(Arc::new(Unprotected), secrecy);
        for seed in [0x90, 0x91] {
            let mut again = replay(&flight, &server, seed);
            assert_eq!(again.kind(), Some(Kind::ThreeWay));
            let taken = received(|| again.take_received());
            assert_eq!(taken, [Received::Early(b"pay 100".to_vec())]);
        }
    }
}

/// With a memory it gets a full handshake, which the replayer cannot finish, and its data is
/// dropped. **A second server with the same share and a memory of its own accepts it once more.**
#[test]
fn a_recorded_first_flight_is_refused_by_the_server_that_remembers_it() {
    let flight = recorded_flight(&first_visit(Remedy::ThreeWay));
    let [one, two] = [(); 2].map(|()| server_config(remembering(), Secrecy::Ephemeral));
    for server in [&one, &two] {
        let mut first = replay(&flight, server, 0x90);
        assert_eq!(first.kind(), Some(Kind::ThreeWay));
        assert_eq!(received(|| first.take_received()).len(), 1);
        let mut again = replay(&flight, server, 0x91);
        assert_eq!(again.kind(), None);
        assert_eq!(received(|| again.take_received()), []);
        assert!(again.take_output().len() > leaf().len(), "a full flight");
    }
}

/// Only a flight whose sender made its key counts as answered: nobody can fill the memory, or
/// spoil a client's flight, by sending its hello ahead.
#[test]
fn a_first_flight_with_a_forged_finished_leaves_no_trace() {
    let known = first_visit(Remedy::ThreeWay);
    let config = client_config(Remedy::ThreeWay);
    let server = Arc::new(plain_server());
    let client = Client::start(Arc::new(config), Some(&known), NOW, entropy(2), b"");
    let flight = client.expect("it starts").take_output();
    let mut forged = flight.clone();
    *forged.last_mut().expect("it is not empty") ^= 1;
    let mut first = Server::new(Arc::clone(&server), entropy(0x90));
    assert_eq!(first.handle_input(&forged), Err(Check::Record.into()));
    assert_eq!(replay(&flight, &server, 0x91).kind(), Some(Kind::ThreeWay));
}

/// The data of records of one direction that begin `at`, opened with these keys.
fn opened(bytes: &[u8], opener: &mut Opener, data: &mut Vec<Vec<u8>>) {
    for record in Records::new(bytes).flatten() {
        let kind = record.header.content_type;
        let Ok(content) = opener.open(kind, record.fragment) else {
            return;
        };
        if kind == ContentType::ApplicationData {
            data.push(content);
        }
    }
}

/// What the share's private key opens of a recorded connection: early data, later data.
fn opened_by_share_key(pair: &Pair) -> [Vec<Vec<u8>>; 2] {
    let fragment = |bytes: &[u8], number: usize| {
        let record = Records::new(bytes).flatten().nth(number);
        let record = record.expect("it was recorded");
        (record.fragment.to_vec(), record.range.end)
    };
    let (hello, _) = fragment(&pair.flights[0], 0);
    let (exchange, _) = fragment(&pair.flights[0], 1);
    let (_, after_change) = fragment(&pair.flights[0], 2);
    let (server_hello, _) = fragment(&pair.flights[1], 0);
    let random = |hello: &[u8]| {
        let mut random = [0; 32];
        random.copy_from_slice(&hello[6..38]);
        random
    };
    let randoms = Randoms {
        client: random(&hello),
        server: random(&server_hello),
    };
    let share = KeyPair::new(Group::X25519, &SHARE_KEY).expect("a key");
    let shared = share.agree(&exchange[5..]).expect("a point");
    let early = Master::early(&shared, &randoms.client, &ShareId([1; 8]));
    let [mut early_data, mut data] = [Vec::new(), Vec::new()];
    let mut opener = Opener::new(&early.early_keys());
    opened(
        &pair.flights[0][after_change..],
        &mut opener,
        &mut early_data,
    );
    let [client, _] = Master::new(&shared, &randoms).keys(&randoms);
    opened(&pair.flights[2], &mut Opener::new(&client), &mut data);
    [early_data, data]
}

/// **Consequence 2.** Whoever learns the share's private key later opens each first flight that
/// was made with it, and the rest of the connection too, unless the server added a key of its own.
#[test]
fn the_share_s_key_opens_what_was_recorded() {
    let known = first_visit(Remedy::ThreeWay);
    for secrecy in [Secrecy::Static, Secrecy::Ephemeral] {
        let server = server_config(remembering(), secrecy);
        let client = client_config(Remedy::ThreeWay);
        let pair = Pair::new(client, server, Some(&known), b"early", 2);
        let mut pair = pair.expect("it starts");
        let flight = pair.client.take_output();
        pair.server.handle_input(&flight).expect("a first flight");
        let answer = pair.server.take_output();
        pair.client.handle_input(&answer).expect("an answer");
        pair.client.send(b"late").expect("it is open");
        let late = pair.client.take_output();
        pair.flights = vec![flight, answer, late];
        let [early, late] = opened_by_share_key(&pair);
        assert_eq!(early, [b"early".to_vec()]);
        match secrecy {
            Secrecy::Static => assert_eq!(late, [b"late".to_vec()]),
            Secrecy::Ephemeral => assert!(late.is_empty(), "forward secret"),
        }
    }
}

/// A full handshake is forward secret with a share around, too: it does not enter the keys.
#[test]
fn every_byte_of_a_handshake_counts() {
    let known = first_visit(Remedy::ThreeWay);
    for (remedy, known) in [(Remedy::Plain, None), (Remedy::ThreeWay, Some(&known))] {
        let whole = connected(client_config(remedy), plain_server(), known, b"", 2);
        for (number, flight) in whole.flights.iter().enumerate() {
            for at in 0..flight.len() {
                let pair = Pair::new(client_config(remedy), plain_server(), known, b"", 2);
                let mut pair = pair.expect("it starts");
                let result = pair.run(|now, bytes| {
                    if now == number {
                        bytes[at] ^= 0x20;
                    }
                });
                // A length that grew waits for more; nothing else goes unnoticed by both.
                let is_open = pair.client.kind().is_some() && pair.server.kind().is_some();
                let is_version = is_record_version(flight, at);
                assert!(
                    !is_open || is_version,
                    "flight {number}, byte {at}: {result:?}"
                );
            }
        }
    }
}

/// The version in the header of a record in clear is nobody's concern (RFC 5246, appendix E.1).
fn is_record_version(flight: &[u8], at: usize) -> bool {
    Records::new(flight)
        .flatten()
        .any(|record| (record.range.start + 1..record.range.start + 3).contains(&at))
}

#[test]
fn a_certificate_that_does_not_verify_ends_the_connection() {
    let config = ClientConfig {
        verify: Arc::new(Hashes(b"somebody else".to_vec())),
        ..client_config(Remedy::Plain)
    };
    let mut pair = Pair::new(config, plain_server(), None, b"", 1).expect("it starts");
    assert_eq!(pair.run(|_, _| {}), Err(Policy::Certificate.into()));
    // The server is told: alert 42.
    let told = pair.client.take_output();
    assert_eq!(told, [21, 3, 3, 0, 2, 2, 42]);
    let told = pair.server.handle_input(&told);
    assert_eq!(told, Err(Policy::Alert(42).into()));
}

#[test]
fn a_message_that_is_not_due_is_refused_in_every_state() {
    let done = [22, 3, 3, 0, 4, 14, 0, 0, 0];
    let mut server = Server::new(Arc::new(plain_server()), entropy(1));
    let refused = Err(Error::from(Breach::Message(14)));
    assert_eq!(server.handle_input(&done), refused);
    assert_eq!(
        server.handle_input(&done),
        Err(Misuse::Failed.into()),
        "it stays over"
    );
    let config = Arc::new(client_config(Remedy::Plain));
    let mut client = Client::start(config, None, NOW, entropy(1), b"").expect("it starts");
    assert_eq!(client.handle_input(&done), refused);
    // No renegotiation.
    let mut pair = connected(client_config(Remedy::Plain), plain_server(), None, b"", 1);
    assert_eq!(
        pair.client.handle_input(&[22, 3, 3, 0, 4, 0, 0, 0, 0]),
        Err(Check::Record.into()),
    );
}

/// Appendix B: what the server sees of a client whose certificate went ahead, through the holder,
/// is what it sees of one that waited for the request, but for the randomness of keys.
#[test]
fn a_certificate_that_goes_ahead_is_not_sent_again() {
    let identity = Identity {
        chain: vec![vec![0x32; 700]],
        key: Arc::new(Hashes(leaf())),
    };
    let sent = |order| {
        let config = ClientConfig {
            identity: Some(identity.clone()),
            order,
            ..client_config(Remedy::Plain)
        };
        let client = Client::start(Arc::new(config), None, NOW, entropy(1), b"");
        let mut client = client.expect("it starts");
        let first = client.take_output();
        // A server that asks: ours does not, so its flight gets a request before its last message.
        let mut server = Server::new(Arc::new(plain_server()), entropy(2));
        let hello_end = Records::new(&first)
            .flatten()
            .next()
            .expect("a hello")
            .range
            .end;
        server.handle_input(&first[..hello_end]).expect("a hello");
        let flight = server.take_output();
        let done_at = flight.len() - 4;
        let request = [HandshakeType::CERTIFICATE_REQUEST.0, 0, 0, 4, 1, 64, 0, 0];
        let mut asking = Vec::new();
        let messages = [&flight[5..done_at], &request, &flight[done_at..]].concat();
        crate::record::write_clear(&mut asking, &messages);
        client.handle_input(&asking).expect("a flight");
        let mut holder = crate::holder::Holder::new();
        let mut seen = Vec::new();
        holder.to_server(&first, &mut seen);
        let at_first = seen.len();
        holder.to_client(&asking);
        let second = client.take_output();
        holder.to_server(&second, &mut seen);
        (first.len(), second.len(), at_first, seen)
    };
    let waited = sent(CertificateOrder::WhenAsked);
    let ahead = sent(CertificateOrder::Ahead);
    let certificate = 4 + 3 + 3 + 700;
    assert_eq!(ahead.0 - waited.0, 5 + certificate, "a record of its own");
    assert_eq!(waited.1 - ahead.1, certificate);
    assert_eq!(ahead.2, waited.2, "the server sees the hello alone");
    // The same messages in the same order, with one record more.
    assert_eq!(ahead.3.len(), waited.3.len() + 5);
    let messages = |bytes: &[u8]| {
        let clear = Records::new(bytes).flatten();
        let clear = clear.filter(|record| record.header.content_type == ContentType::Handshake);
        let contents: Vec<u8> = clear.flat_map(|record| record.fragment.to_vec()).collect();
        contents
    };
    assert_eq!(messages(&ahead.3), messages(&waited.3));
}
