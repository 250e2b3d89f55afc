//! A connection that stands, as long as there are frames: the handshake read along, flights held,
//! written, rebuilt and asked for.
//!
//! Is not: the order of frames (`writer`, `reader`), or what is made of a flight
//! (`tandem-engine`). It is the same at either side but for what is held: a hello and the client's
//! flight after the server's, or the server's first.
//!
//! Invariants: what is held is the end of what was read along; a direction that started in
//! pass-through stays in pass-through; when the handshake is over, or not one for the engine,
//! everything that is kept for it is freed.

mod answers;
mod consent;
mod sealed;
mod timing;

use std::net::SocketAddr;
use std::time::Duration;

use tandem_delta::{Delta, DeltaError, Encoding};
use tandem_engine::{AnswerWatch, Crossed, Ground, Moment, Outlook, Role, Said, Sender, Stage};
use tandem_link::tunnel::{self, MAX_HINTS, MAX_LEN, Malformed, Miss, Piece};
use tandem_store::{ObjectId, Site, Store};
use tandem_wire::Instant;

use crate::event::{Dropped, Event};
use crate::following::Following;
use crate::output::{Context, Output};
use crate::passing::{Direction, Lead, Passing};
use crate::reader::{Arrived, Coded, Placed, Reader};
use crate::writer::{Shorter, What, Writer};
use consent::Asking;
pub(crate) use consent::ClientKeys;
use sealed::{SPENT_FOR_LATER, literal};
pub use timing::KEY_HOLD;

/// How long a client may say nothing before the server side is told of it all the same: some
/// servers speak first. More delays those by as much; less spends a packet on clients that are
/// slow.
pub const SILENCE: Duration = Duration::from_millis(50);

/// Longest that a client's bytes are held for the rest of a hello, or of a flight. Packet mode's
/// `hold_time`.
pub const CLIENT_HOLD: Duration = Duration::from_millis(200);

/// Longest that a server's are. More than the client's: a server computes a signature, and may ask
/// others, between two messages of its flight; nobody repeats anything meanwhile, as TCP ends at
/// the proxy.
pub const SERVER_HOLD: Duration = Duration::from_millis(500);

/// What is to be made of what the endpoint sends next.
#[derive(Debug)]
enum Phase {
    /// Client side: nothing has come, nothing was sent.
    Silent { since: Instant },
    /// Client side: the hello is not whole, and passes as it comes.
    Hello,
    /// Client side: the hello is held until it is whole.
    HelloHeld { since: Instant },
    /// A flight may come that is held.
    Flight,
    /// A flight is held until it is whole.
    FlightHeld(Hold),
    /// Server side: the server has asked for another hello; behind that a flight may come, written
    /// on this ground.
    AskedAgain(Ground),
    /// Everything passes as it comes.
    Plain,
}

/// A flight that is held: the end of the stream that is read along.
#[derive(Debug)]
struct Hold {
    since: Instant,
    /// Where it begins.
    before: usize,
    ground: Ground,
}

/// A delta that is to be written.
struct Written {
    /// The first number that it names.
    first_number: Option<u32>,
    shorter: Shorter,
    /// Where in the endpoint's stream it ends.
    end: usize,
}

/// Why the handshake is not followed any more.
enum Over {
    Finished,
    Passed(tandem_engine::Pass),
    TooLong,
}

/// A connection with frames.
#[derive(Debug)]
pub(crate) struct Joined {
    role: Role,
    /// The site, where the client names none.
    server: SocketAddr,
    phase: Phase,
    /// `None` once the handshake is over.
    following: Option<Box<Following>>,
    writer: Writer,
    reader: Reader,
    crossed: Crossed,
    lead: Lead,
    client_keys: ClientKeys,
    asking: Asking,
    /// Client side: the chain of a client's flight that was written and has no answer, once the
    /// handshake is over. In TLS 1.3 that flight ends it.
    written_chain: Option<ObjectId>,
    /// Client side: what reads the client's answer to a flight that has passed as it is.
    watch: Option<Box<AnswerWatch>>,
}

impl Joined {
    /// One at the client side, which begins with this first message.
    pub(crate) fn client_side(server: SocketAddr, opening: Vec<u8>, now: Instant) -> Self {
        let phase = Phase::Silent { since: now };
        Self::new(Role::ClientSide, server, opening, phase)
    }

    /// One at the server side, whose target is connected to.
    pub(crate) fn server_side(server: SocketAddr) -> Self {
        Self::new(Role::ServerSide, server, Vec::new(), Phase::Flight)
    }

