//! One HTTP message that is handed to an ICAP server as it comes, and what the server says of it.
//!
//! Is not: what becomes of the message. Invariants: with a preview no more than that is sent before
//! the server asks for more (RFC 3507, section 4.5); the server may answer before it has heard
//! everything, and then hears no more, also where it ends the connection at once; only a connection
//! that has served before is tried again, once, before anything of the body has gone; it has
//! [`Server::patience`] for each step that is its own, and none runs while the body's sender is
//! slow; what it says is not read on while [`MAX_SAID`] bytes of it wait.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::reply::{Asked, Follows, Replies, Said, Wrong};
use super::server::{Age, Dead, Link, Server};
use crate::http::write_chunk;

/// Most bytes of a body that wait for the server.
pub(crate) const MAX_FEED: usize = 1 << 16;
/// Most bytes of an answer that wait.
pub(crate) const MAX_SAID: usize = 1 << 16;
/// How much is read at once.
const PIECE: usize = 1 << 14;

/// The message, before its body.
#[derive(Clone, Debug)]
pub(crate) struct Opening {
    /// The head of the request, if it is known; of a response it is what the response answers.
    pub(crate) request: Option<Vec<u8>>,
    /// The head of a response.
    pub(crate) response: Option<Vec<u8>>,
    /// Whether a body follows.
    pub(crate) body: Follows,
}

impl Opening {
    /// The head of ICAP with the heads of HTTP behind it.
    fn to_bytes(&self, server: &Server, preview: Option<usize>) -> Vec<u8> {
        let mut parts = Vec::new();
        let mut heads = Vec::new();
        for (name, head) in [("req-hdr", &self.request), ("res-hdr", &self.response)] {
            if let Some(head) = head {
                parts.push(format!("{name}={}", heads.len()));
                heads.extend_from_slice(head);
            }
        }
        let body = match (self.body, &self.response) {
            (Follows::Nothing, _) => "null-body",
            (Follows::Body, Some(_)) => "res-body",
            (Follows::Body, None) => "req-body",
        };
        parts.push(format!("{body}={}", heads.len()));
        let preview = preview.map_or(String::new(), |length| format!("Preview: {length}\r\n"));
        let mut out = format!(
            "{} {} ICAP/1.0\r\nHost: {}\r\nAllow: 204\r\n{preview}Encapsulated: {}\r\n\r\n",
            server.method(),
            server.url,
            server.authority,
            parts.join(", ")
        )
        .into_bytes();
        out.extend(heads);
        out
    }
}

/// What the two sides of an exchange have for each other.
#[derive(Debug, Default)]
struct Table {
    /// Pieces of the body.
    feed: VecDeque<Vec<u8>>,
    feed_len: usize,
    body: Body,
    /// What the server says.
    said: VecDeque<Said>,
    said_len: usize,
    /// Whether it is the server that has to do something, for which it has limited time.
    is_its_turn: bool,
}

/// Whether more of a body comes, and is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Body {
    #[default]
    Comes,
    Ended,
    /// The server wants no more of it.
    Unwanted,
}

