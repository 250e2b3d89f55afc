//! One TCP connection to the next hop, and the TLS sessions that an endpoint has over it.
//!
//! Is not: the protocol, which is `mctls`'s.
//!
//! Invariants: what an endpoint reads is handed on before more is read, so a slow application slows
//! the sender down, and memory stays bounded; a server takes legs only once it has chosen the
//! protocol, and from its client's offer on exactly those of the offer's middleboxes, so that a leg
//! keeps its position.

use std::time::Duration;

use mctls::endpoint::{Channel, Established, Output};
use mctls::error::{Alert, Breach};
use mctls::frame::{Frame, Frames, LegFrame, MAX_LEG_LEN};
use mctls::message::{Decoder, Message};
use mctls::party::{Endpoint, Position};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::error::{Error, Part};
use crate::outgoing::Outgoing;
use crate::tickets::LegServer;
use crate::tls::Tls;

/// What is sealed before it is written: each write of the system has its price.
pub(crate) const SEND_LEN: usize = 1 << 16;

/// Room for reading at first, and the least there is for any read: a record of TLS.
const MIN_READ_LEN: usize = 1 << 14;

/// How much room is added at most, where what has come has filled it.
const MAX_READ_LEN: usize = 1 << 16;

/// Reads more of a hop into its frames, of which no whole one is left; how much, 0 at the end.
/// Where this future is dropped, nothing is lost.
///
/// Few bytes take little memory; a stream is read in large pieces, at most 128 KiB with what is
/// there.
pub(crate) async fn fill(read: &mut OwnedReadHalf, frames: &mut Frames) -> Result<usize, Error> {
    let space = frames.space()?;
    if space.capacity() - space.len() < MIN_READ_LEN {
        space.reserve(space.capacity().clamp(MIN_READ_LEN, MAX_READ_LEN));
    }
    Ok(read.read_buf(space).await?)
}

/// The types of frames, as errors name them.
pub(crate) const LEG: u8 = 0xb0;
pub(crate) const RECORD: u8 = 0xb1;
pub(crate) const ANNOUNCE: u8 = 0xb2;
pub(crate) const ROUTE: u8 = 0xb3;
pub(crate) const SHORT: u8 = 0xb4;
pub(crate) const HOLDS: u8 = 0xb5;
pub(crate) const TLS: u8 = 0x17;

pub(crate) fn unexpected(kind: u8) -> Error {
    mctls::Error::from(Breach::Unexpected(kind)).into()
}

/// How long an ended session's last words may take.
pub(crate) const FAREWELL: Duration = Duration::from_secs(1);

/// What a handshake leads to.
pub(crate) enum Outcome {
    /// A session with contexts.
    Session(Box<Established>),
    /// Plain TLS, as the policy permits.
    Plain,
}

/// How long a party waits.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For a session to be established, from the connection on, all middleboxes included. 10 s by
    /// default. Where that fails, telling the others takes a second more at most.
    pub handshake: Duration,
    /// For the other side to take what is sent, or to send, in an established session. 60 s by
    /// default. A longer pause ends the session, unless a middlebox's service works in it.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            idle: Duration::from_secs(60),
        }
    }
}

/// A TLS session and the messages in it.
pub(crate) struct Talk {
    pub(crate) tls: Tls,
    pub(crate) decoder: Decoder,
    /// How many messages have come: a middlebox that lags behind has sent fewer.
    pub(crate) heard: usize,
}

impl Talk {
    pub(crate) fn new(tls: Tls) -> Self {
        Self {
            tls,
            decoder: Decoder::new(),
            heard: 0,
        }
    }

    /// Takes bytes of the TLS session and keeps what they say for [`Self::next`].
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut data = Zeroizing::new(Vec::new());
        self.tls.feed(bytes, &mut data)?;
        self.take(&data)
    }

    /// Takes what the TLS session has said. It is to last as long as the session: legs for alerts.
    fn take(&mut self, data: &[u8]) -> Result<(), Error> {
        if self.tls.is_closed() {
            return Err(mctls::Error::from(Breach::Truncated).into());
        }
        Ok(self.decoder.push(data)?)
    }

    pub(crate) fn next(&mut self) -> Result<Option<Message>, Error> {
        let message = self.decoder.next()?;
        self.heard += usize::from(message.is_some());
        Ok(message)
    }

    pub(crate) fn send(&mut self, message: &Message) -> Result<(), Error> {
        self.tls.send(&Zeroizing::new(message.to_bytes()))
    }
}

