//! What all users of one TCP tunnel have in common: the streams, who waits for them, and the task
//! that carries their bytes.
//!
//! Is not: the order in which streams are served, nor their frames ([`Mux`]).
//!
//! Invariants: the lock is held for one call at a time, and never while anything is waited for;
//! one record at a time is under way to the kernel, so that what is urgent passes what is not;
//! whoever waits is woken when the connection ends.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tandem_tunnel::mux::{Event, Key, Malformed, Mux};
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf,
};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

use super::socket::Watched;
use crate::transport::Lost;
use crate::transport::room::Room;

/// Bytes that are read at a time: a TLS record.
const READ: usize = 16 * 1024;

/// How long a connection at rest lasts, as over QUIC.
const IDLE: Duration = Duration::from_secs(24 * 3600);

/// How long what waits may take to leave when this side closes the connection.
const FAREWELL: Duration = Duration::from_secs(1);

/// Between two looks at what is on its way, while something that may be lost waits for room.
const LOOK: Duration = Duration::from_millis(5);

/// See the module.
#[derive(Debug)]
pub(super) struct Carrier {
    state: Mutex<State>,
    /// There may be something to send.
    work: Notify,
    /// The other side has opened a stream.
    arrived: Notify,
    /// Changes when one more stream may be opened.
    room: watch::Sender<()>,
    closing: watch::Sender<bool>,
    ended: watch::Sender<Option<Lost>>,
    socket: Watched,
    line: Room,
    started: Instant,
    /// When something was last sent or received, in seconds since the start.
    active: AtomicU64,
}

#[derive(Debug)]
struct State {
    mux: Mux,
    waiting: BTreeMap<Key, Waiting>,
    arrived: VecDeque<Key>,
}

#[derive(Debug)]
struct Waiting {
    signals: Arc<Signals>,
    /// Halves that somebody has in hand.
    halves: u8,
}

/// What the holders of a stream wait for. A signal that nobody waits for is kept.
#[derive(Debug, Default)]
pub(super) struct Signals {
    pub(super) readable: Notify,
    pub(super) writable: Notify,
    pub(super) stopped: Notify,
}

impl Signals {
    fn all(&self) {
        self.readable.notify_one();
        self.writable.notify_one();
        self.stopped.notify_one();
    }
}

impl Carrier {
    pub(super) fn new(mux: Mux, socket: Watched) -> Self {
        Self {
            state: Mutex::new(State {
                mux,
                waiting: BTreeMap::new(),
                arrived: VecDeque::new(),
            }),
            work: Notify::new(),
            arrived: Notify::new(),
            room: watch::Sender::new(()),
            closing: watch::Sender::new(false),
            ended: watch::Sender::new(None),
            socket,
            line: Room::new(0),
            started: Instant::now(),
            active: AtomicU64::new(0),
        }
    }

    pub(super) fn socket(&self) -> &Watched {
        &self.socket
    }

    /// Does something with the streams, and wakes those whom it concerns.
    pub(super) fn with<T>(&self, call: impl FnOnce(&mut Mux) -> T) -> T {
        let mut state = self.lock();
        let result = call(&mut state.mux);
        self.wake(&mut state);
        self.work.notify_one();
        result
    }

    /// A stream of this side's, once there is room for it.
    pub(super) async fn open(&self) -> Result<(Key, Arc<Signals>), Lost> {
        loop {
            let mut room = self.room.subscribe();
            self.check()?;
            {
                let mut state = self.lock();
                if state.mux.is_used_up() {
                    // Another takes its place.
                    self.close();
                    return Err(Lost::Here);
                }
                if let Some(key) = state.mux.open() {
                    return Ok((key, state.signals(key)));
                }
            }
            tokio::select! {
                // It fails only where the sender is gone, and that is here.
                _ = room.changed() => {}
                why = self.closed() => return Err(why),
            }
        }
    }

    /// The next stream of the other side's.
    pub(super) async fn accept(&self) -> Result<(Key, Arc<Signals>), Lost> {
        loop {
            self.check()?;
            {
                let mut state = self.lock();
                if let Some(key) = state.arrived.pop_front() {
                    return Ok((key, state.signals(key)));
                }
            }
            tokio::select! {
                () = self.arrived.notified() => {}
                why = self.closed() => return Err(why),
            }
        }
    }

    /// A half of this stream was let go of.
    pub(super) fn let_go(&self, key: Key) {
        let mut state = self.lock();
        if let Some(waiting) = state.waiting.get_mut(&key) {
            waiting.halves = waiting.halves.saturating_sub(1);
            if waiting.halves == 0 {
                state.waiting.remove(&key);
            }
        }
    }

    /// Is ready once the line has room for so many bytes that may be lost, or for their turn
    /// ([`Room::take`]), or the connection has ended. The kernel does not say when that changes.
    pub(super) async fn has_room(&self, bytes: usize, since: Instant) {
        while let (Ok(()), Some(flight)) = (self.check(), self.socket.flight()) {
            self.line.set(flight.in_flight, flight.held);
            let taken = self.line.take(bytes, since, flight.round_trip);
            if timeout(LOOK, taken).await.is_ok() {
                return;
            }
        }
    }

    /// Whether the connection has ended, with the reason.
    pub(super) fn check(&self) -> Result<(), Lost> {
        self.ended.borrow().clone().map_or(Ok(()), Err)
    }

