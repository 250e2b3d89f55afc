//! The client side's flows: programs that asked SOCKS5 for UDP ASSOCIATE (RFC 1928, section 7), and
//! a flow for each target that one of them sends to.
//!
//! Is not: SOCKS's bytes (`intake/socks.rs`).
//!
//! Invariants: an association ends with the connection on which it was asked for; it takes
//! datagrams of one address of that client's alone; associations and flows are bounded in number,
//! in all and for each client. The stream of a flow that is over ends with the next opening, or
//! with the tunnel: so no packet crosses for it.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tandem_daemon::places::{Place, Places, Share};
use tandem_engine::PeerId;
use tandem_link::tunnel::{FlowOpen, MAX_PAYLOAD, Target};
use tandem_tunnel::{Action, FlowSide, NEAR_IDLE};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::endpoint::{Endpoint as _, Program, Server, may_pass};
use super::flow_task::{Begun, FlowTask, Over};
use crate::board::Tally;
use crate::intake::{Gate, datagram, datagram_header};
use crate::keeper::{Keeper, Leased};
use crate::shared::Shared;
use crate::transport::{Receiving as _, Sending as _, Stream, Tunnel};

/// Associations, and flows, in all and of one client, which may be the proxy of a whole network.
const MAX_OPEN: usize = 1024;
const MAX_OPEN_EACH: usize = 256;

/// Payloads that wait for a flow which has no stream yet, or whose task has no time.
const MAX_WAITING: usize = 32;

/// Streams of flows that are over, whose end has not crossed.
const MAX_RESTED: usize = 64;

/// A flow that the other side has refused is not asked for again so soon.
const REFUSED: Duration = Duration::from_secs(10);

/// A client's leave to send datagrams.
#[derive(Debug)]
pub(crate) struct Association {
    /// The connection on which it was asked for, and that ends it.
    pub(crate) control: TcpStream,
    /// Where its datagrams come, and go to.
    pub(crate) relay: UdpSocket,
    /// Whose it is.
    pub(crate) client: IpAddr,
    /// From where it sends, if it has said so.
    pub(crate) port: Option<NonZeroU16>,
}

/// See the module.
pub(crate) struct Associations<T: Tunnel> {
    keeper: Arc<Keeper<T>>,
    gate: Arc<Gate>,
    shared: Arc<Shared>,
    places: Arc<Places<IpAddr>>,
    flow_places: Arc<Places<IpAddr>>,
    rested: Mutex<Vec<Stream<T::Sending, T::Receiving>>>,
}

