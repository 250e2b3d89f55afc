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
//! another type overtakes them; at most [`MAX_MESSAGE_LEN`] and two records are kept.
//!
//! Specification: the thesis, sections 2.6 and 3.1.

use tandem_wire::TlsError;
use tandem_wire::tls::record::{HEADER_LEN, MAX_PLAINTEXT_LEN};
use tandem_wire::tls::stream::{Content, Framed, MessageBuffer, Plaintext, RecordReader};
use tandem_wire::tls::{HandshakeType, Record, handshake};

use crate::error::{Breach, Error, Malformed};
use crate::message::{Encodings, Message, Stub};
use crate::payload::Payload;
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
    plaintext: Plaintext,
    /// `None`: something was not understood, and everything goes on as it stands.
    messages: Option<MessageBuffer>,
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
            plaintext: Plaintext::new(),
            messages: Some(MessageBuffer::new(MAX_MESSAGE_LEN - handshake::HEADER_LEN)),
        }
    }

    /// Takes what the TLS library wrote, and appends messages.
    ///
    /// # Errors
    /// [`Error::Malformed`] where this is no TLS, [`Error::Peer`] for an application data record:
    /// the library has keys already.
    pub fn push(&mut self, out: &mut Vec<u8>, bytes: &[u8]) -> Result<Written, Error> {
        let mut written = Written::default();
        while !self.plaintext.is_protected() {
            let mut cut = std::mem::take(&mut self.cut);
            let framed = RecordReader::new().peek(&cut);
            let missing = match framed.map_err(|error| malformed(error, &cut))? {
                Framed::Whole(record) => {
                    self.record(out, &record, &cut, &mut written.published)?;
                    continue;
                }
                Framed::Cut => HEADER_LEN - cut.len(),
                Framed::Begun(header) => header.record_len() - cut.len(),
            };
            let rest = &bytes[written.taken..];
            let more = &rest[..rest.len().min(missing)];
            cut.extend_from_slice(more);
            self.cut = cut;
            written.taken += more.len();
            if more.is_empty() {
                break;
            }
        }
        written.changed_cipher_spec = self.plaintext.is_protected();
        Ok(written)
    }

    fn record(
        &mut self,
        out: &mut Vec<u8>,
        record: &Record<'_>,
        bytes: &[u8],
        published: &mut Vec<Payload>,
    ) -> Result<(), Error> {
        let content_type = record.header.content_type;
        match self.plaintext.take(content_type, record.fragment) {
            Content::Handshake if self.messages.is_some() => {
                return self.take_messages(out, record.fragment, published);
            }
            Content::Handshake
            | Content::Alert
            | Content::Compatibility
            | Content::ChangeCipherSpec => {
                self.flush(out);
                out.extend_from_slice(bytes);
            }
            Content::Heartbeat => return Err(Malformed::Type(content_type.as_u8()).into()),
            Content::Protected => return Err(Breach::Direction(content_type.as_u8()).into()),
        }
        Ok(())
    }

    /// Appends the messages that a fragment makes whole.
    fn take_messages(
        &mut self,
        out: &mut Vec<u8>,
        fragment: &[u8],
        published: &mut Vec<Payload>,
    ) -> Result<(), Error> {
        let Some(mut messages) = self.messages.take() else {
            return Ok(());
        };
        let may_name = self.encodings.contains(Encodings::SHA256);
        let mut plain = Vec::new();
        let mut named = Ok(());
        let pushed = messages.push(fragment, |message| {
            let may_repeat = matches!(
                message.msg_type,
                HandshakeType::CERTIFICATE | HandshakeType::CERTIFICATE_STATUS
            );
            if may_repeat && may_name && message.bytes.len() >= MIN_NAMED_LEN && named.is_ok() {
                write_plain(out, &std::mem::take(&mut plain));
                named = name(out, message.bytes, published);
            } else {
                plain.extend_from_slice(message.bytes);
            }
        });
        named?;
        if pushed.is_err() {
            plain.append(&mut messages.give_up());
        } else {
            self.messages = Some(messages);
        }
        write_plain(out, &plain);
        Ok(())
    }

    /// Appends what waits for its end: it will not be cut out.
    fn flush(&mut self, out: &mut Vec<u8>) {
        if let Some(messages) = &mut self.messages {
            write_plain(out, &messages.give_up());
        }
    }
}

/// Appends references to a message in place of it.
fn name(out: &mut Vec<u8>, message: &[u8], published: &mut Vec<Payload>) -> Result<(), Error> {
    for piece in message.chunks(MAX_PLAINTEXT_LEN) {
        let payload = Payload::new(piece)?;
        let stub = Stub::named(RecordType::Handshake, payload.name(), &Mac::NONE);
        Message::Stub(stub).write(out);
        published.push(payload);
    }
    Ok(())
}

/// Why the front of these bytes is no record.
fn malformed(error: TlsError, bytes: &[u8]) -> Malformed {
    let kind = bytes.first().copied().unwrap_or_default();
    match error {
        TlsError::BadRecordVersion(version) => Malformed::Version(version),
        TlsError::RecordTooLong(length) => Malformed::TooLong { kind, length },
        TlsError::BadContentType(_)
        | TlsError::SslV2Hello
        | TlsError::EmptyFragment
        | TlsError::UnexpectedRecord
        | TlsError::Truncated
        | TlsError::TrailingBytes
        | TlsError::BadLength
        | TlsError::TooMany
        | TlsError::UnknownStatusType(_)
        | TlsError::FieldTooLong => Malformed::Type(kind),
    }
}

/// Appends handshake bytes as verbatim records.
fn write_plain(out: &mut Vec<u8>, bytes: &[u8]) {
    for piece in bytes.chunks(MAX_PLAINTEXT_LEN) {
        let len = u16::try_from(piece.len()).expect("at most MAX_PLAINTEXT_LEN");
        let [high, low] = len.to_be_bytes();
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
