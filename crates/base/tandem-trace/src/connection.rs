//! One TCP connection: two directions put in order, the place where TLS starts in each, and the
//! handshake.
//!
//! Not a TCP endpoint, and not the table of connections. Invariants: a direction that has nothing
//! more to tell holds nothing; a connection is [`Step::Over`] as soon as both have nothing more to
//! tell, and then holds nothing; each handshake is entered once.
//!
//! ```text
//! direction   Searching --hello--> Records(role) --Finished--> Closed
//!                       --no TLS, gap, conflict--------------> Closed
//! ```
//!
//! RFC 9293, section 3.4 (sequence numbers), 3.5 (who starts where).

use std::net::SocketAddr;

use tandem_wire::tls::stream::{Framed, RecordReader};
use tandem_wire::{Assembler, Inserted, Seq, TcpFlags};

use crate::opening::{Dialogue, Found, Role, Search, shaped_as_hello};
use crate::rows::Books;
use crate::segment::Segment;
use crate::session::{Circumstances, Record, Session, Stop};
use crate::tunnel::Tunnel;

/// Segments looked at for a hello in a direction whose beginning is not in the capture. Such a
/// direction is nearly always in the middle of its data.
const MAX_TRIES: u8 = 16;

/// Which end of a connection sent a segment: the lower address and port, or the higher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Lower,
    Higher,
}

impl End {
    fn other(self) -> Self {
        match self {
            Self::Lower => Self::Higher,
            Self::Higher => Self::Lower,
        }
    }
}

/// What became of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There may be more to read.
    GoesOn,
    /// There is not.
    Over(Verdict),
}

/// What a connection was, once it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Its beginning was seen, or a handshake.
    Seen,
    /// It was open before the capture began and shows no handshake.
    AlreadyOpen,
}

/// A connection that may hold a handshake, or does.
#[derive(Debug)]
pub(crate) struct Connection {
    lower: Direction,
    higher: Direction,
    session: Option<Session>,
    /// It was reset, or both sides said FIN.
    closing: bool,
    conflict: bool,
    /// A SYN was seen.
    began: bool,
    /// A SYN, a SYN/ACK or a segment with data has no timestamps.
    lacks_timestamps: bool,
    /// The tunnel that its segments came out of.
    tunnel: Option<Tunnel>,
    /// When the last of them was captured.
    unix_micros: Option<u64>,
}

#[derive(Debug)]
struct Direction {
    sender: SocketAddr,
    start: Option<Start>,
    assembler: Option<Assembler>,
    stage: Stage,
    /// Bytes of TLS read so far.
    tls_bytes: u64,
    /// Bytes of an SSL 2.0 hello that are still to come.
    skip: usize,
    tries: u8,
    fin: bool,
    gap: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Start {
    seq: Seq,
    /// A SYN told it; else the other side's acknowledgement did.
    by_syn: bool,
}

#[derive(Debug)]
enum Stage {
    Searching(Search),
    Records(Role),
    Closed,
}

impl Direction {
    fn new(sender: SocketAddr) -> Self {
        Self {
            sender,
            start: None,
            assembler: None,
            stage: Stage::Searching(Search::default()),
            tls_bytes: 0,
            skip: 0,
            tries: 0,
            fin: false,
            gap: false,
        }
    }

    fn close(&mut self) {
        self.gap |= self.assembler.as_ref().is_some_and(Assembler::has_gap);
        self.assembler = None;
        self.stage = Stage::Closed;
    }

    fn is_closed(&self) -> bool {
        matches!(self.stage, Stage::Closed)
    }

    fn dialogue_bytes(&self) -> usize {
        match &self.stage {
            Stage::Searching(search) => search.dialogue_bytes(),
            Stage::Records(_) | Stage::Closed => 0,
        }
    }

    fn held(&self) -> usize {
        self.assembler.as_ref().map_or(0, Assembler::held)
    }

    fn learn_start(&mut self, seq: Seq) {
        if self.start.is_none() {
            self.start = Some(Start { seq, by_syn: false });
        }
    }
}

impl Connection {
    /// A connection between these two, of which nothing was seen yet.
    pub(crate) fn new(lower: SocketAddr, higher: SocketAddr) -> Self {
        Self {
            lower: Direction::new(lower),
            higher: Direction::new(higher),
            session: None,
            closing: false,
            conflict: false,
            began: false,
            lacks_timestamps: false,
            tunnel: None,
            unix_micros: None,
        }
    }

