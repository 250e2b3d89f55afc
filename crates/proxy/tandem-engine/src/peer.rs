//! What one proxy knows or believes of another, and remembers for it: a [`Peer`] for each of them,
//! in one of its epochs ([`Peers`]).
//!
//! Is not: what is held here; that is the store's. What a peer says for one connection alone
//! ([`Possession`], [`Believed`]) is that connection's. A wrong belief costs a miss, never a byte.

mod authorities;
mod client_chain;
mod far_side;
pub mod filter;
mod hellos;
pub mod intention;
mod note;
mod peers;
mod possession;
mod publisher;
mod tickets;
mod trust;

pub use authorities::Authorities;
pub(crate) use client_chain::{Believed, ClientChain};
pub(crate) use far_side::FarSide;
pub(crate) use hellos::{Expected, HelloTemplates, Template};
pub(crate) use note::Note;
pub use peers::{Epoch, PeerId, Peers};
pub use possession::{Hints, Possession, expected_chains};
pub use publisher::{Asked, Crossed};
pub(crate) use publisher::{Decision, Publisher};
pub(crate) use tickets::{LIFETIME as TICKET_LIFETIME, SessionTickets};

/// Which end of the link a proxy is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// At the clients' end: rebuilds servers' flights.
    ClientSide,
    /// At the servers' end: writes them.
    ServerSide,
}

/// All that is known of one peer in one epoch.
#[derive(Debug)]
pub struct Peer {
    /// What it lacks, and what it has published.
    pub far: FarSide,
    /// What it is told of what is held here.
    pub publisher: Publisher,
    /// The tickets that both have seen.
    pub tickets: SessionTickets,
    /// The hellos that both have seen.
    pub hellos: HelloTemplates,
    /// Whether a hello has referred to tickets or hellos since the last miss. Until then no outcome
    /// says anything about the far side's memory: the hello was only compressed, or was under way
    /// when another was missed.
    pub(crate) has_referred: bool,
}

impl Peer {
    /// Nothing is known of it yet.
    pub(crate) fn new(role: Role) -> Self {
        Self {
            far: FarSide::default(),
            publisher: Publisher::default(),
            tickets: SessionTickets::new(role),
            hellos: HelloTemplates::new(role),
            has_referred: false,
        }
    }

    /// Bytes of memory in use, about.
    fn footprint(&self) -> usize {
        let (_, tickets) = self.tickets.size();
        let more = tickets + self.hellos.footprint();
        size_of::<Self>() + self.far.footprint() + self.publisher.footprint() + more
    }
}
