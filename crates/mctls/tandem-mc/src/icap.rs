//! A client of ICAP (RFC 3507), the protocol by which proxies ask content filters.
//!
//! Is: what a server says ([`reply`]), where it is and what it can do ([`server`]), one message
//! handed to it ([`exchange`]). Is not: what becomes of the message ([`crate::boxes`]); ICAP over
//! TLS; a server.
//!
//! Invariants: one ICAP request for each HTTP message, each with an answer or an error in bounded
//! time; bodies are passed on as they come, and at most [`exchange::MAX_FEED`] bytes wait; a
//! connection is used again only after a whole answer to a whole request.

pub(crate) mod exchange;
pub(crate) mod reply;
pub(crate) mod server;