/// Appends a leg's bytes in frames, from its endpoint or its middlebox: one hop either way.
pub(crate) fn take_leg(
    tls: &mut Tls,
    endpoint: Endpoint,
    distance: Position,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let mut bytes = Vec::new();
    tls.take(&mut bytes)?;
    for piece in bytes.chunks(MAX_LEG_LEN) {
        let leg = LegFrame {
            endpoint,
            distance,
            bytes: piece,
        };
        Frame::Leg(leg).write(out);
    }
    Ok(())
}

/// Adds legs that await their middleboxes.
fn grow_legs(legs: &mut Vec<Talk>, takes: &LegServer, count: usize) -> Result<(), Error> {
    while legs.len() < count {
        legs.push(Talk::new(takes.accept(Part::NextHop)?));
    }
    Ok(())
}

/// An endpoint's connection during the handshake.
pub(crate) struct Hop {
    pub(crate) endpoint: Endpoint,
    pub(crate) read: OwnedReadHalf,
    pub(crate) out: Outgoing,
    pub(crate) frames: Frames,
    pub(crate) session: Talk,
    /// Legs by distance: the nearest middlebox first.
    pub(crate) legs: Vec<Talk>,
    /// How more legs are taken, while nobody knows how many there will be.
    takes_legs: Option<LegServer>,
    /// Data of an end-to-end session that is plain TLS.
    pub(crate) plain: Vec<u8>,
}

impl Hop {
    pub(crate) fn new(endpoint: Endpoint, stream: TcpStream, tls: Tls) -> Result<Self, Error> {
        // Small messages in a row would wait for acknowledgements (the paper, section 5.1).
        stream.set_nodelay(true)?;
        let (read, write) = stream.into_split();
        Ok(Self {
            endpoint,
            read,
            out: Outgoing::new(write),
            frames: Frames::new(),
            session: Talk::new(tls),
            legs: Vec::new(),
            takes_legs: None,
            plain: Vec::new(),
        })
    }

    /// Takes legs from now on, as many as come.
    pub(crate) fn open_legs(&mut self, takes: LegServer) {
        self.takes_legs = Some(takes);
    }

    /// Takes so many legs, no more and no fewer: a further one is an error from now on.
    pub(crate) fn fix_legs(&mut self, expected: usize) -> Result<(), Error> {
        let found = self.legs.len();
        if found > expected {
            return Err(mctls::Error::from(Breach::Count { expected, found }).into());
        }
        match self.takes_legs.take() {
            Some(takes) => grow_legs(&mut self.legs, &takes, expected),
            None => Ok(()),
        }
    }

    /// The middlebox at an index of `legs`, where a session has so many.
    pub(crate) fn position(&self, index: usize, count: usize) -> Option<Position> {
        let number = match self.endpoint {
            Endpoint::Client => index + 1,
            Endpoint::Server => count.checked_sub(index)?,
        };
        Position::new(u8::try_from(number).ok()?)
    }

    /// The index in `legs` of a middlebox.
    pub(crate) fn index(&self, position: Position) -> Option<usize> {
        match self.endpoint {
            Endpoint::Client => Some(position.index()),
            Endpoint::Server => self.legs.len().checked_sub(usize::from(position.number())),
        }
    }

    /// Sends what waits, in as few writes as there are reads: each has its price, also for all who
    /// read it. So call it only where no further frame is there. A leg that is complete has nothing
    /// to say that could be of use before the end-to-end session is, and waits for that.
    pub(crate) async fn flush(&mut self) -> Result<(), Error> {
        self.take_from(|leg, session| session.is_ready() || !leg.is_ready())?;
        Ok(self.out.flush().await?)
    }

    /// Takes what the sessions have to say: end to end first, then of those legs that are due.
    fn take_from(&mut self, is_due: impl Fn(&Tls, &Tls) -> bool) -> Result<(), Error> {
        let (session, out) = (&mut self.session.tls, &mut self.out.waiting);
        session.take(out)?;
        for (distance, leg) in Position::all(self.legs.len()).zip(&mut self.legs) {
            if is_due(&leg.tls, session) {
                take_leg(&mut leg.tls, self.endpoint, distance, out)?;
            }
        }
        Ok(())
    }

