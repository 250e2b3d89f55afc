//! A cache: bodies of responses that it holds do not cross between it and the server again.
//!
//! Reads the heads of requests, writes the heads and bodies of responses, and what is offered to
//! the server ([`crate::offers`], `docs/adr/0034-cache.md`). It answers nothing by itself: each
//! request reaches the server, which says whether a body that is held is still the right one.
//!
//! Is not: a cache of heads; able to serve without its server. Invariants: what must not be kept is
//! not (RFC 9111, section 3, and `private` and `no-store` wherever they stand); a body is offered
//! for the page, the server and the headers (`Vary`) that it came for, and is filled in only where
//! the server names its digest.

use std::collections::VecDeque;
use std::sync::Arc;

use mctls::config::{Configuration, Right};
use mctls::party::{Direction, Position};

use crate::boxes::held::{Body, Held, Page, Room, Vary};
use crate::error::McError;
use crate::http::{Head, Side};
use crate::layout::{FOUR, Kind, OFFERS};
use crate::offers::{self, CODING, MAX_OFFERS, PIECE_LEN, REPR_DIGEST, reference_len};
use crate::service::{Decision, HttpService, OverHttp, Piece};
use crate::settings::BoxSettings;

/// How much it holds, unless its settings say otherwise: 64 MiB.
const MEMORY: usize = 64 << 20;
/// The longest body that it keeps, unless its settings say otherwise: 8 MiB.
const MAX_BODY: usize = 8 << 20;
/// Most requests of a session without an answer.
const MAX_ASKED: usize = 32;
/// Most headers that a response may depend on.
const MAX_VARY: usize = 16;
/// Who a response's `Cache-Status` names (RFC 9211).
pub(crate) const STATUS: &str = "tandem-mc; fwd=stale; detail=filled";

/// What all sessions share.
#[derive(Debug)]
pub(crate) struct Shared {
    held: Arc<Held>,
    max_body: usize,
}

impl Shared {
    pub(crate) fn of(settings: &BoxSettings) -> Result<Self, McError> {
        let memory = settings.memory.unwrap_or(MEMORY);
        let max_body = settings.max_body.unwrap_or(MAX_BODY.min(memory));
        if memory == 0 || max_body == 0 || max_body > memory {
            return Err(McError::config(
                "a cache needs `memory` in bytes, and `max-body` no larger than that",
            ));
        }
        Ok(Self {
            held: Arc::new(Held::new(memory)),
            max_body,
        })
    }
}

/// A request whose response has not come.
struct Asked {
    page: Page,
    head: Head,
    offered: Vec<Arc<Body>>,
}

/// A body that is being kept.
struct Keeping {
    page: Page,
    vary: Vary,
    bytes: Vec<u8>,
    room: Room,
}

/// A body that is being filled in.
struct Filling {
    body: Arc<Body>,
    done: usize,
}

/// For one session.
pub(crate) struct Cache {
    shared: Arc<Shared>,
    server: [u8; 32],
    can_offer: bool,
    /// `None`: one whose response is not kept.
    asked: VecDeque<Option<Asked>>,
    keeping: Option<Keeping>,
    filling: Option<Filling>,
}

