//! Where an answer of HTTP/1 ends (RFC 9112, section 6), in whatever pieces it comes.
//!
//! Is not: what is in it. Bodies are counted, not kept.
//!
//! Invariants: a head and a line of a chunked body are bounded; the pieces in which bytes come make
//! no difference.

use core::fmt;

/// The longest head of an answer, and the longest trailer, bytes.
pub const MAX_HEAD_LEN: usize = 65_536;
/// The longest line with the size of a chunk, bytes.
const MAX_SIZE_LINE_LEN: usize = 4_096;
/// Header fields that an answer may have.
const MAX_FIELDS: usize = 128;

/// Why an answer cannot be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpError {
    /// Its head is no head of HTTP/1.0 or 1.1.
    Head,
    /// Its length is not told as it should be.
    Length,
    /// A chunk is not as it should be.
    Chunk,
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Head => "no head of HTTP/1",
            Self::Length => "no valid length",
            Self::Chunk => "a malformed chunk",
        })
    }
}

impl core::error::Error for HttpError {}

/// What became of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// All were taken, and the answer goes on.
    Open,
    /// The answer is whole; so many were taken.
    Whole(usize),
}

/// One answer, being read.
#[derive(Debug, Clone)]
pub struct ResponseReader {
    state: State,
    status: u16,
    body: u64,
    has_begun: bool,
    closes: bool,
}

#[derive(Debug, Clone)]
enum State {
    Head(Vec<u8>),
    Length(u64),
    ChunkSize(Vec<u8>),
    Chunk(u64),
    /// Bytes of the line end after a chunk that are still to come.
    ChunkEnd(u8),
    /// Bytes of the trailer so far, and of its current line.
    Trailer(usize, usize),
    UntilClose,
    Whole,
}

impl Default for ResponseReader {
    fn default() -> Self {
        Self::new()
    }
}

impl ResponseReader {
    /// Before its first byte.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: State::Head(Vec::new()),
            status: 0,
            body: 0,
            has_begun: false,
            closes: false,
        }
    }

    /// The status; 0 before the head is whole.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Whether its first byte is there.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Bytes of the body so far, without the framing of chunks.
    #[must_use]
    pub fn body_len(&self) -> u64 {
        self.body
    }

    /// Whether the server closes the connection after this answer.
    #[must_use]
    pub fn closes(&self) -> bool {
        self.closes
    }

    /// Whether the answer is whole if the connection ends here.
    #[must_use]
    pub fn may_end_here(&self) -> bool {
        match self.state {
            State::UntilClose | State::Whole => true,
            State::Head(_)
            | State::Length(_)
            | State::ChunkSize(_)
            | State::Chunk(_)
            | State::ChunkEnd(_)
            | State::Trailer(..) => false,
        }
    }

    /// Reads on.
    ///
    /// # Errors
    /// The answer cannot be followed; nothing more is to be read.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Reading, HttpError> {
        self.has_begun |= !bytes.is_empty();
        let mut rest = bytes;
        loop {
            if let State::Whole = self.state {
                return Ok(Reading::Whole(bytes.len() - rest.len()));
            }
            if rest.is_empty() {
                return Ok(Reading::Open);
            }
            rest = self.step(rest)?;
        }
    }

    /// Takes some of the bytes, of which there is at least one, and gives back the others.
    fn step<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], HttpError> {
        match &mut self.state {
            State::Head(head) => {
                let Some(taken) = take_line(head, bytes, MAX_HEAD_LEN).ok_or(HttpError::Head)?
                else {
                    return Ok(&[]);
                };
                if head.ends_with(b"\n\r\n") || head.ends_with(b"\n\n") {
                    let head = core::mem::take(head);
                    self.head(&head)?;
                }
                Ok(&bytes[taken..])
            }
            State::Length(left) | State::Chunk(left) => {
                let (taken, rest) = split_at_most(bytes, *left);
                *left -= taken;
                self.body += taken;
                match self.state {
                    State::Length(0) => self.state = State::Whole,
                    State::Chunk(0) => self.state = State::ChunkEnd(2),
                    State::Length(_)
                    | State::Chunk(_)
                    | State::Head(_)
                    | State::ChunkSize(_)
                    | State::ChunkEnd(_)
                    | State::Trailer(..)
                    | State::UntilClose
                    | State::Whole => {}
                }
                Ok(rest)
            }
            State::ChunkSize(line) => {
                let Some(taken) =
                    take_line(line, bytes, MAX_SIZE_LINE_LEN).ok_or(HttpError::Chunk)?
                else {
                    return Ok(&[]);
                };
                self.state = match chunk_size(line)? {
                    0 => State::Trailer(0, 0),
                    size => State::Chunk(size),
                };
                Ok(&bytes[taken..])
            }
            State::ChunkEnd(left) => {
                let expected = if *left == 2 { b'\r' } else { b'\n' };
                if bytes[0] != expected {
                    return Err(HttpError::Chunk);
                }
                *left -= 1;
                if *left == 0 {
                    self.state = State::ChunkSize(Vec::new());
                }
                Ok(&bytes[1..])
            }
            State::Trailer(whole, line) => {
                *whole += 1;
                if *whole > MAX_HEAD_LEN {
                    return Err(HttpError::Chunk);
                }
                match bytes[0] {
                    b'\n' if *line == 0 => self.state = State::Whole,
                    b'\n' => *line = 0,
                    b'\r' => {}
                    _ => *line += 1,
                }
                Ok(&bytes[1..])
            }
            State::UntilClose => {
                self.body += bytes.len() as u64;
                Ok(&[])
            }
            State::Whole => Ok(bytes),
        }
    }

    /// Reads a whole head.
    fn head(&mut self, head: &[u8]) -> Result<(), HttpError> {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        let parsed = response.parse(head).map_err(|_| HttpError::Head)?;
        let status = response.code.ok_or(HttpError::Head)?;
        if !parsed.is_complete() || !(100..600).contains(&status) || status == 101 {
            return Err(HttpError::Head);
        }
        // RFC 9110, section 15.2: any number of interim answers may come before the final one.
        if status < 200 {
            self.state = State::Head(Vec::new());
            return Ok(());
        }
        let mut length = None;
        let mut is_chunked = false;
        self.closes = response.version == Some(0);
        for field in response.headers.iter() {
            if field.name.eq_ignore_ascii_case("content-length") {
                let value = decimal(field.value).ok_or(HttpError::Length)?;
                // RFC 9112, section 6.3: differing lengths are not to be recovered from.
                if length.is_some_and(|length| length != value) {
                    return Err(HttpError::Length);
                }
                length = Some(value);
            } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
                is_chunked = has_token(field.value, b"chunked");
                if !is_chunked {
                    return Err(HttpError::Length);
                }
            } else if field.name.eq_ignore_ascii_case("connection") {
                self.closes |= has_token(field.value, b"close");
            }
        }
        self.status = status;
        self.state = match (status, is_chunked, length) {
            (204 | 304, _, _) | (_, false, Some(0)) => State::Whole,
            (_, true, _) => State::ChunkSize(Vec::new()),
            (_, false, Some(length)) => State::Length(length),
            (_, false, None) => {
                self.closes = true;
                State::UntilClose
            }
        };
        Ok(())
    }
}

