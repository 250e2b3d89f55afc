//! What comes in, record by record, and how messages go out.
//!
//! ```text
//!  | hello's record | first flight: `following` bytes         | rest
//!  | in clear       | opened by its own keys, or passed over  | opened by the connection's
//! ```
//!
//! Is not: a judgement of what may come when.
//!
//! Invariants: at most one unfinished record and one unfinished message are held beside what was
//! pushed; a record never lies on both sides of a first flight's end; a change of keys never lies
//! inside a message (RFC 5246, section 7.1).

use std::collections::VecDeque;

use tandem_wire::tls::record::{MAX_PLAINTEXT_LEN, parse_header, write_records};
use tandem_wire::tls::stream::MessageBuffer;
use tandem_wire::tls::{ContentType, HandshakeType, ProtocolVersion, handshake};

use crate::error::{Breach, Error, Misuse, Policy};
use crate::protect::Opener;
use tandem_wire::TlsError;

/// Longest body of a handshake message in bytes; longer than any chain of certificates that the
/// lab has.
pub const MAX_MESSAGE_LEN: usize = 1 << 16;

/// Application data, by what vouches for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// From a client's first flight: anybody may have replayed it.
    Early(Vec<u8>),
    /// From a connection that is complete.
    Data(Vec<u8>),
    /// The other end closes.
    Closed,
}

/// What a record holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// A handshake message, header included.
    Message(Vec<u8>),
    ChangeCipherSpec,
    Data(Vec<u8>),
    Closed,
}

impl Input {
    /// The error where another was due.
    pub(crate) fn unexpected(&self) -> Breach {
        match self {
            Self::Message(message) => Breach::Message(message.first().copied().unwrap_or(0)),
            Self::ChangeCipherSpec => Breach::Record(ContentType::ChangeCipherSpec.as_u8()),
            Self::Data(_) => Breach::Record(ContentType::ApplicationData.as_u8()),
            Self::Closed => Breach::Record(ContentType::Alert.as_u8()),
        }
    }

    /// The body of a message of this type.
    pub(crate) fn body(&self, wanted: HandshakeType) -> Result<&[u8], Breach> {
        match self {
            Self::Message(message) if message.first() == Some(&wanted.0) => {
                Ok(message.get(handshake::HEADER_LEN..).unwrap_or_default())
            }
            other => Err(other.unexpected()),
        }
    }
}

/// What one end receives.
#[derive(Debug)]
pub(crate) struct Incoming {
    bytes: Vec<u8>,
    /// What of `bytes` was read.
    at: usize,
    messages: MessageBuffer,
    whole: VecDeque<Vec<u8>>,
    opener: Option<Opener>,
    /// Bytes of a first flight that are passed over.
    skip: usize,
    /// Bytes that are left of a first flight that is read, and what opens the rest.
    first_flight: Option<FirstFlight>,
}

#[derive(Debug)]
struct FirstFlight {
    left: usize,
    then: Option<Opener>,
}

impl Incoming {
    pub(crate) const fn new() -> Self {
        Self {
            bytes: Vec::new(),
            at: 0,
            messages: MessageBuffer::new(MAX_MESSAGE_LEN),
            whole: VecDeque::new(),
            opener: None,
            skip: 0,
            first_flight: None,
        }
    }

    /// Takes bytes; the caller then draws until there is nothing more.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// All that follows is opened by this.
    pub(crate) fn protect(&mut self, opener: Opener) {
        self.opener = Some(opener);
    }

    /// Whether the last record ended with the last message.
    pub(crate) fn is_at_a_record_s_end(&self) -> bool {
        self.whole.is_empty() && self.messages.held().is_empty()
    }

    /// Passes over a first flight.
    pub(crate) const fn pass_over(&mut self, following: usize) {
        self.skip = following;
    }