    /// Whether this SYN or SYN/ACK opens another connection between the same two.
    pub(crate) fn is_reopened_by(&self, end: End, syn: &Segment<'_>) -> bool {
        let start = self.direction(end).start;
        if syn.ack.is_some_and(|ack| self.answers_syn(end, ack)) {
            return false;
        }
        start.is_none_or(|start| start.seq != syn.seq)
            && (syn.ack.is_none() || start.is_some_and(|start| start.by_syn))
    }

    /// Whether a SYN/ACK with this acknowledgement answers the other side's SYN, or some of what
    /// that carried (RFC 7413, section 4.2). A server that forgot its first answer gives another
    /// with another number: it is the same connection.
    fn answers_syn(&self, end: End, ack: Seq) -> bool {
        let other = self.direction(end.other());
        other.start.is_some_and(|start| {
            let sent = other
                .assembler
                .as_ref()
                .map_or(start.seq, Assembler::next_seq);
            start.by_syn && !ack.is_before(start.seq) && !ack.is_after(sent)
        })
    }

    /// Whether what is left unread is a loss: a handshake going on, or one that may yet come.
    pub(crate) fn is_promising(&self) -> bool {
        let may_come = |direction: &Direction| match &direction.stage {
            Stage::Searching(search) => direction.start.is_some() && search.dialogue_bytes() == 0,
            Stage::Records(_) => true,
            Stage::Closed => false,
        };
        !self.closing && (may_come(&self.lower) || may_come(&self.higher))
    }

    /// Bytes held.
    pub(crate) fn held(&self) -> usize {
        self.lower.held() + self.higher.held() + self.session.as_ref().map_or(0, Session::held)
    }

    /// Reads one segment.
    pub(crate) fn take(
        &mut self,
        end: End,
        segment: &Segment<'_>,
        limit: usize,
        books: &mut Books<'_>,
    ) -> Step {
        self.learn_starts(end, segment);
        if !segment.payload.is_empty() && self.insert(end, segment, limit) {
            self.advance(end, segment.ack, limit, books);
        }
        if segment.flags.contains(TcpFlags::RST) {
            self.closing = true;
        }
        if segment.flags.contains(TcpFlags::FIN) {
            self.direction_mut(end).fin = true;
            self.closing |= self.lower.fin && self.higher.fin;
        }
        if self.lower.is_closed() && self.higher.is_closed() {
            Step::Over(self.finish(books))
        } else {
            Step::GoesOn
        }
    }

    /// Enters the handshake, if there is one.
    pub(crate) fn finish(&mut self, books: &mut Books<'_>) -> Verdict {
        let Some(session) = self.session.take() else {
            return if self.began {
                Verdict::Seen
            } else {
                Verdict::AlreadyOpen
            };
        };
        self.lower.close();
        self.higher.close();
        if self.conflict {
            books.losses.conflicts += 1;
        } else if self.lower.gap || self.higher.gap {
            books.losses.gaps += 1;
        }
        books.enter(&session.finish(Circumstances {
            tunnel: self.tunnel,
            lacks_timestamps: self.lacks_timestamps,
            unix_micros: self.unix_micros,
        }));
        Verdict::Seen
    }

    fn learn_starts(&mut self, end: End, segment: &Segment<'_>) {
        self.tunnel = self.tunnel.or(segment.tunnel);
        self.unix_micros = segment.unix_micros.or(self.unix_micros);
        let counts = segment.flags.contains(TcpFlags::SYN) || segment.payload_len > 0;
        self.lacks_timestamps |= counts && !segment.may_have_timestamps;
        if segment.flags.contains(TcpFlags::SYN) {
            self.began = true;
            let direction = self.direction_mut(end);
            // Numbers under which something was read already stay.
            if direction.assembler.is_none() {
                direction.start = Some(Start {
                    seq: segment.seq,
                    by_syn: true,
                });
            }
        }
        // The first acknowledgement of a side that began is of the other side's SYN and no more.
        let began = self.direction(end).start.is_some_and(|start| start.by_syn);
        if let (true, Some(ack)) = (began, segment.ack) {
            self.direction_mut(end.other()).learn_start(ack);
        }
    }

