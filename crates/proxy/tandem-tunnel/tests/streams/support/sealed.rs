//! Handshakes of TLS 1.3 whose server's handshake key is known.
//!
//! Is not: TLS; what is in the messages is filler, but for the layout of the server's flight and
//! its record protection, which are real.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Sha256, Sha384};
use tandem_engine::Sender;
use tandem_record_key::{Direction, RecordKey, Suite};
use tandem_seal::Sealer;
use tandem_wire::tls::ContentType;

use super::Conversation;
use super::tls::{client_hello, noise, record};

/// How a flight is cut into records: how long each is, and its padding; the rest is in
/// the last one.
pub(crate) type Cuts = [(usize, usize)];

/// A handshake message.
pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![kind];
    message.extend_from_slice(&(body.len() as u32).to_be_bytes()[1..]);
    message.extend_from_slice(body);
    message
}

/// A Certificate message of TLS 1.3; each certificate with its extensions.
pub(crate) fn certificate(entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut list = Vec::new();
    for (der, extensions) in entries {
        list.extend_from_slice(&(der.len() as u32).to_be_bytes()[1..]);
        list.extend_from_slice(der);
        list.extend_from_slice(&(extensions.len() as u16).to_be_bytes());
        list.extend_from_slice(extensions);
    }
    let length = (list.len() as u32).to_be_bytes();
    message(11, &[&[0], &length[1..], &list].concat())
}

/// A ServerHello of TLS 1.3 in a record of its own.
pub(crate) fn server_hello(suite: Suite, random: &[u8]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend_from_slice(random);
    body.push(0);
    body.extend(suite.number().to_be_bytes());
    body.push(0);
    body.extend([0, 6, 0, 43, 0, 2, 3, 4]);
    record(22, &message(2, &body))
}

/// Bytes of the verify data of a Finished.
fn verify_len(suite: Suite) -> usize {
    match suite {
        Suite::Aes128Gcm | Suite::ChaCha20Poly1305 => 32,
        Suite::Aes256Gcm => 48,
    }
}

/// Appends these messages in records, cut so.
fn seal(key: &RecordKey, plaintext: &[u8], cuts: &Cuts, out: &mut Vec<u8>) {
    let mut sealer = Sealer::new(key);
    let mut seal = |content: &[u8], padding| {
        sealer
            .seal(ContentType::Handshake, content, padding, out)
            .expect("not too long");
    };
    let mut rest = plaintext;
    for &(length, padding) in cuts {
        if length < rest.len() {
            let (content, after) = rest.split_at(length);
            seal(content, padding);
            rest = after;
        }
    }
    rest.chunks(1 << 14).for_each(|content| seal(content, 0));
}

/// One visit: what both say, and what the server releases of it.
pub(crate) struct Visit {
    pub(crate) said: Conversation,
    pub(crate) suite: Suite,
    seed: u64,
    /// Of the client's random.
    random: u64,
}

impl Visit {
    /// The key, again each time: it is not to be copied. As a server releases it.
    pub(crate) fn key(&self) -> RecordKey {
        let random = self.client_random();
        let iv = noise(12, self.seed + 1).try_into().expect("12 bytes");
        let key = noise(self.suite.key_len(), self.seed + 2);
        RecordKey::new(Direction::FromServer, self.suite, random, &iv, &key).expect("its length")
    }

    /// The same key as the client releases it.
    pub(crate) fn key_by_client(&self) -> RecordKey {
        self.key().with_server_random(self.server_random())
    }

    /// The random of the client's hello.
    fn client_random(&self) -> [u8; 32] {
        noise(32, self.random).try_into().expect("32 bytes")
    }

    /// The random of ServerHello.
    pub(crate) fn server_random(&self) -> [u8; 32] {
        noise(32, self.seed + 4).try_into().expect("32 bytes")
    }

    /// The same, whose client uses the random of that other visit again.
    pub(crate) fn with_client_random_of(mut self, other: &Self) -> Self {
        self.random = other.random;
        let random = self.client_random();
        // Behind the headers of record and message, and the version.
        self.with_turn(0, |hello| hello[11..43].copy_from_slice(&random))
    }

    /// The key of the client's direction.
    pub(crate) fn client_key(&self) -> RecordKey {
        let random = self.client_random();
        let iv = noise(12, self.seed + 11).try_into().expect("12 bytes");
        let key = noise(self.suite.key_len(), self.seed + 12);
        let key = RecordKey::new(Direction::FromClient, self.suite, random, &iv, &key);
        let key = key.expect("its length");
        key.with_server_random(self.server_random())
    }

