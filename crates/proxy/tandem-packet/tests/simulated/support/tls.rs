//! A conversation with the shape and the sizes of a TLS 1.2 handshake, for hosts that speak from a
//! script.
//!
//! Is not: TLS; random-looking bytes stand for keys, signatures and ciphertext. The layout of
//! records and messages is real.

use tandem_netsim::Script;
use tandem_netsim::script::Speaker;

/// How messages are put into records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// One message a record, as OpenSSL does.
    MessageARecord,
    /// The whole flight in records of at most so many bytes, as NSS, rustls and Java do.
    Packed(usize),
}

/// What each side says, and the chain in it.
#[derive(Debug, Clone)]
pub struct Conversation {
    pub chain: Vec<Vec<u8>>,
    pub turns: Vec<(Speaker, Vec<u8>)>,
    pub from_client: Vec<u8>,
    pub from_server: Vec<u8>,
}

/// Bytes that look random and are the same each time.
pub fn noise(length: usize, seed: u64) -> Vec<u8> {
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

/// Certificates of these sizes; their content is noise, which a store takes too.
pub fn chain(sizes: &[usize]) -> Vec<Vec<u8>> {
    (1..)
        .zip(sizes)
        .map(|(seed, size)| noise(*size, seed))
        .collect()
}

pub fn record(content_type: u8, version: u16, fragment: &[u8]) -> Vec<u8> {
    let mut record = vec![content_type];
    record.extend_from_slice(&version.to_be_bytes());
    record.extend_from_slice(&(fragment.len() as u16).to_be_bytes());
    record.extend_from_slice(fragment);
    record
}

pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![kind];
    message.extend_from_slice(&(body.len() as u32).to_be_bytes()[1..]);
    message.extend_from_slice(body);
    message
}

/// A ClientHello with a server name and, if asked for, filler up to a size.
pub fn client_hello(name: Option<&str>, filler: usize) -> Vec<u8> {
    client_hello_with(name, filler, &[])
}

/// The extension by which a client names its chain: its number, its length and 16 bytes for each
/// certificate.
pub fn intention(chain: &[Vec<u8>]) -> Vec<u8> {
    let mut extension = vec![0, 0x9a];
    extension.extend((chain.len() as u16 * 16).to_be_bytes());
    for der in chain {
        extension.extend(tandem_store::Digest::of(der).prefix16());
    }
    extension
}

/// The extension by which a client shows a session ticket.
pub fn showing(ticket: &[u8]) -> Vec<u8> {
    let mut extension = vec![0, 35];
    extension.extend((ticket.len() as u16).to_be_bytes());
    extension.extend(ticket);
    extension
}

/// The same with more extensions.
pub fn client_hello_with(name: Option<&str>, filler: usize, more: &[u8]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend(noise(32, 100));
    body.push(32);
    body.extend(noise(32, 101));
    body.extend([0, 4, 0xc0, 0x2f, 0, 0xff, 1, 0]);
    let mut extensions = Vec::new();
    if let Some(name) = name {
        let length = name.len() as u16;
        extensions.extend([0, 0]);
        extensions.extend((length + 5).to_be_bytes());
        extensions.extend((length + 3).to_be_bytes());
        extensions.push(0);
        extensions.extend(length.to_be_bytes());
        extensions.extend(name.as_bytes());
    }
    extensions.extend([0, 23, 0, 0]);
    extensions.extend(more);
    if filler > 0 {
        extensions.extend([0, 21]);
        extensions.extend((filler as u16).to_be_bytes());
        extensions.extend(vec![0; filler]);
    }
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    record(22, 0x0301, &message(1, &body))
}

/// The body of a Certificate message.
fn list(chain: &[Vec<u8>]) -> Vec<u8> {
    let mut list = Vec::new();
    for der in chain {
        list.extend_from_slice(&(der.len() as u32).to_be_bytes()[1..]);
        list.extend_from_slice(der);
    }
    let mut body = (list.len() as u32).to_be_bytes()[1..].to_vec();
    body.extend(list);
    body
}