impl Cache {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            server: [0; 32],
            can_offer: false,
            asked: VecDeque::new(),
            keeping: None,
            filling: None,
        }
    }

    /// One in a session, which holds a body for a request: for the fuzz targets.
    pub(crate) fn with(request: &str, body: &[u8]) -> OverHttp<Self> {
        let held = Arc::new(Held::new(1 << 16));
        let max_body = 1 << 10;
        let shared = Arc::new(Shared { held, max_body });
        let mut over = OverHttp::new(Self::new(Arc::clone(&shared)), Kind::Cache.needs());
        over.service_mut().can_offer = true;
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        for (direction, purpose, data) in [
            (Direction::ToServer, FOUR[0], request.as_bytes()),
            (Direction::ToClient, FOUR[2], answer.as_bytes()),
            (Direction::ToClient, FOUR[3], body),
        ] {
            // Nothing of it is changed, nor blocked.
            let _ = over.pass(direction, purpose, data);
        }
        over
    }

    fn request(&self, head: &Head) -> Option<Asked> {
        let mut hosts = head.values("host");
        let host = std::str::from_utf8(hosts.next()?).ok()?;
        let is_whole = head.method() == Some("GET") && head.values("range").next().is_none();
        if !is_whole || hosts.next().is_some() || says(head, &["no-store"]) {
            return None;
        }
        Some(Asked {
            page: Page {
                server: self.server,
                host: host.to_ascii_lowercase(),
                target: head.target()?.to_owned(),
            },
            head: head.clone(),
            offered: Vec::new(),
        })
    }

    fn response(&mut self, head: &mut Head, asked: Asked) -> Decision {
        self.keeping = None;
        self.filling = None;
        if head.text("content-encoding") == Some(CODING) {
            let named = head.text(REPR_DIGEST).unwrap_or_default();
            let mut offered = asked.offered.into_iter();
            // Another cache on the way may have offered it.
            let Some(body) = offered.find(|body| body.digest.to_field() == named) else {
                return Decision::Pass;
            };
            let length = u64::try_from(body.bytes.len()).unwrap_or(u64::MAX);
            let pieces = reference_len(length).to_string();
            if head.text("content-length") != Some(&pieces) {
                return Decision::Block("a reference of another length than its body's");
            }
            self.shared.held.touch(&asked.page, body.digest);
            self.filling = Some(Filling { body, done: 0 });
            head.remove("content-encoding");
            head.remove("content-length");
            *head = head
                .clone()
                .with("Content-Length", length.to_string())
                .with("Cache-Status", STATUS);
            return Decision::Refill;
        }
        let is_short = head.text("content-length").is_none_or(|text| {
            let length = text.parse::<usize>();
            length.is_ok_and(|length| length <= self.shared.max_body)
        });
        if let Some(vary) = kept_for(&asked.head, head).filter(|_| is_short) {
            self.keeping = Some(Keeping {
                page: asked.page,
                vary,
                bytes: Vec::new(),
                room: self.shared.held.room(),
            });
        }
        Decision::Pass
    }
}

/// Whether `Cache-Control` has one of these directives, or cannot be read.
fn says(head: &Head, directives: &[&str]) -> bool {
    head.values("cache-control").any(|value| {
        let Ok(value) = std::str::from_utf8(value) else {
            return true;
        };
        value.split(',').any(|one| {
            let name = one.split('=').next().unwrap_or_default().trim();
            directives
                .iter()
                .any(|wanted| name.eq_ignore_ascii_case(wanted))
        })
    })
}

/// For which requests a response's body may be kept; `None`: for none (RFC 9111, section 3).
fn kept_for(request: &Head, response: &Head) -> Option<Vary> {
    let is_shared = says(response, &["public", "s-maxage", "must-revalidate"]);
    let is_closed = request.values("authorization").next().is_some() && !is_shared;
    let is_whole = response.status() == Some(200)
        && response.has_known_end()
        && response.values("content-range").next().is_none();
    if !is_whole || is_closed || says(response, &["no-store", "private"]) {
        return None;
    }
    let mut vary = Vary::new();
    for line in response.values("vary") {
        for name in std::str::from_utf8(line).ok()?.split(',') {
            let name = name.trim().to_ascii_lowercase();
            if name == "*" || vary.len() == MAX_VARY {
                return None;
            }
            let values = request.values(&name).map(<[u8]>::to_vec).collect();
            vary.push((name, values));
        }
    }
    Some(vary)
}

