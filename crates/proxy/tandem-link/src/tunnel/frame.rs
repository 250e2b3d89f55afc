//! The frames of one direction.
//!
//! ```text
//! rest    0                                        what follows is the sender's bytes as they are
//! bytes   1  length(varint) bytes{length}          the sender's bytes
//! delta   2  length(varint) check(4) delta{length} what rebuilds the sender's bytes
//! rebuilt 3                                        the last delta of the other direction was
//! missed  4  reason(1)                             it was not
//! again   5  length(varint) bytes{length}          what the missed delta stood for
//! plain   6                                        no delta comes any more in this direction
//! end     7                                        the sender sends no more; answers may follow
//! unknown 8                                        nothing is held for this site
//! hints   8 + n  prefix(4){n}, n = 1..=3           the start of names of chains that are held
//! phrase  12 + n, n < 8                            the sender's bytes: phrase n
//! sealed  20 length(varint) sealed{length}         what rebuilds the sender's encrypted bytes
//! offer   21 held(2) least(2)                      the client may hand in the key of the flight to come
//! waits   22                                       the server's flight is held until the key is there
//! key     23 length(varint) key{length}            the key of the flight that is held
//! no key  24                                       there is none
//! ```
//!
//! Is: delimiting, and the check over rebuilt bytes. Is not: the encoding of a delta
//! (`tandem-delta`) or of what is sealed
//! (`tandem-engine`), nor which frame may follow which (`tandem-tunnel`). The check is not keyed:
//! the transport authenticates the peer, and it only finds that two things have the same name.
//!
//! Invariants: a body has 1 to 65,536 bytes; its length is checked before anything of it is kept,
//! and no more is kept than has arrived; each frame has one encoding.

use std::fmt;

use sha2::{Digest as _, Sha256};
use tandem_delta::varint;

use super::{Malformed, Phrase};

/// Most bytes of a body: a server's first flight with post-quantum certificates has about 20,000.
pub const MAX_LEN: usize = 1 << 16;

/// Bytes of the check: with one miss in thousands of deltas, two names that collide by chance pass
/// it once in 2^32 of these; whoever makes them collide on purpose fails the endpoints' Finished.
pub const CHECK_LEN: usize = 4;

/// Most hints. A site shows one chain, or two while it changes them; the third is its issuers'.
pub const MAX_HINTS: usize = 3;

const REST: u8 = 0;
const BYTES: u8 = 1;
const DELTA: u8 = 2;
const REBUILT: u8 = 3;
const MISSED: u8 = 4;
const AGAIN: u8 = 5;
const PLAIN: u8 = 6;
const END: u8 = 7;
/// Without hints, it is [`Frame::Unknown`].
const HINTS: u8 = 8;
const PHRASES: u8 = 12;
const SEALED: u8 = 20;
const OFFER: u8 = 21;
const WAITS: u8 = 22;
const KEY: u8 = 23;
const NO_KEY: u8 = 24;
const _: () = assert!(PHRASES + Phrase::COUNT <= SEALED);

/// Bytes of an offer behind its kind.
const OFFER_LEN: usize = 6;

/// What the client side says of a client that may hand in the key of the server's flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// Bytes that the client side holds of what the site showed before; more count as these.
    pub held: u16,
    /// Bytes that the key is worth at the client's answer to the flight.
    pub answer: u16,
    /// Fewest bytes that must be spared for the key to be worth its round trip; [`u16::MAX`]: none
    /// are.
    pub least: u16,
}

/// Why a delta was not rebuilt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Miss {
    /// It refers to what is not held.
    NotHeld,
    /// It is no delta, or rebuilds too much.
    Malformed,
    /// It was rebuilt, and the bytes are not those that were meant.
    Check,
}

impl Miss {
    /// One of each, by number.
    pub const ALL: [Self; 3] = [Self::NotHeld, Self::Malformed, Self::Check];

    fn number(self) -> u8 {
        match self {
            Self::NotHeld => 0,
            Self::Malformed => 1,
            Self::Check => 2,
        }
    }
}

/// The body of a frame: 1 to [`MAX_LEN`] bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Piece(Vec<u8>);

/// What is in a body may be secret.
impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Piece({} bytes)", self.0.len())
    }
}

