//! HTTP/1.1 as it passes: a stream of bytes, in any pieces, to heads and bodies, and heads back to
//! bytes.
//!
//! Is not: a client or a server; what a message means. Heads are parsed by `httparse`; what is
//! added is where they end, and how long their bodies are (RFC 9112, section 6).
//!
//! Invariants: heads, framing and bodies that come out are, in order, the very bytes that went in;
//! work is linear in the input; at most [`MAX_HEAD_LEN`] bytes are held; a message whose length two
//! readers could take differently is refused, never guessed; after [`Wrong`] nothing more is taken.

/// Longest head, in bytes. Servers refuse more than 8 to 64 KiB.
pub const MAX_HEAD_LEN: usize = 1 << 16;
/// Most header lines in a head.
pub const MAX_HEADERS: usize = 128;
/// Longest line with the size of a chunk.
const MAX_SIZE_LINE: usize = 256;

/// Why a stream is no HTTP/1.1 that can be read safely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// `httparse` refuses the head.
    #[error("a head that is no HTTP/1.1")]
    Head,
    /// More than [`MAX_HEAD_LEN`].
    #[error("a head or trailer of more than 64 KiB")]
    Long,
    /// Two lengths, one that is no number, or a coding other than `chunked`.
    #[error("a message whose length cannot be told")]
    Length,
    /// A chunk that does not follow the rules.
    #[error("a chunk that is none")]
    Chunk,
    /// A head in the context of bodies, or the reverse.
    #[error("a part of a message in the context of another")]
    Place,
    /// The stream ended within a message.
    #[error("a message that was cut short")]
    Cut,
    /// More after a message of which nothing can follow.
    #[error("bytes after the last message")]
    Behind,
}

/// Which messages a stream has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Requests.
    Requests,
    /// Responses.
    Responses,
}

/// Which part of the messages comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of them.
    Whole,
    /// Heads alone.
    Heads,
    /// Bodies alone, with the framing of chunks.
    Bodies,
}

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// An endpoint, which is shown everything, and where each part has to be in its place.
    Endpoint,
    /// A middlebox, which may be shown heads alone, or no requests.
    Middlebox,
    /// Somebody who is owed one message, and nothing behind it.
    Once,
}

/// A header line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its name, as it was written.
    pub name: String,
    /// Its value.
    pub value: Vec<u8>,
}

/// A start line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// Of a request.
    Request {
        /// `GET` and the like.
        method: String,
        /// A path, mostly.
        target: String,
    },
    /// Of a response.
    Response {
        /// The status code.
        status: u16,
        /// What is written behind it.
        reason: String,
    },
}

/// Which HTTP the sender of a message speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// 1.0: it knows no chunks, and expects the connection to end with the answer.
    Http10,
    /// 1.1.
    Http11,
}

impl Version {
    /// As in a start line.
    const fn text(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
        }
    }
}

/// The head of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Which HTTP its sender speaks.
    pub version: Version,
    /// Its first line.
    pub start: Start,
    /// The others, in order.
    pub headers: Vec<Header>,
}

impl Head {
    /// A request's head.
    #[must_use]
    pub fn request(method: &str, target: &str) -> Self {
        Self {
            version: Version::Http11,
            start: Start::Request {
                method: method.to_owned(),
                target: target.to_owned(),
            },
            headers: Vec::new(),
        }
    }

    /// A response's head.
    #[must_use]
    pub fn response(status: u16, reason: &str) -> Self {
        Self {
            version: Version::Http11,
            start: Start::Response {
                status,
                reason: reason.to_owned(),
            },
            headers: Vec::new(),
        }
    }

