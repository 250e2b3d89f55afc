//! What travels between the proxies.
//!
//! Is: the in-band messages of packet mode: TCP options ([`option`]), the frame in place of
//! a flight ([`frame`]) and the one that says what is held ([`publication`]), and the key that
//! vouches for all. Is not: sockets, the encoding of a delta, or the decision to send one.
//!
//! Invariant: nothing here allocates more than the message it reads or writes.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

pub mod describe;
mod flow;
pub mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod key;
pub mod option;
pub mod publication;
pub mod version;

pub use flow::FlowId;
pub use key::{Key, KeyError};
pub use version::{Spoken, Version};