    /// The same, whose client answers the server's flight with these messages and Finished, behind
    /// this in clear; it goes on at once with data.
    pub(crate) fn with_client_flight(self, clear: &[u8], messages: &[u8], cuts: &Cuts) -> Self {
        let finished = message(20, &noise(verify_len(self.suite), self.seed + 13));
        let mut flight = clear.to_vec();
        let plaintext = [messages, &finished].concat();
        seal(&self.client_key(), &plaintext, cuts, &mut flight);
        self.with_turn(2, |answer| *answer = flight)
    }

    /// A visit whose server sends these messages between its hello and Finished.
    pub(crate) fn new(suite: Suite, messages: &[u8], cuts: &Cuts, seed: u64) -> Self {
        let said = Conversation::default();
        let mut visit = Self {
            said,
            suite,
            seed,
            random: seed,
        };
        let verify = verify_len(suite);
        let answer = verify + 21;
        let plaintext = [messages, &message(20, &noise(verify, seed + 3))].concat();
        let mut flight = server_hello(suite, &visit.server_random());
        flight.extend(record(20, &[1]));
        seal(&visit.key(), &plaintext, cuts, &mut flight);
        // A ticket, and what the client says to the server's Finished.
        flight.extend(record(23, &noise(180, seed + 5)));
        visit.said.turns = vec![
            (Sender::Client, client_hello("www.example", &[], seed)),
            (Sender::Server, flight),
            (
                Sender::Client,
                [record(20, &[1]), record(23, &noise(answer, seed + 6))].concat(),
            ),
            (Sender::Client, record(23, &noise(300, seed + 7))),
            (Sender::Server, record(23, &noise(4_000, seed + 8))),
        ];
        visit
    }

    /// The same, its flight changed.
    pub(crate) fn with_flight(self, change: impl FnOnce(&mut Vec<u8>)) -> Self {
        self.with_turn(1, change)
    }

    /// The same, a turn changed.
    pub(crate) fn with_turn(mut self, turn: usize, change: impl FnOnce(&mut Vec<u8>)) -> Self {
        change(&mut self.said.turns[turn].1);
        self
    }

    /// The same, where the server asks for another hello first; `change` says in which turn of its
    /// own it sends the ChangeCipherSpec that middleboxes want to see.
    pub(crate) fn with_retry(self, change: usize) -> Self {
        let random = tandem_wire::tls::server_hello::HELLO_RETRY_REQUEST_RANDOM;
        let suite = self.suite;
        let hello = self.said.turns[0].1.clone();
        let again = [record(20, &[1]), hello].concat();
        let mut visit = self.with_flight(|flight| {
            let at = server_hello(suite, &random).len();
            let moved: Vec<u8> = flight.drain(at..at + 6).collect();
            if change == 1 {
                flight.splice(0..0, moved);
            }
        });
        let mut request = server_hello(suite, &random);
        if change == 0 {
            request.extend(record(20, &[1]));
        }
        let behind = [(Sender::Server, request), (Sender::Client, again)];
        visit.said.turns.splice(1..1, behind);
        visit
    }

    /// The same, with this answer of the client's and nothing behind it.
    pub(crate) fn with_answer(mut self, answer: Vec<u8>) -> Self {
        self.said.turns.truncate(3);
        self.said.turns[2].1 = answer;
        self
    }
}

/// HKDF-Expand-Label without a context (RFC 8446, section 7.1), of a length that takes one block.
fn expand(suite: Suite, secret: &[u8], label: &str, length: usize) -> Vec<u8> {
    let label = format!("tls13 {label}");
    let mut info = (length as u16).to_be_bytes().to_vec();
    info.push(label.len() as u8);
    info.extend(label.as_bytes());
    info.extend([0, 1]);
    let mut block = match suite {
        Suite::Aes128Gcm | Suite::ChaCha20Poly1305 => {
            let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("any length");
            mac.update(&info);
            mac.finalize().into_bytes().to_vec()
        }
        Suite::Aes256Gcm => {
            let mut mac = Hmac::<Sha384>::new_from_slice(secret).expect("any length");
            mac.update(&info);
            mac.finalize().into_bytes().to_vec()
        }
    };
    block.truncate(length);
    block
}

/// The key that a server releases, out of the secret that a key log has.
pub(crate) fn server_key(suite: Suite, random: &[u8], secret: &[u8]) -> RecordKey {
    let random = random.try_into().expect("32 bytes");
    let iv = expand(suite, secret, "iv", 12)
        .try_into()
        .expect("12 bytes");
    let key = expand(suite, secret, "key", suite.key_len());
    RecordKey::new(Direction::FromServer, suite, random, &iv, &key).expect("its length")
}
