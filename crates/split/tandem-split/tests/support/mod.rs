//! A server and a client of OpenSSL with an origin and a volunteer between them, in one process.
//!
//! The server is an ordinary one. What stands behind it knows its secrets from its key log and does
//! what an origin would do inside it: it takes the server's records apart into plaintexts, makes
//! its own MACs of them, and writes stubs. The splicer makes records of these twice: with the
//! server's IVs, to be compared with what the server wrote, and with its own, for the client.

mod keylog;
mod programs;

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};

use tandem_split::clear::ClearWriter;
use tandem_split::keys::{KeyBlock, TrafficKeys};
use tandem_split::message::{Channel, Encodings, Greeting, KeyExpose, Side};
use tandem_split::open::Opener;
use tandem_split::splice::Limits;
use tandem_split::stub::StubWriter;
use tandem_split::suite::Format;
use tandem_split::{Decoder, Message, Payload, PayloadName, RecordType, Splicer, Suite, Want};

use keylog::KeyLog;
pub(crate) use programs::{REQUEST, Server, body, client, knows, openssls};

/// Record header.
const HEADER_LEN: usize = 5;
/// The type of a Finished message (RFC 5246, section 7.4).
const FINISHED: u8 = 20;

/// What the volunteer does to the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Volunteer {
    Honest,
    /// Turns one bit in the middle of the longest records.
    Flips,
}

/// What came of a connection.
#[derive(Debug)]
pub(crate) struct Conversation {
    /// What the client has said and shown.
    pub(crate) client: std::process::Output,
    /// What it sent, opened.
    pub(crate) request: Vec<u8>,
    /// Records of the server under keys that came out again byte for byte.
    pub(crate) exact: usize,
    /// Bytes that the origin wrote, and bytes of TLS that the server did.
    pub(crate) stubs: usize,
    pub(crate) records: usize,
}

/// One request for the server's file by `openssl s_client`.
pub(crate) fn converse(openssl: &str, suite: Suite, volunteer: Volunteer) -> Conversation {
    let server = Server::start(openssl, suite);
    let (to_client, output) = client(openssl, suite);
    let to_server = TcpStream::connect(("127.0.0.1", server.port)).expect("the server listens");
    let sent = Arc::new(Mutex::new(Vec::new()));
    let upwards = {
        let (from, to) = (
            to_client.try_clone().expect("a socket"),
            to_server.try_clone().expect("a socket"),
        );
        let sent = Arc::clone(&sent);
        std::thread::spawn(move || relay(from, to, &sent))
    };
    let mut split = Split::new(suite, volunteer, KeyLog::of(&server.keylog));
    let (mut from, mut to) = (to_server, to_client);
    let mut buffer = [0; 4096];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        let out = split.handle(&buffer[..len]);
        if to.write_all(&out).is_err() {
            break;
        }
    }
    // Either may be gone already.
    let _ = to.shutdown(Shutdown::Write);
    let output = output.join().expect("it waits only");
    let _ = from.shutdown(Shutdown::Both);
    upwards.join().expect("it only relays");
    let sent = sent.lock().expect("nobody panicked").clone();
    Conversation {
        client: output,
        request: split.open_client(&sent),
        exact: split.exact_records,
        stubs: split.stubs,
        records: split.records,
    }
}

fn relay(mut from: TcpStream, mut to: TcpStream, sent: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 4096];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        sent.lock()
            .expect("nobody panicked")
            .extend_from_slice(&buffer[..len]);
        if to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// Origin and volunteer.
struct Split {
    suite: Suite,
    volunteer: Volunteer,
    keylog: KeyLog,
    server_random: [u8; 32],
    decoder: Decoder,
    clear: ClearWriter,
    /// Behind the ChangeCipherSpec: what opens the server's records, and what makes stubs of them.
    keyed: Option<(Opener, StubWriter)>,
    payloads: HashMap<PayloadName, Payload>,
    to_client: Splicer,
    like_server: Splicer,
    greeted: bool,
    exact_records: usize,
    stubs: usize,
    records: usize,
}

