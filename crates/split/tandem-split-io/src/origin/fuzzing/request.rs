//! What a client sends: a request's head and what follows it, or a body in chunks.

use super::HOST;
use crate::origin::chunks::{Chunks, Malformed};
use crate::origin::http::{Coding, Request, parse};

/// The lengths of the parts in which a head's front is tried.
const CUTS: usize = 32;

/// What never passes, whatever else is added to what does.
const STAYS: [&str; 12] = [
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "expect",
    "forwarded",
    "proxy-authorization",
    "te",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-forwarded-for",
];

/// A client's bytes: the same request however they arrive and whatever follows it; nothing passes
/// that must not; and what passes reads as the same request.
///
/// # Panics
/// One of these does not hold.
pub fn origin_request(data: &[u8]) {
    check_chunks(data);
    let (request, len) = match parse(data, HOST) {
        Ok(Some(parsed)) => parsed,
        Ok(None) => return,
        Err(refusal) => {
            let longer = [data, b"\r\nHost: split.test\r\n\r\n"].concat();
            assert_eq!(parse(&longer, HOST), Err(refusal), "by more it is taken");
            return;
        }
    };
    check_chunks(&data[len..]);
    assert_eq!(parse(&data[..len], HOST), Ok(Some((request.clone(), len))));
    let step = len.div_ceil(CUTS).max(1);
    for cut in (0..len).step_by(step).chain([len - 1]) {
        assert_eq!(parse(&data[..cut], HOST), Ok(None), "cut at {cut}");
    }

    let mut hosts = 0;
    for (name, value) in &request.headers {
        let name = name.to_ascii_lowercase();
        hosts += usize::from(name == "host");
        assert!(!STAYS.contains(&name.as_str()) && !name.contains('_'));
        assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
    }
    assert_eq!(hosts, 1);
    assert!(
        !request
            .target
            .contains(|sign: char| sign.is_ascii_whitespace())
    );
    assert!(request.target.starts_with('/') || request.target == "*");

    let head = data[..len].to_ascii_lowercase();
    let lines = |name: &str| {
        let lines = head.split(|byte| *byte == b'\n');
        lines
            .filter(|line| line.starts_with(name.as_bytes()))
            .count()
    };
    let expected = match request.body {
        Coding::None => (0, 0),
        Coding::Length(_) => (1, 0),
        Coding::Chunks => (0, 1),
    };
    let said = (lines("content-length:"), lines("transfer-encoding:"));
    assert_eq!(said, expected, "its end is told in two ways");

    let head = written(&request);
    let (again, again_len) = parse(&head, HOST)
        .expect("it passes again")
        .expect("it is whole");
    assert_eq!(again_len, head.len());
    assert_eq!(
        (&again.method, &again.target, &again.headers, again.body),
        (
            &request.method,
            &request.target,
            &request.headers,
            request.body
        )
    );
}

/// A request as the server behind gets it.
fn written(request: &Request) -> Vec<u8> {
    let (method, target) = (&request.method, &request.target);
    let mut head = format!("{method} {target} HTTP/1.1\r\n").into_bytes();
    for (name, value) in &request.headers {
        head.extend_from_slice(name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n");
    }
    let framing = match request.body {
        Coding::None => String::new(),
        Coding::Length(len) => format!("Content-Length: {len}\r\n"),
        Coding::Chunks => "Transfer-Encoding: chunked\r\n".to_owned(),
    };
    head.extend_from_slice(framing.as_bytes());
    head.extend_from_slice(b"\r\n");
    head
}

/// A body in chunks: the same content and the same end, however it arrives; and the same content
/// once more where that is put into chunks again.
fn check_chunks(data: &[u8]) {
    let whole = decoded(data, data.len().max(1));
    for step in [1, 7] {
        assert_eq!(decoded(data, step), whole, "in parts of {step}");
    }
    let Ok(Body {
        content,
        rest,
        is_over,
    }) = whole
    else {
        return;
    };
    assert!(data.ends_with(&rest) && content.len() + rest.len() <= data.len());
    if is_over {
        let mut again = Vec::new();
        for chunk in content.chunks(100) {
            again.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            again.extend_from_slice(chunk);
            again.extend_from_slice(b"\r\n");
        }
        again.extend_from_slice(b"0\r\n\r\n");
        again.extend_from_slice(&rest);
        let expected = Body {
            content,
            rest,
            is_over,
        };
        assert_eq!(decoded(&again, again.len()), Ok(expected));
    }
}

/// What has come of a body in chunks.
#[derive(Debug, PartialEq, Eq)]
struct Body {
    content: Vec<u8>,
    /// What is not taken.
    rest: Vec<u8>,
    is_over: bool,
}

/// What is read of a body in chunks that arrives in parts of `step` bytes.
fn decoded(data: &[u8], step: usize) -> Result<Body, Malformed> {
    let (mut chunks, mut rest, mut content) = (Chunks::default(), Vec::new(), Vec::new());
    for part in data.chunks(step) {
        rest.extend_from_slice(part);
        content.extend(chunks.take(&mut rest)?);
    }
    let is_over = chunks.is_over();
    Ok(Body {
        content,
        rest,
        is_over,
    })
}
