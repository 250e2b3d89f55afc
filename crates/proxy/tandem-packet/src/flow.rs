//! One flow, whichever side it is at: what the proxy asks of both, its timer, its share of memory,
//! and whether it is closed.
//!
//! Is not: what happens in it (`client_side`, `server_side`), nor the table. Invariant: what a flow
//! holds, and for how long, is told by its [`Share`] and its deadline after each change.

use tandem_store::Store;
use tandem_wire::{Instant, Seq, TcpFlags, TcpPacket};

use crate::client_side::ClientSide;
use crate::config::Limits;
use crate::context::{Context, Keep, Share, Toward};
use crate::output::{GiveUp, Outbox, Owed};
use crate::server_side::ServerSide;

/// A flow at either side.
#[derive(Debug)]
pub(crate) struct Flow {
    side: Side,
    /// What this flow was last counted with.
    pub(crate) share: Share,
    /// The time-out that it was last entered with.
    pub(crate) deadline: Option<Instant>,
    closed: Closed,
}

#[derive(Debug)]
pub(crate) enum Side {
    Client(ClientSide),
    Server(ServerSide),
}

/// Which directions have seen their FIN.
#[derive(Debug, Clone, Copy, Default)]
struct Closed {
    client: bool,
    server: bool,
}

impl Flow {
    pub(crate) fn new(side: Side) -> Self {
        Self {
            side,
            share: Share::default(),
            deadline: None,
            closed: Closed::default(),
        }
    }

    /// Whether this SYN is the flow's own.
    pub(crate) fn began_with(&self, syn: &TcpPacket<'_>) -> bool {
        self.client_isn() == syn.seq()
    }

    /// The SYN by which the far side was asked for, if it has not answered.
    pub(crate) fn unanswered(&self) -> Option<Seq> {
        match &self.side {
            Side::Client(side) => side.unanswered(),
            Side::Server(_) => None,
        }
    }

    fn client_isn(&self) -> Seq {
        match &self.side {
            Side::Client(side) => side.client_isn(),
            Side::Server(side) => side.client_isn(),
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
            self.fall_back(cx.config.limits.mtu, cx.out);
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
        match &mut self.side {
            Side::Client(side) => side.packet(owed, toward, packet, cx),
            Side::Server(side) => side.packet(owed, toward, packet, cx),
        }
    }

    /// When something that waits has to go.
    pub(crate) fn next_deadline(&self, limits: &Limits) -> Option<Instant> {
        match &self.side {
            Side::Client(side) => side.deadline(limits),
            Side::Server(side) => side.deadline(limits),
        }
    }

    /// Lets go what has waited long enough.
    pub(crate) fn expire(&mut self, now: Instant, limits: &Limits, out: &mut Outbox) {
        match &mut self.side {
            Side::Client(side) => side.expire(now, limits, out),
            Side::Server(side) => side.expire(now, limits, out),
        }
    }

    /// Lets go what waits.
    pub(crate) fn release(&mut self, out: &mut Outbox) {
        match &mut self.side {
            Side::Client(side) => side.release(out),
            Side::Server(side) => side.release(out),
        }
    }

    /// Lets go what waits, and sends the originals of what went out rewritten and may not be
    /// rebuilt any more.
    fn fall_back(&mut self, mtu: usize, out: &mut Outbox) {
        match &mut self.side {
            Side::Client(side) => side.fall_back(mtu, out),
            Side::Server(side) => side.fall_back(mtu, out),
        }
    }

    /// What the flow keeps right now.
    pub(crate) fn current_share(&self) -> Share {
        let mut share = match &self.side {
            Side::Client(side) => side.share(),
            Side::Server(side) => side.share(),
        };
        share.memory += size_of::<Self>();
        share
    }
}
