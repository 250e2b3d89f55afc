//! A filter that speaks ICAP decides: what this middlebox may read goes to an ICAP server, request
//! by request, response by response.
//!
//! With the right to read alone a message goes on or is blocked. With the right to write, what the
//! server puts in its place goes on. Records wait for the server's word, as long as they take no
//! more than [`HOLD`]; then the oldest go on unchanged, and with the end of the message the rest is
//! blocked or not. So a message is streamed and not collected, and its last record never goes on
//! before the verdict.
//!
//! Is not: the protocol ([`crate::icap`]); a filter. Invariants: nothing that the server has not
//! let through is complete; where it is silent, what happens is [`WhenDead`]; what goes on
//! unchanged are the very bytes; a message has the end that its head says, whatever was put there.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use mctls::config::{Configuration, Context, Right};
use mctls::party::{Direction, Position};
use mctls::record::{MAX_PARTS, MAX_PAYLOAD_LEN};
use mctls_io::middlebox::{HELD_LEN, MAX_WAITING};
use mctls_io::{Consent, Service, Verdict};

use crate::error::McError;
use crate::http::{Event, Head, LAST_CHUNK, Messages, Reader, Side, Start, Version, write_chunk};
use crate::icap::exchange::{Exchange, MAX_FEED, Opening};
use crate::icap::reply::{Follows, Said};
use crate::icap::server::{Dead, Server};
use crate::layout::{ALL, FOUR, part_of};
use crate::offers::Hasher;
use crate::settings::{BoxSettings, WhenDead};

/// What the records of a direction may take that wait for a verdict before the oldest goes on: as
/// much as seven full ones do. Less than the frame lets wait, which then takes no more: the verdict
/// could wait for just that.
const HOLD: usize = 7 * taken(MAX_PAYLOAD_LEN);
const _: () = assert!(HOLD < MAX_WAITING);
/// What a record with so much data takes at most: the same again as ciphertext, and its tags.
const fn taken(len: usize) -> usize {
    2 * len + MAX_PARTS * TAG_LEN + HELD_LEN
}
/// Of each part of a group of records.
const TAG_LEN: usize = 16;
/// How much of a server's message waits to be put in a record's place: a record can become eight.
const MAX_OUT: usize = 7 * MAX_PAYLOAD_LEN;
const MAX_RECORD: usize = MAX_PARTS * MAX_PAYLOAD_LEN;
/// How long the server may take for a step, without a setting.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest that can be asked for, in seconds.
const MAX_SECONDS: u64 = 600;
/// Most requests that wait for their responses, and bytes of their heads, which are kept: a server
/// that judges responses is shown what they answer.
const MAX_ASKED: usize = 128;
const MAX_ASKED_LEN: usize = 1 << 18;

/// Which servers are asked.
#[derive(Debug)]
pub(crate) struct Rules {
    requests: Option<Arc<Server>>,
    responses: Option<Arc<Server>>,
    dead: WhenDead,
}

impl Rules {
    pub(crate) fn of(settings: &BoxSettings) -> Result<Self, McError> {
        let seconds = settings.icap_timeout.unwrap_or(PATIENCE.as_secs());
        if !(1..=MAX_SECONDS).contains(&seconds) {
            return Err(McError::config("icap-timeout: give 1 to 600 seconds"));
        }
        let patience = Duration::from_secs(seconds);
        let server = |name: &str, url: &Option<String>, side| match url {
            None => Ok(None),
            Some(url) => Server::of(url, side, patience)
                .map(|server| Some(Arc::new(server)))
                .map_err(|wrong| McError::config(&format!("{name}: {wrong}"))),
        };
        let rules = Self {
            requests: server("reqmod", &settings.reqmod, Side::Requests)?,
            responses: server("respmod", &settings.respmod, Side::Responses)?,
            dead: settings.when_dead,
        };
        match (&rules.requests, &rules.responses) {
            (None, None) => Err(McError::config(
                "icap needs `reqmod = \"icap://127.0.0.1/SERVICE\"` or `respmod`",
            )),
            (Some(_), _) | (_, Some(_)) => Ok(rules),
        }
    }
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Undecided,
    /// It goes on as it is.
    Original,
    /// A part of it has gone on as it is; the verdict is still to come.
    Released,
    /// The server sends a message like it, which is compared with it: many do that in place of 204.
    Compared,
    /// The server's goes on.
    Replaced,
    Blocked(&'static str),
}

/// What of the original decides how another can stand in its place.
#[derive(Debug)]
struct Original {
    side: Side,
    /// Whether its body passes here, and there is one.
    body: Seen,
    /// Whether it answers HEAD.
    answers_head: bool,
    head: Head,
    /// What a request's target begins with for the server: filters know absolute ones alone.
    prefix: Option<String>,
}

/// What of a body passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// There is none.
    None,
    All,
    /// This middlebox has no right to it.
    Nothing,
}

