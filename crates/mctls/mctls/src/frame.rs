//! What crosses one hop: the end-to-end session's TLS records as they stand, and frames beside
//! them.
//!
//! ```text
//!  0      1     3        5
//!  | type | 3 3 | length | body |
//!
//!  0x14..0x17  a record of the end-to-end TLS session, header and all
//!  0xb0  leg       endpoint 1 | distance 1 | bytes of that leg's TLS session
//!  0xb1  record    a record of the session ([`crate::record`])
//!  0xb2  announce  nothing: the server has chosen this protocol; middleboxes begin their legs
//!  0xb3  route     to a middlebox, first of all: how many 1, then addresses<1..255>: the next hop,
//!                  and those behind it, the server's last
//!  0xb4  short     between two paired middleboxes: a record in its short form ([`crate::short`])
//!  0xb5  holds     the same: what the sender holds for this session
//! ```
//!
//! A plain TLS server is sent nothing but TLS records, so falling back needs no new connection. A
//! leg's distance counts middleboxes from its endpoint: 1 is the nearest. Whoever passes a frame on
//! away from that endpoint takes one off, towards it adds one.
//!
//! Nothing here is authentic: a frame that is changed, dropped or added makes a TLS session or a
//! record fail, or a leg end at another middlebox than the configuration says.
//!
//! Invariants: a frame that was read, written again, is the same bytes; a frame that is too long is
//! refused at its header.

use crate::config::Context;
use crate::error::{Breach, Error, Malformed};
use crate::party::{Endpoint, MAX_MIDDLEBOXES, Position};
use crate::read::{Reader, is_plain, put_text};
use crate::record::{Group, MAX_RECORD_LEN};

/// Length of a frame's header in bytes: that of a TLS record.
pub const HEADER_LEN: usize = 5;

/// Longest body of a TLS record (RFC 8446, section 5.2).
const MAX_TLS_LEN: usize = (1 << 14) + 256;

/// Most bytes of a leg in one frame.
pub const MAX_LEG_LEN: usize = 1 << 14;

/// Longest address in a route, in bytes of printable ASCII.
pub const MAX_ADDRESS_LEN: usize = 255;

/// Most addresses in a route: every middlebox but the first, and the server.
pub const MAX_ROUTE: usize = MAX_MIDDLEBOXES;

/// Longest frame in bytes.
pub const MAX_FRAME_LEN: usize = HEADER_LEN + MAX_SHORT_LEN;

/// What a short record may be longer than the record.
pub(crate) const MAX_GROWTH: usize = 144;

/// Longest body of a short record.
const MAX_SHORT_LEN: usize = MAX_RECORD_LEN + MAX_GROWTH;

/// Longest body of a frame with what a middlebox holds.
pub(crate) const MAX_HOLDS_LEN: usize = 662;

const _: () = assert!(MAX_TLS_LEN < MAX_RECORD_LEN && MAX_LEG_LEN + 2 < MAX_RECORD_LEN);

/// The version in each frame's header: what TLS 1.3 writes (RFC 8446, section 5.1).
const VERSION: [u8; 2] = [3, 3];

