//! The server's flight while it comes: its records opened, one after the other.
//!
//! ```text
//! ServerHello | [ChangeCipherSpec] | record 0 | record 1 | ... | record with the end of Finished
//!             key is there?          key proved
//! ```
//!
//! Is not: holding the flight meanwhile, which the data plane does. Invariants: nothing waits for a
//! key: one that is not there when ServerHello is whole comes too late; the first record that does
//! not open, or that is not what a handshake has there, ends the opening.

use tandem_record_key::{CLIENT_RANDOM_LEN, RecordKey, Suite};
use tandem_seal::{Layout, Opener};
use tandem_wire::tls::handshake::MAX_BODY_LEN;
use tandem_wire::tls::stream::MessageReader;
use tandem_wire::tls::{ContentType, HandshakeType, ProtocolVersion, Records, ServerHello};

use super::keys::ReleasedKeys;
use super::message;
use super::opened::{CHANGE_CIPHER_SPEC, Opened};

/// Bytes of a handshake message's header.
const MESSAGE_HEADER: usize = 4;

/// A flight that is being opened.
#[derive(Debug)]
pub(crate) struct Opening {
    client_random: [u8; CLIENT_RANDOM_LEN],
    suite: Suite,
    /// Where the clear part ends.
    clear: usize,
    /// Where the next record begins.
    next: usize,
    /// Once record 0 was opened.
    proved: Option<Proved>,
    /// The opened form.
    bytes: Vec<u8>,
    layout: Layout,
    messages: MessageReader,
}

#[derive(Debug)]
struct Proved {
    key: RecordKey,
    opener: Opener,
}

/// What came of an attempt to go on.
#[derive(Debug)]
pub(crate) enum Progress {
    /// More has to come.
    Open(Box<Opening>),
    /// The flight is whole.
    Whole(Box<Unsealed>),
    /// It passes as it is.
    Failed,
}

/// A whole flight, opened.
#[derive(Debug)]
pub(crate) struct Unsealed {
    pub(super) opened: Opened,
    pub(super) key: RecordKey,
    layout: Layout,
    /// Where in the server's stream the flight ends.
    end: usize,
}

impl Unsealed {
    /// The flight.
    pub(crate) fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Where in the server's stream it ends.
    pub(crate) fn end(&self) -> usize {
        self.end
    }

    /// What crosses in place of the front of this stream, with this delta of the opened form.
    pub(crate) fn message(&self, stream: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
        let mut layout = Vec::new();
        self.layout.encode(self.opened.plaintext(), &mut layout);
        let sealed = stream.get(..self.end)?;
        Some(message::write(&self.key, &layout, sealed, delta))
    }

    /// The flight, and the suite that its connection uses.
    pub(crate) fn into_parts(self) -> (Opened, Suite) {
        (self.opened, self.key.suite())
    }
}

impl Opening {
    /// Begins where ServerHello has come whole. `None` where no key is there that may fit, or the
    /// hello is none that is handled: a HelloRetryRequest, or one that shares its record.
    pub(crate) fn begin(
        client_random: &[u8; CLIENT_RANDOM_LEN],
        stream: &[u8],
        keys: &ReleasedKeys,
    ) -> Option<Box<Self>> {
        let record = Records::new(stream).next()?.ok()?;
        let (header, body) = record.fragment.split_first_chunk::<MESSAGE_HEADER>()?;
        let [msg_type, high, middle, low] = *header;
        let length = u32::from_be_bytes([0, high, middle, low]);
        if record.header.content_type != ContentType::Handshake
            || msg_type != HandshakeType::SERVER_HELLO.0
            || usize::try_from(length) != Ok(body.len())
        {
            return None;
        }
        let hello = ServerHello::parse(body).ok()?;
        let suite = Suite::from_number(hello.cipher_suite())?;
        if hello.is_hello_retry_request()
            || hello.selected_version() != ProtocolVersion::TLS1_3
            || !keys.has(client_random, suite)
        {
            return None;
        }
        Some(Box::new(Self {
            client_random: *client_random,
            suite,
            clear: record.range.end,
            next: record.range.end,
            proved: None,
            bytes: Vec::new(),
            layout: Layout::default(),
            messages: MessageReader::new(MAX_BODY_LEN),
        }))
    }

    /// Bytes that are kept.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Opens what has come.
    pub(crate) fn advance(mut self: Box<Self>, stream: &[u8], keys: &mut ReleasedKeys) -> Progress {
        loop {
            let Some(rest) = stream.get(self.next..) else {
                return Progress::Failed;
            };
            let record = match Records::new(rest).next() {
                None => return Progress::Open(self),
                Some(Err(_)) => return Progress::Failed,
                Some(Ok(record)) => record,
            };
            self.next += record.range.len();
            let is_first = self.clear == self.next - record.range.len() && self.bytes.is_empty();
            let bytes = &rest[record.range];
            match record.header.content_type {
                ContentType::ChangeCipherSpec if is_first && bytes == CHANGE_CIPHER_SPEC => {
                    // A second one has no place.
                    self.clear = self.next;
                    self.bytes = stream[..self.clear].to_vec();
                }
                ContentType::ApplicationData => {
                    if self.bytes.is_empty() {
                        self.bytes = stream[..self.clear].to_vec();
                    }
                    match self.open(bytes, keys) {
                        Some(End::Open) => {}
                        Some(End::Finished) => return self.whole(),
                        None => return Progress::Failed,
                    }
                }
                ContentType::ChangeCipherSpec
                | ContentType::Alert
                | ContentType::Handshake
                | ContentType::Heartbeat => return Progress::Failed,
            }
        }
    }

    /// One record.
    fn open(&mut self, record: &[u8], keys: &mut ReleasedKeys) -> Option<End> {
        let opened = match &mut self.proved {
            Some(proved) => proved.opener.open(record)?,
            None => {
                let proof = |key: &RecordKey| {
                    let mut opener = Opener::new(key);
                    let opened = opener.open(record)?;
                    Some((opener, opened))
                };
                let (key, (opener, opened)) = keys.take(&self.client_random, self.suite, proof)?;
                self.proved = Some(Proved { key, opener });
                opened
            }
        };
        if !self.layout.push(&opened) {
            return None;
        }
        self.bytes.extend_from_slice(&opened.content);
        let mut rest = &opened.content[..];
        while let Some(piece) = self.messages.read(rest).ok()? {
            rest = rest.get(piece.len..)?;
            match piece.ends {
                // RFC 8446, section 5.1: no record has messages of two keys.
                Some(header) if header.msg_type == HandshakeType::FINISHED => {
                    return rest.is_empty().then_some(End::Finished);
                }
                Some(_) | None => {}
            }
        }
        Some(End::Open)
    }

    fn whole(self: Box<Self>) -> Progress {
        let (Some(opened), Some(proved)) = (Opened::of(self.bytes), self.proved) else {
            return Progress::Failed;
        };
        if opened.clear != self.clear {
            return Progress::Failed;
        }
        Progress::Whole(Box::new(Unsealed {
            opened,
            key: proved.key,
            layout: self.layout,
            end: self.next,
        }))
    }
}

/// Whether a record ends the flight.
enum End {
    Open,
    Finished,
}
