//! tandem-packet-io: packet mode's adapter to Linux: the packet queue, the firewall's rules, raw
//! sockets, the event loop, the admin port.
//!
//! Is not: a protocol. What becomes of a packet is decided by an [`engine::Engine`]; nothing here
//! looks into TCP or TLS.
//!
//! Invariants: what is in doubt goes on unaltered; rules that were set are removed, at the latest
//! by the next start.

pub mod config;
pub mod daemon;
pub mod engine;
pub mod error;
pub mod off;
pub mod status;

mod admin;
mod inject;
mod metrics;
mod rules;

pub use error::IoError;
pub use tandem_queue::QueueError;
