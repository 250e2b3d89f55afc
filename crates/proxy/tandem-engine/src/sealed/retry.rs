//! A handshake whose server has asked for another hello (HelloRetryRequest, RFC 8446, section
//! 4.1.4), until its flight comes.
//!
//! ```text
//! client   ClientHello |             | [ChangeCipherSpec] | ClientHello |
//! server               | HelloRetryRequest | [ChangeCipherSpec] |        ServerHello | ...
//!                                      request_end               flight_start
//! ```
//!
//! Is not: a check of the second hello; the endpoints do that. Both hellos have the same random
//! (section 4.1.2), by which a key is found. Invariants: the request itself passes as it is; work
//! is linear in what both send, and no byte of it is kept.

use tandem_wire::tls::handshake::MAX_BODY_LEN;
use tandem_wire::tls::stream::MessageReader;
use tandem_wire::tls::{ContentType, HandshakeType, Records, ServerHello};

use super::opened::CHANGE_CIPHER_SPEC;
use super::server_hello::ServerHelloRecord;

/// See the module.
#[derive(Debug)]
pub(crate) struct Retry {
    request_end: usize,
    /// How far the client's stream was read.
    client_end: usize,
    messages: MessageReader,
    hello: SecondHello,
}

/// The hello that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SecondHello {
    ToCome,
    /// The client's stream was read to its end.
    Whole,
    /// Something else came.
    Strange,
}

/// What stands behind a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behind {
    /// Nothing that is whole.
    Nothing,
    /// A record, from here on, that answers the second hello.
    Answer(usize),
    /// What has no place there.
    Strange,
}

impl Retry {
    /// One where this stream of the server's begins with a request; the client's second hello
    /// comes from `client_end` of its stream on.
    pub(crate) fn of(server: &[u8], client_end: usize) -> Option<Self> {
        let record = ServerHelloRecord::first_in(server)?;
        let hello = ServerHello::parse(record.body).ok()?;
        hello.is_hello_retry_request().then(|| Self {
            request_end: record.end,
            client_end,
            messages: MessageReader::new(MAX_BODY_LEN),
            hello: SecondHello::ToCome,
        })
    }

    /// Reads the client's stream, all of it from its first byte. `false` where it is not what was
    /// asked for.
    pub(crate) fn client_sent(&mut self, stream: &[u8]) -> bool {
        let mut records = Records::new(stream.get(self.client_end..).unwrap_or_default());
        while self.hello == SecondHello::ToCome
            && let Some(record) = records.next()
        {
            self.hello = match record {
                Ok(record) => match record.header.content_type {
                    ContentType::ChangeCipherSpec => continue,
                    ContentType::Handshake => self.fragment(record.fragment),
                    ContentType::Alert | ContentType::ApplicationData | ContentType::Heartbeat => {
                        SecondHello::Strange
                    }
                },
                Err(_) => SecondHello::Strange,
            };
        }
        self.client_end += records.offset();
        self.hello != SecondHello::Strange
    }

    fn fragment(&mut self, mut rest: &[u8]) -> SecondHello {
        while let Ok(Some(piece)) = self.messages.read(rest) {
            rest = rest.get(piece.len..).unwrap_or_default();
            match piece.ends {
                // RFC 8446, section 5.1: nothing follows in its record.
                Some(header)
                    if header.msg_type == HandshakeType::CLIENT_HELLO && rest.is_empty() =>
                {
                    return SecondHello::Whole;
                }
                Some(_) => return SecondHello::Strange,
                None => {}
            }
        }
        // A message that is too long leaves something.
        match rest.is_empty() {
            true => SecondHello::ToCome,
            false => SecondHello::Strange,
        }
    }

    /// Where in the client's stream the answer to the server's flight begins.
    pub(crate) fn answer_start(&self) -> Option<usize> {
        (self.hello == SecondHello::Whole).then_some(self.client_end)
    }

    /// Where in the server's stream its flight begins, once the client has said hello again.
    /// `None`, too, while it stands in the middle of something else.
    pub(crate) fn flight_start(&self, server: &[u8]) -> Option<usize> {
        let start = self.request_and_change(server);
        let next = server.get(start..)?.first();
        let is_flight = next.is_none_or(|first| *first == ContentType::Handshake.as_u8());
        (is_flight && self.hello == SecondHello::Whole).then_some(start)
    }