    /// The same with another header line.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push(Header {
            name: name.to_owned(),
            value: value.as_ref().to_vec(),
        });
        self
    }

    /// The values of all lines with this name, in any case of letters.
    pub fn values<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        let lines = self.headers.iter();
        lines
            .filter(move |line| line.name.eq_ignore_ascii_case(name))
            .map(|line| line.value.as_slice())
    }

    /// The value of the first line with this name, if it is text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.values(name).next()?).ok()
    }

    /// Takes all lines with this name out.
    pub fn remove(&mut self, name: &str) {
        self.headers
            .retain(|line| !line.name.eq_ignore_ascii_case(name));
    }

    /// Whether nothing follows on this connection (RFC 9112, section 9.3). `keep-alive` of HTTP/1.0
    /// is not offered.
    #[must_use]
    pub fn closes(&self) -> bool {
        let mut options = self
            .values("connection")
            .flat_map(|value| value.split(|byte| *byte == b','));
        self.version == Version::Http10
            || options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
    }

    /// Its method; `None` in a response.
    #[must_use]
    pub fn method(&self) -> Option<&str> {
        match &self.start {
            Start::Request { method, .. } => Some(method),
            Start::Response { .. } => None,
        }
    }

    /// Its target; `None` in a response.
    #[must_use]
    pub fn target(&self) -> Option<&str> {
        match &self.start {
            Start::Request { target, .. } => Some(target),
            Start::Response { .. } => None,
        }
    }

    /// Its status code; `None` in a request.
    #[must_use]
    pub const fn status(&self) -> Option<u16> {
        match &self.start {
            Start::Response { status, .. } => Some(*status),
            Start::Request { .. } => None,
        }
    }

    /// The head as it is sent.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let version = self.version.text();
        let mut out = match &self.start {
            Start::Request { method, target } => format!("{method} {target} {version}\r\n"),
            Start::Response { status, reason } => format!("{version} {status} {reason}\r\n"),
        }
        .into_bytes();
        for Header { name, value } in &self.headers {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
        out
    }

    pub(crate) fn parse(bytes: &[u8], side: Side) -> Result<Self, Wrong> {
        let mut lines = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let (version, start, headers) = match side {
            Side::Requests => {
                let mut request = httparse::Request::new(&mut lines);
                whole(request.parse(bytes), bytes)?;
                let start = Start::Request {
                    method: request.method.unwrap_or_default().to_owned(),
                    target: request.path.unwrap_or_default().to_owned(),
                };
                (request.version, start, request.headers)
            }
            Side::Responses => {
                let mut response = httparse::Response::new(&mut lines);
                whole(response.parse(bytes), bytes)?;
                // Three digits from 100 on (RFC 9110, section 15).
                let status = response.code.filter(|status| *status >= 100);
                let start = Start::Response {
                    status: status.ok_or(Wrong::Head)?,
                    reason: response.reason.unwrap_or_default().to_owned(),
                };
                (response.version, start, response.headers)
            }
        };
        let headers = headers.iter().map(|line| Header {
            name: line.name.to_owned(),
            value: line.value.to_vec(),
        });
        Ok(Self {
            version: match version {
                Some(0) => Version::Http10,
                Some(_) | None => Version::Http11,
            },
            start,
            headers: headers.collect(),
        })
    }

    /// How long its body is (RFC 9112, section 6.3). `answers` is the request's method, if known.
    fn framing(&self, answers: Option<&str>) -> Result<Framing, Wrong> {
        match &self.start {
            Start::Response { status: 101, .. } => return Ok(Framing::Close),
            Start::Response { status, .. }
                if matches!(status, 100..=199 | 204 | 304) || answers == Some("HEAD") =>
            {
                return Ok(Framing::None);
            }
            Start::Response { .. } if answers == Some("CONNECT") => return Ok(Framing::Close),
            Start::Response { .. } | Start::Request { .. } => {}
        }
        let mut length = None;
        for value in self.values("content-length") {
            let text = std::str::from_utf8(value).map_err(|_| Wrong::Length)?;
            // A sign, which `parse` would take, is no digit.
            if !text.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(Wrong::Length);
            }
            let number: u64 = text.parse().map_err(|_| Wrong::Length)?;
            if length
                .replace(number)
                .is_some_and(|before| before != number)
            {
                return Err(Wrong::Length);
            }
        }
        let mut codings = self.values("transfer-encoding");
        match (codings.next(), codings.next(), length) {
            (None, _, Some(0)) => Ok(Framing::None),
            (None, _, Some(length)) => Ok(Framing::Length(length)),
            (None, _, None) => Ok(match self.start {
                Start::Request { .. } => Framing::None,
                Start::Response { .. } => Framing::Close,
            }),
            // HTTP/1.0 has no codings (RFC 9112, section 6.1: such a message's framing is faulty).
            (Some(coding), None, None)
                if coding.eq_ignore_ascii_case(b"chunked") && self.version == Version::Http11 =>
            {
                Ok(Framing::Chunked)
            }
            // Both, or another coding: where a request ends would depend on who reads it.
            (Some(_), _, _) => Err(Wrong::Length),
        }
    }

    /// Whether its body ends by itself, and is not empty.
    #[must_use]
    pub fn has_known_end(&self) -> bool {
        match self.framing(None) {
            Ok(Framing::Length(_) | Framing::Chunked) => true,
            Ok(Framing::None | Framing::Close) | Err(_) => false,
        }
    }
}