impl Keeping {
    /// Takes more of the body; `None` where it is too long, or there is no room.
    fn take(&mut self, data: &[u8], max: usize) -> Option<()> {
        let length = self.bytes.len() + data.len();
        if length > max {
            return None;
        }
        let capacity = self.bytes.capacity();
        if length > capacity {
            let wanted = length.max(2 * capacity).min(max);
            self.room.grow(wanted - capacity)?;
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
        self.bytes.extend_from_slice(data);
        Some(())
    }
}

impl HttpService for Cache {
    fn joined(&mut self, position: Position, configuration: &Configuration) {
        self.server = *configuration.terms.server_certificate();
        let mut contexts = configuration.terms.contexts().iter();
        self.can_offer =
            contexts.any(|one| one.purpose == OFFERS && one.right(position) == Right::Write);
    }

    fn head(&mut self, side: Side, head: &mut Head) -> Decision {
        match side {
            Side::Requests if self.asked.len() == MAX_ASKED => {
                Decision::Block("too many requests without an answer")
            }
            Side::Requests => {
                let asked = self.request(head);
                self.asked.push_back(asked);
                Decision::Pass
            }
            // An interim response is not the answer yet.
            Side::Responses if head.status().is_some_and(|status| status < 200) => Decision::Pass,
            Side::Responses => match self.asked.pop_front().flatten() {
                Some(asked) => self.response(head, asked),
                None => Decision::Pass,
            },
        }
    }

    fn offer(&mut self, offered: &[u8]) -> Option<Vec<u8>> {
        let asked = self.asked.back_mut()?.as_mut().filter(|_| self.can_offer)?;
        let fits = |vary: &Vary| {
            let mut names = vary.iter();
            names.all(|(name, values)| asked.head.values(name).eq(values.iter().map(Vec::as_slice)))
        };
        let found = self.shared.held.find(&asked.page, fits);
        // Another cache, nearer to the client, may have offered some.
        let mut digests = offers::read(offered)?;
        let before = digests.len();
        for body in found {
            if digests.len() < MAX_OFFERS && !digests.contains(&body.digest) {
                digests.push(body.digest);
                asked.offered.push(body);
            }
        }
        (digests.len() > before).then(|| offers::write(&digests))
    }

    fn body(&mut self, side: Side, data: &[u8]) -> Decision {
        if side == Side::Responses {
            let max = self.shared.max_body;
            let taken = self.keeping.as_mut().and_then(|one| one.take(data, max));
            if taken.is_none() {
                self.keeping = None;
            }
        }
        Decision::Pass
    }

    fn recode(&mut self, piece: Piece<'_>) -> Vec<u8> {
        let (Piece::Data(data), Some(filling)) = (piece, &mut self.filling) else {
            return Vec::new();
        };
        let rest = &filling.body.bytes[filling.done..];
        let length = data.len().saturating_mul(PIECE_LEN).min(rest.len());
        filling.done += length;
        rest[..length].to_vec()
    }

