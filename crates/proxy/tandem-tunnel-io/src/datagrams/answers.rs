//! What goes back to clients that know nothing of a proxy: datagrams in the server's name, and the
//! ICMP message in their place.
//!
//! Is not: the bytes of these packets ([`tandem_wire::udp`]).
//!
//! Invariant: nobody waits; what the network has no room for is lost.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tandem_link::tunnel::Ending;
use tandem_queue::raw::{RawSockets, SendError};
use tandem_wire::udp::{UdpPacket, Unreachable, fragments};

use super::icmp_limit::IcmpLimit;
use crate::board::Tally;
use crate::shared::Shared;

/// A client, and the server that it sends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pair {
    pub(super) client: SocketAddr,
    pub(super) server: SocketAddr,
}

/// What goes back to clients.
pub(super) struct Answers {
    sockets: RawSockets,
    limit: Mutex<IcmpLimit>,
    shared: Arc<Shared>,
    /// Of packets in pieces.
    identification: AtomicU32,
}

impl Answers {
    pub(super) fn new(sockets: RawSockets, shared: Arc<Shared>) -> Self {
        Self {
            sockets,
            limit: Mutex::new(IcmpLimit::new()),
            shared,
            identification: AtomicU32::new(0),
        }
    }

    /// Has the server's datagram reach the client. What has no room is lost, as in a network.
    pub(super) fn give(&self, pair: Pair, payload: &[u8]) {
        let answer = UdpPacket {
            source: pair.server,
            destination: pair.client,
            payload,
        };
        let Some(packet) = answer.write() else {
            return;
        };
        match self.sockets.send(&packet, 0) {
            Err(SendError::TooLong) => {
                let number = self.identification.fetch_add(1, Ordering::Relaxed);
                for piece in fragments(&packet, number) {
                    let _ = self.sockets.send(&piece, 0);
                }
            }
            Ok(()) | Err(SendError::NotIp | SendError::Refused(_)) => {}
        }
    }

    /// Tells the client that its datagram does not arrive, if it is to hear of that, and not too
    /// often.
    pub(super) fn refuse(&self, pair: Pair, why: Ending) {
        let message = unreachable(why).and_then(|it| it.write(pair.client, pair.server));
        let Some(message) = message else {
            return;
        };
        let now = self.shared.clocks.now();
        let mut limit = self.limit.lock().unwrap_or_else(PoisonError::into_inner);
        let is_to_hear = limit.take(pair.client.ip(), now);
        drop(limit);
        if is_to_hear {
            let _ = self.sockets.send(&message, 0);
        } else {
            self.shared.board.count(Tally::IcmpErrorsLimited, 1);
        }
    }
}

/// What a client hears of a flow that ended like this. Without the proxies it would hear it of the
/// server, or of a firewall.
fn unreachable(ending: Ending) -> Option<Unreachable> {
    match ending {
        Ending::Refused => Some(Unreachable::Port),
        Ending::NetworkUnreachable => Some(Unreachable::Network),
        Ending::HostUnreachable | Ending::TimedOut | Ending::NameNotFound => {
            Some(Unreachable::Host)
        }
        Ending::NotAllowed => Some(Unreachable::Prohibited),
        // What the client sends next may arrive.
        Ending::Reset | Ending::Malformed | Ending::Overloaded | Ending::ShuttingDown => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ending_of_a_flow_reaches_the_client_as_what_it_would_have_heard() {
        let of = Ending::ALL.map(unreachable);
        let expected = [
            None,
            Some(Unreachable::Port),
            Some(Unreachable::Host),
            Some(Unreachable::Network),
            Some(Unreachable::Host),
            Some(Unreachable::Prohibited),
            Some(Unreachable::Host),
            None,
            None,
            None,
        ];
        assert_eq!(of, expected);
    }
}
