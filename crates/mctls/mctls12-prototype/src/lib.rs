//! The wire format of the authors' prototype of multi-context TLS, so that `mctls12` can be run
//! against it: `--prototype`. For research; **weaker still than the paper's protocol**.
//!
//! ```text
//!  client --- middlebox 1 --- middlebox 2 --- server
//!    |  TLS 1.2's messages, the PRF of TLS 1.0, keys sealed with RSA                |
//!    |  records of contexts, with three MACs that cover neither context nor place   |
//! ```
//!
//! Is: the messages, the handshakes of endpoints ([`endpoint`]) and middleboxes ([`middlebox`]),
//! the key schedule, the records ([`session`], [`relay`]). Is not: X.509 and private keys
//! ([`auth`]), sockets; the sessions, renegotiation and compression of OpenSSL.
//!
//! Invariants of the whole crate:
//! - no data before the other endpoint's finished message;
//! - any input is safe: no panic, work bounded, memory bounded: a direction holds at most one
//!   record and one message ([`record::MAX_RECORD_LEN`], [`record::MAX_MESSAGE_LEN`]);
//! - what the prototype does not check and can be checked, is checked here.
//!
//! Specification: `docs/mctls12.md`, "The prototype's wire format".
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

pub mod auth;
mod dh;
pub mod endpoint;
mod entropy;
pub mod error;
mod flights;
#[doc(hidden)]
pub mod fuzzing;
pub mod list;
mod material;
mod message;
pub mod middlebox;
mod modular;
mod prf;
mod protect;
mod read;
pub mod record;
mod rehearsal;
pub mod relay;
mod rsa;
mod schedule;
pub mod session;

pub use entropy::Entropy;
pub use error::Error;

#[cfg(test)]
mod handshake_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;