pub(crate) mod kind {
    pub(super) const FIRST_TLS: u8 = 0x14;
    pub(super) const LAST_TLS: u8 = 0x17;
    pub(super) const LEG: u8 = 0xb0;
    pub(super) const RECORD: u8 = 0xb1;
    pub(super) const ANNOUNCE: u8 = 0xb2;
    pub(super) const ROUTE: u8 = 0xb3;
    pub(crate) const SHORT: u8 = 0xb4;
    pub(crate) const HOLDS: u8 = 0xb5;
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A whole record of the end-to-end TLS session, header included.
    Tls(&'a [u8]),
    /// A piece of a leg.
    Leg(LegFrame<'a>),
    /// A record.
    Record(&'a [u8]),
    /// The server has chosen this protocol.
    Announce,
    /// Where a middlebox is to connect: the next hop, and what it is to pass on to that.
    Route(Vec<String>),
    /// A record in its short form, between paired middleboxes.
    Short(&'a [u8]),
    /// What a paired middlebox holds.
    Holds(&'a [u8]),
}

/// Whether a route can have this address: one to [`MAX_ADDRESS_LEN`] bytes of printable ASCII.
#[must_use]
pub fn is_address(address: &str) -> bool {
    !address.is_empty() && address.len() <= MAX_ADDRESS_LEN && is_plain(address)
}

/// A piece of a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegFrame<'a> {
    /// The leg's endpoint.
    pub endpoint: Endpoint,
    /// How many middleboxes away from it the leg's other end is.
    pub distance: Position,
    /// Bytes of the leg's TLS session.
    pub bytes: &'a [u8],
}

impl<'a> LegFrame<'a> {
    /// The same, one hop farther from its endpoint. `None`: it ends here.
    #[must_use]
    pub fn passed_on(self) -> Option<Self> {
        let distance = Position::new(self.distance.number() - 1)?;
        Some(Self { distance, ..self })
    }

    /// The same, one hop nearer to its endpoint, on its way there. `None`: it has come from too far
    /// away.
    #[must_use]
    pub fn brought_back(self) -> Option<Self> {
        let distance = Position::new(self.distance.number().checked_add(1)?)?;
        Some(Self { distance, ..self })
    }
}

impl Frame<'_> {
    /// Appends the frame.
    ///
    /// # Panics
    /// A leg's bytes, a record, or a route are longer than this module allows ([`is_address`]).
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Tls(record) => out.extend_from_slice(record),
            Self::Leg(leg) => wrap(out, kind::LEG, |out| {
                out.extend_from_slice(&[leg.endpoint.code(), leg.distance.number()]);
                out.extend_from_slice(leg.bytes);
            }),
            Self::Record(record) => write_record(out, record),
            Self::Announce => wrap(out, kind::ANNOUNCE, |_| {}),
            Self::Route(addresses) => wrap(out, kind::ROUTE, |out| {
                let count = u8::try_from(addresses.len()).expect("a route is short");
                out.push(count);
                addresses.iter().for_each(|address| put_text(out, address));
            }),
            Self::Short(body) => write_short(out, body),
            Self::Holds(body) => write_holds(out, body),
        }
    }
}

/// Appends a record's frame.
pub(crate) fn write_record(out: &mut Vec<u8>, record: &[u8]) {
    wrap(out, kind::RECORD, |out| out.extend_from_slice(record));
}

/// Appends a short record's frame.
pub(crate) fn write_short(out: &mut Vec<u8>, body: &[u8]) {
    wrap(out, kind::SHORT, |out| out.extend_from_slice(body));
}

/// Appends the frame with what a paired middlebox holds.
pub(crate) fn write_holds(out: &mut Vec<u8>, body: &[u8]) {
    wrap(out, kind::HOLDS, |out| out.extend_from_slice(body));
}

fn wrap(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    let start = begin(out, kind);
    body(out);
    end(out, start);
}

/// Appends the records of a group, each in its frame.
pub(crate) fn write_group(out: &mut Vec<u8>, group: &Group, context: Option<&Context>) {
    for part in &group.parts {
        wrap(out, kind::RECORD, |out| {
            group.write_part(part, context, out)
        });
    }
}

/// Begins a record's frame, whose body is what the caller appends before [`end`].
pub(crate) fn begin_record(out: &mut Vec<u8>) -> usize {
    begin(out, kind::RECORD)
}

fn begin(out: &mut Vec<u8>, kind: u8) -> usize {
    let start = out.len();
    out.extend_from_slice(&[kind, VERSION[0], VERSION[1], 0, 0]);
    start
}

/// Ends a frame that begins at `start`.
pub(crate) fn end(out: &mut [u8], start: usize) {
    let length = out.len() - start - HEADER_LEN;
    let length = u16::try_from(length).expect("a frame's body is below 2^16");
    out[start + 3..start + HEADER_LEN].copy_from_slice(&length.to_be_bytes());
}

/// Longest body of a frame of this type.
fn max_len(kind: u8) -> Option<usize> {
    Some(match kind {
        kind::FIRST_TLS..=kind::LAST_TLS => MAX_TLS_LEN,
        kind::LEG => 2 + MAX_LEG_LEN,
        kind::RECORD => MAX_RECORD_LEN,
        kind::ANNOUNCE => 0,
        kind::ROUTE => 1 + MAX_ROUTE * (1 + MAX_ADDRESS_LEN),
        kind::SHORT => MAX_SHORT_LEN,
        kind::HOLDS => MAX_HOLDS_LEN,
        _ => return None,
    })
}

/// Reads frames from one hop's stream of bytes, in any pieces.
///
/// Invariant: holds less than one frame ([`MAX_FRAME_LEN`]) once [`Self::next`] has said that there
/// is none.
#[derive(Debug, Default)]
pub struct Frames {
    held: Vec<u8>,
    /// How much of `held` was given out before.
    taken: usize,
}

impl Frames {
    /// One that has read nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes more bytes. Drain [`Self::next`] between two calls.
    ///
    /// # Errors
    /// [`Breach::Flood`]: a whole frame waits already.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.space()?.extend_from_slice(bytes);
        Ok(())
    }

