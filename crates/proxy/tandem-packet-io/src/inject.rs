//! Whole IP packets past the queue: over the link, or towards the near endpoint, forwarded or
//! local.
//!
//! Is not: the sockets (`tandem-queue`).
//!
//! Invariants: every packet carries the injection mark, by which the rules let it pass the queue
//! and, towards the near endpoint, connection tracking; sending never blocks.

use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use tandem_packet::Direction;
use tandem_queue::raw::{RawSockets, Routing, SendError};

use crate::config::LinkName;
use crate::error::IoError;

/// The sockets.
#[derive(Debug)]
pub(crate) struct Injector {
    to_link: RawSockets,
    from_link: RawSockets,
    link: LinkName,
    link_index: u32,
    mark: u32,
}

impl Injector {
    /// Opens the sockets: packets to the link leave by it whatever the routes say, the others by
    /// the routes.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or a socket is refused for another reason.
    pub(crate) fn open(link: &LinkName, link_index: u32, mark: u32) -> Result<Self, IoError> {
        Ok(Self {
            to_link: RawSockets::open(Routing::By(link), mark)?,
            from_link: RawSockets::open(Routing::AsRouted, mark)?,
            link: link.clone(),
            link_index,
            mark,
        })
    }

    /// Sends one IP packet.
    ///
    /// # Errors
    /// It could not be sent; nothing else is affected.
    pub(crate) fn send(&mut self, direction: Direction, packet: &[u8]) -> Result<(), SendError> {
        match direction {
            Direction::FromLink => self.from_link.send(packet, self.link_index),
            Direction::ToLink => match self.to_link.send(packet, self.link_index) {
                Err(SendError::Refused(Errno::ENODEV | Errno::ENXIO | Errno::ENETUNREACH))
                    if self.follow() =>
                {
                    self.to_link.send(packet, self.link_index)
                }
                other => other,
            },
        }
    }

    /// Binds to the interface that has the link's name by now: tunnels and modems come and go.
    /// `false` if it is still the same, or there is none.
    fn follow(&mut self) -> bool {
        match if_nametoindex(self.link.as_str()) {
            Ok(index) if index != self.link_index => {
                match RawSockets::open(Routing::By(&self.link), self.mark) {
                    Ok(pair) => {
                        self.to_link = pair;
                        self.link_index = index;
                        true
                    }
                    Err(error) => {
                        tracing::debug!("the link is back, but {error}");
                        false
                    }
                }
            }
            Ok(_) | Err(_) => false,
        }
    }
}
