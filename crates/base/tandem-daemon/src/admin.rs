//! The admin port: `/healthz`, and the pages that a daemon adds, `/metrics` among them.
//!
//! Is not: a way to change anything.
//!
//! Invariant: it runs on a thread of its own, so that whoever reads it, and however slowly, delays
//! nothing else.

use std::net::{SocketAddr, TcpListener};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Method, StatusCode};

use crate::error::DaemonError;
use crate::http::{Request, Response, Server};
use crate::metrics::{self, Number};

/// OpenMetrics 1.0, which Prometheus reads.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// A page is all in one: nothing is loaded from elsewhere, nor run.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// What a path shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its media type.
    pub kind: &'static str,
    /// Its content.
    pub body: String,
}

impl Page {
    /// Metrics in the text format of OpenMetrics.
    #[must_use]
    pub fn metrics(body: String) -> Self {
        Self {
            kind: OPEN_METRICS,
            body,
        }
    }
}

/// Shows `/metrics` of these numbers, and what `pages` has for other paths, until the process ends.
/// Gives the address, with the port that the system chose if 0 was asked for.
///
/// # Errors
/// The port is in use, or the address is not one of this machine's.
pub fn show(
    setting: &'static str,
    address: SocketAddr,
    numbers: Vec<Number>,
    pages: impl Fn(&str) -> Option<Page> + Send + Sync + 'static,
) -> Result<SocketAddr, DaemonError> {
    let port = AdminPort::bind(setting, address)?;
    let address = port.address();
    let page = move |path: &str| match path {
        "/metrics" => Some(Page::metrics(metrics::text(&numbers))),
        path => pages(path),
    };
    port.serve("/metrics", page)?.detach();
    Ok(address)
}

/// An address that is listened on; nobody answers there yet.
#[derive(Debug)]
pub struct AdminPort {
    listener: TcpListener,
    address: SocketAddr,
    setting: &'static str,
}

impl AdminPort {
    /// Listens on `address`, which `setting` names.
    ///
    /// # Errors
    /// The port is in use, or the address is not one of this machine's.
    pub fn bind(setting: &'static str, address: SocketAddr) -> Result<Self, DaemonError> {
        let failed = |source| DaemonError::listening(setting, address, source);
        let listener = TcpListener::bind(address).map_err(failed)?;
        Ok(Self {
            address: listener.local_addr().map_err(failed)?,
            listener,
            setting,
        })
    }

    /// Where it listens, with the port that the system chose if 0 was asked for.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts answering: `page` gives what a path shows, and `paths` names those that it knows.
    ///
    /// # Errors
    /// A thread could not be started.
    pub fn serve(
        self,
        paths: &'static str,
        page: impl Fn(&str) -> Option<Page> + Send + Sync + 'static,
    ) -> Result<Server, DaemonError> {
        let (setting, address) = (self.setting, self.address);
        Server::start("admin", self.listener, move |request| {
            answer(&request, paths, &page)
        })
        .map_err(|source| DaemonError::listening(setting, address, source))
    }
}

fn answer(
    request: &Request,
    paths: &str,
    page: &impl Fn(&str) -> Option<Page>,
) -> Response<Full<Bytes>> {
    let text = |status, body: String| (status, "text/plain", body);
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/healthz") => text(StatusCode::OK, "ok\n".to_owned()),
        (&Method::GET | &Method::HEAD, path) => match page(path) {
            Some(page) => (StatusCode::OK, page.kind, page.body),
            None => text(
                StatusCode::NOT_FOUND,
                format!("there are {paths} and /healthz\n"),
            ),
        },
        _ => text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned()),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in headers {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    fn asked(address: SocketAddr, line: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        write!(stream, "{line} HTTP/1.0\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }

    #[test]
    fn it_shows_its_pages_and_refuses_everything_else() {
        let free = "127.0.0.1:0".parse().expect("an address");
        let port = AdminPort::bind("--admin", free).expect("a free port");
        let address = port.address();
        let busy = AdminPort::bind("--admin", address).expect_err("taken");
        assert!(matches!(busy, DaemonError::Busy { .. }), "{busy:?}");
        let server = port.serve("/metrics", |path| {
            (path == "/metrics").then(|| Page::metrics("x_total 1\n# EOF\n".to_owned()))
        });
        let server = server.expect("it starts");
        let metrics = asked(address, "GET /metrics?x");
        assert!(metrics.contains("openmetrics-text"), "{metrics}");
        assert!(metrics.contains("nosniff"), "{metrics}");
        assert!(metrics.ends_with("\r\n\r\nx_total 1\n# EOF\n"), "{metrics}");
        assert!(asked(address, "GET /healthz").ends_with("\r\n\r\nok\n"));
        let absent = asked(address, "GET /else");
        assert!(absent.starts_with("HTTP/1.0 404"), "{absent}");
        assert!(absent.ends_with("there are /metrics and /healthz\n"));
        assert!(asked(address, "POST /metrics").starts_with("HTTP/1.0 405"));
        drop(server);
    }
}