/// Lines that say how long a message is.
const LENGTHS: [&str; 3] = ["content-length", "transfer-encoding", "trailer"];

impl Original {
    /// A head from the server with the target in the form in which the original has it.
    fn placed(&self, mut head: Head) -> Result<Head, &'static str> {
        if let (Some(prefix), Start::Request { target, .. }) = (&self.prefix, &mut head.start) {
            let rest = target.strip_prefix(prefix.as_str());
            match rest {
                Some("") => *target = "/".into(),
                Some(rest) if rest.starts_with('/') => *target = rest.to_owned(),
                Some(_) | None if target.starts_with('/') => {}
                Some(_) | None => return Err("the ICAP server sends the request elsewhere"),
            }
        }
        Ok(head)
    }

    /// Whether another head says the same: servers add `Via`, and frame bodies anew.
    fn is_like(&self, head: &Head) -> bool {
        let lines = |head: &Head| {
            let lines = head.headers.iter().filter_map(|line| {
                let name = line.name.to_ascii_lowercase();
                let is_own = name == "via" || LENGTHS.contains(&name.as_str());
                (!is_own).then(|| (name, line.value.clone()))
            });
            lines.collect::<Vec<_>>()
        };
        let status = self.head.status() == head.status();
        let request = (self.head.method(), self.head.target()) == (head.method(), head.target());
        status && request && lines(&self.head) == lines(head)
    }

    /// The head that goes on in the place of this one's.
    fn replaced(&self, mut head: Head, body: Follows) -> Result<Vec<u8>, &'static str> {
        for name in LENGTHS {
            head.remove(name);
        }
        head.version = Version::Http11;
        let status = head.status();
        if status.is_some_and(|status| status < 200) {
            return Err("the ICAP server's message is none that can be final");
        }
        let is_bare = matches!(status, Some(204 | 304));
        head = match (body, self.body) {
            (Follows::Body, Seen::All) if !is_bare => head.with("Transfer-Encoding", "chunked"),
            (Follows::Body, _) => {
                return Err("the ICAP server's message has no place for its body");
            }
            (Follows::Nothing, Seen::All) if is_bare => head,
            (Follows::Nothing, Seen::All) => head.with("Content-Length", "0"),
            // The body goes by unseen, or there is none: its length stays.
            (Follows::Nothing, Seen::Nothing) => {
                if is_bare {
                    return Err("the ICAP server's message has no place for the body");
                }
                self.with_lines(head)
            }
            (Follows::Nothing, Seen::None) => match (self.side, is_bare) {
                (Side::Requests, _) => self.with_lines(head),
                (Side::Responses, true) => head,
                (Side::Responses, false) if self.answers_head => self.with_lines(head),
                (Side::Responses, false) => head.with("Content-Length", "0"),
            },
        };
        Ok(head.to_bytes())
    }

    fn with_lines(&self, mut head: Head) -> Head {
        let lines = self.head.headers.iter().filter(|line| {
            let name = line.name.to_ascii_lowercase();
            LENGTHS.contains(&name.as_str())
        });
        head.headers.extend(lines.cloned());
        head
    }
}

/// A message that is not through yet.
struct Message {
    exchange: Exchange,
    original: Original,
    fate: Fate,
    may_change: bool,
    /// The head that goes on in the original's place.
    head: Vec<u8>,
    /// What of the server's body can go on, in chunks.
    out: Vec<u8>,
    body: Follows,
    is_whole: bool,
    /// What has passed of the original's body, and of the server's where the two are compared.
    ours: Hasher,
    theirs: Hasher,
    has_ended: bool,
    /// How the exchange has ended.
    ended: Option<Result<(), Dead>>,
}

