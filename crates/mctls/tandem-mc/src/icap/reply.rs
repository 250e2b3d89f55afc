//! What an ICAP server says (RFC 3507, section 4.3): a stream of bytes, in any pieces, to verdicts,
//! and to the HTTP message that is to stand in place of the one that was sent.
//!
//! Is not: a connection; what a verdict means. Invariants: work is linear in the input; at most
//! [`MAX_HEAD_LEN`] bytes are held; what has two readings is refused; after [`Wrong`] nothing more
//! is taken.
//!
//! ```text
//! ICAP/1.0 200 OK                                   status and headers of ICAP
//! Encapsulated: res-hdr=0, res-body=137             where the parts of the message lie
//!
//! HTTP/1.1 403 Forbidden ...                        137 bytes: a head of HTTP, whole
//!
//! 1e CRLF ... 0 CRLF CRLF                           its body, always in chunks
//! ```

use crate::http::{Event, Head, MAX_HEAD_LEN, Messages, Part, Reader, Side, end_of_head};

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// What the server can do.
    Options,
    /// What becomes of a message: REQMOD or RESPMOD.
    Message,
}

/// What a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// It wants the rest of the body (100).
    Continue,
    /// The message stays as it is (204).
    Unchanged,
    /// What it can do.
    Options(Options),
    /// This message is to stand in the other's place.
    Message {
        /// A request or a response.
        side: Side,
        /// Its head.
        head: Head,
        /// Whether a body follows.
        body: Follows,
    },
    /// A piece of that message's body.
    Body(Vec<u8>),
    /// That message is whole.
    End,
}

/// Whether a body follows a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follows {
    /// None.
    Nothing,
    /// One in chunks.
    Body,
}

/// What a server can do (RFC 3507, section 4.10.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// How many bytes of a body it wants to see first.
    pub(crate) preview: Option<usize>,
    /// Whether it is asked for requests, and for responses.
    pub(crate) methods: Methods,
    /// Seconds for which this holds.
    pub(crate) ttl: Option<u64>,
}

/// Methods of ICAP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Methods {
    /// REQMOD.
    pub(crate) requests: bool,
    /// RESPMOD.
    pub(crate) responses: bool,
}

/// What is wrong with what a server says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Wrong {
    /// No head of ICAP.
    #[error("an answer that is no ICAP/1.0")]
    Head,
    /// More than [`MAX_HEAD_LEN`].
    #[error("a head of more than 64 KiB")]
    Long,
    /// It refuses, or says what it was not asked for.
    #[error("status {0}")]
    Status(u16),
    /// The list of parts is none, or not one that an answer can have.
    #[error("an answer whose parts cannot be told")]
    Parts,
    /// The message in it cannot be read.
    #[error("an answer with {0}")]
    Http(crate::http::Wrong),
    /// Bytes that belong to no answer.
    #[error("bytes behind an answer")]
    Behind,
    /// The connection ended too soon.
    #[error("an answer that was cut short")]
    Cut,
}

impl From<crate::http::Wrong> for Wrong {
    fn from(wrong: crate::http::Wrong) -> Self {
        match wrong {
            crate::http::Wrong::Behind => Self::Behind,
            wrong => Self::Http(wrong),
        }
    }
}

/// Where in an answer a stream is.
#[derive(Debug)]
enum State {
    Head,
    Message {
        side: Side,
        length: usize,
        body: Follows,
    },
    Body(Box<Messages>),
    Done,
    Failed(Wrong),
}

/// The answers to one request.
#[derive(Debug)]
pub(crate) struct Replies {
    asked: Asked,
    state: State,
    held: Vec<u8>,
    stays: Connection,
}

/// What the server says of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connection {
    Stays,
    Closes,
}

impl Replies {
    /// Before the first answer.
    #[must_use]
    pub(crate) const fn new(asked: Asked) -> Self {
        Self {
            asked,
            state: State::Head,
            held: Vec::new(),
            stays: Connection::Stays,
        }
    }

    /// Whether the last answer is whole.
    #[must_use]
    pub(crate) const fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Whether another request may follow on the connection, as far as the server says.
    #[must_use]
    pub(crate) const fn may_stay(&self) -> bool {
        self.is_done() && matches!(self.stays, Connection::Stays)
    }

