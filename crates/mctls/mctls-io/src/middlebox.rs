//! A middlebox: passes a session on from one TCP connection to the next, and shows a [`Service`]
//! what it may read.
//!
//! Is not: a service; the protocol's decisions ([`mctls::middlebox`]).
//!
//! Invariants: what waits for one neighbour never keeps the other direction waiting; no more than
//! [`MAX_WAITING`] bytes wait for a neighbour before no more are read for it; until the server has
//! announced the protocol it is sent nothing but TLS records.

mod legs;

use std::pin::pin;
use std::sync::Arc;

use mctls::config::{Configuration, Context};
use mctls::error::Alert;
use mctls::frame::{Frame, Frames};
use mctls::party::Direction;
#[cfg(test)]
use mctls::relay::Passing;
use mctls::relay::Relay;
use rustls::{ClientConfig, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, sleep, timeout};

use crate::error::{Error, Part};
use crate::hop::{ANNOUNCE, READ_LEN, ROUTE, Timeouts, unexpected};
use crate::tls::{self, Identity};
use legs::Legs;

/// Most bytes that wait for a neighbour before the other is read on.
pub const MAX_WAITING: usize = 1 << 18;

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
}

/// What a middlebox does with the data of one session.
pub trait Service: Send {
    /// What was agreed on, before the first data.
    fn joined(&mut self, configuration: &Configuration) {
        let _ = configuration;
    }

    /// Looks at data that this middlebox may read.
    fn inspect(&mut self, direction: Direction, context: &Context, data: &[u8]) -> Verdict;

    /// Does what an honest middlebox does not, for attack tests. Gives back what it leaves alone.
    #[cfg(test)]
    fn overstep(&mut self, _: &mut Relay, passing: Passing, _: &mut Vec<u8>) -> Option<Passing> {
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
    /// The next hop, as host and port. `None`: the client says it, as far as `permits` allows.
    pub next: Option<String>,
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
    client_leg: Arc<ServerConfig>,
    server_leg: Arc<ClientConfig>,
    certificate: [u8; 32],
    next: Option<String>,
    permits: Permits,
    service: NewService,
    timeouts: Timeouts,
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
    /// Bytes that wait to be written.
    out: Vec<u8>,
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
            input: Stream::Open,
            output: Stream::Open,
        })
    }

    /// Takes what was read.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            self.input = Stream::Ended;
        }
        Ok(self.frames.push(bytes)?)
    }

    /// Ends this side's output once the other side's input has ended and all of it is written.
    async fn end_after(&mut self, other: Stream) {
        if other == Stream::Ended && self.out.is_empty() && self.output == Stream::Open {
            self.output = Stream::Ended;
            // Whoever has gone need not be told.
            let _ = self.write.shutdown().await;
        }
    }
}

/// A session on its way through.
struct Passage {
    client: Side,
    server: Side,
    legs: Legs,
    service: Box<dyn Service>,
    contexts: Vec<Context>,
}

impl Middlebox {
    /// A middlebox with these settings.
    ///
    /// # Errors
    /// [`Error::Configuration`]: TLS cannot be set up with them.
    pub fn new(settings: &MiddleboxSettings) -> Result<Self, Error> {
        Ok(Self {
            client_leg: Arc::new(tls::middlebox_server(&settings.identity)?),
            server_leg: Arc::new(tls::middlebox_leg(&settings.identity)?),
            certificate: settings.identity.digest(),
            next: settings.next.clone(),
            permits: Arc::clone(&settings.permits),
            service: Arc::clone(&settings.service),
            timeouts: settings.timeouts,
        })
    }

    /// Passes on a connection that was accepted, until both of its ends have ended.
    ///
    /// # Errors
    /// Any [`Error`] that has ended the session early; both endpoints have been told.
    pub async fn serve(&self, mut stream: TcpStream) -> Result<(), Error> {
        let patience = self.timeouts.handshake;
        let opening = timeout(patience, self.open(&mut stream)).await;
        let late = |_| Error::TimedOut(Part::NextHop, patience);
        let (server, frames) = opening.map_err(late)??;
        let mut passage = Passage {
            client: Side::new(stream, frames)?,
            server,
            legs: Legs::new(
                &self.client_leg,
                Arc::clone(&self.server_leg),
                self.certificate,
            )?,
            service: (self.service)(),
            contexts: Vec::new(),
        };
        let result = passage.run(self.timeouts).await;
        if let Err(error) = &result {
            passage.give_up(error.alert(), patience).await;
        }
        result
    }

    /// Connects to the next hop, which the client names unless it is configured.
    async fn open(&self, stream: &mut TcpStream) -> Result<(Side, Frames), Error> {
        let mut frames = Frames::new();
        if let Some(next) = &self.next {
            let server = TcpStream::connect(next).await?;
            return Ok((Side::new(server, Frames::new())?, frames));
        }
        let mut route = loop {
            match frames.next().map_err(mctls::Error::from)? {
                Some(Frame::Route(route)) => break route,
                Some(Frame::Tls(_) | Frame::Leg(_) | Frame::Record(_) | Frame::Announce) => {
                    return Err(unexpected(ROUTE));
                }
                None => {}
            }
            let mut buffer = vec![0; READ_LEN];
            let length = stream.read(&mut buffer).await?;
            if length == 0 {
                return Err(mctls::Error::from(mctls::error::Breach::Truncated).into());
            }
            frames.push(&buffer[..length])?;
        };
        if route.is_empty() {
            return Err(unexpected(ROUTE));
        }
        let next = route.remove(0);
        if !(self.permits)(&next) {
            return Err(Error::NotPermitted(next));
        }
        let mut server = Side::new(TcpStream::connect(&next).await?, Frames::new())?;
        if !route.is_empty() {
            Frame::Route(route).write(&mut server.out);
        }
        Ok((server, frames))
    }
}