/// The messages of a server's first flight.
pub fn server_flight(chain: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut hello = vec![3, 3];
    hello.extend(noise(32, 200));
    hello.push(32);
    hello.extend(noise(32, 201));
    hello.extend([0xc0, 0x2f, 0]);
    hello.extend([0, 5, 0xff, 1, 0, 1, 0]);
    vec![
        message(2, &hello),
        message(11, &list(chain)),
        message(12, &noise(296, 202)),
        message(14, &[]),
    ]
}

/// Messages as records.
pub fn records(messages: &[Vec<u8>], layout: Layout) -> Vec<u8> {
    match layout {
        Layout::MessageARecord => messages
            .iter()
            .flat_map(|message| {
                message
                    .chunks(1 << 14)
                    .flat_map(|piece| record(22, 0x0303, piece))
            })
            .collect(),
        Layout::Packed(size) => messages
            .concat()
            .chunks(size)
            .flat_map(|piece| record(22, 0x0303, piece))
            .collect(),
    }
}

/// The messages in records that hold nothing else.
fn messages(mut records: &[u8]) -> Vec<Vec<u8>> {
    let length = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte))
    };
    let mut all = Vec::new();
    while !records.is_empty() {
        let (record, rest) = records.split_at(5 + length(&records[3..5]));
        all.extend_from_slice(&record[5..]);
        records = rest;
    }
    let mut messages = Vec::new();
    while !all.is_empty() {
        let rest = all.split_off(4 + length(&all[1..4]));
        messages.push(std::mem::replace(&mut all, rest));
    }
    messages
}

/// ChangeCipherSpec and an encrypted Finished.
pub fn finished(seed: u64) -> Vec<u8> {
    [
        record(20, 0x0303, &[1]),
        record(22, 0x0303, &noise(40, seed)),
    ]
    .concat()
}

/// A ServerHello that selects TLS 1.3.
pub fn server_hello13() -> Vec<u8> {
    let mut hello = vec![3, 3];
    hello.extend(noise(32, 200));
    hello.push(32);
    hello.extend(noise(32, 201));
    hello.extend([0x13, 0x01, 0]);
    hello.extend([0, 6, 0, 43, 0, 2, 3, 4]);
    message(2, &hello)
}

impl Conversation {
    /// A full handshake, a request and an answer.
    pub fn with_chain(chain: &[Vec<u8>]) -> Self {
        Self::new(
            client_hello(Some(super::NAME), 0),
            chain,
            Layout::MessageARecord,
        )
    }

    pub fn new(hello: Vec<u8>, chain: &[Vec<u8>], layout: Layout) -> Self {
        let key_exchange = record(22, 0x0303, &message(16, &noise(33, 300)));
        let turns = vec![
            (Speaker::Client, hello),
            (Speaker::Server, records(&server_flight(chain), layout)),
            (Speaker::Client, [key_exchange, finished(301)].concat()),
            (Speaker::Server, finished(302)),
            (Speaker::Client, record(23, 0x0303, &noise(120, 303))),
            (Speaker::Server, record(23, 0x0303, &noise(3_000, 304))),
        ];
        Self::of(chain.to_vec(), turns)
    }

    /// A full handshake in which the server asks for a certificate, and the client shows this
    /// chain; an empty one says that it has none.
    pub fn mutual(hello: Vec<u8>, chain: &[Vec<u8>], client: &[Vec<u8>], layout: Layout) -> Self {
        let mut asking = server_flight(chain);
        // Before the ServerHelloDone (RFC 5246, section 7.3).
        asking.insert(3, message(13, &noise(60, 203)));
        let mut answer = vec![message(11, &list(client)), message(16, &noise(66, 300))];
        if !client.is_empty() {
            answer.push(message(15, &noise(260, 305)));
        }
        let mut conversation = Self::new(hello, chain, layout);
        conversation.turns[1].1 = records(&asking, layout);
        conversation.turns[2].1 = [records(&answer, layout), finished(301)].concat();
        Self::of(chain.to_vec(), conversation.turns)
    }

    /// The same with a staple behind the server's chain (RFC 6066, section 8).
    #[must_use]
    pub fn stapled(mut self, staple: &[u8], layout: Layout) -> Self {
        let mut flight = messages(&self.turns[1].1);
        flight.insert(2, message(22, staple));
        self.turns[1].1 = records(&flight, layout);
        Self::of(self.chain, self.turns)
    }