    /// Takes bytes of the stream.
    ///
    /// # Errors
    /// [`Wrong`], now and from then on.
    pub(crate) fn push(&mut self, data: &[u8]) -> Result<Vec<Said>, Wrong> {
        let mut said = Vec::new();
        match self.take(data, &mut said) {
            Ok(()) => Ok(said),
            Err(wrong) => {
                self.state = State::Failed(wrong.clone());
                self.held = Vec::new();
                Err(wrong)
            }
        }
    }

    fn take(&mut self, data: &[u8], said: &mut Vec<Said>) -> Result<(), Wrong> {
        let mut rest = data;
        while !rest.is_empty() {
            match &mut self.state {
                State::Head => {
                    let Some(head) = self.take_head(&mut rest)? else {
                        return Ok(());
                    };
                    self.answered(&head, said)?;
                }
                State::Message { side, length, body } => {
                    let (side, body) = (*side, *body);
                    let missing = length.saturating_sub(self.held.len()).min(rest.len());
                    self.held.extend_from_slice(&rest[..missing]);
                    rest = &rest[missing..];
                    if self.held.len() < *length {
                        return Ok(());
                    }
                    let bytes = std::mem::take(&mut self.held);
                    let head = Head::parse(&bytes, side)?;
                    said.push(Said::Message { side, head, body });
                    match body {
                        Follows::Nothing => self.end(said),
                        Follows::Body => self.state = State::Body(Box::new(chunks()?)),
                    }
                }
                State::Body(messages) => {
                    let events = messages.push(Part::Whole, rest);
                    rest = &[];
                    for event in events? {
                        match event {
                            Event::Body(data) => said.push(Said::Body(data)),
                            Event::End => {
                                self.end(said);
                                break;
                            }
                            // There is one head, which was made up for this.
                            Event::Framing(_) | Event::Head { .. } => {}
                        }
                    }
                }
                State::Done => return Err(Wrong::Behind),
                State::Failed(wrong) => return Err(wrong.clone()),
            }
        }
        Ok(())
    }

    fn end(&mut self, said: &mut Vec<Said>) {
        self.state = State::Done;
        said.push(Said::End);
    }

    /// A head of ICAP, read as one of HTTP: the two differ in the name of the protocol.
    fn take_head(&mut self, rest: &mut &[u8]) -> Result<Option<Head>, Wrong> {
        let known = self.held.len();
        let room = MAX_HEAD_LEN.saturating_sub(known).min(rest.len());
        self.held.extend_from_slice(&rest[..room]);
        let Some(end) = end_of_head(&self.held, known) else {
            // What is no ICAP is not waited for.
            let start = self.held.len().min(PROTOCOL.len());
            return match (self.held[..start] == PROTOCOL[..start], self.held.len()) {
                (false, _) => Err(Wrong::Head),
                (true, MAX_HEAD_LEN) => Err(Wrong::Long),
                (true, _) => {
                    *rest = &[];
                    Ok(None)
                }
            };
        };
        *rest = &rest[end - known..];
        let mut bytes = std::mem::take(&mut self.held);
        bytes.truncate(end);
        let body = bytes.strip_prefix(PROTOCOL).ok_or(Wrong::Head)?;
        let head = [b"HTTP/1.1 ", body].concat();
        let head = Head::parse(&head, Side::Responses).map_err(|_| Wrong::Head)?;
        Ok(Some(head))
    }

    fn answered(&mut self, head: &Head, said: &mut Vec<Said>) -> Result<(), Wrong> {
        if head.closes() {
            self.stays = Connection::Closes;
        }
        let status = head.status().unwrap_or_default();
        match (self.asked, status) {
            (Asked::Message, 100) => said.push(Said::Continue),
            (Asked::Message, 204) => {
                self.state = State::Done;
                said.push(Said::Unchanged);
            }
            (Asked::Options, 200) => {
                // A body of options is nothing that is known: the connection ends before it.
                match Parts::of(head) {
                    Ok(Parts::Nothing) => {}
                    Ok(Parts::Message { .. }) | Err(_) => self.stays = Connection::Closes,
                }
                self.state = State::Done;
                said.push(Said::Options(Options::of(head)));
            }
            (Asked::Message, 200) => match Parts::of(head)? {
                Parts::Nothing => return Err(Wrong::Parts),
                Parts::Message { side, length, body } => {
                    self.state = State::Message { side, length, body };
                }
            },
            (Asked::Message | Asked::Options, status) => return Err(Wrong::Status(status)),
        }
        Ok(())
    }
}

