//! What a running daemon says of itself, as `GET /status` of its admin port; and the client that
//! asks.
//!
//! Is not: the server side (`admin.rs`).
//!
//! Invariant: a daemon that answers slowly, with too much or with something else is an error in
//! bounded time and memory.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::IoError;

/// The longest answer that is read. One of today takes 4 kB.
const MAX_ANSWER: usize = 1 << 20;

/// The mode that has no packet queue; its daemons are not this crate's, and answer in the same
/// form.
const TUNNEL: &str = "tunnel";

/// A daemon at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the program.
    pub version: String,
    /// `client-side` or `server-side`.
    pub role: String,
    /// The interface of the link; in tunnel mode, where the proxies meet.
    pub link: String,
    /// `packet`, `pass-through` or `tunnel`.
    pub mode: String,
    /// Process number.
    pub pid: u32,
    /// Number of the packet queue; 0 in tunnel mode.
    pub queue: u16,
    /// Seconds since the start.
    pub uptime_seconds: f64,
    /// Processor time used, all threads, user and system.
    pub cpu_seconds: f64,
    /// Memory in use.
    pub resident_bytes: u64,
    /// The most memory that was in use at one time.
    pub peak_resident_bytes: u64,
    /// Counters: those of `/metrics` without `tandem_` and `_total`.
    pub counters: BTreeMap<String, u64>,
    /// Gauges: those of `/metrics` without `tandem_`.
    pub gauges: BTreeMap<String, u64>,
    /// What is said in words, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub notes: BTreeMap<String, String>,
}

impl Status {
    /// For a person: facts, then gauges, then counters other than 0.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = String::new();
        let mut facts = vec![
            (
                "daemon",
                format!("{} on {} (version {})", self.role, self.link, self.version),
            ),
            ("mode", self.mode.clone()),
            ("process", self.pid.to_string()),
            ("up", format!("{:.0} s", self.uptime_seconds)),
            ("processor", format!("{:.3} s", self.cpu_seconds)),
            (
                "memory",
                format!(
                    "{} kB, at most {} kB",
                    self.resident_bytes / 1000,
                    self.peak_resident_bytes / 1000
                ),
            ),
        ];
        if self.mode != TUNNEL {
            facts.insert(3, ("queue", self.queue.to_string()));
        }
        let notes = self.notes.iter();
        facts.extend(notes.map(|(name, text)| (name.as_str(), text.clone())));
        let numbers = self
            .gauges
            .iter()
            .chain(self.counters.iter().filter(|(_, value)| **value != 0));
        let width = facts
            .iter()
            .map(|(name, _)| name.len())
            .chain(numbers.clone().map(|(name, _)| name.len()))
            .max()
            .unwrap_or_default();
        for (name, value) in &facts {
            let _ = writeln!(out, "{name:<width$}  {value}");
        }
        for (name, value) in numbers {
            let _ = writeln!(out, "{name:<width$}  {value}");
        }
        out
    }

    /// For a program: one line of JSON with all numbers.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

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
        Status {
            version: "0.1.0".into(),
            role: "client-side".into(),
            link: "tun0".into(),
            mode: "packet".into(),
            pid: 7,
            queue: 9,
            uptime_seconds: 12.5,
            cpu_seconds: 0.25,
            resident_bytes: 5_000_000,
            peak_resident_bytes: 6_000_000,
            counters: BTreeMap::from([("queue_packets".into(), 3), ("queue_overflows".into(), 0)]),
            gauges: BTreeMap::from([("flows".into(), 0)]),
            notes: BTreeMap::new(),
        }
    }

    #[test]
    fn the_table_leaves_out_counters_that_are_zero() {
        assert_eq!(
            sample().table(),
            "\
daemon         client-side on tun0 (version 0.1.0)
mode           packet
process        7
queue          9
up             12 s
processor      0.250 s
memory         5000 kB, at most 6000 kB
flows          0
queue_packets  3
"
        );
    }

    #[test]
    fn the_table_of_a_tunnel_has_no_queue() {
        let tunnel = Status {
            mode: "tunnel".into(),
            queue: 0,
            ..sample()
        };
        assert!(!tunnel.table().contains("\nqueue "), "{}", tunnel.table());
    }

    #[test]
    fn what_is_said_in_words_stands_among_the_facts() {
        let spent = Status {
            notes: BTreeMap::from([("spent".into(), "0.50 EUR today".into())]),
            ..sample()
        };
        let table = spent.table();
        assert!(
            table.contains("\nspent          0.50 EUR today\n"),
            "{table}"
        );
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
    fn nobody_there_is_an_error_that_names_the_address() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        drop(listener);
        let error = fetch(address, Duration::from_secs(1)).expect_err("nobody");
        assert!(error.to_string().contains(&address.to_string()));
    }
}
