//! What crosses a hop: TLS records with a byte for the context behind the header (the paper,
//! section 3.4), and handshake messages in them.
//!
//! ```text
//!  0      1         3        5         6
//!  | type | version | length | context | fragment (length bytes) |
//!
//!  20 change_cipher_spec   21 alert   22 handshake   23 application_data
//! ```
//!
//! Is not: their protection.
//!
//! Invariants: a record that was read, written again, is the same bytes; one that is too long is
//! refused at its header; what is held is bounded ([`MAX_RECORD_LEN`], [`MAX_MESSAGE_LEN`]).

use mctls::party::ContextId;

use crate::error::{Breach, Error, Malformed};

/// The version in every record and hello. TLS 1.2's is 0x0303, the prototype's 0x0666.
pub(crate) const VERSION: u16 = 0x0612;

/// Length of a record's header in bytes.
pub const HEADER_LEN: usize = 6;

/// Most bytes of data in one record (RFC 5246, section 6.2.1).
pub const MAX_PAYLOAD_LEN: usize = 1 << 14;

/// Longest fragment: IV, data, three MACs, and as much padding as TLS permits.
pub const MAX_FRAGMENT_LEN: usize = 16 + MAX_PAYLOAD_LEN + 3 * 32 + 256;

/// Longest record in bytes.
pub const MAX_RECORD_LEN: usize = HEADER_LEN + MAX_FRAGMENT_LEN;

/// Length of a handshake message's header in bytes.
pub const MESSAGE_HEADER_LEN: usize = 4;

/// Longest handshake message in bytes, header included. The longest that a session needs is its
/// keys for 255 contexts, 33,793 bytes, or a chain of certificates.
pub const MAX_MESSAGE_LEN: usize = 1 << 16;

/// What a record carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentType {
    /// From here on everything is protected.
    ChangeCipherSpec,
    /// The end of the session, or of a direction.
    Alert,
    /// Handshake messages.
    Handshake,
    /// Data.
    ApplicationData,
}

impl ContentType {
    /// Its number.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::ChangeCipherSpec => 20,
            Self::Alert => 21,
            Self::Handshake => 22,
            Self::ApplicationData => 23,
        }
    }

    /// That of this number.
    ///
    /// # Errors
    /// [`Malformed::RecordType`].
    pub const fn from_code(code: u8) -> Result<Self, Malformed> {
        Ok(match code {
            20 => Self::ChangeCipherSpec,
            21 => Self::Alert,
            22 => Self::Handshake,
            23 => Self::ApplicationData,
            other => return Err(Malformed::RecordType(other)),
        })
    }
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it carries.
    pub kind: ContentType,
    /// Its context; 0 for all that is between the endpoints.
    pub context: ContextId,
    /// What is behind the header.
    pub fragment: Vec<u8>,
}

impl Record {
    /// Appends the record.
    ///
    /// # Panics
    /// The fragment is longer than 65,535 bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        write(out, self.kind, self.context, &self.fragment);
    }
}

/// Appends a record.
pub(crate) fn write(out: &mut Vec<u8>, kind: ContentType, context: ContextId, fragment: &[u8]) {
    let length = u16::try_from(fragment.len()).expect("a fragment is below 2^16 bytes");
    out.push(kind.code());
    out.extend_from_slice(&VERSION.to_be_bytes());
    out.extend_from_slice(&length.to_be_bytes());
    out.push(context.0);
    out.extend_from_slice(fragment);
}

/// Appends a handshake message, in as many records as it needs.
pub(crate) fn write_message(out: &mut Vec<u8>, message: &[u8]) {
    for piece in message.chunks(MAX_PAYLOAD_LEN) {
        write(out, ContentType::Handshake, ContextId::END_TO_END, piece);
    }
}

/// Appends the record that says that everything is protected from here on.
pub(crate) fn write_change_cipher_spec(out: &mut Vec<u8>) {
    let kind = ContentType::ChangeCipherSpec;
    write(out, kind, ContextId::END_TO_END, &[1]);
}

/// Reads records from a hop's stream of bytes, in any pieces.
///
/// Invariant: holds less than one record once [`Self::next`] has said that there is none.
#[derive(Debug)]
pub struct Records {
    version: u16,
    held: Vec<u8>,
    taken: usize,
}

impl Default for Records {
    fn default() -> Self {
        Self::of_version(VERSION)
    }
}

impl Records {
    /// One that has read nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same for a format that differs in its version. The byte behind the header means what
    /// that format says.
    #[must_use]
    pub const fn of_version(version: u16) -> Self {
        Self {
            version,
            held: Vec::new(),
            taken: 0,
        }
    }

