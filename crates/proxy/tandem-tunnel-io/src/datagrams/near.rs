//! The client side's flows, whichever way their datagrams come in: through the tunnel, or to their
//! server from here.
//!
//! Is not: where datagrams come from (`associations.rs`, `taken.rs`).
//!
//! Invariants: flows, and payloads that wait for them, are bounded, in all and for each client. The
//! stream of a flow that is over ends with the next opening, or with the tunnel: so no packet
//! crosses for it.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tandem_daemon::places::{Place, Places, Share};
use tandem_engine::PeerId;
use tandem_link::tunnel::{Ending, FlowOpen, Target};
use tandem_tunnel::{Action, FlowSide, NEAR_IDLE};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::endpoint::{Endpoint as _, Gone, Payload, Program, Server};
use super::flow_task::{Begun, FlowTask, Over};
use crate::board::Tally;
use crate::detour::Detour;
use crate::intake::Gate;
use crate::keeper::{Keeper, Leased};
use crate::shared::Shared;
use crate::transport::{Receiving as _, Sending as _, Stream, Tunnel};

/// Flows, in all and of one client, which may be the proxy of a whole network.
pub(super) const MAX_OPEN: usize = 1024;
pub(super) const MAX_OPEN_EACH: usize = 256;

/// Payloads that wait for a flow which has no stream yet, or whose task has no time.
const MAX_WAITING: usize = 32;
/// Bytes of them, of all flows together and of one client's. Of one flow mostly 1,200 each.
const MAX_WAITING_BYTES: usize = 8 << 20;
const MAX_WAITING_BYTES_EACH: usize = MAX_WAITING_BYTES / MAX_OPEN * MAX_OPEN_EACH;

/// Streams of flows that are over, whose end has not crossed.
const MAX_RESTED: usize = 64;

/// A flow that the other side has refused is not asked for again so soon.
const REFUSED: Duration = Duration::from_secs(10);
/// The same where it was the server, which may be there soon.
const UNREACHABLE: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct NearFlows<T: Tunnel> {
    keeper: Arc<Keeper<T>>,
    pub(super) gate: Arc<Gate>,
    pub(super) shared: Arc<Shared>,
    places: Arc<Places<IpAddr>>,
    /// A place for each byte that waits.
    room: Arc<Places<IpAddr>>,
    rested: Mutex<Vec<Stream<T::Sending, T::Receiving>>>,
}

/// Where a flow's payloads go.
pub(super) struct Inlet {
    payloads: mpsc::Sender<Payload>,
    client: IpAddr,
}

impl Inlet {
    /// Whether the flow is over.
    pub(super) fn is_closed(&self) -> bool {
        self.payloads.is_closed()
    }
}

/// A flow that is to be opened.
pub(super) struct Opening {
    pub(super) client: IpAddr,
    pub(super) target: Target,
    pub(super) action: Action,
    /// When it is given up because the tunnel is down, if ever.
    pub(super) detour: Option<Detour>,
}

