//! A message that is not through yet, and what becomes of it by what the ICAP server says.
//!
//! Is not: the records in which it comes ([`super::way`]). Invariants: once a part of it has gone
//! on, no other stands in its place; where the server fails, what happens is [`WhenDead`].

use std::sync::Arc;
use std::task::{Context, Poll};

use mctls::record::MAX_PAYLOAD_LEN;

use super::original::{Original, Seen};
use crate::http::{Head, LAST_CHUNK, Side, write_chunk};
use crate::icap::exchange::{Exchange, MAX_FEED, Opening};
use crate::icap::reply::{Follows, Said};
use crate::icap::server::{Dead, Server};
use crate::offers::Hasher;
use crate::settings::WhenDead;

/// How much of a server's message waits to be put in a record's place: a record can become eight.
pub(super) const MAX_OUT: usize = 7 * MAX_PAYLOAD_LEN;

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
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

/// A message that is not through yet.
pub(super) struct Message {
    exchange: Exchange,
    original: Original,
    pub(super) fate: Fate,
    may_change: bool,
    /// The head that goes on in the original's place.
    pub(super) head: Vec<u8>,
    /// What of the server's body can go on, in chunks.
    pub(super) out: Vec<u8>,
    body: Follows,
    pub(super) is_whole: bool,
    /// What has passed of the original's body, and of the server's where the two are compared.
    ours: Hasher,
    theirs: Hasher,
    has_ended: bool,
    /// How the exchange has ended.
    ended: Option<Result<(), Dead>>,
}

impl Message {
    /// One that begins.
    pub(super) fn new(
        server: Arc<Server>,
        opening: Opening,
        original: Original,
        may_change: bool,
    ) -> Self {
        Self {
            exchange: Exchange::new(server, opening),
            has_ended: original.body != Seen::All,
            original,
            fate: Fate::Undecided,
            may_change,
            head: Vec::new(),
            out: Vec::new(),
            body: Follows::Nothing,
            is_whole: false,
            ours: Hasher::default(),
            theirs: Hasher::default(),
            ended: None,
        }
    }

    /// Goes on with the exchange; whether anything has come of it.
    pub(super) fn progress(&mut self, context: &mut Context<'_>, dead: WhenDead) -> bool {
        if let Poll::Ready(ended) = self.exchange.progress(context) {
            self.ended = Some(ended);
        }
        self.listen(dead)
    }

    /// Whether the server has to do something.
    pub(super) fn is_servers_turn(&self) -> bool {
        self.exchange.is_its_turn()
    }

    /// Whether the server keeps up with the body.
    pub(super) fn has_room(&self) -> bool {
        self.exchange.waiting() <= MAX_FEED
    }

    /// Whether nothing that the server could still say changes what becomes of it.
    pub(super) const fn is_settled(&self) -> bool {
        match self.fate {
            Fate::Original | Fate::Blocked(_) => true,
            Fate::Replaced => self.is_whole,
            Fate::Undecided | Fate::Released | Fate::Compared => false,
        }
    }

    /// Hands on a piece of the body.
    pub(super) fn feed(&mut self, data: &[u8]) {
        self.ours.update(data);
        self.exchange.feed(data);
    }

    pub(super) fn end(&mut self) {
        self.has_ended = true;
        self.exchange.end();
    }

    /// Takes what the server says, as far as there is room; whether that is anything.
    pub(super) fn listen(&mut self, dead: WhenDead) -> bool {
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
