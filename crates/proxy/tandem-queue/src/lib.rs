//! tandem-queue: packets out of the kernel, by its packet queue, and back into it, by raw sockets.
//!
//! Is not: a decision on any packet, nor the rules that fill the queue (`tandem-firewall`).

pub mod queue;
pub mod raw;

mod error;

pub use error::QueueError;
