//! **An experiment, for measurements only: never for real traffic.** A TLS 1.2 client and server,
//! as small as they can be, in which proposals for cheaper handshakes are tried.
//!
//! ```text
//!  plain         hello ------>                             two round trips before data
//!                <------ hello, certificate, key exchange, done
//!                key exchange, finished ------>
//!                <------ finished
//!  cached info   the same, with a hash in place of the certificates (RFC 7924)
//!  three-way     hello, key exchange, finished [, data] ------>          one round trip
//!                <------ hello, finished
//! ```
//!
//! Is: the states of both ends ([`client`], [`server`]), their messages, keys and records; one
//! cipher (AES-128-GCM with SHA-256), ECDHE on X25519 or P-256, RSA or ECDSA. Is not: sockets, time
//! and randomness, which are arguments; X.509 ([`auth`]); resumption, renegotiation, compression;
//! reviewed by anybody.
//!
//! Invariants of the whole crate:
//! - no application data is handed out before its sender's Finished, except what a client sent in
//!   its first flight, which is marked as such ([`Received`]);
//! - any input is safe: no panic, work linear in the input, memory bounded: one record and one
//!   message of at most [`record::MAX_MESSAGE_LEN`] are held;
//! - an error ends the connection.
//!
//! Specifications: RFC 5246, 5288, 5289, 5746, 7918, 7924, 8422; for the three-way handshake
//! `docs/remedies.md`.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

pub mod auth;
pub mod client;
pub mod error;
mod exchange;
#[doc(hidden)]
pub mod fuzzing;
pub mod holder;
mod line;
mod message;
mod protect;
mod read;
pub mod record;
mod rehearsal;
mod schedule;
mod secret;
pub mod server;
pub mod three_way;

pub use client::{Client, ClientConfig, Known};
pub use error::Error;
pub use exchange::Entropy;
pub use record::Received;
pub use server::{Server, ServerConfig};

#[cfg(test)]
mod handshake_tests;