    /// Passes over what is left of a first flight that was begun.
    pub(crate) fn pass_over_the_rest(&mut self) {
        self.opener = None;
        self.skip = self.first_flight.take().map_or(0, |flight| flight.left);
    }

    /// Reads a first flight.
    pub(crate) fn begin_first_flight(&mut self, following: usize) {
        self.first_flight = Some(FirstFlight {
            left: following,
            then: None,
        });
    }

    /// What opens the rest once the first flight has ended.
    pub(crate) fn end_first_flight_with(&mut self, opener: Opener) {
        match &mut self.first_flight {
            Some(flight) if flight.left > 0 => flight.then = Some(opener),
            Some(_) | None => {
                self.first_flight = None;
                self.opener = Some(opener);
            }
        }
    }

    /// Whether what was read last is of a first flight.
    pub(crate) const fn is_in_first_flight(&self) -> bool {
        self.first_flight.is_some()
    }

    /// What comes next; `None` until there are more bytes.
    pub(crate) fn next(&mut self) -> Result<Option<Input>, Error> {
        loop {
            if let Some(message) = self.whole.pop_front() {
                return Ok(Some(Input::Message(message)));
            }
            self.end_first_flight_if_over();
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            if self.skip > 0 {
                let skipped = self.skip.min(rest.len());
                self.skip -= skipped;
                self.at += skipped;
                if self.skip > 0 {
                    return Ok(None);
                }
                continue;
            }
            let Some(header) = parse_header(rest)? else {
                return Ok(None);
            };
            if let Some(flight) = &self.first_flight
                && header.record_len() > flight.left
            {
                return Err(Breach::FirstFlight.into());
            }
            let Some(fragment) =
                rest.get(tandem_wire::tls::record::HEADER_LEN..header.record_len())
            else {
                return Ok(None);
            };
            let kind = header.content_type;
            let is_protected = self.opener.is_some();
            let content = match &mut self.opener {
                None if fragment.len() > MAX_PLAINTEXT_LEN => {
                    return Err(TlsError::RecordTooLong(header.length).into());
                }
                None => fragment.to_vec(),
                Some(opener) => opener.open(kind, fragment)?,
            };
            self.at += header.record_len();
            if let Some(flight) = &mut self.first_flight {
                flight.left -= header.record_len();
            }
            match self.take(kind, content, is_protected)? {
                Some(input) => return Ok(Some(input)),
                None => continue,
            }
        }
    }

    /// What a record's content is; `None` for parts of messages, which are kept.
    fn take(
        &mut self,
        kind: ContentType,
        content: Vec<u8>,
        is_protected: bool,
    ) -> Result<Option<Input>, Error> {
        // RFC 5246, section 6.2.1: no empty records of other types than application data.
        if content.is_empty() && kind != ContentType::ApplicationData {
            return Err(TlsError::EmptyFragment.into());
        }
        if kind != ContentType::Handshake && !self.messages.held().is_empty() {
            return Err(Breach::Record(kind.as_u8()).into());
        }
        match kind {
            ContentType::Handshake => {
                let whole = &mut self.whole;
                let pushed = self.messages.push(&content, |message| {
                    whole.push_back(message.bytes.to_vec());
                });
                pushed.map_err(|too_long| Breach::TooLong(too_long.0))?;
                Ok(None)
            }
            ContentType::ChangeCipherSpec if content == [1] => Ok(Some(Input::ChangeCipherSpec)),
            ContentType::Alert => match content.as_slice() {
                [_, 0] => Ok(Some(Input::Closed)),
                [_, alert] => Err(Policy::Alert(*alert).into()),
                _ => Err(TlsError::BadLength.into()),
            },
            ContentType::ApplicationData if is_protected => Ok(Some(Input::Data(content))),
            ContentType::ChangeCipherSpec
            | ContentType::ApplicationData
            | ContentType::Heartbeat => Err(Breach::Record(kind.as_u8()).into()),
        }
    }