impl Message {
    /// Whether nothing that the server could still say changes what becomes of it.
    const fn is_settled(&self) -> bool {
        match self.fate {
            Fate::Original | Fate::Blocked(_) => true,
            Fate::Replaced => self.is_whole,
            Fate::Undecided | Fate::Released | Fate::Compared => false,
        }
    }

    /// Hands on a piece of the body.
    fn feed(&mut self, data: &[u8]) {
        self.ours.update(data);
        self.exchange.feed(data);
    }

    fn end(&mut self) {
        self.has_ended = true;
        self.exchange.end();
    }

    /// Takes what the server says, as far as there is room; whether that is anything.
    fn listen(&mut self, dead: WhenDead) -> bool {
        let mut has_moved = false;
        while self.out.len() < MAX_OUT
            && let Some(said) = self.exchange.said()
        {
            has_moved = true;
            match said {
                Said::Unchanged => self.unchanged(),
                Said::Message { side, head, body } => self.fate = self.changed(side, head, body),
                Said::Body(data) if self.fate == Fate::Compared => self.theirs.update(&data),
                Said::Body(data) => write_chunk(&data, &mut self.out),
                Said::End if self.fate == Fate::Compared => self.fate = self.compared(),
                Said::End => {
                    self.is_whole = true;
                    if self.body == Follows::Body {
                        self.out.extend_from_slice(LAST_CHUNK);
                    }
                }
                Said::Continue | Said::Options(_) => {}
            }
        }
        if !self.exchange.has_said()
            && let Some(ended) = self.ended.take()
        {
            has_moved = true;
            if let Err(why) = ended {
                self.failed(&why, dead);
            }
        }
        has_moved
    }

    fn unchanged(&mut self) {
        if matches!(self.fate, Fate::Undecided | Fate::Released) {
            self.fate = Fate::Original;
        }
    }

    fn changed(&mut self, side: Side, head: Head, body: Follows) -> Fate {
        if side != self.original.side {
            return Fate::Blocked("the ICAP server answers the request itself");
        }
        let head = match self.original.placed(head) {
            Ok(head) => head,
            Err(why) => return Fate::Blocked(why),
        };
        self.body = body;
        if !self.may_change || self.fate == Fate::Released {
            let is_like = self.original.is_like(&head);
            return if is_like {
                Fate::Compared
            } else {
                self.unlike()
            };
        }
        match self.original.replaced(head, body) {
            Ok(head) => {
                self.head = head;
                Fate::Replaced
            }
            Err(why) => Fate::Blocked(why),
        }
    }

    /// What becomes of it where the server sends another and none can stand in its place.
    const fn unlike(&self) -> Fate {
        Fate::Blocked(match self.may_change {
            true => "the ICAP server changes a message of which a part has gone on",
            false => "the ICAP server changes what this middlebox may only read",
        })
    }

    /// The server's message is whole: whether it is the original.
    fn compared(&self) -> Fate {
        let is_whole = self.has_ended || self.original.body != Seen::All;
        let is_same = self.ours.clone().finish() == self.theirs.clone().finish();
        match is_whole && is_same {
            true => Fate::Original,
            false => self.unlike(),
        }
    }

    fn failed(&mut self, why: &Dead, dead: WhenDead) {
        let fate = match (self.fate, dead) {
            (Fate::Original | Fate::Blocked(_), _) => return,
            (Fate::Replaced, _) if self.is_whole => return,
            (Fate::Undecided | Fate::Released | Fate::Compared, WhenDead::FailOpen) => {
                Fate::Original
            }
            (Fate::Replaced, _) | (_, WhenDead::FailClosed) => {
                Fate::Blocked("the ICAP server has failed")
            }
        };
        let what = match fate {
            Fate::Original => "fail-open: passed on unchecked",
            _ => "fail-closed: blocked",
        };
        tracing::warn!("the ICAP server failed: {why}; {what}");
        self.fate = fate;
    }
}

