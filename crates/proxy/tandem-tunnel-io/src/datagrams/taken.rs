//! The client side's flows of programs that know nothing of a proxy: UDP that would leave by the
//! link, out of the kernel's packet queue.
//!
//! Is not: the rules that fill the queue (`intake/redirect/rules.rs`), a flow's way through the
//! tunnel (`near.rs`), nor its answers (`answers.rs`).
//!
//! Invariants: what is no whole datagram, and what is not for the tunnel, goes on as it is; a
//! packet that was queued has its verdict before the next one is looked at; flows, and what waits
//! for them, are bounded, in all and for each client.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use tandem_link::tunnel::{Ending, Target};
use tandem_queue::queue::{BATCH, Extent, KernelVerdict, PacketQueue, QueuedPacket};
use tandem_queue::raw::RawSockets;
use tandem_tunnel::Action;
use tandem_wire::udp::UdpPacket;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::answers::{Answers, Pair};
use super::endpoint::{Back, Program};
use super::near::{Inlet, NearFlows, Opening};
use crate::board::Tally;
use crate::detour::Detour;
use crate::error::TunnelError;
use crate::transport::Tunnel;

/// Flows that are looked through for those that are over when there are so many more.
const SWEEP: usize = 256;

/// Where datagrams come from, and answers go to.
#[derive(Debug)]
pub(crate) struct Queued {
    /// The rules fill it.
    pub(crate) queue: PacketQueue,
    /// What these send is not tracked.
    pub(crate) answers: RawSockets,
}

/// What becomes of a datagram.
enum Fate {
    /// It goes on as it is.
    Passes,
    /// It is taken out.
    Taken,
}

struct Flows<T: Tunnel> {
    all: Arc<NearFlows<T>>,
    answers: Arc<Answers>,
    detour: Option<Detour>,
    open: HashMap<Pair, Inlet>,
    /// When there are so many, those that are over go.
    sweep_at: usize,
}

/// Serves what comes, until the queue fails.
pub(crate) async fn serve<T: Tunnel>(
    all: Arc<NearFlows<T>>,
    Queued { queue, answers }: Queued,
    detour: Option<Detour>,
) -> Result<(), TunnelError> {
    let failed = TunnelError::system("reading the packet queue");
    #[expect(
        unsafe_code,
        reason = "the runtime has no safe way to wait for a descriptor of one's own"
    )]
    // SAFETY: the queue owns its socket, and is in there with it until both are dropped.
    let registered = unsafe { AsyncFd::register_with_interest(queue, Interest::READABLE) };
    let mut queue = registered.map_err(|error| failed(error.into()))?;
    let mut flows = Flows {
        answers: Arc::new(Answers::new(answers, Arc::clone(&all.shared))),
        all,
        detour,
        open: HashMap::new(),
        sweep_at: SWEEP,
    };
    loop {
        let mut ready = queue.readable_mut().await.map_err(&failed)?;
        let source = ready.get_inner_mut();
        let received = source.receive(|packet, verdicts| {
            let verdict = match flows.fate(&packet) {
                Fate::Passes => KernelVerdict::Accept,
                Fate::Taken => KernelVerdict::Drop,
            };
            // A queue that fails says so when it is flushed, or read next.
            let _ = verdicts.verdict(packet.id, verdict);
        })?;
        source.verdicts().flush()?;
        flows.count_unseen(received.unseen);
        // A batch that is not full has emptied the queue.
        if received.packets < BATCH && received.overflows == 0 {
            ready.clear_ready();
        }
        tokio::task::yield_now().await;
    }
}

impl<T: Tunnel> Flows<T> {
    fn fate(&mut self, packet: &QueuedPacket<'_>) -> Fate {
        let board = &self.all.shared.board;
        let datagram = match packet.extent {
            Extent::Whole => UdpPacket::parse(packet.bytes),
            Extent::Cut => None,
        };
        let Some(datagram) = datagram else {
            board.count(Tally::DatagramsPassed, 1);
            return Fate::Passes;
        };
        let pair = Pair {
            client: datagram.source,
            server: datagram.destination,
        };
        if !self.is_open(pair)
            && let Some(fate) = self.fate_without(pair)
        {
            match fate {
                Fate::Passes => self.all.shared.board.count(Tally::DatagramsPassed, 1),
                Fate::Taken => {}
            }
            return fate;
        }
        if let Some(flow) = self.open.get(&pair) {
            self.all.put(flow, datagram.payload);
        }
        Fate::Taken
    }

    /// Those for which the queue had no room: they passed, where that may be.
    fn count_unseen(&self, unseen: u64) {
        let tally = match self.detour {
            Some(_) => Tally::DatagramsPassed,
            None => Tally::DatagramsDropped,
        };
        let unseen = usize::try_from(unseen).unwrap_or(usize::MAX);
        self.all.shared.board.count(tally, unseen);
    }

    fn is_open(&self, pair: Pair) -> bool {
        self.open.get(&pair).is_some_and(|flow| !flow.is_closed())
    }

    /// Opens a flow, or says what else becomes of the datagram.
    fn fate_without(&mut self, pair: Pair) -> Option<Fate> {
        // Neighbours on the link: no server side reaches them.
        if is_link_local(pair.client.ip()) || is_link_local(pair.server.ip()) {
            return Some(Fate::Passes);
        }
        let (all, client) = (&self.all, pair.client.ip());
        let target = Target::Address(pair.server);
        match all.gate.decide_on_datagrams(client, &target) {
            Action::Tunnel => {}
            Action::Direct => return Some(Fate::Passes),
            Action::Refuse => {
                self.answers.refuse(pair, Ending::NotAllowed);
                return Some(Fate::Taken);
            }
        }
        if self.detour.as_ref().is_some_and(Detour::is_open) {
            return Some(Fate::Passes);
        }
        let program = |payloads| Program {
            payloads,
            back: Back::Raw {
                answers: Arc::clone(&self.answers),
                pair,
            },
        };
        let opening = Opening {
            client,
            target,
            action: Action::Tunnel,
            detour: self.detour.clone(),
        };
        match all.open(opening, program) {
            Some(flow) => {
                if self.open.len() >= self.sweep_at {
                    self.open.retain(|_, flow| !flow.is_closed());
                    self.sweep_at = self.open.len() + SWEEP;
                }
                self.open.insert(pair, flow);
                None
            }
            // There are too many: as without the tunnel, where that may be.
            None if self.detour.is_some() => Some(Fate::Passes),
            None => Some(Fate::Taken),
        }
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}
