//! TLS handshakes for the tests of this crate: the layout is real, keys and signatures are filler.
//!
//! Is not: TLS, nor part of the crate that others see.

use tandem_record_key::RecordKey;
use tandem_seal::Sealer;
use tandem_store::{Kind, MemoryStore, Site, Store};
use tandem_wire::UnixTime;
use tandem_wire::tls::ContentType;

/// The wall clock of the tests.
pub(crate) const TODAY: UnixTime = UnixTime(1_790_000_000);

/// Bytes that look random and are the same each time.
pub(crate) fn noise(length: usize, seed: u8) -> Vec<u8> {
    let mut state = u32::from(seed) | 0x9e37_7900;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect()
}

pub(crate) fn record(content_type: u8, fragment: &[u8]) -> Vec<u8> {
    let length = u16::try_from(fragment.len()).expect("a record's length");
    let mut record = vec![content_type, 3, 3];
    record.extend(length.to_be_bytes());
    record.extend(fragment);
    record
}

pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![kind];
    message.extend(&(body.len() as u32).to_be_bytes()[1..]);
    message.extend(body);
    message
}

/// A ClientHello's body; `extensions` is the block with its length, or nothing at all.
pub(crate) fn hello_body(extensions: &[u8]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend(noise(32, 1));
    body.push(0);
    body.extend([0, 4, 0xc0, 0x2f, 0, 0xff, 1, 0]);
    body.extend(extensions);
    body
}

/// An extension block with a server name.
pub(crate) fn named(name: &str) -> Vec<u8> {
    let length = name.len() as u16;
    let mut extension = vec![0, 0];
    extension.extend((length + 5).to_be_bytes());
    extension.extend((length + 3).to_be_bytes());
    extension.push(0);
    extension.extend(length.to_be_bytes());
    extension.extend(name.as_bytes());
    let mut block = (extension.len() as u16).to_be_bytes().to_vec();
    block.extend(extension);
    block
}

/// A ClientHello as a record of its own.
pub(crate) fn client_hello(extensions: &[u8]) -> Vec<u8> {
    record(22, &message(1, &hello_body(extensions)))
}

/// A ServerHello message; `version` is what it selects.
pub(crate) fn server_hello(version: u16) -> Vec<u8> {
    let mut body = version.min(0x0303).to_be_bytes().to_vec();
    body.extend(noise(32, 2));
    body.push(0);
    let suite: [u8; 2] = if version > 0x0303 {
        [0x13, 0x01]
    } else {
        [0xc0, 0x2f]
    };
    body.extend(suite);
    body.push(0);
    if version > 0x0303 {
        body.extend([0, 6, 0, 43, 0, 2]);
        body.extend(version.to_be_bytes());
    }
    message(2, &body)
}

/// A HelloRetryRequest, in its record.
pub(crate) fn hello_retry_request() -> Vec<u8> {
    let mut hello = server_hello(0x0304);
    let random = tandem_wire::tls::server_hello::HELLO_RETRY_REQUEST_RANDOM;
    hello[6..38].copy_from_slice(&random);
    record(22, &hello)
}

/// The body of a Certificate message.
pub(crate) fn certificates(chain: &[Vec<u8>]) -> Vec<u8> {
    let list: Vec<u8> = chain
        .iter()
        .flat_map(|der| [&(der.len() as u32).to_be_bytes()[1..], der].concat())
        .collect();
    [&(list.len() as u32).to_be_bytes()[1..], &list].concat()
}

/// A server's first flight, as messages.
pub(crate) fn flight(chain: &[Vec<u8>]) -> Vec<Vec<u8>> {
    vec![
        server_hello(0x0303),
        message(11, &certificates(chain)),
        message(12, &noise(200, 3)),
        message(14, &[]),
    ]
}

/// Messages in records of at most `size` bytes each, cut wherever that falls.
pub(crate) fn packed(messages: &[Vec<u8>], size: usize) -> Vec<u8> {
    messages
        .concat()
        .chunks(size)
        .flat_map(|piece| record(22, piece))
        .collect()
}

/// Messages in a record each.
pub(crate) fn apart(messages: &[Vec<u8>]) -> Vec<u8> {
    messages
        .iter()
        .flat_map(|message| record(22, message))
        .collect()
}

/// ChangeCipherSpec and an encrypted Finished.
pub(crate) fn finished() -> Vec<u8> {
    [record(20, &[1]), record(22, &noise(40, 4))].concat()
}

/// A chain of certificates of these sizes.
pub(crate) fn chain(sizes: &[usize]) -> Vec<Vec<u8>> {
    (10..)
        .zip(sizes)
        .map(|(seed, size)| noise(*size, seed))
        .collect()
}

/// A store that was taught these chains, all at one site.
pub(crate) fn store(site: &Site, chains: &[&[Vec<u8>]]) -> MemoryStore {
    let mut store = MemoryStore::default();
    for chain in chains {
        let chain: Vec<&[u8]> = chain.iter().map(Vec::as_slice).collect();
        store.learn(Kind::Chain, Some(site), &chain, TODAY);
    }
    store
}

/// Bytes of ServerHello and ChangeCipherSpec, with which a server's opened flight begins.
pub(crate) const CLEAR: usize = 5 + 4 + 2 + 32 + 1 + 2 + 1 + 8 + 6;

/// Messages that this key seals, in one record behind what is clear.
pub(crate) fn sealed(key: &RecordKey, clear: &[u8], messages: &[u8]) -> Vec<u8> {
    let mut stream = clear.to_vec();
    Sealer::new(key)
        .seal(ContentType::Handshake, messages, 0, &mut stream)
        .expect("not too long");
    stream
}

/// A server's flight of TLS 1.3 in its opened form, with certificates of these sizes and these
/// extensions behind the first.
pub(crate) fn opened_flight(sizes: &[usize], extensions: &[u8]) -> Vec<u8> {
    let mut list = Vec::new();
    for (index, der) in chain(sizes).iter().enumerate() {
        let extensions = if index == 0 { extensions } else { &[] };
        list.extend(&(der.len() as u32).to_be_bytes()[1..]);
        list.extend(der);
        list.extend((extensions.len() as u16).to_be_bytes());
        list.extend(extensions);
    }
    let certificate = [&[0], &(list.len() as u32).to_be_bytes()[1..], &list].concat();
    [
        record(22, &server_hello(0x0304)),
        record(20, &[1]),
        message(8, &[0, 0]),
        message(11, &certificate),
        message(15, &noise(260, 5)),
        message(20, &noise(32, 6)),
    ]
    .concat()
}

/// A server's flight of TLS 1.3 in its opened form that asks for a certificate, and the messages
/// that a client answers.
pub(crate) fn opened_with_request() -> [Vec<u8>; 2] {
    let mut flight = opened_flight(&[300], &[]);
    // Behind EncryptedExtensions.
    let at = CLEAR + 6;
    flight.splice(at..at, message(13, &[0, 0, 0]));
    let [first, ..] = &chain(&[250])[..] else {
        panic!("one");
    };
    let entry = [&[0, 0, 250], &first[..], &[0, 0]].concat();
    let certificate = [&[0, 0, 0, 255][..], &entry].concat();
    let answer = [
        message(11, &certificate),
        message(15, &noise(260, 7)),
        message(20, &noise(32, 8)),
    ];
    [flight, answer.concat()]
}
