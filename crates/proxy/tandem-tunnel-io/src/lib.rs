//! tandem-tunnel-io: tunnel mode's adapter to the world: the ways in, the QUIC connection between
//! the two proxies, the connections to servers, UDP, DNS, the admin port.
//!
//! Is not: a protocol. What crosses a stream of the tunnel is decided by [`tandem_tunnel::Relay`];
//! nothing here looks into TLS.
//!
//! Invariants: an endpoint never sees the end of a stream (FIN) that the other endpoint did not
//! send, but a reset; neither direction of a connection waits for the other; what is queued for a
//! reader that is slow is bounded; rules that were set are removed, at the latest by the next
//! start.

pub mod config;
#[doc(hidden)]
pub mod fuzzing;
pub mod probe;

mod admin;
mod authorities;
mod board;
mod client_side;
mod clock;
mod datagrams;
mod detour;
mod dial;
mod dns;
mod endpoint;
mod error;
mod intake;
mod keeper;
mod kept;
mod limits;
mod line;
mod link_state;
mod lookups;
mod names;
mod own_addresses;
mod relay_task;
mod renewals;
mod return_path;
mod server_side;
mod shared;
mod signals;
mod silence;
mod spending;
mod transport;
mod watch;
mod way_out;
mod whole;

#[cfg(test)]
mod tests;

pub use client_side::{dry_run_client_side, rule_set, run_client_side};
pub use error::TunnelError;
pub use server_side::{dry_run_server_side, run_server_side, server_side_rule_set};
