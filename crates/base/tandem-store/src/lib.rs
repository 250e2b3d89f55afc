//! Objects by kind and by the SHA-256 of their bytes (chains, single certificates, the messages
//! beside a chain, ...), and which to expect from whom: what a proxy holds.
//!
//! It is not a cache of application data, and it trusts nothing: a wrong certificate in it costs
//! bytes, never security, since the endpoints' own Finished tells. What each *peer* holds is not
//! here either.
//!
//! The engine asks by [`Store`]. [`MemoryStore`] is a store; [`backing`] is for crates that put a
//! disk behind the same one.
//!
//! Invariants of the whole crate:
//! - bytes that come out have the digest that they were asked for by;
//! - memory, work for each look-up, and the disk are bounded by [`Limits`], whatever strangers
//!   show;
//! - the store is the same whether a disk is behind it or not, and whether it was closed in
//!   between.
//!
//! Specifications: FIPS 180-4 (SHA-256), RFC 5246 section 7.4.2 (chains), RFC 5280 and 6125
//! (names), RFC 6066 section 3 (sites).
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

pub mod backing;
mod bodies;
mod catalogue;
mod changes;
mod contents;
mod digest;
mod error;
mod expectations;
mod key;
mod kind;
mod limits;
mod memory;
mod names;
mod purge;
mod site;
mod store;
#[cfg(test)]
#[path = "../tests/support/certificate.rs"]
mod testing;
mod x509;

pub use digest::{DIGEST_LENGTH, Digest, ObjectId};
pub use error::NameError;
pub use kind::{KINDS, Kind, KindRow, Layout, Reading, Unexpected};
pub use limits::Limits;
pub use memory::MemoryStore;
pub use purge::{Purge, Purged};
pub use site::{HostName, Site};
pub use store::{Health, Keeping, Latest, Object, Store};
pub use x509::Validity;