fn whole(status: httparse::Result<usize>, bytes: &[u8]) -> Result<(), Wrong> {
    match status {
        Ok(httparse::Status::Complete(length)) if length == bytes.len() => Ok(()),
        Ok(httparse::Status::Complete(_) | httparse::Status::Partial) | Err(_) => Err(Wrong::Head),
    }
}

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    None,
    Length(u64),
    Chunked,
    /// With the connection.
    Close,
}

/// Where in a message a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    Length(u64),
    Size,
    Chunk(u64),
    /// Behind a chunk's data.
    ChunkEnd,
    Trailer,
    Close,
    Failed(Wrong),
}

/// What has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A whole head.
    Head {
        /// What it says.
        head: Head,
        /// Its very bytes, in part from earlier pieces.
        raw: Vec<u8>,
    },
    /// Bytes that belong to no head and no body: sizes and ends of chunks, trailers, empty lines.
    Framing(Vec<u8>),
    /// A piece of its body.
    Body(Vec<u8>),
    /// The end of the message.
    End,
}

/// One direction's messages.
#[derive(Debug)]
pub struct Messages {
    side: Side,
    reader: Reader,
    state: State,
    /// What is held of a head, or of a line among chunks.
    held: Vec<u8>,
    /// How long the trailer has become.
    trailer: usize,
    /// Whether a message has come to its end.
    has_ended: bool,
    /// Methods of requests whose responses have not come.
    asked: std::collections::VecDeque<String>,
}

impl Messages {
    /// A stream before its first message.
    #[must_use]
    pub fn new(side: Side, reader: Reader) -> Self {
        Self {
            side,
            reader,
            state: State::Head,
            held: Vec::new(),
            trailer: 0,
            has_ended: false,
            asked: std::collections::VecDeque::new(),
        }
    }

    /// Says which method the next response answers. Without that none is taken for HEAD's.
    pub fn expect_answer(&mut self, method: &str) {
        // A client that asks and asks and is never answered does not fill the memory.
        if self.asked.len() < MAX_HEADERS {
            self.asked.push_back(method.to_owned());
        }
    }

    /// Takes bytes of the stream.
    ///
    /// # Errors
    /// [`Wrong`], now and from then on.
    pub fn push(&mut self, part: Part, data: &[u8]) -> Result<Vec<Event>, Wrong> {
        let mut events = Vec::new();
        let taken = self.take(part, data, &mut events);
        if let Err(wrong) = taken {
            self.state = State::Failed(wrong);
            self.held = Vec::new();
        }
        taken.map(|()| events)
    }

    /// Whether a part of a head has come and is held.
    #[must_use]
    pub fn is_within_head(&self) -> bool {
        self.head_so_far() > 0
    }

    /// How much of a head has come and is held.
    pub(crate) fn head_so_far(&self) -> usize {
        match self.state {
            State::Head => self.held.len(),
            State::Length(_)
            | State::Size
            | State::Chunk(_)
            | State::ChunkEnd
            | State::Trailer
            | State::Close
            | State::Failed(_) => 0,
        }
    }

