//! The client side's flows: programs that asked SOCKS5 for UDP ASSOCIATE (RFC 1928, section 7), and
//! a flow for each target that one of them sends to.
//!
//! Is not: SOCKS's bytes (`intake/socks.rs`).
//!
//! Invariants: an association ends with the connection on which it was asked for; it takes
//! datagrams of one address of that client's alone; associations are bounded in number, in all and
//! for each client.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;

use tandem_daemon::places::{Places, Share};
use tandem_link::tunnel::{MAX_PAYLOAD, Target};
use tandem_tunnel::Action;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpStream, UdpSocket};

use super::endpoint::{Back, Program, may_pass};
use super::near::{Inlet, MAX_OPEN, MAX_OPEN_EACH, NearFlows, Opening};
use crate::board::Tally;
use crate::intake::{datagram, datagram_header};
use crate::transport::Tunnel;

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
    flows: Arc<NearFlows<T>>,
    places: Arc<Places<IpAddr>>,
}

impl<T: Tunnel> Associations<T> {
    pub(crate) fn new(flows: Arc<NearFlows<T>>) -> Arc<Self> {
        Arc::new(Self {
            flows,
            // As many as flows: each has at least one.
            places: Places::new(MAX_OPEN, Share::AtMost(MAX_OPEN_EACH)),
        })
    }

    /// Serves an association in a task of its own. One too many is closed.
    pub(crate) fn admit(self: &Arc<Self>, association: Association) {
        let Some(place) = self.places.take(association.client) else {
            self.flows
                .shared
                .board
                .count(Tally::DatagramFlowsRefused, 1);
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
            all: Arc::clone(&self.flows),
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
                () = self.flows.shared.over() => return,
            }
        }
    }
}

/// What one program sends.
struct Talk<T: Tunnel> {
    all: Arc<NearFlows<T>>,
    relay: Arc<UdpSocket>,
    client: IpAddr,
    /// From where it sends: the first address of the client's from which anything came.
    address: Option<SocketAddr>,
    flows: HashMap<Target, Inlet>,
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
        if self.flows.get(&target).is_none_or(Inlet::is_closed) && !self.open(&target, from) {
            return;
        }
        if let Some(flow) = self.flows.get(&target) {
            self.all.put(flow, payload);
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
        let opening = Opening {
            client,
            target: target.clone(),
            action,
            detour: None,
        };
        let program = |payloads| Program {
            payloads,
            back: Back::Socks {
                relay: Arc::clone(&self.relay),
                address,
                header: datagram_header(target),
            },
        };
        match all.open(opening, program) {
            Some(flow) => self.flows.insert(target.clone(), flow),
            None => return false,
        };
        true
    }
}
