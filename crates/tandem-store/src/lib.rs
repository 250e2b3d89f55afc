//! Certificates by the SHA-256 of their bytes, chains of them, and which chains to expect from whom.
#![forbid(unsafe_code)]

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
