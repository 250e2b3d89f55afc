//! One TCP connection through the tunnel: moves bytes between the endpoint's connection, the
//! [`Relay`] that decides what crosses, and the stream of the tunnel.
//!
//! Is not: a decision on what crosses or is held.
//!
//! Invariants: what one direction waits for does not hold up the other; nothing is read while what
//! came before still waits to be written, so that a slow reader slows its writer; while nothing
//! happens the task holds no buffer; an endpoint that has sent its end is still watched; what has
//! crossed the link counts for its client, also where the client does not take it.

mod queue;

use std::future::{Future, pending};
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tandem_engine::PeerId;
use tandem_link::tunnel::{Ending, Open};
use tandem_tunnel::{Input, Least, Output, Relay, Standing};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::board::Tally;
use crate::dial::{Dialer, ending};
use crate::endpoint::Endpoint;
use crate::limits::Meter;
use crate::shared::{Place, Shared};
use crate::transport::{Broken, Receiving, Sending, Stopped, Stream};
use crate::watch::{Moment, Watch};
use queue::Queue;

/// See the module.
pub(crate) struct RelayTask<S, R> {
    shared: Arc<Shared>,
    is_over: watch::Receiver<bool>,
    relay: Relay,
    endpoint: Option<Endpoint>,
    from_endpoint: Half,
    to_endpoint: Queue,
    tunnel: Stream<S, R>,
    from_tunnel: Half,
    to_tunnel: Queue,
    /// While only this end still sends: whether the other still wants it.
    stopped: Option<Stopped>,
    /// Server side.
    dialer: Option<(Arc<Dialer>, PeerId)>,
    dialling: Option<Dialling>,
    /// Client side: counts for a client with a limit.
    meter: Option<Meter>,
    watch: Watch,
    /// The last field: given back once the endpoint's connection is closed.
    _place: Place,
}

/// A client that was taken in.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) endpoint: Endpoint,
    pub(crate) address: IpAddr,
    pub(crate) open: Open,
    /// What has been read of it already.
    pub(crate) first: Vec<u8>,
    /// Counts what it uses of the link, if that is limited.
    pub(crate) meter: Option<Meter>,
    /// At what its handshake keys are offered, if they are taken.
    pub(crate) keys: Option<Least>,
    /// When it was taken in.
    pub(crate) since: Instant,
}

/// More than any stream's window: what is unread where a connection is broken off.
const MAX_UNREAD: usize = 4 << 20;

type Dialling = Pin<Box<dyn Future<Output = Result<TcpStream, Ending>> + Send>>;

/// A direction that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    Open,
    Ended,
}

/// What the task has waited for.
enum Happened {
    /// The endpoint has sent something, or failed.
    EndpointReadable(io::Result<()>),
    /// The endpoint takes something, or failed.
    EndpointWritable(io::Result<()>),
    /// The endpoint, which has sent its end and is sent nothing now, has failed.
    EndpointFailed(io::Error),
    /// This came on the stream, or it ended.
    TunnelRead(Result<Option<Vec<u8>>, Broken>),
    /// So many bytes have gone into the stream.
    TunnelWritten(Result<usize, Broken>),
    /// The peer wants no more, or has everything.
    TunnelStopped(Option<Broken>),
    /// The server is connected to, or not.
    Dialled(Result<TcpStream, Ending>),
    /// The relay is to be reminded.
    Due,
    /// The daemon ends.
    DaemonEnds,
}

impl<S: Sending, R: Receiving> RelayTask<S, R> {
    /// At the client side.
    pub(crate) fn client_side(
        client: Client,
        tunnel: Stream<S, R>,
        shared: Arc<Shared>,
        place: Place,
    ) -> Self {
        let watch = Watch::since(client.since, Some(&client.open.target));
        let relay = Relay::client_side(client.open, shared.clocks.now());
        let relay = shared.relay(match client.keys {
            Some(least) => relay.offering_keys(client.address, least),
            None => relay,
        });
        let mut task = Self::new(relay, tunnel, shared, place);
        task.watch = watch;
        task.watch.at(Moment::Tunnel);
        task.endpoint = Some(client.endpoint);
        task.meter = client.meter;
        if !client.first.is_empty() {
            task.watch.at(Moment::Hello);
            task.watch.endpoint(client.first.len());
            task.shared.endpoint_sent(&mut task.relay, client.first);
        }
        task
    }

