//! tandem-mc: HTTP/1.1 over multi-context TLS: a server of files, a client, middleboxes that are
//! ready to be started, and the table that says who may do what, and who did.
//!
//! Is: HTTP divided among contexts, a layer that makes a middlebox for HTTP a page of code
//! ([`service`]), and the program. Is not: the protocol, which is `mctls`'s; HTTP/2.
//!
//! Invariants: each kind of middlebox has the rights of the paper's table 1 and no more; what came
//! through is vouched for, or it is said, with the party that is to blame where the protocol can
//! tell; names and addresses are logged at DEBUG at most, contents never.
#![forbid(unsafe_code)]

pub mod boxes;
pub mod certificates;
pub mod cheat;
pub mod demo;
pub mod discover;
mod error;
#[doc(hidden)]
pub mod fuzzing;
pub mod gateway;
pub mod get;
pub mod http;
mod icap;
pub mod layout;
pub mod middlebox;
pub mod offers;
pub mod paper;
pub mod report;
pub mod serve;
pub mod service;
mod sessions;
pub mod settings;
pub mod table;
pub mod via;

pub use error::McError;
