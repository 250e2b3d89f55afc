//! The plain server behind the origin: bodies that can be foretold, and answers that are not public.

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
    let _ = match parts[0] {
        "bytes" => request.respond(
            Response::from_data(body(number(1) as usize, number(2)))
                .with_chunked_threshold(usize::MAX),
        ),
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
