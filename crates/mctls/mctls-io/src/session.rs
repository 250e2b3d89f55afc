//! An established session: data in contexts both ways, each way closed by itself.
//!
//! Is not: the handshake.
//!
//! Invariants: what comes out of [`SessionReceiver::recv`] has passed every check; `None` is an end
//! that the other endpoint has said, anything else that ends a session is an error, and stays.
//! Nothing is read ahead: a slow reader slows the writer down, through every middlebox. A call that
//! is dropped half-way tears no record.

use std::time::Duration;

use mctls::config::Configuration;
use mctls::endpoint::Established;
use mctls::error::{Alert, Policy};
use mctls::frame::{Frame, Frames};
use mctls::message::Message;
use mctls::party::{ContextId, Endpoint, Position};
use mctls::receiver::{Delivery, Event, Receiver};
use mctls::record::MAX_PAYLOAD_LEN;
use mctls::sender::Sender;
use rustls::pki_types::CertificateDer;
use tokio::net::tcp::OwnedReadHalf;
use tokio::time::timeout;

use crate::error::{Error, Part};
use crate::hop::{
    ANNOUNCE, HOLDS, Hop, LEG, ROUTE, SEND_LEN, SHORT, TLS, Talk, Timeouts, fill, unexpected,
};
use crate::outgoing::Outgoing;
use crate::plain::Plain;

/// What a connection has become.
#[derive(Debug)]
pub enum Connected {
    /// A session with contexts.
    Session(Box<Session>),
    /// Plain TLS end to end, where the policy permits it: middleboxes see nothing.
    Plain(Box<Plain>),
}

/// A session with contexts.
#[derive(Debug)]
pub struct Session {
    /// What was agreed on: who may do what.
    pub configuration: Configuration,
    /// The leaf certificate of a server, to its client. A client has none.
    pub certificate: Option<CertificateDer<'static>>,
    /// For data to the other endpoint.
    pub sender: SessionSender,
    /// For data from it.
    pub receiver: SessionReceiver,
}

/// Sends data.
#[derive(Debug)]
pub struct SessionSender {
    core: Sender,
    out: Outgoing,
    last: Call,
    idle: Duration,
}

/// What became of the last call that sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// All of it is on its way.
    Done,
    /// It was dropped before its end.
    Dropped,
    /// The next hop has failed, or took nothing in time.
    Failed,
}

/// Receives data.
pub struct SessionReceiver {
    core: Receiver,
    endpoint: Endpoint,
    read: OwnedReadHalf,
    frames: Frames,
    /// The end-to-end session, for an alert of an endpoint that has no other way to say it yet.
    session: Talk,
    /// Legs by distance, for alerts, with the middleboxes they lead to.
    legs: Vec<(Position, Talk)>,
    end: End,
    idle: Duration,
}

/// Whether the other endpoint has ended.
#[derive(Debug)]
enum End {
    Open,
    Closed,
    /// Something was wrong, which is told again.
    Failed(Error),
}

impl std::fmt::Debug for SessionReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionReceiver")
            .field("core", &self.core)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn new(hop: Hop, established: Established, timeouts: Timeouts) -> Self {
        let count = hop.legs.len();
        let positions: Vec<_> = (0..count).map(|index| hop.position(index, count)).collect();
        let legs = positions.into_iter().zip(hop.legs);
        Self {
            configuration: established.configuration,
            certificate: hop.session.tls.leaf().cloned(),
            sender: SessionSender {
                core: established.sender,
                out: hop.out,
                last: Call::Done,
                idle: timeouts.idle,
            },
            receiver: SessionReceiver {
                core: established.receiver,
                endpoint: hop.endpoint,
                read: hop.read,
                frames: hop.frames,
                session: hop.session,
                legs: legs.filter_map(|(at, talk)| Some((at?, talk))).collect(),
                end: End::Open,
                idle: timeouts.idle,
            },
        }
    }
}

impl SessionSender {
    /// Sends data in a context, in as many records as it needs.
    ///
    /// Where this future is dropped before it is done, nobody knows how much was sent: no record is
    /// torn, but nothing can follow either, except [`Self::abort`].
    ///
    /// # Errors
    /// A context that the session does not have, or one closed; a hop that has failed, or takes
    /// nothing for as long as [`Timeouts::idle`]. [`Error::Interrupted`]: that, or a dropped
    /// future, was the end of an earlier call.
    pub async fn send(&mut self, context: ContextId, data: &[u8]) -> Result<(), Error> {
        self.check()?;
        for batch in data.chunks(SEND_LEN) {
            for piece in batch.chunks(MAX_PAYLOAD_LEN) {
                self.core.seal(context, piece, &mut self.out.waiting)?;
            }
            self.last = Call::Dropped;
            self.flush().await?;
        }
        self.last = Call::Done;
        Ok(())
    }

