//! What crosses a hop: TLS records with a byte for the slice behind the header, and handshake
//! messages in them.
//!
//! ```text
//!  0      1                  3        5       6
//!  | type | version = 0x0666 | length | slice | fragment (length bytes) |
//!
//!  slice  0 the handshake, 1 alerts behind it, 2 and on: contexts 1 and on
//! ```
//!
//! Is not: their protection.
//!
//! Invariants: a record that was read, written again, is the same bytes; one that is too long is
//! refused at its header; what is held is bounded ([`MAX_RECORD_LEN`], [`MAX_MESSAGE_LEN`]).

pub use mctls12::record::{
    ContentType, HEADER_LEN, MAX_MESSAGE_LEN, MAX_PAYLOAD_LEN, MAX_RECORD_LEN,
};
use mctls12::record::{Joiner, Records};

use crate::error::{Breach, Error};

/// The version in every record and hello.
pub(crate) const VERSION: u16 = 0x0666;

/// The slice of the handshake.
pub(crate) const HANDSHAKE_SLICE: u8 = 0;

/// The slice of alerts behind the handshake.
pub(crate) const ALERT_SLICE: u8 = 1;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it carries.
    pub kind: ContentType,
    /// Its slice.
    pub slice: u8,
    /// What is behind the header.
    pub fragment: Vec<u8>,
}

/// What that format has in its place.
impl From<mctls12::record::Record> for Record {
    fn from(record: mctls12::record::Record) -> Self {
        Self {
            kind: record.kind,
            slice: record.context.0,
            fragment: record.fragment,
        }
    }
}

impl Record {
    /// Appends the record.
    ///
    /// # Panics
    /// The fragment is longer than 65,535 bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        write(out, self.kind, self.slice, &self.fragment);
    }
}

/// Appends a record.
pub(crate) fn write(out: &mut Vec<u8>, kind: ContentType, slice: u8, fragment: &[u8]) {
    let length = u16::try_from(fragment.len()).expect("a fragment is below 2^16 bytes");
    out.push(kind.code());
    out.extend_from_slice(&VERSION.to_be_bytes());
    out.extend_from_slice(&length.to_be_bytes());
    out.push(slice);
    out.extend_from_slice(fragment);
}

/// Appends a handshake message, in as many records as it needs.
pub(crate) fn write_message(out: &mut Vec<u8>, message: &[u8]) {
    for piece in message.chunks(MAX_PAYLOAD_LEN) {
        write(out, ContentType::Handshake, HANDSHAKE_SLICE, piece);
    }
}

/// Appends the record that says that everything is protected from here on.
pub(crate) fn write_change_cipher_spec(out: &mut Vec<u8>) {
    write(out, ContentType::ChangeCipherSpec, HANDSHAKE_SLICE, &[1]);
}

/// An alert of the handshake, in clear.
#[must_use]
pub fn alert(code: u8) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, ContentType::Alert, HANDSHAKE_SLICE, &[2, code]);
    out
}

/// What comes in on a hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A handshake message, header and all.
    Message(Vec<u8>),
    /// Everything behind this is protected.
    ChangeCipherSpec,
    /// A record behind that.
    Protected(Record),
    /// An alert in clear, for which nobody vouches.
    Alert([u8; 2]),
}

/// Whether records are still in clear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Clear,
    Protected,
}

/// One direction of a hop: bytes in, messages and records out.
///
/// Invariant: holds less than one record and one message once [`Self::next`] has said that there is
/// none.
#[derive(Debug)]
pub struct Incoming {
    records: Records,
    joiner: Joiner,
    phase: Phase,
}

impl Default for Incoming {
    fn default() -> Self {
        Self {
            records: Records::of_version(VERSION),
            joiner: Joiner::default(),
            phase: Phase::default(),
        }
    }
}

