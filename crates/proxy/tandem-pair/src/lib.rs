//! tandem-pair: carries a pair's key from one proxy to the other, over TCP, by an invitation that
//! works once (docs/adr/0021-pairing.md).
//!
//! Is not: the files of key and settings, nor the tunnel that the pair has afterwards.
//!
//! Invariants: the key is sent to nobody who has not proved to have the invitation, and to one end
//! at most; it is taken from nobody but the end that the invitation names.

#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod fuzzing;

mod accept;
mod error;
mod handover;
mod invitation;
mod invite;

pub use accept::{Received, accept};
pub use error::PairError;
pub use handover::Handover;
pub use invitation::{Invitation, InvitationError};
pub use invite::{Guest, Inviter, Stranger};
pub use tandem_link::tunnel::Target;

use std::time::Duration;

use tandem_channel::{KeyExchange, Protocol};

/// What both ends ask for by name. The key is used for years: what is recorded today must not tell
/// it to a quantum computer.
const PROTOCOL: Protocol = Protocol {
    name: b"tandem-pair/1",
    key_exchange: KeyExchange::Hybrid,
};

/// How long one end waits for the other within the exchange. At 2,400 bit/s its 5 kB take 20 s,
/// and TCP repeats what a radio link loses.
const PATIENCE: Duration = Duration::from_secs(120);