    fn end(&mut self, side: Side) {
        if side == Side::Responses {
            self.filling = None;
            if let Some(done) = self.keeping.take() {
                self.shared
                    .held
                    .keep(done.page, done.vary, done.bytes, done.room);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mctls::party::Direction::{ToClient, ToServer};

    use super::*;
    use crate::offers::{Digest, NOTHING};

    const PAGE: &str = "GET /a HTTP/1.1\r\nHost: a.example\r\n";

    fn shared() -> Arc<Shared> {
        let settings = BoxSettings {
            memory: Some(1 << 20),
            max_body: Some(300_000),
            ..BoxSettings::default()
        };
        Arc::new(Shared::of(&settings).expect("good settings"))
    }

    fn session(shared: &Arc<Shared>, server: u8) -> OverHttp<Cache> {
        let mut cache = Cache::new(Arc::clone(shared));
        cache.server = [server; 32];
        cache.can_offer = true;
        OverHttp::new(cache, Kind::Cache.needs())
    }

    /// What the cache offers for a request.
    fn offered(over: &mut OverHttp<Cache>, request: &str) -> Vec<Digest> {
        let head = format!("{request}\r\n");
        let passed = over.pass(ToServer, FOUR[0], head.as_bytes());
        assert_eq!(passed, Ok(None), "requests are only read");
        let offer = over.pass(ToServer, OFFERS, NOTHING).expect("an offer");
        offers::read(&offer.unwrap_or_default()).expect("an offer")
    }

    /// What comes out behind the cache, head and body.
    fn answered(over: &mut OverHttp<Cache>, head: &str, body: &[u8]) -> (String, Vec<u8>) {
        let head = format!("{head}\r\n");
        let passed = over.pass(ToClient, FOUR[2], head.as_bytes());
        let head = passed.expect("a head").unwrap_or(head.into_bytes());
        let mut out = Vec::new();
        for piece in body.chunks(10_000) {
            let passed = over.pass(ToClient, FOUR[3], piece).expect("a body");
            out.extend(passed.unwrap_or_else(|| piece.to_vec()));
        }
        (String::from_utf8(head).expect("text"), out)
    }

    fn whole(length: usize, more: &str) -> String {
        format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{more}")
    }

    fn reference(digest: Digest, pieces: u64) -> String {
        let digest = digest.to_field();
        whole(
            usize::try_from(pieces).expect("short"),
            &format!("Content-Encoding: mc-ref\r\nRepr-Digest: {digest}\r\nX: new\r\n"),
        )
    }

    /// Whether it is offered again, after a request and its answer.
    fn is_kept(request: &str, answer: &str, again: &str) -> bool {
        let shared = shared();
        let mut over = session(&shared, 1);
        offered(&mut over, request);
        answered(&mut over, answer, b"body");
        !offered(&mut session(&shared, 1), again).is_empty()
    }

    #[test]
    fn a_body_is_offered_again_and_filled_in_where_the_server_refers_to_it() {
        let shared = shared();
        let body: Vec<u8> = (0..250_000_u32)
            .flat_map(|n| n.to_le_bytes())
            .take(250_000)
            .collect();
        let mut first = session(&shared, 1);
        assert_eq!(offered(&mut first, PAGE), []);
        answered(&mut first, &whole(body.len(), ""), &body);
        for _ in 0..2 {
            let mut again = session(&shared, 1);
            let digest = Digest::of(&body);
            assert_eq!(offered(&mut again, PAGE), [digest]);
            let head = again.pass(
                ToClient,
                FOUR[2],
                format!("{}\r\n", reference(digest, 3)).as_bytes(),
            );
            let head = String::from_utf8(head.expect("good").expect("changed")).expect("text");
            assert!(head.contains("Content-Length: 250000\r\n"), "{head}");
            assert!(head.contains("X: new"), "the head is the server's: {head}");
            assert!(!head.contains("mc-ref"), "{head}");
            let mut out = Vec::new();
            for _ in 0..3 {
                let piece = again
                    .pass(ToClient, FOUR[3], b"=")
                    .expect("good")
                    .expect("filled");
                assert!(piece.len() <= PIECE_LEN);
                out.extend(piece);
            }
            assert_eq!(out, body);
        }
    }

    #[test]
    fn what_must_not_be_kept_is_not() {
        assert!(is_kept(PAGE, &whole(4, ""), PAGE));
        assert!(is_kept(
            PAGE,
            &whole(4, "Cache-Control: max-age=0\r\n"),
            PAGE
        ));
        for more in [
            "Cache-Control: no-store\r\n",
            "Cache-Control: max-age=60, Private\r\n",
            "Cache-Control: private=\"Set-Cookie, X\"\r\n",
            "Vary: *\r\n",
            "Vary: accept, *\r\n",
        ] {
            assert!(!is_kept(PAGE, &whole(4, more), PAGE), "{more}");
        }
        for head in [
            "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n",
            "HTTP/1.1 206 Partial Content\r\nContent-Length: 4\r\n",
            // Nobody sees its end.
            "HTTP/1.1 200 OK\r\n",
        ] {
            assert!(!is_kept(PAGE, head, PAGE), "{head}");
        }
        for more in ["Cache-Control: no-store\r\n", "Range: bytes=0-3\r\n"] {
            assert!(
                !is_kept(&format!("{PAGE}{more}"), &whole(4, ""), PAGE),
                "{more}"
            );
        }
        let secret = format!("{PAGE}Authorization: Basic eA==\r\n");
        assert!(!is_kept(&secret, &whole(4, ""), &secret));
        assert!(is_kept(
            &secret,
            &whole(4, "Cache-Control: public\r\n"),
            &secret
        ));
    }

    #[test]
    fn a_body_is_offered_only_for_what_it_came_for() {
        let german = format!("{PAGE}Accept-Language: de\r\n");
        let vary = whole(4, "Vary: accept-language\r\n");
        assert!(is_kept(&german, &vary, &german));
        assert!(!is_kept(&german, &vary, PAGE));
        assert!(!is_kept(PAGE, &whole(4, ""), &PAGE.replace("/a", "/b")));
        assert!(!is_kept(
            PAGE,
            &whole(4, ""),
            &PAGE.replace("a.example", "b.example")
        ));
        let shared = shared();
        let mut over = session(&shared, 1);
        offered(&mut over, PAGE);
        answered(&mut over, &whole(4, ""), b"body");
        assert_eq!(
            offered(&mut session(&shared, 2), PAGE),
            [],
            "another server"
        );
    }

    #[test]
    fn what_is_too_long_or_cut_short_is_not_kept_and_costs_nothing() {
        let shared = shared();
        let mut over = session(&shared, 1);
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n";
        for (head, body) in [
            (whole(300_001, ""), vec![b'a'; 300_001]),
            (
                chunked.to_owned(),
                [&b"493e1\r\n"[..], &[b'a'; 300_001], b"\r\n0\r\n\r\n"].concat(),
            ),
        ] {
            offered(&mut over, PAGE);
            answered(&mut over, &head, &body);
            assert_eq!(shared.held.used(), 0, "{head}");
        }
        offered(&mut over, PAGE);
        answered(&mut over, &whole(10, ""), b"cut");
        assert!(shared.held.used() > 0);
        drop(over);
        assert_eq!(shared.held.used(), 0);
    }

    #[test]
    fn a_reference_to_what_was_not_offered_passes_and_a_wrong_one_is_blocked() {
        let shared = shared();
        let mut over = session(&shared, 1);
        offered(&mut over, PAGE);
        answered(&mut over, &whole(4, ""), b"body");
        offered(&mut over, PAGE);
        let other = reference(Digest::of(b"other"), 1);
        let (head, body) = answered(&mut over, &other, b"=");
        assert_eq!((head, body), (format!("{other}\r\n"), b"=".to_vec()));
        offered(&mut over, PAGE);
        let long = format!("{}\r\n", reference(Digest::of(b"body"), 2));
        assert!(over.pass(ToClient, FOUR[2], long.as_bytes()).is_err());
    }

    #[test]
    fn two_caches_offer_together() {
        let shared = shared();
        let mut over = session(&shared, 1);
        offered(&mut over, PAGE);
        answered(&mut over, &whole(4, ""), b"body");
        let head = format!("{PAGE}\r\n");
        assert_eq!(over.pass(ToServer, FOUR[0], head.as_bytes()), Ok(None));
        let nearer = offers::write(&[Digest::of(b"nearer")]);
        let both = over
            .pass(ToServer, OFFERS, &nearer)
            .expect("good")
            .expect("changed");
        assert_eq!(
            offers::read(&both),
            Some(vec![Digest::of(b"nearer"), Digest::of(b"body")])
        );
    }
}
