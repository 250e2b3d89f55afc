//! Certificates by the SHA-256 of their bytes, chains of them, and which chains to expect from whom.
#![forbid(unsafe_code)]

mod bodies;
mod catalogue;
mod changes;
mod digest;
mod error;
mod limits;
mod memory;
mod names;
mod site;
mod store;
#[cfg(test)]
#[path = "../tests/support/certificate.rs"]
mod testing;
mod x509;

pub use digest::{ChainId, DIGEST_LENGTH, Digest};
pub use error::StoreError;
pub use limits::Limits;
pub use memory::MemoryStore;
pub use site::{HostName, Site};
pub use store::{Chain, Health, Keeping, Store};