    /// Reads more bytes of the hop.
    pub(crate) async fn read(&mut self) -> Result<(), Error> {
        match fill(&mut self.read, &mut self.frames).await? {
            0 => Err(mctls::Error::from(Breach::Truncated).into()),
            _ => Ok(()),
        }
    }

    /// Takes the next frame, if a whole one is there, and hands it to its session.
    pub(crate) fn take_frame(&mut self) -> Result<Option<()>, Error> {
        match self.frames.next().map_err(mctls::Error::from)? {
            None => return Ok(None),
            Some(Frame::Tls(record)) => {
                let mut data = Zeroizing::new(Vec::new());
                self.session.tls.feed(record, &mut data)?;
                match self.session.tls.is_mc13() {
                    Some(true) => self.session.take(&data)?,
                    Some(false) | None => self.plain.extend_from_slice(&data),
                }
            }
            Some(Frame::Leg(leg)) if leg.endpoint == self.endpoint => {
                let index = leg.distance.index();
                if let Some(takes) = &self.takes_legs {
                    grow_legs(&mut self.legs, takes, index + 1)?;
                }
                let talk = self.legs.get_mut(index);
                talk.ok_or_else(|| unexpected(LEG))?.feed(leg.bytes)?;
            }
            // For the middleboxes; the last of them has passed it on.
            Some(Frame::Announce) if self.endpoint == Endpoint::Client => {}
            Some(Frame::Leg(_)) => return Err(unexpected(LEG)),
            Some(Frame::Record(_)) => return Err(unexpected(RECORD)),
            Some(Frame::Announce) => return Err(unexpected(ANNOUNCE)),
            Some(Frame::Route(_)) => return Err(unexpected(ROUTE)),
            Some(Frame::Short(_)) => return Err(unexpected(SHORT)),
            Some(Frame::Holds(_)) => return Err(unexpected(HOLDS)),
        }
        Ok(Some(()))
    }

    /// Hands the core's messages to the sessions that carry them, in their order on the hop.
    pub(crate) fn send(&mut self, outputs: Vec<Output>) -> Result<(), Error> {
        for output in outputs {
            match output.to {
                Channel::EndToEnd => {
                    self.session.send(&output.message)?;
                    self.session.tls.take(&mut self.out.waiting)?;
                }
                Channel::Leg(position) => {
                    let index = self.index(position);
                    let distance = index.and_then(|index| u8::try_from(index + 1).ok());
                    let distance = distance.and_then(Position::new);
                    let leg = index.and_then(|index| self.legs.get_mut(index));
                    if let (Some(leg), Some(distance)) = (leg, distance) {
                        leg.send(&output.message)?;
                        let out = &mut self.out.waiting;
                        take_leg(&mut leg.tls, self.endpoint, distance, out)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Tells everyone that the session is over, as far as they can still hear it.
    pub(crate) async fn give_up(&mut self, alert: Option<Alert>) {
        let is_ours = self.session.tls.is_mc13() == Some(true);
        match alert.map(Message::Alert) {
            Some(message) if is_ours => {
                for talk in std::iter::once(&mut self.session).chain(&mut self.legs) {
                    if talk.tls.is_ready() {
                        // Whoever cannot be told has gone already.
                        let _ = talk.send(&message);
                    }
                }
            }
            Some(_) | None => self.session.tls.close(),
        }
        let farewell = async {
            let _ = self.take_from(|_, _| true);
            let _ = self.out.flush().await;
            let _ = self.out.end().await;
        };
        let _ = timeout(FAREWELL, farewell).await;
    }

    /// Who keeps an unfinished handshake waiting: the nearest middlebox without a leg, or the one
    /// that has said least, or the other endpoint.
    pub(crate) fn waits_for(&self, count: usize) -> Part {
        let part = |index| self.position(index, count).map_or(Part::NextHop, Part::Leg);
        if let Some(index) = self.legs.iter().position(|leg| !leg.tls.is_ready()) {
            return part(index);
        }
        if self.legs.len() < count {
            return part(self.legs.len());
        }
        let most = self.legs.iter().map(|leg| leg.heard).max();
        let behind = self.legs.iter().position(|leg| Some(leg.heard) < most);
        behind.map_or(Part::EndToEnd, part)
    }
}
