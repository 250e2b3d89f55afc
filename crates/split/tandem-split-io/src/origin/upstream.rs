//! The server behind the origin: one of HTTP/1.1 over TCP, whose connections are used again; or a
//! service in this process.
//!
//! Is not: chosen by the client. One address, or one service, given at the start.
//!
//! Invariants: a connection carries one request at a time, and another only after the response has
//! been read to its end; what could have an effect, or has a body, goes over a connection of its
//! own, so that a request is sent twice only where that is the same as once (RFC 9110, 9.2.2).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Bytes};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::body::RequestBody;
use super::http::{Coding, Refusal, Request};

/// Connections to the server that wait for a request, at most.
const IDLE: usize = 32;
/// How long one waits: less than servers wait (nginx 75 s, Apache 5 s, Node 5 s).
const IDLE_TIME: Duration = Duration::from_secs(4);

/// What goes wrong in a server or a service, in its own words.
pub(super) type Fault = Box<dyn std::error::Error + Send + Sync>;
/// A response, its body as it comes.
pub(super) type Response = hyper::Response<UnsyncBoxBody<Bytes, Fault>>;
type Responding = Pin<Box<dyn Future<Output = Result<Response, Fault>> + Send>>;

/// What answers the requests: a server (`"http://HOST[:PORT]".parse()`) or a service
/// ([`Upstream::service`]).
#[derive(Clone)]
pub struct Upstream(Kind);

#[derive(Clone)]
enum Kind {
    Server(Arc<Server>),
    Service(Arc<dyn Responds>),
}

struct Server {
    host: Box<str>,
    port: u16,
    /// Those that were used last are at the end.
    idle: Mutex<Vec<Idle>>,
}

/// A connection that waits for a request.
struct Idle {
    sender: SendRequest<RequestBody>,
    since: Instant,
}

/// Marks a response whose body ends where the server closes the connection, so that nobody can tell
/// a whole one from one that was cut off (RFC 9112, 8).
#[derive(Clone, Copy, Debug)]
pub(super) struct EndsByClose;

/// A service with its types put away.
trait Responds: Send + Sync {
    fn respond(&self, request: hyper::Request<RequestBody>) -> Responding;
}

impl<S, B> Responds for S
where
    S: Service<hyper::Request<RequestBody>, Response = hyper::Response<B>> + Send + Sync,
    S::Future: Send + 'static,
    S::Error: Into<Fault>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Fault>,
{
    fn respond(&self, request: hyper::Request<RequestBody>) -> Responding {
        let responding = self.call(request);
        Box::pin(async move {
            let response = responding.await.map_err(Into::into)?;
            Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
        })
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Server(server) => write!(f, "http://{}:{}", server.host, server.port),
            Kind::Service(_) => f.write_str("a service in this process"),
        }
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upstream({self})")
    }
}

impl std::str::FromStr for Upstream {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        let (host, port) = address(url)?;
        Ok(Self(Kind::Server(Arc::new(Server {
            host,
            port,
            idle: Mutex::default(),
        }))))
    }
}

fn address(url: &str) -> Result<(Box<str>, u16), String> {
    let rest = url
        .strip_prefix("http://")
        .ok_or("should be http://HOST[:PORT]: the origin speaks TLS to its clients, and plain HTTP/1.1 to the server behind it")?;
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if authority.is_empty() || authority.contains(['/', '?', '#', '@']) {
        return Err("should be http://HOST[:PORT], without a path".to_owned());
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or("a [ without its ]")?;
            (host, rest.strip_prefix(':'))
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = match port {
        Some(port) => port.parse().map_err(|_| format!("{port:?} is no port"))?,
        None => 80,
    };
    Ok((host.into(), port))
}

impl Upstream {
    /// A service in this process, of the kind that hyper 1 serves. It gets what a server behind the
    /// origin would get: requests for the one host, with those of their headers that a public
    /// answer can depend on (no Cookie, no Authorization, nothing that a proxy says, no name of
    /// one's own), and `X-Forwarded-Proto: https`.
    ///
    /// A service of tower (axum's routers are such) becomes one by
    /// `hyper_util::service::TowerToHyperService`.
    #[must_use]
    pub fn service<S, B>(service: S) -> Self
    where
        S: Service<hyper::Request<RequestBody>, Response = hyper::Response<B>>
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        Self(Kind::Service(Arc::new(service)))
    }

    /// Asks, and waits for the head of the response.
    pub(super) async fn ask(
        self,
        request: Request,
        body: RequestBody,
    ) -> Result<Response, Refusal> {
        let asked = message(&request, body)?;
        match self.0 {
            Kind::Service(service) => service.respond(asked).await.map_err(failed),
            Kind::Server(server) => {
                let may_repeat =
                    matches!(&*request.method, "GET" | "HEAD") && request.body == Coding::None;
                if !may_repeat {
                    return server.exchange(&mut server.connect().await?, asked).await;
                }
                if let Some(sender) = server.idle() {
                    match server.exchange_and_keep(sender, asked).await {
                        Ok(response) => return Ok(response),
                        // The server may have closed it just now.
                        Err(_) => tracing::debug!("once more, over another connection"),
                    }
                    let again = message(&request, RequestBody::none())?;
                    return server
                        .exchange_and_keep(server.connect().await?, again)
                        .await;
                }
                server
                    .exchange_and_keep(server.connect().await?, asked)
                    .await
            }
        }
    }
}

