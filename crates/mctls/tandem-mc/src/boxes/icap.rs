//! A filter that speaks ICAP decides: what this middlebox may read goes to an ICAP server, request
//! by request, response by response.
//!
//! With the right to read alone a message goes on or is blocked. With the right to write, what the
//! server puts in its place goes on. Records wait for the server's word, up to the bound in
//! [`way`]; then the oldest go on unchanged, and with the end of the message the rest is blocked or
//! not. So a message is streamed and not collected, and its last record never goes on before the
//! verdict.
//!
//! Is: the settings, and how records become messages; what becomes of these is in [`message`], of
//! records in [`way`]. Is not: the protocol ([`crate::icap`]); a filter. Invariants: nothing that
//! the server has not let through is complete; where it is silent, what happens is [`WhenDead`];
//! what goes on unchanged are the very bytes; a message has the end that its head says, whatever
//! was put there.

mod message;
mod original;
mod way;

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use mctls::config::{Configuration, Context, Right};
use mctls::party::{Direction, Position};
use mctls_io::{Consent, Service, Verdict};

use self::original::{Asked, Seen, shown};
use self::way::{Segment, Way, Why};
use crate::error::McError;
use crate::http::{Event, Side};
use crate::icap::server::Server;
use crate::layout::{ALL, FOUR, part_of};
use crate::settings::{BoxSettings, WhenDead};

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
        way.take(segments, before, data)?;
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
            Ok(true) if self.way(direction).waiting() > 1 => Verdict::Wait,
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

    fn works(&self) -> bool {
        self.requests.is_servers_turn() || self.responses.is_servers_turn()
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
