//! A request that says how long it is and what the answer is to be, and the answer, whose bytes
//! both ends know.
//!
//! ```text
//!   u32 length of the request | u8 pieces of the answer | (u8 context, u32 length) each | filling
//! ```
//!
//! Is not: HTTP; of HTTP it has the sizes.

use std::sync::OnceLock;
use std::time::Instant;

use rand::RngCore as _;
use rand_pcg::Pcg64Mcg;
use tandem_report::mctls_row::Strategy;
use tandem_testbed::LabError;

use crate::connection::{Connection, Piece, differs};

/// Headers of a request for an object of a page, bytes each: the request line, Host, User-Agent,
/// Accept, Accept-Language, Accept-Encoding, Referer, Cookie, Connection, Cache-Control.
const REQUEST_HEADERS: [u32; 10] = [58, 25, 118, 72, 33, 36, 42, 94, 24, 18];

/// Headers of its answer: the status line, Date, Server, Content-Type, Content-Length,
/// Last-Modified, ETag, Cache-Control, Vary, Connection with the empty line.
const RESPONSE_HEADERS: [u32; 10] = [17, 37, 22, 32, 23, 46, 28, 32, 23, 26];

/// A request without anything of a page: as long as curl's.
const SMALL_REQUEST: u32 = 80;

/// What is sent in one call.
const CALL: usize = 1 << 16;

/// A length in a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) context: u8,
    pub(crate) length: u32,
}

/// A request and what is to be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    request: Vec<Part>,
    response: Vec<Part>,
}

impl Ask {
    /// For so many bytes, all in the first context.
    pub(crate) fn of(length: u32) -> Self {
        let part = |length| Part { context: 1, length };
        Self {
            request: vec![part(SMALL_REQUEST)],
            response: vec![part(length)],
        }
    }

    /// For an object of a page, divided among contexts so.
    pub(crate) fn object(body: u32, strategy: Strategy) -> Self {
        let sum = |parts: &[u32]| parts.iter().sum::<u32>();
        let part = |context, length| Part { context, length };
        let each = |parts: &[u32], first: u8| {
            let parts = (first..).zip(parts);
            parts
                .map(|(context, length)| part(context, *length))
                .collect::<Vec<_>>()
        };
        let (request, response) = match strategy {
            Strategy::One => (
                vec![part(1, sum(&REQUEST_HEADERS))],
                vec![part(1, sum(&RESPONSE_HEADERS) + body)],
            ),
            Strategy::Four => (
                vec![part(1, sum(&REQUEST_HEADERS))],
                vec![part(3, sum(&RESPONSE_HEADERS)), part(4, body)],
            ),
            Strategy::EachHeader => {
                let mut response = each(&RESPONSE_HEADERS, 12);
                response.push(part(22, body));
                (each(&REQUEST_HEADERS, 1), response)
            }
        };
        Self { request, response }
    }

    /// Bytes both ways.
    pub(crate) fn bytes(&self) -> u64 {
        let parts = self.request.iter().chain(&self.response);
        parts.map(|part| u64::from(part.length)).sum()
    }

    /// Bytes of the answer.
    pub(crate) fn answer(&self) -> u64 {
        let parts = self.response.iter();
        parts.map(|part| u64::from(part.length)).sum()
    }

    fn encoded(&self) -> Vec<u8> {
        let length: u32 = self.request.iter().map(|part| part.length).sum();
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.push(u8::try_from(self.response.len()).unwrap_or(u8::MAX));
        for Part { context, length } in &self.response {
            bytes.push(*context);
            bytes.extend_from_slice(&length.to_be_bytes());
        }
        bytes.resize(usize::try_from(length).unwrap_or(usize::MAX), b'.');
        bytes
    }
}

/// How many contexts a strategy has.
pub(crate) fn contexts(strategy: Strategy) -> u8 {
    match strategy {
        Strategy::One => 1,
        Strategy::Four => 4,
        Strategy::EachHeader => 22,
    }
}

