//! The tunnel over one TCP connection under TLS 1.3, for networks that let no UDP through
//! (docs/adr/0018-tcp-transport.md).
//!
//! Is not: when to use it (`keeper.rs`); how streams share the connection
//! ([`tandem_tunnel::mux`]).
//!
//! Invariants: both ends are authenticated by keys that derive from the pair's; only the end that
//! has connected opens streams; at rest nothing is sent.

mod carrier;
mod socket;

use std::collections::HashSet;
use std::future::{Future, pending, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tandem_channel::{
    Acceptor, Admission, ChannelError, ChannelKey, Connector, End, KeyExchange, KeyName, Pin,
    Protocol, holder,
};
use tandem_daemon::door::Entry;
use tandem_tunnel::mux::{self, Key, Limits, Mux, Read, Side};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::{
    Broken, Connect, Counts, Datagrams, Expected, Lost, Over, Receiving, Sending, Stopped, Stream,
    Tunnel,
};
use crate::line::Line;
use carrier::{Carrier, Signals};
use socket::Watched;

/// What the two proxies speak in the tunnel.
const PROTOCOL: Protocol = Protocol {
    name: super::OVER_TCP,
    // As over QUIC.
    key_exchange: KeyExchange::Hybrid,
};

/// TCP connections at a time in one tunnel, as over QUIC.
const MAX_STREAMS: usize = 10_000;

/// How long the end of the process waits until the other side has been told.
const FAREWELL: Duration = Duration::from_millis(100);

/// What follows from the line.
#[derive(Clone, Copy, Debug)]
struct Settings {
    /// Bytes of a stream that may wait for their reader.
    window: u32,
    /// Bytes of a record: what is urgent waits for one to leave, and each costs 22 bytes.
    record: usize,
    /// How long a handshake may take.
    patience: Duration,
}

impl Settings {
    /// Records of 4 KiB, or what a line whose rate is stated carries in a tenth of a second, a
    /// packet's worth at least.
    fn of(line: &Line, expected: &Expected) -> Self {
        let record = line.rate.map_or(4_096, |rate| rate / 80);
        Self {
            window: u32::try_from(expected.stream_window).unwrap_or(u32::MAX),
            record: usize::try_from(record.clamp(1_200, 16_000)).unwrap_or(1_200),
            patience: expected.patience,
        }
    }
}

/// Connects to the server side.
pub(crate) struct Client {
    connector: Connector,
    peer: SocketAddr,
    settings: Settings,
    round_trip: Duration,
}

impl Client {
    /// As the client side of the pair with this key.
    ///
    /// # Errors
    /// The TLS library refuses its own defaults.
    pub(crate) fn new(
        pair_key: &[u8; 32],
        peer: SocketAddr,
        line: &Line,
        expected: &Expected,
    ) -> Result<Self, ChannelError> {
        let server = key(pair_key, End::Server)?.name();
        Self::to(pair_key, server, (peer, line), expected)
    }

    /// As the client side with this key, to the server side with that name.
    ///
    /// # Errors
    /// The TLS library refuses its own defaults.
    pub(crate) fn to(
        own_key: &[u8; 32],
        server: KeyName,
        (peer, line): (SocketAddr, &Line),
        expected: &Expected,
    ) -> Result<Self, ChannelError> {
        let key = key(own_key, End::Client)?;
        let pin = Pin::to(server);
        Ok(Self {
            connector: Connector::new(PROTOCOL, &key, pin)?,
            peer,
            settings: Settings::of(line, expected),
            round_trip: expected.round_trip,
        })
    }

    async fn handshake(&self) -> Result<Tcp, Lost> {
        let unreachable = |error: io::Error| Lost::Unreachable(error.to_string());
        let connecting = async {
            let stream = TcpStream::connect(self.peer).await.map_err(unreachable)?;
            let socket = Watched::of(&stream, 2 * self.settings.record).map_err(unreachable)?;
            let channel = self.connector.open(stream).await;
            let channel = channel.map_err(|error| Lost::Foreign(error.to_string()))?;
            Ok(Tcp::start(
                channel,
                None,
                socket,
                (Side::Opens, self.settings),
            ))
        };
        let connected = timeout(self.settings.patience, connecting).await;
        connected.unwrap_or(Err(Lost::Silent))
    }
}

impl Connect for Client {
    type Tunnel = Tcp;

    fn connect(&self) -> impl Future<Output = Result<Tcp, Lost>> + Send {
        self.handshake()
    }

    fn patience(&self) -> Duration {
        self.settings.patience
    }

    fn round_trip(&self) -> Duration {
        self.round_trip
    }
}

/// Completes the handshakes of client sides.
#[derive(Clone)]
pub(crate) struct Server {
    acceptor: Acceptor,
    settings: Settings,
}

impl Server {
    /// As the server side of the pair with this key, which also admits the client sides with these
    /// names.
    ///
    /// # Errors
    /// The TLS library refuses its own defaults.
    pub(crate) fn new(
        pair_key: &[u8; 32],
        mut clients: HashSet<KeyName>,
        line: &Line,
        expected: &Expected,
    ) -> Result<Self, ChannelError> {
        let key = key(pair_key, End::Server)?;
        clients.insert(self::key(pair_key, End::Client)?.name());
        let admission = Admission::Listed(clients);
        Ok(Self {
            acceptor: Acceptor::new(PROTOCOL, &key, admission)?,
            settings: Settings::of(line, expected),
        })
    }

    /// Completes the handshake with whoever has connected, at this place, which is given up in a
    /// crowd where no whole hello comes.
    ///
    /// # Errors
    /// The other end does not have the key, or is silent.
    pub(crate) async fn complete_in(&self, stream: TcpStream, place: &Entry) -> Result<Tcp, Lost> {
        let unreachable = |error: io::Error| Lost::Unreachable(error.to_string());
        let socket = Watched::of(&stream, 2 * self.settings.record).map_err(unreachable)?;
        let handshake = async {
            let sent = Arc::<AtomicU64>::default();
            let mut opening = pin!(self.acceptor.open(stream, Arc::clone(&sent)));
            // Nothing is answered before the hello is whole.
            let answered = poll_fn(|cx| match opening.as_mut().poll(cx) {
                Poll::Ready(opened) => Poll::Ready(Some(opened)),
                Poll::Pending if sent.load(Ordering::Relaxed) > 0 => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            });
            let opened = match place.patiently(answered).await.ok_or(Lost::Silent)? {
                Some(opened) => opened,
                None => opening.await,
            };
            opened.map_err(|error| Lost::Foreign(error.to_string()))
        };
        let completed = timeout(self.settings.patience, handshake).await;
        let channel = completed.unwrap_or(Err(Lost::Silent))?;
        let holder = holder(&channel);
        let start = (Side::Accepts, self.settings);
        Ok(Tcp::start(channel, holder, socket, start))
    }
}

fn key(pair_key: &[u8; 32], end: End) -> Result<ChannelKey, ChannelError> {
    ChannelKey::of_pair(pair_key, end).map_err(|error| ChannelError::System {
        what: "TLS for the tunnel",
        source: io::Error::other(error.to_string()),
    })
}

/// A connection. It is closed once neither it nor a stream of it is in use.
#[derive(Clone, Debug)]
pub(crate) struct Tcp(Arc<User>);

/// Of a connection.
#[derive(Debug)]
struct User {
    carrier: Arc<Carrier>,
    /// Who is at the other end, at the side that accepts.
    holder: Option<KeyName>,
}

impl Drop for User {
    fn drop(&mut self) {
        self.carrier.close();
    }
}

impl Tcp {
    fn start<S>(
        channel: S,
        holder: Option<KeyName>,
        socket: Watched,
        (side, settings): (Side, Settings),
    ) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let limits = Limits {
            streams: MAX_STREAMS,
            window: settings.window,
        };
        let carrier = Arc::new(Carrier::new(Mux::new(side, limits), socket));
        let running = Arc::clone(&carrier);
        tokio::spawn(async move { running.run(channel, settings.record).await });
        Self(Arc::new(User { carrier, holder }))
    }

    /// Who is at the other end: the name of the key that it has shown, at the side that accepts.
    pub(crate) fn holder(&self) -> Option<KeyName> {
        self.0.holder
    }

    fn carrier(&self) -> &Carrier {
        &self.0.carrier
    }

    fn stream(&self, key: Key, signals: Arc<Signals>) -> Stream<Out, In> {
        let half = || Half {
            user: Arc::clone(&self.0),
            key,
            signals: Arc::clone(&signals),
        };
        Stream {
            sending: Out(half()),
            receiving: In(half()),
        }
    }
}

