//! Packet mode: IP packets in, verdicts and injected packets out (sans-IO).
//!
//! Is: the flow table, the reassembly of flights, the re-segmentation, presence, hints, anchoring
//! and the failsafe of packet mode. Is not: netfilter, sockets or a clock; those are
//! `tandem-packet-io`'s.
//!
//! It is TCP only: what is to be made of the bytes is `tandem-engine`'s, which is handed streams
//! and hands back grounds, plans and events; no kind of object has a name here.
//!
//! | file | is |
//! |---|---|
//! | `proxy`, with `table` and `forgotten` | which flow a packet is of; bounds, time-outs |
//! | `flow` | the four states of a flow |
//! | `client_side`, `server_side` | what each side does with a segment |
//! | `common` | what a flow has at either side |
//! | `watch` | both directions put in order, and read along by the engine |
//! | `writer`, in the `format` that is configured | a flight held, written, repeated, given up |
//! | `inbound`, with `reader` | what arrives told apart, rebuilt, asked for |
//! | `segment`, `paws` | segments cut and edited; the timestamps that make them harmless |
//! | `pace`, `hello`, `acks` | when a repeat says anything, and which acknowledgements cross |
//! | `breaker`, `gain` | paths on which nothing is rewritten, servers that get no offer |
//! | `summary` | what a handshake cost, for the admin page |
//! | `config`, `context`, `output` | what goes in, what a flow works with, what comes out |
//!
//! Invariants: every [`VerdictToken`] handed in receives exactly one [`Verdict`]; the sequence
//! space of the endpoints never changes; in doubt, a packet is accepted as it is.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

mod acks;
mod breaker;
mod client_side;
mod common;
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
mod summary;
mod table;
mod watch;
mod writer;

pub use config::{ClientCertificates, Config, Limits, Role, WireFormat};
pub use output::{Direction, Event, GiveUp, Meddling, Output, Verdict, VerdictToken, Wakeup};
pub use proxy::{Gauges, Proxy};
pub use summary::Summary;