impl Split {
    fn new(suite: Suite, volunteer: Volunteer, keylog: KeyLog) -> Self {
        let splicer = || Splicer::new(Encodings::DEFAULT, Limits::default());
        Self {
            suite,
            volunteer,
            keylog,
            server_random: [0; 32],
            // A server's records are verbatim messages, as a client's are.
            decoder: Decoder::new(Side::Client),
            clear: ClearWriter::new(Encodings::DEFAULT),
            keyed: None,
            payloads: HashMap::new(),
            to_client: splicer(),
            like_server: splicer(),
            greeted: false,
            exact_records: 0,
            stubs: 0,
            records: 0,
        }
    }

    /// The server's bytes, as the client is to get them.
    fn handle(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.records += bytes.len();
        while !bytes.is_empty() {
            bytes = &bytes[self.decoder.push(bytes)..];
            while let Some(Message::Verbatim(record)) =
                self.decoder.next_message().expect("the server speaks TLS")
            {
                let (record_type, record) = (record.record_type(), record.bytes().to_vec());
                out.extend(self.record(record_type, &record));
            }
        }
        out
    }

    fn record(&mut self, record_type: RecordType, record: &[u8]) -> Vec<u8> {
        let mut channel = Vec::new();
        if !std::mem::replace(&mut self.greeted, true) {
            Greeting::new(Channel::Connection, Encodings::DEFAULT).write(&mut channel);
            let random = &record[HEADER_LEN + 4 + 2..][..32];
            self.server_random.copy_from_slice(random);
        }
        let is_keyed = self.keyed.is_some();
        if is_keyed {
            self.stub(&mut channel, record_type, record);
        } else {
            let written = self.clear.push(&mut channel, record).expect("a handshake");
            let named = written.published.into_iter();
            self.payloads
                .extend(named.map(|payload| (payload.name(), payload)));
            if written.changed_cipher_spec {
                let (keys, opener, writer) = self.server_keys("SERVER_HANDSHAKE_TRAFFIC_SECRET");
                keys.write(&mut channel);
                self.keyed = Some((opener, writer));
            }
        }
        self.stubs += channel.len();
        let iv = record[HEADER_LEN..]
            .first_chunk()
            .copied()
            .unwrap_or_default();
        let again = splice(&mut self.like_server, &channel, &self.payloads, || iv);
        if is_keyed {
            assert_eq!(again, record, "the very bytes that OpenSSL wrote");
            self.exact_records += 1;
        }
        let mut number = self.records as u128;
        let mut out = splice(&mut self.to_client, &channel, &self.payloads, || {
            number += 1;
            (number << 64 | 0x5bd1_e995).to_be_bytes()
        });
        if self.volunteer == Volunteer::Flips && is_keyed && record.len() > 1_000 {
            let middle = out.len() / 2;
            out[middle] ^= 1;
        }
        out
    }

    /// What the origin writes for a record of the server.
    fn stub(&mut self, channel: &mut Vec<u8>, record_type: RecordType, record: &[u8]) {
        let (opener, writer) = self.keyed.as_mut().expect("it has keys");
        let mut fragment = record[HEADER_LEN..].to_vec();
        let opened = opener
            .open(record_type, &mut fragment)
            .expect("it is the server's");
        let plaintext = &fragment[opened.plaintext];
        if opened.record_type == RecordType::ApplicationData && plaintext.len() > 64 {
            let payload = Payload::new(plaintext).expect("short");
            writer
                .named(channel, opened.record_type, &payload)
                .expect("short");
            self.payloads.insert(payload.name(), payload);
        } else {
            writer
                .literal(channel, opened.record_type, plaintext)
                .expect("short");
        }
        let is_finished =
            opened.record_type == RecordType::Handshake && plaintext.first() == Some(&FINISHED);
        if is_finished && self.suite.format() == Format::Integrity {
            let (_, opener, writer) = self.server_keys("SERVER_TRAFFIC_SECRET_0");
            self.keyed = Some((opener, writer));
        }
    }