/// What answers consist of, over and over.
fn content() -> &'static [u8] {
    static CONTENT: OnceLock<Vec<u8>> = OnceLock::new();
    CONTENT.get_or_init(|| {
        let mut bytes = vec![0; 1 << 20];
        Pcg64Mcg::new(12).fill_bytes(&mut bytes);
        bytes
    })
}

/// Content from here on, as much of it as comes without a break.
fn from(offset: u64) -> &'static [u8] {
    let content = content();
    let length = content.len() as u64;
    // Less than the content's length, which is a usize.
    &content[usize::try_from(offset % length).unwrap_or(0)..]
}

/// Asks, and compares all of the answer; when its first byte came.
///
/// # Errors
/// `Command`: it fails, or a byte differs.
pub(crate) async fn ask(connection: &mut Connection, ask: &Ask) -> Result<Instant, LabError> {
    let request = ask.encoded();
    let mut rest = request.as_slice();
    let mut pieces = Vec::new();
    for Part { context, length } in &ask.request {
        let (data, behind) = rest.split_at(usize::try_from(*length).unwrap_or(usize::MAX));
        let context = *context;
        pieces.push(Piece { context, data });
        rest = behind;
    }
    connection.send(&pieces).await?;
    let all = ask.answer();
    let (mut received, mut first) = (0, None);
    let mut buffer = Vec::new();
    while received < all {
        if !connection.receive(&mut buffer).await? {
            return Err(differs("the answer ended too early"));
        }
        first.get_or_insert_with(Instant::now);
        let mut data = buffer.as_slice();
        while !data.is_empty() {
            let expected = from(received);
            let length = data.len().min(expected.len());
            if data[..length] != expected[..length] {
                return Err(differs("a byte is not as it was sent"));
            }
            received += length as u64;
            data = &data[length..];
        }
    }
    match first {
        Some(first) if received == all => Ok(first),
        _ => Err(differs("the answer has too many bytes")),
    }
}

/// Answers everything until the other side has closed, and closes.
///
/// # Errors
/// `Command`.
pub(crate) async fn answer(mut connection: Connection) -> Result<(), LabError> {
    let (mut buffer, mut request) = (Vec::new(), Vec::new());
    while connection.receive(&mut buffer).await? {
        request.extend_from_slice(&buffer);
        while let Some((length, response)) = read(&request) {
            request.drain(..length);
            respond(&mut connection, &response).await?;
        }
    }
    connection.close().await
}

/// A whole request: its length, and what is to be answered.
fn read(bytes: &[u8]) -> Option<(usize, Vec<Part>)> {
    let number = |bytes: &[u8]| Some(u32::from_be_bytes(bytes.try_into().ok()?));
    let length = usize::try_from(number(bytes.get(..4)?)?).ok()?;
    if bytes.len() < length {
        return None;
    }
    let count = usize::from(*bytes.get(4)?);
    let parts = bytes.get(5..5 + 5 * count)?.chunks_exact(5);
    let part = |part: &[u8]| {
        Some(Part {
            context: part[0],
            length: number(&part[1..])?,
        })
    };
    Some((length, parts.map(part).collect::<Option<_>>()?))
}

async fn respond(connection: &mut Connection, response: &[Part]) -> Result<(), LabError> {
    let mut offset = 0;
    for Part { context, length } in response {
        let mut rest = usize::try_from(*length).unwrap_or(usize::MAX);
        while rest > 0 {
            let data = from(offset);
            let data = &data[..rest.min(data.len()).min(CALL)];
            let context = *context;
            connection.send(&[Piece { context, data }]).await?;
            rest -= data.len();
            offset += data.len() as u64;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_its_length_and_the_answer() {
        for strategy in Strategy::ALL {
            let ask = Ask::object(4_900, strategy);
            let bytes = ask.encoded();
            assert_eq!(read(&bytes), Some((bytes.len(), ask.response.clone())));
            assert_eq!(read(&bytes[..bytes.len() - 1]), None);
            assert_eq!(ask.bytes(), Ask::object(4_900, Strategy::One).bytes());
            let last = ask.response.last().map(|part| part.context);
            assert_eq!(last, Some(contexts(strategy)));
        }
        assert_eq!(Ask::of(10).answer(), 10);
    }
}
