//! A client's request, and what of it may reach the server behind the origin.
//!
//! Is not: a server of files, nor a cache. Responses are judged in [`super::response`].
//!
//! Invariants: no header passes that is not known to be harmless ([`passes`]); a request for
//! another host is answered 421 and one whose end two programs could see at different places is
//! answered 400, so that no request hides in another (RFC 9112, 6.3 and 11.2).

use std::fmt::Write as _;

use httparse::{EMPTY_HEADER, Status};
use tandem_daemon::passing::passes;

/// The most bytes of a request's head.
pub(super) const MAX_HEAD: usize = 32 << 10;
const MAX_HEADERS: usize = 100;

/// How the end of a request's body is told (RFC 9112, 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    /// There is no body.
    None,
    /// This many bytes.
    Length(u64),
    /// Chunks.
    Chunks,
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    /// The path and query.
    pub(super) target: String,
    /// The port at which the client has asked, where it is not that of HTTPS.
    pub(super) port: Option<u16>,
    /// Those that pass.
    pub(super) headers: Vec<(String, Vec<u8>)>,
    pub(super) body: Coding,
    /// Whether another request may follow.
    pub(super) keeps: bool,
    pub(super) awaits_continue: bool,
    /// Whether the client knows chunks.
    pub(super) knows_chunks: bool,
}

/// A request that is not passed on: its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) reason: &'static str,
    pub(super) text: &'static str,
}

impl Refusal {
    pub(super) const MALFORMED: Self =
        Self::new(400, "Bad Request", "this is not a request of HTTP/1.1");
    pub(super) const PRIVATE: Self = Self::new(
        403,
        "Forbidden",
        "the server gave an answer that is meant for one client alone; only public content is served here",
    );
    pub(super) const METHOD: Self =
        Self::new(405, "Method Not Allowed", "this method is not served here");
    pub(super) const SLOW: Self =
        Self::new(408, "Request Timeout", "the request's body does not come");
    pub(super) const BODY: Self = Self::new(413, "Content Too Large", "the body is too large");
    pub(super) const HOST: Self =
        Self::new(421, "Misdirected Request", "another host is served here");
    pub(super) const HEAD: Self = Self::new(
        431,
        "Request Header Fields Too Large",
        "the head is too large",
    );
    pub(super) const CODING: Self = Self::new(
        501,
        "Not Implemented",
        "a request's body comes here as it is, or in chunks",
    );
    pub(super) const UPGRADE: Self = Self::new(
        501,
        "Not Implemented",
        "WebSocket is not served here: only public content by HTTP/1.1 is",
    );
    pub(super) const UPSTREAM: Self = Self::new(
        502,
        "Bad Gateway",
        "the server behind the origin gave no answer that can be passed on",
    );
    pub(super) const UNREACHABLE: Self = Self::new(
        503,
        "Service Unavailable",
        "the server behind the origin cannot be reached",
    );
    pub(super) const LATE: Self = Self::new(
        504,
        "Gateway Timeout",
        "the server behind the origin does not answer in time",
    );
    pub(super) const VERSION: Self = Self::new(
        505,
        "HTTP Version Not Supported",
        "an answer without a known length needs HTTP/1.1: HTTP/1.0 cannot tell its end from a cut",
    );

    const fn new(status: u16, reason: &'static str, text: &'static str) -> Self {
        Self {
            status,
            reason,
            text,
        }
    }

    /// The whole response, after which the connection ends; to HEAD, without its text.
    pub(super) fn response(&self, method: &str) -> Vec<u8> {
        let mut text = String::new();
        let body = format!("{}\n", self.text);
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "HTTP/1.1 {} {}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.status,
            self.reason,
            body.len()
        );
        if method != "HEAD" {
            text += &body;
        }
        text.into_bytes()
    }
}

/// Whether the end of a head is in there: an empty line. Lines may end in a line feed alone, as for
/// [`parse`].
pub(super) fn ends_head(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|pair| pair == b"\n\n") || bytes.windows(3).any(|end| end == b"\n\r\n")
}