    fn end_first_flight_if_over(&mut self) {
        if let Some(FirstFlight { left: 0, then }) = &mut self.first_flight
            && let Some(opener) = then.take()
        {
            self.opener = Some(opener);
            self.first_flight = None;
        }
    }
}

/// A handshake message.
pub(crate) fn message(kind: HandshakeType, body: &[u8]) -> Result<Vec<u8>, Misuse> {
    let mut out = Vec::with_capacity(handshake::HEADER_LEN + body.len());
    handshake::write_message(&mut out, kind, body).map_err(|_| Misuse::TooLong)?;
    Ok(out)
}

/// Appends handshake messages in clear, in as few records as they fit.
pub(crate) fn write_clear(out: &mut Vec<u8>, messages: &[u8]) {
    write_records(
        out,
        ContentType::Handshake,
        ProtocolVersion::TLS1_2,
        messages,
    );
}

/// Appends a ChangeCipherSpec.
pub(crate) fn write_change(out: &mut Vec<u8>) {
    write_records(
        out,
        ContentType::ChangeCipherSpec,
        ProtocolVersion::TLS1_2,
        &[1],
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clear(kind: ContentType, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write_records(&mut out, kind, ProtocolVersion::TLS1_2, content);
        out
    }

    #[test]
    fn messages_arrive_in_any_pieces() {
        let hello = message(HandshakeType::CLIENT_HELLO, &[5; 300]).expect("it fits");
        let done = message(HandshakeType::SERVER_HELLO_DONE, &[]).expect("it fits");
        let both = [hello.as_slice(), &done].concat();
        let sent = [
            clear(ContentType::Handshake, &both[..7]),
            clear(ContentType::Handshake, &both[7..]),
            clear(ContentType::ChangeCipherSpec, &[1]),
        ]
        .concat();
        for size in [1, 3, 1000] {
            let mut incoming = Incoming::new();
            let mut found = Vec::new();
            for piece in sent.chunks(size) {
                incoming.push(piece);
                while let Some(input) = incoming.next().expect("well formed") {
                    found.push(input);
                }
            }
            let expected = [
                Input::Message(hello.clone()),
                Input::Message(done.clone()),
                Input::ChangeCipherSpec,
            ];
            assert_eq!(found, expected);
        }
    }

    /// RFC 5246, section 7.1: no change of keys inside a message.
    #[test]
    fn keys_do_not_change_inside_a_message() {
        let mut incoming = Incoming::new();
        incoming.push(&clear(ContentType::Handshake, &[1, 0, 0]));
        incoming.push(&clear(ContentType::ChangeCipherSpec, &[1]));
        assert_eq!(incoming.next(), Err(Breach::Record(20).into()));
    }

    #[test]
    fn data_in_clear_a_heartbeat_and_an_empty_record_are_refused() {
        for (kind, content) in [
            (ContentType::ApplicationData, &b"data"[..]),
            (ContentType::Heartbeat, b"x"),
            (ContentType::ChangeCipherSpec, &[2]),
        ] {
            let mut incoming = Incoming::new();
            incoming.push(&clear(kind, content));
            assert_eq!(incoming.next(), Err(Breach::Record(kind.as_u8()).into()));
        }
        let mut incoming = Incoming::new();
        incoming.push(&[22, 3, 3, 0, 0]);
        assert_eq!(incoming.next(), Err(TlsError::EmptyFragment.into()));
    }

    #[test]
    fn a_first_flight_is_passed_over_to_its_last_byte() {
        let mut incoming = Incoming::new();
        incoming.pass_over(9);
        incoming.push(&[0xff; 4]);
        assert_eq!(incoming.next(), Ok(None));
        let change = clear(ContentType::ChangeCipherSpec, &[1]);
        incoming.push(&[&[0xff; 5][..], &change].concat());
        assert_eq!(incoming.next(), Ok(Some(Input::ChangeCipherSpec)));
    }
}