    /// `label` for TLS 1.3; in TLS 1.2 there is one secret.
    fn server_keys(&mut self, label: &str) -> (KeyExpose, Opener, StubWriter) {
        match self.suite.format() {
            Format::Cbc => {
                let block = self.key_block();
                let keys = block.key_expose();
                let writer = StubWriter::new(block.sealer(0), Encodings::DEFAULT);
                (keys, self.server_opener(&block), writer)
            }
            Format::Integrity => {
                let keys = self.traffic_keys(label);
                let writer = StubWriter::new(keys.sealer(0), Encodings::DEFAULT);
                let expose = KeyExpose::new(self.suite, &[]).expect("it has no key");
                (expose, keys.opener(0), writer)
            }
        }
    }

    fn key_block(&mut self) -> KeyBlock {
        let (client_random, master) = self.keylog.wait_for("CLIENT_RANDOM");
        let client_random = client_random.try_into().expect("32 bytes");
        let master = master.try_into().expect("48 bytes");
        KeyBlock::expand(self.suite, &master, &client_random, &self.server_random)
            .expect("a suite of TLS 1.2")
    }

    fn traffic_keys(&mut self, label: &str) -> TrafficKeys {
        let (_, secret) = self.keylog.wait_for(label);
        TrafficKeys::expand(self.suite, &secret).expect("a suite of TLS 1.3")
    }

    /// The key block turned round: what opens the server's own records.
    fn server_opener(&self, block: &KeyBlock) -> Opener {
        let bytes = block.secret_bytes();
        let (mac_len, key_len) = (self.suite.mac_len(), self.suite.key_len());
        let key = &bytes[2 * mac_len + key_len..];
        Opener::tls12(self.suite, &bytes[mac_len..2 * mac_len], key, 0).expect("its keys")
    }

    /// What the client sent as application data.
    fn open_client(&mut self, sent: &[u8]) -> Vec<u8> {
        let mut opener: Option<Opener> = None;
        let mut request = Vec::new();
        let mut rest = sent;
        while let Ok(tandem_split::message::Read::Whole(Message::Verbatim(record), length)) =
            Message::read(rest)
        {
            rest = &rest[length..];
            if record.record_type() == RecordType::ChangeCipherSpec {
                opener = Some(match self.suite.format() {
                    Format::Cbc => self.key_block().opener(0),
                    Format::Integrity => self
                        .traffic_keys("CLIENT_HANDSHAKE_TRAFFIC_SECRET")
                        .opener(0),
                });
                continue;
            }
            let Some(open) = &mut opener else {
                continue;
            };
            let mut fragment = record.fragment().to_vec();
            let opened = open
                .open(record.record_type(), &mut fragment)
                .expect("it is the client's");
            match opened.record_type {
                RecordType::ApplicationData => {
                    request.extend_from_slice(&fragment[opened.plaintext]);
                }
                RecordType::Handshake if self.suite.format() == Format::Integrity => {
                    opener = Some(self.traffic_keys("CLIENT_TRAFFIC_SECRET_0").opener(0));
                }
                RecordType::Handshake | RecordType::Alert | RecordType::ChangeCipherSpec => {}
            }
        }
        request
    }
}

/// What a splicer makes of these bytes.
fn splice(
    splicer: &mut Splicer,
    channel: &[u8],
    payloads: &HashMap<PayloadName, Payload>,
    mut iv: impl FnMut() -> [u8; 16],
) -> Vec<u8> {
    let mut out = Vec::new();
    assert_eq!(splicer.push(channel), Ok(channel.len()));
    while let Some(want) = splicer.poll_want() {
        let Want::Payload(name) = want else {
            panic!("no run was written");
        };
        assert!(splicer.give(&payloads[&name]));
    }
    splicer
        .write_records(&mut out, usize::MAX, &mut iv)
        .expect("all is there");
    out
}
