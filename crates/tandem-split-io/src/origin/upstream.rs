//! The server behind the origin: HTTP/1.1 over TCP, a connection for each request.
//!
//! Is not: chosen by the client. One address, given at the start.

use std::fmt;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::http::{Refusal, Request};

/// How long the server may take to begin its answer.
const FIRST_BYTE: Duration = Duration::from_secs(60);

/// `http://host[:port]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    host: String,
    port: u16,
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{}", self.host, self.port)
    }
}

impl std::str::FromStr for Upstream {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
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
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }
}

impl Upstream {
    /// Asks, and waits for the head of the answer.
    pub(super) async fn ask(
        &self,
        request: &Request,
        body: Vec<u8>,
    ) -> Result<hyper::Response<Incoming>, Refusal> {
        match timeout(FIRST_BYTE, self.exchange(request, body)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => {
                tracing::debug!(%error, "the server behind the origin failed");
                Err(Refusal::UPSTREAM)
            }
            Err(_) => Err(Refusal::LATE),
        }
    }

    async fn exchange(
        &self,
        request: &Request,
        body: Vec<u8>,
    ) -> Result<hyper::Response<Incoming>, Box<dyn std::error::Error + Send + Sync>> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "the connection to the server behind the origin ended early");
            }
        });
        let mut asked = hyper::Request::builder()
            .method(request.method.as_str())
            .uri(request.target.as_str());
        for (name, value) in &request.headers {
            asked = asked.header(name.as_str(), value.as_slice());
        }
        let asked = asked
            .header("X-Forwarded-Proto", "https")
            .body(Full::new(Bytes::from(body)))?;
        Ok(sender.send_request(asked).await?)
    }
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
        assert_eq!(
            "http://[::1]:81"
                .parse::<Upstream>()
                .map(|it| (it.host, it.port)),
            Ok(("::1".to_owned(), 81))
        );
        assert_eq!(
            "http://[::1]"
                .parse::<Upstream>()
                .map(|it| (it.host, it.port)),
            Ok(("::1".to_owned(), 80))
        );
        for url in ["https://a", "http://a/b", "a:80", "http://a:x", "http://"] {
            assert!(shown(url).is_err(), "{url}");
        }
    }
}