impl Piece {
    /// These bytes; `None` where there are none or too many.
    pub fn new(bytes: Vec<u8>) -> Option<Self> {
        (1..=MAX_LEN).contains(&bytes.len()).then_some(Self(bytes))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, owned.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Bytes of a frame with this body beside the body itself, without a check.
    fn front_len(&self) -> usize {
        match self.0.len() {
            ..0x80 => 2,
            0x80..0x4000 => 3,
            0x4000.. => 4,
        }
    }
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// What follows is the sender's bytes as they are, up to the end of the stream.
    Rest,
    /// The sender's bytes.
    Bytes(Piece),
    /// What rebuilds the sender's bytes.
    Delta {
        /// Over the rebuilt bytes: [`check`].
        check: [u8; CHECK_LEN],
        /// In the encoding of `tandem-delta`.
        delta: Piece,
    },
    /// The last delta of the other direction was rebuilt.
    Rebuilt,
    /// It was not.
    Missed(Miss),
    /// What the missed delta stood for.
    Again(Piece),
    /// No delta comes any more in this direction.
    Plain,
    /// The sender sends no more; answers about the other direction may still follow.
    End,
    /// The start of names of chains that are held for this site: 1 to [`MAX_HINTS`] of them.
    Hints(Vec<[u8; 4]>),
    /// Nothing is held for this site. A hello's delta with neither this nor [`Frame::Hints`] in
    /// front says that the sender holds the flight that answered the hello which the delta names
    /// first.
    Unknown,
    /// The sender's next bytes are this phrase.
    Phrase(Phrase),
    /// What rebuilds the sender's encrypted bytes; there may be a key in it.
    Sealed(Piece),
    /// From the client side: the client may hand in the key of the server's flight.
    Offer(Offer),
    /// From the server side: the flight is held until the key is there.
    Waits,
    /// From the client side: the key.
    Key(Piece),
    /// From the client side: there is no key.
    NoKey,
}

impl Frame {
    /// How many bytes the frame has.
    pub fn encoded_len(&self) -> usize {
        match self {
            Self::Rest
            | Self::Rebuilt
            | Self::Plain
            | Self::End
            | Self::Unknown
            | Self::Phrase(_)
            | Self::Waits
            | Self::NoKey => 1,
            Self::Missed(_) => 2,
            Self::Bytes(piece) | Self::Again(piece) | Self::Sealed(piece) | Self::Key(piece) => {
                piece.front_len() + piece.0.len()
            }
            Self::Offer(_) => 1 + OFFER_LEN,
            Self::Delta { delta, .. } => delta.front_len() + CHECK_LEN + delta.0.len(),
            Self::Hints(hints) => 1 + 4 * hints.len(),
        }
    }

    /// Appends the frame. Of hints, the first [`MAX_HINTS`]; without any there is no frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        let body = |kind: u8, check: &[u8], piece: &Piece, out: &mut Vec<u8>| {
            out.push(kind);
            // A piece is no longer than a number of 32 bits holds.
            varint::write(out, u32::try_from(piece.0.len()).unwrap_or(u32::MAX));
            out.extend_from_slice(check);
            out.extend_from_slice(&piece.0);
        };
        match self {
            Self::Rest => out.push(REST),
            Self::Bytes(piece) => body(BYTES, &[], piece, out),
            Self::Delta { check, delta } => body(DELTA, check, delta, out),
            Self::Rebuilt => out.push(REBUILT),
            Self::Missed(miss) => out.extend_from_slice(&[MISSED, miss.number()]),
            Self::Again(piece) => body(AGAIN, &[], piece, out),
            Self::Sealed(piece) => body(SEALED, &[], piece, out),
            Self::Key(piece) => body(KEY, &[], piece, out),
            Self::Offer(Offer {
                held,
                answer,
                least,
            }) => {
                out.push(OFFER);
                out.extend(held.to_be_bytes());
                out.extend(answer.to_be_bytes());
                out.extend(least.to_be_bytes());
            }
            Self::Waits => out.push(WAITS),
            Self::NoKey => out.push(NO_KEY),
            Self::Plain => out.push(PLAIN),
            Self::End => out.push(END),
            Self::Unknown => out.push(HINTS),
            Self::Phrase(phrase) => out.push(PHRASES + phrase.number()),
            Self::Hints(hints) => {
                let hints = &hints[..hints.len().min(MAX_HINTS)];
                let count = (1..).zip(hints).last().map_or(0, |(count, _)| count);
                if count > 0 {
                    out.push(HINTS + count);
                    out.extend(hints.iter().flatten());
                }
            }
        }
    }
}

