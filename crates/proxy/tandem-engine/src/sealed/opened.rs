//! A flight in its opened form: what its sender sends in clear, as it is, and then its messages
//! without records.
//!
//! Invariants: a server's clear part is the ServerHello's record, alone in it, and perhaps a
//! ChangeCipherSpec (RFC 8446, appendix D.4), a client's the latter, if anything; the first message
//! behind it is the server's EncryptedExtensions or the client's Certificate, so that the clear
//! part's end can be told from the bytes alone.

use tandem_record_key::SERVER_RANDOM_LEN;
use tandem_wire::tls::handshake::MAX_BODY_LEN;
use tandem_wire::tls::stream::MessageReader;
use tandem_wire::tls::{HandshakeType, Records, ServerHello};

use super::server_hello::ServerHelloRecord;
use crate::objects::{Flight, OpenedMessage, Sender};

/// The record that middleboxes want to see.
pub(super) const CHANGE_CIPHER_SPEC: [u8; 6] = [20, 3, 3, 0, 1, 1];

/// A flight in its opened form.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(super) bytes: Vec<u8>,
    /// Where the messages begin.
    pub(super) clear: usize,
    pub(super) flight: Flight,
    asks_for_certificate: bool,
}

impl Opened {
    /// The flight of this sender with these bytes; `None` where they have another form, are not
    /// whole or more, or show no chain.
    pub(super) fn of(sender: Sender, bytes: Vec<u8>) -> Option<Self> {
        let clear = match sender {
            Sender::Server => clear_len(&bytes)?,
            Sender::Client => change_len(&bytes),
        };
        let mut reader = MessageReader::new(MAX_BODY_LEN);
        let (mut messages, mut at) = (Vec::new(), clear);
        while let Some(piece) = reader.read(bytes.get(at..)?).ok()? {
            let range = at..at + piece.len;
            at = range.end;
            let msg_type = piece.ends?.msg_type;
            messages.push(OpenedMessage { msg_type, range });
        }
        let (first, last) = (messages.first()?, messages.last()?);
        let begins = match sender {
            Sender::Server => first.msg_type == HandshakeType::ENCRYPTED_EXTENSIONS,
            Sender::Client => [
                HandshakeType::CERTIFICATE,
                HandshakeType::COMPRESSED_CERTIFICATE,
            ]
            .contains(&first.msg_type),
        };
        if !begins || last.msg_type != HandshakeType::FINISHED {
            return None;
        }
        let mut types = messages.iter().map(|message| message.msg_type);
        Some(Self {
            asks_for_certificate: types.any(|it| it == HandshakeType::CERTIFICATE_REQUEST),
            flight: Flight::of_opened(&messages, &bytes)?,
            bytes,
            clear,
        })
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where its chain lies.
    pub(crate) fn flight(&self) -> &Flight {
        &self.flight
    }

    /// Whether it asks the client for a certificate (RFC 8446, section 4.3.2).
    pub(crate) fn asks_for_certificate(&self) -> bool {
        self.asks_for_certificate
    }

    /// Of a server's: the random of its ServerHello.
    pub(crate) fn server_random(&self) -> Option<[u8; SERVER_RANDOM_LEN]> {
        let record = ServerHelloRecord::first_in(&self.bytes)?;
        let hello = ServerHello::parse(record.body).ok()?;
        Some(*hello.random())
    }

    /// Its messages.
    pub(super) fn plaintext(&self) -> &[u8] {
        &self.bytes[self.clear..]
    }
}

/// Bytes of a server's clear part.
pub(crate) fn clear_len(bytes: &[u8]) -> Option<usize> {
    let mut records = Records::new(bytes);
    records.next()?.ok()?;
    let hello = records.offset();
    Some(hello + change_len(bytes.get(hello..)?))
}

/// Bytes of the ChangeCipherSpec that begins here, if one does.
fn change_len(bytes: &[u8]) -> usize {
    match bytes.starts_with(&CHANGE_CIPHER_SPEC) {
        true => CHANGE_CIPHER_SPEC.len(),
        false => 0,
    }
}
