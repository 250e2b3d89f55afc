//! Multi-context TLS as its authors published it (Naylor et al. 2015, "the paper"), for research:
//! `mctls12`. The one to use is `mctls13`, the crate `mctls`.
//!
//! ```text
//!  client --- middlebox 1 --- middlebox 2 --- server
//!    |  one handshake of TLS 1.2, changed: middleboxes take part in it, and get keys  |
//!    |  records of contexts, each with a MAC for readers, for writers, for endpoints  |
//! ```
//!
//! Is: the messages and the handshakes of endpoints ([`endpoint`]) and middleboxes ([`middlebox`]),
//! the key schedule, the records and their checks ([`sender`], [`receiver`], [`relay`]), the
//! framing of a hop ([`record`]). Is not: X.509 ([`auth`]), sockets, the fall-back to TLS, the
//! prototype's wire format.
//!
//! **It is not safe**, and cannot be: a middlebox cannot verify what session it is in, nobody
//! notices one that is led around, and its primitives are those of 2015. `docs/mctls12.md` says
//! what is known, `attacks` shows it.
//!
//! Invariants of the whole crate:
//! - a middlebox has no key for what it was not sent key material for;
//! - no data before the other endpoint's finished message;
//! - any input is safe: no panic, work linear in the input, memory bounded: a direction holds at
//!   most one record and one message ([`record::MAX_RECORD_LEN`], [`record::MAX_MESSAGE_LEN`]).
//!
//! Specification: `docs/mctls12.md`.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

#[cfg(any(test, feature = "hostile"))]
#[doc(hidden)]
pub mod attacks;
pub mod auth;
pub mod endpoint;
pub mod error;
mod exchange;
#[doc(hidden)]
pub mod fuzzing;
#[cfg(any(test, feature = "hostile"))]
#[doc(hidden)]
pub mod hostile;
pub mod list;
mod material;
mod message;
pub mod middlebox;
mod protect;
mod read;
pub mod receiver;
pub mod record;
#[doc(hidden)]
pub mod rehearsal;
pub mod relay;
mod schedule;
mod secret;
pub mod sender;

pub use error::Error;
pub use exchange::Entropy;
pub use message::Mode;

#[cfg(test)]
mod handshake_tests;
#[cfg(test)]
mod testing;