/// A part of a record.
enum Segment {
    /// Of no message that is asked about.
    Raw(Vec<u8>),
    /// Of the head of the message with this number, of which there is more in the next record: the
    /// message is not known yet.
    Start(u64, Vec<u8>),
    /// Of the message with this number: its head, or the last part of it.
    Head(u64, Vec<u8>),
    Body(u64, Vec<u8>),
    End(u64),
}

/// A record that waits.
struct Record {
    segments: Vec<Segment>,
    len: usize,
}

/// One direction.
struct Way {
    side: Side,
    server: Option<Arc<Server>>,
    messages: Messages,
    sees_body: bool,
    may_change: bool,
    /// Messages that are not through, and the number of the first.
    open: VecDeque<Message>,
    first: u64,
    /// Whether the last of them still comes.
    is_coming: bool,
    /// How much of a head is in records that have come, as long as it is not whole.
    begun: usize,
    records: VecDeque<Record>,
    /// What the records take, and what those do in which a head has begun that is not whole.
    held: usize,
    starts: usize,
}

/// Why a session is blocked, for this middlebox's own log.
type Why = String;

impl Way {
    fn new(side: Side, server: Option<Arc<Server>>) -> Self {
        Self {
            side,
            server,
            messages: Messages::new(side, Reader::Middlebox),
            sees_body: false,
            may_change: false,
            open: VecDeque::new(),
            first: 0,
            is_coming: false,
            begun: 0,
            records: VecDeque::new(),
            held: 0,
            starts: 0,
        }
    }

    /// The number of the next message that begins.
    fn next(&self) -> u64 {
        let open = u64::try_from(self.open.len()).unwrap_or(u64::MAX);
        self.first.saturating_add(open)
    }

    fn last(&self) -> u64 {
        self.next().saturating_sub(1)
    }

    /// A head that has begun in earlier records is none that is asked about: they are free to go.
    fn let_go(&mut self) {
        let next = self.next();
        let segments = self.records.iter_mut().flat_map(|one| &mut one.segments);
        for segment in segments {
            if let Segment::Start(number, bytes) = segment
                && *number == next
            {
                *segment = Segment::Raw(std::mem::take(bytes));
            }
        }
    }

