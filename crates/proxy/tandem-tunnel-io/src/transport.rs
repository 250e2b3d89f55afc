//! What the tunnel asks of a transport: a connection to the other proxy that carries many
//! independent streams, each with two halves that end on their own.
//!
//! Is not: a transport; there are two, [`quic`] and [`tcp`]. Nor what the streams say.
//!
//! Invariants: reading and writing can be given up at any await point and lose nothing; a stream
//! that ends abnormally tells the other side a code.

pub(crate) mod any;
mod fixed_rate;
pub(crate) mod nudge;
pub(crate) mod quic;
mod room;
pub(crate) mod tcp;
#[cfg(test)]
mod testing;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tandem_link::tunnel::Ending;
use tokio::time::Instant;

/// What the two proxies speak over QUIC. The number is the version of what streams say
/// (`tandem_link::tunnel`): proxies of different versions make no tunnel.
const OVER_QUIC: &[u8] = b"tandem-tunnel/6";

/// The same over TCP: with that version its number changes, too.
const OVER_TCP: &[u8] = b"tandem-tunnel-tcp/6";

/// Makes connections to the other proxy.
pub(crate) trait Connect: Send + Sync + 'static {
    /// What it makes.
    type Tunnel: Tunnel;

    /// Makes one, in bounded time.
    fn connect(&self) -> impl Future<Output = Result<Self::Tunnel, Lost>> + Send;

    /// The longest that [`Connect::connect`] takes.
    fn patience(&self) -> Duration;

    /// The round trip that a handshake's packets are expected to have, with the time that they
    /// occupy the line.
    fn round_trip(&self) -> Duration;
}

/// What a tunnel runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// UDP, by QUIC.
    Udp,
    /// TCP.
    Tcp,
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
        })
    }
}

/// What follows from the line for any transport.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// See [`Connect::round_trip`].
    pub(crate) round_trip: Duration,
    /// How long a handshake may take.
    pub(crate) patience: Duration,
    /// How long the server side waits in a crowd for a stranger's hello.
    pub(crate) silence: Duration,
    /// Bytes that a stream may be ahead of its reader.
    pub(crate) stream_window: u64,
}

/// A connection to the other proxy. Clones are the same connection.
pub(crate) trait Tunnel: Clone + Send + Sync + 'static {
    /// The half of a stream that sends.
    type Sending: Sending;
    /// The half of a stream that receives.
    type Receiving: Receiving;

    /// Opens a stream; waits while there are as many as the other side permits. The other side
    /// learns of it with its first bytes.
    fn open(
        &self,
    ) -> impl Future<Output = Result<Stream<Self::Sending, Self::Receiving>, Lost>> + Send;

    /// The next stream that the other side has opened.
    fn accept(
        &self,
    ) -> impl Future<Output = Result<Stream<Self::Sending, Self::Receiving>, Lost>> + Send;

    /// Is ready once the connection has ended, with the reason.
    fn closed(&self) -> impl Future<Output = Lost> + Send;

    /// Ends the connection and all streams, and tells the other side.
    fn close(&self);

    /// The same, as the last thing that the process does with it: waits a moment, so that the other
    /// side is told.
    fn farewell(&self) -> impl Future<Output = ()> + Send;

    /// Asks the other side something now, if the transport can: what was lost meanwhile is known
    /// sooner. TCP cannot.
    fn nudge(&self);

    /// What it has carried so far.
    fn counts(&self) -> Counts;

    /// What it runs over.
    fn over(&self) -> Over;
}

/// Both halves of a stream.
#[derive(Debug)]
pub(crate) struct Stream<S, R> {
    pub(crate) sending: S,
    pub(crate) receiving: R,
}

impl<S: Sending, R: Receiving> Stream<S, R> {
    /// Ends both directions at once, for this reason.
    pub(crate) fn break_off(&mut self, ending: Ending) {
        self.sending.reset(ending.code());
        self.receiving.stop(ending.code());
    }
}

