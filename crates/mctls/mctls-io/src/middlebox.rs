//! A middlebox: passes a session on from one TCP connection to the next, and shows a [`Service`]
//! what it may read.
//!
//! Is not: a service; the protocol's decisions ([`mctls::middlebox`]).
//!
//! Invariants: what waits for one neighbour never keeps the other direction waiting; no more than
//! [`MAX_WAITING`] bytes wait for a neighbour, and what the service makes of one more record,
//! before no more are taken for it; until the server has announced the protocol it is sent nothing
//! but TLS records, and such a passage ends after 60 times the longest pause.

mod legs;
mod next;
mod pace;
mod pair;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use mctls::config::{Configuration, Context};
use mctls::error::Alert;
use mctls::frame::{Frame, Frames};
use mctls::party::{Direction, Position};
use mctls::relay::{Passing, Relay};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use crate::error::{Error, Part};
use crate::hop::{ANNOUNCE, FAREWELL, HOLDS, RECORD, ROUTE, SHORT, Timeouts, fill, unexpected};
use crate::tickets::LegServer;
use crate::tls::{self, Identity};
use legs::{Legs, Next, ServerLeg};
pub use next::{Backends, Choice, NextHop};
pub use pace::Pace;
use pace::{Allowance, Bucket};
pub use pair::PairSettings;
use pair::{Pair, PairedHop};

/// Most bytes that wait for a neighbour before the other is read on.
pub const MAX_WAITING: usize = 1 << 18;

/// How often a passage whose server has not announced the protocol has to have passed
/// [`MIN_PLAIN_LEN`] on, in [`Timeouts::idle`]: each hour by default. A byte in each of them would
/// keep its place for ever.
const MAX_PLAIN_PAUSES: u32 = 60;

/// What a connection that is held open by its users passes at least: a ping a minute.
const MIN_PLAIN_LEN: usize = 1 << 11;

/// How much is read at once where a route is to come: all that a client sends at first, as a
/// connection that is closed with something unread is reset.
const ROUTE_LEN: usize = 1 << 14;

/// What becomes of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on as it is.
    Forward,
    /// This goes on in its place, a record for each part, one to eight; a single empty part deletes
    /// it. Needs the right to write.
    Replace(Vec<Vec<u8>>),
    /// The session ends, and both endpoints are told who has blocked it.
    Block,
    /// It waits, and what follows it in this direction behind it, until [`Service::decide`] says
    /// what becomes of it.
    Wait,
}

/// Whether a service takes part in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// It does.
    Given,
    /// It does not: the session ends, and both endpoints are told who has refused it.
    Refused,
}

/// What a middlebox does with the data of one session.
pub trait Service: Send {
    /// Learns what client and server have agreed on, and this middlebox's place in it; before the
    /// first data, and before they have a session. A service that is of no use without a right
    /// refuses here: without one it is shown nothing.
    fn joined(&mut self, position: Position, configuration: &Configuration) -> Consent {
        let _ = (position, configuration);
        Consent::Given
    }

    /// Looks at data that this middlebox may read.
    fn inspect(&mut self, direction: Direction, context: &Context, data: &[u8]) -> Verdict;

    /// What becomes of the oldest data that waits in this direction; `None`: it still waits. Asked
    /// whenever something has come, has gone or [`Self::progress`] is ready. When [`MAX_WAITING`]
    /// bytes wait, no more are taken until some go.
    fn decide(&mut self, direction: Direction) -> Option<Verdict> {
        let _ = direction;
        None
    }

    /// Works on what it was shown. Ready: [`Self::decide`] may say more than before.
    fn progress(&mut self, context: &mut TaskContext<'_>) -> Poll<()> {
        let _ = context;
        Poll::Pending
    }

    /// Whether its own work is what the session waits for. Such a pause does not end it, however
    /// long, so the work has to end by itself.
    fn works(&self) -> bool {
        false
    }

    /// How fast what waits may go on in this direction, from now on; asked before each write, so it
    /// may differ from one moment to the next. `None`: as fast as it can.
    fn pace(&self, direction: Direction) -> Option<Pace> {
        let _ = direction;
        None
    }

    /// Does what an honest middlebox does not, for attack tests. Gives back what it leaves alone.
    #[cfg(any(test, feature = "hostile"))]
    #[doc(hidden)]
    fn overstep<'a>(&mut self, passing: Passing<'a>, _: &mut Vec<u8>) -> Option<Passing<'a>> {
        Some(passing)
    }
}