    /// Puts the payload in its place. True if there are new bytes in order, perhaps.
    fn insert(&mut self, end: End, segment: &Segment<'_>, limit: usize) -> bool {
        if self.direction(end).is_closed() {
            return false;
        }
        if self.direction(end).start.is_none() && !self.anchor(end, segment) {
            return false;
        }
        let direction = self.direction_mut(end);
        let Some(start) = direction.start else {
            return false;
        };
        let assembler = direction
            .assembler
            .get_or_insert_with(|| Assembler::new(start.seq, limit));
        match assembler.insert(segment.seq, segment.payload) {
            Inserted::New => true,
            Inserted::Duplicate => false,
            Inserted::Conflict => {
                direction.close();
                self.conflict = true;
                true
            }
            Inserted::OutOfBounds => {
                let is_ahead = segment.seq.is_after(assembler.next_seq()) || assembler.has_gap();
                direction.gap |= is_ahead;
                let role = direction.role();
                direction.close();
                if let (false, Some(role), Some(session)) = (is_ahead, role, self.session.as_mut())
                {
                    session.stop(role, Stop::TooLarge);
                }
                true
            }
        }
    }

    /// Looks for a hello at the start of a segment in a direction whose beginning is not in the
    /// capture.
    fn anchor(&mut self, end: End, segment: &Segment<'_>) -> bool {
        let Some(role) = shaped_as_hello(segment.payload) else {
            let direction = self.direction_mut(end);
            direction.tries += 1;
            if direction.tries >= MAX_TRIES {
                direction.close();
            }
            return false;
        };
        self.direction_mut(end).learn_start(segment.seq);
        if let Some(ack) = segment.ack {
            let other = self.direction_mut(end.other());
            if other.start.is_none() && !other.is_closed() {
                other.learn_start(ack);
                if role == Role::Server {
                    // What follows there comes after the hello, which is not in the capture.
                    other.stage = Stage::Records(Role::Client);
                }
            }
        }
        true
    }

    /// Reads what is in order now, of this direction and, where that opens the handshake, of the
    /// other.
    fn advance(&mut self, end: End, ack: Option<Seq>, limit: usize, books: &mut Books<'_>) {
        let had_session = self.session.is_some();
        self.advance_direction(end, ack, limit, books);
        if !had_session && self.session.is_some() {
            self.advance_direction(end.other(), None, limit, books);
        }
        self.close_what_is_over();
    }

    fn advance_direction(
        &mut self,
        end: End,
        ack: Option<Seq>,
        limit: usize,
        books: &mut Books<'_>,
    ) {
        if matches!(self.direction(end).stage, Stage::Searching(_)) {
            self.search(end, books);
        }
        if let Stage::Records(role) = self.direction(end).stage {
            self.read_records(end, role, ack, limit);
        }
    }

    fn search(&mut self, end: End, books: &mut Books<'_>) {
        let direction = self.direction_mut(end);
        let (Stage::Searching(search), Some(assembler)) =
            (&mut direction.stage, &mut direction.assembler)
        else {
            return;
        };
        let (passed, found) = search.look(assembler.contiguous());
        assembler.consume(passed);
        let spoke = search.dialogue_bytes() > 0;
        match found {
            None => {}
            Some(Found::Nothing) => {
                direction.close();
                if self.session.is_none() {
                    self.direction_mut(end.other()).close();
                }
            }
            Some(Found::Ssl2) => {
                self.began = true;
                books.ssl2_connection();
                self.session = None;
                self.lower.close();
                self.higher.close();
                return;
            }
            Some(Found::Records(role)) => self.open(end, role),
            Some(Found::OldHello { len }) => {
                self.open(end, Role::Client);
                self.direction_mut(end).skip = len;
                if let Some(session) = &mut self.session {
                    session.take_old_hello(len);
                }
            }
            Some(Found::Alert) => {
                // Only an answer to the other side's hello: until that is seen, wait.
                let other = self.direction(end.other()).role();
                if let Some(other) = other {
                    self.open(end, opposite(other));
                }
            }
        }
        self.refuse_other_answers(end, spoke);
    }