impl Tunnel for Tcp {
    type Sending = Out;
    type Receiving = In;

    async fn open(&self) -> Result<Stream<Out, In>, Lost> {
        let (key, signals) = self.carrier().open().await?;
        Ok(self.stream(key, signals))
    }

    async fn accept(&self) -> Result<Stream<Out, In>, Lost> {
        let (key, signals) = self.carrier().accept().await?;
        Ok(self.stream(key, signals))
    }

    async fn closed(&self) -> Lost {
        self.carrier().closed().await
    }

    fn close(&self) {
        self.carrier().close();
    }

    async fn farewell(&self) {
        self.close();
        let _ = timeout(FAREWELL, self.closed()).await;
    }

    fn counts(&self) -> Counts {
        self.carrier().socket().counts()
    }

    fn nudge(&self) {}

    fn over(&self) -> Over {
        Over::Tcp
    }
}

/// What the halves of a stream have.
#[derive(Debug)]
struct Half {
    user: Arc<User>,
    key: Key,
    signals: Arc<Signals>,
}

impl Half {
    fn carrier(&self) -> &Carrier {
        &self.user.carrier
    }

    fn with<T>(&self, call: impl FnOnce(&mut Mux, Key) -> T) -> T {
        self.carrier().with(|mux| call(mux, self.key))
    }