    fn message(&mut self, number: u64) -> Option<&mut Message> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.open.get_mut(at)
    }

    /// A message begins.
    fn begin(&mut self, head: Head, raw: &[u8], body: Seen, asked: Option<Asked>) {
        let Some(server) = &self.server else { return };
        let answers_head = asked.as_ref().is_some_and(|asked| asked.is_head);
        let opening = match self.side {
            Side::Requests => Opening {
                request: Some(shown(&head).unwrap_or_else(|| raw.to_vec())),
                response: None,
                body: follows(body),
            },
            Side::Responses => Opening {
                request: asked.map(|asked| asked.raw),
                response: Some(raw.to_vec()),
                body: follows(body),
            },
        };
        self.open.push_back(Message {
            exchange: Exchange::new(Arc::clone(server), opening),
            original: Original {
                side: self.side,
                body,
                answers_head,
                prefix: prefix(&head),
                head,
            },
            fate: Fate::Undecided,
            may_change: self.may_change,
            head: Vec::new(),
            out: Vec::new(),
            body: Follows::Nothing,
            is_whole: false,
            ours: Hasher::default(),
            theirs: Hasher::default(),
            has_ended: body != Seen::All,
            ended: None,
        });
    }

    /// The oldest message of which the server still has something to say. A record can hold several
    /// and goes as a whole, so it is not always the first that is not through.
    fn current(&mut self) -> Option<&mut Message> {
        self.open.iter_mut().find(|message| !message.is_settled())
    }

    /// Goes on with the oldest exchange: one at a time, so that a client that asks and asks costs a
    /// server one connection. Whether anything has come of it.
    fn progress(&mut self, context: &mut TaskContext<'_>, dead: WhenDead) -> bool {
        let Some(message) = self.current() else {
            return false;
        };
        if let Poll::Ready(ended) = message.exchange.progress(context) {
            message.ended = Some(ended);
        }
        message.listen(dead)
    }

    /// What becomes of the oldest record, once that is known.
    fn decide(&mut self, dead: WhenDead) -> Option<Verdict> {
        if let Some(message) = self.current() {
            let _ = message.listen(dead);
        }
        let is_pressed = self.held > HOLD;
        let record = self.records.pop_front()?;
        for segment in &record.segments {
            match self.ready(segment, is_pressed) {
                Ready::Now => {}
                Ready::Later => {
                    self.records.push_front(record);
                    return None;
                }
                Ready::Blocked(why) => {
                    tracing::info!("blocked: {why}");
                    self.records.push_front(record);
                    return Some(Verdict::Block);
                }
            }
        }
        self.held -= taken(record.len);
        Some(self.carried_out(record))
    }

    fn ready(&mut self, segment: &Segment, is_pressed: bool) -> Ready {
        let number = match segment {
            Segment::Raw(_) => return Ready::Now,
            // Until its head is whole, nobody can say what becomes of it.
            Segment::Start(number, _) if *number >= self.next() => return Ready::Later,
            Segment::Start(number, _)
            | Segment::Head(number, _)
            | Segment::Body(number, _)
            | Segment::End(number) => *number,
        };
        let Some(message) = self.message(number) else {
            return Ready::Blocked("a message that is not known");
        };
        let has_room = message.exchange.waiting() <= MAX_FEED;
        match (message.fate, segment) {
            (Fate::Blocked(why), _) => Ready::Blocked(why),
            (Fate::Original, _) => Ready::Now,
            (Fate::Undecided | Fate::Released | Fate::Compared, Segment::End(_)) => Ready::Later,
            (Fate::Released, _) if has_room => Ready::Now,
            (Fate::Compared, _) if is_pressed && has_room => Ready::Now,
            (Fate::Undecided, _) if is_pressed && has_room => {
                message.fate = Fate::Released;
                Ready::Now
            }
            (Fate::Undecided | Fate::Released | Fate::Compared, _) => Ready::Later,
            (Fate::Replaced, Segment::Start(..) | Segment::Head(..)) => Ready::Now,
            (Fate::Replaced, _) if message.is_whole => Ready::Now,
            (Fate::Replaced, Segment::End(_)) if message.out.len() >= MAX_OUT => {
                Ready::Blocked("the ICAP server's message is too long for what is left of this one")
            }
            (Fate::Replaced, Segment::Body(..)) if is_pressed || message.out.len() >= MAX_OUT => {
                Ready::Now
            }
            (Fate::Replaced, _) => Ready::Later,
        }
    }

    fn carried_out(&mut self, record: Record) -> Verdict {
        let mut out = Vec::new();
        let mut is_changed = false;
        for segment in record.segments {
            match segment {
                Segment::Raw(bytes) => out.extend(bytes),
                // The head that goes on in its place stands where the old one ends.
                Segment::Start(number, bytes) => match self.replacing(number) {
                    Some(_) => is_changed = true,
                    None => out.extend(bytes),
                },
                Segment::Head(number, bytes) => match self.replacing(number) {
                    Some(message) => {
                        is_changed = true;
                        out.extend_from_slice(&message.head);
                    }
                    None => out.extend(bytes),
                },
                Segment::Body(number, bytes) => match self.replacing(number) {
                    Some(message) => {
                        is_changed = true;
                        let room = MAX_OUT.saturating_sub(out.len()).min(message.out.len());
                        out.extend(message.out.drain(..room));
                    }
                    None => out.extend(bytes),
                },
                Segment::End(number) => {
                    if let Some(message) = self.replacing(number) {
                        is_changed = true;
                        out.append(&mut message.out);
                    }
                    // It is the first: those before it have ended.
                    drop(self.open.pop_front());
                    self.first += 1;
                }
            }
        }
        match (is_changed, out.len()) {
            (false, _) => Verdict::Forward,
            (true, 0) => Verdict::Replace(vec![Vec::new()]),
            (true, 1..=MAX_RECORD) => {
                let parts = out.chunks(MAX_PAYLOAD_LEN).map(<[u8]>::to_vec);
                Verdict::Replace(parts.collect())
            }
            (true, _) => {
                tracing::info!("blocked: the ICAP server's message is too long for this record");
                Verdict::Block
            }
        }
    }

    fn replacing(&mut self, number: u64) -> Option<&mut Message> {
        let message = self.message(number);
        message.filter(|message| message.fate == Fate::Replaced)
    }
}