/// Reads the request at the front of `bytes` for the site `host`: it and the length of its head,
/// nothing as long as its head is not whole.
pub(super) fn parse(bytes: &[u8], host: &str) -> Result<Option<(Request, usize)>, Refusal> {
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let len = match parsed.parse(bytes) {
        Ok(Status::Complete(len)) if len <= MAX_HEAD => len,
        Ok(Status::Partial) if bytes.len() <= MAX_HEAD => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(Refusal::HEAD),
        Err(_) => return Err(Refusal::MALFORMED),
    };
    let (Some(method), Some(target), Some(version)) = (parsed.method, parsed.path, parsed.version)
    else {
        return Err(Refusal::MALFORMED);
    };
    if matches!(method, "TRACE" | "CONNECT") {
        return Err(Refusal::METHOD);
    }
    let fields = Fields(parsed.headers);
    let hosts: Vec<&[u8]> = fields.all("host").collect();
    let (authority, target) = split_target(target)?;
    let named = match (authority, hosts.as_slice()) {
        (Some(authority), [_]) => authority.as_bytes(),
        (None, [host]) => host,
        (_, _) => return Err(Refusal::MALFORMED),
    };
    if !is_host(named, host) || !hosts.iter().all(|named| is_host(named, host)) {
        return Err(Refusal::HOST);
    }
    let body = coding(&fields, version)?;
    let connection: Vec<String> = fields
        .all("connection")
        .flat_map(|value| value.split(|byte| *byte == b','))
        .map(|token| String::from_utf8_lossy(token).trim().to_ascii_lowercase())
        .collect();
    let named_by_connection = |name: &str| connection.iter().any(|token| token == name);
    let wants_socket = fields.all("upgrade").any(|value| {
        let mut protocols = value.split(|byte| matches!(byte, b',' | b'/' | b' '));
        protocols.any(|name| name.eq_ignore_ascii_case(b"websocket"))
    });
    // Any other upgrade may be passed over (RFC 9110, 7.8). Whoever asks for this one can do
    // nothing without it.
    if wants_socket && named_by_connection("upgrade") {
        return Err(Refusal::UPGRADE);
    }
    let passing = parsed
        .headers
        .iter()
        .filter(|field| {
            let name = field.name.to_ascii_lowercase();
            name == "host" || (passes(&name) && !named_by_connection(&name))
        })
        .map(|field| (field.name.to_owned(), field.value.to_vec()))
        .collect();
    let request = Request {
        method: method.to_owned(),
        target: target.to_owned(),
        port: port(named),
        headers: passing,
        body,
        keeps: version == 1 && !named_by_connection("close"),
        awaits_continue: version == 1
            && fields
                .all("expect")
                .any(|value| value.eq_ignore_ascii_case(b"100-continue")),
        knows_chunks: version == 1,
    };
    Ok(Some((request, len)))
}

/// The authority of a target in absolute form, and the path (RFC 9112, 3.2).
fn split_target(target: &str) -> Result<(Option<&str>, &str), Refusal> {
    if target.starts_with('/') || target == "*" {
        return Ok((None, target));
    }
    let rest = target
        .strip_prefix("https://")
        .or_else(|| target.strip_prefix("http://"))
        .ok_or(Refusal::MALFORMED)?;
    match rest.find('/') {
        Some(slash) => Ok((Some(&rest[..slash]), &rest[slash..])),
        None => Ok((Some(rest), "/")),
    }
}

struct Fields<'a, 'b>(&'a [httparse::Header<'b>]);

impl<'a> Fields<'a, '_> {
    fn all<'n>(&self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, '_, 'n> {
        self.0
            .iter()
            .filter(move |field| field.name.eq_ignore_ascii_case(name))
            .map(|field| field.value)
    }
}

/// Whether a Host names this host, whatever its port.
fn is_host(value: &[u8], host: &str) -> bool {
    let Ok(value) = std::str::from_utf8(value) else {
        return false;
    };
    let value = value.trim_ascii();
    let (name, port) = match value.strip_prefix('[') {
        // Brackets are for addresses that have colons, and those are never without.
        Some(bracketed) if host.contains(':') => match bracketed.split_once(']') {
            Some(parts) => parts,
            None => return false,
        },
        Some(_) => return false,
        None => value.split_at(value.find(':').unwrap_or(value.len())),
    };
    let is_port = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    name.strip_suffix('.')
        .unwrap_or(name)
        .eq_ignore_ascii_case(host)
        && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

/// The port in a Host, where it is not that of HTTPS.
fn port(value: &[u8]) -> Option<u16> {
    let (_, port) = std::str::from_utf8(value).ok()?.rsplit_once(':')?;
    let port = port.trim_ascii().parse::<u16>().ok()?;
    (!matches!(port, 0 | 443)).then_some(port)
}

/// How the body's end is told. Both ways at once are what hides requests in bodies: refused (RFC
/// 9112, 6.1).
fn coding(fields: &Fields<'_, '_>, version: u8) -> Result<Coding, Refusal> {
    let mut lengths = fields.all("content-length");
    let mut codings = fields.all("transfer-encoding");
    match (lengths.next(), codings.next()) {
        (None, None) => Ok(Coding::None),
        (Some(length), None) if lengths.next().is_none() => content_length(length),
        (None, Some(coding)) if codings.next().is_none() && version == 1 => {
            if coding.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                Ok(Coding::Chunks)
            } else {
                Err(Refusal::CODING)
            }
        }
        (_, _) => Err(Refusal::MALFORMED),
    }
}

