//! TLS 1.3 records opened and sealed again with a key and IV that were released (RFC 8446,
//! section 5).
//!
//! Is: record protection ([`Opener`], [`Sealer`]), and how a plaintext is cut into records and
//! padded, in a few bytes ([`Layout`]). Is not: a TLS stack, a key schedule (nothing is derived
//! here), or what is in the plaintext.
//!
//! Invariants: what was opened, sealed with its key, place, type and padding, is the same record,
//! tag included, because the ciphers are deterministic; a record that does not open changes
//! nothing.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

#[doc(hidden)]
pub mod fuzzing;
mod layout;
mod record;

pub use layout::{Layout, MAX_RECORDS};
pub use record::{Opened, Opener, Sealer};
