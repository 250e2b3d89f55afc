//! Counters and gauges of an origin or a volunteer, and the admin port that shows them.
//!
//! Is not: a log. No name, address or content is in it.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tiny_http::{Header, Method, Response, Server};

use crate::error::SplitIoError;

/// One number that can be shown.
#[derive(Clone, Debug)]
pub struct Number {
    name: &'static str,
    help: &'static str,
    kind: Kind,
    value: Arc<AtomicU64>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Counter,
    Gauge,
}

impl Number {
    /// A number that only grows; `_total` is part of its shown name.
    #[must_use]
    pub fn counter(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, Kind::Counter)
    }

    /// A number that goes up and down.
    #[must_use]
    pub fn gauge(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, Kind::Gauge)
    }

    fn new(name: &'static str, help: &'static str, kind: Kind) -> Self {
        Self {
            name,
            help,
            kind,
            value: Arc::default(),
        }
    }

    /// Its name, as it is shown, without the ending of a counter.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// So many more.
    pub fn add(&self, by: u64) {
        self.value.fetch_add(by, Ordering::Relaxed);
    }

    /// This many now.
    pub fn set(&self, to: u64) {
        self.value.store(to, Ordering::Relaxed);
    }

    /// How many.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }

    /// One more until what is returned is dropped.
    #[must_use]
    pub fn hold(&self) -> Held {
        self.add(1);
        Held(Arc::clone(&self.value))
    }

    /// The number itself, for whoever adds to it from below.
    #[must_use]
    pub fn shared(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.value)
    }
}

/// See [`Number::hold`].
#[derive(Debug)]
pub struct Held(Arc<AtomicU64>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All of them in the format of OpenMetrics 1.0.
fn text(numbers: &[Number]) -> String {
    let mut out = String::new();
    for number in numbers {
        let (kind, ending) = match number.kind {
            Kind::Counter => ("counter", "_total"),
            Kind::Gauge => ("gauge", ""),
        };
        let (name, help, value) = (number.name, number.help, number.value());
        out += &format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{name}{ending} {value}\n");
    }
    out + "# EOF\n"
}

/// Listens, and answers `/metrics` and `/healthz` until the process ends. Where it listens, the
/// port in numbers.
///
/// # Errors
/// The address is in use or none of this machine's.
pub fn serve(address: SocketAddr, numbers: Vec<Number>) -> Result<SocketAddr, SplitIoError> {
    serve_with("--admin", address, numbers, |_| None)
}

/// What a path other than those has to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its media type.
    pub kind: &'static str,
    /// Its content.
    pub body: String,
}

/// The same, with more paths, for an address that was set under this name.
///
/// # Errors
/// The address is in use or none of this machine's.
pub fn serve_with(
    setting: &'static str,
    address: SocketAddr,
    numbers: Vec<Number>,
    pages: impl Fn(&str) -> Option<Page> + Send + 'static,
) -> Result<SocketAddr, SplitIoError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => SplitIoError::Busy { setting, address },
        _ => SplitIoError::Listen {
            setting,
            address,
            source,
        },
    };
    let listener = TcpListener::bind(address).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    let server = Server::from_listener(listener, None)
        .map_err(|error| failed(io::Error::other(error.to_string())))?;
    std::thread::Builder::new()
        .name("admin".to_owned())
        .spawn(move || answer_all(&server, &numbers, &pages))
        .map_err(failed)?;
    Ok(bound)
}

fn answer_all(server: &Server, numbers: &[Number], pages: &dyn Fn(&str) -> Option<Page>) {
    while let Ok(request) = server.recv() {
        let path = request.url().split('?').next().unwrap_or_default();
        let (code, kind, body) = match (request.method(), path) {
            (Method::Get | Method::Head, "/metrics") => (
                200,
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
                text(numbers),
            ),
            (Method::Get | Method::Head, "/healthz") => (200, "text/plain", "ok\n".to_owned()),
            (Method::Get | Method::Head, path) => match pages(path) {
                Some(page) => (200, page.kind, page.body),
                None => (
                    404,
                    "text/plain",
                    "there are /metrics and /healthz\n".to_owned(),
                ),
            },
            _ => (405, "text/plain", "only GET\n".to_owned()),
        };
        let mut response = Response::from_string(body).with_status_code(code);
        // A page is all in one: nothing is loaded from elsewhere, nor run, nor kept.
        let headers = [
            ("Content-Type", kind),
            (
                "Content-Security-Policy",
                "default-src 'none'; style-src 'unsafe-inline'; img-src data:",
            ),
            ("X-Content-Type-Options", "nosniff"),
            ("Cache-Control", "no-store"),
        ];
        for (name, value) in headers {
            if let Ok(header) = Header::from_bytes(name, value) {
                response.add_header(header);
            }
        }
        // Whoever asked may be gone.
        let _ = request.respond(response);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_counted_as_long_as_it_is_held() {
        let open = Number::gauge("open", "open connections");
        let held = open.hold();
        assert_eq!(open.value(), 1);
        drop(held);
        assert_eq!(open.value(), 0);
    }

    #[test]
    fn the_text_is_that_of_openmetrics() {
        let sent = Number::counter("sent_bytes", "bytes sent");
        sent.add(7);
        assert_eq!(
            text(&[sent]),
            "# HELP sent_bytes bytes sent\n# TYPE sent_bytes counter\nsent_bytes_total 7\n# EOF\n"
        );
    }
}
