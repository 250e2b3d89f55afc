//! DNS through the tunnel: at the client side, clients' messages come in and are answered from the
//! cache or by the far side; at the server side, a resolver is asked.
//!
//! Is: sockets, who waits for what, and how long. Is not: what a message says, which answers are
//! kept ([`tandem_tunnel::dns`]), or a resolver.
//!
//! Invariants: each client, and all of them, have a bounded number of questions open; a question
//! that others ask at the same time crosses once; each client is answered in bounded time, a
//! failure being an answer too; the server side asks the resolver that it is configured with and
//! nobody else, and uses the answer for nothing but answering.

mod forwarder;
mod ports;
mod resolver;

pub(crate) use forwarder::Forwarder;
pub(crate) use ports::Ports;
pub(crate) use resolver::Resolver;
