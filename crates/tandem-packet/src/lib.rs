//! Packet mode: IP packets in, verdicts and injected packets out (sans-IO).
//!
//! Is: the flow table, the reassembly of flights, the re-segmentation, presence, hints, anchoring and the failsafe of packet mode.
//! Is not: netfilter, sockets or a clock; those are `tandem-io`'s.
//!
//! Invariants: every [`Ticket`] handed in receives exactly one [`Verdict`]; the sequence space of the endpoints never changes; in doubt, a packet is accepted as it is.
#![forbid(unsafe_code)]

mod output;

pub use output::{Direction, Event, Output, Ticket, Verdict, Wakeup};
