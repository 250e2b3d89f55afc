//! Multi-context TLS, protocol `mctls13`: client and server admit middleboxes to their session,
//! each to the parts of the data that it needs, to read or to write, and no further.
//!
//! ```text
//!  client --- middlebox 1 --- middlebox 2 --- server
//!    |============================================|   end-to-end session   } complete TLS 1.3
//!    |============|               |===============|   legs, two for each   } sessions, by an
//!    |============================|               |   middlebox            } unmodified library
//!                 |===============================|
//! ```
//!
//! Is: the messages inside those sessions ([`message`]), the handshakes of endpoints
//! ([`endpoint`]) and middleboxes ([`middlebox`]), the key schedule ([`schedule`]), the records and
//! their checks ([`record`], [`sender`], [`receiver`], [`relay`]), the framing of a hop
//! ([`frame`]), and the short form that records may have between two middleboxes ([`short`]). Is
//! not: TLS, whose exporters and certificates come in as bytes; sockets; policy; HTTP; the paper's
//! own protocol on TLS 1.2.
//!
//! Invariants of the whole crate:
//! - a middlebox has no key for what both endpoints have not granted;
//! - nothing is sent as data before both endpoints and every middlebox have proved one transcript;
//! - what a party wrote beyond its rights is refused by a check that says so ([`error::Check`]);
//! - any input is safe: no panic, work linear in the input, memory bounded: a handshake holds at
//!   most two messages a channel ([`message::MAX_MESSAGE_LEN`]), a direction of an established
//!   session eight records ([`record::MAX_PARTS`], [`record::MAX_RECORD_LEN`]) and, while they are
//!   opened, their text beside them: some 270 KiB.
//!
//! Specification: `docs/mctls13.md`. After Naylor et al. 2015 ("the paper"), whose goals it keeps.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

pub mod config;
pub mod endpoint;
pub mod error;
pub mod frame;
#[doc(hidden)]
pub mod fuzzing;
#[cfg(any(test, feature = "hostile"))]
#[doc(hidden)]
pub mod hostile;
mod keys;
pub mod message;
pub mod middlebox;
pub mod party;
mod read;
pub mod receiver;
pub mod record;
pub mod relay;
pub mod schedule;
mod secret;
pub mod sender;
pub mod short;
pub mod suite;

pub use error::Error;

#[cfg(test)]
mod attacks;
#[cfg(test)]
mod handshake_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod vectors;
