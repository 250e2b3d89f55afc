//! What the server behind an origin answers: a response's head, and its body for its length.

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_RANGE, HeaderMap, HeaderName, HeaderValue};
use tandem_split::cut::{End, Extent};

use super::HOST;
use crate::origin::content_range;
use crate::origin::locations::{Own, secure};
use crate::origin::response::{Framing, framing, head, is_public};

/// The most headers of a response, and room for those that are added.
const MAX_HEADERS: usize = 100;
const MAX_WRITTEN: usize = MAX_HEADERS + 2;

/// The headers that lead somewhere.
const LEADING: [&str; 4] = ["location", "content-location", "refresh", "link"];

/// A server's bytes: no header leads to the site by HTTP, and all that does not stays; what is
/// public says nothing else anywhere; the part of a file is the one that is named, and as long as
/// the body; what is written has one end.
///
/// # Panics
/// One of these does not hold.
pub fn origin_response(data: &[u8]) {
    let mut fields = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Response::new(&mut fields);
    let Ok(httparse::Status::Complete(len)) = parsed.parse(data) else {
        return;
    };
    let Some(Ok(status)) = parsed.code.map(StatusCode::from_u16) else {
        return;
    };
    let mut headers = HeaderMap::new();
    for field in &*parsed.headers {
        let name = HeaderName::from_bytes(field.name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(field.value)) {
            headers.append(name, value);
        }
    }
    let body_len = (data.len() - len) as u64;
    for (host, port) in [(HOST, None), (HOST, Some(8443)), ("2001:db8::1", None)] {
        check_locations(&headers, Own { host, port });
    }
    check_public(&headers);
    check_extent(status, &headers, body_len);
    for keeps in [true, false] {
        check_head(status, &headers, Some(body_len), keeps);
        check_head(status, &headers, None, keeps);
    }
}

fn check_locations(before: &HeaderMap, own: Own<'_>) {
    let mut after = before.clone();
    let count = secure(&mut after, own);
    let mut again = after.clone();
    assert_eq!(secure(&mut again, own), 0, "{after:?}");
    assert_eq!(again, after);

    assert_eq!(before.len(), after.len());
    let mut changed = 0;
    for ((name, old), (same, new)) in before.iter().zip(&after) {
        assert_eq!(name, same);
        let kind = name.as_str();
        if old != new {
            changed += 1;
            assert!(LEADING.contains(&kind), "{name} has changed");
            let by_https = format!("https://{}", bracketed(own.host));
            let mut parts = new.as_bytes().windows(by_https.len());
            assert!(parts.any(|part| part == by_https.as_bytes()), "{new:?}");
        }
        let line = new.as_bytes().to_ascii_lowercase();
        let leads = match kind {
            "location" | "content-location" => is_plain_http(&line, own.host),
            "refresh" => refreshed(&line).is_some_and(|uri| is_plain_http(uri, own.host)),
            "link" => targets(&line).any(|uri| is_plain_http(uri, own.host)),
            _ => false,
        };
        assert!(!leads, "{name}: {new:?}");
    }
    assert_eq!(changed, count);
}

/// A host as it stands in a URI.
fn bracketed(host: &str) -> String {
    match host.contains(':') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    }
}

/// Whether a URI in lower case begins with `http://HOST` or `http://HOST:DIGITS`, and the host ends
/// there.
fn is_plain_http(uri: &[u8], host: &str) -> bool {
    let plain = format!("http://{}", bracketed(host));
    let Some(rest) = uri.strip_prefix(plain.as_bytes()) else {
        return false;
    };
    let port = rest.strip_prefix(b":").unwrap_or(rest);
    let digits = port.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = if port.len() < rest.len() {
        &port[digits..]
    } else {
        rest
    };
    matches!(rest, [] | [b'/' | b'?' | b'#', ..])
}

/// The URI of a Refresh in its plain spelling: `SECONDS; url=URI`.
fn refreshed(line: &[u8]) -> Option<&[u8]> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
    line[digits..].strip_prefix(b"; url=")
}

