//! A line of a TLS key log (NSS's format, RFC 9850), and the handshake record keys that follow from
//! its secret (RFC 8446, section 7.3).
//!
//! Is not: how a line is come by, nor where a key goes. No proxy uses this crate: a secret stays in
//! the program that logs it, or in the one that reads its log.
//!
//! Invariants:
//! - lines about any other secret than a handshake's are not looked into;
//! - the secret is overwritten when it is dropped, and can only be had as key and IV;
//! - work and memory are bounded by the line.
//!
//! ```text
//! SERVER_HANDSHAKE_TRAFFIC_SECRET <client random: 64 digits> <secret: 64 or 96 digits>
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

#[doc(hidden)]
pub mod fuzzing;
mod secret;

pub use secret::HandshakeSecret;
