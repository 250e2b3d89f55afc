//! The tunnel over QUIC (RFC 9000), by quinn.
//!
//! Is not: when to connect (`keeper.rs`), nor what the streams say.
//!
//! Invariants: both ends are authenticated by keys that derive from the pair's; there is no 0-RTT
//! data; at rest nothing is sent. What gets no answer is asked for each half minute (`nudge.rs`).

mod beside;
mod open_streams;
mod parameters;
mod reset_key;

use std::collections::HashSet;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, ConnectionError, ConnectionStats, Endpoint, EndpointConfig, Incoming,
    ReadError, RecvStream, SendStream, ServerConfig, TokioRuntime, TransportErrorCode, VarInt,
    WriteError,
};
use tandem_channel::{
    Admission, ChannelError, ChannelKey, End, KeyExchange, KeyName, Pin, Protocol, SERVER_NAME,
    client_config, holder_of, server_config,
};
use tandem_daemon::door::Entry;
use tokio::time::timeout;

use super::nudge::{self, LOOK_INTERVAL, Watch};
use super::{
    Broken, Connect, Counts, Expected, Lost, Over, Receiving, Sending, Stopped, Stream, Tunnel,
};
use crate::line::Line;
use beside::Takers;
use open_streams::{OpenStream, OpenStreams};
use parameters::Parameters;
use reset_key::ResetKey;

pub(crate) use beside::Beside;

/// What the two proxies speak in the tunnel.
const PROTOCOL: Protocol = Protocol {
    name: super::OVER_QUIC,
    // Handshake keys of endpoints may cross the tunnel one day, and the handshakes that they belong
    // to are hybrid.
    key_exchange: KeyExchange::Hybrid,
};

/// Packets' payloads that are taken out of a stream at a time: some 32 KiB.
const PAYLOADS: usize = 24;

/// Connections that have come and nobody has looked at yet; more are refused.
const MAX_INCOMING: usize = 64;

/// Given with a close; the other side logs it, nothing depends on it.
const SHUTTING_DOWN: VarInt = VarInt::from_u32(0);

/// How long the end of the process waits until the other side has been told.
const FAREWELL: Duration = Duration::from_millis(100);

/// What follows from the line for any transport.
pub(crate) fn expected(line: &Line) -> Expected {
    let parameters = Parameters::of(line);
    Expected {
        round_trip: parameters.initial_round_trip(),
        patience: parameters.patience(),
        silence: parameters.silence(),
        stream_window: parameters.stream_window(),
    }
}

/// Connects to the server side.
pub(crate) struct Client {
    config: ClientConfig,
    reset_key: Arc<ResetKey>,
    peer: SocketAddr,
    patience: Duration,
    probe_patience: Duration,
    round_trip: Duration,
    /// See [`greet`].
    greeting: Duration,
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
    ) -> Result<Self, ChannelError> {
        let server = key(pair_key, End::Server)?.name();
        Self::to(pair_key, server, peer, line)
    }

    /// As the client side with this key, to the server side with that name.
    ///
    /// # Errors
    /// The TLS library refuses its own defaults.
    pub(crate) fn to(
        own_key: &[u8; 32],
        server: KeyName,
        peer: SocketAddr,
        line: &Line,
    ) -> Result<Self, ChannelError> {
        let key = key(own_key, End::Client)?;
        let pin = Pin::to(server);
        let tls = client_config(PROTOCOL, &key, pin)?;
        let tls = QuicClientConfig::try_from(tls).map_err(|error| refused(&error))?;
        let parameters = Parameters::of(line);
        let mut config = ClientConfig::new(Arc::new(tls));
        let mut transport = parameters.transport();
        // The server side opens none.
        transport.max_concurrent_bidi_streams(VarInt::from_u32(0));
        config.transport_config(Arc::new(transport));
        Ok(Self {
            config,
            reset_key: Arc::new(ResetKey::of_pair(own_key)),
            peer,
            patience: parameters.patience(),
            probe_patience: parameters.probe_patience(),
            round_trip: parameters.initial_round_trip(),
            greeting: parameters.ack_delay(),
        })
    }

    /// As [`Connect::connect`], for one try alone: fewer packets where nobody answers.
    pub(crate) async fn probe(&self) -> Result<Quic, Lost> {
        let tried = timeout(self.probe_patience, self.handshake()).await;
        tried.unwrap_or(Err(Lost::Silent))
    }

    /// The longest that [`Client::probe`] takes.
    pub(crate) fn probe_patience(&self) -> Duration {
        self.probe_patience
    }

    /// An endpoint with a socket of its own. Each connection has one: packets to the client carry
    /// no connection id, so that the port is what tells connections apart.
    fn endpoint(&self) -> io::Result<Endpoint> {
        let any: SocketAddr = match self.peer {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let config = endpoint_config(&self.reset_key, parameters::CLIENT_ID_LEN);
        Endpoint::new(config, None, UdpSocket::bind(any)?, Arc::new(TokioRuntime))
    }

    async fn handshake(&self) -> Result<Quic, Lost> {
        let unusable = |error: &dyn std::fmt::Display| Lost::Unusable(error.to_string());
        let endpoint = self.endpoint().map_err(|error| unusable(&error))?;
        let connecting = endpoint
            .connect_with(self.config.clone(), self.peer, SERVER_NAME)
            .map_err(|error| unusable(&error))?;
        match timeout(self.patience, connecting).await {
            Ok(Ok(connection)) => {
                tokio::spawn(greet(connection.clone(), self.greeting));
                Ok(watched(connection))
            }
            Ok(Err(error)) => Err(lost(&error)),
            Err(_) => Err(Lost::Silent),
        }
    }
}

