//! Which part of its file a response is, by its Content-Range (RFC 9110, 14.4 and 15.3.7).
//!
//! Is not: a judge of it. The client gets the same head and body whatever is understood here; it
//! decides only where the body is cut.
//!
//! Invariant: what is no single part, or does not say clearly where it belongs, is cut as a whole
//! file is.

use hyper::StatusCode;
use hyper::header::{CONTENT_RANGE, CONTENT_TYPE, HeaderMap};
use tandem_split::cut::{End, Extent};

/// The part of its file that a response's body is. `len` is the body's length where it is known.
pub(super) fn extent(status: StatusCode, headers: &HeaderMap, len: Option<u64>) -> Extent {
    if status != StatusCode::PARTIAL_CONTENT || is_multipart(headers) {
        return Extent::WHOLE;
    }
    let mut lines = headers.get_all(CONTENT_RANGE).iter();
    let parsed = match (lines.next(), lines.next()) {
        (Some(line), None) => line.to_str().ok().and_then(|line| parse(line, len)),
        (Some(_), Some(_)) | (None, _) => None,
    };
    parsed.unwrap_or(Extent::WHOLE)
}

/// Several parts of a file in one body, each with a Content-Range of its own.
fn is_multipart(headers: &HeaderMap) -> bool {
    const KIND: &[u8] = b"multipart/byteranges";
    headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.as_bytes().get(..KIND.len()))
        .is_some_and(|kind| kind.eq_ignore_ascii_case(KIND))
}

/// Reads `bytes FIRST-LAST/COMPLETE`, in which COMPLETE may be `*`.
fn parse(line: &str, len: Option<u64>) -> Option<Extent> {
    let (unit, range) = line.split_once(' ')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (ends, complete) = range.split_once('/')?;
    let (first, last) = ends.split_once('-')?;
    let (first, last) = (number(first)?, number(last)?);
    let behind = last.checked_add(1)?;
    let range_len = behind.checked_sub(first).filter(|len| *len > 0)?;
    if len.is_some_and(|len| len != range_len) {
        return None;
    }
    let end = match complete {
        "*" => End::Elsewhere,
        complete => match number(complete)? {
            complete if complete < behind => return None,
            complete if complete == behind => End::OfFile,
            _ => End::Elsewhere,
        },
    };
    Some(Extent { first, end })
}

/// Digits alone: `parse` takes a sign, too.
fn number(text: &str) -> Option<u64> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    is_digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn of(status: u16, lines: &[&'static str], len: Option<u64>) -> Extent {
        let mut headers = HeaderMap::new();
        for &line in lines {
            headers.append(CONTENT_RANGE, HeaderValue::from_static(line));
        }
        let status = StatusCode::from_u16(status).expect("a status");
        extent(status, &headers, len)
    }

    #[test]
    fn a_single_part_is_where_it_says() {
        for (line, len, first, end) in [
            ("bytes 0-9/10", Some(10), 0, End::OfFile),
            ("bytes 0-9/11", Some(10), 0, End::Elsewhere),
            ("bytes 5-9/10", None, 5, End::OfFile),
            ("Bytes 5-8/10", Some(4), 5, End::Elsewhere),
            ("bytes 5-9/*", Some(5), 5, End::Elsewhere),
            ("bytes 007-007/008", Some(1), 7, End::OfFile),
            (
                "bytes 18446744073709551614-18446744073709551614/18446744073709551615",
                Some(1),
                u64::MAX - 1,
                End::OfFile,
            ),
        ] {
            assert_eq!(of(206, &[line], len), Extent { first, end }, "{line}");
        }
    }

    #[test]
    fn what_does_not_say_clearly_where_it_belongs_is_a_whole_file() {
        for line in [
            "",
            "bytes",
            "bytes ",
            "bytes */10",
            "bytes 5-9",
            "bytes 5-9/",
            "bytes 5-/10",
            "bytes -9/10",
            "bytes 9-5/10",
            "bytes 6-5/10",
            "bytes 5-9/9",
            "bytes 5-10/10",
            "bytes +5-9/10",
            "bytes 5-9/+10",
            "bytes 5 - 9/10",
            "bytes  5-9/10",
            "bytes 5-9/10/11",
            "bytes 5-9/10, bytes 5-9/10",
            "bytes=5-9/10",
            "5-9/10",
            "pages 5-9/10",
            "bytes 18446744073709551615-18446744073709551615/*",
            "bytes 5-18446744073709551616/*",
        ] {
            assert_eq!(of(206, &[line], None), Extent::WHOLE, "{line}");
        }
        let line = "bytes 5-9/10";
        assert_eq!(of(206, &[], Some(5)), Extent::WHOLE);
        assert_eq!(of(206, &[line, line], Some(5)), Extent::WHOLE);
        assert_eq!(of(206, &[line], Some(6)), Extent::WHOLE, "another length");
        assert_eq!(of(200, &[line], Some(5)), Extent::WHOLE);
        assert_eq!(of(416, &["bytes */10"], Some(5)), Extent::WHOLE);
    }

    #[test]
    fn several_parts_in_one_body_are_no_part_of_a_file() {
        for (kind, is_whole) in [
            ("multipart/byteranges; boundary=part", true),
            ("Multipart/ByteRanges;boundary=part", true),
            ("multipart", false),
            ("application/octet-stream", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            headers.insert(CONTENT_RANGE, HeaderValue::from_static("bytes 5-9/10"));
            let found = extent(StatusCode::PARTIAL_CONTENT, &headers, None);
            assert_eq!(found == Extent::WHOLE, is_whole, "{kind}");
        }
    }
}
