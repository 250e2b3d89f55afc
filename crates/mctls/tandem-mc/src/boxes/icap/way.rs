//! One direction of a session: its messages in order, and the records in which they come, which
//! wait until it is known what becomes of them.
//!
//! Is not: what becomes of a message ([`super::message`]), nor how records become messages
//! ([`super::Icap`]). Invariants: records go on in order, and each as a whole; of a head nothing
//! goes on before it is whole, and the last record of a message not before its fate is known; what
//! goes on unchanged are the very bytes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Context;

use mctls::record::{MAX_PARTS, MAX_PAYLOAD_LEN};
use mctls_io::Verdict;
use mctls_io::middlebox::{HELD_LEN, MAX_WAITING};

use super::message::{Fate, MAX_OUT, Message};
use super::original::{Asked, Original, Seen, follows, prefix, shown};
use crate::http::{Head, Messages, Reader, Side};
use crate::icap::exchange::Opening;
use crate::icap::server::Server;
use crate::settings::WhenDead;

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
const MAX_RECORD: usize = MAX_PARTS * MAX_PAYLOAD_LEN;

/// A part of a record.
pub(super) enum Segment {
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
pub(super) struct Way {
    pub(super) side: Side,
    pub(super) server: Option<Arc<Server>>,
    pub(super) messages: Messages,
    pub(super) sees_body: bool,
    pub(super) may_change: bool,
    /// Messages that are not through, and the number of the first.
    open: VecDeque<Message>,
    first: u64,
    /// Whether the last of them still comes.
    pub(super) is_coming: bool,
    /// How much of a head is in records that have come, as long as it is not whole.
    pub(super) begun: usize,
    records: VecDeque<Record>,
    /// What the records take, and what those do in which a head has begun that is not whole.
    held: usize,
    starts: usize,
}

/// Why a session is blocked, for this middlebox's own log.
pub(super) type Why = String;

impl Way {
    pub(super) fn new(side: Side, server: Option<Arc<Server>>) -> Self {
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

    pub(super) fn last(&self) -> u64 {
        self.next().saturating_sub(1)
    }

    /// A head that has begun in earlier records is none that is asked about: they are free to go.
    pub(super) fn let_go(&mut self) {
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

    pub(super) fn message(&mut self, number: u64) -> Option<&mut Message> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.open.get_mut(at)
    }

    /// A message begins.
    pub(super) fn begin(&mut self, head: Head, raw: &[u8], body: Seen, asked: Option<Asked>) {
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
        let original = Original {
            side: self.side,
            body,
            answers_head,
            prefix: prefix(&head),
            head,
        };
        let server = Arc::clone(server);
        let message = Message::new(server, opening, original, self.may_change);
        self.open.push_back(message);
    }

    /// A record comes, in which these are the parts, before which so much of a head that is not
    /// whole has come.
    pub(super) fn take(
        &mut self,
        mut segments: Vec<Segment>,
        before: usize,
        data: &[u8],
    ) -> Result<(), Why> {
        let len = data.len();
        self.begun = self.messages.head_so_far();
        if self.begun > before {
            let start = len.saturating_sub(self.begun - before);
            segments.push(Segment::Start(self.next(), data[start..].to_vec()));
        }
        self.starts = match (self.begun, before) {
            (0, _) => 0,
            (_, 0) => taken(len),
            (1.., 1..) => self.starts + taken(len),
        };
        // They cannot go on before the rest, for which there would be no room.
        if self.starts > HOLD {
            return Err("a head in too many records".into());
        }
        self.held += taken(len);
        self.records.push_back(Record { segments, len });
        Ok(())
    }

    /// How many records wait.
    pub(super) fn waiting(&self) -> usize {
        self.records.len()
    }

    /// The oldest message of which the server still has something to say. A record can hold several
    /// and goes as a whole, so it is not always the first that is not through.
    fn current(&mut self) -> Option<&mut Message> {
        self.open.iter_mut().find(|message| !message.is_settled())
    }

    /// Goes on with the oldest exchange: one at a time, so that a client that asks and asks costs a
    /// server one connection. Whether anything has come of it.
    pub(super) fn progress(&mut self, context: &mut Context<'_>, dead: WhenDead) -> bool {
        let current = self.current();
        current.is_some_and(|message| message.progress(context, dead))
    }

    /// Whether the server has to do something.
    pub(super) fn is_servers_turn(&self) -> bool {
        let mut open = self.open.iter();
        let current = open.find(|message| !message.is_settled());
        current.is_some_and(Message::is_servers_turn)
    }

    /// What becomes of the oldest record, once that is known.
    pub(super) fn decide(&mut self, dead: WhenDead) -> Option<Verdict> {
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
        let has_room = message.has_room();
        match (message.fate, segment) {
            (Fate::Blocked(why), _) => Ready::Blocked(why),
            (Fate::Original, _) => Ready::Now,
            (Fate::Undecided | Fate::Released | Fate::Compared, Segment::End(_)) => Ready::Later,
            (Fate::Released, _) if has_room => Ready::Now,
            (Fate::Undecided | Fate::Compared, _) if is_pressed && has_room => Ready::Now,
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

    /// The message of a part that goes on now, if another stands in its place.
    fn replacing(&mut self, number: u64) -> Option<&mut Message> {
        let message = self.message(number)?;
        if message.fate == Fate::Undecided {
            message.fate = Fate::Released;
        }
        (message.fate == Fate::Replaced).then_some(message)
    }
}

/// Whether a part of a record can go.
enum Ready {
    Now,
    Later,
    Blocked(&'static str),
}
