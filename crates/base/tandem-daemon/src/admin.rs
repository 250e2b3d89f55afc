//! The admin port: `/healthz`, and the pages that a daemon adds, `/metrics` among them.
//!
//! Is not: a way to change anything.
//!
//! Invariant: it runs on a thread of its own, so that whoever reads it, and however slowly, delays
//! nothing else.

use std::net::{IpAddr, SocketAddr, TcpListener};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Method, StatusCode};

use crate::error::DaemonError;
use crate::http::{Request, Response, Server};
use crate::metrics::{self, Number};

/// OpenMetrics 1.0, which Prometheus reads.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// What is no page of its own.
const TEXT: &str = "text/plain";
/// A page is all in one: nothing is loaded from elsewhere, nor run.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// What a path shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    kind: &'static str,
    body: String,
    policy: &'static str,
    readers: Readers,
}

/// To whom a page is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readers {
    /// To whoever reaches the port.
    All,
    /// To those who asked for an address or `localhost`. A web page whose own name leads here (DNS
    /// rebinding) has asked for that name.
    ByAddress,
}

impl Page {
    /// One of this media type.
    #[must_use]
    pub fn new(kind: &'static str, body: String) -> Self {
        Self {
            kind,
            body,
            policy: POLICY,
            readers: Readers::All,
        }
    }

    /// Metrics in the text format of OpenMetrics.
    #[must_use]
    pub fn metrics(body: String) -> Self {
        Self::new(OPEN_METRICS, body)
    }

    /// With this Content-Security-Policy, for a page that has a script.
    #[must_use]
    pub fn with_policy(self, policy: &'static str) -> Self {
        Self { policy, ..self }
    }

    /// For what web pages of others may not read: it is shown to those only who ask for this port
    /// by an address or as `localhost`.
    fn by_address_only(self) -> Self {
        Self {
            readers: Readers::ByAddress,
            ..self
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

    /// Starts answering with the status of a proxy: `html` at `/`, what it reads at `/status`, and
    /// `/metrics`. The first two name sites: web pages of others cannot read them.
    ///
    /// # Errors
    /// A thread could not be started.
    pub fn serve_status(
        self,
        html: Page,
        status: impl Fn() -> String + Send + Sync + 'static,
        metrics: impl Fn() -> String + Send + Sync + 'static,
    ) -> Result<Server, DaemonError> {
        let html = html.by_address_only();
        self.serve("/, /metrics, /status", move |path| match path {
            "/" => Some(html.clone()),
            "/metrics" => Some(Page::metrics(metrics())),
            "/status" => Some(Page::new("application/json", status() + "\n").by_address_only()),
            _ => None,
        })
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
    let page = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/healthz") => Ok(Page::new(TEXT, "ok\n".to_owned())),
        (&Method::GET | &Method::HEAD, path) => match page(path) {
            Some(page) if page.readers == Readers::ByAddress && !asks_by_address(request) => Err((
                StatusCode::MISDIRECTED_REQUEST,
                "ask for it by the address of this port, or as localhost\n".to_owned(),
            )),
            Some(page) => Ok(page),
            None => Err((
                StatusCode::NOT_FOUND,
                format!("there are {paths} and /healthz\n"),
            )),
        },
        _ => Err((StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned())),
    };
    let (status, page) = match page {
        Ok(page) => (StatusCode::OK, page),
        Err((status, why)) => (status, Page::new(TEXT, why)),
    };
    let mut response = Response::new(Full::from(page.body));
    *response.status_mut() = status;
    let headers = [
        (header::CONTENT_TYPE, page.kind),
        (header::CONTENT_SECURITY_POLICY, page.policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in headers {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether the request is for an address or `localhost` (RFC 9112, section 3.2): in its Host field
/// or, without one, in nothing, as of programs that speak HTTP/1.0. Browsers send one always.
fn asks_by_address(request: &Request) -> bool {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let Some(host) = hosts.next() else {
        return true;
    };
    let Ok(host) = host.to_str() else {
        return false;
    };
    let is_address = host.parse::<SocketAddr>().is_ok() || bare(host).parse::<IpAddr>().is_ok();
    let name = host.split(':').next().unwrap_or(host);
    hosts.next().is_none() && (is_address || name.eq_ignore_ascii_case("localhost"))
}

/// An IPv6 address without its brackets.
fn bare(host: &str) -> &str {
    let inner = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    inner.unwrap_or(host)
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

    #[test]
    fn what_names_sites_is_shown_to_those_only_who_ask_by_address() {
        let free = "127.0.0.1:0".parse().expect("an address");
        let port = AdminPort::bind("--admin", free).expect("a free port");
        let address = port.address();
        let html = Page::new("text/html", "mine".to_owned());
        let server = port.serve_status(html, || "{}".to_owned(), || "# EOF\n".to_owned());
        let server = server.expect("it starts");
        let status = |path: &str, host: &str| {
            let mut stream = TcpStream::connect(address).expect("it listens");
            write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n").expect("it reads");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("it answers");
            answer.split(' ').nth(1).map(str::to_owned)
        };
        let port = address.port();
        for host in [
            &address.to_string(),
            "127.0.0.1",
            "[::1]",
            "[::1]:9470",
            "localhost",
            &format!("LOCALHOST:{port}"),
        ] {
            assert_eq!(status("/", host).as_deref(), Some("200"), "{host}");
            assert_eq!(status("/status", host).as_deref(), Some("200"), "{host}");
        }
        for host in [
            "attacker.example",
            &format!("attacker.example:{port}"),
            "localhost.attacker.example",
            "127.0.0.1.attacker.example",
            "127.0.0.1:9470@attacker.example",
            "",
        ] {
            assert_eq!(status("/", host).as_deref(), Some("421"), "{host}");
            assert_eq!(status("/status", host).as_deref(), Some("421"), "{host}");
        }
        // Prometheus may be told a name.
        assert_eq!(status("/metrics", "gateway").as_deref(), Some("200"));
        let page = asked(address, "GET /");
        assert!(page.ends_with("\r\n\r\nmine"), "{page}");
        assert!(asked(address, "POST /").starts_with("HTTP/1.0 405"));
        drop(server);
    }
}
