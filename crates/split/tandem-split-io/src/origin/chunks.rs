//! The chunks of a request's body (RFC 9112, 7.1): taken off, and their end found.
//!
//! Is not: lenient. What two programs could read differently is refused, so that no request hides
//! in another's body (RFC 9112, 11.2).
//!
//! Invariants: a chunk's size line and the trailers are bounded; extensions and trailers are read
//! over and passed to nobody; every line ends in a carriage return and a line feed, since some
//! programs take a line feed alone for an end and others do not.

use httparse::Status;

/// The most bytes of a chunk's size line, with its extensions.
const MAX_LINE: usize = 1 << 10;
/// The most bytes of the trailers.
const MAX_TRAILERS: usize = 8 << 10;
const MAX_TRAILER_FIELDS: usize = 32;

/// Where in the chunks the body is.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    at: At,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Size,
    /// This many bytes of the chunk are to come.
    Data(u64),
    /// The line's end after the chunk.
    AfterData,
    Trailers,
    End,
}

/// What came is not in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl Chunks {
    /// Takes from the front of `received` what belongs to the body: its content. What follows the
    /// body stays.
    pub(super) fn take(&mut self, received: &mut Vec<u8>) -> Result<Vec<u8>, Malformed> {
        let mut content = Vec::new();
        let mut read = 0;
        while let Some(len) = self.step(&received[read..], &mut content)? {
            read += len;
        }
        received.drain(..read);
        Ok(content)
    }

    /// Whether the body's end has come.
    pub(super) fn is_over(&self) -> bool {
        self.at == At::End
    }

    /// One part at the front of `bytes`: its length; nothing as long as it is not whole, or where
    /// all is over.
    fn step(&mut self, bytes: &[u8], content: &mut Vec<u8>) -> Result<Option<usize>, Malformed> {
        match self.at {
            // The parser takes no digits for a zero.
            At::Size if bytes.first().is_some_and(|byte| !byte.is_ascii_hexdigit()) => {
                Err(Malformed)
            }
            At::Size => match httparse::parse_chunk_size(bytes) {
                // In an extension the parser takes any byte.
                Ok(Status::Complete((len, _))) if has_bare_line_feed(&bytes[..len]) => {
                    Err(Malformed)
                }
                Ok(Status::Partial) if has_bare_line_feed(bytes) => Err(Malformed),
                Ok(Status::Complete((len, size))) if len <= MAX_LINE => {
                    self.at = match size {
                        0 => At::Trailers,
                        size => At::Data(size),
                    };
                    Ok(Some(len))
                }
                Ok(Status::Partial) if bytes.len() <= MAX_LINE => Ok(None),
                Ok(_) | Err(_) => Err(Malformed),
            },
            At::Data(left) => {
                let len = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                content.extend_from_slice(&bytes[..len]);
                self.at = match left - len as u64 {
                    0 => At::AfterData,
                    left => At::Data(left),
                };
                Ok((len > 0).then_some(len))
            }
            At::AfterData => match bytes {
                [] | [b'\r'] => Ok(None),
                [b'\r', b'\n', ..] => {
                    self.at = At::Size;
                    Ok(Some(2))
                }
                _ => Err(Malformed),
            },
            At::Trailers => {
                let mut fields = [httparse::EMPTY_HEADER; MAX_TRAILER_FIELDS];
                match httparse::parse_headers(bytes, &mut fields) {
                    Ok(Status::Complete((len, _))) if has_bare_line_feed(&bytes[..len]) => {
                        Err(Malformed)
                    }
                    Ok(Status::Complete((len, _))) if len <= MAX_TRAILERS => {
                        self.at = At::End;
                        Ok(Some(len))
                    }
                    Ok(Status::Partial) if bytes.len() <= MAX_TRAILERS => Ok(None),
                    Ok(_) | Err(_) => Err(Malformed),
                }
            }
            At::End => Ok(None),
        }
    }
}

/// Whether a line feed is there without a carriage return before it.
fn has_bare_line_feed(bytes: &[u8]) -> bool {
    let shifted = std::iter::once(&0).chain(bytes);
    shifted
        .zip(bytes)
        .any(|(before, byte)| *byte == b'\n' && *before != b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    type Whole = Option<(Vec<u8>, Vec<u8>)>;

    /// The content, and what is left behind the body, if the body ends in these bytes; fed in parts
    /// of `step` bytes.
    fn read(text: &[u8], step: usize) -> Result<Whole, Malformed> {
        let (mut chunks, mut received, mut content) = (Chunks::default(), Vec::new(), Vec::new());
        for part in text.chunks(step) {
            received.extend_from_slice(part);
            content.extend(chunks.take(&mut received)?);
        }
        Ok(chunks.is_over().then_some((content, received)))
    }

    #[test]
    fn chunks_are_taken_off_however_they_arrive() {
        let text = b"4\r\nwiki\r\n00A;x=\"y\"\r\n0123456789\r\n0\r\nExpires: never\r\n\r\nGET /";
        let expected = (b"wiki0123456789".to_vec(), b"GET /".to_vec());
        for step in [1, 2, 3, 7, text.len()] {
            assert_eq!(read(text, step), Ok(Some(expected.clone())), "{step}");
        }
        assert_eq!(read(b"0\r\n\r\n", 1), Ok(Some((Vec::new(), Vec::new()))));
        assert_eq!(read(b"4\r\nwik", 1), Ok(None));
        assert_eq!(read(b"4\r\nwiki\r\n0\r\n", 1), Ok(None));
    }

    #[test]
    fn what_is_no_chunk_is_refused_and_nothing_is_waited_for_without_end() {
        for text in [
            &b"x\r\n"[..],
            b"-4\r\nwiki\r\n",
            b"4\r\nwikipedia\r\n",
            b"4\nwiki\r\n",
            b"10000000000000000\r\n",
            b"0\r\nno field\r\n\r\n",
            b"4;x\n2\r\nwiki\r\n0\r\n\r\n",
            b"4;x=\"\n\"\r\nwiki\r\n0\r\n\r\n",
            b"0;\n\r\n\r\n",
            b"\r\n\r\n",
            b";x\r\n\r\n",
            b"0\r\nX: y\n\r\n",
            b"0\r\nX: y\r\n\n",
        ] {
            for step in [1, text.len()] {
                assert_eq!(read(text, step), Err(Malformed), "{text:?} by {step}");
            }
        }
        let line = [&b"4;"[..], &[b'x'; MAX_LINE]].concat();
        assert_eq!(read(&line, 100), Err(Malformed));
        let trailers = [&b"0\r\nX: "[..], &[b'x'; MAX_TRAILERS]].concat();
        assert_eq!(read(&trailers, 1000), Err(Malformed));
    }
}
