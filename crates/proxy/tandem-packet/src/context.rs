//! What the proxy lends a flow for one packet, and the words that both speak in: which way a packet
//! goes, whether the flow stays, what is kept for it.
//!
//! Is not: any decision. All of a flow's parts stand on this, and it on none of them.

use std::net::SocketAddr;
use std::time::Duration;

use tandem_engine::{Engine, Moment};
use tandem_link::inband::frame::Sender;
use tandem_link::inband::{Key, Spoken};
use tandem_wire::{Instant, UnixTime};

use crate::config::Config;
use crate::format::Format;
use crate::hello::LinkMemory;
use crate::output::{Event, GiveUp, Outbox, Owed, Verdict};

/// Which endpoint a packet goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Toward {
    Client,
    Server,
}

impl Toward {
    pub(crate) fn opposite(self) -> Self {
        match self {
            Toward::Client => Toward::Server,
            Toward::Server => Toward::Client,
        }
    }

    /// The end from which it comes.
    pub(crate) fn origin(self) -> tandem_engine::Sender {
        match self {
            Toward::Client => tandem_engine::Sender::Server,
            Toward::Server => tandem_engine::Sender::Client,
        }
    }

    /// The same, as a frame says it.
    pub(crate) fn sender(self) -> Sender {
        match self {
            Toward::Client => Sender::Server,
            Toward::Server => Sender::Client,
        }
    }
}

/// Whether a flow has more to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Keep {
    Flow,
    Forget,
}

/// What follows a packet in which the proxies are still to agree.
#[must_use]
pub(crate) enum Next<Agreed> {
    /// Nothing has changed.
    Same,
    /// They have agreed.
    Agreed(Box<Agreed>),
    /// The flow has no more to do.
    Over,
}

impl<Agreed> From<Keep> for Next<Agreed> {
    fn from(keep: Keep) -> Self {
        match keep {
            Keep::Flow => Self::Same,
            Keep::Forget => Self::Over,
        }
    }
}

/// What a flow works with while it handles one packet.
pub(crate) struct Context<'a, S> {
    pub(crate) config: &'a Config,
    pub(crate) key: &'a Key,
    pub(crate) spoken: Spoken,
    pub(crate) engine: &'a mut Engine<S>,
    pub(crate) out: &'a mut Outbox,
    pub(crate) link: &'a mut LinkMemory,
    /// Whether a flight may be written on this flow's path, or asked for (`breaker`).
    pub(crate) may_rewrite: bool,
    pub(crate) now: Instant,
    pub(crate) wall: UnixTime,
    /// The server's address: the site, where the client named none.
    pub(crate) server: SocketAddr,
    /// The packet that goes in place of the one at hand, where its making and its sending are
    /// decided apart.
    pub(crate) replaced: Option<Vec<u8>>,
}

impl<S> Context<'_, S> {
    /// Where and when this is.
    pub(crate) fn moment(&self) -> Moment {
        Moment {
            server: self.server,
            now: self.now,
            wall: self.wall,
        }
    }

    /// Now, and how long a pure ACK may wait. The thesis's format leaves acknowledgements alone.
    pub(crate) fn ack_time(&self) -> (Instant, Duration) {
        let may_wait = self.config.wire.is_harmless();
        let patience = may_wait.then_some(self.config.limits.ack_time);
        (self.now, patience.unwrap_or_default())
    }

    /// From here on the flow goes as it is.
    pub(crate) fn give_up(&mut self, owed: Owed, why: GiveUp) -> Keep {
        self.give_up_with(owed, why, |_| {})
    }

    /// The same, after what is still owed to the flow's endpoints.
    pub(crate) fn give_up_with(
        &mut self,
        owed: Owed,
        why: GiveUp,
        first: impl FnOnce(&mut Outbox),
    ) -> Keep {
        first(self.out);
        self.out.event(Event::GivenUp(why));
        owed.settle(Verdict::Leave, self.out);
        Keep::Forget
    }
}

/// What is kept for a flow, or for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Share {
    /// Bytes of memory, about.
    pub(crate) memory: usize,
    /// Packets that wait for their verdict.
    pub(crate) held_packets: usize,
    /// Payload bytes of those packets.
    pub(crate) held_bytes: usize,
}

impl Share {
    /// Counts `new` in place of `old`, which was counted before.
    pub(crate) fn exchange(&mut self, old: Share, new: Share) {
        self.memory = self.memory - old.memory + new.memory;
        self.held_packets = self.held_packets - old.held_packets + new.held_packets;
        self.held_bytes = self.held_bytes - old.held_bytes + new.held_bytes;
    }
}
