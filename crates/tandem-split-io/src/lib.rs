//! tandem-split-io: SSL splitting's adapter to the world: the origin and the volunteer, with their sockets, files and threads.
//!
//! Is not: the messages between the two, nor how a record is put together from them.
//!
//! Invariants: the origin's key never leaves it, nor any key that authenticates; what a volunteer serves, a client's own TLS checks.

pub mod error;
pub mod tls;

pub use error::SplitIoError;
