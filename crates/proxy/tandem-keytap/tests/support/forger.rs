//! Somebody between a client and a server who has released handshake keys, and seals the flight of
//! one of them again, as it was or forged.
//!
//! Is not: a proxy. Everything he knows besides the key has crossed in clear or was opened with it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::Mutex;
use std::thread::scope;

use sha2::{Digest as _, Sha256};
use tandem_record_key::{CLIENT_RANDOM_LEN, Direction, RecordKey};
use tandem_seal::{Opener, Sealer};
use tandem_wire::tls::{ContentType, Records};

use super::keys::only;
use super::{Keys, Pki, Preload, program, run};

/// Bytes of a record's header, of a message's, and of a hello in front of its random.
const RECORD_HEADER: usize = 5;
const MESSAGE_HEADER: usize = 4;
const BEFORE_RANDOM: usize = RECORD_HEADER + MESSAGE_HEADER + 2;

/// Types of messages (RFC 8446, section 4).
pub(crate) const ENCRYPTED_EXTENSIONS: u8 = 8;
pub(crate) const CERTIFICATE: u8 = 11;
pub(crate) const CERTIFICATE_VERIFY: u8 = 15;
pub(crate) const FINISHED: u8 = 20;

/// What becomes of the flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forgery {
    /// The same messages in other records, padded.
    Recut,
    /// One bit of a message of this type is another, where the message stays well-formed.
    Bit(u8),
    /// A message of this type is left out.
    Without(u8),
    /// Certificate and CertificateVerify are his own: his key has signed the transcript.
    Impostor,
    /// A client shows no certificate: its Certificate is empty, and CertificateVerify left out.
    Nobody,
}

/// Whose flight it is.
#[derive(Debug, Clone, Copy)]
struct Whose {
    /// What its signature is over begins so (RFC 8446, section 4.4.3).
    context: &'static [u8],
    /// The certificate that the forger has of his own.
    forgers: &'static str,
}

const SERVERS: Whose = Whose {
    context: b"TLS 1.3, server CertificateVerify\0",
    forgers: "leaf",
};

const CLIENTS: Whose = Whose {
    context: b"TLS 1.3, client CertificateVerify\0",
    forgers: "server",
};

/// Where the client connects to.
#[derive(Debug)]
pub(crate) struct Forger {
    listener: TcpListener,
    pub(crate) port: u16,
}

impl Forger {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        Self { listener, port }
    }

    /// Carries one connection to a server that releases its keys here. Returns once both have
    /// closed, and the flight was forged.
    #[track_caller]
    pub(crate) fn carry(&self, server: u16, keys: &Keys, forgery: Forgery) {
        let (client, server, hello) = self.begun(server);
        scope(|scope| {
            scope.spawn(|| pass(&client, &server));
            let mut stream = Vec::new();
            while clear_len(&stream).is_none() {
                read_more(&server, &mut stream);
            }
            // The server hands it over before it seals anything with it.
            let key = keys.of(&hello[BEFORE_RANDOM..][..CLIENT_RANDOM_LEN]);
            let client_hello = &hello[RECORD_HEADER..];
            let flight = loop {
                if let Some(flight) = Flight::of_server(client_hello, &stream, &key) {
                    break flight;
                }
                read_more(&server, &mut stream);
            };
            let mut sent = stream[..flight.clear].to_vec();
            let rest = &stream[flight.end..];
            flight.forged(forgery, &mut sent);
            sent.extend_from_slice(rest);
            // A client that has refused may have gone.
            let _ = (&client).write_all(&sent);
            pass(&server, &client);
        });
    }

    /// Carries one connection of a client that releases its keys here, and forges its flight.
    #[track_caller]
    pub(crate) fn carry_client(&self, server: u16, keys: &Keys, forgery: Forgery) {
        let (client, server, hello) = self.begun(server);
        let said = Mutex::new(Vec::new());
        scope(|scope| {
            scope.spawn(|| pass_and_keep(&server, &client, &said));
            let mut stream = Vec::new();
            while clear_len(&stream).is_none() {
                read_more(&client, &mut stream);
            }
            // The client hands both over before it seals anything, and answers a whole flight.
            let keys = keys.come();
            let said = said.lock().expect("nobody fails").clone();
            let key = only(&keys, Direction::FromServer);
            let servers = Flight::of_server(&hello[RECORD_HEADER..], &said, key);
            let servers = servers.expect("the flight that it answers");
            let before = [servers.before, servers.messages.concat()].concat();
            let key = only(&keys, Direction::FromClient);
            let flight = loop {
                if let Some(flight) = Flight::of(CLIENTS, before.clone(), &stream, key) {
                    break flight;
                }
                read_more(&client, &mut stream);
            };
            let mut sent = stream[..flight.clear].to_vec();
            let rest = &stream[flight.end..];
            flight.forged(forgery, &mut sent);
            sent.extend_from_slice(rest);
            // A server that has refused may have gone.
            let _ = (&server).write_all(&sent);
            pass(&client, &server);
        });
    }

    /// A connection, whose hello has been passed on.
    #[track_caller]
    fn begun(&self, server: u16) -> (TcpStream, TcpStream, Vec<u8>) {
        let (client, _) = self.listener.accept().expect("a client comes");
        let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).expect("it is there");
        let mut hello = Vec::new();
        while Records::new(&hello).next().is_none() {
            read_more(&client, &mut hello);
        }
        (&server).write_all(&hello).expect("it reads");
        (client, server, hello)
    }
}

