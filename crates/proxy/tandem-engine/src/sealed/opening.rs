//! A flight while it comes: its records opened, one after the other.
//!
//! ```text
//! ServerHello | [ChangeCipherSpec] | record 0 | record 1 | ... | record with the end of Finished
//!             key is there, or to come?   key proved
//! ```
//!
//! Behind a HelloRetryRequest it begins later in the server's stream (`retry`). A client's, which
//! answers a server's that has crossed opened (`crossed`), begins with the ChangeCipherSpec, or
//! with record 0.
//!
//! Is not: holding the flight meanwhile, which the data plane does, nor waiting for the key
//! (`late`). Invariant: the first record that does not open, or that is not what a handshake has
//! there, ends the opening.

use std::net::SocketAddr;
use std::ops::Range;

use tandem_record_key::{CLIENT_RANDOM_LEN, RecordKey, Suite};
use tandem_seal::{Layout, Opener, Sealer};
use tandem_wire::tls::handshake::MAX_BODY_LEN;
use tandem_wire::tls::stream::MessageReader;
use tandem_wire::tls::{
    ContentType, ExtensionType, HandshakeType, ProtocolVersion, Records, ServerHello,
};

use super::keys::{Randoms, ReleasedKeys, Sought};
use super::late::Awaited;
use super::message;
use super::opened::{CHANGE_CIPHER_SPEC, Opened, clear_len};
use super::server_hello::ServerHelloRecord;
use crate::event::NotOpened;
use crate::objects::Sender;

/// Bytes of a handshake message's header.
const MESSAGE_HEADER: usize = 4;

/// Bytes of a protected Finished around its verify data: the message's header, the inner type, the
/// tag (RFC 8446, sections 4.4.4 and 5.2).
const AROUND_VERIFY_DATA: usize = MESSAGE_HEADER + 1 + 16;

/// Bytes of a record with Finished alone, without its header: the shortest that holds it.
pub(super) fn protected_finished_len(suite: Suite) -> usize {
    AROUND_VERIFY_DATA
        + match suite {
            Suite::Aes128Gcm | Suite::ChaCha20Poly1305 => 32,
            Suite::Aes256Gcm => 48,
        }
}

/// A flight that is being opened.
#[derive(Debug)]
pub(crate) struct Opening {
    sender: Sender,
    randoms: Randoms,
    suite: Suite,
    place: Place,
    /// Whether the handshake resumes a session, and shows no chain (RFC 8446, section 4.2.11).
    resumes: bool,
    /// Where the clear part ends, from the flight's beginning on; so is `next`.
    clear: usize,
    /// Where the next record begins.
    next: usize,
    /// How much of the clear part has crossed.
    crossed: usize,
    /// The key that the far side has handed over, until record 0 proves it.
    given: Option<RecordKey>,
    /// Once record 0 was opened.
    proved: Option<Proved>,
    /// The opened form.
    bytes: Vec<u8>,
    layout: Layout,
    messages: MessageReader,
}

/// Where a flight lies in its connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// Where in its sender's stream it begins.
    pub(crate) start: usize,
    /// Of a server's: where in the client's stream the answer to it begins.
    pub(crate) answer: usize,
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
    Failed(NotOpened),
}

impl Progress {
    /// Whether a key has opened the first record.
    pub(crate) fn is_proved(&self) -> bool {
        match self {
            Self::Open(opening) => opening.is_proved(),
            Self::Whole(_) | Self::Failed(NotOpened::Record | NotOpened::Form) => true,
            Self::Failed(NotOpened::Unproved) => false,
        }
    }
}

/// A whole flight, opened.
#[derive(Debug)]
pub(crate) struct Unsealed {
    pub(super) opened: Opened,
    pub(super) key: RecordKey,
    layout: Layout,
    pub(super) place: Place,
    /// How much of the clear part has crossed: nothing, or all of it.
    crossed: usize,
    /// Bytes that were sent.
    length: usize,
}

impl Unsealed {
    /// The flight.
    pub(crate) fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Where in its sender's stream it lies.
    pub(crate) fn range(&self) -> Range<usize> {
        self.place.start..self.place.start + self.length
    }

    /// What of it has not crossed.
    pub(crate) fn left(&self) -> Range<usize> {
        let Range { start, end } = self.range();
        start + self.crossed..end
    }

    /// How much of the opened form has crossed.
    pub(crate) fn crossed(&self) -> usize {
        self.crossed
    }

