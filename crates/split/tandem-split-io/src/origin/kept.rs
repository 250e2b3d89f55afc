//! Bodies that were answered before, in memory, with the names of their pieces: what the server
//! behind still has is neither fetched nor hashed for its names again.
//!
//! ```text
//!   a GET --> kept? -- yes, with a strong tag --> If-None-Match: "tag" --> 304: the kept body
//!               |                                                      --> 200: the new body
//!               |-- yes, without one -----------> as it came ----------> 200: pieces whose bytes are
//!               `-- no -------------------------> as it came                  the same keep their names
//! ```
//!
//! Is not: a cache that answers by itself. The server is asked for every request, so that nothing
//! is older than its last word, and a rule of freshness is not needed (RFC 9111, 4.2).
//!
//! Invariants: a body stands for another only by a strong entity tag that the server has confirmed
//! (RFC 9110, 8.8.1 and 13.1.2), and names stand only for the very same bytes; a weak tag, a date,
//! or a tag of the second in which the file was changed confirms nothing; only what was public was
//! kept (`response`), whole, as an answer to a plain GET, for requests that agree in Host, in
//! Accept-Encoding and in all that Vary names (RFC 9111, 4.1); bytes and bodies are bounded, and
//! what was asked for once makes no room at the cost of what was asked for again; a client that is
//! slow keeps nothing in memory: the body that it is sent may go at any time, and of those on their
//! way the slowest makes room for the others.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use http_body_util::combinators::UnsyncBoxBody;
use hyper::StatusCode;
use hyper::body::{Body as _, Bytes};
use hyper::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, DATE, ETAG, HeaderMap, HeaderName,
    HeaderValue, LAST_MODIFIED, TRANSFER_ENCODING, VARY,
};
use tandem_daemon::metrics::Number;
use tandem_split::List;
use tokio::sync::watch;
use tokio::time::Instant;

use super::http::{Coding, Request};
use super::upstream::{EndsByClose, Fault, Response};

/// Bytes that are kept unless told otherwise: 128 MiB.
pub(super) const DEFAULT_LIMIT: u64 = 128 << 20;
/// One body has at most this part of them,
const BODY_PART: u64 = 4;
/// and all that were asked for once together, where there is no room for more.
const ONCE_PART: u64 = 4;
/// Bodies that are kept at most.
const MAX_BODIES: usize = 4096;
/// Bodies of one target: another language, another coding. The one that was wanted last is
/// forgotten last.
const MAX_VARIANTS: usize = 8;
/// Beside those that are kept, bodies that are on their way for the first time have at most as much
/// as so many whole ones, all together.
const ON_THEIR_WAY: u64 = 2;
/// Questions whose answer somebody waited for in vain: when there are more, all are forgotten.
const MAX_IN_VAIN: usize = 4096;
/// What a body takes beside its bytes, its headers and what selects it, about: its names.
const OVERHEAD: u64 = 2048;

/// Request headers that make an answer one of a kind, or no whole body.
const CONDITIONS: [&str; 6] = [
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "range",
];
/// What selects an answer whatever Vary says. Some servers have one tag for a file and what it is
/// when compressed, and some permit the origin of a request (CORS) without a word of it in Vary.
const ALWAYS_SELECTING: [&str; 3] = ["accept-encoding", "host", "origin"];
/// What a 304 says of itself, and not of the body (RFC 9111, 3.2).
const NOT_OF_THE_BODY: [HeaderName; 4] = [
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_RANGE,
    TRANSFER_ENCODING,
];

/// What is counted.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    /// Bytes that are kept.
    pub(super) bytes: Number,
    /// Answers with a kept body.
    pub(super) confirmed: Number,
    /// Bytes of bodies whose names were known.
    pub(super) named: Number,
}

/// What a plain GET asks for.
#[derive(Clone, Debug)]
pub(super) struct Question {
    target: String,
    /// In lower case.
    headers: Vec<(String, Vec<u8>)>,
}