    /// A hello at the very start is answered with TLS or not at all.
    fn refuse_other_answers(&mut self, end: End, spoke: bool) {
        let unanswered = matches!(
            self.direction(end).stage,
            Stage::Searching(_) | Stage::Closed
        );
        let other = self.direction(end.other()).role();
        if let (true, true, Some(other), Some(session)) =
            (unanswered, spoke, other, self.session.as_mut())
            && !session.has_dialogue()
        {
            session.stop(opposite(other), Stop::NoTls);
            self.direction_mut(end).close();
        }
    }

    /// TLS starts here in this direction.
    fn open(&mut self, end: End, role: Role) {
        let (direction, other) = (self.direction(end), self.direction(end.other()));
        if other.role() == Some(role) {
            // Two clients are no handshake.
            self.direction_mut(end).close();
            return;
        }
        let (client, server) = match role {
            Role::Client => (direction, other),
            Role::Server => (other, direction),
        };
        let dialogue = match (
            &client.stage,
            client.dialogue_bytes() + server.dialogue_bytes(),
        ) {
            (_, 0) => None,
            (Stage::Searching(search), _) => Some(search.protocol()),
            (Stage::Records(_) | Stage::Closed, _) => Some(Dialogue::Other),
        };
        let (client, server) = (client.sender, server.sender);
        if self.session.is_none() {
            self.session = Some(Session::new(client, server, dialogue));
        }
        self.direction_mut(end).stage = Stage::Records(role);
    }

    fn read_records(&mut self, end: End, role: Role, ack: Option<Seq>, limit: usize) {
        let direction = match end {
            End::Lower => &mut self.lower,
            End::Higher => &mut self.higher,
        };
        let (Some(assembler), Some(session)) = (&mut direction.assembler, &mut self.session) else {
            return;
        };
        let skipped = direction.skip.min(assembler.contiguous().len());
        assembler.consume(skipped);
        direction.skip -= skipped;
        direction.tls_bytes += skipped as u64;
        while direction.skip == 0 && !session.is_over(role) {
            let record = match RecordReader::new().peek(assembler.contiguous()) {
                Ok(Framed::Whole(record)) => record,
                Ok(Framed::Cut | Framed::Begun(_)) => return,
                Err(_) => {
                    session.stop(role, Stop::BrokenTls);
                    return;
                }
            };
            let len = record.header.record_len();
            let bytes = assembler.contiguous().get(..len).unwrap_or_default();
            let stream_end = direction.tls_bytes + len as u64;
            let record = Record {
                header: record.header,
                bytes,
                fragment: record.fragment,
                end: assembler.start_seq().after(len),
                stream_end,
                ack,
            };
            session.take(role, record, limit);
            direction.tls_bytes = stream_end;
            assembler.consume(len);
        }
    }

    /// Closes directions that have nothing more to tell.
    fn close_what_is_over(&mut self) {
        let Some(session) = &mut self.session else {
            return;
        };
        for direction in [&mut self.lower, &mut self.higher] {
            if let Stage::Records(role) = direction.stage
                && session.is_over(role)
            {
                // What is still held comes after Finished: no gap there matters.
                direction.assembler = None;
                direction.stage = Stage::Closed;
            }
        }
        if session.has_failed() {
            self.lower.close();
            self.higher.close();
        }
    }

    fn direction(&self, end: End) -> &Direction {
        match end {
            End::Lower => &self.lower,
            End::Higher => &self.higher,
        }
    }

    fn direction_mut(&mut self, end: End) -> &mut Direction {
        match end {
            End::Lower => &mut self.lower,
            End::Higher => &mut self.higher,
        }
    }
}

impl Direction {
    fn role(&self) -> Option<Role> {
        match self.stage {
            Stage::Records(role) => Some(role),
            Stage::Searching(_) | Stage::Closed => None,
        }
    }
}

fn opposite(role: Role) -> Role {
    match role {
        Role::Client => Role::Server,
        Role::Server => Role::Client,
    }
}