impl Incoming {
    /// One that has read nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes more bytes. Drain [`Self::next`] between two calls.
    ///
    /// # Errors
    /// [`Breach::Flood`]: a whole record waits already.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.records.push(bytes).map_err(|_| Breach::Flood.into())
    }

    /// The next message or record; `None` until more bytes come.
    ///
    /// # Errors
    /// Bytes that are none, or records that have no place here.
    #[expect(clippy::should_implement_trait, reason = "an iterator could not fail")]
    pub fn next(&mut self) -> Result<Option<Input>, Error> {
        loop {
            if let Some(message) = self.joiner.next()? {
                return Ok(Some(Input::Message(message)));
            }
            let Some(record) = self.records.next()?.map(Record::from) else {
                return Ok(None);
            };
            if self.phase == Phase::Protected {
                return Ok(Some(Input::Protected(record)));
            }
            if record.slice != HANDSHAKE_SLICE {
                return Err(Breach::Slice(record.slice).into());
            }
            // A message that has begun ends before anything else comes.
            let is_cut = !self.joiner.is_empty();
            match record.kind {
                ContentType::Handshake => {
                    let joined = self.joiner.push(&record.fragment);
                    joined.map_err(|_| Breach::Flood)?;
                }
                ContentType::Alert => {
                    let alert = record.fragment.as_slice().try_into();
                    return Ok(Some(Input::Alert(alert.map_err(|_| Breach::Alert)?)));
                }
                ContentType::ChangeCipherSpec if !is_cut && record.fragment == [1] => {
                    self.phase = Phase::Protected;
                    return Ok(Some(Input::ChangeCipherSpec));
                }
                ContentType::ChangeCipherSpec | ContentType::ApplicationData => {
                    return Err(Breach::Record(record.kind.code()).into());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Malformed;

    fn record(kind: ContentType, slice: u8, fragment: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, kind, slice, fragment);
        out
    }

    #[test]
    fn a_header_ends_with_the_slice() {
        let bytes = record(ContentType::ApplicationData, 2, b"hi");
        assert_eq!(bytes, [23, 6, 0x66, 0, 2, 2, b'h', b'i']);
    }

    #[test]
    fn a_message_is_joined_from_any_pieces() {
        let message = [vec![14, 0, 0x50, 0], vec![7; 0x5000]].concat();
        let mut bytes = Vec::new();
        write_message(&mut bytes, &message);
        write_change_cipher_spec(&mut bytes);
        bytes.extend(record(ContentType::ApplicationData, 3, b"x"));
        for piece in [1, 100, bytes.len()] {
            let mut incoming = Incoming::new();
            let mut inputs = Vec::new();
            for chunk in bytes.chunks(piece) {
                incoming.push(chunk).expect("drained");
                while let Some(input) = incoming.next().expect("as the test has it") {
                    inputs.push(input);
                }
            }
            assert_eq!(inputs[0], Input::Message(message.clone()));
            assert_eq!(inputs[1], Input::ChangeCipherSpec);
            assert!(matches!(&inputs[2], Input::Protected(record) if record.fragment == b"x"));
        }
    }

    fn refused(bytes: &[u8]) -> Error {
        let mut incoming = Incoming::new();
        incoming.push(bytes).expect("the first");
        loop {
            match incoming.next() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("not refused"),
                Err(error) => return error,
            }
        }
    }

    #[test]
    fn what_is_no_record_is_refused_at_its_header() {
        assert_eq!(refused(b"GET"), Malformed::RecordType(b'G').into());
        // The paper's protocol as `mctls12` has it.
        let other = Malformed::Version(0x0612);
        assert_eq!(refused(&[22, 6, 0x12, 0, 1, 0, 1]), other.into());
        let long = Malformed::TooLong {
            kind: 23,
            length: 0xffff,
        };
        assert_eq!(refused(&[23, 6, 0x66, 0xff, 0xff, 1]), long.into());
        let message = record(ContentType::Handshake, 0, &[1, 0xff, 0xff, 0xff]);
        assert!(matches!(
            refused(&message),
            Error::Malformed(Malformed::TooLong { kind: 1, .. })
        ));
    }

    #[test]
    fn records_in_clear_are_for_the_handshake_only() {
        let data = record(ContentType::ApplicationData, 0, b"x");
        assert_eq!(refused(&data), Breach::Record(23).into());
        let slice = record(ContentType::Handshake, 1, &[14, 0, 0, 0]);
        assert_eq!(refused(&slice), Breach::Slice(1).into());
        let mut cut = record(ContentType::Handshake, 0, &[14, 0, 0]);
        write_change_cipher_spec(&mut cut);
        assert_eq!(refused(&cut), Breach::Record(20).into());
        let alert = record(ContentType::Alert, 0, &[2]);
        assert_eq!(refused(&alert), Breach::Alert.into());
    }
}
