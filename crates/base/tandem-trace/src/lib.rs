//! From a capture to rows: pcap and pcapng (plain or in gzip) out of anything that reads, to TCP
//! connections, to one [`Handshake`] for each TLS handshake in them.
//!
//! Not a protocol analyser, and not the proxies: nothing is judged, rewritten or sent. Whoever
//! reads a capture (the estimate, a report, the cost of a link) takes the rows and makes figures
//! of them.
//!
//! ```text
//! capture -> link_type -> tunnel -> segment -> tracker -> connection -> session -> rows
//!  frames    IP packets   unpacked  TCP        table      order, hello   handshake
//! ```
//!
//! Beside that, for the lab, which captures at both ends: [`Exchange`], one connection as client
//! and server saw it, with the time of each byte.
//!
//! Invariants: memory is bounded by [`Limits`] whatever the capture holds; any input gives a trace
//! or an error, never a panic; what could not be read is in [`Trace::damage`], never silently
//! missing.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

mod capture;
mod connection;
mod damage;
mod datagram;
mod error;
mod exchange;
mod facts;
#[doc(hidden)]
pub mod fuzzing;
mod limits;
mod link_type;
mod moment;
mod opening;
mod read;
mod rows;
#[doc(hidden)]
pub mod samples;
mod seen;
mod segment;
mod session;
mod tally;
mod tracker;
mod tunnel;

pub use damage::{Damage, DamageClass};
pub use error::TraceError;
pub use exchange::{Exchange, Stream, StreamPair};
pub use facts::CaptureFacts;
pub use limits::Limits;
pub use moment::Moment;
pub use opening::{Dialogue, Role};
pub use read::{Trace, read};
pub use rows::Rows;
pub use seen::Seen;
pub use session::{Ending, Flight, Handshake, ServerChain, ServerExtras, Stop};
pub use tally::{Part, PartTally, Tally};
pub use tunnel::Tunnel;
