//! Simulated links, middleboxes and hosts, for the lab (in real time) and for
//! tests (in virtual time).
//!
//! What is here:
//! - [`link`]: the link emulator, used by both;
//!
//! What is not: sockets, threads, clocks. Time comes in as an argument; chance
//! comes from a seed; the same inputs give the same outputs.
//!
//! Every element has the one shape: `handle_input(.., now)`,
//! `handle_timeout(now)`, `poll_output()`, `poll_timeout()`. A caller drains
//! `poll_output` after every call, and calls `handle_timeout` no earlier than
//! `poll_timeout` says; earlier is harmless.

#![forbid(unsafe_code)]

mod error;
mod layout;
pub mod link;
mod units;

pub use error::NetsimError;
pub use link::presets;
pub use units::{BitRate, Probability};
