//! One flow, whichever side it is at: its state, its timer, its share of memory, and whether it is
//! closed.
//!
//! Is not: what happens in a state (`client_side`, `server_side`), nor the table. Invariant: what a
//! flow holds, and for how long, is told by its [`Share`] and its deadline after each change.
//!
//! ```text
//!   client's side:  Asking --SYN/ACK with an answer--> Client --both Finished--> forgotten
//!   server's side:  Asked  --SYN/ACK-----------------> Server --both Finished--> forgotten
//! ```

use std::net::SocketAddr;

use tandem_store::{Site, Store};
use tandem_wire::{Instant, Seq, TcpFlags, TcpPacket};

use crate::client_side::{self, Asking};
use crate::common::Common;
use crate::config::Limits;
use crate::context::{Context, Keep, Next, Share, Toward};
use crate::output::{GiveUp, Outbox, Owed};
use crate::server_side::{self, Asked};
use crate::summary::Note;

/// A flow at either side.
#[derive(Debug)]
pub(crate) struct Flow {
    state: State,
    /// What this flow was last counted with.
    pub(crate) share: Share,
    /// The time-out that it was last entered with.
    pub(crate) deadline: Option<Instant>,
    pub(crate) note: Note,
    closed: Closed,
}

#[derive(Debug)]
pub(crate) enum State {
    /// At the client's side: nobody has answered yet.
    Asking(Asking),
    /// At the client's side: both proxies know of each other.
    Client(Box<client_side::Agreed>),
    /// At the server's side: there is no answer to the other proxy yet.
    Asked(Asked),
    /// At the server's side: both proxies know of each other.
    Server(Box<server_side::Agreed>),
}

impl<Agreed> Next<Agreed> {
    /// Enters the state of those that have agreed.
    fn enter(self, state: &mut State, agreed: impl FnOnce(Box<Agreed>) -> State) -> Keep {
        match self {
            Self::Same => Keep::Flow,
            Self::Agreed(both) => {
                *state = agreed(both);
                Keep::Flow
            }
            Self::Over => Keep::Forget,
        }
    }
}

/// Which directions have seen their FIN.
#[derive(Debug, Clone, Copy, Default)]
struct Closed {
    client: bool,
    server: bool,
}

impl Flow {
    pub(crate) fn new(state: State, now: Instant) -> Self {
        Self {
            state,
            share: Share::default(),
            deadline: None,
            note: Note::since(now),
            closed: Closed::default(),
        }
    }

    /// Whether this SYN is the flow's own.
    pub(crate) fn began_with(&self, syn: &TcpPacket<'_>) -> bool {
        self.client_isn() == syn.seq()
    }

    /// Whom the client asked for, once that is known.
    pub(crate) fn site(&self, server: SocketAddr) -> Option<Site> {
        self.common()?.watch.site(server)
    }

    /// The SYN by which the far side was asked for, if it has not answered.
    pub(crate) fn unanswered(&self) -> Option<Seq> {
        match &self.state {
            State::Asking(asking) => Some(asking.client),
            State::Client(_) | State::Asked(_) | State::Server(_) => None,
        }
    }

    fn client_isn(&self) -> Seq {
        match &self.state {
            State::Asking(asking) => asking.client,
            State::Asked(asked) => asked.client,
            State::Client(agreed) => agreed.common.id.client,
            State::Server(agreed) => agreed.common.id.client,
        }
    }

    /// What is there once the proxies know of each other.
    fn common(&self) -> Option<&Common> {
        match &self.state {
            State::Asking(_) | State::Asked(_) => None,
            State::Client(agreed) => Some(&agreed.common),
            State::Server(agreed) => Some(&agreed.common),
        }
    }

    fn common_mut(&mut self) -> Option<&mut Common> {
        match &mut self.state {
            State::Asking(_) | State::Asked(_) => None,
            State::Client(agreed) => Some(&mut agreed.common),
            State::Server(agreed) => Some(&mut agreed.common),
        }
    }

    /// A packet of the flow, its first SYN excepted.
    pub(crate) fn packet<S: Store>(
        &mut self,
        owed: Owed,
        toward: Toward,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) -> Keep {
        let flags = packet.flags();
        if flags.contains(TcpFlags::URG) {
            if let Some(common) = self.common_mut() {
                common.fall_back(cx.config.limits.mtu, cx.out);
            }
            return cx.give_up(owed, GiveUp::Urgent);
        }
        // After a RST nothing is left to deliver; after a FIN each way, whatever comes is TCP's own
        // clearing up.
        if flags.contains(TcpFlags::RST) || self.closed.client && self.closed.server {
            self.release(cx.out);
            return cx.give_up(owed, GiveUp::Closed);
        }
        if flags.contains(TcpFlags::FIN) {
            match toward {
                Toward::Server => self.closed.client = true,
                Toward::Client => self.closed.server = true,
            }
        }
        match &mut self.state {
            State::Client(agreed) => agreed.packet(owed, toward, packet, cx),
            State::Server(agreed) => agreed.packet(owed, toward, packet, cx),
            State::Asking(asking) => {
                let next = asking.packet(owed, toward, packet, cx);
                next.enter(&mut self.state, State::Client)
            }
            State::Asked(asked) => {
                let next = asked.packet(owed, toward, packet, cx);
                next.enter(&mut self.state, State::Server)
            }
        }
    }

    /// When something that waits has to go.
    pub(crate) fn next_deadline(&self, limits: &Limits) -> Option<Instant> {
        self.common()?.deadline(limits)
    }

    /// Lets go what has waited long enough.
    pub(crate) fn expire(&mut self, now: Instant, limits: &Limits, out: &mut Outbox) {
        if let Some(common) = self.common_mut() {
            common.expire(now, limits, out);
        }
    }

    /// Lets go what waits.
    pub(crate) fn release(&mut self, out: &mut Outbox) {
        if let Some(common) = self.common_mut() {
            common.release(out);
        }
    }

    /// What the flow keeps right now.
    pub(crate) fn current_share(&self) -> Share {
        let boxed = match &self.state {
            State::Asking(_) | State::Asked(_) => 0,
            State::Client(_) => size_of::<client_side::Agreed>(),
            State::Server(_) => size_of::<server_side::Agreed>(),
        };
        let mut share = self.common().map(Common::share).unwrap_or_default();
        share.memory += size_of::<Self>() + boxed;
        share
    }
}