impl Connect for Client {
    type Tunnel = Quic;

    fn connect(&self) -> impl Future<Output = Result<Quic, Lost>> + Send {
        self.handshake()
    }

    fn patience(&self) -> Duration {
        self.patience
    }

    fn round_trip(&self) -> Duration {
        self.round_trip
    }
}

/// Waits for client sides.
pub(crate) struct Server {
    endpoint: Endpoint,
    patience: Duration,
}

impl Server {
    /// As the server side of the pair with this key, on this socket. Needs a runtime.
    ///
    /// # Errors
    /// The TLS library refuses its own defaults, or the socket cannot be used.
    #[cfg(test)]
    pub(crate) fn new(
        pair_key: &[u8; 32],
        socket: UdpSocket,
        line: &Line,
    ) -> Result<Self, ChannelError> {
        Self::admitting(pair_key, HashSet::new(), socket, line)
    }

    /// As the server side of the pair with this key, on this socket, which also admits the client
    /// sides with these names. Needs a runtime.
    ///
    /// # Errors
    /// The TLS library refuses its own defaults, or the socket cannot be used.
    pub(crate) fn admitting(
        pair_key: &[u8; 32],
        clients: HashSet<KeyName>,
        socket: UdpSocket,
        line: &Line,
    ) -> Result<Self, ChannelError> {
        let config = server_config_of(pair_key, clients, line)?;
        let reset_key = Arc::new(ResetKey::of_pair(pair_key));
        let endpoint_config = endpoint_config(&reset_key, parameters::SERVER_ID_LEN);
        let endpoint = Endpoint::new(
            endpoint_config,
            Some(config),
            socket,
            Arc::new(TokioRuntime),
        )
        .map_err(|source| ChannelError::System {
            what: "UDP",
            source,
        })?;
        Ok(Self {
            endpoint,
            patience: Parameters::of(line).patience(),
        })
    }

    /// The next client side that wants a connection; `None` once the server is closed.
    pub(crate) async fn accept(&self) -> Option<Arriving> {
        let incoming = self.endpoint.accept().await?;
        Some(Arriving {
            incoming,
            patience: self.patience,
        })
    }

    /// Ends all connections and tells the other sides, as far as that is possible at once.
    pub(crate) async fn close(&self) {
        self.endpoint.close(SHUTTING_DOWN, b"");
        let _ = timeout(FAREWELL, self.endpoint.wait_idle()).await;
    }
}

/// A connection whose handshake has begun.
pub(crate) struct Arriving {
    incoming: Incoming,
    patience: Duration,
}

impl Arriving {
    /// Completes the handshake.
    ///
    /// # Errors
    /// The other end does not have the key, or is silent.
    pub(crate) async fn complete(self) -> Result<Quic, Lost> {
        match timeout(self.patience, self.incoming).await {
            Ok(Ok(connection)) => Ok(watched(connection)),
            Ok(Err(error)) => Err(lost(&error)),
            Err(_) => Err(Lost::Silent),
        }
    }

    /// The same at this place, which is given up in a crowd where no hello comes.
    ///
    /// # Errors
    /// The same.
    pub(crate) async fn complete_in(self, place: &Entry) -> Result<Quic, Lost> {
        let handshake = async {
            let mut connecting = self.incoming.accept().map_err(|error| lost(&error))?;
            let hello = async { connecting.handshake_data().await.map(drop) };
            let hello = place.patiently(hello).await.ok_or(Lost::Silent)?;
            hello.map_err(|error| lost(&error))?;
            connecting.await.map(watched).map_err(|error| lost(&error))
        };
        let completed = timeout(self.patience, handshake).await;
        completed.unwrap_or(Err(Lost::Silent))
    }

    /// The address that its packets bear.
    pub(crate) fn address(&self) -> IpAddr {
        self.incoming.remote_address().ip()
    }

