//! tandem-split-io: SSL splitting's adapter to the world: the origin and the volunteer, with their sockets, files and tasks.
//!
//! Is not: the messages between the two, nor how a record is put together from them.
//!
//! Invariants: the origin's key never leaves it, nor any key that authenticates; what a volunteer serves, a client's own TLS checks.

pub mod channel;
pub mod error;
mod listener;
pub mod metrics;
pub mod origin;
pub mod runtime;
pub mod tls;
pub mod volunteer;

pub use error::SplitIoError;