/// What each head begins with.
const PROTOCOL: &[u8] = b"ICAP/1.0 ";

/// A reader of a body in chunks, as that of a message is read.
fn chunks() -> Result<Messages, Wrong> {
    let mut messages = Messages::new(Side::Responses, Reader::Once);
    messages.push(
        Part::Whole,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    )?;
    Ok(messages)
}

/// What `Encapsulated` says (RFC 3507, section 4.4.1).
enum Parts {
    Nothing,
    Message {
        side: Side,
        length: usize,
        body: Follows,
    },
}

impl Parts {
    fn of(head: &Head) -> Result<Self, Wrong> {
        let mut lists = head.values("encapsulated");
        let (Some(list), None) = (lists.next(), lists.next()) else {
            return Err(Wrong::Parts);
        };
        let list = std::str::from_utf8(list).map_err(|_| Wrong::Parts)?;
        let parts = list.split(',').map(|part| {
            let (name, at) = part.trim().split_once('=').ok_or(Wrong::Parts)?;
            let is_number = !at.is_empty() && at.bytes().all(|byte| byte.is_ascii_digit());
            let at: usize = at.parse().map_err(|_| Wrong::Parts)?;
            match is_number {
                true => Ok((name, at)),
                false => Err(Wrong::Parts),
            }
        });
        let parts: Vec<(&str, usize)> = parts.collect::<Result<_, _>>()?;
        let (side, length, body) = match parts.as_slice() {
            [("null-body", 0)] => return Ok(Self::Nothing),
            [("req-hdr", 0), ("req-body", length)] => (Side::Requests, *length, Follows::Body),
            [("req-hdr", 0), ("null-body", length)] => (Side::Requests, *length, Follows::Nothing),
            [("res-hdr", 0), ("res-body", length)] => (Side::Responses, *length, Follows::Body),
            [("res-hdr", 0), ("null-body", length)] => (Side::Responses, *length, Follows::Nothing),
            _ => return Err(Wrong::Parts),
        };
        match length {
            1..=MAX_HEAD_LEN => Ok(Self::Message { side, length, body }),
            _ => Err(Wrong::Parts),
        }
    }
}