fn content_length(value: &[u8]) -> Result<Coding, Refusal> {
    let digits = value.trim_ascii();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Refusal::MALFORMED);
    }
    std::str::from_utf8(digits)
        .ok()
        .and_then(|digits| digits.parse().ok())
        .map(Coding::Length)
        .ok_or(Refusal::BODY)
}

/// How far the head that is awaited has been looked at. However many pieces it comes in, its bytes
/// are parsed a few times over: when it may be whole, and when there is twice as much as before.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    /// Bytes in which its end was looked for.
    seen: usize,
    /// Bytes that were parsed last.
    parsed: usize,
}

impl Awaited {
    /// Parses the request that begins what has come, where that can tell more than before. Empty
    /// lines before it (RFC 9112, 2.2) are taken out.
    pub(super) fn parse(
        &mut self,
        received: &mut Vec<u8>,
        host: &str,
    ) -> Result<Option<(Request, usize)>, Refusal> {
        if !self.is_due(received) {
            return Ok(None);
        }
        let parsed = parse(received, host);
        if !matches!(parsed, Ok(None)) {
            *self = Self::default();
        }
        parsed
    }

    fn is_due(&mut self, received: &mut Vec<u8>) -> bool {
        let empty = empty_lines(received);
        if empty > 0 {
            received.drain(..empty);
            *self = Self::default();
        }
        let len = received.len();
        let seen = std::mem::replace(&mut self.seen, len);
        let is_due = len > MAX_HEAD || len >= 2 * self.parsed || has_end(received, seen);
        if is_due {
            self.parsed = len;
        }
        is_due
    }
}

/// How many bytes of empty lines come first.
fn empty_lines(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while let [b'\n', after @ ..] | [b'\r', b'\n', after @ ..] = rest {
        rest = after;
    }
    bytes.len() - rest.len()
}

