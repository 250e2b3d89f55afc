//! Conversations with the shape and the sizes of TLS handshakes.
//!
//! Is not: TLS; random-looking bytes stand for keys, signatures and ciphertext. The layout of
//! records and messages is real.

use tandem_engine::Sender;

use super::Conversation;

/// Bytes that look random and are the same each time.
pub(crate) fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

/// Certificates of these sizes.
pub(crate) fn chain(sizes: &[usize], seed: u64) -> Vec<Vec<u8>> {
    (seed..)
        .zip(sizes)
        .map(|(seed, size)| noise(*size, seed))
        .collect()
}

pub(crate) fn record(content_type: u8, fragment: &[u8]) -> Vec<u8> {
    let mut record = vec![content_type, 3, 3];
    record.extend_from_slice(&(fragment.len() as u16).to_be_bytes());
    record.extend_from_slice(fragment);
    record
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![kind];
    message.extend_from_slice(&(body.len() as u32).to_be_bytes()[1..]);
    message.extend_from_slice(body);
    message
}

fn certificates(chain: &[Vec<u8>]) -> Vec<u8> {
    let list: Vec<u8> = chain
        .iter()
        .flat_map(|der| [&(der.len() as u32).to_be_bytes()[1..], der].concat())
        .collect();
    let body = [&(list.len() as u32).to_be_bytes()[1..], &list].concat();
    message(11, &body)
}