impl Options {
    fn of(head: &Head) -> Self {
        let number = |name: &str| head.text(name).and_then(|text| text.trim().parse().ok());
        let has = |name: &str, wanted: &str| {
            let values = head.values(name);
            let mut words = values.flat_map(|value| value.split(|byte| *byte == b','));
            words.any(|word| word.trim_ascii().eq_ignore_ascii_case(wanted.as_bytes()))
        };
        Self {
            preview: number("preview").and_then(|length| usize::try_from(length).ok()),
            methods: Methods {
                requests: has("methods", "REQMOD"),
                responses: has("methods", "RESPMOD"),
            },
            ttl: number("options-ttl"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\n\r\n";

    fn answer(parts: &str, rest: &str) -> String {
        format!("ICAP/1.0 200 OK\r\nISTag: \"x\"\r\nEncapsulated: {parts}\r\n\r\n{rest}")
    }

    fn page(chunks: &str) -> String {
        let parts = format!("res-hdr=0, res-body={}", PAGE.len());
        answer(&parts, &format!("{PAGE}{chunks}"))
    }

    fn read(text: &str, size: usize) -> Result<Vec<Said>, Wrong> {
        let mut replies = Replies::new(Asked::Message);
        let mut all = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            all.extend(replies.push(piece)?);
        }
        Ok(all)
    }

    #[test]
    fn a_page_in_place_of_another_is_read_however_it_is_cut() {
        let text = format!(
            "ICAP/1.0 100 Continue\r\n\r\n{}",
            page("3;a=b\r\nNo!\r\n4\r\n Go.\r\n0\r\nX: y\r\n\r\n")
        );
        for size in 1..text.len() {
            let said = read(&text, size).expect("good");
            assert_eq!(said[0], Said::Continue);
            let Said::Message { side, head, body } = &said[1] else {
                panic!("{said:?}");
            };
            assert_eq!((*side, *body), (Side::Responses, Follows::Body));
            assert_eq!(head.status(), Some(403));
            let bodies = said.iter().filter_map(|one| match one {
                Said::Body(data) => Some(data.as_slice()),
                _ => None,
            });
            assert_eq!(bodies.collect::<Vec<_>>().concat(), b"No! Go.");
            assert_eq!(said.last(), Some(&Said::End));
        }
    }

    #[test]
    fn a_message_may_stay_as_it_is_or_lose_its_body() {
        let unchanged = "ICAP/1.0 204 No Content\r\nConnection: close\r\n\r\n";
        let mut replies = Replies::new(Asked::Message);
        assert_eq!(
            replies.push(unchanged.as_bytes()),
            Ok(vec![Said::Unchanged])
        );
        assert!(replies.is_done() && !replies.may_stay());
        assert_eq!(replies.push(b"x"), Err(Wrong::Behind));
        let request = "GET /b HTTP/1.1\r\nHost: a\r\n\r\n";
        let parts = format!("req-hdr=0, null-body={}", request.len());
        let said = read(&answer(&parts, request), usize::MAX).expect("good");
        assert!(matches!(
            &said[..],
            [
                Said::Message {
                    side: Side::Requests,
                    body: Follows::Nothing,
                    ..
                },
                Said::End
            ]
        ));
    }

    #[test]
    fn what_a_server_can_do_is_told_by_its_options() {
        let text = "ICAP/1.0 200 OK\r\nMethods: RESPMOD, x\r\nPreview: 1024\r\n\
            Options-TTL: 60\r\nEncapsulated: null-body=0\r\n\r\n";
        let mut replies = Replies::new(Asked::Options);
        let said = replies.push(text.as_bytes()).expect("good");
        let options = Options {
            preview: Some(1024),
            methods: Methods {
                requests: false,
                responses: true,
            },
            ttl: Some(60),
        };
        assert_eq!(said, [Said::Options(options)]);
        assert!(replies.may_stay());
    }

    #[test]
    fn what_has_two_readings_or_none_is_refused() {
        let long = format!("ICAP/1.0 200 OK\r\nX: {}", "x".repeat(MAX_HEAD_LEN));
        for (text, wrong) in [
            ("HTTP/1.1 200 OK\r\n\r\n".to_owned(), Wrong::Head),
            ("SSH-2.0".to_owned(), Wrong::Head),
            ("ICAP/1.0 2\r\n\r\n".to_owned(), Wrong::Head),
            (long, Wrong::Long),
            (
                "ICAP/1.0 404 Not found\r\n\r\n".to_owned(),
                Wrong::Status(404),
            ),
            (
                "ICAP/1.0 206 Partial\r\n\r\n".to_owned(),
                Wrong::Status(206),
            ),
            ("ICAP/1.0 200 OK\r\n\r\n".to_owned(), Wrong::Parts),
            (answer("null-body=0", ""), Wrong::Parts),
            (answer("res-hdr=0", ""), Wrong::Parts),
            (answer("res-hdr=0, res-body=0", ""), Wrong::Parts),
            (answer("res-hdr=0, res-body=+9", ""), Wrong::Parts),
            (answer("res-hdr=0, res-body=65537", ""), Wrong::Parts),
            (answer("res-hdr=0, req-body=9", ""), Wrong::Parts),
            (answer("res-body=0", ""), Wrong::Parts),
            (
                answer("res-hdr=0, null-body=9", "not a head"),
                Wrong::Http(crate::http::Wrong::Head),
            ),
            (page("x\r\n"), Wrong::Http(crate::http::Wrong::Chunk)),
            (page("0\r\n\r\nICAP/1.0 204 x\r\n\r\n"), Wrong::Behind),
            (page("0\r\n\r\n\r\n"), Wrong::Behind),
        ] {
            assert_eq!(read(&text, usize::MAX), Err(wrong), "{text:.60}");
        }
        let two = answer("res-hdr=0, null-body=9\r\nEncapsulated: null-body=0", "");
        assert_eq!(read(&two, usize::MAX), Err(Wrong::Parts));
    }
}
