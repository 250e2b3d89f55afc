//! Client and server: they establish a session, and send and receive data in it.

use std::sync::Arc;

use mctls::party::ContextId;
use mctls_io::Timeouts;
use mctls12::Mode;
use mctls12::auth::{Identity, Suite, Verify};
use mctls12::endpoint::{Client, Decision, Established, Handshake, Server};
use mctls12::error::Breach;
use mctls12::list::MiddleboxList;
use mctls12::receiver::{Delivery, Event, Receiver};
use mctls12::record::{Input, MAX_PAYLOAD_LEN};
use mctls12::sender::Sender;
use mctls12_prototype::error::Breach as Cut;
use mctls12_prototype::record::Input as Raw;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::error::Error;
use crate::line::{Lines, Reading, Writing, alert, entropy, halves};

/// A session with contexts.
#[derive(Debug)]
pub struct Session {
    /// What the client has proposed.
    pub list: MiddleboxList,
    /// The cipher suite.
    pub suite: Suite,
    /// Who made the keys.
    pub mode: Mode,
    /// For data to the other endpoint.
    pub sender: SessionSender,
    /// For data from it.
    pub receiver: SessionReceiver,
}

/// Sends data.
#[derive(Debug)]
pub struct SessionSender {
    core: Seals,
    line: Writing,
}

/// Receives data.
#[derive(Debug)]
pub struct SessionReceiver {
    core: Opens,
    has_ended: bool,
}

/// What protects records, in either format.
#[derive(Debug)]
pub(crate) enum Seals {
    Paper(Sender),
    Prototype(mctls12_prototype::session::Sender),
}

/// What opens records, and where they come from, in either format.
#[derive(Debug)]
pub(crate) enum Opens {
    Paper(Receiver, Reading),
    Prototype(mctls12_prototype::session::Receiver, Lines),
}

impl SessionSender {
    pub(crate) const fn new(core: Seals, line: Writing) -> Self {
        Self { core, line }
    }
}

impl SessionReceiver {
    pub(crate) const fn new(core: Opens) -> Self {
        Self {
            core,
            has_ended: false,
        }
    }
}

/// Connects to the first middlebox of a list, or to its server, and establishes a session.
///
/// # Errors
/// The connection fails, somebody does not answer in time, or the handshake fails.
pub async fn connect(
    list: MiddleboxList,
    verify: Arc<dyn Verify>,
    timeouts: Timeouts,
) -> Result<Session, Error> {
    let first = list.middleboxes().first().unwrap_or(list.server());
    let address = first.address.clone();
    let joining = async {
        let stream = TcpStream::connect(address).await?;
        let lines = halves(stream, timeouts.idle)?;
        let mut out = Vec::new();
        let handshake = Client::start(list, verify, entropy()?, &mut out)?;
        establish(handshake, out, lines, |_| None).await
    };
    let joined = timeout(timeouts.handshake, joining).await;
    joined.map_err(|_| Error::TimedOut(timeouts.handshake))?
}

/// Establishes a session with a client that has connected. `decide` says how; `None` refuses it.
///
/// # Errors
/// As [`connect`]; [`Error::Refused`].
pub async fn accept(
    stream: TcpStream,
    identity: Identity,
    verify: Arc<dyn Verify>,
    decide: impl FnMut(&MiddleboxList) -> Option<Decision>,
    timeouts: Timeouts,
) -> Result<Session, Error> {
    let joining = async {
        let lines = halves(stream, timeouts.idle)?;
        let handshake = Server::start(identity, verify, entropy()?)?;
        establish(handshake, Vec::new(), lines, decide).await
    };
    let joined = timeout(timeouts.handshake, joining).await;
    joined.map_err(|_| Error::TimedOut(timeouts.handshake))?
}

async fn establish(
    mut handshake: Handshake,
    opening: Vec<u8>,
    lines: (Reading, Writing),
    mut decide: impl FnMut(&MiddleboxList) -> Option<Decision>,
) -> Result<Session, Error> {
    let (mut reading, mut writing) = lines;
    writing.all(&opening).await?;
    loop {
        if let Handshake::Established(established) = handshake {
            return Ok(session(*established, reading, writing));
        }
        // An alert in clear behind one's own change of the cipher says nothing to anybody.
        let may_tell = !matches!(
            handshake,
            Handshake::Materials(_) | Handshake::Confirming(_)
        );
        let input = reading.next().await;
        let mut out = Vec::new();
        let next = input.and_then(|input| step(handshake, input, &mut out, &mut decide));
        match next {
            Ok(next) => handshake = next,
            Err(error) => {
                if let (true, Some(code)) = (may_tell, code(&error)) {
                    // Whoever has gone cannot be told.
                    let _ = writing.all(&alert(code)).await;
                }
                writing.end().await;
                return Err(error);
            }
        }
        writing.all(&out).await?;
    }
}

