//! HTTP CONNECT (RFC 9110, section 9.3.6): a client says where it wants to go.
//!
//! Is: the parser of the request's head, and the answers. Is not: a proxy for `http://` addresses,
//! nor authentication.
//!
//! Success is answered at once, before the far side has connected: that saves a round trip over the
//! link. A connection that fails later is reset.
//!
//! Invariants: a head is at most 16 KiB; what stands behind it belongs to the tunnel.

use std::io;

use httparse::Status;
use tandem_link::tunnel::Target;

use super::head::{Found, HeadReader, NoHead};

/// Longest head, in bytes. Browsers send less than 1 KiB.
pub(super) const MAX_HEAD: usize = 16 * 1024;

/// Most fields of a head. Browsers send fewer than 10.
const MAX_FIELDS: usize = 64;

/// Neither Content-Length nor Transfer-Encoding: a server MUST NOT send these here (section 9.3.6).
const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// Why a client is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It does not send an HTTP/1 request, or names no target.
    Malformed,
    /// It sends more than a head may have.
    TooLarge,
    /// It asks for something else than a tunnel.
    Method,
    /// It may not go there.
    NotAllowed,
}

impl Refusal {
    /// What the client is told.
    pub(super) fn reply(self) -> String {
        let (status, field, text) = match self {
            Refusal::Malformed => (
                "400 Bad Request",
                "",
                "This is not a request of the form CONNECT HOST:PORT HTTP/1.1.\n",
            ),
            Refusal::TooLarge => (
                "431 Request Header Fields Too Large",
                "",
                "The head of the request has more than 16 KiB or 64 fields.\n",
            ),
            Refusal::Method => (
                "405 Method Not Allowed",
                "Allow: CONNECT\r\n",
                "This proxy only tunnels: use it for https:// addresses, with CONNECT.\n",
            ),
            Refusal::NotAllowed => (
                "403 Forbidden",
                "",
                "The rules or limits of this proxy do not allow this connection.\n",
            ),
        };
        format!(
            "HTTP/1.1 {status}\r\n{field}Content-Type: text/plain\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{text}",
            text.len()
        )
    }
}

/// Where the client wants to go, once it has been told that the connection is established. `None`:
/// it was refused, since `permits` says so or by its own fault, or is gone.
pub(super) async fn talk(
    client: &mut HeadReader,
    permits: impl Fn(&Target) -> bool,
) -> io::Result<Option<Target>> {
    let asked = match client.read(head).await {
        Ok(target) if !permits(&target) => Err(NoHead::Refused(Refusal::NotAllowed)),
        asked => asked,
    };
    match asked {
        Ok(target) => {
            client.write(ESTABLISHED).await?;
            Ok(Some(target))
        }
        Err(NoHead::Refused(refusal)) => {
            tracing::debug!(?refusal, "an HTTP client is refused");
            client.refuse(refusal.reply().as_bytes()).await?;
            Ok(None)
        }
        Err(NoHead::Gone) => Ok(None),
    }
}

/// The head of a CONNECT request.
pub(super) fn head(bytes: &[u8]) -> Result<Option<Found<Target>>, Refusal> {
    // What is longer than a head may be is not looked at, however it was cut.
    let seen = &bytes[..bytes.len().min(MAX_HEAD)];
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let len = match request.parse(seen) {
        Ok(Status::Complete(len)) => len,
        Ok(Status::Partial) if seen.len() < MAX_HEAD => return Ok(None),
        Ok(Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Err(Refusal::TooLarge);
        }
        Err(_) => return Err(Refusal::Malformed),
    };
    if request.method != Some("CONNECT") {
        return Err(Refusal::Method);
    }
    let value = request.path.and_then(authority).ok_or(Refusal::Malformed)?;
    Ok(Some(Found { value, len }))
}