fn failed(error: impl Into<Fault>) -> Refusal {
    let error: Fault = error.into();
    tracing::debug!(%error, "the server behind the origin failed");
    Refusal::UPSTREAM
}

impl Server {
    /// A connection that waits, the last one used.
    fn idle(&self) -> Option<SendRequest<RequestBody>> {
        let mut idle = self.lock();
        idle.retain(|idle| idle.since.elapsed() < IDLE_TIME && idle.sender.is_ready());
        Some(idle.pop()?.sender)
    }

    /// A new one.
    async fn connect(&self) -> Result<SendRequest<RequestBody>, Refusal> {
        let stream = match TcpStream::connect((&*self.host, self.port)).await {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(%error, server = %format_args!("{}:{}", self.host, self.port), "the server behind the origin cannot be reached");
                return Err(Refusal::UNREACHABLE);
            }
        };
        stream.set_nodelay(true).map_err(failed)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(failed)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "the connection to the server behind the origin ended early");
            }
        });
        Ok(sender)
    }

    /// A request and its response.
    async fn exchange(
        &self,
        sender: &mut SendRequest<RequestBody>,
        asked: hyper::Request<RequestBody>,
    ) -> Result<Response, Refusal> {
        let mut response = sender.send_request(asked).await.map_err(failed)?;
        if response.body().size_hint().exact().is_none()
            && !response.headers().contains_key(TRANSFER_ENCODING)
        {
            response.extensions_mut().insert(EndsByClose);
        }
        Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
    }

    /// The same, for a request without a body: the connection serves others afterwards. A server
    /// may leave a body unread, and would take what is left for the next request.
    async fn exchange_and_keep(
        self: &Arc<Self>,
        mut sender: SendRequest<RequestBody>,
        asked: hyper::Request<RequestBody>,
    ) -> Result<Response, Refusal> {
        let response = self.exchange(&mut sender, asked).await?;
        let server = Arc::clone(self);
        tokio::spawn(async move {
            // Not before the response has been read; never, if it is not.
            if sender.ready().await.is_ok() {
                server.take_back(sender);
            }
        });
        Ok(response)
    }

    fn take_back(&self, sender: SendRequest<RequestBody>) {
        let mut idle = self.lock();
        idle.retain(|idle| idle.since.elapsed() < IDLE_TIME && idle.sender.is_ready());
        if idle.len() < IDLE {
            let since = Instant::now();
            idle.push(Idle { sender, since });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The request as the server gets it.
fn message(request: &Request, body: RequestBody) -> Result<hyper::Request<RequestBody>, Refusal> {
    let mut asked = hyper::Request::builder()
        .method(request.method.as_str())
        .uri(request.target.as_str());
    for (name, value) in &request.headers {
        asked = asked.header(name.as_str(), value.as_slice());
    }
    asked = match request.body {
        Coding::None => asked,
        Coding::Length(len) => asked.header(CONTENT_LENGTH, len),
        Coding::Chunks => asked.header(TRANSFER_ENCODING, "chunked"),
    };
    let asked = asked.header("X-Forwarded-Proto", "https").body(body);
    asked.map_err(|error| {
        tracing::debug!(%error, "a request that cannot be passed on");
        Refusal::MALFORMED
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_is_a_host_and_a_port() {
        let shown = |url: &str| url.parse::<Upstream>().map(|upstream| upstream.to_string());
        assert_eq!(
            shown("http://127.0.0.1:8080"),
            Ok("http://127.0.0.1:8080".to_owned())
        );
        assert_eq!(shown("http://backend/"), Ok("http://backend:80".to_owned()));
        assert_eq!(address("http://[::1]:81"), Ok(("::1".into(), 81)));
        assert_eq!(address("http://[::1]"), Ok(("::1".into(), 80)));
        for url in ["https://a", "http://a/b", "a:80", "http://a:x", "http://"] {
            assert!(shown(url).is_err(), "{url}");
        }
    }
}
