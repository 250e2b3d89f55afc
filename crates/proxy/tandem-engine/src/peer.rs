//! What one proxy knows or believes of another, and remembers for it.
//!
//! Is not: what is held here; that is the store's. A wrong belief costs a miss, never a byte.

mod client_chain;
mod far_side;
pub mod filter;
pub mod intention;
mod possession;
mod publisher;
mod tickets;

pub use client_chain::{Believed, ClientChain};
pub use far_side::FarSide;
pub use possession::{Hints, Possession, expected_chains};
pub use publisher::{Asked, Crossed, Decision, Publisher};
pub use tickets::SessionTickets;

/// Which end of the link a proxy is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// At the clients' end: rebuilds servers' flights.
    ClientSide,
    /// At the servers' end: writes them.
    ServerSide,
}