    fn new(role: Role, server: SocketAddr, opening: Vec<u8>, phase: Phase) -> Self {
        Self {
            role,
            server,
            phase,
            following: Some(Box::new(Following::new())),
            writer: Writer::new(opening),
            reader: Reader::new(),
            crossed: Crossed::Whole,
            lead: Lead::Handshake,
            client_keys: ClientKeys::AsTold,
            asking: Asking::No,
            written_chain: None,
            watch: None,
        }
    }

    /// The same with this done about clients' keys.
    pub(crate) fn with_client_keys(self, client_keys: ClientKeys) -> Self {
        Self {
            client_keys,
            ..self
        }
    }

    /// The same without its handshake being read along.
    pub(crate) fn unfollowed(mut self) -> Self {
        self.following = None;
        self.lead = Lead::unfollowed();
        self.writer.writes_whole_handshakes();
        self
    }

    /// See [`crate::Relay::site`].
    pub(crate) fn site(&self) -> Option<Site> {
        let connection = &self.following.as_ref()?.connection;
        let is_known = connection.hello_is_complete();
        is_known.then(|| connection.site(self.server))
    }

    /// The endpoint of this side.
    fn near(&self) -> Sender {
        match self.role {
            Role::ClientSide => Sender::Client,
            Role::ServerSide => Sender::Server,
        }
    }

    /// The other one.
    fn far(&self) -> Sender {
        match self.role {
            Role::ClientSide => Sender::Server,
            Role::ServerSide => Sender::Client,
        }
    }

    fn moment<S>(&self, cx: &Context<'_, S>) -> Moment {
        Moment {
            server: self.server,
            now: cx.clock.now,
            wall: cx.clock.wall,
        }
    }

    /// The endpoint sent this.
    pub(crate) fn endpoint<S: Store>(&mut self, bytes: &[u8], cx: &mut Context<'_, S>) {
        if bytes.is_empty() || self.writer.has_ended() {
            return;
        }
        let near = self.near();
        let (to_come, moment) = (self.flight_to_come(cx), self.moment(cx));
        let Some(following) = &mut self.following else {
            if let Some(watch) = &mut self.watch
                && !watch.read(bytes, cx.engine)
            {
                self.watch = None;
            }
            self.writer.bytes(bytes);
            self.lead.sent(bytes.len());
            return;
        };
        let before = following.stream(near).len();
        if following.read(near, bytes).is_none() {
            self.conclude(Over::TooLong, cx);
            self.writer.bytes(bytes);
            return;
        }
        if before == 0 && near == Sender::Server {
            following.keep_hello(cx.engine);
        }
        following.unseal(near, cx.engine, moment);
        match (following.connection.stage(), &self.phase) {
            (Stage::Going, _) => self.consider(before, to_come, cx),
            // They go with what is held.
            (_, Phase::HelloHeld { .. } | Phase::FlightHeld(_)) => {}
            (
                _,
                Phase::Silent { .. }
                | Phase::Hello
                | Phase::Flight
                | Phase::AskedAgain(_)
                | Phase::Plain,
            ) => {
                self.phase = Phase::Plain;
                self.writer.writes_no_delta();
                self.pass(before);
            }
        }
        self.conclude_if_over(cx);
    }

    /// The endpoint's stream has grown from `before` on; `to_come` is the ground of a flight that
    /// may begin there.
    fn consider<S: Store>(
        &mut self,
        before: usize,
        to_come: Option<Ground>,
        cx: &mut Context<'_, S>,
    ) {
        match &self.phase {
            Phase::Silent { .. } => {
                self.phase = Phase::HelloHeld {
                    since: cx.clock.now,
                };
                self.consider_hello(0, cx);
            }
            Phase::Hello if before == 0 => {
                self.phase = Phase::HelloHeld {
                    since: cx.clock.now,
                };
                self.consider_hello(0, cx);
            }
            Phase::HelloHeld { .. } => self.consider_hello(0, cx),
            Phase::Hello => {
                self.consider_hello(before, cx);
                if let Phase::Hello = self.phase {
                    self.pass(before);
                }
            }
            Phase::Flight => {
                self.hold_flight(before, to_come, cx.clock.now);
                self.consider_flight(cx);
            }
            Phase::FlightHeld(_) => self.consider_flight(cx),
            Phase::AskedAgain(_) => {
                self.hold_flight_after_retry(before, cx.clock.now);
                self.consider_flight(cx);
            }
            Phase::Plain => self.pass(before),
        }
    }

