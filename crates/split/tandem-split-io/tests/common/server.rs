//! The plain server behind the origin: bodies that can be foretold, and answers that are not
//! public.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;

use tiny_http::{Header, Response, Server as Http, StatusCode};

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
        let http = Arc::new(Http::http("127.0.0.1:0").expect("a free port"));
        let address = http.server_addr().to_ip().expect("an address");
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        for _ in 0..4 {
            let (http, seen) = (Arc::clone(&http), Arc::clone(&seen));
            thread::spawn(move || {
                while let Ok(request) = http.recv() {
                    answer(request, &seen);
                }
            });
        }
        Self { address, seen }
    }
}

fn answer(mut request: tiny_http::Request, seen: &Mutex<Vec<String>>) {
    let mut head = format!("{} {}\n", request.method(), request.url());
    for header in request.headers() {
        head += &format!("{}: {}\n", header.field, header.value);
    }
    seen.lock().expect("nobody panics here").push(head);
    let url = request.url().to_owned();
    let parts: Vec<&str> = url.split('/').skip(1).collect();
    let header = |name: &str, value: &str| Header::from_bytes(name, value).expect("a header");
    let number = |index: usize| -> u64 {
        parts
            .get(index)
            .and_then(|text| text.parse().ok())
            .unwrap_or_default()
    };
    let headers: Vec<(String, String)> = request
        .headers()
        .iter()
        .map(|it| (it.field.to_string().to_lowercase(), it.value.to_string()))
        .collect();
    let _ = match parts[0] {
        "bytes" => request.respond(
            Response::from_data(body(number(1) as usize, number(2)))
                .with_chunked_threshold(usize::MAX),
        ),
        "file" => request.respond(file(number(1) as usize, number(2), &headers)),
        "chunked" => {
            let bytes = body(number(1) as usize, number(2));
            let reader = std::io::Cursor::new(bytes);
            request.respond(Response::new(
                StatusCode(200),
                Vec::new(),
                reader,
                None,
                None,
            ))
        }
        "cookie" => {
            request.respond(Response::from_string("x").with_header(header("Set-Cookie", "a=b")))
        }
        "private" => request
            .respond(Response::from_string("x").with_header(header("Cache-Control", "private"))),
        "echo" => {
            let mut sent = Vec::new();
            let _ = request.as_reader().read_to_end(&mut sent);
            request.respond(Response::from_data(sent))
        }
        _ => request.respond(Response::from_string("not here\n").with_status_code(404)),
    };
}

/// A file that knows its entity tag, ranges and several ranges at once (RFC 9110, 13.1.2 and 14).
fn file(len: usize, seed: u64, headers: &[(String, String)]) -> Response<std::io::Cursor<Vec<u8>>> {
    let whole = body(len, seed);
    let value = |name: &str| headers.iter().find(|(field, _)| field == name);
    let tag = format!("\"{len}-{seed}\"");
    let header = |name: &str, value: &str| Header::from_bytes(name, value).expect("a header");
    let of = |status: u16, bytes: Vec<u8>| {
        Response::from_data(bytes)
            .with_status_code(status)
            .with_header(header("ETag", &tag))
            .with_chunked_threshold(usize::MAX)
    };
    if value("if-none-match").is_some_and(|(_, asked)| *asked == tag) {
        return of(304, Vec::new());
    }
    let ranges: Vec<(usize, usize)> = value("range")
        .and_then(|(_, asked)| asked.strip_prefix("bytes="))
        .map(|asked| {
            let ends = asked.split(',').filter_map(|range| range.split_once('-'));
            ends.filter_map(|(from, to)| Some((from.trim().parse().ok()?, to.parse().ok()?)))
                .collect()
        })
        .unwrap_or_default();
    match ranges.as_slice() {
        [] => of(200, whole),
        [(from, to)] => {
            let range = format!("bytes {from}-{to}/{len}");
            of(206, whole[*from..=*to].to_vec()).with_header(header("Content-Range", &range))
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
            of(206, parts).with_header(header("Content-Type", kind))
        }
    }
}