#[derive(Debug, Default)]
struct Shared {
    table: Mutex<Table>,
    changed: Notify,
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next piece of the body; `None` at its end.
    async fn next(&self) -> Option<Vec<u8>> {
        loop {
            {
                let mut table = self.table();
                if let Some(piece) = table.feed.pop_front() {
                    table.feed_len -= piece.len();
                    return Some(piece);
                }
                if table.body != Body::Comes {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }

    fn turn(&self, is_its_turn: bool) {
        self.table().is_its_turn = is_its_turn;
    }

    /// Waits until there is room for what the server says.
    async fn room(&self) {
        while self.table().said_len >= MAX_SAID {
            self.changed.notified().await;
        }
    }
}

/// A message on its way to a server, which goes on where [`Self::progress`] is polled.
pub(crate) struct Exchange {
    shared: Arc<Shared>,
    talk: Option<Talk>,
}

/// A conversation with a server.
type Talk = Pin<Box<dyn Future<Output = Result<(), Dead>> + Send>>;

impl Exchange {
    pub(crate) fn new(server: Arc<Server>, opening: Opening) -> Self {
        let shared = Arc::new(Shared::default());
        let talk = talk(server, opening, Arc::clone(&shared));
        Self {
            shared,
            talk: Some(Box::pin(talk)),
        }
    }

    /// Hands on a piece of the body.
    pub(crate) fn feed(&self, data: &[u8]) {
        let mut table = self.shared.table();
        if table.body == Body::Comes && !data.is_empty() {
            table.feed_len += data.len();
            table.feed.push_back(data.to_vec());
        }
        drop(table);
        self.shared.changed.notify_waiters();
    }

    /// The body is whole.
    pub(crate) fn end(&self) {
        let mut table = self.shared.table();
        if table.body == Body::Comes {
            table.body = Body::Ended;
        }
        drop(table);
        self.shared.changed.notify_waiters();
    }

    /// How many bytes of the body wait.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.table().feed_len
    }

    /// Whether the server has to do something: it ends, or fails, within its patience.
    pub(crate) fn is_its_turn(&self) -> bool {
        self.shared.table().is_its_turn
    }

    /// What the server says next.
    pub(crate) fn said(&self) -> Option<Said> {
        let mut table = self.shared.table();
        let said = table.said.pop_front()?;
        if let Said::Body(data) = &said {
            table.said_len -= data.len();
        }
        drop(table);
        self.shared.changed.notify_waiters();
        Some(said)
    }

    /// Goes on. Ready once it has ended, with what has ended it early.
    pub(crate) fn progress(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Dead>> {
        let Some(talk) = self.talk.as_mut() else {
            return Poll::Pending;
        };
        let ended = talk.as_mut().poll(context);
        if ended.is_ready() {
            self.talk = None;
        }
        ended
    }

    /// Whether something of what the server says waits.
    pub(crate) fn has_said(&self) -> bool {
        !self.shared.table().said.is_empty()
    }
}

/// What is still to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    /// So much of the preview.
    Preview(usize),
    /// Nothing before the server asks for it; whether the preview was everything.
    Asked(Whole),
    Rest,
    Nothing,
}

/// Whether a preview was the whole body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whole {
    Yes,
    No,
}

async fn talk(server: Arc<Server>, opening: Opening, shared: Arc<Shared>) -> Result<(), Dead> {
    shared.turn(true);
    let talked = converse(&server, opening, &shared).await;
    server.note(talked.as_ref().copied());
    {
        let mut table = shared.table();
        table.body = Body::Unwanted;
        table.feed.clear();
        table.feed_len = 0;
        table.is_its_turn = false;
    }
    talked
}

/// How far a conversation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing of an answer has come, and nothing of a body was taken: it can begin again.
    Opening,
    Begun,
}

async fn converse(server: &Server, opening: Opening, shared: &Shared) -> Result<(), Dead> {
    let mut link = server.connect().await?;
    let mut stage = Stage::Opening;
    let talked = converse_over(&mut link, server, &opening, shared, &mut stage).await;
    let is_gone = matches!(talked, Err(Dead::Io(_) | Dead::Wrong(Wrong::Cut)));
    let talked = match (link.age, stage) {
        // It ended as this message went out, which says nothing of the server.
        (Age::Used, Stage::Opening) if is_gone => {
            shared.turn(true);
            link = server.again(link).await?;
            converse_over(&mut link, server, &opening, shared, &mut stage).await
        }
        (Age::Used | Age::Fresh, Stage::Opening | Stage::Begun) => talked,
    };
    if talked? == Stays::Yes {
        server.keep(link.stream);
    }
    Ok(())
}

