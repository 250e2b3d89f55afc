//! Work that volunteers cause at the origin: whose turn is next ([`Queue`]), and how much anybody
//! may cause over time ([`Budget`]).
//!
//! Why both: turns alone let one volunteer keep an idle origin busy for ever; limits alone let many
//! volunteers together delay an honest one.
//!
//! Is not: the work, nor who waits for it; how far the origin runs ahead of one client is for
//! `tandem_split::credit`.

mod budget;
mod queue;

use std::net::IpAddr;

pub use budget::{Budget, Limits, Reservation};
pub use queue::{Queue, Request, Ticket};

use crate::member::PublicKey;

/// Who causes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asker {
    /// The volunteer's key.
    pub key: PublicKey,
    /// The address from which it comes.
    pub from: IpAddr,
}
