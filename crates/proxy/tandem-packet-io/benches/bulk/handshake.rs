//! What client and server say before the bulk data: a conversation with the layout and the sizes of
//! a TLS 1.2 handshake.
//!
//! Is not: TLS. Bytes that look random stand for certificates, keys, signatures and ciphertext;
//! records and messages are laid out as RFC 5246 has them, one message a record, so that the
//! daemons follow them to the end.

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    Client,
    Server,
}

/// Record types (RFC 5246, section 6.2.1).
const CHANGE_CIPHER_SPEC: u8 = 20;
const HANDSHAKE: u8 = 22;
pub const APPLICATION_DATA: u8 = 23;

/// TLS 1.2, as the wire has it (RFC 5246, section 6.2.1).
const VERSION: [u8; 2] = [3, 3];
/// TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 (RFC 5289, section 3.2).
const SUITE: [u8; 2] = [0xc0, 0x2f];
const NAME: &[u8] = b"www.example.org";
/// Leaf and two issuers, bytes.
const CHAIN: [usize; 3] = [926, 900, 910];

/// A full handshake, a request and an answer.
pub fn turns() -> Vec<(Speaker, Vec<u8>)> {
    let key_exchange = record(HANDSHAKE, &message(16, &noise(33, 300)));
    vec![
        (Speaker::Client, record(HANDSHAKE, &client_hello())),
        (Speaker::Server, server_flight()),
        (Speaker::Client, [key_exchange, finished(301)].concat()),
        (Speaker::Server, finished(302)),
        (Speaker::Client, record(APPLICATION_DATA, &noise(120, 303))),
        (
            Speaker::Server,
            record(APPLICATION_DATA, &noise(3_000, 304)),
        ),
    ]
}

pub fn record(content_type: u8, fragment: &[u8]) -> Vec<u8> {
    let length = (fragment.len() as u16).to_be_bytes();
    [&[content_type], &VERSION[..], &length, fragment].concat()
}

/// Bytes that look random and are the same each time (xorshift64).
pub fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// A length of three bytes, as handshake messages and certificates have it.
fn long(length: usize) -> [u8; 3] {
    let [_, long @ ..] = (length as u32).to_be_bytes();
    long
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], &long(body.len())[..], body].concat()
}

/// Version, random and a session's name: what both hellos begin with.
fn hello(seed: u64) -> Vec<u8> {
    [&VERSION[..], &noise(32, seed), &[32], &noise(32, seed + 1)].concat()
}

fn client_hello() -> Vec<u8> {
    let two = |length: usize| (length as u16).to_be_bytes();
    // RFC 6066, section 3: a list of one name of type host_name.
    let server_name = [
        &[0, 0][..],
        &two(NAME.len() + 5),
        &two(NAME.len() + 3),
        &[0],
        &two(NAME.len()),
        NAME,
    ]
    .concat();
    let body = [
        &hello(100)[..],
        &[0, 2],
        &SUITE,
        &[1, 0],
        &two(server_name.len()),
        &server_name,
    ]
    .concat();
    message(1, &body)
}

fn server_flight() -> Vec<u8> {
    let certificates: Vec<u8> = (1..)
        .zip(CHAIN)
        .flat_map(|(seed, size)| [&long(size)[..], &noise(size, seed)].concat())
        .collect();
    [
        message(2, &[&hello(200)[..], &SUITE, &[0]].concat()),
        message(11, &[&long(certificates.len())[..], &certificates].concat()),
        message(12, &noise(296, 202)),
        message(14, &[]),
    ]
    .iter()
    .flat_map(|message| record(HANDSHAKE, message))
    .collect()
}

/// ChangeCipherSpec and an encrypted Finished.
fn finished(seed: u64) -> Vec<u8> {
    let cipher = record(CHANGE_CIPHER_SPEC, &[1]);
    [cipher, record(HANDSHAKE, &noise(40, seed))].concat()
}
