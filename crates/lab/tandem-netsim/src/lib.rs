//! Simulated links, middleboxes and hosts, for the lab (in real time) and for
//! tests (in virtual time).
//!
//! What is here:
//! - [`link`]: the link emulator, used by both;
//! - [`element`]: what all that stands between two hosts has in common;
//! - [`nat`], [`firewall`], [`pep`] and [`middlebox`]: what meddles on the way;
//! - [`host`]: a simulated TCP endpoint, with [`script`]s for an application;
//! - [`world`]: hosts and elements in a line, in virtual time, with a [`trace`];
//! - [`conformance`]: the rules of the one shape, run over any element.
//!
//! What is not: sockets, threads, clocks. Time comes in as an argument; chance
//! comes from a seed; the same inputs give the same outputs.
//!
//! Every element has the one shape: `handle_input(.., now)`,
//! `handle_timeout(now)`, `poll_output()`, `poll_timeout()`. A caller drains
//! `poll_output` after every call, and calls `handle_timeout` no earlier than
//! `poll_timeout` says; earlier is harmless.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

pub mod conformance;
pub mod element;
mod error;
pub mod firewall;
pub mod host;
mod layout;
pub mod link;
pub mod middlebox;
pub mod nat;
pub mod pep;
pub mod script;
pub mod trace;
mod units;
pub mod world;

pub use element::{Element, Port};
pub use error::NetsimError;
pub use host::{Host, HostConfig};
pub use link::presets;
pub use link::{Link, LinkConfig};
pub use script::{Script, Step};
pub use units::{BitRate, Probability};
pub use world::{Failure, World};
