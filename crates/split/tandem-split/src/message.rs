//! What origin and volunteer say to each other: the thesis's messages, and what two decades ask for
//! besides.
//!
//! ```text
//!  0      1         3        5
//!  | type | 3 | 3   | length | body |              the frame of a TLS record, so that verbatim records are messages as they stand
//!
//!  0x14..0x17  verbatim     a TLS record
//!  0x94..0x97  stub         encoding (2) | id<0..2^16-1> | MAC<0..2^16-1>
//!  0x58        key-expose   suite (2) | key<0..2^16-1> | IV<0..2^16-1>
//!  0x47  "G"   greeting     version (1) | channel (1) | encodings (2)
//!  0x4d  "M"   miss         what (1) | name (20 or 32) | for a part: first chunk (4), number of chunks (4)
//!  0x50  "P"   payload      what (1) | name (20 or 32) | bytes
//!  0x4c  "L"   list part    name (32) | offset (4) | length of the list (4) | bytes
//!  0x41  "A"   absent       as the miss that it answers
//!  0x54  "T"   taken        bytes (8)
//!  0x45  "E"   end          nothing
//!  0x4f  "O"   over         nothing
//!  0x43  "C"   coming       nothing
//! ```
//!
//! Stub and key-expose are figures 3-2 and 3-3 of the thesis; the suite, the encodings 3 and 4, and
//! the other messages are new. There are two kinds of channel, each opened by a greeting from
//! either side: *connection* (of one client at a time; the volunteer sends verbatim records, the
//! origin all three) and *misses* (one for each pair of volunteer and origin; misses one way,
//! answers the other). They are apart because an answer behind the stubs that wait for it would
//! never arrive. Since version 2 either side of a connection says how much of the other's has been
//! taken, and the volunteer says when its client has ended ([`crate::credit`]). Since version 3 a
//! channel carries one client after the other: each side ends what it has to say of a client by an
//! over, and then the volunteer greets again. Since version 4 a volunteer that is asked by another
//! says on their channel of misses that answers to it are coming from the origin. Either is
//! authenticated and encrypted by what carries it; nothing here is.
//!
//! Is: reading and writing of one message ([`Message::read`]) and of a stream ([`Decoder`]). Is
//! not: what a message means for a connection ([`crate::splice`]).
//!
//! Invariants: a message that was read, written again, is the same bytes (a greeting of a later
//! version aside); no message is longer than [`MAX_MESSAGE_LEN`], and one that would be is refused
//! as soon as its header is there.
//!
//! Specification: the thesis, section 3.3.

mod decoder;
mod greeting;
mod key_expose;
mod miss;
mod progress;
mod stub;

pub use decoder::{Decoder, Side};
pub use greeting::{Channel, Encodings, Greeting, PROTOCOL_VERSION};
pub use key_expose::KeyExpose;
pub use miss::{Absent, Found, ListPart, MAX_PART_LEN, Miss, list_parts};
pub use progress::Progress;
pub use stub::{Id, MAX_MACS_LEN, Run, Stub};

use tandem_wire::tls::record::{HEADER_LEN, MAX_FRAGMENT_LEN};

use crate::error::{Error, Malformed};
use crate::read::Reader;
use crate::suite::RecordType;

/// Longest message in bytes, header included: a run with as many MACs as may be.
pub const MAX_MESSAGE_LEN: usize = HEADER_LEN + stub::MAX_BODY_LEN;

/// What every message but a verbatim one has for a version: that of TLS 1.2 on the wire.
const VERSION: [u8; 2] = [3, 3];

/// The bit that makes a stub's type of a record's.
const STUB: u8 = 0x80;

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A TLS record as it stands.
    Verbatim(Verbatim<'a>),
    /// A record, or a run of them, without what the volunteer holds.
    Stub(Stub<'a>),
    /// The key by which the volunteer encrypts from here on.
    KeyExpose(KeyExpose),
    /// The first message of either side.
    Greeting(Greeting),
    /// The volunteer lacks something.
    Miss(Miss),
    /// A payload that was missed.
    Found(Found<'a>),
    /// A part of a list that was missed.
    ListPart(ListPart<'a>),
    /// The origin has not got it either.
    Absent(Absent),
    /// How far it has come at the side that writes this.
    Progress(Progress),
}

/// A TLS record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verbatim<'a> {
    record_type: RecordType,
    bytes: &'a [u8],
}

impl<'a> Verbatim<'a> {
    /// What it holds, as its header says.
    #[must_use]
    pub const fn record_type(&self) -> RecordType {
        self.record_type
    }

    /// The whole record, header included.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What follows the header.
    #[must_use]
    pub fn fragment(&self) -> &'a [u8] {
        &self.bytes[HEADER_LEN..]
    }
}

/// The types that are not a record's.
mod kind {
    pub(super) const KEY_EXPOSE: u8 = 0x58;
    pub(super) const GREETING: u8 = b'G';
    pub(super) const MISS: u8 = b'M';
    pub(super) const FOUND: u8 = b'P';
    pub(super) const LIST_PART: u8 = b'L';
    pub(super) const ABSENT: u8 = b'A';
    pub(super) const TAKEN: u8 = b'T';
    pub(super) const END: u8 = b'E';
    pub(super) const OVER: u8 = b'O';
    pub(super) const COMING: u8 = b'C';
}

/// What a message's first byte says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Verbatim(RecordType),
    Stub(RecordType),
    KeyExpose,
    Greeting,
    Miss,
    Found,
    ListPart,
    Absent,
    Taken,
    End,
    Over,
    Coming,
}