/// `HOST:PORT`, with an IPv6 address in brackets (RFC 9112, section 3.2.3; RFC 3986, section
/// 3.2.2). A server MUST reject an empty or invalid port (RFC 9110, section 9.3.6).
fn authority(text: &str) -> Option<Target> {
    let (host, port) = text.rsplit_once(':')?;
    if host.contains(':') && !host.starts_with('[') {
        return None;
    }
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Target::new(host, port.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(text: &str) -> Result<Option<String>, Refusal> {
        Ok(head(text.as_bytes())?.map(|found| found.value.to_string()))
    }

    #[test]
    fn what_browsers_and_curl_send_is_read() {
        for (authority, target) in [
            ("www.Example.org:443", "www.example.org:443"),
            ("192.0.2.1:8443", "192.0.2.1:8443"),
            ("[2001:db8::1]:443", "[2001:db8::1]:443"),
        ] {
            for version in ["1.0", "1.1"] {
                let text = format!(
                    "CONNECT {authority} HTTP/{version}\r\nHost: {authority}\r\n\
                     Proxy-Connection: Keep-Alive\r\n\r\n"
                );
                assert_eq!(found(&text), Ok(Some(target.to_owned())));
            }
        }
    }

    #[test]
    fn other_methods_are_told_that_this_proxy_only_tunnels() {
        for line in [
            "GET http://example.org/",
            "POST /",
            "OPTIONS *",
            "connect a:1",
        ] {
            let text = format!("{line} HTTP/1.1\r\nHost: example.org\r\n\r\n");
            assert_eq!(found(&text), Err(Refusal::Method), "{line}");
        }
        let reply = Refusal::Method.reply();
        assert!(reply.starts_with("HTTP/1.1 405 "), "{reply}");
        // RFC 9110, section 15.5.6: the origin server MUST generate an Allow field.
        assert!(reply.contains("\r\nAllow: CONNECT\r\n"), "{reply}");
        let text = reply.split("\r\n\r\n").nth(1).expect("there is a text");
        assert!(reply.contains(&format!("Content-Length: {}\r\n", text.len())));
    }

    #[test]
    fn hostile_heads_are_refused() {
        for authority in [
            "example.org",
            "example.org:",
            ":443",
            "example.org:0",
            "example.org:65536",
            "example.org:+443",
            "2001:db8::1:443",
            "[2001:db8::1:443",
            "[www.example]:443",
            "user@example.org:443",
            "http://example.org:443",
            "/",
        ] {
            let text = format!("CONNECT {authority} HTTP/1.1\r\n\r\n");
            assert_eq!(found(&text), Err(Refusal::Malformed), "{authority}");
        }
        for text in [
            "\u{16}\u{3}\u{1}",
            "PRI * HTTP/2.0\r\n\r\n",
            "CONNECT a:1 HTTP/1.1\r\nno field\r\n\r\n",
        ] {
            assert_eq!(found(text), Err(Refusal::Malformed), "{text:?}");
        }
        let fields = "X: y\r\n".repeat(MAX_FIELDS + 1);
        let text = format!("CONNECT a:1 HTTP/1.1\r\n{fields}\r\n");
        assert_eq!(found(&text), Err(Refusal::TooLarge));
    }

    #[test]
    fn a_head_is_at_most_16_kib() {
        let text = format!("CONNECT a:1 HTTP/1.1\r\nX: {}", "y".repeat(MAX_HEAD));
        assert_eq!(found(&text[..MAX_HEAD - 1]), Ok(None));
        assert_eq!(found(&text[..MAX_HEAD]), Err(Refusal::TooLarge));
        assert_eq!(found(&format!("{text}\r\n\r\n")), Err(Refusal::TooLarge));
        // Empty lines before a request are allowed, but count.
        assert_eq!(found(&"\r\n".repeat(MAX_HEAD)), Err(Refusal::TooLarge));
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_request(
            host in "[a-z0-9]{1,30}(\\.[a-z0-9]{1,30}){0,2}",
            port in 1..=u16::MAX,
            agent in "[ -~]{0,50}",
            rest in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let text = format!("CONNECT {host}:{port} HTTP/1.1\r\nUser-Agent: {agent}\r\n\r\n");
            for cut in 0..text.len() {
                prop_assert_eq!(head(&text.as_bytes()[..cut]), Ok(None), "cut at {}", cut);
            }
            let whole = head(text.as_bytes());
            let value = Target::new(&host, port).expect("a good name");
            prop_assert_eq!(&whole, &Ok(Some(Found { value, len: text.len() })));
            prop_assert_eq!(&head(&[text.as_bytes(), &rest].concat()), &whole);
        }

        #[test]
        fn any_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(Some(found)) = head(&bytes) {
                prop_assert!(found.len <= bytes.len());
            }
        }
    }
}
