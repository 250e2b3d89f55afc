//! **An experiment, for measurements only: never for real traffic.** `tls12-experiment` over TCP:
//! a client, a server that gives one answer, and a proxy that holds a client's certificate; and the
//! same client and server on rustls, to measure beside it.
//!
//! Is: sockets, time, randomness, X.509 certificates. Is not: the protocol's decisions, which are
//! `tls12-experiment`'s and rustls's; HTTP beyond one request; packaged.
//!
//! Invariants: each wait is bounded ([`LIMIT`]); at most [`MAX_CONNECTIONS`] are served at a time;
//! a request is at most [`MAX_REQUEST`] bytes, an answer that is kept [`MAX_ANSWER`].
#![forbid(unsafe_code)]

mod error;
pub mod hold;
mod listen;
pub mod own;
pub mod stock;
mod x509;

use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

pub use error::Failure;
pub use x509::{Roots, identity};

/// Longest wait for the other end: longer than any handshake on the lab's links.
pub const LIMIT: Duration = Duration::from_secs(300);

/// Most connections that are served at a time.
pub const MAX_CONNECTIONS: usize = 64;

/// Most bytes of a request.
pub const MAX_REQUEST: usize = 1 << 14;

/// Most bytes of an answer that are kept.
pub const MAX_ANSWER: usize = 1 << 20;

/// How a visit went.
#[derive(Debug, Clone)]
pub struct Visit {
    /// Which handshake it was.
    pub kind: &'static str,
    /// From before the TCP connection to the first byte of the answer.
    pub first_byte: Duration,
    /// The answer.
    pub answer: Vec<u8>,
}

/// Whether a request is whole.
fn is_whole(request: &[u8]) -> bool {
    request.windows(4).any(|window| window == b"\r\n\r\n")
}

fn prepare(socket: &TcpStream) -> Result<(), Failure> {
    let settings = socket
        .set_nodelay(true)
        .and_then(|()| socket.set_read_timeout(Some(LIMIT)))
        .and_then(|()| socket.set_write_timeout(Some(LIMIT)));
    settings.map_err(Failure::socket("set up the connection"))
}

/// Some bytes; none at the end. A reset after all was said is an end.
fn read_some(socket: &mut TcpStream, buffer: &mut [u8]) -> Result<usize, Failure> {
    match socket.read(buffer) {
        Ok(count) => Ok(count),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Ok(0),
        Err(error) => Err(Failure::socket("read")(error)),
    }
}
