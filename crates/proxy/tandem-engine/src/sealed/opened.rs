//! A flight in its opened form: what the server sends in clear, as it is, and then its messages
//! without records.
//!
//! Invariants: the clear part is the ServerHello's record, alone in it, and perhaps a
//! ChangeCipherSpec (RFC 8446, appendix D.4); the first message behind it is EncryptedExtensions,
//! so that the clear part's end can be told from the bytes alone.

use tandem_wire::tls::handshake::MAX_BODY_LEN;
use tandem_wire::tls::stream::MessageReader;
use tandem_wire::tls::{HandshakeType, Records};

use crate::objects::{Flight, OpenedMessage};

/// The record that middleboxes want to see.
pub(super) const CHANGE_CIPHER_SPEC: [u8; 6] = [20, 3, 3, 0, 1, 1];

/// A flight in its opened form.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(super) bytes: Vec<u8>,
    /// Where the messages begin.
    pub(super) clear: usize,
    pub(super) flight: Flight,
}

impl Opened {
    /// The flight with these bytes; `None` where they have another form, are not whole or more, or
    /// show no chain.
    pub(super) fn of(bytes: Vec<u8>) -> Option<Self> {
        let clear = clear_len(&bytes)?;
        let mut reader = MessageReader::new(MAX_BODY_LEN);
        let (mut messages, mut at) = (Vec::new(), clear);
        while let Some(piece) = reader.read(bytes.get(at..)?).ok()? {
            let range = at..at + piece.len;
            at = range.end;
            let msg_type = piece.ends?.msg_type;
            messages.push(OpenedMessage { msg_type, range });
        }
        let (first, last) = (messages.first()?, messages.last()?);
        if first.msg_type != HandshakeType::ENCRYPTED_EXTENSIONS
            || last.msg_type != HandshakeType::FINISHED
        {
            return None;
        }
        Some(Self {
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

    /// Its messages.
    pub(super) fn plaintext(&self) -> &[u8] {
        &self.bytes[self.clear..]
    }
}

/// Bytes of the clear part.
pub(crate) fn clear_len(bytes: &[u8]) -> Option<usize> {
    let mut records = Records::new(bytes);
    records.next()?.ok()?;
    let hello = records.offset();
    let has_change = bytes.get(hello..)?.starts_with(&CHANGE_CIPHER_SPEC);
    Some(match has_change {
        true => hello + CHANGE_CIPHER_SPEC.len(),
        false => hello,
    })
}
