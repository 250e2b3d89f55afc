//! The plain server behind the origin: a page, files whose bytes can be foretold, and an answer to
//! what is sent to it.
//!
//! Is not: for anybody but the matrix. It knows ranges, entity tags and HEAD as the jobs ask for
//! them.

use std::net::{SocketAddr, TcpListener};

use http_body_util::Full;
use hyper::Method;
use hyper::body::Bytes;
use hyper::http::response::Builder;
use sha2::{Digest as _, Sha256};
use tandem_daemon::http::{Request, Response, Server};

use tandem_testbed::LabError;

/// What a browser opens.
pub(super) const PAGE: &str =
    "<!doctype html><title>Split</title><link rel=icon href=data:,><p>Split</p>\n";

/// Listens until it is dropped.
pub(super) struct Files {
    _server: Server,
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

/// Of what a client uploads, bytes.
const MAX_BODY: usize = 64 << 20;

/// SHA-256 in hexadecimal digits.
pub(super) fn digits(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Files {
    pub(super) fn start() -> Result<Self, LabError> {
        let failed = || LabError::io("listen for the plain server");
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed())?;
        let address = listener.local_addr().map_err(failed())?;
        let server =
            Server::start_with_bodies("files", listener, MAX_BODY, |request| answer(&request));
        Ok(Self {
            _server: server.map_err(failed())?,
            address,
        })
    }
}

fn answer(request: &Request) -> Response<Full<Bytes>> {
    let mut parts = request.uri().path().split('/').skip(1);
    let first = parts.next();
    match (request.method(), first, parts.next(), parts.next()) {
        (&Method::POST, _, _, _) => whole(status(200), receipt(request.body()).into()),
        (_, Some("page"), None, None) => {
            whole(status(200).header("Content-Type", "text/html"), PAGE.into())
        }
        (_, Some("file"), Some(len), Some(seed)) => match (len.parse(), seed.parse()) {
            (Ok(len), Ok(seed)) => file(len, seed, request),
            _ => whole(status(404), "no such file\n".into()),
        },
        _ => whole(status(404), "not here\n".into()),
    }
}

fn file(len: usize, seed: u64, request: &Request) -> Response<Full<Bytes>> {
    let asked = |name: &str| request.headers().get(name)?.to_str().ok();
    let bytes = body(len, seed);
    let tag = tag(len, seed);
    let range = asked("Range").and_then(|text| {
        let (from, to) = text.strip_prefix("bytes=")?.split_once('-')?;
        let (from, to): (usize, usize) = (from.parse().ok()?, to.parse().ok()?);
        (from <= to && to < len).then_some((from, to))
    });
    if asked("If-None-Match").is_some_and(|it| it == tag) {
        whole(status(304).header("ETag", tag), Bytes::new())
    } else if let Some((from, to)) = range {
        let content_range = format!("bytes {from}-{to}/{len}");
        let head = status(206).header("Content-Range", content_range);
        whole(head.header("ETag", tag), bytes[from..=to].to_vec().into())
    } else {
        whole(status(200).header("ETag", tag), bytes.into())
    }
}

fn status(code: u16) -> Builder {
    Response::builder().status(code)
}

fn whole(head: Builder, body: Bytes) -> Response<Full<Bytes>> {
    head.body(Full::from(body))
        .expect("the headers are well-formed: they are written here")
}
