//! The frames of a connection that carries many streams, as bytes.
//!
//! Is not: what a stream is allowed to do; nor the frames on a stream (`tandem_link::tunnel`).
//!
//! ```text
//! frame = (stream << 3 | kind)(varint) ...
//!   0 data   : length(varint) bytes{length}   at least one
//!   1 end    :                                no more bytes follow
//!   2 reset  : code(varint)                   the sender gives this direction up
//!   3 stop   : code(varint)                   the receiver wants no more of the other direction
//!   4 credit : bytes(varint)                  so many more may be sent in the other direction
//! ```
//!
//! Invariant: what is read may come in any pieces; no more than a frame's head is kept.

use tandem_delta::varint;

/// Bits of the kind.
const KIND_BITS: u32 = 3;

/// Number of a stream on the wire; those that follow cannot be written.
pub(super) const MAX_ID: u32 = u32::MAX >> KIND_BITS;

/// Most bytes of a frame without its content: two numbers.
pub(super) const MAX_HEAD: usize = 10;

/// The other side has sent what is no frame, or one that it may not send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the other side sent what is not defined")]
pub struct Malformed;

/// A frame, without its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) id: u32,
    pub(super) says: Says,
}

/// What a frame says of its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Says {
    /// So many bytes follow.
    Data(u32),
    End,
    Reset(u32),
    Stop(u32),
    Credit(u32),
}

impl Frame {
    /// Appends it.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        let (kind, number) = match self.says {
            Says::Data(len) => (0, Some(len)),
            Says::End => (1, None),
            Says::Reset(code) => (2, Some(code)),
            Says::Stop(code) => (3, Some(code)),
            Says::Credit(bytes) => (4, Some(bytes)),
        };
        varint::write(out, self.id << KIND_BITS | kind);
        if let Some(number) = number {
            varint::write(out, number);
        }
    }
}

/// What has been read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item<'a> {
    Frame(Frame),
    /// Bytes of the stream whose data frame came last.
    Bytes {
        id: u32,
        bytes: &'a [u8],
    },
}

/// Reads frames.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// A frame's head, as far as it has come.
    head: Vec<u8>,
    /// What is still to come of a data frame.
    body: Option<Body>,
}

#[derive(Debug, Clone, Copy)]
struct Body {
    id: u32,
    left: u32,
}

impl Decoder {
    /// Takes the next item off the front of `input`; `None` where it is used up.
    pub(super) fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Item<'a>>, Malformed> {
        if let Some(Body { id, left }) = self.body
            && !input.is_empty()
        {
            let len = input.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let (bytes, rest) = input.split_at(len);
            *input = rest;
            let left = left - u32::try_from(len).unwrap_or(left);
            self.body = (left > 0).then_some(Body { id, left });
            return Ok(Some(Item::Bytes { id, bytes }));
        }
        while let Some((&byte, rest)) = input.split_first() {
            *input = rest;
            self.head.push(byte);
            // A number ends with a byte below 0x80.
            let frame = if byte < 0x80 { self.whole()? } else { None };
            if let Some(frame) = frame {
                self.head.clear();
                if let Says::Data(left) = frame.says {
                    self.body = Some(Body { id: frame.id, left });
                }
                return Ok(Some(Item::Frame(frame)));
            }
            if self.head.len() >= MAX_HEAD {
                return Err(Malformed);
            }
        }
        Ok(None)
    }

    /// The frame whose head has come, if it is all there.
    fn whole(&self) -> Result<Option<Frame>, Malformed> {
        let mut head = self.head.as_slice();
        let first = varint::read(&mut head).ok_or(Malformed)?;
        let id = first >> KIND_BITS;
        let number = match (head.is_empty(), first & 7) {
            (true, 1) => {
                return Ok(Some(Frame {
                    id,
                    says: Says::End,
                }));
            }
            (true, 0 | 2..=4) => return Ok(None),
            (true, _) => return Err(Malformed),
            (false, _) => varint::read(&mut head).ok_or(Malformed)?,
        };
        let says = match first & 7 {
            0 if number > 0 => Says::Data(number),
            2 => Says::Reset(number),
            3 => Says::Stop(number),
            4 if number > 0 => Says::Credit(number),
            _ => return Err(Malformed),
        };
        Ok(Some(Frame { id, says }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_these_bytes_and_are_read_in_any_pieces() {
        let frames = [
            (Says::Data(3), &[40, 3][..]),
            (Says::End, &[41]),
            (Says::Reset(300), &[42, 0xac, 2]),
            (Says::Stop(0), &[43, 0]),
            (Says::Credit(65_536), &[44, 0x80, 0x80, 4]),
        ];
        for (says, expected) in frames {
            let frame = Frame { id: 5, says };
            let mut bytes = Vec::new();
            frame.write(&mut bytes);
            assert_eq!(bytes, expected, "{says:?}");
            let mut decoder = Decoder::default();
            for byte in &bytes[..bytes.len() - 1] {
                assert_eq!(decoder.next(&mut std::slice::from_ref(byte)), Ok(None));
            }
            let mut last = &bytes[bytes.len() - 1..];
            assert_eq!(decoder.next(&mut last), Ok(Some(Item::Frame(frame))));
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        for bad in [
            // Kinds that are not defined; data and credit of nothing; numbers that are too long.
            &[5][..],
            &[7, 1],
            &[0, 0],
            &[4, 0],
            &[0x80, 0],
            &[0xff; 10],
        ] {
            let read = Decoder::default().next(&mut &bad[..]);
            assert_eq!(read, Err(Malformed), "{bad:?}");
        }
    }

    #[test]
    fn the_content_follows_its_frame_and_ends_where_it_said() {
        let bytes = [0, 3, b'a', b'b', b'c', 1];
        let mut decoder = Decoder::default();
        let (mut front, mut back) = bytes.split_at(3);
        let says = Says::Data(3);
        let head = Item::Frame(Frame { id: 0, says });
        assert_eq!(decoder.next(&mut front), Ok(Some(head)));
        let content = |bytes| Item::Bytes { id: 0, bytes };
        assert_eq!(decoder.next(&mut front), Ok(Some(content(b"a"))));
        assert_eq!(decoder.next(&mut front), Ok(None));
        assert_eq!(decoder.next(&mut back), Ok(Some(content(b"bc"))));
        let says = Says::End;
        let end = Item::Frame(Frame { id: 0, says });
        assert_eq!(decoder.next(&mut back), Ok(Some(end)));
    }
}