/// Decides where a client may have a middlebox connect to: host and port.
pub type Permits = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Makes a service for each session.
pub type NewService = Arc<dyn Fn() -> Box<dyn Service> + Send + Sync>;

/// What a middlebox needs.
pub struct MiddleboxSettings {
    /// Its certificate, with the key usage of middleboxes, and key.
    pub identity: Identity,
    /// The next hop.
    pub next: NextHop,
    /// Where clients may have it connect to.
    pub permits: Permits,
    /// What it does.
    pub service: NewService,
    /// How long to wait.
    pub timeouts: Timeouts,
}

/// A middlebox.
#[derive(Clone)]
pub struct Middlebox {
    client_leg: LegServer,
    server_leg: ServerLeg,
    certificate: [u8; 32],
    next: NextHop,
    permits: Permits,
    service: NewService,
    timeouts: Timeouts,
    pair: Option<Pair>,
}

impl std::fmt::Debug for Middlebox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Middlebox")
            .field("next", &self.next)
            .field("timeouts", &self.timeouts)
            .finish_non_exhaustive()
    }
}

/// One neighbour.
struct Side {
    read: OwnedReadHalf,
    write: OwnedWriteHalf,
    frames: Frames,
    /// Bytes that wait to be written, behind those that are.
    out: Vec<u8>,
    written: usize,
    bucket: Bucket,
    /// Whether it has ended, and whether it was told that the other has.
    input: Stream,
    output: Stream,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Open,
    Ended,
}

impl Side {
    fn new(stream: TcpStream, frames: Frames) -> Result<Self, Error> {
        stream.set_nodelay(true)?;
        let (read, write) = stream.into_split();
        Ok(Self {
            read,
            write,
            frames,
            out: Vec::new(),
            written: 0,
            bucket: Bucket::new(Instant::now()),
            input: Stream::Open,
            output: Stream::Open,
        })
    }

    /// Takes note of how much was read, if it was.
    fn took(&mut self, length: Option<usize>) {
        if length == Some(0) {
            self.input = Stream::Ended;
        }
    }

    /// How many bytes wait.
    const fn waiting(&self) -> usize {
        self.out.len() - self.written
    }

    /// Ends this side's output once the other side's input has ended and all of it is written.
    async fn end_after(&mut self, other: Stream) {
        if other == Stream::Ended && self.waiting() == 0 && self.output == Stream::Open {
            self.output = Stream::Ended;
            // Whoever has gone need not be told.
            let _ = self.write.shutdown().await;
        }
    }

    /// How much of what waits may go now; `Err`: when some may.
    fn due(&mut self, pace: Option<Pace>) -> Result<usize, Instant> {
        if self.waiting() == 0 {
            return Ok(0);
        }
        match self.bucket.allowance(pace, Instant::now()) {
            Allowance::Now(bytes) => Ok(bytes.min(self.waiting())),
            Allowance::At(next) => Err(next),
        }
    }

    fn wrote(&mut self, bytes: usize) {
        self.bucket.spend(bytes);
        self.written += bytes;
        if self.waiting() == 0 {
            self.out.clear();
            self.written = 0;
        } else if self.written >= MAX_WAITING / 4 {
            self.out.drain(..self.written);
            self.written = 0;
        }
    }