/// The check over rebuilt bytes: the front of their SHA-256.
pub fn check(bytes: &[u8]) -> [u8; CHECK_LEN] {
    let digest = Sha256::digest(bytes);
    std::array::from_fn(|index| digest[index])
}

/// Reads frames in any pieces. After [`Frame::Rest`] the rest of the input is not this reader's.
#[derive(Debug, Default)]
pub struct Decoder {
    state: State,
}

#[derive(Debug, Default)]
enum State {
    /// Between two frames.
    #[default]
    Between,
    /// The reason of a miss is to come.
    Reason,
    /// The length of a body is not whole.
    Length { kind: BodyKind, number: Vec<u8> },
    /// A body is not whole.
    Body {
        kind: BodyKind,
        length: usize,
        bytes: Vec<u8>,
    },
}

#[derive(Debug, Clone, Copy)]
enum BodyKind {
    Bytes,
    Delta,
    Again,
    Hints,
    Sealed,
    Offer,
    Key,
}

/// Bytes of a length at most: a number up to [`MAX_LEN`], seven bits a byte.
const MAX_LENGTH_LEN: usize = 3;

impl Decoder {
    /// Takes bytes off the front of `input` until a frame is whole. `None`: all of it was taken,
    /// and more is needed.
    ///
    /// # Errors
    /// [`Malformed`] for what is no frame; there is no reading on then.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<Frame>, Malformed> {
        while let Some((&byte, rest)) = input.split_first() {
            match &mut self.state {
                State::Between => {
                    *input = rest;
                    if let Some(frame) = self.begin(byte)? {
                        return Ok(Some(frame));
                    }
                }
                State::Reason => {
                    *input = rest;
                    self.state = State::Between;
                    let miss = Miss::ALL.into_iter().find(|miss| miss.number() == byte);
                    return Ok(Some(Frame::Missed(miss.ok_or(Malformed)?)));
                }
                State::Length { kind, number } => {
                    *input = rest;
                    number.push(byte);
                    if let Some(length) = whole_length(number)? {
                        self.state = body(*kind, length);
                    }
                }
                State::Body {
                    kind,
                    length,
                    bytes,
                } => {
                    let taken = (*length - bytes.len()).min(input.len());
                    bytes.extend_from_slice(&input[..taken]);
                    *input = &input[taken..];
                    if bytes.len() == *length {
                        let frame = whole(*kind, std::mem::take(bytes))?;
                        self.state = State::Between;
                        return Ok(Some(frame));
                    }
                }
            }
        }
        Ok(None)
    }

    /// The first byte of a frame.
    fn begin(&mut self, byte: u8) -> Result<Option<Frame>, Malformed> {
        let length_of = |kind| State::Length {
            kind,
            number: Vec::new(),
        };
        let frame = match byte {
            REST => Frame::Rest,
            REBUILT => Frame::Rebuilt,
            PLAIN => Frame::Plain,
            END => Frame::End,
            HINTS => Frame::Unknown,
            WAITS => Frame::Waits,
            NO_KEY => Frame::NoKey,
            SEALED | KEY | OFFER => {
                self.state = match byte {
                    SEALED => length_of(BodyKind::Sealed),
                    KEY => length_of(BodyKind::Key),
                    _ => body(BodyKind::Offer, OFFER_LEN),
                };
                return Ok(None);
            }
            PHRASES.. => Frame::Phrase(Phrase::new(byte - PHRASES).ok_or(Malformed)?),
            _ => {
                self.state = match byte {
                    BYTES => length_of(BodyKind::Bytes),
                    DELTA => length_of(BodyKind::Delta),
                    AGAIN => length_of(BodyKind::Again),
                    MISSED => State::Reason,
                    _ => {
                        let count = usize::from(byte.checked_sub(HINTS).ok_or(Malformed)?);
                        if !(1..=MAX_HINTS).contains(&count) {
                            return Err(Malformed);
                        }
                        body(BodyKind::Hints, 4 * count)
                    }
                };
                return Ok(None);
            }
        };
        Ok(Some(frame))
    }

    /// Whether a frame has begun and is not whole.
    pub fn is_inside_frame(&self) -> bool {
        match self.state {
            State::Between => false,
            State::Reason | State::Length { .. } | State::Body { .. } => true,
        }
    }

    /// Bytes that are kept.
    pub fn kept(&self) -> usize {
        match &self.state {
            State::Between | State::Reason => 0,
            State::Length { number, .. } => number.len(),
            State::Body { bytes, .. } => bytes.len(),
        }
    }
}