/// Whatever stands in a Link between a `<` and the next `>`.
fn targets(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let opens = (0..line.len()).filter(|at| line[*at] == b'<');
    opens.filter_map(|at| {
        let target = &line[at + 1..];
        let end = target.iter().position(|byte| *byte == b'>')?;
        Some(&target[..end])
    })
}

fn check_public(headers: &HeaderMap) {
    if is_public(headers) {
        assert!(!headers.contains_key("set-cookie"));
        for line in headers.get_all(CACHE_CONTROL) {
            let line = line.as_bytes().to_ascii_lowercase();
            for word in [&b"private"[..], b"no-store"] {
                assert!(!line.windows(word.len()).any(|part| part == word));
            }
        }
    }
    let lines: Vec<&HeaderValue> = headers.get_all(CACHE_CONTROL).iter().collect();
    for word in ["private", "no-store", "No-Store=1", "public;"] {
        // Behind any line, and as a line of its own.
        let mut more = headers.clone();
        more.append(CACHE_CONTROL, HeaderValue::from_static(word));
        assert!(!is_public(&more), "{more:?}");
        for line in &lines {
            let line = [line.as_bytes(), b", ", word.as_bytes()].concat();
            let mut more = HeaderMap::new();
            more.append(
                CACHE_CONTROL,
                HeaderValue::try_from(line).expect("a value still"),
            );
            assert!(!is_public(&more), "{more:?}");
        }
    }
}

fn check_extent(status: StatusCode, headers: &HeaderMap, body_len: u64) {
    let extent = content_range::extent(status, headers, Some(body_len));
    let without_len = content_range::extent(status, headers, None);
    let of_another_len = content_range::extent(status, headers, Some(body_len + 1));
    if extent != Extent::WHOLE {
        assert_eq!(without_len, extent);
        assert_eq!(of_another_len, Extent::WHOLE);
    }
    if without_len == Extent::WHOLE {
        return;
    }
    assert_eq!(status, StatusCode::PARTIAL_CONTENT);
    let lines: Vec<&HeaderValue> = headers.get_all(CONTENT_RANGE).iter().collect();
    assert_eq!(lines.len(), 1);
    let line = lines[0].to_str().expect("it was read");
    assert!(line.to_ascii_lowercase().starts_with("bytes "));
    // The numbers, wherever they stand.
    let numbers: Vec<u64> = line
        .split(|sign: char| !sign.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect();
    let (first, last, complete) = match *numbers {
        [first, last] => (first, last, None),
        [first, last, complete] => (first, last, Some(complete)),
        _ => panic!("{line} is no part of a file"),
    };
    assert!(first == without_len.first && last >= first);
    let ends_file = complete == Some(last + 1);
    assert_eq!(without_len.end == End::OfFile, ends_file);
    assert!(complete.is_none_or(|complete| complete > last));
    if extent != Extent::WHOLE {
        assert_eq!(last - first + 1, body_len);
    }
}

/// Holds that what is written reads as a head of the same status, whose end is told once.
fn check_head(status: StatusCode, headers: &HeaderMap, len: Option<u64>, keeps: bool) {
    let Ok(framing) = framing("GET", true, status, len) else {
        assert!(status.is_informational());
        return;
    };
    let written = head(status, headers, framing, keeps);
    let mut fields = [httparse::EMPTY_HEADER; MAX_WRITTEN];
    let mut parsed = httparse::Response::new(&mut fields);
    let read = parsed.parse(&written);
    assert_eq!(read, Ok(httparse::Status::Complete(written.len())));
    assert_eq!(parsed.code, Some(status.as_u16()));
    let all = |name: &'static str| {
        let fields = parsed.headers.iter();
        fields.filter(move |field| field.name.eq_ignore_ascii_case(name))
    };
    let (lengths, codings) = (all("content-length"), all("transfer-encoding"));
    match framing {
        Framing::NoBody(_) => assert_eq!(codings.count(), 0),
        Framing::Length(len) => {
            let said: Vec<&[u8]> = lengths.map(|field| field.value).collect();
            assert_eq!(said, [len.to_string().as_bytes()]);
            assert_eq!(codings.count(), 0);
        }
        Framing::Chunks => assert_eq!((lengths.count(), codings.count()), (0, 1)),
    }
    assert_eq!(all("connection").count(), usize::from(!keeps));
}