fn step(
    handshake: Handshake,
    input: Option<Input>,
    out: &mut Vec<u8>,
    decide: &mut impl FnMut(&MiddleboxList) -> Option<Decision>,
) -> Result<Handshake, Error> {
    let input = input.ok_or(Breach::Truncated)?;
    match handshake.handle(input, out)? {
        Handshake::Deciding(deciding) => {
            let decision = decide(deciding.list()).ok_or(Error::Refused)?;
            Ok(deciding.accept(decision, out)?)
        }
        other => Ok(other),
    }
}

/// What the other side is told of an error.
pub(crate) fn code(error: &Error) -> Option<u8> {
    const ACCESS_DENIED: u8 = 49;
    const INTERNAL_ERROR: u8 = 80;
    match error {
        Error::Session(error) => error.alert(),
        Error::Prototype(error) => error.alert(),
        Error::Refused | Error::NotJoined | Error::NotPermitted(_) | Error::Blocked => {
            Some(ACCESS_DENIED)
        }
        Error::Settings(_) | Error::Io(_) | Error::TimedOut(_) => Some(INTERNAL_ERROR),
    }
}

fn session(established: Established, reading: Reading, writing: Writing) -> Session {
    Session {
        list: established.list,
        suite: established.suite,
        mode: established.mode,
        sender: SessionSender::new(Seals::Paper(established.sender), writing),
        receiver: SessionReceiver::new(Opens::Paper(established.receiver, reading)),
    }
}

impl SessionSender {
    /// Sends data in a context, in as many records as it needs. A session whose call was dropped
    /// half-way is over.
    ///
    /// # Errors
    /// A context that is not there, a direction that is closed, a neighbour that is gone.
    pub async fn send(&mut self, context: ContextId, data: &[u8]) -> Result<(), Error> {
        for piece in data.chunks(MAX_PAYLOAD_LEN) {
            let mut out = Vec::new();
            match &mut self.core {
                Seals::Paper(core) => core.seal(context, piece, &mut out)?,
                Seals::Prototype(core) => core.seal(context, piece, &mut out)?,
            }
            self.line.all(&out).await?;
        }
        Ok(())
    }

    /// Closes this direction: the other endpoint knows that it has everything.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub async fn close(&mut self) -> Result<(), Error> {
        let mut out = Vec::new();
        match &mut self.core {
            Seals::Paper(core) => core.close(&mut out)?,
            Seals::Prototype(core) => core.close(&mut out)?,
        }
        self.line.all(&out).await?;
        self.line.end().await;
        Ok(())
    }

    /// Ends the session and tells the other endpoint, as far as it still listens.
    pub async fn abort(&mut self, error: &Error) {
        let mut out = Vec::new();
        let is_told = code(error).is_some_and(|code| match &mut self.core {
            Seals::Paper(core) => core.alert(code, &mut out).is_ok(),
            Seals::Prototype(core) => core.abort(code, &mut out).is_ok(),
        });
        if is_told {
            // Whoever has gone cannot be told.
            let _ = self.line.all(&out).await;
        }
        self.line.end().await;
    }
}

impl SessionReceiver {
    /// The next data; `None` once the other endpoint has closed its direction.
    ///
    /// # Errors
    /// Somebody has overstepped, cut the connection, or ended the session: it is over.
    pub async fn recv(&mut self) -> Result<Option<Delivery>, Error> {
        if self.has_ended {
            return Ok(None);
        }
        let event = match &mut self.core {
            Opens::Paper(core, line) => match line.next().await? {
                None => return Ok(core.finish().map(|()| None)?),
                Some(Input::Protected(record)) => core.open(&record)?,
                Some(Input::Message(_) | Input::ChangeCipherSpec | Input::Alert(_)) => {
                    return Err(Breach::Truncated.into());
                }
            },
            Opens::Prototype(core, line) => match line.next().await? {
                None => return Ok(core.finish().map(|()| None)?),
                Some(Raw::Protected(record)) => core.open(&record)?,
                Some(Raw::Message(_) | Raw::ChangeCipherSpec | Raw::Alert(_)) => {
                    return Err(Cut::Truncated.into());
                }
            },
        };
        match event {
            Event::Data(delivery) => Ok(Some(delivery)),
            Event::Closed => {
                self.has_ended = true;
                Ok(None)
            }
        }
    }
}