    /// What the server has sent behind the request.
    pub(crate) fn behind(&self, server: &[u8]) -> Behind {
        let start = self.request_and_change(server);
        let mut records = Records::new(server.get(start..).unwrap_or_default());
        match records.next() {
            None => Behind::Nothing,
            Some(Ok(_)) if self.hello == SecondHello::Whole => Behind::Answer(start),
            Some(Ok(_) | Err(_)) => Behind::Strange,
        }
    }

    fn request_and_change(&self, server: &[u8]) -> usize {
        let behind = server.get(self.request_end..).unwrap_or_default();
        match behind.starts_with(&CHANGE_CIPHER_SPEC) {
            true => self.request_end + CHANGE_CIPHER_SPEC.len(),
            false => self.request_end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{client_hello, hello_retry_request, record};

    fn request() -> Vec<u8> {
        hello_retry_request()
    }

    fn retry() -> Retry {
        Retry::of(&request(), 0).expect("a request")
    }

    #[test]
    fn the_second_hello_is_found_however_it_comes() {
        let hello = client_hello(&[]);
        let body = &hello[5..];
        let (one, two) = body.split_at(20);
        let cut = [record(22, one), record(22, two)].concat();
        for stream in [
            hello.clone(),
            [record(20, &[1]), hello.clone()].concat(),
            [record(20, &[1]), cut].concat(),
        ] {
            let mut retry = retry();
            for end in 0..stream.len() {
                assert!(retry.client_sent(&stream[..end]));
                assert_eq!(retry.answer_start(), None, "{end}");
            }
            assert!(retry.client_sent(&[&stream[..], &record(21, &[2, 40])].concat()));
            assert_eq!(retry.answer_start(), Some(stream.len()));
        }
    }

    #[test]
    fn whatever_else_a_client_answers_is_none() {
        let hello = client_hello(&[]);
        let longer = record(22, &[&hello[5..], &[0]].concat());
        for stream in [
            record(21, &[2, 40]),
            record(23, &[0; 40]),
            record(22, &[20, 0, 0, 0]),
            longer,
            b"no record".to_vec(),
        ] {
            let mut retry = retry();
            assert!(!retry.client_sent(&stream));
            assert!(!retry.client_sent(&stream) && retry.answer_start().is_none());
        }
    }

    #[test]
    fn the_flight_begins_behind_the_request_and_its_change() {
        let (request, change) = (request(), record(20, &[1]));
        let hello = record(22, &[2, 0, 0, 0]);
        let mut retry = retry();
        assert_eq!(retry.flight_start(&request), None, "no second hello");
        assert_eq!(retry.behind(&request), Behind::Nothing);
        let early = [&request[..], &hello].concat();
        assert_eq!(retry.behind(&early), Behind::Strange);
        assert!(retry.client_sent(&client_hello(&[])));
        for stream in [request.clone(), [&request[..], &change].concat()] {
            let start = stream.len();
            let flight = [&stream[..], &hello].concat();
            assert_eq!(retry.flight_start(&stream), Some(start));
            assert_eq!(retry.behind(&stream), Behind::Nothing);
            for end in start..flight.len() {
                assert_eq!(retry.flight_start(&flight[..end]), Some(start));
                assert_eq!(retry.behind(&flight[..end]), Behind::Nothing);
            }
            assert_eq!(retry.behind(&flight), Behind::Answer(start));
        }
        for cut in 1..change.len() {
            let stream = [&request[..], &change[..cut]].concat();
            assert_eq!(retry.flight_start(&stream), None);
            assert_eq!(retry.behind(&stream), Behind::Nothing);
        }
        let twice = [&request[..], &change, &change].concat();
        assert_eq!(retry.flight_start(&twice), None);
    }

    #[test]
    fn a_server_hello_is_no_request() {
        assert!(Retry::of(&crate::samples::opened_flight(&[300], &[]), 0).is_none());
        let request = request();
        assert!(Retry::of(&request[..request.len() - 1], 0).is_none());
    }
}