    /// What the server's flight has beside the chain that comes again in the next: staple and
    /// request.
    pub fn beside(&self) -> Vec<u8> {
        let flight = messages(&self.turns[1].1).into_iter();
        flight
            .filter(|message| [13, 22].contains(&message[0]))
            .flatten()
            .collect()
    }

    /// An abbreviated handshake: the server has a session, and shows no certificate.
    pub fn resumed(hello: Vec<u8>, chain: &[Vec<u8>]) -> Self {
        let server_hello = records(&server_flight(chain)[..1], Layout::MessageARecord);
        let turns = vec![
            (Speaker::Client, hello),
            (Speaker::Server, [server_hello, finished(302)].concat()),
            (Speaker::Client, finished(301)),
            (Speaker::Client, record(23, 0x0303, &noise(120, 303))),
            (Speaker::Server, record(23, 0x0303, &noise(3_000, 304))),
        ];
        Self::of(chain.to_vec(), turns)
    }

    /// The same with a session ticket that the server gives before its ChangeCipherSpec (RFC 5077,
    /// section 3.1).
    #[must_use]
    pub fn giving(mut self, ticket: &[u8]) -> Self {
        let mut body = 7_200u32.to_be_bytes().to_vec();
        body.extend((ticket.len() as u16).to_be_bytes());
        body.extend(ticket);
        let message = record(22, 0x0303, &message(4, &body));
        let finished = finished(302);
        for (speaker, bytes) in &mut self.turns {
            if *speaker == Speaker::Server && bytes.ends_with(&finished) {
                let at = bytes.len() - finished.len();
                bytes.splice(at..at, message.clone());
            }
        }
        Self::of(self.chain, self.turns)
    }

    /// TLS 1.3: all after the ServerHello looks like application data.
    pub fn tls13(hello: Vec<u8>, chain: &[Vec<u8>]) -> Self {
        let mut flight = record(22, 0x0303, &server_hello13());
        flight.extend(record(20, 0x0303, &[1]));
        for der in chain {
            flight.extend(record(23, 0x0303, &noise(der.len() + 17, 305)));
        }
        let answer = [
            record(20, 0x0303, &[1]),
            record(23, 0x0303, &noise(53, 306)),
        ];
        let turns = vec![
            (Speaker::Client, hello),
            (Speaker::Server, flight),
            (Speaker::Client, answer.concat()),
            (Speaker::Client, record(23, 0x0303, &noise(120, 303))),
            (Speaker::Server, record(23, 0x0303, &noise(3_000, 304))),
        ];
        Self::of(chain.to_vec(), turns)
    }

    /// Something else on this port.
    pub fn not_tls(chain: &[Vec<u8>]) -> Self {
        let turns = vec![
            (Speaker::Server, b"220 mail.example.org ESMTP\r\n".to_vec()),
            (Speaker::Client, b"EHLO client.example.org\r\n".to_vec()),
            (Speaker::Server, noise(5_000, 307)),
        ];
        Self::of(chain.to_vec(), turns)
    }

    /// A client that does not like what the server shows.
    pub fn alerted(hello: Vec<u8>, chain: &[Vec<u8>], layout: Layout) -> Self {
        let turns = vec![
            (Speaker::Client, hello),
            (Speaker::Server, records(&server_flight(chain), layout)),
            // RFC 5246, section 7.2: fatal, bad_certificate.
            (Speaker::Client, record(21, 0x0303, &[2, 42])),
        ];
        Self::of(chain.to_vec(), turns)
    }

    pub fn of(chain: Vec<Vec<u8>>, turns: Vec<(Speaker, Vec<u8>)>) -> Self {
        let said = |who| {
            turns
                .iter()
                .filter(|(speaker, _)| *speaker == who)
                .flat_map(|(_, bytes)| bytes.clone())
                .collect()
        };
        Self {
            from_client: said(Speaker::Client),
            from_server: said(Speaker::Server),
            chain,
            turns,
        }
    }

    pub fn scripts(&self) -> (Script, Script) {
        let turns: Vec<_> = self
            .turns
            .iter()
            .map(|(speaker, bytes)| (*speaker, bytes.as_slice()))
            .collect();
        Script::conversation(&turns)
    }
}
