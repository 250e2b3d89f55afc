//! The paper's own protocol of multi-context TLS over TCP, for research: client, server and
//! middlebox. **It is not safe** (`docs/mctls12.md`); `mctls-io` has the protocol to use.
//!
//! Is: sockets, time, randomness, X.509 certificates. Is not: the protocol's decisions, which are
//! `mctls12`'s; HTTP; discovery; fall-back to TLS.
//!
//! Invariants: each wait is bounded ([`Timeouts`]); memory is bounded: an endpoint holds a record
//! and a handshake message beside the core's, a middlebox as much for each neighbour.
#![forbid(unsafe_code)]

mod auth;
mod endpoint;
mod error;
mod line;
pub mod middlebox;
pub mod prototype;

pub use auth::{Roots, identity};
pub use endpoint::{Session, SessionReceiver, SessionSender, accept, connect};
pub use error::Error;
pub use mctls_io::Timeouts;
