//! The server's records before there are keys, as messages: the certificates by name, the rest as
//! it stands.
//!
//! Is: the records of a TLS library in, messages out, until its ChangeCipherSpec, or to the end of
//! what it sends in clear in TLS 1.3 (the caller knows where keys begin). The Certificate message,
//! and a staple behind it, get records of their own, so that their payload is the same for every
//! client: where messages lie in records is not part of the handshake's transcript (RFC 5246,
//! section 7.4.9). Is not: a check of the handshake; what is not understood goes on as it stands.
//!
//! Invariants: the handshake messages that leave are those that came, in order; no record of
//! another type overtakes them; at most [`MAX_MESSAGE_LEN`] and one record are kept.
//!
//! Specification: the thesis, sections 2.6 and 3.1.

use tandem_wire::tls::handshake::{self, HandshakeType};
use tandem_wire::tls::record::{HEADER_LEN, MAX_PLAINTEXT_LEN};

use crate::error::{Breach, Error};
use crate::message::{Encodings, MAX_MESSAGE_LEN as MAX_RECORD_LEN, Message, Read, Stub};
use crate::name::Payload;
use crate::seal::Mac;
use crate::suite::RecordType;

/// Longest handshake message that is kept in order to be cut out. A longer one goes on as it
/// stands.
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
    /// Whether the ChangeCipherSpec has gone out: the key-expose message is next, and this
    /// writer's work is done.
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
    /// [`Error::Malformed`] where this is no TLS, [`Error::Peer`] for an application data record:
    /// the library has keys already.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let [_, high, middle, low] = (body.len() as u32).to_be_bytes();
        [&[kind, high, middle, low], body].concat()
    }

    fn record(kind: u8, fragment: &[u8]) -> Vec<u8> {
        let [high, low] = (fragment.len() as u16).to_be_bytes();
        [&[kind, 3, 3, high, low], fragment].concat()
    }

    /// A server's first flight.
    fn flight() -> [Vec<u8>; 4] {
        [
            message(2, &[2; 70]),
            message(11, &[11; 3_000]),
            message(12, &[12; 300]),
            message(14, &[]),
        ]
    }

    fn written(records: &[u8]) -> (Vec<u8>, Written) {
        let mut out = Vec::new();
        let written = ClearWriter::new(Encodings::DEFAULT)
            .push(&mut out, records)
            .expect("TLS");
        (out, written)
    }

    #[test]
    fn the_certificate_goes_by_name_however_the_server_cuts_its_records() {
        let flight = flight();
        let together = record(22, &flight.concat());
        let apart: Vec<u8> = flight
            .iter()
            .flat_map(|message| record(22, message))
            .collect();
        let small: Vec<u8> = flight
            .concat()
            .chunks(100)
            .flat_map(|piece| record(22, piece))
            .collect();
        let certificate = Payload::new(flight[1].as_slice()).expect("short");
        let mut stub = Vec::new();
        let name = Stub::named(RecordType::Handshake, certificate.name(), &Mac::NONE);
        Message::Stub(name).write(&mut stub);
        let verbatim = |messages: &[Vec<u8>]| record(22, &messages.concat());
        let expected = [verbatim(&flight[..1]), stub, verbatim(&flight[2..])].concat();
        let (out, result) = written(&together);
        assert_eq!(out, expected);
        assert_eq!(result.published, std::slice::from_ref(&certificate));
        assert_eq!(result.taken, together.len());
        for records in [apart, small] {
            let (out, result) = written(&records);
            assert!(out.len() < 600, "{}", out.len());
            assert_eq!(result.published, std::slice::from_ref(&certificate));
            crate::fuzzing::split_clear(&records);
        }
    }

    #[test]
    fn it_stops_behind_the_change_of_cipher_spec() {
        let records = [record(22, &flight()[0]), record(20, &[1])].concat();
        let (out, result) = written(&[&records[..], b"what is no record"].concat());
        assert_eq!(out, records);
        assert!(result.changed_cipher_spec && result.taken == records.len());
    }

    #[test]
    fn what_is_not_understood_goes_as_it_stands_and_data_in_clear_does_not() {
        // A message that says it is longer than any that is kept.
        let long = [11, 2, 0, 1];
        let mut records = record(22, &long);
        for _ in 0..9 {
            records.extend(record(22, &[5; 16_384]));
        }
        records.extend(record(21, &[2, 40]));
        let (out, result) = written(&records);
        assert!(result.published.is_empty());
        let content = |bytes: &[u8]| {
            tandem_wire::tls::record::Records::new(bytes)
                .flat_map(|record| record.expect("a record").fragment.to_vec())
                .collect::<Vec<u8>>()
        };
        assert_eq!(content(&out), content(&records));
        let data = ClearWriter::new(Encodings::DEFAULT).push(&mut Vec::new(), &record(23, b"x"));
        assert_eq!(data, Err(Breach::Direction(23).into()));
        let volunteer = Encodings::RUN;
        let mut out = Vec::new();
        let flight = record(22, &flight().concat());
        let written = ClearWriter::new(volunteer).push(&mut out, &flight);
        assert_eq!((out, written.expect("TLS").published), (flight, vec![]));
    }
}