    /// Takes the end of the stream.
    ///
    /// # Errors
    /// [`Wrong::Cut`] within a message.
    pub fn finish(&mut self) -> Result<Option<Event>, Wrong> {
        match self.state {
            State::Head if self.held.is_empty() => Ok(None),
            State::Close => {
                self.state = State::Head;
                Ok(Some(Event::End))
            }
            State::Failed(wrong) => Err(wrong),
            State::Head
            | State::Length(_)
            | State::Size
            | State::Chunk(_)
            | State::ChunkEnd
            | State::Trailer => Err(Wrong::Cut),
        }
    }

    fn take(&mut self, part: Part, data: &[u8], events: &mut Vec<Event>) -> Result<(), Wrong> {
        if let State::Failed(wrong) = self.state {
            return Err(wrong);
        }
        // What a middlebox has deleted.
        if data.is_empty() {
            return Ok(());
        }
        match (part, self.reader) {
            (Part::Heads, Reader::Middlebox) if self.state != State::Head => {
                // The body went by unseen, or was that of an answer to HEAD: none.
                self.state = State::Head;
                self.held.clear();
                events.push(Event::End);
            }
            (Part::Heads, Reader::Endpoint) if self.state != State::Head => {
                return Err(Wrong::Place);
            }
            (Part::Bodies, _) if self.state == State::Head => return Err(Wrong::Place),
            (Part::Whole | Part::Heads | Part::Bodies, _) => {}
        }
        let mut rest = data;
        while !rest.is_empty() {
            if self.has_ended && self.reader == Reader::Once {
                return Err(Wrong::Behind);
            }
            let was_head = self.state == State::Head;
            let before = rest.len();
            match self.state {
                State::Head => self.take_head(&mut rest, events)?,
                State::Length(left) => {
                    let left = self.take_body(&mut rest, left, events);
                    match left {
                        0 => self.ended(events),
                        left => self.state = State::Length(left),
                    }
                }
                State::Chunk(left) => match self.take_body(&mut rest, left, events) {
                    0 => self.state = State::ChunkEnd,
                    left => self.state = State::Chunk(left),
                },
                State::Size => self.take_size(&mut rest, events)?,
                State::ChunkEnd => {
                    if let Some(line) = self.take_line(&mut rest, 2, events)? {
                        self.state = match line.is_empty() {
                            true => State::Size,
                            false => return Err(Wrong::Chunk),
                        };
                    }
                }
                State::Trailer => {
                    let line = self.take_line(&mut rest, MAX_HEAD_LEN, events)?;
                    self.trailer += before - rest.len();
                    if self.trailer > MAX_HEAD_LEN {
                        return Err(Wrong::Long);
                    }
                    if line.is_some_and(|line| line.is_empty()) {
                        self.trailer = 0;
                        self.ended(events);
                    }
                }
                State::Close => {
                    events.push(Event::Body(rest.to_vec()));
                    rest = &[];
                }
                State::Failed(wrong) => return Err(wrong),
            }
            debug_assert!(rest.len() < before, "each turn takes something");
            let is_head = self.state == State::Head;
            match part {
                // A body in the context of heads, or a head in that of bodies.
                Part::Heads if was_head && !is_head && !rest.is_empty() => {
                    return Err(Wrong::Place);
                }
                Part::Bodies if is_head && !rest.is_empty() => return Err(Wrong::Place),
                Part::Whole | Part::Heads | Part::Bodies => {}
            }
        }
        Ok(())
    }

    fn take_head(&mut self, rest: &mut &[u8], events: &mut Vec<Event>) -> Result<(), Wrong> {
        // Empty lines before a start line are passed over (RFC 9112, section 2.2).
        if self.held.is_empty() {
            let start = rest.iter().position(|byte| !matches!(byte, b'\r' | b'\n'));
            let start = start.unwrap_or(rest.len());
            if start > 0 {
                events.push(Event::Framing(rest[..start].to_vec()));
                *rest = &rest[start..];
                return Ok(());
            }
        }
        let known = self.held.len();
        let room = MAX_HEAD_LEN.saturating_sub(known).min(rest.len());
        self.held.extend_from_slice(&rest[..room]);
        let Some(end) = end_of_head(&self.held, known) else {
            if room < rest.len() || self.held.len() == MAX_HEAD_LEN {
                return Err(Wrong::Long);
            }
            *rest = &[];
            return Ok(());
        };
        *rest = &rest[end - known..];
        self.held.truncate(end);
        let raw = std::mem::take(&mut self.held);
        let head = Head::parse(&raw, self.side)?;
        let is_final = head
            .status()
            .is_none_or(|status| !matches!(status, 100..=199));
        let answers = match is_final {
            true => self.asked.pop_front(),
            false => None,
        };
        let framing = head.framing(answers.as_deref())?;
        events.push(Event::Head { head, raw });
        match framing {
            Framing::None => self.ended(events),
            Framing::Length(length) => self.state = State::Length(length),
            Framing::Chunked => self.state = State::Size,
            Framing::Close => self.state = State::Close,
        }
        Ok(())
    }