    /// At the server side: for a stream that this client side has opened, of which this has been
    /// read already. By then it has to have said where it goes.
    pub(crate) fn server_side(
        (tunnel, peer): (Stream<S, R>, PeerId),
        (first, until): (Result<Option<Vec<u8>>, Broken>, Instant),
        dialer: Arc<Dialer>,
        shared: Arc<Shared>,
        place: Place,
    ) -> Self {
        let opening = until.saturating_duration_since(Instant::now());
        let relay = shared.server_side_relay(opening).of_peer(peer);
        let mut task = Self::new(relay, tunnel, shared, place);
        task.dialer = Some((dialer, peer));
        task.tunnel_read(first);
        task
    }

    fn new(relay: Relay, tunnel: Stream<S, R>, shared: Arc<Shared>, place: Place) -> Self {
        Self {
            is_over: shared.watch_end(),
            shared,
            _place: place,
            relay,
            endpoint: None,
            from_endpoint: Half::Open,
            to_endpoint: Queue::default(),
            tunnel,
            from_tunnel: Half::Open,
            to_tunnel: Queue::default(),
            stopped: None,
            dialer: None,
            dialling: None,
            meter: None,
            watch: Watch::since(Instant::now(), None),
        }
    }

    /// Until both directions have ended, or either is broken off.
    pub(crate) async fn run(mut self) {
        loop {
            self.carry_out();
            if self.has_ended() {
                return;
            }
            match self.next().await {
                Happened::EndpointReadable(ready) => self.read_endpoint(ready),
                Happened::EndpointWritable(ready) => self.write_endpoint(ready),
                Happened::EndpointFailed(error) => self.endpoint_failed(ending(&error)),
                Happened::TunnelRead(read) => {
                    self.tunnel_read(read);
                    // Most often the endpoint takes it at once: there is nothing to wait for.
                    self.carry_out();
                    if !self.to_endpoint.is_empty() {
                        self.write_endpoint(Ok(()));
                    }
                }
                Happened::TunnelWritten(Ok(len)) => {
                    self.to_tunnel.written(len);
                    self.charge(len);
                }
                Happened::TunnelStopped(None) => self.stopped = None,
                Happened::TunnelWritten(Err(why)) | Happened::TunnelStopped(Some(why)) => {
                    self.tunnel_broke(why)
                }
                Happened::Dialled(connected) => self.dialled(connected),
                Happened::Due => self.shared.remind(&mut self.relay),
                Happened::DaemonEnds => self.break_off(Ending::ShuttingDown),
            }
        }
    }

    /// Waits for whatever comes first.
    async fn next(&mut self) -> Happened {
        let reads_endpoint = self.from_endpoint == Half::Open
            && self.relay.wants_endpoint()
            && self.to_tunnel.has_room();
        let reads_tunnel = self.from_tunnel == Half::Open
            && self.relay.wants_tunnel()
            && self.to_endpoint.has_room();
        // While more is to be read of it, a failure waits: what came before it can still be read.
        let watches_endpoint = self.from_endpoint == Half::Ended && self.to_endpoint.is_empty();
        let due = self.relay.poll_timeout();
        let due = due.map(|(at, _)| self.shared.clocks.moment(at));
        let Self {
            endpoint,
            to_endpoint,
            tunnel: Stream { sending, receiving },
            to_tunnel,
            stopped,
            dialling,
            is_over,
            ..
        } = self;
        let endpoint = endpoint.as_ref();
        tokio::select! {
            ready = readable(endpoint), if reads_endpoint => Happened::EndpointReadable(ready),
            ready = writable(endpoint), if !to_endpoint.is_empty() => {
                Happened::EndpointWritable(ready)
            }
            error = failed(endpoint), if watches_endpoint => Happened::EndpointFailed(error),
            read = receiving.read(), if reads_tunnel => Happened::TunnelRead(read),
            written = sending.write(to_tunnel.front()), if !to_tunnel.is_empty() => {
                Happened::TunnelWritten(written)
            }
            why = or_never(stopped.as_mut()) => Happened::TunnelStopped(why),
            connected = or_never(dialling.as_mut()) => Happened::Dialled(connected),
            () = until(due) => Happened::Due,
            () = over(is_over) => Happened::DaemonEnds,
        }
    }