impl Question {
    /// Nothing for a request that may not be answered with a kept body.
    pub(super) fn of(request: &Request) -> Option<Self> {
        if request.method != "GET" || request.body != Coding::None {
            return None;
        }
        let headers: Vec<(String, Vec<u8>)> = request
            .headers
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value.clone()))
            .collect();
        let is_plain = |(name, _): &(String, _)| !CONDITIONS.contains(&name.as_str());
        headers.iter().all(is_plain).then(|| Self {
            target: request.target.clone(),
            headers,
        })
    }

    fn common(&self) -> Common {
        let values = ALWAYS_SELECTING.iter().map(|name| {
            let values: Vec<&[u8]> = self.values(name).collect();
            values.join(&b","[..])
        });
        (self.target.clone(), values.collect())
    }

    fn values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.headers
            .iter()
            .filter(move |(named, _)| named == name)
            .map(|(_, value)| value.as_slice())
    }
}

/// Some bytes of a body, and their names.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) bytes: Bytes,
    pub(super) list: Arc<List>,
}

/// What a client is answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// The body's length, where it is known.
    pub(super) len: Option<u64>,
    pub(super) content: Content,
    /// What was asked, where the body may be kept, and what was kept until now.
    asked: Option<(Question, Option<Arc<Body>>)>,
    /// Others may wait for this one, until it has been passed on.
    pub(super) first: Option<First>,
}

/// Where its body is.
#[derive(Debug)]
pub(super) enum Content {
    /// Here, for as long as it is kept.
    Kept(Held),
    /// On its way.
    Coming(UnsyncBoxBody<Bytes, Fault>),
}

impl Answer {
    /// The server's own.
    pub(super) fn coming(
        response: Response,
        question: Option<Question>,
        before: Option<Arc<Body>>,
    ) -> Self {
        let (parts, body) = response.into_parts();
        let is_whole_at_its_end = parts.extensions.get::<EndsByClose>().is_none();
        Self {
            status: parts.status,
            headers: parts.headers,
            len: body.size_hint().exact(),
            content: Content::Coming(body),
            asked: question
                .filter(|_| is_whole_at_its_end)
                .map(|question| (question, before)),
            first: None,
        }
    }

    /// The same, for which others may wait.
    pub(super) fn awaited(self, first: Option<First>) -> Self {
        Self { first, ..self }
    }

    /// A body that a 304 with these headers is about, for this request.
    pub(super) fn kept(body: &Arc<Body>, confirmed: &HeaderMap, request: Request) -> Self {
        Self {
            status: StatusCode::OK,
            headers: body.headers_with(confirmed),
            len: Some(body.len),
            content: Content::Kept(Held {
                body: Arc::downgrade(body),
                len: body.len,
                tag: body.tag.clone(),
                request,
            }),
            asked: None,
            first: None,
        }
    }
}

/// What of a question others may have in common with it before anybody knows the answer.
type Common = (String, Vec<Vec<u8>>);

/// Who asks for something first. Whoever waits for the answer goes on when this is dropped.
#[derive(Debug)]
pub(super) struct First {
    state: Arc<Mutex<State>>,
    common: Common,
    _waited_for: watch::Sender<()>,
}

impl Drop for First {
    fn drop(&mut self) {
        lock(&self.state).asked_first.remove(&self.common);
    }
}

/// Whether somebody asks for the same already.
#[derive(Debug)]
pub(super) enum Asking {
    /// It does not matter: nothing is kept, so that nobody waits.
    Alone,
    /// Nobody does.
    First(First),
    /// Somebody does: to wait for.
    Later(Later),
}

/// An answer that is on its way to somebody else.
#[derive(Debug)]
pub(super) struct Later(watch::Receiver<()>);

impl Later {
    /// Comes to its end when the other has been answered, whatever became of it.
    pub(super) async fn wait(mut self) {
        while self.0.changed().await.is_ok() {}
    }
}

