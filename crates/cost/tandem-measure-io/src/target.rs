//! What is measured: an `https` or `http` URL, and the one address that its name has at the
//! beginning.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use rustls::pki_types::ServerName;

use crate::error::MeasureError;

/// The ports of HTTPS and HTTP (RFC 9110, sections 4.2.2 and 4.2.1).
const PORTS: [u16; 2] = [443, 80];
/// How long each of several addresses is tried.
const PATIENCE: Duration = Duration::from_secs(1);

/// A server and a path there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// As it was given.
    pub url: String,
    /// Where connections go.
    pub address: SocketAddr,
    /// For the certificate and the server name indication; `None` without TLS.
    pub(crate) name: Option<ServerName<'static>>,
    /// For the field Host.
    pub(crate) authority: String,
    /// With the query.
    pub(crate) path: String,
}

/// The parts of a URL.
#[derive(Debug, PartialEq, Eq)]
struct Parts<'a> {
    has_tls: bool,
    authority: &'a str,
    host: &'a str,
    port: u16,
    path: &'a str,
}

impl Target {
    /// Reads a URL and resolves its name.
    ///
    /// # Errors
    /// `Url`, `Resolve`.
    pub fn of(url: &str) -> Result<Self, MeasureError> {
        let wrong = |why| MeasureError::Url {
            url: url.to_owned(),
            why,
        };
        let parts = parts(url).map_err(wrong)?;
        let name = ServerName::try_from(parts.host.to_owned())
            .map_err(|_| wrong("the host is neither a name nor an address"))?;
        let resolve = |source| MeasureError::Resolve {
            host: parts.host.to_owned(),
            source,
        };
        let addresses: Vec<SocketAddr> = (parts.host, parts.port)
            .to_socket_addrs()
            .map_err(resolve)?
            .collect();
        let address =
            reachable(&addresses).ok_or_else(|| resolve(std::io::ErrorKind::NotFound.into()))?;
        Ok(Self {
            url: url.to_owned(),
            address,
            name: parts.has_tls.then_some(name),
            authority: parts.authority.to_owned(),
            path: parts.path.to_owned(),
        })
    }

    /// Whether it is reached by TLS.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.name.is_some()
    }
}

/// Scheme, host and port of a URL as they are written, without what follows.
#[must_use]
pub fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    let length = url[host..].find(['/', '?', '#']);
    length.map_or(url, |length| &url[..host + length])
}

/// The first that takes a connection; where none does, the first, whose failure is then told.
fn reachable(addresses: &[SocketAddr]) -> Option<SocketAddr> {
    let takes = |address: &&SocketAddr| match addresses {
        [_] => true,
        _ => TcpStream::connect_timeout(address, PATIENCE).is_ok(),
    };
    addresses.iter().find(takes).or(addresses.first()).copied()
}

fn parts(url: &str) -> Result<Parts<'_>, &'static str> {
    let (rest, has_tls, default_port) = match url.strip_prefix("https://") {
        Some(rest) => (rest, true, PORTS[0]),
        None => {
            let rest = url.strip_prefix("http://");
            let rest = rest.ok_or("the URL begins with neither https:// nor http://")?;
            (rest, false, PORTS[1])
        }
    };
    if !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("the URL has characters that have to be written as %XX");
    }
    let rest = rest.split('#').next().unwrap_or_default();
    let (authority, path) = match rest.find(['/', '?']) {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    if path.starts_with('?') {
        return Err("the path is missing before the question mark");
    }
    if authority.contains('@') {
        return Err("names and passwords in URLs are not sent");
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("the bracket is not closed")?;
            (
                host,
                port.strip_prefix(':').or((port.is_empty()).then_some("")),
            )
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, Some("")),
        },
    };
    let port = match port {
        Some("") => default_port,
        Some(port) => port
            .parse()
            .map_err(|_| "the port is no number up to 65535")?,
        None => return Err("something stands between the address and the port"),
    };
    if host.is_empty() {
        return Err("the host is missing");
    }
    Ok(Parts {
        has_tls,
        authority,
        host,
        port,
        path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_its_parts() {
        let clear = parts("http://a/b").unwrap();
        assert_eq!((clear.has_tls, clear.port, clear.path), (false, 80, "/b"));
        for (url, authority, host, port, path) in [
            ("https://a", "a", "a", 443, "/"),
            ("https://a:8443/b?c#d", "a:8443", "a", 8443, "/b?c"),
            ("https://[::1]/", "[::1]", "::1", 443, "/"),
            ("https://[::1]:9/x", "[::1]:9", "::1", 9, "/x"),
        ] {
            let expected = Parts {
                has_tls: true,
                authority,
                host,
                port,
                path,
            };
            assert_eq!(parts(url), Ok(expected), "{url}");
        }
    }

    #[test]
    fn an_origin_has_no_path() {
        for (url, expected) in [
            ("https://a:8443/b/c?d", "https://a:8443"),
            ("https://a", "https://a"),
            ("http://[::1]?x", "http://[::1]"),
            ("a/b", "a"),
        ] {
            assert_eq!(origin(url), expected);
        }
    }

    #[test]
    fn of_several_addresses_one_that_listens_is_taken() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let listening = listener.local_addr().unwrap();
        let silent = SocketAddr::from(([127, 0, 0, 1], 1));
        assert_eq!(reachable(&[silent, listening]), Some(listening));
        assert_eq!(reachable(&[silent, silent]), Some(silent));
        assert_eq!(reachable(&[]), None);
    }

    #[test]
    fn a_wrong_url_says_what_is_wrong() {
        for (url, words) in [
            ("ftp://a/", "https://"),
            ("a", "https://"),
            ("https:///x", "host is missing"),
            ("https://a:x/", "port"),
            ("https://a:70000/", "port"),
            ("https://[::1", "bracket"),
            ("https://[::1]x", "between"),
            ("https://me@a/", "passwords"),
            ("https://a?b", "path is missing"),
            ("https://a/b c", "%XX"),
        ] {
            let why = parts(url).unwrap_err();
            assert!(why.contains(words), "{url}: {why}");
        }
        let error = Target::of("https://a_b..c/").unwrap_err();
        assert!(error.to_string().contains("neither a name"), "{error}");
    }
}