impl Passage {
    async fn run(&mut self, timeouts: Timeouts) -> Result<(), Error> {
        let patience = timeouts.handshake;
        let mut from_client = vec![0; READ_LEN];
        let mut from_server = vec![0; READ_LEN];
        let mut deadline = pin!(sleep(patience));
        let mut pause = pin!(sleep(timeouts.idle));
        loop {
            self.pass()?;
            let (client, server) = (&mut self.client, &mut self.server);
            client.end_after(server.input).await;
            server.end_after(client.input).await;
            if client.output == Stream::Ended && server.output == Stream::Ended {
                return Ok(());
            }
            let reads =
                |from: &Side, to: &Side| from.input == Stream::Open && to.out.len() < MAX_WAITING;
            let (read_client, read_server) = (reads(client, server), reads(server, client));
            tokio::select! {
                read = client.read.read(&mut from_client), if read_client => {
                    client.take(&from_client[..read?])?;
                }
                read = server.read.read(&mut from_server), if read_server => {
                    server.take(&from_server[..read?])?;
                }
                written = client.write.write(&client.out),
                    if !client.out.is_empty() => drop(client.out.drain(..written?)),
                written = server.write.write(&server.out),
                    if !server.out.is_empty() => drop(server.out.drain(..written?)),
                () = &mut deadline, if self.legs.is_joining() => {
                    return Err(Error::TimedOut(self.legs.waits_for(), patience));
                }
                () = &mut pause => {
                    return Err(Error::TimedOut(Part::EndToEnd, timeouts.idle));
                }
            }
            pause.as_mut().reset(Instant::now() + timeouts.idle);
            if self.legs.is_joining() && self.has_ended() {
                return Err(mctls::Error::from(mctls::error::Breach::Truncated).into());
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.client.input == Stream::Ended || self.server.input == Stream::Ended
    }

    /// Passes on every whole frame that has come.
    fn pass(&mut self) -> Result<(), Error> {
        while self.pass_from_client()? | self.pass_from_server()? {}
        Ok(())
    }

    fn pass_from_client(&mut self) -> Result<bool, Error> {
        let (client, server) = (&mut self.client, &mut self.server);
        match client.frames.next().map_err(mctls::Error::from)? {
            None => return Ok(false),
            Some(frame @ Frame::Tls(_)) => frame.write(&mut server.out),
            Some(Frame::Leg(leg)) => {
                let joined = self
                    .legs
                    .hear_client_side(leg, &mut client.out, &mut server.out)?;
                if let Some(configuration) = joined {
                    self.service.joined(configuration);
                    self.contexts = configuration.terms.contexts().to_vec();
                }
            }
            Some(Frame::Record(record)) => {
                let relay = self.legs.relay(Direction::ToServer)?;
                let service = self.service.as_mut();
                relayed(relay, record, &self.contexts, service, &mut server.out)?;
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
                let joined = self
                    .legs
                    .hear_server_side(leg, &mut client.out, &mut server.out)?;
                if let Some(configuration) = joined {
                    self.service.joined(configuration);
                    self.contexts = configuration.terms.contexts().to_vec();
                }
            }
            Some(Frame::Record(record)) => {
                let relay = self.legs.relay(Direction::ToClient)?;
                let service = self.service.as_mut();
                relayed(relay, record, &self.contexts, service, &mut client.out)?;
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
    async fn give_up(&mut self, alert: Option<Alert>, patience: std::time::Duration) {
        if let Some(alert) = alert {
            self.legs
                .alert(alert, &mut self.client.out, &mut self.server.out);
        }
        for side in [&mut self.client, &mut self.server] {
            let _ = timeout(patience, side.write.write_all(&side.out)).await;
            let _ = timeout(patience, side.write.shutdown()).await;
        }
    }
}

/// Takes a record, asks the service, and sends the outcome on.
fn relayed(
    relay: &mut Relay,
    record: &[u8],
    contexts: &[Context],
    service: &mut dyn Service,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let direction = relay.direction();
    let Some(passing) = relay.receive(record)? else {
        return Ok(());
    };
    #[cfg(test)]
    let Some(passing) = service.overstep(relay, passing, out) else {
        return Ok(());
    };
    let context = contexts
        .iter()
        .find(|context| context.id == passing.context());
    let verdict = match (context, passing.text()) {
        (Some(context), Some(data)) => service.inspect(direction, context, data),
        (Some(_) | None, Some(_) | None) => Verdict::Forward,
    };
    match verdict {
        Verdict::Forward => relay.forward(passing, out),
        Verdict::Replace(parts) => {
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            relay.replace(passing, &parts, out)?;
        }
        Verdict::Block => return Err(Error::Blocked),
    }
    Ok(())
}