/// Whether a part of a record can go.
enum Ready {
    Now,
    Later,
    Blocked(&'static str),
}

/// A request that waits for its response.
struct Asked {
    /// Its head as a server is shown it; empty where none is asked about responses.
    raw: Vec<u8>,
    is_head: bool,
}

/// What the target of a request to a server begins with in its absolute form (RFC 9112, section
/// 3.2.2).
fn prefix(head: &Head) -> Option<String> {
    let mut hosts = head.values("host");
    let (Some(host), None, Some(target)) = (hosts.next(), hosts.next(), head.target()) else {
        return None;
    };
    let host = std::str::from_utf8(host).ok()?;
    let is_plain = target.starts_with('/') && host.bytes().all(|byte| byte.is_ascii_graphic());
    is_plain.then(|| format!("https://{host}"))
}

/// A request's head as the server is shown it.
fn shown(head: &Head) -> Option<Vec<u8>> {
    let prefix = prefix(head)?;
    let mut head = head.clone();
    if let Start::Request { target, .. } = &mut head.start {
        target.insert_str(0, &prefix);
    }
    Some(head.to_bytes())
}

const fn follows(body: Seen) -> Follows {
    match body {
        Seen::All => Follows::Body,
        Seen::None | Seen::Nothing => Follows::Nothing,
    }
}

/// For one session.
pub(crate) struct Icap {
    dead: WhenDead,
    requests: Way,
    responses: Way,
    asked: VecDeque<Asked>,
    asked_len: usize,
}

impl Icap {
    pub(crate) fn new(rules: &Rules) -> Self {
        Self {
            dead: rules.dead,
            requests: Way::new(Side::Requests, rules.requests.clone()),
            responses: Way::new(Side::Responses, rules.responses.clone()),
            asked: VecDeque::new(),
            asked_len: 0,
        }
    }

    const fn way(&mut self, direction: Direction) -> &mut Way {
        match direction {
            Direction::ToServer => &mut self.requests,
            Direction::ToClient => &mut self.responses,
        }
    }

