//! The same client, server and middlebox for programs without an async runtime: each call blocks
//! its thread.
//!
//! Is not: another implementation; a way for async code to block. Each connection has a small
//! runtime of its own, and whichever thread waits for it runs it. So there is no thread in the
//! background that a `fork` would lose, and no connection waits for another. A connection belongs
//! to the process that made it: make it after the fork.
//!
//! Invariants: the two halves of a session never wait for each other, so two threads may send and
//! receive at the same time; a call ends, with an error at the latest, within the time-outs of the
//! settings and of [`SessionSender::set_timeout`] and its like, and within [`ASKED_EVERY`] of the
//! moment at which its [`Interrupt`] says so. Calling from within async code panics, as tokio says.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mctls::config::Configuration;
use mctls::error::Alert;
use mctls::party::ContextId;
use mctls::receiver::Delivery;
use rustls::pki_types::CertificateDer;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::error::{Error, Part};
use crate::{ClientSettings, MiddleboxSettings, ServerSettings};

/// How often a waiting call asks its [`Interrupt`].
pub const ASKED_EVERY: Duration = Duration::from_millis(100);

/// Whether calls that wait are to give up: [`std::io::ErrorKind::Interrupted`] is their error then.
/// It is asked by the waiting thread, outside of the runtime.
pub type Interrupt = Arc<dyn Fn() -> bool + Send + Sync>;

/// A client.
#[derive(Clone)]
pub struct Client {
    client: crate::Client,
    interrupt: Option<Interrupt>,
}

/// A server.
#[derive(Clone)]
pub struct Server {
    pub(crate) server: crate::Server,
    interrupt: Option<Interrupt>,
}

/// A middlebox.
#[derive(Clone, Debug)]
pub struct Middlebox {
    middlebox: crate::Middlebox,
}

/// What a connection has become.
#[derive(Debug)]
pub enum Connected {
    /// A session with contexts.
    Session(Box<Session>),
    /// Plain TLS end to end, where the policy permits it: middleboxes see nothing.
    Plain(Box<Plain>),
}

/// A session with contexts. Its halves may go to different threads.
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
    sender: crate::SessionSender,
    waits: Waits,
}

/// Receives data.
#[derive(Debug)]
pub struct SessionReceiver {
    receiver: crate::SessionReceiver,
    waits: Waits,
}

/// A plain TLS session.
#[derive(Debug)]
pub struct Plain {
    plain: crate::Plain,
    waits: Waits,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.client.fmt(f)
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.server.fmt(f)
    }
}

impl Client {
    /// As [`crate::Client::new`].
    ///
    /// # Errors
    /// As there.
    pub fn new(settings: ClientSettings) -> Result<Self, Error> {
        Ok(Self {
            client: crate::Client::new(settings)?,
            interrupt: None,
        })
    }

    /// The same, whose calls and those of its sessions give up when they are told so.
    #[must_use]
    pub fn interrupted_by(mut self, interrupt: Interrupt) -> Self {
        self.interrupt = Some(interrupt);
        self
    }

    /// As [`crate::Client::connect`].
    ///
    /// # Errors
    /// As there.
    pub fn connect(&self, address: &str, name: &str) -> Result<Connected, Error> {
        let waits = Waits::new(self.interrupt.clone())?;
        let connected = waits.wait(Part::NextHop, self.client.connect(address, name))?;
        Ok(Connected::new(connected, waits))
    }

    /// As [`crate::Client::connect_over`].
    ///
    /// # Errors
    /// As there.
    pub fn connect_over(
        &self,
        stream: std::net::TcpStream,
        address: &str,
        name: &str,
    ) -> Result<Connected, Error> {
        let waits = Waits::new(self.interrupt.clone())?;
        let connected = waits.wait(Part::NextHop, async {
            let stream = adopted(stream)?;
            self.client.connect_over(stream, address, name).await
        })?;
        Ok(Connected::new(connected, waits))
    }
}

impl Server {
    /// As [`crate::Server::new`].
    ///
    /// # Errors
    /// As there.
    pub fn new(settings: &ServerSettings) -> Result<Self, Error> {
        Ok(Self {
            server: crate::Server::new(settings)?,
            interrupt: None,
        })
    }

    /// As [`Client::interrupted_by`].
    #[must_use]
    pub fn interrupted_by(mut self, interrupt: Interrupt) -> Self {
        self.interrupt = Some(interrupt);
        self
    }

    /// As [`crate::Server::accept`]. Several threads may do so at the same time.
    ///
    /// # Errors
    /// As there.
    pub fn accept(&self, stream: std::net::TcpStream) -> Result<Connected, Error> {
        let waits = Waits::new(self.interrupt.clone())?;
        let accepted = waits.wait(Part::NextHop, async {
            self.server.accept(adopted(stream)?).await
        })?;
        Ok(Connected::new(accepted, waits))
    }
}

impl Middlebox {
    /// As [`crate::Middlebox::new`].
    ///
    /// # Errors
    /// As there.
    pub fn new(settings: &MiddleboxSettings) -> Result<Self, Error> {
        let middlebox = crate::Middlebox::new(settings)?;
        Ok(Self { middlebox })
    }

    /// As [`crate::Middlebox::serve`]: takes as long as the session. One thread for each.
    ///
    /// # Errors
    /// As there.
    pub fn serve(&self, stream: std::net::TcpStream) -> Result<(), Error> {
        let waits = Waits::new(None)?;
        waits.wait(Part::NextHop, async {
            self.middlebox.serve(adopted(stream)?).await
        })
    }
}