/// Whether an empty line ends behind the first `seen` bytes.
fn has_end(bytes: &[u8], seen: usize) -> bool {
    // It may have begun before.
    let rest = bytes.get(seen.saturating_sub(2)..).unwrap_or_default();
    let two = rest.windows(2).any(|two| two == b"\n\n");
    two || rest.windows(3).any(|three| three == b"\n\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Result<Request, Refusal> {
        parse(text.as_bytes(), "split.test").map(|parsed| parsed.expect("it is whole").0)
    }

    #[test]
    fn what_tells_clients_apart_does_not_pass() {
        let request = request(
            "GET /a?b HTTP/1.1\r\nHost: split.test:8443\r\nCookie: id=1\r\nAuthorization: Basic x\r\nAccept: */*\r\n\
             Connection: keep-alive, X-Mine, host\r\nX-Mine: 1\r\nUpgrade: h2c\r\nRange: bytes=1-\r\n\
             X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: a\r\nForwarded: for=127.0.0.1\r\nX-Real-IP: 127.0.0.1\r\nProxy: a\r\n\
             X_Forwarded_For: 127.0.0.1\r\nCONTENT_LENGTH: 3\r\nClient-IP: 127.0.0.1\r\nTrue-Client-IP: 127.0.0.1\r\n\
             CF-Connecting-IP: 127.0.0.1\r\nX-Client-IP: 127.0.0.1\r\nX-Cluster-Client-IP: 127.0.0.1\r\nVia: 1.1 a\r\n\
             X-Api-Key: 1\r\nX-Remote-User: root\r\nX-Unheard-Of: 1\r\n\r\n",
        )
        .expect("a good one");
        let names: Vec<&str> = request
            .headers
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(names, ["Host", "Accept", "Range"]);
        assert_eq!(
            (request.method.as_str(), request.target.as_str()),
            ("GET", "/a?b")
        );
        assert!(request.keeps && request.knows_chunks && !request.awaits_continue);
    }

    #[test]
    fn what_may_not_pass_is_refused_with_its_status() {
        for (text, refusal) in [
            (
                "TRACE / HTTP/1.1\r\nHost: split.test\r\n\r\n",
                Refusal::METHOD,
            ),
            (
                "CONNECT a:1 HTTP/1.1\r\nHost: split.test\r\n\r\n",
                Refusal::METHOD,
            ),
            ("GET / HTTP/1.1\r\nHost: other.test\r\n\r\n", Refusal::HOST),
            (
                "GET https://other.test/ HTTP/1.1\r\nHost: split.test\r\n\r\n",
                Refusal::HOST,
            ),
            (
                "GET https://split.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n",
                Refusal::HOST,
            ),
            ("GET / HTTP/1.1\r\n\r\n", Refusal::MALFORMED),
            (
                "GET / HTTP/1.1\r\nHost: split.test\r\nHost: split.test\r\n\r\n",
                Refusal::MALFORMED,
            ),
            (
                "GET relative HTTP/1.1\r\nHost: split.test\r\n\r\n",
                Refusal::MALFORMED,
            ),
            ("nonsense\r\n\r\n", Refusal::MALFORMED),
            (
                "POST / HTTP/1.1\r\nHost: split.test\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
                Refusal::MALFORMED,
            ),
            (
                "POST / HTTP/1.1\r\nHost: split.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
                Refusal::MALFORMED,
            ),
            (
                "POST / HTTP/1.0\r\nHost: split.test\r\nTransfer-Encoding: chunked\r\n\r\n",
                Refusal::MALFORMED,
            ),
            (
                "POST / HTTP/1.1\r\nHost: split.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
                Refusal::CODING,
            ),
            (
                "GET / HTTP/1.1\r\nHost: split.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n",
                Refusal::UPGRADE,
            ),
            (
                "POST / HTTP/1.1\r\nHost: split.test\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
                Refusal::MALFORMED,
            ),
            (
                "POST / HTTP/1.1\r\nHost: split.test\r\nContent-Length: +3\r\n\r\n",
                Refusal::MALFORMED,
            ),
            (
                "POST / HTTP/1.1\r\nHost: split.test\r\nContent-Length: 99999999999999999999\r\n\r\n",
                Refusal::BODY,
            ),
        ] {
            assert_eq!(request(text), Err(refusal), "{text:?}");
        }
        let long = format!(
            "GET / HTTP/1.1\r\nHost: split.test\r\nX: {}",
            "x".repeat(MAX_HEAD)
        );
        assert_eq!(parse(long.as_bytes(), "split.test"), Err(Refusal::HEAD));
    }

    #[test]
    fn a_host_is_the_sites_name_with_a_port_at_most() {
        for (value, host, is) in [
            ("split.test", "split.test", true),
            ("SPLIT.test.:8443", "split.test", true),
            ("split.test:", "split.test", true),
            ("split.test..", "split.test", false),
            ("[split.test]", "split.test", false),
            ("[split.test]evil.example", "split.test", false),
            ("split.test:x@intranet", "split.test", false),
            ("split.test:80:80", "split.test", false),
            ("user@split.test", "split.test", false),
            ("", "split.test", false),
            ("127.0.0.1:80", "127.0.0.1", true),
            ("[::1]:443", "::1", true),
            ("[::1]", "::1", true),
            ("[::1]evil.example", "::1", false),
            ("[::1", "::1", false),
            ("::1", "::1", false),
        ] {
            assert_eq!(is_host(value.as_bytes(), host), is, "{value:?}");
        }
    }

    #[test]
    fn a_head_ends_where_it_is_read_as_whole() {
        for end in ["\r\n\r\n", "\n\n", "\n\r\n", "\r\n\n"] {
            let text = format!("GET / HTTP/1.1\r\nHost: split.test{end}");
            let (whole, part) = (text.as_bytes(), &text.as_bytes()[..text.len() - 1]);
            assert!(ends_head(whole) && !ends_head(part), "{end:?}");
            assert!(matches!(parse(whole, "split.test"), Ok(Some(_))), "{end:?}");
            assert!(matches!(parse(part, "split.test"), Ok(None)), "{end:?}");
        }
    }

    #[test]
    fn the_port_of_the_site_is_the_one_that_the_client_has_asked_at() {
        for (target, host, port) in [
            ("/", "split.test", None),
            ("/", "split.test:", None),
            ("/", "split.test:443", None),
            ("/", "SPLIT.test.:8443 ", Some(8443)),
            ("/", "split.test:0", None),
            ("/", "split.test:65536", None),
            ("https://split.test:8443/", "split.test", Some(8443)),
            ("https://split.test/", "split.test:8443", None),
        ] {
            let text = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let request = request(&text).expect("a good one");
            assert_eq!(request.port, port, "{target} {host}");
        }
    }

    #[test]
    fn a_body_has_a_length_or_comes_in_chunks() {
        for (field, expected) in [
            ("", Coding::None),
            ("Content-Length: 0\r\n", Coding::Length(0)),
            (
                "Content-Length: 99999999999\r\n",
                Coding::Length(99_999_999_999),
            ),
            ("Transfer-Encoding: Chunked\r\n", Coding::Chunks),
        ] {
            let text = format!("POST / HTTP/1.1\r\nHost: split.test\r\n{field}\r\n");
            let request = request(&text).expect("a good one");
            assert_eq!(request.body, expected, "{field:?}");
            assert!(request.headers.iter().all(|(name, _)| name == "Host"));
        }
    }

    #[test]
    fn a_head_is_waited_for_and_one_of_http_1_0_ends_the_connection() {
        assert_eq!(parse(b"GET / HTTP/1.1\r\nHost: sp", "split.test"), Ok(None));
        let old = request("GET / HTTP/1.0\r\nHost: SPLIT.test.\r\n\r\n").expect("a good one");
        assert!(!old.keeps && !old.knows_chunks);
    }

    /// What becomes of these bytes in pieces of this size, and how many are parsed for that.
    fn in_pieces(text: &[u8], size: usize) -> (Result<bool, Refusal>, usize) {
        let (mut awaited, mut received, mut work) = (Awaited::default(), Vec::new(), 0);
        for piece in text.chunks(size) {
            received.extend_from_slice(piece);
            if !awaited.is_due(&mut received) {
                continue;
            }
            work += received.len();
            match parse(&received, "split.test") {
                Ok(None) => {}
                Ok(Some(_)) => return (Ok(true), work),
                Err(refusal) => return (Err(refusal), work),
            }
        }
        (Ok(false), work)
    }

    #[test]
    fn a_head_in_many_pieces_is_parsed_a_few_times_over() {
        let start = "GET / HTTP/1.1\r\nHost: split.test\r\n";
        let long = format!("{start}X: {}", "x".repeat(MAX_HEAD));
        let lines = format!("{start}{}", "x: y\r\n".repeat(64));
        let wide = format!("{start}X: {}\r\n\r\n", "x".repeat(MAX_HEAD / 2));
        for (text, outcome) in [
            (long.as_str(), Err(Refusal::HEAD)),
            (&wide, Ok(true)),
            (&lines, Ok(false)),
            (&"\r\n".repeat(MAX_HEAD), Ok(false)),
            (&"\n".repeat(MAX_HEAD), Ok(false)),
        ] {
            let (came, work) = in_pieces(text.as_bytes(), 1);
            assert_eq!(came, outcome, "{text:.40?}");
            assert!(work <= 4 * text.len(), "{work} of {}", text.len());
        }
    }

    #[test]
    fn a_head_is_what_it_is_in_any_pieces() {
        for text in [
            "GET / HTTP/1.1\r\nHost: split.test\r\n\r\n",
            "\r\n\n\r\nGET / HTTP/1.1\r\nHost: split.test\r\n\r\n",
            "GET / HTTP/1.1\nHost: split.test\n\n",
            "GET / HTTP/1.1\nHost: split.test\n\r\n",
            "GET / HTTP/1.1\r\nHost: other.test\r\n\r\n",
            "GET /\r\nHost: split.test\r\n\r\n",
            "\rGET / HTTP/1.1\r\nHost: split.test\r\n\r\n",
            "nonsense\r\n\r\n",
        ] {
            let whole = in_pieces(text.as_bytes(), text.len()).0;
            assert_ne!(whole, Ok(false), "{text:?}");
            for size in 1..text.len() {
                assert_eq!(in_pieces(text.as_bytes(), size).0, whole, "{text:?} {size}");
            }
        }
    }
}
