//! The plain server behind the origin: bodies that can be foretold, and answers that are not
//! public.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::HeaderValue;
use hyper::{HeaderMap, StatusCode};
use tandem_daemon::http::{self, Request, Response};

/// Runs until the process ends.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// The heads of all requests, a line each.
    pub(crate) seen: Arc<Mutex<Vec<String>>>,
}

/// The bytes of `/bytes/LEN/SEED`.
pub(crate) fn body(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

impl Server {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let heads = Arc::clone(&seen);
        http::Server::start_with_bodies("server", listener, 64 << 20, move |request| {
            answer(&request, &heads)
        })
        .expect("it starts")
        .detach();
        Self { address, seen }
    }
}

/// A body; in chunks if its length is not to be told.
pub(crate) struct Content {
    bytes: Full<Bytes>,
    is_chunked: bool,
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.bytes).poll_frame(cx)
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_chunked {
            SizeHint::default()
        } else {
            self.bytes.size_hint()
        }
    }
}

fn content(bytes: impl Into<Bytes>) -> Content {
    Content {
        bytes: Full::new(bytes.into()),
        is_chunked: false,
    }
}

fn answer(request: &Request, seen: &Mutex<Vec<String>>) -> Response<Content> {
    let mut head = format!("{} {}\n", request.method(), request.uri());
    for (field, value) in request.headers() {
        head += &format!("{field}: {}\n", value.to_str().expect("ASCII"));
    }
    seen.lock().expect("nobody panics here").push(head);
    let parts: Vec<&str> = request.uri().path().split('/').skip(1).collect();
    let number = |index: usize| -> u64 {
        parts
            .get(index)
            .and_then(|text| text.parse().ok())
            .unwrap_or_default()
    };
    let with = |name: &'static str, value: &'static str| {
        let mut response = Response::new(content("x"));
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
        response
    };
    match parts[0] {
        "bytes" => Response::new(content(body(number(1) as usize, number(2)))),
        "file" => file(number(1) as usize, number(2), request.headers()),
        "rangeless" => {
            let mut headers = request.headers().clone();
            headers.remove("range");
            file(number(1) as usize, number(2), &headers)
        }
        "partial" => partial(number(1) as usize, number(2), request.uri().query()),
        "chunked" => Response::new(Content {
            is_chunked: true,
            ..content(body(number(1) as usize, number(2)))
        }),
        "cookie" => with("set-cookie", "a=b"),
        "private" => with("cache-control", "private"),
        "echo" => Response::new(content(request.body().clone())),
        _ => {
            let mut response = Response::new(content("not here\n"));
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }
    }
}

/// A file that knows its entity tag, ranges and several ranges at once (RFC 9110, 13.1.2 and 14).
fn file(len: usize, seed: u64, headers: &HeaderMap) -> Response<Content> {
    let whole = body(len, seed);
    let asked = |name: &str| headers.get(name)?.to_str().ok();
    let tag = format!("\"{len}-{seed}\"");
    let of = |status: u16, field: &str, value: &str, bytes: Vec<u8>| {
        let head = Response::builder().status(status).header("ETag", &tag);
        let head = if field.is_empty() {
            head
        } else {
            head.header(field, value)
        };
        head.body(content(bytes)).expect("well-formed")
    };
    if asked("if-none-match").is_some_and(|asked| asked == tag) {
        return of(304, "", "", Vec::new());
    }
    let ranges: Vec<(usize, usize)> = asked("range")
        .and_then(|asked| asked.strip_prefix("bytes="))
        .map(|asked| {
            let ends = asked.split(',').filter_map(|range| range.split_once('-'));
            ends.filter_map(|(from, to)| {
                let to = if to.is_empty() {
                    len - 1
                } else {
                    to.parse().ok()?
                };
                Some((from.trim().parse().ok()?, to))
            })
            .collect()
        })
        .unwrap_or_default();
    match ranges.as_slice() {
        [] => of(200, "", "", whole),
        [(from, to)] => {
            let range = format!("bytes {from}-{to}/{len}");
            of(206, "Content-Range", &range, whole[*from..=*to].to_vec())
        }
        several => {
            let mut parts = Vec::new();
            for (from, to) in several {
                let head = format!("\r\n--part\r\nContent-Range: bytes {from}-{to}/{len}\r\n\r\n");
                parts.extend_from_slice(head.as_bytes());
                parts.extend_from_slice(&whole[*from..=*to]);
            }
            parts.extend_from_slice(b"\r\n--part--\r\n");
            let kind = "multipart/byteranges; boundary=part";
            of(206, "Content-Type", kind, parts)
        }
    }
}

/// A 206 that nobody has asked for, with a Content-Range as the query has it, `+` for a space, or
/// with none.
fn partial(len: usize, seed: u64, place: Option<&str>) -> Response<Content> {
    let mut head = Response::builder().status(206);
    if let Some(place) = place {
        head = head.header("Content-Range", place.replace('+', " "));
    }
    head.body(content(body(len, seed))).expect("well-formed")
}
