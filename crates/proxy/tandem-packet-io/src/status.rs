//! What a running daemon says of itself, as `GET /status` of its admin port; and the client that
//! asks.
//!
//! Is not: the server side (`admin.rs`).
//!
//! Invariant: a daemon that answers slowly, with too much or with something else is an error in
//! bounded time and memory.

use std::io::{ErrorKind, Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

pub use tandem_status::Status;

use crate::error::IoError;

/// The longest answer that is read. One of today takes 4 kB, and up to 40 kB more for names of
/// sites and connections.
const MAX_ANSWER: usize = 1 << 20;

/// Asks the daemon whose admin port is `address`, for at most `timeout` altogether.
///
/// # Errors
/// Nobody answers in time, or not as a daemon does.
pub fn fetch(address: SocketAddr, timeout: Duration) -> Result<Status, IoError> {
    let failed = |reason: String| IoError::Status { address, reason };
    let body = http_get(address, "/status", timeout).map_err(|error| failed(error.to_string()))?;
    serde_json::from_slice(&body).map_err(|error| failed(error.to_string()))
}

/// The body of the answer to a GET, if its status is 200 (RFC 9110; HTTP/1.0, so that the
/// connection's end is the answer's).
fn http_get(address: SocketAddr, path: &str, timeout: Duration) -> std::io::Result<Vec<u8>> {
    let deadline = Instant::now() + timeout;
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_write_timeout(Some(timeout))?;
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    let mut part = [0; 16 * 1024];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Err(ErrorKind::TimedOut.into());
            }
            Err(error) => return Err(error),
        }
        if answer.len() > MAX_ANSWER {
            return Err(std::io::Error::other("the answer is too long"));
        }
    }
    let head = answer
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .ok_or_else(|| std::io::Error::other("the answer is not HTTP"))?;
    let code = answer[..head].split(|byte| *byte == b' ').nth(1);
    if !answer.starts_with(b"HTTP/1.") || code != Some(b"200") {
        return Err(std::io::Error::other("the answer is not that of a daemon"));
    }
    Ok(answer.split_off(head + 4))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn sample() -> Status {
        let text = r#"{
            "version": "0.1.0", "role": "client-side", "link": "tun0", "mode": "packet", "pid": 7,
            "queue": 9, "uptime_seconds": 12.5, "cpu_seconds": 0.25, "resident_bytes": 5000000,
            "peak_resident_bytes": 6000000, "counters": {"queue_packets": 3}, "gauges": {"flows": 0}
        }"#;
        serde_json::from_str(text).expect("a status")
    }

    /// What `fetch` makes of a server that answers `answer` and closes.
    fn fetched(answer: &[u8]) -> Result<Status, IoError> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("the client connects");
                // All of the request: a socket that is closed with bytes unread resets the
                // connection.
                let mut request = Vec::new();
                let mut piece = [0; 512];
                while !request.ends_with(b"\r\n\r\n") {
                    let count = stream.read(&mut piece).expect("the client asks");
                    request.extend_from_slice(&piece[..count]);
                }
                let _ = stream.write_all(answer);
            });
            fetch(address, Duration::from_secs(5))
        })
    }

    #[test]
    fn an_answer_is_read_and_anything_else_is_an_error() {
        let body = sample().json();
        let good = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        assert_eq!(fetched(good.as_bytes()).expect("good"), sample());
        for bad in [
            "",
            "SSH-2.0-x\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\n\r\n{}",
            &good[..good.len() - 1],
        ] {
            let error = fetched(bad.as_bytes()).expect_err(bad);
            assert!(matches!(error, IoError::Status { .. }), "{error:?}");
        }
    }

    #[test]
    fn an_answer_without_end_and_none_at_all_are_given_up() {
        let head = "HTTP/1.1 200 OK\r\n\r\n";
        let long = [head, &" ".repeat(MAX_ANSWER), &sample().json()].concat();
        let error = fetched(long.as_bytes()).expect_err("too long");
        assert!(error.to_string().contains("too long"), "{error}");
        // It takes connections, and nobody answers them.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        assert!(fetch(address, Duration::from_millis(50)).is_err());
    }

    #[test]
    fn nobody_there_is_an_error_that_names_the_address() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        drop(listener);
        let error = fetch(address, Duration::from_secs(1)).expect_err("nobody");
        assert!(error.to_string().contains(&address.to_string()));
    }
}