    /// The address that its packets bear, if it is known to be there: it has come again when asked
    /// to.
    pub(crate) fn shown_address(&self) -> Option<IpAddr> {
        let is_shown = self.incoming.remote_address_validated();
        is_shown.then(|| self.address())
    }

    /// Asks it to come again and show its address (RFC 9000, section 8.1.2). Nothing is kept of it.
    pub(crate) fn ask_again(self) {
        // It fails only where the address has been shown.
        let _ = self.incoming.retry();
    }

    /// Gives no answer.
    pub(crate) fn ignore(self) {
        self.incoming.ignore();
    }
}

fn server_config_of(
    pair_key: &[u8; 32],
    mut clients: HashSet<KeyName>,
    line: &Line,
) -> Result<ServerConfig, ChannelError> {
    let key = key(pair_key, End::Server)?;
    clients.insert(self::key(pair_key, End::Client)?.name());
    let admission = Admission::Listed(clients);
    let tls = server_config(PROTOCOL, &key, admission)?;
    let tls = QuicServerConfig::try_from(tls).map_err(|error| refused(&error))?;
    let parameters = Parameters::of(line);
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    let mut transport = parameters.transport();
    transport.max_concurrent_bidi_streams(open_streams::AT_FIRST.into());
    config
        .transport_config(Arc::new(transport))
        .max_incoming(MAX_INCOMING)
        // Who is asked to come again does so with two datagrams, which take seconds.
        .retry_token_lifetime(parameters.patience())
        // The client side may come from another address at any time: another network, another
        // port at its NAT.
        .migration(true);
    Ok(config)
}

fn key(pair_key: &[u8; 32], end: End) -> Result<ChannelKey, ChannelError> {
    ChannelKey::of_pair(pair_key, end).map_err(|error| refused(&error))
}

fn refused(error: &dyn std::fmt::Display) -> ChannelError {
    ChannelError::System {
        what: "TLS for the tunnel",
        source: io::Error::other(error.to_string()),
    }
}

fn endpoint_config(reset_key: &Arc<ResetKey>, id_len: usize) -> EndpointConfig {
    let mut config = EndpointConfig::new(Arc::<ResetKey>::clone(reset_key));
    config.cid_generator(move || Box::new(quinn_proto::RandomConnectionIdGenerator::new(id_len)));
    config
}

/// A connection.
#[derive(Clone, Debug)]
pub(crate) struct Quic {
    connection: Connection,
    takers: Arc<Takers>,
    open: Arc<OpenStreams>,
}

impl Quic {
    /// Who is at the other end: the name of the key that it has shown.
    pub(crate) fn holder(&self) -> Option<KeyName> {
        holder_of(&*self.connection.peer_identity()?)
    }

    fn stream(&self, (half, receiving): (SendStream, RecvStream)) -> Stream<Out, In> {
        let tunnel = self.clone();
        Stream {
            sending: Out {
                half,
                _open: OpenStream::new(&tunnel.open),
                tunnel,
            },
            receiving: In(receiving),
        }
    }
}

fn watched(connection: Connection) -> Quic {
    tokio::spawn(watch(connection.clone()));
    let takers = Arc::<Takers>::default();
    tokio::spawn(Arc::clone(&takers).hand_out(connection.clone()));
    Quic {
        connection,
        takers,
        open: Arc::default(),
    }
}

/// Nudges the connection when it is to be nudged, as long as there is one.
async fn watch(connection: Connection) {
    let mut watch = Watch::new(connection.side(), counts(&connection.stats()));
    while timeout(LOOK_INTERVAL, connection.closed()).await.is_err() {
        if watch.look(counts(&connection.stats())) {
            nudge(&connection);
        }
    }
}

/// Acknowledges the last packets of the handshake, which quinn forgets: an acknowledgement of its
/// earlier packets stops the timer by which these are acknowledged. The server side would send them
/// again. By now they are there, and quinn adds acknowledgements to its packets again.
async fn greet(connection: Connection, ack_delay: Duration) {
    let after = greeting(connection.rtt(), ack_delay);
    if timeout(after, connection.closed()).await.is_err() {
        nudge(&connection);
    }
}

/// When to [`greet`], after the client side's handshake is complete: a round trip later comes what
/// is to be acknowledged, and then quinn waits for the server side's answer.
fn greeting(round_trip: Duration, ack_delay: Duration) -> Duration {
    (round_trip + ack_delay) * 2
}

/// Sends a packet that wants an answer.
fn nudge(connection: &Connection) {
    nudge::let_one_pass(connection.congestion_state());
    // It fails only where the connection has ended.
    let _ = connection.send_datagram(Vec::new().into());
}

impl Tunnel for Quic {
    type Sending = Out;
    type Receiving = In;