/// Adds bytes up to and with a line's end. How many, if that was there; `None` where the whole
/// becomes longer than it may.
fn take_line(line: &mut Vec<u8>, bytes: &[u8], max: usize) -> Option<Option<usize>> {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let taken = end.map_or(bytes.len(), |at| at + 1);
    if line.len() + taken > max {
        return None;
    }
    line.extend_from_slice(&bytes[..taken]);
    Some(end.map(|_| taken))
}

/// How many of the bytes belong to what is left, and those behind them.
fn split_at_most(bytes: &[u8], left: u64) -> (u64, &[u8]) {
    let taken = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
    (taken as u64, &bytes[taken..])
}

/// RFC 9112, section 7.1: hexadecimal, extensions behind it are of no matter.
fn chunk_size(line: &[u8]) -> Result<u64, HttpError> {
    let line = line.trim_ascii();
    let end = line.iter().position(|byte| *byte == b';');
    let digits = line[..end.unwrap_or(line.len())].trim_ascii();
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(HttpError::Chunk);
    }
    str::from_utf8(digits)
        .ok()
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .ok_or(HttpError::Chunk)
}

fn decimal(value: &[u8]) -> Option<u64> {
    let digits = value.trim_ascii();
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(digits).ok()?.parse().ok()
}

/// Whether a list with commas has this token, in small letters or large.
fn has_token(value: &[u8], token: &[u8]) -> bool {
    value
        .split(|byte| *byte == b',')
        .any(|part| part.trim_ascii().eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads in pieces of this size; status, length of the body, bytes taken.
    fn read(text: &str, piece: usize) -> Result<Option<(u16, u64, usize)>, HttpError> {
        let mut reader = ResponseReader::new();
        let mut taken = 0;
        for bytes in text.as_bytes().chunks(piece) {
            match reader.read(bytes)? {
                Reading::Open => taken += bytes.len(),
                Reading::Whole(of_these) => {
                    return Ok(Some((reader.status(), reader.body_len(), taken + of_these)));
                }
            }
        }
        Ok(reader
            .may_end_here()
            .then(|| (reader.status(), reader.body_len(), taken)))
    }

    #[test]
    fn an_answer_ends_where_its_framing_says() {
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                       3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\nrest";
        for (text, expected) in [
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef",
                Some((200, 3, 41)),
            ),
            (chunked, Some((200, 13, chunked.len() - 4))),
            (
                "HTTP/1.1 204 No\r\nContent-Length: 9\r\n\r\n",
                Some((204, 0, 38)),
            ),
            ("HTTP/1.0 200 OK\r\n\r\nto the end", Some((200, 10, 29))),
            (
                "HTTP/1.1 103 Early\r\nLink: a\r\n\r\nHTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
                Some((500, 0, 69)),
            ),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", None),
            ("HTTP/1.1 200 OK\r\n", None),
        ] {
            for piece in [1, 2, 7, 1_000] {
                assert_eq!(read(text, piece), Ok(expected), "{text} by {piece}");
            }
        }
    }

    #[test]
    fn what_cannot_be_followed_is_an_error() {
        for (text, error) in [
            ("SSH-2.0-OpenSSH\r\n\r\n", HttpError::Head),
            ("HTTP/1.1 101 Up\r\n\r\n", HttpError::Head),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
                HttpError::Length,
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                HttpError::Length,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
                HttpError::Length,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+1\r\n",
                HttpError::Chunk,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
                HttpError::Chunk,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\n",
                HttpError::Chunk,
            ),
        ] {
            assert_eq!(read(text, 1_000), Err(error), "{text}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\n{}", "a: b\r\n".repeat(20_000));
        assert_eq!(read(&endless, 1_000), Err(HttpError::Head));
    }

    #[test]
    fn it_is_known_when_the_server_closes() {
        for (head, closes) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n", false),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: x, Close\r\n\r\n",
                true,
            ),
            ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\n\r\n", true),
        ] {
            let mut reader = ResponseReader::new();
            assert!(!reader.has_begun());
            assert_eq!(reader.read(head.as_bytes()), Ok(Reading::Open));
            assert!(reader.has_begun());
            assert_eq!(reader.closes(), closes, "{head}");
        }
    }
}
