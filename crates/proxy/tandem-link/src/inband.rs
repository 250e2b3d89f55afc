//! What travels in the packets of the connections themselves: packet mode.
//!
//! Is: the proxies' TCP options ([`option`]), the frame in place of a flight ([`frame`]), the one
//! that says what is held ([`publication`]), and the key that vouches for all. Is not: what a
//! filter or a delta says; those are carried as they are.

pub mod describe;
mod flow;
pub mod frame;
#[cfg(test)]
mod golden;
mod key;
pub mod option;
pub mod publication;
pub mod version;

pub use flow::FlowId;
pub use key::{Key, KeyError};
pub use version::{Spoken, Version};