/// The half of a stream that sends.
pub(crate) trait Sending: Send + 'static {
    /// What crosses beside the stream.
    type Datagrams: Datagrams;

    /// That, for the one who has the stream in hand.
    fn datagrams(&self) -> Self::Datagrams;

    /// Takes some of these bytes, at least one, once there is room.
    fn write(&mut self, bytes: &[u8]) -> impl Future<Output = Result<usize, Broken>> + Send;

    /// No more bytes follow. What was written still arrives.
    fn finish(&mut self);

    /// Ends the half at once; what was not yet delivered may be lost.
    fn reset(&mut self, code: u32);

    /// From now on other streams go first.
    fn lower_priority(&mut self);

    /// Is ready once the other side wants nothing more of this half, or the connection is lost.
    /// `None`: everything has arrived.
    fn stopped(&self) -> Stopped;
}

/// See [`Sending::stopped`].
pub(crate) type Stopped = Pin<Box<dyn Future<Output = Option<Broken>> + Send>>;

/// The half of a stream that receives.
pub(crate) trait Receiving: Send + 'static {
    /// The next bytes, as many as have come, within a bound; `None` at the end of the stream.
    fn read(&mut self) -> impl Future<Output = Result<Option<Vec<u8>>, Broken>> + Send;

    /// Tells the other side that nothing more is wanted.
    fn stop(&mut self, code: u32);
}

/// What crosses beside a stream, unordered, and may be lost; and when there is room for what may
/// be lost.
pub(crate) trait Datagrams: Send + Sync + 'static {
    /// Is ready once so many bytes can leave, beside the stream or on it, without holding up what
    /// others have to send; or when they have waited since `since` for so long that the others
    /// have had their share. They are to be sent then.
    fn room(&self, bytes: usize, since: Instant) -> impl Future<Output = ()> + Send;

    /// The longest payload that can be sent now. `None`: the transport has no datagrams.
    fn max_len(&self) -> Option<usize>;

    /// Sends a payload of that length at most. It may be lost.
    fn send(&self, payload: &[u8]);

    /// The next payload that has come; never, where the transport has none.
    fn receive(&self) -> impl Future<Output = Vec<u8>> + Send;
}

/// Why a half of a stream goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The other side ended it, with this code.
    ByPeer(u64),
    /// The connection is lost, or this half has ended on this side.
    Lost,
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The other side no longer knows it: it has been restarted.
    Restarted,
    /// The other side closed it: it shuts down.
    ByPeer,
    /// This side closed it.
    Here,
    /// The other side did not answer in time.
    Silent,
    /// The other side is not the one that holds the key, or speaks another version.
    Refused(String),
    /// No packet can be sent from here.
    Unusable(String),
    /// There is no way to the other side, or nobody listens there.
    Unreachable(String),
    /// Somebody else answers.
    Foreign(String),
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restarted => f.write_str("the other side was restarted"),
            Self::ByPeer => f.write_str("the other side closed it"),
            Self::Here => f.write_str("this side closed it"),
            Self::Silent => f.write_str("the other side does not answer"),
            Self::Refused(reason) => write!(
                f,
                "refused: {reason}; do both sides have the same key and version?"
            ),
            Self::Unusable(reason) => write!(f, "no packet can be sent: {reason}"),
            Self::Unreachable(reason) => write!(f, "not reached: {reason}"),
            Self::Foreign(reason) => write!(
                f,
                "what answers is not the other side: {reason}; is it the same key and version, \
                 and does no captive portal or intercepting proxy stand between?"
            ),
        }
    }
}

/// What a connection has carried, as the transport counts: payloads of UDP or TCP, and their
/// packets. A packet that TCP sends again counts as lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) sent_bytes: u64,
    pub(crate) sent_datagrams: u64,
    pub(crate) received_bytes: u64,
    pub(crate) received_datagrams: u64,
    pub(crate) lost_packets: u64,
    pub(crate) round_trip: Duration,
}

impl Counts {
    /// Both together; the round trip is that of `other`.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            sent_bytes: self.sent_bytes + other.sent_bytes,
            sent_datagrams: self.sent_datagrams + other.sent_datagrams,
            received_bytes: self.received_bytes + other.received_bytes,
            received_datagrams: self.received_datagrams + other.received_datagrams,
            lost_packets: self.lost_packets + other.lost_packets,
            round_trip: other.round_trip,
        }
    }
}