    /// Where more bytes go: append them, and change nothing before them. Drain [`Self::next`]
    /// before.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn space(&mut self) -> Result<&mut Vec<u8>, Error> {
        self.held.drain(..self.taken);
        self.taken = 0;
        if self.held.len() > MAX_FRAME_LEN {
            return Err(Breach::Flood.into());
        }
        Ok(&mut self.held)
    }

    /// Whether a frame has begun that is not whole.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.held.len() > self.taken
    }

    /// The next whole frame; `None` until more bytes come.
    ///
    /// # Errors
    /// [`Malformed`]: bytes that are no frame.
    #[expect(clippy::should_implement_trait, reason = "an iterator could not fail")]
    pub fn next(&mut self) -> Result<Option<Frame<'_>>, Malformed> {
        let front = &self.held[self.taken..];
        let Some(&first) = front.first() else {
            return Ok(None);
        };
        let max = max_len(first).ok_or(Malformed::Type(first))?;
        let Some((header, rest)) = front.split_first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        let version = [header[1], header[2]];
        let is_tls = matches!(first, kind::FIRST_TLS..=kind::LAST_TLS);
        // Clients write 3.1 on their first record (RFC 8446, section 5.1).
        if version != VERSION && !(is_tls && version[0] == 3) {
            return Err(Malformed::FrameVersion(u16::from_be_bytes(version)));
        }
        let length = u16::from_be_bytes([header[3], header[4]]);
        if usize::from(length) > max {
            let kind = first;
            return Err(Malformed::TooLong { kind, length });
        }
        let Some(body) = rest.get(..usize::from(length)) else {
            return Ok(None);
        };
        let whole = &front[..HEADER_LEN + body.len()];
        self.taken += whole.len();
        parse(first, whole, body).map(Some)
    }
}

fn parse<'a>(kind: u8, whole: &'a [u8], body: &'a [u8]) -> Result<Frame<'a>, Malformed> {
    let mut reader = Reader::new(body);
    Ok(match kind {
        kind::FIRST_TLS..=kind::LAST_TLS => Frame::Tls(whole),
        kind::LEG => Frame::Leg(LegFrame {
            endpoint: reader.endpoint()?,
            distance: reader.position()?,
            bytes: reader.rest(),
        }),
        kind::RECORD => Frame::Record(body),
        kind::ANNOUNCE => Frame::Announce,
        kind::ROUTE => {
            let count = usize::from(reader.u8()?);
            if count > MAX_ROUTE {
                return Err(Malformed::Middleboxes(count));
            }
            let mut addresses = Vec::new();
            for _ in 0..count {
                let address = reader.text(MAX_ADDRESS_LEN)?;
                if !is_address(address) {
                    return Err(Malformed::Text);
                }
                addresses.push(address.to_owned());
            }
            reader.finish()?;
            Frame::Route(addresses)
        }
        kind::SHORT => Frame::Short(body),
        kind::HOLDS => Frame::Holds(body),
        other => return Err(Malformed::Type(other)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Frame<'static>> {
        vec![
            Frame::Route(vec!["192.0.2.1:4433".into(), "example.com:443".into()]),
            Frame::Tls(&[22, 3, 1, 0, 2, 1, 2]),
            Frame::Leg(LegFrame {
                endpoint: Endpoint::Server,
                distance: Position::new(16).expect("as the test has it"),
                bytes: &[1, 2, 3],
            }),
            Frame::Announce,
            Frame::Record(&[5; 40]),
            Frame::Short(&[6; 40]),
            Frame::Holds(&[7; 40]),
        ]
    }

    #[test]
    fn frames_are_read_as_they_were_written_in_any_pieces() {
        let mut bytes = Vec::new();
        all().iter().for_each(|frame| frame.write(&mut bytes));
        for piece in [1, 3, 64, bytes.len()] {
            let mut frames = Frames::new();
            let mut again = Vec::new();
            for chunk in bytes.chunks(piece) {
                frames.push(chunk).expect("as the test has it");
                while let Some(frame) = frames.next().expect("as the test has it") {
                    frame.write(&mut again);
                }
            }
            assert!(!frames.is_cut());
            assert_eq!(again, bytes);
        }
    }

    #[test]
    fn what_is_no_frame_is_refused_at_its_header() {
        let refused = |bytes: &[u8]| {
            let mut frames = Frames::new();
            frames.push(bytes).expect("as the test has it");
            frames.next().expect_err("the test breaks it")
        };
        assert_eq!(refused(b"GET /"), Malformed::Type(b'G'));
        let long = Malformed::TooLong {
            kind: 0xb2,
            length: 1,
        };
        assert_eq!(refused(&[0xb2, 3, 3, 0, 1]), long);
        let old = Malformed::FrameVersion(0x0301);
        assert_eq!(refused(&[0xb1, 3, 1, 0, 0]), old);
        assert_eq!(refused(&[0xb0, 3, 3, 0, 2, 2, 1]), Malformed::Endpoint(2));
        assert_eq!(refused(&[0xb0, 3, 3, 0, 2, 0, 0]), Malformed::Position(0));
        assert_eq!(refused(&[0xb3, 3, 3, 0, 2, 1, 0]), Malformed::Text);
    }

    #[test]
    fn a_leg_ends_after_as_many_hops_as_its_distance_says() {
        let leg = LegFrame {
            endpoint: Endpoint::Client,
            distance: Position::new(2).expect("as the test has it"),
            bytes: &[],
        };
        let next = leg.passed_on().expect("as the test has it");
        assert_eq!(next.passed_on(), None);
        assert_eq!(next.brought_back(), Some(leg));
        let farthest = LegFrame {
            distance: Position::new(16).expect("as the test has it"),
            ..leg
        };
        assert_eq!(farthest.brought_back(), None);
    }
}