    fn ended(&mut self, events: &mut Vec<Event>) {
        self.state = State::Head;
        self.has_ended = true;
        events.push(Event::End);
    }

    fn take_body(&self, rest: &mut &[u8], left: u64, events: &mut Vec<Event>) -> u64 {
        let available = u64::try_from(rest.len()).unwrap_or(u64::MAX);
        let take = usize::try_from(left.min(available)).unwrap_or(rest.len());
        events.push(Event::Body(rest[..take].to_vec()));
        *rest = &rest[take..];
        left - left.min(available)
    }

    fn take_size(&mut self, rest: &mut &[u8], events: &mut Vec<Event>) -> Result<(), Wrong> {
        let Some(line) = self.take_line(rest, MAX_SIZE_LINE, events)? else {
            return Ok(());
        };
        let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
        let digits = digits.trim_ascii_end();
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(Wrong::Chunk);
        }
        let text = std::str::from_utf8(digits).map_err(|_| Wrong::Chunk)?;
        self.state = match u64::from_str_radix(text, 16).map_err(|_| Wrong::Chunk)? {
            0 => State::Trailer,
            size => State::Chunk(size),
        };
        Ok(())
    }

    /// A line without its end, once it is whole; at most `max` bytes with all that is held.
    fn take_line(
        &mut self,
        rest: &mut &[u8],
        max: usize,
        events: &mut Vec<Event>,
    ) -> Result<Option<Vec<u8>>, Wrong> {
        let end = rest.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(rest.len(), |end| end + 1);
        if self.held.len() + length > max {
            return Err(match max {
                MAX_HEAD_LEN => Wrong::Long,
                _ => Wrong::Chunk,
            });
        }
        self.held.extend_from_slice(&rest[..length]);
        events.push(Event::Framing(rest[..length].to_vec()));
        *rest = &rest[length..];
        if end.is_none() {
            return Ok(None);
        }
        let mut line = std::mem::take(&mut self.held);
        line.pop();
        // A line feed alone would be read otherwise by others.
        match line.pop() {
            Some(b'\r') if !line.contains(&b'\r') => Ok(Some(line)),
            Some(_) | None => Err(Wrong::Chunk),
        }
    }
}

/// Behind the empty line that ends a head, of which the first `known` bytes were looked at before.
pub(crate) fn end_of_head(held: &[u8], known: usize) -> Option<usize> {
    // The empty line may have begun before.
    let from = known.saturating_sub(3);
    let mut at = from;
    while let Some(found) = held[at..].iter().position(|byte| *byte == b'\n') {
        let next = at + found + 1;
        match &held[next..] {
            [b'\n', ..] => return Some(next + 1),
            [b'\r', b'\n', ..] => return Some(next + 2),
            [] | [_, ..] => at = next,
        }
    }
    None
}

