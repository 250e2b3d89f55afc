//! What must hold for any bytes, called by the fuzz targets in `fuzz/` and by the replay of their
//! corpora.
//!
//! Not part of the public interface. A function returns where all is well and panics where an
//! invariant is broken.

#[cfg(feature = "dns")]
mod discovery;

use mctls::config::Right;
use mctls::party::Direction;

use crate::boxes::cache::{Cache, STATUS};
use crate::http::{Event, Head, Messages, Part, Reader, Side, Wrong};
use crate::icap::reply::{self, Asked, Follows, Replies, Said};
use crate::layout::{ALL, FOUR, OFFERS};
use crate::offers::{self, NOTHING, Statement};
use crate::report::Seen;
use crate::service::{Decision, HttpService, OverHttp, Piece};

#[cfg(feature = "dns")]
pub use discovery::mc_discovery;

/// A function that checks the invariants of a parser on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 3 + cfg!(feature = "dns") as usize] = [
    ("mc_http", mc_http),
    ("mc_cache", mc_cache),
    #[cfg(feature = "dns")]
    ("mc_discovery", mc_discovery),
    ("icap_reply", icap_reply),
];

/// What an ICAP server says is read the same however it is cut; a message is announced before its
/// body and ends once, and nothing comes behind its end; of a head that was read, another can be
/// made and read again.
///
/// # Panics
/// That does not hold.
pub fn icap_reply(data: &[u8]) {
    let Some((&first, text)) = data.split_first() else {
        return;
    };
    let asked = match first & 1 {
        0 => Asked::Message,
        _ => Asked::Options,
    };
    let (whole, wrong) = said(asked, text, text.len().max(1));
    let (pieces, of_pieces) = said(asked, text, usize::from(first >> 1) + 1);
    assert_eq!(wrong, of_pieces, "the cut decides what is wrong");
    if wrong.is_none() {
        assert_eq!(
            joined(&whole),
            joined(&pieces),
            "the cut decides what is said"
        );
    }
    let mut is_over = false;
    let mut has_body = false;
    for one in &whole {
        assert!(!is_over, "something is said behind the end");
        match one {
            Said::Message { head, body, .. } => {
                has_body = *body == Follows::Body;
                let again = Head::parse(&head.to_bytes(), side_of(head));
                assert_eq!(again.as_ref(), Ok(head), "a head is written otherwise");
            }
            Said::Body(_) => assert!(has_body, "a body that was not announced"),
            Said::End | Said::Unchanged | Said::Options(_) => is_over = true,
            Said::Continue => {}
        }
    }
}

fn side_of(head: &Head) -> Side {
    match head.status() {
        Some(_) => Side::Responses,
        None => Side::Requests,
    }
}

fn said(asked: Asked, text: &[u8], size: usize) -> (Vec<Said>, Option<reply::Wrong>) {
    let mut replies = Replies::new(asked);
    let mut all = Vec::new();
    for piece in text.chunks(size) {
        match replies.push(piece) {
            Ok(said) => all.extend(said),
            Err(wrong) => return (all, Some(wrong)),
        }
    }
    (all, None)
}

/// The same with bodies in one piece.
fn joined(said: &[Said]) -> (Vec<&Said>, Vec<u8>) {
    let is_body = |one: &&Said| matches!(one, Said::Body(_));
    let bodies = said.iter().filter_map(|one| match one {
        Said::Body(data) => Some(data.as_slice()),
        _ => None,
    });
    let rest = said.iter().filter(|one| !is_body(one)).collect();
    (rest, bodies.collect::<Vec<_>>().concat())
}

/// A stream is read the same however it is cut, into its very bytes; a head that was read is read
/// again as it is written; a service that changes everything makes what can be read again.
///
/// # Panics
/// That does not hold.
pub fn mc_http(data: &[u8]) {
    let Some((&first, text)) = data.split_first() else {
        return;
    };
    let side = match first & 1 {
        0 => Side::Requests,
        _ => Side::Responses,
    };
    let size = usize::from(first >> 1) + 1;
    let whole = read(side, text, text.len().max(1));
    let pieces = read(side, text, size);
    assert_eq!(whole.wrong, pieces.wrong, "the cut decides what is wrong");
    if whole.wrong.is_none() {
        assert_eq!(whole.heads, pieces.heads, "the cut decides what heads say");
        assert_eq!(whole.body, pieces.body, "the cut decides what bodies are");
        assert!(text.starts_with(&whole.raw), "other bytes came out");
        for head in &whole.heads {
            let again = read(side, &head.to_bytes(), usize::MAX);
            assert_eq!(
                again.heads.first(),
                Some(head),
                "a head is written otherwise"
            );
        }
    }
    let _ = Seen::of_header(&String::from_utf8_lossy(text));
    changed(side, text, size);
}