/// A kept body that a client is being sent: its pieces, for as long as they are kept; and what the
/// server has to be asked for the rest afterwards.
#[derive(Debug)]
pub(super) struct Held {
    body: Weak<Body>,
    pub(super) len: u64,
    pub(super) tag: Option<HeaderValue>,
    pub(super) request: Request,
}

impl Held {
    /// The piece with this number, if it is still there.
    pub(super) fn piece(&self, number: usize) -> Option<Arc<Piece>> {
        self.body.upgrade()?.pieces.get(number).cloned()
    }
}

/// A whole body, with the head as the server gave it.
#[derive(Debug)]
pub(super) struct Body {
    headers: HeaderMap,
    /// What a request has to have to get this one: names and values.
    selecting: Vec<(String, Vec<Vec<u8>>)>,
    tag: Option<HeaderValue>,
    pieces: Vec<Arc<Piece>>,
    len: u64,
    /// Bytes that it takes beside its own.
    extra: u64,
    share: Share,
}

impl Body {
    /// By what the server can be asked whether it has changed.
    pub(super) fn tag(&self) -> Option<&HeaderValue> {
        self.tag.as_ref()
    }

    /// Whether a 304 with these headers is about this body: it has the body's tag, and no other. A
    /// server has to repeat the tag that it would send with the whole (RFC 9110, 15.4.5), and a 304
    /// that names none says nothing about a body that has one (RFC 9111, 4.3.4): the tag may have
    /// become a weak one, which a server may take for the same (RFC 9110, 13.1.2).
    pub(super) fn is_confirmed_by(&self, headers: &HeaderMap) -> bool {
        let mut tags = headers.get_all(ETAG).iter();
        let (tag, more) = (tags.next(), tags.next());
        tag.is_some() && tag == self.tag.as_ref() && more.is_none()
    }

    /// The head, as a 304 has it now (RFC 9111, 4.3.4).
    pub(super) fn headers_with(&self, newer: &HeaderMap) -> HeaderMap {
        let mut headers = self.headers.clone();
        for name in newer.keys().filter(|name| !NOT_OF_THE_BODY.contains(name)) {
            headers.remove(name);
            for value in newer.get_all(name) {
                headers.append(name, value.clone());
            }
        }
        headers
    }

    fn answers(&self, question: &Question) -> bool {
        let is_same = |(name, values): &(String, Vec<Vec<u8>>)| {
            question.values(name).eq(values.iter().map(Vec::as_slice))
        };
        self.selecting.iter().all(is_same)
    }

    fn cost(&self) -> u64 {
        self.len + self.extra
    }
}

/// A body that is being passed on, and kept if it comes to its end. Its pieces are with those that
/// are kept, so that they can make room.
#[derive(Debug)]
pub(super) struct Recording {
    question: Question,
    /// What was kept until now, if it still is.
    before: Weak<Body>,
    state: Arc<Mutex<State>>,
    id: u64,
    /// How many there are.
    pieces: usize,
    /// Others may wait, until it is kept or given up.
    first: Option<First>,
}

/// What there is of it.
#[derive(Debug)]
struct Unfinished {
    body: Body,
    began: Instant,
}

impl Unfinished {
    /// Bytes per 1000 s, from a second before it began.
    fn rate(&self, now: Instant) -> u64 {
        let took = now.saturating_duration_since(self.began).as_millis() + 1000;
        u64::try_from(u128::from(self.body.len) * 1_000_000 / took).unwrap_or(u64::MAX)
    }
}

/// What a body holds of what all may, for as long as it is in memory.
#[derive(Debug)]
struct Share {
    all: Arc<AtomicU64>,
    bytes: u64,
}