    async fn open(&self) -> Result<Stream<Out, In>, Lost> {
        let opened = self.connection.open_bi().await;
        opened
            .map(|halves| self.stream(halves))
            .map_err(|error| lost(&error))
    }

    async fn accept(&self) -> Result<Stream<Out, In>, Lost> {
        let accepted = self.connection.accept_bi().await;
        let stream = accepted.map(|halves| self.stream(halves));
        if let Some(more) = self.open.to_permit() {
            self.connection.set_max_concurrent_bi_streams(more.into());
        }
        stream.map_err(|error| lost(&error))
    }

    async fn closed(&self) -> Lost {
        lost(&self.connection.closed().await)
    }

    fn close(&self) {
        self.connection.close(SHUTTING_DOWN, b"");
    }

    async fn farewell(&self) {
        self.close();
        // quinn's tasks send it at their next turn; what it waits for after that is long on a thin
        // line, and of no use here.
        tokio::time::sleep(FAREWELL).await;
    }

    fn nudge(&self) {
        nudge(&self.connection);
    }

    fn counts(&self) -> Counts {
        counts(&self.connection.stats())
    }

    fn over(&self) -> Over {
        Over::Udp
    }
}

fn counts(stats: &ConnectionStats) -> Counts {
    Counts {
        sent_bytes: stats.udp_tx.bytes,
        sent_datagrams: stats.udp_tx.datagrams,
        received_bytes: stats.udp_rx.bytes,
        received_datagrams: stats.udp_rx.datagrams,
        lost_packets: stats.path.lost_packets,
        round_trip: stats.path.rtt,
    }
}

/// The half of a stream that sends.
#[derive(Debug)]
pub(crate) struct Out {
    half: SendStream,
    tunnel: Quic,
    _open: OpenStream,
}

impl Sending for Out {
    type Datagrams = Beside;

    fn datagrams(&self) -> Beside {
        let Quic {
            connection, takers, ..
        } = self.tunnel.clone();
        Beside::of(self.half.id().index(), connection, takers)
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        self.half.write(bytes).await.map_err(|error| match error {
            WriteError::Stopped(code) => Broken::ByPeer(code.into_inner()),
            WriteError::ConnectionLost(_)
            | WriteError::ClosedStream
            | WriteError::ZeroRttRejected => Broken::Lost,
        })
    }

    fn finish(&mut self) {
        // It fails only where the half has ended already.
        let _ = self.half.finish();
    }

    fn reset(&mut self, code: u32) {
        let _ = self.half.reset(code.into());
    }

    fn lower_priority(&mut self) {
        let _ = self.half.set_priority(-1);
    }

    fn stopped(&self) -> Stopped {
        let stopped = self.half.stopped();
        Box::pin(async move {
            match stopped.await {
                Ok(Some(code)) => Some(Broken::ByPeer(code.into_inner())),
                Ok(None) => None,
                Err(_) => Some(Broken::Lost),
            }
        })
    }
}

/// The half of a stream that receives.
#[derive(Debug)]
pub(crate) struct In(RecvStream);

impl Receiving for In {
    async fn read(&mut self) -> Result<Option<Vec<u8>>, Broken> {
        // Many packets' bytes at once: each piece costs a system call. There is no buffer while
        // nothing has come.
        let read = poll_fn(|cx| {
            let mut payloads: [_; PAYLOADS] = Default::default();
            let read = pin!(self.0.read_chunks(&mut payloads)).poll(cx);
            read.map_ok(|len| len.map(|len| payloads[..len].concat()))
        });
        match read.await {
            Ok(piece) => Ok(piece),
            Err(ReadError::Reset(code)) => Err(Broken::ByPeer(code.into_inner())),
            Err(
                ReadError::ConnectionLost(_)
                | ReadError::ClosedStream
                | ReadError::IllegalOrderedRead
                | ReadError::ZeroRttRejected,
            ) => Err(Broken::Lost),
        }
    }

    fn stop(&mut self, code: u32) {
        let _ = self.0.stop(code.into());
    }
}

fn lost(error: &ConnectionError) -> Lost {
    match error {
        ConnectionError::Reset => Lost::Restarted,
        ConnectionError::ApplicationClosed(_) => Lost::ByPeer,
        ConnectionError::LocallyClosed => Lost::Here,
        ConnectionError::TimedOut => Lost::Silent,
        // From a server that shuts down while the handshake goes on (RFC 9000, section 10.2.3).
        ConnectionError::ConnectionClosed(close)
            if close.error_code == TransportErrorCode::APPLICATION_ERROR =>
        {
            Lost::ByPeer
        }
        ConnectionError::ConnectionClosed(_)
        | ConnectionError::TransportError(_)
        | ConnectionError::VersionMismatch
        | ConnectionError::CidsExhausted => Lost::Refused(error.to_string()),
    }
}

#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;