    /// What crosses in its place, out of its sender's stream, with this delta of the opened form.
    /// Where the clear part has crossed, the key came from the reader.
    pub(crate) fn message(&self, stream: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
        let mut layout = Vec::new();
        self.layout.encode(self.opened.plaintext(), &mut layout);
        let sealed = stream.get(self.range())?;
        let key = (self.crossed == 0).then_some(&self.key);
        Some(message::write(key, &layout, sealed, delta))
    }

    /// A client's flight, which has crossed.
    pub(crate) fn into_opened(self) -> Opened {
        self.opened
    }
}

impl Opening {
    /// Begins where ServerHello has come whole, at its place in the server's stream. `None` where
    /// the hello is none that is handled: a HelloRetryRequest, or one that shares its record.
    pub(crate) fn begin(
        client_random: &[u8; CLIENT_RANDOM_LEN],
        stream: &[u8],
        place: Place,
    ) -> Option<Box<Self>> {
        let record = ServerHelloRecord::first_in(stream.get(place.start..)?)?;
        let hello = ServerHello::parse(record.body).ok()?;
        let suite = Suite::from_number(hello.cipher_suite())?;
        if hello.is_hello_retry_request() || hello.selected_version() != ProtocolVersion::TLS1_3 {
            return None;
        }
        let randoms = Randoms {
            client: *client_random,
            server: *hello.random(),
        };
        let resumes = hello
            .extensions()
            .is_some_and(|it| it.contains(ExtensionType::PRE_SHARED_KEY));
        Some(Box::new(Self {
            resumes,
            clear: record.end,
            next: record.end,
            ..Self::new(Sender::Server, randoms, suite, place)
        }))
    }

    /// A client's flight, which begins here in its stream.
    pub(crate) fn of_client(randoms: Randoms, suite: Suite, start: usize) -> Box<Self> {
        let place = Place {
            start,
            answer: start,
        };
        Box::new(Self::new(Sender::Client, randoms, suite, place))
    }

    fn new(sender: Sender, randoms: Randoms, suite: Suite, place: Place) -> Self {
        Self {
            sender,
            randoms,
            suite,
            place,
            resumes: false,
            clear: 0,
            next: 0,
            crossed: 0,
            given: None,
            proved: None,
            bytes: Vec::new(),
            layout: Layout::default(),
            messages: MessageReader::new(MAX_BODY_LEN),
        }
    }

    /// Whether the handshake resumes a session.
    pub(crate) fn resumes(&self) -> bool {
        self.resumes
    }

    /// Whether a key is there that may fit.
    pub(crate) fn has_key(&self, keys: &ReleasedKeys) -> bool {
        keys.has(&self.sought())
    }

    /// The key of the flight.
    fn sought(&self) -> Sought {
        Sought {
            direction: self.sender.direction(),
            randoms: self.randoms,
            suite: self.suite,
        }
    }

    /// Whose key that is.
    pub(crate) fn awaited(&self, server: SocketAddr) -> Awaited<SocketAddr> {
        Awaited {
            client_random: self.randoms.client,
            server_random: Some(self.randoms.server),
            endpoint: server,
        }
    }

    /// The client's random.
    pub(crate) fn client_random(&self) -> &[u8; CLIENT_RANDOM_LEN] {
        &self.randoms.client
    }

    /// Before anything was opened: where in the server's stream the clear part ends, and how many
    /// bytes of sealed records have come behind it. `None` before the first of them.
    pub(crate) fn sealed_from(&self, stream: &[u8]) -> Option<(usize, usize)> {
        let start = self.place.start;
        let clear = clear_len(stream.get(start..)?)?;
        let sealed = stream.get(start + clear..)?;
        let is_sealed = sealed.first() == Some(&ContentType::ApplicationData.as_u8());
        is_sealed.then_some((start + clear, sealed.len()))
    }

    /// Before anything was opened: bytes of sealed records that have come, where these look like
    /// all of the flight. They end with a record, and one has the length of Finished alone, or the
    /// first one is too long for EncryptedExtensions alone; tickets and data may follow. A server
    /// that writes in other pieces is waited for.
    pub(crate) fn looks_whole(&self, stream: &[u8]) -> Option<usize> {
        /// Bytes that EncryptedExtensions hardly has.
        const LONG: usize = 400;
        let (from, sealed) = self.sealed_from(stream)?;
        let finished = protected_finished_len(self.suite);
        let mut records = Records::new(stream.get(from..)?);
        let (mut has_end, mut is_first) = (false, true);
        for record in records.by_ref() {
            let length = record.ok()?.fragment.len();
            has_end |= length == finished || (is_first && length >= LONG);
            is_first = false;
        }
        (records.offset() == sealed && has_end).then_some(sealed)
    }