impl<T: Tunnel> Associations<T> {
    pub(crate) fn new(keeper: Arc<Keeper<T>>, gate: Arc<Gate>, shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            keeper,
            gate,
            shared,
            places: Places::new(MAX_OPEN, Share::AtMost(MAX_OPEN_EACH)),
            flow_places: Places::new(MAX_OPEN, Share::AtMost(MAX_OPEN_EACH)),
            rested: Mutex::default(),
        })
    }

    /// Serves an association in a task of its own. One too many is closed.
    pub(crate) fn admit(self: &Arc<Self>, association: Association) {
        let Some(place) = self.places.take(association.client) else {
            self.shared.board.count(Tally::DatagramFlowsRefused, 1);
            return;
        };
        let all = Arc::clone(self);
        tokio::spawn(async move {
            all.serve(association).await;
            drop(place);
        });
    }

    async fn serve(self: &Arc<Self>, association: Association) {
        let Association {
            mut control,
            relay,
            client,
            port,
        } = association;
        let mut talk = Talk {
            all: Arc::clone(self),
            relay: Arc::new(relay),
            client,
            address: port.map(|port| SocketAddr::new(client, port.get())),
            flows: HashMap::new(),
        };
        // Until the runtime knows that, it sends nothing without waiting.
        if talk.relay.writable().await.is_err() {
            return;
        }
        let mut room = vec![0; MAX_PAYLOAD];
        let mut sink = [0; 64];
        loop {
            let relay = Arc::clone(&talk.relay);
            tokio::select! {
                received = relay.recv_from(&mut room) => match received {
                    Ok((len, from)) => {
                        talk.take(room.get(..len).unwrap_or_default(), from);
                    }
                    // The program has closed a socket to which answers came.
                    Err(error) if may_pass(&error) => {}
                    Err(_) => return,
                },
                read = control.read(&mut sink) => match read {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                },
                () = self.shared.over() => return,
            }
        }
    }

    /// Carries a flow through the tunnel until it is over.
    async fn through_tunnel(&self, target: Target, client: IpAddr, mut program: Program) {
        let mut to_send = Vec::new();
        if (FlowOpen { target }).write(&mut to_send).is_none() {
            return;
        }
        let opened = tokio::select! {
            opened = self.keeper.stream() => opened,
            () = self.shared.over() => return,
        };
        let Some(Leased { mut stream, lease }) = opened else {
            self.shared.board.count(Tally::RelaysWithoutTunnel, 1);
            return;
        };
        self.end_rested();
        let task = FlowTask {
            side: FlowSide::Near,
            endpoint: &mut program,
            stream: &mut stream,
            begun: Begun::ToSend(to_send),
            meter: self.gate.meter(client),
            shared: &self.shared,
        };
        let over = task.run().await;
        drop(lease);
        match over {
            Over::Rested => self.rest(stream),
            Over::Ended | Over::Malformed | Over::Lost => {}
            Over::Refused => {
                self.shared.board.count(Tally::DatagramFlowsEndedByPeer, 1);
                // What is sent meanwhile would cross the link in vain.
                let refused = async { while program.next().await.is_some() {} };
                let _ = timeout(REFUSED, refused).await;
            }
        }
    }

    /// Carries a flow from here, as a rule says, until the client has said nothing for long.
    async fn direct(&self, target: Target, client: IpAddr, mut program: Program) {
        let dialed = self
            .gate
            .dialer_of(client)
            .datagrams(target, PeerId::OTHER_END)
            .await;
        let Ok(socket) = dialed else {
            return;
        };
        let mut server = Server(socket);
        let mut rested = Box::pin(sleep(NEAR_IDLE));
        loop {
            tokio::select! {
                payload = program.next() => match payload {
                    Some(payload) => {
                        server.give(&payload);
                        rested.set(sleep(NEAR_IDLE));
                    }
                    None => return,
                },
                payload = server.next() => match payload {
                    Some(payload) => program.give(&payload),
                    None => return,
                },
                () = &mut rested => return,
                () = self.shared.over() => return,
            }
        }
    }

    /// Keeps the stream of a flow that is over until its end costs no packet.
    fn rest(&self, stream: Stream<T::Sending, T::Receiving>) {
        let mut rested = self.rested.lock().unwrap_or_else(PoisonError::into_inner);
        rested.push(stream);
        let are_too_many = rested.len() > MAX_RESTED;
        drop(rested);
        if are_too_many {
            self.end_rested();
        }
    }

    fn end_rested(&self) {
        let rested = {
            let mut rested = self.rested.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *rested)
        };
        for Stream {
            mut sending,
            mut receiving,
        } in rested
        {
            sending.finish();
            receiving.stop(0);
        }
    }
}

/// What one program sends.
struct Talk<T: Tunnel> {
    all: Arc<Associations<T>>,
    relay: Arc<UdpSocket>,
    client: IpAddr,
    /// From where it sends: the first address of the client's from which anything came.
    address: Option<SocketAddr>,
    flows: HashMap<Target, mpsc::Sender<Vec<u8>>>,
}

impl<T: Tunnel> Talk<T> {
    /// Takes a datagram of the program's, or of somebody else.
    fn take(&mut self, bytes: &[u8], from: SocketAddr) {
        let is_its_own = from.ip().to_canonical() == self.client.to_canonical()
            && self
                .address
                .is_none_or(|address| address.port() == from.port());
        if !is_its_own {
            return;
        }
        let Some((target, payload)) = datagram(bytes) else {
            return;
        };
        self.address = Some(from);
        if self.flows.get(&target).is_none_or(mpsc::Sender::is_closed) && !self.open(&target, from)
        {
            return;
        }
        if let Some(flow) = self.flows.get(&target)
            && flow.try_send(payload.to_vec()).is_err()
        {
            self.all.shared.board.count(Tally::DatagramsDropped, 1);
        }
    }

    /// Opens a flow, if it is to be.
    fn open(&mut self, target: &Target, address: SocketAddr) -> bool {
        self.flows.retain(|_, flow| !flow.is_closed());
        let (all, client) = (Arc::clone(&self.all), self.client);
        let action = all.gate.decide_on_datagrams(client, target);
        if action == Action::Refuse {
            return false;
        }
        let Some(place) = all.flow_places.take(client) else {
            all.shared.board.count(Tally::DatagramFlowsRefused, 1);
            return false;
        };
        let (flow, payloads) = mpsc::channel(MAX_WAITING);
        let program = Program {
            payloads,
            relay: Arc::clone(&self.relay),
            address,
            header: datagram_header(target),
        };
        self.flows.insert(target.clone(), flow);
        tracing::debug!(%client, %target, "a flow of UDP");
        tokio::spawn(carry(all, target.clone(), program, action, place));
        true
    }
}

async fn carry<T: Tunnel>(
    all: Arc<Associations<T>>,
    target: Target,
    program: Program,
    action: Action,
    place: Place<IpAddr>,
) {
    let client = program.address.ip();
    match action {
        Action::Tunnel => all.through_tunnel(target, client, program).await,
        Action::Direct => all.direct(target, client, program).await,
        Action::Refuse => {}
    }
    drop(place);
}