#[track_caller]
fn read_more(mut from: &TcpStream, kept: &mut Vec<u8>) {
    let mut buffer = [0; 16 << 10];
    match from.read(&mut buffer) {
        Ok(read @ 1..) => kept.extend_from_slice(&buffer[..read]),
        other => panic!("the handshake breaks off before it is forged: {other:?}"),
    }
}

fn pass(mut from: &TcpStream, mut to: &TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}

/// As [`pass`], and keeps what passes from before it does.
fn pass_and_keep(mut from: &TcpStream, mut to: &TcpStream, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let mut kept = kept.lock().expect("nobody fails");
        kept.extend_from_slice(&buffer[..read]);
        drop(kept);
        let _ = to.write_all(&buffer[..read]);
    }
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}

/// Where in an end's stream the sealed part begins, if that is there.
fn clear_len(stream: &[u8]) -> Option<usize> {
    let mut records = Records::new(stream).map_while(Result::ok);
    let sealed = records.find(|record| record.header.content_type == ContentType::ApplicationData);
    Some(sealed?.range.start)
}

/// A flight, opened.
struct Flight<'a> {
    whose: Whose,
    key: &'a RecordKey,
    /// The messages in front of it.
    before: Vec<u8>,
    /// Where in its stream the sealed part begins and ends.
    clear: usize,
    end: usize,
    messages: Vec<Vec<u8>>,
}

impl<'a> Flight<'a> {
    /// The flight at the front of the server's stream, if that is whole.
    fn of_server(client_hello: &[u8], stream: &[u8], key: &'a RecordKey) -> Option<Self> {
        let server_hello = Records::new(stream).next()?.ok()?;
        let hellos = [client_hello, &stream[server_hello.fragment_range()]].concat();
        Self::of(SERVERS, hellos, stream, key)
    }

    /// The flight behind these messages, at the front of what its sender sends after them.
    fn of(whose: Whose, before: Vec<u8>, stream: &[u8], key: &'a RecordKey) -> Option<Self> {
        let clear = clear_len(stream)?;
        let mut opener = Opener::new(key);
        let mut plaintext = Vec::new();
        for record in Records::new(&stream[clear..]).map_while(Result::ok) {
            let end = clear + record.range.end;
            let opened = opener.open(&stream[clear + record.range.start..end]);
            let opened = opened.expect("a record of the flight");
            assert_eq!(opened.content_type, ContentType::Handshake);
            plaintext.extend(opened.content);
            let messages = messages(&plaintext);
            if messages.last().is_some_and(|last| last[0] == FINISHED) {
                return Some(Self {
                    whose,
                    key,
                    before,
                    clear,
                    end,
                    messages,
                });
            }
        }
        None
    }