    /// The clear part has crossed, as far as to here in the server's stream.
    pub(crate) fn clear_crosses(&mut self, end: usize) {
        self.crossed = end.saturating_sub(self.place.start);
    }

    /// The far side has handed this key over. `false`: it is of another suite.
    pub(crate) fn give(&mut self, key: RecordKey) -> bool {
        let fits = key.suite() == self.suite;
        self.given = fits.then_some(key);
        fits
    }

    /// Where in its sender's stream the flight begins.
    pub(crate) fn start(&self) -> usize {
        self.place.start
    }

    /// Bytes that are kept.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether a key has opened the first record.
    pub(crate) fn is_proved(&self) -> bool {
        self.proved.is_some()
    }

    /// Opens what has come.
    pub(crate) fn advance(mut self: Box<Self>, stream: &[u8], keys: &mut ReleasedKeys) -> Progress {
        let stream = stream.get(self.place.start..).unwrap_or_default();
        loop {
            let Some(rest) = stream.get(self.next..) else {
                return self.failed(NotOpened::Form);
            };
            let record = match Records::new(rest).next() {
                None => return Progress::Open(self),
                Some(Err(_)) => return self.failed(NotOpened::Form),
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
                        Ok(End::Open) => {}
                        Ok(End::Finished) => return self.whole(stream),
                        Err(why) => return self.failed(why),
                    }
                }
                ContentType::ChangeCipherSpec
                | ContentType::Alert
                | ContentType::Handshake
                | ContentType::Heartbeat => return self.failed(NotOpened::Form),
            }
        }
    }

    /// It failed for this reason, if a key was proved.
    fn failed(&self, why: NotOpened) -> Progress {
        Progress::Failed(match self.is_proved() {
            true => why,
            false => NotOpened::Unproved,
        })
    }

    /// One record.
    fn open(&mut self, record: &[u8], keys: &mut ReleasedKeys) -> Result<End, NotOpened> {
        let opened = match &mut self.proved {
            Some(proved) => proved.opener.open(record).ok_or(NotOpened::Record)?,
            None => {
                let proof = |key: &RecordKey| {
                    let mut opener = Opener::new(key);
                    let opened = opener.open(record)?;
                    Some((opener, opened))
                };
                let taken = match self.given.take() {
                    Some(key) => proof(&key).map(|proved| (key, proved)),
                    None if self.crossed > 0 => None,
                    None => keys.take(&self.sought(), proof),
                };
                let (key, (opener, opened)) = taken.ok_or(NotOpened::Unproved)?;
                self.proved = Some(Proved { key, opener });
                opened
            }
        };
        if !self.layout.push(&opened) {
            return Err(NotOpened::Form);
        }
        self.bytes.extend_from_slice(&opened.content);
        self.messages_in(&opened.content).ok_or(NotOpened::Form)
    }

    /// Reads the messages of a record; `None` where they have no place there.
    fn messages_in(&mut self, content: &[u8]) -> Option<End> {
        let mut rest = content;
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

    fn whole(self: Box<Self>, stream: &[u8]) -> Progress {
        let Self {
            sender,
            place,
            clear,
            next,
            crossed,
            proved,
            bytes,
            layout,
            ..
        } = *self;
        let (Some(opened), Some(proved)) = (Opened::of(sender, bytes), proved) else {
            return Progress::Failed(NotOpened::Form);
        };
        if opened.clear != clear || ![0, clear].contains(&crossed) {
            return Progress::Failed(NotOpened::Form);
        }
        // The far side is not asked to seal what would not be the client's bytes.
        if sender == Sender::Client {
            let sealed = layout.seal(opened.plaintext(), &mut Sealer::new(&proved.key));
            if sealed.as_deref() != stream.get(clear..next) {
                return Progress::Failed(NotOpened::Form);
            }
        }
        Progress::Whole(Box::new(Unsealed {
            opened,
            key: proved.key,
            layout,
            place,
            crossed,
            length: next,
        }))
    }
}

/// Whether a record ends the flight.
enum End {
    Open,
    Finished,
}
