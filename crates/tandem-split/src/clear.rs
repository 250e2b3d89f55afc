//! The server's records before there are keys, as messages: the certificates by name, the rest as it stands.
//!
//! Is: the records of a TLS library in, messages out, until its ChangeCipherSpec, or to the end of what it sends in clear in
//! TLS 1.3 (the caller knows where keys begin). The Certificate message, and a staple behind it, get records of their own, so that their
//! payload is the same for every client: where messages lie in records is not part of the handshake's transcript (RFC 5246, section
//! 7.4.9). Is not: a check of the handshake; what is not understood goes on as it stands.
//!
//! Invariants: the handshake messages that leave are those that came, in order; no record of another type overtakes them; at most
//! [`MAX_MESSAGE_LEN`] and one record are kept.
//!
//! Specification: the thesis, sections 2.6 and 3.1.

use tandem_wire::tls::handshake::{self, HandshakeType};
use tandem_wire::tls::record::{HEADER_LEN, MAX_PLAINTEXT_LEN};

use crate::error::{Breach, Error};
use crate::message::{Encodings, MAX_MESSAGE_LEN as MAX_RECORD_LEN, Message, Read, Stub};
use crate::name::Payload;
use crate::seal::Mac;
use crate::suite::RecordType;

/// Longest handshake message that is kept in order to be cut out. A longer one goes on as it stands.
pub const MAX_MESSAGE_LEN: usize = 1 << 17;

/// Below this many bytes a reference saves nothing to speak of: a stub has 43.
const MIN_NAMED_LEN: usize = 64;

/// Turns a server's records in clear into messages.
#[derive(Debug)]
pub struct ClearWriter {
    encodings: Encodings,
    /// A record that is not all there.
    cut: Vec<u8>,
    /// Handshake bytes that are not yet a whole message.
    pending: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Messages,
    /// Something was not understood: everything goes on as it stands.
    AsItStands,
    Over,
}

/// What one call has done.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// How many of the bytes were taken. Fewer than all only behind the ChangeCipherSpec.
    pub taken: usize,
    /// Payloads that the messages refer to: the volunteer may ask for them.
    pub published: Vec<Payload>,
    /// Whether the ChangeCipherSpec has gone out: the key-expose message is next, and this writer's work is done.
    pub changed_cipher_spec: bool,
}

impl ClearWriter {
    /// One for a volunteer that follows `encodings`.
    #[must_use]
    pub const fn new(encodings: Encodings) -> Self {
        Self {
            encodings,
            cut: Vec::new(),
            pending: Vec::new(),
            state: State::Messages,
        }
    }

    /// Takes what the TLS library wrote, and appends messages.
    ///
    /// # Errors
    /// [`Error::Malformed`] where this is no TLS, [`Error::Peer`] for an application data record: the library has keys already.
    pub fn push(&mut self, out: &mut Vec<u8>, bytes: &[u8]) -> Result<Written, Error> {
        let mut written = Written::default();
        while self.state != State::Over && written.taken < bytes.len() {
            let room = MAX_RECORD_LEN - self.cut.len();
            let rest = &bytes[written.taken..];
            let had = self.cut.len();
            self.cut.extend_from_slice(&rest[..rest.len().min(room)]);
            let whole = std::mem::take(&mut self.cut);
            match Message::read(&whole)? {
                Read::Cut { .. } => {
                    written.taken += whole.len() - had;
                    self.cut = whole;
                }
                Read::Whole(Message::Verbatim(record), length) => {
                    self.record(
                        out,
                        record.record_type(),
                        record.bytes(),
                        &mut written.published,
                    )?;
                    // What was cut before ended in this record: it was no whole one.
                    written.taken += length - had;
                }
                Read::Whole(..) => return Err(Breach::Direction(whole[0]).into()),
            }
        }
        written.changed_cipher_spec = self.state == State::Over;
        Ok(written)
    }

    fn record(
        &mut self,
        out: &mut Vec<u8>,
        record_type: RecordType,
        bytes: &[u8],
        published: &mut Vec<Payload>,
    ) -> Result<(), Error> {
        match record_type {
            RecordType::Handshake if self.state == State::Messages => {
                self.pending.extend_from_slice(&bytes[HEADER_LEN..]);
                self.messages(out, published)?;
                if self.pending.len() > MAX_MESSAGE_LEN {
                    self.flush(out);
                    self.state = State::AsItStands;
                }
            }
            RecordType::Handshake | RecordType::Alert => {
                self.flush(out);
                out.extend_from_slice(bytes);
            }
            RecordType::ChangeCipherSpec => {
                self.flush(out);
                out.extend_from_slice(bytes);
                self.state = State::Over;
            }
            RecordType::ApplicationData => return Err(Breach::Direction(bytes[0]).into()),
        }
        Ok(())
    }

    /// Appends what is whole of the pending messages.
    fn messages(&mut self, out: &mut Vec<u8>, published: &mut Vec<Payload>) -> Result<(), Error> {
        let pending = std::mem::take(&mut self.pending);
        let (mut plain_from, mut at) = (0, 0);
        while let Some(message) = first_message(&pending[at..]) {
            let may_repeat = matches!(
                HandshakeType(message[0]),
                HandshakeType::CERTIFICATE | HandshakeType::CERTIFICATE_STATUS
            );
            if may_repeat
                && message.len() >= MIN_NAMED_LEN
                && self.encodings.contains(Encodings::SHA256)
            {
                write_plain(out, &pending[plain_from..at]);
                for piece in message.chunks(MAX_PLAINTEXT_LEN) {
                    let payload = Payload::new(piece)?;
                    let stub = Stub::named(RecordType::Handshake, payload.name(), &Mac::NONE);
                    Message::Stub(stub).write(out);
                    published.push(payload);
                }
                plain_from = at + message.len();
            }
            at += message.len();
        }
        write_plain(out, &pending[plain_from..at]);
        self.pending = pending[at..].to_vec();
        Ok(())
    }

    /// Appends what waits for its end: it will not be cut out.
    fn flush(&mut self, out: &mut Vec<u8>) {
        write_plain(out, &std::mem::take(&mut self.pending));
    }
}

/// The handshake message at the front, header included, if it is all there.
fn first_message(bytes: &[u8]) -> Option<&[u8]> {
    let [_, high, middle, low] = *bytes.first_chunk::<{ handshake::HEADER_LEN }>()?;
    let len = u32::from_be_bytes([0, high, middle, low]) as usize;
    bytes.get(..handshake::HEADER_LEN + len)
}

/// Appends handshake bytes as verbatim records.
fn write_plain(out: &mut Vec<u8>, bytes: &[u8]) {
    for piece in bytes.chunks(MAX_PLAINTEXT_LEN) {
        let [high, low] = (piece.len() as u16).to_be_bytes();
        out.extend_from_slice(&[RecordType::Handshake.as_u8(), 3, 3, high, low]);
        out.extend_from_slice(piece);
    }
}
