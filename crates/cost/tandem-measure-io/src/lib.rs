//! tandem-measure-io: the load generator for TLS, and HTTP without it, with its sockets, threads
//! and clock: many connections to one server, each phase timed, until the result is there; tables
//! and a page of it.
//!
//! Is not: a server's tool, nor one that looks inside it. What is counted as what is decided in
//! `tandem-measure`.
//!
//! Invariants: nothing is measured before the state is steady, or it is said. Each connection ends
//! within its time. A failure is counted by its kind.

#![deny(unsafe_code)]

mod board;
mod chain;
mod connection;
mod error;
mod failure;
mod offers;
mod page;
mod plan;
mod plots;
mod processor;
mod run;
mod security;
mod sessions;
mod table;
mod target;
mod timer;
mod tls;
mod witness;
mod worker;

pub use error::MeasureError;
pub use offers::{Cipher, Group, Identity, Offers};
pub use page::page;
pub use plan::{Plan, Resumption, TlsVersion, Trust};
pub use run::{Moment, measure};
pub use table::{comparison, table};
pub use target::{Target, origin};
