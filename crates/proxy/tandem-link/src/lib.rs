//! What travels between the proxies.
//!
//! Is: a module for each way in which the proxies reach each other: [`inband`], in the packets of
//! the connections themselves; [`tunnel`], on the streams of a connection between the proxies. Is
//! not: sockets, the encoding of a delta or of a filter, or the decision to send one.
//!
//! Invariant: nothing here allocates more than the message it reads or writes.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

#[doc(hidden)]
pub mod fuzzing;
pub mod inband;
pub mod tunnel;