    /// The endpoint's stream from `before` on goes as it is.
    fn pass(&mut self, before: usize) {
        let near = self.near();
        if let Some(following) = &self.following
            && let Some(bytes) = following.stream(near).get(before..)
        {
            self.writer.bytes(bytes);
        }
    }

    /// The client's hello may be whole; what was not sent of it begins at `before`.
    fn consider_hello<S: Store>(&mut self, before: usize, cx: &mut Context<'_, S>) {
        let moment = self.moment(cx);
        let Some(following) = &self.following else {
            return;
        };
        let connection = &following.connection;
        if !connection.hello_is_complete() {
            return;
        }
        self.phase = Phase::Flight;
        let outlook = match before {
            0 => connection.hello(following.streams(), cx.engine, (MAX_LEN, moment.now)),
            _ => Outlook::Nothing,
        };
        let written = match outlook {
            Outlook::Ground(ground) => self.shorter(&ground, 0, cx),
            Outlook::Open | Outlook::Nothing => None,
        };
        let after = written.as_ref().and_then(|written| written.first_number);
        self.say(after, cx);
        self.offer_key(cx);
        match written {
            Some(written) => {
                self.writer.delta(What::Hello, written.shorter);
                cx.engine.hello_written();
            }
            None => self.pass(before),
        }
    }

    /// Says what is held for the server's flight; `after` is the first number in the hello's delta.
    fn say<S: Store>(&mut self, after: Option<u32>, cx: &mut Context<'_, S>) {
        let moment = self.moment(cx);
        let Some(following) = &mut self.following else {
            return;
        };
        match following
            .connection
            .say(after, cx.engine, moment, MAX_HINTS)
        {
            Said::Flight => {}
            Said::Hints(hints) if hints.is_empty() && after.is_some() => self.writer.unknown(),
            Said::Hints(hints) => self.writer.hints(hints),
        }
    }

    /// Before the endpoint sends more: the ground of a flight that may come.
    fn flight_to_come<S: Store>(&mut self, cx: &mut Context<'_, S>) -> Option<Ground> {
        let (Phase::Flight, Some(following)) = (&self.phase, &mut self.following) else {
            return None;
        };
        let is_first = following.stream(Sender::Server).is_empty();
        let sealed = match self.role {
            Role::ClientSide => following.sealed_client_flight_to_come(cx.engine, cx.clock.now),
            Role::ServerSide => None,
        };
        let connection = &following.connection;
        let ground = match self.role {
            Role::ClientSide => sealed.or_else(|| connection.client_flight_to_come(cx.engine)),
            // A direction that started in pass-through stays in pass-through.
            Role::ServerSide => (is_first && connection.hello_is_complete())
                .then(|| connection.server_flight(&self.reader.said(), cx.engine)),
        };
        ground.filter(|_| self.writer.may_write_delta())
    }

    /// What the endpoint sends from `before` on is held, where a flight may come.
    fn hold_flight(&mut self, before: usize, ground: Option<Ground>, now: Instant) {
        let following = self.following.as_ref();
        let server_has_spoken = following.is_some_and(|following| {
            // A request for another hello is not its flight.
            !following.stream(Sender::Server).is_empty() && !following.connection.is_asked_again()
        });
        match (ground, self.role) {
            (Some(ground), _) => {
                self.phase = Phase::FlightHeld(Hold {
                    since: now,
                    before,
                    ground,
                });
            }
            // Before the server's flight there is none of the client's.
            (None, Role::ClientSide) if !server_has_spoken => self.pass(before),
            (None, Role::ClientSide | Role::ServerSide) => {
                self.phase = Phase::Plain;
                self.pass_flight(before, Dropped::NoDelta);
            }
        }
    }

    /// The endpoint's flight goes as it is, from `before` on, and no other in another form; why,
    /// where it is a server's that was opened.
    fn pass_flight(&mut self, before: usize, why: Dropped) {
        self.drop_opened(why);
        if let Some(following) = &mut self.following {
            following.flight_passes(self.role);
        }
        self.writer.writes_no_delta();
        self.pass(before);
    }