    /// Is ready once the connection has ended.
    pub(super) async fn closed(&self) -> Lost {
        let mut ended = self.ended.subscribe();
        let why = ended.wait_for(Option::is_some).await;
        why.ok().and_then(|why| why.clone()).unwrap_or(Lost::Here)
    }

    /// Asks the task to end the connection.
    pub(super) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Carries what the streams have to say over this channel, `record` bytes at a time, until it
    /// ends.
    pub(super) async fn run<S: AsyncRead + AsyncWrite>(&self, channel: S, record: usize) {
        let (mut reader, writer) = tokio::io::split(channel);
        let mut writer = Writer {
            writer,
            record,
            bytes: Vec::new(),
            gone: 0,
        };
        let mut closing = self.closing.subscribe();
        let why = tokio::select! {
            why = self.receive(&mut reader) => why,
            error = writer.send(self) => lost(&error),
            () = self.rested() => Lost::Silent,
            // It fails only where the sender is gone, and that is here.
            _ = closing.wait_for(|closing| *closing) => Lost::Here,
        };
        if why == Lost::Here {
            let _ = timeout(FAREWELL, writer.finish(self)).await;
        }
        self.socket.shut_down();
        self.end(why);
    }

    async fn receive<S: AsyncRead>(&self, reader: &mut ReadHalf<S>) -> Lost {
        let mut buffer = vec![0; READ];
        loop {
            let len = match reader.read(&mut buffer).await {
                // It said that this is the end (RFC 8446, section 6.1).
                Ok(0) => return Lost::ByPeer,
                Ok(len) => len,
                Err(error) => return lost(&error),
            };
            self.is_active();
            let bytes = buffer.get(..len).unwrap_or_default();
            if let Err(Malformed) = self.with(|mux| mux.handle_input(bytes)) {
                return Lost::Refused(Malformed.to_string());
            }
        }
    }

    /// Is ready once nothing was sent or received for [`IDLE`].
    async fn rested(&self) {
        loop {
            let active = Duration::from_secs(self.active.load(Ordering::Relaxed));
            let rest = self.started.elapsed().saturating_sub(active);
            match IDLE.checked_sub(rest) {
                None | Some(Duration::ZERO) => return,
                Some(left) => sleep(left).await,
            }
        }
    }

    fn is_active(&self) {
        let now = self.started.elapsed().as_secs();
        self.active.store(now, Ordering::Relaxed);
    }

    /// What is to be sent next.
    fn output(&self, max: usize) -> Vec<u8> {
        let mut state = self.lock();
        let bytes = state.mux.poll_output(max);
        self.wake(&mut state);
        self.line
            .sent(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        bytes
    }

    fn wake(&self, state: &mut State) {
        while let Some(event) = state.mux.poll_event() {
            let signals = |key| state.waiting.get(&key).map(|waiting| &waiting.signals);
            match event {
                Event::Opened(key) => {
                    state.arrived.push_back(key);
                    self.arrived.notify_one();
                }
                Event::Readable(key) => {
                    if let Some(signals) = signals(key) {
                        signals.readable.notify_one();
                    }
                }
                Event::Writable(key) => {
                    if let Some(signals) = signals(key) {
                        signals.writable.notify_one();
                    }
                }
                Event::Stopped(key) => {
                    if let Some(signals) = signals(key) {
                        signals.stopped.notify_one();
                    }
                }
                Event::Room => {
                    self.room.send_replace(());
                }
            }
        }
    }

    fn end(&self, why: Lost) {
        self.ended.send_replace(Some(why));
        for waiting in self.lock().waiting.values() {
            waiting.signals.all();
        }
    }

    /// A call that panicked has left the streams as they were before or after it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// For the holders of both halves.
    fn signals(&mut self, key: Key) -> Arc<Signals> {
        let signals = Arc::<Signals>::default();
        let waiting = Waiting {
            signals: Arc::clone(&signals),
            halves: 2,
        };
        self.waiting.insert(key, waiting);
        signals
    }
}

/// Writes records. It may be left at any await point and taken up again.
struct Writer<S> {
    writer: WriteHalf<S>,
    record: usize,
    /// The record under way, and how much of it TLS has taken.
    bytes: Vec<u8>,
    gone: usize,
}

impl<S: AsyncRead + AsyncWrite> Writer<S> {
    /// Sends what there is to send; ends only with an error.
    async fn send(&mut self, carrier: &Carrier) -> io::Error {
        loop {
            match self.all(carrier).await {
                Ok(()) => carrier.work.notified().await,
                Err(error) => return error,
            }
        }
    }

    /// The same until there is nothing more, and then the end.
    async fn finish(&mut self, carrier: &Carrier) -> io::Result<()> {
        self.all(carrier).await?;
        self.writer.shutdown().await
    }

    async fn all(&mut self, carrier: &Carrier) -> io::Result<()> {
        loop {
            while self.gone < self.bytes.len() {
                let rest = self.bytes.get(self.gone..).unwrap_or_default();
                match self.writer.write(rest).await? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    len => self.gone += len,
                }
            }
            // Until the kernel has it, what comes next may still be passed by what is urgent.
            self.writer.flush().await?;
            self.bytes = carrier.output(self.record);
            self.gone = 0;
            if self.bytes.is_empty() {
                return Ok(());
            }
            carrier.is_active();
        }
    }
}

fn lost(error: &io::Error) -> Lost {
    match error.kind() {
        // The kernel of a side that has gone says so, or one that knows of no such connection.
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe => Lost::Restarted,
        io::ErrorKind::TimedOut => Lost::Silent,
        _ => Lost::Unreachable(error.to_string()),
    }
}
