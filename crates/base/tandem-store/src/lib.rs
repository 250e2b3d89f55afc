//! Certificates by the SHA-256 of their bytes, chains of them, and which chains to expect from
//! whom: what a proxy holds.
//!
//! It is not a cache of application data, and it trusts nothing: a wrong certificate in it costs
//! bytes, never security, since the endpoints' own Finished tells. What each *peer* holds is not
//! here either.
//!
//! The engine asks by [`Store`]. [`MemoryStore`] is a store; [`SqliteStore`] is the same one with a
//! disk behind it, and [`admin`] is what an operator may ask of that. Everything but these two
//! modules is a core, without files, clock or threads.
//!
//! Invariants of the whole crate:
//! - bytes that come out have the digest that they were asked for by;
//! - memory, work for each look-up, and the disk are bounded by [`Limits`], whatever strangers
//!   show;
//! - the store is the same whether a disk is behind it or not, and whether it was closed in
//!   between;
//! - what is wrong with a disk is told, and costs nobody an answer from memory.
//!
//! Specifications: FIPS 180-4 (SHA-256), RFC 5246 section 7.4.2 (chains), RFC 5280 and 6125
//! (names), RFC 6066 section 3 (sites).
#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "sqlite"),
    allow(dead_code, reason = "the disk's half of the core is not called then")
)]

#[cfg(feature = "sqlite")]
pub mod admin;
mod bodies;
mod catalogue;
mod changes;
mod digest;
mod error;
mod limits;
mod memory;
mod names;
mod purge;
#[cfg(feature = "sqlite")]
mod serial;
mod site;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod store;
#[cfg(test)]
#[path = "../tests/support/certificate.rs"]
mod testing;
mod x509;

pub use digest::{ChainId, DIGEST_LENGTH, Digest};
#[cfg(feature = "sqlite")]
pub use error::Place;
pub use error::StoreError;
pub use limits::Limits;
pub use memory::MemoryStore;
pub use purge::{Purge, Purged};
pub use site::{HostName, Site};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteStore, Warning};
pub use store::{Chain, Health, Keeping, Store};