    /// Does what the relay wants.
    fn carry_out(&mut self) {
        self.watch.site(|| self.relay.site());
        while let Some(output) = self.relay.poll_output() {
            match output {
                Output::Connect(open) => self.connect(open),
                Output::ToEndpoint(bytes) => {
                    self.watch.at(self.first_to_endpoint());
                    self.watch.endpoint(bytes.len());
                    self.to_endpoint.push(bytes);
                }
                Output::EndEndpoint => self.to_endpoint.end(),
                Output::ToTunnel(bytes) => {
                    if self.dialer.is_none() {
                        self.watch.at(Moment::Open);
                    }
                    self.watch.tunnel(bytes.len());
                    self.to_tunnel.push(bytes);
                }
                Output::EndTunnel => self.to_tunnel.end(),
                Output::AbortEndpoint(ending) | Output::ResetTunnel(ending) => {
                    self.break_off(ending);
                }
                Output::Bulk => self.to_tunnel.mark(),
                Output::Event(event) => {
                    self.watch.event(event);
                    self.shared.board.event(event.name(), event.amount());
                }
            }
        }
        if let Some(flow) = self.watch.finished() {
            self.shared.board.flow(flow);
        }
        if self.to_tunnel.is_past_mark() {
            self.tunnel.sending.lower_priority();
        }
        if self.to_endpoint.ends_now() {
            // An endpoint that is gone by now has all that was for it.
            if let Some(endpoint) = &self.endpoint {
                let _ = endpoint.finish();
            }
        }
        if self.to_tunnel.ends_now() {
            self.tunnel.sending.finish();
            self.stopped = None;
        }
        if self.from_tunnel == Half::Ended && self.stopped.is_none() && !self.to_tunnel.has_ended()
        {
            self.stopped = Some(self.tunnel.sending.stopped());
        }
    }

    /// What it is that the endpoint is sent first, and sends first: the client's hello and the
    /// server's flight, or the reverse.
    fn first_to_endpoint(&self) -> Moment {
        match self.dialer {
            Some(_) => Moment::Hello,
            None => Moment::Flight,
        }
    }

    fn first_from_endpoint(&self) -> Moment {
        match self.dialer {
            Some(_) => Moment::Flight,
            None => Moment::Hello,
        }
    }

    fn has_ended(&mut self) -> bool {
        let has_ended =
            self.relay.is_over() && self.to_endpoint.has_ended() && self.to_tunnel.has_ended();
        if has_ended
            && self.from_endpoint == Half::Ended
            && let Some(endpoint) = &mut self.endpoint
        {
            endpoint.ended();
        }
        has_ended
    }

    fn read_endpoint(&mut self, ready: io::Result<()>) {
        let Some(endpoint) = &self.endpoint else {
            return;
        };
        match ready.and_then(|()| endpoint.read()) {
            Ok(None) => {}
            Ok(Some(bytes)) if bytes.is_empty() => {
                self.from_endpoint = Half::Ended;
                self.shared.tell(&mut self.relay, Input::EndpointEnd);
            }
            Ok(Some(bytes)) => {
                let len = bytes.len();
                self.shared.board.count(Tally::FromEndpointsBytes, len);
                self.watch.at(self.first_from_endpoint());
                self.watch.endpoint(len);
                self.shared.endpoint_sent(&mut self.relay, bytes);
            }
            Err(error) => self.endpoint_failed(ending(&error)),
        }
    }

    fn write_endpoint(&mut self, ready: io::Result<()>) {
        let Some(endpoint) = &self.endpoint else {
            return;
        };
        match ready.and_then(|()| endpoint.write(self.to_endpoint.front())) {
            Ok(len) => {
                self.to_endpoint.written(len);
                self.shared.board.count(Tally::ToEndpointsBytes, len);
            }
            Err(error) => self.endpoint_failed(ending(&error)),
        }
    }

    fn connect(&mut self, open: Open) {
        match &self.dialer {
            Some((dialer, peer)) => {
                let (dialer, peer) = (Arc::clone(dialer), *peer);
                self.dialling = Some(Box::pin(async move { dialer.dial(open, peer).await }));
            }
            // Only a server side connects.
            None => self.endpoint_failed(Ending::NotAllowed),
        }
    }

    fn dialled(&mut self, connected: Result<TcpStream, Ending>) {
        self.dialling = None;
        let address = connected.and_then(|stream| {
            let address = stream.peer_addr().map_err(|error| ending(&error))?;
            self.endpoint = Some(Endpoint::new(stream));
            Ok(address)
        });
        match address {
            Ok(address) => {
                self.watch.connected(address);
                self.shared.tell(&mut self.relay, Input::Connected(address));
            }
            Err(ending) => self.endpoint_failed(ending),
        }
    }