impl<T: Tunnel> NearFlows<T> {
    pub(crate) fn new(keeper: Arc<Keeper<T>>, gate: Arc<Gate>, shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            keeper,
            gate,
            shared,
            places: Places::new(MAX_OPEN, Share::AtMost(MAX_OPEN_EACH)),
            room: Places::new(MAX_WAITING_BYTES, Share::AtMost(MAX_WAITING_BYTES_EACH)),
            rested: Mutex::default(),
        })
    }

    /// Opens a flow, in a task of its own, whose program has these payloads. `None`, and counted:
    /// there are too many.
    pub(super) fn open(
        self: &Arc<Self>,
        opening: Opening,
        program: impl FnOnce(mpsc::Receiver<Payload>) -> Program,
    ) -> Option<Inlet> {
        let Some(place) = self.places.take(opening.client) else {
            self.shared.board.count(Tally::DatagramFlowsRefused, 1);
            return None;
        };
        let (sender, payloads) = mpsc::channel(MAX_WAITING);
        let Opening { client, target, .. } = &opening;
        tracing::debug!(%client, %target, "a flow of UDP");
        let inlet = Inlet {
            payloads: sender,
            client: *client,
        };
        tokio::spawn(carry(Arc::clone(self), opening, program(payloads), place));
        Some(inlet)
    }

    /// Gives a flow a payload. One for which there is no room is lost, and counted.
    pub(super) fn put(&self, inlet: &Inlet, payload: &[u8]) {
        let room = self.room.take_many(inlet.client, payload.len().max(1));
        let is_put = room.is_some_and(|room| {
            let bytes = payload.to_vec();
            let payload = Payload { bytes, _room: room };
            inlet.payloads.try_send(payload).is_ok()
        });
        if !is_put {
            self.shared.board.count(Tally::DatagramsDropped, 1);
        }
    }

    /// Carries a flow through the tunnel until it is over.
    async fn through_tunnel(&self, opening: Opening, mut program: Program) {
        let Opening {
            client,
            target,
            action: _,
            detour,
        } = opening;
        let mut to_send = Vec::new();
        if (FlowOpen { target }).write(&mut to_send).is_none() {
            return;
        }
        let opened = tokio::select! {
            biased;
            () = self.shared.over() => return,
            // What the client sends next goes without the tunnel.
            () = Detour::open_of(detour.as_ref()) => return,
            opened = self.keeper.stream() => opened,
        };
        let Some(Leased { mut stream, lease }) = opened else {
            self.shared.board.count(Tally::RelaysWithoutTunnel, 1);
            program.refuse(Ending::HostUnreachable);
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
            Over::Refused(why) => {
                self.shared.board.count(Tally::DatagramFlowsEndedByPeer, 1);
                // What is sent meanwhile would cross the link in vain.
                let refused = async {
                    program.refuse(why);
                    while program.next().await.is_ok() {
                        program.refuse(why);
                    }
                };
                let _ = timeout(hold(why), refused).await;
            }
        }
    }

    /// Carries a flow from here, as a rule says, until the client has said nothing for long.
    async fn direct(&self, target: Target, client: IpAddr, mut program: Program) {
        let dialer = self.gate.dialer_of(client);
        let dialed = dialer.datagrams(target, PeerId::OTHER_END).await;
        let Ok(socket) = dialed else {
            return;
        };
        let mut server = Server::new(socket);
        let mut rested = Box::pin(sleep(NEAR_IDLE));
        loop {
            tokio::select! {
                payload = program.next() => match payload {
                    Ok(payload) => {
                        server.give(&payload);
                        rested.set(sleep(NEAR_IDLE));
                    }
                    Err(_) => return,
                },
                payload = server.next() => match payload {
                    Ok(payload) => program.give(&payload),
                    Err(Gone::Unreachable(why)) => program.refuse(why),
                    Err(Gone::Left) => return,
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

/// How long a flow that ended like this is not asked for again.
fn hold(why: Ending) -> Duration {
    match why {
        Ending::Refused | Ending::HostUnreachable | Ending::NetworkUnreachable => UNREACHABLE,
        Ending::Reset
        | Ending::TimedOut
        | Ending::NotAllowed
        | Ending::NameNotFound
        | Ending::Malformed
        | Ending::Overloaded
        | Ending::ShuttingDown => REFUSED,
    }
}

async fn carry<T: Tunnel>(
    all: Arc<NearFlows<T>>,
    opening: Opening,
    program: Program,
    place: Place<IpAddr>,
) {
    match opening.action {
        Action::Tunnel => all.through_tunnel(opening, program).await,
        Action::Direct => all.direct(opening.target, opening.client, program).await,
        Action::Refuse => {}
    }
    drop(place);
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::net::UdpSocket;

    use super::*;
    use crate::datagrams::endpoint::Back;
    use crate::tests::{Pair, counter};
    use crate::transport::Over;

    /// Nothing is waited for once flows are open, so that no task takes anything.
    #[tokio::test]
    async fn what_waits_of_one_client_leaves_room_for_others() {
        let pair = Pair::start(Over::Udp).await;
        let relay = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let relay = Arc::new(relay.expect("a free port"));
        let address = relay.local_addr().expect("bound");
        let flows = NearFlows::new(
            Arc::clone(&pair.keeper),
            Arc::clone(&pair.gate),
            Arc::clone(&pair.client_side),
        );
        let opened = |client: u8| {
            let opening = Opening {
                client: Ipv4Addr::new(127, 0, 0, client).into(),
                target: Target::Address(address),
                action: Action::Tunnel,
                detour: None,
            };
            let program = |payloads| Program {
                payloads,
                back: Back::Socks {
                    relay: Arc::clone(&relay),
                    address,
                    header: Vec::new(),
                },
            };
            flows.open(opening, program).expect("there are few")
        };
        let payload = vec![0; MAX_WAITING_BYTES_EACH / MAX_WAITING];
        let fill = |inlet: &Inlet| {
            for _ in 0..MAX_WAITING {
                flows.put(inlet, &payload);
            }
        };
        let dropped = || counter(&pair.client_side.board, "datagrams_dropped");
        let of_one: Vec<Inlet> = (0..5).map(|_| opened(1)).collect();
        of_one.iter().for_each(fill);
        assert_eq!(dropped(), 4 * MAX_WAITING as u64);
        fill(&opened(2));
        assert_eq!(dropped(), 4 * MAX_WAITING as u64, "the other has its own");
    }
}