    /// Takes more bytes. Drain [`Self::next`] between two calls.
    ///
    /// # Errors
    /// [`Breach::Flood`]: a whole record waits already.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.held.drain(..self.taken);
        self.taken = 0;
        if self.held.len() > MAX_RECORD_LEN {
            return Err(Breach::Flood.into());
        }
        self.held.extend_from_slice(bytes);
        Ok(())
    }

    /// The next whole record; `None` until more bytes come.
    ///
    /// # Errors
    /// [`Malformed`]: bytes that are no record.
    #[expect(clippy::should_implement_trait, reason = "an iterator could not fail")]
    pub fn next(&mut self) -> Result<Option<Record>, Malformed> {
        let front = &self.held[self.taken..];
        let Some((header, rest)) = front.split_first_chunk::<HEADER_LEN>() else {
            // A stream of something else shows at its first byte.
            if let Some(&first) = front.first() {
                ContentType::from_code(first)?;
            }
            return Ok(None);
        };
        let kind = ContentType::from_code(header[0])?;
        let version = u16::from_be_bytes([header[1], header[2]]);
        if version != self.version {
            return Err(Malformed::Version(version));
        }
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if length > MAX_FRAGMENT_LEN {
            let kind = header[0];
            return Err(Malformed::TooLong { kind, length });
        }
        let Some(fragment) = rest.get(..length) else {
            return Ok(None);
        };
        let context = ContextId(header[5]);
        let fragment = fragment.to_vec();
        self.taken += HEADER_LEN + length;
        Ok(Some(Record {
            kind,
            context,
            fragment,
        }))
    }
}

/// Joins handshake messages that records carry in pieces.
#[derive(Debug, Default)]
pub struct Joiner(Vec<u8>);

impl Joiner {
    /// Whether no message has begun.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes a record's fragment. Drain [`Self::next`] between two calls.
    ///
    /// # Errors
    /// [`Breach::Flood`]: a whole message waits already.
    pub fn push(&mut self, fragment: &[u8]) -> Result<(), Error> {
        if self.0.len() > MAX_MESSAGE_LEN {
            return Err(Breach::Flood.into());
        }
        self.0.extend_from_slice(fragment);
        Ok(())
    }

    /// The next whole message, header and all; `None` until more fragments come.
    ///
    /// # Errors
    /// [`Malformed::TooLong`].
    #[expect(clippy::should_implement_trait, reason = "an iterator could not fail")]
    pub fn next(&mut self) -> Result<Option<Vec<u8>>, Malformed> {
        let Some(header) = self.0.first_chunk::<MESSAGE_HEADER_LEN>() else {
            return Ok(None);
        };
        let [kind, high, middle, low] = *header;
        let length = u32::from_be_bytes([0, high, middle, low]);
        let length = MESSAGE_HEADER_LEN + usize::try_from(length).unwrap_or(usize::MAX / 2);
        if length > MAX_MESSAGE_LEN {
            return Err(Malformed::TooLong { kind, length });
        }
        if self.0.len() < length {
            return Ok(None);
        }
        let rest = self.0.split_off(length);
        Ok(Some(std::mem::replace(&mut self.0, rest)))
    }
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
#[derive(Debug, Default)]
pub struct Incoming {
    records: Records,
    joiner: Joiner,
    phase: Phase,
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
    /// As [`Records::push`].
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.records.push(bytes)
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
            let Some(record) = self.records.next()? else {
                return Ok(None);
            };
            if self.phase == Phase::Protected {
                return Ok(Some(Input::Protected(record)));
            }
            if record.context != ContextId::END_TO_END {
                return Err(Breach::Context(record.context).into());
            }
            let kind = record.kind.code();
            // A message that has begun ends before anything else comes.
            let is_cut = !self.joiner.is_empty();
            match record.kind {
                ContentType::Handshake => self.joiner.push(&record.fragment)?,
                ContentType::Alert => {
                    let alert = record.fragment.as_slice().try_into();
                    return Ok(Some(Input::Alert(alert.map_err(|_| Breach::Alert)?)));
                }
                ContentType::ChangeCipherSpec if !is_cut && record.fragment == [1] => {
                    self.phase = Phase::Protected;
                    return Ok(Some(Input::ChangeCipherSpec));
                }
                ContentType::ChangeCipherSpec | ContentType::ApplicationData => {
                    return Err(Breach::Record(kind).into());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: ContentType, context: u8, fragment: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, kind, ContextId(context), fragment);
        out
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
        // TLS 1.2 itself.
        let tls = Malformed::Version(0x0303);
        assert_eq!(refused(&[22, 3, 3, 0, 1, 1]), tls.into());
        let long = Malformed::TooLong {
            kind: 23,
            length: 0xffff,
        };
        assert_eq!(refused(&[23, 6, 0x12, 0xff, 0xff, 1]), long.into());
        let long = Malformed::TooLong {
            kind: 1,
            length: 0x0100_0004,
        };
        let message = record(ContentType::Handshake, 0, &[1, 0xff, 0xff, 0xff]);
        let Error::Malformed(Malformed::TooLong { kind: 1, .. }) = refused(&message) else {
            panic!("{long:?}");
        };
    }

    #[test]
    fn records_in_clear_are_for_the_handshake_only() {
        let data = record(ContentType::ApplicationData, 0, b"x");
        assert_eq!(refused(&data), Breach::Record(23).into());
        let context = record(ContentType::Handshake, 1, &[14, 0, 0, 0]);
        assert_eq!(refused(&context), Breach::Context(ContextId(1)).into());
        let mut cut = record(ContentType::Handshake, 0, &[14, 0, 0]);
        write_change_cipher_spec(&mut cut);
        assert_eq!(refused(&cut), Breach::Record(20).into());
        let alert = record(ContentType::Alert, 0, &[2]);
        assert_eq!(refused(&alert), Breach::Alert.into());
    }
}