    /// Closes this direction: the other endpoint knows that it has everything. Data from it may
    /// still come; nothing more can be sent, not even why the session ends.
    ///
    /// # Errors
    /// As [`Self::send`], and dropped as that.
    pub async fn close(&mut self) -> Result<(), Error> {
        self.check()?;
        self.core.close(&mut self.out.waiting)?;
        self.last = Call::Dropped;
        self.flush().await?;
        self.out.end().await?;
        self.last = Call::Done;
        Ok(())
    }

    /// Ends the session and says why, as far as the other endpoint still hears it.
    ///
    /// What an earlier call has left goes first, so the alert is read for what it is. Where the
    /// next hop has failed, nothing is said.
    pub async fn abort(&mut self, alert: Alert) {
        // Whoever has gone, or has been told of the end before, cannot be told.
        let _ = self.core.alert(alert, &mut self.out.waiting);
        if self.last != Call::Failed {
            let _ = self.flush().await;
        }
        let _ = self.out.end().await;
    }

    const fn check(&self) -> Result<(), Error> {
        match self.last {
            Call::Done => Ok(()),
            Call::Dropped | Call::Failed => Err(Error::Interrupted),
        }
    }

    async fn flush(&mut self) -> Result<(), Error> {
        let written = timeout(self.idle, self.out.flush()).await;
        let written = match written {
            Ok(written) => written.map_err(Error::from),
            Err(_) => Err(Error::TimedOut(Part::NextHop, self.idle)),
        };
        if written.is_err() {
            self.last = Call::Failed;
        }
        written
    }
}

#[cfg(test)]
impl SessionSender {
    /// How often something was written, in the handshake and since.
    pub(crate) const fn writes(&self) -> usize {
        self.out.writes
    }
}

#[cfg(test)]
impl SessionReceiver {
    /// Which legs were resumed, by distance.
    pub(crate) fn resumed(&self) -> Vec<bool> {
        let legs = self.legs.iter();
        legs.map(|(_, talk)| talk.tls.is_resumed()).collect()
    }
}

impl SessionReceiver {
    /// The next data; `None` once the other endpoint has closed its direction. Where this future is
    /// dropped, nothing is lost.
    ///
    /// # Errors
    /// Somebody has overstepped, cut the connection, or ended the session; or nothing has come for
    /// as long as [`Timeouts::idle`]. It comes again at each further call.
    /// [`SessionSender::abort`] tells the others.
    pub async fn recv(&mut self) -> Result<Option<Delivery>, Error> {
        match &self.end {
            End::Open => {}
            End::Closed => return Ok(None),
            End::Failed(error) => return Err(error.clone()),
        }
        let received = self.receive().await;
        match &received {
            Ok(Some(_)) => {}
            Ok(None) => self.end = End::Closed,
            Err(error) => self.end = End::Failed(error.clone()),
        }
        received
    }

    async fn receive(&mut self) -> Result<Option<Delivery>, Error> {
        loop {
            while let Some(event) = self.take_frame()? {
                match event {
                    Taken::Event(Event::Data(delivery)) => return Ok(Some(delivery)),
                    Taken::Event(Event::Closed) => return Ok(None),
                    Taken::Nothing => {}
                }
            }
            let read = timeout(self.idle, fill(&mut self.read, &mut self.frames)).await;
            let length = read.map_err(|_| Error::TimedOut(Part::EndToEnd, self.idle))??;
            if length == 0 {
                self.core.finish()?;
            }
        }
    }

    fn take_frame(&mut self) -> Result<Option<Taken>, Error> {
        match self.frames.next().map_err(mctls::Error::from)? {
            None => Ok(None),
            Some(Frame::Record(record)) => {
                let event = self.core.open(record)?;
                Ok(Some(event.map_or(Taken::Nothing, Taken::Event)))
            }
            Some(Frame::Leg(leg)) if leg.endpoint == self.endpoint => {
                let entry = self.legs.get_mut(leg.distance.index());
                let (position, talk) = entry.ok_or_else(|| unexpected(LEG))?;
                talk.feed(leg.bytes)?;
                match talk.next()? {
                    Some(Message::Alert(alert)) => {
                        let ended = Policy::MiddleboxAlert(*position, alert);
                        Err(mctls::Error::from(ended).into())
                    }
                    Some(other) => Err(unexpected(other.kind())),
                    None => Ok(Some(Taken::Nothing)),
                }
            }
            Some(Frame::Leg(_)) => Err(unexpected(LEG)),
            Some(Frame::Tls(record)) => {
                self.session.feed(record)?;
                match self.session.next()? {
                    Some(Message::Alert(alert)) => {
                        Err(mctls::Error::from(Policy::PeerAlert(alert)).into())
                    }
                    Some(other) => Err(unexpected(other.kind())),
                    None => Err(unexpected(TLS)),
                }
            }
            Some(Frame::Announce) => Err(unexpected(ANNOUNCE)),
            Some(Frame::Short(_)) => Err(unexpected(SHORT)),
            Some(Frame::Holds(_)) => Err(unexpected(HOLDS)),
            Some(Frame::Route(_)) => Err(unexpected(ROUTE)),
        }
    }
}

/// What a frame was.
enum Taken {
    Event(Event),
    Nothing,
}