    /// Reads a record, and hands on what is in it; whether the server decides what becomes of it.
    fn read(&mut self, direction: Direction, purpose: &str, data: &[u8]) -> Result<bool, Why> {
        let (way, other) = match direction {
            Direction::ToServer => (&mut self.requests, &mut self.responses),
            Direction::ToClient => (&mut self.responses, &mut self.requests),
        };
        let Some(part) = part_of(purpose, way.side) else {
            return Ok(false);
        };
        let events = way.messages.push(part, data);
        let events = events.map_err(|wrong| wrong.to_string())?;
        // What came in earlier records of the first head that is whole now, or still is not.
        let mut before = std::mem::take(&mut way.begun);
        let mut segments = Vec::new();
        let mut events = events.into_iter().peekable();
        while let Some(event) = events.next() {
            match event {
                Event::Head { head, raw } => {
                    let has_none = matches!(events.peek(), Some(Event::End));
                    let is_interim = has_none && head.status().is_some_and(|status| status < 200);
                    let mut asked = None;
                    if let Some(method) = head.method() {
                        other.messages.expect_answer(method);
                        if self.asked.len() >= MAX_ASKED {
                            return Err("too many requests without an answer".into());
                        }
                        let kept = match &other.server {
                            Some(_) => shown(&head).unwrap_or_else(|| raw.clone()),
                            None => Vec::new(),
                        };
                        self.asked_len += kept.len();
                        if self.asked_len > MAX_ASKED_LEN {
                            return Err("too many requests without an answer".into());
                        }
                        self.asked.push_back(Asked {
                            raw: kept,
                            is_head: method == "HEAD",
                        });
                    } else if !is_interim {
                        asked = self.asked.pop_front();
                        self.asked_len -= asked.as_ref().map_or(0, |asked| asked.raw.len());
                    }
                    way.is_coming = false;
                    if way.server.is_none() {
                        continue;
                    }
                    // Its bytes in this record.
                    let own = raw[std::mem::take(&mut before)..].to_vec();
                    if is_interim {
                        way.let_go();
                        segments.push(Segment::Raw(own));
                        continue;
                    }
                    if way.side == Side::Responses && asked.is_none() {
                        return Err("a response to no request".into());
                    }
                    let body = match (has_none, way.sees_body) {
                        (true, _) => Seen::None,
                        (false, true) => Seen::All,
                        (false, false) => Seen::Nothing,
                    };
                    if body == Seen::All && !head.has_known_end() {
                        return Err("a message whose end this middlebox is not shown".into());
                    }
                    way.begin(head, &raw, body, asked);
                    let number = way.last();
                    segments.push(Segment::Head(number, own));
                    way.is_coming = body == Seen::All;
                    if !way.is_coming {
                        segments.push(Segment::End(number));
                    }
                }
                Event::Framing(bytes) if way.is_coming => {
                    segments.push(Segment::Body(way.last(), bytes));
                }
                Event::Body(bytes) if way.is_coming => {
                    let number = way.last();
                    if let Some(message) = way.message(number) {
                        message.feed(&bytes);
                    }
                    segments.push(Segment::Body(number, bytes));
                }
                Event::Framing(bytes) | Event::Body(bytes) => segments.push(Segment::Raw(bytes)),
                Event::End => {
                    if std::mem::take(&mut way.is_coming) {
                        let number = way.last();
                        if let Some(message) = way.message(number) {
                            message.end();
                        }
                        segments.push(Segment::End(number));
                    }
                }
            }
        }
        if way.server.is_none() {
            return Ok(false);
        }
        let len = data.len();
        way.begun = way.messages.head_so_far();
        if way.begun > before {
            let start = len.saturating_sub(way.begun - before);
            segments.push(Segment::Start(way.next(), data[start..].to_vec()));
        }
        way.starts = match (way.begun, before) {
            (0, _) => 0,
            (_, 0) => taken(len),
            (1.., 1..) => way.starts + taken(len),
        };
        // They cannot go on before the rest, for which there would be no room.
        if way.starts > HOLD {
            return Err("a head in too many records".into());
        }
        way.held += taken(len);
        way.records.push_back(Record { segments, len });
        Ok(true)
    }
}

impl Service for Icap {
    fn joined(&mut self, position: Position, configuration: &Configuration) -> Consent {
        let right = |index: usize| {
            let mut contexts = configuration.terms.contexts().iter();
            let found = contexts.find(|one| one.purpose == FOUR[index] || one.purpose == ALL);
            found.map_or(Right::None, |context| context.right(position))
        };
        let [request, request_body, response, response_body] = [0, 1, 2, 3].map(right);
        for (way, head, body) in [
            (&mut self.requests, request, request_body),
            (&mut self.responses, response, response_body),
        ] {
            way.sees_body = body >= Right::Read;
            way.may_change = head == Right::Write && body != Right::Read;
        }
        // What a response answers decides where it ends.
        let needs = match (&self.requests.server, &self.responses.server) {
            (_, Some(_)) => request.min(response),
            (Some(_), None) => request,
            (None, None) => Right::Read,
        };
        match needs >= Right::Read {
            true => Consent::Given,
            false => {
                tracing::info!("refused: a session that grants this middlebox less than it needs");
                Consent::Refused
            }
        }
    }

    fn inspect(&mut self, direction: Direction, context: &Context, data: &[u8]) -> Verdict {
        match self.read(direction, &context.purpose, data) {
            Ok(false) => Verdict::Forward,
            Ok(true) if self.way(direction).records.len() > 1 => Verdict::Wait,
            Ok(true) => self.decide(direction).unwrap_or(Verdict::Wait),
            Err(why) => {
                tracing::info!("blocked: {why}");
                Verdict::Block
            }
        }
    }

    fn decide(&mut self, direction: Direction) -> Option<Verdict> {
        let dead = self.dead;
        self.way(direction).decide(dead)
    }

    fn progress(&mut self, context: &mut TaskContext<'_>) -> Poll<()> {
        let dead = self.dead;
        let requests = self.requests.progress(context, dead);
        let responses = self.responses.progress(context, dead);
        match requests || responses {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests;