    /// Writes what the neighbour takes at once; whether it has taken anything.
    fn write_now(&mut self, pace: Option<Pace>) -> Result<Wrote, Error> {
        let mut wrote = Wrote::Nothing;
        while let Ok(due @ 1..) = self.due(pace) {
            let bytes = &self.out[self.written..][..due];
            match self.write.try_write(bytes) {
                Ok(length) => {
                    self.wrote(length);
                    wrote = Wrote::Some;
                    if length < due {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(wrote)
    }

    /// Writes what waits and ends.
    async fn finish(&mut self) {
        // Whoever has gone cannot be told.
        let _ = self.write.write_all(&self.out[self.written..]).await;
        let _ = self.write.shutdown().await;
    }
}

/// What became of an attempt to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrote {
    Nothing,
    Some,
}

/// The way on from the client.
struct Way {
    server: Side,
    next: Next,
    /// What stands for the server in what is kept of it.
    name: ServerName<'static>,
    /// What the client has sent behind its route.
    frames: Frames,
}

/// A session on its way through.
struct Passage {
    client: Side,
    server: Side,
    legs: Legs,
    service: Box<dyn Service>,
    hop: PairedHop,
    /// What waits for the service's word, towards the server and towards the client.
    to_server: Held,
    to_client: Held,
}

/// Records that wait, in order. Their relay has them; only an alert overtakes them.
#[derive(Default)]
struct Held {
    /// For each, what it takes, and what becomes of it; [`Verdict::Wait`]: the service is asked.
    records: VecDeque<(usize, Verdict)>,
    len: usize,
}

/// What a record that waits takes beside what was sealed and what was opened of it, at most: its
/// evidence, and its place.
pub const HELD_LEN: usize = 1 << 10;

impl Held {
    fn push(&mut self, len: usize, verdict: Verdict) {
        self.len += len + HELD_LEN;
        self.records.push_back((len, verdict));
    }

    /// What becomes of the first one, once that is known. It leaves.
    fn next(&mut self, decide: impl FnOnce() -> Option<Verdict>) -> Option<Verdict> {
        let verdict = match self.records.front()? {
            (_, Verdict::Wait) => decide().filter(|verdict| *verdict != Verdict::Wait)?,
            (_, verdict) => verdict.clone(),
        };
        let (len, _) = self.records.pop_front()?;
        self.len -= len + HELD_LEN;
        Some(verdict)
    }
}

impl Middlebox {
    /// A middlebox with these settings.
    ///
    /// # Errors
    /// [`Error::Configuration`]: TLS cannot be set up with them.
    pub fn new(settings: &MiddleboxSettings) -> Result<Self, Error> {
        Ok(Self {
            client_leg: LegServer::new(tls::middlebox_server(&settings.identity)?),
            server_leg: ServerLeg::new(&settings.identity)?,
            certificate: settings.identity.digest(),
            next: settings.next.clone(),
            permits: Arc::clone(&settings.permits),
            service: Arc::clone(&settings.service),
            timeouts: settings.timeouts,
            pair: None,
        })
    }

    /// The same with a pair: in sessions in which that is its neighbour, records cross between the
    /// two in a short form where both may read them. What its service forwards is shortened.
    #[must_use]
    pub fn paired(self, settings: PairSettings) -> Self {
        Self {
            pair: Some(Pair::new(settings)),
            ..self
        }
    }

    /// Passes on a connection that was accepted, until both of its ends have ended.
    ///
    /// # Errors
    /// Any [`Error`] that has ended the session early. Endpoints whose legs are up have been told
    /// why; before, as where the next hop is not permitted, connections just end.
    pub async fn serve(&self, mut stream: TcpStream) -> Result<(), Error> {
        let patience = self.timeouts.handshake;
        let deadline = Instant::now() + patience;
        let opening = timeout_at(deadline, self.open(&mut stream)).await;
        let late = |_| Error::TimedOut(Part::NextHop, patience);
        let way = opening.map_err(late)??;
        let mut passage = Passage {
            client: Side::new(stream, way.frames)?,
            server: way.server,
            legs: Legs::new(
                &self.client_leg,
                self.server_leg.clone(),
                self.certificate,
                way.next,
                way.name,
            )?,
            service: (self.service)(),
            hop: PairedHop::new(self.pair.as_ref()),
            to_server: Held::default(),
            to_client: Held::default(),
        };
        let result = passage.run(self.timeouts, deadline).await;
        if let Err(error) = &result {
            passage.give_up(error.alert()).await;
        }
        result
    }

    /// Connects to the next hop. The client names it; one that is configured stands in its place.
    async fn open(&self, stream: &mut TcpStream) -> Result<Way, Error> {
        let mut frames = Frames::new();
        let mut route = loop {
            match frames.next().map_err(mctls::Error::from)? {
                Some(Frame::Route(route)) => break route,
                Some(
                    Frame::Tls(_)
                    | Frame::Leg(_)
                    | Frame::Record(_)
                    | Frame::Announce
                    | Frame::Short(_)
                    | Frame::Holds(_),
                ) => {
                    return Err(unexpected(ROUTE));
                }
                None => {}
            }
            let space = frames.space()?;
            space.reserve(ROUTE_LEN);
            if stream.read_buf(space).await? == 0 {
                return Err(mctls::Error::from(mctls::error::Breach::Truncated).into());
            }
        };
        if route.is_empty() {
            return Err(unexpected(ROUTE));
        }
        let name = legs::name_of(route.last().map_or("", String::as_str))?;
        let named = route.remove(0);
        let connected = match &self.next {
            NextHop::Fixed(next) => TcpStream::connect(next).await?,
            NextHop::OneOf(backends) => backends.connect(stream.peer_addr()?.ip()).await?,
            NextHop::Named if (self.permits)(&named) => TcpStream::connect(&named).await?,
            NextHop::Named => return Err(Error::NotPermitted(named)),
        };
        let mut server = Side::new(connected, Frames::new())?;
        let next = if route.is_empty() {
            Next::Server
        } else {
            Frame::Route(route).write(&mut server.out);
            Next::Middlebox
        };
        Ok(Way {
            server,
            next,
            name,
            frames,
        })
    }
}

impl Passage {
    async fn run(&mut self, timeouts: Timeouts, deadline: Instant) -> Result<(), Error> {
        let patience = timeouts.handshake;
        let mut deadline = pin!(sleep_until(deadline));
        let most = timeouts.idle.saturating_mul(MAX_PLAIN_PAUSES);
        let mut plain = pin!(sleep(most));
        let mut passed = 0_usize;
        let mut pause = pin!(sleep(timeouts.idle));
        let mut heard = Instant::now();
        loop {
            while self.pass()? == Wrote::Some {}
            let (client, server) = (&mut self.client, &mut self.server);
            if self.to_client.records.is_empty() {
                client.end_after(server.input).await;
            }
            if self.to_server.records.is_empty() {
                server.end_after(client.input).await;
            }
            if client.output == Stream::Ended && server.output == Stream::Ended {
                return Ok(());
            }
            let reads = |from: &Side, to: &Side, held: &Held| {
                from.input == Stream::Open && has_room(to, held)
            };
            let read_client = reads(client, server, &self.to_server);
            let read_server = reads(server, client, &self.to_client);
            let to_client = client.due(self.service.pace(Direction::ToClient));
            let to_server = server.due(self.service.pace(Direction::ToServer));
            let later = [to_client.err(), to_server.err()];
            let later = later.into_iter().flatten().min();
            let (to_client, to_server) = (to_client.unwrap_or(0), to_server.unwrap_or(0));
            tokio::select! {
                read = fill_any(
                    read_client.then_some((&mut client.read, &mut client.frames)),
                    read_server.then_some((&mut server.read, &mut server.frames)),
                ) => {
                    let [from_client, from_server] = read?;
                    client.took(from_client);
                    server.took(from_server);
                    passed = [from_client, from_server]
                        .into_iter()
                        .flatten()
                        .fold(passed, usize::saturating_add);
                }
                ready = client.write.writable(), if to_client > 0 => ready?,
                ready = server.write.writable(), if to_server > 0 => ready?,
                () = until(later), if later.is_some() => {}
                () = poll_fn(|context| self.service.progress(context)) => {}
                () = &mut deadline, if self.legs.is_joining() => {
                    return Err(Error::TimedOut(self.legs.waits_for(), patience));
                }
                () = &mut plain, if self.legs.is_plain() => {
                    if std::mem::take(&mut passed) < MIN_PLAIN_LEN {
                        return Err(Error::TimedOut(Part::NextHop, most));
                    }
                    plain.as_mut().reset(Instant::now() + most);
                    continue;
                }
                () = &mut pause => {
                    // The neighbours may have nothing to say before it is done.
                    if self.service.works() {
                        heard = Instant::now();
                    }
                    let end = heard + timeouts.idle;
                    if end <= Instant::now() {
                        return Err(Error::TimedOut(Part::EndToEnd, timeouts.idle));
                    }
                    pause.as_mut().reset(end);
                    continue;
                }
            }
            heard = Instant::now();
            if self.legs.is_joining() && self.has_ended() {
                return Err(mctls::Error::from(mctls::error::Breach::Truncated).into());
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.client.input == Stream::Ended || self.server.input == Stream::Ended
    }

    /// Passes on whole frames that have come, as far as there is room for them, and writes what
    /// the neighbours take at once. Where they have, there is room again.
    fn pass(&mut self) -> Result<Wrote, Error> {
        loop {
            self.pass_held()?;
            let to_server = has_room(&self.server, &self.to_server) && self.pass_from_client()?;
            let to_client = has_room(&self.client, &self.to_client) && self.pass_from_server()?;
            if !to_server && !to_client {
                break;
            }
        }
        let to_client = self
            .client
            .write_now(self.service.pace(Direction::ToClient))?;
        let to_server = self
            .server
            .write_now(self.service.pace(Direction::ToServer))?;
        Ok(match (to_client, to_server) {
            (Wrote::Nothing, Wrote::Nothing) => Wrote::Nothing,
            (Wrote::Some, _) | (Wrote::Nothing, Wrote::Some) => Wrote::Some,
        })
    }

    /// Passes on what has waited and waits no more.
    fn pass_held(&mut self) -> Result<(), Error> {
        let (service, hop) = (self.service.as_mut(), &mut self.hop);
        let ways = [
            (Direction::ToServer, &mut self.to_server, &mut self.server),
            (Direction::ToClient, &mut self.to_client, &mut self.client),
        ];
        for (direction, held, to) in ways {
            while to.waiting() < MAX_WAITING
                && let Some(verdict) = held.next(|| service.decide(direction))
            {
                let joined = self.legs.joined(RECORD)?;
                let relay = match direction {
                    Direction::ToServer => &mut joined.to_server,
                    Direction::ToClient => &mut joined.to_client,
                };
                if let Some(passing) = relay.release() {
                    carry_out(passing, verdict, hop, &mut to.out)?;
                }
            }
        }
        Ok(())
    }

    fn pass_from_client(&mut self) -> Result<bool, Error> {
        let (client, server) = (&mut self.client, &mut self.server);
        match client.frames.next().map_err(mctls::Error::from)? {
            None => return Ok(false),
            Some(frame @ Frame::Tls(_)) => frame.write(&mut server.out),
            Some(Frame::Leg(leg)) => {
                let service = self.service.as_mut();
                self.legs
                    .hear_client_side(leg, service, &mut client.out, &mut server.out)?;
            }
            Some(Frame::Record(record)) => {
                let (hop, service) = (&mut self.hop, self.service.as_mut());
                let joined = self.legs.joined(RECORD)?;
                hop.before(joined, Direction::ToServer, &mut server.out);
                let (relay, held) = (&mut joined.to_server, &mut self.to_server);
                relayed(relay, record, service, held, hop, &mut server.out)?;
            }
            Some(Frame::Short(body)) => {
                let (hop, service) = (&mut self.hop, self.service.as_mut());
                let relay = &mut self.legs.joined(SHORT)?.to_server;
                let record = hop.restore(relay, body)?;
                let held = &mut self.to_server;
                relayed(relay, &record, service, held, hop, &mut server.out)?;
            }
            Some(Frame::Holds(body)) => {
                let joined = self.legs.joined(HOLDS)?;
                self.hop
                    .hear(joined, Direction::ToServer, body, &mut client.out)?;
            }
            Some(Frame::Announce) => return Err(unexpected(ANNOUNCE)),
            Some(Frame::Route(_)) => return Err(unexpected(ROUTE)),
        }
        Ok(true)
    }

    fn pass_from_server(&mut self) -> Result<bool, Error> {
        let (client, server) = (&mut self.client, &mut self.server);
        match server.frames.next().map_err(mctls::Error::from)? {
            None => return Ok(false),
            Some(frame @ Frame::Tls(_)) => frame.write(&mut client.out),
            Some(Frame::Leg(leg)) => {
                let service = self.service.as_mut();
                self.legs
                    .hear_server_side(leg, service, &mut client.out, &mut server.out)?;
            }
            Some(Frame::Record(record)) => {
                let (hop, service) = (&mut self.hop, self.service.as_mut());
                let joined = self.legs.joined(RECORD)?;
                hop.before(joined, Direction::ToClient, &mut client.out);
                let (relay, held) = (&mut joined.to_client, &mut self.to_client);
                relayed(relay, record, service, held, hop, &mut client.out)?;
            }
            Some(Frame::Short(body)) => {
                let (hop, service) = (&mut self.hop, self.service.as_mut());
                let relay = &mut self.legs.joined(SHORT)?.to_client;
                let record = hop.restore(relay, body)?;
                let held = &mut self.to_client;
                relayed(relay, &record, service, held, hop, &mut client.out)?;
            }
            Some(Frame::Holds(body)) => {
                let joined = self.legs.joined(HOLDS)?;
                self.hop
                    .hear(joined, Direction::ToClient, body, &mut server.out)?;
            }
            Some(Frame::Announce) => {
                Frame::Announce.write(&mut client.out);
                self.legs.announced(&mut server.out)?;
            }
            Some(Frame::Route(_)) => return Err(unexpected(ROUTE)),
        }
        Ok(true)
    }

    /// Tells both endpoints, as far as they can still hear it.
    async fn give_up(&mut self, alert: Option<Alert>) {
        if let Some(alert) = alert {
            self.legs
                .alert(alert, &mut self.client.out, &mut self.server.out);
        }
        let (client, server) = (self.client.finish(), self.server.finish());
        let _ = timeout(FAREWELL, async { tokio::join!(client, server) }).await;
    }
}

/// Reads more of one neighbour, or of both where both have something: then all of that goes on in
/// one write. How much, of each that was read.
async fn fill_any(
    client: Option<(&mut OwnedReadHalf, &mut Frames)>,
    server: Option<(&mut OwnedReadHalf, &mut Frames)>,
) -> Result<[Option<usize>; 2], Error> {
    let mut client = pin!(fill_one(client));
    let mut server = pin!(fill_one(server));
    let either = poll_fn(|context| {
        let client = client.as_mut().poll(context);
        let server = server.as_mut().poll(context);
        match client.is_pending() && server.is_pending() {
            true => Poll::Pending,
            false => Poll::Ready([client, server]),
        }
    });
    let [client, server] = either.await;
    Ok([done(client)?, done(server)?])
}

/// Reads more of a neighbour; never ends where there is none to read.
async fn fill_one(from: Option<(&mut OwnedReadHalf, &mut Frames)>) -> Result<usize, Error> {
    match from {
        Some((read, frames)) => fill(read, frames).await,
        None => std::future::pending().await,
    }
}

fn done(read: Poll<Result<usize, Error>>) -> Result<Option<usize>, Error> {
    match read {
        Poll::Pending => Ok(None),
        Poll::Ready(read) => read.map(Some),
    }
}

/// Sleeps until then; for ever where there is no such moment.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Whether more may be taken for a neighbour.
const fn has_room(to: &Side, held: &Held) -> bool {
    to.waiting() + held.len < MAX_WAITING
}

/// Takes a record, asks the service, and sends the outcome on, or lets it wait.
fn relayed(
    relay: &mut Relay,
    record: &[u8],
    service: &mut dyn Service,
    held: &mut Held,
    hop: &mut PairedHop,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let direction = relay.direction();
    let Some(passing) = relay.receive(record)? else {
        return Ok(());
    };
    #[cfg(any(test, feature = "hostile"))]
    let Some(passing) = service.overstep(passing, out) else {
        return Ok(());
    };
    let verdict = match (passing.terms(), passing.text()) {
        (Some(context), Some(data)) => service.inspect(direction, context, data),
        (Some(_) | None, Some(_) | None) => Verdict::Forward,
    };
    // It is not to wait behind what nobody may ever decide about.
    if verdict == Verdict::Block {
        return Err(Error::Blocked);
    }
    if verdict == Verdict::Wait || !held.records.is_empty() {
        held.push(passing.size(), verdict);
        passing.hold();
        return Ok(());
    }
    carry_out(passing, verdict, hop, out)
}

/// Does with a record what was decided.
fn carry_out(
    passing: Passing<'_>,
    verdict: Verdict,
    hop: &mut PairedHop,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    match verdict {
        Verdict::Forward => hop.forward(passing, out)?,
        Verdict::Replace(parts) => {
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            passing.replace(&parts, out)?;
        }
        Verdict::Block => return Err(Error::Blocked),
        Verdict::Wait => passing.hold(),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// Both ends of a connection.
    async fn connection() -> [TcpStream; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let near = TcpStream::connect(address).await.expect("connected");
        let (far, _) = listener.accept().await.expect("a connection");
        [near, far]
    }

    #[tokio::test]
    async fn what_both_neighbours_have_said_is_read_at_once() {
        let mut sides = Vec::new();
        for _ in 0..2 {
            let [near, mut far] = connection().await;
            far.write_all(&[0xb2, 3, 3, 0, 0]).await.expect("written");
            let side = Side::new(near, Frames::new()).expect("a side");
            side.read.readable().await.expect("it can be read");
            sides.push((side, far));
        }
        let mut reads = sides.iter_mut();
        let mut next = || {
            reads
                .next()
                .map(|(side, _)| (&mut side.read, &mut side.frames))
        };
        let (client, server) = (next(), next());
        let read = fill_any(client, server).await.expect("both are read");
        assert_eq!(read, [Some(5), Some(5)]);
        for (side, _) in &mut sides {
            assert_eq!(side.frames.next(), Ok(Some(Frame::Announce)));
        }
        let (first, rest) = sides.split_first_mut().expect("two");
        let (second, far) = rest.first_mut().expect("two");
        far.write_all(&[0xb2]).await.expect("written");
        let client = Some((&mut first.0.read, &mut first.0.frames));
        let server = Some((&mut second.read, &mut second.frames));
        let read = fill_any(client, server).await.expect("one is read");
        assert_eq!(read, [None, Some(1)]);
    }
}