/// A hello that names the server and shows a ticket, if there is one.
pub(crate) fn client_hello(name: &str, ticket: &[u8], seed: u64) -> Vec<u8> {
    let mut extensions = Vec::new();
    let length = name.len() as u16;
    extensions.extend([0, 0]);
    extensions.extend((length + 5).to_be_bytes());
    extensions.extend((length + 3).to_be_bytes());
    extensions.push(0);
    extensions.extend(length.to_be_bytes());
    extensions.extend(name.as_bytes());
    extensions.extend([0, 35]);
    extensions.extend((ticket.len() as u16).to_be_bytes());
    extensions.extend(ticket);
    let mut body = vec![3, 3];
    body.extend(noise(32, seed));
    body.push(0);
    body.extend([0, 4, 0xc0, 0x2f, 0, 0xff, 1, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    record(22, &message(1, &body))
}

fn server_hello(is_tls13: bool, seed: u64) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend(noise(32, seed));
    body.push(0);
    body.extend([0xc0, 0x2f, 0]);
    if is_tls13 {
        body.extend([0, 6, 0, 43, 0, 2, 3, 4]);
    }
    message(2, &body)
}

/// ChangeCipherSpec and an encrypted Finished.
fn finished(seed: u64) -> Vec<u8> {
    [record(20, &[1]), record(22, &noise(40, seed))].concat()
}

fn apart(messages: &[Vec<u8>]) -> Vec<u8> {
    messages
        .iter()
        .flat_map(|message| record(22, message))
        .collect()
}

/// The server's chain.
pub(crate) fn server_chain() -> Vec<Vec<u8>> {
    chain(&[1_200, 1_100], 10)
}

/// A full TLS 1.2 handshake, and some data each way. With `client_chain` the server asks for a
/// certificate; with a ticket the server gives it at the end.
pub(crate) fn full(client_chain: &[Vec<u8>], ticket: &[u8], seed: u64) -> Conversation {
    let mut flight = vec![
        server_hello(false, seed + 1),
        certificates(&server_chain()),
        message(12, &noise(300, seed + 2)),
        message(14, &[]),
    ];
    let mut second = vec![message(16, &noise(66, seed + 3))];
    if !client_chain.is_empty() {
        flight.insert(3, message(13, &noise(40, 7)));
        second.insert(0, certificates(client_chain));
        second.push(message(15, &noise(260, seed + 4)));
    }
    let mut last = Vec::new();
    if !ticket.is_empty() {
        let mut body = 7_200u32.to_be_bytes().to_vec();
        body.extend((ticket.len() as u16).to_be_bytes());
        body.extend(ticket);
        last = record(22, &message(4, &body));
    }
    let turns = vec![
        (Sender::Client, client_hello("www.example", &[], seed)),
        (Sender::Server, apart(&flight)),
        (
            Sender::Client,
            [apart(&second), finished(seed + 5)].concat(),
        ),
        (Sender::Server, [last, finished(seed + 6)].concat()),
        (Sender::Client, record(23, &noise(500, seed + 7))),
        (Sender::Server, record(23, &noise(9_000, seed + 8))),
        (Sender::Client, record(21, &noise(26, seed + 9))),
    ];
    Conversation { turns }
}

/// A full handshake in which the server shows this chain.
pub(crate) fn showing(chain: &[Vec<u8>], seed: u64) -> Conversation {
    let flight = [
        server_hello(false, seed + 1),
        certificates(chain),
        message(12, &noise(300, seed + 2)),
        message(14, &[]),
    ];
    let mut said = full(&[], &[], seed);
    said.turns[1].1 = apart(&flight);
    said
}

/// An abbreviated handshake, whose hello shows the ticket.
pub(crate) fn resumed(ticket: &[u8], seed: u64) -> Conversation {
    let turns = vec![
        (Sender::Client, client_hello("www.example", ticket, seed)),
        (
            Sender::Server,
            [apart(&[server_hello(false, seed + 1)]), finished(seed + 2)].concat(),
        ),
        (
            Sender::Client,
            [finished(seed + 3), record(23, &noise(300, seed + 4))].concat(),
        ),
        (Sender::Server, record(23, &noise(4_000, seed + 5))),
    ];
    Conversation { turns }
}

/// TLS 1.3, with early data behind the hello.
pub(crate) fn tls13(early: usize, seed: u64) -> Conversation {
    let mut hello = client_hello("www.example", &[], seed);
    for piece in noise(early, seed + 1).chunks(16_000) {
        hello.extend(record(23, piece));
    }
    let sealed = record(23, &noise(3_000, seed + 2));
    let turns = vec![
        (Sender::Client, hello),
        (
            Sender::Server,
            [
                apart(&[server_hello(true, seed + 3)]),
                record(20, &[1]),
                sealed,
            ]
            .concat(),
        ),
        (Sender::Client, record(23, &noise(200, seed + 4))),
        (Sender::Server, record(23, &noise(2_000, seed + 5))),
    ];
    Conversation { turns }
}

/// The server does not like the hello.
pub(crate) fn alert(seed: u64) -> Conversation {
    let turns = vec![
        (Sender::Client, client_hello("www.example", &[], seed)),
        (Sender::Server, record(21, &[2, 40])),
    ];
    Conversation { turns }
}

/// A server that speaks first, and in which nobody speaks TLS.
pub(crate) fn greeting(bulk: usize) -> Conversation {
    let turns = vec![
        (Sender::Server, b"220 mail.example ESMTP\r\n".to_vec()),
        (Sender::Client, b"EHLO client.example\r\n".to_vec()),
        (Sender::Server, b"250 mail.example\r\n".to_vec()),
        (Sender::Client, noise(bulk, 3)),
        (Sender::Server, b"250 ok\r\n".to_vec()),
    ];
    Conversation { turns }
}

/// A request without TLS, and a long answer.
pub(crate) fn request(bulk: usize) -> Conversation {
    let turns = vec![
        (Sender::Client, b"GET / HTTP/1.0\r\n\r\n".to_vec()),
        (Sender::Server, noise(bulk, 4)),
    ];
    Conversation { turns }
}

/// A handshake in which the server says much behind its flight before the client answers.
pub(crate) fn flight_and_more(bulk: usize, seed: u64) -> Conversation {
    let mut said = full(&[], &[], seed);
    let mut behind = Vec::new();
    for piece in noise(bulk, seed + 20).chunks(16_000) {
        behind.extend(record(23, piece));
    }
    said.turns[1].1.extend(behind);
    said
}
