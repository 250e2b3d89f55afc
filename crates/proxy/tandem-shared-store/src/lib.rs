//! tandem-shared-store: notes of peers in a Valkey or Redis server, so that several server-side
//! proxies know together what each client-side proxy refers to (docs/adr/0039-shared-store.md).
//!
//! Is not: what a note says; the engine reads it as bytes of a stranger. Nor a general client: it
//! knows the six commands that it needs.
//!
//! Invariants: no caller waits for the server, but for the one flush at the end; the server, and
//! whoever reads or writes in it, sees neither a note nor a peer's name, and cannot make a note
//! that is taken; replies, the queue and what is kept for a peer are bounded; a server that fails
//! is asked again at growing intervals, and what was to be written meanwhile is dropped and
//! counted.

#![forbid(unsafe_code)]

mod access;
mod address;
mod bounded;
mod examine;
#[doc(hidden)]
pub mod fuzzing;
mod resp;
mod sealed;
mod server;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod support;
mod trust;
mod worker;

pub use access::Access;
pub use address::{Address, AddressError, Login};
pub use examine::{Fault, examine};
pub use trust::{Trust, TrustError};
pub use worker::Valkey;
