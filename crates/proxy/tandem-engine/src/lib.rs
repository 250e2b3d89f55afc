//! The handshake rewriter: flights in, deltas out, and back.
//!
//! Is: reading a handshake along ([`Handshake`]), writing a flight as a [`tandem_delta::Delta`] against what the
//! far side holds ([`Possession`]), following a delta, and the thesis's own messages ([`thesis`]).
//! Is not: packets, sockets, a clock.
//!
//! Invariants: bytes that are not understood are literals; a delta that is not smaller than its
//! bytes is not sent (its frame sees to that); nothing is learned that Finished did not vouch for.
#![forbid(unsafe_code)]

mod client_chain;
pub mod filter;
#[doc(hidden)]
pub mod fuzzing;
#[cfg(test)]
mod golden;
mod handshake;
pub mod intention;
mod possession;
#[cfg(test)]
mod samples;
pub mod thesis;
pub mod ticket;

pub use client_chain::{Believed, ClientChain, write_client_flight};
pub use handshake::{ClientCertificate, Flight, Handshake, Pass, Stage};
pub use possession::{Hints, Possession, StoreSource, expected_chains, write_flight};