impl Connected {
    fn new(connected: crate::Connected, waits: Waits) -> Self {
        match connected {
            crate::Connected::Session(session) => Self::Session(Box::new(Session {
                configuration: session.configuration,
                certificate: session.certificate,
                sender: SessionSender {
                    sender: session.sender,
                    waits: waits.clone(),
                },
                receiver: SessionReceiver {
                    receiver: session.receiver,
                    waits,
                },
            })),
            crate::Connected::Plain(plain) => Self::Plain(Box::new(Plain {
                plain: *plain,
                waits,
            })),
        }
    }
}

impl SessionSender {
    /// As [`crate::SessionSender::send`]. A call that ran out of time or was interrupted has sent
    /// nobody knows how much: nothing can follow but [`Self::abort`].
    ///
    /// # Errors
    /// As there, and [`Error::TimedOut`] after [`Self::set_timeout`].
    pub fn send(&mut self, context: ContextId, data: &[u8]) -> Result<(), Error> {
        let sending = self.sender.send(context, data);
        self.waits.wait(Part::NextHop, sending)
    }

    /// As [`crate::SessionSender::close`].
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn close(&mut self) -> Result<(), Error> {
        self.waits.wait(Part::NextHop, self.sender.close())
    }

    /// As [`crate::SessionSender::abort`].
    pub fn abort(&mut self, alert: Alert) {
        let aborting = async {
            self.sender.abort(alert).await;
            Ok(())
        };
        // Whoever takes nothing in time is not told.
        let _: Result<(), Error> = self.waits.wait(Part::NextHop, aborting);
    }

    /// How long a call may take from now on. `None`, the default: as the settings say.
    pub fn set_timeout(&mut self, limit: Option<Duration>) {
        self.waits.limit = limit;
    }
}

impl SessionReceiver {
    /// As [`crate::SessionReceiver::recv`]. A call that ran out of time or was interrupted has lost
    /// nothing; the next one goes on.
    ///
    /// # Errors
    /// As there, and [`Error::TimedOut`] after [`Self::set_timeout`].
    pub fn recv(&mut self) -> Result<Option<Delivery>, Error> {
        self.waits.wait(Part::EndToEnd, self.receiver.recv())
    }

    /// As [`SessionSender::set_timeout`].
    pub fn set_timeout(&mut self, limit: Option<Duration>) {
        self.waits.limit = limit;
    }
}

impl Plain {
    /// As [`crate::Plain::send`].
    ///
    /// # Errors
    /// As there, and [`Error::TimedOut`] after [`Self::set_timeout`].
    pub fn send(&mut self, data: &[u8]) -> Result<(), Error> {
        self.waits.wait(Part::NextHop, self.plain.send(data))
    }

    /// As [`crate::Plain::close`].
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn close(&mut self) -> Result<(), Error> {
        self.waits.wait(Part::NextHop, self.plain.close())
    }

    /// As [`crate::Plain::recv`].
    ///
    /// # Errors
    /// As there, and [`Error::TimedOut`] after [`Self::set_timeout`].
    pub fn recv(&mut self) -> Result<Option<Vec<u8>>, Error> {
        self.waits.wait(Part::EndToEnd, self.plain.recv())
    }

    /// As [`SessionSender::set_timeout`].
    pub fn set_timeout(&mut self, limit: Option<Duration>) {
        self.waits.limit = limit;
    }
}

/// A connection of the system, in the runtime that this is called in.
fn adopted(stream: std::net::TcpStream) -> Result<tokio::net::TcpStream, Error> {
    stream.set_nonblocking(true)?;
    Ok(tokio::net::TcpStream::from_std(stream)?)
}

/// How a thread waits for one connection.
#[derive(Clone)]
struct Waits {
    runtime: Arc<OneConnection>,
    limit: Option<Duration>,
    interrupt: Option<Interrupt>,
}

impl std::fmt::Debug for Waits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waits")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl Waits {
    fn new(interrupt: Option<Interrupt>) -> Result<Self, Error> {
        // Of two threads that wait for it, one runs it, and hands it on when it leaves.
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self {
            runtime: Arc::new(OneConnection(Some(runtime))),
            limit: None,
            interrupt,
        })
    }

    /// Runs `work`; `part` is who has not answered where that takes too long.
    fn wait<T>(
        &self,
        part: Part,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let Some(runtime) = &self.runtime.0 else {
            // Only a drop takes it.
            return Err(Error::Interrupted);
        };
        // What the clock cannot hold is no limit.
        let deadline = self
            .limit
            .and_then(|limit| Some((Instant::now().checked_add(limit)?, limit)));
        let mut work = pin!(work);
        loop {
            let left = deadline.map(|(deadline, _)| deadline.duration_since(Instant::now()));
            let asked = self.interrupt.as_ref().map(|_| ASKED_EVERY);
            let Some(slice) = left.into_iter().chain(asked).min() else {
                return runtime.block_on(work);
            };
            if let Ok(done) = runtime.block_on(async { timeout(slice, work.as_mut()).await }) {
                return done;
            }
            if let Some((deadline, limit)) = deadline
                && Instant::now() >= deadline
            {
                return Err(Error::TimedOut(part, limit));
            }
            if self.interrupt.as_ref().is_some_and(|asked| asked()) {
                return Err(Error::Io(std::io::ErrorKind::Interrupted.into()));
            }
        }
    }
}

/// A runtime that may be dropped anywhere, also where a thread must not wait.
struct OneConnection(Option<Runtime>);

impl Drop for OneConnection {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