    /// A flight that is held may be whole.
    fn consider_flight<S: Store>(&mut self, cx: &mut Context<'_, S>) {
        let near = self.near();
        self.ask_for_key(cx);
        let (Phase::FlightHeld(hold), Some(following)) = (&mut self.phase, &self.following) else {
            return;
        };
        let connection = &following.connection;
        if connection.is_asked_again() && hold.before == 0 {
            return self.pass_retry();
        }
        if hold.ground.awaits_client_flight() {
            match connection.client_flight(following.streams(), cx.engine) {
                Outlook::Open => return,
                Outlook::Nothing => return self.release(Dropped::NoGain),
                Outlook::Ground(ground) => hold.ground = ground,
            }
        }
        if !connection.is_whole(&hold.ground, near) {
            if following.ends_in_fatal_alert(near) {
                self.release(Dropped::ServerEnded);
            }
            return;
        }
        let what = match self.role {
            Role::ClientSide => What::ClientFlight,
            Role::ServerSide => What::ServerFlight,
        };
        let Phase::FlightHeld(hold) = std::mem::replace(&mut self.phase, Phase::Plain) else {
            return;
        };
        match self.shorter(&hold.ground, hold.before, cx) {
            Some(written) => {
                self.writer.delta(what, written.shorter);
                cx.engine.flight_written(&hold.ground);
                self.opened_flight_written(cx);
                self.pass(written.end);
            }
            None => self.pass_flight(hold.before, Dropped::NoGain),
        }
    }

    /// The endpoint's stream from `before` on as a delta; `None` where that is not shorter, or may
    /// not be written now.
    fn shorter<S: Store>(
        &self,
        ground: &Ground,
        before: usize,
        cx: &mut Context<'_, S>,
    ) -> Option<Written> {
        let near = self.near();
        let following = self.following.as_ref()?;
        if !self.writer.may_write_delta() {
            return None;
        }
        let stream = following.stream(near);
        let outgoing = following.connection.outgoing(near, stream, before);
        let bytes = outgoing.bytes()?;
        let plan = ground.plan(outgoing, cx.engine.store())?;
        let sealed = following.connection.sealed_flight(near, stream, before);
        let delta = match (plan.finish(Encoding::Three), sealed) {
            (Some(delta), _) => delta,
            (None, Some(sealed)) if sealed.is_for_later() => literal(bytes),
            (None, Some(_) | None) => return None,
        };
        let read = Delta::parse(Encoding::Three, &delta, MAX_LEN).ok()?;
        let first_number = read.first_number();
        let (shorter, end) = match sealed {
            None => (Shorter::new(delta, bytes)?, stream.len()),
            Some(sealed) => {
                let message = sealed.message(&delta)?;
                let spent = match sealed.is_for_later() {
                    true => SPENT_FOR_LATER,
                    false => 0,
                };
                let shorter = Shorter::sealed(message, sealed.sealed()?, spent)?;
                (shorter, sealed.end())
            }
        };
        Some(Written {
            first_number,
            shorter,
            end,
        })
    }

    /// What is held goes as it is, and nothing is held any more but what follows a hello; why,
    /// where it is a server's flight that was opened.
    fn release(&mut self, why: Dropped) {
        match std::mem::replace(&mut self.phase, Phase::Plain) {
            Phase::HelloHeld { .. } => {
                self.phase = Phase::Hello;
                self.pass(0);
            }
            Phase::FlightHeld(hold) => self.pass_flight(hold.before, why),
            // The flight, if it comes now, is not opened.
            Phase::AskedAgain(_) => {}
            other @ (Phase::Silent { .. } | Phase::Hello | Phase::Flight | Phase::Plain) => {
                self.phase = other;
            }
        }
    }

    /// Ends the following of a handshake that is over.
    fn conclude_if_over<S: Store>(&mut self, cx: &mut Context<'_, S>) {
        let stage = self.following.as_ref().map(|it| it.connection.stage());
        match stage {
            Some(Stage::Finished) => self.conclude(Over::Finished, cx),
            Some(Stage::Pass(pass)) => self.conclude(Over::Passed(pass), cx),
            Some(Stage::Going) | None => {}
        }
    }

