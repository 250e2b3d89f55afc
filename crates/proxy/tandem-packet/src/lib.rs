//! Packet mode: IP packets in, verdicts and injected packets out (sans-IO).
//!
//! Is: the flow table, the reassembly of flights, the re-segmentation, presence, hints, anchoring
//! and the failsafe of packet mode. Is not: netfilter, sockets or a clock; those are
//! `tandem-packet-io`'s.
//!
//! Invariants: every [`VerdictToken`] handed in receives exactly one [`Verdict`]; the sequence
//! space of the endpoints never changes; in doubt, a packet is accepted as it is.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

mod acks;
mod breaker;
mod client_side;
mod config;
mod context;
mod flow;
mod forgotten;
mod format;
#[doc(hidden)]
pub mod fuzzing;
pub mod gain;
mod hello;
mod inbound;
mod output;
mod pace;
mod paws;
mod proxy;
mod reader;
mod segment;
mod server_side;
mod table;
mod watch;
mod writer;

pub use config::{ClientCertificates, Config, Limits, Role, WireFormat};
pub use output::{Direction, Event, GiveUp, Meddling, Output, Verdict, VerdictToken, Wakeup};
pub use proxy::{Gauges, Proxy};