/// A length, if it is whole.
fn whole_length(number: &[u8]) -> Result<Option<usize>, Malformed> {
    let is_cut = number.last().is_none_or(|byte| byte & 0x80 != 0);
    match varint::read(&mut &*number) {
        Some(length) => {
            let length = usize::try_from(length).map_err(|_| Malformed)?;
            let is_bounded = (1..=MAX_LEN).contains(&length);
            is_bounded.then_some(Some(length)).ok_or(Malformed)
        }
        None if is_cut && number.len() < MAX_LENGTH_LEN => Ok(None),
        None => Err(Malformed),
    }
}

/// A body of which nothing has come.
fn body(kind: BodyKind, length: usize) -> State {
    let check = match kind {
        BodyKind::Delta => CHECK_LEN,
        BodyKind::Bytes
        | BodyKind::Again
        | BodyKind::Hints
        | BodyKind::Sealed
        | BodyKind::Offer
        | BodyKind::Key => 0,
    };
    State::Body {
        kind,
        length: check + length,
        bytes: Vec::new(),
    }
}

/// The frame with this body.
fn whole(kind: BodyKind, mut bytes: Vec<u8>) -> Result<Frame, Malformed> {
    let piece = |bytes| Piece::new(bytes).ok_or(Malformed);
    Ok(match kind {
        BodyKind::Bytes => Frame::Bytes(piece(bytes)?),
        BodyKind::Again => Frame::Again(piece(bytes)?),
        BodyKind::Sealed => Frame::Sealed(piece(bytes)?),
        BodyKind::Delta => {
            let check = *bytes.first_chunk().ok_or(Malformed)?;
            bytes.drain(..CHECK_LEN);
            Frame::Delta {
                check,
                delta: piece(bytes)?,
            }
        }
        BodyKind::Hints => Frame::Hints(bytes.as_chunks().0.to_vec()),
        BodyKind::Key => Frame::Key(piece(bytes)?),
        BodyKind::Offer => {
            let [a, b, c, d, e, f] = *bytes.first_chunk().ok_or(Malformed)?;
            Frame::Offer(Offer {
                held: u16::from_be_bytes([a, b]),
                answer: u16::from_be_bytes([c, d]),
                least: u16::from_be_bytes([e, f]),
            })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn piece(length: usize) -> Piece {
        Piece::new(vec![0x5a; length]).expect("not too long")
    }

    fn frames() -> Vec<Frame> {
        let bodies = [1, 0x7f, 0x80, 0x3fff, 0x4000, MAX_LEN].map(piece);
        let mut frames = vec![
            Frame::Rest,
            Frame::Rebuilt,
            Frame::Plain,
            Frame::End,
            Frame::Unknown,
            Frame::Phrase(Phrase::new(0).expect("the first")),
            Frame::Phrase(Phrase::new(Phrase::COUNT - 1).expect("the last")),
            Frame::Waits,
            Frame::NoKey,
            Frame::Offer(Offer {
                held: 0x1234,
                answer: 0x5678,
                least: u16::MAX,
            }),
        ];
        frames.extend(Miss::ALL.map(Frame::Missed));
        frames.extend((1..=MAX_HINTS).map(|count| Frame::Hints(vec![[7; 4]; count])));
        for body in bodies {
            frames.push(Frame::Bytes(body.clone()));
            frames.push(Frame::Again(body.clone()));
            frames.push(Frame::Sealed(body.clone()));
            frames.push(Frame::Key(body.clone()));
            frames.push(Frame::Delta {
                check: [1, 2, 3, 4],
                delta: body,
            });
        }
        frames
    }

    fn written(frames: &[Frame]) -> Vec<u8> {
        let mut out = Vec::new();
        frames.iter().for_each(|frame| frame.write(&mut out));
        out
    }

    fn read(decoder: &mut Decoder, mut input: &[u8]) -> Result<Vec<Frame>, Malformed> {
        let mut frames = Vec::new();
        while let Some(frame) = decoder.next(&mut input)? {
            frames.push(frame);
        }
        assert!(input.is_empty(), "what is no frame yet is kept");
        Ok(frames)
    }

    #[test]
    fn each_frame_is_read_back_and_has_the_length_that_it_says() {
        for frame in frames() {
            let bytes = written(std::slice::from_ref(&frame));
            assert_eq!(bytes.len(), frame.encoded_len(), "{frame:?}");
            let mut decoder = Decoder::default();
            let read = read(&mut decoder, &bytes).expect("well formed");
            assert_eq!(read, [frame]);
            assert!(!decoder.is_inside_frame() && decoder.kept() == 0);
        }
    }

    #[test]
    fn lengths_are_refused_before_anything_is_kept() {
        for kind in [BYTES, DELTA, AGAIN, SEALED, KEY] {
            for number in [
                &[0][..],
                // One more than the most; not the shortest form; no end.
                &[0x81, 0x80, 0x04],
                &[0x81, 0x00],
                &[0x80, 0x80, 0x80],
            ] {
                let mut decoder = Decoder::default();
                let input = [&[kind][..], number].concat();
                assert_eq!(
                    read(&mut decoder, &input),
                    Err(Malformed),
                    "{kind} {number:?}"
                );
                assert!(decoder.kept() <= MAX_LENGTH_LEN);
            }
            let mut decoder = Decoder::default();
            let most = [kind, 0x80, 0x80, 0x04];
            assert_eq!(read(&mut decoder, &most), Ok(vec![]));
            assert!(decoder.is_inside_frame() && decoder.kept() == 0);
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        for bad in [&[MISSED, 3][..], &[NO_KEY + 1], &[0x1a], &[0xff]] {
            assert_eq!(
                read(&mut Decoder::default(), bad),
                Err(Malformed),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn no_hints_are_no_frame_and_too_many_are_cut() {
        assert!(written(&[Frame::Hints(vec![])]).is_empty());
        let bytes = written(&[Frame::Hints(vec![[1; 4]; 9])]);
        assert_eq!(bytes.len(), 1 + 4 * MAX_HINTS);
        assert!(read(&mut Decoder::default(), &bytes).is_ok());
    }

    #[test]
    fn what_follows_rest_is_left() {
        let mut input = &[PLAIN, REST, BYTES, 9][..];
        let mut decoder = Decoder::default();
        assert_eq!(decoder.next(&mut input), Ok(Some(Frame::Plain)));
        assert_eq!(decoder.next(&mut input), Ok(Some(Frame::Rest)));
        assert_eq!(input, [BYTES, 9]);
    }

    #[test]
    fn a_body_is_not_empty_and_not_longer_than_a_frame_holds() {
        for (length, is_one) in [(0, false), (1, true), (MAX_LEN, true), (MAX_LEN + 1, false)] {
            assert_eq!(Piece::new(vec![0; length]).is_some(), is_one, "{length}");
        }
    }

    proptest! {
        #[test]
        fn frames_are_the_same_in_any_pieces(
            chosen in proptest::collection::vec(0..frames().len(), 1..6),
            cuts in proptest::collection::vec(1usize..20_000, 1..20),
        ) {
            let all = frames();
            let frames: Vec<Frame> = chosen.iter().map(|index| all[*index].clone()).collect();
            let bytes = written(&frames);
            let (mut decoder, mut read_back, mut rest) = (Decoder::default(), vec![], &*bytes);
            for cut in cuts.iter().cycle() {
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                read_back.extend(read(&mut decoder, piece).expect("our own"));
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(read_back, frames);
        }

        #[test]
        fn whatever_is_read_is_written_the_same(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let (mut decoder, mut rest, mut again) = (Decoder::default(), &*bytes, vec![]);
            while let Ok(Some(frame)) = decoder.next(&mut rest) {
                frame.write(&mut again);
                prop_assert!(bytes.starts_with(&again));
            }
        }
    }
}