    fn conclude<S: Store>(&mut self, over: Over, cx: &mut Context<'_, S>) {
        self.writer.writes_no_delta();
        self.say_no_key(cx);
        self.release(Dropped::Unfollowed);
        self.drop_opened(Dropped::Unfollowed);
        // A client that is still silent is told of by the timer, or with what the server says.
        if !matches!(self.phase, Phase::Silent { .. }) {
            self.phase = Phase::Plain;
        }
        let moment = self.moment(cx);
        let Some(following) = self.following.take() else {
            return;
        };
        let (connection, streams) = (&following.connection, following.streams());
        if self.writer.awaits_answer(What::ClientFlight) {
            self.written_chain = connection.client_chain_id(streams);
        }
        let event = match over {
            Over::Finished => {
                self.lead = Lead::Ending;
                // How long an answer takes matters to published filters alone, which the tunnel
                // does not have.
                let crossed = (self.crossed, Duration::ZERO);
                connection.finished(streams, cx.engine, moment, crossed);
                Event::HandshakeFinished
            }
            Over::Passed(pass) => {
                self.lead = Lead::unfollowed();
                connection.gave_up(streams, cx.engine, moment);
                if (self.role, pass) == (Role::ClientSide, tandem_engine::Pass::Tls13) {
                    self.watch = connection.watch_answer(streams, cx.engine).map(Box::new);
                }
                Event::HandshakePassed(pass)
            }
            Over::TooLong => {
                self.lead = Lead::unfollowed();
                Event::HandshakeTooLong
            }
        };
        cx.tell(event);
    }

    /// The endpoint sends no more.
    pub(crate) fn endpoint_end<S: Store>(&mut self, cx: &mut Context<'_, S>) {
        self.watch = None;
        self.say_no_key(cx);
        self.release(Dropped::ServerEnded);
        self.phase = Phase::Plain;
        self.writer.end();
    }

    /// This came on the stream.
    pub(crate) fn tunnel<S: Store>(
        &mut self,
        mut bytes: &[u8],
        cx: &mut Context<'_, S>,
    ) -> Result<(), Malformed> {
        while let Some(arrived) = self.reader.next(&mut bytes)? {
            self.arrived(arrived, cx)?;
        }
        Ok(())
    }

    /// The peer has ended its direction.
    pub(crate) fn tunnel_end<S: Store>(
        &mut self,
        cx: &mut Context<'_, S>,
    ) -> Result<(), Malformed> {
        if !self.writer.peer_needs_no_frames() {
            return Err(Malformed);
        }
        match self.reader.close()? {
            Some(arrived) => self.arrived(arrived, cx),
            None => Ok(()),
        }
    }

    fn arrived<S: Store>(
        &mut self,
        arrived: Arrived,
        cx: &mut Context<'_, S>,
    ) -> Result<(), Malformed> {
        match arrived {
            Arrived::Bytes(bytes) => {
                self.writer.arrived(bytes.len());
                self.deliver(bytes, cx);
            }
            Arrived::Coded(place, coded) => self.rebuild(place, &coded, cx)?,
            Arrived::Answer(missed) => self.answered(missed, cx)?,
            Arrived::Said => match self.role {
                Role::ClientSide => return Err(Malformed),
                Role::ServerSide => {}
            },
            Arrived::Offer(offer) => self.key_is_offered(offer)?,
            Arrived::Waits => self.key_is_wanted(cx)?,
            Arrived::Key(key) => self.key_comes(key.as_ref(), cx)?,
            Arrived::Plain => {
                self.offer_lapses(cx);
                self.writer.peer_sends_no_delta();
            }
            Arrived::Rest => {
                self.goes_on(cx);
                self.offer_lapses(cx);
                if !self.writer.peer_needs_no_frames() {
                    return Err(Malformed);
                }
                self.writer.peer_sends_no_delta();
            }
            Arrived::End => {
                self.offer_lapses(cx);
                self.writer.answer();
                self.writer.peer_sends_no_delta();
                cx.out.push_back(Output::EndEndpoint);
            }
        }
        Ok(())
    }

    /// The far endpoint's next bytes.
    fn deliver<S: Store>(&mut self, bytes: Vec<u8>, cx: &mut Context<'_, S>) {
        let far = self.far();
        let is_followed = match &mut self.following {
            Some(following) => {
                let is_first = following.stream(far).is_empty();
                let is_followed = following.read(far, &bytes);
                if is_first && far == Sender::Server {
                    following.keep_hello(cx.engine);
                }
                if far == Sender::Server {
                    following.follow_retry();
                }
                is_followed
            }
            None => Some(()),
        };
        cx.out.push_back(Output::ToEndpoint(bytes));
        match is_followed {
            Some(()) => self.conclude_if_over(cx),
            None => self.conclude(Over::TooLong, cx),
        }
    }

