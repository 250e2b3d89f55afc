//! The plain server behind the origin: a page, files whose bytes can be foretold, and an answer to
//! what is sent to it.
//!
//! Is not: for anybody but the matrix. It knows ranges, entity tags and HEAD as the jobs ask for
//! them.

use std::io::Cursor;
use std::net::SocketAddr;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tiny_http::{Header, Method, Request, Response, Server};

use tandem_testbed::LabError;

/// What a browser opens.
pub(super) const PAGE: &str =
    "<!doctype html><title>Split</title><link rel=icon href=data:,><p>Split</p>\n";

/// Requests that are answered at a time.
const WORKERS: usize = 8;

/// Listens until it is dropped.
pub(super) struct Files {
    server: Arc<Server>,
    pub(super) address: SocketAddr,
}

/// The bytes of `/file/LEN/SEED`.
pub(super) fn body(len: usize, seed: u64) -> Vec<u8> {
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

/// What clients send when they are told to send so much.
pub(super) fn upload(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// What they are answered then.
pub(super) fn receipt(sent: &[u8]) -> String {
    format!("{} {}\n", sent.len(), digits(sent))
}

/// The entity tag of `/file/LEN/SEED`.
pub(super) fn tag(len: usize, seed: u64) -> String {
    format!("\"{len}-{seed}\"")
}

/// SHA-256 in hexadecimal digits.
pub(super) fn digits(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Files {
    pub(super) fn start() -> Result<Self, LabError> {
        let failed = |error: Box<dyn std::error::Error + Send + Sync>| {
            LabError::io("listen for the plain server")(std::io::Error::other(error))
        };
        let server = Arc::new(Server::http("127.0.0.1:0").map_err(failed)?);
        let address = server
            .server_addr()
            .to_ip()
            .ok_or_else(|| failed("it has no address".into()))?;
        for _ in 0..WORKERS {
            let server = Arc::clone(&server);
            std::thread::spawn(move || {
                while let Ok(request) = server.recv() {
                    answer(request);
                }
            });
        }
        Ok(Self { server, address })
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for _ in 0..WORKERS {
            self.server.unblock();
        }
    }
}

fn answer(mut request: Request) {
    let path = request.url().to_owned();
    let mut parts = path.split('/').skip(1);
    let first = parts.next();
    let response = match (request.method(), first, parts.next(), parts.next()) {
        (Method::Post, _, _, _) => {
            let mut sent = Vec::new();
            // One that is cut off is answered for what came; nobody reads that.
            let _ = request.as_reader().read_to_end(&mut sent);
            whole(200, receipt(&sent).into_bytes())
        }
        (_, Some("page"), None, None) => with(whole(200, PAGE.into()), "Content-Type", "text/html"),
        (_, Some("file"), Some(len), Some(seed)) => match (len.parse(), seed.parse()) {
            (Ok(len), Ok(seed)) => file(len, seed, &request),
            _ => whole(404, b"no such file\n".to_vec()),
        },
        _ => whole(404, b"not here\n".to_vec()),
    };
    // Whoever asked may be gone.
    let _ = request.respond(response);
}

fn file(len: usize, seed: u64, request: &Request) -> Response<Cursor<Vec<u8>>> {
    let asked = |name: &'static str| {
        let field = request.headers().iter().find(|it| it.field.equiv(name));
        field.map(|it| it.value.to_string())
    };
    let bytes = body(len, seed);
    let range = asked("Range").and_then(|text| {
        let (from, to) = text.strip_prefix("bytes=")?.split_once('-')?;
        let (from, to): (usize, usize) = (from.parse().ok()?, to.parse().ok()?);
        (from <= to && to < len).then_some((from, to))
    });
    let answer = if asked("If-None-Match").is_some_and(|it| it == tag(len, seed)) {
        whole(304, Vec::new())
    } else if let Some((from, to)) = range {
        let content_range = format!("bytes {from}-{to}/{len}");
        let answer = whole(206, bytes[from..=to].to_vec());
        with(answer, "Content-Range", &content_range)
    } else {
        whole(200, bytes)
    };
    with(answer, "ETag", &tag(len, seed))
}

fn whole(status: u16, bytes: Vec<u8>) -> Response<Cursor<Vec<u8>>> {
    Response::from_data(bytes)
        .with_status_code(status)
        .with_chunked_threshold(usize::MAX)
}

fn with<R: std::io::Read>(response: Response<R>, name: &str, value: &str) -> Response<R> {
    match Header::from_bytes(name, value) {
        Ok(header) => response.with_header(header),
        Err(()) => response,
    }
}