impl Share {
    /// Takes so much more.
    fn grow(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.all.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Recording {
    /// The same, for which others may wait.
    pub(super) fn awaited(mut self, first: Option<First>) -> Self {
        self.first = first;
        self
    }

    /// The names of this piece, which comes next, if the same bytes came there before.
    pub(super) fn names_of(&self, piece: &[u8]) -> Option<Arc<List>> {
        let before = self.before.upgrade()?;
        let same = before.pieces.get(self.pieces)?;
        (same.bytes == piece).then(|| Arc::clone(&same.list))
    }

    /// Takes the next piece; nothing is left where the body is too long to be kept, or has made
    /// room for others that come faster.
    pub(super) fn with(mut self, bytes: Vec<u8>, list: Arc<List>, now: Instant) -> Option<Self> {
        let before = self.before.upgrade();
        let same = before.as_ref().and_then(|it| it.pieces.get(self.pieces));
        let piece = match same.filter(|same| Arc::ptr_eq(&same.list, &list)) {
            Some(same) => Arc::clone(same),
            None => Arc::new(Piece {
                bytes: bytes.into_boxed_slice().into(),
                list,
            }),
        };
        self.pieces += 1;
        let has_room = lock(&self.state).extend(self.id, piece, now);
        has_room.then_some(self)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        lock(&self.state).unfinished.remove(&self.id);
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// See above.
#[derive(Debug)]
pub(super) struct Kept {
    state: Arc<Mutex<State>>,
    /// Bytes of bodies that are kept or on their way.
    held: Arc<AtomicU64>,
    numbers: Numbers,
}

#[derive(Debug)]
struct State {
    most: u64,
    bytes: u64,
    /// Of those that were asked for once.
    once: u64,
    count: usize,
    clock: u64,
    by_target: HashMap<String, Vec<Entry>>,
    /// What somebody has asked for first, and is not done with.
    asked_first: HashMap<Common, watch::Receiver<()>>,
    /// What was awaited in vain, and has not been kept since.
    in_vain: HashSet<u64>,
    hasher: RandomState,
    /// Bodies on their way, by the order in which they began.
    unfinished: BTreeMap<u64, Unfinished>,
}

#[derive(Debug)]
struct Entry {
    body: Arc<Body>,
    last: u64,
    was_wanted_again: bool,
}

impl Kept {
    pub(super) fn new(numbers: Numbers) -> Self {
        Self {
            state: Arc::new(Mutex::new(State {
                most: DEFAULT_LIMIT,
                bytes: 0,
                once: 0,
                count: 0,
                clock: 0,
                by_target: HashMap::new(),
                asked_first: HashMap::new(),
                in_vain: HashSet::new(),
                hasher: RandomState::new(),
                unfinished: BTreeMap::new(),
            })),
            held: Arc::default(),
            numbers,
        }
    }

    /// Keeps so many bytes at most from now on; none, and nothing is kept.
    pub(super) fn limit(&self, bytes: u64) {
        let mut state = self.lock();
        state.most = bytes;
        state.make_room(&self.numbers);
    }

    pub(super) fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// What this asked for the last time.
    pub(super) fn find(&self, question: &Question) -> Option<Arc<Body>> {
        let mut state = self.lock();
        state.clock += 1;
        let clock = state.clock;
        let entries = state.by_target.get_mut(&question.target)?;
        let entry = entries
            .iter_mut()
            .find(|entry| entry.body.answers(question))?;
        entry.last = clock;
        let was_once = !std::mem::replace(&mut entry.was_wanted_again, true);
        let body = Arc::clone(&entry.body);
        if was_once {
            state.once -= body.cost();
        }
        Some(body)
    }

    /// Has others wait for the answer, or says for whose this one may wait.
    pub(super) fn asking(&self, question: &Question) -> Asking {
        let common = question.common();
        let mut state = self.lock();
        if state.most == 0 || state.in_vain.contains(&state.hasher.hash_one(&common)) {
            return Asking::Alone;
        }
        if let Some(answered) = state.asked_first.get(&common) {
            return Asking::Later(Later(answered.clone()));
        }
        let (waited_for, answered) = watch::channel(());
        state.asked_first.insert(common.clone(), answered);
        Asking::First(First {
            state: Arc::clone(&self.state),
            common,
            _waited_for: waited_for,
        })
    }

    /// Somebody waited for the answer, and nothing is kept: until something is, nobody else waits.
    pub(super) fn note_awaited_in_vain(&self, question: &Question) {
        let mut state = self.lock();
        if state.in_vain.len() >= MAX_IN_VAIN {
            state.in_vain.clear();
        }
        let hash = state.hasher.hash_one(question.common());
        state.in_vain.insert(hash);
    }

    /// The server does not stand by it any more.
    pub(super) fn forget(&self, question: &Question) {
        let mut state = self.lock();
        state.remove(&question.target, |entry| entry.body.answers(question));
        self.numbers.bytes.set(state.bytes);
    }

    /// Begins to keep the body of an answer that is public. Nothing if it cannot be kept.
    pub(super) fn record(&self, answer: &mut Answer, now: Instant) -> Option<Recording> {
        let (question, before) = answer.asked.take()?;
        let mut state = self.lock();
        let most = state.most / BODY_PART;
        let selecting = selecting(&question, &answer.headers)?;
        let headers = detached(&answer.headers);
        let extra = OVERHEAD + size_of_head(&question.target, &selecting, &headers);
        let cost = answer.len.unwrap_or(0).saturating_add(extra);
        if answer.status != StatusCode::OK || cost > most {
            return None;
        }
        let mut share = Share {
            all: Arc::clone(&self.held),
            bytes: 0,
        };
        share.grow(extra);
        let body = Body {
            tag: strong_tag(&headers),
            headers,
            selecting,
            pieces: Vec::new(),
            len: 0,
            extra,
            share,
        };
        state.clock += 1;
        let (id, began) = (state.clock, now);
        state.unfinished.insert(id, Unfinished { body, began });
        Some(Recording {
            question,
            before: before.as_ref().map(Arc::downgrade).unwrap_or_default(),
            state: Arc::clone(&self.state),
            id,
            pieces: 0,
            first: None,
        })
    }

    /// The body has come to its end.
    pub(super) fn keep(&self, recording: Recording) {
        let mut state = self.lock();
        let Some(Unfinished { body, .. }) = state.unfinished.remove(&recording.id) else {
            // It has made room.
            return;
        };
        let question = &recording.question;
        let hash = state.hasher.hash_one(question.common());
        state.in_vain.remove(&hash);
        let is_meant = |entry: &Entry| entry.body.answers(question);
        let was_wanted_again = state.remove(&question.target, is_meant);
        state.clock += 1;
        state.bytes += body.cost();
        if !was_wanted_again {
            state.once += body.cost();
        }
        state.count += 1;
        let entry = Entry {
            body: Arc::new(body),
            last: state.clock,
            was_wanted_again,
        };
        let entries = state.by_target.entry(question.target.clone()).or_default();
        entries.push(entry);
        if entries.len() > MAX_VARIANTS
            && let Some(oldest) = entries.iter().map(|entry| entry.last).min()
        {
            state.remove(&question.target, |entry| entry.last == oldest);
        }
        state.make_room(&self.numbers);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// Takes the next piece of a body on its way. Where all such bodies together have more than
    /// they may, those that have come the slowest so far go. Says whether this one is still there,
    /// and not too long.
    fn extend(&mut self, id: u64, piece: Arc<Piece>, now: Instant) -> bool {
        let most = self.most / BODY_PART;
        let Some(Unfinished { body, .. }) = self.unfinished.get_mut(&id) else {
            return false;
        };
        let len = piece.bytes.len() as u64;
        body.len += len;
        body.pieces.push(piece);
        body.share.grow(len);
        if body.cost() > most {
            return false;
        }
        let held = Arc::clone(&body.share.all);
        while held.load(Ordering::Relaxed) > (BODY_PART + ON_THEIR_WAY) * most {
            let some = self.unfinished.iter().filter(|(_, it)| it.body.len > 0);
            let slowest = some.min_by_key(|(_, it)| it.rate(now)).map(|(id, _)| *id);
            match slowest {
                Some(slowest) if slowest != id => self.unfinished.remove(&slowest),
                Some(_) | None => return false,
            };
        }
        true
    }

    /// Forgets those of this target, and says whether one of them was asked for again.
    fn remove(&mut self, target: &str, is_meant: impl Fn(&Entry) -> bool) -> bool {
        let Some(entries) = self.by_target.get_mut(target) else {
            return false;
        };
        let mut was_wanted_again = false;
        entries.retain(|entry| {
            if !is_meant(entry) {
                return true;
            }
            self.bytes -= entry.body.cost();
            self.count -= 1;
            match entry.was_wanted_again {
                true => was_wanted_again = true,
                false => self.once -= entry.body.cost(),
            }
            false
        });
        if entries.is_empty() {
            self.by_target.remove(target);
        }
        was_wanted_again
    }

    /// Forgets what was wanted the longest ago: of those that were asked for once while they have
    /// more than their part, or nothing else is there.
    fn make_room(&mut self, numbers: &Numbers) {
        while self.bytes > self.most || self.count > MAX_BODIES {
            let of_once = self.once > self.most / ONCE_PART || self.once == self.bytes;
            let concerned = self.by_target.iter().flat_map(|(target, entries)| {
                let entries = entries.iter();
                let concerned = entries.filter(|entry| !(of_once && entry.was_wanted_again));
                concerned.map(move |entry| (entry.last, target))
            });
            let Some((last, target)) = concerned.min() else {
                break;
            };
            let target = target.clone();
            self.remove(&target, |entry| entry.last == last);
        }
        numbers.bytes.set(self.bytes);
    }
}

/// The same, in memory of their own: as they came, each value keeps the whole buffer alive that the
/// connection was read into.
fn detached(headers: &HeaderMap) -> HeaderMap {
    let own = |value: &HeaderValue| HeaderValue::from_bytes(value.as_bytes()).ok();
    let headers = headers.iter();
    headers
        .filter_map(|(name, value)| Some((name.clone(), own(value)?)))
        .collect()
}

/// Bytes of what is kept beside a body. The target stands in the map, too.
fn size_of_head(target: &str, selecting: &[(String, Vec<Vec<u8>>)], headers: &HeaderMap) -> u64 {
    let selecting = selecting.iter();
    let selecting =
        selecting.map(|(name, values)| name.len() + values.iter().map(Vec::len).sum::<usize>());
    let headers = headers.iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len());
    (target.len() + selecting.sum::<usize>() + headers.sum::<usize>()) as u64
}

/// The tag by which the server can confirm that a body is what it was: one, a strong one, and of a
/// file that was changed before the second of the answer, since it may change again in it under the
/// same tag.
fn strong_tag(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut tags = headers.get_all(ETAG).iter();
    let (tag, None) = (tags.next()?, tags.next()) else {
        return None;
    };
    let inner = tag.as_bytes().strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let time = |name: &HeaderName| {
        let value = headers.get(name)?.to_str().ok()?;
        httpdate::parse_http_date(value).ok()
    };
    let is_settled = !headers.contains_key(LAST_MODIFIED)
        || time(&LAST_MODIFIED).is_some_and(|changed| Some(changed) < time(&DATE));
    (is_settled && !inner.contains(&b'"')).then(|| tag.clone())
}

/// What of the question the answer depends on; nothing if it depends on what cannot be said (RFC
/// 9110, 12.5.5).
fn selecting(question: &Question, headers: &HeaderMap) -> Option<Vec<(String, Vec<Vec<u8>>)>> {
    let mut names: Vec<String> = ALWAYS_SELECTING.map(str::to_owned).to_vec();
    for line in headers.get_all(VARY) {
        let line = line.to_str().ok()?;
        let fields = line.split(',').map(|name| name.trim().to_ascii_lowercase());
        names.extend(fields.filter(|name| !name.is_empty()));
    }
    if names.iter().any(|name| name == "*") {
        return None;
    }
    names.sort();
    names.dedup();
    let with_values = |name: String| {
        let values = question.values(&name).map(<[u8]>::to_vec).collect();
        (name, values)
    };
    Some(names.into_iter().map(with_values).collect())
}

#[cfg(test)]
mod tests;