/// Whether a connection can serve for another message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stays {
    Yes,
    No,
}

async fn converse_over(
    link: &mut Link,
    server: &Server,
    opening: &Opening,
    shared: &Shared,
    stage: &mut Stage,
) -> Result<Stays, Dead> {
    let mut stays = Stays::Yes;
    let preview = link.preview.filter(|_| opening.body == Follows::Body);
    let mut out = opening.to_bytes(server, preview);
    let mut sending = match (opening.body, preview) {
        (Follows::Nothing, _) => Sending::Nothing,
        (Follows::Body, None) => Sending::Rest,
        (Follows::Body, Some(length)) => Sending::Preview(length),
    };
    // What did not fit into the preview.
    let mut behind = Vec::new();
    let mut replies = Replies::new(Asked::Message);
    let mut piece = vec![0; PIECE];
    let mut deadline = Instant::now() + server.patience;
    while !replies.is_done() {
        if sending == Sending::Preview(0) {
            out.extend_from_slice(b"0\r\n\r\n");
            sending = Sending::Asked(Whole::No);
        }
        let is_fed = matches!(sending, Sending::Preview(_) | Sending::Rest);
        let takes = is_fed && out.is_empty();
        // What the server has to do, it has to do in time.
        let is_its_turn = !out.is_empty() || !is_fed;
        let (mut read, mut write) = link.stream.split();
        let has_room = shared.table().said_len < MAX_SAID;
        shared.turn(is_its_turn && has_room);
        tokio::select! {
            length = read.read(&mut piece), if has_room => {
                let length = length?;
                if length == 0 {
                    return Err(Wrong::Cut.into());
                }
                *stage = Stage::Begun;
                for said in replies.push(&piece[..length])? {
                    match (said, sending) {
                        (Said::Continue, Sending::Asked(Whole::No)) => {
                            write_chunk(&std::mem::take(&mut behind), &mut out);
                            sending = Sending::Rest;
                        }
                        // Nobody has waited for that.
                        (Said::Continue, _) => {
                            return Err(Wrong::Status(100).into());
                        }
                        (said, _) => {
                            let mut table = shared.table();
                            if let Said::Body(data) = &said {
                                table.said_len += data.len();
                            }
                            table.said.push_back(said);
                        }
                    }
                }
            }
            written = write.write(&out), if !out.is_empty() => match written {
                Ok(length) => {
                    out.drain(..length);
                }
                // It takes no more, and may have said why: an answer can come before the end.
                Err(_) => {
                    out.clear();
                    sending = Sending::Nothing;
                    stays = Stays::No;
                }
            },
            more = shared.next(), if takes => match (more, sending) {
                (Some(data), Sending::Preview(left)) => {
                    *stage = Stage::Begun;
                    let (now, later) = data.split_at(left.min(data.len()));
                    write_chunk(now, &mut out);
                    behind.extend_from_slice(later);
                    sending = Sending::Preview(left - now.len());
                }
                (Some(data), _) => {
                    *stage = Stage::Begun;
                    write_chunk(&data, &mut out);
                }
                (None, Sending::Preview(_)) => {
                    out.extend_from_slice(b"0; ieof\r\n\r\n");
                    sending = Sending::Asked(Whole::Yes);
                }
                (None, _) => {
                    out.extend_from_slice(b"0\r\n\r\n");
                    sending = Sending::Nothing;
                }
            },
            () = shared.room(), if !has_room => {}
            () = sleep_until(deadline), if is_its_turn && has_room => {
                return Err(Dead::Late(server.patience));
            }
        }
        deadline = Instant::now() + server.patience;
    }
    let is_all_sent = out.is_empty()
        && match sending {
            Sending::Nothing | Sending::Asked(_) => true,
            Sending::Preview(_) | Sending::Rest => false,
        };
    Ok(match is_all_sent && replies.may_stay() {
        true => stays,
        false => Stays::No,
    })
}
