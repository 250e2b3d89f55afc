//! Compression: responses of text are made shorter with gzip.
//!
//! Writes the heads and bodies of responses, and does not see what was asked for. Whoever grants it
//! that has to take gzip. What is compressed already, is no text, or would gain nothing passes.
//!
//! Is not: a cache. Invariant: it works as data comes; each record that came is on its way.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::http::{Head, Side};
use crate::service::{Decision, HttpService, Piece};

/// Shorter than this, gzip's own bytes would outweigh.
const MIN_LENGTH: u64 = 256;
/// Types that become shorter, with all of `text/`.
const TYPES: [&str; 6] = [
    "application/json",
    "application/javascript",
    "application/xml",
    "application/wasm",
    "application/manifest+json",
    "image/svg+xml",
];

/// For one session.
#[derive(Default)]
pub(crate) struct Compress {
    encoder: Option<GzEncoder<Vec<u8>>>,
}

/// Whether a response becomes shorter, as far as its head tells.
fn is_worth_it(head: &Head) -> bool {
    let whole = head.status() == Some(200) && head.has_known_end();
    let is_plain = head.values("content-encoding").next().is_none()
        && head.values("content-range").next().is_none();
    let fixed = head.text("cache-control").is_some_and(|value| {
        let mut parts = value.split(',');
        parts.any(|part| part.trim().eq_ignore_ascii_case("no-transform"))
    });
    let length = head.text("content-length");
    let is_long =
        length.is_none_or(|text| text.parse().is_ok_and(|length: u64| length >= MIN_LENGTH));
    let kind = head.text("content-type").unwrap_or_default();
    let kind = kind
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let is_text = kind.starts_with("text/") || TYPES.contains(&kind.as_str());
    whole && is_plain && !fixed && is_long && is_text
}

impl HttpService for Compress {
    fn head(&mut self, side: Side, head: &mut Head) -> Decision {
        if side == Side::Requests || !is_worth_it(head) {
            return Decision::Pass;
        }
        self.encoder = Some(GzEncoder::new(Vec::new(), Compression::default()));
        // Of the very bytes (RFC 9110, section 8.8.1); this has others now.
        if let Some(tag) = head.text("etag").filter(|tag| !tag.starts_with("W/")) {
            let weak = format!("W/{tag}");
            head.remove("etag");
            *head = head.clone().with("ETag", weak);
        }
        for name in [
            "content-md5",
            "digest",
            "repr-digest",
            "content-digest",
            "accept-ranges",
        ] {
            head.remove(name);
        }
        *head = head.clone().with("Content-Encoding", "gzip");
        if !head
            .values("vary")
            .any(|value| value.eq_ignore_ascii_case(b"accept-encoding"))
        {
            *head = head.clone().with("Vary", "Accept-Encoding");
        }
        Decision::Recode
    }

    fn recode(&mut self, piece: Piece<'_>) -> Vec<u8> {
        let written = match piece {
            Piece::Data(data) => self.encoder.as_mut().map(|encoder| {
                let flushed = encoder.write_all(data).and_then(|()| encoder.flush());
                flushed.map(|()| std::mem::take(encoder.get_mut()))
            }),
            Piece::End => self.encoder.take().map(GzEncoder::finish),
        };
        // Writing into memory does not fail.
        written.and_then(Result::ok).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn page(kind: &str, length: usize) -> Head {
        Head::response(200, "OK")
            .with("Content-Type", kind)
            .with("Content-Length", length.to_string())
    }

    #[test]
    fn a_page_comes_out_shorter_and_the_same() {
        let text = "the same words again and again, ".repeat(500);
        let mut compress = Compress::default();
        let mut head = page("text/html; charset=utf-8", text.len());
        assert_eq!(compress.head(Side::Responses, &mut head), Decision::Recode);
        assert_eq!(head.text("content-encoding"), Some("gzip"));
        let mut out = Vec::new();
        for piece in text.as_bytes().chunks(1000) {
            let more = compress.recode(Piece::Data(piece));
            assert!(!more.is_empty(), "each piece is on its way");
            out.extend(more);
        }
        out.extend(compress.recode(Piece::End));
        assert!(out.len() < text.len() / 10, "{}", out.len());
        let mut back = String::new();
        let read = flate2::read::GzDecoder::new(out.as_slice()).read_to_string(&mut back);
        assert_eq!((read.ok(), back), (Some(text.len()), text));
    }

    #[test]
    fn what_gains_nothing_or_must_not_be_changed_passes() {
        for mut head in [
            page("image/png", 5000),
            page("text/html", 100),
            page("text/html", 5000).with("Content-Encoding", "br"),
            page("text/html", 5000).with("Cache-Control", "public, no-transform"),
            Head::response(206, "Partial Content").with("Content-Type", "text/html"),
            // It ends with the session, and nobody would see where.
            Head::response(200, "OK").with("Content-Type", "text/html"),
        ] {
            let decision = Compress::default().head(Side::Responses, &mut head);
            assert_eq!(decision, Decision::Pass, "{head:?}");
        }
    }

    #[test]
    fn a_tag_of_the_very_bytes_becomes_a_weak_one() {
        let mut head = page("text/css", 5000).with("ETag", "\"abc\"");
        Compress::default().head(Side::Responses, &mut head);
        assert_eq!(head.text("etag"), Some("W/\"abc\""));
    }
}
