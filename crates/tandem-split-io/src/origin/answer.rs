//! The answer of the server behind the origin: may it be public, and how is its end told?
//!
//! Is not: its body, which passes as it is.
//!
//! Invariants: what is meant for one client, or for no cache, is not passed on; the end of every answer is told by its length or by chunks, so that a
//! client can tell an end from a cut (RFC 9112, 6.3).

use hyper::header::{CACHE_CONTROL, CONTENT_LENGTH, HeaderMap, SET_COOKIE};

use super::http::{Refusal, Request};

/// How the end of a body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// There is none, whatever its length would be.
    NoBody,
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

/// Whether anybody may read it. A cookie is somebody's; `private` and `no-store` say it (RFC 9111, 5.2.2).
pub(super) fn is_public(headers: &HeaderMap) -> bool {
    let is_kept_from_caches = headers.get_all(CACHE_CONTROL).iter().any(|value| {
        // What cannot be read may say it.
        value.to_str().map_or(true, |value| {
            value.split(',').any(|directive| {
                let name = directive.split('=').next().unwrap_or_default().trim();
                name.eq_ignore_ascii_case("private") || name.eq_ignore_ascii_case("no-store")
            })
        })
    });
    !headers.contains_key(SET_COOKIE)
        && !headers.contains_key("set-cookie2")
        && !is_kept_from_caches
}

/// How the end of an answer to this request is told, if it can be. `len` is the body's length where it is known.
pub(super) fn framing(
    request: &Request,
    status: u16,
    len: Option<u64>,
) -> Result<Framing, Refusal> {
    if request.method == "HEAD" || status == 204 || status == 304 {
        return Ok(Framing::NoBody);
    }
    match len {
        Some(len) => Ok(Framing::Length(len)),
        None if request.knows_chunks => Ok(Framing::Chunks),
        None => Err(Refusal::VERSION),
    }
}

/// The head, up to the empty line.
pub(super) fn head(
    status: hyper::StatusCode,
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
        // What the length of an answer without a body would have been (RFC 9110, 8.6).
        Framing::NoBody => {
            if let Some(len) = headers.get(CONTENT_LENGTH)
                && status != hyper::StatusCode::NO_CONTENT
            {
                field("Content-Length", len.as_bytes());
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
    use hyper::StatusCode;
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
            ("cache-control", "no-store", false),
            ("cache-control", "private=\"x\"", false),
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
    }

    #[test]
    fn every_end_is_told() {
        let (request, _) = super::super::http::parse(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "a")
            .expect("good")
            .expect("whole");
        assert_eq!(framing(&request, 200, Some(3)), Ok(Framing::Length(3)));
        assert_eq!(framing(&request, 200, None), Ok(Framing::Chunks));
        assert_eq!(framing(&request, 304, Some(3)), Ok(Framing::NoBody));
        let old = Request {
            knows_chunks: false,
            ..request
        };
        assert_eq!(framing(&old, 200, None), Err(Refusal::VERSION));

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
            head(StatusCode::OK, &fields, Framing::NoBody, true),
            b"HTTP/1.1 200 OK\r\netag: \"e\"\r\nContent-Length: 9\r\n\r\n"
        );
    }
}
