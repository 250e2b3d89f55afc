//! The store on disk: the same store as in memory, and SQLite behind it for what is to outlive the
//! process; and what an operator may ask of one.
//!
//! [`SqliteStore`] is a [`Store`](tandem_store::Store); [`admin`] lists, shows, exports, imports
//! and purges.
//!
//! Not here: what is kept, what is expected of whom, what goes first; `tandem-store` decides that.
//! Invariant of the whole crate: what is wrong with a disk is told, and costs nobody an answer from
//! memory.
#![forbid(unsafe_code)]

pub mod admin;
mod database;
mod disk;
mod error;
mod files;
mod open;
mod rows;
mod schema;
mod serial;
mod store;
#[cfg(test)]
#[path = "../../tandem-store/tests/support/certificate.rs"]
mod testing;
mod warning;
mod writer;

pub use error::{Place, StoreError};
pub use store::SqliteStore;
pub use warning::Warning;