#[derive(Debug, Default)]
struct Read {
    heads: Vec<Head>,
    body: Vec<u8>,
    raw: Vec<u8>,
    wrong: Option<Wrong>,
}

fn read(side: Side, text: &[u8], size: usize) -> Read {
    let mut messages = Messages::new(side, Reader::Endpoint);
    let mut all = Read::default();
    for piece in text.chunks(size) {
        let events = match messages.push(Part::Whole, piece) {
            Ok(events) => events,
            Err(wrong) => {
                all.wrong = Some(wrong);
                break;
            }
        };
        for event in events {
            match event {
                Event::Head { head, raw } => {
                    all.raw.extend(raw);
                    all.heads.push(head);
                }
                Event::Framing(bytes) => all.raw.extend(bytes),
                Event::Body(bytes) => {
                    all.raw.extend(&bytes);
                    all.body.extend(bytes);
                }
                Event::End => {}
            }
        }
    }
    all
}

/// Changes each head, and turns each bit of bodies.
struct Everything;

impl HttpService for Everything {
    fn head(&mut self, side: Side, head: &mut Head) -> Decision {
        *head = head.clone().with("X-Changed", "1");
        match side {
            Side::Responses if head.has_known_end() => Decision::Recode,
            Side::Requests | Side::Responses => Decision::Change,
        }
    }

    fn recode(&mut self, piece: Piece<'_>) -> Vec<u8> {
        match piece {
            Piece::Data(data) => data.iter().map(|byte| !byte).collect(),
            Piece::End => Vec::new(),
        }
    }
}

fn changed(side: Side, text: &[u8], size: usize) {
    let direction = match side {
        Side::Requests => Direction::ToServer,
        Side::Responses => Direction::ToClient,
    };
    let mut service = OverHttp::new(Everything, [Right::Write; 4]);
    let mut out = Vec::new();
    let mut taken = Vec::new();
    for piece in text.chunks(size) {
        match service.pass(direction, ALL, piece) {
            Ok(None) => out.extend_from_slice(piece),
            Ok(Some(other)) => out.extend(other),
            Err(_) => return,
        }
        taken.extend_from_slice(piece);
    }
    let (before, after) = (read(side, &taken, usize::MAX), read(side, &out, usize::MAX));
    assert_eq!(after.wrong, None, "what was changed cannot be read");
    assert_eq!(
        before.heads.len(),
        after.heads.len(),
        "heads were lost or made"
    );
    assert_eq!(
        before.body.len(),
        after.body.len(),
        "bodies were lost or made"
    );
}

/// A cache that holds a page lets through whatever comes what can be read again, and fills in
/// nothing but that page; an offer that was read is written as it was.
///
/// # Panics
/// That does not hold.
pub fn mc_cache(data: &[u8]) {
    let Some((&first, text)) = data.split_first() else {
        return;
    };
    if let Some(digests) = offers::read(text).filter(|digests| !digests.is_empty()) {
        assert_eq!(
            offers::write(&digests),
            text,
            "an offer is written otherwise"
        );
    }
    if let Some(statement) = Statement::parse(text) {
        assert_eq!(
            Statement::parse(statement.to_text().as_bytes()),
            Some(statement),
            "a statement is written otherwise"
        );
    }
    let size = usize::from(first) + 1;
    let mut over = Cache::with(PAGE, BODY);
    let asked = over.pass(Direction::ToServer, FOUR[0], PAGE.as_bytes());
    assert_eq!(asked, Ok(None), "a request was changed");
    let offered = over.pass(Direction::ToServer, OFFERS, NOTHING);
    assert!(
        matches!(offered, Ok(Some(_))),
        "what is held is not offered"
    );
    let (mut out, mut taken) = (Vec::new(), Vec::new());
    for piece in text.chunks(size) {
        match over.pass(Direction::ToClient, ALL, piece) {
            Ok(None) => out.extend_from_slice(piece),
            Ok(Some(other)) => out.extend(other),
            Err(_) => return,
        }
        taken.extend_from_slice(piece);
    }
    let side = Side::Responses;
    let (before, after) = (read(side, &taken, usize::MAX), read(side, &out, usize::MAX));
    assert_eq!(after.wrong, None, "what passed a cache cannot be read");
    assert_eq!(before.heads.len(), after.heads.len(), "heads were lost");
    let is_filled = |head: &&Head| head.text("cache-status").is_some_and(|one| one == STATUS);
    if before.heads.iter().any(|head| is_filled(&head)) {
        return;
    }
    match after.heads.iter().filter(is_filled).count() {
        0 => assert_eq!(before.body, after.body, "a body was changed"),
        filled => assert!(filled == 1, "a page was filled in twice"),
    }
}

/// A request, and the body that is held for it.
const PAGE: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const BODY: &[u8] = b"a page that is held";