    fn check(&self) -> Result<(), Broken> {
        self.carrier().check().map_err(|_| Broken::Lost)
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        self.carrier().let_go(self.key);
    }
}

/// The half of a stream that sends.
#[derive(Debug)]
pub(crate) struct Out(Half);

impl Drop for Out {
    fn drop(&mut self) {
        self.0.with(Mux::let_go_of_sending);
    }
}

impl Sending for Out {
    type Datagrams = Beside;

    fn datagrams(&self) -> Beside {
        Beside {
            user: Arc::clone(&self.0.user),
            key: self.0.key,
            signals: Arc::clone(&self.0.signals),
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        loop {
            self.0.check()?;
            match self.0.with(|mux, key| mux.write(key, bytes)) {
                Ok(0) => self.0.signals.writable.notified().await,
                Ok(len) => return Ok(len),
                Err(why) => return Err(broken(why)),
            }
        }
    }

    fn finish(&mut self) {
        self.0.with(Mux::finish);
    }

    fn reset(&mut self, code: u32) {
        self.0.with(|mux, key| mux.reset(key, code));
    }

    fn lower_priority(&mut self) {
        self.0.with(Mux::lower_priority);
    }

    fn stopped(&self) -> Stopped {
        let (user, key) = (Arc::clone(&self.0.user), self.0.key);
        let signals = Arc::clone(&self.0.signals);
        Box::pin(async move {
            loop {
                if user.carrier.check().is_err() {
                    return Some(Broken::Lost);
                }
                if let Some(code) = user.carrier.with(|mux| mux.stopped(key)) {
                    return Some(Broken::ByPeer(code.into()));
                }
                signals.stopped.notified().await;
            }
        })
    }
}

/// Nothing: over TCP all crosses on the stream. The room that it has there.
#[derive(Debug)]
pub(crate) struct Beside {
    user: Arc<User>,
    key: Key,
    signals: Arc<Signals>,
}

impl Datagrams for Beside {
    /// What was written before has to have left, too.
    async fn room(&self, bytes: usize, since: Instant) {
        let carrier = &self.user.carrier;
        while carrier.check().is_ok() && !carrier.with(|mux| mux.is_drained(self.key)) {
            self.signals.writable.notified().await;
        }
        carrier.has_room(bytes, since).await;
    }

    fn max_len(&self) -> Option<usize> {
        None
    }

    fn send(&self, _: &[u8]) {}

    async fn receive(&self) -> Vec<u8> {
        pending().await
    }
}

/// The half of a stream that receives.
#[derive(Debug)]
pub(crate) struct In(Half);

impl Drop for In {
    fn drop(&mut self) {
        self.0.with(Mux::let_go_of_receiving);
    }
}

impl Receiving for In {
    async fn read(&mut self) -> Result<Option<Vec<u8>>, Broken> {
        loop {
            self.0.check()?;
            match self.0.with(|mux, key| mux.read(key)) {
                Ok(Read::Piece(piece)) => return Ok(Some(piece)),
                Ok(Read::End) => return Ok(None),
                Ok(Read::Nothing) => self.0.signals.readable.notified().await,
                Err(why) => return Err(broken(why)),
            }
        }
    }

    fn stop(&mut self, code: u32) {
        self.0.with(|mux, key| mux.stop(key, code));
    }
}

fn broken(why: mux::Broken) -> Broken {
    match why {
        mux::Broken::ByPeer(code) => Broken::ByPeer(code.into()),
        mux::Broken::Here => Broken::Lost,
    }
}

#[cfg(test)]
mod tests;
