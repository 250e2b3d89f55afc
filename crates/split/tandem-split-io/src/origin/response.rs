//! The response of the server behind the origin: may it be public, and how is its end told?
//!
//! Is not: its body, which passes as it is.
//!
//! Invariants: what is meant for one client, or for no cache, is not passed on; the end of every
//! response is told by its length or by chunks, so that a client can tell an end from a cut (RFC
//! 9112, 6.3).

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_LENGTH, HeaderMap, SET_COOKIE};

use super::cache_control;
use super::http::Refusal;

/// How the end of a body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// There is none, whatever its length would be, which is told where it is known.
    NoBody(Option<u64>),
    /// This many bytes.
    Length(u64),
    /// Chunks (RFC 9112, 7.1).
    Chunks,
}

/// Headers of one connection alone (RFC 9110, 7.6.1), and those that the framing says anew.
const STAY: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
];

/// Whether anybody may read it. A cookie is somebody's; every line of Cache-Control may say it.
pub(super) fn is_public(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(CACHE_CONTROL).iter();
    !headers.contains_key(SET_COOKIE)
        && !headers.contains_key("set-cookie2")
        && lines.all(|line| cache_control::is_public(line.as_bytes()))
}

/// How the end of a response to a request of this method is told, if it can be. `len` is the body's
/// length where it is known.
pub(super) fn framing(
    method: &str,
    knows_chunks: bool,
    status: StatusCode,
    len: Option<u64>,
) -> Result<Framing, Refusal> {
    if status.is_informational() {
        // A change of protocols, for which nobody has asked.
        return Err(Refusal::UPSTREAM);
    }
    if method == "HEAD" {
        // A server's response has no body and a header that says how long it would be; a service's
        // may have the body.
        return Ok(Framing::NoBody(len.filter(|len| *len > 0)));
    }
    if matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
        return Ok(Framing::NoBody(None));
    }
    match len {
        Some(len) => Ok(Framing::Length(len)),
        None if knows_chunks => Ok(Framing::Chunks),
        None => Err(Refusal::VERSION),
    }
}

/// The head, up to the empty line.
pub(super) fn head(
    status: StatusCode,
    headers: &HeaderMap,
    framing: Framing,
    keeps: bool,
) -> Vec<u8> {
    let reason = status.canonical_reason().unwrap_or_default();
    let mut head = format!("HTTP/1.1 {} {reason}\r\n", status.as_str()).into_bytes();
    let mut field = |name: &str, value: &[u8]| {
        head.extend_from_slice(name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n");
    };
    for (name, value) in headers {
        if !STAY.contains(&name.as_str()) {
            field(name.as_str(), value.as_bytes());
        }
    }
    match framing {
        // What the length of a response without a body would have been (RFC 9110, 8.6).
        Framing::NoBody(len) => {
            if status == StatusCode::NO_CONTENT {
                // It has none (RFC 9110, 8.6).
            } else if let Some(len) = headers.get(CONTENT_LENGTH) {
                field("Content-Length", len.as_bytes());
            } else if let Some(len) = len {
                field("Content-Length", len.to_string().as_bytes());
            }
        }
        Framing::Length(len) => field("Content-Length", len.to_string().as_bytes()),
        Framing::Chunks => field("Transfer-Encoding", b"chunked"),
    }
    if !keeps {
        field("Connection", b"close");
    }
    head.extend_from_slice(b"\r\n");
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderName, HeaderValue};

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields
            .iter()
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect()
    }

    #[test]
    fn what_is_meant_for_one_client_is_not_public() {
        for (name, value, public) in [
            ("cache-control", "max-age=60, public", true),
            ("cache-control", "max-age=60,Private", false),
            ("cache-control", "public private", false),
            ("cache-control", "no-cache", true),
            ("set-cookie", "a=b", false),
            ("content-type", "text/private", true),
        ] {
            assert_eq!(
                is_public(&headers(&[(name, value)])),
                public,
                "{name}: {value}"
            );
        }
        for second in ["private", "max-age=60;", "\"private\""] {
            let lines = [("cache-control", "public"), ("cache-control", second)];
            assert!(!is_public(&headers(&lines)), "{second}");
        }
    }

    #[test]
    fn every_end_is_told() {
        for (method, knows_chunks, status, len, expected) in [
            ("GET", true, 200, Some(3), Ok(Framing::Length(3))),
            ("GET", true, 200, None, Ok(Framing::Chunks)),
            ("GET", false, 200, None, Err(Refusal::VERSION)),
            ("GET", true, 304, Some(3), Ok(Framing::NoBody(None))),
            ("GET", true, 204, Some(0), Ok(Framing::NoBody(None))),
            ("HEAD", true, 200, Some(0), Ok(Framing::NoBody(None))),
            ("HEAD", true, 200, Some(7), Ok(Framing::NoBody(Some(7)))),
            ("GET", true, 101, Some(0), Err(Refusal::UPSTREAM)),
        ] {
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(
                framing(method, knows_chunks, status, len),
                expected,
                "{method} {status}"
            );
        }

        let fields = headers(&[
            ("content-length", "9"),
            ("connection", "x"),
            ("etag", "\"e\""),
        ]);
        assert_eq!(
            head(StatusCode::OK, &fields, Framing::Chunks, false),
            b"HTTP/1.1 200 OK\r\netag: \"e\"\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(
            head(StatusCode::OK, &fields, Framing::NoBody(None), true),
            b"HTTP/1.1 200 OK\r\netag: \"e\"\r\nContent-Length: 9\r\n\r\n"
        );
    }
}