impl Kind {
    fn from_u8(number: u8) -> Option<Self> {
        match number {
            kind::KEY_EXPOSE => Some(Self::KeyExpose),
            kind::GREETING => Some(Self::Greeting),
            kind::MISS => Some(Self::Miss),
            kind::FOUND => Some(Self::Found),
            kind::LIST_PART => Some(Self::ListPart),
            kind::ABSENT => Some(Self::Absent),
            kind::TAKEN => Some(Self::Taken),
            kind::END => Some(Self::End),
            kind::OVER => Some(Self::Over),
            kind::COMING => Some(Self::Coming),
            stub if stub & STUB != 0 => RecordType::from_u8(stub & !STUB).map(Self::Stub),
            verbatim => RecordType::from_u8(verbatim).map(Self::Verbatim),
        }
    }

    /// Most bytes that may follow the header.
    const fn max_body_len(self) -> usize {
        match self {
            Self::Verbatim(_) => MAX_FRAGMENT_LEN,
            Self::Stub(_) => stub::MAX_BODY_LEN,
            Self::KeyExpose => key_expose::MAX_BODY_LEN,
            Self::Greeting => greeting::MAX_BODY_LEN,
            Self::Miss | Self::Absent => miss::MAX_MISS_LEN,
            Self::Found => miss::MAX_FOUND_LEN,
            Self::ListPart => miss::MAX_LIST_PART_LEN,
            Self::Taken => progress::TAKEN_LEN,
            Self::End | Self::Over | Self::Coming => 0,
        }
    }
}

/// What the front of a stream holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read<'a> {
    /// A message, and its length in bytes.
    Whole(Message<'a>, usize),
    /// The beginning of a message; `None` where not even the header is all there.
    Cut {
        /// Length of the whole message in bytes.
        length: Option<usize>,
    },
}

impl<'a> Message<'a> {
    /// Reads the message at the front of `bytes`.
    ///
    /// # Errors
    /// [`Error::Malformed`] as early as it is certain that this is no message.
    pub fn read(bytes: &'a [u8]) -> Result<Read<'a>, Error> {
        let Some((kind, length)) = header(bytes)? else {
            return Ok(Read::Cut { length: None });
        };
        let length = HEADER_LEN + length;
        let Some(whole) = bytes.get(..length) else {
            return Ok(Read::Cut {
                length: Some(length),
            });
        };
        let body = &whole[HEADER_LEN..];
        let message = match kind {
            Kind::Verbatim(record_type) => Self::Verbatim(Verbatim {
                record_type,
                bytes: whole,
            }),
            Kind::Stub(record_type) => Self::Stub(Stub::parse(record_type, body)?),
            Kind::KeyExpose => Self::KeyExpose(KeyExpose::parse(body)?),
            Kind::Greeting => Self::Greeting(Greeting::parse(body)?),
            Kind::Miss => Self::Miss(Miss::parse(body)?),
            Kind::Found => Self::Found(Found::parse(body)?),
            Kind::ListPart => Self::ListPart(ListPart::parse(body)?),
            Kind::Absent => Self::Absent(Absent(Miss::parse(body)?)),
            Kind::Taken => Self::Progress(Progress::parse_taken(body)?),
            Kind::End => Self::Progress(Progress::End),
            Kind::Over => Self::Progress(Progress::Over),
            Kind::Coming => Self::Progress(Progress::Coming),
        };
        Ok(Read::Whole(message, length))
    }

    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Verbatim(record) => out.extend_from_slice(record.bytes),
            Self::Stub(stub) => stub.write(out),
            Self::KeyExpose(keys) => keys.write(out),
            Self::Greeting(greeting) => greeting.write(out),
            Self::Miss(miss) => miss.write(out),
            Self::Found(found) => found.write(out),
            Self::ListPart(part) => part.write(out),
            Self::Absent(absent) => absent.write(out),
            Self::Progress(progress) => progress.write(out),
        }
    }
}

/// Kind and length of the body; `None` while the header is cut and nothing is wrong with what is
/// there.
fn header(bytes: &[u8]) -> Result<Option<(Kind, usize)>, Malformed> {
    let Some(&first) = bytes.first() else {
        return Ok(None);
    };
    let kind = Kind::from_u8(first).ok_or(Malformed::Type(first))?;
    let mut reader = Reader::new(&bytes[1..]);
    let Ok(version) = reader.array::<2>() else {
        return Ok(None);
    };
    let right = match kind {
        // Clients write 3.1 on their first record (RFC 8446, section 5.1).
        Kind::Verbatim(_) => version[0] == 3 && version[1] <= 4,
        Kind::Stub(_)
        | Kind::KeyExpose
        | Kind::Greeting
        | Kind::Miss
        | Kind::Found
        | Kind::ListPart
        | Kind::Absent
        | Kind::Taken
        | Kind::End
        | Kind::Over
        | Kind::Coming => version == VERSION,
    };
    if !right {
        return Err(Malformed::Version(u16::from_be_bytes(version)));
    }
    let Ok(length) = reader.u16() else {
        return Ok(None);
    };
    if usize::from(length) > kind.max_body_len() {
        return Err(Malformed::TooLong {
            kind: first,
            length,
        });
    }
    Ok(Some((kind, length.into())))
}

/// Appends a message with the body that `write` appends. Every body's limit is below 2^16.
fn frame(out: &mut Vec<u8>, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[kind, VERSION[0], VERSION[1], 0, 0]);
    write(out);
    let length = u16::try_from(out.len() - start - HEADER_LEN).expect("below the body's limit");
    out[start + 3..start + HEADER_LEN].copy_from_slice(&length.to_be_bytes());
}

/// Appends a vector with a length of two bytes.
fn put_vec16(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).expect("shorter than the body around it");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests;