/// A path with `%41` read as `A`; what is no escape stays.
#[must_use]
pub fn unescaped(path: &str) -> String {
    let mut out = Vec::with_capacity(path.len());
    let bytes = path.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let digits = bytes
            .get(at + 1..at + 3)
            .and_then(|two| std::str::from_utf8(two).ok());
        let digits = digits.filter(|two| two.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match (
            byte,
            digits.and_then(|two| u8::from_str_radix(two, 16).ok()),
        ) {
            (b'%', Some(value)) => {
                out.push(value);
                at += 3;
            }
            (byte, _) => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A chunk with this data; nothing for no data, which would end the body.
pub fn write_chunk(data: &[u8], out: &mut Vec<u8>) {
    if !data.is_empty() {
        out.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
        out.extend_from_slice(data);
        out.extend_from_slice(b"\r\n");
    }
}

/// What ends a body in chunks.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: x.example\r\n\r\n";

    fn requests() -> Messages {
        Messages::new(Side::Requests, Reader::Endpoint)
    }

    fn responses() -> Messages {
        Messages::new(Side::Responses, Reader::Endpoint)
    }

    fn body(events: &[Event]) -> Vec<u8> {
        let bodies = events.iter().map(|event| match event {
            Event::Body(data) => data.as_slice(),
            Event::Head { .. } | Event::Framing(_) | Event::End => &[],
        });
        bodies.collect::<Vec<_>>().concat()
    }

    fn raw(events: &[Event]) -> Vec<u8> {
        let pieces = events.iter().map(|event| match event {
            Event::Head { raw, .. } => raw.as_slice(),
            Event::Framing(bytes) | Event::Body(bytes) => bytes,
            Event::End => &[],
        });
        pieces.collect::<Vec<_>>().concat()
    }

    #[test]
    fn any_pieces_give_the_same_messages() {
        let text = b"\r\nPOST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
            5;x=y\r\nhello\r\n7\r\n there!\r\n0\r\nTrailer: x\r\n\r\n\
            PUT /b HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET /c HTTP/1.1\r\n\r\n";
        let whole = requests().push(Part::Whole, text).expect("good");
        let heads = |events: &[Event]| {
            let heads = events.iter().filter_map(|event| match event {
                Event::Head { head, .. } => head.target().map(str::to_owned),
                Event::Framing(_) | Event::Body(_) | Event::End => None,
            });
            heads.collect::<Vec<_>>()
        };
        assert_eq!(heads(&whole), ["/a", "/b", "/c"]);
        assert_eq!(body(&whole), b"hello there!abc");
        for size in 1..9 {
            let mut messages = requests();
            let mut events = Vec::new();
            for piece in text.chunks(size) {
                events.extend(messages.push(Part::Whole, piece).expect("good"));
            }
            assert_eq!(heads(&events), heads(&whole), "{size}");
            assert_eq!(body(&events), body(&whole), "{size}");
            assert_eq!(raw(&events), text, "{size}");
            let ends = events.iter().filter(|event| **event == Event::End);
            assert_eq!(ends.count(), 3, "{size}");
            assert_eq!(messages.finish(), Ok(None));
        }
    }

    #[test]
    fn a_length_that_two_readers_could_take_differently_is_refused() {
        for lines in [
            "Content-Length: 3\r\nContent-Length: 4",
            "Content-Length: 3\r\nTransfer-Encoding: chunked",
            "Content-Length: +3",
            "Content-Length: 3, 3",
            "Content-Length: 18446744073709551616",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        ] {
            let text = format!("POST / HTTP/1.1\r\n{lines}\r\n\r\n");
            let refused = requests().push(Part::Whole, text.as_bytes());
            assert_eq!(refused, Err(Wrong::Length), "{lines}");
        }
    }

    #[test]
    fn chunks_that_break_the_rules_are_refused() {
        for chunks in [
            "x\r\n",
            "\r\n",
            "5\nhello",
            "2\r\nabc\r\n",
            "-1\r\n",
            "11112222333344445\r\n",
        ] {
            let text = format!("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
            let refused = requests().push(Part::Whole, text.as_bytes());
            assert_eq!(refused, Err(Wrong::Chunk), "{chunks:?}");
        }
    }

    #[test]
    fn what_never_ends_is_refused_at_its_bound() {
        let mut messages = requests();
        let line = [b'a'; 1 << 12];
        let mut taken = 0;
        let refused = loop {
            match messages.push(Part::Whole, &line) {
                Ok(_) => taken += line.len(),
                Err(wrong) => break wrong,
            }
        };
        assert_eq!(refused, Wrong::Long);
        assert!(taken <= MAX_HEAD_LEN);
        assert_eq!(messages.push(Part::Whole, GET), Err(Wrong::Long));
    }

    #[test]
    fn an_answer_to_head_has_no_body_and_one_without_a_length_ends_with_the_stream() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
        let mut messages = responses();
        messages.expect_answer("HEAD");
        messages.expect_answer("GET");
        let events = messages.push(Part::Whole, text).expect("good");
        assert!(matches!(events[..], [Event::Head { .. }, Event::End]));
        let open = b"HTTP/1.1 200 OK\r\n\r\nall there is";
        let events = messages.push(Part::Whole, open).expect("good");
        assert_eq!(body(&events), b"all there is");
        assert_eq!(messages.finish(), Ok(Some(Event::End)));
    }

    #[test]
    fn a_message_that_is_cut_short_is_no_whole_one() {
        for cut in [&GET[..9], b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nx"] {
            let mut messages = requests();
            messages.push(Part::Whole, cut).expect("so far good");
            assert_eq!(messages.finish(), Err(Wrong::Cut));
        }
    }

    #[test]
    fn an_endpoint_refuses_a_part_in_the_place_of_another() {
        let post = b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n";
        let mut hidden = requests();
        assert_eq!(hidden.push(Part::Bodies, GET), Err(Wrong::Place));
        let mut early = requests();
        early.push(Part::Heads, post).expect("a head");
        assert_eq!(early.push(Part::Heads, GET), Err(Wrong::Place));
        let mut behind = requests();
        let both = [&post[..], b"ab"].concat();
        assert_eq!(behind.push(Part::Heads, &both), Err(Wrong::Place));
        let mut next = requests();
        next.push(Part::Heads, post).expect("a head");
        let more = [b"ab", GET].concat();
        assert_eq!(next.push(Part::Bodies, &more), Err(Wrong::Place));
    }

    #[test]
    fn a_middlebox_that_is_shown_heads_alone_reads_each() {
        let post = b"POST /one HTTP/1.1\r\nContent-Length: 2\r\n\r\n";
        let mut messages = Messages::new(Side::Requests, Reader::Middlebox);
        let first = messages.push(Part::Heads, post).expect("a head");
        assert_eq!(first.len(), 1);
        let second = messages.push(Part::Heads, GET).expect("a head");
        assert!(matches!(
            second[..],
            [Event::End, Event::Head { .. }, Event::End]
        ));
    }

    #[test]
    fn a_connection_closes_as_its_options_and_its_version_say() {
        for (lines, closes) in [
            ("HTTP/1.1\r\n", false),
            ("HTTP/1.1\r\nConnection: keep-alive, TE\r\n", false),
            ("HTTP/1.1\r\nConnection: disclose\r\n", false),
            ("HTTP/1.1\r\nConnection: Close\r\n", true),
            ("HTTP/1.1\r\nConnection: close, TE\r\n", true),
            ("HTTP/1.1\r\nConnection: TE,\t close\r\n", true),
            ("HTTP/1.1\r\nConnection: TE\r\nConnection: close\r\n", true),
            ("HTTP/1.0\r\n", true),
            ("HTTP/1.0\r\nConnection: keep-alive\r\n", true),
        ] {
            let text = format!("GET / {lines}\r\n");
            let events = requests().push(Part::Whole, text.as_bytes()).expect("good");
            let [Event::Head { head, raw }, Event::End] = &events[..] else {
                panic!("{events:?}");
            };
            assert_eq!(head.closes(), closes, "{lines}");
            assert_eq!(head.to_bytes(), *raw);
        }
        let coded = b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
        assert_eq!(requests().push(Part::Whole, coded), Err(Wrong::Length));
    }

    #[test]
    fn a_head_is_written_as_it_was_read() {
        let events = requests().push(Part::Whole, GET).expect("good");
        let [Event::Head { head, raw }, Event::End] = &events[..] else {
            panic!("{events:?}");
        };
        assert_eq!((raw.as_slice(), head.to_bytes()), (GET, GET.to_vec()));
        assert_eq!(head.text("HOST"), Some("x.example"));
    }
}
