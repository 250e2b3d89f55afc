//! Multi-context TLS over TCP: a client, a server, and a middlebox that serves as a frame for
//! useful ones. The protocol is `mctls`'s, the TLS below rustls's.
//!
//! [`blocking`] has the same without an async runtime.
//!
//! Is: sockets, time, randomness, certificates. Is not: the protocol's decisions; HTTP; discovery:
//! middleboxes are configured.
//!
//! Invariants: a middlebox that is dead or slow is an error that names it, within
//! [`Timeouts::handshake`] or [`Timeouts::idle`]; plain TLS is fallen back to by policy alone;
//! memory is bounded: beside the core's, an endpoint holds up to 128 KiB of what has come, 16 KiB
//! as long as that is little, and 64 KiB that it sends; a middlebox as much of what has come for
//! each neighbour, some two times [`middlebox::MAX_WAITING`] bytes each way, and what its service
//! adds. Tickets of legs, for all sessions: up to 8 MiB of those that it has issued, and 512 of
//! others, some 2 KiB each as a rule and 96 KiB at most; a middlebox has two stores of servers'.
//! rustls holds up to 64 KiB of an unfinished handshake message and a record each way for each TLS
//! session: one until a server has chosen this protocol, then one more for each middlebox, before
//! anybody is authenticated. So a client costs a server some 200 KiB of memory, with 16 middleboxes
//! 1.6 MiB, until it is known or [`Timeouts::handshake`] is over.
#![forbid(unsafe_code)]

pub mod blocking;
mod client;
mod error;
mod hop;
pub mod middlebox;
mod outgoing;
mod plain;
mod server;
mod session;
#[cfg(test)]
mod tests;
mod tickets;
mod tls;
mod verify;

pub use client::{Client, ClientSettings, Fallback, Via};
pub use error::{Error, Part};
pub use hop::Timeouts;
pub use middlebox::{
    Backends, Choice, Consent, Middlebox, MiddleboxSettings, NextHop, Pace, PairSettings, Service,
    Verdict,
};
pub use plain::Plain;
pub use server::{Policy, Server, ServerSettings};
pub use session::{Connected, Session, SessionReceiver, SessionSender};
pub use tls::{Identity, KeyExchange};
pub use verify::{MIDDLEBOX_USAGE, MIDDLEBOX_USAGE_OID};