    /// Appends the flight's records, forged.
    fn forged(mut self, forgery: Forgery, out: &mut Vec<u8>) {
        match forgery {
            Forgery::Recut => return self.recut(out),
            Forgery::Bit(kind) => {
                let message = self.message(kind);
                let at = bit(kind, message);
                message[at] ^= 1;
            }
            Forgery::Without(kind) => self.messages.retain(|message| message[0] != kind),
            Forgery::Impostor => self.impersonate(),
            Forgery::Nobody => {
                *self.message(CERTIFICATE) = message(CERTIFICATE, &[0; 4]);
                self.messages.retain(|it| it[0] != CERTIFICATE_VERIFY);
            }
        }
        let mut sealer = Sealer::new(self.key);
        for message in &self.messages {
            let sealed = sealer.seal(ContentType::Handshake, message, 0, out);
            sealed.expect("short enough");
        }
    }

    fn recut(&self, out: &mut Vec<u8>) {
        let mut sealer = Sealer::new(self.key);
        for (number, piece) in self.messages.concat().chunks(200).enumerate() {
            let sealed = sealer.seal(ContentType::Handshake, piece, 10 * number, out);
            sealed.expect("short enough");
        }
    }

    #[track_caller]
    fn message(&mut self, kind: u8) -> &mut Vec<u8> {
        let mut messages = self.messages.iter_mut();
        let found = messages.find(|message| message[0] == kind);
        found.expect("it sends one")
    }

    /// RFC 8446, section 4.4.3, with ECDSA on P-256.
    fn impersonate(&mut self) {
        let pki = Pki::shared();
        let mut openssl = program("openssl", Preload::No);
        let [certificate, key] = ["pem", "key"].map(|kind| {
            let name = format!("{}.{kind}", self.whose.forgers);
            pki.path(&name)
        });
        let der = openssl.args(["x509", "-outform", "DER", "-in", &certificate]);
        let der = run(der).stdout;
        let entry = [&u24(der.len())[..], &der, &[0, 0]].concat();
        let list = [&[0][..], &u24(entry.len()), &entry].concat();
        *self.message(CERTIFICATE) = message(CERTIFICATE, &list);
        let mut transcript = Sha256::new_with_prefix(&self.before);
        let signed = |message: &&Vec<u8>| message[0] != CERTIFICATE_VERIFY;
        for message in self.messages.iter().take_while(signed) {
            transcript.update(message);
        }
        let mut content = vec![b' '; 64];
        content.extend(self.whose.context);
        content.extend(transcript.finalize());
        let signature = sign(&key, &content);
        let length = u24(signature.len());
        let body = [&[4, 3], &length[1..], &signature].concat();
        *self.message(CERTIFICATE_VERIFY) = message(CERTIFICATE_VERIFY, &body);
    }
}

/// Whole messages at the front.
fn messages(mut plaintext: &[u8]) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    while let Some(&[_, high, middle, low]) = plaintext.first_chunk() {
        let length = MESSAGE_HEADER + u32::from_be_bytes([0, high, middle, low]) as usize;
        let Some((message, rest)) = plaintext.split_at_checked(length) else {
            break;
        };
        messages.push(message.to_vec());
        plaintext = rest;
    }
    messages
}

/// Where the lowest bit of a message may be another, without that its form tells.
#[track_caller]
fn bit(kind: u8, message: &[u8]) -> usize {
    match kind {
        // The protocol that was chosen is another one that the client has offered.
        ENCRYPTED_EXTENSIONS => {
            let chosen = message.windows(3).position(|three| three == b"\x02h2");
            chosen.expect("the server has chosen h2") + 2
        }
        // The last byte of the first certificate's signature; in front of it are the context's
        // length, the list's and the certificate's.
        CERTIFICATE => {
            let length = &message[MESSAGE_HEADER + 1 + 3..][..3];
            let length = u32::from_be_bytes([0, length[0], length[1], length[2]]) as usize;
            MESSAGE_HEADER + 1 + 3 + 3 + length - 1
        }
        // The end of the signature; of the MAC.
        _ => message.len() - 1,
    }
}

fn u24(length: usize) -> [u8; 3] {
    let [_, high, middle, low] = u32::try_from(length).expect("short").to_be_bytes();
    [high, middle, low]
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &u24(body.len()), body].concat()
}

fn sign(key: &str, content: &[u8]) -> Vec<u8> {
    let mut openssl = program("openssl", Preload::No);
    let mut child = openssl
        .args(["dgst", "-sha256", "-sign", key])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("openssl is there");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(content).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    output.stdout
}