    fn tunnel_read(&mut self, read: Result<Option<Vec<u8>>, Broken>) {
        match read {
            Ok(Some(piece)) => {
                let len = piece.len();
                self.watch.tunnel(len);
                self.shared.tunnel_brought(&mut self.relay, piece);
                self.charge(len);
            }
            Ok(None) => {
                self.from_tunnel = Half::Ended;
                self.shared.tell(&mut self.relay, Input::TunnelEnd);
            }
            Err(why) => self.tunnel_broke(why),
        }
    }

    fn endpoint_failed(&mut self, ending: Ending) {
        if self.relay.is_over() {
            // It has nothing to say to that: what the endpoint sent still goes to the other one,
            // and what waits for it has nobody left.
            self.endpoint = None;
            self.from_endpoint = Half::Ended;
            self.to_endpoint.discard();
            return;
        }
        self.shared
            .tell(&mut self.relay, Input::EndpointFailed(ending));
    }

    /// So many bytes have crossed the link. At the client's limit the connection ends.
    fn charge(&mut self, len: usize) {
        let Some(meter) = &self.meter else { return };
        match charge(meter, len) {
            Standing::Within => return,
            Standing::Reached | Standing::AtLimit => {}
        }
        tracing::debug!(client = %meter.client(), "ended: it has reached its limit");
        self.shared.board.count(Tally::RelaysEndedByLimit, 1);
        self.break_off(Ending::Reset);
    }

    /// What has come on the stream and will not be read has crossed the link, too.
    fn charge_unread(&mut self) {
        let Some(meter) = &self.meter else { return };
        let mut unread = 0;
        while unread < MAX_UNREAD
            && let Some(len) = at_once(&mut self.tunnel.receiving)
        {
            unread += len;
        }
        charge(meter, unread);
    }

    fn tunnel_broke(&mut self, why: Broken) {
        let ending = match why {
            Broken::ByPeer(code) => Ending::from_code(code),
            Broken::Lost => Ending::Reset,
        };
        if self.relay.is_over() {
            // It has nothing to say to that, and what waits for the tunnel goes nowhere.
            self.break_off(ending);
            return;
        }
        self.shared
            .tell(&mut self.relay, Input::TunnelReset(ending));
    }

    /// Ends everything at once. Both ends of this connection see a reset.
    fn break_off(&mut self, ending: Ending) {
        if self.from_tunnel == Half::Open {
            self.charge_unread();
        }
        self.endpoint = None;
        self.dialling = None;
        self.stopped = None;
        self.to_endpoint.discard();
        self.to_tunnel.discard();
        self.from_endpoint = Half::Ended;
        self.from_tunnel = Half::Ended;
        self.tunnel.break_off(ending);
        // The daemon may have decided this; to a relay that is over it is nothing new.
        self.shared
            .tell(&mut self.relay, Input::TunnelReset(ending));
    }
}

fn charge(meter: &Meter, len: usize) -> Standing {
    let standing = meter.charge(len);
    if standing == Standing::Reached {
        tracing::info!(
            "a client has reached its limit: until midnight UTC it has no more connections \
             through the tunnel"
        );
    }
    standing
}

/// The length of what can be read without waiting, which is then gone.
fn at_once(receiving: &mut impl Receiving) -> Option<usize> {
    let read = pin!(receiving.read());
    match read.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(Some(piece))) => Some(piece.len()),
        Poll::Ready(Ok(None) | Err(_)) | Poll::Pending => None,
    }
}

async fn readable(endpoint: Option<&Endpoint>) -> io::Result<()> {
    match endpoint {
        Some(endpoint) => endpoint.readable().await,
        None => pending().await,
    }
}

async fn writable(endpoint: Option<&Endpoint>) -> io::Result<()> {
    match endpoint {
        Some(endpoint) => endpoint.writable().await,
        None => pending().await,
    }
}

async fn failed(endpoint: Option<&Endpoint>) -> io::Error {
    match endpoint {
        Some(endpoint) => endpoint.failed().await,
        None => pending().await,
    }
}

async fn or_never<F: Future + Unpin>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}

async fn over(is_over: &mut watch::Receiver<bool>) {
    // It fails only where the sender is gone, and the daemon with it.
    let _ = is_over.wait_for(|is_over| *is_over).await;
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => pending().await,
    }
}