    /// What a delta or a message stands for is rebuilt, or its original asked for.
    fn rebuild<S: Store>(
        &mut self,
        place: Placed,
        coded: &Coded,
        cx: &mut Context<'_, S>,
    ) -> Result<(), Malformed> {
        if self.writer.owes_answer() {
            return Err(Malformed);
        }
        self.goes_on(cx);
        let is_hello = (self.role, place) == (Role::ServerSide, Placed::First);
        if !is_hello {
            self.reader.plain();
        }
        let rebuilt = match coded {
            Coded::Delta { check, delta } => self.rebuilt(*check, delta, cx),
            Coded::Sealed(message) => self
                .resealed(place, message, cx)?
                .map(|bytes| (bytes, None)),
        };
        match rebuilt {
            Ok((bytes, first_number)) => {
                cx.tell(if is_hello {
                    Event::HelloRebuilt
                } else {
                    Event::FlightRebuilt
                });
                match (&mut self.following, self.role) {
                    (Some(following), Role::ServerSide) if is_hello => {
                        following.connection.hello_came_after(first_number);
                    }
                    (_, Role::ServerSide) => self.crossed = Crossed::Spared,
                    (_, Role::ClientSide) => {}
                }
                self.writer.rebuilt();
                if !is_hello {
                    self.writer.peer_sends_no_delta();
                }
                self.deliver(bytes, cx);
            }
            Err(miss) => {
                cx.tell(Event::FlightMissed(miss));
                let following = self.following.as_ref();
                let has_recalled =
                    following.is_some_and(|following| following.connection.has_recalled());
                self.key_was_of_no_use(cx);
                match self.role {
                    Role::ServerSide if is_hello => {}
                    Role::ServerSide => cx.engine.client_flight_not_rebuilt(cx.clock.now),
                    Role::ClientSide if has_recalled => cx.engine.server_flight_not_rebuilt(),
                    // It was written against hints: what went missing is no earlier flight.
                    Role::ClientSide => {}
                }
                self.reader.miss();
                self.writer.missed(miss);
                if !is_hello {
                    self.writer.peer_sends_no_delta();
                }
            }
        }
        Ok(())
    }

    /// The bytes that a delta stands for, and the first number that it names.
    fn rebuilt<S: Store>(
        &self,
        check: [u8; tunnel::CHECK_LEN],
        delta: &Piece,
        cx: &mut Context<'_, S>,
    ) -> Result<(Vec<u8>, Option<u32>), Miss> {
        let reason = |error| match error {
            DeltaError::Miss(_) => Miss::NotHeld,
            DeltaError::Malformed | DeltaError::TooLong { .. } | DeltaError::OutOfRange(_) => {
                Miss::Malformed
            }
        };
        let delta = Delta::parse(Encoding::Three, delta.bytes(), MAX_LEN).map_err(reason)?;
        if delta.rebuilt_len() == 0 {
            return Err(Miss::Malformed);
        }
        let bytes = match (self.role, &self.following) {
            (Role::ClientSide, Some(following)) => {
                delta.apply(&mut following.connection.source(cx.engine))
            }
            (Role::ClientSide, None) => return Err(Miss::NotHeld),
            (Role::ServerSide, _) => delta.apply(&mut cx.engine.source(cx.clock.now)),
        };
        let bytes = bytes.map_err(reason)?;
        if tunnel::check(&bytes) == check {
            Ok((bytes, delta.first_number()))
        } else {
            Err(Miss::Check)
        }
    }

    /// Hands over what was written.
    pub(crate) fn flush<S>(&mut self, cx: &mut Context<'_, S>) {
        self.writer.flush(cx.out);
        self.lead.handed_over(cx.out);
    }

    /// What there is to do from here on, once there are no frames any more.
    pub(crate) fn passing(&self) -> Option<Passing> {
        let direction = |is_raw, is_closed| match (is_raw, is_closed) {
            (_, true) => Some(Direction::Ended),
            (true, false) => Some(Direction::Open),
            (false, false) => None,
        };
        let is_read_along = self.following.is_some() || self.watch.is_some();
        if is_read_along && !(self.writer.is_closed() && self.reader.is_closed()) {
            return None;
        }
        Some(Passing {
            outward: direction(self.writer.is_raw(), self.writer.is_closed())?,
            inward: direction(self.reader.is_raw(), self.reader.is_closed())?,
            lead: self.lead,
        })
    }

    /// Whether the endpoint's next bytes have room.
    pub(crate) fn has_room(&self) -> bool {
        self.writer.has_room()
    }

    /// Bytes of memory in use, about.
    pub(crate) fn footprint(&self) -> usize {
        let following = self.following.as_ref();
        following.map_or(0, |following| following.footprint())
            + self.writer.footprint()
            + self.reader.footprint()
    }
}
