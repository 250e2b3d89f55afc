//! UDP through the tunnel: at the client side, what programs send by SOCKS5, and what would leave
//! by the link; at the server side, the sockets to servers (docs/adr/0025-udp.md).
//!
//! Is: sockets, and who waits for what. Is not: which way a payload crosses, how much waits and how
//! long a flow lasts ([`tandem_tunnel::Flow`]), nor SOCKS's bytes (`intake/socks.rs`).
//!
//! Invariants: flows are bounded in number, in all and for each client; the server side sends to
//! nobody but the target, which is allowed, and takes from nobody else; a flow of which nothing is
//! heard ends, and its end is not worth a packet of its own.

mod answers;
mod associations;
mod endpoint;
mod far;
mod flow_task;
mod icmp_limit;
mod near;
mod taken;

pub(crate) use associations::{Association, Associations};
pub(crate) use far::FarFlows;
pub(crate) use near::NearFlows;
pub(crate) use taken::{Queued, serve as serve_queued};
